"""The arguments of a module, by name, and which of their axes are open."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from egshape.errors import EgshapeError

Axes = Mapping[int, Any] | Sequence[Any] | None
"""Of a tensor: what its axes are called, by number; a name, a ``torch.export.Dim``, ``Dim.AUTO``, or None."""


def arguments_of(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, as the model takes them."""
    try:
        return dict(inspect.signature(model.forward).bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise EgshapeError(f"the arguments do not fit {type(model).__name__}.forward: {error}") from None


def by_argument(shapes: Any, names: Sequence[str]) -> dict[str, Any]:
    if shapes is None:
        return {}
    found = dict(shapes) if isinstance(shapes, Mapping) else dict(zip(names, shapes, strict=False))
    unknown = sorted(set(found) - set(names))
    if unknown:
        raise EgshapeError(
            f"dynamic_shapes names {unknown[0]!r}, which is no argument", hint=f"there are {', '.join(names)}"
        )
    return found


def leaves(value: Any, spec: Any) -> Iterator[tuple[Any, dict[int, Any]]]:
    """What torch flattens an argument to, each with its open axes."""
    import torch

    if isinstance(value, torch.Tensor):
        axes = dict(spec) if isinstance(spec, Mapping) else dict(enumerate(spec or ()))
        if any(not -value.dim() <= axis < value.dim() for axis in axes):
            raise EgshapeError(f"dynamic_shapes names an axis of {max(axes)} of a tensor of {value.dim()} axes")
        yield value, {axis % value.dim(): each for axis, each in axes.items() if each is not None}
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from leaves(each, (spec or {}).get(key))
    elif isinstance(value, list | tuple):
        specs = list(spec) if spec else [None] * len(value)
        for each, one in zip(value, specs, strict=True):
            yield from leaves(each, one)
    else:
        yield value, {}


def label_of(spec: Any) -> str:
    """The name of an axis, "" for one that torch names."""
    from torch.export import Dim

    if isinstance(spec, str):
        return spec
    return str(spec.__name__) if isinstance(spec, Dim) else ""
