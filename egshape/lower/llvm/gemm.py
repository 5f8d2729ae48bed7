"""The kernels of matrix products: blocks of rows and columns in registers, panels packed from right operands.

``egs_tile_T(rows, n, k, a, ar, ac, b, br, t)``: a block of at most 8 rows and a panel's columns of a product, written
to the block t, whose rows stand the widest panel apart: t(i, j) = sum over l < k of a(i*ar + l*ac) * b(l*br + j). Where
n is no multiple of the vector, the last columns are read under a mask.
``egs_reach_T(rows, n, k, a, ar, ac, b, br, t, al, bl, taps, table)``: the same where the depth is k times the taps of a
table of pairs: t(i, j) = sum over c < k, s < taps of a(i*ar + c*ac + table(s, 0)*al) * b(c*br + table(s, 1)*bl + j).
Whole vectors of the last columns are read and written.
``egs_runs_T``: the same, tap by tap: the depth of a tap lies together on both sides.
``egs_pack_T(k, n, s, sr, sc, t, w)``: t(l*w + j) = s(l*sr + j*sc), 0 from column n to w.
``egs_dots_T``: products of few rows with columns that lie along memory (``lower/llvm/dots.py``), of f32 and f64.
T is f32 or f64; u8s8 or s8u8 for products of bytes, whose elements are quads (``quads``): the left and the right bytes
with sign or without; bf16, whose elements are pairs (``pairs``).

The kernels are explicit vector code. What fits in registers depends on the CPU: 8 rows by 3 vectors of 64 bytes with
AVX-512, 4 by 3 of 32 bytes with AVX2, 4 by 2 of 16 bytes elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from egshape.lower.llvm import dots
from egshape.lower.llvm.pairs import Pairs
from egshape.lower.llvm.quads import Quads
from egshape.plan.ir.loops import ROOM_BYTES

TILE_ROWS = 8
"""Rows of a block."""
TYPES = {
    "f32": ("float", 4),
    "f64": ("double", 8),
    "u8s8": ("i32", 4),
    "s8u8": ("i32", 4),
    "i32": ("i32", 4),
    "bf16": ("float", 4),
}
"""Element and size; products of i32 are of bytes, those of bf16 of pairs."""
_SUFFIXES = {"float": "f32", "double": "f64", "i32": "i32"}


@dataclass(frozen=True)
class Shape:
    """What the registers hold: ``rows`` times ``vectors`` of ``bytes`` each."""

    bytes: int
    rows: int
    vectors: int


def shape_for(features: str) -> Shape:
    """The block of a CPU, by LLVM's feature string."""
    on = set(features.split(","))
    if "+avx512f" in on:
        return Shape(64, 8, 3)
    return Shape(32, 4, 3) if {"+avx2", "+fma"} <= on else Shape(16, 4, 2)


@dataclass(frozen=True)
class _Type:
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


_ARGS = "i64 %k, ptr %a, i64 %ar, i64 %ac, ptr %b, i64 %br, ptr %t"
_REACH = ", i64 %al, i64 %bl, i64 %taps, ptr %table"
BLOCK, REACH, RUNS = "block", "reach", "runs"
"""Kinds of blocks: one depth; channels and the taps of each; taps and the channels of each."""
_WHOLE = """!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
"""
"""Loops over taps are left as they are: written out, their sums would not fit in registers."""
FETCHED, AHEAD = 4, 8
"""Blocks of so many rows fetch what they read so many rounds later: a core that waits for sums does not look as far
ahead as the next level of the cache is away. Blocks of fewer rows read all the time as it is."""
EVEN = 3
"""Vectors of a block of which none is taken where one more would be left."""
MASKED = 0
"""Instead of a number of vectors: one under a mask."""


def _name(t: _Type, rows: int, vectors: int, kind: str) -> str:
    return f"egs_{kind}_{t.dtype}_{rows}_{vectors or 'masked'}"


def _more(t: _Type, vectors: int, kind: str) -> str:
    """What blocks take beside the arguments of all."""
    return _REACH if kind != BLOCK else f", {t.mask} %mask" if vectors == MASKED else ""


