"""(b) Every model of onnx.backend.test that needs no download: optimized, saved, and held against the original in ONNX
Runtime (in ONNX's reference evaluator where the runtime does not have the op), with fixed and with symbolic sizes.

With symbolic sizes, inputs one longer on one axis are tried too: the result must reject what the original rejects."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import egshape
from benchmarks.onnx_backend import _loaded, _make_symbolic, cases
from benchmarks.robustness.agree import difference
from benchmarks.robustness.outcome import Row
from benchmarks.robustness.trial import Ended, Point, Trial

SERVED = 500
Feed = dict[str, Any]
Session = Callable[[Feed], list[Any]]
LONGER = 4
"""Axes that are made longer, one at a time."""


@lru_cache(maxsize=1)
def _cases() -> dict[str, Any]:
    return {case.name: case for case in cases()}


def programs() -> list[str]:
    """The names of the tests, each also with ``symbolic `` before it; neighbours are of different ops."""
    names, step = sorted(_cases()), 41
    mixed = [names[number] for first in range(step) for number in range(first, len(names), step)]
    return [each for name in mixed for each in (name, f"symbolic {name}")]


def run(program: str, say: Callable[[str], None]) -> Row:
    """Optimize, save, compare."""
    trial = Trial("onnx", program, say)
    try:
        with trial.stage("export"):
            model, feeds, forms = _model(program)
        with trial.stage("oracle"):
            before, kind = _oracle(model, feeds[0][1])
            if kind is None:
                raise Ended("no-oracle", before[0][1])
            start = _session(model.SerializeToString(), kind)
            ran = [_run(start, feed) for _, feed in feeds]
            loose = _is_random(start, feeds[0][1])
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "out.onnx"
            data = model.SerializeToString()
            trial.through(lambda: egshape.load(data, "onnx", forms), target, runs=not ran[0][1])
            with trial.stage("compare"):
                points = list(_points(target, kind, feeds, ran, loose))
    except Ended as ended:
        return trial.row(ended.outcome, ended.detail)
    return trial.verdict(points)


def _model(program: str) -> tuple[onnx.ModelProto, list[tuple[str, Feed]], dict[str, int | str | None]]:
    """The model, its inputs with what they are, and the forms of inputs that are no tensors."""
    symbolic = program.startswith("symbolic ")
    model, sets = _loaded(_cases()[program.removeprefix("symbolic ")])
    held = {each.name for each in model.graph.initializer}
    names = [each.name for each in model.graph.input if each.name not in held]
    if symbolic:
        model = onnx.ModelProto.FromString(model.SerializeToString())
        _make_symbolic(model)
    given = [dict(zip(names, inputs, strict=False)) for inputs, _ in sets]
    feeds = [(f"set {number}", feed) for number, feed in enumerate(given)]
    forms: dict[str, int | str | None] = {}
    for info in model.graph.input:
        if info.name in names and not info.type.HasField("tensor_type"):
            value = given[0].get(info.name)
            forms[info.name] = len(value) if isinstance(value, list) else None if value is None else "tensor"
    if symbolic and not forms:
        feeds += _longer(given[0])
    return model, feeds, forms


def _longer(feed: Feed) -> list[tuple[str, Feed]]:
    """The feed with one axis of one input one longer; its elements are repeated."""
    out = []
    for name, value in feed.items():
        for axis in range(np.ndim(value)):
            if len(out) == LONGER or np.size(value) == 0:
                return out
            places = np.arange(value.shape[axis] + 1) % value.shape[axis]
            out.append((f"{name}.{axis} one longer", {**feed, name: np.take(value, places, axis)}))
    return out


def _oracle(model: onnx.ModelProto, feed: Feed) -> tuple[list[tuple[Any, str]], str | None]:
    """What runs the model: "runtime", "reference", or None with what they said."""
    said = ("", "")
    for kind in ("runtime", "reference"):
        try:
            _session(model.SerializeToString(), kind)(feed)
        except Exception as error:  # neither has a common class of its errors
            said = ("", f"{kind}: {_first_line(error)}")
            continue
        return [said], kind
    return [said], None


def _session(model: bytes, kind: str) -> Session:
    if kind == "reference":
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(onnx.ModelProto.FromString(model))
        return lambda feed: list(evaluator.run(None, feed))
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda feed: list(session.run(None, {name: feed[name] for name in names if feed.get(name) is not None}))


def _run(session: Session, feed: Feed) -> tuple[list[np.ndarray[Any, Any]], str]:
    try:
        return _flat(session(feed)), ""
    except Exception as error:  # neither has a common class of its errors
        return [], _first_line(error)


def _flat(values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    out = []
    for value in values:
        out += _flat(value) if isinstance(value, list) else [] if value is None else [np.asarray(value)]
    return out


def _shapes(arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    return [np.zeros_like(array) for array in arrays]


def _is_random(session: Session, feed: Feed) -> bool:
    """Whether two runs differ: of such a model only the shapes are compared."""
    one, two = _run(session, feed), _run(session, feed)
    return difference(one[0], two[0]) != ""


def _points(target: Path, kind: str, feeds: Sequence[tuple[str, Feed]],
            ran: Sequence[tuple[list[np.ndarray[Any, Any]], str]], loose: bool) -> Iterator[Point]:
    try:
        session = _session(target.read_bytes(), kind)
    except Exception as error:  # neither has a common class of its errors
        yield Point("any sizes", "", f"the {kind} cannot load the result: {_first_line(error)}")
        return
    inputs = [each.name for each in onnx.load(target).graph.input]
    for (sizes, feed), (before, error) in zip(feeds, ran, strict=True):
        after, said = _run(session, _renamed(feed, inputs))
        found = difference(_shapes(before), _shapes(after)) if loose else difference(before, after)
        yield Point(sizes, error, said, "" if error or said else found)


def _renamed(feed: Mapping[str, Any], names: Sequence[str]) -> Feed:
    """Inputs that are no tensors are written as the tensors that they hold."""
    if all(name in feed for name in names):
        return dict(feed)
    return dict(zip(names, _flat(list(feed.values())), strict=False))


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
