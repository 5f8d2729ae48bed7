"""Products by tiles (x86's AMX): registers of 16 rows of 64 bytes, one instruction for the product of two of them.

``egs_tiles_T(rows, n, k, a, ar, b, br, t)`` computes what ``egs_tile_T`` of ``gemm`` does where the left operand's
elements lie along memory: at most 16 rows, n a multiple of 16. Sums of 4 tiles, 64 columns, stay in registers over the
depth. T is bf16, u8s8 or s8u8; or f16, whose numbers are two bf16 each (``plan/cpu/split_halves.py``): the larger parts
of a row, or of a pack, and behind all of them the smaller ones; k counts both, a multiple of 16 each, and four products
of tiles make one. Of few rows both parts of a row are rows of one tile; very few are multiplied by vectors.

Linux must have been asked for the registers (``runtime/abi/tiles.py``): a module asks when it is loaded as a
library. They are released behind each block."""

from __future__ import annotations

from collections.abc import Iterator

from egshape.plan.ir.packs import ROOM_BYTES

ROWS = 16
"""Rows of a tile, and elements of one of its rows."""
LEAST_ROWS = 4
"""From here tiles are faster than vectors."""
VECTOR_ROWS = 2
"""Up to here rows of f16 are multiplied by vectors."""
_STEPS = {"bf16": "tdpbf16ps", "f16": "tdpbf16ps", "stacked": "tdpbf16ps", "u8s8": "tdpbusd", "s8u8": "tdpbsud"}
_STACKED = "stacked"
"""f16 of at most 8 rows: the smaller parts of a row are a row of the tile behind that of the larger ones."""
_LINE = 64
_MOST = 4
"""Tiles of sums: the first registers."""
_LEFT, _RIGHT, _REST_LEFT, _REST_RIGHT = 4, 5, 6, 7
_LEFTS, _RIGHTS = (4, 5), (6, 7)
"""Of f16: larger and smaller parts."""


def tiled(dtype: str, features: frozenset[str]) -> bool:
    """Whether a CPU multiplies elements of a kind by tiles."""
    wanted = {"bf16": "+amx-bf16", "f16": "+amx-bf16", "u8s8": "+amx-int8", "s8u8": "+amx-int8"}.get(dtype)
    return wanted is not None and {"+amx-tile", wanted} <= features


def text(dtype: str) -> str:
    """The function and what it needs, as LLVM IR."""
    some = range(1, _MOST + 1)
    kinds = (dtype, _STACKED) if dtype == "f16" else (dtype,)
    columns = [_columns(kind, vectors) for kind in kinds for vectors in some]
    return "".join([_declarations(dtype), _ASK, *columns, *map(_all, kinds), _either() if dtype == "f16" else ""])


def _declarations(dtype: str) -> str:
    rows, lines = [0] * 8, [_LINE] * 8
    for register in _RIGHTS if dtype == "f16" else (_RIGHT,):
        rows[register] = ROWS
    shape = [1, *[0] * 15, *(each for size in lines for each in (size, 0)), *[0] * 16, *rows, *[0] * 8]
    filled = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n" if dtype == "f16" else ""
    values = ", ".join(f"i8 {each}" for each in shape)
    return f"""{filled}@egs_tiles_shape = private unnamed_addr constant [64 x i8] [{values}]
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tilezero(i8 immarg)
declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)
declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)
declare void @llvm.x86.{_STEPS[dtype]}(i8 immarg, i8 immarg, i8 immarg)
"""


_ASK = """@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [
  { i32, ptr, ptr } { i32 65535, ptr @egs_tiles_ask, ptr null }
]
declare i64 @syscall(i64, ...)
define internal void @egs_tiles_ask() nounwind {
  %done = call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)
  ret void
}
"""
"""arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) of Linux, when a library is loaded that has the kernels."""


