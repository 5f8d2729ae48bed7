"""Ranks of tensors for which a model states no shape, from the nodes that use them: each node says what it says of the
ranks of its operands and results (ONNX's operator specification), whatever the sizes are.

Only what surely runs is asked: a branch, or the body of a loop, may be there for tensors of another rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto

from egshape.frontends.onnx.files import DEPTH_LIMIT
from egshape.frontends.onnx.node import STANDARD, resolved
from egshape.frontends.ranks import Equation, Widest, is_of, pairs, same, solve, sums

Functions = Mapping[tuple[str, str], FunctionProto]


def inferred(
    graph: GraphProto, nodes: Iterable[NodeProto], functions: Functions, known: Mapping[str, int]
) -> dict[str, int]:
    """The ranks of the tensors of a graph, of which these nodes run; ``known`` are those that are stated. Only these
    where what is said of ranks cannot be true together."""
    reader = _Reader(functions)
    names = {name: next(reader.fresh) for name in (*known, *(each.name for each in (*graph.input, *graph.initializer)))}
    for info in (*graph.input, *graph.value_info, *graph.output):
        sizes = info.type.tensor_type.shape.dim
        if info.name in known and len(sizes) == 1 and sizes[0].HasField("dim_value"):
            reader.lengths[names[info.name]] = sizes[0].dim_value
    for tensor in graph.initializer:
        reader.number(tensor, names[tensor.name])
    reader.nodes(nodes, names, {}, 0)
    ranks = {names[name]: rank for name, rank in known.items()}
    solve(reader.equations, ranks)
    if not all(each.holds(ranks) for each in reader.equations):
        return dict(known)
    return {name: ranks[value] for name, value in names.items() if value in ranks}


def open_squeeze(node: NodeProto) -> bool:
    """Whether a node is a Squeeze that names no axes, so that sizes decide its result's rank."""
    return node.op_type == "Squeeze" and len(node.input) < 2 and not node.attribute


@dataclass
class _Call:
    """A node: its operands and results as numbers of values, None where one is left out, and what its lists say."""

    proto: NodeProto
    attributes: Mapping[str, AttributeProto]
    operands: Sequence[int | None]
    results: Sequence[int | None]
    lengths: Mapping[int, int]

    @property
    def op(self) -> str:
        """The op's name."""
        return str(self.proto.op_type)

    def operand(self, place: int) -> int | None:
        """An operand, None where it is not there."""
        return self.operands[place] if place < len(self.operands) else None

    def result(self, place: int = 0) -> int | None:
        """A result, None where nobody wants it."""
        return self.results[place] if place < len(self.results) else None

    def ints(self, name: str, place: int | None = None) -> int | None:
        """How many numbers an attribute, or the operand that took its place, has."""
        if name in self.attributes:
            return len(self.attributes[name].ints or self.attributes[name].floats)
        held = None if place is None else self.operand(place)
        return None if held is None else self.lengths.get(held)

    def int(self, name: str, default: int) -> int:
        """An integer attribute."""
        return self.attributes[name].i if name in self.attributes else default


@dataclass
class _Reader:
    """Reads nodes for what they say of ranks. Values are numbers: names mean something in their graph only."""

    functions: Functions
    equations: list[Equation] = field(default_factory=list)
    lengths: dict[int, int] = field(default_factory=dict)
    """How many elements vectors have, where the model says it."""
    fresh: Iterator[int] = field(default_factory=count)

    def number(self, tensor: TensorProto, value: int) -> None:
        """Note the type of a constant."""
        self.equations += is_of(value, len(tensor.dims))
        if len(tensor.dims) == 1:
            self.lengths[value] = tensor.dims[0]

    def nodes(
        self, nodes: Iterable[NodeProto], names: dict[str, int], given: Mapping[str, AttributeProto], depth: int
    ) -> None:
        """Note what nodes say, of the graph or of a function that is called with attributes."""
        for proto in nodes:
            results = [names.setdefault(name, next(self.fresh)) if name else None for name in proto.output]
            operands = [names.get(name) for name in proto.input]
            call = _Call(proto, resolved(proto, given or None), operands, results, self.lengths)
            domain = "" if proto.domain in STANDARD else proto.domain
            function = self.functions.get((domain, proto.op_type))
            if function is None:
                self.equations += () if domain else _said(call)
            elif depth < DEPTH_LIMIT:
                self._function(function, call, depth)
            constant = call.attributes.get("value")
            if call.op == "Constant" and constant is not None and results[0] is not None:
                self.number(constant.t, results[0])

    def _function(self, function: FunctionProto, call: _Call, depth: int) -> None:
        names = {name: value for name, value in zip(function.input, call.operands, strict=False) if value is not None}
        given = {**{each.name: each for each in function.attribute_proto}, **call.attributes}
        self.nodes(function.node, names, given, depth + 1)
        self.equations += pairs([names.get(name) for name in function.output], call.results)


# -- what ops say --------------------------------------------------------------------------------------------------


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_BROADCAST = _words(
    "Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean "
    "Min Mod Mul Or Pow Sub Sum Where Xor BitShift"
)
"""The result has the rank of the widest operand."""

