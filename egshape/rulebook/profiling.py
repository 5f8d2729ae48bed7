"""What rules do on a model: how often each matched, what it cost, whether it mattered, and every application."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from egshape.decide.reason import Rule, matched
from egshape.egraph.program import PLAIN, Variant, program
from egshape.facts import Facts
from egshape.inner import settled
from egshape.ir.graph import Graph
from egshape.limits import Limits
from egshape.optimizing import resolve
from egshape.pipeline import Optimized, run_stages
from egshape.rulebook.models import ProfileReport, ProfileRow, StepRow, TraceReport, TraceRow
from egshape.rulelang.loader import LoadedRules
from egshape.rulelang.size_functions import size_functions
from egshape.trace import Tracer

Progress = Callable[[str], None]


def _run(
    graph: Graph, assume: Sequence[str], rules: Sequence[str], limits: Limits | None, tracer: Tracer, variant: Variant
) -> Optimized:
    rules = tuple(map(str, rules))
    with size_functions(rules):
        user = Facts.parse(*assume, assumed=True)
        graph, user = settled(graph, user)
        known = resolve(graph, graph.facts.merge(user) if user != Facts() else graph.facts)
        return run_stages(graph, known, rules, limits or Limits(), tracer, variant=variant)


def profile(
    graph: Graph,
    assume: Sequence[str] = (),
    rules: Sequence[str] = (),
    limits: Limits | None = None,
    *,
    decisive_seconds: float = 20.0,
    progress: Progress = lambda rule: None,
) -> ProfileReport:
    """Optimize a graph with each rule run and measured alone.

    decisive_seconds: time for the question which rules the result hangs on, each of them left out in turn; 0 does not
    ask. Raises EgshapeError as ``optimize`` does."""
    tracer = Tracer()
    done = _run(graph, assume, rules, limits, tracer, Variant(split=True))
    loaded = program(tuple(map(str, rules)), True, Variant(split=True)).rules
    outcome = done.outcome
    unions: dict[str, int] = {}
    for rule, count in outcome.rewrites.items():
        name = Rule.of(rule).name
        unions[name] = unions.get(name, 0) + count
    for scope in outcome.scopes:
        for equality in scope.sizes.equalities:
            name = equality.reason.name
            if name in loaded.by_name:
                unions[name] = unions.get(name, 0) + 1
    without = _without(
        graph,
        assume,
        rules,
        limits,
        done,
        sorted(unions, key=lambda name: (-unions[name], name)),
        decisive_seconds,
        progress,
    )
    rows = [_row(name, loaded, done, unions, without) for name in loaded.by_name if _matched(name, done)]
    return ProfileReport(
        model=graph.name,
        ops_before=_ops(graph),
        ops_after=_ops(done.graph),
        nodes=outcome.nodes,
        status=outcome.status,
        notes=tuple(tracer.notes),
        rules=tuple(sorted(rows, key=lambda row: (-row.unions, -row.seconds, row.rule))),
        steps=tuple(
            StepRow(rule=each.ruleset, before=each.before, after=each.nodes, seconds=round(each.seconds, 6))
            for each in outcome.steps
        ),
    )


def _matched(name: str, done: Optimized) -> int:
    return matched(done.outcome.matches, name)


def _row(
    name: str, loaded: LoadedRules, done: Optimized, unions: dict[str, int], without: dict[str, str]
) -> ProfileRow:
    grew = sum(step.nodes - step.before for step in done.outcome.steps if step.ruleset == name)
    return ProfileRow(
        rule=name,
        where=loaded.by_name[name].where,
        matches=_matched(name, done),
        unions=unions.get(name, 0),
        grew=grew,
        seconds=round(done.outcome.times.get(name, 0.0), 6),
        decisive=None if name not in without else bool(without[name]),
        without=without.get(name, ""),
    )


def _ops(graph: Graph) -> int:
    return sum(1 for _ in graph.body.walk())


def _without(
    graph: Graph,
    assume: Sequence[str],
    rules: Sequence[str],
    limits: Limits | None,
    done: Optimized,
    names: Sequence[str],
    seconds: float,
    progress: Progress,
) -> dict[str, str]:
    """What the result is like without each rule, "" where it is the same; as many rules as time allows."""
    until = time.monotonic() + seconds
    found: dict[str, str] = {}
    for name in names:
        if time.monotonic() >= until:
            break
        progress(name)
        other = _run(graph, assume, rules, limits, Tracer(), Variant(split=True, without=frozenset((name,))))
        found[name] = _difference(done.graph, other.graph)
    return found


def _difference(one: Graph, other: Graph) -> str:
    if str(one) == str(other):
        return ""
    more = _ops(other) - _ops(one)
    if more:
        return f"{abs(more)} {'more' if more > 0 else 'fewer'} op{'' if abs(more) == 1 else 's'}"
    return "other ops, as many"


def trace(
    graph: Graph,
    assume: Sequence[str] = (),
    rules: Sequence[str] = (),
    limits: Limits | None = None,
    *,
    rule: str = "",
    value: str = "",
) -> TraceReport:
    """Every application of a rule over tensors while a graph is optimized, in the order of the ops.

    rule: only this rule, or this ruleset. value: only what concerns ``%7`` of the graph.
    Raises EgshapeError as ``optimize`` does."""
    done = _run(graph, assume, rules, limits, Tracer(), Variant(trace=True))
    loaded = program(tuple(map(str, rules)), True, PLAIN).rules
    wanted = value.removeprefix("%")
    rows = []
    for each in done.outcome.applied:
        name = Rule.of(each.rule).name
        if rule and name != rule and not name.startswith(rule + "/"):
            continue
        if wanted and each.value != wanted and not _mentions(f"{each.before} {each.after}", wanted):
            continue
        rows.append(
            TraceRow(
                rule=each.rule,
                where=loaded.rule(each.rule).where,
                value=each.value,
                before=each.before,
                after=each.after,
                location=each.location,
            )
        )
    return TraceReport(model=graph.name, applications=tuple(rows))


def _mentions(text: str, value: str) -> bool:
    return any(part.rstrip("),") == f"%{value}" for part in text.replace("(", "( ").split())
