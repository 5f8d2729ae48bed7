"""The text of a type as a person writes it, ``f32[n, 4*m]``, and the variables that it may hold.

``d[n]``: a lower-case word that is no dtype stands for any dtype, the same one wherever it is written. ``f32[*s, k]``:
``*s`` stands for any number of sizes, the same ones wherever it is written; they are named ``s_0``, ``s_1``, ...
``f32[..., k]`` says nothing of the sizes that ``...`` stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, symbol
from egshape.dims.text import Scanner
from egshape.errors import TypeMismatch
from egshape.ir.types import DTYPES, TEXT
from egshape.spelling import near

_NAMED = re.compile(r"\s*(?P<name>[^:\[\]`]+?|`(?:[^`]|``)+`)\s*:(?P<type>.*)", re.DOTALL)
_VARIABLE = re.compile(r"[a-z_][a-z0-9_]*")
_LIKE_A_DTYPE = re.compile(r"(f|i|u|ui|s|si|c|bf|b|float|int|uint|sint|complex|bfloat|fp)\d+\w*")
_OTHER_NAMES = frozenset(
    [
        "bool",
        "boolean",
        "byte",
        "char",
        "complex",
        "double",
        "float",
        "half",
        "int",
        "long",
        "short",
        "str",
        "string",
        "uint",
    ]
)
_RANKS = "say ... for sizes of which nothing is said, *s for sizes that another type has too"


@dataclass(frozen=True)
class Size:
    """A size, and how a person wrote it."""

    dim: Dim
    text: str


Sizes = tuple[Size | None, ...]
"""None: nothing is said of that axis."""


@dataclass(frozen=True)
class Rest:
    """The sizes beside a list of any length: ``[n, *s, k]``. ``name`` is "" for ``...``."""

    before: Sizes
    name: str
    after: Sizes


@dataclass(frozen=True)
class Annotation:
    """A type as a person writes it. None: nothing is said of it. ``variable``: the name of the dtype, "" where it has
    none. With ``rest`` the shape is not known until the rank is."""

    text: str
    dtype: str | None = None
    shape: Sizes | None = None
    variable: str = ""
    rest: Rest | None = None


def annotation(text: str) -> Annotation:
    """The type that a text writes: ``f32[n, ?]``, ``?[n]``, ``f32[*]``, ``f32``, ``d[*s, n]``. Raises ParseError with
    the column."""
    return _Reader(text).annotation()


def named(text: str) -> tuple[str, Annotation]:
    """Name and type of ``x: f32[n]``; the name is "" where there is none. Raises ParseError."""
    found = _NAMED.fullmatch(text)
    if found is None:
        return "", annotation(text.strip())
    name = found["name"]
    return name.strip("`").replace("``", "`") if name.startswith("`") else name, annotation(found["type"].strip())


def without_variables(
    said: Sequence[tuple[str, Annotation]], types: Sequence[tuple[str, int | None]]
) -> list[Annotation]:
    """Annotations for values of these dtypes and ranks (None: not known), with variables replaced by what they stand
    for. ``said``: whose each is, and the annotation. Raises TypeMismatch for a variable that would stand for two
    dtypes, or for two numbers of sizes, and for a rank below the number of sizes that are written."""
    dtypes: dict[str, tuple[str, str]] = {}
    counts: dict[str, tuple[int, str]] = {}
    return [
        _with_rank(_with_dtype(each, who, dtype, dtypes), who, rank, counts)
        for (who, each), (dtype, rank) in zip(said, types, strict=True)
    ]


def _with_dtype(said: Annotation, who: str, dtype: str, known: dict[str, tuple[str, str]]) -> Annotation:
    if not said.variable:
        return said
    wanted, by = known.setdefault(said.variable, (dtype, who))
    if wanted != dtype:
        raise TypeMismatch(
            f"is {dtype}, where {said.text} is said of it, and {said.variable} is {wanted} by {by}", where=who
        )
    return replace(said, dtype=dtype, variable="")


def _with_rank(said: Annotation, who: str, rank: int | None, known: dict[str, tuple[int, str]]) -> Annotation:
    rest = said.rest
    if rest is None or rank is None:
        return said
    count = rank - len(rest.before) - len(rest.after)
    if count < 0:
        raise TypeMismatch(f"has rank {rank}, where {said.text} is said of it", where=who)
    sizes: Sizes = (None,) * count
    if rest.name:
        wanted, by = known.setdefault(rest.name, (count, who))
        if wanted != count:
            told = f"*{rest.name} are {wanted} sizes by {by}"
            raise TypeMismatch(f"has rank {rank}, where {said.text} is said of it, and {told}", where=who)
        sizes = tuple(Size(symbol(name), name) for name in (f"{rest.name}_{place}" for place in range(count)))
    return replace(said, shape=(*rest.before, *sizes, *rest.after), rest=None)


class _Reader(Scanner):
    """Reads a type."""

    def annotation(self) -> Annotation:
        said = Annotation(self.text) if self._unsaid() else self._dtype()
        if self.accept("["):
            said = self._shape(said)
        if not self.at_end:
            self.fail(f"expected the end, found {self.rest()}")
        return said

    def _unsaid(self) -> bool:
        if not self.text.startswith("?", self.pos):
            return False
        self.pos += 1
        self._skip()
        return True

    def _dtype(self) -> Annotation:
        if self.at_end:
            self.fail("expected a dtype, or ?")
        at, name = self.pos, self.name()
        if name in DTYPES or name == TEXT:
            return Annotation(self.text, name)
        if not _VARIABLE.fullmatch(name) or _LIKE_A_DTYPE.fullmatch(name) or name in _OTHER_NAMES:
            like = near(name, DTYPES)
            self.pos = at
            self.fail(f"{name!r} is no dtype", hint=f"near are {', '.join(like)}" if like else "one is f32, or ?")
        return Annotation(self.text, variable=name)

    def _shape(self, said: Annotation) -> Annotation:
        sizes: list[Size | None] = []
        before: Sizes | None = None
        name = ""
        while not self.accept("]"):
            at = self.pos
            rest = self._rest()
            if rest is not None and before is not None:
                self.pos = at
                self.fail("a shape has one list of any length", hint=_RANKS)
            if rest is not None:
                before, name, sizes = tuple(sizes), rest, []
            else:
                sizes.append(None if self._unsaid() else Size(self.expression(), self.text[at : self.pos].strip()))
            if not self.accept(","):
                self.expect("]")
                break
        if before is None:
            return replace(said, shape=tuple(sizes))
        if not (name or before or sizes):
            return said
        return replace(said, rest=Rest(before, name, tuple(sizes)))

    def _rest(self) -> str | None:
        """The name of a list of sizes, "" where it has none; None where no list stands here."""
        if self.text.startswith("...", self.pos):
            self.pos += len("...")
            self._skip()
            return ""
        if not self.accept("*"):
            return None
        return "" if self.peek() in (",", "]") else self.name()
