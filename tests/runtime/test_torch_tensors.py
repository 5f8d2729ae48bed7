"""torch's tensors at the call of what is compiled, loaded or interpreted: read where they lie, results as tensors."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fresh import with_artifact

pytest.importorskip("llvmlite")
pytest.importorskip("torch", reason="torch is not installed: its tensors are not tried")

import torch

import egshape
from egshape.errors import EgshapeError
from egshape.ir.text import parse_graph
from egshape.runtime.core import dlpack
from egshape.runtime.core.torch_tensors import array_of, tensor_of

SUM = """graph add(%x: DTYPE[n, 4], %y: DTYPE[n, 4]) {
  symbols n = size(%x, 0)
  %z: DTYPE[n, 4] = add(%x, %y)
  return %z as z
}"""
TWO = """graph two(%x: f32[n, 4], %y: f32[n, 4]) {
  symbols n = size(%x, 0)
  %z: f32[n, 4] = add(%x, %y)
  %w: f32[n, 4] = multiply(%x, %y)
  return %z as z, %w as w
}"""
SCALAR = """graph scalar(%x: f32[]) {
  %z: f32[] = negate(%x)
  return %z as z
}"""
KINDS = ("llvm", "loaded", "interpret")


def compiled(text: str, kind: str = "llvm", folder: Path | None = None) -> Any:
    graph = parse_graph(text)
    if kind == "interpret":
        return egshape.compile(graph, "interpret", optimize=False)
    function = egshape.compile(graph, "llvm", optimize=False)
    if folder is None:
        return function
    function.save(folder / "f.egx")
    return egshape.runtime.load(folder / "f.egx")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path | None]:
    return request.param, tmp_path if request.param == "loaded" else None


def test_this_torch_has_exchange_functions() -> None:
    """A private name of no one: what DLPack 1.3 declares. A torch without it is read through numpy."""
    assert dlpack.exchange(torch.Tensor) is not None
    assert dlpack.exchange(torch.nn.Parameter) is not None


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("f32", "float32"), ("f64", "float64"), ("f16", "float16"), ("bf16", "bfloat16"), ("i64", "int64")],
)
@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_tensors_in_and_out(kind: tuple[str, Path | None], dtype: str, name: str, rows: int) -> None:
    function = compiled(SUM.replace("DTYPE", dtype), *kind)
    x = torch.arange(rows * 4).reshape(rows, 4).to(getattr(torch, name))
    for _ in range(2):  # the first call learns the type, the second one reads it natively
        found = function(x, x + 1)
        assert type(found) is torch.Tensor
        assert found.dtype == x.dtype
        assert torch.equal(found, x + (x + 1))


def test_native_code_reads_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a call goes through numpy once the type is known."""
    function = compiled(SUM.replace("DTYPE", "bf16"))
    x, weight = torch.ones(3, 4, dtype=torch.bfloat16), torch.nn.Parameter(torch.ones(3, 4, dtype=torch.bfloat16))
    function(x, weight)
    monkeypatch.setattr(function, "_arrays", lambda inputs: pytest.fail("read through Python"))
    assert torch.equal(function(x, weight), x + 1)
    assert torch.equal(function(weight, x[:1].expand(1, 4).repeat(3, 1)), x + 1)
    assert function(x[:0], x[3:]).shape == (0, 4)


def test_what_does_not_lie_row_by_row() -> None:
    function = compiled(SUM.replace("DTYPE", "f32"))
    x = torch.arange(24.0).reshape(4, 6)
    for view in (x.t()[:, :4], x[:, 1:5], x[:, ::2].repeat(1, 2)[:, :4], x[:1, :1].expand(3, 4), x.flip(0)[1:, :4]):
        assert torch.equal(function(view, view), view + view)
    odd = torch.arange(21.0)[1:].reshape(5, 4)  # aligned to its elements only
    assert torch.equal(function(odd, odd), odd + odd)


def test_lazy_signs_are_resolved() -> None:
    function = compiled(SCALAR)
    for place in range(4):
        imaginary = torch.complex(torch.ones(4), torch.ones(4)).conj().imag[place]
        assert imaginary.is_neg()
        assert function(imaginary).item() == 1.0


def test_signs_of_memory_that_native_code_could_read() -> None:
    function = compiled(SUM.replace("DTYPE", "f32"))
    x = torch.arange(8.0).reshape(2, 4)
    lazy = torch._neg_view(x)
    assert lazy.is_contiguous() and lazy.data_ptr() == x.data_ptr() and lazy.is_neg()
    for _ in range(3):  # also in the call in which the type is learnt
        assert function(lazy, x).tolist() == torch.zeros(2, 4).tolist()
    out = torch.empty(2, 4)
    function(lazy, lazy, out=out)
    assert out.tolist() == (-2 * x).tolist()


def test_parameters_and_gradients(kind: tuple[str, Path | None]) -> None:
    function = compiled(SUM.replace("DTYPE", "f32"), *kind)
    weight, x = torch.nn.Parameter(torch.ones(2, 4)), torch.ones(2, 4, requires_grad=True)
    for _ in range(2):
        found = function(weight, x * 3)
        assert torch.equal(found, torch.full((2, 4), 4.0))
        assert not found.requires_grad


def test_scalars(kind: tuple[str, Path | None]) -> None:
    function = compiled(SCALAR, *kind)
    for _ in range(2):
        found = function(torch.tensor(2.5))
        assert found.shape == ()
        assert found.item() == -2.5


