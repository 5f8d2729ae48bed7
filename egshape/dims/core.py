"""The size algebra: atoms and canonical polynomials over them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias, Union

from egshape.dims.bounds import floordiv_bounds, relu_bounds
from egshape.dims.ends import Bounds
from egshape.dims.pure import Formula
from egshape.errors import UndefinedSize
from egshape.limits import tick

Monomial: TypeAlias = tuple[tuple["Atom", int], ...]
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]
DimLike: TypeAlias = Union["Dim", int]
_Poly: TypeAlias = dict[Monomial, int]

_ONE: Monomial = ()


class Atom:
    """An indivisible factor of a size: a symbol, a floor division, a Relu or a call.  Interned."""

    __slots__ = ("args", "key", "nonnegative", "symbols", "weight")

    args: tuple[Dim, ...]  # the sizes inside
    key: tuple[object, ...]  # structural, so that no order hangs on what was created first
    nonnegative: bool  # at all sizes at which it is defined
    symbols: frozenset[str]
    weight: int  # 1 for a symbol; a compound atom outweighs every monomial inside of it


class Symbol(Atom):
    """An unknown size, an integer >= 0."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.args = ()
        self.key = (0, natural_key(name))
        self.nonnegative = True
        self.symbols = frozenset((name,))
        self.weight = 1

    def __repr__(self) -> str:
        return f"Symbol({self.name!r})"

    def __reduce__(self) -> tuple[Callable[..., Atom], tuple[object, ...]]:
        return _symbol_atom, (self.name,)


class FloorDiv(Atom):
    """floor(num / den), undefined where den is 0."""

    __slots__ = ("den", "num")

    def __init__(self, num: Dim, den: Dim) -> None:
        self.num = num
        self.den = den
        self.args = (num, den)
        self.key = (1, num.key, den.key)
        # Where it is defined the divisor is not 0.
        low, _ = floordiv_bounds((_least(num), None), (1 if is_nonnegative(den) else None, None))
        self.nonnegative = low is not None and low >= 0
        self.symbols = num.symbols() | den.symbols()
        self.weight = 1 + _weight(num) + _weight(den)

    def __repr__(self) -> str:
        return f"FloorDiv({self.num}, {self.den})"

    def __reduce__(self) -> tuple[Callable[..., Atom], tuple[object, ...]]:
        return floordiv_atom, (self.num, self.den)


class Relu(Atom):
    """max(0, arg)."""

    __slots__ = ("arg", "pinch")

    pinch: Atom | None  # the atom a when arg is a - 1: then a * Relu(a - 1) = a*a - a

    def __init__(self, arg: Dim) -> None:
        self.arg = arg
        self.args = (arg,)
        self.key = (2, arg.key)
        low, _ = relu_bounds((_least(arg), None))
        self.nonnegative = low is not None and low >= 0
        self.symbols = arg.symbols()
        self.weight = 1 + _weight(arg)
        self.pinch = _pinch_of(arg)

    def __repr__(self) -> str:
        return f"Relu({self.arg})"

    def __reduce__(self) -> tuple[Callable[..., Atom], tuple[object, ...]]:
        return relu_atom, (self.arg,)


class Function(Protocol):
    """A size function that is no atom of its own kind: what a call needs of it (``egshape.dims.functions``)."""

    @property
    def name(self) -> str:
        """As it stands in text."""

    @property
    def params(self) -> tuple[str, ...]:
        """The names of its arguments."""

    @property
    def known(self) -> bool:
        """Whether proofs use what it is equal to."""

    @property
    def key(self) -> tuple[object, ...]:
        """A structural sort key, the same in every process: two functions of one name that differ have two."""

    @property
    def formula(self) -> Formula | None:
        """How it is computed where it is no expression."""

    def bounds(self, *args: Bounds) -> Bounds:
        """Bounds of the value by those of the arguments."""

    def value(self, *args: int) -> int | None:
        """The value; None where it is undefined."""

    def needs(self, *args: Dim) -> tuple[Dim, ...]:
        """Sizes that must not be 0 for the value to be defined."""

    def simplify(self, sizes: object, *args: Dim) -> tuple[Dim, str] | None:
        """The value made simpler, with the name of the rule; None where no rule applies."""

    def laws(self, sizes: object, value: Dim, *args: Dim) -> Iterable[tuple[Dim, str]]:
        """What is >= 0 by what the function means, with the rules."""

    def unfolded(self, *args: Dim) -> Dim | None:
        """The value as an expression over other functions; None where it has none."""


