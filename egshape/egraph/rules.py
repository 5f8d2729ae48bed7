"""Loader of `.egg` rulesets: headers, names, examples and what a rule may do are checked here.

A ruleset file is read once, in the order that its `needs:` ask for, and becomes small pieces of program
text for the engine plus a table of its rules. rulesets/README.md is the law that it enforces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from egshape.egraph.engine import Piece
from egshape.egraph.instrument import EquationLog, Scheme, declarations, desugar, instrument, keyword_options
from egshape.egraph.sexpr import Atom, Comment, List, Position, SExpr, read
from egshape.errors import EgshapeError

HEADER = ("ruleset", "about", "needs", "law", "ends")
PRELUDE = "prelude."
_RULES = frozenset(("rule", "rewrite", "birewrite"))
_DECLARATIONS = frozenset(("sort", "datatype", "function", "relation", "constructor"))
# A prelude may also define: copy input rows into nodes, unfold a request. That needs no reason in a log.
_PRELUDE = _DECLARATIONS | {"ruleset", "rule", "unstable-combined-ruleset"}
_COMPARISONS = frozenset(("<", ">", "<=", ">=", "!="))
_KEY = re.compile(r";\s?(\w+):\s*(.*)")
_EXAMPLE = re.compile(r";;\s*(example|counter)\s+(.*\S)\s*")


@dataclass(frozen=True, slots=True)
class Example:
    """A left side, and the result that it must have (example) or must not have (counter).

    `after` is "" where the rule must not fire at all. `reason` is a remark in parentheses at the end.
    """

    before: str
    after: str
    reason: str
    where: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One named rule. `guards` are its conditions; `sound` says why they suffice."""

    name: str
    ruleset: str
    file: str
    line: int
    comment: str
    sound: str
    guards: tuple[str, ...]
    examples: tuple[Example, ...]
    counters: tuple[Example, ...]
    text: str

    @property
    def where(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The header of one file."""

    name: str
    about: str
    needs: tuple[str, ...]
    law: str
    ends: str
    file: str


@dataclass(frozen=True, slots=True)
class LoadedRules:
    """A program for the engine, and what is known about its rules.

    `rulesets` are in loading order; `logs` has the equation logs of instrumented rules.
    """

    pieces: tuple[Piece, ...]
    rules: tuple[Rule, ...]
    rulesets: tuple[Ruleset, ...]
    logs: tuple[EquationLog, ...] = ()
    by_name: Mapping[str, Rule] = field(default_factory=dict)

    def rule(self, name: str) -> Rule:
        """The rule that a name in a report or log means; `name<=` is a birewrite's backward half."""
        return self.by_name[name.removesuffix("<=")]

    def names(self, prefix: str = "") -> tuple[str, ...]:
        """Names of the loaded rulesets that hold rules, those that begin with `prefix`."""
        return tuple(r.name for r in self.rulesets if r.name.startswith(prefix) and not is_prelude(r.name))


def is_prelude(name: str) -> bool:
    """Whether a ruleset name is that of a prelude, which declares and holds no rewrites."""
    return name.startswith(PRELUDE)


def shipped_rulesets() -> tuple[str, ...]:
    """Names of all rulesets of the package, preludes apart: path = name."""
    root = Path(str(files("egshape"))) / "rulesets"
    names = (".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.egg"))
    return tuple(sorted(name for name in names if not is_prelude(name)))


def load_rulesets(
    names_or_paths: Iterable[str | Path], instrument: bool = True, preludes: Mapping[str, str] | None = None
) -> LoadedRules:
    """Load rulesets by name (`shape.floordiv`) or path (`my.egg`), with all that they need.

    instrument: log unions of named sorts (see egraph/instrument.py). preludes: generated preludes by name
    (`prelude.tensor`), as text without a header; a ruleset file asks for them in its `needs:`.
    Raises EgshapeError (code "rules") with file:line and the way out.
    """
    loader = _Loader(preludes or {}, instrument)
    for item in names_or_paths:
        loader.load(str(item), "")
    return loader.loaded()


