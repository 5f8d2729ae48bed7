"""Size functions in canonical form: what the rules that run at once make of them."""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

from egshape.dims import at_once
from egshape.dims.core import (
    ABOVE,
    Atom,
    Call,
    Dim,
    DimLike,
    FloorDiv,
    Function,
    Relu,
    Symbol,
    as_dim,
    call_atom,
    const,
    floordiv_atom,
    from_terms,
    is_nonnegative,
    is_positive,
    of_atom,
    relu_atom,
)


class Forms:
    """How size functions are made, where nothing is known of sizes but their forms; who knows more says so in
    ``at_least``."""

    def at_least(self, dim: Dim, number: int) -> bool:
        """Whether the form alone shows dim >= number at all sizes at which it is defined."""
        if dim.const is not None:
            return dim.const >= number
        if number == 1:
            return is_positive(dim)
        return is_nonnegative(dim - number if number else dim)

    def joins(self, one: Dim, two: Dim) -> bool:
        """Whether the forms alone show that two sizes are equal, or one of them is 1; the latter is not asked."""
        return one is two

    def floordiv(self, num: Dim, den: Dim) -> Dim:
        """floor(num / den).  A division whose divisor may be 0 stays as it is written."""
        found = at_once.floordiv(self, num, den)
        return of_atom(floordiv_atom(num, den)) if found is None else found[0]

    def relu(self, arg: Dim) -> Dim:
        """max(0, arg)."""
        found = at_once.relu(self, arg)
        return of_atom(relu_atom(arg)) if found is None else found[0]

    def bcast(self, one: Dim, two: Dim) -> Dim:
        """The size of a broadcast axis."""
        return self.call(ABOVE.bcast, (one, two))

    def call(self, function: Function, args: tuple[Dim, ...]) -> Dim:
        """function(args).  A value that may be undefined stays as it is written."""
        numbers = [arg.const for arg in args if arg.const is not None]
        if len(numbers) == len(args):
            value = function.value(*numbers)
            return of_atom(call_atom(function, args)) if value is None else const(value)
        found = function.simplify(self, *args)
        return of_atom(call_atom(function, args)) if found is None else found[0]

    def remade(self, atom: Atom, args: Iterable[Dim]) -> Dim:
        """The value of an atom's function at other sizes."""
        if isinstance(atom, Relu):
            return self.relu(*args)
        if isinstance(atom, FloorDiv):
            return self.floordiv(*args)
        return self.call(atom.function, tuple(args)) if isinstance(atom, Call) else of_atom(atom)


FORMS = Forms()


_LAWS: dict[Atom, tuple[Dim, ...]] = {}


def laws_of(atom: Atom) -> tuple[Dim, ...]:
    """Sizes that are >= 0 by what the atom means, at all sizes at which it is defined."""
    found = _LAWS.get(atom)
    if found is None:
        found = ()
        _LAWS[atom] = found  # a question about the atom itself, while they are made, has no answer
        if isinstance(atom, FloorDiv):
            found = tuple(law for law, _ in at_once.floordiv_laws(FORMS, of_atom(atom), atom.num, atom.den))
        elif isinstance(atom, Relu):
            found = tuple(law for law, _ in at_once.relu_laws(FORMS, of_atom(atom), atom.arg))
        elif isinstance(atom, Call):
            found = tuple(law for law, _ in atom.function.laws(FORMS, of_atom(atom), *atom.args))
        _LAWS[atom] = found
    return found


def nonnegative_by_laws(dim: Dim) -> bool:
    """With the values of size functions put at their least by what they mean: shows a % k >= 0, and 1 - a % 2 >= 0."""
    signs = {c < 0 for m, c in dim.terms if len(m) == 1 and m[0][1] == 1 and not isinstance(m[0][0], Symbol)}
    return (True in signs and _by_laws(dim, False)) or (False in signs and _by_laws(dim, True))


