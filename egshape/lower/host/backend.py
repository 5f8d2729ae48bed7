"""What differs between a program that runs on this processor and one that drives a device: where memory comes from,
how a step is run, and how a value gets to the code that decides by it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from egshape.dims import Dim
from egshape.ir.types import itemsize
from egshape.lower.host.entry import Entry
from egshape.plan.ir.loops import Buffer, Kernel
from egshape.plan.ir.program import CheckValue, Copy, Run, Step


@dataclass(frozen=True)
class Request:
    """What memory is asked for: its name and its bytes as an expression, for messages."""

    what: str
    expression: str

    @staticmethod
    def of(buffer: Buffer) -> Request:
        """The memory of a buffer."""
        return Request(f"the buffer {buffer.name}", str(buffer.size * itemsize(buffer.dtype)))


class Backend(ABC):
    """Writes what a program asks of the machine that runs it. ``host`` writes the rest: sizes, checks, control flow.

    ``bodies``: its kernels by the names of their functions. ``gap``: bytes between two buffers of the arena.
    ``constants``: the table of the addresses of the constants."""

    gap = 0
    constants = "%constants"

    def __init__(self, host: Entry) -> None:
        self.host = host
        self.w = host.w
        self.kernels: dict[str, str] = {}
        """Texts of functions of this processor."""
        self.bodies: dict[str, Kernel] = {}

    @abstractmethod
    def declarations(self) -> str:
        """Functions that the module needs."""

    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """What a runtime must know."""

    @abstractmethod
    def begin(self) -> None:
        """What the entry does first. Nothing has failed yet."""

    @abstractmethod
    def end(self) -> None:
        """What the entry does last, failed or not."""

    def done(self) -> None:  # noqa: B027
        """What follows the last step of a program that did not fail."""

    def all_steps(self) -> None:
        """Write all steps of the program."""
        self.host.steps(self.host.program.steps)

    def write(self, steps: Sequence[Step]) -> None:
        """Write steps in order."""
        for step in steps:
            self.host.step(step)

    # -- memory -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def allocate(self, size: str, what: Request) -> str:
        """A pointer to new memory of i64 ``size`` bytes; leaves the program where there is none."""

    @abstractmethod
    def free(self, pointer: str) -> None:
        """Give memory back; the pointer may be null. Never leaves the program."""

    def pieces(self) -> Sequence[str]:
        """Bytes (i64, multiples of 64) of further pieces of the arena."""
        return ()

    def placed(self, arena: str, total: str, rooms: Sequence[str], pieces: Sequence[str]) -> None:  # noqa: B027
        """The arena is laid out: its memory, its bytes, the room of each buffer, where the further pieces lie."""

    def given(self, buffer: Buffer) -> str:
        """Memory of an output."""
        return self.host.given(buffer)

    def grown(self, buffer: Buffer, size: Dim) -> None:  # noqa: B027
        """A buffer of so many bytes whose size only data tells has memory."""

    # -- steps --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, step: Run) -> None:
        """Run a kernel."""

    @abstractmethod
    def copy(self, step: Copy) -> None:
        """Copy a buffer."""

    def borrowed(self, buffers: Sequence[Buffer], read: bool) -> Sequence[str]:
        """Where Python finds buffers that it reads, or is to write."""
        return [self.host.pointers[buffer] for buffer in buffers]

    def taken(self, buffers: Sequence[Buffer]) -> None:  # noqa: B027
        """Python has written buffers where they were lent."""

    @abstractmethod
    def scalar(self, buffer: Buffer, element: int = 0) -> str:
        """An element of a buffer as a value that the program can decide by."""

    def deferred(self, step: CheckValue) -> bool:
        """Whether a check of data was written in a way of its own, which ``settle`` looks at."""
        return False

    def settle(self) -> None:  # noqa: B027
        """Leave the program if a check that was deferred does not hold."""

    @abstractmethod
    def timed(self, name: str, traffic: Dim, flops: Dim) -> AbstractContextManager[None]:
        """Times what is written inside under a name, where the caller wants times."""


Maker: TypeAlias = Callable[[Entry], Backend]
