"""Masks that compare indices: what is said of a block holds of each of its elements, and is said where it can be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from egshape.dims import Dim, const, symbol
from egshape.ir.types import numpy_dtype
from egshape.ops import REGISTRY
from egshape.plan.gpu.attention.masks import LARGEST, Area, lines, opened
from egshape.plan.ir.loops import Call, Const, Expr, Index, Load, Test, Var
from egshape.plan.ir.visit import Moved

ROW, COLUMN, PAST, N = (symbol(name) for name in ("$i", "$j", "p", "n"))
SCORE = Var("f32", "score")
LOW = Const("f32", float("-inf"))


def index(dim: Dim, dtype: str = "i32") -> Expr:
    return Index(dtype, dim)


def compare(one: Expr, two: Expr, direction: str) -> Call:
    return Call("i1", "compare", (one, two), (("direction", direction), ("kind", "SIGNED")))


def chosen(test: Expr, closed: bool = False) -> Expr:
    """The score, or -inf where the test is ``closed``."""
    return Call("f32", "select", (test, LOW, SCORE) if closed else (test, SCORE, LOW))


def added(one: Expr, two: Expr) -> Expr:
    return Call(one.dtype, "add", (one, two))


MASKS = {
    "causal": chosen(compare(index(ROW), index(COLUMN), "GE")),
    "causal, the other way": chosen(compare(index(ROW), index(COLUMN), "LT"), True),
    "behind a past": chosen(compare(added(index(ROW), index(PAST)), index(COLUMN), "GE")),
    "the last rows": chosen(compare(index(COLUMN), index(ROW + N - PAST), "LE")),
    "length": chosen(compare(index(COLUMN, "i64"), index(PAST, "i64"), "LT")),
    "first keys left out": chosen(compare(index(COLUMN), Const("i32", 5), "GT")),
    "window": chosen(
        Call("i1", "and", (compare(index(ROW), index(COLUMN), "GE"), compare(index(COLUMN + 4), index(ROW), "GT")))
    ),
    "of choices": chosen(
        Call("i1", "select", (compare(index(ROW), index(COLUMN), "GE"), Const("i1", True), Const("i1", False)))
    ),
    "added": Call(
        "f32", "add", (SCORE, Call("f32", "select", (compare(index(ROW), index(COLUMN), "LT"), LOW, Const("f32", 0.0))))
    ),
}


def value(expr: Expr, env: dict[str, int]) -> np.ndarray:
    """An expression of indices; the score is 7."""
    match expr:
        case Const():
            return np.asarray(expr.value).astype(numpy_dtype(expr.dtype))
        case Var():
            return np.float32(7)
        case Index():
            return np.asarray(expr.dim.evaluate(env)).astype(numpy_dtype(expr.dtype))
        case Test():
            return np.asarray(all(dim.evaluate(env) >= 0 for dim in expr.dims))
        case Call():
            args = [value(arg, env) for arg in expr.args]
            found = REGISTRY[expr.op].reference(*args, **dict(expr.attrs))
            return np.asarray(found).astype(numpy_dtype(expr.dtype))
    raise AssertionError(expr)


@pytest.mark.parametrize("name", MASKS)
def test_blocks(name: str) -> None:
    scores, said = MASKS[name], 0
    found = lines(scores, "$i", "$j", (N, N))
    assert found and all(line.low == float("-inf") for line in found) == (name != "added")
    plain = opened(scores, found)
    for past, i, j in itertools.product((0, 3, 9), range(0, 12, 4), range(0, 12, 3)):
        env = {"p": past, "n": 12}
        area = Area((const(i), const(i + 3)), (const(j), const(j + 2)))
        each = [{**env, "$i": row, "$j": column} for row in range(i, i + 4) for column in range(j, j + 3)]
        for line in found:
            if value(line.masked(area), env):
                assert all(value(scores, one) == -np.inf for one in each), (line.slopes, i, j)
                later = {**each[-1], "$j": 12}
                assert not line.ends or value(scores, later) == -np.inf
                said += 1
        if all(value(line.open(area), env) for line in found):
            assert all(value(scores, one) == value(plain, one) == 7 for one in each)
            said += 1
    assert said >= 8, "little is known of blocks"


def test_ends() -> None:
    """Behind a masked key all are masked for some of the masks only."""
    known = {name: [line.ends for line in lines(scores, "$i", "$j", (N, N))] for name, scores in MASKS.items()}
    assert known["causal"] == known["length"] == known["behind a past"] == [True]
    assert known["first keys left out"] == [False] and sorted(known["window"]) == [False, True]


def test_what_could_wrap_is_not_said() -> None:
    (line,) = lines(MASKS["behind a past"], "$i", "$j", (N, N))
    area = Area((const(0), const(3)), (const(8), const(9)))
    assert value(line.masked(area), {"p": 0, "n": 12})
    assert not value(line.masked(area), {"p": 0, "n": LARGEST + 1})
    assert not value(line.open(Area((const(3), const(3)), (const(0), const(0)))), {"p": LARGEST + 1, "n": 12})


@pytest.mark.parametrize(
    "test",
    [
        compare(index(ROW), index(COLUMN), "EQ"),
        compare(index(ROW * COLUMN), index(COLUMN), "GE"),
        compare(Call("i32", "multiply", (index(ROW), index(ROW))), index(COLUMN), "GE"),
        compare(Call("ui32", "subtract", (index(ROW, "ui32"), index(COLUMN, "ui32"))), Const("ui32", 3), "LT"),
        compare(Call("i32", "convert", (SCORE,)), index(COLUMN), "GE"),
        compare(index(PAST), index(N), "GE"),
        Call("i1", "compare", (SCORE, Const("f32", 0.0)), (("direction", "GE"), ("kind", "FLOAT"))),
    ],
    ids=str,
)
def test_what_is_no_line(test: Expr) -> None:
    assert not lines(chosen(test), "$i", "$j", (N, N))


def test_lengths_from_data() -> None:
    """A number that is the same for a block counts, one that differs between its elements does not."""
    from egshape.plan.ir.loops import Buffer

    data = Buffer("lengths", "i32", N, "input")
    for place, known in ((PAST, True), (ROW, False)):
        found = lines(chosen(compare(index(COLUMN), Load("i32", data, place), "LT")), "$i", "$j", (N, N))
        assert bool(found) == known
        if found:
            loads = Moved({}).expr(found[0].masked(Area((const(0), const(1)), (const(0), const(1)))))
            assert isinstance(loads, Call) and found[0].ends
