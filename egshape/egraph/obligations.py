"""Phase 1: walk the ops in program order; each fact that an op implies is proved from earlier ones, or kept as a
check and only then believed. No check is proved by its own fact, and a fact about sizes that the program computes
from data is believed only by later checks, never by a rewrite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import permutations

import numpy as np

from egshape.decide import reason
from egshape.decide.context import Context, Verdict
from egshape.decide.reason import FOLDED, TRUE, Believed, Given, Proved, Reason, Semantics, Step
from egshape.dims import Dim, Relu, bcast, broadcast_gap, const, is_nonnegative, mod, product, symbol
from egshape.egraph.engine import Engine
from egshape.egraph.joined import joined_sizes
from egshape.egraph.loops import Invariants, invariants
from egshape.egraph.twins import Twins
from egshape.errors import Contradiction, EgshapeError
from egshape.facts import Relation
from egshape.ir.builder import fits, small
from egshape.ir.calls import is_call
from egshape.ir.graph import Block, Op, SymbolDef, Value, relation_of
from egshape.ir.types import integer_range
from egshape.ops.base import Registry
from egshape.ops.checks import format_message
from egshape.ops.host import HOST_CALLS

_HARD_QUESTIONS = 32
_HARD_CASES = 120
_HARD_EFFORT = 200_000
"""How many questions of a block may be split into many cases, and what one of them may cost."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """A relation that op number ``index`` implies, and the rule that says so."""

    index: int
    rule: str
    relation: Relation
    said: str = ""
    """What is said where it does not hold; that it was expected, if nothing else is."""
    joined: Dim | None = None
    """A common size of broadcasts that is one of the sizes that it joins, once all that is said of these holds."""

    @property
    def message(self) -> str:
        """The message of its check."""
        return f"{self.rule}: {self.said or f'expected {self.relation}'}"


@dataclass(frozen=True, slots=True)
class Check:
    """What became of an obligation. ``op`` is the model's own check if it stood there, else None."""

    index: int
    relation: Relation | None
    message: str
    location: str
    status: str
    op: Op | None
    entry: bool
    """True if all sizes in it are known when the block is entered."""
    why: tuple[Step, ...] = ()
    args: tuple[Dim, ...] = ()
    """Sizes that fill the message's places."""
    fact: str = ""
    """What a user assumed, if it states that."""
    needed_by: Op | None = None
    """The op whose contract, or a rule over it, implies the relation."""


_SIZE_TABLES = ("P", "Num", "Sh")


@dataclass(frozen=True)
class Walk:
    """The result of phase 1: what holds (for rewriting), the checks in order, and the elements of shape code."""

    context: Context
    checks: tuple[Check, ...] = ()
    believed: tuple[Believed, ...] = ()
    """What rewrites may use, with its reason, in order: facts, kept checks on entry sizes, proved obligations."""
    elements: Mapping[Value, np.ndarray] = field(default_factory=dict)
    entry: frozenset[str] = frozenset()
    """The symbols that are known when the block is entered."""
    loops: Mapping[Op, Invariants] = field(default_factory=dict)
    """What is known of each loop of the block."""
    late: frozenset[str] = frozenset()
    """Symbols that ops define, of which sizes that are known when the block is entered say what they are."""
    same: Mapping[str, Dim] = field(default_factory=dict)
    """What symbols are that come of the same data as earlier ones."""
    left: frozenset[int] = frozenset()
    """The ops (by index) that stay as they came, which reject by themselves what their checks would."""

    @property
    def guarded(self) -> frozenset[int]:
        """The ops (by index) that imply something that rewrites may not use: about data-dependent sizes, which only a
        check can say, or of an op that is left as it came."""
        return self.left | frozenset(
            check.index for check in self.checks if check.status == "kept" and not check.entry and check.op is None
        )

    def here(self, held: Sequence[Believed]) -> Context:
        """What is known where the block runs: with the conditions of the branches that it lies in."""
        return _with(self.context, held)


