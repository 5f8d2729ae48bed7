"""Mapped kernels run on the CPU thread after thread, with an eye on who touches what: a race that running in order
cannot show is found from the accesses.

A launch becomes a Python function. Between two barriers of a block, no two threads may touch an element that one of
them writes; different blocks never may; a register belongs to one thread; an element of shared memory is written before
it is read; nothing lies outside of its buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egshape.dims import Dim, FloorDiv, Relu, Symbol
from egshape.ir.types import numpy_dtype
from egshape.ops import REGISTRY
from egshape.plan.ir.launch import WARP, Ahead, Grid, LaneFold, Launch, Mma, Threads
from egshape.plan.ir.loops import (
    Assign,
    Attend,
    Bind,
    Buffer,
    Call,
    Choose,
    Const,
    Contract,
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
)
from egshape.plan.ir.walk import statements

MANY = -2
"""Stands for more than one thread or block."""
EVERY = -1
"""The thread of what all threads of a block do together."""


class Race(AssertionError):
    """What two threads do to one element."""


@dataclass
class _Memory:
    """A buffer, its accesses, and how it is shared: globally, in a block or by no one."""

    buffer: Buffer
    data: np.ndarray
    scope: str
    writes: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    reads: dict[int, tuple[int, int, int]] = field(default_factory=dict)


class Machine:
    """Runs one launch. ``arrays``: the flat contents of global buffers, changed in place."""

    def __init__(self, arrays: Mapping[Buffer, np.ndarray], launch: Launch | None = None) -> None:
        self.memories: dict[Buffer, _Memory] = {b: _Memory(b, a, "global") for b, a in arrays.items()}
        self.launch = launch
        for buffer in launch.shared if launch else ():
            scope = "thread" if launch and buffer in launch.registers else "block"
            room = np.zeros(buffer.size.const or 0, numpy_dtype(buffer.dtype))
            self.memories[buffer] = _Memory(buffer, room, scope)
        self.threads = launch.threads if launch is not None else 1
        self.block = self.phase = 0
        self.thread = EVERY
        self.meets = False
        """Whether the lanes of a warp meet in a product, and read the registers of one another."""
        self.ahead = False
        """Whether what is stored is on its way until the thread waits for it."""
        self.coming: set[tuple[Buffer, int]] = set()
        self.lanes = False
        """Whether threads fold registers over lanes: each register is touched by its own thread."""

    # -- what the function calls ----------------------------------------------------------------------------------

    def enter(self, block: int) -> None:
        """A new block begins."""
        self.block, self.thread = block, EVERY
        self.coming.clear()
        self.phase += 1
        for memory in self.memories.values():
            if memory.scope != "global":
                memory.writes.clear()
                memory.reads.clear()

    def at(self, thread: int) -> None:
        """A thread begins."""
        self.thread = thread

    def leave(self, wait: bool, landed: bool) -> None:
        """The threads of a loop are done."""
        self.thread = EVERY
        if landed:
            self.coming.clear()
        self.phase += wait

    def load(self, memory: _Memory, index: int) -> Any:
        """An element."""
        if memory.scope == "thread" and self.thread == EVERY:
            return self._of_all(memory, index)
        if memory.scope == "thread" and self.meets:
            return self._of_warp(memory, index)
        self._inside(memory, index)
        if (memory.buffer, index) in self.coming:
            raise Race(f"{memory.buffer.name}[{index}] is read while it is on its way")
        here = self.block, self.thread, self.phase
        last = memory.writes.get(index)
        if last is None and memory.scope != "global":
            raise Race(f"{memory.buffer.name}[{index}] is read before it is written")
        if last is not None:
            self._meet(memory, index, last, here, "writes", "reads")
        old = memory.reads.get(index)
        if old is None or (old[0] == here[0] and old[2] < here[2]):
            memory.reads[index] = here
        else:
            block = old[0] if old[0] == here[0] else MANY
            memory.reads[index] = block, old[1] if old[1] == here[1] else MANY, here[2]
        return memory.data[index]

    def _of_warp(self, memory: _Memory, index: int) -> Any:
        """A register of a lane of the warp."""
        reader, owner = self.thread, index // (len(memory.data) // self.threads)
        if owner // WARP != reader // WARP:
            raise Race(f"thread {reader} reads {memory.buffer.name}[{index}], a register of another warp")
        self.thread, self.meets = owner, False
        found = self.load(memory, index)
        self.thread, self.meets = reader, True
        return found

    def _of_all(self, memory: _Memory, index: int) -> Any:
        """A register that all threads read: their own, or in a fold over lanes that of its owner."""
        count = len(memory.data) // self.threads
        if self.lanes:
            self.thread = index // count
            found = self.load(memory, index)
            self.thread = EVERY
            return found
        values = [memory.data[thread * count + index] for thread in range(self.threads)]
        if not 0 <= index < count or any(thread * count + index not in memory.writes for thread in range(self.threads)):
            raise Race(f"{memory.buffer.name}[{index}] is no register that each thread has written")
        if len({str(value) for value in values}) > 1:
            raise Race(f"all threads read {memory.buffer.name}[{index}], which differs between them")
        return values[0]

    def store(self, memory: _Memory, index: int, value: Any) -> None:
        """Write an element."""
        if self.lanes:
            self.thread = index // (len(memory.data) // self.threads)
            self._store(memory, index, value)
            self.thread = EVERY
        else:
            self._store(memory, index, value)

    def _store(self, memory: _Memory, index: int, value: Any) -> None:
        self._inside(memory, index)
        if self.launch is not None and self.launch.over and memory.scope == "block":
            self._overwrite(memory)
        here = self.block, self.thread, self.phase
        if self.thread == EVERY and self.launch is not None:
            raise Race(f"all threads write {memory.buffer.name}[{index}]")
        for old, verb in ((memory.writes.get(index), "writes"), (memory.reads.get(index), "reads")):
            if old is not None:
                self._meet(memory, index, old, here, verb, "writes")
        if (memory.buffer, index) in self.coming:
            raise Race(f"{memory.buffer.name}[{index}] is written while it is on its way")
        if self.ahead:
            self.coming.add((memory.buffer, index))
        memory.writes[index] = here
        memory.data[index] = value

    def _overwrite(self, memory: _Memory) -> None:
        """What lies in the same place is lost."""
        assert self.launch is not None
        over = memory.buffer in self.launch.over
        for other in self.memories.values():
            if other.scope == "block" and (other.buffer in self.launch.over) != over and (other.writes or other.reads):
                if any(buffer is other.buffer for buffer, _ in self.coming):
                    raise Race(f"{memory.buffer.name} is written where {other.buffer.name} lies, on its way")
                if any(phase == self.phase for *_, phase in (*other.writes.values(), *other.reads.values())):
                    raise Race(
                        f"{memory.buffer.name} is written where {other.buffer.name} lies, which was touched "
                        "with no barrier between"
                    )
                other.writes.clear()
                other.reads.clear()

    def _inside(self, memory: _Memory, index: int) -> None:
        if not 0 <= index < len(memory.data):
            raise Race(f"{memory.buffer.name}[{index}] lies outside of its {len(memory.data)} elements")

    def _meet(
        self, memory: _Memory, index: int, old: tuple[int, int, int], here: tuple[int, int, int], one: str, two: str
    ) -> None:
        if self.launch is None:
            return
        at_once = old[2] == here[2] or memory.scope == "thread"
        if old[0] != here[0] or (at_once and old[1] != here[1]):
            raise Race(
                f"thread {old[1]} of block {old[0]} {one} {memory.buffer.name}[{index}], which thread {here[1]} "
                f"of block {here[0]} {two} with no barrier between"
            )

    def run(self, body: Sequence[Stmt], sizes: Mapping[str, int]) -> None:
        """Run statements."""
        _Python(self, sizes).function(body)()


def check_launch(launch: Launch, arrays: Mapping[Buffer, np.ndarray], sizes: Mapping[str, int]) -> Machine:
    """Run a launch; the machine knows who has touched what. Raises Race."""
    _static(launch.kernel.body, launch.threads)
    machine = Machine(arrays, launch)
    machine.run(launch.kernel.body, sizes)
    return machine


def _static(body: Sequence[Stmt], threads: int, inside: bool = False) -> None:
    """Barriers are met by all threads, and a thread changes only locals of its own."""
    for stmt in body:
        if isinstance(stmt, Threads):
            if inside or stmt.extent.const is None or stmt.extent.const > threads:
                raise Race(f"{stmt.var} are no threads of a block of {threads}")
            if isinstance(stmt, Mma) and stmt.extent.const != threads:
                raise Race(f"the product {stmt.var} is not of all {threads} threads of a block")
            own = {each.name for each in statements(stmt.body) if isinstance(each, Local)}
            changed = {each.name for each in statements(stmt.body) if isinstance(each, Assign)}
            if changed - own:
                raise Race(f"each thread changes {sorted(changed - own)}, which all have")
            _static(stmt.body, threads, True)
        elif isinstance(stmt, LaneFold):
            if inside or stmt.count * threads != (stmt.states[0].size.const or 0):
                raise Race(f"the fold over lanes {stmt.var} is not of all threads of a block of {threads}")
        elif isinstance(stmt, If):
            _static(stmt.then, threads, inside)
            _static(stmt.other, threads, inside)
        elif isinstance(stmt, Loop | While):
            _static(stmt.body, threads, inside)


class _Python:
    """Statements as a Python function."""

    def __init__(self, machine: Machine, sizes: Mapping[str, int]) -> None:
        self.machine = machine
        self.names: dict[str, str] = {}
        self.globals: dict[str, Any] = {
            "M": machine,
            "floordiv": _floordiv,
            "bound": lambda x, top: max(0, min(int(x), top)),
            "int": int,
            "np": np,
            "F": np.float32,
        }
        self.lines: list[str] = []
        for name, size in sizes.items():
            self.globals[self.named(name)] = size

    def function(self, body: Sequence[Stmt]) -> Callable[[], None]:
        """The function."""
        self.body(body, 1)
        source = "def run():\n" + "\n".join(self.lines or ["  pass"])
        exec(source, self.globals)
        with np.errstate(all="ignore"):
            found: Callable[[], None] = self.globals["run"]
        return lambda: _quietly(found)

    def named(self, name: str) -> str:
        """A Python name."""
        return self.names.setdefault(name, f"n{len(self.names)}")

    def kept(self, prefix: str, value: Any) -> str:
        """A name for an object."""
        name = f"{prefix}{len(self.globals)}"
        self.globals[name] = value
        return name

    def memory(self, buffer: Buffer) -> str:
        """The name of a buffer's memory."""
        name = f"b{id(buffer)}"
        self.globals[name] = self.machine.memories[buffer]
        return name

    def line(self, depth: int, text: str) -> None:
        """Add a line."""
        self.lines.append("  " * depth + text)

    def body(self, body: Sequence[Stmt], depth: int) -> None:
        """Add statements."""
        for stmt in body:
            self.stmt(stmt, depth)
        if not body:
            self.line(depth, "pass")

    def stmt(self, stmt: Stmt, depth: int) -> None:
        """Add one statement."""
        match stmt:
            case LaneFold():
                self.line(depth, "M.lanes = True")
                self.line(depth, f"for {self.named(stmt.var)} in range({self.dim(stmt.extent)}):")
                self.body(stmt.body, depth + 1)
                self.line(depth, "M.lanes = False")
            case Loop():
                if isinstance(stmt, Mma | Ahead):
                    self.line(depth, f"M.{'meets' if isinstance(stmt, Mma) else 'ahead'} = True")
                self.line(depth, f"for {self.named(stmt.var)} in range({self.dim(stmt.extent)}):")
                if isinstance(stmt, Grid | Threads):
                    call = "enter" if isinstance(stmt, Grid) else "at"
                    self.line(depth + 1, f"M.{call}({self.named(stmt.var)})")
                self.body(stmt.body, depth + 1)
                if isinstance(stmt, Threads):
                    self.line(depth, f"M.leave({stmt.wait}, {stmt.landed})")
                if isinstance(stmt, Mma | Ahead):
                    self.line(depth, f"M.{'meets' if isinstance(stmt, Mma) else 'ahead'} = False")
            case Store():
                self.line(
                    depth, f"M.store({self.memory(stmt.buffer)}, {self.dim(stmt.index)}, {self.expr(stmt.value)})"
                )
            case Let() | Local() | Assign():
                self.line(depth, f"{self.named(stmt.name)} = {self.expr(stmt.value)}")
            case LetIndex():
                self.line(depth, f"{self.named(stmt.name)} = int({self.expr(stmt.value)})")
            case If():
                self.line(depth, f"if {self.expr(stmt.condition)}:")
                self.body(stmt.then, depth + 1)
                self.line(depth, "else:")
                self.body(stmt.other, depth + 1)
            case While():
                self.line(depth, f"while {self.expr(stmt.condition)}:")
                self.body(stmt.body, depth + 1)
            case Contract():
                for level, (name, size) in enumerate(((stmt.row, stmt.m), (stmt.column, stmt.n))):
                    self.line(depth + level, f"for {self.named(name)} in range({self.dim(size)}):")
                value = Var(stmt.dtype, stmt.value)
                more = Call(stmt.dtype, "add", (value, Call(stmt.dtype, "multiply", (stmt.left, stmt.right))))
                self.line(depth + 2, f"{self.named(stmt.value)} = {self.expr(Const(stmt.dtype, 0))}")
                self.line(depth + 2, f"for {self.named(stmt.deep)} in range({self.dim(stmt.k)}):")
                self.line(depth + 3, f"{self.named(stmt.value)} = {self.expr(more)}")
                self.body(stmt.body, depth + 2)
            case Attend():
                self.attend(stmt, depth)
            case _:
                raise NotImplementedError(type(stmt).__name__)

    def attend(self, stmt: Attend, depth: int) -> None:
        """All scores of a row, and what is made of them."""
        one, scores, weights, base = (
            self.named(f"{stmt.value}.{each}") for each in ("one", "scores", "weights", "base")
        )
        score, peak, total, value = map(self.named, (stmt.score, stmt.peak, stmt.total, stmt.value))
        column = f"for {self.named(stmt.column)} in range({self.dim(stmt.n)}):"
        self.line(depth, f"for {self.named(stmt.row)} in range({self.dim(stmt.m)}):")
        self.line(depth + 1, f"{scores} = []")
        self.line(depth + 1, column)
        self.line(
            depth + 2,
            f"{score} = F(sum((float({self.expr(stmt.left)}) * float({self.expr(stmt.right)}) "
            f"for {self.named(stmt.deep)} in range({self.dim(stmt.k)})), 0.0))",
        )
        self.line(depth + 2, f"{scores}.append(F({self.expr(stmt.scores)}))")
        self.line(depth + 1, f"{peak} = F(np.max(np.array([float('-inf'), *{scores}])))")
        self.line(depth + 1, f"{base} = F(0) if {peak} == float('-inf') else {peak}")
        self.line(depth + 1, f"{weights} = [np.exp({one} - {base}) for {one} in {scores}]")
        self.line(depth + 1, f"{total} = F(sum({weights}, 0.0))")
        self.line(depth + 1, f"for {self.named(stmt.place)} in range({self.dim(stmt.width)}):")
        self.line(depth + 2, f"{value} = 0.0")
        self.line(depth + 2, column)
        self.line(
            depth + 3, f"{value} += float({weights}[{self.named(stmt.column)}]) * float({self.expr(stmt.values)})"
        )
        self.line(
            depth + 2,
            f"{value} = F({value}) * {self.expr(stmt.factor)} if {self.expr(stmt.live)} else "
            f"F({value} if {peak} == float('-inf') else 0)",
        )
        self.body(stmt.body, depth + 2)

    def expr(self, expr: Expr) -> str:
        """An expression."""
        match expr:
            case Const():
                return self.kept("c", numpy_dtype(expr.dtype).type(expr.value))
            case Var():
                return self.named(expr.name)
            case Load():
                return f"M.load({self.memory(expr.buffer)}, {self.dim(expr.index)})"
            case Index():
                kind = numpy_dtype(expr.dtype)
                name = self.kept("k", lambda x: np.asarray(x).astype(kind)[()])
                return f"{name}({self.dim(expr.dim)})"
            case Test():
                return "(" + (" and ".join(f"{self.dim(dim)} >= 0" for dim in expr.dims) or "True") + ")"
            case Call():
                name = self.kept("f", _op(expr))
                return f"{name}({', '.join(map(self.expr, expr.args))})"
            case Choose():
                return f"({self.expr(expr.then)} if {self.expr(expr.condition)} else {self.expr(expr.other)})"
            case Bind():
                value = f"bound({self.expr(expr.value)}, {self.dim(expr.upper)})"
                return f"(lambda {self.named(expr.name)}: {self.expr(expr.body)})({value})"
        raise NotImplementedError(type(expr).__name__)

    def dim(self, dim: Dim) -> str:
        """A size or index."""
        terms = []
        for mono, factor in dim.terms:
            parts = [self.atom(atom) for atom, power in mono for _ in range(power)]
            terms.append(" * ".join([*parts, str(factor)] if factor != 1 or not parts else parts))
        return "(" + (" + ".join(terms) or "0") + ")"

    def atom(self, atom: object) -> str:
        """A factor."""
        if isinstance(atom, Symbol):
            return self.named(atom.name)
        if isinstance(atom, Relu):
            return f"max(0, {self.dim(atom.arg)})"
        assert isinstance(atom, FloorDiv)
        return f"floordiv({self.dim(atom.num)}, {self.dim(atom.den)})"


