"""Masks that compare indices: for which blocks of rows and columns a comparison comes out one way everywhere.

A comparison of numbers that go linearly with the row and the column is true up to a line, so that its value in two
corners of a block tells that in the block. Where one value makes all scores the same number, whatever they were (a
causal mask, a limit on keys), nothing need be computed of a block but that number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from egshape.dims import Dim, const
from egshape.ir.types import is_float, is_integer, itemsize, numpy_dtype
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.ir.loops import Call, Choose, Const, Expr, Index, Let, Test, Var
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import children, dims, expressions

LARGEST, MOST_PARTS = 1 << 28, 4
"""Up to here sums of so many indices are exact in 32 bits."""
_UP = {"GE": 1, "GT": 1, "LE": -1, "LT": -1}
_WIDE = 4
"""Bytes of an integer that has room for all indices up to LARGEST."""
_MANY = 1000.0
"""Below minus that a number is taken as one that masks."""


@dataclass(frozen=True)
class Area:
    """Rows and columns of a block, the first and the last of each."""

    rows: tuple[Dim, Dim]
    columns: tuple[Dim, Dim]


@dataclass(frozen=True, eq=False)
class Line:
    """A comparison by which scores are masked. It rather holds where row times ``slopes[0]`` plus column times
    ``slopes[1]`` is large. ``closes``: its value where scores are masked; ``low``: the number that they are there, None
    if that hangs on what they were. ``parts``: numbers that must be small, for all rows and columns up to ``sizes``, so
    that nothing wraps."""

    test: Call
    row: str
    column: str
    slopes: tuple[int, int]
    closes: bool
    low: float | None
    parts: tuple[Expr, ...]
    sizes: tuple[Dim, Dim]

    @property
    def ends(self) -> bool:
        """Whether behind a column where a row is masked it is masked everywhere."""
        return self.slopes[1] < 0 if not self.closes else self.slopes[1] > 0

    def masked(self, area: Area) -> Expr:
        """i1: all of a block is masked."""
        return self._is(area, self.closes)

    def open(self, area: Area) -> Expr:
        """i1: nothing of a block is."""
        return self._is(area, not self.closes)

    def _is(self, area: Area, value: bool) -> Expr:
        """Whether the comparison has a value everywhere: where it is most likely the other one."""
        pairs = zip((self.row, self.column), (area.rows, area.columns), self.slopes, strict=True)
        found = Moved({name: pair[(slope > 0) != value] for name, pair, slope in pairs}).expr(self.test)
        ends = [
            Moved(dict(zip((self.row, self.column), sizes, strict=True)))
            for sizes in ((const(0), const(0)), self.sizes)
        ]
        small = [_small(moved.expr(part)) for part in self.parts for moved in ends]
        return reduce(both, small, found if value else Call("i1", "not", (found,)))


def both(one: Expr, two: Expr) -> Expr:
    """i1: both hold."""
    return Call("i1", "and", (one, two))


def lines(scores: Expr, row: str, column: str, sizes: tuple[Dim, Dim]) -> tuple[Line, ...]:
    """The comparisons by which scores are masked. ``sizes``: how many rows and columns there are."""
    found = []
    for expr in expressions((Let("", scores),)):
        if isinstance(expr, Call) and expr.op == "compare":
            line = _line(scores, expr, row, column, sizes)
            if line is not None:
                found.append(line)
    return tuple(found)


def opened(scores: Expr, given: Sequence[Line]) -> Expr:
    """The scores where nothing is masked."""
    return _folded(scores, {line.test: not line.closes for line in given})


def _line(scores: Expr, test: Call, row: str, column: str, sizes: tuple[Dim, Dim]) -> Line | None:
    direction = dict(test.attrs)["direction"]
    if direction not in _UP or not is_integer(test.args[0].dtype):
        return None
    one, two = (_slopes(arg, row, column) for arg in test.args)
    if one is None or two is None:
        return None
    slopes = tuple(_UP[direction] * (a - b) for a, b in zip(one, two, strict=True))
    if slopes == (0, 0) or len(_parts(test)) > MOST_PARTS:
        return None
    kinds = {value: _folded(scores, {test: value}) for value in (False, True)}
    for closes, kind in kinds.items():
        if isinstance(kind, Const):
            return Line(test, row, column, (slopes[0], slopes[1]), closes, _float(kind), _parts(test), sizes)
    counts = {value: _masking(kind) for value, kind in kinds.items()}
    if counts[False] == counts[True]:
        return None
    return Line(test, row, column, (slopes[0], slopes[1]), counts[True] > counts[False], None, _parts(test), sizes)


def _float(number: Const) -> float:
    """A number as its dtype has it."""
    with np.errstate(over="ignore"):
        return float(numpy_dtype(number.dtype).type(number.value))


def _masking(expr: Expr) -> int:
    return sum(
        isinstance(each, Const) and is_float(each.dtype) and each.value < -_MANY
        for each in expressions((Let("", expr),))
    )


def _slopes(expr: Expr, row: str, column: str) -> tuple[int, int] | None:
    """What a step of row and column adds to an integer that is computed without wrapping; None if that varies."""
    if isinstance(expr, Index):
        if itemsize(expr.dtype) < _WIDE:
            return None  # it wraps where sizes are large
        steps = [coefficient(expr.dim, name) for name in (row, column)]
        if any(step is None or step.const is None for step in steps) or steps.count(None):
            return None
        found = tuple(step.const or 0 for step in steps if step is not None)
        return (found[0], found[1]) if 0 in found else None
    if isinstance(expr, Call) and expr.op in ("add", "subtract") and expr.dtype in ("i32", "i64"):
        one, two = (_slopes(arg, row, column) for arg in expr.args)
        sign = 1 if expr.op == "add" else -1
        return None if one is None or two is None else (one[0] + sign * two[0], one[1] + sign * two[1])
    if isinstance(expr, Call) and expr.op == "convert":
        source, target = expr.args[0].dtype, expr.dtype
        signed = source[0] == "i" and target[0] == "u"  # what is below 0 becomes large
        wider = is_integer(source) and source != "i1" and itemsize(target) >= itemsize(source) >= _WIDE and not signed
        return _slopes(expr.args[0], row, column) if wider else None
    body = (Let("", expr),)
    names = {name for dim in dims(body) for name in dim.symbols()}
    fixed = not names & {row, column} and not any(isinstance(each, Var) for each in expressions(body))
    return (0, 0) if fixed else None


def _parts(expr: Expr) -> tuple[Expr, ...]:
    """What an integer is summed from, and what is compared."""
    if isinstance(expr, Call) and expr.op in ("add", "subtract", "convert", "compare"):
        return tuple(part for arg in expr.args for part in _parts(arg))
    return () if isinstance(expr, Const) and abs(expr.value) <= LARGEST else (expr,)


def _small(part: Expr) -> Expr:
    """Whether a number is as exact in sums as it is by itself."""
    if isinstance(part, Index):
        return Test((part.dim + LARGEST, LARGEST - part.dim))
    attrs = (("direction", "LE"), ("kind", "SIGNED" if part.dtype[0] == "i" else "UNSIGNED"))
    high = Call("i1", "compare", (part, Const(part.dtype, LARGEST)), attrs)
    if part.dtype[0] != "i":
        return high
    return both(high, Call("i1", "compare", (Const(part.dtype, -LARGEST), part), attrs))


# -- expressions with comparisons that are known ----------------------------------------------------------------------


def _folded(expr: Expr, known: Mapping[Expr, bool]) -> Expr:
    """An expression with the values of some comparisons in their place."""
    memo: dict[Expr, Expr] = {}

    def visit(one: Expr) -> Expr:
        if one not in memo:
            memo[one] = (
                Const("i1", known[one])
                if one in known
                else _simple(_rebuilt(one, [visit(child) for child in children(one)]))
            )
        return memo[one]

    return visit(expr)


def _rebuilt(expr: Expr, parts: Sequence[Expr]) -> Expr:
    if all(one is two for one, two in zip(parts, children(expr), strict=True)):
        return expr
    if isinstance(expr, Call):
        return replace(expr, args=tuple(parts))
    if isinstance(expr, Choose):
        return replace(expr, condition=parts[0], then=parts[1], other=parts[2])
    return expr


def _simple(expr: Expr) -> Expr:
    match expr:
        case (
            Call(op="select", args=(Const(value=value), then, other))
            | Choose(condition=Const(value=value), then=then, other=other)
        ):
            return then if value else other
        case Call(op="not", dtype="i1", args=(Const(value=value),)):
            return Const("i1", not value)
        case Call(op="and" | "or" as op, dtype="i1", args=(one, two)):
            for this, that in ((one, two), (two, one)):
                if isinstance(this, Const):
                    return that if bool(this.value) == (op == "and") else this
        case Call(op="convert", args=(Const(dtype=source, value=value),)) if is_float(source) and is_float(expr.dtype):
            return Const(expr.dtype, _float(Const(expr.dtype, value)))
    return expr
