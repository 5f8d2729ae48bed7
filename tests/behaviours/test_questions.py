"""Questions about sizes, and the programs around them (lines S095 to S139 and S131, S137)."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from egshape.api import shapes_table
from egshape.errors import CheckFailed
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from tests.behaviours.programs import Program, ask, checks, equal, module, ops, shapes, solved

PROVED = [
    ("S105", "((b - a)//c)*c + a <= b", ("a >= 1", "b >= 1", "c >= 1")),
    ("S107", "i*n + j < m*n", ("i < m", "j < n")),
    ("S109", "max(x, y) + min(x, y) == x + y", ()),
    ("S109", "2*max(x, y) >= x + y", ()),
    ("S115", "(3*a*a*b + 2*b*b*a)//(a*b) == 3*a + 2*b", ("a >= 1", "b >= 1")),
    ("S115", "(3*a*a*b + 2*b*b*a) % (a*b) == 0", ("a >= 1", "b >= 1")),
    ("S115", "(a*a - b*b)//(a + b) == a - b", ("a >= 1",)),
    ("S115", "(a*a - b*b) % (a + b) == 0", ("a >= 1",)),
    ("S117", "5*a - 2 == 13", ("2*a >= 5", "3*a <= 10")),
    ("S121", "128*((t + (-t)%128)//128) == t + (-t)%128", ()),
    ("S123", "max(a, b) - a - max(b - a, 0) == 0", ()),
    ("S123", "max(a + c, b + c) == max(a, b) + c", ()),
    ("S125", "b >= b % 3", ()),
    ("S129", "s//(s//2) == 2", ("s % 2 == 0", "s % (s//2) == 0", "2*(s//2) == s")),
    ("S131", "x//y == 1", ("x == y", "y >= 1")),
    ("S131", "(2*x)//y == 2", ("x == y", "y >= 1")),
    ("S133", "(16*n) % 64 == 0", ("n % 4 == 0",)),
    ("S133", "(n//4) % 16 == 0", ("n % 64 == 0",)),
    ("S135", "(a + b) % 4 == 0", ("a % 8 == 0", "b % 12 == 0")),
    ("S135", "(a - b) % 4 == 0", ("a % 8 == 0", "b % 12 == 0")),
    ("S135", "min(a, b) % 4 == 0", ("a % 8 == 0", "b % 12 == 0")),
    ("S135", "max(a, b) % 4 == 0", ("a % 8 == 0", "b % 12 == 0")),
    ("S135", "cdiv(a, 2) % 4 == 0", ("a % 8 == 0",)),
    ("S135", "(a % 16) % 8 == 0", ("a % 8 == 0",)),
    ("S137", "(n//4)*4 == n", ("n % 4 == 0",)),
    ("S137", "(n//4)*4 == n", ("n % 8 == 0",)),
    ("S139", "t <= 2048", ("t == 2*s", "s <= 1024")),
    ("S139", "t % 2 == 0", ("t == 2*s",)),
]
OTHERWISE = [
    ("S105", "((b - a)//c)*c + a == b", ("c >= 1", "b >= a"), "refuted"),
    ("S107", "i*n + j < m*n", ("i < m", "j <= n"), "refuted"),
    ("S117", "5*a - 2 == 13", ("2*a >= 5",), "refuted"),
    ("S131", "x//y == 1", ("x == y",), "unknown"),
    ("S133", "(16*n) % 128 == 0", ("n % 4 == 0",), "refuted"),
    ("S133", "(n//4) % 32 == 0", ("n % 64 == 0",), "refuted"),
    ("S135", "max(a, b) % 8 == 0", ("a % 8 == 0", "b % 12 == 0"), "refuted"),
    ("S137", "(n//4)*4 == n", ("n % 7 == 0",), "refuted"),
    ("S139", "t <= 2047", ("t == 2*s", "s <= 1024"), "refuted"),
]


@pytest.mark.parametrize(("line", "goal", "given"), PROVED, ids=[f"{row[0]}-{row[1]}" for row in PROVED])
def test_what_is_true_is_proved(line: str, goal: str, given: tuple[str, ...]) -> None:
    assert ask(goal, *given).status == "proved", line


@pytest.mark.parametrize(("line", "goal", "given", "status"), OTHERWISE, ids=[f"{r[0]}-{r[1]}" for r in OTHERWISE])
def test_what_is_not_true_is_not_proved(line: str, goal: str, given: tuple[str, ...], status: str) -> None:
    proof = ask(goal, *given)
    assert proof.status == status, line
    assert (proof.counterexample is not None) == (status == "refuted")


def test_s095_shapes_flow_through_calls_loops_and_branches() -> None:
    graph = module("""func.func @main(%given: tensor<5xf32>, %k: tensor<i32>, %p: tensor<i1>)
        -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
      %a = tensor.cast %given : tensor<5xf32> to tensor<?xf32>
      %0 = call @f(%a) : (tensor<?xf32>) -> tensor<?xf32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1:2 = stablehlo.while(%i = %zero, %v = %0) : tensor<i32>, tensor<?xf32>
       cond { %l = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
         stablehlo.return %l : tensor<i1> }
       do { %j = stablehlo.add %i, %one : tensor<i32>
         %n = func.call @f(%v) : (tensor<?xf32>) -> tensor<?xf32>
         stablehlo.return %j, %n : tensor<i32>, tensor<?xf32> }
      %2 = "stablehlo.if"(%p) ({ %x = func.call @f(%0) : (tensor<?xf32>) -> tensor<?xf32>
         stablehlo.return %x : tensor<?xf32> }, { stablehlo.return %0 : tensor<?xf32> }) : (tensor<i1>) -> tensor<?xf32>
      %3 = "stablehlo.case"(%k) ({ %x = func.call @f(%0) : (tensor<?xf32>) -> tensor<?xf32>
         stablehlo.return %x : tensor<?xf32> }, { stablehlo.return %0 : tensor<?xf32> })
         : (tensor<i32>) -> tensor<?xf32>
      return %1#1, %2, %3 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32> }
    func.func private @f(%a: tensor<?xf32>) -> tensor<?xf32> {
      %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %c = stablehlo.constant dense<1.0> : tensor<f32>
      %b = stablehlo.dynamic_broadcast_in_dim %c, %r, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
      %s = stablehlo.add %a, %b : tensor<?xf32>
      return %s : tensor<?xf32> }""")
    result = solved(graph, accepted=1)
    assert shapes(result) == ["[5]"] * 3
    assert not {"get_dimension_size", "dims", "broadcast_in_dim"} & set(ops(result))


def test_s097_each_size_names_the_axes_it_comes_from() -> None:
    p = Program()
    x, y, w = p.input("x", ["b", "m", "k"]), p.input("y", ["b", "k", "n"]), p.input("w", [None])
    attrs = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (1,), "dtype": "f32"}
    dot = p.one("dot_general", (x, y), attrs, result_names=["dot"])
    sizes = p.one("concatenate", [p.reshape(p.size(dot, axis), 1) for axis in range(3)], {"dim": 0}, result_names=["s"])
    p.one("broadcast_in_dim", (w, sizes), {"dims": (2,)}, result_names=["wide"])
    rows = {row.name: row for row in shapes_table(p.graph(dot)).values}
    assert rows["%dot"].from_ == (("x.0",), ("x.1",), ("y.2",))
    assert rows["%wide"].from_ == (("x.0",), ("x.1",), ("y.2",))
    assert rows["%s"].from_ == ((),), "the length of a shape vector comes from nothing"


def _quarter(shape: str) -> Graph:
    """f: [n, 4m] -> [n*m], called with a shape."""
    return module(f"""func.func @main(%a: tensor<{shape}xf32>) -> tensor<?xf32> {{
      %c = tensor.cast %a : tensor<{shape}xf32> to tensor<?x?xf32>
      %r = call @f(%c) : (tensor<?x?xf32>) -> tensor<?xf32>
      return %r : tensor<?xf32> }}
    func.func private @f(%x: tensor<?x?xf32>) -> tensor<?xf32> {{
      %four = stablehlo.constant dense<4> : tensor<i32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
      %m4 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
      %m = stablehlo.divide %m4, %four : tensor<i32>
      %nm = stablehlo.multiply %n, %m : tensor<i32>
      %v = stablehlo.reshape %nm : (tensor<i32>) -> tensor<1xi32>
      %z = stablehlo.constant dense<1.0> : tensor<f32>
      %o = stablehlo.dynamic_broadcast_in_dim %z, %v, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
      return %o : tensor<?xf32> }}""")


def test_s099_s101_a_function_takes_the_shape_of_its_call() -> None:
    assert shapes(solved(_quarter("6x8"), accepted=1)) == ["[12]"]
    assert shapes(solved(_quarter("?x12"))) == ["[3*arg0.0]"]
    assert shapes(solved(_quarter("?x?"), "arg0.1 % 4 == 0", "arg0.1 <= 8")) == ["[arg0.0*(arg0.1//4)]"]


def _either(condition: str, other: str) -> Graph:
    return module(f"""func.func @main(%p: tensor<i1>, %y: tensor<2xf32>) -> tensor<?xf32> {{
      %true = stablehlo.constant dense<true> : tensor<i1>
      %r = "stablehlo.if"({condition}) ({{
        %x = stablehlo.concatenate %y, %y, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
        %z = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
        stablehlo.return %z : tensor<?xf32> }}, {{
        {other}
        stablehlo.return %z : tensor<?xf32> }}) : (tensor<i1>) -> tensor<?xf32>
      return %r : tensor<?xf32> }}""")


def test_s103_branches_join_where_they_agree_or_one_is_known() -> None:
    short = "%z = tensor.cast %y : tensor<2xf32> to tensor<?xf32>"
    same = """%w = stablehlo.concatenate %y, %y, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
        %n = stablehlo.negate %w : tensor<4xf32>
        %z = tensor.cast %n : tensor<4xf32> to tensor<?xf32>"""
    assert shapes(solved(_either("%p", short))) == ["[%2.0]"]
    assert shapes(solved(_either("%p", same), accepted=1)) == ["[4]"]
    known = solved(_either("%true", short), accepted=1)
    assert (ops(known), shapes(known)) == (["concatenate"], ["[4]"])


def test_s113_a_result_of_an_opaque_call_is_tied_to_the_inputs_by_checks() -> None:
    p = Program()
    x = p.input("x", [None, None])
    p.add("check", (), {"relation": "==", "sides": x.type.dims, "message": "square"})
    flat = p.one("custom_call", (x,), {"target": "flatten", "types": (("f32", (-1,)),)})
    sides = (flat.type.dims[0], x.type.dims[0] * x.type.dims[0])
    p.add("check", (), {"relation": "==", "sides": sides, "message": "flat"})
    result = solved(p.graph(p.one("reshape", (flat, p.vector(p.size(x, 0), p.size(x, 1))))), accepted=0)
    assert shapes(result) == ["[x.0, x.0]"]
    assert checks(result) == ["x.0 == x.1", "%0.0 == x.0*x.0"], "the reshape needs no check of its own"


def test_s119_slices_of_two_inputs_have_equal_shapes() -> None:
    p = Program()
    x, y = p.input("x", ["a"]), p.input("y", ["b"])
    graph = p.graph(p.one("add", (p.slice(x, (0,), ("min(a, b)",)), p.slice(y, (2,), ("b",)))))
    result = solved(graph, "min(a, b) == b - 2")
    assert ops(result) == ["slice", "add"], "the first slice is all of x"
    assert equal(result, "a", "b - 2")


def test_s127_what_is_violated_is_named_with_its_value() -> None:
    p = Program()
    x = p.input("x", ["a"])
    result = solved(p.graph(p.one("negate", (x,))), "a in [2,4]")
    for size in (1, 5):
        with pytest.raises(CheckFailed, match=rf"a in \[2,4\] does not hold: a is {size}"):
            interpret(result.graph, [np.zeros(size, np.float32)])


def test_s131_s137_divisions_in_shape_code_fold_under_facts() -> None:
    p = Program()
    x, y = p.input("x", ["n"]), p.input("y", ["m"])
    whole = p.one("multiply", (p.one("divide", (p.size(x, 0), p.number(4))), p.number(4)))
    ratio = p.one("divide", (p.size(x, 0), p.size(y, 0)))
    graph = p.graph(whole, ratio, x, y)
    known = str(solved(graph, "n % 8 == 0", "n == m", "m >= 1").graph)
    assert "elements=<n>" in known
    assert "i32[]{1}" in known
    kept = str(solved(graph, "n % 7 == 0").graph)
    assert "elements=<4*(n//4)>" in kept


def test_s139_a_multiple_of_a_symbol_has_its_bound_and_divisor() -> None:
    p = Program()
    x, y = p.input("x", ["s"]), p.input("y", ["t"])
    result = solved(p.graph(p.one("concatenate", (x, x), {"dim": 0}), y), "t == 2*s", "s <= 1024")
    ranges = {each.name: each.ranges for each in result.report.symbols}
    assert ranges == {"s": ((0, 1024),), "t": ((0, 2048),)}
    assert equal(result, "t % 2", "0")
