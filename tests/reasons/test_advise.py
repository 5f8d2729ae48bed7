"""Advice is true: with each fact that is advised, the saving is what was said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import egshape
from egshape import api
from egshape.cli import main
from egshape.dims import symbol
from egshape.egraph.cost import likely_sizes
from egshape.errors import InvalidInput
from egshape.facts import Facts
from egshape.ir.graph import Graph
from egshape.reasons.advise import Advice, advise, advise_within, measure
from egshape.reasons.replay import key_of
from egshape.report import AdviceTable
from tests.behaviours.programs import Program, dims


def expanded() -> Graph:
    """A broadcast that may expand: it does not where the two sizes are equal."""
    program = Program()
    x, y = program.input("x", ["n", 4]), program.input("y", ["m", 4])
    wide = program.one("broadcast_in_dim", (x,), {"dims": (0, 1), "shape": y.type.dims})
    return program.graph(program.one("add", (wide, y)))


def padded() -> Graph:
    """A pad up to a multiple of 8, and the slice of it that is full then."""
    program = Program()
    x = program.input("x", ["n", 4])
    n = symbol("n")
    more = (n + 7) // 8 * 8 - n
    zero = program.number(0.0, "f32")
    wide = program.one("pad", (x, zero), {"low": dims(0, 0), "high": (more, *dims(0)), "interior": dims(0, 0)})
    return program.graph(program.one("negate", (wide,)))


def sliced() -> Graph:
    """The first min(n, m) rows."""
    program = Program()
    x, y = program.input("x", ["n", 4]), program.input("y", ["m", 4])
    return program.graph(program.slice(x, [0, 0], ["min(n, m)", 4]), y)


GRAPHS: dict[str, tuple[Callable[[], Graph], str]] = {
    "expanded": (expanded, "n == m"),
    "padded": (padded, "n%8 == 0"),
    "sliced": (sliced, "n == m"),
}


def confirm(graph: Graph, advice: Advice, facts: Facts | None = None) -> None:
    """Adding the fact gives the saving stated."""
    before = egshape.optimize(graph, facts=facts, validate=False)
    after = egshape.optimize(graph, (advice.fact,), facts=facts, validate=False)
    likely = likely_sizes(after.derived, list(after.optimized.likely))
    own = {key_of(each) for each in Facts.parse(advice.fact).statements()}
    old, new = measure(before, likely), measure(after, likely, own)
    assert old.ops - new.ops == advice.ops_removed
    assert len(old.checks) - len(new.checks) == advice.checks_removed
    assert old.bytes - new.bytes == advice.bytes_saved
    plain = [sum(op.name != "check" for op in each.graph.body.walk()) for each in (before, after)]
    assert plain[0] - plain[1] == advice.ops_removed
    assert advice.flag == f'--assume "{advice.fact}"'


@pytest.mark.parametrize("name", GRAPHS)
def test_the_fact_that_helps_is_found_and_true(name: str) -> None:
    build, fact = GRAPHS[name]
    graph = build()
    found = advise(graph)
    assert found
    wanted = {key_of(each) for each in Facts.parse(fact).statements()}
    best = next(each for each in found if {key_of(r) for r in Facts.parse(each.fact).statements()} == wanted)
    assert best.bytes_saved > 0
    assert best.ops_removed >= 1
    for each in found:
        confirm(graph, each)
    ranks = [(each.bytes_saved, each.ops_removed, each.checks_removed) for each in found]
    assert ranks == sorted(ranks, reverse=True)


def test_what_is_known_is_not_advised() -> None:
    graph = expanded()
    known = Facts.parse("n == m", assumed=True)
    assert all(each.fact != "n == m" for each in advise(graph, known))


def test_nothing_helps_where_nothing_is_wasted() -> None:
    program = Program()
    x = program.input("x", ["n"])
    assert advise(program.graph(program.one("negate", (x,)))) == []


def test_what_was_looked_at_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing helps the facts are listed; where nothing was tried that is said too."""
    assert main(["advise", str(Path(__file__).resolve().parents[2] / "examples/ten.mlir")]) == 0
    lines = capsys.readouterr().out.splitlines()
    tried = int(lines[0].split()[0])
    assert tried >= 1 and f"{tried} of {tried} facts were tried, and none helps:" == lines[0]
    assert "  2 <= arg0.0" in lines and len(lines) == tried + 2
    assert str(AdviceTable()).startswith("nothing to try")


