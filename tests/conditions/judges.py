"""Who says at which sizes an op is rejected: the reference, what obligations imply, the compiled graph between red
zones, and XLA. All say the same, or the op, the sizes and who said what are named."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

import egshape
from egshape.adapters.native import compile_function
from egshape.errors import EgshapeError, UndefinedSize, Unsupported
from egshape.ir.graph import Graph, Value
from egshape.runtime import CompiledFunction
from tests.fuzz.differential import OURS, Outcome, run
from tests.lower.opcases import numbers
from tests.lower.oracle import Expected, fault

Array = np.ndarray
SIZES = (0, 1, 2, 3, 5)
TRIES = 300
EXTENSIONS = ("expects window to have positive value",)
"""What XLA rejects, and the reference gives a meaning: a window without elements folds to its init value."""
UNDEFINED = ("has no element to give",)
"""What the reference says where the specification leaves the result open: an element that the slice has not."""
LATE = ("if", "case", "while", "host_call")


@dataclass(frozen=True)
class Trial:
    """A graph's inputs, the sizes that they have, and what the reference makes of them."""

    sizes: Mapping[str, int]
    arrays: tuple[Array, ...]
    wanted: Outcome

    @property
    def accepted(self) -> bool:
        return self.wanted.error is None

    def __str__(self) -> str:
        data = {f"input {k}": array.tolist() for k, array in enumerate(self.arrays) if array.dtype.kind == "i"}
        return f"{dict(self.sizes)}{f' {data}' if data else ''}"


def _arrays(graph: Graph, sizes: Mapping[str, int], seed: int) -> tuple[Array, ...]:
    """Inputs of these sizes; integers named i* are small, some negative."""
    return tuple(_numbers(value, sizes, seed + k) for k, value in enumerate(graph.inputs))


def _numbers(value: Value, sizes: Mapping[str, int], seed: int) -> Array:
    shape = tuple(dim.evaluate(sizes) for dim in value.type.dims)
    small = value.name.startswith("i")
    found = numbers(value.type.dtype, shape, seed, small=small)
    return np.clip(found, -1, 3) if small and seed % 2 else found


def _trial(graph: Graph, sizes: Mapping[str, int], seed: int) -> Trial:
    arrays = _arrays(graph, sizes, seed)
    found = run(graph, arrays)
    assert found.error is None or found.error.code not in OURS, f"{found.error}\n{graph}"
    return Trial(dict(sizes), arrays, found)


def trials(graph: Graph, seed: int, accepted: int = 4, rejected: int = 8) -> list[Trial]:
    """Sizes at which the op runs, and sizes at which it does not that differ from these in as little as one size."""
    names = [each.name for each in graph.body.symbols if each.value in graph.inputs and each.axis is not None]
    rng = np.random.default_rng(seed)
    good, bad = dict[str, Trial](), dict[str, Trial]()

    def take(sizes: Mapping[str, int], seed: int) -> Trial:
        trial = _trial(graph, sizes, seed)
        kept, most = (good, accepted) if trial.accepted else (bad, 2 * rejected)
        if len(kept) < most:
            kept.setdefault(str(trial), trial)
        return trial

    for turn in range(TRIES):
        pool = SIZES if turn % 3 == 0 else rng.choice(SIZES, 1 + turn % 3)
        take({name: int(rng.choice(pool)) for name in names}, turn)
        if len(good) == accepted:
            break
    near = list(_near(list(good.values()), names))
    for k in rng.permutation(len(near))[: 4 * rejected]:
        trial = _trial(graph, near[int(k)], int(k))
        if not trial.accepted:
            bad = {str(trial): trial, **bad}
    return [*good.values(), *list(bad.values())[:rejected]]


def _near(found: Sequence[Trial], names: Sequence[str]) -> Iterator[dict[str, int]]:
    for trial in found:
        for name in names:
            yield from ({**trial.sizes, name: size} for size in SIZES if size != trial.sizes[name])


# -- judges ---------------------------------------------------------------------------------------------------------

Judge = Callable[[Trial], str]
"""What is wrong with a trial, "" if the judge says what the reference says."""


def judges(graph: Graph) -> dict[str, Judge]:
    """Who can judge the graph, by name."""
    found: dict[str, Judge] = {"obligations": _obligations(graph)}
    with mock.patch.dict(os.environ, {"EGSHAPE_REDZONES": "1"}), contextlib.suppress(Unsupported):
        found["plan"] = _plan(compile_function(graph))
    return found


