"""Which values of attention are finite: a launch that goes before, where a mask ends keys, so that these may be left
out (plan/gpu/attention/skip.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.dims import Dim, ceildiv, const, floordiv, minimum, product, symbol
from egshape.plan.gpu.attention.operands import Operand, nest
from egshape.plan.gpu.attention.registers import Registers
from egshape.plan.gpu.attention.skip import Flags, found_lines
from egshape.plan.gpu.boards import Board, step, tell
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.mapping import launch as mapped
from egshape.plan.gpu.narrow import narrowed
from egshape.plan.ir.launch import Grid, Launch, at_round
from egshape.plan.ir.loops import (
    Attend,
    Buffer,
    Call,
    Const,
    Expr,
    If,
    Index,
    Kernel,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    name_of,
)
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import dims

PART = 128
"""Keys of a flag."""
LONG = 512
"""Keys from which it pays to look at all values first, so that keys that are masked may be left out."""
THREADS = 256
"""Of a block where values are read by 16 bytes."""


def flags(
    kernel: Kernel, loops: Sequence[Loop], stmt: Attend, few: int, likely: Likely
) -> tuple[Flags | None, Launch | None]:
    """Where a mask ends keys, flags that say which values are finite, and the launch that sets them if rows are more
    than ``few`` and keys are many."""
    ends = any(line.ends and line.low is not None for line in found_lines(stmt))
    if not ends or any(
        size.const is not None and size.const < least for size, least in ((stmt.n, LONG), (stmt.m, few + 1))
    ):
        return None, None
    read = {name for dim in dims((Let("", stmt.values),)) for name in dim.symbols()}
    heads = tuple(loop for loop in loops if loop.var in read)
    count = ceildiv(stmt.n, PART)
    buffer = Buffer("attention.finite", "i32", product(loop.extent for loop in heads) * count, "temp")
    found = Flags(buffer, heads, count, (stmt.n - LONG, stmt.m - few - 1))
    kernel = replace(kernel, label=f"{kernel.label}_finite", outputs=(buffer,), once=True)
    launch = _wide(kernel, stmt, found) or narrowed(_each(kernel, stmt, found, likely))
    nothing = none(kernel)
    for less in (const(few) - stmt.m, const(LONG - 1) - stmt.n):
        launch = replace(nothing, fits=(less,), otherwise=launch)
    return found, launch


def none(kernel: Kernel) -> Launch:
    """A launch that is none."""
    return Launch(replace(kernel, body=(Grid("$block", const(0), ()),)), const(0), 1)


def _wide(kernel: Kernel, stmt: Attend, found: Flags) -> Launch | None:
    """A block a flag, which reads by 16 bytes; None where lines do not lie so."""
    block = Registers(stmt, THREADS, 1, const(0))
    values = Operand(
        "values",
        stmt.dtype,
        stmt.values,
        stmt.column,
        stmt.n,
        stmt.place,
        stmt.width,
        PART,
        THREADS,
        block.names,
        kernel.bounds,
    )
    if not values.wide:
        return None
    nest_ = (*found.loops, Loop("$part", found.count, ()))
    blocks, part = product(loop.extent for loop in nest_), symbol("$part")
    env = at_round(nest_, symbol("$block"))
    own, board = block.own("finite", "i32", 1), Board("$finite", THREADS, "and", Const("i32", 1))
    held = values.accesses * values.wide

    def look(thread: Dim) -> list[Stmt]:
        ok = f"{name_of(block.names())}.ok"

        def one(each: Dim) -> Sequence[Stmt]:
            return [step("and", ok, _finite(Load(stmt.dtype, values.held, thread * held + each)))]

        return [Local(ok, board.begin), nest(block.names, held, one), Store(own, thread, Var("i32", ok))]

    def end(thread: Dim) -> list[Stmt]:
        ok = f"{name_of(block.names())}.ok"
        store = Store(found.buffer, found.first() + part, Var("i32", ok))
        return [If(Test((const(0) - thread,)), (*board.all(ok, block.names), store))]

    body: tuple[Stmt, ...] = (
        *(LetIndex(var, Index("i64", at)) for var, at in env.items()),
        block.section(lambda t: values.fetch(t, part * PART)),
        block.section(look),
        board.lanes(own, block.names),
        block.section(lambda t: [tell(t, {board.places: Load("i32", own, t)})], wait=True),
        block.section(end),
    )
    whole = replace(kernel, body=(Grid("$block", blocks, body),), private=())
    registers = (values.held, own)
    return narrowed(Launch(whole, blocks, THREADS, (board.places, *registers), registers))


def _each(kernel: Kernel, stmt: Attend, found: Flags, likely: Likely) -> Launch:
    """The same, one value after the other."""
    part, each = symbol("$part"), symbol("$each")
    column = floordiv(each, stmt.width)
    place = {stmt.column: part * PART + column, stmt.place: each - column * stmt.width}
    ok = Var("i32", "$finite")
    many = minimum(const(PART), stmt.n - part * PART) * stmt.width
    body: tuple[Stmt, ...] = (
        Local(ok.name, Const("i32", 1)),
        Loop("$each", many, (step("and", ok.name, _finite(Moved(place).expr(stmt.values))),)),
        Store(found.buffer, found.first() + part, ok),
    )
    for loop in reversed((*found.loops, Loop("$part", found.count, ()))):
        body = (replace(loop, body=body),)
    return mapped(replace(kernel, body=body), lambda dim: float(PART) if dim is many else likely(dim))


def _finite(value: Expr) -> Expr:
    return Call("i32", "convert", (Call("i1", "is_finite", (value,)),), (("dtype", "i32"),))
