"""Control flow written again: a Loop as a Loop, a Scan as a Scan, with no node more than it came with, and what ONNX
Runtime computes of the original."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

import egshape
from egshape.dims import const
from egshape.frontends.onnx.own import count_of
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret

LOOPS = {
    "counted": """g (float[n,m] x, int64 trip) => (float[n,m] z) { z = Loop(trip, , x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w) { d = Identity(c) t = Tanh(v) w = Add(t, x) }> }""",
    "both": """g (float[n,m] x, int64 trip, bool go) => (float[n,m] z) <int64 last = {2}>
        { z = Loop(trip, go, x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w) { d = Less(i, last) w = Tanh(v) }> }""",
    "condition": """g (float[n,m] x, bool go) => (float[n,m] z) <float most = {4.0}> { z = Loop(, go, x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w) { w = Add(v, most) s = ReduceMax <keepdims = 0> (w)
        d = Less(s, most) }> }""",
    "number": """g (float[n,m] x, int64 trip) => (float[n,m] z) { z = Loop(trip, , x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w)
        { d = Identity(c) f = Cast <to = 1> (i) w = Add(v, f) }> }""",
    "rows": """g (float[n,m] x, int64 trip) => (float[n,m] z, float[k,n,m] s) { z, s = Loop(trip, , x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w, float[n,m] r)
        { d = Identity(c) w = Tanh(v) r = Exp(w) }> }""",
    "row twice": """g (float[n,m] x, int64 trip) => (float[k,n,m] s, float[l,n,m] t)
        { z, s, t = Loop(trip, , x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w, float[n,m] r, float[n,m] q)
        { d = Identity(c) w = Tanh(v) r = Identity(w) q = Identity(x) }> }""",
    "swap": """g (float[n,m] x, float[n,m] y, int64 trip) => (float[n,m] z, float[n,m] u)
        { z, u = Loop(trip, , x, y) <body = b
        (int64 i, bool c, float[n,m] v, float[n,m] w) => (bool d, float[n,m] p, float[n,m] q)
        { d = Identity(c) p = Identity(w) q = Tanh(v) }> }""",
    "grows": """g (float[n,m] x, int64 trip) => (float[k,m] z) { z = Loop(trip, , x) <body = b
        (int64 i, bool c, float[a,m] v) => (bool d, float[e,m] w)
        { d = Identity(c) w = Concat <axis = 0> (v, x) }> }""",
    "inner": """g (float[n,m] x, int64 trip) => (float[n,m] z) { z = Loop(trip, , x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w) { d = Identity(c) w = Loop(i, , v) <body = e
        (int64 j, bool f, float[n,m] p) => (bool h, float[n,m] q) { h = Identity(f) q = Tanh(p) }> }> }""",
    "scan": """g (float[m] h, float[n,m] x) => (float[m] z, float[n,m] y) { z, y = Scan <num_scan_inputs = 1, body = b
        (float[m] s, float[m] e) => (float[m] t, float[m] o) { t = Add(s, e) o = Tanh(t) }> (h, x) }""",
    "scans": """g (float[m] h, float[n,m] x, float[n] k) => (float[m] z, float[n,m] y, float[n] r)
        { z, y, r = Scan <num_scan_inputs = 2, scan_input_directions = [1, 0], scan_output_directions = [0, 1], body = b
        (float[m] s, float[m] e, float f) => (float[m] t, float[m] o, float p)
        { u = Mul(e, f) t = Add(s, u) o = Tanh(t) p = Exp(f) }> (h, x, k) }""",
    "scan axis": """g (float[m] h, float[m,n] x) => (float[m] z) { z = Scan <num_scan_inputs = 1, scan_input_axes = [1],
        body = b (float[m] s, float[m] e) => (float[m] t) { u = Tanh(s) t = Add(u, e) }> (h, x) }""",
    "stateless": """g (float[n,m] x) => (float[n,m] y) { y = Scan <num_scan_inputs = 1, body = b
        (float[m] e) => (float[m] o) { o = Tanh(e) }> (x) }""",
    "branches": """g (float[n,m] x, bool go) => (float[n,m] z) { z = If(go) <then_branch = t () => (float[n,m] a)
        { b = Tanh(x) a = Exp(b) }, else_branch = e () => (float[n,m] c) { c = Neg(x) }> }""",
    "conditions of one element": """g (float[n,m] x, bool[1] flag, int64[1] count) => (float[n,m] z) { y = If(flag)
        <then_branch = t () => (float[n,m] a) { a = Tanh(x) }, else_branch = e () => (float[n,m] c) { c = Neg(x) }>
        z = Loop(count, , y) <body = b (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w)
        { d = Identity(c) w = Exp(v) }> }""",
    "branch in a loop": """g (float[n,m] x, int64 trip) => (float[n,m] z) <int64 one = {1}>
        { z = Loop(trip, , x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w) { d = Identity(c) f = Equal(i, one)
        w = If(f) <then_branch = t () => (float[n,m] a) { a = Tanh(v) },
        else_branch = e () => (float[n,m] o) { o = Neg(v) }>
        }> }""",
}


def model_of(text: str, opset: int = 17) -> onnx.ModelProto:
    """A model in ONNX's text form."""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    """ONNX Runtime, silent."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return ort.InferenceSession(model.SerializeToString(), options)


