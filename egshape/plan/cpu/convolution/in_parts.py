"""Convolutions of f32, f16 and bf16 by tiles: input and kernel in parts, all bf16 (``plan/cpu/parts.py``).

Strips of lines of the padded input are put into parts in a scratch that stays in the cache; of larger kernels, which
had to be read again for each strip, all of the input is before. A place has the parts of its channels one behind the
other, each filled with zeros to whole tiles, so that a tap is a run of all of them. Rows of a product run on through
the lines, with the padding between them, whose sums are not stored; with strides each line is a product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim, ceildiv, const, floordiv, maximum, minimum, symbol
from egshape.dims import product as total
from egshape.ir.types import itemsize
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.cpu import parts
from egshape.plan.cpu.convolution import products
from egshape.plan.cpu.convolution.kinds import FILLED
from egshape.plan.cpu.convolution.operands import index_of
from egshape.plan.cpu.convolution.places import columns_of, tap_by_tap
from egshape.plan.cpu.packing import Right, packs
from egshape.plan.form.dots import converted
from egshape.plan.form.epilogue import Cluster
from egshape.plan.form.matrices import ONE, Axes, loops
from egshape.plan.form.matrices import parts as parted
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Const, Expr, If, Load, Matrix, Product, Stmt, Store, Test, Var, linear
from egshape.plan.ir.packs import PAIR, pack_step

DTYPE = "f32"
"""Of the sums, and of what is put into parts."""
STRIP = 1 << 18
"""Bytes of a strip, about."""
STRIPS = 4
"""Strips of an image, for threads, where each has rows enough."""
ROWS = 128
"""Rows of a strip, or of a block, from which a pack that is read again is a small part of their products."""
NEAR, NEARER = 1 << 20, 1 << 19
"""Bytes of a kernel in parts that may be read again for each strip; and that are read as fast as multiplied."""
FEW = 128
"""Places up to which a larger kernel than that is multiplied whole: reading its parts would take longer."""
SHORT = {"f32": 16, "f16": 12, "bf16": 8}
"""Rows of a product under which any kernel is multiplied whole: tiles of fewer rows wait for its parts."""


@dataclass(frozen=True, eq=False)
class Region:
    """Input in parts: a ``buffer`` of ``sizes``, the last two of which are places of a line and numbers of a place."""

    buffer: Buffer
    sizes: tuple[Dim, ...]
    table: Buffer | None


class InParts(products.Convolution):
    """Such a convolution."""

    def __init__(self, p: Steps, cluster: Cluster) -> None:
        super().__init__(p, cluster)
        self.kind = self.x.type.dtype
        self.room = parts.room_of(self.inputs)
        numbers = self.room * parts.PARTS[self.kind]
        self.place_numbers = const(parts.apart(numbers.const or 0))
        """Numbers from a place to the next one."""
        self.deep = numbers // PAIR

    @property
    def axis(self) -> int:
        """The axis that is cut into strips: lines, or the places of one line."""
        return -min(len(self.spots), 2)

    @property
    def reaches(self) -> tuple[Dim, ...]:
        """Places of the input that the taps of one place span, along each axis."""
        steps = self.a["rhs_dilation"]
        return tuple(maximum((size - 1) * step + 1, 0) for size, step in zip(self.taps, steps, strict=True))

    @property
    def kernel_bytes(self) -> int:
        """Bytes of the kernel in parts."""
        return ((self.outputs * total(self.full) * self.deep).const or 0) * itemsize(parts.PART) * PAIR

    @property
    def single(self) -> bool:
        """Whether there is one tap, which counts."""
        return all(size is ONE for size in (*self.full, *self.taps))

    @property
    def run_on(self) -> bool:
        """Whether rows of a product run on from line to line."""
        return len(self.spots) > 1 and all(each == 1 for each in self.a["strides"][-2:])

    @property
    def few(self) -> Dim:
        """1 where places, rows of a product, or those of them that count are few, else 0."""
        rows, filled = self.spots[-1], FILLED[self.kind]
        if self.run_on:
            rows = maximum(self.spots[-2] - 1, 0) * self.widths(self.reaches)[-1] + rows
        short: Dim = maximum(const(SHORT[self.kind]) - rows, 0)
        if self.run_on:
            short += maximum(rows * self.room * filled - self.spots[-2] * self.spots[-1] * self.inputs * 100, 0)
        if self.kernel_bytes > NEARER:
            short += maximum(const(FEW + 1) - self.count * total(self.spots), 0)
        return minimum(ONE, short)

    def by_places(self, out: Buffer, features: Right, source: Buffer, sizes: tuple[Dim, ...], rounds: Dim) -> None:
        """By strips, or all at once; few places whole."""
        few = self.few
        if few is not ZERO:
            super().by_places(out, super().features(), source, sizes, few * rounds)
        if few is not ONE:
            by_tiles = self.by_strips if self.kernel_bytes <= NEAR else self.at_once
            by_tiles(out, features, source, sizes, (ONE - few) * rounds)

    def by_strips(self, out: Buffer, features: Right, source: Buffer, sizes: tuple[Dim, ...], rounds: Dim) -> None:
        """Strips of lines: each is put into parts, then all features of its places are computed. ``rounds`` is 0 where
        nothing is to be done."""
        p, axis, reaches = self.p, self.axis, self.reaches
        lines, step, deep = self.spots[axis], self.a["strides"][axis], reaches[axis]
        within = self.widths(reaches)[len(reaches) + axis + 1 :]
        most = self.lines_of_strip(lines, total(within), total(reaches[:axis]))
        region = self.region("strip", (*reaches[:axis], (most - 1) * step + deep, *self.roomy(within)))
        p.start()
        image, strip, panel = index_of(p, self.count), symbol(p.name("i")), features.columns(p)
        at = [index_of(p, size) for size in self.spots[:axis]]
        first = strip * most
        many = minimum(most, lines - first)
        spots = (*at, first, *[ZERO] * len(within))
        extents = (*reaches[:axis], (many - 1) * step + deep, *within)
        copy = self.in_parts(region, ZERO, source, sizes, self.index(sizes, image, spots, self.start, ZERO), extents)
        body = self.multiplied_lines(out, features, panel, region, ZERO, image, spots, many)
        nest: Axes = [
            (image, self.count),
            *zip(at, self.spots[:axis], strict=True),
            (strip, ceildiv(lines, most) * rounds),
        ]
        whole = [*copy, *loops([(panel, features.count)], body)]
        p.run(self.cluster.label, loops(nest, whole), (out,), (region.buffer,), once=True)

    def lines_of_strip(self, lines: Dim, width: Dim, deep: Dim) -> Dim:
        """As many as there is room for, but so few that threads have some each, where these have rows enough. ``deep``:
        how many of each are read."""
        fitting = floordiv(const(STRIP), maximum(width * deep * self.place_numbers * itemsize(parts.PART), ONE))
        wanted = maximum(ceildiv(lines, const(STRIPS)), ceildiv(const(ROWS), maximum(width, ONE)))
        return maximum(minimum(fitting, wanted, lines), ONE)

    def at_once(self, out: Buffer, features: Right, source: Buffer, sizes: tuple[Dim, ...], rounds: Dim) -> None:
        """All of the input is put into parts; a pack of features meets all places before the next one does. ``rounds``
        is 0 where nothing is to be done."""
        p = self.p
        rooms = self.widths(self.reaches)
        region = self.region("parts", (self.count, *rooms[:-1], *self.roomy(rooms[-1:])))
        p.start()
        image = index_of(p, self.count)
        begin = linear((image, *[ZERO] * (len(rooms) + 1)), region.sizes)
        origin = self.index(sizes, image, self.start, self.start, ZERO)
        copy = self.in_parts(region, begin, source, sizes, origin, (rooms[0] * rounds, *rooms[1:]))
        p.run("split", loops([(image, self.count)], copy), (region.buffer,), once=True)
        p.start()
        axis, block = self.axis, symbol(p.name("i"))
        panel, at, lines = features.columns(p), [index_of(p, size) for size in self.spots[:axis]], self.spots[axis]
        within = rooms[len(rooms) + axis + 1 :]
        most = maximum(ceildiv(const(ROWS), maximum(total(within), ONE)), ONE)
        first = block * most
        spots = (*at, first, *[ZERO] * len(within))
        places = [spot * stride for spot, stride in zip(spots, self.a["strides"], strict=True)]
        begin = linear((image, *places, ZERO), region.sizes)
        body = self.multiplied_lines(out, features, panel, region, begin, image, spots, minimum(most, lines - first))
        nest: Axes = [(panel, features.count), (image, self.count), *zip(at, self.spots[:axis], strict=True)]
        nest.append((block, ceildiv(lines, most) * rounds))
        p.run(self.cluster.label, loops(nest, body), (out,), once=True)

    def widths(self, reaches: Sequence[Dim]) -> tuple[Dim, ...]:
        """What all places read, along each axis."""
        by_axis = zip(self.spots, self.a["strides"], reaches, strict=True)
        return tuple(maximum((spot - 1) * stride + reach, 0) for spot, stride, reach in by_axis)

    def roomy(self, width: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """The places of a line in parts, if it is one of several: rows that run on through lines count each place of
        the result, also where no tap reads any."""
        return tuple(maximum(each, self.spots[-1]) for each in width)

    def region(self, name: str, places: Sequence[Dim]) -> Region:
        """Room for parts, and what products know of its taps."""
        p, sizes = self.p, (*places, self.place_numbers)
        inner = sizes[-len(self.taps) - 1 :]
        table = (
            None
            if self.single
            else self.table(lambda number, ahead, _: (ahead // PAIR, number), (ONE, *inner), joined=False)
        )
        p.start()
        return Region(p.scratch(name, parts.PART, total(sizes) + pack_step(DTYPE) * PAIR), sizes, table)

    def in_parts(
        self,
        region: Region,
        begin: Dim,
        source: Buffer,
        sizes: tuple[Dim, ...],
        origin: Dim,
        extents: Sequence[Dim],
    ) -> list[Stmt]:
        """Statements that put places of the padded input, of ``sizes``, from ``origin`` on, into parts."""
        p = self.p
        at, channel = [index_of(p, size) for size in extents], index_of(p, self.inputs)
        x = converted(DTYPE, Load(source.dtype, source, origin + linear((ZERO, *at, channel), sizes)))
        inner = region.sizes[-len(extents) - 1 :]
        place = begin + linear((*at, ZERO), inner)
        return self.filled(region.buffer, place, list(zip(at, extents, strict=True)), channel, x)

    def filled(self, buffer: Buffer, place: Dim, axes: Axes, channel: Dim, value: Expr) -> list[Stmt]:
        """Loops that store the parts of all channels of some places, zeros behind each."""
        made = [*loops([*axes, (channel, self.inputs)], self.put(buffer, place + channel, value))]
        return [*made, *self.emptied(buffer, place, axes)]

    def emptied(self, buffer: Buffer, place: Dim, axes: Axes) -> tuple[Stmt, ...]:
        """Loops that store the zeros behind the channels of some places."""
        if self.room == self.inputs:
            return ()
        rest = index_of(self.p, self.room - self.inputs)
        begins = [place + self.room * number + self.inputs for number in range(parts.PARTS[self.kind])]
        empty = [Store(buffer, begin + rest, Const(parts.PART, 0)) for begin in begins]
        return loops([*axes, (rest, self.room - self.inputs)], empty)

    def put(self, buffer: Buffer, place: Dim, value: Expr) -> list[Stmt]:
        """Statements that store the parts of a number."""
        lets, found = parts.split(self.p, self.kind, value)
        return [*lets, *(Store(buffer, place + self.room * k, part) for k, part in enumerate(found))]

    def multiplied_lines(
        self,
        out: Buffer,
        features: Right,
        panel: Dim,
        region: Region,
        begin: Dim,
        image: Dim,
        spots: Indices,
        many: Dim,
    ) -> tuple[Stmt, ...]:
        """The products of ``many`` lines, or places of the only one, from a place on with a pack of features."""
        p, long, width = self.p, self.spots[-1], region.sizes[-2]
        i, j, value = symbol(p.name("i")), symbol(p.name("i")), Var(DTYPE, p.name("v"))
        feature = panel * features.width + j
        *far, step = self.a["strides"]

        def rows(count: Dim, first: Dim, store: Stmt) -> Product:
            left = Matrix(region.buffer, first, self.place_numbers * step // PAIR, ONE)
            return self.by_table(features.product(panel, maximum(count, 0), left, i, j, value.name, store), region)

        if len(spots) == 1:
            return (rows(many, begin, self.stored(out, value, image, feature, (spots[0] + i,))),)
        if self.run_on:
            line, column = parted(i, [(ONE, maximum(many, ONE)), (ONE, maximum(width, ONE))])
            store: Stmt = self.stored(out, value, image, feature, (*spots[:-2], spots[-2] + line, column))
            if self.taps[-1] is not ONE:
                store = If(Test((long - 1 - column,)), (store,))
            return (rows((many - 1) * width + long, begin, store),)
        line = index_of(p, many)
        store = self.stored(out, value, image, feature, (*spots[:-2], spots[-2] + line, i))
        return loops([(line, many)], [rows(long, begin + line * far[-1] * width * self.place_numbers, store)])

    def by_table(self, made: Product, region: Region) -> Product:
        """A product whose depth is the taps of a region's table, if there are several."""
        if region.table is None:
            return made
        return tap_by_tap(made, region.table, total(self.taps), columns_of(made), self.deep, self.deep)

    def features(self) -> Right:
        """The kernel in parts, tap by tap."""
        p, root = self.p, self.p.resolved(self.kernel)
        key, deep = (root, "parts", self.a["numbers"], self.a["reversal"]), self.deep * total(self.full)
        if key not in p.packed:
            assert self.kept is not None
            taps = self.arranged(self.kept, "gtio").reshape(-1, *self.kernel_matrix())
            whole = np.concatenate([parts.together(tap, self.kind) for tap in taps])
            data = packs(whole, parts.ELEMENTS[self.kind])
            p.packed[key] = Buffer(f"{root.name}.parts.{len(p.packed)}", "i32", const(data.size), "const", data)
        wide = Matrix(p.packed[key], ZERO, ZERO, ZERO)
        return Right(DTYPE, deep, self.outputs, ZERO, wide, p.packed[key], ZERO, parts.ELEMENTS[self.kind])

    def kernel_matrix(self) -> tuple[int, int]:
        """Channels and features."""
        assert self.inputs.const is not None and self.outputs.const is not None
        return self.inputs.const, self.outputs.const

    def plain(self) -> bool:
        """Rows are the places of an image, where it lies as a matrix."""
        p = self.p
        image, channel = index_of(p, self.count), index_of(p, self.inputs)
        spots = tuple(index_of(p, size) for size in self.spots)
        p.buffer(self.x)
        p.start()
        rows = self.rows(image, spots, channel)
        if rows is None:
            return False
        features, every, found = self.features(), total(rows.shape), rows.left
        region = self.region("strip", (*[ONE] * (len(self.spots) - 1), const(ROWS)))
        p.start()
        out, block, panel, row = self.target(), symbol(p.name("i")), features.columns(p), symbol(p.name("i"))
        first = block * ROWS
        many = minimum(const(ROWS), every - first)
        place = found.offset + (first + row) * found.row + channel * found.column
        x = converted(DTYPE, Load(found.buffer.dtype, found.buffer, place))
        copy = self.filled(region.buffer, row * self.place_numbers, [(row, many)], channel, x)
        i, j, value = symbol(p.name("i")), symbol(p.name("i")), Var(DTYPE, p.name("v"))
        where = rows.at(first + i)
        store = self.stored(out, value, where[0], panel * features.width + j, where[1:])
        left = Matrix(region.buffer, ZERO, self.place_numbers // PAIR, ONE)
        product = self.by_table(features.product(panel, maximum(many, 0), left, i, j, value.name, store), region)
        nest: Axes = [*rows.images, (block, ceildiv(every, const(ROWS)))]
        body = [*copy, *loops([(panel, features.count)], [product])]
        p.run(self.cluster.label, loops(nest, body), (out,), (region.buffer,), once=True)
        self.made(out)
        return True
