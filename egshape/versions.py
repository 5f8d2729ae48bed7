"""Which versions of a graph are worth a guard: facts that are not known but may hold, by what each saves if it does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from egshape.adapters.versioned import guard_of, places
from egshape.decide.context import Context
from egshape.dims import const, symbol
from egshape.errors import EgshapeError, InvalidInput
from egshape.facts import Facts, Relation
from egshape.facts.relation import parse_relation
from egshape.ir.graph import Graph
from egshape.optimizing import Result, optimize
from egshape.reasons.advise import candidates, saving

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

    Tried are the likely sizes of each axis, an axis of size 1, and the equations and divisors of ``advise``. One is
    proposed if its version saves ops or bytes, or if its size is a likely one, which makes loops of a known length.
    Raises EgshapeError as ``optimize`` does."""
    deadline = time.monotonic() + seconds
    before = optimize(graph, facts=facts, validate=False)
    found: list[tuple[Relation, Proposed]] = []
    for fact, likely in _worth_a_trial(before):
        if time.monotonic() > deadline:
            break
        saved = _saved(before, fact, facts)
        if saved is not None and (likely or saved.ops or saved.bytes):
            found.append((fact, saved))
    found.sort(key=lambda pair: (-pair[1].bytes, -pair[1].ops))
    chosen = found[:most]
    chosen.sort(key=lambda pair: sum(_implies(pair[0], other) for other, _ in chosen), reverse=True)
    return tuple(each for _, each in chosen)


def _worth_a_trial(before: Result) -> Iterator[tuple[Relation, bool]]:
    """Facts that a guard can ask and that are not decided, each once, and whether it is a likely size."""
    at = places(before.source)
    context = Context()
    for known in before.derived.statements():
        context.assume(known)
    tried: set[str] = set()
    sizes = [(name, size, True) for name in at for size in before.facts.symbol(name).likely]
    sizes += [(name, 1, False) for name in at]
    exact = [(Relation("==", symbol(name), const(size)), likely) for name, size, likely in sizes]
    for fact, likely in (*exact, *((fact, False) for fact in candidates(before) if fact.kind == "==")):
        if str(fact) not in tried and _is_guard(fact, before.source) and context.decide(fact) == "unknown":
            tried.add(str(fact))
            yield fact, likely


def _is_guard(fact: Relation, graph: Graph) -> bool:
    try:
        guard_of(str(fact), graph)
    except InvalidInput:
        return False
    return True


def _saved(before: Result, fact: Relation, facts: Facts | None) -> Proposed | None:
    """What a version saves: none where no sizes satisfy its guard, or where it would cost more."""
    try:
        after = optimize(before.source, (str(fact),), facts=facts, validate=False)
    except EgshapeError:
        return None
    if after.report.status == "fallback":
        return None
    gain = saving(before, after, str(fact))
    return Proposed(str(fact), gain.ops_removed, gain.bytes_saved) if gain else Proposed(str(fact), 0, 0)


def _implies(one: Relation, two: Relation) -> bool:
    context = Context()
    context.assume(parse_relation(str(one)))
    return context.decide(two) == "proved"
