"""Convolutions of every rank, layout, stride, dilation and grouping against the reference in f64."""

from dataclasses import dataclass

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ops import REGISTRY
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.fuzz.differential import graph_of
from tests.lower.checking import call, compiled

RNG = np.random.default_rng(5)


@dataclass(frozen=True)
class Case:
    """Attributes of a convolution of ``rank`` spatial axes; the layout names the axes of input, kernel and result."""

    rank: int = 2
    layout: str = "first"
    channels: int = 4
    outputs: int = 6
    taps: tuple[int, ...] = (3, 3)
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (1, 1, 1, 1)
    base: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    reversal: tuple[int, ...] = (0, 0)
    groups: int = 1
    dtype: str = "f32"

    @property
    def numbers(self):
        space = tuple(range(2, 2 + self.rank))
        inner = tuple(range(1, 1 + self.rank))
        first, last = (0, 1, space), (0, self.rank + 1, inner)
        kernels = {"first": (1, 0, space), "last": (self.rank, self.rank + 1, tuple(range(self.rank)))}
        ends = {
            "first": (first, kernels["first"], first),
            "last": (last, kernels["last"], last),
            "mixed": (first, kernels["last"], last),
            "turned": (last, kernels["first"], (self.rank + 1, 0, inner)),
        }
        one, kernel, three = ends[self.layout]
        return (*one, *kernel, *three)

    def shaped(self, sizes, kernel=False):
        """Sizes in the order of the layout, from (batch, feature, space) or (out, in, space)."""
        numbers = self.numbers
        axes = (numbers[4], numbers[3], *numbers[5]) if kernel else (numbers[0], numbers[1], *numbers[2])
        found = [None] * len(sizes)
        for axis, size in zip(axes, sizes, strict=True):
            found[axis] = size
        return tuple(found)

    def attrs(self, sizes):
        return {
            "numbers": self.numbers,
            "strides": self.strides,
            "padding": sizes,
            "lhs_dilation": self.base,
            "rhs_dilation": self.dilation,
            "reversal": self.reversal,
            "feature_groups": self.groups,
            "batch_groups": 1,
            "dtype": self.dtype,
        }


