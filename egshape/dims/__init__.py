"""Sizes: interned integer expressions in canonical form.

A `Dim` is a polynomial with integer coefficients over symbols (integers >= 0) and atoms:
`FloorDiv`, `Relu`, and `Call`, the value of any other size function (``egshape.dims.functions``).  min, max, mod and
ceildiv are written with the first two and printed back.
"""

from egshape.dims.core import (
    Atom,
    Call,
    Dim,
    FloorDiv,
    Monomial,
    Relu,
    Symbol,
    const,
    is_nonnegative,
    is_positive,
    symbol,
)
from egshape.dims.forms import bcast, broadcast_gap, ceildiv, floordiv, maximum, minimum, mod, product, relu, total
from egshape.dims.functions import SizeFunction
from egshape.dims.printer import to_text
from egshape.dims.text import Definedness, parse, parse_with_conditions, quote_name

__all__ = [
    "Atom",
    "Call",
    "Definedness",
    "Dim",
    "FloorDiv",
    "Monomial",
    "Relu",
    "SizeFunction",
    "Symbol",
    "bcast",
    "broadcast_gap",
    "ceildiv",
    "const",
    "floordiv",
    "is_nonnegative",
    "is_positive",
    "maximum",
    "minimum",
    "mod",
    "parse",
    "parse_with_conditions",
    "product",
    "quote_name",
    "relu",
    "symbol",
    "to_text",
    "total",
]
