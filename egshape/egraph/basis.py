"""Equations between sizes as substitutions: a bounded, Groebner-like reduction over the integers.

An equation becomes either `atom -> size` (the atom is solved for and disappears) or `c*monomial -> size`
(a leading monomial in graded order, which lowers it). Every step replaces equals by equals, so stopping
early is sound; it only leaves a form that is less reduced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from egshape.dims import Atom, Dim, FloorDiv, Monomial, Symbol, floordiv
from egshape.dims.core import (
    divide_monomial,
    exact_quotient,
    from_terms,
    monomial_key,
    multiply_monomials,
    natural_key,
    of_atom,
)
from egshape.dims.forms import FORMS, floordiv_positive
from egshape.dims.theory import divide

_MAX_PASSES = 32
_MAX_DEPTH = 48  # of divisions and Relus inside of each other
_MAX_GROWTH = 6  # of that depth by reducing
_MAX_SOLVED_TERMS = 16  # a longer right side is not put in the place of a symbol: products of it explode
_MAX_TAKES = 256
_MAX_S_PAIRS = 256
_MAX_TERMS = 1024
_MAX_COEFFICIENT = 1 << 256
_MAX_S_DEGREE = 6
_MAX_EQUATION_TERMS = 64  # what is longer, or has more atoms at all depths, is not taken in
_MAX_EQUATION_ATOMS = 160
_MAX_WORK = 20_000  # terms looked at in one reduction; halved for the next one each time that it does not suffice
_MIN_WORK = 200
_MAX_PAIR_WORK = 20_000  # terms looked at in reducing pairs; from there on the rest of them is left out
_MAX_TAKE_WORK = 4_000  # terms looked at for one equation and what follows from it

Sources = frozenset[int]
Taken = tuple[Dim, Sources, bool]
"""An equation that is to be taken in: size = 0, where it comes from, whether it is an S-polynomial."""
SymbolOrder = Callable[[str], Any]


@dataclass(slots=True)
class _Rule:
    """c * lead -> rest, from the equations `sources`; a solved atom is a lead of degree 1 with c = 1."""

    lead: Monomial
    coefficient: int
    rest: Dim
    sources: Sources

    @property
    def solved(self) -> Atom | None:
        atom, power = self.lead[0]
        return atom if self.coefficient == 1 and power == 1 and len(self.lead) == 1 else None

    @property
    def equation(self) -> Dim:
        return from_terms([(self.lead, self.coefficient)]) - self.rest


@dataclass(slots=True)
class Basis:
    """A set of equations that reduces sizes to a common form.

    `positive` says whether a size is known to be >= 1; `reset` must be called when it knows more.
    `order` is a sort key on symbol names: of equal symbols the one with the smallest key stays.
    Equations are numbered by whoever adds them; `trace` gives the numbers that a reduction used.
    `contradictions` holds the sources of equations that came out as n = 0 for a number n != 0.
    """

    positive: Callable[[Dim], bool]
    order: SymbolOrder = natural_key
    contradictions: list[Sources] = field(default_factory=list)
    _solved: dict[Atom, _Rule] = field(default_factory=dict)
    _lowering: dict[Monomial, _Rule] = field(default_factory=dict)
    _by_atom: dict[Atom, set[Monomial]] = field(default_factory=dict)
    _watched: dict[Atom, set[Monomial]] = field(default_factory=dict)
    _lead_symbols: dict[str, set[Monomial]] = field(default_factory=dict)
    _rest_symbols: dict[str, set[Monomial]] = field(default_factory=dict)
    _frozen: set[Atom] = field(default_factory=set)
    _looping: set[Atom] = field(default_factory=set)
    _cache: dict[Dim, Dim] = field(default_factory=dict)
    _used: set[int] | None = None
    _s_pairs: int = _MAX_S_PAIRS
    _depth: int = 0
    _work: int = 0
    _pair_work: int = _MAX_PAIR_WORK
    _limit: int = _MAX_WORK
    _cuts: int = 0
    _heights: dict[Dim, int] = field(default_factory=dict)

    def fork(self, positive: Callable[[Dim], bool]) -> Basis:
        """An independent copy with its own knowledge of what is positive."""
        copy = Basis(positive, self.order, list(self.contradictions))
        copy._solved = {a: _Rule(r.lead, r.coefficient, r.rest, r.sources) for a, r in self._solved.items()}
        copy._lowering = {m: _Rule(r.lead, r.coefficient, r.rest, r.sources) for m, r in self._lowering.items()}
        for mine, other in (
            (copy._lead_symbols, self._lead_symbols),
            (copy._rest_symbols, self._rest_symbols),
        ):
            mine.update({name: set(leads) for name, leads in other.items()})
        for index, source in ((copy._by_atom, self._by_atom), (copy._watched, self._watched)):
            index.update({atom: set(leads) for atom, leads in source.items()})
        copy._frozen = set(self._frozen)
        copy._looping, copy._limit, copy._pair_work = set(self._looping), self._limit, self._pair_work
        return copy

    def reset(self, *, divisors: bool) -> bool:
        """Look again at what `positive` decides, because it knows more now; True if an equation shrank.

        divisors: whether it knows more about sizes that something is divided by.
        """
        if divisors:
            self._cache.clear()
        shrunk = [r for r in self._lowering.values() if self._shared_positive(r.equation)]
        queue: deque[Taken] = deque()
        for rule in shrunk:
            self._remove(rule)
            queue.append((rule.equation, rule.sources, False))
        self._take_all(queue)
        return bool(shrunk)

    def add(self, left: Dim, right: Dim, source: int) -> bool:
        """Take in an equation that holds wherever it is admitted; False if it says nothing new."""
        queue: deque[Taken] = deque([(left - right, frozenset((source,)), False)])
        return self._take_all(queue)

    def _take_all(self, queue: deque[Taken]) -> bool:
        changed, work = False, _MAX_TAKE_WORK
        # A bound rather than a proof that re-taking ends; what is dropped is only information.
        for _ in range(_MAX_TAKES + 4 * (len(self._solved) + len(self._lowering))):
            if not queue or work <= 0:
                break
            equation, sources, pair = queue.popleft()
            if pair and self._pair_work <= 0:
                continue
            limit = self._work = self._limit
            changed |= self._take(equation, sources, queue)
            work -= limit - max(self._work, 0)
            if pair:
                self._pair_work -= limit - max(self._work, 0)
        return changed

    def reduce(self, dim: Dim) -> Dim:
        """The form of a size that all sizes equal to it by these equations share, as far as they tell."""
        if not self._touches(dim):
            return dim
        done = self._cache.get(dim) if self._used is None else None
        if done is not None:
            return done
        if self._depth == 0:
            self._work = self._limit
        if self._depth >= _MAX_DEPTH or self._work <= 0:
            self._cuts += 1
            return dim
        cuts = self._cuts
        self._depth += 1
        form = self._passes(dim)
        self._depth -= 1
        if self._depth == 0 and self._work <= 0:
            self._limit = max(self._limit // 2, _MIN_WORK)
        # A form cut off by a limit is right inside of others, but not the one to remember.
        if self._used is None and (self._depth == 0 or self._cuts == cuts):
            self._cache[dim] = form
        return form

    def _passes(self, dim: Dim) -> Dim:
        """Replace atoms and lower monomials until nothing changes, or the form outgrows a limit."""
        form = dim
        tallest = self._height(dim) + _MAX_GROWTH
        for _ in range(_MAX_PASSES):
            self._work -= 1 + len(form.terms)
            if self._swells(form):
                self._cuts += 1
                break
            new = self._lowered(form.map_atoms(self._atom))
            if new is form:
                break
            if self._height(new) > tallest:
                self._cuts += 1
                break
            form = new
        return form

    def trace(self, dim: Dim) -> tuple[Dim, Sources]:
        """The reduced form, and the numbers of the equations that led to it."""
        outer, self._used = self._used, set()
        try:
            form = self.reduce(dim)
            return form, frozenset(self._used)
        finally:
            if outer is not None:
                outer |= self._used
            self._used = outer

    def unfolded(self, dim: Dim) -> Iterator[Dim]:
        """Other writings of a reduced size, with solved symbols put back in."""
        for rule in self._solved.values():
            if any(atom in self._frozen for atom in rule.rest.atoms()):
                quotient, rest = divide(dim, rule.rest)
                if quotient.terms:
                    yield quotient * from_terms([(rule.lead, 1)]) + rest

    def _height(self, dim: Dim) -> int:
        """The depth of divisions and Relus inside of each other."""
        found = self._heights.get(dim)
        if found is None:
            inside = [part for atom in dim.atoms() for part in atom.args]
            found = self._heights[dim] = 1 + max(map(self._height, inside), default=-1)
        return found

    def _swells(self, form: Dim) -> bool:
        """Whether putting the solved sizes in would make more terms, or larger numbers, than are of use."""
        total = 0
        for mono, c in form.terms:
            terms = 1
            for atom, power in mono:
                rule = self._solved.get(atom)
                if rule is not None:
                    terms *= max(1, len(rule.rest.terms)) ** power
            total += terms
            if total > _MAX_TERMS or abs(c) > _MAX_COEFFICIENT:
                return True
        return False

    def _touches(self, dim: Dim) -> bool:
        if not self._lead_symbols.keys().isdisjoint(dim.symbols()):
            return True
        return any(map(self.positive, dim.divisors_maybe_zero()))

    def _atom(self, atom: Atom) -> Dim:
        rule = self._solved.get(atom)
        if rule is not None:
            if self._used is not None:
                self._used |= rule.sources
            return rule.rest
        if isinstance(atom, Symbol) or atom in self._frozen:
            return of_atom(atom)
        new = self._inside(atom)
        return of_atom(atom) if self._looping and self._grows(atom, new) else new

    def _inside(self, atom: Atom) -> Dim:
        """The value of a size function at what its arguments reduce to."""
        args = tuple(map(self.reduce, atom.args))
        if isinstance(atom, FloorDiv) and (args != atom.args or self.positive(args[1])):
            return self.quotient(*args)
        return of_atom(atom) if args == atom.args else FORMS.remade(atom, args)

    def _grows(self, atom: Atom, new: Dim) -> bool:
        """Whether a rule `n -> .. n//8 ..` left n inside of an atom that is no smaller: that might go on for ever."""
        if new.terms == ((((atom, 1),), 1),):
            return False
        return any(
            other is not atom and _shows(other, lead, self._frozen) and _size(other) >= _size(atom)
            for lead in self._looping
            if _mentions(atom, lead)
            for other in new.atoms()
        )

    def quotient(self, num: Dim, den: Dim) -> Dim:
        """num // den, simplified as far as `den` is known to be positive."""
        if den.const is None and self.positive(den):
            return self._positive_division(num, den)
        return floordiv(num, den)

    def _positive_division(self, num: Dim, den: Dim) -> Dim:
        """num // den for den >= 1; a common factor goes out, being non-zero like den."""
        shared = _common_monomial((*num.terms, *den.terms))
        if shared:
            num, den = _without(num, shared), _without(den, shared)
        return floordiv_positive(num, den)

    def _lowered(self, dim: Dim) -> Dim:
        if not self._lowering:
            return dim
        for _ in range(_MAX_PASSES):
            found = next(((m, c, r) for m, c in dim.terms if (r := self._lowering_rule(m, c))), None)
            if found is None or len(dim.terms) > _MAX_TERMS or self._work <= 0:
                break
            mono, c, rule = found
            self._work -= len(rule.rest.terms)
            times = c // rule.coefficient
            factor = divide_monomial(mono, rule.lead)
            assert factor is not None
            if self._used is not None:
                self._used |= rule.sources
            dim = dim - from_terms([(factor, times)]) * rule.equation
        return dim

    def _lowering_rule(self, mono: Monomial, c: int) -> _Rule | None:
        for atom, _ in mono:
            for lead in self._watched.get(atom, ()):
                rule = self._lowering[lead]
                if c // rule.coefficient and divide_monomial(mono, lead) is not None:
                    return rule
        return None

    def _take(self, equation: Dim, sources: Sources, queue: deque[Taken]) -> bool:
        if _is_heavy(equation):
            return False
        form, used = self.trace(equation)
        sources |= used
        if _is_heavy(form):
            return False
        form = self._primitive(form)
        if not form.terms or any(divisor.const == 0 for divisor in form.divisors_maybe_zero()):
            return False  # nothing new, or a division by 0 that contradictory equations led to
        content = gcd(*(c for m, c in form.terms if m))
        last, c = form.terms[-1]
        if content == 0 or (not last and c % content):
            if sources not in self.contradictions:
                self.contradictions.append(sources)
            return False
        rule = _oriented(form, sources, self.order)
        self._freeze(rule)
        self._insert(rule)
        self._cache.clear()
        self._update_others(rule, queue)
        return True

    def _primitive(self, form: Dim) -> Dim:
        """form = 0 without its common number and its common factors that are known to be non-zero."""
        if not form.terms:
            return form
        content = gcd(*(c for _, c in form.terms))
        if content > 1:
            form = exact_quotient(form, content)
        shared = self._shared_positive(form)
        return _without(form, shared) if shared else form

    def _shared_positive(self, form: Dim) -> Monomial:
        """The factors of all terms that are known to be non-zero."""
        return tuple((a, p) for a, p in _common_monomial(form.terms) if self.positive(of_atom(a)))

    def _freeze(self, rule: _Rule) -> None:
        """Keep `n -> 8*(n//8)` from running into itself: the inside of n//8 stays as it is."""
        for inner in rule.rest.atoms():
            if not isinstance(inner, Symbol) and all(_mentions(inner, atom) for atom, _ in rule.lead):
                self._frozen.add(inner)
                if rule.solved is not None:
                    self._looping.add(rule.solved)

    def _insert(self, rule: _Rule) -> None:
        if rule.solved is not None:
            self._solved[rule.solved] = rule
        else:
            self._lowering[rule.lead] = rule
            for atom, _ in rule.lead:
                self._by_atom.setdefault(atom, set()).add(rule.lead)
            # Looked up by the atom that fewest left sides share: `batch` may be in all of them.
            rarest = min((a for a, _ in rule.lead), key=lambda a: (len(self._by_atom[a]), a.key))
            self._watched.setdefault(rarest, set()).add(rule.lead)
        for name in _symbols(rule.lead):
            self._lead_symbols.setdefault(name, set()).add(rule.lead)
        for name in rule.rest.symbols():
            self._rest_symbols.setdefault(name, set()).add(rule.lead)

    def _remove(self, rule: _Rule) -> None:
        if rule.solved is not None:
            self._solved.pop(rule.solved, None)
        else:
            self._lowering.pop(rule.lead, None)
            for atom, _ in rule.lead:
                self._by_atom[atom].discard(rule.lead)
                self._watched.get(atom, set()).discard(rule.lead)
        for name in _symbols(rule.lead):
            self._lead_symbols[name].discard(rule.lead)
            if not self._lead_symbols[name]:
                del self._lead_symbols[name]
        for name in rule.rest.symbols():
            self._rest_symbols[name].discard(rule.lead)

    def _rule(self, lead: Monomial) -> _Rule | None:
        atom, power = lead[0]
        if len(lead) == 1 and power == 1 and atom in self._solved:
            return self._solved[atom]
        return self._lowering.get(lead)

    def _update_others(self, rule: _Rule, queue: deque[Taken]) -> None:
        """Equations whose left side the new rule changes are taken in anew; right sides are reduced."""
        names = sorted(_symbols(rule.lead))
        # What the rule changes has all its symbols, so one of them, the rarest, is enough to look under.
        # It has none where rules that make numbers simple are switched off.
        near = min((self._lead_symbols.get(name, set()) for name in names), key=len, default=set())
        for lead in sorted((m for m in near if m != rule.lead and _hit(m, rule.lead)), key=monomial_key):
            other = self._rule(lead)
            if other is not None:
                self._remove(other)
                queue.append((other.equation, other.sources, False))
        self._cache.clear()
        if rule.solved is None:
            # Right sides may keep what can be lowered further: reducing goes on until nothing applies.
            if rule.coefficient == 1:
                queue.extend(self._pairs(rule))
            return
        stale = min((self._rest_symbols.get(name, set()) for name in names), key=len, default=set())
        for lead in sorted(stale - {rule.lead}, key=monomial_key):
            other = self._rule(lead)
            if other is not None:
                self._refresh(other, queue)

    def _refresh(self, rule: _Rule, queue: deque[Taken]) -> None:
        """Reduce the right side of a rule; if that lets its left side in, it is taken in anew."""
        self._remove(rule)
        rest, used = self.trace(rule.rest)
        if rest is rule.rest:
            self._insert(rule)
        elif rule.solved is not None and rule.solved not in rest.atoms():
            solved = _Rule(rule.lead, 1, rest, rule.sources | used)
            self._freeze(solved)
            self._insert(solved)
        else:
            queue.append((rule.equation, rule.sources, False))
        self._cache.clear()

    def _pairs(self, rule: _Rule) -> Iterator[Taken]:
        """S-polynomials with the rules whose leading monomials share an atom (Buchberger), bounded."""
        if self._s_pairs <= 0:
            return
        leads = set().union(*(self._by_atom.get(atom, set()) for atom, _ in rule.lead)) - {rule.lead}
        for lead in sorted(leads, key=monomial_key):
            other = self._lowering[lead]
            whole = _least_common_multiple(rule.lead, lead)
            if other.coefficient != 1 or sum(p for _, p in whole) > _MAX_S_DEGREE or self._s_pairs <= 0:
                continue
            self._s_pairs -= 1
            mine, its = divide_monomial(whole, rule.lead), divide_monomial(whole, lead)
            assert mine is not None
            assert its is not None
            pair = from_terms([(mine, 1)]) * rule.rest - from_terms([(its, 1)]) * other.rest
            yield pair, rule.sources | other.sources, True


