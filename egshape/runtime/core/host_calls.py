"""Calls from native code back into Python functions."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from egshape.runtime.abi.call import DONE

HostFunction = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class HostCalls:
    """The functions that a program calls, and what comes back from them.

    Native code calls twice: for the sizes of the results, which it needs before it has memory for them, and for the
    results. A function gets read-only arrays that are valid while it runs; what it raises is kept for the caller."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        functions: Sequence[HostFunction],
        dtype_of: Callable[[str], np.dtype[Any]],
        failure: Callable[[str, str, str], Exception],
    ) -> None:
        self._rows = [
            (
                row["target"],
                row["where"],
                [(dtype_of(p["dtype"]), len(p["shape"])) for p in row["inputs"]],
                [(dtype_of(p["dtype"]), len(p["shape"])) for p in row["outputs"]],
            )
            for row in rows
        ]
        self._functions = tuple(functions)
        self._failure = failure
        self._results: dict[int, list[np.ndarray]] = {}
        self._raised: dict[int, BaseException] = {}
        self._callback = _CALLBACK(self._called)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def raised(self, thread: int) -> BaseException | None:
        """What a function raised in a thread, once."""
        return self._raised.pop(thread, None)

    def _called(self, number: int, phase: int, table: int) -> int:
        try:
            if phase == 0:
                self._results.pop(table, None)  # of a call that ended before it took them
                self._results[table] = self._run(number, table)
            else:
                self._deliver(number, table)
        except BaseException as error:
            self._results.pop(table, None)
            self._raised[threading.get_ident()] = error
            return 0
        return DONE

    def _run(self, number: int, table: int) -> list[np.ndarray]:
        """Call the function, and write the sizes of its results behind those of its inputs."""
        target, where, inputs, outputs = self._rows[number]
        axes = sum(rank for _, rank in inputs)
        words = (ctypes.c_int64 * (len(inputs) + axes + sum(rank for _, rank in outputs))).from_address(table)
        arrays, at = [], len(inputs)
        for k, (dtype, rank) in enumerate(inputs):
            shape = tuple(words[at : at + rank])
            at += rank
            arrays.append(_view(words[k], shape, dtype))
        results = [np.asarray(each) for each in self._functions[number](arrays)]
        if len(results) != len(outputs):
            raise self._failure(f"{target} gave {len(results)} results, not {len(outputs)}", "host-call", where)
        for k, (result, (dtype, rank)) in enumerate(zip(results, outputs, strict=True)):
            if result.dtype != dtype or result.ndim != rank:
                raise self._failure(
                    f"result {k} of {target} is {result.dtype} of rank {result.ndim}, not {dtype} of rank {rank}",
                    "host-call",
                    where,
                )
            words[at : at + rank] = list(result.shape)
            at += rank
        return results

    def _deliver(self, number: int, table: int) -> None:
        """Copy the results to where the program wants them."""
        _, _, inputs, outputs = self._rows[number]
        before = len(inputs) + sum(rank for _, rank in (*inputs, *outputs))
        words = (ctypes.c_int64 * (before + len(outputs))).from_address(table)
        for result, address in zip(self._results.pop(table), words[before:], strict=True):
            if result.size:
                whole = np.ascontiguousarray(result)
                ctypes.memmove(address, whole.ctypes.data, whole.nbytes)


def _view(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """A read-only array on memory that somebody else keeps."""
    count = dtype.itemsize
    for size in shape:
        count *= size
    memory = memoryview((ctypes.c_uint8 * count).from_address(address)) if count else None
    array: np.ndarray = np.ndarray(shape, dtype, memory)
    array.flags.writeable = False
    return array
