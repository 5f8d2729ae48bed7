"""What Python tells the rules over tensors: what rules asked for is named, constants are folded, and axis lists,
shapes and functions that have turned up are described by facts that rules can match."""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from egshape.dims import Dim, const, maximum, minimum, product
from egshape.egraph.derive import Types
from egshape.egraph.encode import Encoder
from egshape.egraph.exchange import ExchangeState
from egshape.egraph.fold import SMALL
from egshape.egraph.snapshot import Snapshot
from egshape.errors import EgshapeError
from egshape.ir.functions import function_parts
from egshape.ir.types import (
    DTYPES,
    FOREIGN,
    TensorType,
    dtype_name,
    holds,
    is_integer,
    numpy_dtype,
)
from egshape.ops.base import Registry
from egshape.ops.traits import Element

Rows = dict[str, list[tuple[Any, ...]]]


def describe_function(function: str, registry: Registry, rows: Rows) -> None:
    """The facts about an elementwise function."""
    name, attrs = function_parts(function, registry)
    decl = registry[name]
    for dtype in DTYPES:
        try:
            found = decl.shape(*[TensorType(dtype, ())] * len(decl.operands), **attrs)
        except EgshapeError:
            continue  # the function does not take this dtype
        rows["result_dtype"].append((function, dtype, found.dtype if isinstance(found, TensorType) else found[0]))
    if decl.traits.converts:
        rows["is_convert"].append((function, attrs["dtype"]))
        rows["keeps"] += [(function, dtype) for dtype in DTYPES if holds(attrs["dtype"], dtype)]
    if decl.traits.wraps:
        rows["wraps"] += [(function, dtype) for dtype in DTYPES if is_integer(dtype)]
    rows["idempotent"] += [(function, dtype) for dtype in DTYPES if decl.traits.is_idempotent(dtype)]
    for is_so, table in ((decl.traits.involution, "involution"), (decl.traits.selects, "selects")):
        if is_so:
            rows[table].append((function,))


def neutral_elements(dtype: str, registry: Registry) -> Iterable[tuple[str, Any, bool]]:
    """(function, constant, also as the left operand) for which f(x, c) is x bit for bit."""
    return _elements(dtype, ((decl.name, decl.traits.neutral) for decl in registry))


def absorbing_elements(dtype: str, registry: Registry) -> Iterable[tuple[str, Any, bool]]:
    """(function, constant, also as the left operand) for which f(x, c) is c bit for bit, whatever x."""
    return _elements(dtype, ((decl.name, decl.traits.absorbing) for decl in registry))


def negating_elements(dtype: str, registry: Registry) -> Iterable[tuple[str, Any, bool]]:
    """(function, constant, also as the left operand) for which f(x, c) is -x bit for bit."""
    return _elements(dtype, ((decl.name, decl.traits.negating) for decl in registry))


def _elements(dtype: str, found: Iterable[tuple[str, Element | None]]) -> Iterable[tuple[str, Any, bool]]:
    for name, element in found:
        value = None if element is None else element.of(dtype)
        if element is not None and value is not None:
            yield name, value, element.left


def moves_units(shape: tuple[Dim, ...], axes: tuple[int, ...]) -> bool:
    """Whether permuting the axes of a shape moves some, and only such of size 1: the elements stay in order."""
    kept = [axis for axis in axes if shape[axis].const != 1]
    return kept == sorted(kept) and axes != tuple(range(len(shape)))


def describe_constant(number: int, array: np.ndarray, dtype: str, registry: Registry, rows: Rows) -> None:
    """Neutral, absorbing and negating elements and truths among scalar constants."""
    if array.shape != ():
        return
    if dtype == "i1":
        rows["in_truth"].append((number, int(bool(array))))
    for function, value, left in neutral_elements(dtype, registry):
        if np.array(value, numpy_dtype(dtype)).tobytes() == array.tobytes():
            rows["in_neutral_right"].append((function, number))
            if left:
                rows["in_neutral"].append((function, number))
    for table, elements in (("in_absorbing", absorbing_elements), ("in_negating", negating_elements)):
        for function, value, _ in elements(dtype, registry):
            if np.array(value, numpy_dtype(dtype)).tobytes() == array.tobytes():
                rows[table].append((function, number))