def _all(dtype: str) -> str:
    """The shapes of the registers, then up to four tiles of columns at a time."""
    rest = dtype not in ("f16", _STACKED)
    name = {"f16": "f16_many", _STACKED: "f16_few"}.get(dtype, dtype)
    lines = [
        f"define internal void @egs_tiles_{name}(i64 %rows, i64 %n, i64 %k, ptr %a, i64 %ar, ptr %b, i64 %br, ptr %t) "
        "noinline nounwind {",
        "entry:",
        "  %shape = alloca [64 x i8], align 64",
        "  call void @llvm.memcpy.p0.p0.i64(ptr %shape, ptr @egs_tiles_shape, i64 64, i1 false)",
        "  %count = trunc i64 %rows to i8",
    ]
    for register in (*range(_MOST), *((_LEFT, _REST_LEFT) if rest else _LEFTS)):
        lines += _shaped(f"r{register}", 48 + register, "%count")
    if rest:  # a register that is not used must have some shape too
        lines += [
            f"  %odd = and i64 %k, {ROWS - 1}",
            "  %even = icmp eq i64 %odd, 0",
            f"  %deep = select i1 %even, i64 {ROWS}, i64 %odd",
            "  %deep8 = trunc i64 %deep to i8",
            "  %line8 = shl i8 %deep8, 2",
            *_shaped("rest.rows", 48 + _REST_RIGHT, "%deep8"),
            *_shaped("rest.line", 16 + 2 * _REST_LEFT, "%line8"),
        ]
    lines += [
        "  call void @llvm.x86.ldtilecfg(ptr %shape)",
        "  %as = shl nsw i64 %ar, 2",
        "  %bs = shl nsw i64 %br, 2",
        "  br label %head",
        "head:",
        "  %j = phi i64 [ 0, %entry ], [ %jn, %next ]",
        "  %left = sub nsw i64 %n, %j",
        f"  %tiles = lshr i64 %left, {ROWS.bit_length() - 1}",
        f"  %some = call i64 @llvm.umin.i64(i64 %tiles, i64 {_MOST})",
        "  %jw = shl nuw nsw i64 %some, 4",
        "  %jn = add nuw nsw i64 %j, %jw",
        "  %bp = getelementptr i32, ptr %b, i64 %j",
        "  %tp = getelementptr i32, ptr %t, i64 %j",
        f"  switch i64 %some, label %done [ {' '.join(f'i64 {v}, label %v{v}' for v in range(1, _MOST + 1))} ]",
    ]
    for vectors in range(1, _MOST + 1):
        lines += [
            f"v{vectors}:",
            f"  call void @egs_tiles_{dtype}_{vectors}(i64 %k, ptr %a, i64 %as, ptr %bp, i64 %bs, ptr %tp)",
            "  br label %next",
        ]
    return "\n".join(
        [*lines, "next:", "  br label %head", "done:", "  call void @llvm.x86.tilerelease()", "  ret void", "}", ""]
    )


def _shaped(name: str, place: int, value: str) -> Iterator[str]:
    yield f"  %{name} = getelementptr i8, ptr %shape, i64 {place}"
    yield f"  store i8 {value}, ptr %{name}"


def _either() -> str:
    """f16 of few rows or of many. Of few, twice as many are multiplied, and then added in pairs; of very few by vectors
    (``egs_vectors_f16``), which read packs faster than tiles do: first the larger parts of a pack, then the others."""
    room, sizes = ROWS * ROOM_BYTES, "i64 %n, i64 %k, ptr %a, i64"
    return f"""define internal void @egs_tiles_f16(i64 %rows, i64 %n, i64 %k, ptr %a, i64 %ar, ptr %b, i64 %br, ptr %t)
  noinline nounwind {{
entry:
  %sums = alloca [{2 * room} x i8], align 64
  %more = getelementptr i8, ptr %sums, i64 {room}
  %twice = shl nuw nsw i64 %rows, 1
  %half = ashr i64 %ar, 1
  %depth = lshr i64 %k, 1
  %vector = icmp sle i64 %rows, {VECTOR_ROWS}
  br i1 %vector, label %vectors, label %tiles
vectors:
  %far = mul nsw i64 %depth, %br
  %bl = getelementptr float, ptr %b, i64 %far
  call void @egs_vectors_f16(i64 %twice, i64 %n, i64 %depth, ptr %a, i64 %half, i64 1, ptr %b, i64 %br, ptr %sums)
  call void @egs_vectors_f16(i64 %twice, i64 %n, i64 %depth, ptr %a, i64 %half, i64 1, ptr %bl, i64 %br, ptr %more)
  br label %added
tiles:
  %few = icmp sle i64 %rows, {ROWS // 2}
  br i1 %few, label %stacked, label %many
many:
  call void @egs_tiles_f16_many(i64 %rows, {sizes} %ar, ptr %b, i64 %br, ptr %t)
  ret void
stacked:
  call void @llvm.memset.p0.i64(ptr align 64 %more, i8 0, i64 {room}, i1 false)
  call void @egs_tiles_f16_few(i64 %twice, {sizes} %half, ptr %b, i64 %br, ptr %sums)
  br label %added
added:
  br label %row
row:
  %i = phi i64 [ 0, %added ], [ %in, %done ]
  %from = mul nuw nsw i64 %i, {2 * ROOM_BYTES}
  %to = mul nuw nsw i64 %i, {ROOM_BYTES}
  %s0 = getelementptr i8, ptr %sums, i64 %from
  %tp = getelementptr i8, ptr %t, i64 %to
  br label %column
column:
  %j = phi i64 [ 0, %row ], [ %jn, %column ]
{_loaded()}  %jn = add nuw nsw i64 %j, {ROWS}
  %again.j = icmp slt i64 %jn, %n
  br i1 %again.j, label %column, label %done
done:
  %in = add nuw nsw i64 %i, 1
  %again.i = icmp slt i64 %in, %rows
  br i1 %again.i, label %row, label %end
end:
  ret void
}}
"""


