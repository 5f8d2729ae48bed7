"""E: what is said of a size that the program computes from data is checked where it is made, and holds behind that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import egshape
from egshape.errors import CheckFailed
from egshape.ir.graph import Graph, Value
from egshape.ir.interpret import interpret
from tests.annotate.notes.programs import Ops, kept, program


def counted(b: Ops, k: Value) -> tuple[Value, str]:
    """0, 1, ..., as many as the data says, and the name of that size."""
    (size,), requires = b.builder.sizes("iota", k, "shape")
    made = b.builder.one("iota", (), {"dtype": "i32", "dim": 0, "shape": (size,)}, requires=requires)
    return made, str(size)


def eights(b: Ops, k: Value) -> Value:
    made, size = counted(b, k)
    return b.reshape(made, f"({size})//8", 8)


def pairs(b: Ops, k: Value) -> Value:
    made, size = counted(b, k)
    return b.reshape(made, 2, f"({size})//2")


def alone(b: Ops, k: Value) -> Value:
    return b("negate", counted(b, k)[0])


EIGHTS = "value %0, axis 0: 8*m = {0} has no solution"
CASES: list[tuple[Callable[..., Value], dict[str, str], list[str], int, str]] = [
    (eights, {"%0": "i32[8*m]"}, [EIGHTS], 16, ""),
    (eights, {"%0": "i32[8*m]"}, [EIGHTS], 0, ""),
    (eights, {"%0": "i32[8*m]"}, [EIGHTS], 12, EIGHTS.format(12)),
    (eights, {"%0": "i32[8*m]", "out0": "i32[m, 8]"}, [EIGHTS], 24, ""),
    (pairs, {"%0": "i32[4*m]", "out0": "i32[2, 2*m]"}, ["value %0, axis 0: 4*m = {0} has no solution"], 12, ""),
    (pairs, {"%0": "i32[4*m]"}, ["value %0, axis 0: 4*m = {0} has no solution"], 6,
     "value %0, axis 0: 4*m = 6 has no solution"),
    (alone, {"%0": "i32[m]", "out0": "i32[m]"}, [], 3, ""),
    (alone, {"%0": "i32[3 + m]", "out0": "i32[m + 3]"}, ["value %0, axis 0: 3 + m = {0} has no solution"], 3, ""),
    (alone, {"%0": "i32[3 + m]"}, ["value %0, axis 0: 3 + m = {0} has no solution"], 2,
     "value %0, axis 0: 3 + m = 2 has no solution"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "types", "left", "size", "message"), CASES)
def test_e(body: Callable[..., Value], types: dict[str, str], left: list[str], size: int, message: str) -> None:
    """What stands behind it has no check of its own, and never speaks first."""
    graph = egshape.annotate(program("k: i32[1]", body), types)
    own = [each for each in kept(graph) if each.startswith(("value", "result", "reshape"))]
    assert own == left
    for each in (graph, egshape.optimize(graph).graph):
        assert heard(each, size) == message


def heard(graph: Graph, size: int) -> str:
    try:
        interpret(graph, [np.array([size], "i4")])
    except CheckFailed as error:
        return error.message
    return ""
