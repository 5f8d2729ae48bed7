"""One layout for `.egg` files: `egshape rules fmt`. Where lines break inside of a command is the author's choice, as is
where comments stand; spaces, indentation and empty lines are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from egshape.errors import InternalError
from egshape.rulelang.sexpr import Lexeme, parsed, tokens

WIDTH = 120
_TAIL = (":ruleset", ":name")
"""With the first of these the line of a rule begins that says whose it is."""
_STEP = "  "


@dataclass(frozen=True, slots=True)
class Token:
    """Its kind and text, and its column in the text as it was; None for one that begins a line now."""

    kind: str
    text: str
    column: int | None


@dataclass
class _Open:
    """A list that is open: the line in which it begins, of those that are written, its column there and in the text as
    it was, and the column of its second part, if that stands in the same line."""

    line: int
    column: int
    before: int
    second: int | None = None

    def columns(self, depth: int) -> tuple[int, ...]:
        """Where a line inside of it may begin: a step in, behind its parenthesis or a step from there, below its second
        part."""
        inside = (len(_STEP) * depth, self.column + 1, self.column + len(_STEP))
        return inside if self.second is None else (*inside, self.second)


def laid_out(text: str, file: str = "<text>") -> str:
    """The text in the one layout: one space between words; a line inside of a list begins a step further in for the
    lists that it is in (those that begin in one line count once), or below the first or second part of its list,
    whichever is nearest to where it was; of what is too long for a line the ruleset and the name in a line of their
    own, and a rule in two; no line that only closes lists; at most one empty line in turn, none at the ends.

    Raises EgshapeError (code "rules") for parentheses or quotes that are not balanced."""
    found = list(tokens(text, file))
    parsed(found)
    out: list[str] = []
    opened: list[_Open] = []
    last = 0
    for number, line in _lines(found):
        if out and not opened and number > last + 1:
            out.append("")
        for part in _parts(line, bool(opened)):
            closes = part[0].kind == "close" and bool(out) and ";" not in out[-1]
            start = out.pop() if closes else " " * _column(part, opened)
            out.append(_written(part, start, len(out), opened))
        last = number + sum(token.text.count("\n") for token in line)
    new = "".join(f"{line}\n" for line in out)
    if _said(tokens(new, file)) != _said(found):
        raise InternalError("was laid out as something else", where=file, hint="please report it with the file")
    return new


def _column(part: Sequence[Token], opened: Sequence[_Open]) -> int:
    """Where a line begins."""
    depth = len({each.line for each in opened})
    if not opened or part[0].text in _TAIL or part[0].column is None:
        return len(_STEP) * depth
    inner = opened[-1]
    wished = inner.column + part[0].column - inner.before
    return min(inner.columns(depth), key=lambda column: abs(column - wished))


def _written(part: Sequence[Token], start: str, number: int, opened: list[_Open]) -> str:
    """A line, and what lists are open behind it."""
    out = start
    for token in part:
        tight = (out == start and not start.strip()) or out.endswith("(") or token.kind == "close"
        out += "" if tight else _STEP if token.kind == "comment" else " "
        if opened and opened[-1].line == number and opened[-1].second is None and not out.endswith("("):
            opened[-1].second = len(out) if token.kind != "close" else None
        if token.kind == "open":
            opened.append(_Open(number, len(out), token.column or 0))
        elif token.kind == "close":
            opened.pop()
        out += token.text.rstrip()
    return out


def _said(found: Iterable[Lexeme]) -> list[str]:
    return [token.rstrip() for _, token, _ in found]


def _lines(found: Iterable[Lexeme]) -> Iterator[tuple[int, list[Token]]]:
    """The tokens of each line that has some, with its number. A text may end in a later line, which belongs to it."""
    line: list[Token] = []
    first = last = 0
    for kind, token, at in found:
        if line and at.line > last:
            yield first, line
            line = []
        first = first if line else at.line
        last = at.line + token.count("\n")
        line.append(Token(kind, token, at.column - 1))
    if line:
        yield first, line


def _parts(line: Sequence[Token], inside: bool) -> Iterator[list[Token]]:
    """A line as lines: commands apart, and of what is too long the tail of a rule, and what it does."""
    depth, part = 0, list[Token]()
    long = len(_written(line, "", 0, [])) > WIDTH if not inside else False
    for token in line:
        tail = long and token.text in _TAIL and part and depth == 1 and part[0].text not in _TAIL
        if tail or (token.kind == "open" and depth == 0 and part and not inside):
            yield from _halves(part)
            part = []
        part.append(token)
        depth += (token.kind == "open") - (token.kind == "close")
    yield from _halves(part)


def _halves(part: list[Token]) -> Iterator[list[Token]]:
    rule = [token.text for token in part[:3]] == ["(", "rule", "("]
    if rule and len(_written(part, "", 0, [])) > WIDTH:
        depth = 0
        for place, token in enumerate(part):
            depth += (token.kind == "open") - (token.kind == "close")
            if place > 2 and depth == 1:
                yield part[: place + 1]
                if part[place + 1 :]:
                    yield [replace(part[place + 1], column=None), *part[place + 2 :]]
                return
    yield part
