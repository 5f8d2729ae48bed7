"""A JAX function whose types are said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import CheckFailed, EgshapeError, InvalidInput, TypeMismatch

pytest.importorskip("jax")
pytest.importorskip("llvmlite")


def zeros(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.zeros(shape, dtype)


@pytest.fixture(scope="module")
def split() -> Any:
    @egshape.fn("x: f32[n, 4*m]", "y: f32[?, d]", returns=["f32[n*m, 4]", "?[?]"])
    def split(x: Any, y: Any) -> Any:
        return x.reshape(-1, 4), y.sum(axis=0)

    return split


@pytest.mark.parametrize(("x", "y"), [((3, 8), (2, 5)), ((1, 4), (1, 1)), ((2, 12), (7, 3))])
def test_one_compile_serves_all_sizes(split: Any, x: tuple[int, int], y: tuple[int, int]) -> None:
    one = np.arange(np.prod(x), dtype="f4").reshape(x)
    first, second = split(one, y=zeros(*y))
    np.testing.assert_array_equal(first, one.reshape(-1, 4))
    assert second.shape == (y[1],)
    assert split.sizes(x, y) == (first.shape, second.shape)
    assert split.compiled(one, zeros(*y)) is split.compiled()
    out = [np.empty_like(first), None]
    split.into(out, one, zeros(*y))
    np.testing.assert_array_equal(out[0], first)


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ((zeros(8, 15), zeros(2, 5)), CheckFailed, r"argument x, axis 1: 4\*m = 15 has no solution"),
        ((zeros(3, 8), zeros(5)), TypeMismatch, r"argument y: has rank 1, where f32\[\?, d\] is said of it"),
        ((zeros(3, 8, dtype="f8"), zeros(2, 5)), TypeMismatch, "argument x: is f64"),
        ((zeros(3, 8),), InvalidInput, "missing a required argument: 'y'"),
    ],
)
def test_the_caller_is_told_what_is_wrong_in_terms_of_the_function(
    split: Any, arrays: Any, error: type[EgshapeError], message: str
) -> None:
    with pytest.raises(error, match=message):
        split(*arrays)


def test_the_shape_function_refuses_what_a_call_refuses(split: Any) -> None:
    with pytest.raises(CheckFailed, match=r"4\*m = 15 has no solution"):
        split.sizes((8, 15), (2, 5))
    interpreted = egshape.fn("f32[n, 4*m]", target="interpret")(lambda x: x.reshape(-1, 4))
    assert interpreted.sizes((8, 16)) == ((32, 4),)
    with pytest.raises(CheckFailed, match=r"4\*m = 15 has no solution"):
        interpreted.sizes((8, 15))


def test_dtype_and_rank_may_be_left_to_the_call() -> None:
    @egshape.fn("?[cdiv(n, 2)]", "?[n]")
    def both(x: Any, y: Any) -> Any:
        return x + x, y

    assert [each.dtype for each in both(zeros(2, dtype="i4"), zeros(4))] == [np.int32, np.float32]
    assert [each.dtype for each in both(zeros(2, dtype="f4"), zeros(3))] == [np.float32, np.float32]
    with pytest.raises(CheckFailed, match=r"argument x, axis 0: the size is 2, not cdiv\(n, 2\), where n is 5"):
        both(zeros(2), zeros(5))
    with pytest.raises(InvalidInput, match="nothing says dtype and rank of x, y"):
        _ = both.graph
    assert len(both.graph_of(zeros(2), zeros(4)).inputs) == 2


def test_a_function_in_the_place_of_types_is_said() -> None:
    with pytest.raises(InvalidInput, match="types are texts"):
        egshape.fn(np.tanh)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("types", "message"), [(["z: f32[n]"], "no argument 'z'"), (["f32[n]"] * 3, "3 types are said of 2 arguments")]
)
def test_types_of_arguments_that_are_not_there_are_refused(types: list[str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        egshape.fn(*types)(lambda x, y: x)


def test_types_of_results_that_are_not_there_are_refused() -> None:
    with pytest.raises(InvalidInput, match="types of 2 results are said, it has 1"):
        _ = egshape.fn("f32[n]", returns=["f32[n]", "f32[n]"])(lambda x: x).graph


def test_a_result_that_is_not_as_was_said_is_refused() -> None:
    with pytest.raises(TypeMismatch, match="result out0: is f32"):
        _ = egshape.fn("f32[n]", returns="i32[n]")(lambda x: x).graph
    with pytest.raises(CheckFailed, match="result out0, axis 0: the size is 4, not 3"):
        _ = egshape.fn("f32[4]", returns="f32[3]")(lambda x: x).graph


HALVED = """graph halved(%x: f32[`x.0`, `x.1`], %y: i32[`y.0`]) {
  symbols x.0 = size(%x, 0), x.1 = size(%x, 1), y.0 = size(%y, 0)
  %0: f32[`x.0`, `x.1`] = negate(%x)
  return %0 as z, %y as w
}
"""


@pytest.mark.parametrize("form", ["graph", "path"])
def test_types_are_said_of_a_graph_and_of_a_model_in_a_file(form: str, tmp_path: Any) -> None:
    from egshape.ir.text import parse_graph

    path = tmp_path / "halved.egs"
    path.write_text(HALVED)
    said = egshape.fn("f32[n, 2*m]", "y: ?[m]", returns=["?[n, ?]", "w: i32[m]"])(
        path if form == "path" else parse_graph(HALVED)
    )
    assert said.name == "halved"
    np.testing.assert_array_equal(said(zeros(3, 4), y=zeros(2, dtype="i4"))[0], zeros(3, 4))
    assert said.sizes((3, 4), (2,)) == ((3, 4), (2,))
    assert said.graph is said.graph_of(zeros(3, 4), zeros(2, dtype="i4"))
    with pytest.raises(CheckFailed, match=r"argument x, axis 1: 2\*m = 5 has no solution"):
        said(zeros(3, 5), zeros(2, dtype="i4"))
    with pytest.raises(CheckFailed, match="argument y, axis 0: the size is 3, not m, where m is 2 by argument x, axis"):
        said(zeros(3, 4), zeros(3, dtype="i4"))
    with pytest.raises(TypeMismatch, match="argument y: is f32"):
        said(zeros(3, 4), zeros(2))
    with pytest.raises(InvalidInput, match="the input 'y' is missing"):
        said(zeros(3, 4))


def test_a_type_that_a_model_cannot_have_is_refused() -> None:
    from egshape.ir.text import parse_graph

    with pytest.raises(
        TypeMismatch, match=r"argument x: is f32\[.*, where i32\[n, m\] is said of it|argument x: is f32"
    ):
        _ = egshape.fn("i32[n, m]")(parse_graph(HALVED)).graph
    with pytest.raises(InvalidInput, match="no argument 'z'"):
        egshape.fn("z: f32[n]")(parse_graph(HALVED))


def test_what_is_said_can_be_asked_by_itself(split: Any) -> None:
    assert split.refusal(zeros(3, 8), zeros(2, 5)) == ""
    assert split.refusal(zeros(3, 7), zeros(2, 5)) == "argument x, axis 1: 4*m = 7 has no solution"
    assert split.refusal(zeros(3), zeros(2, 5)) == "argument x: has rank 1, where f32[n, 4*m] is said of it"
