"""Matrices in memory and the panels that products read them in: what dot_general, attention and convolution share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim, ceildiv, const, maximum, minimum, symbol
from egshape.dims import product as total
from egshape.ir.types import dtype_name, numpy_dtype
from egshape.plan.analysis.elements import ZERO
from egshape.plan.cpu import pages
from egshape.plan.form.dots import converted
from egshape.plan.form.matrices import ONE, Axes, loops
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, If, Load, Matrix, Pack, Product, Stmt, Store, Test, linear
from egshape.plan.ir.packs import FEW_ROWS, TILES_ALONE, pack_columns, pack_count, pack_room, pack_step


@dataclass(frozen=True, eq=False)
class Right:
    """The right side (k, n) of products, in panels at ``offset`` of ``buffer``; or, if ``direct``, where it lies
    (``wide``) while ``few``, the number of all rows, is small. Where there is ``elements`` (``Product.elements``),
    ``unit`` numbers of the buffer make one of the panels, and they lie nowhere else. Where there is ``narrow``, each
    panel is widened from it to the begin of ``buffer`` before it is multiplied."""

    dtype: str
    k: Dim
    n: Dim
    few: Dim
    wide: Matrix
    buffer: Buffer
    offset: Dim
    elements: str = ""
    unit: int = 1
    direct: bool = False
    narrow: Right | None = None

    @property
    def kind(self) -> str:
        """What its packs are made for."""
        return self.elements if self.elements in TILES_ALONE else self.dtype

    @property
    def width(self) -> int:
        """Columns of a full panel."""
        return pack_columns(self.kind)

    def columns(self, p: Steps) -> Dim:
        """Index of the panel: a new loop variable, or 0 where there is one only."""
        return ZERO if self.n.const is not None and self.n.const <= pack_room(self.dtype) else symbol(p.name("i"))

    @property
    def count(self) -> Dim:
        """The number of panels."""
        if self.n.const is None:
            return ceildiv(self.n, const(self.width))
        return const(pack_count(self.n.const, self.kind))

    def product(
        self, panel: Dim, m: Dim, left: Matrix, row: Dim, column: Dim, value: str, body: Stmt, at: Dim | None = None
    ) -> Product:
        """The product of ``m`` rows with a panel, which lies at ``at`` if not in its place among the others."""
        start = panel * self.width
        direct = None
        if self.direct and self.buffer.data is None and not self.elements:
            wide = self.wide
            direct = Matrix(wide.buffer, wide.offset + start * wide.column, wide.row, wide.column)
        (i,), (j,) = row.symbols(), column.symbols()
        if at is None:
            at = ZERO if self.narrow is not None else self.offset + start * self.k * self.unit
        return Product(
            self.dtype,
            m,
            self.some(panel),
            self.k,
            left,
            self.buffer,
            at,
            direct,
            self.few,
            i,
            j,
            value,
            (body,),
            self.elements,
        )

    def widened(self, p: Steps, panel: Dim) -> tuple[Stmt, ...]:
        """A panel made from the narrow one, if that is how they are made."""
        if self.narrow is None:
            return ()
        source, i, step = self.narrow.buffer, symbol(p.name("i")), const(pack_step(self.dtype))
        start = self.narrow.offset + panel * self.width * self.k
        element = converted(self.dtype, Load(source.dtype, source, start + i))
        area = self.k * (ceildiv(self.some(panel), step) * step)
        return loops([(i, area)], [Store(self.buffer, i, element)])

    def turned(self, panel: Dim) -> Matrix:
        """A panel as a left side: (columns, k)."""
        start, step = panel * self.width, const(pack_step(self.dtype))
        if self.buffer.data is None and self.wide.column is ONE:
            return Matrix(self.wide.buffer, self.wide.offset + start, ONE, self.wide.row)
        return Matrix(self.buffer, self.offset + start * self.k, ONE, ceildiv(self.some(panel), step) * step)

    def some(self, panel: Dim) -> Dim:
        """The columns of a panel."""
        width, last = self.width, self.count.const
        if panel is ZERO and last in (0, 1):
            return self.n
        most = const(width)
        if last is not None and self.n.const is not None and self.n.const > last * width:
            most += maximum(panel - (last - 2), 0) * pack_step(self.dtype)
        return minimum(most, self.n - panel * width)


def packed(
    p: Steps,
    dtype: str,
    wide: Matrix,
    batch: Axes,
    few: Dim,
    n: Dim,
    k: Dim,
    rounds: Dim = ONE,
    along: bool = False,
) -> Right:
    """A right operand in panels: made now if it is constant, else by a kernel unless rows are known to be few. What is
    the same for all of the batch is packed once. ``rounds`` is 0 where sizes make it needless; ``along``: the left
    side's columns lie along memory, so that few rows may read columns that do so too where they lie."""
    if all(index.symbols().isdisjoint(wide.offset.symbols()) for index, _ in batch):
        batch = []
    step = const(pack_step(dtype))
    area = k * (ceildiv(n, step) * step)
    at = linear(tuple(index for index, _ in batch), tuple(size for _, size in batch)) * area
    data = _constant_packs(wide, batch, n, k)
    if data is not None:
        key = (wide.buffer, wide.offset, wide.row, wide.column, k, n, *(size for _, size in batch))
        if key not in p.packed:
            name = f"{wide.buffer.name}.panels.{len(p.packed)}"
            p.packed[key] = Buffer(name, dtype, const(data.size), "const", data)
        return Right(dtype, k, n, few, wide, p.packed[key], at)
    direct = wide.buffer.data is None and (wide.column is ONE or (along and wide.row is ONE))
    if direct and few.const is not None and few.const <= FEW_ROWS:
        return Right(dtype, k, n, few, wide, wide.buffer, ZERO, direct=True)
    target = p.scratch("panels", dtype, total([*(size for _, size in batch), area, rounds]))
    right = Right(dtype, k, n, few, wide, target, at, direct=direct)
    panel = right.columns(p)
    start = panel * pack_columns(dtype)
    source = Matrix(wide.buffer, wide.offset + start * wide.column, wide.row, wide.column)
    body: Stmt = Pack(dtype, k, right.some(panel), source, target, at + start * k)
    if direct:
        body = If(Test((few - FEW_ROWS - 1,)), (body,))
    p.run("pack", loops([*batch, (panel, right.count * rounds)], [body]), (target,), once=True)
    return right


