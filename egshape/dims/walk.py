"""A walk through a formula (``egshape.dims.pure``) that makes something of its numbers: ops, or terms of a solver.

Both sides of a choice are walked through. What is made stands for a number; a truth is 0 or 1. ``defined`` is whether
the formula has a value so far."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Generic, Self, TypeVar

from egshape.dims.pure import Formula, called, meaning, rounds_of

T = TypeVar("T")

Pick = Callable[..., Any]
"""``max`` or ``min``."""

_COMPARES = {ast.Eq: "EQ", ast.NotEq: "NE", ast.Lt: "LT", ast.LtE: "LE", ast.Gt: "GT", ast.GtE: "GE"}


class Walk(ABC, Generic[T]):
    """A formula under way: what its names hold, and whether all so far has a value."""

    def __init__(self, names: Mapping[str, T]) -> None:
        self.names = dict(names)
        self.defined = self.constant(1)

    @abstractmethod
    def inside(self, names: Mapping[str, T]) -> Self:
        """A walk through another formula, with its arguments."""

    @abstractmethod
    def constant(self, number: int) -> T:
        """A number of the text."""

    @abstractmethod
    def choose(self, test: T, one: T, two: T) -> T:
        """One where a number is not 0, else the other."""

    @abstractmethod
    def both(self, one: T, two: T) -> T:
        """Whether neither is 0."""

    @abstractmethod
    def compare(self, direction: str, one: T, two: T) -> T:
        """A comparison: EQ, NE, LT, LE, GT, GE."""

    @abstractmethod
    def extreme(self, pick: Pick, one: T, two: T) -> T:
        """The larger or the smaller one, as ``pick`` takes it."""

    @abstractmethod
    def negated(self, one: T) -> T:
        """Minus the number."""

    @abstractmethod
    def operator(self, operator: ast.operator, one: T, two: T) -> T:
        """The result of + - * // %."""

    def value(self, formula: Formula) -> T:
        """Walk through a formula to its value."""
        self._statements(formula.body[:-1])
        last = formula.body[-1]
        assert isinstance(last, ast.Return) and last.value is not None
        return self._number(last.value)

    def need(self, condition: T) -> None:
        """Without that there is no value."""
        self.defined = self.both(self.defined, condition)

    def magnitude(self, one: T) -> T:
        """The absolute value."""
        return self.extreme(max, one, self.negated(one))

    def rounds(self, loop: ast.For) -> int:
        """How often a loop is walked through."""
        return rounds_of(loop)

    def called(self, name: str, args: Sequence[T]) -> T:
        """What a function that has a meaning by other ones gives."""
        formula = meaning(name)
        run = self.inside(dict(zip(formula.params, args, strict=True)))
        found = run.value(formula)
        self.need(run.defined)
        return found

    @contextmanager
    def _under(self, test: T, holds: bool = True) -> Iterator[None]:
        """What is walked through need have a value only where a truth holds, or does not."""
        before, self.defined = self.defined, self.constant(1)
        yield
        inner, self.defined = self.defined, before
        yes = self.constant(1)
        self.need(self.choose(test, inner, yes) if holds else self.choose(test, yes, inner))

    # -- statements ----

    def _statements(self, body: Iterable[ast.stmt]) -> None:
        for each in body:
            match each:
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                    found = [self._number(value) for value in values]
                    self.names |= {ast.unparse(name): value for name, value in zip(targets, found, strict=True)}
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self._number(value)
                case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                    self.names[name] = self.operator(operator, self.names[name], self._number(value))
                case ast.If(test=test, body=then, orelse=other):
                    self._branch(self._number(test), then, other)
                case ast.For(target=ast.Name(id=name), body=inner):
                    for count in range(self.rounds(each)):
                        self.names[name] = self.constant(count)
                        self._statements(inner)

    def _branch(self, test: T, then: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> None:
        before = dict(self.names)
        with self._under(test):
            self._statements(then)
        one, self.names = self.names, before
        with self._under(test, False):
            self._statements(other)
        self.names = {name: self.choose(test, one[name], two) for name, two in self.names.items() if name in one}

    # -- expressions ----

    def _number(self, node: ast.expr) -> T:
        match node:
            case ast.Constant(value=int(number)):
                return self.constant(number)
            case ast.Name(id=name):
                return self.names[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self.negated(self._number(inner))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self.choose(self._number(inner), self.constant(0), self.constant(1))
            case ast.BinOp(left=one, op=operator, right=two):
                return self.operator(operator, self._number(one), self._number(two))
            case ast.BoolOp(op=operator, values=[first, *rest]):
                return self._either(isinstance(operator, ast.And), self._number(first), rest)
            case ast.Compare(left=first, ops=operators, comparators=rest):
                return self._chain(self._number(first), list(zip(operators, rest, strict=True)))
            case ast.IfExp(test=test, body=one, orelse=two):
                chosen = self._number(test)
                with self._under(chosen):
                    x = self._number(one)
                with self._under(chosen, False):
                    y = self._number(two)
                return self.choose(chosen, x, y)
            case ast.Call():
                name, args = called(node)
                return self._call(name, [self._number(each) for each in args])
        raise TypeError(f"{ast.unparse(node)} is no part of a formula")

    def _either(self, both: bool, found: T, rest: Sequence[ast.expr]) -> T:
        """The first of some numbers that is 0, or that is not; else the last."""
        for each in rest:
            test = found
            with self._under(test, both):
                other = self._number(each)
            found = self.choose(test, other, found) if both else self.choose(test, found, other)
        return found

    def _chain(self, x: T, rest: Sequence[tuple[ast.cmpop, ast.expr]]) -> T:
        holds = self.constant(1)
        for operator, node in rest:
            with self._under(holds):
                y = self._number(node)
            holds, x = self.both(holds, self.compare(_COMPARES[type(operator)], x, y)), y
        return holds

    def _call(self, name: str, args: Sequence[T]) -> T:
        if name in ("max", "min"):
            return reduce(lambda x, y: self.extreme(max if name == "max" else min, x, y), args)
        if name == "abs":
            return self.magnitude(args[0])
        return self.called(name, args) if len(args) == 1 else reduce(lambda *two: self.called(name, two), args)
