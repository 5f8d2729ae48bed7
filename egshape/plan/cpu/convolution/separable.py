"""A depthwise convolution and the pointwise one that alone reads it, in one kernel: some lines of the first lie in a
scratch that stays in the cache, which is the left operand of the second's product (Howard et al. 2017 call the two a
depthwise separable convolution)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from egshape.dims import Dim, ceildiv, const, floordiv, maximum, minimum, symbol
from egshape.ir.graph import Block, Op, Value
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.cpu.convolution.kinds import is_product
from egshape.plan.cpu.convolution.operands import index_of
from egshape.plan.cpu.convolution.products import Convolution
from egshape.plan.form import epilogue
from egshape.plan.form.matrices import ONE, loops, parts
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Matrix, Stmt, Store, Var
from egshape.plan.ir.packs import pack_columns

PLACES = 32
"""Places of the scratch, about: whole lines, one at least. More threads than lines of so many have nothing to do."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """``depthwise`` and ``pointwise``, each with its epilogue."""

    ops: tuple[Op, ...]
    depthwise: epilogue.Cluster
    pointwise: epilogue.Cluster

    def emit(self, p: Steps) -> None:
        """Add the kernel."""
        _Writer(p, self).emit()


def find(
    p: Steps,
    block: Block,
    number: int,
    uses: epilogue.Readers,
    taken: Collection[Op],
    waiting: Collection[Value],
) -> Cluster | None:
    """The pair that begins with an op; None if there is none."""
    if not is_product(block.ops[number]):
        return None
    one = epilogue.find(block, number, uses, taken, waiting)
    following = uses.get(one.result, ())
    if len(following) != 1 or following[0] == epilogue.ENDLESS or one.result in p.outputs:
        return None
    second = block.ops[following[0]]
    if second in taken or not is_product(second) or second.operands[0] is not one.result:
        return None
    two = epilogue.find(block, following[0], uses, taken, waiting)
    if one.elementwise < len(one.ops) or not _is_pair(Convolution(p, one), Convolution(p, two)):
        return None
    return Cluster((*one.ops, *two.ops), one, two)


def _is_pair(depthwise: Convolution, pointwise: Convolution) -> bool:
    """Whether one is summed directly, line by line, and the other is a product."""
    return (
        depthwise.direct
        and depthwise.last
        and depthwise.written_out
        and len(depthwise.spots) > 1
        and pointwise.pointwise
        and pointwise.last
        and pointwise.groups == 1
        and len(pointwise.spots) == len(depthwise.spots)
        and all(each.x.type.dtype == each.dtype == depthwise.dtype for each in (depthwise, pointwise))
    )


class _Writer:
    """Writes the kernel."""

    def __init__(self, p: Steps, cluster: Cluster) -> None:
        self.p = p
        self.depthwise, self.pointwise = Convolution(p, cluster.depthwise), Convolution(p, cluster.pointwise)
        self.channels = self.pointwise.inputs
        *self.outer, self.height, self.width = self.depthwise.spots
        self.lines = maximum(floordiv(const(PLACES), maximum(self.width, ONE)), ONE)
        """Lines of a block."""
        self.block = symbol(p.name("i"))
        self.many = minimum(self.lines, self.height - self.block * self.lines)

    def emit(self) -> None:
        """Both operands as products and sums want them, then the kernel."""
        p, one, two = self.p, self.depthwise, self.pointwise
        weights, (source, sizes) = one.weights("tigo"), one.flat()
        features = two.features()
        p.start()
        out = two.target()
        image, outer = index_of(p, one.count), tuple(index_of(p, size) for size in self.outer)
        scratch = p.scratch("lines", one.dtype, self.lines * self.width * self.channels)
        i, j, value = symbol(p.name("i")), symbol(p.name("i")), Var(two.dtype, p.name("v"))
        panel = features.columns(p)
        line, column = parts(i, [(ONE, self.lines), (ONE, self.width)])
        spots = (*outer, self.block * self.lines + line, column)
        store = two.stored(out, value, image, panel * pack_columns(two.dtype) + j, spots)
        left = Matrix(scratch, ZERO, self.channels, ONE)
        product = features.product(panel, self.many * self.width, left, i, j, value.name, store)
        body = [
            *self.summed(scratch, weights, source, sizes, image, outer),
            *loops([(panel, features.count)], [product]),
        ]
        nest = [
            (image, one.count),
            *zip(outer, self.outer, strict=True),
            (self.block, ceildiv(self.height, self.lines)),
        ]
        p.run("separable", loops(nest, body), (out,), (scratch,), once=True)
        two.made(out)

    def summed(
        self, scratch: Buffer, weights: Buffer, source: Buffer, sizes: tuple[Dim, ...], image: Dim, outer: Indices
    ) -> tuple[Stmt, ...]:
        """The depthwise sums of the lines of a block, strips of places at once."""
        p, one = self.p, self.depthwise
        line, feature = symbol(p.name("i")), index_of(p, one.outputs)

        def strip(columns: Sequence[Dim]) -> tuple[Stmt, ...]:
            places = [(*outer, self.block * self.lines + line, column) for column in columns]
            values = [Var(one.dtype, p.name("v")) for _ in places]
            stores = []
            for place, column, value in zip(places, columns, values, strict=True):
                kept = (line * self.width + column) * self.channels + one.group * one.outputs + feature
                stores.append(Store(scratch, kept, one.finished(value, image, feature, place)))
            body = [*one.summed(values, source, sizes, weights, image, feature, places), *stores]
            return loops([(one.group, const(one.groups)), (feature, one.outputs)], body)

        return loops([(line, self.many)], one.strips(strip))
