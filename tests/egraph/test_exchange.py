"""The exchange between rules and polynomials: what follows from facts, and what does not without them."""

import itertools
import random

import pytest

from egshape.decide.reason import Given, Rule
from egshape.dims import Dim, const, parse
from egshape.egraph.budget import Budget
from egshape.egraph.engine import POOL
from egshape.egraph.exchange import (
    ExchangeResult,
    ExchangeState,
    add_dims,
    exchange,
    exchange_round,
    shape_phases,
    shape_program,
)
from egshape.errors import UndefinedSize

RULES = shape_program()
Texts = list[tuple[str, str]]


def ask(
    *dims: str,
    equal: Texts | None = None,
    divide: Texts | None = None,
    order: Texts | None = None,
    bounds: dict[str, tuple[int | None, int | None]] | None = None,
) -> ExchangeResult:
    with POOL.lend(RULES.pieces) as engine:
        return exchange(
            engine,
            RULES,
            [parse(dim) for dim in dims],
            [(parse(a), parse(b), Given()) for a, b in equal or ()],
            {parse(dim): limits for dim, limits in (bounds or {}).items()},
            [(parse(k), parse(dim), Given()) for k, dim in divide or ()],
            [(parse(a), parse(b)) for a, b in order or ()],
        )


DEDUCTIONS = [
    ("a + b", "1024", {"equal": [("a + b", "1024")]}),
    ("a*b", "p*q*r", {"equal": [("a*b", "m"), ("m", "p*q*r")]}),
    ("b*(h//k)*k", "b*h", {"divide": [("k", "h")], "bounds": {"k": (1, None)}}),
    ("h//k", "h//4", {"equal": [("k", "4")]}),
    ("min(n, m)", "n", {"order": [("n", "m")]}),
    ("8*(n//8)", "n", {"divide": [("8", "n")]}),
    ("n//4", "2*(n//8)", {"divide": [("8", "n")]}),
    ("(n + m)//8", "n//8 + m//8", {"divide": [("8", "n")]}),
    ("a", "b", {"equal": [("a*k", "b*k")], "bounds": {"k": (1, None)}}),
    ("h//k", "w", {"equal": [("h", "k*w")], "bounds": {"k": (1, None)}}),
    ("(b*h*w)//(b*w)", "h", {"bounds": {"b": (1, None), "w": (1, None)}}),
    ("((h*w)//k)*k", "h*w", {"divide": [("k", "w")], "bounds": {"k": (1, None)}}),
    ("max(a, c)", "a", {"order": [("b", "a"), ("c", "b")]}),
    ("n % 8", "n", {"bounds": {"n": (0, 7)}}),
    ("min(n, 64)", "n", {"bounds": {"n": (0, 64)}}),
    ("a", "0", {"equal": [("a + b", "0")]}),
    ("n", "1", {"bounds": {"n*m": (1, 1)}}),
    ("x", "y", {"equal": [("2*x", "2*y")]}),
    ("cdiv(n, 4)", "n//4", {"divide": [("4", "n")]}),
    ("cdiv(h, k)", "h//k", {"divide": [("k", "h")], "bounds": {"k": (1, None)}}),
]


@pytest.mark.parametrize(("left", "right", "facts"), DEDUCTIONS)
def test_it_follows_from_the_facts_and_not_without(left: str, right: str, facts: dict[str, object]) -> None:
    proved = ask(left, right, **facts)  # type: ignore[arg-type]
    assert proved.normal_form(parse(left)) is proved.normal_form(parse(right))
    assert not proved.inconsistent
    assert proved.status == "saturated"
    without = ask(left, right)
    assert without.normal_form(parse(left)) is not without.normal_form(parse(right))


def test_min_of_a_size_and_more_needs_no_fact() -> None:
    assert ask("min(n, n + m)").normal_form(parse("min(n, n + m)")) is parse("n")


