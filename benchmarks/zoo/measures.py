"""What is counted in an ONNX model, defined once and applied to every optimizer's output.

- **nodes**: of the main graph, its subgraphs and its functions as often as they are called; constants are no nodes.
- **shape-related nodes**: the backward slice of the operands that determine shapes (``SHAPE_OPERANDS``) through nodes
  with an integer or boolean result, and through nodes of other types whose whole ancestry is sizes and constants.
  ``Shape`` and ``Size`` belong to it and end it: where the measured tensor comes from is data.
- **size-dependent small tensors**: results of integer nodes of the main graph with at most 16 elements at every point
  run, whose value varies over the points and, at each point, does not depend on the data. ``distinct`` counts the
  different values among them: a value is the shape and the elements at every point.
- **no-ops**: data-moving nodes whose result is, at every point, their first operand: same dtype, shape and bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
from onnx import defs

from benchmarks.zoo.inputs import Plan, Probe, session

SHAPE_OPERANDS: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,),
    "Expand": (1,),
    "ConstantOfShape": (0,),
    "Slice": (1, 2, 3, 4),
    "Range": (0, 1, 2),
    "Tile": (1,),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
    "Split": (1,),
    "SplitToSequence": (1,),
    "TopK": (1,),
    "OneHot": (1,),
    "CenterCropPad": (1,),
    "MaxUnpool": (2,),
    "AffineGrid": (1,),
    "Col2Im": (1, 2),
    "DFT": (1,),
    "STFT": (1, 3),
    "HannWindow": (0,),
    "HammingWindow": (0,),
    "BlackmanWindow": (0,),
    "Loop": (0,),
    **{
        f"Reduce{kind}": (1,)
        for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
    },
}
"""Op to the operands that determine the shape of its result."""

MOVERS = frozenset(
    ("Expand", "Reshape", "Tile", "Slice", "Pad", "Identity", "Cast", "Squeeze", "Unsqueeze", "Transpose", "Flatten")
)

_INTEGERS = frozenset(
    (onnx.TensorProto.BOOL, *(t for t in range(1, 17) if onnx.TensorProto.DataType.Name(t).startswith(("INT", "UINT"))))
)
_SMALL = 16
_HELD = 1024
"""Bytes of an initializer that measuring keeps: large ones are weights, which no shape depends on."""


@dataclass
class _Scope:
    """A graph's results by name, and what it can see outside."""

    outer: _Scope | None
    makers: dict[str, tuple[onnx.NodeProto, _Scope]] = field(default_factory=dict)
    dtypes: dict[str, int] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)
    graphs: dict[int, list[tuple[onnx.GraphProto, _Scope]]] = field(default_factory=dict)

    def maker(self, name: str) -> tuple[onnx.NodeProto, _Scope] | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.makers:
                return scope.makers[name]
            scope = None if name in scope.dtypes else scope.outer
        return None

    def is_input(self, name: str) -> bool:
        """Whether a name is an input of the graph or of a body, so that its value is data."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.dtypes:
                return name in scope.inputs
            scope = scope.outer
        return False

    def dtype(self, name: str) -> int:
        """The element type; 0 if unknown."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.dtypes:
                return scope.dtypes[name]
            scope = scope.outer
        return 0


def skeleton(path: Path) -> onnx.ModelProto:
    """The model of a file, its functions called in place, without the bytes of its weights."""
    model = onnx.load(path, load_external_data=False)
    for graph in _graphs(model.graph):
        for tensor in graph.initializer:
            if tensor.ByteSize() > _HELD:
                name, dtype, dims = tensor.name, tensor.data_type, list(tensor.dims)
                tensor.Clear()
                tensor.name, tensor.data_type = name, dtype
                tensor.dims.extend(dims)
    return onnx.inliner.inline_local_functions(model) if model.functions else model


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for inner in _subgraphs(node):
            yield from _graphs(inner)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def nodes(model: onnx.ModelProto) -> dict[str, int]:
    """Nodes by op, constants apart, of a ``skeleton``."""
    count: dict[str, int] = {}
    for graph in _graphs(model.graph):
        for node in graph.node:
            if node.op_type != "Constant":
                count[node.op_type] = count.get(node.op_type, 0) + 1
    return count


