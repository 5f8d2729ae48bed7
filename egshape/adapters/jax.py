"""Compiled functions inside of ``jax.jit``.

On a CPU XLA calls the native entry itself, through its foreign function interface, on the memory of its own buffers.
Where no C compiler makes the handler, on other devices, and for what is interpreted, XLA calls Python
(``jax.pure_callback``)."""

from __future__ import annotations

import ctypes
import functools
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from egshape.adapters.jax_handler import ATTRIBUTE, NAME, library
from egshape.compiling import Compiled, Function
from egshape.errors import EgshapeError, InvalidInput, MissingDependency
from egshape.hints import install
from egshape.runtime.abi.call import ERROR_WORDS, WORDS
from egshape.runtime.core.function import CompiledFunction
from egshape.runtime.cuda.function import CudaFunction

try:
    import jax
    import jax.numpy as jnp
except ImportError:  # `from egshape import *` works without
    jax = None

Through = Literal["ffi", "callback"]
_EXPLAIN = ctypes.CFUNCTYPE(
    None, ctypes.c_int64, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_char), ctypes.c_int64
)
_PROGRAMS: dict[int, CompiledFunction] = {}
"""Functions that XLA may call, by the numbers that its programs hold; XLA does not say when one ends, so they stay."""


def jax_call(function: Function, through: Through | None = None) -> Callable[..., Any]:
    """A function on JAX arrays, for use inside of ``jax.jit`` and outside: inputs in order or by name, one array or a
    tuple, as of ``function``. The shapes of results follow from those of the inputs while JAX traces.

    through: ``"ffi"`` or ``"callback"``; by default the first where it can be. ``jax.vmap`` calls it for one example
    after the other. A check that fails is an error of XLA with the check's message.

    Raises MissingDependency without jax, InvalidInput for a function that JAX cannot call; and while tracing for inputs
    of a wrong dtype, rank or size, results whose shape depends on data, a derivative.

    Examples:
        >>> import jax
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> fn = egshape.compile(net.graph(y=net.relu(net.input("x", ["n", 4]))))
        >>> jax.jit(egshape.jax_call(fn))(jax.numpy.ones((3, 4))).shape
        (3, 4)
    """
    if jax is None:
        raise MissingDependency("jax is not installed", hint=install("stablehlo"))
    if not isinstance(function, CompiledFunction | Compiled):
        raise InvalidInput(
            f"jax_call takes a compiled function, got a {type(function).__name__}", hint="egshape.compile makes one"
        )
    call = _differentiable(_called(function, through))

    def on_jax(*inputs: Any, **named: Any) -> Any:
        return call(*_arrays(function, function.ordered(inputs, named)))

    return on_jax


def _called(function: Function, through: Through | None) -> Callable[..., Any]:
    """The function on arrays in order."""
    number = None
    if through != "callback" and isinstance(function, CompiledFunction) and _is_native(function):
        try:
            number = _registered(function)
        except EgshapeError:
            if through:
                raise
    elif through == "ffi":
        raise InvalidInput(
            "XLA calls functions of target='llvm' itself, and this one is not, or has elements that XLA "
            "keeps otherwise",
            hint="leave out through='ffi'",
        )

    def run(*arrays: Any) -> Any:
        results = _results(function, arrays)

        def python(*each: Any) -> Any:
            return jax.pure_callback(functools.partial(_in_python, function), results, *each, vmap_method="sequential")

        def native(*each: Any) -> Any:
            attributes = {ATTRIBUTE: np.int64(number or 0)}
            return tuple(jax.ffi.ffi_call(NAME, results, vmap_method="sequential")(*each, **attributes))

        found = python(*arrays) if number is None else jax.lax.platform_dependent(*arrays, cpu=native, default=python)
        return found[0] if len(results) == 1 else tuple(found)

    return run


def _differentiable(run: Callable[..., Any]) -> Callable[..., Any]:
    """The function, jitted, which says that it has no derivative."""

    def refuse(primals: Any, tangents: Any) -> Any:
        raise EgshapeError(
            "a compiled function has no derivative",
            code="unsupported",
            hint="compile the gradient too, or give its inputs through jax.lax.stop_gradient",
        )

    wrapped: Any = jax.custom_jvp(run)
    wrapped.defjvp(refuse)
    found: Callable[..., Any] = jax.jit(wrapped)
    return found


