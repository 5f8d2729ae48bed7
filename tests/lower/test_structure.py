"""Ops with loops of their own, each compiled once and run at sizes 0, 1, 2, 7, 33."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.errors import CheckFailed
from egshape.ir.builder import BlockBuilder
from tests.fuzz.differential import argument, constant, graph_of, region
from tests.lower.checking import check

N, M = symbol("n"), symbol("m")
SIZES = (0, 1, 2, 7, 33)


def numbers(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng([seed, *shape])
    if np.issubdtype(dtype, np.integer):
        return rng.integers(-3, 40, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def dims(*sizes):
    return tuple(const(size) for size in sizes)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", ["add", "maximum", "multiply"])
def test_reduce(axes, name):
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, 3, M])
    (out,) = b.add("reduce", [x, constant(b, 1, "f32")], {"dims": axes}, regions=(region(b, name, "f32"),))
    check(graph_of(b, out), *([numbers((n, 3, m)) / 2] for n in SIZES for m in (1, 7)), tolerance=1e-3)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "f16"])
def test_dot(dtype):
    from egshape.ir.types import numpy_dtype

    b = BlockBuilder()
    x, y = argument(b, "x", dtype, [2, N, 5]), argument(b, "y", dtype, [2, M, 5])
    attrs = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (2,), "dtype": dtype}
    z = b.one("transpose", [y], {"permutation": (0, 2, 1)})
    other = {**attrs, "rhs_contract": (1,)}
    kind = numpy_dtype(dtype)
    check(
        graph_of(b, b.one("dot_general", [x, y], attrs), b.one("dot_general", [x, z], other)),
        *([numbers((2, n, 5), kind), numbers((2, m, 5), kind)] for n in SIZES for m in (0, 1, 33)),
        tolerance=2e-2,
    )


@pytest.mark.parametrize("deep", [0, 1, 9])
def test_products_of_few_and_many_rows(deep):
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, deep]), argument(b, "y", "f32", [deep, M])
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}
    whole = [np.round(numbers((n, deep), seed=1) * 4) for n in (0, 1, 3, 15, 32, 40)]
    check(
        graph_of(b, b.one("dot_general", [x, y], attrs)),
        *([left, np.round(numbers((deep, m)) * 4)] for left in whole for m in (0, 1, 16, 47, 48, 100)),
    )


NHWC = (0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
NCHW = (0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3))


@pytest.mark.parametrize(
    ("layout", "features", "batches", "base", "dilation", "reversal"),
    [(NHWC, 1, 1, 1, 1, 0), (NHWC, 2, 1, 1, 2, 1), (NCHW, 1, 1, 2, 1, 0), (NCHW, 4, 1, 1, 1, 0), (NHWC, 1, 2, 1, 1, 1)],
)
def test_convolution(layout, features, batches, base, dilation, reversal):
    b = BlockBuilder()
    channels, outs = 4, 4
    sizes = {layout[0]: 2 * N, layout[1]: const(channels), layout[2][0]: const(5), layout[2][1]: const(6)}
    kernel = {layout[3]: channels // features, layout[4]: outs, layout[5][0]: 3, layout[5][1]: 2}
    x = b.arg(
        "x",
        "f32",
        [None if axis == layout[0] else sizes[axis] for axis in range(4)],
        ["n2" if axis == layout[0] else None for axis in range(4)],
    )
    w = argument(b, "w", "f32", [kernel[axis] for axis in range(4)])
    out = b.one(
        "convolution",
        [x, w],
        {
            "numbers": layout,
            "strides": (1, 2),
            "padding": dims(1, 2, 0, 1),
            "lhs_dilation": (base, base),
            "rhs_dilation": (dilation, dilation),
            "reversal": (reversal, 0),
            "feature_groups": features,
            "batch_groups": batches,
            "dtype": "f32",
        },
    )
    shape = [0, 0, 0, 0]
    shape[layout[1]], shape[layout[2][0]], shape[layout[2][1]] = channels, 5, 6
    cases = []
    for n in (0, 2, 4):
        shape[layout[0]] = n
        cases.append([numbers(tuple(shape)), numbers(tuple(kernel[axis] for axis in range(4)))])
    check(graph_of(b, out), *cases, tolerance=1e-3)


@pytest.mark.parametrize(("name", "start"), [("add", 0), ("maximum", -np.inf)])
def test_reduce_window(name, start):
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, 6])
    (out,) = b.add(
        "reduce_window",
        [x, constant(b, start, "f32")],
        {
            "window": dims(2, 3),
            "strides": dims(1, 2),
            "base_dilation": dims(1, 2),
            "window_dilation": dims(2, 1),
            "padding": dims(1, 2, 1, 0),
        },
        regions=(region(b, name, "f32"),),
    )
    check(graph_of(b, out), *([numbers((n, 6))] for n in SIZES), tolerance=1e-4)


def test_select_and_scatter():
    b = BlockBuilder()
    x, s = argument(b, "x", "f32", [N, 4]), argument(b, "s", "f32", [M, 2])
    inner = b.child()
    one, two = inner.arg(None, "f32", []), inner.arg(None, "f32", [])
    choose = inner.finish([inner.one("compare", [one, two], {"direction": "GE", "kind": "FLOAT"})])
    (out,) = b.add(
        "select_and_scatter",
        [x, s, constant(b, 0, "f32")],
        {"window": (2, 3), "strides": (1, 2), "padding": (0, 0, 1, 0)},
        regions=(choose, region(b, "add", "f32")),
    )
    graph = graph_of(b, out)
    function = check(graph, *([numbers((n + 1, 4)), numbers((n, 2))] for n in SIZES), tolerance=1e-4)
    with pytest.raises(CheckFailed):
        function(numbers((5, 4)), numbers((5, 2)))


@pytest.mark.parametrize("index", ["i32", "ui64", "i64"])
def test_scatter_and_gather(index):
    from egshape.ir.types import numpy_dtype

    b = BlockBuilder()
    x, i, u = argument(b, "x", "f32", [N, 3]), argument(b, "i", index, [M, 1]), argument(b, "u", "f32", [M, 3])
    (out,) = b.add(
        "scatter",
        [x, i, u],
        {
            "update_window_dims": (1,),
            "inserted_window_dims": (0,),
            "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1,
        },
        regions=(region(b, "add", "f32"),),
    )
    kind = numpy_dtype(index)
    cases = [[numbers((n, 3)), numbers((m, 1), np.int64).astype(kind), numbers((m, 3))] for n in SIZES for m in (0, 7)]
    check(graph_of(b, out), *cases, tolerance=1e-4)
    b = BlockBuilder()
    x, i = argument(b, "x", "f32", [N, 3]), argument(b, "i", index, [M, 1])
    taken = b.one(
        "gather",
        [x, i],
        {"offset_dims": (1,), "collapsed": (0,), "start_index_map": (0,), "index_vector_dim": 1, "sizes": dims(1, 3)},
    )
    check(graph_of(b, taken), *([numbers((n + 1, 3)), i] for n in SIZES for _, i, _ in cases))


@pytest.mark.parametrize("dim", [0, 1])
def test_sort(dim):
    b = BlockBuilder()
    x, y = argument(b, "x", "i32", [N, M]), argument(b, "y", "f32", [N, M])
    inner = b.child()
    args = [inner.arg(None, dtype, []) for dtype in ("i32", "i32", "f32", "f32")]
    body = inner.finish([inner.one("compare", args[:2], {"direction": "GT", "kind": "SIGNED"})])
    results = b.add("sort", [x, y], {"dim": dim, "stable": True}, regions=(body,))
    check(graph_of(b, *results), *([numbers((n, m), np.int32), numbers((n, m))] for n in SIZES for m in (1, 33)))


def test_a_product_of_a_value_with_itself():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [2, N, 5])
    attrs = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (2,), "dtype": "f32"}
    check(graph_of(b, b.one("dot_general", [x, x], attrs)), *([numbers((2, n, 5))] for n in SIZES), tolerance=1e-3)


def test_interleaved_rows():
    """Two independent chains of row reductions, each between the ops of the other, and one that reads both."""
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, 7]), argument(b, "y", "f32", [N, 7])

    def fold(v, name):
        (out,) = b.add("reduce", [v, constant(b, 0.5, "f32")], {"dims": (1,)}, regions=(region(b, name, "f32"),))
        return b.one("broadcast_in_dim", [out], {"dims": (0,), "shape": v.type.dims})

    one, two = fold(x, "maximum"), fold(y, "maximum")
    d, e = b.one("subtract", [x, one]), b.one("subtract", [y, two])
    f, g = b.one("exponential", [d]), b.one("exponential", [e])
    h, k = b.one("divide", [f, fold(f, "add")]), b.one("divide", [g, fold(g, "add")])
    both = b.one("multiply", [h, k])
    check(
        graph_of(b, both, fold(both, "add"), g),
        *([numbers((n, 7)), numbers((n, 7), seed=1)] for n in SIZES),
        tolerance=1e-4,
    )
