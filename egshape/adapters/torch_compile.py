"""egshape as a back end of ``torch.compile``: each graph that torch traces is compiled once, for all sizes that it may
have; what egshape cannot read runs in torch, and is reported.

``torch.compile(model, backend="egshape", options={"threads": 2})``"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from egshape.adapters.torch_recurrent import as_one_op
from egshape.api import compile as compile_program
from egshape.api import optimize
from egshape.errors import EgshapeError, InvalidInput, Unsupported
from egshape.frontends.torch.traced import Output, Traced, read, table
from egshape.frontends.torch.types import tensor_of

Role = Literal["inference", "forward", "backward"]

OPTIONS = ("target", "threads", "facts", "fallback")


@dataclass(frozen=True)
class Options:
    """How graphs are compiled.

    target: ``llvm`` or ``interpret``. threads: at most so many. facts: what holds of the sizes, besides what torch
    guards, as in ``egshape.optimize(assume=...)``; a call for which they do not hold raises. fallback: what egshape
    cannot compile runs in torch; else it raises."""

    target: str = "llvm"
    threads: int = 1
    facts: tuple[str, ...] = ()
    fallback: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Options by name. Raises InvalidInput for a name that is none, or a value of another kind."""
        told = dict(given or {})
        wrong = sorted(set(told) - set(OPTIONS))
        if wrong:
            raise InvalidInput(f"backend='egshape' has no option {wrong[0]!r}", hint=f"it has {', '.join(OPTIONS)}")
        if told.get("target", cls.target) not in ("llvm", "interpret"):
            raise InvalidInput(f"target is 'llvm' or 'interpret', not {told['target']!r}")
        facts = told.pop("facts", ())
        return cls(**told, facts=(facts,) if isinstance(facts, str) else tuple(facts))


@dataclass(frozen=True)
class CompiledGraph:
    """One graph that torch traced.

    ``ops`` before and after optimizing; ``symbols`` are the sizes that it was not compiled for in particular;
    ``fallback`` are the ops that torch runs, ``("<graph>",)`` with the reason in ``error`` where that is all of them;
    ``line`` is where in the model it begins."""

    role: Role
    ops: tuple[int, int] = (0, 0)
    symbols: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    seconds: float = 0.0
    fallback: tuple[str, ...] = ()
    error: str = ""
    line: str = ""

    def __str__(self) -> str:
        place = self.line or "an unknown line"
        told = f"{self.role} at {place}: {self.ops[0]} ops -> {self.ops[1]}, {self.seconds:.2f} s"
        sizes = f", sizes {', '.join(self.symbols)}" if self.symbols else ", all sizes fixed"
        torch_runs = f"; torch runs {', '.join(self.fallback)}" if self.fallback else ""
        return told + sizes + torch_runs + (f" ({self.error})" if self.error else "")


@dataclass(frozen=True)
class Report:
    """What was compiled since the last ``reset``. ``notes`` say where torch had to know a size, by module."""

    graphs: tuple[CompiledGraph, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        notes = [f"{name} is compiled anew for some sizes: {reason}" for name, reason in self.notes]
        return "\n".join([*map(str, self.graphs), *notes]) or "nothing was compiled"


@dataclass
class _Log:
    graphs: list[CompiledGraph] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)


_LOG = _Log()


def report() -> Report:
    """What ``backend="egshape"`` compiled in this process since ``reset``.

    Examples:
        >>> import torch
        >>> import egshape
        >>> egshape.torch.reset()
        >>> _ = torch.compile(torch.nn.ReLU(), backend="egshape")(torch.ones(3, 4))
        >>> len(egshape.torch.report().graphs)
        1
    """
    return Report(tuple(_LOG.graphs), tuple(_LOG.notes))


def note(name: str, reason: str) -> None:
    """Report that torch had to know a size of a module."""
    _LOG.notes.append((name, reason))


def reset() -> None:
    """Forget the report, and what torch compiled."""
    import torch

    torch.compiler.reset()
    _LOG.graphs.clear()
    _LOG.notes.clear()


