"""Files that are damaged, or made to hurt: one clear error, bounded time and memory, no read outside of the folder."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError, InternalError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tests.frontends.onnx.bounds import bounded  # noqa: E402

F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741


def model(
    nodes: Sequence[onnx.NodeProto],
    *,
    inputs: Sequence[onnx.ValueInfoProto] | None = None,
    initializers: Sequence[onnx.TensorProto] = (),
    outputs: Sequence[str] = ("y",),
    functions: Sequence[onnx.FunctionProto] = (),
    opset: int = 17,
) -> onnx.ModelProto:
    """A model whose input is x: f32[n, 4], unless others are given."""
    inputs = [helper.make_tensor_value_info("x", F, ["n", 4])] if inputs is None else inputs
    infos = [helper.make_tensor_value_info(name, F, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, infos, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions)


def ints(name: str, *values: int) -> onnx.TensorProto:
    """An initializer that is a vector of i64."""
    return numpy_helper.from_array(np.array(values, np.int64), name)


def number(name: str, value: int) -> onnx.TensorProto:
    """An initializer that is one i64."""
    return numpy_helper.from_array(np.array(value, np.int64), name)


node = helper.make_node


def refused(content: bytes | onnx.ModelProto, folder: Path) -> str:
    """The message of the error that loading, or else optimizing, a file ends with."""
    path = folder / "m.onnx"
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    with bounded(), pytest.raises(EgshapeError) as raised:
        egshape.optimize(egshape.load(path))
    assert not isinstance(raised.value, InternalError), str(raised.value)
    assert raised.value.exit_code == 2, raised.value.code
    text = str(raised.value)
    assert "Traceback" not in text and len(text) < 1000, text
    return text


def survives(content: onnx.ModelProto, folder: Path) -> None:
    """Loading and optimizing end in time and memory: with a result, or with an error that is no fault of ours."""
    path = folder / "m.onnx"
    path.write_bytes(content.SerializeToString())
    with bounded():
        try:
            egshape.optimize(egshape.load(path))
        except EgshapeError as error:
            assert not isinstance(error, InternalError), str(error)
            assert len(str(error)) < 1000, str(error)


GOOD = model(
    [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])],
    initializers=[numpy_helper.from_array(np.ones((4, 600), np.float32), "w")],
)


# -- damaged -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 64,
        b"hello, this is text\n" * 10,
        b"PK\x03\x04" + b"\x00" * 64,
        b"\x3a\xff\xff\xff\xff\x0f",
        b"\xff" * 64,
    ],
    ids=repr,
)
def test_no_model(content: bytes, tmp_path: Path) -> None:
    assert "m.onnx" in refused(content, tmp_path)


def test_truncated(tmp_path: Path) -> None:
    whole = GOOD.SerializeToString()
    for end in sorted({0, 1, 2, 3, *range(5, len(whole) - 1, len(whole) // 40)}):
        refused(whole[:end], tmp_path)


def test_noise(tmp_path: Path) -> None:
    """Bytes of a model overwritten at random: it loads, or one error says why not."""
    whole, path = bytearray(GOOD.SerializeToString()), tmp_path / "m.onnx"
    for seed in range(150):
        rng, noisy = random.Random(seed), bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            noisy[rng.randrange(400)] = rng.randrange(256)
        path.write_bytes(noisy)
        with bounded():
            try:
                egshape.load(path)
            except EgshapeError as error:
                assert not isinstance(error, InternalError), f"seed {seed}: {error}"


# -- graphs that cannot be -----------------------------------------------------------------------------------------


WRONG: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "cycle of two": (
        lambda: model([node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Relu", ["b"], ["y"])]),
        "circle",
    ),
    "cycle of one": (lambda: model([node("Add", ["x", "y"], ["y"])]), "circle"),
    "nothing defines it": (lambda: model([node("Add", ["x", "nowhere"], ["y"])]), "nowhere"),
    "no such output": (lambda: model([node("Neg", ["x"], ["z"])]), "'y'"),
    "two nodes, one name": (lambda: model([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])]), "twice"),
    "a node takes an input's name": (lambda: model([node("Neg", ["x"], ["x"]), node("Neg", ["x"], ["y"])]), "twice"),
    "two inputs, one name": (
        lambda: model([node("Neg", ["x"], ["y"])], inputs=[helper.make_tensor_value_info("x", F, [2])] * 2),
        "'x'",
    ),
    "two initializers, one name": (
        lambda: model([node("Add", ["x", "w"], ["y"])], initializers=[ints("w", 1), ints("w", 2)]),
        "'w'",
    ),
    "unknown domain": (lambda: model([node("Neg", ["x"], ["y"], domain="no.such")]), "no.such"),
    "too few operands": (lambda: model([node("Add", ["x"], ["y"])]), "Add|operand|input"),
    "too many operands": (lambda: model([node("Neg", ["x", "x", "x"], ["y"])]), "Neg|operand|input"),
    "attribute of another kind": (lambda: model([node("Transpose", ["x"], ["y"], perm="up")]), "perm"),
    "permutation out of range": (lambda: model([node("Transpose", ["x"], ["y"], perm=[0, 7])]), "perm|7"),
    "axis out of range": (lambda: model([node("Concat", ["x", "x"], ["y"], axis=9)]), "ax"),
    "element type": (
        lambda: model([node("Neg", ["x"], ["y"])], inputs=[helper.make_tensor_value_info("x", 99, [2])]),
        "99|type",
    ),
    "input size": (
        lambda: model([node("Neg", ["x"], ["y"])], inputs=[helper.make_tensor_value_info("x", F, [2**62])]),
        str(2**62),
    ),
    "opset from the future": (lambda: model([node("Neg", ["x"], ["y"])], opset=10**6), "opset"),
    "opset 0": (lambda: model([node("Neg", ["x"], ["y"])], opset=0), "opset"),
    "negative opset": (lambda: model([node("Neg", ["x"], ["y"])], opset=-3), "opset"),
    "negative weight size": (
        lambda: model(
            [node("Add", ["x", "w"], ["y"])], initializers=[TensorProto(name="w", data_type=F, dims=[-4], raw_data=b"")]
        ),
        "-4",
    ),
    "reshape to a negative size": (
        lambda: model([node("Reshape", ["x", "s"], ["y"])], initializers=[ints("s", -7, 2)]),
        "-7",
    ),
    "reshape of two unknowns": (
        lambda: model([node("Reshape", ["x", "s"], ["y"])], initializers=[ints("s", -1, -1)]),
        "-1",
    ),
    "flag that is neither yes nor no": (lambda: model([node("ReduceSum", ["x"], ["y"], keepdims=7)]), "'keepdims' = 7"),
    "fill of a negative size": (
        lambda: model([node("ConstantOfShape", ["s"], ["y"])], initializers=[ints("s", -7)]),
        "-7",
    ),
    "expand to a negative size": (
        lambda: model([node("Expand", ["x", "s"], ["y"])], initializers=[ints("s", -7, 4)]),
        "-7",
    ),
    "split that does not add up": (
        lambda: model([node("Split", ["x", "s"], ["y", "z"], axis=1)], initializers=[ints("s", 3, 3)]),
        "Split|split|6",
    ),
    "sizes that never fit": (
        lambda: model(
            [node("Add", ["x", "w"], ["y"])], initializers=[numpy_helper.from_array(np.ones(3, np.float32), "w")]
        ),
        "3",
    ),
    "condition without a branch": (
        lambda: model([node("If", ["c"], ["y"])], inputs=[helper.make_tensor_value_info("c", TensorProto.BOOL, [])]),
        "branch|If",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_graph(name: str, tmp_path: Path) -> None:
    make, said = WRONG[name]
    text = refused(make(), tmp_path)
    assert any(part in text for part in said.split("|")), text


def test_no_graph(tmp_path: Path) -> None:
    assert "graph" in refused(onnx.ModelProto(ir_version=8, producer_name="p" * 100), tmp_path)


# -- initializers that claim more than they hold -------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(2**40,), (2**31,) * 3, (2**62,), (2**62, 2**62), (10**9, 0, 10**9)], ids=str)
@pytest.mark.parametrize("held", [b"", b"\0" * 16])
def test_weights_that_are_not_there(dims: tuple[int, ...], held: bytes, tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=F, dims=dims, raw_data=held)
    if 0 in dims and not held:
        survives(model([node("Identity", ["w"], ["y"])], initializers=[weight]), tmp_path)
    else:
        assert "'w'" in refused(model([node("Identity", ["w"], ["y"])], initializers=[weight]), tmp_path)


def test_sparse_weights(tmp_path: Path) -> None:
    """Two numbers on an axis of 2**40."""
    content = model([node("Identity", ["w"], ["y"])])
    values = numpy_helper.from_array(np.ones(2, np.float32), "w")
    sparse = helper.make_sparse_tensor(values, ints("", 0, 5), [2**40])
    content.graph.sparse_initializer.append(sparse)
    assert "'w'" in refused(content, tmp_path)


@pytest.mark.parametrize("places", [(0, 99), (-1, 2)])
def test_sparse_places(places: tuple[int, int], tmp_path: Path) -> None:
    content = model([node("Identity", ["w"], ["y"])])
    values = numpy_helper.from_array(np.ones(2, np.float32), "w")
    content.graph.sparse_initializer.append(helper.make_sparse_tensor(values, ints("", *places), [8]))
    assert "'w'" in refused(content, tmp_path)


# -- small files, huge programs ------------------------------------------------------------------------------------


def _chain(op: str, times: int, **attributes: object) -> onnx.ModelProto:
    """An op on its own result twice, many times over."""
    nodes = [node(op, [f"v{i}"] * 2, [f"v{i + 1}"], **attributes) for i in range(times)]
    return model([node("Identity", ["x"], ["v0"]), *nodes, node("Identity", [f"v{times}"], ["y"])])


def _polynomial(times: int) -> onnx.ModelProto:
    """A shape that is a sum of sizes, squared again and again."""
    inputs = [helper.make_tensor_value_info("x", F, ["a", "b", "c", "d"])]
    nodes = [node("Shape", ["x"], ["s"]), node("ReduceSum", ["s"], ["v0"], keepdims=1)]
    nodes += [node("Mul", [f"v{i}"] * 2, [f"v{i + 1}"]) for i in range(times)]
    return model([*nodes, node("ConstantOfShape", [f"v{times}"], ["y"])], inputs=inputs)


def _quotients(times: int) -> onnx.ModelProto:
    """A size divided and added to itself, many times over."""
    nodes = [node("Shape", ["x"], ["s"]), node("ReduceSum", ["s"], ["v0"], keepdims=1)]
    for i in range(times):
        nodes += [node("Div", [f"v{i}", "three"], [f"q{i}"]), node("Mul", [f"q{i}", f"v{i}"], [f"v{i + 1}"])]
    return model([*nodes, node("ConstantOfShape", [f"v{times}"], ["y"])], initializers=[ints("three", 3)])


def _functions(levels: int) -> onnx.ModelProto:
    """Functions of which each calls the one below twice."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    made = [helper.make_function("f", "f0", ["a"], ["b"], [node("Neg", ["a"], ["b"])], opsets)]
    for i in range(1, levels):
        calls = [node(f"f{i - 1}", ["a"], ["m"], domain="f"), node(f"f{i - 1}", ["m"], ["b"], domain="f")]
        made.append(helper.make_function("f", f"f{i}", ["a"], ["b"], calls, opsets))
    return model([node(f"f{levels - 1}", ["x"], ["y"], domain="f")], functions=made)


