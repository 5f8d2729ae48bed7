"""What ops imply: proved from what came before, else checked; never from itself, never from data for rewrites."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.decide.context import Context
from egshape.dims import const, symbol
from egshape.egraph.checks import without_implied
from egshape.egraph.obligations import Check, Obligation, Walk, Walker
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, Value
from egshape.ops import REGISTRY
from tests.egraph.programs import constant, named, optimized

A, B, C = map(symbol, "abc")


def walked(*relations: Relation, data: tuple[str, ...] = ()) -> Walk:
    """Ops in a row, each with one obligation, over the sizes a, b, c; those in ``data`` are not known at entry."""
    builder = BlockBuilder()
    for name in "abc":
        if name not in data:
            builder.arg(f"x{name}", "f32", [None], [name])
    x = builder.arg("x", "f32", [])
    for _ in relations:
        x = builder.one("negate", [x])
    block = builder.finish([x])
    walker = Walker(block, Context(), frozenset(), REGISTRY, {}, (), True)
    return walker.run([Obligation(index, "test", relation) for index, relation in enumerate(relations)])


def statuses(walk: Walk) -> list[tuple[str, str]]:
    return [(str(check.relation), check.status) for check in walk.checks]


def test_a_check_is_not_proved_by_its_own_fact() -> None:
    walk = walked(Relation("==", A, B))
    assert statuses(walk) == [("a == b", "kept")]
    assert walk.context.decide(Relation("==", A, B)) == "proved"


def test_a_later_fact_proves_no_earlier_obligation() -> None:
    assert statuses(walked(Relation("<=", A, B), Relation("==", A, B))) == [("a <= b", "kept"), ("a == b", "kept")]


def test_an_earlier_fact_proves_a_later_obligation() -> None:
    assert statuses(walked(Relation("==", A, B), Relation("<=", A, B))) == [("a == b", "kept")]


def test_a_relation_is_checked_once() -> None:
    assert len(walked(Relation("==", A, B), Relation("==", A, B)).checks) == 1


def test_facts_about_data_reach_later_checks_but_no_rewrite() -> None:
    walk = walked(Relation("==", A, C), Relation("<=", C, A), data=("c",))
    assert [(check.status, check.entry) for check in walk.checks] == [("kept", False)]
    assert not walk.believed
    assert walk.context.decide(Relation("==", A, C)) == "unknown"


def test_what_facts_about_data_prove_of_entry_sizes_reaches_no_rewrite() -> None:
    walk = walked(Relation("==", A, C), Relation("==", B, C), Relation("==", A, B), data=("c",))
    assert [str(check.relation) for check in walk.checks] == ["a == c", "b == c"]
    assert not walk.believed


def test_an_entry_fact_after_one_about_data_reaches_rewrites() -> None:
    walk = walked(Relation("==", A, C), Relation("==", A, B), Relation("==", B, C), data=("c",))
    assert [str(relation) for relation, _ in walk.believed] == ["a == b"]
    assert [str(check.relation) for check in walk.checks] == ["a == c", "a == b"]


def test_an_obligation_that_is_never_true_is_an_error() -> None:
    with pytest.raises(EgshapeError, match="false at every admitted size"):
        walked(Relation("<=", A + 1, A))


def test_a_reshape_to_a_size_from_data_stays() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None], ["a"])
    s = builder.arg("s", "i32", [1])
    computed = builder.one("multiply", [s, s])
    y = builder.one("reshape", [x, computed], {})
    found = optimized(builder, y)
    assert named(found.graph, "reshape")
    assert [check.entry for check in found.outcome.checks if check.status == "kept"] == [False]


def test_a_fact_of_an_arm_holds_in_the_arm_only() -> None:
    builder = BlockBuilder()
    p = builder.arg("p", "i1", [])
    x, y = (builder.arg(name, "f32", [None], [size]) for name, size in (("x", "a"), ("y", "b")))

    def arm(values: tuple[Value, Value]) -> Block:
        child = builder.child()
        return child.finish([child.one("add", values)])

    either = builder.one("if", [p], regions=[arm((x, y)), arm((x, x))])
    found = optimized(builder, either, builder.one("reshape", [x], {"shape": (B,)}))
    outside = [op.attrs["sides"] for op in named(found.graph, "check")]
    assert outside in ([(A, B)], [(B, A)])


def check(relation: Relation) -> Check:
    return Check(0, relation, str(relation), "", "kept", None, True)


def kept(checks: list[Check]) -> list[str]:
    return [str(each.relation) for each in without_implied(checks, Context()) if each.status == "kept"]


def test_of_two_equivalent_checks_one_stays() -> None:
    assert len(kept([check(Relation("==", A, B)), check(Relation("==", B, A))])) == 1
    assert len(kept([check(Relation("==", A, B)), check(Relation("==", A * 2, B * 2))])) == 1


def test_a_circle_of_checks_keeps_enough() -> None:
    left = kept([check(Relation("==", A, B)), check(Relation("==", B, C)), check(Relation("==", A, C))])
    assert len(left) == 2
    left = kept([check(Relation("<=", A, B)), check(Relation("<=", B, A)), check(Relation("==", A, B))])
    assert left in (["a == b"], ["a <= b", "b <= a"])


def test_a_check_that_stands_alone_stays() -> None:
    assert kept([check(Relation("<=", const(2), A))]) == ["2 <= a"]


def test_constants_that_fit_make_no_checks() -> None:
    builder = BlockBuilder()
    x = constant(builder, np.ones((2, 3)))
    found = optimized(builder, builder.one("reshape", [x], {"shape": (const(3), const(2))}))
    assert not found.outcome.checks


def test_a_fact_about_a_data_dependent_size_does_not_reach_types() -> None:
    b = BlockBuilder()
    count, scalar, y = b.arg("s", "i32", []), b.arg("k", "f32", []), b.arg("y", "f32", [1])
    target = b.one("reshape", (b.one("multiply", (count, count)),), {"shape": (const(1),)})
    spread = b.one("broadcast_in_dim", (scalar, target), {"dims": ()})
    graph = Graph("g", b.finish([b.one("add", (spread, y))]), ("out0",))
    result = egshape.optimize(graph, validate=False).graph
    checks = [op for op in result.ops if op.name == "check"]
    (made,) = (op for op in result.ops if op.name == "broadcast_in_dim")
    assert [str(op.attrs["sides"][1]) for op in checks] == ["1"]
    assert made.result.type.dims == spread.type.dims  # and not [1], which only the check says


def test_a_size_that_shape_code_gives_is_written_as_what_it_is() -> None:
    """Once facts say what a size is, the shape code that gave it is gone; its name is longer known than it is short."""
    builder = BlockBuilder()
    size = builder.one("get_dimension_size", [builder.arg("x", "f32", [None], ["a"])], {"dim": 0})
    square = builder.one("multiply", [size, size])
    again = builder.one("divide", [builder.one("multiply", [square, square]), square])
    shape = builder.one("reshape", [again], {"shape": (const(1),)})
    zero = builder.one("constant", [], {"value": np.zeros((), np.float32)})
    zeros = builder.one("broadcast_in_dim", [zero, shape], {"dims": ()})
    graph = Graph("g", builder.finish([zeros]), ("out0",))
    result = egshape.optimize(graph, ["a in [1,3]"])
    assert result.report.status == "saturated"
    assert [value.type.dims for value in result.graph.outputs] == [(A * A,)]
    assert named(result.graph, "broadcast_in_dim") and not named(result.graph, "divide")
