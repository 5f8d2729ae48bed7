"""A program's native entry while it is written, whatever runs the steps.

``i32 egshape_entry(ptr call)`` takes a structure of 64-bit words (``WORDS``): tables of pointers to inputs, constants
and outputs, the axes of all inputs and outputs, memory that the caller lends. It returns 0, or 1 a check
(error = [number, values...]), 2 an input axis (error = [input, axis, wanted, found]), 3 out of memory, 4 a size too
large, 5 a negative data-dependent size (error = [number, value]), 6 shapes (where ``strict``: the outputs known at the
entry have not the shapes that the table of shapes holds; nothing has run, the table has the right ones now),
8 a result of a host call (error = [number, output, axis, wanted, found]), 9 a failed host call (error =
[number]), 10 a red zone (error = [kernel, buffer]), 11 and 12 a device (lower/device/device.py), 15 the bytes of the
arena (error = [bytes]), where ``strict`` asks for them: nothing has run.

A program that does the same to each image of a batch has another entry around this one, which calls it for some images
after the others (runtime/native/images.c)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from egshape.lower.llvm.writer import Writer
from egshape.plan.analysis.memory import layout, privates
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import Program
from egshape.runtime.abi.call import WORDS


@dataclass
class Tables:
    """What the runtime must know of checks, of sizes that data gives, of calls of Python."""

    checks: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[dict[str, Any]] = field(default_factory=list)
    host_calls: list[dict[str, Any]] = field(default_factory=list)


class Entry:
    """The entry that is being written: what all of its writers read and add to."""

    def __init__(self, program: Program, reuse: bool = True) -> None:
        self.program = program
        self.w = Writer()
        self.layout = layout(program, reuse)
        self.private = privates(program.steps)
        self.tables = Tables()
        self.code = ""
        """Where the code lies that the entry returns."""
        self.pointers: dict[Buffer, str] = {}
        self.late: dict[Buffer, str] = {}
        self.rooms: dict[Buffer, str] = {}
        self.ports = {port.buffer: k for k, port in enumerate(program.outputs)}
        self.axes: dict[tuple[int, int], str] = {}
        """The size of each axis of each input."""
        self.table_words = 1
        self.first: list[str] = []
        """Stores that stand before anything can fail."""

    def word(self, name: str) -> str:
        """The address of a word of the call structure."""
        return self.w.value(f"getelementptr i64, ptr %call, i64 {WORDS.index(name)}")

    def entry_of(self, table: str, k: int) -> str:
        """A pointer of a table."""
        return self.w.value(f"load ptr, ptr {self.w.value(f'getelementptr ptr, ptr {table}, i64 {k}')}")

    def define(self, name: str, value: str) -> None:
        """The symbol has this value from here on."""
        if name not in self.w.slots:
            self.w.slots[name] = self.w.slot("i64")
        self.w.line(f"store i64 {value}, ptr {self.w.slots[name]}")
        self.forget(name)

    def forget(self, name: str) -> None:
        """What was computed from a symbol is not reused."""
        for frame in self.w.frames:
            for key in [key for key in frame if _reads(key, name)]:
                del frame[key]


def _reads(key: object, name: str) -> bool:
    """Whether a remembered size or atom reads the symbol."""
    symbols = getattr(key[1] if isinstance(key, tuple) else key, "symbols", ())
    return name in (symbols() if callable(symbols) else symbols)
