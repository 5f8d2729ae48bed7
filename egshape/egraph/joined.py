"""What is known of a size that is one of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import gcd

from egshape.decide.context import Context
from egshape.dims import Dim, const, symbol
from egshape.facts import Relation
from egshape.facts.absorb import residue_class
from egshape.facts.intervals import normalized
from egshape.ir.graph import Op, SymbolDef


def joined_sizes(op: Op, symbols: Sequence[SymbolDef], context: Context) -> Iterator[Relation]:
    """What is known of the sizes that only the branches of an op tell: each is that of one of them."""
    for each in symbols:
        if each.value in op.results and each.axis is not None:
            types = [region.results[op.results.index(each.value)].type for region in op.regions]
            given = [type.dims[each.axis] for type in types if type.shape is not None]
            if len(given) == len(types):
                yield from joined_facts(symbol(each.name), given, context)


def joined_facts(size: Dim, given: Sequence[Dim], context: Context) -> Iterator[Relation]:
    """The intervals in which a size lies that is one of those given, and the divisor and remainder that it has.

    Sizes inside of branches, of which nothing is known, are any number."""
    ends = [context.bounds(each) for each in given]
    ranges = normalized((max(low or 0, 0), high) for low, high in ends)
    if ranges != ((0, None),):
        yield Relation("in", size, const(0), "", ranges)
    divisor, rest = reduce(_joined_class, map(residue_class, given))
    if divisor > 1:
        yield Relation("==", size % divisor, const(rest))


def _joined_class(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
    divisor = gcd(one[0], two[0], one[1] - two[1])
    return divisor, one[1] % divisor if divisor else one[1]
