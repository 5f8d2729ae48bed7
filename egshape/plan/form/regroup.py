"""Elementwise work around a reshape that merges or regroups axes is one kernel, which reads each element once.

An element keeps its flat place through a reshape, so what is elementwise down to buffers is read by that place. Where
a transpose or a broadcast stands below, the indices are needed: those of the kernel's loops are the digits of the flat
place, and a loop whose digit covers several axes of the reshape's operand becomes one for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from egshape.dims import Dim, const, symbol
from egshape.dims.theory import divide
from egshape.ir.graph import Block, Op, Value
from egshape.plan.analysis.elements import is_elementwise, reshape_is_affine
from egshape.plan.analysis.known import Known
from egshape.plan.form.epilogue import ENDLESS, readers
from egshape.plan.form.kernels import loops
from egshape.plan.form.movement import READERS
from egshape.plan.form.reader import Regroup
from egshape.plan.form.steps import Steps, sizes_of
from egshape.plan.ir.loops import Store, linear

ZERO, ONE = const(0), const(1)
FINEST = 8
"""Loops that are split in one kernel."""
_MOVES = ("reshape", "transpose")


class Split(Exception):
    """The loop over ``name`` must be two, the inner one over ``inner``."""

    def __init__(self, name: str, inner: Dim) -> None:
        self.name, self.inner = name, inner


class Apart(Exception):
    """The operand of a reshape must lie in memory."""

    def __init__(self, value: Value) -> None:
        self.value = value


@dataclass(frozen=True, eq=False)
class Chain:
    """A reshape and what reads it, each the only reader of the one before."""

    ops: tuple[Op, ...]

    def emit(self, p: Steps) -> None:
        """Add the kernel."""
        place(p, self.ops[-1].result)


def find(p: Steps, block: Block, number: int) -> Chain | None:
    """The chain that begins with an op; None where it is no reshape that merges axes, or there is nothing to gain: its
    operand lies in memory, or no work follows."""
    first = block.ops[number]
    if first.name != "reshape" or not p.target.in_order or not p.known.forms:
        return None
    source = p.resolved(first.operands[0])
    if source in p.places or source in p.outputs or source in p.waiting or p.arrays.of(source) is not None:
        return None
    if block not in p.readers:
        p.readers[block] = readers(block)
    uses = p.readers[block]
    if reshape_is_affine(source.type.dims, first.result.type.dims) or uses.get(source) != (number,):
        return None
    ops = [first]
    while len(uses.get(ops[-1].result, ())) == 1 and uses[ops[-1].result] != (ENDLESS,):
        op = block.ops[uses[ops[-1].result][0]]
        others = (value for value in op.operands if value is not ops[-1].result)
        if op in p.clusters or not (is_elementwise(op) or op.name in _MOVES):
            break
        if not all(_is_there(p, block, value) for value in others):
            break
        ops.append(op)
    while ops and not is_elementwise(ops[-1]) and ops[-1].result not in p.outputs:
        ops.pop()
    return Chain(tuple(ops)) if any(map(is_elementwise, ops)) else None


def _is_there(p: Steps, block: Block, value: Value) -> bool:
    """Whether a value can be read already, or is one that can be which an op to come only moves."""
    value = p.resolved(value)
    if value in p.places or value in p.producers:
        return value not in p.waiting
    op = next((op for op in block.ops if value in op.results), None)
    return op is not None and op.name in READERS and all(_is_there(p, block, each) for each in op.operands)


def place(p: Steps, value: Value) -> None:
    """Compute a value with loops as fine as its reshapes need."""
    target = p.new_buffer(value)
    axes = [[(p.name("i"), size)] if size.const != 1 else [] for size in sizes_of(value)]
    splits = 0
    while True:
        digits = list(chain.from_iterable(axes))
        at = tuple(linear(tuple(symbol(name) for name, _ in axis), tuple(size for _, size in axis)) for axis in axes)
        p.start()
        p.regroup = _Digits(dict(digits), p.known, FINEST - splits)
        try:
            element = p.read(value, at)
            break
        except Split as split:
            splits += 1
            axes = [list(chain.from_iterable(_split(p, digit, split) for digit in axis)) for axis in axes]
        except Apart as apart:
            p.regroup = None
            place(p, apart.value)
        finally:
            p.regroup = None
    store = Store(target, linear(at, sizes_of(value)), element)
    p.elements(value, target, loops(digits, [store]))
    p.places[value] = target


def _split(p: Steps, digit: tuple[str, Dim], split: Split) -> Sequence[tuple[str, Dim]]:
    name, size = digit
    if name != split.name:
        return (digit,)
    return (p.name("i"), divide(size, split.inner)[0]), (p.name("i"), split.inner)


@dataclass(frozen=True)
class _Digits(Regroup):
    """The loops around an element: what their indices count to."""

    extents: Mapping[str, Dim]
    known: Known
    more: int
    """How many loops may still be split."""

    def indices(self, op: Op, at: Sequence[Dim]) -> tuple[Dim, ...]:
        """The indices of a reshape's operand for those of its result. Raises Split, or Apart where there are none."""
        source = op.operands[0]
        digits = self._digits(linear(tuple(at), op.result.type.dims))
        if digits is None:
            raise Apart(source)
        found = []
        for place, size in reversed(list(enumerate(source.type.dims))):
            index, room = ZERO, ONE
            while digits and size.const != 1 and (place == 0 or not self.known.equal(room, size)):
                name, extent = digits[0]
                inner = _quotient(size, room)
                if inner is None or (_quotient(inner, extent) is None and place):
                    if inner is None or self.more == 0 or _quotient(extent, inner) is None:
                        raise Apart(source)
                    raise Split(name, inner)
                index, room = index + symbol(name) * room, room * extent
                digits = digits[1:]
            found.append(index)
        if digits:
            raise Apart(source)
        return tuple(reversed(found))

    def _digits(self, flat: Dim) -> list[tuple[str, Dim]] | None:
        """The loops of which a flat place is the number that their indices write, the lowest digit first."""
        names = [name for name in self.extents if name in flat.symbols()]
        zero = dict.fromkeys(names, 0)
        steps = {name: flat.substitute(zero | {name: 1}) for name in names}
        if flat is not sum((symbol(name) * step for name, step in steps.items()), ZERO):
            return None
        found, weight = [], ONE
        while steps:
            name = next((name for name, step in steps.items() if step is weight), None)
            if name is None:
                return None
            found.append((name, self.extents[name]))
            weight = weight * self.extents[name]
            del steps[name]
        return found


def _quotient(size: Dim, by: Dim) -> Dim | None:
    """size / by where that is exact by form."""
    if by is ONE or by.const == 0 or not by.terms:
        return size if by is ONE else None
    quotient, rest = divide(size, by)
    return quotient if rest is ZERO else None
