"""What a file declares is no fact, facts beside it choose branches, and old opsets are converted with their meaning."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="compared with ONNX Runtime")

import onnx
import onnxruntime as ort
from onnx import helper

import egshape
from egshape import api
from egshape.errors import CheckFailed, EgshapeError
from tests.frontends.onnx.roads import FLOAT, INT64, made

N = helper.make_node


def session(model: bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def shape(run: Callable[..., Any], *arguments: Any) -> tuple[int, ...] | None:
    """The shape of what a call gives, or of its only result; None where it is refused."""
    try:
        found = run(*arguments)
        return np.shape(found[0] if isinstance(found, list) else found)
    except Exception as error:  # the runtime's errors have no common class
        assert isinstance(error, EgshapeError) or "ONNXRuntimeError" in str(error)
        return None


@pytest.mark.parametrize(
    ("dims", "declared", "after"),
    [
        ([1, "n", 1], ["a", "b"], None),
        (["n", 3, 1], ["n", 3, 1], "Relu"),
        (["n", 3, 1, 1], ["n"], None),
        (["n", 1, 3], ["n", 3], None),  # right but for n == 1
        (["n", 3], [3], None),  # right for n == 1 only
        (["n", 1, 3], ["n", 3], "Softmax"),
    ],
    ids=str,
)
def test_a_wrong_rank_of_a_squeeze(
    dims: list[object], declared: list[object], after: str | None, tmp_path: Path
) -> None:
    nodes = (
        [N("Squeeze", ["x"], ["s"]), N(after or "Identity", ["s"], ["y"])] if after else [N("Squeeze", ["x"], ["y"])]
    )
    model = made(nodes, [("x", FLOAT, dims)], [("y", FLOAT, declared)], 17)
    if after:
        model.graph.value_info.append(helper.make_tensor_value_info("s", FLOAT, declared))
    graph = egshape.load(model.SerializeToString(), "onnx")
    egshape.save(egshape.optimize(graph), tmp_path / "o.onnx")
    function = egshape.compile(graph, "llvm")
    before, after_ = session(model.SerializeToString()), session((tmp_path / "o.onnx").read_bytes())
    for n in (1, 2, 5):
        x = np.zeros([n if size == "n" else size for size in dims], np.float32)
        wanted = before.run(None, {"x": x})[0].shape
        assert shape(api.run, graph, [x]) == shape(function, x) == wanted
        assert shape(after_.run, None, {"x": x}) == wanted


def test_where_a_stated_rank_holds_is_told() -> None:
    model = made([N("Squeeze", ["x"], ["y"])], [("x", FLOAT, ["n", 3])], [("y", FLOAT, [3])], 17)
    notes = egshape.load(model.SerializeToString(), "onnx").metadata["notes"]
    assert any("has the stated rank, 1, where n equals 1" in note for note in notes), notes


@pytest.mark.parametrize("fact", ["c == 1", "x.1 == 1", "c in [1,1]"])
def test_a_fact_chooses_the_branch(fact: str) -> None:
    """The branches of the If differ in rank, and what follows takes both."""

    def branch(node: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph([node], "b", [], [helper.make_tensor_value_info(node.output[0], FLOAT, None)])

    nodes = [
        N("Shape", ["x"], ["size"], start=1, end=2),
        N("Squeeze", ["size", "zero"], ["c"]),
        N("Equal", ["c", "one"], ["is_one"]),
        N(
            "If",
            ["is_one"],
            ["r"],
            then_branch=branch(N("Squeeze", ["x", "axes"], ["p"])),
            else_branch=branch(N("Identity", ["x"], ["q"])),
        ),
        N("Relu", ["r"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.array(1), "axes": np.array([1])}
    model = made(nodes, [("x", FLOAT, ["n", "c", "d"])], [("y", FLOAT, ["n", "d"])], 17, constants)
    function = egshape.compile(model, "llvm", assume=fact)
    assert function(np.ones((2, 1, 3), np.float32)).shape == (2, 3)
    with pytest.raises(CheckFailed):
        function(np.ones((2, 2, 3), np.float32))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_computed_targets_of_reshape(rank: int) -> None:
    model = made(
        [N("Reshape", ["x", "t"], ["y"])],
        [("x", FLOAT, ["n", "m"]), ("t", INT64, [rank])],
        [("y", FLOAT, list("abc")[:rank])],
        17,
    )
    graph = egshape.load(model.SerializeToString(), "onnx")
    function, before = egshape.compile(graph, "llvm"), session(model.SerializeToString())
    for size in ((0, 3), (2, 0), (2, 3), (1, 1)):
        x = np.zeros(size, np.float32)
        for target in itertools.product((-2, -1, 0, 1, 3), repeat=rank):
            t = np.array(target)
            wanted = shape(before.run, None, {"x": x, "t": t})
            assert shape(function, x, t) == wanted, (size, target)
            if rank < 3:
                assert shape(api.run, graph, [x, t]) == wanted, (size, target)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_softmax_of_old_opsets(op: str, axis: int, tmp_path: Path) -> None:
    model = made([N(op, ["x"], ["y"], axis=axis)], [("x", FLOAT, ["n", "t", 4])], [("y", FLOAT, ["n", "t", 4])], 11)
    egshape.save(egshape.load(model.SerializeToString(), "onnx"), tmp_path / "o.onnx", opset=17)
    before, after = session(model.SerializeToString()), session((tmp_path / "o.onnx").read_bytes())
    rng = np.random.default_rng(axis)
    for size in ((2, 3, 4), (2, 0, 4), (0, 3, 4), (0, 0, 4)):
        x = rng.standard_normal(size).astype(np.float32)
        one, two = (each.run(None, {"x": x})[0] for each in (before, after))
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize(
    ("node", "opset", "dims", "constants"),
    [
        (N("Upsample", ["x", "s"], ["y"], mode="linear"), 9, [1, 1, "h", "w"], {"s": [1, 1, 2, 1.5]}),
        (N("Upsample", ["x", "s"], ["y"]), 9, [1, 1, "h", "w"], {"s": [1, 1, 1.3, 2.7]}),
        (N("Resize", ["x", "s"], ["y"]), 10, [1, 1, "h", "w"], {"s": [1, 1, 0.6, 0.3]}),
        (N("Resize", ["x", "s"], ["y"], mode="linear"), 10, [1, 1, "h", "w"], {"s": [1, 1, 0.6, 2]}),
        (N("Split", ["x"], ["y", "z"], axis=1), 11, ["h", "w"], {}),
        (N("Split", ["x"], ["y", "z"], axis=-1), 13, ["h", "w"], {}),
    ],
    ids=str,
)
def test_ops_of_old_opsets(
    node: onnx.NodeProto, opset: int, dims: list[object], constants: dict[str, list[float]], tmp_path: Path
) -> None:
    held = {name: np.array(each, np.float32) for name, each in constants.items()}
    model = made([node], [("x", FLOAT, dims)], [(name, FLOAT, None) for name in node.output], opset, held)
    graph = egshape.load(model.SerializeToString(), "onnx")
    egshape.save(graph, tmp_path / "o.onnx", opset=18)
    before, after = session(model.SerializeToString()), session((tmp_path / "o.onnx").read_bytes())
    rng = np.random.default_rng(0)
    for h, w in itertools.product((2, 3, 5), repeat=2):
        x = rng.standard_normal([{"h": h, "w": w}.get(size, size) for size in dims]).astype(np.float32)
        wanted = shape(before.run, None, {"x": x})
        assert shape(after.run, None, {"x": x}) == wanted, (h, w)
        if wanted is not None:
            for found in (after.run(None, {"x": x}), list(map(np.asarray, api.run(graph, [x])))):
                for one, two in zip(before.run(None, {"x": x}), found, strict=True):
                    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("node", "opset", "constants"),
    [
        (N("Resize", ["x", "s"], ["y"]), 10, {"s": np.array([1, 1, 0.5, 2], np.float32)}),
        (N("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=1), 18, {"s": np.ones(1, np.float32)}),
    ],
    ids=["either side", "groups"],
)
def test_what_has_no_form_at_another_opset_is_refused(
    node: onnx.NodeProto, opset: int, constants: dict[str, np.ndarray], tmp_path: Path
) -> None:
    model = made([node], [("x", FLOAT, [1, 2, "h", "w"])], [("y", FLOAT, None)], opset, constants)
    with pytest.raises(EgshapeError, match="cannot go to opset 21"):
        egshape.save(egshape.load(model.SerializeToString(), "onnx"), tmp_path / "o.onnx", opset=21)


def test_labels_of_classes(tmp_path: Path) -> None:
    labels = helper.make_tensor("labels", onnx.TensorProto.STRING, [3], [b"red", b"green", b"blue"])
    nodes = [N("ArgMax", ["x"], ["i"], axis=1, keepdims=0), N("Gather", ["labels", "i"], ["y"])]
    model = made(nodes, [("x", FLOAT, ["n", 3])], [("y", onnx.TensorProto.STRING, ["n"])], 17)
    model.graph.initializer.append(labels)
    result = egshape.optimize(egshape.load(model.SerializeToString(), "onnx"))
    assert result.report.status != "fallback" and not any("Constant" in note for note in result.report.notes)
    egshape.save(result, tmp_path / "o.onnx")
    x = np.eye(3, dtype=np.float32)[[2, 0]]
    for found in (egshape.compile(result)(x), session((tmp_path / "o.onnx").read_bytes()).run(None, {"x": x})[0]):
        assert found.tolist() == ["blue", "red"]
