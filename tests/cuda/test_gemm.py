"""Products through a library: the native lookup and the descriptors of runtime/cuda/cublaslt.py against numpy, and what
runs where the library has nothing."""

from __future__ import annotations

import gc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the emulated device needs the extra llvm")

import egshape
from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.plan.gpu.product import find as products
from egshape.plan.ir.program import Gemm, Run
from egshape.plan.targets import plan
from egshape.runtime.cuda import cublaslt
from egshape.runtime.cuda.algorithms import SWITCH
from egshape.runtime.cuda.function import CudaFunction
from tests.cuda.device import Emulated, compiled
from tests.cuda.library import Library
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import check_model

B, M, N, K = (symbol(name) for name in "bmnk")
SIZES = [(3, 4, 5, 6), (1, 1, 1, 1), (2, 0, 3, 4), (2, 3, 0, 4), (1, 7, 2, 0), (2, 3, 4, 5), (2, 3, 4, 5), (2, 3, 4, 5)]
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def _graph(dtype: str, out: str, left: str, right: str, bias: bool, residual: bool = False, gelu: str = "") -> Graph:
    """b products of sides whose axes lie in these orders, a vector and a residual behind them, and a GELU."""
    size = dict(zip("bmnk", (B, M, N, K), strict=True))
    b = BlockBuilder()
    x, y = (argument(b, name, dtype, [size[axis] for axis in axes]) for name, axes in (("x", left), ("y", right)))
    attrs = {
        "lhs_batch": (left.index("b"),),
        "rhs_batch": (right.index("b"),),
        "lhs_contract": (left.index("k"),),
        "rhs_contract": (right.index("k"),),
        "dtype": out,
    }
    found = b.one("dot_general", [x, y], attrs)
    if bias:
        vector = argument(b, "bias", out, [N])
        wide = b.one("broadcast_in_dim", [vector], {"dims": (2,), "shape": (B, M, N)})
        found = b.one("add", [found, wide])
    if residual:
        found = b.one("add", [argument(b, "residual", out, [B, M, N]), found])
    return graph_of(b, _gelu(b, found, gelu) if gelu else found)


def _gelu(b: BlockBuilder, x: Value, form: str) -> Value:
    """GELU: its tanh form as two libraries write it, or by erf."""

    def number(value: float) -> Value:
        one = b.one("constant", [], {"value": np.asarray(value, TYPES[x.type.dtype])})
        return b.one("broadcast_in_dim", [one], {"dims": (), "shape": (B, M, N)})

    def times(one: Value, two: Value) -> Value:
        return b.one("multiply", [one, two])

    if form == "erf":
        gate = b.one("erf", [times(x, number(0.5**0.5))])
    else:
        cube = times(number(0.044715), times(times(x, x), x))
        gate = b.one("tanh", [times(number((2 / np.pi) ** 0.5), b.one("add", [x, cube]))])
    one = b.one("add", [gate, number(1.0)])
    return times(x, times(number(0.5), one)) if form == "inside" else times(times(x, number(0.5)), one)


def _check(
    graph: Graph,
    dtype: str,
    out: str,
    left: str,
    right: str,
    bias: bool,
    refuses: bool = False,
    residual: bool = False,
    gelu: str = "",
) -> tuple[Emulated, Library]:
    device = Emulated()
    library = Library(device, refuses)
    function = compiled(graph, device, library=library.functions)
    rng = np.random.default_rng(3)
    for sizes in SIZES:
        size = dict(zip("bmnk", sizes, strict=True))
        arrays = [rng.normal(size=[size[axis] for axis in axes]).astype(TYPES[dtype]) for axes in (left, right)]
        wanted = np.einsum(f"{left},{right}->bmn", *(array.astype(np.float64) for array in arrays))
        if bias:
            arrays.append(rng.normal(size=size["n"]).astype(TYPES[out]))
            wanted = wanted + arrays[-1].astype(np.float64)
        if residual:
            arrays.append(rng.normal(size=wanted.shape).astype(TYPES[out]))
            wanted = wanted + arrays[-1].astype(np.float64)
        if gelu:
            wanted = wanted / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (wanted + 0.044715 * wanted**3)))
        found = function(*arrays)
        tolerance = {"f32": 1e-5, "f64": 1e-12, "f16": 1e-2, "bf16": 5e-2}[out]
        np.testing.assert_allclose(found.astype(np.float64), wanted, tolerance, tolerance)
    assert not device.faults and not library.faults
    return device, library


