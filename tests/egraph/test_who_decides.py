"""Sizes decided by the compiled rules alone, or by the engine alone: both find the same, and neither is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import egshape
from egshape.cli import main
from egshape.decide.context import Context
from egshape.dims.core import natural_key
from egshape.egraph.ask import Decide, EngineContext
from egshape.egraph.program import program as load_program
from egshape.facts import Facts, parse_relation
from egshape.ir.graph import Graph
from egshape.ir.text import print_graph
from tests.behaviours.programs import Program
from tests.fuzz.engine import program

ALONE: tuple[Decide, Decide] = ("rules", "engine")


def split_and_merged() -> Graph:
    """A value split and merged again, another reshaped: sizes are equal by products and by a quotient."""
    made = Program()
    x, y = made.input("x", ["n", 6]), made.input("y", ["m"])
    split = made.reshape(x, "2*n", 3)
    merged = made.reshape(split, "n", 6)
    pair = made.reshape(y, "m//2", 2)
    return made.graph(merged, pair, made.one("add", (made.slice(x, [0, 0], ["n", 1]), made.reshape(x, "6*n", 1))))


@pytest.mark.parametrize("decide", ALONE)
def test_one_alone_finds_what_both_do(decide: Decide) -> None:
    graph = split_and_merged()
    both, alone = (egshape.optimize(graph, validate=False, decide=each) for each in ("both", decide))
    assert print_graph(alone.graph) == print_graph(both.graph)
    assert alone.report.status == "saturated"


@pytest.mark.long_but("0-*", "1-*")
@pytest.mark.parametrize("decide", ALONE)
@pytest.mark.parametrize("seed", range(6))
def test_one_alone_is_not_wrong(seed: int, decide: Decide) -> None:
    _, graph = program(seed)
    result = egshape.optimize(graph, decide=decide)
    assert result.optimized.difference == ""
    assert result.report.status in ("saturated", "budget"), result.report.notes


ANSWERS = [
    ("n % 8 == 0", "8*(n//8) == n", "proved"),
    ("a <= b; b <= c", "a <= c", "proved"),
    ("a >= 3", "a >= 2", "proved"),
    ("a >= 3", "a == 2", "refuted"),
    ("a >= 3", "a != 2", "proved"),
    ("n in [2,5]", "n in [1,9]", "proved"),
    ("n in [2,5]", "n in [3,9]", "unknown"),
    ("a == b", "a + k == b + k", "proved"),
    ("", "n//k == n//k", "unknown"),
    ("k >= 1", "(n*k)//k == n", "proved"),
    ("", "a >= 1", "unknown"),
]


@pytest.mark.parametrize(("given", "goal", "answer"), ANSWERS, ids=[goal for _, goal, _ in ANSWERS])
def test_the_engine_answers_as_the_compiled_rules_do(given: str, goal: str, answer: str) -> None:
    engine = EngineContext(load_program(), natural_key)
    engine.assume_all([(each, None) for each in Facts.parse(given).statements()])
    assert engine.decide(parse_relation(goal)) == answer
    assert Context(Facts.parse(given)).decide(parse_relation(goal)) == answer


def test_what_is_assumed_in_a_copy_is_not_assumed_outside() -> None:
    outer = EngineContext(load_program(), natural_key)
    inner = outer.copy()
    inner.assume(parse_relation("n == 3"))
    assert (outer.decide(parse_relation("n == 3")), inner.decide(parse_relation("n == 3"))) == ("unknown", "proved")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    path = tmp_path / "small.mlir"
    path.write_text("""func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = stablehlo.negate %x : tensor<?xf32>
      return %0 : tensor<?xf32>
    }""")
    for decide in ALONE:
        assert main(["optimize", str(path), "-o", str(tmp_path / "out.mlir"), "--decide", decide]) == 0
    assert main(["optimize", str(path), "--decide", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
