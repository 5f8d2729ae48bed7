"""Contracts of ops as text: the files `rulesets/ops/<family>.egg`, read and held to their law.

A contract says what an op requires of its operands, and the type of its result; docs/rules.md ("The contract of an
op") is for those who write one. This module reads the form; ``contract_compile`` gives it its meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from egshape.errors import EgshapeError
from egshape.rulelang.sexpr import Atom, Comment, List, Position, SExpr, read

SORTS = ("T", "Ts", "axes", "sizes", "text", "dtype", "int", "bool", "float", "array", "record", "regions")
"""What a parameter may be: an operand, any number of them, an attribute of a kind, the regions."""

_PARTS = (":requires", ":dtype", ":shape", ":results", ":elements", ":body")
_EXAMPLE = re.compile(r";;\s*(example|implies|gives|rejects)\s+(.*\S)\s*")
_HOLE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Require:
    """One condition and what is said where it is false. ``label`` names a condition on sizes in reasons; it is None for
    one that is decided when the program is read."""

    condition: List
    label: SExpr | None
    message: tuple[str | SExpr, ...]
    """Text, and the expressions in its holes."""

    @property
    def name(self) -> str:
        """The label's text, "" for none."""
        return self.label.value if isinstance(self.label, Atom) else ""


@dataclass(frozen=True, slots=True)
class Each:
    """Clauses for every item of a list, or of several lists side by side."""

    names: tuple[str, ...]
    lists: tuple[SExpr, ...]
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class When:
    """Clauses under a condition that is decided when the program is read."""

    condition: SExpr
    clauses: tuple[Clause, ...]


Clause = Require | Each | When


@dataclass(frozen=True, slots=True)
class Define:
    """Clauses with a name, for several contracts of a file: (define NAME (PARAMETER ...) CLAUSE ...)."""

    params: tuple[str, ...]
    clauses: tuple[Clause, ...]


Defines = Mapping[str, Define]


@dataclass(frozen=True, slots=True)
class ContractExample:
    """An application with the type of its result ("example"), with the relations that it implies ("implies"), with the
    elements of its result ("gives"), or one that is refused when it is read ("rejects")."""

    kind: str
    before: str
    after: str
    where: str


@dataclass(frozen=True, slots=True, eq=False)
class Contract:
    """One `(contract ...)` form; several ops may share it, and then its functions."""

    ops: tuple[str, ...]
    params: tuple[tuple[str, str], ...]
    """Operands, then attributes, then regions: name and sort, in the order of the declaration."""
    requires: tuple[Clause, ...]
    parts: tuple[tuple[str, SExpr], ...]
    """``:dtype`` and ``:shape`` of the result, or ``:results`` of them all; ``:elements`` of small integer results;
    ``:body`` of an op that is text alone."""
    comment: str
    """What stands above it: what the op is, and the section of its specification."""
    examples: tuple[ContractExample, ...]
    source: str
    at: Position

    def part(self, key: str) -> SExpr | None:
        """The expression of a part, None if the contract has none."""
        return dict(self.parts).get(key)


@cache
def contracts(family: str) -> dict[str, Contract]:
    """The contracts of `rulesets/ops/<family>.egg` by op. Raises EgshapeError (code "rules") at what is wrong there."""
    path = Path(__file__).parents[1] / "rulesets" / "ops" / f"{family}.egg"
    return read_contracts(path.read_text(encoding="utf-8"), f"ops/{family}.egg")


def read_contracts(text: str, file: str) -> dict[str, Contract]:
    """The contracts of a file's text by op. Raises EgshapeError with file, line and the way out."""
    found: dict[str, Contract] = {}
    defines: dict[str, Define] = {}
    items = read(text, file)
    for number, item in enumerate(items):
        if isinstance(item, Comment):
            continue
        if isinstance(item, List) and item.head == "define":
            defines.update(_define(item, defines))
            continue
        if not isinstance(item, List) or item.head != "contract":
            raise wrong("only contracts stand here", item.at, "write (contract OP (PARAMETER ...) :requires (...) ...)")
        contract = _contract(item, _Around(_above(items, number), _below(items, number), text, defines))
        for op in contract.ops:
            if op in found:
                raise wrong(f"{op} has a contract already, at {found[op].at}", item.at, "keep one of them")
            found[op] = contract
    return found


