"""A graph as a model's message: written anew by its ops (``emit``), or as the file that it was read from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, helper

from egshape.errors import InvalidInput, Unsupported
from egshape.facts import Facts
from egshape.frontends.frontend import Cost
from egshape.frontends.onnx import weights
from egshape.frontends.onnx.checks import CHECKS
from egshape.frontends.onnx.conversion import converted
from egshape.frontends.onnx.emit import Emitter
from egshape.frontends.onnx.emit_checks import Unheld
from egshape.frontends.onnx.emit_functions import LOCAL, Functions
from egshape.frontends.onnx.own import Own, count_of, size_of
from egshape.frontends.onnx.refused import refused
from egshape.frontends.onnx.rounds import with_loops
from egshape.ir.expand import with_requirements
from egshape.ir.graph import Graph, Op

FACTS = "egshape.facts"
"""The metadata key that holds the facts as JSON."""

FUNCTIONS_IR = 8
"""The version of the format since which a model has functions."""

DEFAULT_OPSET = 17

SCANS = 9
"""The opset since which Scan is what it is now."""

OLDEST_IR = 4
"""The version of the format since which initializers need not be inputs."""

MODES = ("nodes", "metadata", "none")
"""Where the checks of a graph go."""


@dataclass(frozen=True)
class Written:
    """A model without its initializers, these, and what of the graph it does not hold, as notes."""

    model: ModelProto
    initializers: Mapping[str, np.ndarray]
    notes: tuple[str, ...]
    cost: Cost
    """Checks apart."""
    nodes: Mapping[str, int]
    """How many nodes there are for ops of a location, checks apart."""

    @property
    def count(self) -> int:
        """Its nodes, those of each function once, but for constants."""
        return count_of([*self.model.graph.node, *(node for each in self.model.functions for node in each.node)])


def write(graph: Graph, opset: int | None = None, checks: str = "nodes") -> Iterator[bytes | memoryview]:
    """The bytes of an ONNX model, in pieces: weights are not copied.

    ``opset``: of the standard ops; that of the model that the graph came from by default. ``checks``: one of ``MODES``.
    Raises Unsupported for an op without ONNX form."""
    found = whole(graph, opset, checks)
    return weights.pieces(found.model, found.initializers)


def whole(graph: Graph, opset: int | None = None, checks: str = "nodes") -> Written:
    """A graph as a model; one that is as it came is written as its file was, where it would be larger else. Arguments
    and errors as of ``write``."""
    if checks not in MODES:
        raise InvalidInput(f"checks cannot go to {checks!r}", hint=f"give one of {', '.join(MODES)}")
    held = graph.metadata if graph.metadata.get("format") == "onnx" else {}
    opsets = dict(held.get("opsets", ()))
    version = int(opsets.get("") or opsets.get("ai.onnx") or DEFAULT_OPSET)
    front = graph.own.front(graph, checks) if isinstance(graph.own, Own) else None
    convert = opset is not None and opset != version
    functions = None if convert else Functions(opsets or {"": version})  # ONNX's converter leaves them as they are
    try:
        found = _anew(graph, held, opsets or {"": version}, version, checks, functions)
    except Unsupported:
        if front is None:
            raise
        found = _as_it_came(graph, front, version, checks)
    else:
        if front is not None:
            came = _as_it_came(graph, front, version, checks)
            if found.cost.exceeds(came.cost) or found.count > came.count:
                found = came
    if opset is not None and convert:
        return replace(found, model=_converted(found.model, found.initializers, opset), initializers={})
    return found


def _anew(
    graph: Graph,
    held: Mapping[str, Any],
    opsets: Mapping[str, int],
    opset: int,
    checks: str,
    functions: Functions | None,
) -> Written:
    """A graph by its own ops: written twice where it has checks, first without them, which tells what its nodes
    check."""
    other = not held or (graph.own is None and "structure" not in held)  # of another format, or an opset before 7
    if other and not graph.checked:  # ONNX clamps the limits of a slice, and broadcasts an axis of 1
        graph = with_requirements(graph)
    graph = with_loops(graph, scans=bool(held) and opset >= SCANS)
    emitter = first = Emitter(graph, opset, None, checks, functions=functions)
    proto = bare = first.graph_proto(graph)
    called = [] if functions is None else functions.written
    if first.found:
        alone = _model(graph, held, opsets, bare, called, ())
        first.scope.refused = refused(alone, first.scope.initializers, graph)
        try:
            emitter = Emitter(graph, opset, first.scope, checks, functions=functions)
            proto = emitter.graph_proto(graph)
        except Unheld as reason:
            emitter = Emitter(graph, opset, first.scope, "metadata", str(reason), functions)
            proto = emitter.graph_proto(graph)
    model = _model(graph, held, opsets, proto, called, emitter.listed if checks != "none" else ())
    nodes = [node for function in called for node in function.node]
    size = sum(array.nbytes for array in first.scope.initializers.values()) + size_of(nodes)
    cost = Cost(count_of([*bare.node, *nodes]), "nodes", size)
    return Written(model, emitter.scope.initializers, emitter.notes(checks), cost, first.written)


def _as_it_came(graph: Graph, front: tuple[Op, ...], opset: int, checks: str) -> Written:
    """A graph as the file that it was read from, behind checks of sizes."""
    first = Emitter(graph, opset, None, "none").scope
    if front:
        own: Own = graph.own
        model, arrays = own.message()
        first.refused = refused(model, arrays, graph)
    try:
        return _behind(front, graph, Emitter(graph, opset, first, checks), checks)
    except Unheld as reason:
        return _behind(front, graph, Emitter(graph, opset, first, "metadata", str(reason)), checks)


def _behind(front: tuple[Op, ...], graph: Graph, emitter: Emitter, checks: str) -> Written:
    own: Own = graph.own
    model, arrays = own.message()
    nodes = emitter.behind(replace(graph.body, ops=front), model.graph.node, graph, own.names)
    model.ir_version = max(OLDEST_IR, model.ir_version)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    types = dict(
        zip(
            (*(value.name for value in graph.inputs), *graph.output_names), (*graph.inputs, *graph.outputs), strict=True
        )
    )
    for info in (*model.graph.input, *model.graph.output):
        if info.name in types and not info.type.tensor_type.HasField("shape"):
            info.CopyFrom(emitter.info(info.name, types[info.name]))
    held = [(each.key, each.value) for each in model.metadata_props]
    _say(model, graph, held, emitter.listed if checks != "none" else ())
    return Written(model, {**arrays, **emitter.scope.initializers}, emitter.notes(checks), own.cost, {})


def _model(
    graph: Graph,
    held: Mapping[str, Any],
    opsets: Mapping[str, int],
    proto: GraphProto,
    functions: Sequence[FunctionProto],
    unchecked: Sequence[str],
) -> ModelProto:
    local = {LOCAL: 1} if any(each.domain == LOCAL for each in functions) else {}
    imports = [
        helper.make_opsetid("" if domain == "ai.onnx" else domain, version)
        for domain, version in {**local, **opsets}.items()
    ]
    model = helper.make_model(proto, opset_imports=imports, producer_name="egshape", functions=functions)
    model.ir_version = max(FUNCTIONS_IR if functions else OLDEST_IR, int(held.get("ir_version", 8)))
    if held:
        _, _, model.domain, model.model_version = held["producer"]
        model.doc_string = held["doc"]
    _say(model, graph, held.get("properties", ()), unchecked)
    return model


def _say(model: ModelProto, graph: Graph, held: Iterable[tuple[str, str]], unchecked: Sequence[str]) -> None:
    """Put what a model held, the facts of its graph, and checks that no node makes, into its metadata."""
    properties = {key: value for key, value in held if key != FACTS}
    if graph.facts != Facts():
        properties[FACTS] = graph.facts.to_json()
    if unchecked:
        properties[CHECKS] = json.dumps(list(unchecked))
    helper.set_model_props(model, properties)


def _converted(model: ModelProto, initializers: Mapping[str, np.ndarray], opset: int) -> ModelProto:
    """The model at another opset, by ONNX's own converter."""
    whole = ModelProto.FromString(b"".join(bytes(piece) for piece in weights.pieces(model, initializers)))
    try:
        return converted(whole, opset)
    except Exception as error:  # the converter raises several kinds
        raise Unsupported(
            f"ONNX's version converter cannot go to opset {opset}: {error}",
            where=model.graph.name,
            hint="leave --opset out to keep the opset of the model",
        ) from None
