"""Results that lie where the convolutions that read them want them padded: written there at once, and not copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egshape.dims import Dim, is_nonnegative, maximum
from egshape.dims import product as total
from egshape.ir.graph import Op, Value
from egshape.ops.contraction import summed_in
from egshape.plan.analysis.elements import ZERO, is_elementwise
from egshape.plan.form.dots import zero
from egshape.plan.form.epilogue import ENDLESS
from egshape.plan.form.matrices import ONE, loops
from egshape.plan.form.reader import Frame
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Stmt, Store, linear
from egshape.plan.ir.packs import pack_step


def frame_of(p: Steps, value: Value) -> Frame | None:
    """Where a value that is about to be computed lies padded, its border written; None where something else reads it
    than convolutions of images, channels last, and elementwise ops."""
    paddings = [op.attrs["padding"] for op in _readers(p, value)]
    if not paddings:
        return None
    shape = value.type.dims
    sides = [maximum(*each) if len(each) > 1 else each[0] for each in zip(*paddings, strict=True)]
    low, high = ((ZERO, *sides[side::2], ZERO) for side in (0, 1))
    sizes = tuple(one + size + two for one, size, two in zip(low, shape, high, strict=True))
    p.start()
    frame = Frame(p.scratch("framed", value.type.dtype, total(sizes) + pack_step(value.type.dtype)), sizes, low)
    (image,), _ = p.nest(shape[:1])
    border = list(_border(p, frame, shape, high, [(image, shape[0], image)]))
    if border:  # image by image, so that threads share them
        p.run("frame", loops([(image, shape[0])], border), (frame.buffer,), once=True)
    return frame


def _readers(p: Steps, value: Value) -> list[Op]:
    """The convolutions that read a value padded; none if one, or anything else, wants it as it is."""
    block, _ = p.position
    uses = p.readers[block].get(value, ()) if block in p.readers else ()
    if not uses or ENDLESS in uses or value in p.outputs:
        return []
    ops = [block.ops[number] for number in uses]
    found = [op for op in ops if not is_elementwise(op)]
    return found if all(_wants(op, value) for op in found) else []


def _wants(op: Op, value: Value) -> bool:
    """Whether an op is a convolution that copies a value, padded, before it reads it."""
    if op.name != "convolution" or op.operands[1] is value:
        return False
    a, rank, dtype = op.attrs, op.result.type.rank, op.attrs["dtype"]
    numbers, last = a["numbers"], (0, rank - 1, tuple(range(1, rank - 1)))
    if rank < 3 or (*numbers[:2], tuple(numbers[2])) != last or (*numbers[6:8], tuple(numbers[8])) != last:
        return False
    if any(
        kind != summed_in(kind) or kind not in ("f32", "f64") for kind in (dtype, *(x.type.dtype for x in op.operands))
    ):
        return False
    if a["batch_groups"] != 1 or any(each != 1 for each in a["lhs_dilation"]):
        return False
    bare = all(each is ZERO for each in a["padding"]) and all(each == 1 for each in a["strides"])
    pointwise = bare and all(op.operands[1].type.dims[axis] is ONE for axis in numbers[5])
    return not pointwise and all(map(is_nonnegative, a["padding"]))


def _border(
    p: Steps, frame: Frame, shape: Sequence[Dim], high: Sequence[Dim], inside: list[tuple[Dim, Dim, Dim]]
) -> Iterator[Stmt]:
    """Loops that write zeros around a value: along each axis before and behind it, within it along the axes before.
    ``inside``: index, size and place of these, the first one's loop being outside."""
    axis = len(inside)
    if axis == len(shape):
        return
    dtype = frame.buffer.dtype
    behind = [p.nest((size,))[0][0] for size in frame.sizes[axis + 1 :]]
    for start, count in ((ZERO, frame.low[axis]), (frame.low[axis] + shape[axis], high[axis])):
        if count is ZERO:
            continue
        (index,), _ = p.nest((count,))
        place = linear((*(each for _, _, each in inside), start + index, *behind), frame.sizes)
        axes = [(at, size) for at, size, _ in inside[1:]]
        axes += [(index, count), *zip(behind, frame.sizes[axis + 1 :], strict=True)]
        yield from loops(axes, [Store(frame.buffer, place, zero(dtype))])
    (index,), _ = p.nest((shape[axis],))
    yield from _border(p, frame, shape, high, [*inside, (index, shape[axis], frame.low[axis] + index)])
