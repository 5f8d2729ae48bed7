"""(e) The harnesses of primitives that the jax wheel ships for its own tests, batched by ``jax.vmap`` over an axis of
open size, as its tests of shape polymorphism do: exported, optimized, saved, compiled, and held against XLA.

Needs the package absl-py, which the harnesses import."""

from __future__ import annotations

import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import egshape
from benchmarks.robustness import xla_process
from benchmarks.robustness.agree import difference
from benchmarks.robustness.jax_corpus import Both
from benchmarks.robustness.outcome import Row
from benchmarks.robustness.trial import Ended, Point, Trial
from egshape.errors import EgshapeError

SERVED = 60
SIZES = (3, 1, 2)
MOST_OF_A_GROUP = 12
"""Harnesses of one primitive; scatter alone has 3,000."""


def programs() -> list[str]:
    """The harnesses by name, of each primitive some that lie far apart, one primitive after the other."""
    groups = defaultdict[str, list[str]](list)
    for name, harness in _harnesses().items():
        groups[harness.group_name].append(name)
    chosen = [_spread(names) for names in groups.values()]
    return [names[k] for k in range(MOST_OF_A_GROUP) for names in chosen if k < len(names)]


def _spread(names: list[str]) -> list[str]:
    step = max(1, len(names) // MOST_OF_A_GROUP)
    return names[::step][:MOST_OF_A_GROUP]


@cache
def _harnesses() -> dict[str, Any]:
    try:
        from jax._src.internal_test_util.test_harnesses import all_harnesses
    except ImportError:
        return {}
    wide = (np.float64, np.int64, np.uint64, np.complex128)
    return {
        each.fullname: each
        for each in all_harnesses
        if each.dtype not in wide and each.params.get("is_stable", True)  # else the order of equal keys is open
    }


def run(program: str, say: Callable[[str], None]) -> Row:
    """Export, optimize, save, compile, compare."""
    trial = Trial("harness", program, say)
    try:
        with trial.stage("export"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exported, cases = _exported(_harnesses()[program])
            except Exception as error:
                raise Ended("no-oracle", f"JAX exports no such batch: {type(error).__name__}: {error}"[:200]) from error
        text = exported.mlir_module()
        with trial.stage("oracle"):
            before = [xla_process.run(text, arrays) for _, arrays in cases]
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "out.mlir"
            graph, optimized = trial.through(
                lambda: egshape.load(exported), target, runs=any(not error for _, error in before)
            )
            written = target.read_text()
        with trial.stage("compare"):
            both = Both(text, written, graph)
            points = [both.at(*case, one) for case, one in zip(cases, before, strict=True)]
        if not trial.opaque:
            with trial.ours("compile", runs=False):
                fn = egshape.compile(optimized)
            with trial.stage("call"):
                points += [_called(fn, *case, one) for case, one in zip(cases, before, strict=True)]
    except Ended as ended:
        return trial.row(ended.outcome, ended.detail)
    return trial.verdict([point for point in points if point is not None])


def _called(fn: Any, sizes: str, arrays: list[Any], before: xla_process.Ran) -> Point | None:
    """What compiled code does at these sizes, beside what XLA did."""
    if before[1]:
        return None
    try:
        found = fn(*arrays)
    except EgshapeError as error:
        return Point(f"{sizes}, compiled", "", f"{error.code}: {error}".splitlines()[0])
    found = found if isinstance(found, tuple) else (found,)
    return Point(f"{sizes}, compiled", "", "", difference(before[0], [np.asarray(each) for each in found]))


def _exported(harness: Any) -> tuple[Any, list[tuple[str, list[Any]]]]:
    """The batched harness, and its inputs at some sizes. Raises whatever tracing raises."""
    import jax
    from jax import export

    rng = np.random.RandomState(0)
    rows = [list(map(np.asarray, harness.dyn_args_maker(rng))) for _ in range(max(SIZES))]
    scope = export.SymbolicScope()
    specs = [
        jax.ShapeDtypeStruct(export.symbolic_shape(f"b, {', '.join(map(str, each.shape))}", scope=scope), each.dtype)
        for each in rows[0]
    ]
    exported = export.export(jax.jit(jax.vmap(harness.dyn_fun)))(*specs)
    kept = exported.module_kept_var_idx
    cases = [(f"b = {size}", [np.stack([row[place] for row in rows[:size]]) for place in kept]) for size in SIZES]
    return exported, cases