def _arrays(function: Function, inputs: Sequence[Any]) -> list[Any]:
    """The inputs as JAX's arrays, none of another dtype than it has now. Raises what is wrong with one."""
    found = []
    for item, (name, dtype, rank) in zip(inputs, function.inputs, strict=True):
        array = item if hasattr(item, "aval") else jnp.asarray(item)
        given = getattr(item, "dtype", array.dtype)
        if given != dtype or array.dtype != dtype:
            raise InvalidInput(f"input {name!r} wants elements of {dtype}, got {given}", hint=_wide(dtype))
        if array.ndim != rank >= 0:
            raise InvalidInput(f"input {name!r} wants rank {rank}, got an array of rank {array.ndim}")
        found.append(array)
    return found


def _results(function: Function, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What the results are. Raises InvalidInput for what JAX cannot hold."""
    for array, (name, _, _) in zip(arrays, function.inputs, strict=True):
        if not all(isinstance(size, int) for size in array.shape):
            raise InvalidInput(
                f"the sizes {array.shape} of input {name!r} are not numbers while JAX traces",
                hint="native code is no part of a jax.export with symbolic sizes",
            )
    for name, dtype, _ in function.outputs:
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise InvalidInput(f"the result {name!r} has elements of {dtype}, which JAX cuts short", hint=_wide(dtype))
    shapes = function.result_shapes(*(array.shape for array in arrays))
    return tuple(
        jax.ShapeDtypeStruct(shape, dtype) for shape, (_, dtype, _) in zip(shapes, function.outputs, strict=True)
    )


def _wide(dtype: np.dtype[Any]) -> str:
    return "" if jax.dtypes.canonicalize_dtype(dtype) == dtype else "set jax_enable_x64"


def _in_python(function: Function, *arrays: Any) -> tuple[np.ndarray, ...]:
    found = function(*map(np.asarray, arrays))
    return found if isinstance(found, tuple) else (found,)


# -- native ----------------------------------------------------------------------------------------------------------


def _is_native(function: CompiledFunction) -> bool:
    """Whether XLA's buffers are what the function reads and writes: elements of whole bytes, on the host."""
    narrow = any(
        dtype.name.startswith(("int2", "int4", "uint2", "uint4", "float4", "float6"))
        for _, dtype, _ in (*function.inputs, *function.outputs)
    )
    return not isinstance(function, CudaFunction) and function.manifest["zones"] is None and not narrow


@functools.cache
def _registered(function: CompiledFunction) -> int:
    """The number of a function whose entry XLA may call from now on. Raises EgshapeError where no handler can be made.

    Numbers are drawn: a program that XLA kept from another process asks for one that is not there, and is refused."""
    made, explain = _handler(), _explain()
    number = secrets.randbits(62)
    fixed = function.fixed()
    words = (ctypes.c_int64 * len(WORDS))(*(fixed.get(word, 0) for word in WORDS))
    counts = (ctypes.c_int64 * 4)(
        len(function.inputs),
        len(function.outputs),
        sum(rank for _, _, rank in function.inputs),
        sum(rank for _, _, rank in function.outputs),
    )
    _PROGRAMS[number] = function
    if made.egshape_register(ctypes.c_int64(number), ctypes.c_void_p(function.entry), explain, counts, words):
        raise MemoryError("no memory for the tables of a function")
    return number


@functools.cache
def _handler() -> ctypes.CDLL:
    made = library(jax.ffi.include_dir())
    jax.ffi.register_ffi_target(NAME, jax.ffi.pycapsule(getattr(made, NAME)), platform="cpu")
    return made


@functools.cache
def _explain() -> Any:
    """What the handler calls, in the thread of the call, for the message of an error."""

    def explain(number: int, code: int, words: Any, text: Any, room: int) -> None:
        function = _PROGRAMS[number]
        error = function.failed(code, list(words[:ERROR_WORDS]))
        data = str(error).encode()[: room - 1]
        ctypes.memmove(text, data + b"\0", len(data) + 1)

    return _EXPLAIN(explain)
