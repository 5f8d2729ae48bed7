"""Ops that make tensors of attributes and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from egshape.dims import Dim, ceildiv, const, product, relu
from egshape.frontends.onnx.composites import composite
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import compare, convert
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import of_length
from egshape.frontends.onnx.spans import Span
from egshape.frontends.onnx.types import dense, dtype_of
from egshape.ir.builder import fits
from egshape.ir.graph import Value
from egshape.ir.types import is_float, is_integer
from egshape.ops.base import Ratio


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
    rank = s.known_rank(node.outputs[0])
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
    """start, start + delta, ... before limit: a composite, but for 0, 1, ... of a size."""
    dtype = start.type.dtype
    known = [_known(s, each) for each in (start, limit, delta)]
    ends = [each for each in known if each is not None and each.exact]
    if len(ends) < 3 or not ends[2].num.const:
        return composite(s, node, (start, limit, delta), _range_of_data)[0]
    # In floats all that is computed is exact where the ends are, counted in the finest of their fractions.
    den = max(each.den for each in ends)
    first, last, step = (each.num * (den // each.den) for each in ends)
    by = step.const or 1
    sign = 1 if by > 0 else -1
    span = (last - first) * sign
    if is_float(dtype) and not _surely(s, ends, (first, last, span), dtype):
        return composite(s, node, (start, limit, delta), _range_of_data)[0]
    count = ceildiv(span if s.decide("<=", const(0), span) is True else relu(span), const(abs(by)))
    if first.const == 0 and by == den == 1:
        line = s.one("iota", dtype=dtype, dim=0, shape=(count,))
    else:
        found = composite(
            s, node, (start, limit, delta), lambda inner, _, start, limit, delta: _line(inner, start, delta, (count,))
        )[0]
        assert isinstance(found, Value)
        line = found
    if is_integer(dtype):
        outer = (first, first + (count - 1) * step)
        sizes = frozenset((count,) if count.const is None else ())
        s.program.spans[line] = Span(outer[0 if sign > 0 else 1], outer[1 if sign > 0 else 0], sizes)
    return line


def _line(s: Scope, start: Value, delta: Value, shape: Sequence[Dim]) -> Value:
    """start, start + delta, ..."""
    line = s.one("iota", dtype=start.type.dtype, dim=0, shape=tuple(shape))
    line = s.one("multiply", (line, s.spread(reshape(s, delta, ()), shape)))
    return s.one("add", (line, s.spread(reshape(s, start, ()), shape)))


def _surely(s: Scope, ends: Sequence[Ratio], computed: Sequence[Dim], dtype: str) -> bool:
    """Whether floats hold sizes and what is computed of them exactly. It is not worth a check: that takes more nodes
    than a length that is known saves as a rule."""
    needs = dict.fromkeys((*(need for each in ends for need in each.needs), *((size, dtype) for size in computed)))
    return all(
        s.decide(fit.kind, fit.lhs, fit.rhs) is True for size, kind in needs for fit in fits(size, kind, s.label)
    )


def _known(s: Scope, value: Value) -> Ratio | None:
    """What is known of a number: a size, in floats over a power of two."""
    items = s.items(value)
    found = items[0] if items else None
    return Ratio(found) if isinstance(found, Dim) else found if isinstance(found, Ratio) else None


def _range_of_data(s: Scope, node: Node, start: Value, limit: Value, delta: Value) -> Value:
    """max(ceil((limit - start) / delta), 0) elements, counted when the graph runs."""
    start, limit, delta = (reshape(s, each, ()) for each in (start, limit, delta))
    s.add("check", (compare(s, "NE", delta, s.full(0, delta)),), {"message": "Range has a delta of 0"})
    wide = [convert(s, each, "f64") for each in (start, limit, delta)]
    span = s.one("divide", (s.one("subtract", (wide[1], wide[0])), wide[2]))
    count = convert(s, s.one("maximum", (s.one("ceil", (span,)), s.scalar(0, "f64"))), "i64")
    sizes = s.sizes(reshape(s, count, (const(1),)), node.outputs[0])
    return _line(s, start, delta, sizes)


@onnx_op("EyeLike", composite=True)
def eye_like(s: Scope, node: Node, x: Value) -> Value:
    """Ones on a diagonal."""
    dtype = dtype_of(node.int("dtype"), str(node.location)) if node.has("dtype") else x.type.dtype
    rows, columns = (s.one("iota", dtype="i64", dim=axis, shape=x.type.dims) for axis in (0, 1))
    moved = s.one("add", (rows, s.full(node.int("k", 0), rows)))
    return convert(s, s.one("compare", (moved, columns), direction="EQ", kind="SIGNED"), dtype)