class _Loader:
    """The state of one `load_rulesets`."""

    def __init__(self, preludes: Mapping[str, str], instrument: bool) -> None:
        self.preludes = preludes
        self.instrument = instrument
        self.scheme = Scheme()
        self.open: list[str] = []
        self.done: dict[str, Ruleset] = {}
        self.pieces: list[Piece] = []
        self.rules: dict[str, Rule] = {}
        self.logs: list[EquationLog] = []

    def loaded(self) -> LoadedRules:
        return LoadedRules(
            tuple(self.pieces),
            tuple(self.rules.values()),
            tuple(self.done.values()),
            tuple(self.logs),
            dict(self.rules),
        )

    def load(self, item: str, asked_by: str) -> None:
        """Load one ruleset, unless that was done, after what it needs."""
        if item in self.preludes:
            self._generated(item)
            return
        path, file = _locate(item, asked_by)
        expressions = read(_text(path, file), file)
        header = _header(expressions, file)
        if not item.endswith(".egg") and header.name != item:
            raise _error(
                f"the header calls this ruleset {header.name}", f"{file}:1", f"the path makes it {item}"
            )
        if header.name in self.done:
            if self.done[header.name].file != file:
                raise _error(f"ruleset {header.name} is loaded twice", f"{file}:1", "give it another name")
            return
        if header.name in self.open:
            chain = " -> ".join([*self.open[self.open.index(header.name) :], header.name])
            raise _error(f"rulesets need each other: {chain}", f"{file}:1", "move what both need to a third")
        self.open.append(header.name)
        for needed in header.needs:
            self.load(needed, f"{file}:1")
        self.open.pop()
        self.done[header.name] = header
        if is_prelude(header.name):
            self._prelude(expressions)
        else:
            self._ruleset(expressions, header)

    def _generated(self, name: str) -> None:
        if name in self.done:
            return
        self.done[name] = Ruleset(name, "generated declarations", (), "", "", f"<{name}>")
        self._prelude(read(self.preludes[name], f"<{name}>"))

    def _prelude(self, expressions: Sequence[SExpr | Comment]) -> None:
        for command in _commands(expressions, _PRELUDE, "a prelude only declares and defines"):
            self.scheme.declare(command)
            self.pieces.append(Piece(str(command), _where(command.at)))

    def _ruleset(self, expressions: Sequence[SExpr | Comment], header: Ruleset) -> None:
        self.pieces.append(Piece(f"(ruleset {header.name})", f"{header.file}:1"))
        hint = "a ruleset only holds rule, rewrite and birewrite; declarations belong in a prelude"
        for command in _commands(expressions, _RULES, hint):
            rule = _described(command, header, expressions)
            if rule.name in self.rules:
                other = self.rules[rule.name].where
                raise _error(f"a rule named {rule.name} exists already ({other})", rule.where, "rename it")
            self.rules[rule.name] = rule
            self._add(command, rule)

    def _add(self, command: List, rule: Rule) -> None:
        for plain in desugar(command, rule.name, rule.ruleset):
            text, logs = instrument(plain, self.scheme) if self.instrument else (plain, ())
            self.logs.extend(logs)
            self.pieces.extend(Piece(line, rule.where) for line in declarations(logs))
            self.pieces.append(Piece(str(text), rule.where))


def _locate(item: str, asked_by: str) -> tuple[Path, str]:
    """The path of a ruleset and the file name that errors give."""
    if item.endswith(".egg"):
        return Path(item), item
    relative = Path("rulesets", *item.split(".")).with_suffix(".egg")
    path = Path(str(files("egshape"))) / relative
    if not path.is_file():
        hint = "shipped rulesets: " + ", ".join(shipped_rulesets())
        raise _error(f"there is no ruleset named {item}", asked_by, hint)
    return path, str(relative)


