"""The verifier: a graph that passes is well formed, and its types are what the shape functions give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim
from egshape.errors import EgshapeError
from egshape.ir.graph import Block, Graph, Op, Value, dims_of
from egshape.ir.types import DTYPES, TEXT
from egshape.ops import REGISTRY
from egshape.ops.base import AttrDecl, OpDecl, Registry

Equal = Callable[[Dim, Dim], bool]
"""Whether two sizes are equal at all admitted sizes."""


def verify(graph: Graph, *, equal: Equal | None = None, registry: Registry = REGISTRY) -> None:
    """Raise EgshapeError naming the op (index, name, location) for anything wrong: a value used before its
    definition or defined twice, wrong arity, attributes or regions, a type other than the shape function's,
    a symbol not defined by then, outputs without unique names.

    ``equal`` decides sizes that differ in form; without it only identity of form and what ``Op.requires``
    states count as equal."""
    if len(graph.output_names) != len(graph.outputs):
        raise _fault(f"{len(graph.outputs)} outputs have {len(graph.output_names)} names", graph.name)
    for name in graph.output_names:
        if graph.output_names.count(name) > 1:
            raise _fault(f"two outputs are named {name!r}", graph.name)
    _Verifier(graph.name, equal, registry).block(graph.body, "")


def _fault(message: str, where: str) -> EgshapeError:
    return EgshapeError(message, where=where, code="invalid-graph")


class _Verifier:
    def __init__(self, graph: str, equal: Equal | None, registry: Registry) -> None:
        self.graph = graph
        self.equal = equal
        self.registry = registry
        self.values: dict[str, Value] = {}
        self.symbols: dict[str, tuple[Value, int | None]] = {}

    def block(self, block: Block, path: str) -> None:
        """Check a block; values and symbols of enclosing blocks are visible, its own end with it."""
        values, symbols = len(self.values), len(self.symbols)
        by_value: dict[Value, list[Any]] = {}
        for define in block.symbols:
            if define.name in self.symbols or any(
                define.name == other.name and define is not other for other in by_value.get(define.value, ())
            ):
                raise _fault(f"the symbol {define.name!r} is defined twice", path or self.graph)
            by_value.setdefault(define.value, []).append(define)
        where = f"{path}arguments" if path else self.graph
        for value in [value for value in by_value if self.values.get(value.name) is value]:
            for define in by_value.pop(value):  # of an enclosing block's value: known from the start
                self.symbols[define.name] = (value, define.axis)
        self.define(block.args, by_value, where)
        for index, op in enumerate(block.ops):
            self.op(op, by_value, self.place(op, index, path))
        for value in block.results:
            self.visible(value, f"{path}return" if path else self.graph)
        if by_value:
            value = next(iter(by_value))
            raise _fault(
                f"the symbol {by_value[value][0].name!r} is of {value!r}, which the block does not define",
                where,
            )
        for known, count in ((self.values, values), (self.symbols, symbols)):  # dicts are in order of definition
            while len(known) > count:
                known.popitem()

    def place(self, op: Op, index: int, path: str) -> str:
        location = f" at {op.location}" if str(op.location) else ""
        return f"{path}op {index} ({op.name}{location})"

    def visible(self, value: Value, where: str) -> None:
        if self.values.get(value.name) is not value:
            raise _fault(f"%{value.name} is not defined before its use", where)

    def define(self, values: Sequence[Value], by_value: dict[Value, list[Any]], where: str) -> None:
        for value in values:
            if value.name in self.values:
                raise _fault(f"%{value.name} is defined twice", where)
            self.values[value.name] = value
            for define in by_value.pop(value, ()):
                if define.name in self.symbols:
                    raise _fault(f"the symbol {define.name!r} is defined twice", where)
                if (define.axis is None) == (define.element is None):
                    raise _fault(f"the symbol {define.name!r} needs an axis or an element", where)
                if define.axis is not None and not 0 <= define.axis < len(value.type.shape or ()):
                    raise _fault(f"the symbol {define.name!r} is axis {define.axis} of {value!r}", where)
                self.symbols[define.name] = (value, define.axis)
        for value in values:
            if value.type.dtype not in DTYPES and value.type.dtype != TEXT:
                raise _fault(f"%{value.name} has the unknown dtype {value.type.dtype!r}", where)
            for dim in value.type.shape or ():
                self.defined(dim, f"the type of %{value.name}", where)

    def defined(self, dim: Dim, what: str, where: str) -> None:
        for name in dim.symbols():
            if name not in self.symbols:
                raise _fault(f"{what} uses the symbol {name!r}, which is not defined here", where)

    def op(self, op: Op, by_value: dict[Value, list[Any]], where: str) -> None:
        for operand in op.operands:
            self.visible(operand, where)
            for define in by_value.pop(operand, ()):  # an element that a later op makes a symbol of
                self.symbols.setdefault(define.name, (operand, define.axis))
        if op.name not in self.registry:
            raise _fault(f"no op is named {op.name!r}", where)
        decl = self.registry[op.name]
        self.attributes(op, decl, where)
        regions = len(decl.regions)
        variadic = regions > 0 and decl.regions[-1].startswith("*")
        if len(op.regions) < regions - 1 if variadic else len(op.regions) != regions:
            raise _fault(f"has {len(op.regions)} regions, wants {regions}", where)
        for label, region in zip(_labels(decl.regions, len(op.regions)), op.regions, strict=True):
            self.block(region, f"{where}, region {label}, ")
        found = self.inferred(op, decl, where)
        if len(found) != len(op.results):
            raise _fault(f"gives {len(found)} results, not {len(op.results)}", where)
        self.define(op.results, by_value, where)
        for value, expected in zip(op.results, found, strict=True):
            self.type(op, value, expected, where)
        for relation in op.requires:
            self.defined(relation.lhs, "a requirement", where)
            self.defined(relation.rhs, "a requirement", where)

    def attributes(self, op: Op, decl: OpDecl, where: str) -> None:
        known = {attr.name: attr for attr in decl.attrs}
        for name, value in op.attrs.items():
            if name not in known:
                raise _fault(f"has no attribute {name!r}", where)
            if not _of_kind(value, known[name]):
                raise _fault(f"the attribute {name!r} is no {known[name].kind}: {value!r}", where)
            for dim in dims_of(value):
                self.defined(dim, f"the attribute {name!r}", where)
        for name in known:
            if name not in op.attrs:
                raise _fault(f"lacks the attribute {name!r}", where)
        fixed = len(decl.operands)
        count = len(op.operands)
        if count < fixed - decl.variadic or (not decl.variadic and count > fixed + len(decl.dynamic)):
            raise _fault(f"takes {fixed} operands, has {count}", where)

    def inferred(self, op: Op, decl: OpDecl, where: str) -> list[tuple[str, tuple[Dim | None, ...] | None]]:
        try:
            return decl.inferred(op)
        except EgshapeError as error:
            raise EgshapeError(error.message, where=where, code=error.code, hint=error.hint) from None

    def type(self, op: Op, value: Value, expected: tuple[str, tuple[Dim | None, ...] | None], where: str) -> None:
        dtype, shape = expected
        actual = value.type.shape
        if dtype != value.type.dtype or (shape is not None and (actual is None or len(actual) != len(shape))):
            raise _fault(f"%{value.name} is {value.type}, the op gives {_show(dtype, shape)}", where)
        for axis, (inferred, stated) in enumerate(zip(shape or (), actual or (), strict=False)):
            if inferred is None:
                if not self.names_axis(stated, value, axis) and not self.branches_agree(op, value, axis):
                    raise _fault(
                        f"axis {axis} of %{value.name} is {stated}, which nothing says: it must be a symbol "
                        "that this axis defines",
                        where,
                    )
            elif inferred is not stated and not self.same(inferred, stated, op):
                raise _fault(f"axis {axis} of %{value.name} is {stated}, the op gives {inferred}", where)

    def branches_agree(self, op: Op, value: Value, axis: int) -> bool:
        """Whether all branches of an if or case give this axis a size equal to the stated one."""
        place = op.results.index(value)
        given = [region.results[place].type.shape for region in op.regions]
        stated = value.type.dims[axis]
        return self.registry[op.name].traits.regions == "branch" and all(
            shape is not None and (shape[axis] is stated or self.same(shape[axis], stated, op)) for shape in given
        )

    def names_axis(self, stated: Dim, value: Value, axis: int) -> bool:
        if stated.const is not None:
            return True
        return any(self.symbols.get(name) == (value, axis) for name in stated.symbols())

    def same(self, one: Dim, two: Dim, op: Op) -> bool:
        for relation in op.requires:
            if relation.kind == "==" and {relation.lhs, relation.rhs} == {one, two}:
                return True
        return self.equal is not None and self.equal(one, two)


def _labels(regions: Sequence[str], count: int) -> list[str]:
    """Region names; a last one with a star stands for any number."""
    labels = [name.lstrip("*") for name in regions]
    return [*labels, *(f"{labels[-1]}{i}" for i in range(len(labels), count))][:count] if labels else []


def _of_kind(value: Any, decl: AttrDecl) -> bool:
    """Whether an attribute's value is of its declared kind; a default is always right."""
    if decl.default is not ... and _equals(value, decl.default):
        return True
    if decl.kind == "axes":
        return isinstance(value, tuple) and all(_is_int(item) for item in value)
    if decl.kind == "sizes":
        return isinstance(value, tuple) and all(isinstance(item, Dim) for item in value)
    if decl.kind in ("text", "dtype"):
        return isinstance(value, str) and (decl.kind == "text" or value in DTYPES)
    if decl.kind == "int":
        return _is_int(value)
    if decl.kind == "bool":
        return isinstance(value, bool)
    if decl.kind == "float":
        return isinstance(value, float)
    if decl.kind == "array":
        return isinstance(value, np.ndarray)
    return isinstance(value, tuple)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _equals(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, np.ndarray) and bool(value == default)


def _show(dtype: str, shape: Sequence[Dim | None] | None) -> str:
    return f"{dtype}[*]" if shape is None else f"{dtype}[{', '.join('?' if d is None else str(d) for d in shape)}]"
