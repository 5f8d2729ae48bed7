"""A decoder of many layers with caches, unrolled over tokens, of about as many ops as are wanted.

Each layer is written as exporters write it: shape code for each reshape, keys and values repeated over heads with a
broadcast and a reshape, moves that undo each other, norms and rotations spelled out. The weights are small arguments,
so that a program's memory is its ops. A token reads and lengthens the caches that the one before it left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, Value

LAYERS = 80
HEADS, SHARED, DEPTH, WIDE = 4, 2, 4, 32
"""Heads of queries, and of keys and values; the size of each; the width inside of a layer's second half."""
WIDTH = HEADS * DEPTH
VECTORS, MATRICES = ("norm1", "norm2"), ("q", "k", "v", "o", "gate", "up", "down")
B, P = symbol("b"), symbol("p")


@dataclass(frozen=True)
class Cache:
    """Keys and values of a layer: [b, SHARED, tokens, DEPTH] each."""

    keys: Value
    values: Value


class Decoder:
    """A decoder under construction; the methods are named for what they add."""

    def __init__(self) -> None:
        self.b = BlockBuilder()
        self._sum = self._reducer("add")
        self._largest = self._reducer("maximum")

    def _reducer(self, name: str) -> Block:
        inner = self.b.child()
        x, y = inner.arg(None, "f32", []), inner.arg(None, "f32", [])
        return inner.finish([inner.one(name, (x, y))])

    # -- pieces ----------------------------------------------------------------------------------------------------

    def splat(self, number: float, like: Value) -> Value:
        scalar = self.b.one("constant", (), {"value": np.array(number, np.float32)})
        return self.b.one("broadcast_in_dim", (scalar,), {"dims": (), "shape": like.type.dims})

    def folded(self, body: Block, start: float, x: Value) -> Value:
        """A reduction over the last axis, broadcast back."""
        last = x.type.rank - 1
        init = self.b.one("constant", (), {"value": np.array(start, np.float32)})
        out = self.b.one("reduce", (x, init), {"dims": (last,)}, regions=(body,))
        return self.b.one("broadcast_in_dim", (out,), {"dims": tuple(range(last)), "shape": x.type.dims})

    def shape_code(self, x: Value, axes: Sequence[int], *tail: int) -> Value:
        """Some sizes of x, and static ones, as a shape operand."""
        parts = []
        for axis in axes:
            size = self.b.one("get_dimension_size", (x,), {"dim": axis})
            parts.append(self.b.one("reshape", (size,), {"shape": (const(1),)}))
        parts += [self.b.one("constant", (), {"value": np.array([size], np.int32)}) for size in tail]
        return self.b.one("concatenate", parts, {"dim": 0})

    def reshaped(self, x: Value, axes: Sequence[int], *tail: int) -> Value:
        return self.b.one("reshape", (x, self.shape_code(x, axes, *tail)))

    def swapped(self, x: Value) -> Value:
        return self.b.one("transpose", (x,), {"permutation": (0, 2, 1, 3)})

    def cut(self, x: Value, start: int, stop: int) -> Value:
        """A slice of the last axis."""
        rank = x.type.rank
        starts, strides = (*[const(0)] * (rank - 1), const(start)), (const(1),) * rank
        return self.b.one(
            "slice", (x,), {"starts": starts, "limits": (*x.type.dims[:-1], const(stop)), "strides": strides}
        )

    def norm(self, x: Value, scale: Value) -> Value:
        squares = self.folded(self._sum, 0.0, self.b.one("multiply", (x, x)))
        mean = self.b.one("divide", (squares, self.splat(float(WIDTH), x)))
        root = self.b.one("rsqrt", (self.b.one("add", (mean, self.splat(1e-6, x))),))
        spread = self.b.one("broadcast_in_dim", (scale,), {"dims": (2,), "shape": x.type.dims})
        return self.b.one("multiply", (self.b.one("multiply", (x, root)), spread))

    def linear(self, x: Value, weight: Value) -> Value:
        contract = {"lhs_contract": (2,), "rhs_contract": (0,), "lhs_batch": (), "rhs_batch": (), "dtype": "f32"}
        return self.b.one("dot_general", (x, weight), contract)

    def heads(self, x: Value, count: int) -> Value:
        """[b, 1, count * DEPTH] -> [b, count, 1, DEPTH]; a convert that changes nothing, as casts of exporters."""
        split = self.swapped(self.reshaped(x, (0, 1), count, DEPTH))
        return self.b.one("convert", (split,), {"dtype": "f32"})

    def rotated(self, x: Value, cos: Value, sin: Value) -> Value:
        """Rotary positions; ``cos``, ``sin``: [1, DEPTH]."""
        half = DEPTH // 2
        turned = (self.b.one("negate", (self.cut(x, half, DEPTH),)), self.cut(x, 0, half))
        other = self.b.one("concatenate", turned, {"dim": 3})
        near, far = (
            self.b.one("broadcast_in_dim", (angle,), {"dims": (2, 3), "shape": x.type.dims}) for angle in (cos, sin)
        )
        return self.b.one("add", (self.b.one("multiply", (x, near)), self.b.one("multiply", (other, far))))

    def repeated(self, x: Value) -> Value:
        """[b, SHARED, t, DEPTH] -> [b, HEADS, t, DEPTH]: each head of keys serves several of queries."""
        dims = x.type.dims
        shape = (dims[0], const(SHARED), const(HEADS // SHARED), dims[2], const(DEPTH))
        spread = self.b.one("broadcast_in_dim", (x,), {"dims": (0, 1, 3, 4), "shape": shape})
        code = [self.b.one("get_dimension_size", (x,), {"dim": axis}) for axis in (0, 2)]
        first, tokens = (self.b.one("reshape", (size,), {"shape": (const(1),)}) for size in code)
        heads, depth = (self.b.one("constant", (), {"value": np.array([size], np.int32)}) for size in (HEADS, DEPTH))
        return self.b.one("reshape", (spread, self.b.one("concatenate", (first, heads, tokens, depth), {"dim": 0})))

    # -- a layer ---------------------------------------------------------------------------------------------------

    def attention(
        self, x: Value, weights: Sequence[Value], cache: Cache, angles: Sequence[Value]
    ) -> tuple[Value, Cache]:
        q, k, v, o = weights
        queries = self.rotated(self.heads(self.linear(x, q), HEADS), *angles)
        keys = self.rotated(self.heads(self.linear(x, k), SHARED), *angles)
        values = self.heads(self.linear(x, v), SHARED)
        longer = Cache(
            self.b.one("concatenate", (cache.keys, keys), {"dim": 2}),
            self.b.one("concatenate", (cache.values, values), {"dim": 2}),
        )
        return self.linear(self.mixed(queries, longer.keys, longer.values), o), longer

    def mixed(self, queries: Value, keys: Value, values: Value) -> Value:
        """What queries take from values, by their keys: heads in, [b, 1, WIDTH] out."""
        batch = {"lhs_batch": (0, 1), "rhs_batch": (0, 1), "lhs_contract": (3,), "dtype": "f32"}
        scores = self.b.one("dot_general", (queries, self.repeated(keys)), {**batch, "rhs_contract": (3,)})
        scores = self.b.one("multiply", (scores, self.splat(0.5, scores)))
        peak = self.folded(self._largest, -np.inf, scores)
        powers = self.b.one("exponential", (self.b.one("subtract", (scores, peak)),))
        shares = self.b.one("divide", (powers, self.folded(self._sum, 0.0, powers)))
        mixed = self.b.one("dot_general", (shares, self.repeated(values)), {**batch, "rhs_contract": (2,)})
        return self.reshaped(self.swapped(mixed), (0, 1), WIDTH)

    def feed_forward(self, x: Value, gate: Value, up: Value, down: Value) -> Value:
        raw = self.linear(x, gate)
        opened = self.b.one("multiply", (raw, self.b.one("logistic", (raw,))))
        return self.linear(self.b.one("multiply", (opened, self.linear(x, up))), down)

    def layer(self, x: Value, weights: dict[str, Value], cache: Cache, angles: Sequence[Value]) -> tuple[Value, Cache]:
        projections = [weights[name] for name in ("q", "k", "v", "o")]
        read, cache = self.attention(self.norm(x, weights["norm1"]), projections, cache, angles)
        x = self.b.one("add", (x, read))
        inner = self.feed_forward(self.norm(x, weights["norm2"]), *(weights[name] for name in ("gate", "up", "down")))
        return self.b.one("add", (x, inner)), cache

    # -- the whole -------------------------------------------------------------------------------------------------

    def weights(self, number: int) -> dict[str, Value]:
        inner = {"k": (WIDTH, SHARED * DEPTH), "v": (WIDTH, SHARED * DEPTH), "down": (WIDE, WIDTH)}
        inner |= dict.fromkeys(("gate", "up"), (WIDTH, WIDE))
        shapes = dict.fromkeys(VECTORS, (WIDTH,)) | {name: inner.get(name, (WIDTH, WIDTH)) for name in MATRICES}
        return {name: self.b.arg(f"l{number}_{name}", "f32", shape) for name, shape in shapes.items()}

    def cache(self, number: int) -> Cache:
        shape, names = [None, SHARED, None, DEPTH], ["b", None, "p", None]
        return Cache(*(self.b.arg(f"l{number}_{name}", "f32", shape, names) for name in ("keys", "values")))

    def angles(self, token: int) -> list[Value]:
        """Cosines and sines of a token's place: [1, DEPTH] each."""
        return [self.b.arg(f"{name}{token}", "f32", [1, DEPTH]) for name in ("cos", "sin")]


def decoder(n_ops: int, layers: int = LAYERS) -> Graph:
    """A decoder of so many layers and at least ``n_ops`` ops, a token after the other: [b, 1, WIDTH] for each, and the
    caches, [b, SHARED, p, DEPTH] for each layer, lengthened by one each time. It ends in the middle of a token."""
    made = Decoder()
    weights, caches = [made.weights(each) for each in range(layers)], [made.cache(each) for each in range(layers)]
    out: list[Value] = []
    while len(made.b.ops) < n_ops:
        token = len(out)
        x, angles = made.b.arg(f"x{token}", "f32", [B, 1, WIDTH]), made.angles(token)
        for each in range(layers):
            x, caches[each] = made.layer(x, weights[each], caches[each], angles)
            if len(made.b.ops) >= n_ops:
                break
        out.append(x)
    results = [*out, *(part for cache in caches for part in (cache.keys, cache.values))]
    return Graph(f"decoder_{n_ops}", made.b.finish(results), tuple(f"out{place}" for place in range(len(results))))


def inputs(graph: Graph, sizes: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    """Random arrays for a decoder's inputs. ``sizes``: those of its symbols."""
    rng = np.random.default_rng(seed)

    def size(dim: Dim) -> int:
        return int(dim.evaluate(sizes))

    return [
        rng.standard_normal([size(dim) for dim in value.type.dims]).astype(np.float32) * 0.3 for value in graph.inputs
    ]
