"""XLA on the CPU as an oracle: it runs what it should, and says clearly what it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the extra stablehlo")

from egshape.adapters.xla import refine_stablehlo, run_stablehlo, verify_stablehlo
from egshape.errors import CheckFailed, EgshapeError, ParseError, TypeMismatch, Unsupported


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def program(signature: str, *lines: str) -> str:
    return f"func.func @main{signature} {{\n" + "\n".join(lines) + "\n}"


ADD = program(
    "(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32>",
    "%0 = stablehlo.add %a, %b : tensor<?xf32>",
    "return %0 : tensor<?xf32>",
)
ASSERTED = program(
    "(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32>",
    "%m = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>",
    "%n = stablehlo.get_dimension_size %b, dim = 0 : (tensor<?xf32>) -> tensor<i32>",
    "%p = stablehlo.compare EQ, %m, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "stablehlo.custom_call @shape_assertion(%p, %m, %n) "
    '{error_message = "sizes {0} and {1} differ", has_side_effect = true} '
    ": (tensor<i1>, tensor<i32>, tensor<i32>) -> ()",
    "%0 = stablehlo.add %a, %b : tensor<?xf32>",
    "return %0 : tensor<?xf32>",
)
BY_DATA = program(
    "(%n: tensor<1xi32>) -> tensor<?xf32>",
    "%z = stablehlo.constant dense<2.0> : tensor<f32>",
    "%0 = stablehlo.dynamic_broadcast_in_dim %z, %n, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>",
    "return %0 : tensor<?xf32>",
)


def test_sample_models(model_name: str, shared_models: Path) -> None:
    text = (shared_models / f"{model_name}.mlir").read_text()
    with np.load(shared_models / f"{model_name}.npz") as file:
        arrays = dict(file)
    inputs = [arrays[f"case1_in{i}"] for i in range(sum(name.startswith("case1_in") for name in arrays))]
    wanted = [arrays[f"case1_out{i}"] for i in range(sum(name.startswith("case1_out") for name in arrays))]
    for got, want in zip(run_stablehlo(text, inputs, name=model_name), wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_any_size(size: int) -> None:
    (result,) = run_stablehlo(ADD, [ones(size), ones(size)])
    np.testing.assert_array_equal(result, 2 * ones(size))


@pytest.mark.parametrize(
    "array",
    [
        np.array([2**40, -1], np.int64),
        np.array([0.1, -0.0], np.float64),
        np.array([True, False]),
        np.array([3, 255], np.uint8),
        np.array([1.5, np.nan], ml_dtypes.bfloat16),
        np.array([1e-40, -1e-42], np.float32),
    ],
    ids=lambda array: str(array.dtype),
)
def test_dtypes_and_bits_are_kept(array: np.ndarray[Any, Any]) -> None:
    names = {
        "int64": "i64",
        "float64": "f64",
        "bool": "i1",
        "uint8": "ui8",
        "bfloat16": "bf16",
        "float32": "f32",
    }
    kind = f"tensor<?x{names[str(array.dtype)]}>"
    copies = [np.stack([array, array]).T[:, 0], array]  # not contiguous, contiguous
    for given in copies:
        (result,) = run_stablehlo(program(f"(%a: {kind}) -> {kind}", f"return %a : {kind}"), [given])
        assert result.dtype == array.dtype
        assert result.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "lines",
    [
        ["%0 = chlo.erf %a : tensor<?x4xf32> -> tensor<?x4xf32>"],
        ['%0 = "mhlo.add"(%a, %a) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>'],
        [
            "%s = shape.shape_of %a : tensor<?x4xf32> -> tensor<2xindex>",
            "%0 = stablehlo.dynamic_reshape %a, %s : (tensor<?x4xf32>, tensor<2xindex>) -> tensor<?x4xf32>",
        ],
        [
            "%z = arith.constant 0 : index",
            "%f = arith.constant 4 : index",
            "%d = tensor.dim %a, %z : tensor<?x4xf32>",
            "%s = tensor.from_elements %d, %f : tensor<2xindex>",
            "%0 = stablehlo.dynamic_reshape %a, %s : (tensor<?x4xf32>, tensor<2xindex>) -> tensor<?x4xf32>",
        ],
    ],
    ids=["chlo", "mhlo", "shape", "tensor"],
)
def test_other_dialects(lines: list[str]) -> None:
    text = program("(%a: tensor<?x4xf32>) -> tensor<?x4xf32>", *lines, "return %0 : tensor<?x4xf32>")
    (result,) = run_stablehlo(text, [ones(3, 4)])
    assert result.shape == (3, 4)


def test_bytecode() -> None:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context():
        module = ir.Module.parse(ADD)
        forms = [
            mlir.module_to_bytecode(module),
            stablehlo.serialize_portable_artifact(module, stablehlo.get_minimum_version()),
        ]
    for form in forms:
        (result,) = run_stablehlo(form, [ones(2), ones(2)])
        np.testing.assert_array_equal(result, 2 * ones(2))


def test_failed_assertion_has_the_message_of_the_program() -> None:
    with pytest.raises(CheckFailed, match="sizes 3 and 4 differ") as caught:
        run_stablehlo(ASSERTED, [ones(3), ones(4)])
    assert caught.value.code == "check"


def test_clash_without_an_assertion() -> None:
    with pytest.raises(CheckFailed) as caught:
        run_stablehlo(ADD, [ones(3), ones(4)])
    assert caught.value.code == "sizes"


def test_sizes_that_depend_on_a_small_input() -> None:
    (result,) = run_stablehlo(BY_DATA, [np.array([3], np.int32)])
    np.testing.assert_array_equal(result, [2.0, 2.0, 2.0])


def test_refined_text_has_no_dynamic_shape() -> None:
    assert "?" not in refine_stablehlo(ADD, [ones(2), ones(2)])


@pytest.mark.parametrize(
    ("text", "inputs", "kind", "said"),
    [
        (ADD, [ones(2)], TypeMismatch, "takes 2 arrays, 1"),
        (ADD, [ones(2), ones(2, 2)], TypeMismatch, "argument 1: wants tensor<\\?xf32>, got tensor<2x2xf32>"),
        (ADD, [ones(2), np.ones(2)], TypeMismatch, "got tensor<2xf64>"),
        (ADD, [ones(2), np.array(["a", "b"])], TypeMismatch, "no StableHLO type"),
        (ADD[:-20], [], ParseError, "p.mlir:3:"),
        (b"\x00\x01junk", [], ParseError, "p.mlir"),
        ("", [], ParseError, "main"),
        (
            ADD.replace("stablehlo.add %a, %b", "stablehlo.custom_call @f(%a)").replace(
                ": tensor<?xf32>\nr", ": (tensor<?xf32>) -> tensor<?xf32>\nr"
            ),
            [ones(2), ones(2)],
            Unsupported,
            "dynamic",
        ),
    ],
)
def test_errors(text: str | bytes, inputs: list[Any], kind: type[EgshapeError], said: str) -> None:
    with pytest.raises(kind, match=said):
        run_stablehlo(text, inputs, name="p.mlir")


def test_verify() -> None:
    verify_stablehlo(ADD)
    with pytest.raises(ParseError, match=r"p\.mlir:2:"):
        verify_stablehlo(ADD.replace("stablehlo.add", "stablehlo.ad"), name="p.mlir")


def test_sizes_that_are_folded_in_may_lie_anywhere() -> None:
    """An input of sizes whose elements are not next to each other in memory."""
    text = """func.func @main(%x: tensor<f32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32> }"""
    (found,) = run_stablehlo(text, [np.array(1, np.float32), np.array([2, 9, 3, 9], np.int32)[::2]])
    assert found.shape == (2, 3)
