"""What rules are made of, as Python values: patterns, built by calling words and by comparing and computing with them.

Each pattern is the s-expression that a rule file would hold, at the place in Python where it was written."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from egshape.errors import EgshapeError
from egshape.ops import REGISTRY
from egshape.ops.base import OpDecl
from egshape.rulelang.schema import ELEMENTWISE
from egshape.rulelang.sexpr import Atom, List, Position, SExpr
from egshape.rulelang.typecheck import PRIMITIVES


@dataclass(frozen=True, eq=False)
class Pattern:
    """A term, a variable, a condition or an action. Its operators are those of the engine: ``a > 0`` is a condition on
    integers, ``a == b`` says that two things are equal, ``/`` and ``%`` round towards 0.

    needs: the size functions written in Python that are named in it."""

    expr: SExpr
    needs: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return str(self.expr)

    def __eq__(self, other: object) -> Pattern:  # type: ignore[override]
        return term("=", (self, other))

    def __ne__(self, other: object) -> Pattern:  # type: ignore[override]
        return term("!=", (self, other))

    __hash__ = None  # type: ignore[assignment]  # a condition is made of ==, so no set or dict can hold patterns

    def __lt__(self, other: object) -> Pattern:
        return term("<", (self, other))

    def __le__(self, other: object) -> Pattern:
        return term("<=", (self, other))

    def __gt__(self, other: object) -> Pattern:
        return term(">", (self, other))

    def __ge__(self, other: object) -> Pattern:
        return term(">=", (self, other))

    def __add__(self, other: object) -> Pattern:
        return term("+", (self, other))

    def __radd__(self, other: object) -> Pattern:
        return term("+", (other, self))

    def __sub__(self, other: object) -> Pattern:
        return term("-", (self, other))

    def __rsub__(self, other: object) -> Pattern:
        return term("-", (other, self))

    def __mul__(self, other: object) -> Pattern:
        return term("*", (self, other))

    def __rmul__(self, other: object) -> Pattern:
        return term("*", (other, self))

    def __truediv__(self, other: object) -> Pattern:
        return term("/", (self, other))

    def __mod__(self, other: object) -> Pattern:
        return term("%", (self, other))

    def __bool__(self) -> NoReturn:
        raise refused(
            "a condition has no truth value while its rule is written",
            here(),
            "list conditions, each by itself: a > 0, a < b; `and`, `or`, `if` and 0 < a < b ask for a truth value",
        )

    def __iter__(self) -> NoReturn:
        raise refused(f"{self!r} has no parts", here(), "a rule names the parts of a term by variables")


@dataclass(frozen=True)
class Word:
    """A word that rules may use (``egshape rules prelude`` lists them): called, it gives a term, condition or action.

    An elementwise op is called as such: ``add(x, y)``, ``compare(x, y, "LT", "FLOAT")``. A ``_`` may stand for the
    ``-`` of the engine's functions (``vec_get``), one at the end falls away (``set_``, ``min_``). Attributes of ops may
    be given by name."""

    name: str

    def __call__(self, *args: Any, **named: Any) -> Pattern:
        name = self.name.rstrip("_")
        name = name.replace("_", "-") if name.replace("_", "-") in PRIMITIVES else name
        decl = next((each for each in REGISTRY if each.name == name), None)
        if named:
            args = (*args, *_in_order(name, decl, len(args), named))
        if decl is not None and decl.family in ELEMENTWISE:
            operands, values = args[: len(decl.operands)], args[len(decl.operands) :]
            return term(decl.family.capitalize(), (".".join([name, *map(str, values)]), *operands))
        return term(name, args)


def _in_order(name: str, decl: OpDecl | None, given: int, named: dict[str, Any]) -> Iterator[Any]:
    """The arguments given by name, behind those that are given by place."""
    names = [] if decl is None else [*(each.removeprefix("*") for each in decl.operands), *(a.name for a in decl.attrs)]
    rest = names[given:]
    if set(rest) != set(named):
        wanted = f"{name} takes {', '.join(names)}" if names else "its arguments have no names"
        raise refused(f"the arguments of {name} do not fit", here(), wanted)
    yield from (named[each] for each in rest)


def variable(name: str, at: Position) -> Pattern:
    """A variable of a rule."""
    return Pattern(Atom(name, at))


def term(head: str, args: Sequence[object], needs: frozenset[str] = frozenset()) -> Pattern:
    """A term, condition or action at the place that is being run. needs: what the head is declared by."""
    at = here()
    return Pattern(List((Atom(head, at), *(spelled(each, at) for each in args)), at), needs | needed(args))


def needed(value: object) -> frozenset[str]:
    """The size functions written in Python that are named in something, at any depth."""
    match value:
        case Pattern():
            return value.needs
        case tuple() | list():
            return frozenset().union(*map(needed, value))
    return frozenset()


def spelled(value: object, at: Position) -> SExpr:
    """A value as rules write it. Raises EgshapeError for one that they cannot hold."""
    match value:
        case Pattern(Atom() as atom):
            return Atom(atom.text, _within(atom.text, at))
        case Pattern(expr):
            return expr
        case Word(name):
            return Atom(name, at)
        case bool():
            return Atom(str(value).lower(), at)
        case int() | float():
            return Atom(repr(value), at)
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return Atom(f'"{escaped}"', at)
        case tuple() | list():
            return List((Atom("vec-of", at), *(spelled(each, at) for each in value)), at)
    raise refused(f"a rule cannot hold {value!r}", at, "patterns, integers, strings and lists of integers are")


def _within(name: str, at: Position) -> Position:
    """Where a variable stands in the line of the term that it is an argument of."""
    line = linecache.getline(at.file, at.line)
    found = re.compile(rf"\b{re.escape(name)}\b").search(line, max(at.column - 1, 0))
    return Position(at.file, at.line, found.start() + 1) if found else at


_HERE = str(Path(__file__).parent)


def here() -> Position:
    """The place in the author's file that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    places = list(frame.f_code.co_positions())
    line, _, column, _ = places[frame.f_lasti // 2]
    return Position(shown(frame.f_code.co_filename), line or frame.f_lineno, (column or 0) + 1)


def shown(file: str) -> str:
    """A file as messages name it: from the present folder on, if it is in there."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def refused(message: str, at: Position, hint: str) -> EgshapeError:
    """An error at a place of the author's file."""
    return EgshapeError(message, where=str(at), hint=hint, code="rules")
