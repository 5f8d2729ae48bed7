"""One `.egg` file of rules: its header, its rules with what is written around them, and what breaks the law.

rulesets/README.md is the law. Mistakes are collected, so that `egshape rules check` shows all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from egshape.errors import EgshapeError
from egshape.rulelang.diagnostic import Diagnostic, wrong
from egshape.rulelang.provenance import keyword_options
from egshape.rulelang.sexpr import Atom, Comment, List, Position, SExpr, read
from egshape.rulelang.size_decl import SizeDecl, read_size
from egshape.spelling import meant

HEADER = ("ruleset", "about", "needs", "law", "ends")
OPTIONAL = ("tolerance", "at once", "only at once")
UNKNOWN_RULE = "unknown-rule"
"""The code of a mistake: the header names a rule that the file has not."""
PRELUDE = "prelude."
APPROX = "approx."
_RULES = frozenset(("rule", "rewrite", "birewrite"))
_DECLARATIONS = frozenset(("sort", "datatype", "function", "relation", "constructor"))
# A prelude may also define: copy input rows into nodes, unfold a request. That needs no reason in a log.
_PRELUDE = _DECLARATIONS | {"ruleset", "rule", "unstable-combined-ruleset"}
_COMPARISONS = frozenset(("<", ">", "<=", ">=", "!="))
_KEY = re.compile(r";\s?((?:only )?\w+(?: once)?):\s*(.*)")
_LISTED = re.compile(r"[^,\s]+")
_EXAMPLE = re.compile(r";;\s*(example|counter)\s+(.*\S)\s*")
_PYTHON = ("py-", "unstable-app-py", "py_")
_FILES = frozenset(("input", "output", "include", "print-function", "print-size", "save"))
_COMMANDS = frozenset(("run", "run-schedule", "push", "pop", "check", "extract", "let", "set", "union", "fail",
                       "delete", "panic", "simplify", "query-extract", "set-option", "calc", "action"))  # fmt: skip


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
    """One named rule. `guards` are its conditions; `sound` says why they suffice; `ends` why it does not grow."""

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
    ends: str
    command: List = field(repr=False, compare=False)

    @property
    def where(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A rule of the user that was left out, and why."""

    rule: str
    why: str

    def __str__(self) -> str:
        return f"the rule {self.rule} is left out: {self.why}; try `egshape rules test`"


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The header of one file. `tolerance` is the relative difference that an approximate ruleset may make; `at_once`
    names the rules that simplify where a size is made, in the order in which they are tried; those of them that are in
    `only_at_once` are not for the engine, which gets sizes that they have simplified."""

    name: str
    about: str
    needs: tuple[str, ...]
    law: str
    ends: str
    file: str
    tolerance: float | None = None
    at_once: tuple[str, ...] = ()
    only_at_once: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """The name of a rule in the header's `at once:` or `only at once:`, as it is written there."""

    name: str
    at: Position


@dataclass(frozen=True, slots=True)
class RuleFile:
    """What one file holds: `header` is None, and `rules` and `declarations` are empty, where it cannot be read.

    `listed` are the rules that the header names, `named` those that commands name, also wrong ones; None where one has
    no name, which may be any. `unread` are the names that wrong declarations give, of which uses are no mistakes."""

    file: str
    text: str
    header: Ruleset | None
    declarations: tuple[List, ...]
    rules: tuple[Rule, ...]
    problems: tuple[Diagnostic, ...]
    sizes: tuple[SizeDecl, ...] = ()
    listed: tuple[Listed, ...] = ()
    named: frozenset[str] | None = None
    unread: frozenset[str] = frozenset()


def is_prelude(name: str) -> bool:
    """Whether a ruleset name is that of a prelude, which declares and holds no rewrites."""
    return name.startswith(PRELUDE)


def is_approximate(name: str) -> bool:
    """Whether a ruleset name is that of float algebra that changes rounding."""
    return name.startswith(APPROX)


