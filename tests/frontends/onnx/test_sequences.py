"""Sequences and optional values: tuples while a model is read, refused where only running tells how long they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import onnx
from onnx import helper

import egshape
from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.onnx import Backend, LlvmBackend
from tests.frontends.onnx.roads import BOOL, FLOAT, INT64, check, made, same

N = helper.make_node
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
HERE = ("x", FLOAT, ["n", 3, 4])
SEQUENCE = helper.make_tensor_sequence_value_info


def ints(**held: Any) -> dict[str, np.ndarray]:
    return {name: np.array(value, np.int64) for name, value in held.items()}


ROADS = {
    "split, at, concat": (
        [
            N("SplitToSequence", ["x"], ["s"], axis=1),
            N("SequenceAt", ["s", "last"], ["a"]),
            N("ConcatFromSequence", ["s"], ["c"], axis=1),
            N("Add", ["c", "a"], ["y"]),
        ],
        ints(last=-1),
    ),
    "parts of given sizes": (
        [N("SplitToSequence", ["x", "parts"], ["s"], axis=2), N("SequenceAt", ["s", "one"], ["y"])],
        ints(parts=[1, 3], one=1),
    ),
    "parts of one size": (
        [N("SplitToSequence", ["x", "two"], ["s"], axis=1), N("ConcatFromSequence", ["s"], ["y"], axis=1)],
        ints(two=2),
    ),
    "no axis kept": (
        [
            N("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0),
            N("ConcatFromSequence", ["s"], ["y"], axis=-1, new_axis=1),
        ],
        {},
    ),
    "construct, insert, erase": (
        [
            N("SequenceConstruct", ["x", "x"], ["s"]),
            N("Neg", ["x"], ["m"]),
            N("SequenceInsert", ["s", "m", "zero"], ["t"]),
            N("SequenceErase", ["t"], ["u"]),
            N("SequenceErase", ["u", "zero"], ["v"]),
            N("SequenceInsert", ["v", "m"], ["w"]),
            N("ConcatFromSequence", ["w"], ["y"], axis=0),
        ],
        ints(zero=0),
    ),
    "empty": (
        [
            N("SequenceEmpty", [], ["s"]),
            N("SequenceInsert", ["s", "x"], ["t"]),
            N("Identity", ["t"], ["u"]),
            N("SequenceLength", ["u"], ["n"]),
            N("Cast", ["n"], ["f"], to=FLOAT),
            N("Add", ["x", "f"], ["y"]),
        ],
        {},
    ),
}


def ours(model: onnx.ModelProto, *arrays: np.ndarray) -> np.ndarray:
    """The only result, interpreted and compiled alike; for models that the reference evaluator does not run."""
    graph = egshape.optimize(egshape.load(model.SerializeToString(), "onnx")).graph
    found = egshape.compile(graph, "interpret", optimize=False)(*arrays)
    same(np.asarray(egshape.compile(graph, "llvm", optimize=False)(*arrays)), np.asarray(found))
    return np.asarray(found)


@pytest.mark.parametrize("name", ROADS)
def test_sequences_are_tuples(name: str, tmp_path) -> None:
    nodes, constants = ROADS[name]
    model = made(nodes, [HERE], [("y", FLOAT, [None] * 3)], 18, constants)
    check(model, {"x": X}, tmp_path, host=False)


def test_a_place_that_only_running_tells(tmp_path) -> None:
    model = made(
        [N("SequenceConstruct", ["x", "m"], ["s"]), N("SequenceAt", ["s", "i"], ["y"])],
        [("x", FLOAT, ["n"]), ("m", FLOAT, ["n"]), ("i", INT64, [])],
        [("y", FLOAT, ["n"])],
        18,
    )
    for place in (0, 1, -1):
        check(model, {"x": X[0, 0], "m": X[1, 1], "i": np.array(place)}, tmp_path, host=False)


def test_map() -> None:
    body = helper.make_graph(
        [N("Mul", ["e", "t"], ["o"])],
        "b",
        [helper.make_tensor_value_info("e", FLOAT, None), helper.make_tensor_value_info("t", FLOAT, None)],
        [helper.make_tensor_value_info("o", FLOAT, None)],
    )
    model = made(
        [
            N("SplitToSequence", ["x"], ["s"], axis=1),
            N("SequenceMap", ["s", "k"], ["m"], body=body),
            N("ConcatFromSequence", ["m"], ["y"], axis=1),
        ],
        [HERE, ("k", FLOAT, [1])],
        [("y", FLOAT, [None] * 3)],
        18,
    )
    same(ours(model, X, np.array([2], np.float32)), X * 2)


def test_optional_values() -> None:
    nodes = [
        N("Optional", ["x"], ["o"]),
        N("OptionalHasElement", ["o"], ["h"]),
        N("OptionalGetElement", ["o"], ["g"]),
        N("Cast", ["h"], ["f"], to=FLOAT),
        N("Add", ["g", "f"], ["y"]),
    ]
    same(ours(made(nodes, [HERE], [("y", FLOAT, [None] * 3)], 18), X), X + 1)


def test_a_loop_of_known_length_is_written_out() -> None:
    body = helper.make_graph(
        [
            N("Identity", ["go"], ["on"]),
            N("Cast", ["i"], ["f"], to=FLOAT),
            N("Add", ["x", "f"], ["v"]),
            N("SequenceInsert", ["old", "v"], ["new"]),
        ],
        "b",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("go", BOOL, []),
            SEQUENCE("old", FLOAT, None),
        ],
        [helper.make_tensor_value_info("on", BOOL, []), SEQUENCE("new", FLOAT, None)],
    )
    nodes = [
        N("SequenceEmpty", [], ["none"]),
        N("Loop", ["three", "", "none"], ["all"], body=body),
        N("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    model = made(nodes, [("x", FLOAT, ["n"])], [("y", FLOAT, [None])], 18, ints(three=3))
    same(ours(model, X[0, 0]), np.concatenate([X[0, 0], X[0, 0] + 1, X[0, 0] + 2]))


def test_branches_give_sequences(tmp_path) -> None:
    def branch(name: str, op: str) -> Any:
        nodes = [N(op, ["x"], [f"{name}v"]), N("SequenceConstruct", ["x", f"{name}v"], [name])]
        return helper.make_graph(nodes, name, [], [SEQUENCE(name, FLOAT, None)])

    nodes = [
        N("If", ["c"], ["s"], then_branch=branch("a", "Neg"), else_branch=branch("b", "Abs")),
        N("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    model = made(nodes, [("x", FLOAT, ["n"]), ("c", BOOL, [])], [("y", FLOAT, [None])], 18)
    for condition in (True, False):
        check(model, {"x": X[0, 0], "c": np.array(condition)}, tmp_path, host=False)


def test_inputs_and_outputs(tmp_path) -> None:
    model = made(
        [N("SequenceInsert", ["s", "x"], ["t"])],
        [SEQUENCE("s", FLOAT, ["k"]), ("x", FLOAT, ["n"])],
        [SEQUENCE("t", FLOAT, None)],
        18,
    )
    with pytest.raises(Unsupported, match="is a sequence, and nothing says how long it is") as caught:
        egshape.load(model.SerializeToString(), "onnx")
    assert "forms={'s': its length}" in caught.value.hint
    graph = egshape.optimize(egshape.load(model.SerializeToString(), "onnx", forms={"s": 2})).graph
    assert [value.name for value in graph.inputs] == ["s[0]", "s[1]", "x"]
    assert graph.output_names == ("t[0]", "t[1]", "t[2]")
    egshape.save(graph, tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(written)
    assert written.graph.output[0].name == "t" and written.graph.output[0].type.HasField("sequence_type")
    rows = [X[0, 0], X[0, 1, :2]]
    for backend in (Backend, LlvmBackend):
        prepared = backend.prepare(model)
        for given in (rows, rows[:1], []):
            (found,) = prepared.run([given, X[1, 0]])
            assert [each.tolist() for each in found] == [each.tolist() for each in (*given, X[1, 0])]


def test_optional_inputs() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, ["n"]))
    model = made([N("OptionalHasElement", ["o"], ["y"])], [helper.make_value_info("o", kind)], [("y", BOOL, [])], 18)
    with pytest.raises(Unsupported, match="nothing says whether it is there"):
        egshape.load(model.SerializeToString(), "onnx")
    prepared = LlvmBackend.prepare(model)
    assert prepared.run([X[0, 0]])[0] and not prepared.run([None])[0]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [N("SplitToSequence", ["x"], ["s"]), N("ConcatFromSequence", ["s"], ["y"], axis=0)],
            "SplitToSequence makes a sequence whose length only running tells: an axis of size n",
        ),
        (
            [N("SequenceConstruct", ["x"], ["s"]), N("Neg", ["s"], ["y"])],
            "Neg takes a sequence where it wants a tensor",
        ),
        ([N("SequenceConstruct", ["x"], ["s"]), N("SequenceAt", ["s", "far"], ["y"])], "names place"),
        (
            [
                N("SequenceEmpty", [], ["s"]),
                N("SequenceErase", ["s"], ["t"]),
                N("ConcatFromSequence", ["t"], ["y"], axis=0),
            ],
            "out of an empty sequence",
        ),
    ],
)
def test_refusals_name_the_op(nodes: list[Any], message: str) -> None:
    model = made(nodes, [HERE], [("y", FLOAT, None)], 18, ints(far=4))
    with pytest.raises(EgshapeError) as caught:
        egshape.load(model.SerializeToString(), "onnx")
    assert message in caught.value.message and caught.value.where
