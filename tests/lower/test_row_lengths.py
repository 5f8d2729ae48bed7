"""Rows of a known length are read as rows of any length are: side by side, not gathered from many rows."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.lower.drivers.llvm import compile_native
from egshape.lower.llvm import native

ROWS = b"""func.func @main(%x: tensor<?x?xf32>) -> tensor<?xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.multiply %x, %x : tensor<?x?xf32>
  %s = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
  return %s : tensor<?xf32>
}"""


@pytest.mark.parametrize("length", [8, 9, 10, 14, 16, 24, 64])
def test_a_row_of_a_known_length_is_not_gathered(length: int) -> None:
    graph = egshape.optimize(egshape.load(ROWS, "stablehlo"), f"arg0.1 == {length}", validate=False).graph
    made = compile_native(graph)
    kernel = native.assembly(native.whole(made.module.text, made.machine.features), made.machine)
    assert "egs_" in kernel and "gather" not in kernel


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 10, 12, 14, 15, 16, 64, 512, 513])
def test_sums_of_rows_of_a_known_length(length: int) -> None:
    fn = egshape.compile(egshape.load(ROWS, "stablehlo"), "llvm", assume=f"arg0.1 == {length}")
    for rows in (0, 1, 5, 33):
        x = np.random.default_rng(rows).integers(-4, 5, (rows, length)).astype(np.float32)
        np.testing.assert_array_equal(fn(x), (x * x).sum(1))


SOFTER = ROWS.replace(b"multiply %x, %x", b"exponential %x")


@pytest.mark.parametrize(
    ("text", "length", "rounds"), [(ROWS, 9, 9), (ROWS, 10, 9), (ROWS, 14, 13), (ROWS, 16, 16), (SOFTER, 10, 10)]
)
def test_an_even_number_of_cheap_rounds_leaves_one_behind(text: bytes, length: int, rounds: int) -> None:
    """LLVM would run two of ten at a time: sums of rows took 1.6 times as long. Costly ones it runs at once."""
    graph = egshape.optimize(egshape.load(text, "stablehlo"), f"arg0.1 == {length}", validate=False).graph
    inner = re.findall(r"icmp slt i64 %n\d+, (\d+)$", compile_native(graph).module.text, re.MULTILINE)
    assert set(map(int, inner)) == {rounds}


def test_the_round_behind_counts() -> None:
    text = ROWS.replace(b"multiply %x, %x", b"negate %x").replace(b"stablehlo.add", b"stablehlo.maximum")
    fn = egshape.compile(egshape.load(text, "stablehlo"), "llvm", assume="arg0.1 == 12")
    x = np.ones((12, 12), np.float32) - np.eye(12, dtype=np.float32) * 3
    np.testing.assert_array_equal(fn(x), np.full(12, 2, np.float32))


@pytest.mark.parametrize("length", [*range(20), 23, 31, 32, 33, 39, 40, 43, 47, 77])
def test_the_rest_of_a_row_counts(length: int) -> None:
    """Behind whole vectors a rest runs as one, or one by one where it is small."""
    x = np.random.default_rng(length).standard_normal((3, length)).astype(np.float32)
    np.testing.assert_allclose(_softer()(x), np.exp(x.astype(np.float64)).sum(1), 1e-5)


@functools.cache
def _softer() -> Any:
    return egshape.compile(egshape.load(SOFTER, "stablehlo"), "llvm")


@pytest.mark.parametrize(("features", "masked"), [("+avx2,+fma", False), ("+avx2,+fma,+avx512f", True), ("+sve", True)])
@pytest.mark.parametrize(("text", "rests"), [(ROWS, 0), (SOFTER, 1)])
def test_a_rest_of_costly_rounds_is_masked_where_the_cpu_has_masks(
    features: str, masked: bool, text: bytes, rests: int
) -> None:
    made = compile_native(egshape.load(text, "stablehlo")).module.text
    assert made.count("!llvm.loop !2") == rests
    assert ("vectorize.predicate.enable" in native.whole(made, features)) is (masked and rests > 0)