@pytest.mark.parametrize(
    ("left", "right", "facts"),
    [
        ("b*(h//k)*k", "b*h", {"divide": [("k", "h")]}),  # k may be 0
        ("b*(h//k)*k", "b*h", {"bounds": {"k": (1, None)}}),
        ("a", "b", {"equal": [("a*k", "b*k")]}),
        ("x", "y", {"equal": [("x", "h//k"), ("y", "h//k")]}),  # x and y are free where k is 0
        ("k//k", "1", {}),
        ("(h//a)//b", "h//(a*b)", {"bounds": {"a": (1, None)}}),
        ("n//8 + m//8", "(n + m)//8", {"divide": [("4", "n")]}),
    ],
)
def test_what_a_zero_divisor_or_too_weak_a_fact_forbids(left: str, right: str, facts: dict[str, object]) -> None:
    result = ask(left, right, **facts)  # type: ignore[arg-type]
    assert result.normal_form(parse(left)) is not result.normal_form(parse(right))


def test_a_given_with_a_division_is_used_once_its_divisor_is_known() -> None:
    facts: Texts = [("x", "h//k"), ("y", "h//k")]
    result = ask("x", "y", equal=facts, bounds={"k": (1, None)})
    assert result.normal_form(parse("x")) is result.normal_form(parse("y"))


def test_contradictions_are_named() -> None:
    result = ask("n", equal=[("n", "3"), ("m", "n"), ("m", "4")])
    assert result.inconsistent
    assert [f"{each.left} == {each.right}" for each in result.clash] == ["n == 3", "m == n", "m == 4"]


def test_crossed_bounds_are_inconsistent() -> None:
    assert ask("n", bounds={"n": (5, None), "n + 1": (None, 5)}).inconsistent
    assert ask("n", equal=[("2*n + 1", "2*m")]).inconsistent
    assert not ask("n", bounds={"n": (5, None), "n + 1": (None, 6)}).inconsistent


def test_a_cycle_of_strict_orders_stops_at_the_budget() -> None:
    with POOL.lend(RULES.pieces) as engine:
        state = ExchangeState(engine, RULES, shape_phases(RULES))
        for small, large in (("a + 1", "b"), ("b + 1", "c"), ("c + 1", "a")):
            state.add_order(parse(small), parse(large))
        state.add_goal(parse("a - b"))
        state.run(Budget(seconds=5, steps=200))
        assert state.inconsistent or state.status == "budget"


def test_an_order_chain_of_200_takes_two_rounds() -> None:
    result = ask("max(a0, a200)", order=[(f"a{i}", f"a{i + 1}") for i in range(200)])
    assert result.normal_form(parse("max(a0, a200)")) is parse("a200")
    assert (result.status, result.rounds) == ("saturated", 2)


def test_bounds_come_back() -> None:
    result = ask("2*a + b", bounds={"a": (3, 5), "b": (1, 2)})
    assert result.bounds[parse("2*a + b")] == (7, 12)


def test_equalities_carry_the_rule_that_found_them() -> None:
    result = ask("b*(h//k)*k", divide=[("k", "h")], bounds={"k": (1, None)})
    assert Rule("size.floordiv/exact") in [equality.reason for equality in result.equalities]


def test_explain_names_the_equations_used_and_no_others() -> None:
    with POOL.lend(RULES.pieces) as engine:
        state = ExchangeState(engine, RULES, shape_phases(RULES))
        for left, right in (("a", "b"), ("x", "y"), ("b", "c*d"), ("c", "2")):
            state.add_equation(parse(left), parse(right), Given())
        state.run()
        why = state.explain(parse("a*k"), parse("2*d*k"))
        assert why is not None
        assert [f"{step.left} == {step.right}" for step in why] == ["a == b", "b == c*d", "c == 2"]
        assert state.explain(parse("a"), parse("x")) is None


def test_rounds_inside_of_a_bigger_graph_and_in_an_inner_scope() -> None:
    with POOL.lend(RULES.pieces) as engine:
        outer = ExchangeState(engine, RULES, shape_phases(RULES))
        outer.add_equation(parse("a"), parse("b"), Given())
        add_dims(outer, [parse("a*x"), parse("b*y")])
        while exchange_round(outer):
            pass
        with engine.scope():
            inner = outer.fork()
            inner.add_equation(parse("x"), parse("y"), Given())
            inner.run()
            assert inner.normal_form(parse("a*x")) is inner.normal_form(parse("b*y"))
        assert outer.normal_form(parse("a*x")) is not outer.normal_form(parse("b*y"))
        assert outer.normal_form(parse("a*x")) is outer.normal_form(parse("b*x"))
        outer.add_equation(parse("x"), const(3), Given())
        outer.run()
        assert outer.normal_form(parse("b*x")) is outer.normal_form(parse("3*a"))


