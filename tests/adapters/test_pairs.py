"""Graphs with complex numbers compile: their ops are calls of the references, equal to the interpreter to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("llvmlite")

from egshape.adapters.pairs import joined, split
from egshape.api import compile as compile_graph
from egshape.api import optimize
from egshape.errors import CheckFailed, EgshapeError
from egshape.frontends.stablehlo import read
from egshape.ir.graph import Graph

C = "tensor<?x?xcomplex<f32>>"
PROGRAMS = {
    "arithmetic": f"""func.func @main(%x: {C}) -> ({C}, tensor<?x?xf32>) {{
      %0 = stablehlo.multiply %x, %x : {C}
      %1 = stablehlo.exponential %0 : {C}
      %2 = stablehlo.add %1, %x : {C}
      %3 = stablehlo.abs %2 : ({C}) -> tensor<?x?xf32>
      %4 = stablehlo.sine %3 : tensor<?x?xf32>
      return %2, %4 : {C}, tensor<?x?xf32> }}""",
    "parts": f"""func.func @main(%x: {C}) -> ({C}, tensor<i32>) {{
      %0 = stablehlo.real %x : ({C}) -> tensor<?x?xf32>
      %1 = stablehlo.imag %x : ({C}) -> tensor<?x?xf32>
      %2 = stablehlo.complex %1, %0 : {C}
      %3 = stablehlo.get_dimension_size %2, dim = 1 : ({C}) -> tensor<i32>
      return %2, %3 : {C}, tensor<i32> }}""",
    "sizes": f"""func.func @main(%x: {C}) -> tensor<?xcomplex<f32>> {{
      %c = stablehlo.constant dense<(1.0, -2.0)> : tensor<complex<f32>>
      %0 = stablehlo.get_dimension_size %x, dim = 0 : ({C}) -> tensor<i32>
      %1 = stablehlo.get_dimension_size %x, dim = 1 : ({C}) -> tensor<i32>
      %2 = stablehlo.multiply %0, %1 : tensor<i32>
      %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
      %4 = stablehlo.dynamic_reshape %x, %3 : ({C}, tensor<1xi32>) -> tensor<?xcomplex<f32>>
      %5 = stablehlo.dynamic_broadcast_in_dim %c, %3, dims = [] :
        (tensor<complex<f32>>, tensor<1xi32>) -> tensor<?xcomplex<f32>>
      %6 = stablehlo.subtract %4, %5 : tensor<?xcomplex<f32>>
      return %6 : tensor<?xcomplex<f32>> }}""",
    "reduce": f"""func.func @main(%x: {C}) -> tensor<?xcomplex<f32>> {{
      %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
      %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] :
        ({C}, tensor<complex<f32>>) -> tensor<?xcomplex<f32>>
      return %0 : tensor<?xcomplex<f32>> }}""",
    "loop": f"""func.func @main(%x: {C}, %n: tensor<i32>) -> {C} {{
      %k0 = stablehlo.constant dense<0> : tensor<i32>
      %k1 = stablehlo.constant dense<1> : tensor<i32>
      %0:2 = stablehlo.while(%i = %k0, %y = %x) : tensor<i32>, {C}
        cond {{ %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1> }}
        do {{ %j = stablehlo.add %i, %k1 : tensor<i32>
             %w = stablehlo.multiply %y, %x : {C}
             stablehlo.return %j, %w : tensor<i32>, {C} }}
      return %0#1 : {C} }}""",
}


def numbers(*shape: int, dtype: Any = np.complex64) -> np.ndarray:
    random = np.random.default_rng(0)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


def _same(graph: Graph, given: list[np.ndarray]) -> None:
    wanted, found = compile_graph(graph)(*given), compile_graph(graph, "llvm")(*given)
    pairs = zip(*((each if isinstance(each, tuple) else (each,)) for each in (wanted, found)), strict=True)
    for one, two in pairs:
        assert one.dtype == two.dtype and one.shape == two.shape
        np.testing.assert_array_equal(one, two)


def test_an_op_without_a_native_function() -> None:
    graph = read("""func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = chlo.digamma %x : tensor<?xf32> -> tensor<?xf32>
      %1 = stablehlo.add %0, %x : tensor<?xf32>
      return %1 : tensor<?xf32> }""", "t.mlir")  # fmt: skip
    assert any(op.name == "digamma" for op in graph.ops)
    for size in (0, 1, 5):
        _same(graph, [np.arange(size, dtype=np.float32) + 1])


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_equal_to_the_interpreter(name: str, dtype: str) -> None:
    graph = read(PROGRAMS[name].replace("f32", dtype), "t.mlir")
    more = [np.array(3, np.int32)] if name == "loop" else []
    for each in (graph, optimize(graph).graph):
        for shape in ((2, 3), (1, 1), (0, 2)):
            _same(each, [numbers(*shape, dtype=np.complex64 if dtype == "f32" else np.complex128), *more])


def test_pairs_and_back() -> None:
    for shape in ((), (0, 2), (2, 3)):
        x = numbers(*shape)
        assert split(x).shape == (*shape, 2)
        np.testing.assert_array_equal(joined(split(x)), x)


def test_errors_are_those_of_the_graph(tmp_path: Any) -> None:
    text = f"""func.func @main(%x: {C}, %y: {C}) -> {C} {{
      %0 = stablehlo.add %x, %y : {C}
      return %0 : {C} }}"""
    function = compile_graph(read(text, "t.mlir"), "llvm")
    with pytest.raises(CheckFailed):
        function(numbers(2, 3), numbers(2, 2))
    with pytest.raises(EgshapeError, match="'arg0' has elements of complex64, got float32"):
        function(np.zeros((2, 3), np.float32), numbers(2, 3))
    with pytest.raises(EgshapeError, match="complex"):
        function.save(tmp_path / "m.egx")
