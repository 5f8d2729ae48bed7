"""How the entry checks sizes and values, and how it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from egshape.dims import Dim
from egshape.dims.joins import rejoined
from egshape.facts import Relation
from egshape.ir.types import is_float
from egshape.lower.common.sizes import LARGEST, cannot_wrap
from egshape.lower.host.entry import Entry
from egshape.lower.host.sizes import wraps
from egshape.lower.llvm import scalar
from egshape.ops.checks import format_message
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import CheckSizes, CheckValue
from egshape.runtime.abi.call import ERROR_WORDS

_RELATIONS = {"==": "eq", "!=": "ne", "<=": "sle", "<": "slt"}


class Checks:
    """Writes checks."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.w = entry.w
        self.inside = 0
        """Of how many branches and loops what is written is a part: what these check is no condition of a call."""

    def fail(self, condition: str, code: int, words: Sequence[str]) -> None:
        """Leave with a code and error words where an i1 holds."""
        w = self.w
        bad, good = w.label("bad"), w.label("good")
        w.line(f"br i1 {condition}, label %{bad}, label %{good}")
        w.block(bad)
        for k, word in enumerate(words[:ERROR_WORDS]):
            w.line(f"store i64 {word}, ptr {w.value(f'getelementptr i64, ptr %error, i64 {k}')}")
        w.line(f"store i32 {code}, ptr {self.entry.code}")
        w.line("br label %finish")
        w.block(good)

    def bytes(self, size: Dim, width: int) -> str:
        """Bytes of a buffer, at least 1, rounded up for alignment; leaves if there are too many."""
        w = self.w
        self.exact(size * width)
        many = w.value(f"fcmp ugt double {w.dim_float(size * width)}, {scalar.constant('f64', LARGEST)}")
        self.fail(many, 4, [])
        least = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(size * width)}, i64 1)")
        return w.value(f"and i64 {w.value(f'add i64 {least}, 63')}, -64")

    def exact(self, *sizes: Dim) -> None:
        """Leave if computing a size may wrap."""
        for size in sizes:
            if not cannot_wrap(size) and self.w.find(("exact", size)) is None:
                self.w.keep(("exact", size), "shown")
                self.fail(wraps(self.w, size), 4, [])

    def message(
        self, holds: str, message: str, where: str, words: Sequence[str], kinds: Sequence[str], text: str
    ) -> None:
        """Leave with the message of a check where an i1 does not hold. ``text``: what it says before a call."""
        number = len(self.entry.tables.checks)
        row = {"message": message, "where": where, "args": list(kinds), "text": text, "listed": not self.inside}
        self.entry.tables.checks.append(row)
        self.fail(self.w.value(f"xor i1 {holds}, true"), 1, [str(number), *words])

    def refuse(self, step: CheckValue, read: Callable[[Buffer], str]) -> None:
        """Leave with the message of a check that does not hold. ``read``: how its values are read."""
        w, words, kinds = self.w, list[str](), list[str]()
        for buffer in step.args:
            value = read(buffer)
            kinds.append("f64" if is_float(buffer.dtype) else buffer.dtype if buffer.dtype in ("i1", "ui64") else "i64")
            if is_float(buffer.dtype):
                value = w.value(f"bitcast double {scalar.convert(w, buffer.dtype, 'f64', value)} to i64")
            else:
                value = scalar.convert(w, buffer.dtype, "i64", value)
            words.append(value)
        if not words:
            words, kinds = [w.dim(size) for size in step.sizes], ["i64"] * len(step.sizes)
        named = [f"%{buffer.name}" for buffer in step.args] or [str(size) for size in step.sizes]
        self.message("false", step.message, step.where, words, kinds, format_message(step.message, named))

    def sizes(self, step: CheckSizes) -> None:
        """Leave where two sizes are not in a relation."""
        relation = Relation(step.relation, step.lhs, step.rhs)
        holds = reduce(
            lambda one, two: self.w.value(f"or i1 {one}, {two}"), map(self._compared, relation.alternatives())
        )
        words = [self.w.dim(arg) for arg in step.args]
        shown = Relation(step.relation, rejoined(step.lhs), rejoined(step.rhs))
        self.message(holds, step.message, step.where, words, ["i64"] * len(words), str(shown))

    def _compared(self, relation: Relation) -> str:
        """An i1: whether a comparison holds."""
        self.exact(relation.lhs, relation.rhs)
        return self.w.value(
            f"icmp {_RELATIONS[relation.kind]} i64 {self.w.dim(relation.lhs)}, {self.w.dim(relation.rhs)}"
        )
