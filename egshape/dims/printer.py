"""Sizes as text: min, max, mod and cdiv are recovered where they print shorter."""

from __future__ import annotations

from egshape.dims.core import (
    ABOVE,
    Atom,
    Call,
    Dim,
    FloorDiv,
    Monomial,
    Relu,
    Symbol,
    from_terms,
    multiply_monomials,
    of_atom,
)
from egshape.dims.names import quote_name
from egshape.dims.theory import divide


class _Shown(Atom):
    """A stand-in for a recovered operation, which lives only while one size is printed."""

    __slots__ = ("is_call", "text")

    def __init__(self, text: str, symbols: frozenset[str], is_call: bool) -> None:
        self.args = ()
        self.key = (4, text)
        self.nonnegative = False
        self.symbols = symbols
        self.weight = 1
        self.text = text
        self.is_call = is_call


def to_text(dim: Dim) -> str:
    """Canonical text that parses back to the same size."""
    shown = dim
    for atom in _by_depth(dim):
        if isinstance(atom, Relu):
            shown = _recover_min_max(shown, atom)
        elif isinstance(atom, FloorDiv):
            shown = _recover_mod(shown, atom)
    return _sum_text(shown)


def _by_depth(dim: Dim) -> list[Atom]:
    """Its atoms, compound ones first: an outer max takes away what an inner one would claim."""
    return sorted(dim.atoms(), key=lambda a: (-a.weight, a.key))


def _linear_part(dim: Dim, atom: Atom) -> tuple[Dim, Dim]:
    """(q, r) with dim = q*atom + r, where q and r hold no further first power of atom."""
    inside: list[tuple[Monomial, int]] = []
    outside: list[tuple[Monomial, int]] = []
    for mono, c in dim.terms:
        powers = dict(mono)
        if powers.pop(atom, 0) == 1:
            inside.append((tuple(powers.items()), c))
        else:
            outside.append((mono, c))
    return from_terms(inside), from_terms(outside)


def _shown_times(factor: Dim, shown: _Shown) -> Dim:
    return from_terms((multiply_monomials(m, ((shown, 1),)), c) for m, c in factor.terms)


def _best(dim: Dim, candidates: list[tuple[Dim, Dim, _Shown]]) -> Dim:
    """The candidate (factor, rest, shown) with the fewest terms, if fewer than dim has."""
    best = dim
    for factor, rest, shown in candidates:
        new = rest + _shown_times(factor, shown)
        if len(new.terms) < len(best.terms):
            best = new
    return best


def _recover_min_max(dim: Dim, atom: Relu) -> Dim:
    factor, rest = _linear_part(dim, atom)
    if not factor.terms:
        return dim
    high = from_terms(t for t in atom.arg.terms if t[1] > 0)
    low = high - atom.arg
    symbols = atom.symbols
    largest = _Shown(f"max({high}, {low})", symbols, True)
    smallest = _Shown(f"min({high}, {low})", symbols, True)
    chosen = _best(dim, [(factor, rest - factor * low, largest), (-factor, rest + factor * high, smallest)])
    if chosen is not dim:
        return chosen
    one_by_one = dim
    if len(factor.terms) > 1:  # each coefficient by itself: 2*max(a,b) + min(a,c)*max(a,b) ...
        for term in factor.terms:
            part = from_terms([term])
            _, without = _linear_part(one_by_one, atom)
            left = from_terms(t for t in (one_by_one - without).terms) - part * of_atom(atom)
            base = without + left
            one_by_one = _best(one_by_one, [(part, base - part * low, largest), (-part, base + part * high, smallest)])
    return one_by_one


