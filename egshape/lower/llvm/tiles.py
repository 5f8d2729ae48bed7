"""Products by tiles (x86's AMX): registers of 16 rows of 64 bytes, one instruction for the product of two of them.

``egs_tiles_T(rows, n, k, a, ar, b, br, t, coming, pace)`` computes what ``egs_tile_T`` of ``gemm`` does where the left
operand's elements lie along memory: at most 16 rows, n a multiple of 16. Sums of 4 tiles, 64 columns, stay in registers
over the depth. T is bf16, u8s8 or s8u8; or of numbers that are one to three bf16 each (``plan/cpu/parts.py``): f16, of
whose rows and packs the largest parts lie together, and behind all of them the next ones; or bf16x1, f16x2 and f32x3,
in whose packs the parts of each tile do. k counts all, a multiple of 16 each. Four products of tiles make one of f16.
Six make one of f32x3, which leaves out what is under 2^-21 of a product. ``egs_tile_runs_T`` does what ``egs_runs_T``
does, of the last three, of up to 32 rows: the parts of a tap lie behind each other, and the taps in turn.

Linux must have been asked for the registers (``runtime/abi/tiles.py``): a module asks when it is loaded as a
library. They get their shapes before a block that needs others than the one before it had, which ``held`` says (0: none
yet), and are released at a kernel's end: ``ldtilecfg`` waits until all that was stored before has reached the cache,
also what the epilogue of the block before stored."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from egshape.lower.llvm.tile_steps import (
    FLOATS,
    LINE,
    PARTS,
    REST_LEFT,
    REST_RIGHT,
    RIGHT,
    ROWS,
    STEPS,
    TWICE,
    depth,
)
from egshape.plan.ir.packs import ROOM_BYTES, TILES_ALONE
from egshape.switches import wished

HELD = "ptr %held"
"""Where a kernel keeps which shapes the registers have."""
SWITCH, WORDS = "EGSHAPE_TILES", ("none", "narrow", "all")
"""What is multiplied by tiles: nothing, what is narrower than f32, or f32 too where that is faster while no neighbour
uses the same unit, which hyperthreads and virtual machines share."""
LEAST_ROWS = 4
"""From here tiles are faster than vectors."""
_MOST = 4
"""Tiles of sums: the first registers."""
_BELOW = {0: False, 1: False, 2: True, 3: True, 6: False, 7: True}
"""Of two tiles of rows, whether a register is one of the lower tile."""


def tiled(dtype: str, features: frozenset[str]) -> bool:
    """Whether a CPU multiplies elements of a kind by tiles."""
    if dtype not in ("bf16", *PARTS, *STEPS):
        return False
    return {"+amx-tile", "+amx-int8" if dtype in STEPS else "+amx-bf16"} <= features


def used() -> str:
    """The word that says what is multiplied by tiles. Raises EgshapeError for one that is none."""
    return wished(SWITCH, WORDS) or "all"


def text(dtype: str, runs: bool = False) -> str:
    """The function and what it needs, as LLVM IR."""
    both = dtype in TILES_ALONE
    kinds = (dtype, dtype + TWICE) if both else (dtype,)
    columns = [_columns(kind, vectors, runs) for kind in kinds for vectors in range(1, _most(kind) + 1)]
    functions = [*columns, *(_shapes(kind) for kind in kinds), *(_all(kind, runs) for kind in kinds)]
    last = _once_or_twice(dtype, runs) if both else ""
    return "".join([_declarations(dtype), *functions, last])


def _most(kind: str) -> int:
    """The most tiles of columns whose sums are held at once."""
    return _MOST // 2 if kind.endswith(TWICE) else _MOST


def _declarations(dtype: str) -> str:
    return f"""declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tilezero(i8 immarg)
declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)
declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)
declare void @llvm.x86.{STEPS.get(dtype, FLOATS)}(i8 immarg, i8 immarg, i8 immarg)
"""


ASK = """@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [
  { i32, ptr, ptr } { i32 65535, ptr @egs_tiles_ask, ptr null }
]
declare i64 @syscall(i64, ...)
define internal void @egs_tiles_ask() nounwind {
  %done = call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)
  ret void
}
"""
"""arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) of Linux, when a library is loaded that calls the kernels."""


def _shapes(kind: str) -> str:
    """The shapes of the registers for each number of rows, and of what is left of a depth where that may be less than
    a tile's."""
    depths = range(1, ROWS + 1) if _ragged(kind) else (ROWS,)
    shapes = [_shape(kind, rows, deep) for rows in _rows(kind) for deep in depths]
    text = "".join(f"\\{byte:02X}" for byte in b"".join(shapes))
    count = LINE * len(shapes)
    return f'@egs_shapes_{kind} = private unnamed_addr constant [{count} x i8] c"{text}", align {LINE}\n'


def _rows(kind: str) -> range:
    """The numbers of rows that there may be."""
    return range(ROWS + 1, 2 * ROWS + 1) if kind.endswith(TWICE) else range(1, ROWS + 1)


def _ragged(kind: str) -> bool:
    """Whether a depth may be no multiple of a tile's."""
    return kind not in PARTS


def _shape(kind: str, rows: int, deep: int) -> bytes:
    """What ``ldtilecfg`` reads: a palette, then each register's bytes of a row and number of rows. A register that is
    not used must have some shape too."""
    counts, lines = [ROWS] * 8, [LINE] * 8
    rights = PARTS[kind].rights if kind in PARTS else (RIGHT, REST_RIGHT)
    for register in set(range(8)).difference(rights):
        counts[register] = rows
    if kind.endswith(TWICE):
        upper = (rows + 1) // 2
        for register, below in _BELOW.items():
            counts[register] = rows - upper if below else upper
    if _ragged(kind):
        counts[REST_RIGHT], lines[REST_LEFT] = deep, 4 * deep
    return struct.pack("<B15x8H16x8B8x", 1, *lines, *counts)


def _all(dtype: str, runs: bool) -> str:
    """The shapes of the registers, then up to four tiles of columns at a time."""
    name = f"{dtype}_once" if dtype in TILES_ALONE else dtype
    more, most = _more_args(runs), _most(dtype)
    below = ", i64 %upper, i64 %below" if dtype.endswith(TWICE) else ""
    lines = [
        f"define internal void @egs_tiles_{name}(i64 %rows, i64 %n, i64 %k, ptr %a, i64 %ar, ptr %b, i64 %br, ptr %t, "
        f"{HELD}{more}) noinline nounwind {{",
        "entry:",
        *(_halved() if below else ()),
        f"  %number = sub nsw i64 %rows, {_rows(dtype)[0]}",
    ]
    if _ragged(dtype):
        lines += [
            "  %before = sub nsw i64 %k, 1",
            f"  %rest = and i64 %before, {ROWS - 1}",
            f"  %first = shl nuw nsw i64 %number, {ROWS.bit_length() - 1}",
            "  %which = or i64 %first, %rest",
        ]
    which = "which" if _ragged(dtype) else "number"
    lines.append(f"  %shape = getelementptr [{LINE} x i8], ptr @egs_shapes_{dtype}, i64 %{which}")
    lines += [
        "  %now = load ptr, ptr %held",
        "  %same = icmp eq ptr %now, %shape",
        "  br i1 %same, label %shaped, label %reshape",
        "reshape:",
        "  call void @llvm.x86.ldtilecfg(ptr %shape)",
        "  store ptr %shape, ptr %held",
        "  br label %shaped",
        "shaped:",
        "  %as = shl nsw i64 %ar, 2",
        "  %bs = shl nsw i64 %br, 2",
        "  br label %head",
        "head:",
        "  %j = phi i64 [ 0, %shaped ], [ %jn, %next ]",
        "  %left = sub nsw i64 %n, %j",
        f"  %tiles = lshr i64 %left, {ROWS.bit_length() - 1}",
        f"  %some = call i64 @llvm.umin.i64(i64 %tiles, i64 {most})",
        "  %jw = shl nuw nsw i64 %some, 4",
        "  %jn = add nuw nsw i64 %j, %jw",
        "  %bp = getelementptr i32, ptr %b, i64 %j",
        "  %tp = getelementptr i32, ptr %t, i64 %j",
        f"  switch i64 %some, label %done [ {' '.join(f'i64 {v}, label %v{v}' for v in range(1, most + 1))} ]",
    ]
    for vectors in range(1, most + 1):
        lines += [
            f"v{vectors}:",
            f"  call void @egs_tiles_{dtype}_{vectors}(i64 %k, ptr %a, i64 %as, ptr %bp, i64 %bs, ptr %tp"
            f"{more}{below})",
            "  br label %next",
        ]
    return "\n".join([*lines, "next:", "  br label %head", "done:", "  ret void", "}", ""])


