"""The kernels of matrix products: blocks of rows and columns in registers, packs of columns of right operands.

``egs_tile_T(rows, n, k, a, ar, ac, b, br, t, coming, pace)``: a block of at most 8 rows and a pack's columns of a
product, written to the block t, whose rows stand the widest pack apart: t(i, j) = sum over l < k of
a(i*ar + l*ac) * b(l*br + j). Where n is no multiple of the vector, the last columns are read under a mask. From
``coming`` on ``pace`` bytes of the next pack are fetched for each l.
``egs_reach_T(rows, n, k, a, ar, ac, b, br, t, al, bl, taps, table)``: the same where the depth is k times the taps of a
table of pairs: t(i, j) = sum over c < k, s < taps of a(i*ar + c*ac + table(s, 0)*al) * b(c*br + table(s, 1)*bl + j).
Whole vectors of the last columns are read and written.
``egs_runs_T``: the same, tap by tap: the depth of a tap lies together in both operands.
``egs_pack_T(k, n, s, sr, sc, t, w)``: t(l*w + j) = s(l*sr + j*sc), 0 from column n to w.
``egs_dots_T``: products of few rows with columns that lie along memory (``lower/llvm/dots.py``), of f32 and f64.
``egs_tile_rows_T(n)``, ``egs_reach_rows_T(n)``, ``egs_runs_rows_T(n)``: how many rows a block of n columns best has.
T is f32 or f64; u8s8 or s8u8 for products of bytes, whose elements are quads (``quads``): the left and the right bytes
with sign or without; bf16, whose elements are pairs (``pairs``). Where a CPU multiplies these by tiles, blocks have up
to 16 rows (``tiles``); f16, and bf16x1, f16x2 and f32x3, are numbers in so many parts, which have kernels by tiles
only, the latter of up to 32 rows. f32f16 are rows of f32 and packs of f16, of whole vectors.

The kernels are explicit vector code. What fits in registers depends on the CPU (``elements.shape_for``): 8 rows by 3
vectors of 64 bytes with AVX-512, or 6 by 4 where a pack has so many; 4 by 3 of 32 bytes with AVX2, 4 by 2 of 16 bytes
elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from egshape.lower.llvm import dots, tile_steps, tiles
from egshape.lower.llvm.blocks import (
    ARGS,
    BLOCK,
    COMING_ARGS,
    MASKED,
    METADATA,
    REACH,
    REACH_ARGS,
    RUNS,
    block,
    more_args,
    name_of,
)
from egshape.lower.llvm.elements import (
    BY_TILES,
    IN_PARTS,
    MOST_ROWS,
    NARROW,
    TILE_ROWS,
    TYPES,
    Element,
    Shape,
    shape_for,
)
from egshape.lower.llvm.repack import pack_text


def _by_rows(t: Element, vectors: int, most: int, kind: str) -> str:
    """The blocks of one width, of up to ``most`` rows, for any number of rows that a block may have."""
    more = more_args(t, vectors, kind)
    lines = [
        f"define internal void @{name_of(t, 0, vectors, kind)}(i64 %rows, {ARGS}{more}) noinline nounwind {{",
        "entry:",
    ]
    counts = range(1, _rows(t, kind) + 1)
    cases = " ".join(f"i64 {rows}, label %r{rows}" for rows in counts)
    lines.append(f"  switch i64 %rows, label %done [ {cases} ]")
    for rows in counts:
        lines.append(f"r{rows}:")
        for begin, count in _split(rows, most):
            name = f"{rows}_{begin}"
            lines += [
                f"  %ai{name} = mul nsw i64 %ar, {begin}",
                f"  %a{name} = getelementptr {t.name}, ptr %a, i64 %ai{name}",
                f"  %t{name} = getelementptr {t.name}, ptr %t, i64 {begin * t.room}",
                f"  call void @{name_of(t, count, vectors, kind)}(i64 %k, ptr %a{name}, i64 %ar, i64 %ac, ptr %b, "
                f"i64 %br, ptr %t{name}{more})",
            ]
        lines.append("  br label %done")
    return "\n".join([*lines, "done:", "  ret void", "}", ""])


def _rows(t: Element, kind: str) -> int:
    """The most rows of a block."""
    return t.rows if kind == BLOCK else TILE_ROWS


def _best_rows(t: Element, shape: Shape, kind: str) -> str:
    """How many rows a block of n columns best has: those of the widest blocks where a pack is one of them."""
    vectors, rows = shape.blocks[0]
    name, most = _name(kind), _rows(t, kind)
    best = rows if vectors == 4 and most == TILE_ROWS else most
    return f"""define hidden i64 @egs_{name}_rows_{t.dtype}(i64 %n) nounwind memory(none) {{
  %wide = icmp sgt i64 %n, {(vectors - 1) * t.lanes}
  %rows = select i1 %wide, i64 {best}, i64 {most}
  ret i64 %rows
}}
"""


def _name(kind: str) -> str:
    """What the function of a kind is called by."""
    return "tile" if kind == BLOCK else kind


def _split(rows: int, most: int) -> Iterator[tuple[int, int]]:
    """Begin and count of parts of about the same size, none larger than ``most``."""
    parts = -(-rows // most)
    for part in range(parts):
        begin = rows * part // parts
        yield begin, rows * (part + 1) // parts - begin


def _tile(t: Element, shape: Shape, kind: str) -> str:
    """All columns: the widest blocks first, then narrower ones, then the masked one; or whole vectors with taps, and of
    what is always packed."""
    reach, more, last = kind != BLOCK, more_args(t, shape.blocks[0][0], kind), len(shape.blocks)
    whole = reach or t.dtype in NARROW
    name = _name(kind)
    held = f", {tiles.HELD}" if t.dtype in BY_TILES else ""
    lines = [
        f"define hidden void @egs_{name}_{t.dtype}(i64 %rows, i64 %n, {ARGS}{held}{more}) noinline nounwind {{",
        "entry:",
        *(_tiled(t) if t.tiled and name == "tile" else ("  br label %vectors",)),
        "vectors:",
        f"  %up = add nsw i64 %n, {t.lanes - 1 if whole else 0}",
        f"  %all = and i64 %up, {-t.lanes if whole else -1}",
        "  br label %head0",
    ]
    before, source = "0", "vectors"
    for at, (vectors, _) in enumerate(shape.blocks):
        columns = vectors * t.lanes
        lines += [
            f"head{at}:",
            f"  %j{at} = phi i64 [ {before}, %{source} ], [ %n{at}, %body{at} ]",
            f"  %n{at} = add nuw nsw i64 %j{at}, {columns}",
            f"  %left{at} = sub nsw i64 %all, %n{at}",
            *_fits(t, at, vectors),
            f"  br i1 %fits{at}, label %body{at}, label %head{at + 1}",
            f"body{at}:",
            *_call(t, f"{at}", f"%j{at}", vectors, more, kind),
            f"  br label %head{at}",
        ]
        before, source = f"%j{at}", f"head{at}"
    if whole:
        return "\n".join([*lines, f"head{last}:", "  ret void", "}", ""])
    lines += [
        f"head{last}:",
        f"  %left = sub nsw i64 %n, {before}",
        "  %some = icmp sgt i64 %left, 0",
        "  br i1 %some, label %rest, label %done",
        "rest:",
        "  %count = trunc i64 %left to i32",
        f"  %ce = insertelement <{t.lanes} x i32> poison, i32 %count, i32 0",
        f"  %cs = shufflevector <{t.lanes} x i32> %ce, <{t.lanes} x i32> poison, <{t.lanes} x i32> zeroinitializer",
        f"  %mask = icmp slt <{t.lanes} x i32> <{', '.join(f'i32 {k}' for k in range(t.lanes))}>, %cs",
        *_call(t, "rest", before, MASKED, more_args(t, MASKED, BLOCK), BLOCK),
        "  br label %done",
        "done:",
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines)


def _tiled(t: Element) -> Iterator[str]:
    """Many rows whose elements lie along memory, and whole tiles of columns: by tiles."""
    yield f"  %many = icmp sge i64 %rows, {tiles.LEAST_ROWS}"
    yield "  %along = icmp eq i64 %ac, 1"
    yield f"  %odd = and i64 %n, {tile_steps.ROWS - 1}"
    yield "  %even = icmp eq i64 %odd, 0"
    yield "  %fit = and i1 %along, %even"
    yield "  %ok = and i1 %fit, %many"
    yield "  br i1 %ok, label %tiles, label %vectors"
    yield "tiles:"
    yield f"  call void @egs_tiles_{t.dtype}(i64 %rows, i64 %n, i64 %k, ptr %a, i64 %ar, ptr %b, i64 %br, ptr %t, "
    yield f"    {tiles.HELD}{COMING_ARGS})"
    yield "  ret void"


def _fits(t: Element, at: int, vectors: int) -> Iterator[str]:
    """Whether a block is taken. Of four vectors: where just these are left, two and two or all of them; of three: where
    no single one would be left, whose sums are too few to hide what a step takes."""
    if vectors == 4:
        yield f"  %fits{at} = icmp eq i64 %left{at}, 0"
    elif vectors == 3:
        yield f"  %room{at} = icmp sge i64 %left{at}, 0"
        yield f"  %alone{at} = icmp ne i64 %left{at}, {t.lanes}"
        yield f"  %fits{at} = and i1 %room{at}, %alone{at}"
    else:
        yield f"  %fits{at} = icmp sge i64 %left{at}, 0"


def _call(t: Element, name: str, j: str, vectors: int, more: str, kind: str) -> list[str]:
    return [
        f"  %bp{name} = getelementptr {t.right[0]}, ptr %b, i64 {j}",
        f"  %tp{name} = getelementptr {t.name}, ptr %t, i64 {j}",
        f"  call void @{name_of(t, 0, vectors, kind)}(i64 %rows, i64 %k, ptr %a, i64 %ar, i64 %ac, ptr %bp{name}, "
        f"i64 %br, ptr %tp{name}{more})",
    ]


def _by_tiles(dtype: str, kind: str) -> str:
    """The kernels of numbers in parts, which are planned where there are tiles (``plan/cpu/parts.py``)."""
    name, more = _name(kind), REACH_ARGS if kind != BLOCK else COMING_ARGS
    return f"""define hidden void @egs_{name}_{dtype}(i64 %rows, i64 %n, {ARGS}, {tiles.HELD}{more}) nounwind {{
  call void @egs_tiles_{dtype}(i64 %rows, i64 %n, i64 %k, ptr %a, i64 %ar, ptr %b, i64 %br, ptr %t, {tiles.HELD}{more})
  ret void
}}
define hidden i64 @egs_{name}_rows_{dtype}(i64 %n) nounwind memory(none) {{
  ret i64 {MOST_ROWS[dtype]}
}}
"""


_MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
_ROUTINES = {BLOCK: ("tile", "pack", "dots"), REACH: ("reach",), RUNS: ("runs",)}
"""What is compiled together, as an object of its own."""


def by_tiles(features: str) -> tuple[str, ...]:
    """The floats that a CPU of these features multiplies by tiles, if EGSHAPE_TILES says no less."""
    if not tiles.tiled("bf16", frozenset(features.split(","))):
        return ()
    return ("bf16", "f16") if tiles.used() == "narrow" else ("bf16", "f16", "f32")


def widens_halves(features: str) -> bool:
    """Whether a CPU of these features widens f16 by an instruction."""
    return not {"+f16c", "+avx512f", "+neon"}.isdisjoint(features.split(","))


def called(module: str) -> list[tuple[str, str]]:
    """The dtypes and kinds of the products in a module's text."""
    return [
        (dtype, kind)
        for dtype in TYPES
        for kind, names in _ROUTINES.items()
        if any(f"@egs_{name}_{dtype}(" in module for name in names)
    ]


