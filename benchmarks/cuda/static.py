"""What is known of kernels before they run: registers, spills, shared memory, how many blocks a multiprocessor holds,
which instructions there are.

``python -m benchmarks.cuda.static MODEL... [--cases WORD] [--architecture sm_90] [--most 12] [--before FILE]`` compiles
models, or cases of ``benchmarks.cuda.cases``, with NVRTC; no GPU is needed. With an earlier output it prints what
changed. ``cuobjdump`` and ``nvdisasm`` of the CUDA toolkit are read where they are on the PATH; without them only
threads and launches are known. None of it is a speed."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import egshape
from benchmarks.cuda import cases as cuda_cases
from egshape.errors import EgshapeError, UndefinedSize
from egshape.ir.graph import Graph
from egshape.lower.drivers.cuda import Function, compile_cuda, cubins
from egshape.plan.analysis.work import traffic

ARCHITECTURES = ("sm_80", "sm_90")
LIKELY = 1024
"""Of each size, to find the kernels that move most."""
INSTRUCTIONS = {
    "16-byte": r"\b(LDG|STG|LDS|STS)\.(E\.)?([A-Z.]+\.)?128\b",
    "HMMA": r"\bHMMA\b",
    "LDSM": r"\bLDSM\b",
    "SHFL": r"\bSHFL\b",
    "BAR": r"\bBAR\b",
    "spills": r"\b(LDL|STL)\b",
    "instructions": r"/\*[0-9a-f]{4,}\*/ +(?!NOP)\S",
}
"""What is counted in the disassembly; an instruction takes 16 bytes."""


@dataclass(frozen=True)
class Machine:
    """A multiprocessor: what all blocks on it share. ``reserved``: bytes of shared memory that each block costs
    besides its own; registers are handed out to warps in pieces of ``piece``."""

    registers: int
    shared: int
    threads: int
    blocks: int
    reserved: int = 1024
    piece: int = 256

    def resident(self, threads: int, registers: int, shared: int) -> int:
        """Blocks that fit at the same time."""
        warps = -(-threads // 32)
        each = -(-max(registers, 1) * 32 // self.piece) * self.piece * warps
        return min(
            self.blocks, self.threads // (32 * warps), self.registers // each, self.shared // (shared + self.reserved)
        )


MACHINES = {
    "sm_80": Machine(65536, 164 << 10, 2048, 32),
    "sm_90": Machine(65536, 228 << 10, 2048, 32),
    "sm_100": Machine(65536, 228 << 10, 2048, 32),
}
"""Compute capabilities 8.0, 9.0 and 10.0 in the programming guide's table of technical specifications."""


@dataclass(frozen=True)
class Static:
    """A kernel of a cubin. ``resident``: blocks on a multiprocessor, None where its registers are not known."""

    name: str
    threads: int
    moved: float
    registers: int | None = None
    stack: int = 0
    shared: int = 0
    resident: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name without its number, which versions of a kernel share."""
        return self.name.split("_", 2)[-1]

    @property
    def occupancy(self) -> float | None:
        """The share of a multiprocessor's threads that are there at the same time."""
        return None if self.resident is None else self.resident * self.threads / MACHINES["sm_90"].threads


def compiled(graph: Graph, architecture: str) -> tuple[Sequence[Function], bytes]:
    """The kernels of an optimized graph, and their cubin."""
    found: list[tuple[Sequence[Function], bytes]] = []

    def keep(functions: Sequence[Function], wanted: str) -> bytes:
        found.append((functions, cubins(functions, wanted)))
        return found[-1][1]

    compile_cuda(graph, (architecture,), make=keep)
    return found[-1] if found else ((), b"")


def static(functions: Sequence[Function], image: bytes, architecture: str) -> list[Static]:
    """What is known of each kernel, those that move most first; versions of one as they are tried."""
    used, listed = _used(image), _instructions(image)
    machine, rows = MACHINES[architecture], []
    for each in functions:
        name, threads = each.kernel.name, each.launch.threads
        size = traffic(each.launch.kernel, each.launch.shared)
        try:
            moved = float(size.evaluate(dict.fromkeys(size.symbols(), LIKELY)))
        except UndefinedSize:
            moved = 0.0
        if name not in used:
            rows.append(Static(name, threads, moved, shared=each.kernel.shared_bytes))
            continue
        registers, stack, shared = used[name]
        shared += each.kernel.shared_bytes
        rows.append(
            Static(
                name,
                threads,
                moved,
                registers,
                stack,
                shared,
                machine.resident(threads, registers, shared),
                listed.get(name, {}),
            )
        )
    most: dict[str, float] = {}
    for row in rows:
        most[row.label] = max(row.moved, most.get(row.label, 0.0))
    return sorted(rows, key=lambda row: -most[row.label])


