"""Launches as CUDA C++ functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from egshape.dims import Dim, FloorDiv, Relu, Symbol
from egshape.dims.core import Atom, is_nonnegative, is_positive
from egshape.errors import Unsupported
from egshape.ir.types import itemsize
from egshape.lower.cuda import scalar
from egshape.plan.gpu.attention.scores import power_of_two
from egshape.plan.gpu.product.mma import pitch
from egshape.plan.ir.launch import WARP, Grid, LaneFold, Launch, Mma, Threads, Wide
from egshape.plan.ir.loops import (
    Assign,
    Bind,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
    If,
    Index,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    While,
    buffers,
    dims,
    statements,
)

_ACCESSES = {1: "ui8", 2: "ui16", 4: "ui32", 8: "uint2", 16: "uint4"}
"""Types by their bytes."""
MOST_UNROLLED = 32
"""Rounds up to which a loop is written out, so that its registers have fixed numbers."""
MOST_TOGETHER = 4
"""The same of a loop in which the block multiplies or waits: each round is hundreds of instructions already."""
MOST_DECLARED = 48 << 10
"""Bytes of shared memory up to which a kernel may declare it; more is asked for by the launch."""


@dataclass(frozen=True)
class CudaKernel:
    """A kernel's source (which needs ``PRELUDE``), and what it is launched with."""

    name: str
    source: str
    buffers: tuple[Buffer, ...]
    """Device pointers, in the order of the parameters."""
    sizes: tuple[str, ...]
    """Symbols, passed as i64 behind the pointers."""
    blocks: Dim
    """Blocks of the grid's x axis; 0 is not launched."""
    threads: int
    shared_bytes: int = 0
    """Shared memory that the launch asks for, besides what the source declares."""


def kernel(launch: Launch, name: str) -> CudaKernel:
    """The CUDA function of a launch. Raises Unsupported for statements that libraries run, and ops without code."""
    body = launch.kernel.body
    shared = set(launch.shared)
    touched = tuple(buffer for buffer in buffers(body) if buffer not in shared)
    sizes = tuple(sorted({each for dim in dims(body) for each in dim.symbols() if not each.startswith("$")}))
    printer = _Printer(
        {**{b: f"b{k}" for k, b in enumerate(touched)}, **{b: f"s{k}" for k, b in enumerate(launch.shared)}},
        {size: f"d{k}" for k, size in enumerate(sizes)},
        launch,
    )
    dynamic = _declare(printer, launch)
    printer.body(body)
    written = set(launch.kernel.outputs)
    params = [
        f"{'' if b in written or b.kind == 'temp' else 'const '}{scalar.memory(b.dtype)}* __restrict__ b{k}"
        for k, b in enumerate(touched)
    ] + [f"{printer.index} d{k}" for k in range(len(sizes))]
    text = "\n".join(printer.lines)
    source = (
        f'extern "C" __global__ void __launch_bounds__({launch.threads}) {name}({", ".join(params)}) {{\n{text}\n}}\n'
    )
    return CudaKernel(name, source, touched, sizes, launch.blocks, launch.threads, dynamic)


def _declare(printer: _Printer, launch: Launch) -> int:
    """Registers and shared memory. Returns the bytes that the launch must ask for: all of it where a kernel may not
    declare so much."""
    starts, total = launch.places()
    dynamic = total if total > MOST_DECLARED else 0
    if dynamic:
        printer.line("extern __shared__ __align__(16) ui8 eg_shared[];")
    elif launch.over:
        printer.line(f"__shared__ __align__(16) ui8 eg_shared[{total}];")
    for number, buffer in enumerate(launch.shared):
        type, count = scalar.memory(buffer.dtype), buffer.size.const or 0
        if buffer in launch.registers:
            printer.line(f"__align__(16) {type} s{number}[{count // launch.threads}];")
        elif dynamic or launch.over:
            printer.line(f"{type}* const s{number} = ({type}*)(eg_shared + {starts[buffer]});")
        else:
            printer.line(f"__shared__ __align__(16) {type} s{number}[{count}];")
    return dynamic


