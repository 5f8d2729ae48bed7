"""The softmax between two products, found by structure: which values are the scores, their largest, the sum of their
exponentials, and at which indices each is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from egshape.dims import Dim
from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import is_float, itemsize
from egshape.plan.analysis.elements import Indices, is_elementwise, reshape_is_affine
from egshape.plan.analysis.known import Known
from egshape.plan.form.dots import converted
from egshape.plan.form.movement import READERS
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Call, Const, Expr, Var

Place = tuple[Value, Indices]
"""An element of a value."""


@dataclass(frozen=True, eq=False)
class Read:
    """A softmax as expressions of f32: ``scores`` of the local ``score``; of the locals ``peak`` and ``total`` the
    ``factor`` of a row's sums, and ``dead``, i1: the weights of the row are 0 whatever the scores."""

    score: str
    peak: str
    total: str
    scores: Expr
    factor: Expr
    dead: Expr | None


@dataclass(frozen=True, eq=False)
class Softmax:
    """weights = exp(score - shift) / norm. Each is an element of a value at indices of the second product: ``score``
    of the product's element ``product`` at ``at``; ``shift`` of the largest score ``peak``; ``norm`` of the sum
    ``total``, by which is divided, or multiplied where ``times``; where ``dead`` holds weights are 0 instead."""

    product: Value
    at: Indices
    score: Place
    peak: Place
    shift: Place
    total: Place
    norm: Place
    times: bool
    dead: tuple[Place, ...]
    clean: bool = False
    """Whether weights that are NaN are 0 instead: they are in a whole row or not at all."""

    def read(self, p: Steps, weights: Indices) -> Read:
        """The expressions, in the kernel that the planner has begun."""
        score, peak, sum_ = (Var("f32", p.name("v")) for _ in range(3))
        p.locals[self.product, self.at] = converted(self.product.type.dtype, score)
        scores = converted("f32", p.read(*self.score))
        p.locals[self.peak] = converted(self.peak[0].type.dtype, peak)
        gap = Call("f32", "subtract", (peak, converted("f32", p.read(*self.shift))))
        # What was summed is exp(score - peak): 1 where the shift is the peak, NaN where that is not finite.
        scale = Call("f32", "exponential", (gap,))
        whole = Call("f32", "multiply", (sum_, scale))
        p.locals[self.total] = converted(self.total[0].type.dtype, whole)
        norm = converted("f32", p.read(*self.norm))
        factor = Call("f32", "multiply" if self.times else "divide", (scale, norm))
        dead: Expr | None = None
        for place in self.dead:
            one = p.read(*place)
            dead = one if dead is None else Call("i1", "or", (dead, one))
        if self.clean:
            none = Call("i1", "compare", (factor, factor), (("direction", "NE"), ("kind", "FLOAT")))
            dead = none if dead is None else Call("i1", "or", (dead, none))
        return Read(score.name, peak.name, sum_.name, scores, factor, dead)


def matched(p: Steps, block: Block, members: Sequence[Op], first: Op, weights: Place, column: Dim) -> Softmax | None:
    """The softmax that weights are of the product ``first``, along the index ``column``; None if they are none.
    ``members``: all ops of the block that read the product, and one another."""
    return _Matcher(p, block, members, first, column).weights(weights)


