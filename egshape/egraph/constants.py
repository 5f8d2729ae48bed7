"""Numbers for constants: one for those that agree in every bit."""

from __future__ import annotations

import numpy as np

from egshape.ir.arrays import bits

_WHOLE = 1024
"""Arrays of up to so many bytes are their own key."""


class Constants:
    """Numbers for arrays, their places in ``arrays``: one for arrays of the same dtype, shape and bits."""

    def __init__(self, arrays: list[np.ndarray], dtypes: list[str]) -> None:
        self.arrays = arrays
        self.dtypes = dtypes
        self._known: dict[tuple[str, tuple[int, ...], bytes], list[int]] = {}

    def number(self, array: np.ndarray, dtype: str) -> int:
        """The number of an array, a new one for one that was not met."""
        rows = bits(array) if array.nbytes > _WHOLE else None
        sample = array.tobytes() if rows is None else rows[:: max(1, len(rows) // 64)].tobytes()
        found = self._known.setdefault((dtype, array.shape, sample), [])
        for number in found:
            if rows is None or np.array_equal(rows, bits(self.arrays[number])):
                return number
        found.append(len(self.arrays))
        self.arrays.append(array)
        self.dtypes.append(dtype)
        return found[-1]
