"""A program whose kernels have the form that a processor runs, but for those that run on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.plan.analysis.parallel import split
from egshape.plan.cpu.inverse import with_inverses
from egshape.plan.cpu.strides import with_strides
from egshape.plan.ir.loops import Kernel
from egshape.plan.ir.program import Branch, Program, Repeat, Run, Step
from egshape.plan.ir.ranges import Ranged


def ranged(kernel: Kernel) -> Ranged:
    """A kernel in the form that a processor runs fast, and how it is cut into ranges."""
    quick = replace(kernel, body=with_inverses(with_strides(kernel.body)))
    return Ranged(quick, split(quick))


def on_processor(program: Program) -> Program:
    """The program with that of each kernel that no device runs."""

    def change(steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(map(one, steps))

    def one(step: Step) -> Step:
        match step:
            case Run(launch=None):
                return replace(step, ranged=ranged(step.kernel))
            case Branch():
                return replace(step, branches=tuple(map(change, step.branches)))
            case Repeat():
                return replace(step, test=change(step.test), body=change(step.body))
        return step

    return replace(program, steps=change(program.steps))
