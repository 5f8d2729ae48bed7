"""Repeated layers: parts of a large program that are equal up to weights are calls of one function while rules run.

A function goes through the stages once (``egshape/egraph/functions.py``): under what is known of sizes where its calls
agree in them, else under what all of them hold. What became of it then stands in line for each copy, and the whole goes
through the stages again, so that rewrites across the borders of layers are made too, and through the verifier."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from egshape.facts import Relation
from egshape.frontends.calls import demands
from egshape.ir.calls import Placed, is_call, key_at, placed, values_of
from egshape.ir.graph import Block, Op, Value
from egshape.ir.keys import hashable, region_key
from egshape.ir.types import is_integer
from egshape.ops import REGISTRY

LEAST_LAYER, LEAST_COPIES = 32, 3
"""Ops of a layer, and how often it must stand in the program."""
WEIGHT = 16
"""A constant of more elements is a weight: it may differ from copy to copy."""
_PERIODS = 8
"""Distances between equal ops that are tried, those that are seen most often."""
_NAME = "layer of the optimizer"

Ints = npt.NDArray[np.int64]


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
    demands: tuple[Relation, ...]
    """What its ops require of sizes, the same in all copies, since their types are."""

    def call(self, ops: Sequence[Op], names: _Fresh) -> Op:
        """The copy as a call."""
        own = ops[self.start : self.start + self.length]
        made = [value for op in own for value in op.results]
        given = [made[place] for place in self.gives]
        args = tuple(names.like(value) for value in self.reads)
        inner = dict(zip(self.reads, args, strict=True)) | {value: names.like(value) for value in given}
        body = tuple(
            replace(
                op,
                operands=tuple(inner.get(value, value) for value in op.operands),
                results=tuple(inner.get(value, value) for value in op.results),
            )
            for op in own
        )
        region = Block(args, body, tuple(inner[value] for value in given))
        return Op("call", self.reads, {"name": _NAME}, tuple(given), (region,), own[0].location, self.demands)


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
    period, runs = _period(kinds)
    if not runs:
        return []
    made = {value: at for at, op in enumerate(ops) for value in op.results}
    last = _last_reads(block, ops)
    narrow = _crossings(ops, made, last, period)
    groups: dict[Hashable, list[tuple[int, tuple[Value, ...]]]] = {}
    for start, length in runs:
        first = start + int(np.argmin(narrow[start : start + period]))
        for at in range(first, start + length - period + 1, period):
            reads, wiring = _wired(ops[at : at + period])
            key = (kinds[at : at + period].tobytes(), wiring)
            groups.setdefault(key, []).append((at, reads))
    found = []
    for kind, copies in enumerate(groups.values()):
        if len(copies) >= LEAST_COPIES:
            own = [ops[at : at + period] for at, _ in copies]
            outside = (_given(each, at + period, last) for each, (at, _) in zip(own, copies, strict=True))
            gives, needs = tuple(sorted(set().union(*outside))), demands(own[0])
            found += [_Layer(kind, at, period, reads, gives, needs) for at, reads in copies]
    return sorted(found, key=lambda layer: layer.start)


def _is_weight(op: Op) -> bool:
    return op.name == "constant" and op.attrs["value"].size > WEIGHT


def _kinds(block: Block, ops: Sequence[Op], left: AbstractSet[Op]) -> Ints:
    """A number for each op, the same for those that differ in their operands at most, and these have the same types; a
    negative one of its own for an op that cannot stand in a function."""
    defining = {each.value for each in block.symbols}
    numbers: dict[Hashable, int] = {}
    out = np.empty(len(ops), np.int64)
    for at, op in enumerate(ops):
        if op in left or not _is_pure(op) or not defining.isdisjoint(op.results):
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


def _is_pure(op: Op) -> bool:
    ranked = all(value.type.shape is not None for value in (*op.operands, *op.results))
    nested = REGISTRY[op.name].nested
    return ranked and bool(op.results) and not nested and not REGISTRY[op.name].effect and not op.captures()


def _period(kinds: Ints) -> tuple[int, list[tuple[int, int]]]:
    """How many ops the layers have, and the stretches, start and length, in which one follows the other; none where
    nothing repeats."""
    order = np.argsort(kinds, kind="stable")
    same = kinds[order][1:] == kinds[order][:-1]
    gaps = np.diff(order)[same]
    counts = np.bincount(gaps[gaps >= LEAST_LAYER]) if gaps.size else gaps
    best: tuple[int, int, list[tuple[int, int]]] = (0, 0, [])
    for period in np.argsort(-counts, kind="stable")[:_PERIODS]:
        if counts[period]:
            runs = list(_runs(kinds, int(period)))
            covered = sum(length for _, length in runs)
            if covered > best[0] or (covered == best[0] and period < best[1]):
                best = covered, int(period), runs
    return best[1], best[2]


def _runs(kinds: Ints, period: int) -> Iterator[tuple[int, int]]:
    """Stretches of at least so many copies in which each op is of the kind of the one a period before it."""
    equal = np.concatenate(([False], kinds[period:] == kinds[:-period], [False]))
    edges = np.flatnonzero(equal[1:] != equal[:-1])
    for start, stop in edges.reshape(-1, 2):
        if stop - start >= (LEAST_COPIES - 1) * period:
            yield int(start), int(stop - start) + period


def _last_reads(block: Block, ops: Sequence[Op]) -> Mapping[Value, int]:
    """Where each value is read last; behind all ops for a result of the block, or one that defines a symbol."""
    last = {value: at for at, op in enumerate(ops) for value in (*op.operands, *op.captures())}
    ends = (*block.results, *(each.value for each in block.symbols))
    return last | dict.fromkeys(ends, len(ops))


def _crossings(ops: Sequence[Op], made: Mapping[Value, int], last: Mapping[Value, int], period: int) -> Ints:
    """How many values of the ops before each place are read behind it, those apart that are read much later."""
    change = np.zeros(len(ops) + 1, np.int64)
    for value, at in made.items():
        end = last.get(value, at)
        if at < end <= at + 2 * period:
            change[at + 1] += 1
            change[min(end + 1, len(ops))] -= 1
    return np.cumsum(change)


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
            elif is_integer(value.type.dtype) and value.type.rank <= 1:
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
