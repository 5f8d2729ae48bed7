"""A graph to native code, through all steps."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from egshape.egraph.cost import likely_sizes
from egshape.errors import UndefinedSize
from egshape.ir.graph import Graph
from egshape.lower.dump import dump
from egshape.lower.host.cpu import Cpu
from egshape.lower.host.program import Module, module
from egshape.lower.llvm import gemm, native
from egshape.lower.weights import Interned, interned
from egshape.plan.analysis.inplace import in_place
from egshape.plan.analysis.memory import THREADS
from egshape.plan.cpu.program import on_processor
from egshape.plan.targets import plan


@dataclass(frozen=True)
class Native:
    """Native code in this process."""

    module: Module
    codes: tuple[bytes, ...]
    machine: native.Machine
    entries: dict[str, int]
    keep: object

    @property
    def constants(self) -> list[np.ndarray]:
        """The arrays that the entry takes as constants."""
        return self.module.arrays

    @property
    def manifest(self) -> dict[str, Any]:
        """What a runtime must know."""
        return {
            **self.module.manifest,
            **self.machine.described,
            "code": sum(map(len, self.codes)),
        }

    def sharing(self, known: Interned) -> Native:
        """The same with arrays of ``known`` in the place of equal constants; its others are put there."""
        shared = [
            buffer if buffer.data is None else replace(buffer, data=interned(buffer.data, known))
            for buffer in self.module.constants
        ]
        return replace(self, module=replace(self.module, constants=tuple(shared)))


def compile_native(graph: Graph, facts: str = "all") -> Native:
    """Native code of a graph. ``facts``: how much of what is known about sizes is used (``plan.known.Level``). Raises
    Unsupported for an op that is not compiled, naming it and its location.

    EGSHAPE_DUMP=folder writes what each stage made there; EGSHAPE_REDZONES=1 puts red zones around all buffers."""
    machine = native.host_machine()
    tiles, widens = gemm.by_tiles(machine.features), gemm.widens_halves(machine.features)
    program = on_processor(in_place(plan(graph, facts, tiles=tiles, widens=widens)))
    redzones = bool(os.environ.get("EGSHAPE_REDZONES"))
    made = module(program, partial(Cpu, redzones=redzones), reuse=not redzones)
    made.manifest["peak"] |= likely_peak(graph, made)
    dump(graph, program, made, machine)
    codes = (
        native.cached_object(native.whole(made.text, machine.features), machine),
        *(native.products_object(dtype, kind, machine) for dtype, kind in gemm.called(made.text)),
    )
    entries, keep = native.load(codes, native.ENTRIES, native.libm_symbols())
    entries["egshape_pool"] = native.library_symbols()["egshape_pool"]
    return Native(made, codes, machine, entries, keep)


def likely_peak(graph: Graph, made: Module) -> dict[str, Any]:
    """The memory at likely sizes, on one thread."""
    peak = made.layout.peak
    sizes = likely_sizes(graph.facts, sorted(peak.symbols() - {THREADS}))
    try:
        return {"sizes": sizes, "bytes": peak.evaluate({**sizes, THREADS: 1})}
    except UndefinedSize:
        return {}
