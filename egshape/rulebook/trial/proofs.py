"""Proofs of rules over sizes by z3 (extra ``verify``): for all integers, not for some.

Each variable is any integer, a division by 0 is undefined, and an equation between undefined sizes claims nothing, as
in ``egshape.rulebook.trial.soundness``, which samples the same meaning."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from egshape.dims.functions import SHIPPED
from egshape.dims.text import DECLARED
from egshape.rulebook.trial.formulas import Terms
from egshape.rulebook.trial.soundness import CannotSample
from egshape.rulelang.provenance import PlainRule, is_variable
from egshape.rulelang.sexpr import Atom, List, SExpr

EFFORT = 4_000_000
"""What z3 may spend on a question, in its own unit: the answer is the same on a busy machine. About 1.5 s."""
_BOUNDS = (4, 12, None)
"""A counterexample is looked for among small numbers first."""


@dataclass(frozen=True)
class Proof:
    """proved; refuted, with numbers at which the body holds and an action does not; unknown if z3 gave up."""

    status: Literal["proved", "refuted", "unknown"]
    values: Mapping[str, int]
    action: str = ""


def available() -> bool:
    """Whether z3 is installed."""
    return importlib.util.find_spec("z3") is not None


def prove_rule(rule: PlainRule, effort: int = EFFORT) -> Proof:
    """Decide whether a rule over sizes is true. Raises CannotSample for one that speaks of something else."""
    work = _Translation(importlib.import_module("z3"))
    for fact in sorted(rule.body, key=_order):
        work.assume(fact)
    unknown = False
    for action in rule.actions:
        goal = work.goal(action)
        if goal is None:
            continue
        for bound in _BOUNDS:
            found = work.refute(goal, bound, effort)
            if found is not None and found.status == "refuted":
                return Proof("refuted", found.values, str(action))
        unknown |= found is None
    return Proof("unknown" if unknown else "proved", {})


def _order(fact: SExpr) -> bool:
    """Relations bind variables that equations then speak of."""
    return isinstance(fact, List) and fact.head not in _RELATIONS


_RELATIONS = frozenset(
    (
        "term",
        "factor",
        "remainder",
        "mirror",
        "goal",
        "Dvd",
        "edge",
        "whole",
        "near",
        "shared",
        "backward",
        "swapped",
        "joins",
    )
)


class _Translation:
    """A rule in z3's terms; an integer is a pair of a value and whether it is defined."""

    def __init__(self, z3: Any) -> None:
        self.z3 = z3
        self.known: dict[str, tuple[Any, Any]] = {}
        self.free: dict[str, Any] = {}
        self.facts: list[Any] = []
        self.calls: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self.count = 0

    def fresh(self) -> Any:
        self.count += 1
        return self.z3.Int(f"_{self.count}")

    def bind(self, name: str) -> tuple[Any, Any]:
        if name not in self.known:
            self.free[name] = self.z3.Int(name)
            self.known[name] = (self.free[name], self.z3.BoolVal(True))
        return self.known[name]

    # -- the body ----

    def assume(self, fact: SExpr) -> None:
        if not isinstance(fact, List):
            raise CannotSample(str(fact))
        head, items = fact.head, fact.items[1:]
        if head == "=":
            self.equate(*items)
        elif head in ("<", ">", "<=", ">=", "!="):
            (one, sure), (two, certain) = map(self.value, items)
            self.facts += [sure, certain, _compare(head, one, two)]
        elif head in _RELATIONS:
            self.relate(head, items)
        else:
            raise CannotSample(head)

    def equate(self, *items: SExpr) -> None:
        for one, two in pairwise(items):
            self._equate(one, two)

    def _equate(self, left: SExpr, right: SExpr) -> None:
        for one, two in ((left, right), (right, left)):
            if isinstance(two, List) and two.head in ("lo", "hi", "far"):
                bound, _ = self.value(one)
                self.facts.append(self.bounded(two, bound))
                return
        for one, two in ((left, right), (right, left)):
            if is_variable(one) and str(one) not in self.known:
                self.known[str(one)] = self.value(two)
                return
        self.facts.append(self.equal(left, right))

    def bounded(self, call: List, bound: Any) -> Any:
        """What ``(lo d) = bound`` says."""
        truth, sure = self.value(call.items[-1])
        if call.head == "far":
            start, certain = self.value(call.items[1])
            truth, sure = truth - start, self.z3.And(sure, certain)
        return self.z3.Implies(sure, truth <= bound if call.head == "hi" else truth >= bound)

    def equal(self, left: SExpr, right: SExpr) -> Any:
        (one, sure), (two, certain) = self.value(left), self.value(right)
        return self.z3.And(sure == certain, self.z3.Implies(sure, one == two))

    def relate(self, head: str, items: tuple[SExpr, ...]) -> None:
        if head == "Dvd":
            (divisor, sure), (size, certain) = map(self.value, items)
            self.facts.append(self.z3.Implies(self.z3.And(sure, certain), size == divisor * self.fresh()))
            return
        if head == "shared":
            num, den, c, h, o, k = items
            self.relate("whole", (num, c, h, o))
            self.relate("factor", (den, c, k))
            return
        if head in ("edge", "backward", "swapped", "joins"):
            self.facts.append(self.holds(head, items))
            return
        first, *rest = items
        if is_variable(first) and str(first) not in self.known:
            self.known[str(first)] = self.determined(head, rest)
        else:
            self.facts.append(self.holds(head, items))

    def determined(self, head: str, items: list[SExpr]) -> tuple[Any, Any]:
        values = [self.value(item) for item in items]
        sure = self.z3.And(*[each for _, each in values])
        match head, [value for value, _ in values]:
            case "term", [c, h, t]:
                return c * h + t, sure
            case "factor", [a, r]:
                return a * r, sure
            case (("whole" | "near"), [k, p, r]):
                return p * k + r, sure
            case "mirror", [p]:
                return self.z3.If(p < 0, -p, 0), sure
            case "goal", [x, y, c]:
                return x - y + c, sure
            case "remainder", [h, k]:
                return h - k * self.floor(h, k), self.z3.And(sure, k != 0)
        raise CannotSample(head)

    # -- the actions ----

    def goal(self, action: SExpr) -> Any:
        if not isinstance(action, List):
            raise CannotSample(str(action))
        if action.head == "subsume":
            return None
        if action.head == "let":
            self.known[str(action.items[1])] = self.value(action.items[2])
            return None
        if action.head == "union":
            return self.equal(*action.items[1:])
        if action.head == "set" and isinstance(action.items[1], List) and action.items[1].head in ("lo", "hi", "far"):
            bound, sure = self.value(action.items[2])
            return self.z3.Implies(sure, self.bounded(action.items[1], bound))
        return self.holds(action.head, action.items[1:])

    def holds(self, head: str, items: tuple[SExpr, ...]) -> Any:
        if head not in _RELATIONS:
            raise CannotSample(head)
        values = [self.value(item) for item in items]
        sure = self.z3.And(*[each for _, each in values])
        if head == "Dvd":
            divisor, size = values[0][0], values[1][0]
            rest = size - divisor * self.floor(size, divisor)
            return self.z3.Implies(sure, self.z3.If(divisor == 0, size == 0, rest == 0))
        if head in ("backward", "swapped"):  # how a size is written says nothing of numbers
            return self.z3.BoolVal(True)
        if head == "joins":
            one, two = (value for value, _ in values)
            return self.z3.Implies(sure, self.z3.Or(one == two, one == 1, two == 1))
        if head == "edge":
            low, high, weight = (value for value, _ in values)
            return self.z3.Implies(sure, high >= low + weight)
        found, certain = self.determined(head, list(items[1:]))
        return self.z3.Implies(self.z3.And(sure, certain), values[0][0] == found)

    def refute(self, goal: Any, bound: int | None, effort: int) -> Proof | None:
        """Numbers for which the body holds and the goal does not; "proved" if none are; None if z3 cannot say."""
        solver = self.z3.Solver()
        solver.set("rlimit", effort)
        solver.add(*self.facts, self.z3.Not(goal))
        if bound is not None:
            solver.add(*[self.z3.And(value >= -bound, value <= bound) for value in self.free.values()])
        answer = solver.check()
        if answer == self.z3.sat:
            model = solver.model()
            return Proof(
                "refuted",
                {
                    name: model.eval(value, model_completion=True).as_long()
                    for name, value in self.free.items()
                    if not name.startswith("_")
                },
            )
        if answer == self.z3.unsat:
            return Proof("proved", {})
        return None

    # -- expressions ----

    def value(self, expr: SExpr) -> tuple[Any, Any]:
        yes = self.z3.BoolVal(True)
        if isinstance(expr, Atom):
            if is_variable(expr):
                return self.bind(expr.text)
            if expr.text.lstrip("-").isdigit():
                return self.z3.IntVal(int(expr.text)), yes
            raise CannotSample(expr.text)
        values = [self.value(item) for item in expr.items[1:]]
        sure = self.z3.And(*[each for _, each in values])
        match expr.head, [value for value, _ in values]:
            case (("Num" | "P"), [a]):
                return a, sure
            case "Relu", [a]:
                return self.z3.If(a > 0, a, 0), sure
            case (("Add" | "+"), [a, b]):
                return a + b, sure
            case (("Mul" | "*"), [a, b]):
                return a * b, sure
            case "-", [a, b]:
                return a - b, sure
            case (("min" | "max"), [a, b]):
                return self.z3.If((a < b) if expr.head == "min" else (a > b), a, b), sure
            case "FloorDiv", [a, b]:
                return self.floor(a, b), self.z3.And(sure, b != 0)
            case (("/" | "%"), [a, b]):
                quotient = self.truncated(a, b)
                return (quotient if expr.head == "/" else a - b * quotient), sure
        return self.call(expr, [value for value, _ in values], sure)

    def call(self, expr: List, args: list[Any], sure: Any) -> tuple[Any, Any]:
        """The value of a declared size function, by its expression or formula."""
        function = {**SHIPPED, **DECLARED.get()}.get(expr.head)
        if function is None or len(args) != len(function.params):
            raise CannotSample(expr.head)
        key = (expr.head, *(arg.get_id() for arg in args))
        if key not in self.calls:
            terms = Terms(self, dict(zip(function.params, args, strict=True)))
            self.calls[key] = (terms.function(function), terms.defined != 0)
        found, defined = self.calls[key]
        return found, self.z3.And(sure, defined)

    def root(self, a: Any) -> Any:
        """The largest number whose square is at most a; any number for a < 0."""
        root = self.fresh()
        within = self.z3.And(root >= 0, root * root <= a, a < (root + 1) * (root + 1))
        self.facts.append(self.z3.Implies(a >= 0, within))
        return root

    def floor(self, a: Any, b: Any) -> Any:
        """floor(a / b); any number where b is 0."""
        quotient, rest = self.fresh(), self.fresh()
        self.facts.append(
            self.z3.Implies(
                b != 0,
                self.z3.And(
                    a == b * quotient + rest,
                    self.z3.If(b > 0, self.z3.And(rest >= 0, rest < b), self.z3.And(rest <= 0, rest > b)),
                ),
            )
        )
        return quotient

    def truncated(self, a: Any, b: Any) -> Any:
        """a / b of the engine's i64: towards 0; no match where b is 0."""
        quotient, rest = self.fresh(), self.fresh()
        size = self.z3.If(b > 0, b, -b)
        self.facts += [
            b != 0,
            a == b * quotient + rest,
            self.z3.If(a >= 0, self.z3.And(rest >= 0, rest < size), self.z3.And(rest <= 0, -rest < size)),
        ]
        return quotient


def _compare(head: str, one: Any, two: Any) -> Any:
    match head:
        case "<":
            return one < two
        case ">":
            return one > two
        case "<=":
            return one <= two
        case ">=":
            return one >= two
    return one != two
