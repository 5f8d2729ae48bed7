"""What a written model refuses by itself, so that no check need say it: the static sizes of its inputs, and what
reading its nodes again finds that they ask of sizes, for ops of which runtimes are known to check that.

Only what every run of the model meets counts: no branches, no loop bodies. What it was assumed to be given is not
read, so nothing here rests on a check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import ModelProto, TensorProto

from egshape.dims import symbol
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.frontends.bounds import Bounds
from egshape.frontends.onnx import weights
from egshape.frontends.onnx.convert import graph_of
from egshape.frontends.onnx.emit_ops import BINARY, COMPARE
from egshape.frontends.onnx.files import Model
from egshape.frontends.onnx.ops.windows import NOT_ENFORCED
from egshape.frontends.onnx.types import elem_type_of
from egshape.ir.graph import Block, Graph, Op, relation_of
from egshape.ir.types import dtype_name
from egshape.ops import REGISTRY

ENFORCED = frozenset(
    (
        *(
            "Split",
            "Concat",
            "Reshape",
            "Squeeze",
            "Expand",
            "Where",
            "Max",
            "Min",
            *BINARY.values(),
            *COMPARE.values(),
        ),
        *("MatMul", "Gemm", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "DepthToSpace", "SpaceToDepth"),
        *("LSTM", "GRU", "RNN", "And", "Or", "Xor"),
    )
)
"""ONNX ops that refuse, in ONNX Runtime, all sizes that reading them says they refuse (tests/frontends/onnx try it)."""


def refused(model: ModelProto, arrays: Mapping[str, np.ndarray], graph: Graph) -> Bounds:
    """What is known of sizes of the inputs of a graph in any run of the model that was written of it."""
    known = Bounds()
    stated = {(each.value, each.axis): symbol(each.name) for each in graph.body.symbols if not each.offset}
    for (value, axis), size in stated.items():
        if value in graph.inputs and axis is not None and value.type.dims[axis].const is not None:
            known.learn(Relation("==", size, value.type.dims[axis]))
    try:
        found = graph_of(_bare(model, arrays), {})
    except EgshapeError:
        return known
    titles = found.own.titles if found.own is not None else {}
    place = dict(zip(found.inputs, graph.inputs, strict=True))
    names = {
        each.name: stated[key]
        for each in found.body.symbols
        if each.value in place and not each.offset and (key := (place[each.value], each.axis)) in stated
    }
    for op in _always(found.body):
        if titles.get(str(op.location)) in ENFORCED:
            for relation in _asked(op):
                if relation.symbols() <= names.keys() and not relation.source.endswith(NOT_ENFORCED):
                    known.learn(relation.substitute(names))
    return known


def _bare(model: ModelProto, arrays: Mapping[str, np.ndarray]) -> Model:
    """A model whose weights stay where they are, without what its metadata says of sizes."""
    proto = ModelProto()
    proto.CopyFrom(model)
    del proto.metadata_props[:]
    proto.graph.initializer.extend(
        TensorProto(name=name, data_type=elem_type_of(dtype_name(array.dtype)), dims=array.shape)
        for name, array in arrays.items()
    )
    return Model(proto, proto.graph.name, {name: weights.packed(array) for name, array in arrays.items()})


def _always(block: Block) -> Iterator[Op]:
    """The ops that every run of a block makes."""
    for op in block.ops:
        yield op
        if REGISTRY[op.name].traits.regions == "once":
            for region in op.regions:
                yield from _always(region)


def _asked(op: Op) -> Iterator[Relation]:
    """What an op asks of sizes."""
    yield from op.requires
    yield from (each.relation for each in REGISTRY[op.name].requires(op))
    relation = relation_of(op)
    if relation is not None:
        yield relation
