"""Values as expressions: what an element of a value is, in terms of buffers and indices.

``Reader.read`` pulls an element through producers that have no buffer; movement ops only change the index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from egshape.dims import Dim, const
from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import is_complex
from egshape.ops import REGISTRY
from egshape.plan.analysis.elements import (
    Indices,
    is_elementwise,
    scalar_call,
    scalar_constant,
    unsupported,
)
from egshape.plan.analysis.known import Known
from egshape.plan.form.folding import Arrays
from egshape.plan.ir.loops import Buffer, Call, Expr, Load, linear

_FOLDS = frozenset(("add", "multiply", "maximum", "minimum"))


@dataclass(frozen=True)
class Frame:
    """Where a value lies within a larger one of ``sizes``, from ``low`` on along each axis."""

    buffer: Buffer
    sizes: tuple[Dim, ...]
    low: tuple[Dim, ...]

    def place(self, at: Indices) -> Dim:
        """Where an element lies."""
        return linear(tuple(low + index for low, index in zip(self.low, at, strict=True)), self.sizes)


class Regroup(ABC):
    """How the kernel in the making reads through reshapes that merge or regroup axes."""

    @abstractmethod
    def indices(self, op: Op, at: Indices) -> Indices:
        """The indices of a reshape's operand for those of its result."""


class Reader:
    """Reads elements of values, through ``movements`` too. ``places`` holds the values that lie in buffers."""

    def __init__(self, movements: Movements, facts: str = "all") -> None:
        self.movements = movements
        self.known = Known(facts)
        self.places: dict[Value, Buffer] = {}
        self.frames: dict[Value, Frame] = {}
        """Values that lie padded."""
        self.producers: dict[Value, Op] = {}
        self.same: dict[Value, Value] = {}
        self.constants: dict[Value, Buffer] = {}
        self.arrays = Arrays(self.producers, self.same)
        self.locals: dict[tuple[Value, Indices], Expr] = {}
        """Elements that the kernel in the making holds in locals."""
        self.memo: dict[tuple[Value, Indices], Expr] = {}
        self.scratch_axes = 1
        """Axes of a row."""
        self.scratch_rows: dict[Value, Buffer] = {}
        """Values of which the kernel in the making holds the current row in a buffer."""
        self.regroup: Regroup | None = None
        self.fresh = 0

    def name(self, kind: str) -> str:
        """A new name for a loop variable (``i``), index (``g``) or local (``v``)."""
        self.fresh += 1
        return f"${kind}{self.fresh}"

    def start(self) -> None:
        """Begin a new kernel."""
        self.memo.clear()
        self.locals.clear()

    def resolved(self, value: Value) -> Value:
        """The value that another name of it stands for."""
        while value in self.same:
            value = self.same[value]
        return value

    def read(self, value: Value, at: Indices) -> Expr:
        """The element of ``value`` at the indices."""
        value = self.resolved(value)
        key = (value, at)
        if key in self.locals:
            return self.locals[key]
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._read(value, at)
        return found

    def _read(self, value: Value, at: Indices) -> Expr:
        buffer = self.places.get(value)
        if buffer is not None:
            return Load(value.type.dtype, buffer, linear(at, value.type.dims))
        if value in self.frames:
            return Load(value.type.dtype, self.frames[value].buffer, self.frames[value].place(at))
        if value in self.scratch_rows:
            first = len(at) - self.scratch_axes
            return Load(value.type.dtype, self.scratch_rows[value], linear(at[first:], value.type.dims[first:]))
        op = self.producers[value]
        if is_elementwise(op):
            found = self.arrays.of(value) if REGISTRY[op.name].traits.effort == "function" else None
            if found is not None and not found.shape:
                return scalar_constant(found)
            if found is not None:
                return Load(value.type.dtype, self.folded(value), linear(at, value.type.dims))
            return scalar_call(op, tuple(self.read(x, at if x.type.shape else ()) for x in op.operands))
        return self.movements[op.name](self, op, at)

    def read_flat(self, value: Value, at: Dim) -> Expr | None:
        """The element at a flat place, where all between it and buffers is elementwise."""
        value = self.resolved(value)
        if not value.type.dims:
            return self.read(value, ())
        if value in self.places:
            return Load(value.type.dtype, self.places[value], at)
        op = self.producers[value]
        if op.name == "broadcast_in_dim" and not op.operands[0].type.dims:
            return self.read(op.operands[0], ())
        if op.name != "reshape" and not is_elementwise(op):
            return None
        args = [self.read_flat(operand, at) for operand in op.operands]
        found = tuple(arg for arg in args if arg is not None)
        if len(found) < len(args):
            return None
        return found[0] if op.name == "reshape" else scalar_call(op, found)

    def constant(self, op: Op) -> Buffer:
        """The buffer of an array constant."""
        if is_complex(op.result.type.dtype):
            raise unsupported(op, "complex constants are not compiled")
        return self.folded(op.result)

    def folded(self, value: Value) -> Buffer:
        """The buffer of a value that hangs on constants only."""
        if value not in self.constants:
            data = np.ascontiguousarray(self.arrays.of(value))
            self.constants[value] = Buffer(value.name, value.type.dtype, const(data.size), "const", data)
        return self.constants[value]

    def scalars(self, op: Op, block: Block, args: Sequence[Expr], fast: bool = False) -> list[Expr]:
        """The results of a region of scalars for the arguments. ``fast``: let a lone float op be reassociated."""
        env: dict[Value, Expr] = dict(zip(block.args, args, strict=True))

        def get(value: Value) -> Expr:
            return env[value] if value in env else self.read(value, ())

        for inner in block.ops:
            if is_elementwise(inner):
                call = scalar_call(inner, tuple(get(x) for x in inner.operands))
                if fast and isinstance(call, Call) and len(block.ops) == 1 and inner.name in _FOLDS:
                    call = Call(call.dtype, call.op, call.args, call.attrs, fast=True)
                env[inner.result] = call
            elif inner.name == "constant" and not inner.attrs["value"].shape:
                env[inner.result] = scalar_constant(inner.attrs["value"])
            elif inner.name in ("broadcast_in_dim", "reshape") and inner.result.type.shape == ():
                env[inner.result] = get(inner.operands[0])
            else:
                raise unsupported(op, f"has a region with {inner.name}, only scalar arithmetic is compiled there")
        return [get(value) for value in block.results]


Movements: TypeAlias = Mapping[str, Callable[[Reader, Op, Indices], Expr]]
"""Ops that need no loop of their own: how an element of the (first) result is read."""
