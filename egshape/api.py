"""The Python API: load, optimize, save, run, and what can be asked of a result."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from egshape.atomic import write_atomic
from egshape.attempts import Dropped, Job, attempt_all, own_rules
from egshape.compiling import Compiled, compile, compile_graph
from egshape.dims import Dim, const, parse, symbol
from egshape.egraph.budget import STEPS
from egshape.egraph.engine import POOL
from egshape.errors import InvalidInput, Unsupported
from egshape.facts import Facts, Relation, several
from egshape.inner import settled
from egshape.ir import display
from egshape.ir.expand import expand
from egshape.ir.graph import Graph, Value
from egshape.ir.inputs import checked_inputs
from egshape.ir.interpret import interpret
from egshape.ir.types import TensorType
from egshape.limits import Deadlines, LimitReached, Limits, holding
from egshape.measure import never_worse
from egshape.ops.host import HOST_CALLS, unresolved
from egshape.pipeline import Optimized
from egshape.reasons.explain import Known, chain, explain_fact
from egshape.reasons.explain import explain as explain_sizes
from egshape.reasons.explain_value import explain_removed, explain_value
from egshape.report import (
    CheckRow,
    Explanation,
    OpCount,
    OpCounts,
    Report,
    RewriteRow,
    ShapeRow,
    ShapeTable,
    Signature,
    StageRow,
    Step,
    Symbol,
    ValueExplanation,
)
from egshape.sizes import axes_of, listed, shape_sources
from egshape.trace import Tracer

_FORMATS = {"mlir": "stablehlo", "mlirbc": "stablehlo", "stablehlo": "stablehlo", "onnx": "onnx"}
"""What reads and writes each format; a file's suffix is the name of its format."""

Model = str | Path | bytes | Any
"""What ``load`` takes: a path, bytes, or a model object (``jax.export.Exported``, ``onnx.ModelProto``)."""


def load(model: Model | Graph, format: str | None = None,
         forms: Mapping[str, int | str | None] | None = None) -> Graph:
    """Load a model: a path (``.mlir``, ``.mlirbc``, ``.onnx``), bytes with ``format``, a ``jax.export.Exported``, or an
    ``onnx.ModelProto``. A Graph is given back as it is.

    ``forms``: of inputs of an ONNX model that are no tensors, by name: the length of a sequence; for an optional value
    ``"tensor"``, a length, or None for one that is left out.

    The graph's ``facts`` hold what came with the model. Raises EgshapeError naming file, place, cause and way out."""
    POOL.prepare()  # what optimizes the model starts while it is read
    if isinstance(model, str | Path):
        path = Path(model)
        kind = format_of(path, format)
        return _load_onnx(path, path.name, forms) if kind == "onnx" else _load_bytes(_read(path), kind, path.name)
    if isinstance(model, bytes):
        return _load_bytes(model, format or "mlir", "model", forms)
    if isinstance(model, Graph):
        return model
    if hasattr(model, "mlir_module_serialized"):
        from egshape.frontends import stablehlo

        return stablehlo.from_exported(model)
    if type(model).__name__ == "ModelProto" and hasattr(model, "SerializeToString"):
        return _load_onnx(_serialized(model), model.graph.name or "model", forms)
    hint = "give a path, bytes, a jax.export.Exported or an onnx.ModelProto"
    if isinstance(model, Result):
        hint = "give its .graph, or its .source"
    elif callable(model):
        hint = "export a function of JAX first: jax.export.export(jax.jit(f))(*types)"
    raise Unsupported(f"cannot load a {type(model).__name__}", hint=hint)


def _serialized(model: Any) -> bytes:
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # protobuf's own classes, by version
        raise InvalidInput(f"the ModelProto cannot be serialized: {error}",
                           hint="a model beyond 2 GB is loaded by its path, its weights beside it") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from None


def format_of(path: Path, format: str | None = None) -> str:
    """The format given, else the file's suffix. Raises InvalidInput for one that nothing reads or writes, and for a
    folder."""
    kind = format or path.suffix.removeprefix(".")
    if format is None and path.is_dir():
        raise InvalidInput("is a folder", where=str(path), hint="give the file of a model")
    if kind == "egx":
        raise InvalidInput("is a compiled program, not a model", where=str(path),
                           hint="`egshape run` and egshape.runtime.load take it, `egshape compile` writes it")
    if kind not in _FORMATS:
        message = f"the format {kind!r} is not known" if kind else "its name does not say which format it has"
        raise InvalidInput(message, where=str(path), hint=f"known are {', '.join(sorted(_FORMATS))}; "
                           "a file name ends in one of these, or pass the format of what is read")
    return kind


