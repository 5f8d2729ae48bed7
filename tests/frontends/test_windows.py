"""Windows of JAX programs: cuts by checked sizes, parts of concatenations, reversals through gathers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import egshape
from egshape import api

jax = pytest.importorskip("jax")
from jax import export  # noqa: E402
from jax import numpy as jnp  # noqa: E402

MOVES = {"gather", "slice", "dynamic_slice", "pad", "concatenate", "reverse", "iota"}


def optimized(fn: Callable[..., Any], *shapes: str, constraints: Sequence[str] = (), dtype: Any = np.float32) -> Any:
    scope = export.SymbolicScope(list(constraints))
    specs = [jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), dtype) for shape in shapes]
    return egshape.optimize(egshape.load(export.export(jax.jit(fn))(*specs)))


def check(fn: Callable[..., Any], result: Any, *shapes: tuple[int, ...], dtype: Any = np.float32) -> None:
    arrays = [np.arange(np.prod(shape), dtype=dtype).reshape(shape) for shape in shapes]
    (found,) = api.run(result.graph, arrays)
    np.testing.assert_array_equal(found, fn(*arrays))


def moves(result: Any) -> dict[str, int]:
    return dict(Counter(op.name for op in result.graph.body.walk() if op.name in MOVES))


def test_the_last_rows_of_enough() -> None:
    result = optimized(lambda x: x[-3:], "n, 3", constraints=["n >= 8"])
    assert moves(result) == {"slice": 1}
    assert "max" not in str(result.graph.body.ops)
    check(lambda x: x[-3:], result, (8, 3))


@pytest.mark.parametrize("axis", [0, 1])
def test_what_was_cut_is_joined_again(axis: int) -> None:
    def fn(x: Any) -> Any:
        first, last = (x[:-3], x[-3:]) if axis == 0 else (x[:, :-3], x[:, -3:])
        return jnp.concatenate([first, last], axis=axis)

    result = optimized(fn, "n, 3" if axis == 0 else "2, n", constraints=["n >= 8"])
    assert moves(result) == {}
    check(fn, result, (9, 3) if axis == 0 else (2, 9))


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("axis", [0, 1])
def test_reversed_twice(axis: int, dtype: Any) -> None:
    def fn(x: Any) -> Any:
        return x[::-1][::-1] if axis == 0 else x[:, ::-1][:, ::-1]

    result = optimized(fn, "n, m", dtype=dtype)
    assert moves(result) == {}
    check(fn, result, (4, 5), dtype=dtype)


def test_reversed_once_is_a_reverse() -> None:
    result = optimized(lambda x: x[::-1], "n, 3")
    assert moves(result) == {"reverse": 1}
    check(lambda x: x[::-1], result, (4, 3))


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_part_of_a_concatenation(part: int) -> None:
    def fn(*parts: Any) -> Any:
        start = sum(each.shape[0] for each in parts[:part])
        return jnp.concatenate(parts)[start : start + parts[part].shape[0]]

    result = optimized(fn, "a, 2", "b, 2", "c, 2")
    assert moves(result) == {}
    assert len([op for op in result.graph.ops if op.name == "check"]) <= 4
    check(fn, result, (3, 2), (4, 2), (5, 2))


NARROW = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>, %z: tensor<1xf32>) -> tensor<1xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %p = stablehlo.convert %n : (tensor<i32>) -> tensor<DTYPE>
  %q = stablehlo.convert %m : (tensor<i32>) -> tensor<DTYPE>
  %s = stablehlo.add %p, %q : tensor<DTYPE>
  %i = stablehlo.reshape %s : (tensor<DTYPE>) -> tensor<1xDTYPE>
  %a = stablehlo.concatenate %x, %y, %z, dim = 0
    : (tensor<?xf32>, tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>
  %w = "stablehlo.gather"(%a, %i) {slice_sizes = array<i64: 1>,
    dimension_numbers = #stablehlo.gather<offset_dims = [0], start_index_map = [0]>}
    : (tensor<?xf32>, tensor<1xDTYPE>) -> tensor<1xf32>
  return %w : tensor<1xf32>
}"""


@pytest.mark.parametrize(("dtype", "moved"), [("i8", True), ("ui8", True), ("i32", False)])
def test_starts_of_few_bits_wrap_where_they_did(dtype: str, moved: bool) -> None:
    result = egshape.optimize(NARROW.replace("DTYPE", dtype).encode())
    assert bool(moves(result)) is moved
    arrays = [np.arange(size, dtype=np.float32) for size in (200, 60, 1)]
    (found,) = api.run(result.graph, arrays)
    assert found.tolist() == ([4.0] if moved else [0.0])


def test_a_start_that_may_not_fit_is_refused_by_its_own_name() -> None:
    result = egshape.optimize(NARROW.replace("DTYPE", "i32").encode())
    (check,) = [op for op in result.graph.ops if "window" in op.attrs.get("message", "")]
    assert check.attrs["message"].startswith("the start arg0.0 + arg1.0 of a window does not fit i32: arg0.0 is {0}")
    assert check.attrs["fact"] == "" and "assumed fact" not in str(result.graph)


def test_a_start_that_wraps_at_usual_sizes_is_not_refused() -> None:
    text = NARROW.replace("DTYPE", "i32").replace("stablehlo.add %p, %q", "stablehlo.multiply %p, %q")
    result = egshape.optimize(text.encode())
    arrays = [np.zeros(size, np.float32) for size in (70000, 70000)]
    (found,) = api.run(result.graph, [*arrays, np.ones(1, np.float32)])
    assert found.tolist() == [1.0]  # 605032704, clamped
