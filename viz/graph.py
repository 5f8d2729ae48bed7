"""A graph in Graphviz's language: ops as boxes, values as edges labelled with their symbolic shapes.

Regions are clusters. Shape code (ops whose values are small integers) is grey, checks are orange, inputs and outputs
are ellipses. One colour marks the edges that carry one symbolic shape."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import TensorType, is_integer

_COLOURS = ("#1b6ca8", "#2e7d32", "#a8328c", "#b35900", "#5d4037", "#00838f", "#6a1b9a", "#827717")
_QUIET = "#757575"
_LONGEST = 60


def to_dot(graph: Graph) -> str:
    """The DOT text of a graph. It is deterministic; names are those of the model's values."""
    return "\n".join(_Drawing(graph).lines()) + "\n"


class _Drawing:
    """The state of one drawing: node names by value, and colours by shape."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._node: dict[Value, str] = {}
        self._numbers = count()
        self._colours: dict[str, str] = {}

    def lines(self) -> Iterator[str]:
        graph = self._graph
        yield f"digraph {_quoted(graph.name)} {{"
        yield '  graph [rankdir=TB, fontname="Helvetica", labelloc=t, ' + f"label={_quoted(graph.name)}];"
        yield '  node [shape=box, style="rounded,filled", fillcolor="#eef3f8", fontname="Helvetica", fontsize=11];'
        yield '  edge [fontname="Helvetica", fontsize=9, arrowsize=0.7];'
        for value in graph.inputs:
            label = f"{value.name}\n{value.type}"
            yield f"  {self._name(value)} [shape=ellipse, fillcolor=\"#fff8e1\", label={_quoted(label)}];"
        yield from self._block(graph.body, "  ")
        for name, value in zip(graph.output_names, graph.outputs, strict=True):
            node = f"out_{next(self._numbers)}"
            yield f"  {node} [shape=ellipse, fillcolor=\"#e8f5e9\", label={_quoted(name)}];"
            yield self._edge(value, node, "  ")
        yield "}"

    def _block(self, block: Block, indent: str) -> Iterator[str]:
        for op in block.ops:
            yield from self._op(op, indent)

    def _op(self, op: Op, indent: str) -> Iterator[str]:
        node = f"op_{next(self._numbers)}"
        for value in op.results:
            self._node[value] = node
        look = ', fillcolor="#ffe0b2"' if op.name == "check" else ', fillcolor="#eeeeee"' if _is_shape_code(op) else ""
        tip = f", tooltip={_quoted(str(op.location))}" if str(op.location) else ""
        yield f"{indent}{node} [label={_quoted(_label(op))}{look}{tip}];"
        for operand in op.operands:
            yield self._edge(operand, node, indent)
        for index, region in enumerate(op.regions):
            yield f"{indent}subgraph cluster_{node}_{index} {{"
            yield f'{indent}  label={_quoted(f"{op.name}, region {index}")}; style=dashed; color="#9e9e9e";'
            for value in region.args:
                yield (f'{indent}  {self._name(value)} [shape=ellipse, fillcolor="#f5f5f5", '
                       f"label={_quoted(f'{value.name}: {value.type}')}];")
            yield from self._block(region, indent + "  ")
            yield f"{indent}}}"
            for value in region.results:
                yield self._edge(value, node, indent, dashed=True)

    def _name(self, value: Value) -> str:
        if value not in self._node:
            self._node[value] = f"val_{next(self._numbers)}"
        return self._node[value]

    def _edge(self, value: Value, target: str, indent: str, dashed: bool = False) -> str:
        colour = self._colour(value.type)
        style = ", style=dashed" if dashed else ""
        label = _quoted(str(value.type))
        look = f'color="{colour}", fontcolor="{colour}"{style}'
        return f"{indent}{self._name(value)} -> {target} [label={label}, {look}];"

    def _colour(self, type: TensorType) -> str:
        """One colour a symbolic shape, in order of appearance; static shapes are grey."""
        shape = type.shape
        if shape is None or all(dim.const is not None for dim in shape):
            return _QUIET
        key = str(shape)
        return self._colours.setdefault(key, _COLOURS[len(self._colours) % len(_COLOURS)])


def _label(op: Op) -> str:
    if op.name == "check":
        text = " ".join(str(side) for side in op.attrs["sides"]) if op.attrs["relation"] == "value" else \
            f" {op.attrs['relation']} ".join(str(side) for side in op.attrs["sides"])
        return f"check\n{text}" if text else "check"
    if op.name == "constant":
        array = op.attrs["value"]
        return f"constant\n{array.reshape(-1)[0] if array.size == 1 else f'{array.dtype} {list(array.shape)}'}"
    shown = [f"{key}={_short(value)}" for key, value in op.attrs.items()
             if key not in ("value", "precision", "dtype") and value != ()]
    names = ", ".join(f"%{value.name}" for value in op.results)
    lines = [op.name, *shown[:3]]
    return "\n".join([*lines, names] if names else lines)


def _short(value: object) -> str:
    text = f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST - 3] + "..."


def _is_shape_code(op: Op) -> bool:
    return bool(op.results) and all(
        is_integer(value.type.dtype) and value.type.shape is not None and len(value.type.shape) <= 1
        and all(dim.const is not None and dim.const <= 16 for dim in value.type.shape)
        for value in op.results)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
