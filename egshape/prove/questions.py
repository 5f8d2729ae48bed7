"""`prove`: one question about sizes, answered with a reason, a counterexample, or what is missing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from egshape.dims import Definedness, Dim, FloorDiv, Relu, symbol
from egshape.dims.core import natural_key
from egshape.errors import Contradiction, ParseError, UndefinedSize
from egshape.facts import Relation, parse_facts, parse_relation
from egshape.prove.context import Context, Step, holds_all
from egshape.prove.proof import CaseModel, CasesModel, Proof, Status, StepModel
from egshape.prove.refute import Budget, refute_world
from egshape.prove.samples import Sampler

_FIRST_POINTS = 12
_MORE_POINTS = 120
_TRIES_PER_POINT = 6
_WORLDS = 60
_EFFORT = 30_000
_FEW_POINTS = 4
_MAX_GIVENS_LEFT_OUT = 40
_MAX_MISSING = 12


def prove(goal: str, given: Sequence[str] = ()) -> Proof:
    """Decide the goal from the givens, over all sizes (symbols are integers >= 0).

    Raises ParseError where a text does not parse.
    """
    start = time.perf_counter()
    relations = [r for text in given for r in parse_facts(text) if isinstance(r, Relation)]
    question = _Question(parse_relation(goal), relations)
    proof = question.answer()
    proof.goal, proof.given = goal, list(given)
    proof.seconds = round(time.perf_counter() - start, 6)
    return proof


def prove_cases(text: str) -> CasesModel:
    """Answer a tab-separated file with the columns id, family, givens, goal, want (a header comes first)."""
    rows: list[CaseModel] = []
    for number, line in enumerate(text.splitlines()[1:], start=2):
        cells = line.split("\t")
        if len(cells) != 5:
            raise ParseError(f"{len(cells)} columns", where=f"line {number}", hint="5, separated by tabs")
        case, _, givens, goal, want = cells
        try:
            proof = prove(goal, [givens] if givens else [])
        except ParseError as error:
            where = f"line {number}, {error.where}" if error.where else f"line {number}"
            raise ParseError(error.message, where=where, hint=error.hint) from None
        proof.given = [g.strip() for g in givens.split(";") if g.strip()]
        rows.append(CaseModel(id=case, want=want, **vars(proof)))
    right = sum(r.status == r.want for r in rows)
    return CasesModel(rows=rows, right=right, wrong=len(rows) - right)


class _Question:
    def __init__(self, goal: Relation, given: list[Relation]) -> None:
        self.goal = goal
        self.given = given
        self.names = set(goal.symbols()).union(*(r.symbols() for r in given))
        self.numbers = _numbers(goal).union(*(_numbers(r) for r in given))
        self.witnessed = False  # the givens hold somewhere
        self.missing_effort = _EFFORT

    def answer(self) -> Proof:
        context = Context()
        try:
            context.assume_all([(r, "") for r in self.given])
        except Contradiction as error:
            return self._inconsistent(error.facts)
        found = self._search(context, _FIRST_POINTS, 4 * _FIRST_POINTS)
        if found is not None:
            return found
        verdict = context.verdict(self.goal, _WORLDS, _EFFORT)
        if verdict.answer == "proved" and self.witnessed:
            return self._result("proved", context.reasons(self.goal))
        found = self._search(context, _MORE_POINTS, _TRIES_PER_POINT * _MORE_POINTS)
        if found is not None:
            return found
        if not self.witnessed:
            context.world.spend(_EFFORT)
            why = refute_world(context.world, Budget(_WORLDS))
            if why is not None:
                return self._inconsistent(context.texts(why))
        if verdict.answer == "proved":
            return self._result("proved", context.reasons(self.goal))
        return Proof(goal="", status="unknown", missing=self._missing())

    def _result(self, status: Status, steps: Sequence[Step]) -> Proof:
        why = [StepModel(rule=s.rule, from_=list(s.from_), to=s.to) for s in steps]
        return Proof(goal="", status=status, why=why)

    def _search(self, context: Context, points: int, tries: int) -> Proof | None:
        """Sizes that satisfy every given and make the goal false."""
        for point in Sampler(context.world).points(self.names, points, tries, self.numbers):
            env = {name: point[name] for name in self.names}
            if not holds_all(self.given, env):
                continue
            self.witnessed = True
            try:
                if self.goal.holds(env):
                    continue
            except UndefinedSize:
                continue
            ordered = dict(sorted(env.items(), key=lambda kv: natural_key(kv[0])))
            return Proof(goal="", status="refuted", counterexample=ordered)
        return None

    def _inconsistent(self, suspects: Sequence[str]) -> Proof:
        """Names a smallest set of givens that clash."""
        needed = [r for r in self.given if r.text in suspects]
        if not _clashes(needed):
            needed = list(self.given)
        if len(needed) <= _MAX_GIVENS_LEFT_OUT:
            for relation in list(needed):
                fewer = [r for r in needed if r is not relation]
                if _clashes(fewer):
                    needed = fewer
        return Proof(goal="", status="inconsistent", clash=list(dict.fromkeys(r.text for r in needed)))

    def _missing(self) -> str:
        """A fact that decides the goal: the plainest of some candidates, at worst the goal itself."""
        base = [_made_true(c) for c in self.goal.conditions() if not self._holds(c)]
        whole = [*base, self.goal]
        for extra in [[], *([c] for c in self._candidates())]:
            facts = [*base, *extra]
            if facts and self._decides(facts):
                return "; ".join(str(f) for f in facts)
        return "; ".join(dict.fromkeys(r.text for r in whole))

    def _holds(self, condition: Definedness) -> bool:
        context = Context()
        context.assume_all([(r, "") for r in self.given], _EFFORT // 4, 0)
        return context.holds_condition(condition) is not None

    def _candidates(self) -> Iterator[Relation]:
        names = sorted(self.names, key=natural_key)
        found: list[Relation] = [Relation.of(symbol(n), ">=", 1) for n in names]
        for one, two in combinations(names, 2):
            found.append(Relation.of(symbol(one), "==", symbol(two)))
        divisors = sorted(_number_divisors(self.goal.lhs) | _number_divisors(self.goal.rhs))
        found.extend(Relation.of(symbol(n) % k, "==", 0) for n in names for k in divisors)
        for one, two in combinations(names, 2):
            found.append(Relation.of(symbol(one), "<=", symbol(two)))
            found.append(Relation.of(symbol(two), "<=", symbol(one)))
        return iter(found[:_MAX_MISSING])

    def _decides(self, facts: Sequence[Relation]) -> bool:
        if self.missing_effort <= 0:
            return False
        context = Context()
        try:
            context.assume_all([(r, "") for r in (*self.given, *facts)], _EFFORT // 4, 0)
        except Contradiction:
            return False
        self.missing_effort -= _EFFORT // 4 - context.world.effort.left
        points = Sampler(context.world).points(self.names, _FEW_POINTS)
        admitted = any(holds_all([*self.given, *facts], p) for p in points)
        decided = admitted and context.verdict(self.goal, 6, _EFFORT // 4).answer == "proved"
        self.missing_effort -= _EFFORT // 4 - context.world.effort.left
        return decided


def _clashes(relations: Sequence[Relation]) -> bool:
    context = Context()
    try:
        context.assume_all([(r, "") for r in relations])
    except Contradiction:
        return True
    context.world.spend(_EFFORT // 4)
    return refute_world(context.world, Budget(_WORLDS // 4)) is not None


def _made_true(condition: Definedness) -> Relation:
    if condition.kind == "nonzero":
        return Relation.of(condition.one, ">=", 1)
    return Relation.of(condition.one, "==", condition.two)


def _numbers(relation: Relation) -> set[int]:
    """The numbers that it compares with, also once a coefficient is divided out."""
    terms = (relation.lhs - relation.rhs).terms
    constant = next((abs(c) for m, c in terms if not m), 0)
    ends = {end for interval in relation.ranges for end in interval if end is not None}
    return {constant // abs(c) for m, c in terms if m} | ends


def _number_divisors(dim: Dim) -> set[int]:
    found: set[int] = set()
    for atom in dim.atoms():
        if isinstance(atom, FloorDiv):
            found |= _number_divisors(atom.num) | _number_divisors(atom.den)
            if atom.den.const is not None and atom.den.const > 1:
                found.add(atom.den.const)
        elif isinstance(atom, Relu):
            found |= _number_divisors(atom.arg)
    return found


def check_counterexample(goal: str, given: Sequence[str], env: Mapping[str, int]) -> bool:
    """Whether the sizes satisfy every given and make the goal false, by evaluation alone."""
    relations = [r for text in given for r in parse_facts(text) if isinstance(r, Relation)]
    try:
        return holds_all(relations, env) and not parse_relation(goal).holds(env)
    except UndefinedSize:
        return False
