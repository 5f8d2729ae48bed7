"""What is asked of sizes costs what hangs together with them, not all that is known."""

from __future__ import annotations

import pytest

from egshape.decide.context import Context, items_of
from egshape.decide.known import Known
from egshape.decide.parts import Parts
from egshape.decide.shown import compound_atoms
from egshape.dims import Atom, Dim, const, floordiv, maximum, parse, symbol
from egshape.facts import Facts, Relation

BROADCAST = "(a{0} - 1)*(a{0} - max(a{0}, b{0})) == 0"


def relation(text: str) -> Relation:
    (found,) = Facts.parse(text).statements()
    return found


def pairs(count: int) -> Context:
    """Of each pair a0, b0, of a1, b1 and so on it is known that a is 1, or not less than b."""
    return Context(Facts.parse(*(BROADCAST.format(k) for k in range(count))))


def test_a_part_knows_what_hangs_together_and_nothing_else() -> None:
    part = Parts(pairs(60).world).about(["a7", "c"])
    assert len(part.world.rules) + len(part.world.stuck) == 1
    told = (rule.equation() for rule in part.world.rules)
    assert {name for dim in told for name in dim.symbols()} == {"a7", "b7"}
    assert not Parts(pairs(60).world).about(["c"]).world.rules


def test_points_for_a_question_satisfy_what_it_hangs_on_only() -> None:
    """A point that satisfies sixty conditions at once is hard to come by."""
    context, fact = pairs(60), relation(BROADCAST.format(7))
    points = list(Parts(context.world).about(["a7", "b7"]).sampler.few(["a7", "b7"]))
    assert len(points) >= 5 and all(fact.holds(point) for point in points)
    assert {name for point in points for name in point} == {"a7", "b7"}


@pytest.mark.parametrize("count", [1, 60])
def test_answers_are_the_same_among_many_others(count: int) -> None:
    context = pairs(count)
    context.assume(relation("a0 >= 2"))
    assert context.decide(relation("b0 <= a0")) == "proved"
    assert context.decide(relation("a0 + 1 <= b0")) == "refuted"
    assert context.decide(relation("a0 <= b0")) == "unknown"
    assert context.decide(relation("b0 <= a0 + c")) == "proved"


def test_what_joins_two_parts_makes_them_one() -> None:
    context = pairs(40)
    assert context.decide(relation("a3 == a7")) == "unknown"
    context.assume_all([(relation(text), None) for text in ("a3 == c", "c <= a7", "a7 <= d", "d <= a3")])
    assert context.decide(relation("a3 == a7")) == "proved"
    assert context.decide(relation("a3 == a8")) == "unknown"


def test_a_copy_that_learns_more_keeps_it_to_itself() -> None:
    context = pairs(40)
    assert context.decide(relation("a3 <= 5")) == "unknown"
    other = context.copy()
    other.assume(relation("a3 <= 5"))
    assert (other.decide(relation("a3 <= 6")), context.decide(relation("a3 <= 6"))) == ("proved", "unknown")


def test_two_parts_are_asked_about_together() -> None:
    context = pairs(40)
    context.assume_all([(relation(text), None) for text in ("a1 <= 5", "a2 <= 6")])
    assert context.decide(relation("a1 + a2 <= 11")) == "proved"
    assert context.decide(relation("a1 * a2 <= 30")) == "proved"
    assert context.decide(relation("a1 + a2 <= 10")) == "unknown"


def nested(depth: int) -> Dim:
    size = symbol("a")
    for step in range(depth):
        size = maximum(size + floordiv(size, const(3)) - (step + 2), symbol("b"))
    return size


def test_each_size_function_in_another_is_bounded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    size, asked = nested(12), list[Atom]()
    inner = Known._compound_interval

    def counted(known: Known, atom: Atom) -> tuple[int | None, int | None, int]:
        asked.append(atom)
        return inner(known, atom)

    monkeypatch.setattr(Known, "_compound_interval", counted)
    world = Context(Facts.parse("a <= 100", "b <= 7")).world
    assert world.interval(size)[:2] == (0, 2880)
    assert sorted(asked, key=lambda atom: atom.key) == sorted(compound_atoms([size]), key=lambda atom: atom.key)


def test_bounds_follow_what_is_learned() -> None:
    context, size = Context(Facts.parse("a <= 100")), parse("max(a, b) // 2")
    assert context.world.interval(size)[:2] == (0, None)
    context.assume(relation("b <= 7"))
    assert context.world.interval(context.world.normal(size))[:2] == (0, 53)


def test_what_is_solved_in_a_part_is_put_into_what_was_solved_before() -> None:
    """A part has fewer solved symbols than their ranks say."""
    context = Context(Facts.parse(*(f"a{k} == b{k} + c{k}" for k in range(40))))
    part = Parts(context.world).about(["a39"])
    assert part.world is not context.world
    solved, (name, *_) = part.world.copy(), sorted(symbol for symbol in part.world.solved if symbol.endswith("39"))
    (free, other) = sorted(part.world.solved[name].value.symbols())
    solved.add(items_of(Relation("==", symbol(free), symbol(other) + 1), 0))
    value, _ = solved.value_of(name)
    assert len(value.symbols()) == 1
