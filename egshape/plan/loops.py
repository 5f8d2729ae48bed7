"""The loop IR: kernels as structured statements over scalar expressions.

Every index and extent is a ``Dim`` over size symbols, loop variables and bound indices (all integers >= 0, which is
what a symbol is): the normal form of sizes folds index maps. Values are typed by our dtype names; i1 lies in memory
as one byte. The two printers (LLVM, CUDA) read this and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
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
    """An elementwise op on scalars; ``fast`` allows reassociation (reductions and dots only)."""

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
    """A matrix in a buffer: element (i, j) at offset + i*row + j*column; one of the strides is 1."""

    buffer: Buffer
    offset: Dim
    row: Dim
    column: Dim


@dataclass(frozen=True, eq=False, slots=True)
class Gemm:
    """out = left @ right, (m, k) by (k, n); out has column stride 1. f32 or f64."""

    dtype: str
    m: Dim
    n: Dim
    k: Dim
    left: Matrix
    right: Matrix
    out: Matrix


Stmt: TypeAlias = Loop | Store | Let | Local | Assign | LetIndex | If | While | Gemm


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """A loop nest; ``label`` names it in profiles, ``outputs`` are the buffers that it writes."""

    label: str
    body: tuple[Stmt, ...]
    outputs: tuple[Buffer, ...]


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression."""
    match expr:
        case Call():
            return expr.args
        case Choose():
            return expr.condition, expr.then, expr.other
        case Bind():
            return expr.value, expr.body
    return ()


def expressions(body: tuple[Stmt, ...]) -> Iterator[Expr]:
    """Every expression of the statements, each node once."""
    seen: set[int] = set()

    def visit(expr: Expr) -> Iterator[Expr]:
        if id(expr) in seen:
            return
        seen.add(id(expr))
        yield expr
        for child in children(expr):
            yield from visit(child)

    for stmt in statements(body):
        match stmt:
            case Store() | Let() | Local() | Assign() | LetIndex():
                yield from visit(stmt.value)
            case If() | While():
                yield from visit(stmt.condition)


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer ones first."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, Loop | While):
            yield from statements(stmt.body)
        elif isinstance(stmt, If):
            yield from statements(stmt.then)
            yield from statements(stmt.other)


def buffers(body: tuple[Stmt, ...]) -> tuple[Buffer, ...]:
    """The buffers that statements touch, in order of first use."""
    found: dict[Buffer, None] = {}
    for stmt in statements(body):
        if isinstance(stmt, Store):
            found[stmt.buffer] = None
        elif isinstance(stmt, Gemm):
            found.update(dict.fromkeys((stmt.left.buffer, stmt.right.buffer, stmt.out.buffer)))
    for expr in expressions(body):
        if isinstance(expr, Load):
            found[expr.buffer] = None
    return tuple(found)


def dims(body: tuple[Stmt, ...]) -> Iterator[Dim]:
    """Every size and index in the statements."""
    for stmt in statements(body):
        match stmt:
            case Loop():
                yield stmt.extent
            case Store():
                yield stmt.index
            case Gemm():
                yield from (stmt.m, stmt.n, stmt.k)
                for each in (stmt.left, stmt.right, stmt.out):
                    yield from (each.offset, each.row, each.column)
    for expr in expressions(body):
        match expr:
            case Load():
                yield expr.index
            case Index():
                yield expr.dim
            case Test():
                yield from expr.dims
            case Bind():
                yield expr.upper


def linear(indices: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Dim:
    """The row-major flat index."""
    flat = const(0)
    for index, size in zip(indices, shape, strict=True):
        flat = flat * size + index
    return flat
