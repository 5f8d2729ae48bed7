"""Sizes that a model computes in floats: no node more than it came with, equal in ONNX Runtime, checked where the
floats may not hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
ort = pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import egshape  # noqa: E402
from egshape.errors import CheckFailed  # noqa: E402
from egshape.frontends.onnx.checks import TITLE  # noqa: E402
from egshape.ir.interpret import interpret  # noqa: E402
from egshape.rulebook.without import without  # noqa: E402
from egshape.rulelang.at_once import rules  # noqa: E402

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
SIZES = (0, 1, 2, 3, 5, 8, 9, 16, 31)
Feed = Mapping[str, np.ndarray]


def run(model: onnx.ModelProto, feeds: Sequence[Feed]) -> list[list[np.ndarray] | None]:
    """The results; None where ONNX Runtime rejects the inputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    out: list[list[np.ndarray] | None] = []
    for feed in feeds:
        try:
            out.append(session.run(None, dict(feed)))
        except Exception:
            out.append(None)
    return out


def smaller(model: onnx.ModelProto, feeds: Sequence[Feed], folder: Path, more: int = 0) -> onnx.ModelProto:
    """The optimized model, which has no more nodes, but for some, and gives the same."""
    result = egshape.optimize(egshape.load(model))
    assert result.report.status == "saturated", result.report.notes
    egshape.save(result.graph, folder / "m.onnx")
    written = onnx.load(folder / "m.onnx")
    assert len(written.graph.node) <= len(model.graph.node) + more, [node.op_type for node in written.graph.node]
    for feed, one, two in zip(feeds, run(model, feeds), run(written, feeds), strict=True):
        shapes = {name: array.shape for name, array in feed.items()}
        assert (one is None) == (two is None), shapes
        for left, right in zip(one or (), two or (), strict=True):
            assert (left.dtype, left.shape) == (right.dtype, right.shape), shapes
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5, err_msg=str(shapes))
    return written


def lines(*shape: int) -> Feed:
    return {"x": np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)}


def checks(model: onnx.ModelProto) -> list[str]:
    return [node.name.removeprefix(TITLE) for node in model.graph.node if node.name.startswith(TITLE)]


# -- ranges --------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["int64", "int32", "float"])
@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_a_range_stays_one_node(dtype: str, step: int, tmp_path: Path) -> None:
    for start, limit in (("n", "n"), ("n", "0"), ("n", "7"), ("0", "n"), ("3", "n"), ("-2", "n"), ("n", "-1")):
        numbers = {"a": start, "b": limit, "d": str(step)}
        fixed = ", ".join(f"{dtype} {name} = {{ {number} }}" for name, number in numbers.items() if number != "n")
        ends = ["n" if number == "n" else name for name, number in numbers.items()]
        elem = {"int64": 7, "int32": 6, "float": 1}[dtype]
        text = f"""{HEAD} g (float[N] x) => ({dtype}[M] y) <{fixed}, int64[1] axes = {{ 0 }}> {{
            shape = Shape(x) size = Squeeze(shape, axes) n = Cast<to = {elem}>(size) y = Range({", ".join(ends)}) }}"""
        written = smaller(onnx.parser.parse_model(text), [lines(size) for size in SIZES], tmp_path)
        assert sum(node.op_type == "Range" for node in written.graph.node) <= 1


@pytest.mark.parametrize("dtype", ["int64", "int32", "float"])
def test_a_range_of_data_stays_one_node_and_rejects_a_delta_of_0(dtype: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        f"{HEAD} g ({dtype} a, {dtype} b, {dtype} d) => ({dtype}[M] y) {{ y = Range(a, b, d) }}"
    )
    kind = onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    points = [(a, b, d) for a in (0, 3) for b in (0, 1, 7, -4) for d in (1, 2, -1, 0)]
    feeds = [dict(zip("abd", (np.array(each, kind) for each in point), strict=True)) for point in points]
    written = smaller(model, feeds, tmp_path)
    assert [node.op_type for node in written.graph.node] == ["Range"]
    with pytest.raises(CheckFailed, match="delta of 0"):
        interpret(egshape.load(written), [np.array(each, kind) for each in (0, 3, 0)])