def done(name: str, dtype: str, tiled: bool) -> str:
    """The function that releases the registers, if they hold any shapes."""
    lines = [f"define hidden void @egs_{name}_done_{dtype}({HELD}) nounwind {{"]
    if tiled:
        lines += [
            "  %now = load ptr, ptr %held",
            "  %none = icmp eq ptr %now, null",
            "  br i1 %none, label %end, label %release",
            "release:",
            "  call void @llvm.x86.tilerelease()",
            "  store ptr null, ptr %held",
            "  br label %end",
            "end:",
        ]
    return "\n".join([*lines, "  ret void", "}", ""])


def _more_args(runs: bool) -> str:
    return ", i64 %al, i64 %bl, i64 %taps, ptr %table" if runs else ", ptr %coming, i64 %pace"


def _halved() -> Iterator[str]:
    """The rows of two tiles."""
    yield "  %odder = add nuw nsw i64 %rows, 1"
    yield "  %upper = lshr i64 %odder, 1"
    yield "  %far = mul nsw i64 %upper, %ar"
    yield "  %below = shl nsw i64 %far, 2"


def _once_or_twice(dtype: str, runs: bool) -> str:
    """Rows that one tile holds, or more."""
    more = _more_args(runs)
    args = f"i64 %rows, i64 %n, i64 %k, ptr %a, i64 %ar, ptr %b, i64 %br, ptr %t, {HELD}{more}"
    return f"""define internal void @egs_tiles_{dtype}({args}) nounwind {{
  %few = icmp sle i64 %rows, {ROWS}
  br i1 %few, label %once, label %twice
once:
  call void @egs_tiles_{dtype}_once({args})
  ret void
twice:
  call void @egs_tiles_{dtype}{TWICE}({args})
  ret void
}}
"""


def _columns(dtype: str, vectors: int, runs: bool) -> str:
    """Some tiles of columns over the whole depth."""
    twice = dtype.endswith(TWICE)
    more = _more_args(runs) + ", i64 %upper, i64 %below" * twice
    sums = [v + row * 2 for row in range(1 + twice) for v in range(vectors)]
    lines = [
        f"define internal void @egs_tiles_{dtype}_{vectors}(i64 %k, ptr %a, i64 %as, ptr %b, i64 %bs, ptr %t{more}) "
        "noinline nounwind {",
        "entry:",
        *([f"  %lower.t = mul nsw i64 %upper, {ROOM_BYTES}"] if twice else ()),
        *(f"  call void @llvm.x86.tilezero(i8 {v})" for v in sums),
        *depth(dtype, vectors, runs),
    ]
    if twice:
        lines.append("  %t.below = getelementptr i8, ptr %t, i64 %lower.t")
    for v in sums:
        top, column = ("%t.below", v - 2) if twice and v > 1 else ("%t", v)
        lines += [
            f"  %tp{v} = getelementptr i8, ptr {top}, i64 {LINE * column}",
            f"  call void @llvm.x86.tilestored64(i8 {v}, ptr %tp{v}, i64 {ROOM_BYTES})",
        ]
    return "\n".join([*lines, "  ret void", "}", ""])
