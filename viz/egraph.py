"""The e-graph as a picture: classes as clusters, e-nodes inside, what was chosen in bold.

The picture of a whole e-graph is rarely readable: it is drawn around a value, or from the outputs up, and stops at a
number of classes; the title says what was left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from egshape.egraph.extract import Extraction
from egshape.egraph.snapshot import ENode
from egshape.egraph.terms import Candidate
from egshape.errors import InvalidInput
from egshape.ir.graph import Block, Value
from egshape.ir.types import TensorType
from egshape.limits import Limits
from egshape.ops import REGISTRY
from egshape.pipeline import run_stages
from egshape.rulelang.schema import ELEMENTWISE, constructor, has_constructor
from egshape.sizes import values_of
from egshape.trace import Tracer
from egshape.viz.dot import Cluster, Edge, Html, Item, Node, Picture, escaped
from egshape.viz.graph import legend, says_nothing
from egshape.viz.look import QUIET, Sizes, attribute, clipped, constant, small

if TYPE_CHECKING:
    from egshape.api import Result

MOST = 48
"""Classes in a picture unless it is asked for more."""
_MANY = 8
"""E-nodes of one class that are drawn."""
_CHOSEN = "#d6e8fb"


@dataclass(frozen=True)
class Seen:
    """The e-graph of one block when its choices were final."""

    block: Block
    extraction: Extraction

    def class_of(self, value: Value) -> int | None:
        """The class of a value of the original block, None for one that it does not have."""
        node = self.extraction.terms.encoding.node_of.get(value)
        return self.extraction.terms.class_of_node.get(node) if node is not None else None


def egraphs(result: Result, rules: Sequence[str] = (), limits: Limits | None = None) -> list[Seen]:
    """The e-graphs of a result's blocks, those of regions first: the stages run again, with the same outcome."""
    found: list[Seen] = []
    run_stages(
        result.source,
        result.facts,
        tuple(map(str, rules)),
        limits or Limits(),
        Tracer(),
        True,
        False,
        lambda block, extraction: found.append(Seen(block, extraction)),
    )
    return found


def picture(
    result: Result,
    around: str | None = None,
    hops: int = 2,
    most: int = MOST,
    rules: Sequence[str] = (),
    limits: Limits | None = None,
) -> Picture:
    """The e-graph around a value of the original graph (``%12``), or from the outputs up.

    hops: how many arrows away. most: how many classes are drawn at most. rules, limits: as for ``optimize``.
    Raises InvalidInput if the graph has no such value, or the e-graph has no class for it."""
    seen = egraphs(result, rules, limits)
    if not seen:
        raise InvalidInput(
            "there is no e-graph to draw: the model was not optimized", hint="the notes of egshape optimize say why"
        )
    own, start = _where(result, seen, around)
    wanted = _chosen_classes(own, start, hops if around is not None else None)
    drawing = _Drawing(own, set(wanted[:most]))
    items = tuple(drawing.items())
    total = len(own.extraction.terms.candidates)
    title = f"{result.source.name}: {min(len(wanted), most)} of {total} classes"
    title += f" ({'at most ' + str(hops) + ' arrows from ' + around if around else 'from the outputs up'})"
    if len(wanted) > most:
        title += f"\n{len(wanted) - most} more are in reach: --most N draws more, --around V those around a value"
    if drawing.left_out:
        title += f"\n{drawing.left_out} e-nodes of large classes are not drawn"
    attrs = {"label": title, "labelloc": "t", "compound": "true", "ranksep": "0.45"}
    return Picture(result.source.name, (*legend(drawing.sizes), *items), attrs)


def _where(result: Result, seen: Sequence[Seen], around: str | None) -> tuple[Seen, list[int]]:
    """The e-graph to draw, and the classes to begin with."""
    if around is None:
        own = next((each for each in seen if each.block is result.source.body), seen[-1])
        return own, list(own.extraction.roots)
    value = values_of(result.source).get(around.removeprefix("%"))
    if value is None:
        raise InvalidInput(f"the model has no value {around!r}", hint="egshape shapes lists them as %NAME")
    for each in seen:
        cls = each.class_of(value)
        if cls is not None:
            return each, [cls]
    raise InvalidInput(f"the e-graph has no class for {around!r}", hint="it is in a region that is copied as it is")