# -- sizes and back ------------------------------------------------------------------------------------------------

CHAINS = {
    "half": ("q = Mul(f, by) r = Floor(q)", "0.5", ["N <= 16777216"]),
    "a third, up": ("q = Div(f, by) r = Ceil(q)", "3.0", ["N <= 16777216"]),
    "one and a half times": ("q = Mul(f, by) r = Floor(q)", "1.5", ["N <= 5592405"]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_size_through_floats(name: str, tmp_path: Path) -> None:
    """A check says up to where the floats hold it, and comes back as that."""
    nodes, by, wanted = CHAINS[name]
    text = f"""{HEAD} g (float[N] x) => (float[M] y) <int64[1] zero = {{ 0 }}, float by = {{ {by} }}> {{
        shape = Shape(x) f = Cast<to = 1>(shape) {nodes} i = Cast<to = 7>(r)
        z = ConstantOfShape(i) t = Slice(x, zero, i, zero) y = Concat<axis = 0>(z, t) }}"""
    model = onnx.parser.parse_model(text)
    # Four nodes of float code become one that divides, or two that round up, and the check's three.
    written = smaller(model, [lines(size) for size in SIZES], tmp_path, more="Ceil" in nodes)
    assert not {"Cast", "Floor", "Ceil"} & {node.op_type for node in written.graph.node}
    assert checks(written) == wanted
    again = egshape.optimize(egshape.load(written))
    egshape.save(again.graph, tmp_path / "again.onnx")
    assert checks(onnx.load(tmp_path / "again.onnx")) == wanted


def test_in_wide_floats_no_check_is_needed(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[N] x) => (float[M] y) <double by = {{ 0.5 }}> {{
        shape = Shape(x) f = Cast<to = 11>(shape) q = Mul(f, by) r = Floor(q) i = Cast<to = 7>(r)
        z = ConstantOfShape(i) y = Concat<axis = 0>(z, x) }}"""
    assert checks(smaller(onnx.parser.parse_model(text), [lines(size) for size in SIZES], tmp_path)) == []


def test_without_the_rules_of_floats_such_code_stays_and_other_code_does_not(tmp_path: Path) -> None:
    def left(nodes: str) -> list[str]:
        text = f"""{HEAD} g (float[N] x) => (float[M] y) <float half = {{ 0.5 }}, int64[1] two = {{ 2 }}> {{
            shape = Shape(x) {nodes} z = ConstantOfShape(i) y = Concat<axis = 0>(z, x) w = Identity(y) }}"""
        written = smaller(onnx.parser.parse_model(text), [lines(size) for size in SIZES], tmp_path)
        return [node.op_type for node in written.graph.node]

    floats = "f = Cast<to = 1>(shape) q = Mul(f, half) r = Floor(q) i = Cast<to = 7>(r)"
    integers = "q = Mul(shape, two) i = Div(q, two)"
    known = left(floats), left(integers)
    with without([name for name in rules() if name.startswith("size.float/")]):
        unknown = left(floats), left(integers)
    assert "Floor" not in known[0] and "Floor" in unknown[0]
    assert known[1] == unknown[1] and not {"Mul", "Div"} & set(known[1])


@pytest.mark.parametrize("by", ["0.3", "0.1"])
def test_a_number_that_floats_do_not_hold_stays_in_floats(by: str, tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[N] x) => (float[M] y) <float by = {{ {by} }}> {{
        shape = Shape(x) f = Cast<to = 1>(shape) q = Mul(f, by) r = Floor(q) i = Cast<to = 7>(r)
        z = ConstantOfShape(i) y = Concat<axis = 0>(z, x) }}"""
    written = smaller(onnx.parser.parse_model(text), [lines(size) for size in (*SIZES, 10, 20, 30, 40, 70)], tmp_path)
    assert "Floor" in {node.op_type for node in written.graph.node}


# -- models --------------------------------------------------------------------------------------------------------


def with_weights(text: str, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    model, rng = onnx.parser.parse_model(text), np.random.default_rng(0)
    for name, shape in shapes.items():
        array = (rng.standard_normal(shape) / 5).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def detector() -> onnx.ModelProto:
    """Three scales of strides 8, 16 and 32; one resized by floats of its shape to join the next; a grid of float
    ranges for each, halves of a Split moved by it, all boxes joined."""
    nodes = [
        "x0 = Conv<kernel_shape = [3, 3], strides = [8, 8], pads = [1, 1, 1, 1]>(x, w0)",
        "x1 = Conv<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x0, w1)",
        "x2 = Conv<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x1, w1)",
        "s2 = Shape(x2) spatial = Slice(s2, i2, i4, i0) asf = Cast<to = 1>(spatial) doubled = Mul(asf, two)",
        "whole = Floor(doubled) back = Cast<to = 7>(whole) kept = Slice(s2, i0, i2, i0)",
        "wanted = Concat<axis = 0>(kept, back)",
        'up = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">'
        "(x2, , , wanted)",
        "s1 = Shape(x1) ends1 = Slice(s1, i2, i4, i0) cut = Slice(up, i00, ends1, i23)",
        "su = Shape(up) endsu = Slice(su, i2, i4, i0) kept1 = Slice(x1, i00, endsu, i23)",
        "y1 = Concat<axis = 1>(kept1, cut)",
    ]
    for scale, (source, weight) in enumerate((("x0", "v0"), ("y1", "v1"), ("x2", "v0"))):
        text = f"""c = Conv<kernel_shape = [1, 1]>({source}, {weight}) s = Shape(c)
            b = Gather<axis = 0>(s, z0) h = Gather<axis = 0>(s, z2) w = Gather<axis = 0>(s, z3)
            hf = Cast<to = 1>(h) wf = Cast<to = 1>(w) ry = Range(f0, hf, f1) rx = Range(f0, wf, f1)
            column = Unsqueeze(ry, i1) row = Unsqueeze(rx, i0)
            bu = Unsqueeze(b, i0) hu = Unsqueeze(h, i0) wu = Unsqueeze(w, i0) hw = Concat<axis = 0>(hu, wu)
            gy = Expand(column, hw) gx = Expand(row, hw) gyu = Unsqueeze(gy, m1) gxu = Unsqueeze(gx, m1)
            grid = Concat<axis = -1>(gxu, gyu)
            split = Concat<axis = 0>(bu, i2, i6, hu, wu) r = Reshape(c, split)
            t = Transpose<perm = [0, 1, 3, 4, 2]>(r) sg = Sigmoid(t) xy, wh, conf = Split<axis = 4>(sg, i222)
            moved = Add(xy, grid) scaled = Mul(moved, stride{scale}) twice = Mul(wh, two) sized = Mul(twice, anchors)
            o = Concat<axis = 4>(scaled, sized, conf) flat = Concat<axis = 0>(bu, m1, i6) boxes = Reshape(o, flat)"""
        own = (
            "c s b h w hf wf ry rx column row bu hu wu hw gy gx gyu gxu grid split r t sg xy wh conf moved scaled "
            "twice sized o flat boxes"
        )
        for name in own.split():
            text = onnx_name(text, name, f"{name}_{scale}")
        nodes.append(text)
    nodes.append("y = Concat<axis = 1>(boxes_0, boxes_1, boxes_2)")
    constants = """int64 z0 = {0}, int64 z2 = {2}, int64 z3 = {3}, float f0 = {0.0}, float f1 = {1.0},
        float two = {2.0}, int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] i4 = {4},
        int64[1] i6 = {6}, int64[1] m1 = {-1}, int64[2] i00 = {0, 0}, int64[2] i23 = {2, 3}, int64[3] i222 = {2, 2, 2},
        float stride0 = {8.0}, float stride1 = {16.0}, float stride2 = {32.0}"""
    body = "\n".join(nodes)
    text = f"{HEAD} detector (float[B, 3, H, W] x) => (float[b, boxes, 6] y) <{constants}> {{ {body} }}"
    shapes = {"w0": (8, 3, 3, 3), "w1": (8, 8, 3, 3), "v0": (12, 8, 1, 1), "v1": (12, 16, 1, 1)}
    return with_weights(text, **shapes, anchors=(1, 2, 1, 1, 2))


def onnx_name(text: str, old: str, new: str) -> str:
    import re

    return re.sub(rf"(?<![\w.]){old}(?![\w])(?!\s*=\s*[\[\d])", new, text)


def speech() -> onnx.ModelProto:
    """Frames of 160 samples, their number by a float division and ceil; halved twice, which floats count again."""
    text = f"""{HEAD} speech (float[B, T] x) => (float[b, q, 8] y) <int64 z0 = {{0}}, int64 z1 = {{1}},
        float hop = {{160.0}}, int64 hopi = {{160}}, int64[1] hopv = {{160}}, float two = {{2.0}},
        float tenth = {{0.1}}, int64[1] i0 = {{0}}, int64[1] i8 = {{8}}> {{
        s = Shape(x) b0 = Gather<axis = 0>(s, z0) t = Gather<axis = 0>(s, z1)
        tf = Cast<to = 1>(t) frames = Div(tf, hop) up = Ceil(frames) count = Cast<to = 7>(up)
        full = Mul(count, hopi) lack = Sub(full, t) lacku = Unsqueeze(lack, i0)
        pads = Concat<axis = 0>(i0, i0, i0, lacku) padded = Pad(x, pads)
        bu = Unsqueeze(b0, i0) cu = Unsqueeze(count, i0) framed = Concat<axis = 0>(bu, cu, hopv)
        f = Reshape(padded, framed) m = MatMul(f, mel) mt = Transpose<perm = [0, 2, 1]>(m)
        c1 = Conv<kernel_shape = [3], strides = [2], pads = [1, 1]>(mt, kernel) r1 = Relu(c1)
        c2 = Conv<kernel_shape = [3], strides = [2], pads = [1, 1]>(r1, kernel) r2 = Relu(c2)
        l0 = Cast<to = 1>(count) l1 = Div(l0, two) l2 = Ceil(l1) l3 = Div(l2, two) l4 = Ceil(l3) l5 = Cast<to = 7>(l4)
        place = Range(z0, l5, z1) placef = Cast<to = 1>(place) p1 = Unsqueeze(placef, i0) p2 = Unsqueeze(p1, i0)
        lu = Unsqueeze(l5, i0) wide = Concat<axis = 0>(bu, i8, lu) expanded = Expand(p2, wide)
        slope = Mul(expanded, tenth) o = Add(r2, slope) flat = Reshape(o, wide)
        y = Transpose<perm = [0, 2, 1]>(flat) }}"""
    return with_weights(text, mel=(160, 8), kernel=(8, 8, 3))


def test_a_detector_loses_its_float_size_code(tmp_path: Path) -> None:
    shapes = ((1, 64, 64), (2, 33, 65), (1, 1, 1), (0, 32, 32), (1, 96, 32), (1, 31, 97), (1, 0, 32), (1, 7, 9))
    model = detector()
    written = smaller(model, [lines(b, 3, h, w) for b, h, w in shapes], tmp_path)
    assert len(written.graph.node) < 0.9 * len(model.graph.node)
    assert "Floor" not in {node.op_type for node in written.graph.node}


def test_a_speech_model_loses_its_float_size_code(tmp_path: Path) -> None:
    sizes = ((1, 160), (2, 161), (1, 0), (0, 400), (3, 1), (1, 1600), (1, 3201), (2, 479))
    written = smaller(speech(), [lines(*size) for size in sizes], tmp_path)
    assert not {"Ceil", "Floor"} & {node.op_type for node in written.graph.node}
    assert sum(node.op_type == "Cast" for node in written.graph.node) == 1  # the places, which are data
