"""Which kernels may run in pieces side by side, found from the loop IR alone.

A nest of outer loops is cut where the iterations store to places of their own: every index of a written buffer is
affine in all loop variables and injective like a mixed-radix number (each coefficient exceeds the sum that the smaller
ones can reach), so that no two iterations touch one element. Results are then the same bits however the nest is cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from egshape.dims import Dim, Relu, ceildiv, const, minimum, product, relu, symbol
from egshape.dims.core import is_nonnegative
from egshape.plan.analysis.work import operations
from egshape.plan.ir.loops import Buffer, Kernel, Load, Loop, Pack, Product, Stmt, Store, While
from egshape.plan.ir.packs import pack_step
from egshape.plan.ir.ranges import Split
from egshape.plan.ir.walk import expressions, statements

MOST_LOOPS = 3
_UNROLLED = 256
"""Rounds up to which a compiler may write out a loop."""


def split(kernel: Kernel) -> Split | None:
    """How a kernel is cut; None if nothing shows that it may be."""
    if len(kernel.body) != 1:
        return None
    (stmt,) = kernel.body
    loops: list[Loop] = []
    while isinstance(stmt, Loop):
        loops.append(stmt)
        if len(stmt.body) != 1:
            break
        (stmt,) = stmt.body
    own = getattr(stmt, "units", None)
    if isinstance(own, Dim) and not loops:
        return Split((), own, operations((stmt,)), 1)
    if isinstance(own, Dim) or not loops or not (writes_only(kernel) or independent(loops, kernel.private)):
        return None
    last = loops[-1].body
    flat = not any(isinstance(each, Loop | While | Product | Pack) for each in last)
    taken = loops[:-1] if flat and len(loops) > 1 else loops
    own_names = {each.var for each in loops}
    taken = list(takewhile(lambda loop: not loop.extent.symbols() & own_names, taken[:MOST_LOOPS]))
    units = product(loop.extent for loop in taken)
    if not taken or units.const == 1:
        return None
    return Split(tuple(taken), units, operations(taken[-1].body), _grain(taken[-1].body))


def _grain(body: tuple[Stmt, ...]) -> int:
    """Iterations that stay together. A compiler may turn a loop whose inner loops are short, or none, into vectors of
    iterations with a remainder; sums in the two may be rounded in another order. Ranges that are multiples of any
    vector leave each iteration where it is when one thread runs all."""
    inner = [stmt.extent.const for stmt in statements(body) if isinstance(stmt, Loop)]
    whole = any(isinstance(stmt, While | Product | Pack) for stmt in statements(body))
    return 1 if whole or any(extent is None or extent > _UNROLLED for extent in inner) else 256


def writes_only(kernel: Kernel) -> bool:
    """Whether the planner says that each element has one writer, and nothing written is read but, before it, the
    element that is written over."""
    places: dict[Buffer, set[Dim]] = {}
    for stmt in statements(kernel.body):
        if isinstance(stmt, Store) and stmt.buffer not in kernel.private:
            places.setdefault(stmt.buffer, set()).add(stmt.index)
    stored = set(places)
    loads = [expr for expr in expressions(kernel.body) if isinstance(expr, Load)]
    read = {expr.buffer for expr in loads if places.get(expr.buffer) != {expr.index}}
    for stmt in statements(kernel.body):
        if isinstance(stmt, Product):
            read.update((stmt.left.buffer, stmt.right, *((stmt.direct.buffer,) if stmt.direct else ())))
        elif isinstance(stmt, Pack):
            stored.add(stmt.target)
            read.add(stmt.source.buffer)
    return kernel.once and not stored & read


@dataclass(frozen=True)
class _Place:
    """Where iterations touch a buffer: rest + the sum of step * variable, for the outer and for other variables."""

    rest: Dim
    outer: frozenset[tuple[str, Dim]]
    inner: frozenset[tuple[tuple[Dim, Dim], int]]


def independent(loops: Sequence[Loop], private: Collection[Buffer] = ()) -> bool:
    """Whether different iterations of a nest of loops (each the whole body of the one before) never meet in a written
    buffer. ``private`` buffers do not count: each iteration has its own."""
    body, outer = loops[-1].body, {loop.var: loop.extent for loop in loops}
    extents = dict(outer)
    for stmt in statements(body):
        if isinstance(stmt, Loop):
            extents[stmt.var] = stmt.extent
        elif isinstance(stmt, Product):
            extents |= {stmt.row: stmt.m, stmt.column: stmt.n}
    if any(extent.symbols() & extents.keys() for extent in outer.values()):
        return False
    if any(buffer.kind != "temp" for buffer in private):
        return False
    places: dict[Buffer, set[_Place | None]] = {}
    written: set[Buffer] = set()
    read: set[Buffer] = set()
    for stmt in statements(body):
        if isinstance(stmt, Store):
            written.add(stmt.buffer)
            places.setdefault(stmt.buffer, set()).add(_place(stmt.index, extents, outer))
        elif isinstance(stmt, Product):
            read.update((stmt.left.buffer, stmt.right, *((stmt.direct.buffer,) if stmt.direct else ())))
        elif isinstance(stmt, Pack):
            written.add(stmt.target)
            read.add(stmt.source.buffer)
            width = ceildiv(stmt.columns, pack_step(stmt.dtype)) * pack_step(stmt.dtype)
            area = ((const(1), width), (width, stmt.rows))
            places.setdefault(stmt.target, set()).add(_place(stmt.offset, extents, outer, area))
        elif hasattr(stmt, "work"):
            return False
    for expr in expressions(body):
        if isinstance(expr, Load):
            places.setdefault(expr.buffer, set()).add(_place(expr.index, extents, outer))
    shared = written - set(private)
    return not shared & read and all(len(places[each]) == 1 and None not in places[each] for each in shared)


def injective(index: Dim, extents: Mapping[str, Dim]) -> bool:
    """Whether different rounds of these loops have different indices."""
    return (
        not any(extent.symbols() & extents.keys() for extent in extents.values())
        and _place(index, extents, extents) is not None
    )


def coefficient(index: Dim, var: str) -> Dim | None:
    """What one step of a loop adds to an index; None if that is not the same everywhere."""
    rest = index.substitute({var: 0})
    factor = index.substitute({var: 1}) - rest
    if var in factor.symbols() or rest + factor * symbol(var) is not index:
        return None
    return factor


def _place(
    index: Dim, extents: Mapping[str, Dim], outer: Mapping[str, Dim], further: Iterable[tuple[Dim, Dim]] = ()
) -> _Place | None:
    """The place of an index, if different iterations have different ones (all extents being at least 1); ``further``:
    steps and extents within one statement."""
    mine: list[tuple[str, Dim]] = []
    inner = Counter(step for step in further if step[1].const != 1)
    rest = index
    for var in sorted(index.symbols() & extents.keys()):
        factor = coefficient(index, var)
        if factor is None:
            return None
        rest = rest.substitute({var: 0})
        if var in outer:
            mine.append((var, factor))
        else:
            inner[factor, extents[var]] += 1
    found = _joined(dict(mine), inner, outer)
    if found is None:
        return None
    if any(name.startswith("$") for name in rest.symbols()):
        return None
    if any(extent.const != 1 and var not in dict(mine) for var, extent in outer.items()):
        return None
    reach = const(0)
    for factor, extent in sorted(found, key=_size):
        if not is_nonnegative(factor - reach - 1):
            return None
        reach = reach + factor * (extent - 1)
    return _Place(rest, frozenset(mine), frozenset(inner.items()))


def _joined(
    mine: Mapping[str, Dim], inner: Counter[tuple[Dim, Dim]], outer: Mapping[str, Dim]
) -> list[tuple[Dim, Dim]] | None:
    """All steps and extents; a loop over blocks of ``most`` and the loop inside of a block, whose last one may be
    shorter, count as the one loop that they make up."""
    found, taken = [], set()
    for factor, size in inner.elements():
        extent, blocks = size, size.symbols() & outer.keys()
        if blocks:
            (var,) = blocks if len(blocks) == 1 else ("",)
            whole = blocked(extent, var) if var in mine else None
            if whole is None or var in taken or mine[var] is not factor * whole[1]:
                return None
            taken.add(var)
            extent = whole[0]
        if any(name.startswith("$") for name in extent.symbols()):
            return None
        found.append((factor, extent))
    return [*found, *((step, outer[var]) for var, step in mine.items() if var not in taken)]


def blocked(extent: Dim, var: str) -> tuple[Dim, Dim] | None:
    """(whole, most) where the extent is min(most, whole - most * var)."""
    for mono, factor in extent.terms:
        for atom, power in mono:
            if isinstance(atom, Relu) and (factor, power) == (-1, 1):
                one = extent + relu(atom.arg)
                for most in (one, one - atom.arg):  # whichever side the form of a minimum counts from
                    whole = one + one - most - atom.arg + most * symbol(var)
                    if var not in most.symbols() | whole.symbols() and extent is minimum(
                        most, whole - most * symbol(var)
                    ):
                        return whole, most
    return None


def _size(step: tuple[Dim, Dim]) -> tuple[int, int, int]:
    """An order in which coefficients of a row-major index grow."""
    factor = step[0]
    degree = max((sum(power for _, power in mono) for mono, _ in factor.terms), default=0)
    return degree, sum(abs(number) for _, number in factor.terms), len(factor.terms)
