"""Compiled graphs whose kernels run as they would on a GPU, block after block and thread after thread, on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from unittest.mock import patch

import egshape
from egshape.dims import Dim, symbol
from egshape.errors import UndefinedSize
from egshape.ir.graph import Graph
from egshape.lower.drivers import llvm as driver
from egshape.plan.gpu.launching import launches as grid_launches
from egshape.plan.ir.launch import Grid, Launch, Threads
from egshape.plan.ir.loops import If, Kernel, Loop, Stmt, Test
from egshape.plan.ir.program import Branch, Program, Repeat, Run, Step
from egshape.plan.ir.visit import Moved
from egshape.plan.targets import plan
from egshape.runtime import CompiledFunction


def likely(dim: Dim) -> float:
    """Every symbol at 64."""
    try:
        return float(dim.evaluate(dict.fromkeys(dim.symbols(), 64)))
    except UndefinedSize:
        return 64.0


def launches(program: Program, threads: int = 256) -> Iterator[Launch]:
    """The launches of a program, for products of libraries what runs without one."""
    for kernel in kernels(program.steps):
        yield from grid_launches(kernel, likely, threads)


def kernels(steps: Sequence[Step]) -> Iterator[Kernel]:
    for step in steps:
        match step:
            case Run():
                yield step.kernel
            case Branch():
                for branch in step.branches:
                    yield from kernels(branch)
            case Repeat():
                yield from kernels((*step.test, *step.body))


def _mapped(steps: Sequence[Step], change: Callable[[Kernel], Sequence[Kernel]]) -> tuple[Step, ...]:
    out: list[Step] = []
    for step in steps:
        match step:
            case Run():
                out += [replace(step, kernel=kernel) for kernel in change(step.kernel)]
            case Branch():
                out.append(Branch(step.index, tuple(_mapped(branch, change) for branch in step.branches)))
            case Repeat():
                out.append(Repeat(_mapped(step.test, change), step.condition, _mapped(step.body, change)))
            case _:
                out.append(step)
    return tuple(out)


def backwards(stmt: Stmt) -> Stmt:
    """The same work with the last block and the last thread first."""
    if isinstance(stmt, If):
        return If(stmt.condition, tuple(map(backwards, stmt.then)), tuple(map(backwards, stmt.other)))
    if not isinstance(stmt, Loop):
        return stmt
    body = tuple(map(backwards, stmt.body))
    if isinstance(stmt, Grid | Threads):
        body = Moved({stmt.var: stmt.extent - 1 - symbol(stmt.var)}).body(body)
    return replace(stmt, body=body)


def versions(launch: Launch) -> Kernel:
    """The kernel of a launch, or of the one for where it does not fit the sizes."""
    if launch.otherwise is None:
        return launch.kernel
    other = versions(launch.otherwise)
    body = (If(Test(launch.fits), launch.kernel.body, other.body),)
    return replace(launch.kernel, body=body, outputs=tuple(dict.fromkeys((*launch.kernel.outputs, *other.outputs))))


def chain(launch: Launch | None) -> Iterator[Launch]:
    """A launch and those that stand behind it, for where it does not fit."""
    while launch is not None:
        yield launch
        launch = launch.otherwise


def chosen(launch: Launch, sizes: Mapping[str, int]) -> Launch:
    """The launch that runs at these sizes."""
    while launch.otherwise is not None and any(_below(dim, sizes) for dim in launch.fits):
        launch = launch.otherwise
    return launch


def _below(dim: Dim, sizes: Mapping[str, int]) -> bool:
    try:
        return dim.evaluate(sizes) < 0
    except UndefinedSize:
        return False  # a divisor of 0 is the size of an empty axis: nothing is launched


def emulated(graph: Graph, threads: int, reverse: bool = False) -> CompiledFunction:
    """A graph compiled with every kernel mapped to blocks of ``threads``."""

    def change(kernel: Kernel) -> list[Kernel]:
        found = [versions(each) for each in grid_launches(kernel, likely, threads)]
        return [replace(each, body=tuple(map(backwards, each.body))) for each in found] if reverse else found

    def mapped(given: Graph, facts: str = "all", **_: object) -> Program:
        program = plan(given, facts, "cuda")
        return replace(program, steps=_mapped(program.steps, change))

    with patch.object(driver, "plan", mapped):
        return egshape.compile(graph, target="llvm", optimize=False)
