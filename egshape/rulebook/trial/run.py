"""Try out whole rulesets: a verdict for each rule, with the smallest counterexample of those that are wrong."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from egshape.decide import reason
from egshape.egraph.engine import POOL
from egshape.egraph.program import Program, Variant, fills, program, states
from egshape.errors import EgshapeError, EngineFault
from egshape.ops import REGISTRY
from egshape.rulebook.trial import examples, proofs, sizes
from egshape.rulebook.trial.batch import STATES_LABEL, Asked, Batch, Stated, plain_name, try_batch
from egshape.rulebook.trial.bounds import Exploding
from egshape.rulebook.trial.compute import Difference, shown
from egshape.rulebook.trial.draw import Draws, patterns
from egshape.rulebook.trial.mutate import mutated, parts
from egshape.rulebook.trial.record import recording_program
from egshape.rulebook.trial.verdict import Fired, Outcome, Road, Verdict
from egshape.rulelang.examples import SIZE, Apply, Line, read_example, term_text
from egshape.rulelang.loader import shipped_rulesets
from egshape.rulelang.rulefile import Rule

FEW_RULES = 50
DRAWN, DRAWN_OF_FEW = (4, 8, 12, 16), (16, 32, 48, 64)
"""How many programs are drawn from a left side in each round, for many rules and for few: most wrong rules are found
in the first, and are tried no more."""

MUTANTS, MORE_MUTANTS = 2, 10
"""How many times each example is changed in a round; more often while the rule fired on fewer than RARE programs."""

RARE = 20
BATCH, SMALL_BATCH = 64, 16
"""How many programs are looked at together, and where time is short."""
ENOUGH = SMALL_BATCH
"""How many programs, beside the examples of a rule, must be tried at least before its time is up: most wrong rules are
found by then."""
QUICK_POINTS, QUICK_EFFORT = 6, 10
"""At how many sizes two sides are compared where time is short, since more programs show more; and by how much a proof
is shortened then."""
SHARE, _SMALLEST = 2.0, 0.2
"""The time of a batch, in that of one trial, and the smallest part of it that a part of a batch has."""

SECONDS = 15.0
"""Time for the random programs of one rule, on average: a last resort, since what is cut off depends on the machine."""

_MOST = 12
"""How many elements an array of a counterexample has at most that is shown."""

_CUT = "time was up before all programs were tried"

Progress = Callable[[str], None]


def try_rules(
    items: Sequence[str] = (),
    *,
    prove: bool = True,
    seed: int = 0,
    rule: str = "",
    thorough: bool | None = None,
    progress: Progress = lambda name: None,
) -> list[Verdict]:
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
            raise EgshapeError(f"there is no rule named {rule}", hint="egshape rules list shows all", code="rules")
    _load(everything)
    ours = [each for each in wanted if each.ruleset in shipped_rulesets()]
    found = _Tensors(extra, seed)
    tensors = [each for each in ours if over_tensors(each, everything)]
    found.run(tensors, len(tensors) <= FEW_RULES if thorough is None else thorough, progress)
    outcomes = {}
    for each in wanted:
        progress(each.name)
        outcomes[each.name] = (
            found.outcome(each)
            if each in tensors
            else tried_alone(each, everything, extra, prove=prove, seed=seed, thorough=thorough is not False)
        )
    # A wrong rule derives wrong things from the examples of the others, which are not to blame.
    wrong = frozenset(name for name, (_, outcome) in outcomes.items() if outcome.status == "failed")
    return [
        _verdict(each, _trusted(each, everything, extra, wrong), *outcomes[each.name], found.tolerance(each.name))
        for each in wanted
    ]


def _trusted(rule: Rule, everything: Program, extra: tuple[str, ...], wrong: frozenset[str]) -> Program:
    """The program for the examples of a rule: without wrong rules, and those that it must not depend on."""
    left_out = wrong | {each.name for each in _beside(rule, everything)}
    if not left_out:
        return everything
    split = program(extra, True, Variant(split=True))

    def others(phases: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(phase for phase in phases if phase not in left_out)

    return replace(
        split,
        phases=others(split.phases),
        size_phases=others(split.size_phases),
        obligations=others(split.obligations),
    )


def _load(everything: Program) -> None:
    """Raises EgshapeError where the engine refuses the program, at the place of what it refuses."""
    with POOL.lend(everything.pieces):
        pass


def _beside(rule: Rule, everything: Program) -> list[Rule]:
    """The rules of a user on which the verdict of another one must not depend: those that rewrite something, and that
    it does not need."""
    needed = everything.rules.needed(rule.ruleset)
    return [
        each
        for each in everything.rules.rules
        if each.name != rule.name
        and each.ruleset not in needed
        and each.ruleset not in shipped_rulesets()
        and not fills(each)
    ]


def tried_alone(
    rule: Rule,
    everything: Program,
    extra: tuple[str, ...],
    *,
    prove: bool = True,
    seed: int = 0,
    thorough: bool = True,
    quick: Quick | None = None,
) -> tuple[Fired, Outcome]:
    """On what a rule fired, and what came of it, whatever other rules its file has. quick: where time is short."""
    if not over_tensors(rule, everything):
        effort = proofs.EFFORT // (QUICK_EFFORT if quick else 1)
        return Fired(), sizes.sound(rule, prove and proofs.available(), effort)
    found = _Tensors(extra, seed, quick)
    found.run([rule], thorough, lambda name: None)
    return found.outcome(rule)


def _wanted(items: Sequence[str], everything: Program) -> list[Rule]:
    if not items:
        return list(everything.rules.rules)
    files = {each.file: each.name for each in everything.rules.rulesets}
    names = set()
    for item in items:
        names |= {name for file, name in files.items() if item in (file, name) or name.startswith(item + ".")}
    return [each for each in everything.rules.rules if each.ruleset in names]


def over_tensors(rule: Rule, everything: Program) -> bool:
    """Whether a rule speaks of tensors, not only of sizes."""
    return "prelude.tensor" in everything.rules.needed(rule.ruleset)


def _verdict(rule: Rule, trusted: Program, fired: Fired, outcome: Outcome, tolerance: float | None) -> Verdict:
    road: Road = (
        "sizes"
        if not over_tensors(rule, trusted)
        else ("obligations" if states(rule) else "types" if _is_type_rule(rule) else "tensors")
    )
    if outcome.status == "failed":
        return Verdict(rule.name, rule.where, road, outcome, fired, ())
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
    return Verdict(rule.name, rule.where, road, outcome, fired, wrong)


def _is_type_rule(rule: Rule) -> bool:
    """A rule that states a dtype or a shape and rewrites nothing."""
    text = str(rule.command.items[2]) if rule.command.head == "rule" else ""
    return rule.command.head == "rule" and ("(set (dtype_of" in text or "(union (ShapeOf" in text)


@dataclass(frozen=True)
class Quick:
    """A trial that must end: after so much of the processor's time of this thread, and at `time.monotonic()` values.

    cpu: a `time.thread_time()` value, so that a machine that does much else tries as much; fair: when it ends once
    enough programs are tried; until: when it ends in any case."""

    cpu: float
    until: float
    fair: float = float("inf")

    def over(self, enough: bool = False) -> bool:
        """Whether it must end now."""
        return time.thread_time() >= self.cpu or self.late() or (enough and time.monotonic() >= self.fair)

    def late(self) -> bool:
        """Whether it must end although there is time of the processor left."""
        return time.thread_time() < self.cpu and time.monotonic() >= self.until


@dataclass
class _Seen:
    """What was stated by one rule so far."""

    texts: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)
    points: int = 0
    worst: tuple[Difference, str] | None = None

    def add(self, stated: Stated) -> None:
        self.points += stated.points
        if stated.points:
            self.texts.add(stated.case.text)
            self.ranks.update(type.rank for type in stated.case.types)
            self.dtypes.update(type.dtype for type in stated.case.types)
        if stated.difference is not None:
            new = (stated.difference, stated.case.text)
            old = self.worst
            if old is None or (new[0].weight, len(new[1])) < (old[0].weight, len(old[1])):
                self.worst = new

    @property
    def fired(self) -> Fired:
        """On what the rule fired."""
        return Fired(len(self.texts), tuple(sorted(self.ranks)), tuple(sorted(self.dtypes)))


class _Source:
    """Programs that a rule may match: its examples, mutants of them, and what is drawn from its left side."""

    def __init__(self, rule: Rule, rng: random.Random) -> None:
        self.rule = rule
        self.rng = rng
        self.examples = _readable(rule)
        samples: dict[str, list[Mapping[str, Any]]] = {}
        for line in self.examples:
            for part in parts(line.left):
                if isinstance(part, Apply):
                    samples.setdefault(part.op, []).append(part.attrs)
        self.draws = [Draws(pattern, rng, samples) for pattern in patterns(rule)]

    def programs(self, first: bool, many: int, rare: bool) -> Iterator[Line]:
        """The programs of a round; examples as they are come first, then changed ones and drawn ones in turn."""
        if first:
            yield from self.examples
        changed = [
            mutated(line, self.rng, REGISTRY)
            for line in self.examples
            for _ in range(MORE_MUTANTS if rare else MUTANTS)
        ]
        drawn = [draws.line() for _ in range(many) for draws in self.draws]
        for pair in zip_longest(changed, drawn):
            yield from (line for line in pair if line is not None)


class _Tensors:
    """Random programs for rules over tensors, all rules looking at each."""

    def __init__(self, extra: tuple[str, ...], seed: int, quick: Quick | None = None) -> None:
        self.program = recording_program(extra)
        self.seed = seed
        self.quick = quick
        self.rng = random.Random(seed)
        self.seen: dict[str, _Seen] = {}
        self.tried: set[str] = set()
        self.approximate = {each.name: each.tolerance for each in self.program.rules.rulesets}
        self.open: frozenset[str] = frozenset()
        """Rules that are still tried: none that failed in a round before."""
        self.exploding: dict[str, str] = {}
        """Rules that grew without end, and on what."""
        self.cut = self.early = False
        """Whether time was up before all programs were tried, and before there were enough for a verdict."""
        self.labels: dict[str, list[str]] = {}
        for rule in self.program.rules.rules:
            for label in re.findall(r'\(must_\w+ \w+ "([^"]*)"', rule.text) if states(rule) else ():
                self.labels.setdefault(label, []).append(rule.name)

    def tolerance(self, rule: str) -> float | None:
        """The relative difference that a rule may make; None for not a bit."""
        return self.approximate.get(rule.rpartition("/")[0])

    def run(self, rules: Sequence[Rule], thorough: bool, progress: Progress) -> None:
        """Try programs of each rule until it has failed, the rounds are over, or time is up."""
        if not rules:
            return
        sources = [_Source(rule, random.Random(f"{self.seed} {rule.name}")) for rule in rules]
        self.open = frozenset(rule.name for rule in rules)
        deadline = time.monotonic() + SECONDS * max(len(rules), 2)
        size = SMALL_BATCH if self.quick else BATCH
        looked = 0
        for number, many in enumerate(DRAWN_OF_FEW if thorough else DRAWN):
            progress(f"random programs, round {number + 1}")
            batch: list[Line] = []
            for source in sources:
                if source.rule.name in self.open:
                    rare = len(self.seen.get(source.rule.name, _Seen()).texts) < RARE
                    for line in source.programs(number == 0, many, rare):
                        self._fresh(line, batch)
            first = len(sources[0].examples) if number == 0 and self.quick else 0
            for start, end in _cuts(first, len(batch), size):
                self._batch(batch[start:end])
                looked += end - start
                enough = looked >= first + ENOUGH
                if (self.quick and self.quick.over(enough)) or time.monotonic() > deadline:
                    self.cut = True
                    self.early = self.quick is not None and self.quick.late() and not enough
                    return
            self.open -= {name for name, seen in self.seen.items() if seen.worst is not None}
            if not self.open:
                return

    def _fresh(self, line: Line, batch: list[Line]) -> None:
        """Add a line unless it was tried before."""
        key = f"{term_text(line.left, REGISTRY)} given {line.given}"
        if key not in self.tried:
            self.tried.add(key)
            batch.append(line)

    def _batch(self, lines: Iterable[Line]) -> None:
        lines = list(lines)
        batch = Batch(self.rng.randrange(1 << 20), QUICK_POINTS if self.quick else 0)
        for line in lines:
            batch.add(line)
        try:
            share = SHARE * max(_SMALLEST, len(lines) / BATCH)
            until = self.quick.until if self.quick else float("inf")
            asked = Asked(self.program, self.open, self.tolerance, share, until)
            found = list(try_batch(asked, batch))
        except (EgshapeError, Exploding) as error:
            if self.quick and self.quick.over():
                return
            # One of them has no sizes, or breaks the engine, or never ends; which one is found out by halves, with
            # less time for fewer.
            if len(lines) > 1:
                half = len(lines) // 2
                self._batch(lines[:half])
                self._batch(lines[half:])
            elif isinstance(error, Exploding):
                rule = reason.Rule.of(error.stop.rule).name
                self.exploding.setdefault(rule, f"{term_text(lines[0].left, REGISTRY)}: {error.stop}")
            return
        for stated in found:
            names = [stated.rule]
            if stated.rule.startswith(STATES_LABEL):
                names = self.labels.get(stated.rule.removeprefix(STATES_LABEL), [])
            for name in names:
                self.seen.setdefault(name, _Seen()).add(stated)

    def outcome(self, rule: Rule) -> tuple[Fired, Outcome]:
        """On which programs a rule fired, and what came of it."""
        seen = self.seen.get(rule.name, _Seen())
        if seen.worst is not None:
            return seen.fired, Outcome(rule.name, "failed", seen.points, _counterexample(*seen.worst))
        if rule.name in self.exploding:
            return seen.fired, Outcome(rule.name, "failed", text=f"it grows without end on {self.exploding[rule.name]}")
        if self.early:
            return seen.fired, Outcome(rule.name, "unknown", text=_CUT)
        if not seen.points:
            never = "no program was found on which the rule fires"
            return seen.fired, Outcome(rule.name, "unknown", text=f"{never}: {_CUT}" if self.cut else never)
        return seen.fired, Outcome(rule.name, "sampled", seen.points, _CUT if self.cut else "")


def _cuts(first: int, count: int, size: int) -> Iterator[tuple[int, int]]:
    """Beginnings and ends of batches: the first so many by themselves, since time may be up after them."""
    if first:
        yield 0, first
    for start in range(first, count, size):
        yield start, min(start + size, count)


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
    arrays = [
        f"{plain_name(name)} = {shown(array, _MOST)}"
        for name, array in difference.inputs.items()
        if not name.startswith(SIZE) and array.size <= _MOST
    ]
    if arrays and difference.inputs and not difference.text.startswith("shape"):
        parts.append("with " + ", ".join(arrays))
    return ", ".join(parts) + f": {difference.text}"
