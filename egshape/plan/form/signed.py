"""Elements that may be negative, such as padding that is data, as differences of two sizes.

A symbol is a size, so that such an element plus an offset of 2**31 has one (``SymbolDef.offset``). Products of such
sums are beyond 64 bits; in terms of what an element is above and below zero they are as small as the sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from egshape.dims import Dim, maximum, symbol
from egshape.ir.graph import Block, Graph, Op, SymbolDef, Value
from egshape.ir.types import TensorType


def signed(graph: Graph) -> Graph:
    """The graph with such sums taken apart; the same one if there are none. ``halves`` gives the parts."""
    env = {each.name: part + each.offset for each in _offsets(graph.body) for part in (_difference(each.name),)}
    return replace(graph, body=_Signed(env).block(graph.body)) if env else graph


def halves(definition: SymbolDef) -> Iterator[tuple[str, Dim]]:
    """The sizes that stand for an element with an offset, in terms of its symbol; none for another one."""
    if definition.offset:
        element = symbol(definition.name) - definition.offset
        yield f"{definition.name}.above", maximum(element, 0)
        yield f"{definition.name}.below", maximum(-element, 0)


def _difference(name: str) -> Dim:
    return symbol(f"{name}.above") - symbol(f"{name}.below")


def _offsets(block: Block) -> Iterator[SymbolDef]:
    yield from (each for each in block.symbols if each.offset)
    for op in block.ops:
        for region in op.regions:
            yield from _offsets(region)


class _Signed:
    """Copies blocks with ``env`` in place of symbols."""

    def __init__(self, env: Mapping[str, Dim]) -> None:
        self._env = env
        self._values: dict[Value, Value] = {}

    def block(self, block: Block) -> Block:
        symbols = tuple(replace(each, value=self._value(each.value)) for each in block.symbols)
        return Block(
            tuple(map(self._value, block.args)),
            tuple(map(self._op, block.ops)),
            tuple(map(self._value, block.results)),
            symbols,
        )

    def _op(self, op: Op) -> Op:
        requires = tuple(replace(each, lhs=self._attr(each.lhs), rhs=self._attr(each.rhs)) for each in op.requires)
        return replace(
            op,
            operands=tuple(map(self._value, op.operands)),
            results=tuple(map(self._value, op.results)),
            attrs={key: self._attr(attr) for key, attr in op.attrs.items()},
            regions=tuple(map(self.block, op.regions)),
            requires=requires,
        )

    def _value(self, value: Value) -> Value:
        if value not in self._values:
            shape = value.type.shape
            self._values[value] = (
                value if shape is None else Value(value.name, TensorType(value.type.dtype, self._attr(shape)))
            )
        return self._values[value]

    def _attr(self, attr: Any) -> Any:
        if isinstance(attr, Dim):
            return attr.substitute(self._env)
        return tuple(map(self._attr, attr)) if isinstance(attr, tuple) else attr
