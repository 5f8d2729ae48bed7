"""What the e-graph holds of a block once it is saturated: the e-nodes of each class, what each reads and costs.

Read while the engine is open, since vectors can be read only then; never changed afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from egshape.dims import Dim
from egshape.egraph.cost import CostModel
from egshape.egraph.encode import attribute
from egshape.egraph.saturate import Saturated
from egshape.egraph.snapshot import ENode, Row
from egshape.errors import InternalError
from egshape.ir.builder import small
from egshape.ir.graph import Op, SymbolDef, Value, dims_of
from egshape.ir.types import TensorType
from egshape.limits import tick
from egshape.ops.base import Registry
from egshape.rulelang.schema import ELEMENTWISE, constructor, has_constructor

_ELEMENTWISE = frozenset(family.capitalize() for family in ELEMENTWISE)
_UNTYPED = frozenset(("Node", "Call", "Proj"))
"""Terms that may stand without a type: leaves without a rank, calls with several results."""


class Candidate(NamedTuple):
    """An e-node as extraction sees it: what it reads, what it costs itself, and what of that is not arithmetic."""

    node: ENode
    reads: tuple[int, ...]
    cost: float
    moves: float


class Terms:
    """The candidates of each class, with readers for sorts other than tensors."""

    def __init__(
        self,
        saturated: Saturated,
        registry: Registry,
        model: CostModel,
        symbols: dict[str, SymbolDef],
        leaves: Callable[[int], Sequence[int] | None],
    ) -> None:
        """``symbols`` are the data-dependent ones; ``leaves(node)`` gives the nodes that a leaf depends on, or None
        if the node is no leaf."""
        snapshot = saturated.snapshot
        self.snapshot = snapshot
        self.encoding = saturated.encoding
        self.model = model
        self.normal: Callable[[Dim], Dim] = saturated.sizes.normal_form
        self.dims = saturated.describer.dims(snapshot)
        self.shapes = saturated.describer.shapes(snapshot, self.dims)
        self.shape_of = snapshot.mapping("ShapeOf")
        self.dtype_of = snapshot.mapping("dtype_of")
        self.class_of_node = snapshot.mapping("Node")
        self._symbols = symbols
        self._leaves = leaves
        self._lists = self._read_lists()
        self._size_reads: dict[int, tuple[int, ...]] = {}
        self._sorts = _sorts(registry)
        self._registry = registry
        self._computing = {decl.name for decl in registry if decl.family == "contraction"}
        self._small: set[int] = set()
        self._work_of: dict[tuple[int | None, ...], float] = {}
        self.candidates: Mapping[int, Sequence[Candidate]] = self._candidates()

    def _read_lists(self) -> dict[int, tuple[int, ...]]:
        rows = {cls: (head, tail) for head, tail, cls in self.snapshot.table("Cons")}
        out: dict[int, tuple[int, ...]] = {cls: () for (cls,) in self.snapshot.table("Nil")}

        def read(cls: int) -> tuple[int, ...]:
            chain = []
            while cls not in out:
                chain.append(cls)
                cls = rows[cls][1]
            for each in reversed(chain):
                out[each] = (rows[each][0], *out[rows[each][1]])
            return out[chain[0]] if chain else out[cls]

        for cls in rows:
            read(cls)
        return out

    def items(self, cls: int) -> tuple[int, ...]:
        """The tensors of a list."""
        return self._lists[cls]

    def shape(self, cls: int) -> tuple[Dim, ...]:
        """The sizes of a class of shapes. Raises InternalError for one that nobody named."""
        try:
            return self.shapes[cls]
        except KeyError:
            raise InternalError("a shape in the e-graph was never named by the exchange") from None

    def size_reads(self, dims: Iterable[Dim]) -> tuple[int, ...]:
        """The classes of the values that define the data-dependent symbols of some sizes."""
        out: dict[int, None] = {}
        for dim in dims:
            known = self._size_reads.get(dim.id)
            if known is None:
                known = tuple(
                    self.class_of_node[self.encoding.node_of[self._symbols[name].value]]
                    for name in sorted(dim.symbols())
                    if name in self._symbols
                )
                self._size_reads[dim.id] = known
            out.update(dict.fromkeys(known))
        return tuple(out)

    def held_reads(self, op: Op, apart: Sequence[str] = ()) -> tuple[int, ...]:
        """The classes of the values that define the data-dependent symbols of an op that is kept as it is: in its
        attributes but those of the names ``apart``, in its results, and anywhere in its regions."""
        if not self._symbols:
            return ()
        dims = [dim for name, attr in op.attrs.items() if name not in apart for dim in dims_of(attr)]
        types = [dim for value in op.results for dim in value.type.shape or ()]
        dims += [*types, *map(self.normal, types)]
        for inner in (each for region in op.regions for each in region.walk()):
            dims += [dim for attr in inner.attrs.values() for dim in dims_of(attr)]
            dims += [dim for value in inner.results for dim in value.type.shape or ()]
        own = {
            self.class_of_node[self.encoding.node_of[value]] for value in op.results if value in self.encoding.node_of
        }
        return tuple(cls for cls in self.size_reads(dims) if cls not in own)

    def class_of(self, value: Value) -> int:
        """The class of a value of the block."""
        return int(self.class_of_node[self.encoding.node_of[value]])

    def operands(self, node: ENode) -> list[int]:
        """The classes of the tensors that a node reads, in order."""
        out: list[int] = []
        for sort, arg in zip(self._sorts[node.function], node.args, strict=True):
            out += [arg] if sort == "T" else self._lists[arg] if sort == "Ts" else []
        return out

    def _candidates(self) -> dict[int, list[Candidate]]:
        bytes_of: dict[int, float] = {}
        for cls, shape in self.shape_of.items():
            dtype = self.dtype_of.get(cls)
            if dtype is not None and shape in self.shapes:
                bytes_of[cls] = self.model.bytes(dtype, self.shapes[shape])
                if small(TensorType(dtype, self.shapes[shape])):
                    self._small.add(cls)
        out: dict[int, list[Candidate]] = defaultdict(list)
        for name, sorts in self._sorts.items():
            for row in self.snapshot.table(name):
                tick()
                cls = row[-1]
                if cls not in bytes_of and name not in _UNTYPED:
                    continue  # a term that no shape function gave a type
                found = self._candidate(name, sorts, row, bytes_of.get(cls, 0.0), bytes_of)
                if found is not None:
                    out[cls].append(found)
        return dict(out)

    def _candidate(
        self, name: str, sorts: tuple[str, ...], row: Row, written: float, bytes_of: dict[int, float]
    ) -> Candidate | None:
        args, cls = row[:-1], row[-1]
        reads: list[int] = []
        sizes: tuple[int, ...] = ()
        if name == "Node":
            found = self._leaves(args[0])
            if found is None:
                return None
            reads = [self.class_of_node[node] for node in found]
            if args[0] in self.encoding.op_of_node:
                sizes = self.held_reads(self.encoding.op_of_node[args[0]][1])
        elif name == "Call":
            call = self.encoding.calls[args[0]]
            sizes = self.held_reads(call.op, call.sizes)
        for sort, arg in zip(sorts, args, strict=True):
            if sort == "T":
                reads.append(arg)
            elif sort == "Ts":
                reads.extend(self._lists[arg])
            elif sort == "Shape":
                if arg not in self.shapes:
                    return None
                if self._symbols:
                    sizes += self.size_reads(self.shapes[arg])
        unique = tuple(dict.fromkeys(reads))
        read = sum([bytes_of.get(each, 0.0) for each in unique])
        node = ENode(name, args)
        every = tuple(dict.fromkeys((*unique, *sizes)))
        if cls in self._small and self._small.issuperset(reads):
            cost = self.model.small(name)
            return Candidate(node, every, cost, cost)
        moves = self.model.node(name, written, read)
        return Candidate(node, every, moves + self._work(node, cls, reads, written), moves)

    def _work(self, node: ENode, cls: int, reads: Sequence[int], written: float) -> float:
        """What a node computes, as bytes."""
        if node.function in _ELEMENTWISE:
            return self.model.elementwise(node.args[0], self.dtype_of[cls], written)
        if node.function == "Call":
            call = self.encoding.calls[node.args[0]]
            key = (node.args[0], *(self.shape_of.get(each) for each in reads))
            if key not in self._work_of:
                operands = tuple(map(self._value, reads[: len(call.op.operands)], call.op.operands))
                self._work_of[key] = self.model.work(replace(call.op, operands=operands))
            return self._work_of[key]
        if node.function in self._computing:
            form = constructor(self._registry[node.function])
            attrs = {
                attr.name: attribute(self.encoding, self.shape, node.function, attr.kind, cell)
                for attr, cell in zip(form.decl.attrs, node.args[len(form.operands) :], strict=True)
            }
            result = self._value(cls, None)
            return self.model.work(
                Op(node.function, tuple(self._value(each, None) for each in reads), attrs, (result,))
            )
        return 0.0

    def _value(self, cls: int, known: Value | None) -> Value:
        """A value of the type of a class, another one where the e-graph does not know it."""
        dtype, shape = self.dtype_of.get(cls), self.shapes.get(self.shape_of.get(cls, -1))
        if dtype is None or shape is None:
            return known or Value("", TensorType(dtype or "f32", None))
        return Value("", TensorType(dtype, shape))


def _sorts(registry: Registry) -> dict[str, tuple[str, ...]]:
    """Argument sorts of each constructor of tensors."""
    out: dict[str, tuple[str, ...]] = {"Node": ("i64",), "Call": ("i64", "Ts", "Shape"), "Proj": ("T", "i64")}
    for family, arity in ELEMENTWISE.items():
        out[family.capitalize()] = ("String", *["T"] * arity)
    for decl in registry:
        if has_constructor(decl):
            form = constructor(decl)
            out[form.name] = (*form.operands, *form.attrs)
    return out
