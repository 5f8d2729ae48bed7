"""cuBLASLt, where it is installed: what a program's native code looks products up in, and how a row of it is made.

Memory is row-major and the library's matrices are column-major: the transposed product is computed, with left and
right changed over. f32 is computed in f32, never in TF32; f16 and bf16 are summed in f32."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from egshape.runtime.abi.call import DONE
from egshape.runtime.abi.products import BIAS, BIAS_POINTER, GELU, KEY, KINDS, POINTERS, ROW, STATE
from egshape.runtime.cuda.libraries import functions_of

NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
ROWS = 1024
WORKSPACE = 32 << 20
FUNCTIONS = (
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtMatmul",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatrixLayoutSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatmulAlgoGetHeuristic",
)

# Numbers of the library's interface (cublasLt.h, library_types.h).
_TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}
_COMPUTE_F32, _COMPUTE_F64 = 68, 70
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE = 3, 4, 7
_EPILOGUES = {BIAS: 4, GELU: 32, BIAS + GELU: 36}
_COUNT, _STEP = 5, 6
_WORKSPACE_BYTES, _REDUCTIONS, _ALIGNMENT_A = 1, 3, 5
_IN_COMPUTE_TYPE = 2
"""The reduction scheme that adds parts of a sum in the type that sums have, not in the result's."""
_RESULT_BYTES, _ALGORITHM_BYTES, _STATE_AT = 96, 64, 72
_LARGEST_ALIGNMENT = 256


def addresses() -> Mapping[str, int] | None:
    """The library's functions; None where it is not installed."""
    return functions_of(NAMES, FUNCTIONS)


Run = Callable[[np.ndarray], int]
Choose = Callable[[bytes, Sequence[np.ndarray], int, Run | None, int], np.ndarray]
"""``Algorithms.best`` (algorithms.py): a key, algorithms, the work of a product, what computes it, a stream."""


