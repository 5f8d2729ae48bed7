"""A function of a Python file that says something of rules, and where in the file things stand."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

from egshape.rulelang.patterns import shown
from egshape.rulelang.rulefile import Example
from egshape.rulelang.sexpr import Atom, Position


class Source:
    """A function of an author: its file as messages name it, the file's lines, the function's first line from its
    decorator on, and the place of its name. Raises TypeError for what is no function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if not inspect.isfunction(function):
            raise TypeError(f"{function!r} is no function that can say what a rule states or a size is")
        self.function = function
        self.file = Path(shown(function.__code__.co_filename))
        self.lines = linecache.getlines(str(self.file))
        self.first = function.__code__.co_firstlineno
        self.last = max(line or 0 for *_, line in function.__code__.co_lines())
        self.at = self.place("def ", 4)

    @property
    def item(self) -> str:
        """The name by which it is found."""
        return f"{self.function.__module__}:{self.function.__name__}"

    @property
    def module(self) -> str:
        """The last part of the module's name; of a program, the name of its file."""
        module: str = self.function.__module__
        return self.file.stem if module == "__main__" else module.rpartition(".")[2]

    @property
    def said(self) -> list[str]:
        """The lines of the docstring."""
        return inspect.cleandoc(self.function.__doc__ or "").splitlines()

    @property
    def about(self) -> str:
        """The docstring's first line, else the function's name as words."""
        said = self.said
        return said[0] if said else self.function.__name__.replace("_", " ")

    def atom(self, text: str) -> Atom:
        """A word that stands for the whole function."""
        return Atom(text, self.at)

    def place(self, text: str, inside: int = 0) -> Position:
        """The first place of a text from the decorator on, else the function's first line."""
        for number, line in enumerate(self.lines[self.first - 1 : self.last], start=self.first):
            if text in line:
                return Position(str(self.file), number, line.index(text) + inside + 1)
        return Position(str(self.file), self.first, 1)

    def where(self, example: Example) -> str:
        """file:line of an example."""
        at = self.place(example.before)
        return f"{at.file}:{at.line}"