@lru_cache(maxsize=256)
def read_rule_file(text: str, file: str) -> RuleFile:
    """A file with everything in it that breaks the law of its form; never raises for what the file says."""
    problems: list[Diagnostic] = []
    try:
        expressions = read(text, file)
    except EgshapeError as error:
        return RuleFile(file, text, None, (), (), (_of_syntax(error, file),))
    header, listed = _header(expressions, file, problems)
    if header is None:
        return RuleFile(file, text, None, (), (), tuple(problems))
    if is_prelude(header.name):
        commands = _commands(expressions, _PRELUDE, "a prelude only declares and defines", problems)
        return RuleFile(file, text, header, tuple(commands), (), tuple(problems))
    hint = "a ruleset only holds rule, rewrite, birewrite and size; declarations belong in a prelude"
    rules: dict[str, Rule] = {}
    sizes: list[SizeDecl] = []
    places = {id(item): place for place, item in enumerate(expressions)}
    for command in _commands(expressions, _RULES | {"size"}, hint, problems):
        if command.head == "size":
            try:
                sizes.append(read_size(command, header.name))
            except EgshapeError as error:
                problems.append(Diagnostic("size-function", error.message, command.at, error.hint))
            continue
        rule = _described(command, header, _comments_around(places[id(command)], expressions), problems)
        if rule is not None and rule.name in rules:
            other = rules[rule.name].where
            problems.append(wrong(command, "duplicate-name",
                                  f"a rule named {rule.name} exists already ({other})", "rename it"))  # fmt: skip
        elif rule is not None:
            rules[rule.name] = rule
    names = [_name(item) for item in expressions if isinstance(item, List) and item.head in _RULES]
    named = None if None in names else frozenset(each.value for each in names if each is not None)
    unread = frozenset(_declared(expressions)) - {each.name for each in sizes}
    return RuleFile(file, text, header, (), tuple(rules.values()), tuple(problems), tuple(sizes), listed, named, unread)


def unknown_listed(found: RuleFile, named: Collection[str] | None) -> Iterator[Diagnostic]:
    """The rules that the header of a file names and that no command does; ``named`` as that of the whole file."""
    if named is None:
        return
    ruleset = found.header.name if found.header is not None else ""
    short = [each.removeprefix(f"{ruleset}/") for each in named]
    for each in found.listed:
        if f"{ruleset}/{each.name}" not in named:
            hint = meant(each.name.rpartition("/")[2], short, "name a rule of this file, without its ruleset")
            message = f"no rule of this file is named {ruleset}/{each.name}"
            yield Diagnostic(UNKNOWN_RULE, message, each.at, hint, len(each.name))


def _of_syntax(error: EgshapeError, file: str) -> Diagnostic:
    """The diagnostic of an error of the reader, which gives file:line:column."""
    *_, line, column = error.where.rsplit(":", 2)
    return Diagnostic("syntax", error.message, Position(file, int(line), int(column)), error.hint)


def _declared(expressions: Iterable[SExpr | Comment]) -> Iterator[str]:
    """The names that a file declares, or would if the word in front of them were another."""
    for item in expressions:
        if isinstance(item, List) and len(item.items) > 1 and item.head not in _RULES:
            named = item.items[1]
            yield named.head if isinstance(named, List) else named.text


