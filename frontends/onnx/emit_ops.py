"""Elementwise ops and products as ONNX nodes; broadcasts that ONNX makes by itself are left to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim, const
from egshape.frontends.onnx.emit_scope import broadcast
from egshape.frontends.onnx.emit_sizes import EXTREMES
from egshape.frontends.onnx.emit_writer import Emitter
from egshape.frontends.onnx.types import elem_type_of
from egshape.ir.arrays import is_splat
from egshape.ir.graph import Op, Value
from egshape.ir.types import is_float, numpy_dtype

_ONE = const(1)

UNARY = {
    "abs": "Abs",
    "negate": "Neg",
    "floor": "Floor",
    "ceil": "Ceil",
    "round_nearest_even": "Round",
    "exponential": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "logistic": "Sigmoid",
    "tanh": "Tanh",
    "tan": "Tan",
    "sine": "Sin",
    "cosine": "Cos",
    "erf": "Erf",
    "sign": "Sign",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
}
BINARY = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow"}
LOGIC = {"and": "And", "or": "Or", "xor": "Xor"}
BIT_SHIFTS = ("shift_left", "shift_right_logical")
SHIFTS = {"shift_left": "LEFT", "shift_right_logical": "RIGHT", "shift_right_arithmetic": "RIGHT"}
SIGNED_SHIFTS = 28
"""The opset since which BitShift takes signed numbers."""

COMPARE = {"EQ": "Equal", "LT": "Less", "LE": "LessOrEqual", "GT": "Greater", "GE": "GreaterOrEqual"}
INFINITE = {"is_inf": {}, "is_pos_inf": {"detect_negative": 0}, "is_neg_inf": {"detect_positive": 0}}

_FEW_BYTES = 512
"""Constants of up to so many bytes are written as they are."""

Handler = Callable[["Emitter", Op], str]


def unary(e: Emitter, op: Op) -> str:
    """An op of one operand that ONNX has."""
    return e.node(op, UNARY[op.name], [e.name(op.operands[0])])


def binary(e: Emitter, op: Op) -> str:
    """An op of two operands that ONNX has."""
    one, two = op.operands
    if op.name == "divide" and is_float(one.type.dtype) and _number(e, one) == 1:
        return e.node(op, "Reciprocal", [e.name(two)])
    return e.node(op, BINARY[op.name], broadcast_names(e, op))


def extreme(e: Emitter, op: Op) -> str:
    """maximum with 0 is Relu; Max and Min else."""
    x, y = op.operands
    if op.name == "maximum" and is_float(x.type.dtype):
        for one, two in ((x, y), (y, x)):
            if is_zero(e, two):
                return e.node(op, "Relu", [e.name(one)])
    names = broadcast_names(e, op)
    if not is_float(x.type.dtype) and e.scope.opset < EXTREMES:
        return e.sizes.extreme(op.name, names[0], names[1], e.scope.frame)
    return e.node(op, "Max" if op.name == "maximum" else "Min", names)


def logic(e: Emitter, op: Op) -> str:
    """And, Or, Xor of booleans; of bits since opset 18."""
    bits = "" if op.operands[0].type.dtype == "i1" else "Bitwise"
    return e.node(op, bits + LOGIC[op.name], broadcast_names(e, op))


def negation(e: Emitter, op: Op) -> str:
    """Not."""
    return e.node(op, "Not" if op.operands[0].type.dtype == "i1" else "BitwiseNot", [e.name(op.operands[0])])


def shift(e: Emitter, op: Op) -> str:
    """BitShift, of signed numbers since opset 28; before by a number: bits as unsigned ones, a right shift with sign
    bits as a division that rounds down. An amount that is no place of a bit moves all out."""
    x, y = op.operands
    unsigned = x.type.dtype.startswith("ui")
    if op.name in BIT_SHIFTS if unsigned else op.name != "shift_right_logical" and e.scope.opset >= SIGNED_SHIFTS:
        return e.node(op, "BitShift", broadcast_names(e, op), direction=SHIFTS[op.name])
    amount, width = _number(e, y), numpy_dtype(x.type.dtype).itemsize * 8
    if unsigned or amount is None:
        raise e.unsupported(op, f"a shift of {x.type.dtype} with sign bits, or by computed amounts,")
    places = amount if 0 <= amount < width else width
    if op.name == "shift_right_arithmetic":
        return _rounded_down(e, op, min(places, width - 1), width)
    kind = f"u{x.type.dtype}"
    name = e.scope.node("Cast", [e.name(x)], f"{op.result.name}_bits", to=elem_type_of(kind))
    for step in _steps(places, width - 1):
        by = e.scope.constant(np.array(step, numpy_dtype(kind)), "places")
        name = e.scope.node("BitShift", [name, by], f"{op.result.name}_bits", direction=SHIFTS[op.name])
    return e.node(op, "Cast", [name], to=elem_type_of(x.type.dtype))


def _rounded_down(e: Emitter, op: Op, places: int, width: int) -> str:
    """x // 2**places: a multiple of that, divided."""
    name, hint = e.name(op.operands[0]), op.result.name
    for step in _steps(places, width - 2):
        by = e.scope.constant(np.array(2**step, numpy_dtype(op.result.type.dtype)), "divisor")
        whole = e.scope.node("Sub", [name, e.scope.node("Mod", [name, by], f"{hint}_rest")], f"{hint}_whole")
        name = e.scope.node("Div", [whole, by], hint)
    return name


