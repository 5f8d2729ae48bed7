"""What differs between a program that runs on this processor and one that drives a device, in four parts: where memory
comes from, how steps are run, how values get to the code that decides by them, and the order in which steps are given
to the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from egshape.dims import Dim
from egshape.ir.types import itemsize
from egshape.lower.host.checks import Checks
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


class Outputs(Protocol):
    """What a machine's memory asks of the program's."""

    def given(self, buffer: Buffer) -> str:
        """An output's memory: the caller's where it is large enough, else new."""

    def grow(self, buffer: Buffer, need: str) -> str:
        """Memory of so many bytes for a buffer whose size only data tells: what it has, if that is enough."""


class Memory(Protocol):
    """Writes where memory comes from."""

    @property
    def gap(self) -> int:
        """Bytes between two buffers of the arena."""

    @property
    def constants(self) -> str:
        """The table of the addresses of the constants."""

    def allocate(self, size: str, what: Request) -> str:
        """A pointer to new memory of i64 ``size`` bytes; leaves the program where there is none."""

    def free(self, pointer: str) -> None:
        """Give memory back; the pointer may be null. Never leaves the program."""

    def further(self) -> Sequence[str]:
        """Bytes (i64, multiples of 64) of further pieces of the arena."""

    def laid_out(self, arena: str, total: str, rooms: Sequence[str], further: Sequence[str]) -> None:
        """The arena is laid out: its memory, its bytes, the room of each buffer, where the further pieces lie."""

    def output(self, buffer: Buffer, outputs: Outputs) -> str:
        """Memory of an output."""

    def grown(self, buffer: Buffer, size: Dim) -> None:
        """A buffer of so many bytes whose size only data tells has memory."""


class Launcher(Protocol):
    """Writes how steps are run."""

    @property
    def functions(self) -> dict[str, str]:
        """Texts of functions of this processor, by their names."""

    @property
    def bodies(self) -> dict[str, Kernel]:
        """Kernels by the names of their functions; equal kernels once."""

    def run(self, step: Run) -> None:
        """Run a kernel."""

    def copy(self, step: Copy) -> None:
        """Copy a buffer."""

    def timed(self, name: str, traffic: Dim, flops: Dim) -> AbstractContextManager[None]:
        """Times what is written inside under a name, where the caller wants times."""


class Values(Protocol):
    """Writes how values of buffers get to the code that decides, and to Python."""

    def scalar(self, buffer: Buffer, element: int = 0) -> str:
        """An element of a buffer as a value that the program can decide by."""

    def defer(self, step: CheckValue) -> bool:
        """Whether a check of data was written in a way of its own, which ``settle`` looks at."""

    def settle(self) -> None:
        """Leave the program if a check that was deferred does not hold."""

    def for_python(self, buffers: Sequence[Buffer], read: bool) -> Sequence[str]:
        """Where Python finds buffers that it reads, or is to write."""

    def from_python(self, buffers: Sequence[Buffer]) -> None:
        """Python has written buffers where it found them."""


class StepWriter(Protocol):
    """Writes a program's steps, each as its kind demands."""

    def ready(self, buffer: Buffer) -> None:
        """Memory for a buffer whose size was not known at the entry; a larger one if a loop made it grow."""

    def step(self, step: Step) -> None:
        """Write a step."""

    def steps(self, steps: Sequence[Step]) -> None:
        """Write steps in order, as the machine takes them."""


class Order(Protocol):
    """Writes steps in the order in which the machine gets them, alone or in groups."""

    def program(self, steps: Sequence[Step], writer: StepWriter) -> None:
        """All steps of a program."""

    def steps(self, steps: Sequence[Step], writer: StepWriter) -> None:
        """Steps of a part of it."""


class InOrder:
    """One step after the other."""

    def program(self, steps: Sequence[Step], writer: StepWriter) -> None:
        """All steps of a program."""
        self.steps(steps, writer)

    def steps(self, steps: Sequence[Step], writer: StepWriter) -> None:
        """Steps of a part of it."""
        for step in steps:
            writer.step(step)


class Target(Protocol):
    """A machine that runs programs."""

    @property
    def memory(self) -> Memory: ...
    @property
    def launcher(self) -> Launcher: ...
    @property
    def values(self) -> Values: ...
    @property
    def order(self) -> Order: ...

    def declarations(self) -> str:
        """Functions that the module needs."""

    def manifest(self) -> dict[str, Any]:
        """What a runtime must know."""

    def begin(self) -> None:
        """What the entry does first. Nothing has failed yet."""

    def finish(self) -> None:
        """What follows the last step of a program that did not fail."""

    def end(self) -> None:
        """What the entry does last, failed or not."""


Maker: TypeAlias = Callable[[Entry, Checks], Target]