def _chosen_classes(own: Seen, start: Sequence[int], hops: int | None) -> list[int]:
    """Classes in reach, the nearest first: against the arrows too where ``hops`` limits them."""
    candidates = own.extraction.terms.candidates
    next_to: dict[int, list[int]] = {
        cls: [read for each in found for read in each.reads] for cls, found in candidates.items()
    }
    if hops is not None:
        for cls, found in candidates.items():
            for read in dict.fromkeys(read for each in found for read in each.reads):
                next_to.setdefault(read, []).append(cls)
    distance = dict.fromkeys(start, 0)
    queue = deque(start)
    while queue:
        cls = queue.popleft()
        if hops is not None and distance[cls] >= hops:
            continue
        for other in next_to.get(cls, ()):
            if other not in distance and other in candidates:
                distance[other] = distance[cls] + 1
                queue.append(other)
    return list(distance)


@dataclass(frozen=True)
class Row:
    """A class as a line of a table: its number from the inputs on, the values of the graph that are in it, its type,
    and its e-nodes as text, the chosen one first; ``used``: the program that is chosen needs it; ``reads``: the numbers
    of the classes that its e-nodes read."""

    number: int
    names: tuple[str, ...]
    type: str
    nodes: tuple[str, ...]
    used: bool
    reads: tuple[int, ...]


def rows(own: Seen, most: int = MOST) -> tuple[Row, ...]:
    """The classes in reach of the outputs as a table, ``most`` of them at most."""
    drawing = _Drawing(own, set(_chosen_classes(own, list(own.extraction.roots), None)[:most]))
    return tuple(drawing.rows())


