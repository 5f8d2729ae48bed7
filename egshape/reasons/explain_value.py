"""What became of a value of the original graph: the rules that rewrote it, and what stands for it in the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from egshape.decide.reason import Rule
from egshape.egraph.outcome import Reason
from egshape.errors import InvalidInput
from egshape.ir.graph import Block, Graph, Op, Value, blocks_of
from egshape.reasons.steps import ELEMENTS, READER, SAME_TERM, UNREAD
from egshape.report import Step, ValueExplanation
from egshape.result import Optimization
from egshape.sizes import parents_of, value_of, values_of
from egshape.spelling import near

_MAX_STEPS = 24

Status = Literal["input", "kept", "rewritten", "gone"]


class History:
    """The histories of the values of one result: what is looked up for all of them is found once."""

    def __init__(self, result: Optimization) -> None:
        outcome = result.optimized.outcome
        body = result.source.body
        self.source = result.source
        self.standing: Mapping[Value, Value] = outcome.standing
        self.unchanged = result.unchanged
        self.seen = {scope.block for scope in outcome.scopes}
        self.parents = parents_of(body)
        self.home: dict[Value, tuple[Block, Op | None]] = {}
        self.readers: dict[Value, list[Op]] = {}
        for block in blocks_of(body):
            self.home.update(dict.fromkeys(block.args, (block, None)))
            for op in block.ops:
                self.home.update(dict.fromkeys(op.results, (block, op)))
                reads = [*op.operands, *(value for region in op.regions for value in region.captures())]
                for value in dict.fromkeys(reads):
                    self.readers.setdefault(value, []).append(op)
        self.made = {value: op for op in result.graph.body.walk() for value in op.results}
        self.reasons: dict[tuple[str, str], list[Reason]] = {}
        for each in outcome.reasons:
            self.reasons.setdefault((each.value, each.location), []).append(each)
        self.elements = {value: each for scope in outcome.scopes for value, each in scope.elements.items()}
        self.twins: dict[Value, Value] = {}
        """The first value of the original for each value of the result."""
        for old in self.home:
            if old in self.standing:
                self.twins.setdefault(self.standing[old], old)

    def named(self, name: str) -> ValueExplanation:
        """The chain of rules for one value: by its name, ``%12``, an output's name, or the place of its op in the
        model, a node's name or ``file.mlir:7``. Raises InvalidInput if the model has no such value."""
        value = value_of(self.source, name)
        if value is None:
            raise InvalidInput(f"the model has no value {name!r}", hint=_known(self.source, name))
        return self.of(value)

    def removed(self) -> tuple[ValueExplanation, ...]:
        """The chains of all values whose op is not in the result, in program order."""
        every = (self.of(value) for op in self.source.body.walk() for value in op.results[:1])
        return tuple(each for each in every if each.status in ("rewritten", "gone"))

    def of(self, value: Value) -> ValueExplanation:
        """The whole story of one value."""
        block, op = self.home[value]
        if op is None:
            return ValueExplanation(
                value=_shown(value),
                op="input" if block not in self.parents else "argument",
                location="",
                status="input",
                stands=str(value.type),
            )
        now = self._now(value)
        status = self._status(op, now)
        why = () if status == "kept" else tuple(self._steps(value, op, now))
        if status == "rewritten" and not why and now is not None:
            why = (self._folded(value, op, now),)
        if status == "gone" and not why:
            why = (Step(rule=UNREAD, to=f"%{value.name} is not needed", location=str(op.location)),)
        return ValueExplanation(
            value=_shown(value),
            op=op.name,
            location=str(op.location),
            status=status,
            stands=now.text if now else None,
            why=why,
        )

    def _now(self, value: Value) -> _Now | None:
        """What computes a value in the result."""
        block, op = self.home[value]
        if self.unchanged:
            return _Now(value, op)
        if block not in self.seen:  # a region that is copied as it is, with the op that it belongs to
            outer = self._outermost(block)
            results = outer.results if outer is not None else ()
            stands = not results or any(result in self.standing for result in results)
            return _Now(value, op) if stands else None
        new = self.standing.get(value)
        return _Now(new, self.made.get(new)) if new is not None else None

    def _folded(self, value: Value, op: Op, now: _Now) -> Step:
        """The step for a value that no rule united with another term."""
        twin = self.twins.get(now.value, value)
        to = f"%{value.name} = %{twin.name}" if twin is not value else now.text
        return Step(rule=SAME_TERM, from_=(_line(op),), to=to, location=str(op.location))

    def _outermost(self, block: Block) -> Op | None:
        """The op of a rewritten block in whose regions this block lies."""
        while block in self.parents:
            block, op = self.parents[block]
            if block in self.seen:
                return op
        return None

    def _status(self, op: Op, now: _Now | None) -> Status:
        if now is None:
            return "gone"
        same = now.op is not None and now.op.name == op.name and now.op.location == op.location
        return "kept" if same else "rewritten"

    def _steps(self, value: Value, op: Op, now: _Now | None) -> Iterator[Step]:
        """The rules that rewrote a value; for one that is gone, then those by which its readers let it go."""
        seen: set[Value] = {value}
        waiting = [(value, op)]
        count = 0
        while waiting and count < _MAX_STEPS:
            current, made_by = waiting.pop(0)
            here = now if current is value else self._now(current)
            for step in self._rules(current, made_by, here):
                count += 1
                yield step
            if here is not None and current is not value:
                continue
            if here is not None:
                return
            for reader in self.readers.get(current, ()):
                for result in reader.results[:1]:
                    if result not in seen:
                        seen.add(result)
                        yield Step(
                            rule=READER,
                            from_=(_line(reader),),
                            to=f"%{result.name} is computed without %{current.name}",
                            location=str(reader.location),
                        )
                        waiting.append((result, reader))

    def _rules(self, value: Value, op: Op, now: _Now | None) -> Iterator[Step]:
        found = self.reasons.get((value.name, str(op.location)), ())
        done: set[tuple[Rule, str]] = set()
        own = f"%{value.name}"
        if value in self.elements and op.name != "constant":
            sizes = ", ".join(str(item) for item in self.elements[value].reshape(-1)[:8])
            yield Step(rule=ELEMENTS, from_=(_line(op),), to=f"{own} = [{sizes}]", location=str(op.location))
        plain = all(each.other in ("", value.name) for each in found)
        for each in sorted(found, key=lambda reason: (reason.made or not reason.other, str(reason.rule), reason.other)):
            if each.other == value.name:
                continue
            to = now.text if plain and now is not None else f"a new form of {own}"
            to = f"{own} = %{each.other}" if each.other and not each.made else to
            if (each.rule, to) in done:
                continue
            done.add((each.rule, to))
            yield Step(rule=each.rule.name, from_=(_line(op),), to=to, location=each.location)


@dataclass(frozen=True)
class _Now:
    """A value of the result and the op that computes it (None for an input)."""

    value: Value
    op: Op | None

    @property
    def text(self) -> str:
        return f"{_line(self.op) if self.op is not None else _shown(self.value)} : {self.value.type}"


def _line(op: Op) -> str:
    """An op in short: its result, its name, what it reads."""
    return (
        f"%{op.results[0].name} = {op.name}({', '.join(f'%{each.name}' for each in op.operands)})"
        if op.results
        else f"{op.name}({', '.join(f'%{each.name}' for each in op.operands)})"
    )


def _shown(value: Value) -> str:
    return f"%{value.name}"


def _known(source: Graph, name: str) -> str:
    like = near(name.removeprefix("%"), values_of(source), 3)
    if not like:
        return "it has none"
    return f"near are {', '.join(f'%{each}' for each in like)}; egshape shapes lists all, and places, which will do too"
