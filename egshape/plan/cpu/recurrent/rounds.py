"""The rounds of a loop over time steps for some rows of the batch: products and elementwise work, one round after the
other, with the states in scratch memory of these rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from egshape.dims import Dim, const, product, symbol
from egshape.ir.graph import Op, Value
from egshape.plan.analysis.elements import ZERO, Indices, is_elementwise
from egshape.plan.cpu import contraction
from egshape.plan.cpu.packing import Right, packed
from egshape.plan.cpu.recurrent.loop import Loop as Recurrence
from egshape.plan.cpu.recurrent.order import Order
from egshape.plan.form import epilogue
from egshape.plan.form.dots import zero
from egshape.plan.form.matrices import ONE, axes_of, loops, matrix, operand
from egshape.plan.form.movement import READERS
from egshape.plan.form.reader import Frame
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Buffer,
    Const,
    Expr,
    If,
    Index,
    Let,
    LetIndex,
    Load,
    Matrix,
    Stmt,
    Store,
    Test,
    Var,
    linear,
)
from egshape.plan.ir.packs import FEW_ROWS, pack_columns
from egshape.plan.ir.walk import dims, expressions


@dataclass(frozen=True)
class Part:
    """Some rows of the batch: ``many``, of which number r is number ``first`` + r * ``apart`` of all, in their order
    where they have one. ``most``: at least so many."""

    first: Dim
    apart: Dim
    many: Dim
    most: Dim
    order: Order | None

    def live(self, count: Dim) -> Dim:
        """How many of them are among the first ``count`` of all rows."""
        return (count - self.first + self.apart - 1) // self.apart


@dataclass(frozen=True)
class Rows(Frame):
    """A value with a row for each of a part's: row r at ``begin`` + r * ``apart`` rows. ``names``: which r a row of the
    batch is."""

    names: dict[Dim, Dim] = field(default_factory=dict)
    begin: Dim = ZERO
    apart: Dim = ONE

    def place(self, at: Indices) -> Dim:
        """Where an element lies."""
        return linear((self.begin + self.names[at[0]] * self.apart, *at[1:]), self.sizes)


class Rounds:
    """Writes the statements of a loop. ``packs``: the right sides of its products; ``inputs``: what its feeds read,
    where steps lie one after the other; ``results``: the buffers of states and stacks that are read."""

    def __init__(
        self,
        p: Steps,
        loop: Recurrence,
        part: Part,
        packs: dict[Op, Right],
        inputs: dict[Value, Buffer],
        results: dict[int, Buffer],
    ) -> None:
        self.p, self.loop, self.part = p, loop, part
        self.packs, self.inputs, self.results = packs, inputs, results
        self.names: dict[Dim, Dim] = {ZERO: ZERO} if p.known.is_one(loop.batch) else {}
        self.private: list[Buffer] = []
        self.held = {k: self._scratch(loop.args[k]) for k in loop.states}

    def statements(self) -> tuple[Stmt, ...]:
        """All rounds for the part's rows."""
        p, loop, order = self.p, self.loop, self.part.order
        u = symbol(p.name("i"))
        longest = loop.count if order is None else order.longest
        step = u if not loop.turned else loop.count - longest + u
        time = longest - 1 - u if loop.turned else u
        p.locals[loop.args[loop.step], ()] = Index(loop.args[loop.step].type.dtype, step)
        first, last = self._begin(), self._end()
        head: list[Stmt] = []
        many = self.part.many
        if order is not None:
            live, before, many = (symbol(p.name("g")) for _ in range(3))
            head = [
                _let(live, Load("i64", order.live, time)),
                _let(before, Load("i64", order.before, time)),
                _let(many, Index("i64", self.part.live(live))),
            ]
            for value, buffer in self.inputs.items():
                begin = before + self.part.first
                p.frames[value] = Rows(buffer, value.type.dims, (), self.names, begin, self.part.apart)
        body = [*head, *self._products(many, u), *self._update(many, time)]
        for value in (*self.inputs, *(loop.args[k] for k in loop.states)):
            p.frames.pop(value, None)
        return (*first, *loops([(u, longest)], body), *last)

    # -- rows -----------------------------------------------------------------------------------------------------

    def _scratch(self, value: Value) -> Buffer:
        """Memory for the part's rows of a value, from where it is read from now on."""
        sizes = self.part.most, *value.type.dims[1:]
        buffer = self.p.scratch(value.name, value.type.dtype, product(sizes))
        self.private.append(buffer)
        self.p.frames[value] = Rows(buffer, sizes, (), self.names)
        return buffer

    def _row(self, r: Dim) -> tuple[Dim, list[Stmt]]:
        """The row of the batch that row r is, and what says so."""
        part, p = self.part, self.p
        place = part.first + r * part.apart
        row, told = place, list[Stmt]()
        if part.order is not None:
            row = symbol(p.name("g"))
            told.append(_let(row, Load("i64", part.order.rows, place)))
        self.names[row] = r
        if self.loop.ends is not None and part.order is not None:
            p.locals[self.loop.ends.live, (row,)] = Const("i1", True)
        return row, told

    def _each(self, many: Dim, shape: Sequence[Dim]) -> tuple[Dim, Indices, _Nest]:
        """A nest over rows and the other axes of a value: the row's number, the element's indices, and the nest."""
        r = symbol(self.p.name("i"))
        row, told = self._row(r)
        columns = tuple(symbol(self.p.name("i")) for _ in shape)
        return r, (row, *columns), _Nest(r, many, told, tuple(zip(columns, shape, strict=True)))

    def _begin(self) -> list[Stmt]:
        """States before the first round."""
        found: list[Stmt] = []
        for k in self.loop.states:
            init, buffer = self.loop.op.operands[k], self.held[k]
            r, at, nest = self._each(self.part.many, init.type.dims[1:])
            place = linear((r, *at[1:]), init.type.dims)
            found += nest.around([Store(buffer, place, self.p.read(init, at))])
        return found

    def _end(self) -> list[Stmt]:
        """States behind the last round."""
        found: list[Stmt] = []
        for k in self.loop.states:
            if k in self.results:
                shape = self.loop.args[k].type.dims
                _, at, nest = self._each(self.part.many, shape[1:])
                state = self.p.read(self.loop.args[k], at)
                found += nest.around([Store(self.results[k], linear(at, shape), state)])
        return found

    # -- products -------------------------------------------------------------------------------------------------

    def _products(self, many: Dim, number: Dim) -> list[Stmt]:
        """The products of a round with what is computed on their elements, each where its last op stands."""
        found: list[Stmt] = []
        body = self.loop.op.regions[1]
        uses = epilogue.readers(body)
        ends: dict[Op, epilogue.Cluster] = {}
        taken: set[Op] = set()
        for at, op in enumerate(body.ops):
            if op in self.packs:
                cluster = epilogue.find(body, at, uses, taken, ())
                cluster = replace(cluster, ops=cluster.ops[: cluster.elementwise])
                taken.update(cluster.ops)
                ends[cluster.ops[-1]] = cluster
            if op in ends:
                found += self._product(ends[op], many, number)
        return found

    def _product(self, cluster: epilogue.Cluster, many: Dim, number: Dim) -> list[Stmt]:
        """A product and its epilogue, in the round ``number``."""
        p, side = self.p, self.packs[cluster.ops[0]]
        left, before = self._left(cluster.ops[0].operands[0], many)
        counted, i, j, value = side.columns(p), symbol(p.name("i")), symbol(p.name("i")), p.name("v")
        panel, way = self._way(counted, side.count, number)
        row, told = self._row(i)
        at = row, panel * pack_columns(side.dtype) + j
        p.locals[cluster.ops[0].result, at] = Var(side.dtype, value)
        element = p.read(cluster.value, at)
        first = self._first(cluster, many)
        target = self._scratch(cluster.value)
        store = Store(target, p.frames[cluster.value].place(at), element)
        named = row.symbols() & {name for dim in dims((store,)) for name in dim.symbols()}
        made = side.product(panel, many, left, i, j, value, store)
        made = replace(made, body=(*told, store)) if told and named else made
        rounds = loops([(counted, side.count)], [*way, made])
        if first is None:
            return [*before, *rounds]
        alone = first[1].around([Store(target, p.frames[cluster.value].place(first[0]), first[2])])
        return [*before, If(Test((number - 1,)), rounds, tuple(alone))]

    def _way(self, counted: Dim, count: Dim, number: Dim) -> tuple[Dim, list[Stmt]]:
        """The panel that is the next one in the round ``number``, and what says so: rounds go through the panels in
        turn from the first and from the last one, so that those that a round ends with are still in the cache where
        all are too many."""
        if counted is ZERO:
            return ZERO, []
        panel = symbol(self.p.name("g"))
        return panel, [_let(panel, Index("i64", counted + number % 2 * (count - 1 - counted * 2)))]

    def _first(self, cluster: epilogue.Cluster, many: Dim) -> tuple[Indices, _Nest, Expr] | None:
        """What a product's epilogue gives in the first round, if the product is 0 there: that of a state
        that is 0 and of finite numbers."""
        p, op = self.p, cluster.ops[0]
        data = self.packs[op].buffer.data
        if op.operands[0] not in self.loop.blank or data is None or not np.isfinite(data).all():
            return None
        _, at, nest = self._each(many, op.result.type.dims[1:])
        p.locals[op.result, at] = zero(op.result.type.dtype)
        return at, nest, p.read(cluster.value, at)

    def _left(self, value: Value, many: Dim) -> tuple[Matrix, list[Stmt]]:
        """A left side where it lies, or what computes it."""
        p = self.p
        depth = value.type.dims[1]
        r, at, nest = self._each(many, (depth,))
        found = matrix(p.read(value, at), [], [(r, many)], [(at[1], depth)])
        if found is not None and r.symbols().isdisjoint(found.offset.symbols()) and not nest.names(found):
            return found, []
        element = p.read(value, at)
        buffer = self._scratch(value)
        store = Store(buffer, p.frames[value].place(at), element)
        return Matrix(buffer, ZERO, depth, ONE), nest.around([store])

    # -- the end of a round ---------------------------------------------------------------------------------------

    def _update(self, many: Dim, time: Dim) -> list[Stmt]:
        """New states and the rows of stacks: in place where no element of a state is read but for its own."""
        p, loop = self.p, self.loop
        stacks = [k for k in loop.stacks if k in self.results]
        values = [loop.results[k] for k in loop.states] + [loop.written(k) for k in stacks]
        shapes = [value.type.dims[1:] for value in values[: len(loop.states)]]
        shapes += [value.type.dims[2:] for value in values[len(loop.states) :]]
        if all(shape == shapes[0] for shape in shapes):
            r, at, nest = self._each(many, shapes[0])
            reads = self._reads(values, at)
            own = linear((r, *at[1:]), (ONE, *shapes[0]))
            states = set(self.held.values())
            others = [
                each
                for each in expressions(tuple(Let("", read) for read in reads))
                if isinstance(each, Load) and each.buffer in states and each.index is not own
            ]
            if not others:
                names = [p.name("v") for _ in reads]
                lets = [Let(name, read) for name, read in zip(names, reads, strict=True)]
                found = [Var(read.dtype, name) for name, read in zip(names, reads, strict=True)]
                targets = [(self.held[k], own) for k in loop.states]
                targets += [(self.results[k], linear((time, *at), loop.args[k].type.dims)) for k in stacks]
                stores = [Store(b, place, var) for (b, place), var in zip(targets, found, strict=True)]
                return nest.around([*lets, *stores])
        return self._update_apart(many, time, stacks)

    def _update_apart(self, many: Dim, time: Dim, stacks: Sequence[int]) -> list[Stmt]:
        """The same by way of memory of its own, which the states are taken from once all are there."""
        p, loop = self.p, self.loop
        found: list[Stmt] = []
        moves: list[Stmt] = []
        for k in stacks:
            _, at, nest = self._each(many, loop.args[k].type.dims[2:])
            (read,) = self._reads([loop.written(k)], at)
            found += nest.around([Store(self.results[k], linear((time, *at), loop.args[k].type.dims), read)])
        for k in loop.states:
            shape = loop.args[k].type.dims
            r, at, nest = self._each(many, shape[1:])
            (read,) = self._reads([loop.results[k]], at)
            saved = p.scratch(loop.args[k].name, read.dtype, self.held[k].size)
            self.private.append(saved)
            place = linear((r, *at[1:]), shape)
            found += nest.around([Store(saved, place, read)])
            moves += nest.around([Store(self.held[k], place, Load(read.dtype, saved, place))])
        return [*found, *moves]

    def _reads(self, values: Sequence[Value], at: Indices) -> list[Expr]:
        """Elements of states, and of rows that are written to stacks."""
        return [self.p.read(value, at if value.type.rank == len(at) else (ZERO, *at)) for value in values]


