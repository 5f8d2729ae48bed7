"""What can have types said of it: functions of JAX, graphs and models; each gives a graph for dtypes and ranks."""

from __future__ import annotations

import inspect
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from egshape.annotation import Annotation, Size
from egshape.dims import Dim, symbol
from egshape.dims.core import Symbol
from egshape.errors import EgshapeError, InvalidInput, MissingDependency
from egshape.frontends import registry
from egshape.hints import install
from egshape.ir.graph import Graph
from egshape.ir.types import numpy_dtype
from egshape.models import Model, load, ranks_said
from egshape.runtime.core.names import ordered

EXAMPLES = 100
"""So many sizes are tried to find some at which a program is exported."""

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


def source_of(program: Callable[..., Any] | Model | Graph, said: Mapping[str, Annotation]) -> Source:
    """What a person gave: a module of PyTorch, a graph or a model that ``load`` takes, else a function of JAX.
    ``said``: the types of its arguments and results, by name. Raises what ``load`` does."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(program, torch.nn.Module):
        return TorchModule(program)
    if callable(program) and registry.of_object(program) is None:
        return JaxFunction(program)
    return LoadedModel(load(program, forms=ranks_said(said)))


class JaxFunction:
    """A function that JAX traces."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", "function")
        self.arguments: Arguments = dict.fromkeys(inspect.signature(function).parameters, (None, None))

    def ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """As Python binds them, defaults too."""
        bound = _bound(self.function, self.name, inputs, named)
        bound.apply_defaults()
        return [bound.arguments[name] for name in self.arguments]

    def graph(self, types: Sequence[Annotation], key: Key) -> Graph:
        """What JAX exports, told what is said: sums and products of names as they are, other sizes unknown."""
        return load(_exported(self.function, types, key), names=tuple(self.arguments))


class TorchModule:
    """A module that torch exports. It takes the arguments without a default; the others keep it."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.name = type(module).__name__
        taken = inspect.signature(module.forward).parameters.values()
        self.arguments: Arguments = {each.name: (None, None) for each in taken if each.default is each.empty}

    def ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """As Python binds them. Raises InvalidInput for an argument with a default."""
        given = _bound(self.module.forward, self.name, inputs, named).arguments
        other = next((name for name in given if name not in self.arguments), None)
        if other is not None:
            raise InvalidInput(
                "keeps its default in what is compiled", where=f"argument {other}", hint="leave it out of the call"
            )
        return list(given.values())

    def graph(self, types: Sequence[Annotation], key: Key) -> Graph:
        """What torch exports, told which axes are equal; any other size that is no number is open."""
        import torch
        from torch.export import Dim as TorchDim

        from egshape.adapters.torch_export import export
        from egshape.frontends.torch.types import torch_dtype

        shapes = [
            said.shape if said.shape is not None else (None,) * rank for said, (_, rank) in zip(types, key, strict=True)
        ]
        examples = [
            torch.zeros(sizes, dtype=torch_dtype(dtype))
            for sizes, (dtype, _) in zip(_example(shapes), key, strict=True)
        ]
        open_ = [
            {
                axis: str(size.dim) if size is not None and _is_name(size.dim) else TorchDim.AUTO
                for axis, size in enumerate(shape)
                if size is None or size.dim.const is None
            }
            for shape in shapes
        ]
        return export(self.module, examples, dynamic_shapes=dict(zip(self.arguments, open_, strict=True)))


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
        raise MissingDependency("jax is not installed", hint=install("stablehlo")) from None
    scope = export.SymbolicScope()
    unknown = (f"_unknown{place}" for place in itertools.count())

    def size(said: Size | None) -> str:
        return str(said.dim) if said is not None and _is_polynomial(said.dim) else next(unknown)

    specified = []
    for said, (dtype, rank) in zip(types, key, strict=True):
        text = ", ".join(map(size, said.shape if said.shape is not None else (None,) * rank))
        specified.append(jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), numpy_dtype(dtype)))
    return export.export(jax.jit(function))(*specified)


def _bound(
    function: Callable[..., Any], name: str, inputs: Sequence[Any], named: Mapping[str, Any]
) -> inspect.BoundArguments:
    try:
        return inspect.signature(function).bind(*inputs, **named)
    except TypeError as error:
        raise InvalidInput(str(error), where=name) from None


def _example(shapes: Sequence[Sequence[Size | None]]) -> list[tuple[int, ...]]:
    """Sizes that arguments can have: above 1, so that torch takes none for more than it is, and different for different
    expressions, as far as some of the first that are tried are."""
    said = list(dict.fromkeys(size.dim for shape in shapes for size in shape if size is not None))
    names = sorted({name for dim in said for name in dim.symbols()})
    rng = random.Random(0)

    def sizes() -> Iterator[dict[Dim, int]]:
        for _ in range(EXAMPLES):
            at = dict(zip(names, rng.sample(range(2, 40 + len(names)), len(names)), strict=True))
            with suppress(ArithmeticError, EgshapeError):
                yield {dim: dim.evaluate(at) for dim in said}

    tried = list(sizes())
    if not tried:
        raise InvalidInput(f"no sizes were found that {', '.join(map(str, said))} can be")
    best = max(tried, key=lambda found: (min(found.values(), default=0) > 1, len(set(found.values()))))
    unknown = itertools.count(41 + len(names))
    return [tuple(next(unknown) if size is None else best[size.dim] for size in shape) for shape in shapes]


def _is_name(dim: Dim) -> bool:
    return any(dim is symbol(name) and name.isidentifier() for name in dim.symbols())


def _is_polynomial(dim: Dim) -> bool:
    """Whether JAX can be told the size: it takes sums and products of names."""
    return all(isinstance(atom, Symbol) and atom.name.isidentifier() for atom in dim.atoms())
