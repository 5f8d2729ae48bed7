"""Text on every road: it is moved and handed to host calls; and calls that draw numbers stay apart."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

from onnx import helper

import egshape
from egshape.adapters.native import compile_function
from egshape.errors import EgshapeError
from tests.frontends.onnx.roads import BOOL, FLOAT, INT64, STRING, check, made

N = helper.make_node
WORDS = np.array(["ab", "", "ünï", "ab"], object)


@pytest.mark.parametrize(
    ("node", "kind", "rank"),
    [
        (N("StringConcat", ["x", "end"], ["y"]), STRING, 1),
        (N("RegexFullMatch", ["x"], ["y"], pattern="a.*"), BOOL, 1),
        (N("StringNormalizer", ["x"], ["y"], case_change_action="UPPER"), STRING, 1),
        (N("Equal", ["x", "end"], ["y"]), BOOL, 1),
        (N("Reshape", ["x", "shape"], ["y"]), STRING, 2),
        (N("Gather", ["x", "places"], ["y"]), STRING, 1),
    ],
    ids=lambda part: getattr(part, "op_type", None),
)
def test_ops(node, kind: int, rank: int, tmp_path) -> None:
    constants = {"end": np.array(["ab"], object), "shape": np.array([2, 2]), "places": np.array([3, 0])}
    model = made(
        [node],
        [("x", STRING, ["n"])],
        [("y", kind, [None] * rank)],
        20,
        {name: array for name, array in constants.items() if name in node.input},
    )
    check(model, {"x": WORDS}, tmp_path)


def test_several_results_and_numbers_between(tmp_path) -> None:
    nodes = [
        N("StringSplit", ["x"], ["parts", "count"], delimiter=" "),
        N("Cast", ["count"], ["f"], to=FLOAT),
        N("Mul", ["f", "f"], ["y"]),
    ]
    model = made(nodes, [("x", STRING, ["n"])], [("parts", STRING, ["n", None]), ("y", FLOAT, ["n"])], 20)
    check(model, {"x": np.array(["a b", "c", "d e f"], object)}, tmp_path)
    graph = egshape.load(model.SerializeToString(), "onnx")
    function = egshape.compile(graph, "llvm", optimize=False)
    assert function(np.array(["p q"]))[0].tolist() == [["p", "q"]]  # numpy's own texts too
    for each in (function, pickle.loads(pickle.dumps(function)), copy.deepcopy(function)):
        assert each(x=np.array(["p q"]))[0].tolist() == [["p", "q"]]
        assert "inputs:  x: text[n]" in repr(each) and "outputs: parts: text[n, " in repr(each)
        with pytest.raises(EgshapeError, match=r"there is no input 'z' \(inputs are x: text\[n\]\)"):
            each(z=1)
    with pytest.raises(EgshapeError, match="input 'x' is text"):
        function(np.zeros(2))
    with pytest.raises(EgshapeError, match="no artifact holds"):
        function.save("never.egx")
    with pytest.raises(EgshapeError, match="no file holds"):
        compile_function(graph)


def test_branches_hand_text_on(tmp_path) -> None:
    def branch(name: str, suffix: str):
        held = N("Constant", [], [f"{name}c"], value_string=suffix)
        info = helper.make_tensor_value_info(name, STRING, ["n"])
        return helper.make_graph([held, N("StringConcat", ["x", f"{name}c"], [name])], name, [], [info])

    nodes = [N("If", ["c"], ["y"], then_branch=branch("a", "!"), else_branch=branch("b", "?"))]
    model = made(nodes, [("x", STRING, ["n"]), ("c", BOOL, [])], [("y", STRING, ["n"])], 20)
    for condition in (True, False):
        check(model, {"x": WORDS, "c": np.array(condition)}, tmp_path)


def test_random_numbers_are_drawn_for_each_node() -> None:
    nodes = [N("RandomNormalLike", ["x"], ["a"]), N("RandomNormalLike", ["x"], ["b"]), N("Equal", ["a", "b"], ["y"])]
    model = made(nodes, [("x", FLOAT, ["n"])], [("y", BOOL, ["n"])], 20)
    graph = egshape.optimize(egshape.load(model.SerializeToString(), "onnx"), validate=False).graph
    assert not egshape.compile(graph, "interpret", optimize=False)(np.zeros(50, np.float32)).any()


def test_shapes_are_known() -> None:
    model = made(
        [N("StringConcat", ["x", "x"], ["t"]), N("Size", ["t"], ["y"])], [("x", STRING, ["n"])], [("y", INT64, [])], 20
    )
    graph = egshape.optimize(egshape.load(model.SerializeToString(), "onnx")).graph
    assert int(egshape.compile(graph, "interpret", optimize=False)(WORDS)) == 4
