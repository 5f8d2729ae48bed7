"""Optimize a block and the regions inside: obligations, saturation, extraction, and the block rebuilt."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from egshape.decide.context import Context
from egshape.dims import Dim
from egshape.egraph.applications import Applied, read_applications
from egshape.egraph.budget import STEPS, Budget, Growth, Stop
from egshape.egraph.checks import without_implied
from egshape.egraph.cost import CostModel
from egshape.egraph.effects import must_stay, without_unread
from egshape.egraph.exchange import ExchangeState
from egshape.egraph.extract import Extraction
from egshape.egraph.obligations import Check, Walk, Walker
from egshape.egraph.process import Allowance
from egshape.egraph.program import Program
from egshape.egraph.rebuild import Rebuilder, substitute
from egshape.egraph.saturate import Saturated, session
from egshape.egraph.snapshot import without_collecting
from egshape.facts import Relation
from egshape.ir.graph import Block, Op, SymbolDef, Value
from egshape.limits import LimitReached
from egshape.ops.base import Registry
from egshape.rulelang.provenance import NAME_STRIDE
from egshape.trace import Tracer

NESTED = {"while", "if", "case", "composite"}
"""Ops whose regions are programs of their own; other regions are scalar reducers and stay as they are."""


class Reason(NamedTuple):
    """A rule united a value (or one made while it was rewritten) with another term; ``other`` is the value of the
    original graph that this term was, "" for a new one."""

    value: str
    op: str
    rule: str
    location: str
    other: str = ""


class Scope(NamedTuple):
    """What was derived of sizes in one block (the graph's own, or a region's), and what was believed there."""

    block: Block
    sizes: ExchangeState
    context: Context
    elements: Mapping[Value, np.ndarray]
    """The sizes that shape code computes."""


@dataclass
class Outcome:
    """What optimizing collected over all blocks."""

    checks: list[Check] = field(default_factory=list)
    rewrites: Counter[str] = field(default_factory=Counter)
    """Unions of tensors by rule (matches where explanations are off)."""
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    reasons: list[Reason] = field(default_factory=list)
    """Each rewrite of a value, in no order."""
    sizes: list[ExchangeState] = field(default_factory=list)
    """What was derived of sizes, of the graph first, then of regions."""
    scopes: list[Scope] = field(default_factory=list)
    """The blocks to which ``sizes`` belong, in the same order."""
    standing: dict[Value, Value] = field(default_factory=dict)
    """What stands in the result for each value of the original that is still computed."""
    nodes: int = 0
    status: str = "saturated"
    grew_most: str = ""
    fault: str = ""
    """Why there is no result, where the status is "fallback"."""
    stops: list[Stop] = field(default_factory=list)
    """Why rules ended before their end, block by block."""
    steps: list[Growth] = field(default_factory=list)
    """Steps that changed an e-graph, block by block: the rules over sizes, then those over tensors."""
    matches: Counter[str] = field(default_factory=Counter)
    times: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds of the engine by ruleset."""
    applied: list[Applied] = field(default_factory=list)
    """Every application of a rule over tensors, where the program keeps them."""


@dataclass(frozen=True)
class RegionEntry:
    """What a block is entered with.

    believed: what holds, with reasons, as the context knows it too. symbols: the sizes that are known then.
    elements, captured: of values around a region, their elements and what they became. normal: the normal form of
    sizes around a region, None for the graph itself."""

    context: Context
    believed: Sequence[tuple[Relation, str]]
    symbols: frozenset[str] = frozenset()
    elements: Mapping[Value, np.ndarray] = field(default_factory=dict)
    captured: Mapping[Value, Value] = field(default_factory=dict)
    normal: Callable[[Dim], Dim] | None = None


Watch = Callable[[Block, Extraction, Sequence[int]], None]
"""Is shown each block's e-graph when its choices are final, with the classes that the result needs."""


