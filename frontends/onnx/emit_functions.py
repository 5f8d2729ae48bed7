"""Functions of a model under construction: what calls of the graph call, each written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, NodeProto, helper

from egshape.dims import const
from egshape.errors import EgshapeError
from egshape.frontends.onnx.emit_scope import Names
from egshape.frontends.onnx.node import nodes_in
from egshape.frontends.onnx.weights import tensor
from egshape.ir.calls import closed, function_key
from egshape.ir.graph import Graph, Op
from egshape.ir.types import TensorType

LOCAL = "egshape.functions"
"""The domain of functions that come from elsewhere."""

SIZE = TensorType("i64", (const(1),))
"""What a size is that a function takes."""

LARGEST = 2**24
"""Bytes of the constants of a function: they are a part of the message."""

Bodies = Callable[[Graph], tuple[GraphProto, Mapping[str, np.ndarray]]]
"""Writes a graph without checks: its nodes, and what they read that none of them gives."""


@dataclass
class Functions:
    """The functions that are written so far.

    opsets: by domain, of all their nodes."""

    opsets: Mapping[str, int]
    names: dict[str, Names] = field(default_factory=dict)
    _written: dict[Any, FunctionProto | None] = field(default_factory=dict)

    @property
    def written(self) -> list[FunctionProto]:
        """Those that could be written."""
        return [each for each in self._written.values() if each is not None]

    def of(self, call: Op, write: Bodies) -> FunctionProto | None:
        """What an op calls; None where it stands in line: it checks something, sees values around, or holds large
        weights."""
        key = function_key(call)
        if key not in self._written:
            try:
                self._written[key] = self._function(call, write)
            except EgshapeError:
                self._written[key] = None
        return self._written[key]

    def _function(self, call: Op, write: Bodies) -> FunctionProto | None:
        (region,) = call.regions
        if region.captures() or any(op.name == "check" for op in region.walk()):
            return None
        domain, _, name = call.attrs["name"].rpartition(".")
        if not domain or domain not in self.opsets:
            domain, name = LOCAL, call.attrs["name"]
        body = closed(region, SIZE)
        labels = tuple(f"y{place}" for place in range(len(body.results)))
        proto, constants = write(Graph(name, body, labels))
        if sum(array.nbytes for array in constants.values()) > LARGEST:
            return None
        nodes = [*(_constant(name, array) for name, array in constants.items()), *proto.node]
        local = {LOCAL: 1} if any(node.domain == LOCAL for node in nodes_in(nodes)) else {}
        imports = [
            helper.make_opsetid("" if each == "ai.onnx" else each, version)
            for each, version in {**local, **self.opsets}.items()
        ]
        return helper.make_function(
            domain,
            self.names.setdefault(domain, Names()).fresh(name),
            [each.name for each in proto.input],
            [each.name for each in proto.output],
            nodes,
            imports,
        )


def _constant(name: str, array: np.ndarray) -> NodeProto:
    return helper.make_node("Constant", [], [name], name=f"Constant:{name}", value=tensor(array))
