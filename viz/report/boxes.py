"""What is drawn as one box: a part of the model under the name that the model gives it, with the ops of ours in it.

An op whose only readers lie in one box, and that comes from the same place of the model, is part of that box: an Add
of ONNX with the broadcast of its operand. So a box is a tree of ops, and boxes depend on each other in no circle. A
move that is no part of the written model is part of each box that reads it: the nodes there make it by themselves.
Constants are told in the boxes that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from egshape.errors import EgshapeError
from egshape.frontends.registry import of_graph
from egshape.ir.expand import expand
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ops import REGISTRY
from egshape.viz.graph import shape_code


@dataclass(frozen=True, eq=False)
class Box:
    """A box. ``ops``: in program order, that which the box is named after last. ``parts``: the regions that are drawn
    below it, ended by a box of the kind "end"."""

    kind: str
    title: str
    ops: tuple[Op, ...] = ()
    gives: tuple[Value, ...] = ()
    reads: tuple[Value, ...] = ()
    parts: tuple[Part, ...] = ()
    end: Box | None = None
    code: bool = False
    """Whether it only computes sizes."""

    @property
    def op(self) -> Op | None:
        """The op that it is named after."""
        return self.ops[-1] if self.ops else None


@dataclass(frozen=True)
class Part:
    """The boxes of a region."""

    label: str
    boxes: tuple[Box, ...]


@dataclass
class Boxes:
    """The boxes of a graph. ``of``: the box of each op and of each value that an op, input or argument gives;
    ``constants``: the op of each constant that has no box of its own."""

    graph: Graph
    titles: Mapping[str, str]
    """What the model calls what stands at a location."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """What the written model calls what gives a value, by the value's name."""
    roots: Mapping[tuple[str, str], None] | None = None
    """The ops (by name) that carry these names at their locations; None: whichever comes last there."""
    top: tuple[Box, ...] = ()
    every: list[Box] = field(default_factory=list)
    of: dict[Op | Value, Box] = field(default_factory=dict)
    constants: dict[Value, Op] = field(default_factory=dict)
    code: frozenset[Op] = frozenset()

    def named(self) -> dict[tuple[str, str], None]:
        """The ops that boxes are named after, by location and name."""
        return {(str(box.op.location), box.op.name): None for box in self.every if box.op is not None}

    def outside(self, value: Value) -> Box | None:
        """The box from which a value comes, once regions are done; None for a constant."""
        box = self.of.get(value)
        return box.end or box if box is not None else None


def boxes_of(graph: Graph, like: Boxes | None = None) -> Boxes:
    """The boxes of a graph. ``like``: those of the graph that it was made of, whose names it keeps."""
    frontend = of_graph(graph)
    titles = like.titles if like is not None else frontend.titles(graph) if frontend is not None else {}
    nodes: Mapping[str, str] = {}
    if frontend is not None:
        with suppress(EgshapeError, MemoryError, ValueError):  # saying what cannot be written is for whoever saves it
            nodes = frontend.nodes(expand(graph, keep=True))
    out = Boxes(graph, titles, nodes, like.named() if like is not None else None, code=shape_code(graph))
    inputs = [_add(out, Box("input", value.name, gives=(value,))) for value in graph.inputs]
    out.top = (*inputs, *_block(out, graph.body))
    ends: dict[int, list[Box]] = {}
    for name, value in zip(graph.output_names, graph.outputs, strict=True):
        ends.setdefault(id(value), []).append(_add(out, Box("output", name, reads=(value,))))
    out.top = tuple(_with_outputs(out.top, ends))
    return out


def _with_outputs(boxes: Sequence[Box], ends: dict[int, list[Box]]) -> Iterator[Box]:
    """Outputs stand behind what gives them."""
    for box in boxes:
        yield box
        for value in box.gives:
            yield from ends.pop(id(value), ())
    for left in ends.values():
        yield from left


def _add(out: Boxes, box: Box) -> Box:
    out.every.append(box)
    out.of.update(dict.fromkeys((*box.ops, *box.gives), box))
    return box


