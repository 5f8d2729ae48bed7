"""The second step of attention whose keys are split: what blocks gave for chunks of keys becomes the results of a row.

A block takes a row. Its threads find the largest score of all chunks together, then each group of them sums some of the
chunks, and the sums of groups meet in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, symbol
from egshape.plan.gpu.attention.operands import nest
from egshape.plan.gpu.attention.registers import Registers
from egshape.plan.gpu.attention.results import finished, partial_row
from egshape.plan.gpu.attention.scores import LOW, ZERO, based, is_low
from egshape.plan.gpu.boards import Board, step, tell
from egshape.plan.ir.launch import Grid, Launch, Wide, at_round
from egshape.plan.ir.loops import (
    Assign,
    Attend,
    Buffer,
    Call,
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

THREADS = 256
"""Of a block."""
LANES = 4
"""Results of a thread, where lines divide by that: 16 bytes."""


def joined(kernel: Kernel, loops: Sequence[Loop], stmt: Attend, partial: tuple[Buffer, ...], chunk: int) -> Launch:
    """The launch that joins chunks of so many keys. ``partial``: their sums, peaks and totals."""
    sums, peaks, totals = partial
    block, width = Registers(stmt, THREADS, 1, const(0)), stmt.width.const or 0
    lanes = LANES if width % LANES == 0 else 1
    slots = width // lanes
    groups = THREADS // slots
    count, row = ceildiv(stmt.n, chunk), symbol(stmt.row)
    first = partial_row(loops, stmt, row) * count
    best = block.own("best", "f32", 1)
    own, held = (block.own(name, "f32", lanes) for name in ("sums", "held"))
    board = Board("$board.peaks", THREADS, "maximum", LOW)
    whole, stage = (
        Buffer(f"$board.{name}", "f32", const(size), "temp")
        for name, size in (("totals", groups), ("sums", groups * width))
    )

    def largest(thread: Dim) -> list[Stmt]:
        found, turn = f"{name_of(block.names())}.best", block.names()
        number = thread + turn * THREADS
        more = If(Test((count - 1 - number,)), (step("maximum", found, Load("f32", peaks, first + number)),))
        rounds = Loop(name_of(turn), ceildiv(count, THREADS), (more,))
        return [Local(found, LOW), rounds, Store(best, thread, Var("f32", found))]

    def add(thread: Dim) -> list[Stmt]:
        name, turn, lane = name_of(block.names()), block.names(), block.names()
        top, base, weight, total = (Var("f32", f"{name}.{each}") for each in ("top", "base", "weight", "total"))
        group, mine = floordiv(thread, slots), thread * lanes
        slot = (thread - group * slots) * lanes
        number = group + turn * groups
        gap = Call("f32", "subtract", (Load("f32", peaks, first + number), base))
        copy = Store(held, mine + lane, Load("f32", sums, (first + number) * width + slot + lane))

        def more(each: Dim) -> list[Stmt]:
            item = Call("f32", "multiply", (Load("f32", held, mine + each), weight))
            return [Store(own, mine + each, Call("f32", "add", (Load("f32", own, mine + each), item)))]

        item = Call("f32", "multiply", (Load("f32", totals, first + number), weight))
        one = (
            Wide(name_of(lane), const(lanes), (copy,)) if lanes > 1 else Loop(name_of(lane), const(1), (copy,)),
            Let(weight.name, Call("f32", "exponential", (gap,))),
            Assign(total.name, Call("f32", "add", (total, item))),
            nest(block.names, lanes, more),
        )
        rounds = Loop(name_of(turn), ceildiv(count, groups), (If(Test((count - 1 - number,)), one),))
        given = (
            nest(block.names, lanes, lambda each: [Store(own, mine + each, ZERO)]),
            *board.all(top.name, block.names),
            *based(top, base),
            Local(total.name, ZERO),
            rounds,
            nest(
                block.names,
                lanes,
                lambda each: [Store(stage, group * width + slot + each, Load("f32", own, mine + each))],
            ),
            If(Test((const(0) - slot,)), (Store(whole, group, total),)),
        )
        return [If(Test((groups * slots - 1 - thread,)), given)]

    def end(thread: Dim) -> list[Stmt]:
        total, value = Var("f32", stmt.total), Var("f32", f"{name_of(block.names())}.sum")

        def more(group: Dim) -> list[Stmt]:
            items = ((total, Load("f32", whole, group)), (value, Load("f32", stage, group * width + thread)))
            return [Assign(to.name, Call("f32", "add", (to, item))) for to, item in items]

        known = (
            *board.all(stmt.peak, block.names),
            *(Local(each.name, ZERO) for each in (total, value)),
            Loop(name_of(each := block.names()), const(groups), tuple(more(each))),
            Let(stmt.value, finished(value, stmt.factor, stmt.live, is_low(Var("f32", stmt.peak)))),
            *Moved({stmt.place: thread}).body(stmt.body),
        )
        return [If(Test((stmt.width - 1 - thread,)), known)]

    around = (*loops, Loop(stmt.row, stmt.m, ()))
    blocks, env = product(loop.extent for loop in around), at_round(around, symbol("$block"))
    body: tuple[Stmt, ...] = (
        *(LetIndex(var, Index("i64", at)) for var, at in env.items()),
        block.section(largest),
        board.lanes(best, block.names),
        block.section(lambda t: [tell(t, {board.places: Load("f32", best, t)})], wait=True),
        block.section(add, wait=True),
        block.section(end),
    )
    found = replace(kernel, label=f"{kernel.label}_joined", body=(Grid("$block", blocks, body),), private=())
    registers = (best, own, held)
    return Launch(found, blocks, THREADS, (board.places, whole, stage, *registers), registers)