def _steps(places: int, most: int) -> tuple[int, ...]:
    """A shift as shifts by at most so many places."""
    return (places,) if places <= most else (most, places - most)


def remainder(e: Emitter, op: Op) -> str:
    """The remainder with the sign of the dividend."""
    return e.node(op, "Mod", broadcast_names(e, op), fmod=1)


def convert(e: Emitter, op: Op) -> str:
    """Cast."""
    dtype = op.result.type.dtype
    if dtype == "f8E8M0FNU":
        raise e.unsupported(op, f"a conversion to {dtype}")
    plain = {"saturate": 0} if dtype.startswith("f8") else {}
    return e.node(op, "Cast", [e.name(op.operands[0])], to=elem_type_of(dtype), **plain)


def compare(e: Emitter, op: Op) -> str:
    """The comparisons that ONNX has; x != x is IsNaN, another != a negated Equal. Before opset 12 only strict ones."""
    x, y = op.operands
    direction = op.attrs["direction"]
    if op.attrs["kind"] == "TOTALORDER":
        raise e.unsupported(op, "the total order of floats")
    if direction == "NE" and x is y and is_float(x.type.dtype):
        return e.node(op, "IsNaN", [e.name(x)])
    if direction == "NE":
        equal = e.scope.node("Equal", broadcast_names(e, op), f"{op.result.name}_equal")
        return e.node(op, "Not", [equal])
    if direction in ("LE", "GE") and e.scope.opset < 12 and not is_float(x.type.dtype):
        kind = "Less" if direction == "GE" else "Greater"
        other = e.scope.node(kind, broadcast_names(e, op), f"{op.result.name}_not")
        return e.node(op, "Not", [other])
    return e.node(op, COMPARE[direction], broadcast_names(e, op))


def select(e: Emitter, op: Op) -> str:
    """Where."""
    return e.node(op, "Where", broadcast_names(e, op))


def clamp(e: Emitter, op: Op) -> str:
    """Clip, whose bounds are scalars."""
    low, x, high = (_as_scalar(e, op.operands[0]), op.operands[1], _as_scalar(e, op.operands[2]))
    if low.type.shape or high.type.shape:
        least = e.scope.node("Max", [e.name(x), e.name(low)], f"{op.result.name}_least")
        return e.node(op, "Min", [least, e.name(high)])
    if e.scope.opset >= 11:
        return e.node(op, "Clip", [e.name(x), e.name(low), e.name(high)])
    bounds = [_number(e, each) for each in (low, high)]
    if None in bounds:
        raise e.unsupported(op, "Clip with computed bounds before opset 11")
    return e.node(op, "Clip", [e.name(x)], min=bounds[0], max=bounds[1])


def square(e: Emitter, op: Op) -> str:
    """x times x."""
    name = e.name(op.operands[0])
    return e.node(op, "Mul", [name, name])


def rsqrt(e: Emitter, op: Op) -> str:
    """1 / sqrt(x)."""
    root = e.scope.node("Sqrt", [e.name(op.operands[0])], f"{op.result.name}_root")
    return e.node(op, "Reciprocal", [root])


def infinite(e: Emitter, op: Op) -> str:
    """IsInf of the signs asked for."""
    return e.node(op, "IsInf", [e.name(op.operands[0])], **INFINITE[op.name])


