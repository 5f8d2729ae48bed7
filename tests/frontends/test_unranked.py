"""Unranked values of StableHLO: ranks from uses, what stays unranked, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

import egshape
from egshape.api import optimize, shapes_table
from egshape.cli import main as run_cli
from egshape.errors import ParseError, Unsupported
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import bytecode, write
from egshape.frontends.stablehlo.ranks import ranked
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret

U = "tensor<*xf32>"
"""The type that is said of everything here whose rank is left out."""


def main(args: str, results: str, body: str, more: str = "") -> str:
    return f"func.func @main({args}) -> ({results}) {{\n{body}\n}}\n{more}"


def ranks(text: str) -> str:
    """The ranks of the inputs and outputs; * for one that is not known."""
    return ranks_of(read(text, "t.mlir"))


def ranks_of(graph: Graph) -> str:
    return " ".join(
        "*" if value.type.shape is None else str(value.type.rank) for value in (*graph.inputs, *graph.outputs)
    )


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        # the type of another operand, by elements
        (f"%0 = stablehlo.add %x, %y : ({U}, tensor<?x4xf32>) -> {U}\n return %0 : {U}", "2 2 2"),
        (f"%p = stablehlo.compare LT, %x, %x : ({U}, {U}) -> tensor<?x?x?xi1>\n return %x : {U}", "3 2 3"),
        # lists of numbers
        (f"%0 = stablehlo.transpose %x, dims = [2, 0, 1] : ({U}) -> {U}\n return %0 : {U}", "3 2 3"),
        (f'%0 = "stablehlo.transpose"(%x) <{{permutation = array<i64: 1, 0>}}> : ({U}) -> {U}\n return %0 : {U}',
         "2 2 2"),
        (f"%0 = stablehlo.slice %x [0:2, 1:2:1, 0:1] : ({U}) -> {U}\n return %0 : {U}", "3 2 3"),
        (f"%c = stablehlo.constant dense<0.0> : tensor<f32>\n %0 = stablehlo.pad %x, %c, low = [0, 1], high = [0, 0],"
         f" interior = [0, 0] : ({U}, tensor<f32>) -> {U}\n return %0 : {U}", "2 2 2"),
        # the length of a shape
        (f"%s = stablehlo.constant dense<[2, 2, 1]> : tensor<3xi32>\n %0 = stablehlo.dynamic_reshape %x, %s : "
         f"({U}, tensor<3xi32>) -> {U}\n return %0 : {U}", "* 2 3"),
        (f"%s = stablehlo.constant dense<[2, 2, 1]> : tensor<3xi32>\n %0 = stablehlo.dynamic_broadcast_in_dim %x, %s,"
         f" dims = [0] : ({U}, tensor<3xi32>) -> {U}\n return %0 : {U}", "1 2 3"),
        (f"%0 = shape.shape_of %x : {U} -> tensor<2xindex>\n return %x : {U}", "2 2 2"),
        # fewer axes, products
        (f"%c = stablehlo.constant dense<0.0> : tensor<f32>\n %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add"
         f" across dimensions = [1] : ({U}, tensor<f32>) -> {U}\n %1 = stablehlo.transpose %0, dims = [0, 1] : ({U}) ->"
         f" {U}\n return %1 : {U}", "3 2 2"),
        (f"%0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] : "
         f"({U}, tensor<?x4xf32>) -> tensor<?x?xf32>\n return %0 : tensor<?x?xf32>", "3 2 2"),
        # casts and chlo
        (f"%0 = tensor.cast %x : {U} to tensor<?x4xf32>\n return %0 : tensor<?x4xf32>", "2 2 2"),
        (f"%0 = chlo.broadcast_add %x, %y : ({U}, tensor<?x4xf32>) -> tensor<?x?x?xf32>\n"
         " return %0 : tensor<?x?x?xf32>", "3 2 3"),
        # nothing tells
        (f"%0 = stablehlo.tanh %x : {U}\n return %0 : {U}", "* 2 *"),
    ],
)  # fmt: skip
def test_the_rank_is_inferred(body: str, wanted: str) -> None:
    result = body.rsplit(": ", 1)[1]
    assert ranks(main(f"%x: {U}, %y: tensor<?x4xf32>", result, body)) == wanted


REGIONS = main(
    f"%x: {U}, %p: tensor<i1>, %n: tensor<i32>",
    f"{U}, {U}",
    f"""  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.if"(%p) ({{
    %t = stablehlo.exponential %x : {U}
    stablehlo.return %t : {U}
  }}, {{
    %t = func.call @g(%x) : ({U}) -> {U}
    stablehlo.return %t : {U}
  }}) : (tensor<i1>) -> {U}
  %1:2 = stablehlo.while(%i = %zero, %a = %0) : tensor<i32>, {U}
   cond {{
    %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.add %a, %a : {U}
    stablehlo.return %j, %b : tensor<i32>, {U}
  }}
  return %1#1, %0 : {U}, {U}""",
    f"func.func private @g(%x: {U}) -> {U} {{\n %y = BODY\n return %y : {U}\n}}",
)


