"""Pieces of random ONNX models that compute sizes, as exporters write them, and ops that take them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tests.fuzz.onnx_maker import WITNESSES, Held, Maker

Counts = tuple[int, ...]
"""A number at each witness."""


def size(m: Maker, counts: Counts) -> Held | None:
    """A vector of one i64 that is ``counts``: read of a shape, computed of sizes, or a constant or an input."""
    if len(set(counts)) == 1 and m.rng.randrange(3):
        return m.constant([counts[0]])
    found = [read(m, counts), computed(m, counts)]
    made = m.choice([each for each in found if each is not None] or [None])
    if made is not None:
        return detour(m, made)
    if len(set(counts)) == 1:
        return m.constant([counts[0]])
    return m.given([np.array([count], np.int64) for count in counts]) if m.chance(3) else None


def read(m: Maker, counts: Counts) -> Held | None:
    """One axis of a value's shape, as a vector of one element."""
    value = m.pick(lambda held: counts in held.axes)
    if value is None:
        return None
    axis = m.choice([at for at, axes in enumerate(value.axes) if axes == counts])
    form = m.rng.randrange(4)
    if form == 0 and m.opset >= 15:
        return m.one("Shape", [value], start=axis, end=axis + 1, keep=False)
    if form == 0 and value.rank == 1:
        whole = m.one("Size", [value], keep=False)
        return whole and m.one("Unsqueeze", [whole, m.constant([0])], keep=False)
    shape = m.one("Shape", [value], keep=m.chance(4))
    if shape is None:
        return None
    from_end = m.chance(3)
    place = axis - value.rank if from_end else axis
    if form == 1:
        scalar = m.one("Gather", [shape, m.constant(place)], axis=0, keep=m.chance(4))
        return scalar and m.one("Unsqueeze", [scalar, m.constant([0])], keep=False)
    if form == 2:
        return m.one("Gather", [shape, m.constant([place])], axis=0, keep=False)
    end = 2**31 - 1 if axis == value.rank - 1 else axis + 1
    return m.one("Slice", [shape, m.constant([place]), m.constant([end]), m.constant([0])], keep=False)


