"""The ``body`` of a custom op as its author writes it: sizes in it are compared as in a shape function.

A body is one program for all sizes. What it asks of sizes (``if``, ``in``, ``max``, ``range``) must be decided by their
forms and by what the op's shape function asserts; all else is an error that says what would decide it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from egshape.ir.graph import Value
from egshape.ops.shape_function import Operand, ShapeFunction, shown_sizes
from egshape.ops.symbolic import Size, settled


class Handle:
    """A value in a body: its type is as a shape function sees it."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.name = value.name
        self.type = Operand(value.type)

    def __getattr__(self, name: str) -> Any:
        """What the type has: dtype, dims, shape, rank."""
        return getattr(self.type, name)

    def __repr__(self) -> str:
        return repr(self.value)


class _Builder:
    """The builder of a body, which takes and gives handles and sizes."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._builder, name)

        def add(*args: Any, **attrs: Any) -> Any:
            return _handles(call(*map(_plain, args), **{key: _plain(item) for key, item in attrs.items()}))

        return add


def symbolic_body(body: Callable[..., Any], asserts: ShapeFunction) -> Callable[..., Any]:
    """A body that takes and gives values, of an author's function that compares their sizes."""

    def build(builder: Any, *operands: Value, **attrs: Any) -> Any:
        conditions = asserts.conditions([each.type for each in operands], attrs)
        return settled(
            lambda: _plain(body(_Builder(builder), *map(Handle, operands), **_shown(attrs))),
            [each.relation for each in conditions],
        )

    return build


def _shown(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: shown_sizes(item) for name, item in attrs.items()}


def _handles(found: Any) -> Any:
    if isinstance(found, Value):
        return Handle(found)
    return type(found)(map(_handles, found)) if isinstance(found, tuple | list) else found


def _plain(item: Any) -> Any:
    """Values for handles, sizes of the program for those that are compared."""
    if isinstance(item, Handle):
        return item.value
    if isinstance(item, Size):
        return item.dim
    return type(item)(map(_plain, item)) if type(item) in (tuple, list) else item
