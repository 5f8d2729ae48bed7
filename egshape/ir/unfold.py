"""Size functions of authors replaced by their expressions, for back ends and formats that do not know them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeGuard

from egshape.dims import Atom, Call, Dim
from egshape.dims.core import Function
from egshape.dims.forms import FORMS
from egshape.dims.functions import SHIPPED
from egshape.errors import ParseError, Unsupported
from egshape.facts import Facts, Relation, parse_facts
from egshape.ir.graph import Attr, Block, Graph, Op, Value, dims_of
from egshape.ir.types import TensorType


def unfold(graph: Graph, shipped: bool = True) -> Graph:
    """The graph with the expression of each size function that is no atom of its own in its place; the graph itself
    where no size has one.

    shipped: also those of shipped rulesets, beside those of authors. Raises Unsupported for a function that has no
    expression, with its name and place."""
    work = _Unfolder(frozenset() if shipped else frozenset(SHIPPED.values()))
    if not any(map(work.holds, _sizes(graph.body))):
        return graph if not any(map(work.speaks, graph.facts.statements())) else replace(graph, facts=work.facts(graph))
    return replace(graph, body=work.block(graph.body, {}), facts=work.facts(graph))


def _sizes(block: Block) -> Iterator[Dim]:
    """Every size in the types, attributes and conditions of a block and of the regions inside."""
    for value in block.args:
        yield from value.type.shape or ()
    for op in block.ops:
        for value in op.results:
            yield from (each for each in value.type.shape or () if each is not None)
        for attr in op.attrs.values():
            yield from dims_of(attr)
        for relation in op.requires:
            yield from _sides(relation)
        for region in op.regions:
            yield from _sizes(region)


def _sides(relation: Relation) -> Iterator[Dim]:
    yield from (relation.lhs, relation.rhs)
    for need in relation.needs:
        yield from (need.one, need.two)


class _Unfolder:
    """What was found of sizes and values so far."""

    def __init__(self, kept: frozenset[Function]) -> None:
        self.kept = kept
        self.found: dict[Dim, bool] = {}
        self.where = ""

    def holds(self, dim: Dim) -> bool:
        """Whether there is a call in a size."""
        if dim not in self.found:
            self.found[dim] = any(self.goes(a) or any(map(self.holds, a.args)) for a in dim.atoms())
        return self.found[dim]

    def goes(self, atom: Atom) -> TypeGuard[Call]:
        """Whether an atom is a call of a function that is to be replaced."""
        return isinstance(atom, Call) and atom.function not in self.kept

    def speaks(self, relation: Relation) -> bool:
        """Whether there is a call in a relation."""
        return any(map(self.holds, _sides(relation)))

    def dim(self, dim: Dim) -> Dim:
        """The size without calls."""
        if not self.holds(dim):
            return dim

        def value(atom: Atom) -> Dim:
            args = [self.dim(arg) for arg in atom.args]
            if not self.goes(atom):
                return FORMS.remade(atom, args)
            meaning = atom.function.unfolded(*args)
            if meaning is None:
                raise Unsupported(
                    f"the size function {atom.function.name} has no expression, and only the interpreter computes it",
                    where=self.where,
                    hint=f'give the declaration of {atom.function.name} an :emitted "EXPRESSION" over known functions',
                )
            return self.dim(meaning)

        return dim.map_atoms(value)

    def relation(self, relation: Relation) -> Relation:
        """The relation without calls; its text is made anew."""
        if not self.speaks(relation):
            return relation
        needs = tuple(replace(need, one=self.dim(need.one), two=self.dim(need.two)) for need in relation.needs)
        return replace(relation, lhs=self.dim(relation.lhs), rhs=self.dim(relation.rhs), needs=needs, source="")

    def facts(self, graph: Graph) -> Facts:
        """The facts without calls; one about a function that has no expression is left out: as a check it stays."""
        kept: list[Relation] = []
        for relation in graph.facts.statements():
            try:
                kept.append(self.relation(relation))
            except Unsupported:
                continue
        plain = Facts().with_relations(kept)
        for each in graph.facts.symbols:
            plain = plain.with_symbol(each.name, each.sources, each.likely)
        return replace(plain, assumed=tuple(filter(_is_plain, graph.facts.assumed)))

    def block(self, block: Block, outer: Mapping[Value, Value]) -> Block:
        """The block without calls, reading the values that stand for those of enclosing blocks."""
        known = dict(outer)
        args = tuple(self.value(each, known) for each in block.args)
        ops = tuple(self.op(each, known) for each in block.ops)
        symbols = tuple(replace(each, value=known[each.value]) for each in block.symbols)
        return Block(args, ops, tuple(known[each] for each in block.results), symbols)

    def op(self, op: Op, known: dict[Value, Value]) -> Op:
        """The op without calls."""
        self.where = f"{op.name} at {op.location}" if str(op.location) else op.name
        regions = tuple(self.block(each, known) for each in op.regions)
        return replace(
            op,
            operands=tuple(known[each] for each in op.operands),
            attrs={name: self.attr(each) for name, each in op.attrs.items()},
            results=tuple(self.value(each, known) for each in op.results),
            regions=regions,
            requires=tuple(map(self.relation, op.requires)),
        )

    def attr(self, attr: Attr) -> Attr:
        """The attribute without calls."""
        if isinstance(attr, Dim):
            return self.dim(attr)
        return tuple(map(self.attr, attr)) if type(attr) is tuple else attr

    def value(self, value: Value, known: dict[Value, Value]) -> Value:
        """The value of a type without calls, from now on in place of another."""
        shape = value.type.shape
        new = None if shape is None else tuple(map(self.dim, shape))
        known[value] = value if new == shape else Value(value.name, TensorType(value.type.dtype, new))
        return known[value]


def _is_plain(text: str) -> bool:
    """Whether a text can be read where no function of an author is known."""
    try:
        return bool(parse_facts(text))
    except ParseError:
        return False
