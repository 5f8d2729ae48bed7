"""Text of one CUDA C++ function: lines in blocks, names, sizes as i64 or as 32 bits that wrap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from egshape.dims import Dim, FloorDiv
from egshape.dims.core import is_nonnegative, is_positive
from egshape.lower.common.sizes import Sizes


class Writer(Sizes):
    """Collects the lines of a function. ``narrow``: sizes and indices have 32 bits."""

    def __init__(self, narrow: bool) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.narrow = narrow
        self.index = "ui32" if narrow else "i64"
        """The type of sizes and indices."""
        self.count = 0
        self.depth = 1

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("  " * self.depth + text)

    def fresh(self, hint: str) -> str:
        """A new name."""
        self.count += 1
        return f"{hint}{self.count}"

    def value(self, type: str, text: str) -> str:
        """The name of something that is computed here."""
        name = self.fresh("t")
        self.line(f"{type} {name} = {text};")
        return name

    def place(self, text: str) -> str:
        """The name of a size or index that is computed here."""
        return self.value(f"const {self.index}", text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A block in braces; what is computed inside is not reused outside."""
        self.line(head + " {")
        self.depth += 1
        with self.frame():
            yield
        self.depth -= 1
        self.line("}")

    # -- sizes --------------------------------------------------------------------------------------------------------

    def number(self, value: int) -> str:
        """A number of the type of sizes, of which as many bits count as that has."""
        if self.narrow:
            return f"{value % 2**32}u"
        number = (value + 2**63) % 2**64 - 2**63
        return f"{number}ll" if number > -(2**63) else f"({number + 1}ll - 1)"

    def times(self, one: str, two: str) -> str:
        """A product."""
        return f"{one} * {two}"

    def plus(self, one: str, two: str) -> str:
        """A sum."""
        return f"{one} + {two}"

    def times_wrapped(self, one: str, two: str) -> str:
        """A product of which the bits of the type count: one without a sign."""
        return self.times(one, two) if self.narrow else f"(ui64){one} * (ui64){two}"

    def plus_wrapped(self, one: str, two: str) -> str:
        """A sum, the same."""
        return self.plus(one, two) if self.narrow else f"(ui64){one} + (ui64){two}"

    def whole(self, key: object, dim: Dim, total: str) -> str:
        """A name for what is none yet."""
        return total if total.isidentifier() else self.keep(key, self.place(total))

    def signed(self, dim: Dim) -> str:
        """A size as i64 or i32, which may be below 0."""
        return f"(i32){self.dim(dim)}" if self.narrow else self.dim(dim)

    def signed_wrapped(self, dim: Dim) -> str:
        """The same of a value of which 64 bits count."""
        return self.signed(dim) if self.narrow else self.wrapped(dim)

    def relu(self, arg: Dim) -> str:
        """The size, 0 if it is below."""
        return self.place(f"eg_relu({self.signed(arg)})")

    def floor_divide(self, atom: FloorDiv) -> str:
        """A quotient, rounded down."""
        if is_nonnegative(atom.num) and is_positive(atom.den):
            return self.place(f"{self.dim(atom.num)} / {self.dim(atom.den)}")
        if is_nonnegative(atom.num) and is_nonnegative(atom.den):
            return self.place(f"eg_div({self.dim(atom.num)}, {self.dim(atom.den)})")
        return self.place(f"eg_floordiv({self.signed(atom.num)}, {self.signed(atom.den)})")
