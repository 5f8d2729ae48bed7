"""What a graph costs by the measure of the format that it came in, and results that would cost more than that.

A result can be larger although it has fewer ops of ours: a condition that an op implies becomes a check of its own,
which is several statements of StableHLO, and sizes that were inputs of an op have to be computed anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from egshape.egraph.checks import GIVEN
from egshape.egraph.obligations import Check
from egshape.errors import EgshapeError
from egshape.frontends.frontend import Cost, as_read
from egshape.frontends.registry import of_graph
from egshape.ir.calls import written
from egshape.ir.expand import expand
from egshape.ir.graph import Graph, Op
from egshape.pipeline import Optimized
from egshape.report import Changes

MOST_OPS = 5_000
"""Larger graphs are not written to be measured (50 to 100 us an op, several times): their own ops count."""
MOST_COUNTED = 30_000
"""Nor are larger ones written once, only to count what they are."""

_ROUNDS = 3
"""How often further ops stay as they came, since they need what those needed before them."""

_OF_CHECK = 4
"""About how many statements a check is."""

_SHOWN = 3
"""How many ops a note names."""

OPS = "ops"
"""The unit of what is not written."""


def cost(graph: Graph) -> Cost:
    """What a graph costs in the format that it came in; ops of ours where there is none, or it cannot be written."""
    ops = sum(1 for _ in graph.body.walk())
    frontend = of_graph(graph)
    try:
        if ops <= MOST_OPS and frontend is not None:
            return frontend.cost(expand(graph, keep=True))
    except (EgshapeError, MemoryError, ValueError):  # numpy's, of an array that is larger than memory or than integers
        pass  # saying what cannot be written is for whoever saves the graph
    return Cost(ops, OPS)


def changes(before: Graph, after: Graph) -> Changes | None:
    """The parts of two graphs by kind, as the format counts them that the first came in, and as its file has them where
    it is as it was read. None without a format, and where a graph cannot be written, or is too large for that."""
    frontend = of_graph(before)
    if frontend is None or sum(1 for _ in after.body.walk()) > MOST_COUNTED:
        return None
    try:
        unit, old = frontend.kinds(before)
        return Changes(unit=unit, before=old, after=frontend.kinds(expand(after, keep=True))[1])
    except (EgshapeError, MemoryError, ValueError):
        return None


def counted(graph: Graph) -> str:
    """How large a graph is: the parts of the model that it was read of, ops of ours of another one."""
    known, frontend = as_read(graph), of_graph(graph)
    if known is not None and frontend is not None:
        return f"{sum(known.values())} {frontend.kinds(graph)[0]}"
    return f"{sum(1 for _ in written(graph.body))} {OPS}"


Again = Callable[[frozenset[Op]], Optimized | None]
"""Optimizes the graph once more, with some ops left as they came; None where there is no time, or nothing better."""


def never_worse(graph: Graph, done: Optimized, again: Again) -> tuple[Optimized, str]:
    """The result; where it would cost more than the graph, one in which the ops stay as they came that make it grow,
    or the graph itself; then also a note that says so.

    The checks of what the user assumed do not count: they were asked for, and stay."""
    if of_graph(graph) is None:
        return done, ""
    before = cost(graph)
    why = _why(before, _cost(done))
    if not why:
        return done, ""
    part = _in_part(graph, done, before, again)
    if part is not None:
        found, left = part
        # What is known of sizes holds of the program, whatever was left of it.
        scopes = replace(found.outcome, scopes=done.outcome.scopes)
        return replace(found, sizes=done.sizes, outcome=scopes), _said(left, why)
    given = _given(done)
    values = [*graph.inputs, *(value for op in graph.body.walk() for value in op.results)]
    outcome = replace(done.outcome, rewrites={}, reasons=(), standing={value: value for value in values})
    checked = _with_ops(graph, (*given, *graph.body.ops))
    return replace(done, graph=checked, outcome=outcome), f"left as it was: {why}"


def _in_part(
    graph: Graph, done: Optimized, before: Cost, again: Again
) -> tuple[Optimized, Mapping[Op, frozenset[str]]] | None:
    """A result that costs less than the graph, and the ops that stay in it as they came; None where none was found.

    First the ops stay whose conditions, as checks, made their part of the graph larger; where that is not enough, all
    ops that have such conditions, and then those that needed what these said."""
    checked = _checked(done)
    own = _stating(done, (each for each in done.outcome.checks if each.needed_by is not None))
    if not own or _why(before, _cost(done, own)):  # it is not the checks that grew
        return None
    left = dict(each for group in _together(checked) if _grew(group, graph, done.graph) for each in group.items())
    left = left or checked
    for _ in range(_ROUNDS):
        found = again(frozenset(left))
        if found is None or _saves(found, before):
            return None if found is None else (found, left)
        more = {**left, **checked, **_checked(found)}
        if more.keys() == left.keys():
            break
        left = more
    return None


def _checked(done: Optimized) -> dict[Op, frozenset[str]]:
    """The ops of which a condition became a check, with the symbols that it speaks of."""
    out: dict[Op, frozenset[str]] = {}
    for check in done.outcome.checks:
        if check.status == "kept" and check.needed_by is not None and check.relation is not None:
            out[check.needed_by] = out.get(check.needed_by, frozenset()) | check.relation.symbols()
    return out


def _together(ops: Mapping[Op, frozenset[str]]) -> list[dict[Op, frozenset[str]]]:
    """The ops in groups that speak of the same sizes."""
    groups: list[tuple[dict[Op, frozenset[str]], frozenset[str]]] = []
    for op, names in ops.items():
        joined, all_names, others = {op: names}, names, []
        for group in groups:
            if group[1].isdisjoint(names):
                others.append(group)
            else:
                joined, all_names = {**group[0], **joined}, all_names | group[1]
        groups = [*others, (joined, all_names)]
    return [group for group, _ in groups]


def _grew(group: Mapping[Op, frozenset[str]], graph: Graph, result: Graph) -> bool:
    """Whether the part of a graph that has to do with sizes of a group became larger, about."""
    names = frozenset[str]().union(*group.values())
    return _size(result, names) > _size(graph, names)


def _size(graph: Graph, names: frozenset[str]) -> int:
    """About how many statements have to do with some sizes."""
    return sum(_OF_CHECK if op.name == "check" else 1 for op in graph.body.walk() if not names.isdisjoint(_told(op)))


def _told(op: Op) -> Iterator[str]:
    """The symbols of the sizes of an op's values, and of a check."""
    for value in (*op.operands, *op.results):
        for size in value.type.shape or ():
            yield from size.symbols()
    for size in op.attrs.get("sides", ()):
        yield from size.symbols()


