"""The operands of a convolution as products read them: the input padded, the kernel in an order of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np

from egshape.dims import Dim, ceildiv, const, maximum, minimum, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.ir.types import numpy_dtype
from egshape.ops.contraction import summed_in
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.form.dots import converted, undilated, zero
from egshape.plan.form.epilogue import Cluster
from egshape.plan.form.matrices import ONE, Axes, loops
from egshape.plan.form.predicate_split import split_predicates
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Choose, Expr, Stmt, Store, Test, linear
from egshape.plan.ir.packs import pack_step

MOST_PHASES = 16
"""Kinds of places up to which each has products of its own."""
FEW_PARTS = 4
"""Parts of the padded input up to which each is copied by loops of its own."""


def index_of(p: Steps, size: Dim) -> Dim:
    """A new loop variable over an axis; 0 where there is one place only."""
    return ZERO if size.const == 1 else symbol(p.name("i"))


def _without_units(op: Op) -> dict[str, Any]:
    """The attributes of a convolution without its axes of one place and one tap, but for one: rows are longer so."""
    a, (x, kernel) = op.attrs, op.operands[:2]
    *ends, space, k_in, k_out, k_space, o_batch, o_feature, o_space = a["numbers"]

    def unit(d: int) -> bool:
        sizes = x.type.dims[space[d]], kernel.type.dims[k_space[d]], op.result.type.dims[o_space[d]]
        bare = a["padding"][2 * d] is ZERO and a["padding"][2 * d + 1] is ZERO and a["lhs_dilation"][d] == 1
        return bare and all(size is ONE for size in sizes)

    kept = [d for d in range(len(space)) if not unit(d)] or [0]

    def some(each: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(each[d] for d in kept)

    numbers = (*ends, some(space), k_in, k_out, some(k_space), o_batch, o_feature, some(o_space))
    padding = tuple(a["padding"][2 * d + side] for d in kept for side in (0, 1))
    by_axis = {key: some(a[key]) for key in ("strides", "lhs_dilation", "rhs_dilation", "reversal")}
    return {**a, **by_axis, "numbers": numbers, "padding": padding}


@dataclass(frozen=True)
class _Phase:
    """Places of the result that are ``number`` modulo the dilation of the input: the first of their taps, how many of
    them there are, and the place of the input that the first one reads."""

    number: int
    first: int
    taps: Dim
    start: int


def _phase(number: int, dilation: int, low: int, size: int) -> _Phase:
    first = (low - number) % dilation
    return _Phase(number, first, const(max(-(-(size - first) // dilation), 0)), (number + first - low) // dilation)


class Operands:
    """The sizes of a convolution, all by group: ``inputs`` and ``outputs`` features, ``taps``, places ``spots``."""

    def __init__(self, p: Steps, cluster: Cluster) -> None:
        self.p, self.cluster, self.op = p, cluster, cluster.ops[0]
        self.x, self.kernel = self.op.operands[:2]
        a = self.a = _without_units(self.op)
        self.dtype = summed_in(a["dtype"])
        """Of the sums, and of what is multiplied."""
        self.groups: int = a["feature_groups"]
        shape = self.op.result.type.dims
        _, _, self.space, self.k_in, self.k_out, self.k_space, self.o_batch, self.o_feature, self.o_space = a["numbers"]
        self.count = shape[self.o_batch]
        self.outputs = shape[self.o_feature] // self.groups
        self.inputs = self.kernel.type.dims[self.k_in]
        kept = p.arrays.of(self.kernel)
        half = self.dtype != self.kernel.type.dtype
        self.kept = kept.astype(numpy_dtype(self.dtype)) if kept is not None and half else kept
        """The kernel, if it is constant."""
        self.taps = tuple(self.kernel.type.dims[axis] for axis in self.k_space)
        self.full = self.taps
        """All taps: ``taps`` are those that count (``trim``, ``phases``), from ``first`` on, ``spread`` apart."""
        self.first, self.spread = (ZERO,) * len(self.taps), (1,) * len(self.taps)
        self.shift = self.phase = (ZERO,) * len(self.taps)
        """How far into the padded input the first place reads, and where it lies in the result, whose places of this
        kind are ``spread`` apart."""
        self.skip = (ZERO,) * len(self.taps)
        """Places of the input that no tap of the first place reads, as it lies."""
        self.spots = tuple(shape[axis] for axis in self.o_space)
        self.depth = self.inputs * total(self.taps)
        self.last = self.o_feature == len(shape) - 1
        self.quads = False
        """Whether elements are four bytes each."""
        self.group = index_of(p, const(self.groups))

    def at(self, image: Dim, feature: Dim, spots: Indices) -> Indices:
        """The indices of an element of the result."""
        found = [ZERO] * self.op.result.type.rank
        found[self.o_batch], found[self.o_feature] = image, feature
        for axis, spot, spread, phase in zip(self.o_space, spots, self.spread, self.phase, strict=True):
            found[axis] = spot * spread + phase
        return tuple(found)

    def parts(self) -> tuple[int, ...]:
        """Parts into which each axis of the padded input is split: those that taps fall in."""
        found = []
        for size, stride, step in zip(self.taps, self.a["strides"], self.a["rhs_dilation"], strict=True):
            found.append(stride if size.const is None else min(stride, (size.const - 1) * step + 1))
        return tuple(found)

    def padded(self) -> tuple[Buffer, tuple[Dim, ...]]:
        """The input padded, features first, split by the stride; and its sizes: images, features, parts, places."""
        p, a = self.p, self.a
        split = self.parts()
        # A line has room for all of its places, without a tap too: what steps from line to line relies on it.
        rooms = tuple(
            spot + maximum((size - 1) * step // stride, 0)
            for spot, size, step, stride in zip(self.spots, self.taps, a["rhs_dilation"], a["strides"], strict=True)
        )
        sizes = (self.count, self.inputs * self.groups, *(const(each) for each in split), *rooms)
        at = tuple(index_of(p, size) for size in sizes)
        every = [at[2 : 2 + len(split)]]
        if np.prod(split) <= FEW_PARTS:  # each with loops of its own, which can be cut where the padding ends
            every = [tuple(map(const, part)) for part in np.ndindex(*split)]
        inner: list[Stmt] = []
        target = self.scratch(sizes)
        for part in every:
            place = at[2 + len(split) :]
            wide = tuple(one + many * stride for one, many, stride in zip(part, place, a["strides"], strict=True))
            axes = [*zip(part, sizes[2:], strict=False), *zip(place, rooms, strict=True)]
            inner += self.copied(target, linear((*at[:2], *part, *place), sizes), axes, at[0], at[1], wide)
        p.run("pad", loops(zip(at[:2], sizes[:2], strict=True), inner), (target,), once=True)
        return target, sizes

    def scratch(self, sizes: Sequence[Dim]) -> Buffer:
        """Room for the padded input. Runs are copied by whole vectors: the last one may read beyond the elements."""
        self.p.start()
        return self.p.scratch("padded", self.dtype, total(sizes) + pack_step(self.dtype))

    def copied(
        self, target: Buffer, index: Dim, axes: Axes, image: Dim, feature: Dim, wide: Indices
    ) -> tuple[Stmt, ...]:
        """Loops that copy elements of the padded input at ``wide``, without a test inside where sizes allow."""
        a = self.a
        batch, axis, *_ = a["numbers"]
        place, tests = [ZERO] * self.x.type.rank, []
        place[batch], place[axis] = image, feature
        for d, (where, position) in enumerate(zip(self.space, wide, strict=True)):
            place[where], needed = undilated(
                position - a["padding"][2 * d], const(a["lhs_dilation"][d]), self.x.type.dims[where]
            )
            tests += [test for test in needed if test.const is None or test.const < 0]
        value = self.element(place, axis, tests)
        axes = [(index, size) for index, size in axes if index.symbols()]
        return split_predicates(loops(axes, [Store(target, index, value)]))

    def element(self, place: list[Dim], axis: int, tests: Sequence[Dim]) -> Expr:
        """An element of the copy; ``axis`` is that of the features, what is tested that it is no padding."""
        value = converted(self.dtype, self.p.read(self.x, tuple(place)))
        return Choose(self.dtype, Test(tuple(tests)), value, zero(self.dtype)) if tests else value

    def weights(self, order: str) -> Buffer:
        """The kernel with its axes in an order of g(roup), o(utput), i(nput) and t(aps), reversal undone."""
        p = self.p
        root = p.resolved(self.kernel)
        if self.kept is not None:
            key = (root, order, self.a["numbers"], self.a["reversal"], self.groups)
            if key not in p.packed:
                data = self.arranged(self.kept, order)
                name = f"{root.name}.{order}.{len(p.packed)}"
                p.packed[key] = Buffer(name, self.dtype, const(data.size), "const", data.reshape(-1))
            return p.packed[key]
        sizes = {"g": (const(self.groups),), "o": (self.outputs,), "i": (self.inputs,), "t": self.taps}
        at = {name: tuple(index_of(p, size) for size in each) for name, each in sizes.items()}
        place = [ZERO] * self.kernel.type.rank
        place[self.k_in], place[self.k_out] = at["i"][0], at["g"][0] * self.outputs + at["o"][0]
        for d, axis in enumerate(self.k_space):
            step = at["t"][d]
            place[axis] = self.taps[d] - 1 - step if self.a["reversal"][d] else step
        indices = tuple(index for name in order for index in at[name])
        whole = tuple(size for name in order for size in sizes[name])
        p.start()
        target = p.scratch("weights", self.dtype, total(whole) + pack_step(self.dtype))
        store = Store(target, linear(indices, whole), converted(self.dtype, p.read(self.kernel, tuple(place))))
        p.run("weights", loops(list(zip(indices, whole, strict=True)), [store]), (target,), once=True)
        return target

    def arranged(self, array: np.ndarray, order: str) -> np.ndarray:
        """``weights`` of a constant kernel."""
        back = tuple(axis for d, axis in enumerate(self.k_space) if self.a["reversal"][d])
        flipped = np.flip(array, back) if back else array
        units = set(range(array.ndim)) - {self.k_out, self.k_in, *self.k_space}
        turned = flipped.transpose(self.k_out, self.k_in, *self.k_space, *units)
        apart = turned.reshape(self.groups, -1 if array.size else 0, *turned.shape[1:])
        axes = {"g": (0,), "o": (1,), "i": (2,), "t": tuple(range(3, apart.ndim))}
        return np.ascontiguousarray(apart.transpose([axis for name in order for axis in axes[name]]))

    def input_at(self, image: Dim, channel: Dim, spots: Indices) -> Indices:
        """The indices of an element of the input; the channel is one of a group."""
        batch, axis, *_ = self.a["numbers"]
        place = [ZERO] * self.x.type.rank
        place[batch], place[axis] = image, self.group * self.inputs + channel
        for where, spot in zip(self.space, spots, strict=True):
            place[where] = spot
        return tuple(place)

    def flat(self) -> tuple[Buffer, tuple[Dim, ...]]:
        """The input padded, features last; and its sizes."""
        framed = self.p.frames.get(self.p.resolved(self.x))
        if framed is not None:
            axes = self.a["numbers"][0], *self.space, self.a["numbers"][1]
            low = (framed.low[axis] for axis in self.space)
            self.skip = tuple(one - two for one, two in zip(low, self.a["padding"][::2], strict=True))
            return framed.buffer, tuple(framed.sizes[axis] for axis in axes)
        rooms = tuple(
            (spot - 1) * stride + (size - 1) * step + 1
            for spot, size, step, stride in zip(
                self.spots, self.taps, self.a["rhs_dilation"], self.a["strides"], strict=True
            )
        )
        sizes = (self.count, *(maximum(room, 0) for room in rooms), self.inputs * self.groups)
        at = tuple(index_of(self.p, size) for size in sizes)
        target = self.scratch(sizes)
        nest: Axes = list(zip(at, sizes, strict=True))
        inner = self.copied(target, linear(at, sizes), nest[1:], at[0], at[-1], at[1:-1])
        self.p.run("pad", loops(nest[:1], inner), (target,), once=True)
        return target, sizes

    def tapped(self, sizes: tuple[Dim, ...], image: Dim, spots: Sequence[Dim], taps: Indices, channel: Dim) -> Dim:
        """Where the input of a place at a tap lies, features last."""
        place = tuple(
            spot * stride + tap * step + skip
            for spot, stride, tap, step, skip in zip(
                spots, self.a["strides"], taps, self.a["rhs_dilation"], self.skip, strict=True
            )
        )
        return linear((image, *place, self.group * self.inputs + channel), sizes)

    def split(self, sizes: tuple[Dim, ...], image: Dim, spots: Indices, taps: Indices, channel: Dim) -> Dim:
        """Where the input of a place at a tap lies in the padded input that is split by the stride."""
        reach = self.reach(taps)
        part, place = reach[: len(taps)], (spot + each for spot, each in zip(spots, reach[len(taps) :], strict=True))
        return linear((image, self.group * self.inputs + channel, *part, *place), sizes)

    def index(self, sizes: tuple[Dim, ...], image: Dim, spots: Indices, taps: Indices, channel: Dim) -> Dim:
        """Where the input of a place at a tap lies in the padded input."""
        ahead = tuple(spot + shift for spot, shift in zip(spots, self.shift, strict=True))
        return (self.tapped if self.last else self.split)(sizes, image, ahead, taps, channel)

    def phases(self) -> list[Self]:
        """A convolution whose input is dilated as one of the input itself for each place within the dilation: only some
        taps meet an element there, and a zero times a finite number is nothing to the sum. Empty where it is none,
        or dilation, padding and kernel are not known. From now on this one has the sizes that cover all."""
        a, axes = self.a, range(len(self.taps))
        if self.quads or self.kept is None or not np.isfinite(self.kept).all() or np.prod(a["lhs_dilation"]) == 1:
            return []
        every: list[list[_Phase]] = []
        for d in axes:
            dilation, low, size = a["lhs_dilation"][d], a["padding"][2 * d].const, self.taps[d].const
            if dilation == 1:
                every.append([_Phase(0, 0, self.taps[d], 0)])
                continue
            if low is None or size is None or a["strides"][d] != 1 or a["rhs_dilation"][d] != 1:
                return []
            every.append([_phase(number, dilation, low, size) for number in range(dilation)])
        if np.prod([len(each) for each in every]) > MOST_PHASES:
            return []
        before = [min(each.start for each in some) if len(some) > 1 else 0 for some in every]
        spots, spread = self.spots, tuple(a["lhs_dilation"])
        found = []
        for some in product(*every):
            one = copy(self)
            one.first, one.spread = tuple(const(each.first) for each in some), spread
            one.taps, one.phase = tuple(each.taps for each in some), tuple(const(each.number) for each in some)
            one.shift = tuple(const(each.start - begin) for each, begin in zip(some, before, strict=True))
            one.spots = tuple(
                ceildiv(spot - each.number, const(step)) for spot, each, step in zip(spots, some, spread, strict=True)
            )
            found.append(one)
        padding = list(a["padding"])
        taps = list(self.taps)
        for d in axes:
            if spread[d] > 1:
                padding[2 * d] = const(-before[d])
                taps[d] = const(max(each.start - before[d] + (each.taps.const or 0) for each in every[d]))
        self.spots = tuple(ceildiv(spot, const(step)) for spot, step in zip(spots, spread, strict=True))
        self.taps, self.a = tuple(taps), {**a, "padding": tuple(padding), "lhs_dilation": (1,) * len(taps)}
        for one in found:
            one.a = self.a
        return found

    def reach(self, taps: Indices) -> Indices:
        """The part that a tap falls in, and how far from a place's own."""
        reach = [tap * step for tap, step in zip(taps, self.a["rhs_dilation"], strict=True)]
        strides = self.a["strides"]
        part = (each % stride if stride > 1 else ZERO for each, stride in zip(reach, strides, strict=True))
        return *part, *(each // stride for each, stride in zip(reach, strides, strict=True))

    def trim(self) -> None:
        """Leave taps out that fall into the padding at every place, which images of one line have: a zero times a
        finite number is nothing to the sum."""
        if self.kept is None or not np.isfinite(self.kept).all():
            return
        a = self.a
        taps, first, padding = list(self.taps), list(self.first), list(a["padding"])
        for d, size in enumerate(self.taps):
            low, step, spread = padding[2 * d], a["rhs_dilation"][d], a["lhs_dilation"][d]
            if size is ONE or (low is ZERO and padding[2 * d + 1] is ZERO):
                continue
            last = (self.x.type.dims[self.space[d]] - 1) * spread + low
            first[d] = minimum(maximum(ceildiv(low - (self.spots[d] - 1) * a["strides"][d], const(step)), 0), size)
            taps[d] = maximum(minimum(last // step + 1, size) - first[d], 0)
            padding[2 * d] = low - first[d] * step
        self.taps, self.first, self.a = tuple(taps), tuple(first), {**a, "padding": tuple(padding)}