class _Drawing:
    """The classes of one picture."""

    def __init__(self, own: Seen, wanted: set[int]) -> None:
        self.own = own
        self.extraction = own.extraction
        self.terms = own.extraction.terms
        self.wanted = wanted
        self.used = own.extraction.used()
        self.sizes = Sizes(own.extraction.terms.normal)
        self.left_out = 0
        self.names: dict[int, list[str]] = {}
        encoding = self.terms.encoding
        for node, cls in self.terms.class_of_node.items():
            value = encoding.values[node] if node < len(encoding.values) else None
            if value is not None:
                self.names.setdefault(cls, []).append(f"%{value.name}")

    def items(self) -> Iterator[Item]:
        order = sorted(self.wanted, key=lambda cls: self.extraction.order.get(cls, 0))
        places = {cls: place for place, cls in enumerate(order)}
        edges: list[Edge] = []
        for cls in order:
            found = self._shown(cls)
            nodes = []
            for k, candidate in enumerate(found):
                node = f"c{places[cls]}n{k}"
                nodes.append(self._node(node, cls, candidate))
                for read in candidate.reads:
                    if read in places:
                        edges.append(
                            Edge(
                                f"c{places[read]}n0",
                                node,
                                {
                                    "ltail": f"cluster_c{places[read]}",
                                    "color": self._edge_colour(cls, candidate, read),
                                    "penwidth": "1.8"
                                    if self._is_chosen(cls, candidate) and cls in self.used
                                    else "0.7",
                                },
                            )
                        )
            yield Cluster(f"c{places[cls]}", self._frame(cls), tuple(nodes))
        yield from edges

    def rows(self) -> Iterator[Row]:
        order = sorted(self.wanted, key=lambda cls: self.extraction.order.get(cls, 0))
        places = {cls: place for place, cls in enumerate(order)}
        for cls in order:
            nodes, reads = [], dict[int, None]()
            for candidate in self._shown(cls):
                title, details = self._text(candidate.node)
                reads |= {places[read]: None for read in candidate.reads if read in places}
                parts = [*(f"#{places[read]}" if read in places else "..." for read in candidate.reads), *details]
                nodes.append(f"{title}({', '.join(parts)})")
            shape = self.terms.shapes.get(self.terms.shape_of.get(cls, -1))
            dtype = self.terms.dtype_of.get(cls)
            type = str(TensorType(dtype, shape)) if dtype is not None else ""
            yield Row(places[cls], tuple(self.names.get(cls, ())), type, tuple(nodes), cls in self.used, tuple(reads))

    def _shown(self, cls: int) -> list[Candidate]:
        """The e-nodes of a class, the chosen one first; not more than can be read."""
        found = sorted(
            self.terms.candidates[cls],
            key=lambda each: (not self._is_chosen(cls, each), each.cost, str(each.node)),
        )
        self.left_out += max(0, len(found) - _MANY)
        return found[:_MANY]

    def _is_chosen(self, cls: int, candidate: Candidate) -> bool:
        chosen = self.extraction.chosen.get(cls)
        return chosen is not None and chosen.node == candidate.node

    def _node(self, node: str, cls: int, candidate: Candidate) -> Node:
        title, details = self._text(candidate.node)
        chosen = self._is_chosen(cls, candidate) and cls in self.used
        head = f"<b>{escaped(title)}</b>" if chosen else escaped(title)
        look = {"label": Html("<br/>".join([head, *map(small, details)])), "tooltip": f"cost {candidate.cost:.0f}"}
        if chosen:
            return Node(node, {**look, "fillcolor": _CHOSEN, "color": "#1f5fa8", "penwidth": "2.2"})
        return Node(node, {**look, "fillcolor": "#ffffff", "color": "#a9adb5", "fontcolor": "#444b57"})

    def _frame(self, cls: int) -> dict[str, str]:
        shape = self.terms.shapes.get(self.terms.shape_of.get(cls, -1))
        dtype = self.terms.dtype_of.get(cls)
        type = self.sizes.markup(TensorType(dtype, shape)) if dtype is not None else Html("")
        names = self.names.get(cls, [])
        shown = clipped(", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else ""), 60)
        label = Html(" ".join(filter(None, [f"<b>{escaped(shown)}</b>" if shown else "", type])))
        look = {"label": label, "style": "rounded,filled", "fontsize": "10", "fillcolor": "#f7f8fa", "color": "#b9c0c9"}
        if cls in self.used:
            return {**look, "color": "#1f5fa8", "fillcolor": "#f2f7fd"}
        return {**look, "style": "rounded,dashed"}

    def _edge_colour(self, cls: int, candidate: Candidate, read: int) -> str:
        if not (self._is_chosen(cls, candidate) and cls in self.used):
            return "#c3c8d0"
        shape = self.terms.shapes.get(self.terms.shape_of.get(read, -1))
        return self.sizes.edge_colour(TensorType("", shape)) if shape is not None else QUIET

    def _text(self, node: ENode) -> tuple[str, list[str]]:
        """An e-node's op, and its attributes."""
        encoding = self.terms.encoding
        if node.function == "Node":
            value = encoding.values[node.args[0]]
            found = encoding.op_of_node.get(node.args[0])
            return (found[1].name if found is not None else "input"), [f"%{value.name}"] if value is not None else []
        if node.function.lower() in ELEMENTWISE:
            return str(node.args[0]), []
        if node.function == "Call":
            return encoding.calls[node.args[0]].op.name, []
        if node.function in REGISTRY and has_constructor(REGISTRY[node.function]):
            return node.function, [clipped(text, 40) for text in self._attrs(node)]
        return node.function.lower(), [str(arg) for arg in node.args[1:] if isinstance(arg, str | int)][:2]

    def _attrs(self, node: ENode) -> Iterator[str]:
        form = constructor(REGISTRY[node.function])
        values = node.args[len(form.operands) :]
        for decl, sort, value in zip(form.decl.attrs, form.attrs, values, strict=True):
            if sort == "Shape":
                sizes = self.terms.shapes.get(value)
                if sizes is not None and decl.name != "shape" and not says_nothing(decl.name, sizes):
                    yield f"{decl.name} = {attribute(sizes)}"
            elif decl.kind == "array":
                yield constant(self.terms.encoding.constants[value])
            elif (sort == "Axes" or decl.kind in ("int", "bool", "text")) and value != ():
                yield f"{decl.name} = {attribute(value)}"
