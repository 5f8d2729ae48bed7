"""Two versions of a loop that reads an axis which may be 1: no fact says whether it moves along, so a test at run time
does. Each version has a stride that the compiler knows, and vectorizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.dims import Dim, Relu, minimum, symbol
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.ir.loops import If, Loop, Stmt, Test, While
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import dims, statements

MOST = 2
"""Strides of a loop that are told apart: each doubles the versions."""


def with_strides(body: Sequence[Stmt], inside: bool = False) -> tuple[Stmt, ...]:
    """The statements with such versions of the innermost loops that stand in another loop."""
    found: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Loop() if any(isinstance(each, Loop | While) for each in statements(stmt.body)):
                found.append(replace(stmt, body=with_strides(stmt.body, True)))
            case Loop() if inside:
                found.append(_versions(stmt, MOST))
            case While():
                found.append(replace(stmt, body=with_strides(stmt.body, True)))
            case If():
                found.append(If(stmt.condition, with_strides(stmt.then, inside), with_strides(stmt.other, inside)))
            case _:
                found.append(stmt)
    return tuple(found)


def _versions(loop: Loop, left: int) -> Stmt:
    choice = next((found for dim in dims(loop.body) if (found := _stride(dim, loop.var)) is not None), None)
    if choice is None or not left:
        return loop
    stride, size = choice
    moving, still = (replace(loop, body=_Strided(loop.var, stride, step).body(loop.body)) for step in (1, 0))
    return If(Test((size - 2,)), (_versions(moving, left - 1),), (_versions(still, left - 1),))


def _stride(dim: Dim, var: str) -> tuple[Dim, Dim] | None:
    """The step of an index along a loop if it is min(size - 1, 1), and that size."""
    if var not in dim.symbols():
        return None
    step = coefficient(dim, var)
    if step is None or step.const is not None or var in step.symbols():
        return None
    for atom in step.atoms():
        if isinstance(atom, Relu) and step is minimum(atom.arg + 1, 1):
            return step, atom.arg + 2
    return None


class _Strided(Moved):
    """Statements in which an index with one step along a variable has another one."""

    def __init__(self, var: str, stride: Dim, step: int) -> None:
        super().__init__({})
        self.var, self.stride, self.step = var, stride, step

    def dim(self, dim: Dim) -> Dim:
        """An index, changed."""
        if self.var in dim.symbols() and coefficient(dim, self.var) is self.stride:
            return dim + symbol(self.var) * (self.step - self.stride)
        return dim
