"""Images lie with their channels last between convolutions, and everything has the values that it had."""

import numpy as np
import pytest

from egshape.dims import const
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import blocks_of
from egshape.ir.interpret import interpret
from egshape.plan.cpu.channels import channels_last
from tests.fuzz.differential import graph_of
from tests.lower.checking import call, compiled

RNG = np.random.default_rng(7)


class Images:
    """A graph of images in the making, [n, channels, h, w] or of another number of axes."""

    def __init__(self, axes=("h", "w")):
        self.b = BlockBuilder()
        self.axes = axes

    def input(self, name="x", channels=3):
        shape = [None, channels, *[None] * len(self.axes)]
        return self.b.arg(name, "f32", shape, ["n", None, *self.axes])

    def constant(self, array):
        return self.b.one("constant", (), {"value": np.asarray(array, np.float32)})

    def conv(self, x, outputs=16, size=3, stride=1, groups=1, b=None, base=1):
        b, rank = b or self.b, x.type.rank - 2
        inputs = x.type.dims[1].const // groups
        kernel = RNG.normal(size=(outputs, inputs, *[size] * rank), scale=0.3).astype(np.float32)
        space = tuple(range(2, rank + 2))
        attrs = {
            "numbers": (0, 1, space, 1, 0, space, 0, 1, space),
            "strides": (stride,) * rank,
            "padding": (const(size // 2),) * (2 * rank),
            "lhs_dilation": (base,) * rank,
            "rhs_dilation": (1,) * rank,
            "reversal": (0,) * rank,
            "feature_groups": groups,
            "batch_groups": 1,
            "dtype": "f32",
        }
        return b.one("convolution", [x, b.one("constant", (), {"value": kernel})], attrs)

    def spread(self, value, like, dims):
        return self.b.one("broadcast_in_dim", [value], {"dims": dims, "shape": like.type.dims})

    def fold(self, x, dims, body="add", start=0.0):
        inner = self.b.child()
        args = [inner.arg(None, "f32", []) for _ in range(2)]
        region = inner.finish([inner.one(body, args)])
        return self.b.add("reduce", [x, self.constant(start)], {"dims": dims}, regions=[region])[0]

    def window(self, x, size=3, stride=2):
        inner = self.b.child()
        args = [inner.arg(None, "f32", []) for _ in range(2)]
        region = inner.finish([inner.one("maximum", args)])
        rank = x.type.rank - 2
        one, many = (const(1),), (const(size),) * rank
        attrs = {
            "window": one * 2 + many,
            "strides": one * 2 + (const(stride),) * rank,
            "base_dilation": one * (rank + 2),
            "window_dilation": one * (rank + 2),
            "padding": (const(0),) * 4 + (const(1),) * (2 * rank),
        }
        return self.b.add("reduce_window", [x, self.constant(-np.inf)], attrs, regions=[region])[0]


def turned(graph):
    """Whether convolutions have their channels last, in program order."""
    ops = [op for block in blocks_of(channels_last(graph).body) for op in block.ops if op.name == "convolution"]
    return [op.attrs["numbers"][1] == op.result.type.rank - 1 for op in ops]


def check(graph, *arrays, wanted=None):
    """The values of the graph as compiled and, turned, as interpreted; ``wanted``: which convolutions are turned."""
    assert turned(graph) == wanted
    exact = interpret(graph, arrays)
    for found in (interpret(channels_last(graph), arrays), call(compiled(graph), arrays)):
        for one, two in zip(found, exact, strict=True):
            np.testing.assert_allclose(one, two, 1e-4, 1e-5 * np.abs(two).max(initial=1))


def image(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def after(b, x, what):
    """What is done between two convolutions."""
    n, _, h, w = x.type.dims
    if what == "bias and clamp":
        x = b.b.one("add", [x, b.spread(b.constant(RNG.normal(size=16)), x, (1,))])
        return b.b.one("clamp", [b.constant(-0.5), x, b.constant(0.5)])
    if what == "a bias of four axes":
        return b.b.one("add", [x, b.spread(b.constant(RNG.normal(size=(1, 16, 1, 1))), x, (0, 1, 2, 3))])
    if what == "windows":
        return b.window(x)
    if what == "concatenate":
        return b.b.one("concatenate", [x, b.b.one("tanh", [x])], {"dim": 1})
    if what == "lines put together":
        return b.b.one("concatenate", [x, x, x], {"dim": 2})
    if what == "half of the channels":
        one = const(1)
        sides = {"starts": (const(0), const(3), const(0), const(0)), "limits": (n, const(11), h, w)}
        return b.b.one("slice", [x], {**sides, "strides": (one, const(2), one, one)})
    if what == "pad":
        sides = {"low": (0, 1, 2, 0), "high": (0, 0, 1, 3), "interior": (0, 0, 1, 0)}
        return b.b.one("pad", [x, b.constant(2)], {key: tuple(map(const, each)) for key, each in sides.items()})
    if what == "reverse":
        return b.b.one("reverse", [x], {"dims": (1, 3)})
    if what == "weights by the mean of each channel":
        mean = b.fold(x, (2, 3))
        return b.b.one("multiply", [x, b.spread(b.b.one("logistic", [mean]), x, (0, 1))])
    if what == "sums over lines":
        return b.b.one("multiply", [x, b.spread(b.fold(x, (2,)), x, (0, 1, 3))])
    if what == "sums over channels":
        return b.b.one("multiply", [x, b.spread(b.fold(x, (1,)), x, (0, 2, 3))])
    if what == "places":
        iota = b.b.one("iota", [], {"dtype": "f32", "dim": 3, "shape": x.type.dims})
        return b.b.one("multiply", [x, iota])
    if what == "a transposed image":
        return b.b.one("transpose", [x], {"permutation": (0, 1, 3, 2)})
    assert what == "nothing"
    return x


BETWEEN = (
    "nothing",
    "bias and clamp",
    "a bias of four axes",
    "windows",
    "concatenate",
    "lines put together",
    "half of the channels",
    "pad",
    "reverse",
    "weights by the mean of each channel",
    "sums over lines",
    "sums over channels",
    "places",
    "a transposed image",
)


@pytest.mark.parametrize("what", BETWEEN)
def test_what_lies_between_convolutions_goes_with_them(what):
    b = Images()
    x = b.conv(b.conv(b.input()), 16, stride=2)
    y = b.conv(b.conv(after(b, x, what), 16), 20, 1)
    graph = graph_of(b.b, y, b.fold(y, (2, 3)))
    for shape in ((2, 3, 9, 6), (1, 3, 1, 1), (3, 3, 4, 17)):
        check(graph, image(*shape), wanted=[True, True, *[what != "a transposed image"] * 2])


def test_a_transpose_is_made_once_for_all_that_read_a_value():
    b = Images()
    x = b.conv(b.conv(b.conv(b.input())))
    flat = b.b.one("reshape", [x], {"shape": (x.type.dims[0], x.type.dims[1] * x.type.dims[2] * x.type.dims[3])})
    graph = graph_of(b.b, x, flat, b.b.one("negate", [x]))
    names = [op.name for op in channels_last(graph).body.ops]
    assert names.count("transpose") == 3  # the input, the value, its negation
    check(graph, image(2, 3, 5, 4), wanted=[True] * 3)


def test_images_of_one_place_are_not_moved():
    b = Images()
    x = b.conv(b.conv(b.input()))
    wide = b.b.one("reshape", [b.fold(x, (2, 3))], {"shape": (x.type.dims[0], const(16), const(1), const(1))})
    squeezed = b.conv(b.conv(wide, 16, 1), 16, 1)
    y = b.conv(b.b.one("multiply", [x, b.spread(squeezed, x, (0, 1, 2, 3))]))
    graph = graph_of(b.b, b.fold(y, (2, 3)))
    assert [op.name for op in channels_last(graph).body.ops].count("transpose") == 1  # the input
    check(graph, image(2, 3, 5, 4), wanted=[True] * 5)


@pytest.mark.parametrize("axes", [("l",), ("h", "w", "d")])
def test_lines_and_volumes(axes):
    b = Images(axes)
    y = b.window(b.conv(b.conv(b.input())))
    graph = graph_of(b.b, b.conv(y, 16, 1))
    check(graph, image(2, 3, *[5] * len(axes)), wanted=[True] * 3)


def test_a_convolution_alone_stays():
    b = Images()
    check(graph_of(b.b, b.conv(b.input(channels=16), 16, 1)), image(2, 16, 5, 4), wanted=[False])


def test_a_deep_convolution_pays_for_two_images():
    """Whose elements are sums of many products: its input and its result are moved, and no more."""
    b = Images()
    check(graph_of(b.b, b.conv(b.input(channels=64))), image(2, 64, 5, 4), wanted=[True])
    b = Images()  # 288 products
    check(graph_of(b.b, b.conv(b.input(channels=32))), image(2, 32, 5, 4), wanted=[False])
    b = Images()
    x = b.conv(b.input(channels=64))
    graph = graph_of(b.b, x, b.b.one("negate", [x]), b.b.one("tanh", [x]))
    check(graph, image(2, 64, 5, 4), wanted=[False])


def test_few_features_stay_and_what_stands_before_them_does_not():
    b = Images()
    x = b.conv(b.conv(b.conv(b.input())))
    check(graph_of(b.b, b.conv(x, 2)), image(2, 3, 5, 4), wanted=[True, True, True, False])


def test_regions_are_weighed_apart():
    """One gains by it, the other is left after each convolution."""
    b = Images()
    good = b.conv(b.conv(b.conv(b.input())))
    bad = b.conv(b.input("z", 16), 16, 1)
    n, c, h, w = bad.type.dims
    flat = b.b.one("reshape", [b.b.one("reshape", [bad], {"shape": (n, c * h * w)})], {"shape": (n, c, h, w)})
    graph = graph_of(b.b, b.fold(good, (2, 3)), b.conv(flat, 16, 1))
    check(graph, image(2, 3, 5, 4), image(2, 16, 5, 4), wanted=[True, True, True, False, False])


def test_depthwise_and_groups():
    b = Images()
    x = b.conv(b.conv(b.conv(b.input(), 32), 32, groups=32), 32, groups=2)
    check(graph_of(b.b, b.fold(x, (2, 3))), image(2, 3, 5, 9), wanted=[True] * 3)
    b = Images()  # four features a group fill no vector
    x = b.conv(b.conv(b.input(), 32), 32, groups=8)
    check(graph_of(b.b, b.fold(x, (2, 3))), image(2, 3, 5, 9), wanted=[False, False])


def test_inside_of_a_branch_and_of_values_around_it():
    b = Images()
    x = b.conv(b.conv(b.input()))
    pred = b.b.one("compare", [b.fold(x, (0, 1, 2, 3)), b.constant(0)], {"direction": "GT", "kind": "FLOAT"})
    arms = []
    for outputs in (16, 16):
        inner = b.b.child()
        arms.append(inner.finish([b.conv(b.conv(x, 24, b=inner), outputs, b=inner)]))
    (y,) = b.b.add("if", [pred], {}, regions=arms)
    graph = graph_of(b.b, b.conv(b.conv(y)))
    for sign in (1, -1):
        check(graph, sign * image(1, 3, 5, 4), wanted=None or turned(graph))


@pytest.mark.parametrize("height", [1, 2])
@pytest.mark.parametrize("channels", [2, 3, 8])
def test_points_of_each_channel_on_a_line(channels, height):
    """Axes of size 1 are left out of a convolution's places."""
    b = Images()
    x = b.b.arg("x", "f32", [None, const(channels), const(height), const(5)], ["n", None, None, None])
    graph = graph_of(b.b, b.b.one("tanh", [b.conv(x, channels, 1, groups=channels)]))
    given = image(2, channels, height, 5)
    np.testing.assert_allclose(call(compiled(graph), [given])[0], interpret(graph, [given])[0], 1e-5, 1e-6)