def _tool(name: str, *arguments: str, image: bytes) -> str:
    """What a tool of the toolkit says of a cubin; "" where it is not installed, or does not know the cubin."""
    program = shutil.which(name)
    if program is None or not image:
        return ""
    with tempfile.TemporaryDirectory() as room:
        path = Path(room, "kernels.cubin")
        path.write_bytes(image)
        done = subprocess.run([program, *arguments, str(path)], capture_output=True, text=True, check=False)
    return done.stdout if not done.returncode else ""


def _used(image: bytes) -> dict[str, tuple[int, int, int]]:
    """Registers of a thread, bytes of its stack, bytes of shared memory, by the names of kernels."""
    pattern = r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)"
    return {
        name: (int(registers), int(stack), int(shared))
        for name, registers, stack, shared in re.findall(pattern, _tool("cuobjdump", "-res-usage", image=image))
    }


def _instructions(image: bytes) -> dict[str, Counter[str]]:
    """How often each kind of instruction stands in each kernel."""
    found: dict[str, Counter[str]] = {}
    for part in re.split(r"\n\.text\.", _tool("nvdisasm", "-c", image=image))[1:]:
        name, _, text = part.partition(":")
        found[name] = Counter({kind: len(re.findall(pattern, text)) for kind, pattern in INSTRUCTIONS.items()})
    return found


HEAD = ("model", "kernel", "threads", "registers", "stack", "shared", "blocks", "occupancy", *INSTRUCTIONS)


def cells(model: str, row: Static) -> tuple[str, ...]:
    """A row of the table."""
    known = row.registers is not None
    share = f"{row.occupancy:.0%}" if row.occupancy is not None else "?"
    return (
        model,
        row.name,
        str(row.threads),
        str(row.registers) if known else "?",
        str(row.stack) if known else "?",
        str(row.shared),
        str(row.resident) if known else "?",
        share,
        *(str(row.counts.get(kind, 0)) if known else "?" for kind in INSTRUCTIONS),
    )


Before = Mapping[tuple[str, ...], tuple[str, ...]]


def earlier(text: str) -> Before:
    """The rows of an output by architecture, model and kernel."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    architecture = ""
    for line in text.splitlines():
        row = tuple(cell.strip() for cell in line.strip("| ").split("|"))
        architecture = line.strip() if line.strip() in MACHINES else architecture
        if len(row) == len(HEAD) and row != HEAD and not row[0].startswith("-"):
            found[architecture, *row[:2]] = row
    return found


def changed(row: tuple[str, ...], before: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """A row with what its cells were before; None where nothing is another."""
    if before is None:
        return (*row[:2], f"new: {row[2]}", *row[3:])
    cells = tuple(new if new == old else f"{old} -> {new}" for new, old in zip(row, before, strict=True))
    return None if row == before else cells


Program = tuple[str, Callable[[], Graph], cuda_cases.Variant]
"""A name, what gives an optimized graph, and what it is compiled with."""


def programs(models: Sequence[Path], word: str | None) -> Iterator[Program]:
    """Models of files, and the variants of cases with a word in group or name."""
    for path in models:
        yield path.stem, partial(_model, path), cuda_cases.Variant()
    for case in cuda_cases.CASES if word is not None else ():
        if word in f"{case.group} {case.name}":
            for kind, variant in case.variants.items():
                yield f"{case.name} {kind}".strip(), partial(_case, case, variant), variant


def _model(path: Path) -> Graph:
    return egshape.optimize(egshape.load(path), validate=False, explain=False).graph


def _case(case: cuda_cases.Case, variant: cuda_cases.Variant) -> Graph:
    return cuda_cases.optimized(case, variant, case.build())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--cases", metavar="WORD", help="cases of the benchmark with this word in group or name")
    parser.add_argument("--architecture", choices=sorted(MACHINES), action="append")
    parser.add_argument("--most", type=int, default=12, help="kernels of a model, those that move most")
    parser.add_argument("--before", type=Path, metavar="FILE", help="an earlier output: only what changed is printed")
    chosen = parser.parse_args()
    before = earlier(chosen.before.read_text()) if chosen.before else None
    missing = [tool for tool in ("cuobjdump", "nvdisasm") if shutil.which(tool) is None]
    if missing:
        print(f"notice: {' and '.join(missing)} not on the PATH: registers and instructions are not known")
    for architecture in chosen.architecture or ARCHITECTURES:
        print(f"\n{architecture}\n\n| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
        for name, graph, variant in programs(chosen.models, chosen.cases):
            try:
                with cuda_cases.applied(variant):
                    functions, image = compiled(graph(), architecture)
            except EgshapeError as error:
                print(f"| {name} | {error} |" + " |" * (len(HEAD) - 2))
                continue
            for row in static(functions, image, architecture)[: chosen.most]:
                found: tuple[str, ...] | None = cells(name, row)
                if before is not None and found is not None:
                    found = changed(found, before.get((architecture, *found[:2])))
                if found is not None:
                    print("| " + " | ".join(found) + " |", flush=True)


if __name__ == "__main__":
    main()
