"""Images with their channels last between convolutions, where a model has them first.

Rows of a product are places then and columns features: results are stored as whole vectors, lines need no padding
between them, and windows and depthwise sums are vectors of channels. What lies between convolutions (elementwise work,
windows, concatenations, slices, padding, reductions) is turned with them, and makes a region of them; what comes into
a region, or leaves it, is transposed. A region stays as it was if its convolutions do not pay for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from egshape.dims import Dim
from egshape.dims import product as total
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import TensorType
from egshape.ops.contraction import summed_in
from egshape.plan.analysis.elements import is_elementwise
from egshape.plan.cpu.convolution import kinds
from egshape.plan.ir.packs import pack_step

FULL = 0.6
"""The part of a vector that the features of a result must fill at least, on average."""
FEW = 8
"""Channels up to which an image is transposed for nothing: its copy, padded, is small."""
DEEP = 512
"""Products of an element from which a convolution takes so long that transposing images is a small part of it."""
_FREE = frozenset(("broadcast_in_dim", "constant", "iota"))
"""What is read in any order of axes."""
Axes = tuple[int, ...]


def channels_last(graph: Graph) -> Graph:
    """The graph with the channels of images last where its convolutions gain by it."""
    return replace(graph, body=_turned(graph.body))


def _turned(block: Block) -> Block:
    if any(op.regions for op in block.ops):
        ops = tuple(replace(op, regions=tuple(map(_turned, op.regions))) if op.regions else op for op in block.ops)
        block = replace(block, ops=ops)
    chosen = frozenset(filter(_gains, block.ops))
    while chosen:
        made = _Turned(block, chosen)
        turned, kept = made.block(), made.worth()
        if kept == chosen:
            return turned
        chosen = kept
    return block


def _gains(op: Op) -> bool:
    """Whether an op is a convolution of images, channels first, whose features fill vectors."""
    if not kinds.is_product(op):
        return False
    batch, feature, space, _, _, _, *result = op.attrs["numbers"]
    channels = op.result.type.dims[1].const
    if (batch, feature, *space) != (*range(op.result.type.rank),) or result != [batch, feature, space]:
        return False
    step, groups = pack_step(summed_in(op.attrs["dtype"])), op.attrs["feature_groups"]
    if not channels:
        return False
    each = channels if groups == channels else channels // groups
    return each >= FULL * step * -(-each // step)


def _pays(convolution: Op) -> int:
    """What a convolution counts in a region, whose convolutions must count more than its transposed images."""
    _, _, _, k_in, _, k_space, *_ = convolution.attrs["numbers"]
    kernel = convolution.operands[1].type.dims
    depth = total(kernel[axis] for axis in (k_in, *k_space)).const
    return 3 if depth is not None and depth >= DEEP else 1


def _order(rank: int) -> Axes:
    """The axes of an image, channels last."""
    return (0, *range(2, rank), 1)


def _back(order: Axes) -> Axes:
    return tuple(map(order.index, range(len(order))))


def _some(order: Axes, items: Sequence[Any], each: int = 1) -> tuple[Any, ...]:
    """Attributes by axis, ``each`` of them for an axis, in an order of the axes."""
    return tuple(items[each * axis + k] for axis in order for k in range(each))


class _Turned:
    """Copies a block with the ``chosen`` convolutions turned. ``last`` holds what there is with channels last,
    ``first`` what there is as it was."""

    def __init__(self, block: Block, chosen: frozenset[Op]) -> None:
        self._block, self._chosen = block, chosen
        self._larger: dict[Op, Op] = {}
        """Regions by one of their convolutions: of which larger one they became a part."""
        self._of: dict[Value, Op] = {}
        """The region of a value that lies with channels last."""
        self._crossed: list[Value] = []
        """What was transposed at the ends of regions."""
        self._ops: list[Op] = []
        self._last: dict[Value, Value] = {}
        self._made_last: set[Value] = set()
        """Values that ops give with channels last."""
        self._first: set[Value] = set(block.args)
        self._waiting: dict[Value, Op] = {}
        """Broadcasts and constants of the block that nothing has read yet."""
        self._producers = {result: op for op in block.ops for result in op.results}
        self._bound = {each.value for each in block.symbols}

    def block(self) -> Block:
        """The block, turned."""
        for op in self._block.ops:
            make = self._maker(op)
            if make is not None:
                make(op)
            elif op.name in _FREE and op.result not in self._bound:
                self._waiting[op.result] = op
            else:
                self._kept(op)
        for value in (*self._block.results, *(each.value for each in self._block.symbols)):
            self._as_it_was(value)
        return replace(self._block, ops=tuple(self._ops))

    def worth(self) -> frozenset[Op]:
        """The convolutions of the regions whose convolutions pay for the values that were transposed."""
        crossed = Counter(self._region(self._of[value]) for value in self._crossed if value in self._of)
        paid = Counter[Op]()
        for op in self._chosen:
            paid[self._region(op)] += _pays(op)
        return frozenset(op for op in self._chosen if paid[self._region(op)] > crossed[self._region(op)])

    def _is_image(self, value: Value) -> bool:
        """Whether a value lies in memory, in one order of its axes."""
        op = self._producers.get(value)
        return value in self._made_last or op is None or op.name not in _FREE

    def _region(self, op: Op) -> Op:
        while op in self._larger:
            op = self._larger[op]
        return op

    def _join(self, op: Op, values: Iterable[Value]) -> None:
        """Make the regions of an op and of what it reads one; what it gives lies there."""
        parts = [self._region(self._of[value]) for value in values if value in self._of]
        whole = op if op in self._chosen else parts[0]
        self._larger.update({part: whole for part in parts if part is not whole})
        self._of.update(dict.fromkeys((*op.results, *values), whole))

    def _maker(self, op: Op) -> Callable[[Op], None] | None:
        """How an op is turned; None if it is not."""
        if not op.results or any(value in self._bound or value.type.shape is None for value in op.results):
            return None
        if op in self._chosen:
            return self._convolution
        if self._made_last.isdisjoint(op.operands):
            return None
        if is_elementwise(op):
            return self._elementwise if self._cheap(op) else None
        return {
            "reduce_window": self._windows,
            "reduce": self._reduced,
            "concatenate": self._moved,
            "slice": self._moved,
            "pad": self._moved,
            "reverse": self._moved,
            "broadcast_in_dim": self._broadcast,
        }.get(op.name)

    def _cheap(self, op: Op) -> bool:
        """Whether most operands of an elementwise op are there with channels last, or may be read in any order."""
        wide = [value for value in op.operands if value.type.rank]
        free = [value for value in wide if value in self._waiting]
        turned = [value for value in wide if value in self._last]
        return len({value.type.rank for value in wide}) == 1 and 2 * len(turned) >= len(wide) - len(free)

    # -- values -------------------------------------------------------------------------------------------------------

    def _as_it_was(self, value: Value) -> Value:
        """A value as the block has it, made if it was not needed before."""
        if value in self._waiting:
            self._kept(self._waiting.pop(value))
        elif value in self._last and value not in self._first:
            turned = self._last[value]
            self._first.add(value)
            self._transposed(turned, value, _back(_order(value.type.rank)), value)
        return value

    def _turn(self, value: Value) -> Value:
        """A value with channels last."""
        found = self._last.get(value)
        if found is None and value in self._waiting:
            found = self._spread(value, self._waiting[value])
        if found is None:
            found = self._new(self._as_it_was(value))
            self._transposed(value, found, _order(value.type.rank), value)
        self._last[value] = found
        return found

    def _new(self, value: Value) -> Value:
        sizes = value.type.dims
        return Value(f"{value.name}.last", TensorType(value.type.dtype, _some(_order(len(sizes)), sizes)))

    def _transposed(self, source: Value, target: Value, order: Axes, image: Value) -> None:
        """Add what moves the axes of an image: where only axes of one place are passed, nothing moves in memory."""
        sizes = source.type.dims
        moved = [axis for axis in order if sizes[axis].const != 1]
        if moved == sorted(moved):
            self._ops.append(Op("reshape", (source,), {"shape": target.type.dims}, (target,)))
            return
        self._ops.append(Op("transpose", (source,), {"permutation": order}, (target,)))
        channels = image.type.dims[1].const
        if self._is_image(image) and (channels is None or channels > FEW):
            self._crossed.append(image)

    def _spread(self, value: Value, op: Op) -> Value | None:
        """A broadcast or an iota with channels last, of what it is made of."""
        place = _back(_order(value.type.rank))
        target = self._new(value)
        attrs: dict[str, Any] = dict(op.attrs)
        if "shape" in attrs:
            attrs["shape"] = target.type.dims
        if op.name == "iota":
            attrs["dim"] = place[attrs["dim"]]
        elif op.name == "broadcast_in_dim":
            attrs["dims"] = tuple(place[axis] for axis in attrs["dims"])
        else:
            return None
        self._add(op, tuple(map(self._as_it_was, op.operands)), attrs, (target,))
        return target

    def _add(self, op: Op, operands: Sequence[Value], attrs: Any, results: Sequence[Value]) -> None:
        for value in op.captures():
            self._as_it_was(value)
        self._ops.append(replace(op, operands=tuple(operands), attrs=attrs, results=tuple(results)))

    def _kept(self, op: Op) -> None:
        """An op as it was."""
        self._add(op, tuple(map(self._as_it_was, op.operands)), op.attrs, op.results)
        self._first.update(op.results)

    def _made(self, op: Op, operands: Sequence[Value], attrs: Any) -> None:
        """An op whose results have channels last."""
        self._join(op, [value for value in op.operands if value in self._last and self._is_image(value)])
        results = tuple(map(self._new, op.results))
        self._add(op, operands, attrs, results)
        self._last.update(zip(op.results, results, strict=True))
        self._made_last.update(op.results)

    # -- ops ----------------------------------------------------------------------------------------------------------

    def _convolution(self, op: Op) -> None:
        _, _, _, k_in, k_out, k_space, *_ = op.attrs["numbers"]
        rank = op.result.type.rank
        space = (*range(1, rank - 1),)
        numbers = (0, rank - 1, space, k_in, k_out, k_space, 0, rank - 1, space)
        x, kernel = op.operands
        self._made(op, (self._turn(x), self._as_it_was(kernel)), {**op.attrs, "numbers": numbers})

    def _elementwise(self, op: Op) -> None:
        self._made(op, [self._turn(x) if x.type.rank else self._as_it_was(x) for x in op.operands], op.attrs)

    def _windows(self, op: Op) -> None:
        half = len(op.operands) // 2
        order = _order(op.results[0].type.rank)
        attrs = {key: _some(order, items, 2 if key == "padding" else 1) for key, items in op.attrs.items()}
        operands = [*map(self._turn, op.operands[:half]), *map(self._as_it_was, op.operands[half:])]
        self._made(op, operands, attrs)

    def _moved(self, op: Op) -> None:
        order = _order(op.result.type.rank)
        place = _back(order)
        attrs: dict[str, Any] = {}
        for key, item in op.attrs.items():
            if key == "dim":
                attrs[key] = place[item]
            elif key == "dims":
                attrs[key] = tuple(sorted(place[axis] for axis in item))
            else:
                attrs[key] = _some(order, item)
        operands = [self._turn(x) if x.type.rank else self._as_it_was(x) for x in op.operands]
        self._made(op, operands, attrs)

    def _reduced(self, op: Op) -> None:
        """A reduction: what is left of the axes is as it was, or with channels last too."""
        half = len(op.operands) // 2
        rank = op.operands[0].type.rank
        order, place = _order(rank), _back(_order(rank))
        dims = op.attrs["dims"]
        left = [axis for axis in range(rank) if axis not in dims]
        turned = [axis for axis in order if axis not in dims]
        image = turned == [left[axis] for axis in _order(len(left))] if len(left) > 2 else False
        if left != turned and not image:
            self._kept(op)
            return
        operands = [*map(self._turn, op.operands[:half]), *map(self._as_it_was, op.operands[half:])]
        attrs = {**op.attrs, "dims": tuple(sorted(place[axis] for axis in dims))}
        if left == turned:
            self._add(op, operands, attrs, op.results)
            self._first.update(op.results)
        else:
            self._made(op, operands, attrs)

    def _broadcast(self, op: Op) -> None:
        """A broadcast of an image to one of its rank, each axis to its own."""
        (x,) = op.operands
        rank = op.result.type.rank
        if x.type.rank != rank or op.attrs["dims"] != (*range(rank),):
            self._kept(op)
            return
        sizes: tuple[Dim, ...] = _some(_order(rank), op.attrs["shape"])
        self._made(op, [self._turn(x)], {**op.attrs, "shape": sizes})
