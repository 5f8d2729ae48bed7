"""A graph for each op and dtype, made from the declarations of the ops where these say all, else by hand: one per way
of using the op. An op without a case here is a failed test, so that a new op gets one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, Value
from egshape.ir.types import DTYPES, is_complex, is_float, is_narrow, itemsize, numpy_dtype
from egshape.ops import REGISTRY
from tests.fuzz.differential import argument, constant, data, graph_of, region

Array = np.ndarray
N, M = symbol("n"), symbol("m")
SIZES = (0, 1, 2, 7, 33, 127, 1024)
REAL = tuple(dtype for dtype in DTYPES if not is_complex(dtype) and not is_narrow(dtype))
ELEMENTWISE = ("unary", "binary")
INDEX = ("i32", "i64", "ui8")


@dataclass(frozen=True)
class OpCase:
    """One op in one dtype; ``most`` bounds the sizes at which it is run."""

    op: str
    dtype: str
    graph: Graph
    most: int = SIZES[-1]

    def __str__(self) -> str:
        return f"{self.op}-{self.dtype}"

    def arrays(self, n: int, seed: int = 0) -> list[Array]:
        """Inputs where n is the size and m another that comes from it; integers named i* stay small."""
        sizes = {"n": n, "m": (n * 3 + 1) % 8}
        out = []
        for number, each in enumerate(self.graph.inputs):
            shape = tuple(dim.evaluate(sizes) for dim in each.type.dims)
            out.append(numbers(each.type.dtype, shape, seed + number, small=each.name.startswith("i")))
        return out


def numbers(dtype: str, shape: Sequence[int], seed: int, *, small: bool = False) -> Array:
    """Elements: floats of all magnitudes and special ones, integers at the ends of their range; or small integers."""
    rng = np.random.default_rng([seed, *shape])
    if small:
        return rng.integers(0 if dtype.startswith("u") else -3, 12, shape).astype(numpy_dtype(dtype))
    special = data(dtype, shape, seed)
    if not is_float(dtype):
        return special
    ordinary = rng.normal(size=shape) * np.exp(rng.normal(size=shape) * 2)
    with np.errstate(all="ignore"):
        return np.where(rng.random(shape) < 0.1, special, ordinary.astype(numpy_dtype(dtype)))


class Made:
    """A graph under construction, in one dtype."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.b = BlockBuilder()

    def arg(self, name: str, *shape: Dim | int, dtype: str = "") -> Value:
        return argument(self.b, name, dtype or self.dtype, shape)

    def one(self, name: str, *xs: Value, regions: Sequence[Block] = (), **attrs: object) -> Value:
        return self.b.one(name, xs, attrs, regions=regions)

    def number(self, value: object, dtype: str = "") -> Value:
        return constant(self.b, value, dtype or self.dtype)

    def body(self, name: str) -> Block:
        return region(self.b, name, self.dtype)

    def comparator(self, direction: str, *dtypes: str) -> Block:
        inner = self.b.child()
        args = [inner.arg(None, dtype, []) for dtype in dtypes for _ in range(2)]
        return inner.finish([inner.one("compare", args[:2], {"direction": direction, "kind": kind_of(dtypes[0])})])


def kind_of(dtype: str) -> str:
    """The kind of a comparison."""
    return "TOTALORDER" if is_float(dtype) else "UNSIGNED" if dtype.startswith("u") or dtype == "i1" else "SIGNED"


def sizes(*items: Dim | int) -> tuple[Dim, ...]:
    """Sizes as an attribute."""
    return tuple(item if isinstance(item, Dim) else const(item) for item in items)


# -- ops whose declaration says all ---------------------------------------------------------------------------------


def variants(op: str, dtype: str) -> Iterator[dict[str, object]]:
    """The attributes with which an elementwise op is tried."""
    if op == "compare":
        for direction in ("EQ", "NE", "LT", "LE", "GT", "GE"):
            for kind in {kind_of(dtype), "FLOAT" if is_float(dtype) else kind_of(dtype)}:
                yield {"direction": direction, "kind": kind}
    elif op in ("convert", "bitcast_convert"):
        for target in REAL:
            if op == "convert" or (itemsize(target) == itemsize(dtype) and "i1" not in (dtype, target)):
                yield {"dtype": target}
    else:
        yield {}


