"""As much of the text of an MLIR module as inference of ranks needs: its ops with their values, types and attributes.

MLIR's own parser reads no module whose types an op rejects. This reader knows no op: it takes a dotted word, or a
quoted one, at the beginning of a line or block for an op, values for its operands, and types for theirs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<blank>[^\S\n]+|//[^\n]*)
    |(?P<line>\n)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<value>%[\w$.-]+(?:\#\d+)?)
    |(?P<label>\^[\w$.-]+)
    |(?P<arrow>->)
    |(?P<angle>[!\#]?[A-Za-z_][\w.$]*<(?:[^<>"]|"[^"]*"|<(?:[^<>]|<[^<>]*>)*>)*>)
    |(?P<word>[@\#!]?[A-Za-z_][\w.$]*)
    |(?P<number>-?\d+)
    |(?P<other>.)""",
    re.VERBOSE,
)
_HEAD = re.compile(r"((?:%[\w$.-]+(?::\d+)?\s*,?\s*)+)=\s*(?=[\"a-z])")
_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d+))?")
_TYPE = re.compile(r"!|tuple<|tensor<|memref<|vector<|(?:s?i|ui|bf|f)\d+\Z|index\Z|none\Z")
_OP = re.compile(r"[a-z_]+(?:\.\w+)+\Z|return\Z|call\Z|module\Z")
_LONGEST = 1_000
"""Characters of a token that is kept in ``Statement.own``: lists of sizes are short, constants are not."""
_ATTRIBUTE = re.compile(r"\s*[=,}]")


@dataclass(frozen=True, eq=False)
class Name:
    """A value: what the text calls it, and where it is defined."""

    text: str
    at: int


@dataclass(frozen=True, eq=False)
class Typed:
    """A type that stands in the text, and the values that it is of."""

    text: str
    at: int
    values: list[Name] = field(default_factory=list)


@dataclass(eq=False)
class Statement:
    """An op, a function, or the arguments of a block (``^``)."""

    name: str
    at: int
    results: list[Name] = field(default_factory=list)
    operands: list[Name | None] = field(default_factory=list)
    """None: a value that is defined further below."""
    args: list[Name] = field(default_factory=list)
    """Of its regions."""
    given: list[Typed] = field(default_factory=list)
    """The types before the arrow; those of all values where there is none."""
    taken: list[Typed] = field(default_factory=list)
    """The types behind the arrow."""
    pairs: list[Typed] = field(default_factory=list)
    """The types that stand right behind a value."""
    returned: list[Statement] = field(default_factory=list)
    """The ends of its regions."""
    own: str = ""
    """Its text, without that of its regions."""
    behind: bool = False
    defines: bool = False

    @property
    def types(self) -> list[Typed]:
        """All types in the text of the op."""
        return [*self.given, *self.taken, *self.pairs]


@dataclass(eq=False)
class _Group:
    """What stands in parentheses."""

    values: list[tuple[str, int]] = field(default_factory=list)
    types: list[Typed] = field(default_factory=list)
    colon: bool = False


@dataclass(eq=False)
class _Frame:
    """What stands in braces: a region, or attributes."""

    owner: Statement | None
    names: dict[str, Name] = field(default_factory=dict)
    current: Statement | None = None
    groups: list[_Group] = field(default_factory=list)
    brackets: int = 0


