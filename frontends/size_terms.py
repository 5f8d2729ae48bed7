"""How a size expression is computed: a tree of few operations for a Dim.

min, max, mod and ceiling division are taken back from the canonical form through its text, and a sum with a
common factor is computed as a product, so that the sum (mostly a size itself) is shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import gcd
from types import MappingProxyType

from egshape.dims import (
    Dim,
    Monomial,
    Symbol,
    bcast,
    ceildiv,
    const,
    floordiv,
    is_nonnegative,
    maximum,
    minimum,
    mod,
    symbol,
)
from egshape.dims.core import FloorDiv, Relu, divide_monomial, from_terms
from egshape.dims.functions import SHIPPED
from egshape.dims.text import Scanner
from egshape.dims.theory import call_parts


@dataclass(frozen=True, slots=True)
class Term:
    """One operation on sizes: kind (symbol, const, add, subtract, multiply, floor, mod, ceil, maximum,
    minimum, bcast), the size that it gives, its operands."""

    kind: str
    dim: Dim
    operands: tuple[Dim, ...] = ()


_EXTREMES = MappingProxyType({"maximum": maximum, "minimum": minimum})


@lru_cache(maxsize=65536)
def plan(dim: Dim) -> Term:
    """The last operation that computes ``dim``; its operands are planned in turn."""
    if dim.const is not None:
        return Term("const", dim)
    special = _factored(dim) or _missing_half(dim)
    if special is not None:
        return special
    reader = _Reader(str(dim))
    return _moved_in(reader.read(dim))


def forms(relation: str, lhs: Dim, rhs: Dim) -> Iterator[tuple[str, Dim, Dim]]:
    """Relations that hold where ``lhs relation rhs`` does; the given one comes first. Terms move to the other side, a
    common factor is divided out, a bound of max(x, 0) or of x // number is one of x, and where max(x, 0) is a positive
    number, or at least that, x is."""
    yield relation, lhs, rhs
    difference = lhs - rhs
    if not all(isinstance(atom, Symbol) for atom in {*lhs.atoms(), *rhs.atoms()} - set(difference.atoms())):
        return  # what cancels may be undefined
    constant = sum(c for mono, c in difference.terms if not mono)
    terms = [(mono, c) for mono, c in difference.terms if mono]
    if not terms:
        return
    if relation == "<":
        relation, constant = "<=", constant + 1
    factor = gcd(*(c for _, c in terms))
    if relation == "<=" or constant % factor == 0:
        terms = [(mono, c // factor) for mono, c in terms]
        constant = -(-constant // factor)
    inside = _bounded(relation, terms, -constant)
    if inside is not None:
        yield from forms("<=", *inside)
    reached = _reached(relation, terms, -constant)
    if reached is not None:
        yield from forms(relation, *reached)
    whole = from_terms(terms)
    positive = from_terms([(mono, c) for mono, c in terms if c > 0])
    yield relation, positive + max(constant, 0), positive - whole + max(-constant, 0)
    for mono, c in terms:
        alone = from_terms([(mono, abs(c))])
        if c > 0:
            yield relation, alone, alone - whole - constant
        else:
            yield relation, whole + alone + constant, alone


def _bounded(relation: str, terms: Sequence[tuple[Monomial, int]], bound: int) -> tuple[Dim, Dim] | None:
    """The two sides of the bound of x that ``terms relation bound`` is where the terms are max(x, 0) or x // number."""
    if len(terms) != 1 or relation == "!=" or bound < 0:
        return None
    ((mono, c),) = terms
    atom, power = mono[0]
    if len(mono) > 1 or power > 1 or (c < 0 if relation == "<=" else bound != 0):
        return None  # "==" is a bound of what is not negative, by 0
    if isinstance(atom, Relu):
        return atom.arg, const(bound)
    if (
        isinstance(atom, FloorDiv)
        and atom.den.const is not None
        and atom.den.const > 0
        and (relation == "<=" or is_nonnegative(atom.num))
    ):
        return atom.num, const(atom.den.const * (bound + 1) - 1)
    return None


def _reached(relation: str, terms: Sequence[tuple[Monomial, int]], bound: int) -> tuple[Dim, Dim] | None:
    """The two sides for x where ``terms relation bound`` says that max(x, 0) is a positive number, or at least that."""
    if len(terms) != 1 or relation == "!=":
        return None
    ((mono, c),) = terms
    atom, power = mono[0]
    number = c * bound
    if not isinstance(atom, Relu) or (len(mono), power, abs(c)) != (1, 1, 1) or number <= 0:
        return None
    return (const(number), atom.arg) if c < 0 else (atom.arg, const(number)) if relation == "==" else None


def _moved_in(term: Term) -> Term:
    """min(x - 2, 3) + 2 as min(x, 5), and so for max: a number that is added moves in where it meets others."""
    number = term.operands[1].const if term.kind in ("add", "subtract") else None
    if number is None:
        return term
    inner, added = plan(term.operands[0]), number if term.kind == "add" else -number
    if inner.kind not in _EXTREMES or not all(_takes(each, added) for each in inner.operands):
        return term
    operands = tuple(each + added for each in inner.operands)
    return Term(inner.kind, term.dim, operands) if _EXTREMES[inner.kind](*operands) is term.dim else term