class _Matcher:
    def __init__(self, p: Steps, block: Block, members: Sequence[Op], first: Op, column: Dim) -> None:
        self.p, self.product, self.column = p, first.result, column
        self.all = {op.results[0]: op for op in block.ops if len(op.results) == 1}
        self.made = {op.result: op for op in members}
        self.folds = {op.result: op for op in members if op.name == "reduce"}
        self._leaves: dict[Value, frozenset[Value]] = {}

    def weights(self, place: Place) -> Softmax | None:
        """All of it."""
        dead: list[Place] = []
        clean = False
        while (guarded := self.guarded(self.bare(place))) is not None:
            condition, place = guarded
            clean = clean or condition is None
            dead += [] if condition is None else [condition]
        value, at = self.bare(place)
        op = self.made.get(value)
        if op is None or op.name not in ("divide", "multiply"):
            return None
        one, two = (self.operand(op, k, at) for k in (0, 1))
        found = self.normed(one, two, op.name == "multiply", tuple(dead))
        if found is None and op.name == "multiply":
            found = self.normed(two, one, True, tuple(dead))
        if found is None or not clean:
            return found
        plain = not found.times and self.bare(found.shift) == found.peak and self.bare(found.norm) == found.total
        return replace(found, clean=True) if plain else None

    def guarded(self, place: Place) -> tuple[Place | None, Place] | None:
        """The condition and the value of a choice between 0 for a whole row and weights; no condition where weights
        are 0 that are NaN."""
        op = self.made.get(place[0])
        if op is None or op.name != "select":
            return None
        condition, zero, other = (self.operand(op, k, place[1]) for k in range(3))
        if self.leaves(zero[0]) or self.number(zero) != 0.0:
            return None
        test = self.made.get(condition[0])
        if test is not None and test.name == "compare" and test.attrs["direction"] == "NE":
            sides = {self.bare(self.operand(test, k, condition[1])) for k in (0, 1)}
            return (None, other) if sides == {self.bare(other)} else None
        if self.leaves(condition[0]):
            return None
        return (condition, other) if self.is_row(condition) else None

    def normed(self, inner: Place, norm: Place, times: bool, dead: tuple[Place, ...]) -> Softmax | None:
        """The same, of exponentials and what they are divided by."""
        inner = self.bare(inner)
        op = self.made.get(inner[0])
        if op is None or op.name != "exponential":
            return None
        gap = self.bare(self.operand(op, 0, inner[1]))
        minus = self.made.get(gap[0])
        if minus is None or minus.name != "subtract":
            return None
        score, shift = (self.operand(minus, k, gap[1]) for k in (0, 1))
        peak, sum_ = self.fold(shift, "maximum", float("-inf")), self.fold(norm, "add", 0.0)
        if peak is None or sum_ is None or self.leaves(score[0]) != {self.product}:
            return None
        if self.bare(self.folded(sum_)) != inner or not self.same(self.folded(peak), score):
            return None
        at = self.reached(score, self.product)
        if at is None or not self.is_row(shift) or not self.is_row(norm):
            return None
        return Softmax(self.product, at, score, peak, shift, sum_, norm, times, dead)

    # -- values -------------------------------------------------------------------------------------------------------

    def operand(self, op: Op, number: int, at: Indices) -> Place:
        """An operand of an elementwise op."""
        value = self.p.resolved(op.operands[number])
        return value, at if value.type.shape else ()

    def moved(self, op: Op, at: Indices) -> Place:
        """What is read of an op that only moves."""
        seen = _Seen(self.p.known)
        READERS[op.name](seen, op, at)  # type: ignore[arg-type]
        return self.p.resolved(seen.place[0]), seen.place[1]

    def step(self, place: Place, narrowing: bool) -> Place | None:
        """What a value is that was only moved, or made another float; ``narrowing``: of fewer bits too."""
        op = self.made.get(place[0])
        if op is None:
            return None
        if is_move(op):
            return self.moved(op, place[1])
        if op.name != "convert":
            return None
        source, target = op.operands[0].type.dtype, op.result.type.dtype
        wider = itemsize(source) < itemsize(target)
        return self.operand(op, 0, place[1]) if is_float(source) and is_float(target) and (wider or narrowing) else None

    def bare(self, place: Place) -> Place:
        """A value before it was moved and converted."""
        while (found := self.step(place, True)) is not None:
            place = found
        return place

    def same(self, one: Place, two: Place) -> bool:
        """Whether two elements are one number: exact conversions and moves apart."""
        return self.exact(one) == self.exact(two)

    def exact(self, place: Place) -> Place:
        """A value before it was moved and converted to a wider float."""
        while (found := self.step(place, False)) is not None:
            place = found
        return place

    def leaves(self, value: Value) -> frozenset[Value]:
        """The product and folds that a value is made from, other than through a fold."""
        value = self.p.resolved(value)
        if value is self.product or value in self.folds:
            return frozenset((value,))
        if value not in self.made:
            return frozenset()
        if value not in self._leaves:
            self._leaves[value] = frozenset().union(*(self.leaves(x) for x in self.made[value].operands))
        return self._leaves[value]

    def reached(self, place: Place, target: Value) -> Indices | None:
        """The indices at which the target is read of an element, which must be the same on all ways to it."""
        value, at = place
        if value is target:
            return at
        op, found = self.made[value], set()
        for k, operand in enumerate(op.operands):
            if target in self.leaves(operand):
                inner = self.operand(op, k, at) if is_elementwise(op) else self.moved(op, at)
                found.add(self.reached(inner, target))
        return found.pop() if len(found) == 1 else None

    def fold(self, place: Place, op: str, start: float) -> Place | None:
        """The fold that an element is made from, if it is made from one alone, and where it is read."""
        leaves = self.leaves(place[0])
        if len(leaves) != 1 or not leaves <= self.folds.keys():
            return None
        (value,) = leaves
        reduce = self.folds[value]
        block = reduce.regions[0]
        plain = (
            len(block.ops) == 1
            and block.ops[0].name == op
            and block.results[0] is block.ops[0].result
            and set(block.ops[0].operands) == set(block.args)
        )
        if not plain or len(reduce.attrs["dims"]) != 1 or self.number((reduce.operands[1], ())) != start:
            return None
        if reduce.result.type.dtype != reduce.operands[0].type.dtype:
            return None
        at = self.reached(place, value)
        return None if at is None else (value, at)

    def folded(self, fold: Place) -> Place:
        """The element that a fold takes at the column."""
        op, at = self.folds[fold[0]], list(fold[1])
        at.insert(op.attrs["dims"][0], self.column)
        return self.p.resolved(op.operands[0]), tuple(at)

    def number(self, place: Place) -> float | None:
        """The number that all elements of a value are; None if it is not known to be one."""
        op = self.all.get(self.p.resolved(place[0]))
        while op is not None and op.name in ("broadcast_in_dim", "reshape", "convert"):
            op = self.all.get(self.p.resolved(op.operands[0]))
        if op is None or op.name != "constant" or op.attrs["value"].size != 1:
            return None
        return float(np.asarray(op.attrs["value"]).reshape(-1)[0])

    def is_row(self, place: Place) -> bool:
        """Whether an element is the same along the column."""
        value, at = place
        op = None if value in self.folds or value is self.product else self.all.get(value)
        if not _reads(at, self.column):
            return value is not self.product
        if op is None:
            return False
        if is_elementwise(op):
            return all(self.is_row(self.operand(op, k, at)) for k in range(len(op.operands)))
        return is_move(op) and self.is_row(self.moved(op, at))


def is_move(op: Op) -> bool:
    """Whether the elements of an op are those of its operand, at indices that are functions of its own."""
    if op.name == "reshape":
        source, target = op.operands[0].type.shape, op.result.type.shape
        return source is not None and target is not None and reshape_is_affine(source, target)
    return op.name in ("transpose", "broadcast_in_dim")


def _reads(at: Indices, column: Dim) -> bool:
    return any(not index.symbols().isdisjoint(column.symbols()) for index in at)


class _Seen:
    """Takes the place of a reader, and only keeps what is read."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.regroup = None
        self.place: Place

    def read(self, value: Value, at: Indices) -> Expr:
        """An element, which is kept."""
        self.place = value, at
        return Const("i1", False)