def statements(text: str) -> list[Statement]:
    """The ops of a module, each before those that follow it, behind those in its regions."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.done: list[Statement] = []
        self.frames = [_Frame(None)]
        self.fresh = True
        """Whether an op may begin here."""

    def read(self) -> list[Statement]:
        at = 0
        while (found := _TOKEN.match(self.text, at)) is not None:
            kind, token, at = str(found.lastgroup), found.group(), found.end()
            if kind == "line":
                self.fresh = True
            elif kind != "blank":
                at = self._token(kind, token, found.start()) or at
                self.fresh = token in "{}" and kind == "other"
        self._finish(self.frames[0])
        return self.done

    def _token(self, kind: str, token: str, at: int) -> int | None:
        """Take in a token; where to go on if that is not right behind it."""
        frame = self.frames[-1]
        if self.fresh and not frame.groups and not frame.brackets and (ahead := self._begins(kind, token, at)):
            return ahead
        statement = frame.current
        whole = statement or frame.owner
        if whole is not None and len(token) <= _LONGEST:
            whole.own += f"{token} "
        if token == "{":
            self.frames.append(_Frame(statement))
        elif token == "}":
            self._close()
        elif statement is None:
            pass
        elif token == "(":
            frame.groups.append(_Group())
        elif token == ")" and frame.groups:
            self._flush(statement, frame.groups.pop())
        elif token in ("[", "]"):
            frame.brackets += 1 if token == "[" else -1
        elif kind == "value":
            self._value(statement, token, at)
        elif kind == "arrow" or token == "to":
            statement.behind = True
        elif token == "reducer":
            statement.defines = True
        elif token in (":", "=") and frame.groups and not frame.brackets:
            self._mark(statement, token, frame.groups[-1])
        elif kind in ("angle", "word") and _TYPE.match(token):
            self._type(statement, Typed(token, at))
        return None

    def _begins(self, kind: str, token: str, at: int) -> int | None:
        """Begin an op, or the arguments of a block, if they stand here."""
        results: list[Name] = []
        start = at
        if kind == "label":
            return self._begin(Statement("^", at, defines=True), at + len(token))
        head = _HEAD.match(self.text, at) if kind == "value" else None
        if head is not None:
            for name, count in _RESULT.findall(head[1]):
                many = [f"{name}#{k}" for k in range(int(count))] if count else [name]
                results += [Name(each, at) for each in many]
            at = head.end()
            found = _TOKEN.match(self.text, at)
            kind, token = (str(found.lastgroup), found.group()) if found else ("", "")
        name, end = token.strip('"'), at + len(token)
        if kind not in ("word", "string") or not _OP.match(name) or _ATTRIBUTE.match(self.text, end):
            return None
        return self._begin(Statement(name, start, results, defines=name == "func.func"), end)

    def _begin(self, statement: Statement, end: int) -> int:
        frame = self.frames[-1]
        self._finish(frame)
        frame.current = statement
        for each in statement.results:
            frame.names[each.text] = each
            frame.names[each.text.removesuffix("#0")] = each
        return end

    def _finish(self, frame: _Frame) -> None:
        """The op of a block that stood before is whole."""
        statement, frame.current = frame.current, None
        if statement is not None:
            self.done.append(statement)
            if statement.name.endswith("return") and frame.owner is not None:
                frame.owner.returned.append(statement)
            if statement.name == "^" and frame.owner is not None:
                frame.owner.args += statement.args

    def _close(self) -> None:
        if len(self.frames) > 1:
            self._finish(self.frames.pop())

    def _value(self, statement: Statement, token: str, at: int) -> None:
        groups = self.frames[-1].groups
        if not groups:
            statement.operands.append(self._use(token))
            return
        if groups[-1].types:
            self._flush(statement, groups[-1])
            groups[-1] = _Group()
        groups[-1].values.append((token, at))

    def _mark(self, statement: Statement, token: str, group: _Group) -> None:
        """In parentheses ``:`` comes before the types of the values, ``=`` behind an argument of regions."""
        if token == ":":
            group.colon = True
        elif group.values:
            self._define(statement, *group.values.pop())

    def _type(self, statement: Statement, type: Typed) -> None:
        groups = self.frames[-1].groups
        if groups and groups[-1].colon:
            groups[-1].types.append(type)
        else:
            (statement.taken if statement.behind else statement.given).append(type)

    def _flush(self, statement: Statement, group: _Group) -> None:
        """The values in parentheses: arguments, or operands, with their types if these stand there."""
        values = [self._define(statement, *each) if statement.defines else self._use(each[0]) for each in group.values]
        if not statement.defines:
            statement.operands += values
        for value, type in zip(values, group.types, strict=False):
            if value is not None:
                type.values.append(value)
            statement.pairs.append(type)

    def _use(self, name: str) -> Name | None:
        return next((frame.names[name] for frame in reversed(self.frames) if name in frame.names), None)

    def _define(self, statement: Statement, name: str, at: int) -> Name:
        value = self.frames[-1].names[name] = Name(name, at)
        statement.args.append(value)
        return value
