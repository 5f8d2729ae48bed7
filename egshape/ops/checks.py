"""Effects: conditions that must hold when a graph runs, and calls of code that egshape does not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import eq, le, lt, ne
from typing import Any

import numpy as np

from egshape.errors import CheckFailed, Unsupported
from egshape.ops.declare import op
from egshape.ops.traits import Traits

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
    traits=Traits(foreign=True),
    names={"stablehlo": "custom_call"},
    doc="Calls a function outside of the graph that gives results of the stated types (-1: unknown size).",
)
class CustomCall:
    """StableHLO spec: custom_call."""

    @staticmethod
    def reference(
        *operands: np.ndarray, target: str, types: tuple[Any, ...], attrs: tuple[Any, ...] = ()
    ) -> list[np.ndarray]:
        raise Unsupported(f"calls {target!r}, which egshape cannot run", where=f"custom_call @{target}")
