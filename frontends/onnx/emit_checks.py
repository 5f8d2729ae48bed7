"""Checks as nodes that fail in any runtime.

A condition picks a place in a table of one, 0 where it holds, else another, which Gather rejects; its name, which
runtimes print, says the condition. Some conditions are such a place themselves: a % 8, and a // 513 for a <= 512. The
checks of a graph form a chain, the table of each being what the check before found, and the last one finds the shape of
a Reshape through which an input, or an output, goes: nothing of it is dead, and nothing can be computed before a run.
A condition that is no place stands last: it chooses that shape, or one that no tensor has, without a table. How far a
size is from a list of intervals is such a place too: a table, which ends with the last interval, tells it, or where
that begins if it has no end.
``checks`` reads them back.

Not written are checks that a written node makes by itself: of sizes that it broadcasts or contracts, and of a Reshape
that takes what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from onnx import NodeProto, helper

from egshape.dims import (
    Atom,
    Dim,
    FloorDiv,
    const,
    floordiv,
    is_nonnegative,
    maximum,
    minimum,
    product,
)
from egshape.dims.forms import FORMS
from egshape.errors import EgshapeError
from egshape.facts import Relation, parse_facts
from egshape.frontends.onnx.checks import NO_SIZE, TITLE, described, distances
from egshape.frontends.onnx.emit_scope import Frame, Guard, Scope
from egshape.frontends.onnx.emit_sizes import EXTREMES, Sizes
from egshape.frontends.onnx.subgraphs import reads, rebind
from egshape.frontends.size_ranges import SIZE, Range, Ranges
from egshape.frontends.size_terms import forms
from egshape.ir.graph import Op, Value, relation_of
from egshape.ir.types import integer_range

COMPARISONS = 9
"""The opset since which Where exists and Less compares integers."""

MOST_DISTANCES = 4096
"""A table of distances has less rows."""

VECTORS = 11
"""The opset since which there is GatherND."""


MOST = integer_range("i64")[1]


class Unheld(Exception):
    """A check has no form as nodes; the text says why."""


@dataclass(frozen=True)
class Lost:
    """A check that the model's nodes do not make: its condition, "" for one on data, and why."""

    text: str
    message: str
    why: str


