"""Functions of a model that are called often stay functions: derived, optimized and written once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
from onnx import parser

import egshape
from egshape.errors import CheckFailed, EgshapeError
from egshape.frontends.onnx import functions
from egshape.frontends.onnx.own import count_of
from egshape.ir.calls import in_line, is_call
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from tests.frontends.onnx.test_control_out import session

HEAD = '<domain: "my", opset_import: ["": 17, "my": 1]>'


def chain(first: str, last: str = "out", count: int = 36) -> str:
    """Elementwise nodes one after the other."""
    names = [first, *(f"c{k}" for k in range(count - 1)), last]
    ops = ("Tanh", "Abs", "Sin", "Sigmoid")
    return " ".join(f"{after} = {ops[k % 4]}({name})" for k, (name, after) in enumerate(pairwise(names)))


LAYER = f"{HEAD} layer (x, w, row) => (out) {{ m = MatMul(x, w) wide = Add(m, row) {chain('wide')} }}"
"""What it demands: x has as many columns as w has rows, and w as many as the row has, or that is 1."""

HEADS = f"""{HEAD} heads (x) => (out) {{
    s = Shape(x) z = Constant<value = int64[1] {{0}}>() n = Gather(s, z) parts = Constant<value = int64[2] {{2, 3}}>()
    t = Concat<axis=0>(n, parts) r = Reshape(x, t) turned = Transpose<perm=[0, 2, 1]>(r) back = Reshape(turned, s)
    {chain("back")} }}"""
"""Shapes are computed inside; nothing of that is needed."""


def model_of(body: str, inputs: str, *made: str, outputs: str = "float[o,p] y") -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["": 17, "my": 1]> g ({inputs}) => ({outputs}) {{ {body} }}'
    return parser.parse_model("\n".join((text, *made)))


def layers(count: int, size: str = "8") -> onnx.ModelProto:
    """The same layer so often, with weights of its own each time."""
    names = ["x", *(f"y{k}" for k in range(count - 1)), "y"]
    body = " ".join(f"{names[k + 1]} = my.layer({names[k]}, w{k}, b{k})" for k in range(count))
    weights = ", ".join(f"float[{size},{size}] w{k}, float[{size}] b{k}" for k in range(count))
    return model_of(body, f"float[n,{size}] x, {weights}", LAYER)


def calls(graph: Graph) -> int:
    return sum(is_call(op) for op in graph.body.walk())


def feeds(model: onnx.ModelProto, **sizes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = {
        each.name: [dim.dim_value or sizes[dim.dim_param] for dim in each.type.tensor_type.shape.dim]
        for each in model.graph.input
    }
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def nodes(model: onnx.ModelProto) -> int:
    return count_of(model.graph.node) + sum(len(each.node) for each in model.functions)


def equal(one: onnx.ModelProto, two: onnx.ModelProto, *points: dict[str, int]) -> None:
    before, after = session(one), session(two)
    for sizes in points:
        given = feeds(one, **sizes)
        for wanted, found in zip(before.run(None, given), after.run(None, given), strict=True):
            np.testing.assert_array_equal(wanted, found)


def saved(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """What becomes of a model in a file."""
    egshape.save(egshape.optimize(model), path)
    written = onnx.load(path)
    onnx.checker.check_model(written, full_check=True)
    return written


def test_a_function_of_several_calls_stays_one(tmp_path: Path) -> None:
    model = layers(4)
    graph = egshape.load(model)
    assert calls(graph) == 4
    assert calls(egshape.optimize(graph).graph) == 4
    written = saved(model, tmp_path / "m.onnx")
    assert [(each.domain, each.name) for each in written.functions] == [("my", "layer")]
    assert [node.op_type for node in written.graph.node].count("layer") == 4
    equal(model, written, {"n": 0}, {"n": 1}, {"n": 5})


def test_a_function_gets_smaller_once(tmp_path: Path) -> None:
    model = model_of("a = my.heads(x) b = my.heads(a) y = my.heads(b)", "float[n,6] x", HEADS)
    written = saved(model, tmp_path / "m.onnx")
    (function,) = written.functions
    assert not {node.op_type for node in function.node} & {"Shape", "Gather", "Concat"}
    assert nodes(written) < nodes(model)
    equal(model, written, {"n": 1}, {"n": 4})
    egshape.save(egshape.optimize(tmp_path / "m.onnx"), tmp_path / "again.onnx")
    assert nodes(onnx.load(tmp_path / "again.onnx")) == nodes(written)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_calls_compute_what_they_do_in_line(rows: int) -> None:
    model = layers(3)
    graph, inputs = egshape.load(model), list(feeds(model, n=rows).values())
    (wanted,) = interpret(replace(graph, body=in_line(graph.body, is_call)), inputs)
    for each in (graph, egshape.optimize(graph).graph):
        np.testing.assert_array_equal(interpret(each, inputs)[0], wanted)
    np.testing.assert_allclose(egshape.compile(graph)(*inputs), wanted, rtol=1e-5, atol=1e-6)


def test_each_call_has_its_own_types() -> None:
    """An encoder and a decoder: the same layer on sequences of two lengths, and on one of rank 3."""
    body = "y = my.layer(x, w, r) z = my.layer(u, w, r) v = my.layer(q, w, r)"
    inputs = "float[n,8] x, float[m,8] u, float[b,t,8] q, float[8,8] w, float[8] r"
    model = model_of(body, inputs, LAYER, outputs="float[a,b1] y, float[c,d] z, float[e,f,g1] v")
    graph = egshape.load(model)
    assert [str(value.type) for value in graph.outputs] == ["f32[n, 8]", "f32[m, 8]", "f32[b, t, 8]"]
    assert calls(graph) == 2  # what is called once stands in line
    result = egshape.optimize(graph).graph
    inputs_ = list(feeds(model, n=2, m=3, b=1, t=4).values())
    for wanted, found in zip(interpret(graph, inputs_), interpret(result, inputs_), strict=True):
        np.testing.assert_array_equal(wanted, found)


def test_what_a_function_demands_is_checked_before_it() -> None:
    inputs = "float[n,k] x, float[k1,k1] w, float[k1] b, float[m,j] u, float[j1,j1] v, float[j1] c"
    body = "y = my.layer(x, w, b) z = my.layer(u, v, c)"
    model = model_of(body, inputs, LAYER, outputs="float[o,p] y, float[q,r] z")
    graph = egshape.load(model)
    assert calls(graph) == 2
    result = egshape.optimize(graph, allow_larger=True).graph
    assert calls(result) == 2
    assert all(op.name != "check" for call in result.body.ops for region in call.regions for op in region.walk())
    sizes = {"n": 2, "m": 5, "k": 4, "k1": 4, "j": 3, "j1": 3}
    good = list(feeds(model, **sizes).values())
    for wanted, found in zip(interpret(graph, good), interpret(result, good), strict=True):
        np.testing.assert_array_equal(wanted, found)
    for name in ("k", "j"):
        bad = list(feeds(model, **{**sizes, name: 2}).values())
        with pytest.raises(CheckFailed, match=r"function .*layer"):
            interpret(result, bad)
        with pytest.raises(EgshapeError):
            interpret(graph, bad)


def test_attributes_make_functions_of_their_own(tmp_path: Path) -> None:
    scaled = f"{HEAD} scaled <k> (x) => (out) {{ s = Softmax<axis: int = @k>(x) {chain('s')} }}"
    body = "a = my.scaled<k=1>(x) b = my.scaled<k=0>(a) c = my.scaled<k=1>(b) y = my.scaled<k=0>(c)"
    model = model_of(body, "float[n,m] x", scaled)
    assert calls(egshape.load(model)) == 4
    egshape.save(egshape.optimize(model, allow_larger=True), tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    assert sorted(each.name for each in written.functions) == ["scaled", "scaled_1"]
    equal(model, written, {"n": 1, "m": 3}, {"n": 4, "m": 2})


def test_functions_that_call_functions(tmp_path: Path) -> None:
    block = f"{HEAD} block (x, w, r) => (o) {{ a = my.layer(x, w, r) b = my.layer(a, w, r) o = Neg(b) }}"
    model = model_of(
        "a = my.block(x, w, r) y = my.block(a, w, r)", "float[n,8] x, float[8,8] w, float[8] r", block, LAYER
    )
    written = saved(model, tmp_path / "m.onnx")
    assert sorted(each.name for each in written.functions) == ["block", "layer"]
    equal(model, written, {"n": 0}, {"n": 3})


def test_a_size_that_no_axis_of_an_argument_is_comes_along(tmp_path: Path) -> None:
    """The function spreads a row to a shape that the caller gives."""
    spread = f"{HEAD} spread (row, shape) => (out) {{ wide = Expand(row, shape) {chain('wide')} }}"
    body = "s = Shape(x) a = my.spread(r, s) b = my.spread(q, s) y = Add(a, b)"
    model = model_of(body, "float[n,m] x, float[m] r, float[m] q", spread)
    egshape.save(egshape.optimize(model, allow_larger=True), tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    assert len(written.functions) == 1
    equal(model, written, {"n": 1, "m": 3}, {"n": 4, "m": 1}, {"n": 3, "m": 5})


def test_constants_that_a_function_is_given_are_known_in_it() -> None:
    """Axes are; weights are not, since each call has its own."""
    summed = f"{HEAD} summed (x, axes, w) => (out) {{ s = ReduceSum<keepdims=1>(x, axes) t = Mul(s, w) {chain('t')} }}"
    numbers = ", ".join(f"{k}.5" for k in range(18))
    body = f"""w = Constant<value_floats = [{numbers}]>() v = Neg(w) i = Constant<value = int64[1] {{1}}>()
        a = my.summed(x, i, w) b = my.summed(a, i, v) y = my.summed(b, i, w)"""
    graph = egshape.load(model_of(body, "float[n,m] x", summed))
    assert calls(graph) == 2  # not the first one: it is not of 18 columns
    assert any(op.name == "reduce" for op in graph.body.walk())
    assert all(op.name != "host_call" for op in graph.body.walk())
    x = np.ones((2, 18), np.float32)
    result = egshape.optimize(graph).graph
    np.testing.assert_array_equal(interpret(graph, [x])[0], interpret(result, [x])[0])


STAYS = {
    "short": (f"{HEAD} f (x) => (out) {{ {chain('x', count=4)} }}", "a = my.f(x) y = my.f(a)"),
    "once": (f"{HEAD} f (x) => (out) {{ {chain('x')} }}", "y = my.f(x)"),
    "sizes from data": (
        f"{HEAD} f (x) => (out) {{ t = Transpose(p) p = NonZero(x) q = Cast<to=1>(t) {chain('q')} }}".replace(
            "t = Transpose(p) p = NonZero(x)", "p = NonZero(x) t = Transpose(p)"
        ),
        "a = my.f(x) y = my.f(a)",
    ),
    "a shape": (
        f"{HEAD} f (x) => (s) {{ {chain('x')} s = Shape(out) }}",
        "s = my.f(x) a = Expand(x, s) t = my.f(a) y = Reshape(x, t)",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stands_in_line(name: str) -> None:
    function, body = STAYS[name]
    model = model_of(body, "float[n,m] x", function)
    graph = egshape.load(model)
    assert calls(graph) == 0
    given = feeds(model, n=3, m=4)
    np.testing.assert_allclose(interpret(graph, [given["x"]])[0], session(model).run(None, given)[0], rtol=1e-5)


def test_functions_that_call_themselves_are_refused() -> None:
    f = f"{HEAD} f (x) => (out) {{ a = my.h(x) b = my.h(a) {chain('b')} }}"
    h = f"{HEAD} h (x) => (out) {{ a = my.f(x) b = my.f(a) {chain('b')} }}"
    with pytest.raises(EgshapeError, match=r"the function my\.\w calls itself"):
        egshape.load(model_of("a = my.f(x) y = my.f(a)", "float[n,m] x", f, h))


def test_a_further_layer_adds_its_call_only(monkeypatch: pytest.MonkeyPatch) -> None:
    derived = []
    body = functions._body
    monkeypatch.setattr(functions, "_body", lambda *rest: (derived.append(1), body(*rest))[1])
    few, many = (egshape.optimize(layers(count), validate=False) for count in (2, 12))
    assert many.report.ops.after.total == few.report.ops.after.total + 10
    assert len(derived) == 2  # once for each model


def test_from_stablehlo_functions_stay_too(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    from tests.frontends.test_calls_stay import _fixed, _stack

    graph = egshape.optimize(egshape.frontends.stablehlo.read(_fixed(_stack(3)), "t.mlir")).graph
    egshape.save(graph, tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(written, full_check=True)
    assert [(each.domain, each.name) for each in written.functions] == [("egshape.functions", "layer")]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((4, 8)).astype(np.float32), *rng.standard_normal((3, 8)).astype(np.float32)]
    names = [each.name for each in written.graph.input]
    (found,) = session(written).run(None, dict(zip(names, inputs, strict=True)))
    np.testing.assert_allclose(found, interpret(graph, inputs)[0], rtol=1e-5, atol=1e-6)
