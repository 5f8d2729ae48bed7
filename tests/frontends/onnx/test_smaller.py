"""Files that are as small as their ops allow: nodes that another one stands for, to the bit, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
from onnx import helper, numpy_helper

import egshape
from egshape.frontends.onnx.own import count_of
from tests.frontends.onnx.test_control_out import model_of, session
from tests.frontends.onnx.test_refused import bits

IMAGE = "float[n,3,5,4] x"  # ONNX Runtime pools no empty images
CONV = "float[n,3,h,w] x"
LSTM = "float[t,n,4] x"
LAST = 2**63 - 1

CASES = {
    "bias of 1C11": (f"g ({CONV}) => (float[n,4,p,q] z) {{ c = Conv(x, k) z = Add(c, b) }}", 1),
    "bias of C11 before": (f"g ({CONV}) => (float[n,4,p,q] z) {{ c = Conv<pads=[1,1,1,1]>(x, k) z = Add(b3, c) }}", 1),
    "a bias taken away": (f"g ({CONV}) => (float[n,4,p,q] z) {{ c = Conv(x, k) z = Sub(c, b) }}", 1),
    "one number for all": (f"g ({CONV}) => (float[n,4,p,q] z) {{ c = Conv(x, k) z = Add(c, one) }}", 1),
    "bias of a transposed one": (
        f"g ({CONV}) => (float[n,4,p,q] z) {{ c = ConvTranspose<strides=[2,2]>(x, t) z = Add(c, b) }}",
        1,
    ),
    "taken from a number": (f"g ({CONV}) => (float[n,4,p,q] z) {{ c = Conv(x, k) z = Sub(b, c) }}", 2),
    "read twice": (f"g ({CONV}) => (float[n,4,p,q] z) {{ c = Conv(x, k) d = Add(c, b) z = Mul(c, d) }}", 3),
    "biased already": (f"g ({CONV}) => (float[n,4,p,q] z) {{ c = Conv(x, k, v) z = Add(c, b) }}", 2),
    "by place": ("g (float[n,3,3,3] x) => (float[n,4,2,2] z) { c = Conv(x, k) z = Add(c, place) }", 2),
    "padded": (f"g ({CONV}) => (float[n,4,p,q] z) {{ u = Pad(x, around) c = Conv(u, k) z = Add(c, b) }}", 1),
    "padded by ones": (f"g ({CONV}) => (float[n,4,p,q] z) {{ u = Pad(x, around, one) z = Conv(u, k) }}", 2),
    "padded channels": (f"g ({CONV}) => (float[n,4,p,q] z) {{ u = Pad(x, deep) z = Conv(u, k4) }}", 2),
    "padded by nothing": (f'g ({CONV}) => (float[n,3,h,w] z) {{ u = Pad<mode="reflect">(x, none) z = Neg(u) }}', 1),
    "tiled by ones": (f"g ({CONV}) => (float[n,3,h,w] z) {{ u = Tile(x, ones) z = Neg(u) }}", 1),
    "parts behind the first": (
        """g (float[n,h] x, float[n,w] y, float[n,3] u) => (float[n,k] z) { a = Concat<axis=1>(x, y, u)
        s = Shape<start=1>(x) z = Slice(a, s, last, i1) }""",
        1,
    ),
    "padded pool": (
        f"""g ({IMAGE}) => (float[n,3,p,q] z) {{ u = Pad(x, around)
        z = AveragePool<kernel_shape=[3,3],strides=[2,2]>(u) }}""",
        1,
    ),
    "padded twice": (
        f"""g ({IMAGE}) => (float[n,3,p,q] z) {{ u = Pad(x, around)
        z = AveragePool<kernel_shape=[4,3],pads=[1,0,0,0],count_include_pad=1>(u) }}""",
        1,
    ),
    "padding that does not count": (
        f"""g ({CONV}) => (float[n,3,p,q] z) {{ u = Pad(x, around)
        z = AveragePool<kernel_shape=[4,3],pads=[1,0,0,0]>(u) }}""",
        2,
    ),
    "a window within the padding": (
        f"g ({CONV}) => (float[n,3,p,q] z) {{ u = Pad(x, around) z = AveragePool<kernel_shape=[2,2]>(u) }}",
        2,
    ),
    "rounded up": (
        f"""g ({CONV}) => (float[n,3,p,q] z) {{ u = Pad(x, around)
        z = AveragePool<kernel_shape=[3,3],strides=[2,2],ceil_mode=1>(u) }}""",
        2,
    ),
    "padded by the least": (
        f"g ({CONV}) => (float[n,3,p,q] z) {{ u = Pad(x, around, least) z = MaxPool<kernel_shape=[3,3]>(u) }}",
        2,  # ONNX Runtime pools from the least finite number on
    ),
    "padded pool of any size": (
        f"""g ({CONV}) => (float[n,3,p,q] z) {{ u = Pad(x, around)
        z = AveragePool<kernel_shape=[3,3],strides=[2,2]>(u) }}""",
        2,
    ),
    "a maximum of zeros": (
        f"g ({CONV}) => (float[n,3,p,q] z) {{ u = Pad(x, around) z = MaxPool<kernel_shape=[3,3]>(u) }}",
        2,
    ),
    "padded for another op": (
        f"g ({CONV}) => (float[n,p,q] z) {{ u = Pad(x, around) z = ReduceL2<keepdims=0>(u, i1) }}",
        2,
    ),
    "two readers of a padding": (
        f"""g ({CONV}) => (float[n,3,p,q] z, float[n,3,p,q] u) {{ u = Pad(x, around)
        z = AveragePool<kernel_shape=[3,3]>(u) }}""",
        2,
    ),
    "folded axes kept": (
        f"g ({CONV}) => (float[n,3,1,1] z) {{ a = ReduceMax<keepdims=0>(x, i23) z = Unsqueeze(a, i23) }}",
        1,
    ),
    "folded axes dropped": (
        f"g ({CONV}) => (int64[n,h,w] z) {{ a = ArgMax<axis=1>(x) z = Squeeze(a, i1) }}",
        1,
    ),
    "another axis": (f"g ({CONV}) => (float[n,1,h] z) {{ a = ReduceMax<keepdims=0>(x, i13) z = Unsqueeze(a, i1) }}", 2),
    "one of two axes": (f"g ({CONV}) => (float[n,h,1] z) {{ a = ReduceL2(x, i13) z = Squeeze(a, i1) }}", 2),
    "quantized as before": (
        """g (uint8[n,h,w] x) => (float[n,h,w] z) { a = DequantizeLinear(x, half, three)
        e = QuantizeLinear(a, half, three) c = DequantizeLinear(e, half, three) d = QuantizeLinear(c, half, three)
        z = DequantizeLinear(d, half, three) }""",
        1,
    ),
    "quantized otherwise": (
        """g (uint8[n,h,w] x) => (uint8[n,h,w] z) { a = DequantizeLinear(x, half, three)
        z = QuantizeLinear(a, one, three) }""",
        2,
    ),
    "steps beyond floats": (
        """g (uint8[n,h,w] x) => (uint8[n,h,w] z) { a = DequantizeLinear(x, huge, three)
        z = QuantizeLinear(a, huge, three) }""",
        2,
    ),
    "channels last": (
        """g (float[n,h,w,3] x) => (float[n,p,q,4] z) { a = Transpose<perm=[0,3,1,2]>(x) c = Conv(a, k)
        d = Transpose<perm=[0,2,3,1]>(c) e = Add(v, d) f = Tanh(e) r = Transpose<perm=[0,3,1,2]>(f) s = Conv(r, k4)
        z = Transpose<perm=[0,2,3,1]>(s) }""",
        5,
    ),
    "zero states": (
        f"""g ({LSTM}) => (float[t,1,n,3] y) {{ s = Shape<start=1,end=2>(x) e = Concat<axis=0>(i1, s, i3)
        h = ConstantOfShape(e) y = LSTM<hidden_size=3>(x, wx, wr, , , h, h) }}""",
        1,
    ),
    "a state of -0": (
        f"""g ({LSTM}) => (float[t,1,n,3] y) {{ s = Shape<start=1,end=2>(x) e = Concat<axis=0>(i1, s, i3)
        h = Expand(minus, e) y = LSTM<hidden_size=3>(x, wx, wr, , , h, h) }}""",
        4,
    ),
    "zeros of two layers": (
        f"""g ({LSTM}) => (float[t,n,3] z) {{ s = Shape<start=1,end=2>(x) e = Concat<axis=0>(i2, s, i3)
        h = Expand(zero, e) a = Slice(h, i0, i1, i0) f = Slice(h, i1, i2, i0)
        y = GRU<hidden_size=3>(x, gx, gr, , , a) q = Squeeze(y, i1) u = GRU<hidden_size=3>(q, hx, gr, , , f)
        z = Squeeze(u, i1) }}""",
        4,
    ),
    "axes that must be 1": ("g (float[w,h,n] x) => (float[h] z) { z = Squeeze(x, i02) }", 1),
    "slices of two axes": (
        "g (float[h,w] x) => (float[p,q] z) { a = Slice(x, i1, last, i0, i2) z = Slice(a, i0, last, i1, i3) }",
        1,
    ),
    "slices of one axis": (
        "g (float[h,w] x) => (float[p,q] z) { a = Slice(x, i1, last, i0, i2) z = Slice(a, i1, last, i0) }",
        2,
    ),
    "backward on two axes": (
        "g (float[h,w] x) => (float[h,w] z) { a = Slice(x, m1, first, i0, m1) z = Slice(a, m1, first, i1, m1) }",
        1,
    ),
    "blocks in another order": (
        f"""g ({CONV}) => (float[n,12,p,q] z) {{ a = Slice(x, i00, ends, i23, i22) e = Slice(x, i10, ends, i23, i22)
        c = Slice(x, i01, ends, i23, i22) d = Slice(x, i11, ends, i23, i22) z = Concat<axis=1>(a, e, c, d) }}""",
        2,
    ),
    "blocks in order": (
        f"""g ({CONV}) => (float[n,12,p,q] z) {{ a = Slice(x, i00, ends, i23, i22) e = Slice(x, i01, ends, i23, i22)
        c = Slice(x, i10, ends, i23, i22) d = Slice(x, i11, ends, i23, i22) z = Concat<axis=1>(a, e, c, d) }}""",
        1,
    ),
    "Relu of one place": ("g (float[1,3,1,1] x) => (float[1,4,1,1] z) { c = Conv(x, k1) z = Relu(c) }", 2),
    "Clip of one place": ("g (float[1,3,1,1] x) => (float[1,4,1,1] z) { c = Conv(x, k1) z = Clip(c, f0, one) }", 2),
    "the rest of a reshape": (
        """g (float[n,4,1,1] x) => (float[n,4] z) { r = Neg(x) s = Shape<end=1>(r) e = Concat<axis=0>(s, m1)
        z = Reshape(r, e) }""",
        2,
    ),
    "unused remainders": (
        f"""g ({CONV}) => (float[n,3,h,w] z) {{ s = Shape<start=2>(x) r = Mod(s, i22) d = Sub(i22, r) p = Mod(d, i22)
        a = Concat<axis=0>(i00, i00, i00, p) u = Pad<mode="edge">(x, a) z = Neg(u) }}""",
        1,
    ),
}
FACTS = {"unused remainders": ("h % 2 == 0", "w % 2 == 0")}


def _constants() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = {"k": (4, 3, 2, 2), "k1": (4, 3, 1, 1), "k4": (4, 4, 2, 2), "t": (3, 4, 2, 2), "b": (1, 4, 1, 1)}
    shapes |= {"b3": (4, 1, 1), "v": (4,), "place": (1, 4, 2, 2), "wx": (1, 12, 4), "wr": (1, 12, 3)}
    shapes |= {"gx": (1, 9, 4), "gr": (1, 9, 3), "hx": (1, 9, 3)}
    out = {name: rng.standard_normal(shape).astype("f") for name, shape in shapes.items()}
    out |= {"half": np.float32(0.5), "huge": np.float32(3e37), "least": np.float32(-np.inf), "three": np.uint8(3)}
    out |= {"one": np.float32(1), "f0": np.float32(0), "zero": np.zeros(1, "f"), "minus": -np.zeros(1, "f")}
    numbers = {"i0": [0], "i1": [1], "i2": [2], "i3": [3], "m1": [-1], "last": [LAST], "first": [-LAST - 1]}
    numbers |= {"i22": [2, 2], "i00": [0, 0], "none": [0] * 8, "around": [0, 0, 1, 0, 0, 0, 2, 1]}
    numbers |= {"i02": [0, 2], "i01": [0, 1], "i10": [1, 0], "i11": [1, 1], "i23": [2, 3], "ends": [LAST, LAST]}
    numbers |= {"i13": [1, 3], "deep": [0, 1, 0, 0, 0, 0, 0, 0], "ones": [1] * 4}
    return {**out, **{name: np.array(held, np.int64) for name, held in numbers.items()}}


def _model(text: str) -> onnx.ModelProto:
    model = model_of(text, 18)
    read = {name for node in model.graph.node for name in node.input}
    held = {name: array for name, array in _constants().items() if name in read}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in held.items())
    return model


def _written(model: onnx.ModelProto, path: Path, facts: Sequence[str] = ()) -> onnx.ModelProto:
    graph = egshape.load(model.SerializeToString(), format="onnx")
    result = egshape.optimize(graph, assume=list(facts), validate=False)
    egshape.save(result.graph, path, checks="none" if facts else "nodes")
    return onnx.load(path)


@pytest.mark.parametrize("name", CASES)
def test_as_few_nodes_as_can_be_to_the_bit(name: str, tmp_path: Path) -> None:
    text, nodes = CASES[name]
    model = _model(text)
    written = _written(model, tmp_path / "m.onnx", FACTS.get(name, ()))
    assert count_of(written.graph.node) == nodes
    one, two = session(model), session(written)
    rng = np.random.default_rng(3)
    for h, w in product((2, 3, 4, 5), repeat=2):
        if name in FACTS and (h % 2 or w % 2):
            continue
        sizes, feeds = {"h": h, "w": w, "n": w - 1, "t": h}, {}
        for info in model.graph.input:
            shape = [sizes.get(each.dim_param, each.dim_value) for each in info.type.tensor_type.shape.dim]
            kind = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            feeds[info.name] = (rng.standard_normal(shape) * (9 if kind == "u1" else 1)).astype(kind)
        assert bits(two, feeds) == bits(one, feeds), (h, w)


def test_what_the_type_of_an_input_states_is_no_check(tmp_path: Path) -> None:
    model = _model(f"g ({CONV}) => (float[n,4,p,q] z) {{ z = Conv(x, k) }}")
    graph = egshape.load(model.SerializeToString(), format="onnx")
    facts = ["n == 1", "h == 8", "w == 6"]
    result = egshape.optimize(graph, assume=facts, refine_signature=True, validate=False)
    egshape.save(result.graph, tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    assert count_of(written.graph.node) == 1
    runtime = session(written)
    assert bits(runtime, {"x": np.zeros((1, 3, 8, 6), "f")}) is not None
    assert bits(runtime, {"x": np.zeros((1, 3, 8, 7), "f")}) is None
