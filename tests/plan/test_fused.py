"""Fused multiply-adds are ops of the loop IR, which the planner for GPUs writes and printers only print."""

from __future__ import annotations

import pytest

from egshape.dims import const, symbol
from egshape.plan.gpu.fused import fused
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Assign, Buffer, Call, Expr, Kernel, Load, Local, Loop, Store, Var
from egshape.plan.ir.walk import expressions

N = symbol("n")
X, Y, OUT = Buffer("x", "f32", N, "input"), Buffer("y", "f32", N, "input"), Buffer("out", "f32", const(1), "output")
TOTAL = Var("f32", "$total")


def _launch(new: Expr, otherwise: Launch | None = None) -> Launch:
    """A sum whose next value is ``new``."""
    body = (
        Local("$total", Load("f32", OUT, const(0))),
        Loop("$i", N, (Assign("$total", new),)),
        Store(OUT, const(0), TOTAL),
    )
    return Launch(Kernel("sum", body, (OUT,)), const(1), 1, otherwise=otherwise)


def _product(dtype: str = "f32") -> Call:
    return Call(dtype, "multiply", (Load("f32", X, symbol("$i")), Load("f32", Y, symbol("$i"))))


def _ops(launch: Launch) -> list[str]:
    return [each.op for each in expressions(launch.kernel.body) if isinstance(each, Call)]


def test_a_product_in_a_free_sum_is_fused() -> None:
    made = fused(_launch(Call("f32", "add", (TOTAL, _product()), fast=True)))
    assert _ops(made) == ["fma"]
    (fma,) = (each for each in expressions(made.kernel.body) if isinstance(each, Call))
    assert isinstance(fma.args[2], Var) and fma.args[2].name == TOTAL.name
    assert [each.buffer for each in fma.args[:2] if isinstance(each, Load)] == [X, Y]


@pytest.mark.parametrize(
    "new",
    [
        Call("f32", "add", (TOTAL, _product())),
        Call("f32", "add", (_product(), TOTAL), fast=True),
        Call("f32", "subtract", (TOTAL, _product()), fast=True),
        Call("f32", "add", (TOTAL, Call("f32", "convert", (_product("f64"),))), fast=True),
    ],
)
def test_others_stay(new: Call) -> None:
    before = _launch(new)
    assert _ops(fused(before)) == _ops(before) and "fma" not in _ops(fused(before))


def test_what_runs_where_a_launch_does_not_fit_is_fused_too() -> None:
    new = Call("f32", "add", (TOTAL, _product()), fast=True)
    made = fused(_launch(new, _launch(new)))
    assert made.otherwise is not None and _ops(made.otherwise) == ["fma"]
