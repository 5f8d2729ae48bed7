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
from egshape.frontends.onnx.own import Own
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


LAX = frozenset(("Concat",))
"""Those of them that ONNX Runtime does not hold to it where an operand is empty."""


def refused(model: ModelProto, arrays: Mapping[str, np.ndarray], graph: Graph) -> Bounds:
    """What is known of sizes of the inputs of a graph in any run of the model that was written of it. What an op
    refuses that is lax about empty operands counts where no other op that was read, and is gone, asks for them."""
    known = Bounds()
    stated = {(each.value, each.axis): symbol(each.name) for each in graph.body.symbols if not each.offset}
    for (value, axis), size in stated.items():
        if value in graph.inputs and axis is not None and value.type.dims[axis].const is not None:
            known.learn(Relation("==", size, value.type.dims[axis]))
    try:
        found = graph_of(_bare(model, arrays), {})
    except EgshapeError:
        return known
    asked = _enforced(found.body, found.own, graph)
    for relation in (each for title, each in asked if title not in LAX):
        known.learn(relation)
    lax = [each for title, each in asked if title in LAX and known.decide(each) is not True]
    if graph.own is None:
        lax = []  # they are ops of another format, which refuses what these do not
    elif lax:
        lost = [
            each
            for title, each in _enforced(graph.own.body, graph.own, graph)
            if title not in LAX and known.decide(each) is not True
        ]
        lax = [each for each in lax if not any(each.symbols() & other.symbols() for other in lost)]
    for relation in lax:
        known.learn(relation)
    return known


def _enforced(body: Block, own: Own | None, graph: Graph) -> list[tuple[str, Relation]]:
    """What the nodes of a block that was read refuse in every run, by the titles of the nodes, in the symbols of a
    graph of the same inputs."""
    titles = own.titles if isinstance(own, Own) else {}
    stated = {(each.value, each.axis): symbol(each.name) for each in graph.body.symbols if not each.offset}
    place = dict(zip(body.args, graph.inputs, strict=True))
    names = {
        each.name: stated[key]
        for each in body.symbols
        if each.value in place and not each.offset and (key := (place[each.value], each.axis)) in stated
    }
    return [
        (title, relation.substitute(names))
        for op in _always(body)
        if (title := titles.get(str(op.location), "")) in ENFORCED
        for relation in _asked(op)
        if relation.symbols() <= names.keys() and not relation.source.endswith(NOT_ENFORCED)
    ]


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