def test_advice_against_the_likely_sizes_is_not_given() -> None:
    likely = Facts.parse("likely n = 64; likely m = 128")
    assert all(each.fact not in ("n == m", "m == n") for each in advise(expanded(), likely))


def test_limits_hold() -> None:
    seen: list[tuple[int, int, str]] = []
    found = advise_within(expanded(), trials=2, on_trial=lambda *each: seen.append(each))
    assert found.tried == len(seen) <= 2
    assert advise_within(expanded(), seconds=0.0).tried == 0
    assert len(advise(expanded(), limit=1)) == 1


def test_a_fact_about_nothing_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="nowhere"):
        advise(expanded(), Facts.parse("nowhere == 3"))


@pytest.mark.long_but("bert_plain", "scan_rnn", "nonzero_size", "while_decode")
def test_advice_on_the_models(model_name: str, shared_models: Path) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    graph = api.load(shared_models / f"{model_name}.mlir")
    for each in advise_within(graph, trials=4, seconds=8.0).advice:
        confirm(graph, each)


SMALL = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %n = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %shape = stablehlo.concatenate %n1, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %b = stablehlo.dynamic_broadcast_in_dim %x, %shape, dims = [0, 1]
    : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
  %0 = stablehlo.add %b, %y : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    path = tmp_path / "small.mlir"
    path.write_text(SMALL)
    assert main(["advise", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["version"] == 1
    assert data["tried"] == data["candidates"]
    best = data["advice"][0]
    assert best["bytes_saved"] > 0
    assert main(["advise", str(path)]) == 0
    out = capsys.readouterr().out
    assert best["flag"] in out
    fact = best["flag"].removeprefix('--assume "').removesuffix('"')
    assert main(["optimize", str(path), "--assume", fact, "-o", str(tmp_path / "o.mlir")]) == 0


def test_no_more_is_asked_than_helps() -> None:
    assert [each.fact for each in advise(padded())] == ["n%8 == 0"]


TWO_AXES = """graph g(%x: f32[a, b], %y: f32[c, d]) {
  symbols a = size(%x, 0), b = size(%x, 1), c = size(%y, 0), d = size(%y, 1)
  %s: f32[bcast(a, c), bcast(b, d)] = broadcast_in_dim(%x) {dims=[0, 1], shape=<bcast(a, c), bcast(b, d)>}
  %t: f32[bcast(a, c), bcast(b, d)] = broadcast_in_dim(%y) {dims=[0, 1], shape=<bcast(a, c), bcast(b, d)>}
  %0: f32[bcast(a, c), bcast(b, d)] = multiply(%s, %t)
  return %0 as out
}
"""


def test_equalities_are_tried_together() -> None:
    (best, *_) = advise(egshape.load(TWO_AXES.encode(), "egs"))
    assert best.fact == "a == c; b == d"
    assert best.ops_removed == 2


def test_a_size_that_meets_a_number() -> None:
    text = """graph g(%x: f32[n], %y: f32[24]) {
      symbols n = size(%x, 0)
      %s: f32[bcast(n, 24)] = broadcast_in_dim(%x) {dims=[0], shape=<bcast(n, 24)>}
      %t: f32[bcast(n, 24)] = broadcast_in_dim(%y) {dims=[0], shape=<bcast(n, 24)>}
      %0: f32[bcast(n, 24)] = multiply(%s, %t)
      return %0 as out
    }"""
    assert "n == 24" in {each.fact for each in advise(egshape.load(text.encode(), "egs"))}


def test_only_equal_sizes_are_tried_together() -> None:
    """Not multiples, nor a size that is joined with a number already."""
    text = """graph g(%x: f32[n, m], %y: f32[64, k]) {
      symbols n = size(%x, 0), m = size(%x, 1), k = size(%y, 1)
      %s: f32[bcast(n, 64), bcast(m, k)] = broadcast_in_dim(%x) {dims=[0, 1], shape=<bcast(n, 64), bcast(m, k)>}
      %r: f32[bcast(n, 64)*bcast(m, k)] = reshape(%s) {shape=<bcast(n, 64)*bcast(m, k)>}
      return %r as out
    }"""
    found = advise_within(egshape.load(text.encode(), "egs"))
    joined = [each for each in (*found.useless, *(each.fact for each in found.advice)) if ";" in each]
    assert joined and not any("%" in each or "bcast" in each for each in joined)