def _loaded() -> str:
    """The sum of a vector of both rows of both parts."""
    vector, lines = f"<{ROWS} x float>", ["  %p0 = getelementptr float, ptr %s0, i64 %j"]
    room = ROWS * ROOM_BYTES
    for k, place in enumerate((0, ROOM_BYTES, room, room + ROOM_BYTES)):
        lines.append(f"  %q{k} = getelementptr i8, ptr %p0, i64 {place}")
        lines.append(f"  %x{k} = load {vector}, ptr %q{k}, align 64")
    return "\n".join(
        [
            *lines,
            f"  %y0 = fadd {vector} %x0, %x1",
            f"  %y1 = fadd {vector} %x2, %x3",
            f"  %y = fadd {vector} %y0, %y1",
            "  %pt = getelementptr float, ptr %tp, i64 %j",
            f"  store {vector} %y, ptr %pt, align 64",
            "",
        ]
    )


def _columns(dtype: str, vectors: int) -> str:
    """Some tiles of columns over the whole depth."""
    split = dtype in ("f16", _STACKED)
    lines = [
        f"define internal void @egs_tiles_{dtype}_{vectors}(i64 %k, ptr %a, i64 %as, ptr %b, i64 %bs, ptr %t) "
        "noinline nounwind {",
        "entry:",
        *(f"  call void @llvm.x86.tilezero(i8 {v})" for v in range(vectors)),
        "  %whole = lshr i64 %k, 1" if split else f"  %whole = and i64 %k, {-ROWS}",
        f"  %step = mul nsw i64 %bs, {ROWS}",
        *(["  %al = shl nsw i64 %whole, 2", "  %bl = mul nsw i64 %whole, %bs"] if split else []),
        "  %some = icmp sgt i64 %whole, 0",
        "  br i1 %some, label %loop, label %rest",
        "loop:",
        "  %l = phi i64 [ 0, %entry ], [ %ln, %loop ]",
        "  %ap = phi ptr [ %a, %entry ], [ %an, %loop ]",
        "  %bp = phi ptr [ %b, %entry ], [ %bn, %loop ]",
        *(_split_step(vectors, dtype) if split else _step(dtype, vectors, "s", "%ap", "%bp", _LEFT, _RIGHT)),
        f"  %an = getelementptr i8, ptr %ap, i64 {_LINE}",
        "  %bn = getelementptr i8, ptr %bp, i64 %step",
        f"  %ln = add nuw nsw i64 %l, {ROWS}",
        "  %more = icmp slt i64 %ln, %whole",
        "  br i1 %more, label %loop, label %rest",
        "rest:",
    ]
    if not split:
        lines += [
            "  %ar = phi ptr [ %a, %entry ], [ %an, %loop ]",
            "  %br = phi ptr [ %b, %entry ], [ %bn, %loop ]",
            "  %odd = icmp slt i64 %whole, %k",
            "  br i1 %odd, label %last, label %store",
            "last:",
            *_step(dtype, vectors, "r", "%ar", "%br", _REST_LEFT, _REST_RIGHT),
            "  br label %store",
            "store:",
        ]
    for v in range(vectors):
        lines += [
            f"  %tp{v} = getelementptr i8, ptr %t, i64 {_LINE * v}",
            f"  call void @llvm.x86.tilestored64(i8 {v}, ptr %tp{v}, i64 {ROOM_BYTES})",
        ]
    return "\n".join([*lines, "  ret void", "}", ""])


def _step(dtype: str, vectors: int, name: str, a: str, b: str, left: int, right: int) -> Iterator[str]:
    """The products of a tile of the left operand with those beside each other of the right one."""
    yield f"  call void @llvm.x86.tileloadd64(i8 {left}, ptr {a}, i64 %as)"
    for v in range(vectors):
        yield f"  %{name}b{v} = getelementptr i8, ptr {b}, i64 {_LINE * v}"
        yield f"  call void @llvm.x86.tileloadd64(i8 {right}, ptr %{name}b{v}, i64 %bs)"
        yield f"  call void @llvm.x86.{_STEPS[dtype]}(i8 {v}, i8 {left}, i8 {right})"


def _split_step(vectors: int, dtype: str) -> Iterator[str]:
    """The same of f16: both parts of the one with both of the other."""
    lefts = {_LEFTS[0]: "%ap"} if dtype == _STACKED else dict(zip(_LEFTS, ("%ap", "%alp"), strict=True))
    yield "  %alp = getelementptr i8, ptr %ap, i64 %al"
    yield "  %blp = getelementptr i8, ptr %bp, i64 %bl"
    for register, place in lefts.items():
        yield f"  call void @llvm.x86.tileloadd64(i8 {register}, ptr {place}, i64 %as)"
    for v in range(vectors):
        for register, place, name in zip(_RIGHTS, ("%bp", "%blp"), "hl", strict=True):
            yield f"  %{name}b{v} = getelementptr i8, ptr {place}, i64 {_LINE * v}"
            yield f"  call void @llvm.x86.tileloadd64(i8 {register}, ptr %{name}b{v}, i64 %bs)"
            for left in lefts:
                yield f"  call void @llvm.x86.{_STEPS[dtype]}(i8 {v}, i8 {left}, i8 {register})"