class Call(Atom):
    """The value of a size function that is not built in, undefined where what it needs is 0."""

    __slots__ = ("function",)

    def __init__(self, function: Function, args: tuple[Dim, ...]) -> None:
        self.function = function
        self.args = args
        self.key = (3, *function.key, *(arg.key for arg in args))
        low, _ = function.bounds(*((_least(arg), arg.const) for arg in args))
        self.nonnegative = low is not None and low >= 0
        self.symbols = frozenset[str]().union(*(arg.symbols() for arg in args))
        self.weight = 1 + sum(map(_weight, args))

    def __repr__(self) -> str:
        return f"{self.function.name}({', '.join(map(str, self.args))})"

    def __reduce__(self) -> tuple[Callable[..., Atom], tuple[object, ...]]:
        return call_atom, (self.function, self.args)


def _least(dim: Dim) -> int | None:
    """0 where the form shows dim >= 0."""
    return 0 if is_nonnegative(dim) else None


def monomial_weight(mono: Monomial) -> int:
    """The sum of the weights of its factors; its degree where all are symbols."""
    return sum(a.weight * p for a, p in mono)


def _weight(dim: Dim) -> int:
    return max((monomial_weight(m) for m, _ in dim.terms), default=0)


def _pinch_of(arg: Dim) -> Atom | None:
    if len(arg.terms) != 2 or arg.terms[1] != (_ONE, -1):
        return None
    mono, coefficient = arg.terms[0]
    if coefficient == 1 and len(mono) == 1 and mono[0][1] == 1 and mono[0][0].nonnegative:
        return mono[0][0]
    return None


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which x2 comes before x10."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(p), p) if p.isdigit() and p.isascii() else (1, 0, p) for p in parts if p)


class _Above:
    """What sizes do with the modules that stand on this one, which say it here: ``egshape.dims`` imports them all."""

    bcast: Function
    floordiv: Callable[[DimLike, DimLike], Dim]
    mod: Callable[[DimLike, DimLike], Dim]
    nonnegative_by_laws: Callable[[Dim], bool]
    remade: Callable[[Atom, Iterable[Dim]], Dim]
    shipped: Mapping[str, Function]
    to_text: Callable[[Dim], str]


ABOVE = _Above()


