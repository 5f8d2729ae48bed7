"""The exchange between the rules over sizes (e-graph) and polynomial arithmetic (Python).

Rules know floordiv, Relu, bounds, divisibility and orders, and treat a size as a leaf `(P id)`; Python
knows sums and products. Each round saturates, reads which sizes became equal, reduces all sizes by these
equations, names the sums and products that rules asked for, and writes new equalities back, until neither
side learns anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from egshape.decide.reason import CONGRUENCE, MEANING, Reason, Rule
from egshape.dims import Call, Dim, const, floordiv, is_positive, relu
from egshape.dims.core import Function, natural_key, of_atom
from egshape.dims.forms import FORMS, broadcast_gap
from egshape.dims.functions import SHIPPED
from egshape.dims.theory import call_parts
from egshape.egraph.basis import Basis, SymbolOrder
from egshape.egraph.budget import Budget, Growth, Phase, Stop
from egshape.egraph.engine import Cell, Engine
from egshape.egraph.snapshot import Snapshot
from egshape.egraph.splits import LIMIT, Split, call, division, edge, goal, ramp, split, weight
from egshape.rulelang.loader import LoadedRules, load_rulesets
from egshape.rulelang.provenance import EquationLog
from egshape.rulelang.sexpr import Atom, SExpr
from egshape.rulelang.size_functions import functions_of

SHAPE_RULESETS = (
    "size.dim",
    "size.interval",
    "size.floordiv",
    "size.relu",
    "size.bcast",
    "size.float",
    "size.order",
)
_MAX_ROUNDS = 12
_TABLES = ("P", "Num", "Add", "Mul", "FloorDiv", "Relu", "lo", "hi")
"""What a round reads of the e-graph, beside the logs of the rules."""

_DEFAULT_BUDGET = Budget(seconds=2.0, steps=2000)


class Equality(NamedTuple):
    """left = right, by a rule, a given reason, or CONGRUENCE (equal because their parts are)."""

    left: Dim
    right: Dim
    reason: Reason


class Bounds(NamedTuple):
    """lo <= size <= hi; None where nothing is known."""

    lo: int | None
    hi: int | None


@dataclass(frozen=True, slots=True)
class ExchangeResult:
    """What an exchange found.

    normal_form: the simplest known size equal to a given one. equalities: the equations used, in order.
    bounds: of every size that was added. inconsistent: no sizes satisfy the facts (then all else is void);
    clash: the equations whose combination is impossible, where it was equations.
    status: "saturated", or "budget" when a limit stopped it (all results hold nevertheless).
    """

    normal_form: Callable[[Dim], Dim]
    equalities: tuple[Equality, ...]
    bounds: Mapping[Dim, Bounds]
    inconsistent: bool
    clash: tuple[Equality, ...]
    status: str
    seconds: float
    rounds: int


@dataclass(slots=True)
class ExchangeState:
    """The exchange inside of one scope of an engine; `fork` it when the engine opens an inner scope.

    order: sort key on symbol names; of equal sizes the one with the smaller names is the normal form.
    rules: what the engine was loaded with, for the logs. phases: rulesets to saturate in a round.
    empty: some size has a lower bound above its upper bound, so the facts admit nothing.
    """

    engine: Engine
    rules: LoadedRules
    phases: tuple[Phase | str, ...]
    order: SymbolOrder = natural_key
    dims: dict[int, Dim] = field(default_factory=dict)
    equalities: list[Equality] = field(default_factory=list)
    seconds: float = 0.0
    rounds: int = 0
    status: str = "saturated"
    stop: Stop | None = None
    """Why the rules over sizes ended before their end."""
    empty: bool = False
    matches: Counter[str] = field(default_factory=Counter)
    steps: list[Growth] = field(default_factory=list)
    times: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    basis: Basis = field(init=False)
    functions: Mapping[str, Function] = field(init=False)
    """The size functions of authors that the engine knows, by name, with those of their rules that are loaded."""
    _tables: dict[str, list[tuple[Cell, ...]]] = field(default_factory=lambda: defaultdict(list))
    _pending: list[Equality] = field(default_factory=list)
    _seen: dict[str, set[tuple[int, ...]]] = field(default_factory=lambda: defaultdict(set))
    _named: set[tuple[object, ...]] = field(default_factory=set)
    _lo: dict[int, int] = field(default_factory=dict)
    _hi: dict[int, int] = field(default_factory=dict)
    _class: dict[int, int] = field(default_factory=dict)
    _best: dict[Dim, Dim] | None = None
    _divisors: set[Dim] = field(default_factory=set)
    _positive_divisors: int = 0
    _weights: dict[Dim, int] = field(default_factory=dict)
    late: frozenset[str] = frozenset()
    """Symbols that an op defines, of which other sizes say what they are before it runs."""

    def __post_init__(self) -> None:
        self.basis = Basis(self.is_positive, self.order)
        self.functions = functions_of(self.rules)

    def fork(self) -> ExchangeState:
        """The state for an inner scope, which begins with what is known here."""
        copy = ExchangeState(self.engine, self.rules, self.phases, self.order, dict(self.dims), list(self.equalities))
        copy.empty = self.empty
        copy.basis = self.basis.fork(copy.is_positive)
        copy._pending = list(self._pending)
        copy._seen.update({table: set(rows) for table, rows in self._seen.items()})
        copy._named = set(self._named)
        copy._divisors = set(self._divisors)
        copy._lo, copy._hi, copy._class = dict(self._lo), dict(self._hi), dict(self._class)
        return copy

    def add_dims(self, dims: Iterable[Dim]) -> None:
        """Make sizes known to the e-graph, with their splits; they are loaded before the next saturation."""
        stack = list(dims)
        while stack:
            dim = stack.pop()
            if dim.id not in self.dims:
                self.dims[dim.id] = dim
                self._divisors.update(dim.divisors_maybe_zero())
                self._tables["P"].append((dim.id,))
                stack.extend(self._rows(split(dim, self.functions)))
                stack.extend(self._unfolded(dim))

    def _unfolded(self, dim: Dim) -> Iterator[Dim]:
        """The expression that the value of a function is taken as equal to."""
        for atom in dim.atoms() if len(dim.terms) == 1 else ():
            meaning = atom.function.unfolded(*atom.args) if isinstance(atom, Call) and atom.function.known else None
            if meaning is not None and dim is of_atom(atom):
                self._pending.append(Equality(dim, meaning, MEANING))
                yield meaning

    def add_equation(self, left: Dim, right: Dim, reason: Reason) -> None:
        """Take left = right as given. It is used once every divisor in it is known to be non-zero."""
        self.add_dims((left, right))
        self._pending.append(Equality(left, right, reason))

    def add_bounds(self, dim: Dim, lo: int | None, hi: int | None) -> None:
        """Take lo <= dim <= hi as given."""
        self.add_dims((dim,))
        for table, bound in (("in_lo", lo), ("in_hi", hi)):
            if bound is not None and abs(bound) < LIMIT:
                self._tables[table].append((dim.id, bound))

    def add_divisor(self, divisor: Dim, dim: Dim, reason: Reason) -> None:
        """Take as given that `divisor` divides `dim`."""
        self.add_dims((divisor, dim, floordiv(dim, divisor)))
        self._tables["in_dvd"].append((divisor.id, dim.id))
        if divisor.const:
            self.add_equation(dim, divisor * floordiv(dim, divisor), reason)

    def add_order(self, smaller: Dim, larger: Dim) -> None:
        """Take smaller <= larger as given."""
        self.add_dims(self._rows(edge(smaller, larger)))

    def add_goal(self, dim: Dim) -> None:
        """Ask for bounds of a size that is a difference, so that order facts are searched for it."""
        self.add_dims((dim, *self._rows(goal(dim))))

    def load(self) -> None:
        """Write what was added since the last time into the engine's tables."""
        tables, self._tables = self._tables, defaultdict(list)
        self.engine.load_tables(tables)

    def run(self, budget: Budget | None = None, max_rounds: int = _MAX_ROUNDS) -> None:
        """Rounds until nothing changes, or a limit is met."""
        limits = budget or _DEFAULT_BUDGET
        limits = replace(limits, seconds=None, deadline=limits.until())
        for _ in range(max_rounds):
            if not self.round(limits):
                return
        self.status = "budget"

    def round(self, budget: Budget) -> bool:
        """Saturate, exchange once, and write back; True if another round may learn more."""
        self.rounds += 1
        self._take_pending()
        self.load()
        done = self.engine.saturate(self.phases, budget)
        self.seconds += done.seconds
        self.matches.update(done.matches)
        self.steps += done.growth
        for ruleset, seconds in done.times.items():
            self.times[ruleset] += seconds
        changed = self.exchange(self.engine.read((*_TABLES, *self.functions, *(log.table for log in self.rules.logs))))
        if done.status == "budget":
            self.status, self.stop = "budget", done.stop
            return False
        return changed and not self.inconsistent

    def exchange(self, snapshot: Snapshot) -> bool:
        """Python's half of a round, on an e-graph that was saturated; True if it learned something."""
        self._best = None
        changed = self._read_bounds(snapshot)
        before = len(self.equalities)
        changed |= self._take_pending()
        for log in self.rules.logs:
            changed |= self._take_log(log, snapshot.table(log.table))
        changed |= self._take_classes(snapshot)
        self._name_requests(snapshot)
        self._write_joins()
        self._write_reduced()
        return changed or bool(self._tables) or len(self.equalities) > before

    def is_positive(self, dim: Dim) -> bool:
        """Whether a size is known to be >= 1."""
        if dim.const is not None:
            return dim.const > 0
        return is_positive(dim) or self._lo.get(self._class.get(dim.id, -1), 0) > 0

    def bounds(self, dim: Dim) -> Bounds:
        """What is known of a size that was added."""
        found = self._class.get(dim.id, -1)
        if dim.const is not None:
            return Bounds(dim.const, dim.const)
        return Bounds(self._lo.get(found), self._hi.get(found))

    def reduce(self, dim: Dim) -> Dim:
        """The common form of all sizes known to be equal; unchanged where that could hide a division by 0."""
        form = self.basis.reduce(dim)
        if form is dim or self._keeps_divisors(dim, form):
            return form
        return dim

    def normal_form(self, dim: Dim) -> Dim:
        """The simplest known size that is equal, the same for all sizes known to be equal."""
        if self._best is None:
            self._best = {}
            for known in self.dims.values():
                form = self.reduce(known)
                best = self._best.get(form)
                if best is None or self._complexity(known) < self._complexity(best):
                    self._best[form] = known
        form = self.reduce(dim)
        if form not in self._best:
            self._best[form] = min((form, *self.basis.unfolded(form)), key=self._complexity)
        return self._best[form]

    def is_late(self, dim: Dim) -> bool:
        """Whether a size is known by other sizes before all of its symbols are."""
        return not self.late.isdisjoint(dim.symbols())

    def _complexity(self, dim: Dim) -> tuple[object, ...]:
        """Simple sizes first: known early, number, symbol, few and flat terms; then by symbols; then a fixed order."""
        names = dim.symbols()
        by_name = sorted(map(self.order, names), reverse=True)
        return self.is_late(dim), weight(dim, self._weights), len(dim.terms), by_name, dim.key

    @property
    def inconsistent(self) -> bool:
        """Whether no sizes satisfy the facts."""
        return self.empty or bool(self.basis.contradictions)

    def result(self) -> ExchangeResult:
        """The outcome so far."""
        clash = self.basis.contradictions[0] if self.basis.contradictions else ()
        return ExchangeResult(
            self.normal_form,
            tuple(self.equalities),
            {dim: self.bounds(dim) for dim in self.dims.values()},
            self.inconsistent,
            tuple(self.equalities[i] for i in sorted(clash)),
            self.status,
            self.seconds,
            self.rounds,
        )

    def explain(self, left: Dim, right: Dim) -> tuple[Equality, ...] | None:
        """The equations that make two sizes equal, in the order found; None if they are not known equal."""
        one, used_one = self.basis.trace(left)
        two, used_two = self.basis.trace(right)
        if one is not two:
            return None
        return tuple(self.equalities[i] for i in sorted(used_one | used_two))

    def _rows(self, found: Split) -> tuple[Dim, ...]:
        for table, row in found.rows:
            self._tables[table].append(row)
        return found.parts

    def _keeps_divisors(self, dim: Dim, form: Dim) -> bool:
        open_ = [d for d in dim.divisors_maybe_zero() if not self.is_positive(d)]
        if not open_:
            return True
        left = set(form.divisors_maybe_zero())
        return all(d in left or self.basis.reduce(d) in left for d in open_)

    def _is_defined(self, *dims: Dim) -> bool:
        return all(self.is_positive(d) for dim in dims for d in dim.divisors_maybe_zero())

    def _take_pending(self) -> bool:
        """Use the given equations that are defined by now."""
        waiting, changed = [], False
        for equality in self._pending:
            if self._is_defined(equality.left, equality.right):
                changed |= self._learn(*equality)
                self._tables["in_eq"].append((equality.left.id, equality.right.id))
            else:
                waiting.append(equality)
        self._pending = waiting
        return changed

    def _learn(self, left: Dim, right: Dim, reason: Reason) -> bool:
        clashes = len(self.basis.contradictions)
        learned = self.basis.add(left, right, len(self.equalities))
        if learned or len(self.basis.contradictions) > clashes:
            self.equalities.append(Equality(left, right, reason))
        return learned

    def _read_bounds(self, snapshot: Snapshot) -> bool:
        self._class = snapshot.mapping("P")
        self._lo, self._hi = snapshot.mapping("lo"), snapshot.mapping("hi")
        hi = self._hi
        self.empty = self.empty or any(low > hi.get(node, low) for node, low in self._lo.items())
        divisors = {divisor for divisor in self._divisors if self.is_positive(divisor)}
        more = len(divisors) > self._positive_divisors
        self._positive_divisors = len(divisors)
        return self.basis.reset(divisors=more)

    def _take_log(self, log: EquationLog, rows: Sequence[tuple[int, ...]]) -> bool:
        """The equations that a rule's firings state, rebuilt from the names of its variables."""
        seen, changed = self._seen[log.table], False
        for row in rows:
            if row in seen:
                continue
            seen.add(row)
            values = dict(zip(log.variables, row, strict=True))
            left, right = self._size_of(log.left, values), self._size_of(log.right, values)
            if left is not None and right is not None and self._is_defined(left, right):
                changed |= self._learn(left, right, Rule.of(log.rule))
        return changed

    def _size_of(self, expr: SExpr, values: Mapping[str, int]) -> Dim | None:
        """The size of one side of a logged union; None where it goes through a shape or tensor."""
        if isinstance(expr, Atom):
            return self.dims.get(values.get(expr.text, -1))
        if expr.head == "Num":
            number = str(expr.items[1])
            return const(values[number] if number in values else int(number))
        parts = [self._size_of(item, values) for item in expr.items[1:]]
        known = [part for part in parts if part is not None]
        return self._request(expr.head, *known) if len(known) == len(parts) else None

    def _request(self, function: str, *args: Dim) -> Dim | None:
        """The polynomial of a request over sizes."""
        match function, args:
            case "Add", (a, b):
                return a + b
            case "Mul", (a, b):
                return a * b
            case "FloorDiv", (a, b):
                return self.basis.quotient(a, b)
            case "Relu", (a,):
                return relu(a)
        declared = self.functions.get(function)
        return None if declared is None else FORMS.call(declared, args)

    def _take_classes(self, snapshot: Snapshot) -> bool:
        """Sizes that share a class are equal."""
        changed = False
        first = {self._class[i]: dim for i, dim in reversed(self.dims.items()) if self._ok(dim)}
        for i, dim in self.dims.items():
            leader = first.get(self._class[i])
            if leader is None or leader is dim:
                continue
            if self.basis.reduce(leader) is not self.basis.reduce(dim) and self._ok(dim):
                changed |= self._learn(leader, dim, CONGRUENCE)
        for n, node in snapshot.table("Num"):
            leader = first.get(node)
            if leader is not None and self.basis.reduce(leader).const != n:
                changed |= self._learn(leader, const(n), CONGRUENCE)
        return changed

    def _ok(self, dim: Dim) -> bool:
        return not dim.divisors_maybe_zero() or self._is_defined(dim)

    def _name_requests(self, snapshot: Snapshot) -> None:
        """Give the sums, products and atoms that rules made their polynomial, innermost first."""
        value: dict[int, Dim] = {}
        for i, dim in reversed(self.dims.items()):
            value[self._class[i]] = dim
        for n, node in snapshot.table("Num"):
            value.setdefault(node, const(n))
        atoms = ("FloorDiv", "Relu", *self.functions)
        waiting = [(f, row[:-1], row[-1]) for f in ("Add", "Mul", *atoms) for row in snapshot.table(f)]
        loaded = self._loaded_atoms()
        waiting = [node for node in waiting if node[:2] not in loaded]
        progress = True
        while waiting and progress:
            left = []
            for node in waiting:
                if all(arg in value for arg in node[1]):
                    self._name_request(node, value)
                else:
                    left.append(node)
            progress, waiting = len(left) < len(waiting), left

    def _name_request(self, node: tuple[str, tuple[int, ...], int], value: dict[int, Dim]) -> None:
        function, classes, out = node
        args = tuple(value[arg] for arg in classes)
        size = self._request(function, *args)
        assert size is not None
        value.setdefault(out, size)
        key = (function, *(arg.id for arg in args))
        if key in self._named:
            return
        self._named.add(key)
        self.add_dims((*args, size))
        if function in ("Add", "Mul"):
            self._tables["in_" + function.lower()].append((size.id, *(arg.id for arg in args)))
        elif function == "FloorDiv":
            self.add_dims(self._rows(division(size, *args)))
        elif function == "Relu":
            self.add_dims(self._rows(ramp(size, *args)))
        else:
            self.add_dims(self._rows(call(size, self.functions[function], args)))

    def _loaded_atoms(self) -> set[tuple[str, tuple[int, ...]]]:
        """The atom nodes that came from a size's own form, with their arguments' classes: those need no name."""
        found: set[tuple[str, tuple[int, ...]]] = set()
        for dim in self.dims.values():
            if len(dim.terms) != 1 or dim.terms[0][1] != 1:
                continue
            mono = dim.terms[0][0]
            atom = mono[0][0] if len(mono) == 1 and mono[0][1] == 1 else None
            if atom is not None and atom.args:
                name = atom.function.name if isinstance(atom, Call) else type(atom).__name__
                found.add((name, tuple(self._class[arg.id] for arg in atom.args)))
        return found

    def _write_joins(self) -> None:
        """Say of which broadcast axes the sizes are known to broadcast."""
        for dim in list(self.dims.values()):
            args = call_parts(SHIPPED["bcast"], dim)
            if args is None or ("joins", dim.id) in self._named or self.basis.reduce(broadcast_gap(*args)).const != 0:
                continue
            self._named.add(("joins", dim.id))
            self._tables["in_joins"].append((args[0].id, args[1].id))

    def _write_reduced(self) -> None:
        """Put each size into one class with its reduced form."""
        for dim in list(self.dims.values()):
            form = self.reduce(dim)
            if form is dim or (form.id in self._class and self._class[form.id] == self._class.get(dim.id)):
                continue
            self.add_dims((form,))
            self._tables["in_eq"].append((dim.id, form.id))


