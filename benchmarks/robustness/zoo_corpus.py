"""(d) Each model of the zoo with five random facts that are true at some of the sizes that it admits: optimized, saved,
and held against the original in ONNX Runtime. At sizes that the fact excludes the result may reject, or be right.

Needs ``python -m benchmarks.zoo.fetch``; what is not there is left out."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

import egshape
from benchmarks.robustness.agree import difference
from benchmarks.robustness.outcome import Row
from benchmarks.robustness.trial import Ended, Point, Trial
from benchmarks.zoo import fetch
from benchmarks.zoo.inputs import NoSizes, Plan, Probe, session
from benchmarks.zoo.plans import plan_of

SERVED = 5
FACTS = 5
TOLERANCE = 1e-4
"""Relative to the largest element: networks of many layers, in which kernels are fused differently."""

_NAME = re.compile(r"[A-Za-z_]\w*(\.\d+)?")


def programs() -> list[str]:
    """Model and number of the fact; first one fact of every model."""
    names = [model.name for model, _ in fetch.models()]
    return [f"{name} #{number}" for number in range(FACTS) for name in names]


def run(program: str, say: Callable[[str], None]) -> Row:
    """Draw a fact, optimize, save, compare."""
    trial = Trial("zoo", program, say)
    name, _, number = program.rpartition(" #")
    path = next(path for model, path in fetch.models() if model.name == name)
    try:
        with trial.stage("oracle"):
            try:
                plan = plan_of(path, fetch.cache_folder())
            except NoSizes as error:
                raise Ended("no-oracle", str(error)[:300]) from error
            fact, admitted = draw(plan, random.Random(program))
            before = _outputs(path, plan)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "out.onnx"
            trial.through(lambda: egshape.load(path), target, runs=True, assume=[fact] if fact else [])
            with trial.stage("compare"):
                points = list(_points(target, plan, before, admitted))
    except Ended as ended:
        return trial.row(ended.outcome, f"{ended.detail} [fact {number}: {fact_of(program, path)}]"[:400])
    row = trial.verdict(points)
    return trial.row(row.outcome, f"{row.detail} [fact {number}: {fact}]".strip(), points)


def fact_of(program: str, path: Path) -> str:
    """The fact that a program assumes, as text."""
    try:
        return draw(plan_of(path, fetch.cache_folder()), random.Random(program))[0]
    except NoSizes:
        return ""


def draw(plan: Plan, rng: random.Random) -> tuple[str, tuple[bool, ...]]:
    """A fact of one of the kinds people state, and at which of the plan's points it holds; "" without symbols."""
    every = (True,) * len(plan.probes)
    symbols = [name for name in plan.probes[0].sizes if _NAME.fullmatch(name)]
    if not symbols:
        return "", every
    chosen = rng.sample(range(len(plan.probes)), rng.randint(1, len(plan.probes)))
    facts = list(_true(symbols, [plan.probes[place] for place in chosen]))
    text, holds = rng.choice(facts)
    return text, tuple(holds(probe) for probe in plan.probes)


Holds = Callable[[Probe], bool]


def _true(symbols: Sequence[str], probes: Sequence[Probe]) -> Iterator[tuple[str, Holds]]:
    """Facts that hold at all the given points: ranges, lists, divisibility, pins, equations, orders."""
    for name in symbols:
        sizes = sorted({probe.sizes[name] for probe in probes})
        low, high, divisor = sizes[0], sizes[-1], int(np.gcd.reduce(sizes))
        yield f"{name} in [{low}, {high}]", lambda p, n=name, a=low, b=high: a <= p.sizes[n] <= b
        yield f"{name} >= {low}", lambda p, n=name, a=low: p.sizes[n] >= a
        if len(sizes) == 1:
            yield f"{name} == {low}", lambda p, n=name, a=low: p.sizes[n] == a
        else:
            listed = ", ".join(map(str, sizes))
            yield f"{name} in {{{listed}}}", lambda p, n=name, a=tuple(sizes): p.sizes[n] in a
        if divisor > 1:
            yield f"{name} % {divisor} == 0", lambda p, n=name, d=divisor: p.sizes[n] % d == 0
    for one, two in combinations(symbols, 2):
        if all(probe.sizes[one] == probe.sizes[two] for probe in probes):
            yield f"{one} == {two}", lambda p, a=one, b=two: p.sizes[a] == p.sizes[b]
        for lesser, greater in ((one, two), (two, one)):
            if all(probe.sizes[lesser] <= probe.sizes[greater] for probe in probes):
                yield f"{lesser} <= {greater}", lambda p, a=lesser, b=greater: p.sizes[a] <= p.sizes[b]
        sums = {probe.sizes[one] + probe.sizes[two] for probe in probes}
        if len(sums) == 1:
            total = sums.pop()
            yield f"{one} + {two} == {total}", lambda p, a=one, b=two, t=total: p.sizes[a] + p.sizes[b] == t


Ran = tuple[list[np.ndarray], str]


def _outputs(path: Path, plan: Plan) -> list[Ran]:
    run = session(str(path))
    out: list[Ran] = []
    for probe in plan.probes:
        try:
            out.append(([np.asarray(each) for each in run.run(None, plan.feed(probe))], ""))
        except Exception as error:  # the runtime's errors have no common class
            out.append(([], str(error).strip().splitlines()[0][:200]))
    return out


def _points(target: Path, plan: Plan, before: Sequence[Ran], admitted: Sequence[bool]) -> Iterator[Point]:
    try:
        after = _outputs(target, plan)
    except Exception as error:  # the runtime's errors have no common class
        yield Point("any sizes", "", f"ONNX Runtime cannot load the result: {str(error).splitlines()[0][:200]}")
        return
    for probe, one, two, holds in zip(plan.probes, before, after, admitted, strict=True):
        if one[1]:
            continue
        found = "" if two[1] else difference(one[0], two[0], TOLERANCE)
        if holds:
            yield Point(str(probe), "", two[1], found)
        elif two[1] or found:
            # It must say so; results that differ without an error are a check that was lost.
            yield Point(f"{probe}, which the fact excludes", "the fact excludes these sizes", two[1])
