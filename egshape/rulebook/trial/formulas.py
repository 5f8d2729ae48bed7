"""Size functions in z3's terms: their expressions, and their formulas without the limit of 64 bits."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Protocol

from egshape.dims import Dim, symbol
from egshape.dims.core import Atom, Call, FloorDiv, Function, Relu, Symbol
from egshape.dims.walk import Pick, Walk
from egshape.rulebook.trial.soundness import CannotSample

Term = Any
_MOST_ROUNDS = 4
"""Of loops that run more often z3 knows nothing in the end."""


class Solver(Protocol):
    """What says numbers by their properties (``egshape.rulebook.trial.proofs``)."""

    z3: Any

    def floor(self, a: Term, b: Term) -> Term:
        """floor(a / b); any number where b is 0."""

    def root(self, a: Term) -> Term:
        """The largest number whose square is at most a; any number for a < 0."""


class Terms(Walk[Term]):
    """Terms of integers; a truth is 0 or 1."""

    def __init__(self, solver: Solver, names: Mapping[str, Term]) -> None:
        self.solver, self.z3 = solver, solver.z3
        super().__init__(names)

    def function(self, function: Function) -> Term:
        """The value of a size function of the names. Raises CannotSample for one of long loops."""
        names = [symbol(name) for name in function.params]
        for need in function.needs(*names):
            self.need(self.size(need))
        if function.formula is not None:
            return self.value(function.formula)
        whole = function.unfolded(*names)
        assert whole is not None
        return self.size(whole)

    def size(self, dim: Dim) -> Term:
        """A size over the names."""
        total = self.constant(0)
        for mono, count in dim.terms:
            factors = [self._atom(atom) for atom, power in mono for _ in range(power)]
            total += reduce(lambda x, y: x * y, factors, self.constant(count))
        return total

    def _atom(self, atom: Atom) -> Term:
        if isinstance(atom, Symbol):
            return self.names[atom.name]
        args = [self.size(arg) for arg in atom.args]
        if isinstance(atom, FloorDiv):
            return self.operator(ast.FloorDiv(), *args)
        if isinstance(atom, Relu):
            return self.extreme(max, args[0], self.constant(0))
        assert isinstance(atom, Call)
        inner = self.inside(dict(zip(atom.function.params, args, strict=True)))
        found = inner.function(atom.function)
        self.need(inner.defined)
        return found

    def inside(self, names: Mapping[str, Term]) -> Terms:
        """With the same solver."""
        return Terms(self.solver, names)

    def constant(self, number: int) -> Term:
        """A numeral."""
        return self.z3.IntVal(number)

    def choose(self, test: Term, one: Term, two: Term) -> Term:
        """An if-then-else."""
        return self.z3.If(test != 0, one, two)

    def both(self, one: Term, two: Term) -> Term:
        """A conjunction."""
        return self.z3.If(self.z3.And(one != 0, two != 0), self.constant(1), self.constant(0))

    def compare(self, direction: str, one: Term, two: Term) -> Term:
        """A comparison as a number."""
        holds = {"EQ": one == two, "NE": one != two, "LT": one < two, "LE": one <= two, "GT": one > two}
        return self.z3.If(holds.get(direction, one >= two), self.constant(1), self.constant(0))

    def extreme(self, pick: Pick, one: Term, two: Term) -> Term:
        """By their order."""
        return self.z3.If(one >= two if pick is max else one <= two, one, two)

    def negated(self, one: Term) -> Term:
        """Minus."""
        return -one

    def operator(self, operator: ast.operator, one: Term, two: Term) -> Term:
        """Without an end; a division by 0 has no value."""
        match operator:
            case ast.Add():
                return one + two
            case ast.Sub():
                return one - two
            case ast.Mult():
                return one * two
        self.need(self.compare("NE", two, self.constant(0)))
        quotient = self.solver.floor(one, two)
        return quotient if isinstance(operator, ast.FloorDiv) else one - two * quotient

    def rounds(self, loop: ast.For) -> int:
        """Few."""
        count = super().rounds(loop)
        if count > _MOST_ROUNDS:
            raise CannotSample(f"{count} rounds")
        return count

    def called(self, name: str, args: Sequence[Term]) -> Term:
        """A square root is said by what it is, all else by its meaning."""
        if name != "math.isqrt":
            return super().called(name, args)
        (number,) = args
        self.need(self.compare("GE", number, self.constant(0)))
        return self.solver.root(number)
