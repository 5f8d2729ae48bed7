"""Counts the operations of a StableHLO module by what they are for.

Every operation of every function and region counts, func and return included:

- structure: func.func, return, call, composite, and the terminators of regions;
- assertions: custom_call @shape_assertion, and the integer ops that they are computed from;
- constants: constants, wherever they are used;
- shape: the integer ops that shape operands (of dynamic_reshape, dynamic_pad, ...) are computed from and no
  assertion is;
- data: all others.

``dynamic`` cuts across these: real_dynamic_slice, get_dimension_size and all dynamic_*, except
dynamic_slice and dynamic_update_slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from egshape.frontends.stablehlo.parse import libraries

_STRUCTURE = {"func.func", "func.return", "func.call", "stablehlo.return", "stablehlo.composite"}
_FIXED = {"stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"}
_SHAPE_OPERANDS = {
    "stablehlo.dynamic_broadcast_in_dim": 1,
    "stablehlo.dynamic_reshape": 1,
    "stablehlo.dynamic_iota": 0,
    "stablehlo.real_dynamic_slice": 1,
    "stablehlo.dynamic_pad": 2,
    "stablehlo.dynamic_gather": 2,
    "stablehlo.dynamic_conv": 2,
}
"""Where the shape operands of an op begin; they are the last ones."""
_SHAPE_OF_REDUCE_WINDOW = 5
_INTEGERS = ("i32>", "i64>", "i1>", "index>", "ui32>", "ui64>", "i8>", "i16>")
_COMMUTATIVE = {"stablehlo.add", "stablehlo.multiply", "stablehlo.maximum", "stablehlo.minimum"}


@dataclass(frozen=True)
class OpCounts:
    """Numbers of operations. ``total = data + shape + constants + assertions + structure``.

    ``distinct_shape_values`` counts the values (element expressions, dtype and shape) that data ops read as
    shape operands or as sizes, and that are not constant."""

    total: int = 0
    dynamic: int = 0
    data: int = 0
    shape: int = 0
    constants: int = 0
    assertions: int = 0
    structure: int = 0
    distinct_shape_values: int = 0

    def __add__(self, other: OpCounts) -> OpCounts:
        return OpCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def count_ops(text: str | bytes) -> OpCounts:
    """The counts of a StableHLO module. Raises what jaxlib raises for text that does not parse."""
    hlo = libraries()
    with hlo.make_ir_context() as context, hlo.ir.Location.unknown(context):
        module = hlo.ir.Module.parse(text, context)
        functions = {view.operation.attributes["sym_name"].value: view.operation for view in module.body.operations}
        return _Counter(functions).count()


def _walk(op: Any) -> Iterator[Any]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield from _walk(view.operation)


def _target(op: Any) -> str:
    return str(op.attributes["call_target_name"].value) if op.name == "stablehlo.custom_call" else ""


def _is_integer(value: Any) -> bool:
    return str(value.type).endswith(_INTEGERS)


class _Counter:
    def __init__(self, functions: dict[str, Any]) -> None:
        self.ops = [op for function in functions.values() for op in _walk(function)]
        self.functions = functions
        self.maker: dict[Any, Any] = {}
        self.handed: dict[Any, list[Any]] = {}
        self.known: dict[Any, Any] = {}
        for op in self.ops:
            for value in op.results:
                self.maker[value] = op
        for op in self.ops:
            if op.name == "func.call":
                block = functions[op.attributes["callee"].value].regions[0].blocks[0]
                for inner, outer in zip(block.arguments, op.operands, strict=True):
                    self.handed.setdefault(inner, []).append(outer)

    def count(self) -> OpCounts:
        roots = [value for op in self.ops for value in self.shape_operands(op)]
        checked = [value for op in self.ops if _target(op) == "shape_assertion" for value in op.operands]
        assertion = self.slice(checked)
        sizes = self.slice(roots)
        shape = sizes - assertion
        counts = dict.fromkeys((f.name for f in fields(OpCounts)), 0)
        for op in self.ops:
            counts["total"] += 1
            counts["dynamic"] += self.is_dynamic(op)
            counts[self.part(op, shape, assertion)] += 1
        values = {self.expression(value) for value in self.read_by_data(sizes, assertion)}
        counts["distinct_shape_values"] = len([v for v in values if v[0] != "constant"])
        return OpCounts(**counts)

    def part(self, op: Any, shape: set[Any], assertion: set[Any]) -> str:
        if op.name in _STRUCTURE:
            return "structure"
        if _target(op) == "shape_assertion" or (op in assertion and op.name != "stablehlo.constant"):
            return "assertions"
        if op.name == "stablehlo.constant":
            return "constants"
        return "shape" if op in shape else "data"

    def is_dynamic(self, op: Any) -> bool:
        name = op.name
        if name in _FIXED:
            return False
        return name.startswith("stablehlo.dynamic_") or name in (
            "stablehlo.real_dynamic_slice",
            "stablehlo.get_dimension_size",
        )

    def shape_operands(self, op: Any) -> list[Any]:
        operands = list(op.operands)
        if op.name in _SHAPE_OPERANDS:
            return operands[_SHAPE_OPERANDS[op.name] :]
        if _target(op) == "stablehlo.dynamic_reduce_window":
            return operands[-_SHAPE_OF_REDUCE_WINDOW:]
        return []

    def slice(self, roots: list[Any]) -> set[Any]:
        """The integer ops that the roots are computed from, through calls, up to get_dimension_size."""
        found: set[Any] = set()
        stack = list(roots)
        seen = set(stack)
        while stack:
            value = stack.pop()
            nexts = list(self.handed.get(value, ()))
            op = self.maker.get(value)
            if op is not None and op.name not in _STRUCTURE and _is_integer(value):
                found.add(op)
                if op.name != "stablehlo.get_dimension_size":
                    nexts.extend(item for item in op.operands if _is_integer(item))
            elif op is not None and op.name == "func.call":
                function = self.functions[op.attributes["callee"].value]
                last = list(function.regions[0].blocks[0].operations)[-1].operation
                nexts.append(list(last.operands)[list(op.results).index(value)])
            for each in nexts:
                if each not in seen:
                    seen.add(each)
                    stack.append(each)
        return found

    def read_by_data(self, sizes: set[Any], assertion: set[Any]) -> list[Any]:
        """Shape-valued operands of data ops: those that neither sizes nor assertions are computed by."""
        out: list[Any] = []
        for op in self.ops:
            if op in sizes or op in assertion or op.name in _STRUCTURE or _target(op) == "shape_assertion":
                continue
            out.extend(value for value in op.operands if self.maker.get(value) in sizes)
        return out

    def expression(self, value: Any) -> Any:
        """A hashable expression of a value: equal ones hold the same elements by form."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._expression(value)
        return found

    def _expression(self, value: Any) -> Any:
        handed = self.handed.get(value)
        if handed:
            return self.expression(handed[0])
        op = self.maker.get(value)
        if op is None:
            return ("argument", str(value))
        name = op.name
        if name == "stablehlo.constant":
            return ("constant", str(op.attributes["value"]))
        if name == "stablehlo.get_dimension_size":
            (x,) = op.operands
            return (
                "size",
                self.expression(x) if x not in self.maker else str(x),
                op.attributes["dimension"].value,
            )
        operands = [self.expression(item) for item in op.operands]
        kind = str(value.type)
        if name in ("stablehlo.reshape", "stablehlo.convert") and str(next(iter(op.operands)).type) == kind:
            return operands[0]
        if name in _COMMUTATIVE:
            operands.sort(key=str)
        if all(item[0] == "constant" for item in operands) and operands:
            return ("constant", name, kind, *operands)
        dimension = op.attributes["dimension"].value if "dimension" in op.attributes else None
        return (name, kind, dimension, list(op.results).index(value), *operands)
