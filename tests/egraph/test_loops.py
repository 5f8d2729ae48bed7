"""What loops keep: sizes that stay, grow or shrink by as much a round, and bounds. Nothing is believed that a round may
break, and the optimized program gives, and rejects, what the original does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

import egshape
from egshape.api import Result
from egshape.dims import symbol
from egshape.errors import CheckFailed
from egshape.frontends.stablehlo import read
from egshape.ir.interpret import interpret
from egshape.ir.text import parse_graph
from tests.behaviours.programs import ops, shapes
from tests.fuzz import differential

SIZES = (0, 1, 2, 5)

HEAD = """func.func @main(%x: tensor<?xf32>, %t: tensor<?xf32>, %k: tensor<i32>) -> tensor<?xf32> {
  %n = stablehlo.get_dimension_size %t, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %f = stablehlo.constant dense<1.5> : tensor<1xf32>
  %ff = stablehlo.constant dense<[1.5, 2.5]> : tensor<2xf32>
"""

GROW = """%j = stablehlo.add %i, %one : tensor<i32>
%y = stablehlo.concatenate %v, %f, dim = 0 : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>"""

TWICE = """%j = stablehlo.add %i, %two : tensor<i32>
%y = stablehlo.concatenate %v, %ff, dim = 0 : (tensor<?xf32>, tensor<2xf32>) -> tensor<?xf32>"""

DOWN = """%j = stablehlo.subtract %i, %one : tensor<i32>
%y = stablehlo.concatenate %v, %f, dim = 0 : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>"""

DOUBLE = """%j = stablehlo.add %i, %one : tensor<i32>
%y = stablehlo.concatenate %v, %v, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>"""

WITH_T = """%j = stablehlo.add %i, %one : tensor<i32>
%y = stablehlo.concatenate %v, %t, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>"""


def less(limit: str, direction: str = "LT") -> str:
    """A test of the counter."""
    return f"%p = stablehlo.compare {direction}, %i, {limit} : (tensor<i32>, tensor<i32>) -> tensor<i1>"


def loop(test: str, body: str, start: str = "%zero", behind: str = "return %r#1 : tensor<?xf32>") -> str:
    """A module with a loop that carries a counter %i and %v, which begins as %x."""
    return f"""{HEAD}
  %r:2 = stablehlo.while(%i = {start}, %v = %x) : tensor<i32>, tensor<?xf32>
    cond {{
{indent(test, " " * 6)}
      stablehlo.return %p : tensor<i1>
    }} do {{
{indent(body, " " * 6)}
      stablehlo.return %j, %y : tensor<i32>, tensor<?xf32>
    }}
  {behind}
}}"""


def solved(text: str, ks: Sequence[int] = (3,), assume: str = "arg1.0 <= 1000") -> Result:
    """The optimized program, compared with the original at small sizes."""
    graph = read(text, "loop.mlir")
    result = egshape.optimize(graph, assume, validate=False, allow_larger=True)
    assert result.report.status == "saturated", result.report.notes
    for n, m, k in product(SIZES, SIZES, ks):
        arrays = [np.arange(n, dtype=np.float32), np.ones(m, np.float32), np.array(k, np.int32)]
        assert not differential.compare(graph, result.graph, arrays), f"at {n}, {m}, {k}"
    return result


def after(result: Result) -> str:
    """The name of the size of what the loop gives."""
    return f"%{result.graph.outputs[0].name}.0"


def kept(result: Result) -> list[str]:
    """The checks that are not proved."""
    return [row.text for row in result.report.checks if row.status != "proved" and "arg1.0 <= 1000" not in row.text]


@pytest.mark.parametrize(
    ("test", "body", "start", "size"),
    [
        (less("%n"), GROW, "%zero", "arg0.0 + arg1.0"),
        (less("%n", "LE"), GROW, "%zero", "arg0.0 + arg1.0 + 1"),
        (less("%five"), GROW, "%two", "arg0.0 + 3"),
        (less("%one"), GROW, "%five", "arg0.0"),
        (less("%n"), GROW, "%two", "arg0.0 + max(arg1.0 - 2, 0)"),
        (less("%zero", "GT"), DOWN, "%n", "arg0.0 + arg1.0"),
        (less("%n", "NE"), GROW, "%zero", "arg0.0 + arg1.0"),
        (less("%zero", "NE"), DOWN, "%n", "arg0.0 + arg1.0"),
        (less("%n"), TWICE, "%zero", "arg0.0 + 2*cdiv(arg1.0, 2)"),
        (less("%five"), WITH_T, "%zero", "arg0.0 + 5*arg1.0"),
        (less("%n"), WITH_T, "%zero", "arg0.0 + arg1.0*arg1.0"),
    ],
)
def test_how_a_size_grows(test: str, body: str, start: str, size: str) -> None:
    result = solved(loop(test, body, start))
    assert result.explain(after(result), size).status == "proved", shapes(result)


def test_a_counter_that_may_wrap_around_counts_nothing() -> None:
    """An i32 is at most 2**31 - 1, which it may pass."""
    result = solved(loop(less("%n"), GROW), assume="")
    assert result.explain(after(result), "arg0.0 + arg1.0").status == "proved"
    for test, body, size in (
        (less("%n", "LE"), GROW, "arg0.0 + arg1.0 + 1"),
        (less("%n"), TWICE, "arg0.0 + 2*cdiv(arg1.0, 2)"),
    ):
        result = solved(loop(test, body), assume="")
        assert result.explain(after(result), size).status != "proved"


def test_a_size_behind_the_loop_needs_no_check() -> None:
    behind = """%both = stablehlo.concatenate %x, %t, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  %s = stablehlo.add %r#1, %both : tensor<?xf32>
  return %s : tensor<?xf32>"""
    assert kept(solved(loop(less("%n"), GROW, behind=behind))) == []
    assert kept(solved(loop(less("%n"), GROW, "%k", behind=behind))) != []


def test_the_counter_behind_the_loop_is_a_size() -> None:
    behind = """%s = stablehlo.reshape %r#0 : (tensor<i32>) -> tensor<1xi32>
  %b = stablehlo.dynamic_broadcast_in_dim %f, %s, dims = [0] : (tensor<1xf32>, tensor<1xi32>) -> tensor<?xf32>
  %z = stablehlo.add %b, %t : tensor<?xf32>
  return %z : tensor<?xf32>"""
    result = solved(loop(less("%n"), GROW, behind=behind))
    assert kept(result) == []
    assert "while" not in ops(result)


@pytest.mark.parametrize("body", [DOUBLE, GROW.replace("%i, %one", "%i, %k")])
def test_what_is_not_so_much_a_round_is_only_bounded(body: str) -> None:
    result = solved(loop(less("%five"), body), (1, 2))
    name = after(result)
    assert result.explain(name, "arg0.0 + 5").status != "proved"
    assert result.explain_fact(f"{name} >= arg0.0").status == "proved"


def test_rounds_that_data_ends_are_at_most_so_many() -> None:
    test = """%a = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
