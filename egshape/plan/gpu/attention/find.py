"""Attention for a GPU: softmax between two products, as one statement in which the scores never lie in memory.

Recognised by structure: a product; any function of its elements, whose largest in each row is subtracted before the
exponential; the sum of these, by which they are divided; and a product that sums over the row. Conversions between
floats and transposes may stand anywhere. What is not exactly that stays as it is.

Exact with respect to what is not finite: a row whose scores are all -inf is NaN as its softmax is, and so is one with
+inf or NaN. Sums are f32; where sides have 16 bits the exponentials are rounded to these before they are multiplied,
not the weights behind the division."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from egshape.dims import Dim, symbol
from egshape.dims import product as total
from egshape.egraph.cost import CostModel, likely_sizes
from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import itemsize
from egshape.plan.analysis.elements import Indices, is_elementwise
from egshape.plan.form import epilogue
from egshape.plan.form.dots import converted
from egshape.plan.form.matrices import Axes, Dot, axes_of, loops, parts
from egshape.plan.form.steps import Steps
from egshape.plan.gpu.attention import library
from egshape.plan.gpu.attention.softmax import Softmax, is_move, matched
from egshape.plan.ir.loops import Attend, Call, Expr, Let, Store, Test, Var
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import dims
from egshape.switches import wished

SWITCH = "EGSHAPE_CUDA_ATTENTION"
"""Environment: ``fused`` or ``library`` (products of a library with scores in memory) instead of what ``pays`` says;
``cudnn``: fused, and cuDNN before it where that is installed and can (plan/gpu/attention/library.py)."""
WISHES = ("fused", "library", "cudnn")
WIDEST = {"f16": 256, "bf16": 256, "f32": 128}
"""Elements of a row of queries, keys or values at most: they lie in registers and shared memory."""
LARGE_SCORES = 64 << 20
"""Bytes of scores (at the likely sizes) from which products in f32 are worth less than scores that never lie in
memory: what no longer stays in a GPU's cache."""
FEW_HEADS = 16
"""Groups of rows up to which rows of several heads are taken as rows of one."""
LONGEST = 48
"""Ops between the products."""
_FREE_COST = 4
"""Work on an element of the queries that is done again by each block of a grid."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """``first`` and the product that ``out`` begins with; ``softmax``: what lies between, at the indices of ``axes``,
    which are those of the second product; ``side``: its operand that are the weights."""

    ops: tuple[Op, ...]
    first: Op
    softmax: Softmax
    axes: Dot
    side: int
    out: epilogue.Cluster

    def emit(self, p: Steps) -> None:
        """Add the kernels."""
        _emit(p, self)


# -- recognition ------------------------------------------------------------------------------------------------------


def find(
    p: Steps, block: Block, number: int, uses: epilogue.Readers, taken: Collection[Op], waiting: Collection[Value]
) -> Cluster | None:
    """The attention that begins with a product; None if there is none, or it would not pay."""
    first = block.ops[number]
    if not _is_product(first) or not p.known.forms:
        return None
    members, at = _between(block, number, uses, taken, waiting)
    if at is None:
        return None
    second = block.ops[at]
    if not _is_product(second) or second in taken or second.operands[0].type.dtype != first.operands[0].type.dtype:
        return None
    if first.result in second.operands:
        return None
    sides = [side for side, x in enumerate(second.operands[:2]) if any(x is op.result for op in members)]
    if len(sides) != 1 or any(x in waiting for x in second.operands):
        return None
    (side,) = sides
    d = axes_of(p, second)
    if len(d.deep) != 1 or d.deep[0][1].const == 1:
        return None
    found = matched(p, block, members, first, d.operands[side], d.deep[0][0])
    if found is None or not _fits(p, first, found, d, side):
        return None
    out = epilogue.find(block, at, uses, taken, waiting)
    if out.elementwise == len(out.ops):
        rank, free = second.result.type.rank, second.operands[1].type.rank - len(d.batch) - 1
        end = rank - 1 if side == 0 else rank - 1 - free
        out = epilogue.Cluster((*out.ops, *_moves(block, out.ops[-1], uses, taken, end)), out.elementwise)
    return Cluster((first, *members, *out.ops), first, found, d, side, out)


def _moves(block: Block, last: Op, uses: epilogue.Readers, taken: Collection[Op], end: int) -> list[Op]:
    """Transposes and reshapes behind an op by which results are stored where they are going to lie: its axis ``end``
    is the last one of what the last of them gives."""
    found: list[Op] = []
    whole = 0
    while True:
        following = uses.get(last.result, ())
        if len(following) != 1 or following[0] == epilogue.ENDLESS or block.ops[following[0]] in taken:
            return found[:whole]
        last = block.ops[following[0]]
        if last.name == "transpose" and end >= 0:
            end = last.attrs["permutation"].index(end)
            found.append(last)
            whole = len(found) if end == len(last.result.type.dims) - 1 else whole
        elif last.name == "reshape" and found and whole == len(found) and len(last.operands) == 1:
            found.append(last)
            return found
        else:
            return found[:whole]


def _is_product(op: Op) -> bool:
    one, two = (x.type.dtype for x in op.operands[:2]) if op.name == "dot_general" else ("", "")
    return one == two and one in ("f16", "bf16", "f32") and op.attrs["dtype"] in (one, "f32")


def _between(
    block: Block, number: int, uses: epilogue.Readers, taken: Collection[Op], waiting: Collection[Value]
) -> tuple[list[Op], int | None]:
    """The ops that read the product, one another and what is known before, and the number of the one product that
    reads them."""
    members: dict[int, Op] = {}
    values = {block.ops[number].result}
    while len(members) <= LONGEST:
        open_ones = {k for value in values for k in uses.get(value, ())} - members.keys()
        if not open_ones or min(open_ones) == epilogue.ENDLESS:
            break
        at = min(open_ones)
        op = block.ops[at]
        if op.name == "dot_general":
            return (list(members.values()), at) if len(open_ones) == 1 else ([], None)
        plain = is_elementwise(op) or is_move(op) or (op.name == "reduce" and len(op.operands) == 2)
        if not plain or op in taken or any(x in waiting for x in op.operands) or op.result.type.shape is None:
            break
        members[at] = op
        values.add(op.result)
    return [], None


def _fits(p: Steps, first: Op, found: Softmax, d: Dot, side: int) -> bool:
    """Whether sizes are such that one kernel can do it, and it pays."""
    width = total(size for _, size in (d.columns, d.rows)[side])
    depth = total(first.operands[0].type.dims[axis] for axis in first.attrs["lhs_contract"])
    dtype = first.operands[0].type.dtype
    if any(size.const is None or not 0 < size.const <= WIDEST[dtype] for size in (width, depth)):
        return False
    if _keys(first, found.at, d.deep[0][0]) is None:
        return False
    count = total(size for _, size in (*d.batch, *(d.rows, d.columns)[side], *d.deep))
    return pays(p, dtype, count)


def pays(p: Steps, dtype: str, scores: Dim) -> bool:
    """Whether one kernel is likely faster than a library's products with the scores in memory between them. The place
    of that choice: with tensor cores always; in f32, where products are plain arithmetic, if scores are many."""
    wish = wished(SWITCH, WISHES)
    if wish is not None:
        return wish != "library"
    likely = CostModel(likely_sizes(p.graph.facts, sorted(scores.symbols())))
    return dtype != "f32" or likely.size(scores) * itemsize("f32") >= LARGE_SCORES


def _keys(first: Op, at: Indices, column: Dim) -> int | None:
    """The operand of the first product whose one free axis the columns go along; None if there is none such."""
    a, batch = first.attrs, len(first.attrs["lhs_batch"])
    free = [
        [axis for axis in range(x.type.rank) if axis not in (*a[f"{name}_batch"], *a[f"{name}_contract"])]
        for name, x in zip(("lhs", "rhs"), first.operands[:2], strict=True)
    ]
    places = at[batch : batch + len(free[0])], at[batch + len(free[0]) :]
    sides = [side for side in (0, 1) if any(_reads(index, column) for index in places[side])]
    if len(sides) != 1 or any(_reads(index, column) for index in at[:batch]):
        return None
    (side,) = sides
    moving = [
        index
        for index, axis in zip(places[side], free[side], strict=True)
        if first.operands[side].type.dims[axis].const != 1
    ]
    return side if len(moving) == 1 and moving[0] is column else None


def _reads(index: Dim, other: Dim) -> bool:
    return not index.symbols().isdisjoint(other.symbols())


# -- the kernel -------------------------------------------------------------------------------------------------------


def _emit(p: Steps, cluster: Cluster) -> None:
    first, second, d = cluster.first, cluster.out.ops[0], cluster.axes
    keys = _keys(first, cluster.softmax.at, d.deep[0][0])
    assert keys is not None
    (column,) = d.deep[0][0].symbols()
    rows, across = (d.rows, d.columns) if cluster.side == 0 else (d.columns, d.rows)
    values, values_at = d.operands[1 - cluster.side]
    for value in (first.operands[keys], values):
        _settled(p, value, 0)
    _settled(p, first.operands[1 - keys], _FREE_COST)
    p.start()
    out = p.new_buffer(cluster.out.result)
    row, deep, place = (symbol(p.name("i")) for _ in range(3))
    left, right = (_operand(p, first, side, cluster.softmax.at, deep) for side in (1 - keys, keys))
    grid, rows = _heads(p, rows, right)
    env: dict[str, Dim] = {}
    for whole, axes in ((row, rows), (place, across)):
        for (index, _), part in zip(axes, parts(whole, axes), strict=True):
            env.update(dict.fromkeys(index.symbols(), part))
    found = cluster.softmax.read(p, d.operands[cluster.side][1])
    sum_ = Var("f32", p.name("v"))
    at = d.at(*(tuple(index for index, _ in axes) for axes in (d.rows, d.columns)))
    p.locals[second.result, at] = converted(second.attrs["dtype"], sum_)
    store = Store(out, cluster.out.place(at), p.read(cluster.out.value, at))
    live = Test((d.deep[0][1] - 1,))
    keep: Expr = live if found.dead is None else Call("i1", "and", (live, Call("i1", "not", (found.dead,))))
    moved = Moved(env)
    m, n, width = (total(size for _, size in axes) for axes in (rows, d.deep, across))
    depth = total(first.operands[0].type.dims[axis] for axis in first.attrs["lhs_contract"])
    (row_,), (deep_,), (place_,) = (index.symbols() for index in (row, deep, place))
    attend = Attend(
        first.operands[0].type.dtype,
        m,
        n,
        depth,
        width,
        row_,
        column,
        deep_,
        place_,
        moved.expr(left),
        moved.expr(right),
        moved.expr(p.read(values, values_at)),
        found.score,
        moved.expr(found.scores),
        found.peak,
        found.total,
        moved.expr(found.factor),
        moved.expr(keep),
        sum_.name,
        moved.body((store,)),
    )
    p.run("attention", loops([*d.batch, *grid], [attend]), (out,), once=True)
    if wished(SWITCH, WISHES) == "cudnn":
        library.offered(p, attend, [*d.batch, *grid])
    p.places[cluster.out.result] = out


def _settled(p: Steps, value: Value, most: int) -> None:
    """Compute an operand now if reading its elements again and again costs more than that."""
    if p.cost(value)[0] > most:
        p.places.setdefault(p.resolved(value), p.buffer(value))


def _heads(p: Steps, rows: Axes, keys: Expr) -> tuple[Axes, Axes]:
    """Axes of rows that blocks take one by one, since keys are others there, and those whose rows are taken as rows of
    one matrix: of some heads that share keys, unless each has rows enough for a block of its own."""
    likely = CostModel(likely_sizes(p.graph.facts, sorted({name for _, size in rows for name in size.symbols()})))
    read = {name for dim in dims((Let("", keys),)) for name in dim.symbols()}
    grid = [axis for axis in rows if axis[0].symbols() & read]
    shared = [axis for axis in rows if not axis[0].symbols() & read]
    moving = [axis for axis in shared if axis[1].const != 1]
    if len(moving) > 1:
        longest = max(moving, key=lambda axis: likely.size(axis[1]))
        if likely.size(longest[1]) >= FEW_HEADS:
            return [axis for axis in rows if axis is not longest], [longest]
    return grid, shared


def _operand(p: Steps, first: Op, side: int, at: Indices, deep: Dim) -> Expr:
    """An operand of the first product at the indices of its result, and along its depth."""
    a, value = first.attrs, first.operands[side]
    name, batch = ("lhs", "rhs")[side], len(first.attrs["lhs_batch"])
    contract = a[f"{name}_contract"]
    free = [axis for axis in range(value.type.rank) if axis not in (*a[f"{name}_batch"], *contract)]
    begin = batch + (first.result.type.rank - batch - len(free) if side else 0)
    indices = dict(zip(a[f"{name}_batch"], at[:batch], strict=True))
    indices |= dict(zip(free, at[begin : begin + len(free)], strict=True))
    axes: Axes = [(symbol(p.name("i")), value.type.dims[axis]) for axis in contract]
    indices |= dict(zip(contract, parts(deep, axes), strict=True))
    return p.read(value, tuple(indices[axis] for axis in range(value.type.rank)))