def test_products_over_shapes_are_named() -> None:
    with POOL.lend(RULES.pieces) as engine:
        state = ExchangeState(engine, RULES, shape_phases(RULES))
        state.add_dims([parse(name) for name in ("a", "b", "m", "1", "a*b")])
        state.load()
        a, b, m = (f"(P {parse(name).id})" for name in "abm")
        engine.command(f"(let u (Sh (vec-of {a} {b})))")
        engine.command(f"(let v (Sh (vec-of {m})))")
        engine.command("(union (Prod u) (Prod v))")
        state.run()
        assert state.normal_form(parse("a*b")) is state.normal_form(parse("m"))


def test_logs_off_finds_the_same() -> None:
    rules = shape_program(provenance=False)
    assert rules.logs == ()
    left, right = parse("b*(h//k)*k"), parse("b*h")
    with POOL.lend(rules.pieces) as engine:
        result = exchange(
            engine,
            rules,
            [left, right],
            bounds={parse("k"): (1, None)},
            divisors=[(parse("k"), parse("h"), "")],
        )
        assert result.normal_form(left) is result.normal_form(right)


def random_size(generator: random.Random, depth: int) -> str:
    if depth == 0 or generator.random() < 0.2:
        return generator.choice(["a", "b", "c", "k", "1", "2", "3", "4"])
    one, two = random_size(generator, depth - 1), random_size(generator, depth - 1)
    form = generator.choice(
        ["({}) + ({})", "({}) - ({})", "({})*({})", "({})//({})", "({}) % ({})", "max({}, {})", "min({}, {})"]
    )
    return form.format(one, two)


@pytest.mark.parametrize("seed", range(60))
def test_random_facts_never_prove_what_is_false(seed: int) -> None:
    check_random(seed)


def check_random(seed: int) -> None:
    generator = random.Random(seed)
    sizes = [parse(random_size(generator, 2)) for _ in range(6)]
    equal = [
        (parse(random_size(generator, 1)), parse(random_size(generator, 1)), "given")
        for _ in range(generator.randint(0, 2))
    ]
    divide = [
        (parse(generator.choice(["k", "2", "4"])), parse(generator.choice(["a", "b", "a*b"])), "divides")
        for _ in range(generator.randint(0, 2))
    ]
    order = [(parse(generator.choice("abck")), parse(generator.choice("abck"))) for _ in range(generator.randint(0, 2))]
    bounds = {parse("k"): (1, None)} if generator.random() < 0.6 else {}
    with POOL.lend(RULES.pieces) as engine:
        result = exchange(engine, RULES, sizes, equal, bounds, divide, order)
        forms = [(size, result.normal_form(size)) for size in result.bounds]
    admitted = 0
    for values in itertools.product((0, 1, 2, 3, 4, 8), repeat=4):
        env = dict(zip("abck", values, strict=True))
        if not satisfies(env, equal, divide, order, bounds):
            continue
        admitted += 1
        for size, form in forms:
            try:
                value = size.evaluate(env)
            except UndefinedSize:
                continue
            assert form.evaluate(env) == value, (seed, str(size), str(form), env)
            low, high = result.bounds[size]
            assert (low is None or low <= value) and (high is None or value <= high), (seed, str(size), env)
    assert not (admitted and result.inconsistent), seed


def satisfies(
    env: dict[str, int],
    equal: list[tuple[Dim, Dim, str]],
    divide: list[tuple[Dim, Dim, str]],
    order: list[tuple[Dim, Dim]],
    bounds: dict[Dim, tuple[int, None]],
) -> bool:
    """Whether the givens hold, where an undefined one says nothing."""
    for dim, (low, _) in bounds.items():
        if dim.evaluate(env) < low:
            return False
    for left, right, _ in equal:
        try:
            if left.evaluate(env) != right.evaluate(env):
                return False
        except UndefinedSize:
            continue
    for divisor, dim, _ in divide:
        k, d = divisor.evaluate(env), dim.evaluate(env)
        if (d != 0) if k == 0 else d % k:
            return False
    return all(small.evaluate(env) <= large.evaluate(env) for small, large in order)
