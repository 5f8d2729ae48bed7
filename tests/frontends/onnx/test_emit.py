"""ONNX out: what comes in goes out smaller, computes the same in ONNX Runtime, and needs no more sizes than it must."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import egshape
from egshape.errors import EgshapeError

F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Node = onnx.NodeProto
SIZES = ({"b": 2, "s": 3}, {"b": 1, "s": 1}, {"b": 3, "s": 7}, {"b": 1, "s": 16})


def model(
    nodes: Sequence[Node],
    inputs: dict[str, tuple[int, list]],
    outputs: dict[str, int],
    held: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (held or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def n(op: str, inputs: str, outputs: str, **attributes: object) -> Node:
    names = [[name if name != "_" else "" for name in each.split()] for each in (inputs, outputs)]
    return helper.make_node(op, *names, **attributes)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def roundtrip(proto: onnx.ModelProto, folder: Path, opset: int | None = None) -> onnx.ModelProto:
    """Load, optimize, save; the model that was written is equal at all sizes, and the checker takes it."""
    result = egshape.optimize(egshape.load(proto.SerializeToString(), "onnx"))
    target = folder / "out.onnx"
    egshape.save(result.graph, target, opset=opset)
    written = onnx.load(target)
    onnx.checker.check_model(written, full_check=True)
    assert [each.name for each in written.graph.output] == [each.name for each in proto.graph.output]
    assert [each.name for each in written.graph.input] == [each.name for each in proto.graph.input]
    before, after = (ort.InferenceSession(each.SerializeToString()) for each in (proto, written))
    for number, sizes in enumerate(SIZES):
        feed = {info.name: array(info, sizes, np.random.default_rng(number)) for info in proto.graph.input}
        for one, two in zip(before.run(None, feed), after.run(None, feed), strict=True):
            assert one.dtype == two.dtype and one.shape == two.shape
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
    return written


def array(info: onnx.ValueInfoProto, sizes: dict[str, int], random: np.random.Generator) -> np.ndarray:
    shape = [sizes.get(each.dim_param, each.dim_value) for each in info.type.tensor_type.shape.dim]
    kind = info.type.tensor_type.elem_type
    if kind == F:
        return random.standard_normal(shape).astype(np.float32)
    return random.integers(0, 2, shape).astype(bool if kind == B else np.int64)


def kinds(proto: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in proto.graph.node)


HEADS = model(
    [
        n("Shape", "x", "d"),
        n("Gather", "d zero", "b_"),
        n("Gather", "d one", "s_"),
        n("Unsqueeze", "b_ ax", "b1"),
        n("Unsqueeze", "s_ ax", "s1"),
        n("Concat", "b1 s1 four two", "t", axis=0),
        n("Reshape", "x t", "h"),
        n("Transpose", "h", "y", perm=[0, 2, 1, 3]),
    ],
    {"x": (F, ["b", "s", 8])},
    {"y": F},
    {"zero": np.array(0), "one": np.array(1), "ax": ints(0), "four": ints(4), "two": ints(2)},
)

MASK = model(
    [
        n("Unsqueeze", "m one", "m1"),
        n("Unsqueeze", "m1 two", "m2"),
        n("Cast", "m2", "f", to=F),
        n("Sub", "c f", "g"),
        n("Mul", "g low", "k"),
        n("Shape", "x", "d"),
        n("Expand", "k d", "e"),
        n("Add", "x e", "y"),
    ],
    {"x": (F, ["b", 4, "s", "s"]), "m": (INT, ["b", "s"])},
    {"y": F},
    {"one": ints(1), "two": ints(2), "c": np.array(1, np.float32), "low": np.array(-100, np.float32)},
)

POSITIONS = model(
    [
        n("Shape", "x", "d"),
        n("Gather", "d one", "s_"),
        n("Range", "zero s_ one", "r"),
        n("Gather", "table r", "p"),
        n("Add", "x p", "y"),
    ],
    {"x": (F, ["b", "s", 8])},
    {"y": F},
    {"zero": np.array(0), "one": np.array(1), "table": np.random.default_rng(0).random((32, 8), np.float32)},
)

PARTS = model(
    [n("Split", "x _", "p q", axis=2), n("Mul", "p q", "m"), n("Slice", "m start end ax", "l"), n("Add", "m l", "y")],
    {"x": (F, ["b", "s", 8])},
    {"y": F},
    {"start": ints(-1), "end": ints(2**62), "ax": ints(1)},
    opset=13,
)
PARTS.graph.node[0].input[:] = ["x"]

PICKS = model(
    [n("Gather", "x zero", "y", axis=1), n("Gather", "x one", "z", axis=1)],
    {"x": (F, ["b", 2, "s"])},
    {"y": F, "z": F},
    {"zero": np.array(0), "one": np.array(-1)},
)

BACKWARDS = model(
    [n("Slice", "x start end ax step", "l"), n("Concat", "x l", "y", axis=1)],
    {"x": (F, ["b", "s", 4])},
    {"y": F},
    {"start": ints(-1), "end": ints(-(2**62)), "ax": ints(1), "step": ints(-1)},
)

WHOLE = model(
    [
        n("LayerNormalization", "x g b_", "l", axis=-1, epsilon=1e-5),
        n("Gemm", "q w c", "f", transB=1),
        n("Softmax", "l", "s_", axis=-1),
        n("Reshape", "s_ flat", "q"),
        n("Relu", "f", "y"),
    ],
    {"x": (F, ["b", "s", 8])},
    {"y": F},
    {
        "g": np.ones(8, np.float32),
        "b_": np.zeros(8, np.float32),
        "w": np.eye(4, 8, dtype=np.float32),
        "c": np.ones(4, np.float32),
        "flat": ints(-1, 8),
    },
)
WHOLE.graph.node.insert(1, WHOLE.graph.node.pop(3))
WHOLE.graph.node.insert(1, WHOLE.graph.node.pop(3))

BRANCH = model(
    [
        n("ReduceSum", "x", "t", keepdims=0),
        n("Greater", "t zero", "c"),
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            then_branch=helper.make_graph(
                [n("Shape", "x", "d1"), n("ConstantOfShape", "d1", "z1"), n("Add", "x z1", "a")],
                "then",
                [],
                [helper.make_tensor_value_info("a", F, ["b", "s"])],
            ),
            else_branch=helper.make_graph(
                [n("Neg", "x", "a2")], "else", [], [helper.make_tensor_value_info("a2", F, ["b", "s"])]
            ),
        ),
    ],
    {"x": (F, ["b", "s"])},
    {"y": F},
    {"zero": np.array(0, np.float32)},
)

INSIDE = model(
    [
        n("ReduceSum", "x", "t", keepdims=0),
        n("Greater", "t zero", "c"),
        n("Unsqueeze", "x one", "x1"),
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            then_branch=helper.make_graph(
                [
                    n("Mul", "x1 z", "p"),
                    n("Shape", "p", "d"),
                    n("Concat", "d four", "t4", axis=0),
                    n("ConstantOfShape", "t4", "o"),
                    n("Unsqueeze", "p two", "p1"),
                    n("Concat", "o p1", "a", axis=2),
                ],
                "then",
                [],
                [helper.make_tensor_value_info("a", F, ["b", "s", 5])],
            ),
            else_branch=helper.make_graph(
                [n("Expand", "z e", "a2")], "else", [], [helper.make_tensor_value_info("a2", F, ["b", "s", 5])]
            ),
        ),
    ],
    {"x": (F, ["b"]), "z": (F, ["s"]), "e": (INT, [3])},
    {"y": F},
    {"zero": np.array(-1e9, np.float32), "one": ints(1), "two": ints(2), "four": ints(4)},
)
"""Sizes that are known outside stand together in the shape of a tensor inside."""

SCORES = model(
    [
        n("Transpose", "k", "kt", perm=[0, 1, 3, 2]),
        n("MatMul", "q kt", "a"),
        n("Where", "c a low", "w"),
        n("Softmax", "w", "p", axis=-1),
        n("MatMul", "p k", "y"),
    ],
    {"q": (F, ["b", 2, "s", 4]), "k": (F, ["b", 2, "s", 4]), "c": (B, ["b", 1, 1, "s"])},
    {"y": F},
    {"low": np.array(-1e4, np.float32)},
)

ZERO_LEFT = model([n("Reshape", "x t", "y")], {"x": (F, ["b", "s", 8])}, {"y": F}, {"t": ints(0, -1)})

LOOP = model(
    [
        helper.make_node(
            "Loop",
            ["count", "", "x"],
            ["z", "rows"],
            body=helper.make_graph(
                [n("Add", "h h", "h2"), n("ReduceSum", "h2", "t", keepdims=0), n("Identity", "c", "c2")],
                "body",
                [
                    helper.make_tensor_value_info("i", INT, []),
                    helper.make_tensor_value_info("c", B, []),
                    helper.make_tensor_value_info("h", F, ["b", "s"]),
                ],
                [
                    helper.make_tensor_value_info("c2", B, []),
                    helper.make_tensor_value_info("h2", F, ["b", "s"]),
                    helper.make_tensor_value_info("t", F, []),
                ],
            ),
        ),
        n("ReduceSum", "rows", "r", keepdims=0),
        n("Add", "z r", "y"),
    ],
    {"x": (F, ["b", "s"])},
    {"y": F},
    {"count": np.array(3)},
)

SCAN = model(
    [
        helper.make_node(
            "Scan",
            ["zero", "x"],
            ["z", "y"],
            num_scan_inputs=1,
            body=helper.make_graph(
                [n("Add", "h e", "g"), n("Identity", "g", "f")],
                "body",
                [helper.make_tensor_value_info(name, F, []) for name in "he"],
                [helper.make_tensor_value_info(name, F, []) for name in "gf"],
            ),
        )
    ],
    {"x": (F, ["s"])},
    {"z": F, "y": F},
    {"zero": np.array(0, np.float32)},
    opset=9,
)
"""Run-time places before Slice takes them, in lines before there is Range."""

SIZES_OUT = model(
    [n("Shape", "x", "d"), n("Gather", "d zero", "b_"), n("Range", "zero b_ one", "r"), n("Expand", "c d", "y")],
    {"x": (F, ["b", "s"])},
    {"d": INT, "r": INT, "y": F, "b_": INT},
    {"zero": np.array(0), "one": np.array(1), "c": np.array(2, np.float32)},
)

CASES = {
    "heads": HEADS,
    "mask": MASK,
    "positions": POSITIONS,
    "parts": PARTS,
    "picks": PICKS,
    "backwards": BACKWARDS,
    "whole": WHOLE,
    "branch": BRANCH,
    "inside": INSIDE,
    "scores": SCORES,
    "zero and -1": ZERO_LEFT,
    "loop": LOOP,
    "scan": SCAN,
    "sizes out": SIZES_OUT,
}


@pytest.mark.parametrize("name", CASES)
def test_equal_and_valid(name: str, tmp_path: Path) -> None:
    roundtrip(CASES[name], tmp_path)


NEEDED: dict[str, tuple[str, Callable[[Counter[str]], bool]]] = {
    "heads": ("copied sizes and numbers need no shape code", lambda k: not k["Shape"] + k["Concat"] + k["Gather"]),
    "mask": ("Add broadcasts by itself", lambda k: not k["Expand"] + k["Shape"]),
    "positions": ("one size for the range", lambda k: k["Shape"] == 1 and not k["Expand"] + k["Concat"]),
    "parts": ("slices that tile an axis are one Split", lambda k: k["Split"] == 1 and k["Slice"] == 1),
    "picks": ("a place of an axis is one Gather", lambda k: k["Gather"] == 2 == k.total()),
    "whole": ("one op in, one op out", lambda k: k["LayerNormalization"] == k["Gemm"] == k["Softmax"] == 1),
    "scores": ("MatMul stays one", lambda k: k["MatMul"] == 2 and not k["Einsum"] + k["Expand"]),
}


@pytest.mark.parametrize("name", NEEDED)
def test_no_more_sizes_than_needed(name: str, tmp_path: Path) -> None:
    why, holds = NEEDED[name]
    found = kinds(roundtrip(CASES[name], tmp_path))
    assert holds(found), (why, dict(found))


@pytest.mark.parametrize("name", ["branch", "inside"])
def test_a_region_gives_its_results_itself(name: str, tmp_path: Path) -> None:
    (held,) = [node for node in roundtrip(CASES[name], tmp_path).graph.node if node.op_type == "If"]
    inside = [node for each in held.attribute for node in each.g.node]
    assert inside and all(node.op_type != "Identity" for node in inside)


def test_another_opset(tmp_path: Path) -> None:
    written = roundtrip(WHOLE, tmp_path, opset=20)
    assert written.opset_import[0].version == 20


def test_metadata_and_sizes_are_kept(tmp_path: Path) -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(HEADS)
    helper.set_model_props(proto, {"author": "me"})
    proto.doc_string = "attention"
    written = roundtrip(proto, tmp_path)
    held = {each.key: each.value for each in written.metadata_props}
    assert held["author"] == "me" and written.doc_string == "attention" and "egshape.facts" in held
    shape = [each.dim_param or each.dim_value for each in written.graph.output[0].type.tensor_type.shape.dim]
    assert shape == ["b", 4, "s", 2]


def test_equal_weights_are_shared_and_not_copied(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).random((8, 8), np.float32)
    proto = model(
        [n("MatMul", "x w", "h"), n("MatMul", "h v", "y")],
        {"x": (F, ["b", "s", 8])},
        {"y": F},
        {"w": weight, "v": weight},
    )
    written = roundtrip(proto, tmp_path)
    assert len(written.graph.initializer) == 1


def test_what_onnx_cannot_hold_is_refused(tmp_path: Path) -> None:
    text = """func.func @main(%arg0: tensor<?xi32>) -> tensor<?xi32> {
      %0 = stablehlo.shift_left %arg0, %arg0 : tensor<?xi32>
      return %0 : tensor<?xi32>
    }"""
    pytest.importorskip("jax")
    graph = egshape.load(text.encode(), "mlir")
    with pytest.raises(EgshapeError, match="no ONNX form"):
        egshape.save(graph, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_a_number_repeated_is_not_written_out(tmp_path: Path) -> None:
    """Elementwise ops broadcast it by themselves; else it is a node where it is large."""
    ends = ints(256, 256)
    proto = model(
        [
            n("Expand", "two ends", "twos"),
            n("Mul", "x twos", "y"),
            n("Expand", "two ends", "also"),
            n("Concat", "also x", "z", axis=0),
        ],
        {"x": (F, [256, 256])},
        {"y": F, "z": F},
        {"two": np.array(2, np.float32), "ends": ends},
    )
    written = roundtrip(proto, tmp_path)
    assert kinds(written) == {"Mul": 1, "ConstantOfShape": 1, "Concat": 1}
    assert sum(numpy_helper.to_array(each).nbytes for each in written.graph.initializer) <= 64


@pytest.mark.parametrize("repeated", [True, False])
def test_a_constant_that_repeats_a_number_is_read_as_it(tmp_path: Path, repeated: bool) -> None:
    """Also as the first operand; one that alone has the shape of the result stays."""
    wide = np.full((64, 64), 2, np.float32)
    wide[0, 0] = 2 if repeated else 3
    proto = model(
        [n("Sub", "c x", "y"), n("Mul", "s c", "z")],
        {"x": (F, [64, 64]), "s": (F, [1, 1])},
        {"y": F, "z": F},
        {"c": wide},
    )
    written = roundtrip(proto, tmp_path)
    assert kinds(written) == {"Sub": 1, "Mul": 1}
    sizes = sorted(numpy_helper.to_array(each).size for each in written.graph.initializer)
    assert sizes == ([1, 64 * 64] if repeated else [64 * 64])
