"""Sizes as int64 tensors: each distinct value is computed once, as a vector of length 1 where it can be.

What several sizes make together is read from the shape of one tensor where one has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from egshape.dims import Dim, const, is_nonnegative, product, symbol
from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.onnx.emit_scope import Frame, Key, Scope
from egshape.frontends.size_terms import plan
from egshape.ir.graph import SymbolDef, Value

_PLAIN = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "mod": "Mod"}
MODS = 10
"""The opset since which there is Mod."""

SHAPE_RANGES = 15
"""The opset since which Shape takes a start and an end."""

EXTREMES = 12
"""The opset since which Max and Min take integers."""

AXES_AS_INPUT = 13
"""The opset since which Squeeze and Unsqueeze take their axes as an input."""


class Sizes:
    """Writes sizes into the graphs of a scope, in the outermost one where they are known."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    # -- vectors -------------------------------------------------------------------------------------------------

    def vector(self, dims: Sequence[Dim]) -> str:
        """The name of an int64 vector of sizes."""
        s, wanted = self.scope, tuple(dims)
        numbers = [size.const for size in wanted]
        if all(number is not None for number in numbers):
            return s.ints([number or 0 for number in numbers], "sizes")
        if len(wanted) == 1:
            return self.one(wanted[0])
        key: Key = ("vector", wanted)
        found = s.find(key)
        if found is None:
            found = self._read_run(wanted) or self._tensor(wanted) or self._joined(wanted)
            self._home(*wanted).memo[key] = found
        return found

    def at_hand(self, dims: Sequence[Dim]) -> bool:
        """Whether a vector of sizes takes one node at most."""
        wanted = tuple(dims)
        known = len(wanted) == 1 or all(size.const is not None for size in wanted)
        return known or self.scope.find(("vector", wanted)) is not None or self._holder(wanted) is not None

    def _read_run(self, dims: tuple[Dim, ...]) -> str | None:
        """A run of sizes that the shape of one tensor has."""
        found = self._holder(dims)
        return None if found is None else self._shape(*found, found[2] + len(dims))

    def _tensor(self, dims: tuple[Dim, ...]) -> str | None:
        """An integer vector that has these sizes as its elements."""
        frame = self._home(*dims)
        found = [frame.symbols.get(name) for size in dims for name in size.symbols() if symbol(name) is size]
        defines = [each for each in found if each is not None]
        if len(defines) != len(dims) or defines != [
            SymbolDef(each.name, defines[0].value, element=place) for place, each in enumerate(defines)
        ]:
            return None
        value = defines[0].value
        if value.type.shape != (const(len(dims)),):
            return None
        name = self.scope.named(value)
        return name if value.type.dtype == "i64" else self.scope.shared("Cast", [name], "sizes", frame, to=7)

    def _holder(self, dims: tuple[Dim, ...]) -> tuple[Frame, Value, int] | None:
        """The graph, the value and the axis where a run of sizes stands in a shape that one node can read: where all of
        them are known, since what reads the node may stand there too."""
        for frame in self.scope.around(self._home(*dims)):
            if dims in frame.shapes:
                value, start = frame.shapes[dims]
                whole = start == 0 and len(dims) == value.type.rank
                if whole or self.scope.opset >= SHAPE_RANGES:
                    return frame, value, start
        return None

    def _joined(self, dims: tuple[Dim, ...]) -> str:
        parts, at = [], 0
        while at < len(dims):
            end = self._run(dims, at)
            parts.append(self.vector(dims[at:end]))
            at = end
        return self.scope.node("Concat", parts, "sizes", self._home(*dims), axis=0)

    def _run(self, dims: tuple[Dim, ...], start: int) -> int:
        """Where the piece of a vector that begins at ``start`` ends: a run that is there, or constants, or one size."""
        if dims[start].const is not None:
            end = start + 1
            while end < len(dims) and dims[end].const is not None:
                end += 1
            return end
        for end in range(len(dims), start + 1, -1):
            piece = dims[start:end]
            partial = (start, end) != (0, len(dims)) and any(size.const is None for size in piece[1:])
            if partial and (self.scope.find(("vector", piece)) is not None or self._holder(piece) is not None):
                return end
        return start + 1

    def _shape(self, frame: Frame, value: Value, start: int, end: int) -> str:
        s, name = self.scope, self.scope.name_of[value]
        rank = value.type.rank
        if start == 0 and end == rank:
            return s.shared("Shape", [name], "shape", frame)
        if s.opset >= SHAPE_RANGES:
            held = {**({"start": start} if start else {}), **({"end": end} if end < rank else {})}
            return s.shared("Shape", [name], "shape", frame, **held)
        whole = s.shared("Shape", [name], "shape", frame)
        return s.shared("Gather", [whole, s.ints(range(start, end), "axis")], "size", frame, axis=0)

    # -- single sizes --------------------------------------------------------------------------------------------

    def one(self, dim: Dim) -> str:
        """The name of an int64 vector of one size."""
        s = self.scope
        if dim.const is not None:
            return s.ints([dim.const], "size")
        key: Key = ("one", dim)
        found = s.find(key)
        if found is None:
            frame = self._home(dim)
            found = self._compute(frame, dim)
            frame.memo[key] = found
        return found

    def scalar(self, dim: Dim) -> str:
        """The name of an int64 scalar."""
        s = self.scope
        if dim.const is not None:
            return s.constant(np.array(dim.const, np.int64), "size")
        key: Key = ("scalar", dim)
        found = s.find(key)
        if found is None:
            frame = self._home(dim)
            whole = None if s.find(("one", dim)) else self._counted(frame, dim)
            found = frame.memo[key] = whole or self.squeezed(self.one(dim), frame)
        return found

    def _counted(self, frame: Frame, dim: Dim) -> str | None:
        """The number of elements of a tensor that has so many."""
        for each in reversed(self.scope.around(frame)):
            for value in each.bound:
                if value.type.shape and product(value.type.shape) is dim:
                    return self.scope.shared("Size", [self.scope.name_of[value]], "size", each)
        return None

    def squeezed(self, name: str, frame: Frame) -> str:
        """A vector of one element as a scalar."""
        s = self.scope
        if s.opset >= AXES_AS_INPUT:
            return s.shared("Squeeze", [name, s.ints([0], "axes")], "size", frame)
        return s.shared("Squeeze", [name], "size", frame, axes=(0,))

    def cost(self, sizes: Iterable[Dim]) -> int:
        """How many nodes have to be added for sizes."""
        pending, seen = [size for size in sizes if size.const is None], set[Dim]()
        while pending:
            dim = pending.pop()
            if dim not in seen and self.scope.find(("one", dim)) is None:
                seen.add(dim)
                pending.extend(size for size in plan(dim).operands if size.const is None)
        return len(seen)

    def _home(self, *dims: Dim) -> Frame:
        """The outermost graph in which all symbols of sizes are known."""
        return self.scope.frames[max((self._depth(name) for dim in dims for name in dim.symbols()), default=0)]

    def _depth(self, name: str) -> int:
        for depth, frame in enumerate(self.scope.frames):
            define = frame.symbols.get(name)
            if symbol(name) in frame.axes or (define is not None and define.value in self.scope.name_of):
                return depth
            if define is not None and define.value in self.scope.waiting:
                return len(self.scope.frames) - 1  # written in the graph that reads it
        raise EgshapeError(f"nothing defines the size {name!r} here", code="internal")

    def _compute(self, frame: Frame, dim: Dim) -> str:
        step = plan(dim)
        if step.kind == "symbol":
            (name,) = dim.symbols()
            return self._symbol(frame, name)
        at_hand = all(size.const is not None or self.scope.find(("one", size)) for size in step.operands)
        if dim in frame.axes and (not at_hand or step.kind == "ceil"):  # which takes two nodes
            value, axis = frame.axes[dim]
            return self._shape(frame, value, axis, axis + 1)
        return self._operation(frame, step.kind, *step.operands)

    def _symbol(self, frame: Frame, name: str) -> str:
        if symbol(name) in frame.axes:
            value, axis = frame.axes[symbol(name)]
            return self._shape(frame, value, axis, axis + 1)
        return self._element(frame, frame.symbols[name])

    def _element(self, frame: Frame, define: SymbolDef) -> str:
        """An element of an integer tensor, with its offset added."""
        s, value = self.scope, define.value
        name = s.named(value)
        if define.axis is not None:
            return self._shape(frame, value, define.axis, define.axis + 1)
        if value.type.shape is None or value.type.rank != 1:
            name = s.shared("Reshape", [name, s.ints([-1], "flat")], "flat", frame)
        if value.type.shape != (const(1),) and any(size.const != 1 for size in value.type.dims):
            name = s.shared("Gather", [name, s.ints([define.element or 0], "place")], "size", frame, axis=0)
        if value.type.dtype != "i64":
            name = s.shared("Cast", [name], "size", frame, to=7)
        return s.shared("Add", [name, s.ints([define.offset], "offset")], "size", frame) if define.offset else name

    def _operation(self, frame: Frame, kind: str, one: Dim, two: Dim) -> str:
        s = self.scope
        if kind == "ceil":
            return self._operation(frame, "floor", one + (two - 1), two)
        x, y = self.one(one), self.one(two)
        if kind == "mod" and s.opset < MODS:
            whole = s.shared("Mul", [self._operation(frame, "floor", one, two), y], "size", frame)
            return s.shared("Sub", [x, whole], "size", frame)
        if kind in _PLAIN:
            return s.shared(_PLAIN[kind], [x, y], "size", frame)
        if kind == "floor":
            if not (is_nonnegative(one) and is_nonnegative(two)):  # Div truncates, Mod has the sign of the divisor
                if s.opset < MODS:
                    raise Unsupported(f"opset {s.opset} cannot divide what may be negative", hint="give --opset 13")
                rest = s.shared("Mod", [x, y], "size", frame)
                x = s.shared("Sub", [x, rest], "size", frame)
            return s.shared("Div", [x, y], "size", frame)
        if kind == "bcast":
            unit = s.shared("Equal", [x, s.ints([1], "size")], "is_one", frame)
            return s.shared("Where", [unit, y, x], "size", frame)
        return self.extreme(kind, x, y, frame)

    def clamped(self, name: str, low: str, high: str) -> str:
        """An integer tensor of the graph under construction, brought between two bounds."""
        frame = self.scope.frame
        return self.extreme("minimum", self.extreme("maximum", name, low, frame), high, frame)

    def extreme(self, kind: str, x: str, y: str, frame: Frame) -> str:
        """The maximum or minimum of two integer tensors."""
        s = self.scope
        if s.opset >= EXTREMES:
            return s.shared("Max" if kind == "maximum" else "Min", [x, y], "size", frame)
        less = s.shared("Less", [x, y], "is_less", frame)
        return s.shared("Where", [less, y, x] if kind == "maximum" else [less, x, y], "size", frame)
