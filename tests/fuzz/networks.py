"""Random networks, in the patterns that a back end fuses: products with what follows them in every layout, attention
with masks of every kind, convolutions, rows and columns of reductions, and movement between all of these."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.frontends.builder import Network
from egshape.ir.graph import Graph, Value
from egshape.ir.types import is_float, numpy_dtype

SIZES = (0, 1, 2, 3, 7, 16, 33, 48, 127)
WIDTHS = (1, 2, 5, 16, 31, 48, 64, 65, 100)
SYMBOLS = ("b", "s", "t")


class Mix(Network):
    """A network that grows by random pieces. Every value that it keeps is f32 with ordinary numbers."""

    def __init__(self, seed: int) -> None:
        super().__init__("mix", seed=seed)
        self.pick = random.Random(seed)
        self.made: list[Value] = []

    def one(self, name: str, *xs: Value, **attrs: object) -> Value:
        """An op with one result."""
        return self._op(name, *xs, **attrs)

    def fresh(self, *shape: Dim | int) -> Value:
        """An input of any shape over the symbols, or a weight where the shape is static."""
        shape = tuple(size if _plain(size) else 1 for size in shape)
        if all(isinstance(size, int) for size in shape) and self.pick.random() < 0.6:
            return self.random(*(size for size in shape if isinstance(size, int)), scale=0.5)
        return self.input(f"x{len(self._b.args)}", list(shape))

    def size(self) -> Dim | int:
        """A symbol, or a width."""
        return symbol(self.pick.choice(SYMBOLS)) if self.pick.random() < 0.6 else self.pick.choice(WIDTHS)

    def keep(self, value: Value) -> Value:
        """A value that later pieces and results may read."""
        self.made.append(value)
        return value

    def value(self, rank: int) -> Value:
        """An earlier value of a rank, or a new input."""
        known = [each for each in self.made if each.type.rank == rank]
        if known and self.pick.random() < 0.7:
            return self.pick.choice(known)
        return self.keep(self.fresh(*(self.size() for _ in range(rank))))

    def like(self, x: Value, *, holes: bool = True) -> Value:
        """Something that broadcasts to the shape of x: some of its axes are 1, or missing in front."""
        if not holes and not all(map(_plain, x.type.dims)):
            return self.tanh(x)
        dims = [
            1 if holes and self.pick.random() < 0.4 else dim.const if dim.const is not None else dim
            for dim in x.type.dims
        ]
        if holes and self.pick.random() < 0.4:
            dims = dims[self.pick.randint(0, len(dims)) :]
        return self.fresh(*dims)

    def scale(self, x: Value) -> Value:
        """x times a number."""
        return self.one("multiply", x, self._scalar(self.pick.choice((0.5, -1.0, 0.125, 2.0)), x))


# -- pieces --------------------------------------------------------------------------------------------------------


def pointwise(m: Mix, x: Value) -> Value:
    """A few elementwise ops over x and what broadcasts to it."""
    for _ in range(m.pick.randint(1, 3)):
        match m.pick.randint(0, 7):
            case 0:
                x = m.gelu(x)
            case 1:
                x = m.relu(x)
            case 2:
                x = m.pick.choice((m.tanh, m.silu))(x)
            case 3:
                x = m.add(x, m.like(x))
            case 4:
                x = m.multiply(x, m.tanh(m.like(x)))
            case 5:
                x = m.scale(x)
            case 6:
                x = m.one("convert", m.one("convert", x, dtype=m.pick.choice(("f64", "bf16", "f16"))), dtype="f32")
            case _:
                other = m.one("broadcast_in_dim", m._number(0.25), dims=(), shape=x.type.dims)
                test = m.one("compare", x, other, direction="LT", kind="FLOAT")
                x = m.one("select", test, m.scale(x), x)
    return x


def followed(m: Mix) -> Value:
    """Elementwise ops on an earlier value."""
    return pointwise(m, m.value(m.pick.randint(1, 4)))


def product(m: Mix) -> Value:
    """A product of any layout, scaled to ordinary numbers, and what follows it; now and then transposed operands."""
    batch = [m.size() for _ in range(m.pick.choice((0, 0, 0, 1, 2)))]
    inner, rows, columns = m.size(), m.size(), m.size()
    sides = []
    for free in (rows, columns):
        parts: list[tuple[str, Dim | int]] = [(f"b{k}", size) for k, size in enumerate(batch)]
        parts += [("free", free), ("inner", inner)]
        m.pick.shuffle(parts)
        x = m.fresh(*(size for _, size in parts))
        if m.pick.random() < 0.3:
            order = list(range(len(parts)))
            m.pick.shuffle(order)
            x, parts = m.transpose(x, order), [parts[axis] for axis in order]
        names = [name for name, _ in parts]
        sides.append((x, tuple(names.index(f"b{k}") for k in range(len(batch))), names.index("inner")))
    (x, xb, xi), (y, yb, yi) = sides
    out = m.one("dot_general", x, y, lhs_batch=xb, rhs_batch=yb, lhs_contract=(xi,), rhs_contract=(yi,), dtype="f32")
    return pointwise(m, m.one("multiply", out, m._scalar(0.2, out))) if m.pick.random() < 0.8 else out


def dense(m: Mix) -> Value:
    """A layer with constant weights on the last axis, which may be joined with its neighbours."""
    x = m.value(m.pick.randint(1, 3))
    if x.type.dims[-1].const is None:
        x = m.fresh(*x.type.dims[:-1], m.pick.choice(WIDTHS))
    branches = [m.linear(x, m.pick.choice(WIDTHS), bias=m.pick.random() < 0.8) for _ in range(m.pick.choice((1, 1, 3)))]
    for each in branches:
        m.keep(pointwise(m, each) if m.pick.random() < 0.7 else each)
    out = m.made[-1]
    if m.pick.random() < 0.4:
        out = m.add(out, m.like(out, holes=False))
    return m.layernorm(out) if m.pick.random() < 0.4 else out


def mask_of(m: Mix, scores: Value) -> Value:
    """The scores with a mask: added, or selected; causal, or an input."""
    match m.pick.randint(0, 3):
        case 0:
            return scores
        case 1:
            return m.add(scores, m.like(scores))
        case 2:
            rank = scores.type.rank
            rows, columns = (m.one("iota", dtype="i32", dim=rank - k, shape=scores.type.dims) for k in (2, 1))
            low = m._scalar(-1e9, scores)
            return m.one("select", m.one("compare", rows, columns, direction="GE", kind="SIGNED"), scores, low)
        case _:
            other = m.like(scores)
            wide = m._to(other, scores.type.dims)
            zero, low = m._scalar(0.3, wide), m._scalar(-1e4, scores)
            return m.one("select", m.one("compare", wide, zero, direction="LT", kind="FLOAT"), scores, low)


def attention(m: Mix) -> Value:
    """Attention between any two lengths, heads in any place, scaled before or after, masked in any way."""
    batch: list[Dim | int] = [m.size() for _ in range(m.pick.choice((0, 1, 2)))]
    rows, columns = m.size(), m.size()
    depth, wide = m.pick.choice((1, 8, 16, 33, 64)), m.pick.choice((1, 8, 16, 33, 64))
    count = len(batch)
    axes = tuple(range(count))
    q, k, v = (m.fresh(*batch, length, width) for length, width in ((rows, depth), (columns, depth), (columns, wide)))
    if m.pick.random() < 0.3:
        q = m.scale(q)
    if m.pick.random() < 0.4:
        turned = m.transpose(k, (*axes, count + 1, count))
        scores = m._dot(q, turned, axes, (count + 1, count))
    else:
        scores = m._dot(q, k, axes, (count + 1, count + 1))
    scores = mask_of(m, m.one("divide", scores, m._scalar(depth**0.5, scores)))
    weights = m.softmax(scores)
    if m.pick.random() < 0.2:
        m.keep(weights)
    out = m._dot(weights, v, axes, (count + 1, count))
    if count == 2 and m.pick.random() < 0.6:
        out = m.merge_heads(out) if out.type.dims[1].const is not None else m.transpose(out, (0, 2, 1, 3))
    return pointwise(m, out) if m.pick.random() < 0.5 else out


def convolution(m: Mix) -> Value:
    """A convolution of one to three axes, any stride, dilation and group, channels first or last; what follows."""
    rank = m.pick.choice((1, 2, 2, 2, 3))
    groups = m.pick.choice((1, 1, 1, 2, 4))
    inner, outer = m.pick.choice((1, 2, 3, 8)), m.pick.choice((1, 2, 4, 12))
    if m.pick.random() < 0.25:
        groups, inner, outer = m.pick.choice((3, 8, 17)), 1, m.pick.choice((1, 2))
    window = [m.pick.choice((1, 1, 2, 3, 3, 5)) for _ in range(rank)]
    space: list[Dim | int] = [
        symbol(m.pick.choice(SYMBOLS)) if m.pick.random() < 0.5 else m.pick.choice((6, 9, 13)) for _ in range(rank)
    ]
    dilation = [m.pick.choice((1, 1, 1, 2)) for _ in range(rank)]
    last = m.pick.random() < 0.4
    places, ends = tuple(range(1, rank + 1)), tuple(range(2, rank + 2))
    shape = (
        [m.pick.choice((1, 2, "b")), *space, inner * groups]
        if last
        else [m.pick.choice((1, 2, "b")), inner * groups, *space]
    )
    kernel = [*window, inner, outer * groups] if last else [outer * groups, inner, *window]
    numbers = (
        (0, rank + 1, places, rank, rank + 1, tuple(range(rank)), 0, rank + 1, places)
        if last
        else (0, 1, ends, 1, 0, ends, 0, 1, ends)
    )
    x = m.fresh(*(symbol("b") if size == "b" else size for size in shape))
    # Padding that no window can be larger than, at any size.
    padding = [
        const(m.pick.randint((d * (w - 1) + 1) // 2 + 1, 6))
        for w, d in zip(window, dilation, strict=True)
        for _ in range(2)
    ]
    out = m.one(
        "convolution",
        x,
        m.random(*kernel, scale=0.3),
        numbers=numbers,
        strides=tuple(m.pick.choice((1, 1, 2, 3)) for _ in range(rank)),
        padding=tuple(padding),
        lhs_dilation=tuple(m.pick.choice((1, 1, 1, 1, 2)) for _ in range(rank)),
        rhs_dilation=tuple(dilation),
        reversal=tuple(m.pick.choice((0, 0, 0, 1)) for _ in range(rank)),
        feature_groups=groups,
        batch_groups=1,
        dtype="f32",
    )
    return pointwise(m, out)


def reduction(m: Mix) -> Value:
    """Sums and extremes over any axes, spread back or not."""
    x = m.value(m.pick.randint(1, 4))
    rank = x.type.rank
    dims = tuple(sorted(m.pick.sample(range(rank), m.pick.randint(1, rank))))
    name = m.pick.choice(("add", "maximum", "minimum"))
    start = m._number({"add": 0.0, "maximum": -np.inf, "minimum": np.inf}[name])
    if name != "add":  # an empty maximum is infinite, and what follows would be no number
        start = m._number(0.5)
    (out,) = m._b.add("reduce", (x, start), {"dims": dims}, regions=(m._region(name),))
    if name == "add":
        out = m.one("multiply", out, m._scalar(0.05, out))
    if m.pick.random() < 0.6:
        axes = tuple(axis for axis in range(rank) if axis not in dims)
        spread = m.one("broadcast_in_dim", out, dims=axes, shape=x.type.dims)
        return pointwise(m, m.pick.choice((m.add, m.multiply))(x, m.tanh(spread)))
    return pointwise(m, out) if m.pick.random() < 0.5 else out


def rows(m: Mix) -> Value:
    """Softmax or layernorm, over the last axis or another."""
    x = m.value(m.pick.randint(1, 3))
    if m.pick.random() < 0.4:
        order = list(range(x.type.rank))
        m.pick.shuffle(order)
        x = m.transpose(x, order)
    if x.type.dims[-1].const is not None and m.pick.random() < 0.6:
        return pointwise(m, m.layernorm(x)) if m.pick.random() < 0.5 else m.layernorm(x)
    return m.softmax(pointwise(m, x)) if m.pick.random() < 0.5 else m.softmax(x)


def movement(m: Mix) -> Value:
    """A transpose, a reshape, a slice, a pad, a concatenation or a reverse."""
    x = m.value(m.pick.randint(1, 4))
    rank = x.type.rank
    match m.pick.randint(0, 5):
        case 0:
            order = list(range(rank))
            m.pick.shuffle(order)
            return m.transpose(x, order)
        case 1:
            axis = m.pick.randint(0, rank - 1)
            dims = list(x.type.dims)
            if rank > 1 and axis < rank - 1:
                dims[axis : axis + 2] = [dims[axis] * dims[axis + 1]]
            else:
                dims.insert(axis, const(1))
            return m.reshape(x, dims)
        case 2:
            steps = tuple(const(m.pick.choice((1, 1, 2, 3))) for _ in range(rank))
            return m.one("slice", x, starts=(const(0),) * rank, limits=x.type.dims, strides=steps)
        case 3:
            low, high = (tuple(const(m.pick.choice((0, 0, 1, 3))) for _ in range(rank)) for _ in range(2))
            inner = tuple(const(m.pick.choice((0, 0, 0, 1))) for _ in range(rank))
            return m.one("pad", x, m._number(0.5), low=low, high=high, interior=inner)
        case 4:
            axis = m.pick.randint(0, rank - 1)
            return m.concatenate([x, m.tanh(x), x][: m.pick.randint(1, 3)], axis)
    return m.one("reverse", x, dims=(m.pick.randint(0, rank - 1),))


PIECES: tuple[Callable[[Mix], Value], ...] = (
    followed,
    product,
    product,
    dense,
    dense,
    attention,
    attention,
    convolution,
    reduction,
    rows,
    rows,
    movement,
    movement,
)


def network(seed: int, pieces: Sequence[Callable[[Mix], Value]] = PIECES) -> Graph:
    """The random network of a seed: its results are its last value and a few others."""
    m = Mix(seed)
    for _ in range(m.pick.randint(1, 5)):
        m.keep(m.pick.choice(pieces)(m))
    chosen = [m.made[-1], *(m.pick.choice(m.made) for _ in range(m.pick.randint(0, 2)))]
    return m.graph(**{f"out{k}": value for k, value in enumerate(chosen)})


def inputs(graph: Graph, seed: int, count: int = 8) -> list[tuple[dict[str, int], list[np.ndarray]]]:
    """Sizes and inputs, no value larger than some thousand elements, products of a bearable number of steps."""
    rng = random.Random(seed)
    out: list[tuple[dict[str, int], list[np.ndarray]]] = []
    for _ in range(20 * count):
        sizes = {name: rng.choice(SIZES) for name in SYMBOLS}
        if len(out) < count and all(_count(value, sizes) <= 60_000 for op in graph.ops for value in op.results):
            numbers = np.random.default_rng([seed, len(out)])
            arrays = []
            for value in graph.inputs:
                shape = [dim.evaluate(sizes) for dim in value.type.dims]
                dtype = numpy_dtype(value.type.dtype)
                arrays.append(
                    numbers.normal(size=shape).astype(dtype)
                    if is_float(value.type.dtype)
                    else numbers.integers(0, 4, shape).astype(dtype)
                )
            out.append((sizes, arrays))
    return out


def _plain(size: Dim | int) -> bool:
    """A number or a symbol: what an input can have as a size."""
    return (
        isinstance(size, int)
        or size.const is not None
        or (len(size.symbols()) == 1 and size is symbol(next(iter(size.symbols()))))
    )


def _count(value: Value, sizes: dict[str, int]) -> int:
    total = 1
    for dim in value.type.dims:
        if dim.symbols() <= sizes.keys():
            total *= max(dim.evaluate(sizes), 0)
    return total
