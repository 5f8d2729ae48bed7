"""Pieces of random programs beyond the left sides of rules: the rest of the ops, shape code, arms, loops, checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from egshape.dims import Dim, const
from egshape.ir.graph import Block, Value
from egshape.ir.types import is_float
from tests.fuzz.maker import Maker
from tests.fuzz.patterns import PATTERNS, binary, part, unary

Piece = Callable[[Maker], object]
MOVING = ("reverse", "clamp", "dynamic_slice", "dynamic_update_slice", "pad")


def body(m: Maker, name: str, dtype: str) -> Block:
    """A reducer of one op."""
    inner = m.b.child()
    x, y = inner.arg(None, dtype, []), inner.arg(None, dtype, [])
    return inner.finish([inner.one(name, (x, y))])


def region_one(
    m: Maker, name: str, operands: Sequence[Value], attrs: dict[str, object], regions: Sequence[Block]
) -> Value:
    """An op with regions and one result."""
    return m.keep(m.b.one(name, operands, attrs, regions=regions))


# -- data ----------------------------------------------------------------------------------------------------------


def elementwise(m: Maker) -> Value:
    x = m.value()
    if m.chance(2):
        return unary(m, x)
    return binary(m, x, m.like(x))


def moving(m: Maker) -> Value:
    """One of the ops that move elements."""
    x = m.value(low=1)
    rank = x.type.rank
    match m.choice(MOVING):
        case "reverse":
            return m.one("reverse", (x,), dims=m.subset(rank, m.chooser.randint(0, rank)))
        case "clamp":
            bounds = [m.any_scalar(x.type.dtype) if m.chance(2) else m.like(x) for _ in range(2)]
            return m.one("clamp", (bounds[0], x, bounds[1]))
        case "dynamic_slice":
            sizes = tuple(m.chooser.randint(0, m.at(size)) for size in x.type.dims)
            return m.one("dynamic_slice", (x, *(m.value(0, "i32") for _ in sizes)), sizes=sizes)
        case "dynamic_update_slice":
            dims = [m.cut(x, axis) for axis in range(rank)]
            return m.one("dynamic_update_slice", (x, m.input(x.type.dtype, dims), *(m.value(0, "i32") for _ in dims)))
    low, high = ([const(m.choice((0, 1, 2, -1))) for _ in range(rank)] for _ in range(2))
    gaps = [const(m.choice((0, 0, 1, 2))) for _ in range(rank)]
    sizes = [m.at(size + lo + hi) for size, lo, hi in zip(x.type.dims, low, high, strict=True)]
    if min(sizes) < 0:
        low = high = [const(1)] * rank
    return m.one("pad", (x, m.any_scalar(x.type.dtype)), low=tuple(low), high=tuple(high), interior=tuple(gaps))


def concatenation(m: Maker) -> Value:
    """Two to four values."""
    x = m.value(low=1)
    axis = m.chooser.randint(0, x.type.rank - 1)
    xs = [x]
    for _ in range(m.chooser.randint(1, 3)):
        dims = list(m.similar(x.type.dims))
        dims[axis] = m.dims(1)[0]
        xs.append(m.input(x.type.dtype, dims if m.fits(dims) else x.type.dims))
    return m.one("concatenate", xs, dim=axis)


def reduction(m: Maker) -> Value:
    x = m.numeric(low=1)
    dtype = x.type.dtype
    rank = x.type.rank
    name = m.choice(("add", "maximum", "minimum", "multiply", "subtract"))
    start = m.any_scalar(dtype)
    dims = m.subset(rank, m.chooser.randint(0, rank))
    if m.chance(3):
        ones: list[Dim] = [const(1)] * rank
        window = [const(m.choice((1, 2, 3))) for _ in range(rank)]
        padding = [const(m.choice((0, 0, 1))) for _ in range(2 * rank)]
        sizes = [m.at(size) - m.at(w) for size, w in zip(x.type.dims, window, strict=True)]
        if min(sizes) < 0:
            window = ones
        attrs = {
            "window": tuple(window),
            "strides": tuple(const(m.choice((1, 2))) for _ in range(rank)),
            "base_dilation": tuple(ones),
            "window_dilation": tuple(ones),
            "padding": tuple(padding),
        }
        return region_one(m, "reduce_window", (x, start), attrs, [body(m, name, dtype)])
    return region_one(m, "reduce", (x, start), {"dims": dims}, [body(m, name, dtype)])


def sorting(m: Maker) -> Value:
    x = m.numeric(low=1)
    y = m.like(x)
    inner = m.b.child()
    args = [inner.arg(None, each.type.dtype, []) for each in (x, x, y, y)]
    order = {
        "direction": m.choice(("LT", "GT")),
        "kind": "TOTALORDER" if is_float(x.type.dtype) else "UNSIGNED" if x.type.dtype.startswith("u") else "SIGNED",
    }
    region = inner.finish([inner.one("compare", args[:2], order)])
    axis = m.chooser.randint(0, x.type.rank - 1)
    first, second = m.b.add("sort", (x, y), {"dim": axis, "stable": True}, regions=(region,))
    m.keep(second)
    return m.keep(first)


def gathering(m: Maker) -> Value:
    """Rows at places that are data; or updates scattered there."""
    x = m.input("f32", (const(m.choice((1, 2, 5))), *m.dims(1)))
    places = m.input("i32", (m.dims(1)[0], const(1)))
    places = m.one("clamp", (m.scalar(-1, "i32"), places, m.scalar(6, "i32")))
    if m.chance(2):
        updates = m.input("f32", (places.type.dims[0], x.type.dims[1]))
        attrs = {
            "update_window_dims": (1,),
            "inserted_window_dims": (0,),
            "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1,
        }
        return region_one(m, "scatter", (x, places, updates), attrs, [body(m, "add", "f32")])
    return m.one(
        "gather",
        (x, places),
        offset_dims=(1,),
        collapsed=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        sizes=(const(1), x.type.dims[1]),
    )


def product(m: Maker) -> Value:
    """A matrix product, or a convolution."""
    inner = m.dims(1)[0]
    if m.chance(2):
        x, y = m.input("f32", (m.dims(1)[0], inner)), m.input("f32", (m.equal(inner), m.dims(1)[0]))
        return m.one(
            "dot_general", (x, y), lhs_batch=(), rhs_batch=(), lhs_contract=(1,), rhs_contract=(0,), dtype="f32"
        )
    x = m.input("f32", (m.dims(1)[0], const(m.choice((2, 3, 5))), const(2)))
    y = m.input("f32", (const(2), const(2), m.dims(1)[0]))
    return m.one(
        "convolution",
        (x, y),
        numbers=(0, 2, (1,), 1, 2, (0,), 0, 2, (1,)),
        strides=(m.choice((1, 2)),),
        padding=(const(m.choice((0, 1))), const(0)),
        lhs_dilation=(1,),
        rhs_dilation=(1,),
        reversal=(0,),
        dtype="f32",
    )


def pooling(m: Maker) -> Value:
    """select_and_scatter over one axis."""
    size, window = m.choice((2, 4, 6)), 2
    x, source = m.input("f32", (const(size),)), m.input("f32", (const(size // window),))
    inner = m.b.child()
    p, q = inner.arg(None, "f32", []), inner.arg(None, "f32", [])
    select = inner.finish([inner.one("compare", (p, q), {"direction": "GE", "kind": "FLOAT"})])
    attrs = {"window": (window,), "strides": (window,), "padding": (0, 0)}
    return region_one(
        m, "select_and_scatter", (x, source, m.scalar(0.0, "f32")), attrs, [select, body(m, "add", "f32")]
    )


# -- shape code ----------------------------------------------------------------------------------------------------


def size_of(m: Maker, x: Value, axis: int) -> Value:
    return m.one("get_dimension_size", (x,), dim=axis)


def arithmetic(m: Maker) -> Value:
    """Arithmetic on sizes, as data."""
    x, y = m.value(low=1), m.value(low=1)
    one, two = (size_of(m, each, m.chooser.randint(0, each.type.rank - 1)) for each in (x, y))
    other = two if m.chance(2) else m.scalar(m.choice((0, 1, 2, 3, -1)), "i32")
    names = ("add", "multiply", "subtract", "divide", "remainder", "maximum", "minimum")
    out = m.one(m.choice(names), (one, other))
    if m.chance(3):
        out = m.one(m.choice(names), (out, m.choice((one, two, other))))
    if m.chance(4):
        return m.one("compare", (out, one), direction=m.choice(("EQ", "LT", "GE")), kind="SIGNED")
    if m.chance(4):
        return m.convert(out, m.choice(("i64", "f32", "i8", "i1")))
    return out


def shape_vector(m: Maker, x: Value, dims: Sequence[Dim]) -> Value | None:
    """A shape operand with these sizes, made of sizes of x and constants; None if it cannot be made."""
    parts = []
    for dim in dims:
        axes = [axis for axis, size in enumerate(x.type.dims) if size is dim]
        if dim.const is not None:
            parts.append(m.scalar([dim.const], "i32"))
        elif axes:
            parts.append(m.one("reshape", (size_of(m, x, m.choice(axes)),), shape=(const(1),)))
        else:
            return None
    return m.one("concatenate", parts, dim=0) if parts else None


def dynamic(m: Maker) -> Value:
    """The dynamic form of an op, its shape computed from sizes."""
    x = m.value(low=1)
    rank = x.type.rank
    order = m.permutation(rank)
    dims = [x.type.dims[axis] for axis in order]
    if m.chance(3):
        dims.insert(m.chooser.randint(0, rank), const(1))
    vector = shape_vector(m, x, dims)
    if vector is None:
        return elementwise(m)
    match m.chooser.randint(0, 2):
        case 0:
            return m.one("reshape", (x, vector))
        case 1:
            return m.keep(m.b.one("iota", (vector,), {"dtype": "i32", "dim": m.chooser.randint(0, len(dims) - 1)}))
    scalar = m.any_scalar("f32")
    return m.one("broadcast_in_dim", (scalar, vector), dims=())


def from_data(m: Maker) -> Value:
    """A size that is data: it is an input of the program."""
    x = m.value(1)
    size = m.at(x.type.dims[0])
    number = m.choice((size, 0, max(size - 1, 0)))
    k = m.size_input(1, [number])
    if m.chance(2):
        wide = m.b.one("broadcast_in_dim", (m.any_scalar("f32"), k), {"dims": ()})
        return m.b.one("negate", (wide,))
    zero, one = m.scalar([0], "i32"), m.scalar([1], "i32")
    out = m.b.one("slice", (x, zero, k, one))
    m.b.one("get_dimension_size", (out,), {"dim": 0})
    return m.b.one(m.choice(("abs", "negate")), (out,)) if is_float(out.type.dtype) else out


def check(m: Maker) -> None:
    """An assertion that holds at the witness: on sizes, on shape code, or on data."""
    x, y = m.value(low=1), m.value(low=1)
    one, two = (each.type.dims[m.chooser.randint(0, each.type.rank - 1)] for each in (x, y))
    relation = "==" if m.at(one) == m.at(two) else m.choice(("!=", "<" if m.at(one) < m.at(two) else "!="))
    if m.chance(2):
        m.b.add("check", (), {"relation": relation, "sides": (one, two), "message": "sizes {0}", "args": (one,)})
        return
    sizes = [size_of(m, each, each.type.dims.index(dim)) for each, dim in ((x, one), (y, two))]
    names = {"==": "EQ", "!=": "NE", "<": "LT"}
    predicate = m.one("compare", sizes, direction=names[relation], kind="SIGNED")
    m.b.add("check", (predicate, *sizes), {"message": "{0} and {1} do not fit"})


# -- control -------------------------------------------------------------------------------------------------------


def arm(m: Maker, like: Value, depth: int) -> Block:
    """A region that gives a value of the type of ``like``."""
    inside = m.inside()
    steps(inside, inside.chooser.randint(0, 3), depth + 1)
    out = like
    wanted = [value for value in inside.pool if value.type == like.type]
    if wanted:
        out = inside.choice(wanted[-3:])
    if inside.chance(2) and is_float(out.type.dtype):
        out = inside.b.one("negate", (out,))
    return inside.b.finish([out])


def branch(m: Maker, depth: int) -> Value:
    """An if or a case, its predicate an input or known."""
    like = m.value()
    if m.chance(2):
        predicate = m.any_scalar("i1")
        return region_one(m, "if", (predicate,), {}, [arm(m, like, depth) for _ in range(2)])
    index = m.any_scalar("i32")
    return region_one(m, "case", (index,), {}, [arm(m, like, depth) for _ in range(m.chooser.randint(1, 3))])


def loop(m: Maker, depth: int) -> Value:
    """A loop of a few rounds, or of none, that carries a counter and a value."""
    x = m.value()
    rounds = m.chooser.randint(0, 2)
    count = m.scalar(rounds, "i32") if m.chance(2) else m.size_input(None, [rounds])
    zero = m.scalar(0, "i32")
    inside = m.inside()
    k, carried = inside.b.arg(None, "i32", []), inside.b.arg(None, x.type.dtype, x.type.dims)
    inside.keep(carried)
    steps(inside, inside.chooser.randint(0, 3), depth + 1)
    wanted = [value for value in inside.pool if value.type == x.type]
    out = inside.choice(wanted[-3:]) if wanted else carried
    step = inside.b.one("add", (k, inside.scalar(1, "i32")))
    block = inside.b.finish([step, out])
    head = m.b.child()
    p, _ = head.arg(None, "i32", []), head.arg(None, x.type.dtype, x.type.dims)
    condition = head.finish([head.one("compare", (p, count), {"direction": "LT", "kind": "SIGNED"})])
    _, result = m.b.add("while", (zero, x), regions=(condition, block))
    return m.keep(result)


def composite(m: Maker) -> Value:
    """A composite of two ops."""
    x = m.numeric()
    inner = m.b.child()
    arg = inner.arg(None, x.type.dtype, x.type.dims)
    block = inner.finish([inner.one("negate", (inner.one("negate", (arg,)),))])
    return m.keep(m.b.one("composite", (x,), {"name": "test.twice"}, regions=(block,)))


def slicing(m: Maker) -> Value:
    return part(m, m.value(low=1))


def reshaping(m: Maker) -> Value:
    return m.reshaped(m.value(low=1))


PIECES: tuple[Piece, ...] = (
    elementwise,
    moving,
    concatenation,
    reduction,
    sorting,
    gathering,
    product,
    pooling,
    arithmetic,
    arithmetic,
    dynamic,
    dynamic,
    from_data,
    check,
    check,
    composite,
    slicing,
    reshaping,
)


def steps(m: Maker, count: int, depth: int = 0, rules: Sequence[str] = ()) -> None:
    """Add pieces: half are left sides of rules, of ``rules`` if any are given."""
    names = tuple(rules) or tuple(PATTERNS)
    for _ in range(count):
        with np.errstate(all="ignore"):
            if depth < 2 and m.chance(8):
                m.choice((branch, loop))(m, depth)
            elif rules or m.chance(2):
                PATTERNS[m.choice(names)](m)
            else:
                m.choice(PIECES)(m)
