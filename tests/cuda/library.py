"""A cuBLASLt that is not there: what runtime/cuda/cublaslt.py calls, with numpy on the memory of the emulated device.

It knows matrices as the library does, in columns, adds parts of a sum in the result's type where it is not told
otherwise, and refuses what the library would: a line shorter than its rows,
sides that do not fit, an address that is not aligned as the heuristic was told."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from egshape.runtime.cuda.cublaslt import FUNCTIONS
from tests.cuda.device import APART, Emulated

_P, _I, _L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64
_TYPES = {0: np.dtype(np.float32), 1: np.dtype(np.float64), 2: np.dtype(np.float16), 14: np.dtype(ml_dtypes.bfloat16)}
_SIGNATURES = {
    "cublasLtCreate": [_P],
    "cublasLtDestroy": [_P],
    "cublasLtMatmul": [*[_P] * 14, _L, _P],
    "cublasLtMatmulDescCreate": [_P, _I, _I],
    "cublasLtMatmulDescDestroy": [_P],
    "cublasLtMatmulDescSetAttribute": [_P, _I, _P, _L],
    "cublasLtMatrixLayoutCreate": [_P, _I, _L, _L, ctypes.c_int64],
    "cublasLtMatrixLayoutDestroy": [_P],
    "cublasLtMatrixLayoutSetAttribute": [_P, _I, _P, _L],
    "cublasLtMatmulPreferenceCreate": [_P],
    "cublasLtMatmulPreferenceDestroy": [_P],
    "cublasLtMatmulPreferenceSetAttribute": [_P, _I, _P, _L],
    "cublasLtMatmulAlgoGetHeuristic": [*[_P] * 7, _I, _P, _P],
}
_ANY_SCHEME, _IN_COMPUTE_TYPE = 7, 2
"""Ways to add the parts of a sum that is split: all, and the one in the type of sums."""
REFUSED, NOT_INITIALIZED = 15, 1
"""The status of what is not supported, and of a handle that is none."""


class Functions:
    """Functions of a C library that is not there: methods of this object, by their names, at addresses. ``calls``
    counts them, ``faults`` has what went wrong in them, ``objects`` what the library made, by handle."""

    def __init__(self, device: Emulated, signatures: Mapping[str, Sequence[Any]], fault: int) -> None:
        self.device, self._fault = device, fault
        self.calls: Counter[str] = Counter()
        self.faults: list[str] = []
        self.objects: dict[int, dict[Any, Any]] = {}
        self._keep: list[object] = []
        self._next = 64
        self.functions = {name: self._address(name, kinds) for name, kinds in signatures.items()}
        device.keep(self)

    def _address(self, name: str, kinds: Sequence[Any]) -> int:
        does: Callable[..., int | None] = getattr(self, f"_{name}")

        def called(*arguments: Any) -> int:
            self.calls[name] += 1
            try:
                return does(*[each or 0 for each in arguments]) or 0
            except Exception as error:
                self.faults.append(f"{name}: {error!r}")
                return self._fault

        made = ctypes.CFUNCTYPE(_I, *kinds)(called)
        self._keep.append(made)
        return ctypes.cast(made, _P).value or 0

    def _new(self, place: int, values: dict[Any, Any]) -> None:
        self._next += 8
        self.objects[self._next] = values
        ctypes.c_uint64.from_address(place).value = self._next


class Library(Functions):
    """``refuses``: the heuristic finds nothing; ``fails``: what products end with; ``starts``: whether it does;
    ``keeps``: takes nothing back."""

    def __init__(
        self, device: Emulated, refuses: bool = False, fails: int = 0, starts: bool = True, keeps: bool = False
    ) -> None:
        self.refuses, self.fails, self.starts, self.keeps = refuses, fails, starts, keeps
        self.costs = [1]
        """Of the algorithms that are proposed, in the order in which they are."""
        self.broken: set[int] = set()
        """Numbers of those that fail."""
        self.used: list[int] = []
        """Numbers of those that ran."""
        self.asked: set[int] = set()
        """How many were asked for."""
        super().__init__(device, {name: _SIGNATURES[name] for name in FUNCTIONS}, 14)

    def _cublasLtCreate(self, place: int) -> int:
        if self.starts:
            self._new(place, {})
        return 0 if self.starts else NOT_INITIALIZED

    def _cublasLtMatmulDescCreate(self, place: int, compute: int, scale: int) -> None:
        assert (compute, scale) in ((68, 0), (70, 1))
        self._new(place, {"scale": scale})

    def _cublasLtMatrixLayoutCreate(self, place: int, dtype: int, rows: int, columns: int, pitch: int) -> int:
        self._new(place, {"dtype": dtype, "rows": rows, "columns": columns, "pitch": pitch})
        return 0 if pitch >= rows else 7

    def _cublasLtMatmulPreferenceCreate(self, place: int) -> None:
        self._new(place, {})

    def _destroy(self, handle: int) -> int:
        if self.keeps:
            return NOT_INITIALIZED
        del self.objects[handle]
        return 0

    _cublasLtDestroy = _cublasLtMatmulDescDestroy = _cublasLtMatrixLayoutDestroy = _cublasLtMatmulPreferenceDestroy = (
        _destroy
    )

    def _set(self, handle: int, attribute: int, place: int, size: int) -> None:
        self.objects[handle][attribute] = int.from_bytes(ctypes.string_at(place, size), "little")

    _cublasLtMatmulDescSetAttribute = _cublasLtMatrixLayoutSetAttribute = _set
    _cublasLtMatmulPreferenceSetAttribute = _set

    def _cublasLtMatmulAlgoGetHeuristic(
        self, handle: int, desc: int, a: int, b: int, c: int, d: int, wish: int, most: int, results: int, count: int
    ) -> int:
        if self.refuses:
            return REFUSED
        self.asked.add(most)
        alignments = [self.objects[wish][number] for number in (5, 6, 7, 8)]
        schemes = self.objects[wish].get(3, _ANY_SCHEME)
        split = schemes & ~_IN_COMPUTE_TYPE
        for number, cost in enumerate(self.costs[:most]):
            words = (*alignments, split, number, cost)
            data = b"".join(each.to_bytes(8, "little") for each in words)
            ctypes.memmove(results + 96 * number, data + bytes(96 - len(data)), 96)
        ctypes.c_int32.from_address(count).value = min(most, len(self.costs))
        return 0

    def _cublasLtMatmul(self, *words: int) -> int:
        if self.fails:
            return self.fails
        handle, desc, alpha, a, a_of, b, b_of, beta, c, c_of, d, d_of, algorithm, *_ = words
        kind = ctypes.c_double if self.objects[desc]["scale"] else ctypes.c_float
        scales = kind.from_address(alpha).value, kind.from_address(beta).value
        assert handle in self.objects and c_of == d_of and scales in ((1, 0), (1, 1)) and (c == d or scales[1])
        for address, number in ((a, 0), (b, 1), (c, 2), (d, 3)):
            wanted = int.from_bytes(ctypes.string_at(algorithm + 8 * number, 8), "little")
            assert address % wanted == 0, "an address is not aligned as it was said to be"
        split, number, cost = np.frombuffer(ctypes.string_at(algorithm + 32, 24), np.int64).tolist()
        self.used.append(number)
        if number in self.broken:
            return REFUSED
        self.device.clock += cost
        about = {**self.objects[desc], "split": split}
        layouts = [dict(self.objects[each]) for each in (a_of, b_of, d_of)]

        def run() -> None:
            self._multiply(about, layouts, (a, b, d), c if scales[1] else None)

        if words[-1] in self.device.capturing:
            self.device.record(words[-1], run)
        else:
            run()
        return 0

    def _multiply(
        self, desc: dict[Any, int], layouts: list[dict[Any, int]], places: tuple[int, int, int], more: int | None
    ) -> None:
        one, two, out = (self._matrices(layout, place) for layout, place in zip(layouts, places, strict=True))
        inner = np.float64 if desc["scale"] else np.float32
        left = one.transpose(0, 2, 1) if desc.get(3) else one
        right = two.transpose(0, 2, 1) if desc.get(4) else two
        assert left.shape[2] == right.shape[1] and left.shape[1] == out.shape[1] and right.shape[2] == out.shape[2]
        if desc["split"]:
            half = left.shape[2] // 2
            parts = (left[:, :, :half], right[:, :half]), (left[:, :, half:], right[:, half:])
            one_half, other = (np.matmul(x.astype(inner), y.astype(inner)).astype(out.dtype) for x, y in parts)
            found = (one_half + other).astype(inner)
        else:
            found = np.matmul(left.astype(inner), right.astype(inner))
        if more is not None:
            found = found + self._matrices(layouts[2], more).astype(inner)
        if desc.get(7, 1) & 4:
            bias = self._memory(desc[8], left.shape[1] * out.itemsize).view(out.dtype)
            found = found + bias.astype(inner)[None, :, None]
        if desc.get(7, 1) & 32:
            found = found / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (found + 0.044715 * found**3)))
        out[...] = found.astype(out.dtype)

    def _matrices(self, layout: dict[Any, int], place: int) -> np.ndarray:
        """All matrices of a batch: (count, rows, columns), in columns."""
        dtype, count, step = _TYPES[layout["dtype"]], layout.get(5, 1), layout.get(6, 0)
        rows, columns, pitch = layout["rows"], layout["columns"], layout["pitch"]
        size = (count - 1) * step + (columns - 1) * pitch + rows
        flat = self._memory(place, size * dtype.itemsize).view(dtype)
        strides = tuple(each * dtype.itemsize for each in (step, 1, pitch))
        return np.lib.stride_tricks.as_strided(flat, (count, rows, columns), strides)

    def _memory(self, place: int, size: int) -> np.ndarray:
        assert self.device.holds(place, size), "a matrix lies outside of the device's memory"
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(place - APART))
