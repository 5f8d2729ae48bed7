"""How one of our ops is declared for torch: one function an op that writes it as calls of ATen.

::

    @emits("transpose")
    def transpose(e: Emitter, op: Op) -> Any: ...

The function gets the graph under construction and the op, and gives the node of its result, or a list of nodes where
it has several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Emit = Callable[..., Any]
Declared = TypeVar("Declared", bound=Emit)

EMITTERS: dict[str, Emit] = {}
"""What writes an op, by its name."""


def emits(*names: str) -> Callable[[Declared], Declared]:
    """Declare what writes the ops of these names; see the module's docstring."""

    def declare(function: Declared) -> Declared:
        for name in names:
            if name in EMITTERS:
                raise ValueError(f"{name} is written twice")
            EMITTERS[name] = function
        return function

    return declare


NARROW: dict[str, Emit] = {}
"""What writes an op that takes 16-bit floats widened to f32, and whose result is rounded to their dtype, as one call on
what was widened, by the op's name: torch computes it in f32 and rounds once too."""


def narrows(*names: str) -> Callable[[Declared], Declared]:
    """Declare it: of the graph under construction, the op in f32 and the dtype, the node, or None where there is no
    such call."""

    def declare(function: Declared) -> Declared:
        NARROW.update(dict.fromkeys(names, function))
        return function

    return declare
