"""What a graph costs, by the model of extraction and by the measure of the format that it came in, and results that
would cost more than that.

A result can be larger although it has fewer ops of ours: a condition that an op implies becomes a check of its own,
which is several statements of StableHLO, and sizes that were inputs of an op have to be computed anew. Where these cost
more than the ops that are gone, or save too little to be worth a larger file, it is not taken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from egshape.egraph.checks import GIVEN
from egshape.egraph.cost import CHECK, CostModel
from egshape.egraph.obligations import Check
from egshape.errors import EgshapeError
from egshape.frontends.frontend import Cost, as_read
from egshape.frontends.registry import of_graph
from egshape.ir.calls import written
from egshape.ir.expand import expand
from egshape.ir.graph import Graph, Op
from egshape.pipeline import Optimized
from egshape.report import Changes, without_constants

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

Prefer = Literal["cost", "size"]
"""Whether a file may grow for a result that costs less."""

_WORTH = 0.01
"""The part of the cost that a larger file must save."""

_EQUAL = 1e-9
"""Costs that differ by so small a part of them are equal: they are sums of floats."""


@dataclass(frozen=True, slots=True)
class Measure:
    """How results are compared with a graph: the cost model at the likely sizes, what is preferred, and whether checks
    are nodes of the file."""

    model: CostModel
    prefer: Prefer = "cost"
    checks: bool = True

    def of(self, graph: Graph) -> Measured:
        """What a graph costs."""
        return Measured(self.model.graph(graph), self.model.checks(graph), cost(graph))

    def why_not(self, before: Measured, after: Measured) -> str:
        """Why a result is not taken, "" where it is."""
        if before.file.unit != after.file.unit:
            return "it could not be written" if after.file.unit == OPS else ""
        more, saved = self.more(before, after), before.saved(after)
        if self.grew(before, after) or (more > 0 and (self.prefer == "size" or before.net(after) < _WORTH)):
            return self.larger(before, after)
        if saved < -_EQUAL and not (self.prefer == "size" and more < 0):
            return f"it would cost {-saved:.1%} more at the likely sizes ({self._sizes(before, after)})"
        if after.file.exceeds(replace(before.file, count=after.file.count)):
            return f"it would be larger ({after.file.bytes} bytes of constants, not {before.file.bytes})"
        return ""

    def near(self, before: Measured, after: Measured, other: Measured) -> bool:
        """Whether another result is taken in the place of a larger one: it is smaller, and saves about as much."""
        less = before.net(after) - before.net(other) < _WORTH and self.more(after, other) < 0
        return less and self.gains(before, other)

    def grew(self, before: Measured, after: Measured) -> bool:
        """Whether there are more nodes without checks: then a node is written as several, which the model of cost does
        not see, since to it both are the same ops."""
        return after.file.checks is not None and after.file.count > before.file.count

    def more(self, before: Measured, after: Measured) -> int:
        """How many more statements or nodes a file has."""
        return self._count(after) - self._count(before)

    def larger(self, before: Measured, after: Measured) -> str:
        """That a result would be larger, and what it would save."""
        saved = before.net(after)
        plain = self.prefer == "size" or saved < _EQUAL or self.grew(before, after)
        less = "" if plain else f", and save {saved:.1%} of the cost"
        return f"it would be larger ({self._sizes(before, after)}{less})"

    def grown(self, before: Measured, after: Measured) -> str:
        """That a larger result is taken."""
        less = f"{before.net(after):.1%} of the cost at the likely sizes"
        return f"larger ({self._sizes(before, after)}), since that saves {less}; prefer size to keep it small"

    def _sizes(self, before: Measured, after: Measured) -> str:
        return f"{self._count(after)} {after.file.unit}, not {self._count(before)}"

    def _count(self, measured: Measured) -> int:
        return measured.file.count + (measured.file.checks or 0) * self.checks

    def gains(self, before: Measured, after: Measured) -> bool:
        """Whether a result is taken, and better than the graph."""
        less = self.more(before, after) < 0 or before.saved(after) > _EQUAL
        return before.file.unit == after.file.unit and less and not self.why_not(before, after)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a graph costs by the model of extraction, and as a file."""

    cost: float
    checks: float
    """Of what it checks. An op did that by itself, so it counts only where it makes the file larger."""
    file: Cost

    def saved(self, after: Measured) -> float:
        """The part of its cost that another one saves."""
        return (self.cost - after.cost) / self.cost if self.cost else float(-after.cost)

    def net(self, after: Measured) -> float:
        """The same with what the checks cost."""
        return self.saved(after) - (after.checks - self.checks) / (self.cost or 1.0)


def cost(graph: Graph) -> Cost:
    """What a graph costs in the format that it came in; ops of ours where there is none, or it cannot be written."""
    ops = sum(op.name != "constant" for op in graph.body.walk())
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
    """How large a graph is: the parts of the model that it was read of, ops of ours of another one, constants not
    counted."""
    known, frontend = as_read(graph), of_graph(graph)
    if known is not None and frontend is not None:
        return f"{sum(without_constants(known).values())} {frontend.kinds(graph)[0]}"
    return f"{sum(op.name != 'constant' for op in written(graph.body))} {OPS}"


Again = Callable[[frozenset[Op]], Optimized | None]
"""Optimizes the graph once more, with some ops left as they came; None where there is no time, or nothing better."""


