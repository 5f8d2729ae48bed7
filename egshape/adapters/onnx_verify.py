"""Two models side by side in a runtime, by default ONNX Runtime: whether the one that was written computes what the
first does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from egshape.errors import CheckFailed, EgshapeError, MissingDependency, UndefinedSize
from egshape.facts import Facts
from egshape.frontends.onnx.rounds import SCAN, with_loops
from egshape.hints import install
from egshape.ir.graph import Graph, Op
from egshape.ir.interpret import interpret
from egshape.ir.points import Point, admitted_points, points_of
from egshape.ops.host import FRAGILE, HOST_CALLS
from egshape.validate import inputs_at, sizes_at, violated_fact

TOLERANCE = 1e-4
"""Relative to the largest element: another order of sums, and fused kernels, round otherwise."""

SCALES = (16, 37, 64, 100)
"""Small sizes times these are tried too: image and audio models ask for more than a few elements."""

_TRIED = 60

MAX_ELEMENTS = 2**24
"""No input is made larger."""


@dataclass(frozen=True)
class Compared:
    """What a comparison found: ``difference`` at the first sizes that differ, else "". ``sizes``: where both ran.
    ``rejected``: sizes that a fact excludes, and that the written model rejected. ``skipped``: why fewer sizes were
    compared than wanted."""

    difference: str = ""
    sizes: tuple[Mapping[str, int], ...] = field(default=())
    rejected: tuple[Mapping[str, int], ...] = field(default=())
    skipped: str = ""


@dataclass(frozen=True)
class Runtime:
    """What runs models: its name, and what opens a model, as an ``onnxruntime.InferenceSession`` is used."""

    name: str
    session: Callable[[str | Path | bytes], Any]


def available() -> bool:
    """Whether ONNX Runtime is installed."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return False
    return True


def compare_models(
    original: str | Path | bytes,
    written: str | Path | bytes,
    graph: Graph,
    facts: Facts,
    *,
    wanted: int = 4,
    seconds: float = 20.0,
    excluding: bool = False,
    runtime: Runtime | None = None,
) -> Compared:
    """Run both models at up to ``wanted`` sizes that the original and the facts admit. ``graph`` is the original as it
    was loaded, ``facts`` are in its symbols. With ``excluding`` the written model must also reject sizes that the facts
    exclude, a few of which are tried. ``runtime``: what runs them, by default ONNX Runtime.

    Raises MissingDependency without the runtime."""
    runtime = runtime or ONNX_RUNTIME
    try:
        before = runtime.session(original)
    except MissingDependency:
        raise
    except Exception as error:  # the runtime's errors have no common class
        return Compared(skipped=f"{runtime.name} cannot load the original: {error}")
    try:
        after = runtime.session(written)
    except Exception as error:  # the runtime's errors have no common class
        return Compared(f"{runtime.name} cannot load the model that was written: {error}")
    deadline = time.monotonic() + seconds
    found = _admitted(before, after, graph, facts, wanted, deadline, seconds)
    if found.difference or not excluding:
        return found
    return _excluded(after, graph, facts, wanted, deadline, found)


def _admitted(
    before: Any, after: Any, graph: Graph, facts: Facts, wanted: int, deadline: float, seconds: float
) -> Compared:
    """Both models at sizes that the facts admit."""
    ran: list[Mapping[str, int]] = []
    for number, (sizes, feed) in enumerate(_feeds(graph, facts)):
        if time.monotonic() > deadline:
            return Compared("", tuple(ran), skipped=f"stopped after {seconds:g} s")
        arrays, found = feed, _outputs(before, feed)
        if isinstance(found, str):  # an index may be beyond its table
            arrays = {name: _smaller(array) for name, array in feed.items()}
            found = _outputs(before, arrays)
        if isinstance(found, str):
            continue
        other = _outputs(after, arrays)
        if isinstance(other, str):
            difference = f"at {_place(sizes)} the written model fails: {other}"
        else:
            difference = _difference([each.name for each in before.get_outputs()], found, other)
            difference = difference and f"at {_place(sizes)}: {difference}"
        if difference and (0 in sizes.values() or isinstance(other, str)) and _rejected(graph, arrays):
            continue  # ONNX Runtime joins what does not fit where a part is empty, and leaves the rest as it was
        if difference:
            return Compared(difference, tuple(ran))
        ran.append(sizes)
        if len(ran) == wanted or (number and not sizes):
            break
    return Compared(
        "", tuple(ran), skipped="" if len(ran) >= min(wanted, 1) else "no sizes were found at which the model runs"
    )


