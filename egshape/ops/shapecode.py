"""What elementwise ops do to the elements of shape tensors: sizes, conditions on sizes, or nothing.

An integer element e of dtype d stands for e wrapped to d. Ring operations carry it on as it is; every other
operation first notes that it must fit (``ElementScope.require_fit``). ``conditions`` says how a condition
becomes a number and how truncating division and its correction become floor division."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from egshape.decide.context import Context
from egshape.dims import (
    Dim,
    bcast,
    broadcast_gap,
    const,
    floordiv,
    is_nonnegative,
    is_positive,
    maximum,
    minimum,
    mod,
    relu,
    symbol,
)
from egshape.facts import Relation
from egshape.facts.relation import any_of
from egshape.ir.types import integer_range, is_complex, is_float, is_integer, numpy_dtype
from egshape.ops import floatcode
from egshape.ops.base import Element, ElementScope, Ratio, object_array
from egshape.ops.conditions import (
    ONE,
    ZERO,
    at_least,
    correction,
    decided,
    indicator,
    is_truncated,
    modulus,
    negated,
    sign_argument,
    sign_form,
    split_remainder,
    truncated_division,
    truth,
)

if TYPE_CHECKING:
    from egshape.rulelang.contract_elements import ElementRule, Rule

ATOM_LIMIT = 40
"""An expression with more terms, or more atoms at all depths, than this helps nobody: the element becomes unknown."""

AXIS = 2**31 - 1
"""The largest size of an axis: ``get_dimension_size`` gives an i32."""

FEW = 64
"""A multiple of a size that wraps at so many is no size."""


# -- fits -----------------------------------------------------------------------------


def wrapped(number: int, dtype: str) -> int:
    """An integer reduced to the range of an integer dtype, two's complement."""
    low, high = integer_range(dtype)
    return (number - low) % (high - low + 1) + low


def fitted(scope: ElementScope, dim: Dim, dtype: str) -> Dim:
    """The number that an element is: constants wrap, the rest must fit (signs and remainders do)."""
    if dim.const is not None:
        return const(wrapped(dim.const, dtype))
    bound = _bound_of(dim) if integer_range(dtype)[0] else None
    if bound is None:
        scope.require_fit(dim, dtype)
    elif bound.const is None or bound.const > integer_range(dtype)[1]:
        scope.require_fit(bound, dtype)
    return dim


def _bound_of(dim: Dim) -> Dim | None:
    """d >= 1 with -d <= dim <= d, for signs and remainders; None for anything else."""
    found = sign_argument(dim)
    if found is not None and found[1]:
        return ONE
    plain = modulus(dim) or modulus(-dim)
    if plain is not None:
        return plain
    truncated = correction(dim)
    if truncated is None:
        return None
    return next((d for d, _, times in split_remainder(dim) if times is truncated[1]), None)


# -- rules for one element -----------------------------------------------------------------------------


def _remainder(scope: ElementScope, x: Dim, d: Dim) -> Element:
    quotient = truncated_division(scope, x, d)
    return None if quotient is None else x - d * quotient


def _larger(scope: ElementScope, dtype: str, x: Dim, y: Dim) -> Dim:
    low, _ = integer_range(dtype)
    if low in (x.const, y.const):
        return y if x.const == low else x
    known = _ordered(scope, y, x)
    return maximum(x, y) if known is None else x if known else y


def _smaller(scope: ElementScope, dtype: str, x: Dim, y: Dim) -> Dim:
    _, high = integer_range(dtype)
    if high in (x.const, y.const):
        return y if x.const == high else x
    known = _ordered(scope, x, y)
    return minimum(x, y) if known is None else x if known else y


def _ordered(scope: ElementScope, x: Dim, y: Dim) -> bool | None:
    """Whether x <= y; False only if y <= x."""
    known = truth(scope, Relation("<=", x, y))
    return False if known is None and truth(scope, Relation("<=", y, x)) else known


