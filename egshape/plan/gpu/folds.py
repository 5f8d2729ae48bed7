"""Reductions on a grid: which folds may be taken apart, folds of columns by a block, and folds in two stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, minimum, product, symbol
from egshape.ir.types import integer_range, is_float
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.gpu.joint import joint, stepped
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Const,
    Expr,
    Kernel,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Var,
    linear,
)
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions

Likely = Callable[[Dim], float]
"""A size at the likely sizes."""

LONG = 32
"""Rounds (at the likely sizes) from which a fold is shared by threads."""
CHUNK = 4096
"""Rounds that one block folds of a reduction in two stages."""
BLOCKS = 264
"""Blocks that keep a GPU busy."""
BUSY = 132 * 1024
"""Threads that keep a GPU busy."""
PIECES = 2048
"""Pieces of one fold, where it is so long."""
ROWS = 64
"""Rounds of a piece at least, where threads lie along the results."""

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
    reads = {
        expr.name for expr in expressions(tuple(Let("", each) for each in (*items, *values))) if isinstance(expr, Var)
    }
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


def zero(dtype: str) -> Const:
    """Zero of a dtype."""
    return Const(dtype, False if dtype == "i1" else 0.0 if is_float(dtype) else 0)


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


def apart(loops: Sequence[Loop], body: Sequence[Stmt]) -> bool:
    """Whether what the loops of a body read lies side by side within them, and a line apart for neighbours of the last
    outer loop."""
    if not loops:
        return False
    for loop in body:
        if isinstance(loop, Loop):
            for load in expressions((loop,)):
                if isinstance(load, Load) and coefficient(load.index, loop.var) is const(1):
                    step = coefficient(load.index, loops[-1].var)
                    if step is not None and step.const not in (0, 1):
                        return True
    return False


@dataclass(frozen=True)
class Fold:
    """A body around one loop that only folds."""

    before: tuple[Stmt, ...]
    loop: Loop
    folds: dict[str, Call]
    behind: tuple[Stmt, ...]


def fold_of(body: tuple[Stmt, ...]) -> Fold | None:
    """The parts of a body that only folds, each total for itself; None for others."""
    found = _around(body)
    if found is None or any(isinstance(stmt, Store) for stmt in found[1].body):
        return None
    before, loop, behind = found
    folds = totals(loop)
    return Fold(before, loop, folds, behind) if folds and _only(before, folds) else None


def _around(body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], Loop, tuple[Stmt, ...]] | None:
    """What stands before the only loop of a body, this, and what stands behind it."""
    numbers = [number for number, stmt in enumerate(body) if isinstance(stmt, Loop)]
    if len(numbers) != 1:
        return None
    (number,) = numbers
    loop = body[number]
    assert isinstance(loop, Loop)
    plain = all(isinstance(stmt, Let | LetIndex | Local) for stmt in body[:number]) and all(
        isinstance(stmt, Let | LetIndex | Local | Assign | Store) for stmt in body[number + 1 :]
    )
    return (body[:number], loop, body[number + 1 :]) if plain else None


def _only(before: Sequence[Stmt], names: Collection[str]) -> bool:
    """Whether the locals before a loop are these, which nothing reads before it."""
    held = {stmt.name for stmt in before if isinstance(stmt, Local)}
    lets = tuple(stmt for stmt in before if isinstance(stmt, Let | LetIndex))
    read = {expr.name for expr in expressions(lets) if isinstance(expr, Var)}
    return not held - set(names) and not held & read


# -- two stages -------------------------------------------------------------------------------------------------------


def _part(name: str) -> str:
    return f"$part{name}"


def _parts(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The rounds of a fold, into parts in the place of totals."""
    return tuple(_of_part(stmt) if isinstance(stmt, Assign) else stmt for stmt in body)


def _of_part(stmt: Assign) -> Stmt:
    call = _fold(stmt)
    assert call is not None
    return Assign(_part(stmt.name), joined(call, Var(call.dtype, _part(stmt.name)), call.args[1]))


