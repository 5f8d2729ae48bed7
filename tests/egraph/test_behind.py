"""What a reshape of a size that data tells makes sure of is known from there on, and is checked once."""

from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError

TEXT = """
func.func @main(%x: tensor<?xf32> loc("x"), %c: tensor<i32> loc("c"), %k: tensor<i32> loc("k"))
    -> (GRID, tensor<?xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %c1 = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>
  %k1 = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
  %a = stablehlo.real_dynamic_slice %x, %zero, %c1, %one
    : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  TARGET
  %y = stablehlo.dynamic_reshape %a, %t : (tensor<?xf32>, tensor<2xi32>) -> GRID
  %n0 = stablehlo.get_dimension_size %y, dim = 0 : (GRID) -> tensor<i32>
  %n1 = stablehlo.get_dimension_size %y, dim = 1 : (GRID) -> tensor<i32>
  %n = stablehlo.multiply %n0, %n1 : tensor<i32>
  %flat = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %f = stablehlo.dynamic_reshape %y, %flat : (GRID, tensor<1xi32>) -> tensor<?xf32>
  %e = stablehlo.exponential %f : tensor<?xf32>
  %q = stablehlo.add %e, %a : tensor<?xf32>
  return %y, %q : GRID, tensor<?xf32>
}"""

JOIN = "%t = stablehlo.concatenate {}, {}, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>"
QUOTIENT = "%d = stablehlo.divide %c1, {} : tensor<1xi32>\n  "

TARGETS = {  # the target's code, its second size, and pairs (c, k) that fit and that do not
    "a square": (JOIN.format("%k1", "%k1"), "?", [(4, 2), (0, 0), (1, 1)], [(3, 2), (4, -2), (5, 1)]),
    "rows of four": (JOIN.format("%k1", "%four"), "4", [(8, 2), (0, 0), (4, 1)], [(8, 1), (3, 0), (4, -1)]),
    "what is left in rows of four": (
        QUOTIENT.format("%four") + JOIN.format("%d", "%four"),
        "4",
        [(8, 0), (0, 0)],
        [(7, 0)],
    ),
    "what is left in rows of k": (
        QUOTIENT.format("%k1") + JOIN.format("%d", "%k1"),
        "?",
        [(6, 3), (5, 5), (7, 1), (0, 2)],
        [(7, 2)],
    ),
}


@pytest.mark.parametrize("name", TARGETS)
def test_known_from_the_reshape_on(name: str, tmp_path: Path) -> None:
    target, last, good, bad = TARGETS[name]
    grid = f"tensor<?x{last}xf32>"
    text = TEXT.replace("TARGET", target).replace("GRID", grid)
    (tmp_path / "m.mlir").write_text(text)
    result = egshape.optimize(egshape.load(tmp_path / "m.mlir"), allow_larger=True)
    ops = [op for op in result.graph.body.ops if op.name in ("exponential", "add", "check") or op.result.type.rank == 2]
    assert [op.name for op in ops] == ["check", "check", "reshape", "exponential", "add"]
    (inner,) = ops[3].operands
    assert inner is ops[2].operands[0], "the size is the same: there is no reshape to it"
    run = egshape.compile(result)
    x = np.linspace(-1, 1, 9, dtype=np.float32)
    for c, k in good:
        y, q = run(x, np.int32(c), np.int32(k))
        np.testing.assert_array_equal(y.reshape(-1), x[:c])
        np.testing.assert_allclose(q, np.exp(x[:c]) + x[:c], rtol=1e-6)
    for c, k in (*bad, (10, 1)):
        with pytest.raises(EgshapeError):
            run(x, np.int32(c), np.int32(k))
