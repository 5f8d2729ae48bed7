"""Inputs for any ONNX model: sizes that it admits, found by trying, and arrays of plausible values.

Nothing here knows a model. Named axes of the same name are one symbol; for the rest, and for sums such as a mask over
old and new tokens, a few relations between symbols are tried until the model runs; then each free symbol is varied.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import psutil

POOL = (7, 16, 32, 64, 128, 224, 256, 512, 576, 1024, 2048, 4096, 16000)
"""Sizes of text, images and audio, tried until one runs."""

LADDER = (
    *(1, 2, 3, 5, 8, 13, 17, 24, 31, 33, 40, 48, 65, 96, 100, 160, 250, 333),
    *(512, 700, 1025, 2048, 4001, 8000, 16001, 40000),
)
"""Sizes that each symbol is then varied over: 1, odd ones, multiples of 8."""

UNKNOWN = ("", "?", "*", "-1", "None")
"""What exporters write where they know no name; two of them are no statement that the sizes are equal."""

PATIENCE = 0.05
"""Seconds that a run at an admitted point takes at most, or three times what the first point took."""

_APART = (1, 3, 7, 12, 20, 30, 44, 65, 80, 96)
"""None is the sum of two others, so that a sum is not taken for a coincidence."""

MEMORY = 3 << 30
"""Bytes of address space that trying may add, so that a wrong guess is refused and does not swap."""

TOPS = (30000, 5000, 1000, 256, 200, 64, 16, 3)
"""Exclusive upper limits tried for integers; 2 is assumed to be admitted."""

SCALARS = (16000, 8000, 1, 4)
"""Values tried for integers of rank 0."""

MOST = 800_000
"""Elements that an input has at most, so that a run stays short."""

Feed = dict[str, np.ndarray]


class NoSizes(Exception):
    """No sizes were found at which the model runs; the message ends with what it said last."""


@dataclass(frozen=True)
class Input:
    """A model input: its numpy dtype and, for each axis, its size or the name of its symbol."""

    name: str
    dtype: np.dtype[Any]
    dims: tuple[int | str, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(dim for dim in self.dims if isinstance(dim, str))


@dataclass(frozen=True)
class Relation:
    """A symbol that is the sum of others: one of them is an equality."""

    symbol: str
    terms: tuple[str, ...]


@dataclass(frozen=True)
class Probe:
    """One admitted point: the size of every symbol, and the value of every integer of rank 0."""

    sizes: Mapping[str, int]
    scalars: Mapping[str, int]

    def __str__(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self.sizes.items()) or "fixed"


@dataclass(frozen=True)
class Plan:
    """How to run a model: its inputs, the points that it admits, and the limits of its integers."""

    inputs: tuple[Input, ...]
    relations: tuple[Relation, ...]
    probes: tuple[Probe, ...]
    tops: Mapping[str, int]

    def feed(self, probe: Probe, seed: int = 0) -> Feed:
        """Arrays for a point; another seed gives other data of the same shapes."""
        return make_feed(self.inputs, probe, self.tops, seed)


def model_inputs(model: onnx.ModelProto) -> tuple[Input, ...]:
    """The inputs without those that an initializer has as its default."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    found = []
    for value in model.graph.input:
        if value.name in defaults:
            continue
        if not value.type.HasField("tensor_type"):
            raise NoSizes(f"input {value.name} is no tensor")
        kind = value.type.tensor_type
        dims = tuple(_dim(value.name, axis, dim) for axis, dim in enumerate(kind.shape.dim))
        found.append(Input(value.name, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type), dims))
    return tuple(found)


def _dim(name: str, axis: int, dim: Any) -> int | str:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return str(dim.dim_param) if dim.dim_param not in UNKNOWN else f"{name}.{axis}"


def make_feed(inputs: Sequence[Input], probe: Probe, tops: Mapping[str, int], seed: int) -> Feed:
    """Arrays for all inputs at a point."""
    rng = np.random.default_rng(seed)
    return {x.name: _array(x, probe, tops.get(x.name, 2), rng) for x in inputs}


