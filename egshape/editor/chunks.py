"""A rule file in chunks, a rule each with what is written around it, so that an edit costs what one rule costs.

The rules of a chunk hang on its text and the name of the ruleset; what is wrong with them also on what the header needs
and on the size functions; none of it on where the chunk stands: it is kept as if that were line 1, and moved when it is
asked for. What an outline shows is told from the letters alone."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar

from egshape.rulelang.diagnostic import Diagnostic
from egshape.rulelang.lint import Given
from egshape.rulelang.rulefile import Example, Rule, parts
from egshape.rulelang.sexpr import List, Position

T = TypeVar("T")

CONTEXTS = 8
_BEGINS = re.compile(r"\((rule|rewrite|birewrite|size)\b")
_RULES = frozenset(("rule", "rewrite", "birewrite"))
_COMMAND = re.compile(r"^\(([^\s();\"]+)(?:\s+\(?([^\s();\"]+))?", re.MULTILINE)
_SIZE = re.compile(r"\(size\s+([^\s();\"]+)")
_NAME, _SAID = (re.compile(rf'^[^;\n]*:{key}\s+"([^"]+)"', re.MULTILINE) for key in ("name", "(?:is|python)"))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some lines of a text, the first of which has the number ``first`` (from 1)."""

    first: int
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """What the letters of a chunk say, whether it can be read or not: the names of rules, how many rules there are, the
    names that other commands declare; whether it declares a size function, or the contract of an op."""

    named: tuple[str, ...]
    rules: int
    declared: tuple[str, ...]
    size: bool
    contract: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    """A rule or size function of a file, with what it is about: its command begins in ``line``, and all that belongs to
    it stands in the lines from ``first`` to ``last``."""

    name: str
    kind: str
    about: str
    first: int
    line: int
    last: int


@dataclass
class Memory:
    """What is known of the chunks of one file by their texts: their rules, and what is wrong with the form of these,
    under the last names of the ruleset, all that is wrong with them under what the last headers gave them, and their
    layouts; and what headers gave."""

    rules: dict[Hashable, dict[str, tuple[Rule, ...]]] = field(default_factory=dict)
    forms: dict[Hashable, dict[str, tuple[Diagnostic, ...]]] = field(default_factory=dict)
    problems: dict[Hashable, dict[str, tuple[Diagnostic, ...]]] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)
    given: dict[Hashable, Given | None] = field(default_factory=dict)

    def keep(self, texts: Iterable[str]) -> None:
        """Forget all other chunks, once they are more than these."""
        wanted = set(texts)
        every: list[dict[str, Any]] = [self.layouts]
        every += [*self.rules.values(), *self.forms.values(), *self.problems.values()]
        for held in every:
            if len(held) > 2 * len(wanted):
                for text in held.keys() - wanted:
                    del held[text]


def under(kept: dict[Hashable, dict[str, T]], context: Hashable) -> dict[str, T]:
    """What is kept under a context. A few of these are kept: a typing error is mended soon."""
    kept[context] = found = kept.pop(context, {})
    forget(kept)
    return found


def forget(kept: dict[Hashable, Any]) -> None:
    """Keep a few of the last contexts."""
    for old in list(kept)[:-CONTEXTS]:
        del kept[old]


def chunks(text: str) -> tuple[Chunk, ...]:
    """The chunks of a text, in order: what stands before the first rule, then a rule each, with the comment right above
    it and all that follows it. Where no empty line is below the header, it and the first rule are one."""
    starts, lines = [0], [1]
    place = text.find("\n(") + 1
    while place:
        if _BEGINS.match(text, place):
            start = _with_comment(text, place, starts[-1])
            if start > starts[-1]:
                lines.append(lines[-1] + text.count("\n", starts[-1], start))
                starts.append(start)
        place = text.find("\n(", place) + 1
    ends = [*(start - 1 for start in starts[1:]), len(text)]
    return tuple(Chunk(line, text[start:end]) for line, start, end in zip(lines, starts, ends, strict=True))


def _with_comment(text: str, place: int, first: int) -> int:
    """Where the comment begins that stands right above a line; of two places in a text, not before the other."""
    while place > first:
        before = text.rfind("\n", 0, place - 1) + 1
        if not _is_comment(text[before : before + 2]):
            break
        place = before
    return place


@lru_cache(maxsize=10_000)
def said(text: str) -> Said:
    """What the letters of a chunk say."""
    commands = _COMMAND.findall(text)
    heads = [head for head, _ in commands]
    declared = tuple(name for head, name in commands if name and head not in _RULES)
    rules = sum(head in _RULES for head in heads)
    return Said(tuple(_NAME.findall(text)), rules, declared, "size" in heads, "contract" in heads or "define" in heads)


def symbol(chunk: Chunk) -> Symbol | None:
    """What an outline shows of a chunk, also where the rest of it is half written; None for one without a name."""
    name, kind, about, first, line, last = _outlined(chunk.text)
    before = chunk.first - 1
    return Symbol(name, kind, about, before + first, before + line, before + last) if name else None


@lru_cache(maxsize=10_000)
def _outlined(text: str) -> tuple[str, str, str, int, int, int]:
    lines = text.rstrip().split("\n")
    line = next((number for number, each in enumerate(lines) if _BEGINS.match(each)), None)
    if line is None:
        return "", "", "", 0, 0, 0
    first = line
    while first and _is_comment(lines[first - 1]):
        first -= 1
    command = "\n".join(lines[line:])
    kind = command[1:].split(maxsplit=1)[0]
    if kind == "size":
        name, said = _SIZE.match(command), _SAID.search(command)
        about = said[1].strip() if said else ""
    else:
        name = _NAME.search(command)
        about = parts([each.lstrip("; ").strip() for each in lines[first:line]])[""]
    return name[1] if name else "", kind, about, first + 1, line + 1, len(lines)


def _is_comment(line: str) -> bool:
    return line.startswith(";") and not line.startswith(";;")


def joined(texts: Sequence[str]) -> tuple[str, list[int]]:
    """Chunks as one text, and how many lines stand before each."""
    before = accumulate((text.count("\n") + 1 for text in texts[:-1]), initial=0)
    return "\n".join(texts), list(before)


def apart(
    before: Sequence[int], found: Iterable[T], line: Callable[[T], int], moved: Callable[[T, int], T]
) -> list[tuple[T, ...]]:
    """What was found in chunks that were one text, for each of them. ``line``: that in which it was found."""
    out: list[list[T]] = [[] for _ in before]
    for each in found:
        number = bisect_right(before, line(each) - 1) - 1
        out[number].append(moved(each, -before[number]))
    return list(map(tuple, out))


# -- elsewhere ----


def _moved(at: Position, lines: int) -> Position:
    return replace(at, line=at.line + lines)


def moved_problem(problem: Diagnostic, lines: int) -> Diagnostic:
    """The mistake, so many lines further down."""
    return replace(problem, at=_moved(problem.at, lines)) if lines else problem


def moved_rule(rule: Rule, lines: int) -> Rule:
    """The rule, so many lines further down; inside of its command all stays where it was."""
    return replace(
        rule,
        line=rule.line + lines,
        command=List(rule.command.items, _moved(rule.command.at, lines)),
        examples=tuple(_moved_examples(rule.examples, lines)),
        counters=tuple(_moved_examples(rule.counters, lines)),
    )


def _moved_examples(examples: Iterable[Example], lines: int) -> Iterator[Example]:
    for each in examples:
        file, _, line = each.where.rpartition(":")
        yield replace(each, where=f"{file}:{int(line) + lines}")
