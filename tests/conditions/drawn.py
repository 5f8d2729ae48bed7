"""A random graph of one op: every axis a size of its own or one that it shares, every size attribute a number, a symbol
or an expression, so that sizes at which the op is rejected are near those at which it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError
from egshape.ir.graph import Block, Graph, Value
from egshape.ops import REGISTRY
from egshape.ops.host import RESOLVERS, call_of
from tests.fuzz.differential import constant, graph_of
from tests.lower.opcases import ELEMENTWISE, Made, kind_of

NUMBERS = (0, 1, 1, 2, 3)
RESOLVERS["drawn"] = "tests.conditions.drawn:host_function"


class Draw(Made):
    """A graph in the making whose sizes are drawn."""

    def __init__(self, seed: int, dtype: str = "f32") -> None:
        super().__init__(dtype)
        self.rng = np.random.default_rng(seed)
        self.names: list[str] = []

    def chance(self, one_in: int) -> bool:
        return bool(self.rng.integers(one_in) == 0)

    def choice(self, items: Sequence[object]) -> object:
        return items[int(self.rng.integers(len(items)))]

    def some(self, items: Sequence[int], most: int | None = None) -> tuple[int, ...]:
        """Some of the items, in any order."""
        order = [items[int(k)] for k in self.rng.permutation(len(items))]
        return tuple(order[: int(self.rng.integers(0, min(len(items), len(items) if most is None else most) + 1))])

    def fresh(self) -> Dim:
        self.names.append(f"s{len(self.names)}")
        return symbol(self.names[-1])

    def axis(self) -> Dim | int:
        """The size of an operand's axis: its own, that of another one, or a number."""
        kind = self.rng.integers(10)
        if kind < 2 and self.names:
            return symbol(str(self.choice(self.names)))
        return int(str(self.choice(NUMBERS))) if kind == 2 else self.fresh()

    def axes(self, rank: int) -> list[Dim | int]:
        return [self.axis() for _ in range(rank)]

    def rank(self, least: int = 0, most: int = 3) -> int:
        return int(self.rng.integers(least, most + 1))

    def x(self, rank: int, dtype: str = "") -> Value:
        """An operand."""
        return self.arg(f"x{len(self.b.args)}", *self.axes(rank), dtype=dtype)

    def like(self, x: Value) -> Value:
        """An operand of the same rank, some of whose axes are those of ``x``."""
        mixed = [size if self.chance(2) else self.axis() for size in x.type.dims]
        return self.arg(f"x{len(self.b.args)}", *(size if self.named(size) else self.axis() for size in mixed))

    @staticmethod
    def named(size: Dim | int) -> bool:
        """Whether an argument can have the size: a number or a lone symbol."""
        return isinstance(size, int) or size.const is not None or size in map(symbol, size.symbols())

    def places(self, rank: int, last: int) -> Value:
        """Small integers, such as indices."""
        return self.arg(f"i{len(self.b.args)}", *self.axes(rank), last, dtype="i32")

    def start(self) -> Value:
        return self.arg(f"i{len(self.b.args)}", dtype="i32")

    def number_of(self, like: Dim | int = 1, least: int = -2) -> Dim:
        """A size attribute: near ``like``, a number, a symbol of its own or an expression."""
        kind = self.rng.integers(6)
        if kind == 0:
            return const(int(str(self.choice([each for each in (-1, 0, 1, 2, 3) if each >= least]))))
        if kind == 1:
            return self.loose() + max(least, int(self.rng.integers(-2, 2)))
        if kind == 2 and self.names:
            return symbol(str(self.choice(self.names)))
        base = like if isinstance(like, Dim) else const(like)
        return base + int(self.rng.integers(-1, 2)) if kind == 3 else base

    def loose(self) -> Dim:
        """A size that only an argument which nobody reads has."""
        size = self.fresh()
        self.arg(f"w{len(self.b.args)}", size)
        return size


def host_function(payload: bytes) -> Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]:
    """What a host call runs: each operand reversed along its first axis."""
    return lambda arrays: [array[::-1].copy() for array in arrays]


Drawn = Callable[[Draw], Sequence[Value]]


def _elementwise(name: str) -> Drawn:
    def draw(d: Draw) -> Sequence[Value]:
        x = d.x(d.rank())
        return [d.one(name, x, *(d.like(x) for _ in REGISTRY[name].operands[1:]))]

    return draw


