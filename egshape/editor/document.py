"""One rule file as it is in an editor: what is wrong with it, what it declares, what stands where."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from egshape.editor.chunks import (
    Chunk,
    Known,
    Memory,
    Symbol,
    apart,
    chunks,
    joined,
    moved_problem,
    moved_rule,
    moved_symbol,
)
from egshape.editor.halves import Word, around, extents, readable, word_at
from egshape.editor.words import Place, place_of_rule, place_of_ruleset, shipped
from egshape.egraph.program import preludes
from egshape.errors import EgshapeError
from egshape.ops import REGISTRY
from egshape.rulelang.contract import read_contracts
from egshape.rulelang.diagnostic import Diagnostic, wrong
from egshape.rulelang.layout import laid_out
from egshape.rulelang.lint import check_rulesets
from egshape.rulelang.loader import Loader, unsaved
from egshape.rulelang.provenance import desugar
from egshape.rulelang.rulefile import Rule, RuleFile, read_rule_file
from egshape.rulelang.sexpr import Position
from egshape.rulelang.size_decl import SizeDecl
from egshape.rulelang.size_functions import size_functions

_CONTRACTS = re.compile(r"^\((?:contract|define)\b", re.MULTILINE)


@dataclass(frozen=True)
class Document:
    """A text at a path, whatever is stored there."""

    path: Path
    text: str
    memory: Memory = field(default_factory=Memory, compare=False)
    """What was known of an earlier state of the file."""

    @property
    def is_contracts(self) -> bool:
        """Whether the file holds contracts of ops, and no rules."""
        return _CONTRACTS.search(self.text) is not None

    @cached_property
    def _chunks(self) -> tuple[Chunk, ...]:
        return chunks(self.text)

    @cached_property
    def _context(self) -> tuple[Chunk, ...]:
        """What all rules stand under: the header, and size functions."""
        return (self._chunks[0], *(each for each in self._chunks[1:] if each.is_size))

    @cached_property
    def file(self) -> RuleFile:
        """The header and the size functions."""
        text, line = "", 1
        for each in self._context:
            text += "\n" * (each.first - line) + each.text
            line = each.first + each.text.count("\n")
        return read_rule_file(readable(text, str(self.path))[0], str(self.path))

    @cached_property
    def _known(self) -> tuple[tuple[int, Known], ...]:
        """What is known of each chunk, with the number of lines before it."""
        texts = [each.text for each in self._chunks]
        needed = tuple(each.text for each in self._needed)
        held = self.memory.under((tuple(each.text for each in self._context), needed, REGISTRY.version))
        missing = [text for text in dict.fromkeys(texts) if text not in held]
        if missing:
            held |= self._read(missing)
        self.memory.keep(texts)
        return tuple((each.first - 1, held[each.text]) for each in self._chunks)

    def _read(self, missing: Sequence[str]) -> dict[str, Known]:
        """What is found in some chunks, read at once."""
        above = [each.text for each in self._context]
        texts = [*above, *(each for each in missing if each not in above)]
        item = str(self.path)
        whole, before = joined(texts)
        text, unreadable = readable(whole, item)
        file, ends = read_rule_file(text, item), extents(text, item)
        symbols = [(rule.command.at, rule.name, rule.command.head, rule.comment) for rule in file.rules]
        symbols += [(each.at, each.name, "size", each.equal or each.formula.strip()) for each in file.sizes]
        places = sorted(((at.line, at.column), name, kind, about) for at, name, kind, about in symbols)
        named = [Symbol(name, kind, about, at, ends.get(at, at)) for at, name, kind, about in places]
        problems = [*unreadable, *self._checked(text)]
        found = apart(texts, before, file.rules, named, problems)
        twice = [each for each in found if any(_is_double(problem, item) for problem in found[each].problems)]
        if len(missing) > 1:  # one is told of the other where both stand
            for each in twice:
                found |= self._read([each])
        return found

    def _checked(self, text: str) -> tuple[Diagnostic, ...]:
        item = str(self.path)
        with unsaved({self.path: text}), ExitStack() as scope:
            if self.sizes:
                with suppress(EgshapeError):  # what is wrong with them is said with the rest
                    scope.enter_context(size_functions([item]))
            found = check_rulesets([item], preludes()).problems
        return tuple(each for each in found if each.at.file == item)

    @cached_property
    def problems(self) -> tuple[Diagnostic, ...]:
        """All that `egshape rules check` finds, but for what the engine and a comparison with all other rules find."""
        if self.is_contracts:
            text, unreadable = readable(self.text, str(self.path))
            return unreadable or self._of_contracts(text)
        found = [moved_problem(each, lines) for lines, known in self._known for each in known.problems]
        return tuple(sorted([*found, *self._doubles()], key=lambda each: (each.at.line, each.at.column)))

    def _doubles(self) -> Iterator[Diagnostic]:
        """Rules with the name of one above them."""
        first: dict[str, tuple[int, Rule]] = {}
        for lines, known in self._known:
            for rule in known.rules:
                before = first.setdefault(rule.name, (lines, rule))
                if before != (lines, rule):
                    message = f"a rule named {rule.name} exists already ({moved_rule(before[1], before[0]).where})"
                    yield wrong(moved_rule(rule, lines).command, "duplicate-name", message, "rename it")

    @property
    def laid_out(self) -> str:
        """The text in the one layout. Raises EgshapeError for a rule whose parentheses are not balanced."""
        held = self.memory.layouts
        out = ""
        for each in self._chunks:
            if each.text not in held:
                held[each.text] = laid_out(each.text, str(self.path))
            out += held[each.text]
            empty = not each.text.rpartition("\n")[2].strip()
            out += "\n" if empty and out and not out.endswith("\n\n") else ""
        return f"{out.rstrip()}\n" if out.strip() else ""

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
    def own(self) -> tuple[Rule, ...]:
        """The rules of this file."""
        return tuple(moved_rule(rule, lines) for lines, known in self._known for rule in known.rules)

    @cached_property
    def _named(self) -> dict[str, tuple[int, Rule]]:
        """Rules of this file, and of those beside it that it needs, with the lines before their chunk."""
        beside = {rule.name: (0, rule) for file in self._needed[::-1] for rule in file.rules}
        return {**beside, **{rule.name: (lines, rule) for lines, known in self._known for rule in known.rules}}

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
        return tuple(moved_symbol(each, lines) for lines, known in self._known for each in known.symbols)

    # -- places ----

    def word(self, line: int, column: int) -> Word | None:
        """The word at a place."""
        return word_at(self.text, line, column)

    def begun(self, line: int, column: int) -> Word:
        """What is being written at a place."""
        return around(self.text, line, column)

    def _place(self, line: int) -> int:
        """The number of the chunk that a line is in."""
        return max(0, bisect_right(self._chunks, line, key=lambda each: each.first) - 1)

    def rule_at(self, line: int, column: int) -> Rule | None:
        """The rule of this file that a place is in, its comment and examples included."""
        place = self._place(line)
        (lines, known), text = self._known[place], self._chunks[place].text
        for symbol in known.symbols:
            rule = next((each for each in known.rules if each.name == symbol.name), None)
            if rule is not None and _above(text, symbol.start[0]) <= line - lines <= _below(text, symbol.end[0]):
                return moved_rule(rule, lines)
        return None

    def rule_named(self, word: Word) -> Rule | None:
        """The rule that a word names: in full, or as headers do."""
        name = word.text.strip(",;")
        header = self.file.header
        return self._rule(name) or (self._rule(f"{header.name}/{name}") if header and word.comment else None)

    def _rule(self, name: str) -> Rule | None:
        lines, rule = self._named.get(name, (0, None))
        return moved_rule(rule, lines) if rule is not None else shipped().rules.by_name.get(name)

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
        chunk = self._chunks[self._place(rule.command.at.line)]
        texts = dict.fromkeys(each.text for each in (*self._context, chunk))
        try:
            with unsaved({self.path: readable(joined(list(texts))[0], str(self.path))[0]}):
                loader.load(str(self.path), "")
        except EgshapeError:
            return ""
        plains = desugar(rule.command, rule.name, rule.ruleset)
        return next(filter(None, (loader.scheme.sorts_of_variables(p.body).get(variable, "") for p in plains)), "")


def _is_double(problem: Diagnostic, file: str) -> bool:
    """Whether a rule has the name of another one of this file."""
    return problem.code == "duplicate-name" and f"({file}:" in problem.message


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
