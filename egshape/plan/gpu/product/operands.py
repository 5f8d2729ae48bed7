"""Operands of products on their way into tiles: which way they lie in memory, and chunks of them that are read at
once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Atom, Dim, FloorDiv, const, symbol
from egshape.dims.core import of_atom
from egshape.ir.types import itemsize
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.wide import Lines, divides, left, likely_divides, lines, multiple
from egshape.plan.ir.launch import BYTES, Wide
from egshape.plan.ir.loops import Bounds, Buffer, Choose, Const, Expr, If, Let, Load, Loop, Stmt, Store, Test
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions


def follows(expr: Expr, deep: str, place: str) -> bool:
    """Whether neighbours in memory follow the depth."""
    found = [load for load in expressions((Let("", expr),)) if isinstance(load, Load)]
    return any(steps(load.index, deep) for load in found) and not any(steps(load.index, place) for load in found)


def steps(index: Dim, var: str) -> bool:
    """Whether values of a variable that follow one another are side by side in memory, until a quotient steps too."""
    return coefficient(_without_quotients(index, lambda atom: var in atom.symbols), var) is const(1)


@dataclass(frozen=True)
class Chunks:
    """An operand in chunks of ``lanes`` elements that follow one another along the depth, or along its free axis.
    ``fits``: what must be >= 0 for that."""

    expr: Expr
    along: bool
    lanes: int
    fits: tuple[Dim, ...] = ()

    def taken(self, own: Buffer, mine: Dim, env: Mapping[str, Dim], zero: Loop, lane: Dim) -> tuple[Stmt, ...]:
        """A chunk into registers from ``mine`` on; ``env``: where it begins, ``zero``: registers of 0."""
        return self._taken(Moved(env).expr(self.expr), own, mine, zero, lane)

    def _taken(self, expr: Expr, own: Buffer, mine: Dim, zero: Loop, lane: Dim) -> tuple[Stmt, ...]:
        if isinstance(expr, Choose):
            one, two = (self._taken(each, own, mine, zero, lane) for each in (expr.then, expr.other))
            return (If(expr.condition, one, two),)
        if isinstance(expr, Const) and not expr.value:
            return (zero,)
        if self.lanes == 1:
            return (Store(own, mine, expr),)
        assert isinstance(expr, Load)
        (var,) = lane.symbols()
        copy = Store(own, mine + lane, Load(expr.dtype, expr.buffer, expr.index + lane))
        return (Wide(var, const(self.lanes), (copy,)),)


def chunks(expr: Expr, var: str, whole: Dim, along: bool, bounds: Sequence[Bounds], likely: Likely | None) -> Chunks:
    """How an operand is read along ``var``, which goes up to ``whole``; without ``likely`` what is shown counts."""
    lanes = BYTES // itemsize(expr.dtype)
    known = {each.name: each.divisor for each in bounds}
    loads = [load for load in expressions((Let("", expr),)) if isinstance(load, Load)]
    parts = tuple(dict.fromkeys((whole, *(part for load in loads for part in _divisors(load.index, var)))))
    while lanes > 1:
        for part in parts:
            shown = divides(part, lanes, bounds)
            closed = not any(name.startswith("$") for name in part.symbols())
            guessed = likely is not None and closed and likely_divides(part, lanes, likely)
            if (
                (shown or guessed)
                and multiple(whole, lanes, part, known)
                and _side_by_side(expr, var, lanes, part, known)
            ):
                return Chunks(expr, along, lanes, () if shown else (left(part, lanes),))
        lanes //= 2
    return Chunks(expr, along, 1)


def _side_by_side(expr: Expr, var: str, lanes: int, part: Dim, known: dict[str, int]) -> bool:
    """Whether each ``lanes`` elements from a multiple on lie side by side from a multiple on, or are all 0, where
    ``part`` is a multiple."""

    def within(dim: Dim) -> Dim:
        return _within(dim, var, lanes, part, known)

    match expr:
        case Load():
            index = within(expr.index)
            return coefficient(index, var) is const(1) and multiple(index.substitute({var: 0}), lanes, part, known)
        case Choose(condition=Test() as test):
            same = all(var not in within(dim).symbols() for dim in test.dims)
            return same and all(_side_by_side(each, var, lanes, part, known) for each in (expr.then, expr.other))
        case Const():
            return not expr.value
    return False


def parts_of(loop: Loop) -> tuple[Dim, ...]:
    """Sizes of parts of a loop within which what it stores may lie side by side: divisors of its variable."""
    found: dict[Dim, None] = {}
    for stmt in loop.body:
        if isinstance(stmt, Store):
            found.update(dict.fromkeys(_divisors(stmt.index, loop.var)))
    return tuple(found)


def _divisors(index: Dim, var: str) -> tuple[Dim, ...]:
    """What a variable is divided by in an index."""
    parts = (_divisor(atom, var) for atom in index.atoms() if isinstance(atom, FloorDiv))
    return tuple(part for part in parts if part is not None)


def lines_of_parts(loop: Loop, part: Dim, bounds: Sequence[Bounds]) -> Lines | None:
    """How the rounds of a loop are taken several at a time if ``part``, which divides its extent, divides by their
    number; None if that gains nothing."""
    known = {each.name: each.divisor for each in bounds}

    class Within(Moved):
        def dim(self, dim: Dim) -> Dim:
            return _within(dim, loop.var, BYTES, part, known)

    found = lines(replace(loop, body=Within({}).body(loop.body)), bounds, whole=part)
    if found is None or not multiple(loop.extent, found.lanes, part, known):
        return None
    places = {stmt.buffer: stmt.index for stmt in loop.body if isinstance(stmt, Store)}
    places |= {load.buffer: load.index for load in expressions(loop.body) if isinstance(load, Load)}
    return replace(found, loop=loop, wide={buffer: places[buffer] for buffer in found.wide})


def _divisor(atom: FloorDiv, var: str) -> Dim | None:
    """What a variable is divided by, in one step or in several; None where the quotient is of something else."""
    if atom.num is symbol(var):
        return atom.den
    inner = atom.num.atoms()[0] if len(atom.num.atoms()) == 1 else None
    if not isinstance(inner, FloorDiv) or of_atom(inner) is not atom.num:
        return None
    before = _divisor(inner, var)
    return None if before is None else before * atom.den


def _within(dim: Dim, var: str, lanes: int, part: Dim, known: dict[str, int]) -> Dim:
    """A size with new symbols for quotients that are the same for each ``lanes`` values of a variable from a multiple
    on, where ``part`` is a multiple: those by multiples."""

    def chosen(atom: FloorDiv) -> bool:
        size = _divisor(atom, var)
        return size is not None and multiple(size, lanes, part, known)

    return _without_quotients(dim, chosen)


def _without_quotients(dim: Dim, chosen: Callable[[FloorDiv], bool]) -> Dim:
    """A size with new symbols for some quotients."""

    def value(atom: Atom) -> Dim:
        return symbol(f"{atom.num}/{atom.den}") if isinstance(atom, FloorDiv) and chosen(atom) else of_atom(atom)

    return dim.map_atoms(value)
