"""Folds, windows and sorting as calls of ATen."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from egshape.dims import const, product
from egshape.frontends.shaping import start_of
from egshape.frontends.torch.emit import ONE, Emitter, aten, dtype_of
from egshape.frontends.torch.emit_elementwise import converted
from egshape.frontends.torch.emit_moves import padded, permuted
from egshape.frontends.torch.emitting import emits, narrows
from egshape.frontends.torch.moves import before
from egshape.frontends.torch.scope import Program, Scope
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Op, Value
from egshape.ir.keys import region_key
from egshape.ir.types import is_complex
from egshape.ops.kinds import region_kind

ZERO = const(0)

_JOINS = {
    "add": "add.Tensor",
    "multiply": "mul.Tensor",
    "maximum": "maximum.default",
    "minimum": "minimum.default",
    "or": "bitwise_or.Tensor",
    "and": "bitwise_and.Tensor",
}
_RUNNING = {
    "add": "cumsum.default",
    "multiply": "cumprod.default",
    "maximum": "cummax.default",
    "minimum": "cummin.default",
}


@emits("reduce")
def reduce(e: Emitter, op: Op) -> Any:
    """The folds that ATen has; another one place after the other."""
    kind = region_kind(op.regions[0])
    if len(op.operands) != 2 or kind not in _JOINS:
        return _in_steps(e, op)
    x, init = op.operands
    dtype = op.result.type.dtype
    node = e.node(x)
    if x.type.dtype != dtype:
        node = converted(e, node, dtype)
    axes = list(op.attrs["dims"])
    empty = [axis for axis in axes if not e.nonempty(x.type.dims[axis])]
    return _joined(e, op, kind, _folded(e, op, kind, node, axes, empty), init)


@narrows("reduce")
def narrow_sum(e: Emitter, op: Op, dtype: str) -> Any:
    """A sum of what was widened."""
    if len(op.operands) != 2 or region_kind(op.regions[0]) != "add" or e.number(op.operands[1]) != 0:
        return None
    node = e.narrow(op.operands[0], dtype)
    return node if node is None else e.call("sum.dim_IntList", node, list(op.attrs["dims"]))


def _in_steps(e: Emitter, op: Op) -> list[Any]:
    """A loop over the places of the folded axes, in their order; what the body computes of scalars it computes of all
    results at once."""
    half = len(op.operands) // 2
    (region,) = op.regions
    if region.captures() or any(arg.type != each.type for arg, each in zip(region.args, region.results, strict=False)):
        raise e.unsupported(op, "a reduction by a function of its own that reads other values")
    dims, axes = op.operands[0].type.dims, sorted(op.attrs["dims"])
    order = [*axes, *(axis for axis in range(len(dims)) if axis not in axes)]
    rows = [_rows(e, permuted(e, e.node(value), order), len(axes)) for value in op.operands[:half]]
    kept = e.sizes([dims[axis] for axis in order[len(axes) :]])
    starts = [e.call("expand.default", e.node(value), kept) for value in op.operands[half:]]
    count = e.call("scalar_tensor.default", e.size(product([dims[axis] for axis in axes])), dtype=dtype_of("i64"))
    first = e.call("scalar_tensor.default", 0, dtype=dtype_of("i64"))
    carried = tuple(e.graph.call_function(aten("clone.default"), (each,)) for each in (first, *starts))

    def below(child: Emitter, at: Any, given: Sequence[Any]) -> Any:
        return child.call("lt.Tensor", at, given[-1])

    def step(child: Emitter, at: Any, given: Sequence[Any]) -> Any:
        place = child.call("reshape.default", at, [1])
        taken = [child.call("squeeze.dim", child.call("index_select.default", x, 0, place), 0) for x in given[half:-1]]
        found = child.block(region, [*given[:half], *taken])
        spread = [child.call("expand_as.default", new, old) for new, old in zip(found, given[:half], strict=True)]
        copies = [child.graph.call_function(aten("clone.default"), (each,)) for each in spread]
        return child.call("add.Tensor", at, 1), *copies

    return looped(e, below, step, carried, (*rows, count))[1:]


def _rows(e: Emitter, node: Any, folded: int) -> Any:
    """A tensor with its first axes, which are folded, as one."""
    if folded == 1:
        return node
    return e.call("flatten.using_ints", node, 0, folded - 1) if folded else e.call("unsqueeze.default", node, 0)


def looped(
    e: Emitter,
    condition: Callable[[Emitter, Any, Sequence[Any]], Any],
    step: Callable[[Emitter, Any, Sequence[Any]], Any],
    carried: Sequence[Any],
    others: Sequence[Any],
) -> list[Any]:
    """torch's while_loop over nodes: both functions get an emitter of their own, the first carried node, and the
    rest."""
    import torch

    parts = []
    for write in (condition, step):
        child = e.child(torch.fx.Graph())
        first, *rest = (child.graph.placeholder(f"arg{number}") for number in range(len(carried) + len(others)))
        child.graph.output(write(child, first, rest))
        parts.append(e.held(child))
    node = e.graph.call_function(torch.ops.higher_order.while_loop, (*parts, tuple(carried), tuple(others)))
    return [item(e, node, number) for number in range(len(carried))]


def _joined(e: Emitter, op: Op, kind: str, node: Any, init: Value) -> Any:
    """What was folded, together with the number from which it starts, unless that changes nothing."""
    number = e.number(init)
    if isinstance(number, bool | int | float) and number == start_of(kind, op.result.type.dtype):
        return node
    return e.call(_JOINS[kind], node, e.node(init))


def _folded(e: Emitter, op: Op, kind: str, node: Any, axes: Sequence[int], empty: Sequence[int]) -> Any:
    """A tensor folded over axes, of which torch refuses those without elements for some folds (``empty``): they get
    one that changes nothing."""
    dtype = op.result.type.dtype
    if not axes:
        return node
    if kind in ("or", "and"):
        if dtype != "i1":
            raise e.unsupported(op, "a reduction of bits")
        return e.call("any.dims" if kind == "or" else "all.dims", node, list(axes))
    if dtype == "i1":
        return e.call("any.dims" if kind in ("add", "maximum") else "all.dims", node, list(axes))
    if kind == "add":
        return e.call("sum.dim_IntList", node, list(axes), dtype=dtype_of(dtype))
    if kind == "multiply":
        for axis in sorted(axes, reverse=True):
            node = e.call("prod.dim_int", node, axis, dtype=dtype_of(dtype))
        return node
    if is_complex(dtype):
        raise e.unsupported(op, "an order of complex numbers")
    if empty:
        last = op.operands[0].type.rank - 1
        flat = [each for axis in range(last, min(empty) - 1, -1) for each in (0, int(axis in empty))]
        node = e.call("constant_pad_nd.default", node, flat, start_of(kind, dtype).item())
    return e.call("amax.default" if kind == "maximum" else "amin.default", node, list(axes))


# -- windows ---------------------------------------------------------------------------------------------------------


@emits("reduce_window")
def reduce_window(e: Emitter, op: Op) -> Any:
    """A running fold, or windows as further axes that are folded."""
    kind = region_kind(op.regions[0])
    if len(op.operands) != 2 or kind not in _JOINS:
        raise e.unsupported(op, "windows that are folded by a function of their own")
    x, init = op.operands
    dtype = op.result.type.dtype
    node = e.node(x)
    if x.type.dtype != dtype:
        node = converted(e, node, dtype)
    a = op.attrs
    number = e.number(init)
    if not isinstance(number, bool | int | float) or number != start_of(kind, dtype):
        raise e.unsupported(op, "windows that are folded from another number")
    along = _running(op)
    if along is not None and kind in _RUNNING:
        return _run(e, kind, node, *along, dtype)
    if any(size.const is None for size in (*a["window"], *a["strides"], *a["window_dilation"])):
        raise e.unsupported(op, "windows of a size that is not known")
    low, high = a["padding"][::2], a["padding"][1::2]
    node = padded(e, node, x.type.dims, low, high, [size - 1 for size in a["base_dilation"]], number)
    axes: list[int] = []
    for axis in range(x.type.rank):
        size, stride, dilation = ((a[key][axis].const or 0) for key in ("window", "strides", "window_dilation"))
        if (size, stride) == (1, 1):
            continue
        node = e.call("unfold.default", node, axis, (size - 1) * dilation + 1, stride)
        axes.append(x.type.rank + len(axes))
        if dilation != 1:
            node = e.call("slice.Tensor", node, axes[-1], 0, (size - 1) * dilation + 1, dilation)
    return _folded(e, op, kind, node, axes, ())


def _running(op: Op) -> tuple[int, bool] | None:
    """The axis of which each place folds the elements up to it, or from it on if backwards; None for other windows."""
    a, dims = op.attrs, op.operands[0].type.dims
    moved = [axis for axis in range(len(dims)) if a["window"][axis] is not ONE]
    plain = all(size is ONE for key in ("strides", "base_dilation", "window_dilation") for size in a[key])
    if len(moved) != 1 or not plain:
        return None
    (axis,) = moved
    wanted = [ZERO] * (2 * len(dims))
    for backwards in (False, True):
        reach = list(wanted)
        reach[2 * axis + backwards] = dims[axis] - 1
        if a["window"][axis] is dims[axis] and tuple(reach) == tuple(a["padding"]):
            return axis, backwards
    return None


def _run(e: Emitter, kind: str, node: Any, axis: int, backwards: bool, dtype: str) -> Any:
    if backwards:
        node = e.call("flip.default", node, [axis])
    if kind in ("maximum", "minimum"):
        node = item(e, e.call(_RUNNING[kind], node, axis), 0)
    else:
        node = e.call(_RUNNING[kind], node, axis, dtype=dtype_of(dtype))
    return e.call("flip.default", node, [axis]) if backwards else node


# -- order -----------------------------------------------------------------------------------------------------------


@emits("sort")
def sort(e: Emitter, op: Op) -> Any:
    """Sorted by one of the tensors; the others are taken at the places."""
    found = _key(op)
    if found is None:
        raise e.unsupported(op, "an order by a function of its own")
    key, descending = found
    axis = op.attrs["dim"]
    pair = e.call("sort.stable", e.node(op.operands[key]), stable=True, dim=axis, descending=descending)
    places = item(e, pair, 1)
    return [
        item(e, pair, 0) if number == key else _taken(e, value, axis, places)
        for number, value in enumerate(op.operands)
    ]


def _taken(e: Emitter, value: Value, axis: int, places: Any) -> Any:
    """The elements of a tensor in an order; of 0, 1, ... along the axis these are the places."""
    iota = e.producer(value, "iota")
    if iota is not None and iota.attrs["dim"] == axis and iota.attrs["dtype"] == "i64":
        return places
    return e.call("gather.default", e.node(value), axis, places)


def _key(op: Op) -> tuple[int, bool] | None:
    """Which operand orders the others, and whether from the largest on; NaN is the largest for torch."""
    (region,) = op.regions
    dtypes = [value.type.dtype for value in op.operands]
    kind = region_kind(region)
    if kind is not None and kind.startswith("compare:"):
        _, operand, direction, meaning = kind.split(":")
        return None if meaning in ("TOTALORDER", "FLOAT") else (int(operand), direction == "GT")
    if region.captures():
        return None
    for direction in ("LT", "GT"):
        if region_key(region, ()) == region_key(_comparator(dtypes, direction), ()):
            return 0, direction == "GT"
    return None


def _comparator(dtypes: Sequence[str], direction: str) -> Block:
    """The comparator that the frontend makes."""
    return before(Scope(Program(), BlockBuilder()), dtypes, direction)


def item(e: Emitter, node: Any, number: int) -> Any:
    """One of the results of a call."""
    return e.compute(operator.getitem, node, number)
