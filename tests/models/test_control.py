"""Programs whose sizes come from control flow or data, compiled once and run at sizes that nobody compiled for: a cache
that grows, greedy decoding and beam search, a recurrent network over time, a detection head with a mask.

A size of a JAX export is at least 1, which the program checks itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError

Array = np.ndarray[Any, np.dtype[Any]]
F = np.float32


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F)


def exported(function: Callable[..., Any], *arguments: tuple[str, Any], constraints: Sequence[str] = ()) -> Any:
    """A function as JAX exports it; arguments by shape, whose names are sizes, and dtype."""
    jax = pytest.importorskip("jax")
    scope = jax.export.SymbolicScope(constraints)
    types = [jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), dtype) for shape, dtype in arguments]
    return jax.export.export(jax.jit(function))(*types)


def same(export: Any, function: Callable[..., Any], *points: Sequence[Array]) -> None:
    """The compiled program gives what JAX gives, at each point."""
    import jax

    run, reference = egshape.compile(export), jax.jit(function)
    for arrays in points:
        for one, two in zip(jax.tree.leaves(run(*arrays)), jax.tree.leaves(reference(*arrays)), strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=2e-4, atol=2e-5)


def greedy(prompt: Any, table: Any, room: Any) -> Any:
    """Tokens one after the other: each attends to all before it, whose keys lie in a cache of p + t places."""
    import jax.numpy as jnp
    from jax import lax

    p, t = prompt.shape[0], room.shape[0]
    tokens = jnp.concatenate([prompt, jnp.zeros((t,), jnp.int32)])

    def step(state: Any) -> Any:
        i, tokens = state
        keys = table[tokens]
        scores = jnp.where(jnp.arange(p + t) < i, keys @ table[tokens[i - 1]], -jnp.inf)
        mixed = jnp.exp(scores - scores.max()) @ keys
        return i + 1, tokens.at[i].set(jnp.argmax(table @ mixed).astype(jnp.int32))

    return lax.while_loop(lambda state: state[0] < p + t, step, (jnp.int32(p), tokens))[1]


@pytest.mark.long
def test_greedy_decoding() -> None:
    export = exported(greedy, ("p", np.int32), ("11, 8", F), ("t", np.int8), constraints=("p >= 1",))
    points = [
        (np.arange(p, dtype=np.int32) % 11, random(11, 8), np.zeros(t, np.int8)) for p, t in ((1, 1), (3, 7), (6, 2))
    ]
    same(export, greedy, *points)


def beam(start: Any, moves: Any, room: Any) -> Any:
    """The best four paths of so many steps: scores [b, 4], tokens [b, 4, t]."""
    import jax.numpy as jnp
    from jax import lax

    b, v, t = start.shape[0], moves.shape[0], room.shape[0]
    scores = jnp.concatenate([jnp.zeros((b, 1), jnp.float32), jnp.full((b, 3), -1e9, jnp.float32)], 1)
    last = jnp.broadcast_to(start[:, None], (b, 4))

    def step(i: Any, state: Any) -> Any:
        scores, last, paths = state
        grown = scores[:, :, None] + moves[last]
        scores, at = lax.top_k(grown.reshape(b, 4 * v), 4)
        paths = jnp.take_along_axis(paths, (at // v)[:, :, None], axis=1)
        last = (at % v).astype(jnp.int32)
        return scores, last, lax.dynamic_update_slice(paths, last[:, :, None], (0, 0, i))

    return lax.fori_loop(0, t, step, (scores, last, jnp.zeros((b, 4, t), jnp.int32)))


@pytest.mark.long
def test_beam_search() -> None:
    export = exported(beam, ("b", np.int32), ("7, 7", F), ("t", np.int8))
    points = [
        (np.arange(b, dtype=np.int32) % 7, random(7, 7), np.zeros(t, np.int8))
        for b, t in ((1, 1), (1, 4), (2, 5), (5, 3))
    ]
    same(export, beam, *points)


def recurrent(xs: Any, state: Any, inner: Any, outer: Any) -> Any:
    """A recurrent network over time: [t, b, 6] to all states and the last."""
    import jax.numpy as jnp
    from jax import lax

    def step(state: Any, x: Any) -> Any:
        state = jnp.tanh(x @ inner + state @ outer)
        return state, state

    last, states = lax.scan(step, state, xs)
    return states, last


@pytest.mark.long
def test_a_recurrent_network() -> None:
    export = exported(recurrent, ("t, b, 6", F), ("b, 5", F), ("6, 5", F), ("5, 5", F))
    points = [(random(t, b, 6), random(b, 5), random(6, 5), random(5, 5)) for t, b in ((1, 1), (7, 2), (2, 5))]
    same(export, recurrent, *points)
    with pytest.raises(EgshapeError, match="Expected value >= 1 for dimension variable 't'"):
        egshape.compile(export)(random(0, 2, 6), random(2, 5), random(6, 5), random(5, 5))


def detect(boxes: Any, scores: Any) -> Any:
    """The boxes of which the score passes, best first, at most as many as there are, and how many."""
    import jax.numpy as jnp

    n = boxes.shape[0]
    keep = scores > 0.0
    (at,) = jnp.nonzero(keep, size=n, fill_value=0)
    count = keep.sum()
    found = jnp.where(jnp.arange(n) < count, scores[at], -jnp.inf)
    order = jnp.argsort(-found)
    return boxes[at][order], found[order], count


@pytest.mark.long
def test_a_detection_head() -> None:
    export = exported(detect, ("n, 4", F), ("n", F), constraints=("n >= 1",))
    nothing = (random(3, 4), np.full(3, -1, F))
    same(export, detect, nothing, *((random(n, 4), random(n)) for n in (1, 2, 9, 30)))


GROWING = """<ir_version: 8, opset_import: ["" : 18]>
g (float[p,4] cache, float[4,4] weight, float[t] room) => (float[?,4] grown, float[?,4] given) {
  n = Shape(room)
  go = Constant<value = bool {1}>()
  last = Constant<value = float[1,4] {0.1, 0.2, 0.3, 0.4}>()
  grown, unused, given3 = Loop(n, go, cache, last) <body = step (int64 i, bool going, float[?,4] keys, float[1,4] x)
      => (bool on, float[?,4] all, float[1,4] y, float[1,4] row) {
    on = Identity(going)
    all = Concat<axis = 0>(keys, x)
    other = Transpose<perm = [1, 0]>(all)
    scores = MatMul(x, other)
    shares = Softmax<axis = -1>(scores)
    mixed = MatMul(shares, all)
    turned = MatMul(mixed, weight)
    y = Tanh(turned)
    row = Identity(y)
  }>
  axis = Constant<value = int64[1] {1}>()
  given = Squeeze(given3, axis)
}"""


def test_a_cache_that_grows(tmp_path: Path) -> None:
    """Each round attends to all before it and appends what it gives: the cache has p + t places in the end."""
    onnx = pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    path = tmp_path / "g.onnx"
    onnx.save(onnx.parser.parse_model(GROWING), path)
    result = egshape.optimize(path)
    assert [each.shape for each in result.report.outputs] == [("p + t", "4"), ("t", "4")]
    run = egshape.compile(result)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for p, t in ((0, 1), (1, 1), (4, 3), (2, 9), (3, 0)):
        arrays = {"cache": random(p, 4), "weight": random(4, 4), "room": np.zeros(t, F)}
        for one, two in zip(session.run(None, arrays), run(**arrays), strict=True):
            np.testing.assert_allclose(two, one.reshape(two.shape), rtol=1e-5, atol=1e-6)


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "decode.mlir"


def test_the_example() -> None:
    pytest.importorskip("jax")
    graph = egshape.load(EXAMPLE)
    result = egshape.optimize(graph)
    assert [each.shape for each in result.report.outputs] == [("cache.0 + room.0", "4")]
    run, plain = egshape.compile(result), egshape.compile(graph, target="interpret")
    for p, t in ((0, 0), (0, 1), (1, 4), (6, 2)):
        arrays = random(p, 4), random(1, 4), random(t)
        np.testing.assert_allclose(run(*arrays), plain(*arrays), rtol=1e-5, atol=1e-6)
        assert run(*arrays).shape == (p + t, 4)
