"""Nodes whose operands or texts are not what their op takes: one error that names the node and is the model's fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError, InternalError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tests.frontends.onnx.checking import load  # noqa: E402
from tests.frontends.onnx.test_hostile import F, ints, model, node, refused  # noqa: E402


def _lstm(**ranks: int) -> onnx.ModelProto:
    """An LSTM whose operands have these ranks instead of their own."""
    own = {"x": 3, "w": 3, "r": 3, "b": 2, "lengths": 1, "h": 3, "c": 3, "p": 2}
    infos = [
        helper.make_tensor_value_info(name, TensorProto.INT32 if name == "lengths" else F, [1] * ranks.get(name, rank))
        for name, rank in own.items()
    ]
    return model([node("LSTM", list(own), ["y"], hidden_size=1)], inputs=infos)


@pytest.mark.parametrize("name", ["x", "w", "r", "b", "lengths", "h", "c", "p"])
@pytest.mark.parametrize("rank", [0, 1, 2, 3, 5])
def test_operand_of_another_rank(name: str, rank: int, tmp_path: Path) -> None:
    try:
        load(_lstm(**{name: rank}))
    except InternalError as error:
        raise AssertionError(str(error)) from error
    except EgshapeError as error:
        assert "LSTM" in str(error), str(error)


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "said"),
    [
        ("QLinearMatMul", 7, 1, "takes 8"),
        ("QLinearMatMul", 9, 1, "takes 8"),
        ("Clip", 4, 1, "1 to 3"),
        ("Add", 1, 1, "takes 2"),
        ("Concat", 0, 1, "1 or more"),
        ("Relu", 1, 3, "takes 0 to 1"),
    ],
)
def test_number_of_operands(op: str, inputs: int, outputs: int, said: str, tmp_path: Path) -> None:
    wrong = model([node(op, ["x"] * inputs, ["y", *(f"z{at}" for at in range(outputs - 1))])])
    text = refused(wrong, tmp_path)
    assert said in text and op in text, text


def test_depth_to_space_of_a_vector(tmp_path: Path) -> None:
    """What a handler does not look at, ONNX's own inference does: the node is at fault, not egshape."""
    wrong = model(
        [node("DepthToSpace", ["w"], ["y"], blocksize=2)],
        initializers=[numpy_helper.from_array(np.ones(4, np.float32), "w")],
    )
    assert "does not fit its operands" in refused(wrong, tmp_path)


