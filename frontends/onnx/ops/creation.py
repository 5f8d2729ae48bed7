"""Ops that make tensors of attributes and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from egshape.dims import ceildiv, const, product, relu
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import compare, convert
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Operand, Scope
from egshape.frontends.onnx.sizes import of_length
from egshape.frontends.onnx.spans import Span
from egshape.frontends.onnx.types import dense, dtype_of
from egshape.ir.graph import Value
from egshape.ir.types import is_integer


@onnx_op("Constant")
def constant(s: Scope, node: Node) -> Value:
    """A tensor, or a number or a list of them."""
    where = str(node.location)
    held = node.tensor("value")
    if held is not None and held.data_type != TensorProto.STRING:
        return s.constant(s.program.model.array(held, where))
    for key, read, dtype in (
        ("value_float", node.float, np.float32),
        ("value_int", node.int, np.int64),
        ("value_floats", node.floats, np.float32),
        ("value_ints", node.ints, np.int64),
    ):
        found: Any = read(key, None)
        if found is not None:
            return s.constant(np.array(found, dtype))
    if node.has("sparse_value"):
        return s.constant(dense(node.attributes["sparse_value"].sparse_tensor, where))
    raise NoLowering("text")


@onnx_op("ConstantOfShape")
def constant_of_shape(s: Scope, node: Node, shape: Value) -> Value:
    """One number, repeated to a shape."""
    held = node.tensor("value")
    number = np.zeros(1, np.float32) if held is None else s.program.model.array(held, str(node.location))
    if number.size != 1:
        raise node.error(f"repeats {number.size} numbers")
    rank = s.program.ranks.get(node.outputs[0])
    sizes = s.sizes(shape if rank is None else of_length(s, shape, rank), node.outputs[0])
    return s.spread(s.constant(number.reshape(())), sizes)


@onnx_op("Shape")
def shape(s: Scope, node: Node, x: Value) -> Value:
    """The sizes of the axes ``start`` to ``end``, which count from either side and are clamped."""
    rank = x.type.rank
    bounds = [min(max(at + rank if at < 0 else at, 0), rank) for at in (node.int("start", 0), node.int("end", rank))]
    return s.vector(x.type.dims[bounds[0] : bounds[1]])


@onnx_op("Size")
def size(s: Scope, node: Node, x: Value) -> Value:
    """How many elements a tensor has."""
    return s.vector([product(x.type.dims)], "i64", ())


@onnx_op("Range")
def range_of(s: Scope, node: Node, start: Value, limit: Value, delta: Value) -> Operand:
    """start, start + delta, ... before limit; a composite where only running tells how many."""
    dtype = start.type.dtype
    first, last, step = (_known(s, each) for each in (start, limit, delta))
    if first is None or last is None or step is None or step.const in (None, 0) or not is_integer(dtype):
        return s.composite(node, (start, limit, delta), _range_of_data)[0]
    start = reshape(s, start, ())
    sign = 1 if step.const > 0 else -1
    span = (last - first) * sign
    known = s.decide("<=", const(0), span)
    count = ceildiv(span if known is True else relu(span), const(abs(step.const)))
    line = s.one("iota", dtype=dtype, dim=0, shape=(count,))
    if step.const != 1:
        line = s.one("multiply", (line, s.full(step.const, line)))
    if first.const != 0:
        line = s.one("add", (line, s.spread(start, line.type.dims)))
    ends = (first, first + (count - 1) * step)
    sizes = frozenset((count,) if count.const is None else ())
    s.program.spans[line] = Span(ends[0 if sign > 0 else 1], ends[1 if sign > 0 else 0], sizes)
    return line


def _known(s: Scope, value: Value) -> Any:
    found = s.dims(value)
    return found[0] if found else None


def _range_of_data(s: Scope, node: Node, start: Value, limit: Value, delta: Value) -> Value:
    """max(ceil((limit - start) / delta), 0) elements, counted when the graph runs."""
    dtype = start.type.dtype
    start, limit, delta = (reshape(s, each, ()) for each in (start, limit, delta))
    s.add("check", (compare(s, "NE", delta, s.full(0, delta)),), {"message": "Range has a delta of 0"})
    wide = [convert(s, each, "f64") for each in (start, limit, delta)]
    span = s.one("divide", (s.one("subtract", (wide[1], wide[0])), wide[2]))
    count = convert(s, s.one("maximum", (s.one("ceil", (span,)), s.scalar(0, "f64"))), "i64")
    sizes = s.sizes(reshape(s, count, (const(1),)), node.outputs[0])
    line = s.one("iota", dtype=dtype, dim=0, shape=sizes)
    line = s.one("multiply", (line, s.spread(delta, sizes)))
    return s.one("add", (line, s.spread(start, sizes)))


@onnx_op("EyeLike", composite=True)
def eye_like(s: Scope, node: Node, x: Value) -> Value:
    """Ones on a diagonal."""
    dtype = dtype_of(node.int("dtype"), str(node.location)) if node.has("dtype") else x.type.dtype
    rows, columns = (s.one("iota", dtype="i64", dim=axis, shape=x.type.dims) for axis in (0, 1))
    moved = s.one("add", (rows, s.full(node.int("k", 0), rows)))
    return convert(s, s.one("compare", (moved, columns), direction="EQ", kind="SIGNED"), dtype)
