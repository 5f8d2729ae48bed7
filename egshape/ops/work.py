"""How much an op computes: its steps as sizes, and what each step is, as its declaration says.

The cost model of extraction evaluates this at the likely sizes; what a compiled kernel counts
(``egshape.plan.analysis.work``) agrees, by a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import log2
from typing import NamedTuple

from egshape.dims import Dim
from egshape.ir.graph import Block, Op
from egshape.ops.base import Registry
from egshape.ops.traits import WEIGHTS, Effort

_COMPUTES = ("unary", "binary", "ternary", "contraction")
"""Families whose ops compute; those of other ones move elements, or run regions."""


class Steps(NamedTuple):
    """The product of some sizes, times the logarithm of one."""

    sizes: tuple[Dim, ...]
    logarithm: Dim | None = None

    def at(self, size: Callable[[Dim], float]) -> float:
        """Their number, where ``size`` evaluates sizes."""
        total = 1.0 if self.logarithm is None else log2(max(size(self.logarithm), 2.0))
        for each in self.sizes:
            total *= size(each)
        return total


def steps(op: Op, registry: Registry) -> Steps:
    """How many steps an op takes."""
    cost = registry[op.name].traits.cost
    return Steps((*(cost.over(op).type.shape or ()), *cost.inner(op)), cost.sorted(op))


def of_step(op: Op, registry: Registry) -> Counter[Effort]:
    """What a step of an op is: how often it does something of each kind. Nothing for an op whose regions are programs,
    which run by themselves, and for one without results."""
    decl = registry[op.name]
    if decl.nested or not op.results:
        return Counter()
    if op.regions:
        return sum((_of_region(region, registry) for region in op.regions), Counter())
    return Counter({decl.traits.effort: 1}) if decl.family in _COMPUTES or decl.custom else Counter()


def weight(op: Op, registry: Registry) -> int:
    """What a step of an op takes, in the units of ``WEIGHTS``."""
    return sum(WEIGHTS[kind] * times for kind, times in of_step(op, registry).items())


def _of_region(region: Block, registry: Registry) -> Counter[Effort]:
    """Each op of a function of scalars is one step."""
    return sum((of_step(op, registry) for op in region.ops), Counter())
