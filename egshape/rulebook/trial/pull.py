"""From the type of a result to an op's attributes and operands: for each op, one way of many to get there. And from the
type of an operand to attributes, for ops that move its elements.

What comes out is a proposal: the op's own shape function has the last word, so nothing here has to be careful. Axis
lists come sorted and not, sizes 0 and 1 are frequent, pads are negative and interior, dots contract several axes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egshape.dims import Dim, const, product, symbol
from egshape.ir.types import TensorType, is_integer
from egshape.ops.base import OpDecl

NAMES = ("a", "b", "c", "d")
MAX_RANK = 4
DTYPES = (
    "f32",
    "f32",
    "f32",
    "f64",
    "f16",
    "bf16",
    "i32",
    "i32",
    "i64",
    "i8",
    "i16",
    "ui8",
    "ui16",
    "ui32",
    "ui64",
    "i1",
    "i1",
    "c64",
    "c128",
    "i4",
    "f8E5M2",
)
_NUMBERS = (0, 1, 1, 2, 2, 3, 3, 5)


class Misfit(Exception):
    """This draw leads nowhere."""


@dataclass
class Dice:
    """Random choices of one program. numbers: its sizes are numbers; else they are symbols too."""

    rng: random.Random
    numbers: bool
    sums: dict[Dim, tuple[Dim, Dim]] = field(default_factory=dict)
    products: dict[Dim, tuple[Dim, Dim]] = field(default_factory=dict)

    def chance(self, share: float) -> bool:
        """True so often."""
        return self.rng.random() < share

    def pick(self, items: Sequence[Any] | np.ndarray) -> Any:
        """One of some items. Raises Misfit if there is none."""
        if len(items) == 0:
            raise Misfit
        return items[self.rng.randrange(len(items))]

    def size(self) -> Dim:
        """Some size."""
        if self.numbers or self.chance(0.15):
            return const(self.pick(_NUMBERS))
        one, two = symbol(self.pick(NAMES)), symbol(self.pick(NAMES))
        if self.chance(0.12):
            self.sums[one + two] = one, two
            return one + two
        if self.chance(0.12):
            self.products[one * two] = one, two
            return one * two
        return one

    def sizes(self, rank: int) -> tuple[Dim, ...]:
        """Some sizes, often several of them equal."""
        out: list[Dim] = []
        for _ in range(rank):
            out.append(self.pick(out) if out and self.chance(0.3) else self.size())
        return tuple(out)

    def permutation(self, rank: int) -> tuple[int, ...]:
        """The identity, a rotation, or any."""
        axes = list(range(rank))
        kind = self.rng.randrange(10)
        if kind < 1:
            return tuple(axes)
        if kind < 4 and rank:
            turn = self.rng.randrange(min(rank, 2), rank + 1) - 1  # by none where there is one axis only
            return tuple(axes[turn:] + axes[:turn])
        self.rng.shuffle(axes)
        return tuple(axes)

    def axes(self, rank: int, count: int) -> tuple[int, ...]:
        """So many different axes, in order or not."""
        if not 0 <= count <= rank:
            raise Misfit
        found = self.rng.sample(range(rank), count)
        return tuple(sorted(found)) if self.chance(0.5) else tuple(found)


@dataclass(frozen=True)
class Way:
    """Attributes and types of operands with which an op may give the wanted type."""

    attrs: Mapping[str, Any]
    operands: tuple[TensorType, ...]


Known = Mapping[str, Any]
"""Attributes that are decided already."""


def pull(
    decl: OpDecl, wanted: TensorType, known: Known, count: int | None, dice: Dice, samples: Sequence[Any] = ()
) -> Way:
    """One way to a result. count: how many operands stand for the variadic one; samples: attributes that the op has in
    examples. Raises Misfit where there is none."""
    if decl.name in _PULLS:
        return _PULLS[decl.name](wanted, known, count, dice)
    return _unknown_op(decl, wanted, known, count, dice, samples)


def _decided(known: Known, name: str, draw: Callable[[], Any], length: int | None = None) -> Any:
    value = known[name] if name in known else draw()
    if length is not None and len(value) != length:
        raise Misfit
    return value


def _like(type: TensorType, dims: Sequence[Dim]) -> TensorType:
    return TensorType(type.dtype, tuple(dims))


def _number(dim: Dim) -> int:
    if dim.const is None:
        raise Misfit
    return dim.const


# -- moves ----


def _transpose(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    axes = _decided(known, "permutation", lambda: dice.permutation(wanted.rank), wanted.rank)
    if sorted(axes) != list(range(wanted.rank)):
        raise Misfit
    dims = [wanted.dims[axes.index(k)] for k in range(wanted.rank)]
    return Way({"permutation": axes}, (_like(wanted, dims),))


def _broadcast(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    shape = _decided(known, "shape", lambda: wanted.dims)

    def some() -> tuple[int, ...]:
        kind = dice.rng.random()
        return (
            ()
            if kind < 0.15
            else tuple(range(len(shape)))
            if kind < 0.35
            else dice.axes(len(shape), dice.rng.randint(0, len(shape)))
        )

    dims = _decided(known, "dims", some)
    if any(not 0 <= axis < len(shape) for axis in dims):
        raise Misfit
    keeps = dice.chance(0.4)
    operand = [shape[axis] if keeps or dice.chance(0.7) else const(1) for axis in dims]
    return Way({"dims": dims, "shape": shape}, (_like(wanted, operand),))


def _reshape(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    shape = _decided(known, "shape", lambda: wanted.dims)
    return Way({"shape": shape}, (_like(wanted, _as_many(list(shape), dice)),))


def _as_many(dims: list[Dim], dice: Dice) -> list[Dim]:
    """Other sizes with as many elements."""
    for _ in range(dice.pick((0, 1, 1, 1, 2))):
        kind = dice.rng.randrange(6)
        place = dice.rng.randrange(len(dims)) if dims else 0
        if kind == 0:
            dims.insert(dice.rng.randint(0, len(dims)), const(1))
        elif kind == 1 and len(dims) > 1:
            place = min(place, len(dims) - 2)
            joined = dims[place] * dims[place + 1]
            dice.products[joined] = dims[place], dims[place + 1]
            dims[place : place + 2] = [joined]
        elif kind == 2:
            dims = [dim for dim in dims if dim.const != 1]
        elif kind == 3:
            dims = dice.rng.sample(dims, len(dims))
        elif kind == 4 and dims and dims[place] in dice.products:
            dims[place : place + 1] = dice.products[dims[place]]
        elif kind == 5 and dims:
            dims = [product(dims)]
    return dims


def _reverse(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    dims = _decided(known, "dims", lambda: dice.axes(wanted.rank, dice.rng.randint(0, wanted.rank)))
    return Way({"dims": dims}, (wanted,))


def _slice(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    rank = wanted.rank
    starts = _decided(known, "starts", lambda: tuple(const(dice.pick((0, 0, 0, 1, 2))) for _ in range(rank)), rank)
    plain = dice.chance(0.5)
    strides = _decided(
        known, "strides", lambda: tuple(const(1 if plain else dice.pick((1, 1, 2, 3))) for _ in range(rank)), rank
    )

    def limit(start: Dim, size: Dim, stride: Dim) -> Dim:
        if stride.const == 1 or size.const == 0:
            return start + size
        return start + size * stride - dice.rng.randrange(max(1, stride.const or 1))

    limits = _decided(known, "limits", lambda: tuple(map(limit, starts, wanted.dims, strides)), rank)
    whole = dice.chance(0.4)
    operand = [end if whole else end + dice.pick((0, 0, 1, 2)) for end in limits]
    return Way({"starts": starts, "limits": limits, "strides": strides}, (_like(wanted, operand),))


def _pad(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    rank = wanted.rank
    tight = dice.chance(0.3)

    def some() -> tuple[Dim, ...]:
        return tuple(const(0 if tight else dice.pick((0, 0, 1, 2, -1))) for _ in range(rank))

    low = _decided(known, "low", some, rank)
    interior = _decided(
        known, "interior", lambda: tuple(const(0 if tight else dice.pick((0, 0, 1, 2))) for _ in range(rank)), rank
    )
    operand, rest = [], []
    for size, first, gap, last in zip(wanted.dims, low, interior, known.get("high", (None,) * rank), strict=True):
        if gap.const == 0:
            end = last if last is not None else const(0 if tight else dice.pick((0, 0, 1, 2, -1)))
            inner = size - first - end
            if inner.const is not None and inner.const < 0:
                inner, end = const(0), size - first
        else:
            inner = const(dice.pick((0, 1, 1, 2, 3)))
            end = size - first - inner - max(_number(inner) - 1, 0) * gap
        operand.append(inner)
        rest.append(end)
    high = _decided(known, "high", lambda: tuple(rest), rank)
    return Way({"low": low, "high": high, "interior": interior}, (_like(wanted, operand), TensorType(wanted.dtype, ())))


def _concatenate(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    axis = _decided(known, "dim", lambda: dice.rng.randrange(max(wanted.rank, 1)))
    if not 0 <= axis < wanted.rank:
        raise Misfit
    parts = dice.pick((1, 2, 2, 3)) if count is None else count
    sizes = [wanted.dims[axis]]
    while len(sizes) < parts:
        place = dice.rng.randrange(len(sizes))
        sizes[place : place + 1] = _split(sizes[place], dice)
    return Way(
        {"dim": axis},
        tuple(_like(wanted, (*wanted.dims[:axis], size, *wanted.dims[axis + 1 :])) for size in sizes[:parts]),
    )


def _split(size: Dim, dice: Dice) -> tuple[Dim, Dim]:
    """Two sizes whose sum is this one."""
    if size in dice.sums and dice.chance(0.8):
        return dice.sums[size]
    if size.const is None:
        one = const(dice.pick((0, 0, 1)))
        return (one, size - one) if dice.chance(0.5) else (size - one, one)
    first = size.const // 2 if dice.chance(0.3) else dice.rng.randint(0, size.const)
    return const(first), const(size.const - first)


# -- made from nothing ----


def _iota(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    axis = _decided(known, "dim", lambda: dice.rng.randrange(max(wanted.rank, 1)))
    return Way(
        {
            "dtype": known.get("dtype", wanted.dtype),
            "dim": axis,
            "shape": _decided(known, "shape", lambda: wanted.dims),
        },
        (),
    )


def _dims(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    shape = _decided(known, "shape", lambda: tuple(_number(dim) for dim in wanted.dims))
    many = 1
    for size in shape:
        many *= size
    if not is_integer(wanted.dtype) or many > 6:
        raise Misfit
    return Way(
        {
            "elements": _decided(known, "elements", lambda: dice.sizes(many)),
            "shape": shape,
            "dtype": known.get("dtype", wanted.dtype),
        },
        (),
    )


def _dimension_size(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    rank = dice.rng.randint(1, MAX_RANK)
    axis = _decided(known, "dim", lambda: dice.rng.randrange(rank))
    return Way({"dim": axis}, (TensorType(dice.pick(DTYPES), dice.sizes(rank)),))


# -- indices and products ----


def _dot(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    batch = (
        len(known["lhs_batch"])
        if "lhs_batch" in known
        else len(known["rhs_batch"])
        if "rhs_batch" in known
        else dice.rng.randint(0, wanted.rank)
    )
    deep = (
        len(known["lhs_contract"])
        if "lhs_contract" in known
        else len(known["rhs_contract"])
        if "rhs_contract" in known
        else dice.pick((0, 1, 1, 1, 2, 2))
    )
    if batch > wanted.rank:
        raise Misfit
    left = dice.rng.randint(0, wanted.rank - batch)
    shared = [*wanted.dims[:batch], *dice.sizes(deep)]
    attrs: dict[str, Any] = {"precision": _precision(known, dice), "dtype": known.get("dtype", wanted.dtype)}
    operands = []
    for side, free in (("lhs", wanted.dims[batch : batch + left]), ("rhs", wanted.dims[batch + left :])):
        rank = len(shared) + len(free)
        places = dice.rng.sample(range(rank), len(shared))
        own = (*known.get(f"{side}_batch", places[:batch]), *known.get(f"{side}_contract", places[batch:]))
        if len(set(own)) < len(shared) or len(own) > len(shared) or any(not 0 <= axis < rank for axis in own):
            raise Misfit
        dims: dict[int, Dim] = dict(zip(own, shared, strict=True))
        rest = iter(free)
        operands.append(_like(wanted, [dims[axis] if axis in dims else next(rest) for axis in range(rank)]))
        attrs[f"{side}_batch"], attrs[f"{side}_contract"] = own[:batch], own[batch:]
    return Way(attrs, tuple(operands))


def _precision(known: Known, dice: Dice) -> Any:
    return _decided(known, "precision", lambda: dice.pick(((), (), ("HIGHEST", "HIGHEST"), ("DEFAULT", "HIGH"))))


def _convolution(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    """Any order of the axes of input, kernel and result; few groups; small windows."""
    spatial = wanted.rank - 2
    if spatial < 0:
        raise Misfit

    def orders() -> Any:
        axes = [dice.permutation(wanted.rank) if dice.chance(0.7) else tuple(range(wanted.rank)) for _ in range(3)]
        return tuple(part for each in axes for part in (*each[:2], each[2:]))

    numbers = _decided(known, "numbers", orders, 9)
    if any(len(numbers[place]) != spatial for place in (2, 5, 8)):
        raise Misfit
    feature_groups = _decided(known, "feature_groups", lambda: dice.pick((1, 1, 1, 2)))
    batch_groups = _decided(known, "batch_groups", lambda: 1 if feature_groups > 1 else dice.pick((1, 1, 1, 2)))

    def each_axis(name: str, values: Sequence[int]) -> tuple[int, ...]:
        return _decided(known, name, lambda: tuple(dice.pick(values) for _ in range(spatial)), spatial)  # type: ignore[no-any-return]

    strides, reversal = each_axis("strides", (1, 1, 2)), each_axis("reversal", (0, 0, 0, 1))
    lhs_dilation, rhs_dilation = each_axis("lhs_dilation", (1, 1, 1, 2)), each_axis("rhs_dilation", (1, 1, 1, 2))
    padding = _decided(
        known, "padding", lambda: tuple(const(dice.pick((0, 0, 0, 1, 2, -1))) for _ in range(2 * spatial)), 2 * spatial
    )
    within = dice.pick((1, 1, 2, 3))
    lhs: dict[int, Dim] = {
        numbers[0]: wanted.dims[numbers[6]] * batch_groups,
        numbers[1]: const(within * feature_groups),
    }
    rhs: dict[int, Dim] = {numbers[3]: const(within), numbers[4]: wanted.dims[numbers[7]]}
    for k in range(spatial):
        window = dice.pick((1, 1, 2, 3))
        rhs[numbers[5][k]] = const(window)
        if lhs_dilation[k] != 1:
            lhs[numbers[2][k]] = const(dice.pick((1, 2, 3)))
            continue
        size = wanted.dims[numbers[8][k]]
        room = (size - 1) * strides[k] + (window - 1) * rhs_dilation[k] + 1
        lhs[numbers[2][k]] = room - padding[2 * k] - padding[2 * k + 1]
    if sorted(lhs) != list(range(wanted.rank)) or sorted(rhs) != list(range(wanted.rank)):
        raise Misfit
    attrs = {
        "numbers": numbers,
        "strides": strides,
        "padding": padding,
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "reversal": reversal,
        "feature_groups": feature_groups,
        "batch_groups": batch_groups,
        "precision": _precision(known, dice),
        "dtype": known.get("dtype", wanted.dtype),
    }
    return Way(attrs, tuple(_like(wanted, [dims[axis] for axis in range(wanted.rank)]) for dims in (lhs, rhs)))


def _gather(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    offsets = _decided(
        known,
        "offset_dims",
        lambda: tuple(sorted(dice.rng.sample(range(wanted.rank), dice.rng.randint(0, wanted.rank)))),
    )
    if any(not 0 <= axis < wanted.rank for axis in offsets):
        raise Misfit
    rows = [dim for axis, dim in enumerate(wanted.dims) if axis not in offsets]
    free = not known.keys() & {"operand_batch", "indices_batch", "collapsed", "sizes"}
    paired = [dice.rng.randrange(len(rows))] if rows and free and dice.chance(0.2) else []
    batch_sizes = [rows[row] for row in paired]
    dropped = len(known["collapsed"]) if "collapsed" in known else dice.pick((0, 0, 1, 1, 2))
    rank = len(offsets) + dropped + len(paired)
    places = dice.rng.sample(range(rank), dropped + len(paired))
    collapsed = _decided(known, "collapsed", lambda: tuple(sorted(places[:dropped])))
    batch = tuple(places[dropped:])
    inner = iter([wanted.dims[axis] for axis in sorted(offsets)])
    sizes = _decided(
        known,
        "sizes",
        lambda: tuple(const(1) if axis in (*collapsed, *batch) else next(inner) for axis in range(rank)),
        rank,
    )
    others = [axis for axis in range(rank) if axis not in batch]
    index_map = _decided(
        known,
        "start_index_map",
        lambda: tuple(others[k] for k in dice.axes(len(others), dice.rng.randint(0, len(others)))),
    )
    place = _decided(known, "index_vector_dim", lambda: dice.pick((0, len(rows), dice.rng.randint(0, len(rows)))))
    if len(index_map) != 1 or place < len(rows) or dice.chance(0.7):
        rows.insert(place, const(len(index_map)))
        paired = [row + (place <= row) for row in paired]
    whole = dict(zip(batch, batch_sizes, strict=True))
    operand = [whole[axis] if axis in whole else size + dice.pick((0, 0, 1, 2)) for axis, size in enumerate(sizes)]
    attrs = {
        "offset_dims": offsets,
        "collapsed": collapsed,
        "operand_batch": known.get("operand_batch", batch),
        "indices_batch": known.get("indices_batch", tuple(paired)),
        "start_index_map": index_map,
        "index_vector_dim": place,
        "sizes": sizes,
        "sorted": bool(_decided(known, "sorted", lambda: dice.chance(0.2))),
    }
    return Way(attrs, (_like(wanted, operand), TensorType(dice.pick(("i32", "i64", "ui8")), tuple(rows))))


def _starts(rank: int, dice: Dice) -> tuple[TensorType, ...]:
    return (TensorType(dice.pick(("i32", "i64", "i8", "ui32")), ()),) * rank


def _dynamic_slice(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    sizes = _decided(
        known,
        "sizes",
        lambda: tuple(dice.pick((0, 1, 2)) if dim.const is None else dim.const for dim in wanted.dims),
        wanted.rank,
    )
    operand = [const(size + dice.pick((0, 0, 1, 2))) if dice.numbers else dice.size() for size in sizes]
    return Way({"sizes": sizes}, (_like(wanted, operand), *_starts(wanted.rank, dice)))


def _dynamic_update(wanted: TensorType, known: Known, count: int | None, dice: Dice) -> Way:
    part = [
        const(dice.rng.randint(0, dim.const)) if dim.const is not None and dice.chance(0.7) else dim
        for dim in wanted.dims
    ]
    return Way({}, (wanted, _like(wanted, part), *_starts(wanted.rank, dice)))


# -- ops that nothing is known of ----


def _unknown_op(
    decl: OpDecl, wanted: TensorType, known: Known, count: int | None, dice: Dice, samples: Sequence[Any]
) -> Way:
    """Operands like the result, or of other types; attributes by their kind, or as examples have them."""
    many = len(decl.operands) - decl.variadic + (count or decl.variadic)
    operands = [wanted] * many
    if dice.chance(0.3):
        operands = [_like(wanted, dice.sizes(dice.rng.randint(0, MAX_RANK))) for _ in range(many)]
    rank = operands[0].rank if operands else wanted.rank

    def some(name: str, kind: str) -> Any:
        known_ones = [attrs[name] for attrs in samples if name in attrs]
        if kind not in _BY_KIND or (known_ones and dice.chance(0.3)):
            return dice.pick(known_ones)
        return _BY_KIND[kind](rank, wanted, dice)

    attrs = {
        attr.name: known[attr.name]
        if attr.name in known
        else attr.default
        if attr.default is not ... and dice.chance(0.5)
        else some(attr.name, attr.kind)
        for attr in decl.attrs
    }
    return Way(attrs, tuple(operands))


_BY_KIND: Mapping[str, Callable[[int, TensorType, Dice], Any]] = {
    "axes": lambda rank, wanted, dice: dice.axes(rank, dice.rng.randint(0, rank)),
    "sizes": lambda rank, wanted, dice: dice.sizes(rank),
    "dtype": lambda rank, wanted, dice: wanted.dtype,
    "int": lambda rank, wanted, dice: dice.pick((*range(max(rank, 1)), -1, 2, 3)),
    "bool": lambda rank, wanted, dice: dice.chance(0.5),
}

_PULLS: Mapping[str, Callable[[TensorType, Known, int | None, Dice], Way]] = {
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "reverse": _reverse,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "iota": _iota,
    "dims": _dims,
    "get_dimension_size": _dimension_size,
    "dot_general": _dot,
    "convolution": _convolution,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
}

PULLED = frozenset(_PULLS)
"""Ops whose operands and attributes are drawn to fit."""


# -- attributes that fit an operand ----


def push(op: str, type: TensorType, dice: Dice) -> dict[str, Any]:
    """Attributes with which an op, one of PUSHED, may move the elements of an operand."""
    return _PUSHES[op](type, dice)


def _some_broadcast(type: TensorType, dice: Dice) -> dict[str, Any]:
    rank = type.rank + dice.pick((0, 0, 1, 2))
    dims = dice.axes(rank, type.rank)
    sizes = [dice.size() if dice.chance(0.6) else const(dice.pick((1, 1, 2))) for _ in range(rank)]
    for size, target in zip(type.dims, dims, strict=True):
        if size.const != 1 or dice.chance(0.5):
            sizes[target] = size
    return {"dims": dims, "shape": tuple(sizes)}


def _some_slice(type: TensorType, dice: Dice) -> dict[str, Any]:
    return {
        "starts": tuple(dice.pick((const(0), const(0), const(1), dice.size())) for _ in type.dims),
        "limits": tuple(dice.pick((dim, dim, dice.size())) for dim in type.dims),
        "strides": tuple(const(dice.pick((1, 1, 1, 2))) for _ in type.dims),
    }


_PUSHES: Mapping[str, Callable[[TensorType, Dice], dict[str, Any]]] = {
    "transpose": lambda type, dice: {"permutation": dice.permutation(type.rank)},
    "broadcast_in_dim": _some_broadcast,
    "reshape": lambda type, dice: {"shape": tuple(_as_many(list(type.dims), dice))},
    "slice": _some_slice,
    "reverse": lambda type, dice: {"dims": dice.axes(type.rank, dice.rng.randint(0, type.rank))},
}

PUSHED = frozenset(_PUSHES)
"""Ops whose attributes are drawn to fit an operand."""