def _recursive(names: Sequence[str]) -> onnx.ModelProto:
    """Functions that call each other in a circle."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    made = [
        helper.make_function("f", name, ["a"], ["b"], [node(after, ["a"], ["b"], domain="f")], opsets)
        for name, after in zip(names, [*names[1:], names[0]], strict=True)
    ]
    return model([node(names[0], ["x"], ["y"], domain="f")], functions=made)


def _nested(depth: int) -> onnx.ModelProto:
    """Conditions inside of conditions."""
    out = [helper.make_tensor_value_info("o", F, None)]
    other = helper.make_graph([node("Neg", ["x"], ["o"])], "g", [], out)
    branch = node("If", ["c"], ["o"], then_branch=other, else_branch=other)
    for _ in range(depth):
        inner = helper.make_graph([branch], "g", [], out)
        branch = node("If", ["c"], ["o"], then_branch=inner, else_branch=other)
    inputs = [helper.make_tensor_value_info("x", F, ["n"]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    return model([branch, node("Neg", ["o"], ["y"])], inputs=inputs)


HUGE: dict[str, Callable[[], onnx.ModelProto]] = {
    "fill": lambda: model([node("ConstantOfShape", ["s"], ["y"])], initializers=[ints("s", 10**6, 10**6)]),
    "fill beyond i64": lambda: model([node("ConstantOfShape", ["s"], ["y"])], initializers=[ints("s", 2**62, 2**62)]),
    "fill, read again": lambda: model(
        [node("ConstantOfShape", ["s"], ["h"]), node("ReduceSum", ["h"], ["y"])], initializers=[ints("s", 10**5, 10**6)]
    ),
    "fill of shapes": lambda: model(
        [node("ConstantOfShape", ["s"], ["h"], value=ints("", 1)), node("ConstantOfShape", ["h"], ["y"])],
        initializers=[ints("s", 10**9)],
    ),
    "expand": lambda: model([node("Expand", ["w", "s"], ["y"])], initializers=[ints("w", 1), ints("s", 10**6, 10**6)]),
    "tile": lambda: model([node("Tile", ["w", "s"], ["y"])], initializers=[ints("w", 1, 2), ints("s", 10**12)]),
    "range": lambda: model(
        [node("Range", ["a", "b", "c"], ["y"])], initializers=[number("a", 0), number("b", 10**13), number("c", 1)]
    ),
    "range of step 0": lambda: model(
        [node("Range", ["a", "b", "c"], ["y"])], initializers=[number("a", 0), number("b", 5), number("c", 0)]
    ),
    "pad": lambda: model([node("Pad", ["x", "s"], ["y"])], initializers=[ints("s", 0, 0, 2**50, 2**50)]),
    "one hot": lambda: model(
        [node("OneHot", ["w", "d", "v"], ["y"])], initializers=[ints("w", 1, 2), number("d", 10**12), ints("v", 0, 1)]
    ),
    "eye": lambda: model(
        [node("ConstantOfShape", ["s"], ["h"]), node("EyeLike", ["h"], ["y"])], initializers=[ints("s", 10**6, 10**6)]
    ),
    "gather of a fill": lambda: model(
        [node("ConstantOfShape", ["s"], ["h"]), node("Gather", ["h", "w"], ["y"])],
        initializers=[ints("s", 10**12), ints("w", 5)],
    ),
    "non-zeros of a fill": lambda: model(
        [node("ConstantOfShape", ["s"], ["h"]), node("NonZero", ["h"], ["y"])], initializers=[ints("s", 10**12)]
    ),
    "resize": lambda: model([node("Resize", ["x", "", "", "s"], ["y"])], initializers=[ints("s", 10**9, 10**9)]),
    "convolution of huge strides": lambda: model(
        [node("Conv", ["x", "w"], ["y"], strides=[2**40, 2**40], pads=[2**40] * 4, dilations=[2**40, 2**40])],
        inputs=[helper.make_tensor_value_info("x", F, ["n", 1, "h", "w"])],
        initializers=[numpy_helper.from_array(np.ones((1, 1, 3, 3), np.float32), "w")],
    ),
    "concat doubles": lambda: _chain("Concat", 60, axis=0),
    "concat of constants doubles": lambda: model(
        [*(node("Concat", [f"v{i}"] * 2, [f"v{i + 1}"], axis=0) for i in range(60)), node("Abs", ["v60"], ["y"])],
        initializers=[ints("v0", 1, 2)],
    ),
    "add of itself": lambda: _chain("Add", 3000),
    "polynomial": lambda: _polynomial(12),
    "quotients": lambda: _quotients(40),
    "functions double": lambda: _functions(50),
    "depth": lambda: _nested(20),
    "rank": lambda: model([node("Unsqueeze", ["x", "s"], ["y"])], initializers=[ints("s", *range(2000))]),
    "long name": lambda: model(
        [node("Neg", ["x"], ["y"])], inputs=[helper.make_tensor_value_info("x", F, ["n" * 10**6])]
    ),
    "long sum as a name": lambda: model(
        [node("Neg", ["x"], ["y"])], inputs=[helper.make_tensor_value_info("x", F, ["+".join(["n"] * 10**5)])]
    ),
    "deep parentheses as a name": lambda: model(
        [node("Neg", ["x"], ["y"])], inputs=[helper.make_tensor_value_info("x", F, ["(" * 10**5 + "n" + ")" * 10**5])]
    ),
    "powers as a name": lambda: model(
        [node("Neg", ["x"], ["y"])],
        inputs=[helper.make_tensor_value_info("x", F, ["a", "b", "*".join(["(a+b+1)"] * 400)])],
    ),
    "a size divided by 0": lambda: model(
        [node("Neg", ["x"], ["y"])], inputs=[helper.make_tensor_value_info("x", F, ["n", "n // 0", "n % 0"])]
    ),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_program(name: str, tmp_path: Path) -> None:
    survives(HUGE[name](), tmp_path)


@pytest.mark.parametrize("names", [("f",), ("f", "g"), ("f", "g", "h")])
def test_recursive_functions(names: tuple[str, ...], tmp_path: Path) -> None:
    assert "f" in refused(_recursive(names), tmp_path)


def test_a_million_nodes(tmp_path: Path) -> None:
    """Refused before anything is built of them."""
    one = node("Neg", ["a"], ["b"]).SerializeToString()
    graph = (b"\x0a" + bytes([len(one)]) + one) * 1_000_000
    head = helper.make_model(helper.make_graph([], "g", [], [])).SerializeToString()
    path = tmp_path / "m.onnx"
    size, width = len(graph), b""
    while size > 127:
        width, size = width + bytes([size & 127 | 128]), size >> 7
    path.write_bytes(head + b"\x3a" + width + bytes([size]) + graph)
    with bounded(seconds=30), pytest.raises(EgshapeError, match="1000000 nodes"):
        egshape.load(path)


# -- files elsewhere -----------------------------------------------------------------------------------------------


def _outside(location: str, **more: str) -> onnx.ModelProto:
    weight = TensorProto(name="w", data_type=F, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        weight.external_data.add(key=key, value=value)
    return model([node("Add", ["x", "w"], ["y"])], initializers=[weight])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder beside files that are none of its business."""
    inside = tmp_path / "model"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(b"\x11" * 16)
    (inside / "weights").write_bytes(np.ones(4, np.float32).tobytes())
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "up").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    return inside


