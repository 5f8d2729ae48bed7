"""Kernels as LLVM functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from egshape.ir.types import is_float, itemsize
from egshape.lower.llvm import product, scalar, tasks
from egshape.lower.llvm.writer import ROLLED, Writer
from egshape.plan.analysis.parallel import Split, split
from egshape.plan.analysis.work import TIME, operations
from egshape.plan.cpu.inverse import with_inverses
from egshape.plan.cpu.strides import with_strides
from egshape.plan.ir.loops import (
    Assign,
    Bind,
    Bounds,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
    If,
    Index,
    Kernel,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Pack,
    Product,
    Stmt,
    Store,
    Test,
    Var,
    While,
    buffers,
    dims,
    statements,
)

LONGEST_WRITTEN = 512
"""Rounds of a loop that LLVM may write out."""


@dataclass(frozen=True)
class Function:
    """A kernel's text without its name, and what it is called with."""

    text: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    split: Split | None
    """How it is cut; its last two parameters are then a range of units."""


def function(kernel: Kernel) -> Function:
    """The LLVM function of a kernel: pointers of its buffers, then its sizes."""
    kernel = replace(kernel, body=with_inverses(with_strides(kernel.body)))
    touched = buffers(kernel.body)
    sizes = sorted({name for dim in dims(kernel.body) for name in dim.symbols() if not name.startswith("$")})
    w = Writer()
    emit = KernelWriter(w, {buffer: f"%b{k}" for k, buffer in enumerate(touched)})
    w.symbols = {name: f"%d{k}" for k, name in enumerate(sizes)}
    for bounds in kernel.bounds:
        if bounds.name in w.symbols:
            _assume(w, bounds)
    cut = split(kernel)
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
    lines = "\n".join([*w.head, *w.lines])
    text = f"({', '.join(params)}) #{0 if cut is None else 1} {{\nentry:\n{lines}\n  ret void\n}}\n"
    return Function(text, touched, tuple(sizes), cut)


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


def _loops(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(each, Loop | While) for each in statements(body))


class KernelWriter:
    """Writes the statements of a kernel. ``pointers``: where its buffers lie."""

    def __init__(self, w: Writer, pointers: dict[Buffer, str]) -> None:
        self.w = w
        self.pointers = pointers
        self.values: dict[str, str] = {}
        self.locals: dict[str, tuple[str, str]] = {}
        self.range: tuple[str, str] | None = None
        """First and end of the units to run, where the kernel is one statement that is cut."""

    # -- statements -----------------------------------------------------------------------------------------------

    def body(self, stmts: Sequence[Stmt]) -> None:
        for stmt in stmts:
            self.stmt(stmt)

    def stmt(self, stmt: Stmt) -> None:
        w = self.w
        match stmt:
            case Loop():
                self._loop(stmt)
            case Store():
                with w.frame():
                    value = scalar.pack(w, stmt.buffer.dtype, self.expr(stmt.value))
                    address = self.address(stmt.buffer, w.dim(stmt.index))
                    w.line(f"store {scalar.memory(stmt.buffer.dtype)} {value}, ptr {address}")
            case Let():
                with w.frame():
                    self.values[stmt.name] = self.expr(stmt.value)
            case Local():
                type = scalar.register(stmt.value.dtype)
                if stmt.name not in self.locals:
                    self.locals[stmt.name] = w.slot(type), type
                self._assign(stmt.name, stmt.value)
            case Assign():
                self._assign(stmt.name, stmt.value)
            case LetIndex():
                with w.frame():
                    w.symbols[stmt.name] = self._wide(stmt.value.dtype, self.expr(stmt.value))
            case If():
                self._if(stmt)
            case While():
                self._while(stmt)
            case Pack():
                product.pack(self, stmt)
            case Product():
                product.product(self, stmt)

    def _loop(self, loop: Loop) -> None:
        w, behind = self.w, _behind(loop)
        with w.loop(w.dim(loop.extent - behind), hint=_hint(loop)) as index:
            w.symbols[loop.var] = index
            self.body(loop.body)
        if behind:
            with w.frame():
                w.symbols[loop.var] = w.dim(loop.extent - 1)
                self.body(loop.body)

    def _assign(self, name: str, value: Expr) -> None:
        with self.w.frame():
            found = self.expr(value)
        slot, type = self.locals[name]
        self.w.line(f"store {type} {found}, ptr {slot}")

    def _if(self, stmt: If) -> None:
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

    def _while(self, stmt: While) -> None:
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

    # -- expressions ----------------------------------------------------------------------------------------------

    def address(self, buffer: Buffer, index: str) -> str:
        """The address of an element."""
        return self.w.value(
            f"getelementptr inbounds {scalar.memory(buffer.dtype)}, ptr {self.pointers[buffer]}, i64 {index}"
        )

    def expr(self, expr: Expr) -> str:
        """The value of an expression."""
        match expr:
            case Const():
                return scalar.constant(expr.dtype, expr.value)
            case Var():
                if expr.name in self.locals:
                    slot, type = self.locals[expr.name]
                    return self.w.value(f"load {type}, ptr {slot}")
                return self.values[expr.name]
        found = self.w.find(expr)
        return found if found is not None else self.w.keep(expr, self._compute(expr))

    def _compute(self, expr: Expr) -> str:
        w = self.w
        match expr:
            case Load():
                return scalar.load(w, expr.dtype, self.address(expr.buffer, w.dim(expr.index)))
            case Index():
                return self._index(expr)
            case Test():
                tests = [w.value(f"icmp sge i64 {w.dim(dim)}, 0") for dim in expr.dims]
                total = tests[0] if tests else "true"  # of a tensor without axes
                for each in tests[1:]:
                    total = w.value(f"and i1 {total}, {each}")
                return total
            case Call():
                args = tuple(self.expr(arg) for arg in expr.args)
                types = tuple(arg.dtype for arg in expr.args)
                if expr.op == "select":
                    types = types[1:]
                return scalar.call(w, expr.op, expr.dtype, types, args, dict(expr.attrs), expr.fast)
            case Choose():
                return self._choose(expr)
            case Bind():
                raw = self._wide(expr.value.dtype, self.expr(expr.value))
                least = w.value(f"call i64 @llvm.smin.i64(i64 {raw}, i64 {w.dim(expr.upper)})")
                w.symbols[expr.name] = w.value(f"call i64 @llvm.smax.i64(i64 {least}, i64 0)")
                return self.expr(expr.body)
        raise AssertionError(expr)

    def _choose(self, expr: Choose) -> str:
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

    def _index(self, expr: Index) -> str:
        w, value = self.w, self.w.dim(expr.dim)
        if is_float(expr.dtype):
            return scalar.convert(w, "i64", expr.dtype, value)
        bits = 8 * itemsize(expr.dtype)
        return value if bits == 64 else w.value(f"trunc i64 {value} to i{bits}")

    def _wide(self, dtype: str, value: str) -> str:
        """An integer as i64; a ui64 above the range is the largest i64."""
        if dtype == "ui64":
            return self.w.value(f"call i64 @llvm.umin.i64(i64 {value}, i64 {2**63 - 1})")
        return scalar.convert(self.w, dtype, "i64", value)
