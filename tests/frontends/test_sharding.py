"""What a module says of devices (sdy) goes out as it came in, and changes no value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo
from egshape.api import compile as compile_graph
from egshape.api import optimize, save
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write

MESH = 'sdy.mesh @mesh = <["d"=2, "m"=2]>'
ARGUMENT = 'sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>'
RESULT = 'sdy.sharding = #sdy.sharding<@mesh, [{}, {"m"}]>'

PROGRAM = f"""module @m attributes {{mhlo.num_partitions = 4 : i32}} {{
  {MESH}
  func.func @main(%x: tensor<?x4xf32> {{{ARGUMENT}}}) -> (tensor<?x4xf32> {{{RESULT}}}) {{
    %0 = stablehlo.add %x, %x : tensor<?x4xf32>
    %1 = call @inner(%0) : (tensor<?x4xf32>) -> tensor<?x4xf32>
    %2 = sdy.sharding_constraint %x <@mesh, [{{}}, {{"m"}}]> : tensor<?x4xf32>
    %3 = sdy.sharding_constraint %x <@mesh, [{{}}, {{"m"}}]> : tensor<?x4xf32>
    %4 = stablehlo.add %2, %3 : tensor<?x4xf32>
    %5 = stablehlo.multiply %1, %4 : tensor<?x4xf32>
    return %5 : tensor<?x4xf32>
  }}
  func.func private @inner(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {{
    %1 = sdy.sharding_constraint %x <@mesh, [{{"d"}}, {{"m"}}]> : tensor<?x4xf32>
    return %1 : tensor<?x4xf32>
  }}
}}"""

# The region sees nothing around, so that it may name its arguments as main does.
MANUAL = f"""module {{
  {MESH}
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"d"}}, {{}}]>] out_shardings=[<@mesh, [{{"d"}}, {{}}]>]
        manual_axes={{"d"}} (%y: tensor<2x8xf32>) {{
      %1 = stablehlo.tanh %y : tensor<2x8xf32>
      sdy.return %1 : tensor<2x8xf32>
    }} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }}
}}"""


def test_meshes_and_shardings_go_out_as_they_came() -> None:
    written = write(optimize(read(PROGRAM, "t.mlir")).graph)
    assert written.count("sdy.mesh @mesh") == 1
    assert f"{{{ARGUMENT}}}" in written and f"{{{RESULT}}}" in written
    assert 'sharding = #sdy.sharding<@mesh, [{"d"}, {"m"}]>' in written
    assert written.count("sdy.sharding_constraint") == 2, "equal ones are one"
    assert write(read(written, "o.mlir")) == written


@pytest.mark.parametrize("size", [0, 1, 3])
def test_they_change_no_value(size: int) -> None:
    x = np.arange(4 * size, dtype=np.float32).reshape(size, 4)
    graph = optimize(read(PROGRAM, "t.mlir")).graph
    for found in (compile_graph(graph)(x), compile_graph(graph, "llvm")(x), run_stablehlo(write(graph), [x])[0]):
        np.testing.assert_array_equal(found, 4 * x * x)


def test_an_onnx_model_has_none(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="needs the extra onnx")
    save(optimize(read(PROGRAM, "t.mlir")), tmp_path / "m.onnx")
    assert b"sdy" not in (tmp_path / "m.onnx").read_bytes()


def test_a_computation_by_device_is_carried_through() -> None:
    written = write(optimize(read(MANUAL, "t.mlir")).graph)
    assert written.count("sdy.mesh @mesh") == written.count("sdy.manual_computation") == 1
    assert write(read(written, "o.mlir")) == written
