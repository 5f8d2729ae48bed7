"""What is found out of a saved rule file in other processes, while its author goes on: the whole check, with the engine
and a comparison with all rules; whether each rule is true; what the rules do on saved models."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from egshape.rulebook.models import CheckReport, Problem, ProfileReport, TestReport, TestRow
from egshape.rulelang.rulefile import Rule

Key = tuple[object, ...]


def _key(rule: Rule) -> Key:
    """What a verdict hangs on, apart from other rules: nothing of where the rule stands."""
    examples = tuple((each.before, each.after) for each in (*rule.examples, *rule.counters))
    return rule.name, rule.text, examples


@dataclass
class Trials:
    """All that was found out so far; a verdict holds for a rule as it was written then."""

    models: tuple[str, ...] = ()
    verdicts: dict[Key, TestRow] = field(default_factory=dict)
    uses: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    checked: dict[Path, tuple[str, tuple[Problem, ...]]] = field(default_factory=dict)
    """What the whole check said of a file, with its text then."""
    running: set[Path] = field(default_factory=set)

    def problems(self, path: Path, text: str) -> tuple[Problem, ...]:
        """What the whole check said of a file, if that stands as it did."""
        then, found = self.checked.get(path, ("", ()))
        return found if then == text else ()

    def row(self, rule: Rule) -> TestRow | None:
        """The verdict on a rule as it is written now."""
        return self.verdicts.get(_key(rule))

    def told(self, rule: Rule) -> list[str]:
        """How a rule was tested and what it did on models, as lines."""
        return [f"tested: {self._status(rule)}", *self.uses.get(_key(rule), ())]

    def _status(self, rule: Rule) -> str:
        row = self.row(rule)
        if row is None:
            return "is being tested" if Path(rule.file) in self.running else "not since it was written; saving tests it"
        if row.status == "failed" or row.examples:
            return "**failed**: " + "; ".join(filter(None, [row.counterexample, *row.examples]))
        if row.status == "sampled":
            fired = f" of {row.graphs} programs" if row.graphs else ""
            return f"sampled at {row.points} points{fired}, without a difference"
        return row.status + (f": {row.counterexample}" if row.counterexample else "")

    async def run(self, path: Path, text: str, rules: Sequence[Rule]) -> None:
        """Find out all of a file that was just saved with this text. One that cannot be tested gets no verdicts."""
        self.running.add(path)
        try:
            checked = await _asked("check", str(path))
            if checked:
                self.checked[path] = text, CheckReport.model_validate_json(checked).problems
            tested = await _asked("test", str(path))
            rows = {each.rule: each for each in TestReport.model_validate_json(tested).rules} if tested else {}
            self.verdicts |= {_key(rule): rows[rule.name] for rule in rules if rule.name in rows}
            await self._profile(path, rules)
        except ValidationError:  # it ended before it said anything that can be read
            return
        finally:
            self.running.discard(path)

    async def _profile(self, path: Path, rules: Sequence[Rule]) -> None:
        lines: dict[Key, list[str]] = {_key(rule): [] for rule in rules}
        for model in self.models:
            said = await _asked("profile", model, "--rules", str(path), "--seconds", "0")
            rows = {each.rule: each for each in ProfileReport.model_validate_json(said).rules} if said else {}
            for rule in rules:
                row = rows.get(rule.name)
                did = f"{row.matches} matches, {row.unions} unions" if row else "no match"
                lines[_key(rule)].append(f"on {Path(model).name}: {did}" if said else f"on {Path(model).name}: ?")
        self.uses |= {key: tuple(each) for key, each in lines.items()}


async def _asked(*command: str) -> bytes:
    """What `egshape rules COMMAND --json` prints; its process ends with the task that waits for it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "egshape", "rules", *command, "--json",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        out, _ = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    return out
