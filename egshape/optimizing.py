"""``optimize``: a model loaded, its facts resolved, rules tried until they hold, the result measured and reported."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Literal, NoReturn, get_args

from egshape import guest
from egshape.attempts import Job, attempt_all, own_rules
from egshape.branches import without_decided
from egshape.dims import Dim, symbol
from egshape.dims.functions import declared
from egshape.egraph.ask import Decide
from egshape.egraph.budget import STEPS
from egshape.egraph.cost import CostModel
from egshape.egraph.snapshot import without_collecting
from egshape.errors import EgshapeError, InvalidInput
from egshape.facts import Facts, Relation, SymbolFacts, facts_given, several
from egshape.frontends.registry import of_graph
from egshape.inner import settled
from egshape.ir import display
from egshape.ir.graph import Graph, Op, Value
from egshape.limits import Deadlines, LimitReached, Limits, holding
from egshape.measure import Measure, Prefer, changes, never_worse
from egshape.models import Model, load
from egshape.ops.host import HOST_CALLS, runner, unresolved
from egshape.ops.shape_function import assuming
from egshape.pipeline import Optimized
from egshape.reasons.explain import explain as explain_sizes
from egshape.reasons.explain import explain_fact
from egshape.reasons.explain_value import History
from egshape.report import Changes, Explanation, StageRow, ValueExplanation
from egshape.reporting import reported
from egshape.result import Optimization
from egshape.rulelang.rulefile import Dropped
from egshape.rulelang.size_functions import size_functions
from egshape.sizes import axes_of, listed
from egshape.trace import Tracer
from egshape.wraps import bounds_of_starts

_SHOWN = 3
"""How many values a note names."""
ChecksAs = Literal["nodes", "metadata", "none"]
"""Where the checks of an ONNX model go: see ``egshape.save``."""
_MOST_STARTS = 64
"""Starts of windows that are asked whether they may wrap."""
_ROUNDS = 3
"""How often a model is read once more, since a part of it would be written larger."""


@dataclass(frozen=True)
class Result(Optimization):
    """What ``optimize`` gives: the graph, the facts that it relies on, the report, and reasons.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> x = net.input("x", ["n", 4])
        >>> graph = net.graph(y=net.relu(net.transpose(net.transpose(x, [1, 0]), [1, 0])))
        >>> result = egshape.optimize(graph, assume="n % 8 == 0")
        >>> [op.name for op in result.graph.ops]
        ['check', 'constant', 'broadcast_in_dim', 'maximum']
        >>> result.explain_fact("n % 4 == 0").status
        'proved'
        >>> result.explain_value("%1").stands
        '%x : f32[n, 4]'
    """

    def __copy__(self) -> Result:
        return self

    def __deepcopy__(self, _: object) -> Result:
        return self  # nothing of it changes

    def __reduce__(self) -> NoReturn:
        """Raises TypeError: reasons are asked of engines, which stay in this process."""
        raise TypeError("a result asks engines of this process for its reasons: pickle its graph and its report")

    def explain(self, a: str, b: str) -> Explanation:
        """Why two sizes are equal: ``arg0.0``, ``%12.1`` (a value of the original graph), or an expression."""
        with declared(self.functions):
            return explain_sizes(self, a, b)

    def explain_fact(self, text: str) -> Explanation:
        """Why a statement about sizes holds, such as ``arg0.1 % 8 == 0`` or ``b <= 2*s``."""
        with declared(self.functions):
            return explain_fact(self, text)

    def explain_removed(self) -> tuple[ValueExplanation, ...]:
        """The same of every value whose op is not in the result, in program order."""
        return self._history.removed()

    def explain_value(self, name: str) -> ValueExplanation:
        """What became of a value of the original graph, by which rules, and what stands for it. ``name``: as the model
        names it, ``%12``, an output or a node; or its line, ``file.mlir:7``."""
        return self._history.named(name)

    @cached_property
    def _history(self) -> History:
        return History(self)

    @property
    def derived(self) -> Facts:
        """All that is known of the sizes of the inputs: what came with the model, what was assumed, and the ranges and
        equalities that its ops and checks imply, and what checks state of several. ``optimize(facts=...)`` starts from
        it."""
        axes = axes_of(self.source)
        own = [each for each in self.report.symbols if any(source in axes for source in each.sources)]
        ranges = [SymbolFacts(each.name, ranges=each.ranges, divisor=each.divisor).relations() for each in own]
        equal = [Relation("==", axes[one], axes[two]) for one, two, _ in self.report.equalities]
        derived = [*(relation for each in ranges for relation in each), *equal, *self._stated_between(axes)]
        known = self.facts.with_relations(derived)
        for each in own:
            known = known.with_symbol(each.name, each.sources)
        stated = {each.text for each in self.facts.statements()}
        return replace(known, implied=tuple(each.text for each in derived if each.text not in stated))

    def _stated_between(self, axes: Mapping[str, Dim]) -> Iterator[Relation]:
        """What checks of the program itself state of several sizes of inputs."""
        names = frozenset().union(*(dim.symbols() for dim in axes.values()))
        own = set(axes.values())
        for check in self.optimized.outcome.checks:
            relation = check.relation
            if check.op is None or not check.entry or relation is None or relation.kind == "in":
                continue
            if len(relation.symbols()) > 1 and relation.symbols() <= names and not {relation.lhs, relation.rhs} <= own:
                yield relation

    @cached_property
    def changes(self) -> Changes:
        """The parts of the model by kind before and after, as its format counts them: nodes of ONNX, statements of
        StableHLO; ops where there is no format, or the graph is too large to be written for that."""
        return changes(self.source, self.graph) or self.report.changes

    def __str__(self) -> str:
        lines = self.report.summary(changes=self.changes)
        return "\n".join([*lines, *(f"note: {note}" for note in self.report.notes)])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {next(self.report.summary(changes=self.changes))}>"

    def _repr_html_(self) -> str:
        return display.html(self)


def optimize(
    model: Model | Graph,
    assume: str | Sequence[str] = (),
    rules: str | Sequence[str] = (),
    limits: Limits | None = None,
    *,
    facts: Facts | None = None,
    validate: bool = True,
    refine_signature: bool = False,
    allow_larger: bool = False,
    prefer: Prefer = "cost",
    checks: ChecksAs = "nodes",
    explain: bool = True,
    decide: Decide = "both",
    share_layers: bool = False,
    trust_rules: bool = False,
    tracer: Tracer | None = None,
) -> Result:
    """Optimize a model: a Graph, or what ``load`` takes.

    assume: facts in text, one or several, trusted for rewriting and checked at entry. rules: further rulesets, paths
    or names (of an installed package, `acme.fuse`); they are checked first, and each is tried: one that is wrong, or
    cannot be tried, is left out with a note, unless trust_rules is given.
    limits: budgets. validate: compare original and result at a few small sizes; a difference gives the original.
    refine_signature: let input types become static where the facts say so. prefer: "cost" lets the file grow (a check
    is several statements of StableHLO) where that saves 1 % of the cost at the likely sizes, "size" never;
    allow_larger: it may grow, whatever that saves. checks: where those of an ONNX model will go when it is saved, since
    nodes count. explain: keep reasons.
    share_layers: layers that are equal up to weights go through the rules once (docs/large.md: where that pays).
    decide: who decides about sizes, the compiled rules ("rules"), the rules in the engine ("engine", slow), or both.
    Raises EgshapeError for contradictory facts, unknown names in facts, and wrong rule files.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> x = net.input("x", ["n", 4])
        >>> graph = net.graph(y=net.relu(net.transpose(net.transpose(x, [1, 0]), [1, 0])))
        >>> egshape.optimize(graph).changes.total()
        '4 ops -> 2 ops'
    """
    rules = tuple(map(str, several(rules)))
    limits, tracer = limits or Limits(), tracer or Tracer()
    left_out: tuple[Dropped, ...] = ()
    if rules and not trust_rules:
        left_out, limits = _tried(rules, limits, tracer)
    with size_functions(rules, frozenset(each.rule for each in left_out)) as functions:
        user = Facts.parse(*facts_given(assume), assumed=True)
        implied: tuple[Relation, ...] = ()
        if facts is not None:
            facts, implied = facts.apart()
            user = facts.merge(user)
        if prefer not in get_args(Prefer):
            raise InvalidInput(f"prefer is {prefer!r}", hint=f"give one of {', '.join(get_args(Prefer))}")
        larger = Larger(allow_larger, prefer, checks == "nodes")
        asked = _Asked(rules, limits, validate, refine_signature, larger, explain, decide, share_layers, left_out)
        with assuming(user):
            graph = load(model)
        started = time.monotonic()
        result = _optimized(graph, user, asked, tracer)
        foreign, later = _not_implied(result, implied), _later(asked, started)
        if foreign and later is None:
            result = _noted(result, tracer, "no time was left to use what another model implied")
        elif foreign and later is not None:
            user, inner = user.with_relations(foreign), Tracer(tracer.on_stage, tracer.keep_events)
            result = _told(_optimized(graph, user, later, inner), tracer, inner)
        result = _without_wrapping(result, user, _later(asked, started), tracer)
        return replace(result, functions=functions)


def _later(asked: _Asked, started: float) -> _Asked | None:
    """What is asked, in the time that is left; None where that is less than what was spent, as another try would."""
    spent = time.monotonic() - started
    if asked.limits.seconds is None:
        return asked
    left = asked.limits.seconds - spent
    return None if left < spent else replace(asked, limits=replace(asked.limits, seconds=left))


def _without_wrapping(result: Result, user: Facts, asked: _Asked | None, tracer: Tracer) -> Result:
    """The result with checks that starts of windows do not wrap, where it costs less with them; itself where there is
    no time to ask."""
    if asked is None or result.report.status != "saturated":
        return result
    inputs = {each.name for each in result.source.body.symbols if each.value in result.source.inputs}
    found = dict.fromkeys(islice(bounds_of_starts(result.optimized), _MOST_STARTS))
    bounds = [each for each in found if each.symbols() <= inputs]
    if not bounds:
        return result
    inner = Tracer(tracer.on_stage, tracer.keep_events)
    try:
        again = _optimized(result.source, user.with_relations(bounds), asked, inner)
    except EgshapeError:
        return result
    measure = asked.larger.measure(result.optimized.likely)
    if not measure.gains(measure.of(result.graph), measure.of(again.graph)):
        return result
    inner.note(f"checked, since sizes that wrap would be other ones: {'; '.join(map(str, bounds))}")
    return _told(again, tracer, inner)


def _not_implied(result: Result, statements: Sequence[Relation]) -> list[Relation]:
    """Those of some statements, implied by the program that they come from, that this one does not imply."""
    sizes = result.optimized.sizes

    def holds(statement: Relation) -> bool:
        known = resolve(result.source, Facts().with_relation(statement)).statements()
        return all(sizes.decide(each) == "proved" for each in known)

    return [each for each in statements if not holds(each)]


@dataclass(frozen=True)
class Larger:
    """When a result may be larger than the model: see ``optimize``."""

    allowed: bool
    prefer: Prefer
    checks: bool

    def measure(self, likely: Mapping[str, int]) -> Measure:
        """How results are compared with a graph, at these sizes."""
        return Measure(CostModel(likely), self.prefer, self.checks)


def _tried(rules: Sequence[str], limits: Limits, tracer: Tracer) -> tuple[tuple[Dropped, ...], Limits]:
    """The rules that are not used, as their trials say, and the limits with the time that is left."""
    from egshape.rulebook import beforehand  # which is large, for those who have rules

    started = time.monotonic()
    with tracer.stage("try rules"):
        left_out = tuple(Dropped(*each) for each in beforehand.left_out(rules, limits).items())
    spent = time.monotonic() - started
    return left_out, replace(limits, seconds=None if limits.seconds is None else limits.seconds - spent)


@dataclass(frozen=True)
class _Asked:
    """How a graph is to be optimized."""

    rules: tuple[str, ...]
    limits: Limits
    validate: bool
    refine_signature: bool
    larger: Larger
    explain: bool
    decide: Decide
    share_layers: bool
    left_out: tuple[Dropped, ...] = ()
    """Rules that are not used, as their trials say."""


def _optimized(graph: Graph, user: Facts, asked: _Asked, tracer: Tracer) -> Result:
    """``optimize``, of a graph that is loaded and facts that are read."""
    started = time.monotonic()
    result, larger = _once(graph, user, asked, tracer)
    rounds = iter(range(_ROUNDS))
    read, limits = graph, asked.limits
    while larger is not None and next(rounds, None) is not None:
        frontend, spent = of_graph(graph), time.monotonic() - started
        found = None if frontend is None else frontend.in_part(read, larger)
        left = None if limits.seconds is None else limits.seconds - spent
        if found is None:
            break
        if left is not None and left < spent:
            return _noted(result, tracer, "no time was left to optimize the part of it that did not grow")
        (read, places), inner = found, Tracer(tracer.on_stage, tracer.keep_events)
        try:
            again, larger = _once(read, user, replace(asked, limits=replace(limits, seconds=left)), inner)
        except InvalidInput:  # a fact speaks of a value inside of what is one op now
            break
        measure = asked.larger.measure(again.optimized.likely)
        if larger is None and again.graph is not read and measure.gains(measure.of(read), measure.of(again.graph)):
            return _taken(again, places, tracer, inner)
    return result


def _noted(result: Result, tracer: Tracer, note: str) -> Result:
    """A result with one more note."""
    tracer.note(note)
    notes = (*result.report.notes, note)
    return replace(result, report=result.report.model_copy(update={"notes": notes}))


def _taken(result: Result, left: Sequence[str], tracer: Tracer, inner: Tracer) -> Result:
    """A result in which nodes stay as they came, with what was noted on the way there."""
    shown = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} others" if len(left) > _SHOWN else "")
    inner.note(f"left as they were, since they would be written larger: {shown}")
    return _told(result, tracer, inner)


def _told(result: Result, tracer: Tracer, inner: Tracer) -> Result:
    """A result with what was noted on the way to it, after what was there before."""
    tracer.notes[:], tracer.events[:], tracer.stages[:] = inner.notes, inner.events, [*tracer.stages, *inner.stages]
    stages = tuple(StageRow(name=stage.name, seconds=stage.seconds) for stage in tracer.stages)
    return replace(result, report=result.report.model_copy(update={"notes": tuple(inner.notes), "stages": stages}))


def _once(graph: Graph, user: Facts, asked: _Asked, tracer: Tracer) -> tuple[Result, Graph | None]:
    """The result of the graph as it was read, and what it would have been where that would be larger."""
    started = time.monotonic()
    deadlines = Deadlines.of(asked.limits, len(graph.body.symbols))
    for note in graph.metadata.get("notes", ()):
        tracer.note(note)
    hosted = {op.attrs["target"]: op.attrs["call"] for op in graph.body.walk() if op.name in HOST_CALLS}
    hosted.pop("onnx.Constant", None)  # text
    if asked.validate:
        guest.prepare_for(hosted.values())
    for target, call in sorted(hosted.items()):
        kept = unresolved(call)
        tracer.note(
            f"{target} is kept as it is: {kept}"
            if kept
            else f"{target} has no lowering: it is called in {runner(call)}"
        )
    graph, user = settled(graph, user)
    known = resolve(graph, graph.facts.merge(user) if user != Facts() else graph.facts)
    with suppress(LimitReached), holding(deadlines.half(float("inf")).rules):
        graph = without_decided(graph, known)
    job = Job(
        graph,
        known,
        asked.rules,
        asked.limits,
        deadlines,
        asked.explain,
        asked.refine_signature,
        asked.validate,
        own_rules(asked.rules),
        asked.decide,
        share_layers=asked.share_layers,
    )
    done, dropped = attempt_all(job, tracer, asked.left_out)
    for left_out in dropped:
        tracer.note(str(left_out))
    for stop in done.outcome.stops:
        if stop.limit != STEPS:
            tracer.note(str(stop))
    if done.outcome.status == "fallback":
        tracer.note(f"not optimized: {done.outcome.fault}")
    if done.verdict is not None and done.verdict.skipped and not done.verdict.compared:
        tracer.note(done.verdict.skipped)
    if done.difference:
        tracer.note(f"not optimized, a fault of ours: the result differs from the original {done.difference}")
        done = replace(done, graph=graph, outcome=replace(done.outcome, status="fallback"))
    checked = done.graph is not graph and done.outcome.status == "saturated"
    whole: Graph | None = None
    if done.graph is not graph and not asked.refine_signature and not asked.larger.allowed:
        tried, measure = done.graph, asked.larger.measure(done.likely)
        with tracer.stage("measure"):
            done, larger = _measured(job, done, {each.rule for each in dropped}, time.monotonic() - started, measure)
        if larger:
            tracer.note(larger)
        if larger and done.graph is not tried:
            checked = False
            if set(graph.body.ops) <= set(done.graph.body.ops):
                whole = tried
    if done.outcome.computed and done.graph is not graph:
        tracer.note(_still_computed(done.outcome.computed))
    functions = tuple(_optimized_function(each, asked, started, tracer) for each in graph.functions)
    for name, why in graph.metadata.get("left_out", ()):
        tracer.note(f"the public function @{name} is left out: {why}")
    with without_collecting():  # no deadline holds from here on
        report = reported(graph, done, known, tracer, dropped)
    result = replace(_expecting(done.graph, known), checked=checked, functions=functions)
    return Result(result, known, report, graph, done), whole


def _measured(
    job: Job, done: Optimized, omit: Collection[str], seconds: float, measure: Measure
) -> tuple[Optimized, str]:
    """The result where it costs no more than the graph, else what does not; a note where it is larger, or not all that
    was found is taken. ``seconds`` is what it took."""

    def again(left: frozenset[Op]) -> Optimized | None:
        if time.monotonic() + seconds > job.deadlines.rules:
            return None
        attempt = replace(job, left=left).attempt(Tracer(), omit, loose=True)
        return None if attempt.outcome.status != "saturated" or attempt.difference else attempt

    try:
        with holding(job.deadlines.end):
            return never_worse(job.graph, done, again, measure)
    except LimitReached:
        return done, "it may be larger than the model: no time was left to measure it"


def _still_computed(values: Sequence[Value]) -> str:
    """That constants which would make the model grow were not made of its ops."""
    shown = ", ".join(f"%{value.name} ({value.type})" for value in values[:_SHOWN])
    more = f" and {len(values) - _SHOWN} others" if len(values) > _SHOWN else ""
    return f"computed as before, since it would be larger as constants: {shown}{more}"


def _optimized_function(graph: Graph, asked: _Asked, started: float, tracer: Tracer) -> Graph:
    """Another public function of the model, optimized in what is left of the time."""
    limits = asked.limits
    left = None if limits.seconds is None else limits.seconds - (time.monotonic() - started)
    if left is not None and left <= 0:
        tracer.note(f"the public function @{graph.name} is kept as it is: no time was left")
        return graph
    alike = replace(
        asked,
        limits=replace(limits, seconds=left),
        refine_signature=False,
        larger=replace(asked.larger, allowed=False),
        explain=False,
        share_layers=False,
    )
    found = _optimized(graph, Facts(), alike, Tracer())
    ops = found.report.ops
    if ops.after != ops.before:
        tracer.note(f"the public function @{graph.name} is optimized too: {ops.before.total} ops to {ops.after.total}")
    for note in found.report.notes:
        tracer.note(f"@{graph.name}: {note}")
    return found.graph


def _expecting(graph: Graph, known: Facts) -> Graph:
    """The optimized graph with the sizes to expect, by which compiled kernels choose tiles and versions."""
    facts, names = graph.facts, {each.name for each in graph.body.symbols}
    for each in known.symbols:
        if each.likely and each.name in names:
            facts = facts.with_symbol(each.name, likely=each.likely)
    return replace(graph, facts=facts, optimized=True)


def resolve(graph: Graph, facts: Facts) -> Facts:
    """Facts in the graph's own symbols: ``arg0.1`` stands for the symbol of that axis.

    Raises InvalidInput for a name that the graph does not have."""
    sizes = axes_of(graph)
    known = {each.name for each in graph.body.symbols}
    rename: dict[str, Dim] = {}
    names = {name for relation in facts.statements() for name in relation.symbols()} | {s.name for s in facts.symbols}
    for name in names - known:
        if name not in sizes:
            raise InvalidInput(f"a fact speaks of {name!r}, which the model does not have", hint=listed(known, sizes))
        rename[name] = sizes[name]
    if not rename:
        return facts
    out = Facts()
    for each in facts.symbols:
        target = rename.get(each.name, symbol(each.name))
        for name in target.symbols():
            if target is symbol(name):
                out = out.with_symbol(name, sources=each.sources, likely=each.likely)
    renamed = out.with_relations(each.substitute(rename) for each in facts.statements())
    return replace(renamed, assumed=facts.assumed)