def _block(t: _Type, rows: int, vectors: int, kind: str) -> str:
    """A product of ``rows`` rows and ``vectors`` vectors of columns."""
    reach, masked, count, width = kind == REACH, vectors == MASKED, vectors or 1, t.room
    cells = [(r, v) for r in range(rows) for v in range(count)]
    name = f"{_name(t, rows, vectors, kind)}({_ARGS}{_more(t, vectors, kind)})"
    lines = [
        f"define internal void @{name} noinline nounwind {{",
        "entry:",
        f"  %bs = mul nsw i64 %br, {t.size}",
        f"  %as = mul nsw i64 %ac, {t.size}",
    ]
    for r in range(0 if reach else rows):
        lines += [f"  %ai{r} = mul nsw i64 %ar, {r}", f"  %a{r} = getelementptr {t.name}, ptr %a, i64 %ai{r}"]
    lines += _BEGIN[kind](t, cells)
    for v in range(count):
        lines += [
            f"  %bp{v} = getelementptr {t.name}, ptr %bp, i64 {t.lanes * v}",
            f"  %b{v} = {_load(t, f'%bp{v}', masked)}",
            *t.operand(f"b{v}", right=True),
        ]
    if kind == BLOCK and rows >= FETCHED:
        lines += [f"  %far = mul nsw i64 %bs, {AHEAD}", "  %fp = getelementptr i8, ptr %bp, i64 %far"]
        lines += [
            line
            for v in range(count)
            for line in (
                f"  %fp{v} = getelementptr {t.name}, ptr %fp, i64 {t.lanes * v}",
                f"  call void @llvm.prefetch.p0(ptr %fp{v}, i32 0, i32 3, i32 1)",
            )
        ]
    for r in range(rows):
        address = f"ptr %ap{r - 1}, i64 %ars" if reach and r else f"ptr %a{'' if reach else r}, i64 %at"
        lines += [
            f"  %ap{r} = getelementptr i8, {address}",
            f"  %av{r} = load {t.name}, ptr %ap{r}",
            *t.splat(f"x{r}", f"%av{r}"),
            *t.operand(f"x{r}"),
        ]
        lines += [line for v in range(count) for line in t.step(f"f{r}_{v}", f"x{r}", f"b{v}", f"s{r}_{v}")]
    lines += ["  %next = add nuw nsw i64 %l, 1"]
    last, end = _END[kind]
    lines += [*end, "store:"]
    lines += [f"  %g{r}_{v} = phi {t.vector} [ zeroinitializer, %entry ], [ %f{r}_{v}, %{last} ]" for r, v in cells]
    for r, v in cells:
        lines += [
            f"  %tp{r}_{v} = getelementptr {t.name}, ptr %t, i64 {width * r + t.lanes * v}",
            f"  store {t.vector} %g{r}_{v}, ptr %tp{r}_{v}, align {t.size}",
        ]
    return "\n".join([*lines, "  ret void", "}", ""])


Cells = Sequence[tuple[int, int]]


def _whole(t: _Type, cells: Cells) -> list[str]:
    """The beginning of a loop over one depth."""
    return [
        "  %some = icmp sgt i64 %k, 0",
        "  br i1 %some, label %loop, label %store",
        "loop:",
        "  %l = phi i64 [ 0, %entry ], [ %next, %loop ]",
        "  %at = phi i64 [ 0, %entry ], [ %an, %loop ]",
        "  %bp = phi ptr [ %b, %entry ], [ %bn, %loop ]",
        *(f"  %s{r}_{v} = phi {t.vector} [ zeroinitializer, %entry ], [ %f{r}_{v}, %loop ]" for r, v in cells),
    ]


def _some(t: _Type, cells: Cells, outer: str, index: str, latch: str) -> list[str]:
    """The beginning of the outer one of two loops; nothing is done where one of them is empty."""
    return [
        *(() if outer == "tap" else (f"  %ars = mul nsw i64 %ar, {t.size}",)),
        f"  %als = mul nsw i64 %al, {t.size}",
        f"  %bls = mul nsw i64 %bl, {t.size}",
        "  %some.c = icmp sgt i64 %k, 0",
        "  %some.s = icmp sgt i64 %taps, 0",
        "  %some = and i1 %some.c, %some.s",
        f"  br i1 %some, label %{outer}, label %store",
        f"{outer}:",
        f"  %{index} = phi i64 [ 0, %entry ], [ %{index}n, %{latch} ]",
        *(f"  %c{r}_{k} = phi {t.vector} [ zeroinitializer, %entry ], [ %f{r}_{k}, %{latch} ]" for r, k in cells),
    ]


