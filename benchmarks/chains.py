"""How optimize grows with chains of one kind of op: CPU seconds of both processes, and the largest e-graph of a run.

python -m benchmarks.chains [KIND ...]     the table; --lengths 25,50,100 for other lengths"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Mapping
from itertools import permutations
from types import MappingProxyType

import numpy as np
import psutil

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.limits import Limits
from egshape.pipeline import run_stages
from egshape.trace import Tracer

LENGTHS = (25, 50, 100, 200, 400)
A, B, C = symbol("a"), symbol("b"), symbol("c")
SPLIT = 720_720


def _input(b: BlockBuilder, *names: str) -> Value:
    return b.arg("x", "f32", [None] * len(names), list(names))


def _size(b: BlockBuilder, x: Value, axis: int) -> Value:
    return b.one("get_dimension_size", (x,), {"dim": axis})


def _number(b: BlockBuilder, number: int) -> Value:
    return b.one("constant", (), {"value": np.array(number, np.int32)})


def reshapes(b: BlockBuilder, n: int) -> Value:
    """To n different shapes of four axes."""
    x = b.arg("x", "f32", [None, None, SPLIT], ["a", "b", None])
    parts = [each for each in range(2, SPLIT) if SPLIT % each == 0]
    shapes = [order for each in parts for order in permutations((A, B, const(each), const(SPLIT // each)))]
    for shape in random.Random(0).sample(shapes, n):
        x = b.one("reshape", (x,), {"shape": shape})
    return x


def transposes(b: BlockBuilder, n: int) -> Value:
    """By permutations of four axes."""
    x, rng = b.arg("x", "f32", [None, None, None, 8], ["a", "b", "c", None]), random.Random(0)
    for _ in range(n):
        x = b.one("transpose", (x,), {"permutation": tuple(rng.sample(range(4), 4))})
    return x


def broadcasts(b: BlockBuilder, n: int) -> Value:
    """Each of the first row of the one before, to one more row."""
    x = _input(b, "a", "b")
    for step in range(n // 2):
        row = b.one("slice", (x,), {"starts": (const(0),) * 2, "limits": (const(1), B), "strides": (const(1),) * 2})
        x = b.one("broadcast_in_dim", (row,), {"dims": (0, 1), "shape": (const(step + 2), B)})
    return x


def slices(b: BlockBuilder, n: int) -> Value:
    """Each without the first and the last element of the one before."""
    x = b.arg("x", "f32", [2 * n + 1])
    for step in range(n):
        x = b.one("slice", (x,), {"starts": (const(1),), "limits": (const(2 * (n - step)),), "strides": (const(1),)})
    return x


def concatenations(b: BlockBuilder, n: int) -> Value:
    """Each with one more part."""
    x = _input(b, "a", "b")
    y = x
    for _ in range(n):
        y = b.one("concatenate", (y, x), {"dim": 0})
    return y


def additions(b: BlockBuilder, n: int) -> Value:
    """Of sizes, one axis after the other; the last sum is a size."""
    x = _input(b, "a", "b", "c")
    size = _size(b, x, 0)
    for step in range(n):
        size = b.one("add", (size, _size(b, x, step % 3)))
    return _filled(b, size)


def divisions(b: BlockBuilder, n: int) -> Value:
    """Of sizes by 2, plus another one."""
    x = _input(b, "a", "b")
    size = _size(b, x, 0)
    for _ in range(n // 2):
        size = b.one("add", (b.one("divide", (size, _number(b, 2))), _size(b, x, 1)))
    return _filled(b, size)


def selects(b: BlockBuilder, n: int) -> Value:
    """Between the value before and another one, where that is greater."""
    x, y = _input(b, "a", "b"), b.arg("y", "f32", [A, B])
    for _ in range(n // 2):
        mask = b.one("compare", (x, y), {"direction": "GT", "kind": "FLOAT"})
        x = b.one("select", (mask, x, y))
    return x


def size_selects(b: BlockBuilder, n: int) -> Value:
    """The greater of two sizes, again and again, as a select."""
    x = _input(b, "a", "b")
    size, other = _size(b, x, 0), _size(b, x, 1)
    for step in range(n // 3):
        more = b.one("add", (other, _number(b, step)))
        mask = b.one("compare", (size, more), {"direction": "GT", "kind": "SIGNED"})
        size = b.one("select", (mask, size, more))
    return _filled(b, size)


def _filled(b: BlockBuilder, size: Value) -> Value:
    """Zeros, as many as a size says."""
    zero = b.one("constant", (), {"value": np.zeros((), np.float32)})
    shape = b.one("reshape", (size,), {"shape": (const(1),)})
    return b.one("broadcast_in_dim", (zero, shape), {"dims": ()})


KINDS: Mapping[str, Callable[[BlockBuilder, int], Value]] = MappingProxyType(
    {
        each.__name__: each
        for each in (
            *(reshapes, transposes, broadcasts, slices, concatenations),
            *(additions, divisions, selects, size_selects),
        )
    }
)


def chain(kind: str, n: int) -> Graph:
    """A program of about n ops of one kind."""
    b = BlockBuilder()
    result = KINDS[kind](b, n)
    return Graph(f"{kind}_{n}", b.finish([result]), ("out0",))


def cpu_seconds() -> float:
    """Of this process, and of those that it started and that still run."""
    children = psutil.Process().children(recursive=True)
    return sum(os.times()[:4]) + sum(sum(each.cpu_times()[:2]) for each in children)


def measured(kind: str, n: int) -> tuple[float, int, int, str]:
    """CPU seconds of a second run, e-nodes, ops of the result, status."""
    graph, limits = chain(kind, n), Limits(seconds=60)
    before = cpu_seconds()
    found = run_stages(graph, graph.facts, (), limits, Tracer())
    seconds = cpu_seconds() - before
    nodes = max([found.outcome.nodes, *(step.nodes for step in found.outcome.steps)])
    return seconds, nodes, len(found.graph.ops), found.outcome.status


def main() -> int:
    """Print a row a kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], default=[])
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    options = parser.parse_args()
    lengths = [int(each) for each in options.lengths.split(",")]
    print("| chain of | " + " | ".join(map(str, lengths)) + " |")
    print("|---|" + "---|" * len(lengths))
    measured("slices", 4)
    for kind in options.kinds or KINDS:
        cells = []
        for n in lengths:
            seconds, nodes, _, status = measured(kind, n)
            cells.append(f"{seconds:.2f} s, {nodes:,}" + ("" if status == "saturated" else f" ({status})"))
        print(f"| {kind.replace('_', ' ')} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
