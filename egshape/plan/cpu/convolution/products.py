"""Convolution: products whose one side is read from the padded input by taps, or direct sums.

The input is copied once, padded, so that no tap needs a test, and split by the stride (element s*i + r goes to part r,
place i), so that places of a line whose tap is the same lie side by side at every stride and dilation. Nothing is
gathered: a product reads each tap where it lies. Rows of a product are features and columns places, as they lie, the
padding between lines included; or rows are the places of a line and columns features, which wastes nothing where
features fill vectors. Sizes decide. Taps that only meet padding are left out, and an input that is dilated is taken
apart. Few features of a group are summed directly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, maximum, minimum, symbol
from egshape.dims import product as total
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.cpu.convolution.operands import index_of
from egshape.plan.cpu.convolution.places import Places
from egshape.plan.cpu.packing import Right, packed
from egshape.plan.form.matrices import ONE, Axes, loops, matrix, parts
from egshape.plan.ir.loops import Buffer, Matrix, Product, Reach, Stmt, Var, name_of
from egshape.plan.ir.packs import ROW_GROUP, pack_columns, pack_step

FEW_FEATURES = 4
"""Input times output features of a group up to which sums are direct."""
TURNED = 32
"""Storing a block whose rows are places, which lie side by side, takes about as long as so much depth."""
TWICE = 1 << 22
"""Bytes up to which a constant kernel lies in panels and in rows where both are needed."""
Products = Callable[[Dim, Matrix, Stmt], Product]
"""A panel's product with some rows of a left side and its epilogue."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The input of a convolution of single places as a matrix ``left``, of all images or of each of ``images``: its
    rows are the places of ``shape``, of ``image`` if they are of one."""

    left: Matrix
    images: Axes
    shape: tuple[Dim, ...]
    image: Dim | None

    def at(self, row: Dim) -> Indices:
        """The image and the place that a row is."""
        found = parts(row, [(ONE, size) for size in self.shape])
        return found if self.image is None else (self.image, *found)


class Convolution(Places):
    """The kernels of a convolution."""

    def emit(self) -> None:
        """Add them: direct sums where groups are many and features few, else products."""
        if self.direct:
            self.sums()
        else:
            self.products()

    @property
    def direct(self) -> bool:
        """Whether it is summed directly: groups are many, and features of each are few."""
        features = (self.inputs * self.outputs).const
        return self.groups > 1 and features is not None and features <= FEW_FEATURES

    def products(self) -> None:
        """Products of features and the places of an image, or of places and features, whichever wastes less; sizes
        decide when the function runs."""
        p = self.p
        if self.pointwise and self.plain():
            return
        phases = self.phases()
        if not phases:
            self.trim()
        features = self.features()
        source, sizes = self.flat() if self.last else self.padded()
        p.start()
        out = self.target()
        for each in phases or [self]:
            each.frame = self.frame
            wide = ZERO if self.last else each.wide(each.slab(sizes))
            if wide is not ZERO:
                each.by_features(out, features, source, sizes, wide)
            if wide is not ONE:
                each.by_places(out, features, source, sizes, ONE - wide)
        self.made(out)

    def wide(self, columns: Dim) -> Dim:
        """1 where so many columns, of which the places along the last two axes are some, fill panels about as well as
        the features would, else 0."""
        step = const(pack_step(self.dtype))
        deep = self.inputs * total(self.full if None in [size.const for size in self.taps] else self.taps)
        features = total(self.spots[-2:]) * ceildiv(self.outputs, step) * (deep + TURNED)
        return minimum(ONE, maximum(features - ceildiv(columns, step) * self.outputs * deep + 1, 0))

    def slab(self, sizes: tuple[Dim, ...]) -> Dim:
        """Places along the last two axes, with the padding between lines; none where an axis has none."""
        lines = self.spots[-2] if len(self.spots) > 1 else ONE
        return maximum((lines - 1) * sizes[-1] + self.spots[-1], 0) * minimum(total(self.spots[-2:]), ONE)

    def features(self) -> Right:
        """The kernel as (channel and tap, or tap and channel where features are last; feature): in panels if it is
        constant, else as it is copied."""
        p, dtype = self.p, self.dtype
        count = self.count * total(self.spots)
        if self.kept is not None:
            weights = self.weights("goti" if self.last else "goit")
            wide = Matrix(weights, self.group * self.outputs * self.depth, ONE, self.depth)
            return packed(p, dtype, wide, [(self.group, const(self.groups))], count, self.outputs, self.depth)
        weights = self.weights("gtio" if self.last else "gito")
        wide = Matrix(weights, self.group * self.depth * self.outputs, self.outputs, ONE)
        return Right(dtype, self.depth, self.outputs, ZERO, wide, weights, ZERO, direct=True)

    def by_features(self, out: Buffer, features: Right, source: Buffer, sizes: tuple[Dim, ...], rounds: Dim) -> None:
        """Rows are features, columns the places of one image as they lie in the padded input, padding between lines
        included; ``rounds`` is 0 where nothing is to be done."""
        p, dtype = self.p, self.dtype
        table = self.table(lambda number, ahead, _: (number, ahead), sizes)
        p.start()
        i, column, line = symbol(p.name("i")), symbol(p.name("i")), symbol(p.name("i"))
        image, outer = index_of(p, self.count), tuple(index_of(p, size) for size in self.spots[:-2])
        count, width = self.slab(sizes), pack_columns(dtype)
        number = ZERO if count.const is not None and count.const <= width else symbol(p.name("i"))
        start, panel = number * width, features.columns(p)
        spots = (*outer, line, column) if len(self.spots) > 1 else (column,)
        begin = (*outer, *[ZERO] * len(self.spots[-2:]))
        at = self.index(sizes, image, begin, self.start, ZERO) + start
        reach = Reach(
            total(self.taps), ONE, total(sizes[2:]), ONE, start, sizes[-1], self.spots[-1], name_of(line), table
        )
        value = Var(dtype, p.name("v"))

        def product(many: Dim, left: Matrix, body: Stmt) -> Product:
            deep = Matrix(left.buffer, left.offset, left.row, left.column * total(self.full))
            return Product(
                dtype,
                many,
                minimum(const(width), count - start),
                self.inputs,
                deep,
                source,
                at,
                None,
                ZERO,
                name_of(i),
                name_of(column),
                value.name,
                (body,),
                "s8u8" * self.quads,
                replace(reach, left=left.column),
            )

        before, private = self.column_sums(product, value, line * sizes[-1] + column - start)
        store = self.stored(out, value, image, panel * width + i, spots)
        body = loops(
            [(panel, features.count)], [product(features.some(panel), self.left(features, panel, rounds), store)]
        )
        nest: Axes = [
            (image, self.count),
            (self.group, const(self.groups)),
            *zip(outer, self.spots[:-2], strict=True),
            (number, ceildiv(count, const(width)) * rounds),
        ]
        p.run(self.cluster.label, loops(nest, [*before, *body]), (out,), private, once=True)

    def left(self, features: Right, panel: Dim, rounds: Dim) -> Matrix:
        """Some features as the left side. Rows that lie together are read faster than those of panels, so that small
        kernels lie twice."""
        if self.kept is None or (rounds is not ONE and self.kept.nbytes > TWICE):
            return features.turned(panel)
        first = self.group * self.outputs + panel * pack_columns(self.dtype)
        return Matrix(self.weights("goit"), first * self.depth, self.depth, ONE)

    def column_sums(self, product: Products, value: Var, column: Dim) -> tuple[list[Stmt], tuple[Buffer, ...]]:
        """What is computed of a panel of places before its products, and where: for kernels with a zero point."""
        return [], ()

    @property
    def pointwise(self) -> bool:
        """Whether each element of the result reads the input at its own place only."""
        a = self.a
        return (
            all(size is ONE for size in self.taps)
            and all(each is ZERO for each in a["padding"])
            and all(each == 1 for each in (*a["strides"], *a["lhs_dilation"]))
        )

    def rows(self, image: Dim, spots: Indices, channel: Dim) -> Rows | None:
        """The input as a matrix, if it lies as one: the places of all images where features are last, else of each."""
        read = self.p.read(self.x, self.input_at(image, channel, spots))
        places: Axes = list(zip(spots, self.spots, strict=True))
        one: Axes = [(image, self.count)]
        groups: Axes = [(self.group, const(self.groups))]
        for images, free in (([], [*one, *places]), (one, places)) if self.last else ((one, places),):
            left = matrix(read, [*images, *groups], free, [(channel, self.inputs)])
            if left is not None:
                return Rows(left, images, tuple(size for _, size in free), None if not images else image)
        return None

    def plain(self) -> bool:
        """Plan it where the input itself is a matrix of each image; False if it lies in no such order."""
        p, dtype = self.p, self.dtype
        if self.x.type.dtype != dtype:
            return False
        image, channel = index_of(p, self.count), index_of(p, self.inputs)
        spots = tuple(index_of(p, size) for size in self.spots)
        p.buffer(self.x)
        p.start()
        rows = self.rows(image, spots, channel)
        if rows is None:
            return False
        found = rows.left
        outer: Axes = [*rows.images, (self.group, const(self.groups))]
        every = total(rows.shape)
        wide = ZERO if self.last else self.wide(every)
        features = self.features()
        right = (
            None
            if wide is ZERO
            else packed(
                p,
                dtype,
                Matrix(found.buffer, found.offset, found.column, found.row),
                outer,
                self.outputs,
                every,
                self.inputs,
                wide,
            )
        )
        p.start()
        out = self.target()
        value, i, j = Var(dtype, p.name("v")), symbol(p.name("i")), symbol(p.name("i"))
        panel = features.columns(p)
        if right is not None:
            number = right.columns(p)
            places = rows.at(number * pack_columns(dtype) + j)
            store = self.stored(out, value, places[0], panel * pack_columns(dtype) + i, places[1:])
            left = self.left(features, panel, wide)
            product = right.product(number, features.some(panel), left, i, j, value.name, store)
            nest: Axes = [*outer, (number, right.count * wide)]
            p.run(self.cluster.label, loops([*nest, (panel, features.count)], [product]), (out,), once=True)
        if wide is not ONE:
            p.start()
            block = symbol(p.name("i"))
            first = block * ROW_GROUP
            places = rows.at(first + i)
            store = self.stored(out, value, places[0], panel * pack_columns(dtype) + j, places[1:])
            left = Matrix(found.buffer, found.offset + first * found.row, found.row, found.column)
            product = features.product(panel, minimum(const(ROW_GROUP), every - first), left, i, j, value.name, store)
            blocks: Axes = [*rows.images, (block, ceildiv(every, const(ROW_GROUP)) * (ONE - wide))]
            nest = self.nest(blocks, (panel, features.count))
            p.run(self.cluster.label, loops(nest, [product]), (out,), once=True)
        self.made(out)
        return True
