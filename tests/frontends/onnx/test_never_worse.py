"""Small models of many opsets, element types and structures, with facts and without: each is written with no more
nodes than it came with, checks apart, gives ONNX Runtime's results of the original, rejects what a fact excludes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx

import egshape
from egshape.facts import Facts
from egshape.frontends.onnx.own import count_of
from egshape.ir.types import numpy_dtype
from tests.frontends.onnx.test_control_out import model_of, session


@dataclass(frozen=True)
class Case:
    """A model over the sizes n and m, and facts that are assumed of it."""

    name: str
    opset: int
    text: str
    facts: Sequence[str] = ()
    quick: bool = False


CASES = [
    Case(
        "o9 where",
        9,
        """g (float[n,m] x) => (float[n,m] z) <float h={0.5}> { f = Greater(x, h) z = Where(f, x, h) }""",
        (),
    ),
    Case(
        "o9 slice attr",
        9,
        """g (float[n,m] x) => (float[k,m] z) { z = Slice<axes=[0],starts=[0],ends=[-1]>(x) }""",
        (),
        quick=True,
    ),
    Case(
        "o9 upsample",
        9,
        """g (float[1,n,4,4] x) => (float[1,n,8,8] z) <float[4] s={1.0,1.0,2.0,2.0}> { z =
        Upsample<mode="nearest">(x, s) }""",
        (),
    ),
    Case(
        "o10 topk",
        10,
        """g (float[n,8] x) => (float[n,3] v, int64[n,3] i) <int64[1] k={3}> { v, i = TopK<axis=1>(x, k) }""",
        (),
    ),
    Case(
        "o11 seq2",
        11,
        """g (float[n,m] x, float[n,m] y) => (float[k,m] z) { s = SequenceConstruct(x, y) z =
        ConcatFromSequence<axis=0>(s) }""",
        (),
    ),
    Case(
        "o11 seqat",
        11,
        """g (float[n,m] x, float[n,m] y) => (float[n,m] z) <int64 one={1}> { s = SequenceConstruct(x, y) z
        = SequenceAt(s, one) }""",
        (),
    ),
    Case(
        "o12 cumsum", 12, """g (float[n,m] x) => (float[n,m] z) <int64 a={0}> { z = CumSum<exclusive=1>(x, a) }""", ()
    ),
    Case(
        "o13 qdq",
        13,
        """g (float[n,m] x) => (float[n,m] z) <float s={0.1}, uint8 zp={3}> { q = QuantizeLinear(x, s, zp)
        z = DequantizeLinear(q, s, zp) }""",
        (),
    ),
    Case(
        "o13 dql",
        13,
        """g (float[n,m] x) => (float[n,m] z) { q, s, zp = DynamicQuantizeLinear(x) z = DequantizeLinear(q,
        s, zp) }""",
        (),
    ),
    Case(
        "o13 qmatmul",
        13,
        """g (uint8[n,4] x) => (int32[n,2] z) <int8[4,2] w={1,2,3,4,5,6,7,-8}, uint8 zp={3}> { z =
        MatMulInteger(x, w, zp) }""",
        (),
    ),
    Case(
        "o13 scatter",
        13,
        """g (float[n,4] x, float[n,2] u) => (float[n,4] z) <int64[1,2] i={1,3}> { s = Shape(u) j =
        Expand(i, s) z = ScatterElements<axis=1>(x, j, u) }""",
        (),
        quick=True,
    ),
    Case(
        "o13 gathernd",
        13,
        """g (float[n,4] x) => (float[n] z) <int64[1] zero={0}, int64[1,1] i={3}, int64[1] one={1}> { s =
        Shape(x) a = Gather(s, zero) b = Concat<axis=0>(a, one) j = Expand(i, b) z =
        GatherND<batch_dims=1>(x, j) }""",
        (),
    ),
    Case(
        "o13 compress",
        13,
        """g (float[n,m] x, bool[n] c) => (float[k,m] z) { y = Compress<axis=0>(x, c) z = Tanh(y) }""",
        (),
    ),
    Case(
        "o13 pad",
        13,
        """g (float[n,m] x) => (float[k,m] z) <int64[4] p={1,0,2,0}, float v={7.0}> { z = Pad(x, p, v) }""",
        (),
    ),
    Case(
        "o13 padneg",
        13,
        """g (float[n,m] x) => (float[k,m] z) <int64[4] p={-1,0,0,0}> { z = Pad(x, p) }""",
        ("n >= 1",),
    ),
    Case(
        "o13 padreflect",
        13,
        """g (float[n,m] x) => (float[k,m] z) <int64[4] p={1,0,1,0}> { z = Pad<mode="reflect">(x, p) }""",
        ("n >= 2",),
    ),
    Case(
        "o13 split",
        13,
        """g (float[n,m] x) => (float[a,m] y, float[b,m] z) { y, z = Split<axis=0>(x) }""",
        ("n % 2 == 0",),
    ),
    Case("o13 tile", 13, """g (float[n,m] x) => (float[a,m] y) <int64[2] r={2,1}> { y = Tile(x, r) }""", ()),
    Case(
        "o13 f16",
        13,
        """g (float16[n,m] x) => (float16[n,m] y) { a = Cast<to=1>(x) b = Exp(a) y = Cast<to=10>(b) }""",
        (),
    ),
    Case(
        "o13 i8", 13, """g (int8[n,m] x) => (int8[n,m] y) { a = Cast<to=7>(x) b = Mul(a, a) y = Cast<to=3>(b) }""", ()
    ),
    Case(
        "o13 onehot",
        13,
        """g (int64[n] x) => (float[n,5] y) <int64 d={5}, float[2] v={0.0,1.0}> { y = OneHot(x, d, v) }""",
        (),
    ),
    Case(
        "o14 reshape0", 14, """g (float[n,m] x) => (float[a,b] y) { s = Shape(x) y = Reshape<allowzero=1>(x, s) }""", ()
    ),
    Case("o14 trilu", 14, """g (float[n,m] x) => (float[n,m] y) { y = Trilu<upper=1>(x) }""", ()),
    Case(
        "o16 gridless",
        16,
        """g (float[n,m] x) => (float[n,m] z) <float s={0.2}> { a = LeakyRelu<alpha=0.1>(x) z = PRelu(a, s)
        }""",
        (),
    ),
    Case(
        "o17 seqmap",
        17,
        """g (float[n,m] x, float[n,m] y) => (float[k,m] z) { s = SequenceConstruct(x, y) t =
        SequenceMap<body = b (float[n,m] a) => (float[n,m] o) { o = Tanh(a) }>(s) z =
        ConcatFromSequence<axis=0>(t) }""",
        (),
    ),
    Case(
        "o18 reducemaxc",
        18,
        """g (float[n,m] x) => (float[1,m] z) <int64[1] a={0}> { z = ReduceMax<keepdims=1>(x, a) }""",
        ("n >= 1",),
    ),
    Case(
        "o18 splitn",
        18,
        """g (float[n,m] x) => (float[a,m] y, float[b,m] z) { y, z = Split<axis=0,num_outputs=2>(x) }""",
        (),
        quick=True,
    ),
    Case("o18 bitwise", 18, """g (int32[n,m] x) => (int32[n,m] y) { a = BitwiseNot(x) y = BitwiseXor(a, x) }""", ()),
    Case(
        "o18 center",
        18,
        """g (float[n,m] x) => (float[2,m] y) <int64[1] s={2}, int64[1] a={0}> { y =
        CenterCropPad<axes=[0]>(x, s) }""",
        (),
    ),
    Case("o19 cast8", 19, """g (float[n,m] x) => (float[n,m] y) { a = Cast<to=17>(x) y = Cast<to=1>(a) }""", ()),
    Case("o20 isinf", 20, """g (float[n,m] x) => (bool[n,m] y) { a = Log(x) y = IsInf(a) }""", ()),
    Case(
        "o21 int4",
        21,
        """g (float[n,4] x) => (float[n,4] y) <float s={0.5}, int8 zp={1}> { q = QuantizeLinear(x, s, zp) y
        = DequantizeLinear(q, s, zp) }""",
        (),
    ),
    Case("o21 size", 21, """g (float[n,m] x) => (int64 y) { y = Size(x) }""", (), quick=True),
    Case(
        "ceil",
        17,
        """g (float[n,m] x) => (float[k] y) <float two={2.0}, float one={1.0}, float zero={0.0}, int64[1]
        z={0}> { s = Shape(x) a = Gather(s, z) f = Cast<to=1>(a) q = Div(f, two) c = Ceil(q) i =
        Cast<to=7>(c) y = ConstantOfShape(i) }""",
        (),
    ),
    Case(
        "ceil2",
        17,
        """g (float[n,m] x) => (float[k] y) <int64[1] two={2}, int64[1] one={1}, int64[1] z={0}> { s =
        Shape(x) a = Gather(s, z) f = Add(a, one) q = Div(f, two) y = ConstantOfShape(q) }""",
        (),
    ),
    Case(
        "facts many",
        17,
        """g (float[n,m] x) => (float[n,m] y) { y = Tanh(x) }""",
        ("n in [1,4] or [8,8]", "m <= 4", "n != 2"),
    ),
    Case("fact eq", 17, """g (float[n,m] x, float[m,n] w) => (float[n,n] y) { y = MatMul(x, w) }""", ("n == m",)),
    Case("fact le", 17, """g (float[n,m] x, float[m,n] w) => (float[n,n] y) { y = MatMul(x, w) }""", ("n <= m",)),
    Case(
        "fact loop",
        17,
        """g (float[n,m] x, int64 trip) => (float[n,m] z, float[k,n,m] r) { z, r = Loop(trip, , x) <body =
        b (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w, float[n,m] o) { d = Identity(c) w =
        Tanh(v) o = Exp(w) }> }""",
        ("n <= 8", "m >= 1"),
    ),
    Case(
        "loop scanout reshape",
        17,
        """g (float[n,m] x, int64 trip) => (float[k,l] r) <int64[1] fl={-1}> { z, r = Loop(trip, , x) <body
        = b (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w, float[l] o) { d = Identity(c) w =
        Tanh(v) o = Reshape(w, fl) }> }""",
        ("n >= 1", "m >= 1"),
        quick=True,
    ),
    Case(
        "loop rows scalar",
        17,
        """g (float[n,m] x, int64 trip) => (float[k] r) { z, r = Loop(trip, , x) <body = b (int64 i, bool
        c, float[n,m] v) => (bool d, float[n,m] w, float o) { d = Identity(c) w = Tanh(v) o =
        ReduceSum<keepdims=0>(w) }> }""",
        (),
    ),
    Case(
        "loop outer gather",
        17,
        """g (float[n,m] x, float[m] h) => (float[m] z) <int64 zero={0}> { s = Shape(x) t = Gather(s, zero)
        z = Loop(t, , h) <body = b (int64 i, bool c, float[m] v) => (bool d, float[m] w) { d =
        Identity(c) e = Gather(x, i) u = Tanh(v) w = Add(u, e) }> }""",
        (),
    ),
    Case(
        "loop shapebody",
        17,
        """g (float[n,m] x, int64 trip) => (float[n,m] z) { z = Loop(trip, , x) <body = b (int64 i, bool c,
        float[n,m] v) => (bool d, float[n,m] w) { d = Identity(c) s = Shape(v) t =
        Reshape<allowzero=1>(v, s) e = Expand(t, s) w = Tanh(e) }> }""",
        (),
    ),
    Case("zeroaxis", 17, """g (float[n,0] x, float[n,m] y) => (float[n,m] z) { z = Concat<axis=1>(x, y) }""", ()),
    Case(
        "zeroconst",
        17,
        """g (float[n,m] x) => (float[n,m] z) <int64[1] zero={0}, int64[1] one={1}, float[0,1] e={}> { s =
        Shape(x) q = Gather(s, one) zz = Concat<axis=0>(zero, q) f = Expand(e, zz) z = Concat<axis=0>(x,
        f) }""",
        (),
    ),
    Case(
        "range",
        17,
        """g (float[n,m] x) => (int64[n] z) <int64 zero={0}, int64 one={1}> { s = Shape(x) a = Gather(s,
        zero) z = Range(zero, a, one) }""",
        (),
    ),
    Case(
        "resize",
        17,
        """g (float[1,1,n,m] x) => (float[1,1,a,b] z) <float[4] sc={1.0,1.0,2.0,0.5}> { z =
        Resize<mode="nearest">(x, , sc) }""",
        ("n >= 1", "m >= 2"),
    ),
    Case(
        "if shape",
        17,
        """g (float[n,m] x) => (float[n,m] z) <int64 zero={0}, int64 four={4}> { s = Shape(x) a = Gather(s,
        zero) c = Less(a, four) z = If(c) <then_branch = t () => (float[n,m] p) { p = Tanh(x) },
        else_branch = e () => (float[n,m] q) { q = Neg(x) }> }""",
        ("n <= 3",),
    ),
    Case(
        "cast size f16",
        17,
        """g (float[n,m] x) => (float[k] y) <int64[1] z={0}> { s = Shape(x) a = Gather(s, z) f =
        Cast<to=10>(a) i = Cast<to=7>(f) y = ConstantOfShape(i) }""",
        (),
    ),
    Case(
        "slice end",
        13,
        """g (float[n,m] x) => (float[k,m] z) <int64[1] a={0}, int64[1] e={-1}> { z = Slice(x, a, e) }""",
        (),
    ),
    Case(
        "slice start",
        13,
        """g (float[n,m] x) => (float[k,m] z) <int64[1] a={-2}, int64[1] e={9999}> { z = Slice(x, a, e) }""",
        (),
        quick=True,
    ),
    Case(
        "slice mid",
        9,
        """g (float[n,m] x) => (float[k,l] z) { z = Slice<axes=[0,1],starts=[-3,-2],ends=[-1,-1]>(x) }""",
        (),
    ),
    Case(
        "slice step",
        13,
        """g (float[n,m] x) => (float[k,m] z) <int64[1] a={1}, int64[1] e={-1}, int64[1] ax={0}, int64[1]
        st={2}> { z = Slice(x, a, e, ax, st) }""",
        (),
        quick=True,
    ),
    Case(
        "slice back",
        13,
        """g (float[n,m] x) => (float[k,m] z) <int64[1] a={-1}, int64[1] e={-9223372036854775807}, int64[1]
        ax={0}, int64[1] st={-1}> { z = Slice(x, a, e, ax, st) }""",
        (),
    ),
    Case(
        "slice back in steps",
        13,
        """g (float[n,m] x) => (float[k,m] z) <int64[1] a={-1}, int64[1] e={-9223372036854775807}, int64[1]
        ax={0}, int64[1] st={-2}> { z = Slice(x, a, e, ax, st) }""",
        (),
        quick=True,
    ),
    Case(
        "shift",
        13,
        """g (float[n,m] x) => (float[n,m] z) <int64[1] a={0}, int64[1] e={-1}, int64[1] b={1}, int64[1]
        ax={0}, int64[1] last={99999}> { p = Slice(x, a, e, ax) q = Slice(x, a, b, ax) z =
        Concat<axis=0>(q, p) }""",
        ("n >= 1",),
    ),
    Case(
        "loop cond not",
        17,
        """g (float[n,m] x, int64 trip) => (float[n,m] z) <bool t={1}> { z = Loop(trip, t, x) <body = b
        (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w) { d = Not(c) w = Tanh(v) }> }""",
        (),
    ),
    Case(
        "loop carry i",
        17,
        """g (float[n,m] x, int64 trip) => (int64 z) <int64 s={5}> { z = Loop(trip, , s) <body = b (int64
        i, bool c, int64 v) => (bool d, int64 w) { d = Identity(c) w = Identity(i) }> }""",
        (),
    ),
    Case(
        "loop count carry",
        17,
        """g (float[n,m] x, int64 trip) => (int64 z, float[n,m] y) <int64 s={0}, int64 one={1}> { z, y =
        Loop(trip, , s, x) <body = b (int64 i, bool c, int64 v, float[n,m] u) => (bool d, int64 w,
        float[n,m] o) { d = Identity(c) w = Add(v, one) o = Tanh(u) }> }""",
        (),
    ),
    Case(
        "loop rows2",
        17,
        """g (float[n,m] x, int64 trip) => (float[a,n,m] r, int64[b] q) { z, r, q = Loop(trip, , x) <body =
        b (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w, float[n,m] o, int64 j) { d =
        Identity(c) w = Tanh(v) o = Identity(v) j = Identity(i) }> }""",
        (),
    ),
    Case(
        "loop in if",
        17,
        """g (float[n,m] x, int64 trip, bool[1] f) => (float[n,m] y) { y = If(f) <then_branch = t () =>
        (float[n,m] p) { p = Loop(trip, , x) <body = b (int64 i, bool c, float[n,m] v) => (bool d,
        float[n,m] w) { d = Identity(c) w = Tanh(v) }> }, else_branch = e () => (float[n,m] q) { q =
        Neg(x) }> }""",
        (),
    ),
    Case(
        "if in loop outer",
        17,
        """g (float[n,m] x, int64 trip) => (float[n,m] y) <int64 one={1}, float k={3.0}> { y = Loop(trip, ,
        x) <body = b (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] w) { d = Identity(c) e =
        Equal(i, one) w = If(e) <then_branch = t () => (float[n,m] p) { p = Mul(v, k) }, else_branch = e
        () => (float[n,m] q) { q = Add(v, x) }> }> }""",
        (),
    ),
    Case(
        "loop shrinks",
        17,
        """g (float[n,m] x, int64 trip) => (float[k,m] y) <int64[1] a={1}, int64[1] e={99999}, int64[1]
        ax={0}> { y = Loop(trip, , x) <body = b (int64 i, bool c, float[q,m] v) => (bool d, float[r,m]
        w) { d = Identity(c) w = Slice(v, a, e, ax) }> }""",
        (),
    ),
    Case(
        "loop fact trip",
        17,
        """g (float[n,m] x) => (float[n,m] r) <int64 zero={0}> { s = Shape(x) t = Gather(s, zero) r =
        Loop(t, , x) <body = b (int64 i, bool c, float[n,m] v) => (bool d, float[n,m] o) { d =
        Identity(c) o = Tanh(v) }> }""",
        ("n == 3",),
    ),
    Case(
        "scan fact",
        17,
        """g (float[m] h, float[n,m] x) => (float[m] z, float[n,m] y) { z, y = Scan<num_scan_inputs=1, body
        = b (float[m] s, float[m] e) => (float[m] t, float[m] o) { t = Add(s,e) o = Tanh(t) }>(h, x) }""",
        ("n <= 8", "m >= 1", "n >= 1"),
    ),
    Case(
        "scan outconst",
        17,
        """g (float[m] h, float[n,m] x) => (float[m] z, float[n] y) <float one={1.0}> { z, y =
        Scan<num_scan_inputs=1, body = b (float[m] s, float[m] e) => (float[m] t, float o) { t =
        Add(s,e) o = Identity(one) }>(h, x) }""",
        (),
    ),
    Case(
        "scan twice",
        17,
        """g (float[n,m] x) => (float[n,m] y) { a = Scan<num_scan_inputs=1, body = b (float[m] e) =>
        (float[m] o) { o = Tanh(e) }>(x) y = Scan<num_scan_inputs=2, body = b2 (float[m] e2, float[m]
        f2) => (float[m] o2) { o2 = Add(e2, f2) }>(a, x) }""",
        (),
    ),
    Case(
        "expand21",
        21,
        """g (float[n,1] x, float[1,m] y) => (float[n,m] z) { s = Shape(y) a = Expand(x, s) t = Shape(x) b
        = Expand(y, t) z = Add(a, b) }""",
        (),
    ),
    Case(
        "expand11",
        11,
        """g (float[n,1] x, float[1,m] y) => (float[n,m] z) { s = Shape(y) a = Expand(x, s) t = Shape(x) b
        = Expand(y, t) z = Add(a, b) }""",
        (),
    ),
    Case(
        "constofshape",
        17,
        """g (float[n,m] x) => (int8[n,m] z) { s = Shape(x) z = ConstantOfShape<value = int8[1] {3}>(s) }""",
        (),
    ),
    Case("eyelike", 17, """g (float[n,m] x) => (float[n,m] z) { z = EyeLike<k=1>(x) }""", ()),
    Case("f16fact", 17, """g (float16[n,m] x) => (float16[n,m] z) { z = Tanh(x) }""", ("n in {1, 8}", "m != 1")),
    Case(
        "intmod",
        13,
        """g (int32[n,m] x) => (int32[n,m] z) <int32 k={3}> { a = Mod(x, k) b = Div(x, k) c = Mul(b, k) z =
        Add(a, c) }""",
        (),
    ),
    Case("u8", 13, """g (uint8[n,m] x) => (uint8[n,m] z) { a = Cast<to=6>(x) b = Add(a, a) z = Cast<to=2>(b) }""", ()),
    Case(
        "dqlinax",
        13,
        """g (int8[n,2] x) => (float[n,2] z) <float[2] s={0.5,0.25}, int8[2] zp={1,2}> { z =
        DequantizeLinear<axis=1>(x, s, zp) }""",
        (),
    ),
    Case(
        "qconv",
        13,
        """g (uint8[1,1,n,m] x) => (int32[1,1,a,b] z) <uint8[1,1,2,2] w={1,2,3,4}, uint8 zp={1}, uint8
        wz={2}> { z = ConvInteger(x, w, zp, wz) }""",
        ("n >= 2", "m >= 2"),
    ),
    Case("gather neg", 13, """g (float[n,m] x) => (float[m] z) <int64 i={-1}> { z = Gather<axis=0>(x, i) }""", ()),
    Case("flatten0", 13, """g (float[n,m] x) => (float[a,b] z) { z = Flatten<axis=0>(x) }""", ()),
    Case("squeeze", 13, """g (float[n,1,m] x) => (float[n,m] z) { z = Squeeze(x) }""", ("n >= 2", "m >= 2")),
    Case(
        "maxpool",
        13,
        """g (float[1,1,n,m] x) => (float[1,1,a,b] z) { z =
        MaxPool<kernel_shape=[2,2],ceil_mode=1,strides=[2,2]>(x) }""",
        ("n >= 2", "m >= 2"),
    ),
    Case(
        "size rank1", 17, """g (float[n] x, float[n,m] y) => (int64 z, int64[1] s) { z = Size(x) s = Shape(x) }""", ()
    ),
    Case(
        "facts sym",
        17,
        """g (float[n,m] x, float[m,n] y) => (float[n,m] z) { t = Transpose(y) z = Add(x, t) }""",
        ("n < m", "n*m <= 100"),
    ),
    Case("opset22", 22, """g (float[n,m] x) => (float[n,m] z) { z = Mish(x) }""", ()),
    Case("unique", 13, """g (float[n] x) => (float[k] z) { z, i, j, c = Unique(x) }""", ()),
]
SIZES = [(3, 2), (1, 1), (0, 2), (2, 0), (8, 4), (16, 16)]


def _run(runtime: Any, given: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    try:
        return [np.asarray(each) for each in runtime.run(None, given)]
    except Exception:  # the runtime's errors have no common class
        return None


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case.quick else pytest.mark.long, id=case.name) for case in CASES]
)
def test_no_node_more_and_the_same_results(case: Case, tmp_path: Path) -> None:
    model = model_of(case.text, case.opset)
    graph = egshape.load(model.SerializeToString(), "onnx")
    result = egshape.optimize(graph, assume=list(case.facts))
    assert result.report.status != "fallback" and not any("fault" in note for note in result.report.notes)
    egshape.save(result.graph, tmp_path / "m.onnx")
    egshape.save(result.graph, tmp_path / "bare.onnx", checks="none")
    written = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(written, full_check=True)
    assert count_of(onnx.load(tmp_path / "bare.onnx").graph.node) <= count_of(model.graph.node)
    before, after, random = session(model), session(written), np.random.default_rng(0)
    ran, rejected, facts = 0, 0, Facts.parse(*case.facts).statements()
    for n, m in SIZES:
        if "Scan" in case.text and 0 in (n, m):
            continue  # ONNX Runtime's Scan of nothing ends the process
        sizes, given = {"n": n, "m": m}, dict[str, np.ndarray]()
        for value in graph.inputs:
            shape = [size.evaluate(sizes) for size in value.type.dims]
            numbers = random.integers(0, 5, shape) if value.type.dtype[0] in "ui" else random.standard_normal(shape)
            made = np.array(n % 3) if value.name == "trip" else numbers
            given[value.name] = np.asarray(made, numpy_dtype(value.type.dtype))
        found = _run(after, given)
        if not all(fact.holds(sizes) for fact in facts):
            rejected += 1
            assert found is None, sizes
            continue
        wanted = _run(before, given)
        if wanted is None:
            continue
        assert found is not None, sizes
        for one, two in zip(found, wanted, strict=True):
            assert (one.dtype, one.shape) == (two.dtype, two.shape), sizes
            np.testing.assert_allclose(one.astype(np.float64), two.astype(np.float64), rtol=1e-4, atol=1e-5)
        ran += 1
    assert ran and bool(rejected) is bool(case.facts)
