"""torch out: a graph as calls of ATen in a graph of ``torch.fx``.

Sizes that the graph holds as attributes become ``sym_size`` and arithmetic of ``SymInt``, each distinct value once,
and only where a call asks for them: ``expand`` keeps sizes that are there, ``flatten`` and ``squeeze`` need none,
elementwise calls broadcast by themselves. What came in as one ATen op goes out as one. Checks are assertions, in their
order."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np

from egshape.dims import Dim, bcast, const, symbol
from egshape.errors import EgshapeError, Unsupported
from egshape.facts import Relation
from egshape.frontends.bounds import Bounds
from egshape.frontends.frontend import Cost
from egshape.frontends.size_terms import plan
from egshape.frontends.torch.emitting import EMITTERS, NARROW
from egshape.ir.arrays import is_splat
from egshape.ir.graph import Block, Op, SymbolDef, Value, dims_of
from egshape.ir.inputs import linear
from egshape.ir.types import numpy_dtype
from egshape.ops.checks import format_message
from egshape.ops.contraction import summed_in

ONE = const(1)

_LAZY = frozenset(("constant", "broadcast_in_dim", "dims", "get_dimension_size", "iota", "slice"))
"""Ops that are written where something reads them."""

_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor": operator.floordiv,
    "ceil": operator.floordiv,
    "mod": operator.mod,
}
_RELATIONS: Mapping[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
}


@cache
def aten(name: str) -> Any:
    """An overload of ATen by its name, such as ``add.Tensor``."""
    import torch

    op, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, op), overload)


@dataclass(frozen=True)
class Source:
    """What an operand is a broadcast of: where its axes are in the operand, their sizes, and what writes it."""

    axes: tuple[int, ...]
    value: Value
    dims: tuple[Dim, ...]
    write: Callable[[], Any]


class Emitter:
    """Writes one block into a graph of torch; regions have emitters of their own."""

    def __init__(self, graph: Any, bounds: Bounds, kept: Set[Op], *, trusting: bool) -> None:
        """``kept``: the checks that are written though they are known to hold. ``trusting``: the program leaves to
        torch what torch does not define, such as floats beyond an integer."""
        self.graph, self.bounds, self.kept, self.trusting = graph, bounds, kept, trusting
        self.constants: dict[str, np.ndarray] = {}
        """What the module holds as tensors."""
        self.modules: dict[str, Any] = {}
        """What the module holds as modules: the regions of control flow."""
        self.nodes: dict[Value, Any] = {}
        self.checks = 0
        """How many nodes only check."""
        self.readers: Counter[Value] = Counter()
        """How often each value is read."""
        self._makers: dict[Value, Op] = {}
        self._memo: dict[Any, Any] = {}
        self._sizes: dict[Dim, Any] = {}
        self._axes: dict[Dim, tuple[Any, int]] = {}
        self._symbols: dict[str, SymbolDef] = {}
        self._inputs: tuple[Value, ...] = ()

    # -- blocks ------------------------------------------------------------------------------------------------

    def block(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """Write a block whose arguments are these nodes; the nodes of its results."""
        self.enter(block, arguments)
        alive = live(block)
        self.readers.update(block.readers())
        for op in block.ops:
            self._makers.update(dict.fromkeys(op.results, op))
            if op.name == "check":
                self._check(op)
            elif op in alive and not self._waits(op):
                self._op(op)
            for relation in op.requires:
                self.bounds.learn(relation)
        return [self.node(value) for value in block.results]

    def enter(self, block: Block, arguments: Sequence[Any]) -> None:
        """Bind the arguments and symbols of a block."""
        self._inputs = self._inputs or block.args
        self._symbols.update((each.name, each) for each in block.symbols)
        for value, node in zip(block.args, arguments, strict=True):
            self.bind(value, node)

    def bind(self, value: Value, node: Any) -> None:
        """A value is this node from now on, and the sizes of its axes are there."""
        self.nodes[value] = node
        for axis, size in enumerate(value.type.shape or ()):
            if size.const is None:
                self._axes.setdefault(size, (node, axis))

    def node(self, value: Value) -> Any:
        """The node of a value, which is written now if it waits for a reader."""
        if value not in self.nodes:
            self._op(self._makers[value])
        return self.nodes[value]

    def _op(self, op: Op) -> None:
        if all(value in self.nodes for value in op.results) and op.results:
            return
        if op.name not in EMITTERS:
            raise self.unsupported(op, f"the op {op.name}")
        found = EMITTERS[op.name](self, op)
        for value, node in zip(op.results, found if isinstance(found, list) else [found], strict=True):
            self.bind(value, node)

    def _waits(self, op: Op) -> bool:
        """Whether an op is written only where something reads it: one that may be left to torch, makes a scalar of a
        size, or computes what may be rounded to 16 bits at once."""
        if op.name in _LAZY or self._widens(op):
            return True
        scalar = op.name in ("convert", "reshape") and not op.result.type.shape
        return scalar and self.producer(op.operands[0], "dims", "convert", "reshape") is not None

    def _widens(self, op: Op) -> bool:
        if len(op.results) != 1 or op.name not in ("convert", *NARROW) or op.result.type.dtype != "f32":
            return False
        short = any(summed_in(each.type.dtype) != each.type.dtype for each in op.operands)
        makers = (self.producer(each, "convert", "dot_general") for each in op.operands)
        return short or (op.name != "convert" and any(maker and self._widens(maker) for maker in makers))

    def child(self, graph: Any) -> Emitter:
        """What writes a region: what is learnt there holds there alone."""
        return Emitter(graph, self.bounds.with_fact(), self.kept, trusting=self.trusting)

    def _check(self, op: Op) -> None:
        before = len(self.graph.nodes)
        kind, message = op.attrs["relation"], op.attrs["message"]
        if kind == "value":
            text = format_message(message, [value.name for value in op.operands[1:]] or op.attrs["args"])
            condition = self.node(op.operands[0])
            written = len(self.graph.nodes)
            self.effect("_assert_async.msg", condition, text)
            self.checks += len(self.graph.nodes) - written
            return
        relation = Relation(kind, *op.attrs["sides"])
        if op not in self.kept and self.bounds.decide(relation) is True:
            return
        self.assertion(relation, format_message(message, op.attrs["args"]))
        self.bounds.learn(relation)
        self.checks += len(self.graph.nodes) - before

    def assertion(self, relation: Relation, message: str) -> None:
        """An assertion of a relation of sizes."""
        sides = [self.size(each) for each in (relation.lhs, relation.rhs)]
        self.effect("_assert_scalar.default", self.compute(_RELATIONS[relation.kind], *sides), message)

    def same(self, one: Any, two: Any, message: str) -> None:
        """An assertion that two sizes are equal."""
        self.effect("_assert_scalar.default", self.compute(operator.eq, one, two), message)

    def cost(self) -> Cost:
        """The nodes, those that only check apart, and the bytes of what the module holds."""
        inner = [each.cost() for each in self.modules.values()]
        own = sum(node.op == "call_function" for node in self.graph.nodes) - self.checks
        held = sum(array.nbytes for array in self.constants.values())
        count, size = sum(each.count for each in inner), sum(each.bytes for each in inner)
        return Cost(own + count, "nodes", held + size, self.checks + sum(each.checks or 0 for each in inner))

    # -- calls -------------------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """A call of ATen with one result; equal calls are one."""
        return self.compute(aten(name), *args, **options)

    def compute(self, target: Any, *args: Any, **options: Any) -> Any:
        """A call of a function that gives the same for the same; equal calls are one."""
        key = (target, _frozen(args), _frozen(sorted(options.items())))
        if key not in self._memo:
            self._memo[key] = self.graph.call_function(target, args, options)
        return self._memo[key]

    def instead(self, node: Any, other: Any) -> None:
        """A call that nothing reads goes, another stands for it where sizes are read."""
        self._memo = {key: each for key, each in self._memo.items() if each is not node}
        self._axes = {size: (other if each is node else each, axis) for size, (each, axis) in self._axes.items()}
        if not node.users:
            self.graph.erase_node(node)

    def effect(self, name: str, *args: Any) -> None:
        """A call for what it does."""
        self.graph.call_function(aten(name), args)

    def held(self, child: Emitter) -> Any:
        """The module that a region is."""
        name = f"region{len(self.modules)}"
        self.modules[name] = child
        return self.attribute(name)

    def attribute(self, name: str) -> Any:
        """What the module holds under a name."""
        return self.graph.get_attr(name)

    def constant(self, array: np.ndarray, hint: str = "constant") -> Any:
        """A tensor that the module holds."""
        key = (array.dtype.name, array.shape, array.tobytes() if array.nbytes <= _SMALL else id(array))
        if key not in self._memo:
            wanted = name = named(hint)
            while name in self.constants or any(each.startswith(f"{name}.") for each in self.constants):
                name = f"{wanted}_{len(self.constants)}"
            self.constants[name] = array
            self._memo[key] = self.attribute(name)
        return self._memo[key]

    # -- sizes -------------------------------------------------------------------------------------------------

    def size(self, dim: Dim) -> Any:
        """A size: a number, or the node that gives it."""
        if dim.const is not None:
            return dim.const
        if dim not in self._sizes:
            self._sizes[dim] = self._sized(dim)
        return self._sizes[dim]

    def sizes(self, dims: Sequence[Dim]) -> list[Any]:
        """Sizes, each a number or a node."""
        return [self.size(dim) for dim in dims]

    def given(self, dim: Dim, node: Any) -> None:
        """A size that a node gives."""
        self._sizes.setdefault(dim, node)

    def knows(self, name: str) -> bool:
        """Whether the size of this name can be told here."""
        known = symbol(name) in self._axes or symbol(name) in self._sizes or name in self._symbols
        return known or self._solved(name) is not None

    def _sized(self, dim: Dim) -> Any:
        import torch

        step = plan(dim)
        if step.kind == "symbol":
            (name,) = dim.symbols()
            return self._symbol(name)
        if dim in self._axes and not all(each.const is not None or each in self._sizes for each in step.operands):
            return self.call("sym_size.int", *self._axes[dim])
        one, two = step.operands
        x, y = self.size(one + (two - 1) if step.kind == "ceil" else one), self.size(two)
        if step.kind == "bcast":
            return self.compute(torch.sym_ite, self.compute(operator.eq, x, 1), y, x)
        if step.kind in ("maximum", "minimum"):
            return self.compute(torch.sym_max if step.kind == "maximum" else torch.sym_min, x, y)
        return self.compute(_OPERATORS[step.kind], x, y)

    def _symbol(self, name: str) -> Any:
        if symbol(name) in self._axes:
            return self.call("sym_size.int", *self._axes[symbol(name)])
        define = self._symbols.get(name)
        if define is not None and define.axis is not None:
            return self.call("sym_size.int", self.node(define.value), define.axis)
        if define is not None:
            flat = self.call("reshape.default", self.node(define.value), [-1])
            found = self.call("item.default", self.call("select.int", flat, 0, define.element or 0))
            return self.compute(operator.add, found, define.offset) if define.offset else found
        solved = self._solved(name)
        if solved is None:
            raise EgshapeError(f"nothing defines the size {name!r} here", code="internal")
        value, axis, factor, offset = solved
        found = self.call("sym_size.int", self.node(value), axis)
        found = self.compute(operator.sub, found, offset) if offset else found
        return self.compute(operator.floordiv, found, factor) if factor != 1 else found

    def _solved(self, name: str) -> tuple[Value, int, int, int] | None:
        """An axis of an input from which a size follows: the axis is factor times the size, plus an offset."""
        for value in self._inputs:
            for axis, size in enumerate(value.type.shape or ()):
                found = linear(size)
                if found is not None and found[0] == name and found[1] > 0:
                    return value, axis, found[1], found[2]
        return None

    # -- what operands are -------------------------------------------------------------------------------------

    def producer(self, value: Value, *names: str) -> Op | None:
        """The op that made a value if it is one of these; None for another, and for an argument."""
        op = self._makers.get(value)
        return op if op is not None and op.name in names else None

    def waiting(self, value: Value, *names: str) -> Op | None:
        """The op that makes a value if it is one of these, is not written yet, and has one reader."""
        return self.producer(value, *names) if self.readers[value] == 1 and value not in self.nodes else None

    def narrow(self, value: Value, dtype: str) -> Any:
        """The node of a value as it was before it was widened from a dtype; None where that is not known."""
        if value.type.dtype == dtype:
            return self.node(value)
        op = self.producer(value, "convert", "constant")
        if op is None:
            return None
        if op.name == "convert":
            (inner,) = op.operands
            return self.node(inner) if inner.type.dtype == dtype else None
        array = op.attrs["value"]
        short = array.astype(numpy_dtype(dtype))
        return self.constant(short) if (short.astype(array.dtype) == array).all() else None

    def number(self, value: Value) -> Any:
        """The number, or the node of the size, that each element of a value is; None where that is not known."""
        op = self.producer(value, "constant", "broadcast_in_dim", "convert", "reshape", "dims")
        if op is None:
            return None
        if op.name == "constant":
            array = op.attrs["value"]
            return array.reshape(-1)[0].item() if array.size and is_splat(array) else None
        if op.name == "dims":
            size = op.attrs["elements"]
            return self.size(size[0]) if len(size) == 1 and op.attrs["dtype"] in ("i32", "i64") else None
        found = self.number(op.operands[0])
        if op.name != "convert" or found is None:
            return found
        if isinstance(found, bool | int | float | complex):
            return None
        return found if value.type.dtype not in ("i1", "i8", "ui8") else None

    def source(self, value: Value) -> Source:
        """What a value is a broadcast of; itself if it is none."""
        axes = tuple(range(value.type.rank))
        while value not in self.nodes and (op := self.producer(value, "broadcast_in_dim")) is not None:
            axes = tuple(axes[axis] for axis in op.attrs["dims"])
            value = op.operands[0]
        iota = self.producer(value, "iota")
        if iota is not None and value not in self.nodes:
            axis, place = axes[iota.attrs["dim"]], iota.attrs["shape"][iota.attrs["dim"]]
            return Source((axis,), value, (place,), lambda: self.line(place, iota.attrs["dtype"]))
        return Source(axes, value, value.type.dims, lambda: self.node(value))

    def line(self, size: Dim, dtype: str) -> Any:
        """0, 1, ... of a length."""
        return self.call("arange.default", self.size(size), dtype=dtype_of(dtype))

    def nonempty(self, size: Dim) -> bool:
        """Whether a size is surely not 0."""
        return self.bounds.decide(Relation("<=", ONE, size)) is True

    @staticmethod
    def unsupported(op: Op, what: str) -> Unsupported:
        """The error for an op that torch has no form of."""
        where = str(op.location) or (f"%{op.results[0].name}" if op.results else op.name)
        return Unsupported(f"{what} has no form in torch", where=where, hint="save it as .mlir or .onnx")


_SMALL = 1024
"""Constants of at most so many bytes that are equal become one."""


def dtype_of(dtype: str) -> Any:
    """The ``torch.dtype`` of one of our names."""
    from egshape.frontends.torch.types import torch_dtype

    return torch_dtype(dtype)


def broadcast(sizes: Sequence[Dim]) -> Dim:
    """What sizes broadcast to."""
    return reduce(bcast, sizes, ONE)


def named(text: str) -> str:
    """A text as the path of an attribute, with dots between names."""
    return ".".join("".join(c if c.isalnum() or c == "_" else "_" for c in part) or "_" for part in text.split("."))


def live(block: Block) -> set[Op]:
    """The ops on which results, checks and other effects hang."""
    wanted = set(block.results)
    out: set[Op] = set()
    for op in reversed(block.ops):
        if not wanted.isdisjoint(op.results) or effects(op):
            wanted.update(op.reads())
            out.add(op)
    return out


def effects(op: Op) -> bool:
    """Whether an op is there for what it does."""
    return op.name in ("check", "host_effect", "custom_call") or any(
        effects(each) for region in op.regions for each in region.ops
    )


def symbols_in(block: Block) -> Iterator[str]:
    """The names of all sizes of which a block speaks."""
    for op in block.walk():
        for attr in op.attrs.values():
            for dim in dims_of(attr):
                yield from dim.symbols()
        for value in op.results:
            for dim in value.type.shape or ():
                yield from dim.symbols()


def _frozen(value: Any) -> Any:
    """Arguments as a key; numbers of different kinds are different."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return (type(value), repr(value)) if isinstance(value, bool | int | float | complex) else value
