"""Index arithmetic in 32 bits: what must fit for that, shown by ranges or left to a test before the launch.

Sums and products of 32 bits are right whenever their result is, as they wrap. So the results must fit (each index lies
in its buffer, whose size must fit), and what is divided, compared or counted, which would not survive a wrap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from egshape.dims import Dim, FloorDiv, Relu, Symbol, const, floordiv, is_nonnegative, symbol
from egshape.plan.gpu.wide import at_most
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Bind, Bounds, Expr, If, Index, Let, LetIndex, Loop, Stmt, Test, While
from egshape.plan.ir.walk import buffers, dims, expressions, statements

LARGEST = 2**31 - 1


def narrowed(launch: Launch) -> Launch:
    """The launch with indices of 32 bits where nothing stands against it, and itself for where they do not fit."""
    body = launch.kernel.body
    if any(isinstance(stmt, LetIndex) and _size(stmt.value) is None for stmt in statements(body)):
        return launch  # a number from data, which may be any
    uppers = _Uppers(body)
    needed = _open(
        {uppers.of(dim, sign) for dim in _exact(body) for sign in (1, -1)}
        | {buffer.size for buffer in buffers(body) if buffer not in launch.shared},
        launch.kernel.bounds,
    )
    if any(name.startswith("$") for each in needed for name in each.symbols()):
        return launch
    fits = tuple(sorted((const(LARGEST) - each for each in needed), key=str))
    otherwise = launch if fits else None
    if launch.otherwise is not None:
        otherwise = narrowed(launch.otherwise)
    return replace(launch, narrow=True, fits=(*launch.fits, *fits), otherwise=otherwise)


def _exact(body: tuple[Stmt, ...]) -> Iterator[Dim]:
    """What must be right in itself: extents, sizes that are values, what is compared and what is divided."""
    for node in (*statements(body), *_values(body)):
        match node:
            case Loop():
                yield node.extent
            case Test():
                yield from node.dims
            case Index():
                yield node.dim
            case Bind():
                yield node.upper
    seen: set[Dim] = set()
    for dim in dims(body):
        yield from _inside(dim, seen)


def _values(body: tuple[Stmt, ...]) -> Iterator[Expr]:
    """The expressions but for those that only name an index, which may wrap: where it is used it counts."""
    for stmt in statements(body):
        match stmt:
            case LetIndex(value=Index()) | Loop():
                pass
            case If() | While():
                yield from expressions((Let("", stmt.condition),))
            case _:
                yield from expressions((stmt,))


def _inside(dim: Dim, seen: set[Dim]) -> Iterator[Dim]:
    """The arguments of divisions and the like within a size."""
    for atom in dim.atoms():
        parts = (atom.num, atom.den) if isinstance(atom, FloorDiv) else (atom.arg,) if isinstance(atom, Relu) else ()
        for part in parts:
            if part not in seen:
                seen.add(part)
                yield part
                yield from _inside(part, seen)


def _size(value: Expr) -> Dim | None:
    """The size or index that an expression is, numbers within being clamped; None if it is a number from data."""
    while isinstance(value, Bind):
        value = value.body
    return value.dim if isinstance(value, Index) else None


class _Uppers:
    """Sizes that indices do not exceed, whatever the round."""

    def __init__(self, body: tuple[Stmt, ...]) -> None:
        self.most: dict[str, Dim] = {}
        for expr in expressions(body):
            if isinstance(expr, Bind):
                self.most[expr.name] = self.of(expr.upper)
        for stmt in statements(body):
            if isinstance(stmt, Loop):
                self.most[stmt.var] = self.of(stmt.extent)
            elif isinstance(stmt, LetIndex) and (size := _size(stmt.value)) is not None:
                self.most[stmt.name] = self.of(size)

    def of(self, dim: Dim, sign: int = 1) -> Dim:
        """A bound of the terms of one sign."""
        total = const(0)
        for mono, factor in dim.terms:
            if factor * sign > 0:
                term = const(abs(factor))
                for atom, power in mono:
                    for _ in range(power):
                        term = term * self._atom(atom)
                total = total + term
        return total

    def _atom(self, atom: object) -> Dim:
        if isinstance(atom, Symbol):
            return self.most.get(atom.name, symbol(atom.name))
        if isinstance(atom, Relu):
            return self.of(atom.arg)
        assert isinstance(atom, FloorDiv)
        whole = self.of(atom.num)
        inner = any(name in self.most for name in atom.den.symbols())
        return whole if inner or atom.den.const == 0 else floordiv(whole, atom.den)


def _open(needed: set[Dim], bounds: Sequence[Bounds]) -> list[Dim]:
    """What neither its form, nor ranges, nor another one shows to fit."""
    left = [dim for dim in sorted(needed, key=str) if not at_most(dim, LARGEST, bounds)]
    found: list[Dim] = []
    for dim in sorted(left, key=lambda each: -len(each.terms)):
        if not any(is_nonnegative(other - dim) for other in found):
            found = [other for other in found if not is_nonnegative(dim - other)]
            found.append(dim)
    return found