def asking(module: str, features: str) -> str:
    """What asks for the registers of tiles when a module is loaded that calls kernels that have them."""
    on = frozenset(features.split(","))
    return tiles.ASK if any(tiles.tiled(dtype, on) for dtype, _ in called(module)) else ""


def declarations(module: str) -> str:
    """Declarations of the kernels that a module calls."""
    return "".join(map(_declared, dict.fromkeys(dtype for dtype, _ in called(module))))


def _declared(dtype: str) -> str:
    held = ", ptr" if dtype in BY_TILES else ""
    done = [f"declare hidden void @egs_{name}_done_{dtype}(ptr)\n" for name in ("tile", REACH, RUNS) if held]
    return f"""declare hidden void @egs_tile_{dtype}(i64, i64, i64, ptr, i64, i64, ptr, i64, ptr{held}, ptr, i64)
declare hidden void @egs_reach_{dtype}(i64, i64, i64, ptr, i64, i64, ptr, i64, ptr{held}, i64, i64, i64, ptr)
declare hidden void @egs_runs_{dtype}(i64, i64, i64, ptr, i64, i64, ptr, i64, ptr{held}, i64, i64, i64, ptr)
declare hidden i64 @egs_tile_rows_{dtype}(i64) nounwind memory(none)
declare hidden i64 @egs_reach_rows_{dtype}(i64) nounwind memory(none)
declare hidden i64 @egs_runs_rows_{dtype}(i64) nounwind memory(none)
declare hidden void @egs_pack_{dtype}(i64, i64, ptr, i64, i64, ptr, i64)
declare hidden void @egs_dots_{dtype}(i64, i64, i64, ptr, i64, ptr, i64, ptr)
{"".join(done)}"""


