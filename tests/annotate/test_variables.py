"""Variables of annotations: a lower-case word for any dtype, ``*s`` for any list of sizes."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.annotation import annotation
from egshape.errors import CheckFailed, EgshapeError, ParseError, TypeMismatch
from egshape.ir.text import parse_graph

jnp = pytest.importorskip("jax.numpy")

ADD = """graph add(%x: f32[`x.0`, `x.1`], %y: f32[`y.0`, `y.1`]) {
  symbols x.0 = size(%x, 0), x.1 = size(%x, 1), y.0 = size(%y, 0), y.1 = size(%y, 1)
  %0: f32[`x.0`, `x.1`] = negate(%x)
  %1: f32[`y.0`, `y.1`] = negate(%y)
  return %0 as out0, %1 as out1
}
"""


@pytest.mark.parametrize("text", ["d[n]", "float_like[n]", "t1[n, m]", "element"])
def test_a_word_that_is_no_dtype_stands_for_any(text: str) -> None:
    assert annotation(text).variable == text.split("[", maxsplit=1)[0]


@pytest.mark.parametrize("text", ["f23[n]", "float32[n]", "int[n]", "double", "D[n]", "bfloat16[n]", "i65"])
def test_a_misspelt_dtype_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="is no dtype"):
        annotation(text)


@pytest.mark.parametrize(("text", "hint"), [("f32[*s, *t]", "list of any length"), ("f32[..., ...]", "any length")])
def test_one_list_of_any_length(text: str, hint: str) -> None:
    with pytest.raises(ParseError, match=hint):
        annotation(text)


@pytest.mark.parametrize("text", ["f32[*]", "f32[...]"])
def test_a_list_alone_says_nothing_of_the_rank(text: str) -> None:
    assert (annotation(text).shape, annotation(text).rest) == (None, None)


@pytest.mark.parametrize("dtype", ["f4", "i4", "f2"])
def test_one_program_for_each_dtype(dtype: str) -> None:
    matmul = egshape.fn("x: d[n, k]", "y: d[k, m]", target="interpret")(lambda x, y: x @ y)
    found = matmul(np.ones((2, 3), dtype), np.ones((3, 4), dtype))
    assert (found.shape, found[0, 0]) == ((2, 4), 3)


def test_the_same_word_is_the_same_dtype() -> None:
    matmul = egshape.fn("x: d[n, k]", "y: d[k, m]", target="interpret")(lambda x, y: x @ y)
    with pytest.raises(TypeMismatch, match=r"is i32, where d.* and d is f32 by argument x"):
        matmul(np.ones((2, 3), "f4"), np.ones((3, 4), "i4"))
    assert not matmul.admits(np.ones((2, 3), "f4"), np.ones((3, 4), "i4"))


def test_a_dtype_of_a_result() -> None:
    with pytest.raises(TypeMismatch, match="d is f32 by argument x"):
        egshape.fn("x: d[n]", returns="d[n]", target="interpret")(lambda x: x > 0)(np.ones(3, "f4"))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (1, 2, 3)])
def test_a_list_of_sizes_is_the_same_everywhere(shape: tuple[int, ...]) -> None:
    add = egshape.fn("x: f32[*s]", "y: f32[*s]", target="interpret")(lambda x, y: x + y)
    assert add(np.ones(shape, "f4"), np.ones(shape, "f4")).shape == shape
    if shape:
        with pytest.raises(EgshapeError):
            add(np.ones(shape, "f4"), np.ones((shape[0] + 1, *shape[1:]), "f4"))


def test_lists_beside_other_sizes() -> None:
    dense = egshape.fn("x: f32[*s, k]", "w: f32[k, m]", returns="f32[*s, m]", target="interpret")(lambda x, w: x @ w)
    for lead in ((), (2,), (2, 3)):
        assert dense(np.ones((*lead, 5), "f4"), np.ones((5, 7), "f4")).shape == (*lead, 7)
    with pytest.raises(CheckFailed, match="k is 4 by argument x, axis 1"):
        dense(np.ones((2, 4), "f4"), np.ones((5, 7), "f4"))
    with pytest.raises(TypeMismatch, match="rank 0"):
        dense(np.ones((), "f4"), np.ones((5, 7), "f4"))


def test_a_list_has_one_length() -> None:
    both = egshape.fn("x: f32[*s, k]", "y: f32[*s]", target="interpret")(lambda x, y: (x, y))
    with pytest.raises(TypeMismatch, match=r"\*s are 1 sizes by argument x"):
        both(np.ones((2, 3), "f4"), np.ones((2, 3), "f4"))


def test_dots_say_nothing_of_what_they_stand_for() -> None:
    last = egshape.fn("x: f32[..., k]", "y: f32[..., k]", target="interpret")(lambda x, y: x.sum() + y.sum())
    assert last(np.ones((2, 3), "f4"), np.ones((3,), "f4")) == 9


def test_variables_of_a_graph() -> None:
    graph = egshape.annotate(parse_graph(ADD), {"x": "d[*s]", "y": "d[*s]"})
    assert len([op for op in graph.ops if op.name == "check"]) == 2
    with pytest.raises(TypeMismatch, match="has rank 2"):
        egshape.annotate(parse_graph(ADD), {"x": "f32[n, k, *s, m]"})