def _shape(x: Input, probe: Probe) -> tuple[int, ...]:
    return tuple(dim if isinstance(dim, int) else probe.sizes[dim] for dim in x.dims)


def _array(x: Input, probe: Probe, top: int, rng: np.random.Generator) -> np.ndarray:
    shape = _shape(x, probe)
    name = x.name.lower()
    if x.dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if "mask" in name and shape:
        # Padding at the end of each row, never the whole row: that has no defined softmax.
        seen = rng.integers(1, shape[-1] + 1, (*shape[:-1], 1)) if shape[-1] else np.zeros((*shape[:-1], 1), int)
        return (np.arange(shape[-1]) < seen).astype(x.dtype)
    if x.dtype.kind in "iu":
        if not shape:
            return np.array(probe.scalars.get(x.name, 1), x.dtype)
        return rng.integers(0, top, shape).astype(x.dtype)
    if not shape:
        return np.array(0.5 if "min" in name else 1000.0 if "max" in name else rng.random(), x.dtype)
    return np.asarray(rng.standard_normal(shape) * 0.5).astype(x.dtype)


def session(model: str | bytes, threads: int = 1, optimize: bool = False) -> ort.InferenceSession:
    """An ONNX Runtime session on the CPU that prints nothing."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.force_spinning_stop", "1")  # else its threads run in others' turns too
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class _Trial:
    """Runs a model at points and remembers what it said last."""

    def __init__(self, run: ort.InferenceSession, inputs: Sequence[Input]) -> None:
        self.run, self.inputs, self.said, self.seconds = run, inputs, "", 0.0
        self.patience = PATIENCE

    def admits(self, probe: Probe, tops: Mapping[str, int], seed: int = 0) -> bool:
        if any(math.prod(_shape(x, probe)) > MOST for x in self.inputs):
            return False
        feed = make_feed(self.inputs, probe, tops, seed)
        started = time.perf_counter()
        try:
            self.run.run(None, feed)
        except Exception as error:  # the runtime's exceptions share no base class
            self.said = str(error).splitlines()[0][:200]
            return False
        finally:
            self.seconds = time.perf_counter() - started
        return True


def find_plan(run: ort.InferenceSession, inputs: Sequence[Input], wanted: int = 6) -> Plan:
    """Points that a model admits, at most ``wanted`` of them, 1 and odd sizes first.

    Raises:
        NoSizes: none was found.
    """
    trial = _Trial(run, inputs)
    with _bounded_memory():
        relations, start = _first_point(trial)
        trial.admits(start, {})
        trial.patience = max(PATIENCE, 3 * trial.seconds)
        tops = _find_tops(trial, start)
        probes = _vary(trial, relations, start, tops, wanted)
    return Plan(tuple(inputs), relations, tuple(probes), tops)


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Make allocations beyond MEMORY fail, as an error of the runtime, rather than end the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _first_point(trial: _Trial) -> tuple[tuple[Relation, ...], Probe]:
    symbols = list(dict.fromkeys(s for x in trial.inputs for s in x.symbols))
    scalars = [x.name for x in trial.inputs if not x.dims and x.dtype.kind in "iu"]
    for pool, distinct in ((POOL[:6], True), (POOL[6:], True), (POOL, False)):
        for relations in _relations(trial.inputs, symbols) if distinct else ((),):
            bound = {relation.symbol for relation in relations}
            free = [symbol for symbol in symbols if symbol not in bound]
            for base, value in itertools.product(pool, SCALARS[:2] if scalars else (1,)):
                probe = Probe(_complete(_start(free, base, distinct), relations), dict.fromkeys(scalars, value))
                if trial.admits(probe, {}):
                    return relations, probe
    raise NoSizes(trial.said or "the model has no inputs")


def _relations(inputs: Sequence[Input], symbols: Sequence[str]) -> Iterator[tuple[Relation, ...]]:
    """Guesses about the sizes, the most likely first."""
    yield ()
    unnamed: dict[int, list[str]] = {}
    for x in inputs:
        for axis, dim in enumerate(x.dims):
            if dim == f"{x.name}.{axis}":
                unnamed.setdefault(axis, []).append(dim)
    tied = tuple(Relation(s, (group[0],)) for group in unnamed.values() for s in group[1:])
    if tied:
        yield tied
    for two in itertools.permutations(symbols, 2):
        yield (Relation(two[1], (two[0],)),)
    loose = [s for s in symbols if s not in {r.symbol for r in tied}]
    for z, x, y in itertools.permutations(loose, 3):
        if x < y:
            yield (*tied, Relation(z, (x, y)))


def _start(free: Sequence[str], base: int, distinct: bool) -> dict[str, int]:
    """Sizes that differ, so that a model which runs by coincidence is not taken for one without relations; the first
    of several is often a batch and stays small."""
    if not distinct:
        return dict.fromkeys(free, base)
    small = [2] if len(free) > 1 else []
    return dict(zip(free, [*small, *(base * k for k in _APART)], strict=False))


def _complete(sizes: Mapping[str, int], relations: Sequence[Relation]) -> dict[str, int]:
    whole = dict(sizes)
    for relation in relations:
        whole[relation.symbol] = sum(whole.get(term, 1) for term in relation.terms)
    return whole


def _find_tops(trial: _Trial, start: Probe) -> dict[str, int]:
    """The largest limit of each integer input at which the model still runs, on two draws."""
    tops: dict[str, int] = {}
    for x in trial.inputs:
        if x.dtype.kind not in "iu" or not x.dims or "mask" in x.name.lower():
            continue
        most = np.iinfo(x.dtype).max
        # What compares bytes with a table accepts larger ones, and then divides by a variance of 0.
        most = 256 if "byte" in x.name.lower() else most
        fits = (top for top in TOPS if top <= most)
        tops[x.name] = next((t for t in fits if all(trial.admits(start, {**tops, x.name: t}, s) for s in (1, 2))), 2)
    return tops


def _vary(
    trial: _Trial, relations: Sequence[Relation], start: Probe, tops: Mapping[str, int], wanted: int
) -> list[Probe]:
    bound = {relation.symbol for relation in relations}
    free = [symbol for symbol in start.sizes if symbol not in bound]
    admitted = {symbol: _admitted(trial, relations, start, tops, symbol, wanted - 1) for symbol in free}
    values = [value for value in SCALARS if start.scalars] or [1]
    probes = [start]
    if not free and not start.scalars:
        return probes
    for index in range(4 * wanted):
        if len(probes) >= wanted:
            break
        sizes = {symbol: _pick(admitted[symbol], index, k) for k, symbol in enumerate(free)}
        value = values[index % len(values)]
        probe = Probe(_complete(sizes, relations), dict.fromkeys(start.scalars, value))
        if probe not in probes and trial.admits(probe, tops) and trial.seconds < trial.patience:
            probes.append(probe)
    return probes


def _pick(sizes: Sequence[int], index: int, k: int) -> int:
    """The size of the ``k``-th symbol at the ``index``-th point: first all of the smallest, then the symbols apart."""
    step = k * (1 + index // len(sizes)) if index else 0
    return sizes[(index + step) % len(sizes)]


def _admitted(
    trial: _Trial, relations: Sequence[Relation], start: Probe, tops: Mapping[str, int], symbol: str, count: int
) -> list[int]:
    """Sizes of one symbol at which the model runs, the others as they were: ``count`` spread over what it admits."""
    base = start.sizes[symbol]
    found = []
    for size in sorted({*LADDER, base, base + 1, base + base // 2, 2 * base + 1, 2 * base}):
        probe = Probe(_complete({**start.sizes, symbol: size}, relations), start.scalars)
        if trial.admits(probe, tops):
            if trial.seconds > trial.patience:
                break
            found.append(size)
    few = np.linspace(0, len(found) - 1, min(len(found), count)).round().astype(int)
    return [found[i] for i in few] or [base]
