"""One block under conversion: ONNX's names to our values, and what handlers add ops with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

from egshape.dims import Dim, const
from egshape.errors import EgshapeError, Unsupported
from egshape.facts import Relation
from egshape.frontends.onnx.node import STANDARD, Node, resolved
from egshape.frontends.onnx.program import Operand, Program
from egshape.frontends.onnx.registry import Fork, NoLowering, results_of
from egshape.frontends.onnx.spans import Lookup
from egshape.ir.builder import BlockBuilder, small
from egshape.ir.graph import NOWHERE, Block, Location, Value
from egshape.ir.types import numpy_dtype
from egshape.ops import REGISTRY
from egshape.ops.base import ELEMENT_LIMIT, concrete_attrs, object_array

DECIDED = 24
"""Statements about larger expressions are left undecided: they take long, and are seldom decided."""


MOST_SIZES = 4096
"""No tensor has so many axes."""


FORKS = 64
"""So often is tried which way of a node the nodes after it can take."""

LOOKUPS = 4
"""So many facts that lookups give are tried."""


class Scope:
    """A block under conversion. ``names`` are those that it defines; it reads those of ``parent`` too."""

    def __init__(
        self,
        program: Program,
        builder: BlockBuilder,
        opsets: Mapping[str, int],
        *,
        parent: Scope | None = None,
        stack: tuple[str, ...] = (),
    ) -> None:
        self.program = program
        self.builder = builder
        self.opsets = opsets
        self.parent = parent
        self.stack = stack
        self.certain = builder.parent is None
        """Whether what is added here runs whenever the graph does: what it makes sure of holds behind it."""
        self.names: dict[str, Operand] = {}
        self.initializers: dict[str, TensorProto | np.ndarray] = {}
        self.stated: dict[str, TypeProto] = {}
        """Types that the model states of tensors."""
        self.location: Location = NOWHERE
        self.needs: list[Relation] = []
        """Relations on which the next op relies."""
        self.label = ""
        """The first output of the node, after which sizes are named."""
        self._vectors: dict[Any, Value] = {}

    # -- reading -----------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Operand:
        """What a name stands for. Raises EgshapeError for one that nothing defines."""
        if name in self.names:
            return self.names[name]
        if name in self.initializers:
            found = self.names[name] = self._initializer(name)
            return found
        if self.parent is not None:
            return self.parent.lookup(name)
        raise EgshapeError(f"nothing defines {name!r}", where=str(self.location), code="invalid-model")

    def state(self, infos: Iterable[ValueInfoProto]) -> None:
        """Note what the model states of tensors."""
        self.stated.update({info.name: info.type for info in infos if info.type.tensor_type.elem_type})

    def stated_type(self, name: str) -> TypeProto | None:
        """The type that the model states of a tensor of this block or those around, None if none."""
        found = self.stated.get(name)
        return self.parent.stated_type(name) if found is None and self.parent is not None else found

    def known_rank(self, name: str) -> int | None:
        """The rank that is known of a tensor apart from the node that makes it, None if none."""
        return None if self.stack else self.program.ranks.get(name)

    def told_rank(self, name: str) -> int | None:
        """The rank of a tensor that is said beside the model, or that uses tell, None if none."""
        return None if self.stack else self.program.told.get(name)

    def _initializer(self, name: str) -> Value:
        held = self.initializers[name]
        if isinstance(held, TensorProto) and held.data_type == TensorProto.STRING:
            return self._text(held, name)
        array = held if isinstance(held, np.ndarray) else self.program.model.array(held, f"initializer {name}")
        return self._bound(self.constant(array, Location(name=name)), name)

    def _text(self, held: TensorProto, name: str) -> Value:
        """An initializer of text, as what a node gives: our constants are numbers."""
        proto = helper.make_node("Constant", [], [name], value=held)
        node = Node(proto, self.opsets[""], {each.name: each for each in proto.attribute})
        (found,) = self.program.call(self, node, [])
        assert isinstance(found, Value)
        return found

    def array(self, value: Value | None) -> np.ndarray | None:
        """The array of a value that is a constant, else None."""
        return None if value is None else self.program.arrays.get(value)

    def items(self, value: Value) -> list[Any] | None:
        """What is known of the elements of a small tensor, in row-major order."""
        known = self.builder.elements(value)
        return None if known is None else list(known.reshape(-1))

    def dims(self, value: Value) -> tuple[Dim, ...] | None:
        """The elements of an integer tensor where all are sizes."""
        if value.type.shape is not None and any(size.const == 0 for size in value.type.shape):
            return ()
        found = self.items(value)
        return tuple(found) if found is not None and all(isinstance(item, Dim) for item in found) else None

    def numbers(self, value: Value | None) -> tuple[int, ...] | None:
        """The elements of an integer tensor that is a constant, however it was computed."""
        if value is None:
            return None
        array = self.array(value)
        if array is not None and array.dtype.kind in "iub":
            return tuple(int(item) for item in array.reshape(-1))
        found = self.dims(value)
        numbers = () if found is None else tuple(item.const for item in found)
        known = tuple(number for number in numbers if number is not None)
        return known if found is not None and len(known) == len(found) else None

    @staticmethod
    def single(value: Value) -> bool:
        """Whether a tensor has one element, whatever the sizes."""
        return value.type.shape is not None and all(size.const == 1 for size in value.type.shape)

    def sizes(self, value: Value, label: str, key: str = "shape", *, signed: bool = False) -> tuple[Dim, ...]:
        """The elements of an integer vector as sizes; unknown ones become symbols named after ``label``, which must
        not be negative when the graph runs unless ``signed``. What that relies on is required by the next op."""
        if value.type.rank > 1 or any(size.const is None for size in value.type.dims):
            raise NoLowering("how many sizes there are is data")
        found = self.dims(value)
        if found is not None and not found:
            return ()
        if any((size.const or 0) > MOST_SIZES for size in value.type.dims):
            raise EgshapeError(
                f"takes a shape of {value.type.dims[0]} sizes", where=str(self.location), code="invalid-model"
            )
        for size in found or ():
            if size.const is not None and size.const < 0 and not signed:
                raise EgshapeError(f"a size is {size.const}", where=str(self.location), code="invalid-model")
        sizes, needs = self.builder.sizes(label, value, key, signed)
        self.needs += needs
        shape = tuple(size.const or 0 for size in value.type.dims)
        self.builder.set_elements(value, object_array(sizes, shape))
        return sizes

    def decide(self, kind: str, one: Dim, two: Dim | int) -> bool | None:
        """Whether a relation of sizes holds at all sizes, at none, or neither."""
        other = two if isinstance(two, Dim) else const(two)
        if kind == "<=" and one.const is not None and one.const <= 0 and other in self.program.sizes:
            return True
        if kind == "<" and other.const is not None and other.const <= 0 and one in self.program.sizes:
            return False
        relation = Relation(kind, one, other)
        if relation not in self.program.decided:
            self.program.decided[relation] = self._decided(relation)
        return self.program.decided[relation]

    def _decided(self, relation: Relation) -> bool | None:
        if _weight(relation.lhs) + _weight(relation.rhs) > DECIDED:
            return None
        answer = self.program.bounds.decide(relation)
        for lookup in self.program.lookups if answer is None else ():
            answer = lookup.decide(relation, self.program.bounds)
            if answer is not None:
                break
        return answer

    def assumed(self, relation: Relation) -> bool | None:
        """Whether a relation of sizes holds by the facts that are given beside the model, None if they do not say."""
        return self.program.assumed.decide(relation)

    def implies_one(self, given: Dim, other: Dim) -> bool:
        """Whether ``other`` is 1 wherever ``given`` is, which holds too where that is never 1."""
        if self.decide("!=", given, 1) is True:
            return True
        if _weight(given) + _weight(other) > DECIDED or not given.symbols() & other.symbols():
            return False
        bounds = self.program.bounds.with_fact(Relation("==", given, const(1)))
        return bounds.decide(Relation("==", other, const(1))) is True

    def known_symbols(self) -> set[str]:
        """The symbols that this block and those around it define."""
        known: set[str] = set()
        builder: BlockBuilder | None = self.builder
        while builder is not None:
            known |= {each.name for each in builder.symbols}
            builder = builder.parent
        return known

    def look_up(self, places: Value, size: Dim) -> None:
        """Note that elements of a tensor are places on an axis of this size."""
        span = self.program.spans.get(places)
        if span is not None and self.certain:
            found = Lookup.of(span, size)
            if found not in self.program.lookups and len(self.program.lookups) < LOOKUPS:
                self.program.lookups.append(found)
                self.program.decided.clear()

    def moved(self, source: Value, target: Value) -> Value:
        """``target``, whose elements are those of ``source`` in another shape."""
        span = self.program.spans.get(source)
        if span is not None:
            self.program.spans[target] = span.among(target.type.dims)
        return target

    def learn(self, one: Dim, two: Dim) -> None:
        """Note that an op that was just added makes sure that two sizes are equal."""
        if one is not two and self.certain:
            self.program.bounds.learn(Relation("==", one, two))
            self.program.decided.clear()

    def need(self, relation: Relation) -> None:
        """Require a relation of the next op, unless it holds; what is added from now on knows it."""
        if self.decide(relation.kind, relation.lhs, relation.rhs) is True:
            return
        self.needs.append(relation)
        if self.certain:
            self.program.bounds.learn(relation)
            self.program.decided.clear()

    def rely(self, value: Value) -> None:
        """Note that what the op that was just added, and gave ``value``, relies on is proved or checked there."""
        ops = self.builder.ops
        if self.certain and ops and value in ops[-1].results and ops[-1].requires:
            for relation in ops[-1].requires:
                self.program.bounds.learn(relation)
            self.program.decided.clear()

    # -- writing -----------------------------------------------------------------------------------------------

    def one(self, name: str, operands: Sequence[Value] = (), **attrs: Any) -> Value:
        """Add one of our ops with one result; an op on small constants is computed."""
        folded = self._folded(name, operands, attrs)
        if folded is not None:
            return self.constant(folded)
        return self.add(name, operands, attrs)[0]

    def add(
        self,
        name: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Any],
        *,
        regions: Sequence[Block] = (),
        result_names: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """Add one of our ops at the place of the node."""
        needs, self.needs = self.needs, []
        return self.builder.add(
            name,
            operands,
            attrs,
            regions=regions,
            location=self.location,
            result_names=[each or None for each in result_names],
            requires=needs,
        )

    def _folded(self, name: str, operands: Sequence[Value], attrs: Mapping[str, Any]) -> np.ndarray | None:
        decl = REGISTRY[name]
        if not operands or decl.effect or decl.regions or any(each not in self.program.arrays for each in operands):
            return None
        arrays = [self.program.arrays[each] for each in operands]
        given = concrete_attrs(attrs)
        if given is None or sum(array.size for array in arrays) > ELEMENT_LIMIT:
            return None
        if np.prod([float(size) for size in given.get("shape", ())]) > ELEMENT_LIMIT:
            return None
        full = {each.name: each.default for each in decl.attrs if each.default is not ...}
        try:
            return np.asarray(decl.reference(*arrays, **{**full, **given}))
        except (EgshapeError, ArithmeticError, LookupError, TypeError, ValueError):
            return None  # the op itself will say what is wrong

    def constant(self, array: np.ndarray, location: Location | None = None) -> Value:
        """Add a constant."""
        value = self.builder.one("constant", (), {"value": array}, location=location or self.location)
        self.program.arrays[value] = array
        return value

    def scalar(self, number: float, dtype: str) -> Value:
        """A scalar constant."""
        return self.constant(np.array(number).astype(numpy_dtype(dtype)))

    def full(self, number: float, like: Value) -> Value:
        """A constant number in the dtype and shape of a value."""
        return self.spread(self.scalar(number, like.type.dtype), like.type.dims)

    def spread(self, scalar: Value, shape: Sequence[Dim]) -> Value:
        """A scalar, repeated to a shape."""
        return scalar if not shape else self.one("broadcast_in_dim", (scalar,), dims=(), shape=tuple(shape))

    def vector(self, sizes: Sequence[Dim], dtype: str = "i64", shape: tuple[int, ...] | None = None) -> Value:
        """An integer tensor of sizes, a vector unless a shape is given; each is added once a block."""
        where = (len(sizes),) if shape is None else shape
        if all(size.const is not None for size in sizes):
            return self.constant(np.array([size.const for size in sizes]).astype(numpy_dtype(dtype)).reshape(where))
        key = (tuple(sizes), dtype, where)
        if key not in self._vectors:
            self._vectors[key] = self.one("dims", elements=tuple(sizes), shape=where, dtype=dtype)
        return self._vectors[key]

    def canonical(self, value: Value) -> Value:
        """A small integer tensor of known sizes as one ``dims`` op, whatever computed it; any other value as it is."""
        if value in self.program.arrays or not small(value.type):
            return value
        found = self.items(value)
        shape = tuple(size.const or 0 for size in value.type.dims)
        if found and all(isinstance(item, bool) for item in found):
            return self.constant(np.array(found, dtype=bool).reshape(shape))
        if not found or value.type.dtype == "i1" or not all(isinstance(item, Dim) for item in found):
            return value
        return self.vector(found, value.type.dtype, shape)

    # -- regions -----------------------------------------------------------------------------------------------

    def child(self) -> Scope:
        """A region of an op of this block, which reads the names of this one."""
        return Scope(self.program, self.builder.child(), self.opsets, parent=self, stack=self.stack)

    def region(
        self, arguments: Sequence[tuple[str, Sequence[Dim]]], body: Callable[..., Value | Sequence[Value]]
    ) -> Block:
        """A region with arguments of these types; ``body`` gets the scope and the arguments, and gives the results."""
        inner = self.child()
        inner.location, inner.label = self.location, self.label
        args = [inner.builder.arg(None, dtype, tuple(shape)) for dtype, shape in arguments]
        return inner.builder.finish(results_of(body(inner, *args)))

    def argument(self, builder: BlockBuilder, value: Value) -> Value:
        """An argument of a region, of which is known what is of a value."""
        arg = builder.arg(None, value.type.dtype, value.type.shape)
        known = self.builder.elements(value)
        if known is not None:
            builder.set_elements(arg, known)
        if value in self.program.arrays:
            self.program.arrays[arg] = self.program.arrays[value]
        if value in self.program.spans:
            self.program.spans[arg] = self.program.spans[value]
        return arg

    # -- nodes -------------------------------------------------------------------------------------------------

    def run(self, nodes: Sequence[NodeProto], attributes: Mapping[str, Any] | None = None) -> None:
        """Convert nodes in order. ``attributes`` are those of a call whose function holds the nodes."""
        for place, proto in enumerate(nodes):
            domain = "" if proto.domain in STANDARD else proto.domain
            opset = self.opsets.get(domain)
            node = Node(proto, 1 if opset is None else opset, resolved(proto, attributes))
            self.location, self.label = node.location, next(iter(node.outputs), "")
            if opset is None:
                raise node.error(f"is of the domain {domain!r}, of which the model imports no opset")
            try:
                self._node(node)
            except Fork as fork:
                self._fork(fork, node, nodes[place + 1 :], attributes)

    def _fork(self, fork: Fork, node: Node, rest: Sequence[NodeProto], attributes: Mapping[str, Any] | None) -> None:
        """Take the only way of a node that fits; where several do, the node runs on the host, its rank unknown."""
        try:
            way = self._taken(fork, node, rest, attributes) if fork.assumed is None else fork.assumed
        except Unsupported:
            operands = [self.lookup(name) if name else None for name in node.inputs]
            self._bind(node, self.program.call(self, node, operands))
            return
        fork.choose(self, way)
        self._bind(node, fork.ways[way](self))

    @contextmanager
    def trial(self, stack: tuple[str, ...] | None = None) -> Iterator[Scope]:
        """A block that is thrown away, and with it what it notes of sizes: later ones may have the same names."""
        out = self.child()
        out.builder, out.stack = self.builder.trial(), self.stack if stack is None else stack
        hosted, relations = len(self.program.hosted), len(self.program.relations)
        try:
            yield out
        finally:
            del self.program.hosted[hosted:], self.program.relations[relations:]

    def _taken(self, fork: Fork, node: Node, rest: Sequence[NodeProto], attributes: Mapping[str, Any] | None) -> int:
        """The only way with which the nodes that follow fit together. Raises Unsupported if there are several, and
        the error of the last one if there is none."""
        self.program.forks += 1
        if self.program.forks > FORKS:
            raise Unsupported("more branches differ in rank than are tried", where=str(node.location))
        fits, failed = [], None
        for way, results in enumerate(fork.ways):
            with self.trial() as trial:
                try:
                    trial._bind(node, results(trial))
                    trial.run(rest, attributes)
                    fits.append(way)
                except EgshapeError as error:
                    failed = error
        if len(fits) > 1:
            raise Unsupported(
                "the branches differ in rank, and what follows takes both",
                where=str(node.location),
                hint="fix the sizes on which the condition depends",
            )
        if failed is not None and not fits:
            raise failed
        return fits[0]

    def _node(self, node: Node) -> None:
        operands = [self.lookup(name) if name else None for name in node.inputs]
        try:
            results = self.program.lower(self, node, operands)
        except EgshapeError as error:
            if error.where:
                raise
            raise type(error)(
                f"{node.op}: {error.message}", where=str(node.location), hint=error.hint, code=error.code
            ) from None
        self._bind(node, results)

    def _bind(self, node: Node, results: Sequence[Operand]) -> None:
        for name, result in zip(node.outputs, results, strict=False):
            if name:
                self.names[name] = self._bound(result, name) if isinstance(result, Value) else result

    def _bound(self, value: Value, name: str) -> Value:
        """The value under its ONNX name, which a new one takes on."""
        found = self.canonical(value)
        if value in self.program.choices:
            self.program.choices[found] = self.program.choices[value]
        if found not in self.program.named and found.name.isdigit():
            found.name = self.builder.names.fresh(name)
        self.program.named.add(found)
        self.program.sizes.update(found.type.shape or ())
        return found


def _weight(size: Dim) -> int:
    return sum(1 + len(mono) for mono, _ in size.terms)
