"""Two models side by side in a runtime, by default ONNX Runtime: whether the one that was written computes what the
first does. The runtime is a guest (`guest.py`), which is killed at the limits that hold here."""

from __future__ import annotations

import importlib.util
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from egshape.adapters.beside import Beside, Open, onnx_session
from egshape.errors import MissingDependency
from egshape.estimate import Estimate
from egshape.facts import Facts
from egshape.frontends.onnx.rounds import SCAN, with_loops
from egshape.guest import LARGEST_MB, GuestLost, Host, host
from egshape.hints import install
from egshape.ir.drawn import inputs_at
from egshape.ir.graph import Graph, Op
from egshape.ir.points import Data, Point, admitted_points, points_of
from egshape.ir.types import is_integer
from egshape.limits import LimitReached, held, holding, resident_mb
from egshape.ops.host import FRAGILE, HOST_CALLS
from egshape.validate import late, rejects, sizes_at, violated_fact

SCALES = (4, 16, 37, 64, 100)
"""Small sizes times these are tried too: image and audio models ask for more than a few elements."""

_TRIED = 60

_MOST_LARGE = 60
"""So many larger sizes are tried, the cheapest first."""

_MOST_WORK = 2_000_000_000
"""Elements that a run computes, those of sums counted; sizes that cost more are left out, but the cheapest ones."""

_MOST_ALONE_MB = 512
"""A model whose values are never small is run at one point where the largest is no larger."""

_HELD_TWICE = 2.5
"""Bytes that both models take of a runtime's memory, for each byte of weights."""

_END_SECONDS = 10.0
"""Time for runs with integers at the ends of their dtypes, and with floats that are no finite numbers."""

Arrays = Mapping[str, np.ndarray]
"""Arrays by the names of inputs."""

Feed = tuple[Point, tuple[Arrays, ...]]
"""A point, and arrays of its sizes, drawn a few times."""


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
    """What runs models: its name, the package that must be installed, and what opens a model in the guest, from
    ``arguments`` behind the model; used as an ``onnxruntime.InferenceSession`` is."""

    name: str
    package: str
    open: Open
    arguments: tuple[Any, ...] = ()
    extra: str = "onnx"
    draws: int = 1
    """How many arrays are drawn for each sizes: with more than one integers go from small ones to the largest axis."""
    ends: tuple[Data, ...] = ()
    """What is compared in the end, where the original takes it: integers at the ends of their dtype ("extreme"), floats
    that are no finite numbers ("special")."""


ONNX_RUNTIME = Runtime("ONNX Runtime", "onnxruntime", onnx_session, ends=("special", "extreme"))


def available() -> bool:
    """Whether ONNX Runtime is installed."""
    return is_installed(ONNX_RUNTIME.package)


def is_installed(package: str) -> bool:
    """Whether a package is there; it is not imported."""
    return importlib.util.find_spec(package) is not None


def compare_models(
    original: str | Path | bytes,
    written: str | Path | bytes,
    graph: Graph,
    facts: Facts,
    *,
    result: Graph | None = None,
    wanted: int = 4,
    seconds: float = 20.0,
    excluding: bool = False,
    runtime: Runtime = ONNX_RUNTIME,
) -> Compared:
    """Run both models at up to ``wanted`` sizes that the original and the facts admit. ``graph`` is the original as it
    was loaded, ``facts`` are in its symbols; ``result``: the graph that was written, whose checks tell sizes that both
    admit. With ``excluding`` the written model must also reject sizes that the facts exclude, a few of which are tried.

    The limits that hold here hold for it too: where one is met, what was compared until then is given, with a note.
    Raises MissingDependency without the runtime."""
    if not is_installed(runtime.package):
        raise MissingDependency(f"comparing models needs {runtime.package}", hint=install(runtime.extra))
    until, memory_mb = held()
    deadline = min(time.monotonic() + seconds, until)
    graphs = (graph, graph if result is None else result)
    weights = sum(Estimate(each).weights for each in graphs) / 2**20
    if resident_mb() + _HELD_TWICE * weights > memory_mb:
        return Compared(skipped=f"not compared: weights of {weights / 2:.0f} MB, twice, are beyond the limit of memory")
    side = _Side(_source(original), _source(written), runtime)
    try:
        with holding(deadline, memory_mb), host() as guest:
            return _compared(side, guest, graphs, facts, wanted, excluding)
    except LimitReached as reached:
        return Compared("", tuple(side.ran), tuple(side.rejected), late(reached.limit))
    except GuestLost as lost:
        return Compared("", tuple(side.ran), tuple(side.rejected), late(lost.limit) if lost.limit else side.crash(lost))


