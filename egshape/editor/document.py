"""One rule file as it is in an editor: what is wrong with it, what it declares, what stands where."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from egshape.editor.chunks import (
    Chunk,
    Memory,
    Said,
    Symbol,
    T,
    apart,
    chunks,
    forget,
    joined,
    moved_problem,
    moved_rule,
    said,
    symbol,
    under,
)
from egshape.editor.halves import Word, around, readable, word_at
from egshape.editor.words import Place, place_of_rule, place_of_ruleset, shipped
from egshape.egraph.program import preludes
from egshape.errors import EgshapeError
from egshape.ops import REGISTRY
from egshape.rulelang.contract import read_contracts
from egshape.rulelang.diagnostic import Diagnostic, wrong
from egshape.rulelang.layout import laid_out
from egshape.rulelang.lint import Given, check_rulesets
from egshape.rulelang.lint import given as given_by
from egshape.rulelang.loader import Loader, unsaved
from egshape.rulelang.provenance import desugar
from egshape.rulelang.rulefile import UNKNOWN_RULE, Rule, RuleFile, read_rule_file, unknown_listed
from egshape.rulelang.sexpr import Position
from egshape.rulelang.size_decl import SizeDecl

BATCH = 8_000
"""Characters of a text that are checked at once, in about 20 ms."""


@dataclass(frozen=True)
class Document:
    """A text at a path, whatever is stored there."""

    path: Path
    text: str
    memory: Memory = field(default_factory=Memory, compare=False)
    """What was known of an earlier state of the file."""

    @cached_property
    def is_contracts(self) -> bool:
        """Whether the file holds contracts of ops, and no rules."""
        return any(each.contract for each in self._said)

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """Its parts, a rule each, in order."""
        return chunks(self.text)

    @cached_property
    def _said(self) -> tuple[Said, ...]:
        return tuple(said(each.text) for each in self.chunks)

    @cached_property
    def _context(self) -> tuple[Chunk, ...]:
        """What all rules stand under: the header, and size functions."""
        first, *others = zip(self.chunks, self._said, strict=True)
        return (first[0], *(each for each, words in others if words.size))

    @cached_property
    def file(self) -> RuleFile:
        """The header and the size functions."""
        text, line = "", 1
        for each in self._context:
            text += "\n" * (each.first - line) + readable(each.text, str(self.path))[0]
            line = each.first + each.text.count("\n")
        return read_rule_file(text, str(self.path))

    # -- what is read in its chunks, and what is wrong with them ----

    @cached_property
    def _rules(self) -> dict[str, tuple[Rule, ...]]:
        return under(self.memory.rules, self.file.header and self.file.header.name)

    @cached_property
    def _forms(self) -> dict[str, tuple[Diagnostic, ...]]:
        """What is wrong with the form of rules, whatever the header needs."""
        return under(self.memory.forms, self.file.header and self.file.header.name)

    @cached_property
    def _mistakes(self) -> dict[str, tuple[Diagnostic, ...]]:
        header = self.file.header
        sizes, needed = (tuple(each.text for each in found) for found in (self._context[1:], self._needed))
        own = header and (header.name, header.at_once)
        given = self._given
        taken = given and (given.words, given.tensors, given.names.intersection(self._named))
        return under(self.memory.problems, (own, taken, sizes, needed, self._unread_names, REGISTRY.version))

    @cached_property
    def _named(self) -> frozenset[str]:
        """The names of its rules, also of those that cannot be read."""
        return frozenset(name for each in self._said for name in each.named)

    @cached_property
    def _unread_names(self) -> frozenset[str]:
        """The names of declarations that cannot be read, wherever they stand, if something is called so."""
        names = {name for each in self._said for name in each.declared} - {each.name for each in self.file.sizes}
        return frozenset(each for each in names if _is_called(each, self.text))

    def _unknown_listed(self) -> Iterator[Diagnostic]:
        """Rules that the header names and that are nowhere."""
        nameless = any(each.rules > len(each.named) for each in self._said)
        return unknown_listed(self.file, None if nameless else self._named)

    @cached_property
    def _given(self) -> Given | None:
        """What rules take from what the header needs; None where there is none, or that does not load."""
        header, held = self.file.header, self.memory.given
        if header is None:
            return None
        key = (header.name, header.needs, tuple(each.text for each in self._needed), REGISTRY.version)
        if key not in held:
            held[key] = given_by(header, self.path.parent, preludes())
            forget(held)
        return held[key]

    @cached_property
    def _placed(self) -> tuple[tuple[int, Rule], ...]:
        """The rules of this file, as if the chunk of each began in line 1, with the number of lines before it."""
        self._read(self._unread([each.text for each in self.chunks]))
        return tuple((each.first - 1, rule) for each in self.chunks for rule in self._rules[each.text])

    @cached_property
    def unchecked(self) -> list[str]:
        """The chunks of which it is not known yet what is wrong with them; it becomes shorter by ``check_some``."""
        texts = dict.fromkeys(each.text for each in self.chunks)
        self.memory.keep(texts)
        return [] if self.is_contracts else [text for text in texts if text not in self._mistakes]

    def check_some(self) -> None:
        """Check some chunks more, which takes about 20 ms, and find out all else that is asked of a chunk."""
        end = size = 0
        while end < len(self.unchecked) and size < BATCH:
            size += len(self.unchecked[end])
            end += 1
        batch, self.unchecked[:end] = self.unchecked[:end], []
        self._read(self._unread(batch))
        self._check(batch)
        with suppress(EgshapeError):
            for each in batch:
                self._layout(each)

    @property
    def found(self) -> tuple[Diagnostic, ...]:
        """What is wrong with what was checked so far, in order of place, and rules that the header names and that are
        nowhere; once that is all, also rules of one name."""
        found = [moved_problem(problem, each.first - 1)
                 for each in self.chunks for problem in self._mistakes.get(each.text, ())]  # fmt: skip
        found += self._unknown_listed()
        doubles = self._doubles() if not self.unchecked else ()
        return tuple(sorted([*found, *doubles], key=lambda each: (each.at.line, each.at.column)))

    @cached_property
    def problems(self) -> tuple[Diagnostic, ...]:
        """All that `egshape rules check` finds, but for what the engine and a comparison with all other rules find."""
        if self.is_contracts:
            text, unreadable = readable(self.text, str(self.path))
            return unreadable or self._of_contracts(text)
        while self.unchecked:
            self.check_some()
        return self.found

    def _unread(self, texts: Sequence[str]) -> list[str]:
        return [each for each in dict.fromkeys(texts) if each not in self._rules]

    def _read(self, missing: Sequence[str]) -> None:
        """Find the rules of some chunks, read at once."""
        if not missing or self.file.header is None:
            self._rules.update(dict.fromkeys(missing, ()))
            return
        texts, before, text, unreadable = self._together(missing)
        file = read_rule_file(text, str(self.path))
        found = apart(before, file.rules, lambda each: each.command.at.line, moved_rule)
        self._rules.update(_by_text(texts, found))
        problems = apart(before, [*unreadable, *file.problems], lambda each: each.at.line, moved_problem)
        self._forms.update(_by_text(texts, problems))
        for each in self._twice(missing, texts, before, file.problems):
            self._read([each])

    def _check(self, missing: Sequence[str]) -> None:
        """Find what is wrong with some chunks, checked at once; of what stands under a header whose needs do not load
        only the form."""
        if self.file.header is not None and self._given is None:
            above = [each.text for each in self._context]
            self._mistakes.update((each, self._forms[each]) for each in missing if each not in above)
            missing = [each for each in missing if each in above]
            if not missing:
                return
        texts, before, text, unreadable = self._together(missing)
        problems = [*unreadable, *self._checked(text)]
        found = apart(before, problems, lambda each: each.at.line, moved_problem)
        self._mistakes.update(_by_text(texts, found))
        for each in self._twice(missing, texts, before, problems):
            self._check([each])

    def _checked(self, text: str) -> tuple[Diagnostic, ...]:
        """What is wrong with a part of the file; rules that the header names may be in another."""
        item = str(self.path)
        with unsaved({self.path: text}):
            found = check_rulesets([item], preludes(), unread=self._unread_names).problems
        return tuple(each for each in found if each.at.file == item and each.code != UNKNOWN_RULE)

    def _twice(
        self, missing: Sequence[str], texts: Sequence[str], before: Sequence[int], problems: Iterable[Diagnostic]
    ) -> list[str]:
        """Of several chunks those that hold a rule with the name of one above it, of which nothing else is said."""
        doubles = (each for each in problems if len(missing) > 1 and _is_double(each, str(self.path)))
        found = apart(before, doubles, lambda each: each.at.line, moved_problem)
        return [text for text, each in zip(texts, found, strict=True) if each]

    def _together(self, missing: Sequence[str]) -> tuple[list[str], list[int], str, list[Diagnostic]]:
        """Some chunks with what all rules stand under: the texts, the lines before each, what can be read of all, and
        what is wrong where it cannot. Each is read by itself: an open parenthesis of one takes no other with it."""
        above = [each.text for each in self._context]
        texts = [*above, *(each for each in missing if each not in above)]
        parts = [readable(text, str(self.path)) for text in texts]
        whole, before = joined([text for text, _ in parts])
        problems = zip(before, (found for _, found in parts), strict=True)
        return texts, before, whole, [moved_problem(each, lines) for lines, found in problems for each in found]

    def _doubles(self) -> Iterator[Diagnostic]:
        """Rules with the name of one above them."""
        first: dict[str, tuple[int, Rule]] = {}
        for lines, rule in self._placed:
            before = first.setdefault(rule.name, (lines, rule))
            if before != (lines, rule):
                message = f"a rule named {rule.name} exists already ({moved_rule(before[1], before[0]).where})"
                yield wrong(moved_rule(rule, lines).command, "duplicate-name", message, "rename it")

    def _layout(self, text: str) -> str:
        held = self.memory.layouts
        if text not in held:
            held[text] = laid_out(text, str(self.path))
        return held[text]

    @property
    def laid_out(self) -> str:
        """The text in the one layout. Raises EgshapeError for a rule whose parentheses are not balanced."""
        out = ""
        for each in self.chunks:
            out += self._layout(each.text)
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
        return tuple(moved_rule(rule, lines) for lines, rule in self._placed)

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

    @property
    def needed(self) -> tuple[Path, ...]:
        """The files beside it that this one needs, directly or not."""
        return tuple(Path(each.file).resolve() for each in self._needed)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The rules and size functions of this file, in order."""
        return tuple(filter(None, map(symbol, self.chunks)))

    # -- places ----

    def word(self, line: int, column: int) -> Word | None:
        """The word at a place."""
        return word_at(self.text, line, column)

    def begun(self, line: int, column: int) -> Word:
        """What is being written at a place."""
        return around(self.text, line, column)

    def _place(self, line: int) -> int:
        """The number of the chunk that a line is in."""
        return max(0, bisect_right(self.chunks, line, key=lambda each: each.first) - 1)

    def rule_at(self, line: int) -> Rule | None:
        """The rule of this file that a line is in, with what is written around it."""
        chunk = self.chunks[self._place(line)]
        self._read(self._unread([chunk.text]))
        rules = [moved_rule(rule, chunk.first - 1) for rule in self._rules[chunk.text]]
        return next((each for each in rules[::-1] if each.line <= line), rules[0] if rules else None)

    def rule_named(self, word: Word) -> Rule | None:
        """The rule that a word names: in full, or as headers do."""
        name = word.text.strip(",;")
        header = self.file.header
        return self._rule(name) or (self._rule(f"{header.name}/{name}") if header and word.comment else None)

    def _rule(self, name: str) -> Rule | None:
        """The rule of a name: of this file, of those beside it that it needs, or a shipped one."""
        holding = [each for each in self.chunks if f'"{name}"' in each.text]
        self._read(self._unread([each.text for each in holding]))
        own = [moved_rule(rule, each.first - 1) for each in holding for rule in self._rules[each.text]]
        beside = (rule for file in self._needed for rule in file.rules)
        return next((rule for rule in (*own[::-1], *beside) if rule.name == name), shipped().rules.by_name.get(name))

    def definition(self, word: Word) -> Place | None:
        """Where what a word names is declared, None where it names nothing."""
        name = word.text.strip(",;")
        if word.comment:
            ruleset = place_of_ruleset(name, self.path.parent)
            if ruleset is not None:
                return ruleset
        rule = self.rule_named(word) if word.quoted or word.comment else None
        if rule is not None:
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
        chunk = self.chunks[self._place(rule.command.at.line)]
        texts = dict.fromkeys(each.text for each in (*self._context, chunk))
        try:
            with unsaved({self.path: readable(joined(list(texts))[0], str(self.path))[0]}):
                loader.load(str(self.path), "")
        except EgshapeError:
            return ""
        plains = desugar(rule.command, rule.name, rule.ruleset)
        return next(filter(None, (loader.scheme.sorts_of_variables(p.body).get(variable, "") for p in plains)), "")


def _by_text(texts: Sequence[str], found: Iterable[T]) -> dict[str, T]:
    """What was found in chunks, by their text; of two that are equal, in the first."""
    return dict(reversed(list(zip(texts, found, strict=True))))


def _is_called(name: str, text: str) -> bool:
    """Whether a rule or an example of a text calls something by a name."""
    name = re.escape(name)
    return re.search(rf"\({name}[\s)]|\b{name}\(", text) is not None


def _is_double(problem: Diagnostic, file: str) -> bool:
    """Whether a rule has the name of another one of this file."""
    return problem.code == "duplicate-name" and f"({file}:" in problem.message
