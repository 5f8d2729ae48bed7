"""What is known about sizes, solved: the state and the questions that it answers by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from egshape.decide.linear import Effort, Row, contradiction, row_of
from egshape.dims import (
    Atom,
    Call,
    Dim,
    FloorDiv,
    Monomial,
    Relu,
    Symbol,
    is_nonnegative,
)
from egshape.dims.bounds import floordiv_bounds, relu_bounds
from egshape.dims.core import Function, call_atom, divide_monomial, from_terms, natural_key, of_atom
from egshape.dims.forms import Forms, broadcast_gap, laws_of
from egshape.facts.absorb import linear_symbol
from egshape.facts.intervals import Ranges, hull

FRESH = "\x00"  # the names of fresh symbols begin with this
_MAX_REWRITES = 60
_MAX_PAIRS = 40
_MAX_NEAR_ROWS = 40
_EFFORT = 40_000
_MANY = 16
_ROW_COST, _PRODUCT_COST, _NORMAL_COST, _TERM_COST, _COPY_COST = 8, 60, 15, 2, 60

_TABLES = (
    *("solved", "fresh", "ranges", "ranges_why", "bounds", "exact", "resolved"),
    *("memo", "sign_memo", "interval_memo"),
)
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
    rank: int  # above those of all that were solved before


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

    @property
    def symbols(self) -> frozenset[str]:
        """Those that it speaks of."""
        return self.dim.symbols().union(*(choice.symbols for choice in self.choices))


class Known(Forms):
    """The solved state, and sizes and signs by it.  `egshape.decide.world.World` adds to it."""

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
        self.interval_memo: dict[Atom, tuple[int | None, int | None, int]] = {}  # without symbols
        self.used = 0  # assumptions that the current question has touched
        self.effort = Effort(_EFFORT)
        self.product_rows: dict[Monomial, tuple[Row, ...]] = {}  # hangs on nothing assumed
        self.pairs_left = _MAX_PAIRS
        self.next_fresh = 0

    def copy(self) -> Self:
        """An independent state with the same assumptions; cheap."""
        new = type(self).__new__(type(self))
        new.symbol_order = self.symbol_order
        for table in _TABLES:
            setattr(new, table, dict(getattr(self, table)))
        for store in _STORES:
            setattr(new, store, list(getattr(self, store)))
        new.used = self.used
        new.effort = self.effort
        new.product_rows = self.product_rows
        new.pairs_left = self.pairs_left
        new.next_fresh = self.next_fresh
        self.effort.left -= _COPY_COST
        return new

    def spend(self, effort: int = _EFFORT) -> None:
        """Begin a question that may cost this much."""
        self.effort = Effort(effort)

    def forget_answers(self) -> None:
        self.memo.clear()
        self.sign_memo.clear()
        self.interval_memo.clear()

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
            self.effort.left -= _NORMAL_COST + _TERM_COST * (len(dim.terms) + len(known[0].terms))
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
        if self.effort.left <= 0:  # equal, if not in the one form
            return dim
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
        """An atom made anew of its parts in normal form."""
        return self.remade(atom, map(self.normal, atom.args))

    def call(self, function: Function, args: tuple[Dim, ...]) -> Dim:
        """function(args): what rules make of it, else what it is equal to."""
        found = super().call(function, args)
        if function.known and found.terms == ((((call_atom(function, args), 1),), 1),):
            return function.unfolded(*args) or found
        return found

    def joins(self, one: Dim, two: Dim) -> bool:
        """Whether two sizes in normal form are known to be equal, or one of them to be 1.

        Nothing is made anew of atoms here: an equation may have the value itself in them, which asks this again."""
        before = self.used
        known = self._rewrite(broadcast_gap(one, two)).const == 0
        if not known:
            self.used = before
        return known

    def at_least(self, dim: Dim, number: int) -> bool:
        """Whether dim >= number follows quickly. dim is in normal form."""
        if dim.const is not None:
            return dim.const >= number
        return self.nonnegative(dim - number if number else dim)

    def remainder(self, atom: FloorDiv) -> Dim:
        """num - r - k*(num//k), which is 0, where num % k == r is known."""
        return atom.num - self.exact[atom][0] - atom.den * of_atom(atom)

    def _exact_divisions(self, dim: Dim) -> Dim:
        """k*floor(num/k) = num - r where num % k == r is known."""
        for atom, (remainder, why) in self.exact.items():
            k = atom.den.const
            assert k is not None
            for mono, c in dim.terms:
                if c % k == 0 and (atom, 1) in mono:
                    rest = divide_monomial(mono, ((atom, 1),))
                    assert rest is not None
                    dim = dim - from_terms([(mono, c)]) + from_terms([(rest, c // k)]) * (atom.num - remainder)
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

    def is_free(self, mono: Monomial) -> bool:
        """Whether a monomial may be negative."""
        return not all(a.nonnegative or p % 2 == 0 for a, p in mono)

    def nonnegative(self, dim: Dim) -> bool:
        """Whether dim >= 0 follows quickly: form, ranges, one elimination.  dim is in normal form."""
        if is_nonnegative(dim):
            return True
        if not self.bounds and not self.ranges and all(isinstance(a, Symbol) for m, _ in dim.terms for a, _ in m):
            return False
        known = self.sign_memo.get(dim)
        if known is None and self.effort.left <= 0:
            return False
        if known is None:
            self.sign_memo[dim] = (False, 0)  # an inner question about the same size gets no answer
            low, _, range_why = self.interval(dim)
            why: int | None = range_why
            if low is None or low < 0:
                why = contradiction(self.near_rows([row_of(-dim - 1)], _MAX_NEAR_ROWS), self.is_free, self.effort)
            known = (why is not None, why or 0)
            self.sign_memo[dim] = known
        if known[0]:
            self.used |= known[1]
        return known[0]

    def interval(self, dim: Dim) -> tuple[int | None, int | None, int]:
        """(low, high, why) by the ranges of its symbols alone; None where there is no bound."""
        low: int | None = 0
        high: int | None = 0
        why = 0
        for mono, c in dim.terms:
            bottom, top, part_why = self._monomial_interval(mono)
            if c < 0:
                bottom, top = top, bottom
            low = None if low is None or bottom is None else low + c * bottom
            high = None if high is None or top is None else high + c * top
            why |= part_why
            if low is None and high is None:
                return None, None, 0
        return low, high, why

    def _monomial_interval(self, mono: Monomial) -> tuple[int | None, int | None, int]:
        if self.is_free(mono):
            atom, power = mono[0]
            return self._atom_interval(atom) if len(mono) == 1 and power == 1 else (None, None, 0)
        low, high, why = 1, 1, 0
        unbounded = False
        for atom, power in mono:
            bottom, top, part_why = self._atom_interval(atom)
            low *= max(bottom or 0, 0) ** power
            why |= part_why
            if top is None or not atom.nonnegative:
                unbounded = True
            else:
                high *= top**power
        return low, None if unbounded else high, why

    def _atom_interval(self, atom: Atom) -> tuple[int | None, int | None, int]:
        if isinstance(atom, Symbol):
            ranges = self.ranges.get(atom.name)
            return (0, None, 0) if ranges is None else (*hull(ranges), self.ranges_why[atom.name])
        known = self.interval_memo.get(atom)  # a maximum in a maximum in a maximum reads the inner ones again and again
        if known is None:
            known = self.interval_memo[atom] = self._compound_interval(atom)
        return known

    def _compound_interval(self, atom: Atom) -> tuple[int | None, int | None, int]:
        if isinstance(atom, Relu):
            low, high, why = self.interval(atom.arg)
            return (*relu_bounds((low, high)), why)
        if isinstance(atom, Call):
            return self._call_interval(atom)
        assert isinstance(atom, FloorDiv)
        low, high, why = self.interval(atom.num)
        least, most, den_why = self.interval(atom.den)
        if atom.nonnegative and not least:  # where it has a value its divisor is not 0
            least = 1
        return (*floordiv_bounds((low, high), (least, most)), why | den_why)

    def _call_interval(self, atom: Call) -> tuple[int | None, int | None, int]:
        bounds, why = [], 0
        for arg in atom.args:
            low, high, part_why = self.interval(arg)
            bounds.append((low, high))
            why |= part_why
        return (*atom.function.bounds(*bounds), why)

    def near_rows(self, start: list[Row], limit: int, about: Iterable[Monomial] = ()) -> list[Row]:
        """The start and the known rows near its variables (and those of `about`), up to a limit."""
        rows = list(start)
        seen: set[Monomial] = set()
        names: set[str] = set()
        frontier: list[Monomial] = []

        def visit(new: Iterable[Monomial]) -> None:
            for m in new:
                if m not in seen:
                    seen.add(m)
                    frontier.append(m)
                    names.update(name for atom, _ in m for name in atom.symbols)

        def is_near(part: Dim) -> bool:
            # what an atom means ties it to the symbols in it
            return any(m in seen or (_is_compound(m) and not names.isdisjoint(m[0][0].symbols)) for m, _ in part.terms)

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
                if is_near(part):
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
        rows = [row_of(d) for d in laws_of(atom)]
        bottom, top, why = self._atom_interval(atom)
        if bottom and isinstance(atom, Call):
            rows.append(Row({mono: 1}, -bottom, why))
        if top is not None:
            rows.append(Row({mono: -1}, top, why))
        known = self.exact.get(atom) if isinstance(atom, FloorDiv) else None
        if isinstance(atom, FloorDiv) and known is not None:
            rows += (row_of(each, known[1]) for each in (self.remainder(atom), -self.remainder(atom)))
        return rows

    def _monomial_rows(self, mono: Monomial) -> list[Row]:
        """mono <= hi * (mono without one factor), and what its factors mean times the others."""
        if self.is_free(mono):
            return []
        rows = list(self._products_of_meanings(mono))
        for atom, _ in mono:
            ranges = self.ranges.get(atom.name) if isinstance(atom, Symbol) else None
            high = hull(ranges)[1] if ranges else None
            if isinstance(atom, Symbol) and high is not None:
                rows.append(Row({mono: -1, _without(mono, atom): high}, 0, self.ranges_why[atom.name]))
        return rows

    def _products_of_meanings(self, mono: Monomial) -> tuple[Row, ...]:
        known = self.product_rows.get(mono)
        if known is None:
            found: list[Row] = []
            for atom, _ in mono:
                rest = _without(mono, atom)
                if isinstance(atom, Call):  # its laws may speak of its powers, and of products
                    found.extend(map(row_of, laws_of(atom)))
                if not isinstance(atom, Symbol) and all(a.nonnegative for a, _ in rest):
                    factor = from_terms([(rest, 1)])
                    found.extend(row_of(d * factor) for d in laws_of(atom))
            self.effort.left -= _PRODUCT_COST * len(found)
            known = self.product_rows[mono] = tuple(found)
        return known


def _is_compound(mono: Monomial) -> bool:
    return len(mono) == 1 and mono[0][1] == 1 and not isinstance(mono[0][0], Symbol)


def _without(mono: Monomial, atom: Atom) -> Monomial:
    rest = divide_monomial(mono, ((atom, 1),))
    assert rest is not None
    return rest


def larger_first(items: list[Item]) -> list[Item]:
    """Of many orders x >= y + c between symbols those of the larger symbols first.

    Then each is solved by symbols that are still free, and a chain of n orders stays n short values.
    """
    if len(items) < _MANY:
        return items
    above: dict[str, list[tuple[Item, str]]] = {}  # the orders by their larger symbol, with the smaller one
    waiting: dict[str, int] = {}  # how many orders above a symbol are not placed yet
    others: list[Item] = []
    for item in items:
        ends = _two_symbols(item.dim) if item.kind == ">=" else None
        if ends is None:
            others.append(item)
            continue
        above.setdefault(ends[0], []).append((item, ends[1]))
        waiting[ends[1]] = waiting.get(ends[1], 0) + 1
    ready = deque(name for name in above if not waiting.get(name))
    placed: list[Item] = []
    while ready:
        for item, smaller in above.pop(ready.popleft(), ()):
            placed.append(item)
            waiting[smaller] -= 1
            if not waiting[smaller]:
                ready.append(smaller)
    return [*placed, *(item for left in above.values() for item, _ in left), *others]


def _two_symbols(dim: Dim) -> tuple[str, str] | None:
    """(x, y) if dim is x - y + a number."""
    one, two = dim.terms[:2] if len(dim.terms) > 1 else (None, None)
    if one is None or two is None or len(dim.terms) > 2 + (not dim.terms[-1][0]) or one[1] + two[1]:
        return None
    names = [linear_symbol(from_terms([(m, 1)])) for m, _ in (one, two)]
    if abs(one[1]) != 1 or names[0] is None or names[1] is None:
        return None
    return (names[0][0], names[1][0]) if one[1] == 1 else (names[1][0], names[0][0])