def text(dtype: str, features: str, kind: str) -> str:
    """The kernels of a dtype and kind for a CPU of these features, as a module of LLVM IR."""
    if dtype in IN_PARTS:
        return _by_tiles(dtype, kind) + tiles.text(dtype, kind == RUNS) + tiles.done(_name(kind), dtype, tiled=True)
    shape, (name, size) = shape_for(features), TYPES[dtype]
    t = Element(dtype, name, size, shape.bytes // size, frozenset(features.split(",")))
    masked = ((MASKED, shape.blocks[-1][1]),) if kind == BLOCK and dtype not in NARROW else ()
    v, blocks = t.vector, (*shape.blocks, *masked)
    parts = [
        _MEMCPY,
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n",
        t.group.declaration if t.group else f"declare {v} @llvm.fma.{t.suffix}({v}, {v}, {v})\n",
        f"declare {v} @llvm.masked.load.{t.suffix}.p0(ptr, i32, {t.mask}, {v})\n",
        *(block(t, rows, vectors, kind, most) for vectors, most in blocks for rows in range(1, most + 1)),
        *(_by_rows(t, vectors, most, kind) for vectors, most in blocks),
        _tile(t, shape, kind),
        _best_rows(t, shape, kind),
    ]
    if kind == BLOCK and not t.group and dtype not in NARROW:
        few = dots.Lanes(dtype, name, size, t.lanes, t.room, (4, 2, 1) if shape.bytes == 64 else (2, 1))
        parts += [pack_text(t), dots.text(few)]
    by_tiles = kind == BLOCK and t.tiled
    if by_tiles:
        parts.append(tiles.text(dtype))
    if dtype in BY_TILES:
        parts.append(tiles.done(_name(kind), dtype, by_tiles))
    return "".join([*parts, METADATA])
