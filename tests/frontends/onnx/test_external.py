"""Weights in a file beside the model: written in full or not at all, and read back equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import onnx
from onnx import helper

import egshape
from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.onnx import saving, weights
from egshape.ir.interpret import interpret
from egshape.ir.types import numpy_dtype
from tests.frontends.onnx.roads import FLOAT, made

X = np.ones((2, 40), np.float32)


def model(seed: int = 0) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    held = {
        "w": rng.standard_normal((40, 50)).astype(np.float32),
        "b": rng.standard_normal(50).astype(np.float32),
        "q": rng.integers(-8, 8, (60, 50)).astype(np.float32).astype(numpy_dtype("i4")),
        "s": np.array(0.5, np.float32),
        "k": np.zeros((50, 0), np.float32),
    }
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("DequantizeLinear", ["q", "s"], ["d"]),
        node("Concat", ["a", "d"], ["y"], axis=0),
        node("MatMul", ["y", "k"], ["z"]),
    ]
    return made(nodes, [("x", FLOAT, ["n", 40])], [("y", FLOAT, [None, 50]), ("z", FLOAT, [None, 0])], 21, held)


def graph(seed: int = 0) -> egshape.Graph:
    return egshape.load(model(seed).SerializeToString(), "onnx")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_weights_beside_the_model(tmp_path) -> None:
    egshape.save(graph(), tmp_path / "m.onnx", external_data=True)
    side, whole = names(tmp_path)[1], tmp_path / "m.onnx"
    assert len(names(tmp_path)) == 2 and side.startswith("m.onnx.") and side.endswith(".data")
    onnx.checker.check_model(str(whole))
    held = {each.name: each for each in onnx.load(whole, load_external_data=False).graph.initializer}
    outside = {name for name, each in held.items() if each.data_location == onnx.TensorProto.EXTERNAL}
    assert {"w", "q"} <= outside and not {"s", "b"} & outside
    for one, two in zip(interpret(egshape.load(whole), [X]), interpret(graph(), [X]), strict=True):
        np.testing.assert_array_equal(one, two)
    assert whole.stat().st_size < 4000


def test_the_same_bytes_each_time_and_no_old_weights_left(tmp_path) -> None:
    egshape.save(graph(), tmp_path / "m.onnx", external_data=True)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    egshape.save(egshape.load(tmp_path / "m.onnx"), tmp_path / "m.onnx", external_data=True)  # in place, over itself
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
    egshape.save(graph(1), tmp_path / "m.onnx", external_data=True)
    assert len(names(tmp_path)) == 2 and names(tmp_path) != sorted(first)
    egshape.save(graph(), tmp_path / "m.onnx")
    assert names(tmp_path) == ["m.onnx"]


def test_a_failure_leaves_the_old_model(tmp_path, monkeypatch) -> None:
    egshape.save(graph(), tmp_path / "m.onnx", external_data=True)
    before = names(tmp_path)

    def broken(array: np.ndarray) -> memoryview:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(weights, "packed", broken)
    with pytest.raises(EgshapeError, match="No space left"):
        egshape.save(graph(1), tmp_path / "m.onnx", external_data=True)
    monkeypatch.undo()
    assert names(tmp_path) == before
    np.testing.assert_array_equal(interpret(egshape.load(tmp_path / "m.onnx"), [X])[0], interpret(graph(), [X])[0])


def test_large_models_take_a_file_by_themselves(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(saving, "ROOM", 5000)
    egshape.save(graph(), tmp_path / "m.onnx")
    assert len(names(tmp_path)) == 2
    monkeypatch.setattr(weights, "LIMIT", 5000)
    with pytest.raises(Unsupported, match="a message holds") as caught:
        egshape.save(graph(), tmp_path / "n.onnx", external_data=False)
    assert "--external-data" in caught.value.hint


def test_weights_are_streamed(tmp_path) -> None:
    """Pieces are views of the arrays."""
    array = np.zeros(5000, np.float32)
    pieces = list(weights.SideFile({"w": array}).pieces())
    assert any(
        isinstance(piece, memoryview) and np.shares_memory(np.frombuffer(piece, np.uint8), array) for piece in pieces
    )


def test_moving_takes_the_weights_along(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    egshape.save(graph(), tmp_path / "a" / "m.onnx", external_data=True)
    egshape.save(graph(1), tmp_path / "m.onnx", external_data=True)
    saving.move(tmp_path / "a" / "m.onnx", tmp_path / "m.onnx")
    assert not names(tmp_path / "a") and len(names(tmp_path)) == 3
    np.testing.assert_array_equal(interpret(egshape.load(tmp_path / "m.onnx"), [X])[0], interpret(graph(), [X])[0])
