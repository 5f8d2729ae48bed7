"""What is assumed about sizes, kept solved.

Every equation, order, divisibility and range that can be solved for a symbol is solved for it:
`b >= 1` makes b = b' + 1, `n <= m` makes m = n + s, `h % 8 == 0` makes h = 8*q, with fresh symbols >= 0.
After that the canonical forms of `egshape.dims` decide most questions by themselves.  What cannot be
solved stays as rewrite rules on monomials, inequalities, memberships and disequalities.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from math import gcd
from typing import Any

from egshape.decide.known import FRESH, Clash, Fresh, Item, Known, Rule, Solved, SymbolOrder, larger_first
from egshape.dims import Dim, FloorDiv, Monomial, Symbol, const, is_nonnegative, is_positive, symbol
from egshape.dims.core import (
    divide_monomial,
    exact_quotient,
    from_terms,
    monomial_weight,
    natural_key,
    of_atom,
)
from egshape.dims.forms import is_nonpositive, laws_of
from egshape.dims.theory import divide
from egshape.facts.absorb import congruence, linear_symbol
from egshape.facts.intervals import EVERYTHING, Ranges, clip_to_class, hull, intersect, preimage

_MAX_STEPS = 300
_STEPS_PER_ITEM = 30
_MAX_QUOTIENTS = 4  # of one another: an equation may imply that 2, 4, 8, ... divide a symbol
_MAX_PAIR_TERMS = 24
_SOLVE_COST, _DIGEST_COST, _DIVIDE_COST = 30, 20, 4


class World(Known):
    """The solved state; all methods that add raise Clash on a contradiction."""

    def __init__(self, symbol_order: SymbolOrder = natural_key) -> None:
        super().__init__(symbol_order)
        self.queue: deque[Item] = deque()

    def copy(self) -> World:
        """An independent world with the same assumptions; cheap."""
        new = super().copy()
        new.queue = deque()
        return new

    def add(self, items: Iterable[Item]) -> None:
        """Assume these and solve.  Raises Clash."""
        self.queue.extend(larger_first(list(items)))
        steps = _MAX_STEPS + _STEPS_PER_ITEM * len(self.queue)
        while self.queue:
            steps -= 1
            item = self.queue.popleft()
            if steps < 0 or self.effort.left <= 0:  # what was not digested is only not used
                continue
            self._digest(item)
            if not self.queue:
                self._refresh_atoms()

    def _digest(self, item: Item) -> None:
        self.used = 0
        if item.kind == "or":
            self.choices.append(item)
            return
        dim = self.normal(item.dim)
        self.effort.left -= _DIGEST_COST + len(dim.terms)
        why = item.why | self.used
        if item.kind == "==":
            self._equation(dim, why)
        elif item.kind == ">=":
            self._at_least_zero(dim, why)
        elif item.kind == "!=":
            self._distinct_from_zero(dim, why)
        else:
            self._member(dim, item.ranges, why)

    def _new_symbol(self, fresh: Fresh) -> Dim:
        name = f"{FRESH}{self.next_fresh}"
        self.next_fresh += 1
        self.fresh[name] = fresh
        return symbol(name)

    def _requeue(self, touched: Callable[[Dim], bool]) -> None:
        """Put back to the queue everything that a change touches."""
        for rule in [r for r in self.rules if touched(r.equation())]:
            self.rules.remove(rule)
            self.queue.append(Item("==", rule.equation(), rule.why))
        for part, (constant, why) in list(self.bounds.items()):
            if touched(part):
                del self.bounds[part]
                self.queue.append(Item(">=", part + constant, why))
        for atom, (_, why) in list(self.exact.items()):
            if touched(of_atom(atom)):
                self.queue.append(Item("==", self.remainder(atom), why))
                del self.exact[atom]
        for store in (self.members, self.distinct, self.stuck):
            for item in [i for i in store if touched(i.dim)]:
                store.remove(item)
                self.queue.append(item)

    def _refresh_atoms(self) -> None:
        """New orders may decide the sign of what stands inside of atoms."""

        def touched(dim: Dim) -> bool:
            if all(isinstance(a, Symbol) for m, _ in dim.terms for a, _ in m):
                return False
            return self.normal(dim) is not dim

        for part, (constant, why) in list(self.bounds.items()):
            if all(isinstance(a, Symbol) for m, _ in part.terms for a, _ in m):
                continue
            del self.bounds[part]  # a fact must not be simplified by itself
            self.forget_answers()
            if self.normal(part) is part:
                self.bounds[part] = (constant, why)
            else:
                self.queue.append(Item(">=", part + constant, why))
            self.forget_answers()
        for store in (self.members, self.distinct, self.stuck):
            for item in [i for i in store if touched(i.dim)]:
                store.remove(item)
                self.queue.append(item)

    def _solve(self, name: str, value: Dim, why: int, by_equation: bool = True) -> None:
        """name := value, where value holds no name."""
        self.forget_answers()
        self.effort.left -= _SOLVE_COST
        self.resolved.clear()
        rank = next(reversed(self.solved.values())).rank + 1 if self.solved else 0  # a part of a world has gaps
        self.solved[name] = Solved(value, why, rank)
        if is_positive(value):
            self.positive.append(name)
        if by_equation:
            self._update_meanings(name, value)
        ranges, ranges_why = self.ranges.pop(name, EVERYTHING), self.ranges_why.pop(name, 0)
        if not is_nonnegative(value):
            self.queue.append(Item(">=", value, why))
        if ranges != EVERYTHING:
            self.queue.append(Item("in", value, why | ranges_why, ranges))
        self._requeue(lambda dim: name in dim.symbols())

    def _update_meanings(self, name: str, value: Dim) -> None:
        """Fresh symbols are shown by their meaning, which must not show a solved symbol."""
        for own, fresh in list(self.fresh.items()):
            if fresh.is_slack and name in fresh.meaning.symbols():
                meaning = fresh.meaning.substitute({name: value})
                if own not in meaning.symbols():
                    self.fresh[own] = Fresh(meaning)
        plain = linear_symbol(value)
        if plain is None or name.startswith(FRESH):
            return
        quotient, scale, offset = plain
        shown = self.fresh.get(quotient)
        if shown is None or shown.divisor is None or shown.divisor.const != scale:
            return
        old = linear_symbol(shown.meaning)
        if old and not old[0].startswith(FRESH) and self.symbol_order(name) < self.symbol_order(old[0]):
            self.fresh[quotient] = Fresh(symbol(name) - offset, shown.divisor)

    # ---- equations ----

    def _equation(self, dim: Dim, why: int) -> None:
        if dim.const is not None:
            if dim.const:
                raise Clash(why)
            return
        common = gcd(*(c for m, c in dim.terms if m))
        offset = dim.terms[-1][1] if not dim.terms[-1][0] else 0
        if offset % common:
            raise Clash(why)
        dim = exact_quotient(dim, common)
        if is_positive(dim) or is_positive(-dim):
            raise Clash(why)
        dim, why = self._without_positive_factors(dim, why)
        if dim.const is not None:
            raise Clash(why)
        positive = is_nonnegative(dim)
        if (positive or is_nonnegative(-dim)) and len(dim.terms) > 1 and _all_same_sign(dim):
            for mono, _ in dim.terms:
                self.queue.append(Item("==", from_terms([(mono, 1)]), why))
            return
        self._power_bounds(dim if dim.terms[0][1] < 0 else -dim, why)
        if self._congruence(dim, why) or self._symbol_from(dim, why) or self._residues(dim, why):
            return
        self._rule(dim, why)

    def _without_positive_factors(self, dim: Dim, why: int) -> tuple[Dim, int]:
        """Cancel factors that are known to be >= 1 (they are solved symbols such as b' + 1)."""
        if len(dim.terms) < 2:
            if dim.terms and is_nonnegative(dim) and len(dim.terms[0][0]) == 1:
                atom = dim.terms[0][0][0][0]
                return of_atom(atom), why
            return dim, why
        for name in self.positive:
            value, value_why = self.value_of(name)
            if len(value.terms) < 2 or not value.symbols() <= dim.symbols() or not is_positive(value):
                continue
            while _ends_divide(dim, value):
                self.effort.left -= _DIVIDE_COST * len(dim.terms)
                quotient, rest = divide(dim, value)
                if rest.terms or not quotient.terms:
                    break
                dim, why = quotient, why | value_why
        return dim, why

    def _congruence(self, dim: Dim, why: int) -> bool:
        found = congruence(dim) or congruence(-dim)
        if found is not None:
            num, k, r = found
            if not 0 <= r < k:
                raise Clash(why)
            if self._residue_of_symbol(num - r, k, why):
                self.queue.append(Item("==", dim, why))
                return True
            self.forget_answers()
            self.exact.update(
                (a, (r, why)) for a in dim.atoms() if isinstance(a, FloorDiv) and a.num is num and a.den.const == k
            )
            return True
        for atom in dim.atoms():
            if not isinstance(atom, FloorDiv) or atom.den.const is not None or not is_positive(atom.den):
                continue
            plain = linear_symbol(atom.num)
            if plain is None or plain[1] != 1 or plain[2] < 0 or plain[0] in atom.den.symbols():
                continue
            whole = atom.num - atom.den * of_atom(atom)
            if dim not in (whole, -whole):
                continue
            fresh = self._new_symbol(Fresh(atom.num, atom.den))
            self._solve(plain[0], fresh * atom.den - plain[2], why)
            return True
        return False

    def _residue_of_symbol(self, dim: Dim, k: int, why: int) -> bool:
        """dim % k == 0 where only one linear symbol is left modulo k: solve for that symbol."""
        left = [(m, c % k) for m, c in dim.terms if m and c % k]
        offset = dim.terms[-1][1] if dim.terms and not dim.terms[-1][0] else 0
        if not left:
            if offset % k:
                raise Clash(why)
            return False
        plain = linear_symbol(from_terms(left)) if len(left) == 1 else None
        if plain is None:
            return False
        name, scale, _ = plain
        if self._quotient_depth(name) >= _MAX_QUOTIENTS:
            return False
        common = gcd(scale, k)
        if offset % common:
            raise Clash(why)
        k //= common
        if k == 1:
            return False
        remainder = -offset // common * pow(scale // common, -1, k) % k
        x = symbol(name)
        fresh = self._new_symbol(Fresh(x - remainder, const(k)))
        self._solve(name, k * fresh + remainder, why)
        return True

    def _quotient_depth(self, name: str) -> int:
        depth = 0
        while (fresh := self.fresh.get(name)) is not None:
            depth += not fresh.is_slack
            plain = linear_symbol(fresh.meaning)
            if plain is None:
                break
            name = plain[0]
        return depth

    def _rank(self, name: str) -> tuple[int, Any]:
        """Symbols of higher rank are solved for first: slacks (newest first), then by the caller's order."""
        fresh = self.fresh.get(name)
        if fresh is not None and fresh.is_slack:
            return 1, int(name[1:])
        while fresh is not None:
            plain = linear_symbol(fresh.meaning)
            name = plain[0] if plain else ""
            fresh = self.fresh.get(name)
        return 0, self.symbol_order(name)

    def _symbol_from(self, dim: Dim, why: int) -> bool:
        candidates: list[tuple[tuple[int, Any], str, int]] = []
        for mono, c in dim.terms:
            if abs(c) != 1 or len(mono) != 1 or mono[0][1] != 1 or not isinstance(mono[0][0], Symbol):
                continue
            name = mono[0][0].name
            if not any(name in _monomial_symbols(m) for m, _ in dim.terms if m != mono):
                candidates.append((self._rank(name), name, c))
        if not candidates:
            return False
        _, name, c = max(candidates, key=lambda t: t[0])
        rest = dim - c * symbol(name)
        self._solve(name, -c * rest, why)
        return True

    def _residues(self, dim: Dim, why: int) -> bool:
        """A coefficient k says something about the other terms modulo k."""
        for k in sorted({abs(c) for m, c in dim.terms if m and abs(c) > 1}):
            if self._residue_of_symbol(dim, k, why):
                self.queue.append(Item("==", dim, why))
                return True
        return False

    def _rule(self, dim: Dim, why: int) -> None:
        heaviest = max(monomial_weight(m) for m, _ in dim.terms)  # so that rewriting ends, inside atoms too
        lead = next(((m, c) for m, c in dim.terms if abs(c) == 1 and monomial_weight(m) == heaviest), None)
        if lead is None:
            item = Item("==", dim, why)
            if item not in self.stuck:
                self.forget_answers()
                self.stuck.append(item)
                self._store_bound(dim, why)
                self._store_bound(-dim, why)
            return
        mono, c = lead
        new = Rule(mono, from_terms([(mono, 1)]) - c * dim, why)
        self.forget_answers()
        pairs = self._critical_pairs(new)
        self.rules.append(new)
        self.queue.extend(pairs)
        rules, self.rules = self.rules, [new]
        for rule in rules[:-1]:
            if divide_monomial(rule.lead, mono) is not None or any(
                divide_monomial(m, mono) is not None for m, _ in rule.rest.terms
            ):
                self.queue.append(Item("==", rule.equation(), rule.why))
            else:
                self.rules.append(rule)
        for part, (constant, part_why) in list(self.bounds.items()):
            if any(divide_monomial(m, mono) is not None for m, _ in part.terms):
                del self.bounds[part]
                self.queue.append(Item(">=", part + constant, part_why))
        for atom, _ in mono:
            self.queue.extend(Item(">=", d, why) for d in laws_of(atom))

    def _critical_pairs(self, new: Rule) -> list[Item]:
        """Where two rules overlap, their two results are equal (Buchberger), within a bound."""
        found: list[Item] = []
        for rule in self.rules:
            shared = tuple((a, min(p, dict(rule.lead)[a])) for a, p in new.lead if a in dict(rule.lead))
            if not shared or self.pairs_left <= 0:
                continue
            one, two = divide_monomial(rule.lead, shared), divide_monomial(new.lead, shared)
            if one is None or two is None or len(new.rest.terms) + len(rule.rest.terms) > _MAX_PAIR_TERMS:
                continue
            self.pairs_left -= 1
            left = from_terms([(one, 1)]) * new.rest
            right = from_terms([(two, 1)]) * rule.rest
            if left is not right:
                found.append(Item("==", left - right, new.why | rule.why))
        return found

    # ---- orders ----

    def _at_least_zero(self, dim: Dim, why: int) -> None:
        if dim.const is None:
            common = gcd(*(c for m, c in dim.terms if m))
            if common > 1:
                offset = dim.terms[-1][1] if not dim.terms[-1][0] else 0
                dim = exact_quotient(dim - offset, common) + offset // common
        if is_nonnegative(dim):
            return
        if is_nonpositive(dim):
            if is_positive(-dim):
                raise Clash(why)
            self.queue.append(Item("==", dim, why))
            return
        dim, why = self._without_positive_factors(dim, why)
        if dim.const is not None:
            if dim.const < 0:
                raise Clash(why)
            return
        plain = linear_symbol(dim)
        if plain is not None:
            name, scale, offset = plain
            self._narrow(name, preimage(((0, None),), scale, offset), why)
            return
        offset = dim.terms[-1][1] if not dim.terms[-1][0] else 0
        if offset < 0:  # x*(...) >= 1 says x >= 1
            for name in _shared_symbols(dim - offset):
                self.queue.append(Item(">=", symbol(name) - 1, why))
        self._power_bounds(dim, why)
        if not self._slack_from(dim, why):
            self._store_bound(dim, why)

    def _power_bounds(self, dim: Dim, why: int) -> None:
        """k - c*x**p - ... >= 0 bounds x."""
        top = dim.terms[-1][1] if not dim.terms[-1][0] else 0
        if any(m and (c > 0 or self.is_free(m)) for m, c in dim.terms):
            return
        for mono, c in dim.terms:
            if len(mono) == 1 and mono[0][1] >= 2 and isinstance(mono[0][0], Symbol) and top >= 0:
                high = _root(top // -c, mono[0][1])
                self.queue.append(Item(">=", high - of_atom(mono[0][0]), why))

    def _slack_from(self, dim: Dim, why: int) -> bool:
        """x - rest >= 0 with rest >= 0: x = rest + s."""
        positive = [(m, c) for m, c in dim.terms if c > 0]
        if len(positive) != 1 or positive[0][1] != 1:
            return False
        mono = positive[0][0]
        if len(mono) != 1 or mono[0][1] != 1 or not isinstance(mono[0][0], Symbol):
            return False
        name = mono[0][0].name
        rest = symbol(name) - dim
        if name in rest.symbols() or not is_nonnegative(rest):
            return False
        fresh = self._new_symbol(Fresh(dim))
        self._solve(name, rest + fresh, why, by_equation=False)
        return True

    def _store_bound(self, dim: Dim, why: int) -> None:
        offset = dim.terms[-1][1] if not dim.terms[-1][0] else 0
        part = dim - offset
        known = self.bounds.get(part)
        if known is not None and known[0] <= offset:
            return
        opposite = self.bounds.get(-part)
        if opposite is not None and opposite[0] + offset < 0:
            raise Clash(why | opposite[1])
        self.forget_answers()
        if (
            opposite is not None
            and opposite[0] + offset == 0
            and Item("==", dim, 0) not in (Item(i.kind, i.dim, 0) for i in self.stuck)
        ):
            self.queue.append(Item("==", dim, why | opposite[1]))
        self.bounds[part] = (offset, why)

    def _narrow(self, name: str, ranges: Ranges, why: int) -> None:
        old = self.ranges.get(name, EVERYTHING)
        new = intersect(old, ranges)
        why |= self.ranges_why.get(name, 0)
        if not new:
            raise Clash(why)
        if new == old:
            return
        low, high = hull(new)
        assert low is not None
        self.forget_answers()
        if low == high:
            self.ranges.pop(name, None)
            self._solve(name, const(low), why)
            return
        self.ranges[name], self.ranges_why[name] = new, why
        if low > 0:
            fresh = self._new_symbol(Fresh(symbol(name) - low))
            self._solve(name, fresh + low, why, by_equation=False)

    def _member(self, dim: Dim, ranges: Ranges, why: int) -> None:
        if not ranges:
            raise Clash(why)
        if dim.const is not None:
            if not intersect(ranges, ((dim.const, dim.const),)):
                raise Clash(why)
            return
        plain = linear_symbol(dim)
        if plain is not None:
            self._narrow(plain[0], preimage(ranges, plain[1], plain[2]), why)
            return
        common = gcd(*(c for m, c in dim.terms if m))
        offset = dim.terms[-1][1] if not dim.terms[-1][0] else 0
        ranges = clip_to_class(ranges, common, offset % common)
        for old in [i for i in self.members if i.dim is dim]:
            self.members.remove(old)
            ranges, why = intersect(ranges, old.ranges), why | old.why
        if not ranges:
            raise Clash(why)
        low, high = hull(ranges)
        if low is not None:
            self.queue.append(Item(">=", dim - low, why))
        if high is not None:
            self.queue.append(Item(">=", high - dim, why))
        if len(ranges) > 1:
            self.members.append(Item("in", dim, why, ranges))

    def _distinct_from_zero(self, dim: Dim, why: int) -> None:
        if dim.const is not None:
            if dim.const == 0:
                raise Clash(why)
            return
        if is_positive(dim) or is_positive(-dim):
            return
        plain = linear_symbol(dim)
        if is_nonnegative(dim) or is_nonnegative(-dim):
            self.queue.append(Item(">=", (dim if is_nonnegative(dim) else -dim) - 1, why))
            for atom in {a for a, _ in dim.terms[0][0]} if len(dim.terms) == 1 else ():
                self.queue.append(Item(">=", of_atom(atom) - 1, why))
        elif plain is not None:
            self._narrow(plain[0], preimage(((None, -1), (1, None)), plain[1], plain[2]), why)
        else:
            self.distinct.append(Item("!=", dim, why))


def _ends_divide(dim: Dim, value: Dim) -> bool:
    """Whether the first and the last term allow that value divides dim; quick to see."""
    first, last = divide_monomial(dim.terms[0][0], value.terms[0][0]), dim.terms[-1][1] % value.terms[-1][1]
    return first is not None and last == 0


def _monomial_symbols(mono: Monomial) -> frozenset[str]:
    return frozenset().union(*(a.symbols for a, _ in mono))


def _all_same_sign(dim: Dim) -> bool:
    return len({c > 0 for _, c in dim.terms}) == 1


def _shared_symbols(dim: Dim) -> list[str]:
    """Symbols that divide every term."""
    shared = {a.name for a, _ in dim.terms[0][0] if isinstance(a, Symbol)}
    for mono, _ in dim.terms[1:]:
        shared &= {a.name for a, _ in mono if isinstance(a, Symbol)}
    return sorted(shared)


def _root(value: int, power: int) -> int:
    """The largest integer r with r**power <= value (value >= 0)."""
    low, high = 0, 1 << (value.bit_length() // power + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**power <= value:
            low = middle
        else:
            high = middle - 1
    return low
