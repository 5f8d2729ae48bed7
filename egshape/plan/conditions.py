"""What must hold of sizes so that an op's kernel stays inside of its buffers: checked where no form shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egshape.dims import Dim, const, minimum, product
from egshape.ir.graph import Op, Value
from egshape.ir.types import itemsize
from egshape.ops.windows import windowed_dims
from egshape.plan.program import CheckSizes
from egshape.plan.reader import is_elementwise, place


def conditions(op: Op) -> Iterator[CheckSizes]:
    """The conditions of an op, in order."""
    find = _CONDITIONS.get(op.name)
    if find is not None:
        yield from find(op)
    elif is_elementwise(op):
        yield from _alike(op, [x for x in op.operands if x.type.shape or len(op.operands) < 3])
    for value in op.results:
        for size in value.type.dims:
            message = f"%{value.name} would have an axis of size {{0}}"
            yield CheckSizes("<=", const(0), size, message, (size,), place(op))


def _equal(op: Op, one: Dim, two: Dim, what: str) -> CheckSizes:
    return CheckSizes("==", one, two, f"{what}: sizes {{0}} and {{1}} do not fit together", (one, two), place(op))


def _alike(op: Op, values: Sequence[Value]) -> Iterator[CheckSizes]:
    for value in values[1:]:
        for one, two in zip(values[0].type.dims, value.type.dims, strict=True):
            yield _equal(op, one, two, "operands")
    for one, two in zip(values[0].type.dims if values else (), op.results[0].type.dims, strict=False):
        yield _equal(op, one, two, "result")


def _broadcast(op: Op) -> Iterator[CheckSizes]:
    x = op.operands[0]
    for axis, target in enumerate(op.attrs["dims"]):
        size, whole = x.type.dims[axis], op.result.type.dims[target]
        if size.const == 1:
            continue
        if size.const is not None or size is whole:
            yield _equal(op, size, whole, "broadcast")
        else:
            yield CheckSizes("==", (size - whole) * (size - 1), const(0),
                             "an axis of size {0} does not broadcast to {1}", (size, whole), place(op))


def _reshape(op: Op) -> Iterator[CheckSizes]:
    yield _equal(op, product(op.operands[0].type.dims), product(op.result.type.dims), "element counts")


def _within(op: Op, low: Dim, high: Dim, what: str) -> CheckSizes:
    return CheckSizes("<=", low, high, f"{what}: {{0}} is more than {{1}}", (low, high), place(op))


def _slice(op: Op) -> Iterator[CheckSizes]:
    a = op.attrs
    for size, start, limit, stride in zip(
            op.operands[0].type.dims, a["starts"], a["limits"], a["strides"], strict=True):
        yield _within(op, const(0), start, "slice start")
        yield _within(op, start, limit, "slice start and limit")
        yield _within(op, limit, size, "slice limit and size")
        yield _within(op, const(1), stride, "slice stride")


def _pad(op: Op) -> Iterator[CheckSizes]:
    for gap in op.attrs["interior"]:
        yield _within(op, const(0), gap, "interior padding")


def _concatenate(op: Op) -> Iterator[CheckSizes]:
    first, dim = op.operands[0], op.attrs["dim"]
    for x in op.operands[1:]:
        for axis, (one, two) in enumerate(zip(first.type.dims, x.type.dims, strict=True)):
            if axis != dim:
                yield _equal(op, one, two, "concatenated axes")


def _dynamic_slice(op: Op) -> Iterator[CheckSizes]:
    taken = op.attrs["sizes"] if op.name == "dynamic_slice" else op.operands[1].type.dims
    for size, window in zip(op.operands[0].type.dims, taken, strict=True):
        yield _within(op, const(window) if isinstance(window, int) else window, size, "window and size")


def _gather(op: Op) -> Iterator[CheckSizes]:
    x, indices = op.operands[:2]
    a = op.attrs
    for axis, (size, taken) in enumerate(zip(x.type.dims, a["sizes"], strict=True)):
        yield _within(op, taken, size, "slice size and axis")
        if axis in a["collapsed"] or axis in a["operand_batch"]:
            yield _within(op, taken, const(1), "the slice size of a collapsed axis")
            yield _within(op, minimum(product(op.result.type.dims), 1), taken, "the slice size of a collapsed axis")
    yield from _batching(op, x, indices)


def _batching(op: Op, x: Value, indices: Value) -> Iterator[CheckSizes]:
    a = op.attrs
    for left, right in zip(a["operand_batch"], a["indices_batch"], strict=True):
        yield _equal(op, x.type.dims[left], indices.type.dims[right], "batching axes")
    dim = a["index_vector_dim"]
    axes = a["start_index_map"] if op.name == "gather" else a["scatter_dims_to_operand_dims"]
    if dim < indices.type.rank:
        yield _equal(op, indices.type.dims[dim], const(len(axes)), "index vectors")


def _scatter(op: Op) -> Iterator[CheckSizes]:
    a = op.attrs
    count = len(op.operands) // 2
    inputs, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1:]
    for group in (inputs, updates):
        for value in group[1:]:
            for one, two in zip(group[0].type.dims, value.type.dims, strict=True):
                yield _equal(op, one, two, "operands")
    outer = [size for axis, size in enumerate(updates[0].type.dims) if axis not in a["update_window_dims"]]
    batch = [size for axis, size in enumerate(indices.type.dims) if axis != a["index_vector_dim"]]
    for one, two in zip(outer, batch, strict=True):
        yield _equal(op, one, two, "updates and indices")
    dropped = (*a["inserted_window_dims"], *a["operand_batch"])
    kept = [axis for axis in range(inputs[0].type.rank) if axis not in dropped]
    for axis, source in zip(kept, a["update_window_dims"], strict=True):
        yield _within(op, updates[0].type.dims[source], inputs[0].type.dims[axis], "update window and axis")
    yield from _batching(op, inputs[0], indices)


def _dot(op: Op) -> Iterator[CheckSizes]:
    a, (left, right) = op.attrs, op.operands
    for kind in ("batch", "contract"):
        for one, two in zip(a[f"lhs_{kind}"], a[f"rhs_{kind}"], strict=True):
            yield _equal(op, left.type.dims[one], right.type.dims[two], f"{kind} axes")


def _convolution(op: Op) -> Iterator[CheckSizes]:
    a, (x, kernel) = op.attrs, op.operands[:2]
    batch, feature, _, kernel_in, kernel_out, *_ = a["numbers"]
    yield _equal(op, x.type.dims[feature], kernel.type.dims[kernel_in] * a["feature_groups"], "features")
    groups = a["feature_groups"] * a["batch_groups"]
    yield _equal(op, kernel.type.dims[kernel_out] % groups, const(0), "output features and groups")
    yield _equal(op, x.type.dims[batch] % a["batch_groups"], const(0), "batch and groups")


def _inputs(op: Op) -> Iterator[CheckSizes]:
    half = op.operands if op.name == "sort" else op.operands[:len(op.operands) // 2]
    for value in half[1:]:
        for one, two in zip(half[0].type.dims, value.type.dims, strict=True):
            yield _equal(op, one, two, "operands")
    for key in ("strides", "base_dilation", "window_dilation") if op.name == "reduce_window" else ():
        for size in op.attrs[key]:
            yield _within(op, const(1), size, key)


def _select_and_scatter(op: Op) -> Iterator[CheckSizes]:
    x, source = op.operands[:2]
    a, ones = op.attrs, (1,) * op.operands[0].type.rank
    counts = windowed_dims(x.type.dims, a["window"], a["strides"], a["padding"], ones, ones)
    for one, two in zip(counts, source.type.dims, strict=True):
        yield _equal(op, one, two, "windows and source")


def _bitcast(op: Op) -> Iterator[CheckSizes]:
    """A wider element is made of as many as the last axis has: the reader takes that many."""
    x = op.operands[0].type
    ratio, rest = divmod(itemsize(op.result.type.dtype), itemsize(x.dtype))
    if ratio > 1 and not rest:
        yield _equal(op, x.dims[-1], const(ratio), "parts of one element")
    yield from _alike(op, op.operands)


def _clamp(op: Op) -> Iterator[CheckSizes]:
    low, x, high = op.operands
    yield from _alike(op, [x, *(each for each in (low, high) if each.type.shape)])


_CONDITIONS = {
    "broadcast_in_dim": _broadcast, "reshape": _reshape, "slice": _slice, "pad": _pad, "concatenate": _concatenate,
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_slice, "gather": _gather, "scatter": _scatter,
    "dot_general": _dot, "convolution": _convolution, "reduce": _inputs, "reduce_window": _inputs, "sort": _inputs,
    "clamp": _clamp, "bitcast_convert": _bitcast, "select_and_scatter": _select_and_scatter,
}