def _oriented(form: Dim, sources: Sources, order: SymbolOrder) -> _Rule:
    """form = 0 as a rule: solve for a symbol, else for an atom, else lower the leading monomial.

    An atom that others of the form mention is the last choice, for it would stay in them."""
    best: tuple[tuple[bool, bool, tuple[object, ...], tuple[object, ...]], Atom, int] | None = None
    if len(form.terms) <= _MAX_SOLVED_TERMS:
        atoms = form.atoms()
        for mono, c in form.terms:
            if abs(c) != 1 or len(mono) != 1 or mono[0][1] != 1:
                continue
            atom = mono[0][0]
            if sum(1 for m, _ in form.terms if any(a is atom for a, _ in m)) > 1:
                continue
            nested = any(other is not atom and _mentions(other, atom) for other in atoms)
            wanted = (order(atom.name),) if isinstance(atom, Symbol) else ()
            rank = (not nested, isinstance(atom, Symbol), wanted, atom.key)
            if best is None or rank > best[0]:
                best = (rank, atom, c)
    if best is not None:
        _, atom, c = best
        rest = of_atom(atom) - c * form
        return _Rule(((atom, 1),), 1, rest, sources)
    lead, c = form.terms[0]
    if c < 0:
        form, c = -form, -c
    return _Rule(lead, c, from_terms([(lead, c)]) - form, sources)


