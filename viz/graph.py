"""A graph as a picture: ops as boxes, values as arrows labelled with their symbolic shapes, regions as clusters.

Equal sizes have one colour. Constants, and values read far from where they are made, are named in the box that reads
them instead of being drawn as arrows: this is what keeps a large graph readable."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from egshape.dims import Dim
from egshape.errors import InvalidInput
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import is_integer
from egshape.ops import REGISTRY
from egshape.viz.dot import Cluster, Edge, Html, Item, Node, Picture, escaped
from egshape.viz.look import (
    CHECK,
    GONE,
    GONE_LINE,
    PAPER,
    RESULT,
    SHAPE_CODE,
    Sizes,
    attribute,
    clipped,
    constant,
    small,
)

Status = Literal["kept", "rewritten", "gone"]

SMALL = 60
"""Graphs of at most this many ops are drawn with their shape code."""
MANY = 6
"""A value with more readers than this is named in the boxes that read it."""
FAR = 14
"""So is one whose reader stands this many ops below it."""
_LINES = 4
_QUIET_ATTRS = frozenset(
    (
        "shape",
        "precision",
        "dtype",
        "kind",
        "value",
        "sides",
        "relation",
        "message",
        "args",
        "sorted",
        "unique",
        "elements",
    )
)


@dataclass(frozen=True)
class Look:
    """What to draw and how.

    shape_code: ops that only compute sizes; None draws them in a small graph. around, hops: only what is at most
    ``hops`` arrows away from a value. status: what became of each op; those not kept are struck out. groups: the name
    of the cluster of each op, such as its kernel. prefix: of node ids, for several graphs in one picture."""

    shape_code: bool | None = None
    around: str | None = None
    hops: int = 3
    status: Mapping[Op, Status] = field(default_factory=dict)
    groups: Mapping[Op, str] = field(default_factory=dict)
    prefix: str = ""


def to_dot(graph: Graph, look: Look | None = None, normal: Callable[[Dim], Dim] | None = None) -> str:
    """The DOT text of a graph; it is deterministic. ``normal`` gives equal sizes one form, and so one colour.

    Raises InvalidInput if ``look.around`` names no value of the graph."""
    return str(picture(graph, look, normal))


def picture(graph: Graph, look: Look | None = None, normal: Callable[[Dim], Dim] | None = None) -> Picture:
    """The picture of a graph, with a title that says what was left out."""
    drawing = Drawing(graph, look or Look(), Sizes(normal))
    drawn = tuple(drawing.items())
    items = (*legend(drawing.sizes), *drawn)
    title = "\n".join([graph.name, *drawing.notes()])
    return Picture(graph.name, items, {"label": title, "labelloc": "t"})


def shape_code(graph: Graph) -> frozenset[Op]:
    """The ops that only compute sizes: integers of rank 0 or 1 that nothing reads but size operands, checks and such
    ops."""
    data: set[Value] = set(graph.outputs)
    found: set[Op] = set()
    for block in _blocks(graph.body):
        data.update(block.results)
    for op in reversed(list(graph.body.walk())):
        captured = [value for region in op.regions for value in region.captures()]
        if op.name == "check" or (
            op.results
            and not op.regions
            and not data.intersection(op.results)
            and not REGISTRY[op.name].effect
            and all(map(_is_small, op.results))
        ):
            if op.name != "check":
                found.add(op)
            continue
        operands = REGISTRY[op.name].operands
        variadic = bool(operands) and operands[-1].startswith("*")
        data.update(op.operands if variadic else op.operands[: len(operands)])
        data.update(captured)
    return frozenset(found)


def _blocks(block: Block) -> Iterator[Block]:
    for op in block.walk():
        yield from op.regions


def _is_small(value: Value) -> bool:
    type = value.type
    return (
        (is_integer(type.dtype) or type.dtype == "i1")
        and type.shape is not None
        and len(type.shape) <= 1
        and all(dim.const is not None and dim.const <= 16 for dim in type.shape)
    )


class Drawing:
    """One graph while it is drawn. ``ids``: the node of each op and of each input and region argument."""

    def __init__(self, graph: Graph, look: Look, sizes: Sizes) -> None:
        self.graph = graph
        self.look = look
        self.sizes = sizes
        self.ids: dict[Op | Value, str] = {}
        self.made_by: dict[Value, Op] = {}
        self.code = shape_code(graph)
        ops = list(graph.body.walk())
        wanted = look.shape_code if look.shape_code is not None else len(ops) <= SMALL
        self.hidden = frozenset() if wanted else self.code
        self.uses: Counter[Value] = Counter()
        self.depth: dict[Value, int] = {}
        self._number(ops)
        self._sink(ops)
        self.near = self._near() if look.around is not None else None

    def items(self) -> Iterator[Item]:
        """Inputs, ops and outputs."""
        for value in self.graph.inputs:
            if self._shown(value) and (self.uses[value] or self.near is not None or len(self.graph.inputs) <= SMALL):
                yield self.value_node(value, PAPER)
        yield from self._grouped(self.graph.body)
        for place, (name, value) in enumerate(zip(self.graph.output_names, self.graph.outputs, strict=True)):
            source = self.source(value)
            if source is None or (self.near is not None and source not in self.near):
                continue
            node = f"{self.look.prefix}out{place}"
            markup = Html(f"<b>{escaped(name)}</b><br/>{self.sizes.markup(value.type)}")
            yield Node(node, {"label": markup, "fillcolor": RESULT, "color": "#5c9a68"})
            yield self._edge(value, source, node)

    def notes(self) -> list[str]:
        """What was left out, for a title."""
        out = []
        if self.near is not None:
            drawn = sum(1 for op in self.graph.body.walk() if self._shown(op))
            total = sum(1 for _ in self.graph.body.walk())
            out.append(f"%{self._value().name} and {self.look.hops} arrows around it: {drawn} of {total} ops")
        if self.hidden:
            out.append(f"{len(self.hidden)} ops that only compute sizes are not drawn")
        return out

    # -- what is drawn ---------------------------------------------------------------------------------------------

    def _number(self, ops: Sequence[Op]) -> None:
        for place, value in enumerate(self.graph.inputs):
            self.ids[value] = f"{self.look.prefix}in{place}"
        for place, op in enumerate(ops):
            self.ids[op] = f"{self.look.prefix}op{place}"
            self.made_by.update(dict.fromkeys(op.results, op))
            for region, block in enumerate(op.regions):
                for k, value in enumerate(block.args):
                    self.ids[value] = f"{self.look.prefix}op{place}r{region}a{k}"
            if op not in self.hidden:
                self.uses.update(op.operands)
            deepest = max((self.depth.get(value, 0) for value in op.operands), default=0)
            self.depth.update(dict.fromkeys(op.results, deepest + 1))

    def _sink(self, ops: Sequence[Op]) -> None:
        """What reads inputs and constants only stands right above its first reader."""
        first: dict[Value, int] = {}
        floating = set(self.graph.inputs)
        for op in ops:
            if op.results and all(value in floating for value in op.operands):
                floating.update(op.results)
        for op in reversed(ops):
            if op.results and op.results[0] in floating:
                below = min((first[value] for value in op.results if value in first), default=None)
                self.depth.update(dict.fromkeys(op.results, self.depth[op.results[0]] if below is None else below - 1))
            here = self.depth[op.results[0]] if op.results else 0
            for value in op.operands if op.results and op not in self.hidden else ():
                first[value] = min(first.get(value, here), here)

    def _value(self) -> Value:
        """The value that ``around`` names."""
        name = (self.look.around or "").removeprefix("%")
        for value in (*self.graph.inputs, *self.made_by):
            if value.name == name:
                return value
        raise InvalidInput(f"the model has no value {self.look.around!r}", hint="egshape shapes lists them as %NAME")

    def _near(self) -> frozenset[str]:
        """The nodes at most ``hops`` arrows away from the value, against the arrows too."""
        around: dict[str, list[str]] = {}
        for op in self.graph.body.walk():
            for value in op.operands:
                source = self.source(value)
                if source is not None and op not in self.hidden:
                    around.setdefault(source, []).append(self.ids[op])
                    around.setdefault(self.ids[op], []).append(source)
        start = self.source(self._value())
        self.hidden = self.hidden - {self.made_by[value] for value in (self._value(),) if value in self.made_by}
        start = start or self.ids[self.made_by[self._value()]]
        seen = {start: 0}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            if seen[node] < self.look.hops:
                for other in around.get(node, ()):
                    if other not in seen:
                        seen[other] = seen[node] + 1
                        queue.append(other)
        return frozenset(seen)

    def _shown(self, thing: Op | Value) -> bool:
        if isinstance(thing, Op) and thing in self.hidden:
            return False
        return self.near is None or self.ids[thing] in self.near

    def source(self, value: Value) -> str | None:
        """The node that a value comes from, None for one that is not drawn."""
        op = self.made_by.get(value)
        if op is None:
            return self.ids.get(value)
        return None if op in self.hidden or self._is_inline(op) else self.ids[op]

    @staticmethod
    def _is_inline(op: Op) -> bool:
        return op.name == "constant"

    # -- ops -------------------------------------------------------------------------------------------------------

    def _grouped(self, block: Block) -> Iterator[Item]:
        """The ops of a block; those of one group in a cluster."""
        groups: dict[str, list[Item]] = {}
        checks = [self.ids[op] for op in block.ops if op.name == "check" and self._shown(op)]
        for one, two in pairwise(checks):  # checks run in order
            yield Edge(one, two, {"style": "dotted", "arrowhead": "none", "color": "#c98a2b"})
        for op in block.ops:
            group = self.look.groups.get(op)
            if group is None:
                yield from self._op(op)
            else:
                groups.setdefault(group, []).extend(self._op(op))
        for place, (name, items) in enumerate(groups.items()):
            nodes = tuple(item for item in items if not isinstance(item, Edge))
            if nodes:
                yield Cluster(
                    f"{self.look.prefix}group{place}",
                    {
                        "label": name,
                        "style": "rounded,filled",
                        "fillcolor": "#f6f9f4",
                        "color": "#8fae7e",
                        "fontsize": "10",
                        "fontcolor": "#4d6b3c",
                    },
                    nodes,
                )
            yield from (item for item in items if isinstance(item, Edge))

    def _op(self, op: Op) -> Iterator[Item]:
        if not self._shown(op) or (self._is_inline(op) and self.uses[op.result] and self.look.around is None):
            return
        node = self.ids[op]
        arrows, named = self._operands(op)
        yield Node(node, self._op_attrs(op, named))
        for value, source in arrows:
            yield self._edge(value, source, node)
        for index, region in enumerate(op.regions):
            if _one_op(region) is not None:
                continue
            items = [*(self.value_node(value, "#f5f5f5") for value in region.args), *self._grouped(region)]
            nodes = tuple(item for item in items if not isinstance(item, Edge))
            label = (
                f"{op.name}: {REGISTRY[op.name].regions[index].removeprefix('*')}"
                if index < len(REGISTRY[op.name].regions)
                else f"{op.name}, region {index}"
            )
            yield Cluster(
                f"{node}r{index}", {"label": label, "style": "dashed", "color": "#9e9e9e", "fontsize": "10"}, nodes
            )
            yield from (item for item in items if isinstance(item, Edge))
            for value in region.results:
                inner = self.source(value)
                if inner is not None:
                    yield self._edge(value, inner, node, {"style": "dashed"})

    def _operands(self, op: Op) -> tuple[list[tuple[Value, str]], list[str]]:
        """The operands drawn as arrows, and markup lines for those that are named in the box."""
        names = _operand_names(op)
        arrows, named = [], []
        for place, (name, value) in enumerate(zip(names, op.operands, strict=True)):
            made_by = self.made_by.get(value)
            source = self.source(value)
            if made_by is not None and self._is_inline(made_by):
                named.append(small(f"{name} = {clipped(constant(made_by.attrs['value']), 30)}"))
            elif source is None:
                if made_by is None or place < _data_operands(op):
                    named.append(small(f"{name} = %{value.name}"))
            elif self._is_far(value, op) or (self.near is not None and source not in self.near):
                named.append(
                    small(f"{name} = %{value.name}: ") + f'<font point-size="9">{self.sizes.markup(value.type)}</font>'
                )
            else:
                arrows.append((value, source))
        return arrows, named

    def _is_far(self, value: Value, reader: Op) -> bool:
        if self.uses[value] > MANY:
            return True
        if value not in self.depth or not reader.results:
            return False
        return self.depth[reader.results[0]] - self.depth[value] > FAR

    def _op_attrs(self, op: Op, named: list[str]) -> dict[str, str]:
        status = self.look.status.get(op, "kept")
        title = escaped(_title(op))
        names = ", ".join(f"%{value.name}" for value in op.results)
        head = f"<s>{title}</s>" if status != "kept" else f"<b>{title}</b>"
        lines = [head + (f" {small(clipped(names, 30))}" if names else ""), *map(small, _details(op)), *named]
        attrs: dict[str, str] = {"label": Html("<br/>".join(lines)), "tooltip": _tooltip(op, status)}
        if op.name == "check":
            attrs |= {"fillcolor": CHECK, "color": "#c98a2b"}
        elif op in self.code:
            attrs |= {"fillcolor": SHAPE_CODE, "color": "#a9adb5", "fontsize": "9"}
        if status != "kept":
            attrs |= {"fillcolor": GONE, "color": GONE_LINE, "style": "rounded,filled,dashed", "fontcolor": "#8a3b3b"}
        return attrs

    def value_node(self, value: Value, colour: str) -> Node:
        """An input or argument."""
        markup = Html(f"<b>{escaped(value.name)}</b><br/>{self.sizes.markup(value.type)}")
        return Node(self.ids[value], {"label": markup, "fillcolor": colour, "color": "#c9a84a"})

    def _edge(self, value: Value, tail: str, head: str, attrs: Mapping[str, str] | None = None) -> Edge:
        look = {"label": Html(self.sizes.markup(value.type)), "color": self.sizes.edge_colour(value.type)}
        return Edge(tail, head, {**look, **(attrs or {})})


def legend(sizes: Sizes, prefix: str = "") -> Iterator[Item]:
    """Which colour is which size; a size written in several ways shows them all."""
    rows = []
    for form, colour in list(sizes.colours.items())[:12]:
        others = [str(dim) for dim in sizes.written[form] if dim is not form]
        text = " = ".join(clipped(each) for each in [str(form), *others[:4]])
        rows.append(
            f'<tr><td bgcolor="{colour}" width="14"></td><td align="left">'
            f'<font color="{colour}">{escaped(text)}</font></td></tr>'
        )
    left_out = len(sizes.colours) - len(rows)
    if left_out > 0:
        rows.append(f'<tr><td></td><td align="left">{small(f"and {left_out} more sizes")}</td></tr>')
    if rows:
        label = Html(f'<table border="0" cellborder="0" cellspacing="2">{"".join(rows)}</table>')
        yield Node(f"{prefix}legend", {"shape": "plain", "style": "", "label": label})


def struck(look: Look, status: Mapping[Op, Status]) -> Look:
    """The look with ops struck out."""
    return replace(look, status=status)


def _title(op: Op) -> str:
    inner = [each.name for region in op.regions if (each := _one_op(region)) is not None]
    return f"{op.name} ({', '.join(inner)})" if inner else op.name


def _one_op(region: Block) -> Op | None:
    """The only op of a region of scalars, which its owner's title can name."""
    scalar = all(value.type.shape == () for value in region.args)
    return region.ops[0] if scalar and len(region.ops) == 1 else None


