"""How far e-graphs grow: at most a stated multiple of the program, also where classes hold moves of themselves.

A rule that finds as many sources of a move as the class holds never ends on these programs: it doubles the class, then
squares it. Here the largest e-graph of a run counts, not the last one."""

from __future__ import annotations

import math

import numpy as np
import pytest

import egshape
from benchmarks.chains import KINDS
from benchmarks.chains import chain as chain_of
from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.pipeline import Limits, run_stages
from egshape.trace import Tracer
from tests.fuzz.differential import constant, graph_of
from tests.fuzz.units import unit_program

BASE, EACH = 280, 14
"""E-nodes of an empty program (shapes of zeros and ones of every rank), and more for each op."""

LIMITS = Limits(seconds=60, nodes=20_000, memory_mb=None)


def largest(graph: Graph) -> int:
    """The number of e-nodes at the worst moment of a run that comes to an end by itself."""
    found = run_stages(graph, graph.facts, (), LIMITS, Tracer())
    assert found.outcome.status == "saturated", found.outcome.grew_most
    return max(found.outcome.nodes, *(step.nodes for step in found.outcome.steps))


def assert_bounded(graph: Graph) -> None:
    assert largest(graph) <= BASE + EACH * len(graph.ops), str(graph)


@pytest.mark.parametrize("seed", range(12))
def test_programs_of_one_element_stay_small(seed: int) -> None:
    assert_bounded(unit_program(seed))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 700, 20))
def test_more_programs_of_one_element_stay_small(start: int) -> None:
    for seed in range(start, start + 20):
        assert_bounded(unit_program(seed, most=40 if seed % 4 else 160))


def chain(length: int) -> tuple[BlockBuilder, Value]:
    """One constant of one element through all that can be done to it and changes nothing."""
    b = BlockBuilder()
    one = const(1)
    x = b.one("broadcast_in_dim", (constant(b, 0, "i32"),), {"dims": (), "shape": (one,)})
    for step in range(length):
        x = b.one(("add", "multiply", "maximum")[step % 3], (x, x))
        x = b.one("reshape", (x,), {"shape": ((), (one, one), (one,))[step % 3]})
        x = b.one("broadcast_in_dim", (x,), {"dims": tuple(range(x.type.rank)), "shape": (one,) * (x.type.rank + 1)})
        x = b.one("transpose", (x,), {"permutation": tuple(reversed(range(x.type.rank)))})
        x = b.one("reshape", (x,), {"shape": (one,)})
    return b, x


@pytest.mark.parametrize("length", [1, 4, 16])
def test_a_constant_that_is_a_move_of_itself(length: int) -> None:
    b, x = chain(length)
    assert_bounded(graph_of(b, x))


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0)])
def test_a_slice_of_itself(sizes: tuple[int, int]) -> None:
    """A concatenation with a part of no element is its other part, and the slice of it that is this part is itself."""
    b = BlockBuilder()
    parts = [b.arg(name, "f32", [size]) for name, size in zip("xy", sizes, strict=True)]
    joined = b.one("concatenate", parts, {"dim": 0})
    first, whole = const(sizes[0]), const(sum(sizes))
    cut = [
        b.one("slice", (joined,), {"starts": (start,), "limits": (limit,), "strides": (const(1),)})
        for start, limit in ((const(0), first), (first, whole))
    ]
    graph = graph_of(b, b.one("concatenate", cut, {"dim": 0}))
    assert_bounded(graph)
    assert len(egshape.optimize(graph).graph.ops) == 0


@pytest.mark.parametrize("length", [8, 64])
def test_a_chain_of_slices(length: int) -> None:
    """Each slice knows log2(length) of those before it, not all of them, nor all ways to them."""
    b = BlockBuilder()
    x = b.arg("x", "f32", [2 * length + 1])
    for step in range(length):
        limit = const(2 * (length - step))
        x = b.one("slice", (x,), {"starts": (const(1),), "limits": (limit,), "strides": (const(1),)})
    graph = graph_of(b, x)
    assert largest(graph) <= BASE + 5 * length * math.log2(length)
    assert len(egshape.optimize(graph).graph.ops) == 1


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"size_selects"}))
def test_a_chain_of_twice_the_length_grows_twice_as_much(kind: str) -> None:
    """Reshapes to different shapes compose with each shape before: four times."""
    short, middle, long = (largest(chain_of(kind, length)) for length in (24, 48, 96))
    assert long - middle <= (4.5 if kind == "reshapes" else 2.6) * (middle - short)


@pytest.mark.parametrize("count", [8, 32])
def test_selects_of_splats_of_one_element(count: int) -> None:
    """What a gather that fills with NaN was exported as: select over folded constants of one element."""
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, 1], ["n", None])
    fill = constant(b, float("nan"), "f32")
    value: Value = x
    for _ in range(count):
        low, high = (b.one("reshape", (constant(b, each, "i32"),), {"shape": (const(1),)}) for each in (0, 3))
        inside = b.one("compare", (low, high), {"direction": "LE", "kind": "SIGNED"})
        mask = b.one("broadcast_in_dim", (inside,), {"dims": (1,), "shape": (symbol("n"), const(1))})
        splat = b.one("broadcast_in_dim", (fill,), {"dims": (), "shape": (symbol("n"), const(1))})
        value = b.one("select", (mask, value, splat), {})
    graph = graph_of(b, value)
    assert_bounded(graph)
    assert len(egshape.optimize(graph).graph.ops) == 0


def test_programs_of_jax_end() -> None:
    """jnp.unique, a categorical draw and a filling gather: their constants of one element are moves of themselves."""
    jax = pytest.importorskip("jax")
    numpy, export = jax.numpy, jax.export
    (b,) = export.symbolic_shape("b")
    programs = [
        (lambda x: numpy.unique(x, size=4), [jax.ShapeDtypeStruct((b,), "int32")]),
        (jax.random.categorical, [jax.ShapeDtypeStruct((2,), "uint32"), jax.ShapeDtypeStruct((b, 4), "float32")]),
        (
            lambda x, i: numpy.take(x, i, axis=0, mode="fill"),
            [jax.ShapeDtypeStruct((10, 10, 10), "float32"), jax.ShapeDtypeStruct((), "int32")],
        ),
    ]
    for function, arguments in programs:
        assert_bounded(egshape.load(export.export(jax.jit(function))(*arguments)))


def test_an_onnx_size_that_is_pinned_ends() -> None:
    """Shape, Slice, //8, *8, Slice, Tanh with n == 8: every size of it is a constant of one element."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    constants = {"zero": 0, "one": 1, "eight": 8}
    nodes = [
        ("Shape", "x", "s"),
        ("Slice", "s zero one", "n"),
        ("Div", "n eight", "q"),
        ("Mul", "q eight", "m"),
        ("Slice", "x zero m", "y"),
        ("Tanh", "y", "out"),
    ]
    graph = helper.make_graph(
        [helper.make_node(op, inputs.split(), [output]) for op, inputs, output in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["k"])],
        [numpy_helper.from_array(np.array([value], np.int64), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    loaded = egshape.load(model.SerializeToString(), format="onnx")
    for assume in ("n == 8", "n in [8, 8]", "n == 9"):
        result = egshape.optimize(loaded, assume, limits=LIMITS, validate=False)
        assert result.report.status == "saturated"
        assert result.optimized.outcome.nodes <= BASE + EACH * len(loaded.ops)
