"""Repeated layers: parts of a large program that are equal up to weights are calls of one function while rules run.

A function goes through the stages once (``egshape/egraph/functions.py``): under what is known of sizes where its calls
agree in them, else under what all of them hold. What became of it then stands in line for each copy, and the whole goes
through the stages again, so that rewrites across the borders of layers are made too, and through the verifier."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from egshape.egraph.obligations import obligations_of, required, said_of
from egshape.facts import Relation
from egshape.ir.calls import Placed, is_call, key_at, placed, values_of
from egshape.ir.graph import Block, Location, Op, Value
from egshape.ir.keys import hashable, region_key
from egshape.ir.types import is_integer
from egshape.ops import REGISTRY
from egshape.periods import Bools, Ints, Part, Stretch, completed, copies_of, stretches, taken

LEAST_LAYER, LEAST_COPIES = 32, 3
"""Ops of a layer, and how often it must stand in the program."""
WEIGHT = 16
"""A constant of more elements is a weight: it may differ from copy to copy."""
_SMALL_INTEGERS = 1_000
"""Values that small integers count for where a layer is cut: those that come from outside keep copies apart."""
_NAME = "layer of the optimizer"


def outlined(block: Block, left: AbstractSet[Op] = frozenset()) -> Block:
    """The block with its repeated layers as calls; the block itself where none are found. ``left``: ops that stay as
    they came."""
    weights = [op for op in block.ops if _is_weight(op) and op not in left]
    known = frozenset(weights)
    ops = [op for op in block.ops if op not in known]
    layers = _layers(block, ops, left)
    if not layers:
        return block
    starts = {each.start: each for each in layers}
    done, place = list(weights), 0
    names, keys = _Fresh(block), dict[int, Any]()
    while place < len(ops):
        layer = starts.get(place)
        done.append(ops[place] if layer is None else _with_key(layer.call(ops, names), keys, layer.kind))
        place += 1 if layer is None else layer.length
    return replace(block, ops=tuple(done))


def in_place(block: Block) -> Placed:
    """The block with what became of its layers in their places."""
    return placed(block, is_layer, free=True)


def has_layers(block: Block) -> bool:
    """Whether a layer is still a call: what it takes has another type than what became of it."""
    return any(map(is_layer, block.ops))


def is_layer(op: Op) -> bool:
    """Whether an op is a layer that was made a call."""
    return is_call(op) and op.attrs["name"] == _NAME


class _Demand(NamedTuple):
    """What is said where ops do not have what they require, and which of them requires it first."""

    said: str
    place: int


def blamed(block: Block) -> dict[tuple[str, str], tuple[str, Location]]:
    """By where and how something is said of the layers of a block, which are calls: how it is said of the op in them
    that requires it, and where that is."""
    found: dict[tuple[str, str], tuple[str, Location]] = {}
    for call in filter(is_layer, block.ops):
        (region,) = call.regions
        demands: Mapping[Relation, _Demand] = region.keep("demands", dict)
        for relation, each in zip(call.requires, demands.values(), strict=True):
            where = str(call.location), said_of(call, relation)
            found.setdefault(where, (each.said, region.ops[each.place].location))
    return found


@dataclass(frozen=True)
class _Layer:
    """A copy of a layer: the ops from ``start`` on, what they read from elsewhere, and the results, by place among all
    of them, that something else reads in one of the copies at least."""

    kind: int
    """The number of what it is a copy of."""
    start: int
    length: int
    reads: tuple[Value, ...]
    gives: tuple[int, ...]
    demands: Mapping[Relation, _Demand]
    """What its ops require of sizes, the same in all copies, since their types are."""

    def call(self, ops: Sequence[Op], names: _Fresh) -> Op:
        """The copy as a call."""
        own = ops[self.start : self.start + self.length]
        made = [value for op in own for value in op.results]
        given = [made[place] for place in self.gives]
        args = tuple(names.like(value) for value in self.reads)
        inner = dict(zip(self.reads, args, strict=True)) | {value: names.like(value) for value in given}
        body = tuple(
            Op(
                op.name,
                tuple(inner.get(value, value) for value in op.operands),
                op.attrs,
                tuple(inner.get(value, value) for value in op.results),
                op.regions,
                op.location,
                op.requires,
            )
            for op in own
        )
        region = Block(args, body, tuple(inner[value] for value in given))
        region.keep("demands", lambda: self.demands)
        needs = tuple(replace(relation, source=each.said) for relation, each in self.demands.items())
        return Op("call", self.reads, {"name": _NAME}, tuple(given), (region,), own[0].location, needs)


def _demands(ops: Sequence[Op]) -> dict[Relation, _Demand]:
    """What ops require of sizes, as it is required of them where they stand alone."""
    stated = [(at, relation, said_of(op, relation)) for at, op in enumerate(ops) for relation in op.requires]
    implied = obligations_of(list(required(Block((), tuple(ops), ()), REGISTRY)))
    stated += [(each.index, each.relation, each.message) for each in implied]
    found: dict[Relation, _Demand] = {}
    for place, relation, said in sorted(stated, key=lambda each: each[0]):
        found.setdefault(relation, _Demand(said, place))
    return found


def _with_key(call: Op, keys: dict[int, Any], kind: int) -> Op:
    """The call, whose function's key is that of the first copy: they were compared op by op."""
    if kind not in keys:
        keys[kind] = key_at(call.regions[0], {})
    call.regions[0].keep("key", lambda: keys[kind])
    return call


