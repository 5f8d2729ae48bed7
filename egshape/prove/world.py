"""What is assumed about sizes, kept solved.

Every equation, order, divisibility and range that can be solved for a symbol is solved for it:
`b >= 1` makes b = b' + 1, `n <= m` makes m = n + s, `h % 8 == 0` makes h = 8*q, with fresh symbols >= 0.
After that the canonical forms of `egshape.dims` decide most questions by themselves.  What cannot be
solved stays as rewrite rules on monomials, inequalities, memberships and disequalities.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd
from typing import Any

from egshape.dims import (
    Atom,
    Dim,
    FloorDiv,
    Monomial,
    Relu,
    Symbol,
    const,
    is_nonnegative,
    is_positive,
    symbol,
)
from egshape.dims.core import (
    divide,
    divide_monomial,
    exact_quotient,
    floordiv,
    floordiv_positive,
    from_terms,
    monomial_weight,
    multiply_monomials,
    natural_key,
    of_atom,
    relu,
)
from egshape.facts.absorb import congruence, linear_symbol
from egshape.facts.intervals import EVERYTHING, Ranges, clip_to_class, hull, intersect, preimage
from egshape.prove.linear import Effort, Row, contradiction, row_of

_FRESH = "\x00"
_MAX_STEPS = 300
_STEPS_PER_ITEM = 30
_MAX_QUOTIENTS = 4  # of one another: an equation may imply that 2, 4, 8, ... divide a symbol
_MAX_REWRITES = 60
_MAX_PAIRS = 40
_MAX_PAIR_TERMS = 24
_MAX_NEAR_ROWS = 40
_EFFORT = 40_000
_EFFORT_PER_ITEM = 2_000
_ROW_COST, _NORMAL_COST, _SOLVE_COST, _COPY_COST = 8, 15, 30, 60

_TABLES = ("solved", "fresh", "ranges", "ranges_why", "bounds", "exact", "resolved", "memo", "sign_memo")
_STORES = ("rules", "members", "distinct", "stuck", "choices", "positive")

SymbolOrder = Callable[[str], Any]


class Clash(Exception):
    """The assumptions of the bit mask `why` cannot hold together."""

    def __init__(self, why: int) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a fresh symbol stands for: `meaning` (a slack), or floor(meaning / divisor) (a quotient)."""

    meaning: Dim
    divisor: Dim | None = None

    @property
    def is_slack(self) -> bool:
        return self.divisor is None


@dataclass(frozen=True, slots=True)
class Solved:
    """The value of a solved symbol, in the symbols that were free when it was solved."""

    value: Dim
    why: int
    rank: int  # how many were solved before


@dataclass(frozen=True, slots=True)
class Rule:
    """lead -> rest, an equation solved for a monomial."""

    lead: Monomial
    rest: Dim
    why: int

    def equation(self) -> Dim:
        return from_terms([(self.lead, 1)]) - self.rest


@dataclass(frozen=True, slots=True)
class Item:
    """Something assumed: dim == 0, dim >= 0, dim != 0, dim in ranges, or ("or") one of the choices."""

    kind: str
    dim: Dim
    why: int
    ranges: Ranges = ()
    choices: tuple[Item, ...] = ()


