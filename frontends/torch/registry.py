"""How an ATen op is declared: one function an op, for all overloads that it takes.

::

    @aten_op("softmax.int", "_softmax.default")
    def softmax(s: Scope, x: Value, dim: int, dtype: str | None = None) -> Value: ...

The function gets the block under conversion and the arguments in ATen's order and under ATen's names: tensors as
values, sizes as ``Dim``, dtypes under our names; what is about memory (layout, device) is left out. It adds our ops
through ``s`` and gives the results in ATen's order. A declared op is kept when a program is decomposed; others become
what torch decomposes them to. A function may raise ``NoLowering`` for what it does not know: the op is then called on
the host.

``composite``: an op of several of ours that goes out as one where a graph becomes a program of torch again
(``composites``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Handler = Callable[..., Any]
Declared = TypeVar("Declared", bound=Handler)


class NoLowering(Exception):
    """A declared op is used in a way that its declaration does not lower."""


HANDLERS: dict[str, Handler] = {}
"""The declared ops by overload (``softmax.int``)."""


COMPOSITES: set[str] = set()
"""Those of them that are several of our ops."""


def aten_op(*names: str, composite: bool = False) -> Callable[[Declared], Declared]:
    """Declare the ops of these names; see the module's docstring."""

    def declare(handler: Declared) -> Declared:
        for name in names:
            if name in HANDLERS:
                raise ValueError(f"aten.{name} is declared twice")
            HANDLERS[name] = handler
            if composite:
                COMPOSITES.add(name)
        return handler

    return declare