@dataclass(frozen=True)
class _Nest:
    """Loops over rows and columns; ``told``: what says which row it is."""

    row: Dim
    many: Dim
    told: list[Stmt]
    columns: tuple[tuple[Dim, Dim], ...]

    def around(self, body: Sequence[Stmt]) -> list[Stmt]:
        """The loops around statements."""
        return list(loops([(self.row, self.many)], [*self.told, *loops(self.columns, body)]))

    def names(self, found: Matrix) -> bool:
        """Whether a matrix hangs on which row it is."""
        bound = {stmt.name for stmt in self.told if isinstance(stmt, LetIndex)}
        return any(bound & dim.symbols() for dim in (found.offset, found.row, found.column))


def _let(name: Dim, value: Expr) -> LetIndex:
    (one,) = name.symbols()
    return LetIndex(one, value)


def register(p: Steps, loop: Recurrence) -> None:
    """Let values of a loop's body be read."""
    for op in loop.body:
        if op.name in READERS or is_elementwise(op):
            p.producers[op.result] = op


def rights(p: Steps, loop: Recurrence) -> dict[Op, Right]:
    """Add the kernels that pack the right sides of a loop's products: they serve all rounds."""
    found = {}
    for op in filter(contraction.is_product, loop.body):
        d = axes_of(p, op)
        right = operand(p, op, d, 1)
        (k,), (n,) = ([size for _, size in axes] for axes in (d.deep, d.columns))
        wide = Matrix(right.buffer, right.offset, right.column, right.row)
        found[op] = packed(p, op.attrs["dtype"], wide, [], const(FEW_ROWS + 1), n, k)
    return found
