"""What the writers of single ops write with: the protocol of ``emit.Emitter``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from onnx import GraphProto, ValueInfoProto

from egshape.errors import Unsupported
from egshape.frontends.onnx.emit_checks import Checks
from egshape.frontends.onnx.emit_moves import Moves, Pick
from egshape.frontends.onnx.emit_scope import Frame, Scope
from egshape.frontends.onnx.emit_sizes import Sizes
from egshape.ir.graph import Block, Op, Value


class Emitter(Protocol):
    """Writes blocks as ONNX graphs."""

    scope: Scope
    sizes: Sizes
    moves: Moves
    checks: Checks
    picks: dict[Value, Pick]
    backward: dict[Value, Op]
    padded: dict[Value, Op]
    blocks: dict[Value, Any]

    def name(self, value: Value) -> str:
        """The name of a value, which is written now if it is one that waits for a reader."""

    def producer(self, value: Value) -> Op | None:
        """The op that made a value, None for an argument."""

    def element(self, constant: Op) -> Value:
        """A scalar: the first element of a constant."""

    def node(self, op: Op, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The node of an op."""

    def fresh_names(self, op: Op, wanted: Mapping[Value, str]) -> list[str]:
        """Names for the results of an op."""

    def info(self, name: str, value: Value) -> ValueInfoProto:
        """The name and type of a tensor."""

    def unsupported(self, op: Op, what: str) -> Unsupported:
        """The error for an op that ONNX has no form of."""

    def open(self, block: Block, arguments: Sequence[str]) -> Frame:
        """Begin a graph whose inputs have these names."""

    def ops(self, block: Block, wanted: Mapping[Value, str]) -> None:
        """Write the ops of a block; ``wanted`` are the names that results must have."""

    def results(self, values: Sequence[Value], label: str, names: Sequence[str] = ()) -> list[str]:
        """The results of a region, each by a node of the region."""

    def subgraph(self, block: Block, arguments: Sequence[str], name: str) -> GraphProto:
        """A region as a graph of its own, which sees the names around it."""
