"""What many parts of a report say is kept once, in tables; the parts hold numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from egshape.dims import Dim
from egshape.ir.types import TensorType
from egshape.report import Step
from egshape.viz.look import Sizes

SHORT = 12
"""A size with a longer text is told by its number."""


class Tables:
    """Sizes, types, steps and texts, in the order in which they were first needed."""

    def __init__(self, sizes: Sizes, sources: Mapping[str, str]) -> None:
        self._looks = sizes
        self._sources = sources
        self._sizes: dict[Dim, int] = {}
        self._numbers: dict[Dim, int] = {}
        self._types: dict[tuple[str, tuple[int, ...] | None], int] = {}
        self._steps: dict[Step, int] = {}
        self._texts: dict[str, int] = {}
        self.sizes: list[list[Any]] = []

    @property
    def types(self) -> list[tuple[str, tuple[int, ...] | None]]:
        """Dtype and sizes of each type; None of a type without a rank."""
        return list(self._types)

    @property
    def steps(self) -> list[list[Any]]:
        """Each step: its rule, what it gives, from what, where."""
        return [[self.text(each.rule), each.to, list(each.from_), self.text(each.location)] for each in self._steps]

    @property
    def texts(self) -> list[str]:
        """Texts that are repeated."""
        return list(self._texts)

    def text(self, text: str) -> int:
        """The number of a text."""
        return self._texts.setdefault(text, len(self._texts))

    def type(self, type: TensorType) -> int:
        """The number of a type."""
        sizes = None if type.shape is None else tuple(map(self.size, type.shape))
        return self._types.setdefault((type.dtype, sizes), len(self._types))

    def why(self, steps: Iterable[Step]) -> list[int]:
        """The numbers of steps."""
        return [self._steps.setdefault(each, len(self._steps)) for each in steps]

    def size(self, dim: Dim) -> int:
        """The number of a size. A row of the table: its short text, colour, and for one that is no number its whole
        text where that is another, the form by which equal sizes are known where that is another, its symbols and where
        each comes from."""
        if dim in self._sizes:
            return self._sizes[dim]
        self._sizes[dim] = len(self.sizes)
        text = str(dim)
        row: list[Any] = [self._short(dim, text), self._looks.colour(dim)]
        if dim.const is None:
            form = str(self._looks.form(dim))
            names = sorted(dim.symbols())
            row += [text if text != row[0] else "", form if form != text else "", names]
            row.append([self._sources.get(name, name) for name in names])
        self.sizes.append(row)
        return self._sizes[dim]

    def short(self, type: TensorType) -> str:
        """A type as boxes show it."""
        if type.shape is None:
            return f"{type.dtype}[*]"
        return f"{type.dtype}[{', '.join(self.sizes[self.size(dim)][0] for dim in type.shape)}]"

    def _short(self, dim: Dim, text: str) -> str:
        """A short text as it is; a long one by a number, equal sizes by one."""
        if len(text) <= SHORT:
            return text
        form = self._looks.form(dim)
        shown = str(form)
        return shown if len(shown) <= SHORT else f"#{self._numbers.setdefault(form, len(self._numbers) + 1)}"
