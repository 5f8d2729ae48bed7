"""Kernels as LLVM functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egshape.dims import Dim
from egshape.errors import Unsupported
from egshape.ir.types import is_float, itemsize
from egshape.lower.common.walk import Walk
from egshape.lower.llvm import ops, product, scalar, tasks
from egshape.lower.llvm.writer import REST, ROLLED, Writer
from egshape.plan.analysis.work import TIME, operations
from egshape.plan.ir.loops import (
    Assign,
    Bounds,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
    If,
    Index,
    Let,
    Load,
    Local,
    Loop,
    Pack,
    Product,
    Stmt,
    While,
)
from egshape.plan.ir.program import Run
from egshape.plan.ir.ranges import Ranged, Split
from egshape.plan.ir.walk import buffers, dims, statements

LONGEST_WRITTEN = 512
"""Rounds of a loop that LLVM may write out."""

VECTOR = 16
"""Rounds that fill the widest vector."""
FEW = 3
"""Rounds behind whole and half vectors that are better run one by one than as a vector under a mask."""


@dataclass(frozen=True)
class Function:
    """A kernel's text without its name, and what it is called with."""

    text: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    split: Split | None
    """How it is cut; its last two parameters are then a range of units."""


def function(ranged: Ranged) -> Function:
    """The LLVM function of a kernel: pointers of its buffers, then its sizes, then its range if it is cut."""
    kernel, cut = ranged.kernel, ranged.split
    touched = buffers(kernel.body)
    sizes = sorted({name for dim in dims(kernel.body) for name in dim.symbols() if not name.startswith("$")})
    w = Writer()
    emit = KernelWriter(w, {buffer: f"%b{k}" for k, buffer in enumerate(touched)})
    w.symbols = {name: f"%d{k}" for k, name in enumerate(sizes)}
    for bounds in kernel.bounds:
        if bounds.name in w.symbols:
            _assume(w, bounds)
    if cut is not None and cut.loops:
        tasks.ranged(w, cut.loops, lambda: emit.body(cut.loops[-1].body))
    else:
        emit.range = (tasks.FIRST, tasks.LAST) if cut is not None else None
        emit.body(kernel.body)
    params = [
        f"ptr noalias{'' if buffer in kernel.outputs or buffer.kind == 'temp' else ' readonly'} %b{k}"
        for k, buffer in enumerate(touched)
    ] + [f"i64 %d{k}" for k in range(len(sizes))]
    params += [f"i64 {tasks.FIRST}", f"i64 {tasks.LAST}"] if cut is not None else []
    emit.end()
    lines = "\n".join([*w.head, *w.lines])
    text = f"({', '.join(params)}) #{0 if cut is None else 1} {{\nentry:\n{lines}\n  ret void\n}}\n"
    return Function(text, touched, tuple(sizes), cut)


def function_of(step: Run) -> Function:
    """The function of the kernel of a step. Raises Unsupported where no planner has made it one for a processor."""
    if step.ranged is None:
        raise Unsupported(f"the kernel {step.kernel.label} is not planned for a processor", where=step.kernel.where)
    return function(step.ranged)


def _assume(w: Writer, bounds: Bounds) -> None:
    """Tell LLVM what the entry of the program has checked."""
    size = w.symbols[bounds.name]
    tests = [f"icmp sge i64 {size}, {bounds.low}"]
    if bounds.divisor > 1:
        tests.append(f"icmp eq i64 {w.value(f'urem i64 {size}, {bounds.divisor}')}, 0")
    if bounds.high is not None:
        tests.append(f"icmp sle i64 {size}, {bounds.high}")
    for test in tests:
        w.line(f"call void @llvm.assume(i1 {w.value(test)})")


def _hint(loop: Loop) -> str:
    """What LLVM is told of a loop. It writes out an inner one of a known length, takes its lanes from the loop around
    and gathers them: sums of rows of 64 took 19 times as long as of rows of any length. Below 8 that is faster, above
    LONGEST_WRITTEN it is not done."""
    length = loop.extent.const
    rolled = length is not None and 8 <= length <= LONGEST_WRITTEN and not _loops(loop.body)
    return ROLLED if rolled else ""


