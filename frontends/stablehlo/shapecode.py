"""The ops of the shape, tensor and arith dialects that shape code uses. An ``index`` is an i64."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from egshape.dims import Dim, bcast, const
from egshape.errors import EgshapeError, Unsupported
from egshape.facts import Relation
from egshape.frontends.stablehlo.attributes import TensorInfo
from egshape.frontends.stablehlo.control import check, check_relation, note_proved
from egshape.frontends.stablehlo.scope import Handler, Scope, checked, dims
from egshape.frontends.stablehlo.tree import Node
from egshape.ir.graph import Value
from egshape.ir.types import numpy_dtype

Results = Sequence[Value | None]

INDEX = "i64"


# -- shape -----------------------------------------------------------------------------------------------


def _vector(scope: Scope, node: Node, sizes: Sequence[Dim]) -> Results:
    return (scope.one(node, "dims", elements=tuple(sizes), shape=(len(sizes),), dtype=INDEX),)


def _scalar(scope: Scope, node: Node, size: Dim) -> Results:
    return (scope.one(node, "dims", elements=(size,), shape=(), dtype=INDEX),)


def _shape_of(scope: Scope, node: Node) -> Results:
    x = scope.operand(node, 0)
    if x.type.shape is None:
        raise Unsupported(
            "shape.shape_of of a value of unknown rank",
            where=str(node.location),
            hint="give the value a ranked type",
        )
    return _vector(scope, node, x.type.shape)


def _sizes(scope: Scope, node: Node, value: Value) -> list[Dim]:
    """The elements of an extent vector. Raises Unsupported if they are data."""
    known = scope.builder.elements(value)
    items = [] if known is None else list(known.reshape(-1))
    if value.type.shape == (const(0),):
        return []
    if not items or not all(isinstance(item, Dim) for item in items):
        raise Unsupported(f"{node.name} of extents that are data", where=str(node.location))
    return items


def _shapes(scope: Scope, node: Node) -> list[list[Dim]]:
    return [_sizes(scope, node, value) for value in scope.operands(node)]


def aligned(shapes: Sequence[Sequence[Dim]]) -> list[tuple[Dim, ...]]:
    """The sizes of each axis of a broadcast, shapes aligned at the last axis and filled with 1."""
    columns = list(zip_longest(*(reversed(shape) for shape in shapes), fillvalue=const(1)))
    return [tuple(column) for column in reversed(columns)]


def _broadcast(scope: Scope, node: Node) -> Results:
    out = []
    for column in aligned(_shapes(scope, node)):
        size = column[0]
        for other in column[1:]:
            size = bcast(size, other)
        out.append(size)
    return _vector(scope, node, out)


def _broadcastable(scope: Scope, node: Node) -> Results:
    """Sizes a and b broadcast if (a - b)(a - 1)(b - 1) = 0."""
    for column in aligned(_shapes(scope, node)):
        reached = column[0]
        for other in column[1:]:
            product = (reached - other) * (reached - 1) * (other - 1)
            message = f"{reached} and {other} do not broadcast"
            _relation(scope, node, Relation("==", product, const(0)), message)
            reached = bcast(reached, other)
    return (None,)


def _relation(scope: Scope, node: Node, relation: Relation, message: str) -> None:
    difference = (relation.lhs - relation.rhs).const
    if relation.kind == "==" and difference == 0:
        note_proved(scope, node, message)
    else:
        check_relation(scope, node, relation, message)


def _cstr_eq(scope: Scope, node: Node) -> Results:
    first, *others = _shapes(scope, node)
    for other in others:
        if len(first) != len(other):
            raise EgshapeError(
                f"shape.cstr_eq of ranks {len(first)} and {len(other)}", where=str(node.location)
            )
        for one, two in zip(first, other, strict=True):
            _relation(scope, node, Relation("==", one, two), f"{one} and {two} are not equal")
    return (None,)


def _cstr_require(scope: Scope, node: Node) -> Results:
    check(scope, node, scope.operand(node, 0), (), node.attributes.get("msg", "shape requirement"))
    return (None,)


def _const_witness(scope: Scope, node: Node) -> Results:
    if not node.attributes["passing"]:
        check_relation(scope, node, Relation("==", const(1), const(0)), "a requirement that cannot hold")
    return (None,)


def _assuming(scope: Scope, node: Node) -> Results:
    """The checks stand before: the region holds in line."""
    return scope.run(node.regions[0])


def _no_tensor(scope: Scope, node: Node) -> Results:
    return (None,) * len(node.types)


def _const_shape(scope: Scope, node: Node) -> Results:
    numbers = np.array(node.attributes["shape"], np.int64).reshape(-1)
    return (scope.constant(node, numbers),)


def _const_size(scope: Scope, node: Node) -> Results:
    return (scope.constant(node, np.array(node.attributes["value"], np.int64)),)


def _item(scope: Scope, node: Node, vector: Value, index: Sequence[int]) -> Value:
    """One element of a tensor as a scalar."""
    rank = len(index)
    if rank == 0:
        return vector
    cut = scope.one(
        node,
        "slice",
        (vector,),
        starts=dims(index),
        limits=dims(i + 1 for i in index),
        strides=dims([1] * rank),
    )
    return scope.one(node, "reshape", (cut,), shape=())


def _number(scope: Scope, node: Node, position: int) -> int | None:
    """An operand that is a constant integer."""
    known = scope.builder.elements(scope.operand(node, position))
    item = None if known is None else known.reshape(-1)[0]
    return item.const if isinstance(item, Dim) else None


def _get_extent(scope: Scope, node: Node) -> Results:
    index = _number(scope, node, 1)
    if index is None:
        raise Unsupported("shape.get_extent of an axis that is data", where=str(node.location))
    return (_item(scope, node, scope.operand(node, 0), (index,)),)


def _num_elements(scope: Scope, node: Node) -> Results:
    total = const(1)
    for size in _sizes(scope, node, scope.operand(node, 0)):
        total = total * size
    return _scalar(scope, node, total)


def _rank(scope: Scope, node: Node) -> Results:
    return _scalar(scope, node, const(len(_sizes(scope, node, scope.operand(node, 0)))))


# -- tensor ----------------------------------------------------------------------------------------------


def _dim(scope: Scope, node: Node) -> Results:
    x, index = scope.operand(node, 0), _number(scope, node, 1)
    if x.type.shape is None or index is None:
        raise Unsupported("tensor.dim of unknown rank, or of an axis that is data", where=str(node.location))
    if not 0 <= index < x.type.rank:
        raise EgshapeError(f"tensor.dim: {x.type} has no axis {index}", where=str(node.location))
    return _scalar(scope, node, x.type.shape[index])


def _from_elements(scope: Scope, node: Node) -> Results:
    shape = scope.static(node)
    parts = [scope.one(node, "reshape", (value,), shape=dims([1])) for value in scope.operands(node)]
    if not parts:
        return (
            scope.constant(
                node,
                np.zeros(
                    [0 if d.const is None else d.const for d in shape], numpy_dtype(node.types[0].dtype)
                ),
            ),
        )
    flat = parts[0] if len(parts) == 1 else scope.one(node, "concatenate", parts, dim=0)
    return (flat if len(shape) == 1 else scope.one(node, "reshape", (flat,), shape=shape),)


def _extract(scope: Scope, node: Node) -> Results:
    x, *indices = scope.operands(node)
    numbers = [_number(scope, node, 1 + position) for position in range(len(indices))]
    if all(number is not None for number in numbers):
        return (_item(scope, node, x, [number for number in numbers if number is not None]),)
    cut = scope.one(node, "dynamic_slice", (x, *indices), sizes=(1,) * len(indices))
    return (scope.one(node, "reshape", (cut,), shape=()),)


def _cast(scope: Scope, node: Node) -> Results:
    """A cast to sizes that are numbers is a check of these sizes; any other cast changes nothing."""
    x, info = scope.operand(node, 0), checked(node.types[0], node.location, node.name)
    if x.type.shape is None:
        if info.shape is not None:
            raise Unsupported("tensor.cast gives a rank to a value of unknown rank", where=str(node.location))
        return (x,)
    stated = info.shape or (None,) * x.type.rank
    sizes = [size if said is None else const(said) for size, said in zip(x.type.shape, stated, strict=True)]
    changed = [(size, said) for size, said in zip(x.type.shape, sizes, strict=True) if size is not said]
    for size, said in changed:
        check_relation(scope, node, Relation("==", size, said), f"a size is {{0}}, not {said}", (size,))
    return (scope.one(node, "reshape", (x,), shape=tuple(sizes)) if changed else x,)


# -- arith -----------------------------------------------------------------------------------------------


def _elementwise(name: str) -> Handler:
    return lambda scope, node: (scope.one(node, name, scope.operands(node)),)


def _convert(scope: Scope, node: Node) -> Results:
    """index_cast, extsi, trunci: the same integer in another dtype; of i1 sign-extended."""
    x, info = scope.operand(node, 0), checked(node.types[0], node.location, node.name)
    if x.type.dtype == info.dtype:
        return (x,)
    out = scope.one(node, "convert", (x,), dtype=info.dtype)
    signed = x.type.dtype == "i1" and node.name in ("arith.extsi", "arith.index_cast")
    return (scope.one(node, "negate", (out,)) if signed else out,)


def _truncate(scope: Scope, node: Node) -> Results:
    """To i1: the lowest bit."""
    if node.types[0].dtype != "i1":
        return _convert(scope, node)
    x = scope.operand(node, 0)
    low = scope.one(node, "and", (x, _like(scope, node, x, 1)))
    return (scope.one(node, "convert", (low,), dtype="i1"),)


def _like(scope: Scope, node: Node, value: Value, number: int) -> Value:
    """A number in the dtype and shape of a value."""
    scalar = scope.constant(node, np.array(number, numpy_dtype(value.type.dtype)))
    if value.type.shape == ():
        return scalar
    return scope.one(node, "broadcast_in_dim", (scalar,), dims=(), shape=value.type.dims)


def _constant(scope: Scope, node: Node) -> Results:
    info: TensorInfo = checked(node.types[0], node.location, node.name)
    value = node.attributes["value"]
    shape = () if info.shape is None else tuple(0 if size is None else size for size in info.shape)
    dtype = numpy_dtype(info.dtype)
    if isinstance(value, np.ndarray):
        return (scope.constant(node, value.astype(dtype, copy=False)),)
    if isinstance(value, int | float):
        return (scope.constant(node, np.full(shape, value).astype(dtype)),)
    raise Unsupported(f"arith.constant of type {info.text}", where=str(node.location))


def _compare(scope: Scope, node: Node, direction: str, one: Value, two: Value, kind: str = "SIGNED") -> Value:
    return scope.one(node, "compare", (one, two), direction=direction, kind=kind)


def _floor_division(scope: Scope, node: Node, x: Value, d: Value) -> Value:
    """Truncate, then step down where the signs differ and the rest is not 0."""
    quotient, rest = scope.one(node, "divide", (x, d)), scope.one(node, "remainder", (x, d))
    zero, one = _like(scope, node, x, 0), _like(scope, node, x, 1)
    left, right = (scope.one(node, "sign", (value,)) for value in (x, d))
    signs = _compare(scope, node, "NE", left, right)
    wrong = scope.one(node, "and", (signs, _compare(scope, node, "NE", rest, zero)))
    return scope.one(node, "select", (wrong, scope.one(node, "subtract", (quotient, one)), quotient))


def _floordivsi(scope: Scope, node: Node) -> Results:
    x, d = scope.operands(node)
    return (_floor_division(scope, node, x, d),)


def _ceildivsi(scope: Scope, node: Node) -> Results:
    """ceil(x / d) = -floor(-x / d)."""
    x, d = scope.operands(node)
    return (scope.one(node, "negate", (_floor_division(scope, node, scope.one(node, "negate", (x,)), d),)),)


_PREDICATES = ("EQ", "NE", "LT", "LE", "GT", "GE", "LT", "LE", "GT", "GE")
"""arith.cmpi by number: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge."""


def _cmpi(scope: Scope, node: Node) -> Results:
    number = node.attributes["predicate"]
    x, y = scope.operands(node)
    if number >= 6 and x.type.dtype != "i1":
        unsigned = f"u{x.type.dtype}"
        x, y = (scope.one(node, "bitcast_convert", (value,), dtype=unsigned) for value in (x, y))
    kind = "UNSIGNED" if x.type.dtype == "i1" or number >= 6 else "SIGNED"
    return (_compare(scope, node, _PREDICATES[number], x, y, kind),)


HANDLERS: dict[str, Handler] = {
    "shape.shape_of": _shape_of,
    "shape.broadcast": _broadcast,
    "shape.cstr_broadcastable": _broadcastable,
    "shape.cstr_eq": _cstr_eq,
    "shape.cstr_require": _cstr_require,
    "shape.const_witness": _const_witness,
    "shape.assuming_all": _no_tensor,
    "shape.assuming": _assuming,
    "shape.const_shape": _const_shape,
    "shape.const_size": _const_size,
    "shape.get_extent": _get_extent,
    "shape.dim": _dim,
    "shape.num_elements": _num_elements,
    "shape.rank": _rank,
    "shape.to_extent_tensor": lambda scope, node: scope.operands(node),
    "shape.from_extent_tensor": lambda scope, node: scope.operands(node),
    "shape.size_to_index": lambda scope, node: scope.operands(node),
    "shape.index_to_size": lambda scope, node: scope.operands(node),
    "shape.from_extents": _from_elements,
    "tensor.dim": _dim,
    "tensor.from_elements": _from_elements,
    "tensor.extract": _extract,
    "tensor.cast": _cast,
    "arith.constant": _constant,
    "arith.index_cast": _convert,
    "arith.extsi": _convert,
    "arith.extui": _convert,
    "arith.trunci": _truncate,
    "arith.addi": _elementwise("add"),
    "arith.subi": _elementwise("subtract"),
    "arith.muli": _elementwise("multiply"),
    "arith.divsi": _elementwise("divide"),
    "arith.remsi": _elementwise("remainder"),
    "arith.maxsi": _elementwise("maximum"),
    "arith.minsi": _elementwise("minimum"),
    "arith.andi": _elementwise("and"),
    "arith.ori": _elementwise("or"),
    "arith.xori": _elementwise("xor"),
    "arith.select": _elementwise("select"),
    "arith.floordivsi": _floordivsi,
    "arith.ceildivsi": _ceildivsi,
    "arith.cmpi": _cmpi,
}