def shape_program(extra: Iterable[str] = (), provenance: bool = True) -> LoadedRules:
    """The shipped rules over sizes (and `extra` rulesets), loaded."""
    return load_rulesets((*SHAPE_RULESETS, *extra), provenance)


def shape_phases(rules: LoadedRules) -> tuple[Phase | str, ...]:
    """The rulesets of a round of the exchange."""
    # A chain of orders advances one link a step, so it runs to its end within a round.
    chained = "size.order"
    return (
        "prelude.shape",
        *(Phase(name, None) if name == chained else Phase(name) for name in rules.names("size.")),
    )


def add_dims(state: ExchangeState, dims: Iterable[Dim]) -> None:
    """Make sizes known inside of a bigger e-graph, where nodes refer to them as (P id)."""
    state.add_dims(dims)
    state.load()


def exchange_round(state: ExchangeState, budget: Budget | None = None) -> bool:
    """One round inside of a bigger e-graph; True if another one may learn more."""
    return state.round(budget or _DEFAULT_BUDGET)


def exchange(
    engine: Engine,
    rules: LoadedRules,
    dims: Iterable[Dim] = (),
    equations: Iterable[tuple[Dim, Dim, Reason]] = (),
    bounds: Mapping[Dim, tuple[int | None, int | None]] | None = None,
    divisors: Iterable[tuple[Dim, Dim, Reason]] = (),
    orders: Iterable[tuple[Dim, Dim]] = (),
    budget: Budget | None = None,
) -> ExchangeResult:
    """Everything that follows for `dims` from the facts.

    engine: loaded with `rules.pieces`, in a scope of its own. equations: (left, right, reason).
    bounds: inclusive. divisors: (divisor, size, reason). orders: (smaller, larger).
    """
    state = ExchangeState(engine, rules, shape_phases(rules))
    state.add_dims(dims)
    for left, right, reason in equations:
        state.add_equation(left, right, reason)
    for dim, (low, high) in (bounds or {}).items():
        state.add_bounds(dim, low, high)
    for divisor, dim, reason in divisors:
        state.add_divisor(divisor, dim, reason)
    for smaller, larger in orders:
        state.add_order(smaller, larger)
    state.run(budget)
    return state.result()
