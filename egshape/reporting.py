"""The report of an optimization: counts, signatures, what is known about symbols, checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from egshape.decide import reason
from egshape.dims import Dim, symbol
from egshape.egraph.stages import LARGEST_SIZE
from egshape.facts import Facts, Relation
from egshape.facts.intervals import combine_classes, intersect
from egshape.ir.calls import written
from egshape.ir.graph import Graph
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY
from egshape.pipeline import Optimized
from egshape.reasons.explain import Known, chain
from egshape.report import (
    CheckRow,
    OpCount,
    OpCounts,
    Report,
    RewriteRow,
    ShapeFunctionRow,
    Signature,
    StageRow,
    Step,
    Symbol,
)
from egshape.rulelang.rulefile import Dropped
from egshape.sizes import axes_of, shape_sources
from egshape.trace import Tracer


def count_ops(graph: Graph) -> OpCount:
    """Ops of a graph by name, regions included but for those of ops that go out as one; of each function once."""
    names = Counter(op.name for op in written(graph.body))
    return OpCount(total=sum(names.values()), by_name=dict(sorted(names.items())))


def reported(graph: Graph, done: Optimized, facts: Facts, tracer: Tracer, dropped: Sequence[Dropped]) -> Report:
    """The report of what became of a graph. ``dropped``: rules of the user that were left out."""
    outcome = done.outcome
    normal = done.sizes.normal_form
    return Report(
        model=graph.name,
        ops=OpCounts(before=count_ops(graph), after=count_ops(done.graph)),
        inputs=tuple(_signature(value.name, value.type, normal) for value in graph.inputs),
        outputs=tuple(
            _signature(name, value.type, normal)
            for name, value in zip(graph.output_names, done.graph.outputs, strict=True)
        ),
        symbols=tuple(_symbol(name, sources, done, facts) for name, sources in _symbol_sources(graph).items()),
        equalities=_equalities(graph, done),
        checks=_check_rows(graph, done),
        rewrites=tuple(
            RewriteRow(rule=rule, count=count, seconds=round(outcome.seconds.get(rule, 0.0), 6))
            for rule, count in sorted(outcome.rewrites.items(), key=lambda item: (-item[1], item[0]))
        ),
        stages=tuple(StageRow(name=stage.name, seconds=stage.seconds) for stage in tracer.stages),
        status=outcome.status,
        notes=tuple(tracer.notes),
        dropped_rules=tuple(each.rule for each in dropped),
        shape_functions=tuple(_shape_functions(graph, done)),
    )


def _shape_functions(graph: Graph, done: Optimized) -> Iterator[ShapeFunctionRow]:
    """The ops whose types shape functions of authors give, in program order."""
    made = {value: op.name for op in done.graph.body.walk() for value in op.results}
    made |= dict.fromkeys(done.graph.inputs, "input")
    for op in graph.body.walk():
        if op.name not in REGISTRY or REGISTRY[op.name].asserts is None:
            continue
        stands = [made.get(done.outcome.standing.get(value, value)) for value in op.results]
        yield ShapeFunctionRow(
            op=op.name,
            value=f"%{op.results[0].name}" if op.results else "",
            location=str(op.location),
            gives=tuple(str(value.type) for value in op.results),
            simplified=tuple(_simplified(value.type, done) for value in op.results),
            asserts=tuple(str(each.relation) for each in REGISTRY[op.name].requires(op)),
            status="kept" if op.name in stands else "rewritten" if any(stands) else "dropped",
        )


def _simplified(type: TensorType, done: Optimized) -> str:
    if type.shape is None:
        return str(type)
    return str(TensorType(type.dtype, tuple(map(done.sizes.normal_form, type.shape))))


def _signature(name: str, type: TensorType, normal: Any) -> Signature:
    shape = None if type.shape is None else tuple(str(normal(dim)) for dim in type.shape)
    return Signature(name=name, dtype=type.dtype, shape=shape)


def _symbol_sources(graph: Graph) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    sources = shape_sources(graph.body)
    for each in graph.body.symbols:
        out.setdefault(each.name, []).append(sources[each.name])
    return out


def _symbol(name: str, sources: Sequence[str], done: Optimized, facts: Facts) -> Symbol:
    known = facts.with_relations(_of_ops(name, done)).symbol(name)
    ranges = intersect(done.sizes.ranges(symbol(name)), known.ranges)
    found = done.sizes.residue_class(symbol(name))
    divisor = combine_classes(found, known.divisor) if found[0] else None
    return Symbol(
        name=name,
        sources=tuple(sources),
        ranges=tuple((a or 0, None if b is not None and b >= LARGEST_SIZE else b) for a, b in ranges),
        divisor=divisor or known.divisor,
        likely=(done.likely[name],) if name in done.likely else (),
    )


def _of_ops(name: str, done: Optimized) -> Iterator[Relation]:
    """What ops say of one size alone, whatever their operands."""
    for each in done.sizes.assumptions:
        if isinstance(each.reason, reason.Semantics) and each.relation.symbols() == {name}:
            yield each.relation


def _equalities(graph: Graph, done: Optimized) -> tuple[tuple[str, str, tuple[Step, ...]], ...]:
    """Input axes that were found equal though the model does not write them alike."""
    out: list[tuple[str, str, tuple[Step, ...]]] = []
    if not done.outcome.scopes:
        return ()
    scope = done.outcome.scopes[0]
    known: Known | None = None
    first: dict[Dim, tuple[str, Dim]] = {}
    for name, dim in axes_of(graph).items():
        form = scope.sizes.normal_form(dim)
        if form not in first:
            first[form] = (name, dim)
        elif first[form][1] is not dim:
            known = known or Known(done.outcome, scope)
            steps = chain(known, first[form][1], dim) or ()
            out.append((first[form][0], name, steps))
    return tuple(out)


def shown(step: reason.Step) -> Step:
    """A step as text."""
    return Step(
        rule=step.reason.name,
        from_=tuple(each.text for each in step.from_),
        to=step.to.text,
        location=step.reason.location,
    )


def _check_rows(graph: Graph, done: Optimized) -> tuple[CheckRow, ...]:
    rows = [
        CheckRow(
            text="true",
            message=message,
            location=location,
            status="proved",
            why=(Step(rule=reason.BY_FORM.name, from_=tuple(bounds), to="true"),),
        )
        for message, location, bounds in graph.metadata.get("assertions", ())
    ]
    for check in done.outcome.checks:
        text = str(check.relation) if check.relation is not None else "a condition on data"
        rows.append(
            CheckRow(
                text=text,
                message=check.message,
                location=check.location,
                status="proved" if check.status == "proved" else "kept",
                why=tuple(map(shown, check.why)),
            )
        )
    return tuple(rows)
