"""Programs drawn from a rule's own left side: every rank to 4, every dtype that its ops take, any attributes that its
guards admit. The rule's examples have no part in it, so nothing that they have in common is taken for granted.

The left side is walked from the top with a wanted type; each op proposes attributes and operands (``pull.py``), what
the body determines is put in (``guards.py``), and the op's shape function has the last word."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from egshape.dims import Dim, const, product
from egshape.errors import EgshapeError
from egshape.ir.functions import function_parts
from egshape.ir.types import TensorType, numpy_dtype
from egshape.ops import REGISTRY
from egshape.ops.base import AttrDecl, OpDecl
from egshape.rulebook.trial.arrays import specials
from egshape.rulebook.trial.guards import (
    ELEMENTS,
    Contradiction,
    Drawn,
    Guards,
    Unknown,
    Values,
    element_values,
    evaluate,
    unify,
)
from egshape.rulebook.trial.pull import DTYPES, MAX_RANK, Dice, Misfit, pull
from egshape.rulelang.examples import Apply, Constant, Leaf, Line
from egshape.rulelang.provenance import PlainRule, desugar, is_variable, variables_in
from egshape.rulelang.rulefile import Rule
from egshape.rulelang.schema import ELEMENTWISE, has_constructor
from egshape.rulelang.sexpr import Atom, List, Position, SExpr
from egshape.rulelang.strings import values_of

TRIES, PATIENCE = 100, 3
"""Draws in vain after which a rank is given up: so many, and some times as many where something did fit before."""

DULL = 0.7
"""How often a program is refused whose result has axes and at most one element: the order of elements is not seen."""

_FAMILIES = {family.capitalize(): family for family in ELEMENTWISE}
_SOURCES = {"unbroadcast": "broadcast_in_dim", "unreshape": "reshape", "untranspose": "transpose"}
"""Functions that give what was moved, and the move."""

_NOWHERE = Position("", 0, 0)
_ANY = Atom("_", _NOWHERE)
_DEEPEST = 12


@dataclass(frozen=True)
class Pattern:
    """The left side of a rule: terms of tensors by variable, the variable of the whole, and what else is said.

    loose: sizes that an op needs to be equal may be different symbols, since the rule is about just that."""

    terms: Mapping[str, SExpr]
    root: str
    guards: Guards
    loose: bool


def patterns(rule: Rule) -> Iterator[Pattern]:
    """The left sides of a rule of which programs can be drawn: one, of a birewrite two, or none."""
    for plain in desugar(rule.command, rule.name, rule.ruleset):
        found = _pattern(plain)
        if found is not None:
            yield found


def _pattern(plain: PlainRule) -> Pattern | None:
    terms: dict[str, SExpr] = {}
    facts: list[SExpr] = []
    for fact in plain.body:
        name, term, more = _binding(fact, len(terms))
        if term is not None and name not in terms:
            terms[name] = term
            facts += more
        else:
            facts.append(fact)
    used = {name for term in terms.values() for name in variables_in(term)}
    roots = [name for name in terms if name not in used]
    loose = any(isinstance(fact, List) and fact.head.startswith("in_") for fact in plain.body)
    return Pattern(terms, roots[0], Guards(tuple(facts)), loose) if len(roots) == 1 else None


def _binding(fact: SExpr, number: int) -> tuple[str, SExpr | None, tuple[SExpr, ...]]:
    """The variable of a tensor, the term that it stands for, and what else the fact says; None for other facts."""
    if not isinstance(fact, List):
        return "", None, ()
    if fact.head.startswith("in_"):  # a row of an input table: (in_op i x ...)
        table = fact.head.removeprefix("in_")
        head = table.capitalize() if table in ELEMENTWISE else table
        if _makes_tensor(head):
            return str(fact.items[1]), List((Atom(head, fact.at), *fact.items[2:]), fact.at), ()
    if fact.head != "=" or len(fact.items) != 3:
        return "", None, ()
    for one, two in (fact.items[1:], fact.items[:0:-1]):
        if not isinstance(two, List):
            continue
        if two.head in _SOURCES and is_variable(two.items[1]):
            return str(two.items[1]), *_moved(one, two, number)
        if isinstance(one, List) and one.head == "List" and two.head in ("Cons", "Nil"):
            return str(one.items[1]), two, ()
        if is_variable(one) and (two.head in ("Cons", "Nil") or _makes_tensor(two.head)):
            return str(one), two, ()
    return "", None, ()


def _moved(source: SExpr, call: List, number: int) -> tuple[SExpr, tuple[SExpr, ...]]:
    """``x = (unbroadcast b d u)`` is ``b = (broadcast_in_dim x d s)`` for some s, and u is the shape of x."""
    at = call.at
    shape = Atom(f"shape__{number}", at)
    head = Atom(_SOURCES[call.head], at)
    axes = () if call.head == "unreshape" else (call.items[2],)
    if call.head == "untranspose":
        return List((head, source, *axes), at), ()
    size = List((Atom("=", at), call.items[-1], List((Atom("ShapeOf", at), source), at)), at)
    return List((head, source, *axes, shape), at), (size,)


def _makes_tensor(head: str) -> bool:
    """Whether a term with this head is a tensor of which programs can be drawn."""
    return head in _FAMILIES or (head in REGISTRY and has_constructor(REGISTRY[head]))


# -- drawing ----


@dataclass
class Draws:
    """Programs of one left side, one rank after the other."""

    pattern: Pattern
    rng: random.Random
    samples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Attributes that ops have in examples, for ops that nothing else is known of."""
    ranks: list[int] = field(default_factory=lambda: list(range(MAX_RANK + 1)))
    """Ranks of the result, the next one first; one for which nothing fits is not tried again."""
    patience: dict[int, int] = field(default_factory=dict)
    """How often more a rank that something did fit may be tried in vain."""

    def line(self) -> Line | None:
        """The next program; None if there is none."""
        while self.ranks:
            rank = self.ranks.pop(0)
            found = self._of_rank(rank)
            left = self.patience.get(rank, 0) - 1 if found is None else PATIENCE
            if left >= 0:
                self.patience[rank] = left
                self.ranks.append(rank)
            if found is not None:
                return found
        return None

    def _of_rank(self, rank: int) -> Line | None:
        for _ in range(TRIES):
            dice = Dice(self.rng, self.rng.random() < 0.5)
            wanted = TensorType(dice.pick(DTYPES), dice.sizes(rank))
            try:
                return _Draw(self.pattern, dice, self.samples).line(wanted)
            except (Misfit, Contradiction):
                continue
        return None


