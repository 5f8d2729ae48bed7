"""Calls through the table of the driver's functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from egshape.dims import Dim
from egshape.ir.types import itemsize
from egshape.lower.device import events
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.plan.ir.loops import Buffer
from egshape.runtime.abi.call import DEVICE_CALL
from egshape.runtime.abi.device import FUNCTIONS, WORDS


class Calls:
    """Writes calls of functions of the table, and what their errors and times are called. ``host``: the entry."""

    def __init__(self, host: Entry, checks: Checks) -> None:
        self.host, self.checks = host, checks
        self.w = host.w
        self.places: dict[tuple[str, str], int] = {}
        """Rows of the tables of times and errors: what runs, and its place in the model."""
        self.row = -1
        self.stream_slot = self.w.slot("ptr")

    def word(self, name: str) -> str:
        """The address of a word of the device's table."""
        return self.w.value(f"getelementptr i64, ptr %device, i64 {WORDS.index(name)}")

    def place(self, buffer: Buffer, offset: Dim) -> str:
        """The address, as an i64, of an element of a buffer."""
        bytes = self.w.dim(offset * itemsize(buffer.dtype))
        place = self.w.value(f"getelementptr i8, ptr {self.host.pointers[buffer]}, i64 {bytes}")
        return self.w.value(f"ptrtoint ptr {place} to i64")

    def listed(self, words: Sequence[str]) -> str:
        """Where words lie one after the other."""
        place = self.w.slot(f"[{len(words)} x i64]")
        for number, word in enumerate(words):
            self.w.line(f"store i64 {word}, ptr {self.w.value(f'getelementptr i64, ptr {place}, i64 {number}')}")
        return place

    def stream(self) -> str:
        """The stream that all work goes to."""
        return self.w.value(f"load ptr, ptr {self.stream_slot}")

    def error(self, words: Sequence[str]) -> None:
        """Write what went wrong."""
        for k, word in enumerate(words):
            self.w.line(f"store i64 {word}, ptr {self.w.value(f'getelementptr i64, ptr %error, i64 {k}')}")

    def call(self, name: str, arguments: Sequence[tuple[str, str]]) -> None:
        """Call a function of the table; leaves the program with what it reports."""
        listed = ", ".join(f"{type} {value}" for type, value in arguments)
        code = self.w.value(f"call i32 %device_{name}({listed})")
        words = [self.w.value(f"sext i32 {code} to i64"), str(self.row), str(number_of(name))]
        self.checks.fail(self.w.value(f"icmp ne i32 {code}, 0"), DEVICE_CALL, words)

    @contextmanager
    def named(self, name: str, where: str, bytes: Dim, operations: Dim) -> Iterator[None]:
        """What is written inside belongs to a row of the tables of times and errors."""
        before, self.row = self.row, self.places.setdefault((name, where), len(self.places))
        with events.timed(self.w, self.stream, self.row, bytes, operations):
            yield
        self.row = before

    def timed(self, name: str, traffic: Dim, flops: Dim) -> AbstractContextManager[None]:
        """The same, of no place in the model."""
        return self.named(name, "", traffic, flops)

    def up(self, target: str, source: str, size: str) -> None:
        """Copy from the host to the device."""
        self.call("up", [("ptr", target), ("ptr", source), ("i64", size), ("ptr", self.stream())])

    def down(self, target: str, source: str, size: str) -> None:
        """Copy from the device to the host."""
        self.call("down", [("ptr", target), ("ptr", source), ("i64", size), ("ptr", self.stream())])

    def across(self, target: str, source: str, size: str) -> None:
        """Copy on the device."""
        self.call("across", [("ptr", target), ("ptr", source), ("i64", size), ("ptr", self.stream())])

    def fill(self, target: str, byte: int, size: str) -> None:
        """Write the same byte to memory of the device."""
        self.call("fill", [("ptr", target), ("i32", str(byte)), ("i64", size), ("ptr", self.stream())])

    def wait(self) -> None:
        """Wait for all that the stream has got."""
        self.call("wait", [("ptr", self.stream())])


def number_of(name: str) -> int:
    """The place of a function in the table."""
    return list(FUNCTIONS).index(name)
