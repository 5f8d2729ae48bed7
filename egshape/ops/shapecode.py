"""What elementwise ops do to the elements of shape tensors: sizes, conditions on sizes, or nothing.

An integer element e of dtype d stands for e wrapped to d. Ring operations carry it on as it is; every other
operation first notes that it must fit (``ElementScope.require_fit``). ``conditions`` says how a condition
becomes a number and how truncating division and its correction become floor division."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

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
)
from egshape.facts import Relation
from egshape.ir.types import integer_range, is_float, is_integer, numpy_dtype
from egshape.ops import floatcode
from egshape.ops.base import REGISTRY, Element, ElementScope, OpDecl, Ratio, object_array
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
from egshape.ops.contracts import OpContract

if TYPE_CHECKING:
    from egshape.rulelang.contract_elements import ElementRule, Rule

ATOM_LIMIT = 40
"""An expression with more terms, or more atoms at all depths, than this helps nobody: the element becomes unknown."""

Elements = Callable[[ElementScope, Sequence[Any], Mapping[str, Any], Any], Any]


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


def _maximum(scope: ElementScope, x: Dim, y: Dim) -> Dim:
    known = _ordered(scope, y, x)
    return maximum(x, y) if known is None else x if known else y


def _minimum(scope: ElementScope, x: Dim, y: Dim) -> Dim:
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
    return _implied(one, two) or _implied(two, one) or _corrects(one, two) or _corrects(two, one)


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
    return _not(_and(scope, _not(one), _not(two)))


def _xor(scope: ElementScope, one: Element, two: Element) -> Element:
    for known, other in ((one, two), (two, one)):
        if isinstance(known, bool):
            return _not(other) if known else other
    return False if one is not None and one == two else None


# -- names for the text -----------------------------------------------------------------------------


def _logic(combine: Callable[..., Element]) -> Rule:
    def rule(scope: ElementScope, dtype: str, *items: Element) -> Element:
        return combine(scope, *items)

    return rule


FUNCTIONS: Mapping[str, Rule] = {
    "fit": lambda scope, dtype, x: fitted(scope, x, dtype),
    "quotient": _logic(truncated_division),
    "remainder": _logic(_remainder),
    "larger": _logic(_maximum),
    "smaller": _logic(_minimum),
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
}
"""What the contracts of elementwise ops call in ``:elements``: questions of what is known of sizes, and forms."""


@lru_cache(maxsize=256)
def _rule_of(contract: OpContract) -> ElementRule:
    return contract.elements(FUNCTIONS)


def _fold(decl: OpDecl, dtype: str, items: Sequence[Dim]) -> Element:
    """The op on constants, computed by its reference."""
    arrays = [np.array(wrapped(item.const or 0, dtype), numpy_dtype(dtype)) for item in items]
    return const(int(np.asarray(decl.reference(*arrays))))


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


def _evaluate(decl: OpDecl, scope: ElementScope, dtype: str, items: Sequence[Element]) -> Element:
    assert decl.contract is not None
    rule = _rule_of(decl.contract)
    if dtype == "i1":
        return rule.truth(scope, dtype, *items) if rule.truth is not None else None
    sizes = [item for item in items if isinstance(item, Dim)]
    if len(sizes) < len(items):
        return None
    if not rule.ring and all(item.const is not None for item in sizes):
        return _fold(decl, dtype, sizes)
    return rule.integer(scope, dtype, *sizes) if rule.integer is not None else None


def _in_floats(name: str, scope: ElementScope, dtype: str, items: Sequence[Element]) -> Element:
    held = [item for item in items if isinstance(item, Ratio)]
    if len(held) < len(items) or name not in floatcode.RULES:
        return None
    found: Ratio | None = floatcode.RULES[name](scope, dtype, *held)
    return found


def _filled(found: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of a result's shape: scalars repeat, unknown ones are None."""
    if found is None:
        return np.full(shape, None, dtype=object)
    return np.broadcast_to(found, shape)


def _mapped(rule: Rule, operands: Sequence[Any], result: Any) -> Any:
    """A rule for one element, over all elements of a result of static shape; None where nothing is known."""
    if all(operand is None for operand in operands):
        return None
    shape = tuple(int(dim.const) for dim in result.dims)
    columns = [_filled(operand, shape).reshape(-1) for operand in operands]
    return object_array([_small(rule(*items)) for items in zip(*columns, strict=True)], shape)


def elementwise(name: str) -> Elements:
    """``elements`` of a plain unary or binary op: what its contract says."""

    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        dtype = types[0].dtype
        if is_float(dtype):
            return _mapped(lambda *items: _in_floats(name, scope, dtype, items), operands, types[-1])
        if dtype != "i1" and not is_integer(dtype):
            return None
        decl = REGISTRY[name]
        return _mapped(lambda *items: _evaluate(decl, scope, dtype, items), operands, types[-1])

    return elements


