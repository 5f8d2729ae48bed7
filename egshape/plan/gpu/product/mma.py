"""A product of tiles by all warps of a block together, as tensor cores compute it: sums in registers, operands in
shared memory, or the left one in registers too, where an earlier product left it.

Its body is what it means, thread by thread; a printer for a GPU makes it matrix instructions (f16, bf16) or fused
multiply-adds (f32, never TF32) on the same registers. Where the sums lie is the layout of mma.sync.m16n8k16: PTX ISA,
"Matrix Fragments for mma.m16n8k16 with floating point type"."""

from __future__ import annotations

from egshape.dims import Dim, const, floordiv, symbol
from egshape.ir.types import itemsize
from egshape.plan.form.dots import converted
from egshape.plan.ir.launch import WARP, Mma
from egshape.plan.ir.loops import Assign, Buffer, Call, Expr, Load, Local, Loop, Matrix, Stmt, Store, Var

ROWS, COLUMNS, DEPTH = 16, 8, 16
"""Of the tiles that one instruction multiplies."""
EACH = 4
"""Registers of a thread for a tile of sums."""
LINE = 16
"""Bytes to which lines of an operand in shared memory are aligned."""


def row_at(thread: Dim, i: Dim, half: Dim, rows: int, across: int = 1) -> Dim:
    """The row of the block's tile of registers 2 * half and 2 * half + 1 of a row of tiles of a thread."""
    warp, lane = floordiv(thread, WARP), thread - floordiv(thread, WARP) * WARP
    return (floordiv(warp, across) * rows + i) * ROWS + floordiv(lane, 4) + half * 8


def column_at(thread: Dim, j: Dim, odd: Dim, columns: int, across: int = 1) -> Dim:
    """The column of the block's tile of registers ``odd`` and 2 + ``odd`` of a column of tiles of a thread."""
    warp = floordiv(thread, WARP)
    quad = thread - floordiv(thread, 4) * 4
    return ((warp - floordiv(warp, across) * across) * columns + j) * COLUMNS + quad * 2 + odd


def mma(
    var: str,
    threads: int,
    dtype: str,
    sums: Buffer,
    left: Matrix,
    right: Matrix,
    *,
    rows: int,
    columns: int,
    depth: int,
    across: int = 1,
    held: bool = False,
    wait: bool = True,
) -> Mma:
    """The statement, with its meaning as its body. ``var``: a new name, of the thread."""
    warps = threads // WARP
    assert threads == warps * WARP and warps % across == 0 and not (held and across > 1), (threads, across, held)
    assert columns % 2 == 0 and depth % DEPTH == 0 and dtype in ("f16", "bf16", "f32"), (columns, depth, dtype)
    count = rows * columns * EACH
    assert sums.size.const == threads * count and sums.dtype == "f32", sums
    for operand in (right,) if held else (left, right):
        _lines(operand, dtype)
    thread, i, j, r, deep = (symbol(f"{var}{name}") for name in ("", ".i", ".j", ".r", ".deep"))
    half = floordiv(r, 2)
    row, column = row_at(thread, i, half, rows, across), column_at(thread, j, r - half * 2, columns, across)
    one = _held(left, threads, thread, i, half, deep, dtype) if held else _element(left, row, deep)
    total = Var("f32", f"{var}.sum")
    place = thread * count + (i * columns + j) * EACH + r
    item = Call("f32", "multiply", (converted("f32", one), converted("f32", _element(right, deep, column))))
    more = Loop(f"{var}.deep", const(depth), (Assign(total.name, Call("f32", "add", (total, item), fast=True)),))
    body: tuple[Stmt, ...] = (Local(total.name, Load("f32", sums, place)), more, Store(sums, place, total))
    for name, extent in ((".r", EACH), (".j", columns), (".i", rows)):
        body = (Loop(f"{var}{name}", const(extent), body),)
    return Mma(
        var=var,
        extent=const(threads),
        body=body,
        wait=wait,
        dtype=dtype,
        sums=sums,
        left=left,
        right=right,
        rows=rows,
        columns=columns,
        depth=depth,
        across=across,
        held=held,
    )


def padded(length: int, dtype: str) -> int:
    """A pitch for lines of ``length`` elements, a multiple of 16, by which 8 lines that follow one another lie in
    different banks."""
    return length + LINE // itemsize(dtype)


def _lines(operand: Matrix, dtype: str) -> None:
    lanes = LINE // itemsize(dtype)
    found, along = operand.pitch
    assert operand.buffer.dtype == dtype and found % lanes == 0, (operand, dtype)
    assert along or operand.row.const == 1, operand


def _element(operand: Matrix, one: Dim, two: Dim) -> Expr:
    return Load(operand.buffer.dtype, operand.buffer, operand.offset + one * operand.row + two * operand.column)


def _held(left: Matrix, threads: int, thread: Dim, i: Dim, half: Dim, deep: Dim, dtype: str) -> Expr:
    """An element of a left operand in registers, which may be another lane's of the same four."""
    count = left.buffer.size.const or 0
    assert count % threads == 0 and left.buffer.dtype == "f32", left
    tile = floordiv(deep, COLUMNS)
    within = deep - tile * COLUMNS
    lane, odd = floordiv(within, 2), within - floordiv(within, 2) * 2
    owner = floordiv(thread, 4) * 4 + lane
    place = owner * (count // threads) + left.offset + i * left.row + tile * left.column + half * 2 + odd
    return converted(dtype, Load("f32", left.buffer, place))
