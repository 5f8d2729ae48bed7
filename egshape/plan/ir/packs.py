"""How right operands of products lie in packs of columns, and when they are packed."""

from __future__ import annotations

from egshape.ir.types import itemsize

PACK_BYTES = 192
"""Bytes of a row of a panel: three of the widest vectors."""


ROOM_BYTES = 256
"""Bytes of a row of the widest panel: a rest of one vector is part of the panel before, whose blocks are four
vectors wide then, or two and two."""


def pack_columns(dtype: str) -> int:
    """Columns of a full panel."""
    return PACK_BYTES // itemsize(dtype)


def pack_room(dtype: str) -> int:
    """Columns of the widest panel."""
    return ROOM_BYTES // itemsize(dtype)


def pack_count(columns: int, dtype: str) -> int:
    """The number of panels of so many columns."""
    return max(-(-(columns - pack_step(dtype)) // pack_columns(dtype)), min(columns, 1))


def pack_step(dtype: str) -> int:
    """The last panel's columns are rounded up to a multiple of this: the widest vector."""
    return pack_columns(dtype) // 3


QUAD = 4
"""Bytes of an element of a product of bytes."""


PAIR = 2
"""Numbers of an element of a product of bf16."""


GROUPS = {"": 1, "s8u8": QUAD, "u8s8": QUAD, "bf16": PAIR}
"""Numbers of an element of a product, by its kind of elements."""


FEW_ROWS = 16
"""Up to here a right operand is read where it lies: packing would cost more than it saves."""


ROW_GROUP = 64
"""Rows of a group, where there are too few panels to share out."""
