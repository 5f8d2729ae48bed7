"""The cost at the likely sizes decides before the size of the file does, which grows only where that pays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.cli import main
from egshape.egraph.cost import CostModel
from egshape.errors import InvalidInput
from egshape.frontends.frontend import Cost
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.measure import Measure, Measured

MATRIX = "tensor<?x?xf32>"
TIMES_ONE = f"""func.func @main(%x: {MATRIX}, %s: tensor<2xi32>) -> ({MATRIX}, {MATRIX}) {{
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %o = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> {MATRIX}
  %m = stablehlo.multiply %x, %o : {MATRIX}
  %t = stablehlo.tanh %m : {MATRIX}
  return %t, %x : {MATRIX}, {MATRIX}
}}"""

CHAIN = """; ruleset: approx.chain
; about:   products of matrices in either order
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     keeps dtype, shape and each value up to rounding
; ends:    each rule says why
; tolerance: 1e-3

; (A B) C = A (B C)
; ends: n matrices have a Catalan number of orders
(birewrite
  (dot_general (dot_general a b (vec-empty) (vec-empty) (vec-of 1) (vec-of 0) pr "f32") c
    (vec-empty) (vec-empty) (vec-of 1) (vec-of 0) pr "f32")
  (dot_general a (dot_general b c (vec-empty) (vec-empty) (vec-of 1) (vec-of 0) pr "f32")
    (vec-empty) (vec-empty) (vec-of 1) (vec-of 0) pr "f32")
  :ruleset approx.chain :name "approx.chain/associates")
;; example   dot_general(dot_general(a: [m, k], b: [k, n], [], [], [1], [0], dtype=f32), c: [n, p], [], [], [1], [0], dtype=f32)  =>  dot_general(a, dot_general(b, c, [], [], [1], [0], dtype=f32), [], [], [1], [0], dtype=f32)
"""  # noqa: E501 - an example is one line

SUMS = """; ruleset: own.sums
; about:   sums cancel
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     keeps dtype, shape and every bit of the value
; ends:    each rewrite lowers the number of ops

; (x - y) + y = x + 0 of i32
; sound: i32 wraps
(rule ((= e (Binary "add" (Binary "subtract" x y) y)) (= "i32" (dtype_of x)) (= s (ShapeOf x)))
  ((union e (Binary "add" x (broadcast_in_dim (dims (Sh (vec-of (Num 0))) (vec-empty) "i32") (vec-empty) s))))
  :ruleset own.sums :name "own.sums/cancels")
