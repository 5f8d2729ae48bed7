"""Products of one left operand as one: the same numbers, fewer products, and nothing that is only copied."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the emulated device needs the extra llvm")

from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.ir.interpret import interpret
from egshape.ir.verify import verify
from egshape.plan.gpu.attention.find import SWITCH as ATTENTION
from egshape.plan.gpu.product.beside import SWITCH, beside
from egshape.plan.ir.program import Gemm, Run
from egshape.plan.targets import plan
from tests.cuda.device import Emulated, compiled
from tests.cuda.library import Library
from tests.fuzz.differential import argument, constant, graph_of, region

TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
B, S = symbol("b"), symbol("s")
WIDTH, HEADS, EACH = 16, 2, 8


def _linear(b: BlockBuilder, x: Value, seed: int, width: int, bias: bool, turned: bool = False) -> Value:
    rng, kind = np.random.default_rng(seed), TYPES[x.type.dtype]
    array = rng.normal(size=(width, WIDTH) if turned else (WIDTH, width)).astype(kind)
    right = b.one("constant", [], {"value": array})
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (2,), "rhs_contract": (int(turned),)}
    found = b.one("dot_general", [x, right], {**attrs, "dtype": x.type.dtype})
    if not bias:
        return found
    vector = b.one("constant", [], {"value": rng.normal(size=width).astype(kind)})
    return b.one("add", [b.one("broadcast_in_dim", [vector], {"dims": (2,), "shape": found.type.dims}), found])


def _gated(dtype: str, bias: tuple[bool, bool] = (True, True), widths: tuple[int, int] = (24, 24)) -> Graph:
    """tanh of a product times the first columns of another one."""
    b = BlockBuilder()
    x = argument(b, "x", dtype, [B, S, const(WIDTH)])
    one, two = (_linear(b, x, seed, width, add) for seed, (width, add) in enumerate(zip(widths, bias, strict=True)))
    limits, starts = (B, S, const(min(widths))), (const(0),) * 3
    one, two = (
        b.one("slice", [y], {"starts": starts, "limits": limits, "strides": (const(1),) * 3}) for y in (one, two)
    )
    return graph_of(b, b.one("multiply", [b.one("tanh", [one]), two]))


def _attention(dtype: str, turned: bool) -> Graph:
    """Attention of a sequence to itself."""
    b = BlockBuilder()
    x = argument(b, "x", dtype, [B, S, const(WIDTH)])
    heads: list[Value] = []
    for seed in range(3):
        y = _linear(b, x, seed, HEADS * EACH, True, turned)
        y = b.one("reshape", [y], {"shape": (B, S, const(HEADS), const(EACH))})
        heads.append(b.one("transpose", [y], {"permutation": (0, 2, 1, 3)}))
    q, k, v = heads
    batch = {"lhs_batch": (0, 1), "rhs_batch": (0, 1), "dtype": dtype}
    scores = b.one("dot_general", [q, k], {**batch, "lhs_contract": (3,), "rhs_contract": (3,)})
    whole: tuple[Dim, ...] = scores.type.dims
    (peak,) = b.add(
        "reduce", [scores, constant(b, -np.inf, dtype)], {"dims": (3,)}, regions=(region(b, "maximum", dtype),)
    )
    spread = {"dims": (0, 1, 2), "shape": whole}
    power = b.one("exponential", [b.one("subtract", [scores, b.one("broadcast_in_dim", [peak], spread)])])
    (total,) = b.add("reduce", [power, constant(b, 0, dtype)], {"dims": (3,)}, regions=(region(b, "add", dtype),))
    weights = b.one("divide", [power, b.one("broadcast_in_dim", [total], spread)])
    return graph_of(b, b.one("dot_general", [weights, v], {**batch, "lhs_contract": (3,), "rhs_contract": (2,)}))


def _equal(graph: Graph, products: int, tolerance: float) -> None:
    device = Emulated()
    library = Library(device)
    function = compiled(graph, device, library=library.functions)
    dtype = graph.inputs[0].type.dtype
    for shape in ((2, 5, WIDTH), (1, 1, WIDTH), (0, 3, WIDTH), (3, 0, WIDTH)):
        x = np.random.default_rng(5).normal(size=shape).astype(TYPES[dtype])
        before = library.calls["cublasLtMatmul"]
        (wanted,) = interpret(graph, [x])
        found = function(x)
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), tolerance, tolerance)
        assert library.calls["cublasLtMatmul"] - before == (products if x.size else 0)
    assert not device.faults and not library.faults


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("bias", [(True, True), (False, False), (True, False)])
def test_a_gate(dtype: str, bias: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _gated(dtype, bias)
    verify(beside(graph))
    steps = plan(graph, target="cuda").steps
    assert [type(step) for step in steps] == [Gemm, Run]  # the vectors too are the library's, or read by what follows
    _equal(graph, 1, 1e-5 if dtype == "f32" else 5e-2)
    monkeypatch.setenv(SWITCH, "apart")
    assert sum(isinstance(step, Gemm) for step in plan(graph, target="cuda").steps) == 2
    monkeypatch.setenv(SWITCH, "together")
    with pytest.raises(EgshapeError, match="EGSHAPE_CUDA_BESIDE='together' is neither 'apart' nor 'joined'"):
        plan(graph, target="cuda")


@pytest.mark.parametrize("turned", [False, True])
def test_queries_keys_and_values(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ATTENTION, "fused")
    for dtype in ("f32", "bf16"):
        graph = _attention(dtype, turned)
        steps = plan(graph, target="cuda").steps
        assert [type(step) for step in steps] == [Gemm, Run], dtype  # attention reads them where they lie
        _equal(graph, 1, 2e-5 if dtype == "f32" else 8e-2)


def test_columns_of_several_widths() -> None:
    _equal(_gated("f32", widths=(8, 40)), 1, 1e-5)


def test_what_stays_apart() -> None:
    """Results that the program gives, a left operand of their own, constants of other depths, products by data."""
    b = BlockBuilder()
    x, y = (argument(b, name, "f32", [B, S, const(WIDTH)]) for name in "xy")
    one, two = _linear(b, x, 0, 8, False), _linear(b, x, 1, 8, False)
    graph = graph_of(b, one, b.one("tanh", [two]))
    assert beside(graph).body.ops == graph.body.ops
    b = BlockBuilder()
    x, y = (argument(b, name, "f32", [B, S, const(WIDTH)]) for name in "xy")
    both = [_linear(b, each, 0, 8, False) for each in (x, y)]
    graph = graph_of(b, b.one("multiply", both))
    assert beside(graph).body.ops == graph.body.ops
    b = BlockBuilder()
    x = argument(b, "x", "f32", [B, S, const(WIDTH)])
    right = [argument(b, name, "f32", [const(WIDTH), const(8)]) for name in "vw"]
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (2,), "rhs_contract": (0,), "dtype": "f32"}
    graph = graph_of(b, b.one("multiply", [b.one("dot_general", [x, each], attrs) for each in right]))
    assert beside(graph).body.ops == graph.body.ops
