"""The stages between a block that came in and the one that goes out, each a function of what the ones before it gave.
``egshape/pipeline.py`` calls them in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from egshape.decide.context import Context
from egshape.decide.reason import Believed, Branch, Entry, Semantics
from egshape.dims import Dim, const
from egshape.dims import symbol as dim_of
from egshape.egraph.ask import Decide, EngineContext
from egshape.egraph.budget import Budget
from egshape.egraph.checks import without_implied
from egshape.egraph.cost import CostModel
from egshape.egraph.effects import is_opaque_effect, must_stay, without_unread
from egshape.egraph.encode import is_told
from egshape.egraph.extract import Extraction, extracted
from egshape.egraph.obligations import Check, Obligation, Walk, Walker
from egshape.egraph.process import Allowance
from egshape.egraph.program import Program
from egshape.egraph.rebuild import Rebuilder, RegionRebuilder
from egshape.egraph.saturate import Saturated, Session
from egshape.egraph.terms import Terms
from egshape.facts import Relation
from egshape.ir.calls import made_sizes, size_names, trimmed
from egshape.ir.graph import Block, Op, SymbolDef, Value
from egshape.ops.base import Registry


@dataclass(frozen=True)
class RegionEntry:
    """What a block is entered with.

    believed: what holds, with reasons, as the context knows it too. symbols: the sizes that are known then.
    elements, captured: of values around a region, their elements and what they became. normal: the normal form of
    sizes around a region, None for the graph itself. held: the conditions of the branches that it lies in. same: what
    symbols are that come of the same data as others."""

    context: Context
    believed: Sequence[Believed]
    symbols: frozenset[str] = frozenset()
    elements: Mapping[Value, np.ndarray] = field(default_factory=dict)
    captured: Mapping[Value, Value] = field(default_factory=dict)
    normal: Callable[[Dim], Dim] | None = None
    held: Sequence[Believed] = ()
    same: Mapping[str, Dim] = field(default_factory=dict)


LARGEST_SIZE = 2**31 - 1
"""Each single size fits the i32 that get_dimension_size gives: an entry fact."""

Watch = Callable[[Block, Extraction], None]
"""Is shown each block's e-graph when its choices are final."""


@dataclass(frozen=True)
class Setting:
    """What all blocks of a graph share: program, ops, costs, limits, and which symbols stay when sizes are equal.

    left: ops that stay as they came; what they need of sizes is neither checked nor used. share_layers: whether
    repeated layers go through the stages once."""

    program: Program
    registry: Registry
    model: CostModel
    budget: Budget
    allowance: Allowance
    order: Callable[[str], Any]
    watch: Watch | None = None
    decide: Decide = "both"
    left: frozenset[Op] = frozenset()
    share_layers: bool = False

    def context(self) -> Context:
        """What is known of sizes where nothing is said of them."""
        if self.decide == "engine":
            return EngineContext(self.program, self.order)
        return Context(symbol_order=self.order)


class Rebuilt(NamedTuple):
    """A block that goes out, and what stands in it for values of the one that came in.

    computed: values that are the same at every run, and would make the program grow as constants."""

    block: Block
    standing: Mapping[Value, Value]
    computed: tuple[Value, ...]


def encode(session: Session) -> Sequence[Obligation]:
    """Load the block into the engine; what its ops imply of sizes, in program order."""
    return session.load()


def oblige(
    setting: Setting,
    session: Session,
    block: Block,
    entry: RegionEntry,
    obligations: Sequence[Obligation],
    given: Sequence[Check] = (),
) -> Walk:
    """Prove what the ops imply, or keep it as a check; the engine believes what rewrites may use. ``given`` are checks
    that must stand in the block first."""
    left = frozenset(index for index, op in enumerate(block.ops) if op in setting.left)
    walk = Walker(
        block,
        entry.context.copy(),
        entry.symbols,
        setting.registry,
        entry.elements,
        entry.believed,
        top=entry.normal is None,
        held=entry.held,
        left=left,
    ).run(obligations)
    checks = tuple(without_implied((*given, *walk.checks), entry.context))
    walk = replace(walk, checks=checks, same={**entry.same, **walk.same})
    return session.believe(walk, setting.budget)


def saturate(setting: Setting, session: Session) -> Saturated:
    """Let the rules over tensors run."""
    return session.saturate(setting.program.phases, setting.budget)


def read(setting: Setting, block: Block, walk: Walk, saturated: Saturated) -> Terms:
    """What stands in the e-graph, while the engine is open: vectors can be read only then."""
    symbols = {symbol.name: symbol for symbol in block.symbols if symbol.name not in walk.entry}
    encoding, guarded = saturated.encoding, walk.guarded

    def leaves(node: int) -> Sequence[int] | None:
        found = encoding.op_of_node.get(node)
        if found is None:
            return () if encoding.values[node] is not None else None
        if found[0] not in guarded and not _is_leaf(setting.registry, found[1]):
            return None
        return [encoding.node_of[value] for value in found[1].reads()]

    return Terms(saturated, setting.registry, setting.model, symbols, leaves)


def extract(setting: Setting, block: Block, walk: Walk, terms: Terms) -> Extraction:
    """Choose for what the block must compute: its results, and what its kept checks and its effects read."""
    out = [terms.class_of(value) for value in block.results]
    for check in _kept(walk):
        if check.relation is not None:
            out += terms.size_reads((check.relation.lhs, check.relation.rhs))
        elif check.op is not None:
            out += [terms.class_of(value) for value in check.op.operands]
    for _, op in _effects(setting, block, walk):
        opaque = is_opaque_effect(op, setting.registry)
        out += [terms.class_of(value) for value in (op.operands if opaque else op.results[:1])]
        out += terms.held_reads(op) if opaque else ()
    return extracted(terms, out)


