"""The map: the stages in order, each a call.

frontends -> encode -> oblige -> saturate -> read -> extract -> rebuild -> verify -> validate -> frontends (out)
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.behind import optimize_behind
from egshape.decide.reason import Entry, Given, Reason, Semantics
from egshape.dims import Dim, const, symbol
from egshape.egraph.ask import Decide
from egshape.egraph.budget import Budget
from egshape.egraph.checks import GIVEN
from egshape.egraph.cost import CostModel, likely_sizes
from egshape.egraph.functions import Functions
from egshape.egraph.obligations import Check
from egshape.egraph.outcome import Became, Outcome, Scope, outcome_of, stopped
from egshape.egraph.process import Allowance
from egshape.egraph.program import PLAIN, Variant, program
from egshape.egraph.rebuild import Names
from egshape.egraph.saturate import session
from egshape.egraph.sizes import Sizes
from egshape.egraph.snapshot import without_collecting
from egshape.egraph.stages import (
    LARGEST_SIZE,
    RegionEntry,
    Setting,
    Watch,
    alone,
    branch_conditions,
    encode,
    extract,
    inside,
    is_program,
    oblige,
    order_of_symbols,
    read,
    rebuild,
    saturate,
)
from egshape.errors import Contradiction, EgshapeError, EngineFault, InternalError
from egshape.facts import Facts, Relation
from egshape.ir.calls import placed_once, substitute, values_of
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.verify import verify
from egshape.limits import Deadlines, LimitReached, Limits, holding
from egshape.ops import REGISTRY
from egshape.ops.checks import assumed_message
from egshape.repeats import has_layers, outlined
from egshape.retold import moved, put_in_line, twice
from egshape.trace import Tracer
from egshape.validate import Verdict, compare, late

VALIDATION_SECONDS = 2.0

_TIMES = 3
"""How often a graph that rules of a user made cheaper goes through the stages once more."""

STRICT = "EGSHAPE_STRICT"
"""Environment variable: let faults of ours surface instead of falling back to the unoptimized graph."""


@dataclass(frozen=True)
class Optimized:
    """What the stages give: the graph, what is known of its sizes, what happened, the likely sizes that costs used, and
    how it compared with the original (None: not compared)."""

    graph: Graph
    sizes: Sizes
    outcome: Outcome
    likely: dict[str, int]
    verdict: Verdict | None = None

    @property
    def difference(self) -> str:
        """How the result differs from the original, "" where it does not as far as was tried."""
        return self.verdict.differences[0] if self.verdict is not None and self.verdict.differences else ""


def run_stages(
    graph: Graph,
    facts: Facts,
    rules: Sequence[str],
    limits: Limits,
    tracer: Tracer,
    explain: bool = True,
    refine_signature: bool = False,
    watch: Watch | None = None,
    variant: Variant = PLAIN,
    deadlines: Deadlines | None = None,
    tolerance: Callable[[Outcome], float] | None = None,
    decide: Decide = "both",
    left: frozenset[Op] = frozenset(),
    share_layers: bool = False,
) -> Optimized:
    """All stages from a graph to the optimized, verified graph. ``watch`` is shown each block's e-graph.

    ``variant`` is for looking at rules. ``deadlines``: those of ``limits`` from now on, where they are not given.
    ``tolerance``: how far the result may be off, None if it is not validated. ``decide``: who decides about sizes.
    ``left``: ops of the graph that stay as they came. ``share_layers``: repeated layers go through the stages once.
    Raises EgshapeError for contradictory facts and wrong rule files; a limit that is met before there is a smaller
    graph, a fault of the engine or of ours give the graph as it came, with a note."""
    deadlines = deadlines or Deadlines.of(limits)
    likely = likely_sizes(facts, [each.name for each in graph.body.symbols])
    order = _Order(order_of_symbols(graph.body.symbols, graph.inputs))
    budget = Budget(
        nodes=limits.nodes,
        memory_mb=deadlines.memory_mb,
        steps=limits.steps,
        deadline=deadlines.rules,
        last=deadlines.graph,
    )
    allowance = Allowance(deadlines.graph, budget.memory())
    loaded = program(tuple(rules), explain, variant)
    setting = Setting(loaded, REGISTRY, CostModel(likely), budget, allowance, order, watch, decide, left, share_layers)
    road = Road(setting, tracer)
    context = road.setting.context()
    believed = entry_facts(graph, facts)
    context.assume_all(believed)
    entry = RegionEntry(context, believed)
    done = Optimized(graph, Sizes(context), Outcome(), likely)
    try:
        with holding(deadlines.graph, deadlines.memory_mb):
            result = road.graph(graph, entry, assumed_checks(facts), refine_signature)
            with tracer.stage("verify"):
                verify(result, equal=_equal(road.outcome))
        done = replace(done, graph=result, sizes=road.outcome.scopes[0].sizes, outcome=road.outcome)
    except LimitReached as reached:
        return replace(done, outcome=road.outcome.then(stopped(reached.limit, road.outcome.grew_most)))
    except Exception as fault:
        return replace(done, outcome=road.outcome.then(_fallback(fault)))
    if tolerance is None:
        return done
    with tracer.stage("validate"):
        return replace(done, verdict=validate(graph, done.graph, facts, deadlines, tolerance(done.outcome)))


@dataclass(frozen=True)
class _Order:
    """By which of equal names one is taken: places of symbols, then their names."""

    places: Mapping[str, tuple[int, int]]

    def __call__(self, name: str) -> tuple[tuple[int, int], str]:
        return self.places.get(name, (3, 0)), name


class Road:
    """The way of one graph through the stages. All that changes: ``outcome``, what its blocks have given so far, and
    ``names``, those that are taken; ``source``: the graph's block as it came."""

    def __init__(self, setting: Setting, tracer: Tracer) -> None:
        self.setting = setting
        self.tracer = tracer
        self.outcome = Outcome()
        self.names = Names()
        self.source = Block((), (), ())

    def graph(self, graph: Graph, entry: RegionEntry, given: Sequence[Check], refine_signature: bool) -> Graph:
        """The graph, optimized, its repeated layers once; then what stands behind checks of sizes that data gives, once
        more."""
        self.source = graph.body
        body = self.by_layers(graph.body, entry, given, refine_signature)
        if body is None:
            self.outcome, self.names = Outcome(), Names()
            body = self.block(graph.body, entry, given, refine_signature)
        if self.setting.program.makes:
            body = self.to_fixpoint(body, entry, given, refine_signature)
        known = self.outcome.scopes[0].sizes.context
        once = placed_once(optimize_behind(self.behind, self.moved, body, known, entry.believed))
        self.moved(once.now)
        return replace(graph, body=once.block)

    def block(
        self, block: Block, entry: RegionEntry, given: Sequence[Check] = (), refine_signature: bool = False
    ) -> Block:
        """A block through the stages. ``given`` are checks that must stand in it first."""
        setting, stage = self.setting, self.tracer.stage
        self.names.take(arg.name for arg in block.args)
        with session(
            setting.program, block, setting.registry, setting.order, entry.context, setting.allowance, setting.decide
        ) as engine:
            with stage("encode"):
                obligations = encode(engine)
            with stage("obligations"):
                walk = oblige(setting, engine, block, entry, obligations, given)
            with stage("saturate"):
                saturated = saturate(setting, engine)
            self._note(outcome_of(setting.program, walk, saturated))
            with stage("read"), without_collecting():
                terms = read(setting, block, walk, saturated)
        self._note(Outcome(scopes=(Scope(block, Sizes(walk.here(entry.held), saturated.sizes), walk.elements),)))
        with stage("extract"), without_collecting():
            extraction = extract(setting, block, walk, terms)
        if setting.watch is not None:
            setting.watch(block, extraction)

        inside_of: dict[Value, Value] = {}
        """What stands for values inside of regions that were copied."""
        became: list[Became] = []

        def optimized(op: Op, region: Block, mapping: Mapping[Value, Value]) -> Block:
            if not is_program(op, region, setting.registry):
                copy = substitute(region, mapping)
                inside_of.update(zip(values_of(region), values_of(copy), strict=True))
                return copy
            held = (*entry.held, *branch_conditions(op, region, walk, setting.registry))
            return self.region(region, mapping, inside(block, op, region, walk, mapping, terms.normal, held))

        functions = Functions(block, terms.normal, self.names.fresh)

        def region(op: Op, region: Block, mapping: Mapping[Value, Value]) -> Block:
            if not functions.calls(op):
                return optimized(op, region, mapping)
            again = functions.again(op)
            if again is not None:
                became.append(again)
                return again.block
            source, believed = functions.apart(op) or (region, None)
            before = len(self.outcome.reasons)
            if believed is None:
                done = optimized(op, region, mapping)
            else:
                done = self.region(source, mapping, alone(setting, source, believed))
            self._note(functions.keep(op, source, done, self.outcome, self.outcome.reasons[before:]))
            return done

        with stage("rebuild"), without_collecting():
            rebuilt = rebuild(setting, block, entry, walk, extraction, region, self.names.fresh, refine_signature)
        standing = {**inside_of, **rebuilt.standing}
        self._note(Outcome(standing=standing, computed=rebuilt.computed, functions=tuple(became)))
        return rebuilt.block

    def region(self, region: Block, mapping: Mapping[Value, Value], entry: RegionEntry) -> Block:
        """A region through the stages; as it is where that takes too long."""
        try:
            return self.block(region, entry)
        except LimitReached as reached:
            self._note(stopped(reached.limit))
        except Contradiction:  # nothing ever runs through it
            pass
        copy = substitute(region, mapping)
        self._note(Outcome(standing=dict(zip(values_of(region), values_of(copy), strict=True))))
        return copy

    def by_layers(
        self, block: Block, entry: RegionEntry, given: Sequence[Check], refine_signature: bool
    ) -> Block | None:
        """A block through the stages, its repeated layers once, and then as a whole. None where that is not asked for,
        or where it has none; where types of what crosses their borders changed; and where the program, or a fact, is
        wrong, which is told of ops and not of layers."""
        if not self.setting.share_layers:
            return None
        with self.tracer.stage("layers"), without_collecting():
            source = outlined(block, self.setting.left)
        if source is block:
            return None
        try:
            called = self.block(source, entry, given, refine_signature)
        except EgshapeError as fault:
            if _is_of_input(fault):
                return None
            raise
        with self.tracer.stage("layers"), without_collecting():
            lined, told = put_in_line(self.outcome, block, source, called)
        if has_layers(lined):
            return None
        self.outcome = told
        return self.whole(lined, entry, given, refine_signature)

    def to_fixpoint(self, block: Block, entry: RegionEntry, given: Sequence[Check], refine_signature: bool) -> Block:
        """A block that rules of a user rewrote, once more as long as that makes it cheaper: some of what they make (a
        list of sizes that are numbers) the shipped rules see only when it is read anew."""
        cost = self.setting.model.block
        for _ in range(_TIMES):
            before = self.outcome
            if before.status != "saturated" or not self.setting.program.fired(before.rewrites):
                break
            found = self.whole(block, entry, given, refine_signature)
            if cost(found) >= cost(block):
                self.outcome = before
                break
            block = found
        return block

    def whole(self, block: Block, entry: RegionEntry, given: Sequence[Check], refine_signature: bool) -> Block:
        """A block whose layers went through the stages apart, once more; as it is where that takes too long."""
        before = self.outcome
        try:
            return self.again(block, entry, given, refine_signature)
        except LimitReached as reached:
            self.outcome = before.then(stopped(reached.limit))
            return block

    def behind(self, block: Block, entry: RegionEntry) -> Block:
        """A part of a block that went through the stages before, once more."""
        return self.again(block, entry)

    def again(
        self, block: Block, entry: RegionEntry, given: Sequence[Check] = (), refine_signature: bool = False
    ) -> Block:
        """A block that went through the stages before, or a part of it, once more: its checks are known."""
        before, self.outcome = self.outcome, Outcome()
        self.names.release(value.name for op in block.walk() for value in op.results)
        try:
            return self.block(block, entry, given, refine_signature)
        finally:
            self.outcome = twice(before, self.outcome, block, self.source)

    def moved(self, now: Mapping[Value, Value]) -> None:
        """Values of the result were made anew."""
        self.outcome = moved(self.outcome, now)

    def _note(self, found: Outcome) -> None:
        self.outcome = self.outcome.then(found)


