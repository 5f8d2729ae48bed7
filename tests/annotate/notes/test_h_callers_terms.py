"""H: what was said to the caller is what is heard, before what an op behind it would say. Calls inside of a program are
in tests/frontends/test_calls_in_callers_terms.py."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import egshape
from egshape.errors import CheckFailed
from egshape.ir.graph import Value
from tests.annotate.notes.programs import Ops, program, refusal

Body = Callable[[Ops, Value, Value], Value]
PLAIN = {"lhs_batch": (), "rhs_batch": (), "dtype": "f32"}


def product(b: Ops, x: Value, y: Value) -> Value:
    return b("dot_general", x, y, lhs_contract=(1,), rhs_contract=(0,), **PLAIN)


def total(b: Ops, x: Value, y: Value) -> Value:
    return b("add", x, y)


def joined(b: Ops, x: Value, y: Value) -> Value:
    return b("concatenate", x, y, dim=0)


CASES: list[tuple[Body, str, str, tuple[int, int], tuple[int, int], str]] = [
    (product, "f32[n, m]", "f32[m, k]", (2, 3), (4, 5),
     "argument y, axis 0: the size is 4, not m, where m is 3 by argument x, axis 1"),
    (product, "f32[n, m]", "f32[m, n]", (2, 3), (3, 5),
     "argument y, axis 1: the size is 5, not n, where n is 2 by argument x, axis 0"),
    (product, "f32[n, 2*m]", "f32[2*m, ?]", (2, 3), (4, 5), "argument x, axis 1: 2*m = 3 has no solution"),
    (total, "f32[n, m]", "f32[n, m]", (2, 3), (1, 3),
     "argument y, axis 0: the size is 1, not n, where n is 2 by argument x, axis 0"),
    (joined, "f32[n, m]", "f32[k, m]", (2, 3), (2, 0),
     "argument y, axis 1: the size is 0, not m, where m is 3 by argument x, axis 1"),
    (joined, "f32[n, m]", "f32[n + k, m]", (2, 3), (1, 3), "argument y, axis 0: n + k = 1 has no solution"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "x", "y", "first", "second", "message"), CASES)
def test_h(body: Body, x: str, y: str, first: tuple[int, int], second: tuple[int, int], message: str) -> None:
    graph = egshape.annotate(program("x: f32[?, ?]; y: f32[?, ?]", body), {"x": x, "y": y})
    optimized = egshape.optimize(graph).graph
    assert refusal(graph, first, second) == message
    assert refusal(optimized, first, second) == message
    with pytest.raises(CheckFailed) as caught:
        egshape.compile(optimized, target="interpret")(np.ones(first, "f4"), np.ones(second, "f4"))
    assert caught.value.message == message


def test_h_compiled() -> None:
    """Native code says the same, before it does anything."""
    pytest.importorskip("llvmlite")
    from egshape.runtime.core.errors import RunError

    body, x, y, first, second, message = CASES[0]
    said = egshape.fn(x, y)(program("x: f32[?, ?]; y: f32[?, ?]", body))
    with pytest.raises((CheckFailed, RunError)) as caught:
        said(np.ones(first, "f4"), np.ones(second, "f4"))
    assert caught.value.message == message
