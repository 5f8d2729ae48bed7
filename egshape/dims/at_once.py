"""Rules over sizes that run at once, made from rulesets/size by `python -m egshape.rulelang.at_once`.

Not to be edited: each rule stands in the file that its name says, with its equation, why it is sound, and examples."""
# ruff: noqa: E501, SIM102, UP034

from __future__ import annotations

from egshape.dims import theory
from egshape.dims.core import ABOVE, Dim, const
from egshape.dims.theory import Law, Sizes


def floordiv(sizes: Sizes, h: Dim, k: Dim) -> tuple[Dim, str] | None:
    """floordiv(h, k) made simpler, with the name of the rule; None where none applies."""
    if theory.backward(k, k):
        if sizes.at_least(-k, 1):
            return sizes.floordiv((const(-1) * h), (const(-1) * k)), "size.floordiv/negative-divisor"
    if sizes.at_least(k, 1):
        for p, r in theory.whole(h, k):
            return (p + sizes.floordiv(r, k)), "size.floordiv/whole"
    if sizes.at_least(k, 1):
        for c, h_, o, k_ in theory.shared(h, k):
            if sizes.at_least(o, 0):
                if sizes.at_least(c - o, 1):
                    return sizes.floordiv(h_, k_), "size.floordiv/shared-factor"
    n_c = k.const
    if n_c is not None:
        if n_c > 0:
            for p, r in theory.terms(h, 1):
                found = theory.floordiv_parts(p)
                if found is not None:
                    i, j = found
                    n_e = j.const
                    if n_e is not None:
                        if n_e > 0:
                            return sizes.floordiv((i + (j * r)), (j * k)), "size.floordiv/nested-in-sum"
    n_c = k.const
    if n_c is not None:
        if n_c > 0:
            for p, r in theory.terms(h, -1):
                found = theory.floordiv_parts(p)
                if found is not None:
                    i, j = found
                    n_e = j.const
                    if n_e is not None:
                        if n_e > 0:
                            n_l = (n_e - 1)
                            return sizes.floordiv(((j * r) + (const(n_l) + (const(-1) * i))), (j * k)), "size.floordiv/nested-in-difference"
    n_c = k.const
    if n_c is not None:
        if n_c > 0:
            if theory.backward(h, k):
                n_l = (n_c - 1)
                return (const(-1) * sizes.floordiv((const(n_l) + (const(-1) * h)), k)), "size.floordiv/turned"
    if k.const == 2:
        for p, t in theory.terms(h, 1):
            if t.const == 1:
                return (p + (const(-1) * sizes.floordiv(p, k))), "size.floordiv/half-up"
    if sizes.at_least(h, 0):
        if sizes.at_least(k - h, 1):
            return const(0), "size.floordiv/small"
    for p, r in theory.near(h, k):
        if sizes.at_least(r, 0):
            if sizes.at_least(k - r, 1):
                return p, "size.floordiv/near"
    return None


def floordiv_laws(sizes: Sizes, value: Dim, h: Dim, k: Dim) -> Law:
    """What is >= 0 by what floordiv means, with the rules; the value is floordiv(h, k)."""
    if sizes.at_least(k, 1):
        yield h - k * value, "size.floordiv/remainder-lo"
    if sizes.at_least(k, 1):
        yield k - (h - k * value) - 1, "size.floordiv/remainder-below"
    yield from ()


def relu(sizes: Sizes, h: Dim) -> tuple[Dim, str] | None:
    """relu(h) made simpler, with the name of the rule; None where none applies."""
    if sizes.at_least(h, 0):
        return h, "size.relu/nonnegative"
    if sizes.at_least(-h, 0):
        return const(0), "size.relu/nonpositive"
    for a, r in theory.factors(h):
        if sizes.at_least(a, 0):
            return (a * sizes.relu(r)), "size.relu/factor"
    if theory.backward(h, h):
        return (h + sizes.relu((const(-1) * h))), "size.relu/turned"
    return None


def relu_laws(sizes: Sizes, value: Dim, h: Dim) -> Law:
    """What is >= 0 by what relu means, with the rules; the value is relu(h)."""
    yield value - h, "size.relu/mirror-zero"
    yield from ()


def bcast(sizes: Sizes, h: Dim, k: Dim) -> tuple[Dim, str] | None:
    """bcast(h, k) made simpler, with the name of the rule; None where none applies."""
    if k is h:
        return h, "size.bcast/itself"
    if k.const == 1:
        return h, "size.bcast/one"
    if k.const == 0:
        return const(0), "size.bcast/zero"
    found = theory.call_parts(ABOVE.bcast, k)
    if found is not None:
        given_0, b = found
        if given_0 is h:
            return k, "size.bcast/absorbed"
    found = theory.call_parts(ABOVE.bcast, h)
    if found is not None:
        a, b = found
        return sizes.bcast(a, sizes.bcast(b, k)), "size.bcast/flattened"
    found = theory.call_parts(ABOVE.bcast, k)
    if found is not None:
        a, b = found
        if theory.swapped(h, a):
            return sizes.bcast(a, sizes.bcast(h, b)), "size.bcast/rotated"
    if theory.swapped(h, k):
        return sizes.bcast(k, h), "size.bcast/swapped"
    if sizes.at_least(h, 2):
        if sizes.joins(h, k):
            return h, "size.bcast/not-one"
    if sizes.at_least(k, 2):
        if sizes.joins(h, k):
            return k, "size.bcast/other-not-one"
    return None


