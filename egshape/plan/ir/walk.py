"""Walks over statements and expressions, by the declared types of their fields: a new node is declared once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any

from egshape.dims import Dim
from egshape.plan.ir.loops import Buffer, Expr, Stmt


@cache
def fields(kind: Any) -> tuple[tuple[str, str], ...]:
    """The fields of a class of nodes and what they are declared as. All walks over nodes go by that, so that a new
    statement or expression is declared once; a Buffer and the Dim behind it are where an element lies."""
    return tuple((field.name, str(field.type)) for field in dataclasses.fields(kind))


@cache
def _holders(kind: Any, sought: str) -> tuple[tuple[str, str], ...]:
    """The fields of a class that hold what is sought, and how: alone, as a tuple, or inside of a matrix."""
    ways = {
        sought: "one",
        f"tuple[{sought}, ...]": "many",
        "Matrix": "inside",
        "Matrix | None": "inside",
        "Reach | None": "inside",
    }
    return tuple((name, ways[declared]) for name, declared in fields(kind) if declared in ways)


def _parts(node: Any, sought: str) -> Iterator[Any]:
    """What a node holds that is declared as ``sought``, in the order of its fields."""
    kind: Any = type(node)
    for name, way in _holders(kind, sought):
        value = getattr(node, name)
        if way == "one":
            yield value
        elif way == "many":
            yield from value
        elif value is not None:
            yield from _parts(value, sought)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression."""
    return tuple(_parts(expr, "Expr"))


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
        for expr in _parts(stmt, "Expr"):
            yield from visit(expr)


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer ones first."""
    for stmt in body:
        yield stmt
        yield from statements(tuple(_parts(stmt, "Stmt")))


def buffers(body: tuple[Stmt, ...]) -> tuple[Buffer, ...]:
    """The buffers that statements touch, in order of first use."""
    found: dict[Buffer, None] = {}
    for node in (*statements(body), *expressions(body)):
        found.update(dict.fromkeys(_parts(node, "Buffer")))
    return tuple(found)


def dims(body: tuple[Stmt, ...]) -> Iterator[Dim]:
    """Every size and index in the statements."""
    for node in (*statements(body), *expressions(body)):
        yield from _parts(node, "Dim")
