"""Programs of a line, and what is asked of them: what they refuse, and which checks are left at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import egshape
from egshape.annotation import named
from egshape.dims import Dim, parse
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.ir.interpret import interpret
from egshape.ir.types import numpy_dtype


class Ops:
    """Adds ops by name: ``b.reshape(x, "x.0*x.1")``, ``b.one("negate", x)``."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder

    def __call__(self, op: str, *operands: Value, **attrs: Any) -> Value:
        return self.builder.one(op, operands, attrs)

    def reshape(self, x: Value, *shape: str | int) -> Value:
        """``x`` in another shape, written as texts."""
        return self("reshape", x, shape=sizes(*shape))


def sizes(*texts: str | int) -> tuple[Dim, ...]:
    """Sizes from texts."""
    return tuple(parse(str(each)) for each in texts)


def program(inputs: str, body: Callable[..., Value | tuple[Value, ...]]) -> Graph:
    """A graph of inputs such as ``x: f32[?, 3]; y: i32[?]``, whose sizes are called x.0, y.0."""
    builder = BlockBuilder()
    values = []
    for text in inputs.split(";"):
        name, type = named(text)
        shape = None if type.shape is None else [None if each is None else each.dim for each in type.shape]
        values.append(builder.arg(name, str(type.dtype), shape))
    results = body(Ops(builder), *values)
    results = results if isinstance(results, tuple) else (results,)
    return Graph("f", builder.finish(results), tuple(f"out{number}" for number in range(len(results))))


def refusal(graph: Graph, *shapes: Sequence[int]) -> str:
    """What a graph says of arrays of ones of these shapes, "" if it takes them."""
    arrays = [np.ones(shape, numpy_dtype(each.type.dtype)) for shape, each in zip(shapes, graph.inputs, strict=True)]
    try:
        interpret(graph, arrays)
    except CheckFailed as error:
        return error.message
    return ""


def kept(graph: Graph) -> list[str]:
    """The messages of the checks that are left when a graph is optimized."""
    report = egshape.optimize(graph).report
    assert report.status == "saturated"
    return [each.message for each in report.checks if each.status == "kept"]


def said(graph: Graph, types: Mapping[str, str]) -> str:
    """What is wrong with types, "" where nothing is."""
    try:
        egshape.annotate(graph, types)
    except EgshapeError as error:
        return str(error)
    return ""