@pytest.mark.long_but("False-*")
@pytest.mark.parametrize(
    ("left", "right"),
    [("bmk", "bkn"), ("bkm", "bkn"), ("bmk", "bnk"), ("bkm", "bnk"), ("mbk", "bkn"), ("bmk", "knb"), ("mbk", "nbk")],
)
@pytest.mark.parametrize("bias", [False, True])
def test_layouts(left: str, right: str, bias: bool) -> None:
    _, library = _check(_graph("f32", "f32", left, right, bias), "f32", "f32", left, right, bias)
    assert library.calls["cublasLtMatmul"] >= 3


@pytest.mark.parametrize(("dtype", "out"), cublaslt.KINDS)
def test_dtypes(dtype: str, out: str) -> None:
    _check(_graph(dtype, out, "bmk", "bkn", True), dtype, out, "bmk", "bkn", True)


@pytest.mark.parametrize("shape", [(N, const(3)), (const(1), N, const(3)), (const(1), const(1), N, const(3))])
def test_a_bias_of_two_axes_is_added_by_the_library(shape: tuple[Dim, ...]) -> None:
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [B, M, K]), argument(b, "y", "f32", [K, N, const(3)])
    vector = argument(b, "bias", "f32", shape)
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (2,), "rhs_contract": (0,), "dtype": "f32"}
    dims = tuple(range(4 - len(shape), 4))
    wide = b.one("broadcast_in_dim", [vector], {"dims": dims, "shape": (B, M, N, const(3))})
    graph = graph_of(b, b.one("add", [wide, b.one("dot_general", [x, y], attrs)]))
    (step,) = plan(graph, target="cuda").steps
    assert isinstance(step, Gemm) and step.bias is not None
    device = Emulated()
    library = Library(device)
    function = compiled(graph, device, library=library.functions)
    sizes = {"b": 2, "m": 3, "n": 4, "k": 5}
    one, two, three = (
        np.random.default_rng(1).normal(size=[dim.evaluate(sizes) for dim in dims]).astype(np.float32)
        for dims in ((B, M, K), (K, N, const(3)), shape)
    )
    np.testing.assert_allclose(function(one, two, three), np.einsum("bmk,knd->bmnd", one, two) + three, 1e-5, 1e-5)
    assert library.calls["cublasLtMatmul"] == 1


@pytest.mark.long_but("True-bf16-f32")
@pytest.mark.parametrize(("dtype", "out"), [("f32", "f32"), ("f64", "f64"), ("bf16", "f32"), ("f16", "f16")])
@pytest.mark.parametrize("bias", [False, True])
def test_a_residual_is_added_by_the_library(dtype: str, out: str, bias: bool) -> None:
    graph = _graph(dtype, out, "bmk", "bkn", bias, True)
    (step,) = plan(graph, target="cuda").steps
    assert isinstance(step, Gemm) and step.residual is not None and (step.bias is not None) == bias
    device, library = _check(graph, dtype, out, "bmk", "bkn", bias, residual=True)
    assert library.calls["cublasLtMatmul"] and len(device.launched) == 1  # of the size without a depth
    _check(graph, dtype, out, "bmk", "bkn", bias, refuses=True, residual=True)


