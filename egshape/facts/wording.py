"""Relations between sizes in words, for people who do not read them as formulas."""

from __future__ import annotations

import re

from egshape.dims import Dim
from egshape.facts.absorb import ranges_of_symbol
from egshape.facts.intervals import EVERYTHING, intersect, to_text
from egshape.facts.relation import Relation

_REMAINDER = re.compile(r"\(?(.+?)\)? ?% ?(\d+)")


def worded(relation: Relation) -> str:
    """A relation in words: ``n is a multiple of 4``."""
    alternatives = relation.alternatives()
    if len(alternatives) > 1:
        return ", or ".join(map(worded, alternatives))
    (relation,) = alternatives
    lhs, rhs = _parted(relation)
    found = ranges_of_symbol(relation)
    if found is not None and (ranges := intersect(found[1], EVERYTHING)):
        (low, high), *others = ranges
        return f"{found[0]} equals {low}" if low == high and not others else f"{found[0]} lies in {to_text(ranges)}"
    if relation.kind == "in":
        return f"{lhs} lies in {to_text(relation.ranges)}"
    if relation.kind == "==" and rhs.const == 0 and (divided := _REMAINDER.fullmatch(str(lhs))):
        return f"{divided[1]} is a multiple of {divided[2]}"
    if lhs.const is not None and rhs.const is None:
        return f"{rhs} {_TURNED[relation.kind]} {lhs}"
    return f"{lhs} {_WORDS[relation.kind]} {rhs}"


def _parted(relation: Relation) -> tuple[Dim, Dim]:
    """Both sides; a number on one of them stands alone, ``n >= 2`` for ``n - 2 >= 0``."""
    lhs, rhs = relation.lhs, relation.rhs
    if relation.kind not in _WORDS or (lhs.const is None) == (rhs.const is None):
        return lhs, rhs
    size = lhs if lhs.const is None else rhs
    moved = next((number for mono, number in size.terms if not mono), 0)
    return lhs - moved, rhs - moved


_WORDS = {"==": "equals", "!=": "is not", "<=": "is at most", "<": "is less than"}
_TURNED = {"==": "equals", "!=": "is not", "<=": "is at least", "<": "is more than"}
