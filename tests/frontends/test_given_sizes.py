"""Sizes that data give: one symbol for each element, wherever it is asked for, and what that saves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

import egshape
from egshape.errors import EgshapeError
from egshape.frontends.stablehlo import read
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret


def program(body: str, more: str = "%n: tensor<i32>") -> Graph:
    """A function of x, y, the vector s of two sizes, and more."""
    return read(
        f"""func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>, %s: tensor<2xi32>, {more}) -> tensor<?x?xf32> {{
          {body}
          return %r : tensor<?x?xf32>
        }}""",
        "given.mlir",
    )


def broadcast(name: str, x: str, sizes: str, dim: int, type: str = "tensor<2xi32>") -> str:
    return (
        f"%{name} = stablehlo.dynamic_broadcast_in_dim %{x}, %{sizes}, dims = [{dim}] : (tensor<?xf32>, {type}) "
        "-> tensor<?x?xf32>\n"
    )


U, V = broadcast("u", "x", "s", 0), broadcast("v", "y", "s", 1)
SUM = "%r = stablehlo.add %u, %v : tensor<?x?xf32>"
PARTS = """%a = stablehlo.slice %s [0:1] : (tensor<2xi32>) -> tensor<1xi32>
  %b = stablehlo.slice %s [1:2] : (tensor<2xi32>) -> tensor<1xi32>
  %c = stablehlo.reshape %a : (tensor<1xi32>) -> tensor<i32>
  %d = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>
  %t = stablehlo.concatenate %d, %b, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
"""
WIDE = "%w = stablehlo.convert %s : (tensor<2xi32>) -> tensor<2xi64>\n"
SWAPPED = PARTS.replace("%d, %b", "%b, %d")


@pytest.mark.parametrize(
    "body",
    [
        U + V + SUM,
        U + PARTS + broadcast("v", "y", "t", 1) + SUM,
        WIDE + broadcast("u", "x", "w", 0, "tensor<2xi64>") + V + SUM,
        "%u = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> tensor<?x?xf32>\n" + V + SUM,
        "%u = stablehlo.dynamic_reshape %x, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>\n" + V + SUM,
    ],
)
def test_an_element_has_one_symbol(body: str) -> None:
    graph = program(body)
    assert sum(each.element is not None for each in graph.body.symbols) == 2
    result = egshape.optimize(graph)
    assert not [row.text for row in result.report.checks if row.text.startswith("%0") and "arg" not in row.text]
    for sizes in ([2, 3], [2, 2], [0, 3], [-1, 3]):
        arrays = [np.arange(n, dtype="f") for n in (2 * 3 if "dynamic_reshape" in body else 2, 3)]
        arrays += [np.array(sizes, np.int32), np.array(0, np.int32)]
        assert outcome(graph, arrays) == outcome(result.graph, arrays), sizes


def outcome(graph: Graph, arrays: list[np.ndarray]) -> object:
    try:
        return [each.tolist() for each in interpret(graph, arrays)]
    except EgshapeError:
        return "refused"


@pytest.mark.parametrize(
    "body",
    [
        U + SWAPPED + broadcast("v", "y", "t", 1) + SUM,
        "%w = stablehlo.add %s, %s : tensor<2xi32>\n" + U + broadcast("v", "y", "w", 1) + SUM,
    ],
)
def test_other_elements_have_others(body: str) -> None:
    result = egshape.optimize(program(body))
    arrays = [np.ones(2, "f"), np.ones(3, "f"), np.array([2, 3], np.int32), np.array(0, np.int32)]
    assert outcome(result.graph, arrays) == "refused"


def test_a_conversion_that_may_wrap_makes_others() -> None:
    wrapped = "%w = stablehlo.convert %m : (tensor<2xi64>) -> tensor<2xi32>\n"
    body = wrapped + broadcast("u", "x", "w", 0) + broadcast("v", "y", "m", 1, "tensor<2xi64>") + SUM
    graph = program(body, "%m: tensor<2xi64>")
    assert sum(each.element is not None for each in graph.body.symbols) == 4


def test_what_a_tie_or_a_reshape_gives_is_not_broadcast_again(tmp_path: Path) -> None:
    """To the same vector; the file names it, not its elements one by one."""
    again = broadcast("r", "u", "s", 0).replace("[0]", "[0, 1]").replace("tensor<?xf32>", "tensor<?x?xf32>")
    tie = "%u = stablehlo.custom_call @tie_shape(%z, %s) : (tensor<?x?xf32>, tensor<2xi32>) -> tensor<?x?xf32>\n"
    tied = egshape.optimize(program(tie + again, "%z: tensor<?x?xf32>"))
    assert [op.name for op in tied.graph.ops if op.name == "broadcast_in_dim"] == []
    reshape = "%u = stablehlo.dynamic_reshape %x, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>\n"
    egshape.save(egshape.optimize(program(reshape + again)).graph, tmp_path / "reshaped.mlir")
    text = (tmp_path / "reshaped.mlir").read_text()
    assert "dynamic_reshape %arg0, %arg2" in text and "dynamic_broadcast" not in text and "concatenate" not in text


def test_a_region_sees_the_symbols_around_it() -> None:
    graph = program(
        U
        + """%z = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %q:2 = stablehlo.while(%i = %n, %c = %u) : tensor<i32>, tensor<?x?xf32>
          cond { %g = stablehlo.compare GT, %i, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %g : tensor<i1> }
          do { %j = stablehlo.subtract %i, %one : tensor<i32>
            """
        + V
        + """%k = stablehlo.add %c, %v : tensor<?x?xf32>
            stablehlo.return %j, %k : tensor<i32>, tensor<?x?xf32> }
        %r = stablehlo.abs %q#1 : tensor<?x?xf32>"""
    )
    regions = [region for op in graph.ops for region in op.regions]
    assert not any(each.element is not None for region in regions for each in region.symbols)


