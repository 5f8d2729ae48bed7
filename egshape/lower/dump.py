"""EGSHAPE_DUMP: what each stage made, as files: graph, plan, and of each kernel loops, LLVM IR and assembly."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from egshape.atomic import write_atomic
from egshape.ir.graph import Graph
from egshape.lower.host.program import ATTRIBUTES, Module
from egshape.lower.llvm import native
from egshape.lower.llvm.functions import text as functions_text
from egshape.plan.ir.program import Program
from egshape.plan.text import kernel_text, program_text

_DEFINITION = r"^define internal void @{name}\(.*?^\}}\n"


def dump(
    graph: Graph, program: Program, made: Module, machine: native.Machine, sources: Mapping[str, str] | None = None
) -> None:
    """Write everything to the folder that EGSHAPE_DUMP names, if it does; ``sources``: CUDA C++ of kernels."""
    chosen = os.environ.get("EGSHAPE_DUMP")
    if not chosen:
        return
    folder = Path(chosen)
    write_atomic(folder / "graph.txt", str(graph))
    write_atomic(folder / "plan.txt", program_text(program, made.layout))
    write_atomic(folder / "module.ll", native.whole(made.text, machine.features))
    for name, source in (sources or {}).items():
        write_atomic(folder / "kernels" / f"{name}.cu", source)
    for name, kernel in made.kernels.items():
        write_atomic(folder / "kernels" / f"{name}.loops", kernel_text(kernel))
        found = re.search(_DEFINITION.format(name=re.escape(name)), made.text, re.MULTILINE | re.DOTALL)
        if found is None:
            continue
        alone = functions_text(found[0]) + found[0].replace("define internal", "define", 1) + ATTRIBUTES
        alone = native.whole(alone, machine.features)
        write_atomic(folder / "kernels" / f"{name}.ll", alone)
        write_atomic(folder / "kernels" / f"{name}.s", native.assembly(alone, machine))
