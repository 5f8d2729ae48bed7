"""Reductions on a grid: which folds may be taken apart, folds of columns by a block, and folds in two stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, minimum, product, relu, symbol
from egshape.ir.types import integer_range, is_float
from egshape.plan.loops import (
    Assign,
    Buffer,
    Call,
    Const,
    Expr,
    If,
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
    expressions,
    linear,
)
from egshape.plan.parallel import coefficient
from egshape.plan.visit import Moved

Likely = Callable[[Dim], float]
"""A size at the likely sizes."""

FEW = 1 << 15
"""Results (at the likely sizes) up to which a thread for each would leave a GPU idle."""
LONG = 32
"""Rounds (at the likely sizes) from which a fold is shared by threads."""
CHUNK = 4096
"""Rounds that one block folds of a reduction in two stages."""
BLOCKS = 264
"""Blocks that keep a GPU busy."""
WIDTH = 32
"""Columns of a block: what threads of a warp read lies side by side."""

_ASSOCIATIVE = frozenset(("maximum", "minimum", "and", "or"))
"""Ops that give the same bits in any order; sums and products do where the plan allows it (``Call.fast``)."""


def totals(loop: Loop) -> dict[str, Call] | None:
    """What a loop folds: for each local the fold as op(total, item), where any order gives the same; None if a local
    is changed in another way, or control flow is inside."""
    found: dict[str, Call] = {}
    for stmt in loop.body:
        if isinstance(stmt, Assign):
            call = _fold(stmt)
            if call is None or stmt.name in found:
                return None
            found[stmt.name] = call
        elif not isinstance(stmt, Let | LetIndex | Store):
            return None
    items = [call.args[1] for call in found.values()]
    values = [stmt.value for stmt in loop.body if isinstance(stmt, Let | LetIndex | Store)]
    reads = {expr.name for expr in expressions(tuple(Let("", each) for each in (*items, *values)))
             if isinstance(expr, Var)}
    return None if reads & found.keys() else found


def _fold(stmt: Assign) -> Call | None:
    call = stmt.value
    if not isinstance(call, Call) or len(call.args) != 2:
        return None
    exact = call.op in _ASSOCIATIVE or (not is_float(call.dtype) and call.op in ("add", "multiply", "xor"))
    if not exact and not (call.fast and call.op in ("add", "multiply")):
        return None
    one, two = call.args
    if isinstance(one, Var) and one.name == stmt.name:
        return call
    if isinstance(two, Var) and two.name == stmt.name:
        return replace(call, args=(two, one))
    return None


def identity(call: Call) -> Const:
    """What a fold may start from without changing it."""
    dtype = call.dtype
    return Const(dtype, _identity(call, dtype))


def _identity(call: Call, dtype: str) -> int | float | bool:
    if dtype == "i1":
        return call.op in ("multiply", "and", "minimum")
    if call.op in ("add", "xor", "or"):
        return -0.0 if is_float(dtype) else 0
    if call.op == "multiply":
        return 1
    if is_float(dtype):
        return float("-inf") if call.op == "maximum" else float("inf")
    low, high = integer_range(dtype)
    return {"maximum": low, "minimum": high, "and": -1 if low < 0 else high}[call.op]


def joined(call: Call, one: Expr, two: Expr) -> Call:
    """Two parts of a fold made one."""
    return replace(call, args=(one, two))


def along(loops: Sequence[Loop], body: Sequence[Stmt]) -> bool:
    """Whether what the loops of a body read lies side by side for neighbours of the last outer loop, and not for
    neighbours in the loops themselves."""
    if not loops:
        return False
    across = False
    for loop in body:
        if isinstance(loop, Loop):
            for load in expressions((loop,)):
                if isinstance(load, Load) and loop.var in load.index.symbols():
                    if coefficient(load.index, loop.var) is const(1):
                        return False
                    across = across or coefficient(load.index, loops[-1].var) is const(1)
    return across


@dataclass(frozen=True)
class _Shape:
    """A body around one loop that only folds."""

    before: tuple[Stmt, ...]
    loop: Loop
    folds: dict[str, Call]
    behind: tuple[Stmt, ...]


def _shape(body: tuple[Stmt, ...]) -> _Shape | None:
    numbers = [number for number, stmt in enumerate(body) if isinstance(stmt, Loop)]
    if len(numbers) != 1:
        return None
    (number,) = numbers
    loop = body[number]
    assert isinstance(loop, Loop)
    folds = None if any(isinstance(stmt, Store) for stmt in loop.body) else totals(loop)
    plain = all(isinstance(stmt, Let | LetIndex | Local) for stmt in body[:number]) and \
        all(isinstance(stmt, Let | LetIndex | Local | Assign | Store) for stmt in body[number + 1:])
    if not folds or not plain:
        return None
    held = {stmt.name for stmt in body[:number] if isinstance(stmt, Local)}
    lets = tuple(stmt for stmt in body[:number] if isinstance(stmt, Let | LetIndex))
    read = {expr.name for expr in expressions(lets) if isinstance(expr, Var)}
    return None if held - folds.keys() or held & read else _Shape(body[:number], loop, folds, body[number + 1:])


# -- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """A body for blocks of ``width`` columns: ``nest`` are the loops of the grid, ``body`` what a block does."""

    nest: tuple[Loop, ...]
    body: tuple[tuple[int, tuple[Stmt, ...]], ...]
    """What so many threads do, with the number of the thread in ``$t``, before all go on."""
    shared: tuple[Buffer, ...]


def columns(loops: Sequence[Loop], body: tuple[Stmt, ...], likely: Likely, threads: int) -> Columns | None:
    """Folds of columns by blocks: neighbours read what lies side by side, and the rounds of a column are shared by the
    threads of a block. None where that is not the shape, or there are so many columns that a thread takes one."""
    shape = _shape(body)
    if shape is None or not along(loops, body) or likely(shape.loop.extent) < LONG:
        return None
    if likely(product(loop.extent for loop in loops)) > FEW:
        return None
    width = min(WIDTH, threads // 4)
    deep = threads // width
    last, thread, step = loops[-1], symbol("$t"), symbol("$step")
    place = symbol("$column") * width + thread - floordiv(thread, width) * width
    row = floordiv(thread, width)
    moved = Moved({last.var: place})
    inside = Test((last.extent - 1 - place,))
    boards = {name: Buffer(f"$board{number}", call.dtype, const(threads), "temp")
              for number, (name, call) in enumerate(shape.folds.items())}
    inner = Moved({last.var: place, shape.loop.var: row + step * deep}).body(shape.loop.body)
    rounds = Loop("$step", ceildiv(relu(moved.dim(shape.loop.extent) - row), deep), _parts(inner))
    first = [Local(_part(name), identity(call)) for name, call in shape.folds.items()]
    kept = [Store(board, thread, Var(board.dtype, _part(name))) for name, board in boards.items()]
    lets = [stmt for stmt in moved.body(shape.before) if isinstance(stmt, Let | LetIndex)]
    sections: list[tuple[int, tuple[Stmt, ...]]] = [(threads, (If(inside, (*lets, *first, rounds, *kept)),))]
    while deep > 1:
        deep //= 2
        halves = tuple(Store(board, thread, joined(
            shape.folds[name], Load(board.dtype, board, thread), Load(board.dtype, board, thread + deep * width)))
            for name, board in boards.items())
        sections.append((deep * width, (If(inside, halves),)))
    ends = [Assign(name, joined(shape.folds[name], Var(board.dtype, name), Load(board.dtype, board, thread)))
            for name, board in boards.items()]
    sections.append((width, (If(inside, (*moved.body(shape.before), *ends, *moved.body(shape.behind))),)))
    nest = (*loops[:-1], Loop("$column", ceildiv(last.extent, width), ()))
    return Columns(nest, tuple(sections), tuple(boards.values()))


def _part(name: str) -> str:
    return f"$part{name}"


def _parts(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The rounds of a fold, into parts in the place of totals."""
    return tuple(_of_part(stmt) if isinstance(stmt, Assign) else stmt for stmt in body)