def backend(module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """What ``torch.compile`` calls for each graph: functional ATen ops are compiled, forward and backward.

    Raises InvalidInput for wrong options; what cannot be compiled only where ``fallback`` is off."""
    from torch._dynamo.exc import TorchDynamoException

    chosen = Options.of(options)
    try:
        return lowered(module, example_inputs, chosen)
    except TorchDynamoException:  # asks for another trace
        raise
    except Exception as error:  # torch's own, of ops that it does not make functional
        if not chosen.fallback:
            raise
        return _in_torch(module, "inference", error)


def lowered(module: Any, example_inputs: Sequence[Any], chosen: Options) -> Any:
    """As ``backend``. Raises what torch raises where it does not make the graph functional."""
    from functorch.compile import aot_module_simplified, min_cut_rematerialization_partition

    strange = next((type(each).__name__ for each in example_inputs if _is_subclass(each)), "")
    if strange:  # its own meaning of ops is not in what torch traces
        told = f"an input is a {strange}, a subclass of torch.Tensor"
        if not chosen.fallback:
            raise Unsupported(told, hint="give a plain tensor")
        return _in_torch(module, "inference", Unsupported(told))
    as_one_op(module)

    def compiler(role: Role) -> Callable[[Any, Sequence[Any]], Any]:
        return lambda traced, _: _compiled(traced, role, chosen)

    return aot_module_simplified(
        module,
        example_inputs,
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=table(),
        keep_inference_input_mutations=True,
    )


def _is_subclass(given: Any) -> bool:
    """Whether it is a tensor of another class than torch's own, those included that torch traces with."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    own = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor)
    return isinstance(given, torch.Tensor) and type(given) not in own


def _compiled(module: Any, role: Role, options: Options) -> Any:
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    start = time.perf_counter()
    line = _first_line(module)
    try:
        with unset_fake_temporarily():  # constants of the graph are read
            traced = read(module, role)
        result = optimize(traced.graph, assume=options.facts)
        run = compile_program(result, target=options.target, threads=options.threads)
    except Exception as error:
        if not options.fallback:
            raise
        from functorch.compile import make_boxed_func

        return make_boxed_func(_in_torch(module, role, error))
    after = result.graph
    symbols = tuple(sorted({name for value in after.inputs for size in value.type.dims for name in size.symbols()}))
    _LOG.graphs.append(
        CompiledGraph(
            role,
            ops=(sum(1 for _ in traced.graph.body.walk()), sum(1 for _ in after.body.walk())),
            symbols=symbols,
            checks=tuple(each.text for each in result.report.checks if each.status == "kept"),
            seconds=time.perf_counter() - start,
            fallback=tuple(dict.fromkeys(name for name, _ in traced.hosted)),
            line=line,
        )
    )
    return _Call(traced, run)


def _in_torch(module: Any, role: Role, error: Exception) -> Any:
    """A graph as torch runs it, reported with the reason."""
    told = str(error) if isinstance(error, EgshapeError) else "".join(traceback.format_exception_only(error))
    _LOG.graphs.append(CompiledGraph(role, fallback=("<graph>",), error=told.strip(), line=_first_line(module)))
    return module.forward


def _first_line(module: Any) -> str:
    from egshape.frontends.torch.convert import location_of

    places = (str(location_of(node)) for node in module.graph.nodes if node.op == "call_function")
    return next((place for place in places if place), "")


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor's elements may be written where they lie."""
    return tensor.is_contiguous() and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg())


def _placed(tensor: Any, strides: Sequence[int], start: int) -> Any:
    """A tensor that lies so in memory of its own. Elements that lie at one place are equal."""
    ends = [(size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True)]
    memory = tensor.new_empty(start + sum(ends) + 1 if tensor.numel() else start)
    placed = memory.new_empty(0).set_(memory.untyped_storage(), start, tensor.shape, strides)
    first = tuple(slice(None) if stride else slice(0, 1) for stride in strides)
    placed[first].copy_(tensor[first])
    return placed


_TOKEN = np.zeros(0, np.float32)
"""What torch traces in the place of what orders effects, for which it passes None."""


class _Call:
    """A compiled graph, called with the list of tensors and sizes that torch passes, which it empties (what torch calls
    boxed): tensors are read as they are."""

    _boxed_call = True

    def __init__(self, traced: Traced, run: Callable[..., Any]) -> None:
        self._run, self._outputs = run, traced.outputs
        self._inputs, self._sizes = traced.inputs, traced.sizes
        plain = tuple(Output(number, is_size=False, order=None) for number in range(len(traced.graph.outputs)))
        self._plain = self._outputs == plain and len(self._sizes) < len(self._inputs)
        self._dtypes = [value.type.dtype for value in traced.graph.outputs]
        names = traced.graph.output_names
        over = getattr(run, "manifest", {}).get("over", {})
        places = {value.name: place for value, place in zip(traced.graph.inputs, traced.inputs, strict=True)}
        mine = {number for place, number in traced.written if places.get(over.get(names[number])) == place}
        self._in_place = {number: place for place, number in traced.written if number in mine}
        self._copied = {number: place for place, number in traced.written if number not in mine}

    def __call__(self, args: list[Any]) -> list[Any]:
        given = [np.asarray(args[at], np.int64) if at in self._sizes else args[at] for at in self._inputs]
        if any(each is None for each in given):
            given = [_TOKEN if each is None else each for each in given]
        if self._in_place or self._copied:
            results = self._written(args, given)
        else:
            found = self._run(*given)
            results = found if isinstance(found, tuple) else (found,)
        starts = [
            args[each.within].storage_offset() if isinstance(each, Output) and each.within is not None else 0
            for each in self._outputs
        ]
        args.clear()
        if self._plain and not any(isinstance(each, np.ndarray) for each in results):
            return list(results)
        return [
            self._result(each, results, start) if isinstance(each, Output) else each
            for each, start in zip(self._outputs, starts, strict=True)
        ]

    def _written(self, args: Sequence[Any], given: Sequence[Any]) -> Sequence[Any]:
        """The results of a graph that changes arguments: in their memory where it can, else they are copied there."""
        out = [
            args[self._in_place[number]] if number in self._in_place else None for number in range(len(self._dtypes))
        ]
        out = [each if each is not None and _is_plain(each) else None for each in out]
        found = self._run(*given, out=out) if self._in_place else self._run(*given)
        results = found if isinstance(found, tuple) else (found,)
        for number, place in (self._in_place | self._copied).items():
            if out[number] is None:
                new = results[number]
                args[place].copy_(tensor_of(new, self._dtypes[number]) if isinstance(new, np.ndarray) else new)
        return results

    def _result(self, output: Output, results: Sequence[Any], begin: int) -> Any:
        """A result; ``begin``: where the argument begins of which it is a view."""
        found = results[output.number]
        if output.is_size:
            return int(found)
        tensor = tensor_of(found, self._dtypes[output.number]) if isinstance(found, np.ndarray) else found
        if output.memory:
            *strides, start = (int(results[number]) for number in output.memory)
            return _placed(tensor, strides, begin + start)
        if output.order is None:
            return tensor
        back = [output.order.index(axis) for axis in range(len(output.order))]
        return tensor.permute(output.order).contiguous().permute(back)
