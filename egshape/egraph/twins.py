"""Sizes that come of the same data: equal ops on equal values give equal values, so that a mask that is counted twice
gives one size. What an op that moves elements makes of an integer is followed, whatever the integer is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egshape.decide.context import Context
from egshape.dims import Dim, const, product, symbol
from egshape.egraph.joined import joined_facts
from egshape.facts import Relation
from egshape.ir.builder import small
from egshape.ir.graph import Block, Op, SymbolDef, Value
from egshape.ir.keys import hashable, region_key
from egshape.ir.types import is_integer
from egshape.ops.base import Registry, object_array
from egshape.ops.kinds import region_kind

ZERO = const(0)
ANY = 2**64
"""What is taken from a symbol, which is not negative, so that it may be any integer."""


class _Scope:
    """Decides nothing: elements are moved, and those that must fit are not followed."""

    def __init__(self) -> None:
        self.granted = True

    def decide(self, relation: Relation) -> bool | None:
        return None

    def require_fit(self, dim: Dim, dtype: str) -> None:
        self.granted = False


@dataclass
class Twins:
    """Walks a block, op by op. All that changes: the first of the values that are equal, what became of their
    integers, and the first symbol of each size. ``same``: what symbols are that come of the same data as others."""

    block: Block
    registry: Registry
    _first: dict[Value, Value] = field(default_factory=dict)
    _known: dict[Any, Op] = field(default_factory=dict)
    _items: dict[Value, np.ndarray] = field(default_factory=dict)
    _named: dict[tuple[str, Dim], SymbolDef] = field(default_factory=dict)
    same: dict[str, Dim] = field(default_factory=dict)
    _makers: dict[Value, Op] = field(default_factory=dict)
    _most: dict[Dim, Dim] = field(default_factory=dict)
    _choices: dict[Dim, tuple[Dim, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Only sizes that ops of the block define, or elements of its arguments are, can come of the same data."""
        self._idle = all(each.value in self.block.args and each.element is None for each in self.block.symbols)

    def given(self) -> list[Relation]:
        """What is equal where the block begins."""
        made = {value for op in self.block.ops for value in op.results}
        return self._noted(self._of_elements({each.value for each in self.block.symbols} - made))

    def step(self, op: Op) -> list[Relation]:
        """What is equal from here on."""
        if self._idle:
            return []
        twin = None if acts(op, self.registry) else self._known.setdefault(self._key(op), op)
        found = list[Relation]()
        if twin is not None and twin is not op:
            self._first |= dict(zip(op.results, twin.results, strict=True))
            found += self._of_axes(op)
        self._makers |= dict.fromkeys(op.results, op)
        self._follow(op)
        self._count(op)
        self._choose(op)
        found += self._of_elements(op.results)
        return self._noted(found)

    def _noted(self, relations: Iterable[Relation]) -> list[Relation]:
        found = list(relations)
        self.same |= {
            name: each.rhs
            for each in found
            if each.kind == "=="
            for name in each.lhs.symbols()
            if each.lhs is symbol(name)
        }
        return found

    def first(self, value: Value) -> Value:
        """The first of the values that are equal to one, of those that came by."""
        return self._first.get(value, value)

    def _key(self, op: Op) -> Any:
        read = op.captures()
        operands = tuple(self.first(value) for value in (*op.operands, *read))
        regions = tuple(region_key(region, read, self.same) for region in op.regions)
        attrs = {name: _put(attr, self.same) for name, attr in op.attrs.items()}
        return op.name, operands, hashable(attrs), regions

    def _follow(self, op: Op) -> None:
        """What an op makes of integers, where it moves them."""
        decl = self.registry[op.name]
        if decl.elements is None or len(op.results) != 1 or not _is_followed(op.result):
            return
        fixed = op.operands if decl.variadic else op.operands[: len(decl.operands)]
        attrs, scope = {**op.attrs, "regions": op.regions} if op.regions else op.attrs, _Scope()
        types = (*(each.type for each in fixed), op.result.type)
        found = decl.elements(scope, [self._integers(each) for each in fixed], attrs, types)
        if found is not None and scope.granted:
            own = self._integers(op.result).reshape(-1)
            items = [item if isinstance(item, Dim) else mine for item, mine in zip(found.reshape(-1), own, strict=True)]
            self._items[op.result] = object_array(items, found.shape)

    def _count(self, op: Op) -> None:
        """Of what a mask counts there are at most as many as it has places, also where the number wraps around."""
        if op.name != "reduce" or len(op.operands) != 2 or region_kind(op.regions[0]) != "add":
            return
        x, init = op.operands
        maker, start = self._makers.get(x), self._integers(init)
        if maker is None or not self.registry[maker.name].traits.converts or maker.operands[0].type.dtype != "i1":
            return
        if start is not None and start.reshape(-1)[0] is ZERO and _is_followed(op.result):
            most = product(x.type.dims[axis] for axis in op.attrs["dims"])
            self._most |= dict.fromkeys(self._integers(op.result).reshape(-1), most)

    def _choose(self, op: Op) -> None:
        """Integers that are those of one branch, or of one operand, whatever decides of which."""
        traits = self.registry[op.name].traits
        given = [[op.operands[place] for place in traits.arms]]
        if traits.regions == "branch":
            for inner in (inner for region in op.regions for inner in region.ops):
                self._follow(inner)
                self._choose(inner)
            given = [list(values) for values in zip(*(region.results for region in op.regions), strict=True)]
        for result, values in zip(op.results, given, strict=False):
            if values and all(map(_is_followed, (result, *values))):
                rows = [self._integers(each).reshape(-1) for each in (result, *values)]
                for item, *chosen in zip(*rows, strict=True) if len({len(row) for row in rows}) == 1 else ():
                    known = (each for one in chosen for each in self._choices.get(one, (one,)))
                    self._choices[item] = tuple(dict.fromkeys(known))

    def _integers(self, value: Value) -> Any:
        """The integers of a value, each a symbol of its own where nothing is known; None for another value."""
        if value not in self._items and _is_followed(value):
            shape = tuple(int(size.const or 0) for size in value.type.dims)
            name = self.first(value).name
            own = [symbol(f"\0{name}.{at}") - ANY for at in range(int(np.prod(shape, dtype=np.int64)))]
            self._items[value] = object_array(own, shape)
        return self._items.get(value)

    def _of_axes(self, op: Op) -> Iterator[Relation]:
        """The symbols of an op's own axes, where those of its twin's have symbols of their own too."""
        axes = {(each.value, each.axis): symbol(each.name) for each in self.block.symbols if each.axis is not None}
        for value in op.results:
            for axis in range(len(value.type.shape or ())):
                one, two = axes.get((value, axis)), axes.get((self._first[value], axis))
                if one is not None and two is not None:
                    yield Relation("==", one, two)

    def _of_elements(self, values: Collection[Value]) -> Iterator[Relation]:
        """Of the symbols that integers of values define: that an earlier one is the same, what they are at most, and
        what those have in common of which they are one."""
        for each in self.block.symbols:
            if each.element is not None and each.value in values and _is_followed(each.value):
                item = self._integers(each.value).reshape(-1)[each.element]
                first = self._named.setdefault((each.value.type.dtype, item), each)
                if item in self._most:
                    yield Relation("<=", symbol(each.name) - each.offset, self._most[item])
                chosen = [given + each.offset for given in self._choices.get(item, ())]
                lows = [Context().bounds(one)[0] for one in chosen]  # a negative one is refused where it is taken
                if lows and all(low is not None and low >= 0 for low in lows):
                    yield from joined_facts(symbol(each.name), chosen, Context())
                if first is not each:
                    yield Relation("==", symbol(each.name), symbol(first.name) + (each.offset - first.offset))


def acts(op: Op, registry: Registry) -> bool:
    """Whether a run of an op does more than give its results, so that two that look the same are two runs. A check says
    the same each time."""
    inner = (each for region in op.regions for each in region.walk())
    return any(each.name != "check" and registry[each.name].effect for each in (op, *inner))


def _is_followed(value: Value) -> bool:
    return small(value.type) and is_integer(value.type.dtype)


def _put(attr: Any, sizes: Mapping[str, Dim]) -> Any:
    """An attribute with sizes in the place of symbols."""
    if isinstance(attr, Dim):
        return attr.substitute(sizes) if not attr.symbols().isdisjoint(sizes) else attr
    return tuple(_put(each, sizes) for each in attr) if isinstance(attr, tuple) else attr
