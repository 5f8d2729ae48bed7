"""Kernels mapped to blocks and threads: the same loop IR, with outer loops that are blocks and inner ones that are
threads of a block.

Run one after the other, the mapped loops compute what the kernel did, which is how a machine without a GPU tests
the mapping; what the CUDA printer adds is only that they run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, relu, symbol
from egshape.ir.types import integer_range, is_float
from egshape.plan.loops import (
    Assign,
    Bind,
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
    Stmt,
    Store,
    Test,
    Var,
    While,
    expressions,
)
from egshape.plan.parallel import independent

THREADS = 256
"""Threads of a block."""

LONG = 32
"""A row of at least so many elements (at the likely sizes) is shared by the threads of a block."""

_ASSOCIATIVE = frozenset(("maximum", "minimum", "and", "or"))
"""Ops that give the same bits in any order; sums and products do where the plan allows it (``Call.fast``)."""


@dataclass(frozen=True, eq=False, slots=True)
class Grid(Loop):
    """A loop over the blocks of a launch: its rounds may run in any order, or at the same time."""


@dataclass(frozen=True, eq=False, slots=True)
class Threads(Loop):
    """A loop over the threads of a block: its rounds may run in any order, or at the same time; where ``wait`` is
    set, none goes on to what follows before all are done."""

    wait: bool = True


@dataclass(frozen=True)
class Launch:
    """A mapped kernel. ``shared``: buffers of a block's own (static sizes); ``kernel.private`` buffers have become
    one piece for each block."""

    kernel: Kernel
    blocks: Dim
    threads: int
    shared: tuple[Buffer, ...] = ()


Likely = Callable[[Dim], float]
"""A size at the likely sizes."""


def launch(kernel: Kernel, likely: Likely, threads: int = THREADS) -> Launch:
    """How a kernel runs on a grid: a block a row where rows are long, else a thread an iteration; what cannot be
    shown to be independent runs on one thread."""
    loops, body = _leading(kernel.body)
    while loops and not independent(loops, kernel.private):
        loops, body = loops[:-1], (loops[-1],)
    rows = _Rows(kernel, loops, threads)
    if _has_rows(body, likely):
        found = rows.mapped(body)
        if found is not None:
            return found
    if kernel.private:
        loops, body = (), kernel.body  # the rows share their scratch
    return _flat(kernel, loops, body, threads)


def _leading(body: tuple[Stmt, ...]) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The loops around everything, and what is inside."""
    loops: list[Loop] = []
    while len(body) == 1 and isinstance(body[0], Loop):
        loops.append(body[0])
        body = body[0].body
    return tuple(loops), body


def _has_rows(body: Sequence[Stmt], likely: Likely) -> bool:
    return any(isinstance(stmt, Loop) and likely(stmt.extent) >= LONG for stmt in body)


def _place(loops: Sequence[Loop], flat: Dim) -> dict[str, Dim]:
    """The loop variables of the flat number of an iteration."""
    env, size = {}, const(1)
    for number, loop in reversed(list(enumerate(loops))):
        quotient = floordiv(flat, size)
        env[loop.var] = quotient if number == 0 else quotient - floordiv(flat, size * loop.extent) * loop.extent
        size = size * loop.extent
    return env


def _flat(kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], threads: int) -> Launch:
    """A thread an iteration."""
    total = product(loop.extent for loop in loops)
    if total.const == 1:
        threads = 1
    blocks, block, thread = ceildiv(total, threads), symbol("$block"), symbol("$thread")
    flat = block * threads + thread
    inner = Moved(_place(loops, flat)).body(body)
    if total.const != 1:
        inner = (If(Test((total - 1 - flat,)), inner),)
    mapped = Grid("$block", blocks, (Threads("$thread", const(threads), inner, wait=False),))
    return Launch(replace(kernel, body=(mapped,), private=()), blocks, threads)