def elementwise(op: str, dtype: str) -> Graph | None:
    """An op on operands of one dtype, each in full shape; None if it does not take them."""
    m = Made(dtype)
    xs = [m.arg(name, N, 3) for name in REGISTRY[op].operands]
    results = []
    for attrs in variants(op, dtype):
        try:
            results.append(m.b.one(op, xs, attrs))
        except EgshapeError:
            continue
    return graph_of(m.b, *results) if results else None


# -- the rest, a function each --------------------------------------------------------------------------------------

Maker = Callable[[Made], Sequence[Value]]


def _select(m: Made) -> Sequence[Value]:
    p, q, x, y = m.arg("p", N, dtype="i1"), m.arg("q", dtype="i1"), m.arg("x", N), m.arg("y", N)
    return m.one("select", p, x, y), m.one("select", q, x, y)


def _clamp(m: Made) -> Sequence[Value]:
    low, x, y = m.arg("low"), m.arg("x", N), m.arg("y", N)
    return m.one("clamp", low, x, y), m.one("clamp", x, y, low), m.one("clamp", y, x, x)


def _broadcast(m: Made) -> Sequence[Value]:
    x, y, z, _ = m.arg("x", N), m.arg("y", N, 1), m.arg("z"), m.arg("w", M)
    return (
        m.one("broadcast_in_dim", x, dims=(1,), shape=sizes(3, N)),
        m.one("broadcast_in_dim", z, dims=(), shape=sizes(N, 2)),
        m.one("broadcast_in_dim", y, dims=(0, 2), shape=sizes(N, 2, M)),
    )


def _reshape(m: Made) -> Sequence[Value]:
    x, y = m.arg("x", N, 6), m.arg("y", M, N, 2)
    flat = m.one("reshape", m.one("transpose", y, permutation=(1, 0, 2)), shape=sizes(2 * N * M))
    return (
        m.one("reshape", x, shape=sizes(3, 2 * N)),
        m.one("reshape", x, shape=sizes(N, 1, 2, 3)),
        flat,
        m.one("reshape", flat, shape=sizes(2, M, N)),
    )


def _transpose(m: Made) -> Sequence[Value]:
    x = m.arg("x", N, 3, M)
    return [m.one("transpose", x, permutation=order) for order in ((2, 1, 0), (1, 0, 2), (0, 2, 1), (2, 0, 1))]


def _reverse(m: Made) -> Sequence[Value]:
    x = m.arg("x", N, 3)
    return [m.one("reverse", x, dims=dims) for dims in ((0,), (1,), (0, 1), ())]


def _slice(m: Made) -> Sequence[Value]:
    x = m.arg("x", N, 9)
    return (
        m.one("slice", x, starts=sizes(0, 2), limits=sizes(N, 9), strides=sizes(1, 3)),
        m.one("slice", x, starts=sizes(0, 0), limits=sizes(N, 9), strides=sizes(2, 1)),
        m.one("slice", x, starts=sizes(N, 4), limits=sizes(N, 4), strides=sizes(1, 1)),
    )


def _pad(m: Made) -> Sequence[Value]:
    x, v, _ = m.arg("x", N, 5), m.arg("v"), m.arg("w", M)
    return (
        m.one("pad", x, v, low=sizes(1, 2), high=sizes(M, 0), interior=sizes(0, 1)),
        m.one("pad", x, v, low=sizes(0, -2), high=sizes(2, -1), interior=sizes(2, 0)),
    )


def _concatenate(m: Made) -> Sequence[Value]:
    x, y, z = m.arg("x", N, 3), m.arg("y", M, 3), m.arg("z", N, 2)
    return m.one("concatenate", x, y, x, dim=0), m.one("concatenate", z, x, dim=1), m.one("concatenate", z, dim=1)


def _dynamic_slice(m: Made) -> Sequence[Value]:
    x, y = m.arg("x", 9, N), m.arg("y", 4, 6)
    i, j = m.arg("i", dtype="i32"), m.arg("i2", dtype="i32")
    return m.one("dynamic_slice", x, i, j, sizes=(3, 0)), m.one("dynamic_slice", y, i, j, sizes=(2, 3))


