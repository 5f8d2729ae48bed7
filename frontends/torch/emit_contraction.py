"""Products and convolutions as calls of ATen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egshape.dims import Dim, const
from egshape.frontends.torch.emit import Emitter, aten, broadcast
from egshape.frontends.torch.emit_elementwise import binary, converted
from egshape.frontends.torch.emit_moves import padded, permuted, placed
from egshape.frontends.torch.emitting import emits, narrows
from egshape.ir.graph import Op, Value
from egshape.ir.types import is_float

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@emits("dot_general")
def dot_general(e: Emitter, op: Op) -> Any:
    """linear, matmul or tensordot where axes stand as these want them, else einsum. Products of i1 torch does not
    have: they are counted."""
    dtype = op.result.type.dtype
    if dtype != "i1":
        return _product(e, op, [_as(e, value, dtype) for value in op.operands])
    counted = _product(e, op, [converted(e, e.node(value), "f32") for value in op.operands])
    return e.call("gt.Scalar", counted, 0)


@narrows("dot_general")
def narrow_product(e: Emitter, op: Op, dtype: str) -> Any:
    """The product of what was widened."""
    found = [e.narrow(value, dtype) for value in op.operands]
    return None if None in found else _product(e, op, found)


@narrows("add")
def narrow_linear(e: Emitter, op: Op, dtype: str) -> Any:
    """linear with a bias, of what was widened."""
    for x, y in (op.operands, op.operands[::-1]):
        product, bias, last = e.waiting(x, "dot_general"), e.source(y), x.type.rank - 1
        if product is None or bias.axes != (last,) or bias.dims[0] is not x.type.dims[last]:
            continue
        held = e.narrow(bias.value, dtype)
        node = None if held is None else narrow_product(e, product, dtype)
        if node is not None and node.target is aten("linear.default"):
            found = e.call("linear.default", *node.args, held)
            e.instead(node, found)
            return found
    return None


@emits("add")
def add(e: Emitter, op: Op) -> Any:
    """A sum; of a product that nothing else reads and a bias it is one call with that."""
    for x, y in (op.operands, op.operands[::-1]):
        bias, node = e.source(y), e.nodes.get(x)
        alone = e.producer(x, "dot_general") is not None and e.readers[x] == 1
        if alone and node is not None and node.target is aten("linear.default") and len(node.args) == 2:
            last = x.type.rank - 1
            if bias.axes == (last,) and bias.dims[0] is x.type.dims[last]:
                found = e.call("linear.default", *node.args, bias.write())
                e.instead(node, found)
                return found
    return binary(e, op)


def _as(e: Emitter, value: Value, dtype: str) -> Any:
    return e.node(value) if value.type.dtype == dtype else converted(e, e.node(value), dtype)


def _product(e: Emitter, op: Op, nodes: Sequence[Any]) -> Any:
    a = op.attrs
    x, y = op.operands
    left = _free(x.type.rank, a["lhs_batch"], a["lhs_contract"])
    right = _free(y.type.rank, a["rhs_batch"], a["rhs_contract"])
    batch, deep = len(a["lhs_batch"]), len(a["lhs_contract"])
    if not batch:
        last = tuple(a["lhs_contract"]) == (x.type.rank - 1,)
        if last and y.type.rank == 2 and is_float(op.result.type.dtype) and a["rhs_contract"] == (1,):
            return e.call("linear.default", *nodes)
        if last and y.type.rank == 2 and a["rhs_contract"] == (0,):
            return e.call("matmul.default", *nodes)
        if deep and left and right:
            return e.call("tensordot.default", *nodes, list(a["lhs_contract"]), list(a["rhs_contract"]))
    if (deep, len(left), len(right)) != (1, 1, 1):
        return e.call("einsum.default", _equation(op), list(nodes))
    orders = (*a["lhs_batch"], *left, *a["lhs_contract"]), (*a["rhs_batch"], *a["rhs_contract"], *right)
    plain = _under_batch(e, op, orders)
    found = plain or [permuted(e, node, order) for node, order in zip(nodes, orders, strict=True)]
    return e.call("matmul.default", *found)


def _under_batch(e: Emitter, op: Op, orders: Sequence[Sequence[int]]) -> list[Any] | None:
    """The operands of a product of matrices without broadcasts over batch axes, which torch makes by itself."""
    dims = op.result.type.dims
    batch = len(dims) - 2
    if any(value.type.dtype != op.result.type.dtype for value in op.operands):
        return None
    sources = [e.source(value) for value in op.operands]
    turned = [
        [order.index(axis) for axis in source.axes] for source, order in zip(sources, map(list, orders), strict=True)
    ]
    for axis in range(batch):
        held = [s.dims[at.index(axis)] for s, at in zip(sources, turned, strict=True) if axis in at]
        if not any(size is dims[axis] for size in held) and broadcast(held) is not dims[axis]:
            return None
    for value, order, source, axes in zip(op.operands, orders, sources, turned, strict=True):
        for axis in (batch, batch + 1):
            if axis not in axes or source.dims[axes.index(axis)] is not value.type.dims[order[axis]]:
                return None
    return [placed(e, s.write(), at, s.dims, batch + 2) for s, at in zip(sources, turned, strict=True)]


def _free(rank: int, batch: Sequence[int], contract: Sequence[int]) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if axis not in batch and axis not in contract)


def _equation(op: Op) -> str:
    """A product in the notation of einsum."""
    letters = iter(_LETTERS)
    x, y = op.operands
    left = [next(letters) for _ in range(x.type.rank)]
    right = [""] * y.type.rank
    for key in ("batch", "contract"):
        for one, two in zip(op.attrs[f"lhs_{key}"], op.attrs[f"rhs_{key}"], strict=True):
            right[two] = left[one]
    right = [letter or next(letters) for letter in right]
    used = {left[axis] for axis in (*op.attrs["lhs_batch"], *op.attrs["lhs_contract"])}
    out = [left[axis] for axis in op.attrs["lhs_batch"]] + [each for each in (*left, *right) if each not in used]
    return f"{''.join(left)},{''.join(right)}->{''.join(out)}"


@emits("convolution")
def convolution(e: Emitter, op: Op) -> Any:
    """A convolution, the axes turned to torch's order and back; what it cannot pad is padded before."""
    a = op.attrs
    batch, feature, spatial, kernel_in, kernel_out, kernel_spatial, *out = a["numbers"]
    x, kernel = op.operands[:2]
    count = len(spatial)
    dtype = op.result.type.dtype
    if not 1 <= count <= 3 or a["batch_groups"] != 1 or not is_float(dtype):
        raise e.unsupported(
            op, f"a convolution of {dtype} over {count} axes with {a['batch_groups']} groups of batches"
        )
    order = (batch, feature, *spatial)
    node = permuted(e, _as(e, x, dtype), order)
    taps = permuted(e, _as(e, kernel, dtype), (kernel_out, kernel_in, *kernel_spatial))
    flipped = [place + 2 for place, flip in enumerate(a["reversal"]) if flip]
    if flipped:
        taps = e.call("flip.default", taps, flipped)
    low, high = a["padding"][::2], a["padding"][1::2]
    inside = [size.const for size in low]
    even = all(
        one is two and (one.const or 0) >= 0 and one.const is not None for one, two in zip(low, high, strict=True)
    )
    if not even or any(size != 1 for size in a["lhs_dilation"]):
        none = [const(0)] * 2
        holes: list[Dim] = [*none, *(const(size - 1) for size in a["lhs_dilation"])]
        dims = [x.type.dims[axis] for axis in order]
        node = padded(e, node, dims, [*none, *low], [*none, *high], holes, 0)
        inside = [0] * count
    found = e.call(
        "convolution.default",
        node,
        taps,
        None,
        list(a["strides"]),
        inside,
        list(a["rhs_dilation"]),
        False,
        [0] * count,
        a["feature_groups"],
    )
    places = (out[0], out[1], *out[2])
    return permuted(e, found, [places.index(axis) for axis in range(count + 2)])