def wrong(message: str, at: Position, hint: str = "") -> EgshapeError:
    """The error of a contract that breaks the law."""
    return EgshapeError(message, where=str(at), hint=hint, code="rules")


def _above(items: Sequence[SExpr | Comment], number: int) -> str:
    """The comment right above a form, without its semicolons."""
    lines: list[str] = []
    line = items[number].at.line
    for item in reversed(items[:number]):
        if not isinstance(item, Comment) or item.at.line != line - 1 or item.text.startswith(";;"):
            break
        lines.insert(0, item.text.lstrip("; ").rstrip())
        line -= 1
    return "\n".join(lines)


def _below(items: Sequence[SExpr | Comment], number: int) -> tuple[ContractExample, ...]:
    """The examples under a form."""
    found = []
    for item in items[number + 1 :]:
        if not isinstance(item, Comment):
            break
        match = _EXAMPLE.fullmatch(item.text)
        if match:
            before, _, after = match[2].partition("=>")
            where = f"{item.at.file}:{item.at.line}"
            found.append(ContractExample(match[1], before.strip(), after.strip(), where))
        elif item.text.startswith(";;"):
            raise wrong(f"{item.text!r} is no example", item.at, "write ;; example, ;; implies, ;; gives or ;; rejects")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands above and below a form, the file's text, and what is defined before it."""

    comment: str
    examples: tuple[ContractExample, ...]
    text: str
    defines: Defines


def _contract(form: List, around: _Around) -> Contract:
    if len(form.items) < 3 or not isinstance(form.items[2], List):
        raise wrong("a contract names its op and the op's parameters", form.at, "(contract OP ((x T) (dims axes)) ...)")
    ops = tuple(map(name_of, form.items[1].items if isinstance(form.items[1], List) else form.items[1:2]))
    params = tuple(map(_param, form.items[2].items))
    parts = dict(_parts(form.items[3:], form.at))
    if ":results" not in parts and not {":dtype", ":shape"} <= set(parts):
        raise wrong(f"the contract of {ops[0]} lacks the type of the result", form.at, "add :dtype and :shape")
    requires = _clauses(parts.pop(":requires"), around.defines) if ":requires" in parts else ()
    if not around.comment:
        raise wrong(
            f"nothing is said above the contract of {ops[0]}",
            form.at,
            "say in a comment what the op is, and the section of its specification",
        )
    wanted = {"example", *(["rejects"] if requires else []), *(["implies"] if any(_labels(requires)) else [])}
    wanted |= {"gives"} if ":elements" in parts else set()
    for kind in sorted(wanted - {each.kind for each in around.examples}):
        raise wrong(f"the contract of {ops[0]} has no line ';; {kind}' below it", form.at, "add one, it is a test")
    return Contract(
        ops,
        params,
        requires,
        tuple(parts.items()),
        around.comment,
        around.examples,
        _source(form, around.text),
        form.at,
    )


def _labels(clauses: Sequence[Clause]) -> Iterator[str]:
    for clause in clauses:
        yield from (clause.name,) if isinstance(clause, Require) else _labels(clause.clauses)


def _source(form: List, text: str) -> str:
    """The form as it stands in its file."""
    lines = text.splitlines()[form.at.line - 1 :]
    end = next((number for number, line in enumerate(lines) if not line.strip() or line.startswith(";")), len(lines))
    return "\n".join(lines[:end])


def _param(item: SExpr) -> tuple[str, str]:
    if not isinstance(item, List) or len(item.items) != 2 or str(item.items[1]) not in SORTS:
        raise wrong(f"{item} is no parameter", item.at, f"write (NAME SORT), the sort one of {', '.join(SORTS)}")
    return name_of(item.items[0]), str(item.items[1])


def _parts(items: Sequence[SExpr], at: Position) -> Iterator[tuple[str, SExpr]]:
    if len(items) % 2:
        raise wrong("a part has a name and one expression", at, f"parts are {', '.join(_PARTS)}")
    for key, value in zip(items[::2], items[1::2], strict=True):
        if str(key) not in _PARTS:
            raise wrong(f"{key} is no part of a contract", key.at, f"parts are {', '.join(_PARTS)}")
        yield str(key), value


def _define(form: List, defines: Defines) -> dict[str, Define]:
    if len(form.items) < 4 or not isinstance(form.items[2], List):
        raise wrong("a definition has a name, parameters and clauses", form.at, "(define NAME (x ...) CLAUSE ...)")
    params = tuple(map(name_of, form.items[2].items))
    return {str(form.items[1]): Define(params, _clauses(List(form.items[3:], form.at), defines))}


