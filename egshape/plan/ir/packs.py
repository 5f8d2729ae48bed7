"""How right operands of products lie in packs of columns, and when they are packed."""

from __future__ import annotations

from egshape.ir.types import itemsize

PACK_BYTES = 192
"""Bytes of a row of a panel: three of the widest vectors."""


ROOM_BYTES = 256
"""Bytes of a row of the widest panel: a rest of one vector is part of the panel before, whose blocks are four
vectors wide then, or two and two."""


TILES_ALONE = ("bf16x1", "f16x2", "f32x3")
"""Kinds of elements that only tiles multiply."""
SUM_BYTES = 4


def pack_columns(kind: str) -> int:
    """Columns of a full panel. Of products by tiles alone: four tiles."""
    return ROOM_BYTES // SUM_BYTES if kind in TILES_ALONE else PACK_BYTES // itemsize(kind)


def pack_room(dtype: str) -> int:
    """Columns of the widest panel."""
    return ROOM_BYTES // itemsize(dtype)


def pack_count(columns: int, kind: str) -> int:
    """The number of panels of so many columns."""
    if kind in TILES_ALONE:
        return -(-columns // pack_columns(kind))
    return max(-(-(columns - pack_step(kind)) // pack_columns(kind)), min(columns, 1))


def pack_step(kind: str) -> int:
    """The last panel's columns are rounded up to a multiple of this: the widest vector."""
    return PACK_BYTES // 3 // (SUM_BYTES if kind in TILES_ALONE else itemsize(kind))


QUAD = 4
"""Bytes of an element of a product of bytes."""


PAIR = 2
"""Numbers of an element of a product of bf16, or of parts of f16 or f32, which are bf16."""


GROUPS = {"": 1, "s8u8": QUAD, "u8s8": QUAD, "bf16": PAIR, "f16": PAIR, **dict.fromkeys(TILES_ALONE, PAIR), "f32f16": 1}
"""Numbers of an element of a product, by its kind of elements."""


TILE_DEPTH = 16
"""Elements of a row of a tile, a multiple of which the depth of products of numbers in parts is."""


FEW_ROWS = 16
"""Up to here a right operand is read where it lies: packing would cost more than it saves."""


ROW_GROUP = 64
"""Rows of a group, where there are too few panels to share out."""


TILE_ROW_GROUP = 256
"""Rows of a group of products by tiles: what is read again for each pack stays in the cache."""
