"""One walk over the statements and expressions of kernels. A target says how each leaf is written.

A name of an expression is found again where it was computed on every path; what a statement computes is not, since a
later one may change what it was computed from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from egshape.dims import Dim
from egshape.errors import Unsupported
from egshape.lower.common.sizes import Sizes
from egshape.plan.ir.launch import Grid, LaneFold, Mma, Threads, Wide
from egshape.plan.ir.loops import (
    Assign,
    Bind,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
    If,
    Index,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Pack,
    Product,
    Stmt,
    Store,
    Test,
    Var,
    While,
)

Text = TypeVar("Text", bound=Sizes)


class Walk(ABC, Generic[Text]):
    """Writes the statements of a kernel to ``w``. ``pointers``: where its buffers lie; ``names``: values of ``Let``."""

    def __init__(self, w: Text, pointers: dict[Buffer, str]) -> None:
        self.w = w
        self.pointers = pointers
        self.names: dict[str, str] = {}

    # -- statements ---------------------------------------------------------------------------------------------------

    def body(self, stmts: Sequence[Stmt]) -> None:
        """Write statements in order."""
        for stmt in stmts:
            self.stmt(stmt)

    def stmt(self, stmt: Stmt) -> None:
        """Write one statement."""
        w = self.w
        match stmt:
            case Grid():
                self.grid(stmt)
            case Mma():
                self.mma(stmt)
            case Threads():
                self.threads(stmt)
            case Wide():
                self.wide(stmt)
            case LaneFold():
                self.lane_fold(stmt)
            case Loop():
                self.loop(stmt)
            case Store():
                with w.frame():
                    self.store(stmt.buffer, stmt.index, stmt.value)
            case Let():
                with w.frame():
                    self.names[stmt.name] = self.let(stmt.value)
            case Local():
                self.local(stmt)
            case Assign():
                with w.frame():
                    value = self.expr(stmt.value)
                self.assign(stmt.name, value)
            case LetIndex():
                with w.frame():
                    w.symbols[stmt.name] = self._number(stmt.value)
            case If():
                self.branch(stmt)
            case While():
                self.repeat(stmt)
            case Pack():
                self.pack(stmt)
            case Product():
                self.product(stmt)
            case _:
                raise self.refused(stmt)

    def _number(self, value: Expr) -> str:
        """An integer as an index."""
        if isinstance(value, Index) and value.dtype == "i64":
            return self.w.dim(value.dim)
        return self.as_index(value.dtype, self.expr(value))

    @staticmethod
    def refused(stmt: Stmt) -> Unsupported:
        """The error for a statement that no code of a kernel stands for."""
        return Unsupported(f"{type(stmt).__name__} is not written in a kernel", where="plan", hint="a library runs it")

    # One after the other, the mapped loops compute what they compute at the same time.

    def grid(self, stmt: Grid) -> None:
        """A loop over blocks."""
        self.loop(stmt)

    def threads(self, stmt: Threads) -> None:
        """A loop over the threads of a block."""
        self.loop(stmt)

    def wide(self, stmt: Wide) -> None:
        """Elements side by side."""
        self.loop(stmt)

    def lane_fold(self, stmt: LaneFold) -> None:
        """A fold over neighbouring threads."""
        self.loop(stmt)

    def mma(self, stmt: Mma) -> None:
        """A product by all warps of a block."""
        self.loop(stmt)

    def pack(self, stmt: Pack) -> None:
        """Columns of an operand, copied."""
        raise self.refused(stmt)

    def product(self, stmt: Product) -> None:
        """A product of packed operands."""
        raise self.refused(stmt)

    @abstractmethod
    def loop(self, stmt: Loop) -> None:
        """A loop."""

    @abstractmethod
    def store(self, buffer: Buffer, index: Dim, value: Expr) -> None:
        """A value to an element."""

    @abstractmethod
    def let(self, value: Expr) -> str:
        """The name of a value that later statements read."""

    @abstractmethod
    def local(self, stmt: Local) -> None:
        """A mutable local with its first value."""

    @abstractmethod
    def assign(self, name: str, value: str) -> None:
        """A new value for a mutable local."""

    @abstractmethod
    def branch(self, stmt: If) -> None:
        """One of two blocks."""

    @abstractmethod
    def repeat(self, stmt: While) -> None:
        """A loop as long as a condition holds."""

    # -- expressions --------------------------------------------------------------------------------------------------

    def expr(self, expr: Expr) -> str:
        """The value of an expression: a constant or a name."""
        if isinstance(expr, Const):
            return self.constant(expr)
        if isinstance(expr, Var):
            return self.read(expr.name)
        found = self.w.find(expr)
        return found if found is not None else self.w.keep(expr, self._compute(expr))

    def _compute(self, expr: Expr) -> str:
        match expr:
            case Load():
                return self.load(expr)
            case Index():
                return self.index(expr)
            case Test():
                return self.test(expr.dims)
            case Call():
                return self.call(expr)
            case Choose():
                return self.choose(expr)
            case Bind():
                value = self.expr(expr.value)
                self.w.symbols[expr.name] = self.bounded(expr.value.dtype, value, expr.upper)
                return self.expr(expr.body)
        raise AssertionError(expr)

    def read(self, name: str) -> str:
        """The value of a local."""
        return self.names[name]

    @abstractmethod
    def constant(self, expr: Const) -> str:
        """A number."""

    @abstractmethod
    def load(self, expr: Load) -> str:
        """An element."""

    @abstractmethod
    def index(self, expr: Index) -> str:
        """A size or index as a value."""

    @abstractmethod
    def test(self, dims: Sequence[Dim]) -> str:
        """i1: all of them are >= 0; there may be none, of a tensor without axes."""

    @abstractmethod
    def call(self, expr: Call) -> str:
        """An elementwise op."""

    @abstractmethod
    def choose(self, expr: Choose) -> str:
        """One of two values, of which only the chosen one is computed."""

    @abstractmethod
    def as_index(self, dtype: str, value: str) -> str:
        """An integer as an index, the largest there is where it is above."""

    @abstractmethod
    def bounded(self, dtype: str, value: str, upper: Dim) -> str:
        """An integer as an index between 0 and a size."""
