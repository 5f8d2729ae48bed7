"""Products and their epilogues against numpy in f64, at every tail, in every layout."""

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.plan.ir.loops import Product
from egshape.plan.ir.program import Run
from egshape.plan.ir.walk import statements
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, constant, graph_of
from tests.lower.checking import call, compiled

M, N, K, B = symbol("m"), symbol("n"), symbol("k"), symbol("b")
SIZES = (0, 1, 2, 7, 33, 49, 127)
RNG = np.random.default_rng(7)


def numbers(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def close(found, exact, depth, scale=None):
    """Within the rounding of a sum of ``depth`` terms of about ``scale``."""
    kind = found.dtype
    limit = 3 * (4 + np.sqrt(depth)) * np.finfo(kind).eps
    np.testing.assert_allclose(found.astype(np.float64), exact, limit, limit * (depth + 1 if scale is None else scale))


def dot(b, x, y, contract=(1, 0), batch=0, dtype="f32"):
    axes = tuple(range(batch))
    return b.one(
        "dot_general",
        [x, y],
        {
            "lhs_batch": axes,
            "rhs_batch": axes,
            "lhs_contract": (contract[0],),
            "rhs_contract": (contract[1],),
            "dtype": dtype,
        },
    )


def constants(b, array):
    return b.one("constant", (), {"value": array})


def cases():
    """Sizes (m, n, k), each tail of each with others of the others."""
    for at in range(3):
        for size in SIZES:
            for other in (5, 64):
                yield tuple(size if k == at else other for k in range(3))
    yield from ((0, 0, 0), (1, 1, 1), (1, 1, 0), (16, 48, 0), (17, 95, 1), (129, 97, 129), (8, 48, 8))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("left", ["mk", "km"])
@pytest.mark.parametrize("right", ["kn", "nk"])
def test_tails_and_layouts(left, right, dtype):
    kind = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    b = BlockBuilder()
    x = argument(b, "x", dtype, [M, K] if left == "mk" else [K, M])
    y = argument(b, "y", dtype, [K, N] if right == "kn" else [N, K])
    function = compiled(graph_of(b, dot(b, x, y, (left.index("k"), right.index("k")), dtype=dtype)))
    for m, n, k in cases():
        one, two = numbers(m, k, dtype=kind), numbers(k, n, dtype=kind)
        given = [
            np.ascontiguousarray(one if left == "mk" else one.T),
            np.ascontiguousarray(two if right == "kn" else two.T),
        ]
        (found,) = call(function, given)
        assert found.shape == (m, n)
        close(found, one.astype(np.float64) @ two.astype(np.float64), k)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("wide", [1, 16, 20, 48, 64, 100, 112, 147])
def test_constant_operands_are_packed_once(side, turned, wide):
    for deep in (1, 33):
        b = BlockBuilder()
        weight = numbers(deep, wide)
        w = constants(b, weight.T.copy() if turned else weight)
        x = argument(b, "x", "f32", [M, deep])
        at = int(turned)
        graph = graph_of(b, dot(b, x, w, (1, at)) if side else dot(b, w, x, (at, 1)))
        assert [step.kernel.label for step in plan(graph).steps if isinstance(step, Run)] == ["dot_general"]
        function = compiled(graph)
        for m in (0, 1, 2, 7, 9, 33, 65, 130):
            array = numbers(m, deep)
            exact = array.astype(np.float64) @ weight
            (found,) = call(function, [array])
            close(found, exact if side else exact.T, deep)


def spread(b, x, target, dims):
    return b.one("broadcast_in_dim", [x], {"dims": dims, "shape": target.type.dims})


def scalar(b, value, target):
    return spread(b, constant(b, value, "f32"), target, ())


def gelu(b, x):
    inner = b.one("erf", [b.one("multiply", [x, scalar(b, 0.5**0.5, x)])])
    half = b.one("multiply", [x, scalar(b, 0.5, x)])
    return b.one("multiply", [half, b.one("add", [inner, scalar(b, 1, x)])])


def erf(x):
    from math import erf as one

    return np.vectorize(one, otypes=[np.float64])(x)


ACTIVATIONS = {
    "gelu": (gelu, lambda x: x / 2 * (1 + erf(x * 0.5**0.5))),
    "relu": (lambda b, x: b.one("maximum", [x, scalar(b, 0, x)]), lambda x: np.maximum(x, 0)),
    "silu": (lambda b, x: b.one("multiply", [x, b.one("logistic", [x])]), lambda x: x / (1 + np.exp(-x))),
    "tanh": (lambda b, x: b.one("tanh", [x]), np.tanh),
    "logistic": (lambda b, x: b.one("logistic", [x]), lambda x: 1 / (1 + np.exp(-x))),
}


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_epilogue(name):
    """activation(x w + bias) + residual is one kernel."""
    ours, exact = ACTIVATIONS[name]
    for wide in (20, 96):
        b = BlockBuilder()
        weight, bias = numbers(31, wide), numbers(wide)
        x, r = argument(b, "x", "f32", [B, M, 31]), argument(b, "r", "f32", [B, M, wide])
        y = dot(b, x, constants(b, weight), (2, 0))
        y = ours(b, b.one("add", [y, spread(b, constants(b, bias), y, (2,))]))
        graph = graph_of(b, b.one("add", [r, y]))
        assert len([step for step in plan(graph).steps if isinstance(step, Run)]) == 1
        function = compiled(graph)
        for batch, m in ((0, 3), (1, 0), (1, 1), (1, 17), (2, 8), (3, 43)):
            given = [numbers(batch, m, 31), numbers(batch, m, wide)]
            (found,) = call(function, given)
            close(found, exact(given[0].astype(np.float64) @ weight + bias) + given[1], 31, 8)


def test_epilogue_of_rows_and_of_parts():
    """A scale of each row of a batch, and a result that is read elsewhere before the activation."""
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [B, M, K]), argument(b, "y", "f32", [B, K, N])
    s = argument(b, "s", "f32", [B, M])
    z = dot(b, x, y, (2, 1), 1)
    scaled = b.one("multiply", [z, spread(b, s, z, (0, 1))])
    graph = graph_of(b, b.one("tanh", [scaled]), scaled)
    function = compiled(graph)
    for batch, m, n, k in ((2, 3, 5, 4), (1, 1, 1, 0), (3, 20, 50, 7), (0, 1, 2, 3), (2, 0, 3, 1), (2, 3, 0, 1)):
        one, two, rows = numbers(batch, m, k), numbers(batch, k, n), numbers(batch, m)
        found = call(function, [one, two, rows])
        exact = one.astype(np.float64) @ two * rows[..., None]
        close(found[1], exact, k, 8)
        close(found[0], np.tanh(exact), k, 8)


