"""A call that does not fit is said of the call: which argument, the type it should have, and both places."""

from __future__ import annotations

import re
from typing import Any

import pytest

from egshape.api import load
from egshape.errors import EgshapeError

MATMUL = "stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (T, T) -> T"
ALIKE = "stablehlo.add %0, %1 : (T, T) -> T"
JOINED = "stablehlo.concatenate %0, %1, dim = 0 : (T, T) -> T"
SIXTEEN = "stablehlo.reshape %0 : (T) -> tensor<4x4xf32>\n  %3 = stablehlo.convert %2 : (tensor<4x4xf32>) -> T"


def module(body: str, first: str, second: str) -> str:
    """main calls @f with tensors of these shapes, whose sizes @f does not state."""
    result = ["%2", *re.findall(r"^ *(%\d+) =", body, re.MULTILINE)][-1]
    text = f"""func.func @main(%a: tensor<{first}xf32>, %b: tensor<{second}xf32>) -> T {{
  %c = stablehlo.convert %a : (tensor<{first}xf32>) -> T
  %d = stablehlo.convert %b : (tensor<{second}xf32>) -> T
  %e = func.call @f(%c, %d) : (T, T) -> T
  return %e : T
}}
func.func private @f(%0: T, %1: T) -> T {{
  %2 = {body}
  return {result} : T
}}
func.func private @inner(%0: T, %1: T) -> T {{
  %2 = {MATMUL}
  return %2 : T
}}
"""
    return text.replace("T", "tensor<?x?xf32>")


CALLED = "m.mlir:4:8: function @f expects a "
CALLS = [
    (
        (MATMUL, "4x3", "4x3"),
        "second argument of type f32[3, ?] but is called with f32[4, 3] "
        "(m.mlir:8:8: dot_general: contracting axes 1 and 0: size 3 does not fit 4)",
    ),
    (
        (MATMUL, "4x3", "4x?"),
        "second argument of type f32[3, ?] but is called with f32[4, arg1.1] "
        "(m.mlir:8:8: dot_general: contracting axes 1 and 0: size 3 does not fit 4)",
    ),
    (
        (ALIKE, "4x3", "4x5"),
        "second argument of type f32[?, 3] but is called with f32[4, 5] "
        "(m.mlir:8:8: add: operands differ on axis 1: 3 is not 5)",
    ),
    (
        (JOINED, "1x3", "2x5"),
        "second argument of type f32[?, 3] but is called with f32[2, 5] "
        "(m.mlir:8:8: concatenate: axis 1 of the operands: 3 is not 5)",
    ),
    (
        (SIXTEEN, "4x3", "1x1"),
        "first argument of type f32[?, n], 4*n == 16 but is called with f32[4, 3] "
        "(m.mlir:8:8: reshape: there are 12 elements, the new shape has 16)",
    ),
]


@pytest.mark.parametrize(("case", "message"), CALLS)
def test_a_call_that_does_not_fit(case: tuple[str, str, str], message: str) -> None:
    pytest.importorskip("jax")
    from egshape.frontends.stablehlo import read

    with pytest.raises(EgshapeError) as caught:
        read(module(*case), "m.mlir")
    assert str(caught.value) == CALLED + message


def test_what_fits_is_read() -> None:
    pytest.importorskip("jax")
    from egshape.frontends.stablehlo import read

    assert [op.name for op in read(module(MATMUL, "4x3", "3x4"), "m.mlir").ops].count("dot_general") == 1


def test_of_calls_within_calls_the_innermost_is_explained_and_the_others_say_where() -> None:
    pytest.importorskip("jax")
    from egshape.frontends.stablehlo import read

    body = "func.call @inner(%1, %0) : (T, T) -> T"
    with pytest.raises(EgshapeError) as caught:
        read(module(body, "4x3", "4x3"), "m.mlir")
    assert str(caught.value) == (
        "m.mlir:8:8, in @f called at m.mlir:4:8: "
        "function @inner expects a second argument of type f32[3, ?] but is called with f32[4, 3] "
        "(m.mlir:12:8: dot_general: contracting axes 1 and 0: size 3 does not fit 4)"
    )


def test_a_function_that_is_wrong_by_itself_is_not_the_callers_fault() -> None:
    pytest.importorskip("jax")
    from egshape.frontends.stablehlo import read

    wrong = "stablehlo.constant dense<0.0> : tensor<2x3xf32>\n  %3 = stablehlo.convert %2 : (tensor<2x3xf32>) -> T\n"
    wrong += "  %4 = stablehlo.constant dense<0.0> : tensor<2x5xf32>\n"
    wrong += "  %5 = stablehlo.convert %4 : (tensor<2x5xf32>) -> T\n  %6 = stablehlo.add %3, %5 : T"
    with pytest.raises(EgshapeError) as caught:
        read(module(wrong, "4x3", "4x3"), "m.mlir")
    assert str(caught.value) == "m.mlir:12:8, in @f called at m.mlir:4:8: add: operands differ on axis 1: 3 is not 5"


