"""Descriptors of cuDNN's backend: objects that are made, given attributes and finished (cudnn_graph_v9.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

FUNCTIONS = (
    "cudnnGetVersion",
    "cudnnGetLastErrorString",
    "cudnnCreate",
    "cudnnDestroy",
    "cudnnSetStream",
    "cudnnBackendCreateDescriptor",
    "cudnnBackendDestroyDescriptor",
    "cudnnBackendSetAttribute",
    "cudnnBackendGetAttribute",
    "cudnnBackendFinalize",
    "cudnnBackendExecute",
    "cudnnGetExecutionPlanWorkspaceSize",
)
HANDLE, DTYPE, BOOLEAN, INT64, POINTER, HEURISTIC, POINTWISE, DESCRIPTOR = 0, 1, 2, 3, 6, 8, 14, 15
"""Types of attributes."""
_C_TYPES: Mapping[int, Any] = {
    BOOLEAN: ctypes.c_bool,
    INT64: ctypes.c_int64,
    **dict.fromkeys((HANDLE, POINTER, DESCRIPTOR), ctypes.c_void_p),
    **dict.fromkeys((DTYPE, HEURISTIC, POINTWISE), ctypes.c_int32),
}
_P, _I, _L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
Attribute = tuple[int, int, Sequence[Any]]
"""Its number, its type, its values."""


class Descriptors:
    """The library's functions and a handle of it; what was made is given back by ``close``. Raises OSError where the
    library does not start."""

    def __init__(self, functions: Mapping[str, int]) -> None:
        self._functions = functions
        self._calls: dict[str, Callable[..., int]] = {}
        self._made: list[int] = []
        self.handle = 0
        place = _P()
        self.call("cudnnCreate", _P(ctypes.addressof(place)))
        self.handle = place.value or 0

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises OSError with what the library says where it fails."""
        code = self._status(name, *arguments)
        if code:
            said = ctypes.create_string_buffer(1024)
            self._status("cudnnGetLastErrorString", _P(ctypes.addressof(said)), ctypes.c_size_t(len(said)))
            raise OSError(f"{name} fails with status {code}: {said.value.decode(errors='replace')}".rstrip(": "))

    def finished(self, kind: int, attributes: Sequence[Attribute]) -> int:
        """A descriptor with attributes; a ``Vectors`` is the value of its attribute itself."""
        made = self.new(kind)
        for attribute, type, values in attributes:
            is_one = isinstance(values, Vectors)
            raw = values.head if isinstance(values, Vectors) else (_C_TYPES[type] * len(values))(*values)
            count, place = _L(1 if is_one else len(values)), _P(ctypes.addressof(raw))
            self.call("cudnnBackendSetAttribute", _P(made), _I(attribute), _I(type), count, place)
        self.call("cudnnBackendFinalize", _P(made))
        return made

    def new(self, kind: int) -> int:
        """A descriptor without attributes."""
        place = _P()
        self.call("cudnnBackendCreateDescriptor", _I(kind), _P(ctypes.addressof(place)))
        self._made.append(place.value or 0)
        return self._made[-1]

    def several(self, descriptor: int, attribute: int, kind: int, most: int) -> list[int]:
        """The descriptors that an attribute has, ``most`` at most."""
        found, count = [self.new(kind) for _ in range(most)], _L(0)
        array = (_P * most)(*found)
        places = _P(ctypes.addressof(count)), _P(ctypes.addressof(array))
        self.call("cudnnBackendGetAttribute", _P(descriptor), _I(attribute), _I(DESCRIPTOR), _L(most), *places)
        return found[: count.value]

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """What is made inside is given back at the end."""
        before = len(self._made)
        try:
            yield
        finally:
            self._drop(before)

    def close(self) -> None:
        """Give back what was made. What the library does not take back is left to it."""
        self._drop(0)
        if self.handle:
            self._status("cudnnDestroy", _P(self.handle))
            self.handle = 0

    def _drop(self, first: int) -> None:
        while len(self._made) > first:
            self._status("cudnnBackendDestroyDescriptor", _P(self._made.pop()))

    def _status(self, name: str, *arguments: Any) -> int:
        if name not in self._calls:
            self._calls[name] = ctypes.CFUNCTYPE(_I, *map(type, arguments))(self._functions[name])
        return self._calls[name](*arguments)


class Vectors(Sequence[Any]):
    """Rows of integers as a C++ vector of vectors lies in memory, which is how the library takes them: of each vector
    where it begins, where it ends, and where its memory ends."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self._rows = [(_L * len(row))(*row) for row in rows]
        self._heads = (_L * (3 * len(rows)))(*(word for row in self._rows for word in _range(row)))
        self.head = (_L * 3)(*_range(self._heads))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: Any) -> Any:
        return self._rows[number]


def _range(array: ctypes.Array[Any]) -> tuple[int, int, int]:
    begin = ctypes.addressof(array)
    return begin, begin + ctypes.sizeof(array), begin + ctypes.sizeof(array)
