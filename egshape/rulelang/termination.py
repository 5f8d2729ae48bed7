"""Rules that can go on for ever, and rules that get in each other's way.

Both are judged by the patterns alone: a right side that the rule's own left side matches again, larger; a rule whose
left side another rule's matches under the same conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from egshape.rulelang.diagnostic import WARNING, Diagnostic, wrong
from egshape.rulelang.provenance import PlainRule, Scheme, desugar, is_variable, variables_in
from egshape.rulelang.rulefile import Rule
from egshape.rulelang.sexpr import Atom, List, SExpr

Binding = dict[str, SExpr]
_REWRITTEN = {"T", "Dim"}
_TERMS = frozenset(("T", "Ts", "Dim", "Shape"))
_MOVES = {"unbroadcast": "broadcast_in_dim", "unreshape": "reshape", "untranspose": "transpose"}
"""The op that gave the first argument of each of these functions; its other arguments are those between."""
_ROUNDS = 8


@dataclass(frozen=True)
class Rewriting:
    """A rule as what it rewrites: left to right, under conditions; ``subsumes``: the left side is dropped."""

    rule: Rule
    left: SExpr
    right: SExpr
    conditions: tuple[SExpr, ...]
    patterns: tuple[SExpr, ...]
    """The terms that the body asks for."""
    computed: SExpr
    """The right side with what the body computes (an axis list, a number) put in."""
    fuel: bool
    subsumes: bool


@dataclass(frozen=True)
class Sides:
    """What an action unites: the term in the body, as it stands in the action and spelled out, and what it becomes."""

    root: SExpr
    left: SExpr
    right: SExpr


def spelled_sides(plain: PlainRule, scheme: Scheme) -> list[Sides]:
    """The unions of tensors or sizes of a rule."""
    terms = _definitions(plain, scheme)
    sorts = scheme.sorts_of_variables(plain.body)
    out = []
    for action in plain.actions:
        if isinstance(action, List) and action.head == "union" and len(action.items) == 3:
            if not {scheme.sort(side, sorts) for side in action.items[1:]} & _REWRITTEN:
                continue
            one, two = action.items[1:]
            if not isinstance(one, Atom) and isinstance(two, Atom):
                one, two = two, one
            out.append(Sides(one, _spelled(one, terms), _spelled(two, terms)))
    return out


def rewritings(rule: Rule, scheme: Scheme) -> list[Rewriting]:
    """The unions of tensors or sizes of a rule, each with its left side spelled out from the body's equations."""
    out = []
    for plain in desugar(rule.command, rule.name, rule.ruleset):
        terms = _definitions(plain, scheme)
        values = {**_definitions(plain, None), **terms}
        patterns = tuple(_spelled(term, terms) for term in terms.values())
        subsumes = any(isinstance(each, List) and each.head == "subsume" for each in plain.actions)
        for sides in spelled_sides(plain, scheme):
            out.append(
                Rewriting(
                    rule,
                    sides.left,
                    sides.right,
                    _conditions(plain, values),
                    patterns,
                    _spelled(sides.right, values),
                    _has_fuel(plain),
                    subsumes,
                )
            )
    return out


def _definitions(rule: PlainRule, scheme: Scheme | None) -> Binding:
    """The term that each variable of the body is equal to; without a scheme also what is computed."""
    found: Binding = {}
    for fact in rule.body:
        if isinstance(fact, List) and fact.head == "=" and len(fact.items) == 3:
            for one, two in (fact.items[1:], fact.items[:0:-1]):
                if isinstance(two, List) and two.head in _MOVES:
                    found.setdefault(*_moved(one, two))
                elif is_variable(one) and isinstance(two, List) and str(one) not in found and _is_term(two, scheme):
                    found[str(one)] = two
                    break
    return found


def _moved(source: SExpr, function: List) -> tuple[str, SExpr]:
    """What b is where source = unbroadcast(b, d, u): broadcast_in_dim(source, d, shape), and so on."""
    made, *attrs = function.items[1:]
    if function.head != "untranspose":
        attrs[-1] = Atom(f"shape__{made}", function.at)
    return str(made), List((Atom(_MOVES[function.head], function.at), source, *attrs), function.at)


def _is_term(expr: List, scheme: Scheme | None) -> bool:
    known = scheme.signatures.get(expr.head) if scheme is not None else None
    return scheme is None or (known is not None and known.result in _TERMS)


def _spelled(expr: SExpr, terms: Mapping[str, SExpr], depth: int = _ROUNDS) -> SExpr:
    if depth == 0:
        return expr
    if isinstance(expr, Atom):
        return _spelled(terms[expr.text], terms, depth - 1) if expr.text in terms else expr
    return List((expr.items[0], *(_spelled(item, terms, depth - 1) for item in expr.items[1:])), expr.at)


def _conditions(rule: PlainRule, terms: Mapping[str, SExpr]) -> tuple[SExpr, ...]:
    """What a rule asks for beyond its left side."""
    return tuple(
        _spelled(fact, terms)
        for fact in rule.body
        if not (isinstance(fact, List) and fact.head == "=" and any(map(is_variable, fact.items[1:])))
    )


def _has_fuel(rule: PlainRule) -> bool:
    """Whether the rule spends fuel: it reads (fuel x), asks for more than 0, and leaves less."""
    body = " ".join(map(str, rule.body))
    return "(fuel " in body and "(> " in body and any("(set (fuel " in str(action) for action in rule.actions)


# -- matching ----


