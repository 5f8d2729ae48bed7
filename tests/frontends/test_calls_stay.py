"""Functions that are called often stay functions: derived, optimized and written once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import egshape
from egshape.dims import symbol
from egshape.errors import CheckFailed, ParseError, Unsupported
from egshape.frontends.stablehlo import emit, read
from egshape.frontends.stablehlo.scope import Scope
from egshape.ir.calls import in_line, is_call, key_at, shared, size_names, substitute
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.text import parse_graph, print_graph

T, ROW = "tensor<?x?xf32>", "tensor<?xf32>"
STEPS = (
    "tanh",
    "abs",
    "negate",
    "cosine",
    "sine",
    "tanh",
    "abs",
    "sine",
    "cosine",
    "tanh",
    "abs",
    "negate",
    "sine",
) * 3


def _steps(first: str, count: int = len(STEPS), type: str = T) -> tuple[str, str]:
    """Elementwise ops one after the other, and the name of the last."""
    lines = [f"%s{k + 1} = stablehlo.{STEPS[k]} %s{k} : {type}" for k in range(count)]
    return "\n".join([f"%s0 = stablehlo.abs {first} : {type}", *lines]), f"%s{count}"


def _layer(name: str = "layer") -> str:
    """x + row, then a chain; the row is spread to the shape of x."""
    chain, last = _steps("%sum")
    return f"""
func.func private @{name}(%x: {T}, %row: {ROW}) -> {T} {{
  %rows = stablehlo.get_dimension_size %x, dim = 0 : ({T}) -> tensor<i32>
  %columns = stablehlo.get_dimension_size %x, dim = 1 : ({T}) -> tensor<i32>
  %r = stablehlo.reshape %rows : (tensor<i32>) -> tensor<1xi32>
  %c = stablehlo.reshape %columns : (tensor<i32>) -> tensor<1xi32>
  %shape = stablehlo.concatenate %r, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %wide = stablehlo.dynamic_broadcast_in_dim %row, %shape, dims = [1] : ({ROW}, tensor<2xi32>) -> {T}
  %sum = stablehlo.add %x, %wide : {T}
  {chain}
  return {last} : {T}
}}"""


def _stack(layers: int, name: str = "layer") -> str:
    arguments = ", ".join([f"%x: {T}", *(f"%w{k}: {ROW}" for k in range(layers))])
    lines = "\n".join(
        f"%y{k} = call @{name}({f'%y{k - 1}' if k else '%x'}, %w{k}) : ({T}, {ROW}) -> {T}" for k in range(layers)
    )
    return f"func.func @main({arguments}) -> {T} {{\n{lines}\nreturn %y{layers - 1} : {T} }}\n{_layer(name)}"


def _fixed(source: str) -> str:
    """The same for rows of 8 elements: nothing is demanded of sizes."""
    return source.replace(T, "tensor<?x8xf32>").replace(ROW, "tensor<8xf32>")


def _calls(graph: Graph) -> int:
    return sum(is_call(op) for op in graph.body.walk())


def _inputs(rows: int, columns: int, layers: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows + 7 * columns)
    shapes = [(rows, columns), *[(columns,)] * layers]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def _in_line(graph: Graph) -> Graph:
    return replace(graph, body=in_line(graph.body, is_call))


def test_a_function_of_several_calls_stays_one(tmp_path: Path) -> None:
    graph = read(_fixed(_stack(4)), "t.mlir")
    assert _calls(graph) == 4
    result = egshape.optimize(graph)
    assert _calls(result.graph) == 4 and not result.report.notes
    egshape.save(result.graph, tmp_path / "o.mlir")
    text = (tmp_path / "o.mlir").read_text()
    assert text.count("call @layer(") == 4 and text.count("func.func private") == 1
    assert emit.statements(result.graph) < emit.statements(graph) < emit.statements(_in_line(graph))


def test_what_is_read_back_is_not_changed_again(tmp_path: Path) -> None:
    egshape.save(egshape.optimize(read(_fixed(_stack(3)), "t.mlir")).graph, tmp_path / "one.mlir")
    egshape.save(egshape.optimize(tmp_path / "one.mlir").graph, tmp_path / "two.mlir")
    assert (tmp_path / "one.mlir").read_text() == (tmp_path / "two.mlir").read_text()


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (1, 1), (1, 5), (4, 7)])
def test_calls_compute_what_they_do_in_line(sizes: tuple[int, int]) -> None:
    graph = read(_stack(3), "t.mlir")
    inputs = _inputs(*sizes, 3)
    (wanted,) = interpret(_in_line(graph), inputs)
    for each in (graph, egshape.optimize(graph).graph):
        (found,) = interpret(each, inputs)
        assert found.tobytes() == wanted.tobytes() and found.shape == wanted.shape


def test_compiled_calls_stand_in_line() -> None:
    graph = read(_stack(3), "t.mlir")
    inputs = _inputs(4, 7, 3)
    (wanted,) = interpret(graph, inputs)
    found = egshape.compile(graph)(*inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_what_a_function_demands_is_asked_of_the_caller_once() -> None:
    """The row has as many elements as x has columns: a check of main for each row, none in the function."""
    graph = read(_stack(3), "t.mlir")
    checks = egshape.optimize(graph).report.checks
    assert {check.text for check in checks} == {f"x.1 == w{k}.0" for k in range(3)} or len(checks) == 3
    assert all(check.message.startswith("function @layer: ") for check in checks)
    result = egshape.optimize(graph, allow_larger=True).graph
    assert [op.name for op in result.body.ops].count("check") == 3
    assert all(op.name != "check" for call in result.body.ops for region in call.regions for op in region.walk())


def test_one_call_of_three_fails() -> None:
    inputs = _inputs(4, 7, 3)
    inputs[2] = inputs[2][:5]
    graph = read(_stack(3), "t.mlir")
    result = egshape.optimize(graph, allow_larger=True).graph
    with pytest.raises(CheckFailed, match="function @layer: axis 0 of size"):
        interpret(result, inputs)
    with pytest.raises(CheckFailed):
        interpret(graph, inputs)


def test_calls_that_differ_in_sizes_are_of_one_function() -> None:
    """Encoder and decoder: the same layer on sequences of two lengths, in either order."""
    source = f"""
