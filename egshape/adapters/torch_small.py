"""Sizes 0 and 1 of a module of PyTorch that torch decides otherwise of than of the others, so that the program of these
refuses them: each is exported apart. Mostly both programs turn out to be the same once they are optimized; then torch
need not have decided, and the refusal goes. Else the graph chooses between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import Any

from egshape.adapters.torch_arguments import axis_of
from egshape.adapters.torch_roads import Asked, Exported, check_at, exported
from egshape.choice import chosen, excluded, fixed, freed, sizes_in
from egshape.dims import symbol
from egshape.equality import stands_for
from egshape.errors import CheckFailed, EgshapeError, UndefinedSize, Unsupported
from egshape.ir.graph import Graph, relation_of
from egshape.limits import Limits

SECONDS, TIMES = 30.0, 4.0
"""So long is looked at small sizes, or so many times as long as the first export took, whichever is more."""

_OTHER = "at this size the model gives results of other dtypes or ranks, or takes other sizes"


@dataclass(frozen=True)
class Case:
    """A number that a size may be, the others as in the example: ``shapes`` of the inputs there, and whether the
    program for other sizes refuses it."""

    size: str
    number: int
    shapes: Sequence[tuple[int, ...]]
    refused: bool


@dataclass
class Small:
    """The exports of a module: by shapes and open axes what torch gave."""

    made: dict[Any, Exported | None] = field(default_factory=dict)
    until: float = inf
    """When no further case is begun."""

    def complete(self, asked: Asked, only: Set[str] | None = None) -> Graph:
        """A graph that is right where a size is 0 or 1, and takes it where torch exports the module for it. ``only``:
        where one of these sizes is."""
        found = self._exported(asked)
        graph, tried, apart = found.graph, set[str](), list[Case]()
        for case in _cases(found.graph, asked.shapes):
            if not (case.refused or case.number in found.silent) or (only is not None and case.size not in only):
                continue
            if monotonic() > self.until:
                graph = _noted(graph, case, "was not looked at: no time was left")
                continue
            special = self._special(asked, case, tried if case.refused else frozenset())
            if special is None:
                continue
            base = graph if case.refused else found.graph
            there, wider = fixed(base, case.size, case.number), freed(base, case.size, case.number)
            if not _alike(special, there):
                graph = graph if case.refused else excluded(graph, case.size, case.number, _OTHER)
                continue
            if wider is None or not stands_for(there, special, self._limits):
                apart.append(case)
            elif case.refused:
                graph = _noted(wider, case, "is computed as other sizes are, though torch decides apart of it")
            tried |= {case.size} if case.refused else set()
        for case in apart:
            graph = self._joined(asked, graph, case, only)
        return graph

    def _joined(self, asked: Asked, graph: Graph, case: Case, only: Set[str] | None) -> Graph:
        """Both programs with a choice."""
        special = self._special(asked, case, only)
        both = chosen(case.size, case.number, special, graph) if special is not None else None
        return graph if both is None else _noted(both, case, "has a program of its own: torch decides apart of it")

    def _exported(self, asked: Asked) -> Exported:
        """The program of an example, exported once. Raises EgshapeError where there is none."""
        key = tuple((tuple(tensor.shape), tuple(axes)) for tensor, axes in asked.flat if hasattr(tensor, "shape"))
        if key not in self.made:
            self.made[key], began = None, monotonic()
            self.made[key] = exported(asked)
            if self.until == inf:
                self.until = monotonic() + max(SECONDS, TIMES * (monotonic() - began))
        found = self.made[key]
        if found is None:
            raise Unsupported("there is no program of these sizes")
        return found

    @property
    def _limits(self) -> Limits:
        """Of what is left of the time."""
        return Limits(seconds=max(self.until - monotonic(), 1.0))

    def _special(self, asked: Asked, case: Case, only: Set[str] | None) -> Graph | None:
        """The graph of a part of the example, with the size that is refused fixed; None where torch has none."""
        part = _part(asked, case.shapes)
        if part is None:
            return None
        try:
            return self.complete(part, only)
        except EgshapeError:
            return None


def _cases(graph: Graph, shapes: Sequence[tuple[int, ...]]) -> Iterator[Case]:
    """Each size of a graph as 1 and as 0, the others as in the example."""
    inputs = graph.inputs[: len(shapes)]
    example = {
        each.name: shapes[inputs.index(each.value)][each.axis]
        for each in graph.body.symbols
        if each.axis is not None and each.value in inputs
    }
    for name in example:
        for number in (1, 0, *_excluded(graph, name)):
            try:
                there = [tuple(dim.evaluate({**example, name: number}) for dim in each.type.dims) for each in inputs]
                if any(size < 0 for shape in there for size in shape):
                    continue
                check_at(graph, there)
                yield Case(name, number, there, False)
            except CheckFailed:
                yield Case(name, number, there, True)
            except (EgshapeError, UndefinedSize):
                continue  # no input has such a shape


def _excluded(graph: Graph, size: str) -> Iterator[int]:
    """Other numbers that a check says this size is not."""
    for op in graph.ops:
        relation = relation_of(op)
        sides = (relation.lhs, relation.rhs) if relation is not None and relation.kind == "!=" else ()
        if symbol(size) in sides:
            yield from (side.const for side in sides if side.const is not None and side.const > 1)


def _part(asked: Asked, shapes: Sequence[tuple[int, ...]]) -> Asked | None:
    """The example cut to these shapes, what is cut no longer open; None where it would have to grow, or where the
    author excludes the size."""
    import torch
    from torch.utils._pytree import tree_map_only

    if any(new > old for one, two in zip(shapes, asked.shapes, strict=True) for new, old in zip(one, two, strict=True)):
        return None
    leaves = [(tensor, axes) for tensor, axes in asked.flat if isinstance(tensor, torch.Tensor)]
    parts, specs = {}, {}
    for (tensor, axes), shape in zip(leaves, shapes, strict=True):
        parts[id(tensor)] = tensor[tuple(slice(0, size) for size in shape)]
        specs[id(tensor)] = {axis: spec for axis, spec in axes.items() if tensor.shape[axis] == shape[axis]}
        if not all(axis_of(spec).takes(shape[axis]) for axis, spec in axes.items()):
            return None
    args, kwargs = tree_map_only(torch.Tensor, lambda each: parts[id(each)], (asked.args, asked.kwargs))
    wanted = tree_map_only(torch.Tensor, lambda each: specs[id(each)], asked.given)
    return replace(asked, args=args, kwargs=kwargs, wanted=wanted)


def _alike(special: Graph, there: Graph) -> bool:
    """Whether the special graph takes all that the other one takes with its size put in, under the same names, and
    gives outputs of the same names, dtypes and ranks."""

    def form(each: Graph) -> Any:
        names = (*(value.name for value in each.inputs), *each.output_names)
        return names, [(value.type.dtype, value.type.rank) for value in (*each.inputs, *each.outputs)]

    if form(special) != form(there):
        return False
    sizes = sizes_in(special, there)
    return all(
        inner.substitute(sizes) == outer
        for one, two in zip(special.inputs, there.inputs, strict=True)
        for inner, outer in zip(one.type.dims, two.type.dims, strict=True)
    )


def _noted(graph: Graph, case: Case, said: str) -> Graph:
    notes = (*graph.metadata["notes"], f"{case.size} = {case.number} {said}")
    return replace(graph, metadata={**graph.metadata, "notes": tuple(dict.fromkeys(notes))})