# -- ops with attributes -----------------------------------------------------------------------------


def _convert(scope: ElementScope, source: str, target: str, item: Element) -> Element:
    if target == "i1":
        if isinstance(item, Dim):
            return decided(scope, Relation("!=", fitted(scope, item, source), ZERO))
        return item
    if isinstance(item, Relation):
        return indicator(item)
    if not isinstance(item, Dim):
        return const(int(item)) if isinstance(item, bool) else None
    if item.const is not None:
        return const(wrapped(wrapped(item.const, source), target))
    signed = not (source.startswith("u") or target.startswith("u"))
    if source != target and not (signed and _width(target) <= _width(source)):
        fitted(scope, item, source)
        if not signed:
            fitted(scope, item, target)
    return item


def _convert_floats(scope: ElementScope, source: str, target: str, item: Element) -> Element:
    """A size to a float, a float that holds one to another float or back to a size, which must fit."""
    if isinstance(item, Ratio):
        if is_float(target):
            return item if target == source else floatcode.converted(scope, item, target)
        found = floatcode.size_of(scope, item, source) if is_integer(target) else None
        if found is None or found.const is not None:
            return found if found is None or found is fitted(scope, found, target) else None
        return fitted(scope, found, target)
    return floatcode.of_size(scope, item, source, target) if isinstance(item, Dim) and is_integer(source) else None


def convert(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
    """Elements of convert; a condition becomes its indicator."""
    source, target = types[0].dtype, attrs["dtype"]
    if is_float(source) or is_float(target):
        return _mapped(lambda item: _convert_floats(scope, source, target, item), operands, types[-1])
    if not all(each == "i1" or is_integer(each) for each in (source, target)):
        return None
    return _mapped(lambda item: _convert(scope, source, target, item), operands, types[-1])


_SWAPPED = {"GT": "LT", "GE": "LE"}
_KIND = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<="}


def _compare_logic(scope: ElementScope, direction: str, one: Element, two: Element) -> Element:
    if direction in ("EQ", "NE"):
        differs = _xor(scope, one, two)
        return differs if direction == "NE" else _not(differs)
    if direction in _SWAPPED:
        one, two, direction = two, one, _SWAPPED[direction]
    return _and(scope, _not(one), two) if direction == "LT" else _or(scope, _not(one), two)


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


def _compare(scope: ElementScope, dtype: str, direction: str, one: Element, two: Element) -> Element:
    if dtype == "i1":
        return _compare_logic(scope, direction, one, two)
    if not isinstance(one, Dim) or not isinstance(two, Dim):
        return None
    if one is two:
        return direction in ("EQ", "LE", "GE")
    one, two = fitted(scope, one, dtype), fitted(scope, two, dtype)
    if direction in _SWAPPED:
        one, two, direction = two, one, _SWAPPED[direction]
    kind = _KIND[direction]
    special = _compare_sign(kind, one, two) or (_compare_remainder(one, two) if kind == "!=" else None)
    return decided(scope, special or Relation(kind, one, two))


def compare(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
    """Elements of compare: decided, or a condition."""
    dtype, direction = types[0].dtype, attrs["direction"]
    if dtype != "i1" and not is_integer(dtype):
        return None
    return _mapped(lambda one, two: _compare(scope, dtype, direction, one, two), operands, types[-1])


def _select(scope: ElementScope, pred: Element, yes: Element, no: Element) -> Element:
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
    above, gain = pred.rhs - pred.lhs, yes - no
    if pred.kind in ("<", "<=") and gain in (above, -above):
        return no + relu(above) if gain is above else no - relu(above)
    if len(gain.terms) * len(above.terms) > ATOM_LIMIT:
        return None
    return no + indicator(pred) * gain


def select(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
    """Elements of select: the chosen branch, or one expression for both."""
    if not (types[-1].dtype == "i1" or is_integer(types[-1].dtype)):
        return None
    return _mapped(lambda pred, yes, no: _select(scope, pred, yes, no), operands, types[-1])


def clamp(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
    """Elements of clamp: minimum(maximum(x, low), high)."""
    dtype = types[-1].dtype
    if not is_integer(dtype):
        return None

    def rule(*items: Element) -> Element:
        sizes = [fitted(scope, item, dtype) for item in items if isinstance(item, Dim)]
        if len(sizes) < 3:
            return None
        low, x, high = sizes
        return _minimum(scope, _maximum(scope, x, low), high)

    return _mapped(rule, operands, types[-1])
