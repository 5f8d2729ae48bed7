"""Which convolutions are computed by products, and which of these by tiles, in parts."""

from __future__ import annotations

from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.ir.types import itemsize
from egshape.ops.contraction import summed_in
from egshape.plan.cpu import parts
from egshape.plan.form.steps import Steps

LEAST = 64
"""Output features times taps from which making parts of an element is a small part of its products."""
SHALLOW = {"f32": 192, "f16": 32, "bf16": 0}
"""Depth of a product under which tiles take about as long as vectors."""
LARGEST, LARGEST_POINT = 6 << 20, 1 << 20
"""Bytes of a kernel in parts, and of one of a single tap, which is read for each block of places: one that comes from
far caches takes longer to read in parts than to multiply whole."""
FILLED = {"f32": 80, "f16": 60, "bf16": 60}
"""How much of the products of tiles counts at least, in percent: channels are filled up to whole tiles, and rows that
run on through lines go through the padding between these. Six products of f32 gain little over vectors else, and
lose half where a neighbour uses the unit."""


def is_product(op: Op) -> bool:
    """Whether a convolution is computed by products, or direct sums, of f32 or f64; 16-bit floats are widened, and
    their sums rounded if the result is of 16 bits too."""
    if op.name != "convolution" or op.result.type.rank < 3 or op.attrs["batch_groups"] != 1:
        return False
    dtype, (one, two) = op.attrs["dtype"], (x.type.dtype for x in op.operands[:2])
    return summed_in(dtype) in ("f32", "f64") and one == two and dtype in (one, summed_in(one))


def in_parts(p: Steps, op: Op) -> bool:
    """Whether it is one of sums of f32 of numbers in parts: a constant kernel, channels last, and enough products of
    each element of the input."""
    a, kernel, kind = op.attrs, op.operands[1].type.dims, op.operands[1].type.dtype
    if not is_product(op) or kind not in p.target.tiles:
        return False
    *_, k_in, k_out, k_space, _, o_feature, _ = a["numbers"]
    if summed_in(a["dtype"]) != "f32" or a["feature_groups"] != 1 or o_feature != op.result.type.rank - 1:
        return False
    each, channels = (kernel[k_out] * total(kernel[axis] for axis in k_space)).const, kernel[k_in].const
    room = parts.room_of(kernel[k_in]).const
    features = kernel[k_out].const
    if not each or not channels or not features or room is None or each < LEAST or 100 * channels < FILLED[kind] * room:
        return False
    taps, size = each // features, each * room * parts.PARTS[kind] * itemsize(parts.PART)
    if taps * channels < SHALLOW[kind] or size > (LARGEST if taps > 1 else LARGEST_POINT):
        return False
    found = p.arrays.of(op.operands[1])
    return found is not None and (kind != "f32" or parts.fits(found))