def _sign_of(scope: ElementScope, x: Dim) -> Element:
    if at_least(scope, x, 1):
        return ONE
    if at_least(scope, x, 0):
        return minimum(ONE, x)
    if at_least(scope, -x, 1):
        return const(-1)
    return -minimum(ONE, -x) if at_least(scope, -x, 0) else sign_form(x)


def _abs(scope: ElementScope, x: Dim) -> Element:
    if at_least(scope, x, 0):
        return x
    return -x if at_least(scope, -x, 0) else relu(x) + relu(-x)


def _power(scope: ElementScope, dtype: str, x: Dim, exponent: Dim) -> Element:
    times = exponent.const
    if times is None or not 0 <= times <= 8:
        return None
    out = ONE
    for _ in range(times):
        out = out * x
    return out


def _width(dtype: str) -> int:
    return 8 * numpy_dtype(dtype).itemsize


def _bits(dtype: str) -> int:
    low, high = integer_range(dtype)
    return (high - low).bit_length()


def _shift_left(scope: ElementScope, dtype: str, x: Dim, amount: Dim) -> Element:
    places = amount.const
    return x * 2**places if places is not None and 0 <= places < _width(dtype) else None


def _shift_right(logical: bool) -> Rule:
    def rule(scope: ElementScope, dtype: str, x: Dim, amount: Dim) -> Element:
        places = amount.const
        if places is None or not 0 <= places < _width(dtype):
            return None
        if (logical and not at_least(scope, x, 0)) or (not logical and dtype.startswith("u")):
            return None
        return floordiv(fitted(scope, x, dtype), const(2**places))

    return rule


def _mask(scope: ElementScope, dtype: str, x: Dim, y: Dim) -> Element:
    """x & (2**k - 1) is x % 2**k, wrapped or not."""
    for item, bits in ((x, y.const), (y, x.const)):
        if bits is not None and bits >= 0 and bits & (bits + 1) == 0:
            return mod(item, const(bits + 1))
    return None


def both(one: Element, two: Element) -> Element:
    """Logical and of two i1 elements."""
    if one is False or two is False:
        return False
    if one is True or two is True:
        return two if one is True else one
    if not isinstance(one, Relation) or not isinstance(two, Relation):
        return None
    if one == two:
        return one
    known = _implied(one, two) or _implied(two, one) or _corrects(one, two) or _corrects(two, one)
    return known or _neither(one, two)


def _neither(one: Relation, two: Relation) -> Relation | None:
    """That two sizes are not 0: their product is not, where it is short. So one of two equalities is a relation too."""
    if one.kind != "!=" or two.kind != "!=" or not _are_short(one, two):
        return None
    return Relation("!=", (one.lhs - one.rhs) * (two.lhs - two.rhs), ZERO)


def _implied(one: Relation, two: Relation) -> Relation | None:
    """``one`` if it implies ``two`` by being a stricter relation of the same two sides."""
    same, crossed = (one.lhs, one.rhs) == (two.lhs, two.rhs), (one.lhs, one.rhs) == (two.rhs, two.lhs)
    if one.kind == "<" and ((two.kind == "!=" and (same or crossed)) or (two.kind == "<=" and same)):
        return one
    return one if one.kind == "==" and two.kind == "<=" and (same or crossed) else None


def _corrects(one: Relation, two: Relation) -> Relation | None:
    """x <= 0 and r != 0, for r the truncating remainder of x by some d >= 1: that is r < 0."""
    if one.kind not in ("<=", "<") or two.kind != "!=":
        return None
    x, remainder = one.lhs - one.rhs, two.lhs - two.rhs
    for sign in (remainder, -remainder):
        if is_truncated(x, sign) is not None:
            return Relation("<", sign, ZERO)
    return None


def _excluded(scope: ElementScope, one: Element, two: Element) -> bool:
    """x <= 0 and x % d != 0, where the scope knows that x >= 0: x would be 0."""
    if not isinstance(one, Relation) or not isinstance(two, Relation) or (one.kind, two.kind) != ("<=", "!="):
        return False
    x, remainder = one.lhs - one.rhs, two.lhs - two.rhs
    return at_least(scope, x, 0) and any(
        reduced is mod(x, d) and times is ZERO
        for sign in (remainder, -remainder)
        for d, reduced, times in split_remainder(sign)
    )


