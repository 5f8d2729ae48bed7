"""Attention: two products with a softmax, or any other work on rows, between them, a few rows at a time.

The scores of a group of rows lie in a scratch that stays in the cache: computed from the first product with whatever is
done to its elements (scale, mask, bias), reduced row by row, and read as the left side of the second product. All row
programs fit that fold twice: a function of the scores, then one of these values and the first results."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from egshape.dims import Dim, ceildiv, const, minimum, symbol
from egshape.dims import product as total
from egshape.ir.graph import Block, Op, Value
from egshape.plan.analysis.elements import ZERO, Indices, is_elementwise
from egshape.plan.cpu.contraction import is_product, sums_of
from egshape.plan.cpu.packing import Right, packed
from egshape.plan.form import epilogue
from egshape.plan.form.matrices import ONE, Axes, Dot, axes_of, loops, operand, parts
from egshape.plan.form.rows import is_row_reduce, joins
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Assign, Buffer, Let, Load, Local, Matrix, Stmt, Store, Var
from egshape.plan.ir.packs import pack_columns

GROUP = 16
"""Rows whose scores are held at a time."""
FEW = 4
"""Up to so many rows the first product is summed along memory, without packing its right side."""
LONGEST = 32
"""Ops between the products."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """``scores``: the first product with its epilogue; ``folds``: the two reductions; ``out``: the second product with
    its epilogue, which reads ``weights`` as operand ``side``."""

    ops: tuple[Op, ...]
    scores: epilogue.Cluster
    folds: tuple[Op, Op]
    weights: Value
    out: epilogue.Cluster
    side: int

    def emit(self, p: Steps) -> None:
        """Add the kernels."""
        _Writer(p, self).emit()


# -- recognition ------------------------------------------------------------------------------------------------------


def find(
    block: Block, number: int, uses: epilogue.Readers, taken: Collection[Op], waiting: Collection[Value]
) -> Cluster | None:
    """The attention that begins with a product; None if there is none."""
    if not is_product(block.ops[number]):
        return None
    scores = epilogue.find(block, number, uses, taken, waiting)
    shape = scores.result.type.shape
    if not shape or scores.elementwise != len(scores.ops) or _free(block.ops[number], 1) != 1:
        return None
    members, second = _between(block, scores, shape, uses, taken, waiting)
    if second is None or scores.result in second.operands:
        return None
    weights = [(side, x) for side, x in enumerate(second.operands) if any(x in op.results for op in members)]
    folds = [op for op in members if is_row_reduce(op)]
    if len(weights) != 1 or len(folds) != 2:
        return None
    (side, value), (one, two) = weights[0], folds
    if value.type.shape != shape or not _contracts_rows(second, side, scores.ops[0]):
        return None
    lying = {scores.result.type.dtype, two.operands[0].type.dtype, second.attrs["dtype"]}
    if lying != {block.ops[number].attrs["dtype"]}:  # what lies in the scratch is of one dtype
        return None
    made = {op.result: op for op in members}
    if _reaches(made, value, scores.result, {two.operands[0], two.result, one.result}):
        return None
    if value is two.operands[0] or two.operands[0] is scores.result or not is_elementwise(made[two.operands[0]]):
        return None
    at = next(k for k, op in enumerate(block.ops) if op is second)
    out = epilogue.find(block, at, uses, taken, waiting)
    if out.elementwise == len(out.ops):
        rank = len(second.result.type.dims)
        end = rank - 1 if side == 0 else rank - 1 - _free(second, 1)
        moved = epilogue.moves(block, out.ops[-1], uses, taken, end)
        out = epilogue.Cluster((*out.ops, *moved), out.elementwise)
    return Cluster((*scores.ops, *members, *out.ops), scores, (one, two), value, out, side)


def _between(
    block: Block,
    scores: epilogue.Cluster,
    shape: tuple[Dim, ...],
    uses: epilogue.Readers,
    taken: Collection[Op],
    waiting: Collection[Value],
) -> tuple[list[Op], Op | None]:
    """The ops on rows behind the scores, and the one product that reads them."""
    members: dict[int, Op] = {}
    values = {scores.result}
    while len(members) <= LONGEST:
        open_ones = {k for value in values for k in uses.get(value, ())} - members.keys()
        if not open_ones or min(open_ones) == epilogue.ENDLESS:
            break
        at = min(open_ones)
        op = block.ops[at]
        if op in taken or any(x in waiting for x in op.operands):
            break
        if is_product(op):
            return list(members.values()), op if len(open_ones) == 1 else None
        if not joins(op, shape[:-1], shape[-1:]):
            break
        members[at] = op
        values.add(op.result)
    return [], None


def _free(op: Op, side: int) -> int:
    """The number of free axes of an operand of a product."""
    name = ("lhs", "rhs")[side]
    return op.operands[side].type.rank - len(op.attrs[f"{name}_batch"]) - len(op.attrs[f"{name}_contract"])


def _contracts_rows(second: Op, side: int, first: Op) -> bool:
    """Whether the second product sums over the last axis of the weights alone, in the batches of the first."""
    name, rank = ("lhs", "rhs")[side], second.operands[side].type.rank
    batch = tuple(range(len(first.attrs["lhs_batch"])))
    return bool(second.attrs[f"{name}_contract"] == (rank - 1,) and second.attrs[f"{name}_batch"] == batch)


def _reaches(made: dict[Value, Op], value: Value, target: Value, stops: Collection[Value]) -> bool:
    """Whether a value reads another one other than through ``stops``."""
    if value in stops:
        return False
    if value is target:
        return True
    return value in made and any(_reaches(made, x, target, stops) for x in made[value].operands)


# -- the kernel -------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes the kernels of one attention."""

    def __init__(self, p: Steps, cluster: Cluster) -> None:
        self.p, self.cluster = p, cluster
        first, second = cluster.scores.ops[0], cluster.out.ops[0]
        self.dtype = first.attrs["dtype"]
        self.one: Dot = axes_of(p, first)
        self.two: Dot = axes_of(p, second, self.one.batch)
        self.count = total(size for _, size in self.one.rows)
        self.length = total(size for _, size in self.one.columns)
        self.group = ZERO if self.count.const is not None and self.count.const <= GROUP else symbol(p.name("i"))
        self.first = self.group * GROUP
        self.many = self.count if self.group is ZERO else minimum(const(GROUP), self.count - self.first)

    def emit(self) -> None:
        """Pack the right sides, then the kernel."""
        p, cluster, batch = self.p, self.cluster, self.one.batch
        first, second = cluster.scores.ops[0], cluster.out.ops[0]
        left, right = operand(p, first, self.one, 0), operand(p, first, self.one, 1)
        few = self.count.const is not None and self.count.const <= FEW and right.column is ONE
        keys = None if few else self.packed(right, total(size for _, size in self.one.deep), self.length)
        found = operand(p, second, self.two, 1 - cluster.side)
        columns = (self.two.rows, self.two.columns)[1 - cluster.side]
        values = self.packed(found, self.length, total(size for _, size in columns))
        p.start()
        out = p.new_buffer(cluster.out.result)
        scratch = p.scratch("scores", self.dtype, minimum(self.count, const(GROUP)) * self.length)
        body = [
            *self.scores(scratch, left, right, keys),
            *self.softmax(scratch),
            *self.result(scratch, values, columns, out),
        ]
        nest: Axes = [*batch, (self.group, ceildiv(self.count, const(GROUP)))]
        p.run("attention", loops(nest, body), (out,), (scratch,), once=True)
        p.places[cluster.out.result] = out

    def packed(self, matrix: Matrix, k: Dim, n: Dim) -> Right:
        """A right side in panels."""
        wide = Matrix(matrix.buffer, matrix.offset, matrix.column, matrix.row)
        return packed(self.p, self.dtype, wide, self.one.batch, self.count, n, k)

    def at(self, row: Dim, column: Dim | None = None) -> Indices:
        """The indices of a row of the group, and of an element of it."""
        columns = () if column is None else parts(column, self.one.columns)
        return self.one.at(parts(self.first + row, self.one.rows), columns)

    def scores(self, scratch: Buffer, left: Matrix, right: Matrix, keys: Right | None) -> tuple[Stmt, ...]:
        """The first product with its epilogue, to the scratch."""
        p, cluster = self.p, self.cluster.scores
        i, j, value = symbol(p.name("i")), symbol(p.name("i")), Var(self.dtype, p.name("v"))
        panel = ZERO if keys is None else keys.columns(p)
        column = panel * pack_columns(self.dtype) + j
        at = self.at(i, column)
        p.locals[cluster.ops[0].result, at] = value
        store = Store(scratch, i * self.length + column, p.read(cluster.value, at))
        place = Matrix(left.buffer, left.offset + self.first * left.row, left.row, left.column)
        if keys is not None:
            return loops([(panel, keys.count)], [keys.product(panel, self.many, place, i, j, value.name, store)])
        k = total(size for _, size in self.one.deep)
        row = Matrix(place.buffer, place.offset + i * place.row, ONE, place.column)
        return loops([(i, self.many)], sums_of(p, value, row, right, j, self.length, k, store))

    def softmax(self, scratch: Buffer) -> tuple[Stmt, ...]:
        """The folds of each row, and the weights in place of the scores."""
        p, cluster = self.p, self.cluster
        row = symbol(p.name("i"))
        one, two = cluster.folds
        inner = two.operands[0]
        body: list[Stmt] = []
        self.fold(one, cluster.scores.result, scratch, row, body)
        self.fold(two, cluster.scores.result, scratch, row, body, inner)
        if cluster.weights is not inner:
            j, element = self.element(scratch, row, inner)
            weight = p.read(cluster.weights, self.at(row, j))
            body += loops([(j, self.length)], [Store(scratch, element.index, weight)])
        return loops([(row, self.many)], body)

    def element(self, scratch: Buffer, row: Dim, value: Value) -> tuple[Dim, Load]:
        """A new index of a row, and the element of ``value`` there, which lies in the scratch."""
        j = symbol(self.p.name("i"))
        element = Load(self.dtype, scratch, row * self.length + j)
        self.p.locals[value, self.at(row, j)] = element
        return j, element

    def fold(
        self, op: Op, source: Value, scratch: Buffer, row: Dim, body: list[Stmt], keep: Value | None = None
    ) -> None:
        """One reduction of a row; the value ``keep`` takes the place of the scores."""
        p = self.p
        j, element = self.element(scratch, row, source)
        state = Var(op.result.type.dtype, p.name("v"))
        stmts: list[Stmt] = []
        if keep is not None:
            kept = Var(self.dtype, p.name("v"))
            stmts = [Let(kept.name, p.read(keep, self.at(row, j))), Store(scratch, element.index, kept)]
            p.locals[keep, self.at(row, j)] = kept
        (new,) = p.scalars(op, op.regions[0], [state, p.read(op.operands[0], self.at(row, j))], fast=True)
        body.append(Local(state.name, p.read(op.operands[1], ())))
        body += loops([(j, self.length)], [*stmts, Assign(state.name, new)])
        held = Var(state.dtype, p.name("v"))
        body.append(Let(held.name, state))
        p.locals[op.result, self.at(row)] = held

    def result(self, scratch: Buffer, values: Right, columns: Axes, out: Buffer) -> tuple[Stmt, ...]:
        """The second product with its epilogue."""
        p, cluster = self.p, self.cluster.out
        i, j, value = symbol(p.name("i")), symbol(p.name("i")), Var(self.dtype, p.name("v"))
        panel = values.columns(p)
        rows = parts(self.first + i, self.one.rows)
        across = parts(panel * pack_columns(self.dtype) + j, columns)
        at = self.two.at(rows, across) if self.cluster.side == 0 else self.two.at(across, rows)
        p.locals[cluster.ops[0].result, at] = value
        store = Store(out, cluster.place(at), p.read(cluster.value, at))
        left = Matrix(scratch, ZERO, self.length, ONE)
        return loops([(panel, values.count)], [values.product(panel, self.many, left, i, j, value.name, store)])
