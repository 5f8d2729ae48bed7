"""What an exported program makes of its inputs' sizes, as assertions in it. torch takes an equation of sizes that it
finds while it traces for granted, and leaves of its assertion what is always true."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from egshape.errors import Unsupported
from egshape.frontends.torch.emit import aten

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
}


def state(program: Any) -> None:
    """Add assertions to an exported program: each axis of an argument whose size torch computes of others has that
    size. Raises Unsupported for a size that is computed otherwise."""
    names = set(program.graph_signature.user_inputs)
    arguments = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    first = next(node for node in program.graph.nodes if node.op != "placeholder")
    with program.graph.inserting_before(first):
        _Stated(program.graph).add(arguments)


class _Stated:
    """The sizes of a graph as nodes."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self._known: dict[Any, Callable[[], Any]] = {}
        self._nodes: dict[Any, Any] = {}

    def add(self, arguments: list[Any]) -> None:
        """Assertions of the axes of computed sizes; that axes of one size have that torch asserts itself."""
        rest = []
        for node in arguments:
            for axis, size in enumerate(getattr(node.meta["val"], "shape", ())):
                expr = None if isinstance(size, int) else size.node.expr
                if expr is not None and expr.is_Symbol and expr not in self._known:
                    self._known[expr] = partial(self._size, node, axis, size)
                elif expr is not None and not expr.is_Symbol:
                    rest.append((node, axis, size))
        for node, axis, size in sorted(rest, key=lambda row: str(row[2])):
            self._define(node, axis, size)
            self._assert(node, axis, size)

    def _define(self, node: Any, axis: int, size: Any) -> None:
        """The symbol that is open in a linear size follows from it."""
        expr = size.node.expr
        missing = [each for each in expr.free_symbols if each not in self._known]
        if not missing:
            return
        (symbol, *more) = missing
        factor, offset = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
        if more or not (factor.is_Integer and offset.is_Integer and factor > 0):
            raise Unsupported(f"torch makes the size {expr} of axis {axis} of {node.name}")

        def solved() -> Any:
            shifted = self._call(operator.sub, expr - offset, self._size(node, axis, size), int(offset))
            return self._call(operator.floordiv, symbol, shifted, int(factor))

        self._known[symbol] = solved

    def _assert(self, node: Any, axis: int, size: Any) -> None:
        self._env = size.node.shape_env
        found = self.graph.call_function(operator.eq, (self._size(node, axis, size), self._of(size.node.expr)))
        found.meta["val"] = True
        message = f"axis {axis} of {node.name} is not {size.node.expr}"
        done = self.graph.call_function(aten("_assert_scalar.default"), (found, message))
        done.meta["val"] = None

    def _size(self, node: Any, axis: int, size: Any) -> Any:
        """The size that an axis has."""
        self._env = size.node.shape_env
        if (node, axis) not in self._nodes:
            found = self._nodes[node, axis] = self.graph.call_function(aten("sym_size.int"), (node, axis))
            found.meta["val"] = size
        return self._nodes[node, axis]

    def _of(self, expr: Any) -> Any:
        """The node, or number, that a size is."""
        if expr.is_Integer:
            return int(expr)
        if expr not in self._nodes:
            if expr.is_Symbol:
                self._nodes[expr] = self._known[expr]()
            elif type(expr).__name__ in _OPERATORS:
                name = type(expr).__name__
                found = self._of(expr.args[0])
                for place, each in enumerate(expr.args[1:], start=2):
                    part = expr if place == len(expr.args) else expr.func(*expr.args[:place])
                    found = self._call(_OPERATORS[name], part, found, self._of(each))
                self._nodes[expr] = found
            else:
                raise Unsupported(f"torch makes a size {expr}")
        return self._nodes[expr]

    def _call(self, target: Callable[[Any, Any], Any], expr: Any, one: Any, two: Any) -> Any:
        found = self.graph.call_function(target, (one, two))
        found.meta["val"] = self._env.create_symintnode(expr, hint=None)
        return found