func.func @main(%x: {T}, %y: {T}, %a: {ROW}, %b: {ROW}) -> ({T}, {T}) {{
  %0 = call @layer(%x, %a) : ({T}, {ROW}) -> {T}
  %1 = call @layer(%y, %b) : ({T}, {ROW}) -> {T}
  %2 = call @layer(%0, %a) : ({T}, {ROW}) -> {T}
  return %2, %1 : {T}, {T} }}
{_layer()}"""
    graph = read(source, "t.mlir")
    assert _calls(graph) == 3
    result = egshape.optimize(graph, allow_larger=True).graph
    assert _calls(result) == 3 and emit.write(result).count("func.func private") == 1
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (5, 4), (3,), (4,))]
    for wanted, found in zip(interpret(_in_line(graph), inputs), interpret(result, inputs), strict=True):
        assert found.tobytes() == wanted.tobytes()


def test_a_function_checks_sizes_in_its_wrapper() -> None:
    """Its own assertion stands before the call, with its own message; once, since all calls ask the same."""
    chain, last = _steps("%x")
    source = f"""
func.func @main(%x: {T}) -> {T} {{
  %0 = call @even(%x) : ({T}) -> {T}
  %1 = call @even(%0) : ({T}) -> {T}
  return %1 : {T} }}
