"""The op counts of benchmarks/opcount.py on a module that was counted by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("jax")

_MODULE = """module {
  func.func public @main(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<1xi32>
    %b = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %ok = stablehlo.compare GE, %b, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%ok, %b) {api_version = 2 : i32, error_message = "",
      has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %0 = call @f(%b, %a) : (tensor<i32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
  func.func private @f(%b: tensor<i32>, %a: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %four = stablehlo.constant dense<4> : tensor<1xi32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.concatenate %0, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %2 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.concatenate %2, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %4 = stablehlo.dynamic_broadcast_in_dim %zero, %1, dims = [] : (tensor<f32>, tensor<2xi32>)
      -> tensor<?x4xf32>
    %5 = stablehlo.dynamic_reshape %a, %3 : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
    %6 = stablehlo.add %4, %5 : tensor<?x4xf32>
    return %6 : tensor<?x4xf32>
  }
}"""


def _opcount() -> ModuleType:
    """The benchmarks are no package of the installed project."""
    path = Path(__file__).parents[2] / "benchmarks" / "opcount.py"
    spec = importlib.util.spec_from_file_location("opcount", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["opcount"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_counts() -> None:
    opcount = _opcount()
    assert opcount.count_ops(_MODULE) == opcount.OpCounts(
        total=19, dynamic=3, data=3, shape=4, constants=4, assertions=3, structure=5, distinct_shape_values=1
    )
