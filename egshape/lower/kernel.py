"""Kernels as LLVM functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egshape.ir.types import is_float, itemsize
from egshape.lower import scalar
from egshape.lower.gemm import MOST_ROWS
from egshape.lower.writer import Writer
from egshape.plan.loops import (
    Assign,
    Bind,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
    Gemm,
    If,
    Index,
    Kernel,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Matrix,
    Stmt,
    Store,
    Test,
    Var,
    While,
    buffers,
    dims,
)

BLAS = {"f32": "scipy_cblas_sgemm", "f64": "scipy_cblas_dgemm"}
ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112


@dataclass(frozen=True)
class Function:
    """A kernel's text without its name, and what it is called with."""

    text: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    uses_blas: bool


def function(kernel: Kernel) -> Function:
    """The LLVM function of a kernel: pointers of its buffers, then its sizes."""
    touched = buffers(kernel.body)
    sizes = sorted({name for dim in dims(kernel.body) for name in dim.symbols() if not name.startswith("$")})
    w = Writer()
    emit = _Kernel(w, {buffer: f"%b{k}" for k, buffer in enumerate(touched)})
    w.symbols = {name: f"%d{k}" for k, name in enumerate(sizes)}
    emit.body(kernel.body)
    params = [f"ptr noalias{'' if buffer in kernel.outputs or buffer.kind == 'temp' else ' readonly'} %b{k}"
              for k, buffer in enumerate(touched)] + [f"i64 %d{k}" for k in range(len(sizes))]
    lines = "\n".join([*w.head, *w.lines])
    text = f"({', '.join(params)}) #0 {{\nentry:\n{lines}\n  ret void\n}}\n"
    return Function(text, touched, tuple(sizes), emit.uses_blas)


class _Kernel:
    def __init__(self, w: Writer, pointers: dict[Buffer, str]) -> None:
        self.w = w
        self.pointers = pointers
        self.values: dict[str, str] = {}
        self.locals: dict[str, tuple[str, str]] = {}
        self.uses_blas = False

    # -- statements -----------------------------------------------------------------------------------------------

    def body(self, stmts: Sequence[Stmt]) -> None:
        for stmt in stmts:
            self.stmt(stmt)

    def stmt(self, stmt: Stmt) -> None:
        w = self.w
        match stmt:
            case Loop():
                with w.loop(w.dim(stmt.extent)) as index:
                    w.symbols[stmt.var] = index
                    self.body(stmt.body)
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
            case Gemm():
                self._gemm(stmt)

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

    def _gemm(self, g: Gemm) -> None:
        w = self.w
        self.uses_blas = True
        m, n, k = (w.dim(each) for each in (g.m, g.n, g.k))
        some = w.value(f"call i64 @llvm.smin.i64(i64 {m}, i64 {n})")
        with w.when(w.value(f"icmp sgt i64 {some}, 0")):
            if g.dtype == "f32" and g.right.column.const == 1 and g.out.column.const == 1:
                self._few_rows(g, m, n, k)
                return
            self._vendor(g, m, n, k)

    def _few_rows(self, g: Gemm, m: str, n: str, k: str) -> None:
        """The own product for few rows, the vendor's for more."""
        w = self.w
        own, vendor, end = w.label("own"), w.label("vendor"), w.label("end")
        few = w.value(f"icmp sle i64 {m}, {MOST_ROWS}")
        w.line(f"br i1 {few}, label %{own}, label %{vendor}")
        w.block(own)
        with w.frame():
            pointers = [self.address(side.buffer, w.dim(side.offset)) for side in (g.left, g.right, g.out)]
            strides = [w.dim(size) for size in (g.left.row, g.left.column, g.right.row, g.out.row)]
            w.line(f"call void @egs_gemm(i64 {m}, i64 {n}, i64 {k}, ptr {pointers[0]}, i64 {strides[0]}, "
                   f"i64 {strides[1]}, ptr {pointers[1]}, i64 {strides[2]}, ptr {pointers[2]}, i64 {strides[3]})")
        w.line(f"br label %{end}")
        w.block(vendor)
        with w.frame():
            self._vendor(g, m, n, k)
        w.line(f"br label %{end}")
        w.block(end)

    def _vendor(self, g: Gemm, m: str, n: str, k: str) -> None:
        w = self.w
        left, right = self._operand(g.left), self._operand(g.right)
        target = self.address(g.out.buffer, w.dim(g.out.offset))
        sizes = ", ".join(f"i32 {w.value(f'trunc i64 {each} to i32')}" for each in (m, n, k))
        type = scalar.register(g.dtype)
        ldc = self._leading(g.out.row.const, w.dim(g.out.row))
        w.line(f"call void @{BLAS[g.dtype]}(i32 {ROW_MAJOR}, i32 {left[0]}, i32 {right[0]}, {sizes}, "
               f"{type} 1.0, ptr {left[1]}, i32 {left[2]}, ptr {right[1]}, i32 {right[2]}, "
               f"{type} 0.0, ptr {target}, i32 {ldc})")

    def _operand(self, matrix: Matrix) -> tuple[int, str, str]:
        plain = matrix.column.const == 1
        stride = matrix.row if plain else matrix.column
        pointer = self.address(matrix.buffer, self.w.dim(matrix.offset))
        return PLAIN if plain else TRANSPOSED, pointer, self._leading(stride.const, self.w.dim(stride))

    def _leading(self, number: int | None, value: str) -> str:
        if number is not None:
            return str(max(number, 1))
        largest = self.w.value(f"call i64 @llvm.smax.i64(i64 {value}, i64 1)")
        return self.w.value(f"trunc i64 {largest} to i32")

    # -- expressions ----------------------------------------------------------------------------------------------

    def address(self, buffer: Buffer, index: str) -> str:
        """The address of an element."""
        return self.w.value(f"getelementptr inbounds {scalar.memory(buffer.dtype)}, ptr {self.pointers[buffer]}, "
                            f"i64 {index}")

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
                total = tests[0]
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
