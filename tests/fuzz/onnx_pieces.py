"""Pieces of random ONNX models that compute data: elementwise ops with implicit broadcasting, reductions, products,
windows, lookups, branches, loops, and ops that are several in one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fuzz.onnx_maker import SYMBOLS, WITNESSES, Held, Maker, _elem
from tests.fuzz.onnx_sizes import SIZED, size

UNARY = {
    "Relu": True,
    "Neg": True,
    "Abs": True,
    "Sigmoid": False,
    "Tanh": False,
    "Erf": False,
    "Sin": False,
    "Cos": False,
    "Identity": True,
    "HardSigmoid": False,
    "Softplus": False,
    "LeakyRelu": False,
    "Elu": False,
}
"""Ops of one float, and whether they keep whole numbers."""


def binary(m: Maker) -> None:
    """Two values of one type, broadcast."""
    x = m.pick(lambda held: held.kind in "fi")
    if x is None:
        return
    y = m.pick(lambda held: held.dtype == x.dtype and _fits(held, x))
    if y is None or m.chance(6):
        y = m.constant(np.array(m.choice((0, 1, 2, -1)), x.dtype))
    pair = [x, y] if m.chance(2) else [y, x]
    op = m.choice(("Add", "Add", "Mul", "Mul", "Sub", "Max", "Min"))
    if op in ("Max", "Min") and m.chance(3):
        pair.append(pair[0])
    m.one(op, pair)


def _fits(one: Held, two: Held) -> bool:
    pairs = zip(reversed(one.axes), reversed(two.axes), strict=False)
    return all(left == right or 1 in (left, right) for axes in pairs for left, right in zip(*axes, strict=True))


def quotient(m: Maker) -> None:
    """A float by one that is not 0, or an integer by a constant."""
    x = m.pick(lambda held: held.kind in "fi")
    if x is None:
        return
    if x.kind == "i":
        m.one(m.choice(("Div", "Mod")), [x, m.constant(np.array(m.choice((2, 3)), x.dtype))])
        return
    y = m.rounds(lambda held: _fits(held, x)) or x
    square = m.one("Mul", [y, y], keep=False)
    below = square and m.one("Add", [square, m.constant(np.array(1, x.dtype))], keep=False)
    if below is not None:
        m.one("Div", [x, below], exact=False)


def unary(m: Maker) -> None:
    """A float through a function."""
    x = m.rounds()
    if x is not None:
        op = m.choice(list(UNARY))
        m.one(op, [x], exact=UNARY[op])


def rounded(m: Maker) -> None:
    """What jumps, of numbers that are exact."""
    x = m.rounds(lambda held: held.exact)
    if x is not None:
        half = m.one("Mul", [x, m.constant(np.array(0.5, x.dtype))], keep=False)
        if half is not None:
            m.one(m.choice(("Floor", "Ceil", "Round")), [half])


def clip(m: Maker) -> None:
    """A value between bounds, one of them left out at times."""
    x = m.pick(lambda held: held.kind in "fi")
    if x is not None:
        low, high = m.constant(np.array(-1, x.dtype)), m.constant(np.array(2, x.dtype))
        m.one("Clip", [x, *m.choice(([low], [low, high], [None, high]))])


def compare(m: Maker) -> None:
    """A comparison, and a choice or a logical op on it."""
    x = m.pick(lambda held: held.kind in "fi" and held.exact)
    y = x and m.pick(lambda held: held.dtype == x.dtype and held.exact and _fits(held, x))
    if x is None or y is None:
        return
    said = m.one(m.choice(("Equal", "Greater", "Less", "LessOrEqual", "GreaterOrEqual")), [x, y])
    other = m.pick(lambda held: held.kind == "b" and said is not None and _fits(held, said))
    if said is not None and other is not None and m.chance(2):
        said = m.one(m.choice(("And", "Or", "Xor")), [said, other])
    if said is not None and m.chance(2):
        m.one("Not", [said])


def where(m: Maker) -> None:
    """One of two values, all three broadcast."""
    c = m.pick(lambda held: held.kind == "b")
    x = c and m.pick(lambda held: held.kind in "fi" and _fits(held, c))
    y = x and m.pick(lambda held: held.dtype == x.dtype and _fits(held, x))
    if c is not None and x is not None:
        m.one("Where", [c, x, m.constant(np.array(0, x.dtype)) if y is None else y])


def cast(m: Maker) -> None:
    """A value in another type."""
    x = m.pick(lambda held: held.exact)
    if x is not None:
        m.one(
            "Cast",
            [x],
            to=m.choice(
                (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.DOUBLE)
            ),
        )


def transpose(m: Maker) -> None:
    """Axes in another order."""
    x = m.pick(lambda held: held.rank > 1)
    if x is not None:
        perm = list(range(x.rank))
        m.rng.shuffle(perm)
        m.one("Transpose", [x], perm=perm)


def unsqueeze(m: Maker) -> None:
    """Axes of one element, that come or go."""
    x = m.pick(lambda held: held.rank < 5)
    if x is None:
        return
    ones = [axis for axis, counts in enumerate(x.axes) if set(counts) == {1}]
    if ones and m.chance(2):
        m.one("Squeeze", [x, m.constant([m.choice(ones)])])
    elif m.chance(8):
        m.one("Flatten", [x], axis=m.rng.randrange(x.rank + 1))
    else:
        m.one("Unsqueeze", [x, m.constant(sorted(m.rng.sample(range(x.rank + 1), 1)))])


def concat(m: Maker) -> None:
    """Values one after the other."""
    x = m.pick(lambda held: held.rank > 0)
    if x is None:
        return
    axis = m.rng.randrange(x.rank)
    y = m.pick(
        lambda held: (
            held.dtype == x.dtype
            and held.rank == x.rank
            and all(one == two for at, (one, two) in enumerate(zip(held.axes, x.axes, strict=True)) if at != axis)
        )
    )
    parts = [x, x if y is None else y]
    m.one("Concat", parts[:: m.choice((1, -1))], axis=m.choice((axis, axis - x.rank)))


def reduce(m: Maker) -> None:
    """A reduction along some axes."""
    x = m.pick(lambda held: held.rank > 0 and held.kind in "fi")
    if x is None:
        return
    op = m.choice(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceSum"))
    exact = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
    if op == "ReduceMean":
        if not all(array.size for array in x.arrays):
            return
        m.empty = False
    axes = sorted(m.rng.sample(range(x.rank), m.rng.randint(1, x.rank)))
    keepdims = m.rng.randrange(2)
    if op == "ReduceSum" or m.opset >= 18:
        m.one(op, [x, m.constant(axes)], keepdims=keepdims, exact=exact)
    else:
        m.one(op, [x], axes=axes, keepdims=keepdims, exact=exact)


def place(m: Maker) -> None:
    """Where the largest element is."""
    x = m.pick(lambda held: held.rank > 0 and held.exact and held.kind in "fi")
    if x is not None:
        m.one(m.choice(("ArgMax", "ArgMin")), [x], axis=m.rng.randrange(x.rank), keepdims=m.rng.randrange(2))


def softmax(m: Maker) -> None:
    """Softmax along an axis."""
    x = m.rounds(lambda held: held.rank > 0)
    if x is not None:
        m.one(m.choice(("Softmax", "Softmax", "LogSoftmax")), [x], axis=m.rng.randint(-x.rank, x.rank - 1), exact=False)


def matmul(m: Maker) -> None:
    """A product of a value with a weight, or with another value."""
    x = m.rounds(lambda held: 0 < held.rank < 5)
    if x is None:
        return
    y = m.rounds(
        lambda held: held.dtype == x.dtype and held.rank > 0 and held.axes[max(held.rank - 2, 0)] == x.axes[-1]
    )
    if y is None and len(set(x.axes[-1])) == 1:
        y = m.constant(m.data("float32", (x.axes[-1][0], m.choice((1, 3, 4))), -1, 1, False).astype(x.dtype))
    if y is None and x.rank > 1:
        turned = m.one("Transpose", [x], perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])
        y = turned
    if y is not None:
        m.one("MatMul", [x, y])


def gemm(m: Maker) -> None:
    """A matrix product with a bias that broadcasts."""
    x = m.rounds(lambda held: held.rank == 2 and len(set(held.axes[1])) == 1)
    if x is not None:
        wide, turned = m.choice((1, 3)), m.rng.randrange(2)
        shape = (wide, x.axes[1][0]) if turned else (x.axes[1][0], wide)
        weight = m.constant(m.data("float32", shape, -1, 1, False).astype(x.dtype))
        bias = m.constant(m.data("float32", m.choice(((), (1,), (wide,), (1, wide))), -1, 1, False).astype(x.dtype))
        m.one("Gemm", [x, weight, *([bias] if m.chance(2) else [])], transB=turned, alpha=m.choice((1.0, 0.5)))


def norm(m: Maker) -> None:
    """Layer or batch normalization."""
    x = m.rounds(lambda held: held.rank > 1 and held.dtype == np.float32)
    if x is None:
        return
    axis = x.rank - 1 if m.opset >= 17 and m.chance(2) else 1
    if len(set(x.axes[axis])) > 1:
        return
    scale = m.constant(m.data("float32", (x.axes[axis][0],), 1, 2, True))
    if axis == x.rank - 1 and m.opset >= 17:
        m.one("LayerNormalization", [x, scale, scale], axis=-1, epsilon=1e-2, exact=False)
    else:
        m.one("BatchNormalization", [x, scale, scale, scale, scale], exact=False)


def window(m: Maker) -> None:
    """A convolution or a pool over the last axes."""
    x = m.rounds(lambda held: held.rank in (3, 4) and held.dtype == np.float32)
    if x is None:
        return
    spatial = x.rank - 2
    kernel = [m.choice((1, 2, 3)) for _ in range(spatial)]
    how: dict[str, object] = {"strides": [m.choice((1, 1, 2)) for _ in range(spatial)]}
    if m.chance(3):
        how["auto_pad"] = m.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        how["pads"] = [m.choice((0, 1)) for _ in range(2 * spatial)]
    channels = x.axes[1]
    if len(set(channels)) == 1 and channels[0] and m.chance(2):
        weight = m.constant(m.data("float32", (3, channels[0], *kernel), -1, 1, False))
        m.one("Conv", [x, weight], kernel_shape=kernel, **how)
    elif m.chance(3):
        m.one(m.choice(("GlobalAveragePool", "GlobalMaxPool")), [x], exact=False)
    elif m.chance(2):
        m.one("MaxPool", [x], kernel_shape=kernel, ceil_mode=m.rng.randrange(2), **how)
    else:
        m.one("AveragePool", [x], kernel_shape=kernel, count_include_pad=m.rng.randrange(2), exact=False, **how)


def gather(m: Maker) -> None:
    """Rows at places that are constants, data, or a range."""
    x = m.pick(lambda held: held.rank > 0)
    if x is None:
        return
    axis = m.rng.randrange(x.rank)
    longest = min(x.axes[axis])
    places = m.pick(
        lambda held: (
            held.kind == "i" and all(_places(array, n) for array, n in zip(held.arrays, x.axes[axis], strict=True))
        )
    )
    if longest and (places is None or m.chance(2)):
        count = m.choice(((), (1,), (2,), (2, 2)))
        places = m.constant(
            np.array([m.rng.randint(-longest, longest - 1) for _ in range(int(np.prod(count)))], np.int64).reshape(
                count
            )
        )
    if places is not None:
        m.one("Gather", [x, places], axis=axis)


def _places(array: np.ndarray, size: int) -> bool:
    return bool(np.all((array >= -size) & (array < size)))


def nonzero(m: Maker) -> None:
    """The places of elements that are not 0, and what stands there."""
    x = m.pick(lambda held: held.rank in (1, 2) and held.exact)
    found = x and m.one("NonZero", [x])
    turned = found and m.one("Transpose", [found], perm=[1, 0])
    if turned is not None and m.chance(2):
        m.one("GatherND", [x, turned])


def elements(m: Maker) -> None:
    """Elements at places of their own along an axis, read or written."""
    x = m.rounds(lambda held: held.rank in (1, 2, 3))
    if x is None:
        return
    axis = m.rng.randrange(x.rank)
    order = m.emit("TopK", [x, size(m, x.axes[axis])], results=2, axis=axis) if x.exact else None
    if order is None:
        return
    if m.chance(2):
        m.one("GatherElements", [x, order[1]], axis=axis)
    else:
        m.one("ScatterElements", [x, order[1], order[0]], axis=axis)


def cumulative(m: Maker) -> None:
    """Sums so far, or the upper triangle."""
    x = m.rounds(lambda held: held.rank > 1)
    if x is None:
        return
    if m.chance(2) and m.opset >= 14:
        m.one("Trilu", [x, m.constant(m.choice((-1, 0, 1)))], upper=m.rng.randrange(2))
    else:
        m.one(
            "CumSum", [x, m.constant(m.rng.randrange(x.rank))], exclusive=m.rng.randrange(2), reverse=m.rng.randrange(2)
        )


def quantized(m: Maker) -> None:
    """A value to 8 bits and back."""
    x = m.rounds(lambda held: held.exact and held.dtype == np.float32)
    if x is None:
        return
    scale, zero = (
        m.constant(np.array(0.5, np.float32)),
        m.constant(np.array(m.choice((0, 3)), m.choice((np.uint8, np.int8)))),
    )
    small = m.one("QuantizeLinear", [x, scale, zero], keep=False)
    if small is not None:
        m.one("DequantizeLinear", [small, scale, zero])


def attention(m: Maker) -> None:
    """Heads split off, scores, softmax, and back, as exporters write it."""
    x = m.rounds(
        lambda held: (
            held.rank == 3 and held.axes[2] in ((4,) * WITNESSES, (8,) * WITNESSES) and held.dtype == np.float32
        )
    )
    if x is None:
        return
    wide = x.axes[2][0]
    parts = [
        size(m, x.axes[0]),
        size(m, m.choice((x.axes[1], (-1,) * WITNESSES))),
        m.constant([2]),
        m.constant([wide // 2]),
    ]
    if None in parts:
        return
    shape = m.one("Concat", parts, axis=0)
    heads = shape and m.one("Reshape", [x, shape])
    turned = heads and m.one("Transpose", [heads], perm=[0, 2, 1, 3])
    keys = heads and m.one("Transpose", [heads], perm=[0, 2, 3, 1])
    scores = turned and keys and m.one("MatMul", [turned, keys])
    weights = scores and m.one("Softmax", [scores], axis=-1, exact=False)
    mixed = weights and m.one("MatMul", [weights, turned])
    back = mixed and m.one("Transpose", [mixed], perm=[0, 2, 1, 3])
    if back is not None:
        m.one("Reshape", [back, m.constant([0, 0, wide])])


def branch(m: Maker) -> None:
    """A condition on a size or an input, and two branches that read values around."""
    x = m.rounds()
    if x is None:
        return
    flag = m.pick(lambda held: held.kind == "b" and held.rank == 0)
    if flag is None or m.chance(2):
        value = m.pick(lambda held: held.rank > 0)
        count = value and size(m, m.choice(value.axes))
        scalar = count and m.one("Squeeze", [count, m.constant([0])], keep=False)
        flag = scalar and m.one(m.choice(("Greater", "Equal", "Less")), [scalar, m.constant(m.choice((0, 1, 2)))])
    if flag is None:
        return
    other = m.rounds(lambda held: held.dtype == x.dtype and held.rank == x.rank) or x
    one = _graph("then", [helper.make_node(m.choice(("Relu", "Neg", "Identity")), [x.name], ["t"])], ["t"], x)
    inner = [
        helper.make_node("Shape", [other.name], ["s"]),
        helper.make_node("Abs", [other.name], ["k"]),
        helper.make_node("Expand", ["k", "s"], ["e"]),
    ]
    two = _graph("else", inner, ["e"], x)
    node = helper.make_node("If", [flag.name], [m.fresh()], then_branch=one, else_branch=two)
    _with_body(m, node, {each.name: each for each in (flag, x, other)})


def loop(m: Maker) -> None:
    """A loop that adds a value as often as a size says."""
    x = m.rounds()
    value = m.pick(lambda held: held.rank > 0)
    count = value and size(m, m.choice(value.axes))
    trips = count and m.one("Squeeze", [count, m.constant([0])], keep=False)
    if x is None or trips is None:
        return
    nodes = [
        helper.make_node("Identity", ["go"], ["on"]),
        helper.make_node("Add", ["h", x.name], ["k"]),
        helper.make_node("Cast", ["i"], ["f"], to=_elem(x.arrays[0])),
        helper.make_node("Sub", ["k", "f"], ["o"]),
    ]
    infos = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        helper.make_tensor_value_info("h", _elem(x.arrays[0]), None),
    ]
    outs = [
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        *(helper.make_tensor_value_info(name, _elem(x.arrays[0]), None) for name in ("k", "o")),
    ]
    body = helper.make_graph(nodes, "body", infos, outs)
    rows = m.fresh() if all(array.size and int(array.reshape(-1)[0]) for array in trips.arrays) else ""
    if rows:  # where the loop may end at once, ONNX Runtime knows no shape of its rows
        m.fixed = True
    node = helper.make_node("Loop", [trips.name, "", x.name], [m.fresh(), rows], body=body)
    _with_body(m, node, {each.name: each for each in (trips, x)})


def _graph(name: str, nodes: list[onnx.NodeProto], results: list[str], like: Held) -> onnx.GraphProto:
    return helper.make_graph(
        nodes, name, [], [helper.make_tensor_value_info(each, _elem(like.arrays[0]), None) for each in results]
    )


def _with_body(m: Maker, node: onnx.NodeProto, there: dict[str, Held]) -> None:
    """Keep a node whose subgraphs read values around it, if it runs."""
    arrays = m.run_alone(node, there)
    if arrays is not None:
        m.nodes.append(node)
        m.read |= set(there)
        exact = all(each.exact for each in there.values())
        m.pool += [
            Held(name, held, exact, inner=True) for name, held in zip(filter(None, node.output), arrays, strict=True)
        ]


def recurrent(m: Maker) -> None:
    """An LSTM or a GRU over the first axis."""
    x = m.rounds(lambda held: held.rank == 3 and held.dtype == np.float32 and len(set(held.axes[2])) == 1)
    if x is None:
        return
    if not all(array.size for array in x.arrays):
        return
    m.empty = False  # a batch of 0 ends the process in ONNX Runtime
    op, gates = m.choice((("LSTM", 4), ("GRU", 3)))
    both = m.rng.randrange(2)
    weights = [m.constant(m.data("float32", (1 + both, gates * 2, wide), -1, 0, True)) for wide in (x.axes[2][0], 2)]
    m.emit(op, [x, *weights], results=2, hidden_size=2, direction=("forward", "bidirectional")[both], exact=False)


PLAIN = (
    binary,
    binary,
    binary,
    quotient,
    unary,
    rounded,
    clip,
    compare,
    where,
    where,
    cast,
    transpose,
    unsqueeze,
    unsqueeze,
    concat,
    reduce,
    reduce,
    place,
    softmax,
    matmul,
    matmul,
    gemm,
    norm,
    window,
    window,
    gather,
    gather,
    nonzero,
    elements,
    cumulative,
    quantized,
    attention,
    branch,
    loop,
    recurrent,
)

PIECES: tuple[Callable[[Maker], None], ...] = (*PLAIN, *SIZED, *SIZED)

SIGNATURES = (
    ("a", "b"),
    ("a", "b", 4),
    ("b",),
    ("a", 1),
    ("a", 3, "b", "c"),
    ("a", "b", "c"),
    (1, "b"),
    ("c", "a"),
    ("b", "c", 8),
    ("a", 4, "c"),
    (),
    (2, 3),
    ("c",),
)


def make(m: Maker, nodes: int) -> None:
    """Inputs and about so many nodes."""
    for axes in m.rng.sample(SIGNATURES, m.rng.randint(2, 4)):
        m.input(m.choice(("float32", "float32", "float32", "int64")), axes, fractions=m.chance(4))
    if m.chance(3):
        m.input("bool", m.choice(((), ("a", "b"), (SYMBOLS[0], 1))), 0, 1)
    for _ in range(4 * nodes):
        if len(m.nodes) >= nodes:
            break
        m.choice(PIECES)(m)
