"""What changed between two graphs, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from egshape.dims import Dim
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.keys import hashable, region_key
from egshape.ir.text import print_op
from egshape.report import Step

if TYPE_CHECKING:
    from egshape.api import Result

REASONS = 4
"""Reasons of a change that its text shows: those of shape code go on through all that reads it."""

Change = Literal["same", "rewritten", "merged", "removed", "added"]


@dataclass(frozen=True)
class DiffRow:
    """One op. rewritten: another op computes the value now; merged: it is now another value that the graph has too;
    removed: nothing computes it any more. ``why`` are the rules and reasons, as ``explain_value`` gives them."""

    change: Change
    value: str
    before: str
    after: str
    why: tuple[Step, ...]
    location: str

    def __str__(self) -> str:
        lines = [f"{self.change}" + (f"   ({self.location})" if self.location else "")]
        lines += [f"  - {line}" for line in self.before.splitlines()]
        lines += [f"  + {line}" for line in self.after.splitlines()]
        lines += [f"    by {step.rule}: {step.to}" for step in self.why[:REASONS]]
        if len(self.why) > REASONS:
            lines.append(f"    ... {len(self.why) - REASONS} more in its `why`")
        return "\n".join(lines)


@dataclass(frozen=True)
class Diff:
    """The ops of two graphs side by side, those that stayed included."""

    rows: tuple[DiffRow, ...]
    before: int
    after: int

    @property
    def changes(self) -> tuple[DiffRow, ...]:
        """The rows where something changed."""
        return tuple(row for row in self.rows if row.change != "same")

    def __str__(self) -> str:
        head = f"{self.before} ops -> {self.after} ops"
        return "\n".join([head, *map(str, self.changes)]) if self.changes else f"{head}: the same"


def diff(before: Graph | Result, after: Graph | None = None, *, rules: Sequence[str] = ()) -> Diff:
    """What changed from one graph to another; of a ``Result``, from its source to what came out.

    Values go together by what the optimizer knows of them where the second graph is what it makes of the first, else
    by name. Reasons are the rules by which ``optimize(before, rules=rules)`` rewrites a value that changed; a value
    that it leaves alone has none. Raises EgshapeError as ``optimize`` does.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> x = net.input("x", ["n", 4])
        >>> graph = net.graph(y=net.relu(net.transpose(net.transpose(x, [1, 0]), [1, 0])))
        >>> print(egshape.diff(egshape.optimize(graph)))
        5 ops -> 3 ops
        removed
          ...
    """
    from egshape.api import Result, optimize

    if isinstance(before, Result):
        result, source, target = before, before.source, after or before.graph
    else:
        if after is None:
            raise TypeError("diff takes two graphs, or a Result")
        source, target = before, after
        result = optimize(source, rules=rules, validate=False)
    return _Diff(result, source, target).run()


class _Diff:
    def __init__(self, result: Result, source: Graph, target: Graph) -> None:
        self.result = result
        self.source = source
        self.target = target
        self.made = {value.name: op for op in target.body.walk() for value in op.results}
        self.named = {value.name: value for value in target.inputs}
        for op in target.body.walk():
            self.named.update(
                (value.name, value) for values in (op.results, *(each.args for each in op.regions)) for value in values
            )
        same = str(result.graph) == str(target)
        self.standing: Mapping[Value, Value] = result.optimized.outcome.standing if same else {}
        self.outer = {*source.inputs, *(value for op in source.body.ops for value in op.results)}

    def counterpart(self, value: Value) -> Value | None:
        """The value of the second graph that stands for one of the first."""
        if value in self.source.inputs:
            place = self.source.inputs.index(value)
            return self.target.inputs[place] if place < len(self.target.inputs) else None
        found = self.standing.get(value)
        if found is not None:
            return self.named.get(found.name)
        return None if self.standing and value in self.outer else self.named.get(value.name)

    def run(self) -> Diff:
        source = list(self.source.body.walk())
        target = list(self.target.body.walk())
        rows, met = [], set[str]()
        for op in source:
            rows.append(self.row(op, met))
        effects = [self.effect_key(op) for op in source if not op.results]
        for op in target:
            if op.results and op.results[0].name not in met:
                rows.append(DiffRow("added", f"%{op.results[0].name}", "", print_op(op), (), str(op.location)))
            elif not op.results and self.effect_key(op) not in effects:
                rows.append(DiffRow("added", "", "", print_op(op), (), str(op.location)))
        return Diff(tuple(rows), len(source), len(target))

    def effect_key(self, op: Op) -> object:
        return op.name, hashable(dict(op.attrs)), len(op.operands)

    def row(self, op: Op, met: set[str]) -> DiffRow:
        if not op.results:
            kept = any(self.effect_key(other) == self.effect_key(op) for other in self.target.body.walk())
            return DiffRow(
                "same" if kept else "removed", "", print_op(op), print_op(op) if kept else "", (), str(op.location)
            )
        value = next((each for each in op.results if self.counterpart(each) is not None), op.results[0])
        now = self.counterpart(value)
        made = self.made.get(now.name) if now is not None else None
        if now is None:
            return self.changed("removed", op, "")
        if made is None:
            return self.changed("merged", op, f"{now!r}")
        fresh = made.results[0].name not in met
        met.add(made.results[0].name)
        if self.same(op, made):
            return DiffRow(
                "same" if fresh else "merged", f"%{value.name}", print_op(op), print_op(made), (), str(op.location)
            )
        return self.changed("rewritten" if fresh else "merged", op, print_op(made))

    def same(self, op: Op, made: Op) -> bool:
        """Whether an op is the same one on the same operands."""
        if op.name != made.name or len(op.operands) != len(made.operands):
            return False
        operands = [self.counterpart(value) for value in op.operands]
        if [each.name if each is not None else "" for each in operands] != [value.name for value in made.operands]:
            return False
        if list(map(_region, op.regions)) != list(map(_region, made.regions)):
            return False
        return self.forms(op) == self.forms(made)

    def forms(self, op: Op) -> object:
        """The attributes with sizes in their normal form."""
        normal = self.result.optimized.sizes.normal_form

        def form(attr: object) -> object:
            if isinstance(attr, Dim):
                return normal(attr)
            return tuple(map(form, attr)) if isinstance(attr, tuple) else attr

        return hashable({key: form(attr) for key, attr in op.attrs.items()})

    def changed(self, change: Change, op: Op, after: str) -> DiffRow:
        why = self.result.explain_value(op.results[0].name).why
        return DiffRow(change, f"%{op.results[0].name}", print_op(op), after, why, str(op.location))


def _region(region: Block) -> object:
    return region_key(region, region.captures())
