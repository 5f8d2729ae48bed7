"""Every family of ops at symbolic sizes, 0 and 1 included, against ONNX's reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

from tests.frontends.onnx.checking import Case, compare

AB = [{"a": 2, "b": 3}, {"a": 1, "b": 1}, {"a": 0, "b": 3}, {"a": 5, "b": 4}]
IMAGE = [{"n": 1, "h": 5, "w": 7}, {"n": 2, "h": 8, "w": 6}, {"n": 0, "h": 5, "w": 5}]
TIME = [{"t": 3, "b": 2}, {"t": 1, "b": 1}, {"t": 4, "b": 3}]


def _one(
    name: str,
    body: str,
    signature: str = "float[a,b] x",
    out: str = "float[o] y",
    sizes: object = None,
    **options: object,
) -> Case:
    """A case of which the body is the nodes; results are named in ``out``."""
    points = AB if sizes is None else sizes
    return Case(name, f"g ({signature}) => ({out}) {{ {body} }}", points, **options)  # type: ignore[arg-type]


CASES = [
    _one("add-row", "y = Add(x, z)", "float[a,b] x, float[b] z"),
    _one(
        "add-unknown",
        "y = Add(x, z)",
        "float[a,b] x, float[c,b] z",
        sizes=[{"a": 3, "b": 2, "c": 1}, {"a": 1, "b": 2, "c": 4}, {"a": 3, "b": 0, "c": 3}],
    ),
    _one("where-three", "y = Where(c, x, z)", "bool[a,1] c, float[a,b] x, float[b] z"),
    _one("clip-bounds", "lo = Constant<value_float = -0.5>() hi = Constant<value_float = 0.5>() y = Clip(x, lo, hi)"),
    _one(
        "activations",
        "p = Elu<alpha=0.5>(x) q = Selu(p) r = HardSigmoid(q) s = Softplus(r) t = LeakyRelu(s) "
        'u = Gelu<approximate="tanh">(t) v = HardSwish(u) w = Mish(v) y = ThresholdedRelu<alpha=0.1>(w)',
    ),
    _one("prelu-of-one-axis", "y = PRelu(x, z)", "float[a,3,5] x, float[3] z"),
    _one(
        "mod-signs",
        "y = Mod(x, z)",
        "int64[a,b] x, int64[b] z",
        "int64[o] y",
        data={
            "x": lambda n: np.arange(n["a"] * n["b"]).reshape(n["a"], n["b"]) - 3,
            "z": lambda n: np.array([-2, 3, 4, -5][: n["b"]]),
        },
    ),
    _one("reshape-copy-rest", "t = Constant<value = int64[2] {0, -1}>() y = Reshape(x, t)", "float[a,b,4] x"),
    _one("reshape-merge", "t = Constant<value = int64[2] {-1, 4}>() y = Reshape(x, t)", "float[a,b,4] x"),
    _one(
        "reshape-zero",
        "t = Constant<value = int64[2] {0, 3}>() y = Reshape<allowzero=1>(x, t)",
        "float[a,b] x",
        sizes=[{"a": 0, "b": 3}],
    ),
    _one(
        "reshape-of-shape",
        "s = Shape<start=0, end=1>(x) m = Constant<value = int64[1] {-1}>() t = Concat<axis=0>(s, m) y = Reshape(x, t)",
        "float[a,b,4] x",
    ),
    _one(
        "reshape-data", "y = Reshape(x, t)", "float[a,6] x, int64[2] t", sizes=[{"a": 2}, {"a": 1}], data={"t": [3, -1]}
    ),
    _one(
        "flatten-squeeze",
        "f = Flatten<axis=2>(x) i = Constant<value = int64[1] {1}>() u = Unsqueeze(f, i) y = Squeeze(u, i)",
        "float[a,b,3] x",
    ),
    _one(
        "expand-both-ways",
        "y = Expand(x, t)",
        "float[a,1] x, int64[2] t",
        sizes=[{"a": 3}, {"a": 1}],
        data={"t": [1, 4]},
    ),
    _one("expand-no-op", "s = Shape(x) y = Expand(x, s)"),
    _one("tile", "r = Constant<value = int64[2] {2, 3}>() y = Tile(x, r)"),
    _one(
        "slice-ends",
        "s = Constant<value = int64[2] {1, -2}>() e = Constant<value = int64[2] {9223372036854775807, "
        "-1}>() y = Slice(x, s, e)",
    ),
    _one(
        "slice-backwards",
        "s = Constant<value = int64[1] {-1}>() e = Constant<value = int64[1] "
        "{-9223372036854775807}>() i = Constant<value = int64[1] {1}>() t = Constant<value = int64[1] {-2}>() "
        "y = Slice(x, s, e, i, t)",
    ),
    _one("slice-data", "y = Slice(x, s, e)", "float[a,b] x, int64[2] s, int64[2] e", data={"s": [-1, 0], "e": [7, -1]}),
    _one(
        "split-uneven",
        "y, z, w = Split<axis=1, num_outputs=3>(x)",
        "float[a,7] x",
        "float[o] y, float[p] z, float[q] w",
    ),
    _one(
        "pad-modes",
        'p = Constant<value = int64[4] {1, 0, 0, 2}>() y = Pad(x, p) z = Pad<mode="edge">(x, p) '
        'w = Pad<mode="reflect">(x, p)',
        out="float[o] y, float[p] z, float[q] w",
        sizes=[{"a": 3, "b": 4}, {"a": 2, "b": 3}],
    ),
    _one("pad-data", "y = Pad(x, p)", "float[a,b] x, int64[4] p", data={"p": [1, 0, 2, 1]}),
    _one(
        "depth-to-space",
        "y = DepthToSpace<blocksize=2>(x) z = SpaceToDepth<blocksize=2>(y)",
        "float[n,8,h,w] x",
        "float[o] y, float[p] z",
        IMAGE,
    ),
    _one("gather-negative", "y = Gather<axis=1>(x, i)", "float[a,b,5] x, int64[2,2] i", data={"i": [[0, -1], [-1, 0]]}),
    _one(
        "gather-elements",
        "y = GatherElements<axis=1>(x, i)",
        "float[a,b] x, int64[a,2] i",
        sizes=AB[:2],
        data={"i": lambda n: np.full((n["a"], 2), -1)},
    ),
    _one(
        "gather-nd",
        "y = GatherND<batch_dims=1>(x, i)",
        "float[a,b,4] x, int64[a,2] i",
        data={"i": lambda n: np.tile([[-1, 2]], (n["a"], 1))},
    ),
    _one(
        "scatter",
        'y = ScatterElements<axis=1, reduction="add">(x, i, u) z = ScatterND(x, j, v)',
        "float[a,b] x, int64[a,1] i, float[a,1] u, int64[1,1] j, float[1,b] v",
        "float[o] y, float[p] z",
        data={"j": [[0]]},
        sizes=AB[:2],
    ),
    _one(
        "one-hot",
        "d = Constant<value = int64 {4}>() v = Constant<value = float[2] {0.5, 2.0}>() y = OneHot(x, d, v)",
        "int64[a,b] x",
    ),
    _one("reduce-mean", "i = Constant<value = int64[1] {-1}>() y = ReduceMean<keepdims=0>(x, i)"),
    _one(
        "reduce-axes-data",
        "y = ReduceSum<keepdims=0>(x, i) z = ReduceMax(x, i)",
        "float[a,b,3] x, int64[1] i",
        "float[o] y, float[p] z",
        data={"i": [-2]},
    ),
    _one(
        "reduce-others",
        "i = Constant<value = int64[1] {1}>() y = ReduceL2(x, i) z = ReduceLogSumExp(x, i) w = ReduceProd(x, i)",
        out="float[o] y, float[p] z, float[q] w",
        sizes=AB[:2],
    ),
    _one(
        "arg-max-last",
        "y = ArgMax<axis=1, select_last_index=1>(x) z = ArgMin<axis=0, keepdims=0>(x)",
        "int32[a,b] x",
        "int64[o] y, int64[p] z",
        sizes=AB[:2],
    ),
    _one("softmax", "y = Softmax(x) z = LogSoftmax<axis=0>(x)", out="float[o] y, float[p] z"),
    _one("softmax-old", "y = Softmax<axis=2>(x)", "float[a,b,3] x", opset=11),
    _one(
        "layer-norm",
        "y, m, v = LayerNormalization<axis=1>(x, s, s)",
        "float[a,b] x, float[b] s",
        "float[o] y, float[p] m, float[q] v",
        sizes=AB[:2],
    ),
    _one(
        "batch-norm",
        "y = BatchNormalization(x, s, s, s, v)",
        "float[a,3,b] x, float[3] s, float[3] v",
        data={"v": [0.5, 1.0, 2.0]},
    ),
    _one("instance-norm", "y = InstanceNormalization(x, s, s)", "float[n,3,h,w] x, float[3] s", sizes=IMAGE),
    _one(
        "group-norm-by-schema",
        "s = Constant<value = float[4] {1.0, 2.0, 3.0, 4.0}>() y = GroupNormalization<num_groups=2>(x, s, s)",
        "float[n,4,h,w] x",
        sizes=IMAGE[:2],
        opset=21,
    ),
    _one("matmul-batches", "y = MatMul(x, z)", "float[a,1,b,4] x, float[5,4,2] z"),
    _one(
        "matmul-vectors",
        "y = MatMul(x, z) w = MatMul(z, x)",
        "float[a,b] x, float[b] z",
        "float[o] y, float[p] w",
        sizes=[{"a": 3, "b": 3}],
    ),
    _one(
        "gemm", "y = Gemm<transA=1, transB=1, alpha=0.5, beta=2.0>(x, z, c)", "float[4,a] x, float[b,4] z, float[b] c"
    ),
    _one("einsum", 'y = Einsum<equation="bij,bjk,k->ik">(x, z, v)', "float[a,b,4] x, float[a,4,2] z, float[2] v"),
    _one(
        "conv-same",
        'y = Conv<auto_pad="SAME_UPPER", strides=[2,3]>(x, k, c)',
        "float[n,3,h,w] x, float[4,3,3,3] k, float[4] c",
        sizes=IMAGE,
        tolerance=1e-4,
    ),
    _one(
        "conv-grouped",
        "y = Conv<group=2, dilations=[2,1], pads=[1,0,2,1]>(x, k)",
        "float[n,4,h,w] x, float[6,2,2,2] k",
        sizes=IMAGE,
        tolerance=1e-4,
    ),
    _one(
        "conv-transpose",
        "y = ConvTranspose<strides=[2,2], output_padding=[1,0], pads=[1,0,1,1]>(x, k)",
        "float[n,2,h,w] x, float[2,3,3,2] k",
        sizes=IMAGE[:2],
        tolerance=1e-4,
    ),
    _one(
        "pools",
        "y = MaxPool<kernel_shape=[2,3], strides=[2,2], ceil_mode=1>(x) "
        "z = AveragePool<kernel_shape=[3,2], pads=[1,0,1,1], count_include_pad=1>(x) w = GlobalAveragePool(x)",
        "float[n,2,h,w] x",
        "float[o] y, float[p] z, float[q] w",
        IMAGE[:2],
    ),
    _one(
        "resize-scales",
        "r = Constant<value = float[0] {}>() s = Constant<value = float[4] {1.0, 1.0, 2.0, 1.5}>() "
        'y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , s) '
        'z = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , s)',
        "float[n,2,h,w] x",
        "float[o] y, float[p] z",
        IMAGE[:2],
    ),
    _one(
        "resize-sizes",
        'y = Resize<mode="cubic">(x, , , s)',
        "float[n,2,h,w] x, int64[4] s",
        sizes=IMAGE[:1],
        data={"s": [1, 2, 9, 4]},
        tolerance=1e-4,
    ),
    _one(
        "lstm",
        'y, h, c = LSTM<hidden_size=3, direction="bidirectional">(x, w, r, b)',
        "float[t,b,4] x, float[2,12,4] w, float[2,12,3] r, float[2,24] b",
        "float[o] y, float[p] h, float[q] c",
        TIME,
    ),
    _one(
        "gru",
        "y, h = GRU<hidden_size=3, linear_before_reset=1>(x, w, r, b)",
        "float[t,b,4] x, float[1,9,4] w, float[1,9,3] r, float[1,18] b",
        "float[o] y, float[p] h",
        TIME,
    ),
    _one(
        "quantize",
        "q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z) m = MatMulInteger(q, w, z)",
        "float[a,4] x, int8[4,3] w",
        "float[o] y, int32[p] m",
        sizes=[{"a": 3}, {"a": 1}],
    ),
    _one(
        "cumsum",
        "i = Constant<value = int64 {1}>() y = CumSum<exclusive=1>(x, i) z = CumSum<reverse=1>(x, i)",
        out="float[o] y, float[p] z",
    ),
    _one("trilu", "y = Trilu<upper=0>(x)"),
    _one("non-zero", "y = NonZero(x)", "int64[a,b] x", "int64[o] y"),
    _one(
        "top-k-data", "y, i = TopK(x, k)", "float[a,b] x, int64[1] k", "float[o] y, int64[p] i", AB[:1], data={"k": [2]}
    ),
    _one("compress", "y = Compress<axis=1>(x, c)", "float[a,b] x, bool[b] c"),
    _one(
        "range",
        "s = Shape<start=1>(x) i = Constant<value = int64[1] {0}>() n = Squeeze(s, i) "
        "z = Constant<value = int64 {2}>() d = Constant<value = int64 {3}>() y = Range(z, n, d)",
        out="int64[o] y",
        sizes=[{"a": 1, "b": 9}, {"a": 1, "b": 2}, {"a": 1, "b": 0}],
    ),
    _one(
        "range-data", "y = Range(s, e, d)", "float s, float e, float d", sizes=[{}], data={"s": 1.0, "e": 4.2, "d": 0.5}
    ),
    _one(
        "shape-arithmetic", "s = Shape(x) p = ReduceProd<keepdims=1>(s) y = ConstantOfShape<value = float[1] {3.0}>(p)"
    ),
    _one(
        "if-sizes",
        "s = Shape<start=0, end=1>(x) o = Constant<value = int64[1] {1}>() c = Greater(s, o) "
        "y = If(c) <then_branch = t () => (float[a,b] u) { u = Exp(x) }, "
        "else_branch = e () => (float[a,b] v) { v = Neg(x) }>",
    ),
    _one(
        "loop-rows",
        "n = Shape<start=0, end=1>(x) i = Constant<value = int64[1] {0}>() k = Squeeze(n, i) "
        "t = Constant<value = bool {1}>() y, z = Loop(k, t, w) <body = b (int64 j, bool c, float[b] v) => "
        "(bool d, float[b] u, float[b] r) { d = Identity(c) u = Add(v, v) r = Neg(u) }>",
        "float[a,b] x, float[b] w",
        "float[o] y, float[p] z",
        AB[:2],
    ),
    _one(
        "scan-sums",
        "y, z = Scan<num_scan_inputs=1, body = b (float[b] v, float[b] e) => (float[b] u, float[b] r) "
        "{ u = Add(v, e) r = Identity(u) }>(w, x)",
        "float[a,b] x, float[b] w",
        "float[o] y, float[p] z",
    ),
    _one(
        "unique-on-the-host",
        "y, i, j, n = Unique(x)",
        "int64[a] x",
        "int64[o] y, int64[p] i, int64[q] j, int64[r] n",
        sizes=[{"a": 4}, {"a": 1}],
        native=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_the_reference(case: Case) -> None:
    assert compare(case) >= 1
