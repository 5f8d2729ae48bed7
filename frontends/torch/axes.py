"""What the author of a program says of the axes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egshape.dims import Dim, const, symbol


@dataclass(frozen=True)
class Axis:
    """An open axis: its size, a symbol or an expression of one (``2*d``), None where it has no name; and the least and
    greatest size that the program takes."""

    size: Dim | None = None
    low: int | None = None
    high: int | None = None

    @property
    def name(self) -> str | None:
        """The name of a size that is a symbol."""
        return None if self.size is None else label_of(self.size)

    def takes(self, number: int) -> bool:
        """Whether the axis may have this size, whatever others have."""
        form = (1, 0) if self.size is None else linear(self.size)
        if form is not None and ((number - form[1]) % form[0] or number < form[1]):
            return False
        return (self.low or 0) <= number <= (number if self.high is None else self.high)


Places = Mapping[tuple[int, int], Axis]
"""Of inputs, by their place and the axis."""


def label_of(size: Dim) -> str | None:
    """The name of a size that is a symbol."""
    names = size.symbols()
    (name, *rest) = names or ("",)
    return name if name and not rest and size is symbol(name) else None


def linear(size: Dim) -> tuple[int, int] | None:
    """The factor and offset of ``factor * s + offset`` with a positive factor; None for a size of another form."""
    (name,) = size.symbols()
    offset = size.substitute({name: const(0)}).const
    factor = None if offset is None else (size.substitute({name: const(1)}) - offset).const
    if offset is None or factor is None or factor <= 0 or size is not symbol(name) * factor + offset:
        return None
    return factor, offset
