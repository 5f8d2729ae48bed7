"""An oracle for compiled graphs that knows nothing of the back end: the interpreter, in the graph's own precision and
in f64, and memory whose neighbours cannot be touched."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.tools import equal
from benchmarks.tools.equal import double
from egshape.adapters.native import compile_function
from egshape.errors import EgshapeError
from egshape.ir.graph import Block, Graph, Op, SymbolDef, Value
from egshape.ir.types import TensorType, is_float
from egshape.lower.llvm import tasks
from egshape.runtime import CompiledFunction
from tests.fuzz.differential import is_fit, wanted
from tests.lower.checking import call

Array = np.ndarray
BITS = frozenset(("bitcast_convert", "next_after", "custom_call"))
"""Ops whose meaning is in the bits of a precision."""


# -- precision -----------------------------------------------------------------------------------------------------


def widened(graph: Graph) -> Graph | None:
    """The same graph in f64; None where that would mean something else."""
    if any(op.name in BITS for op in graph.body.walk()):
        return None
    values: dict[Value, Value] = {}

    def value(each: Value) -> Value:
        if each not in values:
            dtype = "f64" if is_float(each.type.dtype) else each.type.dtype
            values[each] = Value(each.name, TensorType(dtype, each.type.shape))
        return values[each]

    def attribute(item: Any) -> Any:
        if isinstance(item, np.ndarray) and (item.dtype.kind == "f" or item.dtype.name == "bfloat16"):
            return item.astype(np.float64)
        return "f64" if isinstance(item, str) and item in ("f16", "bf16", "f32") else item

    def op(each: Op) -> Op:
        attrs = {key: attribute(item) for key, item in each.attrs.items()}
        return Op(
            each.name,
            tuple(map(value, each.operands)),
            attrs,
            tuple(map(value, each.results)),
            tuple(map(block, each.regions)),
            each.location,
            each.requires,
        )

    def block(each: Block) -> Block:
        symbols = tuple(SymbolDef(s.name, value(s.value), s.axis, s.element, s.offset) for s in each.symbols)
        return Block(tuple(map(value, each.args)), tuple(map(op, each.ops)), tuple(map(value, each.results)), symbols)

    return Graph(graph.name, block(graph.body), graph.output_names, graph.facts, graph.metadata)


@dataclass(frozen=True)
class Expected:
    """What a graph gives at some inputs: in its own precision, and in f64 where that could be had."""

    narrow: tuple[Array, ...]
    wide: tuple[Array, ...] | None
    error: EgshapeError | None = None


def expected(graph: Graph, wide: Graph | None, arrays: Sequence[Array]) -> Expected:
    """Interpret a graph, and its widened form."""
    found = wanted(graph, [array.copy() for array in arrays])
    if found.error is not None or wide is None:
        return Expected(found.results, None, found.error)
    other = wanted(wide, [double(array) for array in arrays])
    same = other.error is None and [a.shape for a in other.results] == [a.shape for a in found.results]
    return Expected(found.results, other.results if same else None)


def fault(found: Sequence[Array], wanted: Expected, relative: float | None = None) -> str:
    """What is wrong with the results, "" if nothing is (``benchmarks.tools.equal``); complex ones are the
    references' own."""
    if any(array.dtype.kind == "c" for array in wanted.narrow):
        same = all(
            one.shape == two.shape
            and np.array_equal(one.real, two.real, equal_nan=True)
            and np.array_equal(one.imag, two.imag, equal_nan=True)
            for one, two in zip(found, wanted.narrow, strict=True)
        )
        return "" if same else "complex results are not those of the interpreter"
    return equal.fault(found, wanted.narrow, wanted.wide, relative)


# -- memory --------------------------------------------------------------------------------------------------------

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
FILL = 0xA5


