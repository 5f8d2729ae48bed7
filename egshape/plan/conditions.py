"""What must hold of sizes so that an op's kernel stays inside of its buffers: checked where no form shows it."""

from __future__ import annotations

from collections.abc import Iterator

from egshape.dims import Dim, const
from egshape.ir.graph import Op
from egshape.ops.base import REGISTRY, OpDecl
from egshape.ops.windows import windowed_dims
from egshape.plan.program import CheckSizes
from egshape.plan.reader import place
from egshape.rulelang.contract_compile import Condition
from egshape.rulelang.contract_sizes import shown


def conditions(op: Op) -> Iterator[CheckSizes]:
    """The conditions of an op, in order."""
    decl = REGISTRY[op.name]
    if decl.contract is not None:
        yield from (_check(op, each) for each in decl.requires(op))
        yield from _as_inferred(op, decl)
    yield from _CONDITIONS.get(op.name, _nothing)(op)
    for value in op.results:
        for size in value.type.dims:
            message = f"%{value.name} would have an axis of size {{0}}"
            yield CheckSizes("<=", const(0), size, message, (size,), place(op))


def _nothing(op: Op) -> Iterator[CheckSizes]:
    yield from ()


def _check(op: Op, condition: Condition) -> CheckSizes:
    """What a contract requires; sizes in its message are filled in when it fails."""
    sizes: dict[Dim, int] = {}

    def show(item: object) -> str:
        return f"{{{sizes.setdefault(item, len(sizes))}}}" if isinstance(item, Dim) else shown(item)

    message, kind, lhs, rhs = condition.told(show), condition.kind, condition.lhs, condition.rhs
    if kind == "expands":
        kind, lhs, rhs = ("==", lhs, rhs) if lhs.const is not None else ("==", (lhs - rhs) * (lhs - 1), const(0))
    return CheckSizes(kind, lhs, rhs, message, tuple(sizes), place(op))


def _as_inferred(op: Op, decl: OpDecl) -> Iterator[CheckSizes]:
    """Buffers have the sizes that types state, which later facts may have written in another way."""
    for value, (_, sizes) in zip(op.results, decl.inferred(op), strict=True):
        for one, two in zip(sizes or (), value.type.dims, strict=False):
            if one is not None and one is not two:
                yield _equal(op, one, two, "result")


def _equal(op: Op, one: Dim, two: Dim, what: str) -> CheckSizes:
    return CheckSizes("==", one, two, f"{what}: sizes {{0}} and {{1}} do not fit together", (one, two), place(op))


def _within(op: Op, low: Dim, high: Dim, what: str) -> CheckSizes:
    return CheckSizes("<=", low, high, f"{what}: {{0}} is more than {{1}}", (low, high), place(op))


def _inputs(op: Op) -> Iterator[CheckSizes]:
    half = op.operands if op.name == "sort" else op.operands[:len(op.operands) // 2]
    for value in half[1:]:
        for one, two in zip(half[0].type.dims, value.type.dims, strict=True):
            yield _equal(op, one, two, "operands")
    for key in ("strides", "base_dilation", "window_dilation") if op.name == "reduce_window" else ():
        for size in op.attrs[key]:
            yield _within(op, const(1), size, key)


def _select_and_scatter(op: Op) -> Iterator[CheckSizes]:
    x, source = op.operands[:2]
    a, ones = op.attrs, (1,) * op.operands[0].type.rank
    counts = windowed_dims(x.type.dims, a["window"], a["strides"], a["padding"], ones, ones)
    for one, two in zip(counts, source.type.dims, strict=True):
        yield _equal(op, one, two, "windows and source")


_CONDITIONS = {
    "reduce": _inputs, "reduce_window": _inputs, "sort": _inputs,
    "select_and_scatter": _select_and_scatter,
}