def _takes(dim: Dim, added: int) -> bool:
    """Whether a size and a number take no more operations than the size, none of them with larger numbers: what fits 32
    bits without it does with it."""
    if dim.const is not None:
        return abs(dim.const + added) < 2**31
    own = next((c for mono, c in dim.terms if not mono), 0)
    if own:
        return abs(own + added) <= abs(own)
    term = plan(dim)
    return term.kind in _EXTREMES and all(_takes(each, added) for each in term.operands)


def _factored(dim: Dim) -> Term | None:
    """A sum that has a common factor as a product."""
    if len(dim.terms) < 2:
        return None
    content = gcd(*(c for _, c in dim.terms))
    shared = _common(dim)
    if content == 1 and not shared:
        return None
    rest = []
    for mono, c in dim.terms:
        left = divide_monomial(mono, shared)
        assert left is not None
        rest.append((left, c // content))
    inner = from_terms(rest)
    outer = from_terms([(shared, content)])
    return Term("multiply", dim, (inner, outer)) if inner * outer is dim else None


def _missing_half(dim: Dim) -> Term | None:
    """What a size lacks to the next even number, 2*ceil(k/2) - k, as k % 2: the padding to whole pairs."""
    for mono, c in dim.terms:
        if c != 2 or len(mono) != 1 or mono[0][1] != 1 or not isinstance(mono[0][0], FloorDiv):
            continue
        half = from_terms([(mono, 1)])
        size = half * 2 - dim
        if is_nonnegative(size) and floordiv(size + 1, const(2)) is half:
            return Term("mod", dim, (size, const(2)))
    return None


def _joined(dim: Dim) -> tuple[Dim, ...]:
    """The sizes that a common size joins. Joined in this order, each with the common size of those before it, they make
    the sizes that a program has on the way, more often than from the last one on."""
    found = call_parts(SHIPPED["bcast"], dim)
    return (dim,) if found is None else tuple(part for each in found for part in _joined(each))


def _common(dim: Dim) -> Monomial:
    powers = dict(dim.terms[0][0])
    for mono, _ in dim.terms[1:]:
        other = dict(mono)
        powers = {atom: min(power, other[atom]) for atom, power in powers.items() if atom in other}
    return tuple(powers.items())


class _Reader(Scanner):
    """Reads the text of a size and keeps its last operation."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.last: Term = Term("const", const(0))

    def read(self, dim: Dim) -> Term:
        """The last operation of the text, which writes ``dim``."""
        found = self.expression()
        assert found is dim and self.last.dim is dim, (self.text, self.last)
        return self.last

    def _keep(self, kind: str, dim: Dim, *operands: Dim) -> Dim:
        self.last = Term(kind, dim, operands)
        return dim

    def expression(self) -> Dim:
        """A sum; a constant is added last."""
        total = self._term()
        terms: list[tuple[str, Dim]] = []
        while operator := self.accept("+", "-"):
            terms.append((operator, self._term()))
        for operator, right in sorted(terms, key=lambda item: item[1].const is not None):
            if operator == "+":
                total = self._keep("add", total + right, total, right)
            else:
                total = self._keep("subtract", total - right, total, right)
        return total

    def _term(self) -> Dim:
        value = self._factor()
        held = const(1)  # a leading constant is multiplied last
        if value.const is not None and self.peek() == "*":
            held, value = value, const(1)
        while operator := self.accept("*", "//", "%"):
            right = self._factor()
            if operator == "*":
                value = right if value.const == 1 else self._keep("multiply", value * right, value, right)
                continue
            if held.const != 1:
                value, held = self._keep("multiply", value * held, value, held), const(1)
            if operator == "//":
                value = self._keep("floor", floordiv(value, right), value, right)
            else:
                value = self._keep("mod", mod(value, right), value, right)
        return value if held.const == 1 else self._keep("multiply", value * held, value, held)

    def _factor(self) -> Dim:
        if self.accept("-"):
            inner = self._factor()
            return const(-inner.const) if inner.const is not None else self._keep("subtract", -inner, const(0), inner)
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self.text[self.pos : self.pos + 1].isdigit():
            return self._keep("const", const(self.integer()))
        quoted = self.text.startswith("`", self.pos)
        name = self.name()
        if not quoted and self.accept("("):
            return self._called(name)
        return self._keep("symbol", symbol(name))

    def _called(self, name: str) -> Dim:
        operands = [self.expression()]
        while self.accept(","):
            operands.append(self.expression())
        self.expect(")")
        one, *others = operands
        for two in others:
            if name == "max":
                one = self._keep("maximum", maximum(one, two), one, two)
            elif name == "min":
                one = self._keep("minimum", minimum(one, two), one, two)
            elif name == "bcast":
                *parts, last = _joined(bcast(one, two))
                one = self._keep("bcast", bcast(one, two), reduce(bcast, parts), last) if parts else last
            else:
                one = self._keep("ceil", ceildiv(one, two), one, two)
        return one