CASES = {
    "plain": Case(),
    "last": Case(layout="last"),
    "mixed": Case(layout="mixed"),
    "turned": Case(layout="turned"),
    "wide": Case(channels=3, outputs=64, taps=(7, 7), strides=(2, 2), padding=(3, 3, 3, 3)),
    "wide last": Case(layout="last", channels=3, outputs=64, taps=(7, 5), strides=(2, 1), padding=(3, 3, 2, 2)),
    "stride 3": Case(strides=(3, 2), taps=(2, 4), padding=(0, 2, 1, 0)),
    "dilated": Case(dilation=(2, 3), padding=(2, 1, 0, 3)),
    "dilated stride": Case(dilation=(2, 3), strides=(2, 2)),
    "transposed": Case(base=(2, 3), padding=(1, 2, 0, 1), reversal=(1, 1)),
    "transposed last": Case(layout="last", base=(2, 1), reversal=(0, 1)),
    "transposed by more than its taps": Case(base=(3, 2), taps=(2, 2), padding=(1, 1, 1, 1), reversal=(1, 1)),
    "transposed, cropped": Case(base=(2, 2), taps=(3, 4), padding=(-1, 2, -2, 0), outputs=20),
    "transposed groups": Case(base=(2, 2), taps=(4, 4), padding=(2, 2, 2, 2), groups=2, channels=6, outputs=8),
    "transposed line": Case(rank=1, taps=(8,), strides=(1,), padding=(5, 6), base=(4,), dilation=(1,), reversal=(1,)),
    "transposed volume last": Case(
        rank=3,
        layout="last",
        taps=(2, 1, 3),
        strides=(1, 1, 2),
        padding=(1, 1, 0, 0, 2, 2),
        base=(2, 1, 1),
        dilation=(1, 1, 1),
        reversal=(1, 0, 0),
    ),
    "transposed, dilated": Case(base=(2, 2), dilation=(2, 1), padding=(2, 2, 1, 1)),
    "cropped": Case(padding=(-1, 0, 1, -2)),
    "cropped last": Case(layout="last", padding=(-1, 0, 1, -2)),
    "one by one": Case(taps=(1, 1), padding=(0,) * 4),
    "one by one, stride": Case(taps=(1, 1), padding=(0,) * 4, strides=(2, 2)),
    "one by one, many": Case(taps=(1, 1), padding=(0,) * 4, channels=20, outputs=50),
    "one by one last": Case(layout="last", taps=(1, 1), padding=(0,) * 4),
    "groups": Case(groups=2, channels=6, outputs=8),
    "groups last": Case(layout="last", groups=2, channels=6, outputs=8),
    "depthwise": Case(groups=4, outputs=4),
    "depthwise last": Case(layout="last", groups=4, outputs=4),
    "depthwise last, wide": Case(layout="last", groups=20, channels=20, outputs=20, taps=(5, 3), padding=(2, 2, 1, 1)),
    "depthwise last, stride": Case(layout="last", groups=4, outputs=4, strides=(2, 2), dilation=(1, 2)),
    "many last": Case(layout="last", channels=5, outputs=40),
    "many last, dilated": Case(layout="last", outputs=40, dilation=(1, 2), padding=(1, 1, 2, 2)),
    "many last, cropped": Case(layout="last", outputs=40, taps=(3, 2), padding=(-1, 0, 1, -1)),
    "depthwise stride": Case(groups=4, outputs=8, strides=(2, 2), dilation=(1, 2)),
    "depthwise many taps": Case(layout="last", groups=4, outputs=8, taps=(9, 9), padding=(4,) * 4),
    "line": Case(rank=1, taps=(3,), strides=(2,), padding=(1, 1), base=(1,), dilation=(1,), reversal=(0,)),
    "line last": Case(
        rank=1, layout="last", taps=(4,), strides=(1,), padding=(3, 0), base=(1,), dilation=(2,), reversal=(0,)
    ),
    "volume": Case(
        rank=3,
        taps=(2, 3, 1),
        strides=(1, 2, 1),
        padding=(0, 1, 1, 1, 0, 0),
        base=(1, 1, 1),
        dilation=(1, 1, 2),
        reversal=(0, 0, 1),
    ),
    "volume last": Case(
        rank=3,
        layout="last",
        taps=(2, 1, 3),
        strides=(2, 1, 1),
        padding=(1, 1, 0, 0, 2, 2),
        base=(1, 1, 1),
        dilation=(1, 1, 1),
        reversal=(0, 0, 0),
    ),
    "doubles": Case(dtype="f64", outputs=30),
    "doubles last": Case(layout="last", dtype="f64", outputs=30),
}
UNITS = {"first unit": (1, "w"), "last unit": ("h", 1), "units": (1, 1)}
PLACES = ((1, 5, 6, 7), (3, 4, 17, 2), (2, 1, 1, 1), (0, 3, 3, 3), (1, 33, 49, 1), (1, 8, 8, 8))


def numbers(case, sizes, kernel=False):
    kind = np.float32 if case.dtype == "f32" else np.float64
    return RNG.normal(size=case.shaped(sizes, kernel)).astype(kind)


def reference(case, x, w):
    attrs = case.attrs(case.padding) | {"dtype": "f64", "precision": ()}
    return REGISTRY["convolution"].reference(x.astype(np.float64), w.astype(np.float64), **attrs)


