"""A model becomes a graph: inputs and their symbols, the nodes in order, and what a writer needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper
from onnx.defs import onnx_opset_version

from egshape.dims import Dim, const, parse, symbol
from egshape.errors import EgshapeError, InternalError, ParseError, Unsupported
from egshape.facts import Facts, Relation, SymbolFacts
from egshape.frontends.frontend import Rank
from egshape.frontends.onnx import host, ops  # noqa: F401  (ops: declares the ops)
from egshape.frontends.onnx.blame import BUGS, STRICT
from egshape.frontends.onnx.checks import CHECKS, add_listed, listed, without_spent
from egshape.frontends.onnx.conversion import converted
from egshape.frontends.onnx.files import Model, initializers, open_model
from egshape.frontends.onnx.functions import shared as shared_functions
from egshape.frontends.onnx.lowering import lower
from egshape.frontends.onnx.node import STANDARD
from egshape.frontends.onnx.ops import older
from egshape.frontends.onnx.own import own_of
from egshape.frontends.onnx.program import Items, Operand, Program
from egshape.frontends.onnx.ranks import Functions, inferred, open_squeeze
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.structure import Form, flat, forms_of, names_of, operand
from egshape.frontends.onnx.subgraphs import reads as reads_of
from egshape.frontends.onnx.types import dtype_of
from egshape.hints import option
from egshape.ir.builder import BlockBuilder
from egshape.ir.calls import shared
from egshape.ir.graph import Block, Graph, Value
from egshape.ops.shape_function import assumed

Held = TypeVar("Held")

FACTS = "egshape.facts"
"""The metadata key that holds the facts as JSON."""

OLDEST = 7
"""The first opset that is read as it is."""

MODERN = 13
"""What older models are converted to."""

LONGEST = 96
"""Axis names of more letters are names only: an expression multiplied out grows with its length."""

_NAMELESS = ("", "?", "*", "-1", "None", "unk")
"""Axis names that exporters give to every axis they do not know."""


def read(source: Path | bytes, name: str, forms: Mapping[str, Form] | None = None) -> Graph:
    """The graph of an ONNX model.

    Args:
        source: the file, whose folder may hold external data, or the model's bytes.
        name: what messages call it, a file name as a rule.
        forms: what the inputs are that are no tensors, by name (``structure.Form``).

    Raises:
        ParseError: the file is no ONNX model, is damaged, or holds a graph that cannot be right.
        Unsupported: an op, type or structure that egshape does not know; ``where`` is the node.
        InvalidInput: the file or its external data cannot be read.
    """
    model = open_model(source, name)
    try:
        return graph_of(model, forms or {})
    except EgshapeError:
        raise
    except BUGS as fault:
        if os.environ.get(STRICT):
            raise
        raise InternalError(
            f"cannot be read, {type(fault).__name__}: {fault}",
            where=name,
            hint=f"{STRICT}=1 shows where; please report it if the model is valid",
        ) from fault


def graph_of(model: Model, forms: Mapping[str, Form], whole: frozenset[str] = frozenset()) -> Graph:
    """The graph of a parsed model; ``whole``: the locations of nodes that are one op each. Raises as ``read``."""
    proto = model.proto
    opsets: dict[str, int] = {}
    for each in proto.opset_import:
        domain, version = "" if each.domain in STANDARD else each.domain, int(each.version)
        if opsets.setdefault(domain, version) != version:
            raise ParseError(f"imports the opsets {opsets[domain]} and {version} of one domain", where=model.name)
    if opsets.get("", OLDEST) < OLDEST:
        return graph_of(_upgraded(model, opsets[""]), forms, whole)
    if opsets.get("", OLDEST) > onnx_opset_version():
        raise Unsupported(
            f"is of opset {opsets['']}, the installed onnx knows up to {onnx_opset_version()}",
            where=model.name,
            hint="install a newer onnx",
        )
    functions = {("" if each.domain in STANDARD else each.domain, each.name): each for each in proto.functions}
    program = Program(model, lower, host.call, functions, whole, shared_functions(proto.graph, functions))
    builder = BlockBuilder(decide=program.bounds.decide)
    builder.names.keep(name for node in proto.graph.node for name in node.output if name.isdigit())
    scope = Scope(program, builder, opsets)
    scope.initializers.update(initializers(model))
    scope.state((*proto.graph.value_info, *proto.graph.output))
    held = _held(model, FACTS, Facts.from_json, Facts())
    checks = _held(model, CHECKS, listed, list[Relation]())
    inputs = [info for info in proto.graph.input if info.name not in scope.initializers]
    nodes = needed(proto.graph, set(scope.initializers) | {info.name for info in inputs}, model.name)
    program.ranks, program.told = _ranks(proto.graph, nodes, functions, forms)
    given = _inputs(inputs, builder, model.name, forms, program.ranks)
    values = flat(given)
    scope.names.update(zip((info.name for info in inputs), given, strict=True))
    program.named.update(values)
    for value in values:
        program.sizes.update(value.type.shape or ())
        for size in value.type.shape or ():
            if size.const is None:
                program.bounds.learn(Relation("<=", size, const(2**31 - 1)))
    _assume(program, values)
    checks = add_listed(scope, checks)
    scope.run(nodes)
    unknown = add_listed(scope, checks)
    results = [scope.lookup(info.name) for info in proto.graph.output]
    names = tuple(info.name for info in proto.graph.output)
    facts = _facts(held, values, program)
    body = shared(without_spent(builder.finish(flat(results)), program.spent))
    metadata = _metadata(model, program, given, results, (*program.notes, *_unranked(body), *_left_out(unknown)))
    own = None if "structure" in metadata or older.DOMAIN in opsets else own_of(model, body, facts, forms, whole)
    title = proto.graph.name or Path(model.name).stem
    return Graph(title, body, names_of(names, results), facts, metadata, own=own)


def _assume(program: Program, inputs: Sequence[Value]) -> None:
    """Note facts that are given beside the model, in its symbols."""
    facts = assumed()
    if facts is None:
        return
    axes = [(value.name, f"arg{place}", value.type.shape or ()) for place, value in enumerate(inputs)]
    named = {f"{name}.{axis}": size for *names, shape in axes for name in names for axis, size in enumerate(shape)}
    for fact in facts.statements():
        program.assumed.learn(fact.substitute(named))


def _upgraded(model: Model, opset: int) -> Model:
    """A model of an opset before ``OLDEST`` at ``MODERN``, by ONNX's converter, but for the ops of ``ops.older``.
    Raises Unsupported where it cannot."""
    whole = ModelProto()
    whole.CopyFrom(model.proto)
    older.marked(whole.graph.node)
    whole.opset_import.append(helper.make_opsetid(older.DOMAIN, 1))
    for tensor in whole.graph.initializer:
        if tensor.name in model.raw:
            tensor.raw_data = bytes(model.raw[tensor.name])
    try:
        found = converted(whole, MODERN)
    except Exception as error:  # the converter raises several kinds
        raise Unsupported(
            f"is of opset {opset}, and ONNX's converter cannot go to {MODERN}: {error}",
            where=model.name,
            hint="export it again at a newer opset",
        ) from None
    return Model(found, model.name, {}, model.folder)


def _ranks(
    graph: GraphProto, nodes: Sequence[NodeProto], functions: Functions, forms: Mapping[str, Form]
) -> tuple[dict[str, int], dict[str, int]]:
    """How many axes values have: with what the model states of them, and without what it states of results."""
    said = {name.removeprefix("%"): form.axes for name, form in forms.items() if isinstance(form, Rank)}
    given = _stated(graph.input)
    unsaid = any(info.type.HasField("tensor_type") and info.name not in {**said, **given} for info in graph.input)
    told = {**said, **given}
    stated = {**said, **_stated((*graph.input, *graph.value_info, *graph.output))}
    if unsaid:
        stated = inferred(graph, nodes, functions, stated)
    if unsaid or any(open_squeeze(node) for node in nodes):
        told = inferred(graph, nodes, functions, told)
    return stated, told


def _stated(infos: Iterable[ValueInfoProto]) -> dict[str, int]:
    types = {info.name: info.type.tensor_type for info in infos}
    return {name: len(held.shape.dim) for name, held in types.items() if held.HasField("shape")}


# -- inputs ------------------------------------------------------------------------------------------------------


def _inputs(
    infos: Sequence[ValueInfoProto],
    builder: BlockBuilder,
    name: str,
    forms: Mapping[str, Form],
    ranks: Mapping[str, int],
) -> list[Operand]:
    seen: set[str] = set()
    plain = {
        each.dim_param
        for info in infos
        for each in info.type.tensor_type.shape.dim
        if each.HasField("dim_param") and _expression(each.dim_param) in (None, symbol(each.dim_param))
    }

    def make(tensor: Any, label: str) -> Value:
        return _argument(builder, tensor, label, plain, ranks.get(label))

    out: list[Operand] = []
    for info in infos:
        if info.name in seen:
            raise ParseError(f"two inputs are named {info.name!r}", where=name)
        seen.add(info.name)
        out.append(operand(info.type, info.name, forms, make))
    return out


def _argument(builder: BlockBuilder, tensor: Any, name: str, plain: set[str], rank: int | None) -> Value:
    """An input tensor, or one of an input sequence, whose axes are as long as they like. ``rank``: what is known where
    the model does not say it."""
    where = f"input {name}"
    dtype = dtype_of(tensor.elem_type, where)
    if not tensor.HasField("shape"):
        return builder.arg(name, dtype, None if rank is None else [None] * rank)
    axes = [_axis(each, plain, where) for each in tensor.shape.dim]
    if name.endswith("]"):
        axes = [(size if isinstance(size, int) else None, None) for size, _ in axes]
    return builder.arg(name, dtype, [size for size, _ in axes], [label for _, label in axes])


def _axis(dim: Any, plain: set[str], where: str) -> tuple[Dim | int | None, str | None]:
    """The size of an input axis, or None and the name of its symbol."""
    if dim.HasField("dim_value"):
        if dim.dim_value < 0:
            return None, None  # several exporters write -1 for an unknown size
        if dim.dim_value > 2**31 - 1:
            raise ParseError(f"has an axis of size {dim.dim_value}", where=where)
        return int(dim.dim_value), None
    name = dim.dim_param
    if name in _NAMELESS:
        return None, None
    written = _expression(name)
    if written is not None and written is not symbol(name) and written.symbols() <= plain:
        return written, None
    return None, name


def _expression(name: str) -> Dim | None:
    """A dim_param as an expression, None if it is none."""
    try:
        return parse(name) if 0 < len(name) <= LONGEST else None
    except EgshapeError:
        return None


# -- nodes -------------------------------------------------------------------------------------------------------


def needed(graph: GraphProto, known: set[str], name: str) -> list[NodeProto]:
    """The nodes that outputs depend on, each after those that it reads, in the model's order where that is one.

    Raises ParseError for a cycle, and for a name that two nodes define."""
    nodes = list(graph.node)
    maker: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for output in node.output:
            if output and (output in maker or output in known):
                raise ParseError(f"{output!r} is defined twice", where=name)
            if output:
                maker[output] = index
    reads = [sorted({maker[each] for each in reads_of(node) if each in maker}) for node in nodes]
    wanted = {maker[info.name] for info in graph.output if info.name in maker}
    stack = list(wanted)
    while stack:
        for source in reads[stack.pop()]:
            if source not in wanted:
                wanted.add(source)
                stack.append(source)
    if all(source < index for index in wanted for source in reads[index]):
        return [nodes[index] for index in sorted(wanted)]
    return [nodes[index] for index in _sorted(wanted, reads, name)]


def _sorted(wanted: set[int], reads: Sequence[Sequence[int]], name: str) -> list[int]:
    from graphlib import CycleError, TopologicalSorter

    try:
        return list(TopologicalSorter({index: reads[index] for index in sorted(wanted)}).static_order())
    except CycleError:
        raise ParseError("the nodes depend on each other in a circle", where=name) from None


# -- facts and metadata ------------------------------------------------------------------------------------------


def _held(model: Model, key: str, read: Callable[[str], Held], nothing: Held) -> Held:
    """What the metadata holds under a key. Raises EgshapeError where it cannot be read."""
    for entry in model.proto.metadata_props:
        if entry.key == key:
            try:
                return read(entry.value)
            except EgshapeError as error:
                raise EgshapeError(
                    f"the metadata {key}: {error.message}", where=model.name, hint=error.hint, code=error.code
                ) from error
    return nothing


def _facts(held: Facts, inputs: Sequence[Value], program: Program) -> Facts:
    """The model's facts, which axis each symbol is, and the bounds of data-dependent sizes."""
    axes = ((value, axis, size) for value in inputs for axis, size in enumerate(value.type.shape or ()))
    facts = Facts().with_symbols(
        SymbolFacts(name, (f"{value.name}.{axis}",))
        for value, axis, size in axes
        for name in size.symbols()
        if size is symbol(name)
    )
    certain = [replace(each, certain=True) for each in program.relations]
    return facts.with_relations(certain).merge(_without(held, Facts().with_relations(certain)))