@pytest.mark.long_but("True-inside")
@pytest.mark.parametrize("form", ["inside", "outside"])
@pytest.mark.parametrize("bias", [False, True])
def test_gelu_is_computed_by_the_library_where_asked_for(
    form: str, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _graph("f32", "f32", "bmk", "bkn", bias, gelu=form)
    assert len(plan(graph, target="cuda").steps) == 2
    monkeypatch.setenv(products.GELU_SWITCH, "library")
    (step,) = plan(graph, target="cuda").steps
    assert isinstance(step, Gemm) and step.gelu
    _, library = _check(graph, "f32", "f32", "bmk", "bkn", bias, gelu=form)
    assert library.calls["cublasLtMatmul"]
    _check(graph, "f32", "f32", "bmk", "bkn", bias, refuses=True, gelu=form)
    half = _graph("bf16", "bf16", "bmk", "bkn", bias, gelu=form)
    (step,) = plan(half, target="cuda").steps
    assert isinstance(step, Gemm) and step.gelu


def test_gelu_by_erf_is_not_the_tanh_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(products.GELU_SWITCH, "library")
    first, *_ = plan(_graph("f32", "f32", "bmk", "bkn", True, gelu="erf"), target="cuda").steps
    assert isinstance(first, Gemm) and not first.gelu


def test_a_shape_is_made_once() -> None:
    device, library = _check(_graph("f32", "f32", "bmk", "bkn", False), "f32", "f32", "bmk", "bkn", False)
    shapes = {sizes for sizes in SIZES if all(sizes)}
    assert library.calls["cublasLtMatmulAlgoGetHeuristic"] == len(shapes)
    # the products with an empty side run in the step's own kernel, those without results not at all
    assert len([name for name in device.launched if "dot_general" in name]) == 1


def test_without_an_algorithm_the_kernel_runs() -> None:
    device, library = _check(_graph("bf16", "f32", "bmk", "bkn", True), "bf16", "f32", "bmk", "bkn", True, True)
    assert not library.calls["cublasLtMatmul"] and device.launched


def test_a_product_whose_row_was_not_made_is_computed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt where Python begins to fill a row leaves what stood there, which is another product's."""
    monkeypatch.setattr(cublaslt, "ROWS", 1)
    device = Emulated()
    library = Library(device)
    interrupts: list[int] = []
    filled = cublaslt.Products._filled

    def interrupted(self: cublaslt.Products, address: int, words: int, stream: int | None) -> int:
        return interrupts.pop() if interrupts else filled(self, address, words, stream)

    monkeypatch.setattr(cublaslt.Products, "_filled", interrupted)
    function = compiled(_graph("f32", "f32", "bmk", "bkn", False), device, library=library.functions)
    for m in (3, 5, 5, 5):
        x, y = (np.random.default_rng(m).normal(size=size).astype(np.float32) for size in ((2, m, 4), (2, 4, 6)))
        np.testing.assert_allclose(function(x, y), np.matmul(x, y), 1e-5, 1e-5)
        interrupts[:] = [0] if m == 3 else []
    assert library.calls["cublasLtMatmul"] == 3 and not device.faults


def test_a_benchmark_can_have_our_own_products(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _graph("bf16", "bf16", "mbk", "nbk", True)
    monkeypatch.setenv(products.SWITCH, "own")
    (step,) = plan(graph, target="cuda").steps
    assert isinstance(step, Run) and not isinstance(step, Gemm)
    device, library = _check(graph, "bf16", "bf16", "mbk", "nbk", True)
    assert not library.calls["cublasLtMatmul"] and device.launched
    monkeypatch.setenv(products.SWITCH, "cublas")
    with pytest.raises(EgshapeError, match="EGSHAPE_CUDA_PRODUCTS='cublas' is neither 'library' nor 'own'"):
        plan(graph, target="cuda")


def test_a_bias_is_added_by_the_library_and_the_rest_is_not() -> None:
    (step,) = plan(_graph("f32", "f32", "bmk", "bkn", True), target="cuda").steps
    assert isinstance(step, Gemm) and step.bias is not None
    assert (str(step.left.pitch), str(step.right.pitch)) == ("k", "n")


@pytest.mark.long_but("vit_patch")
@pytest.mark.parametrize("name", ["bert_plain", "vit_patch"])
def test_models(name: str, shared_models: Path) -> None:
    device = Emulated()
    library = Library(device)
    graph = egshape.optimize(egshape.load(shared_models / f"{name}.mlir"), validate=False, explain=False).graph
    check_model(compiled(graph, device, library=library.functions), name, shared_models)
    assert library.calls["cublasLtMatmul"] and not device.faults and not library.faults


def test_parts_of_a_sum_are_not_rounded() -> None:
    """The library may split a sum: 256 in bf16 and 1 more are 257 only if the parts are added in f32."""
    graph = _graph("bf16", "bf16", "bmk", "bkn", False)
    device = Emulated()
    library = Library(device)
    function = compiled(graph, device, library=library.functions)
    rng = np.random.default_rng(4)
    one, two = (rng.normal(size=size).astype(TYPES["bf16"]) for size in ((1, 8, 600), (1, 600, 8)))
    wanted = np.matmul(one.astype(np.float64), two.astype(np.float64)).astype(np.float32).astype(TYPES["bf16"])
    np.testing.assert_array_equal(function(one, two), wanted)
    assert library.calls["cublasLtMatmul"] == 1


def test_what_the_library_does_not_compute_is_noted() -> None:
    graph = _graph("f32", "f32", "bmk", "bkn", False)
    arrays = [np.ones(shape, np.float32) for shape in ((1, 2, 3), (1, 3, 4))]
    for options, said in (({"refuses": 1}, "f32 to f32, 1 x 2 x 4 x 3: "), ({"fails": 13}, "1 calls failed")):
        device = Emulated()
        library = Library(device, **options)
        function = compiled(graph, device, library=library.functions)
        np.testing.assert_array_equal(function(*arrays), np.full((1, 2, 4), 3, np.float32))
        (fault,) = function.library_faults()
        assert said in fault
    device = Emulated()
    library = Library(device)
    function = compiled(graph, device, library=library.functions)
    function(*arrays)
    assert library.calls["cublasLtMatmul"] and function.library_faults() == ()


def test_the_library_is_given_back() -> None:
    device = Emulated()
    library = Library(device)
    function = compiled(_graph("f32", "f32", "bmk", "bkn", False), device, library=library.functions)
    function(*(np.ones(shape, np.float32) for shape in ((1, 2, 3), (1, 3, 4))))
    del function
    gc.collect()
    assert not library.objects and not library.faults


def _timed(costs: list[int], broken: set[int], device: Emulated, gelu: str = "") -> tuple[CudaFunction, Library]:
    library = Library(device)
    library.costs, library.broken = costs, broken
    return compiled(_graph("f32", "f32", "bmk", "bkn", False, True, gelu), device, library=library.functions), library


def _numbers(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.normal(size=size).astype(np.float32) for size in ((1, n, 256), (1, 256, 256), (1, n, 256))]


def _exact(arrays: list[np.ndarray]) -> np.ndarray:
    return np.matmul(*(each.astype(np.float64) for each in arrays[:2])) + arrays[2]


def test_algorithms_are_timed_once_for_a_shape_where_that_is_wished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight the fastest that works is used, in graphs and by other tables of calls too."""
    monkeypatch.setenv(SWITCH, "timed")
    device = Emulated()
    function, library = _timed([9, 8, 2, 1, 3, 9, 9, 9, 0], {3}, device)
    assert max(library.costs) == 9 and len(library.costs) == 9  # the ninth is never proposed
    for number, stream in enumerate((None, None, None, 4242)):
        arrays = _numbers(256)
        np.testing.assert_allclose(function(*arrays, stream=stream, device=False), _exact(arrays), 1e-4, 1e-4)
        if not number:
            assert [library.used.count(each) for each in range(8)] == [4, 4, 5, 1, 4, 4, 4, 4]
    assert len(library.used) > 31 and set(library.used[29:]) == {2} and not device.faults and not library.faults
    assert function.library_faults() == () and device.calls["cuEventElapsedTime"] == 7
    events = device.calls["cuEventElapsedTime"]
    arrays = _numbers(320)
    np.testing.assert_allclose(function(*arrays), _exact(arrays), 1e-4, 1e-4)
    assert device.calls["cuEventElapsedTime"] == events + 7  # another shape
    function(*_numbers(2))
    assert device.calls["cuEventElapsedTime"] == events + 7 and library.used[-1] == 0  # too small to be worth it


def test_nothing_is_timed_while_a_stream_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "timed")
    device = Emulated()
    function, library = _timed([9, 1], set(), device, "inside")
    arrays = _numbers(256)
    wanted = function(*arrays)
    (state,) = function._loaded.libraries  # type: ignore[union-attr]
    state.rows[:] = 0  # as if other shapes had taken the row
    function._loaded.algorithms._chosen.clear()  # type: ignore[union-attr]
    before = len(library.used)
    np.testing.assert_array_equal(function(*arrays), wanted)
    assert device.calls["cuGraphLaunch"] == 1 and library.used[before:] == [0] and not device.faults


def test_a_result_over_its_residual_is_not_computed_twice() -> None:
    device = Emulated()
    _, library = _timed([9, 1], set(), device)
    driver = device.driver(library.functions)
    state = cublaslt.Products(library.functions, 0, lambda key, found, work, run, stream: found[0], 1)
    assert state._again({"kind": 0}, np.ones(12, np.int64), [1, 2, 3, 0, 3], 0) is None
    assert state._again({"kind": 0}, np.ones(12, np.int64), [1, 2, 3, 0, 4], 0) is not None
    state.close()
    assert driver.count == 1


def test_the_same_algorithm_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    function, library = _timed([9, 1], set(), Emulated())
    function(*_numbers(256))
    assert library.used == [0] and library.asked == {1}
    monkeypatch.setenv(SWITCH, "best")
    function, _ = _timed([9, 1], set(), Emulated())
    with pytest.raises(EgshapeError, match="EGSHAPE_CUDA_ALGORITHMS='best' is neither 'first' nor 'timed'"):
        function(*_numbers(256))