%b = stablehlo.compare NE, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
%p = stablehlo.and %a, %b : tensor<i1>"""
    result = solved(loop(test, GROW), (0, 1, 3, 9))
    name = after(result)
    assert result.explain(name, "arg0.0 + arg1.0").status != "proved"
    assert result.explain_fact(f"{name} <= arg0.0 + arg1.0").status == "proved"
    assert result.explain_fact(f"{name} >= arg0.0").status == "proved"


def test_an_integer_that_may_wrap_around_counts_nothing() -> None:
    """From k on, up to five, an i32 may pass its largest number."""
    result = solved(loop(less("%five", "NE"), GROW, "%k"), (4, 5))
    name = after(result)
    assert result.explain(name, "arg0.0 + 5").status != "proved"


def test_a_check_inside_is_proved_by_the_condition_of_the_round() -> None:
    """The first i elements of t, where i < n: i is no size that the program states."""
    body = """%b = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
%a = stablehlo.reshape %zero : (tensor<i32>) -> tensor<1xi32>
%c = stablehlo.reshape %one : (tensor<i32>) -> tensor<1xi32>
%q = stablehlo.real_dynamic_slice %t, %a, %b, %c
  : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
%g = stablehlo.constant dense<0.0> : tensor<f32>
%h = stablehlo.reduce(%q init: %g) applies stablehlo.add across dimensions = [0]
  : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