def _recover_mod(dim: Dim, atom: FloorDiv) -> Dim:
    factor, rest = _linear_part(dim, atom)
    if not factor.terms or not atom.den.terms:
        return dim
    candidates: list[tuple[Dim, Dim, _Shown]] = []
    quotient, left = divide(factor, -atom.den)
    if quotient.terms and not left.terms:
        text = f"{_operand(atom.num)}%{_operand(atom.den)}"
        candidates.append((quotient, rest - quotient * atom.num, _Shown(text, atom.symbols, False)))
    k = atom.den.const
    if k is not None:
        low = (k - 1) - atom.num  # floor(num/k) = -floor(low/k)
        if quotient.terms and not left.terms:
            text = f"{_operand(low)}%{k}"
            candidates.append((-quotient, rest + quotient * low, _Shown(text, atom.symbols, False)))
        if k == 2:
            text = f"cdiv({atom.num}, 2)"
            candidates.append((-factor, rest + factor * atom.num, _Shown(text, atom.symbols, True)))
    return _best(dim, candidates)


def _sum_text(dim: Dim) -> str:
    if not dim.terms:
        return "0"
    terms = list(dim.terms)
    first = next((i for i, (_, c) in enumerate(terms) if c > 0), 0)
    terms.insert(0, terms.pop(first))
    parts: list[str] = []
    for mono, c in terms:
        text, negative = _term_text(mono, abs(c)), c < 0
        if _odd_ceilings(mono):
            negative = not negative
        if parts:
            parts.append(f" {'-' if negative else '+'} {text}")
        else:  # unary minus binds tighter than // and %
            bare = abs(c) == 1 and sum(p for _, p in mono) == 1 and not _atom_text(mono[0][0])[1]
            parts.append(f"-({text})" if negative and bare else f"-{text}" if negative else text)
    return "".join(parts)


def _odd_ceilings(mono: Monomial) -> bool:
    """Whether an odd number of its factors prints as the negative of a ceiling division."""
    return sum(p for a, p in mono if isinstance(a, FloorDiv) and _is_negative(a)) % 2 == 1


def _is_negative(atom: FloorDiv) -> bool:
    return all(c < 0 for _, c in atom.num.terms) and bool(atom.num.terms) and atom.den.const is None


def _term_text(mono: Monomial, coefficient: int) -> str:
    factors = [(atom, *_atom_text(atom)) for atom, power in mono for _ in range(power)]
    if not factors:
        return str(coefficient)
    if coefficient == 1 and len(factors) == 1:
        return factors[0][1]
    texts = [text if is_call else f"({text})" for _, text, is_call in factors]
    return "*".join(([str(coefficient)] if coefficient != 1 else []) + texts)


def _atom_text(atom: Atom) -> tuple[str, bool]:
    """Its text, and whether it stands in a product without parentheses."""
    if isinstance(atom, Symbol):
        return quote_name(atom.name), True
    if isinstance(atom, _Shown):
        return atom.text, atom.is_call
    if isinstance(atom, Relu):
        high = from_terms(t for t in atom.arg.terms if t[1] > 0)
        return (f"max({atom.arg}, 0)" if high.terms else f"max(0, {atom.arg})"), True
    if isinstance(atom, Call):
        return repr(atom), True
    assert isinstance(atom, FloorDiv)
    if _is_negative(atom):
        return f"cdiv({-atom.num}, {atom.den})", True
    k = atom.den.const
    offset = atom.num.terms[-1] if atom.num.terms else ((), 0)
    if k is not None and k > 1 and not offset[0] and offset[1] == k - 1:
        return f"cdiv({atom.num - (k - 1)}, {k})", True
    return f"{_operand(atom.num)}//{_operand(atom.den)}", False


def _operand(dim: Dim) -> str:
    text = str(dim)
    shown = to_single(dim)
    return text if shown else f"({text})"


def to_single(dim: Dim) -> bool:
    """Whether its text is one operand: a number >= 0, a name or one call."""
    if dim.const is not None:
        return dim.const >= 0
    text = str(dim)
    if len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 1:
        atom, power = dim.terms[0][0][0]
        if power == 1 and isinstance(atom, Symbol):
            return True
    return _is_one_call(text)


def _is_one_call(text: str) -> bool:
    head, _, rest = text.partition("(")
    if not (head.isidentifier() and rest.endswith(")")):
        return False
    depth = 1
    for i, ch in enumerate(rest):
        depth += (ch == "(") - (ch == ")")
        if depth == 0:
            return i == len(rest) - 1
    return False


ABOVE.to_text = to_text
