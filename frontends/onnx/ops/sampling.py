"""Images read at computed places: GridSample, AffineGrid, RoiAlign."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations

from egshape.dims import Dim, const, product
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert
from egshape.frontends.onnx.ops.shaping import reshape, single, window
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import equal, of_length
from egshape.ir.graph import Value
from egshape.ir.types import is_float
from egshape.ops.contraction import summed_in

Taps = list[tuple[Value, Value]]
"""Places on an axis, and their weights."""


def number(s: Scope, size: Dim, like: Value) -> Value:
    """A size as a number in the dtype and shape of a value."""
    return s.spread(convert(s, s.vector([size], "i64", ()), like.type.dtype), like.type.dims)


def compared(s: Scope, one: Value, direction: str, two: Value) -> Value:
    """A comparison of floats."""
    return s.one("compare", (one, two), direction=direction, kind="FLOAT")


def polynomial(s: Scope, at: Value, numbers: Sequence[float]) -> Value:
    """A polynomial with these numbers, the highest power first."""
    total = s.full(numbers[0], at)
    for each in numbers[1:]:
        total = s.one("add", (s.one("multiply", (total, at)), s.full(each, at)))
    return total


def pixels(s: Scope, x: Value, images: Value, places: Sequence[Value]) -> Value:
    """Elements of x: (images, features, spatial ...) at places, all of one shape (points, more ...), as (points,
    features, more ...). Where there are no images there are no points."""
    shape = (*images.type.dims, const(1))
    vectors = s.one("concatenate", [reshape(s, each, shape) for each in (images, *places)], dim=images.type.rank)
    gone = (0, *range(2, x.type.rank))
    return s.one(
        "gather",
        (x, vectors),
        offset_dims=(1,),
        collapsed=gone,
        start_index_map=gone,
        index_vector_dim=images.type.rank,
        sizes=(single(s, x.type.dims[0]), x.type.dims[1], *[const(1)] * len(places)),
    )


def weighted(s: Scope, x: Value, images: Value, taps: Sequence[Taps]) -> list[Value]:
    """Pixels times the product of their weights, for each combination of a tap of each axis."""
    out = []
    for each in combinations(*taps):
        piece = pixels(s, x, images, [place for place, _ in each])
        weight = each[0][1]
        for _, other in each[1:]:
            weight = s.one("multiply", (weight, other))
        wide = s.one(
            "broadcast_in_dim",
            (convert(s, weight, piece.type.dtype),),
            dims=tuple(axis for axis in range(piece.type.rank) if axis != 1),
            shape=piece.type.dims,
        )
        out.append(s.one("multiply", (piece, wide)))
    return out


# -- GridSample --------------------------------------------------------------------------------------------------


@onnx_op("GridSample", composite=True)
def grid_sample(s: Scope, node: Node, x: Value, grid: Value) -> Value:
    """At each place of the grid, counted from -1 to 1 along each axis (the last one first), an element of x, or
    neighbours weighted; what lies outside is 0, the border, or mirrored."""
    rank = x.type.rank - 2
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(*[node.text("mode", "linear")] * 2)
    if rank < 1 or grid.type.rank != rank + 2:
        raise node.error(f"of {x.type} and a grid {grid.type}")
    if mode != "nearest" and not is_float(x.type.dtype):
        raise NoLowering(f"mode {mode} of {x.type.dtype}")
    equal(s, node, x.type.dims[0], grid.type.dims[0], "has {0} images and {1} grids")
    equal(s, node, grid.type.dims[-1], const(rank), "has a grid of {0} coordinates for {1} axes")
    shape, around = grid.type.dims[:-1], node.text("padding_mode", "zeros")
    grid = convert(s, grid, summed_in(grid.type.dtype))
    taps = []
    for axis in range(rank):
        at = reshape(s, window(s, grid, rank + 1, const(rank - 1 - axis), const(rank - axis)), shape)
        taps.append(_taps(s, at, x.type.dims[axis + 2], mode, around, node.flag("align_corners", False)))
    images = s.one("iota", dtype="i64", dim=0, shape=shape)
    if mode == "nearest" and around != "zeros":
        return pixels(s, x, images, [places[0][0] for places in taps])
    if mode == "nearest":
        return _inside(s, x, images, taps)
    pieces = weighted(s, convert(s, x, summed_in(x.type.dtype)), images, taps)
    total = pieces[0]
    for piece in pieces[1:]:
        total = s.one("add", (total, piece))
    return convert(s, total, x.type.dtype)


def _inside(s: Scope, x: Value, images: Value, taps: Sequence[Taps]) -> Value:
    """Pixels whose weights are not 0, 0 elsewhere: exact for every element type."""
    found = pixels(s, x, images, [places[0][0] for places in taps])
    for ((_, weight),) in taps:
        kept = compared(s, weight, "NE", s.full(0, weight))
        axes = tuple(axis for axis in range(found.type.rank) if axis != 1)
        wide = s.one("broadcast_in_dim", (kept,), dims=axes, shape=found.type.dims)
        found = s.one("select", (wide, found, s.full(0, found)))
    return found


def _taps(s: Scope, at: Value, size: Dim, mode: str, around: str, corners: bool) -> Taps:
    """The elements of an axis that a coordinate reads."""
    whole, one, half = number(s, size, at), s.full(1, at), s.full(0.5, at)
    last, zero = s.one("subtract", (whole, one)), s.full(0, at)
    up = s.one("add", (at, one))
    if corners:
        place = s.one("multiply", (s.one("multiply", (up, half)), last))
        low, high = zero, last
    else:
        place = s.one("multiply", (s.one("subtract", (s.one("multiply", (up, whole)), one)), half))
        low, high = s.full(-0.5, at), s.one("subtract", (whole, half))
    if mode == "nearest":
        place = s.one("round_nearest_even", (place,))
    place = _brought_in(s, place, low, high, last, around)
    if mode == "nearest":
        return [_tap(s, place, one, low, high, last, around)]
    base = s.one("floor", (place,))
    part = s.one("subtract", (place, base))
    if mode == "linear":
        found = [(0, s.one("subtract", (one, part))), (1, part)]
    elif mode == "cubic":
        found = cubic(s, part, -0.75)
    else:
        raise NoLowering(f"mode {mode}")
    return [
        _tap(s, s.one("add", (base, s.full(step, base))), weight, low, high, last, around) for step, weight in found
    ]


def keys(a: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Keys' cubic convolution (1981): polynomials in the distance, up to 1 and up to 2."""
    return (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)


