"""Effects: conditions that must hold when a graph runs, and calls of code that egshape does not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import eq, le, lt, ne
from typing import Any

import numpy as np

from egshape.dims import Dim, const
from egshape.errors import CheckFailed, Unsupported
from egshape.ir.types import DTYPES, TensorType
from egshape.ops.base import Loose, fault, op

_RELATIONS: dict[str, Callable[[int, int], bool]] = {"==": eq, "!=": ne, "<=": le, "<": lt}


def format_message(message: str, args: Sequence[object]) -> str:
    """The message of a check with {0}, {1}, ... replaced by the arguments; other braces stay."""
    for index, value in enumerate(args):
        message = message.replace(f"{{{index}}}", str(value))
    return message


def assumed_message(fact: str) -> str:
    """How the message of a check begins that states what a user assumed."""
    return f"the assumed fact {fact} does not hold"


@op(
    "check",
    family="checks",
    operands=("*values",),
    attrs={
        "relation": ("text", "value"),
        "sides": ("sizes", ()),
        "message": "text",
        "args": ("sizes", ()),
        "fact": ("text", ""),
    },
    effect=True,
    doc='Stops the program with a message unless a condition holds: values[0] is true (relation "value"; '
    "further values fill the message), or ==, !=, <=, < of the two sides (args fill the message). fact: what a "
    "user assumed, if it states that.",
)
class Check:
    """JAX: custom_call @shape_assertion; conditions on sizes that egshape keeps."""

    @staticmethod
    def shape(
        *values: TensorType, relation: str, sides: tuple[Dim, ...], message: str, args: tuple[Dim, ...], fact: str = ""
    ) -> list[Loose]:
        if relation == "value":
            if not values or values[0].dtype != "i1" or values[0].shape not in (None, ()):
                raise fault("needs an i1 scalar")
            if sides:
                raise fault("has a value and sides")
        elif relation not in _RELATIONS:
            raise fault(f"{relation!r} is no relation")
        elif len(sides) != 2 or values:
            raise fault(f"a check of {relation} has two sides and no values")
        return []

    @staticmethod
    def reference(
        *values: np.ndarray, relation: str, sides: tuple[int, ...], message: str, args: tuple[int, ...], fact: str = ""
    ) -> list[np.ndarray]:
        if relation == "value":
            holds = bool(values[0].reshape(()))
            shown: Sequence[object] = [value.tolist() for value in values[1:]] or args
        else:
            holds, shown = _RELATIONS[relation](*sides), args
        if not holds:
            raise CheckFailed(format_message(message, shown))
        return []


@op(
    "custom_call",
    family="checks",
    operands=("*operands",),
    attrs={"target": "text", "types": "record", "attrs": ("record", ())},
    effect=True,
    names={"stablehlo": "custom_call"},
    doc="Calls a function outside of the graph that gives results of the stated types (-1: unknown size).",
)
class CustomCall:
    """StableHLO spec: custom_call."""

    @staticmethod
    def shape(*operands: TensorType, target: str, types: tuple[Any, ...], attrs: tuple[Any, ...] = ()) -> list[Loose]:
        out: list[Loose] = []
        for dtype, sizes in types:
            if dtype not in DTYPES:
                raise fault(f"{dtype!r} is no dtype")
            out.append((dtype, tuple(None if size < 0 else const(size) for size in sizes)))
        return out

    @staticmethod
    def reference(
        *operands: np.ndarray, target: str, types: tuple[Any, ...], attrs: tuple[Any, ...] = ()
    ) -> list[np.ndarray]:
        raise Unsupported(f"calls {target!r}, which egshape cannot run", where=f"custom_call @{target}")
