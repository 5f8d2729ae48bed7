"""What reading a model makes of it: names, symbols, facts, initializers, functions, branches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper, parser

import egshape
from egshape.dims import parse, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.frontends.onnx.node import Node, node_of
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.text import parse_graph, print_graph
from egshape.ir.verify import verify


def graph_of(text: str, opset: int = 20) -> Graph:
    """The verified graph of a model in ONNX's text form."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "local" : 1]>\n{text}')
    graph = egshape.load(model.SerializeToString(), format="onnx")
    verify(graph)
    return graph


def shapes_of(graph: Graph) -> list[list[str]]:
    return [list(map(str, value.type.dims)) for value in graph.outputs]


def test_dim_params_are_shared_symbols_and_unknown_axes_their_own() -> None:
    graph = graph_of("g (float[batch, ?, 8] x, float[batch, ?] z) => (float[o] y) { y = Identity(x) }")
    assert [str(value.type) for value in graph.inputs] == ["f32[batch, x.1, 8]", "f32[batch, z.1]"]
    assert graph.facts.symbol("batch").sources == ("x.0", "z.0")


def test_a_dim_param_that_is_an_expression_of_others_is_one() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 20]> g (float[p] x, float[s] z, float[t] m) => '
        "(float[o] y) { y = Identity(m) }"
    )
    model.graph.input[2].type.tensor_type.shape.dim[0].dim_param = "p + s"
    graph = egshape.load(model.SerializeToString(), format="onnx")
    assert graph.inputs[2].type.dims == (parse("p + s"),)
    x = [np.zeros(3, np.float32), np.zeros(2, np.float32), np.zeros(5, np.float32)]
    assert interpret(graph, x)[0].shape == (5,)
    with pytest.raises(EgshapeError):
        interpret(graph, [*x[:2], np.zeros(4, np.float32)])


def test_values_take_onnx_names_and_outputs_keep_theirs() -> None:
    graph = graph_of("g (float[a] x) => (float[o] y, float[p] z) { h = Exp(x) y = Neg(h) z = Identity(h) }")
    assert [op.result.name for op in graph.ops] == ["h", "y"]
    assert graph.output_names == ("y", "z")
    assert graph.outputs[1].name == "h"


def test_one_concatenation_proves_batches_equal() -> None:
    graph = graph_of("g (float[a,2] x, float[c,3] z) => (float[o] y) { j = Concat<axis=1>(x, z) y = Add(j, j) }")
    result = egshape.optimize(graph, validate=False)
    assert ["x.0", "z.0"] in [sorted(pair[:2]) for pair in result.report.equalities] or result.explain(
        "x.0", "z.0"
    ).status == "proved"


def test_equal_shape_vectors_are_one_op() -> None:
    graph = graph_of("""g (float[a,b,4] x) => (float[o] y, float[p] z) {
        s = Shape(x) i = Constant<value = int64[1] {0}>() n = Gather<axis=0>(s, i) r = Constant<value = int64[1] {-1}>()
        t = Concat<axis=0>(n, r) y = Reshape(x, t)
        k = Shape<start=0, end=1>(x) u = Concat<axis=0>(k, r) z = Reshape(x, u) }""")
    assert shapes_of(graph) == [["a", "4*b"], ["a", "4*b"]]
    left = egshape.optimize(graph, validate=False).graph
    assert [op.name for op in left.ops if op.name != "check"] == ["reshape"]


def test_exported_causal_mask_is_as_long_as_the_sequence() -> None:
    """A table of 16 positions is read at p .. p+s-1, so a mask table of 16 rows cut at p .. p+s has s of them."""
    graph = graph_of("""g (int64[b,s] ids, float[b,p,4] past, float[16,4] places, float[16,16] mask) => (float[o] y) {
        d = Shape<start=1, end=2>(past) l = Shape<start=1, end=2>(ids) e = Add(d, l)
        i = Constant<value = int64[1] {0}>() d0 = Squeeze(d, i) e0 = Squeeze(e, i) one = Constant<value = int64 {1}>()
        r = Range(d0, e0, one) q = Gather<axis=0>(places, r)
        rows = Slice(mask, d, e, i) j = Constant<value = int64[1] {0}>() cut = Slice(rows, i, l, one_)
        one_ = Constant<value = int64[1] {1}>() w = MatMul(q, wide) wide = Transpose(q) y = Add(w, cut) }""")
    assert shapes_of(graph) == [["s", "s"]]


