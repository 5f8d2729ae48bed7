"""StableHLO in: symbols, names, checks, regions, shape dialects, one clear error for every wrong input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

import egshape
import egshape.api
from egshape.errors import CheckFailed, EgshapeError, ParseError, Unsupported
from egshape.frontends.stablehlo import from_exported, read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.verify import verify

F = np.float32
VECTOR = np.arange(3, dtype=F)
MATRIX = np.arange(6, dtype=F).reshape(2, 3)

MODELS = Path(os.environ.get("EGSHAPE_SHARED", Path(__file__).parents[3] / "shared")) / "models"


def load(body: str, *, name: str = "t.mlir") -> Graph:
    """A module of one function, or of several, verified."""
    text = body if body.lstrip().startswith("module") else f"module {{\n{body}\n}}"
    graph = read(text, name)
    verify(graph)
    return graph


def shapes(graph: Graph) -> list[str]:
    """The types of the outputs."""
    return [str(value.type) for value in graph.outputs]


def names(graph: Graph) -> list[str]:
    """The op names, regions included."""
    return [op.name for op in graph.body.walk()]


def checks(graph: Graph) -> list[str]:
    """The checks as text."""
    return [
        f"{op.attrs['sides'][0]} {op.attrs['relation']} {op.attrs['sides'][1]}" if op.attrs["sides"] else "value"
        for op in graph.body.walk()
        if op.name == "check"
    ]


# -- the sample models ------------------------------------------------------------------------------


@pytest.mark.skipif(not MODELS.is_dir(), reason="the sample models are not here")
@pytest.mark.parametrize("model", sorted(path.stem for path in MODELS.glob("*.mlir")) if MODELS.is_dir() else [])
def test_models_compute_what_they_should(model: str) -> None:
    graph = load((MODELS / f"{model}.mlir").read_text(), name=model)
    held = np.load(MODELS / f"{model}.npz")
    for case, _ in enumerate(json.loads((MODELS / "index.json").read_text())[model]["cases"]):
        found = interpret(graph, [held[f"case{case}_in{i}"] for i in range(len(graph.inputs))])
        for index, array in enumerate(found):
            np.testing.assert_allclose(array, held[f"case{case}_out{index}"], rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not MODELS.is_dir(), reason="the sample models are not here")
@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("gpt_kv_concat", ["f32[b, s, 1000]", "f32[2, b, 4, s + t, 16]", "f32[2, b, 4, s + t, 16]"]),
        ("mlp_concat_split", ["f32[2, 16*b]"]),
        ("convnet", ["f32[b, 10]"]),
        ("vit_patch", ["f32[b, 32]"]),
    ],
)
def test_output_shapes_are_expressions_in_input_symbols(model: str, wanted: list[str]) -> None:
    graph = load((MODELS / f"{model}.mlir").read_text())
    assert shapes(graph) == wanted
    assert all(symbol.value in graph.inputs for symbol in graph.body.symbols)


# -- names, symbols, metadata -----------------------------------------------------------------------

EXPORTED = """
module @jit_f attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%arg0: tensor<?x4xf32>, %arg1: tensor<?xf32>)
      -> (tensor<?x4xf32> {jax.result_info = "r"}) {
    %c = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%1, %0) {api_version = 2 : i32, error_message = "b is {0}",
      has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %2 = call @inner(%0, %arg0) : (tensor<i32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    return %2 : tensor<?x4xf32>
  }
  func.func private @inner(%arg0: tensor<i32> {jax.global_constant = "b"}, %arg1: tensor<?x4xf32>)
      -> tensor<?x4xf32> {
    %z = stablehlo.constant dense<1.0> : tensor<f32>
    %four = stablehlo.constant dense<4> : tensor<1xi32>
    %0 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.concatenate %0, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %2 = stablehlo.dynamic_broadcast_in_dim %z, %1, dims = []
      : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
    %3 = stablehlo.add %arg1, %2 : tensor<?x4xf32>
    return %3 : tensor<?x4xf32>
  }
}
"""


def test_symbols_take_the_names_of_global_constants_else_of_the_axis() -> None:
    graph = load(EXPORTED)
    assert [str(value) for value in map(repr, graph.inputs)] == ["%arg0: f32[b, 4]", "%arg1: f32[arg1.0]"]
    assert shapes(graph) == ["f32[b, 4]"]
    assert checks(graph) == ["2 <= b"]
    assert graph.facts.symbol("b").sources == ("arg0.0",)


def test_a_check_fails_with_its_message_filled_in() -> None:
    graph = load(EXPORTED)
    with pytest.raises(CheckFailed, match="b is 1"):
        interpret(graph, [np.zeros((1, 4), F), VECTOR])
    assert interpret(graph, [np.zeros((2, 4), F), VECTOR])[0].tolist() == [[1.0] * 4] * 2


def test_metadata_keeps_the_head_of_the_module() -> None:
    graph = load(EXPORTED)
    assert graph.metadata["module_name"] == "jit_f"
    assert graph.metadata["attributes"] == {"jax.uses_shape_polymorphism": "true"}
    assert graph.metadata["result_attributes"] == ('{jax.result_info = "r"}',)


def test_a_check_that_an_earlier_one_implies_is_counted_as_proved() -> None:
    again = EXPORTED.replace(
        "    %2 = call",
        """    %o = stablehlo.constant dense<1> : tensor<i32>
    %p = stablehlo.compare GE, %0, %o, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%p, %0) {error_message = "later"} : (tensor<i1>, tensor<i32>) -> ()
    %2 = call""",
    )
    graph = load(again)
    assert checks(graph) == ["2 <= b"]
    ((message, where, why),) = graph.metadata["assertions"]
    assert (message, why) == ("later", ("b >= 2",))
    assert where.startswith("t.mlir:")


def test_inputs_take_names_of_locations_once() -> None:
    graph = load("""func.func @main(%x: tensor<?xf32> loc("x"), %y: tensor<?xf32> loc("x")) -> tensor<?xf32> {
      %0 = stablehlo.add %x, %y : tensor<?xf32>
      return %0 : tensor<?xf32> }""")
    assert [value.name for value in graph.inputs] == ["x", "arg1"]
    assert shapes(graph) == ["f32[x.0]"]


def test_a_size_given_to_main_is_a_symbol() -> None:
    graph = load("""func.func @main(%n: tensor<i32> {jax.global_constant = "n"}, %x: tensor<f32>)
          -> tensor<?xf32> {
      %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = []
        : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
      return %0 : tensor<?xf32> }""")
    assert shapes(graph) == ["f32[n]"]
    assert interpret(graph, [np.int32(2), F(7)])[0].tolist() == [7.0, 7.0]


def test_ops_keep_their_location() -> None:
    graph = load(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  %0 = stablehlo.abs %x : tensor<f32>\n"
        "  return %0 : tensor<f32> }"
    )
    location = graph.ops[0].location
    assert (location.file, location.line) == ("t.mlir", 3)


def test_facts_come_from_bounds_and_from_the_module() -> None:
    bounded = "tensor<?x3xf32, #stablehlo.bounds<7, ?>>"
    graph = load(f"func.func @main(%x: {bounded}) -> {bounded} {{ return %x : {bounded} }}")
    assert graph.facts.symbol("arg0.0").ranges == ((0, 7),)
    held = json.dumps(json.dumps({"version": 1, "symbols": [{"name": "arg0.0", "divisor": [8, 0]}]}))
    graph = load(
        f"module attributes {{egshape.facts = {held}}} {{\n"
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> } }"
    )
    assert graph.facts.symbol("arg0.0").divisor == (8, 0)


def test_axes_keep_the_names_that_saved_facts_give_them() -> None:
    held = json.dumps(json.dumps({"version": 1, "symbols": [{"name": "h", "sources": ["arg0.0"]}]}))
    graph = load(
        f"module attributes {{egshape.facts = {held}}} {{\n"
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> } }"
    )
    assert shapes(graph) == ["f32[h]"]


# -- calls and regions ------------------------------------------------------------------------------


def test_equal_calls_are_converted_once() -> None:
    graph = load("""
      func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> {
        %0 = stablehlo.abs %x : tensor<?xf32>
        return %0 : tensor<?xf32> }
      func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        %0 = call @f(%x) : (tensor<?xf32>) -> tensor<?xf32>
        %1 = call @f(%x) : (tensor<?xf32>) -> tensor<?xf32>
        %2 = stablehlo.add %0, %1 : tensor<?xf32>
        return %2 : tensor<?xf32> }""")
    assert names(graph) == ["abs", "add"]


LOOP = """func.func @main(%x: tensor<?xf32>, %n: tensor<i32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %c0, %a = %x, %b = %x) : tensor<i32>, tensor<?xf32>, tensor<?xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %c1 : tensor<i32>
      %k = stablehlo.concatenate %a, %b, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      stablehlo.return %j, %k, %b : tensor<i32>, tensor<?xf32>, tensor<?xf32>
    }
  return %r#1, %r#2 : tensor<?xf32>, tensor<?xf32> }"""


