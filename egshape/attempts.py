"""Optimizing with rules of a user: a rule that fails is left out, by name, and the run goes on with the others.

A rule that its trial refutes is not used at all (`rulebook/beforehand.py`). A rule fails that explodes (the run meets a
limit, and the rule is the one that grew), that ends the engine, or whose results differ from the original. The shipped
rules alone are the last try, with all the time that is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from egshape.decide.reason import Rule, matched
from egshape.egraph.ask import Decide
from egshape.egraph.budget import Stop
from egshape.egraph.outcome import Outcome
from egshape.egraph.program import Variant, program, shipped
from egshape.facts import Facts
from egshape.ir.graph import Graph, Op
from egshape.limits import Deadlines, Limits
from egshape.pipeline import Optimized, run_stages
from egshape.rulelang import loader
from egshape.rulelang.rulefile import Dropped
from egshape.trace import Tracer

GROWTH, LEAST_NODES = 200, 50_000
"""E-nodes for each op of the graph, and at least, that rules of a user may make before they are said to explode."""

TRIAL_SECONDS, TRIAL_PER_OP = 4.0, 0.002
"""Time for an attempt with rules of a user, at most half of what is left: a step that never ends is noticed by it."""


@dataclass(frozen=True)
class Job:
    """What is to be optimized, and how."""

    graph: Graph
    facts: Facts
    rules: tuple[str, ...]
    limits: Limits
    deadlines: Deadlines
    explain: bool = True
    refine_signature: bool = False
    validate: bool = True
    own: Mapping[str, loader.Rule] = field(default_factory=dict)
    """The rules of the user by name."""
    decide: Decide = "both"
    left: frozenset[Op] = frozenset()
    """Ops that stay as they came."""
    share_layers: bool = False

    @cached_property
    def size(self) -> int:
        """The number of ops."""
        return sum(1 for _ in self.graph.body.walk())

    def attempt(self, tracer: Tracer, omit: Iterable[str] = (), split: bool = False, loose: bool = False) -> Optimized:
        """Run the stages without some rules. With rules of the user left there is time for another attempt after it,
        and they may add few nodes, unless that is ``loose``."""
        omitted = frozenset(omit)
        limits, deadlines = self.limits, self.deadlines
        if any(name not in omitted for name in self.own):
            deadlines = deadlines.half(TRIAL_SECONDS + TRIAL_PER_OP * self.size)
        if deadlines is not self.deadlines and not loose:
            nodes = max(LEAST_NODES, GROWTH * self.size)
            limits = replace(limits, nodes=min(nodes, nodes if limits.nodes is None else limits.nodes))
        return run_stages(
            self.graph,
            self.facts,
            self.rules,
            limits,
            tracer,
            self.explain,
            self.refine_signature,
            variant=Variant(split=split, omit=omitted),
            deadlines=deadlines,
            tolerance=self.tolerance if self.validate else None,
            decide=self.decide,
            left=self.left,
            share_layers=self.share_layers,
        )

    def fired(self, outcome: Outcome) -> list[str]:
        """The rules of the user that rewrote something."""
        names = {Rule.of(rule).name for rule in outcome.rewrites}
        return sorted(name for name in names if name in self.own)

    def tolerance(self, outcome: Outcome) -> float:
        """How far a result may be off: what the approximate rules that fired allow together."""
        if not self.own:
            return 0.0
        allowed = {each.name: each.tolerance for each in program(self.rules).rules.rulesets}
        return sum(
            outcome.rewrites.get(name, 1) * (allowed.get(self.own[name].ruleset) or 0.0) for name in self.fired(outcome)
        )


def own_rules(rules: Sequence[str]) -> dict[str, loader.Rule]:
    """The rules of the user by name. Raises EgshapeError for a wrong file or an unknown name."""
    if not rules:
        return {}
    base = set(shipped())
    return {rule.name: rule for rule in program(tuple(rules)).rules.rules if rule.ruleset not in base}


def attempt_all(job: Job, tracer: Tracer, before: Sequence[Dropped] = ()) -> tuple[Optimized, tuple[Dropped, ...]]:
    """Attempts until one has no rule of the user to blame: it, and the rules that were left out, ``before`` or on the
    way."""
    dropped = {each.rule: each for each in before if each.rule in job.own}
    split = loose = False
    while True:
        attempt = job.attempt(tracer, dropped, split, loose)
        left = [name for name in job.own if name not in dropped]
        found = _to_blame(job, attempt, left, dropped, tracer) if left else ()
        if found is None:  # one of several rules of a ruleset: each is run by itself
            split = True
            continue
        stopped = any(stop.limit == "nodes" for stop in attempt.outcome.stops)
        if not found and left and stopped and not loose:  # the shipped rules alone may need more nodes
            loose = True
            continue
        if not found:
            return attempt, tuple(dropped.values())
        dropped.update({each.rule: each for each in found})


def _to_blame(
    job: Job, attempt: Optimized, left: Sequence[str], dropped: Iterable[str], tracer: Tracer
) -> Sequence[Dropped] | None:
    """The rules to leave out; None where it takes another run to tell which of a ruleset."""
    outcome = attempt.outcome
    for stop in outcome.stops:
        suspects = _suspects(job, stop, attempt, left)
        if stop.limit == "engine" and len(suspects) > 1:
            return None
        if suspects:
            return [Dropped(suspects[0], _why(stop))]
    if outcome.status == "budget" and attempt.graph is job.graph:
        return [Dropped(name, "with it there was no result within half of the time") for name in left]
    if attempt.difference:
        return _culprits(job, job.fired(outcome), left, dropped, tracer, _difference, _difference(attempt))
    if outcome.status == "fallback":
        suspects = sorted({Rule.of(rule).name for rule in outcome.matches} & set(left))
        return _culprits(job, suspects, left, dropped, tracer, _fault, _fault(attempt))
    return ()


def _difference(attempt: Optimized) -> str:
    return attempt.difference and f"the result differs from the original {attempt.difference}"


def _fault(attempt: Optimized) -> str:
    return attempt.outcome.fault


def _why(stop: Stop) -> str:
    return (
        f"the engine fails in it ({stop.fault})"
        if stop.limit == "engine"
        else f"it grows without end (the limit of {stop.limit} was met)"
    )


def _suspects(job: Job, stop: Stop, done: Optimized, left: Sequence[str]) -> list[str]:
    """The rules of the user that may be why a run was stopped, the likeliest first."""
    matches = done.outcome.matches
    ranked = sorted(left, key=lambda name: (-matched(matches, name), name))
    if stop.limit == "engine":
        return [name for name in ranked if stop.ruleset in (name, job.own[name].ruleset)]
    named = Rule.of(stop.rule).name
    if named in left:
        return [named]
    inside = [name for name in ranked if stop.ruleset in (name, job.own[name].ruleset)]
    if inside:
        return inside
    # A shipped rule grew most: what a rule of the user makes again and again feeds it, or it is not to blame.
    busy = [name for name in ranked if 2 * matches.get(name, 0) > matches.get(stop.rule, 0)]
    return busy[:1]


def _culprits(
    job: Job,
    suspects: Sequence[str],
    left: Sequence[str],
    dropped: Iterable[str],
    tracer: Tracer,
    failure: Callable[[Optimized], str],
    why: str,
) -> list[Dropped]:
    """Those of the suspects that fail alone; all of them if none does, or there is no time to look."""
    if len(suspects) == 1:
        return [Dropped(suspects[0], why)]
    found = []
    for name in suspects:
        if time.monotonic() >= job.deadlines.rules:
            break
        others = [*dropped, *(each for each in left if each != name)]
        alone = failure(job.attempt(Tracer(tracer.on_stage), others))
        if alone:
            found.append(Dropped(name, alone))
    return found or [Dropped(name, f"with others in use, {why}") for name in suspects]
