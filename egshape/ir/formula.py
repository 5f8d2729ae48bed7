"""Formulas of size functions (``egshape.dims.pure``) as ops on integers, for what runs without Python.

They are written out, loops too, as ops that all back ends and formats have and that XLA's shape refinement evaluates.
The ends between which a number lies show whether it stays in 64 bits; where they do not, it is tested. Both sides of a
choice are computed, as nothing can fail: where there is no value some number is computed, and a truth says so."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from egshape.dims import Dim, const, is_nonnegative
from egshape.dims.pure import MOST, Formula
from egshape.dims.walk import Pick, Walk
from egshape.errors import Unsupported
from egshape.ir.graph import Attr, Op, Value
from egshape.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Number:
    """An integer between two ends: a constant, or the element of an i64[1]; a truth is that of an i1[1], or 0 or 1."""

    low: int
    high: int
    value: Value | None = None

    @property
    def const(self) -> int | None:
        """The number that it always is, or None."""
        return self.low if self.low == self.high else None

    @property
    def is_truth(self) -> bool:
        """Whether it is 0 or 1 and no element of an i64[1]."""
        return self in (_NO, _YES) if self.value is None else self.value.type.dtype == "i1"

    def between(self, low: int, high: int) -> Number:
        """The same, known to lie between two ends."""
        return replace(self, low=max(low, self.low), high=min(high, self.high))


_MOST_OPS = 20_000
"""The functions of a block take no more."""

_ONE = (const(1),)
_NO, _YES, _MOST, _LEAST = (Number(each, each) for each in (0, 1, MOST, -MOST))
_MIRRORED = {"GT": "LT", "GE": "LE"}


class Writer:
    """Writes ops on numbers, each once.

    fresh: gives a name that no other value of the graph has."""

    def __init__(self, fresh: Callable[[], str]) -> None:
        self.fresh = fresh
        self.ops: list[Op] = []
        self._made: dict[tuple[object, ...], Value] = {}

    def apply(self, formula: Formula, args: Sequence[Number]) -> tuple[Number, Number]:
        """The value of a formula, and whether it has one."""
        run = _Run(self, dict(zip(formula.params, args, strict=True)))
        return self.integer(run.value(formula)), run.defined

    def size(self, dim: Dim) -> Number:
        """A size as a number."""
        if dim.const is not None:
            return Number(dim.const, dim.const)
        value = self._op("dims", (), {"elements": (dim,), "shape": (1,), "dtype": "i64"})
        return Number(0 if is_nonnegative(dim) else -MOST, MOST, value)

    def element(self, number: Number) -> Value:
        """The value that has a number as its element."""
        return self._constant(number.low) if number.value is None else number.value

    def scalar(self, truth: Number) -> Value:
        """A truth as an i1[]."""
        value = self.truth(truth).value
        if value is None:
            return self._op("constant", (), {"value": np.array(truth != _NO)}, "i1", (), truth.low)
        return self._op("reshape", (value,), {"shape": ()}, "i1", ())

    def integer(self, x: Number) -> Number:
        """A number or truth as a number."""
        if x.value is None or x.value.type.dtype == "i64":
            return x
        return replace(x, value=self._op("select", (x.value, self._constant(1), self._constant(0))))

    def truth(self, x: Number) -> Number:
        """Whether a number is not 0."""
        return x if x.is_truth else self.compare("NE", x, _NO)

    def compare(self, direction: str, one: Number, two: Number) -> Number:
        """A comparison, as a truth."""
        if direction in _MIRRORED:
            direction, one, two = _MIRRORED[direction], two, one
        x, y = self.integer(one), self.integer(two)
        apart, fixed = x.high < y.low or y.high < x.low, x.low == x.high == y.low == y.high
        yes, no = {
            "EQ": (fixed, apart),
            "NE": (apart, fixed),
            "LT": (x.high < y.low, y.high <= x.low),
            "LE": (x.high <= y.low, y.high < x.low),
        }[direction]
        if yes or no:
            return _YES if yes else _NO
        values = (self.element(x), self.element(y))
        return Number(0, 1, self._op("compare", values, {"direction": direction, "kind": "SIGNED"}, "i1"))

    def both(self, one: Number, two: Number) -> Number:
        """Whether two numbers are not 0."""
        p, q = self.truth(one), self.truth(two)
        if p.value is None or q.value is None:
            return _NO if _NO in (p, q) else q if p == _YES else p
        return p if p == q else Number(0, 1, self._op("and", (p.value, q.value), {}, "i1"))

    def choose(self, p: Number, one: Number, two: Number) -> Number:
        """One number or the other, by a truth."""
        if p.value is None or one == two:
            return two if p == _NO else one
        if (one, two) == (_YES, _NO):
            return p
        x, y = self.integer(one), self.integer(two)
        value = self._op("select", (p.value, self.element(x), self.element(y)))
        return Number(min(x.low, y.low), max(x.high, y.high), value)

    def extreme(self, pick: Pick, one: Number, two: Number) -> Number:
        """The larger or the smaller one."""
        x, y = self.integer(one), self.integer(two)
        if x.low >= y.high or y.low >= x.high:
            return x if (x.low >= y.high) == (pick is max) else y
        return self.plain(f"{pick.__name__}imum", x, y, pick(x.low, y.low), pick(x.high, y.high))

    def negated(self, x: Number) -> Number:
        """-x."""
        return self.plain("subtract", _NO, self.integer(x), -x.high, -x.low)

    def magnitude(self, number: Number) -> Number:
        """The absolute value."""
        x = self.integer(number)
        return x if x.low >= 0 else self.extreme(max, x, self.negated(x)).between(0, MOST)

    def plain(self, name: str, x: Number, y: Number, low: int, high: int) -> Number:
        """An op on two numbers whose result lies between two ends, and wraps where it does not."""
        if low == high:
            return Number(low, high)
        return Number(max(low, -MOST), min(high, MOST), self._op(name, (self.element(x), self.element(y))))

    def _constant(self, number: int) -> Value:
        return self._op("constant", (), {"value": np.array([number])}, key=number)

    def _op(self, name: str, operands: tuple[Value, ...], attrs: dict[str, Attr] | None = None, dtype: str = "i64",
            shape: tuple[Dim, ...] = _ONE, key: int | None = None) -> Value:  # fmt: skip
        whole = (name, operands, dtype, *((attrs or {}).values() if key is None else (key,)))
        if whole not in self._made:
            if len(self._made) == _MOST_OPS:
                raise Unsupported(
                    f"the formula of a size function takes more than {_MOST_OPS:,} ops",
                    hint='give its declaration an :emitted "EXPRESSION" over known functions',
                )
            self._made[whole] = Value(self.fresh(), TensorType(dtype, shape))
            self.ops.append(Op(name, operands, attrs or {}, (self._made[whole],)))
        return self._made[whole]


class _Run(Walk[Number]):
    """A formula that is written."""

    def __init__(self, writer: Writer, names: Mapping[str, Number]) -> None:
        self.w = writer
        super().__init__(names)

    def inside(self, names: Mapping[str, Number]) -> _Run:
        """Written to the same place."""
        return _Run(self.w, names)

    def constant(self, number: int) -> Number:
        """No op yet."""
        return Number(number, number)

    def choose(self, test: Number, one: Number, two: Number) -> Number:
        """A select."""
        return self.w.choose(self.w.truth(test), one, two)

    def both(self, one: Number, two: Number) -> Number:
        """An and."""
        return self.w.both(one, two)

    def compare(self, direction: str, one: Number, two: Number) -> Number:
        """A compare, where the ends leave a question."""
        return self.w.compare(direction, one, two)

    def extreme(self, pick: Pick, one: Number, two: Number) -> Number:
        """A maximum or minimum, where the ends leave a question."""
        return self.w.extreme(pick, one, two)

    def negated(self, one: Number) -> Number:
        """0 - x."""
        return self.w.negated(one)

    def magnitude(self, one: Number) -> Number:
        """A maximum that is known not to be negative."""
        return self.w.magnitude(one)

    def operator(self, operator: ast.operator, one: Number, two: Number) -> Number:
        """The result of an operator."""
        x, y = self.w.integer(one), self.w.integer(two)
        match operator:
            case ast.Add():
                return self._sum(x, y)
            case ast.Sub() if x.low - y.high >= -MOST and x.high - y.low <= MOST:
                return self.w.plain("subtract", x, y, x.low - y.high, x.high - y.low)
            case ast.Sub():
                return self._sum(x, self.w.negated(y))
            case ast.Mult():
                return self._product(x, y)
        return self._divided(x, y, isinstance(operator, ast.Mod))

    def _sum(self, x: Number, y: Number) -> Number:
        w, fits = self.w, _YES
        if x.high + y.high > MOST:
            room = w.plain("subtract", _MOST, w.extreme(max, x, _NO), MOST - x.high, MOST)
            fits = w.compare("LE", w.extreme(max, y, _NO), room)
        if x.low + y.low < -MOST:
            room = w.plain("subtract", _LEAST, w.extreme(min, x, _NO), -MOST, -MOST - x.low)
            fits = w.both(fits, w.compare("LE", room, w.extreme(min, y, _NO)))
        return self._tested(fits, w.plain("add", x, y, x.low + y.low, x.high + y.high))

    def _product(self, x: Number, y: Number) -> Number:
        w, ends = self.w, [a * b for a, b in product((x.low, x.high), (y.low, y.high))]
        fits = _YES
        if max(map(abs, ends)) > MOST:
            room = self._quotient(_MOST, w.extreme(max, w.magnitude(y), _YES))
            fits = w.compare("LE", w.magnitude(x), room)
        return self._tested(fits, w.plain("multiply", x, y, min(ends), max(ends)))

    def _tested(self, fits: Number, found: Number) -> Number:
        """What an op gives where it fits; there is no value where it does not."""
        self.need(fits)
        return self.w.choose(fits, found, _NO).between(found.low, found.high) if fits != _YES else found

    def _divided(self, x: Number, y: Number, rest: bool) -> Number:
        """x // y or x % y: of -x and -y where y is negative, so that the divisor is at least 1."""
        w, divide = self.w, self._rest if rest else self._quotient
        self.need(w.compare("NE", y, _NO))
        if y.low >= 0:
            return divide(x, w.extreme(max, y, _YES))
        negative = w.compare("LT", y, _NO)
        x, y = (w.choose(negative, w.negated(each), each) for each in (x, y))
        found = divide(x, w.extreme(max, y, _YES))
        return w.choose(negative, w.negated(found), found) if rest else found

    def _quotient(self, x: Number, y: Number) -> Number:
        """x // y of y >= 1: what truncates is one more where x is negative and does not divide."""
        ends = [a // b for a, b in product((x.low, x.high), (y.low, y.high))]
        if x.low >= 0 or min(ends) == max(ends):
            return self.w.plain("divide", x, y, min(ends), max(ends))
        found = self.w.plain("divide", x, y, min(ends), max(ends) + 1)
        below = self.w.compare("LT", self.w.plain("remainder", x, y, 1 - y.high, y.high - 1), _NO)
        less = self.w.choose(below, Number(-1, -1), _NO)
        return self.w.plain("add", found, less, min(ends), max(ends))

    def _rest(self, x: Number, y: Number) -> Number:
        """x % y of y >= 1: what truncates has the sign of x."""
        if x.value is None and y.value is None:
            return Number(x.low % y.low, x.low % y.low)
        most = y.high - 1 if x.low < 0 else min(x.high, y.high - 1)
        found = self.w.plain("remainder", x, y, 0 if x.low >= 0 else 1 - y.high, most)
        if x.low >= 0:
            return found
        whole = self.w.plain("add", found, y, 0, y.high - 1)
        return self.w.choose(self.w.compare("LT", found, _NO), whole, found).between(0, y.high - 1)
