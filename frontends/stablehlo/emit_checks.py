"""How a check on sizes is computed: of the equivalent comparisons the one that takes the fewest ops.

Terms move to the other side, and a common factor is divided out, where no step can wrap in the width in which
the sides are computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from egshape.dims import Dim
from egshape.facts import Relation
from egshape.frontends.size_ranges import Ranges
from egshape.frontends.size_terms import forms, plan
from egshape.frontends.stablehlo.emit_scope import SCALAR, Scope
from egshape.frontends.stablehlo.emit_text import static_type

_DIRECTIONS = {"==": "EQ", "!=": "NE", "<=": "LE", "<": "LT"}


@dataclass(frozen=True)
class Comparison:
    """Two sizes, how they compare (EQ, NE, LE, LT), and the dtype in which they are computed."""

    direction: str
    lhs: Dim
    rhs: Dim
    dtype: str


def condition(scope: Scope, relation: Relation, args: Sequence[Dim]) -> str:
    """An i1: whether a relation of sizes holds, given that ``args`` are computed too."""
    first, *others = (_compared(scope, each, args) for each in relation.alternatives())
    for other in others:
        first = scope.shared(f"stablehlo.or {first}, {other} : tensor<i1>")
    return first


def _compared(scope: Scope, relation: Relation, args: Sequence[Dim]) -> str:
    found = comparison(scope, relation.kind, relation.lhs, relation.rhs, args)
    type = static_type(found.dtype, ())
    one, two = (scope.size(dim, found.dtype, SCALAR) for dim in (found.lhs, found.rhs))
    return scope.shared(f"stablehlo.compare {found.direction}, {one}, {two}, SIGNED : ({type}, {type}) -> tensor<i1>")


def comparison(scope: Scope, relation: str, lhs: Dim, rhs: Dim, args: Sequence[Dim]) -> Comparison:
    """The cheapest comparison that holds where ``lhs relation rhs`` does, given that ``args`` are computed too."""
    others = [(dim, scope.width(dim)) for dim in args]
    best: Comparison | None = None
    least = 0
    wide = Ranges(64, scope.symbol_range)
    for kind, one, two in forms(relation, lhs, rhs):
        narrow = scope.width(one) == scope.width(two) == "i32"
        if best is not None and not narrow and (wide.of(one) is None or wide.of(two) is None):
            continue
        dtype = "i32" if narrow else "i64"
        cost = _cost(scope, [*others, (one, dtype), (two, dtype)])
        if best is None or cost < least:
            best, least = Comparison(_DIRECTIONS[kind], one, two, dtype), cost
    assert best is not None
    return best


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
