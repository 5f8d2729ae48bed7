"""Launches as CUDA C++ functions."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from egshape.dims import Dim
from egshape.ir.types import itemsize
from egshape.lower.common.walk import Walk
from egshape.lower.cuda import halves, ops, scalar
from egshape.lower.cuda.writer import Writer
from egshape.plan.ir.launch import WARP, Ahead, Grid, LaneFold, Launch, Mma, Threads, Wide
from egshape.plan.ir.loops import Buffer, Call, Choose, Const, Expr, If, Index, Load, Local, Loop, Stmt, Store, While
from egshape.plan.ir.walk import buffers, dims, statements

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
    w = Writer(launch.narrow)
    w.symbols |= {size: f"d{k}" for k, size in enumerate(sizes)}
    printer = _Printer(
        w,
        {**{b: f"b{k}" for k, b in enumerate(touched)}, **{b: f"s{k}" for k, b in enumerate(launch.shared)}},
        launch,
    )
    dynamic = _declare(w, launch, printer.staged)
    printer.body(body)
    written = set(launch.kernel.outputs)
    params = [
        f"{'' if b in written or b.kind == 'temp' else 'const '}{scalar.memory(b.dtype)}* __restrict__ b{k}"
        for k, b in enumerate(touched)
    ] + [f"{w.index} d{k}" for k in range(len(sizes))]
    text, bounds = "\n".join(w.lines), f"__launch_bounds__({launch.threads}{_resident(launch)})"
    source = f'extern "C" __global__ void {bounds} {name}({", ".join(params)}) {{\n{text}\n}}\n'
    return CudaKernel(name, source, touched, sizes, launch.blocks, launch.threads, dynamic)


def _resident(launch: Launch) -> str:
    """The blocks that registers are to suffice for: from sm_90 on, whose shared memory does too, and where indices take
    few registers."""
    return f", __CUDA_ARCH__ >= 900 ? {launch.resident} : 2" if launch.resident and launch.narrow else ""


def _declare(w: Writer, launch: Launch, staged: Set[Buffer]) -> int:
    """Registers, those that are ``staged`` as f32, and shared memory. Returns the bytes that the launch must ask for:
    all of it where a kernel may not declare so much."""
    starts, total = launch.places()
    dynamic = total if total > MOST_DECLARED else 0
    if dynamic:
        w.line("extern __shared__ __align__(16) ui8 eg_shared[];")
    elif launch.over:
        w.line(f"__shared__ __align__(16) ui8 eg_shared[{total}];")
    for number, buffer in enumerate(launch.shared):
        type, count = "f32" if buffer in staged else scalar.memory(buffer.dtype), buffer.size.const or 0
        if buffer in launch.registers:
            w.line(f"__align__(16) {type} s{number}[{count // launch.threads}];")
        elif dynamic or launch.over:
            w.line(f"{type}* const s{number} = ({type}*)(eg_shared + {starts[buffer]});")
        else:
            w.line(f"__shared__ __align__(16) {type} s{number}[{count}];")
    return dynamic


class _Printer(Walk[Writer]):
    def __init__(self, w: Writer, pointers: dict[Buffer, str], launch: Launch) -> None:
        super().__init__(w, pointers)
        self.block_threads = launch.threads
        self.registers = frozenset(launch.registers)
        self.staged, self.filled = halves.staged(launch), halves.filled(launch)
        self.exact: dict[str, tuple[str, str]] = {}
        """Names of numbers that were rounded to 16 bits: the dtype, and what was rounded."""
        self.bits: dict[str, str] = {}
        """Names of numbers of f16: the names of their bits."""
        self.thread = ""
        """The variable of the loop over threads around what is printed."""

    # -- statements ---------------------------------------------------------------------------------------------------

    def stmt(self, stmt: Stmt) -> None:
        """One statement; of sizes too, what it computes is not reused behind it: that would take registers."""
        with self.w.frame():
            super().stmt(stmt)

    def grid(self, stmt: Grid) -> None:
        """The block's number."""
        self.w.symbols[stmt.var] = self.w.place("blockIdx.x")
        self.body(stmt.body)

    def threads(self, stmt: Threads) -> None:
        """What each thread of the block does; nobody goes on before all have done it."""
        w, whole = self.w, stmt.extent.const == self.block_threads
        with w.block("" if whole else f"if (threadIdx.x < {stmt.extent.const})"):
            w.symbols[stmt.var] = thread = w.place("threadIdx.x")
            w.line(f"__builtin_assume({thread} < {w.number(stmt.extent.const or 0)});")
            self.thread = stmt.var
            self.body(stmt.body)
        self._wait(stmt)

    def _wait(self, stmt: Threads) -> None:
        if stmt.landed:
            self.w.line("eg_landed();")
        if stmt.wait:
            # A warp has done what it stores before any of its threads goes on.
            self.w.line("__syncwarp();" if self.block_threads <= WARP else "__syncthreads();")

    def mma(self, stmt: Mma) -> None:
        """A product by all warps together."""
        numbers = (
            [stmt.rows, stmt.columns, stmt.depth] if stmt.held else [stmt.rows, stmt.columns, stmt.across, stmt.depth]
        )
        numbers += [stmt.left.row.const or 0, stmt.left.column.const or 0] if stmt.held else []
        kind = "" if stmt.dtype == "f32" else f"{'true' if stmt.dtype == 'bf16' else 'false'}, "
        lines = []
        for side in (stmt.right,) if stmt.held else (stmt.left, stmt.right):
            apart, along = side.pitch
            # lines of the left operand go along its columns, which are the depth; those of the right are the reverse
            lines += [str(apart), "true" if along == (side is stmt.left) else "false"]
        name = f"eg_product{'_held' if stmt.held else ''}{'_f32' if stmt.dtype == 'f32' else ''}"
        both = ", ".join(
            f"&{self.pointers[side.buffer]}[{self.w.dim(side.offset)}]" for side in (stmt.left, stmt.right)
        )
        self.w.line(f"{name}<{kind}{', '.join([*map(str, numbers), *lines])}>({self.pointers[stmt.sums]}, {both});")
        self._wait(stmt)

    def wide(self, stmt: Wide) -> None:
        """Elements side by side, copied at once."""
        (store,) = stmt.body
        assert isinstance(store, Store)
        value: Expr = store.value
        inside = "true"
        if isinstance(stmt, Ahead) and isinstance(value, Choose):
            inside = self.expr(value.condition)
            value = value.then
        assert isinstance(value, Load)
        first, lanes = {stmt.var: 0}, stmt.extent.const or 0
        kind = _ACCESSES[lanes * itemsize(store.buffer.dtype)]
        target = self.element(store.buffer, store.index.substitute(first))
        source = self.element(value.buffer, value.index.substitute(first))
        if isinstance(stmt, Ahead):
            self.w.line(f"eg_ahead(&{target}, &{source}, {inside});")
        elif value.buffer in self.staged:
            brain = "true" if store.buffer.dtype == "bf16" else "false"
            self.w.line(f"*({kind}*)&{target} = eg_packed<{brain}, {kind}>(&{source});")
        else:
            self.w.line(f"*({kind}*)&{target} = *(const {kind}*)&{source};")

    def lane_fold(self, stmt: LaneFold) -> None:
        """Butterflies: at each distance a lane joins its own state and that of the lane so far away."""
        w = self.w
        index, dtypes = w.fresh("at"), [state.dtype for state in stmt.states]
        everyone = (1 << min(self.block_threads, WARP)) - 1
        w.line("#pragma unroll")
        with w.block(f"for (i32 {index} = 0; {index} < {stmt.count}; ++{index})"):
            places = [f"{self.pointers[state]}[{index}]" for state in stmt.states]
            mine = [
                w.value(scalar.register(dtype), scalar.load(dtype, place))
                for dtype, place in zip(dtypes, places, strict=True)
            ]
            distance = 1
            while distance < stmt.width:
                with w.block(""):
                    self._exchange(stmt, mine, distance, everyone)
                distance *= 2
            for dtype, place, name in zip(dtypes, places, mine, strict=True):
                w.line(f"{place} = {scalar.store(dtype, name)};")

    def _exchange(self, stmt: LaneFold, mine: Sequence[str], distance: int, everyone: int) -> None:
        w = self.w
        kinds = [f"const {scalar.register(state.dtype)}" for state in stmt.states]
        theirs = [
            w.value(kind, f"eg_lane({name}, {distance}, {everyone}u)") for kind, name in zip(kinds, mine, strict=True)
        ]
        low = "true" if stmt.commutes else w.value("const bool", f"!(threadIdx.x & {distance}u)")
        for k, (kind, own, other) in enumerate(zip(kinds, mine, theirs, strict=True)):
            both = [own, other]
            if not stmt.commutes:
                both = [w.value(kind, f"{low} ? {one} : {two}") for one, two in ((own, other), (other, own))]
            self.names[stmt.one[k]], self.names[stmt.two[k]] = both
        values = [self.expr(value) for value in stmt.new]
        kept = [w.value(kind, value) for kind, value in zip(kinds, values, strict=True)]
        for name, value in zip(mine, kept, strict=True):
            w.line(f"{name} = {value};")

    def loop(self, stmt: Loop) -> None:
        """A loop, unrolled where it is short."""
        w = self.w
        index, extent = w.fresh("at"), w.dim(stmt.extent)
        if stmt.extent.const is not None and (pragma := _unrolled(stmt, stmt.extent.const)):
            w.line(pragma)
        with w.block(f"for ({w.index} {index} = 0; {index} < {extent}; ++{index})"):
            w.symbols[stmt.var] = index
            self.body(stmt.body)

    def store(self, buffer: Buffer, index: Dim, value: Expr) -> None:
        """An assignment to the element."""
        stored = self._exact(value) if buffer in self.staged else self.stored(value, buffer.dtype)
        place = self.element(buffer, index)
        self.w.line(f"{place} = {stored};")

    def let(self, value: Expr) -> str:
        """A name of its own."""
        text = self.expr(value)
        name = self.w.value(_constant_type(value), text)
        if text in self.exact:
            self.exact[name] = self.exact[text]
        if text in self.bits:
            self.bits[name] = self.bits[text]
        return name

    def local(self, stmt: Local) -> None:
        """A variable."""
        value = self.expr(stmt.value)
        self.names[stmt.name] = self.w.fresh("v")
        self.w.line(f"{scalar.register(stmt.value.dtype)} {self.names[stmt.name]} = {value};")

    def assign(self, name: str, value: str) -> None:
        """An assignment."""
        self.w.line(f"{self.names[name]} = {value};")

    def branch(self, stmt: If) -> None:
        """if and else."""
        with self.w.block(f"if ({self.expr(stmt.condition)})"):
            self.body(stmt.then)
        if stmt.other:
            with self.w.block("else"):
                self.body(stmt.other)

    def repeat(self, stmt: While) -> None:
        """A loop that the condition leaves."""
        with self.w.block("for (;;)"):
            self.w.line(f"if (!{self.expr(stmt.condition)}) break;")
            self.body(stmt.body)

    # -- expressions --------------------------------------------------------------------------------------------------

    def element(self, buffer: Buffer, index: Dim) -> str:
        """An element of a buffer; of a register, that of this thread."""
        place = index.substitute({self.thread: 0}) if buffer in self.registers else index
        return f"{self.pointers[buffer]}[{self.w.dim(place)}]"

    def stored(self, expr: Expr, dtype: str) -> str:
        """A value as an element of memory; a number of 16 bits that was only moved keeps them, NaN's too."""
        if isinstance(expr, Load) and scalar.is_half(dtype):
            return self.element(expr.buffer, expr.index)
        if isinstance(expr, Const) and scalar.is_half(dtype):
            return scalar.bits(dtype, expr.value)
        if isinstance(expr, Call) and expr.op == "bitcast_convert" and _of_half(expr):
            source = expr.args[0].dtype
            return scalar.same_bits(source, dtype, self.stored(expr.args[0], source))
        text = self.expr(expr)
        return self.bits[text] if text in self.bits and dtype == "f16" else scalar.store(dtype, self._exact(expr))

    def _exact(self, expr: Expr) -> str:
        """A value that is to be rounded to its dtype: what it was before it was."""
        text = self.expr(expr)
        dtype, exact = self.exact.get(text, ("", ""))
        return exact if dtype == expr.dtype else text

    def constant(self, expr: Const) -> str:
        """A number with all its bits."""
        return scalar.constant(expr.dtype, expr.value)

    def load(self, expr: Load) -> str:
        """An element."""
        if expr.buffer in self.filled:
            place = self.w.dim(expr.index.substitute({self.thread: 0}))
            return self._value(expr, f"eg_held_bf16({self.pointers[expr.buffer]}, {place})")
        element = self.element(expr.buffer, expr.index)
        return self._of_bits(element) if expr.dtype == "f16" else self._value(expr, scalar.load(expr.dtype, element))

    def index(self, expr: Index) -> str:
        """A size, converted."""
        return self._value(expr, scalar.convert("i64", expr.dtype, self.w.signed_wrapped(expr.dim)))

    def test(self, dims: Sequence[Dim]) -> str:
        """All tests at once."""
        return self.w.value("const bool", " && ".join(f"{self.w.signed(dim)} >= 0" for dim in dims) or "true")

    def call(self, expr: Call) -> str:
        """An op."""
        if expr.op == "bitcast_convert" and _of_half(expr):
            return self._value(expr, scalar.load(expr.dtype, self.stored(expr, expr.dtype)))
        args = tuple(self.expr(arg) for arg in expr.args)
        if expr.dtype == "f16" and expr.op in halves.NATIVE and all(arg in self.bits for arg in args):
            return self._of_bits(f"eg_{expr.op}_f16({', '.join(self.bits[arg] for arg in args)})")
        source = expr.args[1 if expr.op == "select" else 0].dtype
        return self._value(expr, ops.call(expr.op, expr.dtype, source, args, dict(expr.attrs), expr.fast))

    def choose(self, expr: Choose) -> str:
        """A variable that each of two blocks gives a value."""
        w, condition = self.w, self.expr(expr.condition)
        name = w.fresh("t")
        w.line(f"{scalar.register(expr.dtype)} {name};")
        for head, part in ((f"if ({condition})", expr.then), ("else", expr.other)):
            with w.block(head):
                w.line(f"{name} = {self.expr(part)};")
        return name

    def as_index(self, dtype: str, value: str) -> str:
        """A number from data."""
        return self.w.place(f"eg_index({value})")

    def bounded(self, dtype: str, value: str, upper: Dim) -> str:
        """The same between bounds."""
        return self.w.place(f"eg_bound(eg_index({value}), {self.w.signed(upper)})")

    def _value(self, expr: Expr, text: str) -> str:
        rounding = f"eg_round_{expr.dtype}("
        if not text.startswith(rounding):
            return self.w.value(_constant_type(expr), text)
        exact = self.w.value("const f32", text.removeprefix(rounding)[:-1])
        if expr.dtype == "f16":
            return self._of_bits(scalar.store("f16", exact), exact)
        name = self.w.value(_constant_type(expr), f"{rounding}{exact})")
        self.exact[name] = expr.dtype, exact
        return name

    def _of_bits(self, text: str, exact: str = "") -> str:
        """A number of f16, and its bits, which are written as ``text``."""
        bits = self.w.value("const ui16", text)
        name = self.w.value("const f32", scalar.load("f16", bits))
        self.bits[name] = bits
        if exact:
            self.exact[name] = "f16", exact
        return name


def _unrolled(loop: Loop, rounds: int) -> str:
    """What the compiler is told of a loop of so many rounds: by itself it may write all of them out."""
    together = any((isinstance(each, Threads) and each.wait) or isinstance(each, Mma) for each in statements(loop.body))
    if together and rounds > MOST_TOGETHER:
        return "#pragma unroll 1"
    return "#pragma unroll" if rounds <= MOST_UNROLLED else ""


def _of_half(cast: Call) -> bool:
    """Whether bits become those of an f16 or bf16, or the reverse."""
    source = cast.args[0].dtype
    half = scalar.is_half(source) or scalar.is_half(cast.dtype)
    return half and source != cast.dtype and itemsize(source) == itemsize(cast.dtype)


def _constant_type(expr: Expr) -> str:
    return f"const {scalar.register(expr.dtype)}"
