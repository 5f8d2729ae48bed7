"""Why two sizes are equal, or what is missing for it; and chains that can be replayed without the prover."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from egshape.decide.context import Assumption, Context
from egshape.decide.reason import IMPLIED, NORMAL_FORM, RING, SAME, Branch, Given, Reason, Semantics
from egshape.decide.reason import Check as Checking
from egshape.dims import Dim, quote_name
from egshape.egraph.checks import GIVEN
from egshape.egraph.exchange import Equality
from egshape.egraph.obligations import Check
from egshape.egraph.outcome import Outcome, Scope
from egshape.egraph.sizes import Sizes
from egshape.errors import EgshapeError, InternalError
from egshape.facts import Facts, Relation
from egshape.facts.relation import parse_relation
from egshape.ir.graph import Block, Op, blocks_of, relation_of
from egshape.pipeline import entry_facts
from egshape.prove import prove
from egshape.reasons.replay import Checked, Key, follows_by_ring, key_of, replay
from egshape.report import Explanation, Step
from egshape.result import Optimization
from egshape.sizes import parents_of, size_of, symbols_of, values_of

_MAX_PREMISES = 24
_MAX_MINIMIZED = 10


def explain(result: Optimization, a: str, b: str) -> Explanation:
    """Why two sizes are equal: ``arg0.0``, ``%12.1`` (a value of the original graph), or an expression.

    Raises InvalidInput for a size that the model does not have."""
    left, right = size_of(result.source, a), size_of(result.source, b)
    sizes = {name: str(dim) for name, dim in ((a, left), (b, right)) if name != str(dim)}
    scope = _scope(result, (a, b), left.symbols() | right.symbols())
    steps = chain(Known(result.optimized.outcome, scope), left, right) if scope else _trivial(left, right)
    if steps is not None:
        return Explanation(a=a, b=b, status="proved", why=steps, sizes=sizes)
    return _undecided(scope.sizes if scope else result.optimized.sizes, a, b, Relation("==", left, right), sizes)


def explain_fact(result: Optimization, text: str) -> Explanation:
    """Why a statement about sizes holds: a bound, a divisibility, an order, such as ``16*arg0.0 % 8 == 0``.

    Raises InvalidInput for a size that the model does not have, ParseError for what is no statement."""
    stated = parse_relation(text)
    goal = _resolved(stated, lambda name: size_of(result.source, name))
    scope = _scope(result, stated.symbols(), goal.symbols())
    known = scope.sizes if scope else result.optimized.sizes
    sizes = {str(stated): str(goal)} if str(stated) != str(goal) else {}
    if scope is None or known.decide(goal) != "proved":
        return _undecided(known, text, "", goal, sizes)
    if goal.kind == "==":
        steps = chain(Known(result.optimized.outcome, scope), goal.lhs, goal.rhs)
    else:
        maker = _Chain(Known(result.optimized.outcome, scope))
        _, rule = known.premises(goal) or ((), NORMAL_FORM)
        maker.derive(goal, rule)
        steps = maker.done()
    return Explanation(a=text, b="", status="proved", why=steps or (), sizes=sizes)


def _resolved(relation: Relation, size: Callable[[str], Dim]) -> Relation:
    return relation.substitute({name: size(quote_name(name)) for name in relation.symbols()})


def _trivial(left: Dim, right: Dim) -> tuple[Step, ...] | None:
    return (Step(rule=SAME.name, to=f"{left} == {right}"),) if left is right else None


def _undecided(known: Sizes, a: str, b: str, goal: Relation, sizes: dict[str, str]) -> Explanation:
    """A counterexample, or the smallest missing fact found."""
    given = [str(each) for each in _related([a.relation for a in known.assumptions], goal.symbols())]
    proof = prove(str(goal), given)
    if proof.status == "refuted":
        missing = None if known.decide(goal) == "refuted" else str(goal)
        return Explanation(
            a=a, b=b, status="refuted", counterexample=proof.counterexample, missing=missing, sizes=sizes
        )
    if proof.status == "inconsistent":
        return Explanation(a=a, b=b, status="inconsistent", clash=tuple(proof.clash or ()), sizes=sizes)
    return Explanation(a=a, b=b, status="unknown", missing=proof.missing, sizes=sizes)


def _scope(result: Optimization, names: Iterable[str], symbols: Iterable[str]) -> Scope | None:
    """What was derived in the innermost block where the sizes stand; where they stand apart, in the graph itself."""
    scopes = {each.block: each for each in result.optimized.outcome.scopes}
    body = result.source.body
    if body not in scopes:
        return None
    parents = parents_of(body)
    values, defined = values_of(result.source), symbols_of(result.source)
    home = {
        value: block
        for block in blocks_of(body)
        for value in (*block.args, *(v for op in block.ops for v in op.results))
    }
    found = [home[values[name[1:].rpartition(".")[0]]] for name in names if name.startswith("%")]
    found += [defined[name] for name in symbols if name in defined]
    inner = max(found, key=lambda block: len(_around(block, parents)), default=body)
    enclosing = _around(inner, parents)
    if any(block not in enclosing for block in found):
        return scopes[body]
    return next((scopes[block] for block in enclosing if block in scopes), scopes[body])


def _around(block: Block, parents: dict[Block, tuple[Block, Op]]) -> list[Block]:
    """A block and those around it, the innermost first."""
    out = [block]
    while out[-1] in parents:
        out.append(parents[out[-1]][0])
    return out


class Known:
    """What was believed in one block, looked up by statement; made once for all chains in it."""

    def __init__(self, outcome: Outcome, scope: Scope) -> None:
        self.scope = scope
        self.assumed: dict[Key, Assumption] = {}
        for each in scope.sizes.assumptions:
            self.assumed.setdefault(key_of(each.relation), each)
        self.checks: dict[Key, Check] = {}
        for check in sorted(outcome.checks, key=lambda check: check.status == "proved"):
            if check.relation is not None:
                self.checks.setdefault(key_of(check.relation), check)


def chain(known: Known, left: Dim, right: Dim) -> tuple[Step, ...] | None:
    """The steps that lead to left == right, None if it is not known."""
    trivial = _trivial(left, right)
    if trivial is not None:
        return trivial
    scope = known.scope
    goal = Relation("==", left, right)
    found = scope.sizes.explain(left, right)
    maker = _Chain(known)
    if found is not None:
        for equality in found:
            maker.equality(equality)
        maker.conclude(goal)
        return maker.done()
    premises = scope.sizes.premises(goal)
    if premises is None:
        return None
    maker.derive(goal, premises[1])
    return maker.done()


@dataclass
class _Chain:
    """A chain while it is made: each statement once, after those that it follows from."""

    known: Known
    steps: dict[str, Step] = field(default_factory=dict)
    stated: dict[str, Relation] = field(default_factory=dict)

    def done(self) -> tuple[Step, ...]:
        """The steps so far, in order."""
        return tuple(self.steps.values())

    def equality(self, equality: Equality) -> None:
        """A step for an equation that the sizes' e-graph or the model gave."""
        relation = Relation("==", equality.left, equality.right)
        if key_of(relation) in self.known.assumed:
            self.state(relation)
        else:
            self.derive(relation, equality.reason)

    def state(self, relation: Relation) -> str:
        """A step for what is assumed in the graph; gives its text."""
        text = str(relation)
        if text in self.steps:
            return text
        check = self.known.checks.get(key_of(relation))
        if check is not None and check.status == "proved":
            return self._implied(relation)
        known = self.known.assumed.get(key_of(relation))
        reason = (known.reason if known is not None else None) or Given()
        if check is not None and check.index != GIVEN:
            reason = Checking(location=check.location)
        return self._add(reason, (), relation)

    def _implied(self, relation: Relation) -> str:
        """A step for a check that was dropped since the other ones imply it."""
        kept = [
            a.relation
            for key, a in self.known.assumed.items()
            if (check := self.known.checks.get(key)) is None or check.status != "proved"
        ]
        context = Context()
        context.assume_all([(each, None) for each in kept])
        premises = _premises(Sizes(context), relation)
        if premises is None:
            premises = _related(kept, relation.symbols())
        names = tuple(dict.fromkeys(self.state(each) for each in premises))
        return self._add(IMPLIED, names, relation)

    def derive(self, relation: Relation, reason: Reason) -> str:
        """A step for what follows by a rule, from premises that suffice; gives its text."""
        text = str(relation)
        if text in self.steps:
            return text
        earlier = self._ring(relation)
        if earlier is None:
            premises = _premises(self.known.scope.sizes, relation)
            if premises is None:
                known = [*self.stated.values(), *(each.relation for each in self.known.assumed.values())]
                premises = list({str(each): each for each in _related(known, relation.symbols())}.values())
            earlier = tuple(dict.fromkeys(self.state(each) for each in premises))
        return self._add(reason, earlier, relation)

    def conclude(self, goal: Relation) -> None:
        """The last step: what was asked, by arithmetic from the equations so far."""
        last = next(reversed(self.stated.values()), None)
        if last is not None and key_of(last) == key_of(goal) and len(self.steps) > 1:
            return
        by_ring = self._ring(goal)
        if by_ring is not None:
            self.steps.pop(str(goal), None)
            if by_ring == (str(goal),):  # what was asked is itself given
                self.state(goal)
                return
            self._add(RING, by_ring, goal)
        else:
            self.derive(goal, NORMAL_FORM)

    def _ring(self, goal: Relation) -> tuple[str, ...] | None:
        """The statements so far from which an equation follows by arithmetic, as few as is quick to see."""
        known = dict(self.stated)
        if not follows_by_ring(known.values(), goal):
            return None
        for text in list(known) if len(known) <= _MAX_MINIMIZED else ():
            fewer = {name: each for name, each in known.items() if name != text}
            if follows_by_ring(fewer.values(), goal):
                known = fewer
        return tuple(known)

    def _add(self, reason: Reason, premises: tuple[str, ...], relation: Relation) -> str:
        text = str(relation)
        self.steps[text] = Step(rule=reason.name, from_=premises, to=text, location=reason.location)
        self.stated[text] = relation
        return text


