"""The example lines of rules over sizes: `SUBJECT given FACT; FACT => CONCLUSION`, where `it` is the subject."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from egshape.dims import Dim, parse
from egshape.errors import EgshapeError, ParseError, UndefinedSize
from egshape.rulelang.rulefile import Example

_RELATION = re.compile(r"(.*?)\s*(==|<=|>=|<|>)\s*(.*)")
_TESTS: Mapping[str, Callable[[int, int], bool]] = {
    "==": lambda x, y: x == y,
    "<=": lambda x, y: x <= y,
    ">=": lambda x, y: x >= y,
    "<": lambda x, y: x < y,
    ">": lambda x, y: x > y,
    "divides": lambda x, y: y == 0 if x == 0 else y % x == 0,
}
SIZES, FEWER = (0, 1, 2, 3, 4, 7, 8, 9, 24), (0, 1, 2, 5)


@dataclass(frozen=True, slots=True)
class SizeFact:
    """`left op right`; op is ==, <=, >= or divides (left divides right)."""

    text: str
    op: str
    left: Dim
    right: Dim

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is true there. Raises UndefinedSize for a division by 0."""
        return _TESTS[self.op](self.left.evaluate(sizes), self.right.evaluate(sizes))


def size_fact(text: str) -> SizeFact:
    """`a >= b`, or `h % k == 0` kept apart as a divisibility. Raises ParseError."""
    match = _RELATION.fullmatch(text.strip())
    if match is None:
        raise ParseError(f"{text.strip()!r} is no relation between sizes", hint="such as 'a >= b' or 'h % k == 0'")
    left, op, right = match.groups()
    divides = re.fullmatch(r"(.*?)\s*%\s*(\w+)", left)
    if op == "==" and right == "0" and divides:
        whole = divides.group(1)
        whole = whole[1:-1] if whole.startswith("(") and whole.endswith(")") else whole
        return SizeFact(text, "divides", parse(divides.group(2)), parse(whole))
    if op in ("<", ">"):
        one = 1 if op == "<" else -1
        return SizeFact(text, op + "=", parse(left) + one, parse(right))
    return SizeFact(text, op, parse(left), parse(right))


class SizeQuestion:
    """An example line as a question to the rules."""

    def __init__(self, example: Example) -> None:
        """Raises ParseError with the example's place."""
        self.example = example
        try:
            self._read(example)
        except EgshapeError as error:
            raise ParseError(error.message, where=f"{example.where} {error.where}".strip(), hint=error.hint) from None

    def _read(self, example: Example) -> None:
        subject, _, given = example.before.partition(" given ")
        self.given = [size_fact(part) for part in given.split(";") if part.strip()]
        shapes = re.fullmatch(r"\[(.*)\] == \[(.*)\]", subject.strip())
        self.shapes = [tuple(map(parse, side.split(","))) for side in shapes.groups()] if shapes else []
        if self.shapes:
            self.given += [SizeFact(subject, "==", a, b) for a, b in zip(*self.shapes, strict=True)]
        self.subject = self.shapes[0][0] if self.shapes else parse(subject)
        after = re.sub(r"\bit\b", f"({subject})", example.after)
        between = re.fullmatch(r"(.*?)\s*<=\s*(.*?)\s*<=\s*(.*)", after)
        self.wanted: list[SizeFact] = []
        if between:
            low, middle, high = between.groups()
            self.wanted = [size_fact(f"{middle} >= {low}"), size_fact(f"{middle} <= {high}")]
        elif _RELATION.fullmatch(after):
            self.wanted = [size_fact(after)]
        elif after:
            self.wanted = [SizeFact(after, "==", self.subject, parse(after))]

    def dims(self) -> Iterator[Dim]:
        """All sizes that the line speaks of, the subject apart."""
        for fact in (*self.given, *self.wanted):
            yield from (fact.left, fact.right)

    def verdicts(self) -> Iterator[tuple[dict[str, int], bool]]:
        """Sizes that satisfy the givens, and whether the conclusion is true there; small ones first."""
        names = sorted(set().union(*(dim.symbols() for dim in (self.subject, *self.dims()))))
        sizes = SIZES if len(names) < 4 else FEWER
        for values in sorted(itertools.product(sizes, repeat=len(names)), key=sum):
            env = dict(zip(names, values, strict=True))
            try:
                if all(fact.holds(env) for fact in self.given):
                    yield env, all(fact.holds(env) for fact in self.wanted)
            except UndefinedSize:
                continue
