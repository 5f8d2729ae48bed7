"""One walk knows every statement and expression: by the declared types of their fields."""

from __future__ import annotations

from typing import get_args

import pytest

from egshape.dims import const, symbol
from egshape.plan.ir import launch, loops, walk
from egshape.plan.ir.loops import Buffer, Call, Const, Contract, If, Let, Load, Loop, Matrix, Pack, Store, Var
from egshape.plan.ir.visit import Moved

KNOWN = {
    "Dim",
    "Buffer",
    "Expr",
    "Matrix",
    "Matrix | None",
    "Reach | None",
    "tuple[Dim, ...]",
    "tuple[Expr, ...]",
    "tuple[Stmt, ...]",
    "tuple[Buffer, ...]",
}
PLAIN = {"str", "bool", "int", "tuple[str, ...]", "int | float | bool", "tuple[tuple[str, Any], ...]"}
NODES = (
    *get_args(loops.Expr),
    *get_args(loops.Stmt),
    loops.Matrix,
    loops.Reach,
    loops.Free,
    launch.Grid,
    launch.Threads,
    launch.Wide,
    launch.Ahead,
    launch.LaneFold,
    launch.Mma,
)
AT, N = symbol("$i"), symbol("n")


@pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.__name__)
def test_every_field_is_of_a_type_that_the_walk_knows(kind: type) -> None:
    declared = {each for _, each in walk.fields(kind)}
    assert declared <= KNOWN | PLAIN, f"{kind.__name__} has fields that nothing in plan/ir/ walks"


def test_what_is_inside_is_found_and_changed() -> None:
    x, y, z = (Buffer(name, "f32", N, kind) for name, kind in (("x", "input"), ("y", "temp"), ("z", "output")))
    side = Call("f32", "add", (Load("f32", x, AT + symbol("$l")), Const("f32", 1.0)))
    whole = Contract("f32", N, N, AT, "$r", "$c", "$l", side, side, "v", (Store(z, AT, Var("f32", "v")),))
    pack = Pack("f32", AT, N, Matrix(x, AT, N, const(1)), y, AT)
    body = (Loop("$j", AT, (whole, If(loops.Test((AT,)), (Let("w", side),), (pack,)))),)
    assert set(walk.buffers(body)) == {x, y, z}
    assert sum(AT in dim.symbols() or dim is AT for dim in walk.dims(body) if dim is AT) >= 5
    moved = Moved({"$i": N * 2}, {y: (z, const(3))}).body(body)
    assert not any("$i" in dim.symbols() for dim in walk.dims(moved))
    (found,) = [stmt for stmt in walk.statements(moved) if isinstance(stmt, Pack)]
    assert found.target is z and found.offset is N * 2 + 3 and found.source.offset is N * 2
    calls = {id(each) for each in walk.expressions(moved) if isinstance(each, Call)}
    assert len(calls) == 1, "shared parts stay shared"