def test_the_rule_of_results(kind: tuple[str, Path | None]) -> None:
    """One tensor among the inputs is enough, whatever calls came before."""
    function = compiled(TWO, *kind)
    x, y = np.ones((2, 4), np.float32), torch.ones(2, 4)
    for _ in range(2):
        assert {type(each) for each in function(x, x)} == {np.ndarray}
        assert {type(each) for each in function(x, y)} == {torch.Tensor}
        assert {type(each) for each in function(x=y, y=x)} == {torch.Tensor}


def test_out() -> None:
    function = compiled(TWO)
    x = torch.ones(3, 4)
    z, w = torch.zeros(3, 4), np.zeros((3, 4), np.float32)
    before = z._version
    found = function(x, x, out=[z, None])
    assert found[0] is z
    assert type(found[1]) is torch.Tensor
    assert torch.equal(z, x + x)
    assert z._version > before
    found = function(x, x, out=[None, w])
    assert found[1] is w
    assert type(found[0]) is torch.Tensor
    single = compiled(SUM.replace("DTYPE", "bf16"))
    half, into = torch.ones(2, 4, dtype=torch.bfloat16), torch.zeros(2, 4, dtype=torch.bfloat16)
    assert single(half, half, out=into) is into
    assert torch.equal(into, half + half)
    assert len(function._calls) == 1  # tables are reused


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (lambda x: torch.zeros(4, 2).t().contiguous().t(), "shape|contiguous"),
        (lambda x: torch.zeros(4, 4)[:, ::2].t(), "contiguous"),
        (lambda x: torch.zeros(2, 4, requires_grad=True), "requires grad"),
        (lambda x: torch.zeros(2, 4, dtype=torch.float64), "float32"),
        (lambda x: x, "overlaps"),
    ],
)
def test_an_out_that_cannot_be_written(out: Any, message: str) -> None:
    function = compiled(SUM.replace("DTYPE", "f32"))
    x = torch.ones(2, 4)
    with pytest.raises(EgshapeError, match=message):
        function(x, x, out=out(x))
    assert torch.equal(x, torch.ones(2, 4))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(2, 4, dtype=torch.float64), "'x' wants elements of float32, got float64"),
        (torch.ones(2), "'x' wants rank 2"),
        (torch.ones(2, 4, device="meta"), "'x' cannot be read as an array"),
        (torch.ones(2, 4).to_sparse(), "'x' cannot be read as an array"),
    ],
)
def test_tensors_that_do_not_fit(x: Any, message: str) -> None:
    function = compiled(SUM.replace("DTYPE", "f32"))
    good = torch.ones(2, 4)
    for _ in range(2):
        with pytest.raises(EgshapeError, match=message):
            function(x, good)
        assert torch.equal(function(good, good), good + good)


def test_a_size_that_does_not_fit_names_input_and_axis() -> None:
    function = compiled(SUM.replace("DTYPE", "f32"))
    for _ in range(2):
        with pytest.raises(EgshapeError, match="y"):
            function(torch.ones(2, 4), torch.ones(3, 4))


@pytest.mark.long_but("3")
@pytest.mark.parametrize("rows", [3, 40_000])
def test_results_keep_their_memory(rows: int) -> None:
    """Small results lie in numpy's memory, large ones in blocks that are used again: not while a tensor is on it."""
    function = compiled(SUM.replace("DTYPE", "f32"))
    kept, views = [], []
    for number in range(6):
        x = torch.full((rows, 4), float(number))
        found = function(x, x)
        kept.append(found)
        views.append(function(x, x)[1:].t().numpy())
        del x, found
        gc.collect()
    for number, (whole, part) in enumerate(zip(kept, views, strict=True)):
        assert bool((whole == 2 * number).all())
        assert (part == 2 * number).all()


def test_inputs_are_held_no_longer_than_a_call() -> None:
    function = compiled(SUM.replace("DTYPE", "f32"))
    x = torch.ones(3, 4)
    function(x, x)
    before = sys.getrefcount(x)
    for _ in range(50):
        function(x, x)
    assert sys.getrefcount(x) == before


def test_from_several_threads() -> None:
    function = compiled(SUM.replace("DTYPE", "f32"))

    def run(number: int) -> bool:
        x = torch.full((number % 5, 4), float(number))
        return all(torch.equal(function(x, x), x + x) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(40)))


def test_subclasses_are_read_through_python() -> None:
    class Mine(torch.Tensor):
        pass

    function = compiled(SUM.replace("DTYPE", "f32"))
    x = torch.ones(2, 4).as_subclass(Mine)
    for _ in range(2):
        found = function(x, x)
        assert torch.equal(found.as_subclass(torch.Tensor), torch.full((2, 4), 2.0))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "bool", "int8"])
def test_elements_there_and_back(name: str) -> None:
    tensor = torch.tensor([0.0, 1.0, 2.0]).to(getattr(torch, name))
    found = tensor_of(array_of(tensor))
    assert found.dtype == tensor.dtype
    assert found.data_ptr() == tensor.data_ptr()


def test_a_dtype_that_torch_lacks_stays_an_array() -> None:
    import ml_dtypes

    array = np.zeros(3, ml_dtypes.int4)
    assert tensor_of(array) is array


def test_torch_is_not_imported_for_arrays(tmp_path: Path) -> None:
    compiled(SUM.replace("DTYPE", "f32")).save(tmp_path / "f.egx")
    calls = "x = np.ones((2, 4), np.float32); f(x, x); f(x, x, out=x + 0); f(x[::-1], x)"
    with_artifact(tmp_path / "f.egx", f"{calls}; assert 'torch' not in sys.modules")
