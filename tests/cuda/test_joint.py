"""Folds of several states: which may be taken apart, and that parts keep their order, with NaN and equals."""

from __future__ import annotations

import numpy as np
import pytest

from egshape.dims import Dim, const, symbol
from egshape.ir.types import numpy_dtype
from egshape.plan.gpu import folds
from egshape.plan.gpu.joint import joint
from egshape.plan.gpu.launching import launches
from egshape.plan.ir.launch import LaneFold
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Var,
)
from egshape.plan.ir.walk import buffers, statements
from tests.cuda.emulate import chosen
from tests.cuda.threads import check_launch

M, N, ROW, COLUMN = (symbol(name) for name in ("m", "n", "$i", "$j"))


def _compare(direction: str, one: Expr, two: Expr, kind: str) -> Expr:
    return Call("i1", "compare", (one, two), (("direction", direction), ("kind", kind)))


def _argmax(dtype: str, over: str = "n", ties: str = "LT", drop: bool = False) -> Kernel:
    """The largest element of each line and its index; of equals the first one, NaN before all."""
    x = Buffer("x", dtype, M * N, "input")
    outs = [
        Buffer("best", dtype, M if over == "n" else const(1), "output"),
        Buffer("at", "i32", M if over == "n" else const(1), "output"),
    ]
    best, at = Var(dtype, "best"), Var("i32", "at")
    item, place = Load(dtype, x, ROW * N + COLUMN if over == "n" else COLUMN), Index("i32", COLUMN)
    kind = "FLOAT" if dtype[0] == "f" else "SIGNED"
    first: Expr = _compare("GT", best, item, kind)
    if not drop:
        first = Call("i1", "or", (first, _compare("NE", best, best, kind)))
    tie = Call("i1", "and", (_compare("EQ", best, item, kind), _compare(ties, at, place, "SIGNED")))
    body = (
        Let("new", Call(dtype, "select", (first, best, item))),
        Let("where", Call("i32", "select", (Call("i1", "or", (first, tie)), at, place))),
        Assign("best", Var(dtype, "new")),
        Assign("at", Var("i32", "where")),
    )
    low = float("-inf") if dtype[0] == "f" else -(1 << 31)
    line: tuple[Stmt, ...] = (
        Local("best", Const(dtype, low)),
        Local("at", Const("i32", 0)),
        Loop("$j", N if over == "n" else M * N, body),
        *(Store(out, ROW if over == "n" else const(0), var) for out, var in zip(outs, (best, at), strict=True)),
    )
    return Kernel("argmax", (Loop("$i", M, line),) if over == "n" else line, tuple(outs))


def _loop(kernel: Kernel) -> Loop:
    return next(stmt for stmt in statements(kernel.body) if isinstance(stmt, Loop) and stmt.var == "$j")


def test_which_folds_may_be_taken_apart() -> None:
    assert joint(_loop(_argmax("f32"))) is not None and joint(_loop(_argmax("i32"))) is not None
    assert joint(_loop(_argmax("f32", ties="GT"))) is not None, "the last of equals"
    assert joint(_loop(_argmax("f32", drop=True))) is None, "NaN forgets what came before it, wherever it stands"


def _sums() -> Loop:
    """Two sums that are no selection."""
    both = [Call("f32", "add", (Var("f32", name), Const("f32", 1.0))) for name in "ab"]
    return Loop("$j", N, tuple(Assign(name, value) for name, value in zip("ab", both, strict=True)))


def test_arithmetic_is_not_examined() -> None:
    assert joint(_sums()) is None


def _values(dtype: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    found = rng.integers(0, 5, count).astype(numpy_dtype(dtype))
    if dtype == "f32" and count % 3 == 0:
        found[rng.integers(0, count, 4) if count else []] = np.nan
    return found


@pytest.mark.parametrize("sizes", [(3, 5), (0, 4), (1, 0), (1, 1), (2, 64), (3, 41), (1, 300)])
@pytest.mark.parametrize("over", ["n", "mn"])
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_results(dtype: str, over: str, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    env = dict(zip("mn", sizes, strict=True))
    kernel = _argmax(dtype, over)
    given = _values(dtype, sizes[0] * sizes[1])
    lines = given.reshape(sizes) if over == "n" else given.reshape(1, -1)
    for likely, chunk, threads in ((64, 4096, 16), (512, 4096, 128), (1 << 20, 8, 16)):
        monkeypatch.setattr(folds, "CHUNK", chunk)
        monkeypatch.setattr(folds, "PIECES", 1 << 40)

        def guess(dim: Dim, likely: int = likely) -> float:
            return float(dim.evaluate({"m": 64 if over == "n" else 1, "n": likely}))

        found = [chosen(each, env) for each in launches(kernel, guess, threads)]
        assert len(found) == (2 if chunk == 8 else 1)
        assert any(isinstance(stmt, LaneFold) for each in found for stmt in statements(each.kernel.body))
        arrays: dict[Buffer, np.ndarray] = {}
        for each in found:
            for buffer in buffers(each.kernel.body):
                if buffer not in each.shared and buffer not in arrays:
                    room = np.zeros(buffer.size.evaluate(env), numpy_dtype(buffer.dtype))
                    arrays[buffer] = given.copy() if buffer.name == "x" else room
            check_launch(each, arrays, env)
        best, at = (arrays[out] for out in kernel.outputs)
        if lines.shape[1]:
            np.testing.assert_array_equal(at, lines.argmax(1), err_msg=str(likely))
            np.testing.assert_array_equal(best, lines.max(1))
        else:
            assert not at.any()
