"""C: what the program proves itself costs nothing, what can never hold is refused at once, the rest is checked once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import egshape
from egshape.errors import EgshapeError
from egshape.ir.graph import Value
from tests.annotate.notes.programs import Ops, kept, program

Body = Callable[..., Value]


def same(b: Ops, x: Value) -> Value:
    return b("negate", x)


def turned(b: Ops, x: Value) -> Value:
    return b("transpose", x, permutation=(1, 0))


def flat(b: Ops, x: Value) -> Value:
    return b.reshape(x, "x.0*x.1")


def doubled(b: Ops, x: Value) -> Value:
    return b("concatenate", x, x, dim=0)


EQUAL = "argument x, axis 1: the size is {0}, not n, where n is {1} by argument x, axis 0"
FOURS = "argument x, axis 1: 4*m = {0} has no solution"
KEPT: list[tuple[Body, dict[str, str], list[str]]] = [
    (same, {"x": "f32[n, m]"}, []),
    (same, {"x": "f32[n, m]", "out0": "f32[n, m]"}, []),
    (turned, {"x": "f32[n, m]", "out0": "f32[m, n]"}, []),
    (turned, {"x": "f32[n, n]", "out0": "f32[n, n]"}, [EQUAL]),
    (flat, {"x": "f32[n, m]", "out0": "f32[n*m]"}, []),
    (flat, {"x": "f32[n, 4*m]", "out0": "f32[4*k]"}, [FOURS]),
    (flat, {"x": "f32[n, 4*m]", "out0": "f32[2*k]"}, [FOURS]),
    (flat, {"x": "f32[2*n, 3*m]", "out0": "f32[6*n*m]"}, ["argument x, axis 0: 2*n = {0} has no solution",
                                                         "argument x, axis 1: 3*m = {0} has no solution"]),
    (flat, {"out0": "f32[4*k]"}, ["result out0, axis 0: 4*k = {0} has no solution"]),
    (doubled, {"x": "f32[n, m]", "out0": "f32[2*n, m]"}, []),
    (doubled, {"x": "f32[n, m]", "out0": "f32[2*k, m]"}, []),
    (doubled, {"x": "f32[n, n]", "out0": "f32[k + n, n]"}, [EQUAL]),
    (same, {"x": "f32[n, 4*m]", "%0": "f32[n, 2*k]", "out0": "?[n, 4*m]"}, [FOURS]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "types", "messages"), KEPT)
def test_c_what_is_left(body: Body, types: dict[str, str], messages: list[str]) -> None:
    assert kept(egshape.annotate(program("x: f32[?, ?]", body), types)) == messages


ALWAYS_FALSE = ", which is false at every admitted size (the program, or a fact that was assumed, is wrong here)"
NEVER: list[tuple[Body, dict[str, str], str]] = [
    (same, {"x": "f32[n, 4]", "out0": "f32[n, 5]"}, "result out0, axis 1: the size is 4, not 5" + ALWAYS_FALSE),
    (same, {"x": "f32[n, m]", "out0": "f32[n, m + 1]"},
     "result out0, axis 1: the size is x.1, not m + 1, where m is x.1 by argument x, axis 1"),
    (doubled, {"x": "f32[n, m]", "out0": "f32[2*k + 1, m]"}, "result out0, axis 0: 2*k + 1 = 2*x.0 has no solution"),
    (flat, {"x": "f32[2*n, m]", "out0": "f32[2*k + 1]"},
     "result out0, axis 0: 2*k + 1 = x.0*x.1 has no solution" + ALWAYS_FALSE),
    (turned, {"x": "f32[n, 4*m]", "out0": "f32[4*m + 1, n]"},
     "result out0, axis 0: the size is x.1, not 4*m + 1, where m is x.1//4 by argument x, axis 1" + ALWAYS_FALSE),
]  # fmt: skip


@pytest.mark.parametrize(("body", "types", "message"), NEVER)
def test_c_what_can_never_hold(body: Body, types: dict[str, str], message: str) -> None:
    """What the form shows is refused when it is said, the rest when the program is optimized."""
    with pytest.raises(EgshapeError) as caught:
        egshape.optimize(egshape.annotate(program("x: f32[?, ?]", body), types))
    assert str(caught.value) == message
