"""One node of a model, and its attributes: read by name, and as a record from which the node can be written again."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from egshape.errors import EgshapeError
from egshape.ir.graph import Location

STANDARD = ("", "ai.onnx")

_MESSAGES: dict[int, str] = {
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
}


class Node:
    """A node: its op, the opset of its domain, and its attributes."""

    def __init__(self, proto: NodeProto, opset: int, attributes: Mapping[str, AttributeProto]) -> None:
        self.proto = proto
        self.opset = opset
        self.domain = "" if proto.domain in STANDARD else proto.domain
        self.attributes = attributes

    @property
    def op(self) -> str:
        """The op's name, without its domain."""
        return str(self.proto.op_type)

    @property
    def title(self) -> str:
        """What the user calls the op: ``onnx.Conv``, ``com.microsoft.Gelu``."""
        return f"{self.domain or 'onnx'}.{self.op}"

    @cached_property
    def inputs(self) -> Sequence[str]:
        """Names of the inputs, "" for one that is left out."""
        return list(self.proto.input)

    @cached_property
    def outputs(self) -> Sequence[str]:
        """Names of the outputs, "" for one that nobody wants."""
        return list(self.proto.output)

    @cached_property
    def location(self) -> Location:
        """The node's name, else its op and first output."""
        first = next((name for name in self.proto.output if name), "")
        return Location(name=self.proto.name or f"{self.op}:{first}")

    def wants(self, output: int) -> bool:
        """Whether an output has a name."""
        return output < len(self.outputs) and bool(self.outputs[output])

    # -- attributes ------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the attribute is given."""
        return name in self.attributes

    def _read(self, name: str, kind: Any, field: str, default: Any) -> Any:
        held = self.attributes.get(name)
        if held is None:
            if default is ...:
                raise self.error(f"lacks the attribute {name!r}")
            return default
        if held.type not in (kind, AttributeProto.UNDEFINED):
            raise self.error(f"has the attribute {name!r} of another type")
        return getattr(held, field)

    def int(self, name: str, default: Any = ...) -> Any:
        """An integer attribute. Raises EgshapeError where it is missing and has no default."""
        return self._read(name, AttributeProto.INT, "i", default)

    def flag(self, name: str, default: bool) -> bool:
        """An integer attribute that says yes or no. Raises EgshapeError for one that is neither 0 nor 1: some runtimes
        take that for a yes, others (with ONNX's own shape inference) for a no."""
        found = self.int(name, int(default))
        if found not in (0, 1):
            raise self.error(f"has the attribute {name!r} = {found}, which must be 0 or 1")
        return bool(found)

    def float(self, name: str, default: Any = ...) -> Any:
        """A float attribute."""
        return self._read(name, AttributeProto.FLOAT, "f", default)

    def text(self, name: str, default: Any = ...) -> Any:
        """A text attribute."""
        found = self._read(name, AttributeProto.STRING, "s", default)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found

    def ints(self, name: str, default: Any = ...) -> Any:
        """Integers, as a tuple."""
        found = self._read(name, AttributeProto.INTS, "ints", default)
        return found if found is default else tuple(found)

    def floats(self, name: str, default: Any = ...) -> Any:
        """Floats, as a tuple."""
        found = self._read(name, AttributeProto.FLOATS, "floats", default)
        return found if found is default else tuple(found)

    def texts(self, name: str, default: Any = ...) -> Any:
        """Texts, as a tuple."""
        found = self._read(name, AttributeProto.STRINGS, "strings", default)
        return found if found is default else tuple(each.decode("utf-8", "replace") for each in found)

    def tensor(self, name: str) -> TensorProto | None:
        """A tensor attribute, None where it is not given."""
        return self._read(name, AttributeProto.TENSOR, "t", None)

    def graph(self, name: str) -> GraphProto:
        """A subgraph."""
        return self._read(name, AttributeProto.GRAPH, "g", ...)

    def subgraphs(self) -> Iterator[GraphProto]:
        """All subgraphs among the attributes."""
        return graphs_of(self.attributes.values())

    def error(self, message: str) -> EgshapeError:
        """An error about this node."""
        return EgshapeError(f"{self.op} {message}", where=str(self.location), code="invalid-model")

    # -- records ---------------------------------------------------------------------------------------------

    def record(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[Any, ...]:
        """What the node was, for a composite: which inputs and outputs are there, and the attributes by name.
        ``node_of`` writes a node from it."""
        held = tuple((name, *_pack(each)) for name, each in sorted(self.attributes.items()))
        return ("inputs", tuple(inputs)), ("outputs", tuple(outputs)), ("attributes", held)


def graphs_of(attributes: Any) -> Iterator[GraphProto]:
    """The subgraphs among attributes."""
    for each in attributes:
        if each.type == AttributeProto.GRAPH:
            yield each.g
        elif each.type == AttributeProto.GRAPHS:
            yield from each.graphs


def nodes_in(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes, and those of the graphs inside of them."""
    for node in nodes:
        yield node
        for graph in graphs_of(node.attribute):
            yield from nodes_in(graph.node)


_MOVES = frozenset(("Transpose", "Reshape", "Expand", "Squeeze", "Unsqueeze"))


def titles(nodes: Iterable[NodeProto], values: Collection[str]) -> dict[str, str]:
    """What gives each of some values that nodes give: the type of the node, behind those of moves that give no value
    but an operand of it: ``Transpose ×2 + MatMul``."""
    made = {name: node for node in nodes_in(nodes) for name in node.output if name}

    def moves(name: str) -> list[str]:
        node = made.get(name)
        if node is None or name in values or node.op_type not in _MOVES:
            return []
        return [*moves(node.input[0]), node.op_type]

    def title(node: NodeProto) -> str:
        before = Counter(each for operand in node.input for each in moves(operand))
        return " + ".join([*(f"{each} ×{many}" if many > 1 else each for each, many in before.items()), node.op_type])

    return {name: title(node) for name, node in made.items() if name in values}


def node_types(model: ModelProto) -> Counter[str]:
    """How many nodes of each type a model has, those of graphs inside and of each function too."""
    graphs = (model.graph, *model.functions)
    return Counter(node.op_type for graph in graphs for node in nodes_in(graph.node))


def called_by(node: NodeProto) -> tuple[str, str]:
    """The domain and the name of what a node runs: a function's, where the model has one of these."""
    return "" if node.domain in STANDARD else node.domain, node.op_type


def _pack(held: AttributeProto) -> tuple[str, Any]:
    kind = held.type
    if kind == AttributeProto.INT:
        return "i", int(held.i)
    if kind == AttributeProto.FLOAT:
        return "f", float(held.f)
    if kind == AttributeProto.STRING:
        return "s", held.s.decode("utf-8", "surrogateescape")
    if kind == AttributeProto.INTS:
        return "ints", tuple(map(int, held.ints))
    if kind == AttributeProto.FLOATS:
        return "floats", tuple(map(float, held.floats))
    if kind == AttributeProto.STRINGS:
        return "strings", tuple(each.decode("utf-8", "surrogateescape") for each in held.strings)
    return "message", base64.b64encode(held.SerializeToString(deterministic=True)).decode("ascii")


def _unpack(name: str, kind: str, value: Any) -> AttributeProto:
    if kind == "message":
        return AttributeProto.FromString(base64.b64decode(value))
    out = AttributeProto(name=name)
    if kind in ("i", "f"):
        out.type = AttributeProto.INT if kind == "i" else AttributeProto.FLOAT
        setattr(out, kind, value)
    elif kind == "s":
        out.type, out.s = AttributeProto.STRING, value.encode("utf-8", "surrogateescape")
    elif kind == "strings":
        out.type = AttributeProto.STRINGS
        out.strings.extend(each.encode("utf-8", "surrogateescape") for each in value)
    else:
        out.type = AttributeProto.INTS if kind == "ints" else AttributeProto.FLOATS
        getattr(out, kind).extend(value)
    return out


def node_of(title: str, record: Any, inputs: Sequence[str], outputs: Sequence[str], name: str = "") -> NodeProto:
    """The node that a composite named ``title`` was: ``inputs`` and ``outputs`` are the names of those that are
    there, in order; the others are "" again."""
    held = dict(record)
    domain, _, op = title.rpartition(".")
    names = (_spread(held["inputs"], inputs), _spread(held["outputs"], outputs))
    node = helper.make_node(op, *names, name=name, domain="" if domain == "onnx" else domain)
    node.attribute.extend(_unpack(*each) for each in held["attributes"])
    return node


def _spread(places: Sequence[int], names: Sequence[str]) -> list[str]:
    out = [""] * (max(places, default=-1) + 1)
    for place, name in zip(places, names, strict=True):
        out[place] = name
    return out


def resolved(proto: NodeProto, given: Mapping[str, AttributeProto] | None) -> dict[str, AttributeProto]:
    """The attributes of a node inside a function that is called with ``given``, references put right."""
    out: dict[str, AttributeProto] = {}
    for each in proto.attribute:
        if given is None or not _refers(each):
            out[each.name] = each
            continue
        if each.ref_attr_name:
            if each.ref_attr_name not in given:
                continue
            held = AttributeProto()
            held.CopyFrom(given[each.ref_attr_name])
        else:
            held = AttributeProto()
            held.CopyFrom(each)
            for graph in graphs_of([held]):
                _resolve_graph(graph, given)
        held.name = each.name
        out[each.name] = held
    return out


def _refers(attribute: AttributeProto) -> bool:
    return bool(attribute.ref_attr_name) or any(True for _ in graphs_of([attribute]))


def _resolve_graph(graph: GraphProto, given: Mapping[str, AttributeProto]) -> None:
    for node in graph.node:
        attributes = resolved(node, given)
        del node.attribute[:]
        node.attribute.extend(attributes.values())
