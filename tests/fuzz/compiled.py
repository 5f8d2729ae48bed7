"""The long fuzz of the native back end: every op in every dtype, the sample models, programs that a careless optimizer
gets wrong, random programs and random networks, raw and optimized, in one thread and in pieces, at sizes 0 to 1024,
between pages that cannot be touched; and random graphs of one op at sizes that it takes and near them.

    python -m tests.fuzz.compiled --seconds 600 [--only ops,models,careless,programs,networks,sizes] [--seed 1]

Cases run in a process of their own, which names each before it starts: one that kills the process is named too."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

import egshape
from egshape.dims import const, symbol
from egshape.errors import Unsupported
from egshape.facts import Relation
from egshape.ir.graph import Graph
from egshape.ops import REGISTRY
from tests.conditions.drawn import DRAWN, drawn
from tests.conditions.judges import disagreements
from tests.conftest import SHARED
from tests.fuzz import networks
from tests.fuzz.engine import optimized, program
from tests.fuzz.maker import Maker, arrays_at, bearable, variations
from tests.lower.checking import compiled
from tests.lower.opcases import REFUSED, SIZES, cases
from tests.lower.oracle import Array, compiled_in_pieces, verdict, widened
from tests.soundness import unread, values
from tests.soundness.programs import PROGRAMS

assert values.SPECIAL.size and unread.CONVOLUTION  # the modules register their programs
KINDS = ("ops", "models", "careless", "programs", "networks", "sizes")
OPS = sorted(DRAWN)
TOLERANCE = 3e-5
"""Relative, for whole programs, in which errors add up."""


@dataclass(frozen=True)
class Run:
    """A graph and the inputs at which it is run, each with a word that says which."""

    graph: Graph
    inputs: Sequence[tuple[str, Sequence[Array]]]
    may_be_refused: bool = False
    relative: float | None = TOLERANCE


def tame(array: Array) -> Array:
    """The array without floats that overflow: sums of these depend on their order."""
    if array.dtype.kind not in "fV":
        return array
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        return np.where(np.isfinite(wide) & (np.abs(wide) < 100), wide, 1.25).astype(array.dtype)


# -- what is run ---------------------------------------------------------------------------------------------------


def sizes_of(maker: Maker, seed: int) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """The witness and variations of it; then each group of sizes that are equal there at every size of ``SIZES``."""
    yield from variations(maker, seed, 3)
    groups: dict[int, list[str]] = {}
    for name, size in maker.sizes.items():
        groups.setdefault(size, []).append(name)
    ordered = sorted(groups)
    for size in SIZES:
        group = groups[ordered[(seed + size) % len(ordered)]]
        yield {**maker.sizes, **dict.fromkeys(group, size)}, dict(maker.data_sizes)


def _program(seed: int) -> Run:
    maker, graph = program(seed, (), 8)
    inputs = []
    for sizes, numbers in sizes_of(maker, seed):
        if bearable(graph, sizes):
            arrays = [tame(array) for array in arrays_at(graph, sizes, numbers, seed)]
            inputs.append((f"{sizes} {numbers}", arrays))
    return Run(graph, inputs)


def _network(seed: int) -> Run:
    graph = networks.network(seed)
    return Run(graph, [(str(sizes), arrays) for sizes, arrays in networks.inputs(graph, seed)], relative=1e-5)


def _models() -> Mapping[str, Sequence[Mapping[str, object]]]:
    index = SHARED / "models" / "index.json"
    return {name: entry["cases"] for name, entry in json.loads(index.read_text()).items()} if index.is_file() else {}


def _model(name: str) -> Run:
    graph = egshape.load(Path(SHARED, "models", f"{name}.mlir"))
    inputs = []
    with np.load(SHARED / "models" / f"{name}.npz") as stored:
        for number in range(len(_models()[name])):
            arrays = [stored[f"case{number}_in{k}"] for k in range(len(graph.inputs))]
            inputs.append((f"case {number}", arrays))
    return Run(graph, inputs, relative=1e-5)


def _op(label: str) -> Run:
    op, dtype, number = label.split("-")
    case = cases(op, (dtype,))[int(number)]
    inputs = [(f"n = {n}", case.arrays(n, seed)) for n in SIZES for seed in (0, 1) if n <= case.most]
    return Run(case.graph, inputs, op in REFUSED, None)


def _careless(name: str) -> Run:
    (found,) = (each for each in PROGRAMS if each.name == name)
    pairs = [(kind, arrays) for kind in ("valid", "violating") for arrays in getattr(found, kind)]
    inputs = [(f"{kind} {k}", [tame(np.asarray(array)) for array in arrays]) for k, (kind, arrays) in enumerate(pairs)]
    return Run(found.build(), inputs, True)


MAKERS = {
    "op": _op,
    "model": _model,
    "careless": _careless,
    "network": lambda seed: _network(int(seed)),
    "program": lambda seed: _program(int(seed)),
}


def labels(kinds: Sequence[str], seed: int) -> Iterator[str]:
    """What to run, without end where random programs are among it."""
    if "ops" in kinds:
        for decl in REGISTRY:
            counts: dict[str, int] = {}
            for case in cases(decl.name):
                number = counts[case.dtype] = counts.get(case.dtype, -1) + 1
                yield f"op:{case}-{number}"
    if "models" in kinds:
        yield from (f"model:{name}" for name in _models())
    if "careless" in kinds:
        yield from (f"careless:{each.name}" for each in PROGRAMS)
    while {"programs", "networks", "sizes"} & set(kinds):
        yield from (f"{kind}:{seed}" for kind in ("program", "network") if f"{kind}s" in kinds)
        yield from (f"sizes:{name}-{seed}" for name in (OPS if "sizes" in kinds else ()))
        seed += 1


def pinned(graph: Graph, arrays: Sequence[Array]) -> Graph:
    """The graph where every second size of its inputs is assumed to be the number that it is there, and the others to
    be equal where they are: kernels are chosen by such sizes."""
    sizes = {
        each.name: arrays[graph.inputs.index(each.value)].shape[each.axis]
        for each in graph.body.symbols
        if each.value in graph.inputs and each.axis is not None and not each.offset
    }
    numbers, others = list(sizes.items())[::2], list(sizes.items())[1::2]
    facts = [Relation("==", symbol(name), const(size)) for name, size in numbers]
    facts += [Relation("==", symbol(a), symbol(b)) for (a, one), (b, two) in pairwise(others) if one == two]
    return replace(graph, facts=graph.facts.with_text(*map(str, facts), assumed=True))


# -- running -------------------------------------------------------------------------------------------------------


def faults(label: str, fences: bool = True) -> list[str]:
    """Everything wrong with one label; nothing for a graph that is refused by right. The raw graph runs in one thread
    between fences, and in pieces between red zones as does the optimized one."""
    kind, name = label.split(":", 1)
    if kind == "sizes":
        op, _, seed = name.rpartition("-")
        return disagreements(drawn(op, int(seed)), int(seed))
    run = MAKERS[kind](name)
    wide = widened(run.graph)
    better = None if kind == "op" else optimized(run.graph)
    forms = (
        ("raw", compiled, run.graph, fences, run.inputs),
        ("in pieces", compiled_in_pieces, run.graph, False, run.inputs),
        ("optimized in pieces", compiled_in_pieces, better and better.graph, False, run.inputs),
        *(
            ("pinned", compiled, pinned(run.graph, arrays), fences, [(what, arrays)])
            for what, arrays in run.inputs[:1] * (kind != "careless")
        ),
    )
    out = []
    for form, compiler, graph, fenced, inputs in forms:
        if graph is None:
            continue
        try:
            function = compiler(graph)
        except Unsupported as refusal:
            if not run.may_be_refused:
                out.append(f"{form}: refused: {refusal}")
            continue
        for what, arrays in inputs:
            print(f"  {form} {what}", flush=True)
            # The raw graph is the meaning of the optimized one too.
            wrong = verdict(function, run.graph, wide, arrays, fences=fenced, relative=run.relative)
            if wrong:
                out.append(f"{form} at {what}: {wrong}")
    return out


def _child(fences: bool) -> int:
    """Run the labels on stdin, one a line."""
    for line in sys.stdin:
        label = line.strip()
        print(f"begin {label}", flush=True)
        try:
            found = faults(label, fences)
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        for each in found:
            print(f"FAULT {label} {each}", flush=True)
        print(f"end {label}", flush=True)
    return 0


class Worker:
    """A process that runs labels; a new one takes its place when it dies."""

    def __init__(self, fences: bool) -> None:
        self._command = [sys.executable, "-m", "tests.fuzz.compiled", "--child", *(() if fences else ("--no-fences",))]
        self._process: subprocess.Popen[str] | None = None

    def run(self, label: str) -> list[str]:
        """The faults of one label."""
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        given, answers = self._process.stdin, self._process.stdout
        assert given is not None and answers is not None
        given.write(label + "\n")
        given.flush()
        found, last = [], ""
        for line in answers:
            if line.startswith("FAULT "):
                found.append(line.rstrip())
            elif line.startswith("end "):
                return found
            last = line.strip()
        code = self._process.wait()
        self._process = None
        return [*found, f"FAULT {label} killed its process ({code}) at: {last}"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


def fuzz(kinds: Sequence[str], seconds: float, seed: int, most: int, fences: bool) -> tuple[int, list[str]]:
    """Run until the time is up or ``most`` labels are done; how many were, and their faults."""
    worker, found, done = Worker(fences), list[str](), 0
    end = time.monotonic() + seconds
    for label in labels(kinds, seed):
        if done >= most or time.monotonic() > end:
            break
        for each in worker.run(label):
            print(each, flush=True)
            found.append(each)
        done += 1
    worker.close()
    return done, found


def main() -> int:
    """Exit 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--most", type=int, default=10**9, help="labels to run")
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-fences", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--label", help="one case, such as program:7")
    options = parser.parse_args()
    if options.child:
        return _child(not options.no_fences)
    if options.label:
        found = faults(options.label, not options.no_fences)
        print("\n".join(found) or "nothing is wrong")
        return 1 if found else 0
    done, found = fuzz(options.only.split(","), options.seconds, options.seed, options.most, not options.no_fences)
    print(f"{done} cases, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
