"""Deciding while walking a program: assume, ask, copy for a region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from egshape.decide.known import Clash, Item
from egshape.decide.linear import project, row_of
from egshape.decide.parts import Part, Parts
from egshape.decide.quotients import compared
from egshape.decide.reason import INTERVAL, LINEAR, NORMAL_FORM, Given, Reason, Rule, Step
from egshape.decide.refute import Budget, refute
from egshape.decide.remainders import nonnegative_by_remainders
from egshape.decide.shown import compound_atoms, shown, simpler
from egshape.decide.world import World
from egshape.dims import Definedness, Dim, Symbol, const, symbol
from egshape.dims.core import natural_key, of_atom
from egshape.errors import Contradiction, UndefinedSize
from egshape.facts import Facts, Relation
from egshape.facts.absorb import linear_symbol, ranges_of_symbol, residue_class
from egshape.facts.intervals import INTEGERS, Ranges, complement, image, intersect
from egshape.facts.store import contradiction
from egshape.limits import tick

Answer = Literal["proved", "refuted", "unknown"]

_ZERO = const(0)
_EFFORT = 20_000
_EFFORT_PER_FACT = 3_000
_BOUND_ROWS = 60
_MAX_LEFT_OUT = 8
_MAX_LEFT_OUT_TERMS = 24
_LITTLE = 2
_EFFORT_OF_RULES = 2_000


@dataclass(frozen=True)
class Assumption:
    """A relation that holds here, and why; a premise of a question has no reason."""

    relation: Relation
    reason: Reason | None = None


@dataclass(frozen=True)
class Verdict:
    """An answer with the rule that gave it and the assumptions (bit mask) that it used."""

    answer: Answer
    rule: Rule = NORMAL_FORM
    why: int = 0


_UNKNOWN = Verdict("unknown")


class Context:
    """What is known at one point of a program.

    `symbol_order` is a sort key on names: of equal sizes the one with the smallest key stays.
    Answers are never wrong; "unknown" is always possible.
    """

    def __init__(self, facts: Facts | None = None, symbol_order: Callable[[str], Any] = natural_key) -> None:
        self._world = World(symbol_order)
        self._assumptions: list[Assumption] = []
        self._shown: dict[Dim, Dim] = {}
        self._verdicts: dict[Relation, tuple[Verdict, tuple[int, int]]] = {}
        """Answers, with the budget and effort that they were given."""
        self._parts: Parts | None = None
        if facts is not None:
            self.assume_all([(r, Given()) for r in facts.statements()])

    def copy(self) -> Context:
        """A context with the same assumptions, for a region; changes do not leak."""
        new = type(self).__new__(type(self))
        new._world = self._world.copy()
        new._assumptions = list(self._assumptions)
        new._shown = dict(self._shown)
        new._verdicts = dict(self._verdicts)
        new._parts = None  # of a world that may change
        return new

    @property
    def world(self) -> World:
        """The solved state; not to be changed."""
        return self._world

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """All that was assumed, in order."""
        return tuple(self._assumptions)

    def assume(self, relation: Relation, reason: Reason | None = None) -> None:
        """From here on the relation holds and has a value.  Raises Contradiction, which names the facts."""
        self.assume_all([(relation, reason)])

    def assume_all(
        self,
        relations: Sequence[tuple[Relation, Reason | None]],
        effort: int = _EFFORT,
        per_fact: int = _EFFORT_PER_FACT,
    ) -> None:
        """Assume several at once, which is faster than one by one, at a bounded cost."""
        items: list[Item] = []
        for relation, reason in relations:
            bit = 1 << len(self._assumptions)
            self._assumptions.append(Assumption(relation, reason))
            items.extend(items_of(relation, bit))
        self._shown.clear()
        self._verdicts.clear()
        self._parts = None
        self._world.spend(effort + per_fact * len(items))
        try:
            self._world.add(items)
        except Clash as clash:
            raise contradiction(self.used(clash.why)) from None

    def used(self, why: int) -> tuple[Relation, ...]:
        """The assumptions of a bit mask."""
        return tuple(a.relation for i, a in enumerate(self._assumptions) if why >> i & 1)

    def normal_form(self, dim: Dim) -> Dim:
        """The size written the one way that all sizes known to be equal by form share."""
        world = self._world
        if world.is_plain:
            return dim
        known = self._shown.get(dim)
        if known is None:
            world.spend(_EFFORT)
            known = self._shown[dim] = self._normal_form(dim)
        return known

    def _normal_form(self, dim: Dim) -> Dim:
        world = self._world
        if not world.rules and all(isinstance(a, Symbol) for m, _ in dim.terms for a, _ in m):
            names = dim.symbols()
            if all(self._is_own_form(name) for name in names):
                return dim
        return shown(world, world.normal(dim))

    def _is_own_form(self, name: str) -> bool:
        """Whether a symbol stays itself in every polynomial: free, or free but for slacks."""
        world = self._world
        value = world.value_of(name)[0] if name in world.solved else None
        if value is None:
            return not any(f.divisor is not None for f in world.fresh.values()) or not world.rules
        if any((f := world.fresh.get(n)) is not None and not f.is_slack for n in value.symbols()):
            return False
        this = symbol(name)
        own = self._shown.get(this)
        if own is None:
            own = self._shown[this] = shown(world, world.normal(this))
        return own is this

    def ranges(self, dim: Dim) -> Ranges:
        """The sizes that a dim may be, as far as intervals tell."""
        plain = linear_symbol(self._world.normal(dim))
        listed = INTEGERS
        if plain is not None:
            name, scale, offset = plain
            listed = image(self._world.ranges.get(name, INTEGERS), scale, offset)
        return intersect(listed, (self.bounds(dim),))

    def residue_class(self, dim: Dim) -> tuple[int, int]:
        """(divisor, remainder) of a size at all sizes, as far as its normal form tells; (0, value) of a number."""
        return residue_class(self._world.normal(dim))

    def bounds(self, dim: Dim) -> tuple[int | None, int | None]:
        """(low, high), inclusive; None where no bound is known."""
        world = self._world
        if dim.const is not None:
            return dim.const, dim.const
        world.spend(_EFFORT)
        normal = world.normal(dim)
        if normal.const is not None:
            return normal.const, normal.const
        offset = normal.terms[-1][1] if not normal.terms[-1][0] else 0
        part = normal - offset
        atom = part.terms[0][0] if len(part.terms) == 1 and part.terms[0][1] == 1 else None
        if atom is not None:
            rows = world.near_rows([], _BOUND_ROWS, [atom])
            low, high, _ = project(rows, world.is_free, atom, world.effort)
            if not world.is_free(atom):
                low = max(low or 0, 0)
        else:
            stand_in = (((symbol("\x00bound").terms[0][0][0][0]), 1),)
            this = symbol("\x00bound")
            rows = world.near_rows([row_of(this - part), row_of(part - this)], _BOUND_ROWS)
            low, high, _ = project(rows, lambda m: m == stand_in or world.is_free(m), stand_in, world.effort)
            if low is None and world.nonnegative(part):
                low = 0
        return (None if low is None else low + offset, None if high is None else high + offset)

    def divides(self, k: int, dim: Dim) -> bool:
        """Whether k divides the size at all sizes (k >= 1)."""
        if k == 1:
            return True
        self._world.spend(_EFFORT)
        normal = self._world.normal(dim)
        if all(c % k == 0 for _, c in normal.terms):
            return True
        return self.verdict(Relation("==", dim % k, _ZERO)).answer == "proved"

    def decide(self, relation: Relation) -> Answer:
        """ "proved": true at all sizes admitted here; "refuted": false at all of them."""
        return self.verdict(relation).answer

    def verdict(self, relation: Relation, budget: int = 24, effort: int = _EFFORT) -> Verdict:
        """`decide` with the rule and the assumptions used.

        `budget` bounds the cases tried, `effort` the whole cost (about microseconds).
        """
        known, (cases, spent) = self._verdicts.get(relation, (None, (0, 0)))
        if known is None or (known.answer == "unknown" and (budget > cases or effort > spent)):
            tick()
            self._world.spend(effort)
            known = self._verdict(relation, budget)
            self._verdicts[relation] = known, (max(budget, cases), max(effort, spent))
        return known

    def _verdict(self, relation: Relation, budget: int) -> Verdict:
        conditions = 0
        for condition in relation.conditions():
            found = self.holds_condition(condition, budget)
            if found is None:
                return _UNKNOWN
            conditions |= found
        dim, why = self._difference(relation)
        if dim.const is not None and relation.kind != "in":
            truth = Relation(relation.kind, _ZERO, dim).holds({})
            return Verdict("proved" if truth else "refuted", NORMAL_FORM, why | conditions)
        may_hold, may_fail = self._sampled(relation)
        if may_hold and may_fail:
            return _UNKNOWN
        quick = self._by_sign(relation, dim, may_hold, may_fail) if relation.kind != "in" else None
        if quick is not None:
            return Verdict(quick.answer, quick.rule, quick.why | conditions)
        if not may_fail:
            found = self.refuted_by([items_of(r, 0) for r in denials(relation)], budget)
            if found is not None:
                return Verdict("proved", LINEAR, found | conditions)
        if not may_hold:
            found = self.refuted_by([items_of(relation, 0)], budget)
            if found is not None:
                return Verdict("refuted", LINEAR, found | conditions)
        return _UNKNOWN

    def holds_condition(self, condition: Definedness, budget: int = 24) -> int | None:
        """The assumptions by which the condition holds, or None."""
        one, two = condition.one, condition.two
        if condition.kind == "nonzero":
            return self.refuted_by([[Item("==", one, 0)]], budget)
        apart = [Item("!=", one - two, 0), Item("!=", one - 1, 0), Item("!=", two - 1, 0)]
        return self.refuted_by([apart], budget)

    def refuted_by(self, cases: list[list[Item]], budget: int) -> int | None:
        """The assumptions by which every one of the cases is impossible, or None."""
        why = 0
        part = self._about(frozenset().union(*(item.symbols for case in cases for item in case)))
        for case in cases:
            found = refute(part.world, case, Budget(budget))
            if found is None:
                return None
            why |= found
        return why

    def _difference(self, relation: Relation) -> tuple[Dim, int]:
        """(rhs - lhs in normal form, the assumptions used)."""
        world = self._world
        world.used = 0
        normal = world.normal(relation.rhs - relation.lhs)
        used, merged = world.used, compared(world, normal)
        return (merged, world.used) if merged.const is not None else (normal, used)

    def _by_sign(self, relation: Relation, dim: Dim, may_hold: bool, may_fail: bool) -> Verdict | None:
        """By ranges and one elimination, where dim is rhs - lhs."""
        world = self._world
        world.used = 0
        world.normal(relation.rhs - relation.lhs)
        if relation.kind in ("<=", "<"):
            slack = dim if relation.kind == "<=" else dim - 1
            if not may_fail and self._nonnegative(slack):
                return Verdict("proved", INTERVAL, world.used)
            if not may_hold and self._nonnegative(-slack - 1):
                return Verdict("refuted", INTERVAL, world.used)
            return None
        apart: Answer = "refuted" if relation.kind == "==" else "proved"
        if (apart == "refuted" and may_hold) or (apart == "proved" and may_fail):
            return None
        if world.nonnegative(dim - 1) or world.nonnegative(-dim - 1):
            return Verdict(apart, INTERVAL, world.used)
        return None

    def _nonnegative(self, dim: Dim) -> bool:
        return self._world.nonnegative(dim) or nonnegative_by_remainders(dim)

    def _sampled(self, relation: Relation) -> tuple[bool, bool]:
        """(true, false) at some admitted sizes among a few."""
        names = relation.symbols()
        seen_true = seen_false = False
        for env in self._about(names).sampler.few(names):
            try:
                truth = relation.holds(env)
            except UndefinedSize:
                continue
            seen_true, seen_false = seen_true or truth, seen_false or not truth
            if seen_true and seen_false:
                break
        return seen_true, seen_false

    def _about(self, names: Iterable[str]) -> Part:
        """What is known that hangs together with some symbols."""
        if self._parts is None:
            self._parts = Parts(self._world)
        return self._parts.about(names)

    def premises(self, relation: Relation) -> tuple[Assumption, ...] | None:
        """Assumptions that suffice to prove (or refute) the relation, made few by leaving out one after the other; None
        if it is unknown."""
        verdict = self.verdict(relation)
        if verdict.answer == "unknown":
            return None
        used = [i for i in range(len(self._assumptions)) if verdict.why >> i & 1]
        return tuple(self._assumptions[i] for i in self._smallest(relation, used, verdict.answer))

    def reasons(self, relation: Relation) -> tuple[Step, ...]:
        """The steps by which the relation is proved (or refuted), from assumptions; empty if it is unknown."""
        needed = self.premises(relation)
        if needed is None:
            return ()
        verdict = self.verdict(relation)
        stated = [Step(a.reason, (), a.relation) for a in needed if a.reason is not None]
        rules = self._rules(relation, verdict.why)
        goal = relation if verdict.answer == "proved" else relation.negated()
        if rules and _same_equation(rules[-1].to, goal):
            return (*stated, *rules[:-1], rules[-1]._replace(to=goal))
        known = dict.fromkeys((*(step.to for step in rules), *(a.relation for a in needed)))
        return (*stated, *rules, Step(verdict.rule, tuple(known), goal))

    def _rules(self, relation: Relation, allowed: int) -> list[Step]:
        """Which rules make the size functions of a relation simpler, by those assumptions that are allowed."""
        world, found = self._world, []
        world.spend(_EFFORT_OF_RULES)
        for atom in compound_atoms((relation.lhs, relation.rhs)):
            world.used = 0
            made = simpler(world, atom)
            if made is None or world.used & ~allowed:
                continue
            used = tuple(a.relation for i, a in enumerate(self._assumptions) if world.used >> i & 1)
            value, this = shown(world, made[0]), of_atom(atom)
            if value is not this:
                found.append(Step(Rule(made[1]), used, Relation("==", this, value)))
        return found

    def _smallest(self, relation: Relation, used: list[int], answer: Answer) -> list[int]:
        """Leave out what is not needed, where that is quick to see."""
        size = len(relation.lhs.terms) + len(relation.rhs.terms)
        if not 1 < len(used) <= _MAX_LEFT_OUT or size > _MAX_LEFT_OUT_TERMS:
            return used
        needed = list(used)
        for i in used:
            fewer = [j for j in needed if j != i]
            if self._suffices(fewer, relation, answer):
                needed = fewer
        return needed

    def _suffices(self, indices: Sequence[int], relation: Relation, answer: Answer) -> bool:
        small = Context(symbol_order=self._world.symbol_order)
        try:
            small.assume_all([(self._assumptions[i].relation, None) for i in indices], _EFFORT // 8, _EFFORT // 32)
        except Contradiction:  # which all of them together did not show: what follows from it is no reason
            return False
        return small.verdict(relation, _LITTLE, _EFFORT // 8).answer == answer


def _same_equation(one: Relation, other: Relation) -> bool:
    """Whether an equation and a relation say the same, but for how their sides are written."""
    difference = one.lhs - one.rhs
    return other.kind == "==" and other.lhs - other.rhs in (difference, -difference)


def items_of(relation: Relation, why: int) -> list[Item]:
    """What a relation says, together with what it needs in order to have a value."""
    items: list[Item] = []
    for need in relation.conditions():
        if need.kind == "nonzero":
            items.append(Item("!=", need.one, why))
            continue
        one, two = need.one, need.two
        choices = (Item("==", one - two, why), Item("==", one - 1, why), Item("==", two - 1, why))
        items.append(Item("or", _ZERO, why, (), choices))
    solved = ranges_of_symbol(relation)
    if solved is not None:
        items.append(Item("in", symbol(solved[0]), why, solved[1]))
    elif relation.kind == "in":
        items.append(Item("in", relation.lhs, why, relation.ranges))
    elif relation.kind in ("==", "!="):
        items.append(Item(relation.kind, relation.lhs - relation.rhs, why))
    else:
        strict = 1 if relation.kind == "<" else 0
        items.append(Item(">=", relation.rhs - relation.lhs - strict, why))
    return items


def denials(relation: Relation) -> list[Relation]:
    """Cases that cover everywhere the relation is false (and has a value)."""
    if relation.kind == "==":
        lower = Relation("<", relation.lhs, relation.rhs, "", (), relation.needs)
        return [lower, Relation("<", relation.rhs, relation.lhs, "", (), relation.needs)]
    if relation.kind == "in":
        outside = complement(relation.ranges)
        return [Relation("in", relation.lhs, relation.rhs, "", (i,), relation.needs) for i in outside]
    return [relation.negated()]


def holds_all(relations: Sequence[Relation], env: Mapping[str, int]) -> bool:
    """Whether all have a value and are true at these sizes."""
    try:
        return all(r.holds(env) for r in relations)
    except UndefinedSize:
        return False