class Dim:
    """A size: an interned polynomial.  `==` and `is` agree and mean identity of form."""

    __slots__ = ("_floors", "_key", "_nonneg", "_str", "_symbols", "const", "id", "terms")

    id: int
    terms: Terms  # descending in graded lexicographic order, no zero coefficient
    const: int | None

    def __init__(self, ident: int, terms: Terms) -> None:
        self.id = ident
        self.terms = terms
        self.const = 0 if not terms else terms[0][1] if len(terms) == 1 and not terms[0][0] else None
        self._key: tuple[object, ...] | None = None
        self._symbols: frozenset[str] | None = None
        self._nonneg: bool | None = None
        self._str: str | None = None
        self._floors: tuple[Dim, ...] | None = None

    @property
    def is_const(self) -> bool:
        """Whether this is a number."""
        return self.const is not None

    @property
    def key(self) -> tuple[object, ...]:
        """A structural sort key, the same in every process."""
        if self._key is None:
            self._key = tuple((monomial_key(m), c) for m, c in self.terms)
        return self._key

    def symbols(self) -> frozenset[str]:
        """Names of all symbols in it, also inside of atoms."""
        if self._symbols is None:
            self._symbols = frozenset().union(*(a.symbols for m, _ in self.terms for a, _ in m))
        return self._symbols

    def atoms(self) -> tuple[Atom, ...]:
        """The distinct atoms of its monomials (not the ones inside of atoms), in order."""
        return tuple(sorted({a for m, _ in self.terms for a, _ in m}, key=lambda a: a.key))

    def divisors_maybe_zero(self) -> tuple[Dim, ...]:
        """Divisors in it, at any depth, that are not by their form always non-zero."""
        if self._floors is None:
            found: dict[Dim, None] = {}
            for atom in self.atoms():
                _collect_divisors(atom, found)
            self._floors = tuple(found)
        return self._floors

    def evaluate(self, env: Mapping[str, int]) -> int:
        """Its value at the given sizes; `//` floors.  Raises UndefinedSize on a division by 0."""
        return _evaluate(self, env, {})

    def substitute(self, env: Mapping[str, DimLike]) -> Dim:
        """Put sizes in the place of symbols."""
        if self.symbols().isdisjoint(env):
            return self
        cache: dict[Atom, Dim] = {}

        def atom_value(atom: Atom) -> Dim:
            if atom not in cache:
                cache[atom] = _substitute_atom(atom, env)
            return cache[atom]

        return self.map_atoms(atom_value)

    def map_atoms(self, value: Callable[[Atom], Dim]) -> Dim:
        """Put a size in the place of each atom of its monomials."""
        total: _Poly = {}
        for mono, coefficient in self.terms:
            kept: Monomial = ()
            changed: Dim | None = None
            for atom, power in mono:
                new = value(atom)
                if new.terms == ((((atom, 1),), 1),):
                    kept = (*kept, (atom, power))
                    continue
                for _ in range(power):
                    changed = new if changed is None else changed * new
            part: Iterable[tuple[Monomial, int]] = ((kept, 1),)
            if changed is not None:
                part = (changed * _dim(_Poly({kept: 1})) if kept else changed).terms
            for m, c in part:
                total[m] = total.get(m, 0) + c * coefficient
        return _dim(total)

    def __add__(self, other: DimLike) -> Dim:
        if not isinstance(other, Dim):
            if not isinstance(other, int):
                return NotImplemented
            other = const(other)
        if not other.terms:
            return self
        if not self.terms:
            return other
        poly = dict(self.terms)
        for m, c in other.terms:
            poly[m] = poly.get(m, 0) + c
        return _dim(poly)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return _intern(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: DimLike) -> Dim:
        if not isinstance(other, Dim):
            if not isinstance(other, int):
                return NotImplemented
            other = const(other)
        if not other.terms:
            return self
        poly = dict(self.terms)
        for m, c in other.terms:
            poly[m] = poly.get(m, 0) - c
        return _dim(poly)

    def __rsub__(self, other: int) -> Dim:
        return const(other) - self if isinstance(other, int) else NotImplemented

    def __mul__(self, other: DimLike) -> Dim:
        if not isinstance(other, Dim):
            if not isinstance(other, int):
                return NotImplemented
            other = const(other)
        for one, two in ((self, other), (other, self)):
            if one.const is not None:
                k = one.const
                if k in (0, 1):
                    return two if k else _ZERO
                return _intern(tuple((m, c * k) for m, c in two.terms))
        poly: _Poly = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                mono = multiply_monomials(m1, m2)
                reduced = _reduce_monomial(mono)
                if reduced is None:
                    poly[mono] = poly.get(mono, 0) + c1 * c2
                else:
                    for m, c in reduced.terms:
                        poly[m] = poly.get(m, 0) + c * c1 * c2
        return _dim(poly)

    __rmul__ = __mul__

    def __floordiv__(self, other: DimLike) -> Dim:
        return ABOVE.floordiv(self, other) if isinstance(other, (Dim, int)) else NotImplemented

    def __rfloordiv__(self, other: int) -> Dim:
        return ABOVE.floordiv(other, self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: DimLike) -> Dim:
        return ABOVE.mod(self, other) if isinstance(other, (Dim, int)) else NotImplemented

    def __rmod__(self, other: int) -> Dim:
        return ABOVE.mod(other, self) if isinstance(other, int) else NotImplemented

    def __str__(self) -> str:
        if self._str is None:
            self._str = ABOVE.to_text(self)
        return self._str

    def __repr__(self) -> str:
        return f"Dim({self})"

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: object) -> Dim:
        return self

    def __reduce__(self) -> tuple[Callable[..., Dim], tuple[object, ...]]:
        return from_terms, (self.terms,)


