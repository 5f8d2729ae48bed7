"""Load a block into the engine and saturate: phase 1 sizes, phase 2 tensors, each in turn with the exchange."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from egshape.decide.context import Answer, Context
from egshape.decide.reason import Proved, Reason, Rule
from egshape.dims import Dim, Relu, const, relu
from egshape.egraph.ask import Decide, believe, equate
from egshape.egraph.budget import Budget, Growth, Phase, Stop
from egshape.egraph.describe import Describer
from egshape.egraph.elements import Elements
from egshape.egraph.encode import Encoder, Encoding
from egshape.egraph.engine import POOL, Engine
from egshape.egraph.exchange import ExchangeState
from egshape.egraph.numbers import numbered
from egshape.egraph.obligations import Obligation, Walk, derived, is_product, obligations_of, required
from egshape.egraph.process import Allowance
from egshape.egraph.program import Program
from egshape.egraph.snapshot import Snapshot
from egshape.facts import Relation
from egshape.ir.graph import Block
from egshape.ops.base import Registry
from egshape.rulelang.schema import MAX_RANK

FUEL = 6
"""How many elementwise ops a reshape, transpose or broadcast may be moved below (ends the hoisting rules)."""

MAX_ROUNDS = 12

MAX_SETTLED = 64
"""How many max and min of the graph's sizes the prover is asked about."""

GROWN, LEAST_NODES = 10, 2_000
"""Where the rules are stopped at a limit, they have mostly made the same thing many times: what is read out then is the
last state of at most so many times the nodes at the start, or so many."""

_RARELY_LOOKED_AT = frozenset(
    ("Node", "List", "Call", "nm", "dtype_of", "fuel", "why", "unreshape", "untranspose", "unslice")
)
"""Large tables of which a round of the exchange reads none, or one where it finds a reason to."""

_LOAD = ("prelude.load", "prelude.load", "prelude.shape")
"""The steps that turn rows into terms: axis lists first, then the terms that hold them."""

SIZE_STEPS = 400
"""Iterations of the rules over sizes in phase 1."""


@dataclass
class Saturated:
    """What came out of the engine for one block."""

    snapshot: Snapshot
    encoding: Encoding
    describer: Describer
    sizes: ExchangeState
    status: str
    nodes: int
    matches: Mapping[str, int]
    seconds_by_rule: Mapping[str, float]
    grew_most: str
    stop: Stop | None = None
    """Why the rules over tensors ended before their end."""
    steps: tuple[Growth, ...] = ()
    """The steps over tensors that changed the e-graph, in order."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the engine by ruleset over tensors."""


