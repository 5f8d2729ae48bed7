"""Which versions of a graph are worth a guard: facts that are not known but may hold, by what each saves if it does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from egshape.adapters.versioned import guard_of, places
from egshape.decide.context import Context
from egshape.dims import const, symbol
from egshape.errors import EgshapeError, InvalidInput
from egshape.facts import Facts, Relation, parse_facts
from egshape.ir.graph import Graph
from egshape.optimizing import Result, optimize
from egshape.reasons.advise import candidates, from_checks, saving

SECONDS = 30.0
"""Time for all trials together."""


@dataclass(frozen=True)
class Proposed:
    """A guard, and what its version saves at the sizes to expect behind it: ops, and bytes moved by the cost model."""

    guard: str
    ops: int
    bytes: int


def propose(graph: Graph, facts: Facts | None = None, most: int = 4, seconds: float = SECONDS) -> tuple[Proposed, ...]:
    """At most ``most`` guards, in the order in which they are to be asked: the narrower first.

    Tried are the likely sizes of each axis, an axis of size 1, the equations of ``advise``, one by one and those of
    broadcasts all at once, and its divisors. One is proposed if its version saves ops or bytes, or if its size is a
    likely one, which makes loops of a known length. Raises EgshapeError as ``optimize`` does."""
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
    exact = dict.fromkeys([*likely, *(_is(name, 1) for name in sizes)])
    for fact in exact:
        if context.decide(fact) == "unknown":
            yield str(fact), fact in likely
    yield from ((str(each), False) for each in open_)
    broadcasts = {str(each) for each in from_checks(before) if each.kind == "=="}
    together = [str(each) for each in open_ if str(each) in broadcasts]
    if len(together) > 1:
        yield "; ".join(together), False


def _is(name: str, size: int) -> Relation:
    return Relation("==", symbol(name), const(size))


def _is_guard(text: str, graph: Graph) -> bool:
    try:
        guard_of(text, graph)
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
