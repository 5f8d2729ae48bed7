"""The ops of the shape and tensor dialects that shape code uses. An ``index`` is an i64; so is a ``!shape.size``, and
a ``!shape.shape`` is a vector of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations, zip_longest

import numpy as np

from egshape.dims import Dim, bcast, broadcast_gap, const
from egshape.errors import EgshapeError, Unsupported
from egshape.facts import Relation
from egshape.frontends.stablehlo.arith import floor_division
from egshape.frontends.stablehlo.control import check, note_proved
from egshape.frontends.stablehlo.node import Node
from egshape.frontends.stablehlo.scope import Handler, Scope, checked, dims
from egshape.frontends.stablehlo.stated import check_relation, stated_as
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
    return _vector(scope, node, _ranked(node, scope.operand(node, 0)))


def _sizes(scope: Scope, node: Node, value: Value) -> list[Dim]:
    """The elements of an extent vector; those that are data become symbols."""
    if value.type.shape == (const(0),):
        return []
    known = scope.builder.elements(value)
    items = [] if known is None else list(known.reshape(-1))
    if items and all(isinstance(item, Dim) for item in items):
        return items
    found, requires = scope.builder.sizes(value.name, value, "element")
    for relation in requires:
        check_relation(scope, node, relation, f"{relation} does not fit")
    return list(found)


def _shapes(scope: Scope, node: Node) -> list[list[Dim]]:
    return [_sizes(scope, node, value) for value in scope.operands(node)]


def aligned(shapes: Sequence[Sequence[Dim]]) -> list[tuple[Dim, ...]]:
    """The sizes of each axis of a broadcast, shapes aligned at the last axis and filled with 1."""
    columns = list(zip_longest(*(reversed(shape) for shape in shapes), fillvalue=const(1)))
    return [tuple(column) for column in reversed(columns)]


def _parts(scope: Scope, column: Sequence[Dim]) -> tuple[Dim, ...]:
    """The sizes that are joined along an axis, each once; those of a common size that was joined before."""
    parts = {part: None for size in column for part in scope.program.joins.get(size, (size,))}
    return tuple(part for part in parts if part is not const(1))


def _joined(scope: Scope, column: Sequence[Dim]) -> Dim:
    """The common size of an axis."""
    parts = _parts(scope, column)
    size = reduce(bcast, parts, const(1))
    scope.program.joins[size] = parts
    return size


def _broadcast(scope: Scope, node: Node) -> Results:
    return _vector(scope, node, [_joined(scope, column) for column in aligned(_shapes(scope, node))])


def _gaps(scope: Scope, node: Node) -> dict[Relation, str]:
    """What must hold so that shapes broadcast, axis by axis: each two sizes do; and what is said where they do not."""
    out: dict[Relation, str] = {}
    for column in aligned(_shapes(scope, node)):
        for one, two in combinations(_parts(scope, column), 2):
            out[Relation("==", broadcast_gap(one, two), const(0))] = f"{one} and {two} do not broadcast"
    return out


def _broadcastable(scope: Scope, node: Node) -> Results:
    for relation, message in _gaps(scope, node).items():
        _relation(scope, node, relation, message)
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
            raise EgshapeError(f"shape.cstr_eq of ranks {len(first)} and {len(other)}", where=str(node.location))
        _all_equal(scope, node, first, other)
    return (None,)


def _all_equal(scope: Scope, node: Node, first: Sequence[Dim], second: Sequence[Dim]) -> None:
    for one, two in zip(first, second, strict=True):
        _relation(scope, node, Relation("==", one, two), f"{one} and {two} are not equal")


def _cstr_require(scope: Scope, node: Node) -> Results:
    check(scope, node, scope.operand(node, 0), (), node.attributes.get("msg", "shape requirement"))
    return (None,)


def _const_witness(scope: Scope, node: Node) -> Results:
    if not node.attributes["passing"]:
        check_relation(scope, node, Relation("==", const(1), const(0)), "a requirement that cannot hold")
    return (None,)


def _meet(scope: Scope, node: Node) -> Results:
    """Sizes, or shapes, that must be equal where both are known, as all are here."""
    first = scope.operand(node, 0)
    _cstr_eq(scope, node)
    return (first,)


def _join(scope: Scope, node: Node) -> Results:
    """The same of what is an invalid shape where they differ: that is no error where nobody reads it."""
    return _meet(scope, node) if scope.program.module.is_read(node.results[0]) else (scope.operand(node, 0),)


def _with_shape(scope: Scope, node: Node) -> Results:
    """The value, held to a shape."""
    x, wanted = scope.operand(node, 0), _sizes(scope, node, scope.operand(node, 1))
    sizes = _ranked(node, x)
    if len(sizes) != len(wanted):
        raise EgshapeError(f"{node.name}: {x.type} has not the rank {len(wanted)}", where=str(node.location))
    _all_equal(scope, node, sizes, wanted)
    return (x,)


def _tie_shape(scope: Scope, node: Node) -> Results:
    """The value, whose sizes are given: as one vector, or one by one, all or those that its type leaves open."""
    x, *given = scope.operands(node)
    told = {
        value: _sizes(scope, node, value if value.type.rank == 1 else _as_vector(scope, node, value)) for value in given
    }
    wanted = [size for value in given for size in told[value]]
    sizes = _ranked(node, x)
    stated = node.types[0].shape or (None,) * len(sizes)
    open_sizes = [size for size, said in zip(sizes, stated, strict=True) if said is None]
    held = sizes if len(wanted) == len(sizes) else open_sizes
    if len(wanted) != len(held):
        raise EgshapeError(f"{node.name}: {x.type} is tied to {len(wanted)} sizes", where=str(node.location))
    _all_equal(scope, node, held, wanted)
    return (x,)


def _get_shape(scope: Scope, node: Node) -> Results:
    """All sizes of a value, as a vector of what dtype the type says."""
    sizes = _ranked(node, scope.operand(node, 0))
    dtype = node.types[0].dtype or INDEX
    return (scope.one(node, "dims", elements=sizes, shape=(len(sizes),), dtype=dtype),)


def _ranked(node: Node, x: Value) -> tuple[Dim, ...]:
    if x.type.shape is None:
        raise Unsupported(
            f"{node.name} of a value of unknown rank",
            where=str(node.location),
            hint="give the value a ranked type",
        )
    return x.type.shape


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


def _place(scope: Scope, node: Node, position: int, what: str) -> int:
    """An operand that must be a constant."""
    number = _number(scope, node, position)
    if number is None:
        raise Unsupported(f"{node.name} {what} that is data", where=str(node.location), hint="give it as a constant")
    return number


def _get_extent(scope: Scope, node: Node) -> Results:
    return (_item(scope, node, scope.operand(node, 0), (_place(scope, node, 1, "of an axis"),)),)


def _split_at(scope: Scope, node: Node) -> Results:
    """The sizes before and behind a place; a negative one counts from the end."""
    sizes = _sizes(scope, node, scope.operand(node, 0))
    at = _place(scope, node, 1, "at a place")
    if not -len(sizes) <= at <= len(sizes):
        raise EgshapeError(f"{node.name}: a shape of rank {len(sizes)} has no place {at}", where=str(node.location))
    at += len(sizes) if at < 0 else 0
    return (*_vector(scope, node, sizes[:at]), *_vector(scope, node, sizes[at:]))


def _concat(scope: Scope, node: Node) -> Results:
    return _vector(scope, node, [size for shape in _shapes(scope, node) for size in shape])


def _from_extents(scope: Scope, node: Node) -> Results:
    parts = [scope.one(node, "reshape", (value,), shape=dims([1])) for value in scope.operands(node)]
    if not parts:
        return _vector(scope, node, [])
    return (parts[0] if len(parts) == 1 else scope.one(node, "concatenate", parts, dim=0),)


def _all(scope: Scope, node: Node, relations: Sequence[Relation]) -> Results:
    """Whether all equalities hold, as an i1."""
    found = scope.constant(node, np.array(True))
    for relation in relations:
        (one,), (two,) = (_scalar(scope, node, side) for side in (relation.lhs, relation.rhs))
        assert one is not None and two is not None
        holds = scope.one(node, "compare", (one, two), direction="EQ", kind="SIGNED")
        found = scope.one(node, "and", (found, holds))
    return (found,)


def _shape_eq(scope: Scope, node: Node) -> Results:
    first, *others = _shapes(scope, node)
    if any(len(other) != len(first) for other in others):
        return (scope.constant(node, np.array(False)),)
    return _all(scope, node, [Relation("==", *pair) for other in others for pair in zip(first, other, strict=True)])


def _is_broadcastable(scope: Scope, node: Node) -> Results:
    return _all(scope, node, list(_gaps(scope, node)))


def _reduce(scope: Scope, node: Node) -> Results:
    """The region, once for each size: with its place, the size, and what is carried."""
    (body,) = node.regions
    carried: list[Value | None] = [scope.values[key] for key in node.operands[1:]]
    for place, size in enumerate(_sizes(scope, node, scope.operand(node, 0))):
        given = (*_scalar(scope, node, const(place)), *_scalar(scope, node, size), *carried)
        scope.values.update(zip(body.args, given, strict=True))
        carried = scope.run(body)
    return carried


def _of_sizes(name: str) -> Handler:
    """Arithmetic of sizes, or of shapes axis by axis."""
    return lambda scope, node: (scope.one(node, name, scope.operands(node)),)


def _first(scope: Scope, node: Node) -> Results:
    return (scope.operand(node, 0),)


def _num_elements(scope: Scope, node: Node) -> Results:
    total = const(1)
    for size in _sizes(scope, node, scope.operand(node, 0)):
        total = total * size
    return _scalar(scope, node, total)


def _rank(scope: Scope, node: Node) -> Results:
    return _scalar(scope, node, const(len(_sizes(scope, node, scope.operand(node, 0)))))


# -- tensor ----------------------------------------------------------------------------------------------


def _dim(scope: Scope, node: Node) -> Results:
    x, index = scope.operand(node, 0), _place(scope, node, 1, "of an axis")
    sizes = _ranked(node, x)
    if not 0 <= index < len(sizes):
        raise EgshapeError(f"{node.name}: {x.type} has no axis {index}", where=str(node.location))
    return _scalar(scope, node, sizes[index])


def _tensor_rank(scope: Scope, node: Node) -> Results:
    return _scalar(scope, node, const(len(_ranked(node, scope.operand(node, 0)))))


def _splat(scope: Scope, node: Node) -> Results:
    """A scalar everywhere; sizes that the type leaves open are operands."""
    x, *given = scope.operands(node)
    info = checked(node.types[0], node.location, node.name)
    open_sizes = iter(given)
    sizes = [
        const(size) if size is not None else _sizes(scope, node, _as_vector(scope, node, next(open_sizes)))[0]
        for size in info.shape or ()
    ]
    return (scope.one(node, "broadcast_in_dim", (x,), dims=(), shape=tuple(sizes)),)


def _as_vector(scope: Scope, node: Node, size: Value) -> Value:
    return scope.one(node, "reshape", (size,), shape=dims([1]))


def _from_elements(scope: Scope, node: Node) -> Results:
    shape = scope.static(node)
    parts = [scope.one(node, "reshape", (value,), shape=dims([1])) for value in scope.operands(node)]
    if not parts:
        return (
            scope.constant(
                node,
                np.zeros([0 if d.const is None else d.const for d in shape], numpy_dtype(node.types[0].dtype)),
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
    return (stated_as(scope, node, x, info.shape or (None,) * x.type.rank),)


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
    "shape.from_extents": _from_extents,
    "shape.join": _join,
    "shape.meet": _meet,
    "shape.with_shape": _with_shape,
    "shape.value_of": _first,
    "shape.value_as_shape": _first,
    "shape.any": _first,
    "shape.debug_print": _first,
    "shape.concat": _concat,
    "shape.split_at": _split_at,
    "shape.reduce": _reduce,
    "shape.shape_eq": _shape_eq,
    "shape.is_broadcastable": _is_broadcastable,
    "shape.add": _of_sizes("add"),
    "shape.mul": _of_sizes("multiply"),
    "shape.div": lambda scope, node: (floor_division(scope, node, *scope.operands(node)),),
    "shape.max": _of_sizes("maximum"),
    "shape.min": _of_sizes("minimum"),
    **dict.fromkeys(("tie_shape", "flow.tensor.tie_shape", "shapex.tie_shape"), _tie_shape),
    **dict.fromkeys(("get_shape", "shapex.get_ranked_shape"), _get_shape),
    "tensor.rank": _tensor_rank,
    "tensor.splat": _splat,
    "tensor.dim": _dim,
    "tensor.from_elements": _from_elements,
    "tensor.extract": _extract,
    "tensor.cast": _cast,
}
