"""Random questions with known answers, by family; the answers follow from how a question is made."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from egshape.decide.context import holds_all
from egshape.errors import UndefinedSize
from egshape.facts import Relation, parse_facts, parse_relation

NAMES = ("a", "b", "c", "d", "n", "m")
SIZES = (0, 1, 2, 3, 4, 6, 8, 12)


@dataclass(frozen=True)
class Question:
    """`want` holds by construction; `given` is one text, empty for none."""

    family: str
    given: str
    goal: str
    want: str


def _pick(r: random.Random, count: int) -> list[str]:
    return r.sample(NAMES, count)


def _polynomial(r: random.Random, names: list[str]) -> str:
    terms = []
    for _ in range(r.randrange(2, 4)):
        terms.append("*".join([str(r.randrange(1, 6)), *r.choices(names, k=r.randrange(1, 3))]))
    return " + ".join(terms)


def _normal(r: random.Random) -> list[tuple[str, str]]:
    x, y, z = _pick(r, 3)
    one, two = _polynomial(r, [x, y]), _polynomial(r, [y, z])
    return [
        ("", f"({one})*({two}) == ({two})*({one})"),
        ("", f"({one}) + ({two}) - ({one}) == {two}"),
        ("", f"({one})*({x}+{y}) == ({one})*{x} + {y}*({one})"),
        ("", f"({x}+{y})*({x}-{y}) == {x}*{x} - {y}*{y}"),
    ]


def _floordiv(r: random.Random) -> list[tuple[str, str]]:
    x, y = _pick(r, 2)
    k = r.randrange(2, 9)
    j = r.randrange(2, 6)
    c = r.randrange(0, 3 * k)
    return [
        ("", f"({k}*{x}+{c})//{k} == {x}+{c // k}"),
        ("", f"({k}*{x}+{c})%{k} == {c % k}"),
        ("", f"({x}//{k})//{j} == {x}//{k * j}"),
        ("", f"({x}%{k * j})%{k} == {x}%{k}"),
        ("", f"({x}//{k})*{k} + {x}%{k} == {x}"),
        ("", f"cdiv({x},{k}) == ({x}+{k - 1})//{k}"),
        ("", f"(cdiv({x},{k})*{k})%{k} == 0"),
        ("", f"({x} + (-{x})%{k})%{k} == 0"),
        (f"{y}>=1", f"({x}*{y})//{y} == {x}"),
        (f"{y}>={r.randrange(1, 4)}", f"({x}*{y}+{y})//{y} == {x}+1"),
        ("", f"({x}+{k}*{y})//{k} == {x}//{k} + {y}"),
        ("", f"({x}*{x}+{x})%2 == 0"),
        ("", f"({x}*({x}+1)*({x}+2))%3 == 0"),
        ("", f"(({x}-1)//{k}+1-1)//{j}+1 == ({x}-1)//{k * j}+1"),
        ("", f"cdiv(cdiv({x},{k}),{j}) == cdiv({x},{k * j})"),
        (f"{y}>=1", f"({x}//{y})*{y} + {x}%{y} == {x}"),
        (f"{y}>=1", f"(({x}*{y}+{y}-1)//{y}) == {x}"),
        ("", f"({x}%{k}+{y}*{k})%{k} == {x}%{k}"),
    ]


def _bound(r: random.Random) -> list[tuple[str, str]]:
    x, y = _pick(r, 2)
    k = r.randrange(2, 9)
    j = r.randrange(2, 5)
    return [
        ("", f"{x}%{k} <= {k - 1}"),
        ("", f"{x}%{k} >= 0"),
        (f"{y}>=1", f"({x}//{y})*{y} <= {x}"),
        (f"{y}>=1", f"{x}%{y} < {y}"),
        (f"{y}>=1", f"{x}%{y} <= {x}"),
        (f"{y}>=1", f"{x}//{y} <= {x}"),
        ("", f"{x} - {k}*({x}//{k}) <= {k - 1}"),
        ("", f"{k}*cdiv({x},{k}) >= {x}"),
        ("", f"{k}*cdiv({x},{k}) <= {x}+{k - 1}"),
        ("", f"{x}//{k * j} <= {x}//{k}"),
        ("", f"cdiv({x},{k}) <= {x}//{k}+1"),
        ("", f"{x} >= {x}%{k}"),
        (f"{x}>={j}; {y}>={k}", f"2*{x}+3*{y} >= {2 * j + 3 * k}"),
        (f"{x}<={j}; {y}<={k}", f"2*{x}+3*{y} <= {2 * j + 3 * k}"),
        (f"{x}<={k}", f"{x}*{x} <= {k * k}"),
        ("", f"-{k}*((-{y})//{k}) >= {y}"),
        (f"{x}<={k * j}", f"{x}//{k} <= {j}"),
        (f"{x}>={k * j}", f"{x}//{k} >= {j}"),
        (f"{y}>=1", f"cdiv({x},{y})*{y} >= {x}"),
    ]


def _minmax(r: random.Random) -> list[tuple[str, str]]:
    x, y, z = _pick(r, 3)
    k = r.randrange(1, 6)
    return [
        ("", f"max({x},{x}+{k}) == {x}+{k}"),
        ("", f"min({x},{x}+{y}) == {x}"),
        ("", f"max({x},{y}) == max({y},{x})"),
        ("", f"max({x},max({y},{z})) == max(max({x},{y}),{z})"),
        ("", f"min({x},min({y},{z})) == min(min({x},{y}),{z})"),
        ("", f"max({x},{y})+min({x},{y}) == {x}+{y}"),
        ("", f"max({x},{y})*min({x},{y}) == {x}*{y}"),
        ("", f"max({x},{y})-{x} == max({y}-{x},0)"),
        ("", f"2*max({x},{y}) >= {x}+{y}"),
        ("", f"min({x},{y}) <= max({x},{z})"),
        ("", f"max(min({x},{y}+{k}),{y}) >= {y}"),
        (f"{y}>={x}+{k}", f"min({x},{y}) == {x}"),
        (f"{x}<={y}; {y}<={z}", f"max({x},max({y},{z})) == {z}"),
        ("", f"min({x}*{z},{y}*{z}) == {z}*min({x},{y})"),
        ("", f"max({x}+{z},{y}+{z}) == {z}+max({x},{y})"),
        ("", f"min(max({x},{y}),{x}) == {x}"),
        ("", f"min({x},max({y},{z})) == max(min({x},{y}),min({x},{z}))"),
        ("", f"max({x},{k})//1 >= {k}"),
        ("", f"min({x},{y})//{k} == min({x}//{k},{y}//{k})"),
        ("", f"max({x},{y}) <= {x}+{y}"),
    ]


def _nonlinear(r: random.Random) -> list[tuple[str, str]]:
    x, y, z, w = _pick(r, 4)
    k = r.randrange(1, 5)
    return [
        (f"{y}>={k}", f"{x}*{y} >= {k}*{x}"),
        ("", f"{x}*{x} >= {2 * k}*{x} - {k * k}"),
        (f"{x}>={y}", f"{x}*{z} >= {y}*{z}"),
        (f"{x}<{y}; {z}<{w}", f"{x}*{w}+{z} < {y}*{w}"),
        (f"{z}<{w}", f"({x}*{w}+{z})//{w} == {x}"),
        (f"{z}<{w}", f"({x}*{w}+{z})%{w} == {z}"),
        (f"{x}>={k + 1}; {y}>={k}", f"{x}*{y} >= {k * (k + 1)}"),
        ("", f"{x}*{x}+{y}*{y} >= 2*{x}*{y}"),
        (f"{x}>={y}; {z}>={w}", f"{x}*{z} >= {y}*{w}"),
        (f"{x}>={y}", f"{x}*{x} >= {y}*{y}"),
        (f"{x}<={k}; {y}<={k}", f"{x}*{y} <= {k * k}"),
        (f"{x}>=1; {y}>=1", f"{x}+{y} <= {x}*{y}+1"),
        (f"{x}>=2; {y}>=2", f"{x}*{y} >= {x}+{y}"),
        (f"{x}*{y} == {k}; {x}>=1", f"{y} <= {k}"),
    ]


def _facts_sum(r: random.Random) -> list[tuple[str, str]]:
    x, y, z, w = _pick(r, 4)
    k = r.randrange(4, 2000)
    return [
        (f"{x}+{y}=={k}", f"{x}+{y}=={k}"),
        (f"{x}+{y}=={k}", f"2*{x}+2*{y}=={2 * k}"),
        (f"{x}+{y}=={z}", f"{z}-{y}=={x}"),
        (f"{x}+{y}=={z}", f"{z}*{w}=={x}*{w}+{y}*{w}"),
        (f"{x}+{y}=={z}", f"{x}<={z}"),
        (f"{x}+{y}=={z}; {z}+{w}=={k}", f"{x}+{y}+{w}=={k}"),
        (f"{x}+{y}=={k}", f"{x}*{x}+{x}*{y}=={k}*{x}"),
    ]


def _facts_eq(r: random.Random) -> list[tuple[str, str]]:
    x, y, z, w = _pick(r, 4)
    k = r.randrange(1, 4)
    return [
        (f"{x}=={y}; {y}=={z}", f"{x}=={z}"),
        (f"{x}=={y}; {y}=={z}", f"{x}*{w}=={z}*{w}"),
        (f"{x}+{w}=={y}+{w}", f"{x}=={y}"),
        (f"{x}*{w}=={y}*{w}; {w}>={k}", f"{x}=={y}"),
        (f"{k}*{x}=={k}*{y}", f"{x}=={y}"),
        (f"{x}=={y}+1; {y}=={z}+1", f"{x}=={z}+2"),
        (f"{x}=={y}", f"{x}//{k}=={y}//{k}"),
        (f"{x}=={y}", f"max({x},{z})==max({y},{z})"),
        (f"2*{x}==3*{y}", f"4*{x}==6*{y}"),
    ]


def _facts_prod(r: random.Random) -> list[tuple[str, str]]:
    x, y, z, w = _pick(r, 4)
    u = next(v for v in NAMES if v not in (x, y, z, w))
    return [
        (f"{x}*{y}=={z}*{w}", f"{x}*{y}*{u}=={z}*{w}*{u}"),
        (f"{x}*{y}=={z}*{w}; {x}=={z}; {x}>=1", f"{y}=={w}"),
        (f"{x}*{y}=={z}; {z}=={w}*{u}", f"{x}*{y}=={w}*{u}"),
        (f"{x}*{y}=={z}; {y}>=1", f"{z}//{y}=={x}"),
        (f"{x}*{y}=={z}; {y}>=1", f"{z}%{y}==0"),
        (f"{x}*{y}=={z}*{w}", f"({x}*{y}+{u})*2=={z}*{w}*2+2*{u}"),
        (f"{x}*{y}=={z}; {x}>=2; {y}>=1", f"{z}>=2"),
        (f"{x}=={y}*{z}; {w}=={y}*{u}", f"{x}*{u}=={w}*{z}"),
    ]


def _facts_order(r: random.Random) -> list[tuple[str, str]]:
    x, y, z, w = _pick(r, 4)
    k = r.randrange(2, 600)
    return [
        (f"{x}<={y}; {y}<={x}", f"{x}=={y}"),
        (f"{x}<={y}+{z}; {y}+{z}-{x}<=0", f"{x}=={y}+{z}"),
        (f"{x}<={y}; {y}<={z}", f"{x}<={z}"),
        (f"{x}<{y}; {y}<{z}", f"{x}+2<={z}"),
        (f"{x}<={k}", f"3*{x}<={3 * k}"),
        (f"{x}<={y}", f"{z}+{x}<={y}+{z}"),
        (f"2*{x}>=5; 3*{x}<=10", f"{x}==3"),
        (f"{x}<={y}; {z}>=1", f"{x}//{z}<={y}//{z}"),
        (f"{x}<={y}", f"{x}//4<={y}//4"),
        (f"{x}<={y}; {z}<={w}", f"{x}+{z}<={y}+{w}"),
        (f"{x}+{y}<={z}; {z}<={k}", f"{x}<={k}"),
        (f"{x}<={y}; {z}<={w}", f"min({x},{z})<=min({y},{w})"),
        (f"{x}<={y}; {y}<={z}; {z}<={w}; {w}<={x}", f"{y}=={w}"),
        (f"{x}>={y}; {y}!={x}", f"{x}>={y}+1"),
        (f"2*{x}<=2*{y}+1", f"{x}<={y}"),
    ]


def _facts_div(r: random.Random) -> list[tuple[str, str]]:
    x, y, z, w = _pick(r, 4)
    k = r.choice([2, 3, 4, 6, 8])
    j = r.choice([2, 3, 4, 5])
    return [
        (f"{x}%{k}==0", f"({x}//{k})*{k}=={x}"),
        (f"{x}%{k * j}==0", f"{x}%{k}==0"),
        (f"{x}%{k}==0", f"({x}*{y})%{k}==0"),
        (f"{x}%{y}==0; {y}>=1", f"({x}//{y})*{y}=={x}"),
        (f"{x}%{k * j}==0; {y}%{k * j}==0", f"({x}+{y})%{k}==0"),
        (f"{x}%{k}==0", f"({j}*{x})%{k * j}==0"),
        (f"{x}%{k}==0; {y}%{j}==0", f"({x}*{y})%{k * j}==0"),
        (f"{x}%9==0; {x}%6==0", f"{x}%18==0"),
        (f"{x}%{y}==0; {z}=={x}//{y}; {y}>=1", f"{w}*{z}*{y}=={w}*{x}"),
        (f"{x}%{k}==1", f"({x}+{k - 1})%{k}==0"),
        (f"{x}%{k}==0; {x}>=1", f"{x}>={k}"),
        (f"{x}%2==0", f"({x}//2)+({x}//2)=={x}"),
        (f"{x}%{y}==0; {y}%{z}==0", f"{x}%{z}==0"),
        (f"{x}%{k}==0", f"cdiv({x},{k})=={x}//{k}"),
        (f"{x}%{y}==0; {z}%{y}==0", f"({x}+{z})%{y}==0"),
        (f"{x}%{y}==0", f"({x}*{z})%{y}==0"),
        (f"{x}%4==2", f"{x}%2==0"),
        (f"({x}+{y})%{k}==0; {y}%{k}==0", f"{x}%{k}==0"),
    ]


def _facts_set(r: random.Random) -> list[tuple[str, str]]:
    x, y = _pick(r, 2)
    k = r.choice([2, 4, 8, 16])
    q = r.randrange(2, 6)
    return [
        (f"{x} in {{0, {k * q}}}", f"{x}%{k}==0"),
        (f"{x} in {{{k}, {k * q * 2}}}; {x}%{2 * k}==0", f"{x}=={k * q * 2}"),
        (f"{x} in [{k + 1},{2 * k}]; {x}%{k}==0", f"{x}=={2 * k}"),
        (f"{x} in [1,{k}] or [{2 * k},{3 * k}]", f"{x}<={3 * k}"),
        (f"{x} in [1,{k}] or [{2 * k},{3 * k}]; {x}>{k}", f"{x}>={2 * k}"),
        (f"{x} in {{{k}, {k * q}}}", f"{x}*{y}%{k}==0"),
        (f"{x} in {{1, 2, 4}}", f"8%{x}==0"),
        (f"{x} in {{2, 3}}; {y} in {{4, 5}}", f"{x}*{y}>=8"),
        (f"{x} in {{2, 3}}", f"{x}*{x}-5*{x}+6==0"),
        (f"{x} in [0,3] or [6,9]", f"{x}!=5"),
    ]


def _inconsistent(r: random.Random) -> list[tuple[str, str]]:
    x, y, z = _pick(r, 3)
    k = r.randrange(2, 7)
    return [
        (f"{x}>={k + 1}; {x}<={k}", f"{x}>=1"),
        (f"{x}>={y}+1; {y}>={x}", f"{x}=={y}"),
        (f"{2 * k}*{x}=={2 * k * 3 + 1}", f"{x}=={k}"),
        (f"{x}<{y}; {y}<{z}; {z}<{x}", f"{x}>=1"),
        (f"{x}%4==1; {x}%2==0", f"{x}>=1"),
        (f"{x} in {{1, 3}}; {x}%2==0", f"{x}==1"),
        (f"{x}*{y}==0; {x}>=1; {y}>=1", f"{x}==1"),
        (f"{x}=={y}; {y}=={z}+1; {z}=={x}", f"{x}==1"),
        (f"2*{x}==2*{y}+1", f"{x}=={y}"),
        (f"{x}+{y}=={k}; {x}>={k + 1}", f"{x}==1"),
        (f"{x}*{x}==2", f"{x}==1"),
        (f"{x} in [2,5]; {x} in [7,9]", f"{x}==1"),
    ]


def _false(r: random.Random) -> list[tuple[str, str]]:
    x, y, z = _pick(r, 3)
    k = r.randrange(2, 9)
    return [
        ("", f"{x}>={k}"),
        ("", f"{k}*{x}-{y}>=0"),
        ("", f"({x}//{k})*{k}=={x}"),
        ("", f"({x}+1)//{k}=={x}//{k}"),
        ("", f"{x}*{y}>={x}"),
        (f"{x}*{z}=={y}*{z}", f"{x}=={y}"),
        ("", f"max({x},{y})=={x}"),
        (f"{x}%{k}==0", f"{x}%{2 * k}==0"),
        (f"{x}%4==0; {x}%6==0", f"{x}%24==0"),
        (f"{x}*{y}=={z}*{z}", f"{x}=={y}"),
        ("", f"cdiv({x},{k})=={x}//{k}"),
        (f"{x} in {{{k}, {k + 1}}}", f"{x}=={k + 1}"),
        ("", f"({y}+{z})*({x}+{y})=={x}*{y}*{z}"),
        (f"{x}<={1000 * k}", f"{x}<={1000 * k - 1}"),
        (f"{x}>=1; {y}>=1", f"{x}*{y}>={x}+{y}"),
        (f"{x}+{y}=={100 * k}", f"{x}<={y}"),
        (f"{x}%{k}==0; {y}%{k}==0", f"{x}=={y}"),
        ("", f"{x}*{x}<={1000 * k}"),
        ("", f"({x}*{y})//{k}==({x}//{k})*{y}"),
        (f"{x}*{y}=={12 * k}", f"{x}<={6 * k}"),
        ("", f"({x}+{y})//2 == {x}//2 + {y}//2"),
        ("", f"min({x},{y}) == {x}"),
    ]


FAMILIES: dict[str, Callable[[random.Random], list[tuple[str, str]]]] = {
    "normal": _normal,
    "floordiv": _floordiv,
    "bound": _bound,
    "minmax": _minmax,
    "nonlinear": _nonlinear,
    "facts-sum": _facts_sum,
    "facts-eq": _facts_eq,
    "facts-prod": _facts_prod,
    "facts-order": _facts_order,
    "facts-div": _facts_div,
    "facts-set": _facts_set,
    "false": _false,
    "inconsistent": _inconsistent,
}
_WANT = {"false": "refuted", "inconsistent": "inconsistent"}


def question(family: str, r: random.Random) -> Question:
    """One of the family's kinds of question, with random symbols and numbers."""
    given, goal = r.choice(FAMILIES[family](r))
    return Question(family, given, goal, _WANT.get(family, "proved"))


def relations(given: str) -> list[Relation]:
    """The statements of a text."""
    return [r for r in parse_facts(given) if isinstance(r, Relation)]


def admitted(given: list[Relation], names: frozenset[str], limit: int = 4000) -> Iterator[dict[str, int]]:
    """All small sizes that satisfy the givens, up to a limit of sizes tried."""
    ordered = sorted(names.union(*(r.symbols() for r in given)))
    points = itertools.islice(itertools.product(SIZES, repeat=len(ordered)), limit)
    return (p for p in (dict(zip(ordered, sizes, strict=True)) for sizes in points) if holds_all(given, p))


def wrong_answer(status: str, given: list[str], goal: str) -> dict[str, int] | None:
    """Small sizes at which "proved" or "inconsistent" is wrong; None where brute force agrees."""
    facts = [r for text in given for r in relations(text)]
    wanted = parse_relation(goal)
    if status not in ("proved", "inconsistent"):
        return None
    for point in admitted(facts, wanted.symbols()):
        if status == "inconsistent":
            return point
        try:
            if not wanted.holds(point):
                return point
        except UndefinedSize:
            return point
    return None
