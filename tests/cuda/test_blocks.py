"""Products in tiles: thread after thread they give what the loops do, no two threads meet, and they compile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError
from egshape.lower.cuda.compiler import cubin, source
from egshape.lower.cuda.kernel import kernel
from egshape.plan.grid import launch
from egshape.plan.loops import Buffer, Call, Contract, Kernel, Load, Loop, Stmt, Store, Var, buffers
from tests.cuda.emulate import likely
from tests.cuda.threads import Machine, check_launch, contents

ROW, COLUMN, DEEP, B = (symbol(name) for name in ("$i", "$j", "$l", "$b"))
M, N, K, C = (symbol(name) for name in ("m", "n", "k", "b"))


def product(dtype: str = "f32", left: Sequence[Dim] = (K, const(1)), right: Sequence[Dim] = (N, const(1))) -> Kernel:
    """b times (m, k) by (k, n), with sides of these strides."""
    a, b = Buffer("a", dtype, C * M * K, "input"), Buffer("b", dtype, C * K * N, "input")
    out = Buffer("out", dtype, C * M * N, "output")
    one = Load(dtype, a, B * M * K + ROW * left[0] + DEEP * left[1])
    two = Load(dtype, b, B * K * N + DEEP * right[0] + COLUMN * right[1])
    twice = Call(dtype, "add", (Var(dtype, "v"), Var(dtype, "v")))
    body: tuple[Stmt, ...] = (Store(out, B * M * N + ROW * N + COLUMN, twice),)
    whole = Contract(dtype, M, N, K, "$i", "$j", "$l", one, two, "v", body)
    return Kernel("product", (Loop("$b", C, (whole,)),), (out,), once=True)


CASES = [product(), product("i32"), product("f64", (const(1), M)), product("f32", (K, const(1)), (const(1), K))]


SIZES = [(2, 3, 5, 4), (1, 1, 1, 1), (0, 2, 2, 2), (1, 0, 3, 3), (1, 3, 4, 0), (1, 9, 17, 10)]


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.parametrize("sizes", SIZES)
def test_tiles_give_what_loops_do(number: int, sizes: tuple[int, ...]) -> None:
    whole = CASES[number]
    env = dict(zip("bmnk", sizes, strict=True))
    for guess in (1, 8, 64):
        found = launch(whole, lambda dim, guess=guess: dim.evaluate(dict.fromkeys(dim.symbols(), guess)), 16)
        wanted = contents(buffers(whole.body), env)
        got = {buffer: array.copy() for buffer, array in wanted.items()}
        Machine(wanted).run(whole.body, env)
        check_launch(found, got, env)
        for buffer, array in wanted.items():
            np.testing.assert_allclose(got[buffer], array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_tiles_compile(architecture: str) -> None:
    text = source([kernel(launch(each, likely), f"k{number}") for number, each in enumerate(CASES)])
    try:
        assert cubin(text, architecture)[:4] == b"\x7fELF"
    except EgshapeError as error:
        if error.code != "dependency":
            raise
        pytest.skip(str(error))