def finite(e: Emitter, op: Op) -> str:
    """Neither infinite nor NaN."""
    name = e.name(op.operands[0])
    parts = [e.scope.node(kind, [name], f"{op.result.name}_{kind.lower()}") for kind in ("IsInf", "IsNaN")]
    return e.node(op, "Not", [e.scope.node("Or", parts, f"{op.result.name}_odd")])


# -- products ----------------------------------------------------------------------------------------------------


def dot_general(e: Emitter, op: Op) -> str:
    """MatMul, the operands transposed where their axes do not stand as it wants them; else Einsum."""
    x, y = op.operands
    a = op.attrs
    if x.type.dtype != op.result.type.dtype:
        raise e.unsupported(op, f"a product of {x.type.dtype} with sums in {op.result.type.dtype}")
    left = _free(x.type.rank, a["lhs_batch"], a["lhs_contract"])
    right = _free(y.type.rank, a["rhs_batch"], a["rhs_contract"])
    batch = len(a["lhs_batch"])
    if len(a["lhs_contract"]) != 1 or len(right) > 1 or (batch and (len(left), len(right)) != (1, 1)):
        return e.node(op, "Einsum", [e.name(x), e.name(y)], equation=_equation(op))
    e.scope.contracts(x, a["lhs_contract"][0], y, a["rhs_contract"][0])
    orders = (*a["lhs_batch"], *left, *a["lhs_contract"]), (*a["rhs_batch"], *a["rhs_contract"], *right)
    if batch and all(order == tuple(range(len(order))) for order in orders):
        return e.node(op, "MatMul", _matmul_names(e, op, batch))
    return e.node(op, "MatMul", [_turned(e, value, order) for value, order in zip((x, y), orders, strict=True)])


def _free(rank: int, batch: Sequence[int], contract: Sequence[int]) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if axis not in batch and axis not in contract)


def _turned(e: Emitter, value: Value, order: tuple[int, ...]) -> str:
    """A value with its axes in another order; a constant is turned now."""
    op = e.producer(value)
    if op is not None and op.name == "constant" and order != tuple(range(len(order))):
        return e.scope.constant(np.ascontiguousarray(op.attrs["value"].transpose(order)), f"{value.name}_turned")
    return e.moves.turned(e.name(value), order, f"{value.name}_turned")


def _matmul_names(e: Emitter, op: Op, batch: int) -> list[str]:
    """The operands without broadcasts over batch axes, which MatMul makes by itself."""
    shapes = op.result.type.dims[:batch]
    plain = [under(e, value) for value in op.operands]
    kept = []
    for value, (source, axes) in zip(op.operands, plain, strict=True):
        rank = value.type.rank
        tail = tuple(axes[-2:]) == (rank - 2, rank - 1) and source.type.dims[-2:] == value.type.dims[-2:]
        kept.append((source, axes) if tail else (value, tuple(range(rank))))
    if not _agree(
        shapes,
        [({a: d for a, d in zip(axes, source.type.dims, strict=True) if a < batch}) for source, axes in kept],
    ):
        return [e.name(value) for value in op.operands]
    for axis, size in enumerate(shapes):
        e.scope.spreads([source.type.dims[axes.index(axis)] for source, axes in kept if axis in axes], size)
    return [e.moves.aligned(e.name(source), source.type.dims, axes, batch + 2, op.result.name) for source, axes in kept]


def _equation(op: Op) -> str:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    x, y = op.operands
    left = [next(letters) for _ in range(x.type.rank)]
    right = [""] * y.type.rank
    for key in ("batch", "contract"):
        for one, two in zip(op.attrs[f"lhs_{key}"], op.attrs[f"rhs_{key}"], strict=True):
            right[two] = left[one]
    right = [letter or next(letters) for letter in right]
    shared = [left[axis] for axis in op.attrs["lhs_batch"]]
    used = {left[axis] for axis in (*op.attrs["lhs_batch"], *op.attrs["lhs_contract"])}
    out = shared + [letter for letter in (*left, *right) if letter not in used]
    return f"{''.join(left)},{''.join(right)}->{''.join(out)}"


# -- broadcasts ---------------------------------------------------------------------------------------------------


