"""Ops whose operands did not broadcast, or only where an attribute says so, in opsets before 8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
ort = pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import egshape  # noqa: E402
from egshape.errors import CheckFailed, EgshapeError  # noqa: E402
from egshape.ir.graph import Graph  # noqa: E402
from egshape.ir.interpret import interpret  # noqa: E402
from egshape.ir.types import numpy_dtype  # noqa: E402


def load(text: str, opset: int) -> Graph:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    return egshape.load(model.SerializeToString(), "onnx")


def counted(*shape: int, dtype: str = "f32") -> np.ndarray:
    """0, 1, ... of a shape."""
    return np.arange(np.prod(shape)).reshape(shape).astype(numpy_dtype(dtype))


@dataclass(frozen=True)
class Case:
    """A model of opset 6, what it computes, and shapes of its inputs that it takes, and that it rejects."""

    text: str
    meaning: Callable[..., np.ndarray]
    taken: tuple[tuple[tuple[int, ...], ...], ...]
    rejected: tuple[tuple[tuple[int, ...], ...], ...] = ()


CASES = {
    "last axes": Case(
        "g (float[a,b] x, float[c] y) => (float[m,n] o) { o = Add<broadcast=1>(x, y) }",
        np.add,
        (((2, 3), (3,)), ((2, 3), (1,)), ((1, 1), (1,)), ((0, 3), (3,))),
        (((2, 1), (3,)), ((2, 3), (2,)), ((2, 3), (0,))),
    ),
    "an axis": Case(
        "g (float[a,b,c] x, float[d] y) => (float[k,m,n] o) { o = Mul<broadcast=1, axis=1>(x, y) }",
        lambda x, y: x * y[:, None],
        (((2, 3, 4), (3,)), ((2, 3, 3), (1,))),
        (((2, 3, 4), (4,)), ((2, 1, 4), (4,))),
    ),
    "one shape": Case(
        "g (int32[a,b] x, int32[c,d] y) => (bool[m,n] o) { o = Less(x, y) }",
        np.less,
        (((2, 3), (2, 3)), ((0, 3), (0, 3))),
        (((2, 3), (1, 3)), ((2, 1), (2, 3))),
    ),
    "bits": Case(
        "g (bool[a,b] x, bool[b] y) => (bool[m,n] o) { o = Xor<broadcast=1>(x, y) }", np.logical_xor, (((2, 3), (3,)),)
    ),
    "sum": Case(
        "g (float[a] x, float[b] y, float[c] z) => (float[m] o) { o = Sum(x, y, z) }",
        lambda x, y, z: x + y + z,
        (((3,), (3,), (3,)), ((1,), (1,), (1,))),
        (((3,), (1,), (3,)), ((3,), (3,), (1,))),
    ),
    "product": Case(
        "g (float[a,b] x, float[c,d] y, float[e] z) => (float[m,n] o) { o = Gemm<transB=1, broadcast=1>(x, y, z) }",
        lambda x, y, z: x @ y.T + z,
        (((2, 3), (4, 3), (4,)), ((2, 3), (4, 3), (1,))),
    ),
    "product of one shape": Case(
        "g (float[a,b] x, float[c,d] y, float[e,f] z) => (float[m,n] o) { o = Gemm(x, y, z) }",
        lambda x, y, z: x @ y + z,
        (((2, 3), (3, 4), (2, 4)),),
        (((2, 3), (3, 4), (1, 4)),),
    ),
    "channels": Case(
        "g (float[a,b,c] x, float[d] y) => (float[k,m,n] o) { o = PRelu(x, y) }",
        lambda x, y: np.where(x < 0, x * y[:, None], x),
        (((2, 3, 4), (3,)), ((2, 3, 4), (1,))),
    ),
    "in a branch": Case(
        "g (bool p, float[a] x, float[b] y) => (float[m] o) { q = Not(p) o = If(q) <then_branch = t () "
        "=> (float[m] u) { u = Add(x, y) }, else_branch = e () => (float[m] v) { v = Identity(x) }> }",
        lambda p, x, y: x + y,
        (((), (3,), (3,)),),
        (((), (3,), (1,)), ((), (1,), (3,))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operands_before_opset_7(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    graph = load(case.text, 6)
    assert not any(op.name == "host_call" for op in graph.body.walk())
    result = egshape.optimize(graph)
    assert result.report.status != "fallback", result.report.notes
    egshape.save(result.graph, tmp_path / "m.onnx")
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])

    def feeds(shapes: tuple[tuple[int, ...], ...]) -> dict[str, np.ndarray]:
        return {
            value.name: counted(*shape, dtype=value.type.dtype)
            for value, shape in zip(graph.inputs, shapes, strict=True)
        }

    for shapes in case.taken:
        feed = feeds(shapes)
        arrays = list(feed.values())
        for found in (interpret(graph, arrays)[0], interpret(result.graph, arrays)[0], session.run(None, feed)[0]):
            np.testing.assert_array_equal(found, case.meaning(*arrays), err_msg=str(shapes))
    for shapes in case.rejected:
        feed = feeds(shapes)
        for each in (graph, result.graph):
            with pytest.raises(CheckFailed):
                interpret(each, list(feed.values()))
        with pytest.raises(Exception, match=r"check: |Non-zero status code"):
            session.run(None, feed)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[a,b] x, float[b] y) => (float[m,n] o) { o = Add(x, y) }",
        "g (float[a,2] x, float[a,3] y) => (float[m,n] o) { o = Sub(x, y) }",
        "g (float[a,b] x, float[a] y) => (float[m,n] o) { o = Add<broadcast=1, axis=2>(x, y) }",
    ],
)
def test_operands_that_cannot_fit(text: str) -> None:
    with pytest.raises(EgshapeError, match=r"one shape|along the axes"):
        load(text, 6)


@pytest.mark.parametrize("op", ["Sum", "Max", "Min", "Mean"])
def test_one_shape_at_opset_7(op: str, tmp_path: Path) -> None:
    """The node itself rejects other shapes there, so it is kept."""
    graph = load(f"g (float[a] x, float[b] y) => (float[m] o) {{ o = {op}(x, y) }}", 7)
    egshape.save(egshape.optimize(graph).graph, tmp_path / "m.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node] == [op]
    with pytest.raises(EgshapeError):
        interpret(graph, [counted(3), counted(1)])
    np.testing.assert_array_equal(interpret(graph, [counted(3), counted(3)])[0], counted(3) * (2 if op == "Sum" else 1))
