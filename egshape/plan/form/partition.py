"""A stable sort by a key that is true or false: two passes without a branch that data decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from egshape.dims import Dim, symbol
from egshape.ir.graph import Op, Value
from egshape.plan.analysis.elements import Indices
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Assign, Call, Const, Expr, If, Index, LetIndex, Local, Loop, Stmt, Store, Var, linear

_CHEAP = 2
"""Work up to which a mask is computed anew in each pass."""


def partitioned(p: Steps, op: Op) -> bool:
    """Plan a sort whose first operand is a mask, which alone decides, if it is one."""
    found = _mask(p, op)
    if found is None:
        return False
    mask, direction = found
    if p.cost(mask)[0] > _CHEAP:
        p.buffer(mask)
    _write(p, op, mask, direction)
    return True


def _mask(p: Steps, op: Op) -> tuple[Value, Literal["LT", "GT"]] | None:
    """The mask by which an op sorts, and which of its elements come first: the false (LT) or the true ones."""
    region = op.regions[0]
    test = region.ops[0] if len(region.ops) == 1 else None
    if test is None or test.name != "compare" or test.operands != region.args[:2] or test.results != region.results:
        return None
    key = p.resolved(op.operands[0])
    made = p.producers.get(key)
    if key.type.dtype != "i1" and made is not None and made.name == "convert":
        key = p.resolved(made.operands[0])
    direction = test.attrs["direction"]
    return (key, direction) if key.type.dtype == "i1" and direction in ("LT", "GT") else None


def _write(p: Steps, op: Op, mask: Value, direction: Literal["LT", "GT"]) -> None:
    """The elements that come last are put at the end, from the last one on, then the others at the front. What is put
    there before its element is found is overwritten, since each place is at most as far as the element that goes to it.
    """
    p.start()
    dim, shape = op.attrs["dim"], op.operands[0].type.dims
    length = shape[dim]
    out = tuple(p.new_buffer(value) for value in op.results)
    outer, wrap = p.nest([size for axis, size in enumerate(shape) if axis != dim])
    low, high = Var("i64", p.name("v")), Var("i64", p.name("v"))

    def at(index: Dim) -> Indices:
        return (*outer[:dim], index, *outer[dim:])

    def put(index: Dim, place: Var) -> Sequence[Stmt]:
        slot = p.name("g")
        pairs = zip(out, op.operands, strict=True)
        stores = (Store(to, linear(at(symbol(slot)), shape), p.read(x, at(index))) for to, x in pairs)
        return LetIndex(slot, place), *stores

    def counts(index: Dim, last: bool) -> Expr:
        true = p.read(mask, at(index))
        found = true if last == (direction == "LT") else Call("i1", "not", (true,))
        return Call("i64", "convert", (found,), (("dtype", "i64"),))

    i, j = (symbol(p.name("i")) for _ in range(2))
    back = length - 1 - i
    order = (("direction", "LE"), ("kind", "SIGNED"))
    down = Assign(high.name, Call("i64", "subtract", (high, counts(back, last=True))))
    up = Assign(low.name, Call("i64", "add", (low, counts(j, last=False))))
    body: list[Stmt] = [
        Local(high.name, Index("i64", length - 1)),
        _loop(i, length, (*put(back, high), down)),
        Local(low.name, Const("i64", 0)),
        _loop(j, length, (If(Call("i1", "compare", (low, high), order), (*put(j, low), up)),)),
    ]
    p.run("partition", wrap(body), out)
    p.places.update(zip(op.results, out, strict=True))


def _loop(index: Dim, length: Dim, body: Sequence[Stmt]) -> Loop:
    (name,) = index.symbols()
    return Loop(name, length, tuple(body))
