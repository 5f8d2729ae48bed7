"""What an author sees of a rule file at each save: mistakes, verdicts, effects on models, what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.report import Json
from egshape.rulebook import trying
from egshape.rulebook.models import CheckReport, ProfileReport, TestReport, TestRow
from egshape.rulebook.profiling import profile
from egshape.rulelang.loader import find_rulesets


class Fired(Json):
    """What one rule of the file did on a model."""

    rule: str
    matches: int
    unions: int


class Effect(Json):
    """What came of a model: its ops, and those that are left with the shipped rules alone and with the file's too."""

    model: str
    ops: int
    without: int
    with_rules: int
    status: str
    fired: tuple[Fired, ...]
    notes: tuple[str, ...] = ()


class Look(Json):
    """``rules watch --json``, an object a line: all that was found at one save. ``tested`` is None, and no effects are
    there, where the file has mistakes."""

    version: Literal[1] = 1
    files: tuple[str, ...]
    checked: CheckReport
    tested: TestReport | None = None
    effects: tuple[Effect, ...] = ()

    @property
    def exit_code(self) -> int:
        """2 for mistakes, 1 for rules that do not stand, else 0."""
        if any(each.severity == "error" for each in self.checked.problems):
            return 2
        return int(self.tested is None or self.tested.bad > 0)


class Watch:
    """Rule files that are looked at again and again; what the shipped rules make of the models is found out once."""

    def __init__(self, files: Sequence[str], models: Mapping[str, Graph]) -> None:
        self.files = tuple(files)
        self.models = models
        self.alone: dict[str, int] = {}

    def look(self, progress: Callable[[str], None] = lambda name: None) -> tuple[Look, str]:
        """All that is found of the files as they are now, and their mistakes as text. Raises EgshapeError for one that
        cannot be read."""
        checked = trying.check(*self.files)
        report = trying.check_report(checked)
        if checked.errors:
            return Look(files=self.files, checked=report), checked.render()
        try:
            tested = trying.test_report(trying.test(*self.files, progress=progress))
        except EgshapeError as error:  # of several files together: each by itself was in order
            return Look(files=self.files, checked=report), str(error)
        names = {rule.name for rule in checked.rules}
        effects = tuple(self._effect(name, graph, names) for name, graph in self.models.items())
        return Look(files=self.files, checked=report, tested=tested, effects=effects), checked.render()

    def _effect(self, name: str, graph: Graph, rules: set[str]) -> Effect:
        if name not in self.alone:
            self.alone[name] = profile(graph, decisive_seconds=0).ops_after
        found: ProfileReport = profile(graph, (), self.files, decisive_seconds=0)
        fired = [each for each in found.rules if each.rule in rules]
        return Effect(
            model=name,
            ops=found.ops_before,
            without=self.alone[name],
            with_rules=found.ops_after,
            status=found.status,
            fired=tuple(Fired(rule=each.rule, matches=each.matches, unions=each.unions) for each in fired),
            notes=found.notes,
        )

    def stamp(self) -> tuple[tuple[str, int, int], ...]:
        """What changes when a file is saved, or one beside it that it may need."""
        found = dict[str, tuple[int, int]]()
        for item in self.files:
            path = Path(item.rpartition(":")[0] if item.rpartition(":")[0].endswith(".py") else item)
            for each in (path, *sorted(path.parent.glob("*.egg"))):
                try:
                    status = each.stat()
                except OSError:  # between two states of a save
                    continue
                found[str(each)] = status.st_mtime_ns, status.st_size
        return tuple((name, *each) for name, each in found.items())


def changes(before: Look | None, now: Look) -> Iterator[str]:
    """What has changed since the last save, as lines; nothing at the first."""
    if before is None:
        return
    old, new = _rows(before), _rows(now)
    for name in (*new, *(each for each in old if each not in new)):
        if name not in old:
            yield f"{name}: new, {new[name].result}"
        elif name not in new:
            yield f"{name}: gone"
        elif (old[name].good, old[name].status) != (new[name].good, new[name].status):
            yield f"{name}: {old[name].result} -> {new[name].result}"
    effects = {each.model: each for each in before.effects}
    for each in now.effects:
        was = effects.get(each.model)
        if was is None:
            continue
        if was.with_rules != each.with_rules:
            yield f"{each.model}: {was.with_rules} ops -> {each.with_rules} ops"
        then, fired = ({row.rule: row for row in effect.fired} for effect in (was, each))
        for rule in (*fired, *(name for name in then if name not in fired)):
            counts = [rows[rule].matches if rule in rows else 0 for rows in (then, fired)]
            if counts[0] != counts[1]:
                yield f"{each.model}: {rule} matched {counts[0]} -> {counts[1]} times"


def _rows(look: Look) -> dict[str, TestRow]:
    return {each.rule: each for each in look.tested.rules} if look.tested is not None else {}


def known(files: Sequence[str]) -> None:
    """Raises EgshapeError for what is neither a file nor a ruleset."""
    for item in files:
        found = find_rulesets(item)
        for path in found:
            if path.endswith(".egg") and not Path(path).is_file():
                raise EgshapeError("cannot be read: there is no such file", where=path, code="read")
