"""One block under conversion: MLIR's values to ours, and the ops that a handler adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from egshape.dims import Dim, const
from egshape.errors import EgshapeError, Unsupported
from egshape.facts import Relation
from egshape.frontends.bounds import Bounds
from egshape.frontends.calls import Functions, demands, in_callers_terms, likeness
from egshape.frontends.stablehlo import sharding
from egshape.frontends.stablehlo.attributes import TensorInfo
from egshape.frontends.stablehlo.node import Body, Node
from egshape.frontends.stablehlo.tree import Module
from egshape.ir.builder import BlockBuilder, TensorDeclaration
from egshape.ir.calls import split
from egshape.ir.graph import Block, Location, Op, Value
from egshape.ops import REGISTRY
from egshape.ops.base import OpDecl

Handler = Callable[["Scope", Node], Sequence["Value | None"]]
"""Adds what an op means and gives its results; None for a value that is no tensor (a shape witness)."""


TOKEN = "!stablehlo.token"
"""The type of what orders effects, the only one of ``main`` that is no tensor's."""

MOST_OPS, DEEPEST = 200_000, 150
"""Ops of a program with its calls in line, and calls within calls: functions that each call the next one twice make
millions, and the conversion is as deep as they are."""


@dataclass(frozen=True)
class Program:
    """What all blocks of one conversion share."""

    module: Module
    handlers: Mapping[str, Handler]
    plain: Mapping[str, OpDecl]
    """Ops without attributes by their MLIR name."""
    carry: Handler
    """Adds an op that is carried through as it came."""
    proved: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    """Message and location of the assertions that hold by form, and the bounds of sizes by which they do."""
    numbers: Iterator[int] = field(default_factory=count)
    converted: Iterator[int] = field(default_factory=count)
    """Counts the ops."""
    bounds: Bounds = field(default_factory=Bounds)
    calls: dict[tuple[Any, ...], list[Value | None]] = field(default_factory=dict)
    """Results of calls without effects, by block, function and arguments."""
    joins: dict[Dim, tuple[Dim, ...]] = field(default_factory=dict)
    """Of common sizes of broadcasts, the sizes that they join."""
    functions: Functions = field(default_factory=Functions)
    shared: frozenset[str] = frozenset()
    """Functions that stay functions wherever they can."""
    foreign: dict[Value, str] = field(default_factory=dict)
    """Values that are no tensors of ours, and their types: only ops that are carried through read them."""


def plain_ops() -> dict[str, OpDecl]:
    """The declared ops by MLIR name that need nothing but their operands."""
    return {
        f"{dialect}.{name}": decl
        for dialect in ("stablehlo", "chlo")
        for name, decl in REGISTRY.by_frontend(dialect).items()
        if not decl.attrs and not decl.regions
    }


