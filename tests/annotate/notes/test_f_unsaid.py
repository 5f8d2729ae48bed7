"""F: of a dtype, a rank or a size nothing need be said; what is not said is the call's, and is asked of nobody."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError
from tests.annotate.notes.programs import kept, program, said

SAID: list[tuple[str, str]] = [
    ("?", ""),
    ("?[?, ?]", ""),
    ("f32", ""),
    ("f32[*]", ""),
    ("?[*]", ""),
    ("?[n, ?]", ""),
    ("i32", "argument x: is f32, where i32 is said of it"),
    ("?[?]", "argument x: is f32[x.0, x.1], of rank 2, where ?[?] is said of it"),
    ("f32[]", "argument x: is f32[x.0, x.1], of rank 2, where f32[] is said of it"),
    ("?[?, q*r]", "argument x, axis 1: nothing tells what q and r is in q*r "
     "(say q of an axis of its own; alone in a sum with numbers and known names it is solved for)"),
]  # fmt: skip


@pytest.mark.parametrize(("type", "message"), SAID)
def test_f(type: str, message: str) -> None:
    graph = program("x: f32[?, ?]", lambda b, x: b("negate", x))
    assert said(graph, {"x": type}) == message
    if not message:
        assert kept(graph.annotate("x", type)) == []


CALLS: list[tuple[tuple[str, ...], tuple[np.ndarray, ...], str]] = [
    (("?[n]", "?[n]"), (np.zeros(3, "i4"), np.zeros(3, "i4")), "int32 (3,)"),
    (("?[*]", "?"), (np.zeros((2, 3), "f4"), np.zeros((2, 3), "f4")), "float32 (2, 3)"),
    (("f32[*]", "f32[?, 3]"), (np.zeros((2, 3), "f4"), np.zeros((2, 3), "f4")), "float32 (2, 3)"),
    (("?[n]", "?[n]"), (np.zeros(3, "f4"), np.zeros(4, "f4")),
     "argument y, axis 0: the size is 4, not n, where n is 3 by argument x, axis 0"),
    (("?[n]", "i32[n]"), (np.zeros(3, "f4"), np.zeros(3, "f4")), "argument y: is f32, where i32[n] is said of it"),
    (("?", "?[1, n]"), (np.zeros(3, "f4"), np.zeros(3, "f4")), "argument y: has rank 1, where ?[1, n] is said of it"),
]  # fmt: skip


@pytest.mark.parametrize(("types", "arrays", "result"), CALLS)
def test_f_of_a_call(types: tuple[str, ...], arrays: tuple[np.ndarray, ...], result: str) -> None:
    pytest.importorskip("jax")
    try:
        found = egshape.fn(*types, target="interpret")(lambda x, y: -x)(*arrays)
    except EgshapeError as error:
        assert str(error).removeprefix("check: ") == result
        return
    assert f"{found.dtype} {found.shape}" == result