def _with(context: Context, held: Sequence[Believed]) -> Context:
    """A context with more, or the same one where that is nothing or cannot be: then the branch never runs."""
    if not held:
        return context
    more = context.copy()
    try:
        more.assume_all(held)
    except Contradiction:
        return context
    return more


Implied = tuple[int, str, str, Dim, Dim]
"""What op number i requires of sizes: i, the label of the condition, its kind and sides."""


def required(block: Block, registry: Registry) -> Iterator[Implied]:
    """What the contracts of a block's ops require, but for ops whose results have no known rank."""
    for index, op in enumerate(block.ops):
        if not any(result.type.shape is None for result in op.results):
            for each in registry[op.name].requires(op):
                yield index, each.label, each.kind, each.lhs, each.rhs


def derived(engine: Engine, dims: Mapping[int, Dim], index_of: Mapping[int, int]) -> Iterator[Implied]:
    """What rules over the ops derived; ``index_of`` places nodes in the block."""
    snapshot = engine.read((*_SIZE_TABLES, *(name for name in engine.tables if name.startswith("must_"))))
    dim_of: dict[int, Dim] = {}
    for ident, cls in snapshot.table("P"):
        dim_of.setdefault(cls, dims[ident])
    for number, cls in snapshot.table("Num"):
        dim_of.setdefault(cls, const(number))
    for node, rule, p, q in snapshot.table("must_eq"):
        yield index_of[node], rule, "==", dim_of[p], dim_of[q]
    for node, rule, p, q in snapshot.table("must_le"):
        yield index_of[node], rule, "<=", dim_of[p], dim_of[q]
    for node, rule, divisor, p in snapshot.table("must_divide"):
        yield index_of[node], rule, "==", mod(dim_of[p], const(divisor)), const(0)
    for node, rule, p, factor, q in snapshot.table("must_multiple"):
        yield index_of[node], rule, "==", dim_of[p], dim_of[q] * factor
    for node, rule, p, q in snapshot.table("must_expand"):
        yield index_of[node], rule, "expands", dim_of[p], dim_of[q]
    shapes = {cls: vector for vector, cls in snapshot.table("Sh")}
    for node, rule, p, q in snapshot.table("must_product"):
        yield index_of[node], rule, "==", product(dim_of[d] for d in shapes[p]), product(dim_of[d] for d in shapes[q])


def obligations_of(implied: Sequence[Implied]) -> list[Obligation]:
    """What contracts and rules imply, in program order, but for what holds by form."""
    found: dict[tuple[int, str, Dim, Dim], Obligation] = {}

    def add(index: int, rule: str, kind: str, lhs: Dim, rhs: Dim, said: str = "", joined: Dim | None = None) -> None:
        if lhs is not rhs and not (kind == "<=" and is_nonnegative(rhs - lhs)):
            key = (index, kind, lhs, rhs)
            if key not in found:
                found[key] = Obligation(index, rule, Relation(kind, lhs, rhs), said, joined)

    for index, rule, kind, lhs, rhs in implied:
        if kind != "expands":
            add(index, rule, kind, lhs, rhs)
    expanded = [(index, rule, lhs, rhs) for index, rule, kind, lhs, rhs in implied if kind == "expands"]
    parts = _parts_of_targets(expanded)
    for index, rule, size, target in expanded:
        leaves, own = _leaves(target, parts), _leaves(size, parts)
        if target not in parts or not set(own) <= set(leaves):
            add(index, rule, "==", (size - 1) * (size - target), const(0))
            continue
        for one, two in ((one, two) for one in own for two in leaves):
            pair = sorted((one, two), key=lambda dim: dim.key)
            said = "{} and {} do not broadcast".format(*pair)
            add(index, rule, "==", broadcast_gap(*pair), const(0), said, target)
    return sorted(found.values(), key=lambda each: (each.index, each.rule, str(each.relation)))


_MAX_JOINED = 3
_MAX_BROUGHT = 5


