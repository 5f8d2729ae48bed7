"""Networks from layers, with symbolic sizes and random weights, for tests, benchmarks and first experiments.

    net = Network()
    x = net.input("x", ["batch", "length", 64])
    y = net.encoder_layer(x, heads=4)
    graph = net.graph(y=y)                      # ready for egshape.optimize and egshape.compile

A size is an int, a ``Dim``, or a name: equal names are equal sizes, checked when the graph is entered. Values are f32
where nothing else is said. What is built of layers is also kept as a list, ``net.layers``, from which the same network
can be made in another framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import numpy as np

from egshape.dims import Dim, const, product, symbol
from egshape.errors import EgshapeError
from egshape.facts import Facts
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value

Size = Dim | int | str
"""A size of an axis: a number, an expression, or the name of a symbol."""

Array = np.ndarray[Any, np.dtype[Any]]

_P = ParamSpec("_P")
_NCHW = (0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3))


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer as it was asked for: the method of ``Network``, its arguments, and the value that it gave."""

    name: str
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    result: Value


def layer(method: Callable[Concatenate[Network, _P], Value]) -> Callable[Concatenate[Network, _P], Value]:
    """A method of ``Network`` that is kept in ``layers``, unless another layer calls it."""

    @wraps(method)
    def recorded(net: Network, /, *args: _P.args, **options: _P.kwargs) -> Value:
        net._depth += 1
        try:
            result = method(net, *args, **options)
        finally:
            net._depth -= 1
        if net._depth == 0:
            net.layers.append(Layer(method.__name__, args, options, result))
        return result

    return recorded