def rebuild(
    setting: Setting,
    block: Block,
    entry: RegionEntry,
    walk: Walk,
    extraction: Extraction,
    regions: RegionRebuilder,
    fresh: Callable[[str], str],
    refine_signature: bool,
) -> Rebuilt:
    """The block of what was chosen. ``regions``: what becomes of an op's region. ``fresh`` gives names."""
    rebuilder = Rebuilder(
        block,
        extraction,
        setting.registry,
        entry.captured,
        regions,
        fresh,
        walk.elements,
        walk.same,
        entry.normal,
        refine_signature,
    )
    made = trimmed(rebuilder.run(_kept(walk), _effects(setting, block, walk)))
    standing = rebuilder.standing()
    left = (standing[value] for index in walk.left for value in block.ops[index].results)
    rebuilt = without_unread(made, setting.registry, left)
    there = {*rebuilt.args, *entry.captured.values(), *(value for op in rebuilt.ops for value in op.results)}
    standing = {old: new for old, new in standing.items() if new in there}
    return Rebuilt(rebuilt, standing, tuple(rebuilder.value(cls) for cls in extraction.computed))


def is_program(op: Op, region: Block, registry: Registry) -> bool:
    """Whether a region is a program of its own that may gain by going through the stages; other regions are scalar
    reducers and stay as they are."""
    return registry[op.name].nested and not op.attrs.get("whole") and _worthwhile(region)


def branch_conditions(op: Op, region: Block, walk: Walk, registry: Registry) -> list[Believed]:
    """What holds wherever a branch runs, by its place, as far as it is known as a size.

    A condition that may have no value (it divides by a size that may be 0) says nothing."""
    known = walk.elements.get(op.operands[0]) if registry[op.name].traits.regions == "branch" else None
    item = None if known is None else known.reshape(-1)[0]
    place, last = op.regions.index(region), len(op.regions) - 1
    found: list[Relation] = []
    if isinstance(item, Relation):
        found = [item.negated() if place else item]
    elif isinstance(item, Dim) and place < last:
        found = [Relation("==", item, const(place))]
    elif isinstance(item, Dim):  # the last branch is run at every other index too
        found = [Relation("!=", item, const(other)) for other in range(last)]
    has_value = walk.context.holds_condition
    return [
        (each, Branch(location=str(op.location)))
        for each in found
        if all(has_value(condition) is not None for condition in each.conditions())
    ]


def inside(
    block: Block,
    op: Op,
    region: Block,
    walk: Walk,
    mapping: Mapping[Value, Value],
    normal: Callable[[Dim], Dim],
    held: Sequence[Believed] = (),
) -> RegionEntry:
    """What a region of an op of a block is entered with; ``mapping``: what the values around it became; ``held``: the
    conditions of the branches that the block lies in and of the region itself."""
    symbols = walk.entry | {symbol.name for symbol in block.symbols}
    loop = walk.loops.get(op)
    if loop is None:
        return RegionEntry(walk.context, walk.believed, symbols, walk.elements, mapping, normal, held)
    found, why = loop.inside(region), Semantics(op.name, location=str(op.location))
    believed = [(each, why) for each in found.believed]
    context = walk.context.copy()
    context.assume_all(believed)
    held = (*held, *((each, why) for each in found.held))
    elements = {**walk.elements, **found.elements}
    return RegionEntry(context, (*walk.believed, *believed), symbols, elements, mapping, normal, held)


def alone(setting: Setting, function: Block, believed: Sequence[Believed]) -> RegionEntry:
    """What a function is entered with by calls that agree in nothing but what is believed."""
    axes = {dim for value in function.args for dim in value.type.dims}
    names = size_names(function)
    fits = [(Relation("<=", dim_of(name), const(LARGEST_SIZE)), Entry()) for name in names if dim_of(name) in axes]
    held = [*fits, *believed]
    context = setting.context()
    context.assume_all(held)
    return RegionEntry(context, held, frozenset(names) - made_sizes(function), normal=lambda size: size)


def _kept(walk: Walk) -> list[Check]:
    """The checks that stay, each relation on sizes once."""
    return _distinct([check for check in walk.checks if check.status != "proved"])


def _effects(setting: Setting, block: Block, walk: Walk) -> list[tuple[int, Op]]:
    """The ops that must stay, checks apart, with their places: those that fail, or never end, have to do so too where
    all that they give is known, and those that are left as they came, which may fail."""
    ends = {op for op, loop in walk.loops.items() if loop.exact is not None}
    return [
        (at, op)
        for at, op in enumerate(block.ops)
        if op.name != "check" and (at in walk.left or must_stay(op, setting.registry, op in ends))
    ]


def _is_leaf(registry: Registry, op: Op) -> bool:
    """Ops that the e-graph sees only as the values they give."""
    return registry[op.name].effect or not all(is_told(value.type.shape) for value in op.results)


def _worthwhile(region: Block) -> bool:
    """A region of scalar ops only has nothing to gain, but for what it checks of sizes."""
    return any(op.name == "check" or any(value.type.shape != () for value in op.results) for op in region.walk())


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