@dataclass(frozen=True)
class _Parts:
    """A fold in parts. ``dtypes`` of the totals by name, ``first``: what a part begins with."""

    before: tuple[Stmt, ...]
    loop: Loop
    behind: tuple[Stmt, ...]
    dtypes: dict[str, str]
    first: tuple[Stmt, ...]

    def rounds(self, inner: Loop) -> Loop:
        """The rounds of a part."""
        fold = joint(inner)
        if totals(inner) is not None or fold is None:
            return replace(inner, body=_parts(inner.body))
        parts = [Var(state.dtype, _part(state.name)) for state in fold.states]
        body = stepped(fold, parts, fold.items, lambda state, new: Assign(_part(state.name), new))
        return replace(inner, body=(*fold.lets, *body))

    def ends(self, rooms: Mapping[str, Buffer], place: Dim) -> tuple[Stmt, ...]:
        """What adds a part to the totals."""
        loads = {name: Load(room.dtype, room, place) for name, room in rooms.items()}
        folds = totals(self.loop)
        if folds is not None:
            return tuple(Assign(name, joined(call, Var(call.dtype, name), loads[name])) for name, call in folds.items())
        fold = joint(self.loop)
        assert fold is not None
        return tuple(
            stepped(
                fold,
                fold.states,
                [loads[state.name] for state in fold.states],
                lambda state, new: Assign(state.name, new),
            )
        )


def _in_parts(body: tuple[Stmt, ...]) -> _Parts | None:
    """The parts of a body that only folds; None for others."""
    one = fold_of(body)
    if one is not None:
        first = tuple(Local(_part(name), identity(call)) for name, call in one.folds.items())
        return _Parts(one.before, one.loop, one.behind, {name: call.dtype for name, call in one.folds.items()}, first)
    found = _around(body)
    fold = joint(found[1]) if found is not None else None
    if found is None or fold is None or not _only(found[0], [state.name for state in fold.states]):
        return None
    begin = {stmt.name: stmt for stmt in found[0] if isinstance(stmt, Local)}
    if begin.keys() != {state.name for state in fold.states}:
        return None
    return _Parts(
        *found,
        {state.name: state.dtype for state in fold.states},
        tuple(Local(_part(name), stmt.value) for name, stmt in begin.items()),
    )


def stages(kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], likely: Likely) -> tuple[Kernel, ...]:
    """A kernel as two, where it has few results of long folds: the first one folds chunks, each with a result of its
    own, the second one these."""
    results = product(loop.extent for loop in loops)
    if kernel.private or not any(isinstance(stmt, Loop) for stmt in body):
        return (kernel,)
    longest = max(likely(stmt.extent) for stmt in body if isinstance(stmt, Loop))
    piece = _piece(longest, likely(results), along(loops, body))
    shape = _in_parts(body) if longest >= 2 * piece else None
    if shape is None:
        return (kernel,)
    if any(loop.extent.symbols() & {each.var for each in loops} for loop in (*loops, shape.loop)):
        return (kernel,)
    chunk, inner, count = symbol("$chunk"), symbol("$inner"), ceildiv(shape.loop.extent, piece)
    flat = linear(tuple(symbol(loop.var) for loop in loops), tuple(loop.extent for loop in loops))
    place = chunk * results + flat if along(loops, body) else flat * count + chunk
    rooms = {name: Buffer(f"{name}.chunks", dtype, count * results, "temp") for name, dtype in shape.dtypes.items()}
    lets = [stmt for stmt in shape.before if isinstance(stmt, Let | LetIndex)]
    rounds = shape.rounds(
        Loop(
            "$inner",
            minimum(const(piece), shape.loop.extent - chunk * piece),
            Moved({shape.loop.var: chunk * piece + inner}).body(shape.loop.body),
        )
    )
    kept = [Store(room, place, Var(room.dtype, _part(name))) for name, room in rooms.items()]
    one = tuple(
        _nested(
            (Loop("$chunk", count, ()), *loops) if along(loops, body) else (*loops, Loop("$chunk", count, ())),
            (*lets, *shape.first, rounds, *kept),
        )
    )
    two = tuple(_nested(loops, (*shape.before, Loop("$chunk", count, shape.ends(rooms, place)), *shape.behind)))
    return (
        replace(kernel, label=f"{kernel.label}_chunks", body=one, outputs=tuple(rooms.values()), once=False),
        replace(kernel, body=two),
    )


def _piece(length: float, results: float, side_by_side: bool) -> int:
    """Rounds of a piece: of each fold alone so many that there are not too many pieces; where threads lie along the
    results so few that all of them have something to do; and more than there are where nothing is gained."""
    if not side_by_side:
        return _power(max(CHUNK, length / PIECES)) if results < BLOCKS else 1 << 62
    # Some results side by side are a thread's, and eight threads share a fold.
    busy = results / 4 * 8
    return 1 << 62 if busy >= BUSY else _power(min(CHUNK, max(ROWS, length * busy / BUSY)))


def _power(size: float) -> int:
    found = 1
    while found < size:
        found *= 2
    return found


def _nested(loops: Sequence[Loop], body: Sequence[Stmt]) -> Iterator[Stmt]:
    for loop in reversed(loops):
        body = (replace(loop, body=tuple(body)),)
    yield from body