def _pair(number: str) -> list[str]:
    """How far a tap lies on both sides."""
    return [
        f"  %pair = getelementptr [2 x i64], ptr %table, i64 {number}",
        "  %ta = load i64, ptr %pair",
        "  %other = getelementptr i64, ptr %pair, i64 1",
        "  %tb = load i64, ptr %other",
        "  %ax = mul nsw i64 %ta, %als",
        "  %bx = mul nsw i64 %tb, %bls",
    ]


def _taps(t: _Type, cells: Cells) -> list[str]:
    """The beginning of the loops over channels and taps: where both sides lie."""
    return [
        *_some(t, cells, "channel", "c", "channelled"),
        "  %ac.0 = phi i64 [ 0, %entry ], [ %an, %channelled ]",
        "  %bc = phi ptr [ %b, %entry ], [ %bn, %channelled ]",
        "  br label %loop",
        "loop:",
        "  %l = phi i64 [ 0, %channel ], [ %next, %loop ]",
        *(f"  %s{r}_{k} = phi {t.vector} [ %c{r}_{k}, %channel ], [ %f{r}_{k}, %loop ]" for r, k in cells),
        *_pair("%l"),
        "  %at = add nsw i64 %ac.0, %ax",
        "  %bp = getelementptr i8, ptr %bc, i64 %bx",
    ]


def _runs(t: _Type, cells: Cells) -> list[str]:
    """The beginning of the loops over taps and what lies together at each."""
    return [
        *_some(t, cells, "tap", "c", "tapped"),
        *_pair("%c"),
        "  %b.0 = getelementptr i8, ptr %b, i64 %bx",
        "  br label %loop",
        "loop:",
        "  %l = phi i64 [ 0, %tap ], [ %next, %loop ]",
        "  %at = phi i64 [ %ax, %tap ], [ %an, %loop ]",
        "  %bp = phi ptr [ %b.0, %tap ], [ %bn, %loop ]",
        *(f"  %s{r}_{k} = phi {t.vector} [ %c{r}_{k}, %tap ], [ %f{r}_{k}, %loop ]" for r, k in cells),
    ]


_BEGIN = {BLOCK: _whole, REACH: _taps, RUNS: _runs}
_STEP = [
    "  %bn = getelementptr i8, ptr %bp, i64 %bs",
    "  %an = add nsw i64 %at, %as",
    "  %more = icmp slt i64 %next, %k",
]
_END = {
    BLOCK: ("loop", [*_STEP, "  br i1 %more, label %loop, label %store"]),
    REACH: (
        "channelled",
        [
            "  %again = icmp slt i64 %next, %taps",
            "  br i1 %again, label %loop, label %channelled, !llvm.loop !0",
            "channelled:",
            "  %bn = getelementptr i8, ptr %bc, i64 %bs",
            "  %an = add nsw i64 %ac.0, %as",
            "  %cn = add nuw nsw i64 %c, 1",
            "  %more = icmp slt i64 %cn, %k",
            "  br i1 %more, label %channel, label %store, !llvm.loop !0",
        ],
    ),
    RUNS: (
        "tapped",
        [
            *_STEP,
            "  br i1 %more, label %loop, label %tapped",
            "tapped:",
            "  %cn = add nuw nsw i64 %c, 1",
            "  %again = icmp slt i64 %cn, %taps",
            "  br i1 %again, label %tap, label %store, !llvm.loop !0",
        ],
    ),
}
"""How the loops of a block end: where its sums are behind them, and the lines."""


def _load(t: _Type, pointer: str, masked: bool) -> str:
    if masked:
        return (
            f"call {t.vector} @llvm.masked.load.{t.suffix}.p0(ptr {pointer}, i32 {t.size}, {t.mask} %mask, "
            f"{t.vector} zeroinitializer)"
        )
    return f"load {t.vector}, ptr {pointer}, align {t.size}"