def _clauses(item: SExpr, defines: Defines) -> tuple[Clause, ...]:
    if not isinstance(item, List):
        raise wrong(f"{item} is no list of conditions", item.at, 'write ((CONDITION "message") ...)')
    return tuple(clause for each in item.items for clause in _clause(each, defines))


def _clause(item: SExpr, defines: Defines) -> Iterator[Clause]:
    if not isinstance(item, List) or not item.items:
        raise wrong(f"{item} is no condition", item.at, 'write (CONDITION "message"), or (for NAME LIST CLAUSE ...)')
    if item.head in defines:
        yield from _used(item, defines[item.head])
    elif item.head == "for" and len(item.items) > 3:
        yield _each(item, _clauses(List(item.items[3:], item.at), defines))
    elif item.head == "when" and len(item.items) > 2:
        yield When(item.items[1], _clauses(List(item.items[2:], item.at), defines))
    else:
        yield _require(item)


def _each(item: List, clauses: tuple[Clause, ...]) -> Each:
    names, lists = item.items[1], item.items[2]
    if not isinstance(names, List):
        return Each((name_of(names),), (lists,), clauses)
    if not isinstance(lists, List) or len(lists.items) != len(names.items):
        raise wrong("as many lists as names are wanted", item.at, "(for (a b) (AS BS) CLAUSE ...)")
    return Each(tuple(map(name_of, names.items)), lists.items, clauses)


def _require(item: List) -> Require:
    condition, *texts = item.items
    message = texts[-1] if texts else item
    if not isinstance(condition, List) or len(texts) > 2 or not isinstance(message, Atom) or not message.is_string:
        raise wrong(
            f"{item} is no condition with its message",
            item.at,
            'write (CONDITION "message"), or (CONDITION "label" "message") for one on sizes',
        )
    return Require(condition, texts[0] if len(texts) == 2 else None, _message(message))


def _used(item: List, define: Define) -> Iterator[Clause]:
    """The clauses of a definition with its parameters filled in."""
    if len(item.items) != len(define.params) + 1:
        raise wrong(f"{item.head} takes {len(define.params)} arguments, {item} has {len(item.items) - 1}", item.at)
    given = dict(zip(define.params, item.items[1:], strict=True))
    yield from (_filled(clause, given) for clause in define.clauses)


def _filled(clause: Clause, given: Mapping[str, SExpr]) -> Clause:
    if isinstance(clause, Require):
        condition = _put(clause.condition, given)
        assert isinstance(condition, List)
        label = None if clause.label is None else _put(clause.label, given)
        message = tuple(part if isinstance(part, str) else _put(part, given) for part in clause.message)
        return Require(condition, label, message)
    clauses = tuple(_filled(each, given) for each in clause.clauses)
    if isinstance(clause, When):
        return When(_put(clause.condition, given), clauses)
    return Each(clause.names, tuple(_put(item, given) for item in clause.lists), clauses)


def _put(item: SExpr, given: Mapping[str, SExpr]) -> SExpr:
    """An expression with names replaced."""
    if isinstance(item, Atom):
        return given.get(item.text, item)
    return List(tuple(_put(each, given) for each in item.items), item.at)


def _message(item: Atom) -> tuple[str | SExpr, ...]:
    """Text and holes in turn."""
    found: list[str | SExpr] = []
    for number, part in enumerate(_HOLE.split(item.value)):
        if number % 2 == 0:
            found.append(part)
            continue
        inside = read(part, item.at.file)
        if len(inside) != 1 or isinstance(inside[0], Comment):
            raise wrong(f"the hole {{{part}}} holds no expression", item.at)
        found.append(_moved(inside[0], item.at))
    return tuple(found)


def _moved(item: SExpr, at: Position) -> SExpr:
    """An expression from inside a text, at the place of the text."""
    return Atom(item.text, at) if isinstance(item, Atom) else List(tuple(_moved(each, at) for each in item.items), at)


def name_of(item: SExpr) -> str:
    """A name. Raises EgshapeError for anything else."""
    if not isinstance(item, Atom) or not item.text.isidentifier():
        raise wrong(f"{item} is no name", item.at)
    return item.text