# The intern tables are the one module state: identity is what makes comparing sizes free.
_DIMS: dict[Terms, Dim] = {}
_IDS = itertools.count()
_SYMBOLS: dict[str, Symbol] = {}
_FLOORS: dict[tuple[Dim, Dim], FloorDiv] = {}
_RELUS: dict[Dim, Relu] = {}
_CALLS: dict[tuple[Function, tuple[Dim, ...]], Call] = {}
_MONOMIAL_KEYS: dict[Monomial, tuple[object, ...]] = {}


def monomial_key(mono: Monomial) -> tuple[object, ...]:
    """Ascending in this key is descending in graded lexicographic order."""
    key = _MONOMIAL_KEYS.get(mono)
    if key is None:
        key = (-sum(p for _, p in mono), tuple((a.key, -p) for a, p in mono))
        _MONOMIAL_KEYS[mono] = key
    return key


def _intern(terms: Terms) -> Dim:
    tick()
    found = _DIMS.get(terms)
    return found if found is not None else _DIMS.setdefault(terms, Dim(next(_IDS), terms))


def _dim(poly: _Poly) -> Dim:
    terms = [t for t in poly.items() if t[1]]
    if len(terms) > 1:
        terms.sort(key=_term_key)
    return _intern(tuple(terms))


def _term_key(term: tuple[Monomial, int]) -> tuple[object, ...]:
    return monomial_key(term[0])


def from_terms(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    """The sum of terms; their monomials must be monomials of some Dim (sorted, reduced)."""
    poly: _Poly = {}
    for m, c in terms:
        poly[m] = poly.get(m, 0) + c
    return _dim(poly)


def _symbol_atom(name: str) -> Symbol:
    return _SYMBOLS.get(name) or _SYMBOLS.setdefault(name, Symbol(name))


def floordiv_atom(num: Dim, den: Dim) -> FloorDiv:
    """The interned atom num // den, as it stands."""
    return _FLOORS.get((num, den)) or _FLOORS.setdefault((num, den), FloorDiv(num, den))


def relu_atom(arg: Dim) -> Relu:
    """The interned atom max(0, arg), as it stands."""
    return _RELUS.get(arg) or _RELUS.setdefault(arg, Relu(arg))


def call_atom(function: Function, args: tuple[Dim, ...]) -> Call:
    """The interned atom function(args), as it stands."""
    return _CALLS.get((function, args)) or _CALLS.setdefault((function, args), Call(function, args))


def of_atom(atom: Atom) -> Dim:
    """The size that is just this atom."""
    return _intern(((((atom, 1),), 1),))


def const(n: int) -> Dim:
    """The size n."""
    n = int(n)
    return _intern(((_ONE, n),) if n else ())


def symbol(name: str) -> Dim:
    """The unknown size of this name, an integer >= 0."""
    return of_atom(_symbol_atom(name))


_ZERO = const(0)


def as_dim(value: DimLike) -> Dim:
    """An int as a Dim; a Dim as it is."""
    return value if isinstance(value, Dim) else const(value)


def multiply_monomials(one: Monomial, two: Monomial) -> Monomial:
    """Their product, sorted by atom."""
    if not one:
        return two
    if not two:
        return one
    powers = dict(one)
    for atom, power in two:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=_factor_key)) if len(powers) > 1 else tuple(powers.items())


def _factor_key(factor: tuple[Atom, int]) -> tuple[object, ...]:
    return factor[0].key


