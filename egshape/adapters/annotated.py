"""``egshape.fn``: a program whose types are said, compiled once for all sizes that they admit."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from egshape.adapters.entry import Entry
from egshape.adapters.sources import Arguments, JaxFunction, Key, Source, source_of
from egshape.annotate import annotate
from egshape.annotation import Annotation, named, without_variables
from egshape.compiling import Function, compile
from egshape.dims import const, parse, symbol
from egshape.errors import CheckFailed, InvalidInput, ParseError, TypeMismatch
from egshape.facts import Relation
from egshape.ir.arrays import unread
from egshape.ir.graph import Graph
from egshape.ir.types import dtype_name
from egshape.models import Model
from egshape.ops.conditions import negated
from egshape.prove import prove
from egshape.runtime.core.torch_tensors import array_of, is_tensor_type


def fn(
    *types: str, returns: str | Sequence[str] = (), **options: Any
) -> Callable[[Callable[..., Any] | Model | Graph], Annotated]:
    """Says the types of a program's arguments, in order or by name (``"x: f32[n, 4*m]"``), and of its results.

    The program is a function of JAX (this is its decorator), a module of PyTorch, a graph, or a model that
    ``egshape.load`` takes. It
    becomes an ``Annotated``: called with arrays it checks what was said before any work is done, and runs compiled
    code. ``options`` are those of ``egshape.compile``. A ``?`` may be any size; dtype and rank that neither are said
    nor the program's own are those of the first call, and other ones are compiled apart. Raises ParseError for a text
    that is no type, InvalidInput for an argument that the program does not have.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> x = net.input("x", ["n", 4])
        >>> relu = egshape.fn("x: f32[2*m, 4]")(net.graph(y=net.relu(x)))
        >>> import numpy as np
        >>> relu(np.ones((6, 4), "f4")).shape
        (6, 4)
        >>> try:
        ...     relu(np.ones((5, 4), "f4"))
        ... except egshape.EgshapeError as error:
        ...     print(error.message)
        argument x, axis 0: 2*m = 5 has no solution
    """
    if not all(isinstance(each, str) for each in types):
        raise InvalidInput("types are texts", hint='what follows is a function of the program: fn("x: f32[n]")(f)')
    results = (returns,) if isinstance(returns, str) else tuple(returns)

    def annotated(program: Callable[..., Any] | Model | Graph) -> Annotated:
        arguments, given = list(map(named, types)), list(map(named, results))
        found = Annotated(source_of(program, dict((*given, *arguments))), arguments, given, options)
        if callable(program):
            functools.update_wrapper(found, program)
        return found

    return annotated


class Annotated:
    """A program with the types that are said of it; a graph and compiled code are made when they are first asked
    for, for each combination of dtypes and ranks."""

    def __init__(
        self,
        source: Source,
        types: Sequence[tuple[str, Annotation]],
        returns: Sequence[tuple[str, Annotation]],
        options: Mapping[str, Any],
    ) -> None:
        self.name = source.name
        self._source = source
        self._types = types_of(source.arguments, types)
        self._returns = returns
        self._options = dict(options)
        self._graphs: dict[Key, Graph] = {}
        self._entries: dict[Key, Entry] = {}
        self._compiled: dict[Key, Function] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        said = ", ".join(f"{name}: {each.text}" for name, each in self._types.items())
        return f"<{type(self).__name__} {self.name}({said})>"

    @property
    def types(self) -> dict[str, Annotation]:
        """What is said of each argument."""
        return dict(self._types)

    @property
    def graph(self) -> Graph:
        """The graph, where all dtypes and ranks are said. Raises InvalidInput where they are not."""
        return self._graph(self._key_said())

    def graph_of(self, *inputs: Any) -> Graph:
        """The graph for arrays of these dtypes and ranks, or for what has ``dtype`` and ``shape``."""
        return self._graph(_key(inputs))

    def compiled(self, *inputs: Any) -> Function:
        """The compiled function that a call with such arrays runs."""
        key = _key(inputs) if inputs else self._key_said()
        with self._lock:
            if key not in self._compiled:
                self._compiled[key] = compile(self._graph(key), **self._options)
            return self._compiled[key]

    def __call__(self, *inputs: Any, **by_name: Any) -> Any:
        if traced((*inputs, *by_name.values())):
            return self._inside(self.ordered(inputs, by_name))
        arrays = self.arrays(inputs, by_name)
        return self.compiled(*arrays)(*arrays)

    def ordered(self, inputs: Sequence[Any], by_name: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call in order. Raises InvalidInput for some that are missing."""
        return self._source.ordered(inputs, by_name)

    def arrays(self, inputs: Sequence[Any], by_name: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call in order, as arrays; torch's tensors as they are. Raises InvalidInput for some that
        are missing."""
        return list(map(_array, self.ordered(inputs, by_name)))

    def sizes(self, *shapes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """The shapes of the results for arguments of these shapes: sizes in, sizes out, nothing is computed. Raises
        what a call would of such sizes."""
        if any(isinstance(each, int) for each in shapes):
            raise InvalidInput("takes a shape for each argument", where=self.name, hint="such as sizes((2, 3))")
        return self.compiled().result_shapes(*shapes)

    def into(self, out: Sequence[Any], *inputs: Any) -> Any:
        """A call that writes its results to these arrays or tensors; None stands for one that is made."""
        arrays = list(map(_array, inputs))
        return self.compiled(*arrays)(*arrays, out=out)

    def refusal(self, *arrays: np.ndarray) -> str:
        """Why what is said does not admit these arguments; "" if it does. Nothing of the program is run."""
        try:
            return self.entry(_key(arrays)).refusal(arrays)
        except TypeMismatch as error:
            return f"{error.where}: {error.message}"

    def admits(self, *arrays: np.ndarray) -> bool:
        """Whether what is said admits these arguments."""
        try:
            return self.entry(_key(arrays)).admits(arrays)
        except TypeMismatch:
            return False

    def entry(self, key: Key) -> Entry:
        """What is said of arguments of these dtypes and ranks. Raises TypeMismatch for others than are said."""
        if key not in self._entries:
            self._entries[key] = Entry(self._said(key), key)
        return self._entries[key]

    def traced_status(self, given: Sequence[Any]) -> str:
        """Whether what is said admits arguments that JAX traces: "proved", "refuted", or "unknown" where that hangs on
        sizes that the trace leaves open."""
        try:
            conditions = self.entry(_key(given)).conditions
        except TypeMismatch:
            return "refuted"
        known = _sizes_of_trace(self._types, given)
        answers = {prove(str(each), known).status for each in conditions}
        if "refuted" in answers and any(prove(str(negated(each)), known).status == "proved" for each in conditions):
            return "refuted"
        return "proved" if answers <= {"proved"} else "unknown"

    def _inside(self, given: Sequence[Any]) -> Any:
        """A call while JAX traces another function: the program's own ops, behind what is said where all sizes are
        numbers. Raises TypeMismatch and CheckFailed for what is said and does not hold."""
        if not isinstance(self._source, JaxFunction):
            raise InvalidInput(
                "is no function of JAX, and JAX traces its call",
                where=self.name,
                hint="egshape.jax_call goes inside of jax.jit",
            )
        entry = self.entry(_key(given))
        shapes = [each.shape for each in given]
        if all(isinstance(size, int) for shape in shapes for size in shape):
            arrays = [unread(each.dtype, each.shape) for each in given]
            if why := entry.refusal(arrays):
                raise CheckFailed(why, where=self.name)
        return self._source.function(*given)

    # -- inside --------------------------------------------------------------------------------------------------

    def _key_said(self) -> Key:
        unsaid = [name for name, each in self._types.items() if each.dtype is None or each.shape is None]
        if unsaid:
            raise InvalidInput(
                f"nothing says dtype and rank of {', '.join(unsaid)}",
                hint="graph_of(arrays...) gives the graph of a call",
            )
        return tuple((str(each.dtype), len(each.shape or ())) for each in self._types.values())

    def _said(self, key: Key) -> dict[str, Annotation]:
        """What is said of arguments of these dtypes and ranks. Raises TypeMismatch for others than are said."""
        plain = without_variables([(f"argument {name}", each) for name, each in self._types.items()], key)
        for name, each, (dtype, rank) in zip(self._types, plain, key, strict=True):
            _agrees(name, each, dtype, rank)
        return dict(zip(self._types, plain, strict=True))

    def _graph(self, key: Key) -> Graph:
        if key not in self._graphs:
            graph = self._source.graph(list(self._said(key).values()), key)
            inputs = [value.name for value in graph.inputs]
            said = {**dict(zip(inputs, self._types.values(), strict=True)), **self._said_of_results(graph)}
            self._graphs[key] = annotate(graph, said, dict(zip(inputs, self._types, strict=True)))
        return self._graphs[key]

    def _said_of_results(self, graph: Graph) -> dict[str, Annotation]:
        """What is said of the outputs, by their names. Raises InvalidInput for more than there are."""
        if len(self._returns) > len(graph.outputs):
            raise InvalidInput(
                f"types of {len(self._returns)} results are said, it has {len(graph.outputs)}", where=repr(self)
            )
        results = zip(graph.output_names, self._returns, strict=False)
        return {name or own: type for own, (name, type) in results}


def traced(inputs: Sequence[Any]) -> bool:
    """Whether JAX traces one of these."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(each, jax.core.Tracer) for each in inputs)


def _sizes_of_trace(names: Iterable[str], given: Sequence[Any]) -> list[str]:
    """What a trace of JAX tells of the sizes of arguments, as facts; its symbols are at least 1, and get names that no
    argument has. A size that is written in JAX's own functions is left open."""
    facts = []
    for name, each in zip(names, given, strict=True):
        for axis, size in enumerate(each.shape):
            try:
                dim = parse(str(size))
            except ParseError:
                continue
            apart = {own: symbol(f"{own} of the trace") for own in dim.symbols()}
            facts.append(str(Relation("==", symbol(f"{name}.{axis}"), dim.substitute(apart))))
            facts += [str(Relation(">=", other, const(1))) for other in apart.values()]
    return facts


def _array(item: Any) -> Any:
    return item if is_tensor_type(type(item)) else np.asarray(item)


def _key(inputs: Sequence[Any]) -> Key:
    typed = (array_of(each) if is_tensor_type(type(each)) else each for each in inputs)
    return tuple((dtype_name(np.dtype(each.dtype)), len(each.shape)) for each in typed)


def types_of(arguments: Arguments, types: Sequence[tuple[str, Annotation]]) -> dict[str, Annotation]:
    """What is said of each argument, in order; types without a name are of the arguments in turn. Dtype and rank that
    are not said are those of the program."""
    said = {}
    names = list(arguments)
    for place, (name, type) in enumerate(types):
        wanted = name or (names[place] if place < len(names) else "")
        if wanted not in arguments:
            raise InvalidInput(
                f"the function has no argument {name!r}"
                if name
                else f"{len(types)} types are said of {len(names)} arguments",
                hint=f"it has {', '.join(names)}",
            )
        said[wanted] = type
    return {name: _completed(said.get(name, Annotation("?")), *own) for name, own in arguments.items()}


def _completed(said: Annotation, dtype: str | None, rank: int | None) -> Annotation:
    shape = said.shape if said.shape is not None or said.rest is not None or rank is None else (None,) * rank
    return replace(said, dtype=said.dtype or dtype, shape=shape)


def _agrees(name: str, said: Annotation, dtype: str, rank: int) -> None:
    """Raises TypeMismatch for an array that is not as was said."""
    if said.dtype not in (None, dtype):
        raise TypeMismatch(f"is {dtype}, where {said.text} is said of it", where=f"argument {name}")
    if said.shape is not None and len(said.shape) != rank:
        raise TypeMismatch(f"has rank {rank}, where {said.text} is said of it", where=f"argument {name}")