class Checks:
    """Writes checks into the graphs of a scope."""

    def __init__(self, scope: Scope, sizes: Sizes) -> None:
        self.scope = scope
        self.sizes = sizes

    # -- conditions ----------------------------------------------------------------------------------------------

    def relation(self, op: Op) -> None:
        """A check of sizes. Raises Unheld."""
        self._need_opset()
        lhs, rhs = op.attrs["sides"]
        relation = Relation(op.attrs["relation"], lhs, rhs)
        if self._listed(op, relation):
            return
        divisors = [need.one for need in relation.conditions()]
        if not all(map(is_nonnegative, divisors)):
            raise Unheld("it divides by what may be negative")
        for divisor in divisors:  # runtimes end where integers are divided by 0
            self._compared(Relation("!=", divisor, const(0)), f"{relation} divides by 0")
        safe = Relation(relation.kind, _safe(lhs), _safe(rhs))
        self._compared(safe, described(op), op.attrs.get("fact", ""))

    def value(self, op: Op, name: str) -> None:
        """A check of data: ``name`` is a boolean scalar. Raises Unheld."""
        self._need_opset()
        self._seal()
        self._add(Guard(name, True, op.attrs["message"], described(op)))

    def _need_opset(self) -> None:
        if self.scope.opset < COMPARISONS:
            raise Unheld(f"opset {self.scope.opset} cannot compute it")

    def _listed(self, op: Op, relation: Relation) -> bool:
        """Write all conditions of a fact that lists intervals as one, where this is one of them, and a table tells how
        far a size is from the list."""
        frame, fact = self.scope.frame, op.attrs.get("fact", "")
        listed = _listing(fact)
        if listed is None or (listed.ranges[-1][1] is None and self.scope.opset < EXTREMES):
            return False
        parts, here = listed.parts(), {relation_of(each) for each in frame.block.ops if each.attrs.get("fact") == fact}
        if relation not in parts or not here.issuperset(parts):
            return False
        if relation in frame.made:
            return True
        least, last = listed.ranges[-1]
        most = least if last is None else last
        assert most is not None
        if not self._at_entry(relation):
            self._seal()
        try:
            size = self.sizes.one(listed.lhs if last is not None else minimum(listed.lhs, const(most)))
        except EgshapeError as error:
            raise Unheld(error.message) from error
        table = self.scope.constant(np.array(distances(listed.ranges, most + 1), np.int64), "distances")
        guard = Guard("", None, fact, described(op))
        self._add(replace(guard, name=self._named(frame, guard, "Gather", [table, size], "distance", axis=0)))
        frame.made.update(parts)
        return True

    def _compared(self, relation: Relation, text: str, title: str = "") -> None:
        if not self._at_entry(relation):
            self._seal()
        if any(relation in frame.made for frame in self.scope.frames):
            return
        self.scope.frame.made.add(relation)
        try:
            self._add(self._guard(relation, text, title))
        except EgshapeError as error:
            raise Unheld(error.message) from error

    def _guard(self, relation: Relation, text: str, title: str) -> Guard | None:
        """What fails where a relation does not hold; None where that cannot be."""
        alternatives = list(map(self._cheapest, relation.alternatives()))
        found = alternatives[0]
        if len(alternatives) > 1:
            name = reduce(lambda one, two: self._shared("Or", one, two), map(self._true, alternatives))
            return Guard(name, True, title or str(relation), text)
        if found.kind == "<=" and (found.rhs.const or 0) >= MOST:
            return None  # what the file computes fits 64 bits
        if found.kind in ("==", "!="):  # either way round it is one comparison, also when it is read back
            lhs, rhs = sorted((found.lhs, found.rhs), key=lambda size: (size.const is not None, str(size)))
            found = Relation(found.kind, lhs, rhs)
        held = _place(found)
        if held is not None:
            return Guard(self.sizes.one(held), None, title or str(found), text)
        return Guard(*self._flag(found), title or str(found), text)

    def _shared(self, op: str, *inputs: str) -> str:
        return self.scope.shared(op, list(inputs), op.lower(), self.scope.frame)

    def _true(self, relation: Relation) -> str:
        """A boolean that is true where a comparison holds."""
        name, holds = self._flag(relation)
        return name if holds else self._shared("Not", name)

    def _flag(self, relation: Relation) -> tuple[str, bool]:
        """A boolean, and what it is where a comparison holds."""
        x, y = self.sizes.one(relation.lhs), self.sizes.one(relation.rhs)
        if relation.kind in ("==", "!="):
            return self._shared("Equal", x, y), relation.kind == "=="
        return (self._shared("Less", x, y), True) if relation.kind == "<" else (self._shared("Less", y, x), False)

    def _cheapest(self, relation: Relation) -> Relation:
        """Of the equivalent comparisons that 64 bits hold the one with the fewest new nodes."""
        ranges = Ranges(64, self._range, self._counts)
        best, least = None, 0
        for kind, lhs, rhs in forms(relation.kind, relation.lhs, relation.rhs):
            if ranges.of(lhs) is None or ranges.of(rhs) is None:
                continue
            cost = self.sizes.cost((lhs, rhs))
            if best is None or cost < least:
                best, least = Relation(kind, lhs, rhs), cost
        if best is None:
            raise Unheld("its arithmetic may not fit 64 bits")
        return best

    def _range(self, name: str) -> Range | None:
        define = next((frame.symbols[name] for frame in reversed(self.scope.frames) if name in frame.symbols), None)
        if define is None or define.axis is not None:
            return SIZE
        # A negative one is rejected by a check of its own, or by the op that takes it as a size.
        return max(0, define.offset), integer_range(define.value.type.dtype)[1] + define.offset

    @cached_property
    def _counts(self) -> frozenset[Dim]:
        """The numbers of elements of the inputs."""
        return frozenset(
            product(value.type.dims) for value in self.scope.frames[0].block.args if value.type.shape is not None
        )

    def _at_entry(self, relation: Relation) -> bool:
        """Whether all sizes are known when the outermost graph is entered."""
        outer = self.scope.frames[0]
        return all(
            name in outer.symbols and outer.symbols[name].value in outer.block.args for name in relation.symbols()
        )

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _seal(self) -> None:
        """What was checked so far needs sizes of inputs only: that stands first, and what follows is apart."""
        frame = self.scope.frame
        if not frame.sealed:
            frame.entries, frame.guards, frame.sealed = frame.guards, [], True

    def _add(self, guard: Guard | None) -> None:
        s = self.scope
        if guard is None:
            return
        s.frame.guards.append(guard)
        if not s.frame.sealed:
            s.frame.known = len(s.frame.nodes)

    def joined(self, name: str, value: Value, hint: str) -> str:
        """A tensor of the graph under construction, through what its checks found; as it is where there are none."""
        frame = self.scope.frame
        out = name
        for guards in (frame.entries, frame.guards):
            if guards:
                out = self._through(frame, guards, out, value, hint)
        frame.entries, frame.guards = [], []
        return out

    def _through(self, frame: Frame, guards: Sequence[Guard], name: str, value: Value, hint: str) -> str:
        """Behind all nodes so far: a tensor reshaped to what the last check found, or a scalar as its table."""
        s, rank = self.scope, value.type.rank
        *others, last = sorted(guards, key=lambda guard: guard.holds is not None)
        if not rank:
            table = s.node("Reshape", [name, s.ints([1], "size")], f"{hint}_line", frame)
            return self._vector(frame, self._looked_up(frame, table, others), last)
        if last.holds is None:
            table = s.constant(np.zeros((1, rank), np.int64), "table")
            shape = self._vector(frame, self._looked_up(frame, table, others), last)
            return s.node("Reshape", [name, shape], hint, frame)
        found = self._looked_up(frame, s.ints([0], "table"), others)
        none = s.ints([NO_SIZE] + [1] * (rank - 1), "no_shape")
        shape = s.node("Where", [last.name, *((found, none) if last.holds else (none, found))], "shape", frame)
        return self._named(frame, last, "Reshape", [name, shape], hint)

    def _looked_up(self, frame: Frame, table: str, guards: Iterable[Guard]) -> str:
        """The only row of a table, itself a table, that all of these checks find."""
        for guard in guards:
            table = self._named(frame, guard, "Gather", [table, self._place(frame, guard)], "checked", axis=0)
        return table

    def _vector(self, frame: Frame, table: str, guard: Guard) -> str:
        """The only row of a table, with an axis less, that a check finds."""
        s, inputs = self.scope, [table, self._place(frame, guard)]
        if s.opset >= VECTORS:
            return self._named(frame, guard, "GatherND", inputs, "checked")
        row = self._named(frame, guard, "Gather", inputs, "checked", axis=0)
        return s.node("Squeeze", [row], "row", frame, axes=[0])

    def _place(self, frame: Frame, guard: Guard) -> str:
        """0 where a check holds, else another place."""
        s = self.scope
        if guard.holds is None:
            return guard.name
        places = [s.ints([int(holds is not guard.holds)], "size") for holds in (True, False)]
        return s.node("Where", [guard.name, *places], "place", frame)

    def _named(self, frame: Frame, guard: Guard, op: str, inputs: Sequence[str], hint: str, **attributes: int) -> str:
        """A node that fails where a check does: its name says so."""
        s = self.scope
        (title, text), name = (guard.title, guard.text), s.names.fresh(hint)
        title = s.titles.fresh(TITLE + title)
        frame.nodes.append(helper.make_node(op, inputs, [name], name=title, doc_string=text, **attributes))
        return name

    # -- the outermost graph -------------------------------------------------------------------------------------

    def attach(self, inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> None:
        """Join the checks of the outermost graph to an input that is read behind them, else to an output. Raises
        Unheld where there is neither."""
        frame = self.scope.frame
        self._seal()
        if frame.entries and self._to_input(frame, inputs, outputs):
            frame.entries = []
        if frame.entries or frame.guards:
            self._to_output(frame, outputs)

    def _to_input(self, frame: Frame, inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> bool:
        read = {name for node in _live(frame.nodes, outputs)[frame.known :] if node is not None for name in reads(node)}
        name = next((name for name, value in inputs.items() if name in read and value.type.shape), None)
        if name is None:
            return False
        behind = frame.nodes[frame.known :]
        del frame.nodes[frame.known :]
        found = self._through(frame, frame.entries, name, inputs[name], f"{name}_checked")
        for node in behind:
            _renamed(node, name, found)
        frame.nodes.extend(behind)
        frame.typed.append((found, inputs[name]))
        return True

    def _to_output(self, frame: Frame, outputs: Mapping[str, Value]) -> None:
        made = {name for node in frame.nodes for name in node.output}
        there = [(name, value) for name, value in outputs.items() if name in made and value.type.shape is not None]
        if not there:
            raise Unheld("the model has no output of known rank to which it could be joined")
        name, value = max(there, key=lambda pair: bool(pair[1].type.shape))
        bare = self.scope.names.fresh(f"{name}_unchecked")
        for node in frame.nodes:
            node.output[:] = [bare if each == name else each for each in node.output]
            _renamed(node, name, bare)
        frame.typed.append((bare, value))
        found = self.joined(bare, value, name)
        for node in frame.nodes:
            node.output[:] = [name if each == found else each for each in node.output]


def _listing(fact: str) -> Relation | None:
    """The fact of a text, if it lists intervals that end, or the last of which begins, where a table may end, of what
    is not negative."""
    try:
        found = parse_facts(fact)
    except EgshapeError:
        return None
    only = found[0] if len(found) == 1 else None
    if not isinstance(only, Relation) or only.kind != "in" or only.needs or len(only.ranges) < 2:
        return None
    least, last = only.ranges[-1]
    most = least if last is None else last
    return only if most is not None and most < MOST_DISTANCES and is_nonnegative(only.lhs) else None


def _place(relation: Relation) -> Dim | None:
    """What is 0 where a relation holds, else positive, and takes one operation at most: a // 513 for a <= 512, a % 8
    for a % 8 == 0."""
    lhs, rhs = relation.lhs, relation.rhs
    if relation.kind in ("<=", "<") and rhs.const is not None and is_nonnegative(lhs):
        past = rhs.const + (relation.kind == "<=")
        return floordiv(lhs, const(past)) if past > 0 else None
    if relation.kind == "==":
        return next((one for one, two in ((lhs, rhs), (rhs, lhs)) if two.const == 0 and is_nonnegative(one)), None)
    return None


def _live(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto | None]:
    """The nodes, None in the place of those on which no output depends."""
    wanted = set(outputs)
    out: list[NodeProto | None] = []
    for node in reversed(nodes):
        live = not wanted.isdisjoint(node.output)
        wanted.update(reads(node) if live else ())
        out.append(node if live else None)
    return out[::-1]


def _renamed(node: NodeProto, old: str, new: str) -> None:
    """Let a node, its subgraphs included, read another name."""
    node.input[:] = [new if name == old else name for name in node.input]
    rebind(node, {old: new}, str)


def _safe(dim: Dim) -> Dim:
    """The same size wherever it is defined, in which nothing divides by 0."""
    return dim.map_atoms(_safe_atom)


def _safe_atom(atom: Atom) -> Dim:
    args = [_safe(arg) for arg in atom.args]
    if isinstance(atom, FloorDiv):
        args[1] = maximum(args[1], const(1))
    return FORMS.remade(atom, args)
