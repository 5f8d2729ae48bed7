"""Types of the terms that a user's rules made: asked of the op's own shape function, as the shipped rules of
``tensor.types`` say them for the ops that shipped rules make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from egshape.dims import Dim
from egshape.egraph.encode import Encoder, attribute
from egshape.egraph.snapshot import Snapshot
from egshape.errors import EgshapeError
from egshape.ir.types import TensorType
from egshape.ops.base import Registry
from egshape.rulelang.schema import ELEMENTWISE, Constructor, constructor

Rows = dict[str, list[tuple[Any, ...]]]
Shapes = Mapping[int, tuple[Dim, ...]]


class Types:
    """Gives a type to each term of the given ops that has none. One for each e-graph."""

    def __init__(self, encoder: Encoder, registry: Registry, makes: frozenset[str]) -> None:
        self.encoder = encoder
        self.registry = registry
        self.makes = sorted(makes)
        self._done: set[tuple[Any, ...]] = set()

    def round(self, snapshot: Snapshot, shapes: Shapes, rows: Rows) -> None:
        """Add the rows that type what can be typed now; terms inside of terms come first, round by round."""
        waiting = [(name, row) for name in self.makes for row in snapshot.table(name)]
        if not waiting:
            return
        reading = _Reading(self, snapshot, shapes, rows)
        for name, row in waiting:
            if reading.type_of(row[-1]) is None:
                reading.add(name, row)


class _Reading:
    """One look at the e-graph."""

    def __init__(self, types: Types, snapshot: Snapshot, shapes: Shapes, rows: Rows) -> None:
        self.types = types
        self.encoder = types.encoder
        self.snapshot = snapshot
        self.shapes = shapes
        self.rows = rows
        self.shape_of = snapshot.mapping("ShapeOf")
        self.dtype_of = snapshot.mapping("dtype_of")
        self.nodes = {cls: node for node, cls in snapshot.table("Node")}
        self.lists = {cls: (head, tail) for head, tail, cls in snapshot.table("Cons")}
        self.elementwise = {
            row[-1]: (family, row) for family in ELEMENTWISE for row in snapshot.table(family.capitalize())
        }
        self.open: set[int] = set()

    def type_of(self, cls: int) -> TensorType | None:
        """The type of a class, None where the e-graph does not know it."""
        dtype, shape = self.dtype_of.get(cls), self.shapes.get(self.shape_of.get(cls, -1))
        return None if dtype is None or shape is None else TensorType(dtype, shape)

    def add(self, name: str, row: Sequence[Any]) -> None:
        """Name a term by a node, and give the node the type that the op's shape function gives."""
        form = constructor(self.types.registry[name])
        operands = self._operands(form, row)
        if operands is None:
            return
        found = self._inferred(form, operands, row)
        if found is None:
            return
        cells = self._cells(form, row)
        key = (name, *cells) if cells is not None else ()
        if cells is None or key in self.types._done:
            return
        self.types._done.add(key)
        node = self.encoder.node()
        self.rows[f"in_{name}"].append((node, *cells))
        self.rows["live"].append((node,))
        self.rows["in_derived"].append((node, found.dtype, self.encoder.shape(found.dims)))

    def _inferred(self, form: Constructor, operands: Sequence[TensorType], row: Sequence[Any]) -> TensorType | None:
        attrs = {}
        for attr, arg in zip(form.decl.attrs, row[len(form.operands) : -1], strict=True):
            if attr.kind == "sizes" and arg not in self.shapes:
                return None
            attrs[attr.name] = attribute(self.encoder.out, self.shapes.__getitem__, form.name, attr.kind, arg)
        try:
            found = form.decl.shape(*operands, **attrs)
        except EgshapeError:
            return None  # an ill-typed term: without a type it is never chosen
        if isinstance(found, list):
            return None
        dtype, shape = (found.dtype, found.shape) if isinstance(found, TensorType) else found
        return None if shape is None or None in shape else TensorType(dtype, shape)

    def _operands(self, form: Constructor, row: Sequence[Any]) -> list[TensorType] | None:
        out: list[TensorType] = []
        for sort, arg in zip(form.operands, row, strict=False):
            for cls in self._items(arg) if sort == "Ts" else [arg]:
                found = self.type_of(cls)
                if found is None:
                    return None
                out.append(found)
        return out

    def _items(self, cls: int) -> list[int]:
        out = []
        while cls in self.lists:
            head, cls = self.lists[cls]
            out.append(head)
        return out

    # -- naming ----

    def _cells(self, form: Constructor, row: Sequence[Any]) -> list[Any] | None:
        """The row of the op's input table that stands for a term."""
        cells: list[Any] = []
        for sort, arg in zip((*form.operands, *form.attrs), row, strict=False):
            if sort in ("T", "Ts"):
                nodes = [self._node(cls) for cls in (self._items(arg) if sort == "Ts" else [arg])]
                known = [node for node in nodes if node is not None]
                if len(known) < len(nodes):
                    return None
                cells.append(self.encoder.operands(known) if sort == "Ts" else known[0])
            elif sort == "Shape":
                cells.append(self.encoder.shape(self.shapes[arg]))
            elif sort == "Axes":
                cells.append(self.encoder.axes(tuple(arg)))
            else:
                cells.append(arg)
        return cells

    def _node(self, cls: int) -> int | None:
        """A node that stands for a class: one that it has, or a new one for an elementwise term."""
        known: int | None = self.nodes.get(cls)
        if known is not None:
            return known
        if cls not in self.elementwise or cls in self.open:
            return None
        self.open.add(cls)  # a class may hold a term of itself
        family, row = self.elementwise[cls]
        inner = [self._node(each) for each in row[1:-1]]
        self.open.discard(cls)
        if None in inner:
            return None
        node = self.encoder.node()
        self.nodes[cls] = node
        self.rows[f"in_{family}"].append((node, row[0], *inner))
        self.rows["live"].append((node,))
        return node
