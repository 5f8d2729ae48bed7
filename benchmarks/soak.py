"""Memory and time of one process that optimizes, compiles and calls for long, by several threads.

`python -m benchmarks.soak --optimize 10000 --compile 500 --calls 1000000` prints a row for each tenth of the work: the
resident memory of the process and of its engines in MB, and the seconds that the tenth took; exit 1 where the memory
is more than 60 MB above what it was after the first hundred, or a tenth took 1.2 times as long as the second."""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil

import egshape
from egshape.frontends.builder import Network
from egshape.ir.graph import Graph
from egshape.limits import resident_mb

MOST_MB = 60
"""What may be added after the first hundred."""
AT_ONCE = 8
"""Pieces of work that a thread takes in one go."""
SLOWER = 1.2
"""How much longer the last tenth may take than the second."""


def model(seed: int) -> Graph:
    """A small network with redundant transposes, a broadcast and a product, of another form for each seed."""
    rng = random.Random(seed)
    net = Network()
    width = rng.choice((4, 8, 12, 16))
    x = net.input("x", ["n", width])
    for _ in range(rng.randint(1, 4)):
        x = net.relu(net.transpose(net.transpose(x, [1, 0]), [1, 0]))
        if rng.random() < 0.5:
            x = net.add(x, x)
    return net.graph(y=x)


def memory_mb() -> float:
    """Resident memory of this process and of those that it started."""
    return resident_mb() + sum(resident_mb(each.pid) for each in psutil.Process().children(recursive=True))


def tenths(name: str, count: int, threads: int, work: Callable[[int], object]) -> Iterator[str]:
    """Do the work for 0, 1, ... by some threads; rows of what was measured, then what is wrong."""

    def run(numbers: range) -> None:
        for number in numbers:
            work(number)

    first_mb = 0.0
    seconds: list[float] = []
    done = 0
    with ThreadPoolExecutor(threads) as pool:
        for until in [min(100, count // 10), *(count * k // 10 for k in range(1, 11))]:
            began = time.monotonic()
            for _ in pool.map(run, [range(at, min(at + AT_ONCE, until)) for at in range(done, until, AT_ONCE)]):
                pass
            spent, made = time.monotonic() - began, until - done
            done = until
            now = memory_mb()
            first_mb = first_mb or now
            if made:
                seconds.append(spent / made)
                print(f"{name}\t{done}\t{now:.0f} MB\t{1000 * spent / made:.2f} ms each", flush=True)
    if now > first_mb + MOST_MB:
        yield f"{name}: {now - first_mb:.0f} MB more than after the first {min(100, count // 10)}"
    if seconds[-1] > SLOWER * seconds[2]:
        yield f"{name}: {seconds[-1] / seconds[2]:.2f} times as slow at the end"


def main() -> int:
    """Run the three kinds of work one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count in (("optimize", 1000), ("compile", 100), ("calls", 100_000)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--threads", type=int, default=6)
    given = parser.parse_args()
    wrong = [*tenths("optimize", given.optimize, given.threads, lambda k: egshape.optimize(model(k)))]
    wrong += tenths("compile", given.compile, given.threads, lambda k: egshape.compile(model(k)))
    graph, local = model(0), threading.local()
    fn, width = egshape.compile(graph), graph.inputs[0].type.dims[1].const or 0

    def call(k: int) -> object:
        if not hasattr(local, "inputs"):
            local.inputs = [np.ones((n, width), np.float32) for n in range(65)]
        return fn(local.inputs[k * 7919 % 65])

    wrong += tenths("calls", given.calls, given.threads, call)
    print(*wrong, sep="\n", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
