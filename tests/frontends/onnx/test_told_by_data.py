"""Sizes that only data tells, in every form that ONNX has: each model is loaded, optimized and compiled once, and gives
what ONNX Runtime gives at sizes that nobody compiled for, 0 and 1 included; what that rejects is rejected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError

parser = pytest.importorskip("onnx.parser", reason="ONNX needs the extra onnx")
ort = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, np.dtype[Any]]
Feeds = Mapping[str, Array]


def floats(*shape: int) -> Array:
    """Numbers around 0, some of them 0."""
    drawn = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return np.where(np.abs(drawn) < 0.3, np.float32(0), drawn)


def mask(n: int) -> Array:
    """About half of the places."""
    return np.random.default_rng(n).integers(0, 2, n).astype(bool)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def few(n: int) -> Array:
    """Small integers, many of them equal."""
    return np.random.default_rng(n).integers(0, 4, n).astype(np.int64)


@dataclass(frozen=True)
class Row:
    """A model: ``text`` without its header; ``feeds`` of each size."""

    name: str
    text: str
    feeds: Callable[[int], Feeds]
    sizes: Sequence[int] = (0, 1, 2, 5, 33)


FREE = "float[n,3] x, bool[n] m"

ROWS = [
    Row(
        "mask",
        f"({FREE}) => (float[?,3] y) {{ y = Compress<axis=0>(x, m) }}",
        lambda n: {"x": floats(n, 3), "m": mask(n)},
    ),
    Row(
        "mask all false",
        f"({FREE}) => (float[?,3] y) {{ y = Compress<axis=0>(x, m) }}",
        lambda n: {"x": floats(n, 3), "m": np.zeros(n, bool)},
    ),
    Row(
        "mask by places",
        f"({FREE}) => (float[?,3] y) {{ p = NonZero(m) q = Transpose(p) y = GatherND(x, q) }}",
        lambda n: {"x": floats(n, 3), "m": mask(n)},
    ),
    Row(
        "one mask of two tensors, added",
        """(float[n,3] x, float[n,3] z, bool[n] m) => (float[?,3] y) {
          a = Compress<axis=0>(x, m) b = Compress<axis=0>(z, m) y = Add(a, b) }""",
        lambda n: {"x": floats(n, 3), "z": floats(n, 3) * 2, "m": mask(n)},
    ),
    Row(
        "places of a matrix",
        "(float[n,4] x) => (int64[2,?] p, float[?] y) { p = NonZero(x) q = Transpose(p) y = GatherND(x, q) }",
        lambda n: {"x": floats(n, 4)},
    ),
    Row(
        "filter, worked on and put back",
        """(float[n] x) => (float[n] y) {
          zero = Constant<value = float {0.0}>() m = Greater(x, zero) p = NonZero(m) q = Transpose(p)
          some = GatherND(x, q) work = Exp(some) y = ScatterND(x, q, work) }""",
        lambda n: {"x": floats(n)},
    ),
    Row(
        "mean of what a filter leaves",
        """(float[n] x) => (float y, int64 c) {
          zero = Constant<value = float {0.0}>() m = Greater(x, zero) some = Compress(x, m)
          t = ReduceSum<keepdims=0>(some) c = Size(some) f = Cast<to=1>(c) one = Constant<value = float {1.0}>()
          d = Max(f, one) y = Div(t, d) }""",
        lambda n: {"x": floats(n)},
    ),
    Row(
        "unique with counts",
        "(int64[n] x) => (int64[?] u, int64[?] f, int64[n] i, int64[?] c) { u, f, i, c = Unique(x) }",
        lambda n: {"x": few(n)},
        sizes=(1, 2, 5, 33),
    ),
    Row(
        "unique rows and what belongs to each",
        """(float[n,2] x) => (float[?,2] u, float[n,2] back) {
          u, f, i, c = Unique<axis=0>(x) back = Gather<axis=0>(u, i) }""",
        lambda n: {"x": few(2 * n).reshape(n, 2).astype(np.float32)},
        sizes=(1, 2, 5, 33),
    ),
    Row(
        "shares of unique elements",
        """(int64[n] x) => (float[?] y) {
          u, f, i, c = Unique(x) a = Cast<to=1>(c) b = Cast<to=1>(u) y = Mul(a, b) }""",
        lambda n: {"x": few(n)},
        sizes=(1, 2, 5, 33),
    ),
    Row(
        "the best k, k from data",
        "(float[n,6] x, int64[1] k) => (float[n,?] v, int64[n,?] i) { v, i = TopK(x, k) }",
        lambda n: {"x": floats(n, 6), "k": whole(n % 7)},
    ),
    Row(
        "the best k of as many as pass",
        """(float[n] x, bool[n] m) => (float[?] v, int64[?] i) {
          j = Cast<to=7>(m) k = ReduceSum<keepdims=1>(j) v, i = TopK(x, k) }""",
        lambda n: {"x": np.arange(n)[::-1].astype(np.float32), "m": mask(n)},
    ),
    Row(
        "the best of what a mask leaves",
        """(float[n] x, bool[n] m) => (float[?] v) {
          s = Compress(x, m) k = Shape(s) v, i = TopK(s, k) }""",
        lambda n: {"x": floats(n), "m": mask(n)},
    ),
    Row(
        "tile, times from data",
        "(float[n,2] x, int64[2] t) => (float[?,?] y) { y = Tile(x, t) }",
        lambda n: {"x": floats(n, 2), "t": whole(n % 3, 2)},
    ),
    Row(
        "expand to a size from data",
        "(float[1,n] x, int64[2] t) => (float[?,?] y) { y = Expand(x, t) }",
        lambda n: {"x": floats(1, n), "t": whole(n % 4, 1)},
    ),
    Row(
        "repeat each row so many times as all",
        """(float[n,2] x, int64 r) => (float[?,2] y) {
          one = Constant<value = int64[1] {1}>() u = Unsqueeze(x, one) zero = Constant<value = int64[1] {0}>()
          v = Unsqueeze(r, zero) t = Concat<axis=0>(one, v, one) w = Expand(u, t)
          to = Constant<value = int64[2] {-1, 2}>() y = Reshape(w, to) }""",
        lambda n: {"x": floats(n, 2), "r": np.int64(3)},
    ),
    Row(
        "repeat each row its own number of times",
        """(float[n,2] x, int64[n] r) => (float[?,2] y) {
          axis = Constant<value = int64 {0}>() zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>()
          ends = CumSum(r, axis) total = ReduceSum<keepdims=0>(r) at = Range(zero, total, one)
          a1 = Constant<value = int64[1] {1}>() left = Unsqueeze(at, a1) before = GreaterOrEqual(left, ends)
          b = Cast<to=7>(before) which = ReduceSum<keepdims=0>(b, a1) y = Gather<axis=0>(x, which) }""",
        lambda n: {"x": floats(n, 2), "r": few(n)},
    ),
    Row(
        "range to a number from data",
        """(int64 k) => (int64[?] y) {
          zero = Constant<value = int64 {0}>() two = Constant<value = int64 {2}>() y = Range(zero, k, two) }""",
        lambda n: {"k": np.int64(n)},
    ),
    Row(
        "range between numbers from data",
        "(int64 a, int64 b, int64 d) => (int64[?] y, int64[?] z) { y = Range(a, b, d) z = Mul(y, y) }",
        lambda n: {"a": np.int64(n), "b": np.int64(-3), "d": np.int64(-2)},
    ),
    Row(
        "a slice whose end is data",
        """(float[n,2] x, int64[1] e) => (float[?,2] y) {
          s = Constant<value = int64[1] {0}>() y = Slice(x, s, e, s) }""",
        lambda n: {"x": floats(n, 2), "e": whole(n // 2)},
    ),
    Row(
        "ragged split into three, joined again the other way",
        """(float[n,2] x, int64[3] s) => (float[?,2] y) {
          a, b, c = Split<axis=0>(x, s) y = Concat<axis=0>(c, a, b) }""",
        lambda n: {"x": floats(n, 2), "s": whole(n // 2, n - n // 2 - n // 3, n // 3)},
    ),
    Row(
        "ragged split, each part worked on",
        """(float[n] x, int64[2] s) => (float[?] y, float t) {
          a, b = Split<axis=0>(x, s) c = Exp(a) t = ReduceSum<keepdims=0>(b) y = Mul(c, t) }""",
        lambda n: {"x": floats(n), "s": whole(n // 3, n - n // 3)},
    ),
    Row(
        "split to a sequence and joined",
        """(float[n,2] x) => (float[n,2] y) {
          l = Constant<value = int64[3] {1, 3, 1}>() s = SplitToSequence<axis=0>(x, l)
          y = ConcatFromSequence<axis=0>(s) }""",
        lambda n: {"x": floats(5, 2)},
        sizes=(5,),
    ),
    Row(
        "ragged split to a sequence, joined",
        """(float[n,2] x, int64[3] l) => (float[?,2] y) {
          s = SplitToSequence<axis=0>(x, l) two = Constant<value = int64 {2}>() a = SequenceAt(s, two)
          r = SequenceErase(s, two) t = SequenceInsert(r, a) y = ConcatFromSequence<axis=0>(t) }""",
        lambda n: {"x": floats(n, 2), "l": whole(n // 2, n - n // 2 - n // 3, n // 3)},
    ),
    Row(
        "concat of what two masks leave",
        """(float[n] x, bool[n] m) => (float[?] y, int64[1] s) {
          w = Not(m) a = Compress(x, m) b = Compress(x, w) y = Concat<axis=0>(a, b) s = Shape(y) }""",
        lambda n: {"x": floats(n), "m": mask(n)},
    ),
    Row(
        "a mask of a mask",
        """(float[n] x, bool[n] m) => (float[?] y) {
          a = Compress(x, m) zero = Constant<value = float {0.0}>() g = Greater(a, zero) y = Compress(a, g) }""",
        lambda n: {"x": floats(n), "m": mask(n)},
    ),
    Row(
        "products between what masks leave",
        """(float[n,4] x, bool[n] m) => (float[?,?] y) {
          a = Compress<axis=0>(x, m) b = Transpose(a) s = MatMul(a, b) y = Softmax(s) }""",
        lambda n: {"x": floats(n, 4), "m": mask(n)},
    ),
    Row(
        "a reshape of filtered elements to pairs",
        """(float[n] x, bool[n] m) => (float[?,2] y) {
          a = Compress(x, m) t = Constant<value = int64[2] {-1, 2}>() y = Reshape(a, t) }""",
        lambda n: {"x": floats(n), "m": mask(n)},
    ),
    Row(
        "a reshape of filtered elements to a square",
        """(float[n] x, bool[n] m, int64[1] k) => (float[?,?] y, float[?] d) {
          a = Compress(x, m) t = Concat<axis=0>(k, k) y = Reshape<allowzero=1>(a, t)
          z = Constant<value = int64[1] {0}>() d = ReduceSum<keepdims=0>(y, z) }""",
        lambda n: {"x": floats(n), "m": np.arange(n) < int(n**0.5) ** 2, "k": whole(int(n**0.5))},
    ),
    Row(
        "a reshape of filtered elements to a square that they do not make",
        """(float[n] x, bool[n] m, int64[1] k) => (float[?,?] y) {
          a = Compress(x, m) t = Concat<axis=0>(k, k) y = Reshape(a, t) }""",
        lambda n: {"x": floats(n), "m": np.arange(n) < 5, "k": whole(2)},
        sizes=(4, 1, 5),
    ),
    Row(
        "one-hot of a depth from data",
        """(int64[n] x, int64 d) => (float[n,?] y) {
          v = Constant<value = float[2] {0.0, 1.0}>() y = OneHot(x, d, v) }""",
        lambda n: {"x": few(n), "d": np.int64(n % 3 + 1)},
    ),
    Row(
        "a constant of a shape from data",
        "(int64[2] s) => (float[?,?] y) { z = ConstantOfShape<value = float[1] {2.5}>(s) y = Exp(z) }",
        lambda n: {"s": whole(n, 2)},
    ),
    Row(
        "pads from data",
        "(float[n] x, int64[2] p) => (float[?] y) { y = Pad(x, p) }",
        lambda n: {"x": floats(n), "p": whole(n % 3, 1)},
    ),
    Row(
        "non-maximum suppression, and the boxes that are left",
        """(float[1,n,4] b, float[1,1,n] s) => (float[?,4] y, float[?] v) {
          most = Constant<value = int64[1] {5}>() iou = Constant<value = float[1] {0.5}>()
          low = Constant<value = float[1] {0.1}>() k = NonMaxSuppression(b, s, most, iou, low)
          two = Constant<value = int64[1] {2}>() z = Constant<value = int64[1] {0}>()
          three = Constant<value = int64[1] {3}>() a1 = Constant<value = int64[1] {1}>()
          at = Slice(k, two, three, a1) i = Squeeze(at, a1) c = Squeeze(b, z) y = Gather<axis=0>(c, i)
          f = Squeeze(s) v = Gather<axis=0>(f, i) }""",
        lambda n: {"b": np.sort(np.abs(floats(1, n, 4)), -1)[..., [0, 1, 2, 3]], "s": np.abs(floats(1, 1, n))},
        sizes=(2, 5, 33),
    ),
]


def model(row: Row) -> bytes:
    """The bytes of a row's model."""
    text = f'<ir_version: 8, opset_import: ["" : 18]>\ng {row.text}'
    return bytes(parser.parse_model(text).SerializeToString())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_as_in_onnx_runtime(row: Row) -> None:
    data = model(row)
    peer = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    run = egshape.compile(egshape.load(data, "onnx"))
    ran = 0
    for n in row.sizes:
        feeds = {name: np.asarray(each) for name, each in row.feeds(n).items()}
        try:
            wanted = peer.run(None, feeds)
        except Exception:
            with pytest.raises(EgshapeError):
                run(**feeds)
            continue
        ran += 1
        found = run(**feeds)
        for one, two in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert (one.dtype, one.shape) == (two.dtype, two.shape), f"at {n}"
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6, err_msg=f"at {n}")
    assert ran