class _Fresh:
    """Values with names that the block does not have."""

    def __init__(self, block: Block) -> None:
        taken = {value.name for value in values_of(block)}
        self._names: Iterator[str] = (name for k in count() if (name := f"layer.{k}") not in taken)

    def like(self, value: Value) -> Value:
        return Value(next(self._names), value.type)


def _layers(block: Block, ops: Sequence[Op], left: AbstractSet[Op]) -> list[_Layer]:
    """The copies of layers, in order. Each is compared with the others op by op: kinds, types, and what reads what."""
    kinds = _kinds(block, ops, left)
    repeated = stretches(kinds, LEAST_LAYER, LEAST_COPIES)
    if not repeated:
        return []
    last = _last_reads(block, ops)
    free, parts = kinds >= 0, list[Part]()
    for each in repeated:
        part = _cut(ops, kinds, last, each, free)
        if part.starts:
            parts.append(part)
            taken(free, part)
    parts = completed(kinds, parts, free, LEAST_LAYER, LEAST_COPIES)
    same = (copies for part in parts for copies in _same(ops, part))
    found = [layer for kind, copies in enumerate(same) for layer in _copies(ops, last, kind, copies)]
    return sorted(found, key=lambda layer: layer.start)


def _cut(ops: Sequence[Op], kinds: Ints, last: Mapping[Value, int], repeated: Sequence[Stretch], free: Bools) -> Part:
    """The layers in stretches of one: they are cut where fewest values cross, or, where this costs a copy and more are
    the same then, there among the places that keep all."""
    longest = max(repeated, key=lambda each: each.length)
    narrow = _crossings(ops, last, longest.start, longest.period)
    cuts = dict.fromkeys(int(np.argmin(each)) for each in (narrow, narrow[: longest.length % longest.period + 1]))
    parts = [copies_of(kinds, repeated, longest.start + cut, free) for cut in cuts]
    if len(parts) == 1:
        return parts[0]
    return max(parts, key=lambda part: sum(map(len, _same(ops, part))))


_Copy = tuple[int, int, tuple[Value, ...]]
"""Where a copy of a layer starts and ends, and what it reads from elsewhere."""


def _same(ops: Sequence[Op], part: Part) -> list[list[_Copy]]:
    """The copies in which the same reads the same, where there are enough."""
    groups: dict[Hashable, list[_Copy]] = {}
    for start in part.starts:
        stop = start + part.length
        reads, wiring = _wired(ops[start:stop])
        groups.setdefault(wiring, []).append((start, stop, reads))
    return [copies for copies in groups.values() if len(copies) >= LEAST_COPIES]


def _copies(ops: Sequence[Op], last: Mapping[Value, int], kind: int, copies: Sequence[_Copy]) -> Iterator[_Layer]:
    """Copies as layers, which give what is read behind one of them at least."""
    own = [ops[start:stop] for start, stop, _ in copies]
    outside = (_given(each, stop, last) for each, (_, stop, _) in zip(own, copies, strict=True))
    gives, needs = tuple(sorted(set().union(*outside))), _demands(own[0])
    for start, stop, reads in copies:
        yield _Layer(kind, start, stop - start, reads, gives, needs)


