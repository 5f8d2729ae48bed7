"""``egshape.torch.export``: a module of PyTorch as a graph in which every size stays open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from egshape.adapters.torch_arguments import arguments_of, by_argument
from egshape.adapters.torch_roads import Asked, check_at, graph_of
from egshape.errors import CheckFailed, EgshapeError, UndefinedSize
from egshape.frontends.torch.frontend import needed
from egshape.ir.choice import chosen
from egshape.ir.graph import Graph

_MOST_EXPORTS = 8
"""Exports of a module at most, one for each choice of sizes that torch decides otherwise."""


def export(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    trained: bool = False,
    whole: bool = False,
) -> Graph:
    """The graph of a ``torch.nn.Module`` for every size of the axes that ``dynamic_shapes`` names, 0 and 1 among them.

    Args:
        args, kwargs: example arguments; their sizes should be different and above 1.
        dynamic_shapes: as ``torch.export`` takes it: for each argument, by name or in order, its open axes. An axis is
            a string, too: equal names are equal sizes, which the graph checks.
        trained: parameters are inputs of the graph, after the model's, so that no rule uses their values, and
            parameters of the module that ``egshape.torch.module`` makes of it.
        whole: ops such as attention and convolutions stay one each, and go out as they came where the graph becomes a
            program of torch again; no rule looks into them.

    The roads that torch has are tried in turn: sizes without a value, which nothing can be specialised to; sizes that
    are treated as if they could be 0 and 1; sizes as ``torch.export`` takes them, where it decides what happens below
    2. Sizes 0 and 1 that the program of the others refuses are exported apart, and the graph chooses between both
    (but for ``trained`` and ``whole``, where the guard stays). The notes of the graph (``graph.metadata["notes"]``) say
    which road was taken, and what else a size must fulfil is a check. Raises Unsupported with torch's reason if none
    works."""
    needed()
    given = arguments_of(model, args, kwargs or {})
    asked = Asked(
        model, tuple(args), dict(kwargs or {}), by_argument(dynamic_shapes, list(given)), trained=trained, whole=whole
    )
    return graph_of(asked) if trained or whole else _complete(asked, [_MOST_EXPORTS])


def _complete(asked: Asked, left: list[int]) -> Graph:
    """A graph that takes what the model takes where a size is 0 or 1. ``left``: how many exports may be tried."""
    graph = general = graph_of(asked)
    for name, number, shapes in _refused(general, asked.shapes):
        special = _special(asked, general, shapes, left) if left[0] > 0 else None
        joined = chosen(name, number, special, graph) if special is not None else None
        if joined is not None:
            note = f"{name} = {number} has a program of its own: torch decides otherwise of it than of other sizes"
            graph = replace(joined, metadata={**joined.metadata, "notes": (*joined.metadata["notes"], note)})
    return graph


def _refused(graph: Graph, shapes: Sequence[tuple[int, ...]]) -> Iterator[tuple[str, int, list[tuple[int, ...]]]]:
    """The sizes 0 and 1 that a graph refuses: the symbol, the number, and the shapes of the inputs there, which are the
    example's otherwise."""
    inputs = graph.inputs[: len(shapes)]
    example = {
        each.name: shapes[inputs.index(each.value)][each.axis]
        for each in graph.body.symbols
        if each.axis is not None and each.value in inputs
    }
    for name in example:
        for number in (1, 0):
            try:
                there = [tuple(dim.evaluate({**example, name: number}) for dim in each.type.dims) for each in inputs]
                check_at(graph, there)
            except CheckFailed:
                yield name, number, there
            except (EgshapeError, UndefinedSize):
                continue  # no input has such a shape


def _special(asked: Asked, general: Graph, shapes: Sequence[tuple[int, ...]], left: list[int]) -> Graph | None:
    """The graph of a part of the example that has these shapes, the sizes that differ from the example's fixed; None
    where torch has none, or one with other inputs or outputs."""
    import torch
    from torch.utils._pytree import tree_map_only

    tensors = [tensor for tensor, _ in asked.flat if isinstance(tensor, torch.Tensor)]
    if any(new > old for one, two in zip(shapes, asked.shapes, strict=True) for new, old in zip(one, two, strict=True)):
        return None
    parts = {id(tensor): _part(tensor, shape) for tensor, shape in zip(tensors, shapes, strict=True)}
    axes = {
        id(tensor): {
            axis: spec for axis, spec in open_axes.items() if tensor.shape[axis] == parts[id(tensor)].shape[axis]
        }
        for tensor, open_axes in asked.flat
        if isinstance(tensor, torch.Tensor)
    }
    args, kwargs = tree_map_only(torch.Tensor, lambda each: parts[id(each)], (asked.args, asked.kwargs))
    wanted = tree_map_only(torch.Tensor, lambda each: axes[id(each)], asked.given)
    left[0] -= 1
    try:
        found = _complete(replace(asked, args=args, kwargs=kwargs, wanted=wanted), left)
    except EgshapeError:
        return None
    return found if _alike(found, general) else None


def _part(tensor: Any, shape: Sequence[int]) -> Any:
    for axis, size in enumerate(shape):
        tensor = tensor.narrow(axis, 0, size)
    return tensor


def _alike(one: Graph, two: Graph) -> bool:
    """Whether two graphs have inputs and outputs of the same names, dtypes and ranks."""

    def form(graph: Graph) -> object:
        return (
            [(each.name, each.type.dtype, each.type.rank) for each in graph.inputs],
            [
                (name, each.type.dtype, each.type.rank)
                for name, each in zip(graph.output_names, graph.outputs, strict=True)
            ],
        )

    return form(one) == form(two)
