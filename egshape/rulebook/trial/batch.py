"""Many left sides in one e-graph of recorders: what each rule would unite, as pairs of values that can be computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from egshape.decide import reason
from egshape.decide.context import Context
from egshape.decide.reason import Entry, Given, Reason
from egshape.dims import Dim, const, symbol
from egshape.egraph.budget import STEPS, Budget, Phase
from egshape.egraph.encode import attribute
from egshape.egraph.obligations import Obligation, Walker
from egshape.egraph.program import SOURCES, Program, fills
from egshape.egraph.saturate import Session
from egshape.egraph.snapshot import Snapshot
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.ir.builder import BlockBuilder
from egshape.ir.functions import function_parts
from egshape.ir.graph import Block, Op, Value
from egshape.ops import REGISTRY
from egshape.rulebook.trial.bounds import Exploding, bounded
from egshape.rulebook.trial.compute import Case, Difference, Points, Sizes, differences, false_at, points
from egshape.rulebook.trial.mutate import renamed
from egshape.rulebook.trial.record import DTYPE, UNITED
from egshape.rulelang.examples import SIZE, Line, build_example, term_text
from egshape.rulelang.schema import ELEMENTWISE, constructor, has_constructor

ROUNDS = 2
LARGEST = 2**31 - 1
_SUFFIX = re.compile(r"__t\d+\b")


def plain_name(text: str) -> str:
    """A text without the suffixes that keep the symbols of a batch apart."""
    return _SUFFIX.sub("", text)


@dataclass(frozen=True)
class Stated:
    """What a rule said of one case: how many points were compared, and the first difference."""

    rule: str
    case: Case
    points: int
    difference: Difference | None


@dataclass
class Batch:
    """Left sides that are built, each with symbols of its own."""

    seed: int = 0
    wanted: int = 0
    """At how many sizes two sides are compared; 0 for as many as is usual."""
    builder: BlockBuilder = field(default_factory=BlockBuilder)
    cases: list[Case] = field(default_factory=list)
    points: dict[int, Points] = field(default_factory=dict)
    roots: list[Value] = field(default_factory=list)
    case_of: dict[Value, int] = field(default_factory=dict)

    def add(self, line: Line) -> bool:
        """Add a left side; False if the ops do not take it, or no sizes are found at which it runs."""
        number = len(self.cases)
        own = renamed(line, f"__t{number}")
        if any(
            relation.lhs.const is not None and relation.rhs.const is not None and not _true(relation)
            for relation in own.given
        ):
            return False
        try:
            block, values = build_example(own, REGISTRY, right=False)
        except EgshapeError:
            return False
        known = {each.name for each in block.symbols}
        given = tuple(relation for relation in own.given if relation.symbols() <= known)
        text = term_text(line.left, REGISTRY)
        if given:
            text += " given " + "; ".join(plain_name(str(relation)) for relation in given)
        types = (values[0].type, *(arg.type for arg in block.args if not str(arg.name).startswith(SIZE)))
        case = Case(block.args, block.ops, block.symbols, given, text, types)
        if not points(case, values[0], self.seed + number, wanted=1).found:
            return False
        self.builder.args += block.args
        self.builder.ops += block.ops
        self.builder.symbols += block.symbols
        for value in (*block.args, *(value for op in block.ops for value in op.results)):
            self.case_of[value] = number
        self.cases.append(case)
        self.roots.append(values[0])
        return True

    def at(self, number: int) -> Points:
        """Where a left side runs."""
        if number not in self.points:
            self.points[number] = points(self.cases[number], self.roots[number], self.seed + number, self.wanted)
        return self.points[number]

    def block(self) -> Block:
        """All of it."""
        return Block(tuple(self.builder.args), tuple(self.builder.ops), tuple(self.roots), tuple(self.builder.symbols))


def _true(relation: Relation) -> bool:
    try:
        return relation.holds({})
    except EgshapeError:
        return False


@dataclass(frozen=True)
class Asked:
    """Which rules look at a batch, what differences they may make (None: not a bit), and their share of the time that a
    trial may take."""

    program: Program
    rules: frozenset[str]
    tolerance: Callable[[str], float | None]
    share: float = 1.0
    until: float = float("inf")
    """A `time.monotonic()` value at which a trial ends in any case."""

    @property
    def phases(self) -> tuple[str, ...]:
        """The rulesets to run: those of the rules and what these need; recorders change nothing that others see. Of
        rules that run one by one, others of the same ruleset only where they fill what the rules may read."""
        own = {rule.rpartition("/")[0] for rule in self.rules}
        needed = frozenset().union(*(self.program.rules.needed(name) for name in own))
        with_them = self.rules | {each.name for each in self.program.rules.rules if each.ruleset in own and fills(each)}

        def runs(phase: str) -> bool:
            ruleset = phase.rpartition("/")[0]
            return (
                phase == SOURCES or phase in with_them or (ruleset or phase) in needed or (not ruleset and phase in own)
            )

        return tuple(filter(runs, self.program.phases))


def try_batch(asked: Asked, batch: Batch) -> Iterator[Stated]:
    """Let rules look at a batch and compute what they stated. Raises Exploding where they meet a limit."""
    if not batch.cases:
        return
    block = batch.block()
    context = Context()
    believed: list[tuple[Relation, Reason]] = [
        (Relation("<=", symbol(each.name), const(LARGEST)), Entry()) for each in block.symbols
    ]
    believed += [(relation, Given()) for case in batch.cases for relation in case.given]
    context.assume_all(believed)
    with bounded(asked.program, block, context, asked.share, asked.until) as (opened, budget):
        implied = opened.load()
        stated = [_obligation(each, batch, block) for each in implied]
        yield from (each for each in stated if each is not None)
        # What is false of a program that runs must not be believed of it.
        true = [each for each, said in zip(implied, stated, strict=True) if said is None or said.difference is None]
        walker = Walker(block, context, frozenset(), REGISTRY, {}, believed, True)
        opened.believe(walker.run(true), budget)
        snapshot = _recorded(asked.phases, opened, replace(budget, steps=len(asked.phases)))
        reading = _Reading(batch, opened, snapshot, asked)
        yield from reading.unions()
        yield from reading.types()


def _smallest(found: Iterable[Difference | None]) -> Difference | None:
    """The difference that is read most easily."""
    return min((each for each in found if each is not None), key=lambda each: each.weight, default=None)


def _obligation(each: Obligation, batch: Batch, block: Block) -> Stated | None:
    """What a rule says that an op implies, at the points where the op gives a result; None without such an op."""
    op = block.ops[each.index]
    if not op.results or op.results[0] not in batch.case_of:
        return None
    number = batch.case_of[op.results[0]]

    def text(sizes: Sizes) -> str:
        return f"the op runs, and {plain_name(str(each.relation))} is false"

    found = list(false_at(batch.at(number), each.relation.holds, text))
    return Stated(
        f"{STATES_LABEL}{each.rule}",
        batch.cases[number],
        len(found),
        _smallest(found),
    )


def _recorded(phases: Sequence[str], opened: Session, budget: Budget) -> Snapshot:
    tables = opened.encoder.out.tables
    snapshot = opened.engine.read()
    for _ in range(ROUNDS):
        opened.describer.round(snapshot, tables)
        opened.flush()
        done = opened.engine.saturate([Phase(name, 1) for name in phases], budget)
        if done.stop is not None and done.limit != STEPS:
            raise Exploding(done.stop)
        snapshot = opened.engine.read()
    opened.describer.round(snapshot, tables)
    opened.flush()
    return opened.engine.read()


class _Reading:
    """What stands in the tables after the rules have looked."""

    def __init__(self, batch: Batch, opened: Session, snapshot: Snapshot, asked: Asked) -> None:
        self.batch = batch
        self.encoding = opened.encoder.out
        self.snapshot = snapshot
        self.asked = asked
        self.dims = opened.describer.dims(snapshot)
        self.shapes = opened.describer.shapes(snapshot, self.dims)
        self.values: dict[int, dict[int, Value]] = {}
        for node, cls in snapshot.table("Node"):
            value = self.encoding.values[node] if node < len(self.encoding.values) else None
            if value is not None and value in batch.case_of:
                self.values.setdefault(cls, {}).setdefault(batch.case_of[value], value)
        self.lists = {cls: (head, tail) for head, tail, cls in snapshot.table("Cons")}
        self.constants = {op.result: op for case in batch.cases for op in case.ops if op.name == "constant"}

    @cached_property
    def terms(self) -> Mapping[int, tuple[str, tuple[Any, ...]]]:
        """A term of each class that has one."""
        names = [family.capitalize() for family in ELEMENTWISE]
        names += [decl.name for decl in REGISTRY if has_constructor(decl)]
        return {row[-1]: (name, row[:-1]) for name in names for row in self.snapshot.table(name)}

    def at(self, number: int) -> Points:
        return self.batch.at(number)

    def _rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """What the rules that are asked about noted in a table, in an order of its own."""
        for name, *cells in sorted(set(self.snapshot.table(table))):
            rule = reason.Rule.of(name).name
            if rule in self.asked.rules:
                yield rule, *cells

    # -- unions ----

    def unions(self) -> Iterator[Stated]:
        """What rules would unite, tensor by tensor and size by size; what is one already says nothing of a rule."""
        for rule, one, two in self._rows(UNITED["T"]):
            if one == two:
                continue
            left = self.values.get(one)
            right = self.values.get(two)
            if left is None and right is not None:
                one, two, left = two, one, right  # noqa: PLW2901
            for number, value in list((left or {}).items())[:1]:
                yield from self._tensors(rule, number, value, two)
        for rule, a, b in self._rows(UNITED["Dim"]):
            if a in self.dims and b in self.dims:
                yield from self._sizes(rule, (self.dims[a],), (self.dims[b],))

    def _tensors(self, rule: str, number: int, value: Value, other: int) -> Iterator[Stated]:
        case, at = self.batch.cases[number], self.at(number)
        work = _Builder(self, number)
        try:
            right = work.value(other)
        except EgshapeError as error:
            problem = Difference({}, {}, f"the right side is ill-typed: {plain_name(error.message)}")
            yield Stated(rule, case, len(at.found), problem if at.found else None)
            return
        if right is None:
            return
        found = list(differences(at, value, right, work.ops, self.asked.tolerance(rule)))
        yield Stated(rule, case, len(found), _smallest(found))

    def _sizes(self, rule: str, one: Sequence[Dim], two: Sequence[Dim]) -> Iterator[Stated]:
        """Sizes that a rule says are equal; where they run, they must be."""
        if len(one) != len(two):
            problem = Difference({}, {}, f"the shapes {_shown(one)} and {_shown(two)} have different ranks")
            yield Stated(rule, self.batch.cases[0], 1, problem)
            return
        for a, b in zip(one, two, strict=True):
            number = _case_of((a, b))
            if number is None:
                continue
            at = self.at(number)

            def holds(sizes: Sizes, a: Dim = a, b: Dim = b) -> bool:
                return a.evaluate(sizes) == b.evaluate(sizes)

            def text(sizes: Sizes, a: Dim = a, b: Dim = b) -> str:
                return f"{plain_name(str(a))} is not {plain_name(str(b))}"

            found = list(false_at(at, holds, text))
            yield Stated(rule, self.batch.cases[number], len(found), _smallest(found))

    # -- types ----

    def types(self) -> Iterator[Stated]:
        """The dtypes and shapes that rules state, held against those that the ops' shape functions gave."""
        for rule, cls, dtype in self._rows(DTYPE):
            for number, value in self.values.get(cls, {}).items():
                text = f"the op gives {value.type.dtype}, the rule says {dtype}"
                wrong = None if value.type.dtype == dtype else Difference({}, {}, text)
                yield Stated(rule, self.batch.cases[number], 1, wrong)
        for rule, a, b in self._rows(UNITED["Shape"]):
            if a in self.shapes and b in self.shapes:
                one, two = self.shapes[a], self.shapes[b]
                if one == two:
                    yield Stated(rule, self.batch.cases[_case_of(one) or 0], 1, None)
                else:
                    yield from self._sizes(rule, one, two)


