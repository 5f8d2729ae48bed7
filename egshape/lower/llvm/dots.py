"""Products of few rows with a right operand whose columns each lie along memory: read where it lies, not packed.

``egs_dots_T(rows, n, k, a, ar, b, bc, t)``: t(i, j) = sum over l < k of a(i*ar + l) * b(j*bc + l), written to the block
t of at most 8 rows, which stand the widest panel apart. T is f32 or f64.

Vectors run along the depth: blocks of 4 columns, whose sums of a few rows stay in registers until the end, where the
lanes of each are added. Each column is read from memory once for all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

COLUMNS = (4, 1)
"""Columns of a block, the widest first."""


@dataclass(frozen=True)
class Lanes:
    """Vectors of a dtype, and how many rows of 4 sums each fit in the registers, the most first."""

    dtype: str
    name: str
    size: int
    count: int
    room: int
    rows: tuple[int, ...]

    @property
    def vector(self) -> str:
        return f"<{self.count} x {self.name}>"

    @property
    def suffix(self) -> str:
        return f"v{self.count}{self.dtype}"


def text(t: Lanes) -> str:
    """The functions, as LLVM IR; what they need is declared but for fused multiplication and masked loads."""
    reduction = f"declare {t.name} @llvm.vector.reduce.fadd.{t.suffix}({t.name}, {t.vector})\n"
    return reduction + "".join([*(_block(t, rows, columns) for rows in t.rows for columns in COLUMNS), _all(t)])


def _block(t: Lanes, rows: int, columns: int) -> str:
    """Sums of a few rows times a few columns."""
    v, cells = t.vector, [(r, c) for r in range(rows) for c in range(columns)]
    starts = [("a", r, "%ar") for r in range(rows)] + [("b", c, "%bc") for c in range(columns)]
    lines = [
        f"define internal void @egs_dots_{t.dtype}_{rows}_{columns}(i64 %k, ptr %a, i64 %ar, ptr %b, i64 %bc, ptr %t) "
        "nounwind {",
        "entry:",
        *(f"  %{side}o{at} = mul nsw i64 {stride}, {at}" for side, at, stride in starts),
        *(f"  %{side}{at} = getelementptr {t.name}, ptr %{side}, i64 %{side}o{at}" for side, at, _ in starts),
        f"  %whole = and i64 %k, {-t.count}",
        "  br label %head",
        "head:",
        "  %l = phi i64 [ 0, %entry ], [ %ln, %body ]",
        *(f"  %s{r}_{c} = phi {v} [ zeroinitializer, %entry ], [ %f{r}_{c}, %body ]" for r, c in cells),
        "  %in = icmp slt i64 %l, %whole",
        "  br i1 %in, label %body, label %end",
        "body:",
        *_step(t, rows, columns, "s", "f", ""),
        f"  %ln = add nuw nsw i64 %l, {t.count}",
        "  br label %head",
        "end:",
        "  %left = sub nsw i64 %k, %whole",
        "  %some = icmp sgt i64 %left, 0",
        "  br i1 %some, label %rest, label %done",
        "rest:",
        "  %lefts = trunc i64 %left to i32",
        f"  %le = insertelement <{t.count} x i32> poison, i32 %lefts, i32 0",
        f"  %lv = shufflevector <{t.count} x i32> %le, <{t.count} x i32> poison, <{t.count} x i32> zeroinitializer",
        f"  %mask = icmp slt <{t.count} x i32> <{', '.join(f'i32 {k}' for k in range(t.count))}>, %lv",
        *_step(t, rows, columns, "s", "r", f"<{t.count} x i1> %mask"),
        "  br label %done",
        "done:",
        *(f"  %g{r}_{c} = phi {v} [ %s{r}_{c}, %end ], [ %r{r}_{c}, %rest ]" for r, c in cells),
    ]
    for r in range(rows):
        lines += _four(t, r) if columns == 4 else _one(t, r)
    return "\n".join([*lines, "  ret void", "}", ""])


def _one(t: Lanes, r: int) -> Iterator[str]:
    """The lanes of one sum are added and stored."""
    yield f"  %x{r} = call reassoc {t.name} @llvm.vector.reduce.fadd.{t.suffix}({t.name} -0.0, {t.vector} %g{r}_0)"
    yield f"  %tp{r} = getelementptr {t.name}, ptr %t, i64 {r * t.room}"
    yield f"  store {t.name} %x{r}, ptr %tp{r}, align {t.size}"


def _four(t: Lanes, r: int) -> Iterator[str]:
    """The lanes of four sums are added together, which takes half as many steps as one after the other."""
    n, held = t.count, [f"%g{r}_{c}" for c in range(4)]
    while len(held) > 1 and n * len(held) > 4:
        group = n * len(held) // 8  # lanes of each sum that are added to as many others
        pairs = list(zip(held[::2], held[1::2], strict=True))
        held = []
        for number, (one, two) in enumerate(pairs):
            name = f"%h{r}_{group}_{number}"
            for side, first in (("l", 0), ("r", group)):
                picks = [start + first + lane for start in range(0, 2 * n, 2 * group) for lane in range(group)]
                yield f"  {name}{side} = {_picked(t, one, two, picks)}"
            yield f"  {name} = fadd {t.vector} {name}l, {name}r"
            held.append(name)
    group = n // 4
    while group > 1:
        group //= 2
        picks = [lane ^ group for lane in range(n)]
        name = f"%k{r}_{group}"
        yield f"  {name}r = {_picked(t, held[0], held[0], picks)}"
        yield f"  {name} = fadd {t.vector} {held[0]}, {name}r"
        held = [name]
    picks = list(range(0, n, n // 4)) if n >= 4 else [0, 1, 2, 3]
    yield f"  %x{r} = {_picked(t, held[0], held[-1], picks)}"
    yield f"  %tp{r} = getelementptr {t.name}, ptr %t, i64 {r * t.room}"
    yield f"  store <4 x {t.name}> %x{r}, ptr %tp{r}, align {t.size}"


def _picked(t: Lanes, one: str, two: str, lanes: list[int]) -> str:
    """Lanes of two vectors, those of the second numbered behind the first's."""
    picks = ", ".join(f"i32 {lane}" for lane in lanes)
    return f"shufflevector {t.vector} {one}, {t.vector} {two}, <{len(lanes)} x i32> <{picks}>"


