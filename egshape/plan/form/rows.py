"""Row kernels: reductions over the last axes and what lies between and behind them, stitched into one loop over rows.

A row kernel holds per-row results in locals, and values of a whole row that several loops need in a scratch row that
stays in the cache: softmax, layernorm and the like go once over memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, product, symbol
from egshape.ir.graph import Block, Op, Value
from egshape.plan.analysis.elements import ZERO, Indices, is_elementwise
from egshape.plan.form.collapse import collapsed
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Assign, Buffer, Expr, Let, Load, Local, Loop, Stmt, Store, Var, linear, name_of
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import buffers, expressions, statements

LONGEST = 256
"""Ops in one row kernel."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """Ops of one row kernel: values have the shape ``rows``, rows and ones, or rows and ``tail``."""

    ops: tuple[Op, ...]
    rows: tuple[Dim, ...]
    tail: tuple[Dim, ...]
    outside: frozenset[Value]
    """Results that are read elsewhere."""

    @property
    def length(self) -> Dim:
        """Elements of a row."""
        return product(self.tail)

    def emit(self, p: Steps) -> None:
        """Add the kernel."""
        emit(p, self)


def is_row_reduce(op: Op) -> bool:
    """A reduction of one operand over its last axes."""
    if op.name != "reduce" or len(op.operands) != 2 or op.operands[0].type.shape is None:
        return False
    if op.result.type.dtype != op.operands[0].type.dtype or op.operands[1].type.dtype != op.result.type.dtype:
        return False
    rank, dims = op.operands[0].type.rank, op.attrs["dims"]
    return bool(dims) and sorted(dims) == list(range(rank - len(dims), rank)) and not op.regions[0].captures()


def find(
    block: Block, start: int, taken: Collection[Op], waiting: Collection[Value], widening: Collection[Op] = ()
) -> Cluster | None:
    """The row kernel that begins with op ``start`` of the block; None if nothing is gained by one.

    taken: ops of other row kernels. waiting: results of those that are not written yet. widening: ops that belong to
    the products which read them."""
    first = block.ops[start]
    value = first.operands[0] if is_row_reduce(first) else first.results[0]
    shape = value.type.dims
    folded = len(first.attrs["dims"]) if is_row_reduce(first) else _folded(block, start, value)
    rows, tail = shape[: len(shape) - folded], shape[len(shape) - folded :]
    if not shape or product(tail).const == 1:
        return None
    members, known = [first], set(first.results)
    for op in block.ops[start + 1 :]:
        reads = any(x in known for x in op.operands) or any(x in known for r in op.regions for x in r.captures())
        if not reads and not (is_row_reduce(first) and is_row_reduce(op) and op.operands[0] is value):
            continue
        if len(members) == LONGEST or op in taken or op in widening or not joins(op, rows, tail):
            break
        if any(x in waiting for x in op.operands):
            break
        members.append(op)
        known.update(op.results)
    if not any(is_row_reduce(op) for op in members) or len(members) < 2:
        return None
    if not any(_shape(value) == shape for op in members for value in op.results):
        return None
    return Cluster(tuple(members), rows, tail, _outside(block, members))


def _shape(value: Value) -> tuple[Dim, ...] | None:
    return value.type.shape


def _folded(block: Block, start: int, value: Value) -> int:
    """How many axes the next reduction of values shaped like this one folds."""
    for op in block.ops[start + 1 : start + LONGEST]:
        if is_row_reduce(op) and op.operands[0].type.shape == value.type.shape:
            return len(op.attrs["dims"])
    return 1


def joins(op: Op, rows: tuple[Dim, ...], tail: tuple[Dim, ...]) -> bool:
    """Whether an op works on rows shaped ``tail``: on their elements, from one to an element of each row, or back."""
    if len(op.results) != 1:
        return False
    shape = op.result.type.shape
    if is_row_reduce(op):
        return op.operands[0].type.shape == (*rows, *tail) and len(op.attrs["dims"]) == len(tail)
    if shape is None or not (shape == (*rows, *tail) or _narrow(shape, rows)):
        return False
    if is_elementwise(op):
        return True
    small = op.operands[0].type.dims if op.operands else ()
    if op.name == "reshape":
        return _narrow(small, rows) and _narrow(shape, rows)
    return (
        op.name == "broadcast_in_dim" and _narrow(small, rows) and tuple(op.attrs["dims"]) == tuple(range(len(small)))
    )


def _narrow(shape: tuple[Dim, ...], rows: tuple[Dim, ...]) -> bool:
    """Whether a value has one element in a row."""
    return shape[: len(rows)] == rows and all(size.const == 1 for size in shape[len(rows) :])


def _outside(block: Block, members: Sequence[Op]) -> frozenset[Value]:
    """What is read elsewhere; of a movement that is read elsewhere it is its operand."""
    inside, made = set(members), {op.result: op for op in members}
    read = set(block.results) | {each.value for each in block.symbols}
    for op in block.ops:
        if op not in inside:
            read.update(op.operands)
            read.update(value for region in op.regions for value in region.captures())
    found = set()
    for one in read & made.keys():
        value = one
        while not (is_elementwise(made[value]) or is_row_reduce(made[value])) and made[value].operands[0] in made:
            value = made[value].operands[0]
        found.add(value)
    return frozenset(found)


class _Row:
    """Writes the body of the loop over rows."""

    def __init__(self, p: Steps, cluster: Cluster, at: Indices) -> None:
        self.p, self.cluster, self.at = p, cluster, at
        self.body: list[Stmt] = []
        self.pending: list[tuple[Value, Buffer]] = []
        self.written: list[Buffer] = []

    def op(self, op: Op) -> None:
        """Add what an op needs; a value of a whole row waits for the next loop, or is read through."""
        p, value = self.p, op.result
        full = value.type.shape == (*self.cluster.rows, *self.cluster.tail)
        if is_row_reduce(op):
            self.reduce(op)
        elif not is_elementwise(op):
            return
        elif full:
            uses = sum(value in other.operands for other in self.cluster.ops)
            if value in self.cluster.outside:
                self.pending.append((value, p.new_buffer(value)))
            elif (uses > 1 and p.cost(value)[0] > 2) or p.cost(value)[1] > 40:
                self.pending.append((value, p.scratch(value.name, value.type.dtype, self.cluster.length)))
            else:
                return
            p.costs[value] = 0, 0
        else:
            index = self.index(value)
            self.keep(value, index, p.read(value, index))
            p.costs[value] = 0, 0

    def index(self, value: Value) -> Indices:
        """The indices of a value that has one element in a row."""
        return (*self.at, *(ZERO,) * (value.type.rank - len(self.at)))

    def keep(self, value: Value, index: Indices, expr: Expr) -> None:
        """Hold a row's element in a local, and write it where it is read elsewhere."""
        name = self.p.name("v")
        self.body.append(Let(name, expr))
        local = Var(value.type.dtype, name)
        self.p.locals[value, index] = local
        if value in self.cluster.outside:
            buffer = self.p.new_buffer(value)
            self.body.append(Store(buffer, linear(index, value.type.dims), local))
            self.done(value, buffer)

    def done(self, value: Value, buffer: Buffer) -> None:
        """The value lies in the buffer from now on."""
        self.p.places[value] = buffer
        self.written.append(buffer)

    def reduce(self, op: Op) -> None:
        """One loop that stores what waits and folds."""
        p, value = self.p, op.result
        total = Var(value.type.dtype, p.name("v"))
        self.body.append(Local(total.name, p.read(op.operands[1], ())))
        j = self.element()
        stores, after = self.stores(j)
        item = p.read(op.operands[0], (*self.at, *j))
        (new,) = p.scalars(op, op.regions[0], [total, item], fast=True)
        self.loop(j, [*stores, Assign(total.name, new)])
        self.settle(after)
        self.keep(value, self.at, total)
        p.costs[value] = 0, 0

    def element(self) -> Indices:
        """New indices of an element of the row."""
        return tuple(ZERO if self.p.known.is_one(size) else symbol(self.p.name("i")) for size in self.cluster.tail)

    def stores(self, j: Indices) -> tuple[list[Stmt], list[tuple[Value, Buffer]]]:
        """Statements of a loop over j that compute and store what waits."""
        p, after = self.p, self.pending
        body: list[Stmt] = []
        self.pending = []
        for value, buffer in after:
            index = (*self.at, *j)
            name = p.name("v")
            body.append(Let(name, p.read(value, index)))
            local = Var(value.type.dtype, name)
            p.locals[value, index] = local
            inside = value not in self.cluster.outside
            place = linear(j, self.cluster.tail) if inside else linear(index, value.type.dims)
            body.append(Store(buffer, place, local))
        return body, after

    def settle(self, stored: Sequence[tuple[Value, Buffer]]) -> None:
        """Later loops read what was stored."""
        for value, buffer in stored:
            if value in self.cluster.outside:
                self.done(value, buffer)
            else:
                self.p.scratch_rows[value] = buffer
                self.written.append(buffer)

    def loop(self, j: Indices, body: Sequence[Stmt]) -> None:
        """A loop over the row."""
        for index, size in reversed(list(zip(j, self.cluster.tail, strict=True))):
            if index is not ZERO:
                body = (Loop(name_of(index), size, tuple(body)),)
        self.body += body

    def finish(self) -> None:
        """Store what still waits."""
        if self.pending:
            j = self.element()
            stores, after = self.stores(j)
            self.loop(j, stores)
            self.settle(after)