def _by_rows(t: _Type, shape: Shape, vectors: int, kind: str) -> str:
    """The blocks of one width for any number of rows up to TILE_ROWS."""
    more = _more(t, vectors, kind)
    lines = [
        f"define internal void @{_name(t, 0, vectors, kind)}(i64 %rows, {_ARGS}{more}) noinline nounwind {{",
        "entry:",
    ]
    cases = " ".join(f"i64 {rows}, label %r{rows}" for rows in range(1, TILE_ROWS + 1))
    lines.append(f"  switch i64 %rows, label %done [ {cases} ]")
    for rows in range(1, TILE_ROWS + 1):
        lines.append(f"r{rows}:")
        for begin, count in _split(rows, shape.rows):
            name = f"{rows}_{begin}"
            lines += [
                f"  %ai{name} = mul nsw i64 %ar, {begin}",
                f"  %a{name} = getelementptr {t.name}, ptr %a, i64 %ai{name}",
                f"  %t{name} = getelementptr {t.name}, ptr %t, i64 {begin * t.room}",
                f"  call void @{_name(t, count, vectors, kind)}(i64 %k, ptr %a{name}, i64 %ar, i64 %ac, ptr %b, "
                f"i64 %br, ptr %t{name}{more})",
            ]
        lines.append("  br label %done")
    return "\n".join([*lines, "done:", "  ret void", "}", ""])


def _split(rows: int, most: int) -> Iterator[tuple[int, int]]:
    """Begin and count of parts of about the same size, none larger than ``most``."""
    parts = -(-rows // most)
    for part in range(parts):
        begin = rows * part // parts
        yield begin, rows * (part + 1) // parts - begin


def _widths(shape: Shape) -> list[int]:
    """The numbers of vectors that blocks have, the largest first; a panel is a whole number of the first."""
    return list(range(shape.vectors, 0, -1))


def _tile(t: _Type, shape: Shape, kind: str) -> str:
    """All columns: the widest blocks first, then narrower ones, then the masked one, or whole vectors with taps."""
    reach, more, last = kind != BLOCK, _more(t, shape.vectors, kind), len(_widths(shape))
    name = kind if reach else "tile"
    lines = [
        f"define hidden void @egs_{name}_{t.dtype}(i64 %rows, i64 %n, {_ARGS}{more}) noinline nounwind {{",
        "entry:",
        f"  %up = add nsw i64 %n, {t.lanes - 1 if reach else 0}",
        f"  %all = and i64 %up, {-t.lanes if reach else -1}",
        "  br label %head0",
    ]
    before, source = "0", "entry"
    for at, vectors in enumerate(_widths(shape)):
        columns = vectors * t.lanes
        lines += [
            f"head{at}:",
            f"  %j{at} = phi i64 [ {before}, %{source} ], [ %n{at}, %body{at} ]",
            f"  %n{at} = add nuw nsw i64 %j{at}, {columns}",
            f"  %fit{at} = icmp sle i64 %n{at}, %all",
            *_even(t, at, vectors),
            f"  br i1 %{'wide' if vectors == EVEN else 'fit'}{at}, label %body{at}, label %head{at + 1}",
            f"body{at}:",
            *_call(t, f"{at}", f"%j{at}", vectors, more, kind),
            f"  br label %head{at}",
        ]
        before, source = f"%j{at}", f"head{at}"
    if reach:
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
        *_call(t, "rest", before, MASKED, _more(t, MASKED, BLOCK), BLOCK),
        "  br label %done",
        "done:",
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines)


def _even(t: _Type, at: int, vectors: int) -> Iterator[str]:
    """Where one vector would be left, whose sums are too few to hide what a step takes, two blocks of two do it."""
    if vectors == EVEN:
        yield f"  %left{at} = sub nsw i64 %all, %n{at}"
        yield f"  %alone{at} = icmp ne i64 %left{at}, {t.lanes}"
        yield f"  %wide{at} = and i1 %fit{at}, %alone{at}"


