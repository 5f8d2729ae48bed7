"""A cuDNN that is not there: what runtime/cuda/cudnn.py calls, with numpy on the memory of the emulated device.

It knows descriptors as the library does, takes sizes and steps from a call where the graph allows that, else those that
the plan was made for, and reads vectors of vectors as a C++ library lays them out."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from egshape.runtime.cuda.descriptors import DESCRIPTOR, FUNCTIONS, POINTER
from tests.cuda.device import APART, Emulated
from tests.cuda.library import Functions

_P, _I, _L, _S = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t
_SIGNATURES = {
    "cudnnGetVersion": [],
    "cudnnGetLastErrorString": [_P, _S],
    "cudnnCreate": [_P],
    "cudnnDestroy": [_P],
    "cudnnSetStream": [_P, _P],
    "cudnnBackendCreateDescriptor": [_I, _P],
    "cudnnBackendDestroyDescriptor": [_P],
    "cudnnBackendSetAttribute": [_P, _I, _I, _L, _P],
    "cudnnBackendGetAttribute": [_P, _I, _I, _L, _P, _P],
    "cudnnBackendFinalize": [_P],
    "cudnnBackendExecute": [_P, _P, _P],
    "cudnnGetExecutionPlanWorkspaceSize": [_P, _P, _P, _P],
}
_BYTES = {0: 8, 1: 4, 2: 1, 3: 8, 6: 8, 8: 4, 14: 4, 15: 8}
_DTYPES = {2: np.dtype(np.float16), 9: np.dtype(ml_dtypes.bfloat16)}
REFUSED = 3000
"""The status of what is not supported."""


class AttentionLibrary(Functions):
    """``engines``: whether each that is proposed makes a plan; ``fails``: what executions end with; ``starts``: whether
    it does; ``workspace``: bytes that a call needs for each row. ``ran`` has the sizes of runs."""

    def __init__(
        self,
        device: Emulated,
        engines: tuple[bool, ...] = (True,),
        fails: int = 0,
        starts: bool = True,
        workspace: int = 4,
    ) -> None:
        self.engines, self.fails, self.starts, self.workspace = engines, fails, starts, workspace
        self.ran: list[tuple[int, ...]] = []
        self.stream = 0
        super().__init__(device, {name: _SIGNATURES[name] for name in FUNCTIONS}, 5000)

    def _cudnnGetVersion(self) -> int:
        return 92800

    def _cudnnGetLastErrorString(self, place: int, size: int) -> None:
        ctypes.memmove(place, b"this is not supported\0", min(size, 22))

    def _cudnnCreate(self, place: int) -> int:
        if self.starts:
            self._new(place, {"kind": "handle"})
        return 0 if self.starts else 1001

    def _cudnnDestroy(self, handle: int) -> None:
        assert self.objects.pop(handle)["kind"] == "handle"

    def _cudnnSetStream(self, handle: int, stream: int) -> None:
        assert handle in self.objects
        self.stream = stream

    def _cudnnBackendCreateDescriptor(self, kind: int, place: int) -> None:
        self._new(place, {"kind": kind})

    def _cudnnBackendDestroyDescriptor(self, made: int) -> None:
        del self.objects[made]

    def _cudnnBackendSetAttribute(self, made: int, attribute: int, type: int, count: int, place: int) -> None:
        raw = ctypes.string_at(place, count * _BYTES[type])
        width = _BYTES[type]
        words = [int.from_bytes(raw[k : k + width], "little", signed=True) for k in range(0, len(raw), width)]
        if type == DESCRIPTOR:
            assert all(self.objects[word]["done"] for word in words)
        if attribute in (1011, 1012):
            assert type == POINTER and count == 1
            self.objects[made][attribute] = _vectors(place)
        else:
            self.objects[made][attribute] = words

    def _cudnnBackendGetAttribute(
        self, made: int, attribute: int, type: int, most: int, count: int, place: int
    ) -> None:
        assert (attribute, type) == (202, DESCRIPTOR)
        found = self.engines[:most]
        ctypes.c_int64.from_address(count).value = len(found)
        for number, works in enumerate(found):
            engine = ctypes.c_uint64.from_address(place + 8 * number).value
            self.objects[engine].update(works=works, graph=self.objects[made][201][0], done=True)

    def _cudnnBackendFinalize(self, made: int) -> int:
        found = self.objects[made]
        found["done"] = True
        return REFUSED if found["kind"] == 5 and not self.objects[found[401][0]]["works"] else 0

    def _cudnnGetExecutionPlanWorkspaceSize(self, handle: int, plan: int, pack: int, size: int) -> None:
        assert handle in self.objects
        shapes = self.objects[pack].get(1011) or [(1, 1, 2048, 1)]
        ctypes.c_size_t.from_address(size).value = self.workspace * shapes[0][2]

    def _cudnnBackendExecute(self, handle: int, plan: int, pack: int) -> int:
        if self.fails:
            return self.fails
        given = self.objects[pack]
        graph = self.objects[self.objects[self.objects[plan][401][0]]["graph"]]
        operation = self.objects[graph[801][0]]
        assert operation["kind"] == 41 and graph[800] == [handle]
        tensors = {self.objects[operation[2800 + k][0]][906][0]: self.objects[operation[2800 + k][0]] for k in range(4)}
        sizes = {number: tensor[902] for number, tensor in tensors.items()}
        steps = {number: tensor[903] for number, tensor in tensors.items()}
        if graph.get(805) == [1]:
            sizes |= dict(zip(given[1010], given[1011], strict=True))
            steps |= dict(zip(given[1010], given[1012], strict=True))
        places = dict(zip(given[1000], given[1001], strict=True))
        workspace = self.workspace * sizes[1][2]
        assert not workspace or self.device.holds(given[1003][0], workspace), "there is no workspace"
        numbers = {number: ctypes.c_float.from_address(places[number]).value for number in places if number > 4}
        scale = numbers[self.objects[operation[2805][0]][906][0]]
        least = None
        if 2811 in operation:
            band = self.objects[self.objects[operation[2811][0]][801][0]]
            assert band["kind"] == 44 and band[3007] == [303]
            assert (
                operation[2812] == self.objects[band[3000][0]][906]
                and operation[2813] == self.objects[band[3006][0]][906]
            )
            least = numbers[self.objects[band[3005][0]][906][0]]
        dtype = _DTYPES[tensors[1][901][0]]
        views = [self._view(dtype, places[number], sizes[number], steps[number]) for number in (1, 2, 3, 4)]
        self.ran.append((*sizes[1], *sizes[2][1:3]))

        def run() -> None:
            _attention(*views, scale, least)

        if self.stream in self.device.capturing:
            self.device.record(self.stream, run)
        else:
            run()
        return 0

    def _view(self, dtype: np.dtype[Any], place: int, sizes: list[int], steps: list[int]) -> np.ndarray:
        assert place % 16 == 0 and all(step > 0 for step in steps)
        size = (sum((count - 1) * step for count, step in zip(sizes, steps, strict=True)) + 1) * dtype.itemsize
        assert self.device.holds(place, size), "a tensor lies outside of the device's memory"
        flat = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(place - APART)).view(dtype)
        return np.lib.stride_tricks.as_strided(flat, sizes, [step * dtype.itemsize for step in steps])


def _attention(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, out: np.ndarray, scale: float, least: float | None
) -> None:
    shared = queries.shape[1] // keys.shape[1]
    keys, values = (np.repeat(each.astype(np.float32), shared, 1) for each in (keys, values))
    scores = queries.astype(np.float32) @ keys.transpose(0, 1, 3, 2) * np.float32(scale)
    if least is not None:
        rows, columns = scores.shape[2:]
        scores = np.where(np.arange(rows)[:, None] >= np.arange(columns), scores, np.float32(least))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    found = weights.astype(queries.dtype).astype(np.float32) @ values / weights.sum(-1, keepdims=True)
    out[...] = found.astype(out.dtype)


def _vectors(place: int) -> list[list[int]]:
    """The rows of a C++ vector of vectors."""
    begin, end, room = (ctypes.c_int64.from_address(place + 8 * k).value for k in range(3))
    assert begin <= end <= room and (end - begin) % 24 == 0
    rows = []
    for head in range(begin, end, 24):
        first, last, most = (ctypes.c_int64.from_address(head + 8 * k).value for k in range(3))
        assert first <= last <= most
        rows.append([ctypes.c_int64.from_address(at).value for at in range(first, last, 8)])
    return rows
