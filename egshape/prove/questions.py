"""`prove`: one question about sizes, answered with a reason, a counterexample, or what is missing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from egshape.decide.context import Context, Verdict, denials, holds_all
from egshape.decide.reason import Step
from egshape.decide.refute import Budget, refute_world
from egshape.decide.samples import Sampler
from egshape.dims import Definedness
from egshape.dims.core import natural_key
from egshape.errors import Contradiction, ParseError, UndefinedSize
from egshape.facts import Relation, facts_given, parse_facts, parse_relation, several
from egshape.prove.candidates import candidates, made_true
from egshape.prove.proof import CaseModel, CasesModel, Proof, Status, StepModel

_FIRST_POINTS = 12
_MORE_POINTS = 120
_TRIES_PER_POINT = 6
_WORLDS = 60
_EFFORT = 100_000  # what a whole question may cost, about microseconds
_EFFORT_PER_FACT = 1_000
_EFFORT_OF_ONE_TRY = 6_000
_EFFORT_OF_MISSING = 24_000
_FEW_POINTS = 4
_MAX_GIVENS_LEFT_OUT = 40


def prove(goal: str, given: str | Sequence[str] = (), rules: str | Sequence[str] = ()) -> Proof:
    """Decide the goal from the givens, one text or several, over all sizes (symbols are integers >= 0).

    rules: rulesets, paths or names, whose size functions the texts may name; they are trusted (`egshape.prove` tries
    them). Raises ParseError where a text does not parse, EgshapeError for a wrong ruleset."""
    if rules:
        from egshape.rulelang.size_functions import size_functions  # slow to load

        with size_functions(several(rules)):
            return prove(goal, given)
    start, given = time.perf_counter(), facts_given(given)
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
        self.left = _EFFORT + _EFFORT_PER_FACT * len(given)

    def answer(self) -> Proof:
        context = Context()
        try:
            self._assume(context, self.given, self.left // 2)
        except Contradiction as error:
            return self._inconsistent(error.relations)
        found = self._search(context, _FIRST_POINTS, 4 * _FIRST_POINTS)
        if found is not None:
            return found
        verdict = self._verdict(context, _WORLDS, _EFFORT // 2)
        if verdict.answer == "proved" and self.witnessed:
            return self._result("proved", context.reasons(self.goal))
        found = self._search_false(context) or self._search(context, _MORE_POINTS, _TRIES_PER_POINT * _MORE_POINTS)
        if found is not None:
            return found
        if not self.witnessed:
            given = self._share(_EFFORT // 3)
            context.world.spend(given)
            why = refute_world(context.world, Budget(_WORLDS))
            self.left -= given - context.world.effort.left
            if why is not None:
                return self._inconsistent(context.used(why))
        if verdict.answer == "proved":
            return self._result("proved", context.reasons(self.goal))
        return Proof(goal="", status="unknown", missing=self._missing())

    def _share(self, most: int) -> int:
        return max(0, min(most, self.left))

    def _assume(self, context: Context, facts: Sequence[Relation], most: int) -> None:
        """Raises Contradiction."""
        given = self._share(most)
        try:
            context.assume_all([(r, None) for r in facts], given, 0)
        finally:
            self.left -= given - context.world.effort.left

    def _verdict(self, context: Context, worlds: int, most: int) -> Verdict:
        given = self._share(most)
        verdict = context.verdict(self.goal, worlds, given)
        self.left -= given - context.world.effort.left
        return verdict

    def _clashes(self, relations: Sequence[Relation]) -> bool:
        context = Context()
        try:
            self._assume(context, relations, max(_EFFORT_OF_ONE_TRY, _EFFORT_PER_FACT * len(relations)))
        except Contradiction:
            return True
        given = self._share(_EFFORT_OF_ONE_TRY)
        context.world.spend(given)
        found = refute_world(context.world, Budget(_WORLDS // 4)) is not None
        self.left -= given - context.world.effort.left
        return found

    def _result(self, status: Status, steps: Sequence[Step]) -> Proof:
        why = [StepModel(rule=s.reason.name, from_=[r.text for r in s.from_], to=s.to.text) for s in steps]
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

    def _search_false(self, context: Context) -> Proof | None:
        """As ``_search``, among sizes solved for what would make the goal false."""
        for denial in denials(self.goal):
            narrowed = context.copy()
            try:
                self._assume(narrowed, [denial], _EFFORT_OF_ONE_TRY)
            except Contradiction:
                continue
            found = self._search(narrowed, _FIRST_POINTS, 4 * _FIRST_POINTS)
            if found is not None:
                return found
        return None

    def _inconsistent(self, suspects: Sequence[object]) -> Proof:
        """Names a smallest set of givens that clash."""
        needed = [r for r in self.given if r in suspects]
        if not self._clashes(needed):
            needed = list(self.given)
        if len(needed) <= _MAX_GIVENS_LEFT_OUT:
            for relation in list(needed):
                fewer = [r for r in needed if r is not relation]
                if self._clashes(fewer):
                    needed = fewer
        return Proof(goal="", status="inconsistent", clash=list(dict.fromkeys(r.text for r in needed)))

    def _missing(self) -> str | None:
        """The smallest fact found that decides the goal; None where no fact was found but what says the same."""
        self.left = max(self.left, _EFFORT_OF_MISSING)
        wanting = [c for c in self.goal.conditions() if not self._holds(c)]
        made = dict.fromkeys(r for c in wanting for r in made_true(c))
        base = [r for r in made if not any(self._holds(c) for c in _as_conditions(r))]
        for extra in ((), *((c,) for c in candidates(self.goal, self.names))):
            facts = [*base, *extra]
            if self.left <= 0:
                break
            if facts and not any(_same(each, self.goal) for each in facts) and self._decides(facts, 1 if extra else 3):
                return "; ".join(str(f) for f in facts)
        return None

    def _holds(self, condition: Definedness) -> bool:
        context = Context()
        self._assume(context, self.given, _EFFORT_OF_ONE_TRY)
        given = self._share(_EFFORT_OF_ONE_TRY)
        context.world.spend(given)
        found = context.holds_condition(condition)
        self.left -= given - context.world.effort.left
        return found is not None

    def _decides(self, facts: Sequence[Relation], shares: int) -> bool:
        """Whether the facts can hold together with the givens, and then prove the goal."""
        together = [*self.given, *facts]
        context = Context()
        try:
            self._assume(context, together, _EFFORT_OF_ONE_TRY)
        except Contradiction:
            return False
        if self._verdict(context, 6 * shares, shares * _EFFORT_OF_ONE_TRY).answer != "proved":
            return False
        points = Sampler(context.world).points(self.names, _FEW_POINTS)
        return any(holds_all(together, p) for p in points)


def _same(one: Relation, other: Relation) -> bool:
    """Whether two relations compare the same."""
    signs = (1, -1) if one.kind in ("==", "!=") else (1,)
    return one.kind == other.kind and any(one.lhs - one.rhs is k * (other.lhs - other.rhs) for k in signs)


def _as_conditions(relation: Relation) -> list[Definedness]:
    """A fact x >= 1 as the condition that x is not 0."""
    return [Definedness("nonzero", relation.rhs)] if relation.kind == "<=" else []


def _numbers(relation: Relation) -> set[int]:
    """The numbers that it compares with, also once a coefficient is divided out."""
    terms = (relation.lhs - relation.rhs).terms
    constant = next((abs(c) for m, c in terms if not m), 0)
    ends = {end for interval in relation.ranges for end in interval if end is not None}
    return {constant // abs(c) for m, c in terms if m} | ends


def check_counterexample(goal: str, given: Sequence[str], env: Mapping[str, int]) -> bool:
    """Whether the sizes satisfy every given and make the goal false, by evaluation alone."""
    relations = [r for text in given for r in parse_facts(text) if isinstance(r, Relation)]
    try:
        return holds_all(relations, env) and not parse_relation(goal).holds(env)
    except UndefinedSize:
        return False
