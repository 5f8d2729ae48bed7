"""Products whose rows are places and whose columns are features: places of a line, of all images, or gathered ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from egshape.dims import Dim, ceildiv, const, maximum, minimum, symbol
from egshape.dims import product as total
from egshape.ir.types import itemsize
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.cpu.convolution.operands import index_of
from egshape.plan.cpu.convolution.sums import Sums
from egshape.plan.cpu.packing import Right
from egshape.plan.form.matrices import ONE, Axes, loops, parts
from egshape.plan.ir.loops import Buffer, Index, Load, Matrix, Product, Reach, Stmt, Store, Var, linear
from egshape.plan.ir.packs import ROW_GROUP, pack_columns, pack_step

TILE = 8
"""Places of a line that fill a block's rows."""
MANY_FEATURES = 32
"""Features from which rows may be gathered: the copy is a small part of the product."""
FEW_ROWS = 256
"""Rows up to which all are gathered before they are multiplied."""
SHARED_ROWS = 32
"""Rows of a block of these: so many that threads have about the same of few features."""
SMALL_KERNEL = 1 << 19
"""Bytes of a kernel that stays in a core's cache."""


class Places(Sums):
    """The kernels of such products, and what they know of taps."""

    @property
    def start(self) -> Indices:
        """The first place, or tap."""
        return (ZERO,) * len(self.taps)

    def origin(self, sizes: tuple[Dim, ...]) -> Dim:
        """Where the input of the first place at the first tap lies."""
        return self.index(sizes, ZERO, self.start, self.start, ZERO)

    @property
    def joined(self) -> bool:
        """Whether what the taps of a line read lies together, channels and taps in turn."""
        apart = self.spread[-1] * self.a["rhs_dilation"][-1]
        return self.last and self.groups == 1 and apart == 1

    def table(
        self, pair: Callable[[Dim, Dim, Dim], tuple[Dim, Dim]], sizes: tuple[Dim, ...], joined: bool | None = None
    ) -> Buffer:
        """What a product knows of the taps, or of the first one of each line where these are ``joined``, if it is said:
        two numbers of each, made of its number in the kernel, of how far what it reads lies from what the first tap
        reads, and of its place in the table."""
        p = self.p
        counts = (*self.taps[:-1], ONE) if (self.joined if joined is None else joined) else self.taps
        taps = tuple(index_of(p, size) for size in counts)
        number = linear(
            tuple(tap * spread + first for tap, spread, first in zip(taps, self.spread, self.first, strict=True)),
            self.full,
        )
        ahead = self.index(sizes, ZERO, self.start, taps, ZERO) - self.origin(sizes)
        p.start()
        target = p.scratch("taps", "i64", total(self.full) * 2)
        place = linear(taps, counts)
        stores = [
            Store(target, place * 2 + side, Index("i64", dim)) for side, dim in enumerate(pair(number, ahead, place))
        ]
        p.run("taps", loops(zip(taps, counts, strict=True), stores), (target,))
        return target

    def nest(self, places: Axes, features: tuple[Dim, Dim]) -> Axes:
        """Loops over places and packs of features. Places first where a small kernel stays in the cache: what they read
        is read once then, and threads write whole rows."""
        size = (self.depth * self.outputs).const
        small = size is not None and size * itemsize(self.dtype) <= SMALL_KERNEL
        return [(self.group, const(self.groups)), *([*places, features] if small else [features, *places])]

    def row_sums(
        self, product: Callable[[Right, Dim, Stmt], Product], value: Var, row: Dim
    ) -> tuple[list[Stmt], tuple[Buffer, ...]]:
        """The same of rows that are places."""
        return [], ()

    def by_places(self, out: Buffer, features: Right, source: Buffer, sizes: tuple[Dim, ...], rounds: Dim) -> None:
        """Rows are the places of a line, or of all images where these are more and lines short (not of phases, whose
        kernels are many), or gathered ones where lines fill blocks badly; columns are features. ``rounds`` is 0 where
        nothing is to be done."""
        table = self.table(lambda number, ahead, _: (ahead, number), sizes)
        long, images = self.spots[-1], self.count
        phased = any(spread > 1 for spread in self.spread)
        lines, gathered = ONE, ZERO
        if images is not ONE and not phased:
            lines = minimum(ONE, maximum(long - TILE + 1, 0) + maximum(long - images + 1, 0))
        if not phased and self.last and self.groups == 1 and (self.outputs.const or 0) >= MANY_FEATURES:
            gathered = self.broken() * lines
        if lines is not ZERO:
            self.along(len(self.spots), out, features, source, sizes, table, rounds * lines * (ONE - gathered))
        if lines is not ONE:
            self.along(0, out, features, source, sizes, table, rounds * (ONE - lines))
        if gathered is not ZERO:
            self.gathered(out, features, source, sizes, rounds * gathered)

    def broken(self) -> Dim:
        """1 where lines fill blocks of rows so badly that all places taken as one line make less than three quarters
        of the blocks, else 0."""
        tile, lines = const(TILE), self.count * total(self.spots[:-1])
        apart: Dim = lines * ceildiv(self.spots[-1], tile)
        whole: Dim = ceildiv(lines * self.spots[-1], tile)
        return minimum(ONE, maximum(apart * 3 - whole * 4, 0))

    def gathered(self, out: Buffer, features: Right, source: Buffer, sizes: tuple[Dim, ...], rounds: Dim) -> None:
        """Rows are copies of what some places of all images read, one behind the other; ``rounds`` as above. Few are
        copied at once, so that threads share features; of many each block for itself, which stays in the cache."""
        run, every = self.run, self.count * total(self.spots)
        table = self.table(lambda number, _, place: (place * run, number), sizes)
        few = minimum(ONE, maximum(const(FEW_ROWS + 1) - every, 0)) * rounds
        self.gathered_by(out, features, source, sizes, table, few, True)
        self.gathered_by(out, features, source, sizes, table, rounds - few, False)

    def gathered_by(
        self,
        out: Buffer,
        features: Right,
        source: Buffer,
        sizes: tuple[Dim, ...],
        table: Buffer,
        rounds: Dim,
        whole: bool,
    ) -> None:
        """``whole``: all rows are copied first, else the rows of each block."""
        p, dtype, shape = self.p, self.dtype, (self.count, *self.spots)
        p.start()
        deep, every = self.inputs * total(self.taps), total(shape)
        panel, block, row, i, j = (symbol(p.name("i")) for _ in range(5))
        most = const(SHARED_ROWS if whole else ROW_GROUP)
        first, blocks = block * most, ceildiv(every, most) * rounds
        many = minimum(most, every - first)
        target = p.scratch("gathered", dtype, (every if whole else most) * deep * rounds)
        image, *spots = parts(row if whole else first + row, [(ONE, size) for size in shape])
        at = [index_of(p, size) for size in (*self.taps, self.inputs)]
        element = Load(dtype, source, self.index(sizes, image, tuple(spots), tuple(at[:-1]), at[-1]))
        copied = linear((row, *at), (every, *self.taps, self.inputs))
        axes: Axes = [(row, every * rounds if whole else many), *zip(at, (*self.taps, self.inputs), strict=True)]
        copy = loops(axes, [Store(target, copied, element)])
        value, left = Var(dtype, p.name("v")), Matrix(target, first * deep if whole else ZERO, deep, ONE)
        image, *spots = parts(first + i, [(ONE, size) for size in shape])
        store = self.stored(out, value, image, panel * pack_columns(dtype) + j, tuple(spots))
        product = [self.by_taps(features.product(panel, many, left, i, j, value.name, store), table)]
        if whole:
            p.run("gather", copy, (target,), once=True)
            p.run(self.cluster.label, loops([(panel, features.count), (block, blocks)], product), (out,), once=True)
        else:
            body = [*copy, *loops([(panel, features.count)], product)]
            p.run(self.cluster.label, loops([(block, blocks)], body), (out,), (target,), once=True)

    @property
    def run(self) -> Dim:
        """Elements that lie together at a tap of the table, where features are last."""
        elements: Dim = self.inputs * (self.taps[-1] if self.joined else ONE)
        return elements

    def by_taps(self, made: Product, table: Buffer) -> Product:
        """A product of places with a panel of features, whose depth is the taps of a table."""
        step = columns_of(made)
        if made.direct is not None:
            step, direct = made.direct.row, made.direct
            made = replace(made, right=direct.buffer, pack=direct.offset, direct=None)
        if self.last:
            taps = self.taps[:-1] if self.joined else self.taps
            return tap_by_tap(made, table, total(taps), step, self.inputs, self.run)
        reach = Reach(total(self.taps), ONE, total(self.full) * step, step, ZERO, ZERO, ZERO, "", table)
        return replace(made, k=self.inputs, reach=reach)

    def along(
        self,
        axis: int,
        out: Buffer,
        features: Right,
        source: Buffer,
        sizes: tuple[Dim, ...],
        table: Buffer,
        rounds: Dim,
    ) -> None:
        """Rows are places along an axis of (image, places)."""
        p, dtype = self.p, self.dtype
        p.start()
        shape = self.count, *self.spots
        block, i, j = symbol(p.name("i")), symbol(p.name("i")), symbol(p.name("i"))
        at = [index_of(p, size) for size in shape]
        others = [(index, size) for k, (index, size) in enumerate(zip(at, shape, strict=True)) if k != axis]

        def place(row: Dim) -> Dim:
            first = [row if k == axis else index for k, index in enumerate(at)]
            return self.index(sizes, first[0], tuple(first[1:]), self.start, ZERO)

        first, panel = block * ROW_GROUP, features.columns(p)
        many = minimum(const(ROW_GROUP), shape[axis] - first)
        channel = self.index(sizes, ZERO, self.start, self.start, ONE) - self.origin(sizes)
        left = Matrix(source, place(first), place(first + 1) - place(first), channel)
        at[axis] = first + i
        value = Var(dtype, p.name("v"))

        def product(right: Right, number: Dim, body: Stmt) -> Product:
            return self.by_taps(right.product(number, many, left, i, j, value.name, body), table)

        before, private = self.row_sums(product, value, i)
        store = self.stored(out, value, at[0], panel * pack_columns(dtype) + j, tuple(at[1:]))
        lines: Axes = [*others, (block, ceildiv(shape[axis], const(ROW_GROUP)) * rounds)]
        nest = self.nest(lines, (panel, features.count))
        p.run(self.cluster.label, loops(nest, [*before, product(features, panel, store)]), (out,), private, once=True)


def columns_of(made: Product) -> Dim:
    """The columns of a product's panel with those that fill its last vectors."""
    step = pack_step(made.dtype)
    return ceildiv(made.n, const(step)) * step


def tap_by_tap(made: Product, table: Buffer, taps: Dim, step: Dim, deep: Dim, run: Dim) -> Product:
    """A product that reads, at each of ``taps``, a ``run`` of elements; of a tap the right side has ``deep``, ``step``
    apart."""
    return replace(made, k=run, reach=Reach(taps, ONE, step, step * deep, ZERO, ZERO, ZERO, "", table, True))