def shape_nodes(model: onnx.ModelProto) -> int:
    """The number of shape-related nodes of a ``skeleton``."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    found: set[int] = set()
    pending: list[tuple[str, _Scope]] = []
    scopes = list(_scopes(model.graph, None, versions))
    sized: dict[tuple[str, int], bool] = {}
    for graph, scope in scopes:
        for node in graph.node:
            operands = SHAPE_OPERANDS.get(node.op_type, ())
            pending += [(node.input[i], scope) for i in operands if i < len(node.input) and node.input[i]]
    seen: set[tuple[str, int]] = set()
    while pending:
        name, scope = pending.pop()
        made = scope.maker(name)
        if made is None or (name, id(made[1])) in seen:
            continue
        seen.add((name, id(made[1])))
        node, at = made
        if node.op_type == "Constant" or not (at.dtype(name) in _INTEGERS or _from_sizes(name, at, sized)):
            continue
        found.add(id(node))
        if node.op_type not in ("Shape", "Size"):
            pending += [(operand, at) for operand in node.input if operand]
            for graph, inner in at.graphs.get(id(node), []):
                pending += [(out.name, inner) for out in graph.output if inner.dtype(out.name) in _INTEGERS]
    return len(found)


def _scopes(
    graph: onnx.GraphProto, outer: _Scope | None, versions: Mapping[str, int]
) -> Iterator[tuple[onnx.GraphProto, _Scope]]:
    scope = _Scope(outer)
    for tensor in graph.initializer:
        scope.dtypes[tensor.name] = tensor.data_type
    for value in graph.input:
        if value.name not in scope.dtypes:  # else an initializer with a default that callers may replace
            scope.inputs.add(value.name)
        scope.dtypes[value.name] = value.type.tensor_type.elem_type
    inside = []
    for node in graph.node:
        inner = [pair for inside_graph in _subgraphs(node) for pair in _scopes(inside_graph, scope, versions)]
        own = [pair for pair in inner if pair[1].outer is scope]
        scope.graphs[id(node)] = own
        inside += inner
        for index, name in enumerate(node.output):
            scope.makers[name] = (node, scope)
            scope.dtypes[name] = _result_dtype(node, index, scope, own, versions)
    yield graph, scope
    yield from inside


def _result_dtype(
    node: onnx.NodeProto,
    index: int,
    scope: _Scope,
    inner: Sequence[tuple[onnx.GraphProto, _Scope]],
    versions: Mapping[str, int],
) -> int:
    """The element type of a result, from attributes, subgraphs or the op's schema; 0 if they do not say."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    for key in ("to", "dtype", "output_dtype"):
        if key in attributes and attributes[key].i:
            return attributes[key].i
    if "value" in attributes and attributes["value"].HasField("t"):
        return attributes["value"].t.data_type
    if node.op_type == "Constant":
        return onnx.TensorProto.INT64 if attributes.keys() & {"value_int", "value_ints"} else onnx.TensorProto.FLOAT
    if node.op_type == "ConstantOfShape":
        return onnx.TensorProto.FLOAT
    if inner:
        outputs = inner[0][0].output
        place = index + 1 if node.op_type == "Loop" else index
        return inner[0][1].dtype(outputs[place].name) if place < len(outputs) else 0
    domain = "" if node.domain == "ai.onnx" else node.domain
    if not defs.has(node.op_type, domain):
        return 0
    schema = defs.get_schema(node.op_type, versions.get(domain, defs.onnx_opset_version()), domain)
    return _by_schema(schema, node, index, scope)


