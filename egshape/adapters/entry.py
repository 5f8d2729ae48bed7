"""What is said of the arguments of a program, by itself: it can be tested where nothing of the program is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from egshape.adapters.sources import Key
from egshape.annotate import annotate
from egshape.annotation import Annotation
from egshape.errors import CheckFailed, UndefinedSize
from egshape.facts import Relation
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret


class Entry:
    """The types of arguments of these dtypes and ranks. Raises what ``annotate`` does."""

    def __init__(self, types: Mapping[str, Annotation], key: Key) -> None:
        builder = BlockBuilder()
        for name, (dtype, rank) in zip(types, key, strict=True):
            builder.arg(name, dtype, (None,) * rank)
        self._graph = annotate(Graph("entry", builder.finish(()), ()), types)

    @cached_property
    def conditions(self) -> tuple[Relation, ...]:
        """What must hold of the arguments' sizes, which are called as those of a graph's inputs: ``x.0``."""
        return tuple(Relation(op.attrs["relation"], *op.attrs["sides"]) for op in self._graph.ops)

    @cached_property
    def _axes(self) -> list[tuple[str, int, int]]:
        places = {value: number for number, value in enumerate(self._graph.inputs)}
        return [(each.name, places[each.value], each.axis or 0) for each in self._graph.body.symbols]

    def admits(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether all that is said holds."""
        sizes = {name: arrays[place].shape[axis] for name, place, axis in self._axes}
        try:
            return all(each.holds(sizes) for each in self.conditions)
        except UndefinedSize:
            return False

    def refusal(self, arrays: Sequence[np.ndarray]) -> str:
        """The first thing that is said and does not hold; "" if all does."""
        try:
            interpret(self._graph, arrays)
        except (CheckFailed, UndefinedSize) as error:
            return error.message
        return ""