def _behind(loop: Loop) -> int:
    """How many of the last rounds of a loop are written behind it. Of an even number of them below 16 LLVM runs two at
    a time where they do little, since that leaves no rest; of an odd number it runs all at once, under a mask."""
    even = loop.extent.const in (10, 12, 14) and not _loops(loop.body)
    folds = all(isinstance(stmt, Let | Assign) for stmt in loop.body)
    return int(even and folds and (operations(loop.body).const or 0) < TIME.heavy)


def _has_rest(loop: Loop) -> bool:
    """Whether the last rounds of a loop, which fill no vector, run in a loop of their own, under a mask: of functions,
    whose rounds one by one take longer than a whole vector does."""
    if loop.extent.const is not None or _loops(loop.body) or (loop.extent % VECTOR).const == 0:
        return False
    return (operations(loop.body).const or 0) >= TIME.heavy


def _loops(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(each, Loop | While) for each in statements(body))


def _whole(w: Writer, extent: str) -> str:
    """Where the rounds begin that run under a mask: none where a half vector and few single ones do."""
    single = w.value(f"and i64 {extent}, {VECTOR // 2 - 1}")
    few = w.value(f"icmp ult i64 {single}, {FEW}")
    vectors = w.value(f"and i64 {extent}, -{VECTOR}")
    return w.value(f"select i1 {few}, i64 {extent}, i64 {vectors}")


