"""Programs whose sizes are data, or clash as only regions and calls make them: the reference, the optimized program
and both compiled agree at which sizes they run, and nothing is written outside of a buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import pytest

import egshape
from egshape.adapters.native import compile_function
from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import OFFSET, BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.pipeline import entry_facts
from tests.fuzz.differential import bits
from tests.lower.checking import call

Array = np.ndarray
Inputs = Iterator[tuple[Array, ...]]


@pytest.fixture(autouse=True)
def zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGSHAPE_REDZONES", "1")


def stablehlo(signature: str, *lines: str) -> Graph:
    return egshape.load("\n".join([f"func.func @main{signature} {{", *lines, "}"]).encode(), format="mlir")


def f32(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def i32(*items: int) -> Array:
    return np.array(items, np.int32)


def top_k() -> tuple[Graph, Inputs]:
    """k is at most the size of the last axis."""
    return stablehlo(
        "(%a: tensor<?x?xf32>) -> (tensor<?x3xf32>, tensor<?x3xi32>)",
        "%v, %i = chlo.top_k(%a, k = 3) : tensor<?x?xf32> -> (tensor<?x3xf32>, tensor<?x3xi32>)",
        "return %v, %i : tensor<?x3xf32>, tensor<?x3xi32>",
    ), ((f32(a, b),) for a in (0, 2) for b in (0, 2, 3, 5))


def iota() -> tuple[Graph, Inputs]:
    """A size that is data is not negative."""
    return stablehlo(
        "(%s: tensor<2xi32>) -> tensor<?x?xf32>",
        "%0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> tensor<?x?xf32>",
        "return %0 : tensor<?x?xf32>",
    ), ((i32(a, b),) for a in (-5, -1, 0, 3) for b in (-1, 0, 2))


def reshape() -> tuple[Graph, Inputs]:
    """-1 is no size in StableHLO, nor are two sizes whose product is right."""
    shapes = ((2, 3), (-1, 3), (-2, -3), (0, 3), (2, 2), (-1, 0), (7, 0))
    return stablehlo(
        "(%a: tensor<?xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32>",
        "%0 = stablehlo.dynamic_reshape %a, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>",
        "return %0 : tensor<?x?xf32>",
    ), ((f32(n), i32(*shape)) for n in (0, 6) for shape in shapes)


def widening() -> tuple[Graph, Inputs]:
    """A wider element has as many parts as the last axis: the compiled code read 24 of 12 bytes."""
    return stablehlo(
        "(%a: tensor<?x?xf32>) -> tensor<?xf64>",
        "%0 = stablehlo.bitcast_convert %a : (tensor<?x?xf32>) -> tensor<?xf64>",
        "return %0 : tensor<?xf64>",
    ), ((f32(a, b),) for a in (0, 3) for b in (0, 1, 2, 4))


def update() -> tuple[Graph, Inputs]:
    """Starts are clamped, whatever they are; an update is not larger than the operand."""
    starts = (-(2**63), -1, 0, 2, 2**63 - 1)
    return stablehlo(
        "(%a: tensor<?xf32>, %u: tensor<?xf32>, %i: tensor<i64>) -> tensor<?xf32>",
        "%0 = stablehlo.dynamic_update_slice %a, %u, %i : (tensor<?xf32>, tensor<?xf32>, tensor<i64>) -> tensor<?xf32>",
        "return %0 : tensor<?xf32>",
    ), ((f32(n), -f32(m) - 1, np.array(i)) for n in (0, 3, 5) for m in (0, 1, 3, 4) for i in starts)


def slices() -> tuple[Graph, Inputs]:
    """Starts, limits and strides that are data."""
    given = product(
        ([0, 0], [-1, 0], [3, 4], [2**62, 0]),
        ([3, 4], [3, 5], [0, 0], [2**63 - 1, 2]),
        ([1, 1], [2, 3], [0, 1], [-1, 1]),
    )
    vector = "tensor<2xi64>"
    return stablehlo(
        f"(%a: tensor<?x?xf32>, %s: {vector}, %l: {vector}, %t: {vector}) -> tensor<?x?xf32>",
        f"%0 = stablehlo.real_dynamic_slice %a, %s, %l, %t : (tensor<?x?xf32>, {vector}, {vector}, {vector}) "
        "-> tensor<?x?xf32>",
        "return %0 : tensor<?x?xf32>",
    ), ((f32(3, 4), *map(np.array, each)) for each in given)


def pad() -> tuple[Graph, Inputs]:
    """Padding of two axes that is data, some of it negative: sizes stay within 64 bits on the way."""
    given = product(([0, 0], [-1, 2], [-5, 0]), ([0, 0], [1, -1]), ([0, 0], [1, 2], [-1, 0]))
    vector = "tensor<2xi64>"
    inputs = (
        (f32(*shape), np.float32(7), *map(np.array, each))
        for each in given
        for shape in ((0, 0), (1, 2), (3, 0), (2, 3))
    )
    return stablehlo(
        f"(%a: tensor<?x?xf32>, %v: tensor<f32>, %l: {vector}, %h: {vector}, %t: {vector}) -> tensor<?x?xf32>",
        f"%0 = stablehlo.dynamic_pad %a, %v, %l, %h, %t : (tensor<?x?xf32>, tensor<f32>, {vector}, {vector}, {vector}) "
        "-> tensor<?x?xf32>",
        "return %0 : tensor<?x?xf32>",
    ), inputs  # type: ignore[return-value]


def arms() -> tuple[Graph, Inputs]:
    """What an op behind wants of the arm that runs."""
    return stablehlo(
        "(%i: tensor<i32>, %a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32>",
        '%0 = "stablehlo.case"(%i) ({ stablehlo.return %a : tensor<?xf32> }, { stablehlo.return %b : tensor<?xf32> }) '
        ": (tensor<i32>) -> tensor<?xf32>",
        "%1 = stablehlo.add %0, %a : tensor<?xf32>",
        "return %1 : tensor<?xf32>",
    ), ((np.array(i, np.int32), f32(a), f32(b)) for i in (-1, 0, 1, 2) for a in (0, 2, 3) for b in (0, 2, 3))


def loop(states: bool) -> tuple[Graph, Inputs]:
    """Rounds that swap two values, whose sizes the loop states or lets change: the compiled code wrote one over the
    other."""
    b = BlockBuilder()
    n, x, y = b.arg("n", "i32", []), b.arg("x", "f32", [None], ["a"]), b.arg("y", "f32", [None], ["b"])
    head, body = b.child(), b.child()

    def args(inner: BlockBuilder) -> list[egshape.ir.graph.Value]:
        sizes = [x.type.dims[0], y.type.dims[0]] if states else [None, None]
        return [inner.arg(None, "i32", []), *(inner.arg(None, "f32", [size]) for size in sizes)]

    k, *_ = args(head)
    condition = head.finish([head.one("compare", (k, n), {"direction": "LT", "kind": "SIGNED"})])
    k, p, q = args(body)
    step = body.one("add", (k, body.one("constant", (), {"value": np.array(1, np.int32)})))
    zero = b.one("constant", (), {"value": np.array(0, np.int32)})
    results = b.add("while", (zero, x, y), regions=(condition, body.finish([step, q, p])))
    inputs = ((np.array(k, np.int32), f32(a), f32(c)) for k in (0, 1, 2) for a in (0, 2, 5) for c in (0, 2, 3))
    return Graph("loop", b.finish(results[1:]), ("p", "q")), inputs


def without_taps() -> tuple[Graph, Inputs]:
    """A kernel without an element on one axis, so that its lines are shorter than those of the result, behind which the
    compiled code wrote."""
    numbers = (0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3))
    b = BlockBuilder()
    x = b.arg("x", "f32", [1, None, None, 3], [None, "c", "h", None])
    kernel = b.arg("k", "f32", [2, None, None, None], [None, "c", "p", "q"])
    out = b.one(
        "convolution",
        (x, kernel),
        {
            "numbers": numbers,
            "strides": (2, 2),
            "padding": (const(0), symbol("p"), symbol("h"), const(3)),
            "lhs_dilation": (1, 1),
            "rhs_dilation": (1, 2),
            "reversal": (0, 0),
            "dtype": "f32",
        },
    )
    taps = ((0, 0), (0, 2), (2, 0), (1, 2))
    shapes = (((1, c, h, 3), (2, c, p, q)) for c in (0, 2) for h in (0, 3) for p, q in taps)
    return Graph("taps", b.finish([out]), ("out",)), ((f32(*one), f32(*two)) for one, two in shapes)


PROGRAMS: tuple[Callable[[], tuple[Graph, Inputs]], ...] = (
    top_k,
    iota,
    reshape,
    widening,
    update,
    slices,
    pad,
    arms,
    without_taps,
)


@pytest.mark.parametrize(
    "make",
    [*PROGRAMS, lambda: loop(True), lambda: loop(False)],
    ids=[*(each.__name__ for each in PROGRAMS), "loop_stated", "loop_free"],
)
def test_all_run_at_the_same_sizes(make: Callable[[], tuple[Graph, Inputs]]) -> None:
    graph, inputs = make()
    better = egshape.optimize(graph, validate=False, explain=False).graph
    runs: tuple[Callable[[Sequence[Array]], Sequence[Array]], ...] = (
        lambda arrays: call(plain, arrays),
        lambda arrays: interpret(better, arrays),
        lambda arrays: call(fast, arrays),
    )
    plain, fast = compile_function(graph), compile_function(better)
    kinds = set()
    for arrays in inputs:
        wanted = outcome(lambda arrays: interpret(graph, arrays), arrays)
        kinds.add(wanted if wanted is None else "runs")
        for which, run in zip(("compiled", "optimized", "optimized, compiled"), runs, strict=True):
            found = outcome(run, arrays)
            assert found == wanted, f"{which} at {[array.shape for array in arrays]} {arrays}"
    assert (None in kinds or graph.name in ("loop", "taps")) and kinds != {None}


def outcome(run: Callable[[Sequence[Array]], Sequence[Array]], arrays: Sequence[Array]) -> object:
    """Shapes and bits of the results; None where they are rejected, in one clear error."""
    try:
        return [(array.shape, bits(array)) for array in run([array.copy() for array in arrays])]
    except EgshapeError as error:
        assert error.code not in ("red-zone", "internal", "memory"), error
        return None


def test_an_element_with_an_offset_has_that_much_more_room() -> None:
    b = BlockBuilder()
    x, low = b.arg("x", "f32", [None], ["n"]), b.arg("low", "i32", [1])
    zeros = b.one("constant", (), {"value": np.zeros(1, np.int32)})
    b.one("pad", [x, b.arg("v", "f32", []), low, zeros, zeros], {})
    graph = Graph("g", b.finish([x]), ("out",))
    facts = [relation for relation, _ in entry_facts(graph, graph.facts)]
    assert [int(each.rhs.const or 0) for each in facts] == [2**31 - 1, OFFSET + 2**31 - 1]