class _Rows:
    """A block a row: loops over the row are shared by the threads."""

    def __init__(self, kernel: Kernel, loops: Sequence[Loop], threads: int) -> None:
        self.kernel = kernel
        self.loops = loops
        self.threads = threads
        self.rows = product(loop.extent for loop in loops)
        self.shared: list[Buffer] = []
        self.fresh = 0
        self.fixed = Moved({loop.var: symbol(f"row{loop.var}") for loop in loops})

    def mapped(self, body: tuple[Stmt, ...]) -> Launch | None:
        """The launch; None where a loop over the row keeps its order."""
        inner: list[Stmt] = []
        for stmt in body:
            found = self.stmt(stmt)
            if found is None:
                return None
            inner += found
        block = symbol("$block")
        own = {buffer: (Buffer(buffer.name, buffer.dtype, buffer.size * self.rows, buffer.kind), block * buffer.size)
               for buffer in self.kernel.private}
        grid = Grid("$block", self.rows, Moved(_place(self.loops, block), own).body(tuple(inner)))
        outputs = tuple(own[buffer][0] if buffer in own else buffer for buffer in self.kernel.outputs)
        whole = replace(self.kernel, body=(grid,), outputs=outputs, private=())
        return Launch(whole, self.rows, self.threads, tuple(self.shared))

    def name(self) -> str:
        """A new name."""
        self.fresh += 1
        return f"$r{self.fresh}"

    def stmt(self, stmt: Stmt) -> list[Stmt] | None:
        """A statement that all threads of a row's block run together; None if they cannot."""
        match stmt:
            case Let() | Local() | LetIndex() | Assign():
                return [stmt]
            case Store():
                return [Threads(self.name(), const(1), (stmt,))]
            case Loop():
                totals, fixed = _totals(stmt), self.fixed.stmt(stmt)
                assert isinstance(fixed, Loop)
                if totals is None or not independent((fixed,)):
                    return None
                return self._shared_loop(stmt, totals)
        return None

    def _shared_loop(self, loop: Loop, totals: Mapping[str, Call]) -> list[Stmt]:
        """The loop with a thread for every ``threads``th round; totals are folded by thread, then over threads."""
        thread, step = symbol(self.name()), symbol(self.name())
        parts = {name: f"{self.name()}{name}" for name in totals}
        body: list[Stmt] = []
        for stmt in loop.body:
            if isinstance(stmt, Assign):
                call, part = totals[stmt.name], parts[stmt.name]
                body.append(Assign(part, replace(call, args=(Var(call.dtype, part), call.args[1]))))
            else:
                body.append(stmt)
        rounds = ceildiv(relu(loop.extent - thread), self.threads)
        inner = Moved({loop.var: thread + step * self.threads}).body(tuple(body))
        first = [Local(parts[name], Const(call.dtype, _identity(call))) for name, call in totals.items()]
        boards = {name: Buffer(f"shared{self.name()}", call.dtype, const(self.threads), "temp")
                  for name, call in totals.items()}
        self.shared += boards.values()
        last = [Store(boards[name], thread, Var(call.dtype, parts[name])) for name, call in totals.items()]
        out: list[Stmt] = [self._threads(thread, self.threads, (*first, Loop(_name(step), rounds, inner), *last))]
        width = self.threads // 2
        while width and totals:
            halves = tuple(Store(boards[name], thread, _joined(call, boards[name], thread, width))
                           for name, call in totals.items())
            out.append(self._threads(thread, width, halves))
            width //= 2
        for name, call in totals.items():
            total = Load(call.dtype, boards[name], const(0))
            out.append(Assign(name, replace(call, args=(Var(call.dtype, name), total))))
        return out

    def _threads(self, thread: Dim, count: int, body: tuple[Stmt, ...]) -> Threads:
        return Threads(_name(thread), const(count), body)


def _name(one: Dim) -> str:
    (name,) = one.symbols()
    return name


def _joined(call: Call, board: Buffer, thread: Dim, width: int) -> Call:
    return replace(call, args=(Load(call.dtype, board, thread), Load(call.dtype, board, thread + width)))


