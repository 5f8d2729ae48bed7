"""What versions are worth, and what choosing one costs: the least of alternating runs in one process.

    python benchmarks/versions.py [ROUNDS]

Workloads where more is known of sizes than in general, each at the sizes of its guard, called with and without
versions, and whether ``versions=K`` would take the version; then sizes that no guard takes, where versions only cost;
then beside a 2-layer encoder the choice alone, the checks at entry, and a call that these refuse."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import egshape
from egshape.versions import Timed

ROUNDS = 201
SECONDS = 0.002
"""How long a run lasts at least: calls are repeated until it does."""
ENCODER = Path(__file__).parents[1] / "examples/encoder.mlir"


@dataclass(frozen=True)
class Workload:
    """A program, a guard, shapes of inputs that it takes, and others that it does not take."""

    name: str
    text: str
    guard: str
    inside: tuple[tuple[int, ...], ...]
    outside: tuple[tuple[int, ...], ...]


_ROWS = """func.func @main(%x: tensor<?x?xf32>) -> tensor<?xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.multiply %x, %x : tensor<?x?xf32>
  %s = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
  return %s : tensor<?xf32>
}"""
_BATCH = """func.func @main(%x: tensor<?x512xf32>, %w: tensor<512x512xf32>) -> tensor<?x512xf32> {
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x512xf32>, tensor<512x512xf32>) -> tensor<?x512xf32>
  return %p : tensor<?x512xf32>
}"""
_COLUMN = """func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %p : tensor<?x?xf32>
}"""
_IMAGES = """func.func @main(%x: tensor<?x?x?x?xf32>, %m: tensor<?xf32>, %s: tensor<?xf32>) -> tensor<?x?x?x?xf32> {
  %0 = chlo.broadcast_subtract %x, %m : (tensor<?x?x?x?xf32>, tensor<?xf32>) -> tensor<?x?x?x?xf32>
  %1 = chlo.broadcast_divide %0, %s : (tensor<?x?x?x?xf32>, tensor<?xf32>) -> tensor<?x?x?x?xf32>
  return %1 : tensor<?x?x?x?xf32>
}"""
_BROADCAST = """func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = chlo.broadcast_add %x, %y : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}"""
WORKLOADS = (
    Workload("small rows", _ROWS, "arg0.1 == 4", ((20_000, 4),), ((20_000, 5),)),
    Workload(
        "images of 3 channels, channels last, normalized",
        _IMAGES,
        "arg0.3 == 3; arg1.0 == 3; arg2.0 == 3",
        ((4, 64, 64, 3), (3,), (3,)),
        ((4, 64, 64, 4), (4,), (4,)),
    ),
    Workload(
        "points of 3 coordinates to one plane",
        _COLUMN,
        "arg0.1 == 3; arg1.0 == 3; arg1.1 == 1",
        ((20_000, 3), (3, 1)),
        ((20_000, 4), (4, 1)),
    ),
    Workload("unit batch", _BATCH, "arg0.0 == 1", ((1, 512), (512, 512)), ((2, 512), (512, 512))),
    Workload(
        "a broadcast that may expand",
        _BROADCAST,
        "arg0.0 == arg1.0; arg0.1 == arg1.1",
        ((20_000, 8), (20_000, 8)),
        ((20_000, 8), (1, 8)),
    ),
)


def ratio(one: Callable[[], Any], two: Callable[[], Any], rounds: int) -> tuple[float, float, float]:
    """The least seconds of a call of each, and what the first takes in units of the second. On a machine that does
    other work too the least says more than the median."""
    calls = max(int(SECONDS / max(_seconds(two, 3), 1e-7)), 1)
    pairs = [(_seconds(one, calls), _seconds(two, calls)) for _ in range(rounds)]
    a, b = (min(each) for each in zip(*pairs, strict=True))
    return a, b, a / b


def _seconds(call: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def _inputs(shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape).astype(np.float32) for shape in shapes]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {rounds} rounds")
    heading = ("workload", "guard", "one version, us", "versions, us", "times as fast", "taken", "elsewhere")
    print(f"| {' | '.join(heading)} |\n|{'---|' * len(heading)}")
    for each in WORKLOADS:
        print(f"| {' | '.join(_row(each, rounds))} |")
    _beside_an_encoder(rounds)


def _row(work: Workload, rounds: int) -> tuple[str, ...]:
    graph = egshape.load(work.text.encode(), "stablehlo")
    made: Any = egshape.compile(graph, "llvm", versions=[work.guard])
    general = made.versions[-1].function
    inside, outside = _inputs(work.inside), _inputs(work.outside)
    assert made.choose(inside) is not general and made.choose(outside) is general
    old, new, gain = ratio(lambda: general(*inside), lambda: made(*inside), rounds)
    _, _, beside = ratio(lambda: made(*outside), lambda: general(*outside), rounds)
    taken = Timed(old, new, old).pays
    times = (f"{old * 1e6:.1f}", f"{new * 1e6:.1f}", f"{gain:.2f}")
    return work.name, f"`{work.guard}`", *times, "yes" if taken else "no", f"{beside:.2f}"


def _beside_an_encoder(rounds: int) -> None:
    """How long choosing and checking take next to a call of a small 2-layer encoder, two copies of one layer."""
    made: Any = egshape.compile(ENCODER, "llvm", versions=["arg0.0 == 1", "arg0.1 % 8 == 0"])
    general = made.versions[-1].function
    # the first two inputs are f32[b, s, 32] and f32[b, s], the others are weights
    weights = [value.type.dims for value in egshape.load(ENCODER).inputs[2:]]
    shapes = [tuple(size.const or 1 for size in shape) for shape in weights]
    inputs, many = (_inputs(((b, s, 32), (b, s), *shapes)) for b, s in ((2, 33), (16, 500)))
    assert made.choose(inputs) is general
    choice, call, _ = ratio(lambda: made.choose(inputs), lambda: general(*inputs), rounds)
    layers = 2 * call
    print(f"choosing among 3 takes {choice * 1e9:.0f} ns, {choice / layers:.2%} of 2 encoder layers")
    count, checks = _checks(inputs, rounds)
    print(f"{count} checks at entry take {checks * 1e9:.0f} ns, {checks / layers:.2%} of 2 encoder layers")
    wrong = [many[0], many[1][:, :-1], *many[2:]]
    refused, whole, _ = ratio(lambda: _refused(general, wrong), lambda: general(*many), 3)
    print(f"a mask that is too short is refused in {refused * 1e6:.0f} us, where a call takes {whole * 1e6:.0f} us")


def _checks(inputs: list[np.ndarray], rounds: int) -> tuple[int, float]:
    """How many checks the encoder begins with, and their seconds: of a program that does nothing else, with and without
    them."""
    graph = egshape.optimize(ENCODER, ["arg0.1 % 3 == 0", "arg0.0 <= 64"]).graph
    checks = tuple(op for op in graph.body.ops if op.name == "check")
    alone, empty = (
        egshape.compile(
            replace(graph, body=replace(graph.body, ops=ops, results=graph.body.args[2:3]), output_names=("out",)),
            "llvm",
            optimize=False,
        )
        for ops in (checks, ())
    )
    _refused(alone, [inputs[0][:, :-1], *inputs[1:]])
    one, two, _ = ratio(lambda: alone(*inputs), lambda: empty(*inputs), rounds)
    return len(checks), one - two


def _refused(function: Any, inputs: list[np.ndarray]) -> None:
    try:
        function(*inputs)
    except egshape.EgshapeError:
        return
    raise AssertionError("inputs that do not fit were taken")


if __name__ == "__main__":
    main()
