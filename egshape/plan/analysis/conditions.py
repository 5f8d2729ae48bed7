"""What must hold of sizes so that an op's kernel stays inside of its buffers: checked where no form shows it."""

from __future__ import annotations

from collections.abc import Iterator

from egshape.dims import const
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.ir.graph import Op
from egshape.ops.base import REGISTRY, OpDecl
from egshape.plan.analysis.elements import place
from egshape.plan.ir.program import CheckSizes
from egshape.rulelang.contract_compile import Condition


def conditions(op: Op) -> Iterator[CheckSizes]:
    """The conditions of an op, in order."""
    decl = REGISTRY[op.name]
    if decl.contract is not None:
        yield from (_check(op, each) for each in decl.requires(op))
        if not decl.nested:  # what regions give is held where they are planned, with sizes as they are named there
            yield from _as_inferred(op, decl)
    for value in op.results:
        for size in value.type.shape or ():
            message = f"%{value.name} would have an axis of size {{0}}"
            yield CheckSizes("<=", const(0), size, message, (size,), place(op))


def may_run(op: Op) -> bool:
    """Whether no form shows that an op is refused at all sizes."""
    try:
        found = [Relation(each.relation, each.lhs, each.rhs) for each in conditions(op)]
    except EgshapeError:
        return False
    return all(each.symbols() or each.holds({}) for each in found)


def _check(op: Op, condition: Condition) -> CheckSizes:
    """What a contract requires; sizes in its message are filled in when it fails."""
    relation, (message, sizes) = condition.relation, condition.placed()
    return CheckSizes(relation.kind, relation.lhs, relation.rhs, message, sizes, place(op))


def _as_inferred(op: Op, decl: OpDecl) -> Iterator[CheckSizes]:
    """Buffers have the sizes that types state, which later facts may have written in another way."""
    for value, (_, sizes) in zip(op.results, decl.inferred(op), strict=True):
        for one, two in zip(sizes or (), value.type.shape or (), strict=False):
            if one is not None and one is not two:
                message = "result: sizes {0} and {1} do not fit together"
                yield CheckSizes("==", one, two, message, (one, two), place(op))