@pytest.mark.long_but("*-input-any number", "*last-constant-one")
@pytest.mark.parametrize("images", ["any number", "one"])
@pytest.mark.parametrize("given", ["constant", "input"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_convolution(name, given, images, monkeypatch):
    """Red zones go with one image: memory is shared without them only."""
    if images == "one":
        monkeypatch.setenv("EGSHAPE_REDZONES", "1")
    case = CASES[name]
    b = BlockBuilder()
    space = [symbol(each) for each in ("h", "w", "d")[: case.rank]]
    shape = case.shaped([const(1) if images == "one" else symbol("n"), const(case.channels), *space])
    x = b.arg("x", case.dtype, [size.const for size in shape], [None if size.const else str(size) for size in shape])
    weights = numbers(case, (case.outputs, case.channels // case.groups, *case.taps), kernel=True)
    w = (
        b.one("constant", (), {"value": weights})
        if given == "constant"
        else b.arg("k", case.dtype, list(weights.shape), [None] * weights.ndim)
    )
    y = b.one("convolution", [x, w], case.attrs(tuple(const(size) for size in case.padding)))
    function = compiled(graph_of(b, y))
    for count, *places in PLACES:
        if images == "one" and count != 1:
            continue
        array = numbers(case, (count, case.channels, *places[: case.rank]))
        try:
            exact = reference(case, array, weights)
        except Exception:
            continue  # the windows do not fit
        (found,) = call(function, [array] if given == "constant" else [array, weights])
        assert found.shape == exact.shape
        limit = 1e-5 if case.dtype == "f32" else 1e-13
        np.testing.assert_allclose(found, exact, limit, limit * 30)


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("name", sorted(UNITS))
def test_axes_of_one_place(name, layout):
    case = Case(
        layout=layout,
        taps=tuple(1 if size == 1 else 3 for size in UNITS[name]),
        outputs=50,
        padding=tuple(0 if size == 1 else 1 for size in UNITS[name] for _ in range(2)),
    )
    b = BlockBuilder()
    space = [const(1) if size == 1 else symbol(size) for size in UNITS[name]]
    shape = case.shaped([symbol("n"), const(4), *space])
    x = b.arg("x", "f32", [size.const for size in shape], [None if size.const else str(size) for size in shape])
    weights = numbers(case, (50, 4, *case.taps), kernel=True)
    y = b.one(
        "convolution",
        [x, b.one("constant", (), {"value": weights})],
        case.attrs(tuple(const(size) for size in case.padding)),
    )
    function = compiled(graph_of(b, y))
    for count, long in ((1, 60), (3, 5), (0, 4), (70, 1)):
        array = numbers(case, (count, 4, *[1 if size == 1 else long for size in UNITS[name]]))
        np.testing.assert_allclose(call(function, [array])[0], reference(case, array, weights), 1e-5, 3e-4)


@pytest.mark.parametrize("layout", ["first", "last"])
def test_bias_residual_and_relu_are_one_kernel(layout):
    case = Case(layout=layout, outputs=50)
    b = BlockBuilder()
    shape = case.shaped([symbol("n"), const(4), symbol("h"), symbol("w")])
    x = b.arg("x", "f32", [size.const for size in shape], [None if size.const else str(size) for size in shape])
    weights, bias = numbers(case, (50, 4, 3, 3), kernel=True), RNG.normal(size=50).astype(np.float32)
    y = b.one(
        "convolution",
        [x, b.one("constant", (), {"value": weights})],
        case.attrs(tuple(const(size) for size in case.padding)),
    )
    axis = 1 if layout == "first" else 3
    wide = b.one("broadcast_in_dim", [b.one("constant", (), {"value": bias})], {"dims": (axis,), "shape": y.type.dims})
    zero = b.one(
        "broadcast_in_dim",
        [b.one("constant", (), {"value": np.array(0, np.float32)})],
        {"dims": (), "shape": y.type.dims},
    )
    y = b.one("maximum", [b.one("add", [y, wide]), zero])
    graph = graph_of(b, y)
    kernels = {step.kernel.label for step in plan(graph).steps if isinstance(step, Run)}
    assert kernels - {"gather"} == {"pad", "taps", "convolution_maximum"}
    function = compiled(graph)
    for count, height, width in ((1, 6, 7), (2, 16, 16), (1, 1, 60), (1, 1, 1), (5, 4, 3), (2, 70, 1)):
        array = numbers(case, (count, 4, height, width))
        spread = bias.reshape([-1 if k == axis else 1 for k in range(4)])
        np.testing.assert_allclose(
            call(function, [array])[0], np.maximum(reference(case, array, weights) + spread, 0), 1e-5, 3e-4
        )


def test_padding_counts_as_zero():
    """0 times an infinite weight is NaN."""
    case = Case(channels=1, outputs=1)
    b = BlockBuilder()
    x = b.arg("x", "f32", [1, 1, None, None], [None, None, "h", "w"])
    weights = np.ones((1, 1, 3, 3), np.float32)
    weights[0, 0, 0, 0] = np.inf
    y = b.one(
        "convolution",
        [x, b.one("constant", (), {"value": weights})],
        case.attrs(tuple(const(size) for size in case.padding)),
    )
    (found,) = call(compiled(graph_of(b, y)), [np.ones((1, 1, 4, 5), np.float32)])
    assert np.isnan(found[0, 0, 0]).all() and np.isnan(found[0, 0, :, 0]).all() and np.isinf(found[0, 0, 1:, 1:]).all()
