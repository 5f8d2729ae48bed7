"""cuDNN, where it is installed: attention that a program's native code asks for.

One plan serves all sizes: it is made for sizes that are none in particular, and each call says which ones there are and
where its tensors lie (shape overrides, cuDNN 9.23). So a plan, which takes the library about a second to compile, is
made once for each dtype, mask, numbers of heads and widths of rows, whatever the sizes of the first call."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from egshape.runtime.abi.attention import KINDS, SIZES, TENSORS
from egshape.runtime.cuda.descriptors import (
    BOOLEAN,
    DESCRIPTOR,
    DTYPE,
    FUNCTIONS,
    HANDLE,
    HEURISTIC,
    INT64,
    POINTER,
    POINTWISE,
    Attribute,
    Descriptors,
    Vectors,
)
from egshape.runtime.cuda.libraries import functions_of

OLDEST = 92300
"""The first version that tells a plan's workspace for the sizes of a call."""
ALIGNMENT = 16
"""Bytes that addresses of tensors are a multiple of."""
NOMINAL = 2048
"""Rows and columns that plans are made for."""
_PROPOSED = 8
"""Engines that the library is asked for: the first that makes a plan is taken."""

# Numbers of the library's interface (cudnn_graph_v9.h).
_ENGINE, _HEURISTICS, _PLAN, _GRAPH, _PACK, _TENSOR, _ATTENTION, _BAND = 3, 4, 5, 15, 16, 17, 41, 44
_FLOAT, _DTYPES, _BEST, _AT_LEAST = 0, {"f16": 2, "bf16": 9}, 3, 303
_MODE, _OF_GRAPH, _RESULTS, _PLAN_HANDLE, _PLAN_ENGINE, _GRAPH_HANDLE, _OPS, _OVERRIDES = (
    *(200, 201, 202),
    *(400, 401),
    *(800, 801, 805),
)
_ALIGNED, _TYPE, _DIMS, _STEPS, _NUMBER, _IS_VIRTUAL, _IS_VALUE = 900, 901, 902, 903, 906, 907, 908
_NUMBERS, _PLACES, _WORKSPACE, _NEW_NUMBERS, _NEW_DIMS, _NEW_STEPS = 1000, 1001, 1003, 1010, 1011, 1012
_FIRST_TENSOR, _SCALE_OF, _SUBGRAPH, _SUBGRAPH_IN, _SUBGRAPH_OUT = 2800, 2805, 2811, 2812, 2813
_BAND_IN, _BAND_VALUE, _BAND_OUT, _BAND_MODE = 3000, 3005, 3006, 3007

GIVEN = range(1, len(TENSORS) + 1)
"""Numbers of the tensors of TENSORS in a graph."""
SCALE, LEAST, SCORES, MASKED = range(len(TENSORS) + 1, len(TENSORS) + 5)
"""Those of further ones: two numbers of the host, two tensors that are nowhere."""


def addresses() -> Mapping[str, int] | None:
    """The library's functions; None where it is not installed, or too old."""
    found = functions_of(("libcudnn.so.9",), FUNCTIONS)
    old = found is None or ctypes.CFUNCTYPE(ctypes.c_size_t)(found["cudnnGetVersion"])() < OLDEST
    return None if old else found


@dataclass(frozen=True)
class Kind:
    """What plans differ by."""

    dtype: str
    causal: bool
    heads: int
    groups: int
    depth: int
    width: int

    def __str__(self) -> str:
        return " ".join(map(str, astuple(self)))


