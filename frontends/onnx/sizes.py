"""Sizes that ONNX gives as operands or attributes: axes, targets of Reshape, bounds of Slice."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import Dim, const, floordiv, maximum, minimum, product
from egshape.dims.theory import divide
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.registry import NoLowering
from egshape.frontends.onnx.scope import Scope
from egshape.ir.graph import Value
from egshape.ops.base import Element

HUGE = 2**31 - 1
"""No axis is longer."""


def axis_of(node: Node, axis: int, rank: int) -> int:
    """An axis counted from the front. Raises EgshapeError for one that the rank does not have."""
    if not -rank <= axis < rank:
        raise node.error(f"names axis {axis} of a tensor of rank {rank}")
    return axis % rank if rank else axis


def axes_of(
    s: Scope, node: Node, given: Value | None, rank: int, default: Sequence[int] | None = None
) -> tuple[int, ...] | None:
    """Axes that old opsets give as the attribute ``axes`` and new ones as an operand, in ascending order.

    None where there are none and there is no default. Raises NoLowering for axes that only running tells."""
    axes = node.ints("axes", None)
    if given is not None:
        axes = s.numbers(given)
        if axes is None:
            raise NoLowering("axes are data")
    if axes is None:
        return None if default is None else tuple(default)
    out = sorted(axis_of(node, axis, rank) for axis in axes)
    if len(set(out)) != len(out):
        raise node.error(f"names an axis twice: {list(axes)}")
    return tuple(out)


def of_length(s: Scope, vector: Value, length: int) -> Value:
    """A vector whose length must be a number: where it is only known by a symbol, that is checked when it runs."""
    if vector.type.rank != 1 or vector.type.dims[0].const is not None:
        return vector
    return s.one("reshape", (vector,), shape=(const(length),))


def equal(s: Scope, node: Node, one: Dim, two: Dim, message: str) -> None:
    """Two sizes must be equal: that is known, or checked when it runs. ``message`` shows them as {0} and {1}."""
    if s.decide("==", one, two) is True:
        return
    if one.const is not None and two.const is not None:
        raise node.error(message.format(one, two))
    s.add("check", (), {"relation": "==", "sides": (one, two), "args": (one, two), "message": message})
    s.learn(one, two)


def exact_quotient(factors: Sequence[Dim], divisors: Sequence[Dim]) -> Dim:
    """``product(factors) / product(divisors)`` where the division is known to leave nothing and its divisor not to be
    0: factors that both have go out first."""
    left, right = list(factors), []
    for size in divisors:
        if size in left:
            left.remove(size)
        else:
            right.append(size)
    num, den = product(left), product(right)
    if den.const == 0:
        return floordiv(product(factors), product(divisors))
    quotient, rest = divide(num, den)
    return quotient if not rest.terms else floordiv(num, den)


def clamped(s: Scope, size: Dim, bound: Element, low: int, high: int) -> Dim | None:
    """A start or end of a slice, counted from the front and clamped to ``low .. size + high``; None if unknown."""
    if not isinstance(bound, Dim):
        return None
    if bound.const is not None and bound.const >= HUGE:
        return size + high
    if bound.const is not None and bound.const <= -HUGE:
        return const(low)
    negative = s.decide("<", bound, 0)
    if negative is None:
        return None
    place = bound + size if negative else bound
    if s.decide("<=", place, size + high) is not True:
        place = size + high if s.decide("<=", size + high, place) is True else minimum(place, size + high)
    if s.decide("<=", const(low), place) is not True:
        place = maximum(place, const(low))
    return place
