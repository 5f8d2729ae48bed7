"""Encode a block as flat rows for the e-graph: one node number a value, shapes and axis lists interned, every node
seeded with dtype and shape, so that nothing has to travel along a chain of ops one iteration at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.egraph.constants import Constants
from egshape.egraph.fold import Folder
from egshape.egraph.splits import LIMIT
from egshape.egraph.twins import Twins, acts
from egshape.errors import EgshapeError
from egshape.ir.arrays import is_splat
from egshape.ir.graph import Block, Op, Value
from egshape.ir.keys import hashable, region_key
from egshape.ir.types import dtype_name, itemsize
from egshape.ops.base import OpDecl, Registry
from egshape.rulelang.schema import ELEMENTWISE, MAX_RANK, has_constructor


@dataclass(frozen=True, slots=True)
class Call:
    """What a call key stands for: an op whose attributes or regions the e-graph does not see."""

    op: Op
    sizes: tuple[str, ...]
    """Names of the ``sizes`` attributes, flattened in this order into the call's shape argument."""
    lengths: tuple[int, ...]
    captures: int
    """How many trailing operands are captures of the regions."""


@dataclass
class Encoding:
    """Rows by table, and what the numbers in them stand for."""

    tables: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    node_of: dict[Value, int] = field(default_factory=dict)
    values: list[Value | None] = field(default_factory=list)
    dims: dict[int, Dim] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    call_of: dict[Op, int] = field(default_factory=dict)
    """The call that each op became."""
    constants: list[np.ndarray] = field(default_factory=list)
    constant_dtypes: list[str] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)
    op_of_node: dict[int, tuple[int, Op]] = field(default_factory=dict)
    index_of: dict[int, int] = field(default_factory=dict)
    """The place in the block of the op that each node stands for, nodes without a value included."""


