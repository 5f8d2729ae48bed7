"""Facts about sizes inside of a graph: checked where the value is made, relied on behind that place only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import egshape
from egshape.api import run
from egshape.dims import const, floordiv
from egshape.errors import CheckFailed, InvalidInput
from egshape.facts import Facts
from egshape.inner import settled
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value


def chosen() -> Graph:
    """So many rows as a number in the data says, then their number rounded down to a multiple of 4."""
    b = BlockBuilder()
    x, count = b.arg("x", "f32", [None], ["n"]), b.arg("count", "i64", (1,))
    zero, one = (b.one("constant", (), {"value": np.array([number], np.int64)}) for number in (0, 1))
    kept = b.one("slice", (x, zero, b.one("abs", (count,)), one))
    kept.name = "kept"
    rounded = floordiv(kept.type.dims[0], const(4)) * 4
    cut = b.one(
        "slice", (b.one("exponential", (kept,)),), {"starts": (const(0),), "limits": (rounded,), "strides": (const(1),)}
    )
    return Graph("chosen", b.finish([b.one("tanh", (cut,))]), ("y",))


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


def feed(length: int, count: int) -> list[np.ndarray]:
    return [np.linspace(0, 1, length, dtype=np.float32), np.array([count], np.int64)]


@pytest.mark.parametrize("target", ["interpret", "llvm"])
def test_a_size_that_data_gives(target: str) -> None:
    if target == "llvm":
        pytest.importorskip("llvmlite")
    graph = chosen()
    result = egshape.optimize(graph, assume="%kept.0 % 4 == 0")
    assert result.report.status == "saturated" and not result.report.notes
    assert names(egshape.optimize(graph).graph).count("slice") == 2
    assert names(result.graph).count("slice") == 1
    (found,) = run(result.graph, feed(12, 8), target)
    np.testing.assert_allclose(found, np.tanh(np.exp(feed(12, 8)[0][:8])), rtol=1e-6)
    for count in (7, 1):
        with pytest.raises(CheckFailed, match=r"assumed fact %kept\.0 % 4 == 0 does not hold"):
            run(result.graph, feed(12, count), target)
    run(result.graph, feed(12, 0), target)


def test_the_check_stands_before_what_relies_on_it() -> None:
    ops = egshape.optimize(chosen(), assume="%kept.0 % 4 == 0").graph.ops
    place = next(number for number, op in enumerate(ops) if op.name == "check" and "assumed" in op.attrs["message"])
    assert [op.name for op in ops[place:]] == ["check", "slice", "exponential", "tanh"]


def joined() -> Graph:
    b = BlockBuilder()
    x, y = b.arg("x", "f32", [None], ["n"]), b.arg("y", "f32", [None], ["m"])
    z = b.one("concatenate", (x, y), {"dim": 0})
    z.name = "z"
    return Graph("joined", b.finish([b.one("tanh", (z,))]), ("out0",))


def test_a_size_that_inputs_give_is_a_fact_of_the_inputs() -> None:
    graph, facts = settled(joined(), Facts.parse("%z.0 % 4 == 0", assumed=True))
    assert names(graph) == names(joined())
    assert [str(each) for each in facts.statements()] == ["(m + n)%4 == 0"]
    result = egshape.optimize(joined(), assume="%z.0 % 4 == 0")
    with pytest.raises(CheckFailed, match="assumed"):
        run(result.graph, [np.zeros(3, np.float32), np.zeros(2, np.float32)])
    run(result.graph, [np.zeros(3, np.float32), np.zeros(1, np.float32)])


def branch() -> tuple[Graph, Value]:
    b = BlockBuilder()
    x, flag = b.arg("x", "f32", [None], ["n"]), b.arg("flag", "i1", ())
    one, two = b.child(), b.child()
    inside = one.one("tanh", (x,))
    inside.name = "inside"
    regions = one.finish([inside]), two.finish([two.one("negate", (x,))])
    return Graph("g", b.finish(b.add("if", (flag,), {}, regions=regions)), ("out0",)), inside


def test_a_value_of_a_region_is_checked_where_the_region_runs() -> None:
    graph, _ = branch()
    result = egshape.optimize(graph, assume="%inside.0 == 4")
    x = np.zeros(5, np.float32)
    run(result.graph, [x, np.array(False)])
    run(result.graph, [x[:4], np.array(True)])
    with pytest.raises(CheckFailed, match=r"%inside\.0 == 4"):
        run(result.graph, [x, np.array(True)])


@pytest.mark.parametrize(
    ("fact", "part"),
    [
        ("%nothing.0 == 2", "values inside are"),
        ("%z.3 == 2", "has 1 axes"),
        ("%zz.0 == 2", "%z"),
        ("%z == 2", "%z"),
        ("%x.0 == 2", "sizes are"),
    ],
)
def test_names_that_are_not_there(fact: str, part: str) -> None:
    with pytest.raises(InvalidInput) as error:
        egshape.optimize(joined(), assume=fact)
    assert part in str(error.value)


def test_facts_of_different_regions_are_refused() -> None:
    graph, _ = branch()
    other = graph.ops[-1].regions[1].results[0]
    renamed = replace(graph)
    other.name = "elsewhere"
    with pytest.raises(InvalidInput, match="different regions"):
        egshape.optimize(renamed, assume="%inside.0 == %elsewhere.0")