class _Draw:
    """One program."""

    def __init__(self, pattern: Pattern, dice: Dice, samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.pattern = pattern
        self.dice = dice
        self.samples = samples
        self.known: Values = {}
        self.leaves = 0

    def line(self, wanted: TensorType) -> Line:
        """The program. Raises Misfit or Contradiction where the draw leads nowhere."""
        whole = self.term(Atom(self.pattern.root, _NOWHERE), wanted, 0)
        self.solve()
        if wanted.dims and product(whole.type.dims).const in (0, 1) and self.dice.chance(DULL):
            raise Misfit
        return Line(whole.term, (), None)

    def solve(self) -> None:
        """Bind what the body determines."""
        self.known = self.pattern.guards.solved(self.known)

    def term(self, expr: SExpr, wanted: TensorType, depth: int) -> Drawn:
        """A part of the program, of the wanted type if that can be."""
        if isinstance(expr, List) and expr.head == "Node":
            expr = expr.items[1]
        if isinstance(expr, Atom):
            return self._variable(expr.text, wanted, depth)
        if depth > _DEEPEST:
            raise Misfit
        return self._elementwise(expr, wanted, depth) if expr.head in _FAMILIES else self._op(expr, wanted, depth)

    def _variable(self, name: str, wanted: TensorType, depth: int) -> Drawn:
        if name in self.known:
            return self.known[name]  # type: ignore[no-any-return]
        if name in self.pattern.terms:
            found = self.term(self.pattern.terms[name], wanted, depth + 1)
        else:
            found = self._leaf(name, wanted)
        if name != _ANY.text:
            self.known[name] = found
            self.solve()
        return found

    def _leaf(self, name: str, wanted: TensorType) -> Drawn:
        value = None if wanted.dims else self._constant(name, wanted.dtype)
        if value is not None:
            return Drawn(Constant(np.array(value, numpy_dtype(wanted.dtype))), wanted)
        self.leaves += 1
        wanted = TensorType(wanted.dtype, self._loosened(wanted.dims))
        return Drawn(Leaf(f"x{self.leaves}", wanted), wanted)

    def _constant(self, name: str, dtype: str) -> Any:
        """A number for a scalar: what the body wants of it, or something special; None for a value from outside."""
        guards = self.pattern.guards
        for word in ELEMENTS:
            for fact in guards.about(word, name):
                function = self._decided(fact.items[1], 0)
                return self.dice.pick(element_values(word, function, dtype))
        wanted = any(guards.about(word, name) for word in ("is_true", "is_false"))
        return self.dice.pick(specials(dtype)) if wanted or self.dice.chance(0.25) else None

    def _loosened(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """The sizes, in a loose pattern often with another one among them."""
        if not (self.pattern.loose and dims) or self.dice.numbers or self.dice.chance(0.4):
            return dims
        place = self.dice.rng.randrange(len(dims))
        return *dims[:place], self.dice.size(), *dims[place + 1 :]

    def _elementwise(self, expr: List, wanted: TensorType, depth: int) -> Drawn:
        function, dtypes = self._function(expr.items[1], _FAMILIES[expr.head], wanted.dtype)
        name, attrs = function_parts(function, REGISTRY)
        scalars = REGISTRY[name].traits.scalars
        operands: list[Drawn] = []
        dims = wanted.dims
        for place, (item, dtype) in enumerate(zip(expr.items[2:], dtypes, strict=True)):
            scalar = place in scalars and self.dice.chance(0.3)
            operands.append(self.term(item, TensorType(dtype, () if scalar else dims), depth + 1))
            dims = dims if scalar else operands[-1].type.dims
        return self._applied(REGISTRY[name], operands, attrs)

    def _function(self, expr: SExpr, family: str, dtype: str) -> tuple[str, tuple[str, ...]]:
        """A function whose result has a dtype, and the dtypes of its operands."""
        rows = functions(family, REGISTRY.version).get(dtype, {})
        chosen = [name for name in rows if self._admits(expr, name)]
        other = [name for name in chosen if rows[name] != [(dtype,) * len(rows[name][0])]]
        chosen = other if other and self.dice.chance(0.4) else chosen  # few functions change the dtype
        op = self.dice.pick(sorted({name.partition(".")[0] for name in chosen}))
        function = self.dice.pick([name for name in chosen if name.partition(".")[0] == op])
        unify(expr, function, self.known)
        self.solve()
        return function, self.dice.pick(rows[function])

    def _admits(self, expr: SExpr, function: str) -> bool:
        trial = dict(self.known)
        try:
            unify(expr, function, trial)
            self.pattern.guards.solved(trial)
        except Contradiction:
            return False
        return True

    def _op(self, expr: List, wanted: TensorType, depth: int) -> Drawn:
        if not _makes_tensor(expr.head):
            raise Misfit
        decl = REGISTRY[expr.head]
        if decl.name == "constant":
            return Drawn(
                Constant(np.array(self.dice.pick(specials(wanted.dtype)), numpy_dtype(wanted.dtype))),
                TensorType(wanted.dtype, ()),
            )
        count = len(decl.operands)
        single, rest, parts = list(expr.items[1 : count + 1]), None, ""
        if decl.variadic:
            parts = str(single.pop())
            rest = self._items(expr.items[count])
        attrs = list(zip(decl.attrs, expr.items[count + 1 :], strict=True))
        decided = {
            attr.name: _meant(attr, value)
            for attr, item in attrs
            if (value := self._decided(item, wanted.rank)) is not None
        }
        way = pull(
            decl, wanted, decided, None if rest is None else len(rest), self.dice, self.samples.get(decl.name, ())
        )
        given = {
            attr.name: self._loosened(way.attrs[attr.name])
            if attr.kind == "sizes" and attr.name not in decided
            else way.attrs[attr.name]
            for attr in decl.attrs
        }
        for attr, item in attrs:
            unify(item, _key(attr, given[attr.name]), self.known)
        self.solve()
        if rest is None:
            rest = self._parts(parts, len(way.operands) - len(single))
        items = [*single, *rest]
        if len(items) != len(way.operands):
            raise Misfit
        operands = [self.term(item, type, depth + 1) for item, type in zip(items, way.operands, strict=True)]
        return self._applied(decl, operands, given)

    def _decided(self, item: SExpr, rank: int) -> Any:
        """An attribute that is decided already, by variables that are bound, or as zeros or ones for each axis."""
        if isinstance(item, List) and item.head in ("Zeros", "Ones"):
            return (const(int(item.head == "Ones")),) * rank
        try:
            return evaluate(item, self.known)
        except Unknown:
            return None

    def _items(self, expr: SExpr) -> list[SExpr] | None:
        """The operands that a list in the left side names; None where it leaves them open."""
        out: list[SExpr] = []
        while True:
            expr = self.pattern.terms.get(str(expr), expr)
            if not isinstance(expr, List):
                known = [name for name in self.known if name.startswith(f"{expr}.")]
                return [*out, *(Atom(name, _NOWHERE) for name in known)] if known else None
            if expr.head == "Nil":
                return out
            out.append(expr.items[1])
            expr = expr.items[2]

    def _parts(self, name: str, count: int) -> list[SExpr]:
        """Names of the operands that a variable stands for, under which they are drawn once."""
        return [_ANY if name == _ANY.text else Atom(f"{name}.{k}", _NOWHERE) for k in range(count)]

    def _applied(self, decl: OpDecl, operands: Sequence[Drawn], attrs: dict[str, Any]) -> Drawn:
        try:
            found = decl.shape(*(each.type for each in operands), **attrs)
        except (EgshapeError, ValueError, IndexError, TypeError):  # what shape functions say to nonsense
            raise Misfit from None
        if isinstance(found, list):
            raise Misfit
        dtype, shape = (found.dtype, found.shape) if isinstance(found, TensorType) else found
        if shape is None or None in shape or any(dim.const is not None and dim.const < 0 for dim in shape):
            raise Misfit
        return Drawn(Apply(decl.name, tuple(each.term for each in operands), attrs, ()), TensorType(dtype, shape))


def _key(attr: AttrDecl, value: Any) -> Any:
    """An attribute as a rule sees it: records are keys, 0 that of the default."""
    return 0 if attr.kind == "record" and value == () else value


def _meant(attr: AttrDecl, value: Any) -> Any:
    """The attribute that a rule means. Raises Misfit where it names a key that nothing has."""
    if attr.kind != "record" or not isinstance(value, int):
        return value
    if value:
        raise Misfit
    return ()


@lru_cache(maxsize=8)
def functions(family: str, version: int) -> Mapping[str, Mapping[str, Sequence[tuple[str, ...]]]]:
    """By the dtype of the result: elementwise functions, each with dtypes of operands that give it."""
    out: dict[str, dict[str, list[tuple[str, ...]]]] = {}
    dtypes = sorted(set(DTYPES))
    for decl in REGISTRY:
        if decl.family != family:
            continue
        for values in itertools.product(*(values_of(decl, attr) for attr in decl.attrs)):
            attrs = dict(zip((attr.name for attr in decl.attrs), values, strict=True))
            for dtype in dtypes:
                for operands in ((dtype,) * len(decl.operands), ("i1", *(dtype,) * (len(decl.operands) - 1))):
                    try:
                        found = decl.shape(*(TensorType(each, ()) for each in operands), **attrs)
                    except EgshapeError:
                        continue
                    result = found.dtype if isinstance(found, TensorType) else found[0]
                    rows = out.setdefault(result, {}).setdefault(".".join((decl.name, *values)), [])
                    if operands not in rows:
                        rows.append(operands)
    return out
