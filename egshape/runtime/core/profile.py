"""What kernels cost, and what memory a function takes: for people, and as data."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from egshape.runtime.core.shown import in_bytes


@dataclass(frozen=True)
class KernelTime:
    """One kernel over a run. ``calls`` in one run, ``seconds`` of all of them; ``bytes`` of the buffers that it
    touches, each counted once a call; ``flops``: arithmetic operations, every function counted as one."""

    name: str
    calls: float
    seconds: float
    bytes: float
    flops: float

    @property
    def gbps(self) -> float:
        """Gigabytes a second."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gflops(self) -> float:
        """Billions of operations a second."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True)
class Profile:
    """The kernels of a run, the slowest first. ``seconds``: a whole run, what lies between kernels included."""

    kernels: tuple[KernelTime, ...]
    seconds: float
    runs: int

    def rows(self) -> Iterable[tuple[str, ...]]:
        """The table's cells, its heading first."""
        yield "kernel", "calls", "us", "share", "GB/s", "GFLOP/s"
        for each in self.kernels:
            share = each.seconds / self.seconds if self.seconds else 0.0
            yield (
                each.name,
                f"{each.calls:g}",
                f"{each.seconds * 1e6:.1f}",
                f"{share:.0%}",
                f"{each.gbps:.1f}",
                f"{each.gflops:.1f}",
            )
        rest = max(0.0, self.seconds - sum(each.seconds for each in self.kernels))
        share = rest / self.seconds if self.seconds else 0.0
        yield "between kernels", "", f"{rest * 1e6:.1f}", f"{share:.0%}", "", ""
        yield "a run", "", f"{self.seconds * 1e6:.1f}", "", "", ""

    def __str__(self) -> str:
        rows = list(self.rows())
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        head, *rest = (
            "".join(
                f"<td style='text-align:{'left' if k == 0 else 'right'}'>{html.escape(cell)}</td>"
                for k, cell in enumerate(row)
            )
            for row in self.rows()
        )
        return f"<table><thead><tr>{head}</tr></thead>" + "".join(f"<tr>{row}</tr>" for row in rest) + "</table>"


LONGEST = 120
"""Letters of an expression that the text of ``Memory`` shows."""


@dataclass(frozen=True)
class Memory:
    """Bytes that a function holds beside its inputs and outputs: ``arena`` for one call at a time, as an expression
    over the sizes of its inputs, ``constants``, and the arena at likely sizes. A batch that is run in parts takes that
    of the parts that run at a time."""

    arena: str
    constants: int
    likely: tuple[tuple[Mapping[str, int], int], ...] = ()

    def in_short(self) -> str:
        """The bytes at likely sizes; the expression where no size is likely."""
        arena = ", ".join(self._likely()) or f"{self._expression()} bytes"
        return f"{arena} for a call, {in_bytes(self.constants)} of constants"

    def _likely(self) -> Iterator[str]:
        for sizes, amount in self.likely:
            at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            yield in_bytes(amount) + (f" at {at}" if at else "")

    def _expression(self) -> str:
        return self.arena if len(self.arena) <= LONGEST else f"{self.arena[:LONGEST].rpartition(' ')[0]} ..."

    def __str__(self) -> str:
        found = [*self._likely()]
        if not self.arena.isdecimal() or not found:
            found.append(f"{self._expression()} bytes")
        return f"{' ('.join(found)}{')' * (len(found) - 1)} for a call, {in_bytes(self.constants)} of constants"
