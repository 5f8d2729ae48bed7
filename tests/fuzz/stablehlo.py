"""Random StableHLO programs, optimized and saved, through XLA against the program as it was made.

    python -m tests.fuzz.stablehlo [--count 2000] [--seed 0] [--ops 9] [--save FOLDER]

A program is its seed. At each of its points XLA must give the same of what was saved; so must the interpreter, of the
program as it was read, optimized, and read again from what was saved. XLA's results are compared to the bit, but for
what XLA itself computes wrongly (nested windows, openxla/xla#49121): there the saved one is as the interpreter says."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.robustness import xla_process
from egshape.api import optimize
from egshape.errors import EgshapeError
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from tests.fuzz.differential import bits
from tests.fuzz.stablehlo_maker import Maker, Program


@dataclass(frozen=True)
class Found:
    """What a program gave: results, or why there are none; and whether that is no answer."""

    results: tuple[np.ndarray, ...]
    error: str = ""
    open: bool = False


def in_xla(text: str, arrays: Sequence[np.ndarray]) -> Found:
    """What XLA gives."""
    results, error = xla_process.run(text, arrays)
    return Found(tuple(results), error, error in (xla_process.UNUSABLE, xla_process.ENDED))


def in_graph(graph: Graph, arrays: Sequence[np.ndarray]) -> Found:
    """What the interpreter gives."""
    try:
        return Found(tuple(interpret(graph, [array.copy() for array in arrays])))
    except EgshapeError as error:
        return Found((), str(error).splitlines()[0])


def same(one: Found, two: Found, exact: bool = False) -> bool:
    """Whether two have the same values, or the same bits, or are rejected both. (XLA's sign of -0.0 is 0.0 in f16.)"""
    if one.error or two.error:
        return bool(one.error) == bool(two.error)
    pairs = list(zip(one.results, two.results, strict=True))
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in pairs):
        return False
    return all(bits(a) == bits(b) or (not exact and _equal(a, b)) for a, b in pairs)


def _equal(one: np.ndarray, two: np.ndarray) -> bool:
    return one.dtype.kind == "f" and np.array_equal(one, two, equal_nan=True)


def faults(program: Program, tally: Counter[str]) -> list[str]:
    """What is wrong of a program, by point."""
    graph = read(program.text, "in.mlir")
    try:
        better = optimize(graph).graph
    except EgshapeError as error:
        tally["refused"] += 1
        runs = [point for point, arrays in enumerate(program.inputs) if not in_xla(program.text, arrays).error]
        return [f"optimize refuses what runs at {runs}: {error}"] if runs else []
    saved = write(better)
    again = read(saved, "out.mlir")
    found: list[str] = []
    for point, arrays in enumerate(program.inputs):
        before, after = in_xla(program.text, arrays), in_xla(saved, arrays)
        ours = {"graph": in_graph(graph, arrays), "result": in_graph(better, arrays), "again": in_graph(again, arrays)}
        if before.open or after.open:
            tally["open"] += 1
        elif same(before, after, exact=True):
            tally["equal" if not before.error else "rejected"] += 1
        elif same(after, ours["graph"]):
            tally["mended"] += 1  # XLA is wrong of the original, not of what was saved
        else:
            said = f"of what was saved {_shown(after)}, we {_shown(ours['graph'])}"
            found.append(f"point {point}: XLA gives {_shown(before)}, {said}")
        reference = after if not after.open and same(before, after) else ours["graph"]
        for name, each in ours.items():
            if not same(reference, each) and not (before.open and after.open and name == "graph"):
                found.append(f"point {point}: {name} gives {_shown(each)}, not {_shown(reference)}")
    return found


def _shown(found: Found) -> str:
    return found.error or "; ".join(f"{a.dtype}{list(a.shape)} {a.reshape(-1)[:8].tolist()}" for a in found.results)


def try_program(seed: int, ops: int, tally: Counter[str]) -> list[str]:
    """What is wrong of the program of a seed."""
    program = Maker(seed, ops).program()
    try:
        wrong = faults(program, tally)
    except Exception:  # any error that is none of ours is a fault
        wrong = [traceback.format_exc(limit=-4)]
    return [f"seed {seed}: {each}" for each in wrong]


def main() -> int:
    """Fuzz, print the faults."""
    parser = argparse.ArgumentParser(description="Random StableHLO programs through XLA.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", type=int, default=9)
    parser.add_argument("--save", type=Path, default=None, help="a folder for the programs that fail")
    options = parser.parse_args()
    tally: Counter[str] = Counter()
    wrong = 0
    for number in range(options.count):
        seed = options.seed + number
        found = try_program(seed, options.ops, tally)
        wrong += bool(found)
        if found:
            print("\n".join(found), flush=True)
            if options.save:
                options.save.mkdir(parents=True, exist_ok=True)
                (options.save / f"{seed}.mlir").write_text(Maker(seed, options.ops).program().text)
        if (number + 1) % 100 == 0:
            print(f"{number + 1} programs, {dict(tally)}, {wrong} faults", file=sys.stderr, flush=True)
    print(f"{options.count} programs, {dict(tally)}, {wrong} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