def _premises(known: Sizes, goal: Relation) -> list[Relation] | None:
    """Assumptions that suffice for the goal, None if it is not known by them."""
    found = known.premises(goal)
    return None if found is None else [each.relation for each in found[0]]


def _related(relations: Sequence[Relation], names: Iterable[str]) -> list[Relation]:
    """Those that speak of the names, or of names that these speak of, and so on; the nearest ones first."""
    out: list[Relation] = []
    near, waiting = set(names), list(relations)
    while waiting and len(out) < _MAX_PREMISES:
        touching = [each for each in waiting if not near.isdisjoint(each.symbols())]
        if not touching:
            break
        out += touching
        waiting = [each for each in waiting if each not in touching]
        near.update(name for each in touching for name in each.symbols())
    return out[:_MAX_PREMISES]


# -- checking ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Givens:
    """What needs no reason: statements with the places that state them, and the graph whose sizes are spoken of."""

    statements: dict[Key, frozenset[str]]
    size: Callable[[str], Dim] | None = None


def givens(result: Optimization) -> Givens:
    """What a chain about a result may start from: the facts, the size limits at entry, the checks that the result
    performs, and what its shape code computes."""
    found: list[tuple[Relation, str]] = [(each, "") for each, _ in entry_facts(result.source, result.facts)]
    for op in result.graph.body.walk():
        if (relation := relation_of(op)) is not None:
            found.append((relation, str(op.location)))
    if result.unchanged:  # there the ops themselves reject what they imply
        found += [
            (check.relation, check.location)
            for check in result.optimized.outcome.checks
            if check.relation is not None and check.status == "kept"
        ]
    for scope in result.optimized.outcome.scopes:
        for each in scope.sizes.assumptions:
            if isinstance(each.reason, Semantics | Branch):
                found.append((each.relation, each.reason.location))
    return Givens(_table(found), lambda text: size_of(result.source, text))