def never_worse(graph: Graph, done: Optimized, again: Again, measure: Measure) -> tuple[Optimized, str]:
    """The result, with a note where its file is larger; where it would cost more than the graph, or a part of it grows
    for nothing, one in which the ops stay as they came that make it grow, or the graph itself, and a note that says so.

    The checks of what the user assumed do not count: they were asked for, and stay."""
    if of_graph(graph) is None:
        return done, ""
    before, after = measure.of(graph), _measured(done, measure)
    why = measure.why_not(before, after)
    if not why and measure.more(before, after) <= 0:
        return done, ""
    part = _in_part(graph, done, before, again, measure)
    if part is not None:
        result, left = part
        # What is known of sizes holds of the program, whatever was left of it.
        scopes = replace(result.outcome, scopes=done.outcome.scopes)
        return replace(result, sizes=done.sizes, outcome=scopes), _said(left, why or measure.larger(before, after))
    if not why:
        return done, measure.grown(before, after)
    given = _given(done)
    values = [*graph.inputs, *(value for op in graph.body.walk() for value in op.results)]
    outcome = replace(done.outcome, rewrites={}, reasons=(), standing={value: value for value in values})
    checked = _with_ops(graph, (*given, *graph.body.ops))
    return replace(done, graph=checked, outcome=outcome), f"left as it was: {why}"


def _in_part(
    graph: Graph, done: Optimized, before: Measured, again: Again, measure: Measure
) -> tuple[Optimized, Mapping[Op, frozenset[str]]] | None:
    """A result that costs less than the graph, and about as little as what was found where that may be taken, and the
    ops that stay in it as they came; None where none was found.

    First the ops stay whose conditions, as checks, made their part of the graph larger; where that is not enough, all
    ops that have such conditions, and then those that needed what these said. Where it is too much, only those whose
    part does not save what makes it worth it."""
    checked = _checked(done)
    own = _stating(done, (each for each in done.outcome.checks if each.needed_by is not None))
    if not own or measure.why_not(before, _measured(done, measure, own)):  # it is not the checks that grew
        return None
    parts = _by_symbol(graph), _by_symbol(done.graph)
    groups = [group for group in _together(checked) if _grew(group, *parts)]
    left = _joined(groups)
    after = _measured(done, measure)
    if not measure.why_not(before, after):
        idle = _joined(group for group in groups if not _pays(group, *parts, before, measure))
        for each in dict.fromkeys(map(frozenset, (left, idle) if idle else (left,))):
            found = again(each) if each else None
            if found is not None and measure.near(before, after, _measured(found, measure)):
                return found, {op: checked[op] for op in checked if op in each}
        return None
    left = left or checked
    for _ in range(_ROUNDS):
        found = again(frozenset(left))
        if found is None or measure.gains(before, _measured(found, measure)):
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


def _joined(groups: Iterable[Mapping[Op, frozenset[str]]]) -> dict[Op, frozenset[str]]:
    return dict(each for group in groups for each in group.items())


Parts = Mapping[str, Sequence[Op]]
"""The ops of a graph by the symbols that they have to do with."""


def _by_symbol(graph: Graph) -> Parts:
    found: dict[str, list[Op]] = {}
    for op in graph.body.ops:
        for name in dict.fromkeys(_told(op)):
            found.setdefault(name, []).append(op)
    return found


def _grew(group: Mapping[Op, frozenset[str]], graph: Parts, result: Parts) -> bool:
    """Whether the part of a graph that has to do with sizes of a group became larger, about."""
    names = frozenset[str]().union(*group.values())
    return _size(_speaking(result, names)) > _size(_speaking(graph, names))


def _pays(group: Mapping[Op, frozenset[str]], graph: Parts, result: Parts, before: Measured, measure: Measure) -> bool:
    """Whether that part saves enough to be worth it."""
    names = frozenset[str]().union(*group.values())
    was, now = (sum(map(measure.model.op, _speaking(each, names))) for each in (graph, result))
    return was - now - CHECK * len(group) >= _WORTH * before.cost


def _speaking(parts: Parts, names: frozenset[str]) -> Iterable[Op]:
    """The ops that have to do with some sizes."""
    return dict.fromkeys(op for name in sorted(names) for op in parts.get(name, ()))


def _size(ops: Iterable[Op]) -> int:
    """About how many statements ops are."""
    return sum(_OF_CHECK if op.name == "check" else 1 for op in ops)


def _told(op: Op) -> Iterator[str]:
    """The symbols of the sizes of an op's values, and of a check."""
    for value in (*op.operands, *op.results):
        for size in value.type.shape or ():
            yield from size.symbols()
    for size in op.attrs.get("sides", ()):
        yield from size.symbols()


def _measured(done: Optimized, measure: Measure, without: Iterable[Op] = ()) -> Measured:
    """What a result costs, but for the checks of what the user assumed, and some others."""
    apart = {*_given(done), *without}
    return measure.of(_with_ops(done.graph, (op for op in done.graph.body.ops if op not in apart)))


def _said(left: Collection[Op], why: str) -> str:
    """Which ops stay as they came, and why."""
    shown = ", ".join(f"%{op.results[0].name}" if op.results else op.name for op in list(left)[:_SHOWN])
    more = f" and {len(left) - _SHOWN} others" if len(left) > _SHOWN else ""
    return f"left as they were: {shown}{more}; with what they need of sizes as checks {why}"


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