def _source(model: str | Path | bytes) -> str | bytes:
    return model if isinstance(model, bytes) else os.path.abspath(model)


@dataclass(frozen=True)
class _Side:
    """Both models and their runtime. What changes: ``ran`` and ``rejected``, the sizes that were compared."""

    original: str | bytes
    written: str | bytes
    runtime: Runtime
    ran: list[Mapping[str, int]] = field(default_factory=list)
    rejected: list[Mapping[str, int]] = field(default_factory=list)

    def opened(self, guest: Host) -> Compared | None:
        """Open both in the guest; None if that went well."""
        guest.make("pair", Beside, self.runtime.open, self.runtime.arguments)
        if why := guest.ask("pair", "open", self.original):
            return Compared(skipped=f"{self.runtime.name} cannot load the original: {why}")
        if why := guest.ask("pair", "open", self.written):
            return Compared(f"{self.runtime.name} cannot load the model that was written: {why}")
        return None

    def crash(self, lost: GuestLost) -> str:
        """What is said where the runtime ended its process."""
        said = f" ({lost.last_words})" if lost.last_words else ""
        return f"{self.runtime.name} ended its process{said}"


def _compared(
    side: _Side, guest: Host, graphs: tuple[Graph, Graph], facts: Facts, wanted: int, excluding: bool
) -> Compared:
    opened = side.opened(guest)
    if opened is not None:
        return opened
    said = ""
    points = []
    for number, (point, drawn) in enumerate(_feeds(graphs, facts, side.runtime.draws)):
        try:
            difference = _at_all(side, guest, graphs[0], point, drawn)
        except GuestLost as lost:
            if lost.limit:
                raise
            said = f"{side.crash(lost)} at {_place(point.sizes)}"
            side.opened(guest)
            continue
        if difference is None:
            continue
        if difference:
            return Compared(difference, tuple(side.ran))
        points.append(point)
        side.ran.append(point.sizes)
        if len(side.ran) == wanted or (number and not point.sizes):
            break
    if difference := _at_ends(side, guest, graphs[0], points):
        return Compared(difference, tuple(side.ran))
    if excluding and (difference := _excluded(side, guest, graphs[0], facts, wanted)):
        return Compared(difference, tuple(side.ran), tuple(side.rejected))
    nowhere = "" if side.ran else "no sizes were found at which the model runs"
    return Compared("", tuple(side.ran), tuple(side.rejected), said or nowhere)


def _at_all(side: _Side, guest: Host, graph: Graph, point: Point, drawn: Sequence[Arrays]) -> str | None:
    """How the models differ at a point, "" if they do not, None if that cannot be said."""
    found = None
    for arrays in drawn:
        difference = _at(side, guest, graph, point.sizes, arrays)
        if difference:
            return difference
        found = found if difference is None else ""
    return found


def _at_ends(side: _Side, guest: Host, graph: Graph, points: Sequence[Point]) -> str:
    """How the models differ at the ends of what inputs hold, "" if they do not. A loop may then have no end that
    anybody sees, so it is given up after a while."""
    until = time.monotonic() + _END_SECONDS
    for data in side.runtime.ends:
        try:
            with holding(until):
                for number, point in enumerate(points):
                    arrays = _end_arrays(graph, point, number, data)
                    if arrays and (difference := _at(side, guest, graph, point.sizes, arrays)):
                        return difference
        except (GuestLost, LimitReached):
            side.opened(guest)
    return ""


def _end_arrays(graph: Graph, point: Point, number: int, data: Data) -> Arrays | None:
    """Plain arrays, but for integers where they are "extreme", and for the others where they are "special"; None where
    none are so."""
    names = [value.name for value in graph.inputs if is_integer(value.type.dtype) == (data == "extreme")]
    plain, ends = _arrays(graph, point, number), _arrays(graph, replace(point, data=data), number)
    if plain is None or ends is None or not names:
        return None
    return {**plain, **{name: ends[name] for name in names}}


def _at(side: _Side, guest: Host, graph: Graph, sizes: Mapping[str, int], arrays: Arrays) -> str | None:
    """How the models differ on some arrays, "" if they do not, None if that cannot be said."""
    if guest.ask("pair", "run", 0, arrays):  # an index may be beyond its table
        arrays = {name: _smaller(array) for name, array in arrays.items()}
        if guest.ask("pair", "run", 0, arrays):
            return None
    fails = guest.ask("pair", "run", 1, arrays)
    if fails:
        difference = f"at {_place(sizes)} the written model fails: {fails}"
    else:
        difference = guest.ask("pair", "difference")
        difference = difference and f"at {_place(sizes)}: {difference}"
    # ONNX Runtime joins what does not fit where a part is empty, and leaves the rest as it was
    if difference and (0 in sizes.values() or fails) and rejects(graph, [arrays[each.name] for each in graph.inputs]):
        return None
    return str(difference)


