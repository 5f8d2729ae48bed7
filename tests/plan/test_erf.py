"""1 and erf become erfc, where what erf is of has not changed by then."""

from __future__ import annotations

import pytest

from egshape.dims import const, symbol
from egshape.plan.gpu.erf import complements
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Assign, Buffer, Call, Const, Expr, Kernel, Let, Load, Local, Loop, Stmt, Store, Var
from egshape.plan.ir.walk import expressions

N = symbol("n")
X, OUT = Buffer("x", "f32", N, "input"), Buffer("out", "f32", N, "output")
LOAD = Load("f32", X, symbol("$i"))


def _call(op: str, *args: Expr | float) -> Call:
    return Call("f32", op, tuple(Const("f32", each) if isinstance(each, float) else each for each in args))


def _launch(value: Expr, *first: Stmt, otherwise: Launch | None = None) -> Launch:
    body = (Loop("$i", N, (*first, Store(OUT, symbol("$i"), value))),)
    return Launch(Kernel("k", body, (OUT,)), const(1), 1, otherwise=otherwise)


def _ops(launch: Launch) -> list[str]:
    return [each.op for each in expressions(launch.kernel.body) if isinstance(each, Call)]


@pytest.mark.parametrize("sign", ["add", "subtract"])
def test_1_and_erf_are_erfc(sign: str) -> None:
    value = _call(sign, 1.0, _call("erf", LOAD))
    made = complements(_launch(value, otherwise=_launch(value)))
    for each in (made, made.otherwise):
        assert each is not None and sorted(_ops(each)) == ["erfc", "negate"][: 1 + (sign == "add")]
    assert all(each.fast for each in expressions(made.kernel.body) if isinstance(each, Call) and each.op == "erfc")


def test_a_name_may_stand_for_it() -> None:
    names = (Let("x", LOAD), Let("y", _call("erf", _call("multiply", Var("f32", "x"), 0.5))))
    assert "erfc" in _ops(complements(_launch(_call("add", 1.0, Var("f32", "y")), *names)))


@pytest.mark.parametrize("changes", ["memory", "variable"])
def test_what_may_have_changed_behind_a_name_stays(changes: str) -> None:
    of: Expr = LOAD if changes == "memory" else Var("f32", "$v")
    first: tuple[Stmt, ...] = (Local("$v", LOAD), Let("y", _call("erf", of)), Assign("$v", Const("f32", 0.0)))
    assert "erfc" not in _ops(complements(_launch(_call("add", 1.0, Var("f32", "y")), *first)))
    assert "erfc" in _ops(complements(_launch(_call("add", 1.0, _call("erf", of)), first[0])))


def test_the_sum_may_stand_the_other_way_around_but_not_the_difference() -> None:
    erf = _call("erf", LOAD)
    assert "erfc" in _ops(complements(_launch(_call("add", erf, 1.0))))
    assert "erfc" not in _ops(complements(_launch(_call("subtract", erf, 1.0))))
    assert "erfc" not in _ops(complements(_launch(_call("add", erf, 2.0))))
