"""Convolution: products with patches of the input that are gathered a panel at a time, or direct sums.

The input is copied once, padded, so that no tap needs a test. Where the features of the result lie together, rows of a
product are places of the result and its columns features; else rows are features and columns places. For the latter
the padded input is split by the stride (element s*i + r goes to part r, place i), so that places of a row whose
tap is the same lie side by side at every stride and dilation. Where rows or images turn out too short for that, rows
are the places of all images after all. Few features of a group are summed directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from egshape.dims import Dim, ceildiv, const, maximum, minimum, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.plan.contraction import zero
from egshape.plan.convolution_operands import Operands, index_of
from egshape.plan.loops import (
    ROW_GROUP,
    Assign,
    Buffer,
    Call,
    Expr,
    Gather,
    Index,
    LetIndex,
    Load,
    Local,
    Matrix,
    Stmt,
    Store,
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
LEAST_ROW = 4
"""Places of a row from which copying by vectors pays."""
LEAST_SPOTS = 32
"""Places of an image from which they fill panels well enough."""
TWICE = 1 << 22
"""Bytes up to which a constant kernel lies in panels and in rows where both are needed."""
Patch = Callable[[Dim, Indices, Dim, Indices], tuple[Expr, Dim]]
"""The input for (image, places, channel, taps), and where it stands in a patch."""


def is_product(op: Op) -> bool:
    """Whether a convolution is computed by products, or direct sums, of f32 or f64."""
    if op.name != "convolution" or op.result.type.rank < 3:
        return False
    dtype = op.attrs["dtype"]
    return (dtype in ("f32", "f64") and op.attrs["batch_groups"] == 1
            and all(x.type.dtype == dtype for x in op.operands[:2]))


def emit(p: Planner, cluster: Cluster) -> None:
    """Add the kernels of a convolution and its epilogue."""
    from egshape.plan import convolution_bytes
    from egshape.plan.convolution_loops import direct

    whole = cluster.ops[0].attrs["dtype"] == "i32"
    if whole and not convolution_bytes.is_product(p, cluster.ops[0]):  # an operand got a buffer of i32 in the meantime
        direct(p, cluster.ops[0])
        p.buffer(cluster.result)
        return
    c = convolution_bytes.Bytes(p, cluster) if whole else Convolution(p, cluster)
    if c.groups > 1 and (c.inputs * c.outputs).const is not None and (c.inputs * c.outputs).const <= FEW_FEATURES:
        c.sums()
    elif c.last:
        c.places_by_features()
    else:
        c.features_by_places()


class Convolution(Operands):
    """The kernels of a convolution."""

    # -- features by places ---------------------------------------------------------------------------------------

    def features_by_places(self) -> None:
        """Products of features and the places of an image; of the places of all images and features where runs of
        places that lie together are too short to be copied as vectors. Sizes decide when the function runs."""
        p = self.p
        long = self.long()
        image = index_of(p, self.count)
        plain = self.plain(image, long) if self.pointwise and long is not ZERO else None
        features = self.features()
        source, sizes = (None, ()) if self.pointwise and (plain or long is ZERO) else self.padded()
        if source is None:
            p.buffer(self.x)
        p.start()
        out = p.new_buffer(self.cluster.result)
        if long is not ZERO:
            self.by_features(out, features, image, plain, source, sizes, long)
        if long is not ONE:
            def patch(image: Dim, spots: Indices, channel: Dim, taps: Indices) -> tuple[Expr, Dim]:
                place = linear((channel, *taps), (self.inputs, *self.taps))
                if source is None:
                    return p.read(self.x, self.input_at(image, channel, spots)), place
                return Load(self.dtype, source, self.split(sizes, image, spots, taps, channel)), place

            self.by_places(out, features, patch, ONE - long)
        p.places[self.cluster.result] = out

    def long(self) -> Dim:
        """1 where the places of an image fill panels and its rows vectors, else 0."""
        row, every = self.spots[-1], total(self.spots)
        return minimum(ONE, maximum(row - (LEAST_ROW - 1), 0)) * minimum(ONE, maximum(every - (LEAST_SPOTS - 1), 0))

    def features(self) -> Right:
        """The kernel as (channel and tap, feature): in panels if it is constant, else as it is copied."""
        p, dtype = self.p, self.dtype
        count = self.count * total(self.spots)
        if self.kept is not None:
            wide = Matrix(self.weights("goit"), self.group * self.outputs * self.depth, ONE, self.depth)
            return packed(p, dtype, wide, [(self.group, const(self.groups))], count, self.outputs, self.depth)
        weights = self.weights("gito")
        wide = Matrix(weights, self.group * self.depth * self.outputs, self.outputs, ONE)
        return Right(dtype, self.depth, self.outputs, ZERO, wide, weights, ZERO)

    def by_features(self, out: Buffer, features: Right, image: Dim, plain: Right | None, source: Buffer | None,
                    sizes: tuple[Dim, ...], rounds: Dim) -> None:
        """Rows are features, columns the places of one image; ``rounds`` is 0 where nothing is to be done."""
        p, dtype = self.p, self.dtype
        p.start()
        i, j = symbol(p.name("i")), symbol(p.name("i"))
        right = plain or self.patch_panel()
        number, panel = right.columns(p), features.columns(p)
        start, some = number * panel_columns(dtype), right.some(number)
        spots = parts(start + j, [(ONE, size) for size in self.spots])
        value = Var(dtype, p.name("v"))
        before, more = self.column_sums(right, number, j)
        store = self.stored(out, value, image, panel * panel_columns(dtype) + i, spots)
        product = right.product(number, features.some(panel), self.left(features, panel, rounds), i, j, value.name,
                                store, None if plain else ZERO)
        body: list[Stmt] = [*before, *loops([(panel, features.count)], [product])]
        private = more
        if source is not None:
            runs = tuple(p.scratch(name, "i64", const(panel_columns(dtype))) for name in ("to", "from", "vectors"))
            body = [*self.gathered(source, sizes, right.buffer, runs, image, start, some), *body]
            private = right.buffer, *runs, *more
        nest: Axes = [(image, self.count), (self.group, const(self.groups)), (number, right.count * rounds)]
        p.run(self.cluster.label, loops(nest, body), (out,), private, once=True)

    def left(self, features: Right, panel: Dim, rounds: Dim) -> Matrix:
        """Some features as the left side. Rows that lie together are read faster than those of panels, so that small
        kernels lie twice."""
        if self.kept is None or (rounds is not ONE and self.kept.nbytes > TWICE):
            return features.turned(panel)
        first = self.group * self.outputs + panel * panel_columns(self.dtype)
        return Matrix(self.weights("goit"), first * self.depth, self.depth, ONE)

    def column_sums(self, right: Right, number: Dim, column: Dim) -> tuple[list[Stmt], tuple[Buffer, ...]]:
        """What is computed of a panel of places before its products, and where: for kernels with a zero point."""
        return [], ()

    def row_sums(self, rows: Buffer, row: Dim, many: Dim) -> tuple[list[Stmt], tuple[Buffer, ...]]:
        """The same of rows that are places."""
        return [], ()

    def stored(self, out: Buffer, value: Var, image: Dim, feature: Dim, spots: Indices) -> Store:
        """The epilogue of an element of a group, whose sum is ``value``."""
        at = self.at(image, self.group * self.outputs + feature, spots)
        self.p.locals[self.op.result, at] = value
        return Store(out, self.cluster.place(at), self.p.read(self.cluster.value, at))

    @property
    def pointwise(self) -> bool:
        """Whether each element of the result reads the input at its own place only."""
        a = self.a
        return (all(size is ONE for size in self.taps) and all(each is ZERO for each in a["padding"])
                and all(each == 1 for each in (*a["strides"], *a["lhs_dilation"])))

    def plain(self, image: Dim, rounds: Dim) -> Right | None:
        """The input itself as the right side; None if it lies in no order that makes it a matrix. ``rounds`` is 0
        where it is not needed."""
        p = self.p
        channel = index_of(p, self.inputs)
        spots = tuple(index_of(p, size) for size in self.spots)
        p.buffer(self.x)
        p.start()
        outer: Axes = [(image, self.count), (self.group, const(self.groups))]
        free: Axes = list(zip(spots, self.spots, strict=True))
        found = matrix(p.read(self.x, self.input_at(image, channel, spots)), outer, free, [(channel, self.inputs)])
        if found is None:
            return None
        wide = Matrix(found.buffer, found.offset, found.column, found.row)
        return packed(p, self.dtype, wide, outer, self.outputs, total(self.spots), self.inputs, rounds)

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
        channel = index_of(p, self.inputs)
        taps = tuple(index_of(p, size) for size in self.taps)
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
        """Rows are the places of all images, columns features, which lie together in the input and the result."""
        p = self.p
        weights = self.weights("gtio")
        source, sizes = self.flat()
        wide = Matrix(weights, self.group * self.depth * self.outputs, self.outputs, ONE)
        count = self.count * total(self.spots)
        right = packed(p, self.dtype, wide, [(self.group, const(self.groups))], count, self.outputs, self.depth)

        def patch(image: Dim, spots: Indices, channel: Dim, taps: Indices) -> tuple[Expr, Dim]:
            place = linear((*taps, channel), (*self.taps, self.inputs))
            return Load(self.dtype, source, self.tapped(sizes, image, spots, taps, channel)), place

        p.start()
        out = p.new_buffer(self.cluster.result)
        self.by_places(out, right, patch, ONE)
        p.places[self.cluster.result] = out

    def by_places(self, out: Buffer, features: Right, patch: Patch, rounds: Dim) -> None:
        """Rows are places, columns features; ``rounds`` is 0 where nothing is to be done."""
        p, dtype = self.p, self.dtype
        p.start()
        count = self.count * total(self.spots)
        rows = p.scratch("patches", dtype, self.depth * minimum(const(ROW_GROUP), count))
        block, i, j = symbol(p.name("i")), symbol(p.name("i")), symbol(p.name("i"))
        first = block * ROW_GROUP
        many = minimum(const(ROW_GROUP), count - first)
        panel = features.columns(p)
        image, *spots = parts(first + i, [(ONE, size) for size in (self.count, *self.spots)])
        value = Var(dtype, p.name("v"))
        before, more = self.row_sums(rows, i, many)
        store = self.stored(out, value, image, panel * panel_columns(dtype) + j, tuple(spots))
        product = features.product(panel, many, Matrix(rows, ZERO, self.depth, ONE), i, j, value.name, store)
        body = [*self.patches(patch, rows, (image, *spots), i, many), *before,
                *loops([(panel, features.count)], [product])]
        nest: Axes = [(self.group, const(self.groups)), (block, ceildiv(count, const(ROW_GROUP)) * rounds)]
        p.run(self.cluster.label, loops(nest, body), (out,), (rows, *more), once=True)

    def patches(self, patch: Patch, rows: Buffer, place: Indices, row: Dim, many: Dim) -> tuple[Stmt, ...]:
        """The patches of some places, one after the other."""
        p = self.p
        names = [p.name("g") for _ in place]
        bound = [LetIndex(name, Index("i64", dim)) for name, dim in zip(names, place, strict=True)]
        image, *spots = (symbol(name) for name in names)
        taps = tuple(index_of(p, size) for size in self.taps)
        channel = index_of(p, self.inputs)
        value, at = patch(image, tuple(spots), channel, taps)
        axes: Axes = [*zip(taps, self.taps, strict=True)]
        axes.insert(len(axes) if self.last else 0, (channel, self.inputs))
        return loops([(row, many)], [*bound, *loops(axes, [Store(rows, row * self.depth + at, value)])])

    # -- direct ---------------------------------------------------------------------------------------------------

    def sums(self) -> None:
        """Sums over the taps of few features, the innermost loop along the result's last axis."""
        p, dtype = self.p, self.dtype
        weights = self.weights("tigo" if self.last else "goit")
        source, sizes = self.flat() if self.last else self.padded()
        p.start()
        out = p.new_buffer(self.cluster.result)
        image, feature = index_of(p, self.count), index_of(p, self.outputs)
        spots = tuple(index_of(p, size) for size in self.spots)
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
        channel = index_of(self.p, self.inputs)
        taps = tuple(index_of(self.p, size) for size in self.taps)
        more = Call(self.dtype, "add", (value, item(channel, taps)), fast=True)
        return [Local(value.name, zero(self.dtype)),
                *loops([(channel, self.inputs), *zip(taps, self.taps, strict=True)], [Assign(value.name, more)])]