def test_a_size_that_a_loop_changes_gets_its_own_symbol_and_others_keep_theirs() -> None:
    graph = load(LOOP)
    grown, kept = shapes(graph)
    assert kept == "f32[arg0.0]" != grown
    for rounds in (0, 3):
        found = interpret(graph, [VECTOR, np.int32(rounds)])
        assert [array.size for array in found] == [3 * (rounds + 1), 3]


def test_branches_of_different_sizes() -> None:
    graph = load("""func.func @main(%x: tensor<?xf32>, %p: tensor<i1>) -> tensor<?xf32> {
      %r = "stablehlo.if"(%p) ({
        %y = stablehlo.negate %x : tensor<?xf32>
        stablehlo.return %y : tensor<?xf32>
      }, {
        %y = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
        stablehlo.return %y : tensor<?xf32>
      }) : (tensor<i1>) -> tensor<?xf32>
      return %r : tensor<?xf32> }""")
    assert [interpret(graph, [VECTOR, np.bool_(p)])[0].size for p in (True, False)] == [3, 6]


def test_a_window_at_a_start_that_is_data_has_an_expression_as_size() -> None:
    graph = load("""func.func @main(%x: tensor<?xf32>, %i: tensor<1xi32>) -> tensor<?xf32> {
      %two = stablehlo.constant dense<2> : tensor<1xi32>
      %one = stablehlo.constant dense<1> : tensor<1xi32>
      %to = stablehlo.add %i, %two : tensor<1xi32>
      %0 = stablehlo.real_dynamic_slice %x, %i, %to, %one :
        (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
      return %0 : tensor<?xf32> }""")
    assert shapes(graph) == ["f32[2]"]
    assert interpret(graph, [VECTOR, np.array([1], np.int32)])[0].tolist() == [1.0, 2.0]