def _table(found: Iterable[tuple[Relation, str]]) -> dict[Key, frozenset[str]]:
    out: dict[Key, frozenset[str]] = {}
    for relation, place in found:
        key = key_of(relation)
        out[key] = out.get(key, frozenset()) | {place}
    return out


def replay_explanation(explanation: Explanation, facts: Facts | Givens) -> tuple[Checked, ...]:
    """How each step of a chain was checked, and what is wrong with it."""
    given = facts if isinstance(facts, Givens) else Givens(_table((each, "") for each in facts.statements()))
    return tuple(replay(explanation.why, given.statements))


def replayed(result: Optimization, explanation: Explanation) -> Explanation:
    """The explanation with how each step was checked. Raises InternalError for one that does not hold."""
    given = givens(result)
    problems = check_explanation(explanation, given)
    if problems:
        raise InternalError(f"the explanation does not hold: {problems[0]}", hint="a fault of ours; please report it")
    how = tuple(each.how for each in replay_explanation(explanation, given))
    return explanation.model_copy(update={"checked": how})


def check_explanation(explanation: Explanation, facts: Facts | Givens) -> list[str]:
    """What is wrong with an explanation; empty if each step follows and the last one is what was asked.

    facts: what may be taken as given (``givens(result)`` for what ``result.explain`` says). The prover is not asked."""
    given = facts if isinstance(facts, Givens) else Givens(_table((each, "") for each in facts.statements()))
    problems = [each.problem for each in replay(explanation.why, given.statements) if each.problem]
    try:
        size = given.size or (lambda text: parse_relation(f"{text} == 0").lhs)
        goal = (
            Relation("==", size(explanation.a), size(explanation.b))
            if explanation.b
            else _resolved(parse_relation(explanation.a), size)
        )
        if explanation.status == "proved":
            problems += _unlike(explanation, goal)
        elif explanation.counterexample is not None:
            problems += _no_counterexample(explanation.counterexample, goal)
    except EgshapeError as error:
        problems.append(error.message)
    return problems


def _unlike(explanation: Explanation, goal: Relation) -> list[str]:
    if not explanation.why:
        return ["nothing says why"]
    last = explanation.why[-1]
    try:
        said = parse_relation(last.to)
    except EgshapeError:
        return []  # reported by the replay
    if key_of(said) != key_of(goal):
        return [f"the chain ends with {last.to!r}, which is not {str(goal)!r}"]
    return []


def _no_counterexample(sizes: dict[str, int], goal: Relation) -> list[str]:
    missing = [name for name in goal.symbols() if name not in sizes]
    if missing or min(sizes.values(), default=0) < 0 or goal.holds(sizes):
        return [f"{sizes} is no counterexample of {str(goal)!r}"]
    return []