def test_several_axes_and_a_bias_of_one_of_them():
    """Rows (b, m), columns (n, 6), sums over two axes that lie apart; the bias reads one column axis only."""
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [3, B, 4, M]), argument(b, "y", "f32", [4, N, 6, 3])
    bias = argument(b, "c", "f32", [N])
    z = b.one(
        "dot_general",
        [x, y],
        {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (0, 2), "rhs_contract": (3, 0), "dtype": "f32"},
    )
    function = compiled(graph_of(b, b.one("add", [z, spread(b, bias, z, (2,))])))
    for batch, m, n in ((1, 1, 1), (2, 5, 3), (3, 7, 17), (0, 2, 2), (2, 2, 0)):
        given = [numbers(3, batch, 4, m), numbers(4, n, 6, 3), numbers(n)]
        exact = np.einsum("abcd,cefa->bdef", *(g.astype(np.float64) for g in given[:2])) + given[2][:, None]
        close(call(function, given)[0], exact, 12)


def test_heads_are_merged_by_the_store():
    """transpose and reshape behind a product cost no kernel."""
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [B, 4, M, M]), argument(b, "y", "f32", [B, 4, M, 16])
    z = dot(b, x, y, (3, 2), 2)
    z = b.one("transpose", [z], {"permutation": (0, 2, 1, 3)})
    graph = graph_of(b, b.one("reshape", [z], {"shape": (B, M, const(64))}))
    assert [step.kernel.label for step in plan(graph).steps if isinstance(step, Run)] == ["pack", "dot_general_reshape"]
    function = compiled(graph)
    for batch, m in ((1, 1), (2, 5), (3, 20), (0, 3), (2, 0)):
        given = [numbers(batch, 4, m, m), numbers(batch, 4, m, 16)]
        exact = (given[0].astype(np.float64) @ given[1]).transpose(0, 2, 1, 3).reshape(batch, m, 64)
        close(call(function, given)[0], exact, m)


def test_infinities_and_nans_go_through():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [M, K]), argument(b, "y", "f32", [K, N])
    function = compiled(graph_of(b, dot(b, x, y)))
    for m in (3, 20):
        one, two = np.ones((m, 5), np.float32), np.ones((5, 50), np.float32)
        one[1, 2], two[3, 49], one[2, 0] = np.inf, np.nan, -np.inf
        (found,) = call(function, [one, two])
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found, one @ two)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_few_rows_read_columns_that_lie_along_memory(dtype):
    """Nothing is packed up to 16 rows; the depth's last part is read under a mask, behind which lie nans here."""
    kind = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    b = BlockBuilder()
    x, y = argument(b, "x", dtype, [M, K]), argument(b, "y", dtype, [N, K])
    graph = graph_of(b, b.one("tanh", [dot(b, x, y, (1, 1), dtype=dtype)]))
    kernels = [step.kernel for step in plan(graph).steps if isinstance(step, Run)]
    products = [each for kernel in kernels for each in statements(kernel.body) if isinstance(each, Product)]
    assert [each.direct is not None and each.direct.row is const(1) for each in products] == [True]
    function = compiled(graph)
    for m, n, k in [(m, n, k) for m in range(1, 19) for n, k in ((1, 1), (7, 5), (49, 16), (51, 70))]:
        held = np.full(n * k + 64, np.nan, kind)
        held[: n * k] = RNG.integers(-2, 3, n * k) / 16
        two = held[: n * k].reshape(n, k)
        one = (RNG.integers(-2, 3, (m, k)) / 16).astype(kind)
        (found,) = call(function, [one, two])
        close(found, np.tanh(one.astype(np.float64) @ two.T.astype(np.float64)), k)


def test_threads_give_the_same_bits():
    """Panels, groups of rows and batches are shared out."""
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [B, M, K]), argument(b, "y", "f32", [B, K, N])
    wide, narrow = constants(b, numbers(60, 300)), constants(b, numbers(60, 60))
    one = dot(b, x, wide, (2, 0))
    graph = graph_of(b, dot(b, x, y, (2, 1), 1), b.one("tanh", [one]), dot(b, x, narrow, (2, 0)))
    alone, shared = compiled(graph), compile_function(graph, threads=2)
    for batch, m, n in ((1, 200, 300), (3, 70, 64), (1, 1, 500), (0, 3, 3)):
        given = [numbers(batch, m, 60), numbers(batch, 60, n)]
        for found, wanted in zip(call(shared, given), call(alone, given), strict=True):
            np.testing.assert_array_equal(found, wanted)
