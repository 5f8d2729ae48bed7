"""Ops that move elements, as ONNX nodes: in the form that needs the fewest sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import helper, numpy_helper

from egshape.dims import Dim, const, minimum, product, relu
from egshape.dims.core import Relu
from egshape.errors import Unsupported
from egshape.facts import Relation
from egshape.frontends.onnx.emit_scope import Scope
from egshape.frontends.onnx.emit_sizes import AXES_AS_INPUT, Sizes
from egshape.frontends.onnx.types import elem_type_of
from egshape.frontends.size_terms import plan
from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import numpy_dtype

LAST = 2**63 - 1
"""The end of a slice that goes to the end of its axis."""

FIRST = -(2**63)

ZERO_SIZES = 14
"""The opset since which Reshape has ``allowzero``."""

COMPUTED_SLICES = 10
"""The opset since which Slice takes its places as inputs."""

RANGE = 11
"""The opset since which there is Range."""

WHERE = 9
"""The opset since which there are Where, NonZero and ConstantOfShape, and Flatten takes every dtype."""

FROM_THE_END = 11
"""The opset since which Gather counts negative places from the end."""

_FILLED = 1 << 14
"""Tensors of one number and of up to so many elements are initializers, larger ones a node that makes them."""


@dataclass(frozen=True)
class Pick:
    """One place on an axis of the operand of a slice, without the axis; a negative one counts from the end."""

    part: Op
    axis: int
    place: int


CONVERT = "convert the model to a newer opset first (onnx.version_converter)"


class Moves:
    """Writes movement ops."""

    def __init__(self, scope: Scope, sizes: Sizes) -> None:
        self.scope = scope
        self.sizes = sizes

    # -- reshapes ------------------------------------------------------------------------------------------------

    def reshape(self, name: str, source: Sequence[Dim], target: Sequence[Dim], hint: str) -> str:
        """The same elements in another shape."""
        checking = self._checking(source, target)
        if checking is not None:
            return self.scope.node("Reshape", [name, self.scope.ints(checking, "shape")], hint)
        added = inserted(source, target)
        if added is not None:
            return self._unsqueezed(name, added, hint) if added else self.scope.node("Identity", [name], hint)
        dropped = inserted(target, source) or left_out(target, source)
        if dropped and all(self.scope.must_be_one(source[axis]) for axis in dropped):
            return self.axes_changed("Squeeze", name, dropped, hint)
        numbers = self._static_target(source, target)
        if numbers is not None:
            if -1 not in numbers:
                self.scope.equal(product(source), product(target))
            return self.scope.node("Reshape", [name, self.scope.ints(numbers, "shape")], hint)
        rest = self._computed_rest(source, target)
        if rest is not None:
            return self.scope.node("Reshape", [name, self.sizes.vector(rest)], hint)
        positive = all(map(self._positive, target))
        if positive or self.scope.opset >= ZERO_SIZES:
            self.scope.equal(product(source), product(target))
        if positive:
            return self.scope.node("Reshape", [name, self.sizes.vector(target)], hint)
        if self.scope.opset < ZERO_SIZES:
            return self._reshape_without_zeros(name, source, target, hint)
        return self.scope.node("Reshape", [name, self.sizes.vector(target)], hint, allowzero=1)

    def _reshape_without_zeros(self, name: str, source: Sequence[Dim], target: Sequence[Dim], hint: str) -> str:
        """A reshape to sizes that may be 0, in an opset where a 0 copies a size of the operand: another op, or an
        operand that is 0 where the target is."""
        if dropped := left_out(target, source):
            return self.axes_changed("Squeeze", name, dropped, hint)  # as these must be 1
        if len(target) == 2 and self.scope.opset >= WHERE:
            for axis in range(len(source) + 1):
                if (product(source[:axis]), product(source[axis:])) == tuple(target):
                    return self.scope.node("Flatten", [name], hint, axis=axis)
        copies = all(
            self._positive(size) or (axis < len(source) and self._at_most(source[axis], size))
            for axis, size in enumerate(target)
        )
        if not copies and self.scope.opset >= WHERE and product(source) is product(target):
            line = self.scope.ints([-1, *[1] * (len(target) - 1)], "line")
            name = self.scope.node("Reshape", [name, line], f"{hint}_line")
            units = [const(1) if self._positive(size) else minimum(size, const(1)) for size in target[1:]]
            if any(size.const != 1 for size in units):  # 0 elements in, 0 elements out: nothing else changes
                name = self.scope.node("Expand", [name, self.sizes.vector([const(1), *units])], f"{hint}_empty")
        return self.scope.node("Reshape", [name, self.sizes.vector(target)], hint)

    def axes_changed(self, op: str, name: str, axes: Sequence[int], hint: str) -> str:
        """Squeeze or Unsqueeze."""
        if self.scope.opset >= AXES_AS_INPUT:
            return self.scope.node(op, [name, self.scope.ints(axes, "axes")], hint)
        return self.scope.node(op, [name], hint, axes=list(axes))

    def _checking(self, source: Sequence[Dim], target: Sequence[Dim]) -> list[int] | None:
        """The target as numbers, one size what is left, where no other form of the reshape makes a wanted check."""
        copied = [size.const is not None or size is held for size, held in zip(target, source, strict=False)]
        if not all(copied) or any(size.const in (0, None) for size in target[len(copied) :]):
            return None
        numbers = [size.const or 0 for size in target]
        if 0 in (size.const for size in target) or product(source) is not product(target):
            return None
        self._take_rest(target, numbers)
        return numbers if -1 in numbers else None

    def _static_target(self, source: Sequence[Dim], target: Sequence[Dim]) -> list[int] | None:
        """The target as numbers: 0 copies a size, -1 is what is left, where that cannot divide by 0."""
        out, left = [], []
        for axis, size in enumerate(target):
            if size.const == 0:
                return None
            if size.const is not None:
                out.append(size.const)
            elif axis < len(source) and size is source[axis]:
                out.append(0)
            else:
                left.append(axis)
                out.append(-1)
        if len(left) > 1:
            return None
        if left:
            others = product(size for axis, size in enumerate(target) if axis != left[0])
            if not self._positive(others) and not self.scope.left_over(others):
                return None
        elif product(source) is product(target):
            self._take_rest(target, out)
        return out

    def _computed_rest(self, source: Sequence[Dim], target: Sequence[Dim]) -> list[Dim] | None:
        """The target with -1 for the only size that no tensor has, and which has to be computed, where Reshape can take
        what is left, and that is surely this size. It hangs on what is known only, not on what is computed already:
        the checks that are left to nodes must be left to the same ones each time."""
        s = self.scope
        computed = [
            axis
            for axis, size in enumerate(target)
            if plan(size).operands and not any(size in frame.axes for frame in s.frames)
        ]
        if len(computed) != 1 or not s.surely_equal(product(source), product(target)):
            return None
        others = product(size for axis, size in enumerate(target) if axis != computed[0])
        if not self._positive(others) and not s.left_over(others):
            return None
        return [const(-1) if axis == computed[0] else size for axis, size in enumerate(target)]

    def _take_rest(self, target: Sequence[Dim], numbers: list[int]) -> None:
        """Let a size be what is left where that makes a check."""
        for axis in range(len(target)):
            if self.scope.left_over(product(size for at, size in enumerate(target) if at != axis), needless=True):
                numbers[axis] = -1
                return

    def _at_most(self, one: Dim, two: Dim) -> bool:
        return self.scope.bounds.decide(Relation("<=", one, two)) is True

    def nonnegative(self, size: Dim) -> bool:
        """Whether a size is known not to be negative."""
        return self._at_most(const(0), size)

    def _positive(self, size: Dim) -> bool:
        return self._at_most(const(1), size)

    def turned(self, name: str, order: Sequence[int], hint: str) -> str:
        """A tensor with its axes in this order; itself where it is theirs."""
        if list(order) == list(range(len(order))):
            return name
        return self.scope.shared("Transpose", [name], hint, self.scope.frame, perm=tuple(order))

    # -- broadcasts ----------------------------------------------------------------------------------------------

    def aligned(self, name: str, source: Sequence[Dim], axes: Sequence[int], rank: int, hint: str) -> str:
        """A tensor whose axes stand at ``axes`` of ``rank`` ones, in a form that ONNX broadcasts by itself."""
        if not source or tuple(axes) == tuple(range(rank - len(axes), rank)):
            return name
        order = sorted(range(len(axes)), key=axes.__getitem__)
        if order != list(range(len(axes))):
            return self.aligned(self.turned(name, order, f"{hint}_turned"), source, sorted(axes), rank, hint)
        first = axes[0]
        return self._unsqueezed(name, [axis - first for axis in range(first, rank) if axis not in axes], f"{hint}_unit")

    def _unsqueezed(self, name: str, axes: Sequence[int], hint: str) -> str:
        """A tensor with new axes, the same one each time."""
        key = ("unsqueezed", name, tuple(axes))
        found = self.scope.find(key)
        if found is None:
            found = self.scope.frame.memo[key] = self.axes_changed("Unsqueeze", name, axes, hint)
        return found

    def broadcast(self, op: Op, name: str, scalar: np.ndarray | None) -> str:
        """broadcast_in_dim as Expand, whose target is 1 where a size is there already; a number as ConstantOfShape."""
        x, axes, shape = op.operands[0], op.attrs["dims"], op.result.type.dims
        hint = op.result.name
        if scalar is not None:
            return self._filled(scalar, shape, hint)
        there = dict(zip(axes, x.type.dims, strict=True))
        moved = self.aligned(name, x.type.dims, axes, len(shape), hint)
        asked = [self._asked(there.get(axis), size) for axis, size in enumerate(shape)]
        target = [const(1) if there.get(axis) is size else asked[axis] for axis, size in enumerate(shape)]
        if all(size.const == 1 for size in target):
            first = min(axes, default=len(shape))
            return self.axes_changed("Unsqueeze", moved, range(first), hint) if first else moved
        for axis, size in there.items():
            self.scope.spreads([size, target[axis]], shape[axis])
        if not self.sizes.at_hand(target) and self.sizes.at_hand(asked):
            target = asked
        return self.scope.node("Expand", [moved, self.sizes.vector(target)], hint)

    def _asked(self, held: Dim | None, size: Dim) -> Dim:
        """What Expand is asked for so that an axis gets a size: it broadcasts by itself."""
        if held is None:
            return size
        term = plan(size)
        pairs = (term.operands, term.operands[::-1]) if term.kind == "bcast" else ()
        return next((other for one, other in pairs if one is held), size)

    def _filled(self, scalar: np.ndarray, shape: Sequence[Dim], hint: str) -> str:
        static = [size.const for size in shape if size.const is not None]
        if len(static) == len(shape) and (prod(static) <= _FILLED or self.scope.opset < WHERE):
            return self.scope.constant(np.full(static, scalar), hint)
        held = numpy_helper.from_array(scalar.reshape(1))
        return self.scope.node("ConstantOfShape", [self.sizes.vector(shape)], hint, value=held)

    # -- parts ---------------------------------------------------------------------------------------------------

    def slice(self, op: Op, name: str, backward: Sequence[int] = ()) -> str:
        """Parts of axes: ends that an axis has, and places counted from the end, are numbers. Axes that are taken
        ``backward`` are taken whole."""
        dims = op.operands[0].type.dims
        starts: list[Dim] = []
        ends: list[Dim] = []
        axes: list[int] = []
        steps: list[int] = []
        for axis, (size, start, limit, step) in enumerate(
            zip(dims, op.attrs["starts"], op.attrs["limits"], op.attrs["strides"], strict=True)
        ):
            if start.const == 0 and limit is size and step.const == 1 and axis not in backward:
                continue
            if step.const is None:
                raise Unsupported("a stride that is no number has no ONNX form", where=f"%{op.result.name}")
            axes.append(axis)
            if axis in backward:
                starts.append(const(-1))
                ends.append(const(FIRST))
                steps.append(-step.const)
                continue
            starts.append(_counted(self._unclamped(start, size), size))
            end = self._unbounded(limit, start)
            ends.append(const(LAST) if end is size else _counted(self._unclamped(end, size), size))
            steps.append(step.const)
        self._gives(op)
        if not axes:
            return self.scope.node("Identity", [name], op.result.name)
        return self._sliced(name, starts, ends, axes, steps, op.result.name)

    def _gives(self, op: Op) -> None:
        """Slice takes what there is, where the end lies behind that."""
        a, out = op.attrs, list(op.result.type.dims)
        for axis, (size, held) in enumerate(
            zip(op.operands[0].type.dims, self.scope.given(op.operands[0]), strict=True)
        ):
            if a["starts"][axis].const == 0 and a["strides"][axis].const == 1:
                limit = a["limits"][axis]
                out[axis] = held if limit is size else self.scope.taken(limit, held)
        self.scope.gives(op.result, out)

    def cut(self, name: str, starts: Sequence[Dim], ends: Sequence[Dim], axes: Sequence[int], hint: str) -> str:
        """What lies between places of some axes."""
        return self._sliced(name, starts, ends, axes, [1] * len(axes), hint)

    def _unbounded(self, limit: Dim, start: Dim) -> Dim:
        """x for max(x, start): Slice itself takes nothing where the end lies before the start."""
        for arg in _relus(limit):
            one = limit - relu(arg)
            for held, other in ((one, one + arg), (one + arg, one)):
                if held is start and self.nonnegative(other):
                    return other
        return limit

    def _unclamped(self, place: Dim, size: Dim) -> Dim:
        """x for min(x, size): Slice itself takes the end of the axis for places beyond it. Only for x that is not
        negative, which would count from the end."""
        for arg in _relus(-place):
            one = place + relu(arg)
            for held, other in ((one, one - arg), (one - arg, one)):
                if held is size and self.nonnegative(other):
                    return other
        return place

    def _sliced(
        self,
        name: str,
        starts: Sequence[Dim],
        ends: Sequence[Dim],
        axes: Sequence[int],
        steps: Sequence[int],
        hint: str,
    ) -> str:
        s = self.scope
        if s.opset < COMPUTED_SLICES:
            numbers = [[size.const for size in each] for each in (starts, ends)]
            if any(number is None for each in numbers for number in each) or any(step != 1 for step in steps):
                raise Unsupported("a slice at run-time places needs opset 10", where=hint, hint=CONVERT)
            return s.node("Slice", [name], hint, starts=numbers[0], ends=numbers[1], axes=list(axes))
        inputs = [name, self.sizes.vector(starts), self.sizes.vector(ends), s.ints(axes, "axes")]
        if any(step != 1 for step in steps):
            inputs.append(s.ints(steps, "steps"))
        return s.node("Slice", inputs, hint)

    def reverse(self, op: Op, name: str) -> str:
        """Axes backwards: a slice with the step -1."""
        return self.flipped(name, op.attrs["dims"], op.result.name)

    def flipped(self, name: str, axes: Sequence[int], hint: str) -> str:
        """A tensor with axes backwards."""
        ends = [const(FIRST)] * len(axes)
        return self._sliced(name, [const(-1)] * len(axes), ends, axes, [-1] * len(axes), hint)

    def pick(self, pick: Pick, name: str, hint: str) -> str:
        """One place on an axis, which Gather wants to be there."""
        size = pick.part.operands[0].type.dims[pick.axis]
        self.scope.rejects(Relation("<=", const(max(pick.place + 1, -pick.place)), size))
        place = self.scope.constant(np.array(pick.place, np.int64), "place")
        return self.scope.node("Gather", [name, place], hint, axis=pick.axis)

    def split(self, parts: Sequence[Op], name: str, axis: int, outputs: Sequence[str]) -> None:
        """One Split for slices that tile an axis."""
        s = self.scope
        sizes = [op.result.type.dims[axis] for op in parts]
        inputs, held = [name], {}
        if any(size is not sizes[0] for size in sizes) or s.opset >= 18:
            if s.opset >= AXES_AS_INPUT:
                inputs.append(self.sizes.vector(sizes))
            else:
                held["split"] = [size.const or 0 for size in sizes]
        s.frame.nodes.append(
            helper.make_node("Split", inputs, list(outputs), name=f"Split:{outputs[0]}", axis=axis, **held)
        )

    def iota(self, op: Op) -> str:
        """0, 1, ... along one axis: a Range, repeated over the others."""
        shape, axis, dtype = op.result.type.dims, op.attrs["dim"], op.result.type.dtype
        line = self.line(shape[axis], dtype)
        if len(shape) == 1:
            return line
        moved = self.aligned(line, (shape[axis],), (axis,), len(shape), op.result.name)
        target = [const(1) if place == axis else size for place, size in enumerate(shape)]
        return self.scope.node("Expand", [moved, self.sizes.vector(target)], op.result.name)

    def line(self, size: Dim, dtype: str) -> str:
        """0, 1, ... size - 1."""
        s = self.scope
        if size.const is not None and size.const <= 64:
            return s.constant(np.arange(size.const).astype(numpy_dtype(dtype)), "line")
        found = self._range(size) if s.opset >= RANGE else self._places(size)
        return found if dtype == "i64" else s.shared("Cast", [found], "line", s.frame, to=elem_type_of(dtype))

    def _range(self, size: Dim) -> str:
        s = self.scope
        limits = [
            s.constant(np.array(0, np.int64), "zero"),
            self.sizes.scalar(size),
            s.constant(np.array(1, np.int64), "one"),
        ]
        return s.shared("Range", limits, "line", s.frame)

    def _places(self, size: Dim) -> str:
        """The places of a vector of ones that are not 0."""
        s = self.scope
        if s.opset < WHERE:
            raise Unsupported(f"0, 1, ... needs opset {WHERE}", where=str(size), hint=CONVERT)
        one = numpy_helper.from_array(np.ones(1, np.int64))
        ones = s.node("ConstantOfShape", [self.sizes.one(size)], "ones", value=one)
        return s.node("Reshape", [s.node("NonZero", [ones], "places"), s.ints([-1], "flat")], "line")


def inserted(source: Sequence[Dim], target: Sequence[Dim]) -> list[int] | None:
    """The axes of size 1 that ``target`` has more than ``source``; None if that is not all the difference."""
    added: list[int] = []
    at = 0
    missing = len(target) - len(source)
    if missing < 0:
        return None
    for axis, size in enumerate(target):
        if (
            at < len(source)
            and size is source[at]
            and not (size.const == 1 and len(added) < missing and source[at:] != target[axis:])
        ):
            at += 1
        elif size.const == 1:
            added.append(axis)
        else:
            return None
    return added if at == len(source) and len(added) == missing else None


def left_out(target: Sequence[Dim], source: Sequence[Dim]) -> list[int] | None:
    """The axes of ``source`` that ``target`` does not have; None if it has others, or they stand in another order."""
    out: list[int] = []
    at = 0
    for axis, size in enumerate(source):
        if at < len(target) and size is target[at]:
            at += 1
        else:
            out.append(axis)
    return out if at == len(target) else None


def _relus(size: Dim) -> Iterator[Dim]:
    """Each x of which max(x, 0) is a term of a size."""
    for mono, coefficient in size.terms:
        if coefficient == 1 and len(mono) == 1 and isinstance(mono[0][0], Relu) and mono[0][1] == 1:
            yield mono[0][0].arg


def _counted(place: Dim, size: Dim) -> Dim:
    """A place on an axis; one that is at a fixed distance from the end is counted from there. Slice itself takes 0
    where the axis is shorter."""
    inside = next((arg for arg in _relus(place) if relu(arg) is place), place)
    behind = (inside - size).const
    return const(behind) if place.const is None and behind is not None and behind < 0 else place


def tiles(ops: Sequence[Op], x: Value) -> tuple[int, list[Op]] | None:
    """The slices of ``x`` that tile one axis of it, in order, and the axis; None if they do not."""
    found = [(axis, op) for op in ops if (axis := _only_axis(op)) is not None]
    for axis in dict.fromkeys(axis for axis, _ in found):
        parts = [op for other, op in found if other == axis]
        order, at = [], const(0)
        while True:
            step = next((op for op in parts if op.attrs["starts"][axis] is at and op not in order), None)
            if step is None:
                break
            order.append(step)
            at = step.attrs["limits"][axis]
        if len(order) > 1 and at is x.type.dims[axis] and len(order) == len(parts):
            return axis, order
    return None


def picked(block: Block, opset: int) -> dict[Value, Pick]:
    """Reshapes that only drop the axis on which a slice, read by nothing else, takes one place, by their results; but
    those whose slice may be made together with others of that axis, which are more."""
    readers = block.readers()
    slices = {op.result: op for op in block.ops if op.name == "slice" and len(op.operands) == 1}
    found = {}
    for op in block.ops:
        part = slices.get(op.operands[0]) if op.name == "reshape" else None
        if part is not None and readers[part.result] == 1 and (pick := _pick(part, op, opset)):
            found[op.result] = pick
    parts = {pick.part for pick in found.values()}
    alone = {
        pick.part
        for pick in found.values()
        if all(
            each in parts
            for each in slices.values()
            if each.operands == pick.part.operands and _only_axis(each) == pick.axis
        )
    }
    return {value: pick for value, pick in found.items() if pick.part in alone}


def backward(block: Block) -> dict[Value, Op]:
    """The reverses that only a slice reads which takes these axes whole, in steps, by the results of the slices: Slice
    steps backward by itself."""
    readers = block.readers()
    turned = {op.result: op for op in block.ops if op.name == "reverse" and readers[op.result] == 1}
    return {
        op.result: turned[op.operands[0]]
        for op in block.ops
        if op.name == "slice"
        and op.operands[0] in turned
        and all(
            op.attrs["starts"][axis].const == 0 and op.attrs["limits"][axis] is op.operands[0].type.dims[axis]
            for axis in turned[op.operands[0]].attrs["dims"]
        )
    }


def _pick(part: Op, reshape: Op, opset: int) -> Pick | None:
    axis, dims = _only_axis(part), part.result.type.dims
    if axis is None or dims[axis].const != 1 or (*dims[:axis], *dims[axis + 1 :]) != reshape.result.type.dims:
        return None
    place = _counted(part.attrs["starts"][axis], part.operands[0].type.dims[axis]).const
    return None if place is None or (place < 0 and opset < FROM_THE_END) else Pick(part, axis, place)


def _only_axis(op: Op) -> int | None:
    dims = op.operands[0].type.dims
    cut = [
        axis
        for axis, (size, start, limit) in enumerate(zip(dims, op.attrs["starts"], op.attrs["limits"], strict=True))
        if start.const != 0 or limit is not size
    ]
    plain = all(step.const == 1 for step in op.attrs["strides"])
    return cut[0] if plain and len(cut) == 1 else None
