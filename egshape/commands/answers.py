"""The JSON of the commands that say little: ``run``, ``compile``, ``viz``, ``shapelib``, ``rules fmt``.

Every top-level object carries ``version``; fields are only ever added.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from egshape.report import Json


class Output(Json):
    """An array that a run gave."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Ran(Json):
    """``run --json``; ``file``: where the arrays were written."""

    version: Literal[1] = 1
    outputs: tuple[Output, ...]
    file: str | None = None


class File(Json):
    """A file that was written."""

    file: str
    bytes: int

    @classmethod
    def of(cls, path: Path) -> File:
        """What stands at a path."""
        return cls(file=str(path), bytes=path.stat().st_size)


class Version(Json):
    """Native code that runs where ``guard`` holds; "" is any other size."""

    guard: str
    code_bytes: int


class Compiled(Json):
    """``compile --json``; ``memory``: the bytes that a call takes, as text."""

    version: Literal[1] = 1
    files: tuple[File, ...]
    versions: tuple[Version, ...] = ()
    memory: str


class Drawn(Json):
    """``viz --json``: the file that was written, else the Graphviz text."""

    version: Literal[1] = 1
    stage: str
    file: File | None = None
    text: str | None = None


class LaidOut(Json):
    """``rules fmt --json``: the files whose layout changed, or would."""

    version: Literal[1] = 1
    files: int
    changed: tuple[str, ...]


class ShapeFunctionEntry(Json):
    """A shape function, the operands that it is tried on, and how it differs from what the op gives ("" if not)."""

    op: str
    about: str
    cases: tuple[str, ...]
    wrong: str = ""


class ShapeFunctions(Json):
    """``shapelib list --json`` and ``shapelib check --json``; ``known_to``: how many of them a peer was asked about."""

    version: Literal[1] = 1
    functions: tuple[ShapeFunctionEntry, ...]
    known_to: dict[str, int] = Field(default_factory=dict)