def cubic(s: Scope, part: Value, a: float) -> list[tuple[int, Value]]:
    """The weights of four neighbours."""
    near, far = keys(a)
    return [
        (step, polynomial(s, s.one("abs", (s.one("subtract", (part, s.full(step, part))),)), numbers))
        for step, numbers in ((-1, far), (0, near), (1, near), (2, far))
    ]


def _tap(
    s: Scope, place: Value, weight: Value, low: Value, high: Value, last: Value, around: str
) -> tuple[Value, Value]:
    """A whole place as an index within the axis; a weight of 0 outside if zeros lie there."""
    zero = s.full(0, place)
    if around == "zeros":
        inside = s.one("and", (compared(s, place, "GE", zero), compared(s, place, "LE", last)))
        weight = s.one("select", (inside, weight, zero))
    place = _brought_in(s, place, low, high, last, around)
    if around == "reflection":
        place = s.one("maximum", (place, zero))  # its part behind the point goes: a half before 0 is 0
    return convert(s, s.one("clamp", (zero, place, s.one("maximum", (last, zero)))), "i64"), weight


def _brought_in(s: Scope, place: Value, low: Value, high: Value, last: Value, around: str) -> Value:
    """A coordinate outside of [low, high] at the border, or reflected until it is inside."""
    if around == "border":
        outside = s.one("or", (compared(s, place, "LT", low), compared(s, place, "GT", high)))
        return s.one("select", (outside, s.one("clamp", (s.full(0, place), place, last)), place))
    if around != "reflection":
        return place
    span = s.one("subtract", (high, low))
    below, above = compared(s, place, "LT", low), compared(s, place, "GT", high)
    far = s.one("select", (below, s.one("subtract", (low, place)), s.one("subtract", (place, high))))
    times = s.one("floor", (s.one("divide", (far, span)),))
    rest = s.one("subtract", (far, s.one("multiply", (times, span))))
    odd = s.one(
        "subtract",
        (
            times,
            s.one("multiply", (s.full(2, times), s.one("floor", (s.one("multiply", (times, s.full(0.5, times))),)))),
        ),
    )
    from_low = s.one("xor", (below, compared(s, odd, "NE", s.full(0, odd))))
    found = s.one("select", (from_low, s.one("add", (low, rest)), s.one("subtract", (high, rest))))
    found = s.one("select", (compared(s, span, "GT", s.full(0, span)), found, low))
    return s.one("select", (s.one("or", (below, above)), found, place))


# -- AffineGrid --------------------------------------------------------------------------------------------------


