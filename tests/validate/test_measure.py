"""A result never costs more than its model, as the model's file counts."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.ir.graph import Graph

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")


def adds(count: int, extra: str = "") -> Graph:
    """A chain of adds of vectors that each have a size of their own: each add implies that two sizes are equal."""
    arguments = ", ".join(f"%a{k}: tensor<?xf32>" for k in range(count + 1))
    lines, last = [extra], "%a0"
    for k in range(1, count + 1):
        lines.append(f"%s{k} = stablehlo.add {last}, %a{k} : tensor<?xf32>")
        last = f"%s{k}"
    text = (
        f"func.func @main({arguments}) -> tensor<?xf32> {{\n"
        + "\n".join(lines)
        + f"\nreturn {last} : tensor<?xf32>\n}}\n"
    )
    return egshape.load(text.encode(), format="stablehlo")


def test_checks_alone_do_not_make_a_program_larger() -> None:
    graph = adds(13)
    result = egshape.optimize(graph)
    assert result.unchanged and len(result.graph.ops) == 13
    assert result.report.status == "saturated" and not result.report.rewrites
    assert any("it would be larger (53 statements, not 13)" in note for note in result.report.notes)
    explanation = result.explain("arg0.0", "arg13.0")
    assert explanation.status == "proved"


def test_what_is_smaller_in_spite_of_its_checks_is_taken() -> None:
    turns = "\n".join(f"%t{k} = stablehlo.negate {f'%t{k - 1}' if k else '%a1'} : tensor<?xf32>" for k in range(8))
    graph = adds(1, turns.replace("%a1", "%a0") + "\n%u = stablehlo.subtract %t7, %a1 : tensor<?xf32>")
    result = egshape.optimize(graph)
    assert not result.unchanged and len(result.graph.ops) < len(graph.ops)
    assert not any("larger" in note for note in result.report.notes)


def test_what_was_assumed_is_checked_all_the_same() -> None:
    graph = adds(13)
    result = egshape.optimize(graph, "arg0.0 % 8 == 0")
    assert result.unchanged
    kept = [op for op in result.graph.ops if op.name == "check"]
    assert len(kept) == 1 and "arg0.0" in str(kept[0].attrs["sides"])


def test_a_part_that_would_grow_as_constants_is_named() -> None:
    """The rest of the model is optimized all the same."""
    text = """func.func @main(%x: tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40x40xf32>, tensor<40x40xf32>) {
      %i = stablehlo.constant dense<"0x{}"> : tensor<40x40xf32>
      %a = stablehlo.tanh %i : tensor<40x40xf32>
      %b = stablehlo.cosine %i : tensor<40x40xf32>
      %p = stablehlo.add %x, %a : tensor<40x40xf32>
      %q = stablehlo.add %x, %b : tensor<40x40xf32>
      %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<40x40xf32>) -> tensor<40x40xf32>
      %u = stablehlo.transpose %t, dims = [1, 0] : (tensor<40x40xf32>) -> tensor<40x40xf32>
      %r = stablehlo.negate %u : tensor<40x40xf32>
      return %p, %q, %r : tensor<40x40xf32>, tensor<40x40xf32>, tensor<40x40xf32>
    }""".replace("{}", np.arange(1600, dtype=np.float32).tobytes().hex())
    result = egshape.optimize(egshape.load(text.encode(), format="stablehlo"))
    assert [op.name for op in result.graph.ops if op.name != "add"] == ["constant", "tanh", "cosine", "negate"]
    (note,) = (note for note in result.report.notes if "larger" in note)
    assert "%a (f32[40, 40]), %b (f32[40, 40])" in note
