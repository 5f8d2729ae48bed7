"""Attention as one kernel: masks, layouts, few rows, sizes 0 and 1; and what is left alone."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.interpret import interpret
from egshape.plan.analysis.memory import layout
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.cuda.attention import fold as fold_of_rows
from tests.fuzz.differential import argument, constant, graph_of, region
from tests.lower.checking import call, compiled

B, Q, S, H = symbol("b"), symbol("q"), symbol("s"), symbol("h")
RNG = np.random.default_rng(3)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def dot(b, x, y, contract, batch):
    return b.one(
        "dot_general",
        [x, y],
        {
            "lhs_batch": batch[0],
            "rhs_batch": batch[1],
            "lhs_contract": (contract[0],),
            "rhs_contract": (contract[1],),
            "dtype": "f32",
        },
    )


def spread(b, x, target, dims):
    return b.one("broadcast_in_dim", [x], {"dims": dims, "shape": target.type.dims})


def fold(b, x, name, start):
    (out,) = b.add(
        "reduce", [x, constant(b, start, "f32")], {"dims": (x.type.rank - 1,)}, regions=(region(b, name, "f32"),)
    )
    rank = x.type.rank
    narrow = b.one("reshape", [out], {"shape": (*x.type.dims[:-1], const(1))})
    return b.one("broadcast_in_dim", [narrow], {"dims": tuple(range(rank)), "shape": x.type.dims})


def softmax(b, x):
    e = b.one("exponential", [b.one("subtract", [x, fold(b, x, "maximum", -np.inf)])])
    return b.one("divide", [e, fold(b, e, "add", 0)])


def exact(scores, v):
    scores = scores.astype(np.float64)
    with np.errstate(all="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return e / e.sum(-1, keepdims=True) @ v.astype(np.float64)


def labels(graph):
    return [step.kernel.label for step in plan(graph).steps if isinstance(step, Run)]


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, 2e-5, 2e-6)


SIZES = (
    (1, 1, 1, 1),
    (2, 3, 7, 5),
    (1, 2, 16, 16),
    (1, 2, 17, 49),
    (2, 1, 33, 127),
    (1, 1, 1, 300),
    (0, 2, 3, 3),
    (2, 2, 0, 5),
    (2, 2, 5, 0),
    (1, 1, 70, 3),
)


@pytest.mark.parametrize("depth", [5, 16, 64])
def test_heads_where_they_lie(depth):
    """(b, s, h, d) operands read through transposes, a scale, a bias of each key, heads merged by the store."""
    b = BlockBuilder()
    q, k, v = (argument(b, name, "f32", [B, size, 3, depth]) for name, size in (("x", Q), ("y", S), ("z", S)))
    bias = argument(b, "m", "f32", [B, S])
    q, k, v = (b.one("transpose", [x], {"permutation": (0, 2, 1, 3)}) for x in (q, k, v))
    z = dot(b, q, k, (3, 3), ((0, 1), (0, 1)))
    z = b.one("multiply", [z, spread(b, constant(b, depth**-0.5, "f32"), z, ())])
    z = b.one("add", [z, spread(b, bias, z, (0, 3))])
    z = dot(b, softmax(b, z), v, (3, 2), ((0, 1), (0, 1)))
    z = b.one("transpose", [z], {"permutation": (0, 2, 1, 3)})
    graph = graph_of(b, b.one("reshape", [z], {"shape": (B, Q, const(3 * depth))}))
    assert labels(graph) == ["pack", "pack", "attention"]
    function = compiled(graph)
    for batch, _, rows, length in SIZES:
        x, y, w = (numbers(batch, size, 3, depth) for size in (rows, length, length))
        mask = numbers(batch, length)
        scores = np.einsum("bqhd,bshd->bhqs", x.astype(np.float64), y) * depth**-0.5 + mask[:, None, None]
        wanted = exact(scores, w.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3).reshape(batch, rows, 3 * depth)
        close(call(function, [x, y, w, mask])[0], wanted)


def causal(b, z):
    row, column = (b.one("iota", [], {"dtype": "i32", "shape": z.type.dims, "dim": axis}) for axis in (2, 3))
    seen = b.one("compare", [column, row], {"direction": "LE", "kind": "SIGNED"})
    return b.one("select", [seen, z, spread(b, constant(b, -np.inf, "f32"), z, ())])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_causal_and_turned(masked, turned):
    """The mask is computed in the kernel; weights may be the right operand of the second product."""
    b = BlockBuilder()
    q, k, v = (
        argument(b, "x", "f32", [B, H, Q, 8]),
        argument(b, "y", "f32", [B, H, 8, S]),
        argument(b, "z", "f32", [B, H, S, 20]),
    )
    z = dot(b, q, k, (3, 2), ((0, 1), (0, 1)))
    p = softmax(b, causal(b, z) if masked else z)
    z = dot(b, v, p, (2, 3), ((0, 1), (0, 1))) if turned else dot(b, p, v, (3, 2), ((0, 1), (0, 1)))
    graph = graph_of(b, b.one("tanh", [z]))
    assert labels(graph)[-1] == "attention"
    function = compiled(graph)
    for batch, heads, rows, length in SIZES:
        x, y, w = numbers(batch, heads, rows, 8), numbers(batch, heads, 8, length), numbers(batch, heads, length, 20)
        scores = x.astype(np.float64) @ y
        if masked:
            scores = np.where(np.arange(length) <= np.arange(rows)[:, None], scores, -np.inf)
        wanted = np.tanh(exact(scores, w))
        close(call(function, [x, y, w])[0], wanted.swapaxes(2, 3) if turned else wanted)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_step_of_a_decoder(rows):
    """Few queries: the keys are read where they lie."""
    b = BlockBuilder()
    q, k, v = (
        argument(b, "x", "f32", [B, H, rows, 16]),
        argument(b, "y", "f32", [B, H, S, 16]),
        argument(b, "z", "f32", [B, H, S, 16]),
    )
    z = dot(b, q, k, (3, 3), ((0, 1), (0, 1)))
    graph = graph_of(b, dot(b, softmax(b, z), v, (3, 2), ((0, 1), (0, 1))))
    function = compiled(graph)
    for batch, heads, _, length in SIZES:
        x, y, w = numbers(batch, heads, rows, 16), numbers(batch, heads, length, 16), numbers(batch, heads, length, 16)
        close(call(function, [x, y, w])[0], exact(x.astype(np.float64) @ y.swapaxes(2, 3), w))


def test_shared_keys():
    """Several queries of a group read one head of keys."""
    b = BlockBuilder()
    q, k, v = (
        argument(b, "x", "f32", [B, H, 2, Q, 8]),
        argument(b, "y", "f32", [B, H, S, 8]),
        argument(b, "z", "f32", [B, H, S, 8]),
    )
    z = dot(b, q, k, (4, 3), ((0, 1), (0, 1)))
    graph = graph_of(b, dot(b, softmax(b, z), v, (4, 2), ((0, 1), (0, 1))))
    assert labels(graph)[-1] == "attention"
    function = compiled(graph)
    for batch, heads, rows, length in SIZES:
        x, y, w = numbers(batch, heads, 2, rows, 8), numbers(batch, heads, length, 8), numbers(batch, heads, length, 8)
        scores = x.astype(np.float64) @ y.swapaxes(2, 3)[:, :, None]
        close(call(function, [x, y, w])[0], exact(scores, w[:, :, None]))


def test_scores_never_lie_in_memory():
    b = BlockBuilder()
    q, k, v = (argument(b, name, "f32", [Q, 8]) for name in "xyz")
    graph = graph_of(b, dot(b, softmax(b, dot(b, q, k, (1, 1), ((), ()))), v, (1, 0), ((), ())))
    peak = layout(plan(graph)).peak
    assert peak.evaluate({name: 1 if name.startswith("$") else 100_000 for name in peak.symbols()}) < 100_000 * 4 * 48


def test_scores_that_are_read_elsewhere_are_written():
    b = BlockBuilder()
    q, k, v = (argument(b, name, "f32", [Q, 8]) for name in "xyz")
    z = dot(b, q, k, (1, 1), ((), ()))
    p = softmax(b, z)
    graph = graph_of(b, dot(b, p, v, (1, 0), ((), ())), p)
    assert "attention" not in labels(graph)
    function = compiled(graph)
    for rows in (0, 1, 5, 40):
        x, y, w = (numbers(rows, 8) for _ in range(3))
        found = call(function, [x, y, w])
        close(found[0], exact(x.astype(np.float64) @ y.T, w))


def test_rows_without_a_finite_score_are_nan():
    b = BlockBuilder()
    x, y, z = (argument(b, name, "f32", [Q, 8]) for name in "xyz")
    mask = argument(b, "m", "f32", [Q, Q])
    scores = b.one("add", [dot(b, x, y, (1, 1), ((), ())), mask])
    graph = graph_of(b, dot(b, softmax(b, scores), z, (1, 0), ((), ())))
    one, two, three = (numbers(6, 8) for _ in range(3))
    hidden = np.zeros((6, 6), np.float32)
    hidden[2], hidden[3, 1:] = -np.inf, -np.inf
    found = call(compiled(graph), [one, two, three, hidden])[0]
    assert np.isnan(found[2]).all()
    close(np.delete(found, 2, 0), np.delete(exact(one.astype(np.float64) @ two.T + hidden, three), 2, 0))


def softmax_of(b, scores):
    """The softmax of rows."""
    wide = {"dims": (0,), "shape": scores.type.dims}
    peak = fold_of_rows(b, scores, "maximum", -np.inf)
    weights = b.one("exponential", [b.one("subtract", [scores, b.one("broadcast_in_dim", [peak], wide)])])
    return b.one("divide", [weights, b.one("broadcast_in_dim", [fold_of_rows(b, weights, "add", 0.0)], wide)])


def product_of(b, one, two, contracted, dtype):
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (contracted,), "dtype": dtype}
    return b.one("dot_general", [one, two], attrs)


def scores_of_scores():
    """softmax(q k^T) times q k^T itself."""
    b, s = BlockBuilder(), symbol("s")
    q, k = (argument(b, name, "f32", [s, const(8)]) for name in "qk")
    scores = product_of(b, q, k, 1, "f32")
    return graph_of(b, product_of(b, softmax_of(b, scores), scores, 0, "f32"))


def in_doubles(where):
    """A softmax in f64 between products of f32, or a second product in f64."""
    b, s, t = BlockBuilder(), symbol("s"), symbol("t")
    q, k, v = (argument(b, name, "f32", [s if name == "q" else t, const(8)]) for name in "qkv")
    scores = b.one("convert", [product_of(b, q, k, 1, "f32")], {"dtype": "f64"})
    weights = softmax_of(b, scores)
    if where == "softmax":
        return graph_of(b, product_of(b, b.one("convert", [weights], {"dtype": "f32"}), v, 0, "f32"))
    return graph_of(b, product_of(b, weights, b.one("convert", [v], {"dtype": "f64"}), 0, "f64"))


@pytest.mark.parametrize("graph", [scores_of_scores(), in_doubles("softmax"), in_doubles("product")], ids=str)
def test_what_is_nearly_attention(graph):
    arrays = [np.random.default_rng(k).normal(size=(5, 8)).astype(np.float32) for k in range(len(graph.inputs))]
    np.testing.assert_allclose(call(compiled(graph), arrays)[0], interpret(graph, arrays)[0], 1e-5, 1e-5)
