"""A graph as a callable, for each of the targets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypedDict, Unpack, overload

import numpy as np

from egshape.errors import EgshapeError, InvalidInput, MissingDependency, Unsupported
from egshape.facts import Facts, facts_given, several
from egshape.ir.arrays import unread
from egshape.ir.expand import expand
from egshape.ir.graph import Block, Graph, Op
from egshape.ir.inputs import checked_inputs
from egshape.ir.interpret import interpret, shapes_of
from egshape.ir.types import TensorType, numpy_dtype
from egshape.limits import Limits
from egshape.models import Model, load
from egshape.ops.base import REGISTRY
from egshape.ops.checks import format_message
from egshape.ops.shape_function import assuming
from egshape.optimizing import Result, optimize
from egshape.runtime.core.memory import as_array
from egshape.runtime.core.names import ordered
from egshape.runtime.core.shown import described
from egshape.runtime.core.torch_tensors import has_tensor, is_tensor_type, tensors_of
from egshape.signature import with_sizes

if TYPE_CHECKING:
    from egshape.lower.weights import Interned
    from egshape.runtime.core.function import CompiledFunction
    from egshape.runtime.cuda.function import CudaFunction

INTERPRETED = "not planned: each value is an array of its own while something needs it"


class Function(Protocol):
    """What every target gives: ``CompiledFunction``, ``CudaFunction``, ``Compiled``."""

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """One array, or a tuple in output order; inputs in order, by name, or both."""

    @property
    def inputs(self) -> tuple[tuple[str, np.dtype[Any], int], ...]:
        """Name, dtype and rank of each input."""

    @property
    def outputs(self) -> tuple[tuple[str, np.dtype[Any], int], ...]:
        """Name, dtype and rank of each output."""

    @property
    def checks(self) -> list[str]:
        """What is checked beside the sizes that the types of the inputs state."""

    def ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The inputs of a call in order. Raises what is wrong with their number or names."""

    def result_shapes(self, *shapes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """The shapes of the results for inputs of these shapes."""

    def save(self, path: Any, form: str = "egx") -> list[Path]:
        """Write an artifact. Raises EgshapeError where there is none."""


class Optimizing(TypedDict, total=False):
    """What ``compile`` takes for optimizing."""

    optimize: bool
    assume: str | Sequence[str]
    rules: str | Sequence[str]
    trust_rules: bool
    limits: Limits | None
    format: str | None
    expand_signature: bool
    versions: int | Sequence[str]
    observe: bool


class Compiled:
    """A graph that the interpreter runs, called as ``CompiledFunction`` is: inputs in order or by name, one array or a
    tuple. It can be pickled: what is kept is the graph."""

    target = "interpret"

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __repr__(self) -> str:
        outputs = [
            f"{name}: {value.type}" for name, value in zip(self.graph.output_names, self.graph.outputs, strict=True)
        ]
        return described(
            f"{type(self).__name__} for {self.target}",
            self.graph.name,
            list(self._inputs.values()),
            outputs,
            self.checks,
            INTERPRETED,
        )

    @cached_property
    def _inputs(self) -> Mapping[str, str]:
        return {value.name: f"{value.name}: {value.type}" for value in self.graph.inputs}

    @property
    def checks(self) -> list[str]:
        """As of ``CompiledFunction``."""
        return list(dict.fromkeys((*self.graph.facts.assumed, *map(_said, _checks(self.graph.body)))))

    @property
    def inputs(self) -> tuple[tuple[str, np.dtype[Any], int], ...]:
        """Name, dtype and rank of each input; the rank -1 is not known."""
        return tuple(_port(value.name, value.type) for value in self.graph.inputs)

    @property
    def outputs(self) -> tuple[tuple[str, np.dtype[Any], int], ...]:
        """Name, dtype and rank of each output."""
        return tuple(
            _port(name, value.type) for name, value in zip(self.graph.output_names, self.graph.outputs, strict=True)
        )

    def ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The inputs in order. Raises what is wrong with their number or names."""
        return ordered(inputs, named, self._inputs, _fault)

    def result_shapes(self, *shapes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """As of ``CompiledFunction``."""
        arrays = [
            unread(dtype, shape) for shape, (_, dtype, _) in zip(self.ordered(shapes, {}), self.inputs, strict=True)
        ]
        return shapes_of(self.graph, checked_inputs(self.graph, arrays))

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        given = self.ordered(arrays, named)
        found = interpret(self.graph, [as_array(each) if is_tensor_type(type(each)) else each for each in given])
        results = tensors_of(found) if has_tensor(given) else tuple(found)
        return results[0] if len(results) == 1 else results

    def save(self, path: Any, form: str = "egx") -> NoReturn:
        """Raises EgshapeError: what is interpreted has no native code."""
        raise EgshapeError(
            "is interpreted, and an artifact holds native code",
            where=str(path),
            hint="compile with target='llvm', or egshape.save the graph",
            code="unsupported",
        )


def _checks(block: Block) -> Iterator[Op]:
    """The checks of a block that run whenever it does."""
    for op in block.ops:
        if op.name == "check":
            yield op
        elif REGISTRY[op.name].traits.regions == "once":
            yield from _checks(op.regions[0])


def _said(check: Op) -> str:
    """A check as a condition on sizes, or as its message."""
    if check.attrs["relation"] != "value":
        return f" {check.attrs['relation']} ".join(map(str, check.attrs["sides"]))
    shown = [f"%{value.name}" for value in check.operands[1:]] or check.attrs["args"]
    return format_message(check.attrs["message"], shown)


def _port(name: str, type: TensorType) -> tuple[str, np.dtype[Any], int]:
    return name, numpy_dtype(type.dtype), -1 if type.shape is None else len(type.shape)


def _fault(message: str, code: str, where: str) -> EgshapeError:
    return EgshapeError(message, where=where, code=code)


@overload
def compile(
    model: Model | Graph | Result,
    target: None = ...,
    threads: int = ...,
    facts: str = ...,
    architectures: Sequence[str] | None = ...,
    **options: Unpack[Optimizing],
) -> Function: ...
@overload
def compile(
    model: Model | Graph | Result,
    target: Literal["interpret"],
    threads: int = ...,
    facts: str = ...,
    architectures: Sequence[str] | None = ...,
    **options: Unpack[Optimizing],
) -> Compiled: ...
@overload
def compile(
    model: Model | Graph | Result,
    target: Literal["llvm"],
    threads: int = ...,
    facts: str = ...,
    architectures: Sequence[str] | None = ...,
    **options: Unpack[Optimizing],
) -> CompiledFunction: ...
@overload
def compile(
    model: Model | Graph | Result,
    target: Literal["cuda"],
    threads: int = ...,
    facts: str = ...,
    architectures: Sequence[str] | None = ...,
    **options: Unpack[Optimizing],
) -> CudaFunction: ...
@overload
def compile(
    model: Model | Graph | Result,
    target: str | None,
    threads: int = ...,
    facts: str = ...,
    architectures: Sequence[str] | None = ...,
    **options: Unpack[Optimizing],
) -> Function: ...
def compile(
    model: Model | Graph | Result,
    target: str | None = None,
    threads: int = 1,
    facts: str = "all",
    architectures: Sequence[str] | None = None,
    *,
    optimize: bool = True,
    assume: str | Sequence[str] = (),
    rules: str | Sequence[str] = (),
    trust_rules: bool = False,
    limits: Limits | None = None,
    format: str | None = None,
    expand_signature: bool = False,
    versions: int | Sequence[str] = 0,
    observe: bool = False,
) -> Any:
    """A function of a model: called with arrays in input order or by name, it gives one array, or a tuple in output
    order.

    model: what ``load`` takes, a Graph, or a Result. It is optimized first unless that was done (a Result, and its
    graph) or ``optimize=False``; ``assume``, ``rules``, ``trust_rules`` and ``limits`` are those of
    ``egshape.optimize``, ``format`` that of ``egshape.load``.
    target: ``llvm`` gives a ``runtime.CompiledFunction`` that uses up to ``threads`` threads; ``cuda`` a
    ``CudaFunction`` for devices of ``architectures``, such as ``("sm_80", "sm_90")``; ``interpret`` a ``Compiled``. By
    default ``llvm``, or ``interpret`` with a warning where llvmlite is not installed or cannot compile an op.
    facts: how much of what is known about sizes is used, ``none``, ``shape`` (which sizes are equal) or ``all``, for
    measurements of what facts are worth.
    expand_signature: sizes are arguments and results too (``egshape.signature.with_sizes``).
    versions: guards such as ``("n == 1", "m % 8 == 0")``, or how many are chosen (``egshape.versions.propose``), of
    which native code of this processor keeps those that are seen to be faster: the graph is compiled for each besides,
    with more known, and the first guard that holds of a call chooses.
    observe: count the sizes of calls, for ``observed_sizes()`` of what is given.

    Raises Unsupported for another target, or an op that the target cannot compile; what ``load`` and ``optimize``
    raise; InvalidInput for options that go with optimizing where that is not done.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> x = net.input("x", ["n", 4])
        >>> fn = egshape.compile(net.graph(y=net.relu(x)))
        >>> import numpy as np
        >>> fn(np.array([[-1, 0, 1, 2]], np.float32)).tolist()  # any number of rows
        [[0.0, 0.0, 1.0, 2.0]]
    """
    _check_options(target, facts, architectures)
    if not versions and not observe:
        graph = _graph(model, optimize, assume, rules, limits, format, trust_rules)
        if expand_signature:
            graph = with_sizes(graph)
        return compile_graph(graph, target, threads, facts, architectures)
    if expand_signature:
        raise InvalidInput("expand_signature goes without versions and observe", hint="leave one of them out")
    from egshape.adapters.versioned import versioned

    if isinstance(versions, int) and versions < 0:
        raise InvalidInput(f"versions is {versions}", hint="give guards, or how many are made at most")
    if versions and (isinstance(model, Result) or not optimize):
        raise InvalidInput(
            "versions are made by optimizing", hint="give the model itself, and leave out optimize=False"
        )
    source = model if isinstance(model, Result) else load(model, format)
    weights: Interned = {}  # of all versions

    def made(*more: str) -> Any:
        each = _graph(source, optimize, (*facts_given(assume), *more), rules, limits, None, trust_rules)
        return compile_graph(each, target, threads, facts, architectures, weights)

    given = source.graph if isinstance(source, Result) else source
    if not versions or not isinstance(versions, int):
        return versioned(given, several(versions or ()), made, observe)
    from egshape.versions import chosen

    return chosen(given, versions, Facts.parse(*facts_given(assume), assumed=True), made, observe)


def _graph(
    model: Model | Graph | Result,
    optimized: bool,
    assume: str | Sequence[str],
    rules: str | Sequence[str],
    limits: Limits | None,
    format: str | None,
    trust_rules: bool,
) -> Graph:
    """The graph of what is given to ``compile``, optimized if it is to be."""
    asked = bool(assume or rules or limits)
    if asked and (isinstance(model, Result) or not optimized):
        why = "a Result was optimized before" if isinstance(model, Result) else "optimize=False was given"
        raise InvalidInput(
            f"assume, rules and limits go with optimizing, and {why}",
            hint="give them to egshape.optimize, or the model itself to compile",
        )
    if isinstance(model, Result):
        return model.graph
    if isinstance(model, Graph):
        graph = model
    else:
        with _tried(several(rules), limits, trust_rules), assuming(Facts.parse(*facts_given(assume), assumed=True)):
            graph = load(model, format)
    if not optimized or (graph.optimized and not asked):
        return graph
    # What a file counts is not what runs.
    result = optimize(graph, assume, rules, limits, allow_larger=True, trust_rules=trust_rules)
    if result.report.status == "fallback":
        for note in result.report.notes:
            warnings.warn(note, RuntimeWarning, stacklevel=3)
    return result.graph


def _tried(rules: Sequence[str], limits: Limits | None, trust_rules: bool) -> AbstractContextManager[object]:
    """Texts inside may name the size functions of these rules, as ``optimize`` knows them."""
    if not rules:
        return nullcontext()
    from egshape.rulebook import beforehand  # which is large, for those who have rules

    return beforehand.tried(rules, trust_rules, limits or Limits())


def compile_graph(
    graph: Graph,
    target: str | None = None,
    threads: int = 1,
    facts: str = "all",
    architectures: Sequence[str] | None = None,
    weights: Interned | None = None,
) -> Any:
    """A graph as it is, compiled for a target; without one for this processor, where that can be, else interpreted with
    a warning. ``weights``: constants that native code of this processor shares with other functions. Raises Unsupported
    for a target that is none, or an op that the target cannot compile."""
    if target is None:
        return _for_here(graph, threads, facts, weights)
    _check_options(target, facts, architectures)
    return _MAKERS[target](graph, threads, facts, architectures, weights)


def _check_options(target: str | None, facts: object, architectures: object) -> None:
    """Raises what is wrong with the options of a target, before anything is optimized for it."""
    if target is not None and target not in _MAKERS:
        raise Unsupported(f"the target {target!r} is not there yet", hint="use target='interpret', 'llvm' or 'cuda'")
    if architectures and target != "cuda":
        raise InvalidInput("architectures go with target='cuda'", hint="leave them out")
    if not isinstance(facts, str):
        raise InvalidInput(
            f"facts of compile is 'none', 'shape' or 'all', not a {type(facts).__name__}",
            hint="facts about sizes go to assume, or to egshape.optimize",
        )


def _for_here(graph: Graph, threads: int, facts: str, weights: Interned | None) -> Any:
    try:
        return _llvm(graph, threads, facts, None, weights)
    except (MissingDependency, Unsupported) as error:
        warnings.warn(
            f"{error}; the graph is interpreted (target='interpret' says that this is wanted)",
            RuntimeWarning,
            stacklevel=4,
        )
        return Compiled(graph)


def _llvm(graph: Graph, threads: int, facts: str, _: object, weights: Interned | None) -> Any:
    from egshape.adapters.native import compile_function

    return _native(graph, lambda moved: compile_function(moved, threads, facts, weights))


def _cuda(graph: Graph, _: int, facts: str, architectures: Sequence[str] | None, weights: object) -> Any:
    from egshape.adapters.cuda import compile_function

    return _native(graph, lambda moved: compile_function(moved, architectures, facts))


def _native(graph: Graph, compile_function: Callable[[Graph], Any]) -> Any:
    """A graph by a back end that has no complex numbers, no texts and no values without a rank, and lacks some ops:
    these are called."""
    from egshape.adapters.onnx_host import compile_with_host_calls
    from egshape.adapters.pairs import PairFunction, needs_calls
    from egshape.adapters.text import TextFunction, has_text
    from egshape.adapters.unranked import UnrankedFunction, has_unranked

    def native(each: Graph) -> Any:
        return compile_with_host_calls(each, compile_function)

    def made(each: Graph) -> Any:
        each = expand(each)
        if has_unranked(each):
            return UnrankedFunction(each, made, Compiled(each).checks)
        return PairFunction(each, native) if needs_calls(each) else native(each)

    return TextFunction(graph, made) if has_text(graph) else made(graph)


def _interpreted(graph: Graph, *_: object) -> Compiled:
    return Compiled(graph)


_MAKERS: Mapping[str, Callable[[Graph, int, str, Sequence[str] | None, Interned | None], Any]] = {
    "interpret": _interpreted,
    "llvm": _llvm,
    "cuda": _cuda,
}