def constant_matrices(wide: Matrix, batch: Axes, n: Dim, k: Dim) -> list[np.ndarray] | None:
    """A constant as (k, n) arrays, one for each place of the batch; None if it is none."""
    row, column, deep, columns = wide.row.const, wide.column.const, k.const, n.const
    if wide.buffer.data is None or row is None or column is None or deep is None or columns is None:
        return None
    flat, found = wide.buffer.data.reshape(-1), []
    counts = [size.const for _, size in batch]
    for place in np.ndindex(*[count or 0 for count in counts]):
        env = {name: at for (index, _), at in zip(batch, place, strict=True) for name in index.symbols()}
        offset = wide.offset.substitute(env).const
        if offset is None or None in counts:
            return None
        strides = row * flat.itemsize, column * flat.itemsize
        found.append(
            np.lib.stride_tricks.as_strided(flat[offset:], (deep, columns), strides)
            if deep and columns
            else np.zeros((deep, columns), flat.dtype)
        )
    return None if None in counts else found


def _constant_packs(wide: Matrix, batch: Axes, n: Dim, k: Dim) -> np.ndarray | None:
    """The panels of a constant, of one batch after the other; None if it is no constant."""
    found = constant_matrices(wide, batch, n, k)
    if found is None:
        return None
    return joined([packs(each) for each in found], numpy_dtype(wide.buffer.dtype))


def packs(whole: np.ndarray, kind: str = "") -> np.ndarray:
    """A (k, n) matrix as panels one after the other, of a kind of elements if not of its dtype."""
    kind = kind or dtype_name(whole.dtype)
    k, n = whole.shape
    width, step = pack_columns(kind), pack_step(kind)
    out, at = aligned(k * (-(-n // step) * step), whole.dtype), 0
    count = pack_count(n, kind)
    for begin in range(0, count * width, width):
        part = whole[:, begin : n if begin == (count - 1) * width else begin + width]
        room = -(-part.shape[1] // step) * step
        out[at : at + k * room].reshape(k, room)[:, : part.shape[1]] = part
        at += k * room
    return out


def joined(packed: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """Panels of several matrices one after the other."""
    if len(packed) == 1:
        return packed[0]
    return np.concatenate([np.zeros(0, dtype), *packed], out=aligned(sum(each.size for each in packed), dtype))


def aligned(size: int, dtype: np.dtype) -> np.ndarray:
    """Zeros that begin where a line of the cache does."""
    return pages.zeros(size * dtype.itemsize).view(dtype)