class Session:
    """One block in one scope of an engine."""

    def __init__(
        self,
        engine: Engine,
        prog: Program,
        block: Block,
        registry: Registry,
        order: Callable[[str], Any],
        context: Context,
        decide: Decide = "both",
    ) -> None:
        self.engine = engine
        self.program = prog
        self.context = context
        self.decide = decide
        phases = prog.size_phases if decide != "rules" else prog.size_phases[:1]
        self.sizes = ExchangeState(engine, prog.rules, phases, order)
        self.block = block
        self.registry = registry
        self.encoder = Encoder(registry)
        self.describer = Describer(
            self.encoder, registry, self.sizes, self._fits, self._at_most, self._without_ramps, prog.makes
        )
        self.elements = Elements(self.encoder, registry, self._decide, self._normal)
        self.matches: Counter[str] = Counter()

    def _normal(self, dim: Dim) -> Dim:
        """The size as the rules know it; a number where only the prover sees that what they made of it is one."""
        form = self.describer.normal(dim)
        settled = form if form is dim else self._without_ramps(form)
        return form if settled.const is None else settled

    def _without_ramps(self, dim: Dim) -> Dim:
        """A size with a maximum or minimum in it as the prover writes it; any other one as it is."""
        if self.decide == "engine" or next(_ramps(dim), None) is None:
            return dim
        return self.context.normal_form(dim)

    def _decide(self, relation: Relation) -> Answer:
        return self.context.decide(relation)

    def _at_most(self, small: Dim, large: Dim) -> bool:
        return self._decide(Relation("<=", small, large)) == "proved"

    def _fits(self, dim: Dim) -> bool:
        return self._at_most(const(0), dim) and self._at_most(dim, const(2**31 - 1))

    def load(self) -> list[Obligation]:
        """Load the block and give the obligations of its ops, in program order."""
        zero, one = const(0), const(1)
        self.encoder.block(self.block)
        tables = self.encoder.out.tables
        tables["axis"] += [(k,) for k in range(MAX_RANK)]
        for rank in range(MAX_RANK + 1):
            tables["in_unit"].append((rank, self.encoder.shape((zero,) * rank), self.encoder.shape((one,) * rank)))
        for table in ("in_broadcast_in_dim", "in_transpose", "in_reshape"):
            tables["in_fuel"] += [(row[0], FUEL) for row in tables[table]]
        self._hand_over()
        self.engine.announce(_LOAD)
        implied = list(required(self.block, self.registry))  # meanwhile
        for phase in (*_LOAD, *self.program.obligations):
            self.engine.step(phase)
        if self.program.obligations:
            implied += derived(self.engine, self.encoder.out.dims, self.encoder.out.index_of)
        return obligations_of(implied)

    def flush(self) -> None:
        """Hand all pending rows to the engine and turn them into terms."""
        if self._hand_over():
            self.engine.announce(_LOAD)
            for ruleset in _LOAD:
                self.engine.step(ruleset)

    def _hand_over(self) -> bool:
        """Hand all pending rows to the engine; False if there are none."""
        tables = self.encoder.out.tables
        pending = {name: rows for name, rows in tables.items() if rows}
        self.engine.load_tables(pending)
        tables.clear()
        return bool(pending)

    def believe(self, walk: Walk, budget: Budget) -> Walk:
        """Phase 1's result: sizes that are equal are united, shape tensors are their elements, and values are the
        terms of their ops; but an op whose own check hangs on data stays as it is, so that no rewrite relies on it.

        The walk, with what the prover says of max and min."""
        guarded = walk.guarded
        found = self.encoder.out.op_of_node
        self.encoder.out.tables["live"] += [
            (node,)
            for node in range(len(self.encoder.out.values))
            if node not in found or found[node][0] not in guarded
        ]
        dims = list(self.encoder.out.dims.values())
        if self.decide == "both":
            walk = self._settled(walk, dims)
        self.context = walk.context
        self.sizes.late = walk.late
        self.sizes.add_dims(dims)
        if self.decide == "rules":
            equate(self.sizes, self.context, dims)
        for relation, reason in walk.believed if self.decide != "rules" else ():
            believe(self.sizes, relation, reason)
        if walk.believed or any(dim.atoms() for dim in dims):
            self.sizes.run(
                Budget(
                    steps=SIZE_STEPS,
                    nodes=budget.nodes,
                    memory_mb=budget.memory_mb,
                    deadline=budget.deadline,
                    last=budget.last,
                )
            )
        else:
            self.sizes.load()
        walk = self._numbered(walk)
        for value, elements in walk.elements.items():
            node = self.encoder.out.node_of.get(value)
            if node is not None:
                self.elements.say(node, elements, value.type.dtype)
        self.flush()
        return walk

    def _numbered(self, walk: Walk) -> Walk:
        """The walk, with the elements of shape code whose sizes the checks make numbers; ops of constants among such
        sizes are folded."""
        ops = [] if self.sizes.inconsistent else list(numbered(self.block, self._normal))
        for op, same in ops:
            self.encoder.fold(op, same)
        bound = {symbol.value for symbol in self.block.symbols}  # what says of a symbol what it is has to be checked
        return replace(
            walk, elements=self.elements.of_ops((each for each in ops if each[0].result not in bound), walk.elements)
        )

    def _settled(self, walk: Walk, dims: Sequence[Dim]) -> Walk:
        """The walk, with what the prover says of max and min in sizes of the graph, where a check that is no order (two
        sizes broadcast, a product is 0) may decide it: the rules over sizes do not look into such a check."""
        checked = [relation for relation, _ in walk.believed if relation.kind == "==" and is_product(relation)]
        names = frozenset().union(*(relation.lhs.symbols() | relation.rhs.symbols() for relation in checked))
        atoms = dict.fromkeys(atom for dim in dims for atom in _ramps(dim) if not names.isdisjoint(atom.symbols))
        found, zero, context = list[tuple[Relation, Reason]](), const(0), walk.context.copy()
        for atom in list(atoms)[:MAX_SETTLED]:
            for relation, value, rule in (
                (Relation("<=", zero, atom.arg), atom.arg, "size.relu/nonnegative"),
                (Relation("<=", atom.arg, zero), zero, "size.relu/nonpositive"),
            ):
                if context.decide(relation) == "proved":
                    found.append((Relation("==", relu(atom.arg), value), Proved(Rule(rule))))
                    context.assume(*found[-1])  # what is around it is asked about next
                    break
        return replace(walk, context=context, believed=(*walk.believed, *found))

    def _exchange(self) -> None:
        """Add rows for what Python has to say of the e-graph."""
        snapshot = self.engine.read(later=_RARELY_LOOKED_AT)
        self.elements.round(snapshot, self.describer.round(snapshot, self.encoder.out.tables))

    def saturate(self, phases: Sequence[str], budget: Budget) -> Saturated:
        """Run the tensor rulesets and the exchange in turn until neither has anything new."""
        deadline = budget.until()
        limited = replace(budget, seconds=None, deadline=deadline)
        status, grew, stop = "saturated", "", None
        seconds: defaultdict[str, float] = defaultdict(float)
        steps: list[Growth] = []
        times: defaultdict[str, float] = defaultdict(float)
        self._exchange()
        few = max(LEAST_NODES, GROWN * self.engine.size())
        for _ in range(MAX_ROUNDS):
            self.flush()
            run = self.engine.saturate([Phase(name, 1) for name in phases], limited)
            if limited.steps is not None:
                limited = replace(limited, steps=limited.steps - run.steps)
            self.matches.update(run.matches)
            steps += run.growth
            for ruleset, spent in run.times.items():
                times[ruleset] += spent
            for step in run.growth:
                seconds[step.rule] += step.seconds
            grew = run.grew_most or grew
            if run.status == "budget" or time.monotonic() > deadline:
                status, stop = "budget", run.stop or Stop("seconds", "", grew)
                self.engine.shrink(few)
                break
            self._exchange()
            if not any(self.encoder.out.tables.values()):
                break
        return Saturated(
            self.engine.read(),
            self.encoder.out,
            self.describer,
            self.sizes,
            status,
            self.engine.size(),
            dict(self.matches),
            dict(seconds),
            grew,
            stop,
            tuple(steps),
            dict(times),
        )


def _ramps(dim: Dim) -> Iterator[Relu]:
    """The Relus in a size, innermost first."""
    for atom in dim.atoms():
        if isinstance(atom, Relu):
            yield from _ramps(atom.arg)
            yield atom


@contextmanager
def session(
    prog: Program,
    block: Block,
    registry: Registry,
    order: Callable[[str], Any],
    context: Context,
    allowance: Allowance | None = None,
    decide: Decide = "both",
) -> Iterator[Session]:
    """A session on a pooled engine that is given back at the end, held to ``allowance``."""
    with POOL.lend(prog.pieces, allowance) as engine:
        yield Session(engine, prog, block, registry, order, context, decide)
