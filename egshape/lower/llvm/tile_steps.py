"""How products by tiles step through their depth: what is loaded into which registers, and multiplied.

The first four registers are sums, the others operands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from egshape.plan.ir.packs import TILES_ALONE

ROWS = 16
"""Rows of a tile, and elements of one of its rows."""
TWICE = "_twice"
"""Behind the kind of a convolution's elements, of more than 16 rows: two tiles of rows by two of columns, so that each
tile of a pack is read for both."""
STEPS = {"u8s8": "tdpbusd", "s8u8": "tdpbsud"}
FLOATS = "tdpbf16ps"
LINE = 64
"""Bytes of a row of a tile, and of a line of the cache."""
COMING = 8
"""Lines of the next pack that are fetched with each tile of the depth, at most."""
LEFT, RIGHT, REST_LEFT, REST_RIGHT = 4, 5, 6, 7


@dataclass(frozen=True)
class Parts:
    """How numbers of several parts are multiplied: the registers of the left operand's parts, and those of the right
    one's, of which some may be the same; how many of the largest left parts each right part meets. Of two tiles of
    rows: the registers of each tile of rows, and of columns."""

    lefts: tuple[int, ...]
    rights: tuple[int, ...]
    met: tuple[int, ...]


PARTS = {
    "f16": Parts((4, 5), (6, 7), (2, 2)),
    "bf16x1": Parts((4,), (5,), (1,)),
    "f16x2": Parts((4, 5), (6, 7), (2, 2)),
    "f32x3": Parts((4, 5, 6), (7, 7, 7), (3, 2, 1)),
    "bf16x1_twice": Parts((6, 7), (4, 5), (1,)),
    "f16x2_twice": Parts((6, 7), (4, 5), (2, 2)),
    "f32x3_twice": Parts((6, 7), (4, 5), (3, 2, 1)),
}


def depth(kind: str, vectors: int, runs: bool) -> Iterator[str]:
    """A whole depth, or that of each tap in turn, for some tiles of columns; ends in the block ``store``."""
    yield f"  %step = mul nsw i64 %bs, {ROWS}"
    if not runs:
        yield f"  %pace.l = mul nsw i64 %pace, {ROWS}"
    yield from _of_taps(kind, vectors) if runs else _of_parts(kind, vectors) if kind in PARTS else _plain(kind, vectors)


def _plain(dtype: str, vectors: int) -> Iterator[str]:
    """One depth, then what is left of a tile's."""
    yield f"  %whole = and i64 %k, {-ROWS}"
    yield "  %some = icmp sgt i64 %whole, 0"
    yield "  br i1 %some, label %loop, label %rest"
    step = _step(dtype, vectors, "s", "%ap", "%bp", LEFT, RIGHT)
    yield from _loop(step, "entry", "%a", "%b", "rest", fetches=True)
    yield from (
        "rest:",
        "  %ar = phi ptr [ %a, %entry ], [ %an, %loop ]",
        "  %br = phi ptr [ %b, %entry ], [ %bn, %loop ]",
        "  %odd = icmp slt i64 %whole, %k",
        "  br i1 %odd, label %last, label %store",
        "last:",
        *_step(dtype, vectors, "r", "%ar", "%br", REST_LEFT, REST_RIGHT),
        "  br label %store",
        "store:",
    )


def _of_parts(dtype: str, vectors: int) -> Iterator[str]:
    """The depth of numbers in parts."""
    yield from _apart(dtype)
    yield "  br i1 %some, label %loop, label %store"
    far = "%b.step" if _together(dtype) else "%step"
    yield from _loop(_parts_step(vectors, dtype), "entry", "%a", "%b", "store", far, fetches=True)
    yield "store:"


def _of_taps(dtype: str, vectors: int) -> Iterator[str]:
    """The same of each tap in turn."""
    yield from _apart(dtype)
    yield from (
        "  %any = icmp sgt i64 %taps, 0",
        "  %both = and i1 %some, %any",
        "  %als = shl nsw i64 %al, 2",
        "  %bls = shl nsw i64 %bl, 2",
        "  br i1 %both, label %tap, label %store",
        "tap:",
        "  %c = phi i64 [ 0, %entry ], [ %cn, %tapped ]",
        "  %pair = getelementptr [2 x i64], ptr %table, i64 %c",
        "  %ta = load i64, ptr %pair",
        "  %other = getelementptr i64, ptr %pair, i64 1",
        "  %tb = load i64, ptr %other",
        "  %ax = mul nsw i64 %ta, %als",
        "  %bx = mul nsw i64 %tb, %bls",
        "  %a.tap = getelementptr i8, ptr %a, i64 %ax",
        "  %b.tap = getelementptr i8, ptr %b, i64 %bx",
        "  br label %loop",
    )
    yield from _loop(_parts_step(vectors, dtype), "tap", "%a.tap", "%b.tap", "tapped", "%b.step")
    yield from (
        "tapped:",
        "  %cn = add nuw nsw i64 %c, 1",
        "  %again = icmp slt i64 %cn, %taps",
        "  br i1 %again, label %tap, label %store",
        "store:",
    )


def _together(dtype: str) -> bool:
    """Whether the parts of a tile of the right operand lie behind each other, not those of a whole depth."""
    return dtype.removesuffix(TWICE) in TILES_ALONE