def _load_bytes(data: bytes, kind: str, name: str, forms: Mapping[str, int | str | None] | None = None) -> Graph:
    if _FORMATS[format_of(Path(name), kind)] == "onnx":
        return _load_onnx(data, name, forms)
    from egshape.frontends import stablehlo

    return stablehlo.read(data, name)


def _load_onnx(source: Path | bytes, name: str, forms: Mapping[str, int | str | None] | None) -> Graph:
    from egshape.frontends import onnx

    return onnx.read(source, name, forms)


def _graph(graph: Graph | Result, what: str) -> Graph:
    """The graph itself, or a result's. Raises InvalidInput for anything else, such as the path of a model."""
    if isinstance(graph, Graph | Result):
        return graph.graph if isinstance(graph, Result) else graph
    raise InvalidInput(f"{what} takes a Graph or a Result, got a {type(graph).__name__}",
                       hint="egshape.load reads a model")


def save(graph: Graph | Result, path: str | Path, format: str | None = None, opset: int | None = None,
         external_data: bool | None = None, checks: str = "nodes") -> tuple[str, ...]:
    """Write a graph, or a result's, as StableHLO text (``.mlir``) or bytecode (``.mlirbc``), or as an ONNX model
    (``.onnx``). Gives what of the graph the file does not hold, as notes.

    The file is there in full or not at all. ``opset`` is that of an ONNX model: by default that of the model that the
    graph came from, else 17. ``external_data``: its weights go to a file beside it, by default those of models that are
    beyond 2 GB. ``checks``: those of an ONNX model become ``"nodes"`` that fail in any runtime, or are listed in the
    ``"metadata"``, or ``"none"``. Raises EgshapeError if the format cannot hold the graph, or the file cannot be
    written."""
    graph, target = _graph(graph, "save"), Path(path)
    kind = format_of(target, format)
    if kind == "onnx":
        from egshape.frontends import onnx

        return onnx.save(expand(graph, keep=True), target, opset, external_data, checks)
    from egshape.frontends.stablehlo import emit

    text = emit.write(expand(graph, keep=True))
    write_atomic(target, emit.bytecode(text) if kind == "mlirbc" else text)
    return emit.unheld(graph)


def run(graph: Graph | Result, inputs: Mapping[str, np.ndarray] | Sequence[np.ndarray], target: str = "interpret",
        threads: int = 1) -> list[np.ndarray]:
    """Run a graph, or a result's, as it is; inputs by name or in order. Raises CheckFailed where a check of the graph
    fails."""
    graph = _graph(graph, "run")
    if target == "interpret":
        return interpret(graph, inputs)
    found = compile_graph(graph, target, threads)(*checked_inputs(graph, inputs))
    return list(found) if isinstance(found, tuple) else [found]


@dataclass(frozen=True)
class Result:
    """What ``optimize`` gives: the graph, the facts that it relies on, the report, and reasons."""

    graph: Graph
    facts: Facts
    report: Report
    source: Graph
    optimized: Optimized

    @property
    def unchanged(self) -> bool:
        """Whether the graph is the one that came in, checks of assumed facts apart."""
        return set(self.source.body.ops) <= set(self.graph.body.ops)

    def explain(self, a: str, b: str) -> Explanation:
        """Why two sizes are equal: ``arg0.0``, ``%12.1`` (a value of the original graph), or an expression."""
        return explain_sizes(self, a, b)

    def explain_fact(self, text: str) -> Explanation:
        """Why a statement about sizes holds, such as ``arg0.1 % 8 == 0`` or ``b <= 2*s``."""
        return explain_fact(self, text)

    def explain_removed(self) -> tuple[ValueExplanation, ...]:
        """The same of every value whose op is not in the result, in program order."""
        return explain_removed(self)

    def explain_value(self, name: str) -> ValueExplanation:
        """What became of a value of the original graph (``%12``), by which rules, and what stands for it."""
        return explain_value(self, name)

    def __str__(self) -> str:
        return str(self.report)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {self.report.in_short()}>"

    def _repr_html_(self) -> str:
        return display.html(self)