def _by_laws(dim: Dim, both: bool) -> bool:
    """Whether dim is plainly >= 0 with its atoms at their least (those with a positive sign only if ``both``)."""
    scale, used = 1, []
    for mono, c in dim.terms:
        if len(mono) != 1 or mono[0][1] != 1 or isinstance(mono[0][0], Symbol) or not (c < 0 or both):
            continue
        for law in laws_of(mono[0][0]):
            own = next((k for m, k in law.terms if m == mono), 0)
            if own and (own > 0) == (c > 0):
                used.append((c, own, law))
                scale = lcm(scale, own)
                break
    if not used:
        return False
    poly = {m: c * scale for m, c in dim.terms}
    for c, own, law in used:
        for m, k in law.terms:
            poly[m] = poly.get(m, 0) - c * scale // own * k
    # Above -scale is enough: dim is a whole number.
    poly[()] = poly.get((), 0) + scale - 1
    return all(c >= 0 and all(a.nonnegative or p % 2 == 0 for a, p in m) for m, c in poly.items())


class _Positive(Forms):
    """The same where one size is known to be >= 1."""

    def __init__(self, size: Dim) -> None:
        self.size = size

    def at_least(self, dim: Dim, number: int) -> bool:
        return (dim is self.size and number <= 1) or super().at_least(dim, number)


def is_nonpositive(dim: Dim) -> bool:
    """Whether the form alone shows dim <= 0 at all sizes at which it is defined."""
    if any(c > 0 and not any(isinstance(a, FloorDiv) for a, _ in m) for m, c in dim.terms):
        return False  # the common case, without a new Dim
    return is_nonnegative(-dim)


def floordiv(num: DimLike, den: DimLike) -> Dim:
    """floor(num / den).  A division whose divisor may be 0 stays as it is written."""
    return FORMS.floordiv(as_dim(num), as_dim(den))


def floordiv_positive(num: Dim, den: Dim) -> Dim:
    """floor(num / den) where the caller knows that den >= 1."""
    return _Positive(den).floordiv(num, den)


def relu(arg: DimLike) -> Dim:
    """max(0, arg)."""
    return FORMS.relu(as_dim(arg))


def mod(num: DimLike, den: DimLike) -> Dim:
    """num - den*floor(num/den), undefined where den is 0."""
    num, den = as_dim(num), as_dim(den)
    return num - den * floordiv(num, den)


def ceildiv(num: DimLike, den: DimLike) -> Dim:
    """-floor(-num / den): division rounded up."""
    return -floordiv(-as_dim(num), den)


def maximum(*values: DimLike) -> Dim:
    """The largest of the sizes (at least one)."""
    first, *rest = (as_dim(v) for v in values)
    for value in rest:
        first = value + relu(first - value)
    return first


def minimum(*values: DimLike) -> Dim:
    """The smallest of the sizes (at least one)."""
    first, *rest = (as_dim(v) for v in values)
    for value in rest:
        first = first - relu(first - value)
    return first


def bcast(one: DimLike, two: DimLike) -> Dim:
    """The size of a broadcast axis, right where the sizes are equal or one of them is 1."""
    return FORMS.bcast(as_dim(one), as_dim(two))


def broadcast_gap(one: Dim, two: Dim) -> Dim:
    """What is 0 where two sizes broadcast: where they are equal, or one of them is 1."""
    return (one - two) * (one - 1) * (two - 1)


def total(values: Iterable[DimLike]) -> Dim:
    """Their sum; 0 for none. In one go: of many terms, one after the other would be quadratic."""
    return from_terms(term for value in values for term in as_dim(value).terms)


def product(values: Iterable[DimLike]) -> Dim:
    """Their product; 1 for none."""
    total = const(1)
    for value in values:
        total = total * value
    return total


ABOVE.floordiv, ABOVE.mod, ABOVE.remade = floordiv, mod, FORMS.remade
ABOVE.nonnegative_by_laws = nonnegative_by_laws