class BlockOptimizer:
    """Optimizes blocks of one graph with one program, one cost model and one budget."""

    def __init__(self, program: Program, registry: Registry, model: CostModel, budget: Budget, tracer: Tracer,
                 order: Callable[[str], Any], watch: Watch | None = None) -> None:
        self.order = order
        self.watch = watch
        self.program = program
        self.registry = registry
        self.model = model
        self.budget = replace(budget, seconds=None, deadline=budget.until())
        self.allowance = Allowance(float("inf") if budget.last is None else budget.last, budget.memory())
        self.tracer = tracer
        self.outcome = Outcome()
        self._names: Counter[str] = Counter()

    def run(self, block: Block, around: RegionEntry, given: Sequence[Check] = (),
            refine_signature: bool = False) -> Block:
        """The optimized block. ``given`` are checks that must stand in it first."""
        for arg in block.args:
            self._names[arg.name] += 1
        with session(self.program, block, self.registry, self.order, around.context,
                     self.allowance) as open_session:
            with self.tracer.stage("encode"):
                obligations = open_session.load()
            with self.tracer.stage("obligations"):
                unchecked = around.context.copy()
                walker = Walker(block, around.context, around.symbols, self.registry, around.elements,
                                around.believed, top=around.normal is None)
                walker.walk.checks += given
                walk = walker.run(obligations)
                walk.checks = without_implied(walk.checks, unchecked)
                open_session.believe(walk, self.budget)
            with self.tracer.stage("saturate"):
                saturated = open_session.saturate(self.program.phases, self.budget)
            self._note(saturated, walk)
            with self.tracer.stage("extract"), without_collecting():
                extraction = self._extraction(block, walker.entry, walk.guarded, saturated)
        self.outcome.sizes.append(saturated.sizes)
        self.outcome.scopes.append(Scope(block, saturated.sizes, walk.context, walk.elements))
        return self._rebuild(block, around, walk, walker.entry, extraction, refine_signature)

    def _note(self, saturated: Saturated, walk: Walk) -> None:
        out = self.outcome
        out.checks += walk.checks
        values = saturated.encoding.values
        for node, to, rule in saturated.snapshot.table("why"):
            out.rewrites[rule] += 1
            found = saturated.encoding.op_of_node.get(node % NAME_STRIDE)
            if found is not None:
                value = values[node % NAME_STRIDE]
                other = values[to] if 0 <= to < len(values) else None
                out.reasons.append(Reason(value.name if value else "", found[1].name, rule, str(found[1].location),
                                          other.name if other else ""))
        if not self.program.explains:
            out.rewrites.update({rule: n for rule, n in saturated.matches.items() if rule.startswith("tensor.")})
        for rule, seconds in saturated.seconds_by_rule.items():
            out.seconds[rule] += seconds
        out.nodes += saturated.nodes
        out.steps += [*saturated.sizes.steps, *saturated.steps]
        for matches in (saturated.sizes.matches, saturated.matches):
            out.matches.update(matches)
        for spent in (saturated.sizes.times, saturated.times):
            for ruleset, seconds in spent.items():
                out.times[ruleset] += seconds
        out.applied += read_applications(self.program.applications, saturated)
        out.grew_most = saturated.grew_most or out.grew_most
        out.stops += [stop for stop in (saturated.sizes.stop, saturated.stop) if stop is not None]
        if saturated.status == "budget" or any(stop.limit != STEPS for stop in out.stops):
            out.status = "budget"

    def _extraction(self, block: Block, entry: frozenset[str], guarded: frozenset[int],
                    saturated: Saturated) -> Extraction:
        """Choose while the engine is open: vectors can be read only then."""
        symbols = {symbol.name: symbol for symbol in block.symbols if symbol.name not in entry}
        encoding = saturated.encoding

        def leaves(node: int) -> Sequence[int] | None:
            found = encoding.op_of_node.get(node)
            if found is None:
                return () if encoding.values[node] is not None else None
            if found[0] not in guarded and not _is_leaf(self.registry, found[1]):
                return None
            return [encoding.node_of[value] for value in _reads(found[1])]

        return Extraction(saturated, self.registry, self.model, symbols, leaves)

    def _rebuild(self, block: Block, around: RegionEntry, walk: Walk, entry: frozenset[str], extraction: Extraction,
                 refine_signature: bool) -> Block:
        normal = extraction.normal
        effects = [(index, op) for index, op in enumerate(block.ops)
                   if op.name != "check" and must_stay(op, self.registry)]

        def regions(op: Op, region: Block, mapping: Mapping[Value, Value]) -> Block:
            if op.name not in NESTED or op.attrs.get("whole") or not _worthwhile(region):
                return substitute(region, mapping)
            inner = RegionEntry(walk.context.copy(), walk.believed, entry | {symbol.name for symbol in block.symbols},
                                 walk.elements, mapping, normal)
            try:
                return self.run(region, inner)
            except LimitReached as reached:
                self.outcome.status = "budget"
                self.outcome.stops.append(Stop(reached.limit, "", ""))
                return substitute(region, mapping)

        with self.tracer.stage("rebuild"), without_collecting():
            rebuilder = Rebuilder(block, extraction, self.registry, around.captured, regions, self._names,
                                  walk.elements, around.normal, refine_signature)
            kept = _distinct([check for check in walk.checks if check.status != "proved"])
            roots = rebuilder.roots(kept, [op for _, op in effects])
            extraction.refine(roots)
            extraction.stay(roots)
            if self.watch is not None:
                self.watch(block, extraction, roots)
            rebuilt = without_unread(rebuilder.run(kept, effects), self.registry)
            there = {*rebuilt.args, *around.captured.values(), *(value for op in rebuilt.ops for value in op.results)}
            self.outcome.standing.update((old, new) for old, new in rebuilder.standing().items() if new in there)
            return rebuilt


def _reads(op: Op) -> list[Value]:
    """What an op reads, the captures of its regions included."""
    return [*op.operands, *dict.fromkeys(value for region in op.regions for value in region.captures())]


def _is_leaf(registry: Registry, op: Op) -> bool:
    """Ops that the e-graph sees only as the values they give."""
    return registry[op.name].effect or any(value.type.shape is None for value in op.results)


def _worthwhile(region: Block) -> bool:
    """A region of scalar ops only has nothing to gain."""
    return any(value.type.shape != () for op in region.walk() for value in op.results)


def _distinct(checks: Sequence[Check]) -> list[Check]:
    """Checks without repetitions of one relation on sizes."""
    seen: set[tuple[str, Dim, Dim]] = set()
    out = []
    for check in checks:
        if check.relation is not None:
            key = (check.relation.kind, check.relation.lhs, check.relation.rhs)
            if key in seen:
                continue
            seen.add(key)
        out.append(check)
    return out


def order_of_symbols(symbols: Sequence[SymbolDef], inputs: Sequence[Value]) -> dict[str, tuple[int, int]]:
    """Which symbols stay when sizes are equal: named ones, then input axes in order, then data-dependent ones."""
    out = {}
    for place, symbol in enumerate(symbols):
        nameless = symbol.name == f"{symbol.value.name}.{symbol.axis}"
        out[symbol.name] = (2 if symbol.value not in inputs else int(nameless), place)
    return out