def test_ranks_pass_regions_loops_and_calls() -> None:
    text = REGIONS.replace("BODY", f"stablehlo.transpose %x, dims = [0, 1] : ({U}) -> {U}")
    assert ranks(text) == "2 0 0 2 2"
    graph, x = read(text, "t.mlir"), np.full((2, 1), 3, np.float32)
    one, two = interpret(graph, [x, np.array(False), np.array(2, np.int32)])
    np.testing.assert_array_equal(one, 4 * x)
    np.testing.assert_array_equal(two, x)


def test_what_stays_unranked_runs_at_any_rank() -> None:
    text = REGIONS.replace("BODY", f"stablehlo.negate %x : {U}")
    graph = read(text, "t.mlir")
    assert ranks(text) == "* 0 0 * *"
    again = read(write(graph), "t.mlir")
    for shape in ((), (0,), (2, 3)):
        x = np.full(shape, 3, np.float32)
        for each in (graph, optimize(graph).graph, again):
            one, two = interpret(each, [x, np.array(False), np.array(1, np.int32)])
            np.testing.assert_array_equal(one, -2 * x)
            np.testing.assert_array_equal(two, -x)


def test_the_rest_of_a_program_with_an_unranked_value_is_optimized(tmp_path: Path) -> None:
    text = main(
        f"%x: {U}, %y: tensor<?x4xf32>",
        f"{U}, tensor<?x4xf32>",
        f"""  %0 = stablehlo.custom_call @foo(%x) {{backend_config = "a = b"}} : ({U}) -> {U}
  %1 = stablehlo.transpose %y, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x?xf32>) -> tensor<?x4xf32>
  return %0, %2 : {U}, tensor<?x4xf32>""",
    )
    written = write(optimize(read(text, "t.mlir")).graph)
    assert "transpose" not in written and '"unranked"' not in written
    assert f"({U}) -> {U}" in written and "a = b" in written
    egshape.save(read(written, "t.mlir"), tmp_path / "t.egs")
    assert str(egshape.load(tmp_path / "t.egs").inputs[0].type) == "f32[*]"


def refused(text: str) -> Unsupported:
    with pytest.raises(Unsupported) as caught:
        read(text, "t.mlir")
    return caught.value


def test_an_op_that_needs_the_rank_is_refused_with_the_value_and_the_way_out() -> None:
    body = f" %d = stablehlo.get_dimension_size %x, dim = 1 : ({U}) -> tensor<i32>\n return %d : tensor<i32>"
    error = refused(main(f"%y: {U}, %x: {U}", "tensor<i32>", body))
    assert "the rank of %y is not known" in error.message and "t.mlir:2:7" in error.message
    assert error.where == "t.mlir:1:17" and "tensor<?x?xf32>" in error.hint


def test_the_value_that_is_named_is_one_of_the_text() -> None:
    """The result of the function, which has no name, stands before it."""
    body = (
        f" %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0] : ({U}, tensor<?xi32>) -> {U}\n return %0 : {U}"
    )
    error = refused(main(f"%x: {U}, %s: tensor<?xi32>", U, body))
    assert "the rank of %0 is not known" in error.message and error.where == "t.mlir:2:2"


def test_chlo_ops_of_unknown_rank_are_not_taken_for_vectors() -> None:
    body = f" %0 = chlo.broadcast_add %x, %y : ({U}, {U}) -> {U}\n return %0 : {U}"
    error = refused(main(f"%x: {U}, %y: {U}", U, body))
    assert "chlo.broadcast_add" in error.message and error.where == "t.mlir:2:7"


def test_ops_that_read_the_rank_where_mlir_does_not_are_refused() -> None:
    body = f" %0 = stablehlo.broadcast %x, sizes = [2] : ({U}) -> tensor<2xf32>\n return %0 : tensor<2xf32>"
    error = refused(main(f"%x: {U}", "tensor<2xf32>", body))
    assert error.where.startswith("t.mlir:") and "rank" in error.message


def test_bytecode_cannot_hold_them() -> None:
    text = write(read(main(f"%x: {U}", U, f" %0 = stablehlo.tanh %x : {U}\n return %0 : {U}"), "t.mlir"))
    with pytest.raises(Unsupported, match="unknown rank"):
        bytecode(text)


