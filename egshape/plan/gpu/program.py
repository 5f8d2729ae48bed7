"""A program whose kernels are mapped to blocks and threads, but for those that run on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from egshape.plan.analysis.placement import placement
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Kernel
from egshape.plan.ir.program import Attention, Branch, Gemm, Program, Repeat, Run, Step

Mapper = Callable[[Kernel], Sequence[Launch]]
"""The launches that stand for a kernel, in order."""


def on_device(program: Program, mapped: Mapper) -> Program:
    """The program with launches in the place of the kernels that do not run on the host."""
    hosted = placement(program).steps

    def change(steps: Sequence[Step]) -> tuple[Step, ...]:
        found: list[Step] = []
        for step in steps:
            match step:
                case Gemm():
                    (only,) = mapped(step.kernel)
                    found.append(replace(step, kernel=only.kernel, launch=only))
                case Attention():
                    found.append(step)
                    found += [Run(each.kernel, each, unless=step.done) for each in mapped(step.kernel)]
                case Run() if step not in hosted:
                    found += [replace(step, kernel=each.kernel, launch=each) for each in mapped(step.kernel)]
                case Branch():
                    found.append(replace(step, branches=tuple(map(change, step.branches))))
                case Repeat():
                    found.append(replace(step, test=change(step.test), body=change(step.body)))
                case _:
                    found.append(step)
        return tuple(found)

    return replace(program, steps=change(program.steps))
