"""A graph as a file of ``torch.export.save``: torch traces the module that the graph is, with every size open."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from egshape.atomic import write_atomic
from egshape.errors import Unsupported
from egshape.frontends.torch import entry
from egshape.frontends.torch.axes import label_of
from egshape.frontends.torch.module import Written, assembled, written
from egshape.frontends.torch.quiet import quiet
from egshape.frontends.torch.types import torch_dtype
from egshape.ir.graph import Graph, Value
from egshape.ir.points import points_of

FACTS = "egshape.facts"
"""The file in the archive that holds the facts of a graph."""


def save(graph: Graph, path: Path) -> tuple[str, ...]:
    """Write a graph as an exported program; what the file does not hold, as notes. Raises Unsupported for an op that
    torch has no form of, and where torch does not export the module."""
    import torch

    found = written(graph)
    program, notes = exported(graph, found)
    held = io.BytesIO()
    torch.export.save(program, held, extra_files={FACTS: graph.facts.to_json()})
    write_atomic(path, [held.getvalue()])
    return (*found.notes, *notes)


def exported(graph: Graph, found: Written) -> tuple[Any, tuple[str, ...]]:
    """The exported program of a graph that is written, and notes on how torch takes its sizes."""
    sizes = _example(graph)
    failed = ""
    for road, note in _ROADS:
        module = assembled(found.emitter, found.held)
        args = [_tensor(value, sizes) for value in found.arguments.values()]
        try:
            with quiet():
                program = road(module, args, list(found.arguments.values()))
                entry.state(program)
        except Exception as error:  # torch's own, of many kinds
            failed = failed or str(error).strip().split("\n")[0]
            continue
        closed = _closed(program, found)
        if not closed:
            for node in program.graph.nodes:  # the lines of what we wrote, not of the model
                node.meta.pop("stack_trace", None)
                node.meta.pop("from_node", None)
            return program, (note.format(failed),) if note else ()
        failed = failed or f"torch makes {closed} a number"
    raise Unsupported(
        f"torch does not export this program: {failed}", where=graph.name, hint="save it as .mlir or .onnx"
    )


def _example(graph: Graph) -> dict[str, int]:
    """Sizes at which the program may be called, different ones where that can be."""
    point = next(iter(points_of(graph, graph, graph.facts)), None)
    return dict(point.env) if point is not None else {}


def _tensor(value: Value, sizes: dict[str, int]) -> Any:
    import torch

    return torch.zeros([size.evaluate(sizes) for size in value.type.dims], dtype=torch_dtype(value.type.dtype))


def _closed(program: Any, found: Written) -> str:
    """An axis of an argument that is open in the graph and a number for torch, "" if there is none."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for name, value in found.arguments.items():
        shape = nodes[name].meta["val"].shape if name in nodes else ()
        for axis, (size, taken) in enumerate(zip(value.type.dims, shape, strict=False)):
            if size.const is None and isinstance(taken, int):
                return f"axis {axis} of {name}"
    return ""


# -- roads -------------------------------------------------------------------------------------------------------------


def _unbacked(module: Any, args: Sequence[Any], values: Sequence[Value]) -> Any:
    """Sizes without a value, which nothing can be specialised to."""
    import torch
    from torch._dynamo.decorators import mark_unbacked

    for tensor, value in zip(args, values, strict=True):
        for axis, size in enumerate(value.type.dims):
            if size.const is None:
                mark_unbacked(tensor, axis, shape_id=label_of(size))
    return torch.export.export(module, tuple(args), strict=True)


def _oblivious(module: Any, args: Sequence[Any], values: Sequence[Value]) -> Any:
    """Sizes with a value that torch treats as if they could be 0 and 1."""
    import torch.fx.experimental._config as settings

    with settings.patch(backed_size_oblivious=True):
        return _plain(module, args, values)


def _plain(module: Any, args: Sequence[Any], values: Sequence[Value]) -> Any:
    """As ``torch.export`` takes sizes."""
    import torch

    shapes = tuple(
        {axis: torch.export.Dim.AUTO for axis, size in enumerate(value.type.dims) if size.const is None}
        for value in values
    )
    return torch.export.export(module, tuple(args), dynamic_shapes=shapes)


_ROADS: tuple[tuple[Callable[..., Any], str], ...] = (
    (_unbacked, ""),
    (_oblivious, "torch could not trace sizes without a value ({0}): a guard of its own may refuse some sizes"),
    (_plain, "torch decides what happens at sizes below 2 ({0})"),
)
"""How torch traces, the best first."""