def test_top_k_becomes_its_decomposition() -> None:
    graph = load("""func.func @main(%x: tensor<?x5xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>) {
      %0:2 = chlo.top_k(%x, k = 2) : tensor<?x5xf32> -> (tensor<?x2xf32>, tensor<?x2xi32>)
      return %0#0, %0#1 : tensor<?x2xf32>, tensor<?x2xi32> }""")
    values, places = interpret(graph, [np.array([[3, 1, 9, 2, 9]], F)])
    assert (values.tolist(), places.tolist()) == ([[9.0, 9.0]], [[2, 4]])


def test_an_unknown_custom_call_stays_with_its_attributes() -> None:
    graph = load("""func.func @main(%x: tensor<?x5xf32>) -> tensor<?x2xf32> {
      %0 = stablehlo.custom_call @foo(%x) {backend_config = "z"} : (tensor<?x5xf32>) -> tensor<?x2xf32>
      return %0 : tensor<?x2xf32> }""")
    (op,) = graph.ops
    assert op.attrs["target"] == "stablehlo.custom_call @foo"
    assert 'backend_config = "z"' in write(graph)


def test_rolling_by_a_computed_amount_keeps_the_size() -> None:
    jax = pytest.importorskip("jax")
    from jax import export

    sizes = export.symbolic_shape("b, s", constraints=["s>=2"])
    rolled = export.export(jax.jit(lambda x: jax.numpy.roll(x, 1, axis=1)))(jax.ShapeDtypeStruct(sizes, F))
    graph = from_exported(rolled)
    assert shapes(graph) == ["f32[b, s]"]
    assert interpret(graph, [MATRIX])[0].tolist() == np.roll(MATRIX, 1, axis=1).tolist()


# -- other dialects ---------------------------------------------------------------------------------

BROADCAST = """func.func @main(%a: tensor<?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %y = chlo.broadcast_add %a, %b : (tensor<?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32> }"""


def test_chlo_broadcast_is_checked() -> None:
    graph = load(BROADCAST)
    assert shapes(graph) == ["f32[arg1.0, bcast(arg0.0, arg1.1)]"]
    assert interpret(graph, [VECTOR[:1] + 1, MATRIX])[0].tolist() == (MATRIX + 1).tolist()
    with pytest.raises(CheckFailed, match="do not broadcast"):
        interpret(graph, [VECTOR[:2], MATRIX])


def test_mhlo_in_a_region_that_assumes() -> None:
    graph = load("""func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %s0 = shape.shape_of %a : tensor<?xf32> -> tensor<1xindex>
      %s1 = shape.shape_of %b : tensor<?xf32> -> tensor<1xindex>
      %w = shape.cstr_eq %s0, %s1 : tensor<1xindex>, tensor<1xindex>
      %r = shape.assuming %w -> (tensor<?xf32>) {
        %y = "mhlo.add"(%a, %b) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
        shape.assuming_yield %y : tensor<?xf32>
      }
      return %r : tensor<?xf32> }""")
    assert checks(graph) == ["arg0.0 == arg1.0"]
    assert interpret(graph, [VECTOR, VECTOR])[0].tolist() == [0.0, 2.0, 4.0]


