"""Programs that take their sizes as scalar arguments, as older versions of JAX export them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo
from egshape.api import optimize
from egshape.errors import EgshapeError
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write

ROWS = """func.func public @main(%b: tensor<i64> LABEL, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = stablehlo.convert %b : (tensor<i64>) -> tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.constant dense<4> : tensor<1xi32>
    %3 = stablehlo.concatenate %1, %2, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %4 = stablehlo.dynamic_iota %3, dim = 0 : (tensor<2xi32>) -> tensor<?x4xf32>
    %5 = stablehlo.add %x, %4 : tensor<?x4xf32>
    return %5 : tensor<?x4xf32> }"""

# The sizes are read as vectors where the broadcasts are, as scalars in the checks that these imply.
COLUMN = """func.func public @main(%b: tensor<i64> LABEL, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %one = stablehlo.constant dense<1> : tensor<1xi32>
    %four = stablehlo.constant dense<4> : tensor<1xi32>
    %0 = stablehlo.convert %b : (tensor<i64>) -> tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    %3 = stablehlo.convert %b : (tensor<i64>) -> tensor<i32>
    %4 = stablehlo.reshape %3 : (tensor<i32>) -> tensor<1xi32>
    %5 = stablehlo.concatenate %4, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %6 = stablehlo.dynamic_broadcast_in_dim %2, %5, dims = [0] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x1xf32>
    %7 = stablehlo.convert %b : (tensor<i64>) -> tensor<i32>
    %8 = stablehlo.reshape %7 : (tensor<i32>) -> tensor<1xi32>
    %9 = stablehlo.concatenate %8, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %10 = stablehlo.dynamic_broadcast_in_dim %6, %9, dims = [0, 1] : (tensor<?x1xf32>, tensor<2xi32>) -> tensor<?x4xf32>
    %11 = stablehlo.add %x, %10 : tensor<?x4xf32>
    return %11 : tensor<?x4xf32> }"""

LABEL = '{jax.global_constant = "b"}'


@pytest.mark.parametrize("label", ["", LABEL])
@pytest.mark.parametrize("text", [ROWS, COLUMN])
def test_saved_and_run(text: str, label: str) -> None:
    source = text.replace("LABEL", label)
    graph = read(source, "t.mlir")
    for each in (graph, optimize(graph).graph):
        written = write(each)
        assert [str(value.type.dtype) for value in read(written, "o.mlir").inputs] == ["i64", "f32"]
        for size in (0, 1, 2, 5):
            given = [np.array(size), np.ones((size, 4), np.float32)]
            wanted, found = run_stablehlo(source, given), run_stablehlo(written, given)
            assert [a.tolist() for a in found] == [a.tolist() for a in wanted]


def test_a_size_that_does_not_fit_is_rejected() -> None:
    written = write(optimize(read(ROWS.replace("LABEL", ""), "t.mlir")).graph)
    with pytest.raises(EgshapeError):
        run_stablehlo(written, [np.array(3), np.ones((2, 4), np.float32)])
