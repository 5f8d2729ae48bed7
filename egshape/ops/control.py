"""Control flow and grouping: while, if, case, composite, call, optimization_barrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from egshape.ops.declare import op
from egshape.ops.regions import Region
from egshape.ops.traits import Traits


@op(
    "while",
    family="control",
    operands=("*inits",),
    regions=("cond", "body"),
    traits=Traits(regions="loop"),
    names={"stablehlo": "while"},
    doc="Carry values through the body as long as the condition holds. A size stays the same unless the "
    "body's "
    "argument has a symbol of its own there. StableHLO spec: while.",
)
class While:
    @staticmethod
    def reference(*inits: np.ndarray, regions: tuple[Region, ...]) -> list[np.ndarray]:
        cond, body = regions
        carried = list(inits)
        while bool(cond(*carried)[0]):
            carried = body(*carried)
        return carried


@op(
    "if",
    family="control",
    operands=("pred",),
    regions=("then", "else"),
    traits=Traits(regions="branch"),
    names={"stablehlo": "if"},
    doc="The results of one of two regions without arguments. StableHLO spec: if.",
)
class If:
    @staticmethod
    def reference(pred: np.ndarray, *, regions: tuple[Region, ...]) -> list[np.ndarray]:
        return regions[0]() if bool(pred) else regions[1]()


@op(
    "case",
    family="control",
    operands=("index",),
    regions=("*branches",),
    traits=Traits(regions="branch"),
    names={"stablehlo": "case"},
    doc="The results of the region that the index names; the last one for an index out of range. StableHLO spec: case.",
)
class Case:
    @staticmethod
    def reference(index: np.ndarray, *, regions: tuple[Region, ...]) -> list[np.ndarray]:
        number = int(index)
        return regions[number if 0 <= number < len(regions) else -1]()


@op(
    "composite",
    family="control",
    operands=("*operands",),
    attrs={"name": "text", "attrs": ("record", ()), "version": ("int", 0), "whole": ("bool", False)},
    regions=("decomposition",),
    traits=Traits(regions="once"),
    names={"stablehlo": "composite"},
    doc="A named op that means what its decomposition computes from the operands; a whole one goes out under its name, "
    "so that its decomposition is not worked on. StableHLO spec: composite.",
)
class Composite:
    @staticmethod
    def reference(
        *operands: np.ndarray, name: str, attrs: Any, version: int, whole: bool, regions: tuple[Region, ...]
    ) -> list[np.ndarray]:
        return regions[0](*operands)


@op(
    "call",
    family="control",
    operands=("*operands",),
    attrs={"name": "text"},
    regions=("function",),
    traits=Traits(regions="once"),
    doc="What a function computes from the operands. Calls of equal regions are calls of one function: it is optimized "
    "and written once (``egshape.ir.calls``).",
)
class Call:
    @staticmethod
    def reference(*operands: np.ndarray, name: str, regions: tuple[Region, ...]) -> list[np.ndarray]:
        return regions[0](*operands)


@op(
    "optimization_barrier",
    family="control",
    operands=("*xs",),
    traits=Traits(barrier=True),
    names={"stablehlo": "optimization_barrier"},
    doc="The operands themselves; keeps what is before apart from what is behind. StableHLO spec: "
    "optimization_barrier.",
)
class OptimizationBarrier:
    @staticmethod
    def reference(*xs: np.ndarray) -> list[np.ndarray]:
        return list(xs)
