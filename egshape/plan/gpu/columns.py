"""Folds of columns on a grid: threads lie along the columns, each with some side by side, and several of them share the
rows of a column; their parts meet in shared memory once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, symbol
from egshape.plan.gpu import folds as policy
from egshape.plan.gpu.folds import Fold, Likely, along, fold_of, identity, joined
from egshape.plan.gpu.streams import Rounds, Streams, lanes_of, places, wide
from egshape.plan.gpu.wide import divides, left, likely_divides
from egshape.plan.ir.launch import Grid, Launch, Threads, at_round
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
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
)
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions

WIDTH = 32
"""Threads of a block along the columns."""
ROUNDS = 8
"""Accesses that a thread has under way."""
FEW = 8
"""Rows (at the likely sizes) from which threads share those of a column: there may be many more."""


@dataclass(frozen=True)
class _Block:
    """``width`` threads along the columns, each with ``lanes`` of them, by ``deep`` that share the rows."""

    width: int
    deep: int
    lanes: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.width * self.deep

    @property
    def columns(self) -> int:
        """Of a block."""
        return self.width * self.lanes


def columns(
    kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], likely: Likely, threads: int
) -> Launch | None:
    """The launch of folds of columns; None where that is not the shape."""
    fold = fold_of(body)
    if fold is None or kernel.private or not along(loops, body):
        return None
    last, lanes = loops[-1], _lanes(kernel, loops[-1], fold, likely)
    shown = divides(last.extent, lanes, kernel.bounds)
    found = None if shown else _mapped(kernel, loops, fold, _block(loops, fold, 1, likely, threads))
    made = _mapped(kernel, loops, fold, _block(loops, fold, lanes, likely, threads))
    return made if found is None else replace(made, fits=(left(last.extent, lanes),), otherwise=found)


def _lanes(kernel: Kernel, last: Loop, fold: Fold, likely: Likely) -> int:
    """Columns of a thread: as many as an access of 16 bytes holds, where the lines divide, shown or likely."""
    found = places(fold.loop.body, last.var)[0]
    lanes, known = lanes_of(found), {each.name: each.divisor for each in kernel.bounds}
    if lanes == 1 or not any(wide(place, lanes, last.extent, known) for place in found):
        return 1
    return lanes if divides(last.extent, lanes, kernel.bounds) or likely_divides(last.extent, lanes, likely) else 1


def _block(loops: Sequence[Loop], fold: Fold, lanes: int, likely: Likely, threads: int) -> _Block:
    """Threads along the columns as far as these go, the others along the rows where that is worth while."""
    every = likely(product(loop.extent for loop in loops)) / lanes
    if likely(fold.loop.extent) < FEW or every >= policy.BUSY:
        return _Block(threads, 1, lanes)
    width = 1
    while width < min(WIDTH, threads // 4) and width * lanes < likely(loops[-1].extent):
        width *= 2
    return _Block(width, threads // width, lanes)


def _mapped(kernel: Kernel, loops: Sequence[Loop], fold: Fold, block: _Block) -> Launch:
    last = loops[-1]
    nest = (*loops[:-1], Loop("$column", ceildiv(last.extent, block.columns), ()))
    blocks = product(loop.extent for loop in nest)
    place = tuple(LetIndex(var, Index("i64", at)) for var, at in at_round(nest, symbol("$block")).items())
    threads = block.threads
    parts = {
        name: Buffer(f"$part{k}", call.dtype, const(threads * block.lanes), "temp")
        for k, (name, call) in enumerate(fold.folds.items())
    }
    registers: list[Buffer] = [*parts.values()]
    thread = symbol("$t0")
    rounds = _rounds(kernel, last, fold, block, parts, registers)
    boards = {
        name: Buffer(f"$board{k}", part.dtype, const(block.deep * block.columns), "temp")
        for k, (name, part) in enumerate(parts.items())
    }
    lane, first = symbol("$lane"), symbol("$column") * block.columns
    if block.deep == 1:
        mine = thread * block.lanes + lane
        end = Loop("$lane", const(block.lanes), (_end(fold, last, first + mine, parts, mine),))
        sections: tuple[Stmt, ...] = (Threads("$t0", const(threads), (*rounds, end), wait=False),)
        shared: tuple[Buffer, ...] = ()
    else:
        keep = Loop(
            "$lane",
            const(block.lanes),
            tuple(
                Store(boards[name], thread * block.lanes + lane, Load(part.dtype, part, thread * block.lanes + lane))
                for name, part in parts.items()
            ),
        )
        sections = (Threads("$t0", const(threads), (*rounds, keep)), *_over_rows(fold, last, block, first, boards))
        shared = tuple(boards.values())
    whole = replace(kernel, body=(Grid("$block", blocks, (*place, *sections)),))
    why = (
        f"{block.lanes} columns a thread, {block.width} threads along the columns, "
        f"{block.deep} share the rows of a column"
    )
    return Launch(whole, blocks, threads, (*shared, *registers), tuple(registers), why=why)


def _rounds(
    kernel: Kernel, last: Loop, fold: Fold, block: _Block, parts: dict[str, Buffer], registers: list[Buffer]
) -> list[Stmt]:
    """What a thread folds, into its parts."""
    thread, chunk, lane, row = symbol("$t0"), symbol("$chunk.rows"), symbol("$lane"), fold.loop.var
    own = thread - floordiv(thread, block.width) * block.width
    first = symbol("$column") * block.columns + own * block.lanes
    count = max(1, ROUNDS // max(1, len(places(fold.loop.body, last.var, frozenset((row,)))[0])))

    def index(at: Dim) -> Dim:
        return floordiv(thread, block.width) + (chunk * count + at) * block.deep

    rounds = Rounds(
        count,
        block.lanes,
        thread,
        block.threads,
        lambda _: first,
        lambda at: (last.extent - 1 - first, fold.loop.extent - 1 - index(at)),
        lambda at: (LetIndex(row, Index("i64", index(at))),),
        frozenset((row,)),
    )
    streams = Streams("$s", rounds, registers, kernel.bounds, last.extent, own=frozenset(parts.values()))
    mine = thread * block.lanes + symbol(last.var) - first
    read = {expr.name for expr in expressions(fold.loop.body) if isinstance(expr, Var)}
    lets = [stmt for stmt in fold.before if isinstance(stmt, Let | LetIndex)]
    used = lets if read & {stmt.name for stmt in lets} else []
    body = (*used, *(_into(stmt, fold, parts, mine) for stmt in fold.loop.body))
    clear = Loop(
        "$lane",
        const(block.lanes),
        tuple(Store(part, thread * block.lanes + lane, identity(fold.folds[name])) for name, part in parts.items()),
    )
    again = Loop(
        "$chunk.rows",
        ceildiv(fold.loop.extent, count * block.deep),
        (*streams.read(body, last.var), *streams.run(body, last.var)),
    )
    return [clear, again]


def _into(stmt: Stmt, fold: Fold, parts: dict[str, Buffer], mine: Dim) -> Stmt:
    """A step of a fold, into a part."""
    if not isinstance(stmt, Assign):
        return stmt
    call, part = fold.folds[stmt.name], parts[stmt.name]
    return Store(part, mine, joined(call, Load(part.dtype, part, mine), call.args[1]))


def _over_rows(fold: Fold, last: Loop, block: _Block, first: Dim, boards: dict[str, Buffer]) -> list[Stmt]:
    """The parts of a column become one, by a thread for each column."""
    thread, deep, round_ = symbol("$t1"), symbol("$deep"), symbol("$round")
    count = max(1, block.columns // block.threads)
    active = min(block.threads, block.columns)
    place = thread + round_ * active
    totals = [Local(f"$total.{name}", Load(board.dtype, board, place)) for name, board in boards.items()]
    more = [
        Assign(
            each.name,
            joined(
                fold.folds[name],
                Var(board.dtype, each.name),
                Load(board.dtype, board, place + (deep + 1) * block.columns),
            ),
        )
        for each, (name, board) in zip(totals, boards.items(), strict=True)
    ]
    ends = [
        Assign(name, joined(fold.folds[name], Var(board.dtype, name), Var(board.dtype, f"$total.{name}")))
        for name, board in boards.items()
    ]
    column = first + place
    inner = Moved({last.var: column}).body((*fold.before, *ends, *fold.behind))
    inside = If(Test((last.extent - 1 - column,)), (*totals, Loop("$deep", const(block.deep - 1), tuple(more)), *inner))
    return [Threads("$t1", const(active), (Loop("$round", const(count), (inside,)),), wait=False)]


def _end(fold: Fold, last: Loop, column: Dim, parts: dict[str, Buffer], mine: Dim) -> Stmt:
    """What is done with the totals of a column."""
    ends = [
        Assign(name, joined(fold.folds[name], Var(part.dtype, name), Load(part.dtype, part, mine)))
        for name, part in parts.items()
    ]
    inner = Moved({last.var: column}).body((*fold.before, *ends, *fold.behind))
    return If(Test((last.extent - 1 - column,)), inner)
