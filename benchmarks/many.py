"""Many models: throughput over processes and over workers of a cluster, what a task costs beside its work, and a plan
for a million models on a thousand workers, simulated from the times that were measured.

    python -m benchmarks.many [MODELS [WORKERS ...]]

Each way optimizes the same small models, all different, into a folder of its own."""

from __future__ import annotations

import contextlib
import heapq
import io
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True)
class Way:
    """How the models were done: what is said of it, workers, seconds in all, and of each task by itself."""

    name: str
    workers: int
    seconds: float
    spent: tuple[float, ...]

    @property
    def overhead(self) -> float:
        """Seconds of a worker for each task that were none of its work."""
        running = min(self.workers, os.cpu_count() or 1)
        return max(0.0, self.seconds * running - sum(self.spent)) / len(self.spent)


def tasks(models: Sequence[Path], out: Path) -> list[Task]:
    """To optimize each into a folder."""
    return [
        Task(("egshape.commands.models", "optimize"), str(path), {"output": str(out / path.name)}, ("output",))
        for path in models
    ]


def timed(name: str, workers: int, ended: Iterator[tuple[int, Done]], began: float) -> Way:
    """What came of the tasks. Raises RuntimeError for one that failed."""
    spent = []
    for _, done in ended:
        if done.code:
            raise RuntimeError(done.err)
        spent.append(done.seconds)
    return Way(name, workers, time.perf_counter() - began, tuple(spent))


def ways(models: Sequence[Path], out: Path, workers: Sequence[int]) -> Iterator[Way]:
    """In this process, over processes, over workers of a cluster; these are started, and warm, before the clock is."""
    import distributed

    from egshape.commands.work import local, work

    began = time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        yield timed("this process", 1, ((k, work(task)) for k, task in enumerate(tasks(models, out / "one"))), began)
    for count in workers:
        warm = tasks(models[: 2 * count], out / "warm")
        executor = local(count)
        list(executor.map(work, warm))
        began = time.perf_counter()
        yield timed(
            "processes", count, each(tasks(models, out / f"p{count}"), 2 * count, lambda _, it=executor: it), began
        )
    for count in workers:
        with (
            distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, dashboard_address=None, silence_logs="ERROR"
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            list(over(client, tasks(models[: 4 * count], out / "warm")))
            began = time.perf_counter()
            yield timed("cluster", count, over(client, tasks(models, out / f"c{count}")), began)


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


def main(argv: Sequence[str]) -> int:
    """Measure, and print both tables."""
    count = int(argv[0]) if argv else MODELS
    workers = tuple(map(int, argv[1:])) or WORKERS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = [folder / f"m{k}.mlir" for k in range(count)]
        for k, path in enumerate(models):
            path.write_text(_TEXT.format(width=k + 1))
        found = list(ways(models, folder, workers))
    one = found[0].seconds
    rows = [("way", "workers", "seconds", "models a second", "against one", "ms beside the work, a task")]
    for way in found:
        figures = (f"{way.seconds:.1f}", f"{count / way.seconds:.1f}", f"{one / way.seconds:.2f}")
        rows.append((way.name, str(way.workers), *figures, f"{1e3 * way.overhead:.1f}"))
    print(f"{measured_on(())}, {count} models of 4 ops, {os.cpu_count()} processors")
    print(table(rows))
    last, overhead = found[-1], max(way.overhead for way in found if way.name == "cluster")
    least = TASKS * sum(last.spent) / len(last.spent) / MACHINES
    plan = [("schedulers", "seconds", "of the least")]
    for schedulers in (1, 10, SHARDS):
        seconds = simulated(last.spent, overhead, schedulers)
        plan.append((str(schedulers), f"{seconds:.0f}", f"{seconds / least:.2f}"))
    print(f"\n{TASKS} such models on {MACHINES} workers, simulated; the least is {least:.0f} seconds")
    print(table(plan))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
