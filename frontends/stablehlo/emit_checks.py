"""How a check on sizes is computed: of the equivalent comparisons the one that takes the fewest ops.

Terms move to the other side, and a common factor is divided out, where no step can wrap in the width in which
the sides are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from egshape.dims import Dim
from egshape.dims.core import from_terms
from egshape.frontends.size_terms import plan
from egshape.frontends.stablehlo.emit_ranges import Ranges
from egshape.frontends.stablehlo.emit_scope import SCALAR, Scope

_DIRECTIONS = {"==": "EQ", "!=": "NE", "<=": "LE", "<": "LT"}


@dataclass(frozen=True)
class Comparison:
    """Two sizes, how they compare (EQ, NE, LE, LT), and the dtype in which they are computed."""

    direction: str
    lhs: Dim
    rhs: Dim
    dtype: str


def comparison(scope: Scope, relation: str, lhs: Dim, rhs: Dim, args: Sequence[Dim]) -> Comparison:
    """The cheapest comparison that holds where ``lhs relation rhs`` does, given that ``args`` are computed too."""
    others = [(dim, scope.width(dim)) for dim in args]
    best: Comparison | None = None
    least = 0
    wide = Ranges(64, scope.symbol_range)
    for kind, one, two in _forms(relation, lhs, rhs):
        narrow = scope.width(one) == scope.width(two) == "i32"
        if best is not None and not narrow and (wide.of(one) is None or wide.of(two) is None):
            continue
        dtype = "i32" if narrow else "i64"
        cost = _cost(scope, [*others, (one, dtype), (two, dtype)])
        if best is None or cost < least:
            best, least = Comparison(_DIRECTIONS[kind], one, two, dtype), cost
    assert best is not None
    return best


def _forms(relation: str, lhs: Dim, rhs: Dim) -> Iterator[tuple[str, Dim, Dim]]:
    """Equivalent relations; the given one comes first."""
    yield relation, lhs, rhs
    difference = lhs - rhs
    if set(difference.atoms()) != {*lhs.atoms(), *rhs.atoms()}:
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
    whole = from_terms(terms)
    positive = from_terms([(mono, c) for mono, c in terms if c > 0])
    yield relation, positive + max(constant, 0), positive - whole + max(-constant, 0)
    for mono, c in terms:
        alone = from_terms([(mono, abs(c))])
        if c > 0:
            yield relation, alone, alone - whole - constant
        else:
            yield relation, whole + alone + constant, alone


def _cost(scope: Scope, sizes: Iterable[tuple[Dim, str]]) -> int:
    """How many ops have to be added for sizes in their dtypes."""
    pending, seen = list(sizes), set[tuple[Dim, str]]()
    count = 0
    while pending:
        dim, dtype = item = pending.pop()
        if item in seen or scope.holds(dim, dtype, SCALAR):
            continue
        seen.add(item)
        count += 1
        if dim.const is not None:
            continue
        step = plan(dim)
        if dtype == "i64" and scope.through_narrow(dim, SCALAR):
            pending.append((dim, "i32"))
        elif step.kind == "ceil":
            pending.extend(((step.operands[0] + (step.operands[1] - 1), dtype), (step.operands[1], dtype)))
        else:
            pending.extend((operand, dtype) for operand in step.operands)
    return count
