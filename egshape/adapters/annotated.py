"""``@egshape.fn``: a function of JAX whose types are said, compiled once for all sizes that they admit."""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from egshape.annotate import Annotation, Size, annotate, named
from egshape.compiling import Function, compile
from egshape.dims import Dim
from egshape.dims.core import Symbol
from egshape.errors import InvalidInput, MissingDependency, TypeMismatch
from egshape.ir.graph import Graph
from egshape.ir.types import dtype_name, numpy_dtype
from egshape.models import load

Key = tuple[tuple[str, int], ...]
"""Dtype and rank of each argument."""


def fn(*types: str, returns: str | Sequence[str] = (), **options: Any) -> Callable[[Callable[..., Any]], Annotated]:
    """Says the types of a JAX function's arguments, in order or by name (``"x: f32[n, 4*m]"``), and of its results.

    The function becomes an ``Annotated``: called with arrays it checks what was said before any work is done, and runs
    compiled code. ``options`` are those of ``egshape.compile``. A ``?`` may be any size; dtype and rank that are not
    said are those of the first call, and other ones are compiled apart. Raises ParseError for a text that is no type,
    InvalidInput for an argument that the function does not have."""
    results = (returns,) if isinstance(returns, str) else tuple(returns)

    def annotated(function: Callable[..., Any]) -> Annotated:
        return Annotated(function, [named(each) for each in types], [named(each)[1] for each in results], options)

    return annotated


class Annotated:
    """A function with the types that are said of it; a graph and compiled code are made when they are first asked
    for, for each combination of dtypes and ranks."""

    def __init__(
        self,
        function: Callable[..., Any],
        types: Sequence[tuple[str, Annotation]],
        returns: Sequence[Annotation],
        options: Mapping[str, Any],
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._names = list(inspect.signature(function).parameters)
        self._types = _by_name(self._names, types)
        self._returns = returns
        self._options = dict(options)
        self._graphs: dict[Key, Graph] = {}
        self._compiled: dict[Key, Function] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        said = ", ".join(f"{name}: {each.text}" for name, each in self._types.items())
        return f"<{type(self).__name__} {getattr(self._function, '__name__', 'function')}({said})>"

    @property
    def graph(self) -> Graph:
        """The graph, where all dtypes and ranks are said. Raises InvalidInput where they are not."""
        unsaid = [name for name, each in self._types.items() if each.dtype is None or each.shape is None]
        if unsaid:
            raise InvalidInput(
                f"nothing says dtype and rank of {', '.join(unsaid)}",
                hint="graph_of(arrays...) gives the graph of a call",
            )
        return self._graph(tuple((str(each.dtype), len(each.shape or ())) for each in self._types.values()))

    def graph_of(self, *inputs: Any) -> Graph:
        """The graph for arrays of these dtypes and ranks, or for what has ``dtype`` and ``shape``."""
        return self._graph(self._key(inputs))

    def compiled(self, *inputs: Any) -> Function:
        """The compiled function that a call with such arrays runs."""
        key = self._key(inputs) if inputs else self._key_said()
        with self._lock:
            if key not in self._compiled:
                self._compiled[key] = compile(self._graph(key), **self._options)
            return self._compiled[key]

    def __call__(self, *inputs: Any, **by_name: Any) -> Any:
        arrays = [np.asarray(each) for each in self._ordered(inputs, by_name)]
        return self.compiled(*arrays)(*arrays)

    def sizes(self, *shapes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """The shapes of the results for arguments of these shapes: sizes in, sizes out, nothing is computed. Raises
        what a call would of arguments whose sizes no array can have; what was said is checked by the call."""
        return self.compiled().result_shapes(*shapes)

    def into(self, out: Sequence[np.ndarray | None], *inputs: Any) -> Any:
        """A call that writes its results to these arrays."""
        arrays = [np.asarray(each) for each in inputs]
        return self.compiled(*arrays)(*arrays, out=out)

    # -- inside --------------------------------------------------------------------------------------------------

    def _ordered(self, inputs: Sequence[Any], by_name: Mapping[str, Any]) -> list[Any]:
        try:
            bound = inspect.signature(self._function).bind(*inputs, **by_name)
        except TypeError as error:
            raise InvalidInput(str(error), where=repr(self)) from None
        bound.apply_defaults()
        return [bound.arguments[name] for name in self._names]

    def _key(self, inputs: Sequence[Any]) -> Key:
        return tuple((dtype_name(np.dtype(each.dtype)), len(each.shape)) for each in inputs)

    def _key_said(self) -> Key:
        return self._key([np.empty((0,) * each.type.rank, numpy_dtype(each.type.dtype)) for each in self.graph.inputs])

    def _graph(self, key: Key) -> Graph:
        if key not in self._graphs:
            for (name, each), (dtype, rank) in zip(self._types.items(), key, strict=True):
                _agrees(name, each, dtype, rank)
            graph = load(_exported(self._function, list(self._types.values()), key))
            if len(self._returns) > len(graph.outputs):
                raise InvalidInput(
                    f"types of {len(self._returns)} results are said, it has {len(graph.outputs)}", where=repr(self)
                )
            inputs = [value.name for value in graph.inputs]
            results = zip(graph.output_names, self._returns, strict=False)
            said: dict[str, str | Annotation] = dict([*zip(inputs, self._types.values(), strict=True), *results])
            self._graphs[key] = annotate(graph, said, dict(zip(inputs, self._names, strict=True)))
        return self._graphs[key]


def _by_name(names: Sequence[str], types: Sequence[tuple[str, Annotation]]) -> dict[str, Annotation]:
    """What is said of each argument, in order; types without a name are of the arguments in turn."""
    out = {name: Annotation("?") for name in names}
    for place, (name, said) in enumerate(types):
        wanted = name or (names[place] if place < len(names) else "")
        if wanted not in out:
            raise InvalidInput(
                f"the function has no argument {name!r}"
                if name
                else f"{len(types)} types are said of {len(names)} arguments",
                hint=f"it has {', '.join(names)}",
            )
        out[wanted] = said
    return out


def _agrees(name: str, said: Annotation, dtype: str, rank: int) -> None:
    """Raises TypeMismatch for an array that is not as was said."""
    if said.dtype not in (None, dtype):
        raise TypeMismatch(f"is {dtype}, where {said.text} is said of it", where=f"argument {name}")
    if said.shape is not None and len(said.shape) != rank:
        raise TypeMismatch(f"has rank {rank}, where {said.text} is said of it", where=f"argument {name}")


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