def _hit(lead: Monomial, by: Monomial) -> bool:
    """Whether a rule for `by` rewrites the left side `lead`: a factor of it, or inside of an atom of it."""
    if divide_monomial(lead, by) is not None:
        return True
    return any(not isinstance(a, Symbol) and any(_mentions(a, b) for b, _ in by) for a, _ in lead)


def _mentions(atom: Atom, inner: Atom) -> bool:
    """Whether `inner` occurs anywhere inside of the compound atom."""
    if isinstance(inner, Symbol):
        return atom is not inner and inner.name in atom.symbols
    if not inner.symbols <= atom.symbols:
        return False
    return any(a is inner or _mentions(a, inner) for part in atom.args for a in part.atoms())


def _shows(atom: Atom, inner: Atom, frozen: set[Atom]) -> bool:
    """Whether `inner` occurs in the atom outside of the frozen ones."""
    if atom is inner:
        return True
    if atom in frozen or not inner.symbols <= atom.symbols:
        return False
    return any(_shows(a, inner, frozen) for part in atom.args for a in part.atoms())


def _size(atom: Atom) -> tuple[int, int]:
    """How many atoms it has at all depths, itself included; then the sum of all numbers in it."""
    parts = [_dim_size(part) for part in atom.args]
    return 1 + sum(atoms for atoms, _ in parts), sum(numbers for _, numbers in parts)


