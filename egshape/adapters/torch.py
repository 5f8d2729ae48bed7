"""``egshape.torch``: programs of PyTorch, exported so that every size stays open.

graph = egshape.torch.export(model, (x,), dynamic_shapes={"x": {0: "batch", 1: "length"}})
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.torch.frontend import needed
from egshape.ir.graph import Graph

__all__ = ["export"]

Axes = Mapping[int, Any] | Sequence[Any] | None
"""Of a tensor: what its axes are called, by number; a name, a ``torch.export.Dim``, ``Dim.AUTO``, or None."""


def export(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, dynamic_shapes: Any = None
) -> Graph:
    """The graph of a ``torch.nn.Module`` for every size of the axes that ``dynamic_shapes`` names, 0 and 1 among them.

    Args:
        args, kwargs: example arguments; their sizes should be different and above 1.
        dynamic_shapes: as ``torch.export`` takes it: for each argument, by name or in order, its open axes. An axis is
            a string, too: equal names are equal sizes, which the graph checks.

    The roads that torch has are tried in turn: sizes without a value, which nothing can be specialised to; sizes that
    are treated as if they could be 0 and 1; sizes as ``torch.export`` takes them, where it decides what happens below
    2. The notes of the graph (``graph.metadata["notes"]``) say which was taken, and what else a size must fulfil is a
    check. Raises Unsupported with torch's reason if none works."""
    needed()
    given = _arguments(model, args, kwargs or {})
    wanted = _by_argument(dynamic_shapes, list(given))
    leaves = [leaf for name, value in given.items() for leaf in _leaves(value, wanted.get(name))]
    labels = {
        (place, axis): label
        for place, (_, axes) in enumerate(leaves)
        for axis, spec in axes.items()
        if (label := _label(spec))
    }
    failed: list[str] = []
    for road, note in _ROADS:
        try:
            with _quiet():
                exported = road(model, args, dict(kwargs or {}), given, wanted)
        except Exception as error:  # torch's own, of many kinds
            failed.append(str(error).strip().split("\n")[0])
            continue
        return _read(exported, type(model).__name__, labels, [note.format(failed[0] if failed else "")] if note else [])
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


def _read(exported: Any, name: str, labels: Mapping[tuple[int, int], str], notes: Sequence[str]) -> Graph:
    from egshape.frontends.torch.convert import read

    graph = read(exported, name, labels)
    return replace(graph, metadata={**graph.metadata, "notes": (*notes, *graph.metadata["notes"])})


# -- arguments -----------------------------------------------------------------------------------------------------


def _arguments(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, as the model takes them."""
    try:
        return dict(inspect.signature(model.forward).bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise EgshapeError(f"the arguments do not fit {type(model).__name__}.forward: {error}") from None


def _by_argument(shapes: Any, names: Sequence[str]) -> dict[str, Any]:
    if shapes is None:
        return {}
    found = dict(shapes) if isinstance(shapes, Mapping) else dict(zip(names, shapes, strict=False))
    unknown = sorted(set(found) - set(names))
    if unknown:
        raise EgshapeError(
            f"dynamic_shapes names {unknown[0]!r}, which is no argument", hint=f"there are {', '.join(names)}"
        )
    return found


def _leaves(value: Any, spec: Any) -> Iterator[tuple[Any, dict[int, Any]]]:
    """What torch flattens an argument to, each with its open axes."""
    import torch

    if isinstance(value, torch.Tensor):
        axes = dict(spec) if isinstance(spec, Mapping) else dict(enumerate(spec or ()))
        if any(not -value.dim() <= axis < value.dim() for axis in axes):
            raise EgshapeError(f"dynamic_shapes names an axis of {max(axes)} of a tensor of {value.dim()} axes")
        yield value, {axis % value.dim(): each for axis, each in axes.items() if each is not None}
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, (spec or {}).get(key))
    elif isinstance(value, list | tuple):
        specs = list(spec) if spec else [None] * len(value)
        for each, one in zip(value, specs, strict=True):
            yield from _leaves(each, one)
    else:
        yield value, {}


def _label(spec: Any) -> str:
    """The name of an axis, "" for one that torch names."""
    from torch.export import Dim

    if isinstance(spec, str):
        return spec
    return str(spec.__name__) if isinstance(spec, Dim) else ""


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
    for name, value in _arguments(model, args, kwargs).items():
        for tensor, axes in _leaves(value, wanted.get(name)):
            for axis, spec in axes.items():
                low, high = getattr(spec, "min", None), getattr(spec, "max", None)
                bounds = {"min": low, "max": high} if isinstance(low, int) and isinstance(high, int) else {}
                mark_unbacked(tensor, axis, shape_id=_label(spec) or None, **bounds)
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
            for _, axes in _leaves(value, spec)
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