class Attentions:
    """Attention for one program on a device: a plan for each kind, for all of its streams. Raises OSError where the
    library does not start."""

    def __init__(self, functions: Mapping[str, int]) -> None:
        self._library = Descriptors(functions)
        self._lock = threading.Lock()
        self._plans: dict[Kind, int | None] = {}
        self.refused: dict[str, None] = {}
        """What did not run, and why."""

    def run(self, words: Mapping[str, int], stream: int, room: Callable[[int], int]) -> bool:
        """Give a call's work to a stream, if the library can. ``words``: those of abi/attention.py by name; ``room``:
        where so many bytes of the device lie that this stream alone uses (OSError if there are none)."""
        kind = Kind(KINDS[words["kind"]], bool(words["causal"]), *(words[each] for each in SIZES if each in _OF_KIND))
        if any(words[f"{tensor}_place"] % ALIGNMENT for tensor in TENSORS):
            return False
        with self._lock:
            try:
                plan = self._plan(kind)
                if plan is not None:
                    self._library.call("cudnnSetStream", _pointer(self._library.handle), _pointer(stream))
                    self._execute(plan, words, room)
                return plan is not None
            except OSError as error:
                self.refused[f"attention {kind}: {error}"] = None
                return False

    def close(self) -> None:
        """Give back what was made."""
        with self._lock:
            self._plans.clear()
            self._library.close()

    def _plan(self, kind: Kind) -> int | None:
        if kind not in self._plans:
            self._plans[kind] = None  # what fails once is not compiled again at each call
            self._plans[kind] = self._compiled(kind)
        return self._plans[kind]

    def _compiled(self, kind: Kind) -> int:
        """A plan. Raises OSError where the library has none."""
        made, handle = self._library, (HANDLE, [self._library.handle])
        ops = (_OPS, DESCRIPTOR, [self._operation(kind)])
        graph = made.finished(_GRAPH, [(_GRAPH_HANDLE, *handle), ops, (_OVERRIDES, BOOLEAN, [True])])
        wish = made.finished(_HEURISTICS, [(_OF_GRAPH, DESCRIPTOR, [graph]), (_MODE, HEURISTIC, [_BEST])])
        error = OSError("cuDNN proposes no engine")
        for engine in made.several(wish, _RESULTS, _ENGINE, _PROPOSED):
            try:
                return made.finished(_PLAN, [(_PLAN_HANDLE, *handle), (_PLAN_ENGINE, DESCRIPTOR, [engine])])
            except OSError as found:
                error = found
        raise error

    def _operation(self, kind: Kind) -> int:
        queries, keys = (kind.heads, NOMINAL, kind.depth), (kind.groups, NOMINAL, kind.depth)
        shapes = (queries, keys, (kind.groups, NOMINAL, kind.width), (kind.heads, NOMINAL, kind.width))
        tensors = [
            self._tensor(number, _DTYPES[kind.dtype], shape) for number, shape in zip(GIVEN, shapes, strict=True)
        ]
        attributes: list[Attribute] = [(_FIRST_TENSOR + k, DESCRIPTOR, [each]) for k, each in enumerate(tensors)]
        attributes.append((_SCALE_OF, DESCRIPTOR, [self._number(SCALE)]))
        return self._library.finished(_ATTENTION, attributes + (self._mask(kind.heads) if kind.causal else []))

    def _mask(self, heads: int) -> list[Attribute]:
        """Scores of columns behind the row's own number become the least number."""
        made = self._library
        one, two = (
            self._tensor(number, _FLOAT, (heads, NOMINAL, NOMINAL), (_IS_VIRTUAL, BOOLEAN, [True]))
            for number in (SCORES, MASKED)
        )
        sides = ((_BAND_IN, one), (_BAND_VALUE, self._number(LEAST)), (_BAND_OUT, two))
        mode = (_BAND_MODE, POINTWISE, [_AT_LEAST])
        band = made.finished(_BAND, [*((name, DESCRIPTOR, [each]) for name, each in sides), mode])
        graph = made.finished(_GRAPH, [(_OPS, DESCRIPTOR, [band])])
        return [(_SUBGRAPH, DESCRIPTOR, [graph]), (_SUBGRAPH_IN, INT64, [SCORES]), (_SUBGRAPH_OUT, INT64, [MASKED])]

    def _number(self, number: int) -> int:
        return self._tensor(number, _FLOAT, (1, 1, 1), (_IS_VALUE, BOOLEAN, [True]))

    def _tensor(self, number: int, dtype: int, shape: Sequence[int], *more: Attribute) -> int:
        """A tensor of one batch, whose elements follow one another."""
        sizes = (1, *shape)
        steps = [int(np.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]
        own = [(_TYPE, DTYPE, [dtype]), (_DIMS, INT64, sizes), (_STEPS, INT64, steps), (_NUMBER, INT64, [number])]
        return self._library.finished(_TENSOR, [*own, (_ALIGNED, INT64, [ALIGNMENT]), *more])

    def _execute(self, plan: int, words: Mapping[str, int], room: Callable[[int], int]) -> None:
        library = self._library
        numbers = {SCALE: ctypes.c_float(_double(words["scale"]))}
        if words["causal"]:
            numbers[LEAST] = ctypes.c_float(float("-inf"))
        places = [*(words[f"{tensor}_place"] for tensor in TENSORS), *map(ctypes.addressof, numbers.values())]
        sizes, steps = _described(words)
        shapes: list[Attribute] = [
            (_NEW_NUMBERS, INT64, GIVEN),
            (_NEW_DIMS, POINTER, Vectors(sizes)),
            (_NEW_STEPS, POINTER, Vectors(steps)),
        ]
        with library.temporary():
            size, pack = ctypes.c_size_t(0), _pointer(library.finished(_PACK, shapes))
            handle, made = _pointer(library.handle), _pointer(plan)
            library.call("cudnnGetExecutionPlanWorkspaceSize", handle, made, pack, _pointer(ctypes.addressof(size)))
            data = [(_NUMBERS, INT64, [*GIVEN, *numbers]), (_PLACES, POINTER, places)]
            given = library.finished(_PACK, [*data, (_WORKSPACE, POINTER, [room(size.value)]), *shapes])
            library.call("cudnnBackendExecute", handle, made, _pointer(given))


_OF_KIND = ("heads", "groups", "depth", "width")


def _described(words: Mapping[str, int]) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]:
    """Sizes and steps of TENSORS: of batches, heads, rows, elements."""
    batch, heads, groups, rows, columns, depth, width = (words[name] for name in SIZES)
    sizes = [
        (batch, heads, rows, depth),
        (batch, groups, columns, depth),
        (batch, groups, columns, width),
        (batch, heads, rows, width),
    ]
    return sizes, [(*(words[f"{tensor}_{axis}"] for axis in ("batch", "head", "row")), 1) for tensor in TENSORS]


def _pointer(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def _double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
