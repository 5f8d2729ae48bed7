"""erf is found where a model writes it out, by its values, and nothing else is taken for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pytest

from egshape.dims import const, symbol
from egshape.plan.gpu.erf import with_erf
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Assign, Buffer, Call, Const, Expr, Kernel, Let, Load, Local, Loop, Stmt, Store, Var
from egshape.plan.ir.walk import expressions

N = symbol("n")
X, OUT = Buffer("x", "f32", N, "input"), Buffer("out", "f32", N, "output")
ABOVE = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
BELOW = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)
"""XLA's formula for erf of f32 (client/lib/math.cc), which JAX writes into exported models."""
HALF = Const("f32", 0.7071067811865476)


def _call(op: str, *args: Expr | float) -> Call:
    return Call("f32", op, tuple(Const("f32", each) if isinstance(each, float) else each for each in args))


def _horner(x: Expr, numbers: Sequence[float]) -> Expr:
    first: Expr = Const("f32", numbers[0])
    return reduce(lambda total, each: _call("add", _call("multiply", total, x), each), numbers[1:], first)


def _erf(x: Expr, square: Expr | None = None, above: Sequence[float] = ABOVE) -> Call:
    """The formula; ``square``: of x bounded, where that has a name."""
    bounded = _call("clamp", -4.0, x, 4.0)
    square = _call("multiply", bounded, bounded) if square is None else square
    ratio = _call("divide", _call("multiply", bounded, _horner(square, above)), _horner(square, BELOW))
    return _call("clamp", -1.0, ratio, 1.0)


def _launch(value: Expr, *first: Stmt, otherwise: Launch | None = None) -> Launch:
    body = (Loop("$i", N, (*first, Store(OUT, symbol("$i"), value))),)
    return Launch(Kernel("k", body, (OUT,)), const(1), 1, otherwise=otherwise)


def _x() -> Expr:
    return Load("f32", X, symbol("$i"))


def _stored(launch: Launch) -> Expr:
    (loop,) = launch.kernel.body
    assert isinstance(loop, Loop) and isinstance(loop.body[-1], Store)
    return loop.body[-1].value


def _ops(launch: Launch) -> list[str]:
    return [each.op for each in expressions(launch.kernel.body) if isinstance(each, Call)]


def test_the_formula_is_erf() -> None:
    made = with_erf(_launch(_erf(_call("multiply", _x(), HALF)), otherwise=_launch(_erf(_x()))))
    assert _ops(made) == ["erf", "multiply"]
    assert made.otherwise is not None and _ops(made.otherwise) == ["erf"]


def test_parts_of_it_may_have_names() -> None:
    """And be written twice, as they are behind a name's value."""
    bounded = _call("clamp", -4.0, _call("multiply", Var("f32", "x"), HALF), 4.0)
    names = (Let("x", _x()), Let("s", _call("multiply", bounded, bounded)))
    value = _stored(with_erf(_launch(_erf(_call("multiply", Var("f32", "x"), HALF), Var("f32", "s")), *names)))
    assert isinstance(value, Call) and value.op == "erf"
    (argument,) = value.args
    assert isinstance(argument, Call) and argument.op == "multiply"


@pytest.mark.parametrize("sign", ["add", "subtract"])
@pytest.mark.parametrize("named", [False, True])
def test_1_and_it_are_erfc(sign: str, named: bool) -> None:
    erf = _erf(_x())
    value = with_erf(_launch(_call(sign, 1.0, Var("f32", "y") if named else erf), *([Let("y", erf)] if named else [])))
    found = _stored(value)
    assert isinstance(found, Call) and found.op == "erfc" and found.fast
    assert [each.op for each in found.args if isinstance(each, Call)] == (["negate"] if sign == "add" else [])


def test_the_sum_may_stand_the_other_way_around_but_not_the_difference() -> None:
    erf = _call("erf", _x())
    assert "erfc" in _ops(with_erf(_launch(_call("add", erf, 1.0))))
    assert "erfc" not in _ops(with_erf(_launch(_call("subtract", erf, 1.0))))
    assert "erfc" not in _ops(with_erf(_launch(_call("add", erf, 2.0))))


@pytest.mark.parametrize(
    "value",
    [
        _erf(_x(), above=(*ABOVE[:-1], ABOVE[-1] * 1.00001)),
        _erf(_x(), above=(ABOVE[0] * 1.1, *ABOVE[1:])),
        _erf(_x(), square=_call("multiply", _x(), _x())),
        _call("clamp", -1.0, _call("divide", _call("multiply", _x(), _x()), _x()), 1.0),
    ],
)
def test_others_stay(value: Expr) -> None:
    assert "erf" not in _ops(with_erf(_launch(value)))


def test_a_variable_behind_a_name_stays() -> None:
    """It may have another value by then."""
    local = Var("f32", "$v")
    bounded = _call("clamp", -4.0, local, 4.0)
    first = (
        Local("$v", _x()),
        Let("b", bounded),
        Assign("$v", Const("f32", 0.0)),
    )
    square = _call("multiply", Var("f32", "b"), Var("f32", "b"))
    ratio = _call("divide", _call("multiply", Var("f32", "b"), _horner(square, ABOVE)), _horner(square, BELOW))
    assert "erf" not in _ops(with_erf(_launch(_call("clamp", -1.0, ratio, 1.0), *first)))