def _dynamic_update_slice(m: Made) -> Sequence[Value]:
    x, u, v = m.arg("x", N, 5), m.arg("u", 0, 2), m.arg("v", N, 2)
    i, j = m.arg("i", dtype="i64"), m.arg("i2", dtype="i64")
    return m.one("dynamic_update_slice", x, u, i, j), m.one("dynamic_update_slice", x, v, i, j)


def _gather(m: Made) -> Sequence[Value]:
    x, y = m.arg("x", 5, 4), m.arg("y", N, 6, 3)
    i, k = m.arg("i", N, 1, dtype="i32"), m.arg("i2", M, N, 2, dtype="i64")
    rows = m.one(
        "gather", x, i, offset_dims=(1,), collapsed=(0,), start_index_map=(0,), index_vector_dim=1, sizes=sizes(1, 4)
    )
    points = m.one(
        "gather", x, k, offset_dims=(), collapsed=(0, 1), start_index_map=(1, 0), index_vector_dim=2, sizes=sizes(1, 1)
    )
    windows = m.one(
        "gather", x, k, offset_dims=(0, 3), collapsed=(), start_index_map=(0, 1), index_vector_dim=2, sizes=sizes(2, 3)
    )
    batched = m.one(
        "gather",
        y,
        i,
        offset_dims=(1,),
        collapsed=(1,),
        operand_batch=(0,),
        indices_batch=(0,),
        start_index_map=(1,),
        index_vector_dim=1,
        sizes=sizes(1, 1, 3),
    )
    return rows, points, windows, batched


def _scatter(m: Made) -> Sequence[Value]:
    x, i, u = m.arg("x", 5, 3), m.arg("i", N, 1, dtype="i32"), m.arg("u", N, 3)
    y, k, w = m.arg("y", N, 4), m.arg("i2", N, 2, dtype="i64"), m.arg("w", N)
    inner = m.b.child()
    _, new = inner.arg(None, m.dtype, []), inner.arg(None, m.dtype, [])
    put = inner.finish([new])
    whole = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    single = {
        "update_window_dims": (),
        "inserted_window_dims": (0, 1),
        "scatter_dims_to_operand_dims": (0, 1),
        "index_vector_dim": 1,
    }
    out = [m.one("scatter", x, i, u, regions=(body,), **whole) for body in (put, m.body("maximum"))]
    return *out, m.one("scatter", y, k, w, regions=(put,), **single)


def _reduce(m: Made) -> Sequence[Value]:
    x, start = m.arg("x", N, 3, M), m.arg("start")
    names = ("maximum", "minimum") if m.dtype != "i1" else ("and", "or")
    out = [
        m.one("reduce", x, start, regions=(m.body(name),), dims=dims)
        for name, dims in ((names[0], (2,)), (names[1], (0,)), (names[0], (0, 2)), (names[1], (0, 1, 2)))
    ]
    if not is_float(m.dtype):
        out += [m.one("reduce", x, start, regions=(m.body(name),), dims=(1,)) for name in ("add", "multiply", "xor")]
    return *out, *_argmax(m, x)


def _argmax(m: Made, x: Value) -> Sequence[Value]:
    places = m.one("iota", dtype="i32", dim=2, shape=x.type.dims)
    inner = m.b.child()
    a, i, b, j = (inner.arg(None, dtype, []) for dtype in (m.dtype, "i32", m.dtype, "i32"))
    better = inner.one("compare", (a, b), {"direction": "GE", "kind": kind_of(m.dtype)})
    block = inner.finish([inner.one("select", (better, a, b)), inner.one("select", (better, i, j))])
    least = m.number(0)
    return m.b.add("reduce", (x, places, least, m.number(-1, "i32")), {"dims": (2,)}, regions=(block,))


def _sums(m: Made) -> Sequence[Value]:
    """Sums and products of floats, whose order is free: over ordinary numbers only."""
    x = m.one("tanh", m.arg("x", N, 3, M)) if is_float(m.dtype) else m.arg("x", N, 3, M)
    x = (
        m.one("select", m.one("is_finite", x), x, m.one("broadcast_in_dim", m.number(0.5), dims=(), shape=x.type.dims))
        if is_float(m.dtype)
        else x
    )
    zero, one = m.number(0), m.number(1)
    return [m.one("reduce", x, zero, regions=(m.body("add"),), dims=dims) for dims in ((0,), (1,), (2,), (0, 1, 2))] + [
        m.one("reduce", x, one, regions=(m.body("multiply"),), dims=(1,))
    ]


