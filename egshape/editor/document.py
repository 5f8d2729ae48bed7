"""One rule file as it is in an editor: what is wrong with it, what it declares, what stands where."""

from __future__ import annotations

import re
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from egshape.editor.halves import Word, around, extents, readable, word_at
from egshape.editor.words import Place, place_of_rule, place_of_ruleset, shipped
from egshape.egraph.program import preludes
from egshape.errors import EgshapeError
from egshape.rulelang.contract import read_contracts
from egshape.rulelang.diagnostic import Diagnostic
from egshape.rulelang.lint import check_rulesets
from egshape.rulelang.loader import Loader, unsaved
from egshape.rulelang.provenance import desugar
from egshape.rulelang.rulefile import Rule, RuleFile, read_rule_file
from egshape.rulelang.sexpr import Position
from egshape.rulelang.size_decl import SizeDecl
from egshape.rulelang.size_functions import size_functions

_CONTRACTS = re.compile(r"^\((?:contract|define)\b", re.MULTILINE)
_COMMENTED = ("needs", "at once", "only at once")


@dataclass(frozen=True)
class Symbol:
    """A rule or size function of a file, from its first line and column to its end."""

    name: str
    kind: str
    about: str
    start: tuple[int, int]
    end: tuple[int, int]


@dataclass(frozen=True)
class Document:
    """A text at a path, whatever is stored there."""

    path: Path
    text: str

    @property
    def is_contracts(self) -> bool:
        """Whether the file holds contracts of ops, and no rules."""
        return _CONTRACTS.search(self.text) is not None

    @cached_property
    def _readable(self) -> tuple[str, tuple[Diagnostic, ...]]:
        return readable(self.text, str(self.path))

    @cached_property
    def file(self) -> RuleFile:
        """What can be read of the text."""
        return read_rule_file(self._readable[0], str(self.path))

    @cached_property
    def problems(self) -> tuple[Diagnostic, ...]:
        """All that `egshape rules check` finds, but for what the engine and a comparison with all other rules find."""
        text, unreadable = self._readable
        if self.is_contracts:
            return unreadable or self._of_contracts(text)
        item = str(self.path)
        with unsaved({self.path: text}), ExitStack() as scope:
            if self.sizes:
                with suppress(EgshapeError):  # what is wrong with them is said with the rest
                    scope.enter_context(size_functions([item]))
            found = check_rulesets([item], preludes()).problems
        return (*unreadable, *(each for each in found if each.at.file == item))

    def _of_contracts(self, text: str) -> tuple[Diagnostic, ...]:
        try:
            read_contracts(text, str(self.path))
        except EgshapeError as error:
            at = re.search(r":(\d+)(?::(\d+))?$", error.where)
            place = Position(str(self.path), int(at[1]) if at else 1, int(at[2] or 1) if at else 1)
            return (Diagnostic("contract", error.message, place, error.hint),)
        return ()

    # -- what it declares ----

    @cached_property
    def sizes(self) -> dict[str, SizeDecl]:
        """Size functions of this file, and of those beside it that it needs."""
        return {each.name: each for file in (self.file, *self._needed) for each in file.sizes}

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """Rules of this file, and of those beside it that it needs, and the shipped ones."""
        own = {rule.name: rule for file in (*self._needed[::-1], self.file) for rule in file.rules}
        return {**shipped().rules.by_name, **own}

    @cached_property
    def _needed(self) -> tuple[RuleFile, ...]:
        found: dict[Path, RuleFile] = {}
        waiting = [self.file]
        while waiting:
            each = waiting.pop()
            for item in each.header.needs if each.header else ():
                path = (Path(each.file).parent / item).absolute()
                if item.endswith(".egg") and path not in found and path.is_file():
                    found[path] = read_rule_file(path.read_text(encoding="utf-8", errors="replace"), str(path))
                    waiting.append(found[path])
        return tuple(found.values())

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The rules and size functions of this file, in order."""
        ends = extents(self._readable[0], str(self.path))
        found = [(rule.command.at, rule.name, rule.command.head, rule.comment) for rule in self.file.rules]
        found += [(each.at, each.name, "size", each.equal or each.formula.strip()) for each in self.file.sizes]
        places = sorted(((at.line, at.column), name, kind, about) for at, name, kind, about in found)
        return tuple(Symbol(name, kind, about, at, ends.get(at, at)) for at, name, kind, about in places)

    # -- places ----

    def word(self, line: int, column: int) -> Word | None:
        """The word at a place."""
        return word_at(self.text, line, column)

    def begun(self, line: int, column: int) -> Word:
        """What is being written at a place."""
        return around(self.text, line, column)

    def rule_at(self, line: int, column: int) -> Rule | None:
        """The rule of this file that a place is in, its comment and examples included."""
        for symbol in self.symbols:
            rule = next((each for each in self.file.rules if each.name == symbol.name), None)
            if rule is not None and _above(self.text, symbol.start[0]) <= line <= _below(self.text, symbol.end[0]):
                return rule
        return None

    def rule_named(self, word: Word) -> Rule | None:
        """The rule that a word names: in full, or as headers do."""
        name = word.text.strip(",;")
        header = self.file.header
        return self.rules.get(name) or (self.rules.get(f"{header.name}/{name}") if header and word.comment else None)

    def definition(self, word: Word) -> Place | None:
        """Where what a word names is declared, None where it names nothing."""
        name = word.text.strip(",;")
        if word.comment:
            ruleset = place_of_ruleset(name, self.path.parent)
            if ruleset is not None:
                return ruleset
        rule = self.rule_named(word)
        if rule is not None and (word.quoted or word.comment):
            return place_of_rule(rule)
        if word.comment:
            return None
        if name in self.sizes:
            at = self.sizes[name].at
            return Place(Path(at.file), at.line, at.column, len("(size"))
        return shipped().places.get(name.split(".")[0] if word.quoted else name)

    def sort_of(self, rule: Rule, variable: str) -> str:
        """The sort of a variable of a rule, "" where it cannot be told."""
        loader = Loader(preludes(), provenance=False)
        try:
            with unsaved({self.path: self._readable[0]}):
                loader.load(str(self.path), "")
        except EgshapeError:
            return ""
        plains = desugar(rule.command, rule.name, rule.ruleset)
        return next(filter(None, (loader.scheme.sorts_of_variables(p.body).get(variable, "") for p in plains)), "")


def _above(text: str, line: int) -> int:
    """The first line of the comment right above a line."""
    lines = text.split("\n")
    while line > 1 and lines[line - 2].startswith(";") and not lines[line - 2].startswith(";;"):
        line -= 1
    return line


def _below(text: str, line: int) -> int:
    """The last line of the examples right below a line."""
    lines = text.split("\n")
    while line < len(lines) and lines[line].startswith(";;"):
        line += 1
    return line
