"""Sizes, pads, lengths and axes that data tell, at their edges: as ONNX Runtime takes and refuses them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import egshape
from egshape.errors import CheckFailed, EgshapeError
from tests.frontends.onnx.checking import Case, load, parsed


def made(text: str, target: str) -> Callable[..., object]:
    """The model as a function."""
    return egshape.compile(egshape.optimize(load(parsed(Case("odd", text, [])))), target=target)


@pytest.fixture(params=["interpret", "llvm"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


PAD = 'g (float[n,m] x, int64[4] p) => (float[a,b] y) {{ y = Pad<mode="{}">(x, p) }}'


def padded(x: np.ndarray, pads: tuple[int, int, int, int], mode: str) -> np.ndarray:
    """What negative pads cut off, then what the others add."""
    top, left, bottom, right = pads
    cut = x[max(-top, 0) : x.shape[0] - max(-bottom, 0), max(-left, 0) : x.shape[1] - max(-right, 0)]
    return np.pad(cut, ((max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))), mode=mode)  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_computed_pads_may_be_negative(mode: str, target: str) -> None:
    function = made(PAD.format(mode), target)
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    for pads in ((-1, 0, 2, 1), (1, -2, -3, 1), (-2, 0, -3, 0), (2, 1, 1, -2), (0, -1, 0, 0)):
        np.testing.assert_array_equal(function(x, np.array(pads)), padded(x, pads, mode))
    with pytest.raises(EgshapeError):
        function(x, np.array((-3, 0, -3, 0)))


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_an_axis_without_elements_is_padded_by_none(mode: str, target: str) -> None:
    function = made(PAD.format(mode), target)
    empty = np.zeros((0, 4), np.float32)
    assert np.shape(function(empty, np.array((0, 1, 0, 2)))) == (0, 7)
    with pytest.raises(CheckFailed, match="no element to pad an axis of size 0 with"):
        function(empty, np.array((1, 0, 0, 0)))
    with pytest.raises(CheckFailed, match="no element to pad an axis of size 0 with"):
        function(np.zeros((2, 4), np.float32), np.array((-2, 0, 1, 0)))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_reflection_goes_once_over_an_axis(n: int, target: str) -> None:
    """ONNX Runtime refuses what goes on at the other end; edges and repetitions do not end."""
    for mode in ("reflect", "edge"):
        function, x = made(PAD.format(mode), target), np.arange(4.0 * n, dtype=np.float32).reshape(n, 4)
        for pads in ((1, 0, 0, 0), (0, 0, 1, 0), (2, 0, 1, 0)):
            if mode == "edge" or max(pads) < n:
                np.testing.assert_array_equal(function(x, np.array(pads)), padded(x, pads, mode))
            else:
                with pytest.raises(CheckFailed, match="no element to pad"):
                    function(x, np.array(pads))


@pytest.mark.parametrize(
    ("node", "out"),
    [
        ("ArgMax<axis=1, keepdims=0>", "int64[n,k]"),
        ("ArgMin<axis=-2>", "int64[n,o,k]"),
        ("GlobalMaxPool", "float[n,m,o]"),
        ("GlobalAveragePool", "float[n,m,o]"),
    ],
)
def test_nothing_has_no_largest_element(node: str, out: str, target: str) -> None:
    function = made(f"g (float[n,m,k] x) => ({out} y) {{ y = {node}(x) }}", target)
    empty = (2, 3, 0) if "Pool" in node else (2, 0, 3)
    with pytest.raises(CheckFailed, match="of an axis of size 0, which has no element"):
        function(np.zeros(empty, np.float32))
    assert np.size(function(np.zeros((0, *empty[1:]), np.float32))) == 0
    assert np.size(function(np.zeros((2, 3, 1), np.float32))) > 0


def test_a_grid_of_no_images(target: str) -> None:
    text = "g (float[n,2,h,w] x, float[n,a,b,2] t) => (float[n,2,a,b] y) { y = GridSample(x, t) }"
    found = made(text, target)(np.zeros((0, 2, 3, 4), np.float32), np.zeros((0, 5, 6, 2), np.float32))
    assert np.shape(found) == (0, 2, 5, 6)


def test_lengths_to_reverse_lie_within_the_axis(target: str) -> None:
    function = made("g (float[t,b] x, int64[b] l) => (float[t,b] y) { y = ReverseSequence(x, l) }", target)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(function(x, np.array([0, 4]))[:, 1], x[::-1, 1])  # type: ignore[index]
    for wrong in (5, -1):
        with pytest.raises(CheckFailed, match="ReverseSequence has a length outside of 0 to 4"):
            function(x, np.array([1, wrong]))


def test_a_running_sum_has_an_axis_of_its_operand(target: str) -> None:
    function = made("g (float[n,m] x, int64 a) => (float[n,m] y) { y = CumSum(x, a) }", target)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for axis in (0, 1, -1, -2):
        np.testing.assert_array_equal(function(x, np.array(axis)), np.cumsum(x, axis))
    for wrong in (2, -3):
        with pytest.raises(CheckFailed, match="CumSum names an axis that it cannot take of rank 2"):
            function(x, np.array(wrong))
