"""Indices beyond their axis are rejected, as ONNX rejects them; negative ones count from the end."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

from onnx import helper

import egshape
from egshape.errors import CheckFailed, EgshapeError
from tests.frontends.onnx.roads import FLOAT, INT64, check, made

X = np.arange(12, dtype=np.float32).reshape(3, 4)
OPS = {
    "Gather": (["x", "i"], (["n", 4], [None, 4]), np.array([2, 0, -3])),
    "GatherElements": (["x", "i"], (["n", 4], [None, 4]), np.array([[0, 1, 2, -3], [-1, 0, 2, 1]])),
    "GatherND": (["x", "i"], (["n", 4], [None]), np.array([[0, 1], [-1, -4]])),
    "ScatterElements": (["x", "i", "u"], (["n", 4], ["n", 4]), np.array([[0, 1], [-3, 2], [1, 0]])),
    "ScatterND": (["x", "i", "u"], (["n", 4], ["n", 4]), np.array([[0, 1], [-1, -4]])),
}


def model(op: str):
    names, (shape, result), _ = OPS[op]
    rows = [None] if op == "Gather" else [None, 4 if op == "GatherElements" else 2]
    inputs = [("x", FLOAT, shape), ("i", INT64, rows), ("u", FLOAT, [None, 2] if op == "ScatterElements" else [None])]
    return made([helper.make_node(op, names, ["y"])], inputs[: len(names)], [("y", FLOAT, result)], 18)


def feeds(op: str, places: np.ndarray) -> dict[str, np.ndarray]:
    held = {"x": X, "i": places}
    if op.startswith("Scatter"):
        held["u"] = np.full(places.shape if op == "ScatterElements" else places.shape[:1], 7, np.float32)
    return held


@pytest.mark.parametrize("op", OPS)
def test_places_on_the_axis(op: str, tmp_path) -> None:
    places = OPS[op][2]
    check(model(op), feeds(op, places), tmp_path, host=False)
    check(model(op), feeds(op, places[:0]), tmp_path, host=False)


@pytest.mark.parametrize("op", OPS)
def test_no_places_on_an_axis_without_elements(op: str, tmp_path) -> None:
    """No index is out of range then; one is."""
    made_ = model(op)
    held = feeds(op, OPS[op][2][:0])
    held["x"] = X[:0]
    check(made_, held, tmp_path, host=False)
    one = {**feeds(op, OPS[op][2][:1] * 0), "x": X[:0]}
    graph = egshape.optimize(egshape.load(made_.SerializeToString(), "onnx")).graph
    for target in ("interpret", "llvm"):
        with pytest.raises(CheckFailed, match=f"an index of {op} lies outside"):
            egshape.compile(graph, target, optimize=False)(*one.values())


@pytest.mark.parametrize("op", OPS)
def test_as_stablehlo(op: str, tmp_path) -> None:
    """XLA knows no assertion on data and runs the program without; egshape reads it back with its check."""
    from egshape.adapters.xla import run_stablehlo

    path = tmp_path / "m.mlir"
    egshape.save(egshape.optimize(egshape.load(model(op).SerializeToString(), "onnx")).graph, path)
    places = np.concatenate([OPS[op][2]] * 40)  # more than the few integers that XLA's compiler is given as constants
    if op.startswith("Scatter"):
        places = places[:1]
    held = feeds(op, places)
    again = egshape.load(path)
    wanted = egshape.compile(again, "interpret", optimize=False)(*held.values())
    np.testing.assert_array_equal(run_stablehlo(path.read_text(), list(held.values()))[0], wanted)
    with pytest.raises(CheckFailed, match=f"an index of {op} lies outside"):
        egshape.compile(again, "interpret", optimize=False)(*feeds(op, places + 7).values())


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("place", [5, -5, 2**40])
def test_places_beyond_it(op: str, place: int) -> None:
    wrong = OPS[op][2].copy()
    wrong.reshape(-1)[1] = place
    graph = egshape.optimize(egshape.load(model(op).SerializeToString(), "onnx")).graph
    for target in ("interpret", "llvm"):
        with pytest.raises(CheckFailed, match=f"an index of {op} lies outside of the axis of size") as caught:
            egshape.compile(graph, target, optimize=False)(*feeds(op, wrong).values())
        assert op in caught.value.where


def test_no_check_where_it_is_known() -> None:
    def checks(nodes, inputs, constants):
        graph = egshape.load(made(nodes, inputs, [("y", FLOAT, None)], 18, constants).SerializeToString(), "onnx")
        return sum(op.name == "check" for op in graph.body.walk())

    table = {"t": np.arange(80, dtype=np.float32).reshape(20, 4), "i": np.array([[3, -2], [0, 19]])}
    assert (
        checks(
            [helper.make_node("Gather", ["t", "i"], ["g"]), helper.make_node("Mul", ["g", "x"], ["y"])],
            [("x", FLOAT, [4])],
            table,
        )
        == 0
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Squeeze", ["s"], ["n"]),
        helper.make_node("Range", ["zero", "n", "one"], ["r"]),
        helper.make_node("Gather", ["x", "r"], ["y"]),
    ]
    assert checks(nodes, [("x", FLOAT, ["n"])], {"zero": np.array(0), "one": np.array(1)}) == 0
    wrong = {**table, "i": np.array([[3, 20], [0, 1]])}
    with pytest.raises(EgshapeError, match="reads place 20 of an axis of size 20"):
        checks([helper.make_node("Gather", ["t", "i"], ["y"])], [], wrong)


def test_the_model_that_is_written_has_the_op_alone(tmp_path) -> None:
    import onnx

    egshape.save(egshape.optimize(egshape.load(model("Gather").SerializeToString(), "onnx")).graph, tmp_path / "m.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node] == ["Gather"]


def test_a_slice_up_to_the_smaller_of_two_ends_needs_no_minimum(tmp_path) -> None:
    """Slice itself stops at the end of the axis."""
    import onnx

    nodes = [helper.make_node("Shape", ["m"], ["s"]), helper.make_node("Slice", ["x", "zero", "s", "zero"], ["y"])]
    made_ = made(nodes, [("x", FLOAT, ["n"]), ("m", FLOAT, ["k"])], [("y", FLOAT, [None])], 18, {"zero": np.array([0])})
    for n, k in ((5, 3), (3, 5), (0, 2), (2, 0), (1, 1)):
        check(made_, {"x": np.arange(n, dtype=np.float32), "m": np.zeros(k, np.float32)}, tmp_path, host=False)
    assert "Min" not in [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_of_an_axis_without_elements(mode: str) -> None:
    """Twice nothing is nothing; three elements cannot be made of it."""
    inputs = [("x", FLOAT, [1, 1, 2, "w"]), ("z", INT64, [4])]
    twice = made(
        [helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode)],
        inputs[:1],
        [("y", FLOAT, None)],
        18,
        {"s": np.array([1, 1, 1, 2], np.float32)},
    )
    given = made([helper.make_node("Resize", ["x", "", "", "z"], ["y"], mode=mode)], inputs, [("y", FLOAT, None)], 18)
    x = np.zeros((1, 1, 2, 0), np.float32)
    for target in ("interpret", "llvm"):
        graphs = [egshape.optimize(egshape.load(each.SerializeToString(), "onnx")).graph for each in (twice, given)]
        doubled, sized = (egshape.compile(graph, target, optimize=False) for graph in graphs)
        assert doubled(x).shape == sized(x, np.array([1, 1, 2, 0])).shape == x.shape
        with pytest.raises(CheckFailed, match="does not fit"):
            sized(x, np.array([1, 1, 2, 3]))