class _Printer:
    def __init__(self, pointers: dict[Buffer, str], symbols: dict[str, str], launch: Launch) -> None:
        self.lines: list[str] = []
        self.pointers = pointers
        self.symbols = symbols
        self.threads = launch.threads
        self.registers = frozenset(launch.registers)
        self.narrow = launch.narrow
        self.index = "ui32" if launch.narrow else "i64"
        """The type of sizes and indices."""
        self.thread = ""
        """The variable of the loop over threads around what is printed."""
        self.names: dict[str, str] = {}
        self.count = 0
        self.depth = 1
        self.frames: list[dict[object, str]] = [{}]

    # -- text -----------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("  " * self.depth + text)

    def fresh(self, hint: str) -> str:
        """A new name."""
        self.count += 1
        return f"{hint}{self.count}"

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A block in braces; what is computed inside is not reused outside."""
        self.line(head + " {")
        self.depth += 1
        self.frames.append({})
        yield
        self.frames.pop()
        self.depth -= 1
        self.line("}")

    @contextmanager
    def frame(self) -> Iterator[None]:
        """What is computed inside is not reused outside: a later statement may change what it was computed from."""
        self.frames.append({})
        yield
        self.frames.pop()

    def find(self, key: object) -> str | None:
        """A name for something computed earlier on every path to here."""
        return next((frame[key] for frame in reversed(self.frames) if key in frame), None)

    def keep(self, key: object, type: str, text: str) -> str:
        """Compute something once."""
        name = self.frames[-1][key] = self.fresh("t")
        self.line(f"{type} {name} = {text};")
        return name

    # -- statements -----------------------------------------------------------------------------------------------

    def body(self, stmts: Sequence[Stmt]) -> None:
        """Print statements in order."""
        for stmt in stmts:
            with self.frame():
                self.stmt(stmt)

    def stmt(self, stmt: Stmt) -> None:
        """Print one statement."""
        match stmt:
            case Grid():
                self.symbols[stmt.var] = self.keep(stmt, f"const {self.index}", "blockIdx.x")
                self.body(stmt.body)
            case Mma():
                self._mma(stmt)
            case Threads():
                self._threads(stmt)
            case Wide():
                self._wide(stmt)
            case LaneFold():
                self._lane_fold(stmt)
            case Loop():
                index = self.fresh("at")
                extent = self.dim(stmt.extent)
                if stmt.extent.const is not None and (pragma := _unrolled(stmt, stmt.extent.const)):
                    self.line(pragma)
                with self.block(f"for ({self.index} {index} = 0; {index} < {extent}; ++{index})"):
                    self.symbols[stmt.var] = index
                    self.body(stmt.body)
            case Store():
                value, place = self.stored(stmt.value, stmt.buffer.dtype), self.element(stmt.buffer, stmt.index)
                self.line(f"{place} = {value};")
            case Let():
                self.names[stmt.name] = self.keep(stmt, _constant_type(stmt.value), self.expr(stmt.value))
            case Local():
                value = self.expr(stmt.value)
                self.names[stmt.name] = self.fresh("v")
                self.line(f"{scalar.register(stmt.value.dtype)} {self.names[stmt.name]} = {value};")
            case Assign():
                self.line(f"{self.names[stmt.name]} = {self.expr(stmt.value)};")
            case LetIndex():
                self.symbols[stmt.name] = self._let_index(stmt)
            case If():
                self._if(stmt)
            case While():
                with self.block("for (;;)"):
                    self.line(f"if (!{self.expr(stmt.condition)}) break;")
                    self.body(stmt.body)
            case _:
                raise Unsupported(
                    f"{type(stmt).__name__} is no statement of a CUDA kernel", where="plan", hint="a library runs it"
                )

    def _threads(self, stmt: Threads) -> None:
        """What each thread of the block does; nobody goes on before all have done it."""
        whole = stmt.extent.const == self.threads
        with self.block("" if whole else f"if (threadIdx.x < {stmt.extent.const})"):
            self.symbols[stmt.var] = self.keep(stmt, f"const {self.index}", "threadIdx.x")
            self.thread = stmt.var
            self.body(stmt.body)
        self._wait(stmt)

    def _wait(self, stmt: Threads) -> None:
        if stmt.wait:
            # A warp has done what it stores before any of its threads goes on.
            self.line("__syncwarp();" if self.threads <= WARP else "__syncthreads();")

    def _mma(self, stmt: Mma) -> None:
        """A product by all warps together."""
        numbers = (
            [stmt.rows, stmt.columns, stmt.depth] if stmt.held else [stmt.rows, stmt.columns, stmt.across, stmt.depth]
        )
        numbers += [stmt.left.row.const or 0, stmt.left.column.const or 0] if stmt.held else []
        kind = "" if stmt.dtype == "f32" else f"{'true' if stmt.dtype == 'bf16' else 'false'}, "
        lines = []
        for side in (stmt.right,) if stmt.held else (stmt.left, stmt.right):
            apart, along = pitch(side)
            # lines of the left side go along its columns, which are the depth; those of the right side are the reverse
            lines += [str(apart), "true" if along == (side is stmt.left) else "false"]
        name = f"eg_product{'_held' if stmt.held else ''}{'_f32' if stmt.dtype == 'f32' else ''}"
        sides = ", ".join(f"&{self.pointers[side.buffer]}[{self.dim(side.offset)}]" for side in (stmt.left, stmt.right))
        self.line(f"{name}<{kind}{', '.join([*map(str, numbers), *lines])}>({self.pointers[stmt.sums]}, {sides});")
        self._wait(stmt)

    def _wide(self, stmt: Wide) -> None:
        """Elements side by side, copied at once."""
        (store,) = stmt.body
        assert isinstance(store, Store) and isinstance(store.value, Load)
        first, lanes = {stmt.var: 0}, stmt.extent.const or 0
        kind = _ACCESSES[lanes * itemsize(store.buffer.dtype)]
        target = self.element(store.buffer, store.index.substitute(first))
        source = self.element(store.value.buffer, store.value.index.substitute(first))
        self.line(f"*({kind}*)&{target} = *(const {kind}*)&{source};")

    def _lane_fold(self, stmt: LaneFold) -> None:
        """Butterflies: at each distance a lane joins its own state and that of the lane so far away."""
        index, dtypes = self.fresh("at"), [state.dtype for state in stmt.states]
        everyone = (1 << min(self.threads, WARP)) - 1
        self.line("#pragma unroll")
        with self.block(f"for (i32 {index} = 0; {index} < {stmt.count}; ++{index})"):
            places = [f"{self.pointers[state]}[{index}]" for state in stmt.states]
            mine = [
                self.keep((stmt, k), scalar.register(dtype), scalar.load(dtype, place))
                for k, (dtype, place) in enumerate(zip(dtypes, places, strict=True))
            ]
            distance = 1
            while distance < stmt.width:
                with self.block(""):
                    self._exchange(stmt, mine, distance, everyone)
                distance *= 2
            for dtype, place, name in zip(dtypes, places, mine, strict=True):
                self.line(f"{place} = {scalar.store(dtype, name)};")

    def _exchange(self, stmt: LaneFold, mine: Sequence[str], distance: int, everyone: int) -> None:
        kinds = [f"const {scalar.register(state.dtype)}" for state in stmt.states]
        theirs = [
            self.keep((stmt, "theirs", k), kind, f"eg_lane({name}, {distance}, {everyone}u)")
            for k, (kind, name) in enumerate(zip(kinds, mine, strict=True))
        ]
        low = "true" if stmt.commutes else self.keep((stmt, "low"), "const bool", f"!(threadIdx.x & {distance}u)")
        for k, (kind, own, other) in enumerate(zip(kinds, mine, theirs, strict=True)):
            both = (
                (own, other)
                if stmt.commutes
                else tuple(
                    self.keep((stmt, side, k), kind, f"{low} ? {one} : {two}")
                    for side, one, two in (("one", own, other), ("two", other, own))
                )
            )
            self.names[stmt.one[k]], self.names[stmt.two[k]] = both
        values = [self.expr(value) for value in stmt.new]
        kept = [
            self.keep((stmt, "new", k), kind, value) for k, (kind, value) in enumerate(zip(kinds, values, strict=True))
        ]
        for name, value in zip(mine, kept, strict=True):
            self.line(f"{name} = {value};")

    def _if(self, stmt: If) -> None:
        with self.block(f"if ({self.expr(stmt.condition)})"):
            self.body(stmt.then)
        if stmt.other:
            with self.block("else"):
                self.body(stmt.other)

    # -- expressions ----------------------------------------------------------------------------------------------

    def element(self, buffer: Buffer, index: Dim) -> str:
        """An element of a buffer; of a register, that of this thread."""
        place = index.substitute({self.thread: 0}) if buffer in self.registers else index
        return f"{self.pointers[buffer]}[{self.dim(place)}]"

    def expr(self, expr: Expr) -> str:
        """The value of an expression: a constant or a name."""
        if isinstance(expr, Const):
            return scalar.constant(expr.dtype, expr.value)
        if isinstance(expr, Var):
            return self.names[expr.name]
        return self.find(expr) or self._compute(expr)

    def stored(self, expr: Expr, dtype: str) -> str:
        """A value as an element of memory; a number of 16 bits that was only moved keeps them, NaN's too."""
        if isinstance(expr, Load) and scalar.is_half(dtype):
            return self.element(expr.buffer, expr.index)
        if isinstance(expr, Const) and scalar.is_half(dtype):
            return scalar.bits(dtype, expr.value)
        if isinstance(expr, Call) and expr.op == "convert" and expr.args[0].dtype == "f32" and scalar.is_half(dtype):
            return scalar.store(dtype, self.expr(expr.args[0]))  # which rounds
        if isinstance(expr, Call) and expr.op == "bitcast_convert" and _of_half(expr):
            source = expr.args[0].dtype
            return scalar.same_bits(source, dtype, self.stored(expr.args[0], source))
        return scalar.store(dtype, self.expr(expr))

    def _compute(self, expr: Expr) -> str:
        type = _constant_type(expr)
        match expr:
            case Load():
                return self.keep(expr, type, scalar.load(expr.dtype, self.element(expr.buffer, expr.index)))
            case Index():
                return self.keep(expr, type, scalar.convert("i64", expr.dtype, self._signed(expr.dim)))
            case Test():
                return self.keep(expr, type, " && ".join(f"{self._signed(dim)} >= 0" for dim in expr.dims) or "true")
            case Call(op="add", fast=True, args=(total, Call(op="multiply") as item)) if _fuses(expr, item):
                parts = ", ".join(map(self.expr, (*item.args, total)))
                return self.keep(expr, type, f"fma({parts})")
            case Call(op="exponential", fast=True) if (power := power_of_two(expr)) is not None:
                return self.keep(expr, type, f"eg_exp2({self.expr(power)})")
            case Call(op="bitcast_convert") if _of_half(expr):
                return self.keep(expr, type, scalar.load(expr.dtype, self.stored(expr, expr.dtype)))
            case Call():
                args = tuple(self.expr(arg) for arg in expr.args)
                source = expr.args[1 if expr.op == "select" else 0].dtype
                return self.keep(expr, type, scalar.call(expr.op, expr.dtype, source, args, dict(expr.attrs)))
            case Choose():
                return self._choose(expr)
            case Bind():
                value = self.expr(expr.value)
                bound = f"eg_bound(eg_index({value}), {self._signed(expr.upper)})"
                self.symbols[expr.name] = self.keep((expr, "bound"), f"const {self.index}", bound)
                return self.expr(expr.body)
        raise AssertionError(expr)

    def _choose(self, expr: Choose) -> str:
        condition = self.expr(expr.condition)
        name = self.frames[-1][expr] = self.fresh("t")
        self.line(f"{scalar.register(expr.dtype)} {name};")
        for head, part in ((f"if ({condition})", expr.then), ("else", expr.other)):
            with self.block(head):
                self.line(f"{name} = {self.expr(part)};")
        return name

    # -- sizes ----------------------------------------------------------------------------------------------------

    def dim(self, dim: Dim) -> str:
        """A size or index: i64, or 32 bits that wrap."""
        if dim.const is not None:
            return self._number(dim.const)
        found = self.find(dim)
        if found is not None:
            return found
        terms = []
        for mono, factor in dim.terms:
            parts = [self._atom(atom) for atom, power in mono for _ in range(power)]
            if factor != 1 or not parts:
                parts.append(self._number(factor))
            terms.append(" * ".join(parts))
        plain = len(terms) == 1 and terms[0].isidentifier()
        return terms[0] if plain else self.keep(dim, f"const {self.index}", " + ".join(terms))

    def _number(self, value: int) -> str:
        return f"{value % 2**32}u" if self.narrow else f"{value}ll"

    def _signed(self, dim: Dim) -> str:
        """A size as i64 or i32, which may be below 0."""
        return f"(i32){self.dim(dim)}" if self.narrow else self.dim(dim)

    def _let_index(self, stmt: LetIndex) -> str:
        """A variable of a size or index, or of a number from data."""
        if isinstance(stmt.value, Index) and stmt.value.dtype == "i64":
            return self.dim(stmt.value.dim)
        return self.keep(stmt, f"const {self.index}", f"eg_index({self.expr(stmt.value)})")

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.symbols[atom.name]
        found = self.find(atom)
        if found is not None:
            return found
        kind = f"const {self.index}"
        if isinstance(atom, Relu):
            return self.keep(atom, kind, f"eg_relu({self._signed(atom.arg)})")
        assert isinstance(atom, FloorDiv)
        if is_nonnegative(atom.num) and is_positive(atom.den):
            return self.keep(atom, kind, f"{self.dim(atom.num)} / {self.dim(atom.den)}")
        if is_nonnegative(atom.num) and is_nonnegative(atom.den):
            return self.keep(atom, kind, f"eg_div({self.dim(atom.num)}, {self.dim(atom.den)})")
        return self.keep(atom, kind, f"eg_floordiv({self._signed(atom.num)}, {self._signed(atom.den)})")


def _unrolled(loop: Loop, rounds: int) -> str:
    """What the compiler is told of a loop of so many rounds: by itself it may write all of them out."""
    together = any((isinstance(each, Threads) and each.wait) or isinstance(each, Mma) for each in statements(loop.body))
    if together and rounds > MOST_TOGETHER:
        return "#pragma unroll 1"
    return "#pragma unroll" if rounds <= MOST_UNROLLED else ""


def _fuses(total: Call, item: Call) -> bool:
    """Whether a sum that may be rounded in any way takes a product without rounding it."""
    return total.dtype == item.dtype and total.dtype in ("f32", "f64")


def _of_half(cast: Call) -> bool:
    """Whether bits become those of an f16 or bf16, or the reverse."""
    source = cast.args[0].dtype
    half = scalar.is_half(source) or scalar.is_half(cast.dtype)
    return half and source != cast.dtype and itemsize(source) == itemsize(cast.dtype)


def _constant_type(expr: Expr) -> str:
    return f"const {scalar.register(expr.dtype)}"