def _and(scope: ElementScope, one: Element, two: Element) -> Element:
    if _excluded(scope, one, two) or _excluded(scope, two, one):
        return False
    found = both(one, two)
    return decided(scope, found) if isinstance(found, Relation) else found


def _not(item: Element) -> Element:
    if isinstance(item, Relation):
        return negated(item)
    return None if item is None else not item


def _or(scope: ElementScope, one: Element, two: Element) -> Element:
    found = _not(_and(scope, _not(one), _not(two)))
    if found is not None or not isinstance(one, Relation) or not isinstance(two, Relation):
        return found
    return decided(scope, any_of((one, two))) if _are_short(one, two) and "!=" not in (one.kind, two.kind) else None


def _are_short(one: Relation, two: Relation) -> bool:
    """Whether two relations may be joined: their product is short, and both have a truth everywhere."""
    sides = [each.lhs - each.rhs for each in (one, two)]
    return prod(len(each.terms) for each in sides) <= ATOM_LIMIT and not any(each.conditions() for each in (one, two))


def _xor(scope: ElementScope, one: Element, two: Element) -> Element:
    for known, other in ((one, two), (two, one)):
        if isinstance(known, bool):
            return _not(other) if known else other
    return False if one is not None and one == two else None


# -- conversions, comparisons, choices ------------------------------------------------------------------------


def _cast(scope: ElementScope, source: str, item: Dim, target: str) -> Element:
    """An integer of another dtype of integers: one of as few bits or fewer takes the low ones, whatever the signs (as
    numpy and XLA do), so that only for more bits must it fit where it comes from."""
    return item if _bits(target) <= _bits(source) else fitted(scope, item, source)


def _count(scope: ElementScope, dtype: str, item: Element) -> Element:
    """A truth value as a number."""
    if isinstance(item, Relation):
        return indicator(item)
    return const(int(item)) if isinstance(item, bool) else None


def _carry(scope: ElementScope, source: str, item: Element, target: str) -> Element:
    """A size to a float, a float that holds one to another float or back to a size, which must fit."""
    if isinstance(item, Ratio):
        if is_float(target):
            return item if target == source else floatcode.converted(scope, item, target)
        found = floatcode.size_of(scope, item, source) if is_integer(target) else None
        if found is None or found.const is not None:
            return found if found is None or found is fitted(scope, found, target) else None
        return fitted(scope, found, target)
    return floatcode.of_size(scope, item, source, target) if isinstance(item, Dim) and is_integer(source) else None


def _compare_sign(kind: str, one: Dim, two: Dim) -> Relation | None:
    """sign(x) == 1 and min(1, x) == 1 are x > 0, sign(x) == -1 is x < 0; the same for !=."""
    for dim, number in ((one, two.const), (two, one.const)):
        found = sign_argument(dim) if number in (1, -1) and kind in ("==", "!=") else None
        if found is not None and (number == 1 or found[1]):
            condition = Relation("<", ZERO, found[0]) if number == 1 else Relation("<", found[0], ZERO)
            return condition if kind == "==" else negated(condition)
    return None


def _never_positive(x: Dim, remainder: Dim) -> bool:
    """Whether a form with the correction of x is never positive: x < 0 always, or x <= 0 and it is its remainder."""
    return is_positive(-x) or (is_nonnegative(-x) and is_truncated(x, remainder) is not None)


def _compare_remainder(one: Dim, two: Dim) -> Relation | None:
    """r != 0 is r < 0 for a truncating remainder of what is never positive, unless its form says as much."""
    sides = (one - two, two - one)
    if any(modulus(side) is not None for side in sides):
        return None
    for remainder in sides:
        found = correction(remainder)
        if found is not None and _never_positive(found[0], remainder):
            return Relation("<", remainder, ZERO)
    return None