@onnx_op("AffineGrid", composite=True)
def affine_grid(s: Scope, node: Node, theta: Value, size: Value) -> Value:
    """theta times (x, y, [z,] 1) for the places of an image of this size, counted from -1 to 1."""
    rank = theta.type.dims[1].const or (s.known_rank(node.outputs[0]) or 0) - 2
    if rank not in (2, 3) or theta.type.rank != 3:
        raise NoLowering("how many axes the image has is data")
    equal(s, node, theta.type.dims[1], const(rank), "has {0} rows for an image of rank {1}")
    equal(s, node, theta.type.dims[2], const(rank + 1), "has {0} columns, not {1}")
    given = of_length(s, size, rank + 2)
    sizes = s.sizes(given, f"{node.outputs[0]}.size")[2:]
    equal(s, node, s.sizes(given, f"{node.outputs[0]}.size")[0], theta.type.dims[0], "has {0} images and {1} matrices")
    dtype, columns = theta.type.dtype, []
    corners = node.flag("align_corners", False)
    for axis in reversed(range(rank)):
        place = s.one("iota", dtype=summed_in(dtype), dim=axis, shape=sizes)
        whole, one = number(s, sizes[axis], place), s.full(1, place)
        if corners:
            steps = s.one("maximum", (s.one("subtract", (whole, one)), one))
            twice = s.one("multiply", (place, s.full(2, place)))
        else:
            steps, twice = whole, s.one("add", (s.one("multiply", (place, s.full(2, place))), one))
        columns.append(s.one("subtract", (s.one("divide", (twice, steps)), one)))
    columns.append(s.full(1, columns[0]))
    flat = s.one("concatenate", [reshape(s, each, (product(sizes), const(1))) for each in columns], dim=1)
    wide = convert(s, theta, summed_in(dtype))
    out = s.one(
        "dot_general",
        (wide, flat),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contract=(2,),
        rhs_contract=(1,),
        dtype=wide.type.dtype,
    )
    out = s.one("transpose", (out,), permutation=(0, 2, 1))
    return convert(s, reshape(s, out, (theta.type.dims[0], *sizes, const(rank))), dtype)


# -- RoiAlign ----------------------------------------------------------------------------------------------------


@onnx_op("RoiAlign", composite=True)
def roi_align(s: Scope, node: Node, x: Value, rois: Value, images: Value) -> Value:
    """Boxes of images, each divided into equal parts; in each part points are read between pixels, and their mean or
    largest is taken."""
    points = node.int("sampling_ratio", 0)
    if points <= 0:
        raise NoLowering("the number of points of a box is data")
    mode, half = (
        node.text("mode", "avg"),
        node.text("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel"),
    )
    parts = node.int("output_height", 1), node.int("output_width", 1)
    count = rois.type.dims[0]
    equal(s, node, count, images.type.dims[0], "has {0} boxes and {1} images of them")
    shape = (count, const(parts[0]), const(points), const(parts[1]), const(points))
    dtype = summed_in(x.type.dtype)
    sides = []
    for axis, (first, size) in enumerate(zip((1, 0), x.type.dims[2:], strict=True)):
        ends = [_scaled(s, node, rois, place, half == "half_pixel", dtype) for place in (first, first + 2)]
        sides.append(_side(s, ends, parts[axis], points, half != "half_pixel", shape, 1 + 2 * axis, size))
    inside = s.one("and", (sides[0][1], sides[1][1]))
    which = s.one("broadcast_in_dim", (convert(s, images, "i64"),), dims=(0,), shape=shape)
    taps = [
        [(place, s.one("select", (inside, weight, s.full(0, weight)))) for place, weight in side] for side, _ in sides
    ]
    pieces = weighted(s, convert(s, x, dtype), which, taps)
    total = pieces[0]
    for piece in pieces[1:]:
        total = s.one("add" if mode == "avg" else "maximum", (total, piece))
    out = fold(s, "add" if mode == "avg" else "maximum", total, (3, 5))
    if mode == "avg":
        out = s.one("divide", (out, s.full(points * points, out)))
    return convert(s, out, x.type.dtype)


def _scaled(s: Scope, node: Node, rois: Value, column: int, half: bool, dtype: str) -> Value:
    """One side of all boxes in pixels."""
    line = convert(s, reshape(s, window(s, rois, 1, const(column), const(column + 1)), (rois.type.dims[0],)), dtype)
    line = s.one("multiply", (line, s.full(node.float("spatial_scale", 1.0), line)))
    return s.one("subtract", (line, s.full(0.5, line))) if half else line


def _side(
    s: Scope, ends: Sequence[Value], parts: int, points: int, least: bool, shape: Sequence[Dim], axis: int, size: Dim
) -> tuple[Taps, Value]:
    """The two neighbours of each point along one axis, and whether it lies on the image."""
    length = s.one("subtract", (ends[1], ends[0]))
    if least:
        length = s.one("maximum", (length, s.full(1, length)))
    start, part = (
        s.one("broadcast_in_dim", (each,), dims=(0,), shape=tuple(shape))
        for each in (ends[0], s.one("divide", (length, s.full(parts, length))))
    )
    number_, point = (s.one("iota", dtype=start.type.dtype, dim=at, shape=tuple(shape)) for at in (axis, axis + 1))
    place = s.one("add", (start, s.one("multiply", (number_, part))))
    middle = s.one("multiply", (s.one("add", (point, s.full(0.5, point))), part))
    place = s.one("add", (place, s.one("divide", (middle, s.full(points, middle)))))
    whole, zero, one = number(s, size, place), s.full(0, place), s.full(1, place)
    inside = s.one("and", (compared(s, place, "GE", s.full(-1, place)), compared(s, place, "LE", whole)))
    last = s.one("subtract", (whole, one))
    place = s.one("clamp", (zero, place, last))
    low = s.one("floor", (place,))
    rest = s.one("subtract", (place, low))
    high = s.one("minimum", (s.one("add", (low, one)), last))
    return [(convert(s, low, "i64"), s.one("subtract", (one, rest))), (convert(s, high, "i64"), rest)], inside