def _said(trial: Trial, error: EgshapeError | None) -> str:
    if error is None:
        return "" if trial.accepted else f"accepts; the reference: {trial.wanted.error}"
    return f"rejects: {error}" if trial.accepted else ""


def _obligations(graph: Graph) -> Judge:
    """The checks that optimizing keeps of what the ops imply, and the optimized graph as a whole. What regions and
    calls imply is known only once they run: of these the graph alone is held against the reference."""
    try:
        result = egshape.optimize(graph, validate=False, explain=False)
    except EgshapeError as error:
        assert error.code == "violated", error
        why = error
        return lambda trial: _said(trial, why)
    assert result.report.status == "saturated", result.report.notes
    inside = any(op.name in LATE for op in graph.body.ops)
    relations = (
        [] if inside else [check.relation for check in result.optimized.outcome.checks if check.relation is not None]
    )

    def judge(trial: Trial) -> str:
        found = run(result.graph, trial.arrays)
        if found.error is not None and found.error.code in OURS:
            return f"the optimized graph is broken: {found.error}"
        sizes = _known(graph, trial)
        held = min(sizes.values(), default=0) >= 0 and all(_holds(relation, sizes) for relation in relations)
        if trial.accepted:
            return "" if held and found.error is None else f"rejects: {found.error or 'a fact that is false'}"
        if found.error is None:
            return f"the optimized graph accepts; the reference: {trial.wanted.error}"
        told = not inside and {name for relation in relations for name in relation.symbols()} <= set(sizes)
        return "" if not held or not told else f"no check is false; the reference: {trial.wanted.error}"

    return judge


def _known(graph: Graph, trial: Trial) -> dict[str, int]:
    """The sizes, with those that are elements of inputs."""
    data = {
        each.name: int(trial.arrays[graph.inputs.index(each.value)].reshape(-1)[each.element]) + each.offset
        for each in graph.body.symbols
        if each.element is not None and each.value in graph.inputs
    }
    return {**trial.sizes, **data}


def _holds(relation: egshape.facts.Relation, sizes: Mapping[str, int]) -> bool:
    if not relation.symbols() <= set(sizes):
        return True
    try:
        return bool(relation.holds(sizes))
    except UndefinedSize:
        return False


def _plan(function: CompiledFunction) -> Judge:
    def judge(trial: Trial) -> str:
        try:
            found = function(*trial.arrays)
        except EgshapeError as error:
            return str(error) if error.code in ("red-zone", "internal", "memory") else _said(trial, error)
        if not trial.accepted:
            return _said(trial, None)
        results = found if isinstance(found, tuple) else (found,)
        return fault(results, Expected(trial.wanted.results, None), 1e-5)

    return judge


def xla(graph: Graph) -> Judge:
    """XLA at these sizes; it says nothing where the program's sizes stay unknown to it, nor of ``UNDEFINED``."""
    from egshape.adapters.xla import run_stablehlo

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "op.mlir")
        egshape.save(graph, path)
        program = path.read_text()

    def judge(trial: Trial) -> str:
        if trial.wanted.error is not None and any(text in str(trial.wanted.error) for text in UNDEFINED):
            return ""
        try:
            run_stablehlo(program, trial.arrays)
        except Unsupported:
            return ""
        except EgshapeError as error:
            extended = trial.accepted and any(text in str(error) for text in EXTENSIONS)
            return "" if extended else _said(trial, error)
        return _said(trial, None)

    return judge


def writable(graph: Graph) -> bool:
    """Whether XLA takes the graph at all: a type states no negative size, and XLA's expander of select_and_scatter ends
    the process where there are no axes."""
    sizes = [size for op in graph.body.ops for value in op.results for size in value.type.dims]
    sizes += [size for op in graph.body.ops if op.name == "gather" for size in op.attrs["sizes"]]
    alone = any(op.name == "select_and_scatter" and not op.result.type.dims for op in graph.body.ops)
    return not alone and all(size.const is None or size.const >= 0 for size in sizes)


def disagreements(graph: Graph, seed: int, chosen: Mapping[str, Judge] | None = None) -> list[str]:
    """What the judges say that the reference does not, with the sizes."""
    found = trials(graph, seed)
    return [
        f"{name} at {trial}: {wrong}"
        for name, judge in (judges(graph) if chosen is None else chosen).items()
        for trial in found
        if (wrong := judge(trial))
    ]