def broadcast_names(e: Emitter, op: Op) -> list[str]:
    """The operands of an elementwise op, without the broadcasts that ONNX makes by itself."""
    shape = op.result.type.dims

    def seen(look: Callable[[Emitter, Value], tuple[Value, tuple[int, ...]]]) -> list[tuple[Value, tuple[int, ...]]]:
        return [
            look(e, value) if value.type.rank == len(shape) else (value, _trailing(value, len(shape)))
            for value in op.operands
        ]

    def agree(chosen: Sequence[tuple[Value, tuple[int, ...]]]) -> bool:
        return _agree(shape, [dict(zip(axes, source.type.dims, strict=True)) for source, axes in chosen])

    chosen = seen(_read)
    if not agree(chosen):
        chosen = seen(under)
    while not agree(chosen):
        wide = next((place for place, (source, _) in enumerate(chosen) if source is not op.operands[place]), None)
        if wide is None:
            break
        chosen[wide] = (op.operands[wide], _trailing(op.operands[wide], len(shape)))
    for axis, size in enumerate(shape):
        e.scope.spreads([source.type.dims[axes.index(axis)] for source, axes in chosen if axis in axes], size)
    given = [dict(zip(axes, e.scope.given(source), strict=True)) for source, axes in chosen]
    e.scope.gives(op.result, [broadcast(sizes.get(axis, _ONE) for sizes in given) for axis in range(len(shape))])
    return [
        e.moves.aligned(e.name(source), source.type.dims, axes, len(shape), op.result.name) for source, axes in chosen
    ]


def _trailing(value: Value, rank: int) -> tuple[int, ...]:
    return tuple(range(rank - value.type.rank, rank))


def under(e: Emitter, value: Value) -> tuple[Value, tuple[int, ...]]:
    """What a value is a broadcast of, and where its axes are; the value itself if it is none. A unit axis that a
    reshape only added is no broadcast."""
    axes = tuple(range(value.type.rank))
    op = e.producer(value)
    while op is not None and op.name == "broadcast_in_dim":
        inner = tuple(op.attrs["dims"])
        axes = tuple(axes[axis] for axis in inner)
        value = op.operands[0]
        op = e.producer(value)
    return value, axes


def _read(e: Emitter, value: Value) -> tuple[Value, tuple[int, ...]]:
    """The same for an operand of an elementwise op: a large constant that repeats one element is read as that one."""
    source, axes = under(e, value)
    op = e.producer(source)
    if op is None or op.name != "constant" or op.attrs["value"].nbytes <= _FEW_BYTES or not is_splat(op.attrs["value"]):
        return source, axes
    return e.element(op), ()


def _agree(shape: Sequence[Dim], operands: Sequence[Mapping[int, Dim]]) -> bool:
    """Whether ONNX's broadcast of operands with these sizes at these axes surely has the shape."""
    return all(_reaches(size, [sizes[axis] for sizes in operands if axis in sizes]) for axis, size in enumerate(shape))


def _reaches(size: Dim, held: Sequence[Dim]) -> bool:
    """Whether sizes broadcast to ``size``: one of them is it, or by its form it is what they broadcast to."""
    return size in held or broadcast(held) is size


def splat(e: Emitter, value: Value) -> np.ndarray | None:
    """The scalar that a constant, or a broadcast of one, repeats; None for anything else."""
    source, _ = under(e, value)
    op = e.producer(source)
    if op is None or op.name != "constant" or not op.attrs["value"].size or not is_splat(op.attrs["value"]):
        return None
    return np.asarray(op.attrs["value"].reshape(-1)[:1].reshape(()))


def is_zero(e: Emitter, value: Value) -> bool:
    """Whether a value is 0 everywhere, and of floats never -0."""
    found = splat(e, value)
    return found is not None and not np.frombuffer(found.tobytes(), np.uint8).any()


def _as_scalar(e: Emitter, value: Value) -> Value:
    """The number that a value repeats, as a value; itself where it repeats none."""
    made = e.producer(under(e, value)[0])
    return value if made is None or splat(e, value) is None or not value.type.shape else e.element(made)


def _number(e: Emitter, value: Value) -> Any:
    """The number that a value repeats, None for any other."""
    found = splat(e, value)
    return None if found is None else found.item()


ELEMENTWISE: dict[str, Handler] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(LOGIC, logic),
    **dict.fromkeys(SHIFTS, shift),
    **dict.fromkeys(INFINITE, infinite),
    "maximum": extreme,
    "minimum": extreme,
    "not": negation,
    "remainder": remainder,
    "convert": convert,
    "compare": compare,
    "select": select,
    "clamp": clamp,
    "square": square,
    "rsqrt": rsqrt,
    "is_finite": finite,
    "dot_general": dot_general,
}
"""How an op of ours is written, by its name."""
