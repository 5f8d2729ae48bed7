"""Statements with something changed: one walk that knows every statement and expression by its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from egshape.dims import Dim
from egshape.plan.ir.loops import Buffer, Expr, Matrix, Reach, Stmt
from egshape.plan.ir.walk import fields


class Moved:
    """Statements with other indices, and buffers that lie elsewhere. Subclasses change what else they want in
    ``stmt``, ``_expr`` (an expression that was not met yet), ``dim`` or ``element``."""

    def __init__(self, env: Mapping[str, Dim], moved: Mapping[Buffer, tuple[Buffer, Dim]] | None = None) -> None:
        self.env = env
        self.moved = moved or {}
        self._exprs: dict[Expr, Expr] = {}

    def body(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The statements, changed."""
        return tuple(map(self.stmt, stmts))

    def stmt(self, stmt: Stmt) -> Stmt:
        """One statement, changed."""
        found: Stmt = self._node(stmt)
        return found

    def dim(self, dim: Dim) -> Dim:
        """A size or index, changed."""
        return dim.substitute(self.env) if not self.env.keys().isdisjoint(dim.symbols()) else dim

    def element(self, buffer: Buffer, index: Dim) -> tuple[Buffer, Dim]:
        """Where an element lies."""
        place = self.dim(index)
        if buffer not in self.moved:
            return buffer, place
        other, offset = self.moved[buffer]
        return other, place + self.dim(offset)

    def expr(self, expr: Expr) -> Expr:
        """An expression, changed; shared parts stay shared."""
        found = self._exprs.get(expr)
        if found is None:
            found = self._exprs[expr] = self._expr(expr)
        return found

    def _expr(self, expr: Expr) -> Expr:
        """An expression that was not met yet, changed."""
        found: Expr = self._node(expr)
        return found

    def _node(self, node: Any) -> Any:
        changes: dict[str, Any] = {}
        where: tuple[str, Buffer] | None = None
        kind: Any = type(node)
        for name, declared in fields(kind):
            value = getattr(node, name)
            if declared == "Buffer":
                if where is not None:
                    changes[where[0]] = self._whole(where[1])
                where = name, value
                continue
            if declared == "Dim" and where is not None:
                changes[where[0]], changes[name] = self.element(where[1], value)
                where = None
            else:
                changes[name] = self._field(declared, value)
        if where is not None:
            changes[where[0]] = self._whole(where[1])
        return replace(node, **changes)

    def _whole(self, buffer: Buffer) -> Buffer:
        """A buffer that stands for all of its elements."""
        assert buffer not in self.moved, f"{buffer.name} is used as a whole"
        return buffer

    def _field(self, declared: str, value: Any) -> Any:
        match declared:
            case "Dim":
                return self.dim(value)
            case "Expr":
                return self.expr(value)
            case "tuple[Dim, ...]":
                return tuple(map(self.dim, value))
            case "tuple[Expr, ...]":
                return tuple(map(self.expr, value))
            case "tuple[Stmt, ...]":
                return self.body(value)
            case "tuple[Buffer, ...]":
                return tuple(map(self._whole, value))
        return self._node(value) if isinstance(value, Matrix | Reach) else value