def _is_weight(op: Op) -> bool:
    return op.name == "constant" and op.attrs["value"].size > WEIGHT


def _kinds(block: Block, ops: Sequence[Op], left: AbstractSet[Op]) -> Ints:
    """A number for each op, the same for those that differ in their operands at most, and these have the same types; a
    negative one of its own for an op that cannot stand in a function."""
    defining = {each.value for each in block.symbols}
    fits = cache(_fits)
    numbers: dict[Hashable, int] = {}
    out = np.empty(len(ops), np.int64)
    for at, op in enumerate(ops):
        if not fits(op.name) or op in left or not _is_pure(op) or not defining.isdisjoint(op.results):
            out[at] = -1 - at
            continue
        types = tuple(value.type for value in (*op.operands, *op.results))
        regions = tuple(_alone(region) for region in op.regions)
        key = (op.name, len(op.operands), hashable(dict(op.attrs)), types, regions, op.requires)
        out[at] = numbers.setdefault(key, len(numbers))
    return out


def _alone(region: Block) -> Hashable:
    """The key of a region that reads nothing around it."""
    key: Hashable = region.keep("alone", lambda: region_key(region, ()))
    return key


def _fits(name: str) -> bool:
    """Whether ops of a name can stand in a function: they give values, and are no loops and no branches."""
    decl = REGISTRY[name]
    return not decl.effect and (not decl.nested or decl.traits.regions == "once")


def _is_pure(op: Op) -> bool:
    """Whether an op, which is no call, gives values of known ranks from its operands alone."""
    ranked = all(value.type.shape is not None for value in (*op.operands, *op.results))
    return ranked and bool(op.results) and not (op.regions and (is_call(op) or op.captures()))


def _last_reads(block: Block, ops: Sequence[Op]) -> Mapping[Value, int]:
    """Where each value is read last; behind all ops for a result of the block, or one that defines a symbol."""
    last = {value: at for at, op in enumerate(ops) for value in (op.reads() if op.regions else op.operands)}
    ends = (*block.results, *(each.value for each in block.symbols))
    return last | dict.fromkeys(ends, len(ops))


def _crossings(ops: Sequence[Op], last: Mapping[Value, int], start: int, period: int) -> Ints:
    """How many values of the ops before each place of a period are read behind it, those apart that are read much
    later."""
    change = np.zeros(period + 1, np.int64)
    for at in range(max(0, start - 2 * period), start + period):
        for value in ops[at].results:
            end = last.get(value, at)
            if max(at, start - 1) < end <= at + 2 * period:
                weight = _SMALL_INTEGERS if _is_small_integer(value) else 1
                change[max(at + 1 - start, 0)] += weight
                change[min(end + 1 - start, period)] -= weight
    return np.cumsum(change)[:period]


def _is_small_integer(value: Value) -> bool:
    """Whether a value's elements may be known, and count then."""
    return is_integer(value.type.dtype) and value.type.rank <= 1


def _wired(ops: Sequence[Op]) -> tuple[tuple[Value, ...], Hashable]:
    """What ops read from elsewhere, in order, and what reads what. Small integers count as themselves: what they are
    may be known, and what is known of one copy's must hold of the others'."""
    numbers: dict[Value, int] = {}
    reads: dict[Value, int] = {}
    wiring: list[Hashable] = []
    for op in ops:
        for value in op.operands:
            if value in numbers:
                wiring.append(numbers[value])
            elif _is_small_integer(value):
                wiring.append(value)
            else:
                wiring.append(-1 - reads.setdefault(value, len(reads)))
        for value in op.results:
            numbers[value] = len(numbers)
    return tuple(reads), tuple(wiring)


def _given(ops: Sequence[Op], end: int, last: Mapping[Value, int]) -> Iterator[int]:
    """The places of the results that are read behind the ops."""
    made = (value for op in ops for value in op.results)
    return (place for place, value in enumerate(made) if last.get(value, -1) >= end)