def divide_monomial(mono: Monomial, by: Monomial) -> Monomial | None:
    """mono / by, or None if by does not divide it."""
    if not by:
        return mono
    powers = dict(mono)
    for atom, power in by:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        if left:
            powers[atom] = left
        else:
            del powers[atom]
    return tuple(powers.items())


def _reduce_monomial(mono: Monomial) -> Dim | None:
    """Relu(p)**2 = p*Relu(p), and a*Relu(a-1) = a*a - a for a >= 0; None where neither applies."""
    for atom, power in mono:
        if not isinstance(atom, Relu):
            continue
        if power >= 2:
            rest = divide_monomial(mono, ((atom, 2),))
            assert rest is not None
            return monomial_dim(rest) * (atom.arg * of_atom(atom))
        if atom.pinch is not None and any(a is atom.pinch for a, _ in mono):
            rest = divide_monomial(mono, ((atom, 1),))
            assert rest is not None
            return monomial_dim(rest) * atom.arg
    return None


def monomial_dim(mono: Monomial) -> Dim:
    """A monomial that may be out of normal form, as a Dim."""
    return _reduce_monomial(mono) or _intern(((mono, 1),))


def _collect_divisors(atom: Atom, found: dict[Dim, None]) -> None:
    needed: tuple[Dim, ...] = ()
    if isinstance(atom, FloorDiv):
        needed = (atom.den,)
    elif isinstance(atom, Call):
        needed = atom.function.needs(*atom.args)
    found.update((dim, None) for dim in needed if not is_positive(dim) and not is_positive(-dim))
    for dim in atom.args:
        found.update(dict.fromkeys(dim.divisors_maybe_zero()))


def _evaluate(dim: Dim, env: Mapping[str, int], known: dict[Atom, int]) -> int:
    total = 0
    for mono, coefficient in dim.terms:
        value = coefficient
        for atom, power in mono:
            if isinstance(atom, Symbol):
                x = env[atom.name]
            else:
                x = known[atom] if atom in known else _evaluate_atom(atom, env, known)
            value *= x if power == 1 else x**power
        total += value
    return total


def _evaluate_atom(atom: Atom, env: Mapping[str, int], known: dict[Atom, int]) -> int:
    args = [_evaluate(arg, env, known) for arg in atom.args]
    if isinstance(atom, Relu):
        value: int | None = max(0, args[0])
    elif isinstance(atom, FloorDiv):
        if args[1] == 0:
            raise UndefinedSize(f"{of_atom(atom)} divides by 0", hint=f"{atom.den} is 0 at these sizes")
        value = args[0] // args[1]
    else:
        assert isinstance(atom, Call)
        value = atom.function.value(*args)
    if value is None:
        raise UndefinedSize(f"{of_atom(atom)} has no value", hint=f"its arguments are {args} at these sizes")
    known[atom] = value
    return value


def _substitute_atom(atom: Atom, env: Mapping[str, DimLike]) -> Dim:
    if atom.symbols.isdisjoint(env):
        return of_atom(atom)
    if isinstance(atom, Symbol):
        return as_dim(env[atom.name])
    return ABOVE.remade(atom, [arg.substitute(env) for arg in atom.args])


def is_nonnegative(dim: Dim) -> bool:
    """Whether the form alone shows dim >= 0 at all sizes at which it is defined."""
    if dim._nonneg is None:
        dim._nonneg = _plainly_nonnegative(dim) or ABOVE.nonnegative_by_laws(dim)
    return dim._nonneg


def _plainly_nonnegative(dim: Dim) -> bool:
    return all(c > 0 and all(a.nonnegative or p % 2 == 0 for a, p in m) for m, c in dim.terms)


def is_positive(dim: Dim) -> bool:
    """Whether the form alone shows dim >= 1 at all sizes at which it is defined."""
    return bool(dim.terms) and not dim.terms[-1][0] and dim.terms[-1][1] >= 1 and is_nonnegative(dim - 1)


def exact_quotient(dim: Dim, k: int) -> Dim:
    """dim / k where k divides every coefficient."""
    return _intern(tuple((m, c // k) for m, c in dim.terms))
