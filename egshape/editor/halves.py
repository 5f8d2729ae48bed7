"""Text that is being written: what can be read of it, and what stands at a place of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from egshape.errors import EgshapeError
from egshape.rulelang.diagnostic import Diagnostic
from egshape.rulelang.sexpr import Position, read

_WORD = re.compile(r'[^\s();"]+')


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: where it begins (counted from 1), and what it stands in. ``head``: the first word of the list
    that it is in, or that its list is in, where it is the first one itself (``opens``)."""

    text: str
    at: Position
    head: str = ""
    opens: bool = False
    quoted: bool = False
    comment: bool = False


@lru_cache(maxsize=128)
def readable(text: str, file: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text with empty lines in place of the commands that cannot be read, and what is wrong with these.

    A command begins at the start of a line, so that one whose end is not written yet takes none of the others with
    it."""
    try:
        read(text, file)
    except EgshapeError:
        lines = text.split("\n")
        problems = []
        for first, last in _pieces(lines):
            try:
                read("\n".join(lines[first:last]), file)
            except EgshapeError as error:
                problems.append(_placed(error, file, first))
                lines[first:last] = [line if _is_above(line) else "" for line in lines[first:last]]
        return "\n".join(lines), tuple(problems)
    return text, ()


def _pieces(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The first line and the end of each command, with its examples; and of what stands before the first."""
    starts = [0, *(number for number, line in enumerate(lines) if number and line[:1].strip(" \t\r;"))]
    yield from zip(starts, [*starts[1:], len(lines)], strict=True)


def _is_above(line: str) -> bool:
    """Whether a line is empty, or of the header or the comment above a command."""
    return not line.strip() or (line.startswith(";") and not line.startswith(";;"))


def _placed(error: EgshapeError, file: str, lines: int) -> Diagnostic:
    *_, line, column = error.where.rsplit(":", 2)
    return Diagnostic("syntax", error.message, Position(file, int(line) + lines, int(column)), error.hint)


def word_at(text: str, line: int, column: int) -> Word | None:
    """The word that a place (both counted from 1) is in, or right behind; None where there is none. Never raises."""
    lines = text.split("\n")
    if not 0 < line <= len(lines):
        return None
    here = lines[line - 1]
    for found in _WORD.finditer(here):
        if found.start() < column <= found.end() + 1:
            word = Word(found.group(), Position("", line, found.start() + 1))
            return _inside(lines, line, found.start(), word)
    return None


def around(text: str, line: int, column: int) -> Word:
    """What a place stands in, with the part of a word that is in front of it ("" for none). Never raises."""
    lines = text.split("\n")
    line = max(1, min(line, len(lines)))
    before = lines[line - 1][: column - 1]
    begun = re.search(r'[^\s();"]*$', before)
    start = begun.start() if begun else len(before)
    return _inside(lines, line, start, Word(before[start:], Position("", line, start + 1)))


def _inside(lines: list[str], line: int, start: int, word: Word) -> Word:
    """The word with what it stands in: what is open from the start of its command on."""
    first = line - 1
    while first and not lines[first].startswith(("(", ";")):
        first -= 1
    before = "\n".join([*lines[first : line - 1], lines[line - 1][:start]])
    heads, quoted, comment = _open(before)
    opens = before.endswith("(") and not quoted and not comment
    outer = heads[: len(heads) - opens]
    return replace(word, head=outer[-1] if outer else "", opens=opens, quoted=quoted, comment=comment)


_LEXED = re.compile(
    r'(?P<comment>;[^\n]*)|(?P<string>"(?:[^"\\]|\\.)*"?)|(?P<open>\(\s*(?P<head>[^\s();"]*))|(?P<close>\))'
)


def _open(text: str) -> tuple[list[str], bool, bool]:
    """The heads of the lists that are open at the end of a text, and whether a string or a comment is open there."""
    heads: list[str] = []
    quoted = comment = False
    for found in _LEXED.finditer(text):
        if found["open"]:
            heads.append(found["head"])
        elif found["close"] and heads:
            heads.pop()
        at_end = found.end() == len(text)
        quoted = at_end and found["string"] is not None and not _closed(found["string"])
        comment = at_end and found["comment"] is not None
    return heads, quoted, comment


def _closed(string: str) -> bool:
    return len(string) > 1 and re.fullmatch(r'"(?:[^"\\]|\\.)*"', string, re.DOTALL) is not None