def _related(kind: str) -> Rule:
    def rule(scope: ElementScope, dtype: str, one: Dim, two: Dim) -> Element:
        if one is two:
            return kind in ("==", "<=")
        one, two = fitted(scope, one, dtype), fitted(scope, two, dtype)
        special = _compare_sign(kind, one, two) or (_compare_remainder(one, two) if kind == "!=" else None)
        return decided(scope, special or Relation(kind, one, two))

    return rule


def _choose(scope: ElementScope, pred: Element, yes: Element, no: Element) -> Element:
    if isinstance(pred, Relation):
        known = truth(scope, pred)
        pred = pred if known is None else known
    if isinstance(pred, bool):
        return yes if pred else no
    if yes is not None and yes == no:
        return yes
    if isinstance(pred, Relation) and isinstance(yes, Dim) and isinstance(no, Dim):
        return _joined(scope, pred, yes, no) or _chosen(pred, yes, no)
    if isinstance(yes, bool) and isinstance(no, bool):
        return pred if yes else _not(pred)
    return None


def _joined(scope: ElementScope, pred: Relation, yes: Dim, no: Dim) -> Dim | None:
    """bcast(x, y) for "y if x is 1, else x", where it is known that the two broadcast."""
    if pred.kind not in ("==", "!="):
        return None
    x, y = (no, yes) if pred.kind == "==" else (yes, no)
    if (pred.lhs - pred.rhs) not in (x - 1, 1 - x) or x.const is not None or y.const is not None:
        return None
    return bcast(x, y) if truth(scope, Relation("==", broadcast_gap(x, y), ZERO)) else None


def _chosen(pred: Relation, yes: Dim, no: Dim) -> Dim | None:
    """yes where pred holds, else no, as one expression; None where it would divide by what may be 0 there."""
    if any(dim.divisors_maybe_zero() for dim in (yes, no, pred.lhs, pred.rhs)):
        return None
    if len(pred.alternatives()) > 1 or len(negated(pred).alternatives()) > 1:
        return None
    above, gain = pred.rhs - pred.lhs, yes - no
    if pred.kind in ("<", "<=") and gain in (above, -above):
        return no + relu(above) if gain is above else no - relu(above)
    if len(gain.terms) * len(above.terms) > ATOM_LIMIT:
        return None
    return no + indicator(pred) * gain


# -- names for the text -----------------------------------------------------------------------------


def _logic(combine: Callable[..., Element]) -> Rule:
    def rule(scope: ElementScope, dtype: str, *items: Element) -> Element:
        return combine(scope, *items)

    return rule


FUNCTIONS: Mapping[str, Rule] = {
    "fit": lambda scope, dtype, x: fitted(scope, x, dtype),
    "quotient": _logic(truncated_division),
    "remainder": _logic(_remainder),
    "larger": _larger,
    "smaller": _smaller,
    "sign": _logic(_sign_of),
    "absolute": _logic(_abs),
    "power": _power,
    "mask": _mask,
    "shift-left": _shift_left,
    "shift-right": _shift_right(False),
    "shift-right-logical": _shift_right(True),
    "both": _logic(_and),
    "any": _logic(_or),
    "one": _logic(_xor),
    "not": lambda scope, dtype, item: _not(item),
    "equal": _related("=="),
    "differs": _related("!="),
    "below": _related("<"),
    "at-most": _related("<="),
    "choose": _logic(_choose),
    "cast": _cast,
    "count": _count,
    "carry": _carry,
}
"""What the contracts of elementwise ops call in ``:elements``: questions of what is known of sizes, and forms."""

PARTIAL = frozenset({"choose"})
"""Those that say something where an element is not known."""


# -- rows over tensors ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Elementwise:
    """What an elementwise op does to elements: its rows, and its reference for constants."""

    name: str
    rule: ElementRule
    reference: Callable[..., Any]