def _text(path: Path, file: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no UTF-8 text"
        raise _error(f"the ruleset cannot be read: {reason}", file, "give the path of a .egg file") from error


def _header(expressions: Sequence[SExpr | Comment], file: str) -> Ruleset:
    """The fields in the comments before the first command; indented lines continue a field."""
    fields: dict[str, str] = {}
    last, line_before = "", 0
    for item in expressions:
        if not isinstance(item, Comment) or (last and item.at.line != line_before + 1):
            break
        match = _KEY.fullmatch(item.text)
        if match and match.group(1) in HEADER:
            last = match.group(1)
            fields[last] = match.group(2).strip()
        elif last:
            fields[last] += " " + item.text.lstrip("; ").strip()
        line_before = item.at.line
    for key in HEADER:
        if not fields.get(key):
            raise _error(
                f"the header has no '{key}:'", f"{file}:1",
                "begin the file with '; ruleset:', '; about:', '; needs:', '; law:' and '; ends:' lines",
            )  # fmt: skip
    needs = tuple(re.split(r"[,\s]+", fields["needs"])) if fields["needs"] != "nothing" else ()
    return Ruleset(fields["ruleset"], fields["about"], needs, fields["law"], fields["ends"], file)


def _commands(expressions: Sequence[SExpr | Comment], allowed: frozenset[str], hint: str) -> Iterator[List]:
    for item in expressions:
        if isinstance(item, Comment):
            continue
        if not isinstance(item, List) or item.head not in allowed:
            shown = item.head if isinstance(item, List) else str(item)
            raise _error(f"'{shown}' is not allowed here", _where(item.at), hint)
        outside = next((a for a in _atoms(item) if a.text.startswith(("py-", "unstable-app-py"))), None)
        if outside is not None:
            raise _error(f"'{outside}' runs Python from a rule", _where(outside.at), "use engine primitives")
        yield item


def _described(command: List, header: Ruleset, expressions: Sequence[SExpr | Comment]) -> Rule:
    """The rule of a command, with the comments that stand around it."""
    where = _where(command.at)
    options = keyword_options(command)
    name = options.get(":name")
    if not isinstance(name, Atom) or not name.is_string:
        raise _error("the rule has no name", where, f'add :name "{header.name}/<what-it-does>"')
    if not re.fullmatch(re.escape(header.name) + r"/[a-z0-9][a-z0-9-]*", name.value):
        raise _error(
            f"the rule's name {name.value} is not of the form {header.name}/some-name", where, "rename it"
        )
    if str(options.get(":ruleset")) != header.name:
        raise _error(f"rule {name.value} is not in this file's ruleset", where, f"add :ruleset {header.name}")
    before, after = _comments_around(command, expressions)
    split = next((i for i, text in enumerate(before) if text.startswith("sound:")), len(before))
    comment, sound = before[:split], before[split:]
    if not comment:
        raise _error(f"rule {name.value} has no comment above it", where, "write the equation in a comment")
    found = [m for c in after if (m := _EXAMPLE.fullmatch(c.text))]
    examples = [_example(m, c.at) for c in after if (m := _EXAMPLE.fullmatch(c.text))]
    good = tuple(e for e, m in zip(examples, found, strict=True) if m.group(1) == "example")
    bad = tuple(e for e, m in zip(examples, found, strict=True) if m.group(1) == "counter")
    if not good:
        raise _error(f"rule {name.value} has no example", where, "add ';; example LEFT => RIGHT' below it")
    return Rule(
        name.value,
        header.name,
        command.at.file,
        command.at.line,
        " ".join(comment),
        " ".join(sound).removeprefix("sound:").strip(),
        tuple(str(fact) for fact in _facts(command) if _is_guard(fact)),
        good,
        bad,
        str(command),
    )


def _comments_around(
    command: List, expressions: Sequence[SExpr | Comment]
) -> tuple[list[str], list[Comment]]:
    """The comment lines right above a command, without semicolons, and the ;; lines that follow it."""
    index = next(i for i, item in enumerate(expressions) if item is command)
    above: list[Comment] = []
    for item in reversed(expressions[:index]):
        if not isinstance(item, Comment) or item.text.startswith(";;"):
            break
        if (above[-1].at.line if above else command.at.line) != item.at.line + 1:
            break
        above.append(item)
    below: list[Comment] = []
    for item in expressions[index + 1 :]:
        if not isinstance(item, Comment) or not item.text.startswith(";;"):
            break
        below.append(item)
    return [comment.text.lstrip("; ").strip() for comment in reversed(above)], below


def _example(match: re.Match[str], at: Position) -> Example:
    body = match.group(2)
    before, arrow, after = body.partition("=>")
    reason = ""
    last = after if arrow else before
    remark = re.fullmatch(r"(.*\S)\s{2,}\((.*)\)", last)
    if remark:
        last, reason = remark.group(1), remark.group(2)
    if arrow:
        return Example(before.strip(), last.strip(), reason, _where(at))
    return Example(last.strip(), "", reason, _where(at))


def _facts(command: List) -> tuple[SExpr, ...]:
    if command.head == "rule":
        body = command.items[1]
    else:
        body = keyword_options(command).get(":when", List((), command.at))
    return body.items if isinstance(body, List) else ()


def _is_guard(fact: SExpr) -> bool:
    """A condition beyond the pattern: a comparison."""
    if not isinstance(fact, List):
        return False
    return fact.head in _COMPARISONS or fact.head.startswith("bool-")


def _atoms(expr: SExpr) -> Iterator[Atom]:
    if isinstance(expr, Atom):
        yield expr
    else:
        for item in expr.items:
            yield from _atoms(item)


def _where(at: Position) -> str:
    return f"{at.file}:{at.line}"


def _error(message: str, where: str, hint: str) -> EgshapeError:
    return EgshapeError(message, where=where, hint=hint, code="rules")