%o = stablehlo.reshape %h : (tensor<f32>) -> tensor<1xf32>
%j = stablehlo.add %i, %one : tensor<i32>
%y = stablehlo.concatenate %v, %o, dim = 0 : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>"""
    assert kept(solved(loop(less("%n"), body))) == []
    assert len(kept(solved(loop(less("%n", "LE").replace("%i, %n", "%i, %five"), body)))) == 1


def test_a_size_that_stays_under_another_form() -> None:
    """A round appends one, and drops the first."""
    body = (
        GROW.replace("%y =", "%w =")
        + """
%a = stablehlo.reshape %one : (tensor<i32>) -> tensor<1xi32>
%l = stablehlo.get_dimension_size %w, dim = 0 : (tensor<?xf32>) -> tensor<i32>
%m = stablehlo.reshape %l : (tensor<i32>) -> tensor<1xi32>
%y = stablehlo.real_dynamic_slice %w, %a, %m, %a
  : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>"""
    )
    result = solved(loop(less("%k"), body), (0, 1, 4))
    assert shapes(result) == ["[arg0.0]"]


def test_a_check_inside_is_not_proved_by_what_comes_of_it() -> None:
    """Each round drops the first element: behind the loop there were enough, which nothing may take for granted."""
    body = """%j = stablehlo.add %i, %one : tensor<i32>
%a = stablehlo.reshape %one : (tensor<i32>) -> tensor<1xi32>
%l = stablehlo.get_dimension_size %v, dim = 0 : (tensor<?xf32>) -> tensor<i32>
%m = stablehlo.reshape %l : (tensor<i32>) -> tensor<1xi32>
%y = stablehlo.real_dynamic_slice %v, %a, %m, %a
  : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>"""
    result = solved(loop(less("%n"), body))
    assert result.explain_fact("arg1.0 <= arg0.0").status != "proved"
    assert kept(result) != []


def test_a_window_is_at_most_its_limit_or_its_start() -> None:
    """A round appends one, and takes the first five."""
    body = (
        GROW.replace("%y =", "%w =")
        + """
%a = stablehlo.reshape %zero : (tensor<i32>) -> tensor<1xi32>
%b = stablehlo.reshape %one : (tensor<i32>) -> tensor<1xi32>
%l = stablehlo.get_dimension_size %w, dim = 0 : (tensor<?xf32>) -> tensor<i32>
%h = stablehlo.minimum %l, %five : tensor<i32>
%m = stablehlo.reshape %h : (tensor<i32>) -> tensor<1xi32>
%y = stablehlo.real_dynamic_slice %w, %a, %m, %b
  : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>"""
    )
    result = solved(loop(less("%n"), body), assume="arg0.0 <= 1000")
    assert [each for each in kept(result) if "1000" not in each] == []
    assert result.explain_fact(f"{after(result)} <= max(arg0.0, 5)").status == "proved"


@pytest.mark.parametrize("size", ["max(arg0.0, 5)", "arg0.0 + max(5 - arg0.0, 0)"])
def test_a_test_on_the_size_itself(size: str) -> None:
    test = """%l = stablehlo.get_dimension_size %v, dim = 0 : (tensor<?xf32>) -> tensor<i32>
