"""Graphs of attention: layouts, masks, dtypes, heads that share keys; and their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from tests.fuzz.differential import argument, constant, graph_of, region

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i1": np.bool_}
TOLERANCE = {"f32": 2e-6, "f16": 5e-3, "bf16": 4e-2}
B, S, T = symbol("b"), symbol("s"), symbol("t")
MASKS = ("none", "causal", "additive", "length", "bool", "triangle")


@dataclass(frozen=True)
class Case:
    """``mask``: none; causal, by a comparison of iotas and -inf, or a large number (triangle); additive, an input;
    length, how many keys each of a batch has; bool, an input and the least number. ``soft``: dtype between the
    products. ``last``: heads stand behind the lengths. ``groups``: heads that share keys. ``guard``: rows without a
    score are 0."""

    dtype: str = "f32"
    mask: str = "none"
    soft: str = "f32"
    last: bool = False
    heads: int = 2
    groups: int = 1
    depth: int = 8
    width: int = 8
    guard: bool = False
    clean: bool = False
    """Weights that are NaN are 0."""
    wide: bool = False
    """Scores are f32 whatever the operands are."""
    turned: bool = False
    """Weights are the right side of their product."""
    scale: float | None = 0.5

    def graph(self) -> Graph:
        """The graph; its inputs are q, k, v and what the mask needs."""
        b = BlockBuilder()
        names = "bshd" if self.last else "bhsd"
        q, k, v = (argument(b, name, self.dtype, self.shape(name)) for name in "qkv")
        order = tuple(names.index(axis) for axis in "bhsd")
        q, k, v = (_transpose(b, x, order) for x in (q, k, v))
        if self.groups > 1:
            k, v = (self._repeated(b, x) for x in (k, v))
        whole = (B, const(self.heads), S, T)
        dot = {"lhs_batch": (0, 1), "rhs_batch": (0, 1)}
        dtype = "f32" if self.wide else self.dtype
        scores = b.one("dot_general", [q, k], {**dot, "lhs_contract": (3,), "rhs_contract": (3,), "dtype": dtype})
        scores = _convert(b, scores, self.soft)
        if self.scale is not None:
            scores = b.one("multiply", [scores, _spread(b, constant(b, self.scale, self.soft), (), whole)])
        scores = self._masked(b, scores, whole)
        peak = fold(b, scores, "maximum", float("-inf"))
        if self.guard:
            finite = b.one("is_finite", [peak])
            peak = b.one("select", [finite, peak, _spread(b, constant(b, 0.0, self.soft), (), whole[:3])])
        weights = b.one("exponential", [b.one("subtract", [scores, _spread(b, peak, (0, 1, 2), whole)])])
        total = fold(b, weights, "add", 0.0)
        if self.guard:
            none = constant(b, 0.0, self.soft)
            zero = _compare(b, total, _spread(b, none, (), whole[:3]), "EQ")
            total = b.one("select", [zero, _spread(b, constant(b, 1.0, self.soft), (), whole[:3]), total])
        weights = b.one("divide", [weights, _spread(b, total, (0, 1, 2), whole)])
        if self.clean:
            zero = _spread(b, constant(b, 0.0, self.soft), (), whole)
            weights = b.one("select", [_compare(b, weights, weights, "NE"), zero, weights])
        weights = _convert(b, weights, self.dtype)
        deep = {**dot, "dtype": self.dtype}
        if self.turned:
            out = b.one("dot_general", [v, weights], {**deep, "lhs_contract": (2,), "rhs_contract": (3,)})
            out = _transpose(b, out, (0, 1, 3, 2))
        else:
            out = b.one("dot_general", [weights, v], {**deep, "lhs_contract": (3,), "rhs_contract": (2,)})
        if self.last:
            out = _transpose(b, out, (0, 2, 1, 3))
            out = b.one("reshape", [out], {"shape": (B, S, const(self.heads * self.width))})
        return graph_of(b, out)

    def shape(self, name: str) -> list[Dim]:
        """Of an input."""
        heads = self.heads if name == "q" else self.heads // self.groups
        depth = const(self.width if name == "v" else self.depth)
        sizes = {"b": B, "h": const(heads), "s": S if name == "q" else T, "d": depth}
        return [sizes[axis] for axis in ("bshd" if self.last else "bhsd")]

    def _repeated(self, b: BlockBuilder, x: Value) -> Value:
        few, deep = const(self.heads // self.groups), x.type.dims[3]
        five = (B, few, const(self.groups), T, deep)
        return b.one("reshape", [_spread(b, x, (0, 1, 3, 4), five)], {"shape": (B, const(self.heads), T, deep)})

    def _masked(self, b: BlockBuilder, scores: Value, whole: Sequence[Dim]) -> Value:
        soft = self.soft
        if self.mask == "none":
            return scores
        if self.mask == "additive":
            mask = argument(b, "mask", soft, [B, 1, S, T])
            return b.one("add", [scores, _spread(b, mask, (0, 1, 2, 3), whole)])
        low = float("-inf") if self.mask == "causal" else -1e4 if soft == "f16" else -1e30
        if self.mask == "bool":
            keep = _spread(b, argument(b, "mask", "i1", [S, T]), (2, 3), whole)
        elif self.mask == "length":
            length = _spread(b, argument(b, "mask", "i32", [B]), (0,), whole)
            keep = _compare(b, b.one("iota", [], {"dtype": "i32", "dim": 3, "shape": whole}), length, "LT")
        else:
            row, column = (b.one("iota", [], {"dtype": "i32", "dim": axis, "shape": (S, T)}) for axis in (0, 1))
            keep = _spread(b, _compare(b, row, column, "GE"), (2, 3), whole)
        return b.one("select", [keep, scores, _spread(b, constant(b, low, soft), (), whole)])

    def inputs(self, b: int, s: int, t: int, seed: int = 0) -> list[np.ndarray]:
        """Arrays for its inputs."""
        rng, env = np.random.default_rng(seed), {"b": b, "s": s, "t": t}
        found = [
            rng.normal(size=[size.evaluate(env) for size in self.shape(name)]).astype(TYPES[self.dtype])
            for name in "qkv"
        ]
        if self.mask == "additive":
            mask = rng.normal(size=(b, 1, s, t))
            mask[rng.random((b, 1, s, t)) < 0.3] = -np.inf
            mask[:, :, ::3, : t // 2] = -np.inf
            found.append(mask.astype(TYPES[self.soft]))
        elif self.mask == "bool":
            found.append(rng.random((s, t)) < 0.6)
        elif self.mask == "length":
            found.append(rng.integers(0, t + 1, size=b).astype(np.int32))
        return found


def _transpose(b: BlockBuilder, x: Value, order: tuple[int, ...]) -> Value:
    return x if order == tuple(range(len(order))) else b.one("transpose", [x], {"permutation": order})


def _convert(b: BlockBuilder, x: Value, dtype: str) -> Value:
    return x if x.type.dtype == dtype else b.one("convert", [x], {"dtype": dtype})


def _spread(b: BlockBuilder, x: Value, axes: tuple[int, ...], shape: Sequence[Dim]) -> Value:
    return b.one("broadcast_in_dim", [x], {"dims": axes, "shape": tuple(shape)})


def _compare(b: BlockBuilder, one: Value, two: Value, direction: str) -> Value:
    kind = "FLOAT" if one.type.dtype in ("f16", "bf16", "f32") else "SIGNED"
    return b.one("compare", [one, two], {"direction": direction, "kind": kind})


def fold(b: BlockBuilder, x: Value, op: str, start: float) -> Value:
    """The fold of the last axis."""
    dtype = x.type.dtype
    return b.one("reduce", [x, constant(b, start, dtype)], {"dims": (x.type.rank - 1,)}, regions=[region(b, op, dtype)])
