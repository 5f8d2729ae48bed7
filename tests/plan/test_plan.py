"""What becomes one kernel, where buffers lie, what is refused."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.errors import Unsupported
from egshape.ir.builder import BlockBuilder
from egshape.plan.analysis.elements import reshape_groups
from egshape.plan.analysis.memory import layout
from egshape.plan.ir.loops import Pack, Product
from egshape.plan.ir.program import CheckSizes, Run
from egshape.plan.ir.walk import statements
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, constant, graph_of, region

B, S = symbol("b"), symbol("s")
DOT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}


def fold(b, x, name, start):
    (out,) = b.add(
        "reduce", [x, constant(b, start, "f32")], {"dims": (x.type.rank - 1,)}, regions=(region(b, name, "f32"),)
    )
    return b.one("broadcast_in_dim", [out], {"dims": tuple(range(x.type.rank - 1)), "shape": x.type.dims})


def softmax(b, x):
    e = b.one("exponential", [b.one("subtract", [x, fold(b, x, "maximum", -np.inf)])])
    return b.one("divide", [e, fold(b, e, "add", 0)])


def kernels(graph):
    return [step.kernel for step in plan(graph).steps if isinstance(step, Run)]


def test_softmax_is_one_kernel():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [B, S]), argument(b, "y", "f32", [S])
    wide = b.one("broadcast_in_dim", [y], {"dims": (1,), "shape": (B, S)})
    assert [k.label for k in kernels(graph_of(b, softmax(b, b.one("add", [x, wide]))))] == ["row"]


def test_views_go_to_the_product_without_a_copy():
    b = BlockBuilder()
    x, w = argument(b, "x", "f32", [B, 12]), argument(b, "w", "f32", [S, 4])
    part = b.one("slice", [x], {"starts": (const(0), const(4)), "limits": (B, const(8)), "strides": (const(1),) * 2})
    turned = b.one("transpose", [w], {"permutation": (1, 0)})
    first, second = kernels(graph_of(b, b.one("dot_general", [part, turned], DOT)))
    (pack,) = [each for each in statements(first.body) if isinstance(each, Pack)]
    (gemm,) = [each for each in statements(second.body) if isinstance(each, Product)]
    assert (gemm.left.row, gemm.left.offset, pack.source.column) == (const(12), const(4), const(4))


def test_slots_are_reused_where_the_size_is_shown_to_fit():
    b = BlockBuilder()
    x, w = argument(b, "x", "f32", [B, 4]), argument(b, "w", "f32", [4, 4])
    for _ in range(5):
        x = b.one("dot_general", [x, w], DOT)
    found = layout(plan(graph_of(b, x)))
    assert len(found.slots) == 3 and found.peak is B * 32 + 256  # and one for the panels of w


def test_unproved_sizes_are_checked():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [B]), argument(b, "y", "f32", [S])
    steps = plan(graph_of(b, b.one("add", [x, y]))).steps
    assert [(str(s.lhs), s.relation, str(s.rhs)) for s in steps if isinstance(s, CheckSizes)] == [("b", "==", "s")]


def test_reshape_groups():
    sizes = [B, S, const(64)], [B, S, const(4), const(16)]
    assert reshape_groups(*sizes) == [([0], [0]), ([1], [1]), ([2], [2, 3])]
    assert reshape_groups([B * S], [B, S]) == [([0], [0, 1])]
    assert reshape_groups([B], [S]) is None


def test_what_is_refused_is_named():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [B])
    (found,) = b.add("custom_call", [x], {"target": "mine", "types": (("f32", (2,)),)})
    with pytest.raises(Unsupported, match="custom_call"):
        plan(graph_of(b, found))


def test_assumed_facts_are_checked():
    from dataclasses import replace

    from egshape.facts import Facts

    b = BlockBuilder()
    graph = graph_of(b, b.one("negate", [argument(b, "x", "f32", [B])]))
    facts = Facts.parse("b % 4 == 0; x.0 in [4,8] or [16,20]", assumed=True)
    steps = [step for step in plan(replace(graph, facts=facts)).steps if isinstance(step, CheckSizes)]

    def accepted(n):
        sides = {"==": lambda x, y: x == y, "<=": lambda x, y: x <= y}
        return all(sides[s.relation](s.lhs.evaluate({"b": n}), s.rhs.evaluate({"b": n})) for s in steps)

    assert [n for n in range(30) if accepted(n)] == [4, 8, 16, 20]