def _totals(loop: Loop) -> dict[str, Call] | None:
    """What a loop folds: for each local the fold as op(total, item), where any order gives the same; None if a local
    is changed in another way, or control flow is inside."""
    found: dict[str, Call] = {}
    for stmt in loop.body:
        if isinstance(stmt, Assign):
            call = _fold(stmt)
            if call is None or stmt.name in found:
                return None
            found[stmt.name] = call
        elif not isinstance(stmt, Let | LetIndex | Store):
            return None
    items = [call.args[1] for call in found.values()]
    values = [stmt.value for stmt in loop.body if isinstance(stmt, Let | LetIndex | Store)]
    reads = {expr.name for expr in expressions(tuple(Let("", each) for each in (*items, *values)))
             if isinstance(expr, Var)}
    return None if reads & found.keys() else found


def _fold(stmt: Assign) -> Call | None:
    call = stmt.value
    if not isinstance(call, Call) or len(call.args) != 2:
        return None
    exact = call.op in _ASSOCIATIVE or (not is_float(call.dtype) and call.op in ("add", "multiply", "xor"))
    if not exact and not (call.fast and call.op in ("add", "multiply")):
        return None
    one, two = call.args
    if isinstance(one, Var) and one.name == stmt.name:
        return call
    if isinstance(two, Var) and two.name == stmt.name:
        return replace(call, args=(two, one))
    return None


def _identity(call: Call) -> int | float | bool:
    """What a fold may start from without changing it."""
    dtype = call.dtype
    if dtype == "i1":
        return call.op in ("multiply", "and", "minimum")
    if call.op in ("add", "xor", "or"):
        return -0.0 if is_float(dtype) else 0
    if call.op == "multiply":
        return 1
    if is_float(dtype):
        return float("-inf") if call.op == "maximum" else float("inf")
    low, high = integer_range(dtype)
    return {"maximum": low, "minimum": high, "and": -1 if low < 0 else high}[call.op]


class Moved:
    """Statements with other indices, and buffers that lie elsewhere."""

    def __init__(self, env: Mapping[str, Dim], moved: Mapping[Buffer, tuple[Buffer, Dim]] | None = None) -> None:
        self.env = env
        self.moved = moved or {}
        self._exprs: dict[Expr, Expr] = {}

    def body(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The statements, changed."""
        return tuple(map(self.stmt, stmts))

    def stmt(self, stmt: Stmt) -> Stmt:
        """One statement, changed."""
        match stmt:
            case Loop():
                return replace(stmt, extent=self.dim(stmt.extent), body=self.body(stmt.body))
            case Store():
                buffer, index = self.element(stmt.buffer, stmt.index)
                return Store(buffer, index, self.expr(stmt.value))
            case Let() | Local() | Assign() | LetIndex():
                return replace(stmt, value=self.expr(stmt.value))
            case If():
                return If(self.expr(stmt.condition), self.body(stmt.then), self.body(stmt.other))
            case While():
                return While(self.expr(stmt.condition), self.body(stmt.body))
        return stmt

    def dim(self, dim: Dim) -> Dim:
        """A size or index, changed."""
        return dim.substitute(self.env) if not self.env.keys().isdisjoint(dim.symbols()) else dim

    def element(self, buffer: Buffer, index: Dim) -> tuple[Buffer, Dim]:
        """Where an element lies."""
        place = self.dim(index)
        if buffer not in self.moved:
            return buffer, place
        other, offset = self.moved[buffer]
        return other, place + self.dim(offset)

    def expr(self, expr: Expr) -> Expr:
        """An expression, changed; shared parts stay shared."""
        found = self._exprs.get(expr)
        if found is None:
            found = self._exprs[expr] = self._expr(expr)
        return found

    def _expr(self, expr: Expr) -> Expr:
        match expr:
            case Load():
                return Load(expr.dtype, *self.element(expr.buffer, expr.index))
            case Index():
                return Index(expr.dtype, self.dim(expr.dim))
            case Test():
                return Test(tuple(map(self.dim, expr.dims)))
            case Call():
                return replace(expr, args=tuple(map(self.expr, expr.args)))
            case Choose():
                return Choose(expr.dtype, self.expr(expr.condition), self.expr(expr.then), self.expr(expr.other))
            case Bind():
                return Bind(expr.dtype, expr.name, self.expr(expr.value), self.dim(expr.upper), self.expr(expr.body))
        return expr
