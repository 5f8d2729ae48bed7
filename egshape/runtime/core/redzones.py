"""Red zones around inputs and outputs, for tests: bytes that a program must leave as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egshape.runtime.abi.call import REDZONE_BYTES, REDZONE_PATTERN


class Watch:
    """Arrays of one call inside of blocks whose other bytes hold a pattern."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, np.ndarray, int, np.ndarray | None]] = []

    def empty(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """An array whose elements are undefined."""
        return self._made(name, shape, dtype, None)

    def copies(self, names: Sequence[str], arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Copies of inputs, which the program must not change either."""
        return tuple(
            self._made(name, array.shape, array.dtype, array) for name, array in zip(names, arrays, strict=True)
        )

    def _made(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], source: np.ndarray | None) -> np.ndarray:
        count = dtype.itemsize
        for size in shape:
            count *= size
        block = np.full(count + 3 * REDZONE_BYTES, REDZONE_PATTERN, np.uint8)
        start = REDZONE_BYTES + 64 - block.ctypes.data % 64
        made: np.ndarray = np.ndarray(shape, dtype, block, start)
        if source is not None:
            made[...] = source
        self._blocks.append((name, block, start, made.copy() if source is not None else None))
        return made

    def broken(self) -> str | None:
        """What the program did to memory that is not its own; None if nothing."""
        for name, block, start, source in self._blocks:
            size = block.size - 3 * REDZONE_BYTES
            if (block[:start] != REDZONE_PATTERN).any() or (block[start + size :] != REDZONE_PATTERN).any():
                return f"the program wrote outside of {name!r}"
            if source is not None and block[start : start + size].tobytes() != source.tobytes():
                return f"the program wrote to its input {name!r}"
        return None
