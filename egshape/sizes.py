"""The names by which a person speaks of a graph's sizes: `arg0.0`, `%12.1`, symbols, expressions over these."""

from __future__ import annotations

from collections.abc import Mapping

from egshape.dims import Dim, parse
from egshape.errors import InvalidInput
from egshape.ir.graph import Block, Graph, Op, Value, blocks_of


def axes_of(graph: Graph) -> dict[str, Dim]:
    """The size of each input axis by its name ``input.axis``."""
    return {f"{value.name}.{axis}": dim for value in graph.inputs for axis, dim in enumerate(value.type.shape or ())}


def named_axes(graph: Graph) -> dict[str, Dim]:
    """The size of each axis of inputs and outputs by its name ``input.axis``, ``output.axis``."""
    outputs = zip(graph.output_names, graph.outputs, strict=True)
    return {
        **{f"{name}.{axis}": dim for name, value in outputs for axis, dim in enumerate(value.type.shape or ())},
        **axes_of(graph),
    }


def values_of(graph: Graph) -> Mapping[str, Value]:
    """Every value of a graph by its name, those inside of regions included."""
    found: Mapping[str, Value] = graph.body.keep("values", lambda: _values(graph.body))
    return found


def _values(body: Block) -> dict[str, Value]:
    out = {value.name: value for value in body.args}
    for op in body.walk():
        out.update({value.name: value for value in op.results})
        for region in op.regions:
            out.update({value.name: value for value in region.args})
    return out


def value_of(graph: Graph, text: str) -> Value | None:
    """The value that a text means: its name, ``%12`` or ``12``; an output by its name in the model; else the first
    result of the op at a place of the model, which is the name of a node or ``file.mlir:7``, its column or not."""
    name = text.removeprefix("%")
    if not name:
        return None
    named = values_of(graph).get(name) or dict(zip(graph.output_names, graph.outputs, strict=True)).get(text)
    if named is not None:
        return named
    placed: Mapping[str, Value] = graph.body.keep("placed", lambda: _placed(graph.body))
    return placed.get(text)


def _placed(body: Block) -> dict[str, Value]:
    """The first result of the first op at each place of the model, as places are written."""
    out: dict[str, Value] = {}
    for op in body.walk():
        at = op.location
        for text in (at.name, str(at), f"{at.file}:{at.line}") if op.results else ():
            out.setdefault(text, op.results[0])
    return out


def symbols_of(graph: Graph) -> dict[str, Block]:
    """Every symbol of a graph with the block that defines it."""
    out: dict[str, Block] = {}
    for block in blocks_of(graph.body):
        for each in block.symbols:
            out.setdefault(each.name, block)
    return out


def parents_of(block: Block) -> dict[Block, tuple[Block, Op]]:
    """For each block inside of this one the block around it, and the op of which it is a region."""
    out: dict[Block, tuple[Block, Op]] = {}
    for outer in blocks_of(block):
        out.update({region: (outer, op) for op in outer.ops for region in op.regions})
    return out


def shape_sources(block: Block) -> dict[str, str]:
    """Where each symbol of a block and those inside comes from: ``arg0.1``, or an element of a value."""
    out: dict[str, str] = {}
    for inner in blocks_of(block):
        for each in inner.symbols:
            name = each.value.name if each.value in inner.args else f"%{each.value.name}"
            out[each.name] = f"{name}.{each.axis}" if each.axis is not None else f"{name}[{each.element}]"
    return out


def size_of(graph: Graph, text: str) -> Dim:
    """The size that a text means: an input's, output's or value's axis, or an expression over symbols and these.

    Raises InvalidInput for what the graph does not have, ParseError for what is no expression."""
    sizes = named_axes(graph)
    if text in sizes:
        return sizes[text]
    if text.startswith("%"):
        name, _, axis = text[1:].rpartition(".")
        value = values_of(graph).get(name)
        dims = value.type.shape if value is not None else None
        if dims is None or not axis.isdigit() or int(axis) >= len(dims):
            raise InvalidInput(f"{text!r} is no axis of a value of this model")
        return dims[int(axis)]
    dim = parse(text)
    known = set(symbols_of(graph))
    unknown = sorted(name for name in dim.symbols() if name not in known and name not in sizes)
    if unknown:
        inner = unknown[0].rpartition(".")[0] in values_of(graph)
        hint = f"an axis of a value inside is written %{unknown[0]}" if inner else listed(known, sizes)
        raise InvalidInput(f"the model has no size {unknown[0]!r}", hint=hint)
    return dim.substitute({name: size for name, size in sizes.items() if name in dim.symbols()})


def listed(known: set[str], sizes: Mapping[str, Dim], most: int = 20) -> str:
    """The names that a fact may use: symbols, then the axes whose size is not a number."""
    names = [*sorted(known), *(name for name, size in sizes.items() if name not in known and size.const is None)]
    more = ", ..." if len(names) > most else ""
    return f"sizes are: {', '.join(names[:most]) or 'none'}{more}"
