"""Detection: boxes that overlap better ones go."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import Dim, const, product
from egshape.frontends.onnx.composites import composite
from egshape.frontends.onnx.folds import fold, running
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert
from egshape.frontends.onnx.ops.ordering import bounded
from egshape.frontends.onnx.ops.sampling import compared
from egshape.frontends.onnx.ops.shaping import reshape, window
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.registry import onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import equal
from egshape.ir.graph import Value

_FAR = 2**62
"""No box has this number."""
_ONE = const(1)


@onnx_op("NonMaxSuppression")
def non_max_suppression(
    s: Scope,
    node: Node,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    least: Value | None = None,
) -> Operand:
    """The boxes of each class by falling score, without those that overlap a better one."""
    (found,) = composite(s, node, (boxes, scores, most, overlap, least), _suppressed)
    bounded(s, found, 0, product(scores.type.dims))
    return found


def _suppressed(
    s: Scope,
    node: Node,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    least: Value | None = None,
) -> Value:
    """Round after round the best box that is left of each class is taken, and goes with all that overlap it."""
    if boxes.type.rank != 3 or scores.type.rank != 3:
        raise node.error(f"of boxes {boxes.type} and scores {scores.type}")
    equal(s, node, boxes.type.dims[0], scores.type.dims[0], "has {0} images with boxes and {1} with scores")
    equal(s, node, boxes.type.dims[1], scores.type.dims[2], "has {0} boxes and {1} scores")
    equal(s, node, boxes.type.dims[2], const(4), "has boxes of {0} numbers, not {1}")
    most = s.scalar(0, "i64") if most is None else reshape(s, most, ())
    limit = s.scalar(0, "f32") if overlap is None else convert(s, reshape(s, overlap, ()), "f32")
    alive = s.spread(s.scalar(1, "i1"), scores.type.dims)
    if least is not None:
        alive = compared(
            s, scores, "GT", s.spread(convert(s, reshape(s, least, ()), scores.type.dtype), scores.type.dims)
        )
    sides = _sides(s, boxes, node.flag("center_point_box", False))
    shape = scores.type.dims
    when = s.spread(s.scalar(-1, "i64"), shape)
    types = [("i64", ()), ("i1", shape), ("i64", shape)]

    def going(inner: Scope, number: Value, left: Value, when: Value) -> Value:
        more = inner.one("compare", (number, most), direction="LT", kind="SIGNED")
        flat = reshape(inner, left, (product(shape),))
        return inner.one("and", (more, fold(inner, "or", flat, (0,))))

    def body(inner: Scope, number: Value, left: Value, when: Value) -> Sequence[Value]:
        best = _best(inner, scores, left)
        places = inner.one("iota", dtype="i64", dim=2, shape=shape)
        wide = inner.one("broadcast_in_dim", (best,), dims=(0, 1), shape=shape)
        chosen = inner.one("compare", (places, wide), direction="EQ", kind="SIGNED")
        over = _overlaps(inner, sides, best, limit, shape)
        left = inner.one("and", (left, inner.one("not", (inner.one("or", (chosen, over)),))))
        when = inner.one("select", (chosen, inner.spread(number, shape), when))
        return inner.one("add", (number, inner.scalar(1, "i64"))), left, when

    regions = (s.region(types, going), s.region(types, body))
    found = s.add("while", (s.scalar(0, "i64"), alive, when), {}, regions=regions)
    return _listed(s, node, found[2])


def _sides(s: Scope, boxes: Value, centers: bool) -> list[tuple[Value, Value]]:
    """The smaller and larger end of all boxes along both axes."""
    columns = [reshape(s, window(s, boxes, 2, const(k), const(k + 1)), boxes.type.dims[:2]) for k in range(4)]
    if not centers:
        pairs = [(columns[1], columns[3]), (columns[0], columns[2])]
        return [(s.one("minimum", each), s.one("maximum", each)) for each in pairs]
    out = []
    for middle, whole in ((columns[0], columns[2]), (columns[1], columns[3])):
        half = s.one("multiply", (whole, s.full(0.5, whole)))
        out.append((s.one("subtract", (middle, half)), s.one("add", (middle, half))))
    return out


def _best(s: Scope, scores: Value, left: Value) -> Value:
    """The number of the best box that is left of each class, of several the first; a far number where none is left."""
    places = s.one("iota", dtype="i64", dim=2, shape=scores.type.dims)
    places = s.one("select", (left, places, s.full(_FAR, places)))

    def body(inner: Scope, best: Value, at: Value, new: Value, place: Value) -> Sequence[Value]:
        far, sign = inner.scalar(_FAR, "i64"), "SIGNED"
        is_left = inner.one("compare", (place, far), direction="LT", kind=sign)
        first = inner.one("compare", (at, far), direction="EQ", kind=sign)
        sooner = inner.one(
            "and", (compared(inner, new, "EQ", best), inner.one("compare", (place, at), direction="LT", kind=sign))
        )
        better = inner.one("or", (compared(inner, new, "GT", best), sooner))
        take = inner.one("and", (is_left, inner.one("or", (first, better))))
        return inner.one("select", (take, new, best)), inner.one("select", (take, place, at))

    region = s.region([(scores.type.dtype, ()), ("i64", ())] * 2, body)
    start = s.scalar(float("-inf"), scores.type.dtype), s.scalar(_FAR, "i64")
    return s.add("reduce", (scores, places, *start), {"dims": (2,)}, regions=(region,))[1]


def _overlaps(s: Scope, sides: Sequence[tuple[Value, Value]], best: Value, limit: Value, shape: Sequence[Dim]) -> Value:
    """Whether the intersection of each box with the best one is more than ``limit`` of their union."""
    images = s.one("iota", dtype="i64", dim=0, shape=(*best.type.dims, _ONE))
    vectors = s.one("concatenate", (images, reshape(s, best, (*best.type.dims, _ONE))), dim=2)

    def of_best(x: Value) -> Value:
        found = s.one(
            "gather",
            (x, vectors),
            offset_dims=(),
            collapsed=(0, 1),
            start_index_map=(0, 1),
            index_vector_dim=2,
            sizes=(_ONE, _ONE),
        )
        return s.one("broadcast_in_dim", (found,), dims=(0, 1), shape=tuple(shape))

    def of_all(x: Value) -> Value:
        return s.one("broadcast_in_dim", (x,), dims=(0, 2), shape=tuple(shape))

    common, areas = [], []
    for low, high in sides:
        ends = [[spread(each) for each in (low, high)] for spread in (of_best, of_all)]
        inside = s.one(
            "subtract", (s.one("minimum", (ends[0][1], ends[1][1])), s.one("maximum", (ends[0][0], ends[1][0])))
        )
        common.append(s.one("maximum", (inside, s.full(0, inside))))
        areas.append([s.one("subtract", (each[1], each[0])) for each in ends])
    both = s.one("multiply", tuple(common))
    first, second = (s.one("multiply", tuple(pair)) for pair in zip(*areas, strict=True))
    union = s.one("subtract", (s.one("add", (first, second)), both))
    zero = s.full(0, both)
    share = s.one("divide", (both, union))
    out = compared(s, share, "GT", s.spread(convert(s, limit, share.type.dtype), tuple(shape)))
    for each in (both, first, second, union):
        out = s.one("and", (out, compared(s, each, "GT", zero)))
    return out


def _listed(s: Scope, node: Node, when: Value) -> Value:
    """Image, class and number of the boxes that were taken, by image, class and round."""
    images, classes, count = when.type.dims
    lines, every = images * classes, images * classes * count
    zero = s.full(0, when)
    taken = s.one("compare", (when, zero), direction="GE", kind="SIGNED")
    held = reshape(s, convert(s, taken, "i64"), (lines, count))
    totals = fold(s, "add", held, (1,))
    before = running(s, "add", totals, 0, exclusive=True)
    before = reshape(s, s.one("broadcast_in_dim", (before,), dims=(0,), shape=(lines, count)), when.type.dims)
    total = fold(s, "add", totals, (0,))
    (size,) = s.sizes(reshape(s, total, (_ONE,)), node.outputs[0], "count")
    place = s.one("select", (taken, s.one("add", (before, when)), s.spread(total, when.type.dims)))
    rows = [reshape(s, s.one("iota", dtype="i64", dim=axis, shape=when.type.dims), (every, _ONE)) for axis in range(3)]
    attrs = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "operand_batch": (),
        "indices_batch": (),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    out = s.spread(s.scalar(0, "i64"), (size, const(3)))
    return s.add(
        "scatter",
        (out, reshape(s, place, (every,)), s.one("concatenate", rows, dim=1)),
        attrs,
        regions=(s.region([("i64", ())] * 2, lambda inner, old, new: new),),
    )[0]