_FIRST = _words(
    "Abs Acos Acosh Asin Asinh Atan Atanh AveragePool Bernoulli BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh "
    "CumSum DepthToSpace DequantizeLinear Dropout Elu Erf Exp EyeLike Floor Gelu GlobalAveragePool GlobalLpPool "
    "GlobalMaxPool GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN "
    "LeakyRelu Log LogSoftmax LpNormalization LpPool MaxPool MeanVarianceNormalization Mish Neg Not PRelu "
    "QuantizeLinear RandomNormalLike RandomUniformLike Reciprocal Relu Resize ReverseSequence Round ScatterND Selu "
    "Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign SpaceToDepth Split Sqrt Swish Tan Tanh ThresholdedRelu "
    "TopK Trilu Upsample"
)
"""The results have the rank of the first operand."""

_ALIKE: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(_FIRST, (0,)),
    **dict.fromkeys(("Conv", "ConvTranspose", "GatherElements", "GridSample"), (0, 1)),
    "Scatter": (0, 1, 2),
    "ScatterElements": (0, 1, 2),
}
"""Operands that have the rank of the results."""

Rule = Callable[[_Call], Iterable[Equation]]


def _listed(name: str, place: int | None = None, times: int = 1, axes: int | None = None) -> Rule:
    """The operand and the result have as many axes as a list has numbers (or ``times`` so many), where no other operand
    lists the axes."""

    def rule(c: _Call) -> Iterator[Equation]:
        yield from same(c.operand(0), c.result())
        held = c.ints(name, place)
        if held is not None and (axes is None or c.operand(axes) is None):
            yield from is_of(c.operand(0), held // times)

    return rule


def _ranks(operands: Sequence[int | None], results: Sequence[int]) -> Rule:
    """Ranks that are the same in every program."""

    def rule(c: _Call) -> Iterator[Equation]:
        for place, rank in enumerate(operands):
            yield from is_of(c.operand(place), rank)
        for place, rank in enumerate(results):
            yield from is_of(c.result(place), rank)

    return rule


def _reduce(c: _Call) -> Iterator[Equation]:
    if c.int("keepdims", 1):
        yield from same(c.operand(0), c.result())
        return
    gone = 1 if c.op.startswith("Arg") else c.ints("axes", 1)
    if gone:  # of none runtimes think differently
        yield from sums(gone, (1, c.operand(0)), (-1, c.result()))
    elif gone is None and "axes" not in c.attributes and c.operand(1) is None and not c.int("noop_with_empty_axes", 0):
        yield from is_of(c.result(), 0)


def _axes(factor: int) -> Rule:
    """The result has as many axes more (or less) as a list has numbers."""

    def rule(c: _Call) -> Iterator[Equation]:
        held = c.ints("axes", 1)
        return sums(factor * held, (1, c.result()), (-1, c.operand(0))) if held else iter(())

    return rule


def _gather(c: _Call) -> Iterator[Equation]:
    return sums(1, (1, c.operand(0)), (1, c.operand(1)), (-1, c.result()))


def _shaped(place: int) -> Rule:
    """The result has as many axes as a vector of sizes has numbers."""
    return lambda c: is_of(c.result(), c.ints("shape", place))


def _einsum(c: _Call) -> Iterator[Equation]:
    text = c.attributes["equation"].s.decode("utf-8", "replace").replace(" ", "") if "equation" in c.attributes else ""
    terms, _, result = text.partition("->")
    if "." in text or not terms:
        return
    for place, term in enumerate(terms.split(",")):
        yield from is_of(c.operand(place), len(term))
    if "->" in text:
        yield from is_of(c.result(), len(result))


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        _words(
            "ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
            "ReduceSum ReduceSumSquare"
        ),
        _reduce,
    ),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _ranks((3, 3, 3), (4, 3, 3))),
    "BatchNormalization": lambda c: same(c.operand(0), c.result()),
    "Concat": lambda c: same(*c.operands, *c.results),
    "ConstantOfShape": _shaped(0),
    "Einsum": _einsum,
    "Flatten": _ranks((), (2,)),
    "Gather": _gather,
    "Gemm": _ranks((2, 2), (2,)),
    "LayerNormalization": lambda c: same(c.operand(0), c.result()),
    "NonZero": _ranks((), (2,)),
    "OneHot": lambda c: sums(1, (1, c.result()), (-1, c.operand(0))),
    "Pad": _listed("pads", 1, times=2, axes=3),
    "Range": _ranks((0, 0, 0), (1,)),
    "Reshape": _shaped(1),
    "Shape": _ranks((), (1,)),
    "Size": _ranks((), (0,)),
    "Slice": lambda c: same(c.operand(0), c.result()),
    "Squeeze": _axes(-1),
    "Tile": _listed("repeats", 1),
    "Transpose": _listed("perm"),
    "Unsqueeze": _axes(1),
}


def _said(c: _Call) -> Iterable[Equation]:
    """What a node of a standard op says."""
    if c.op in _ALIKE:
        return same(*(c.operand(place) for place in _ALIKE[c.op]), *c.results)
    if c.op in _RULES:
        return _RULES[c.op](c)
    result, operands = c.result(), [each for each in c.operands if each is not None]
    if c.op in _BROADCAST and result is not None and len(operands) == len(c.operands):
        return (Widest(result, tuple(operands)),)
    return ()
