"""A graph under construction: nodes in order, names, initializers, and what is already computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from egshape.decide.shown import compound_atoms
from egshape.dims import Call, Dim, bcast, broadcast_gap, const, minimum, symbol
from egshape.dims.functions import SHIPPED
from egshape.dims.joins import leaves
from egshape.facts import Relation
from egshape.frontends.bounds import Bounds
from egshape.ir.graph import Block, Graph, SymbolDef, Value, relation_of

SMALL = 1024
"""Constants of at most so many bytes that are equal become one initializer."""

Key = tuple[Any, ...]


def broadcast(sizes: Iterable[Dim]) -> Dim:
    """What sizes broadcast to."""
    return reduce(bcast, sizes, const(1))


def _joins(*sizes: Dim) -> list[Call]:
    """The sizes of broadcast axes in sizes."""
    compound = compound_atoms(sizes)
    return [atom for atom in compound if isinstance(atom, Call) and atom.function is SHIPPED["bcast"]]


def said_to_broadcast(graph: Graph) -> list[Relation]:
    """What must hold for the sizes of which checks speak to be those of broadcast axes: a reader, who meets the nodes
    of these checks first, knows them as such where it was checked before."""
    held = [each for each in map(relation_of, graph.body.walk()) if each is not None]
    pairs = [atom.args for each in held for atom in _joins(each.lhs, each.rhs)]
    return [Relation("==", broadcast_gap(one, two), const(0)) for one, two in pairs]


class Names:
    """Names of a model: ONNX wants them distinct over all subgraphs."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """The wanted name, or one made from it."""
        name, count = wanted or "value", self._next.get(wanted, 1)
        while name in self._used:
            name, count = f"{wanted}_{count}", count + 1
        self._next[wanted] = count
        self._used.add(name)
        return name


@dataclass(frozen=True)
class Guard:
    """A check to be written: ``name`` is a tensor of one element, a boolean that must be ``holds``, or where that is
    None an integer that must be 0 and is positive else. ``title`` and ``text`` say what fails."""

    name: str
    holds: bool | None
    title: str
    text: str


class Frame:
    """One (sub)graph: its nodes, and what it has already computed."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.nodes: list[NodeProto] = []
        self.memo: dict[Key, str] = {}
        self.symbols: dict[str, SymbolDef] = {each.name: each for each in block.symbols}
        self.axes: dict[Dim, tuple[Value, int]] = {}
        """The first value with an axis of a size, and the axis."""
        self.shapes: dict[tuple[Dim, ...], tuple[Value, int]] = {}
        """The first value whose shape holds a run of sizes, and where it begins."""
        self.typed: list[tuple[str, Value]] = []
        self.guards: list[Guard] = []
        """The checks, which wait to be joined to what is used."""
        self.entries: list[Guard] = []
        """Those of them that need sizes of inputs only, once there are others."""
        self.known = 0
        """Before so many nodes nothing is computed yet that they need."""
        self.made: set[Relation] = set()
        """Checks of sizes that are made here."""
        self.sealed = False
        """Whether there are others."""
        self.bound: list[Value] = []
        """Values that have their names in this graph and those inside of it only."""


