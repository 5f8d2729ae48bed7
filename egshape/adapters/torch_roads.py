"""A module of PyTorch as a graph, on one of the roads that torch has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from egshape.adapters.torch_arguments import arguments_of, axis_of, leaves
from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.torch.axes import Places
from egshape.frontends.torch.nonempty import nonempty
from egshape.frontends.torch.quiet import quiet
from egshape.frontends.torch.stand_ins import standing
from egshape.ir.arrays import unread
from egshape.ir.graph import Graph
from egshape.ir.interpret import check_shapes
from egshape.ir.types import numpy_dtype


@dataclass(frozen=True)
class Asked:
    """A module with example arguments. ``wanted``: by argument its open axes; ``trained`` and ``whole`` as
    ``egshape.torch.export`` takes them."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    wanted: Mapping[str, Any]
    trained: bool = False
    whole: bool = False

    @property
    def given(self) -> dict[str, Any]:
        """The arguments by name, as the model takes them."""
        return arguments_of(self.model, self.args, self.kwargs)

    @property
    def flat(self) -> list[tuple[Any, dict[int, Any]]]:
        """What torch flattens the arguments to, each with its open axes."""
        found = [leaf for name, value in self.given.items() for leaf in leaves(value, self.wanted.get(name), name)]
        return [(tensor, axes) for _, tensor, axes in found]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the tensors among these."""
        import torch

        return [tuple(each.shape) for each, _ in self.flat if isinstance(each, torch.Tensor)]


@dataclass(frozen=True)
class Exported:
    """A graph; ``silent``: the sizes of which torch may have decided something without a guard that says so."""

    graph: Graph
    silent: tuple[int, ...]


def exported(asked: Asked) -> Exported:
    """The graph of the first road that torch can go and that can be read. Raises Unsupported with torch's reason if
    there is none."""
    places = {(place, axis): axis_of(spec) for place, (_, axes) in enumerate(asked.flat) for axis, spec in axes.items()}
    failed: list[str] = []
    unread: EgshapeError | None = None
    for road, note, silent in _ROADS:
        try:
            with quiet():
                program = road(asked)
        except Exception as error:  # torch's own, of many kinds
            failed.append(str(error).strip().split("\n")[0])
            continue
        try:
            graph = _read(program, asked, places, [note.format(failed[0] if failed else "")] if note else [])
            _check_open(graph, asked)
            check_at(graph, asked.shapes)
            return Exported(graph, silent)
        except EgshapeError as error:
            unread = unread or error
            failed.append(str(error))
    if unread is not None:
        raise unread
    name = type(asked.model).__name__
    raise Unsupported(f"torch does not export {name}: {failed[-1]}", hint="see torch.export's message")


def _check_open(graph: Graph, asked: Asked) -> None:
    """Raises Unsupported where a size that is to be open and has a name is a number."""
    import torch

    tensors = [(tensor, axes) for tensor, axes in asked.flat if isinstance(tensor, torch.Tensor)]
    for (_, axes), value in zip(tensors, graph.inputs, strict=False):
        for axis, spec in axes.items():
            wanted = axis_of(spec).size
            if wanted is not None and value.type.dims[axis].const is not None:
                raise Unsupported(
                    f"axis {axis} of {value.name} is to be the size {wanted}, but in torch's program it is "
                    f"{value.type.dims[axis]}",
                    hint="a loop of Python over it, or an axis that stays fixed and meets it, fixes a size: open that "
                    "axis too, or leave this one out of dynamic_shapes",
                )


def check_at(graph: Graph, shapes: Sequence[tuple[int, ...]]) -> None:
    """Raises EgshapeError where a graph refuses inputs of these shapes, whatever they hold: torch decides otherwise of
    sizes without a value than it does of the example's."""
    buffers = graph.inputs[len(shapes) :]
    if len(shapes) > len(graph.inputs) or any(size.const is None for each in buffers for size in each.type.dims):
        return
    given = [*shapes, *(tuple(size.const or 0 for size in each.type.dims) for each in buffers)]
    dtypes = [numpy_dtype(each.type.dtype) for each in graph.inputs]
    check_shapes(graph, list(map(unread, dtypes, given)))


def _read(program: Any, asked: Asked, places: Places, notes: Sequence[str]) -> Graph:
    from egshape.frontends.torch.convert import read

    graph = read(program, type(asked.model).__name__, places, trained=asked.trained, whole=asked.whole)
    return replace(graph, metadata={**graph.metadata, "notes": (*notes, *graph.metadata["notes"])})


# -- roads ---------------------------------------------------------------------------------------------------------


def _unbacked(asked: Asked) -> Any:
    """Sizes without a value: what needs one fails. The marks are left on copies of the arguments."""
    import torch
    from torch._dynamo.decorators import mark_unbacked

    def copied(value: Any) -> Any:
        return torch.utils._pytree.tree_map_only(torch.Tensor, lambda each: each.detach().clone(), value)

    marked = replace(asked, args=copied(asked.args), kwargs=copied(asked.kwargs))
    for tensor, axes in marked.flat:
        for axis, spec in axes.items():
            said = axis_of(spec)
            label = None if said.size is None else str(said.size)
            mark_unbacked(tensor, axis, shape_id=label, min=said.low, max=said.high)
    with standing():
        return torch.export.export(marked.model, marked.args, marked.kwargs, strict=True)


def _nonempty(asked: Asked) -> Any:
    """Sizes without a value of which torch takes it that they are not 0."""
    with nonempty():
        return _unbacked(asked)


def _oblivious(asked: Asked) -> Any:
    """Sizes with a value that torch treats as if they could be 0 and 1; where it cannot there is a guard."""
    import torch.fx.experimental._config as settings

    with settings.patch(backed_size_oblivious=True):
        return _plain(asked)


def _plain(asked: Asked) -> Any:
    """As ``torch.export`` takes sizes."""
    import torch

    wanted = asked.wanted
    shapes = {name: _opened(value, wanted.get(name), name) for name, value in asked.given.items()} if wanted else None
    return torch.export.export(asked.model, asked.args, asked.kwargs, dynamic_shapes=shapes)


def _opened(value: Any, spec: Any, where: str) -> Any:
    """What torch takes for an argument: names are open axes."""
    import torch
    from torch.export import Dim

    if isinstance(value, torch.Tensor):
        return {
            axis: Dim.AUTO if isinstance(each, str) else each
            for _, _, axes in leaves(value, spec, where)
            for axis, each in axes.items()
        }
    if isinstance(value, Mapping):
        return {key: _opened(each, (spec or {}).get(key), where) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(
            _opened(each, one, where)
            for each, one in zip(value, list(spec) if spec else [None] * len(value), strict=True)
        )
    return None


_ROADS: tuple[tuple[Any, str, tuple[int, ...]], ...] = (
    (_unbacked, "", ()),
    (_nonempty, "torch asks whether inputs are empty ({0}): sizes of 0 are looked at apart", (0,)),
    (_oblivious, "torch could not trace sizes without a value ({0}): a guard of its own may refuse some sizes", (0,)),
    (_plain, "torch decides what happens at sizes below 2 ({0})", (1, 0)),
)
"""Roads with what is noted of each, and the sizes of which torch takes it that no size is one: nothing says where that
decides something."""
