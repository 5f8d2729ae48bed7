"""Attention for the calls of one stream: what native code calls, and the workspace that only this stream uses."""

from __future__ import annotations

import ctypes

from egshape.runtime.abi.attention import WORDS
from egshape.runtime.abi.call import DONE
from egshape.runtime.cuda.cudnn import Attentions
from egshape.runtime.cuda.driver import Driver

_REFUSED = 0


class Attending:
    """The callback (``address``) through which a program's native code reaches the library."""

    def __init__(self, attentions: Attentions, driver: Driver) -> None:
        self._attentions, self._driver = attentions, driver
        self._rooms: list[int] = []
        """Workspaces, the last one being the largest: graphs may hold earlier ones."""
        self._size = 0
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(self._called)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _called(self, address: int, stream: int | None) -> int:
        """Run the attention that the words at an address describe; DONE if that was done."""
        try:
            found = (ctypes.c_int64 * len(WORDS)).from_address(address)
            words = dict(zip(WORDS, map(int, found), strict=True))
            return DONE if self._attentions.run(words, stream or 0, self._room) else _REFUSED
        except BaseException as error:  # of which native code would know nothing
            self._attentions.refused[f"attention: {error!r}"] = None
            return _REFUSED

    def _room(self, size: int) -> int:
        if size > self._size:
            place = ctypes.c_uint64(0)
            code = self._driver("cuMemAlloc_v2", ctypes.addressof(place), size, fails=False)
            if code:
                raise OSError(f"no workspace of {size} bytes: {self._driver.error(code)}")
            self._rooms.append(place.value)
            self._size = size
        return self._rooms[-1] if self._rooms else 0

    def close(self) -> None:
        """Give the workspaces back; what used them is done."""
        for place in self._rooms:
            self._driver("cuMemFree_v2", place, fails=False)
        self._rooms.clear()