def _call(t: _Type, name: str, j: str, vectors: int, more: str, kind: str) -> list[str]:
    return [
        f"  %bp{name} = getelementptr {t.name}, ptr %b, i64 {j}",
        f"  %tp{name} = getelementptr {t.name}, ptr %t, i64 {j}",
        f"  call void @{_name(t, 0, vectors, kind)}(i64 %rows, i64 %k, ptr %a, i64 %ar, i64 %ac, ptr %bp{name}, "
        f"i64 %br, ptr %tp{name}{more})",
    ]


# -- packing ----------------------------------------------------------------------------------------------------------


def _pack(t: _Type) -> str:
    """Squares of lanes x lanes elements go through registers where columns lie in memory one after the other along l;
    else element by element, along j."""
    n, v = t.lanes, t.vector
    lines = [
        f"define hidden void @egs_pack_{t.dtype}(i64 %k, i64 %n, ptr noalias %s, i64 %sr, i64 %sc, "
        "ptr noalias %t, i64 %w) noinline nounwind {",
        f"""entry:
  %along = icmp eq i64 %sr, 1
  %kb = and i64 %k, -{n}
  %nb = and i64 %n, -{n}
  %kq = select i1 %along, i64 %kb, i64 0
  %nq = select i1 %along, i64 %nb, i64 0
  br label %jhead
jhead:
  %j = phi i64 [ 0, %entry ], [ %jn, %jnext ]
  %jin = icmp slt i64 %j, %nq
  br i1 %jin, label %lhead, label %rest
lhead:
  %l = phi i64 [ 0, %jhead ], [ %ln, %square ]
  %lin = icmp slt i64 %l, %kq
  br i1 %lin, label %square, label %jnext
square:""",
    ]
    for r in range(n):
        lines += [
            f"  %j{r} = add nsw i64 %j, {r}",
            f"  %so{r} = mul nsw i64 %j{r}, %sc",
            f"  %sp{r} = getelementptr {t.name}, ptr %s, i64 %so{r}",
            f"  %sq{r} = getelementptr {t.name}, ptr %sp{r}, i64 %l",
            f"  %x0_{r} = load {v}, ptr %sq{r}, align {t.size}",
        ]
    stages = n.bit_length() - 1
    for stage in range(stages):
        lines += _stage(t, stage)
    for r in range(n):
        lines += [
            f"  %l{r} = add nsw i64 %l, {r}",
            f"  %to{r} = mul nsw i64 %l{r}, %w",
            f"  %tp{r} = getelementptr {t.name}, ptr %t, i64 %to{r}",
            f"  %tq{r} = getelementptr {t.name}, ptr %tp{r}, i64 %j",
            f"  store {v} %x{stages}_{r}, ptr %tq{r}, align {t.size}",
        ]
    return "\n".join(
        [
            *lines,
            f"  %ln = add nuw nsw i64 %l, {n}",
            "  br label %lhead",
            "jnext:",
            f"  %jn = add nuw nsw i64 %j, {n}",
            "  br label %jhead",
            _pack_rest(t),
        ]
    )


def _stage(t: _Type, stage: int) -> Iterator[str]:
    """Swap the off-diagonal halves of squares of 2^(stage+1) elements."""
    n, half = t.lanes, 1 << stage
    for r in range(n):
        if r & half:
            continue
        low = [c if not c & half else n + c - half for c in range(n)]
        high = [c + half if not c & half else n + c for c in range(n)]
        for target, order in ((r, low), (r + half, high)):
            picks = ", ".join(f"i32 {c}" for c in order)
            yield (
                f"  %x{stage + 1}_{target} = shufflevector {t.vector} %x{stage}_{r}, "
                f"{t.vector} %x{stage}_{r + half}, <{n} x i32> <{picks}>"
            )