def mapped(op: Elementwise, scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
    """The elements of the result of an elementwise op of static shape, None where nothing is known of them."""
    dtype, result = types[-2].dtype, types[-1]
    if is_float(dtype) or is_float(result.dtype):
        return _each(lambda *items: _in_floats(op, scope, dtype, items, attrs), operands, result)
    if dtype == "i1" and op.rule.truth is not None:
        truth = op.rule.truth
        return _each(lambda *items: truth(scope, dtype, *items, **attrs), operands, result)
    if is_integer(dtype) and not is_complex(result.dtype):
        return _each(lambda *items: _integer(op, scope, dtype, items, attrs), operands, result)
    return None


def _integer(
    op: Elementwise, scope: ElementScope, dtype: str, items: Sequence[Element], attrs: Mapping[str, Any]
) -> Element:
    sizes = [item for item in items if isinstance(item, Dim)]
    if len(sizes) < len(items) and not op.rule.partial:
        return None
    if len(sizes) == len(items) and not op.rule.ring and all(item.const is not None for item in sizes):
        return _folded(op, dtype, sizes, attrs)
    if not op.rule.ring and any(_wraps(item, dtype) for item in sizes):
        return None
    return op.rule.integer(scope, dtype, *items, **attrs) if op.rule.integer is not None else None


def _wraps(dim: Dim, dtype: str) -> bool:
    """Whether a number is left to the arrays, since to rely on that it fits would refuse sizes: one that fits its dtype
    at few sizes only (a hash of a size, say), and one that may not fit where it has no sign or few bits, as those wrap
    on purpose."""
    low, high = integer_range(dtype)
    if any(mono and FEW * abs(factor) > high for mono, factor in dim.terms):
        return True
    return (low == 0 or high < AXIS) and dim.const is None and not _within(dim, low, high)


@lru_cache(maxsize=4096)
def _within(dim: Dim, low: int, high: int) -> bool:
    """Whether a number lies in [low, high] wherever its symbols are sizes of axes."""
    context = Context()
    for name in dim.symbols():
        context.assume(Relation("<=", symbol(name), const(AXIS)))
    ends = Relation("<=", const(low), dim), Relation("<=", dim, const(high))
    return all(context.decide(end) == "proved" for end in ends)


def _folded(op: Elementwise, dtype: str, items: Sequence[Dim], attrs: Mapping[str, Any]) -> Element:
    """The op on constants, computed by its reference."""
    arrays = [np.array(wrapped(item.const or 0, dtype), numpy_dtype(dtype)) for item in items]
    found = np.asarray(op.reference(*arrays, **attrs)).reshape(-1)[0]
    return bool(found) if found.dtype == np.bool_ else const(int(found))


def _in_floats(
    op: Elementwise, scope: ElementScope, dtype: str, items: Sequence[Element], attrs: Mapping[str, Any]
) -> Element:
    if op.rule.floats is not None:
        carried: Element = op.rule.floats(scope, dtype, *items, **attrs)
        return carried
    held = [item for item in items if isinstance(item, Ratio)]
    if len(held) < len(items) or op.name not in floatcode.RULES:
        return None
    found: Ratio | None = floatcode.RULES[op.name](scope, dtype, *held)
    return found


def _each(rule: Callable[..., Element], operands: Sequence[Any], result: Any) -> Any:
    """A rule for one element, over all elements of a result; None where nothing is known of the operands."""
    if all(operand is None for operand in operands):
        return None
    shape = tuple(int(dim.const) for dim in result.dims)
    columns = [_filled(operand, shape).reshape(-1) for operand in operands]
    return object_array([_small(rule(*items)) for items in zip(*columns, strict=True)], shape)


def _filled(found: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of a result's shape: scalars repeat, unknown ones are None."""
    if found is None:
        return np.full(shape, None, dtype=object)
    return np.broadcast_to(found, shape)


def _small(item: Element) -> Element:
    """The element, or None if it is too large."""
    sides = (
        (item,)
        if isinstance(item, Dim)
        else (item.num,)
        if isinstance(item, Ratio)
        else (item.lhs, item.rhs)
        if isinstance(item, Relation)
        else ()
    )
    return item if all(len(side.terms) <= ATOM_LIMIT and _atoms_in(side) <= ATOM_LIMIT for side in sides) else None


def _atoms_in(dim: Dim) -> int:
    """How many different atoms an expression has, and these have inside."""
    return sum(1 + sum(map(_atoms_in, atom.args)) for atom in dim.atoms())
