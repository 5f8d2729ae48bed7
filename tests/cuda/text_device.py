"""The emulated device with images that are the printed text of kernels (text.py) in the place of their loops."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from typing import Any

from egshape.lower.cuda.kernel import CudaKernel
from egshape.lower.drivers.cuda import Function
from tests.cuda.device import Emulated, _Kernel
from tests.cuda.text import Given, TextFault, Texts, known_bytes

MOST_ASKED = 8
"""The attribute of a function: the most bytes of shared memory that its launches ask for."""
PLAIN = 48 << 10
"""What they may ask for without it."""


class TextDevice(Emulated):
    """A device that runs the text of kernels, threads in one of three orders. ``kernels``: those of its images."""

    def __init__(self, texts: Texts, order: str = "forward", room: int = 1 << 30) -> None:
        super().__init__(room)
        self.texts, self.order = texts, order
        self.kernels: list[CudaKernel] = []
        self._printed: dict[int, CudaKernel] = {}
        self._room: dict[int, int] = {}
        """Bytes of shared memory that a launch may ask for, where that was set."""

    def image(self, functions: Sequence[Function], architecture: str) -> bytes:
        """The numbers of kernels; they are compiled when they are launched, unless ``texts.compile`` has done so."""
        first = len(self.kernels)
        self.kernels += [each.kernel for each in functions]
        head = json.dumps([first, len(functions)]).encode()
        return len(head).to_bytes(8, "little") + head

    def _cuModuleLoadData(self, place: int, image: int) -> None:
        size = int.from_bytes(ctypes.string_at(image, 8), "little")
        first, count = json.loads(ctypes.string_at(image + 8, size))
        for each in self.kernels[first : first + count]:
            words = len(each.buffers) + len(each.sizes)
            handle = self._handle()
            self._kernels[handle] = _Kernel(each.name, self._caller(each), len(each.buffers), words)
            self._printed[handle] = each
        self._put(place, self._handle())

    def _caller(self, kernel: CudaKernel) -> Callable[[int], None]:
        def call(table: int) -> None:
            words, sizes = _arguments(table, kernel)
            given = [Given(word, bytes) for word, bytes in zip(words, known_bytes(kernel, sizes), strict=True)]
            given += [Given(size, pointer=False) for size in sizes.values()]
            try:
                self.texts.run(kernel, given, kernel.blocks.evaluate(sizes), self.order, len(self.launched))
            except TextFault as fault:
                self.faults.append(str(fault))

        return call

    def _cuFuncSetAttribute(self, number: int, which: int, value: int) -> None:
        if which == MOST_ASKED:
            self._room[number] = value

    def _cuLaunchKernel(self, number: int, *rest: Any) -> int:
        """What is launched is what the kernel was printed for."""
        if number in self._printed:
            kernel = self._printed[number]
            _, sizes = _arguments(rest[8], kernel)
            wanted = kernel.blocks.evaluate(sizes), kernel.threads, kernel.shared_bytes
            found = rest[0], rest[3], rest[6]
            if wanted != found:
                self.faults.append(f"{kernel.name} is launched with {found}, not {wanted}")
            if kernel.shared_bytes > self._room.get(number, PLAIN):
                self.faults.append(
                    f"{kernel.name} asks for {kernel.shared_bytes} bytes of shared memory, which no attribute allows"
                )
        return super()._cuLaunchKernel(number, *rest)


def _arguments(table: int, kernel: CudaKernel) -> tuple[list[int], dict[str, int]]:
    """Pointers and sizes of a launch."""
    count = len(kernel.buffers) + len(kernel.sizes)
    places = (ctypes.c_uint64 * count).from_address(table)
    words = [ctypes.c_int64.from_address(place).value for place in places]
    return words[: len(kernel.buffers)], dict(zip(kernel.sizes, words[len(kernel.buffers) :], strict=True))
