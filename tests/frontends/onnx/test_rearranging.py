"""Ops that put elements to places that data tell, interpreted and compiled, against ONNX's reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import egshape
from egshape.adapters.native import compile_function
from egshape.errors import EgshapeError
from egshape.frontends.frontend import Rank
from tests.frontends.onnx.checking import Case, compare, load, parsed

AB = [{"a": 5, "b": 4}, {"a": 1, "b": 1}, {"a": 3, "b": 7}]
WIDE = [*AB, {"a": 0, "b": 3}, {"a": 40, "b": 3}]


def case(body: str, signature: str, out: str, sizes: object = None, **data: object) -> Case:
    text = f"g ({signature}) => ({out}) {{ {body} }}"
    return Case(body, text, AB if sizes is None else sizes, data, opset=24)  # type: ignore[arg-type]


def few(sizes: dict[str, int]) -> np.ndarray:
    """Small integers, so that many are equal."""
    return np.random.default_rng(sizes["a"]).integers(0, 3, (sizes["a"], sizes["b"]))


def holes(sizes: dict[str, int]) -> np.ndarray:
    """Equal numbers, signed zeros and NaN."""
    return np.random.default_rng(sizes["a"]).choice([1.5, -0.0, 0.0, np.nan, -2], (sizes["a"], sizes["b"]))


FOUR = "float[o] y, int64[p] i, int64[q] j, int64[r] k"
UNIQUE = [
    case("y, i, j, k = Unique(x)", "float[a,b] x", FOUR, WIDE, x=holes),
    case("y, i, j, k = Unique<sorted=0>(x)", "int64[a,b] x", FOUR.replace("float", "int64"), WIDE, x=few),
    case("y, i, j, k = Unique<axis=1>(x)", "int64[a,b] x", FOUR.replace("float[o]", "int64[o,s]"), WIDE, x=few),
    case(
        "y = Unique<axis=-2>(x)",
        "int64[a,b,2] x",
        "int64[o,s,t] y",
        WIDE,
        x=lambda sizes: np.stack([few(sizes), few(sizes)], 2),
    ),
]
UNIQUE[1] = case(
    "c = Constant<value = int64[1] {-1}>() f = Reshape(x, c) y, i, j, k = Unique<sorted=0>(f)",
    "int64[a,b] x",
    FOUR.replace("float", "int64"),
    x=few,
)
CASES = [
    case(
        "y = ReverseSequence(x, l)",
        "float[a,b,3] x, int64[b] l",
        "float[o,p,q] y",
        WIDE,
        l=lambda sizes: np.arange(sizes["b"]) % (sizes["a"] + 1),
    ),
    case(
        "y = ReverseSequence<batch_axis=0, time_axis=1>(x, l)",
        "float[a,b] x, int64[a] l",
        "float[o,p] y",
        WIDE,
        l=lambda sizes: np.arange(sizes["a"])[::-1] % (sizes["b"] + 1),
    ),
    case(
        "y = TensorScatter(x, u, w)",
        "float[a,2,9,3] x, float[a,2,b,3] u, int64[a] w",
        "float[o,p,q,r] y",
        w=lambda sizes: np.arange(sizes["a"]) % (10 - sizes["b"]),
    ),
    case(
        'y = TensorScatter<mode="circular", axis=1>(x, u, w)',
        "float[a,9,3] x, float[a,b,3] u, int64[a] w",
        "float[o,p,q] y",
        w=lambda sizes: np.arange(sizes["a"]) * 5 - 4,
    ),
    case("y = TensorScatter(x, u)", "float[a,9,3] x, float[a,b,3] u", "float[o,p,q] y"),
    case(
        "y = Col2Im<strides=[2,1], pads=[1,0,0,2], dilations=[1,2]>(x, i, k)",
        "float[a,24,k2] x, int64[2] i, int64[2] k",
        "float[o,p,q,r] y",
        [{"a": 2, "b": 1}],
        i=[5, 7],
        k=[3, 2],
        x=lambda sizes: np.random.default_rng(1).normal(size=(sizes["a"], 24, 2 * 7)),
    ),
    case("y = Shrink<lambd=0.7, bias=0.2>(x)", "float[a,b] x", "float[o,p] y", WIDE),
    case(
        "y, m, v = BatchNormalization<training_mode=1, momentum=0.7>(x, s, t, e, f)",
        "float[a,b,6] x, float[b] s, float[b] t, float[b] e, float[b] f",
        "float[o,p,q] y, float[r] m, float[t2] v",
    ),
    case(
        "m, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(m, i)",
        "float[1,1,4,b] x",
        "float[o,p,q,r] y",
        [{"a": 1, "b": 6}, {"a": 1, "b": 2}],
    ),
    case(
        "y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i, s)",
        "float[1,1,2,b] x, int64[1,1,2,b] i, int64[4] s",
        "float[o,p,q,r] y",
        i=lambda sizes: np.arange(2 * sizes["b"]).reshape(1, 1, 2, -1) * 3,
        s=lambda sizes: [1, 1, 5, 2 * sizes["b"] + 1],
    ),
    case("y = Compress<axis=1>(x, c)", "float[a,b] x, bool[b] c", "float[o,p] y", [*AB, {"a": 2, "b": 0}]),
]


@pytest.mark.parametrize("case", CASES + UNIQUE, ids=lambda case: case.name[:60])
def test_as_the_reference(case: Case) -> None:
    assert compare(case, compiled=True) >= min(2, len(case.sizes))


@pytest.mark.parametrize("starts", [[-1, 0], [0, 6]])
def test_no_cache_is_written_outside(starts: list[int]) -> None:
    graph = load(parsed(CASES[2]))
    function = compile_function(graph)
    arrays = np.zeros((2, 2, 9, 3), np.float32), np.ones((2, 2, 4, 3), np.float32)
    assert function(*arrays, np.array([0, 5])).sum() == 48
    with pytest.raises(EgshapeError, match="outside of its cache"):
        function(*arrays, np.array(starts))


def test_an_axis_that_squeeze_leaves_open() -> None:
    """What follows takes a matrix, so that the axis in front must be 1."""
    body = "s = Squeeze(x) y = Gemm(s, w)"
    graph = load(parsed(case(body, "float[a,4,3] x, float[3,2] w", "float[o,p] y")))
    function = compile_function(graph)
    w = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(function(np.ones((1, 4, 3), np.float32), w), np.full((4, 2), 3))
    with pytest.raises(EgshapeError, match="which Squeeze takes away here"):
        function(np.ones((2, 4, 3), np.float32), w)


def test_a_rank_that_is_said_tells_what_squeeze_leaves() -> None:
    """All three axes go, or none of those that are open."""
    for rank, sizes, wanted in ((0, (1, 1), ()), (2, (2, 3), (2, 3))):
        model = parsed(case("y = Squeeze(x)", "float[a,b,1] x", "float[o] y"))
        function = compile_function(egshape.load(model, forms={"y": Rank(rank)}))
        assert function(np.ones((*sizes, 1), np.float32)).shape == wanted
        with pytest.raises(EgshapeError, match="which Squeeze"):
            function(np.ones((4, 1, 1), np.float32))


COUNTED = [
    ("p = NonZero(x) q = NonZero(x) y = Add(p, q)", "float[a] x", "int64[1,o] y"),
    ("p = Compress<axis=0>(x, c) q = Compress<axis=1>(z, c) t = Transpose(q) y = Mul(p, t)",
     "float[a,3] x, float[3,a] z, bool[a] c", "float[o,3] y"),
    ("p = Compress(x, c) q = NonZero(c) r = Cast<to=1>(q) y = Add(p, r)", "float[a] x, bool[a] c", "float[1,o] y"),
    ("p, i = Unique(x) q, j, k, l = Unique(x) y = Add(p, q)", "float[a] x", "float[o] y"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "signature", "out"), COUNTED, ids=[each[0][:40] for each in COUNTED])
def test_what_is_counted_twice_is_as_many_each_time(body: str, signature: str, out: str) -> None:
    """The axes that one mask gives are equal: nothing is checked, and no common size is computed."""
    sizes = [{"a": 5}, {"a": 1}, {"a": 0}]
    found = case(body, signature, out, sizes, c=lambda sizes: np.arange(sizes["a"]) % 2 == 0)
    compare(found, compiled=True)
    result = egshape.optimize(load(parsed(found)))
    assert not result.report.checks
    assert not any("bcast" in symbol.name for symbol in result.graph.body.symbols)


def test_masks_that_are_cut_off_at_other_places_are_not_as_many() -> None:
    """ONNX Runtime leaves out what a condition says behind the last slice."""
    body = "p = Compress<axis=0>(x, c) q = Compress<axis=0>(z, c) y = Concat<axis=0>(p, q)"
    graph = load(parsed(case(body, "float[a] x, float[b] z, bool[k] c", "float[o] y")))
    x, z = np.arange(4, dtype=np.float32), np.arange(2, dtype=np.float32)
    mask = np.array([True, False, False, True])
    np.testing.assert_array_equal(compile_function(graph)(x, z, mask), [0, 3, 0])
    np.testing.assert_array_equal(compile_function(egshape.optimize(graph).graph)(x, z, mask), [0, 3, 0])
