"""Sums that may be rounded in any way take a product without rounding it: a fused multiply-add, one instruction."""

from __future__ import annotations

from dataclasses import replace

from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Call, Expr
from egshape.plan.ir.visit import Moved

_DTYPES = ("f32", "f64")


def fused(launch: Launch) -> Launch:
    """The launch, and what runs where it does not fit, with fused multiply-adds."""
    kernel = replace(launch.kernel, body=_Fused({}).body(launch.kernel.body))
    otherwise = None if launch.otherwise is None else fused(launch.otherwise)
    return replace(launch, kernel=kernel, otherwise=otherwise)


class _Fused(Moved):
    def _expr(self, expr: Expr) -> Expr:
        match expr:
            case Call(op="add", fast=True, dtype=dtype, args=(total, Call(op="multiply") as item)) if (
                dtype in _DTYPES and item.dtype == dtype
            ):
                return Call(dtype, "fma", (*map(self.expr, item.args), self.expr(total)), fast=True)
        return super()._expr(expr)
