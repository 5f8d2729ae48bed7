"""(b) Every model of onnx.backend.test that needs no download: optimized, saved, and held against the original in ONNX
Runtime (in ONNX's reference evaluator where the runtime does not have the op), with fixed and with symbolic sizes.

With symbolic sizes, inputs one longer on one axis are tried too: the result must reject what the original rejects."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from egshape.frontends.onnx.convert import OLDEST

SERVED = 500
Feed = dict[str, Any]
Session = Callable[[Feed], list[Any]]
Arrays = list[np.ndarray[Any, Any]]
Ran = tuple[Arrays, str]
LONGER = 4
"""Axes that are made longer, one at a time."""
AGAIN = 4
"""So often the original runs once more, to see whether it is random: few coins fall alike now and then."""


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
            test = _test(program)
        with trial.stage("oracle"):
            truth = _truth(test)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "out.onnx"
            trial.through(lambda: egshape.load(test.model, "onnx", test.forms), target, runs=True)
            with trial.stage("compare"):
                points = list(_points(target, truth, test.tolerance))
    except Ended as ended:
        return trial.row(ended.outcome, ended.detail)
    return trial.verdict(points)


@dataclass(frozen=True)
class _Test:
    """A test of the suite: its model as bytes, feeds with what they are, the outputs of the first few that the suite
    states, inputs with an axis one longer, and the forms of inputs that are no tensors."""

    model: bytes
    feeds: Sequence[tuple[str, Feed]]
    expected: Sequence[Arrays]
    longer: Sequence[tuple[str, Feed]]
    forms: Mapping[str, int | str | None]
    tolerance: float


def _test(program: str) -> _Test:
    case = _cases()[program.removeprefix("symbolic ")]
    model, sets = _loaded(case)
    held = {each.name for each in model.graph.initializer}
    names = [each.name for each in model.graph.input if each.name not in held]
    if program.startswith("symbolic "):
        model = onnx.ModelProto.FromString(model.SerializeToString())
        _make_symbolic(model)
    given = [dict(zip(names, inputs, strict=False)) for inputs, _ in sets]
    forms: dict[str, int | str | None] = {}
    for info in model.graph.input:
        if info.name in names and not info.type.HasField("tensor_type"):
            value = given[0].get(info.name)
            forms[info.name] = len(value) if isinstance(value, list) else None if value is None else "tensor"
    longer = _longer(given[0]) if program.startswith("symbolic ") and not forms else []
    return _Test(
        model.SerializeToString(),
        [(f"set {number}", feed) for number, feed in enumerate(given)],
        [_flat(outputs) for _, outputs in sets],
        longer,
        forms,
        float(case.rtol),
    )


@dataclass(frozen=True)
class _Truth:
    """What the result must give at each feed: one of the outcomes. ``kind``: what runs the original, "" if nothing
    does. ``loose``: it is random, so that only shapes count."""

    kind: str
    feeds: Sequence[tuple[str, Feed]]
    outcomes: Sequence[Sequence[Ran]]
    loose: bool = False


def _truth(test: _Test) -> _Truth:
    """The suite's own outputs, and what the original gives; where these differ (the reference evaluator gets some old
    ops wrong, a seed gives other numbers elsewhere) each is as good, and no axis is made longer."""
    feed, stated = test.feeds[0][1], [(outputs, "") for outputs in test.expected]
    session, kind = _first(test.model, ("runtime", "reference"), feed)
    if session is None:
        return _Truth("", test.feeds, [[each] for each in stated])
    own = [_run(session, feed) for _, feed in test.feeds]
    if any(difference(own[0][0], _run(session, feed)[0]) for _ in range(AGAIN)):
        return _Truth(kind, test.feeds, [[each] for each in stated], True)
    if difference(own[0][0], test.expected[0], test.tolerance):
        return _Truth(kind, test.feeds, list(zip(stated, own, strict=True)))
    ran = [(sizes, feed, _run(session, feed)) for sizes, feed in test.longer]
    longer = [each for each in ran if _says(test, kind, each[1], each[2])]
    return _Truth(
        kind,
        [*test.feeds, *((sizes, feed) for sizes, feed, _ in longer)],
        [*([each] for each in stated), *([outcome] for _, _, outcome in longer)],
    )


def _says(test: _Test, kind: str, feed: Feed, outcome: Ran) -> bool:
    """Whether what the original gave says what the model means: the reference evaluator broadcasts in opsets before 7,
    which reject that, and the runtime takes sizes for which it leaves elements of its result unwritten."""
    if kind == "reference":
        return _opset(test.model) >= OLDEST
    reference, _ = (None, "") if outcome[1] else _first(test.model, ("reference",), test.feeds[0][1])
    return reference is None or not _run(reference, feed)[1]


def _opset(model: bytes) -> int:
    imports = onnx.ModelProto.FromString(model).opset_import
    return int(next((each.version for each in imports if not each.domain), OLDEST))


def _first(model: bytes, kinds: Sequence[str], feed: Feed) -> tuple[Session | None, str]:
    """The first that runs the model, else None and what was said last."""
    said = ""
    for kind in kinds:
        try:
            session = _session(model, kind)
            session(feed)
        except Exception as error:  # neither has a common class of its errors
            said = f"{kind}: {_first_line(error)}"
            continue
        return session, kind
    return None, said


def _longer(feed: Feed) -> list[tuple[str, Feed]]:
    """The feed with one axis of one input one longer; its elements are repeated. Integers are left as they are: they
    may be shapes."""
    out = []
    for name, value in feed.items():
        if np.asarray(value).dtype.kind not in "fc":
            continue
        for axis in range(np.ndim(value)):
            if len(out) == LONGER or np.size(value) == 0:
                return out
            places = np.arange(value.shape[axis] + 1) % value.shape[axis]
            out.append((f"{name}.{axis} one longer", {**feed, name: np.take(value, places, axis)}))
    return out


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


def _run(session: Session, feed: Feed) -> Ran:
    try:
        return _flat(session(feed)), ""
    except Exception as error:  # neither has a common class of its errors
        return [], _first_line(error)


def _flat(values: Sequence[Any]) -> Arrays:
    out = []
    for value in values:
        out += _flat(value) if isinstance(value, list) else [] if value is None else [np.asarray(value)]
    return out


def _shapes(arrays: Arrays) -> Arrays:
    return [np.zeros_like(array) for array in arrays]


def _points(target: Path, truth: _Truth, tolerance: float) -> Iterator[Point]:
    """Where the runtime runs the original it must run the result."""
    inputs = [each.name for each in onnx.load(target).graph.input]
    kinds = ("runtime",) if truth.kind == "runtime" else ("runtime", "reference")
    session, said = _first(target.read_bytes(), kinds, _renamed(truth.feeds[0][1], inputs))
    if session is None and not truth.kind:
        raise Ended("no-oracle", f"neither version runs: {said}")
    if session is None:
        yield Point(truth.feeds[0][0], "", said)
        return
    for (sizes, feed), outcomes in zip(truth.feeds, truth.outcomes, strict=True):
        after, said = _run(session, _renamed(feed, inputs))
        error, found = outcomes[0][1], ""
        if not error and not said:
            differences = [
                difference(_shapes(before), _shapes(after)) if truth.loose else difference(before, after, tolerance)
                for before, _ in outcomes
            ]
            found = differences[0] if all(differences) else ""
        yield Point(sizes, error, said, found)


def _renamed(feed: Mapping[str, Any], names: Sequence[str]) -> Feed:
    """Inputs that are no tensors are written as the tensors that they hold."""
    if all(name in feed for name in names):
        return dict(feed)
    return dict(zip(names, _flat(list(feed.values())), strict=False))


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