def _of_part(stmt: Assign) -> Stmt:
    call = _fold(stmt)
    assert call is not None
    return Assign(_part(stmt.name), joined(call, Var(call.dtype, _part(stmt.name)), call.args[1]))


# -- two stages -------------------------------------------------------------------------------------------------------


def stages(kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], likely: Likely) -> tuple[Kernel, ...]:
    """A kernel as two, where it has few results of long folds: the first one folds chunks, each with a result of its
    own, the second one these."""
    shape = _shape(body)
    results = product(loop.extent for loop in loops)
    if shape is None or kernel.private or likely(shape.loop.extent) < 2 * CHUNK or likely(results) >= BLOCKS:
        return (kernel,)
    if any(loop.extent.symbols() & {each.var for each in loops} for loop in (*loops, shape.loop)):
        return (kernel,)
    chunk, inner, count = symbol("$chunk"), symbol("$inner"), ceildiv(shape.loop.extent, CHUNK)
    flat = linear(tuple(symbol(loop.var) for loop in loops), tuple(loop.extent for loop in loops))
    place = chunk * results + flat if along(loops, body) else flat * count + chunk
    rooms = {name: Buffer(f"{name}.chunks", call.dtype, count * results, "temp")
             for name, call in shape.folds.items()}
    lets = [stmt for stmt in shape.before if isinstance(stmt, Let | LetIndex)]
    first = [Local(_part(name), identity(call)) for name, call in shape.folds.items()]
    rounds = Loop("$inner", minimum(const(CHUNK), shape.loop.extent - chunk * CHUNK),
                  _parts(Moved({shape.loop.var: chunk * CHUNK + inner}).body(shape.loop.body)))
    kept = [Store(room, place, Var(room.dtype, _part(name))) for name, room in rooms.items()]
    ends = [Assign(name, joined(shape.folds[name], Var(room.dtype, name), Load(room.dtype, room, place)))
            for name, room in rooms.items()]
    one = tuple(_nested((Loop("$chunk", count, ()), *loops) if along(loops, body) else
                        (*loops, Loop("$chunk", count, ())), (*lets, *first, rounds, *kept)))
    two = tuple(_nested(loops, (*shape.before, Loop("$chunk", count, tuple(ends)), *shape.behind)))
    return (replace(kernel, label=f"{kernel.label}_chunks", body=one, outputs=tuple(rooms.values()), once=False),
            replace(kernel, body=two))


def _nested(loops: Sequence[Loop], body: Sequence[Stmt]) -> Iterator[Stmt]:
    for loop in reversed(loops):
        body = (replace(loop, body=tuple(body)),)
    yield from body
