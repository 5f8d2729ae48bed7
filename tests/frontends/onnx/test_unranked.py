"""Tensors for which a model states no shape: their ranks from uses, from what is said of them, and what stays open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import onnx
from typer.testing import CliRunner

import egshape
from egshape.cli import app
from egshape.errors import EgshapeError
from egshape.frontends.frontend import Rank
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret


def model_of(body: str, inputs: str = "float[n] x", functions: str = "", unranked: str = "x") -> onnx.ModelProto:
    """A model with the output y, which, as some inputs, has no shape."""
    text = f'<ir_version: 8, opset_import: ["": 17, "my": 1]> g ({inputs}) => (float[n] y) {{ {body} }} {functions}'
    model = onnx.parser.parse_model(text)
    for info in (*model.graph.input, *model.graph.output):
        if info.name in (*unranked.split(), "y"):
            info.type.tensor_type.ClearField("shape")
    return model


def ranks(graph: Graph) -> str:
    """The ranks of the inputs and outputs; * for one that is not known."""
    types = [value.type for value in (*graph.inputs, *graph.outputs)]
    return " ".join("*" if type.shape is None else str(len(type.shape)) for type in types)


W = "float[n] x, float[2,3,4] w"
SUM = '<domain: "my", opset_import: ["": 17]> f <p> (a) => (c) { t = Transpose <perm: ints = @p> (a) c = Tanh(t) }'


@pytest.mark.parametrize(
    ("body", "inputs", "wanted"),
    [
        ("y = Transpose <perm = [2, 0, 1]> (x)", "float[n] x", "3 3"),
        ("a = Tanh(x) b = Relu(a) y = Transpose <perm = [1, 0]> (b)", "float[n] x", "2 2"),
        ("y = Concat <axis = 0> (x, w)", W, "3 3 3"),
        ("y = Conv <kernel_shape = [1]> (x, w)", W, "3 3 3"),
        ("y = Gemm(x, x)", "float[n] x", "2 2"),
        ("b = Flatten(x) y = Tanh(b)", "float[n] x", "* 2"),
        ("s = Constant <value = int64[2] {1, 1}> () a = Tile(x, s) y = Tanh(a)", "float[n] x", "2 2"),
        ("p = Constant <value = int64[4] {1, 1, 0, 0}> () y = Pad(x, p)", "float[n] x", "2 2"),
        ("a = Constant <value = int64[1] {0}> () b = Unsqueeze(x, a) y = Concat <axis = 0> (b, w)", W, "2 3 3"),
        ("a = Constant <value = int64[2] {0, 1}> () b = Squeeze(x, a) y = Add(b, b) z = Gemm(b, b)",
         "float[n] x", "* *"),
        ("a = ReduceMax <axes = [0], keepdims = 0> (x) y = Transpose <perm = [0, 1]> (a)", "float[n] x", "3 2"),
        ("y = ReduceMax <keepdims = 0> (x)", "float[n] x", "* 0"),
        ("i = Constant <value = int64[2] {0, 0}> () a = Gather(x, i) y = Transpose <perm = [0, 1]> (a)",
         "float[n] x", "2 2"),
        ("y = Einsum <equation = \"ij,jk->ik\"> (x, x)", "float[n] x", "2 2"),
        ("y, h = LSTM <hidden_size = 1> (x, w, r)", "float[n] x, float[1,4,2] w, float[1,4,1] r", "3 3 3 4"),
        ("y = my.f <p = [1, 0]> (x)", "float[n] x", "2 2"),
        # broadcasting tells the rank of the widest only
        ("y = Add(x, w)", W, "* 3 *"),
        ("a = Add(x, x) y = Transpose <perm = [1, 0]> (a)", "float[n] x", "2 2"),
        ("a = Add(x, w) y = Reshape(x, s)", f"{W}, int64[4] s", "* 3 1 4"),
        # what may not run tells nothing
        ("a = Transpose <perm = [1, 0]> (x) y = Tanh(x)", "float[n] x", "* *"),
        ("c = Constant <value = bool {1}> () y = If(c) <then_branch = t () => (float[n] p)"
         " { p = Transpose <perm = [1, 0]> (x) }, else_branch = e () => (float[n] q) { q = Tanh(x) }>",
         "float[n] x", "* *"),
    ],
)  # fmt: skip
def test_ranks_from_uses(body: str, inputs: str, wanted: str) -> None:
    assert ranks(egshape.load(model_of(body, inputs, SUM if "my.f" in body else ""))) == wanted


def test_a_rank_is_taken_as_it_is_said() -> None:
    model = model_of("y = Softmax(x)")
    (note,) = egshape.load(model).metadata["notes"]
    assert note == (
        "the rank of x is not known from its uses, and what reads it runs in Python: "
        'say it, as --annotate "x: f32[?, ?]"'
    )
    graph = egshape.load(model, forms={"x": Rank(2)})
    assert ranks(graph) == "2 2" and not graph.metadata["notes"]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(interpret(graph, [x])[0], np.full((2, 3), 1 / 3), rtol=1e-6)
    with pytest.raises(EgshapeError, match="x"):
        interpret(graph, [np.ones((2, 3, 4), np.float32)])


def test_ranks_that_cannot_be_true_together_tell_nothing() -> None:
    model = model_of("a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [0, 1, 2]> (x) y = Concat<axis=0>(a, b)")
    assert ranks(egshape.load(model)) == "* *"


def test_a_value_inside(tmp_path: Path) -> None:
    """An op that ONNX does not know gives a tensor of any rank; its user tells it."""
    model = model_of("a = my.what(x) y = Transpose <perm = [1, 0, 2]> (a)", unranked="x")
    assert ranks(egshape.load(model)) == "* 3"
    open_ = model_of("a = my.what(w) y = Tanh(a)", W, unranked="")
    graph = egshape.load(open_)
    assert any(note.startswith("the rank of %a (what:a) is not known") for note in graph.metadata["notes"])
    assert ranks(egshape.load(open_, forms={"%a": Rank(4)})) == "1 3 4"


def test_the_command_takes_annotations(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model_of("y = Softmax(x)"), path)
    run = CliRunner().invoke(app, ["shapes", str(path), "--annotate", "x: f32[n, 4]"])
    assert run.exit_code == 0 and "f32[n, 4]" in run.stdout, run.output
    wrong = CliRunner().invoke(app, ["shapes", str(path), "--annotate", "x: f32[n, 4]", "--annotate", "y: f32[n]"])
    assert "of rank 2, where f32[n] is said of it" in str(wrong.exception)


def test_the_model_that_is_written_states_the_ranks(tmp_path: Path) -> None:
    result = egshape.optimize(model_of("a = Identity(x) y = Transpose <perm = [1, 0]> (a)"))
    egshape.save(result, tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(written, full_check=True)
    assert [len(info.type.tensor_type.shape.dim) for info in written.graph.input] == [2]