def _apart(dtype: str) -> Iterator[str]:
    """How far the parts of both operands lie apart, in bytes."""
    count = len(PARTS[dtype].met)
    yield f"  %whole = udiv i64 %k, {count}"
    yield "  %a.part = shl nsw i64 %whole, 2"
    if _together(dtype):
        yield f"  %b.part = mul nsw i64 %bs, {ROWS}"
        yield f"  %b.step = mul nsw i64 %step, {count}"
    else:
        yield "  %b.part = mul nsw i64 %whole, %bs"
    yield "  %some = icmp sgt i64 %whole, 0"


def fetched(place: str, lines: int, pace: str) -> Iterator[str]:
    """So many lines of the next pack on their way to the second cache; %coming.n is where it goes on, ``pace`` bytes
    behind."""
    for line in range(lines):
        yield f"  %coming.{line} = getelementptr i8, ptr {place}, i64 {LINE * line}"
        yield f"  call void @llvm.prefetch.p0(ptr %coming.{line}, i32 0, i32 2, i32 1)"
    yield f"  %coming.n = getelementptr i8, ptr {place}, i64 {pace}"


def _loop(
    step: Iterator[str], before: str, a: str, b: str, behind: str, far: str = "%step", fetches: bool = False
) -> Iterator[str]:
    """Whole tiles of a depth that begins at two places."""
    yield from (
        "loop:",
        f"  %l = phi i64 [ 0, %{before} ], [ %ln, %loop ]",
        f"  %ap = phi ptr [ {a}, %{before} ], [ %an, %loop ]",
        f"  %bp = phi ptr [ {b}, %{before} ], [ %bn, %loop ]",
        *([f"  %coming.l = phi ptr [ %coming, %{before} ], [ %coming.n, %loop ]"] if fetches else ()),
        *step,
        *(fetched("%coming.l", COMING, "%pace.l") if fetches else ()),
        f"  %an = getelementptr i8, ptr %ap, i64 {LINE}",
        f"  %bn = getelementptr i8, ptr %bp, i64 {far}",
        f"  %ln = add nuw nsw i64 %l, {ROWS}",
        "  %more = icmp slt i64 %ln, %whole",
        f"  br i1 %more, label %loop, label %{behind}",
    )


def _step(dtype: str, vectors: int, name: str, a: str, b: str, left: int, right: int) -> Iterator[str]:
    """The products of a tile of the left operand with those beside each other of the right one."""
    yield f"  call void @llvm.x86.tileloadd64(i8 {left}, ptr {a}, i64 %as)"
    for v in range(vectors):
        yield f"  %{name}b{v} = getelementptr i8, ptr {b}, i64 {LINE * v}"
        yield f"  call void @llvm.x86.tileloadd64(i8 {right}, ptr %{name}b{v}, i64 %bs)"
        yield f"  call void @llvm.x86.{STEPS.get(dtype, FLOATS)}(i8 {v}, i8 {left}, i8 {right})"


def _parts_step(vectors: int, dtype: str) -> Iterator[str]:
    """The same of numbers in parts."""
    yield from _step_of_two(vectors, dtype) if dtype.endswith(TWICE) else _step_of_parts(vectors, dtype)


def _step_of_two(vectors: int, dtype: str) -> Iterator[str]:
    """Of two tiles of rows: each part of the right operand meets those of the left one."""
    parts = PARTS[dtype]
    for number, met in enumerate(parts.met):
        yield from _part("b", number, "%bp" if not number else f"%b{number - 1}.at")
        for v in range(vectors):
            yield f"  %b{number}.{v} = getelementptr i8, ptr %b{number}.at, i64 {LINE * v}"
            yield f"  call void @llvm.x86.tileloadd64(i8 {parts.rights[v]}, ptr %b{number}.{v}, i64 %bs)"
        for left in range(met):
            if not number:
                yield from _part("a", left, "%ap" if not left else f"%a{left - 1}.at")
                yield f"  %a{left}.below = getelementptr i8, ptr %a{left}.at, i64 %below"
            for row, (register, place) in enumerate(zip(parts.lefts, (f"%a{left}.at", f"%a{left}.below"), strict=True)):
                yield f"  call void @llvm.x86.tileloadd64(i8 {register}, ptr {place}, i64 %as)"
                for v in range(vectors):
                    yield f"  call void @llvm.x86.{FLOATS}(i8 {v + row * 2}, i8 {register}, i8 {parts.rights[v]})"


def _step_of_parts(vectors: int, dtype: str) -> Iterator[str]:
    """Of one: all parts of the left operand are held."""
    parts = PARTS[dtype]
    for number, register in enumerate(parts.lefts):
        yield from _part("a", number, "%ap" if not number else f"%a{number - 1}.at")
        yield f"  call void @llvm.x86.tileloadd64(i8 {register}, ptr %a{number}.at, i64 %as)"
    for number in range(len(parts.rights)):
        yield from _part("b", number, "%bp" if not number else f"%b{number - 1}.at")
    for number, (register, met) in enumerate(zip(parts.rights, parts.met, strict=True)):
        for v in range(vectors):
            yield f"  %b{number}.{v} = getelementptr i8, ptr %b{number}.at, i64 {LINE * v}"
            yield f"  call void @llvm.x86.tileloadd64(i8 {register}, ptr %b{number}.{v}, i64 %bs)"
            for left in parts.lefts[:met]:
                yield f"  call void @llvm.x86.{FLOATS}(i8 {v}, i8 {left}, i8 {register})"


def _part(side: str, number: int, before: str) -> Iterator[str]:
    """Where a part lies: as far behind the one before as that is long."""
    yield f"  %{side}{number}.at = getelementptr i8, ptr {before}, i64 {f'%{side}.part' if number else 0}"
