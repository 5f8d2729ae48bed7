"""Kernels on a processor: run as they are, or in ranges of units that several threads share."""

from __future__ import annotations

from dataclasses import dataclass

from egshape.dims import Dim
from egshape.plan.ir.loops import Kernel, Loop


@dataclass(frozen=True)
class Split:
    """``units`` independent pieces of about ``work`` operations: iterations of ``loops`` taken as one, or what the one
    statement of the body says. A range of them begins at a multiple of ``grain``."""

    loops: tuple[Loop, ...]
    units: Dim
    work: Dim
    grain: int


@dataclass(frozen=True)
class Ranged:
    """A kernel in the form that a processor runs fast, and how it is cut; None if nothing shows that it may be."""

    kernel: Kernel
    split: Split | None