def _excluded(after: Any, graph: Graph, facts: Facts, wanted: int, deadline: float, found: Compared) -> Compared:
    """The written model at sizes that a fact excludes, a few for each fact."""
    rejected: list[Mapping[str, int]] = []
    tried: Counter[str] = Counter()
    for number, point in enumerate(_points(graph, facts)):
        fact = violated_fact(facts, point.env)
        if fact is None or tried[fact.text] >= wanted:
            continue
        if time.monotonic() > deadline:
            break
        arrays = _arrays(graph, point, number)
        if arrays is None:
            continue
        tried[fact.text] += 1
        if not isinstance(_outputs(after, arrays), str):
            return Compared(
                f"at {_place(point.sizes)} the fact {fact.text} does not hold, but the written model runs",
                found.sizes,
                tuple(rejected),
            )
        rejected.append(point.sizes)
    return Compared("", found.sizes, tuple(rejected), found.skipped)


def _place(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items()) or "fixed sizes"


def _rejected(graph: Graph, arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the model itself does not admit these inputs."""
    try:
        with np.errstate(all="ignore"):
            interpret(graph, [arrays[value.name] for value in graph.inputs])
    except CheckFailed:
        return True
    except EgshapeError:
        return False
    return False


def _session(model: str | Path | bytes) -> Any:
    try:
        import onnxruntime as ort
    except ImportError:
        raise MissingDependency("comparing ONNX models needs onnxruntime", hint=install("onnx")) from None
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return ort.InferenceSession(
        model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"]
    )


ONNX_RUNTIME = Runtime("ONNX Runtime", _session)


def _points(graph: Graph, facts: Facts) -> list[Point]:
    """Points with plain data, without those at which a kernel of ONNX Runtime would end the process."""
    points = [point for point in islice(points_of(graph, graph, facts), _TRIED) if point.data == "plain"]
    if any(_fragile(op) for op in with_loops(graph, scans=True).body.walk()):
        points = [point for point in points if 0 not in point.sizes.values()]
    return points


def _fragile(op: Op) -> bool:
    """Whether a kernel of ONNX Runtime ends the process at a batch of 0, as Scan does where nothing is scanned."""
    title = op.attrs["target"] if op.name in HOST_CALLS else op.attrs["name"] if op.name == "composite" else ""
    return op.name == SCAN or title.rpartition(".")[2] in FRAGILE


def _feeds(graph: Graph, facts: Facts) -> Iterator[tuple[Mapping[str, int], dict[str, np.ndarray]]]:
    """Sizes that the facts admit, with arrays of them by name, small sizes first."""
    small = [point for point in _points(graph, facts) if violated_fact(facts, point.env) is None]
    large = (
        point for scale in SCALES for point in admitted_points(graph, facts, scale) if 0 not in point.sizes.values()
    )
    seen: set[tuple[int, ...]] = set()
    for number, point in enumerate(chain(small, large)):
        key = tuple(point.sizes.values())
        arrays = None if key in seen else _arrays(graph, point, number)
        seen.add(key)
        if arrays is not None and violated_fact(facts, sizes_at(graph, point, list(arrays.values()))) is None:
            yield point.sizes, arrays


def _arrays(graph: Graph, point: Point, number: int) -> dict[str, np.ndarray] | None:
    """Arrays by input name, None where a size cannot be or is too large."""
    try:
        counts = [prod(size.evaluate(point.sizes) for size in value.type.shape or ()) for value in graph.inputs]
    except UndefinedSize:
        return None
    arrays = inputs_at(graph, point, number) if max(counts, default=0) <= MAX_ELEMENTS else None
    return None if arrays is None else dict(zip((value.name for value in graph.inputs), arrays, strict=True))


def _smaller(array: np.ndarray) -> np.ndarray:
    return array.clip(0, 1) if array.dtype.kind in "iu" else array


def _outputs(session: Any, arrays: Mapping[str, np.ndarray]) -> list[Any] | str:
    wanted = {each.name for each in session.get_inputs()}
    try:
        return list(session.run(None, {name: array for name, array in arrays.items() if name in wanted}))
    except Exception as error:  # the runtime's errors have no common class
        return next(iter(str(error).splitlines()), type(error).__name__)


def _difference(names: Sequence[str], one: Sequence[Any], two: Sequence[Any]) -> str:
    for name, before, after in zip(names, one, two, strict=True):
        if not isinstance(before, np.ndarray) or not isinstance(after, np.ndarray):
            continue
        if before.dtype != after.dtype or before.shape != after.shape:
            return f"output {name} is {after.dtype}{list(after.shape)}, not {before.dtype}{list(before.shape)}"
        if before.dtype.kind not in "fc":
            if not np.array_equal(before, after):
                return f"output {name} differs"
            continue
        finite = np.isfinite(before)
        scale = float(np.abs(before[finite]).max(initial=0.0)) + 1e-6
        if not np.array_equal(np.isnan(before), np.isnan(after)) or not np.allclose(
            before, after, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True
        ):
            return f"output {name} differs by up to {float(np.nanmax(np.abs(before - after))):.3g}"
    return ""
