"""Compiled graphs whose kernels run as they would on a GPU, block after block and thread after thread, on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from unittest.mock import patch

import egshape
from egshape.dims import Dim, symbol
from egshape.errors import UndefinedSize
from egshape.ir.graph import Graph
from egshape.lower import driver
from egshape.plan.grid import Grid, Launch, Moved, Threads, launch
from egshape.plan.loops import Gather, If, Kernel, Loop, Pack, Product, Stmt, statements
from egshape.plan.planner import plan
from egshape.plan.program import Branch, Program, Repeat, Run, Step
from egshape.runtime import CompiledFunction


def likely(dim: Dim) -> float:
    """Every symbol at 64."""
    try:
        return float(dim.evaluate(dict.fromkeys(dim.symbols(), 64)))
    except UndefinedSize:
        return 64.0


def is_library(stmt: Stmt) -> bool:
    """A statement that a library runs on a GPU."""
    return isinstance(stmt, Pack | Gather | Product)


def launches(program: Program, threads: int = 256) -> Iterator[Launch]:
    """The launches of a program, the products of libraries left out."""
    for kernel in _kernels(program.steps):
        if not any(map(is_library, statements(kernel.body))):
            yield launch(kernel, likely, threads)


def _kernels(steps: Sequence[Step]) -> Iterator[Kernel]:
    for step in steps:
        match step:
            case Run():
                yield step.kernel
            case Branch():
                for branch in step.branches:
                    yield from _kernels(branch)
            case Repeat():
                yield from _kernels((*step.test, *step.body))


def _mapped(steps: Sequence[Step], change: Callable[[Kernel], Kernel]) -> tuple[Step, ...]:
    out: list[Step] = []
    for step in steps:
        match step:
            case Run():
                out.append(Run(change(step.kernel)))
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


def emulated(graph: Graph, threads: int, reverse: bool = False) -> CompiledFunction:
    """A graph compiled with every kernel mapped to blocks of ``threads``."""

    def change(kernel: Kernel) -> Kernel:
        if any(map(is_library, statements(kernel.body))):
            return kernel
        found = launch(kernel, likely, threads).kernel
        return replace(found, body=tuple(map(backwards, found.body))) if reverse else found

    def mapped(given: Graph, facts: str = "all") -> Program:
        program = plan(given, facts)
        return replace(program, steps=_mapped(program.steps, change))

    with patch.object(driver, "plan", mapped):
        return egshape.compile(graph, target="llvm")
