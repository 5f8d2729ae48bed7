"""Graphs of public reports of ONNX tools, rebuilt small: what people asked onnxsim, onnxslim, ONNX Runtime and the
exporters to leave out. ``benchmarks.zoo.counts --reports`` compares node counts on them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

LAST = 2**63 - 1
GRAPHS = {
    "onnxsim#170 interpolate by 2": """(float[n,3,h,w] x) => (float[n,3,p,q] y) { s = Shape(x)
        hi = Gather(s, 2) wi = Gather(s, 3) hf = Cast<to=1>(hi) wf = Cast<to=1>(wi) hm = Mul(hf, two) wm = Mul(wf, two)
        hr = Floor(hm) wr = Floor(wm) hc = Cast<to=7>(hr) wc = Cast<to=7>(wr) hu = Unsqueeze(hc, [0])
        wu = Unsqueeze(wc, [0]) nc = Slice(s, [0], [2], [0]) z = Concat<axis=0>(nc, hu, wu)
        r = Resize<mode="nearest">(x, , , z) y = Relu(r) }""",
    "onnxsim#139 known sizes gathered": """(float[n,4,8,6] x) => (float[n,m] y) { s = Shape(x) c = Gather(s, [1])
        h = Gather(s, [2]) w = Gather(s, [3]) ch = Mul(c, h) p = Mul(ch, w) b = Gather(s, [0]) t = Concat<axis=0>(b, p)
        y = Reshape(x, t) }""",
    "onnxsim#140 mobilenet's head": """(float[n,3,h,w] x) => (float[n,5] y) { c = Conv(x, K4) r = Clip(c, zero, six)
        g = GlobalAveragePool(r) s = Shape(g) b = Gather(s, 0) u = Unsqueeze(b, [0]) t = Concat<axis=0>(u, [-1])
        f = Reshape(g, t) y = Gemm<transB=1>(f, M54, V5) }""",
    "onnxsim#157 two Unsqueeze": """(float[n,m] x) => (float[n,1,m,1] y) { a = Unsqueeze(x, [1]) b = Unsqueeze(a, [-1])
        y = Relu(b) }""",
    "onnxsim#319 ConstantOfShape times 0": """(float[n,m] x) => (float[n,m] y) { s = Shape(x) a = ConstantOfShape(s)
        b = Mul(a, zero) y = Sub(x, b) }""",
    "onnxsim#275 If of known sizes": """(float[n,3] x) => (float[n,k] y) { s = Shape(x) g = Gather(s, [1])
        e = Equal(g, [3]) q = Squeeze(e, [0]) y = If<then_branch=t() => (float[n,k] a) { a = Tanh(x) },
        else_branch=f() => (float[n,k] b) { b = Neg(x) }>(q) }""",
    "onnxruntime#27481 ConstantOfShape, Cast": """(int64[n,t] x) => (float[n,t] y) { s = Shape(x)
        c = ConstantOfShape(s) d = Cast<to=7>(c) e = Add(x, d) y = Cast<to=1>(e) }""",
    "pytorch#109292 squeeze as If": """(float[1,1,t,4] x) => (float[t,4] y) { s = Shape(x) g = Gather(s, 0)
        e = Equal(g, 1) y0 = If<then_branch=a() => (float[1,t,4] u) { u = Squeeze(x, [0]) },
        else_branch=b() => (float[1,1,t,4] v) { v = Identity(x) }>(e) z = Squeeze(y0, [0]) y = Exp(z) }""",
    "OnnxSlim#327 roll by nothing": """(float[n,h,w,3] x) => (float[n,h,w,3] y) { a = Slice(x, [0], [LAST], [1])
        b = Slice(x, [0], [0], [1]) c = Concat<axis=1>(a, b) d = Slice(c, [0], [0], [2]) e = Slice(c, [0], [LAST], [2])
        f = Concat<axis=2>(d, e) y = Tanh(f) }""",
    "OnnxSlim#95 reshape_as": """(float[n,1,h,w] x) => (float[n,h,w] y) { p = Squeeze(x, [1])
        f = Flatten<axis=1>(p) m = Softmax<axis=1>(f) s = Shape(p) n0 = Slice(s, [0], [1]) h0 = Slice(s, [1], [2])
        w0 = Slice(s, [2], [3]) t = Concat<axis=0>(n0, h0, w0) y = Reshape(m, t) }""",
    "OnnxSlim#240 Slice to the size that is there": """(float[n,3,8,8] x, float[n,2,8,8] z) => (float[n,5,8,8] y) {
        a = Slice(x, [0], [8], [2]) b = Slice(a, [0], [8], [3]) y = Concat<axis=1>(b, z) }""",
    "onnxscript#1758 three Slice for an index": """(float[n,6,h,w] x) => (float[n,2,h,w] y) {
        a = Slice(x, [0], [LAST], [0], [1]) b = Slice(a, [2], [4], [1], [1]) c = Slice(b, [0], [LAST], [2], [1])
        d = Slice(c, [0], [LAST], [3], [1]) y = Neg(d) }""",
    "onnxscript#1775 Reshape, Transpose, Reshape": """(float[2,6,8] x) => (float[6,8,2] y) {
        a = Reshape(x, [2,2,3,4,2]) b = Transpose<perm=[1,2,3,4,0]>(a) y = Reshape(b, [6,8,2]) }""",
    "onnxscript#2736 sizes to a Reshape": """(float[n,t,12] x) => (float[n,t,3,4] y) { s = Shape(x)
        a = Slice(s, [0], [2]) d = Gather(s, 2) e = Div(d, 4) u = Unsqueeze(e, [0]) c = Concat<axis=0>(a, u, [4])
        y = Reshape(x, c) }""",
    "onnxruntime#5457 biases joined and cut": """(float[n,4] q, float[n,4] k, float[n,4] v) =>
        (float[n,4] a, float[n,4] b, float[n,4] c) { j = Concat<axis=0>(V4, W4, V4) s = Slice(j, [0], [4], [0])
        t = Slice(j, [4], [8], [0]) u = Slice(j, [8], [12], [0]) a = Add(q, s) b = Add(k, t) c = Add(v, u) }""",
    "onnxruntime#21375 DQ, Flatten, Q": """(uint8[n,3,4] x) => (uint8[n,12] y) { d = DequantizeLinear(x, sc, zp)
        f = Flatten(d) y = QuantizeLinear(f, sc, zp) }""",
    "onnxruntime#21496 DQ, Pad, Q": """(uint8[n,3] x) => (uint8[n,5] y) { d = DequantizeLinear(x, sc, zp)
        f = Pad(d, [0,1,0,1]) y = QuantizeLinear(f, sc, zp) }""",
    "onnxruntime#5585 equal Pads and pools": """(float[n,3,h,w] x) => (float[n,3,h,w] y) { a = Pad(x, [0,0,1,1,0,0,1,1])
        b = Pad(x, P1) c = AveragePool<kernel_shape=[3,3]>(a) d = AveragePool<kernel_shape=[3,3]>(b) y = Mul(c, d) }""",
    "onnx-mlir#3132 consecutive Clips": """(float[n,m] x) => (float[n,m] y) { a = Clip(x, zero, six)
        b = Clip(a, zero, two) c = Relu(b) y = Min(c, six) }""",
    "optimizer#54 Pad and pools": """(float[n,3,h,w] x) => (float[n,3,p,q] y, float[n,3,p,q] z) {
        a = Pad(x, [0,0,1,1,0,0,1,1]) y = AveragePool<kernel_shape=[3,3], strides=[2,2], count_include_pad=1>(a)
        b = Pad(x, [0,0,1,1,0,0,1,1], low) z = MaxPool<kernel_shape=[3,3], strides=[2,2]>(b) }""",
    "optimizer: reductions and Unsqueeze": """(float[n,t,4] x) => (float[n,1,4] y, int64[n,t] i) {
        a = ReduceMax<axes=[1], keepdims=0>(x) y = Unsqueeze(a, [1]) b = ArgMax<axis=2, keepdims=1>(x)
        i = Squeeze(b, [2]) }""",
    "tensorflow-onnx#15 layouts": """(float[n,h,w,3] x) => (float[n,h,w,4] y) { a = Transpose<perm=[0,3,1,2]>(x)
        c = Conv(a, K4) t = Transpose<perm=[0,2,3,1]>(c) b = Add(t, V4) r = Relu(b) u = Transpose<perm=[0,3,1,2]>(r)
        d = Conv(u, K44) y = Transpose<perm=[0,2,3,1]>(d) }""",
    "tensorflow-onnx#977 pool and mean in NHWC": """(float[n,3,h,w] x) => (float[n,3] y) {
        a = Transpose<perm=[0,2,3,1]>(x) b = Relu(a) c = Transpose<perm=[0,3,1,2]>(b)
        d = MaxPool<kernel_shape=[2,2]>(c) e = Transpose<perm=[0,2,3,1]>(d) y = ReduceMean<axes=[1,2], keepdims=0>(e)
        }""",
    "tensorflow-onnx: Conv1D": """(float[n,t,3] x) => (float[n,k,4] y) { a = Unsqueeze(x, [1])
        b = Transpose<perm=[0,3,1,2]>(a) c = Conv(b, K4) d = Transpose<perm=[0,2,3,1]>(c) e = Squeeze(d, [1])
        y = Relu(e) }""",
    "channels last: Concat": """(float[n,3,h,w] x, float[n,4,h,w] z) => (float[n,p,h,w] y) {
        a = Transpose<perm=[0,2,3,1]>(x) b = Transpose<perm=[0,2,3,1]>(z) c = Concat<axis=3>(a, b)
        d = Transpose<perm=[0,3,1,2]>(c) y = Tanh(d) }""",
    "channels last: Pad": """(float[n,3,h,w] x) => (float[n,4,p,q] y) { a = Transpose<perm=[0,2,3,1]>(x)
        b = Pad(a, [0,1,1,0,0,1,1,0]) c = Transpose<perm=[0,3,1,2]>(b) y = Conv(c, K4) }""",
    "channels last: Split": """(float[n,4,h,w] x) => (float[n,2,h,w] y, float[n,2,h,w] z) {
        a = Transpose<perm=[0,2,3,1]>(x) b, c = Split<axis=3>(a, [2,2]) y = Transpose<perm=[0,3,1,2]>(b)
        z = Transpose<perm=[0,3,1,2]>(c) }""",
    "channels last: Softmax": """(float[n,4,h,w] x) => (float[n,4,h,w] y) { a = Transpose<perm=[0,2,3,1]>(x)
        b = Softmax<axis=3>(a) y = Transpose<perm=[0,3,1,2]>(b) }""",
    "channels last: Slice": """(float[n,4,h,w] x) => (float[n,4,p,q] y) { a = Transpose<perm=[0,2,3,1]>(x)
        b = Slice(a, [1,0], [LAST,-1], [1,2]) y = Transpose<perm=[0,3,1,2]>(b) }""",
    "channels last: squeeze and excite": """(float[n,4,h,w] x) => (float[n,4,h,w] y) {
        a = Transpose<perm=[0,2,3,1]>(x) m = ReduceMax<axes=[1,2]>(a) s = HardSigmoid(m) e = Mul(a, s)
        y = Transpose<perm=[0,3,1,2]>(e) }""",
    "channels last: activations": """(float[n,4,h,w] x) => (float[n,4,h,w] y) { a = Transpose<perm=[0,2,3,1]>(x)
        b = LeakyRelu(a) c = HardSwish(b) d = Elu(c) e = Clip(d, zero, six) f = Softplus(e)
        y = Transpose<perm=[0,3,1,2]>(f) }""",
    "channels last: PRelu and Where": """(float[n,4,h,w] x, bool[1] c) => (float[n,4,h,w] y) {
        a = Transpose<perm=[0,2,3,1]>(x) b = PRelu(a, V4) d = Where(c, a, b) e = Neg(d)
        y = Transpose<perm=[0,3,1,2]>(e) }""",
    "channels last: Resize": """(float[n,4,h,w] x) => (float[n,4,p,q] y) { a = Transpose<perm=[0,2,3,1]>(x)
        b = Resize<mode="nearest">(a, , SL) y = Transpose<perm=[0,3,1,2]>(b) }""",
    "channels last: quantized": """(uint8[n,4,h,w] x) => (uint8[n,4,h,w] y) { d = DequantizeLinear(x, sc, zp)
        a = Transpose<perm=[0,2,3,1]>(d) b = Relu(a) q = QuantizeLinear(b, sc, zp)
        y = Transpose<perm=[0,3,1,2]>(q) }""",
    "channels last: flattened": """(float[n,4,h,w] x) => (float[n,k] y) { a = Transpose<perm=[0,2,3,1]>(x) b = Neg(a)
        c = Transpose<perm=[0,3,1,2]>(b) y = Flatten(c) }""",
    "onnx2tf#257 Reshape, Expand, Unsqueeze": """(float[1,7,5,2] x) => (float[1,7,5,2] y) { a = Reshape(x, [7,5,2])
        b = Expand(a, [1,7,5,2]) c = Reshape(b, [7,5,2]) d = Unsqueeze(c, [0]) e = Squeeze(d, [0]) f = Unsqueeze(e, [0])
        y = Neg(f) }""",
    "onnxsim#356 q, k, v": """(float[n,t,4] x) => (float[n,t,t] y) { q = MatMul(x, M44) k = MatMul(x, N44)
        kt = Transpose<perm=[0,2,1]>(k) s = MatMul(q, kt) y = Softmax<axis=-1>(s) }""",
    "onnxsim#576 Reshapes around elementwise": """(float[n,t,4] x) => (float[n,t,4] y) { s = Shape(x)
        a = Reshape(x, [-1,4]) b = Gemm(a, M44, V4) c = Reshape(b, s) d = Relu(c) e = Reshape(d, [-1,4])
        f = Gemm(e, N44, W4) y = Reshape(f, s) }""",
    "onnxruntime#24823 scales behind Identity": """(float[n,3,h,w] x) => (float[n,3,p,q] y) { i = Identity(SC)
        a = Resize<mode="linear">(x, , i) b = Dropout(a) y = Identity(b) }""",
    "swin: windows": """(float[1,8,8,3] x) => (float[4,16,3] y) { a = Slice(x, [2], [LAST], [1])
        b = Slice(x, [0], [2], [1])
        c = Concat<axis=1>(a, b) d = Slice(c, [2], [LAST], [2]) e = Slice(c, [0], [2], [2]) f = Concat<axis=2>(d, e)
        g = Reshape(f, [1,2,4,2,4,3]) h = Transpose<perm=[0,1,3,2,4,5]>(g) i = Reshape(h, [-1,4,4,3])
        y = Reshape(i, [-1,16,3]) }""",
    "pytorch#24316 sizes for interpolate": """(float[n,3,h,w] x) => (float[n,3,6,6] y) { s = Shape(x)
        a = Slice(s, [0], [2], [0]) b = Cast<to=7>(a) c = Concat<axis=0>(b, [6,6])
        y = Resize<mode="linear">(x, , , c) }""",
    "torch: expand of -1": """(float[1,m] x, float[n,m] z) => (float[n,m] y) { s = Shape(z) b = Gather(s, 0)
        u = Unsqueeze(b, [0]) t = Concat<axis=0>(u, [-1]) o = ConstantOfShape<value=int64[1]{1}>([2]) neg = Mul(o, -1)
        e = Equal(t, neg) w = Where(e, o, t) r = Expand(x, w) y = Add(r, z) }""",
    "torch: mask of a causal decoder": """(float[n,t,4] x) => (float[n,t,t] y) { s = Shape(x) t0 = Gather(s, [1])
        q = Concat<axis=0>(t0, t0) o = ConstantOfShape<value=float[1]{1.0}>(q) l = Trilu<upper=0>(o)
        k = Equal(l, zero) m = Where(k, low, zero) xt = Transpose<perm=[0,2,1]>(x) a = MatMul(x, xt)
        u = Unsqueeze(m, [0]) b = Add(a, u) y = Softmax(b) }""",
    "torch: LSTM with zero states": """(float[n,t,3] x) => (float[n,t,4] y) { s = Shape(x) b = Gather(s, 0)
        u = Unsqueeze(b, [0]) z = Concat<axis=0>([1], u, [4]) h0 = ConstantOfShape(z) c0 = ConstantOfShape(z)
        xt = Transpose<perm=[1,0,2]>(x) r, hn, cn = LSTM<hidden_size=4>(xt, LW, LR, , , h0, c0) q = Squeeze(r, [1])
        y = Transpose<perm=[1,0,2]>(q) }""",
    "yolo: boxes": """(float[n,6,k] x) => (float[n,k,6] y) { a, s = Split<axis=1>(x, [4,2])
        c, d = Split<axis=1>(a, [2,2]) h = Div(d, two) l = Sub(c, h) r = Add(c, h) b = Concat<axis=1>(l, r)
        p = Sigmoid(s) j = Concat<axis=1>(b, p) y = Transpose<perm=[0,2,1]>(j) }""",
    "paddle: Split and Concat": """(float[n,6,h,w] x) => (float[n,6,h,w] y) { a, b, c = Split<axis=1>(x, [2,2,2])
        d = Concat<axis=1>(a, b, c) e = Concat<axis=0>(d) y = HardSwish(e) }""",
    "paddle: slices in a row": """(float[n,c,h,w] x) => (float[n,c,p,q] y) { a = Slice(x, [1], [LAST], [2])
        b = Slice(a, [0], [-1], [2]) c0 = Slice(b, [1], [LAST], [3]) d = Slice(c0, [0], [-1], [3]) y = Exp(d) }""",
    "quantized: pair of DQ": """(uint8[n,4] x) => (float[n,4] y) { d = DequantizeLinear(x, sc, zp)
        q = QuantizeLinear(d, sc, zp) e = DequantizeLinear(q, sc, zp) f = QuantizeLinear(e, sc, zp)
        y = DequantizeLinear(f, sc, zp) }""",
    "casts there and back": """(float16[n,m] x, int32[n,m] i) => (float16[n,m] y, int32[n,m] j) { a = Cast<to=1>(x)
        b = Cast<to=11>(a) c = Cast<to=1>(b) d = Relu(c) y = Cast<to=10>(d) k = Cast<to=7>(i) l = Neg(k)
        m0 = Cast<to=6>(l) j = Cast<to=6>(m0) }""",
    "neutral numbers": """(float[n,m] x, bool[n,m] b) => (float[n,m] y, bool[n,m] c) { a = Mul(x, one) d = Div(a, one)
        e = Sub(d, zero) f = Neg(e) g = Neg(f) h = Abs(g) i = Abs(h) y = Relu(i) j = Not(b) k = Not(j)
        c = And(k, k) }""",
    "gelu by erf": """(float[n,8] x) => (float[n,8] y) { d = Div(x, root2) e = Erf(d) a = Add(e, one) m = Mul(x, a)
        y = Mul(m, half) }""",
    "gather of one and Unsqueeze": """(float[n,5,t] x) => (float[n,1,t] y, float[n,t] z) { a = Gather<axis=1>(x, 2)
        y = Unsqueeze(a, [1]) b = Slice(x, [2], [3], [1]) z = Squeeze(b, [1]) }""",
    "slices of all parts": """(float[n,6] x) => (float[n,2] a, float[n,2] b, float[n,2] c) { p = Slice(x, [0], [2], [1])
        q = Slice(x, [2], [4], [1]) r = Slice(x, [4], [6], [1]) a = Exp(p) b = Tanh(q) c = Neg(r) }""",
    "log of softmax": """(float[n,5] x) => (float[n,5] y) { s = Softmax<axis=1>(x) y = Log(s) }""",
    "transposes into products": """(float[n,4,t] x, float[n,4,u] z) => (float[n,t,u] y, float[4,n] w) {
        a = Transpose<perm=[0,2,1]>(x) y = MatMul(a, z) m = ReduceMax<axes=[2], keepdims=0>(x)
        w = Transpose<perm=[1,0]>(m) }""",
    "a position embedding": """(int64[n,t] x) => (float[n,t,4] y) { s = Shape(x) t0 = Gather(s, 1)
        r = Range(0, t0, 1) u = Unsqueeze(r, [0]) e = Expand(u, s) p = Gather(P94, e) v = Gather(P94, x)
        y = Add(v, p) }""",
    "Where of the same, Loop-free": """(float[n,m] x) => (float[n,m] y) { s = Shape(x) z = ConstantOfShape(s)
        g = Greater(z, one) w = Where(g, z, x) k = Pow(w, one) y = Concat<axis=1>(k) }""",
}


def _held() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = {"K4": (4, 3, 1, 2), "K44": (4, 4, 1, 1), "M54": (5, 4), "V5": (5,), "M44": (4, 4), "N44": (4, 4)}
    shapes |= {"V4": (4,), "W4": (4,), "LW": (1, 16, 3), "LR": (1, 16, 4), "P94": (9, 4)}
    found = {name: rng.standard_normal(shape).astype("f") for name, shape in shapes.items()}
    numbers = {
        "zero": 0,
        "one": 1,
        "two": 2,
        "six": 6,
        "half": 0.5,
        "low": -3.4028235e38,
        "sc": 0.5,
        "root2": 1.4142135,
    }
    found |= {name: np.array(held, "f") for name, held in numbers.items()}
    return {
        **found,
        "zp": np.array(3, "u1"),
        "SC": np.array([1, 1, 2, 2], "f"),
        "SL": np.array([1, 2, 2, 1], "f"),
        "P1": np.array([0, 0, 1, 1] * 2),
    }


def model(name: str) -> onnx.ModelProto:
    """The graph of a report; the integers among operands become initializers."""
    head, arrow, body = GRAPHS[name].partition("=>")
    numbers: dict[str, np.ndarray] = {}

    def named(found: re.Match[str]) -> str:
        listed = found[0].startswith("[")
        value = [LAST if each == "LAST" else int(each) for each in found[0].strip("[]").split(",")]
        key = f"{'list' if listed else 'number'}{found[0].strip('[]').replace(',', '_').replace('-', 'm')}"
        numbers[key] = np.array(value if listed else value[0], np.int64)
        return key

    body = re.sub(r"(?<![=\w])\[[^\]]*\]|(?<=[( ])-?\d+(?=[,)])", named, body)
    graph = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {head}{arrow}{body}')
    read = {each for node in graph.graph.node for each in node.input}
    held = numbers | {key: value for key, value in _held().items() if key in read}
    graph.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), key) for key, value in held.items())
    onnx.checker.check_model(graph, full_check=True)
    return graph


def written(folder: Path) -> dict[str, Path]:
    """All of them in files, by name."""
    found = {name: folder / f"report{number}.onnx" for number, name in enumerate(GRAPHS)}
    for name, path in found.items():
        onnx.save(model(name), path)
    return found