class Network:
    """A graph under construction, a layer at a time. ``seed`` decides the random weights.

    Raises EgshapeError for sizes that cannot fit each other.

    Examples:
        >>> from egshape.frontends.builder import Network
        >>> net = Network(seed=0)
        >>> x = net.input("x", ["batch", 8])
        >>> net.graph(y=net.softmax(net.linear(x, 3)))
        <Graph network: (x: f32[batch, 8]) -> (f32[batch, 3]), 12 ops>
    """

    def __init__(self, name: str = "network", *, seed: int = 0) -> None:
        self.name = name
        self.layers: list[Layer] = []
        self._b = BlockBuilder()
        self._rng = np.random.default_rng(seed)
        self._depth = 0

    # -- inputs, weights, the graph ---------------------------------------------------------------------------------

    @layer
    def input(self, name: str, shape: Sequence[Size], dtype: str = "f32") -> Value:
        """An input of the graph. A size that is a name, or a symbol, is read from the array."""
        labels = [_label(size) for size in shape]
        sizes = [None if label else size for label, size in zip(labels, shape, strict=True)]
        return self._b.arg(name, dtype, [each if isinstance(each, int | Dim) else None for each in sizes], labels)

    @layer
    def weight(self, array: Array) -> Value:
        """A constant."""
        return self._b.one("constant", (), {"value": np.asarray(array)})

    def random(self, *shape: int, scale: float | None = None) -> Value:
        """A weight of normal numbers. scale: their deviation, 1/sqrt of the first size where none is given."""
        deviation = scale if scale is not None else 1 / math.sqrt(shape[0] if shape else 1)
        return self.weight(self._rng.standard_normal(shape, np.float32) * np.float32(deviation))

    def graph(self, facts: Facts | None = None, **outputs: Value) -> Graph:
        """The graph of the given outputs, by name."""
        return Graph(self.name, self._b.finish(list(outputs.values())), tuple(outputs), facts or Facts())

    # -- elementwise ------------------------------------------------------------------------------------------------

    @layer
    def add(self, x: Value, y: Value) -> Value:
        """x + y; axes of size 1 and missing leading axes repeat."""
        return self._binary("add", x, y)

    @layer
    def multiply(self, x: Value, y: Value) -> Value:
        """x * y; axes of size 1 and missing leading axes repeat."""
        return self._binary("multiply", x, y)

    @layer
    def relu(self, x: Value) -> Value:
        """max(x, 0)."""
        return self._op("maximum", x, self._scalar(0.0, x))

    @layer
    def tanh(self, x: Value) -> Value:
        """tanh of each element."""
        return self._op("tanh", x)

    @layer
    def silu(self, x: Value) -> Value:
        """x * sigmoid(x)."""
        return self._op("multiply", x, self._op("logistic", x))

    @layer
    def gelu(self, x: Value) -> Value:
        """x * Phi(x), by erf (Hendrycks and Gimpel 2016)."""
        inner = self._op("erf", self._op("multiply", x, self._scalar(math.sqrt(0.5), x)))
        half = self._op("multiply", x, self._scalar(0.5, x))
        return self._op("multiply", half, self._op("add", inner, self._scalar(1.0, x)))

    # -- rows -------------------------------------------------------------------------------------------------------

    @layer
    def softmax(self, x: Value) -> Value:
        """Softmax over the last axis."""
        shifted = self._op("exponential", self._op("subtract", x, self._fold(x, "maximum")))
        return self._op("divide", shifted, self._fold(shifted, "add"))

    @layer
    def normalize(self, x: Value, gain: Value, bias: Value, epsilon: float = 1e-5) -> Value:
        """(x - mean) / sqrt(variance + epsilon) * gain + bias over the last axis, which must be static
        (Ba et al. 2016)."""
        width = self._scalar(float(_static(x, -1)), x)
        centred = self._op("subtract", x, self._op("divide", self._fold(x, "add"), width))
        variance = self._op("divide", self._fold(self._op("multiply", centred, centred), "add"), width)
        scale = self._op("rsqrt", self._op("add", variance, self._scalar(epsilon, x)))
        return self._binary("add", self._binary("multiply", self._op("multiply", centred, scale), gain), bias)

    def layernorm(self, x: Value) -> Value:
        """``normalize`` with random gain and bias."""
        width = _static(x, -1)
        return self.normalize(
            x,
            self.add(self.random(width, scale=0.1), self.weight(np.ones(width, np.float32))),
            self.random(width, scale=0.1),
        )

    # -- shapes -----------------------------------------------------------------------------------------------------

    @layer
    def reshape(self, x: Value, shape: Sequence[Size]) -> Value:
        """The same elements in row-major order as another shape. 0 keeps the size of x at that axis."""
        sizes = tuple(x.type.dims[axis] if size == 0 else _dim(size) for axis, size in enumerate(shape))
        return self._op("reshape", x, shape=sizes)

    @layer
    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """Axis k of the result is axis order[k] of x."""
        return self._op("transpose", x, permutation=tuple(order))

    @layer
    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        """The values one after the other along an axis."""
        return self._op("concatenate", *xs, dim=axis)

    @layer
    def take(self, table: Value, indices: Value) -> Value:
        """Rows of a matrix: [n, width] at indices [...] gives [..., width]; indices are clamped."""
        rank = indices.type.rank
        return self._op(
            "gather",
            table,
            indices,
            offset_dims=(rank,),
            collapsed=(0,),
            start_index_map=(0,),
            index_vector_dim=rank,
            sizes=(const(1), table.type.dims[1]),
        )

    @layer
    def rows(self, table: Value, x: Value, axis: int) -> Value:
        """The first rows of a matrix, as many as x has along an axis; the graph checks that there are so many."""
        size, width = x.type.dims[axis], table.type.dims[1]
        self._b.add(
            "check",
            [],
            {
                "relation": "<=",
                "sides": (size, table.type.dims[0]),
                "args": (size,),
                "message": "there are no {0} rows in the table",
            },
        )
        return self._op("slice", table, starts=(const(0), const(0)), limits=(size, width), strides=(const(1), const(1)))

    # -- products ---------------------------------------------------------------------------------------------------

    @layer
    def matmul(self, x: Value, y: Value) -> Value:
        """x @ y: [..., m, k] with [k, n], or with the same leading axes and [..., k, n]."""
        batch = tuple(range(y.type.rank - 2))
        return self._dot(x, y, batch, (x.type.rank - 1, y.type.rank - 2))

    def linear(self, x: Value, outputs: int, *, bias: bool = True) -> Value:
        """x @ w + b over the last axis of x, which must be static."""
        y = self.matmul(x, self.random(_static(x, -1), outputs))
        return self.add(y, self.random(outputs, scale=0.1)) if bias else y

    @layer
    def split_heads(self, x: Value, heads: int) -> Value:
        """[batch, length, heads * depth] to [batch, heads, length, depth]."""
        depth = _divided(_static(x, 2), heads)
        split = self._op("reshape", x, shape=(*x.type.dims[:2], const(heads), const(depth)))
        return self._op("transpose", split, permutation=(0, 2, 1, 3))

    @layer
    def merge_heads(self, x: Value) -> Value:
        """[batch, heads, length, depth] to [batch, length, heads * depth]."""
        back = self._op("transpose", x, permutation=(0, 2, 1, 3))
        b, s, h, d = back.type.dims
        return self._op("reshape", back, shape=(b, s, h * d))

    @layer
    def attend(self, q: Value, k: Value, v: Value, mask: Value | None = None) -> Value:
        """softmax(q k^T / sqrt(depth) + mask) v for [batch, heads, length, depth] (Vaswani et al. 2017).
        mask: added to the scores [batch, heads, length of q, length of k]; its axes of size 1 repeat."""
        scores = self._dot(q, k, (0, 1), (3, 3))
        scores = self._op("divide", scores, self._scalar(math.sqrt(_static(q, 3)), scores))
        if mask is not None:
            scores = self._binary("add", scores, mask)
        return self._dot(self.softmax(scores), v, (0, 1), (3, 2))

    @layer
    def padding_mask(self, keep: Value) -> Value:
        """A mask for ``attend`` of integers [batch, length]: 1 keeps a place, 0 adds -10000 to its scores."""
        b, s = keep.type.dims
        wide = self._op("convert", self._op("reshape", keep, shape=(b, const(1), const(1), s)), dtype="f32")
        hidden = self._op("subtract", self._scalar(1.0, wide), wide)
        return self._op("multiply", hidden, self._scalar(-10000.0, wide))

    def attention(self, x: Value, heads: int, mask: Value | None = None) -> Value:
        """Self-attention with projections of [batch, length, width]."""
        width = _static(x, 2)
        q, k, v = (self.split_heads(self.linear(x, width), heads) for _ in range(3))
        return self.linear(self.merge_heads(self.attend(q, k, v, mask)), width)

    def feed_forward(self, x: Value, inner: int | None = None) -> Value:
        """Two linear layers with gelu between. inner: the width there, four times that of x if not given."""
        width = _static(x, -1)
        return self.linear(self.gelu(self.linear(x, inner or 4 * width)), width)

    def encoder_layer(self, x: Value, heads: int, inner: int | None = None, mask: Value | None = None) -> Value:
        """A transformer encoder layer, normalized after each part as in BERT."""
        x = self.layernorm(self.add(x, self.attention(x, heads, mask)))
        return self.layernorm(self.add(x, self.feed_forward(x, inner)))

    def embedding(self, ids: Value, count: int, width: int, positions: int = 0) -> Value:
        """Rows of a random table at ids [batch, length]; with positions, rows of a second table are added."""
        x = self.take(self.random(count, width, scale=0.5), ids)
        return self.add(x, self.rows(self.random(positions, width, scale=0.5), ids, 1)) if positions else x

    def decoder_step(
        self, x: Value, keys: Value, values: Value, heads: int, inner: int | None = None
    ) -> tuple[Value, Value, Value]:
        """A decoder layer with a cache, normalized before each part as in GPT-2: x [batch, 1, width] is the newest
        place, keys and values [batch, heads, past, depth] the earlier ones. Gives y, and the cache with the new
        place."""
        width = _static(x, 2)
        normal = self.layernorm(x)
        q, k, v = (self.split_heads(self.linear(normal, width), heads) for _ in range(3))
        keys, values = self.concatenate([keys, k], 2), self.concatenate([values, v], 2)
        x = self.add(x, self.linear(self.merge_heads(self.attend(q, keys, values)), width))
        return self.add(x, self.feed_forward(self.layernorm(x), inner)), keys, values

    # -- images -----------------------------------------------------------------------------------------------------

    @layer
    def convolve(self, x: Value, kernel: Value, stride: int = 1, padding: int = 0, groups: int = 1) -> Value:
        """Cross-correlation of [batch, channels, height, width] with [outputs, channels / groups, h, w]."""
        return self._op(
            "convolution",
            x,
            kernel,
            numbers=_NCHW,
            strides=(stride, stride),
            padding=(const(padding),) * 4,
            lhs_dilation=(1, 1),
            rhs_dilation=(1, 1),
            reversal=(0, 0),
            feature_groups=groups,
            batch_groups=1,
            dtype="f32",
        )

    def conv2d(self, x: Value, outputs: int, kernel: int = 3, *, stride: int = 1, groups: int = 1) -> Value:
        """``convolve`` with random weights, a bias, and a padding that keeps the size at stride 1."""
        inputs = _divided(_static(x, 1), groups)
        weights = self.random(outputs, inputs, kernel, kernel, scale=math.sqrt(2 / (inputs * kernel * kernel)))
        y = self.convolve(x, weights, stride, kernel // 2, groups)
        return self.add(y, self.reshape(self.random(outputs, scale=0.1), (outputs, 1, 1)))

    @layer
    def max_pool(self, x: Value, window: int, stride: int, padding: int = 0) -> Value:
        """The largest of each window of [batch, channels, height, width]."""
        ones, sides = (const(1),) * 4, (const(0),) * 4 + (const(padding),) * 4
        (out,) = self._b.add(
            "reduce_window",
            (x, self._number(-math.inf)),
            {
                "window": (const(1), const(1), const(window), const(window)),
                "base_dilation": ones,
                "strides": (const(1), const(1), const(stride), const(stride)),
                "window_dilation": ones,
                "padding": sides,
            },
            regions=(self._region("maximum"),),
        )
        return out

    @layer
    def mean_pool(self, x: Value) -> Value:
        """[batch, channels, height, width] to the means [batch, channels]."""
        (total,) = self._b.add("reduce", (x, self._number(0.0)), {"dims": (2, 3)}, regions=(self._region("add"),))
        count = self._op("dims", elements=(product(x.type.dims[2:]),), shape=(), dtype="i64")
        wide = self._op("broadcast_in_dim", self._op("convert", count, dtype="f32"), dims=(), shape=total.type.dims)
        return self._op("divide", total, wide)

    def residual_block(self, x: Value, outputs: int, stride: int = 1) -> Value:
        """relu(x + conv(relu(conv(x)))), with a 1x1 convolution beside it where the shape changes (He et al. 2015);
        batch normalization is folded into the weights, as at inference."""
        inner = self.conv2d(self.relu(self.conv2d(x, outputs, stride=stride)), outputs)
        if stride != 1 or _static(x, 1) != outputs:
            x = self.conv2d(x, outputs, 1, stride=stride)
        return self.relu(self.add(x, inner))

    # -- inside -----------------------------------------------------------------------------------------------------

    def _op(self, name: str, *xs: Value, **attrs: object) -> Value:
        return self._b.one(name, xs, attrs)

    def _number(self, value: float) -> Value:
        return self._b.one("constant", (), {"value": np.array(value, np.float32)})

    def _scalar(self, value: float, target: Value) -> Value:
        return self._op("broadcast_in_dim", self._number(value), dims=(), shape=target.type.dims)

    def _region(self, name: str) -> Any:
        inner = self._b.child()
        x, y = inner.arg(None, "f32", []), inner.arg(None, "f32", [])
        return inner.finish([inner.one(name, (x, y))])

    def _fold(self, x: Value, name: str) -> Value:
        """A reduction of the last axis, spread over it again."""
        start = self._number(-math.inf if name == "maximum" else 0.0)
        (out,) = self._b.add("reduce", (x, start), {"dims": (x.type.rank - 1,)}, regions=(self._region(name),))
        return self._op("broadcast_in_dim", out, dims=tuple(range(x.type.rank - 1)), shape=x.type.dims)

    def _dot(self, x: Value, y: Value, batch: tuple[int, ...], contract: tuple[int, int]) -> Value:
        return self._op(
            "dot_general",
            x,
            y,
            lhs_batch=batch,
            rhs_batch=batch,
            lhs_contract=contract[:1],
            rhs_contract=contract[1:],
            dtype=x.type.dtype,
        )

    def _binary(self, name: str, x: Value, y: Value) -> Value:
        rank = max(x.type.rank, y.type.rank)
        padded = [(const(1),) * (rank - each.type.rank) + each.type.dims for each in (x, y)]
        shape = tuple(_spread(one, two) for one, two in zip(*padded, strict=True))
        return self._op(name, self._to(x, shape), self._to(y, shape))

    def _to(self, x: Value, shape: tuple[Dim, ...]) -> Value:
        if x.type.dims == shape:
            return x
        return self._op("broadcast_in_dim", x, dims=tuple(range(len(shape) - x.type.rank, len(shape))), shape=shape)


def _label(size: Size) -> str | None:
    """The name of a size that is a symbol."""
    if isinstance(size, str):
        return size
    if isinstance(size, Dim) and size.const is None:
        (name, *rest) = size.symbols()
        if rest or size is not symbol(name):
            raise EgshapeError(
                f"an input cannot have the size {size}", hint="give the axis a name of its own", code="size"
            )
        return name
    return None


def _dim(size: Size) -> Dim:
    if isinstance(size, str):
        return symbol(size)
    return size if isinstance(size, Dim) else const(size)


def _static(x: Value, axis: int) -> int:
    """The size of an axis, which must be a number."""
    size = x.type.dims[axis].const
    if size is None:
        raise EgshapeError(f"axis {axis} of {x} must be static here", hint="give the input a number there", code="size")
    return size


def _divided(size: int, parts: int) -> int:
    if parts < 1 or size % parts:
        raise EgshapeError(f"{size} cannot be split into {parts} equal parts", code="size")
    return size // parts


def _spread(one: Dim, two: Dim) -> Dim:
    """The size of an axis of two operands, where a 1 repeats."""
    if one is two or two.const == 1:
        return one
    if one.const == 1:
        return two
    raise EgshapeError(
        f"sizes {one} and {two} do not fit each other", hint="give equal sizes the same name", code="size"
    )