;; example   add(subtract(x: i32[a], y: i32[a]), y)  =>  add(x, broadcast_in_dim(dims([0], [], i32), [], [a]))
;; counter   add(subtract(x: f32[a], y: f32[a]), y)
"""


def stablehlo(text: str) -> Graph:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    return egshape.load(text.encode(), format="stablehlo")


def kinds(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops if op.name not in ("check", "constant")]


def test_work_over_a_tensor_goes_though_its_checks_are_more_statements() -> None:
    graph = stablehlo(TIMES_ONE)
    result = egshape.optimize(graph)
    assert kinds(result.graph) == ["tanh"]
    assert any(
        note.startswith("larger (") and "of the cost at the likely sizes" in note for note in result.report.notes
    )
    again = egshape.optimize(result.graph)
    assert CostModel({}).graph(again.graph) == CostModel({}).graph(result.graph)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(interpret(result.graph, [x, np.array([2, 3], np.int32)])[0], np.tanh(x))


def test_size_is_preferred_where_that_is_said() -> None:
    result = egshape.optimize(stablehlo(TIMES_ONE), prefer="size")
    assert "multiply" in kinds(result.graph)
    assert not any(note.startswith("larger (") for note in result.report.notes)


def test_at_small_sizes_it_does_not_pay() -> None:
    """The launches remain, so it is worth it at every size; at a size of 0 no byte is moved."""
    for size in (0, 1, 10_000):
        result = egshape.optimize(stablehlo(TIMES_ONE), [f"likely arg0.0 = {size}", f"likely arg0.1 = {size}"])
        assert kinds(result.graph) == ["tanh"]


def test_a_wrong_preference_is_refused() -> None:
    with pytest.raises(InvalidInput, match="prefer"):
        egshape.optimize(stablehlo(TIMES_ONE), prefer="speed")  # type: ignore[arg-type]


def test_the_command_line_has_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    path = tmp_path / "m.mlir"
    path.write_text(TIMES_ONE)
    assert main(["optimize", str(path), "--prefer", "size"]) == 0
    assert "multiply" not in capsys.readouterr().out
    assert main(["optimize", str(path)]) == 0
    assert "multiply" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sizes", "first"),
    [
        ({"m": 300, "k": 3, "n": 300, "p": 30_100}, ("b", "c")),
        ({"m": 3, "k": 300, "n": 300, "p": 30_100}, ("a", "b")),
        ({"m": 64, "k": 64, "n": 1, "p": 64}, ("a", "b")),
        ({"m": 64, "k": 1, "n": 64, "p": 1}, ("b", "c")),
    ],
)
@pytest.mark.parametrize("left", [True, False])
def test_a_chain_of_products_by_its_operations(
    sizes: dict[str, int], first: tuple[str, str], left: bool, tmp_path: Path
) -> None:
    """Whichever order it comes in."""
    record = "{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], precision=[], dtype=f32}"
    inner = f"%0: f32[m, n] = dot_general(%a, %b) {record}" if left else f"%0: f32[k, p] = dot_general(%b, %c) {record}"
    outer = "%0, %c" if left else "%a, %0"
    (tmp_path / "chain.egg").write_text(CHAIN)
    graph = egshape.load(
        f"""graph chain(%a: f32[m, k], %b: f32[k, n], %c: f32[n, p]) {{
          symbols m = size(%a, 0), k = size(%a, 1), n = size(%b, 1), p = size(%c, 1)
          {inner}
          %1: f32[m, p] = dot_general({outer}) {record}
          return %1 as y
        }}""".encode(),
        format="egs",
    )
    likely = [f"likely {name} = {size}" for name, size in sizes.items()]
    result = egshape.optimize(graph, likely, rules=[str(tmp_path / "chain.egg")])
    made = next(op for op in result.graph.ops if op.name == "dot_general")
    assert tuple(value.name for value in made.operands) == first


def test_rules_of_a_user_reach_a_fixpoint(tmp_path: Path) -> None:
    """A list of sizes that is a number becomes a neutral constant when it is read anew."""
    (tmp_path / "sums.egg").write_text(SUMS)
    graph = egshape.load(
        b"""graph g(%a: i32[n], %b: i32[n]) {
          symbols n = size(%a, 0)
          %n: i32[n] = negate(%b)
          %0: i32[n] = subtract(%a, %n)
          %1: i32[n] = add(%0, %n)
          return %1 as y
        }""",
        format="egs",
    )
    result = egshape.optimize(graph, rules=[str(tmp_path / "sums.egg")])
    assert not result.graph.ops
    (removed, *_) = result.explain_removed()
    assert result.explain_value("%1").stands == "%a : i32[n]" and removed.why


def measured(cost: float, count: int, checks: int | None = None, of_checks: float = 0.0) -> Measured:
    return Measured(cost, of_checks, Cost(count, "nodes", 0, checks))


def test_what_decides() -> None:
    cost, size = Measure(CostModel({})), Measure(CostModel({}), "size")
    before = measured(1000.0, 10)
    assert not cost.why_not(before, measured(980.0, 12)) and size.why_not(before, measured(980.0, 12))
    assert "save 0.5% of the cost" in cost.why_not(before, measured(995.0, 12))
    assert "3.0% more" in cost.why_not(before, measured(1030.0, 8)) and not size.why_not(before, measured(1030.0, 8))
    assert cost.why_not(before, measured(980.0, 12, None, 15.0)), "checks cost what they save"
    apart = measured(1000.0, 10, 0)
    assert not cost.why_not(apart, measured(900.0, 10, 4)) and cost.why_not(apart, measured(900.0, 11, 0))
    assert not Measure(CostModel({}), "size", checks=False).why_not(apart, measured(1000.0, 10, 4))
    assert not cost.gains(before, before) and cost.gains(before, measured(1000.0, 9))