%p = stablehlo.compare LT, %l, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>"""
    result = solved(loop(test, GROW))
    assert result.explain(after(result), size).status == "proved"


def test_loops_inside_of_loops() -> None:
    inner = """%q:2 = stablehlo.while(%ii = %zero, %w = %v) : tensor<i32>, tensor<?xf32>
  cond {
    %p2 = stablehlo.compare LT, %ii, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p2 : tensor<i1>
  } do {
    %jj = stablehlo.add %ii, %one : tensor<i32>
    %yy = stablehlo.concatenate %w, %f, dim = 0 : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>
    stablehlo.return %jj, %yy : tensor<i32>, tensor<?xf32>
  }
%j = stablehlo.add %i, %one : tensor<i32>
%y = stablehlo.concatenate %q#1, %f, dim = 0 : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>"""
    result = solved(loop(less("%two"), inner))
    assert result.explain(after(result), "arg0.0 + 2*arg1.0 + 2").status == "proved"


ONNX = """<ir_version: 8, opset_import: ["" : 18]> g (float[p,4] cache, float[t] s, int64 most)
    => (float[?,4] y, float[?,?] rows) {
  n = Shape(s)
  go = Constant<value = bool {1}>()
  y, rows = Loop(LIMIT, go, cache) <body = body (int64 i, bool going, float[?,4] k)
      => (bool on, float[?,4] k2, float[?] row) {
    on = Identity(going)
    one = Constant<value = float[1,4] {1,2,3,4}>()
    k2 = Concat<axis = 0>(k, one)
    axis = Constant<value = int64[1] {0}>()
    row = ReduceSum<keepdims = 0>(k2, axis)
  }>
}"""


@pytest.mark.parametrize("limit", ["n", "most"])
def test_a_loop_of_onnx_whose_types_say_nothing(limit: str, tmp_path: Path) -> None:
    """The rows are as many as the rounds, whether or not a size says how many these are."""
    onnx = pytest.importorskip("onnx", reason="reading ONNX needs the extra onnx")
    path = tmp_path / "g.onnx"
    onnx.save(onnx.parser.parse_model(ONNX.replace("LIMIT", limit)), path)
    result = egshape.optimize(path)
    assert result.report.status == "saturated", result.report.notes
    joined, rows = (value.type.dims[0] for value in result.graph.outputs)
    assert result.optimized.sizes.equal(joined, rows + symbol("p"))
    if limit == "n":
        assert [each.shape for each in result.report.outputs] == [("p + t", "4"), ("t", "4")]


CHECKED = """    check() {relation="<=", sides=<b, a>, message="b is more than a", args=[], fact=""}"""
STAYING = {
    "a loop of known results": """  %two: i32[] = constant() {value=i32[]{2}}
  %r: i32[], %s: i32[] = while(%zero, %zero) (%i: i32[], %j: i32[]) {
    %p: i1[] = compare(%i, %two) {direction=LT, kind=SIGNED}
    return %p
  } (%k: i32[], %l: i32[]) {
CHECKED
    %one: i32[] = constant() {value=i32[]{1}}
    %n: i32[] = add(%k, %one)
    return %n, %one
  }""",
    "a branch of a result without an element": """  %r: f32[a, 0] = case(%zero) () {
CHECKED
    return %e
  }""",
}


@pytest.mark.parametrize("body", STAYING.values(), ids=STAYING.keys())
def test_what_is_known_of_its_results_does_not_take_away_what_it_checks(body: str) -> None:
    text = f"""graph g(%x: f32[a], %y: f32[b], %e: f32[a, 0]) {{
  symbols a = size(%x, 0), b = size(%y, 0)
  %zero: i32[] = constant() {{value=i32[]{{0}}}}
{body.replace("CHECKED", CHECKED)}
  return %x as out0
}}"""
    graph = egshape.optimize(parse_graph(text), allow_larger=True, validate=False).graph
    two, three = (np.zeros(size, np.float32) for size in (2, 3))
    interpret(graph, [two, two, np.zeros((2, 0), np.float32)])
    with pytest.raises(CheckFailed, match="b is more than a"):
        interpret(graph, [two, three, np.zeros((2, 0), np.float32)])
