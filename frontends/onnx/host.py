"""Ops without a lowering: calls of ONNX's reference evaluator, with the types that ONNX infers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from onnx import ModelProto, TensorProto, TypeProto, defs, helper, numpy_helper, shape_inference

from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.onnx.classical import types_of
from egshape.frontends.onnx.node import Node, graphs_of
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.subgraphs import free_names
from egshape.frontends.onnx.types import dtype_of, tensor_type
from egshape.ir.graph import Value
from egshape.ir.types import DTYPES
from egshape.ops.host import UNKNOWN, call_of

Typed = tuple[str, tuple[Dim, ...] | None]
"""A dtype and a shape; a size of -1 is told by the call."""

RANDOM = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout")
)
"""Two of these on the same operands give different results."""

_SMALL = 1 << 16
"""Constants of at most so many bytes are given to shape inference."""


def call(scope: Scope, node: Node, operands: Sequence[Operand]) -> list[Operand]:
    """A node as a host call. One that ONNX does not know is opaque: its results have the types that the model states,
    and it can be kept but perhaps not run. Raises Unsupported for a node whose result types nothing tells."""
    where = str(node.location)
    if any(value is not None and not isinstance(value, Value) for value in operands):
        raise Unsupported(f"{node.title} of a sequence is not supported", where=where)
    try:
        schema = defs.get_schema(node.op, node.opset, node.domain)
    except defs.SchemaError:
        schema = None
    captured = _captured(scope, node)
    model = _single(scope, node, operands, captured, alone=schema is None or node.op in RANDOM)
    values = [value for value in operands if isinstance(value, Value)] + list(captured.values())
    known = types_of(node, values)
    types: list[Typed]
    if known:
        types = [*known, *[("", None)] * (len(node.outputs) - len(known))]
    elif schema is None:
        types = _opaque_types(scope, node, model, values)
    else:
        types = _types(scope, node, schema, operands, where)
    places = [place for place, name in enumerate(node.outputs) if name]
    shapes = [_ranked(scope, node.outputs[place], *types[place]) for place in places]
    attrs = {
        "target": node.title,
        "call": call_of("onnx", model.SerializeToString(deterministic=True)),
        "dtypes": tuple(dtype for dtype, _ in shapes),
        "ranks": tuple(-1 if shape is None else len(shape) for _, shape in shapes),
        "sizes": tuple(size for _, shape in shapes for size in shape or ()),
    }
    results = scope.add("host_call", values, attrs, result_names=[node.outputs[place] for place in places])
    scope.program.hosted.append((node.title, where))
    scope.program.named.update(results)
    out: list[Operand] = [None] * len(node.outputs)
    for place, value in zip(places, results, strict=True):
        out[place] = value
    return out


def _ranked(scope: Scope, name: str, dtype: str, shape: tuple[Dim, ...] | None) -> Typed:
    """A type of which the rank may be what uses tell; what the model states was found for some sizes, and runtimes do
    not hold it to that."""
    rank = scope.told_rank(name)
    return dtype, (const(UNKNOWN),) * rank if shape is None and rank is not None else shape


def _captured(scope: Scope, node: Node) -> dict[str, Value]:
    """What subgraphs of the node read of the blocks around."""
    out: dict[str, Value] = {}
    for graph in node.subgraphs():
        for name in free_names(graph):
            found = scope.lookup(name)
            if not isinstance(found, Value):
                raise Unsupported(f"a subgraph of {node.title} reads the sequence {name!r}", where=str(node.location))
            out.setdefault(name, found)
    return out


def _single(
    scope: Scope, node: Node, operands: Sequence[Operand], captured: dict[str, Value], alone: bool
) -> ModelProto:
    """A model of the node alone: its operands and captured values are the inputs. One that must not be joined with an
    equal one (``alone``) bears the name of its result."""
    inside = helper.make_node(
        node.op,
        [f"in{place}" if value is not None else "" for place, value in enumerate(operands)],
        [f"out{place}" if name else "" for place, name in enumerate(node.outputs)],
        domain=node.domain,
    )
    inside.attribute.extend(node.attributes[name] for name in sorted(node.attributes))
    named = [(f"in{place}", value) for place, value in enumerate(operands) if isinstance(value, Value)]
    named += list(captured.items())
    inputs = [helper.make_value_info(name, tensor_type(value.type.dtype, None)) for name, value in named]
    outputs = [helper.make_value_info(name, TypeProto()) for name in inside.output if name]
    graph = helper.make_graph([inside], scope.label if alone else node.op, inputs, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in sorted(scope.opsets.items())]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _opaque_types(scope: Scope, node: Node, model: ModelProto, values: Sequence[Value]) -> list[Typed]:
    """Result types of an op that ONNX does not know: what the model states, else the element type that ONNX Runtime
    gives where it knows the op, else that of the first operand; of unknown rank then."""
    out: list[Typed] = []
    told: list[str] | None = None
    for place, name in enumerate(node.outputs):
        stated = scope.stated_type(name) if name else None
        if not name or stated is not None:
            out.append(("", None) if stated is None else _stated(scope, stated, str(node.location)))
            continue
        if told is None:
            model.graph.name, name_kept = node.op, model.graph.name  # equal nodes are asked about once
            told = element_types(model.SerializeToString(deterministic=True))
            model.graph.name = name_kept
        given = sum(1 for each in node.outputs[:place] if each)
        guess = told[given] if given < len(told) else values[0].type.dtype if values else ""
        if guess not in DTYPES:
            raise Unsupported(
                f"nothing tells the element type of {name!r}, a result of the unknown op {node.title}",
                where=str(node.location),
                hint="state its type in the model's value_info",
            )
        out.append((guess, None))
    return out


@lru_cache(maxsize=256)
def element_types(model: bytes) -> list[str]:
    """The element types of the outputs of a model, by ONNX Runtime; none where that is not installed or refuses it."""
    try:
        import onnxruntime
    except ImportError:
        return []
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:  # the runtime's errors have no common class
        return []
    names = {
        "float": "f32",
        "double": "f64",
        "float16": "f16",
        "bfloat16": "bf16",
        "bool": "i1",
        **{f"{sign}int{bits}": f"{sign}i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    }
    return [names.get(str(each.type).removeprefix("tensor(").removesuffix(")"), "") for each in session.get_outputs()]


def _stated(scope: Scope, held: TypeProto, where: str) -> Typed:
    """A type that the model states; its axes that bear names are sizes of the inputs, or told by the call."""
    dtype = dtype_of(held.tensor_type.elem_type, where)
    if not held.tensor_type.HasField("shape"):
        return dtype, None
    known = scope.known_symbols()
    return dtype, tuple(
        const(each.dim_value)
        if each.HasField("dim_value") and each.dim_value >= 0
        else symbol(each.dim_param)
        if each.dim_param in known
        else const(UNKNOWN)
        for each in held.tensor_type.shape.dim
    )


def _types(scope: Scope, node: Node, schema: Any, operands: Sequence[Operand], where: str) -> list[Typed]:
    """Result types by ONNX's inference; our sizes go through it under their place in a table."""
    table: dict[str, Dim] = {}

    def shown(size: Dim) -> int | str:
        if size.const is not None:
            return size.const
        table.setdefault(f"size{size.id}", size)
        return f"size{size.id}"

    types: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for name, value in zip(node.inputs, operands, strict=False):
        if isinstance(value, Value):
            shape = None if value.type.shape is None else [shown(size) for size in value.type.shape]
            types[name] = tensor_type(value.type.dtype, shape)
            array = scope.array(value)
            if array is not None and array.nbytes <= _SMALL:
                data[name] = numpy_helper.from_array(array, name)
    proto = helper.make_node(node.op, list(node.inputs), list(node.outputs), domain=node.domain)
    proto.attribute.extend(node.attributes.values())
    for graph in graphs_of(proto.attribute):
        for info in graph.output:  # as of what the model states of results
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
    try:
        found = shape_inference.infer_node_outputs(
            schema,
            proto,
            types,
            data,
            opset_imports=[helper.make_opsetid(domain, version) for domain, version in scope.opsets.items()],
        )
    except Exception as error:  # onnx raises several kinds, RuntimeError among them
        raise EgshapeError(f"{node.op} does not fit its operands: {error}", where=where, code="invalid-model") from None
    return [_read(scope, name, found.get(name), table, node, where) if name else ("", None) for name in node.outputs]


def _read(scope: Scope, name: str, found: TypeProto | None, table: dict[str, Dim], node: Node, where: str) -> Typed:
    stated = scope.stated_type(name)
    if stated is not None and (found is None or not found.tensor_type.elem_type):
        return _stated(scope, stated, where)
    if found is None or not found.HasField("tensor_type") or not found.tensor_type.elem_type:
        raise Unsupported(f"a result of {node.title} is no tensor of known type", where=where)
    dtype = dtype_of(found.tensor_type.elem_type, where)
    if not found.tensor_type.HasField("shape"):
        return dtype, None
    return dtype, tuple(
        const(each.dim_value) if each.HasField("dim_value") else table.get(each.dim_param, const(UNKNOWN))
        for each in found.tensor_type.shape.dim
    )
