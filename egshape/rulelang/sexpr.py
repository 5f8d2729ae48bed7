"""A reader of s-expressions that keeps positions and comments, for `.egg` files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from egshape.errors import EgshapeError


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Atom:
    """A symbol, keyword, number or string literal; a string keeps its quotes."""

    text: str
    at: Position

    def __str__(self) -> str:
        return self.text

    @property
    def is_string(self) -> bool:
        return self.text.startswith('"')

    @property
    def value(self) -> str:
        """The text without quotes and escapes."""
        if not self.is_string:
            return self.text
        return _ESCAPE.sub(lambda m: _ESCAPED.get(m.group(1), m.group(1)), self.text[1:-1])


@dataclass(frozen=True, slots=True)
class List:
    """A parenthesised list."""

    items: tuple[SExpr, ...]
    at: Position

    def __str__(self) -> str:
        return "(" + " ".join(map(str, self.items)) + ")"

    @property
    def head(self) -> str:
        """The leading symbol, or "" where there is none."""
        first = self.items[0] if self.items else None
        return first.text if isinstance(first, Atom) else ""


SExpr = Atom | List
Lexeme = tuple[str, str, Position]
"""The kind, text and place of a token."""

DEEPEST = 100
"""How deep lists may be nested: what reads them goes down recursively, the engine too."""


@dataclass(frozen=True, slots=True)
class Comment:
    """One `;` comment, with its leading semicolons."""

    text: str
    at: Position


_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_TOKEN = re.compile(
    r"""[^\S\n]*(?:(?P<open>\()|(?P<close>\))|(?P<newline>\n)|(?P<atom>[^\s();"]+)|(?P<comment>;[^\n]*)"""
    r"""|(?P<string>"(?:[^"\\]|\\.)*")|(?P<end>\Z)|(?P<unclosed>"))""",
    re.DOTALL,
)


def _fail(message: str, at: Position) -> EgshapeError:
    return EgshapeError(message, where=str(at), hint="balance the parentheses and quotes", code="rules")


def tokens(text: str, file: str) -> Iterator[Lexeme]:
    """All tokens of a text, comments too. Raises EgshapeError at an open string."""
    line, before = 1, -1  # the place right before the line
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind == "newline":
            line, before = line + 1, match.end() - 1
        elif kind != "end":
            token, start = match[kind], match.start(kind)
            at = Position(file, line, start - before)
            if kind == "unclosed":
                raise _fail("a string literal is not closed", at)
            yield kind, token, at
            if kind == "string" and "\n" in token:
                line, before = line + token.count("\n"), start + token.rindex("\n")


def read(text: str, file: str = "<text>") -> tuple[SExpr | Comment, ...]:
    """All top-level expressions and comments of `text`, in order; comments inside a list are dropped.

    Raises EgshapeError (code "rules") at an unbalanced parenthesis or an open string.
    """
    return parsed(tokens(text, file))


def parsed(found: Iterable[Lexeme]) -> tuple[SExpr | Comment, ...]:
    """What ``read`` gives, of tokens."""
    top: list[SExpr | Comment] = []
    open_lists: list[tuple[Position, list[SExpr]]] = []

    def add(item: SExpr) -> None:
        if open_lists:
            open_lists[-1][1].append(item)
        else:
            top.append(item)

    for kind, token, at in found:
        if kind == "comment":
            if not open_lists:
                top.append(Comment(token, at))
        elif kind == "open":
            if len(open_lists) == DEEPEST:
                raise _fail(f"more than {DEEPEST} parentheses inside each other", at)
            open_lists.append((at, []))
        elif kind == "close":
            if not open_lists:
                raise _fail("a ')' without its '('", at)
            opened, items = open_lists.pop()
            add(List(tuple(items), opened))
        else:
            add(Atom(token, at))
    if open_lists:
        raise _fail("a '(' is never closed", open_lists[-1][0])
    return tuple(top)


def read_lists(text: str, file: str = "<text>") -> tuple[List, ...]:
    """The top-level lists of `text`; anything else at the top level is a syntax error."""
    found: list[List] = []
    for item in read(text, file):
        if isinstance(item, Atom):
            raise EgshapeError(
                f"'{item.text}' stands outside a command",
                where=str(item.at),
                hint="put it inside parentheses, or after ';' if it is a comment",
                code="rules",
            )
        if isinstance(item, List):
            found.append(item)
    return tuple(found)
