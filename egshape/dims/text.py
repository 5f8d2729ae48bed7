"""Sizes from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import NoReturn

from egshape.dims.core import ABOVE, Dim, Function, const, is_positive, symbol
from egshape.dims.forms import FORMS, bcast, ceildiv, floordiv, maximum, minimum, mod
from egshape.dims.names import quote_name
from egshape.errors import ParseError

__all__ = ["Definedness", "Scanner", "parse", "parse_with_conditions", "quote_name"]

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"\d+(?![\w.])", re.ASCII)
_NAME = re.compile(r"(?:%?[A-Za-z_]\w*|%\d+)(?:\.\w+)*", re.ASCII)
_QUOTED = re.compile(r"`((?:[^`]|``)+)`((?:\.\d+)?)", re.ASCII)
_OPERATOR = re.compile(r"//|==|!=|<=|>=|[-+*%(),;=<>{}\[\]]")

_ZERO = const(0)

_BINARY: dict[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floordiv,
    "mod": mod,
    "cdiv": ceildiv,
    "ceildiv": ceildiv,
    "bcast": bcast,
}
DECLARED: ContextVar[Mapping[str, Function]] = ContextVar("DECLARED", default=MappingProxyType({}))
"""The size functions of authors that texts may name here, by name (``egshape.dims.functions.declared``)."""

_VARIADIC: dict[str, Callable[..., Dim]] = {"min": minimum, "max": maximum}


MOST_DIGITS = 1000
"""Of a number that is read."""
_LONGEST_SHOWN = 2000
"""Characters of a text that an error repeats."""


@dataclass(frozen=True)
class Definedness:
    """What an expression as written needs in order to have a value.

    `kind` "nonzero": `one` is not 0.  `kind` "bcast": one == two, or one of them is 1.
    """

    kind: str
    one: Dim
    two: Dim = _ZERO


class Scanner:
    """Recursive descent over one text; keeps the definedness conditions that it meets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.conditions: dict[Definedness, None] = {}
        self._skip()

    def fail(self, cause: str, hint: str = "") -> NoReturn:
        """Raise ParseError at the current column (counted from 1)."""
        raise ParseError(
            f"cannot read {_shown(self.text)}: {cause}",
            where=f"column {self.pos + 1}",
            hint=hint,
        )

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.pos)
        self.pos = match.end() if match else self.pos

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.pos >= len(self.text)

    def peek(self) -> str:
        """The operator that stands here, or ''."""
        match = _OPERATOR.match(self.text, self.pos)
        return match[0] if match else ""

    def accept(self, *operators: str) -> str:
        """Take one of the operators if it stands here; else ''."""
        found = self.peek()
        if found and found in operators:
            self.pos += len(found)
            self._skip()
            return found
        return ""

    def expect(self, operator: str) -> None:
        """Take this operator or fail."""
        if not self.accept(operator):
            self.fail(f"expected '{operator}', found {self.rest()}")

    def rest(self) -> str:
        """What stands here, for messages."""
        return "the end" if self.at_end else repr(self.text[self.pos : self.pos + 12])

    def word(self, word: str) -> bool:
        """Take this word if it stands here."""
        match = _NAME.match(self.text, self.pos)
        if match and match[0] == word:
            self.pos = match.end()
            self._skip()
            return True
        return False

    def integer(self) -> int:
        """An integer with an optional sign."""
        negative = bool(self.accept("-"))
        match = _NUMBER.match(self.text, self.pos)
        if not match:
            self.fail(f"expected an integer, found {self.rest()}")
        self.pos = match.end()
        self._skip()
        return -self._number(match[0]) if negative else self._number(match[0])

    def name(self) -> str:
        """A symbol's name."""
        quoted = _QUOTED.match(self.text, self.pos)
        if quoted:
            self.pos = quoted.end()
            self._skip()
            return quoted[1].replace("``", "`") + quoted[2]
        match = _NAME.match(self.text, self.pos)
        if not match:
            self.fail(f"expected a size, found {self.rest()}", "names that are no identifiers stand in backquotes")
        self.pos = match.end()
        self._skip()
        return match[0]

    def expression(self) -> Dim:
        """A sum."""
        total = self._term()
        while operator := self.accept("+", "-"):
            right = self._term()
            total = total + right if operator == "+" else total - right
        return total

    def _term(self) -> Dim:
        value = self._factor()
        while operator := self.accept("*", "//", "%"):
            right = self._factor()
            if operator == "*":
                value = value * right
            else:
                self._needs_nonzero(right)
                value = floordiv(value, right) if operator == "//" else mod(value, right)
        return value

    def _number(self, digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            self.fail(f"a number of {len(digits)} digits", f"{MOST_DIGITS} are read")
        return int(digits)

    def _factor(self) -> Dim:
        try:
            return self._plain_factor()
        except RecursionError:
            self.fail("it is nested too deeply", "write it with fewer parentheses")

    def _plain_factor(self) -> Dim:
        if self.accept("-"):
            return -self._factor()
        if self.accept("+"):
            return self._factor()
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        number = _NUMBER.match(self.text, self.pos)
        if number:
            self.pos = number.end()
            self._skip()
            return const(self._number(number[0]))
        quoted = self.text.startswith("`", self.pos)
        name = self.name()
        if not quoted and self.peek() == "(":
            return self._call(name)
        return symbol(name)

    def _call(self, name: str) -> Dim:
        own = DECLARED.get().get(name) or (ABOVE.shipped.get(name) if name not in _BINARY else None)
        if own is None and name not in _BINARY and name not in _VARIADIC:
            self.pos -= len(name)
            known = ", ".join(sorted((*_BINARY, *_VARIADIC, *DECLARED.get())))
            self.fail(f"unknown function {name!r}", f"known: {known}, and those of files given with --rules or `rules`")
        self.expect("(")
        arguments = [self.expression()]
        while self.accept(","):
            arguments.append(self.expression())
        self.expect(")")
        if name in _VARIADIC:
            return _VARIADIC[name](*arguments)
        if own is not None:
            return self._declared(own, arguments)
        if len(arguments) != 2:
            self.fail(f"{name} takes 2 sizes, not {len(arguments)}")
        if name != "bcast":
            self._needs_nonzero(arguments[1])
        elif not any(a.const == 1 for a in arguments) and arguments[0] is not arguments[1]:
            self.conditions[Definedness("bcast", *arguments)] = None
        return _BINARY[name](*arguments)

    def _declared(self, function: Function, arguments: list[Dim]) -> Dim:
        if len(arguments) != len(function.params):
            sizes = "size" if len(function.params) == 1 else "sizes"
            self.fail(f"{function.name} takes {len(function.params)} {sizes}, not {len(arguments)}")
        for dim in function.needs(*arguments):
            self._needs_nonzero(dim)
        return FORMS.call(function, tuple(arguments))

    def _needs_nonzero(self, dim: Dim) -> None:
        if not is_positive(dim) and not is_positive(-dim):
            self.conditions[Definedness("nonzero", dim)] = None


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


def parse(text: str) -> Dim:
    """The size that the text writes.  Raises ParseError with column and cause."""
    return parse_with_conditions(text)[0]


def parse_with_conditions(text: str) -> tuple[Dim, tuple[Definedness, ...]]:
    """The size, and what must hold for the text to have a value (a form may have lost it)."""
    scanner = Scanner(text)
    dim = scanner.expression()
    if not scanner.at_end:
        scanner.fail(f"expected an operator or the end, found {scanner.rest()}")
    return dim, tuple(scanner.conditions)