def _parts_of_targets(expanded: Sequence[tuple[int, str, Dim, Dim]]) -> dict[Dim, tuple[Dim, ...]]:
    """Of sizes to which broadcasts bring others, those of them whose common size it is.

    That each of these is 1 or the common size is then the same as that any two of them broadcast, which is far shorter:
    written out, a common size is a polynomial that grows with each further one."""
    brought: dict[Dim, dict[Dim, None]] = {}
    for _, _, size, target in expanded:
        if size is not target:
            brought.setdefault(target, {})[size] = None
    out = {}
    for target, found in brought.items():
        sizes = sorted(found, key=lambda dim: dim.key)[:_MAX_BROUGHT]
        orders = (order for count in range(2, _MAX_JOINED + 1) for order in permutations(sizes, count))
        parts = next((order for order in orders if reduce(bcast, order) is target), None)
        if parts is not None:
            out[target] = parts
    return out


def _leaves(size: Dim, parts: Mapping[Dim, tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The sizes that a common size joins, through common sizes in between."""
    if size not in parts:
        return (size,)
    return tuple(dict.fromkeys(leaf for each in parts[size] for leaf in _leaves(each, parts)))


class Walker:
    """Walks one block. ``entry`` are the symbols known when the block is entered, ``left`` the ops (by index) that stay
    as they came."""

    def __init__(
        self,
        block: Block,
        context: Context,
        entry: frozenset[str],
        registry: Registry,
        elements: Mapping[Value, np.ndarray],
        believed: Sequence[Believed],
        top: bool,
        held: Sequence[Believed] = (),
        left: frozenset[int] = frozenset(),
    ) -> None:
        self.block = block
        self.left = left
        self.registry = registry
        self.top = top
        self.entry = entry | {s.name for s in block.symbols if s.value in block.args}
        self.context = context
        self.checks: list[Check] = []
        self.believed = list(believed)
        self.elements = dict(elements)
        self.loops: dict[Op, Invariants] = {}
        self.late: frozenset[str] = frozenset()
        self.known = _with(context, held)
        """What later obligations may be proved from; forks off ``context`` at the first data-dependent check, or where
        the block is a branch, whose condition is ``held``."""
        self._equal = Twins(block, registry)
        self._hard = _HARD_QUESTIONS
        self._sizes: set[Dim] = set()
        self._settled: set[Relation] = set()
        self._bound: defaultdict[Value, list[SymbolDef]] = defaultdict(list)
        for each in block.symbols:
            if each.element is not None:
                self._bound[each.value].append(each)

    def run(self, obligations: Sequence[Obligation]) -> Walk:
        """Walk all ops, in order."""
        due: dict[int, list[Obligation]] = defaultdict(list)
        for obligation in obligations:
            due[obligation.index].append(obligation)
        self._same_data(self._equal.given(), Given())
        for index, op in enumerate(self.block.ops):
            for relation in op.requires:
                self._oblige(index, op, replace(relation, source=""), said_of(op, relation))
            for obligation in due.get(index, ()):
                self._oblige(index, op, obligation.relation, obligation.message, needed=True)
                if obligation.joined is not None:
                    self._sizes.add(obligation.joined)  # so it is not negative
            for size in self._negative(op):
                said = f"{op.name}: the size {size} is negative"
                self._oblige(index, op, Relation("<=", const(0), size), said, needed=True)
            if op.name == "check":
                self._check(index, op)
            else:
                self._elements(index, op)
                self._between(op)
                self._twins(op)
                if self.registry[op.name].traits.regions == "loop":
                    self._loop(op)
                elif self.registry[op.name].traits.regions == "branch":
                    self._joined(op)
        self._elements_again()
        believed = tuple(self.believed)
        return Walk(
            self.context,
            tuple(self.checks),
            believed,
            self.elements,
            self.entry,
            self.loops,
            self.late,
            self._equal.same,
            self.left,
        )

    def _elements_again(self) -> None:
        """Shape code that what came after it decides: facts known at entry hold before every op."""
        known = self.elements
        for index, op in enumerate(self.block.ops):
            if (
                len(op.results) == 1
                and op.result not in self._bound
                and op.operands
                and all(operand in known for operand in op.operands)
                and _is_open(known.get(op.result))
            ):
                self._elements(index, op)
        for value, items in list(self.elements.items()):
            if value.type.dtype == "i1" and any(isinstance(item, Relation) for item in items.reshape(-1)):
                self.elements[value] = np.array([self._truth(item) for item in items.reshape(-1)], object).reshape(
                    items.shape
                )

    def _truth(self, item: object) -> object:
        if not isinstance(item, Relation):
            return item
        return {"proved": True, "refuted": False}.get(self.context.decide(item), item)

    def _negative(self, op: Op) -> list[Dim]:
        """Sizes of an op's results that may be negative, each once: there the op is rejected."""
        found = [
            size
            for value in op.results
            for size in value.type.shape or ()
            if size not in self._sizes and not is_nonnegative(size)
        ]
        self._sizes.update(found)
        return list(dict.fromkeys(found))

    # -- obligations ---------------------------------------------------------------------------------------------

    def _oblige(
        self, index: int, op: Op, relation: Relation, message: str, own: Op | None = None, needed: bool = False
    ) -> None:
        if (own is None and relation in self._settled) or (needed and index in self.left):
            return
        self._settled.add(relation)
        entry = relation.symbols() <= self.entry
        verdict = self._verdict(relation)
        status = {"proved": "proved", "refuted": "violated"}.get(verdict.answer, "kept")
        if status == "violated" and self.top and entry:
            raise self._violated(op, message, own)
        why = self.known.reasons(relation) if status == "proved" and own else ()
        if status != "proved" or own is not None:
            args = self._arguments(own) if own is not None else ()
            self.checks.append(
                Check(
                    index,
                    relation if args is not None else None,
                    message,
                    str(op.location),
                    "proved" if status == "proved" else "kept",
                    own,
                    entry,
                    why,
                    args or (),
                    "" if own is None else own.attrs.get("fact", ""),
                    op if needed else None,
                )
            )
        if status == "proved" and entry and relation.kind == "==" and self._rewrites_may(relation):
            self.believed.append((relation, Proved(verdict.rule)))
        if status == "kept":
            self._believe(relation, reason.Check(location=str(op.location)), entry)

    def _violated(self, op: Op, message: str, own: Op | None) -> EgshapeError:
        sizes = () if own is None else map(self.known.normal_form, self._arguments(own) or ())
        return EgshapeError(
            f"{format_message(message, tuple(sizes))}, which is false at every admitted size",
            where=str(op.location),
            hint="the program, or a fact that was assumed, is wrong here",
            code="violated",
        )

    def _rewrites_may(self, relation: Relation) -> bool:
        """Whether rewrites may use what was proved: not what only a check of data or the condition of a branch says."""
        own = self.known is self.context or self.context.decide(relation) == "proved"
        return own and not _is_broadcast(relation)

    def _verdict(self, relation: Relation) -> Verdict:
        """The answer and its rule; that sizes broadcast to their common size takes more effort than most
        questions, which it is given a few times a block."""
        if self._hard > 0 and _is_broadcast(relation):
            self._hard -= 1
            return self.known.verdict(relation, _HARD_CASES, _HARD_EFFORT)
        return self.known.verdict(relation)

    def _believe(self, relation: Relation, why: Reason, entry: bool) -> None:
        if not entry and self.known is self.context:
            self.known = self.context.copy()
        if entry:
            self._assume(relation, why)
            self.believed.append((relation, why))
        else:
            self.known.assume(relation, why)

    def _assume(self, relation: Relation, why: Reason) -> None:
        """Believe something in rewrites and in later obligations."""
        self.context.assume(relation, why)
        if self.known is not self.context:
            self.known.assume(relation, why)

    def _check(self, index: int, op: Op) -> None:
        relation = self._stated(op)
        if relation is False and self.top:
            raise self._violated(op, op.attrs["message"], op)
        if relation is None or relation is False:
            self.checks.append(Check(index, None, op.attrs["message"], str(op.location), "kept", op, False))
            return
        if isinstance(relation, bool):
            self.checks.append(
                Check(
                    index,
                    None,
                    op.attrs["message"],
                    str(op.location),
                    "proved",
                    op,
                    True,
                    (Step(FOLDED, (), TRUE),),
                )
            )
            return
        self._oblige(index, op, relation, op.attrs["message"], own=op)

    def _arguments(self, op: Op) -> tuple[Dim, ...] | None:
        """The sizes that fill a check's message, None if one of them is data."""
        if op.attrs["relation"] != "value":
            return tuple(op.attrs["args"]) if not op.operands else None
        out = []
        for operand in op.operands[1:]:
            known = self.elements.get(operand)
            item = None if known is None or known.size != 1 else known.reshape(-1)[0]
            if not isinstance(item, Dim):
                return None
            out.append(item)
        return tuple(out)

    def _stated(self, op: Op) -> Relation | bool | None:
        """The relation that a check states, what its predicate folds to, None if it is data."""
        relation = relation_of(op)
        if relation is not None:
            return relation
        known = self.elements.get(op.operands[0])
        item = None if known is None else known.reshape(-1)[0]
        if isinstance(item, Relation):
            return item
        return bool(item) if isinstance(item, bool | np.bool_) else None

    # -- elements ------------------------------------------------------------------------------------------------

    def _elements(self, index: int, op: Op) -> None:
        decl = self.registry[op.name]
        if decl.elements is None or len(op.results) != 1 or not small(op.result.type):
            return
        fixed = op.operands if decl.variadic else op.operands[: len(decl.operands)]
        known = [self.elements.get(operand) for operand in fixed]
        scope = _Scope(self, op)
        attrs = {**op.attrs, "regions": op.regions} if op.regions else op.attrs
        found = decl.elements(scope, known, attrs, (*(operand.type for operand in fixed), op.result.type))
        if found is None or not scope.granted():
            return
        self.elements[op.result] = found
        flat = found.reshape(-1)
        for each in self._bound.get(op.result, ()):
            item = flat[each.element]
            if isinstance(item, Dim):
                self._define(index, each.name, item, each.offset, op)

    def _between(self, op: Op) -> None:
        """A size that is an element of a clamp or minimum is at most the bound there, whatever the data."""
        limits = self.registry[op.name].traits.limits
        if limits is None:
            return
        for bound in self._bound.get(op.result, ()):
            assert bound.element is not None
            size, why = symbol(bound.name) - bound.offset, Semantics(op.name, location=str(op.location))
            highs = [self._element(op.operands[place], bound.element, op) for place in limits.above]
            lows = [self._element(op.operands[place], bound.element, op) for place in limits.below]
            for high in highs:
                if high is not None:
                    self._assume(Relation("<=", size, high), why)
            for low in lows:
                # clamp(low, x, high) is high where low > high
                if low is not None and all(high is not None and self._holds("<=", low, high) for high in highs):
                    self._assume(Relation("<=", low, size), why)

    def _twins(self, op: Op) -> None:
        """Sizes that come of the same data are equal."""
        self._same_data(self._equal.step(op), Semantics(op.name, location=str(op.location)))

    def _same_data(self, relations: Sequence[Relation], why: Reason) -> None:
        for relation in relations:
            self._assume(relation, why)
            self.believed.append((relation, why))

    def _loop(self, op: Op) -> None:
        """What a loop gives is what its rounds make of what it is given.

        What says nothing of other sizes is known everywhere: it holds for any of these with the sizes of ``some``. The
        rest may follow from checks inside, and is believed by later checks only."""
        found = self.loops[op] = invariants(op, self.context, self.elements, self.registry)
        relations, elements = found.behind()
        why = Semantics(op.name, location=str(op.location))
        given = dict(zip(op.results, op.operands, strict=True))
        own = [each for each in self.block.symbols if each.value in given and each.axis is not None]
        some = {each.name: given[each.value].type.dims[each.axis or 0] for each in own}
        for relation in relations:
            names = relation.lhs.symbols()
            defines = relation.kind == "==" and any(relation.lhs is symbol(name) for name in names & some.keys())
            early = defines and relation.rhs.symbols() <= self.entry
            if early and self._holds("<=", const(0), relation.rhs):
                some |= dict.fromkeys(names, relation.rhs)
            if self.context.decide(relation.substitute(some)) != "proved":
                self._believe(relation, why, entry=False)
                continue
            self._assume(relation, why)
            if early:
                self.late |= names
                self.believed.append((relation, why))
        self.elements.update(elements)

    def _joined(self, op: Op) -> None:
        """A size of what branches give lies in the ranges of theirs, and has the remainder that all have."""
        for relation in joined_sizes(op, self.block.symbols, self.context):
            self._assume(relation, Semantics(op.name, location=str(op.location)))

    def _element(self, operand: Value, place: int, op: Op) -> Dim | None:
        """An element of shape code that surely is the number that it stands for (it does not wrap)."""
        known = self.elements.get(operand)
        if known is None:
            return None
        item = known.reshape(-1)[0 if known.size == 1 else place]
        if not isinstance(item, Dim):
            return None
        low, high = integer_range(operand.type.dtype)
        return item if self._holds("<=", const(low), item) and self._holds("<=", item, const(high)) else None

    def _holds(self, kind: str, lhs: Dim, rhs: Dim) -> bool:
        return self.context.decide(Relation(kind, lhs, rhs)) == "proved"

    def _define(self, index: int, name: str, item: Dim, offset: int, op: Op) -> None:
        """A symbol bound to an element that turned out to be an expression is that expression."""
        target = item + offset
        if target is not symbol(name):
            self._oblige(index, op, Relation("<=", const(0), target), f"{op.name}: the size {target} is negative")
            entry = target.symbols() <= self.entry
            why = Semantics(op.name, True, location=str(op.location))
            self._believe(Relation("==", symbol(name), target), why, entry)
            if entry:
                self.entry |= {name}
                self.late |= {name}


def _is_open(elements: np.ndarray | None) -> bool:
    """Whether more facts may say more of the elements of shape code: they are unknown, or hold a division."""
    return elements is None or any(isinstance(each, Dim) and each.divisors_maybe_zero() for each in elements.flat)


def said_of(op: Op, relation: Relation) -> str:
    """The message of what the frontend says that an op relies on."""
    if op.name in HOST_CALLS:
        return f"{op.attrs['target']}: expected {relation}"
    if is_call(op):
        return f"function @{op.attrs['name']}: {relation.source}"
    return f"{op.name}: the size arithmetic does not fit: {relation}"


class _Scope:
    """Answers an ``elements`` function from the facts so far; what it needs to fit must be proved here, or have
    been required by the frontend already."""

    def __init__(self, walker: Walker, op: Op) -> None:
        self._walker = walker
        self._required = frozenset(op.requires)
        self._needs: list[Relation] = []

    def decide(self, relation: Relation) -> bool | None:
        return {"proved": True, "refuted": False}.get(self._walker.context.decide(relation))

    def require_fit(self, dim: Dim, dtype: str) -> None:
        self._needs += fits(dim, dtype, "elements")

    def granted(self) -> bool:
        """True if all that must fit does."""
        decide = self._walker.context.decide
        return all(relation in self._required or decide(relation) == "proved" for relation in self._needs)


def is_product(relation: Relation) -> bool:
    """True for a relation of degree two or more."""
    return any(sum(power for _, power in mono) > 1 for mono, _ in (relation.lhs - relation.rhs).terms)


def _is_broadcast(relation: Relation) -> bool:
    """True for the condition (a - 1)(a - b) == 0 where b is itself a maximum or minimum."""
    ramps = any(isinstance(atom, Relu) for atom in relation.lhs.atoms())
    return ramps and relation.kind == "==" and is_product(relation)
