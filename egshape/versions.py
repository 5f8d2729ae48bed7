"""Which versions of a graph are worth a guard: facts that are not known but may hold, by what each saves if it does."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod
from typing import Any

from egshape.adapters.versioned import conditions, places, versioned
from egshape.decide.context import Context
from egshape.dims import const, symbol
from egshape.egraph.cost import likely_sizes
from egshape.errors import EgshapeError, InvalidInput, UndefinedSize
from egshape.facts import Facts, Relation, parse_facts
from egshape.ir.drawn import inputs_at
from egshape.ir.graph import Graph
from egshape.ir.points import Point
from egshape.optimizing import Result, optimize, resolve
from egshape.reasons.advise import candidates, from_checks, saving
from egshape.runtime.core.versioned import Version, VersionedFunction
from egshape.validate import trusting

SECONDS = 30.0
"""Time for all trials together."""
SHORTEST = 25e-6
"""Seconds: a general function whose calls take less has no versions, since choosing one takes up to 2 % of that."""
FASTER = 1.05
"""A version is worth its code where it is seen to be this many times as fast as the general function."""
ROUNDS, RUN, TIMING = 9, 1e-3, 5.0
"""How often a version and the general function are run in turns, seconds of calls of a run at least, and seconds after
which no other turn begins."""
MOST_JOINT = 8
"""Guards of several broadcasts that are tried."""
LARGEST = 1 << 26
"""Elements of inputs with which functions are run."""


@dataclass(frozen=True)
class Timed:
    """Seconds of a call at the sizes to expect behind a guard, of the general function and of the version; and of the
    general function at the sizes to expect elsewhere."""

    general: float
    version: float
    elsewhere: float

    @property
    def pays(self) -> bool:
        """Whether the version is seen to be faster, and calls are so long that choosing it is no loss elsewhere."""
        return self.elsewhere >= SHORTEST and self.general >= FASTER * self.version


@dataclass(frozen=True)
class Proposed:
    """A guard, and what its version saves at the sizes to expect behind it: ops, bytes moved by the cost model, and
    time where that was measured."""

    guard: str
    ops: int
    bytes: int
    timed: Timed | None = None


def propose(graph: Graph, facts: Facts | None = None, most: int = 4, seconds: float = SECONDS) -> tuple[Proposed, ...]:
    """At most ``most`` guards, in the order in which they are to be asked: the narrower first.

    Tried are the likely sizes of each axis, an axis of size 1, the equations of ``advise``, its divisors, and all
    broadcasts at once: of each equal sizes, or one of them 1 where that is likely. One is proposed if its version saves
    ops or bytes, or if its size is a likely one, which makes loops of a known length. Raises EgshapeError as
    ``optimize`` does."""
    deadline = time.monotonic() + seconds
    before = optimize(graph, facts=facts, validate=False)
    found: list[Proposed] = []
    for text, likely in _worth_a_trial(before):
        if time.monotonic() > deadline:
            break
        saved = _saved(before, text, facts)
        if saved is not None and (likely or saved.ops or saved.bytes):
            found.append(saved)
    best = sorted(found, key=lambda each: (-each.bytes, -each.ops))[:most]
    return tuple(sorted(best, key=lambda each: -sum(_implies(each.guard, other.guard) for other in best)))


def _worth_a_trial(before: Result) -> Iterator[tuple[str, bool]]:
    """Guards that are not decided, each once, and whether it is a likely size."""
    context = Context()
    for known in before.derived.statements():
        context.assume(known)
    open_ = [each for each in candidates(before) if each.kind == "==" and _is_guard(str(each), before.source)]
    sizes = places(before.source)
    likely = [_is(name, size) for name in sizes for size in before.facts.symbol(name).likely]
    # an axis of size 1 where nothing is said of it: another likely size is data against it
    exact = dict.fromkeys([*likely, *(_is(name, 1) for name in sizes if not before.facts.symbol(name).likely)])
    for fact in exact:
        if context.decide(fact) == "unknown":
            yield str(fact), fact in likely
    yield from ((str(each), False) for each in open_)
    yield from ((text, False) for text in _joint(before))


def _joint(before: Result) -> Iterator[str]:
    """Guards of all broadcasts at once, of each one of its choices."""
    sizes = places(before.source)
    pairs = dict.fromkeys(each for each in from_checks(before) if each.kind == "==" and each.symbols() <= sizes.keys())
    choices = [found for pair in pairs if (found := _choices(pair, before.facts))]
    if len(choices) > 1:
        for each in islice(product(*choices), MOST_JOINT):
            yield "; ".join(dict.fromkeys(map(str, each)))


def _choices(pair: Relation, facts: Facts) -> list[Relation]:
    """That the two sizes of a broadcast are equal, or that one is 1, where likely sizes do not speak against it."""
    names = sorted(pair.symbols())
    one, two = (set(facts.symbol(name).likely) for name in names)
    equal = [pair] if not one or not two or (one & two) - {1} else []
    return [*equal, *(_is(name, 1) for name, likely in zip(names, (one, two), strict=True) if 1 in likely)]


def _is(name: str, size: int) -> Relation:
    return Relation("==", symbol(name), const(size))


def _is_guard(text: str, graph: Graph) -> bool:
    try:
        conditions(text, graph)
    except InvalidInput:
        return False
    return True


def _saved(before: Result, text: str, facts: Facts | None) -> Proposed | None:
    """What a version saves: None where no sizes satisfy its guard."""
    try:
        after = optimize(before.source, text, facts=facts, validate=False)
    except EgshapeError:
        return None
    if after.report.status == "fallback":
        return None
    gain = saving(before, after, text)
    return Proposed(text, gain.ops_removed, gain.bytes_saved) if gain else Proposed(text, 0, 0)


def _implies(one: str, two: str) -> bool:
    context = Context()
    for fact in parse_facts(one):
        if isinstance(fact, Relation):
            context.assume(fact)
    return all(context.decide(each) == "proved" for each in parse_facts(two) if isinstance(each, Relation))


# -- measuring -------------------------------------------------------------------------------------------------------


def measured(
    graph: Graph, proposals: Sequence[Proposed], made: Callable[..., Any], facts: Facts | None = None
) -> tuple[Proposed, ...]:
    """The proposals with times. ``made`` gives the function under more facts, as text."""
    general, facts = made(), _told(graph, facts)
    versions = (Version(each.guard, made(each.guard), conditions(each.guard, graph)) for each in proposals)
    times = (timed(graph, version, general, facts) for version in versions)
    return tuple(replace(each, timed=time) for each, time in zip(proposals, times, strict=True))


def chosen(graph: Graph, most: int, facts: Facts, made: Callable[..., Any], observe: bool = False) -> VersionedFunction:
    """The function of a graph with at most ``most`` versions that are proposed; of native code of this processor those
    that are seen to pay. ``made`` gives the function under more facts, as text."""

    def pays(version: Version, general: Any) -> bool:
        if getattr(general, "target", "") != "llvm":  # it cannot be timed here
            return True
        found = timed(graph, version, general, facts)
        return found is not None and found.pays

    guards = [each.guard for each in propose(graph, facts, most)]
    facts = _told(graph, facts)
    return versioned(graph, guards, made, observe, pays)


def _told(graph: Graph, facts: Facts | None) -> Facts:
    """What the checks of a program make of facts too: sizes that they refuse are not timed."""
    return optimize(graph, facts=facts, validate=False).derived


def timed(graph: Graph, version: Version, general: Any, facts: Facts | None = None) -> Timed | None:
    """A version and the general function run in turns, None where such sizes are not known, too large or refused."""
    known = graph.facts.merge(facts or Facts())
    chosen = VersionedFunction([version, Version("", general)])
    behind = _inputs(graph, known.with_text(version.guard, assumed=True))
    elsewhere = _inputs(graph, known)
    if behind is None or elsewhere is None or chosen.choose(behind) is not version.function:
        return None
    try:
        version.function(*behind)
        calls = max(int(RUN / max(_seconds(general, behind, 1), 1e-7)), 1)
        pairs: list[tuple[float, float]] = []
        end = time.perf_counter() + TIMING
        while len(pairs) < ROUNDS and (not pairs or time.perf_counter() < end):
            pairs.append((_seconds(general, behind, calls), _seconds(chosen, behind, calls)))
        beside = min(_seconds(general, elsewhere, 1) for _ in range(ROUNDS))
    except EgshapeError:  # these inputs are not what it takes
        return None
    one = statistics.median(each for each, _ in pairs)
    return Timed(one, one / statistics.median(a / b for a, b in pairs), beside)


def _inputs(graph: Graph, facts: Facts) -> Sequence[Any] | None:
    """Inputs at likely sizes, None where there are none, or too large ones, or a call trusts what it gets."""
    sizes = likely_sizes(resolve(graph, facts), sorted(each.name for each in graph.body.symbols))
    try:
        elements = sum(prod(max(dim.evaluate(sizes), 0) for dim in value.type.shape or ()) for value in graph.inputs)
    except UndefinedSize:
        return None
    fit = elements <= LARGEST and not trusting(graph)
    return inputs_at(graph, Point({}, sizes, "plain"), 0) if fit else None


def _seconds(function: Callable[..., Any], inputs: Sequence[Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function(*inputs)
    return (time.perf_counter() - start) / calls