def computed(m: Maker, counts: Counts) -> Held | None:
    """``counts`` as a product, a quotient, a sum or a difference of sizes that values have."""
    known = sorted({axes for value in m.pool for axes in value.axes if len(set(axes)) > 1})
    for _ in range(6):
        if not known:
            return None
        other, form = m.choice(known), m.rng.randrange(5)
        pairs = list(zip(counts, other, strict=True))
        if form == 0 and all(two and one % two == 0 for one, two in pairs):
            return _binary(m, "Mul", tuple(one // two for one, two in pairs), other)
        if form == 1 and all(pairs[0][0] * two == one * pairs[0][1] and one for one, two in pairs):
            by = other[0] // counts[0]
            if by > 1 and all(two == one * by for one, two in pairs):
                return _binary(m, "Div", other, (by,) * WITNESSES)
        if form == 2 and all(one >= two for one, two in pairs):
            return _binary(m, "Add", tuple(one - two for one, two in pairs), other)
        if form == 3:
            return _binary(m, "Sub", tuple(one + two for one, two in pairs), other)
        if form == 4 and all(one <= two for one, two in pairs):
            return _binary(m, "Min", counts, other)
    return None


def _binary(m: Maker, op: str, one: Counts, two: Counts) -> Held | None:
    operands = [m.constant([each[0]]) if len(set(each)) == 1 else read(m, each) for each in (one, two)]
    return None if None in operands else m.one(op, operands, keep=m.chance(4))


def detour(m: Maker, value: Held) -> Held | None:
    """The same numbers by another way: casts, neutral elements, axes that come and go."""
    form = m.rng.randrange(12)
    if form == 0:
        small = m.one("Cast", [value], to=6, keep=m.chance(4))
        return small and m.one("Cast", [small], to=7, keep=False)
    if form == 1:
        half = m.one("Cast", [value], to=1, keep=False)
        whole = half and m.one(m.choice(("Floor", "Ceil")), [half], keep=False)
        return whole and m.one("Cast", [whole], to=7, keep=False)
    if form == 2:
        return m.one(*m.choice((("Mul", [value, m.constant(1)]), ("Add", [value, m.constant([0])]))), keep=False)
    if form == 3:
        scalar = m.one("Squeeze", [value, m.constant([0])], keep=False)
        return scalar and m.one("Reshape", [scalar, m.constant([1])], keep=False)
    if form == 4:
        return m.one("Identity", [value], keep=False)
    if form == 5:
        twice = m.one("Mul", [value, m.constant([2])], keep=False)
        return twice and m.one("Div", [twice, m.constant([2])], keep=False)
    if form == 6:
        same = m.one("Equal", [value, m.constant([-1])], keep=False)
        return same and m.one("Where", [same, m.constant([1]), value], keep=False)
    return value


def vector(m: Maker, columns: Sequence[Counts]) -> Held | None:
    """An i64 vector of sizes, put together of pieces; runs that are the shape of a value may be read at once."""
    parts: list[Held | None] = []
    place = 0
    while place < len(columns):
        run = _run(m, columns[place:])
        parts.append(run[0] if run else size(m, columns[place]))
        place += run[1] if run else 1
    if any(part is None for part in parts):
        return None
    if not parts:
        return m.constant(np.zeros(0, np.int64))
    if len(parts) == 1 and m.chance(2):
        return parts[0]
    return m.one("Concat", parts, axis=0, keep=m.chance(3))


def _run(m: Maker, columns: Sequence[Counts]) -> tuple[Held, int] | None:
    """A slice of a shape that begins the columns, and how many of them it is."""
    if len(columns) < 2 or not m.chance(2):
        return None
    value = m.pick(lambda held: list(columns[:2]) in [held.axes[at : at + 2] for at in range(held.rank - 1)])
    if value is None:
        return None
    start = next(at for at in range(value.rank - 1) if value.axes[at : at + 2] == list(columns[:2]))
    length = 2
    while start + length < value.rank and length < len(columns) and value.axes[start + length] == columns[length]:
        length += 1
    shape = m.one("Shape", [value], keep=False)
    if shape is None or (start, length) == (0, value.rank):
        return shape and (shape, length)
    cut = m.one("Slice", [shape, m.constant([start]), m.constant([start + length])], keep=False)
    return cut and (cut, length)


# -- ops that take sizes -------------------------------------------------------------------------------------------


def reshape(m: Maker) -> None:
    """Axes merged, split, or put in; sizes copied (0), left to ONNX (-1), or said."""
    x = m.pick(lambda held: held.rank > 0)
    if x is None:
        return
    target: list[Counts] = []
    axes = x.axes
    place = 0
    while place < len(axes):
        form = m.rng.randrange(5)
        if form == 0 and place + 1 < len(axes):
            target.append(tuple(one * two for one, two in zip(axes[place], axes[place + 1], strict=True)))
            place += 2
            continue
        if form == 1 and m.chance(2):
            target.append((1,) * WITNESSES)
        factor = m.choice((2, 3, 4))
        if form == 2 and all(count % factor == 0 for count in axes[place]):
            parts = [(factor,) * WITNESSES, tuple(count // factor for count in axes[place])]
            m.rng.shuffle(parts)
            target += parts
        elif not (form == 3 and axes[place] == (1,) * WITNESSES):
            target.append(axes[place])
        place += 1
    if len(target) > 5:
        return
    left = m.rng.randrange(len(target)) if target and m.chance(2) else None
    said = [
        tuple([-1] * WITNESSES)
        if at == left
        else (0,) * WITNESSES
        if at < x.rank and counts == axes[at] and m.chance(2)
        else counts
        for at, counts in enumerate(target)
    ]
    shape = vector(m, said)
    if shape is not None:
        m.one("Reshape", [x, shape], exact=True)


def expand(m: Maker) -> None:
    """A value brought to the shape of another, or to one that is computed."""
    x = m.pick(lambda held: held.rank > 0)
    if x is None:
        return
    target = [m.choice((axes, axes, (1,) * WITNESSES)) for axes in x.axes]
    for at, axes in enumerate(x.axes):
        if axes == (1,) * WITNESSES:
            target[at] = m.choice([axis for value in m.pool for axis in value.axes] or [axes])
    if m.chance(3):
        target.insert(0, m.choice([(2,) * WITNESSES, (1,) * WITNESSES, target[-1]]))
    shape = vector(m, target)
    if shape is not None:
        m.one("Expand", [x, shape])


def constant_of_shape(m: Maker) -> None:
    """Ones or zeros in the shape of a value."""
    x = m.pick(lambda held: 0 < held.rank < 4)
    shape = x and vector(m, x.axes)
    if shape is not None:
        value = np.array([m.rng.randint(0, 2)], m.choice((np.float32, np.int64)))
        m.one("ConstantOfShape", [shape], value=_tensor(value))


def _tensor(array: np.ndarray) -> object:
    from onnx import numpy_helper

    return numpy_helper.from_array(array)


def slices(m: Maker) -> None:
    """A slice with bounds that are constants, sizes, or counted from the end."""
    x = m.pick(lambda held: held.rank > 0)
    if x is None:
        return
    axis = m.rng.randrange(x.rank)
    counts = x.axes[axis]
    start = m.choice([(0,) * WITNESSES, (1,) * WITNESSES, (-1,) * WITNESSES, tuple(n // 2 for n in counts)])
    end = m.choice(
        [
            counts,
            (2**31 - 1,) * WITNESSES,
            (2**63 - 1,) * WITNESSES,
            (-1,) * WITNESSES,
            (2,) * WITNESSES,
            tuple(n // 2 for n in counts),
            m.choice(x.axes),
        ]
    )
    bounds = [size(m, start), size(m, end)]
    if None in bounds:
        return
    step = [] if m.chance(2) else [m.constant([m.choice((1, 1, 2, 3))])]
    m.one("Slice", [x, *bounds, m.constant([m.choice((axis, axis - x.rank))]), *step])


def backwards(m: Maker) -> None:
    """A slice from the end to the front."""
    x = m.pick(lambda held: held.rank > 0)
    if x is not None:
        axis = m.rng.randrange(x.rank)
        bounds = [m.constant([-1]), m.constant([-(2**63) + 1]), m.constant([axis]), m.constant([m.choice((-1, -2))])]
        m.one("Slice", [x, *bounds])


def pad(m: Maker) -> None:
    """Some axes padded by constants or to the size of others."""
    x = m.rounds(lambda held: 0 < held.rank < 4)
    if x is None:
        return
    before = [(m.choice((0, 0, 1)),) * WITNESSES for _ in x.axes]
    after = [m.choice(((0,) * WITNESSES, (1,) * WITNESSES, m.choice(x.axes))) for _ in x.axes]
    pads = vector(m, before + after)
    if pads is None:
        return
    mode = m.choice(("constant", "constant", "edge", "reflect"))
    more = [m.constant(np.array(1, x.dtype))] if mode == "constant" and m.chance(2) else []
    m.one("Pad", [x, pads, *more], mode=mode)


def ranges(m: Maker) -> None:
    """The numbers below a size, and a table of them beside another axis."""
    value = m.pick(lambda held: held.rank > 0)
    end = value and size(m, m.choice(value.axes))
    scalar = end and m.one("Squeeze", [end, m.constant([0])], keep=False)
    made = scalar and m.one("Range", [m.constant(0), scalar, m.constant(1)])
    if made is not None and m.chance(2):
        m.one("Unsqueeze", [made, m.constant([m.choice((0, 1))])])


def split(m: Maker) -> None:
    """An axis in two halves, by sizes or by number."""
    x = m.pick(lambda held: held.rank > 0)
    if x is None:
        return
    axis = m.rng.randrange(x.rank)
    counts = x.axes[axis]
    if m.chance(2):
        if m.opset >= 18:
            m.emit("Split", [x], results=2, axis=axis, num_outputs=2)
        else:
            m.emit("Split", [x], results=2, axis=axis)
        return
    parts = [tuple(n // 2 for n in counts), tuple(n - n // 2 for n in counts)]
    sizes = vector(m, parts)
    if sizes is not None:
        m.emit("Split", [x, sizes], results=2, axis=axis)


def tile(m: Maker) -> None:
    """A value repeated, by numbers or as often as another has rows."""
    x = m.pick(lambda held: 0 < held.rank < 4)
    repeats = x and vector(m, [m.choice(((1,) * WITNESSES, (2,) * WITNESSES, m.choice(x.axes))) for _ in x.axes])
    if repeats is not None:
        m.one("Tile", [x, repeats])


def resize(m: Maker) -> None:
    """An image scaled to sizes, or by a factor."""
    x = m.rounds(lambda held: held.rank in (3, 4))
    if x is None:
        return
    mode = m.choice(("nearest", "linear"))
    shift = m.choice(("asymmetric", "half_pixel"))
    roundings = {"nearest_mode": m.choice(("floor", "round_prefer_floor"))} if mode == "nearest" else {}
    if m.chance(2):
        scales = m.constant(np.array([1.0] * (x.rank - 1) + [m.choice((2.0, 0.5, 1.5))], np.float32))
        m.one("Resize", [x, None, scales], mode=mode, coordinate_transformation_mode=shift, exact=False, **roundings)
        return
    if m.chance(3):  # with scales ONNX Runtime rounds the size before it aligns corners, and ONNX does not
        shift = "align_corners"
    last = m.choice((tuple(2 * n for n in x.axes[-1]), x.axes[-1], (3,) * WITNESSES))
    sizes = vector(m, [*x.axes[:-1], last])
    if sizes is not None:
        m.one(
            "Resize", [x, None, None, sizes], mode=mode, coordinate_transformation_mode=shift, exact=False, **roundings
        )


def product_of_shape(m: Maker) -> None:
    """The number of elements of a value, and that as a size."""
    x = m.pick(lambda held: held.rank > 0)
    shape = x and m.one("Shape", [x])
    whole = shape and m.one("ReduceProd", [shape], keepdims=1)
    if whole is not None and x is not None and all(prod(array.shape) < 200 for array in x.arrays):
        m.one("Reshape", [x, whole])


def top(m: Maker) -> None:
    """The largest elements, so many as half of an axis has."""
    x = m.pick(lambda held: held.rank > 0 and held.exact and held.kind in "fi")
    k = x and size(m, m.choice((tuple(min(n, 2) for n in x.axes[-1]), x.axes[-1], tuple(n // 2 for n in x.axes[-1]))))
    if k is not None and x is not None:
        m.emit("TopK", [x, k], results=2, axis=-1)


SIZED = (
    reshape,
    reshape,
    reshape,
    expand,
    expand,
    constant_of_shape,
    slices,
    slices,
    slices,
    backwards,
    pad,
    ranges,
    split,
    tile,
    resize,
    product_of_shape,
    top,
)