ARITH = """func.func @main(%x: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?xf32>, tensor<3xf32>, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %d0 = tensor.dim %x, %c0 : tensor<?x?xf32>
  %d1 = tensor.dim %x, %c1 : tensor<?x?xf32>
  %h = arith.floordivsi %d0, %c2 : index
  %hc = arith.ceildivsi %d0, %c2 : index
  %u = arith.muli %h, %d1 : index
  %s = tensor.from_elements %u : tensor<1xindex>
  %s2 = tensor.from_elements %d1, %d0 : tensor<2xindex>
  %r = stablehlo.dynamic_reshape %x, %s2 : (tensor<?x?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.dynamic_broadcast_in_dim %z, %s, dims = [] : (tensor<f32>, tensor<1xindex>) -> tensor<?xf32>
  %s3 = tensor.from_elements %hc : tensor<1xindex>
  %v = stablehlo.dynamic_broadcast_in_dim %z, %s3, dims = [] : (tensor<f32>, tensor<1xindex>) -> tensor<?xf32>
  %q = tensor.cast %v : tensor<?xf32> to tensor<3xf32>
  %e = tensor.extract %s2[%c1] : tensor<2xindex>
  %p = arith.cmpi slt, %e, %d1 : index
  %k = arith.select %p, %e, %d1 : index
  return %r, %w, %q, %k : tensor<?x?xf32>, tensor<?xf32>, tensor<3xf32>, index }"""


def test_shape_code_of_tensor_and_arith() -> None:
    graph = load(ARITH)
    assert shapes(graph) == ["f32[arg0.1, arg0.0]", "f32[arg0.1*(arg0.0//2)]", "f32[3]", "i64[]"]
    assert checks(graph) == ["cdiv(arg0.0, 2) == 3"]
    found = interpret(graph, [np.zeros((5, 4), F)])
    assert [array.shape for array in found] == [(4, 5), (8,), (3,), ()]
    assert found[3] == 4
    with pytest.raises(CheckFailed, match="a size is 2, not 3"):
        interpret(graph, [np.zeros((4, 4), F)])


def test_constants_of_every_dtype() -> None:
    graph = load("""func.func @main()
          -> (tensor<2xcomplex<f32>>, tensor<2x2xbf16>, tensor<3xi1>, tensor<2xui8>) {
      %0 = stablehlo.constant dense<[(1.0, -2.5), (0x7FC00000, 4.0)]> : tensor<2xcomplex<f32>>
      %1 = stablehlo.constant dense<[[1.5, -2.5], [0.1, 0x7F80]]> : tensor<2x2xbf16>
      %2 = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
      %3 = stablehlo.constant dense<255> : tensor<2xui8>
      return %0, %1, %2, %3 : tensor<2xcomplex<f32>>, tensor<2x2xbf16>, tensor<3xi1>, tensor<2xui8> }""")
    found = interpret(graph, [])
    assert found[0][0] == 1 - 2.5j and np.isnan(found[0][1].real)
    assert found[1].astype(F).tolist()[0] == [1.5, -2.5] and np.isinf(found[1].astype(F)[1, 1])
    assert (found[2].tolist(), found[3].tolist()) == ([True, False, True], [255, 255])


# -- sources ----------------------------------------------------------------------------------------


def test_exported_objects_artifacts_and_bytecode_give_the_same() -> None:
    jax = pytest.importorskip("jax")
    from jax import export

    (size,) = export.symbolic_shape("b")
    exported = export.export(jax.jit(lambda x: jax.numpy.sin(x) @ x.T))(jax.ShapeDtypeStruct((size, 3), F))
    graphs = [
        from_exported(exported),
        read(bytes(exported.serialize()), "e.bin"),
        read(bytes(exported.mlir_module_serialized), "e.mlirbc"),
        read(exported.mlir_module(), "e.mlir"),
    ]
    for graph in graphs:
        assert shapes(graph) == ["f32[b, b]"]
        np.testing.assert_allclose(interpret(graph, [MATRIX])[0], np.sin(MATRIX) @ MATRIX.T, rtol=1e-5)


