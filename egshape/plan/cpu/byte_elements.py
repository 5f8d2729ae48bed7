"""Elements of products of bytes: i8 or ui8 as they are read, or these minus a zero point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from egshape.ir.graph import Block, Op, Value
from egshape.plan.form.matrices import Axes, axes_of
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Buffer,
    Call,
    Const,
    Expr,
    Let,
    Load,
)
from egshape.plan.ir.walk import dims

BYTES = ("i8", "ui8")


_RANGES = {"i8": (-128, 127), "ui8": (0, 255)}


_MOVE = 128


@dataclass(frozen=True, eq=False)
class Element:
    """An element of an operand: a byte minus a zero point (i32), if there is one."""

    byte: Expr
    zero: Expr | None

    def moved(self, dtype: str) -> Element:
        """The same with bytes of this kind."""
        if self.byte.dtype == dtype:
            return self
        move = Const("i32", _MOVE if dtype == "ui8" else -_MOVE)
        return Element(moved_byte(self.byte, dtype), move if self.zero is None else called("add", self.zero, move))


def is_product(p: Steps, op: Op) -> bool:
    """Whether an op is an i32 product of bytes, as they are read."""
    if op.name != "dot_general" or op.attrs["dtype"] != "i32":
        return False
    if any(x.type.dtype not in ("i32", *BYTES) for x in op.operands):
        return False
    d = axes_of(p, op)
    p.start()
    return all(element(p, p.read(*side), d.deep) is not None for side in d.operands)


def element(p: Steps, expr: Expr, axes: Axes) -> Element | None:
    """An operand's element as a byte and a zero point that is the same along the axes; None if it is no such."""
    deep = {name for index, _ in axes for name in index.symbols()}
    if isinstance(expr, Call) and expr.op == "subtract" and expr.dtype == "i32":
        found, zero = _byte(p, expr.args[0]), expr.args[1]
        return None if found is None or deep & _names(zero) else Element(found, zero)
    found = _byte(p, expr)
    return None if found is None else Element(found, None)


def _byte(p: Steps, expr: Expr) -> Expr | None:
    """The byte that an i32 expression is; a constant of few values is made one of bytes."""
    if expr.dtype in BYTES:
        return expr
    if isinstance(expr, Call) and expr.op == "convert":
        return expr.args[0] if expr.args[0].dtype in BYTES else None
    if isinstance(expr, Const) and -128 <= expr.value <= 255:
        return Const("i8" if expr.value < 128 else "ui8", expr.value)
    if isinstance(expr, Load) and expr.buffer.data is not None:
        buffer = _narrowed(p, expr.buffer)
        return None if buffer is None else Load(buffer.dtype, buffer, expr.index)
    return None


def _narrowed(p: Steps, buffer: Buffer) -> Buffer | None:
    """A constant buffer of i32 as one of bytes, if its elements are such."""
    data, key = buffer.data, ("bytes", buffer)
    if data is None or not data.size:
        return None
    if key not in p.packed:
        low, high = int(data.min()), int(data.max())
        for dtype, (least, most) in _RANGES.items():
            if least <= low and high <= most:
                small = data.astype(np.int8 if dtype == "i8" else np.uint8)
                p.packed[key] = Buffer(f"{buffer.name}.bytes", dtype, buffer.size, "const", small)
                break
    return p.packed.get(key)


def _names(expr: Expr) -> set[str]:
    """The symbols that an expression reads."""
    return {name for dim in dims((Let("", expr),)) for name in dim.symbols()}


def widening(block: Block) -> Iterator[Op]:
    """Ops that only widen bytes for products: a kernel that makes the bytes must not go on with them."""
    made = {value: op for op in block.ops for value in op.results}
    for op in block.ops:
        if op.name in ("dot_general", "convolution") and op.attrs["dtype"] == "i32":
            for value in op.operands[:2]:
                yield from _down_to_bytes(made, value)


def _down_to_bytes(made: Mapping[Value, Op], value: Value) -> Sequence[Op]:
    """The ops that make a value of bytes, its own first; none if it is made of something else."""
    found = []
    while (op := made.get(value)) is not None and op.result.type.dtype == "i32":
        found.append(op)
        value = op.operands[0] if op.operands else value
        if op.name == "convert":
            return found if value.type.dtype in BYTES else ()
        if op.name not in ("subtract", "transpose", "reshape", "broadcast_in_dim", "slice"):
            break
    return ()


def called(op: str, one: Expr, two: Expr) -> Call:
    return Call(one.dtype, op, (one, two))


def widened(byte: Expr) -> Expr:
    return Call("i32", "convert", (byte,), (("dtype", "i32"),))


def moved_byte(byte: Expr, dtype: str) -> Expr:
    """A byte of the other kind moved by 128."""
    if isinstance(byte, Const):
        return Const(dtype, byte.value + (_MOVE if dtype == "ui8" else -_MOVE))
    other = Call(dtype, "convert", (byte,), (("dtype", dtype),))
    return called("xor", other, Const(dtype, _MOVE if dtype == "ui8" else -_MOVE))


def number_of(expr: Expr) -> int | None:
    """What an integer expression is everywhere, if that is plain to see."""
    match expr:
        case Const():
            return int(expr.value)
        case Load() if expr.buffer.data is not None and expr.buffer.data.size:
            data = expr.buffer.data
            return int(data.reshape(-1)[0]) if (data == data.reshape(-1)[0]).all() else None
        case Call() if expr.op == "convert":
            return number_of(expr.args[0])
        case Call() if expr.op in ("add", "subtract"):
            one, two = (number_of(each) for each in expr.args)
            return None if one is None or two is None else one + two if expr.op == "add" else one - two
    return None