def test_data_dependent_sizes_are_named_and_bounded() -> None:
    graph = graph_of(
        "g (float[a,b] x, int64[1] k) => (int64[o] y, float[p] v, int64[q] i) { y = NonZero(x) v, i = TopK(x, k) }"
    )
    count, top = graph.outputs[0].type.dims[1], graph.outputs[1].type.dims[1]
    assert top is graph.outputs[2].type.dims[1]
    bounds = {(relation.lhs, relation.rhs) for relation in graph.facts.statements()}
    assert bounds == {(count, parse("a*b")), (top, symbol("b"))}


def test_functions_are_put_in_place_with_their_attributes() -> None:
    graph = graph_of("""g (float[a,b] x) => (float[o] y) { y = local.Scaled<by = 3.0>(x) }
        <domain: "local", opset_import: ["" : 20]>
        Scaled <by> (x) => (y) { c = Constant<value_float: float = @by>() y = Mul(x, c) }""")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(interpret(graph, [x])[0], 3 * x)


def test_a_function_that_calls_itself_is_an_error() -> None:
    with pytest.raises(EgshapeError, match="calls itself"):
        graph_of("""g (float[a] x) => (float[o] y) { y = local.F(x) }
            <domain: "local", opset_import: ["" : 20, "local" : 1]> F (x) => (y) { y = local.F(x) }""")


def test_a_branch_that_only_fits_by_rank_is_taken_with_a_check() -> None:
    """squeeze(-1) as PyTorch exports it: an If whose branches differ in rank, followed by what takes one of them."""
    graph = graph_of("""g (float[a,b] x, float[a,a] w) => (float[o] y) {
        s = Shape<start=1, end=2>(x) i = Constant<value = int64[1] {1}>() c = Equal(s, i)
        q = If(c) <then_branch = t () => (float[u] u) { u = Squeeze(x, i) },
                   else_branch = e () => (float[v] v) { v = Identity(x) }>
        h = Unsqueeze(q, z) z = Constant<value = int64[1] {0}>() y = Gemm(h, w) }""")
    assert [op.attrs["relation"] for op in graph.ops if op.name == "check"] == ["=="]
    weights = np.eye(3, dtype=np.float32)
    assert interpret(graph, [np.ones((3, 1), np.float32), weights])[0].shape == (1, 3)
    with pytest.raises(CheckFailed):
        interpret(graph, [np.ones((3, 2), np.float32), weights])


def test_softmax_before_opset_13_flattens() -> None:
    graph = graph_of("g (float[a,b,3] x) => (float[o] y) { y = Softmax<axis=1>(x) }", 11)
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    powers = np.exp(x.reshape(2, -1))
    wanted = (powers / powers.sum(1, keepdims=True)).reshape(x.shape)
    np.testing.assert_allclose(interpret(graph, [x])[0], wanted, rtol=1e-5)


def test_an_op_without_lowering_is_called_on_the_host_and_named() -> None:
    graph = graph_of("g (float[a,2,2] x) => (float[o] y) { y = Det(x) }")
    assert graph.metadata["host_calls"] == (("onnx.Det", "Det:y"),)
    result = egshape.optimize(graph)
    assert result.report.status == "saturated"
    assert any("onnx.Det" in note for note in result.report.notes)
    x = np.array([[[1, 2], [3, 4]]], np.float32)
    for each in (result.graph, parse_graph(print_graph(graph))):
        np.testing.assert_allclose(interpret(each, [x])[0], [-2], rtol=1e-6)


def test_an_unknown_op_is_kept_and_named() -> None:
    graph = graph_of("g (float[a] x) => (float[o] y) { y = local.Mystery(x) }")
    assert graph.metadata["host_calls"] == (("local.Mystery", "Mystery:y"),)


@pytest.mark.parametrize("opset", [7, 11, 13, 18, 21])
def test_axes_as_attribute_and_as_operand(opset: int) -> None:
    old = opset < 13
    body = "y = Squeeze<axes=[1]>(x)" if old else "i = Constant<value = int64[1] {1}>() y = Squeeze(x, i)"
    assert shapes_of(graph_of(f"g (float[a,1,b] x) => (float[o] y) {{ {body} }}", opset)) == [["a", "b"]]


def test_an_older_opset_is_converted() -> None:
    assert shapes_of(graph_of("g (float[a] x) => (float[o] y) { y = Exp(x) }", 6)) == [["a"]]


