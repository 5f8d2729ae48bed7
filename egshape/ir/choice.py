"""Two graphs of one program as one graph: a graph for one number that a size may be, and one for the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from egshape.dims import Dim, product, symbol
from egshape.facts import Relation
from egshape.ir.builder import Names
from egshape.ir.calls import substitute, values_of
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import TensorType

_SCALAR = TensorType("i64", ())
_FLAG = TensorType("i1", ())


def chosen(size: str, number: int, special: Graph, general: Graph) -> Graph | None:
    """The graph that does what ``special`` does where the symbol ``size`` of ``general`` is ``number``, else what
    ``general`` does. Both have the same inputs and outputs, and ``special`` knows that size. None where a graph has
    sizes that data give: nothing names them behind both."""
    if not (_entered(special) and _entered(general)):
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


def _entered(graph: Graph) -> bool:
    """Whether all sizes of a graph are known when it is entered."""
    return all(each.value in graph.inputs for each in graph.body.symbols)


def _sizes(special: Graph, general: Graph) -> dict[str, Dim]:
    """What the symbols of the special graph are in the other one."""
    return {
        each.name: general.inputs[special.inputs.index(each.value)].type.dims[each.axis]
        for each in special.body.symbols
        if each.axis is not None
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
    sizes = _sizes(special, general)
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
    """A value in other dims, which have as many elements where the arm runs."""
    if value.type.dims == dims:
        return value
    out = Value(names.fresh(), TensorType(value.type.dtype, dims))
    same = Relation("==", product(value.type.dims), product(dims))
    ops.append(Op("reshape", (value,), {"shape": dims}, (out,), requires=(same,)))
    return out


def _metadata(special: Graph, general: Graph) -> dict[str, Any]:
    """That of the general graph, with what either runs elsewhere and says."""
    joined = {
        key: tuple(dict.fromkeys((*general.metadata.get(key, ()), *special.metadata.get(key, ()))))
        for key in ("host_calls", "notes")
    }
    return {**general.metadata, **joined}