def bcast_laws(sizes: Sizes, value: Dim, h: Dim, k: Dim) -> Law:
    """What is >= 0 by what bcast means, with the rules; the value is bcast(h, k)."""
    if sizes.at_least(h, 1):
        if sizes.at_least(k, 1):
            yield value - h - 0, "size.bcast/above"
            yield value - k - 0, "size.bcast/above"
    yield from ()


def float_of(sizes: Sizes, h: Dim, k: Dim) -> tuple[Dim, str] | None:
    """float_of(h, k) made simpler, with the name of the rule; None where none applies."""
    n_w = k.const
    if n_w is not None:
        if sizes.at_least(h, (0 - n_w)):
            if sizes.at_least(-h, -n_w):
                return h, "size.float/exact"
    return None


def float_of_laws(sizes: Sizes, value: Dim, h: Dim, k: Dim) -> Law:
    """What is >= 0 by what float_of means, with the rules; the value is float_of(h, k)."""
    yield from ()


def float_whole(sizes: Sizes, h: Dim, k: Dim, x2: Dim, x3: Dim) -> tuple[Dim, str] | None:
    """float_whole(h, k, x2, x3) made simpler, with the name of the rule; None where none applies."""
    if x3.const == -1:
        n_w = x2.const
        if n_w is not None:
            if sizes.at_least(h, (0 - n_w)):
                if sizes.at_least(-h, -n_w):
                    return sizes.floordiv(h, k), "size.float/floor"
    if x3.const == 1:
        n_w = x2.const
        if n_w is not None:
            if sizes.at_least(h, (0 - n_w)):
                if sizes.at_least(-h, -n_w):
                    return (const(-1) * sizes.floordiv((const(-1) * h), k)), "size.float/ceil"
    if x3.const == 0:
        if sizes.at_least(k, 1):
            n_w = x2.const
            if n_w is not None:
                if sizes.at_least(h, 0):
                    if sizes.at_least(-h, -n_w):
                        return sizes.floordiv(h, k), "size.float/truncated"
    if x3.const == 0:
        if sizes.at_least(k, 1):
            n_w = x2.const
            if n_w is not None:
                if sizes.at_least(-h, 0):
                    if sizes.at_least(h, (0 - n_w)):
                        return (const(-1) * sizes.floordiv((const(-1) * h), k)), "size.float/truncated-negative"
    return None


def float_whole_laws(sizes: Sizes, value: Dim, h: Dim, k: Dim, x2: Dim, x3: Dim) -> Law:
    """What is >= 0 by what float_whole means, with the rules; the value is float_whole(h, k, x2, x3)."""
    yield from ()


BCAST = (
    'bcast',
    ('a', 'b'),
    'mod(max(a, b), 1 + a*b)',
    False,
    'b if a == 1 else a if b == 1 or a == b else max(a, b) if a > 0 and b > 0 else 0',
    '',
    '',
    (),
)
"""What is said of bcast (``egshape.dims.functions.SizeFunction``); its rules are those above."""


FLOAT_OF = (
    'float_of',
    ('n', 'm'),
    '',
    False,
    '\n  a = abs(n)\n  step = pow2(max(a.bit_length() - max((m - 1).bit_length(), 1), 0))\n  q, r = a // step, a % step\n  if 2*r > step or (2*r == step and q % 2 == 1): q += 1\n  return q*step if n >= 0 else -q*step',
    '',
    '',
    (),
)
"""What is said of float_of (``egshape.dims.functions.SizeFunction``); its rules are those above."""


FLOAT_WHOLE = (
    'float_whole',
    ('n', 'k', 'm', 'way'),
    '',
    False,
    '\n  if k < 0: n, k = -n, -k\n  digits, a = max((m - 1).bit_length(), 1), abs(n)\n  s = digits + k.bit_length() - a.bit_length()\n  num, den = a*pow2(max(s, 0)), k*pow2(max(-s, 0))\n  if num // den >= pow2(digits): s, den = s - 1, 2*den\n  q, r = num // den, num % den\n  if 2*r > den or (2*r == den and q % 2 == 1): q += 1\n  q = (q if n >= 0 else -q)*pow2(max(-s, 0))\n  low, high = q // pow2(max(s, 0)), -(-q // pow2(max(s, 0)))\n  return low if way == -1 or (way == 0 and n >= 0) else high',
    'k != 0',
    '',
    (),
)
"""What is said of float_whole (``egshape.dims.functions.SizeFunction``); its rules are those above."""