def _header(
    expressions: Sequence[SExpr | Comment], file: str, problems: list[Diagnostic]
) -> tuple[Ruleset | None, tuple[Listed, ...]]:
    """The fields in the comments before the first command; indented lines continue a field. With the rules that they
    name."""
    lines: dict[str, list[tuple[str, Position]]] = {}
    places: dict[str, Position] = {}
    last, line_before = "", 0
    for item in expressions:
        if not isinstance(item, Comment) or (last and item.at.line != line_before + 1):
            break
        match = _KEY.fullmatch(item.text)
        if match and match.group(1) in HEADER + OPTIONAL:
            last = match.group(1)
            lines[last] = [_part(item, match.start(2))]
            places[last] = item.at
        elif last:
            lines[last].append(_part(item, len(item.text) - len(item.text.lstrip("; "))))
        line_before = item.at.line
    fields = {key: " ".join(text for text, _ in each) for key, each in lines.items()}
    missing = [key for key in HEADER if not fields.get(key)]
    if missing:
        problems.append(Diagnostic(
            "header", f"the header has no '{missing[0]}:'", Position(file, 1, 1),
            "begin the file with '; ruleset:', '; about:', '; needs:', '; law:' and '; ends:' lines",
        ))  # fmt: skip
        return None, ()
    needs = tuple(re.split(r"[,\s]+", fields["needs"])) if fields["needs"] != "nothing" else ()
    tolerance = _tolerance(fields, places, problems)
    name = fields["ruleset"]
    once, only = (
        [Listed(word.group(), replace(at, column=at.column + word.start()))
         for text, at in lines.get(key, ()) for word in _LISTED.finditer(text)]
        for key in ("at once", "only at once")
    )  # fmt: skip
    full = [tuple(f"{name}/{each.name}" for each in found) for found in (once, only)]
    header = Ruleset(name, fields["about"], needs, fields["law"], fields["ends"], file, tolerance, *full)
    return header, (*once, *only)


def _part(comment: Comment, start: int) -> tuple[str, Position]:
    """The text of a comment from a letter on, with its place."""
    return comment.text[start:].strip(), replace(comment.at, column=comment.at.column + start)


def _tolerance(fields: dict[str, str], places: dict[str, Position], problems: list[Diagnostic]) -> float | None:
    stated, approximate = fields.get("tolerance"), is_approximate(fields["ruleset"])
    if approximate and stated is None:
        problems.append(Diagnostic("header", "an approximate ruleset has no 'tolerance:'", places["ruleset"],
                                   "say how far a result may be off, such as '; tolerance: 1e-6'"))  # fmt: skip
    if stated is None:
        return None
    if not approximate:
        problems.append(Diagnostic("header", "an exact ruleset has a tolerance", places["tolerance"],
                                   "name it approx.SOMETHING, or keep every bit and drop the line"))  # fmt: skip
    try:
        found = float(stated)
    except ValueError:
        found = -1.0
    if not 0 < found < 1:
        problems.append(Diagnostic("header", f"the tolerance {stated!r} is no number between 0 and 1",
                                   places["tolerance"], "such as '; tolerance: 1e-6'"))  # fmt: skip
        return None
    return found


def _commands(
    expressions: Sequence[SExpr | Comment], allowed: frozenset[str], hint: str, problems: list[Diagnostic]
) -> Iterator[List]:
    for item in expressions:
        if isinstance(item, Comment):
            continue
        outside = next((a for a in _atoms(item) if a.text.startswith(_PYTHON)), None)
        if outside is not None:
            problems.append(wrong(outside, "runs-code", f"'{outside}' runs Python from a rule",
                                  "a ruleset is data: use the engine's own functions"))  # fmt: skip
        elif not isinstance(item, List) or item.head not in allowed:
            problems.append(_not_allowed(item, allowed, hint))
        else:
            yield item


def _not_allowed(item: SExpr, allowed: frozenset[str], hint: str) -> Diagnostic:
    shown = item.head if isinstance(item, List) else str(item)
    if shown in _FILES:
        return wrong(item, "touches-files", f"'{shown}' is not allowed here: it reads or writes files",
                     "a ruleset is data: " + hint)  # fmt: skip
    if shown in _COMMANDS:
        return wrong(item, "runs", f"'{shown}' is not allowed here: it is a command, and egshape runs the rules",
                     "a ruleset is data: " + hint)  # fmt: skip
    return wrong(item, "command", f"'{shown}' is not allowed here", meant(shown, allowed, hint))