def match(pattern: SExpr, term: SExpr, binding: Binding) -> bool:
    """Whether a pattern matches a term whose variables are taken as they are; the binding is extended."""
    if isinstance(pattern, Atom):
        if not is_variable(pattern):
            return pattern.text == "_" or (isinstance(term, Atom) and term.text == pattern.text)
        known = binding.setdefault(pattern.text, term)
        return str(known) == str(term)
    if not isinstance(term, List) or term.head != pattern.head or len(term.items) != len(pattern.items):
        return False
    return all(match(one, two, binding) for one, two in zip(pattern.items[1:], term.items[1:], strict=True))


def _filled(expr: SExpr, binding: Mapping[str, SExpr]) -> SExpr:
    if isinstance(expr, Atom):
        return binding.get(expr.text, expr)
    return List((expr.items[0], *(_filled(item, binding) for item in expr.items[1:])), expr.at)


def _parts(expr: SExpr) -> Iterable[SExpr]:
    yield expr
    if isinstance(expr, List):
        for item in expr.items[1:]:
            yield from _parts(item)


def _size(expr: SExpr) -> int:
    return 1 + sum(map(_size, expr.items[1:])) if isinstance(expr, List) else 1


# -- growth ----


def check_termination(rule: Rule, scheme: Scheme) -> list[Diagnostic]:
    """Why a rule may not end, unless it spends fuel or says in an ``; ends:`` comment why it does."""
    if rule.ends:
        return []
    place = rule.command
    way_out = "say why it ends in a '; ends:' comment above the rule, spend fuel, or drop the rule"
    if place.head == "birewrite":
        return [
            wrong(
                place,
                "grows",
                f"{rule.name} rewrites both ways and does not say why that ends",
                way_out,
                rule=rule.name,
            )
        ]
    for each in rewritings(rule, scheme):
        if each.fuel or _without_end(each) is None:
            continue
        return [wrong(place, "grows", f"{rule.name} {_without_end(each)}", way_out, rule=rule.name)]
    return []


def _without_end(rewriting: Rewriting) -> str | None:
    left, right = rewriting.left, rewriting.right
    if isinstance(left, Atom):
        if not isinstance(right, List) or left.text not in set(variables_in(right)):
            return None
        known = set(map(str, rewriting.patterns))
        made = [part for part in _parts(right) if isinstance(part, List) and str(part) not in known]
        if rewriting.patterns and not any(match(each, part, {}) for each in rewriting.patterns for part in made):
            return None
        return "matches its result again: it grows without bound"
    if _associative(left, right):
        return "states associativity: with commutativity, n terms have more than n! forms"
    for part in _parts(right):
        binding: Binding = {}
        if not isinstance(part, List) or not match(left, part, binding) or str(part) == str(left):
            continue
        if part is right and _size(right) <= _size(left):
            if _permuted(left, right):
                return "states commutativity: it matches its own result, and n terms have n! orders"
            return "matches its own result: it can go round for ever"
        return "matches inside of its own result: it grows without bound"
    return None


def _permuted(left: SExpr, right: SExpr) -> bool:
    return (
        isinstance(left, List)
        and isinstance(right, List)
        and (sorted(map(str, left.items)) == sorted(map(str, right.items)))
    )


def _associative(left: SExpr, right: SExpr) -> bool:
    """f(f(x, y), z) and f(x, f(y, z)), in either direction."""
    nested = [_nested(each, side) for each, side in ((left, 0), (right, 1))]
    other = [_nested(each, side) for each, side in ((left, 1), (right, 0))]
    return any(found[0] is not None and found[0] == found[1] for found in (nested, other))


def _nested(expr: SExpr, side: int) -> tuple[str, ...] | None:
    """The function and x, y, z of f(f(x, y), z) for side 0, of f(x, f(y, z)) for side 1."""
    if not isinstance(expr, List) or len(expr.items) < 3:
        return None
    *first, one, two = expr.items
    inner = (one, two)[side]
    if (
        not isinstance(inner, List)
        or len(inner.items) != len(expr.items)
        or list(map(str, inner.items[:-2])) != list(map(str, first))
    ):
        return None
    y, z = inner.items[-2:]
    leaves = (y, z, two) if side == 0 else (one, y, z)
    return (*map(str, first), *map(str, leaves)) if all(map(is_variable, leaves)) else None


# -- overlap ----


def check_overlap(mine: Sequence[Rewriting], others: Iterable[Rewriting]) -> list[Diagnostic]:
    """Warnings about other rules that make a rule useless, or that rewrite just the same terms to something else."""
    found = []
    for one in mine:
        for theirs in others:
            rule, other = one.rule, theirs.rule
            if rule.name == other.name:
                continue
            text = _overlap(one, theirs)
            if text:
                code = "shadowed" if "shadow" in text else "overlap"
                hint = "drop it" if code == "shadowed" else "make one of them ask for more, or drop it"
                found.append(
                    wrong(
                        rule.command,
                        code,
                        f"{rule.name} {text} {other.name} ({other.where})",
                        hint,
                        rule=rule.name,
                        severity=WARNING,
                    )
                )
    return found[:1]


def _overlap(mine: Rewriting, theirs: Rewriting) -> str:
    binding: Binding = {}
    if isinstance(theirs.left, Atom) or not match(theirs.left, mine.left, binding):
        return ""
    asked = {str(_filled(each, binding)) for each in theirs.conditions}
    known = set(map(str, mine.conditions))
    if not asked <= known:
        return ""
    if str(_filled(theirs.computed, binding)) == str(mine.computed):
        return "is shadowed by the more general"
    if theirs.subsumes and not mine.subsumes:
        return "is shadowed: its left side is dropped by"
    back: Binding = {}
    same = match(mine.left, theirs.left, back) and asked == known
    return "overlaps: the same terms are rewritten to something else by" if same else ""
