"""``egshape.torch.compile``: one compile of a PyTorch module for all sizes of the axes that are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import FunctionType
from typing import Any

from egshape.adapters.torch_arguments import arguments_of, by_argument, leaves
from egshape.adapters.torch_compile import Options, backend, lowered, note
from egshape.adapters.torch_layout import enlarged, layout_of, regular
from egshape.errors import CheckFailed
from egshape.frontends.torch.stand_ins import STANDS_FOR, standing


def compile(
    module: Any,
    dynamic_shapes: Any = None,
    *,
    target: str = "llvm",
    threads: int = 1,
    facts: str | Sequence[str] = (),
    fallback: bool = True,
) -> CompiledModule:
    """A module that is compiled once for all sizes of the axes that ``dynamic_shapes`` names.

    Args:
        module: a ``torch.nn.Module``.
        dynamic_shapes: for each argument of ``forward``, by name or in order, its open axes:
            ``({0: "b", 1: "s"},)``. Without it an axis is open once it has changed.
        target: ``llvm`` or ``interpret``.
        threads: at most so many.
        facts: what holds of the sizes, besides what torch guards; a call for which they do not hold raises.
        fallback: whether torch runs what cannot be compiled.

    Sizes 0 and 1 are sizes like others. Where torch must know a size to go on (a loop or a branch of Python over it),
    the report (``egshape.torch.report()``) says why, and that graph is compiled as often as torch asks for it. Raises
    InvalidInput for wrong options.

    Examples:
        >>> import torch
        >>> import egshape
        >>> fast = egshape.torch.compile(torch.nn.Linear(4, 2), ({0: "batch"},))
        >>> [tuple(fast(torch.ones(rows, 4)).shape) for rows in (0, 1, 5)]
        [(0, 2), (1, 2), (5, 2)]
    """
    options = Options.of({"target": target, "threads": threads, "facts": facts, "fallback": fallback})
    return CompiledModule(module, dynamic_shapes, options)


_COMPILING: ContextVar[bool] = ContextVar("_COMPILING", default=False)
"""Whether graphs are compiled and not run."""


class _Compiled(Exception):
    """Ends a call of which only the graph is wanted."""


MOST_SEEN = 4096
"""Kinds of arguments that are remembered."""


class CompiledModule:
    """What ``compile`` gives: called as the module is. ``module`` is the module itself."""

    def __init__(self, module: Any, dynamic_shapes: Any, options: Options) -> None:
        self.module = module
        self._shapes, self._options = dynamic_shapes, options
        self._roads = list(_ROADS if dynamic_shapes is not None else _ROADS[-1:])
        """The ways of tracing that are left; the first is taken."""
        self._run = self._compiled()
        self._fresh = True
        """Whether nothing is compiled on the present way."""
        self._seen: set[Any] = set()
        """Arguments that need nothing compiled, so that torch's settings do not matter to them."""

    def __repr__(self) -> str:
        return f"egshape.torch.compile({type(self.module).__name__}, {self._shapes!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from torch._dynamo.exc import TorchDynamoException

        args, kwargs = regular(args, kwargs)
        kind = self._kind(args, kwargs)
        if kind is not None and kind in self._seen:
            try:
                return self._run(*args)
            except CheckFailed:
                return self.module(*args)
        sources = "" if self._shapes is None else self._sources(args, kwargs)
        while True:
            try:
                with self._roads[0](sources):
                    self._compile_ahead(args, kwargs)
                    found = self._run(*args, **kwargs)
                self._remember(args, kwargs)
                return found
            except (TorchDynamoException, AssertionError) as error:  # torch asserts that two such sizes are equal
                if len(self._roads) == 1:
                    raise
                note(type(self.module).__name__, _reason(error))
            except CheckFailed:  # an assertion that torch made of a broadcast, or an error of the module: it says which
                return self.module(*args, **kwargs)
            self._roads.pop(0)
            self._run, self._fresh = self._compiled(), True

    def _compile_ahead(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Compile for larger sizes than those of a first call with sizes below 2, where torch would fix strides to what
        they happen to be: nothing is run."""
        if self._fresh and len(self._roads) == len(_ROADS):
            self._fresh = False
            larger = enlarged(self.module, args, kwargs, self._shapes)
            if larger is not None:
                token = _COMPILING.set(True)
                try:
                    self._run(*larger)
                except Exception:  # what is wrong with the module is told by the call itself
                    pass
                finally:
                    _COMPILING.reset(token)

    def _kind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """All of a call that torch compiles for: with sizes where it looks at them, which it does on all roads but the
        first, and of tensors whose elements do not lie in order. None where arguments are not tensors alone."""
        import torch

        if kwargs or not all(isinstance(each, torch.Tensor) for each in args):
            return None
        sized = len(self._roads) < len(_ROADS)
        return (
            self.module.training,
            torch.is_grad_enabled(),
            tuple(map(id, args)) if len(set(map(id, args))) < len(args) else (),
            *((type(x), x.shape if sized else x.dim(), x.dtype, x.requires_grad, layout_of(x)) for x in args),
        )

    def _remember(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note that such arguments need nothing compiled."""
        kind = self._kind(args, kwargs)
        if kind is not None:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen.add(kind)

    def _compiled(self) -> Any:
        import torch

        options, roads = self._options, self._roads  # torch keeps the compiler for ever: it must not keep the module

        def compiler(graph: Any, inputs: Sequence[Any]) -> Any:
            last = len(roads) == 1
            run = backend(graph, inputs, options=vars(options)) if last else lowered(graph, inputs, options)

            def called(*given: Any) -> Any:
                if _COMPILING.get():
                    raise _Compiled
                return run(*given)

            return called

        guards = {"guard_filter_fn": lambda guards: [STANDS_FOR not in guard.name for guard in guards]}
        return torch.compile(_called(self.module), backend=compiler, fullgraph=len(roads) > 1, options=guards)

    def _sources(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The open axes as torch names them."""
        given = arguments_of(self.module, args, kwargs)
        wanted = by_argument(self._shapes, list(given))
        found = []
        for place, (name, value) in enumerate(given.items()):
            for path, _, axes in leaves(value, wanted.get(name), ""):
                # torch calls an argument of its own modules by its place
                for root in (f"L['{name}']", f"L['args'][{place}]", f"L['kwargs']['{name}']"):
                    found += [f"{root}{path}:{axis}" for axis in axes]
        return ",".join(found)


def _called(module: Any) -> Callable[..., Any]:
    """A call of the module as a function whose code is its own: torch keeps what it compiled, how often, and what it
    will not look at again by code, and all modules of a class have one ``forward``."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    return FunctionType(call.__code__.replace(), call.__globals__, call.__name__, None, call.__closure__)


@contextmanager
def _settings(oblivious: bool = False, standing_in: bool = False, **sources: str) -> Iterator[None]:
    """torch's settings under which no two sizes are one by chance, and recurrent modules and data-dependent sizes are
    traced. ``sources`` name the open axes; ``oblivious``: 0 and 1 are sizes like others."""
    import torch
    import torch._dynamo.config as dynamo
    import torch.compiler.config as compiler
    import torch.fx.experimental._config as symbolic

    with (
        dynamo.patch(allow_rnn=True, capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True),
        symbolic.patch(use_duck_shape=False, backed_size_oblivious=oblivious),
        compiler.patch(**sources),
        standing() if standing_in and not torch.is_grad_enabled() else nullcontext(),
    ):
        yield


_ROADS: tuple[Callable[[str], AbstractContextManager[None]], ...] = (
    lambda sources: _settings(unbacked_sources=sources, standing_in=True),
    lambda sources: _settings(True, dynamic_sources=sources),
    lambda sources: _settings(dynamic_sources=sources),
)
"""How torch traces: sizes without a value; with one that decides as little as can be; as it does by default, where each
pattern of sizes that are 0 or 1 has a graph of its own."""


def _reason(error: Exception) -> str:
    """The first line of what torch says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
