"""Sizes written the one way that what a graph checks first allows: ``max(n - 1, 0)//2 + 1`` is ``cdiv(n, 2)`` behind a
check that n is not 0. A composite that came with the model says them as its op does, what is around it as the optimizer
found them; kernels reach over its ends where both are one form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile

from egshape.decide.context import Context
from egshape.decide.reason import Check
from egshape.dims import Dim, const, symbol
from egshape.errors import Contradiction
from egshape.facts import Relation
from egshape.ir.calls import resized
from egshape.ir.graph import Block, Graph, Op, relation_of


def in_form(graph: Graph) -> Graph:
    """The graph with the sizes behind its first checks in the form that these give them."""
    body = graph.body
    known = frozenset(each.name for each in body.symbols if each.value in body.args and each.axis is not None)
    first = list(takewhile(lambda op: _is_of_entry(op, known), body.ops))
    rest = replace(body, ops=body.ops[len(first) :])
    pairs = list(_told_twice(rest))
    if not first or all(inner is outer for inner, outer in pairs):
        return graph
    forms = _Forms([found for found in map(relation_of, first) if found is not None], known)
    if not forms.hold:
        return graph
    for inner, outer in pairs:
        forms.join(inner, outer)
    made = resized(rest, forms.of)
    return replace(graph, body=replace(made, ops=(*first, *made.ops)))


def _is_of_entry(op: Op, known: frozenset[str]) -> bool:
    """Whether an op checks sizes that the axes of inputs tell."""
    if op.name != "check" or relation_of(op) is None:
        return False
    return all(size.symbols() <= known for size in (*op.attrs["sides"], *op.attrs.get("args", ())))


def _told_twice(block: Block) -> Iterator[tuple[Dim, Dim]]:
    """The sizes of what enters and leaves a composite or call, as it says them and as they are said around it."""
    for op in block.ops:
        for region in op.regions:
            yield from _told_twice(region)
            if op.name in ("call", "composite"):
                ends = zip((*region.args, *region.results), (*op.operands, *op.results), strict=True)
                for inner, outer in ends:
                    if inner.type.shape and outer.type.shape and inner.type.rank == outer.type.rank:
                        yield from zip(inner.type.dims, outer.type.dims, strict=True)


class _Forms:
    """The forms of sizes where some relations hold, in terms of the symbols that they have. ``hold``: whether these do
    not clash."""

    def __init__(self, relations: Sequence[Relation], known: Iterable[str]) -> None:
        self._context = Context()
        self._joined: dict[Dim, Dim] = {}
        self.hold = False
        with suppress(Contradiction):
            self._assume(relations)
            positive = [Relation("<=", const(1), symbol(name)) for name in sorted(known)]
            self._assume([each for each in positive if self._context.decide(each) == "proved"])
            self.hold = True

    def _assume(self, relations: Iterable[Relation]) -> None:
        self._context.assume_all([(relation, Check()) for relation in relations])

    def join(self, one: Dim, two: Dim) -> None:
        """Take the form of the second size for the first where they are equal."""
        inner, outer = self.of(one), self.of(two)
        if inner is not outer and self._context.decide(Relation("==", inner, outer)) == "proved":
            self._joined[inner] = outer

    def of(self, size: Dim) -> Dim:
        """The form of a size."""
        if size.const is not None or (len(size.terms) == 1 and size is symbol(min(size.symbols()))):
            return size
        found = self._context.normal_form(size)
        found = found if found.symbols() <= size.symbols() else size
        while found in self._joined:
            found = self._joined[found]
        return found
