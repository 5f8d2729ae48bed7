"""What products are made of on a CPU: the types of their elements, and the blocks that its registers hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from egshape.lower.llvm.pairs import Pairs
from egshape.lower.llvm.quads import Quads
from egshape.lower.llvm.tile_steps import ROWS, STEPS
from egshape.lower.llvm.tiles import tiled
from egshape.plan.ir.packs import ROOM_BYTES, TILES_ALONE

TILE_ROWS = 8
"""Rows of a block of vectors."""
TYPES = {
    "f32": ("float", 4),
    "f64": ("double", 8),
    "u8s8": ("i32", 4),
    "s8u8": ("i32", 4),
    "i32": ("i32", 4),
    "bf16": ("float", 4),
    "f16": ("float", 4),
    **dict.fromkeys(TILES_ALONE, ("float", 4)),
    "f32f16": ("float", 4),
}
"""Element and size; products of i32 are of bytes, those of bf16, f16 and numbers in parts of pairs."""
NARROW = {"f32f16": ("half", 2)}
"""Element and size of packs whose numbers are narrower than those of rows, and widened as they are read."""
MOST_ROWS = {
    dtype: TILE_ROWS if dtype in ("f32", "f64", *NARROW) else 2 * ROWS if dtype in TILES_ALONE else ROWS
    for dtype in TYPES
}
"""Rows that a block may have on some CPU."""
BYTES = tuple(STEPS)
IN_PARTS = ("f16", *TILES_ALONE)
"""Numbers of one to three bf16 each, which tiles alone multiply."""
BY_TILES = (*BYTES, "bf16", *IN_PARTS)
"""What some CPU multiplies by tiles: its kernels take where their shapes are kept (``tiles.HELD``)."""
_SUFFIXES = {"float": "f32", "double": "f64", "i32": "i32"}


@dataclass(frozen=True)
class Shape:
    """What the registers hold: vectors of ``bytes`` each, in ``blocks`` of so many vectors of columns and rows, the
    widest first."""

    bytes: int
    blocks: tuple[tuple[int, int], ...]


def shape_for(features: str) -> Shape:
    """The blocks of a CPU, by LLVM's feature string."""
    on = set(features.split(","))
    if "+avx512f" in on:
        return Shape(64, ((4, 6), (3, 8), (2, 8), (1, 8)))
    return Shape(32, ((3, 4), (2, 4), (1, 4))) if {"+avx2", "+fma"} <= on else Shape(16, ((2, 4), (1, 4)))


@dataclass(frozen=True)
class Element:
    """The element of a product: its dtype (a name of TYPES), LLVM type, bytes, and how many a vector has."""

    dtype: str
    name: str
    size: int
    lanes: int
    features: frozenset[str] = frozenset()

    @property
    def group(self) -> Quads | Pairs | None:
        """How elements that are several numbers are multiplied; None for plain ones."""
        if self.dtype == "bf16":
            return Pairs(self.lanes, self.features)
        return Quads(self.lanes, self.dtype == "s8u8", self.features) if self.name == "i32" else None

    @property
    def right(self) -> tuple[str, int]:
        """The LLVM type and bytes of an element of a pack."""
        return NARROW.get(self.dtype, (self.name, self.size))

    @property
    def tiled(self) -> bool:
        """Whether blocks of many rows are products of tiles."""
        return tiled(self.dtype, self.features)

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return ROWS if self.tiled else TILE_ROWS

    @property
    def steps(self) -> int:
        """Steps of the depth that are written one after the other: so many that sums and what is read stay in
        registers, which a test looks at. Groups without an instruction of their own take several of them a step."""
        if self.group is not None:
            return 4 if self.group.dot else 1
        return 4 if self.size == 4 and (self.dtype not in NARROW or self.lanes == 16) else 2

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.name}>"

    @property
    def mask(self) -> str:
        return f"<{self.lanes} x i1>"

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}{_SUFFIXES[self.name]}"

    @property
    def room(self) -> int:
        return ROOM_BYTES // self.size

    def operand(self, name: str, right: bool = False) -> Iterator[str]:
        """What is made of the vector %name before it is multiplied."""
        return self.group.parts(name, right) if self.group else iter(())

    def step(self, name: str, left: str, right: str, total: str) -> Iterator[str]:
        """%name = %left * %right + %total."""
        if self.group:
            return self.group.step(name, left, right, total)
        v = self.vector
        return iter([f"  %{name} = call {v} @llvm.fma.{self.suffix}({v} %{left}, {v} %{right}, {v} %{total})"])

    def splat(self, name: str, value: str) -> list[str]:
        """All lanes of %name are the value."""
        return [
            f"  %{name}.e = insertelement {self.vector} poison, {self.name} {value}, i32 0",
            f"  %{name} = shufflevector {self.vector} %{name}.e, {self.vector} poison, "
            f"<{self.lanes} x i32> zeroinitializer",
        ]