def _described(
    command: List, header: Ruleset, around: tuple[list[str], list[Comment]], problems: list[Diagnostic]
) -> Rule | None:
    """The rule of a command, with the comments that stand around it; None if it has no name."""

    def bad(code: str, message: str, hint: str, place: SExpr = command) -> None:
        problems.append(wrong(place, code, message, hint))

    options = keyword_options(command)
    name = _name(command)
    if name is None:
        bad("no-name", "the rule has no name", f'add :name "{header.name}/<what-it-does>"')
        return None
    if len(command.items) < 3 or not _well_formed(command):
        form = "((FACT ...) (ACTION ...))" if command.head == "rule" else "LEFT RIGHT"
        bad("form", f"the {command.head} is not of the form ({command.head} {form} ...)", "see rulesets/README.md")
        return None
    if not re.fullmatch(re.escape(header.name) + r"/[a-z0-9][a-z0-9-]*", name.value):
        bad("name", f"the rule's name {name.value} is not of the form {header.name}/some-name", "rename it", name)
    if str(options.get(":ruleset")) != header.name:
        bad("ruleset", f"rule {name.value} is not in this file's ruleset", f"add :ruleset {header.name}")
    before, after = around
    above = parts(before)
    if not above[""]:
        bad("no-comment", f"rule {name.value} has no comment above it", "write the equation in a comment")
    found = [m for c in after if (m := _EXAMPLE.fullmatch(c.text))]
    examples = [_example(m, c.at) for c in after if (m := _EXAMPLE.fullmatch(c.text))]
    good = tuple(e for e, m in zip(examples, found, strict=True) if m.group(1) == "example")
    counters = tuple(e for e, m in zip(examples, found, strict=True) if m.group(1) == "counter")
    if not good:
        bad("no-example", f"rule {name.value} has no example", "add ';; example LEFT => RIGHT' below it")
    return Rule(
        name.value,
        header.name,
        command.at.file,
        command.at.line,
        above[""],
        above["sound"],
        tuple(str(fact) for fact in facts_of(command) if is_guard(fact)),
        good,
        counters,
        str(command),
        above["ends"],
        command,
    )


def _name(command: List) -> Atom | None:
    """The name that a command gives to a rule."""
    name = keyword_options(command).get(":name")
    return name if isinstance(name, Atom) and name.is_string else None


def _well_formed(command: List) -> bool:
    """Whether the parts of a rule are where they must be."""
    if command.head != "rule":
        when = keyword_options(command).get(":when")
        return not str(command.items[2]).startswith(":") and (when is None or isinstance(when, List))
    return all(isinstance(part, List) and all(isinstance(each, List) for each in part.items)
               for part in command.items[1:3])  # fmt: skip


def parts(lines: Sequence[str]) -> dict[str, str]:
    """The comment above a rule: the equation, and what follows `sound:` and `ends:`."""
    found: dict[str, list[str]] = {"": [], "sound": [], "ends": []}
    current = ""
    for line in lines:
        for key in ("sound", "ends"):
            if line.startswith(f"{key}:"):
                current, line = key, line.removeprefix(f"{key}:")  # noqa: PLW2901
        found[current].append(line.strip())
    return {key: " ".join(each for each in texts if each) for key, texts in found.items()}


def _comments_around(place: int, expressions: Sequence[SExpr | Comment]) -> tuple[list[str], list[Comment]]:
    """The comment lines right above a command, without semicolons, and the ;; lines that follow it."""
    above: list[Comment] = []
    for item in (expressions[number] for number in range(place - 1, -1, -1)):
        if not isinstance(item, Comment) or item.text.startswith(";;"):
            break
        if (above[-1] if above else expressions[place]).at.line != item.at.line + 1:
            break
        above.append(item)
    below: list[Comment] = []
    for item in (expressions[number] for number in range(place + 1, len(expressions))):
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
    where = f"{at.file}:{at.line}"
    if arrow:
        return Example(before.strip(), last.strip(), reason, where)
    return Example(last.strip(), "", reason, where)


def facts_of(command: List) -> tuple[SExpr, ...]:
    """The conditions of a rule: its body, or what stands behind `:when`."""
    if command.head == "rule":
        body = command.items[1]
    else:
        body = keyword_options(command).get(":when", List((), command.at))
    return body.items if isinstance(body, List) else ()


def is_guard(fact: SExpr) -> bool:
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
