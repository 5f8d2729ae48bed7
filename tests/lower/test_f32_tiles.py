"""Convolutions by tiles: one to three bf16 a number (``plan/cpu/parts.py``)."""

import os
from dataclasses import replace

import numpy as np
import pytest

import egshape
from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import numpy_dtype
from egshape.lower.llvm.tiles import tiled
from egshape.plan.cpu import pages, parts
from egshape.plan.ir.loops import Product
from egshape.plan.ir.program import Run
from egshape.plan.ir.walk import statements
from egshape.plan.targets import plan
from egshape.runtime.abi.tiles import has_tiles
from tests.fresh import with_artifact
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import compiled
from tests.lower.test_convolution import Case, reference
from tests.lower.test_halves import FLOATS

here = pytest.mark.skipif(not has_tiles(), reason="this machine has no tile registers (AMX)")
F32 = np.float32


def some(rng, *shape):
    """Numbers of all sizes that f32 products are made of."""
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)).astype(F32)


def test_an_f32_is_three_bf16():
    """Exactly; the largest is 0 only where the number is, and no part has the other sign."""
    rng, edges = np.random.default_rng(0), F32([1, -1, 3, 257, 65537, 2**24 - 1, 2.0**-100, np.finfo(F32).max, 0, -0.0])
    x = np.concatenate([some(rng, 4000), edges])
    found = parts.constant_parts(x, "f32")
    np.testing.assert_array_equal(sum(part.astype(np.float64) for part in found).astype(F32), x)
    for part in found:
        np.testing.assert_array_equal(part.view(np.uint32) & 0xFFFF, 0)
        assert np.isin(np.sign(part) * np.sign(x), (0, 1)).all()
    np.testing.assert_array_equal(np.sign(found[0]), np.sign(x))


def test_which_constants_are_put_into_parts():
    fine = np.ones((3, 3), F32)
    assert parts.fits(fine) and parts.fits(np.zeros((2, 2), F32))
    for wrong in (np.inf, np.nan, 2.0**-101, 1e-45, 2.0**21):
        other = fine.copy()
        other[1, 1] = wrong
        assert not parts.fits(other)


def test_rows_lie_an_odd_number_of_lines_apart():
    assert [parts.apart(3 * room) for room in (32, 64, 256, 1024)] == [96, 224, 800, 3104]


def test_who_multiplies_f32_by_tiles():
    for kind in ("bf16x1", "f16x2", "f32x3"):
        assert tiled(kind, frozenset(("+amx-tile", "+amx-bf16"))) and not tiled(kind, frozenset(("+amx-tile",)))


def constant(b, array):
    return b.one("constant", (), {"value": array})


