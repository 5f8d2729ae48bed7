"""StableHLO ops without a declaration are carried through as they came, and run by XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo
from egshape.api import compile as compile_graph
from egshape.api import optimize
from egshape.errors import EgshapeError
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write

F = np.float32

MATRICES = "%a: tensor<?x?xf32>, %b: tensor<?x?xf32>"
SOLVE = f"""func.func @main({MATRICES}) -> tensor<?x?xf32> {{
  %0 = "stablehlo.triangular_solve"(%a, %b) {{left_side = true, lower = true, unit_diagonal = false,
    transpose_a = #stablehlo<transpose NO_TRANSPOSE>}} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32> }}"""

# The region reads a value of the block around.
MAP = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "stablehlo.map"(%x, %x) <{dimensions = array<i64: 0>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      %t = stablehlo.multiply %s, %q : tensor<f32>
      stablehlo.return %t : tensor<f32>
  }) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  %1 = stablehlo.add %0, %x : tensor<?xf32>
  return %1 : tensor<?xf32> }"""

NORM = """func.func @main(%x: tensor<?x3xf32>, %s: tensor<3xf32>) -> (tensor<?x3xf32>, tensor<3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %s, %s) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> :
    (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<?x3xf32>, tensor<3xf32> }"""

BITS = """func.func @main(%k: tensor<2xui64>, %x: tensor<?xf32>) -> (tensor<2xui64>, tensor<4xui32>, tensor<?xf32>) {
  %0:2 = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return %0#0, %0#1, %x : tensor<2xui64>, tensor<4xui32>, tensor<?xf32> }"""

SIZED_BITS = """func.func @main(%k: tensor<2xui64>, %x: tensor<?xf32>) -> (tensor<2xui64>, tensor<?xui32>) {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %0:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%k, %s) {api_version = 2 : i32,
    rng_algorithm = #stablehlo<rng_algorithm DEFAULT>} :
    (tensor<2xui64>, tensor<1xi32>) -> (tensor<2xui64>, tensor<?xui32>)
  return %0#0, %0#1 : tensor<2xui64>, tensor<?xui32> }"""

REDUCED = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
    replica_groups = dense<0> : tensor<1x1xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32> }"""


def _vectors(*sizes: int) -> list[list[np.ndarray]]:
    return [[np.arange(n, dtype=F) - 1] for n in sizes]


def _systems() -> list[list[np.ndarray]]:
    pairs = ((3, 2), (1, 1), (0, 2), (2, 0), (5, 5))
    return [[np.tril(np.ones((n, n), F)) + np.eye(n, dtype=F), np.ones((n, m), F)] for n, m in pairs]


RUNS = [
    (SOLVE, _systems()),
    (MAP, _vectors(0, 1, 2, 5)),
    (NORM, [[np.arange(3 * n, dtype=F).reshape(n, 3), np.ones(3, F)] for n in (1, 2, 5)]),
    (BITS, [[np.array([1, 2], np.uint64), np.zeros(n, F)] for n in (0, 5)]),
    (SIZED_BITS, [[np.array([1, 2], np.uint64), np.zeros(n, F)] for n in (0, 1, 5)]),
    (REDUCED, _vectors(0, 1, 5)),
]


@pytest.mark.parametrize(("text", "given"), RUNS)
def test_saved_and_run(text: str, given: Sequence[Sequence[np.ndarray]]) -> None:
    result = optimize(read(text, "t.mlir"))
    assert result.report.status == "saturated"
    assert any("is called in Python" in note for note in result.report.notes)
    written = write(result.graph)
    interpreted, native = compile_graph(result.graph), compile_graph(result.graph, "llvm")
    for arrays in given:
        wanted = [each.tolist() for each in run_stablehlo(text, arrays)]
        assert [each.tolist() for each in run_stablehlo(written, arrays)] == wanted
        for run in (interpreted, native):
            found = run(*arrays)
            assert [each.tolist() for each in (found if isinstance(found, tuple) else (found,))] == wanted


def test_sizes_are_those_of_the_operands() -> None:
    assert [str(value.type) for value in read(SOLVE, "t.mlir").outputs] == ["f32[arg1.0, arg1.1]"]
    assert [str(value.type) for value in read(NORM, "t.mlir").outputs] == ["f32[arg0.0, 3]", "f32[3]"]


def test_what_it_demands_of_sizes_is_checked() -> None:
    result = optimize(read(SOLVE, "t.mlir"))
    assert any("triangular_solve: expected arg0.0 == arg0.1" in row.message for row in result.report.checks)
    with pytest.raises(EgshapeError):
        run_stablehlo(write(result.graph), [np.ones((2, 3), F), np.ones((2, 2), F)])
    with pytest.raises(EgshapeError):
        compile_graph(result.graph, "llvm")(np.ones((2, 3), F), np.ones((2, 2), F))


def _called(body: str, result: str = "%0, %1") -> str:
    return f"""func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {{
  {body}
  return {result} : tensor<3xf32>, tensor<3xf32> }}"""


@pytest.mark.parametrize(("effect", "left"), [("true", 2), ("false", 1)])
def test_calls_with_effects_are_not_joined(effect: str, left: int) -> None:
    call = f"stablehlo.custom_call @foo(%x) {{has_side_effect = {effect}}} : (tensor<3xf32>) -> tensor<3xf32>"
    result = optimize(read(_called(f"%0 = {call}\n%1 = {call}"), "t.mlir"))
    assert sum(op.name.startswith("host") for op in result.graph.ops) == left
    assert write(result.graph).count("custom_call") == left
    unread = optimize(read(_called(f"%0 = {call}", "%x, %x"), "t.mlir"))
    assert len(unread.graph.ops) == left - 1


def test_random_numbers_are_drawn_in_order_and_each_time() -> None:
    """Two equal ``rng`` are two draws, in arms of an ``if`` too."""
    draw = """stablehlo.rng %a, %b, %s, distribution = UNIFORM :
      (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>"""
    arm = """"stablehlo.if"(%p) ({ %4 = DRAW
        stablehlo.return %4 : tensor<3xf32> }, {
        stablehlo.return %0 : tensor<3xf32> }) : (tensor<i1>) -> tensor<3xf32>"""
    text = f"""func.func @main(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<i1>) -> (tensor<3xf32>, tensor<3xf32>) {{
      %s = stablehlo.constant dense<3> : tensor<1xi64>
      %0 = {draw}
      %1 = {draw}
      %2 = {arm.replace("DRAW", draw)}
      %3 = {arm.replace("DRAW", draw)}
      %6 = stablehlo.add %1, %2 : tensor<3xf32>
      return %6, %3 : tensor<3xf32>, tensor<3xf32> }}"""
    result = optimize(read(text, "t.mlir"))
    assert [op.name for op in result.graph.body.walk()].count("host_effect") == 4
    assert any("other results each time" in note for note in result.report.notes)
    assert write(result.graph).count("stablehlo.rng") == 4


def test_a_token_passes_through() -> None:
    text = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = stablehlo.create_token : !stablehlo.token
      %1 = "stablehlo.outfeed"(%x, %0) <{outfeed_config = ""}> : (tensor<?xf32>, !stablehlo.token) -> !stablehlo.token
      %2 = stablehlo.after_all %1, %0 : !stablehlo.token
      return %x : tensor<?xf32> }"""
    written = write(optimize(read(text, "t.mlir")).graph)
    assert [name for name in ("create_token", "outfeed", "after_all") if name in written] == [
        "create_token", "outfeed", "after_all"]  # fmt: skip


def test_functions_that_an_op_calls_come_along() -> None:
    text = """module {
      func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
        %0 = stablehlo.add %x, %x : tensor<?xf32>
        return %0 : tensor<?xf32> }
      func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        %0 = stablehlo.custom_call @foo(%x) {called_computations = [@twice]} : (tensor<?xf32>) -> tensor<?xf32>
        return %0 : tensor<?xf32> } }"""
    written = write(optimize(read(text, "t.mlir")).graph)
    assert "func.func private @twice" in written and "called_computations = [@twice]" in written
    assert write(read(written, "o.mlir")).count("@twice") == 2


def test_quantized_values_become_integers() -> None:
    """StableHLO's own pass turns them into the arithmetic that they stand for."""
    text = """func.func @main(%x: tensor<?x4xf32>, %w: tensor<4x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x2xf32> {
      %0 = stablehlo.uniform_quantize %x : (tensor<?x4xf32>) -> tensor<?x4x!quant.uniform<i8:f32, 0.25:3>>
      %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] :
        (tensor<?x4x!quant.uniform<i8:f32, 0.25:3>>, tensor<4x2x!quant.uniform<i8:f32, 0.5>>)
        -> tensor<?x2x!quant.uniform<i32:f32, 0.125>>
      %2 = stablehlo.uniform_dequantize %1 : (tensor<?x2x!quant.uniform<i32:f32, 0.125>>) -> tensor<?x2xf32>
      return %2 : tensor<?x2xf32> }"""
    graph = optimize(read(text, "t.mlir")).graph
    x, w = np.arange(12, dtype=F).reshape(3, 4) / 4, np.arange(-4, 4, dtype=np.int8).reshape(4, 2)
    assert compile_graph(graph)(x, w).tolist() == (x @ (w * F(0.5))).tolist()
    assert "quant" not in write(graph)


def _positive(x: Any) -> Any:
    import jax.numpy as jnp

    return x @ x.T + 3 * jnp.eye(x.shape[0])


def _exported(name: str) -> tuple[str, list[tuple[int, ...]]]:
    """A program as JAX exports it for the CPU, with calls of LAPACK, and shapes of its argument."""
    import jax
    import jax.numpy as jnp
    from jax import export

    functions: dict[str, Any] = {
        "cholesky": lambda x: jnp.linalg.cholesky(_positive(x)),
        "qr": jnp.linalg.qr,
        "svd": lambda x: jnp.linalg.svd(x, compute_uv=False),
        "eigvals": jnp.linalg.eigvals,
        "solve": lambda x: jnp.linalg.solve(_positive(x), x),
        "det": jnp.linalg.det,
        "rfft": lambda x: jnp.abs(jnp.fft.rfft(x)),
        "ifft2": jnp.fft.ifft2,
    }
    shape = {"rfft": "b, 8", "ifft2": "4, 6"}.get(name, "n, n")
    argument = jax.ShapeDtypeStruct(export.symbolic_shape(shape), F)
    text = export.export(jax.jit(functions[name]), platforms=["cpu"])(argument).mlir_module()
    return text, {"rfft": [(1, 8), (5, 8)], "ifft2": [(4, 6)]}.get(name, [(1, 1), (2, 2), (5, 5)])


SLOW = ("qr", "svd", "eigvals", "solve", "det", "ifft2")


@pytest.mark.parametrize("name", ["cholesky", "rfft", *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)])
def test_programs_of_jax(name: str) -> None:
    text, shapes = _exported(name)
    graph = optimize(read(text, "t.mlir")).graph
    written, native = write(graph), compile_graph(graph, "llvm")
    random = np.random.default_rng(0)
    for shape in shapes:
        x = random.standard_normal(shape).astype(F)
        wanted = run_stablehlo(text, [x])
        for one, two in zip(run_stablehlo(written, [x]), wanted, strict=True):
            np.testing.assert_array_equal(one, two)
        found = native(x)
        for one, two in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)
