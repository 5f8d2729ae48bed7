"""What writes a program's native entry, whatever runs the steps: its state, and how it fails, defines and measures.

``i32 egshape_entry(ptr call)`` takes a structure of 64-bit words (``WORDS``): tables of pointers to inputs, constants
and outputs, the axes of all inputs and outputs, memory that the caller lends. It returns 0, or 1 a check
(error = [number, values...]), 2 an input axis (error = [input, axis, wanted, found]), 3 out of memory, 4 a size too
large, 5 a negative data-dependent size (error = [number, value]), 6 shapes (where ``strict``: the outputs known at the
entry have not the shapes that the table of shapes holds; nothing has run, the table has the right ones now),
8 a result of a host call (error = [number, output, axis, wanted, found]), 9 a failed host call (error =
[number]), 10 a red zone (error = [kernel, buffer]), 11 and 12 a device (lower/device/device.py)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from egshape.dims import Dim
from egshape.ir.types import is_float
from egshape.lower.host.sizes import LARGEST, cannot_wrap, wraps
from egshape.lower.llvm import scalar
from egshape.lower.llvm.writer import Writer
from egshape.plan.analysis.memory import layout, privates
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import CheckValue, Program, Step
from egshape.runtime.abi.call import ERROR_WORDS, WORDS


@dataclass
class Tables:
    """What the runtime must know of checks, of sizes that data gives, of calls of Python."""

    checks: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[dict[str, Any]] = field(default_factory=list)
    host_calls: list[dict[str, Any]] = field(default_factory=list)


class Entry(ABC):
    """The entry that is being written."""

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

    # -- what the writer of steps adds --------------------------------------------------------------------------------

    @abstractmethod
    def steps(self, steps: Sequence[Step]) -> None:
        """Write steps in order."""

    @abstractmethod
    def step(self, step: Step) -> None:
        """Write a step."""

    @abstractmethod
    def ready(self, buffer: Buffer) -> None:
        """Memory for a buffer whose size was not known at the entry; a larger one if a loop made it grow."""

    @abstractmethod
    def grow(self, buffer: Buffer, need: str) -> str:
        """Memory of so many bytes for a buffer whose size only data tells: what it has, if that is enough."""

    @abstractmethod
    def given(self, buffer: Buffer) -> str:
        """An output's memory: the caller's where it is large enough, else new."""

    # -- what all use -------------------------------------------------------------------------------------------------

    def word(self, name: str) -> str:
        """The address of a word of the call structure."""
        return self.w.value(f"getelementptr i64, ptr %call, i64 {WORDS.index(name)}")

    def entry_of(self, table: str, k: int) -> str:
        """A pointer of a table."""
        return self.w.value(f"load ptr, ptr {self.w.value(f'getelementptr ptr, ptr {table}, i64 {k}')}")

    def fail(self, condition: str, code: int, words: Sequence[str]) -> None:
        """Leave with a code and error words where an i1 holds."""
        w = self.w
        bad, good = w.label("bad"), w.label("good")
        w.line(f"br i1 {condition}, label %{bad}, label %{good}")
        w.block(bad)
        for k, word in enumerate(words[:ERROR_WORDS]):
            w.line(f"store i64 {word}, ptr {w.value(f'getelementptr i64, ptr %error, i64 {k}')}")
        w.line(f"store i32 {code}, ptr {self.code}")
        w.line("br label %finish")
        w.block(good)

    def bytes(self, size: Dim, width: int) -> str:
        """Bytes of a buffer, at least 1, rounded up for alignment; leaves if there are too many."""
        w = self.w
        self.exact(size * width)
        many = w.value(f"fcmp ugt double {w.dim_float(size * width)}, {scalar.constant('f64', LARGEST)}")
        self.fail(many, 4, [])
        least = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(size * width)}, i64 1)")
        return w.value(f"and i64 {w.value(f'add i64 {least}, 63')}, -64")

    def exact(self, *sizes: Dim) -> None:
        """Leave if computing a size may wrap."""
        for size in sizes:
            if not cannot_wrap(size) and self.w.find(("exact", size)) is None:
                self.w.keep(("exact", size), "shown")
                self.fail(wraps(self.w, size), 4, [])

    def failed_check(
        self, holds: str, message: str, where: str, words: Sequence[str], kinds: Sequence[str], text: str = ""
    ) -> None:
        """Leave with the message of a check where an i1 does not hold."""
        number = len(self.tables.checks)
        self.tables.checks.append({"message": message, "where": where, "args": list(kinds), "text": text})
        self.fail(self.w.value(f"xor i1 {holds}, true"), 1, [str(number), *words])

    def refuse(self, step: CheckValue, read: Callable[[Buffer], str]) -> None:
        """Leave with the message of a check that does not hold. ``read``: how its values are read."""
        w, words, kinds = self.w, list[str](), list[str]()
        for buffer in step.args:
            value = read(buffer)
            kinds.append("f64" if is_float(buffer.dtype) else buffer.dtype if buffer.dtype in ("i1", "ui64") else "i64")
            if is_float(buffer.dtype):
                value = w.value(f"bitcast double {scalar.convert(w, buffer.dtype, 'f64', value)} to i64")
            else:
                value = scalar.convert(w, buffer.dtype, "i64", value)
            words.append(value)
        if not words:
            words, kinds = [w.dim(size) for size in step.sizes], ["i64"] * len(step.sizes)
        self.failed_check("false", step.message, step.where, words, kinds)

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
