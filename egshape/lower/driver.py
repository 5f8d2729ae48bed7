"""A graph to native code, through all steps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from egshape.atomic import write_atomic
from egshape.ir.graph import Graph
from egshape.lower import native
from egshape.lower.host import Module, module
from egshape.plan.planner import plan


@dataclass(frozen=True)
class Native:
    """Native code in this process."""

    module: Module
    code: bytes
    machine: native.Machine
    address: int
    keep: object

    @property
    def constants(self) -> list[np.ndarray]:
        """The arrays that the entry takes as constants."""
        return [buffer.data for buffer in self.module.constants if buffer.data is not None]

    @property
    def manifest(self) -> dict[str, Any]:
        """What a runtime must know."""
        machine = self.machine
        return {**self.module.manifest, "triple": machine.triple, "cpu": machine.cpu, "features": machine.features,
                "llvm": machine.version}


def compile_native(graph: Graph) -> Native:
    """Native code of a graph. Raises Unsupported for an op that is not compiled, naming it and its location.

    EGSHAPE_DUMP=folder writes the graph and the LLVM IR there."""
    made = module(plan(graph))
    folder = os.environ.get("EGSHAPE_DUMP")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_atomic(Path(folder, "graph.txt"), str(graph))
        write_atomic(Path(folder, "module.ll"), native.completed(made.text))
    machine = native.host_machine()
    code = native.cached_object(made.text, machine)
    address, keep = native.load(code, bool(made.manifest["libraries"]))
    return Native(made, code, machine, address, keep)
