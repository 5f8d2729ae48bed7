"""Floats in parts for products by tiles: x is the sum of some bf16, exactly, and a product that of products of parts.

An f16 is two parts, an f32 three, a bf16 itself. A row of the left operand, or a pack of the right one, is its largest
parts as pairs, as those of bf16, then the next ones (in a pack of a convolution those of a tile, then those of the next
one); the depth of each is filled with zeros to whole tiles. Parts are what is left of x without its last bits. Products
of the smallest parts of f32, all together under 2^-21 of a product, are left out: nothing of numbers of at most 16
bits.

Infinity times a number has to be infinity, and not a sum of infinities of both signs, or 0 times infinity. Parts of f16
have all the sign of x, and none is 0 unless x is. A right operand of f32 must be a constant that is finite (``fits``).
An infinity of the left one is its smallest part, the others 0: that part meets the largest ones only, none of which is
0 unless the number is."""

from __future__ import annotations

import numpy as np

from egshape.dims import Dim, ceildiv, const, symbol
from egshape.dims import product as total
from egshape.plan.cpu.half_operands import (
    BITS,
    KEPT,
    SHIFT,
    SUMS,
    Operand,
    bits,
    constant,
    flat,
    high,
    kept,
    packed_along,
    packed_pairs,
)
from egshape.plan.cpu.half_operands import panels as pair_panels
from egshape.plan.cpu.packing import Right
from egshape.plan.form.dots import converted
from egshape.plan.form.matrices import ONE, loops
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Call, Const, Expr, Let, Matrix, Stmt, Store, Var
from egshape.plan.ir.packs import PAIR, TILE_DEPTH

PART = "ui16"
"""The bits of a part."""
PARTS = {"bf16": 1, "f16": 2, "f32": 3}
ELEMENTS = {"bf16": "bf16x1", "f16": "f16x2", "f32": "f32x3"}
"""``Product.elements`` of numbers in parts, of a tile at a time."""
SMALLEST, LARGEST = 2.0**-100, 2.0**20
"""Numbers of an f32 constant are 0 or at least this: tiles take parts under 2^-126 as 0; and at most this, so that what
a left operand under 2^-110 loses stays far under what f32 results are made of."""
_INFINITY, _MAGNITUDE = 0x7F800000, 0x7FFFFFFF
"""The bits of an f32 that is infinity, and all but the sign."""


def room_of(k: Dim) -> Dim:
    """Numbers of a row of one part: whole tiles."""
    step = const(TILE_DEPTH * PAIR)
    return ceildiv(k, step) * step