def test_a_fault_of_a_handler_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ONNX takes the node, an error of a handler is a fault of egshape that names the node."""
    from egshape.frontends.onnx.registry import DECLARATIONS

    found = DECLARATIONS.find("", "Relu", 17)
    assert found is not None

    def broken(*_: object) -> None:
        raise IndexError("ours")

    monkeypatch.setattr(DECLARATIONS, "find", lambda *_: type(found)("Relu", broken))
    monkeypatch.delenv("EGSHAPE_STRICT", raising=False)
    with pytest.raises(InternalError, match="Relu"):
        load(model([node("Relu", ["x"], ["y"])]))


@pytest.mark.parametrize("size", [5000, 2**31 - 1, 2**62])
def test_reshape_to_a_million_axes(size: int, tmp_path: Path) -> None:
    inputs = [
        helper.make_tensor_value_info("x", F, ["n", 4]),
        helper.make_tensor_value_info("s", TensorProto.INT64, [min(size, 2**31 - 1)]),
    ]
    assert "Reshape" in refused(model([node("Reshape", ["x", "s"], ["y"])], inputs=inputs), tmp_path)


def test_two_outputs_of_one_name(tmp_path: Path) -> None:
    assert "two outputs are named 'y'" in refused(model([node("Neg", ["x"], ["y"])], outputs=("y", "y")), tmp_path)


@pytest.mark.parametrize("where", ["graph", "producer", "operand"])
def test_text_that_is_no_utf8(where: str, tmp_path: Path) -> None:
    made = model([node("Neg", ["x"], ["y"])])
    made.graph.name, made.producer_name, made.graph.node[0].name = "GRAPH__", "PRODUCER__", "OPERAND__"
    assert "UTF-8" in refused(
        made.SerializeToString().replace(f"{where.upper()}__".encode(), where.upper().encode() + b"\xb0\xff"), tmp_path
    )


def test_a_long_sum_of_nothing(tmp_path: Path) -> None:
    """Validation at a size of 0 does not count to 2**31."""
    long = model(
        [
            node("Reshape", ["x", "s"], ["h"]),
            node("Transpose", ["h"], ["t"], perm=[1, 0]),
            node("MatMul", ["h", "t"], ["m"]),
            node("Abs", ["m"], ["y"]),
        ],
        inputs=[helper.make_tensor_value_info("x", F, ["n", 2**31 - 1])],
        initializers=[ints("s", -1, 2**31 - 1)],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(long.SerializeToString())
    from tests.frontends.onnx.bounds import bounded

    with bounded(20):
        egshape.optimize(egshape.load(path))


def test_squeeze_of_an_unknown_axis_before_allowzero(tmp_path: Path) -> None:
    """Reshape of opset 13 copies a size where a computed one is 0; Squeeze does not."""
    ort = pytest.importorskip("onnxruntime")
    squeezed = model(
        [node("Squeeze", ["x", "s"], ["y"])],
        initializers=[ints("s", 1)],
        opset=13,
        inputs=[helper.make_tensor_value_info("x", F, ["a", "b", "c"])],
    )
    squeezed.ir_version = 8
    path = tmp_path / "m.onnx"
    egshape.save(egshape.optimize(load(squeezed)).graph, path)
    written = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for shape in ((1, 1, 0), (2, 1, 0), (0, 1, 3), (2, 1, 3)):
        assert written.run(None, {"x": np.ones(shape, np.float32)})[0].shape == (shape[0], shape[2])


@pytest.mark.parametrize(("opset", "written"), [(9, None), (11, None), (13, None), (13, 14), (11, 17), (14, None)])
def test_reshape_to_computed_sizes_of_0(opset: int, written: int | None, tmp_path: Path) -> None:
    """Before opset 14 a size of 0 copies one of the operand: what runs in the original gives the same, or has the
    sizes that are computed."""
    ort = pytest.importorskip("onnxruntime")
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Shape", ["x"], ["s"]),
        *(node("Gather", ["s", f"at{at}"], [name]) for at, name in enumerate("abc")),
        node("Mul", ["a", "b"], ["ab"]),
        node("Concat", ["c", "ab"], ["s1"], axis=0),
        node("Reshape", ["r", "s1"], ["q"]),
        node("Neg", ["q"], ["y"]),
        node("Concat", ["ab", "c"], ["s2"], axis=0),
        node("Reshape", ["r", "s2"], ["z"]),
        node("Concat", ["b", "c", "a"], ["s3"], axis=0),
        node("Reshape", ["r", "s3"], ["w"]),
    ]
    made = model(
        nodes,
        outputs=("y", "z", "w"),
        opset=opset,
        initializers=[ints(f"at{at}", at) for at in range(3)],
        inputs=[helper.make_tensor_value_info("x", F, ["A", "B", "C"])],
    )
    made.ir_version = 8
    path = tmp_path / "m.onnx"
    egshape.save(egshape.optimize(load(made)).graph, path, **({"opset": written} if written else {}))
    onnx.checker.check_model(onnx.load(path))
    session, original = (
        ort.InferenceSession(each, providers=["CPUExecutionProvider"]) for each in (str(path), made.SerializeToString())
    )
    ran = 0
    for a, b, c in ((0, 0, 0), (0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 3), (2, 0, 0), (1, 2, 3), (2, 3, 4)):
        x = np.arange(a * b * c, dtype=np.float32).reshape(a, b, c)
        try:
            before = original.run(None, {"x": x})
        except Exception:  # ONNX Runtime's own, of many kinds
            continue
        ran += 1
        wanted = [sign * x.reshape(shape) for shape, sign in (((c, a * b), -1), ((a * b, c), 1), ((b, c, a), 1))]
        for found, one, two in zip(session.run(None, {"x": x}), wanted, before, strict=True):
            assert any(np.array_equal(found, each) for each in (one, two)), (a, b, c)
    assert ran >= 2


def test_two_opsets_of_one_domain(tmp_path: Path) -> None:
    made = model([node("Neg", ["x"], ["y"])])
    made.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    assert "17 and 13" in refused(made, tmp_path)


def test_no_outputs(tmp_path: Path) -> None:
    assert "no outputs" in refused(model([node("Neg", ["x"], ["y"])], outputs=()), tmp_path)


def test_sizes_that_onnx_rejects_are_not_compared(tmp_path: Path) -> None:
    """ONNX Runtime joins [2, 2] and [2, 0] to a [4, 2] of which half is never written: that says nothing."""
    pytest.importorskip("onnxruntime")
    from egshape.adapters.onnx_verify import compare_models

    joined = model(
        [node("Concat", ["x", "z"], ["y"], axis=0)],
        inputs=[helper.make_tensor_value_info("x", F, [2, 2]), helper.make_tensor_value_info("z", F, [2, "n"])],
    )
    joined.ir_version = 8
    graph, path = load(joined), tmp_path / "m.onnx"
    egshape.save(egshape.optimize(graph).graph, path)
    assert not compare_models(joined.SerializeToString(), path, graph, graph.facts, wanted=3).difference
