"""What the stages of a graph's blocks gave, collected: checks, rewrites with their reasons, sizes, why rules ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from egshape.decide.reason import Rule
from egshape.egraph.applications import Applied, read_applications
from egshape.egraph.budget import STEPS, Growth, Stop
from egshape.egraph.obligations import Check, Walk
from egshape.egraph.program import Program
from egshape.egraph.saturate import Saturated
from egshape.egraph.sizes import Sizes
from egshape.ir.graph import Block, Value
from egshape.rulelang.provenance import NAME_STRIDE

Number = TypeVar("Number", int, float)


class Reason(NamedTuple):
    """A rule united a value (or one made while it was rewritten) with another term; ``other`` is the value of the
    original graph that this term was, "" for a new one."""

    value: str
    op: str
    rule: Rule
    location: str
    other: str = ""
    made: bool = False
    """Whether what equals ``other`` is one that was made, and not the value."""


class Scope(NamedTuple):
    """What is known of sizes in one block (the graph's own, or a region's)."""

    block: Block
    sizes: Sizes
    elements: Mapping[Value, np.ndarray]
    """The sizes that shape code computes."""


class Became(NamedTuple):
    """What became of a call: ``source`` is the function that went through the stages, ``done`` what came out, and
    ``block`` that or a copy of it."""

    source: Block
    done: Block
    block: Block


@dataclass(frozen=True)
class Outcome:
    """What blocks gave, in the order in which they were entered: the graph first, then its regions."""

    checks: tuple[Check, ...] = ()
    rewrites: Mapping[str, int] = field(default_factory=dict)
    """Unions of tensors by rule (matches where explanations are off)."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    """Each rewrite of a value, in no order."""
    scopes: tuple[Scope, ...] = ()
    standing: Mapping[Value, Value] = field(default_factory=dict)
    """What stands in the result for each value of the original that is still computed."""
    computed: tuple[Value, ...] = ()
    """What stays computed, though it is the same at every run: as constants it would make the program grow."""
    nodes: int = 0
    status: str = "saturated"
    grew_most: str = ""
    fault: str = ""
    """Why there is no result, where the status is "fallback"."""
    stops: tuple[Stop, ...] = ()
    """Why rules ended before their end, block by block."""
    steps: tuple[Growth, ...] = ()
    """Steps that changed an e-graph, block by block: the rules over sizes, then those over tensors."""
    matches: Mapping[str, int] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the engine by ruleset."""
    applied: tuple[Applied, ...] = ()
    """Every application of a rule over tensors, where the program keeps them."""
    functions: tuple[Became, ...] = ()
    """What became of calls."""

    def then(self, later: Outcome) -> Outcome:
        """This, and what came later."""
        return Outcome(
            checks=(*self.checks, *later.checks),
            rewrites=_sum(self.rewrites, later.rewrites),
            seconds=_sum(self.seconds, later.seconds),
            reasons=(*self.reasons, *later.reasons),
            scopes=(*self.scopes, *later.scopes),
            standing={**self.standing, **later.standing},
            computed=(*self.computed, *later.computed),
            nodes=self.nodes + later.nodes,
            status=self.status if later.status == "saturated" else later.status,
            grew_most=later.grew_most or self.grew_most,
            fault=later.fault or self.fault,
            stops=(*self.stops, *later.stops),
            steps=(*self.steps, *later.steps),
            matches=_sum(self.matches, later.matches),
            times=_sum(self.times, later.times),
            applied=(*self.applied, *later.applied),
            functions=(*self.functions, *later.functions),
        )


def _sum(one: Mapping[str, Number], other: Mapping[str, Number]) -> Mapping[str, Number]:
    """Numbers by name, added up."""
    total = dict(one)
    for name, number in other.items():
        total[name] = total[name] + number if name in total else number
    return total


def stopped(limit: str, rule: str = "") -> Outcome:
    """That a limit was met, and the rule that had grown most."""
    return Outcome(status="budget", stops=(Stop(limit, "", rule),))


def outcome_of(program: Program, walk: Walk, saturated: Saturated) -> Outcome:
    """What the obligations of a block and the rules over it gave."""
    sizes = saturated.sizes
    rewrites, reasons = _reasons(saturated)
    if not program.explains:
        rewrites.update({rule: n for rule, n in saturated.matches.items() if rule.startswith("tensor.")})
    stops = tuple(stop for stop in (sizes.stop, saturated.stop) if stop is not None)
    limited = saturated.status == "budget" or any(stop.limit != STEPS for stop in stops)
    return Outcome(
        checks=walk.checks,
        rewrites=rewrites,
        seconds=saturated.seconds_by_rule,
        reasons=tuple(reasons),
        nodes=saturated.nodes,
        status="budget" if limited else "saturated",
        grew_most=saturated.grew_most,
        stops=stops,
        steps=(*sizes.steps, *saturated.steps),
        matches=_sum(sizes.matches, saturated.matches),
        times=_sum(sizes.times, saturated.times),
        applied=tuple(read_applications(program.applications, saturated)),
    )


def _reasons(saturated: Saturated) -> tuple[Counter[str], list[Reason]]:
    """How often each rule united tensors, and of which values."""
    rewrites, reasons = Counter[str](), []
    values = saturated.encoding.values
    for node, to, rule in saturated.snapshot.table("why"):
        rewrites[rule] += 1
        found = saturated.encoding.op_of_node.get(node % NAME_STRIDE)
        if found is not None:
            value = values[node % NAME_STRIDE]
            other = values[to] if 0 <= to < len(values) else None
            reasons.append(
                Reason(
                    value.name if value else "",
                    found[1].name,
                    Rule.of(rule),
                    str(found[1].location),
                    other.name if other else "",
                    made=node >= NAME_STRIDE,
                )
            )
    return rewrites, reasons