def kinds(graph):
    """The elements of the products that are planned with tiles."""
    steps = plan(graph, tiles=FLOATS).steps
    bodies = [step.kernel.body for step in steps if isinstance(step, Run)]
    return {each.elements for body in bodies for each in statements(body) if isinstance(each, Product)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_constants_of_its_own():
    """What it compiles writes nothing to those of the other one."""
    pages.zeros(pages.LEAST)
    child = os.fork()
    if not child:
        pages.zeros(pages.LEAST)[:] = 1
        os._exit(0)
    os.waitpid(child, 0)
    assert not pages.zeros(pages.LEAST).any()


# -- convolutions -----------------------------------------------------------------------------------------------------

WIDE = {"layout": "last", "channels": 32, "outputs": 40}
CASES = {
    "plain": Case(**WIDE),
    "channels that fill no tile": Case(layout="last", channels=56, outputs=24),
    "strides": Case(**WIDE, strides=(2, 2)),
    "strides along lines": Case(**WIDE, strides=(1, 2)),
    "strides from line to line": Case(**WIDE, strides=(3, 1)),
    "dilated": Case(**WIDE, dilation=(2, 3), padding=(2, 1, 3, 4)),
    "one side": Case(**WIDE, padding=(0, 2, 3, 0)),
    "no padding": Case(**WIDE, padding=(0, 0, 0, 0)),
    "reversed": Case(**WIDE, reversal=(1, 0)),
    "line": Case(**WIDE, rank=1, taps=(9,), strides=(1,), padding=(4, 4), base=(1,), dilation=(1,), reversal=(0,)),
    "volume": Case(
        **WIDE,
        rank=3,
        taps=(2, 3, 3),
        strides=(1, 1, 1),
        padding=(1, 0, 1, 1, 1, 1),
        base=(1, 1, 1),
        dilation=(1, 1, 1),
        reversal=(0, 0, 0),
    ),
    "transposed": Case(**WIDE, base=(2, 2), taps=(4, 4), padding=(2, 2, 2, 2)),
    "places without taps": Case(layout="last", channels=64, outputs=70, base=(2, 3), taps=(2, 2), padding=(0, 0, 0, 0)),
    "places without the only tap": Case(
        layout="last", channels=200, outputs=70, base=(2, 3), taps=(1, 1), padding=(0, 0, 0, 0)
    ),
    "places without taps, large kernel": Case(
        layout="last", channels=200, outputs=200, base=(3, 3), taps=(2, 2), padding=(0, 0, 0, 0)
    ),
    "transposed points": Case(layout="last", channels=200, outputs=70, taps=(1, 1), padding=(0, 1, 2, 0), base=(2, 2)),
    "middling kernel": Case(layout="last", channels=64, outputs=176),
    "points": Case(layout="last", channels=200, outputs=70, taps=(1, 1), padding=(0, 0, 0, 0)),
    "strided points": Case(layout="last", channels=200, outputs=70, taps=(1, 1), padding=(0, 0, 0, 0), strides=(2, 2)),
    "large kernel": Case(layout="last", channels=96, outputs=192),
    "large kernel, strides": Case(layout="last", channels=96, outputs=192, strides=(2, 2)),
}


def convolution(case, kernel, sizes=None):
    """Of images of the sizes; else of any."""
    b = BlockBuilder()
    batch, *space = map(symbol, "bhwd"[: case.rank + 1]) if sizes is None else map(const, sizes)
    x = argument(b, "x", case.dtype, case.shaped([batch, const(case.channels), *space]))
    return graph_of(b, b.one("convolution", [x, constant(b, kernel)], case.attrs(tuple(map(const, case.padding)))))


def kernel_of(case, rng):
    shape = case.shaped((case.outputs, case.channels, *case.taps), kernel=True)
    return (rng.standard_normal(shape) / np.sqrt(case.channels * np.prod(case.taps))).astype(F32)


@pytest.mark.parametrize("name", CASES)
def test_convolutions_are_planned_in_parts(name):
    graph = convolution(CASES[name], kernel_of(CASES[name], np.random.default_rng(0)))
    assert kinds(graph) == ({"f32x3"} if name == "points" else {"", "f32x3"})


@pytest.mark.parametrize(
    "case,sizes,kind",
    [
        (Case(**WIDE), (1, 14, 14), "f32x3"),
        (Case(**WIDE), (80, 3, 3), ""),
        (Case(**WIDE), (80, 4, 4), ""),
        (Case(**WIDE, strides=(2, 2)), (1, 56, 56), "f32x3"),
        (Case(**WIDE, strides=(2, 2)), (1, 56, 14), ""),
        (CASES["line"], (80, 4), ""),
        (CASES["line"], (1, 64), "f32x3"),
        (CASES["large kernel"], (1, 64, 64), "f32x3"),
        (CASES["large kernel"], (4, 5, 5), ""),
    ],
)
def test_few_rows_of_a_product_are_multiplied_by_vectors(case, sizes, kind):
    """Where sizes are known one kind is planned."""
    assert kinds(convolution(case, kernel_of(case, np.random.default_rng(0)), sizes)) == {kind}


@pytest.mark.parametrize(
    "case",
    [
        Case(layout="last", channels=48, outputs=40),
        Case(layout="last", channels=32, outputs=4),
        Case(layout="first", channels=32, outputs=40),
        Case(layout="last", channels=64, outputs=64, groups=2),
        Case(layout="last", channels=64, outputs=64, taps=(1, 1), padding=(0, 0, 0, 0)),
        Case(layout="last", channels=512, outputs=512),
    ],
)
def test_convolutions_of_vectors(case):
    """Channels that fill tiles badly, few features, channels first, groups, a short depth, a kernel of far caches."""
    shape = case.shaped((case.outputs, case.channels // case.groups, *case.taps), kernel=True)
    assert kinds(convolution(case, np.ones(shape, F32))) == {""}


@pytest.mark.parametrize("layout,channels", [("last", 200), ("last", 24), ("first", 24), ("turned", 24)])
def test_rows_of_points_are_those_of_all_images(layout, channels):
    """Of many small images, and where features are not last."""
    rng = np.random.default_rng(14)
    case = Case(layout=layout, channels=channels, outputs=70, taps=(1, 1), padding=(0, 0, 0, 0))
    kernel = kernel_of(case, rng)
    functions = [egshape.compile(convolution(case, kernel), threads=threads) for threads in (1, 2)]
    for batch, *space in ((90, 2, 1), (1, 1, 1), (3, 5, 9), (0, 3, 3), (7, 0, 2)):
        x = rng.standard_normal(case.shaped((batch, channels, *space))).astype(F32)
        one, two = (np.asarray(function(x)) for function in functions)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, reference(case, x, kernel), 2e-5, 2e-6)


@here
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name):
    """Images of every kind: none, one place, lines shorter than a tile and longer than two, several strips; with one
    thread and with two."""
    case, rng = CASES[name], np.random.default_rng(6)
    kernel = kernel_of(case, rng)
    functions = [egshape.compile(convolution(case, kernel), threads=threads) for threads in (1, 2)]
    for batch, *space in ((1, 1, 1, 1), (2, 7, 7, 2), (1, 14, 14, 2), (3, 5, 19, 1), (1, 33, 40, 3), (0, 4, 4, 4)):
        x = rng.standard_normal(case.shaped((batch, case.channels, *space[: case.rank]))).astype(F32)
        exact = reference(case, x, kernel)
        for threads, function in enumerate(functions, 1):
            found = np.asarray(function(x))
            assert found.shape == exact.shape
            np.testing.assert_allclose(found, exact, 2e-5, 2e-6, err_msg=f"{batch} x {space}, {threads} threads")


@here
@pytest.mark.long_but("plain-*", "strides-*", "points-*", "large kernel-*")
@pytest.mark.parametrize(("dtype", "bits"), [("bf16", 8), ("f16", 11)])
@pytest.mark.parametrize("name", CASES)
def test_convolutions_of_16_bit_floats_are_rounded_once(name, dtype, bits):
    """One part, or two: what an f32 sum of exact products is, in so many bits."""
    kind, rng = np.dtype(numpy_dtype(dtype)), np.random.default_rng(12)
    case = replace(CASES[name], dtype=dtype)
    kernel = kernel_of(case, rng).astype(kind)
    graph = convolution(case, kernel)
    assert {"bf16": "bf16x1", "f16": "f16x2"}[dtype] in kinds(graph)
    functions = [egshape.compile(graph, threads=threads) for threads in (1, 2)]
    for batch, *space in ((1, 1, 1, 1), (2, 7, 7, 2), (1, 33, 40, 3), (0, 4, 4, 4)):
        x = rng.standard_normal(case.shaped((batch, case.channels, *space[: case.rank]))).astype(kind)
        exact = reference(case, x.astype(F32), kernel.astype(F32))
        for function in functions:
            found = np.asarray(function(x))
            assert found.dtype == kind and found.shape == exact.shape
            np.testing.assert_allclose(found.astype(F32), exact, 1.01 * 2.0**-bits, 1e-6, err_msg=f"{batch} x {space}")


@here
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("name", ["plain", "strides", "line", "points"])
def test_sums_of_16_bit_floats_may_stay_f32(name, dtype):
    """By tiles too, and not rounded."""
    kind, rng, case = np.dtype(numpy_dtype(dtype)), np.random.default_rng(15), CASES[name]
    kernel = kernel_of(case, rng).astype(kind)
    b = BlockBuilder()
    x = argument(b, "x", dtype, case.shaped([symbol("b"), const(case.channels), *map(symbol, "hwd"[: case.rank])]))
    attrs = case.attrs(tuple(map(const, case.padding)))
    graph = graph_of(b, b.one("convolution", [x, constant(b, kernel)], attrs))
    assert {"bf16": "bf16x1", "f16": "f16x2"}[dtype] in kinds(graph)
    function = compiled(graph)
    for batch, *space in ((1, 1, 1), (2, 7, 7), (1, 33, 40)):
        image = rng.standard_normal(case.shaped((batch, case.channels, *space[: case.rank]))).astype(kind)
        found, exact = np.asarray(function(image)), reference(case, image.astype(F32), kernel.astype(F32))
        assert found.dtype == F32
        np.testing.assert_allclose(found, exact, 2e-5, 2e-6)


@here
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_16_bit_floats_that_are_no_ordinary_numbers(dtype):
    """Infinities of both sides, no numbers, subnormal ones of f16: as of f32."""
    kind, case, rng = np.dtype(numpy_dtype(dtype)), replace(CASES["points"], dtype=dtype), np.random.default_rng(13)
    kernel = rng.standard_normal((1, 1, case.channels, case.outputs)).astype(kind)
    kernel[0, 0, 3, :9], kernel[0, 0, 4, 5], kernel[0, 0, 7, 2] = np.inf, np.nan, -np.inf
    x = rng.standard_normal((1, 12, 12, case.channels)).astype(kind)
    x[0, 0, 0, 3], x[0, 1, 1, 3], x[0, 2, 2, 5], x[0, 3, 3, 7] = np.inf, -np.inf, np.nan, 0
    if dtype == "f16":
        x[0, 4:8], kernel[0, 0, 20:40] = x[0, 4:8] * kind.type(1e-5), kernel[0, 0, 20:40] * kind.type(1e-5)
    found = np.asarray(compiled(convolution(case, kernel))(x)).astype(F32)
    with np.errstate(all="ignore"):
        exact = reference(case, x.astype(F32), kernel.astype(F32)).astype(kind).astype(F32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_allclose(found, exact, 0.01, 1e-6)


@here
def test_places_of_infinities():
    """Only what reads them is infinite, or no number; padding times them is nothing."""
    case = CASES["plain"]
    kernel = kernel_of(case, np.random.default_rng(7))
    x = np.random.default_rng(8).standard_normal((1, 20, 20, 32)).astype(F32)
    x[0, 5, 6, 3], x[0, 19, 19, 0], x[0, 0, 10, 31] = np.inf, -np.inf, np.nan
    found = np.asarray(compiled(convolution(case, kernel))(x))
    with np.errstate(all="ignore"):
        exact = reference(case, x, kernel)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(exact))
    np.testing.assert_array_equal(np.isposinf(found), np.isposinf(exact))


@here
@pytest.mark.parametrize("name", ["plain", "points", "large kernel"])
def test_results_are_as_exact_as_those_of_vectors(name):
    """Off by less than what f32 sums of 8 products may be."""
    case, rng = CASES[name], np.random.default_rng(9)
    kernel, x = kernel_of(case, rng), rng.standard_normal((2, 17, 20, case.channels)).astype(F32)
    found = np.asarray(compiled(convolution(case, kernel))(x))
    error = np.abs(found - reference(case, x, kernel)) / reference(case, np.abs(x), np.abs(kernel))
    assert error.max() < 2.0**-21 and error.mean() < 2.0**-24


@here
def test_integers_of_16_bits_are_multiplied_exactly():
    """As selections by ones are."""
    case, rng = CASES["points"], np.random.default_rng(10)
    x = rng.integers(-60000, 60000, (1, 12, 12, case.channels)).astype(F32)
    chosen = np.zeros((1, 1, case.channels, case.outputs), F32)
    chosen[0, 0, rng.integers(0, case.channels, case.outputs), np.arange(case.outputs)] = 1
    small = rng.integers(-30, 30, x.shape).astype(F32)
    weights = rng.integers(-300, 300, chosen.shape).astype(F32)
    for image, kernel in ((x, chosen), (small, weights)):
        found = np.asarray(compiled(convolution(case, kernel))(image))
        np.testing.assert_array_equal(found, reference(case, image, kernel))


@here
def test_a_sum_that_is_0_is_0():
    """Nothing is added to the parts of small integers, which would be left where these cancel."""
    case, rng = CASES["points"], np.random.default_rng(9)
    kernel = rng.integers(-2, 3, case.shaped((case.outputs, case.channels, 1, 1), kernel=True)).astype(F32)
    x = rng.integers(-2, 3, (1, 9, 9, case.channels)).astype(F32)
    exact = reference(case, x, kernel)
    assert (exact == 0).sum() > 50
    np.testing.assert_array_equal(np.asarray(compiled(convolution(case, kernel))(x)), exact)


@here
def test_infinity_times_what_one_bf16_holds():
    """It stays one; times 0 it is no number; the largest number is no infinity."""
    case, rng = CASES["points"], np.random.default_rng(11)
    kernel = rng.standard_normal((1, 1, case.channels, case.outputs)).astype(F32)
    kernel[0, 0, 3], kernel[0, 0, 5, :7], kernel[0, 0, 9] = 1, 0, 1.5
    x = rng.standard_normal((1, 12, 12, case.channels)).astype(F32)
    x[0, 0, 0, 3], x[0, 1, 1, 3], x[0, 2, 2, 5], x[0, 3, 3, 7] = np.inf, -np.inf, np.inf, np.nan
    x[0, 4, 4, 3], x[0, 4, 4, 9], x[0, 5, 5] = np.inf, -np.inf, 1e-3
    x[0, 5, 5, 3] = np.finfo(F32).max
    found = np.asarray(compiled(convolution(case, kernel))(x))
    with np.errstate(all="ignore"):
        exact = reference(case, x, kernel)
    odd = ~np.isfinite(exact)
    np.testing.assert_array_equal(found[odd], exact[odd])
    np.testing.assert_allclose(found[~odd], exact[~odd], 1e-4, 1e-4)


@here
def test_bf16_and_f32_in_one_artifact(tmp_path):
    """The registers are asked for once, in a process that compiles nothing."""
    b, case = BlockBuilder(), CASES["points"]
    x = argument(b, "x", "f32", [const(1), symbol("h"), symbol("w"), const(200)])
    kernel = constant(b, np.ones((1, 1, 200, 70), F32))
    y = b.one("convolution", [x, kernel], case.attrs((const(0),) * 4))
    short = [b.one("convert", [each], {"dtype": "bf16"}) for each in (x, constant(b, np.ones((200, 70), F32)))]
    z = b.one(
        "dot_general",
        short,
        {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (3,), "rhs_contract": (0,), "dtype": "f32"},
    )
    graph, path = graph_of(b, b.one("add", [y, z])), tmp_path / "both.egx"
    egshape.compile(graph).save(path)
    said = with_artifact(path, "print(int(np.asarray(f(np.ones((1, 9, 20, 200), np.float32))).sum()))")
    assert said.split() == [str(180 * 70 * 400)]
