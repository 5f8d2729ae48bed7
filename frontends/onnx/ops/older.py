"""Ops of opsets before 7 whose operands broadcast only where an attribute says so, or not at all.

ONNX's converter knows some of them, and these at known sizes only: it is given them as ops of a domain of ours
(``marked``), and they are read by what they said (``plain``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from onnx import NodeProto

from egshape.dims import Dim, const
from egshape.facts import Relation
from egshape.frontends.onnx.broadcast import expand
from egshape.frontends.onnx.checks import relate
from egshape.frontends.onnx.node import STANDARD, Node, graphs_of
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.registry import onnx_op
from egshape.ir.graph import Value

if TYPE_CHECKING:
    from egshape.frontends.onnx.program import Operand
    from egshape.frontends.onnx.scope import Scope

DOMAIN = "egshape.older"
"""The domain of marked nodes."""

MEANT = 13
"""The opset as which a marked node is read once its operands are made plain."""

_BY_AXIS = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
_ALIKE = ("Sum", "Max", "Min", "Mean")
_ATTRIBUTES = ("axis", "broadcast", "consumed_inputs")
"""What the newer ops do not have."""


def marked(nodes: Iterable[NodeProto]) -> None:
    """Put the nodes of these ops, those of subgraphs included, into our domain."""
    for node in nodes:
        if node.domain in STANDARD and node.op_type in _PLAIN:
            node.domain = DOMAIN
        for graph in graphs_of(node.attribute):
            marked(graph.node)


def _by_axis(s: Scope, node: Node, x: Value, y: Value) -> tuple[Value, ...]:
    """Of one shape; with ``broadcast`` the sizes of y are those of x from ``axis`` on, by default its last ones."""
    if not node.flag("broadcast", False):
        return _alike(s, node, x, y)
    rank, inner = x.type.rank, y.type.rank
    axis = node.int("axis", rank - inner)
    if not 0 <= axis <= rank - inner:
        raise node.error(f"repeats {y.type} along the axes from {axis} of {x.type}")
    y = reshape(s, y, (*y.type.dims, *[const(1)] * (rank - inner - axis)))
    return x, expand(s, y, x.type.dims)


def _alike(s: Scope, node: Node, *values: Value) -> tuple[Value, ...]:
    """Of one shape."""
    for value in values[1:]:
        _same(s, node, values[0].type.dims, value.type.dims)
    return values


def _same(s: Scope, node: Node, one: Sequence[Dim], two: Sequence[Dim]) -> None:
    """Check that a node is given one shape twice."""
    if len(one) != len(two) or any(
        a.const is not None and b.const is not None and a is not b for a, b in zip(one, two, strict=True)
    ):
        raise node.error("takes operands of one shape before opset 7")
    for a, b in zip(one, two, strict=True):
        if a is not b:
            relate(
                s,
                Relation("==", a, b),
                f"{node.op} takes operands of one shape before opset 7: {{0}} and {{1}}",
                (a, b),
            )


def _product(s: Scope, node: Node, x: Value, y: Value, z: Value) -> tuple[Value, ...]:
    """z has the shape of the product, or broadcasts to it as it does since."""
    if not node.flag("broadcast", False) and x.type.rank == y.type.rank == 2:
        left, right = node.flag("transA", False), node.flag("transB", False)
        _same(s, node, (x.type.dims[left], y.type.dims[not right]), z.type.dims)
    return x, y, z


def _by_channel(s: Scope, node: Node, x: Value, slope: Value) -> tuple[Value, ...]:
    """A slope for each channel, or one for all."""
    if slope.type.rank == 1 and x.type.rank > 2:
        slope = reshape(s, slope, (*slope.type.dims, *[const(1)] * (x.type.rank - 2)))
    return x, slope


_PLAIN: dict[str, Callable[..., tuple[Value, ...]]] = {
    **dict.fromkeys(_BY_AXIS, _by_axis),
    **dict.fromkeys(_ALIKE, _alike),
    "Gemm": _product,
    "PRelu": _by_channel,
}
"""How the operands of an op become such as it takes since."""


@onnx_op(*_PLAIN, domain=DOMAIN)
def plain(s: Scope, node: Node, *values: Value) -> list[Operand]:
    """The op as it is since, on operands that broadcast as that does."""
    from egshape.frontends.onnx.lowering import lower

    given = _PLAIN[node.op](s, node, *values)
    kept = {name: held for name, held in node.attributes.items() if name not in _ATTRIBUTES}
    proto = NodeProto()
    proto.CopyFrom(node.proto)
    proto.domain = ""
    del proto.attribute[:]
    proto.attribute.extend(kept.values())
    return lower(s, Node(proto, MEANT, kept), given)
