"""Changes to an ONNX model that make it wrong, or at least odd: to its bytes, its structure, and what it claims."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_NUMBERS = (-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 4, 7, 100, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
_OPS = (
    "Add",
    "MatMul",
    "Concat",
    "Reshape",
    "Slice",
    "Gather",
    "Shape",
    "Expand",
    "Transpose",
    "If",
    "Conv",
    "Pad",
    "Unsqueeze",
    "Squeeze",
    "ConstantOfShape",
    "Split",
    "LSTM",
    "Resize",
    "Range",
    "Cast",
    "Where",
    "Loop",
    "TopK",
    "NonZero",
    "ReduceSum",
    "Softmax",
    "Gemm",
    "QuantizeLinear",
    "Identity",
    "Nonsense",
)
_NAMES = ("", "?", "n", "a + b", "n // 0", "(", "n*n*n", "%", "x.0", "-1", "n" * 300)

Change = Callable[[onnx.ModelProto, random.Random], None]


def mutate(content: bytes, rng: random.Random) -> bytes:
    """A model with one to four changes: to its bytes, or to what they mean."""
    if rng.random() < 0.25:
        return _damage(bytearray(content), rng)
    model = onnx.ModelProto()
    model.ParseFromString(content)
    for _ in range(rng.randint(1, 4)):
        rng.choice(_CHANGES)(model, rng)
    return bytes(model.SerializeToString())


def _damage(content: bytearray, rng: random.Random) -> bytes:
    kind = rng.randrange(4)
    at = rng.randrange(len(content))
    if kind == 0:
        return bytes(content[:at])
    if kind == 1:
        del content[at : at + rng.randint(1, 64)]
    elif kind == 2:
        content[at:at] = content[: rng.randint(1, 64)]
    else:
        # The structure is near the ends and between weights: most bytes in the middle are numbers.
        for _ in range(rng.randint(1, 8)):
            content[rng.randrange(min(len(content), 4000))] = rng.randrange(256)
    return bytes(content)


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Every node, those of subgraphs included."""
    found, graphs = [], [model.graph]
    while graphs:
        graph = graphs.pop()
        found += graph.node
        graphs += [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return found


def _any_node(model: onnx.ModelProto, rng: random.Random) -> onnx.NodeProto:
    return rng.choice(_nodes(model) or [onnx.NodeProto()])


def _attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    having = [node for node in _nodes(model) if node.attribute]
    if not having:
        return
    held = rng.choice(rng.choice(having).attribute)
    kind = rng.randrange(4)
    if kind == 0:
        held.name += "x"
    elif kind == 1:
        held.i, held.type = rng.choice(_NUMBERS), onnx.AttributeProto.INT
    elif held.ints:
        held.ints[rng.randrange(len(held.ints))] = rng.choice(_NUMBERS)
    elif held.type == onnx.AttributeProto.INT:
        held.i = rng.choice(_NUMBERS)
    else:
        held.s, held.type = rng.choice(_NAMES).encode(), onnx.AttributeProto.STRING


def _operand(model: onnx.ModelProto, rng: random.Random) -> None:
    node, others = _any_node(model, rng), [name for other in _nodes(model) for name in (*other.input, *other.output)]
    if not node.input:
        return
    at, kind = rng.randrange(len(node.input)), rng.randrange(4)
    if kind == 0:
        del node.input[at]
    elif kind == 1:
        node.input.append(rng.choice(others))
    else:
        node.input[at] = rng.choice([*others, "", "nowhere"]) if kind == 2 else rng.choice(list(node.input))


def _result(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _any_node(model, rng)
    if node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(
            ["", "fresh", *(name for other in _nodes(model) for name in other.output)]
        )


def _op(model: onnx.ModelProto, rng: random.Random) -> None:
    _any_node(model, rng).op_type = rng.choice(_OPS)


def _domain(model: onnx.ModelProto, rng: random.Random) -> None:
    _any_node(model, rng).domain = rng.choice(("", "ai.onnx", "com.microsoft", "nowhere"))


def _order(model: onnx.ModelProto, rng: random.Random) -> None:
    nodes = list(model.graph.node)
    kind = rng.randrange(3)
    if kind == 0:
        rng.shuffle(nodes)
    elif nodes and kind == 1:
        del nodes[rng.randrange(len(nodes))]
    elif nodes:
        nodes.append(rng.choice(nodes))
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _weight(model: onnx.ModelProto, rng: random.Random) -> None:
    tensors = [*model.graph.initializer, *(a.t for node in _nodes(model) for a in node.attribute if a.HasField("t"))]
    if not tensors:
        return
    small = [tensor for tensor in tensors if tensor.ByteSize() < 200]
    tensor = rng.choice(small or tensors)
    kind = rng.randrange(5)
    if kind == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(_NUMBERS)
    elif kind == 1:
        tensor.data_type = rng.randrange(25)
    elif kind == 2:
        tensor.name = rng.choice([other.name for other in tensors])
    elif tensor.data_type == TensorProto.INT64 and tensor.raw_data:
        held = bytearray(tensor.raw_data)
        at = 8 * rng.randrange(max(len(held) // 8, 1))
        held[at : at + 8] = rng.choice(_NUMBERS).to_bytes(8, "little", signed=True)
        tensor.raw_data = bytes(held)
    elif tensor.int64_data:
        tensor.int64_data[rng.randrange(len(tensor.int64_data))] = rng.choice(_NUMBERS)


def _input(model: onnx.ModelProto, rng: random.Random) -> None:
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    if not values:
        return
    value = rng.choice(values)
    kind, tensor = rng.randrange(5), value.type.tensor_type
    if kind == 0:
        value.name = rng.choice(["", "fresh", *(other.name for other in values)])
    elif kind == 1:
        tensor.elem_type = rng.randrange(25)
    elif kind == 2:
        tensor.ClearField("shape")
    elif kind == 3 and tensor.shape.dim:
        rng.choice(tensor.shape.dim).dim_value = rng.choice(_NUMBERS)
    elif tensor.shape.dim:
        rng.choice(tensor.shape.dim).dim_param = rng.choice(_NAMES)


def _opset(model: onnx.ModelProto, rng: random.Random) -> None:
    for entry in model.opset_import:
        entry.version = rng.choice((1, 6, 7, 9, 10, 11, 12, 13, 15, 18, 20, 23, 99))


def _unfit_attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    """An attribute of another kind, twice, longer, or gone."""
    having = [node for node in _nodes(model) if node.attribute]
    if not having:
        return
    node = rng.choice(having)
    at, kind = rng.randrange(len(node.attribute)), rng.randrange(6)
    held = node.attribute[at]
    if kind == 0:
        del node.attribute[at]
    elif kind == 1:
        node.attribute.append(held)
    elif kind == 2 and (held.ints or held.floats):
        (held.ints if held.ints else held.floats).append(rng.choice((0, 1, 7)))
    elif kind == 3 and (held.ints or held.floats):
        del (held.ints if held.ints else held.floats)[0]
    else:
        value = rng.choice(
            (
                1.5,
                float("nan"),
                float("inf"),
                -3,
                "text",
                [1, 2],
                [0.5],
                ["a"],
                _tensor(rng),
                helper.make_graph([], "g", [], []),
            )
        )
        node.attribute[at].CopyFrom(helper.make_attribute(held.name or "a", value))


def _tensor(rng: random.Random, name: str = "t") -> onnx.TensorProto:
    """A small tensor of any type and rank, with odd numbers in it."""
    shape = rng.choice(((), (0,), (1,), (2,), (3,), (1, 1), (2, 3), (0, 4), (1, 1, 1, 1), (1,) * 9))
    number = rng.choice((0, 1, -1, 2, 5, float("nan"), float("inf"), 1e30, 2**31, 2**62))
    dtype = rng.choice((np.float32, np.int64, np.int64, np.int32, np.bool_, np.uint8, np.float64, np.float16))
    with np.errstate(all="ignore"):
        return numpy_helper.from_array(np.full(shape, number).astype(dtype), name)


def _other_weight(model: onnx.ModelProto, rng: random.Random) -> None:
    """An initializer of another type, shape or content, or data that belong to no tensor."""
    held = model.graph.initializer
    if not held:
        return
    tensor, kind = rng.choice(held), rng.randrange(6)
    if kind == 0:
        del tensor.dims[:]
        tensor.dims.extend(rng.choice(([2**62], [2**32, 2**32], [0, 2**62], [2**31, 0], [1] * 40, [])))
    elif kind == 1:
        tensor.int64_data.extend([1, 2])
    elif kind == 2:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=rng.choice(("../x", "/etc/passwd", "", "x" * 5000)))
    elif kind == 3 and tensor.data_type == TensorProto.FLOAT and tensor.raw_data:
        count = len(tensor.raw_data) // 4
        tensor.raw_data = np.full(count, rng.choice((np.nan, np.inf, 1e38, -0.0)), np.float32).tobytes()
    else:
        tensor.CopyFrom(_tensor(rng, tensor.name))


def _feed_weight(model: onnx.ModelProto, rng: random.Random) -> None:
    """An operand that is a constant of the wrong kind."""
    node = _any_node(model, rng)
    name = f"odd{len(model.graph.initializer)}"
    model.graph.initializer.append(_tensor(rng, name))
    if node.input and rng.randrange(4):
        node.input[rng.randrange(len(node.input))] = name
    else:
        node.input.append(name)


def _subgraph(model: onnx.ModelProto, rng: random.Random) -> None:
    """Names that shadow those around, circles through a branch, results that are not there, a graph in itself."""
    having = [(node, a) for node in _nodes(model) for a in node.attribute if a.HasField("g")]
    if not having:
        return
    node, held = rng.choice(having)
    graph, outer = held.g, [name for other in model.graph.node for name in (*other.input, *other.output)] or [""]
    kind = rng.randrange(8)
    if kind == 0 and graph.node and graph.node[0].output:
        graph.node[0].output[0] = rng.choice(outer)
    elif kind == 1 and graph.node and graph.node[0].input:
        graph.node[0].input[0] = rng.choice(list(node.output))
    elif kind == 2 and graph.output:
        graph.output[0].name = rng.choice([*outer, "", "nowhere"])
    elif kind == 3 and graph.output:
        del graph.output[-1]
    elif kind == 4:
        graph.output.append(helper.make_tensor_value_info(rng.choice(outer), TensorProto.FLOAT, None))
    elif kind == 5:
        graph.input.append(helper.make_tensor_value_info(rng.choice([*outer, "more"]), TensorProto.FLOAT, ["n"]))
    elif kind == 6:
        graph.initializer.append(_tensor(rng, rng.choice(outer)))
    else:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        graph.node.append(copy)


def _claims(model: onnx.ModelProto, rng: random.Random) -> None:
    """What is said of values that nodes make, and is not so; outputs twice, or that are inputs, or gone."""
    names = [name for node in model.graph.node for name in node.output] or ["nothing"]
    kind = rng.randrange(7)
    if kind < 3:
        shape = rng.choice((None, [], [1], ["n", 7], [2**62], ["n", "n", "n"], [0, 3], [-1]))
        model.graph.value_info.append(
            helper.make_tensor_value_info(rng.choice(names), rng.choice((TensorProto.FLOAT, TensorProto.INT64)), shape)
        )
    elif kind == 3 and model.graph.output:
        model.graph.output.append(rng.choice(model.graph.output))
    elif kind == 4:
        known = [*names, *(each.name for each in (*model.graph.input, *model.graph.initializer))]
        model.graph.output.append(helper.make_tensor_value_info(rng.choice(known), TensorProto.FLOAT, None))
    elif kind == 5:
        model.graph.output.append(onnx.ValueInfoProto(name=rng.choice(names)))
    else:
        del model.graph.output[:]


def _axes(model: onnx.ModelProto, rng: random.Random) -> None:
    """One name for axes of several inputs, or names that say each other."""
    dims = [dim for each in model.graph.input for dim in each.type.tensor_type.shape.dim]
    if dims:
        name = rng.choice(("n", "n", "n + 1", "m // 2", "2*n", "n - m", "max(n, m)"))
        for dim in rng.sample(dims, min(len(dims), rng.randint(1, 4))):
            dim.dim_param = name
        if rng.randrange(4) == 0:
            rng.choice(dims).dim_value = rng.choice((0, 1, 2**62, 2**31 - 1))


def _imports(model: onnx.ModelProto, rng: random.Random) -> None:
    """Opsets that are missing, doubled or of another domain; a function that is named as an op is; odd facts."""
    kind = rng.randrange(5)
    if kind == 0 and model.opset_import:
        del model.opset_import[rng.randrange(len(model.opset_import))]
    elif kind == 1:
        model.opset_import.append(helper.make_opsetid(rng.choice(("", "ai.onnx")), rng.choice((7, 13, 18, 2**62, -3))))
    elif kind == 2:
        node = _any_node(model, rng)
        body = [helper.make_node(node.op_type or "Neg", ["a"], ["b"], domain=node.domain)]
        model.functions.append(
            helper.make_function(node.domain, node.op_type or "Neg", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
        )
    elif kind == 3:
        model.metadata_props.add(key="egshape.facts", value=rng.choice(("", "{}", "[]", "null", '{"version": 1}')))
    else:
        _any_node(model, rng).op_type = rng.choice(sorted({each.name for each in onnx.defs.get_all_schemas()}))


_BLUNT: tuple[Change, ...] = (
    *((_attribute, _operand, _weight) * 3),
    *((_op, _result, _input) * 2),
    _domain,
    _order,
    _opset,
)

_SHARP: tuple[Change, ...] = (
    *((_unfit_attribute, _other_weight, _feed_weight) * 2),
    _subgraph,
    _subgraph,
    _claims,
    _axes,
    _imports,
)
"""Those that get past the reader, into the conversion of values."""

_CHANGES = (*_BLUNT, *_SHARP)