class Encoder:
    """Encodes one block; ``new_*`` methods are also used by the exchange to name what rules asked for."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.out = Encoding()
        self._folder = Folder(registry)
        self._shapes: dict[tuple[Dim, ...], int] = {}
        self._axes: dict[tuple[int, ...], int] = {}
        self._lists: dict[tuple[int, ...], int] = {}
        self._constants = Constants(self.out.constants, self.out.constant_dtypes)
        self._records: dict[Any, int] = {}
        self.record(())  # 0 in a rule: the default of records
        self._keys: dict[Any, int] = {}
        self._defined: dict[Value, list[tuple[int, str]]] = {}
        """The axes of values that define symbols."""
        self._twins: Twins | None = None

    def add(self, table: str, *row: Any) -> None:
        """Add a row to a table."""
        self.out.tables[table].append(row)

    # -- interning -----------------------------------------------------------------------------------------------

    def shape(self, dims: tuple[Dim, ...]) -> int:
        """The number of a shape."""
        number = self._shapes.get(dims)
        if number is None:
            number = self._shapes[dims] = len(self._shapes)
            for dim in dims:
                self.know(dim)
            self.out.tables[f"in_shape{len(dims)}"].append((number, *(dim.id for dim in dims)))
        return number

    def axes(self, axes: tuple[int, ...]) -> int:
        """The number of a list of static integers."""
        number = self._axes.get(axes)
        if number is None:
            number = self._axes[axes] = len(self._axes)
            self.out.tables[f"in_axes{len(axes)}"].append((number, *axes))
        return number

    def operands(self, nodes: Sequence[int]) -> int:
        """The number of a list of nodes."""
        key = tuple(nodes)
        number = self._lists.get(key)
        if number is None:
            tail = self.operands(key[1:]) if key else 0
            number = self._lists[key] = len(self._lists)
            if key:
                self.out.tables["in_list"].append((number, key[0], tail))
            else:
                self.out.tables["in_nil"].append((number,))
        return number

    def constant(self, array: np.ndarray, dtype: str) -> int:
        """The number of a constant: keyed by dtype and bytes, since 0.0 and -0.0 are one f64 to egglog."""
        return self._constants.number(array, dtype)

    def constant_of(self, array: np.ndarray) -> int:
        """The number of a constant of the array's own dtype."""
        return self.constant(array, dtype_name(array.dtype))

    def know(self, dim: Dim) -> None:
        """Note a size that rows refer to by its id."""
        if dim.id not in self.out.dims:
            self.out.dims[dim.id] = dim
            if dim.const is not None and abs(dim.const) < LIMIT:
                self.out.tables["in_num"].append((dim.id, dim.const))

    def record(self, record: Any) -> int:
        """The number of an attribute that the e-graph does not look into."""
        number = self._records.get(record)
        if number is None:
            number = self._records[record] = len(self.out.records)
            self.out.records.append(record)
        return number

    def node(self, value: Value | None = None) -> int:
        """A new node number, for a value or for something without one."""
        number = len(self.out.values)
        self.out.values.append(value)
        if value is not None:
            self.out.node_of[value] = number
        return number

    # -- values and ops ------------------------------------------------------------------------------------------

    def leaf(self, value: Value) -> int:
        """The node of a value, created with its type when it is first met."""
        known = self.out.node_of.get(value)
        if known is not None:
            return known
        number = self.node(value)
        self.typed(number, value.type.dtype, value.type.shape)
        return number

    def typed(self, number: int, dtype: str, shape: tuple[Dim, ...] | None) -> None:
        """Seed dtype and shape of a node; unranked and very long shapes stay without."""
        if is_told(shape):
            self.out.tables["in_type"].append((number, dtype, self.shape(shape)))
        else:
            self.out.tables["in_untyped"].append((number,))

    def block(self, block: Block) -> Encoding:
        """Encode all ops of a block."""
        for each in block.symbols:
            if each.axis is not None:
                self._defined.setdefault(each.value, []).append((each.axis, each.name))
        for value in block.args:
            self.leaf(value)
        self._twins = twins = Twins(block, self.registry)
        for index, op in enumerate(block.ops):
            twins.step(op)
            self.op(index, op)
        for value in (*block.results, *(each.value for each in block.symbols)):
            self.leaf(value)  # a captured value that no op of the block reads
        return self.out

    def op(self, index: int, op: Op) -> None:
        """Encode one op; ops without results and effects have no node."""
        decl = self.registry[op.name]
        if decl.name == "check":
            for operand in op.operands:
                self.leaf(operand)
            return
        fixed = op.operands if decl.variadic or not decl.dynamic else op.operands[: len(decl.operands)]
        every = [self.leaf(operand) for operand in op.operands]  # sizes that come from around a region have nodes too
        nodes = every[: len(fixed)]
        if decl.effect or not all(is_told(result.type.shape) for result in op.results):
            self._opaque(index, op)
            return
        if decl.family in ELEMENTWISE and not _changes_width(op):
            self._elementwise(index, op, decl, nodes)
        elif decl.name == "constant":
            self._constant(index, op)
        elif decl.name == "concatenate":
            self._concatenate(index, op, nodes)
        elif has_constructor(decl) and len(op.results) == 1 and _representable(decl, op):
            self._own(index, op, decl, nodes)
        else:
            self._call(index, op, decl, nodes)
        self.fold(op, op)

    def fold(self, op: Op, same: Op) -> None:
        """Say what an op gives at every run, if it does; ``same`` is the op with what is known of its sizes."""
        folded = self._folder.value(same)
        if folded is not None:
            self.out.tables["fold_op"].append((self.out.node_of[op.result], self.constant_of(folded)))

    def _result(self, index: int, op: Op, value: Value) -> int:
        number = self.leaf(value)
        self.out.op_of_node[number] = (index, op)
        self.out.index_of[number] = index
        return number

    def _opaque(self, index: int, op: Op) -> None:
        for value in op.results:
            self._result(index, op, value)

    def _elementwise(self, index: int, op: Op, decl: OpDecl, nodes: list[int]) -> None:
        table = f"in_{decl.family}"
        self.out.tables[table].append((self._result(index, op, op.result), function_name(op, decl), *nodes))

    def _constant(self, index: int, op: Op) -> None:
        number = self._result(index, op, op.result)
        self.out.tables["in_constant"].append((number, self.constant(op.attrs["value"], op.result.type.dtype)))

    def splat(self, number: int) -> None:
        """A constant whose elements are all equal is the broadcast of a scalar."""
        array, dtype = self.out.constants[number], self.out.constant_dtypes[number]
        if array.ndim and array.size and is_splat(array):
            scalar = self.scalar(array.reshape(-1)[:1].reshape(()), dtype)
            self.axes(())
            self.out.tables["in_splat"].append((number, scalar, self.shape(tuple(map(const, array.shape)))))

    def scalar(self, array: np.ndarray, dtype: str) -> int:
        """A node for a scalar constant that the block may not have."""
        key = ("scalar", dtype, array.tobytes())
        known = self._keys.get(key)
        if known is None:
            known = self._keys[key] = self.node()
            self.out.tables["live"].append((known,))
            self.typed(known, dtype, ())
            self.out.tables["in_constant"].append((known, self.constant(array, dtype)))
        return known

    def _concatenate(self, index: int, op: Op, nodes: list[int]) -> None:
        """Left-nested pairs, so that rules need to know of two operands only."""
        dim, dtype = op.attrs["dim"], op.result.type.dtype
        number = self._result(index, op, op.result)
        if len(nodes) == 1:
            self.out.tables["in_equal"].append((number, nodes[0]))
            return
        left, dims = nodes[0], list(op.operands[0].type.dims)
        for position, (node, operand) in enumerate(zip(nodes[1:], op.operands[1:], strict=True), start=2):
            last = position == len(nodes)
            dims[dim] = dims[dim] + operand.type.dims[dim]
            joined = number if last else self.node()
            if not last:
                self.typed(joined, dtype, tuple(dims))
                self.out.index_of[joined] = index
            self.out.tables["in_concatenate"].append((joined, self.operands([left, node]), dim))
            left = joined

    def _own(self, index: int, op: Op, decl: OpDecl, nodes: list[int]) -> None:
        row: list[Any] = [self._result(index, op, op.result)]
        if decl.variadic:
            single = len(decl.operands) - 1
            row += [*nodes[:single], self.operands(nodes[single:])]
        else:
            row += nodes
        for attr in decl.attrs:
            row.append(self._cell(attr.kind, op.attrs[attr.name]))
        self.out.tables[f"in_{decl.name}"].append(tuple(row))

    def _cell(self, kind: str, value: Any) -> Any:
        if kind == "sizes":
            return self.shape(tuple(value))
        if kind == "axes":
            return self.axes(tuple(value))
        if kind in ("text", "dtype"):
            return value
        if kind in ("int", "bool"):
            return int(value)
        return self.record(value)

    def _result_types(self, op: Op, same: Mapping[str, Dim]) -> tuple[Any, ...]:
        """The types of an op's results. Sizes that they define count by their place, those of one op only and of what
        is equal to it: the sizes of another one are others. ``same``: sizes that come of the same data as earlier ones.
        """
        own = dict(same)
        for place, value in enumerate(op.results):
            for axis, name in self._defined.get(value, ()):
                own[name] = symbol(f"\0{place}.{axis}")
        types = tuple(
            (value.type.dtype, tuple(size.substitute(own) if own else size for size in value.type.dims))
            for value in op.results
        )
        defines = any(value in self._defined for value in op.results)
        return (*types, self._twins.first(op.results[0]) if self._twins is not None and defines else None)

    def _call(self, index: int, op: Op, decl: OpDecl, nodes: list[int]) -> None:
        """An op with regions, or with attributes that the e-graph has no sort for."""
        captures = op.captures()
        nodes = nodes + [self.leaf(value) for value in captures]
        sizes = tuple(attr.name for attr in decl.attrs if attr.kind == "sizes")
        flat = tuple(dim for name in sizes for dim in op.attrs[name])
        hidden = ()
        if len(flat) > MAX_RANK:
            hidden, flat, sizes = flat, (), ()
        same = self._twins.same if self._twins is not None else {}
        key = (
            op.name,
            hidden,
            hashable({name: value for name, value in op.attrs.items() if name not in sizes}),
            tuple(region_key(region, captures, same) for region in op.regions),
            self._result_types(op, same),
            index if acts(op, self.registry) else None,
        )
        number = self._keys.get(key)
        if number is None:
            number = self._keys[key] = len(self.out.calls)
            self.out.calls.append(Call(op, sizes, tuple(len(op.attrs[name]) for name in sizes), len(captures)))
        self.out.call_of[op] = number
        row = (number, self.operands(nodes), self.shape(flat))
        if len(op.results) == 1:
            call = self._result(index, op, op.result)
            self.out.tables["in_call"].append((call, *row))
        else:
            call = self.node()
            self.out.index_of[call] = index
            self.out.tables["in_call"].append((call, *row))
            for position, value in enumerate(op.results):
                self.out.tables["in_proj"].append((self._result(index, op, value), call, position))


