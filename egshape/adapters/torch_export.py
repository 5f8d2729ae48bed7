"""``egshape.torch.export``: a module of PyTorch as a graph in which every size stays open."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from egshape.adapters.torch_arguments import arguments_of, by_argument, label_of, leaves
from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.torch.frontend import needed
from egshape.frontends.torch.stand_ins import standing
from egshape.ir.graph import Graph
from egshape.ir.interpret import check_shapes
from egshape.ir.types import numpy_dtype


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
    2. The notes of the graph (``graph.metadata["notes"]``) say which was taken, and what else a size must fulfil is a
    check. Raises Unsupported with torch's reason if none works."""
    needed()
    given = arguments_of(model, args, kwargs or {})
    wanted = by_argument(dynamic_shapes, list(given))
    flat = [leaf for name, value in given.items() for leaf in leaves(value, wanted.get(name))]
    labels = {
        (place, axis): label
        for place, (_, axes) in enumerate(flat)
        for axis, spec in axes.items()
        if (label := label_of(spec))
    }
    failed: list[str] = []
    unread: EgshapeError | None = None
    for road, note in _ROADS:
        try:
            with _quiet():
                exported = road(model, args, dict(kwargs or {}), given, wanted)
        except Exception as error:  # torch's own, of many kinds
            failed.append(str(error).strip().split("\n")[0])
            continue
        notes = [note.format(failed[0] if failed else "")] if note else []
        try:
            graph = _read(exported, type(model).__name__, labels, notes, trained, whole)
            _try(graph, [tensor.shape for tensor, _ in flat])
            return graph
        except EgshapeError as error:
            unread = unread or error
            failed.append(str(error))
    if unread is not None:
        raise unread
    raise Unsupported(f"torch does not export {type(model).__name__}: {failed[-1]}", hint="see torch.export's message")


@contextmanager
def _quiet() -> Iterator[None]:
    """torch logs a trace of its own for each road that it cannot go."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _read(
    exported: Any, name: str, labels: Mapping[tuple[int, int], str], notes: Sequence[str], trained: bool, whole: bool
) -> Graph:
    from egshape.frontends.torch.convert import read

    graph = read(exported, name, labels, trained=trained, whole=whole)
    return replace(graph, metadata={**graph.metadata, "notes": (*notes, *graph.metadata["notes"])})


def _try(graph: Graph, shapes: Sequence[Sequence[int]]) -> None:
    """Raises EgshapeError where a graph refuses the sizes that it was exported with: torch decided otherwise of sizes
    without a value than it does of these."""
    buffers = graph.inputs[len(shapes) :]
    if len(shapes) > len(graph.inputs) or any(size.const is None for each in buffers for size in each.type.dims):
        return
    given = [*map(tuple, shapes), *(tuple(size.const or 0 for size in each.type.dims) for each in buffers)]
    zeros = [np.zeros((), numpy_dtype(each.type.dtype)) for each in graph.inputs]
    check_shapes(graph, list(map(np.broadcast_to, zeros, given)))


# -- roads ---------------------------------------------------------------------------------------------------------


def _unbacked(
    model: Any, args: Sequence[Any], kwargs: dict[str, Any], given: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Any:
    """Sizes without a value: what needs one fails. The marks are left on copies of the arguments."""
    import torch
    from torch._dynamo.decorators import mark_unbacked

    def copied(value: Any) -> Any:
        return torch.utils._pytree.tree_map_only(torch.Tensor, lambda each: each.detach().clone(), value)

    args, kwargs = copied(tuple(args)), copied(kwargs)
    for name, value in arguments_of(model, args, kwargs).items():
        for tensor, axes in leaves(value, wanted.get(name)):
            for axis, spec in axes.items():
                low, high = getattr(spec, "min", None), getattr(spec, "max", None)
                bounds = {"min": low, "max": high} if isinstance(low, int) and isinstance(high, int) else {}
                mark_unbacked(tensor, axis, shape_id=label_of(spec) or None, **bounds)
    with standing():
        return torch.export.export(model, args, kwargs, strict=True)


def _oblivious(
    model: Any, args: Sequence[Any], kwargs: dict[str, Any], given: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Any:
    """Sizes with a value that torch treats as if they could be 0 and 1; where it cannot there is a guard."""
    import torch.fx.experimental._config as settings

    with settings.patch(backed_size_oblivious=True):
        return _plain(model, args, kwargs, given, wanted)


def _plain(
    model: Any, args: Sequence[Any], kwargs: dict[str, Any], given: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Any:
    """As ``torch.export`` takes sizes."""
    import torch

    shapes = {name: _opened(value, wanted.get(name)) for name, value in given.items()} if wanted else None
    return torch.export.export(model, tuple(args), kwargs, dynamic_shapes=shapes)


def _opened(value: Any, spec: Any) -> Any:
    """What torch takes for an argument: names are open axes."""
    import torch
    from torch.export import Dim

    if isinstance(value, torch.Tensor):
        return {
            axis: Dim.AUTO if isinstance(each, str) else each
            for _, axes in leaves(value, spec)
            for axis, each in axes.items()
        }
    if isinstance(value, Mapping):
        return {key: _opened(each, (spec or {}).get(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(
            _opened(each, one) for each, one in zip(value, list(spec) if spec else [None] * len(value), strict=True)
        )
    return None


_ROADS: tuple[tuple[Any, str], ...] = (
    (_unbacked, ""),
    (_oblivious, "torch could not trace sizes without a value ({0}): a guard of its own may refuse some sizes"),
    (_plain, "torch decides what happens at sizes below 2 ({0})"),
)