def optimize(model: Model | Graph, assume: str | Sequence[str] = (), rules: str | Sequence[str] = (),
             limits: Limits | None = None, *, facts: Facts | None = None, validate: bool = True,
             refine_signature: bool = False, allow_larger: bool = False, explain: bool = True,
             tracer: Tracer | None = None) -> Result:
    """Optimize a model: a Graph, or what ``load`` takes.

    assume: facts in text, one or several, trusted for rewriting and checked at entry. rules: further rulesets, paths
    or names (of an installed package, `acme.fuse`); they are checked first.
    limits: budgets. validate: compare original and result at a few small sizes; a difference gives the original.
    refine_signature: let input types become static where the facts say so. allow_larger: give a result that would be
    larger than the model, as its file counts (a check is several statements of StableHLO). explain: keep reasons.
    Raises EgshapeError for contradictory facts, unknown names in facts, and wrong rule files."""
    graph, rules, tracer = load(model), tuple(map(str, several(rules))), tracer or Tracer()
    user = Facts.parse(*several(assume), assumed=True)
    if facts is not None:
        user = facts.merge(user)
    for note in graph.metadata.get("notes", ()):
        tracer.note(note)
    hosted = {op.attrs["target"]: op.attrs["call"] for op in graph.body.walk() if op.name in HOST_CALLS}
    for target, call in sorted(hosted.items()):
        kept = unresolved(call)
        tracer.note(f"{target} is kept as it is: {kept}" if kept else
                    f"{target} has no lowering: it is called in Python")
    graph, user = settled(graph, user)
    known = resolve(graph, graph.facts.merge(user) if user != Facts() else graph.facts)
    limits = limits or Limits()
    job = Job(graph, known, rules, limits, Deadlines.of(limits), explain, refine_signature, validate, own_rules(rules))
    started = time.monotonic()
    attempt, dropped = attempt_all(job, tracer)
    done = attempt.done
    for left_out in dropped:
        tracer.note(str(left_out))
    for stop in done.outcome.stops:
        if stop.limit != STEPS:
            tracer.note(str(stop))
    if done.outcome.status == "fallback":
        tracer.note(f"not optimized: {done.outcome.fault}")
    if attempt.verdict is not None and attempt.verdict.skipped and not attempt.verdict.compared:
        tracer.note(attempt.verdict.skipped)
    if attempt.difference:
        tracer.note(f"not optimized, a fault of ours: the result differs from the original {attempt.difference}")
        done.outcome.status = "fallback"
        done = replace(done, graph=graph)
    if done.graph is not graph and not refine_signature and not allow_larger:
        with tracer.stage("measure"), suppress(LimitReached), holding(job.deadlines.end):
            done, larger = never_worse(graph, done)
            if larger:
                tracer.note(larger)
    functions = tuple(_optimized_function(each, rules, limits, started, validate, tracer) for each in graph.functions)
    for name, why in graph.metadata.get("left_out", ()):
        tracer.note(f"the public function @{name} is left out: {why}")
    return Result(replace(_expecting(done.graph, known), functions=functions), known,
                  _report(graph, done, known, tracer, dropped), graph, done)


def _optimized_function(graph: Graph, rules: Sequence[str], limits: Limits, started: float, validate: bool,
                        tracer: Tracer) -> Graph:
    """Another public function of the model, optimized in what is left of the time."""
    left = None if limits.seconds is None else limits.seconds - (time.monotonic() - started)
    if left is not None and left <= 0:
        tracer.note(f"the public function @{graph.name} is kept as it is: no time was left")
        return graph
    found = optimize(graph, (), rules, replace(limits, seconds=left), validate=validate, explain=False)
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
    renamed = out.with_relations(
        Relation(r.kind, r.lhs.substitute(rename), r.rhs.substitute(rename), r.source, r.ranges, r.needs)
        for r in facts.statements())
    return replace(renamed, assumed=facts.assumed)


# -- asking --------------------------------------------------------------------------------------------------------


def shapes_table(graph: Graph, assume: str | Sequence[str] = (), facts: Facts | None = None) -> ShapeTable:
    """Every value with its shape in the inputs' symbols, and where each size comes from."""
    result = optimize(graph, assume, facts=facts, validate=False)
    normal = result.optimized.outcome.sizes[0].normal_form if result.optimized.outcome.sizes else _same
    sources = shape_sources(graph.body)
    meant = {name: parse(text) for name, text in graph.metadata.get("meanings", ())}

    def shown(dim: Dim) -> Dim:
        return normal(dim).substitute(meant)

    rows = [_row(value, "input", "", shown, sources) for value in graph.inputs]
    for op in graph.body.visible():
        rows += [_row(value, op.name, str(op.location), shown, sources) for value in op.results]
    return ShapeTable(values=tuple(rows))


def _same(dim: Dim) -> Dim:
    return dim


def _row(value: Value, op: str, location: str, normal: Any, sources: Mapping[str, str]) -> ShapeRow:
    name = value.name if op == "input" else f"%{value.name}"
    if value.type.shape is None:
        return ShapeRow(name=name, op=op, dtype=value.type.dtype, shape=None, location=location)
    dims = [normal(dim) for dim in value.type.shape]
    origins = tuple(tuple(sources.get(each, each) for each in sorted(dim.symbols())) for dim in dims)
    return ShapeRow.model_validate({"name": name, "op": op, "dtype": value.type.dtype, "shape": tuple(map(str, dims)),
                                    "from": origins, "location": location})


