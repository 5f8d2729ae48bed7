"""Convolution: products with patches of the input that are gathered a panel at a time, or direct sums.

The input is copied once, padded, so that no tap needs a test. Where the features of the result lie together, rows of a
product are places of the result and its columns features; else rows are features and columns places. For the latter
the padded input is split by the stride (element s*i + r goes to part r, place i), so that places of a row whose
tap is the same lie side by side at every stride and dilation. Few features of a group are summed directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egshape.dims import Dim, ceildiv, const, maximum, minimum, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.plan.contraction import converted, undilated, zero
from egshape.plan.loops import (
    ROW_GROUP,
    Assign,
    Buffer,
    Call,
    Choose,
    Expr,
    Gather,
    Index,
    LetIndex,
    Load,
    Local,
    Matrix,
    Stmt,
    Store,
    Test,
    Var,
    linear,
    panel_columns,
    panel_step,
)
from egshape.plan.panels import ONE, Axes, Right, loops, matrix, packed, parts
from egshape.plan.reader import ZERO, Indices

if TYPE_CHECKING:
    from egshape.plan.epilogue import Cluster
    from egshape.plan.planner import Planner

FEW_FEATURES = 4
"""Input times output features of a group up to which sums are direct."""
FEW_TAPS = 64
"""Taps up to which a direct sum is written out."""


def is_product(op: Op) -> bool:
    """Whether a convolution is computed by products, or direct sums, of f32 or f64."""
    if op.name != "convolution" or op.result.type.rank < 3:
        return False
    dtype = op.attrs["dtype"]
    return (dtype in ("f32", "f64") and op.attrs["batch_groups"] == 1
            and all(x.type.dtype == dtype for x in op.operands[:2]))


def emit(p: Planner, cluster: Cluster) -> None:
    """Add the kernels of a convolution and its epilogue."""
    c = _Convolution(p, cluster)
    if c.groups > 1 and (c.inputs * c.outputs).const is not None and (c.inputs * c.outputs).const <= FEW_FEATURES:
        c.sums()
    elif c.last:
        c.places_by_features()
    else:
        c.features_by_places()


def _index(p: Planner, size: Dim) -> Dim:
    return ZERO if size.const == 1 else symbol(p.name("i"))


class _Convolution:
    """The sizes of a convolution, all by group: ``inputs`` and ``outputs`` features, ``taps``, places ``spots``."""

    def __init__(self, p: Planner, cluster: Cluster) -> None:
        self.p, self.cluster, self.op = p, cluster, cluster.ops[0]
        a = self.a = self.op.attrs
        self.x, self.kernel = self.op.operands[:2]
        self.dtype: str = a["dtype"]
        self.groups: int = a["feature_groups"]
        shape = self.op.result.type.dims
        _, _, self.space, self.k_in, self.k_out, self.k_space, self.o_batch, self.o_feature, self.o_space = a["numbers"]
        self.count = shape[self.o_batch]
        self.outputs = shape[self.o_feature] // self.groups
        self.inputs = self.kernel.type.dims[self.k_in]
        self.taps = tuple(self.kernel.type.dims[axis] for axis in self.k_space)
        self.spots = tuple(shape[axis] for axis in self.o_space)
        self.depth = self.inputs * total(self.taps)
        self.last = self.o_feature == len(shape) - 1
        self.group = _index(p, const(self.groups))

    def at(self, image: Dim, feature: Dim, spots: Indices) -> Indices:
        """The indices of an element of the result."""
        found = [ZERO] * (len(spots) + 2)
        found[self.o_batch], found[self.o_feature] = image, feature
        for axis, spot in zip(self.o_space, spots, strict=True):
            found[axis] = spot
        return tuple(found)

    # -- operands -------------------------------------------------------------------------------------------------

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
        rooms = tuple(spot + (size - 1) * step // stride for spot, size, step, stride in
                      zip(self.spots, self.taps, a["rhs_dilation"], a["strides"], strict=True))
        sizes = (self.count, self.inputs * self.groups, *(const(each) for each in split), *rooms)
        at = tuple(_index(p, size) for size in sizes)
        rank = len(split)
        wide = tuple(part + place * stride for part, place, stride in
                     zip(at[2:2 + rank], at[2 + rank:], a["strides"], strict=True))
        return self.copied(sizes, at, at[0], at[1], wide), sizes

    def copied(self, sizes: Sequence[Dim], at: Indices, image: Dim, feature: Dim, wide: Indices) -> Buffer:
        """A copy of these sizes; its element is that of the padded input at ``wide``."""
        p, a = self.p, self.a
        batch, axis, *_ = a["numbers"]
        place, tests = [ZERO] * (len(wide) + 2), []
        place[batch], place[axis] = image, feature
        for d, (where, index) in enumerate(zip(self.space, wide, strict=True)):
            place[where], needed = undilated(index - a["padding"][2 * d], const(a["lhs_dilation"][d]),
                                             self.x.type.dims[where])
            tests += [test for test in needed if test.const is None or test.const < 0]
        p.start()
        value: Expr = p.read(self.x, tuple(place))
        if tests:
            value = Choose(self.dtype, Test(tuple(tests)), value, zero(self.dtype))
        # Runs are copied by whole vectors: the last one may read beyond the elements.
        target = p.scratch("padded", self.dtype, total(sizes) + panel_step(self.dtype))
        axes: Axes = list(zip(at, sizes, strict=True))
        p.run("pad", loops(axes, [Store(target, linear(at, tuple(sizes)), value)]), (target,), once=True)
        return target

    def weights(self, order: str) -> Buffer:
        """The kernel with its axes in an order of g(roup), o(utput), i(nput) and t(aps), reversal undone."""
        p = self.p
        root = p.root(self.kernel)
        op = p.producers.get(root)
        if op is not None and op.name == "constant":
            key = (root, order, self.a["numbers"], self.a["reversal"], self.groups)
            if key not in p.packed:
                data = self.arranged(np.asarray(op.attrs["value"]), order)
                name = f"{root.name}.{order}.{len(p.packed)}"
                p.packed[key] = Buffer(name, self.dtype, const(data.size), "const", data.reshape(-1))
            return p.packed[key]
        sizes = {"g": (const(self.groups),), "o": (self.outputs,), "i": (self.inputs,), "t": self.taps}
        at = {name: tuple(_index(p, size) for size in each) for name, each in sizes.items()}
        place = [ZERO] * self.kernel.type.rank
        place[self.k_in], place[self.k_out] = at["i"][0], at["g"][0] * self.outputs + at["o"][0]
        for d, axis in enumerate(self.k_space):
            step = at["t"][d]
            place[axis] = self.taps[d] - 1 - step if self.a["reversal"][d] else step
        indices = tuple(index for name in order for index in at[name])
        whole = tuple(size for name in order for size in sizes[name])
        p.start()
        target = p.scratch("weights", self.dtype, total(whole))
        store = Store(target, linear(indices, whole), p.read(self.kernel, tuple(place)))
        p.run("weights", loops(list(zip(indices, whole, strict=True)), [store]), (target,), once=True)
        return target

    def arranged(self, array: np.ndarray, order: str) -> np.ndarray:
        """``weights`` of a constant kernel."""
        back = tuple(axis for d, axis in enumerate(self.k_space) if self.a["reversal"][d])
        flipped = np.flip(array, back) if back else array
        turned = flipped.transpose(self.k_out, self.k_in, *self.k_space)
        apart = turned.reshape(self.groups, -1 if array.size else 0, *turned.shape[1:])
        axes = {"g": (0,), "o": (1,), "i": (2,), "t": tuple(range(3, apart.ndim))}
        return np.ascontiguousarray(apart.transpose([axis for name in order for axis in axes[name]]))

    # -- features by places ---------------------------------------------------------------------------------------

    def features_by_places(self) -> None:
        """Rows are features, columns the places of one image."""
        p, dtype = self.p, self.dtype
        weights = self.weights("goit")
        image = _index(p, self.count)
        plain = self.plain(image) if self.pointwise else None
        source, sizes = self.padded() if plain is None else (weights, ())
        p.start()
        out = p.new_buffer(self.cluster.result)
        i, j = symbol(p.name("i")), symbol(p.name("i"))
        right = plain or self.patch_panel()
        number = right.columns(p)
        start, some = number * panel_columns(dtype), right.some(number)
        spots = parts(start + j, [(ONE, size) for size in self.spots])
        value = Var(dtype, p.name("v"))
        at = self.at(image, self.group * self.outputs + i, spots)
        p.locals[self.op.result, at] = value
        store = Store(out, self.cluster.place(at), p.read(self.cluster.value, at))
        left = Matrix(weights, self.group * self.outputs * self.depth, self.depth, ONE)
        product = right.product(number, self.outputs, left, i, j, value.name, store, None if plain else ZERO)
        body: list[Stmt] = [product]
        private: tuple[Buffer, ...] = ()
        if plain is None:
            runs = tuple(p.scratch(name, "i64", const(panel_columns(dtype))) for name in ("to", "from", "vectors"))
            body = [*self.gathered(source, sizes, right.buffer, runs, image, start, some), product]
            private = right.buffer, *runs
        nest: Axes = [(image, self.count), (self.group, const(self.groups)), (number, right.count)]
        p.run(self.cluster.label, loops(nest, body), (out,), private, once=True)
        p.places[self.cluster.result] = out

    @property
    def pointwise(self) -> bool:
        """Whether each element of the result reads the input at its own place only."""
        a = self.a
        return (all(size is ONE for size in self.taps) and all(each is ZERO for each in a["padding"])
                and all(each == 1 for each in (*a["strides"], *a["lhs_dilation"])))

    def plain(self, image: Dim) -> Right | None:
        """The input itself as the right side; None if it lies in no order that makes it a matrix."""
        p = self.p
        batch, axis, *_ = self.a["numbers"]
        channel = _index(p, self.inputs)
        spots = tuple(_index(p, size) for size in self.spots)
        place = [ZERO] * self.x.type.rank
        place[batch], place[axis] = image, self.group * self.inputs + channel
        for where, spot in zip(self.space, spots, strict=True):
            place[where] = spot
        p.buffer(self.x)
        p.start()
        outer: Axes = [(image, self.count), (self.group, const(self.groups))]
        found = matrix(p.read(self.x, tuple(place)), outer, list(zip(spots, self.spots, strict=True)),
                       [(channel, self.inputs)])
        if found is None:
            return None
        wide = Matrix(found.buffer, found.offset, found.column, found.row)
        return packed(p, self.dtype, wide, outer, self.outputs, total(self.spots), self.inputs)

    def patch_panel(self) -> Right:
        """A panel of patches, which each thread has to itself."""
        width, count = panel_columns(self.dtype), total(self.spots)
        room = self.depth * minimum(const(width), count + panel_step(self.dtype))
        panel = self.p.scratch("panel", self.dtype, room + width)
        return Right(self.dtype, self.depth, count, self.outputs, Matrix(panel, ZERO, ZERO, ZERO), panel, ZERO)

    def gathered(self, source: Buffer, sizes: tuple[Dim, ...], panel: Buffer, runs: tuple[Buffer, ...], image: Dim,
                 start: Dim, some: Dim) -> list[Stmt]:
        """A panel of patches: for each tap, runs of places that lie side by side, copied by whole vectors. What one
        run writes too much the next one, or the next tap's first one, writes over."""
        p, step = self.p, panel_step(self.dtype)
        long = self.spots[-1]
        rank = len(self.spots)
        first = start // long
        count = (start + some - 1) // long - first + 1
        run = symbol(p.name("i"))
        row = first + run
        skip = maximum(start - row * long, 0)
        to = maximum(row * long - start, 0)
        begin = linear((*parts(row, [(ONE, size) for size in self.spots[:-1]]), skip), sizes[2 + rank:])
        vectors = ceildiv(minimum(long - skip, some - to), const(step))
        table = loops([(run, count)], [Store(buffer, run, Index("i64", dim))
                                       for buffer, dim in zip(runs, (to, begin, vectors), strict=True)])
        channel = _index(p, self.inputs)
        taps = tuple(_index(p, size) for size in self.taps)
        reach = tuple(tap * step_of for tap, step_of in zip(taps, self.a["rhs_dilation"], strict=True))
        strides = self.a["strides"]
        split = tuple(each % stride if stride > 1 else ZERO for each, stride in zip(reach, strides, strict=True))
        shift = tuple(each // stride for each, stride in zip(reach, strides, strict=True))
        base = linear((image, self.group * self.inputs + channel, *split, *shift), sizes)
        width = ceildiv(some, const(step)) * step
        place = linear((channel, *taps), (self.inputs, *self.taps)) * width
        copy = Gather(self.dtype, count, runs[0], runs[1], runs[2], source, base, panel, place)
        return [*table, *loops([(channel, self.inputs), *zip(taps, self.taps, strict=True)], [copy])]

    # -- places by features ---------------------------------------------------------------------------------------

    def places_by_features(self) -> None:
        """Rows are the places of all images, columns features."""
        p, dtype = self.p, self.dtype
        weights = self.weights("gtio")
        source, sizes = self.flat()
        count = self.count * total(self.spots)
        wide = Matrix(weights, self.group * self.depth * self.outputs, self.outputs, ONE)
        batch: Axes = [(self.group, const(self.groups))]
        right = packed(p, dtype, wide, batch, count, self.outputs, self.depth)
        p.start()
        out = p.new_buffer(self.cluster.result)
        rows = p.scratch("patches", dtype, self.depth * minimum(const(ROW_GROUP), count))
        block, i, j = symbol(p.name("i")), symbol(p.name("i")), symbol(p.name("i"))
        first = block * ROW_GROUP
        many = minimum(const(ROW_GROUP), count - first)
        number = right.columns(p)
        axes: Axes = [(ONE, size) for size in (self.count, *self.spots)]
        image, *spots = parts(first + i, axes)
        value = Var(dtype, p.name("v"))
        feature = self.group * self.outputs + number * panel_columns(dtype) + j
        at = self.at(image, feature, tuple(spots))
        p.locals[self.op.result, at] = value
        store = Store(out, self.cluster.place(at), p.read(self.cluster.value, at))
        product = right.product(number, many, Matrix(rows, ZERO, self.depth, ONE), i, j, value.name, store)
        body = [*self.patches(source, sizes, rows, parts(first + i, axes), i, many),
                *loops([(number, right.count)], [product])]
        nest: Axes = [*batch, (block, ceildiv(count, const(ROW_GROUP)))]
        p.run(self.cluster.label, loops(nest, body), (out,), (rows,), once=True)
        p.places[self.cluster.result] = out

    def flat(self) -> tuple[Buffer, tuple[Dim, ...]]:
        """The input padded, features last; and its sizes."""
        rooms = tuple((spot - 1) * stride + (size - 1) * step + 1 for spot, size, step, stride in
                      zip(self.spots, self.taps, self.a["rhs_dilation"], self.a["strides"], strict=True))
        sizes = (self.count, *(maximum(room, 0) for room in rooms), self.inputs * self.groups)
        at = tuple(_index(self.p, size) for size in sizes)
        return self.copied(sizes, at, at[0], at[-1], at[1:-1]), sizes

    def patches(self, source: Buffer, sizes: tuple[Dim, ...], rows: Buffer, place: Indices, row: Dim,
                many: Dim) -> tuple[Stmt, ...]:
        """The patches of some places, one after the other."""
        p = self.p
        names = [p.name("g") for _ in place]
        bound = [LetIndex(name, Index("i64", dim)) for name, dim in zip(names, place, strict=True)]
        image, *spots = (symbol(name) for name in names)
        taps = tuple(_index(p, size) for size in self.taps)
        channel = _index(p, self.inputs)
        copy = Store(rows, row * self.depth + linear((*taps, channel), (*self.taps, self.inputs)),
                     Load(self.dtype, source, self.tapped(sizes, image, spots, taps, channel)))
        inner = loops([*zip(taps, self.taps, strict=True), (channel, self.inputs)], [copy])
        return loops([(row, many)], [*bound, *inner])

    def tapped(self, sizes: tuple[Dim, ...], image: Dim, spots: Sequence[Dim], taps: Indices, channel: Dim) -> Dim:
        """Where the input of a place at a tap lies, features last."""
        place = tuple(spot * stride + tap * step for spot, stride, tap, step in
                      zip(spots, self.a["strides"], taps, self.a["rhs_dilation"], strict=True))
        return linear((image, *place, self.group * self.inputs + channel), sizes)

    # -- direct ---------------------------------------------------------------------------------------------------

    def sums(self) -> None:
        """Sums over the taps of few features, the innermost loop along the result's last axis."""
        p, dtype = self.p, self.dtype
        weights = self.weights("tigo" if self.last else "goit")
        source, sizes = self.flat() if self.last else self.padded()
        p.start()
        out = p.new_buffer(self.cluster.result)
        image, feature = _index(p, self.count), _index(p, self.outputs)
        spots = tuple(_index(p, size) for size in self.spots)
        at = self.at(image, self.group * self.outputs + feature, spots)
        value = Var(dtype, p.name("v"))
        p.locals[self.op.result, at] = value
        store = Store(out, self.cluster.place(at), p.read(self.cluster.value, at))
        body = [*self.summed(value, source, sizes, weights, image, feature, spots), store]
        by_axis = {self.o_batch: [(image, self.count)],
                   self.o_feature: [(self.group, const(self.groups)), (feature, self.outputs)]}
        by_axis |= {axis: [(spot, size)] for axis, spot, size in zip(self.o_space, spots, self.spots, strict=True)}
        nest: Axes = [each for axis in range(len(spots) + 2) for each in by_axis[axis]]
        p.run(self.cluster.label, loops(nest, body), (out,), once=True)
        p.places[self.cluster.result] = out

    def summed(self, value: Var, source: Buffer, sizes: tuple[Dim, ...], weights: Buffer, image: Dim, feature: Dim,
               spots: Indices) -> list[Stmt]:
        """The sum of one element, written out where the taps are few."""
        def item(channel: Dim, taps: Indices) -> Expr:
            inner = linear((*taps, channel), (*self.taps, self.inputs)) if self.last else \
                linear((channel, *taps), (self.inputs, *self.taps))
            whole = self.group * self.outputs + feature
            weight = inner * (self.outputs * self.groups) + whole if self.last else whole * self.depth + inner
            index = self.tapped(sizes, image, spots, taps, channel) if self.last else \
                self.split(sizes, image, spots, taps, channel)
            return Call(self.dtype, "multiply", (Load(self.dtype, source, index), Load(self.dtype, weights, weight)))

        counts = [size.const for size in (self.inputs, *self.taps)]
        if None not in counts and self.depth.const is not None and self.depth.const <= FEW_TAPS:
            result: Expr = zero(self.dtype)
            for place in np.ndindex(*[count or 0 for count in counts]):
                at = tuple(const(index) for index in place)
                result = Call(self.dtype, "add", (result, item(at[0], at[1:])), fast=True)
            return [Local(value.name, result)]
        channel = _index(self.p, self.inputs)
        taps = tuple(_index(self.p, size) for size in self.taps)
        more = Call(self.dtype, "add", (value, item(channel, taps)), fast=True)
        return [Local(value.name, zero(self.dtype)),
                *loops([(channel, self.inputs), *zip(taps, self.taps, strict=True)], [Assign(value.name, more)])]

    def split(self, sizes: tuple[Dim, ...], image: Dim, spots: Indices, taps: Indices, channel: Dim) -> Dim:
        """Where the input of a place at a tap lies in the padded input that is split by the stride."""
        reach = [tap * step for tap, step in zip(taps, self.a["rhs_dilation"], strict=True)]
        strides = self.a["strides"]
        part = (each % stride if stride > 1 else ZERO for each, stride in zip(reach, strides, strict=True))
        place = (spot + each // stride for spot, each, stride in zip(spots, reach, strides, strict=True))
        return linear((image, self.group * self.inputs + channel, *part, *place), sizes)


def direct(p: Planner, op: Op) -> None:
    """Convolution of any dtype: sums in the result's memory, over the taps and then the features, the innermost loop
    along the result's last axis."""
    for value in op.operands[:2]:
        p.buffer(value)
    p.start()
    a, (x, kernel) = op.attrs, op.operands[:2]
    batch, feature, spatial, k_in, k_out, k_spatial, o_batch, o_feature, o_spatial = a["numbers"]
    shape = op.result.type.dims
    groups = a["feature_groups"] * a["batch_groups"]
    each = shape[o_feature] // groups
    group = symbol(p.name("i")) if groups > 1 else ZERO
    names = [ZERO if size.const == 1 else symbol(p.name("i")) for size in shape]
    inner = names[o_feature] if each.const != 1 else ZERO
    at = list(names)
    at[o_feature] = group * each + inner
    channel = ZERO if kernel.type.dims[k_in].const == 1 else symbol(p.name("i"))
    taps: Axes = []
    place, tests, tap = [ZERO] * len(shape), [], [ZERO] * len(shape)
    for d, (axis, k_axis, o_axis) in enumerate(zip(spatial, k_spatial, o_spatial, strict=True)):
        size = kernel.type.dims[k_axis]
        step = ZERO if size.const == 1 else symbol(p.name("i"))
        taps.append((step, size))
        position = at[o_axis] * a["strides"][d] + step * a["rhs_dilation"][d] - a["padding"][2 * d]
        place[axis], needed = undilated(position, const(a["lhs_dilation"][d]), x.type.dims[axis])
        tests += needed if _may_fail(a, d, size) else []
        tap[k_axis] = size - 1 - step if a["reversal"][d] else step
    place[feature] = channel + (group * kernel.type.dims[k_in] if a["feature_groups"] > 1 else ZERO)
    place[batch] = at[o_batch] + (group * shape[o_batch] if a["batch_groups"] > 1 else ZERO)
    tap[k_in], tap[k_out] = channel, at[o_feature]
    out = p.new_buffer(op.result)
    dtype = out.dtype
    flat = linear(tuple(at), shape)
    seen = converted(dtype, p.read(x, tuple(place)))
    if tests:
        # Padding is 0 and not nothing: 0 times an infinite weight counts.
        seen = Choose(dtype, Test(tuple(tests)), seen, zero(dtype))
    item = Call(dtype, "multiply", (seen, converted(dtype, p.read(kernel, tuple(tap)))))
    axes: Axes = []
    for axis, size in enumerate(shape):
        axes += [(group, const(groups)), (inner, each)] if axis == o_feature else [(names[axis], size)]
    axes = [(index, size) for index, size in axes if index is not ZERO]
    *outer, last = axes or [(ZERO, ONE)]
    store = Store(out, flat, Call(dtype, "add", (Load(dtype, out, flat), item), fast=True))
    sums = loops([(channel, kernel.type.dims[k_in])], loops([last], [store]))
    body = loops(outer, [*loops([last], [Store(out, flat, zero(dtype))]), *loops(taps, sums)])
    p.run("convolution", body, (out,))
    p.places[op.result] = out


def _may_fail(a: object, d: int, size: Dim) -> bool:
    """Whether a tap can lie outside of the input."""
    assert hasattr(a, "__getitem__")
    low, high = a["padding"][2 * d], a["padding"][2 * d + 1]
    return not (low is ZERO and high is ZERO and a["lhs_dilation"][d] == 1)
