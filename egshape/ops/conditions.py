"""Conditions on sizes that shape code computes with: deciding them, and their indicators as sizes.

A condition counts as a number, its indicator: 1 where it holds, else 0. Indicators are sums of ``Relu``:
[y >= 1] = relu(y) - relu(y - 1).

Floor division as frontends write it (truncate, then correct) comes out as ``floordiv`` again. For d >= 1
trunc(x / d) = x // d + J and x - d*trunc(x / d) = x % d - d*J, with J = [x < 0] * [x % d >= 1]; the
correcting select tests a condition that is recognized here as J = 1, and takes J away again."""

from __future__ import annotations

from collections.abc import Iterator

from egshape.dims import Dim, FloorDiv, Relu, ceildiv, const, floordiv, is_nonnegative, is_positive, minimum, mod, relu
from egshape.facts import Relation
from egshape.ops.base import ElementScope

ZERO, ONE = const(0), const(1)

DIVIDEND_LIMIT = 12
"""Terms of a dividend of unknown sign: its correction has about twice as many for each term."""

MULTIPLE_LIMIT = 8
"""Common factors of a size whose sign is recognized."""


def negated(condition: Relation) -> Relation:
    """The opposite condition."""
    if condition.kind in ("==", "!="):
        return Relation("!=" if condition.kind == "==" else "==", condition.lhs, condition.rhs)
    return Relation("<=" if condition.kind == "<" else "<", condition.rhs, condition.lhs)


def truth(scope: ElementScope, condition: Relation) -> bool | None:
    """Whether a condition holds, by form or by the scope's knowledge; None if it depends or is not known."""
    above = condition.rhs - condition.lhs
    if not above.divisors_maybe_zero():
        known = _truth_by_form(condition.kind, above)
        if known is not None:
            return known
    return scope.decide(condition)


def _truth_by_form(kind: str, above: Dim) -> bool | None:
    """Decide ``0 kind above``."""
    if kind in ("==", "!="):
        if above is ZERO:
            return kind == "=="
        if is_positive(above) or is_positive(-above):
            return kind == "!="
        return None
    if kind == "<=":
        return True if _nonnegative(above) else False if is_positive(-above) else None
    return True if is_positive(above) else False if _nonnegative(-above) else None


def _nonnegative(dim: Dim) -> bool:
    return is_nonnegative(dim) or any(times is ZERO for _, _, times in split_remainder(dim))


def decided(scope: ElementScope, condition: Relation) -> bool | Relation:
    known = truth(scope, condition)
    return condition if known is None else known


def at_least(scope: ElementScope, dim: Dim, bound: int) -> bool:
    return truth(scope, Relation("<=", const(bound), dim)) is True


def step(dim: Dim) -> Dim:
    """[dim >= 1]."""
    d = modulus(dim)
    return relu(dim) - relu(dim - 1) if d is None else ceildiv(dim, d)


def modulus(dim: Dim) -> Dim | None:
    """d >= 1 with 0 <= dim < d by form: of a remainder, which is not 0 where ceil(dim / d) = 1."""
    return next((d for d, _, times in split_remainder(dim) if times is ZERO), None)


def indicator(condition: Relation) -> Dim:
    """1 where the condition holds, else 0."""
    above = condition.rhs - condition.lhs
    if condition.kind == "<":
        found = correction(-above)
        return step(above) if found is None else found[1]
    if condition.kind == "<=":
        return 1 - indicator(negated(condition))
    differs = step(-above) if modulus(-above) is not None else step(above)
    if modulus(above) is None and modulus(-above) is None:
        differs += step(-above)
    return differs if condition.kind == "!=" else 1 - differs


# -- truncating division -----------------------------------------------------------------------------


def correction_of(x: Dim, d: Dim) -> Dim:
    """J: what truncation adds to floor division, for d >= 1."""
    return step(-x) * step(mod(x, d))


def truncated_division(scope: ElementScope, x: Dim, d: Dim) -> Dim | None:
    """x / d rounded towards zero; None if the signs are not known well enough or d may be 0."""
    if at_least(scope, x, 0):
        return _signed_division(scope, x, d)
    if at_least(scope, -x, 0):
        quotient = _signed_division(scope, -x, d)
        return None if quotient is None else -quotient
    if len(x.terms) > DIVIDEND_LIMIT or not at_least(scope, d, 1):
        return None
    return floordiv(x, d) + correction_of(x, d)


def _signed_division(scope: ElementScope, x: Dim, d: Dim) -> Dim | None:
    """The same for x >= 0."""
    if at_least(scope, d, 1):
        return floordiv(x, d)
    return -floordiv(x, -d) if at_least(scope, -d, 1) else None


def _divisors_in(remainder: Dim) -> Iterator[Dim]:
    """Divisors that a remainder may have been taken by, from its form."""
    numbers = sorted({abs(coefficient) for _, coefficient in remainder.terms} - {1})
    yield from map(const, numbers)
    for atom in remainder.atoms():
        if isinstance(atom, FloorDiv):
            yield atom.den


def split_remainder(remainder: Dim) -> Iterator[tuple[Dim, Dim, Dim]]:
    """All (d, m, J) by form with remainder = m - d*J, m = remainder % d, d >= 1."""
    for d in _divisors_in(remainder):
        if is_positive(d):
            reduced = mod(remainder, d)
            times = floordiv(reduced - remainder, d)
            if d * times is reduced - remainder:
                yield d, reduced, times


def correction(remainder: Dim) -> tuple[Dim, Dim] | None:
    """(x, J), if the form is that of a truncating remainder of x: it is negative exactly where J = 1."""
    for _, reduced, times in split_remainder(remainder):
        for x in _dividends_in(times):
            if times is not ZERO and times is step(-x) * step(reduced):
                return x, times
    return None


def _dividends_in(times: Dim) -> Iterator[Dim]:
    """What x may be in J = [x < 0] * [m >= 1]; -1 stands for all that are plainly negative."""
    yield const(-1)
    for atom in times.atoms():
        if isinstance(atom, Relu):
            yield from (atom.arg, atom.arg - 1, -atom.arg, -atom.arg - 1)


def is_truncated(x: Dim, remainder: Dim) -> tuple[Dim, Dim] | None:
    """(x % d, J) if the form is that of the truncating remainder of x by some d >= 1."""
    for d, reduced, times in split_remainder(remainder):
        if reduced is mod(x, d) and times is correction_of(x, d):
            return reduced, times
    return None


def sign_argument(dim: Dim) -> tuple[Dim, bool] | None:
    """x where the form is sign(x) (with True), or min(1, x) (with False)."""
    if dim.const is None and is_nonnegative(dim) and is_nonnegative(1 - dim):
        return dim, False
    for x in _signed_in(dim):
        if dim is sign_form(x):
            return x, True
        if dim is minimum(ONE, x):
            return x, False
    return None


def _signed_in(dim: Dim) -> Iterator[Dim]:
    """What x may be in sign(x): its Relus are of x, x - 1, -x and -x - 1, whose common factors are in front."""
    for mono, coefficient in dim.terms:
        atom, times = mono[0][0] if mono else None, abs(coefficient)
        if isinstance(atom, Relu) and times <= MULTIPLE_LIMIT:
            for offset in range(-times, times + 1):
                yield times * atom.arg + offset
                yield -times * atom.arg + offset


def sign_form(x: Dim) -> Dim:
    return relu(x) - relu(x - 1) - relu(-x) + relu(-x - 1)
