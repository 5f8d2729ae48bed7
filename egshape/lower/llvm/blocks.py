"""Blocks of products: some rows by some vectors of columns, whose sums are registers over the whole depth.

Where the left operand's columns lie along memory, some steps of the depth are written one after the other: their
elements lie at constant distances from one address a row. Each sum is added in the order of the depth.

A block of one depth fetches a share of the next pack, from ``coming`` on ``pace`` bytes for each step of the depth:
that is on its way from memory while all rows are multiplied by this one, and its first rows do not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from egshape.lower.llvm.elements import Element
from egshape.lower.llvm.tile_steps import LINE, fetched

ARGS = "i64 %k, ptr %a, i64 %ar, i64 %ac, ptr %b, i64 %br, ptr %t"
REACH_ARGS = ", i64 %al, i64 %bl, i64 %taps, ptr %table"
COMING_ARGS = ", ptr %coming, i64 %pace"
BLOCK, REACH, RUNS = "block", "reach", "runs"
"""Kinds of blocks: one depth; channels and the taps of each; taps and the channels of each."""
MASKED = 0
"""Instead of a number of vectors: one under a mask."""
AHEAD = 3072
"""Bytes of the right operand between what is multiplied and what is fetched."""
COMING = 4
"""Lines of the next pack that are fetched with each group of steps, at most."""
METADATA = """!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
"""
"""Loops are left as they are: written out, their sums would not fit in registers."""
ROLLED = ", !llvm.loop !0"
Cells = Sequence[tuple[int, int]]


def name_of(t: Element, rows: int, vectors: int, kind: str) -> str:
    """The name of a block; of 0 rows: of the function that takes any number of them."""
    return f"egs_{kind}_{t.dtype}_{rows}_{vectors or 'masked'}"


def more_args(t: Element, vectors: int, kind: str) -> str:
    """What blocks take beside the arguments of all."""
    if kind != BLOCK:
        return REACH_ARGS
    return f", {t.mask} %mask" if vectors == MASKED else COMING_ARGS


def block(t: Element, rows: int, vectors: int, kind: str, most: int) -> str:
    """A product of ``rows`` rows, of the ``most`` that a block has, and ``vectors`` vectors of columns. Up to half of
    these are all rows as a rule, which wait for each pack anyway: they fetch no other."""
    writer = _Block(t, rows, vectors, kind, fetches=kind == BLOCK and vectors != MASKED and 2 * rows > most)
    body = writer.reach() if kind == REACH else writer.runs() if kind == RUNS else writer.whole()
    name = f"{name_of(t, rows, vectors, kind)}({ARGS}{more_args(t, vectors, kind)})"
    return "\n".join([f"define internal void @{name} noinline nounwind {{", *body, *writer.stored(), "}", ""])


class _Block:
    """Writes a block. Sums are named by where they come from: ``{stage}{row}_{vector}``."""

    def __init__(self, t: Element, rows: int, vectors: int, kind: str, fetches: bool) -> None:
        self.t, self.rows, self.kind, self.fetches = t, rows, kind, fetches
        self.masked, self.count = vectors == MASKED, vectors or 1
        self.cells: Cells = [(r, v) for r in range(rows) for v in range(self.count)]

    # -- one depth ----------------------------------------------------------------------------------------------------

    def whole(self) -> list[str]:
        """One depth."""
        return [
            *self._entry(),
            *self._split(),
            *self._depth("entry", "zero", "%b", "0"),
            "  br label %store",
            "store:",
        ]

    def runs(self) -> list[str]:
        """The depth of each tap in turn."""
        return [
            *self._entry(),
            *self._outer("tap", "c", "tapped"),
            *self._pair("%c"),
            "  %b.0 = getelementptr i8, ptr %b, i64 %bx",
            *self._depth("tap", "c", "%b.0", "%ax"),
            "  br label %tapped",
            "tapped:",
            "  %cn = add nuw nsw i64 %c, 1",
            "  %again = icmp slt i64 %cn, %taps",
            f"  br i1 %again, label %tap, label %store{ROLLED}",
            "store:",
        ]

    def _entry(self) -> list[str]:
        """Where rows begin, and the depth that is taken in groups of steps."""
        t = self.t
        lines = ["entry:", f"  %bs = mul nsw i64 %br, {t.right[1]}", f"  %as = mul nsw i64 %ac, {t.size}"]
        lines += self._stream()
        for r in range(self.rows):
            lines += [f"  %ai{r} = mul nsw i64 %ar, {r}", f"  %a{r} = getelementptr {t.name}, ptr %a, i64 %ai{r}"]
        return lines

    def _split(self) -> list[str]:
        return [
            "  %unit = icmp eq i64 %ac, 1",
            f"  %k.q = and i64 %k, {-self.t.steps}",
            "  %main = select i1 %unit, i64 %k.q, i64 0",
        ]

    def _depth(self, before: str, sums: str, b: str, a: str) -> list[str]:
        """A whole depth: groups of steps, then what is left. ``sums``: the stage of the sums before it, of the block
        ``before``; ``b``, ``a``: where the right operand begins, and the left one's distance from its rows."""
        t = self.t
        lines = ["  %some.q = icmp sgt i64 %main, 0", "  br i1 %some.q, label %quad, label %middle", "quad:"]
        lines += [
            f"  %lq = phi i64 [ 0, %{before} ], [ %lqn, %quad ]",
            f"  %atq = phi i64 [ {a}, %{before} ], [ %atqn, %quad ]",
            f"  %bq0 = phi ptr [ {b}, %{before} ], [ %bqn, %quad ]",
            *self._sums("q", (sums, before), (f"q{t.steps - 1}.", "quad")),
        ]
        lines += [f"  %aq{r} = getelementptr i8, ptr %a{r}, i64 %atq" for r in range(self.rows)]
        for u in range(t.steps):
            if u:
                lines.append(f"  %bq{u} = getelementptr i8, ptr %bq{u - 1}, i64 %bs")
            lines += self._step(f"q{u}.", f"q{u - 1}." if u else "q", f"%bq{u}", lambda r: f"%aq{r}", u * t.size)
        lines += [*self._ahead(), *self._coming()]
        lines += [
            f"  %bqn = getelementptr i8, ptr %bq{t.steps - 1}, i64 %bs",
            f"  %atqn = add nsw i64 %atq, {t.steps * t.size}",
            f"  %lqn = add nuw nsw i64 %lq, {t.steps}",
            "  %more.q = icmp slt i64 %lqn, %main",
            f"  br i1 %more.q, label %quad, label %middle{ROLLED}",
            "middle:",
            f"  %at.m = phi i64 [ {a}, %{before} ], [ %atqn, %quad ]",
            f"  %bp.m = phi ptr [ {b}, %{before} ], [ %bqn, %quad ]",
            *self._sums("m", (sums, before), (f"q{t.steps - 1}.", "quad")),
            "  %some = icmp slt i64 %main, %k",
            "  br i1 %some, label %loop, label %end",
            "loop:",
            "  %l = phi i64 [ %main, %middle ], [ %next, %loop ]",
            "  %at = phi i64 [ %at.m, %middle ], [ %an, %loop ]",
            "  %bp = phi ptr [ %bp.m, %middle ], [ %bn, %loop ]",
            *self._sums("s", ("m", "middle"), ("f", "loop")),
        ]
        lines += [f"  %ap{r} = getelementptr i8, ptr %a{r}, i64 %at" for r in range(self.rows)]
        lines += self._step("f", "s", "%bp", lambda r: f"%ap{r}")
        return [
            *lines,
            "  %bn = getelementptr i8, ptr %bp, i64 %bs",
            "  %an = add nsw i64 %at, %as",
            "  %next = add nuw nsw i64 %l, 1",
            "  %more = icmp slt i64 %next, %k",
            f"  br i1 %more, label %loop, label %end{ROLLED}",
            "end:",
            *self._sums("e", ("m", "middle"), ("f", "loop")),
        ]

    def _ahead(self) -> Iterator[str]:
        """What some steps later will read of the right operand, on its way to the cache: packs of large kernels come
        from memory or from far caches. Behind the steps, and all from one address: elsewhere LLVM moves loads over
        them, which pushes sums out of the registers."""
        each = self.t.lanes * self.t.right[1]
        area = 0 if self.masked else self.t.steps * self.count * each
        for k, place in enumerate(range(0, area, max(each, LINE))):
            yield f"  %ahead{k} = getelementptr i8, ptr %bq0, i64 {AHEAD + place}"
            yield f"  call void @llvm.prefetch.p0(ptr %ahead{k}, i32 0, i32 3, i32 1)"

    def _stream(self) -> Iterator[str]:
        """Where the next pack is fetched and how fast, in memory: as registers they would push sums out of theirs."""
        if not self.fetches:
            return
        yield "  %coming.at = alloca ptr"
        yield "  %pace.at = alloca i64"
        yield f"  %pace.g = mul nsw i64 %pace, {self.t.steps}"
        yield "  store volatile ptr %coming, ptr %coming.at"
        yield "  store volatile i64 %pace.g, ptr %pace.at"

    def _coming(self) -> Iterator[str]:
        """A share of the next pack, on its way to the second cache."""
        if not self.fetches:
            return
        yield "  %coming.q = load volatile ptr, ptr %coming.at"
        yield "  %pace.q = load volatile i64, ptr %pace.at"
        yield from fetched("%coming.q", COMING, "%pace.q")
        yield "  store volatile ptr %coming.n, ptr %coming.at"

    # -- taps ---------------------------------------------------------------------------------------------------------

    def reach(self) -> list[str]:
        """The taps of each channel in turn."""
        t = self.t
        lines = [
            "entry:",
            f"  %bs = mul nsw i64 %br, {t.size}",
            f"  %as = mul nsw i64 %ac, {t.size}",
            f"  %ars = mul nsw i64 %ar, {t.size}",
            *self._outer("channel", "c", "channelled"),
            "  %ac.0 = phi i64 [ 0, %entry ], [ %an, %channelled ]",
            "  %bc = phi ptr [ %b, %entry ], [ %bn, %channelled ]",
            "  br label %loop",
            "loop:",
            "  %l = phi i64 [ 0, %channel ], [ %next, %loop ]",
            *self._sums("s", ("c", "channel"), ("e", "loop")),
            *self._pair("%l"),
            "  %at = add nsw i64 %ac.0, %ax",
            "  %bp = getelementptr i8, ptr %bc, i64 %bx",
            "  %ap0 = getelementptr i8, ptr %a, i64 %at",
        ]
        lines += [f"  %ap{r} = getelementptr i8, ptr %ap{r - 1}, i64 %ars" for r in range(1, self.rows)]
        return [
            *lines,
            *self._step("e", "s", "%bp", lambda r: f"%ap{r}"),
            "  %next = add nuw nsw i64 %l, 1",
            "  %again = icmp slt i64 %next, %taps",
            f"  br i1 %again, label %loop, label %channelled{ROLLED}",
            "channelled:",
            "  %bn = getelementptr i8, ptr %bc, i64 %bs",
            "  %an = add nsw i64 %ac.0, %as",
            "  %cn = add nuw nsw i64 %c, 1",
            "  %more = icmp slt i64 %cn, %k",
            f"  br i1 %more, label %channel, label %store{ROLLED}",
            "store:",
        ]

    def _outer(self, label: str, index: str, latch: str) -> list[str]:
        """The beginning of the outer one of two loops; nothing is done where one of them is empty."""
        t = self.t
        return [
            f"  %als = mul nsw i64 %al, {t.size}",
            f"  %bls = mul nsw i64 %bl, {t.size}",
            *(self._split() if self.kind == RUNS else ()),
            "  %some.c = icmp sgt i64 %k, 0",
            "  %some.s = icmp sgt i64 %taps, 0",
            "  %some.t = and i1 %some.c, %some.s",
            f"  br i1 %some.t, label %{label}, label %store",
            f"{label}:",
            f"  %{index} = phi i64 [ 0, %entry ], [ %{index}n, %{latch} ]",
            *self._sums("c", ("zero", "entry"), ("e", latch)),
        ]

    @staticmethod
    def _pair(number: str) -> list[str]:
        """How far a tap lies in both operands."""
        return [
            f"  %pair = getelementptr [2 x i64], ptr %table, i64 {number}",
            "  %ta = load i64, ptr %pair",
            "  %other = getelementptr i64, ptr %pair, i64 1",
            "  %tb = load i64, ptr %other",
            "  %ax = mul nsw i64 %ta, %als",
            "  %bx = mul nsw i64 %tb, %bls",
        ]

    # -- sums ---------------------------------------------------------------------------------------------------------

    def _sum(self, stage: str, r: int, v: int) -> str:
        return "zeroinitializer" if stage == "zero" else f"%{stage}{r}_{v}"

    def _sums(self, stage: str, one: tuple[str, str], two: tuple[str, str]) -> Iterator[str]:
        """The sums of a stage where two blocks meet: of each the stage of the sums and its label."""
        for r, v in self.cells:
            found = ", ".join(f"[ {self._sum(before, r, v)}, %{label} ]" for before, label in (one, two))
            yield f"  %{stage}{r}_{v} = phi {self.t.vector} {found}"

    def _step(self, stage: str, before: str, b: str, a: Callable[[int], str], offset: int = 0) -> Iterator[str]:
        """The sums of a stage: those before, and the products of one place of the depth."""
        t = self.t
        for v in range(self.count):
            yield f"  %{stage}bp{v} = getelementptr {t.right[0]}, ptr {b}, i64 {t.lanes * v}"
            yield from self._load(f"%{stage}b{v}", f"%{stage}bp{v}")
            yield from t.operand(f"{stage}b{v}", right=True)
        for r in range(self.rows):
            yield f"  %{stage}ap{r} = getelementptr i8, ptr {a(r)}, i64 {offset}"
            yield f"  %{stage}av{r} = load {t.name}, ptr %{stage}ap{r}"
            yield from t.splat(f"{stage}x{r}", f"%{stage}av{r}")
            yield from t.operand(f"{stage}x{r}")
            for v in range(self.count):
                yield from t.step(f"{stage}{r}_{v}", f"{stage}x{r}", f"{stage}b{v}", f"{before}{r}_{v}")

    def _load(self, name: str, pointer: str) -> Iterator[str]:
        t, (element, size) = self.t, self.t.right
        if self.masked:
            yield (
                f"  {name} = call {t.vector} @llvm.masked.load.{t.suffix}.p0(ptr {pointer}, i32 {t.size}, "
                f"{t.mask} %mask, {t.vector} zeroinitializer)"
            )
        elif element != t.name:
            yield f"  {name}.n = load <{t.lanes} x {element}>, ptr {pointer}, align {size}"
            yield f"  {name} = fpext <{t.lanes} x {element}> {name}.n to {t.vector}"
        else:
            yield f"  {name} = load {t.vector}, ptr {pointer}, align {t.size}"

    def stored(self) -> list[str]:
        """The sums written to the block."""
        t, lines = self.t, list[str]()
        if self.kind != BLOCK:
            latch = "channelled" if self.kind == REACH else "tapped"
            lines += self._sums("g", ("zero", "entry"), ("e", latch))
        stage = "e" if self.kind == BLOCK else "g"
        for r, v in self.cells:
            lines += [
                f"  %tp{r}_{v} = getelementptr {t.name}, ptr %t, i64 {t.room * r + t.lanes * v}",
                f"  store {t.vector} %{stage}{r}_{v}, ptr %tp{r}_{v}, align {t.size}",
            ]
        return [*lines, "  ret void"]