def _reduce_window(m: Made) -> Sequence[Value]:
    x = m.arg("x", N, 6)
    name, start = ("maximum", m.arg("start")) if m.dtype != "i1" else ("or", m.arg("start"))
    ones = sizes(1, 1)
    pooled = m.one(
        "reduce_window",
        x,
        start,
        regions=(m.body(name),),
        window=sizes(2, 3),
        strides=sizes(1, 2),
        base_dilation=sizes(1, 2),
        window_dilation=sizes(2, 1),
        padding=sizes(1, 2, 1, 0),
    )
    running = m.one(
        "reduce_window",
        x,
        start,
        regions=(m.body(name),),
        window=sizes(1, 6),
        strides=ones,
        base_dilation=ones,
        window_dilation=ones,
        padding=sizes(0, 0, 5, 0),
    )
    return pooled, running


def _running_sum(m: Made) -> Sequence[Value]:
    """A cumulative sum along the symbolic axis, of whole numbers, so that every order gives the same, and sums of
    windows that begin at 1, which is there once however much of a window lies outside."""
    x = m.one("convert", m.arg("i", N, 2, dtype="i32"), dtype=m.dtype)
    ones = sizes(1, 1)
    return [
        m.one(
            "reduce_window",
            x,
            m.number(1),
            regions=(m.body("add"),),
            window=sizes(2, 3),
            strides=sizes(1, 2),
            base_dilation=sizes(2, 1),
            window_dilation=ones,
            padding=sizes(2, 1, 1, 2),
        ),
        m.one(
            "reduce_window",
            x,
            m.number(0),
            regions=(m.body("add"),),
            window=sizes(N, 1),
            strides=ones,
            base_dilation=ones,
            window_dilation=ones,
            padding=(N - 1, *sizes(0, 0, 0)),
        ),
    ]


def _select_and_scatter(m: Made) -> Sequence[Value]:
    x, source = m.arg("x", N, 4), m.arg("source", N, 2)
    return [
        m.one(
            "select_and_scatter",
            x,
            source,
            m.number(0),
            window=(1, 2),
            strides=(1, 2),
            padding=(0, 0, 0, 0),
            regions=(m.comparator("GE", m.dtype), m.body("maximum")),
        )
    ]


def _sort(m: Made) -> Sequence[Value]:
    x, y = m.arg("x", N, 3), m.arg("y", N, 3, dtype="i32")
    down = m.b.add("sort", (x, y), {"dim": 0, "stable": True}, regions=(m.comparator("GT", m.dtype, "i32"),))
    return *down, m.one("sort", x, dim=1, stable=True, regions=(m.comparator("LT", m.dtype),))


def _iota(m: Made) -> Sequence[Value]:
    x = m.arg("x", N)
    return x, *(m.one("iota", dtype=m.dtype, dim=dim, shape=sizes(N, 3)) for dim in (0, 1))


def _constant(m: Made) -> Sequence[Value]:
    x = m.arg("x", N)
    values = m.number(numbers(m.dtype, (3, 2), 5))
    return x, values, m.one("broadcast_in_dim", values, dims=(1, 2), shape=sizes(N, 3, 2)), m.number(1)


def _sizes(m: Made) -> Sequence[Value]:
    x = m.arg("x", N, 3, M)
    return (
        m.one("get_dimension_size", x, dim=0),
        m.one("get_dimension_size", x, dim=1),
        m.one("dims", elements=sizes(N, N * M + 2, 7), shape=(3,), dtype="i64"),
    )


def _barrier(m: Made) -> Sequence[Value]:
    return m.b.add("optimization_barrier", (m.arg("x", N), m.arg("y", 2, M)))


def _composite(m: Made, op: str = "composite") -> Sequence[Value]:
    x = m.arg("x", N)
    inner = m.b.child()
    arg = inner.arg(None, m.dtype, x.type.dims)
    return [
        m.b.one(
            op,
            (x,),
            {"name": "case.reverse"},
            regions=(inner.finish([inner.one("reverse", (arg,), {"dims": (0,)})]),),
        )
    ]