def _saves(done: Optimized, before: Cost) -> bool:
    after = _cost(done)
    return after.unit == before.unit and after.count < before.count and not after.exceeds(before)


def _cost(done: Optimized, without: Iterable[Op] = ()) -> Cost:
    """What a result costs, but for the checks of what the user assumed, and some others."""
    apart = {*_given(done), *without}
    return cost(_with_ops(done.graph, (op for op in done.graph.body.ops if op not in apart)))


def _said(left: Collection[Op], why: str) -> str:
    """Which ops stay as they came, and why."""
    shown = ", ".join(f"%{op.results[0].name}" if op.results else op.name for op in list(left)[:_SHOWN])
    more = f" and {len(left) - _SHOWN} others" if len(left) > _SHOWN else ""
    return f"left as they were: {shown}{more}; with what they need of sizes as checks {why}"


def _why(before: Cost, after: Cost) -> str:
    """Why a result is not taken, "" where it is."""
    if before.unit != after.unit:
        return "it could not be written" if after.unit == OPS else ""
    if after.count > before.count:
        return f"it would be larger ({after.count} {after.unit}, not {before.count})"
    more = after.exceeds(before)
    return f"it would be larger ({after.bytes} bytes of constants, not {before.bytes})" if more else ""


def _given(done: Optimized) -> list[Op]:
    """The checks in a result of what the user assumed."""
    return _stating(done, (each for each in done.outcome.checks if each.index == GIVEN))


def _stating(done: Optimized, checks: Iterable[Check]) -> list[Op]:
    """The ops of a result that make some checks of sizes."""
    relations = {(each.kind, each.lhs, each.rhs) for each in (check.relation for check in checks) if each is not None}
    return [
        op
        for op in done.graph.body.ops
        if op.name == "check" and (op.attrs["relation"], *op.attrs["sides"]) in relations
    ]


def _with_ops(graph: Graph, ops: Iterable[Op]) -> Graph:
    return replace(graph, body=replace(graph.body, ops=tuple(ops)))
