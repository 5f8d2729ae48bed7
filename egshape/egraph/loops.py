"""What a loop keeps: what it carries as ``start + step * rounds``, bounds of other sizes, and how many rounds it has.

A form is guessed from the first round. It is believed where the prover shows by induction that a round takes it from
any number of rounds to one more; what is not proved stays the symbol that it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from egshape.decide.context import Context
from egshape.dims import Dim, Relu, ceildiv, const, maximum, minimum, relu, symbol
from egshape.dims.core import of_atom
from egshape.errors import Contradiction
from egshape.facts import Relation
from egshape.ir.builder import fits, small
from egshape.ir.graph import Block, Op, SymbolDef, Value
from egshape.ir.types import integer_range
from egshape.ops.base import Element, Registry, object_array
from egshape.ops.traits import Traits

ZERO, ONE = const(0), const(1)

Elements = Mapping[Value, np.ndarray]


class Place(NamedTuple):
    """A size or an integer that a loop carries: an axis, or a flat index, of one of its values."""

    value: int
    at: int
    is_size: bool


@dataclass(frozen=True)
class Form:
    """What stands at a place after so many rounds."""

    start: Element
    step: Dim = ZERO

    def at(self, rounds: Dim) -> Element:
        """After a number of rounds."""
        return self.start + self.step * rounds if isinstance(self.start, Dim) else self.start


@dataclass(frozen=True)
class Bound:
    """That a carried size is at least, or at most, a limit in every round."""

    place: Place
    limit: Dim
    above: bool

    def of(self, size: Dim) -> Relation:
        """The bound, said of the size as it is called somewhere."""
        return Relation("<=", size, self.limit) if self.above else Relation("<=", self.limit, size)


@dataclass(frozen=True)
class Inside:
    """What holds when a region of the loop is entered. ``believed`` speaks of the region's own sizes, ``elements`` are
    integers that no round changes; ``held`` speaks of the number of rounds too, which no program computes."""

    believed: tuple[Relation, ...]
    held: tuple[Relation, ...]
    elements: Elements


@dataclass(frozen=True)
class Invariants:
    """What is known of a loop. ``rounds`` stands for the number of rounds done; ``conditions`` hold where one more is
    begun, with what the symbols are that integers define there; there are ``exact`` rounds, or at most ``most``, where
    that is known."""

    op: Op
    rounds: Dim
    forms: Mapping[Place, Form]
    bounds: tuple[Bound, ...]
    conditions: tuple[Relation, ...]
    exact: Dim | None
    most: Dim | None

    def inside(self, region: Block) -> Inside:
        """What holds where a region is entered."""
        sizes = [value.type.dims if value.type.shape is not None else () for value in region.args]
        counted = self._counted(sizes)
        rounds = self.rounds if counted is None else counted
        forms = self._said(sizes, rounds)
        held = self._begun(rounds) if region is self.op.regions[-1] else ()
        elements = self._elements(region.args, None)
        if counted is not None:
            return Inside((*forms, Relation("<=", ZERO, counted), *self._bounded(sizes)), held, elements)
        return Inside((*self._bounded(sizes), *self._multiples(sizes)), (*forms, *held), elements)

    def behind(self) -> tuple[tuple[Relation, ...], Elements]:
        """What holds behind the loop, and the integers that it gives."""
        results = self.op.results
        sizes = [value.type.dims if value.type.shape is not None else () for value in results]
        rounds = self.exact if self.exact is not None else self._counted(sizes)
        bounds, elements = self._bounded(sizes), self._elements(results, self.exact)
        if rounds is None:
            return (*bounds, *self._multiples(sizes), *self._at_most(sizes)), elements
        counted = [Relation("<=", ZERO, rounds)] if self.exact is None else []
        if self.exact is None and self.most is not None:
            counted.append(Relation("<=", rounds, self.most))
        return (*self._said(sizes, rounds), *counted, *bounds), elements

    def _sizes(self) -> Iterator[tuple[Place, Form]]:
        return ((place, form) for place, form in self.forms.items() if place.is_size)

    def _counted(self, sizes: Sequence[Sequence[Dim]]) -> Dim | None:
        """The number of rounds, read off a size that grows or shrinks by one each round."""
        for place, form in self._sizes():
            if form.step.const in (1, -1) and isinstance(form.start, Dim):
                return (sizes[place.value][place.at] - form.start) * form.step
        return None

    def _said(self, sizes: Sequence[Sequence[Dim]], rounds: Dim) -> list[Relation]:
        return [
            Relation("==", sizes[place.value][place.at], said)
            for place, form in self._sizes()
            if isinstance(said := form.at(rounds), Dim) and said is not sizes[place.value][place.at]
        ]

    def _begun(self, rounds: Dim) -> tuple[Relation, ...]:
        (name,) = self.rounds.symbols()
        return tuple(each.substitute({name: rounds}) for each in self.conditions)

    def _bounded(self, sizes: Sequence[Sequence[Dim]]) -> list[Relation]:
        return [each.of(sizes[each.place.value][each.place.at]) for each in self.bounds]

    def _multiples(self, sizes: Sequence[Sequence[Dim]]) -> Iterator[Relation]:
        for place, form in self._sizes():
            step, size = form.step.const, sizes[place.value][place.at]
            if isinstance(form.start, Dim) and step == 0:
                yield Relation("==", size, form.start)
            elif isinstance(form.start, Dim) and step is not None:
                yield Relation("==", (size - form.start) % abs(step), ZERO)

    def _at_most(self, sizes: Sequence[Sequence[Dim]]) -> Iterator[Relation]:
        for place, form in self._sizes():
            if isinstance(form.start, Dim) and self.most is not None and form.step.const is not None:
                last = form.start + form.step * self.most
                yield Bound(place, last, form.step.const > 0).of(sizes[place.value][place.at])

    def _elements(self, values: Sequence[Value], rounds: Dim | None) -> Elements:
        """The integers of carried values after some rounds; None: those that no round changes."""
        forms = {place: form for place, form in self.forms.items() if rounds is not None or form.step is ZERO}
        return _known_of(values, {place: form.at(rounds or ZERO) for place, form in forms.items()})


def _known_of(values: Sequence[Value], items: Mapping[Place, Element]) -> dict[Value, np.ndarray]:
    """Arrays of the integers of values, of those of which anything is known."""
    out = {}
    for number, value in enumerate(values):
        if small(value.type):
            shape = tuple(int(size.const or 0) for size in value.type.dims)
            flat = [items.get(Place(number, at, False)) for at in range(int(np.prod(shape, dtype=np.int64)))]
            if any(item is not None for item in flat):
                out[value] = object_array(flat, shape)
    return out


def invariants(op: Op, context: Context, elements: Elements, registry: Registry) -> Invariants:
    """What a loop keeps, as far as ``context`` and the ``elements`` of values around it tell."""
    return _Loop(op, context, elements, registry).found()


class _Scope:
    """Answers an ``elements`` function of an op inside; what it needs to fit must be proved, unless it is ``trusted``
    for a guess."""

    def __init__(self, context: Context, rounds: Dim, trusted: bool) -> None:
        self._context, self._rounds = context, rounds
        self.granted = True
        self._trusted = trusted

    def decide(self, relation: Relation) -> bool | None:
        return {"proved": True, "refuted": False}.get(self._context.decide(relation))

    def require_fit(self, dim: Dim, dtype: str) -> None:
        self.granted = self.granted and (self._trusted or self.fits(dim, dtype))

    def fits(self, dim: Dim, dtype: str) -> bool:
        """Whether an integer surely is in the range of its dtype; the number of rounds is no size that always is."""
        needs = fits(dim, dtype, "")
        if dim is self._rounds:
            needs.append(Relation("<=", dim, const(integer_range(dtype)[1])))
        return all(self._context.decide(each) == "proved" for each in needs)


class _Loop:
    """A loop under examination. All that changes: ``forms``, of which those that fail are taken away."""

    def __init__(self, op: Op, context: Context, elements: Elements, registry: Registry) -> None:
        self.op, self.context, self.elements, self.registry = op, context, elements, registry
        self.test, self.body = op.regions
        self.name = f"rounds of %{op.results[0].name}" if op.results else "rounds"
        self.rounds = symbol(self.name)
        self.own = {each.name for each in self.body.symbols}
        self.forms: dict[Place, Form] = {}

    def found(self) -> Invariants:
        """Guess, then drop what a round does not keep until nothing is dropped."""
        self.forms = {place: Form(start) for place, start in self._starts()}
        try:
            if False in self._tested(list(self._conjuncts()), ZERO, ())[1].values():
                return Invariants(self.op, self.rounds, self.forms, (), (), ZERO, ZERO)
            self.forms = self._guessed()
            while True:
                conditions, whole = self._conditions()
                failed = self._failed(conditions)
                if not failed:
                    break
                self.forms = {place: form for place, form in self.forms.items() if place not in failed}
            counts = [count for each in conditions if (count := self._count(each)) is not None]
            most = minimum(*counts) if counts else None
            exact = most if whole and len(counts) == len(conditions) else None
            begun = (*conditions, *self._defined(conditions))
            return Invariants(self.op, self.rounds, self.forms, self._bounds(conditions), begun, exact, most)
        except Contradiction:  # of a guess, or nothing ever runs through it
            return Invariants(self.op, self.rounds, {}, (), (), None, None)

    # -- forms ---------------------------------------------------------------------------------------------------

    def _guessed(self) -> dict[Place, Form]:
        """The forms that the first round suggests."""
        _, after = self._after(ZERO, ())
        out = {}
        for place, form in self.forms.items():
            then = after.get(place)
            if isinstance(form.start, Dim) and isinstance(then, Dim):
                step = self.context.normal_form(then - form.start)
                if not step.symbols() & self.own:
                    out[place] = Form(form.start, step)
            elif then == form.start and then is not None:
                out[place] = form
        return out

    def _starts(self) -> Iterator[tuple[Place, Element]]:
        """The sizes that rounds may change, and the integers, as the loop is given them."""
        for each in self.body.symbols:
            if each.axis is not None and each.value in self.body.args:
                number = self.body.args.index(each.value)
                yield Place(number, each.axis, True), self.op.operands[number].type.dims[each.axis]
        for number, (arg, init) in enumerate(zip(self.body.args, self.op.operands, strict=True)):
            known = self.elements.get(init)
            if known is not None and small(arg.type):
                for at, item in enumerate(known.reshape(-1)):
                    if item is not None and not isinstance(item, Relation):
                        yield Place(number, at, False), item

    def _failed(self, conditions: Sequence[Relation]) -> set[Place]:
        """The places whose form a round does not keep."""
        known, after = self._after(self.rounds, conditions)
        following = self._values(self.rounds + 1)
        return {place for place, wanted in following.items() if not _same(known, after.get(place), wanted)}

    # -- conditions ----------------------------------------------------------------------------------------------

    def _conditions(self) -> tuple[list[Relation], bool]:
        """What the test says of sizes where a round is begun, and whether that is all that it says.

        An integer of the test may wrap around, so that it fits is proved by induction too: where no round was run, and
        where one more was."""
        parts = list(self._conjuncts())
        inner = {each.name for each in self.test.symbols}
        guessed = self._tested(parts, self.rounds, (), trusted=True)[1].items()
        known = {part: item for part, item in guessed if isinstance(item, Relation) and not item.symbols() & inner}
        while True:
            begun = [self._sharp(item) for item in known.values()]
            steps = [(at, *self._tested(parts, at, before)) for at, before in ((ZERO, ()), (self.rounds + 1, begun))]
            kept = {
                part: item
                for part, item in known.items()
                if all(_says(here, found.get(part), item.substitute({self.name: at})) for at, here, found in steps)
            }
            if len(kept) == len(known):
                rest = [part for part in parts if part not in kept]
                return begun, all(found.get(part) is True for part in rest for _, _, found in steps)
            known = kept

    def _conjuncts(self) -> Iterator[Value]:
        """The values that must all be true for a round to begin."""
        makers = {value: op for op in self.test.ops for value in op.results}
        left = [self.test.results[0]]
        while left:
            value = left.pop()
            maker = makers.get(value)
            if maker is not None and _is_conjunction(self.registry[maker.name].traits):
                left += maker.operands
            else:
                yield value

    def _tested(
        self, parts: Sequence[Value], rounds: Dim, begun: Sequence[Relation], trusted: bool = False
    ) -> tuple[Context, dict[Value, Element]]:
        """What is known, and what parts of the test are, after some rounds; ``begun``: what held before the last."""
        known, sizes = self._knowing(self.test, rounds, begun), self._sizes(self.test, rounds)
        found = self._run(self.test, rounds, known, trusted)
        return known, {part: _put(found[part].reshape(-1)[0], sizes) for part in parts if part in found}

    def _count(self, condition: Relation) -> Dim | None:
        """How many rounds end a condition, where each takes it nearer to its end."""
        gap = condition.rhs - condition.lhs + (1 if condition.kind == "<=" else 0)
        first, fall = gap.substitute({self.name: ZERO}), gap - gap.substitute({self.name: self.rounds + 1})
        if self.name in fall.symbols():
            return None
        if condition.kind in ("<", "<=") and self._holds(Relation("<=", ONE, fall)):
            return self._least(ceildiv(self._least(relu(first), first), fall), first if fall is ONE else None)
        return None

    def _sharp(self, condition: Relation) -> Relation:
        """A condition; that a count has not yet come to its end as that it is less, where it passes all before."""
        gap = condition.rhs - condition.lhs
        fall = gap - gap.substitute({self.name: self.rounds + 1})
        count = gap.substitute({self.name: ZERO}) * fall
        if condition.kind == "!=" and fall.const in (1, -1) and self._holds(Relation("<=", ZERO, count)):
            return Relation("<", self.rounds, count)
        return condition

    def _least(self, general: Dim, plain: Dim | None) -> Dim:
        """The plain one of two sizes where they are the same."""
        return plain if plain is not None and self._holds(Relation("==", general, plain)) else general

    def _holds(self, relation: Relation) -> bool:
        return self.context.decide(relation) == "proved"

    # -- bounds --------------------------------------------------------------------------------------------------

    def _bounds(self, conditions: Sequence[Relation]) -> tuple[Bound, ...]:
        """Bounds that each round keeps: the start, and the limits that a round sets."""
        known = self._knowing(self.body, self.rounds, conditions)
        self._run(self.body, self.rounds, known)
        kept = list(dict.fromkeys(self._limits()))
        while True:
            here = known.copy()
            here.assume_all([(bound.of(self._given(bound.place)), None) for bound in kept])
            left = [bound for bound in kept if here.decide(bound.of(self._result(bound.place))) == "proved"]
            if len(left) == len(kept):
                return tuple(kept)
            kept = left

    def _limits(self) -> Iterator[Bound]:
        for place, start in self._starts():
            form = self.forms.get(place)
            if place.is_size and isinstance(start, Dim) and (form is None or form.step is not ZERO):
                after = self._result(place)
                cuts = [after.map_atoms(lambda atom: ZERO if isinstance(atom, Relu) else of_atom(atom))]
                cuts += [after.map_atoms(lambda atom: atom.arg if isinstance(atom, Relu) else of_atom(atom))]
                for limit in (start, *cuts):
                    if not limit.symbols() & self.own:
                        yield Bound(place, minimum(start, limit), above=False)
                        yield Bound(place, maximum(start, limit), above=True)

    def _given(self, place: Place) -> Dim:
        return self.body.args[place.value].type.dims[place.at]

    def _result(self, place: Place) -> Dim:
        return self.body.results[place.value].type.dims[place.at]

    def _defined(self, conditions: Sequence[Relation]) -> Iterator[Relation]:
        """What the sizes are in a round that are elements of integers there."""
        known = self._knowing(self.body, self.rounds, conditions)
        scope = _Scope(known.copy(), self.rounds, trusted=False)
        found = self._run(self.body, self.rounds, known)
        for each in self.body.symbols:
            if each.element is not None and each.value in found:
                item = found[each.value].reshape(-1)[each.element]
                if isinstance(item, Dim) and scope.fits(item, each.value.type.dtype):
                    yield Relation("==", symbol(each.name), item + each.offset)

    # -- running -------------------------------------------------------------------------------------------------

    def _values(self, rounds: Dim) -> dict[Place, Element]:
        return {place: form.at(rounds) for place, form in self.forms.items()}

    def _sizes(self, block: Block, rounds: Dim) -> dict[str, Dim]:
        """What the symbols of a block's arguments are after some rounds."""
        values = self._values(rounds)
        return {
            each.name: said
            for each in _of_args(block)
            if isinstance(said := values.get(Place(block.args.index(each.value), each.axis or 0, True)), Dim)
        }

    def _knowing(self, block: Block, rounds: Dim, begun: Iterable[Relation]) -> Context:
        """What is known in a block after some rounds."""
        known = self.context.copy()
        sizes = self._sizes(block, rounds).items()
        known.assume_all([(each, None) for each in begun])
        known.assume_all([(Relation("==", symbol(name), said), None) for name, said in sizes])
        return known

    def _after(self, rounds: Dim, begun: Sequence[Relation]) -> tuple[Context, dict[Place, Element]]:
        """What is known, and what a round makes of what is carried, after some rounds."""
        known = self._knowing(self.body, rounds, begun)
        found, sizes = self._run(self.body, rounds, known), self._sizes(self.body, rounds)
        out: dict[Place, Element] = {}
        for place in self.forms:
            result = self.body.results[place.value]
            if place.is_size:
                out[place] = _put(known.normal_form(self._result(place)), sizes)
            elif result in found:
                out[place] = _put(found[result].reshape(-1)[place.at], sizes)
        return known, out

    def _run(self, block: Block, rounds: Dim, known: Context, trusted: bool = False) -> dict[Value, np.ndarray]:
        """The elements of the values of a block; ``known`` learns what loops inside of it keep."""
        out = {**self.elements, **_known_of(block.args, self._values(rounds))}
        for op in block.ops:
            decl = self.registry[op.name]
            if decl.traits.regions == "loop":
                relations, elements = invariants(op, known, out, self.registry).behind()
                known.assume_all([(each, None) for each in relations])
                out.update(elements)
            elif decl.elements is not None and len(op.results) == 1 and small(op.result.type):
                fixed = op.operands if decl.variadic else op.operands[: len(decl.operands)]
                scope, types = _Scope(known, self.rounds, trusted), (*(each.type for each in fixed), op.result.type)
                attrs = {**op.attrs, "regions": op.regions} if op.regions else op.attrs
                found = decl.elements(scope, [out.get(each) for each in fixed], attrs, types)
                if found is not None and scope.granted:
                    out[op.result] = found
        return out


def _of_args(block: Block) -> list[SymbolDef]:
    return [each for each in block.symbols if each.axis is not None and each.value in block.args]


def _is_conjunction(traits: Traits) -> bool:
    """Whether an op on truths is true where all that it is given is, and nowhere else."""
    ends = traits.absorbing, traits.neutral
    return None not in ends and [each.truth for each in ends if each is not None] == [False, True]


def _same(known: Context, one: Element, two: Element) -> bool:
    """Whether two elements are surely equal."""
    if isinstance(one, Dim) and isinstance(two, Dim):
        return one is two or known.decide(Relation("==", one, two)) == "proved"
    return one is not None and one == two


def _put(item: Element, sizes: Mapping[str, Dim]) -> Element:
    """An element with sizes in the place of symbols."""
    return item.substitute(sizes) if isinstance(item, Dim | Relation) else item


def _says(known: Context, found: Element, wanted: Relation) -> bool:
    """Whether a part of the test is a condition, or decided as the condition is."""
    if isinstance(found, bool):
        return known.decide(wanted) == ("proved" if found else "refuted")
    return found == wanted
