"""Models that would be larger by egshape's own ops are written as they came: functions, attributes and subgraphs
included, behind the checks that were asked for."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
from onnx import parser

import egshape
from egshape.frontends.onnx.own import Own, count_of
from tests.frontends.onnx.test_control_out import session

GATED = '<domain: "my", opset_import: ["": 17]> f (a, b) => (c) { s = Tanh(a) c = Mul(s, b) }'
SCALED = '<domain: "my", opset_import: ["": 17]> f <k> (a) => (c) { s = Softmax <axis: int = @k> (a) c = Mul(s, a) }'
NESTED = (
    """<domain: "my", opset_import: ["": 17, "my": 1]> h (a) => (c) { s = my.f(a, a) t = my.f(s, a) c = my.f(t, s) }
    """
    + GATED
)

MODELS = {
    "calls": ("g (float[n,m] x) => (float[n,m] y) { a = my.f(x, x) b = my.f(a, x) y = my.f(b, a) }", GATED),
    "attributes": (
        "g (float[n,m] x) => (float[n,m] y) { a = my.f<k=1>(x) b = my.f<k=0>(a) c = my.f<k=1>(b) y = my.f<k=0>(c) }",
        SCALED,
    ),
    "nested": ("g (float[n,m] x) => (float[n,m] y) { a = my.h(x) b = my.h(a) y = my.h(b) }", NESTED),
    "in a branch": (
        """g (float[n,m] x, bool p) => (float[n,m] y) { y = If(p) <
        then_branch = t () => (float[n,m] q) { a = my.f(x, x) b = my.f(a, x) q = my.f(b, a) },
        else_branch = e () => (float[n,m] r) { d = my.f(x, x) e1 = my.f(d, x) r = my.f(e1, d) }> }""",
        GATED,
    ),
    "in a loop": (
        """g (float[n,m] x, int64 trip) => (float[n,m] y) { y = Loop(trip, , x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w)
        { d = Identity(c) a = my.f(v, x) b1 = my.f(a, v) w = my.f(b1, a) }> }""",
        GATED,
    ),
    "a chosen target": (
        """g (float[n,m] x) => (float[a,b] y) <int64[1] z = {0}, int64[2] s = {-1, 2}, int64[1] four = {4}>
        { h = Shape(x) k = Gather(h, z) c = Less(k, four) t = Where(c, s, h) y = Reshape(x, t) }""",
        "",
    ),
}


def model_of(name: str) -> onnx.ModelProto:
    text, functions = MODELS[name]
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "my": 1]> {text} {functions}')


def count(model: onnx.ModelProto) -> int:
    return count_of([*model.graph.node, *(node for each in model.functions for node in each.node)])


def given(model: onnx.ModelProto, n: int, m: int) -> dict[str, np.ndarray]:
    made = {"p": np.array(True), "trip": np.array(2)}
    tensor = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
    return {each.name: made.get(each.name, tensor) for each in model.graph.input}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fact", ["", "n % 2 == 0"])
def test_no_node_more_than_the_file(name: str, fact: str, tmp_path: Path) -> None:
    model, path = model_of(name), tmp_path / "m.onnx"
    result = egshape.optimize(model, assume=[fact] if fact else [])
    egshape.save(result, path, checks="none")
    assert count(onnx.load(path)) <= count(model)
    egshape.save(result, path)
    written = onnx.load(path)
    onnx.checker.check_model(written, full_check=True)
    before, after = session(model), session(written)
    for sizes in ((2, 2), (4, 6), (0, 2)):
        feeds = given(model, *sizes)
        np.testing.assert_array_equal(before.run(None, feeds)[0], after.run(None, feeds)[0])
    if fact:
        with pytest.raises(Exception, match="check: n%2 == 0"):
            after.run(None, given(model, 3, 2))
    again = egshape.optimize(path)
    assert [op.attrs["message"] for op in again.graph.ops if op.name == "check"] == [
        op.attrs["message"] for op in result.graph.ops if op.name == "check"
    ]
    egshape.save(again, path)
    assert count(onnx.load(path)) == count(written)


def test_functions_stay_functions(tmp_path: Path) -> None:
    model = model_of("calls")
    result = egshape.optimize(model)
    egshape.save(result, tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx").functions == model.functions
    assert "left as it was: it would be larger (6 nodes, not 5)" in result.report.notes
    larger = egshape.optimize(model, allow_larger=True)
    egshape.save(larger, tmp_path / "l.onnx")
    assert not onnx.load(tmp_path / "l.onnx").functions


def test_weights_stay_where_they_are(tmp_path: Path) -> None:
    """Large initializers are no part of the message that is kept."""
    model, path = model_of("calls"), tmp_path / "m.onnx"
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    model.graph.node.append(onnx.helper.make_node("MatMul", ["y", "w"], ["z"]))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, ["n", 64]))
    egshape.save(egshape.optimize(model), path, external_data=True)
    written = onnx.load(path)
    assert written.functions and len(written.graph.initializer) == 1
    feeds = given(model, 3, 64)
    np.testing.assert_array_equal(session(model).run(None, feeds)[0], session(written).run(None, feeds)[0])
    egshape.save(egshape.optimize(path), tmp_path / "again.onnx")  # now the weights come from the file beside it
    again = session(onnx.load(tmp_path / "again.onnx"))
    np.testing.assert_array_equal(session(model).run(None, feeds)[0], again.run(None, feeds)[0])


def test_a_name_inside_that_hides_an_input(tmp_path: Path) -> None:
    """The check goes before the input; what a subgraph calls by the same name is another tensor."""
    model = model_of("in a loop")
    (loop,) = model.graph.node
    body = loop.attribute[0].g
    body.input[2].name = "x"  # hides the input of the graph
    for node in body.node:
        node.input[:] = ["x" if name == "v" else name for name in node.input]
    graph = egshape.load(model)
    assert isinstance(graph.own, Own)
    egshape.save(egshape.optimize(graph, assume="n <= 8"), tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx").graph.node[-1].attribute[0].g.node[1].input[0] == "x"


def test_a_graph_of_another_process_is_written_anew(tmp_path: Path) -> None:
    graph = pickle.loads(pickle.dumps(egshape.load(model_of("calls"))))
    assert graph.own is None
    egshape.save(graph, tmp_path / "m.onnx")
    assert not onnx.load(tmp_path / "m.onnx").functions
