"""The arguments of a module, by name, and which of their axes are open."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from egshape.dims import Dim, parse, symbol
from egshape.errors import EgshapeError, InvalidInput
from egshape.frontends.torch.axes import Axis

_FORM = "give a dict of axes, such as {0: 'batch'}, or a list with one entry an axis"
_ENTRY = "an axis is None, a name, a torch.export.Dim, or its own size"
_NAME = re.compile(r"[^\W\d][\w.]*")


def arguments_of(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, as the model takes them."""
    try:
        return dict(inspect.signature(model.forward).bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise EgshapeError(f"the arguments do not fit {type(model).__name__}.forward: {error}") from None


def by_argument(shapes: Any, names: Sequence[str]) -> dict[str, Any]:
    """``dynamic_shapes`` by argument. Raises InvalidInput for what is no dict or sequence, or fits no argument."""
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping | list | tuple):
        hint = "give a dict by argument, or a tuple with one entry an argument"
        raise InvalidInput(f"dynamic_shapes is a {type(shapes).__name__}", hint=hint)
    if not isinstance(shapes, Mapping) and len(shapes) > len(names):
        raise InvalidInput(
            f"dynamic_shapes has {len(shapes)} entries for {len(names)} arguments",
            hint=f"the arguments are {', '.join(names)}; the items of one argument have a list of their own",
        )
    found = dict(shapes) if isinstance(shapes, Mapping) else dict(zip(names, shapes, strict=False))
    unknown = [each for each in found if each not in names]
    if unknown:
        raise InvalidInput(
            f"dynamic_shapes names {unknown[0]!r}, which is no argument", hint=f"there are {', '.join(names)}"
        )
    return found


def leaves(value: Any, spec: Any, where: str) -> Iterator[tuple[str, Any, dict[int, Any]]]:
    """What torch flattens an argument to, each with what it is called and its open axes; ``where``: what the argument
    is called. Raises InvalidInput where ``spec`` has another form than the argument."""
    import torch

    nothing = spec is None or (isinstance(spec, Mapping | list | tuple) and not spec)
    if isinstance(value, torch.Tensor):
        yield where, value, {} if nothing else _axes(value, spec, where)
    elif isinstance(value, Mapping):
        if not nothing:
            _check_kind(spec, isinstance(spec, Mapping), where, "a dict")
        specs = {} if nothing else spec
        unknown = [each for each in specs if each not in value]
        if unknown:
            raise InvalidInput(
                f"dynamic_shapes names {unknown[0]!r} in {where}, which has no such key",
                hint=f"it has {', '.join(map(repr, value))}",
            )
        for key, each in value.items():
            yield from leaves(each, specs.get(key), f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        if not nothing:
            _check_kind(spec, isinstance(spec, list | tuple), where, f"a {type(value).__name__} of {len(value)}")
        items = [None] * len(value) if nothing else list(spec)
        if len(items) != len(value):
            raise InvalidInput(f"dynamic_shapes has {len(items)} entries for the {len(value)} items of {where}")
        for place, (each, one) in enumerate(zip(value, items, strict=True)):
            yield from leaves(each, one, f"{where}[{place}]")
    else:
        if not nothing:
            _check_kind(spec, False, where, f"a {type(value).__name__}, which has no axes")
        yield where, value, {}


def _check_kind(spec: Any, fits: bool, where: str, what: str) -> None:
    if not fits:
        raise InvalidInput(f"dynamic_shapes has {spec!r} for {where}", hint=f"the argument is {what}")


def _axes(tensor: Any, spec: Any, where: str) -> dict[int, Any]:
    """The open axes of a tensor."""
    rank = tensor.dim()
    if not isinstance(spec, Mapping | list | tuple):
        raise InvalidInput(f"dynamic_shapes has {spec!r} for {where}, a tensor of {rank} axes", hint=_FORM)
    if not isinstance(spec, Mapping) and len(spec) != rank:
        raise InvalidInput(f"dynamic_shapes has {len(spec)} entries for {where}, a tensor of {rank} axes", hint=_FORM)
    axes = dict(spec) if isinstance(spec, Mapping) else dict(enumerate(spec))
    for axis, each in axes.items():
        if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
            raise InvalidInput(f"dynamic_shapes names axis {axis!r} of {where}, a tensor of {rank} axes", hint=_FORM)
        if axis < 0 and axis + rank in axes:
            raise InvalidInput(f"dynamic_shapes names axis {axis + rank} of {where} twice, as {axis} too", hint=_FORM)
        _check_entry(each, tensor.shape[axis], f"axis {axis} of {where}")
    return {axis % rank: each for axis, each in axes.items() if _is_open(each)}


def _is_open(entry: Any) -> bool:
    return not (
        entry is None or isinstance(entry, int) or getattr(getattr(entry, "type", None), "name", "") == "STATIC"
    )


def _check_entry(entry: Any, size: int, where: str) -> None:
    from torch.export import Dim

    kinds = (int, str, Dim, type(Dim.AUTO))
    if isinstance(entry, bool) or not (entry is None or isinstance(entry, kinds)):
        raise InvalidInput(f"dynamic_shapes has {entry!r} for {where}", hint=_ENTRY)
    if isinstance(entry, int) and entry != size:
        raise InvalidInput(f"dynamic_shapes says that {where} is {entry}, but the example has {size}", hint=_ENTRY)
    if not axis_of(entry, where).takes(size):
        raise InvalidInput(f"dynamic_shapes has {entry!r} for {where}, but the example has {size}")


def axis_of(entry: Any, where: str = "dynamic_shapes") -> Axis:
    """What an entry of ``dynamic_shapes`` says. Raises InvalidInput for a name that is none."""
    from torch.export import Dim

    name = entry if isinstance(entry, str) else str(entry.__name__) if isinstance(entry, Dim) else None
    low, high = getattr(entry, "min", None), getattr(entry, "max", None)
    return Axis(
        None if name is None else _named(name, where),
        low if isinstance(low, int) and low > 0 else None,
        high if isinstance(high, int) else None,
    )


def _named(text: str, where: str) -> Dim:
    """A size by its name, or computed of a named one."""
    if _NAME.fullmatch(text):
        return symbol(text)
    try:
        found = parse(text)
    except EgshapeError:
        found = None
    if found is None or len(found.symbols()) != 1:
        raise InvalidInput(f"{text!r} for {where} is no name of a size", hint="such as 'batch', or '2*batch' of one")
    return found
