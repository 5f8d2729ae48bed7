"""Reductions on a grid: rows, columns and all, in one launch or two, thread after thread against the loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from egshape.dims import Dim, const, symbol
from egshape.ir.types import is_float, numpy_dtype
from egshape.plan.gpu import folds
from egshape.plan.gpu.launching import launches
from egshape.plan.ir.launch import LaneFold, Launch, Threads
from egshape.plan.ir.loops import Assign, Buffer, Call, Const, Expr, Kernel, Load, Local, Loop, Stmt, Store, Var
from egshape.plan.ir.walk import buffers, statements
from tests.cuda.emulate import chosen
from tests.cuda.threads import Machine, check_launch, contents

M, N, ROW, COLUMN = (symbol(name) for name in ("m", "n", "$i", "$j"))


def fold(over: str, op: str, dtype: str) -> Kernel:
    """m x n elements folded over rows ("n"), columns ("m") or all of them ("mn")."""
    x, out = Buffer("x", dtype, M * N, "input"), Buffer("out", dtype, {"n": M, "m": N, "mn": const(1)}[over], "output")
    index = COLUMN if over == "mn" else ROW * N + COLUMN
    value = Var(dtype, "v")
    item: Expr = Call(dtype, op, (value, Load(dtype, x, index)), fast=is_float(dtype) and op == "add")
    first = Const(dtype, 1 if dtype == "i32" else 1.0)
    rounds = {
        "n": Loop("$j", N, (Assign("v", item),)),
        "m": Loop("$i", M, (Assign("v", item),)),
        "mn": Loop("$j", M * N, (Assign("v", item),)),
    }[over]
    store = Store(out, {"n": ROW, "m": COLUMN, "mn": const(0)}[over], value)
    body: tuple[Stmt, ...] = (Local("v", first), rounds, store)
    if over != "mn":
        body = (Loop("$i", M, body),) if over == "n" else (Loop("$j", N, body),)
    return Kernel("fold", body, (out,))


def _guess(m: int, n: int) -> Callable[[Dim], float]:
    return lambda dim: dim.evaluate({"m": m, "n": n})


def _run(
    kernel: Kernel, likely: Callable[[Dim], float], sizes: dict[str, int], threads: int = 16
) -> tuple[Launch, ...]:
    found = tuple(chosen(each, sizes) for each in launches(kernel, likely, threads))
    wanted = contents(buffers(kernel.body), sizes)
    got = {buffer: array.copy() for buffer, array in wanted.items()}
    for each in found:
        for buffer in set(buffers(each.kernel.body)) - got.keys() - set(each.shared):
            got[buffer] = np.zeros(buffer.size.evaluate(sizes), numpy_dtype(buffer.dtype))
    Machine(wanted).run(kernel.body, sizes)
    for each in found:
        check_launch(each, got, sizes)
    (out,) = kernel.outputs
    np.testing.assert_allclose(got[out], wanted[out], rtol=1e-4)
    return found


SIZES = [(3, 5), (0, 4), (4, 0), (1, 1), (13, 2), (9, 17)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("over", ["n", "m", "mn"])
@pytest.mark.parametrize(("op", "dtype"), [("add", "f32"), ("maximum", "f32"), ("add", "i32"), ("minimum", "i32")])
def test_folds(over: str, op: str, dtype: str, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    env = dict(zip("mn", sizes, strict=True))
    kernel = fold(over, op, dtype)
    for guess in ((64, 64), (1 << 20, 64), (64, 1 << 20), (4, 4), (1 << 20, 1 << 20)):
        _run(kernel, _guess(*guess), env)
    monkeypatch.setattr(folds, "CHUNK", 4)
    assert len(_run(kernel, _guess(1 << 20 if over != "n" else 8, 1 << 20 if over != "m" else 8), env)) == 2


def test_columns_are_read_side_by_side() -> None:
    one, two = launches(fold("m", "add", "f32"), _guess(2000, 512), 256)
    for found in (one, two):
        assert found.threads == 256 and "4 columns a thread, 32 threads along the columns, 8 share" in found.why
    assert one.blocks.evaluate({"m": 2000, "n": 512}) == 512 // 128 * 32
    assert two.blocks.evaluate({"m": 2000, "n": 512}) == 512 // 128


def test_many_columns_take_a_thread_each() -> None:
    (found,) = launches(fold("m", "add", "f32"), _guess(2000, 1 << 20), 256)
    assert set(found.shared) == set(found.registers) and "4 columns a thread, 256 threads" in found.why
    assert found.blocks.evaluate({"m": 2000, "n": 1 << 20}) == (1 << 20) // 1024


def test_few_long_folds_take_two_stages() -> None:
    one, two = launches(fold("mn", "add", "f32"), _guess(1 << 12, 1 << 12), 256)
    assert one.blocks.evaluate({"m": 1 << 12, "n": 1 << 12}) == folds.PIECES
    assert two.blocks.const == 1


def _waits(found: Launch) -> int:
    return sum(isinstance(stmt, Threads) and stmt.wait for stmt in statements(found.kernel.body))


def test_few_rows_have_more_lanes_where_many_are_likely() -> None:
    kernel, guess = fold("n", "add", "f32"), _guess(1 << 20, 1024)
    (versions,) = launches(kernel, guess, 256)
    few, many = (chosen(versions, {"m": count, "n": 1024}) for count in (11, 1 << 20))
    assert few.blocks.evaluate({"m": 11}) == 11 and few.threads == 256
    assert many.blocks.evaluate({"m": 1 << 20}) == 1 << 20 and many.threads == 64
    for count in (1, 11):
        _run(kernel, guess, {"m": count, "n": 1024}, 256)


@pytest.mark.parametrize("length", [0, 1, 40, 300, 512, 513])
def test_warps_of_a_row_meet_once(length: int) -> None:
    (found,) = _run(fold("n", "add", "f32"), _guess(64, 512), {"m": 3, "n": length}, 128)
    widths = [stmt.width for stmt in statements(found.kernel.body) if isinstance(stmt, LaneFold)]
    assert _waits(found) == 1 and widths == [32, found.threads // 32]


@pytest.mark.parametrize(
    ("likely", "lanes", "rows"), [(5, 2, 128), (20, 8, 32), (64, 16, 16), (100, 32, 8), (512, 32, 8)]
)
def test_rows_of_a_warp_or_less_wait_for_nobody(likely: int, lanes: int, rows: int) -> None:
    kernel = fold("n", "add", "f32")
    _run(kernel, _guess(1 << 20, likely), {"m": 11, "n": likely}, 256)
    (versions,) = launches(kernel, _guess(1 << 20, likely), 256)
    found = chosen(versions, {"m": 1 << 20, "n": likely})
    assert not _waits(found) and found.threads == lanes * rows
    assert found.blocks.evaluate({"m": rows + 1, "n": 1}) == 2