class Scope:
    """The graphs from the outermost to the one under construction, and the initializers, which stand outermost."""

    def __init__(self, opset: int, bounds: Bounds, named: Callable[[Value], str]) -> None:
        """``named`` writes a value that waits for a reader."""
        self.opset = opset
        self.bounds = bounds
        self.named = named
        self.waiting: set[Value] = set()
        """Values that are written where something reads them."""
        self.names = Names()
        self.titles = Names()
        """Names of nodes."""
        self.frames: list[Frame] = []
        self.name_of: dict[Value, str] = {}
        self.initializers: dict[str, np.ndarray] = {}
        self._constants: dict[Key, str] = {}
        self.said: dict[Key, str] = {}
        self.enforced: dict[Block, set[Dim]] = {}
        """What is 0 in a run that does not fail, by the block whose nodes make sure of it."""
        self.refused = Bounds()
        """What is known of sizes in any run of the model as it is without checks (``refused``)."""
        self.broadcasting: list[Relation] = []
        """What is checked all the same (``said_to_broadcast``)."""
        self.wanted: dict[Block, list[Relation]] = {}
        """The checks of blocks that a Gather, or a Reshape that takes what is left, could make, in their order."""
        self.met: set[tuple[Block, Relation]] = set()
        """Those of them that a node makes."""
        self._checked: dict[Block, tuple[Bounds, set[Dim]]] = {}
        self.really: dict[Value, tuple[Dim, ...]] = {}
        """The sizes that nodes give to values, whose types say what checks make of them."""

    @property
    def frame(self) -> Frame:
        """The graph under construction."""
        return self.frames[-1]

    def close(self) -> Frame:
        """The innermost graph, done: its names are not seen outside."""
        frame = self.frames.pop()
        for value in frame.bound:
            self.name_of.pop(value, None)
        return frame

    # -- what nodes check ----------------------------------------------------------------------------------------

    def given(self, value: Value) -> tuple[Dim, ...]:
        """The sizes that nodes give a value whatever they are; its type says what they are if all checks hold."""
        return self.really.get(value, value.type.dims)

    def gives(self, value: Value, sizes: Sequence[Dim]) -> None:
        """A node gives a value these sizes."""
        self.really[value] = tuple(sizes)

    def equal(self, one: Dim, two: Dim) -> None:
        """A node rejects sizes that are not equal."""
        if one is not two:
            self.enforced.setdefault(self.frame.block, set()).add(one - two)

    def contracts(self, one: Value, first: int, two: Value, second: int) -> None:
        """A node rejects two values whose sizes at these axes are not equal."""
        self.equal(one.type.dims[first], two.type.dims[second])
        given = self.given(one)[first], self.given(two)[second]
        if _joins(*given):
            self.equal(*given)

    def spreads(self, held: Iterable[Dim], size: Dim) -> None:
        """A node rejects sizes that do not broadcast to ``size``: each is that or 1."""
        sizes = list(held)
        joined = broadcast(sizes) is size
        joined_sizes = [leaf for each in sizes for leaf in leaves(each)]
        gaps = (broadcast_gap(one, two) for one, two in combinations(joined_sizes, 2))
        self.enforced.setdefault(self.frame.block, set()).update(gaps)
        for each in sizes:
            if each is not size and each.const != 1 and (joined or self._only_with(size, each)):
                self.enforced.setdefault(self.frame.block, set()).add((each - 1) * (each - size))

    def _only_with(self, size: Dim, other: Dim) -> bool:
        """Whether a size is 1 only where the other is: then broadcasting cannot stretch the first instead."""
        for name in sorted(size.symbols()):
            rest = size - symbol(name)
            if name not in rest.symbols() and other.substitute({name: 1 - rest}).const == 1:
                return True
        return self.bounds.decide(Relation("!=", size, const(1))) is True

    def surely_equal(self, one: Dim, two: Dim) -> bool:
        """Whether sizes are equal in a run that no check rejects, without a check that says so by itself."""
        if one is two:
            return True
        bounds, said = self._plain()
        return said.isdisjoint((one - two, two - one)) and bounds.decide(Relation("==", one, two)) is True

    def must_be_one(self, size: Dim) -> bool:
        """Whether the checks of a block say that a size is 1."""
        return size.const == 1 or self._plain()[0].decide(Relation("==", size, const(1))) is True

    def taken(self, limit: Dim, size: Dim) -> Dim:
        """The size of what lies before a limit that may be past the end."""
        within = self._plain()[0].decide(Relation("<=", limit, size)) is True
        return limit if within else minimum(limit, size)

    def _plain(self) -> tuple[Bounds, set[Dim]]:
        """What is known where the checks of a block hold that speak of no broadcast size, and what these say to be 0.

        Those that do are checks that nodes may make by sizes which are known by the others."""
        block = self.frame.block
        if block not in self._checked:
            found = [each for each in map(relation_of, block.ops) if each and not _joins(each.lhs, each.rhs)]
            zero = {each.lhs - each.rhs for each in found if each.kind == "=="}
            self._checked[block] = self.bounds.with_fact(*found), zero
        return self._checked[block]

    def rejects(self, need: Relation) -> None:
        """A node rejects sizes for which a comparison does not hold, and with them those for which what follows from it
        does not."""
        block = self.frame.block
        for relation in self.wanted.get(block, ()):
            if relation.symbols() & need.symbols() and self.bounds.with_fact(need).decide(relation) is True:
                self.met.add((block, relation))

    def left_over(self, others: Dim, needless: bool = False) -> bool:
        """Whether a Reshape that takes what is left beside ``others`` makes a check that is wanted here: it rejects
        others that are 0. ``needless``: it could do without, so that it is made once."""
        positive = Relation("<=", const(1), others)
        for relation in self.wanted.get(self.frame.block, ()):
            key = self.frame.block, relation
            if (
                relation.symbols() & others.symbols()
                and not (needless and key in self.met)
                and self.bounds.with_fact(relation).decide(positive) is True
                and self.bounds.with_fact(positive).decide(relation) is True
            ):
                self.met.add(key)
                return True
        return False

    def makes(self, block: Block, relation: Relation) -> bool:
        """Whether a node of a block, or the model whatever the block, makes a check by itself."""
        if self.refused.decide(relation) is True:
            alone = Bounds().with_fact(relation)
            return not any(alone.decide(each) is True for each in self.broadcasting)
        rest = relation.lhs - relation.rhs
        known = self.enforced.get(block, ())
        return (block, relation) in self.met or (relation.kind == "==" and (rest in known or -rest in known))

    def read_before(self, block: Block, relation: Relation) -> bool:
        """Whether a check that is written, perhaps before the node that rejects what does not broadcast, reads the size
        to which it does."""
        rest = relation.lhs - relation.rhs
        others = [each for each in map(relation_of, block.ops) if each and not self.makes(block, each)]
        joined = (atom for each in others for atom in _joins(each.lhs, each.rhs))
        return any(broadcast_gap(*atom.args) in (rest, -rest) for atom in joined)

    def around(self, frame: Frame) -> Sequence[Frame]:
        """The graphs whose names one of them sees: those from the outermost to itself."""
        return self.frames[: self.frames.index(frame) + 1]

    def find(self, key: Key, frame: Frame | None = None) -> str | None:
        """The name of what a graph that is visible from ``frame``, the innermost by default, has computed."""
        seen = self.frames if frame is None else self.around(frame)
        return next((each.memo[key] for each in reversed(seen) if key in each.memo), None)

    def bind(self, value: Value, name: str) -> None:
        """A value is there from now on, and so are the sizes of its axes."""
        self.name_of[value] = name
        frame, dims = self.frame, value.type.shape or ()
        frame.bound.append(value)
        frame.typed.append((name, value))
        for axis, size in enumerate(dims):
            if size.const is None:
                frame.axes.setdefault(size, (value, axis))
        if len(dims) > 1:
            frame.shapes.setdefault(tuple(dims), (value, 0))
            if not frame.nodes:  # an input: worth to look into
                for start in range(len(dims)):
                    for end in range(start + 2, len(dims) + 1):
                        frame.shapes.setdefault(tuple(dims[start:end]), (value, start))

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        hint: str = "",
        frame: Frame | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Append a node with one output; its name."""
        name = self.names.fresh(hint or op.lower())
        (frame or self.frame).nodes.append(
            helper.make_node(op, list(inputs), [name], name=f"{op}:{name}", domain=domain, **attributes)
        )
        return name

    def shared(self, op: str, inputs: Sequence[str], hint: str, frame: Frame, **attributes: Any) -> str:
        """A node that is appended once: the same op on the same names gives the same name."""
        key: Key = ("node", op, tuple(inputs), tuple(sorted(attributes.items())))
        found = self.find(key, frame)
        if found is None:
            found = frame.memo[key] = self.node(op, inputs, hint, frame, **attributes)
        return found

    def constant(self, array: np.ndarray, hint: str) -> str:
        """The name of an initializer, that of the file where it has one; equal small ones are one."""
        key = _content(array)
        if key not in self._constants:
            name = self._constants[key] = self.names.fresh(self.said.get(key, hint))
            self.initializers[name] = array
        return self._constants[key]

    def give(self, array: np.ndarray, name: str) -> bool:
        """Make an initializer of a name that is an output's; False where the array has another name already."""
        key = _content(array)
        if key in self._constants:
            return False
        self._constants[key] = name
        self.initializers[name] = array
        return True

    def said_of(self, arrays: Iterable[tuple[str, np.ndarray]]) -> None:
        """Note the names of small initializers of the file that was read."""
        self.said = {_content(array): name for name, array in arrays if array.nbytes <= SMALL}

    def ints(self, numbers: Sequence[int], hint: str = "ints") -> str:
        """A constant vector of int64."""
        return self.constant(np.array(numbers, np.int64), hint)


def _content(array: np.ndarray) -> Key:
    """What equal small arrays have in common; a large one is itself alone."""
    what = array.tobytes() if array.nbytes <= SMALL else id(array)
    return array.dtype.str, array.dtype.name, array.shape, what