def validate(graph: Graph, result: Graph, facts: Facts, deadlines: Deadlines, tolerance: float) -> Verdict:
    """How a result compares with the original at a few sizes, in what is left of the time."""
    seconds = min(VALIDATION_SECONDS, deadlines.end - time.monotonic())
    try:
        with holding(deadlines.end, deadlines.memory_mb):
            return compare(graph, result, facts, seconds=max(seconds, 0.0), tolerance=tolerance)
    except LimitReached as reached:
        return Verdict(skipped=late(reached.limit))


def entry_facts(graph: Graph, facts: Facts) -> list[tuple[Relation, Reason]]:
    """What holds when the graph is entered: the facts, and that each size fits its get_dimension_size type."""
    fits: list[tuple[Relation, Reason]] = [
        (Relation("<=", symbol(each.name), const(LARGEST_SIZE + each.offset)), Entry())
        for each in graph.body.symbols
        if each.value in graph.inputs
    ]
    assumed = frozenset(facts.assumed)
    return fits + [(each, _stated(each, assumed)) for each in facts.statements()]


def _stated(fact: Relation, assumed: frozenset[str]) -> Reason:
    """Why a fact holds. Only what the user assumed is named so; what came with the model is checked at entry too."""
    return Semantics(fact.source) if fact.certain else Given(fact.text in assumed)


