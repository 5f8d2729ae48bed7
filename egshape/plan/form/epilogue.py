"""What is computed on the elements of a product before they are stored: bias, residual, activation, a new layout.

A cluster is a product, the elementwise ops behind it whose other operands come from elsewhere, and a transpose and
reshape behind these that reading through could not undo. Its kernel stands where the last of the ops stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from egshape.dims import Dim
from egshape.ir.graph import Block, Op, Value
from egshape.plan.analysis.elements import Indices, is_elementwise, reshape_is_affine
from egshape.plan.ir.loops import linear

LONGEST = 32
"""Ops in one epilogue."""
ENDLESS = 1 << 60
"""The number of a reader that is no op of the block."""
Readers = Mapping[Value, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Cluster:
    """A product (``ops[0]``) and what is computed on its elements, the last op being the one that is read elsewhere.

    ``elementwise``: how many of the ops work on elements; the others move them."""

    ops: tuple[Op, ...]
    elementwise: int

    @property
    def value(self) -> Value:
        """The last value before elements move."""
        return self.ops[self.elementwise - 1].result

    @property
    def result(self) -> Value:
        """What is stored."""
        return self.ops[-1].result

    @property
    def label(self) -> str:
        """The kernel's name."""
        return self.ops[0].name if len(self.ops) == 1 else f"{self.ops[0].name}_{self.ops[-1].name}"

    def place(self, at: Indices) -> Dim:
        """Where the element of ``value`` at the indices is stored."""
        shape = self.value.type.dims
        for op in self.ops[self.elementwise :]:
            if op.name == "transpose":
                order = op.attrs["permutation"]
                at, shape = tuple(at[axis] for axis in order), tuple(shape[axis] for axis in order)
        return linear(at, shape)


def readers(block: Block) -> Readers:
    """The numbers of the ops of a block that read a value, in order; what the block's results or sizes read, or what
    a region captures, is read without end."""
    found: dict[Value, list[int]] = {}
    for number, op in enumerate(block.ops):
        for value in dict.fromkeys(op.operands):
            found.setdefault(value, []).append(number)
        for region in op.regions:
            for value in region.captures():
                found.setdefault(value, []).append(ENDLESS)
    for value in (*block.results, *(each.value for each in block.symbols)):
        found.setdefault(value, []).append(ENDLESS)
    return {value: tuple(numbers) for value, numbers in found.items()}


def find(block: Block, number: int, uses: Readers, taken: Collection[Op], waiting: Collection[Value]) -> Cluster:
    """The cluster of a product. taken: ops of other clusters; waiting: their results, not written yet."""
    first = block.ops[number]
    shape = first.result.type.shape
    members, best = {number: first}, 1
    while len(members) <= LONGEST:
        open_ones = {k for op in members.values() for k in uses.get(op.result, ())} - members.keys()
        if not open_ones:
            break
        at = min(open_ones)
        if at == ENDLESS:
            break
        op = block.ops[at]
        if not is_elementwise(op) or op in taken or op.result.type.shape != shape:
            break
        if any(x in waiting for x in op.operands):
            break
        members[at] = op
        order = sorted(members)
        if all(set(uses.get(members[k].result, ())) <= members.keys() for k in order[:-1]):
            best = len(order)
    ops = [members[k] for k in sorted(members)[:best]]
    return Cluster((*ops, *moves(block, ops[-1], uses, taken, len(shape or ()) - 1)), len(ops))


def moves(block: Block, last: Op, uses: Readers, taken: Collection[Op], end: int) -> list[Op]:
    """Transposes behind an op that make its axis ``end`` the last one, and the reshape behind these, where reading
    through could not undo them."""
    found: list[Op] = []
    while True:
        following = uses.get(last.result, ())
        if len(following) != 1 or following[0] == ENDLESS or block.ops[following[0]] in taken:
            return []
        last = block.ops[following[0]]
        found.append(last)
        if last.name == "reshape" and len(found) > 1:
            source, target = last.operands[0].type.shape, last.result.type.shape
            fits = source is not None and target is not None and not reshape_is_affine(source, target)
            return found if fits and end == len(source or ()) - 1 else []
        if last.name != "transpose":
            return []
        end = last.attrs["permutation"].index(end)
