"""Convolutions whose groups have few features, as direct sums: depthwise ones most of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.plan.analysis.elements import Indices
from egshape.plan.cpu.convolution.operands import Operands, index_of
from egshape.plan.cpu.framed import frame_of
from egshape.plan.form.dots import converted, zero
from egshape.plan.form.matrices import Axes, loops
from egshape.plan.form.reader import Frame
from egshape.plan.ir.loops import Assign, Buffer, Call, Expr, Load, Local, Stmt, Store, Var, linear

FEW_TAPS = 64
"""Taps up to which a direct sum is written out."""
STRIP = 4
"""Places of a line that are summed at once, so that each weight is read once for them."""


class Sums(Operands):
    """The kernels of a convolution that is summed directly, and where a convolution's result lies."""

    frame: Frame | None = None

    def sums(self) -> None:
        """Sums over the taps of few features, the innermost loop along the result's last axis."""
        p = self.p
        weights = self.weights("tigo" if self.last else "goit")
        source, sizes = self.flat() if self.last else self.padded()
        p.start()
        out = self.target()
        image, feature = index_of(p, self.count), index_of(p, self.outputs)
        spots = tuple(index_of(p, size) for size in self.spots)
        by_axis: dict[int, Axes] = {
            self.o_batch: [(image, self.count)],
            self.o_feature: [(self.group, const(self.groups)), (feature, self.outputs)],
        }
        by_axis |= {axis: [(spot, size)] for axis, spot, size in zip(self.o_space, spots, self.spots, strict=True)}

        def body(places: Sequence[Indices]) -> list[Stmt]:
            values = [Var(self.dtype, p.name("v")) for _ in places]
            stores = []
            for place, value in zip(places, values, strict=True):
                stores.append(self.stored(out, value, image, feature, place))
            return [*self.summed(values, source, sizes, weights, image, feature, places), *stores]

        def nest(skipped: Sequence[int] = ()) -> Axes:
            return [each for axis in sorted(by_axis) if axis not in skipped for each in by_axis[axis]]

        if self.last and self.written_out:
            features = by_axis[self.o_feature]
            two = self.strips(lambda line: loops(features, body([(*spots[:-1], at) for at in line])))
            p.run(self.cluster.label, loops(nest((self.o_space[-1], self.o_feature)), two), (out,), once=True)
        else:
            p.run(self.cluster.label, loops(nest(), body([spots])), (out,), once=True)
        self.made(out)

    def strips(self, body: Callable[[Sequence[Dim]], Sequence[Stmt]]) -> tuple[Stmt, ...]:
        """``body`` of the places of a line, STRIP of them at once, then of each that is left."""
        line, number = self.spots[-1], symbol(self.p.name("i"))
        whole = line // STRIP
        return (
            *loops([(number, whole)], body([number * STRIP + k for k in range(STRIP)])),
            *loops([(number, line - whole * STRIP)], body([whole * STRIP + number])),
        )

    def target(self) -> Buffer:
        """The buffer of the result: padded, where the convolution that reads it wants it so."""
        cluster = self.cluster
        moved = cluster.elementwise < len(cluster.ops) or self.quads
        self.frame = None if moved else frame_of(self.p, cluster.result)
        self.p.start()
        return self.p.new_buffer(cluster.result) if self.frame is None else self.frame.buffer

    def made(self, out: Buffer) -> None:
        """The result is there."""
        if self.frame is None:
            self.p.places[self.cluster.result] = out
        else:
            self.p.frames[self.cluster.result] = self.frame

    def place(self, at: Indices) -> Dim:
        """Where an element of the result is stored."""
        return self.cluster.place(at) if self.frame is None else self.frame.place(at)

    def stored(self, out: Buffer, value: Var, image: Dim, feature: Dim, spots: Indices) -> Store:
        """The element of a group whose sum is ``value``, stored behind its epilogue."""
        at = self.at(image, self.group * self.outputs + feature, spots)
        return Store(out, self.place(at), self.finished(value, image, feature, spots))

    def finished(self, value: Var, image: Dim, feature: Dim, spots: Indices) -> Expr:
        """The epilogue of an element of a group, whose sum is ``value``."""
        at = self.at(image, self.group * self.outputs + feature, spots)
        self.p.locals[self.op.result, at] = converted(self.op.attrs["dtype"], value)
        return self.p.read(self.cluster.value, at)

    @property
    def written_out(self) -> bool:
        """Whether a sum is written out, tap by tap."""
        return self.depth.const is not None and self.depth.const <= FEW_TAPS

    def summed(
        self,
        values: Sequence[Var],
        source: Buffer,
        sizes: tuple[Dim, ...],
        weights: Buffer,
        image: Dim,
        feature: Dim,
        places: Sequence[Indices],
    ) -> list[Stmt]:
        """The sums of elements at some places, a tap of all after the other; written out where the taps are few, else
        of one place."""

        def item(place: Indices, channel: Dim, taps: Indices) -> Expr:
            inner = (
                linear((*taps, channel), (*self.taps, self.inputs))
                if self.last
                else linear((channel, *taps), (self.inputs, *self.taps))
            )
            whole = self.group * self.outputs + feature
            weight = inner * (self.outputs * self.groups) + whole if self.last else whole * self.depth + inner
            index = (self.tapped if self.last else self.split)(sizes, image, place, taps, channel)
            return Call(self.dtype, "multiply", (Load(self.dtype, source, index), Load(self.dtype, weights, weight)))

        def added(total: Expr, place: Indices, channel: Dim, taps: Indices) -> Expr:
            return Call(self.dtype, "add", (total, item(place, channel, taps)), fast=True)

        if self.written_out:
            counts = [size.const or 0 for size in (self.inputs, *self.taps)]
            found: list[Stmt] = []
            sums: list[Expr] = [zero(self.dtype)] * len(places)
            for tap in np.ndindex(*counts):
                channel, *at = map(const, tap)
                for number, place in enumerate(places):
                    name = self.p.name("v")
                    found.append(Local(name, added(sums[number], place, channel, tuple(at))))
                    sums[number] = Var(self.dtype, name)
            return [*found, *(Local(value.name, each) for value, each in zip(values, sums, strict=True))]
        (value,), (place,) = values, places
        channel = index_of(self.p, self.inputs)
        taps = tuple(index_of(self.p, size) for size in self.taps)
        return [
            Local(value.name, zero(self.dtype)),
            *loops(
                [(channel, self.inputs), *zip(taps, self.taps, strict=True)],
                [Assign(value.name, added(value, place, channel, taps))],
            ),
        ]
