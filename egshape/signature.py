"""Sizes as arguments and results of a graph, for callers that know them apart from the arrays (IREE's expanded
signatures: each dynamic size crosses the boundary once)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from egshape.dims import Dim, symbol
from egshape.ir.builder import Names
from egshape.ir.graph import Graph, Op, SymbolDef, Value
from egshape.ir.types import TensorType
from egshape.sizes import values_of

SIZE = TensorType("i64", ())


def with_sizes(graph: Graph) -> Graph:
    """The graph with one more argument for each independent size of its inputs, and one more result for each other size
    of its outputs: i64 scalars, behind those that are there.

    An argument is called like the symbol of the size (``n``, ``x_0`` for axis 0 of ``x``); every axis of that size is
    held to it before any work is done. A result is called after the first output axis of its size, ``out0_1``; sizes
    that are an argument, or a number, are no results."""
    names = Names()
    for name in (*values_of(graph), *graph.output_names):
        names.fresh(name)
    body = graph.body
    arguments: dict[SymbolDef, Value] = {
        each: Value(names.fresh(each.name.replace(".", "_")), SIZE)
        for each in body.symbols
        if each.axis is not None and each.value in body.args
    }
    symbols = tuple(
        SymbolDef(each.name, arguments[each], element=0) if each in arguments else each for each in body.symbols
    )
    given = {symbol(each.name) for each in symbols if each.value in body.args or each.value in arguments.values()}
    results: dict[str, Op] = {}
    told: set[Dim] = set(given)
    for label, size in _sizes(graph):
        if size.const is None and size not in told:
            told.add(size)
            value = Value(names.fresh(label), SIZE)
            results[value.name] = Op("dims", (), {"elements": (size,), "shape": (), "dtype": "i64"}, (value,))
    return replace(
        graph,
        body=replace(
            body,
            args=(*body.args, *arguments.values()),
            ops=(*body.ops, *results.values()),
            results=(*body.results, *(op.result for op in results.values())),
            symbols=symbols,
        ),
        output_names=(*graph.output_names, *results),
    )


def _sizes(graph: Graph) -> Iterator[tuple[str, Dim]]:
    """The sizes of the outputs, with what each is called."""
    for name, value in zip(graph.output_names, graph.outputs, strict=True):
        for axis, size in enumerate(value.type.shape or ()):
            yield f"{name}_{axis}", size