def _by_schema(schema: defs.OpSchema, node: onnx.NodeProto, index: int, scope: _Scope) -> int:
    result = schema.outputs[min(index, len(schema.outputs) - 1)].type_str
    if result.startswith("tensor("):
        return int(getattr(onnx.TensorProto, result[7:-1].upper(), 0))
    for place, name in enumerate(node.input):
        if name and schema.inputs[min(place, len(schema.inputs) - 1)].type_str == result:
            return scope.dtype(name)
    kinds = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    (only, *others) = kinds.get(result, ["tensor(undefined)"])
    return 0 if others else int(getattr(onnx.TensorProto, only[7:-1].upper(), 0))


def _from_sizes(name: str, scope: _Scope, known: dict[tuple[str, int], bool]) -> bool:
    """Whether a value depends on nothing but sizes and constants."""
    made = scope.maker(name)
    if made is None:
        return not scope.is_input(name)
    node, at = made
    key = (name, id(at))
    if key not in known:
        known[key] = True  # a cycle adds nothing
        known[key] = node.op_type in ("Shape", "Size", "Constant") or (
            not at.graphs.get(id(node)) and all(_from_sizes(operand, at, known) for operand in node.input if operand)
        )
    return known[key]


@dataclass(frozen=True)
class Seen:
    """A tensor at one point: its value's identity, and the elements of a small integer one."""

    dtype: str
    shape: tuple[int, ...]
    digest: int
    small: tuple[int, ...] | None


Point = Mapping[str, Seen]
"""Every tensor of the main graph by name."""

AGAIN = 3
"""So many points are run a second time with other data."""


@dataclass(frozen=True)
class Observed:
    """What was seen at each point of a plan, and with other data at the first of them."""

    points: Sequence[Point]
    again: Sequence[Point]


def observe(path: Path, plan: Plan) -> Observed:
    """Run a model and look at every tensor of its main graph; results that are no tensors are left out."""
    model = onnx.load(path)
    there = {value.name for value in model.graph.output}
    names = dict.fromkeys(name for node in model.graph.node for name in node.output if name and name not in there)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    run = session(model.SerializeToString())
    del model
    outputs = [value.name for value in run.get_outputs()]

    def look(probe: Probe, seed: int) -> Point:
        feed = plan.feed(probe, seed)
        arrays = {**feed, **dict(zip(outputs, run.run(outputs, feed), strict=True))}
        return {name: _look(a) for name, a in arrays.items() if isinstance(a, np.ndarray | np.generic)}

    return Observed([look(p, 0) for p in plan.probes], [look(p, 1) for p in plan.probes[:AGAIN]])


def _look(array: np.ndarray) -> Seen:
    array = np.asarray(array)
    small = None
    if array.dtype.kind in "iu" and array.size <= _SMALL:
        small = tuple(int(x) for x in array.ravel())
    content = np.ascontiguousarray(array).data if array.dtype.kind != "O" else repr(array.tolist()).encode()
    return Seen(array.dtype.name, array.shape, zlib.crc32(content), small)


def small_tensors(model: onnx.ModelProto, seen: Observed) -> tuple[int, int]:
    """(size-dependent small tensors, distinct values among them)."""
    found = []
    for node in model.graph.node:
        for name in node.output:
            keys, again = ([_small_value(point.get(name)) for point in points] for points in (seen.points, seen.again))
            if None not in keys and keys[: len(again)] == again and len(set(keys)) > 1:
                found.append(tuple(keys))
    return len(found), len(set(found))


def _small_value(seen: Seen | None) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    return None if seen is None or seen.small is None else (seen.shape, seen.small)


def no_ops(model: onnx.ModelProto, seen: Observed) -> dict[str, int]:
    """Data-moving nodes of the main graph that move nothing at any point, by op."""
    count: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type in MOVERS and _same(node.input[0], node.output[0], [*seen.points, *seen.again]):
            count[node.op_type] = count.get(node.op_type, 0) + 1
    return count


def _same(before: str, after: str, seen: Iterable[Point]) -> bool:
    return all(before in point and after in point and point[before] == point[after] for point in seen)
