"""Size functions of authors replaced by their expressions, or by ops that compute them, for back ends and formats that
do not know them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from egshape.dims import Atom, Call, Dim, const, symbol
from egshape.dims.core import Function, call_atom, of_atom
from egshape.dims.forms import FORMS
from egshape.dims.functions import SHIPPED
from egshape.dims.pure import MOST
from egshape.errors import ParseError
from egshape.facts import Facts, Relation, parse_facts
from egshape.ir.builder import Names
from egshape.ir.formula import Number, Writer
from egshape.ir.graph import NOWHERE, Attr, Block, Graph, Location, Op, SymbolDef, Value, dims_of
from egshape.ir.types import TensorType


def unfold(graph: Graph, shipped: bool = True) -> Graph:
    """The graph with the expression of each size function that is no atom of its own in its place, and a symbol that
    ops define for one that a formula computes; the graph itself where no size has one.

    shipped: also those of shipped rulesets, beside those of authors."""
    work = _Unfolder(frozenset() if shipped else frozenset((SHIPPED["bcast"],)), graph)
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


class _Here:
    """The block under way: its new ops and symbols, and the values of functions computed in it or around it."""

    def __init__(self, fresh: Callable[[], str], computed: Mapping[Call, Dim]) -> None:
        self.writer = Writer(fresh)
        self.computed = dict(computed)
        self.symbols: list[SymbolDef] = []
        self.late: list[tuple[SymbolDef, Dim]] = []

    @property
    def ops(self) -> list[Op]:
        """Those written so far."""
        return self.writer.ops

    def element(self, value: Value) -> Dim:
        """The element of a value as a symbol."""
        self.symbols.append(SymbolDef(f"%{value.name}.element0", value, element=0))
        return symbol(self.symbols[-1].name)

    def check(self, message: str, location: Location, relation: str, *sides: Dim, values: Sequence[Value] = ()) -> None:
        """Require a relation of sizes, or a truth."""
        attrs = {"relation": relation, "sides": sides, "message": message, "args": (), "fact": ""}
        self.ops.append(Op("check", tuple(values), attrs, (), (), location))


class _Unfolder:
    """What was found of sizes and values so far."""

    def __init__(self, kept: frozenset[Function], graph: Graph) -> None:
        self.kept = kept
        self.found: dict[Dim, bool] = {}
        self.location = NOWHERE
        names = Names()
        names.keep(value.name for value in _values(graph.body))
        self.fresh = names.fresh
        self.here = _Here(names.fresh, {})

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

    def computes(self, dim: Dim) -> bool:
        """Whether there is a call in a size of a function that has no expression."""
        return any(
            any(map(self.computes, atom.args)) or (self.goes(atom) and atom.function.unfolded(*atom.args) is None)
            for atom in dim.atoms()
        )

    def dim(self, dim: Dim) -> Dim:
        """The size without calls."""
        if not self.holds(dim):
            return dim

        def value(atom: Atom) -> Dim:
            args = [self.dim(arg) for arg in atom.args]
            if not self.goes(atom):
                return FORMS.remade(atom, args)
            meaning = atom.function.unfolded(*args)
            return self.computed(call_atom(atom.function, tuple(args))) if meaning is None else self.dim(meaning)

        return dim.map_atoms(value)

    def computed(self, call: Call) -> Dim:
        """The value of a function without an expression, which ops in front of what reads it compute."""
        here, writer = self.here, self.here.writer
        if call not in here.computed:
            formula = call.function.formula
            assert formula is not None
            message = f"{of_atom(call)} has no value"
            for need in of_atom(call).divisors_maybe_zero():
                here.check(message, self.location, "!=", self.dim(need), const(0))
            found, defined = writer.apply(formula, [writer.size(arg) for arg in call.args])
            if defined.const != 1:
                here.check(message, self.location, "value", values=[writer.scalar(defined)])
            here.computed[call] = self._size(found if not call.nonnegative else found.between(0, MOST))
        return here.computed[call]

    def _size(self, number: Number) -> Dim:
        """A number as a size: symbols are sizes, which are not negative."""
        if number.const is not None:
            return const(number.const)
        writer, zero = self.here.writer, Number(0, 0)
        if number.low >= 0:
            return self.here.element(writer.element(number))
        parts = (writer.extreme(max, each, zero) for each in (number, writer.negated(number)))
        above, below = (self.here.element(writer.element(each)) for each in parts)
        return above - below

    def relation(self, relation: Relation) -> Relation:
        """The relation without calls; its text is made anew."""
        if not self.speaks(relation):
            return relation
        needs = tuple(replace(need, one=self.dim(need.one), two=self.dim(need.two)) for need in relation.needs)
        return replace(relation, lhs=self.dim(relation.lhs), rhs=self.dim(relation.rhs), needs=needs, source="")

    def facts(self, graph: Graph) -> Facts:
        """The facts without calls; one about a function that has no expression is left out: as a check it stays."""
        told = [each for each in graph.facts.statements() if not any(map(self.computes, _sides(each)))]
        plain = Facts().with_relations([self.relation(each) for each in told])
        for each in graph.facts.symbols:
            plain = plain.with_symbol(each.name, each.sources, each.likely)
        return replace(plain, assumed=tuple(filter(_is_plain, graph.facts.assumed)))

    def block(self, block: Block, outer: Mapping[Value, Value]) -> Block:
        """The block without calls, reading the values that stand for those of enclosing blocks."""
        known, around = dict(outer), self.here
        self.here = _Here(self.fresh, around.computed)
        args = self.values(block.args, block, known)
        self.settle()
        for op in block.ops:
            self.op(op, block, known)
        here, self.here = self.here, around
        symbols = (*(replace(each, value=known[each.value]) for each in block.symbols), *here.symbols)
        return Block(args, tuple(here.ops), tuple(known[each] for each in block.results), symbols)

    def op(self, op: Op, block: Block, known: dict[Value, Value]) -> None:
        """Write the op without calls."""
        self.location = op.location
        attrs = {name: self.attr(each) for name, each in op.attrs.items()}
        requires = tuple(map(self.relation, op.requires))
        operands = tuple(known[each] for each in op.operands)
        results = self.values(op.results, block, known)
        regions = tuple(self.block(each, known) for each in op.regions)
        self.here.ops.append(Op(op.name, operands, attrs, results, regions, op.location, requires))
        self.settle()

    def values(self, values: tuple[Value, ...], block: Block, known: dict[Value, Value]) -> tuple[Value, ...]:
        """The values of types without calls, from now on in place of others."""
        own = {each.name for each in block.symbols if each.value in values}
        for value in values:
            shape = value.type.shape
            sizes = shape or ()
            late = {axis for axis, size in enumerate(sizes) if self.computes(size) and size.symbols() & own}
            label = f"%{value.name}.{{}}.given"
            new = tuple(symbol(label.format(k)) if k in late else self.dim(size) for k, size in enumerate(sizes))
            same = shape is None or new == shape
            known[value] = value if same else Value(value.name, TensorType(value.type.dtype, new))
            self.here.late += ((SymbolDef(label.format(k), known[value], axis=k), sizes[k]) for k in sorted(late))
        return tuple(known[value] for value in values)

    def settle(self) -> None:
        """Check sizes of functions of what the same values define: they are known behind these only."""
        here = self.here
        for define, size in here.late:
            here.symbols.append(define)
            wanted = self.dim(size)
            here.check(f"a size that should be {size} is not", self.location, "==", symbol(define.name), wanted)
        here.late.clear()

    def attr(self, attr: Attr) -> Attr:
        """The attribute without calls."""
        if isinstance(attr, Dim):
            return self.dim(attr)
        return tuple(map(self.attr, attr)) if type(attr) is tuple else attr


def _values(block: Block) -> Iterator[Value]:
    """Every value of a block and of the regions inside."""
    yield from block.args
    for op in block.ops:
        yield from op.results
        for region in op.regions:
            yield from _values(region)


def _is_plain(text: str) -> bool:
    """Whether a text can be read where no function of an author is known."""
    try:
        return bool(parse_facts(text))
    except ParseError:
        return False