@pytest.mark.parametrize(
    "condition", ["LE, %a, %m", "LT, %a, %z", "EQ, %a, %e", "EQ, %f, %z", "LT, %d, %a", "NE, %a, %a"]
)
def test_what_never_holds_is_refused(condition: str) -> None:
    text = f"""func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {{
      %a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %m = stablehlo.constant dense<-1> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %d = stablehlo.multiply %a, %two : tensor<i32>
      %e = stablehlo.add %d, %one : tensor<i32>
      %f = stablehlo.remainder %e, %two : tensor<i32>
      %g = stablehlo.compare {condition} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%g) {{api_version = 2 : i32, error_message = "never"}} : (tensor<i1>) -> ()
      return %x : tensor<?xf32>
    }}"""
    with pytest.raises(EgshapeError, match="never, which is false at every admitted size"):
        egshape.optimize(read(text, "never.mlir"))


BROADCASTABLE = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %s1 = shape.shape_of %x : tensor<?xf32> -> tensor<1xindex>
  %s2 = shape.shape_of %y : tensor<?xf32> -> tensor<1xindex>
  %w = shape.cstr_broadcastable %s1, %s2 : tensor<1xindex>, tensor<1xindex>
  %r = shape.assuming %w -> tensor<?xf32> {
    %c = stablehlo.abs %x : tensor<?xf32>
    shape.assuming_yield %c : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}"""


def test_that_sizes_broadcast_is_written_without_products(tmp_path: Path) -> None:
    """A product of three differences leaves 64 bits at 4,194,305 beside 2,097,153, where it is 0."""
    result = egshape.optimize(read(BROADCASTABLE, "b.mlir"))
    assert [row.text for row in result.report.checks] == ["arg0.0 == arg1.0 or arg0.0 == 1 or arg1.0 == 1"]
    egshape.save(result.graph, tmp_path / "b.mlir")
    text = (tmp_path / "b.mlir").read_text()
    assert text.count("stablehlo.or") == 2 and "multiply" not in text
    again = egshape.optimize(egshape.load(tmp_path / "b.mlir"))
    assert [row.text for row in again.report.checks] == ["arg0.0 == arg1.0 or arg0.0 == 1 or arg1.0 == 1"]
    fn = egshape.compile(result)
    assert fn.checks == ["arg0.0 == arg1.0 or arg0.0 == 1 or arg1.0 == 1"]
    with pytest.raises(EgshapeError, match="do not broadcast"):
        fn(np.ones(4_194_305, "f"), np.ones(2_097_153, "f"))
    assert fn(np.ones(5, "f"), np.ones(1, "f")).shape == (5,)


def test_compiled_code_does_not_check_what_its_checks_imply() -> None:
    body = """%s2 = shape.shape_of %y : tensor<?xf32> -> tensor<1xindex>
      %s1 = shape.shape_of %x : tensor<?xf32> -> tensor<1xindex>
      %w = shape.cstr_broadcastable %s1, %s2 : tensor<1xindex>, tensor<1xindex>
      %r = shape.assuming %w -> tensor<?xf32> {
        %b = shape.broadcast %s1, %s2 : tensor<1xindex>, tensor<1xindex> -> tensor<1xindex>
        %u = stablehlo.dynamic_broadcast_in_dim %x, %b, dims = [0] : (tensor<?xf32>, tensor<1xindex>) -> tensor<?xf32>
        %v = stablehlo.dynamic_broadcast_in_dim %y, %b, dims = [0] : (tensor<?xf32>, tensor<1xindex>) -> tensor<?xf32>
        %c = stablehlo.multiply %u, %v : tensor<?xf32>
        shape.assuming_yield %c : tensor<?xf32>
      }"""
    text = (
        f"func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{ {body} return %r : tensor<?xf32> }}"
    )
    fn = egshape.compile(egshape.optimize(read(text, "m.mlir")))
    assert fn.checks == ["arg0.0 == arg1.0 or arg0.0 == 1 or arg1.0 == 1"]
    assert "f32[bcast(arg0.0, arg1.0)]" in repr(fn)
    assert [fn(np.ones(n, "f"), np.ones(m, "f")).size for n, m in ((5, 1), (1, 5), (0, 1), (3, 3))] == [5, 5, 0, 3]


JOIN = """module attributes {{shape.lib = [@lib]}} {{
  func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {{
    %sa = shape.shape_of %a : tensor<?xf32> -> !shape.shape
    %sb = shape.shape_of %b : tensor<?xf32> -> !shape.shape
    %m = "shape.join"(%sa, %sb) : (!shape.shape, !shape.shape) -> !shape.shape
    {0}
  }}
  shape.function_library @lib {{
    func.func @same(%x: !shape.value_shape) -> !shape.shape {{
      %0 = shape.shape_of %x : !shape.value_shape -> !shape.shape
      return %0 : !shape.shape
    }}
  }} mapping {{ test.same = @same }}
}}"""


def test_a_join_holds_sizes_to_be_equal_where_it_is_read(tmp_path: Path) -> None:
    """One that nobody reads may be an invalid shape. A function library is passed over."""
    read_ = """%e = shape.to_extent_tensor %m : !shape.shape -> tensor<1xindex>
      %r = stablehlo.dynamic_broadcast_in_dim %a, %e, dims = [0] : (tensor<?xf32>, tensor<1xindex>) -> tensor<?xf32>
      return %r : tensor<?xf32>"""
    for rest, texts in (("return %a : tensor<?xf32>", []), (read_, ["arg0.0 == arg1.0"])):
        result = egshape.optimize(read(JOIN.format(rest), "join.mlir"))
        assert [row.text for row in result.report.checks] == texts
        assert not result.graph.ops or {op.name for op in result.graph.ops} == {"check"}
        egshape.save(result.graph, tmp_path / "join.mlir")
