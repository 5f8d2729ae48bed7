"""Two graphs of one program, one for a number that a size may be and one for the others, as one graph: the second
alone, where it does the same at that number, else both with a choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.errors import UndefinedSize
from egshape.facts import Facts, Relation
from egshape.frontends.bounds import Bounds
from egshape.ir.builder import Names
from egshape.ir.calls import substitute, values_of
from egshape.ir.graph import Block, Graph, Op, Value, relation_of
from egshape.ir.types import TensorType

_SCALAR = TensorType("i64", ())
_FLAG = TensorType("i1", ())


def fixed(graph: Graph, size: str, number: int) -> Graph:
    """The graph where a symbol is a number, without the checks of that size alone which that fails."""
    sizes: dict[str, Dim] = {size: const(number)}
    args = {
        value: Value(value.name, TensorType(value.type.dtype, tuple(dim.substitute(sizes) for dim in value.type.dims)))
        for value in graph.inputs
    }
    ops = tuple(op for op in graph.ops if not _refuses(op, size, number))
    symbols = tuple(replace(each, value=args.get(each.value, each.value)) for each in graph.body.symbols)
    inner = substitute(replace(graph.body, args=(), ops=ops, symbols=()), args, str, sizes)
    own = tuple(each for each in symbols if each.name != size)
    return replace(graph, body=Block(tuple(args.values()), inner.ops, inner.results, own), facts=Facts())


def freed(graph: Graph, size: str, number: int) -> Graph | None:
    """The graph whose checks admit a number as this size, and no more else than before; None where that is no check of
    this size alone that the sizes behind 0 and 1 all pass."""
    above, ops = Bounds().with_fact(Relation("<=", const(2), symbol(size))), []
    for op in graph.ops:
        if _refuses(op, size, number):
            relation = relation_of(op)
            if relation is None or not above.decide(relation):
                return None
            other = 1 - number
            if _refuses(op, size, other):
                sides = symbol(size), const(other)
                ops.append(replace(op, attrs={**op.attrs, "relation": "!=", "sides": sides, "args": sides}))
        else:
            ops.append(op)
    return replace(graph, body=replace(graph.body, ops=tuple(ops)))


def excluded(graph: Graph, size: str, number: int, message: str) -> Graph:
    """The graph with a check that a size is not this number."""
    sides = symbol(size), const(number)
    attrs = {"relation": "!=", "sides": sides, "message": message, "args": (), "fact": ""}
    return replace(graph, body=replace(graph.body, ops=(Op("check", (), attrs, ()), *graph.ops)))


def _refuses(op: Op, size: str, number: int) -> bool:
    """Whether an op is a check of one size alone which a number fails."""
    relation = relation_of(op)
    if relation is None or relation.symbols() != {size}:
        return False
    try:
        return not relation.holds({size: number})
    except UndefinedSize:
        return True


def chosen(size: str, number: int, special: Graph, general: Graph) -> Graph | None:
    """The graph that does what ``special`` does where the symbol ``size`` of ``general`` is ``number``, else what
    ``general`` does. Both have the same inputs and outputs, and ``special`` knows that size. None where a graph has
    sizes that data give: nothing names them behind both."""
    if not (entered(special) and entered(general)):
        return None
    names = Names()
    for value in values_of(general.body):
        names.fresh(value.name)
    then = _arm(special, general, names)
    other = replace(general.body, args=(), symbols=())
    results = tuple(Value(names.fresh(), value.type) for value in general.outputs)
    ops = _asked(size, number, names)
    choose = Op("if", (ops[-1].result,), {}, results, (then, other))
    body = Block(general.inputs, (*ops, choose), results, general.body.symbols)
    return replace(general, body=body, metadata=_metadata(special, general))


def entered(graph: Graph) -> bool:
    """Whether axes of the inputs give all sizes of a graph."""
    return all(each.axis is not None and each.value in graph.inputs for each in graph.body.symbols)


def sizes_in(special: Graph, general: Graph) -> dict[str, Dim]:
    """What the symbols of the special graph are in the other one."""
    return {
        each.name: general.inputs[special.inputs.index(each.value)].type.dims[each.axis]
        for each in special.body.symbols
        if each.axis is not None and each.value in special.inputs
    }


def _asked(size: str, number: int, names: Names) -> list[Op]:
    """Whether a size is a number."""
    one, two, flag = (Value(names.fresh(), each) for each in (_SCALAR, _SCALAR, _FLAG))
    kind: dict[str, Any] = {"direction": "EQ", "kind": "SIGNED"}
    return [
        Op("dims", (), {"elements": (symbol(size),), "shape": (), "dtype": "i64"}, (one,)),
        Op("constant", (), {"value": np.array(number, np.int64)}, (two,)),
        Op("compare", (one, two), kind, (flag,)),
    ]


def _arm(special: Graph, general: Graph, names: Names) -> Block:
    """The ops of the special graph on the other one's inputs, and results of the other one's types."""
    sizes = sizes_in(special, general)
    before: list[Op] = []
    after: list[Op] = []
    mapping: dict[Value, Value] = {}
    for inner, outer in zip(special.inputs, general.inputs, strict=True):
        dims = tuple(dim.substitute(sizes) for dim in inner.type.dims)
        mapping[inner] = _reshaped(outer, dims, names, before)
    body = replace(special.body, args=(), symbols=())
    copied = substitute(body, mapping, names.fresh, sizes)
    results = tuple(
        _reshaped(value, wanted.type.dims, names, after)
        for value, wanted in zip(copied.results, general.outputs, strict=True)
    )
    return Block((), (*before, *copied.ops, *after), results)


def _reshaped(value: Value, dims: tuple[Dim, ...], names: Names, ops: list[Op]) -> Value:
    """A value in other dims, which are its own where the arm runs."""
    if value.type.dims == dims:
        return value
    out = Value(names.fresh(), TensorType(value.type.dtype, dims))
    same = tuple(Relation("==", one, two) for one, two in zip(value.type.dims, dims, strict=True) if one != two)
    ops.append(Op("reshape", (value,), {"shape": dims}, (out,), requires=same))
    return out


def _metadata(special: Graph, general: Graph) -> dict[str, Any]:
    """That of the general graph, with what either runs elsewhere and says."""
    joined = {
        key: tuple(dict.fromkeys((*general.metadata.get(key, ()), *special.metadata.get(key, ()))))
        for key in ("host_calls", "notes")
    }
    return {**general.metadata, **joined}