def _dim_size(dim: Dim) -> tuple[int, int]:
    parts = [_size(atom) for mono, _ in dim.terms for atom, _ in mono]
    numbers = sum(abs(c) for _, c in dim.terms)
    return sum(atoms for atoms, _ in parts), numbers + sum(more for _, more in parts)


def _is_heavy(dim: Dim) -> bool:
    """Whether an equation of this form costs more than it is worth."""
    return len(dim.terms) > _MAX_EQUATION_TERMS or _dim_size(dim)[0] > _MAX_EQUATION_ATOMS


def _symbols(mono: Monomial) -> frozenset[str]:
    return frozenset().union(*(atom.symbols for atom, _ in mono))


def _common_monomial(terms: Iterable[tuple[Monomial, int]]) -> Monomial:
    """The largest monomial that divides all of them."""
    powers: dict[Atom, int] | None = None
    for mono, _ in terms:
        here = dict(mono)
        powers = here if powers is None else {a: min(p, here[a]) for a, p in powers.items() if a in here}
        if not powers:
            return ()
    return tuple((powers or {}).items())


def _without(dim: Dim, factor: Monomial) -> Dim:
    parts = ((divide_monomial(m, factor), c) for m, c in dim.terms)
    return from_terms((m, c) for m, c in parts if m is not None)


def _least_common_multiple(one: Monomial, two: Monomial) -> Monomial:
    have = dict(one)
    missing = tuple((a, p - have.get(a, 0)) for a, p in two if p > have.get(a, 0))
    return multiply_monomials(one, missing)