func.func private @even(%x: {T}) -> {T} {{
  %n = stablehlo.get_dimension_size %x, dim = 1 : ({T}) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %rest = stablehlo.remainder %n, %two : tensor<i32>
  %even = stablehlo.compare EQ, %rest, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%even, %n) {{api_version = 2 : i32, error_message = "odd: {{0}}",
    has_side_effect = true}} : (tensor<i1>, tensor<i32>) -> ()
  {chain}
  return {last} : {T}
}}"""
    graph = read(source, "t.mlir")
    assert _calls(graph) == 2
    result = egshape.optimize(graph)
    assert [check.status for check in result.report.checks] == ["kept", "proved"]
    assert sum(op.name == "check" for op in result.graph.body.walk()) == 1
    with pytest.raises(CheckFailed, match="odd: 3"):
        interpret(result.graph, [np.ones((2, 3), np.float32)])
    interpret(result.graph, [np.ones((2, 4), np.float32)])


def test_functions_that_call_functions() -> None:
    """A block of two layers is called twice: layers stay a function inside of it."""
    chain, last = _steps("%b")
    source = f"""
func.func @main(%x: {T}, %w: {ROW}) -> {T} {{
  %0 = call @block(%x, %w) : ({T}, {ROW}) -> {T}
  %1 = call @block(%0, %w) : ({T}, {ROW}) -> {T}
  return %1 : {T} }}
func.func private @block(%x: {T}, %w: {ROW}) -> {T} {{
  %a = call @layer(%x, %w) : ({T}, {ROW}) -> {T}
  %b = call @layer(%a, %w) : ({T}, {ROW}) -> {T}
  {chain}
  return {last} : {T} }}
{_layer()}"""
    graph = read(source, "t.mlir")
    result = egshape.optimize(graph).graph
    assert emit.write(result).count("func.func private") == 2
    inputs = _inputs(3, 5, 1)
    (wanted,), (found,) = interpret(_in_line(graph), inputs), interpret(result, inputs)
    assert found.tobytes() == wanted.tobytes()


def test_what_stands_in_line() -> None:
    """Short functions, those called once, and those that give sizes."""
    once = _stack(1)
    assert _calls(read(once, "t.mlir")) == 0
    chain, last = _steps("%x", 4)
    short = f"""
func.func @main(%x: {T}) -> {T} {{
  %0 = call @f(%x) : ({T}) -> {T}
  %1 = call @f(%0) : ({T}) -> {T}
  return %1 : {T} }}
func.func private @f(%x: {T}) -> {T} {{
{chain}
return {last} : {T} }}"""
    assert _calls(read(short, "t.mlir")) == 0
    graph = read(_stack(2), "t.mlir")
    first = graph.body.ops[0]
    assert is_call(first)
    alone = shared(replace(graph.body, ops=(first,), results=first.results))
    assert not any(map(is_call, alone.ops)) and len(alone.ops) > 1


def test_recursion_is_refused() -> None:
    source = (
        _stack(2)
        .replace("%sum = stablehlo.add %x, %wide", "%sum = call @layer(%wide, %row)")
        .replace(f"%sum = call @layer(%wide, %row) : {T}", f"%sum = call @layer(%wide, %row) : ({T}, {ROW}) -> {T}")
    )
    with pytest.raises(Unsupported, match=r"@layer calls itself"):
        read(source, "t.mlir")


def test_the_text_form_holds_calls(tmp_path: Path) -> None:
    result = egshape.optimize(read(_stack(3), "t.mlir")).graph
    egshape.save(result, tmp_path / "o.egs")
    inputs = _inputs(2, 3, 3)
    (wanted,), (found,) = interpret(result, inputs), interpret(egshape.load(tmp_path / "o.egs"), inputs)
    assert found.tobytes() == wanted.tobytes()


def test_the_text_form_holds_a_function_once(tmp_path: Path) -> None:
    """In each call the sizes are its own: rows of three lengths."""
    source = f"""