def test_values_of_sibling_regions_with_one_name_are_told_apart() -> None:
    text = main(
        f"%x: {U}, %p: tensor<i1>",
        "tensor<f32>",
        f"""  %0 = "stablehlo.if"(%p) ({{
    %t = stablehlo.constant dense<1.0> : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }}, {{
    %t = stablehlo.transpose %x, dims = [1, 0] : ({U}) -> {U}
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %r = stablehlo.reduce(%t init: %c) across dimensions = [0, 1] : ({U}, tensor<f32>) -> tensor<f32>
     reducer(%t1: tensor<f32>, %t2: tensor<f32>)  {{
      %s = stablehlo.add %t1, %t2 : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}
    stablehlo.return %r : tensor<f32>
  }}) : (tensor<i1>) -> tensor<f32>
  return %0 : tensor<f32>""",
    )
    assert ranks(text) == "2 0 0"


def test_a_long_chain_is_ranked_from_either_end() -> None:
    ops = "\n".join(f"%{k + 1} = stablehlo.tanh %{k} : {U}" for k in range(2000))
    for first, last in ((f"%0: {U}", "tensor<?x?xf32>"), ("%0: tensor<?x?xf32>", U)):
        found = ranked(main(first, last, f"{ops}\n return %2000 : {last}"))
        assert not found.left and "*" not in found.text and '"unranked"' not in found.text


def test_the_table_of_shapes_counts_levels() -> None:
    body = f" %0 = stablehlo.tanh %x : {U}\n %1 = stablehlo.tanh %y : tensor<?xf32>\n return %0 : {U}"
    table = shapes_table(read(main(f"%x: {U}, %y: tensor<?xf32>, %z: tensor<2xf32>", U, body), "t.mlir"))
    assert table.levels() == {"static": 1, "ranked": 2, "unranked": 2}
    assert "f32[*]" in str(table)


DEPTH = " %d = stablehlo.get_dimension_size %y, dim = 1 : (tensor<*xf32>) -> tensor<i32>\n return %d : tensor<i32>"
"""It needs the rank, and does not say it."""


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        (f"%y: {U}", "arg0"),
        (f'%y: {U} loc("tokens")', "tokens"),
        (f'%y: {U} {{mhlo.sharding = "{{replicated}}"}} loc("tokens")', "tokens"),
    ],
)
def test_a_rank_is_said_where_nothing_tells_it(argument: str, name: str, tmp_path: Path) -> None:
    source = main(argument, "tensor<i32>", DEPTH)
    error = refused(source)
    assert error.hint == f'write its type with a rank, as tensor<?x?xf32>, or say it, as --annotate "{name}: ?[?, ?]"'
    graph = read(source, "t.mlir", {name: 3, "other": 7})
    assert ranks_of(graph) == "3 0"
    (tmp_path / "t.mlir").write_text(source)
    for said in (f"{name}: f32[?, 4*m, n]", f"{name}: ?[?, 4*m, n]"):
        called = egshape.fn(said)(tmp_path / "t.mlir")
        assert called(np.zeros((2, 8, 3), np.float32)) == 8
        assert "4*m = 7 has no solution" in called.refusal(np.zeros((2, 7, 3), np.float32))


def test_the_rank_of_a_value_inside_is_said() -> None:
    body = f"""  %a = stablehlo.custom_call @foo(%x) : (tensor<?xf32>) -> {U}
  %b = stablehlo.tanh %a : {U}
  %d = stablehlo.get_dimension_size %b, dim = 1 : ({U}) -> tensor<i32>
  return %d : tensor<i32>"""
    source = main("%x: tensor<?xf32>", "tensor<i32>", body)
    assert '--annotate "%a: ?[?, ?]"' in refused(source).hint
    for name in ("%a", "%b"):
        graph = read(source, "t.mlir", {name: 2})
        assert [str(op.results[0].type.rank) for op in graph.ops[:2]] == ["2", "2"]


def test_what_uses_tell_goes_before_what_is_said() -> None:
    """The types that are said are checked against the graph."""
    source = main(f"%x: {U}", U, f" %0 = stablehlo.transpose %x, dims = [1, 0] : ({U}) -> {U}\n return %0 : {U}")
    assert ranks_of(read(source, "t.mlir", {"arg0": 3})) == "2 2"


def test_a_rank_that_cannot_be_is_named() -> None:
    with pytest.raises(ParseError) as caught:
        read(main(f"%y: {U}", "tensor<i32>", DEPTH), "t.mlir", {"arg0": 1})
    assert "it was said that arg0 has rank 1: is it so?" in str(caught.value)


def test_the_command_line_says_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.mlir").write_text(main(f"%y: {U}", "tensor<i32>", DEPTH))
    assert run_cli(["shapes", str(tmp_path / "t.mlir")]) == 2
    assert '--annotate "arg0: ?[?, ?]"' in capsys.readouterr().err
    assert run_cli(["shapes", str(tmp_path / "t.mlir"), "--annotate", "arg0: f32[b, 2*c]"]) == 0
    assert "f32" in capsys.readouterr().out
