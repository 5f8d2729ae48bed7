"""Transposed copies in tiles of shared memory: they give what the loops do, and both sides go along memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from egshape.dims import symbol
from egshape.lower.cuda.kernel import kernel
from egshape.plan.gpu.mapping import launch
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Buffer, Call, Kernel, Load, Loop, Store
from egshape.plan.ir.walk import buffers
from tests.cuda.emulate import chain, likely
from tests.cuda.threads import Machine, check_launch, contents

B, M, N = (symbol(name) for name in "bmn")
AT, ROW, COLUMN = (symbol(name) for name in ("$a", "$i", "$j"))


def transposed(dtype: str = "f32") -> Kernel:
    """b times (n, m) from (m, n), with a row that is added."""
    x, row = Buffer("x", dtype, B * M * N, "input"), Buffer("row", dtype, M, "input")
    out = Buffer("out", dtype, B * M * N, "output")
    value = Call(dtype, "add", (Load(dtype, x, AT * M * N + ROW * N + COLUMN), Load(dtype, row, ROW)))
    store = Store(out, AT * M * N + COLUMN * M + ROW, value)
    return Kernel("transpose", (Loop("$a", B, (Loop("$j", N, (Loop("$i", M, (store,)),)),)),), (out,))


def _run(found: Launch, whole: Kernel, env: Mapping[str, int]) -> None:
    wanted = contents(buffers(whole.body), env)
    got = {buffer: array.copy() for buffer, array in wanted.items()}
    Machine(wanted).run(whole.body, env)
    check_launch(found, got, env)
    (out,) = whole.outputs
    np.testing.assert_array_equal(got[out], wanted[out])


SIZES = [(1, 8, 8), (2, 5, 9), (0, 3, 3), (1, 0, 4), (1, 4, 0), (1, 1, 1), (3, 1, 10), (1, 13, 2)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", ["f32", "i8", "f64"])
def test_results(sizes: tuple[int, int, int], dtype: str) -> None:
    whole = transposed(dtype)
    found = launch(whole, likely, 16)
    env = dict(zip("bmn", sizes, strict=True))
    for each in chain(found):
        assert len(each.shared) - len(each.registers) == 1
        if all(dim.evaluate(env) >= 0 for dim in each.fits):
            _run(each, whole, env)


def test_the_text_of_a_transposed_copy() -> None:
    found = launch(transposed(), likely)
    assert found.threads == 256 and found.blocks.evaluate({"b": 2, "m": 64, "n": 33}) == 2 * 2 * 2
    assert [str(dim) for dim in found.fits] == ["-(n%4)", "-(m%4)"] and found.otherwise is not None
    text = kernel(found, "k").source
    assert "__align__(16) f32 s0[1056];" in text and text.count("__syncthreads();") == 1
    assert text.count("(const uint4*)") == 3, "both sides and the row that is added"


def test_narrow_elements_take_larger_tiles() -> None:
    found = launch(transposed("bf16"), likely)
    assert "tiles of 64 x 64, 8 elements an access" in found.why and found.threads == 256
    assert "ui16 s0[4224];" in kernel(found, "k").source, "lines an odd number of banks apart"


@pytest.mark.parametrize(("dtype", "count", "side"), [("f32", 1, 64), ("f64", 1, 64), ("f32", 3, 32), ("f16", 1, 64)])
def test_elements_one_by_one_take_larger_tiles_where_there_is_room(dtype: str, count: int, side: int) -> None:
    out, value = Buffer("out", dtype, M * N, "output"), None
    for number in range(count):
        load = Load(dtype, Buffer(f"x{number}", dtype, M * N, "input"), ROW * N + COLUMN)
        value = load if value is None else Call(dtype, "add", (value, load))
    assert value is not None
    store = Store(out, COLUMN * M + ROW, value)
    whole = Kernel("transpose", (Loop("$j", N, (Loop("$i", M, (store,)),)),), (out,))
    plain = list(chain(launch(whole, likely)))[-1]
    assert f"tiles of {side} x {side}, 1 elements" in plain.why and plain.threads == 256
    _run(plain, whole, {"m": side + 3, "n": 5})
