"""Products through a library: the native lookup and the descriptors of runtime/cublaslt.py against numpy, and what runs
where the library has nothing."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the emulated device needs the extra llvm")

import egshape
from egshape.dims import symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.lower.cuda import gemm
from egshape.plan.planner import plan
from egshape.plan.program import Gemm
from egshape.runtime import cublaslt
from tests.cuda.device import Emulated, compiled
from tests.cuda.library import Library
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import check_model

B, M, N, K = (symbol(name) for name in "bmnk")
SIZES = [(3, 4, 5, 6), (1, 1, 1, 1), (2, 0, 3, 4), (2, 3, 0, 4), (1, 7, 2, 0), (2, 3, 4, 5), (2, 3, 4, 5), (2, 3, 4, 5)]
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def test_both_sides_know_the_same_words() -> None:
    for name in ("KINDS", "KEY", "MADE", "ROW", "STATE"):
        assert getattr(gemm, name) == getattr(cublaslt, name), name


def _graph(dtype: str, out: str, left: str, right: str, bias: bool) -> Graph:
    """b products of sides whose axes lie in these orders, and a vector behind them."""
    size = dict(zip("bmnk", (B, M, N, K), strict=True))
    b = BlockBuilder()
    x, y = (argument(b, name, dtype, [size[axis] for axis in axes]) for name, axes in (("x", left), ("y", right)))
    attrs = {"lhs_batch": (left.index("b"),), "rhs_batch": (right.index("b"),), "lhs_contract": (left.index("k"),),
             "rhs_contract": (right.index("k"),), "dtype": out}
    found = b.one("dot_general", [x, y], attrs)
    if bias:
        vector = argument(b, "bias", out, [N])
        wide = b.one("broadcast_in_dim", [vector], {"dims": (2,), "shape": (B, M, N)})
        found = b.one("add", [found, wide])
    return graph_of(b, found)


def _check(graph: Graph, dtype: str, out: str, left: str, right: str, bias: bool, refuses: bool = False
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
        found = function(*arrays)
        tolerance = {"f32": 1e-5, "f64": 1e-12, "f16": 1e-2, "bf16": 5e-2}[out]
        np.testing.assert_allclose(found.astype(np.float64), wanted, tolerance, tolerance)
    assert not device.faults and not library.faults
    return device, library


@pytest.mark.parametrize(("left", "right"), [("bmk", "bkn"), ("bkm", "bkn"), ("bmk", "bnk"), ("bkm", "bnk"),
                                             ("mbk", "bkn"), ("bmk", "knb"), ("mbk", "nbk")])
@pytest.mark.parametrize("bias", [False, True])
def test_layouts(left: str, right: str, bias: bool) -> None:
    _, library = _check(_graph("f32", "f32", left, right, bias), "f32", "f32", left, right, bias)
    assert library.calls["cublasLtMatmul"] >= 3


@pytest.mark.parametrize(("dtype", "out"), cublaslt.KINDS)
def test_dtypes(dtype: str, out: str) -> None:
    _check(_graph(dtype, out, "bmk", "bkn", True), dtype, out, "bmk", "bkn", True)


def test_a_shape_is_made_once() -> None:
    device, library = _check(_graph("f32", "f32", "bmk", "bkn", False), "f32", "f32", "bmk", "bkn", False)
    shapes = {sizes for sizes in SIZES if all(sizes)}
    assert library.calls["cublasLtMatmulAlgoGetHeuristic"] == len(shapes)
    # the products with an empty side run in the step's own kernel, those without results not at all
    assert len([name for name in device.launched if "dot_general" in name]) == 1


def test_without_an_algorithm_the_kernel_runs() -> None:
    device, library = _check(_graph("bf16", "f32", "bmk", "bkn", True), "bf16", "f32", "bmk", "bkn", True, True)
    assert not library.calls["cublasLtMatmul"] and device.launched


def test_a_bias_is_added_by_the_library_and_the_rest_is_not() -> None:
    (step,) = plan(_graph("f32", "f32", "bmk", "bkn", True), target="cuda").steps
    assert isinstance(step, Gemm) and step.bias is not None
    assert (str(step.left.pitch), str(step.right.pitch)) == ("k", "n")


@pytest.mark.parametrize("name", ["bert_plain", "vit_patch"])
def test_models(name: str, shared_models: Path) -> None:
    device = Emulated()
    library = Library(device)
    graph = egshape.optimize(egshape.load(shared_models / f"{name}.mlir"), validate=False, explain=False).graph
    check_model(compiled(graph, device, library=library.functions), name, shared_models)
    assert library.calls["cublasLtMatmul"] and not device.faults and not library.faults