def test_unsorted_nodes_are_sorted_and_dead_ones_dropped() -> None:
    graph = graph_of("g (float[a] x) => (float[o] y) { y = Neg(h) dead = Exp(x) h = Exp(x) }")
    assert [op.name for op in graph.ops] == ["exponential", "negate"]


def _weighted(array: np.ndarray) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [numpy_helper.from_array(array, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


def test_large_weights_are_views_of_the_file(tmp_path: Path) -> None:
    path, weights = tmp_path / "m.onnx", np.arange(5000, dtype=np.float32)
    path.write_bytes(_weighted(weights).SerializeToString())
    graph = egshape.load(path)
    held = next(op.attrs["value"] for op in graph.ops if op.name == "constant")
    assert not held.flags.owndata
    assert not held.flags.writeable
    np.testing.assert_array_equal(held, weights)


def test_external_data_is_read_from_the_folder(tmp_path: Path) -> None:
    weights = np.arange(5000, dtype=np.float32)
    onnx.save_model(_weighted(weights), str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin")
    graph = egshape.load(tmp_path / "m.onnx")
    np.testing.assert_array_equal(interpret(graph, [np.zeros(5000, np.float32)])[0], weights)


def test_a_composite_says_how_its_node_was_written() -> None:
    proto = helper.make_node(
        "Resize",
        ["x", "", "s"],
        ["y"],
        mode="cubic",
        cubic_coeff_a=-0.5,
        axes=[2, 3],
        coordinate_transformation_mode="asymmetric",
    )
    node = Node(proto, 19, {each.name: each for each in proto.attribute})
    again = node_of(node.title, node.record((0, 2), (0,)), ["x", "s"], ["y"])
    assert (list(again.input), list(again.output), again.op_type, again.domain) == (["x", "", "s"], ["y"], "Resize", "")
    assert sorted(map(str, again.attribute)) == sorted(map(str, proto.attribute))


def test_symbols_do_not_depend_on_the_order_of_loading() -> None:
    text = "g (float[n,?] x) => (float[o] y) { y = Exp(x) }"
    assert print_graph(graph_of(text)) == print_graph(graph_of(text))
    assert graph_of(text).inputs[0].type.dims[0] is symbol("n")


def test_an_undecided_broadcast_is_shown_as_what_it_means() -> None:
    graph = graph_of("g (float[a,b] x, float[c,b] z) => (float[o] y) { y = Add(x, z) }")
    rows = {row.name: row.shape for row in egshape.api.shapes_table(graph).values}
    assert rows["%y"] == ("bcast(a, c)", "b")
    for one, two, size in ((3, 1, 3), (1, 4, 4), (0, 1, 0), (2, 2, 2)):
        found = interpret(graph, [np.ones((one, 2), np.float32), np.ones((two, 2), np.float32)])
        assert found[0].shape == (size, 2)
    with pytest.raises(CheckFailed):
        interpret(graph, [np.ones((2, 2), np.float32), np.ones((3, 2), np.float32)])


def test_our_own_numbers_are_none_of_the_models_names() -> None:
    nodes = [
        helper.make_node("Add", ["x", "z"], ["2"]),
        helper.make_node("Relu", ["2"], ["0"]),
        helper.make_node("Exp", ["0"], ["1"]),
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["a", 1]), ("z", ["b"]), ("1", ["a", "b"]))
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", infos[:2], infos[2:]), ir_version=8, opset_imports=[helper.make_opsetid("", 20)]
    )
    graph = egshape.load(model.SerializeToString(), format="onnx")
    ops = {op.results[0].name: op.name for op in graph.ops}
    assert (ops["2"], ops["0"], ops["1"]) == ("add", "maximum", "exponential")


@pytest.mark.parametrize(("size", "wanted"), [(1, 1), (2, 1), (3, 1), (4, 2)])
def test_a_window_a_little_larger_than_its_axis_counts(size: int, wanted: int) -> None:
    graph = graph_of("g (float[1,1,h] x) => (float[o] y) { y = MaxPool<kernel_shape=[2], strides=[2]>(x) }")
    assert interpret(graph, [np.ones((1, 1, size), np.float32)])[0].shape == (1, 1, wanted)


def test_a_declared_rank_gives_a_target_of_unknown_length_its_length() -> None:
    graph = graph_of("g (float[a,b] x, int64[n] t) => (float[p,q,r] y) { y = Reshape(x, t) }")
    x = np.ones((2, 6), np.float32)
    assert interpret(graph, [x, np.array([2, -1, 3])])[0].shape == (2, 2, 3)
