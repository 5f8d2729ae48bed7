"""Sizes and indices in the code of a target, each computed once on every path: what all writers of text share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from egshape.dims import Dim, FloorDiv, Relu, Symbol
from egshape.dims.core import Atom


class Frames:
    """Names of what was computed, in frames that follow dominance."""

    def __init__(self) -> None:
        self.frames: list[dict[object, str]] = [{}]

    @contextmanager
    def frame(self) -> Iterator[None]:
        """What is computed inside is not reused outside."""
        self.frames.append({})
        yield
        self.frames.pop()

    def find(self, key: object) -> str | None:
        """A name for something computed earlier on every path to here."""
        for frame in reversed(self.frames):
            if key in frame:
                return frame[key]
        return None

    def keep(self, key: object, name: str) -> str:
        """Remember a name."""
        self.frames[-1][key] = name
        return name


class Sizes(Frames, ABC):
    """Writes sizes: sums of products of symbols and atoms, which a target says how to write. ``symbols`` maps a size
    or index to its name."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols: dict[str, str] = {}

    def dim(self, dim: Dim) -> str:
        """A size or index."""
        if dim.const is not None:
            return self.number(dim.const)
        found = self.find(dim)
        if found is not None:
            return found
        total = ""
        for mono, factor in dim.terms:
            term = ""
            for atom, power in mono:
                for _ in range(power):
                    part = self.atom(atom)
                    term = self.times(term, part) if term else part
            if factor != 1 or not mono:
                number = self.number(factor)
                term = self.times(term, number) if term else number
            total = self.plus(total, term) if total else term
        return self.whole(dim, total)

    def atom(self, atom: Atom) -> str:
        """A factor of a size."""
        if isinstance(atom, Symbol):
            return self.symbol(atom)
        found = self.find(atom)
        if found is not None:
            return found
        if isinstance(atom, Relu):
            return self.keep(atom, self.relu(atom.arg))
        assert isinstance(atom, FloorDiv)
        return self.keep(atom, self.floor_divide(atom))

    def symbol(self, symbol: Symbol) -> str:
        """The value of a symbol."""
        return self.symbols[symbol.name]

    def whole(self, dim: Dim, total: str) -> str:
        """What a size is called from here on."""
        return self.keep(dim, total)

    @abstractmethod
    def number(self, value: int) -> str:
        """A number."""

    @abstractmethod
    def times(self, one: str, two: str) -> str:
        """A product."""

    @abstractmethod
    def plus(self, one: str, two: str) -> str:
        """A sum."""

    @abstractmethod
    def relu(self, arg: Dim) -> str:
        """The size, 0 if it is below; a name."""

    @abstractmethod
    def floor_divide(self, atom: FloorDiv) -> str:
        """A quotient, rounded down; a divisor of 0 stands for some number in code that does not run; a name."""
