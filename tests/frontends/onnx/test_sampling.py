"""Images read at computed places, boxes, Fourier transforms: interpreted and compiled, against ONNX's reference
evaluator."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

from onnx.reference import ReferenceEvaluator

from egshape.adapters.native import compile_function
from egshape.ir.interpret import interpret
from tests.frontends.onnx.checking import Case, compare, load, parsed

IMAGES = [
    {"n": 2, "c": 3, "h": 5, "w": 7, "a": 3, "b": 4},
    {"n": 1, "c": 1, "h": 1, "w": 1, "a": 1, "b": 1},
    {"n": 1, "c": 2, "h": 8, "w": 3, "a": 17, "b": 2},
]
LINES = [{"n": 2, "t": 12}, {"n": 1, "t": 9}, {"n": 3, "t": 16}]


def grid(sizes: dict[str, int]) -> np.ndarray:
    """Places inside, outside and far outside, none of which lies between two pixels."""
    rng = np.random.default_rng(sizes["a"])
    return rng.uniform(-2.7, 2.7, (sizes["n"], sizes["a"], sizes["b"], 2)).astype(np.float32)


def image(body: str, more: str = "", sizes: object = None, **data: object) -> Case:
    """A case on x: float[n,c,h,w]."""
    text = f"g (float[n,c,h,w] x{more}) => (float[o,p,q,r] y) {{ {body} }}"
    return Case(body, text, IMAGES if sizes is None else sizes, data, tolerance=3e-5)  # type: ignore[arg-type]


def line(body: str, more: str = "", shape: str = "n,t,1", out: str = "o,p,q", **data: object) -> Case:
    """A case on x, a signal."""
    text = f"g (float[{shape}] x{more}) => (float[{out}] y) {{ {body} }}"
    return Case(body, text, LINES, data, tolerance=1e-4)


GRIDS = [
    image(
        f'y = GridSample<mode="{mode}", padding_mode="{around}", align_corners={corners}>(x, g)',
        ", float[n,a,b,2] g",
        g=grid,
    )
    for mode in ("nearest", "linear", "cubic")
    for around in ("zeros", "border", "reflection")
    for corners in (0, 1)
]
BOXES = {
    "r": lambda sizes: np.array([[0.3, 0.4, 3.2, 2.9], [-1, -2, 1, 1], [2, 2, 2.5, 2.5]], np.float32),
    "i": lambda sizes: np.array([0, sizes["n"] - 1, 0]),
}
ROIS = [
    image(
        f'y = RoiAlign<mode="{mode}", output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.7, '
        f'coordinate_transformation_mode="{way}">(x, r, i)',
        ", float[k,4] r, int64[k] i",
        **BOXES,
    )
    for mode in ("avg", "max")
    for way in ("half_pixel", "output_half_pixel")
]
SIZES = "e = Constant<value = float[0] {}>() "
RESIZES = [
    image(
        f'{SIZES} y = Resize<mode="{mode}", antialias=1, exclude_outside={out}>(x, e, e, z)',
        ", int64[4] z",
        z=lambda sizes: [sizes["n"], sizes["c"], 2, 3],
    )
    for mode in ("linear", "cubic")
    for out in (0, 1)
] + [
    image(
        "e = Constant<value = float[4] {1., 1., 0.6, 0.7}>() r = Constant<value = float[0] {}>() "
        'y = Resize<mode="linear", antialias=1>(x, r, e)'
    ),
    image(
        f'{SIZES} y = Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize", '
        "extrapolation_value=7.0>(x, r, e, z)",
        ", float[8] r, int64[4] z",
        r=[0, 0, 0.3, -0.2, 1, 1, 1.2, 0.9],
        z=lambda sizes: [sizes["n"], sizes["c"], 4, 3],
    ),
    image(
        f'{SIZES} y = Resize<keep_aspect_ratio_policy="not_smaller", axes=[2, 3]>(x, e, e, z)', ", int64[2] z", z=[7, 8]
    ),
    image(
        f'{SIZES} y = Resize<keep_aspect_ratio_policy="not_larger", axes=[3, 2]>(x, e, e, z)', ", int64[2] z", z=[9, 4]
    ),
]
SPECTRA = [
    line("y = DFT<onesided=1>(x)"),
    line("y = DFT(x, k, a)", ", int64 k, int64 a", "n,t,2", k=7, a=1),
    line("y = DFT(x, k, a)", ", int64 k, int64 a", "n,t,3,2", "o,p,q,r", k=5, a=-2),
    line("k = Constant<value_int=20>() a = Constant<value_int=-2>() y = DFT<inverse=1>(x, k, a)", "", "n,t,2"),
    line("y = DFT<inverse=1, onesided=1>(x)", "", "n,t,2"),
    line("s = Constant<value_int=3>() y = STFT<onesided=1>(x, s, w)", ", float[5] w", "n,t,1", "o,p,q,r"),
    line("y = STFT<onesided=0>(x, s, , k)", ", int64 s, int64 k", "n,t,2", "o,p,q,r", s=2, k=8),
]


@pytest.mark.long_but("*nearest*", "*Resize*", "*onesided=1>*")
@pytest.mark.parametrize("case", GRIDS + ROIS + RESIZES + SPECTRA, ids=lambda case: case.name[:70])
def test_as_the_reference(case: Case) -> None:
    assert compare(case, compiled=True) >= 2


def test_mel_weights() -> None:
    text = "g (int64 b, int64 k, int64 r, float l, float h) => (float[o,p] y) { y = MelWeightMatrix(b, k, r, l, h) }"
    points = [{"b": 8, "k": 16, "r": 8192, "l": 0, "h": 4096}, {"b": 40, "k": 400, "r": 16000, "l": 20, "h": 7600}]
    case = Case("mel", text, points, {key: (lambda sizes, key=key: sizes[key]) for key in "bkrlh"})
    assert compare(case, compiled=True) == 2


@pytest.mark.parametrize("corners", [0, 1])
def test_a_grid_of_a_computed_size(corners: int) -> None:
    body = f"y = AffineGrid<align_corners={corners}>(t, s)"
    for rank, size in ((2, [2, 3, 5, 6]), (3, [2, 3, 4, 5, 6])):
        axes = ",".join("opqrs"[: rank + 2])
        case = Case(
            body,
            f"g (float[n,{rank},{rank + 1}] t, int64[k] s) => (float[{axes}] y) {{ {body} }}",
            [{"n": 2}],
            {"s": size},
        )
        assert compare(case, compiled=True) == 1


def suppression(centers: int, *given: str) -> Case:
    signature = "float[n,k,4] b, float[n,c,k] s, int64 m, float i, float l"
    body = f"y = NonMaxSuppression<center_point_box={centers}>({', '.join(('b', 's', *given))})"
    return Case(body, f"g ({signature}) => (int64[o,3] y) {{ {body} }}", [], {})


@pytest.mark.parametrize("centers", [0, 1])
def test_boxes_that_overlap_better_ones_go(centers: int) -> None:
    model = parsed(suppression(centers, "m", "i", "l"))
    graph, evaluator = load(model), ReferenceEvaluator(model)
    function = compile_function(graph)
    for seed, (n, c, k, most) in enumerate([(1, 1, 1, 5), (2, 3, 20, 3), (1, 2, 60, 60), (2, 2, 5, 0), (1, 3, 40, 10)]):
        rng = np.random.default_rng(seed)
        boxes = rng.integers(0, 12, (n, k, 4)).astype(np.float32)
        scores = (rng.integers(0, 8, (n, c, k)) / 8).astype(np.float32)
        feeds = {"b": boxes, "s": scores, "m": np.array([most]), "i": np.float32([0.3]), "l": np.float32([0.2])}
        (wanted,) = evaluator.run(None, feeds)
        feeds |= {key: feeds[key].reshape(()) for key in "mil"}
        np.testing.assert_array_equal(interpret(graph, feeds)[0], wanted)
        np.testing.assert_array_equal(function(*feeds.values()), wanted)


def test_no_boxes_at_all() -> None:
    graph = load(parsed(suppression(0, "m")))
    empty = np.zeros((2, 0, 4), np.float32), np.zeros((2, 3, 0), np.float32)
    rest = np.array(4), np.float32(0), np.float32(0)
    assert compile_function(graph)(*empty, *rest).shape == (0, 3)
    assert interpret(graph, [*empty, *rest])[0].shape == (0, 3)