class Products:
    """The state of a stream's products. ``functions``: addresses of the library's functions; ``workspace``: memory of
    the device that only this stream uses; ``choose``: which of ``wanted`` algorithms is used."""

    def __init__(
        self,
        functions: Mapping[str, int],
        workspace: int,
        choose: Choose,
        wanted: int,
        workspace_bytes: int = WORKSPACE,
    ) -> None:
        self._functions, self._best, self._wanted = functions, choose, wanted
        self._calls: dict[str, Callable[..., int]] = {}
        self.rows = np.zeros((ROWS, ROW), np.int64)
        self._make = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(self._filled)
        self.workspace, self._workspace_bytes = workspace, workspace_bytes
        self.state = np.zeros(len(STATE), np.int64)
        self._refused: dict[str, None] = {}
        self._handle = self._made("cublasLtCreate")
        values = {
            "handle": self._handle,
            "matmul": functions["cublasLtMatmul"],
            "set": functions["cublasLtMatmulDescSetAttribute"],
            "make": ctypes.cast(self._make, ctypes.c_void_p).value or 0,
            "workspace": workspace,
            "workspace_bytes": workspace_bytes,
            "mask": ROWS - 1,
            "rows": self.rows.ctypes.data,
        }
        for name, value in values.items():
            self.state[STATE.index(name)] = value

    @property
    def address(self) -> int:
        """What the table's word ``gemm`` is."""
        return int(self.state.ctypes.data)

    def _call(self, name: str, *arguments: Any) -> None:
        if name not in self._calls:
            self._calls[name] = ctypes.CFUNCTYPE(ctypes.c_int32, *(type(each) for each in arguments))(
                self._functions[name]
            )
        code = self._calls[name](*arguments)
        if code:
            raise OSError(f"{name} fails with status {code}")

    def _made(self, name: str, *arguments: Any) -> int:
        place = ctypes.c_uint64(0)
        self._call(name, ctypes.c_void_p(ctypes.addressof(place)), *arguments)
        return place.value

    def _set(self, name: str, handle: int, attribute: int, value: Any) -> None:
        self._call(
            name,
            ctypes.c_void_p(handle),
            ctypes.c_int32(attribute),
            ctypes.c_void_p(ctypes.addressof(value)),
            ctypes.c_size_t(ctypes.sizeof(value)),
        )

    def _filled(self, address: int, words: int, stream: int | None) -> int:
        """Make what stands in a row behind its key: what was there before goes, what the library cannot is null.
        ``words``: the key, and where the matrices of this call lie."""
        row = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)), (ROW,))
        made = row[len(KEY) :]
        self._dropped(made)
        made[:] = 0
        key = dict(zip(KEY, map(int, row), strict=False))
        try:
            self._fill(key, made)
            found = self._proposed(key, made)
            places = np.ctypeslib.as_array(
                ctypes.cast(words, ctypes.POINTER(ctypes.c_int64)), (len(KEY) + len(POINTERS),)
            )
            work = 2 * key["count"] * key["m"] * key["n"] * key["k"]
            several = self._wanted > 1
            run = self._again(key, made, list(map(int, places[len(KEY) :])), stream or 0) if several else None
            made[4:] = self._best(row[: len(KEY)].tobytes(), found, work, run, stream or 0)
        except OSError as error:
            self._dropped(made)
            made[:] = 0
            inner, outer = KINDS[key["kind"]]
            said = f"{inner} to {outer}, {key['count']} x {key['m']} x {key['n']} x {key['k']}: {error}"
            self._refused[said] = None
        return DONE

    @property
    def faults(self) -> tuple[str, ...]:
        """Products that the program's own kernels computed, as the library did not."""
        failed, status = (int(self.state[STATE.index(name)]) for name in ("failed", "status"))
        return (*self._refused, *([f"{failed} calls failed, the last one with status {status}"] if failed else []))

    def _dropped(self, made: np.ndarray) -> None:
        for handle, kind in zip(made, ("MatmulDesc", "MatrixLayout", "MatrixLayout", "MatrixLayout"), strict=False):
            if handle:
                with suppress(OSError):
                    self._call(f"cublasLt{kind}Destroy", ctypes.c_void_p(int(handle)))

    def _fill(self, key: Mapping[str, int], made: np.ndarray) -> None:
        inner, outer = KINDS[key["kind"]]
        double = inner == "f64"
        made[0] = self._made(
            "cublasLtMatmulDescCreate",
            ctypes.c_int32(_COMPUTE_F64 if double else _COMPUTE_F32),
            ctypes.c_int32(_TYPES["f64" if double else "f32"]),
        )
        # In columns, a row-major (k, n) is its transpose as it lies: only a turned side is transposed.
        for attribute, side in ((_TRANSPOSE_A, "right"), (_TRANSPOSE_B, "left")):
            turned = key[f"{side}_turned"] if side == "left" else 1 - key[f"{side}_turned"]
            self._set("cublasLtMatmulDescSetAttribute", int(made[0]), attribute, ctypes.c_int32(turned))
        if key["extras"]:
            epilogue = ctypes.c_uint32(_EPILOGUES[key["extras"]])
            self._set("cublasLtMatmulDescSetAttribute", int(made[0]), _EPILOGUE, epilogue)
        if key["extras"] & BIAS:
            # Algorithms are chosen by how the bias is aligned; each call sets where it really is.
            place = ctypes.c_uint64(_LARGEST_ALIGNMENT + (key["alignment"] >> 24 & 255))
            self._set("cublasLtMatmulDescSetAttribute", int(made[0]), BIAS_POINTER, place)
        m, n, k = key["m"], key["n"], key["k"]
        left = (m, k) if key["left_turned"] else (k, m)
        right = (n, k) if key["right_turned"] else (k, n)
        made[1] = self._layout(inner, *left, key["left_pitch"], key["count"], key["left_step"])
        made[2] = self._layout(inner, *right, key["right_pitch"], key["count"], key["right_step"])
        made[3] = self._layout(outer, n, m, n, key["count"], m * n)

    def _layout(self, dtype: str, rows: int, columns: int, pitch: int, count: int, step: int) -> int:
        made = self._made(
            "cublasLtMatrixLayoutCreate",
            ctypes.c_int32(_TYPES[dtype]),
            ctypes.c_uint64(rows),
            ctypes.c_uint64(columns),
            ctypes.c_int64(max(pitch, rows)),
        )
        if count > 1:
            self._set("cublasLtMatrixLayoutSetAttribute", made, _COUNT, ctypes.c_int32(count))
            self._set("cublasLtMatrixLayoutSetAttribute", made, _STEP, ctypes.c_int64(step))
        return made

    def _proposed(self, key: Mapping[str, int], made: np.ndarray) -> list[np.ndarray]:
        """Algorithms, those first that the library takes for the fastest. Raises OSError where it has none."""
        wish = self._made("cublasLtMatmulPreferenceCreate")
        try:
            name = "cublasLtMatmulPreferenceSetAttribute"
            self._set(name, wish, _WORKSPACE_BYTES, ctypes.c_uint64(self._workspace_bytes))
            self._set(name, wish, _REDUCTIONS, ctypes.c_uint32(_IN_COMPUTE_TYPE))
            places = [(key["alignment"] >> 8 * number) & 255 for number in (0, 1, 2, 4)]
            left, right, out, more = (place & -place or _LARGEST_ALIGNMENT for place in places)
            for number, alignment in enumerate((right, left, min(more, out), out)):
                self._set(name, wish, _ALIGNMENT_A + number, ctypes.c_uint32(alignment))
            results, count = ctypes.create_string_buffer(self._wanted * _RESULT_BYTES), ctypes.c_int32(0)
            a, b, d = (ctypes.c_void_p(int(made[number])) for number in (2, 1, 3))
            self._call(
                "cublasLtMatmulAlgoGetHeuristic",
                ctypes.c_void_p(self._handle),
                ctypes.c_void_p(int(made[0])),
                a,
                b,
                d,
                d,
                ctypes.c_void_p(wish),
                ctypes.c_int32(self._wanted),
                ctypes.c_void_p(ctypes.addressof(results)),
                ctypes.c_void_p(ctypes.addressof(count)),
            )
            each = [results.raw[start : start + _RESULT_BYTES] for start in range(0, len(results), _RESULT_BYTES)]
            able = [one for one in each[: count.value] if not int.from_bytes(one[_STATE_AT : _STATE_AT + 4], "little")]
            if not able:
                raise OSError("no algorithm")
            return [np.frombuffer(one[:_ALGORITHM_BYTES], np.int64) for one in able]
        finally:
            self._call("cublasLtMatmulPreferenceDestroy", ctypes.c_void_p(wish))

    def _again(self, key: Mapping[str, int], made: np.ndarray, places: Sequence[int], stream: int) -> Run | None:
        """What computes a product where it lies, without the residual, by an algorithm; None where the residual is the
        result's own memory, which would be lost."""
        left, right, out, bias, residual = places
        if residual == out:
            return None
        if bias:
            self._set("cublasLtMatmulDescSetAttribute", int(made[0]), BIAS_POINTER, ctypes.c_uint64(bias))
        kind = ctypes.c_double if KINDS[key["kind"]][0] == "f64" else ctypes.c_float
        one, nil = kind(1), kind(0)
        call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 14, ctypes.c_size_t, ctypes.c_void_p)(
            self._functions["cublasLtMatmul"]
        )
        descriptor, left_of, right_of, out_of = (int(made[number]) for number in range(4))

        def run(algorithm: np.ndarray) -> int:
            return int(
                call(
                    self._handle,
                    descriptor,
                    ctypes.addressof(one),
                    right,
                    right_of,
                    left,
                    left_of,
                    ctypes.addressof(nil),
                    out,
                    out_of,
                    out,
                    out_of,
                    algorithm.ctypes.data,
                    self.workspace,
                    self._workspace_bytes,
                    stream,
                )
            )

        return run

    def close(self) -> None:
        """Give back what was made; what the library does not take back is left to it."""
        for row in self.rows:
            self._dropped(row[len(KEY) :])
        self.rows[:] = 0
        with suppress(OSError):
            self._call("cublasLtDestroy", ctypes.c_void_p(self._handle))
