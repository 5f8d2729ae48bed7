"""f16 in two parts for products by tiles: x = larger + smaller, each a bf16, exactly, and so are the products of parts.

A row of the left operand, or a pack of the right one, is its larger parts as pairs, as those of bf16, then its smaller
ones; the depth of each is filled with zeros to whole tiles. Both parts have the sign of x and neither is 0 unless x is,
so that infinity times parts is infinity, and not 0 times infinity: the larger part is x without its last bits, the
smaller one what is left; where nothing is left both are x / 2."""

from __future__ import annotations

import numpy as np

from egshape.dims import Dim, ceildiv, const, symbol
from egshape.dims import product as total
from egshape.plan.analysis.elements import ZERO
from egshape.plan.cpu.half_operands import SUMS, Operand, constant, flat, packed_along
from egshape.plan.cpu.half_operands import panels as pair_panels
from egshape.plan.cpu.packing import Right
from egshape.plan.form.dots import converted
from egshape.plan.form.matrices import ONE, loops
from egshape.plan.ir.loops import Call, Const, Expr, Let, Matrix, Stmt, Store, Var
from egshape.plan.ir.packs import PAIR, TILE_DEPTH, pack_columns, pack_step

_BITS, _PART = "i32", "ui16"
_KEPT, _SHIFT = -65536, 16
"""The bits of an f32 that a bf16 has."""


def _room(k: Dim) -> Dim:
    """Numbers of a row of one part: whole tiles."""
    step = const(TILE_DEPTH * PAIR)
    return ceildiv(k, step) * step


def rows(side: Operand, k: Dim) -> Matrix:
    """The operand as rows of both parts."""
    room = _room(k)
    target = side.p.scratch("parts", _PART, total(size for _, size in side.places) * room * 2)
    start, rest = flat(side.places) * room * 2, symbol(side.p.name("i"))
    count = total(size for _, size in side.free)
    side.p.start()
    lets, found = _parts(side, side.read())
    places = [start + part for part in (ZERO, room)]
    here, nothing = flat(side.d.deep), Const(_PART, 0)
    each = [Store(target, at + here, converted(_PART, _high(part))) for at, part in zip(places, found, strict=True)]
    body = [
        *loops(side.d.deep, [*lets, *each]),
        *loops([(rest, room - k)], [Store(target, at + k + rest, nothing) for at in places]),
    ]
    side.p.run("split", loops(side.places, body), (target,), once=True)
    return Matrix(target, flat(side.d.batch) * count * room * 2, room, ONE)


def panels(side: Operand, k: Dim, n: Dim) -> Right:
    """The operand as panels of both parts, made now if it is constant."""
    depth = _room(k)
    data = constant(side, k, n, both)
    if data is not None:
        return pair_panels(side, depth, n, data)
    if side.along:
        return packed_along(side, rows(side, k), depth, n)
    right = pair_panels(side, depth, n)
    side.p.start()
    side.p.run("pack", loops(side.d.batch, _packing(side, right, k)), (right.buffer,))
    return right


def _packing(side: Operand, right: Right, k: Dim) -> tuple[Stmt, ...]:
    """Statements that store the panels of one place of the batch, zeros behind the depth."""
    panel, j, deep, odd, rest = right.columns(side.p), *(symbol(side.p.name("i")) for _ in range(4))
    start, some, step = panel * pack_columns(SUMS), right.some(panel), const(pack_step(SUMS))
    width = ceildiv(some, step) * step
    base, room = right.offset + start * right.k, _room(k) // PAIR

    def stored(pair: Dim, words: list[Expr]) -> list[Stmt]:
        return [
            Store(right.buffer, base + (pair + part) * width + j, word)
            for part, word in zip((ZERO, room), words, strict=True)
        ]

    def pair(number: Dim, count: int) -> list[Stmt]:
        lets, found = [], []
        for half in range(count):
            more, both_parts = _parts(side, side.at(number * PAIR + half, start + j))
            lets += more
            found.append(both_parts)
        words = [_high(part) for part in found[0]]
        if count == PAIR:
            words = [Call(_BITS, "or", (low, _kept(part))) for low, part in zip(words, found[1], strict=True)]
        return [*lets, *stored(number, words)]

    whole = loops([(deep, k // PAIR), (j, some)], pair(deep, PAIR))
    last = loops([(odd, k % PAIR), (j, some)], pair(k // PAIR, 1))
    pairs = ceildiv(k, const(PAIR))
    empty = stored(pairs + rest, [Const(_BITS, 0)] * 2)
    return loops([(panel, right.count)], [*whole, *last, *loops([(rest, room - pairs), (j, some)], empty)])


def _parts(side: Operand, element: Expr) -> tuple[list[Stmt], tuple[Expr, Expr]]:
    """The larger and the smaller part of an element, as f32, and the statements before it."""
    names = [side.p.name("v") for _ in range(3)]
    x, bits, larger = (Var(dtype, name) for dtype, name in zip((SUMS, _BITS, SUMS), names, strict=True))
    kept = _kept(x)
    short = Call("i1", "compare", (bits, kept), (("direction", "EQ"), ("kind", "SIGNED")))
    half = Call(SUMS, "multiply", (x, Const(SUMS, 0.5)))
    rest = Call(SUMS, "subtract", (x, larger))
    lets: list[Stmt] = [
        Let(x.name, converted(SUMS, element)),
        Let(bits.name, _bits(x)),
        Let(larger.name, Call(SUMS, "select", (short, half, Call(SUMS, "bitcast_convert", (kept,))))),
    ]
    return lets, (larger, Call(SUMS, "select", (short, larger, rest)))


def _bits(number: Expr) -> Expr:
    return Call(_BITS, "bitcast_convert", (number,))


def _kept(number: Expr) -> Expr:
    """The bits of an f32 that a bf16 has, where they are."""
    return Call(_BITS, "and", (_bits(number), Const(_BITS, _KEPT)))


def _high(number: Expr) -> Expr:
    """The same as the lower half."""
    return Call(_BITS, "shift_right_logical", (_bits(number), Const(_BITS, _SHIFT)))


def both(array: np.ndarray) -> np.ndarray:
    """(k, n) f16 as (whole tiles, n) elements: pairs of larger parts, then pairs of smaller ones."""
    (k, n), step = array.shape, TILE_DEPTH * PAIR
    x = np.zeros((-(-k // step) * step, n), np.float32)
    x[:k] = array
    kept = x.view(np.uint32) & np.uint32(_KEPT % 2**32)
    short = kept == x.view(np.uint32)
    with np.errstate(invalid="ignore"):
        larger = np.where(short, x * np.float32(0.5), kept.view(np.float32))
        smaller = np.where(short, larger, x - larger)
    found = [(part.view(np.uint32) >> _SHIFT).astype(np.uint16).reshape(-1, PAIR, n) for part in (larger, smaller)]
    return np.ascontiguousarray(np.concatenate(found).transpose(0, 2, 1)).reshape(-1).view("<i4").reshape(-1, n)