def _without(held: Facts, certain: Facts) -> Facts:
    """What the metadata holds beyond what the ops make sure of, which an earlier save wrote there."""
    known = {each.name: each for each in certain.symbols}
    symbols = [
        each
        for each in held.symbols
        if each.name not in known or (each.ranges, each.divisor) != (known[each.name].ranges, known[each.name].divisor)
    ]
    gone = {each.name for each in held.symbols} - {each.name for each in symbols}
    return replace(
        held,
        symbols=tuple(symbols),
        relations=tuple(each for each in held.relations if each not in certain.relations),
        stated=tuple(each for each in held.stated if not each.symbols() <= gone),
    )


def _metadata(
    model: Model, program: Program, given: Sequence[Operand], results: Sequence[Operand], notes: tuple[str, ...]
) -> dict[str, Any]:
    """What a writer needs to give the model the same head, and the ops that run on the host."""
    proto = model.proto
    return {
        "format": "onnx",
        "ir_version": int(proto.ir_version),
        "opsets": tuple((each.domain, int(each.version)) for each in proto.opset_import if each.domain != older.DOMAIN),
        "producer": (proto.producer_name, proto.producer_version, proto.domain, int(proto.model_version)),
        "doc": proto.doc_string,
        "properties": tuple((each.key, each.value) for each in proto.metadata_props if each.key not in (FACTS, CHECKS)),
        "outputs": tuple((info.name, _declared(info)) for info in proto.graph.output),
        **_structure(given, results),
        "host_calls": tuple(program.hosted),
        "notes": notes,
    }


