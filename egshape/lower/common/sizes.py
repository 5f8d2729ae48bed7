"""Sizes and indices in the code of a target, each computed once on every path: what all writers of text share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from egshape.dims import Dim, FloorDiv, Relu, Symbol
from egshape.dims.core import Atom

LARGEST = float(2**46)
"""Bytes that a buffer may have, and the size that an axis may have: beyond, no address computation would be safe."""


def cannot_wrap(dim: Dim) -> bool:
    """Whether a size is a number of 64 bits, or a small multiple of symbols, which are at most ``LARGEST``, plus a
    constant."""
    if dim.const is not None:
        return -(2**63) <= dim.const < 2**63
    return len(dim.terms) < 16 and all(
        abs(factor) < 2**10 and all(isinstance(atom, Symbol) and power == 1 for atom, power in mono) and len(mono) < 2
        for mono, factor in dim.terms
    )


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
        """A size or index, which is known to fit into 64 bits."""
        if dim.const is not None:
            return self.number(dim.const)
        found = self.find(dim)
        return self.whole(dim, dim, self._sum(dim, self.times, self.plus)) if found is None else found

    def wrapped(self, dim: Dim) -> str:
        """A size or index as a value, of which 64 bits count."""
        if cannot_wrap(dim):
            return self.dim(dim)
        key = ("wrapped", dim)
        found = self.find(key)
        return self.whole(key, dim, self._sum(dim, self.times_wrapped, self.plus_wrapped)) if found is None else found

    def _sum(self, dim: Dim, times: Callable[[str, str], str], plus: Callable[[str, str], str]) -> str:
        total = ""
        for mono, factor in dim.terms:
            term = ""
            for atom, power in mono:
                for _ in range(power):
                    part = self.atom(atom)
                    term = times(term, part) if term else part
            if factor != 1 or not mono:
                number = self.number(factor)
                term = times(term, number) if term else number
            total = plus(total, term) if total else term
        return total

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

    def whole(self, key: object, dim: Dim, total: str) -> str:
        """What a size is called from here on, where it is looked for by a key."""
        return self.keep(key, total)

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
    def times_wrapped(self, one: str, two: str) -> str:
        """A product of which 64 bits count."""

    @abstractmethod
    def plus_wrapped(self, one: str, two: str) -> str:
        """A sum of which 64 bits count."""

    @abstractmethod
    def relu(self, arg: Dim) -> str:
        """The size, 0 if it is below; a name."""

    @abstractmethod
    def floor_divide(self, atom: FloorDiv) -> str:
        """A quotient, rounded down; a divisor of 0 stands for some number in code that does not run; a name."""
