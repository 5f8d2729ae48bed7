"""Two programs as one: that one stands for the other is shown, or not; else the graph chooses between them."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.choice import chosen, fixed, freed
from egshape.equality import stands_for
from egshape.errors import CheckFailed
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.verify import verify


def graph(body: str, head: str = "%x: f32[n]", symbols: str = "n = size(%x, 0)") -> Graph:
    return egshape.load(f"graph g({head}) {{\n  symbols {symbols}\n{body}\n}}\n".encode(), format="egs")


def check(relation: str, one: str, two: str, message: str = "no") -> str:
    return f'  check() {{relation="{relation}", sides=<{one}, {two}>, message="{message}", args=[], fact=""}}\n'


ABS = "  %y: f32[n] = abs(%x)\n  return %y as y"
TWICE = "  %y: f32[n] = abs(%x)\n  %z: f32[n] = abs(%y)\n  return %z as y"
NEGATED = "  %y: f32[n] = negate(%x)\n  return %y as y"
POSITIVE = """  %s: f32[] = constant() {value=f32[]{0.0}}
  %first: f32[1] = slice(%x) {starts=<0>, limits=<1>, strides=<1>}
  %one: f32[] = reshape(%first) {shape=[]}
  %flag: i1[] = compare(%one, %s) {direction=GE, kind=FLOAT}
  check(%flag) {relation=value, sides=[], message="the first is negative", args=[], fact=""}
"""


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (ABS, TWICE, True),
        (TWICE, ABS, True),
        (ABS, NEGATED, False),
        (check("<=", "2", "n") + ABS, TWICE, True),
        (ABS, check("<=", "2", "n") + TWICE, False),
        (check("<=", "3", "n") + ABS, check("<=", "2", "n") + TWICE, True),
        (check("<=", "2", "n") + ABS, check("<=", "3", "n") + TWICE, False),
        (POSITIVE + ABS, POSITIVE + TWICE, True),
        (POSITIVE + ABS, TWICE, True),
        (ABS, POSITIVE + TWICE, False),
    ],
)
def test_what_a_graph_stands_for(one: str, other: str, shown: bool) -> None:
    """It may refuse more than the other one, never less."""
    assert stands_for(graph(one), graph(other)) is shown


def test_names_of_sizes_do_not_matter() -> None:
    renamed = TWICE.replace("[n]", "[m]")
    assert stands_for(graph(ABS), graph(renamed, "%x: f32[m]", "m = size(%x, 0)"))


@pytest.mark.parametrize(
    ("checks", "number", "left"),
    [
        (check("!=", "n", "1"), 1, []),
        (check("<", "1", "n"), 1, ["!= n 0"]),
        (check("<", "1", "n"), 0, ["!= n 1"]),
        (check("<=", "1", "n"), 0, []),
        (check("<=", "8", "n"), 1, None),
        (check("<=", "n", "8"), 1, ["<= n 8"]),
    ],
)
def test_a_number_is_freed(checks: str, number: int, left: list[str] | None) -> None:
    """Where a check refuses nothing behind 0 and 1."""
    found = freed(graph(checks + ABS), "n", number)
    if left is None:
        assert found is None
        return
    assert found is not None
    kept = [op for op in found.ops if op.name == "check"]
    assert [" ".join(map(str, (op.attrs["relation"], *op.attrs["sides"]))) for op in kept] == left
    for size in (0, 1, 2, 5):
        if size == number:
            assert interpret(found, [np.ones(size, np.float32)])[0].shape == (size,)


def test_a_number_is_fixed() -> None:
    found = fixed(graph(check("<", "1", "n") + check("<=", "n", "8") + TWICE), "n", 1)
    verify(found)
    assert str(found.inputs[0].type) == "f32[1]"
    assert [op.name for op in found.ops] == ["abs", "abs"] or [op.name for op in found.ops][-2:] == ["abs", "abs"]
    assert interpret(found, [np.full(1, -2, np.float32)])[0].tolist() == [2]


def test_a_graph_chooses() -> None:
    special = graph("  %y: f32[1, m] = negate(%x)\n  return %y as y", "%x: f32[1, m]", "m = size(%x, 1)")
    general = graph(
        check("<", "1", "n", "one at least") + "  %y: f32[n, k] = abs(%x)\n  return %y as y",
        "%x: f32[n, k]",
        "n = size(%x, 0), k = size(%x, 1)",
    )
    found = chosen("n", 1, special, general)
    assert found is not None
    verify(found)
    for program in (found, egshape.optimize(found).graph):
        assert interpret(program, [np.ones((1, 3), np.float32)])[0].tolist() == [[-1, -1, -1]]
        assert interpret(program, [-np.ones((2, 1), np.float32)])[0].tolist() == [[1], [1]]
        with pytest.raises(CheckFailed, match="one at least"):
            interpret(program, [np.ones((0, 3), np.float32)])


def test_sizes_of_data_are_not_chosen_between() -> None:
    program = graph(
        "  %y: i64[] = dims() {elements=<n>, shape=[], dtype=i64}\n  return %y as y",
        "%x: i64[1]",
        "n = element(%x, 0)",
    )
    assert chosen("n", 1, program, program) is None
