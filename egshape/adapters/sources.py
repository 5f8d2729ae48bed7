"""What can have types said of it: functions of JAX, graphs and models; each gives a graph for dtypes and ranks."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from egshape.annotate import Annotation, Size
from egshape.dims import Dim
from egshape.dims.core import Symbol
from egshape.errors import EgshapeError, InvalidInput, MissingDependency
from egshape.ir.graph import Graph
from egshape.ir.types import numpy_dtype
from egshape.models import Model, load
from egshape.runtime.names import ordered

Key = tuple[tuple[str, int], ...]
"""Dtype and rank of each argument."""

Arguments = Mapping[str, tuple[str | None, int | None]]
"""Dtype and rank of each argument by name, in order; None where it takes any."""


class Source(Protocol):
    """A program of which types are said."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def arguments(self) -> Arguments:
        """What a call takes."""

    def ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call in order. Raises EgshapeError for some that are missing or that there are not."""

    def graph(self, types: Sequence[Annotation], key: Key) -> Graph:
        """The graph for arguments of these dtypes and ranks; ``types``: what is said of them."""


def source_of(program: Callable[..., Any] | Model | Graph) -> Source:
    """What a person gave: a graph, a model that ``load`` takes, else a function of JAX. Raises what ``load`` does."""
    return JaxFunction(program) if callable(program) else LoadedModel(load(program))


class JaxFunction:
    """A function that JAX traces."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", "function")
        self.arguments: Arguments = dict.fromkeys(inspect.signature(function).parameters, (None, None))

    def ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """As Python binds them, defaults too."""
        try:
            bound = inspect.signature(self.function).bind(*inputs, **named)
        except TypeError as error:
            raise InvalidInput(str(error), where=self.name) from None
        bound.apply_defaults()
        return [bound.arguments[name] for name in self.arguments]

    def graph(self, types: Sequence[Annotation], key: Key) -> Graph:
        """What JAX exports, told what is said: sums and products of names as they are, other sizes unknown."""
        return load(_exported(self.function, types, key))


class LoadedModel:
    """A graph; the dtypes and ranks of its inputs are what they are."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.name = graph.name
        self.arguments: Arguments = {
            value.name: (value.type.dtype, None if value.type.shape is None else value.type.rank)
            for value in graph.inputs
        }

    def ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """As of a compiled function."""
        return list(ordered(inputs, named, {value.name: str(value) for value in self._graph.inputs}, self._fault))

    def _fault(self, message: str, code: str, where: str) -> EgshapeError:
        return InvalidInput(message, where=where or self.name, code=code)

    def graph(self, types: Sequence[Annotation], key: Key) -> Graph:
        """Itself."""
        return self._graph


def _exported(function: Callable[..., Any], types: Sequence[Annotation], key: Key) -> Any:
    """The function as JAX exports it for what is said: sums and products of names as they are, other sizes unknown."""
    try:
        import jax
        from jax import export
    except ImportError:
        raise MissingDependency("jax is not installed", hint="pip install 'egshape[stablehlo]'") from None
    scope = export.SymbolicScope()
    unknown = (f"_unknown{place}" for place in itertools.count())

    def size(said: Size | None) -> str:
        return str(said.dim) if said is not None and _is_polynomial(said.dim) else next(unknown)

    specified = []
    for said, (dtype, rank) in zip(types, key, strict=True):
        text = ", ".join(map(size, said.shape if said.shape is not None else (None,) * rank))
        specified.append(jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), numpy_dtype(dtype)))
    return export.export(jax.jit(function))(*specified)


def _is_polynomial(dim: Dim) -> bool:
    """Whether JAX can be told the size: it takes sums and products of names."""
    return all(isinstance(atom, Symbol) and atom.name.isidentifier() for atom in dim.atoms())
