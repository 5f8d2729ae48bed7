"""Custom ops replaced by their bodies, and size functions by their expressions, for back ends and formats that do not
know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.ir.builder import BlockBuilder
from egshape.ir.functions import function_region
from egshape.ir.graph import Block, Graph, Op, SymbolDef, Value
from egshape.ir.types import TensorType, numpy_dtype
from egshape.ir.unfold import unfold
from egshape.ops import REGISTRY
from egshape.ops.base import OpDecl, Registry
from egshape.ops.custom import refusal
from egshape.ops.symbolic import dim_of
from egshape.rulelang.contract_compile import Condition

_SPREADING = ("unary", "binary", "ternary", "custom")
"""Families of ops for which a number among the operands stands for a tensor of the shape of the others."""


class Body:
    """What a custom op's ``body`` builds with: ``b.OP(*operands, **attributes)`` for every declared op.

    An operand may be a number where another operand (of several the last) says its type: in each element for an
    elementwise op, else a scalar; ``const`` and ``splat`` make constants. A region is the name of a function:
    ``b.reduce(x, 0, dims=(1,), body="add")``."""

    def __init__(self, builder: BlockBuilder, op: str) -> None:
        self._builder = builder
        self._op = op

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__") or name not in self._builder.registry:
            raise AttributeError(f"the body of {self._op} calls b.{name}, and no op is named {name!r}")

        def add(*operands: Any, **attrs: Any) -> Any:
            decl = self._builder.registry[name]
            values = self._values(operands, scalars=decl.family not in _SPREADING)
            regions = [
                function_region(self._builder, decl, values, attrs.pop(each)) for each in decl.regions if each in attrs
            ]
            sizes = {each.name for each in decl.attrs if each.kind == "sizes"} & attrs.keys()
            attrs |= {key: tuple(map(dim_of, attrs[key])) for key in sizes}
            found = self._builder.add(name, values, attrs, regions=regions)
            return found[0] if len(found) == 1 else found

        return add

    def const(self, number: float, dtype: str) -> Value:
        """A scalar constant."""
        return self._builder.one("constant", (), {"value": np.array(number, numpy_dtype(dtype))})

    def splat(self, number: float, like: Value) -> Value:
        """A constant of the dtype and shape of another value."""
        scalar = self.const(number, like.type.dtype)
        if like.type.dims == ():
            return scalar
        return self._builder.one("broadcast_in_dim", (scalar,), {"dims": (), "shape": like.type.dims})

    def _values(self, operands: Sequence[Any], *, scalars: bool) -> list[Value]:
        like = next((each for each in reversed(operands) if isinstance(each, Value)), None)
        if like is None and operands:
            raise EgshapeError(
                f"the body of {self._op} applies an op to numbers only",
                code="op-body",
                hint="use b.const(number, dtype)",
            )

        def value(each: Any) -> Value:
            if isinstance(each, Value) or like is None:
                found: Value = each
                return found
            return self.const(each, like.type.dtype) if scalars else self.splat(each, like)

        return list(map(value, operands))


def build_body(
    decl: OpDecl, operands: Sequence[TensorType], attrs: Mapping[str, Any], registry: Registry = REGISTRY
) -> Block:
    """The body of a custom op as a block whose arguments are its operands.

    Raises EgshapeError where the body is wrong, naming the op."""
    assert decl.body is not None
    builder = BlockBuilder(registry=registry)
    names = _operand_names(decl, len(operands))
    args = [builder.arg(name, type.dtype, type.shape) for name, type in zip(names, operands, strict=True)]
    try:
        found = decl.body(Body(builder, decl.name), *args, **attrs)
    except EgshapeError as error:
        raise EgshapeError(
            f"the body of {decl.name} is wrong: {error.message}", where=error.where, hint=error.hint, code="op-body"
        ) from error
    except Exception as error:
        raise EgshapeError(f"the body of {decl.name} fails: {type(error).__name__}: {error}", code="op-body") from error
    results = list(found) if isinstance(found, list | tuple) else [found]
    if not all(isinstance(value, Value) for value in results):
        raise EgshapeError(
            f"the body of {decl.name} does not give a value", code="op-body", hint="return what b.OP(...) gave"
        )
    return builder.finish(results)


def _operand_names(decl: OpDecl, count: int) -> list[str]:
    names = [name.removeprefix("*") for name in decl.operands]
    return names[:count] + [f"{names[-1]}{k}" for k in range(len(names), count)]


def expand(graph: Graph, registry: Registry = REGISTRY, *, keep: bool = False) -> Graph:
    """The graph with the body of each custom op in its place, and the expression of each size function of an author;
    the graph itself where it has none.

    keep: leave custom ops without a body, and bcast, as they are, instead of raising Unsupported with the op's name and
    place."""
    return unfold(_expanded(graph, registry, keep), shipped=not keep)


def _expanded(graph: Graph, registry: Registry, keep: bool) -> Graph:
    if not any(registry[op.name].custom for op in graph.body.walk() if op.name in registry):
        return graph
    names = {value.name for op in graph.body.walk() for value in op.results} | {v.name for v in graph.inputs}
    for op in graph.body.walk():
        names |= {value.name for region in op.regions for value in region.args}
    body = _Expander(registry, keep, names).block(graph.body, {})
    return replace(graph, body=body)


class _Expander:
    def __init__(self, registry: Registry, keep: bool, names: set[str]) -> None:
        self.registry = registry
        self.keep = keep
        self.names = names

    def block(self, block: Block, outer: Mapping[Value, Value]) -> Block:
        known = dict(outer)
        ops: list[Op] = []
        symbols = list(block.symbols)
        for each in block.ops:
            op = self._reading(each, known)
            decl = self.registry[op.name]
            if not decl.custom or (decl.body is None and self.keep):
                ops.append(op)
            elif decl.body is None:
                raise refusal(op.name, f"{op.name} at {op.location}" if str(op.location) else f"%{op.results[0].name}")
            else:
                self._expanded(op, decl, known, ops, symbols)
        results = tuple(known.get(value, value) for value in block.results)
        symbols = [replace(each, value=known.get(each.value, each.value)) for each in symbols]
        return Block(block.args, tuple(ops), results, tuple(symbols))

    def _reading(self, op: Op, known: Mapping[Value, Value]) -> Op:
        """The op with what it reads renamed, and its regions expanded."""
        operands = tuple(known.get(value, value) for value in op.operands)
        regions = tuple(self.block(region, known) for region in op.regions)
        return replace(op, operands=operands, regions=regions) if regions or operands != op.operands else op

    def _expanded(
        self, op: Op, decl: OpDecl, known: dict[Value, Value], ops: list[Op], symbols: list[SymbolDef]
    ) -> None:
        body = build_body(decl, [value.type for value in op.operands], op.attrs, self.registry)
        if len(body.results) != len(op.results):
            raise EgshapeError(
                f"the body of {op.name} gives {len(body.results)} results, its shape function {len(op.results)}",
                where=str(op.location),
                code="op-body",
            )
        ops += [_check(op, each) for each in decl.requires(op)]
        inside: dict[Value, Value] = dict(zip(body.args, op.operands, strict=True))
        needed: dict[Value, tuple[Relation, ...]] = {}
        made = {value for inner in body.ops for value in inner.results}
        for value, result in zip(body.results, op.results, strict=True):
            needed[value] = _equal_types(op, value.type, result.type)
            if value in made and value not in inside:
                inside[value] = result
        for inner in body.ops:
            results = tuple(inside.setdefault(value, self._fresh(op, value)) for value in inner.results)
            operands = tuple(inside.get(value, value) for value in inner.operands)
            requires = inner.requires + sum((needed.get(value, ()) for value in inner.results), ())
            ops.append(replace(inner, operands=operands, results=results, location=op.location, requires=requires))
        for value, result in zip(body.results, op.results, strict=True):
            if inside[value] is not result:
                known[result] = inside[value]
        symbols += [replace(each, value=inside[each.value]) for each in body.symbols]

    def _fresh(self, op: Op, value: Value) -> Value:
        base = f"{op.results[0].name}_{value.name}" if op.results else value.name
        name, count = base, 1
        while name in self.names:
            name, count = f"{base}_{count}", count + 1
        self.names.add(name)
        return Value(name, value.type)


def with_requirements(graph: Graph, registry: Registry = REGISTRY) -> Graph:
    """The graph with a check before each op of what its contract requires of sizes and no form shows: for what runs ops
    that reject less. A graph that is ``checked`` has the checks that it needs."""
    return replace(graph, body=_required(graph.body, registry, frozenset()))


def _required(block: Block, registry: Registry, held: frozenset[Relation]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        decl = registry[op.name]
        needed = {each.relation: each for each in decl.requires(op) if each.relation not in held}
        held |= needed.keys()
        ops += [_check(op, each) for each in needed.values()]
        inner = [_required(region, registry, held) if decl.nested else region for region in op.regions]
        ops.append(replace(op, regions=tuple(inner)) if decl.nested else op)
    return replace(block, ops=tuple(ops))


def _check(op: Op, condition: Condition) -> Op:
    """What the contract of an op requires, which what is put in its place need not."""
    told = condition.relation
    attrs = {"relation": told.kind, "sides": (told.lhs, told.rhs), "fact": ""}
    message, args = condition.placed()
    return Op("check", (), {**attrs, "message": message, "args": args}, (), (), location=op.location)


def _equal_types(op: Op, built: TensorType, stated: TensorType) -> tuple[Relation, ...]:
    """The sizes that must be equal for a body to give the type of its op. Raises EgshapeError if it cannot."""
    one, two = built.shape, stated.shape
    if built.dtype != stated.dtype or one is None or two is None or len(one) != len(two):
        raise EgshapeError(
            f"the body of {op.name} gives {built}, its shape function says {stated}",
            where=str(op.location),
            code="op-body",
        )
    return tuple(Relation("==", a, b, f"body of {op.name}") for a, b in zip(one, two, strict=True) if a is not b)
