"""Synthetic models of any number of ops, with planted redundancies that an optimizer must remove."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import dtype_name

HEADS, DEPTH = 8, 64
WIDTH = HEADS * DEPTH
B, S = symbol("b"), symbol("s")
IDENTITY = (0, 1, 2)


@dataclass
class _Model:
    """A model under construction; the methods are named for what they add."""

    b: BlockBuilder
    rng: random.Random
    limit: int

    @property
    def left(self) -> int:
        """How many ops are still wanted."""
        return self.limit - len(self.b.ops)

    # -- small pieces ----------------------------------------------------------------------------------------------

    def scalar(self, number: float, dtype: type = np.float32) -> Value:
        return self.b.one("constant", (), {"value": np.array(number, dtype)})

    def splat(self, number: float, like: Value) -> Value:
        return self.b.one("broadcast_in_dim", (self.scalar(number),), {"dims": (), "shape": like.type.dims})

    def spread(self, x: Value, axes: tuple[int, ...], like: Value) -> Value:
        return self.b.one("broadcast_in_dim", (x,), {"dims": axes, "shape": like.type.dims})

    def body(self, name: str) -> Block:
        inner = self.b.child()
        x, y = inner.arg(None, "f32", []), inner.arg(None, "f32", [])
        return inner.finish([inner.one(name, (x, y))])

    def folded(self, name: str, start: float, x: Value) -> Value:
        """A reduction over the last axis, broadcast back."""
        last = x.type.rank - 1
        out = self.b.one("reduce", (x, self.scalar(start)), {"dims": (last,)}, regions=(self.body(name),))
        return self.spread(out, tuple(range(last)), x)

    def shape_code(self, x: Value, *tail: int) -> Value:
        """The first two sizes of x and static ones as a shape operand, recomputed each time as exporters do."""
        parts = []
        for axis in (0, 1):
            size = self.b.one("get_dimension_size", (x,), {"dim": axis})
            parts.append(self.b.one("reshape", (size,), {"shape": (const(1),)}))
        parts += [self.b.one("constant", (), {"value": np.array([size], np.int32)}) for size in tail]
        return self.b.one("concatenate", parts, {"dim": 0})

    def flat_code(self, x: Value, *tail: int) -> Value:
        """The product of the first two sizes of x and static ones as a shape operand."""
        sizes = [self.b.one("get_dimension_size", (x,), {"dim": axis}) for axis in (0, 1)]
        product = self.b.one("reshape", (self.b.one("multiply", sizes),), {"shape": (const(1),)})
        parts = [self.b.one("constant", (), {"value": np.array([size], np.int32)}) for size in tail]
        return self.b.one("concatenate", [product, *parts], {"dim": 0})

    # -- planted redundancies --------------------------------------------------------------------------------------

    def redundant(self, x: Value) -> Value:
        """x again, by a detour that changes nothing."""
        return self.rng.choice(_DETOURS)(self, x)

    def identity_broadcast(self, x: Value) -> Value:
        return self.spread(x, tuple(range(x.type.rank)), x)

    def reshape_chain(self, x: Value) -> Value:
        dims = x.type.dims
        flat = self.b.one("reshape", (x,), {"shape": (dims[0] * dims[1], *dims[2:])})
        longer = self.b.one("reshape", (flat,), {"shape": (const(1), dims[0] * dims[1], *dims[2:])})
        return self.b.one("reshape", (longer,), {"shape": dims})

    def double_transpose(self, x: Value) -> Value:
        order = list(range(x.type.rank))
        self.rng.shuffle(order)
        back = tuple(order.index(axis) for axis in range(len(order)))
        turned = self.b.one("transpose", (x,), {"permutation": tuple(order)})
        return self.b.one("transpose", (turned,), {"permutation": back})

    def full_slice(self, x: Value) -> Value:
        rank = x.type.rank
        zero, one = (const(0),) * rank, (const(1),) * rank
        return self.b.one("slice", (x,), {"starts": zero, "limits": x.type.dims, "strides": one})

    def same_convert(self, x: Value) -> Value:
        return self.b.one("convert", (x,), {"dtype": x.type.dtype})

    def times_one(self, x: Value) -> Value:
        return self.b.one("multiply", (x, self.splat(1.0, x)))

    def dynamic_identity(self, x: Value) -> Value:
        dims = x.type.dims
        if x.type.rank != 3 or dims[:2] != (B, S) or dims[2].const is None:
            return self.identity_broadcast(x)
        return self.b.one("broadcast_in_dim", (x, self.shape_code(x, dims[2].const)), {"dims": IDENTITY})

    # -- a layer ---------------------------------------------------------------------------------------------------

    def norm(self, x: Value, scale: Value, bias: Value) -> Value:
        count = self.splat(float(WIDTH), x)
        mean = self.b.one("divide", (self.folded("add", 0.0, x), count))
        centred = self.redundant(self.b.one("subtract", (x, mean)))
        variance = self.folded("add", 0.0, self.b.one("multiply", (centred, centred)))
        moved = self.b.one("add", (self.b.one("divide", (variance, count)), self.splat(1e-5, x)))
        unit = self.b.one("multiply", (centred, self.b.one("rsqrt", (moved,))))
        scaled = self.b.one("multiply", (unit, self.spread(scale, (2,), x)))
        return self.b.one("add", (scaled, self.spread(bias, (2,), x)))

    def linear(self, x: Value, weight: Value) -> Value:
        return self.b.one(
            "dot_general",
            (x, weight),
            {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (2,), "rhs_contract": (0,), "dtype": "f32"},
        )

    def heads(self, x: Value) -> Value:
        """[b, s, width] -> [b, heads, s, depth]."""
        split = self.b.one("reshape", (x, self.shape_code(x, HEADS, DEPTH)))
        return self.b.one("transpose", (self.redundant(split),), {"permutation": (0, 2, 1, 3)})

    def attention(self, x: Value, weights: list[Value]) -> Value:
        q, k, v = (self.heads(self.linear(x, weight)) for weight in weights[:3])
        batch = {"lhs_batch": (0, 1), "rhs_batch": (0, 1), "dtype": "f32"}
        scores = self.b.one("dot_general", (q, k), {**batch, "lhs_contract": (3,), "rhs_contract": (3,)})
        scores = self.b.one("multiply", (scores, self.splat(0.125, scores)))
        peak = self.redundant(self.folded("maximum", -np.inf, scores))
        powers = self.b.one("exponential", (self.b.one("subtract", (scores, peak)),))
        shares = self.b.one("divide", (powers, self.folded("add", 0.0, powers)))
        mixed = self.b.one("dot_general", (shares, v), {**batch, "lhs_contract": (3,), "rhs_contract": (2,)})
        back = self.b.one("transpose", (mixed,), {"permutation": (0, 2, 1, 3)})
        return self.linear(self.b.one("reshape", (back, self.shape_code(x, WIDTH))), weights[3])

    def mlp(self, x: Value, up: Value, down: Value) -> Value:
        flat = self.b.one("reshape", (x, self.flat_code(x, WIDTH)))
        attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}
        wide = self.redundant(self.b.one("dot_general", (flat, up), attrs))
        gate = self.b.one("multiply", (wide, self.b.one("logistic", (wide,))))
        narrow = self.b.one("dot_general", (gate, down), attrs)
        return self.b.one("reshape", (narrow, self.shape_code(x, WIDTH)))

    def layer(self, x: Value, number: int) -> Value:
        def weight(name: str, *shape: int) -> Value:
            return self.b.arg(f"l{number}_{name}", "f32", shape)

        square = [weight(name, WIDTH, WIDTH) for name in ("q", "k", "v", "o")]
        vectors = [weight(name, WIDTH) for name in ("scale1", "bias1", "scale2", "bias2")]
        up, down = weight("up", WIDTH, 4 * WIDTH), weight("down", 4 * WIDTH, WIDTH)
        x = self.b.one("add", (x, self.attention(self.norm(x, *vectors[:2]), square)))
        x = self.redundant(x)
        return self.b.one("add", (x, self.mlp(self.norm(x, *vectors[2:]), up, down)))


_DETOURS: tuple[Callable[[_Model, Value], Value], ...] = (
    _Model.identity_broadcast,
    _Model.reshape_chain,
    _Model.double_transpose,
    _Model.full_slice,
    _Model.same_convert,
    _Model.times_one,
    _Model.dynamic_identity,
)


def _model(n_ops: int, seed: int) -> tuple[_Model, Value]:
    model = _Model(BlockBuilder(), random.Random(seed), n_ops)
    return model, model.b.arg("x", "f32", [None, None, WIDTH], ["b", "s", None])


def _finished(model: _Model, x: Value, name: str) -> Graph:
    """Elementwise ops fill up to the wanted number."""
    while model.left > 0:
        x = model.b.one("tanh" if model.left % 2 else "negate", (x,))
    return Graph(name, model.b.finish([x]), ("out0",))


def transformer_like(n_ops: int, seed: int = 0) -> Graph:
    """A transformer of ``n_ops`` ops with symbolic batch ``b`` and length ``s``; about one op in five is planted."""
    model, x = _model(n_ops, seed)
    longest = 0
    for number in range(n_ops):
        before = len(model.b.ops)
        if model.left < longest * 1.2 + 1:
            break
        x = model.layer(x, number)
        longest = max(longest, len(model.b.ops) - before)
    return _finished(model, x, f"transformer_{n_ops}")


def chain(n_ops: int, seed: int = 0) -> Graph:
    """One op after the other, ``n_ops`` of them; each reads the one before, every tenth starts a detour."""
    model, x = _model(n_ops, seed)
    first = x
    while model.left > 12:
        step = len(model.b.ops)
        if step % 10 == 9:
            x = model.redundant(x)
        elif step % 3 == 0:
            x = model.b.one("add", (x, first))
        else:
            x = model.b.one(model.rng.choice(("tanh", "exponential", "negate", "logistic")), (x,))
    return _finished(model, x, f"chain_{n_ops}")


# -- what is left --------------------------------------------------------------------------------------------------


def planted_left(graph: Graph) -> list[str]:
    """The redundancies of the planted kinds that a graph still holds, each as its kind and value."""
    made = {value: op for op in graph.ops for value in op.results}
    found = []
    for op in graph.ops:
        kind = _redundancy(op, made)
        if kind:
            found.append(f"{kind} %{op.results[0].name}")
    return found + _twice(graph)


def _redundancy(op: Op, made: dict[Value, Op]) -> str:
    if not op.operands:
        return ""
    x, source = op.operands[0], made.get(op.operands[0])
    same = bool(op.results) and x.type.shape is not None and x.type == op.results[0].type
    match op.name:
        case "broadcast_in_dim" if same and op.attrs["dims"] == tuple(range(x.type.rank)):
            return "identity broadcast"
        case "reshape" if same:
            return "identity reshape"
        case "reshape" if source is not None and source.name == "reshape":
            return "reshape of reshape"
        case "transpose" if op.attrs["permutation"] == tuple(range(x.type.rank)):
            return "identity transpose"
        case "transpose" if source is not None and source.name == "transpose":
            return "transpose of transpose"
        case "slice" if same and all(stride is const(1) for stride in op.attrs["strides"]):
            return "full slice"
        case "convert" if x.type.dtype == op.results[0].type.dtype:
            return "convert to the same dtype"
        case "multiply" if any(_is_one(operand, made) for operand in op.operands):
            return "multiplication by one"
    return ""


def _is_one(value: Value, made: dict[Value, Op]) -> bool:
    source = made.get(value)
    while source is not None and source.name in ("broadcast_in_dim", "reshape"):
        source = made.get(source.operands[0])
    return source is not None and source.name == "constant" and bool(np.all(source.attrs["value"] == 1.0))


def _twice(graph: Graph) -> list[str]:
    """Shape code that computes one value twice."""
    seen: set[object] = set()
    found = []
    for op in graph.ops:
        if not op.results or op.results[0].type.dtype not in ("i32", "i64") or op.regions:
            continue
        key = (op.name, op.operands, tuple(sorted((name, _key(value)) for name, value in op.attrs.items())))
        if key in seen:
            found.append(f"duplicate {op.name} %{op.results[0].name}")
        seen.add(key)
    return found


def _key(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{dtype_name(value.dtype)}{value.tolist()}"
    return str(tuple(map(str, value)) if isinstance(value, tuple) else value)


def sizes_of(graph: Graph) -> set[Dim]:
    """The distinct sizes in the types of a graph."""
    return {dim for op in graph.ops for value in op.results for dim in value.type.shape or ()}
