"""Many models: throughput over processes and over workers of a cluster, what a task costs beside its work, and a plan
for a million models on a thousand workers, simulated from the times that were measured.

    python -m benchmarks.many [MODELS [WORKERS ...]] [--way processes] [--way cluster]

Each way optimizes the same small models, all different, into a folder of its own. What a task costs beside its work is
what it takes where its work is to copy the model."""

from __future__ import annotations

import argparse
import heapq
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tools.machine import measured_on
from egshape.commands.cluster import over
from egshape.commands.work import Done, Task, each
from egshape.show import table

MODELS, WORKERS = 1000, (1, 2, 4)
SHARDS = 100
"""Schedulers of the plan, each with workers of its own; one scheduler would be what all wait for."""
TASKS, MACHINES = 1_000_000, 1_000
_TEXT = """func.func @main(%x: tensor<?x{width}xf32>, %y: tensor<?x{width}xf32>) -> tensor<?x{width}xf32> {{
  %0 = stablehlo.negate %x : tensor<?x{width}xf32>
  %1 = stablehlo.negate %0 : tensor<?x{width}xf32>
  %2 = stablehlo.add %1, %y : tensor<?x{width}xf32>
  %3 = stablehlo.tanh %2 : tensor<?x{width}xf32>
  return %3 : tensor<?x{width}xf32>
}}
"""


Run = Callable[[Sequence[Task]], Iterator[tuple[int, Done]]]


@dataclass(frozen=True)
class Way:
    """How the models were done: what is said of it, workers, seconds in all, of each task by itself, and in all where
    each is a copy."""

    name: str
    workers: int
    seconds: float
    spent: tuple[float, ...]
    copied: float

    @property
    def overhead(self) -> float:
        """Seconds of a processor for each task that were none of its work."""
        return self.copied * min(self.workers, os.cpu_count() or 1) / len(self.spent)


def tasks(models: Sequence[Path], out: Path, command: tuple[str, str]) -> list[Task]:
    """To do something with each, into a folder."""
    return [Task(command, str(path), {"output": str(out / path.name)}, ("output",)) for path in models]


OPTIMIZE, COPY = ("egshape.commands.models", "optimize"), ("benchmarks.many", "copy")


def copy(model: str, output: str) -> None:
    """The least that a command can do."""
    shutil.copyfile(model, output)


def timed(run: Run, given: Sequence[Task]) -> tuple[float, tuple[float, ...]]:
    """Seconds for all, and of each. Raises RuntimeError for one that failed."""
    Path(given[0].options["output"]).parent.mkdir(exist_ok=True)
    began, spent = time.perf_counter(), []
    for _, done in run(given):
        if done.code:
            raise RuntimeError(done.err)
        spent.append(done.seconds)
    return time.perf_counter() - began, tuple(spent)


@contextmanager
def processes(count: int) -> Iterator[Run]:
    """Tasks in processes of this machine."""
    from egshape.commands.work import local

    with local(count) as executor:
        yield lambda given: each(given, 2 * count, lambda _: Kept(executor))


class Kept(Executor):
    """An executor that stays after a run."""

    def __init__(self, of: Executor) -> None:
        self.submit = of.submit  # type: ignore[method-assign]


@contextmanager
def cluster(count: int) -> Iterator[Run]:
    """Tasks over workers of a cluster on this machine."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address=None, silence_logs="ERROR"
        ) as started,
        distributed.Client(started, set_as_default=False) as client,
    ):
        yield lambda given: over(client, given)


WAYS = {"processes": processes, "cluster": cluster}


def measured(name: str, workers: int, models: Sequence[Path], folder: Path) -> Way:
    """The models done in a way, whose workers are started, and warm, before the clock is."""
    with WAYS[name](workers) as run:
        timed(run, tasks(models[: 4 * workers], folder / "warm", OPTIMIZE))
        copied, _ = timed(run, tasks(models, folder / "copied", COPY))
        seconds, spent = timed(run, tasks(models, folder / f"{name}{workers}", OPTIMIZE))
    return Way(name, workers, seconds, spent, copied)


def simulated(spent: Sequence[float], overhead: float, schedulers: int) -> float:
    """Seconds for ``TASKS`` tasks on ``MACHINES`` workers, whose times are drawn from those measured; a scheduler hands
    out one task after the other, each taking ``overhead``."""
    draw = random.Random(0)
    last = 0.0
    for _ in range(schedulers):
        free = [0.0] * (MACHINES // schedulers)
        clock = 0.0
        for _ in range(TASKS // schedulers):
            ready = heapq.heappop(free)
            clock = max(clock + overhead, ready)
            heapq.heappush(free, clock + draw.choice(spent))
        last = max(last, *free)
    return last


def plan(way: Way) -> None:
    """Print the plan, from what was measured."""
    least = TASKS * sum(way.spent) / len(way.spent) / MACHINES
    rows = [("schedulers", "seconds", "of the least")]
    for schedulers in (1, 10, SHARDS):
        seconds = simulated(way.spent, way.overhead, schedulers)
        rows.append((str(schedulers), f"{seconds:.0f}", f"{seconds / least:.2f}"))
    print(f"\n{TASKS} such models on {MACHINES} workers, simulated from {way.name} with {way.workers} here; "
          f"the least is {least:.0f} seconds")  # fmt: skip
    print(table(rows))


def main(argv: Sequence[str]) -> int:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("models", nargs="?", type=int, default=MODELS, help=f"how many, {MODELS} if not given")
    parser.add_argument("workers", nargs="*", type=int, help=f"numbers of them to try, {WORKERS} if not given")
    parser.add_argument("--way", choices=WAYS, action="append", help="what they are; both if not given")
    given = parser.parse_args(argv)
    count, names = given.models, given.way or list(WAYS)
    rows = [("way", "workers", "seconds", "models a second", "against one", "ms beside the work, a task")]
    with tempfile.TemporaryDirectory() as folder:
        models = [Path(folder) / f"m{k}.mlir" for k in range(count)]
        for k, path in enumerate(models):
            path.write_text(_TEXT.format(width=k + 1))
        for name in names:
            found = [measured(name, number, models, Path(folder)) for number in given.workers or WORKERS]
            for way in found:
                gain = found[0].seconds / way.seconds
                figures = (f"{way.seconds:.1f}", f"{count / way.seconds:.1f}", f"{gain:.2f}")
                rows.append((name, str(way.workers), *figures, f"{1e3 * way.overhead:.1f}"))
    print(f"{measured_on(())}, {count} models of 4 ops, {os.cpu_count()} processors")
    print(table(rows))
    plan(min(found, key=lambda way: sum(way.spent)))  # workers that share a processor take longer for the same
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