def test_a_type_that_the_function_states() -> None:
    pytest.importorskip("jax")
    from egshape.frontends.stablehlo import read

    text = module(ALIKE, "4x3", "4x3").replace("@f(%0: tensor<?x?xf32>", "@f(%0: tensor<?x7xf32>")
    text = text.replace("add %0, %1 : (tensor<?x?xf32>", "add %0, %1 : (tensor<?x7xf32>")
    with pytest.raises(EgshapeError) as caught:
        read(text, "m.mlir")
    assert str(caught.value) == (
        "m.mlir:4:8: function @f expects a first argument of type f32[?, 7] but is called with f32[?, ?] "
        "(m.mlir:7 defines it)"
    )


def test_a_wrong_function_at_the_end_of_many_calls_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is converted again at most once: not once more for each call around it."""
    pytest.importorskip("jax")
    from egshape.frontends.stablehlo import read
    from egshape.frontends.stablehlo.scope import Scope

    text = module(MATMUL, "4x3", "4x3").replace("call @f", "call @g0")
    for number in range(40):
        following = f"g{number + 1}" if number < 39 else "f"
        text += f"func.func private @g{number}(%0: tensor<?x?xf32>, %1: tensor<?x?xf32>) -> tensor<?x?xf32> {{\n"
        text += f"  %2 = func.call @{following}(%0, %1) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>\n"
        text += "  return %2 : tensor<?x?xf32>\n}\n"
    runs: list[Any] = []
    run = Scope.run
    monkeypatch.setattr(Scope, "run", lambda self, body: (runs.append(1), run(self, body))[1])
    with pytest.raises(EgshapeError, match="function @f expects a second argument of type"):
        read(text, "m.mlir")
    assert len(runs) < 100


@pytest.mark.parametrize("shown", ["false", "size"])
def test_a_check_before_an_op_that_cannot_run_is_heard_first(shown: str) -> None:
    pytest.importorskip("jax")
    from egshape.frontends.stablehlo import read

    fails = "%p = stablehlo.constant dense<false> : tensor<i1>"
    if shown == "size":
        fails = """%q = stablehlo.get_dimension_size %c, dim = 1 : (T) -> tensor<i32>
  %p = stablehlo.compare EQ, %q, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>"""
    text = f"""func.func @main(%a: tensor<4x3xf32>, %b: tensor<4x3xf32>) -> T {{
  %c = stablehlo.convert %a : (tensor<4x3xf32>) -> T
  %d = stablehlo.convert %b : (tensor<4x3xf32>) -> T
  %k = stablehlo.constant dense<7> : tensor<i32>
  {fails}
  stablehlo.custom_call @shape_assertion(%p, %k) {{error_message = "a has {{0}} columns", has_side_effect = true}} \
: (tensor<i1>, tensor<i32>) -> ()
  %e = stablehlo.dot_general %c, %d, contracting_dims = [1] x [0] : (T, T) -> T
  return %e : T
}}
""".replace("T", "tensor<?x?xf32>")
    with pytest.raises(EgshapeError) as caught:
        read(text, "m.mlir")
    assert caught.value.message == "a has 7 columns"


def onnx_model(first: list[Any], second: list[Any]) -> Any:
    onnx = pytest.importorskip("onnx")
    from onnx import helper

    body = [helper.make_node("MatMul", ["p", "q"], ["r"], name="inner")]
    function = helper.make_function("my", "Product", ["p", "q"], ["r"], body, [helper.make_opsetid("", 17)])
    shapes = {"a": first, "b": second, "o": None}
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    node = helper.make_node("Product", ["a", "b"], ["o"], name="call", domain="my")
    graph = helper.make_graph([node], "g", ports[:2], ports[2:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize(("first", "second", "given"), [([2, 3], [4, 3], "4, 3"), (["x", 3], [4, "y"], "4, y")])
def test_a_function_of_an_onnx_model(first: list[Any], second: list[Any], given: str) -> None:
    with pytest.raises(EgshapeError) as caught:
        load(onnx_model(first, second))
    assert str(caught.value) == (
        f"call: function Product expects a second argument of type f32[3, ?] but is called with f32[{given}] "
        "(inner: dot_general: contracting axes 1 and 0: size 3 does not fit 4)"
    )