def _step(t: Lanes, rows: int, columns: int, before: str, after: str, mask: str) -> Iterator[str]:
    """The products of one vector of each row and column at %l."""
    v = t.vector
    for name in [f"a{r}" for r in range(rows)] + [f"b{c}" for c in range(columns)]:
        place = f"%{after}.{name}.p"
        yield f"  {place} = getelementptr {t.name}, ptr %{name}, i64 %l"
        if mask:
            read = f"call {v} @llvm.masked.load.{t.suffix}.p0(ptr {place}, i32 {t.size}, {mask}, {v} zeroinitializer)"
        else:
            read = f"load {v}, ptr {place}, align {t.size}"
        yield f"  %{after}.{name} = {read}"
    for r in range(rows):
        for c in range(columns):
            factors = f"{v} %{after}.a{r}, {v} %{after}.b{c}, {v} %{before}{r}_{c}"
            yield f"  %{after}{r}_{c} = call {v} @llvm.fma.{t.suffix}({factors})"


def _all(t: Lanes) -> str:
    """All columns, and all rows of each block of them."""
    lines = [
        f"define hidden void @egs_dots_{t.dtype}(i64 %rows, i64 %n, i64 %k, ptr %a, i64 %ar, ptr %b, i64 %bc, ptr %t) "
        "noinline nounwind {",
        "entry:",
        "  br label %head0",
    ]
    before, source = "0", "entry"
    for number, columns in enumerate(COLUMNS):
        last = f"end{number}.{len(t.rows) - 1}"
        lines += [
            f"head{number}:",
            f"  %j{number} = phi i64 [ {before}, %{source} ], [ %jn{number}, %{last} ]",
            f"  %jn{number} = add nuw nsw i64 %j{number}, {columns}",
            f"  %fit{number} = icmp sle i64 %jn{number}, %n",
            f"  br i1 %fit{number}, label %body{number}, label %head{number + 1}",
            f"body{number}:",
            f"  %bo{number} = mul nsw i64 %j{number}, %bc",
            f"  %b{number} = getelementptr {t.name}, ptr %b, i64 %bo{number}",
            f"  %t{number} = getelementptr {t.name}, ptr %t, i64 %j{number}",
            f"  br label %rows{number}.0",
            *_rows(t, number, columns),
            f"  br label %head{number}",
        ]
        before, source = f"%j{number}", f"head{number}"
    return "\n".join([*lines, f"head{len(COLUMNS)}:", "  ret void", "}", ""])


def _rows(t: Lanes, number: int, columns: int) -> Iterator[str]:
    """The rows of a block of columns, as many at once as fit, then fewer."""
    before, source = "0", f"body{number}"
    for step, rows in enumerate(t.rows):
        name = f"{number}.{step}"
        yield from (
            f"rows{name}:",
            f"  %i{name} = phi i64 [ {before}, %{source} ], [ %in{name}, %row{name} ]",
            f"  %in{name} = add nuw nsw i64 %i{name}, {rows}",
            f"  %ok{name} = icmp sle i64 %in{name}, %rows",
            f"  br i1 %ok{name}, label %row{name}, label %end{name}",
            f"row{name}:",
            f"  %ao{name} = mul nsw i64 %i{name}, %ar",
            f"  %a{name} = getelementptr {t.name}, ptr %a, i64 %ao{name}",
            f"  %to{name} = mul nsw i64 %i{name}, {t.room}",
            f"  %tt{name} = getelementptr {t.name}, ptr %t{number}, i64 %to{name}",
            f"  call void @egs_dots_{t.dtype}_{rows}_{columns}(i64 %k, ptr %a{name}, i64 %ar, ptr %b{number}, i64 %bc, "
            f"ptr %tt{name})",
            f"  br label %rows{name}",
            f"end{name}:",
        )
        if step + 1 < len(t.rows):
            yield f"  br label %rows{number}.{step + 1}"
        before, source = f"%i{name}", f"end{name}"
