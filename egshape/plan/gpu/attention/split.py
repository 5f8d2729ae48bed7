"""Attention of few rows over many keys: blocks that take chunks of the keys, and the kernel that joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.dims import Dim, ceildiv, const, floordiv, minimum, product, relu, symbol
from egshape.plan.gpu.attention.results import finished, partial_row
from egshape.plan.gpu.attention.scores import based, is_low
from egshape.plan.gpu.attention.skip import Flags, found_lines
from egshape.plan.gpu.attention.tiles import Shape, Tiles, shape
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.mapping import launch as mapped
from egshape.plan.gpu.narrow import narrowed
from egshape.plan.gpu.product.mma import DEPTH, ROWS
from egshape.plan.ir.launch import Grid, Launch
from egshape.plan.ir.loops import Assign, Attend, Buffer, Call, Const, Kernel, Let, Load, Local, Loop, Stmt, Store, Var
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import dims

CHUNK = 128
"""Keys of a block where they are split."""
FEW = ROWS
"""Rows of a head up to which its keys are split: one warp takes them."""
LONG = 1024
"""Keys from which it pays to look at all values first, so that keys that are masked may be left out."""
KEYS, WIDE = 32, 128
"""Of those, keys that lie in shared memory at a time, where they have so many elements at most; else fewer."""


def launches(kernel: Kernel, loops: Sequence[Loop], stmt: Attend, likely: Likely) -> tuple[Launch, ...]:
    """How attention inside of loops over heads runs: by blocks that take all keys, or, where a launch finds few rows
    and many keys, in two steps."""
    heads = product(loop.extent for loop in loops)
    flags, before = _flags(kernel, loops, stmt, likely)
    whole = Tiles(kernel, loops, stmt, shape(stmt, heads, likely), flags=flags).launch()
    split = (const(FEW) - stmt.m, stmt.n - 2 * CHUNK)
    if any(each.const is not None and each.const < 0 for each in split):
        return (*before, narrowed(whole))
    partial = _partial(loops, stmt)
    widest = max(stmt.k.const or 0, stmt.width.const or 0)
    chunks = Tiles(kernel, loops, stmt, Shape(1, 1, KEYS if widest <= WIDE else DEPTH, CHUNK), partial).launch()
    one = narrowed(replace(chunks, fits=split, otherwise=whole))
    # The second step runs exactly where the first one did.
    joint = mapped(_joined(kernel, loops, stmt, partial), likely)
    while joint.otherwise is not None:
        joint = joint.otherwise
    return *before, one, replace(joint, fits=one.fits, otherwise=_nothing(kernel, "joined"))


def _flags(
    kernel: Kernel, loops: Sequence[Loop], stmt: Attend, likely: Likely
) -> tuple[Flags | None, tuple[Launch, ...]]:
    """Where a mask ends keys, flags that say which values are finite, and the launch that sets them."""
    ends = any(line.ends and line.low is not None for line in found_lines(stmt))
    if not ends or any(
        size.const is not None and size.const < least for size, least in ((stmt.n, LONG), (stmt.m, FEW + 1))
    ):
        return None, ()
    read = {name for dim in dims((Let("", stmt.values),)) for name in dim.symbols()}
    heads = tuple(loop for loop in loops if loop.var in read)
    count = ceildiv(stmt.n, CHUNK)
    buffer = Buffer("attention.finite", "i32", product(loop.extent for loop in heads) * count, "temp")
    flags = Flags(buffer, heads, count, (stmt.n - LONG, stmt.m - FEW - 1))
    chunk, each = symbol("$chunk"), symbol("$each")
    column = floordiv(each, stmt.width)
    place = {stmt.column: chunk * CHUNK + column, stmt.place: each - column * stmt.width}
    all_ = Var("i32", "$finite")
    finite = Call("i1", "is_finite", (Moved(place).expr(stmt.values),))
    more = Call("i32", "and", (all_, Call("i32", "convert", (finite,), (("dtype", "i32"),))))
    many = minimum(const(CHUNK), stmt.n - chunk * CHUNK) * stmt.width
    body: tuple[Stmt, ...] = (
        Local(all_.name, Const("i32", 1)),
        Loop("$each", many, (Assign(all_.name, more),)),
        Store(buffer, flags.first() + chunk, all_),
    )
    for loop in reversed((*heads, Loop("$chunk", count, ()))):
        body = (replace(loop, body=body),)
    found = replace(kernel, label=f"{kernel.label}_finite", body=body, outputs=(buffer,), once=True)
    launch = narrowed(mapped(found, lambda dim: float(CHUNK) if dim is many else likely(dim)))
    nothing = _nothing(kernel, "finite")
    for few in (const(FEW) - stmt.m, const(LONG - 1) - stmt.n):
        launch = replace(nothing, fits=(few,), otherwise=launch)
    return flags, (launch,)


def _partial(loops: Sequence[Loop], stmt: Attend) -> tuple[Buffer, ...]:
    """Buffers for sums, peaks and totals of chunks, which are empty where keys are not split."""
    some = minimum(const(1), relu(const(FEW + 1) - stmt.m))
    rows = product(loop.extent for loop in loops) * minimum(stmt.m, const(FEW)) * ceildiv(stmt.n, CHUNK) * some
    return tuple(
        Buffer(f"attention.{name}", "f32", rows * size, "temp")
        for name, size in (("sums", stmt.width), ("peaks", const(1)), ("totals", const(1)))
    )


def _nothing(kernel: Kernel, name: str) -> Launch:
    """A launch that is none."""
    empty = replace(kernel, label=f"{kernel.label}_{name}", body=(Grid("$block", const(0), ()),))
    return Launch(empty, const(0), 1)


def _joined(kernel: Kernel, loops: Sequence[Loop], stmt: Attend, partial: tuple[Buffer, ...]) -> Kernel:
    """The kernel that joins chunks, for each row and place."""
    sums, peaks, totals = partial
    count, row, place = ceildiv(stmt.n, CHUNK), symbol(stmt.row), symbol(stmt.place)
    first = partial_row(loops, stmt, row) * count
    peak, total, base, value = Var("f32", stmt.peak), Var("f32", stmt.total), Var("f32", "$base"), Var("f32", "$sum")

    def part(buffer: Buffer, index: Dim) -> Load:
        return Load("f32", buffer, index)

    one, two = symbol("$part"), symbol("$part2")
    scale = Call("f32", "exponential", (Call("f32", "subtract", (part(peaks, first + two), base)),))
    weight = Var("f32", "$scale")
    body: tuple[Stmt, ...] = (
        Local(peak.name, Const("f32", float("-inf"))),
        Loop("$part", count, (Assign(peak.name, Call("f32", "maximum", (peak, part(peaks, first + one)))),)),
        *based(peak, base),
        Local(total.name, Const("f32", 0.0)),
        Local(value.name, Const("f32", 0.0)),
        Loop(
            "$part2",
            count,
            (
                Let(weight.name, scale),
                *(
                    Assign(to.name, Call("f32", "add", (to, Call("f32", "multiply", (part(buffer, index), weight)))))
                    for to, buffer, index in (
                        (total, totals, first + two),
                        (value, sums, (first + two) * stmt.width + place),
                    )
                ),
            ),
        ),
        Let(stmt.value, finished(value, stmt.factor, stmt.live, is_low(peak))),
        *stmt.body,
    )
    nest = (*loops, Loop(stmt.row, stmt.m, ()), Loop(stmt.place, stmt.width, ()))
    for loop in reversed(nest):
        body = (replace(loop, body=body),)
    return replace(kernel, label=f"{kernel.label}_joined", body=body)
