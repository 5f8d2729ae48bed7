"""The loop IR: kernels as structured statements over scalar expressions.

Every index and extent is a ``Dim`` over size symbols, loop variables and bound indices (all integers >= 0, which is
what a symbol is): the normal form of sizes folds index maps. Values are typed by our dtype names; i1 lies in memory
as one byte. The two printers (LLVM, CUDA) read this and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from egshape.dims import Dim, const


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """A row-major array of ``size`` elements. kind: input, const (with ``data``), temp or output."""

    name: str
    dtype: str
    size: Dim
    kind: str
    data: np.ndarray | None = None


# -- expressions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Const:
    """A number."""

    dtype: str
    value: int | float | bool


@dataclass(frozen=True, eq=False, slots=True)
class Load:
    """The element of a buffer at a flat index."""

    dtype: str
    buffer: Buffer
    index: Dim


@dataclass(frozen=True, eq=False, slots=True)
class Index:
    """An index or size as a value, wrapped or rounded to ``dtype``."""

    dtype: str
    dim: Dim


@dataclass(frozen=True, eq=False, slots=True)
class Test:
    """i1: every one of ``dims`` is >= 0."""

    dims: tuple[Dim, ...]
    dtype: str = "i1"


@dataclass(frozen=True, eq=False, slots=True)
class Var:
    """A local of the kernel (``Let`` or ``Local``)."""

    dtype: str
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """An elementwise op on scalars, or one that only a planner writes: "fma", a product of two and the third added,
    rounded once; "exp2", a power of two. ``fast``: the result may be rounded in another way, of sums and products since
    they are reassociated (reductions and dots only); a fast exp2 is as exact as the machine's unit for it."""

    dtype: str
    op: str
    args: tuple[Expr, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    fast: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Choose:
    """``then`` if ``condition`` holds, else ``other``; only the chosen one is evaluated."""

    dtype: str
    condition: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Bind:
    """``body`` with the symbol ``name`` standing for an integer value clamped to [0, upper]."""

    dtype: str
    name: str
    value: Expr
    upper: Dim
    body: Expr


Expr: TypeAlias = Const | Load | Index | Test | Var | Call | Choose | Bind

# -- statements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """``body`` for var = 0, 1, ... extent - 1."""

    var: str
    extent: Dim
    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Free(Loop):
    """A loop whose rounds may run in any order, or at the same time, because who made it says so."""


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """Write an element."""

    buffer: Buffer
    index: Dim
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Let:
    """A value that later statements of this block read as ``Var``."""

    name: str
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Local:
    """A mutable local with its first value."""

    name: str
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Assign:
    """A new value for a mutable local."""

    name: str
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class LetIndex:
    """An integer value as a symbol for later indices of this block."""

    name: str
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class If:
    """One of two blocks."""

    condition: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class While:
    """``body`` as long as ``condition`` holds."""

    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Matrix:
    """A matrix in a buffer: element (i, j) at offset + i*row + j*column."""

    buffer: Buffer
    offset: Dim
    row: Dim
    column: Dim

    @property
    def pitch(self) -> tuple[int, bool]:
        """Of a matrix with one stride of 1 and another that is a number: how far apart its lines are, and whether a
        line goes along its second index."""
        along = self.column.const == 1
        found = (self.row if along else self.column).const
        assert found is not None, self
        return found, along


@dataclass(frozen=True, eq=False, slots=True)
class Pack:
    """Copy ``columns`` columns of a right operand, at most a panel, to ``target``: row l stands at offset + l*width,
    where width is ``columns`` rounded up to the panel step; what is added is 0."""

    dtype: str
    rows: Dim
    columns: Dim
    source: Matrix
    target: Buffer
    offset: Dim


@dataclass(frozen=True, eq=False, slots=True)
class Reach:
    """How a product reads its sides where its depth is channels (k of them) times ``taps``, of which ``table`` holds
    two numbers: tap s of channel c of the left side lies at c * left.column + table[2*s] * ``left``, of the right side
    at c * ``channel`` + table[2*s + 1] * ``right``, whose columns are read by whole vectors. Where there is ``line``,
    columns are places of lines that begin ``pitch`` apart, the first one the place ``start``: ``body`` runs for those
    of the first ``long`` places of a line, with the symbol ``line`` and the place in the column's symbol. ``runs``: tap
    by tap, the channels of each in turn; else channel by channel."""

    taps: Dim
    left: Dim
    channel: Dim
    right: Dim
    start: Dim
    pitch: Dim
    long: Dim
    line: str
    table: Buffer
    runs: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Product:
    """A panel of left @ right, (m, k) by (k, n), n at most a panel: f32 or f64; or, where there is ``elements``, sums
    of products of narrower numbers, so many of which (``GROUPS``), side by side along the depth, are one element: i32
    sums of bytes, "s8u8" or "u8s8" by what the left and the right ones are, or f32 sums of "bf16"; "f32f16": f32 times
    f16, which are widened as they are read. ``k`` and the strides count elements, offsets numbers of their buffers.

    ``right`` is a packed panel at ``panel`` of its buffer. Where there is ``direct``, the same columns where they lie
    (row or column stride 1; with row stride 1 the left side's columns lie so too), that is read instead if ``few`` <=
    FEW_ROWS. ``body`` runs for each element, in no stated order,
    with the symbols ``row`` and ``column`` and the sum in the local ``value``."""

    dtype: str
    m: Dim
    n: Dim
    k: Dim
    left: Matrix
    right: Buffer
    pack: Dim
    direct: Matrix | None
    few: Dim
    row: str
    column: str
    value: str
    body: tuple[Stmt, ...]
    elements: str = ""
    reach: Reach | None = None

    @property
    def depth(self) -> Dim:
        """Products of a sum."""
        return self.k if self.reach is None else self.k * self.reach.taps


@dataclass(frozen=True, eq=False, slots=True)
class Contract:
    """For each ``row`` < m and ``column`` < n the sum over ``deep`` < k of left * right, in any order, in the local
    ``value``; ``body`` runs with it. The rounds may run in any order, or at the same time; a grid maps them to tiles
    (plan/gpu/product/blocks.py), no printer knows them."""

    dtype: str
    m: Dim
    n: Dim
    k: Dim
    row: str
    column: str
    deep: str
    left: Expr
    right: Expr
    value: str
    body: tuple[Stmt, ...]

    @property
    def products(self) -> Dim:
        """Multiply-adds."""
        return self.m * self.n * self.k


@dataclass(frozen=True, eq=False, slots=True)
class Attend:
    """Softmax between two products: for each ``row`` < m the scores are, over ``column`` < n, ``scores`` of the sum
    over ``deep`` < k of left * right, which is the local ``score``. The local ``peak`` is the largest of a row (NaN if
    one is), and ``total`` the sum of exp(score - base), where base is the peak, or 0 where that is -inf. For each
    ``place`` < width ``body`` runs with the sum over the columns of exp(score - base) * values, times ``factor``, in
    the local ``value``; where ``live`` does not hold, with the sum of 0 * values if the peak is -inf, else 0.
    ``factor`` and ``live`` read the peak and the total.

    All that is f32, but sides are of ``dtype``, and so are the exponentials that are multiplied. The rounds over rows
    and places may run in any order, or at the same time; a grid maps them to tiles (plan/gpu/attention/tiles.py), no
    printer knows them."""

    dtype: str
    m: Dim
    n: Dim
    k: Dim
    width: Dim
    row: str
    column: str
    deep: str
    place: str
    left: Expr
    right: Expr
    values: Expr
    score: str
    scores: Expr
    peak: str
    total: str
    factor: Expr
    live: Expr
    value: str
    body: tuple[Stmt, ...]

    @property
    def products(self) -> Dim:
        """Multiply-adds of both products."""
        return self.m * self.n * (self.k + self.width)


Stmt: TypeAlias = Loop | Store | Let | Local | Assign | LetIndex | If | While | Pack | Product | Contract | Attend


@dataclass(frozen=True)
class Bounds:
    """A size that is a multiple of ``divisor``, at least ``low`` and at most ``high``."""

    name: str
    divisor: int
    low: int
    high: int | None


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """A loop nest; ``label`` names it in profiles, ``outputs`` are the buffers that it writes. ``private``: temporary
    buffers that every iteration of the outermost loops writes before it reads, of which each thread has its own."""

    label: str
    body: tuple[Stmt, ...]
    outputs: tuple[Buffer, ...]
    private: tuple[Buffer, ...] = ()
    once: bool = False
    """Every element of the outputs is stored by one iteration of the outermost loops only, because the planner made
    the nest from the elements of the results."""
    bounds: tuple[Bounds, ...] = ()
    """What holds of its sizes wherever it runs."""
    where: str = ""
    """The op of the model that it computes, and its location."""


def name_of(variable: Dim) -> str:
    """The name of a size that is one symbol."""
    (name,) = variable.symbols()
    return name


def linear(indices: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Dim:
    """The row-major flat index."""
    flat = const(0)
    for index, size in zip(indices, shape, strict=True):
        flat = flat * size + index
    return flat