def assumed_checks(facts: Facts) -> list[Check]:
    """What was assumed is trusted, and checked where the graph is entered."""
    out = []
    for fact in facts.statements():
        if fact.certain:
            continue
        names = sorted(fact.lhs.symbols() | fact.rhs.symbols())
        values = ", ".join(f"{name} is {{{place}}}" for place, name in enumerate(names))
        message = (fact.message or assumed_message(str(fact))) + (f": {values}" if names else "")
        said = "" if fact.message else str(fact)
        for relation in fact.parts():
            out.append(Check(GIVEN, relation, message, "", "kept", None, True, (), tuple(map(symbol, names)), said))
    return out


def _equal(outcome: Outcome) -> Callable[[Dim, Dim], bool]:
    """Equality of sizes as far as anything is known in the graph or a region."""

    def equal(one: Dim, other: Dim) -> bool:
        return any(scope.sizes.equal(one, other) for scope in outcome.scopes)

    return equal


def _is_of_input(fault: EgshapeError) -> bool:
    """Whether the program, or a fact that was given, is wrong."""
    return isinstance(fault, Contradiction) or fault.code == "violated"


def _fallback(fault: Exception) -> Outcome:
    """That the graph stays as it came, for a fault of the engine or of ours. Raises what is wrong with the input."""
    if isinstance(fault, EngineFault | InternalError):
        return Outcome(status="fallback", fault=str(fault))
    if isinstance(fault, EgshapeError):
        if _is_of_input(fault) or fault.code == "rules":
            raise fault
        return Outcome(status="fallback", fault=str(fault))
    if os.environ.get(STRICT):
        raise fault
    internal = InternalError(
        f"a fault of ours, {type(fault).__name__}: {fault}", hint=f"{STRICT}=1 shows where; please report it"
    )
    return Outcome(status="fallback", fault=str(internal))