def _operand_names(op: Op) -> list[str]:
    declared = REGISTRY[op.name].operands
    names = [name for name in declared if not name.startswith("*")]
    if declared and declared[-1].startswith("*"):
        rest = len(op.operands) - len(names)
        return names + [f"{declared[-1][1:]}[{k}]" for k in range(rest)]
    return (names + list(REGISTRY[op.name].dynamic) + ["size"] * len(op.operands))[: len(op.operands)]


def _data_operands(op: Op) -> int:
    """How many operands are data, the first ones; the rest gives sizes that attributes hold too."""
    declared = REGISTRY[op.name].operands
    return len(op.operands) if declared and declared[-1].startswith("*") else len(declared)


def _details(op: Op) -> list[str]:
    if op.name == "check":
        sides = op.attrs["sides"]
        relation = op.attrs["relation"]
        return [clipped("a condition on data" if relation == "value" else f" {relation} ".join(map(str, sides)))]
    if op.name == "constant":
        return [clipped(constant(op.attrs["value"]))]
    shown = [
        f"{key} = {attribute(value)}"
        for key, value in op.attrs.items()
        if key not in _QUIET_ATTRS and value not in ((), None, False) and not says_nothing(key, value)
    ]
    return [clipped(text) for text in shown[:_LINES]]


def says_nothing(key: str, value: object) -> bool:
    """Attributes of every day: strides of 1, starts of 0."""
    if not isinstance(value, tuple | list):
        return False
    wanted = (
        "1"
        if key in ("strides", "window_strides", "base_dilations", "window_dilations")
        else "0"
        if key == "starts"
        else None
    )
    return wanted is not None and all(str(each) == wanted for each in value)


def _tooltip(op: Op, status: Status) -> str:
    return " ".join(filter(None, (op.name, str(op.location), "" if status == "kept" else f"({status})")))
