"""Products of one left operand become one product: their right operands, which are constants, stand side by side, and
so do the vectors that are added to them. What follows reads its columns where they lie (queries, keys and values of
attention; the gate of a network and what it gates).

A column is the same sum as before; the left operand is read once, and few rows make as many blocks as all columns do.
On a processor, which has no launches to save, an encoder layer measured slower so (docs/gpu-kernels.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from egshape.dims import Dim, const
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import TensorType
from egshape.plan.form.folding import Arrays
from egshape.plan.gpu.product.find import by_library
from egshape.switches import wished

SWITCH = "EGSHAPE_CUDA_BESIDE"
"""Environment: ``apart`` leaves products as they are, so that a benchmark can run both."""


def beside(graph: Graph) -> Graph:
    """The graph with such products joined."""
    return graph if wished(SWITCH, ("apart", "joined")) == "apart" else replace(graph, body=_joined(graph.body))


@dataclass(frozen=True)
class _Product:
    """A product with a constant: the numbers of its op and of the one that adds a vector to it, if any; the arrays."""

    number: int
    weights: np.ndarray
    added: int | None = None
    vector: np.ndarray | None = None


def _joined(block: Block) -> Block:
    if any(op.regions for op in block.ops):
        ops = tuple(replace(op, regions=tuple(map(_joined, op.regions))) if op.regions else op for op in block.ops)
        block = replace(block, ops=ops)
    producers = {value: op for op in block.ops for value in op.results}
    arrays, readers = Arrays(producers, {}), _readers(block)
    groups: dict[tuple[object, ...], list[_Product]] = {}
    for number, op in enumerate(block.ops):
        key = _key(op, arrays)
        if key is not None:
            groups.setdefault(key, []).append(_product(block, number, arrays, producers, readers))
    ops, gone, put = block.ops, set[int](), dict[int, list[Op]]()
    for found in groups.values():
        plain = any(each.vector is None for each in found)
        group = [_Product(each.number, each.weights) for each in found] if plain else found
        ends = [ops[each.number if each.added is None else each.added].result for each in group]
        if len(group) > 1 and not set(ends) & set(block.results):
            put[group[0].number] = list(_written(block, group, ends))
            gone |= {number for each in group for number in (each.number, each.added) if number is not None}
    new = [each for number, op in enumerate(ops) for each in (*put.get(number, ()), *(() if number in gone else (op,)))]
    return replace(block, ops=tuple(new)) if put else block


def _readers(block: Block) -> Mapping[Value, list[int]]:
    """The ops that read each value, -1 for the block's results."""
    found: dict[Value, list[int]] = {}
    for number, op in enumerate(block.ops):
        inner = {value for region in op.regions for each in region.walk() for value in each.operands}
        inner |= {value for region in op.regions for value in region.results}
        for value in {*op.operands, *inner}:
            found.setdefault(value, []).append(number)
    for value in block.results:
        found.setdefault(value, []).append(-1)
    return found


def _key(op: Op, arrays: Arrays) -> tuple[object, ...] | None:
    """What products that are joined have in common; None for an op that is none."""
    if op.name != "dot_general" or not by_library(op) or op.requires or op.attrs["lhs_batch"]:
        return None
    left, right = op.operands[:2]
    free = _free(op)
    if not free or arrays.of(right) is None or arrays.of(left) is not None:
        return None
    sizes = tuple(size for axis, size in enumerate(right.type.dims) if axis != free[0])
    attrs = tuple(sorted((name, str(value)) for name, value in op.attrs.items()))
    return left, right.type.dtype, right.type.rank, sizes, attrs, op.operands[2:]


def _free(op: Op) -> list[int]:
    """The axes of the right operand that the result has, which are its last ones."""
    return [axis for axis in range(op.operands[1].type.rank) if axis not in op.attrs["rhs_contract"]]


def _product(
    block: Block, number: int, arrays: Arrays, producers: Mapping[Value, Op], readers: Mapping[Value, list[int]]
) -> _Product:
    op = block.ops[number]
    weights = arrays.of(op.operands[1])
    assert weights is not None
    plain = _Product(number, weights)
    reading = readers.get(op.result, [])
    if len(reading) != 1 or reading[0] < 0 or block.ops[reading[0]].name != "add":
        return plain
    add = block.ops[reading[0]]
    others = [value for value in add.operands if value is not op.result]
    spread = producers.get(others[0]) if len(others) == 1 else None
    columns, rank = len(_free(op)), op.result.type.rank
    if add.requires or add.result.type != op.result.type or spread is None or spread.name != "broadcast_in_dim":
        return plain
    vector = arrays.of(spread.operands[0])
    along = tuple(range(rank - columns, rank))
    if vector is None or tuple(spread.attrs["dims"]) != along or spread.result.type != op.result.type:
        return plain
    sizes = tuple(size.const for size in op.result.type.dims[rank - columns :])
    return replace(plain, added=reading[0], vector=vector) if vector.shape == sizes else plain


def _written(block: Block, group: Sequence[_Product], ends: Sequence[Value]) -> Iterator[Op]:
    """The joined product, and the slices of it that stand for the results."""
    first = block.ops[group[0].number]
    axis = first.result.type.rank - len(_free(first))
    name = f"{first.result.name}.beside"

    def constant(kind: str, array: np.ndarray, dtype: str) -> Op:
        made = Value(f"{name}.{kind}", TensorType(dtype, tuple(const(size) for size in array.shape)))
        return Op("constant", (), {"value": np.ascontiguousarray(array)}, (made,), location=first.location)

    dtype = first.operands[1].type.dtype
    weights = constant("weights", np.concatenate([each.weights for each in group], _free(first)[0]), dtype)
    yield weights
    wide = [block.ops[each.number].result.type.dims[axis].const or 0 for each in group]
    shape = _with(first.result.type.dims, axis, const(sum(wide)))
    whole = Value(name, TensorType(first.result.type.dtype, shape))
    yield replace(first, operands=(first.operands[0], weights.result, *first.operands[2:]), results=(whole,))
    vectors = [each.vector for each in group if each.vector is not None]
    if vectors:
        vector = constant("vector", np.concatenate(vectors, 0), whole.type.dtype)
        spread, more = (Value(f"{name}.{kind}", whole.type) for kind in ("spread", "added"))
        attrs = {"dims": tuple(range(axis, len(shape))), "shape": shape}
        yield vector
        yield Op("broadcast_in_dim", (vector.result,), attrs, (spread,), location=first.location)
        yield Op("add", (whole, spread), {}, (more,), location=first.location)
        whole = more
    start = 0
    for end, width in zip(ends, wide, strict=True):
        starts, limits = _with((const(0),) * len(shape), axis, const(start)), _with(shape, axis, const(start + width))
        attrs = {"starts": starts, "limits": limits, "strides": (const(1),) * len(shape)}
        yield Op("slice", (whole,), attrs, (end,), location=first.location)
        start += width


def _with(dims: tuple[Dim, ...], axis: int, size: Dim) -> tuple[Dim, ...]:
    return (*dims[:axis], size, *dims[axis + 1 :])
