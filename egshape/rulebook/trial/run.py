"""Try out whole rulesets: a verdict for each rule, with the smallest counterexample of those that are wrong."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from egshape.egraph.program import Program, Variant, program, states
from egshape.errors import EgshapeError, EngineFault
from egshape.ops import REGISTRY
from egshape.rulebook.trial import examples, proofs, sizes
from egshape.rulebook.trial.batch import STATES_LABEL, Batch, Stated, plain_name, try_batch
from egshape.rulebook.trial.bounds import Exploding
from egshape.rulebook.trial.compute import Difference
from egshape.rulebook.trial.mutate import mutated
from egshape.rulebook.trial.record import recording_program
from egshape.rulebook.trial.verdict import Outcome, Road, Verdict
from egshape.rulelang.examples import Line, read_example, term_text
from egshape.rulelang.loader import shipped_rulesets
from egshape.rulelang.rulefile import Rule

FEW_RULES = 20
GRAPHS, GRAPHS_OF_FEW = 16, 60
"""How many different left sides on which a rule fires are wanted, for many rules and for few."""

RARE = 20
"""A rule that fired on fewer gets more tries."""

ROUNDS = 8
BATCH = 64
SECONDS = 4.0
"""Time for the random programs of one rule, on average."""

Progress = Callable[[str], None]


def try_rules(items: Sequence[str] = (), *, prove: bool = True, seed: int = 0, rule: str = "",
              thorough: bool | None = None, progress: Progress = lambda name: None) -> list[Verdict]:
    """Try the rules of some files or rulesets, or all shipped ones.

    prove: let z3 decide rules over sizes where it is installed; else they are sampled, and labelled so. rule: only the
    rule of this name. thorough: more programs for each rule (default: where they are few). Raises EgshapeError for a
    file that is wrong in form, and for an unknown name."""
    extra = tuple(item for item in items if item not in shipped_rulesets())
    everything = program(extra)
    wanted = _wanted(items, everything)
    if rule:
        wanted = [each for each in wanted if each.name == rule]
        if not wanted:
            raise EgshapeError(f"there is no rule named {rule}", hint="`egshape rules list` shows all", code="rules")
    found = _Tensors(extra, seed)
    tensors = [each for each in wanted if _over_tensors(each, everything)]
    found.run(tensors, len(tensors) <= FEW_RULES if thorough is None else thorough, progress)
    outcomes = {}
    for each in wanted:
        progress(each.name)
        outcomes[each.name] = found.outcome(each) if _over_tensors(each, everything) else (
            0, sizes.sound(each, prove and proofs.available()))
    # A wrong rule derives wrong things from the examples of the others, which are not to blame.
    wrong = frozenset(name for name, (_, outcome) in outcomes.items() if outcome.status == "failed")
    trusted = program(extra, True, Variant(split=True, without=wrong)) if wrong else everything
    return [_verdict(each, trusted, *outcomes[each.name], found.tolerance(each.name)) for each in wanted]


def _wanted(items: Sequence[str], everything: Program) -> list[Rule]:
    if not items:
        return list(everything.rules.rules)
    files = {each.file: each.name for each in everything.rules.rulesets}
    names = set()
    for item in items:
        names |= {name for file, name in files.items() if item in (file, name) or name.startswith(item + ".")}
    return [each for each in everything.rules.rules if each.ruleset in names]


def _over_tensors(rule: Rule, everything: Program) -> bool:
    return "prelude.tensor" in everything.rules.needed(rule.ruleset)


def _verdict(rule: Rule, trusted: Program, graphs: int, outcome: Outcome, tolerance: float | None) -> Verdict:
    road: Road = "sizes" if not _over_tensors(rule, trusted) else (
        "obligations" if states(rule) else "types" if _is_type_rule(rule) else "tensors")
    if outcome.status == "failed":
        return Verdict(rule.name, rule.where, road, outcome, graphs, ())
    try:
        match road:
            case "sizes":
                wrong = tuple(sizes.examples_of(rule, trusted))
            case "obligations":
                wrong = tuple(examples.of_obligations(rule, trusted))
            case "types":
                wrong = tuple(examples.of_types(rule, trusted))
            case _:
                wrong = tuple(examples.of_rewrite(rule, trusted, tolerance))
    except EngineFault as fault:
        wrong = (f"{rule.where}: {fault.message}",)
    except Exploding as error:
        wrong = (f"{rule.where}: {error.stop}",)
    return Verdict(rule.name, rule.where, road, outcome, graphs, wrong)


def _is_type_rule(rule: Rule) -> bool:
    """A rule that states a dtype or a shape and rewrites nothing."""
    text = str(rule.command.items[2]) if rule.command.head == "rule" else ""
    return rule.command.head == "rule" and ("(set (dtype_of" in text or "(union (ShapeOf" in text)


@dataclass
class _Seen:
    """What was stated by one rule so far."""

    texts: set[str] = field(default_factory=set)
    points: int = 0
    worst: tuple[Difference, str] | None = None

    def add(self, stated: Stated) -> None:
        self.points += stated.points
        if stated.points:
            self.texts.add(stated.case.text)
        if stated.difference is not None:
            new = (stated.difference, stated.case.text)
            old = self.worst
            if old is None or (new[0].weight, len(new[1])) < (old[0].weight, len(old[1])):
                self.worst = new


class _Tensors:
    """Random programs for rules over tensors, all rules looking at each."""

    def __init__(self, extra: tuple[str, ...], seed: int) -> None:
        self.program = recording_program(extra)
        self.rng = random.Random(seed)
        self.seen: dict[str, _Seen] = {}
        self.tried: set[str] = set()
        self.approximate = {each.name: each.tolerance for each in self.program.rules.rulesets}
        self.exploding: dict[str, str] = {}
        """Rules that grew without end, and on what."""
        self.labels: dict[str, list[str]] = {}
        for rule in self.program.rules.rules:
            for label in re.findall(r'\(must_\w+ \w+ "([^"]*)"', rule.text) if states(rule) else ():
                self.labels.setdefault(label, []).append(rule.name)

    def tolerance(self, rule: str) -> float | None:
        """The relative difference that a rule may make; None for not a bit."""
        return self.approximate.get(rule.rpartition("/")[0])

    def run(self, rules: Sequence[Rule], thorough: bool, progress: Progress) -> None:
        """Try mutants of the rules' examples until each rule has fired often enough, or time is up."""
        lines = {rule.name: _readable(rule) for rule in rules}
        deadline = time.monotonic() + SECONDS * max(len(rules), 2)
        for number in range(ROUNDS):
            progress(f"random programs, round {number + 1}")
            batch: list[Line] = []
            for rule in rules:
                count = len(self.seen.get(rule.name, _Seen()).texts)
                if number and count >= (GRAPHS_OF_FEW if thorough else GRAPHS):
                    continue
                each = 1 if number == 0 else 2 + number if count >= RARE else 4 + 3 * number
                each *= 3 if number and thorough else 1
                for line in lines[rule.name]:
                    for _ in range(each):
                        self._fresh(line if number == 0 else mutated(line, self.rng, REGISTRY), batch)
            for start in range(0, len(batch), BATCH):
                self._batch(batch[start:start + BATCH])
                if time.monotonic() > deadline:
                    return

    def _fresh(self, line: Line, batch: list[Line]) -> None:
        """Add a line unless it was tried before."""
        key = f"{term_text(line.left, REGISTRY)} given {line.given}"
        if key not in self.tried:
            self.tried.add(key)
            batch.append(line)

    def _batch(self, lines: Iterable[Line]) -> None:
        lines = list(lines)
        batch = Batch(self.rng.randrange(1 << 20))
        for line in lines:
            batch.add(line)
        try:
            found = list(try_batch(self.program, batch, self.tolerance))
        except (EgshapeError, Exploding) as error:
            # One of them has no sizes, or breaks the engine, or never ends; which one is found out by halves.
            if len(lines) > 1:
                half = len(lines) // 2
                self._batch(lines[:half])
                self._batch(lines[half:])
            elif isinstance(error, Exploding):
                rule = error.stop.rule.removesuffix("<=")
                self.exploding.setdefault(rule, f"{term_text(lines[0].left, REGISTRY)}: {error.stop}")
            return
        for stated in found:
            names = [stated.rule]
            if stated.rule.startswith(STATES_LABEL):
                names = self.labels.get(stated.rule.removeprefix(STATES_LABEL), [])
            for name in names:
                self.seen.setdefault(name, _Seen()).add(stated)

    def outcome(self, rule: Rule) -> tuple[int, Outcome]:
        """On how many programs a rule fired, and what came of it."""
        seen = self.seen.get(rule.name)
        if rule.name in self.exploding and (seen is None or seen.worst is None):
            return 0, Outcome(rule.name, "failed", text=f"it grows without end on {self.exploding[rule.name]}")
        if seen is None or not seen.points:
            return 0, Outcome(rule.name, "unknown", text="no program was found on which the rule fires")
        if seen.worst is not None:
            return len(seen.texts), Outcome(rule.name, "failed", seen.points, _counterexample(*seen.worst))
        return len(seen.texts), Outcome(rule.name, "sampled", seen.points)


def _readable(rule: Rule) -> list[Line]:
    found = []
    for example in (*rule.examples, *rule.counters):
        try:
            found.append(read_example(example, REGISTRY))
        except EgshapeError:
            continue  # said with the examples
    return found


def _counterexample(difference: Difference, text: str) -> str:
    parts = [f"on {text}"]
    if difference.sizes:
        parts.append("at " + ", ".join(f"{plain_name(name)} = {value}" for name, value in difference.sizes.items()))
    shown = [f"{plain_name(name)} = {_array(array)}" for name, array in difference.inputs.items()
             if not name.startswith("size.") and array.size <= 12]
    if shown and "became" in difference.text:
        parts.append("with " + ", ".join(shown))
    return ", ".join(parts) + f": {difference.text}"


def _array(array: object) -> str:
    return " ".join(str(array).split()).replace(" ]", "]").replace("[ ", "[")