def test_external_data(folder: Path) -> None:
    """The good case, so that the others are refused for what they name."""
    (folder / "m.onnx").write_bytes(_outside("weights").SerializeToString())
    out = egshape.compile(folder / "m.onnx", "interpret", optimize=False)(np.zeros((2, 4), np.float32))
    assert np.array_equal(out, np.ones((2, 4)))


@pytest.mark.parametrize(
    "location",
    [
        "../secret",
        "./../secret",
        "/etc/hostname",
        "link",
        "up/secret",
        "pipe",
        "",
        ".",
        "nowhere",
        "/dev/zero",
        "weights/../../secret",
        "a\0b",
        "x" * 5000,
    ],
)
def test_outside_of_the_folder(location: str, folder: Path) -> None:
    assert "'w'" in refused(_outside(location), folder)


@pytest.mark.parametrize(
    "more",
    [
        {"offset": "-4"},
        {"offset": "999"},
        {"length": "-1"},
        {"length": "4"},
        {"length": "99999999999999"},
        {"offset": "a"},
        {"offset": "9" * 5000},
    ],
    ids=str,
)
def test_outside_of_the_file(more: dict[str, str], folder: Path) -> None:
    assert "'w'" in refused(_outside("weights", **more), folder)


def test_external_data_of_bytes() -> None:
    """A model without a folder has no files."""
    with pytest.raises(EgshapeError, match="folder"):
        egshape.load(_outside("weights").SerializeToString(), format="onnx")


# -- metadata ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 9}', "[" * 100_000, '{"version": 1, "relations": ["x.0 >= 5", "x.0 <= 3"]}']
)
def test_facts_in_metadata(text: str, tmp_path: Path) -> None:
    content = onnx.ModelProto()
    content.CopyFrom(GOOD)
    content.metadata_props.add(key="egshape.facts", value=text)
    refused(content, tmp_path)
