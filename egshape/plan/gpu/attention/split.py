"""Attention of few rows over many keys: blocks that take chunks of the keys, and the kernel that joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.dims import ceildiv, const, minimum, product, relu
from egshape.plan.gpu.attention import finite
from egshape.plan.gpu.attention.joined import joined
from egshape.plan.gpu.attention.tiles import Shape, Tiles, shape
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.narrow import narrowed
from egshape.plan.gpu.product.mma import DEPTH, ROWS
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Attend, Buffer, Kernel, Loop

CHUNK = 128
"""Keys of a block where they are split."""
FEW = ROWS
"""Rows of a head up to which its keys are split: one warp takes them."""
KEYS, WIDE = 32, 128
"""Of those, keys that lie in shared memory at a time, where they have so many elements at most; else fewer."""


def launches(kernel: Kernel, loops: Sequence[Loop], stmt: Attend, likely: Likely) -> tuple[Launch, ...]:
    """How attention inside of loops over heads runs: by blocks that take all keys, or, where a launch finds few rows
    and many keys, in two steps."""
    heads = product(loop.extent for loop in loops)
    flags, first = finite.flags(kernel, loops, stmt, FEW, likely)
    before = () if first is None else (first,)
    whole = Tiles(kernel, loops, stmt, shape(stmt, heads, likely), flags=flags).launch()
    split = (const(FEW) - stmt.m, stmt.n - 2 * CHUNK)
    if any(each.const is not None and each.const < 0 for each in split):
        return (*before, narrowed(whole))
    partial = _partial(loops, stmt)
    widest = max(stmt.k.const or 0, stmt.width.const or 0)
    chunks = Tiles(kernel, loops, stmt, Shape(1, 1, KEYS if widest <= WIDE else DEPTH, CHUNK), partial).launch()
    one = narrowed(replace(chunks, fits=split, otherwise=whole))
    # The second step runs exactly where the first one did.
    joint = joined(kernel, loops, stmt, partial, CHUNK)
    return *before, one, replace(joint, fits=one.fits, otherwise=finite.none(joint.kernel))


def _partial(loops: Sequence[Loop], stmt: Attend) -> tuple[Buffer, ...]:
    """Buffers for sums, peaks and totals of chunks, which are empty where keys are not split."""
    some = minimum(const(1), relu(const(FEW + 1) - stmt.m))
    rows = product(loop.extent for loop in loops) * minimum(stmt.m, const(FEW)) * ceildiv(stmt.n, CHUNK) * some
    return tuple(
        Buffer(f"attention.{name}", "f32", rows * size, "temp")
        for name, size in (("sums", stmt.width), ("peaks", const(1)), ("totals", const(1)))
    )