class KernelWriter(Walk[Writer]):
    """Writes the statements of a kernel."""

    def __init__(self, w: Writer, pointers: dict[Buffer, str]) -> None:
        super().__init__(w, pointers)
        self.locals: dict[str, tuple[str, str]] = {}
        """Where mutable locals lie, and their types."""
        self.range: tuple[str, str] | None = None
        """First and end of the units to run, where the kernel is one statement that is cut."""
        self.tiles: tuple[str, dict[str, None]] | None = None
        """Where the shapes of tiles are kept, and what is called at the end."""

    def shapes(self, done: str) -> str:
        """Where the function keeps the shapes of tiles: none when it begins."""
        if self.tiles is None:
            self.tiles = self.w.slot("ptr"), {}
            self.w.head.append(f"  store ptr null, ptr {self.tiles[0]}")
        self.tiles[1][done] = None
        return self.tiles[0]

    def end(self) -> None:
        """What is called when the function ends."""
        place, calls = self.tiles or ("", {})
        for call in calls:
            self.w.line(f"call void @{call}(ptr {place})")

    # -- statements ---------------------------------------------------------------------------------------------------

    def loop(self, stmt: Loop) -> None:
        """A loop, the last rounds of some behind it."""
        w, behind = self.w, _behind(stmt)
        extent = w.dim(stmt.extent - behind)
        whole = _whole(w, extent) if _has_rest(stmt) else ""
        with w.loop(whole or extent, hint=_hint(stmt)) as index:
            w.symbols[stmt.var] = index
            self.body(stmt.body)
        if whole:
            with w.loop(extent, whole, REST) as index:
                w.symbols[stmt.var] = index
                self.body(stmt.body)
        if behind:
            with w.frame():
                w.symbols[stmt.var] = w.dim(stmt.extent - 1)
                self.body(stmt.body)

    def store(self, buffer: Buffer, index: Dim, value: Expr) -> None:
        """A store."""
        w = self.w
        stored = scalar.pack(w, buffer.dtype, self.expr(value))
        w.line(f"store {scalar.memory(buffer.dtype)} {stored}, ptr {self.address(buffer, w.dim(index))}")

    def let(self, value: Expr) -> str:
        """The value itself."""
        return self.expr(value)

    def local(self, stmt: Local) -> None:
        """A stack slot."""
        type = scalar.register(stmt.value.dtype)
        if stmt.name not in self.locals:
            self.locals[stmt.name] = self.w.slot(type), type
        with self.w.frame():
            value = self.expr(stmt.value)
        self.assign(stmt.name, value)

    def assign(self, name: str, value: str) -> None:
        """A store to the slot."""
        slot, type = self.locals[name]
        self.w.line(f"store {type} {value}, ptr {slot}")

    def branch(self, stmt: If) -> None:
        """Two blocks."""
        w = self.w
        with w.frame():
            condition = self.expr(stmt.condition)
        then, other, end = w.label("then"), w.label("else"), w.label("end")
        w.line(f"br i1 {condition}, label %{then}, label %{other}")
        for label, part in ((then, stmt.then), (other, stmt.other)):
            w.block(label)
            with w.frame():
                self.body(part)
            w.line(f"br label %{end}")
        w.block(end)

    def repeat(self, stmt: While) -> None:
        """A block that tests, and one that runs."""
        w = self.w
        test, body, end = w.label("test"), w.label("body"), w.label("done")
        w.line(f"br label %{test}")
        w.block(test)
        with w.frame():
            condition = self.expr(stmt.condition)
        w.line(f"br i1 {condition}, label %{body}, label %{end}")
        w.block(body)
        with w.frame():
            self.body(stmt.body)
        w.line(f"br label %{test}")
        w.block(end)

    def pack(self, stmt: Pack) -> None:
        """A call, or a loop that copies."""
        product.pack(self, stmt)

    def product(self, stmt: Product) -> None:
        """Calls for blocks, and loops over what they give."""
        product.product(self, stmt)

    # -- expressions --------------------------------------------------------------------------------------------------

    def address(self, buffer: Buffer, index: str) -> str:
        """The address of an element."""
        return self.w.value(
            f"getelementptr inbounds {scalar.memory(buffer.dtype)}, ptr {self.pointers[buffer]}, i64 {index}"
        )

    def read(self, name: str) -> str:
        """What the slot of a mutable local holds, or the value of another."""
        if name in self.locals:
            slot, type = self.locals[name]
            return self.w.value(f"load {type}, ptr {slot}")
        return super().read(name)

    def constant(self, expr: Const) -> str:
        """As LLVM writes it."""
        return scalar.constant(expr.dtype, expr.value)

    def load(self, expr: Load) -> str:
        """A load."""
        return scalar.load(self.w, expr.dtype, self.address(expr.buffer, self.w.dim(expr.index)))

    def index(self, expr: Index) -> str:
        """A size, wrapped or rounded."""
        w, value = self.w, self.w.wrapped(expr.dim)
        if is_float(expr.dtype):
            return scalar.convert(w, "i64", expr.dtype, value)
        bits = 8 * itemsize(expr.dtype)
        return value if bits == 64 else w.value(f"trunc i64 {value} to i{bits}")

    def test(self, dims: Sequence[Dim]) -> str:
        """All tests, then whether all hold."""
        w = self.w
        tests = [w.value(f"icmp sge i64 {w.dim(dim)}, 0") for dim in dims]
        total = tests[0] if tests else "true"
        for each in tests[1:]:
            total = w.value(f"and i1 {total}, {each}")
        return total

    def call(self, expr: Call) -> str:
        """An op."""
        args = tuple(self.expr(arg) for arg in expr.args)
        types = tuple(arg.dtype for arg in expr.args)
        if expr.op == "select":
            types = types[1:]
        return ops.call(self.w, expr.op, expr.dtype, types, args, dict(expr.attrs), expr.fast)

    def choose(self, expr: Choose) -> str:
        """Two blocks that meet."""
        w = self.w
        condition = self.expr(expr.condition)
        then, other, end = w.label("then"), w.label("else"), w.label("end")
        w.line(f"br i1 {condition}, label %{then}, label %{other}")
        ends = []
        for label, part in ((then, expr.then), (other, expr.other)):
            w.block(label)
            with w.frame():
                value = self.expr(part)
            last = w.label("join")
            w.line(f"br label %{last}")
            w.block(last)
            w.line(f"br label %{end}")
            ends.append(f"[ {value}, %{last} ]")
        w.block(end)
        return w.value(f"phi {scalar.register(expr.dtype)} {', '.join(ends)}")

    def as_index(self, dtype: str, value: str) -> str:
        """An integer as i64."""
        if dtype == "ui64":
            return self.w.value(f"call i64 @llvm.umin.i64(i64 {value}, i64 {2**63 - 1})")
        return scalar.convert(self.w, dtype, "i64", value)

    def bounded(self, dtype: str, value: str, upper: Dim) -> str:
        """The same between bounds."""
        w = self.w
        raw = self.as_index(dtype, value)
        least = w.value(f"call i64 @llvm.smin.i64(i64 {raw}, i64 {w.dim(upper)})")
        return w.value(f"call i64 @llvm.smax.i64(i64 {least}, i64 0)")