def apart(numbers: int) -> int:
    """From a row of so many numbers to the next one: an odd number of the cache's lines, since rows of a tile that lie
    a power of two apart push each other out."""
    line = TILE_DEPTH * PAIR
    return (numbers // line | 1) * line


def rows(side: Operand, k: Dim) -> Matrix:
    """The operand as rows of all parts."""
    room, count = room_of(k), PARTS[side.dtype]
    target = side.p.scratch("parts", PART, total(size for _, size in side.places) * room * count)
    start, rest = flat(side.places) * room * count, symbol(side.p.name("i"))
    many = total(size for _, size in side.free)
    side.p.start()
    lets, found = split(side.p, side.dtype, side.read())
    places = [start + room * number for number in range(count)]
    here = flat(side.d.deep)
    each = [Store(target, at + here, part) for at, part in zip(places, found, strict=True)]
    body = [
        *loops(side.d.deep, [*lets, *each]),
        *loops([(rest, room - k)], [Store(target, at + k + rest, Const(PART, 0)) for at in places]),
    ]
    side.p.run("split", loops(side.places, body), (target,), once=True)
    row = room * count // PAIR
    return Matrix(target, flat(side.d.batch) * many * room * count, row, ONE)


def panels(side: Operand, k: Dim, n: Dim) -> Right:
    """The operand as panels of all parts, made now if it is constant."""
    room, count = room_of(k) // PAIR, PARTS[side.dtype]
    data = constant(side, k, n, arranged)
    if data is not None:
        return pair_panels(side, room * count, n, data)
    if side.along:
        return packed_along(side, rows(side, k), room * count, n)
    return packed_pairs(side, k, n, room, count, lambda element: _parts(side.p, side.dtype, element))


def split(p: Steps, dtype: str, element: Expr) -> tuple[list[Stmt], list[Expr]]:
    """The bits of the parts of an element of a left operand, and the statements before them."""
    lets, found = _parts(p, dtype, element)
    return lets, [converted(PART, high(part)) for part in found]


def _parts(p: Steps, dtype: str, element: Expr) -> tuple[list[Stmt], list[Expr]]:
    """The parts of an element, the largest first, as f32, and the statements before it."""
    x = Var(SUMS, p.name("v"))
    lets, found = {"bf16": _one, "f16": _two, "f32": _three}[dtype](p, x)
    return [Let(x.name, converted(SUMS, element)), *lets], found


def _one(p: Steps, x: Var) -> tuple[list[Stmt], list[Expr]]:
    """The number itself."""
    return [], [x]


def _two(p: Steps, x: Var) -> tuple[list[Stmt], list[Expr]]:
    """The larger part is x without its last bits; where nothing is left both are x / 2."""
    whole, larger = Var(BITS, p.name("v")), Var(SUMS, p.name("v"))
    short = _equal(whole, kept(x))
    half = Call(SUMS, "multiply", (x, Const(SUMS, 0.5)))
    lets: list[Stmt] = [
        Let(whole.name, bits(x)),
        Let(larger.name, Call(SUMS, "select", (short, half, _float(kept(x))))),
    ]
    return lets, [larger, Call(SUMS, "select", (short, larger, _less(x, larger)))]


def _three(p: Steps, x: Var) -> tuple[list[Stmt], list[Expr]]:
    """Each part is what is left without its last bits; an infinity is its smallest part."""
    finite, largest, rest, middle = (Var(SUMS, p.name("v")) for _ in range(4))
    infinite = _equal(Call(BITS, "and", (bits(x), Const(BITS, _MAGNITUDE))), Const(BITS, _INFINITY))
    lets: list[Stmt] = [
        Let(finite.name, Call(SUMS, "select", (infinite, Const(SUMS, 0.0), x))),
        Let(largest.name, _float(kept(finite))),
        Let(rest.name, _less(finite, largest)),
        Let(middle.name, _float(kept(rest))),
    ]
    return lets, [largest, middle, Call(SUMS, "select", (infinite, x, _less(rest, middle)))]


def _less(one: Expr, two: Expr) -> Expr:
    return Call(SUMS, "subtract", (one, two))


def _equal(one: Expr, two: Expr) -> Expr:
    return Call("i1", "compare", (one, two), (("direction", "EQ"), ("kind", "SIGNED")))


def _float(bits: Expr) -> Expr:
    return Call(SUMS, "bitcast_convert", (bits,))


def fits(array: np.ndarray) -> bool:
    """Whether a constant of f32 may be a right operand in parts."""
    magnitude = np.abs(array)
    return bool((((magnitude >= SMALLEST) & (magnitude <= LARGEST)) | (array == 0)).all())


def arranged(array: np.ndarray) -> np.ndarray:
    """(k, n) f16 as (whole tiles, n) elements: pairs of the largest parts, then pairs of the next ones."""
    return _elements(np.concatenate(_pairs(array, "f16")))


def together(array: np.ndarray, dtype: str) -> np.ndarray:
    """(k, n) f32 that are numbers of ``dtype`` as (whole tiles, n) elements: the parts of a tile behind each other."""
    n = array.shape[1]
    tiles = [each.reshape(-1, TILE_DEPTH, PAIR, n) for each in _pairs(array, dtype)]
    return _elements(np.stack(tiles, 1).reshape(-1, PAIR, n))


def _pairs(array: np.ndarray, dtype: str) -> list[np.ndarray]:
    """The bits of each part as (pair, 2, n), filled to whole tiles."""
    (k, n), step = array.shape, TILE_DEPTH * PAIR
    x = np.zeros((-(-k // step) * step, n), np.float32)
    x[:k] = array
    return [(part.view(np.uint32) >> SHIFT).astype(np.uint16).reshape(-1, PAIR, n) for part in constant_parts(x, dtype)]


def _elements(pairs: np.ndarray) -> np.ndarray:
    """Pairs (k, 2, n) as elements (k, n)."""
    return np.ascontiguousarray(pairs.transpose(0, 2, 1)).reshape(-1).view("<i4").reshape(-1, pairs.shape[-1])


def constant_parts(x: np.ndarray, dtype: str) -> list[np.ndarray]:
    """The parts, as f32, of f32 that are bf16; that are f16, all of the sign of x, and none 0 unless x is; or that are
    finite."""
    if dtype == "bf16":
        return [x]
    if dtype == "f16":
        short = _shortened(x) == x.view(np.uint32)
        with np.errstate(invalid="ignore"):
            larger = np.where(short, x * np.float32(0.5), _shortened(x).view(np.float32))
            return [larger, np.where(short, larger, x - larger)]
    largest = _shortened(x).view(np.float32)
    rest = x - largest
    middle = _shortened(rest).view(np.float32)
    return [largest, middle, rest - middle]


def _shortened(x: np.ndarray) -> np.ndarray:
    """The bits of f32 that bf16 have."""
    return x.view(np.uint32) & np.uint32(KEPT % 2**32)