# -- broadcasts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BroadcastAxes:
    """A broadcast of the original graph: ``axes`` says of each axis of its operand whether it is repeated."""

    value: str
    axes: tuple[Literal["expanding", "non-expanding", "unknown"], ...]
    location: str = ""


def broadcast_axes(result: Result) -> list[BroadcastAxes]:
    """Each broadcast_in_dim of the original graph, its operand's axes one by one: an axis is expanding if its size
    is 1 and the result's is known to be another, non-expanding if both sizes are known to be equal."""
    normal = result.optimized.outcome.sizes[0].normal_form if result.optimized.outcome.sizes else _same
    context, one = result.optimized.context, const(1)

    def axis(size: Dim, target: Dim) -> Literal["expanding", "non-expanding", "unknown"]:
        size, target = normal(size), normal(target)
        if size is target or context.decide(Relation("==", size, target)) == "proved":
            return "non-expanding"
        known = context.decide(Relation("==", size, one)) == "proved"
        return "expanding" if known and context.decide(Relation("!=", target, one)) == "proved" else "unknown"

    found = []
    for op in result.source.body.walk():
        if op.name == "broadcast_in_dim" and op.operands[0].type.shape is not None:
            shape = op.operands[0].type.dims
            axes = tuple(axis(size, op.attrs["shape"][k]) for size, k in zip(shape, op.attrs["dims"], strict=True))
            found.append(BroadcastAxes(f"%{op.result.name}", axes, str(op.location)))
    return found


# -- the report ----------------------------------------------------------------------------------------------------


def count_ops(graph: Graph) -> OpCount:
    """Ops of a graph by name, regions included but for those of ops that go out as one."""
    names = Counter(op.name for op in graph.body.visible())
    return OpCount(total=sum(names.values()), by_name=dict(sorted(names.items())))


def _report(graph: Graph, done: Optimized, facts: Facts, tracer: Tracer, dropped: Sequence[Dropped]) -> Report:
    outcome = done.outcome
    normal = outcome.sizes[0].normal_form if outcome.sizes else _same
    return Report(
        model=graph.name,
        ops=OpCounts(before=count_ops(graph), after=count_ops(done.graph)),
        inputs=tuple(_signature(value.name, value.type, normal) for value in graph.inputs),
        outputs=tuple(_signature(name, value.type, normal)
                      for name, value in zip(graph.output_names, done.graph.outputs, strict=True)),
        symbols=tuple(_symbol(name, sources, done, facts) for name, sources in _symbol_sources(graph).items()),
        equalities=_equalities(graph, done, facts),
        checks=_check_rows(graph, done),
        rewrites=tuple(RewriteRow(rule=rule, count=count, seconds=round(outcome.seconds.get(rule, 0.0), 6))
                       for rule, count in sorted(outcome.rewrites.items(), key=lambda item: (-item[1], item[0]))),
        stages=tuple(StageRow(name=stage.name, seconds=stage.seconds) for stage in tracer.stages),
        status=outcome.status,
        notes=tuple(tracer.notes),
        dropped_rules=tuple(each.rule for each in dropped),
    )


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
    low, high = done.context.bounds(symbol(name))
    known = facts.symbol(name)
    ranges = known.ranges if len(known.ranges) > 1 else ((max(low or 0, 0), None if high == 2**31 - 1 else high),)
    return Symbol(name=name, sources=tuple(sources), ranges=tuple((int(a or 0), b) for a, b in ranges),
                  divisor=known.divisor, likely=(done.likely[name],) if name in done.likely else ())


def _equalities(graph: Graph, done: Optimized, facts: Facts) -> tuple[tuple[str, str, tuple[Step, ...]], ...]:
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
            known = known or Known(facts, done.outcome, scope)
            steps = chain(known, first[form][1], dim) or ()
            out.append((first[form][0], name, steps))
    return tuple(out)


def _check_rows(graph: Graph, done: Optimized) -> tuple[CheckRow, ...]:
    rows = [CheckRow(text="true", message=message, location=location, status="proved", why=(Step(rule=why, to="true"),))
            for message, location, why in graph.metadata.get("assertions", ())]
    for check in done.outcome.checks:
        text = str(check.relation) if check.relation is not None else "a condition on data"
        rows.append(CheckRow(text=text, message=check.message, location=check.location,
                             status="proved" if check.status == "proved" else "kept",
                             why=tuple(Step.model_validate(step.to_json()) for step in check.why)))
    return tuple(rows)


def to_dot(graph: Graph) -> str:
    """The graph in Graphviz's language, symbolic shapes on the edges."""
    from egshape.viz.graph import to_dot as draw

    return draw(graph)


__all__ = ["Compiled", "Limits", "Result", "compile", "load", "optimize", "run", "save"]