class World:
    """The solved state.  `copy` is cheap; all methods that add raise Clash on a contradiction."""

    def __init__(self, symbol_order: SymbolOrder = natural_key) -> None:
        self.symbol_order = symbol_order
        self.solved: dict[str, Solved] = {}  # values hold only symbols that are solved later or never
        self.positive: list[str] = []  # solved symbols that are >= 1 by form
        self.fresh: dict[str, Fresh] = {}
        self.ranges: dict[str, Ranges] = {}
        self.ranges_why: dict[str, int] = {}
        self.rules: list[Rule] = []
        self.bounds: dict[Dim, tuple[int, int]] = {}  # dim without constant -> (constant, why): sum >= 0
        self.exact: dict[FloorDiv, tuple[int, int]] = {}  # num/number -> (remainder, why)
        self.members: list[Item] = []
        self.distinct: list[Item] = []
        self.stuck: list[Item] = []
        self.choices: list[Item] = []
        self.resolved: dict[str, tuple[Dim, int]] = {}
        self.memo: dict[Dim, tuple[Dim, int]] = {}
        self.sign_memo: dict[Dim, tuple[bool, int]] = {}
        self.queue: deque[Item] = deque()
        self.used = 0  # assumptions that the current question has touched
        self.effort = Effort(_EFFORT)
        self.meanings: dict[Atom, tuple[Dim, ...]] = {}
        self.pairs_left = _MAX_PAIRS
        self.next_fresh = 0

    def copy(self) -> World:
        """An independent world with the same assumptions."""
        new = World.__new__(World)
        new.symbol_order = self.symbol_order
        for table in _TABLES:
            setattr(new, table, dict(getattr(self, table)))
        for store in _STORES:
            setattr(new, store, list(getattr(self, store)))
        new.queue = deque()
        new.used = self.used
        new.effort = self.effort
        new.meanings = self.meanings
        new.pairs_left = self.pairs_left
        new.next_fresh = self.next_fresh
        self.effort.left -= _COPY_COST
        return new

    def spend(self, effort: int = _EFFORT) -> None:
        """Begin a question that may cost this much."""
        self.effort = Effort(effort)

    # ---- adding ----

    def add(self, items: Iterable[Item]) -> None:
        """Assume these and solve.  Raises Clash."""
        self.queue.extend(items)
        steps = _MAX_STEPS + _STEPS_PER_ITEM * len(self.queue)
        while self.queue:
            steps -= 1
            item = self.queue.popleft()
            if steps < 0:  # what was not digested is only not used
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
        why = item.why | self.used
        if item.kind == "==":
            self._equation(dim, why)
        elif item.kind == ">=":
            self._at_least_zero(dim, why)
        elif item.kind == "!=":
            self._distinct_from_zero(dim, why)
        else:
            self._member(dim, item.ranges, why)

    def _forget_answers(self) -> None:
        self.memo.clear()
        self.sign_memo.clear()

    def _new_symbol(self, fresh: Fresh) -> Dim:
        name = f"{_FRESH}{self.next_fresh}"
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
        for atom, (remainder, why) in list(self.exact.items()):
            if touched(of_atom(atom)):
                del self.exact[atom]
                assert atom.den.const is not None
                num, k = atom.num, atom.den.const
                self.queue.append(Item("==", num - remainder - k * of_atom(atom), why))
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
            self._forget_answers()
            if self.normal(part) is part:
                self.bounds[part] = (constant, why)
            else:
                self.queue.append(Item(">=", part + constant, why))
            self._forget_answers()
        for store in (self.members, self.distinct, self.stuck):
            for item in [i for i in store if touched(i.dim)]:
                store.remove(item)
                self.queue.append(item)

    def _solve(self, name: str, value: Dim, why: int, by_equation: bool = True) -> None:
        """name := value, where value holds no name."""
        self._forget_answers()
        self.effort.left -= _SOLVE_COST
        self.resolved.clear()
        self.solved[name] = Solved(value, why, len(self.solved))
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
        if plain is None or name.startswith(_FRESH):
            return
        quotient, scale, offset = plain
        shown = self.fresh.get(quotient)
        if shown is None or shown.divisor is None or shown.divisor.const != scale:
            return
        old = linear_symbol(shown.meaning)
        if old and not old[0].startswith(_FRESH) and self.symbol_order(name) < self.symbol_order(old[0]):
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
        positive = is_nonnegative(dim)
        if (positive or is_nonnegative(-dim)) and len(dim.terms) > 1 and _all_same_sign(dim):
            for mono, _ in dim.terms:
                self.queue.append(Item("==", from_terms([(mono, 1)]), why))
            return
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
            while True:
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
            self._forget_answers()
            self.exact.update(
                (a, (r, why))
                for a in dim.atoms()
                if isinstance(a, FloorDiv) and a.num is num and a.den.const == k
            )
            return True
        for atom in dim.atoms():
            if not isinstance(atom, FloorDiv) or atom.den.const is not None or not is_positive(atom.den):
                continue
            plain = linear_symbol(atom.num)
            if plain is None or plain[1:] != (1, 0) or plain[0] in atom.den.symbols():
                continue
            whole = atom.num - atom.den * of_atom(atom)
            if dim not in (whole, -whole):
                continue
            fresh = self._new_symbol(Fresh(symbol(plain[0]), atom.den))
            self._solve(plain[0], fresh * atom.den, why)
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
                self._forget_answers()
                self.stuck.append(item)
                self._store_bound(dim, why)
                self._store_bound(-dim, why)
            return
        mono, c = lead
        new = Rule(mono, from_terms([(mono, 1)]) - c * dim, why)
        self._forget_answers()
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
            self.queue.extend(Item(">=", d, why) for d in self.meaning_of(atom))

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
        if is_positive(-dim):
            raise Clash(why)
        if is_nonnegative(-dim):
            self.queue.append(Item("==", dim, why))
            return
        dim, why = self._without_positive_factors(dim, why)
        plain = linear_symbol(dim)
        if plain is not None:
            name, scale, offset = plain
            self._narrow(name, preimage(((0, None),), scale, offset), why)
            return
        if not self._slack_from(dim, why):
            self._store_bound(dim, why)

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
        self._forget_answers()
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
        self._forget_answers()
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

    # ---- normal form ----

    @property
    def is_plain(self) -> bool:
        """Whether nothing is assumed that could change a size."""
        return not (self.solved or self.rules or self.bounds or self.ranges or self.exact)

    def value_of(self, name: str) -> tuple[Dim, int]:
        """(value, why) of a solved symbol, in the symbols that are still free."""
        if name not in self.resolved:
            needed = {name}
            frontier = [name]
            while frontier:
                for inner in self.solved[frontier.pop()].value.symbols():
                    if inner in self.solved and inner not in self.resolved and inner not in needed:
                        needed.add(inner)
                        frontier.append(inner)
            for one in sorted(needed, key=lambda n: -self.solved[n].rank):
                entry = self.solved[one]
                value, why = entry.value, entry.why
                inside = {n: self.resolved[n] for n in value.symbols() if n in self.solved}
                for _, inner_why in inside.values():
                    why |= inner_why
                self.resolved[one] = value.substitute({n: v for n, (v, _) in inside.items()}), why
        return self.resolved[name]

    def normal(self, dim: Dim) -> Dim:
        """The size in terms of the symbols that are left, with all that is known."""
        known = self.memo.get(dim)
        if known is None:
            outer, self.used = self.used, 0
            known = (self._normal(dim), self.used)
            self.used = outer
            self.effort.left -= _NORMAL_COST
            if self.effort.left > 0:  # what was cut short is not kept
                self.memo[dim] = known
        self.used |= known[1]
        return known[0]

    def _normal(self, dim: Dim) -> Dim:
        names = dim.symbols()
        if not names.isdisjoint(self.solved):
            values: dict[str, Dim] = {}
            for name in names:
                if name in self.solved:
                    values[name], why = self.value_of(name)
                    self.used |= why
            dim = dim.substitute(values)
        for _ in range(4):
            before = dim
            if any(not isinstance(a, Symbol) for m, _ in dim.terms for a, _ in m):
                dim = self._exact_divisions(dim.map_atoms(self._atom))
            if self.rules:
                dim = self._rewrite(dim)
            if dim is before:
                break
        return dim

    def _atom(self, atom: Atom) -> Dim:
        """An atom, its inside in normal form and simplified where a sign is known."""
        if isinstance(atom, Relu):
            arg = self.normal(atom.arg)
            if self.nonnegative(arg):
                return arg
            if self.nonnegative(-arg):
                return const(0)
            return relu(arg)
        if isinstance(atom, FloorDiv):
            num, den = self.normal(atom.num), self.normal(atom.den)
            if den.const is None and not is_positive(den):
                if self.nonnegative(den - 1):
                    return self._division(num, den)
                if self.nonnegative(-den - 1):
                    return self._division(-num, -den)
                return floordiv(num, den)
            return floordiv(num, den) if den.const == 0 else self._division(num, den)
        return of_atom(atom)

    def _division(self, num: Dim, den: Dim) -> Dim:
        """floor(num / den) with den known >= 1 (or a number that is not 0)."""
        value = floordiv(num, den) if den.const is not None else floordiv_positive(num, den)
        lone = ((m[0][0], c) for m, c in value.terms if len(m) == 1 and m[0][1] == 1 and abs(c) == 1)
        found = [(a, c) for a, c in lone if isinstance(a, FloorDiv)]
        if len(found) != 1:
            return value
        atom, c = found[0]
        rest = value - c * of_atom(atom)
        if self.nonnegative(atom.num) and self.nonnegative(atom.den - 1 - atom.num):
            return rest
        if atom.den.const is None:
            for q in (-1, 1):  # num = q*den + r by what is known, where the form alone does not show it
                left = atom.num - q * atom.den
                if self.nonnegative(left) and self.nonnegative(atom.den - 1 - left):
                    return rest + c * q
        return value

    def _exact_divisions(self, dim: Dim) -> Dim:
        """k*floor(num/k) = num - r where num % k == r is known."""
        for atom, (remainder, why) in self.exact.items():
            k = atom.den.const
            assert k is not None
            for mono, c in dim.terms:
                if c % k == 0 and (atom, 1) in mono:
                    rest = divide_monomial(mono, ((atom, 1),))
                    assert rest is not None
                    dim = (
                        dim - from_terms([(mono, c)]) + from_terms([(rest, c // k)]) * (atom.num - remainder)
                    )
                    self.used |= why
        return dim

    def _rewrite(self, dim: Dim) -> Dim:
        start = dim
        for _ in range(_MAX_REWRITES):
            step = self._rewrite_once(dim)
            if step is None:
                return dim
            dim = step
        return start

    def _rewrite_once(self, dim: Dim) -> Dim | None:
        for mono, c in dim.terms:
            for rule in self.rules:
                rest = divide_monomial(mono, rule.lead)
                if rest is not None:
                    self.used |= rule.why
                    return dim - from_terms([(mono, c)]) + from_terms([(rest, c)]) * rule.rest
        return None

    # ---- signs ----

    def meaning_of(self, atom: Atom) -> tuple[Dim, ...]:
        """Sizes that are >= 0 by the meaning of the atom."""
        known = self.meanings.get(atom)
        if known is None:
            this = of_atom(atom)
            if isinstance(atom, Relu):
                known = (this, this - atom.arg)
            elif isinstance(atom, FloorDiv) and (atom.den.const or is_positive(atom.den)):
                known = (atom.num - atom.den * this, atom.den * this + atom.den - 1 - atom.num)
            else:
                known = ()
            self.meanings[atom] = known
        return known

    def is_free(self, mono: Monomial) -> bool:
        """Whether a monomial may be negative."""
        return not all(a.nonnegative or p % 2 == 0 for a, p in mono)

    def nonnegative(self, dim: Dim) -> bool:
        """Whether dim >= 0 follows quickly: form, ranges, one elimination.  dim is in normal form."""
        if is_nonnegative(dim):
            return True
        if (
            not self.bounds
            and not self.ranges
            and all(isinstance(a, Symbol) for m, _ in dim.terms for a, _ in m)
        ):
            return False
        known = self.sign_memo.get(dim)
        if known is None and self.effort.left <= 0:
            return False
        if known is None:
            self.sign_memo[dim] = (False, 0)  # an inner question about the same size gets no answer
            why = self._nonnegative_by_ranges(dim)
            if why is None:
                why = contradiction(
                    self.near_rows([row_of(-dim - 1)], _MAX_NEAR_ROWS), self.is_free, self.effort
                )
            known = (why is not None, why or 0)
            self.sign_memo[dim] = known
        if known[0]:
            self.used |= known[1]
        return known[0]

    def _nonnegative_by_ranges(self, dim: Dim) -> int | None:
        """The assumptions by which the largest values of the negative terms leave dim >= 0, or None."""
        total = why = 0
        for mono, c in dim.terms:
            if not mono:
                total += c
                continue
            if self.is_free(mono):
                return None
            if c > 0:
                continue
            high = c
            for atom, power in mono:
                ranges = self.ranges.get(atom.name) if isinstance(atom, Symbol) else None
                top = hull(ranges)[1] if ranges else None
                if top is None or not isinstance(atom, Symbol):
                    return None
                high *= top**power
                why |= self.ranges_why[atom.name]
            total += high
        return why if total >= 0 else None

    def near_rows(self, start: list[Row], limit: int, about: Iterable[Monomial] = ()) -> list[Row]:
        """The start and the known rows near its variables (and those of `about`), up to a limit."""
        rows = list(start)
        seen: set[Monomial] = set()
        frontier: list[Monomial] = []

        def visit(new: Iterable[Monomial]) -> None:
            for m in new:
                if m not in seen:
                    seen.add(m)
                    frontier.append(m)

        visit(about)
        for row in start:
            visit(row.terms)
        waiting = list(self.bounds.items())
        while frontier and len(rows) < limit:
            current = frontier
            frontier = []
            for mono in current:
                for row in self.variable_rows(mono) if len(rows) < limit else ():
                    rows.append(row)
                    visit(row.terms)
            left: list[tuple[Dim, tuple[int, int]]] = []
            for part, (constant, why) in waiting:
                if any(m in seen for m, _ in part.terms):
                    rows.append(row_of(part + constant, why))
                    visit(m for m, _ in part.terms)
                else:
                    left.append((part, (constant, why)))
            waiting = left
        self.effort.left -= _ROW_COST * len(rows)
        return rows

    def variable_rows(self, mono: Monomial) -> list[Row]:
        """What is known about one variable by itself."""
        if len(mono) != 1 or mono[0][1] != 1:
            return self._monomial_rows(mono)
        atom = mono[0][0]
        if isinstance(atom, Symbol):
            ranges = self.ranges.get(atom.name)
            high = hull(ranges)[1] if ranges else None
            if high is None:
                return []
            return [Row({mono: -1}, high, self.ranges_why[atom.name])]
        rows = [row_of(d) for d in self.meaning_of(atom)]
        known = self.exact.get(atom) if isinstance(atom, FloorDiv) else None
        if isinstance(atom, FloorDiv) and known is not None:
            rows.append(row_of(atom.den * of_atom(atom) + known[0] - atom.num, known[1]))
            rows.append(row_of(atom.num - known[0] - atom.den * of_atom(atom), known[1]))
        return rows

    def _monomial_rows(self, mono: Monomial) -> list[Row]:
        """mono <= hi * (mono without one factor), for factors with an upper bound."""
        rows: list[Row] = []
        if self.is_free(mono):
            return rows
        for atom, _ in mono:
            ranges = self.ranges.get(atom.name) if isinstance(atom, Symbol) else None
            high = hull(ranges)[1] if ranges else None
            if isinstance(atom, Symbol) and high is not None:
                rest = divide_monomial(mono, ((atom, 1),))
                assert rest is not None
                rows.append(
                    Row({mono: -1, rest: high} if rest else {mono: -1}, 0, self.ranges_why[atom.name])
                )
            elif not isinstance(atom, Symbol):
                rest = divide_monomial(mono, ((atom, 1),))
                assert rest is not None
                if all(a.nonnegative for a, _ in rest):
                    rows.extend(row_of(d * from_terms([(rest, 1)])) for d in self.meaning_of(atom))
        return rows


def _monomial_symbols(mono: Monomial) -> frozenset[str]:
    return frozenset().union(*(a.symbols for a, _ in mono))


def _all_same_sign(dim: Dim) -> bool:
    return len({c > 0 for _, c in dim.terms}) == 1


def shown(world: World, dim: Dim) -> Dim:
    """The size with fresh symbols replaced by what they stand for."""
    for _ in range(3 + len(world.fresh)):
        names = [n for n in dim.symbols() if n.startswith(_FRESH)]
        if not names:
            return dim
        slacks = [n for n in names if world.fresh[n].is_slack]
        if slacks:
            newest = max(slacks, key=lambda n: int(n[1:]))
            dim = dim.substitute({newest: world.fresh[newest].meaning})
        else:
            newest = max(names, key=lambda n: int(n[1:]))
            dim = _show_quotient(dim, newest, world.fresh[newest])
    return dim


def _show_quotient(dim: Dim, name: str, fresh: Fresh) -> Dim:
    """c*q becomes (c/g) * (meaning // (divisor/g)): coefficients go into the division first."""
    atom = symbol(name).terms[0][0][0][0]
    den = fresh.divisor
    assert den is not None

    def inside(other: Atom) -> Dim:
        if name not in other.symbols or isinstance(other, Symbol):
            return of_atom(other)
        if isinstance(other, Relu):
            return relu(_show_quotient(other.arg, name, fresh))
        assert isinstance(other, FloorDiv)
        return floordiv(_show_quotient(other.num, name, fresh), _show_quotient(other.den, name, fresh))

    dim = dim.map_atoms(inside)
    plain = floordiv(fresh.meaning, den)
    divided = [(divide_monomial(m, ((atom, 1),)), c) for m, c in dim.terms]
    factor = from_terms((m, c) for m, c in divided if m is not None)
    rest = dim - from_terms((multiply_monomials(m, ((atom, 1),)), c) for m, c in factor.terms)
    if den.const is None:
        quotient, left = divide(factor, den)
        whole = quotient * fresh.meaning + left * plain
    else:
        whole = const(0)
        for mono, c in factor.terms:
            common = gcd(c, den.const)
            part = from_terms([(mono, c // common)])
            whole += part * floordiv(fresh.meaning, den.const // common)
    return rest + whole.substitute({name: plain})