def _if(m: Made) -> Sequence[Value]:
    p, x, y = m.arg("p", dtype="i1"), m.arg("x", N), m.arg("y", N)
    arms = []
    for value in (x, y):
        inner = m.b.child()
        arms.append(inner.finish([inner.one("reverse", (value,), {"dims": (0,)}), y]))
    return m.b.add("if", (p,), regions=arms)


def _case(m: Made) -> Sequence[Value]:
    i, x, y = m.arg("i", dtype="i32"), m.arg("x", N), m.arg("y", N)
    arms = []
    for value in (x, y, x):
        inner = m.b.child()
        arms.append(inner.finish([inner.one("reverse", (value,), {"dims": (0,)})]))
    return m.b.add("case", (i,), regions=arms)


def _while(m: Made) -> Sequence[Value]:
    """Rounds that rotate two values and count: as many as the first size, at most."""
    i, x, y = m.arg("i", dtype="i32"), m.arg("x", N), m.arg("y", N)
    head, inner = m.b.child(), m.b.child()
    p, *_ = (head.arg(None, dtype, dims) for dtype, dims in (("i32", ()), (m.dtype, (N,)), (m.dtype, (N,))))
    condition = head.finish([head.one("compare", (p, i), {"direction": "LT", "kind": "SIGNED"})])
    k, a, b = (inner.arg(None, dtype, dims) for dtype, dims in (("i32", ()), (m.dtype, (N,)), (m.dtype, (N,))))
    step = inner.one("add", (k, constant(inner, 1, "i32")))
    block = inner.finish([step, inner.one("reverse", (b,), {"dims": (0,)}), a])
    return m.b.add("while", (m.number(0, "i32"), x, y), regions=(condition, block))