STATES_LABEL = "label:"
"""Obligations carry the words of their rule, not its name."""


def _shown(dims: Sequence[Dim]) -> str:
    return f"[{', '.join(plain_name(str(dim)) for dim in dims)}]"


def _case_of(dims: Sequence[Dim]) -> int | None:
    for dim in dims:
        for name in dim.symbols():
            found = _SUFFIX.search(name)
            if found:
                return int(found[0].removeprefix("__t"))
    return None


class _Builder:
    """Makes the ops of a right side from the terms of the e-graph."""

    def __init__(self, reading: _Reading, case: int) -> None:
        self.reading = reading
        self.case = case
        self.builder = BlockBuilder(registry=REGISTRY)
        self.made: dict[int, Value] = {}

    @property
    def ops(self) -> list[Op]:
        """What was added."""
        return self.builder.ops

    def value(self, cls: int, depth: int = 0) -> Value | None:
        """The value of a class: one of the case, or a new one. None where the e-graph does not say enough yet.

        Raises EgshapeError where an op does not take its operands."""
        if cls in self.made:
            return self.made[cls]
        here = self.reading.values.get(cls, {})
        if self.case in here:
            return here[self.case]
        found = next(
            (self.reading.constants[value] for value in here.values() if value in self.reading.constants), None
        )
        if found is not None:
            self.made[cls] = self.builder.one("constant", (), found.attrs)
            return self.made[cls]
        term = self.reading.terms.get(cls)
        made = self._apply(*term, depth) if term is not None and depth < 40 else None
        if made is not None:
            self.made[cls] = made
        return made

    def _apply(self, name: str, args: Sequence[Any], depth: int) -> Value | None:
        if name.lower() in ELEMENTWISE and name[0].isupper():
            op, attrs = function_parts(args[0], REGISTRY)
            operands = [self.value(arg, depth + 1) for arg in args[1:]]
            return self._add(op, operands, attrs)
        form = constructor(REGISTRY[name])
        operands = []
        for sort, arg in zip(form.operands, args, strict=False):
            operands += [self.value(each, depth + 1) for each in (self._items(arg) if sort == "Ts" else [arg])]
        attributes: dict[str, Any] = {}
        for attr, arg in zip(form.decl.attrs, args[len(form.operands) :], strict=True):
            if attr.kind == "sizes" and arg not in self.reading.shapes:
                return None
            attributes[attr.name] = attribute(
                self.reading.encoding, self.reading.shapes.__getitem__, name, attr.kind, arg
            )
        return self._add(name, operands, attributes)

    def _add(self, name: str, operands: Sequence[Value | None], attrs: Mapping[str, Any]) -> Value | None:
        known = [each for each in operands if each is not None]
        return self.builder.one(name, known, attrs) if len(known) == len(operands) else None

    def _items(self, cls: int) -> list[int]:
        out = []
        while cls in self.reading.lists:
            head, cls = self.reading.lists[cls]
            out.append(head)
        return out