IDENTITY = "module { func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> } }"


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("", ParseError, "is empty"),
        (b"\x00\x01\xff", ParseError, "neither StableHLO text nor MLIR bytecode"),
        (b"ML\xefRjunk", ParseError, "bytecode"),
        (b"\x40\x00\x00\x00ML\xefRjunk", ParseError, "no serialized jax.export"),
        (IDENTITY[:60], ParseError, r"t\.mlir:1:\d+: "),
        (
            "module {\n foo.bar }",
            ParseError,
            r"t\.mlir:2:\d+: foo.bar is of a dialect that is not known",
        ),
        (
            'module {\n "foo.bar"() : () -> () }',
            Unsupported,
            r"t\.mlir:2:2: an op foo\.bar outside of a function",
        ),
        (IDENTITY.replace("-> tensor<3xf32>", "-> tensor<4xf32>"), ParseError, r"t\.mlir:1:\d+"),
        ("module { }", ParseError, "no function @main"),
        (IDENTITY.replace("3xf32", "3xi7"), Unsupported, r"t\.mlir:1:\d+: argument arg0 .*tensor<3xi7>"),
        (
            "module { func.func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {\n"
            "  %0 = math.cos %x : tensor<3x3xf32>\n  return %0 : tensor<3x3xf32> } }",
            Unsupported,
            r"t\.mlir:2:\d+: op math\.cos is not supported",
        ),
        (
            "module { func.func @main(%x: tensor<f32>) -> tensor<f32> {\n %0 = call @main(%x) : "
            "(tensor<f32>) -> tensor<f32>\n return %0 : tensor<f32> } }",
            Unsupported,
            "@main calls itself",
        ),
        (
            IDENTITY.replace("module", 'module attributes {egshape.facts = "{oops"}'),
            EgshapeError,
            "egshape.facts",
        ),
    ],
)
def test_wrong_input_gives_one_clear_error(source: str | bytes, kind: type[EgshapeError], message: str) -> None:
    with pytest.raises(kind, match=message):
        read(source, "t.mlir")


def test_truncated_artifacts_are_parse_errors() -> None:
    jax = pytest.importorskip("jax")
    from jax import export

    data = bytes(export.export(jax.jit(lambda x: x + 1))(VECTOR).mlir_module_serialized)
    for length in (5, 20, len(data) // 2, len(data) - 3):
        with pytest.raises(ParseError, match=r"^a\.mlirbc"):
            read(data[:length], "a.mlirbc")


WORDS = """func.func @main(%tokens: tensor<?x4xf32>, %arg0: tensor<2xf32>) -> (tensor<?x4xf32>, tensor<?x4xi32>) {
  // %none = stablehlo.negate
  %scaled = stablehlo.negate %tokens : tensor<?x4xf32>
  %12 = "stablehlo.abs"(%scaled) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %once = func.call @twice(%12) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %arg1 = func.call @twice(%once) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %keys = stablehlo.constant dense<1> : tensor<4xi32>
  %n = stablehlo.get_dimension_size %tokens, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %sorted:2 = "stablehlo.sort"(%arg1, %tokens) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) {dimension = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  %out = stablehlo.convert %sorted#1 : (tensor<?x4xf32>) -> tensor<?x4xi32> loc("elsewhere.py":3:5)
  return %sorted#0, %out : tensor<?x4xf32>, tensor<?x4xi32>
}
func.func private @twice(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %doubled = stablehlo.add %x, %x : tensor<?x4xf32>
  return %doubled : tensor<?x4xf32>
}
"""


def test_values_have_the_names_of_the_text() -> None:
    """Words only, each once; numbers are the printer's. MLIR itself forgets them."""
    graph = read(WORDS, "words.mlir")
    assert [value.name for value in graph.inputs] == ["arg0", "arg1"]
    names = [value.name for op in graph.body.walk() for value in op.results]
    assert {"scaled", "doubled", "sorted", "sorted_1", "less"} <= set(names)
    assert len(set(names)) == len(names) and "none" not in names and "12" not in names
    assert names[0] == "scaled" and names.count("arg1") == 0
    for source in (WORDS.encode(), WORDS.replace("\n", "\r\n").encode()):
        assert "scaled" in [op.results[0].name for op in read(source, "words.mlir").ops if op.results]
    result = egshape.optimize(graph)
    assert "%scaled" in str(result.explain_value("%scaled"))
    assert result.explain("%sorted_1.0", "arg0.0").status == "proved"
    assert any(row.name == "%doubled" for row in egshape.api.shapes_table(graph).values)


FORKED = """
import multiprocessing, egshape
MODULE = b"func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
def read(_):
    return len(egshape.load(MODULE, format="stablehlo").inputs)
read(0)
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map_async(read, [0]).get(timeout=60))
"""


@pytest.mark.long
def test_a_forked_process_reads_as_well() -> None:
    """The threads of jax's contexts are not there."""
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=False)
    assert run.stdout == "[1]\n", run.stderr