class Fenced:
    """Memory between two pages that cannot be touched; an access outside ends the process.

    at_end: the array ends where the page after it starts, else it starts where the page before it ends; the bytes
    on its other side, up to the page, are held against a pattern by ``intact``."""

    def __init__(self, nbytes: int, *, at_end: bool) -> None:
        page = mmap.PAGESIZE
        room = -(-nbytes // page) * page
        self._map = mmap.mmap(-1, room + 2 * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._inner, self._room = base + page, room
        for address in (base, base + page + room):
            self._protect(address, page, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0)
        self._bytes = np.frombuffer(self._map, np.uint8, room, page)
        self._bytes[:] = FILL
        start = room - nbytes if at_end else 0
        self._mine = slice(start, start + nbytes)

    def _protect(self, address: int, size: int, rights: int) -> None:
        if size and _LIBC.mprotect(address, size, rights):
            raise OSError(ctypes.get_errno(), "mprotect failed")

    def array(self, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
        """The memory as an array."""
        return self._bytes[self._mine].view(dtype).reshape(tuple(shape))

    def freeze(self) -> None:
        """Make it read-only: a write ends the process."""
        self._protect(self._inner, self._room, mmap.PROT_READ)

    def intact(self) -> bool:
        """True if no byte beside the array has changed."""
        others = (self._bytes[: self._mine.start], self._bytes[self._mine.stop :])
        return all(bool((part == FILL).all()) for part in others)


def fenced(array: Array, *, at_end: bool) -> tuple[Array, Fenced]:
    """A read-only copy of an array in fenced memory."""
    memory = Fenced(array.nbytes, at_end=at_end)
    copy = memory.array(array.dtype, array.shape)
    copy[...] = array
    memory.freeze()
    return copy, memory


def compiled_in_pieces(graph: Graph, threads: int = 3) -> CompiledFunction:
    """The graph as native code in which every kernel that can be split between threads is, however small, and every
    buffer, the ones inside of the arena too, lies between red zones that are looked at after each call."""
    zones = mock.patch.dict(os.environ, {"EGSHAPE_REDZONES": "1"})
    with mock.patch.object(tasks, "THRESHOLD", -1.0), zones:
        return compile_function(graph, threads)


def call_fenced(
    function: CompiledFunction, arrays: Sequence[Array], like: Sequence[Array], *, at_end: bool
) -> tuple[Array, ...]:
    """Call with inputs and outputs in fenced memory. Raises AssertionError if a byte beside an output changed."""
    inputs = [fenced(np.ascontiguousarray(array).reshape(array.shape), at_end=at_end) for array in arrays]
    outputs = [Fenced(array.nbytes, at_end=at_end) for array in like]
    out = [memory.array(array.dtype, array.shape) for memory, array in zip(outputs, like, strict=True)]
    found = function(*(array for array, _ in inputs), out=out)
    results = found if isinstance(found, tuple) else (found,)
    for number, (memory, array) in enumerate(zip(outputs, like, strict=True)):
        assert memory.intact(), f"bytes beside out{number} {array.dtype}{list(array.shape)} were written"
    return tuple(np.array(array) for array in results)


def verdict(
    function: CompiledFunction,
    graph: Graph,
    wide: Graph | None,
    arrays: Sequence[Array],
    *,
    fences: bool = True,
    relative: float | None = None,
) -> str:
    """Run a compiled graph on arrays and hold it against the oracle: what is wrong, or "".

    With fences it runs twice more, its arrays against the page after them, and against the page before."""
    want = expected(graph, wide, arrays)
    if want.error is not None:
        try:
            call(function, arrays)
        except EgshapeError as error:
            return "" if error.code not in ("internal", "memory") else f"rejected by {error.code}: {error}"
        return f"runs, though the interpreter rejects it: {want.error}"
    kept = [array.copy() for array in arrays]
    try:
        results = call(function, arrays)
    except EgshapeError as error:
        # Shape code that would wrap may be rejected: types rely on it.
        return "" if is_fit(error) else f"runs in the interpreter, but raises {error.code}: {error}"
    found = fault(results, want, relative)
    if found:
        return found
    if any(
        not np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))
        for a, b in zip(arrays, kept, strict=True)
        if prod(a.shape)
    ):
        return "an input was written"
    for at_end in (True, False) if fences else ():
        found = fault(call_fenced(function, arrays, want.narrow, at_end=at_end), want, relative)
        if found:
            return f"between fences ({'end' if at_end else 'start'}): {found}"
    return ""
