"""How much an op computes is declared once: what compiled kernels count agrees with it, op by op."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from egshape.dims import Dim, const, symbol
from egshape.errors import Unsupported
from egshape.ir.builder import BlockBuilder
from egshape.ir.functions import function_region
from egshape.ir.graph import Graph, Op
from egshape.ops import REGISTRY
from egshape.ops.traits import WEIGHTS
from egshape.ops.work import of_step, steps
from egshape.plan.analysis.work import TIME, flops
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, graph_of

N = symbol("n")
SIZES = {"n": 13}
FAMILIES = {"unary": 1, "binary": 2, "ternary": 3}
DTYPES = dict.fromkeys(("not", "and", "or", "xor"), "i1")
DTYPES |= dict.fromkeys(("popcnt", "count_leading_zeros"), "i32")
DTYPES |= dict.fromkeys(("shift_left", "shift_right_arithmetic", "shift_right_logical"), "i32")
DTYPES |= dict.fromkeys(("real", "imag", "conj"), "c64")
ATTRS = {"bitcast_convert": {"dtype": "i32"}, "compare": {"direction": "LT", "kind": "FLOAT"}}
ELEMENTWISE = [decl.name for decl in REGISTRY if decl.family in FAMILIES and decl.name != "convert"]


def declared(op: Op) -> float:
    """Operations as a kernel counts them: a multiply-add is two."""
    each = sum(times * (2 if kind == "product" else 1) for kind, times in of_step(op, REGISTRY).items())
    return each * steps(op, REGISTRY).at(lambda size: float(size.evaluate(SIZES)))


def compiled(graph: Graph) -> int:
    """Operations of all kernels."""
    return sum(flops(step.kernel).evaluate(SIZES) for step in plan(graph).steps if isinstance(step, Run))


def one(name: str, shapes: Sequence[Sequence[Dim | int]], attrs: dict[str, object], *region: str) -> Graph:
    b = BlockBuilder()
    args = [argument(b, f"x{place}", "f32", shape) for place, shape in enumerate(shapes)]
    regions = [function_region(b, REGISTRY[name], args, each) for each in region]
    return graph_of(b, *b.add(name, args, attrs, regions=regions))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str) -> None:
    b, dtype, count = BlockBuilder(), DTYPES.get(name, "f32"), FAMILIES[REGISTRY[name].family]
    dtypes = ["i1" if name == "select" and not place else dtype for place in range(count)]
    args = [argument(b, f"x{place}", each, [N, 7]) for place, each in enumerate(dtypes)]
    graph = graph_of(b, b.one(name, args, ATTRS.get(name, {})))
    assert declared(graph.ops[-1]) == 7 * SIZES["n"]
    try:
        assert compiled(graph) == 7 * SIZES["n"]
    except Unsupported:
        assert name in ("real", "imag", "conj", "complex", "digamma")


def product(lhs: Sequence[Dim | int], rhs: Sequence[Dim | int], batch: tuple[int, ...], at: tuple[int, int]) -> Graph:
    attrs = {"lhs_batch": batch, "rhs_batch": batch, "lhs_contract": at[:1], "rhs_contract": at[1:], "precision": ()}
    return one("dot_general", [lhs, rhs], {**attrs, "dtype": "f32"})


def convolution(x: Sequence[Dim | int], kernel: Sequence[int], groups: int = 1, stride: int = 1) -> Graph:
    numbers = (0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3))
    attrs = {"numbers": numbers, "strides": (stride, 1), "padding": (const(0),) * 4, "lhs_dilation": (1, 1)}
    attrs |= {"rhs_dilation": (1, 1), "reversal": (0, 0), "feature_groups": groups, "batch_groups": 1}
    return one("convolution", [x, kernel], {**attrs, "precision": (), "dtype": "f32"})


def windows(name: str, shapes: Sequence[Sequence[Dim | int]], *region: str) -> Graph:
    attrs: dict[str, object] = {"window": (1, 2), "strides": (1, 2), "padding": (0,) * 4}
    if name == "reduce_window":
        attrs = {key: tuple(map(const, value)) for key, value in attrs.items()}  # type: ignore[attr-defined]
        attrs |= {"base_dilation": (const(1),) * 2, "window_dilation": (const(1),) * 2}
    return one(name, shapes, attrs, *region)


STRUCTURED = {
    "product": (product([N, 3], [3, 5], (), (1, 0)), 2 * 13 * 5 * 3),
    "a product of many": (product([2, N, 30], [2, 30, N], (0,), (2, 1)), 2 * 2 * 13 * 13 * 30),
    "a product that sums along a symbol": (product([4, N], [N, 6], (), (1, 0)), 2 * 4 * 6 * 13),
    "a product by a vector": (product([N, 9], [9], (), (1, 0)), 2 * 13 * 9),
    "convolution": (convolution([2, 4, N, 8], [6, 4, 3, 3]), 2 * 2 * 6 * 11 * 6 * 4 * 9),
    "by groups": (convolution([1, 4, N, 8], [8, 2, 1, 3], groups=2), 2 * 8 * 13 * 6 * 2 * 3),
    "by steps": (convolution([1, 3, N, 8], [4, 3, 2, 2], stride=2), 2 * 4 * 6 * 7 * 3 * 4),
    "a sum": (one("reduce", [[N, 9], []], {"dims": (1,)}, "add"), 13 * 9),
    "a sum of all": (one("reduce", [[N, 9], []], {"dims": (0, 1)}, "add"), 13 * 9),
    "windows": (windows("reduce_window", [[N, 8], []], "maximum"), 13 * 4 * 2),
    "moves": (one("transpose", [[N, 9]], {"permutation": (1, 0)}), 0),
    "shapes": (one("broadcast_in_dim", [[N]], {"dims": (0,), "shape": (N, const(7))}), 0),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_what_runs_over_more_than_its_result(name: str) -> None:
    graph, wanted = STRUCTURED[name]
    most = 2 if graph.ops[-1].name == "convolution" else 1  # tiles of windows are whole
    assert declared(graph.ops[-1]) == wanted
    assert wanted <= compiled(graph) <= wanted * most


@pytest.mark.parametrize("sizes", [16, 64, 1024])
def test_a_sort_takes_its_logarithm(sizes: int) -> None:
    (op,) = one("sort", [[sizes]], {"dim": 0, "stable": False}, "compare.LT.FLOAT").ops
    assert declared(op) == sizes * (sizes.bit_length() - 1)


def test_what_scatters_runs_over_its_updates() -> None:
    (op,) = windows("select_and_scatter", [[N, 8], [N, 4], []], "compare.GE.FLOAT", "add").ops
    assert declared(op) == 13 * 4 * 2 * 2
    attrs = {"update_window_dims": (1,), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,)}
    b = BlockBuilder()
    x, update = argument(b, "x", "f32", [100, 5]), argument(b, "u", "f32", [N, 5])
    args = [x, argument(b, "i", "i32", [N, 1]), update]
    region = function_region(b, REGISTRY["scatter"], args, "add")
    (op,) = graph_of(b, *b.add("scatter", args, {**attrs, "index_vector_dim": 1}, regions=[region])).ops
    assert declared(op) == 13 * 5


def test_weights_have_one_home() -> None:
    assert (TIME.plain, TIME.heavy, TIME.product) == (WEIGHTS["light"], WEIGHTS["function"], WEIGHTS["product"])
    assert all(decl.traits.effort in WEIGHTS for decl in REGISTRY)
