"""The Python API: load, optimize, save, run, and what can be asked of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from egshape.annotate import shown as shown_by_annotations
from egshape.compiling import Compiled, compile, compile_graph
from egshape.dims import Dim, const
from egshape.errors import InvalidInput
from egshape.facts import Facts, Relation
from egshape.frontends.frontend import Writing
from egshape.ir.graph import Graph, Value
from egshape.ir.inputs import checked_inputs
from egshape.ir.interpret import interpret
from egshape.limits import Limits
from egshape.models import load, save_graph
from egshape.optimizing import Result, optimize
from egshape.report import ShapeRow, ShapeTable
from egshape.sizes import shape_sources


def _graph(graph: Graph | Result, what: str) -> Graph:
    """The graph itself, or a result's. Raises InvalidInput for anything else, such as the path of a model."""
    if isinstance(graph, Graph | Result):
        return graph.graph if isinstance(graph, Result) else graph
    raise InvalidInput(
        f"{what} takes a Graph or a Result, got a {type(graph).__name__}", hint="egshape.load reads a model"
    )


def save(
    graph: Graph | Result,
    path: str | Path,
    format: str | None = None,
    opset: int | None = None,
    external_data: bool | None = None,
    checks: str = "nodes",
) -> tuple[str, ...]:
    """Write a graph, or a result's, as StableHLO text (``.mlir``) or bytecode (``.mlirbc``), or as an ONNX model
    (``.onnx``). Gives what of the graph the file does not hold, as notes.

    The file is there in full or not at all. ``opset`` is that of an ONNX model: by default that of the model that the
    graph came from, else 17. ``external_data``: its weights go to a file beside it, by default those of models that are
    beyond 2 GB. ``checks``: those of an ONNX model become ``"nodes"`` that fail in any runtime, or are listed in the
    ``"metadata"``, or ``"none"``. Raises EgshapeError if the format cannot hold the graph, or the file cannot be
    written.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> x = net.input("x", ["n", 4])
        >>> egshape.save(net.graph(y=net.relu(x)), "relu.egs")
        ()
        >>> egshape.load("relu.egs").output_names
        ('y',)
    """
    return save_graph(_graph(graph, "save"), Path(path), format, Writing(opset, external_data, checks))


def run(
    graph: Graph | Result,
    inputs: Mapping[str, np.ndarray] | Sequence[np.ndarray],
    target: str = "interpret",
    threads: int = 1,
) -> list[np.ndarray]:
    """Run a graph, or a result's, as it is; inputs by name or in order. Raises CheckFailed where a check of the graph
    fails."""
    graph = _graph(graph, "run")
    if target == "interpret":
        return interpret(graph, inputs)
    found = compile_graph(graph, target, threads)(*checked_inputs(graph, inputs))
    return list(found) if isinstance(found, tuple) else [found]


# -- asking --------------------------------------------------------------------------------------------------------


def shapes_table(graph: Graph, assume: str | Sequence[str] = (), facts: Facts | None = None) -> ShapeTable:
    """Every value with its shape in the inputs' symbols, and where each size comes from."""
    result = optimize(graph, assume, facts=facts, validate=False)
    normal = result.optimized.sizes.normal_form
    sources = shape_sources(graph.body)
    meant = shown_by_annotations(graph)

    def shown(dim: Dim) -> Dim:
        return normal(dim).substitute(meant)

    rows = [_row(value, "input", "", shown, sources) for value in graph.inputs]
    for op in graph.body.visible():
        rows += [_row(value, op.name, str(op.location), shown, sources) for value in op.results]
    return ShapeTable(values=tuple(rows))


def _row(value: Value, op: str, location: str, normal: Any, sources: Mapping[str, str]) -> ShapeRow:
    name = value.name if op == "input" else f"%{value.name}"
    if value.type.shape is None:
        return ShapeRow(name=name, op=op, dtype=value.type.dtype, shape=None, location=location)
    dims = [normal(dim) for dim in value.type.shape]
    origins = tuple(tuple(sources.get(each, each) for each in sorted(dim.symbols())) for dim in dims)
    return ShapeRow.model_validate(
        {
            "name": name,
            "op": op,
            "dtype": value.type.dtype,
            "shape": tuple(map(str, dims)),
            "from": origins,
            "location": location,
        }
    )


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
    normal = result.optimized.sizes.normal_form
    known, one = result.optimized.sizes, const(1)

    def axis(size: Dim, target: Dim) -> Literal["expanding", "non-expanding", "unknown"]:
        size, target = normal(size), normal(target)
        if known.equal(size, target):
            return "non-expanding"
        apart = known.equal(size, one) and known.decide(Relation("!=", target, one)) == "proved"
        return "expanding" if apart else "unknown"

    found = []
    for op in result.source.body.walk():
        if op.name == "broadcast_in_dim" and op.operands[0].type.shape is not None:
            shape = op.operands[0].type.dims
            axes = tuple(axis(size, op.attrs["shape"][k]) for size, k in zip(shape, op.attrs["dims"], strict=True))
            found.append(BroadcastAxes(f"%{op.result.name}", axes, str(op.location)))
    return found


def to_dot(graph: Graph) -> str:
    """The graph in Graphviz's language, symbolic shapes on the edges."""
    from egshape.viz.graph import to_dot as draw

    return draw(graph)


__all__ = ["Compiled", "Limits", "Result", "compile", "load", "optimize", "run", "save"]