def _changes_width(op: Op) -> bool:
    """True for a bitcast between dtypes of different sizes: it has an axis more or less, so it is not elementwise."""
    return op.name == "bitcast_convert" and itemsize(op.operands[0].type.dtype) != itemsize(op.result.type.dtype)


def function_name(op: Op, decl: OpDecl) -> str:
    """The name of an elementwise op with its attributes: ``compare.LT.FLOAT``."""
    return ".".join([op.name, *(str(op.attrs[attr.name]) for attr in decl.attrs)])


def is_told(shape: tuple[Dim, ...] | None) -> TypeGuard[tuple[Dim, ...]]:
    """Whether rules are told a shape: one that is known and not very long."""
    return shape is not None and len(shape) <= MAX_RANK


def _representable(decl: OpDecl, op: Op) -> bool:
    """Axis and size lists short enough for the e-graph's vectors."""
    return all(len(op.attrs[attr.name]) <= MAX_RANK for attr in decl.attrs if attr.kind in ("axes", "sizes"))


def attribute(encoding: Encoding, shape: Callable[[int], tuple[Dim, ...]], op: str, kind: str, cell: Any) -> Any:
    """The attribute that a cell of a term stands for; ``shape`` gives the sizes of a class of shapes."""
    if kind == "sizes":
        return shape(cell)
    if kind == "axes":
        return tuple(cell)
    if kind == "bool":
        return bool(cell)
    if kind == "array" and op == "constant":
        return encoding.constants[cell]
    if kind in ("record", "float", "array"):
        if not 0 <= cell < len(encoding.records):
            raise EgshapeError(f"{cell} is no key of an attribute of {op}")
        return encoding.records[cell]
    return cell