def feeds(graph: Graph, sizes: dict[str, int], trip: int) -> dict[str, np.ndarray]:
    """Inputs of a graph at sizes."""
    made: dict[str, np.ndarray] = {"trip": np.array(trip), "go": np.array(trip != 1)}
    made |= {"count": np.array([trip]), "flag": np.array([trip != 1])}
    for value in graph.inputs:
        shape = [size.evaluate(sizes) for size in value.type.dims]
        made.setdefault(value.name, np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))
    return {value.name: made[value.name] for value in graph.inputs}


@pytest.mark.long_but("[bcginr]*-17")
@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_keeps_its_nodes_and_its_results(name: str, opset: int, tmp_path: Path) -> None:
    model = model_of(LOOPS[name], opset)
    graph = egshape.load(model.SerializeToString(), "onnx")
    result = egshape.optimize(graph)
    assert result.report.status != "fallback" and not result.report.notes
    egshape.save(result.graph, tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(written, full_check=True)
    assert count_of(written.graph.node) <= count_of(model.graph.node)
    again = egshape.optimize(egshape.load(tmp_path / "m.onnx"))
    egshape.save(again.graph, tmp_path / "again.onnx")
    assert count_of(onnx.load(tmp_path / "again.onnx").graph.node) <= count_of(written.graph.node)
    before, after, third = session(model), session(written), session(onnx.load(tmp_path / "again.onnx"))
    for n, m in ((3, 2), (1, 1), (0, 2), (2, 0)):
        for trip in (0, 1, 2, 4):
            if 0 in (n, m) and (name == "condition" or "Scan" in LOOPS[name]):
                continue  # the maximum of nothing; ONNX Runtime's Scan of nothing ends the process
            given = feeds(graph, {"n": n, "m": m}, trip)
            wanted = before.run(None, given)
            for found in (after.run(None, given), third.run(None, given)):
                for one, two in zip(found, wanted, strict=True):
                    np.testing.assert_allclose(one, two, rtol=1e-6, err_msg=f"{n}, {m}, {trip}")


def test_a_while_that_nothing_counts_stays_one(tmp_path: Path) -> None:
    """Its test reads what it carries, and its count is a result: neither is left to ONNX's own."""
    b = BlockBuilder()
    x, start = b.arg("x", "f32", [None], ["n"]), b.one("constant", (), {"value": np.array(0, np.int64)})
    test, body = b.child(), b.child()
    at, v = test.arg(None, "i64", ()), test.arg(None, "f32", x.type.dims)
    most = test.one("constant", (), {"value": np.array(3, np.int64)})
    below = test.one("compare", (at, most), {"direction": "LT", "kind": "SIGNED"})
    i, w = body.arg(None, "i64", ()), body.arg(None, "f32", x.type.dims)
    next_ = body.one("add", (i, body.one("constant", (), {"value": np.array(2, np.int64)})))
    regions = (test.finish([below]), body.finish([next_, body.one("tanh", (w,))]))
    count, found = b.add("while", (start, x), {}, regions=regions)
    graph = Graph("g", b.finish([count, found]), ("count", "found"))
    assert v.type.dims[0] is not const(0)
    egshape.save(graph, tmp_path / "m.onnx")
    array = np.linspace(-1, 1, 4, dtype=np.float32)
    wanted = interpret(graph, [array])
    for one, two in zip(session(onnx.load(tmp_path / "m.onnx")).run(None, {"x": array}), wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


def test_a_loop_without_a_condition_is_written_with_one(tmp_path: Path) -> None:
    """ONNX's reference evaluator takes a condition that is left out for one that does not hold."""
    graph = egshape.load(model_of(LOOPS["counted"]).SerializeToString(), "onnx")
    egshape.save(graph, tmp_path / "m.onnx")
    (node,) = onnx.load(tmp_path / "m.onnx").graph.node
    assert node.op_type == "Loop" and all(node.input)
    given = feeds(graph, {"n": 3, "m": 2}, 2)
    (found,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, given)
    np.testing.assert_allclose(found, interpret(graph, list(given.values()))[0], rtol=1e-6)


@pytest.mark.parametrize("starts", [(0, 0), (1, 2), (9, 9), (-3, 1)])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_an_update_of_a_part_at_run_time_places(axes: int, starts: tuple[int, int], tmp_path: Path) -> None:
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, None, 4], ["n", "m", None])
    sizes = [const(2) if axis < axes else size for axis, size in enumerate(x.type.dims)]
    update = b.arg("u", "f32", sizes)
    places = [b.arg(name, "i64", ()) for name in ("i", "j")]
    last = b.one("constant", (), {"value": np.array(1, np.int64)})
    graph = Graph("g", b.finish([b.one("dynamic_update_slice", (x, update, *places, last))]), ("z",))
    egshape.save(graph, tmp_path / "m.onnx")
    for n, m in ((5, 4), (2, 2), (3, 2)):
        env = {"n": n, "m": m}
        arrays = [
            np.linspace(part, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
            for part, shape in ((2, (n, m, 4)), (-1, [size.evaluate(env) for size in sizes]))
        ]
        given = dict(zip("xuij", [*arrays, *(np.array(start) for start in starts)], strict=True))
        (found,) = session(onnx.load(tmp_path / "m.onnx")).run(None, given)
        assert np.array_equal(found, interpret(graph, list(given.values()))[0])