def _floordiv(one: int, two: int) -> int:
    return one // (two or 1)


_PLANNED: dict[str, Callable[..., Any]] = {"fma": lambda one, two, more: one * two + more, "exp2": np.exp2}
"""Ops that only a planner writes."""


def _op(call: Call) -> Callable[..., Any]:
    attrs, kind = dict(call.attrs), numpy_dtype(call.dtype)
    reference = _PLANNED.get(call.op) or REGISTRY[call.op].reference

    def run(*args: Any) -> Any:
        return np.asarray(reference(*map(np.asarray, args), **attrs)).astype(kind)[()]

    return run


def _quietly(run: Callable[[], None]) -> None:
    with np.errstate(all="ignore"):
        run()


def contents(buffers: Sequence[Buffer], sizes: Mapping[str, int], seed: int = 0) -> dict[Buffer, np.ndarray]:
    """Something in each buffer."""
    return dict(_contents(buffers, sizes, np.random.default_rng(seed)))


def _contents(
    buffers: Sequence[Buffer], sizes: Mapping[str, int], rng: np.random.Generator
) -> Iterator[tuple[Buffer, np.ndarray]]:
    for buffer in buffers:
        if buffer.data is not None:
            yield buffer, buffer.data.reshape(-1).copy()
            continue
        count = buffer.size.evaluate(sizes)
        values = rng.normal(size=count) if buffer.dtype[0] in "fb" else rng.integers(0, 3, count)
        yield buffer, values.astype(numpy_dtype(buffer.dtype))