def _dot(m: Made) -> Sequence[Value]:
    """Whole numbers, so that every order gives the same: vectors, matrices, batches, several contracted axes."""

    def arg(name: str, *shape: Dim | int) -> Value:
        return m.one("convert", m.arg(name, *shape, dtype="i32"), dtype=m.dtype)

    x, y, z = arg("i", N, 5), arg("i2", 5, M), arg("i3", M, 5)
    p, q = arg("i4", 2, N, 3, M), arg("i5", M, 2, 3)

    def dot(
        a: Value,
        b: Value,
        batch: tuple[tuple[int, ...], tuple[int, ...]],
        contract: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> Value:
        return m.one(
            "dot_general",
            a,
            b,
            lhs_batch=batch[0],
            rhs_batch=batch[1],
            lhs_contract=contract[0],
            rhs_contract=contract[1],
            dtype=m.dtype,
        )

    none: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    return (
        dot(x, y, none, ((1,), (0,))),
        dot(x, z, none, ((1,), (1,))),
        dot(x, x, none, ((0,), (0,))),
        dot(p, q, ((0,), (1,)), ((2, 3), (2, 0))),
        dot(p, q, ((0, 3), (1, 0)), ((2,), (2,))),
        dot(x, y, none, none),
    )


NHWC = (0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
NCHW = (0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3))


def _convolution(m: Made) -> Sequence[Value]:
    """Whole numbers: one, two and three spatial axes, strides, dilations, groups."""

    def arg(name: str, *shape: Dim | int) -> Value:
        return m.one("convert", m.arg(name, *shape, dtype="i32"), dtype=m.dtype)

    def conv(x: Value, w: Value, numbers: object, rank: int, **more: object) -> Value:
        ones = (1,) * rank
        attrs: dict[str, object] = {
            "numbers": numbers,
            "strides": ones,
            "padding": sizes(*(0,) * (2 * rank)),
            "lhs_dilation": ones,
            "rhs_dilation": ones,
            "reversal": (0,) * rank,
            "dtype": m.dtype,
            **more,
        }
        return m.one("convolution", x, w, **attrs)

    line, image = arg("i", 2, N, 3), arg("i2", N, 4, 6, 5)
    volume = arg("i3", 1, 2, 3, 4, M)
    return (
        conv(line, arg("i4", 3, 3, 5), (0, 2, (1,), 1, 2, (0,), 0, 2, (1,)), 1, padding=sizes(1, 1)),
        conv(
            line,
            arg("i5", 4, 1, 3),
            (0, 2, (1,), 1, 2, (0,), 0, 2, (1,)),
            1,
            padding=sizes(3, 0),
            rhs_dilation=(1,),
            feature_groups=3,
        ),
        conv(image, arg("i6", 6, 4, 3, 3), NCHW, 2, padding=sizes(1, 1, 1, 1), strides=(2, 1)),
        conv(image, arg("i7", 8, 2, 3, 2), NCHW, 2, feature_groups=2, rhs_dilation=(2, 1), reversal=(1, 0)),
        conv(image, arg("i8", 2, 3, 5, 2), NHWC, 2, lhs_dilation=(2, 2), padding=sizes(0, 2, 1, 0)),
        conv(volume, arg("i9", 3, 2, 2, 2, 1), (0, 1, (2, 3, 4), 1, 0, (2, 3, 4), 0, 1, (2, 3, 4)), 3),
    )


def _check(m: Made) -> Sequence[Value]:
    x = m.arg("x", N)
    m.b.add("check", (), {"relation": "!=", "sides": (N, const(7)), "message": "{0} is seven", "args": (N,)})
    return [m.one("reverse", x, dims=(0,))]


def _custom(m: Made) -> Sequence[Value]:
    x = m.arg("x", N)
    return [m.one("custom_call", x, target="case.unknown", types=((m.dtype, (3,)),))]


FLOATS = tuple(filter(is_float, REAL))
NUMBERS = tuple(dtype for dtype in REAL if dtype != "i1")
BY_HAND: dict[str, tuple[tuple[Maker, tuple[str, ...], int], ...]] = {
    "select": ((_select, REAL, 1024),),
    "clamp": ((_clamp, REAL, 1024),),
    "broadcast_in_dim": ((_broadcast, REAL, 1024),),
    "reshape": ((_reshape, REAL, 1024),),
    "transpose": ((_transpose, REAL, 1024),),
    "reverse": ((_reverse, REAL, 1024),),
    "slice": ((_slice, REAL, 1024),),
    "pad": ((_pad, REAL, 1024),),
    "concatenate": ((_concatenate, REAL, 1024),),
    "dynamic_slice": ((_dynamic_slice, REAL, 1024),),
    "dynamic_update_slice": ((_dynamic_update_slice, REAL, 1024),),
    "gather": ((_gather, REAL, 127),),
    "scatter": ((_scatter, NUMBERS, 127),),
    "reduce": ((_reduce, REAL, 127), (_sums, FLOATS, 127)),
    "reduce_window": ((_reduce_window, REAL, 127), (_running_sum, NUMBERS, 127)),
    "select_and_scatter": ((_select_and_scatter, NUMBERS, 127),),
    "sort": ((_sort, NUMBERS, 127),),
    "iota": ((_iota, NUMBERS, 1024),),
    "constant": ((_constant, REAL, 127),),
    "dims": ((_sizes, REAL, 127),),
    "get_dimension_size": ((_sizes, ("f32",), 127),),
    "optimization_barrier": ((_barrier, REAL, 127),),
    "composite": ((_composite, REAL, 127),),
    "call": ((partial(_composite, op="call"), REAL, 127),),
    "if": ((_if, REAL, 127),),
    "case": ((_case, REAL, 127),),
    "while": ((_while, REAL, 127),),
    "dot_general": ((_dot, NUMBERS, 127),),
    "convolution": ((_convolution, NUMBERS, 33),),
    "check": ((_check, REAL, 127),),
    "custom_call": ((_custom, ("f32",), 7),),
}


ELSEWHERE = dict.fromkeys(("host_call", "host_effect"), "calls Python, which is tested with the frontends that make it")
"""Ops without a case, and why."""

REFUSED = frozenset(("real", "imag", "conj", "complex", "digamma", "custom_call"))
"""Ops that the back end may refuse, by name and place; it must take every other in every dtype."""


def cases(op: str, dtypes: Sequence[str] = REAL) -> list[OpCase]:
    """Every case of an op in these dtypes."""
    if op in ELSEWHERE:
        return []
    if REGISTRY[op].family in ELEMENTWISE:
        found = ((dtype, elementwise(op, dtype)) for dtype in dtypes)
        return [OpCase(op, dtype, graph) for dtype, graph in found if graph is not None]
    out = []
    for make, taken, most in BY_HAND[op]:
        for dtype in dtypes:
            if dtype in taken:
                m = Made(dtype)
                out.append(OpCase(op, dtype, graph_of(m.b, *make(m)), most))
    return out
