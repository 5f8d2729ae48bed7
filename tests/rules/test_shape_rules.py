"""Every shape rule: its examples and counter-examples through the engine, and sampled soundness."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from egshape.dims import Dim, const, parse
from egshape.egraph.engine import POOL, Budget
from egshape.egraph.exchange import ExchangeState, shape_phases, shape_program
from egshape.egraph.instrument import PlainRule, desugar
from egshape.egraph.rules import Example, Rule
from egshape.egraph.sexpr import List, read_lists
from egshape.egraph.soundness import CannotSample, check_rule
from egshape.errors import UndefinedSize

RULES = shape_program()
OVER_SHAPES = {"shape.dim/at"}
Relation = tuple[str, str, Dim, Dim]

_RELATION = re.compile(r"(.*?)\s(==|<=|>=|<|>)\s(.*)")


def relation(text: str) -> Relation:
    """`a >= b`, or `h % k == 0` kept apart as a divisibility."""
    match = _RELATION.fullmatch(text.strip())
    assert match is not None, text
    left, op, right = match.groups()
    divides = re.fullmatch(r"(.*?)\s*%\s*(\w+)", left)
    if op == "==" and right == "0" and divides:
        whole = divides.group(1)
        whole = whole[1:-1] if whole.startswith("(") and whole.endswith(")") else whole
        return text, "divides", parse(divides.group(2)), parse(whole)
    return text, op, parse(left), parse(right)


def holds(fact: Relation, env: dict[str, int]) -> bool:
    _, op, left, right = fact
    a, b = left.evaluate(env), right.evaluate(env)
    if op == "divides":
        return b == 0 if a == 0 else b % a == 0
    tests: dict[str, Callable[[int, int], bool]] = {
        "==": lambda x, y: x == y, "<=": lambda x, y: x <= y, ">=": lambda x, y: x >= y
    }  # fmt: skip
    return tests[op](a, b)


class Question:
    """An example line: `SUBJECT given FACT; FACT => CONCLUSION`, where `it` is the subject."""

    def __init__(self, example: Example) -> None:
        subject, _, given = example.before.partition(" given ")
        self.given = [relation(part) for part in given.split(";") if part.strip()]
        self.subject = parse(subject)
        after = re.sub(r"\bit\b", f"({subject})", example.after)
        between = re.fullmatch(r"(.*) <= (.*) <= (.*)", after)
        if between:
            low, middle, high = between.groups()
            self.wanted = [relation(f"{middle} >= {low}"), relation(f"{middle} <= {high}")]
        elif _RELATION.fullmatch(after):
            self.wanted = [relation(after)]
        else:
            self.wanted = [(after, "==", self.subject, parse(after))]

    def dims(self) -> Iterator[Dim]:
        for _, _, left, right in (*self.given, *self.wanted):
            yield from (left, right)

    def answer(self) -> bool:
        """Whether the engine derives the conclusion."""
        with POOL.lend(RULES.pieces) as engine:
            state = ExchangeState(engine, RULES, shape_phases(RULES))
            state.add_dims((self.subject, *self.dims()))
            for text, op, left, right in self.given:
                if op == "==":
                    state.add_equation(left, right, text)
                elif op == "divides":
                    state.add_divisor(left, right, text)
                else:
                    state.add_order(*((left, right) if op == "<=" else (right, left)))
                    if right.const is not None:
                        bound = right.const
                        state.add_bounds(left, bound if op == ">=" else None, bound if op == "<=" else None)
            for _, op, left, right in self.wanted:
                if op == "divides":
                    state.add_dims((right // left,))
                elif op != "==":
                    state.add_goal(left - right)
            state.run(Budget(seconds=5, steps=300))
            return all(self.shown(state, fact) for fact in self.wanted)

    @staticmethod
    def shown(state: ExchangeState, fact: Relation) -> bool:
        _, op, left, right = fact
        if op == "==":
            return state.normal_form(left) is state.normal_form(right)
        if op == "divides":
            return state.reduce(left * (right // left)) is state.reduce(right) and (
                left.const != 0 or right.const == 0
            )
        lo, hi = state.bounds(left - right)
        return (lo is not None and lo >= 0) if op == ">=" else (hi is not None and hi <= 0)

    def verdicts(self) -> Iterator[bool]:
        """Whether the conclusion is true, at each sampled choice of sizes that satisfies the givens."""
        names = sorted(set().union(*(dim.symbols() for dim in (self.subject, *self.dims()))))
        sizes = (0, 1, 2, 3, 4, 7, 8, 9, 24) if len(names) < 4 else (0, 1, 2, 5)
        for values in itertools.product(sizes, repeat=len(names)):
            env = dict(zip(names, values, strict=True))
            try:
                if all(holds(fact, env) for fact in self.given):
                    yield all(holds(fact, env) for fact in self.wanted)
            except UndefinedSize:
                continue


def lines(kind: str) -> list[object]:
    found = []
    for rule in RULES.rules:
        for example in rule.examples if kind == "example" else rule.counters:
            if rule.name not in OVER_SHAPES:
                found.append(pytest.param(rule, example, id=f"{rule.name}: {example.before}"))
    return found


@pytest.mark.parametrize(("rule", "example"), lines("example"))
def test_example(rule: Rule, example: Example) -> None:
    question = Question(example)
    verdicts = list(question.verdicts())
    assert verdicts, "no sizes satisfy the givens"
    assert all(verdicts), "the example is false"
    assert question.answer()


@pytest.mark.parametrize(("rule", "example"), lines("counter"))
def test_counter(rule: Rule, example: Example) -> None:
    question = Question(example)
    assert not question.answer()


def test_guarded_rules_have_a_reason_and_a_counter() -> None:
    for rule in RULES.rules:
        if rule.guards:
            assert rule.sound, rule.name
            assert rule.counters, rule.name


def plain(rule: Rule) -> PlainRule:
    command = read_lists(rule.text)[0]
    assert isinstance(command, List)
    return desugar(command, rule.name, rule.ruleset)[0]


@pytest.mark.parametrize(
    "rule", [pytest.param(r, id=r.name) for r in RULES.rules if r.name not in OVER_SHAPES]
)
def test_sampled_numbers_obey_the_rule(rule: Rule) -> None:
    sampled = check_rule(plain(rule))
    assert sampled.violation is None, str(sampled.violation)
    assert sampled.hits >= 20


# Guards that a rule would be true without: they keep the search finite, or leave alone, as the law
# of divisions asks, what may divide by 0.
CAUTIOUS = {
    ("shape.order/chain", "(!= u y)"),
    ("shape.floordiv/nested", "(> x 0)"),
    ("shape.floordiv/nested", "(!= p h)"),
    ("shape.floordiv/remainder-hi-numerator", "(> a 0)"),
    ("shape.divisibility/weaken", "(> b 0)"),
}


def guards() -> Iterator[object]:
    for rule in RULES.rules:
        for guard in rule.guards:
            if rule.name not in OVER_SHAPES and (rule.name, guard) not in CAUTIOUS:
                yield pytest.param(rule, guard, id=f"{rule.name} without {guard}")


@pytest.mark.parametrize(("rule", "guard"), list(guards()))
def test_every_guard_is_needed(rule: Rule, guard: str) -> None:
    whole = plain(rule)
    body = tuple(fact for fact in whole.body if str(fact) != guard)
    assert len(body) == len(whole.body) - 1
    assert check_rule(replace(whole, body=body)).violation is not None


@pytest.mark.parametrize(
    "text",
    [
        "(rule ((= q (FloorDiv h k))) ((union (Mul k q) h)))",
        "(rule ((= q (FloorDiv h k)) (= a (lo k)) (> a 0)) ((union (Mul k q) h)))",
        "(rule ((= q (FloorDiv k k))) ((union q (Num 1))))",
        "(rule ((= q (FloorDiv h k)) (= a (lo h)) (>= a 0)) ((set (lo q) 0)))",
        "(rule ((= d (Relu p)) (= a (lo p))) ((union d p)))",
        "(rule ((= d (Relu p)) (= a (hi p))) ((set (hi d) a)))",
        "(rule ((term d c h t) (= a (lo h)) (= b (lo t)) (= v (+ (* c a) b))) ((set (lo d) v)))",
        "(rule ((factor d a r) (= x (lo a)) (= y (lo r)) (= v (* x y))) ((set (lo d) v)))",
        "(rule ((term d c h t) (Dvd k h)) ((Dvd k d)))",
        "(rule ((= q (FloorDiv p b)) (= p (FloorDiv h a))) ((union q (FloorDiv h (Mul a b)))))",
        "(rule ((term d c h t) (> c 0) (= a (lo d)) (= b (hi t)) (= r (+ (- a b) (- c 1))) (= v (/ r c)))"
        " ((set (lo h) v)))",
        "(rule ((= w (far y z)) (edge u z v) (= s (+ w v))) ((set (far y u) s)))",
    ],
)
def test_the_checker_catches_wrong_rules(text: str) -> None:
    wrong = desugar(read_lists(text)[0], "wrong", "wrong")[0]
    violation = check_rule(wrong).violation
    assert violation is not None
    assert "wrong: at " in str(violation)


def test_a_rule_over_shapes_is_not_sampled_as_numbers() -> None:
    with pytest.raises(CannotSample):
        check_rule(plain(RULES.rule("shape.dim/at")))


def test_zero_is_not_divided_away() -> None:
    with POOL.lend(RULES.pieces) as engine:
        state = ExchangeState(engine, RULES, shape_phases(RULES))
        quotient = parse("(h//k)*x")
        state.add_equation(parse("x"), const(0), "given")
        state.add_dims((quotient,))
        state.run()
        assert state.normal_form(quotient) is quotient
