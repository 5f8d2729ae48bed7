"""Check ruleset files before they touch a model: form, words, growth, overlap, examples; everything at once.

``check_rulesets`` collects what is wrong; ``refuse_wrong`` raises the first error, for callers that need rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from egshape.dims.functions import declared
from egshape.dims.text import DECLARED
from egshape.errors import EgshapeError, ParseError
from egshape.ops import REGISTRY
from egshape.rulelang.diagnostic import ERROR, WARNING, Diagnostic, wrong
from egshape.rulelang.examples import build_example, read_example
from egshape.rulelang.loader import Loader, load_rulesets, opened, shipped_rulesets
from egshape.rulelang.piece import Piece
from egshape.rulelang.provenance import declarations, desugar
from egshape.rulelang.rulefile import Example, Rule, RuleFile, Ruleset, facts_of, is_prelude, unknown_listed
from egshape.rulelang.sexpr import Position
from egshape.rulelang.size_decl import SizeDecl
from egshape.rulelang.size_examples import SizeQuestion
from egshape.rulelang.size_functions import refuse_late, without_rules
from egshape.rulelang.termination import Rewriting, check_overlap, check_termination, rewritings
from egshape.rulelang.typecheck import PRIMITIVES, check_rule
from egshape.spelling import meant

TENSORS = "prelude.tensor"
_CALLED = re.compile(r"\w+(?=\s*\()")
_HEAD = re.compile(r"\(([^\s();\"]+)")


class Declares(Protocol):
    """An engine that takes declarations; it raises EgshapeError for one that it refuses."""

    def declare(self, piece: str) -> None:
        """One command."""

    def close(self) -> None:
        """End it."""


NewEngine = Callable[[Iterable[Piece]], Declares]


@dataclass(frozen=True)
class Checked:
    """What was found in some files: their rules, their mistakes in order of place, and their text by name."""

    rules: tuple[Rule, ...]
    rulesets: tuple[Ruleset, ...]
    problems: tuple[Diagnostic, ...]
    sources: Mapping[str, str]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The problems that make a file unusable."""
        return tuple(each for each in self.problems if each.severity == ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The problems that do not."""
        return tuple(each for each in self.problems if each.severity == WARNING)

    def render(self) -> str:
        """All problems as text, with the lines that they are about."""
        lines = {file: text.splitlines() for file, text in self.sources.items()}
        return "\n\n".join(each.render(lines.get(each.at.file, ())) for each in self.problems)


def refuse_wrong(items: Iterable[str], preludes: Mapping[str, str]) -> None:
    """Raise EgshapeError (code "rules") for the first error in some files, with its place and the way out."""
    checked = check_rulesets(items, preludes)
    if checked.errors:
        first, more = checked.errors[0], len(checked.errors) - 1
        error = first.error()
        if more:
            error.hint = f"{error.hint}; {more} more: egshape rules check {first.at.file}".removeprefix("; ")
        raise error


def check_rulesets(
    items: Iterable[str],
    preludes: Mapping[str, str],
    engine: NewEngine | None = None,
    unread: frozenset[str] = frozenset(),
) -> Checked:
    """Check files (paths) and shipped rulesets (names), each with what it needs loaded before it.

    engine: also compare the rules with all others, and let egglog load them, which finds what is left. unread: names
    that may be declared in a part which is not given, as those in a declaration that cannot be read may be anything.
    Raises EgshapeError only for a file that cannot be read and for a name that nothing has."""
    work = _Check(preludes, engine, unread)
    for item in items:
        work.item(str(item))
    found = sorted(dict.fromkeys(work.problems), key=lambda each: (each.at.file, each.at.line, each.at.column))
    return Checked(tuple(work.rules), tuple(work.rulesets), tuple(found), work.sources)


@dataclass(frozen=True)
class Given:
    """All that the check of a rule takes from what the header of its file needs: the words that rules may use, whether
    examples are of tensors, and the names of rules that are there already."""

    words: Hashable
    tensors: bool
    names: frozenset[str]


def given(header: Ruleset, folder: Path, preludes: Mapping[str, str]) -> Given | None:
    """What a header gives the rules below it; None where what it needs does not load. Files that are needed start in a
    folder."""
    loader = Loader(preludes, provenance=True)
    loader.open.append(header.name)
    try:
        for needed in header.needs:
            loader.load(needed, "", folder)
    except EgshapeError:
        return None
    words = frozenset(loader.scheme.signatures.items()), frozenset(loader.scheme.vec_sorts.items())
    return Given(words, TENSORS in loader.done, frozenset(loader.rules))


class _Check:
    """The state of one ``check_rulesets``."""

    def __init__(self, preludes: Mapping[str, str], engine: NewEngine | None, unread: frozenset[str]) -> None:
        self.preludes = preludes
        self.engine = engine
        self.rules: list[Rule] = []
        self.rulesets: list[Ruleset] = []
        self.problems: list[Diagnostic] = []
        self.sources: dict[str, str] = {}
        self.others: list[Rewriting] = []
        self.given = unread
        self.unread: frozenset[str] = frozenset()
        """The names of a file's declarations that cannot be read: it is told of these, and of no use of the names."""
        self.unknown: frozenset[str] = frozenset()
        """They, and the size functions of a file that examples cannot name, since they are wrong."""
        if engine is not None:
            shipped = load_rulesets(shipped_rulesets(), provenance=False, preludes=preludes)
            self.others = [each for rule in shipped.rules for each in rewritings(rule, shipped.scheme)]

    def item(self, item: str) -> None:
        loader = Loader(self.preludes, provenance=True)
        found, folder = opened(item, "")
        self.sources[found.file] = found.text
        self.problems += [*found.problems, *unknown_listed(found, found.named)]
        header = found.header
        if header is None or not self._needed(loader, header, folder, found):
            return
        self.rulesets.append(header)
        if is_prelude(header.name):
            return
        before = len(self.problems)
        try:
            loader.declare_sizes(found)
        except EgshapeError as error:
            line = int(error.where.rpartition(":")[2])
            place = Position(found.file, line, 1)
            self.problems.append(Diagnostic("size-function", error.message, place, error.hint))
            return
        self.unread = (found.unread | self.given) - loader.scheme.signatures.keys() - PRIMITIVES.keys()
        with self._named(loader, found):
            for rule in found.rules:
                self._rule(rule, loader, header)
        self._names(found, loader)
        self.rules += found.rules
        wrong_already = any(each.severity == ERROR for each in (*found.problems, *self.problems[before:]))
        if self.engine is not None and not wrong_already:
            self._accepted(found, header, loader, self.engine)

    def _needed(self, loader: Loader, header: Ruleset, folder: Path, found: RuleFile) -> bool:
        """Load what a file needs; False where that fails, since nothing can be said of its words then."""
        loader.open.append(header.name)
        for needed in header.needs:
            try:
                loader.load(needed, "", folder)
            except EgshapeError as error:
                place = _place_of(needed, found)
                message = error.message if not error.where else f"{error.message} ({error.where})"
                known = (*shipped_rulesets(), "prelude.shape", TENSORS)
                hint = meant(needed, known, error.hint) if "there is no ruleset" in error.message else error.hint
                self.problems.append(Diagnostic("unknown-ruleset", message, place, hint, len(needed)))
                return False
        loader.open.pop()
        return True

    @contextmanager
    def _named(self, loader: Loader, found: RuleFile) -> Iterator[None]:
        """Examples that are read inside may name the declared size functions, whatever is wrong with their rules."""
        outside = DECLARED.get()
        sizes = [each for each in loader.sizes if each.name not in outside]
        try:
            functions = without_rules(_told(sizes, self.unread))
        except EgshapeError as error:
            file, _, line = error.where.rpartition(":")
            own = file == found.file
            message = error.message if own else f"{error.message} ({error.where})"
            place = Position(found.file, int(line) if own else 1, 1)
            self.problems.append(Diagnostic("size-function", message, place, error.hint))
            functions = {}
        self.unknown = self.unread | {each.name for each in sizes} - functions.keys()
        with declared(functions):
            yield

    def _rule(self, rule: Rule, loader: Loader, header: Ruleset) -> None:
        plains = desugar(rule.command, rule.name, rule.ruleset)
        found = [problem for plain in plains for problem in check_rule(plain, loader.scheme, REGISTRY, self.unread)]
        self.problems += found
        self.problems += self._guards(rule)
        if not found and self.unread.isdisjoint(_HEAD.findall(rule.text)):
            for plain in plains:
                try:
                    loader.logged(plain)
                except EgshapeError as error:
                    self.problems.append(wrong(rule.command, "no-reason", error.message, error.hint, rule=rule.name))
            if rule.name in header.at_once:
                try:
                    refuse_late(rule, loader.sizes)
                except EgshapeError as error:
                    self.problems.append(wrong(rule.command, "at-once", error.message, error.hint, rule=rule.name))
            self.problems += check_termination(rule, loader.scheme)
            if self.engine is not None:
                mine = rewritings(rule, loader.scheme)
                self.problems += check_overlap(mine, self.others)
                self.others += mine
        for example in (*rule.examples, *rule.counters):
            self._example(rule, example, TENSORS in loader.done)

    def _guards(self, rule: Rule) -> Iterable[Diagnostic]:
        """A guarded rule says why its guard suffices, and shows where it must not fire."""
        if not rule.guards and not (rule.command.head != "rule" and facts_of(rule.command)):
            return
        if not rule.sound:
            yield wrong(
                rule.command,
                "no-sound",
                f"{rule.name} has a guard and does not say why that is enough",
                "add a '; sound:' comment above it",
                rule=rule.name,
            )
        if not rule.counters:
            yield wrong(
                rule.command,
                "no-counter",
                f"{rule.name} has a guard and no counter-example",
                "add ';; counter LEFT' below it: a left side on which it must not fire",
                rule=rule.name,
            )

    def _example(self, rule: Rule, example: Example, tensors: bool) -> None:
        """An example must at least be readable, and its ops take their operands."""
        if not self.unknown.isdisjoint(_CALLED.findall(f"{example.before} {example.after}")):
            return
        try:
            if tensors:
                build_example(read_example(example, REGISTRY), REGISTRY)
            else:
                SizeQuestion(example)
        except ParseError as error:
            self.problems.append(self._in_example(rule, example, "example", error.message, error))
        except EgshapeError as error:
            self.problems.append(
                self._in_example(rule, example, "example-type", f"the example is ill-typed: {error.message}", error)
            )

    def _in_example(self, rule: Rule, example: Example, code: str, message: str, error: EgshapeError) -> Diagnostic:
        file, _, line = example.where.rpartition(":")
        text = (self.sources.get(file, "").splitlines() or [""])[int(line) - 1]
        column = max(text.find(example.before), 0) + 1
        tail = error.where.rpartition("column ")[2]
        if "column" in error.where and tail.isdigit():
            side = message.rpartition(" in '")[2].rstrip("'")
            start = text.find(side)
            column = (start if start >= 0 else column - 1) + int(tail)
            message = message.rpartition(" in '")[0] or message
        hint = error.hint or "rulesets/README.md has the grammar of examples"
        return Diagnostic(code, message, Position(file, int(line), column), hint, 1, ERROR, rule.name)

    def _names(self, found: RuleFile, loader: Loader) -> None:
        for rule in found.rules:
            other = loader.rules.get(rule.name) or next((each for each in self.rules if each.name == rule.name), None)
            if other is not None:
                self.problems.append(
                    wrong(
                        rule.command,
                        "duplicate-name",
                        f"a rule named {rule.name} exists already ({other.where})",
                        "rename it",
                    )
                )

    def _accepted(self, found: RuleFile, header: Ruleset, loader: Loader, new: NewEngine) -> None:
        """Let egglog itself read the rules."""
        try:
            engine = new(loader.pieces)
        except EgshapeError as error:
            file, _, line = error.where.rpartition(":")
            at, whose = Position(header.file, 1, 1), f"what {header.name} needs does not load: "
            if file == found.file:  # a size function of its own
                at, whose = Position(file, int(line), 1), ""
            self.problems.append(Diagnostic("needs", whose + error.message, at, error.hint))
            return
        engine.declare(f"(ruleset {header.name})")
        for rule in found.rules:
            try:
                for plain in desugar(rule.command, rule.name, rule.ruleset):
                    text, logs = loader.logged(plain)
                    for line in (*declarations(logs), str(text)):
                        engine.declare(line)
            except EgshapeError as error:
                self.problems.append(wrong(rule.command, "engine", error.message, error.hint, rule=rule.name))
                return  # the engine is gone
        engine.close()


def _told(sizes: Iterable[SizeDecl], unread: Iterable[str]) -> list[SizeDecl]:
    """The size functions whose texts call, directly or not, none of some names."""
    beyond, out = set(unread), []
    for decl in sizes:
        texts = f"{decl.equal} {decl.formula} {decl.emitted} {decl.defined}"
        if beyond.isdisjoint(_CALLED.findall(texts)):
            out.append(decl)
        else:
            beyond.add(decl.name)
    return out


def _place_of(name: str, found: RuleFile) -> Position:
    """Where a file names a ruleset in its `needs:`."""
    for number, line in enumerate(found.text.splitlines(), start=1):
        if line.startswith(";") and name in line:
            return Position(found.file, number, line.index(name) + 1)
    return Position(found.file, 1, 1)