def emit(p: Steps, cluster: Cluster) -> None:
    """Add the kernel of a cluster."""
    p.start()
    for op in cluster.ops:
        if is_row_reduce(op):
            p.costs[op.result] = 0, 0
    at, wrap = p.nest(cluster.rows)
    p.scratch_axes = len(cluster.tail)
    row = _Row(p, cluster, at)
    for op in cluster.ops:
        row.op(op)
    row.finish()
    body, private = collapsed(row.body), tuple(p.scratch_rows.values())
    for scratch in private:
        body = _in_output(body, scratch, at, cluster)
    left = set(buffers(body))
    p.run(
        "row",
        wrap(body),
        tuple(buffer for buffer in row.written if buffer in left),
        tuple(buffer for buffer in private if buffer in left),
    )
    p.scratch_rows.clear()


def _in_output(body: tuple[Stmt, ...], scratch: Buffer, at: Indices, cluster: Cluster) -> tuple[Stmt, ...]:
    """The row's statements with a scratch row in the row of an output that the last loop which reads it writes
    element by element: the output's memory comes to the cache early, and one row less lies there."""
    first = linear(at, cluster.rows) * cluster.length
    reading = [stmt for stmt in body if _loads(stmt, scratch)]
    if not reading:
        return _without(body, scratch)
    if not isinstance(reading[-1], Loop):
        return body
    last = reading[-1]
    for stmt in last.body:
        if isinstance(stmt, Store) and stmt.buffer.dtype == scratch.dtype and stmt.buffer is not scratch:
            alone = sum(isinstance(each, Store) and each.buffer is stmt.buffer for each in statements(body)) == 1
            behind = last.body[list(last.body).index(stmt) + 1 :]
            if (
                alone
                and stmt.index is first + symbol(last.var)
                and not any(_loads(each, scratch) for each in behind)
                and not any(_loads(each, stmt.buffer) for each in body)
            ):
                return Moved({}, {scratch: (stmt.buffer, first)}).body(body)
    return body


def _without(body: tuple[Stmt, ...], scratch: Buffer) -> tuple[Stmt, ...]:
    """The row's statements without the stores to a scratch row that nothing reads: one loop computes and uses it."""
    kept = (stmt for stmt in body if not isinstance(stmt, Store) or stmt.buffer is not scratch)
    return tuple(replace(stmt, body=_without(stmt.body, scratch)) if isinstance(stmt, Loop) else stmt for stmt in kept)


def _loads(stmt: Stmt, buffer: Buffer) -> bool:
    return any(isinstance(expr, Load) and expr.buffer is buffer for expr in expressions((stmt,)))
