"""Nodes of egshape's files beside those of the peers that keep every bit, constants not counted, checks counted.

    python -m benchmarks.zoo.counts [FILE.onnx ...] [--reports] [--most-mb 120] [--tools onnxsim,onnxslim,ort-basic]

Without files: the zoo. ``--reports``: the graphs of public reports (``benchmarks/zoo/reports.py``). A peer keeps every
bit if its file, in ONNX Runtime without optimization, gives what the original gives wherever that runs: at the points
of the model's plan, and at 0, 1, 2 and 7 for all sizes at once. The exit code is the number of models on which such a
peer has fewer nodes.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from benchmarks.zoo import fetch, measures, reports, tools
from benchmarks.zoo import inputs as zoo_inputs
from benchmarks.zoo.inputs import Plan, Probe
from benchmarks.zoo.plans import plan_of

PEERS = ("onnxsim", "onnxslim", "ort-basic")
SIZES = (0, 1, 2, 7)
SECONDS = 200


def count(path: Path) -> int:
    """Nodes of a file, those of subgraphs and called functions included."""
    return sum(measures.nodes(measures.skeleton(path)).values())


def feeds(plan: Plan, recurrent: bool) -> Iterator[Mapping[str, Any]]:
    """Inputs at the points of a plan, with data twice, and at each of SIZES. ``recurrent``: 0 would end the process."""
    free = {s for x in plan.inputs for s in x.symbols}
    scalars = plan.probes[0].scalars
    small = [Probe(dict.fromkeys(free, size), scalars) for size in SIZES[recurrent:]] if free else []
    for seed, probe in enumerate([*plan.probes, *plan.probes[:2], *small]):
        yield plan.feed(probe, seed)


def changed(path: Path, original: Path, plan: Plan) -> str:
    """What a file does otherwise than the original; empty if it keeps every bit."""
    try:
        old, new = zoo_inputs.session(str(original)), zoo_inputs.session(str(path))
    except Exception as error:  # the runtime's exceptions share no base class
        return f"cannot be loaded: {str(error)[:80]}"
    if [x.name for x in old.get_outputs()] != [x.name for x in new.get_outputs()]:
        return "other outputs"
    recurrent = any(op.endswith(("LSTM", "GRU", "RNN")) for op in measures.nodes(measures.skeleton(original)))
    for fed in feeds(plan, recurrent):
        wanted, got = _run(old, fed), _run(new, fed)
        if wanted is not None and (fault := _apart(wanted, got)):
            return f"{fault} at {' '.join(str(list(x.shape)) for x in fed.values())}"
    return ""


def _run(run: ort.InferenceSession, fed: Mapping[str, Any]) -> Sequence[Any] | None:
    try:
        return list(run.run(None, dict(fed)))
    except Exception:  # a size that the model refuses
        return None


def _apart(wanted: Sequence[Any], got: Sequence[Any] | None) -> str:
    if got is None:
        return "refused"
    for one, two in zip(map(np.asarray, wanted), map(np.asarray, got), strict=True):
        if one.shape != two.shape or one.dtype != two.dtype:
            return f"{two.dtype}{list(two.shape)}"
        if one.dtype.kind == "f":
            missing = np.isnan(one)
            same = np.array_equal(missing, np.isnan(two)) and one[~missing].tobytes() == two[~missing].tobytes()
        else:
            same = one.tolist() == two.tolist()
        if not same:
            return "other bits"
    return ""


def write(tool: str, source: Path, target: Path) -> bool:
    """Whether a tool wrote a file: egshape in this process, a peer in a copy of it, which it may end."""
    work = _work(tool)
    if tool == "egshape":
        work(str(source), str(target))
        return True
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        signal.alarm(SECONDS)
        try:
            work(str(source), str(target))
            os._exit(0)
        except BaseException:  # each tool has its own
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0 and target.is_file()


@cache
def _work(tool: str) -> tools.Work:
    return tools.TOOLS[tool][1]()


def compared(name: str, path: Path, peers: Sequence[str], cache: Path, folder: Path) -> bool:
    """Print a line of the table; whether a peer that keeps every bit has fewer nodes."""
    before, plan = count(path), plan_of(path, cache)
    cells: dict[str, str] = {}
    whole: dict[str, int] = {}
    for tool in ("egshape", *peers):
        target = folder / f"{name.replace('/', '-')}.{tool}.onnx"
        if not write(tool, path, target):
            cells[tool] = "fails"
            continue
        nodes, fault = count(target), changed(target, path, plan)
        cells[tool] = f"{nodes} ({fault})" if fault else str(nodes)
        if not fault or tool == "egshape":  # what differs is told of in docs/onnx.md
            whole[tool] = nodes
    best = min((nodes for tool, nodes in whole.items() if tool != "egshape"), default=before)
    fewer = best < whole.get("egshape", sys.maxsize)
    print(f"| {name} | {before} | " + " | ".join(cells.values()) + f" | {'**fewer**' if fewer else ''} |", flush=True)
    return fewer


def main() -> int:
    """Compare, print the table."""
    parser = argparse.ArgumentParser(description="Node counts beside the peers that keep every bit.")
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--reports", action="store_true", help="the graphs of public reports")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--most-mb", type=float, default=120, help="larger files are left out")
    parser.add_argument("--tools", default=",".join(PEERS))
    parser.add_argument("--keep", type=Path, help="a folder for the written files")
    options = parser.parse_args()
    peers = [tool for tool in options.tools.split(",") if tool and tools.installed(tool)]
    with tempfile.TemporaryDirectory() as place:
        folder = options.keep or Path(place)
        folder.mkdir(exist_ok=True)
        if options.reports:
            found = reports.written(folder)
        else:
            found = {file.stem: file for file in options.files} or {m.name: path for m, path in fetch.models()}
        print(f"| model | as it came | egshape | {' | '.join(peers)} | |", flush=True)
        print("|---" * (len(peers) + 4) + "|", flush=True)
        worse = 0
        for name, path in found.items():
            if options.only not in name or path.stat().st_size > options.most_mb * 1e6:
                continue
            try:
                worse += compared(name, path, peers, fetch.cache_folder(), folder)
            except zoo_inputs.NoSizes as error:
                print(f"| {name} | no sizes found: {error} |", flush=True)
    print(f"\n{worse} with fewer nodes elsewhere")
    return worse


if __name__ == "__main__":
    sys.exit(main())
