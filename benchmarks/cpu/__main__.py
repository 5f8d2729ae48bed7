"""Compiled graphs against other frameworks on the CPU: one process, alternating runs, the same threads for all, medians
and ratios.

    python -m benchmarks.cpu [--case softmax] [--threads 2] [--rounds 15] [--seconds 8] [--peers onnxruntime,torch]
                             [--parts speed,shapes,compile] [--all] [--markdown]

Every network is built once (``benchmarks.cpu.networks``) and replayed layer by layer in each peer
(``benchmarks.cpu.peers``), with the same weights and inputs; results are compared before anything is timed. ``--all``
adds BERT-base and torch.compile, which take minutes. Ratios are the peer's time over ours: above 1, egshape is
faster.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import egshape
from benchmarks.cpu import peers
from benchmarks.cpu.networks import SHAPES, WORKLOADS, Array, Built, Point, Workload, bert, encoder
from benchmarks.tools.machine import measured_on
from benchmarks.tools.timing import Call, Table, sampled, shown

SLOW = "torch.compile"
LARGE = 4 << 20
"""Bytes from which a copy is bound by memory, not by its call."""


@dataclass(frozen=True)
class Case:
    """A row of the table: what is timed, by name, "egshape" first."""

    name: str
    runs: Mapping[str, Call]
    point: Point = field(default_factory=lambda: Point({}))


@dataclass(frozen=True)
class Options:
    """What to measure, and how long."""

    threads: int = 1
    rounds: int = 15
    seconds: float = 8.0
    peers: tuple[str, ...] = ("onnxruntime",)
    best: bool = False


# -- preparing -----------------------------------------------------------------------------------------------------


def compiled(built: Built, threads: int) -> Callable[..., object]:
    """The network by egshape, for all sizes."""
    graph = egshape.optimize(built.graph(), validate=False, explain=False).graph
    return egshape.compile(graph, target="llvm", threads=threads, optimize=False)


def prepared(workload: Workload, options: Options) -> Iterator[Case]:
    """The cases of a workload; each network is compiled once by us and by those that can."""
    built = workload.build()
    runs: dict[str, Callable[..., object]] = {"egshape": compiled(built, options.threads)}
    for name in options.peers:
        try:
            runs[name] = peers.PEERS[name](built, options.threads)
        except LookupError:
            continue
    for point in workload.points:
        arrays = built.arrays(point.sizes)
        agree(workload.label(point), runs, arrays)
        calls: dict[str, Call] = {name: bound(run, arrays) for name, run in runs.items()}
        if point.copied >= LARGE:
            calls["copy"] = _copying(point.copied // 2, options.threads)
        yield Case(workload.label(point), calls, point)


def bound(run: Callable[..., object], arrays: Sequence[Array]) -> Call:
    """A call of a function on arrays."""
    return lambda: run(*arrays)


def agree(name: str, runs: Mapping[str, Callable[..., object]], arrays: Sequence[Array]) -> None:
    """Raise unless all give the same numbers, rounding apart."""
    wanted: Sequence[Any] = ()
    for peer, run in runs.items():
        found = run(*arrays)
        results = [np.array(each) for each in (found if isinstance(found, list | tuple) else [found])]
        for one, two in zip(results, wanted or results, strict=True):
            scale = float(np.abs(two).max(initial=1e-30))
            np.testing.assert_allclose(one, two, 2e-3, 2e-3 * scale, err_msg=f"{name}, {peer}")
        wanted = wanted or results


def _copying(nbytes: int, threads: int) -> Call:
    """A copy of so many bytes."""
    source, target = np.ones(nbytes // 4, np.float32), np.zeros(nbytes // 4, np.float32)
    if threads == 1:
        return lambda: np.copyto(target, source)
    pool = ThreadPoolExecutor(threads)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    return lambda: list(pool.map(lambda pair: np.copyto(*pair), parts))


# -- tables ----------------------------------------------------------------------------------------------------------


def speed(workloads: Sequence[Workload], options: Options, *, markdown: bool) -> None:
    """The time of a call, and how many times longer each peer takes."""
    table = Table(["case", "egshape", *options.peers, "goal", "% of copy"], markdown=markdown)
    for workload in workloads:
        for case in prepared(workload, options):
            found = sampled(case.runs, options.rounds, options.seconds, best=options.best)
            ratios = [f"{found.ratio(name, 'egshape'):.2f}" if name in case.runs else "" for name in options.peers]
            goal = "" if case.point.goal is None else f"{case.point.goal:g}"
            share = f"{100 * found.ratio('copy', 'egshape'):.0f}" if "copy" in case.runs else ""
            table.row([case.name, shown(found.typical("egshape")), *ratios, goal, share])


def shapes(options: Options, *, markdown: bool) -> None:
    """Seconds from a network to results at 48 shapes, one call each, compiles included; then the calls again."""
    built = encoder(2, 64, 4)
    inputs = [built.arrays(sizes) for sizes in SHAPES]
    table = Table(["encoder 2x64, 48 shapes", "with compiles", "again"], markdown=markdown)
    makers = {"egshape": compiled, **{name: peers.PEERS[name] for name in options.peers}}
    with _empty_cache():
        for name, make in makers.items():
            start = time.perf_counter()
            run = make(built, options.threads)
            for arrays in inputs:
                run(*arrays)
            middle = time.perf_counter()
            for arrays in inputs:
                run(*arrays)
            table.row([name, shown(middle - start), shown(time.perf_counter() - middle)])


class _empty_cache:
    """A fresh folder for compiled objects, for as long as a block runs."""

    def __enter__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._before = os.environ.get("EGSHAPE_CACHE")
        os.environ["EGSHAPE_CACHE"] = self._folder.name

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()
        del os.environ["EGSHAPE_CACHE"]
        if self._before is not None:
            os.environ["EGSHAPE_CACHE"] = self._before


def compile_times(options: Options, *, markdown: bool) -> None:
    """What it takes to prepare BERT-base."""
    built = bert()
    table = Table(["BERT-base", "time", "goal"], markdown=markdown)

    def timed(what: str, goal: str, run: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = run()
        table.row([what, shown(time.perf_counter() - start), goal])
        return result

    graph = built.graph()
    with _empty_cache(), tempfile.TemporaryDirectory() as folder:
        better = timed("optimize", "", lambda: egshape.optimize(graph, validate=False, explain=False).graph)
        path = Path(folder, "bert.egx")
        for what, goal in (("compile, cold", "20 s"), ("compile, warm", "1 s")):
            made = timed(what, goal, lambda: egshape.compile(better, target="llvm", threads=options.threads))
        timed("save the artifact", "", lambda: made.save(path))
        timed("read the bytes of the artifact", "", path.read_bytes)
        loaded = timed("load the artifact", "0.2 s more", lambda: egshape.runtime.load(path))
        arrays = built.arrays({"batch": 1, "length": 16})
        timed("first call of what was loaded", "", lambda: loaded(*arrays))


# -- the command ---------------------------------------------------------------------------------------------------


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="only workloads whose name contains this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each row, at most")
    parser.add_argument("--peers", help=f"of {', '.join(peers.PEERS)}")
    parser.add_argument("--parts", default="speed,shapes,compile")
    parser.add_argument("--all", action="store_true", help="BERT-base and torch.compile too")
    parser.add_argument("--best", action="store_true", help="shortest samples, not medians: for a busy machine")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    chosen = (
        options.peers.split(",")
        if options.peers
        else [name for name in peers.installed() if options.all or name != SLOW]
    )
    for name in chosen:
        if name not in peers.PEERS:
            parser.error(f"no peer is named {name!r}")
    how = Options(options.threads, options.rounds, options.seconds, tuple(chosen), options.best)
    workloads = [
        each
        for each in WORKLOADS
        if options.case in each.name and (each.quick or options.all or options.case == each.name)
    ]
    parts = options.parts.split(",")
    print(measured_on(dict.fromkeys(name.partition(".")[0] for name in chosen), options.threads))
    if "speed" in parts:
        speed(workloads, how, markdown=options.markdown)
    if "shapes" in parts and not options.case:
        shapes(how, markdown=options.markdown)
    if "compile" in parts and options.all:
        compile_times(how, markdown=options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
