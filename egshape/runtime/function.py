"""A compiled graph as a callable on numpy arrays."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

_PLAIN = {
    "i1": np.dtype(np.bool_), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64), "ui8": np.dtype(np.uint8), "ui16": np.dtype(np.uint16), "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}
_WORDS = 24
_ARGTYPES = [ctypes.c_void_p] * 8
_LIBC = ctypes.CDLL(None)
_FREE = _LIBC.free
_FREE.argtypes = [ctypes.c_void_p]


def array_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of one of our dtype names; bf16 needs ml_dtypes."""
    if name == "bf16":
        import importlib

        found: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
        return found
    return _PLAIN[name]


class RunError(Exception):
    """A compiled graph cannot run on these inputs. code: input, check, memory, size. ``where`` names the op."""

    def __init__(self, message: str, code: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message, self.code, self.where = message, code, where


class _Context:
    """An arena and the tables of a call, used by one call at a time."""

    def __init__(self, outputs: int, sizes: int, constants: int) -> None:
        self.words = (ctypes.c_int64 * 3)()
        self.outputs = (ctypes.c_uint64 * (outputs or 1))()
        self.rooms = (ctypes.c_int64 * (outputs or 1))()
        self.shapes = (ctypes.c_int64 * (sizes or 1))()
        self.error = (ctypes.c_int64 * _WORDS)()
        self.first = ctypes.addressof(self.words)
        self.rest = (constants, ctypes.addressof(self.outputs), ctypes.addressof(self.rooms),
                     ctypes.addressof(self.shapes), ctypes.addressof(self.error))

    def __del__(self) -> None:
        if self.words[0]:
            _FREE(self.words[0])


class _Memory:
    """Memory of an output; given back to its function when the last array on it is gone."""

    __slots__ = ("__array_interface__", "address", "capacity", "pool")

    def __init__(self, address: int, capacity: int, pool: list[tuple[int, int]], interface: dict[str, Any]) -> None:
        self.address, self.capacity, self.pool = address, capacity, pool
        self.__array_interface__ = interface

    def __del__(self) -> None:
        if len(self.pool) < 2:
            self.pool.append((self.address, self.capacity))
        else:
            _FREE(self.address)


class CompiledFunction:
    """Calls native code on arrays in input order; gives one array, or a tuple in output order.

    Contiguous inputs are read where they lie. Safe to call from several threads at once: each call has an
    arena of its own, which later calls reuse."""

    def __init__(self, manifest: Mapping[str, Any], address: int, constants: Sequence[np.ndarray], keep: object,
                 failure: Callable[[str, str, str], Exception] = RunError, save: Any = None) -> None:
        self.manifest = manifest
        self._entry = ctypes.CFUNCTYPE(ctypes.c_int32, *_ARGTYPES)(address)
        self._keep = keep
        self._failure = failure
        self._save = save
        self._constants = [np.ascontiguousarray(each) for each in constants]
        self._constant_table = np.array([each.ctypes.data for each in self._constants] or [0], np.uint64)
        self._inputs = [(p["name"], array_dtype(p["dtype"]), len(p["shape"])) for p in manifest["inputs"]]
        self._outputs = [(p["name"], array_dtype(p["dtype"]), len(p["shape"])) for p in manifest["outputs"]]
        self._axes = sum(rank for _, _, rank in self._outputs)
        self._contexts: list[_Context] = []
        self._pools: list[list[tuple[int, int]]] = [[] for _ in self._outputs]

    def save(self, path: Any) -> None:
        """Write an artifact that ``egshape.runtime.load`` reads. Raises RunError if this one cannot be saved."""
        if self._save is None:
            raise self._failure("this function was loaded, not compiled: copy its file", "input", "")
        self._save(path)

    def __call__(self, *inputs: Any, out: Sequence[np.ndarray | None] | None = None) -> Any:
        arrays = self._arrays(inputs)
        pointers = struct.pack(f"{len(arrays)}Q", *[array.__array_interface__["data"][0] for array in arrays])
        shape = [size for array in arrays for size in array.shape]
        sizes = struct.pack(f"{len(shape)}q", *shape)
        given = self._given(out, arrays)
        try:
            context = self._contexts.pop()
        except IndexError:
            context = _Context(len(self._outputs), self._axes, self._constant_table.ctypes.data)
        for k, (address, room) in enumerate(given):
            context.outputs[k], context.rooms[k] = address, room
        code = self._entry(context.first, pointers, sizes, *context.rest)
        results = self._results(out, given, context, code)
        error = self._error(code, context.error) if code else None
        self._contexts.append(context)
        if error is not None:
            raise error
        return results[0] if len(results) == 1 else tuple(results)

    def _arrays(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        if len(inputs) != len(self._inputs):
            raise self._failure(f"takes {len(self._inputs)} inputs, got {len(inputs)}", "input", "")
        arrays = []
        for item, (name, dtype, rank) in zip(inputs, self._inputs, strict=True):
            array = item if isinstance(item, np.ndarray) else _as_array(item)
            if array.dtype != dtype:
                raise self._failure(f"input {name!r} wants elements of {dtype}, got {array.dtype}", "input", "")
            if array.ndim != rank:
                raise self._failure(f"input {name!r} wants rank {rank}, got an array of rank {array.ndim}", "input", "")
            if not (array.flags.c_contiguous and array.flags.aligned):
                array = np.array(array, order="C")
            arrays.append(array)
        return arrays

    def _given(self, out: Sequence[np.ndarray | None] | None, inputs: Sequence[np.ndarray]) -> list[tuple[int, int]]:
        """Address and capacity of each output's memory: the caller's, else what an earlier call left, else none."""
        if out is None:
            return [pool.pop() if pool else (0, 0) for pool in self._pools]
        if len(out) != len(self._outputs):
            raise self._failure(f"out wants {len(self._outputs)} arrays, got {len(out)}", "input", "")
        found = []
        for array, (name, dtype, rank) in zip(out, self._outputs, strict=True):
            if array is None:
                found.append((0, 0))
                continue
            if array.dtype != dtype or array.ndim != rank or not (array.flags.c_contiguous and array.flags.writeable):
                raise self._failure(f"out for {name!r} must be a writable, contiguous array of {dtype}, rank {rank}",
                                    "input", "")
            if any(np.may_share_memory(array, other) for other in (*inputs, *(o for o in out if o is not array
                                                                              and o is not None))):
                raise self._failure(f"out for {name!r} overlaps another array of the call", "input", "")
            found.append((array.ctypes.data, array.nbytes))
        return found

    def _results(self, out: Sequence[np.ndarray | None] | None, given: Sequence[tuple[int, int]], context: _Context,
                 code: int) -> list[np.ndarray]:
        """The outputs as arrays; their memory has an owner even if the call failed."""
        results: list[np.ndarray] = []
        at, wrong = 0, ""
        for k, (name, dtype, rank) in enumerate(self._outputs):
            shape = tuple(context.shapes[at:at + rank])
            at += rank
            address, old = context.outputs[k], given[k][0]
            mine = None if out is None else out[k]
            if mine is not None:
                if address != old:
                    _FREE(address)
                if not code and (address != old or mine.shape != shape):
                    wrong = f"out for {name!r} has the shape {mine.shape}, the result {shape}"
                results.append(mine)
                continue
            if old and address != old:
                _FREE(old)
            if address:
                made = _wrapped(address, context.rooms[k], self._pools[k], dtype, (0,) * rank if code else shape)
                results.append(made)
        if wrong:
            self._contexts.append(context)
            raise self._failure(wrong, "input", "")
        return results

    def _error(self, code: int, words: Any) -> Exception:
        failure = self._failure
        if code == 1:
            check = self.manifest["checks"][words[0]]
            message = check["message"]
            for k, kind in enumerate(check["args"]):
                message = message.replace(f"{{{k}}}", _shown(words[k + 1] if k + 1 < _WORDS else 0, kind))
            return failure(message, "check", check["where"])
        if code == 2:
            port, axis = self.manifest["inputs"][words[0]], words[1]
            wanted = port["shape"][axis]
            shown = wanted if wanted == str(words[2]) else f"{wanted} = {words[2]}"
            return failure(f"axis {axis} of input {port['name']!r} has size {words[3]}, its type wants {shown}",
                           "input", "")
        if code == 5:
            size = self.manifest["sizes"][words[0]]
            message = f"the size {size['name']} would be {words[1]}, which is no size"
            return failure(message, "invalid-size", size["where"])
        return failure("there is not enough memory" if code == 3 else "a buffer would be larger than 2**46 bytes",
                       "memory" if code == 3 else "size", "")


def _as_array(item: Any) -> np.ndarray:
    """Anything with DLPack or an array interface, without a copy where numpy can."""
    if hasattr(item, "__dlpack__") and not hasattr(item, "__array_interface__"):
        return np.from_dlpack(item)
    return np.asarray(item)


def _wrapped(address: int, capacity: int, pool: list[tuple[int, int]], dtype: np.dtype[Any],
             shape: tuple[int, ...]) -> np.ndarray:
    plain = dtype if dtype.kind != "V" else np.dtype(np.uint16)
    interface = {"data": (address, False), "shape": shape, "typestr": plain.str, "version": 3}
    array = np.asarray(_Memory(address, capacity, pool, interface))
    return array if plain is dtype else array.view(dtype)


def _shown(word: int, kind: str) -> str:
    if kind == "f64":
        return str(struct.unpack("d", struct.pack("q", word))[0])
    if kind == "i1":
        return str(bool(word))
    return str(word % 2**64 if kind == "ui64" else word)