func.func @main(%x: {T}, %y: {T}, %a: {ROW}, %b: {ROW}) -> ({T}, {T}) {{
  %0 = call @layer(%x, %a) : ({T}, {ROW}) -> {T}
  %1 = call @layer(%y, %b) : ({T}, {ROW}) -> {T}
  %2 = call @layer(%0, %a) : ({T}, {ROW}) -> {T}
  return %2, %1 : {T}, {T} }}
{_layer()}"""
    graph = read(source, "t.mlir")
    text = print_graph(graph, locations=True)
    assert text.count(" like %") == 2 and text.count("tanh") == STEPS.count("tanh")
    again = parse_graph(text)
    assert print_graph(again, locations=True) == text
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (5, 4), (3,), (4,))]
    for wanted, found in zip(interpret(graph, inputs), interpret(again, inputs), strict=True):
        assert found.tobytes() == wanted.tobytes()
    egshape.save(egshape.optimize(graph), tmp_path / "o.egs")
    assert _calls(egshape.optimize(tmp_path / "o.egs").graph) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("like %0", "like %3"), "no call that gives %3 stands before"),
        ((" <n, k>", " <n>"), "the function is of 2 sizes, not 1"),
        (("%5: f32[n, k] = call(%0) {name=f}", "%5: f32[n, k] = tanh(%0)"), "tanh calls no function"),
    ],
)
def test_a_text_that_names_no_function(change: tuple[str, str], message: str) -> None:
    text = """graph g(%x: f32[n, k], %y: f32[m, k]) {
  symbols n = size(%x, 0), k = size(%x, 1), m = size(%y, 0)
  %0: f32[n, k] = call(%x) {name=f} (%1: f32[n, k]) {
    %2: f32[n, k] = tanh(%1)
    return %2
  }
  %4: f32[m, k] = call(%y) {name=f} like %0 <m, k>
  %5: f32[n, k] = call(%0) {name=f} like %0 <n, k>
  return %4 as a, %5 as b
}
"""
    assert print_graph(parse_graph(text)) == text
    with pytest.raises(ParseError, match=message):
        parse_graph(text.replace(*change))


def test_in_onnx_calls_stand_in_line(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    egshape.save(egshape.optimize(read(_stack(2), "t.mlir")).graph, tmp_path / "o.onnx")
    nodes = onnx.load(tmp_path / "o.onnx").graph.node
    assert sum(node.op_type == "Tanh" for node in nodes) == 2 * sum(step == "tanh" for step in STEPS)


def test_a_further_layer_adds_its_call_only() -> None:
    few, many = (egshape.optimize(read(_fixed(_stack(layers)), "t.mlir"), validate=False) for layers in (2, 24))
    assert many.report.ops.after.total == few.report.ops.after.total + 22
    asked = [sum(each.count for each in result.report.rewrites) for result in (few, many)]
    assert asked[0] == asked[1]


def test_a_function_is_derived_once_for_arguments_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[str] = []
    derived = Scope._derived

    def counted(scope: Scope, name: str, *rest: Any) -> Any:
        times.append(name)
        return derived(scope, name, *rest)

    monkeypatch.setattr(Scope, "_derived", counted)
    graph = read(_fixed(_stack(5)), "t.mlir")
    assert _calls(graph) == 5 and times == ["layer"]
    values = [value for op in graph.body.walk() for value in op.results]
    assert len({value.name for value in values}) == len(values)


def test_the_key_of_a_function_in_other_sizes_is_that_of_a_copy() -> None:
    (region,) = read(_stack(2), "t.mlir").body.ops[0].regions
    name = size_names(region)[0]
    for size in (symbol("z"), symbol("z") * 2 + 1, symbol(size_names(region)[1])):
        assert key_at(region, {name: size}) == key_at(substitute(region, {}, sizes={name: size}), {})
    assert key_at(region, {name: symbol("z")}) == key_at(region, {}) != key_at(region, {name: symbol("z") * 2})