def steps_apart(*shapes: tuple[Dim, ...]) -> bool:
    """Whether on each axis along which a slice steps (by strides other than 1) the slice of it (starts, limits,
    strides), which has these sizes before, takes all."""
    rows = zip(*shapes, strict=True)
    return all(s.const == 1 or (c.const == 0 and d is u and t.const == 1) for s, c, d, t, u in rows)


class Describer:
    """Looks at the e-graph between saturations and adds rows. One for each e-graph."""

    def __init__(
        self,
        encoder: Encoder,
        registry: Registry,
        sizes: ExchangeState,
        fits: Callable[[Dim], bool],
        at_most: Callable[[Dim, Dim], bool],
        settle: Callable[[Dim], Dim],
        makes: frozenset[str] = frozenset(),
    ) -> None:
        """``settle`` makes a size simpler by what is known where the block is entered. ``fits`` says whether a size
        surely lies in [0, 2^31), so that shape code of any dtype holds it unwrapped, ``at_most`` whether one size
        surely is no larger than another. ``makes``: ops whose types are inferred here."""
        self.encoder = encoder
        self._fits = fits
        self._at_most = at_most
        self._settle = settle
        self._ordered: set[tuple[int, int]] = set()
        self.normal: Callable[[Dim], Dim] = sizes.normal_form
        self._sizes = sizes
        self._dim_of = ChainMap(encoder.out.dims, sizes.dims)
        self.registry = registry
        self._moves = [decl.name for decl in registry if decl.traits.moves]
        self._functions: set[str] = set()
        self._axes: set[tuple[int, ...]] = set()
        self._constants = 0
        self._pairs: set[tuple[int, ...]] = set()
        self._counted: set[int] = set()
        self._named: set[tuple[Any, ...]] = set()
        self._folded: set[tuple[Any, ...]] = set()
        self._shapes: dict[int, tuple[Dim, ...]] = {}
        self._types = Types(encoder, registry, makes)

    # -- reading -------------------------------------------------------------------------------------------------

    def dims(self, snapshot: Snapshot) -> dict[int, Dim]:
        """A polynomial for each class of sizes that has one, sums and products that rules asked for included."""
        known: dict[int, Dim] = {}
        for ident, cls in snapshot.table("P"):
            form = self.normal(self._dim_of[ident])
            if known.setdefault(cls, form) is not form and self._sizes.is_late(known[cls]):
                known[cls] = form
        for number, cls in snapshot.table("Num"):
            known[cls] = const(number)
        asked = [(np.add, row) for row in snapshot.table("Add")] + [(np.multiply, row) for row in snapshot.table("Mul")]
        changed = bool(asked)
        while changed:
            changed = False
            for function, (a, b, cls) in asked:
                if cls not in known and a in known and b in known:
                    known[cls] = known[a] + known[b] if function is np.add else known[a] * known[b]
                    changed = True
        return known

    def shapes(self, snapshot: Snapshot, dims: dict[int, Dim]) -> dict[int, tuple[Dim, ...]]:
        """The sizes of each class of shapes."""
        out = {}
        for vector, cls in snapshot.table("Sh"):
            if all(size in dims for size in vector):
                out[cls] = tuple(dims[size] for size in vector)
        return out

    # -- one round -----------------------------------------------------------------------------------------------

    def round(self, snapshot: Snapshot, rows: Rows) -> dict[int, tuple[Dim, ...]]:
        """Add rows for everything new in the e-graph; no rows means that there is nothing more to say. Gives the
        sizes of each class of shapes."""
        dims = self.dims(snapshot)
        shapes = self._shapes = self.shapes(snapshot, dims)
        self._name_dims(snapshot, dims, rows)
        self._name_shapes(snapshot, shapes, rows)
        self._functions_and_axes(snapshot, rows)
        self._reshapes(snapshot, shapes, rows)
        self._unit_moves(snapshot, shapes, rows)
        self._nothing(snapshot, shapes, rows)
        self._windows(snapshot, shapes, rows)
        self._steps(snapshot, shapes, rows)
        self._types.round(snapshot, shapes, rows)
        self._fold(snapshot, rows)
        known = len(self.encoder.out.constants)
        for number in range(self._constants, known):
            array = self.encoder.out.constants[number]
            describe_constant(number, array, self.encoder.out.constant_dtypes[number], self.registry, rows)
            self.encoder.splat(number)
        self._constants = known  # scalars of splats are described next time
        return shapes

    def _name_dims(self, snapshot: Snapshot, dims: dict[int, Dim], rows: Rows) -> None:
        for table, relation in (("Add", "in_add"), ("Mul", "in_mul")):
            for a, b, cls in snapshot.table(table):
                if cls in dims and a in dims and b in dims:
                    key = (relation, self._dim(dims[cls]), self._dim(dims[a]), self._dim(dims[b]))
                    if key not in self._named:
                        self._named.add(key)
                        rows[relation].append(key[1:])

    def _dim(self, dim: Dim) -> int:
        self.encoder.know(dim)
        return dim.id

    def _name_shapes(self, snapshot: Snapshot, shapes: dict[int, tuple[Dim, ...]], rows: Rows) -> None:
        for table, relation, combine in (("AddShapes", "name_add", _add), ("SubShapes", "name_sub", _subtract)):
            for a, b, cls in snapshot.table(table):
                if a in shapes and b in shapes and cls not in shapes:
                    self._name(relation, (shapes[a], shapes[b]), combine(shapes[a], shapes[b]), rows)
        for axes, elements, shape, sizes, cls in snapshot.table("ClampStarts"):
            if cls not in shapes and all(each in shapes for each in (elements, shape, sizes)):
                parts = (shapes[elements], shapes[shape], shapes[sizes])
                if not all(map(self._fits, parts[0])):
                    continue
                starts = tuple(self._settle(self.normal(start)) for start in _clamp(axes, *parts))
                self._name("name_clamp", parts, starts, rows, self.encoder.axes(tuple(axes)))

    def _name(
        self, relation: str, parts: Sequence[tuple[Dim, ...]], result: tuple[Dim, ...], rows: Rows, *first: int
    ) -> None:
        result = tuple(map(self.normal, result))
        key = (relation, *first, *(self.encoder.shape(part) for part in parts), self.encoder.shape(result))
        if key not in self._named:
            self._named.add(key)
            rows[relation].append(key[1:])

    def _functions_and_axes(self, snapshot: Snapshot, rows: Rows) -> None:
        found = {row[0] for table in ("Unary", "Binary") for row in snapshot.table(table)}
        found |= {decl.name for decl in self.registry if decl.traits.wraps}  # rules make differences of other ops
        for function in found - self._functions:
            self._functions.add(function)
            describe_function(function, self.registry, rows)
        lists = {row[1] for row in snapshot.table("transpose")} | {row[1] for row in snapshot.table("broadcast_in_dim")}
        lists |= {row[2] for row in snapshot.table("gather")}
        for axes in sorted(lists - self._axes):
            self._axes.add(axes)
            number = self.encoder.axes(axes)
            if all(a < b for a, b in pairwise(axes)):
                rows["in_permutation"].append((number, number, 2))
            if axes == tuple(range(len(axes))):
                rows["in_permutation"].append((number, number, 1))
            elif sorted(axes) == list(range(len(axes))):
                inverse = tuple(axes.index(k) for k in range(len(axes)))
                rows["in_permutation"].append((number, self.encoder.axes(inverse), 0))

    def _reshapes(self, snapshot: Snapshot, shapes: dict[int, tuple[Dim, ...]], rows: Rows) -> None:
        shape_of = snapshot.mapping("ShapeOf")
        for x, target, _ in snapshot.table("reshape"):
            source = shape_of.get(x)
            if source not in shapes or target not in shapes:
                continue
            pair = (self.encoder.shape(shapes[source]), self.encoder.shape(shapes[target]))
            if pair not in self._pairs:
                self._pairs.add(pair)
                axes = _inserted(shapes[source], shapes[target])
                if axes is not None:
                    rows["in_expands"].append((*pair, self.encoder.axes(axes)))
        for x, axes, target, _ in snapshot.table("broadcast_in_dim"):
            if axes:
                for cls in (shape_of.get(x), target):
                    if cls in shapes:
                        self._count(shapes[cls], rows)

    def _unit_moves(self, snapshot: Snapshot, shapes: dict[int, tuple[Dim, ...]], rows: Rows) -> None:
        """Say which transposes leave the elements in order."""
        shape_of = snapshot.mapping("ShapeOf")
        for x, axes, _ in snapshot.table("transpose"):
            shape = shapes.get(shape_of.get(x, -1), ())
            if shape and sorted(axes) == list(range(len(shape))) and moves_units(shape, axes):
                key = ("in_unit_moves", self.encoder.shape(shape), self.encoder.axes(axes))
                if key not in self._named:
                    self._named.add(key)
                    rows["in_unit_moves"].append(key[1:])

    def _nothing(self, snapshot: Snapshot, shapes: dict[int, tuple[Dim, ...]], rows: Rows) -> None:
        """Name a scalar for each dtype and shape of values that have no element."""
        empty = {cls for cls, shape in shapes.items() if any(size.const == 0 for size in shape)}
        found = [(cls, shape) for cls, shape in snapshot.table("ShapeOf") if shape in empty]
        dtype_of = snapshot.mapping("dtype_of") if found else {}
        for cls, shape in found:
            dtype = dtype_of.get(cls)
            if dtype in DTYPES and (dtype, *(size.const for size in shapes[shape])) != FOREIGN:
                key = ("in_nothing", self.encoder.shape(shapes[shape]), dtype)
                if key not in self._named:
                    self._named.add(key)
                    rows["in_nothing"].append((*key[1:], self.encoder.scalar(np.zeros((), numpy_dtype(dtype)), dtype)))

    def _windows(self, snapshot: Snapshot, shapes: dict[int, tuple[Dim, ...]], rows: Rows) -> None:
        """Say where a slice of a concatenation surely starts and ends, before the first part does or behind it."""
        heads = {cls: head for head, _, cls in snapshot.table("Cons")}
        joined: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for items, dim, cls in snapshot.table("concatenate"):
            if items in heads:
                joined[cls].append((heads[items], dim))
        shape_of = snapshot.mapping("ShapeOf") if joined else {}
        for x, starts, limits, _, _ in snapshot.table("slice"):
            for first, dim in joined.get(x, ()):
                part = shape_of.get(first, -1)
                if any(each not in shapes for each in (part, starts, limits)):
                    continue
                end = shapes[part][dim]
                start, limit = shapes[starts][dim], shapes[limits][dim]
                for small, large in ((limit, end), (end, start), (start, end), (end, limit)):
                    pair = (small.id, large.id)
                    if small is not large and pair not in self._ordered and self._at_most(small, large):
                        rows["in_at_most"].append((self._dim(small), self._dim(large)))
                    self._ordered.add(pair)

    def _steps(self, snapshot: Snapshot, shapes: dict[int, tuple[Dim, ...]], rows: Rows) -> None:
        """Say of which slices of slices each axis is stepped along by one of them only."""
        stepping = {cls: strides for _, _, _, strides, cls in snapshot.table("slice") if _steps(shapes.get(strides))}
        shape_of = snapshot.mapping("ShapeOf") if stepping else {}
        for x, *window, _ in snapshot.table("slice"):
            parts = [shapes.get(each) for each in (stepping.get(x), *window, shape_of.get(x))]
            known = [each for each in parts if each is not None]
            if len(known) == len(parts) and steps_apart(*known):
                key = ("in_apart", *map(self.encoder.shape, known))
                if key not in self._named:
                    self._named.add(key)
                    rows["in_apart"].append(key[1:])

    def _count(self, shape: tuple[Dim, ...], rows: Rows) -> None:
        number = self.encoder.shape(shape)
        if number not in self._counted:
            self._counted.add(number)
            rows["in_count"].append((number, self._dim(self.normal(product(shape)))))

    # -- constants -----------------------------------------------------------------------------------------------

    def _fold(self, snapshot: Snapshot, rows: Rows) -> None:
        number_of: dict[int, int] = {}
        for number, cls in snapshot.table("constant"):
            number_of.setdefault(cls, number)
        if not number_of:
            return
        scalar_of = {b: number_of[x] for b, axes, _, x in snapshot.table("unbroadcast") if not axes and x in number_of}
        for family in ("unary", "binary", "ternary"):
            for function, *operands, cls in snapshot.table(family.capitalize()):
                if cls in number_of:
                    continue
                if all(x in number_of for x in operands):
                    self._fold_function(f"fold_{family}", function, [number_of[x] for x in operands], rows)
                if cls not in scalar_of and all(x in scalar_of for x in operands):
                    self._fold_function(f"splat_{family}", function, [scalar_of[x] for x in operands], rows)
        for name in self._moves:
            for x, *cells, cls in snapshot.table(name):
                if x in number_of and cls not in number_of:
                    self._fold_move(name, f"fold_{name}", number_of[x], cells, rows)
        self._fold_pairs(snapshot, number_of, rows)

    def _fold_pairs(self, snapshot: Snapshot, number_of: Mapping[int, int], rows: Rows) -> None:
        """Concatenations of two constants."""
        empty = {cls for (cls,) in snapshot.table("Nil")}
        lists = {cls: (head, tail) for head, tail, cls in snapshot.table("Cons")}
        for items, dim, cls in snapshot.table("concatenate"):
            one, rest = lists[items]
            other, end = lists.get(rest, (-1, -1))
            if cls in number_of or one not in number_of or other not in number_of or end not in empty:
                continue
            pair = (number_of[one], number_of[other])
            found = self._folds(("fold_concatenate", *pair, dim), "concatenate", pair, {"dim": dim})
            if found is not None:
                rows["fold_concatenate"].append((*pair, dim, self.encoder.constant_of(found)))

    def _fold_function(self, relation: str, function: str, numbers: Sequence[int], rows: Rows) -> None:
        name, attrs = function_parts(function, self.registry)
        types = [TensorType(self.encoder.out.constant_dtypes[number], ()) for number in numbers]
        try:  # a rule may have applied it to what it does not take
            self.registry[name].shape(*types, **attrs)
        except EgshapeError:
            return
        found = self._folds((relation, function, *numbers), name, numbers, attrs)
        if found is None:
            return
        if relation.startswith("fold_"):
            result = self.encoder.constant_of(found)
        else:
            result = self.encoder.scalar(found, dtype_name(found.dtype))
        rows[relation].append((function, *numbers, result))

    def _fold_move(self, name: str, relation: str, number: int, cells: Sequence[Any], rows: Rows) -> None:
        attrs, columns = {}, []
        for attr, cell in zip(self.registry[name].attrs, cells, strict=True):
            if attr.kind == "axes":
                attrs[attr.name] = cell
                columns.append(self.encoder.axes(cell))
            elif cell in self._shapes and all(size.const is not None for size in self._shapes[cell]):
                attrs[attr.name] = tuple(size.const for size in self._shapes[cell])
                columns.append(self.encoder.shape(self._shapes[cell]))
            else:
                return
        if prod(attrs.get("shape", ())) > SMALL:
            return
        found = self._folds((relation, number, *columns), name, (number,), attrs)
        if found is not None:
            rows[relation].append((number, *columns, self.encoder.constant_of(found)))

    def _folds(
        self, key: tuple[Any, ...], name: str, numbers: Sequence[int], attrs: dict[str, Any]
    ) -> np.ndarray | None:
        """What an op gives for some small constants; None if that was asked before, and where the op refuses them."""
        arrays = [self.encoder.out.constants[number] for number in numbers]
        if key in self._folded or any(array.size > SMALL for array in arrays):
            return None
        self._folded.add(key)
        try:
            return np.asarray(self.registry[name].reference(*arrays, **attrs))
        except EgshapeError:
            return None


def _add(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _subtract(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def _steps(strides: tuple[Dim, ...] | None) -> bool:
    return strides is not None and any(stride.const != 1 for stride in strides)


def _clamp(axes: Sequence[int], elements: Sequence[Dim], shape: Sequence[Dim], sizes: Sequence[Dim]) -> list[Dim]:
    """Start of a gathered window on each axis: the index, held between 0 and size - window."""
    starts = [const(0)] * len(shape)
    for axis, element in zip(axes, elements, strict=True):
        starts[axis] = maximum(const(0), minimum(element, shape[axis] - sizes[axis]))
    return starts


def _inserted(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> tuple[int, ...] | None:
    """Axes of ``target`` that ``source``'s axes become if the others all have size 1, else None."""
    one, axes, place = const(1), [], 0
    for axis, size in enumerate(target):
        left = len(target) - axis
        if place < len(source) and size is source[place] and (size is not one or left == len(source) - place):
            axes.append(axis)
            place += 1
        elif size is not one:
            return None
    return tuple(axes) if place == len(source) else None