def _block(out: Boxes, block: Block) -> list[Box]:
    """The boxes of a block in program order; what nothing is read by but one box stands right before that."""
    readers: dict[Value, list[Op]] = {}
    for op in block.ops:
        for value in op.reads():
            readers.setdefault(value, []).append(op)
    kept = set(block.results)
    roots: dict[Op, tuple[Op, ...]] = {}
    members: dict[Op, list[Op]] = {}
    for op in reversed(block.ops):
        if op.name == "constant" and op.results[0] not in kept:
            out.constants[op.results[0]] = op
            continue
        roots[op] = _roots(out, op, readers, kept, roots)
        for root in roots[op]:
            members.setdefault(root, []).append(op)
    return [_box(out, tuple(reversed(members[op]))) for op in block.ops if op in members]


def _roots(
    out: Boxes, op: Op, readers: Mapping[Value, Sequence[Op]], kept: set[Value], roots: Mapping[Op, tuple[Op, ...]]
) -> tuple[Op, ...]:
    """The ops in whose boxes an op lies."""
    where = str(op.location)
    if op.regions or op.name == "check" or kept.intersection(op.results) or _node(out, op):
        return (op,)
    reading = [each for value in op.results for each in readers.get(value, ())]
    if any(each not in roots for each in reading):
        return (op,)
    found = tuple(dict.fromkeys(root for each in reading for root in roots[each]))
    if where in out.titles and len(found) == 1 and str(found[0].location) == where and found[0].name != "check":
        return found
    implied = (
        out.nodes
        and REGISTRY[op.name].family == "movement"
        and all(_node(out, each) and not each.regions for each in found)
    )
    return found if found and implied else (op,)


def _node(out: Boxes, op: Op) -> str:
    """What the written model calls what gives an op's values, "" where nothing does by itself."""
    return next((out.nodes[value.name] for value in op.results if value.name in out.nodes), "")


def _box(out: Boxes, ops: tuple[Op, ...]) -> Box:
    last = ops[-1]
    own = set(ops)
    made = {value for op in ops for value in op.results}
    reads = tuple(dict.fromkeys(value for op in ops for value in op.reads() if value not in made))
    parts = tuple(_parts(out, last))
    results = tuple(value for region in last.regions if parts for value in region.results)
    end = _add(out, Box("end", "result", reads=results)) if parts else None
    code = own <= out.code
    return _add(out, Box("op", _title(out, last), ops, last.results, reads, parts, end, code))


def _parts(out: Boxes, op: Op) -> Iterator[Part]:
    """The regions of an op that are drawn: programs, not functions of scalars, nor what goes out as one."""
    if REGISTRY[op.name].traits.regions == "scalars" or op.attrs.get("whole"):
        return
    names = REGISTRY[op.name].regions
    for place, region in enumerate(op.regions):
        name = names[min(place, len(names) - 1)].removeprefix("*") if names else "region"
        args = [_add(out, Box("argument", value.name, gives=(value,))) for value in region.args]
        many = len(op.regions) > len(names)
        yield Part(f"{name} {place}" if many else name, (*args, *_block(out, region)))


def is_named(op: Op) -> bool:
    """Whether an op stands for a program under a name of its own."""
    return REGISTRY[op.name].traits.regions == "once" and bool(op.attrs.get("name"))


def _title(out: Boxes, op: Op) -> str:
    """The model's own name of an op, else ours with what its region does."""
    if is_named(op):
        name = str(op.attrs["name"])
        return name.rpartition(".")[2] if op.attrs.get("whole") else name
    node = _node(out, op)
    if node and op.name != "check":
        return node
    where = str(op.location)
    if where in out.titles and op.name != "check" and (out.roots is None or (where, op.name) in out.roots):
        return out.titles[where]
    inner = [region.ops[0].name for region in op.regions if len(region.ops) == 1]
    scalars = REGISTRY[op.name].traits.regions == "scalars"
    return f"{op.name} ({', '.join(inner)})" if inner and scalars else op.name