class Scope:
    """A block under conversion inside one inlined call."""

    def __init__(
        self,
        program: Program,
        builder: BlockBuilder,
        values: dict[int, Value | None],
        stack: tuple[str, ...],
        apart: bool = False,
    ) -> None:
        """``apart``: in the region of a reducer or the like, which holds no calls."""
        self.program = program
        self.builder = builder
        self.values = values
        self.stack = stack
        self.apart = apart

    # -- reading ---------------------------------------------------------------------------------------

    def operands(self, node: Node) -> list[Value]:
        """The operands, all of them tensors."""
        return [self.operand(node, index) for index in range(len(node.operands))]

    def operand(self, node: Node, index: int) -> Value:
        """One operand. Raises Unsupported if it is no tensor."""
        value = self.values[node.operands[index]]
        if value is None:
            raise Unsupported(f"{node.name} reads a value that is no tensor", where=str(node.location))
        self.ours(value, node.name, node.location)
        return value

    def ours(self, value: Value, name: str, location: Location) -> None:
        """Raise Unsupported for a value of a type that is not ours, which ``name`` does more with than carry it."""
        if value in self.program.foreign:
            raise Unsupported(
                f"{name} has a value of type {self.program.foreign[value]}, which is not supported", where=str(location)
            )

    def declared(self, node: Node) -> list[TensorDeclaration]:
        """The result types that the model states. Raises Unsupported for types that are not ours."""
        return [checked(info, node.location, node.name).declared for info in node.types]

    def static(self, node: Node) -> tuple[Dim, ...]:
        """The shape of the only result, which this op must state."""
        ((_, shape),) = self.declared(node)
        if shape is None or None in shape:
            raise EgshapeError(
                f"{node.name}: the sizes of the result type {node.types[0].text} are not all numbers",
                where=str(node.location),
                hint="use the dynamic form of the op",
            )
        return dims(size for size in shape if size is not None)

    # -- writing ---------------------------------------------------------------------------------------

    def emit(
        self,
        node: Node,
        name: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        *,
        regions: Sequence[Block] = (),
        requires: Sequence[Relation] = (),
    ) -> tuple[Value, ...]:
        """Add the op that stands for ``node``, with the types that the model states."""
        return self.builder.add(
            name,
            operands,
            attrs,
            regions=regions,
            location=node.location,
            declared=self.declared(node),
            requires=requires,
        )

    def one(self, node: Node, name: str, operands: Sequence[Value] = (), **attrs: Any) -> Value:
        """Add an auxiliary op with one result, at the place of ``node``."""
        return self.builder.one(name, operands, attrs, location=node.location)

    def constant(self, node: Node, array: np.ndarray) -> Value:
        """Add a constant."""
        return self.one(node, "constant", value=array)

    # -- blocks ----------------------------------------------------------------------------------------

    def run(self, body: Body) -> list[Value | None]:
        """Convert the ops of a body whose arguments are bound; what it returns."""
        values = self.values
        for node in body.nodes:
            if next(self.program.converted) >= MOST_OPS:
                raise Unsupported(
                    f"more than {MOST_OPS:,} ops, each call in line",
                    where=str(node.location),
                    hint="calls of calls multiply: give a part of the program",
                )
            results = self._converted(node)
            for key, value in zip(node.results, results, strict=True):
                values[key] = value
            for value, name in zip(results, node.names, strict=False):
                if value is not None:
                    self._call_it(value, name)
        return [values[key] for key in body.results]

    def _converted(self, node: Node) -> Sequence[Value | None]:
        """What stands for an op: ours, or itself as it came where ours is not defined for the dtype."""
        try:
            return self._known(node)
        except ValueError:  # the rank of a value that has none was asked for
            given = [self.values[key] for key in node.operands]
            if all(value is None or value.type.shape is not None for value in given):
                raise
            raise Unsupported(
                f"{node.name} of a value of unknown rank",
                where=str(node.location),
                hint="write the type of the value with a rank, as tensor<?x?xf32>",
            ) from None

    def _known(self, node: Node) -> Sequence[Value | None]:
        handler = self.program.carry if node.single else self.program.handlers.get(node.name)
        try:
            if handler is not None:
                found = handler(self, node)
                return found if node.single else self._sharded(node, found)
            if node.name in self.program.plain:
                found = self.emit(node, self.program.plain[node.name].name, self.operands(node))
                return self._sharded(node, found)
        except EgshapeError as error:
            if node.instead is None or error.code != "invalid-op" or self.apart:
                raise
            return self.program.carry(self, node.instead())
        raise Unsupported(
            f"op {node.name} is not supported",
            where=str(node.location) or node.name,
            hint="ops of other dialects than stablehlo must be lowered to it",
        )

    def _sharded(self, node: Node, results: Sequence[Value | None]) -> Sequence[Value | None]:
        """Results behind what the op says of their devices; in a reducer there is nothing to say."""
        return results if self.apart else sharding.of_results(self.builder, node, results)

    def _call_it(self, value: Value, name: str) -> None:
        """Give a value that has a number the name that the text gives it, if that is free; one whose sizes are called
        after its number keeps it."""
        builder = self.builder
        free = value.name.isdecimal() and not any(each.value is value for each in builder.symbols)
        if free and builder.names.fresh(name) == name:
            value.name = name

    def tensors(self, body: Body, location: Location, tokens: bool = False) -> list[Value]:
        """``run`` for a body that returns tensors only, or also ``tokens``."""
        results = [value for value in self.run(body) if value is not None]
        if len(results) != len(body.results):
            raise Unsupported("a block returns a value that is no tensor", where=str(location))
        for value in results:
            if not tokens or self.program.foreign.get(value) != TOKEN:
                self.ours(value, "a block", location)
        return results

    def child(self) -> Scope:
        """A region of an op of this block; it reads the values of this one."""
        return Scope(self.program, self.builder.child(), self.values, self.stack, self.apart)

    def region(self, node: Node, body: Body) -> Block:
        """A region whose arguments have the types that the model states (scalars of reducers, or none)."""
        inner = self.child()
        inner.apart = self.apart or bool(body.args)
        for key, info in zip(body.args, body.types, strict=True):
            checked(info, node.location, node.name)
            self.values[key] = inner.builder.arg(None, info.dtype, info.shape)
        return inner.builder.finish(inner.tensors(body, node.location))

    def region_of(self, body: Body, given: Sequence[Value], name: str, location: Location) -> Block:
        """A function as a region: its arguments have the types and the elements of the given values."""
        inner = self._inside(body, given, name)
        return inner.builder.finish(inner.tensors(body, location))

    def _inside(self, body: Body, given: Sequence[Value], name: str) -> Scope:
        inner = Scope(self.program, self.builder.child(), {}, (*self.stack, name), self.apart)
        for key, value in zip(body.args, given, strict=True):
            arg = inner.builder.arg(None, value.type.dtype, value.type.shape)
            known = self.builder.elements(value)
            if known is not None:
                inner.builder.set_elements(arg, known)
            inner.values[key] = arg
        return inner

    def call(self, name: str, operands: Sequence[Value | None], node: Node) -> list[Value | None]:
        """What a function gives: a call of one that is shared, else its body in the place of the call."""
        function = self.enter(name, node)
        stated = self.program.module.function(name)
        operands = sharding.of_values(self.builder, operands, stated.arg_attributes, node.location)
        key = (self.builder, name, *map(self._identity, operands))
        known = self.program.calls.get(key)
        if known is not None:
            return known
        first = len(self.builder.ops)

        def body(program: Program, builder: BlockBuilder, arguments: Sequence[Value | None]) -> list[Value | None]:
            given = dict(zip(function.args, arguments, strict=True))
            return Scope(program, builder, given, (*self.stack, name), self.apart).run(function)

        try:
            results = self._as_call(name, function, operands, node) or body(self.program, self.builder, operands)
        except EgshapeError as error:
            whole = self.program
            alone = partial(body, Program(whole.module, whole.handlers, whole.plain, whole.carry))
            raise in_callers_terms(error, f"@{name}", str(node.location), operands, self.builder, alone) from None
        results = sharding.of_values(self.builder, results, stated.result_attributes, node.location)
        if not any(has_effect(op) for op in self.builder.ops[first:]):
            self.program.calls[key] = results
        return results

    def _as_call(
        self, name: str, function: Body, operands: Sequence[Value | None], node: Node
    ) -> list[Value | None] | None:
        """The results of a call of a shared function, whose sizes are those of the caller; None where it has to stand
        in line: it defines sizes, gives some, or does more than check them."""
        given = [value for value in operands if value is not None and self._is_ranked(value)]
        if name not in self.program.shared or self.apart or len(given) != len(operands):
            return None
        kind = (name, *(likeness(self.builder, value) for value in given))
        found = self.program.functions.region(kind, self.builder.names, lambda: self._derived(name, function, given))
        if found is None:
            return None
        checks, region = found
        for each in checks:
            self.builder.add("check", (), each.attrs, location=each.location)
        return list(self.emit(node, "call", given, {"name": name}, regions=(region,), requires=demands(region.ops)))

    def _derived(self, name: str, function: Body, given: Sequence[Value]) -> tuple[tuple[Op, ...], Block] | None:
        noted = len(self.program.proved)
        inner = self._inside(function, given, name)
        results = [value for value in inner.run(function) if value is not None]
        plain = len(results) == len(function.results) and all(
            self._is_ranked(value) and inner.builder.elements(value) is None for value in results
        )
        region = inner.builder.finish(results) if plain else None
        if region is None or region.symbols or not all(self._is_pure(op) for op in region.walk()):
            del self.program.proved[noted:]
            return None
        return split(region)

    def _is_ranked(self, value: Value) -> bool:
        return value not in self.program.foreign and value.type.shape is not None

    def _is_pure(self, op: Op) -> bool:
        effect = REGISTRY[op.name].effect and op.name != "check"
        return not effect and all(value.type.shape is not None for value in op.results)

    def _identity(self, value: Value | None) -> Any:
        """What makes two arguments the same: for a scalar size its expression, else the value itself."""
        if value is None or value.type.shape != ():
            return value
        known = self.builder.elements(value)
        item = None if known is None else known.reshape(-1)[0]
        return (value.type.dtype, item) if isinstance(item, Dim) else value

    def enter(self, name: str, node: Node) -> Body:
        """The body of a function that is called. Raises Unsupported for recursion."""
        if name in self.stack:
            raise Unsupported(f"@{name} calls itself", where=str(node.location), hint="write it as stablehlo.while")
        if len(self.stack) >= DEEPEST:
            raise Unsupported(
                f"more than {DEEPEST} calls within calls",
                where=str(node.location),
                hint="inline the calls of the module",
            )
        if name not in self.program.module:
            raise EgshapeError(
                f"{node.name} names the function @{name}, which the module does not hold",
                where=str(node.location),
            )
        return self.program.module.function(name).body


def has_effect(op: Op) -> bool:
    """Whether an op, or one in its regions, must run though nobody reads its results."""
    return REGISTRY[op.name].effect or any(has_effect(each) for region in op.regions for each in region.ops)


def checked(info: TensorInfo, location: Location, what: str) -> TensorInfo:
    """The type if it is a tensor of one of our dtypes. Raises Unsupported if not."""
    if not info.dtype:
        raise Unsupported(f"{what} has a value of type {info.text}, which is not supported", where=str(location))
    return info


def dims(sizes: Any) -> tuple[Dim, ...]:
    """Dims of integers."""
    return tuple([const(int(size)) for size in sizes])