def _left_out(unknown: Iterable[Relation]) -> Iterator[str]:
    for each in unknown:
        yield f"the check {each} of the metadata speaks of sizes that the model does not have: it is left out"


def _unranked(body: Block) -> Iterator[str]:
    """What to say of values of unknown rank that are not made of others."""
    made = [("%", value, f" ({op.location})") for op in body.ops if _ranked(op.reads()) for value in op.results]
    for mark, value, where in (*(("", value, "") for value in body.args), *made):
        if value.type.shape is None:
            yield (
                f"the rank of {mark}{value.name}{where} is not known from its uses, and what reads it runs in Python: "
                f"say it, as {option('--annotate', f'{mark}{value.name}: {value.type.dtype}[?, ?]')}"
            )


def _ranked(values: Iterable[Value]) -> bool:
    return all(value.type.shape is not None for value in values)


def _structure(given: Sequence[Operand], results: Sequence[Operand]) -> dict[str, Any]:
    """What the inputs and outputs are, where some are no tensors; for empty sequences their dtype."""
    if all(isinstance(each, Value) for each in (*given, *results)):
        return {}
    return {
        "structure": (forms_of(given), forms_of(results)),
        "sequence_dtypes": tuple(each.dtype if isinstance(each, Items) else "" for each in results),
    }


def _declared(info: ValueInfoProto) -> tuple[str, ...]:
    """The sizes that the model states of an output, as texts; a name or nothing where it states none."""
    return tuple(
        str(each.dim_value) if each.HasField("dim_value") else each.dim_param
        for each in info.type.tensor_type.shape.dim
    )