def _compare(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    return [d.one("compare", x, d.like(x), direction="LE", kind=kind_of(d.dtype))]


def _convert(d: Draw) -> Sequence[Value]:
    return [d.one("convert", d.x(d.rank()), dtype="i32")]


def _bitcast(d: Draw) -> Sequence[Value]:
    widths = ("i8", "ui8", "i16", "bf16", "f16", "i32", "f32", "ui64", "f64")
    return [d.one("bitcast_convert", d.x(d.rank(0, 3), str(d.choice(widths))), dtype=str(d.choice(widths)))]


def _select(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    p = d.x(0 if d.chance(3) else x.type.rank, "i1")
    return [d.one("select", p, x, d.like(x))]


def _clamp(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    return [
        d.one(
            "clamp", *(d.like(x) if d.chance(2) else d.x(0) for _ in range(1)), x, d.like(x) if d.chance(2) else d.x(0)
        )
    ]


def _broadcast(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    rank = d.rank(x.type.rank, 4)
    dims = tuple(int(each) for each in d.rng.permutation(rank)[: x.type.rank])
    near = {target: x.type.dims[axis] for axis, target in enumerate(dims)}
    if d.chance(4):
        shape = d.arg(f"i{len(d.b.args)}", rank, dtype="i32")
        return [d.one("broadcast_in_dim", x, shape, dims=dims)]
    return [
        d.one("broadcast_in_dim", x, dims=dims, shape=tuple(d.number_of(near.get(axis, 1)) for axis in range(rank)))
    ]


def _reshape(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    if d.chance(4):
        return [d.one("reshape", x, d.arg(f"i{len(d.b.args)}", d.rank(), dtype="i64"))]
    target: list[Dim] = [x.type.dims[int(k)] for k in d.rng.permutation(x.type.rank)]
    if len(target) > 1 and d.chance(2):
        target = [target[0] * target[1], *target[2:]]
    if d.chance(3):
        target.insert(int(d.rng.integers(len(target) + 1)), const(1))
    return [d.one("reshape", x, shape=tuple(d.number_of(size) if d.chance(4) else size for size in target))]


def _transpose(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    return [d.one("transpose", x, permutation=tuple(map(int, d.rng.permutation(x.type.rank))))]


def _reverse(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    return [d.one("reverse", x, dims=d.some(range(x.type.rank)))]


def _slice(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank(0, 2))
    if d.chance(4):
        return [d.one("slice", x, *(d.arg(f"i{k}", x.type.rank, dtype="i32") for k in range(3)))]
    return [
        d.one(
            "slice",
            x,
            starts=tuple(d.number_of(0) for _ in x.type.dims),
            limits=tuple(map(d.number_of, x.type.dims)),
            strides=tuple(d.number_of(1) for _ in x.type.dims),
        )
    ]


def _pad(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank(0, 2))
    v = d.x(0)
    if d.chance(4):
        return [d.one("pad", x, v, *(d.arg(f"i{k}", x.type.rank, dtype="i32") for k in range(3)))]
    low, high, interior = (tuple(d.number_of(like) for _ in x.type.dims) for like in (1, 0, 0))
    return [d.one("pad", x, v, low=low, high=high, interior=interior)]


def _concatenate(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank(1))
    return [d.one("concatenate", x, *(d.like(x) for _ in range(d.rank(0, 2))), dim=int(d.rng.integers(x.type.rank)))]


def _dynamic_slice(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    return [
        d.one(
            "dynamic_slice",
            x,
            *(d.start() for _ in x.type.dims),
            sizes=tuple(int(str(d.choice(NUMBERS))) for _ in x.type.dims),
        )
    ]


def _dynamic_update_slice(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    return [d.one("dynamic_update_slice", x, d.like(x), *(d.start() for _ in x.type.dims))]


def _indexed(d: Draw, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]:
    """Batching axes of the operand and of the indices, indexed axes, the rank of the indices, the vectors' axis."""
    batch = d.some(range(rank), 1)
    indexed = d.some([axis for axis in range(rank) if axis not in batch])
    inner = len(batch) + d.rank(0, 1)
    vector = int(d.rng.integers(0, inner + 1))
    whole = inner + (0 if len(indexed) == 1 and d.chance(3) else 1)
    vector = whole if whole == inner else vector
    places = [axis for axis in range(whole) if axis != vector]
    return tuple(sorted(batch)), tuple(sorted(d.some(places, 0)) or places[: len(batch)]), indexed, whole, vector


def _index_operand(d: Draw, rank: int, vector: int, depth: int) -> Value:
    fixed = vector < rank and not d.chance(3)
    axes = [depth if fixed and axis == vector else d.axis() for axis in range(rank)]
    return d.arg(f"i{len(d.b.args)}", *axes, dtype="i32")


def _gather(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    batch, indices_batch, indexed, rank, vector = _indexed(d, x.type.rank)
    indices = _index_operand(d, rank, vector, len(indexed))
    collapsed = tuple(sorted(d.some([axis for axis in range(x.type.rank) if axis not in batch])))
    outer = rank - (vector < rank)
    kept = x.type.rank - len(batch) - len(collapsed)
    offsets = tuple(sorted(int(each) for each in d.rng.permutation(outer + kept)[:kept]))
    taken = tuple(d.number_of(1 if axis in (*batch, *collapsed) else size) for axis, size in enumerate(x.type.dims))
    return [
        d.one(
            "gather",
            x,
            indices,
            offset_dims=offsets,
            collapsed=collapsed,
            operand_batch=batch,
            indices_batch=indices_batch,
            start_index_map=indexed,
            index_vector_dim=vector,
            sizes=taken,
        )
    ]


def _scatter(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    batch, indices_batch, indexed, rank, vector = _indexed(d, x.type.rank)
    indices = _index_operand(d, rank, vector, len(indexed))
    inserted = tuple(sorted(d.some([axis for axis in range(x.type.rank) if axis not in batch])))
    outer = rank - (vector < rank)
    kept = [axis for axis in range(x.type.rank) if axis not in (*batch, *inserted)]
    window = tuple(sorted(int(each) for each in d.rng.permutation(outer + len(kept))[: len(kept)]))
    inside = iter([x.type.dims[axis] for axis in kept])
    counts = iter([size for axis, size in enumerate(indices.type.dims) if axis != vector])
    near = [next(inside) if axis in window else next(counts) for axis in range(outer + len(kept))]
    updates = d.arg("u", *(d.axis() if d.chance(3) else size for size in near))
    attrs = {
        "update_window_dims": window,
        "inserted_window_dims": inserted,
        "operand_batch": batch,
        "indices_batch": indices_batch,
        "scatter_dims_to_operand_dims": indexed,
        "index_vector_dim": vector,
    }
    if d.chance(3):
        y, other = d.like(x), d.like(updates)
        inner = d.b.child()
        a, b, c, e = (inner.arg(None, d.dtype, []) for _ in range(4))
        both = inner.finish([inner.one("maximum", (a, c)), inner.one("minimum", (b, e))])
        return d.b.add("scatter", (x, y, indices, updates, other), attrs, regions=(both,))
    return [d.one("scatter", x, indices, updates, regions=(d.body("maximum"),), **attrs)]


def _pair_body(d: Draw) -> Block:
    inner = d.b.child()
    a, b, c, e = (inner.arg(None, d.dtype, []) for _ in range(4))
    return inner.finish([inner.one("maximum", (a, c)), inner.one("minimum", (b, e))])


def _reduce(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank())
    dims = d.some(range(x.type.rank))
    if d.chance(2):
        return [d.one("reduce", x, d.x(0), dims=dims, regions=(d.body("maximum"),))]
    return d.b.add("reduce", (x, d.like(x), d.x(0), d.x(0)), {"dims": dims}, regions=(_pair_body(d),))


def _reduce_window(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank(0, 2))
    rank = x.type.rank
    attrs: dict[str, object] = {"window": tuple(d.number_of(int(str(d.choice((1, 2, 3)))), 0) for _ in range(rank))}
    for key in ("strides", "base_dilation", "window_dilation"):
        attrs[key] = tuple(d.number_of(1) if d.chance(2) else const(1) for _ in range(rank))
    attrs["padding"] = tuple(d.number_of(0) for _ in range(2 * rank))
    if d.chance(2):
        return [d.one("reduce_window", x, d.x(0), regions=(d.body("maximum"),), **attrs)]
    return d.b.add("reduce_window", (x, d.like(x), d.x(0), d.x(0)), attrs, regions=(_pair_body(d),))


def _select_and_scatter(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank(0, 2))
    source = d.like(x)
    rank = x.type.rank
    window, strides = (tuple(int(each) for each in d.rng.integers(1, 4, rank)) for _ in range(2))
    padding = tuple(int(each) for each in d.rng.integers(-1, 3, 2 * rank))
    return [
        d.one(
            "select_and_scatter",
            x,
            source,
            d.x(0),
            window=window,
            strides=strides,
            padding=padding,
            regions=(d.comparator("GE", d.dtype), d.body("maximum")),
        )
    ]


def _sort(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank(1))
    xs = [x, *(d.like(x) for _ in range(d.rank(0, 2)))]
    return d.b.add(
        "sort",
        xs,
        {"dim": int(d.rng.integers(x.type.rank)), "stable": True},
        regions=(d.comparator("LT", *(d.dtype for _ in xs)),),
    )


def _iota(d: Draw) -> Sequence[Value]:
    rank = d.rank(1)
    dim = int(d.rng.integers(rank))
    if d.chance(2):
        return [d.one("iota", d.arg("i", rank, dtype="i32"), dtype=d.dtype, dim=dim)]
    d.axes(0)
    return [d.one("iota", dtype=d.dtype, dim=dim, shape=tuple(d.number_of(d.loose()) for _ in range(rank)))]


def _constant(d: Draw) -> Sequence[Value]:
    return [d.number(np.ones((2, 3)))]


def _dims(d: Draw) -> Sequence[Value]:
    return [d.one("dims", elements=tuple(d.number_of() for _ in range(3)), shape=(3,), dtype="i64")]


def _size(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank(1))
    return [d.one("get_dimension_size", x, dim=int(d.rng.integers(x.type.rank)))]


def _dot(d: Draw) -> Sequence[Value]:
    x, rank = d.x(d.rank()), d.rank()
    pairs = min(x.type.rank, rank)
    left = [int(each) for each in d.rng.permutation(x.type.rank)[:pairs]]
    right = [int(each) for each in d.rng.permutation(rank)[:pairs]]
    batch = int(d.rng.integers(0, pairs + 1))
    contract = int(d.rng.integers(batch, pairs + 1))
    near = {b: x.type.dims[a] for a, b in zip(left, right, strict=True)}
    y = d.arg("y", *(near[axis] if axis in near and d.chance(2) else d.axis() for axis in range(rank)))
    return [
        d.one(
            "dot_general",
            x,
            y,
            lhs_batch=tuple(left[:batch]),
            rhs_batch=tuple(right[:batch]),
            lhs_contract=tuple(left[batch:contract]),
            rhs_contract=tuple(right[batch:contract]),
            dtype=d.dtype,
        )
    ]


def _convolution(d: Draw) -> Sequence[Value]:
    spatial = d.rank(0, 2)
    rank = spatial + 2
    orders = [[int(each) for each in d.rng.permutation(rank)] for _ in range(3)]
    numbers = tuple(part for order in orders for part in (order[0], order[1], tuple(order[2:])))
    x, w = d.x(rank), d.x(rank)
    groups, batch_groups = ((1, 1), (2, 1), (1, 2), (3, 1), (1, 3))[int(d.rng.integers(5))]
    low, high = (int(str(d.choice((1, 1, 2)))) for _ in range(2))
    return [
        d.one(
            "convolution",
            x,
            w,
            numbers=numbers,
            dtype=d.dtype,
            feature_groups=groups,
            batch_groups=batch_groups,
            strides=tuple(int(each) for each in d.rng.integers(1, 3, spatial)),
            padding=tuple(d.number_of(0) for _ in range(2 * spatial)),
            lhs_dilation=(low,) * spatial,
            rhs_dilation=(high,) * spatial,
            reversal=(0,) * spatial,
        )
    ]


def _barrier(d: Draw) -> Sequence[Value]:
    return d.b.add("optimization_barrier", (d.x(d.rank()), d.x(d.rank())))


def _composite(d: Draw, op: str = "composite") -> Sequence[Value]:
    x = d.x(d.rank(1))
    y = d.like(x)
    inner = d.b.child()
    stated = y if d.chance(2) else x
    one, two = (inner.arg(None, d.dtype, each.type.dims) for each in (x, stated))
    found = inner.one("add", (one, two)) if d.chance(2) else inner.one("reverse", (two,), {"dims": (0,)})
    return [d.b.one(op, (x, y), {"name": "drawn.add"}, regions=(inner.finish([found]),))]


def _arms(d: Draw, count: int) -> list[Block]:
    """Arms that give tensors of equal rank: one operand, or the sum of two."""
    x = d.x(d.rank(1, 2))
    xs = [x, d.like(x), d.like(x)]
    arms = []
    for _ in range(count):
        inner = d.b.child()
        one, two = (xs[int(d.rng.integers(3))] for _ in range(2))
        arms.append(inner.finish([inner.one("add", (one, two)) if d.chance(2) else inner.one("negate", (one,))]))
    return arms


def _if(d: Draw) -> Sequence[Value]:
    return d.b.add("if", (d.arg("p", dtype="i1"),), regions=_arms(d, 2))


def _case(d: Draw) -> Sequence[Value]:
    return d.b.add("case", (d.start(),), regions=_arms(d, 3))


def _while(d: Draw) -> Sequence[Value]:
    """Up to three rounds that carry two values; the body's result may have other sizes than its argument says."""
    i, x = d.start(), d.x(d.rank(1, 2))
    y = d.like(x)
    head, inner = d.b.child(), d.b.child()
    types = (("i32", ()), (d.dtype, x.type.dims), (d.dtype, y.type.dims))
    k, *_ = (head.arg(None, dtype, dims) for dtype, dims in types)
    condition = head.finish([head.one("compare", (k, i), {"direction": "LT", "kind": "SIGNED"})])
    k, a, b = (inner.arg(None, dtype, dims) for dtype, dims in types)
    step = inner.one("add", (k, constant(inner, 1, "i32")))
    either = (inner.one("add", (a, b)), b) if d.chance(2) else (b, a) if d.chance(2) else (inner.one("negate", (a,)), b)
    return d.b.add("while", (d.number(0, "i32"), x, y), regions=(condition, inner.finish([step, *either])))


def _check(d: Draw) -> Sequence[Value]:
    x = d.x(d.rank(1))
    other = d.loose()
    d.b.add(
        "check",
        (),
        {
            "relation": str(d.choice(("==", "!=", "<=", "<"))),
            "sides": (x.type.dims[0], other),
            "message": "{0} and {1}",
            "args": (x.type.dims[0], other),
        },
    )
    return [d.one("reverse", x, dims=(0,))]


def _host_call(d: Draw) -> Sequence[Value]:
    """A call that says the sizes of its result, some of which it does not know, some wrongly."""
    x = d.x(d.rank(1))
    stated = tuple(const(-1) if d.chance(3) else d.number_of(size, 0) for size in x.type.dims)
    return [
        d.one(
            "host_call",
            x,
            target="drawn.reverse",
            call=call_of("drawn", b""),
            dtypes=(d.dtype,),
            ranks=(x.type.rank,),
            sizes=stated,
        )
    ]


DRAWN: dict[str, Drawn] = {
    **{decl.name: _elementwise(decl.name) for decl in REGISTRY if decl.family in ELEMENTWISE},
    "compare": _compare,
    "convert": _convert,
    "bitcast_convert": _bitcast,
    "select": _select,
    "clamp": _clamp,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "sort": _sort,
    "iota": _iota,
    "constant": _constant,
    "dims": _dims,
    "get_dimension_size": _size,
    "dot_general": _dot,
    "convolution": _convolution,
    "optimization_barrier": _barrier,
    "composite": _composite,
    "call": partial(_composite, op="call"),
    "if": _if,
    "case": _case,
    "while": _while,
    "check": _check,
    "host_call": _host_call,
}
"""How the graph of an op is drawn."""

ELSEWHERE = {"custom_call": "calls what nothing here can run", "host_effect": "demands what host_call does"}
DTYPES = {
    **dict.fromkeys(
        (
            "not",
            "and",
            "or",
            "xor",
            "popcnt",
            "count_leading_zeros",
            "shift_left",
            "shift_right_arithmetic",
            "shift_right_logical",
        ),
        "i32",
    )
}


def drawn(name: str, seed: int) -> Graph:
    """A graph of one op; sizes that clash by themselves are drawn anew."""
    for attempt in range(100):
        d = Draw(seed * 100 + attempt, DTYPES.get(name, "f32"))
        try:
            results = DRAWN[name](d)
        except EgshapeError:
            continue
        return graph_of(d.b, *results)
    raise AssertionError(f"no graph of {name} comes of seed {seed}")
