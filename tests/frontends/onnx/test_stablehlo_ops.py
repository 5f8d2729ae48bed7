"""Ops that ONNX has not, or only since late: shifts of signed numbers before opset 28, pads by sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
ort = pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

from onnx.reference import ReferenceEvaluator  # noqa: E402

import egshape  # noqa: E402
from egshape.dims import const  # noqa: E402
from egshape.ir.builder import BlockBuilder  # noqa: E402
from egshape.ir.graph import Graph  # noqa: E402
from egshape.ir.interpret import interpret  # noqa: E402
from egshape.ir.types import numpy_dtype  # noqa: E402


@pytest.mark.parametrize("op", ["shift_left", "shift_right_logical", "shift_right_arithmetic"])
@pytest.mark.parametrize("dtype", ["i8", "i32", "i64"])
def test_by_a_number(op: str, dtype: str, tmp_path: Path) -> None:
    """By no places, some, all but one, all, and amounts that are none: of numbers at both ends."""
    width = numpy_dtype(dtype).itemsize * 8
    info = np.iinfo(numpy_dtype(dtype))
    array = np.array([info.min, info.min + 1, -8, -1, 0, 1, 5, info.max], numpy_dtype(dtype))
    for amount in (0, 1, 3, width - 2, width - 1, width, width + 1, -1):
        builder = BlockBuilder()
        x = builder.arg("x", dtype, (None,), ("n",))
        places = builder.one("constant", (), {"value": np.full((), amount, numpy_dtype(dtype))})
        places = builder.one("broadcast_in_dim", (places,), {"dims": (), "shape": x.type.dims})
        graph = Graph("g", builder.finish([builder.one(op, (x, places))]), ("y",))
        egshape.save(graph, tmp_path / "m.onnx")
        model = onnx.load(tmp_path / "m.onnx")
        onnx.checker.check_model(model, full_check=True)
        wanted = interpret(graph, [array])[0]
        np.testing.assert_array_equal(ReferenceEvaluator(model).run(None, {"x": array})[0], wanted, str(amount))
        if dtype != "i8":  # for which ONNX Runtime has no kernel
            session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            np.testing.assert_array_equal(session.run(None, {"x": array})[0], wanted, str(amount))


@pytest.mark.parametrize("op", ["LEFT", "RIGHT"])
def test_since_opset_28_as_it_came(op: str, tmp_path: Path) -> None:
    text = f'''<ir_version: 10, opset_import: ["" : 28]>
        g (int32[n] x, int32[n] y) => (int32[n] z) {{ z = BitShift<direction = "{op}">(x, y) }}'''
    try:
        model = onnx.parser.parse_model(text)
        graph = egshape.load(model.SerializeToString(), "onnx")
    except egshape.errors.EgshapeError as error:
        pytest.skip(f"the installed onnx is older: {error}")
    egshape.save(egshape.optimize(graph).graph, tmp_path / "m.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node] == ["BitShift"]


@pytest.mark.parametrize("low", [0, 2, -1])
def test_a_pad(low: int, tmp_path: Path) -> None:
    """Also one that depends on a size, and one that cuts off."""
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, const(3)), ("n", None))
    value = builder.one("constant", (), {"value": np.float32(7).reshape(())})
    attrs = {"low": (x.type.dims[0], const(low)), "high": (const(1), const(2)), "interior": (const(0),) * 2}
    graph = Graph("g", builder.finish([builder.one("pad", (x, value), attrs)]), ("y",))
    egshape.save(graph, tmp_path / "m.onnx")
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for n in (0, 1, 4):
        array = np.arange(n * 3, dtype=np.float32).reshape(n, 3)
        np.testing.assert_array_equal(session.run(None, {"x": array})[0], interpret(graph, [array])[0])