def _excluded(side: _Side, guest: Host, graph: Graph, facts: Facts, wanted: int) -> str:
    """How the written model runs at sizes that a fact excludes, a few for each fact; "" if it rejects them."""
    tried: Counter[str] = Counter()
    for number, point in enumerate(_points((graph, graph), facts)):
        fact = violated_fact(facts, point.env)
        if fact is None or tried[fact.text] >= wanted:
            continue
        arrays = _arrays(graph, point, number)
        if arrays is None:
            continue
        tried[fact.text] += 1
        try:
            runs = not guest.ask("pair", "run", 1, arrays)
        except GuestLost as lost:
            if lost.limit:
                raise
            side.opened(guest)
            continue
        if runs:
            return f"at {_place(point.sizes)} the fact {fact.text} does not hold, but the written model runs"
        side.rejected.append(point.sizes)
    return ""


def _place(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items()) or "fixed sizes"


def _points(graphs: tuple[Graph, Graph], facts: Facts) -> list[Point]:
    """Points with plain data whose values are small, without those at which a kernel of ONNX Runtime would end the
    process."""
    points = [point for point in islice(points_of(*graphs, facts), _TRIED) if point.data == "plain"]
    if any(_fragile(op) for op in with_loops(graphs[0], scans=True).body.walk()):
        points = [point for point in points if 0 not in point.sizes.values()]
    small = _Small(graphs)
    cheapest = [point for point in points if small.largest(point) <= _MOST_ALONE_MB << 20]
    return [point for point in points if small(point)] or sorted(cheapest, key=small.work)[:1]


def _fragile(op: Op) -> bool:
    """Whether a kernel of ONNX Runtime ends the process at a batch of 0, as Scan does where nothing is scanned."""
    title = op.attrs["target"] if op.name in HOST_CALLS else op.attrs["name"] if op.name == "composite" else ""
    return op.name == SCAN or title.rpartition(".")[2] in FRAGILE


class _Small:
    """Whether the values of graphs are small at a point, and a run costs little."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._estimates = [Estimate(each) for each in dict.fromkeys(graphs)]

    def __call__(self, point: Point) -> bool:
        return self.largest(point) <= LARGEST_MB << 20 and self.work(point) <= _MOST_WORK

    def largest(self, point: Point) -> int:
        """Bytes of the largest value."""
        return max(each.largest(point.sizes) for each in self._estimates)

    def work(self, point: Point) -> int:
        """What a run costs."""
        return max(each.work(point.sizes) for each in self._estimates)


def _feeds(graphs: tuple[Graph, Graph], facts: Facts, draws: int) -> Iterator[Feed]:
    """Points that the facts admit, with arrays of them, small sizes first."""
    graph = graphs[0]
    points = _points(graphs, facts)
    small = [point for point in points if violated_fact(facts, point.env) is None]
    seen: set[tuple[int, ...]] = set()
    for number, point in enumerate(chain(small, _larger(graphs, facts))):
        key = tuple(point.sizes.values())
        drawn = [] if key in seen else [_arrays(graph, point, number + more) for more in range(draws)]
        seen.add(key)
        fit = tuple(
            arrays
            for arrays in drawn
            if arrays is not None and violated_fact(facts, sizes_at(graph, point, list(arrays.values()))) is None
        )
        if fit:
            yield point, fit


def _larger(graphs: tuple[Graph, Graph], facts: Facts) -> Iterator[Point]:
    """Larger sizes that the facts and the checks of both graphs admit, the cheapest first."""
    small = _Small(graphs)
    points = [
        point
        for scale in SCALES
        for point in admitted_points(graphs[0], facts, scale, result=graphs[1])
        if 0 not in point.sizes.values() and small(point)
    ]
    yield from sorted(points, key=small.work)[:_MOST_LARGE]


def _arrays(graph: Graph, point: Point, number: int) -> dict[str, np.ndarray] | None:
    """Arrays by input name, None where a size cannot be."""
    arrays = inputs_at(graph, point, number)
    return None if arrays is None else dict(zip((value.name for value in graph.inputs), arrays, strict=True))


def _smaller(array: np.ndarray) -> np.ndarray:
    return array.clip(0, 1) if array.dtype.kind in "iu" else array