def _pack_rest(t: _Type) -> str:
    """Each row from the column (rows that squares covered: from nb, others: from 0) to w."""
    return f"""rest:
  br label %rhead
rhead:
  %r = phi i64 [ 0, %rest ], [ %rn, %rnext ]
  %rin = icmp slt i64 %r, %k
  br i1 %rin, label %row, label %done
row:
  %covered = icmp slt i64 %r, %kq
  %from = select i1 %covered, i64 %nq, i64 0
  %ro = mul nsw i64 %r, %sr
  %rp = getelementptr {t.name}, ptr %s, i64 %ro
  %wo = mul nsw i64 %r, %w
  %wp = getelementptr {t.name}, ptr %t, i64 %wo
  %unit = icmp eq i64 %sc, 1
  br i1 %unit, label %flat, label %chead
flat:
  %bytes = mul nsw i64 %n, {t.size}
  call void @llvm.memcpy.p0.p0.i64(ptr %wp, ptr %rp, i64 %bytes, i1 false)
  br label %zhead
chead:
  %c = phi i64 [ %from, %row ], [ %cn, %copy ]
  %cin = icmp slt i64 %c, %n
  br i1 %cin, label %copy, label %zhead
copy:
  %co = mul nsw i64 %c, %sc
  %cp = getelementptr {t.name}, ptr %rp, i64 %co
  %cv = load {t.name}, ptr %cp
  %cq = getelementptr {t.name}, ptr %wp, i64 %c
  store {t.name} %cv, ptr %cq
  %cn = add nuw nsw i64 %c, 1
  br label %chead
zhead:
  %z = phi i64 [ %n, %flat ], [ %n, %chead ], [ %zn, %zero ]
  %zin = icmp slt i64 %z, %w
  br i1 %zin, label %zero, label %rnext
zero:
  %zq = getelementptr {t.name}, ptr %wp, i64 %z
  store {t.name} 0.0, ptr %zq
  %zn = add nuw nsw i64 %z, 1
  br label %zhead
rnext:
  %rn = add nuw nsw i64 %r, 1
  br label %rhead
done:
  ret void
}}
"""


_ROUTINES = {BLOCK: ("tile", "pack", "dots"), REACH: ("reach",), RUNS: ("runs",)}
"""What is compiled together, as an object of its own."""


def called(module: str) -> list[tuple[str, str]]:
    """The dtypes and kinds of the products in a module's text."""
    return [
        (dtype, kind)
        for dtype in TYPES
        for kind, names in _ROUTINES.items()
        if any(f"@egs_{name}_{dtype}(" in module for name in names)
    ]


def declarations(module: str) -> str:
    """Declarations of the kernels that a module calls."""
    return "".join(
        f"""declare hidden void @egs_tile_{dtype}(i64, i64, i64, ptr, i64, i64, ptr, i64, ptr)
declare hidden void @egs_reach_{dtype}(i64, i64, i64, ptr, i64, i64, ptr, i64, ptr, i64, i64, i64, ptr)
declare hidden void @egs_runs_{dtype}(i64, i64, i64, ptr, i64, i64, ptr, i64, ptr, i64, i64, i64, ptr)
declare hidden void @egs_pack_{dtype}(i64, i64, ptr, i64, i64, ptr, i64)
declare hidden void @egs_dots_{dtype}(i64, i64, i64, ptr, i64, ptr, i64, ptr)
"""
        for dtype in dict.fromkeys(dtype for dtype, _ in called(module))
    )


def text(dtype: str, features: str, kind: str) -> str:
    """The kernels of a dtype and kind for a CPU of these features, as a module of LLVM IR."""
    shape, (name, size) = shape_for(features), TYPES[dtype]
    t = _Type(dtype, name, size, shape.bytes // size, frozenset(features.split(",")))
    v, widths = t.vector, (*_widths(shape), *((MASKED,) if kind == BLOCK else ()))
    parts = [
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n",
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n",
        t.group.declaration if t.group else f"declare {v} @llvm.fma.{t.suffix}({v}, {v}, {v})\n",
        f"declare {v} @llvm.masked.load.{t.suffix}.p0(ptr, i32, {t.mask}, {v})\n",
        *(_block(t, rows, vectors, kind) for vectors in widths for rows in range(1, shape.rows + 1)),
        *(_by_rows(t, shape, vectors, kind) for vectors in widths),
        _tile(t, shape, kind),
    ]
    if kind == BLOCK and not t.group:
        few = dots.Lanes(dtype, name, size, t.lanes, t.room, (4, 2, 1) if shape.bytes == 64 else (2, 1))
        parts += [_pack(t), dots.text(few)]
    return "".join([*parts, _WHOLE])
