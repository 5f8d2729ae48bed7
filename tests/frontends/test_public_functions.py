"""The other public functions of a module: kept, optimized too, and written back."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo
from egshape.api import optimize
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.text import parse_graph, print_graph

F = np.float32
BODY = """(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x?xf32>) -> tensor<?x4xf32>
    %2 = func.call @shared(%1) : (tensor<?x4xf32>) -> tensor<?x4xf32>
    %3 = stablehlo.OP %2 : tensor<?x4xf32>
    return %3 : tensor<?x4xf32> }
"""
MODULE = f"""module @both {{
  func.func public @main{BODY.replace("OP", "sine")}
  func.func public @other{BODY.replace("OP", "cosine")}
  func.func private @shared(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {{
    %0 = stablehlo.add %x, %x : tensor<?x4xf32>
    return %0 : tensor<?x4xf32> }}
}}"""


def test_kept_optimized_and_written() -> None:
    graph = read(MODULE, "t.mlir")
    assert [each.name for each in graph.functions] == ["other"]
    result = optimize(graph)
    assert [op.name for op in result.graph.functions[0].ops] == ["add", "cosine"]
    assert any("@other is optimized too: 4 ops to 2" in note for note in result.report.notes)
    written = write(result.graph)
    assert [each.name for each in read(written, "o.mlir").functions] == ["other"]
    x = [np.arange(8, dtype=F).reshape(2, 4)]
    for name in ("main", "other"):
        swapped = [text.replace("@main", "@first").replace(f"@{name if name != 'main' else 'first'}", "@main")
                   for text in (MODULE, written)]  # fmt: skip
        wanted, found = (run_stablehlo(text, x)[0].tolist() for text in swapped)
        assert found == wanted


def test_the_text_form_holds_them() -> None:
    graph = read(MODULE, "t.mlir")
    text = print_graph(graph)
    assert print_graph(parse_graph(text)) == text
    assert len(parse_graph(text).functions) == 1


def test_a_function_that_cannot_be_read_is_named() -> None:
    odd = "func.func public @odd(%x: tensor<2xi7>) -> tensor<2xi7> { return %x : tensor<2xi7> }"
    result = optimize(read(MODULE.replace("func.func private", f"{odd}\n func.func private"), "t.mlir"))
    assert any("@odd is left out" in note and "i7" in note for note in result.report.notes)


def test_a_helper_has_not_the_name_of_a_public_function() -> None:
    """A decomposition that is written anew, and a public function with the name that it would have."""
    text = """module {
      func.func public @a.b.impl(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.sine %x : tensor<2xf32>
        return %0 : tensor<2xf32> }
      func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.composite "a.b" %x {decomposition = @d} : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32> }
      func.func private @d(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.cosine %x : tensor<2xf32>
        return %0 : tensor<2xf32> } }"""
    written = write(read(text, "t.mlir"))
    assert run_stablehlo(written, [np.zeros(2, F)])[0].tolist() == [1.0, 1.0]
    assert "stablehlo.sine" in written


def test_onnx_says_that_it_does_not_hold_them() -> None:
    emit = pytest.importorskip("egshape.frontends.onnx.messages", reason="ONNX needs the extra onnx")
    graph = read(MODULE, "t.mlir")
    assert emit.whole(graph).notes == ("the function other is not written: an ONNX model has one graph",)
    assert len(emit.whole(graph).model.graph.output) == 1
