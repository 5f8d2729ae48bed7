"""Loops over time steps that do not hang on each other, such as the directions of an LSTM, as one kernel: each part of
the batch goes through all of its steps at once, so that threads meet nowhere, and the host begins no round.

Where rows have lengths, they are put in the order of these; steps behind a row's end are not computed, and neither are
the products with the inputs of these steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from egshape.dims import Dim, ceildiv, const, minimum, product, symbol
from egshape.ir.graph import Block, Op, Value
from egshape.plan.analysis.elements import ZERO, is_elementwise
from egshape.plan.cpu import contraction
from egshape.plan.cpu.packing import Right, packed
from egshape.plan.cpu.recurrent.loop import Loop, recurrence
from egshape.plan.cpu.recurrent.order import Order, ordered
from egshape.plan.cpu.recurrent.rounds import Part, Rounds, register, rights
from egshape.plan.form import epilogue
from egshape.plan.form.control import captures
from egshape.plan.form.matrices import ONE, axes_of, operand
from egshape.plan.form.movement import READERS
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, If, LetIndex, Load, Matrix, Stmt, Store, Test
from egshape.plan.ir.loops import Loop as Nest
from egshape.plan.ir.packs import FEW_ROWS
from egshape.plan.ir.program import DefineSize

MOST = 16
"""Rows of a part: products read their right sides once for so many. A loop on its own has parts of half of it, so that
there is something to share out."""


@dataclass(frozen=True, eq=False)
class Feed:
    """A product that only a loop reads, at the time of each round: rows of one matrix by another, with what is computed
    on its elements, which is the same for all rows."""

    cluster: epilogue.Cluster
    stack: Value


@dataclass(frozen=True, eq=False)
class Cluster:
    """Loops of one batch and count, with the products that feed them."""

    ops: tuple[Op, ...]
    loops: tuple[Loop, ...]
    feeds: tuple[Feed, ...]
    read: frozenset[Value]
    """Of what the block defines, what is read."""

    def emit(self, p: Steps) -> None:
        """Add the kernels."""
        first = self.loops[0]
        fed = {each.stack for each in self.feeds}
        for loop in self.loops:
            captures(p, loop.op, fed)
            register(p, loop)
        name = first.op.results[0].name
        order = None
        if first.ends is not None:
            order = ordered(p, name, first.ends.lengths, first.batch, first.count)
            self._fed(p, order)
        packs: dict[Op, Right] = {}
        for loop in self.loops:
            packs.update(rights(p, loop))
        parts, most = symbol(f"{name}.parts"), MOST if len(self.loops) > 1 else MOST // 2
        p.steps.append(DefineSize(f"{name}.parts", ceildiv(first.batch, const(most))))
        p.start()
        results = [self._results(p, loop, order) for loop in self.loops]
        p.start()
        unit = p.name("i")
        body: tuple[Stmt, ...] = ()
        private: list[Buffer] = []
        for number, (loop, out) in reversed(list(enumerate(zip(self.loops, results, strict=True)))):
            at = symbol(unit) - parts * number
            many = (first.batch - at + parts - 1) // parts
            part = Part(at, parts, many, minimum(first.batch, most), order)
            inputs = {value: p.places[x] for value, x in loop.feeds.items() if x in fed}
            rounds = Rounds(p, loop, part, packs, inputs, out)
            made = rounds.statements()
            private += rounds.private
            body = made if not body else (If(Test((parts * (number + 1) - 1 - symbol(unit),)), made, body),)
        for stack in fed:
            del p.places[stack]
        buffers = tuple(dict.fromkeys(buffer for out in results for buffer in out.values()))
        nest = Nest(unit, parts * len(self.loops), body)
        p.run("recurrence", (nest,), buffers, tuple(private), once=True)
        for loop, out in zip(self.loops, results, strict=True):
            p.places.update((loop.op.results[k], buffer) for k, buffer in out.items())

    def _results(self, p: Steps, loop: Loop, order: Order | None) -> dict[int, Buffer]:
        """The buffers of what is read of a loop; stacks hold at once what no round writes."""
        found = {}
        for k in (*loop.states, *loop.stacks):
            value = loop.op.results[k]
            if value in self.read:
                found[k] = p.new_buffer(value)
                if k in loop.stacks and order is not None:
                    p.store(loop.op.operands[k], found[k])
        return found

    def _fed(self, p: Steps, order: Order) -> None:
        """The products that feed the loops, of the steps that there are, one after the other."""
        first, gathered = self.loops[0], dict[Value, Buffer]()
        for feed in self.feeds:
            op = feed.cluster.ops[0]
            x = p.resolved(op.operands[0])
            if x not in gathered:
                gathered[x] = _gathered(p, x, order, first.count)
            d = axes_of(p, op)
            right = operand(p, op, d, 1)
            k, n = (product(size for _, size in axes) for axes in (d.deep, d.columns))
            wide = Matrix(right.buffer, right.offset, right.column, right.row)
            side = packed(p, op.attrs["dtype"], wide, [], const(FEW_ROWS + 1), n, k)
            left = Matrix(gathered[x], ZERO, k, ONE)
            sides = contraction.Operands(d.rows, d.columns, order.total, n, k, left, False)
            contraction.packed_product(p, feed.cluster, d, sides, side)


def _gathered(p: Steps, x: Value, order: Order, count: Dim) -> Buffer:
    """The rows of a stack that there are, one time after the other."""
    p.start()
    width = x.type.dims[2]
    target = p.scratch(x.name, x.type.dtype, product(x.type.dims))
    t, r, k = (symbol(p.name("i")) for _ in range(3))
    live, before, row = (p.name("g") for _ in range(3))
    at = (symbol(before) + r) * width + k
    store = Store(target, at, p.read(x, (t, symbol(row), k)))
    (time,), (place,), (column,) = (each.symbols() for each in (t, r, k))
    inner = Nest(place, symbol(live), (LetIndex(row, Load("i64", order.rows, r)), Nest(column, width, (store,))))
    told = LetIndex(live, Load("i64", order.live, t)), LetIndex(before, Load("i64", order.before, t))
    p.run("rows_of_steps", (Nest(time, count, (*told, inner)),), (target,), once=True)
    return target


# -- which ops --------------------------------------------------------------------------------------------------------


def find(p: Steps, block: Block) -> Iterator[Cluster]:
    """The loops over time steps of a block, those together that can run side by side."""
    if not p.known.forms or not any(op.name == "while" for op in block.ops):
        return
    made = {value: op for op in block.ops for value in op.results}

    def outside(value: Value) -> Op | None:
        value = p.resolved(value)
        return made.get(value) or p.producers.get(value)

    read = frozenset(epilogue.readers(block))
    waiting = [loop for op in block.ops if (loop := recurrence(op, outside)) is not None]
    while waiting:
        together: list[Loop] = []
        for loop in waiting:
            if not together or (_beside(together[0], loop) and _may_wait(block, [*together, loop])):
                together.append(loop)
        waiting = [loop for loop in waiting if loop not in together]
        feeds = _feeds(block, together)
        members = {loop.op for loop in together} | {op for feed in feeds for op in feed.cluster.ops}
        yield Cluster(tuple(op for op in block.ops if op in members), tuple(together), feeds, read)


def _beside(one: Loop, two: Loop) -> bool:
    """Whether a loop goes over the rows and times that another goes over."""
    lengths = [None if each.ends is None else each.ends.lengths for each in (one, two)]
    return one.batch is two.batch and one.count is two.count and lengths[0] is lengths[1]


def _may_wait(block: Block, loops: Sequence[Loop], feeding: Collection[Op] = ()) -> bool:
    """Whether loops, and what only feeds them, may run where the last one stands: nothing before reads what they make,
    or may write what they read."""
    ops = [loop.op for loop in loops]
    members = {*ops, *feeding}
    numbers = [number for number, op in enumerate(block.ops) if op in members]
    made = {value for op in ops for value in op.results}
    for op in block.ops[numbers[0] : numbers[-1] + 1]:
        quiet = op.name == "dot_general" or is_elementwise(op) or (op.name in READERS and op.name not in _WRITE)
        if made & set(op.reads()) or not (quiet or op in members):
            return False
    return not any(each.value in made and each.element is not None for each in block.symbols)


_WRITE = frozenset(("dynamic_update_slice",))
"""Ops that may take over memory."""


def _feeds(block: Block, loops: Sequence[Loop]) -> tuple[Feed, ...]:
    """The products that only these loops read, each round what is of its time."""
    if loops[0].ends is None:
        return ()
    uses, found = epilogue.readers(block), []
    stacks = {stack for loop in loops for stack in loop.feeds.values() if _reads_in_time(block, loops, stack)}
    for number, op in enumerate(block.ops):
        if stacks and _is_input(op):
            cluster = epilogue.find(block, number, uses, (), ())
            if cluster.result in stacks and all(_same_along(block, cluster, each) for each in cluster.ops[1:]):
                found.append(Feed(cluster, cluster.result))
    return tuple(found) if _may_wait(block, loops, [op for feed in found for op in feed.cluster.ops]) else ()


def _reads_in_time(block: Block, loops: Sequence[Loop], stack: Value) -> bool:
    """Whether all that reads a value are rounds of these loops that read what is of their time."""
    if stack in block.results or any(each.value is stack for each in block.symbols):
        return False
    readers = [op for op in block.ops if stack in op.reads()]
    found = [loop for loop in loops if loop.op in readers]
    alone = all(loop.feeds.get(op.results[0]) is stack for loop in found for op in loop.body if stack in op.operands)
    return len(found) == len(readers) and alone and not any(stack in op.operands for op in readers)


def _is_input(op: Op) -> bool:
    """Whether an op multiplies each row of a stack by one matrix."""
    if not contraction.is_product(op) or [x.type.rank for x in op.operands] != [3, 2]:
        return False
    return tuple(op.attrs["lhs_contract"]) == (2,) and not op.attrs["lhs_batch"]


def _same_along(block: Block, cluster: epilogue.Cluster, op: Op) -> bool:
    """Whether what an op of an epilogue reads from elsewhere is the same for all rows and times."""
    inside = {each.result for each in cluster.ops}
    others = {value for value in op.operands if value not in inside}
    made = [each for each in block.ops if each.results and each.results[0] in others]
    plain = [each for each in made if each.name == "broadcast_in_dim" and set(each.attrs["dims"]) <= {2}]
    return is_elementwise(op) and len(plain) == len(others)
