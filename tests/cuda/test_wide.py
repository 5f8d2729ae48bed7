"""Accesses of 16 bytes and indices of 32 bits: which kernels get them, that they give the same, and how they print."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.ir.types import is_float, numpy_dtype
from egshape.lower.cuda.kernel import kernel
from egshape.plan.gpu.launching import launches
from egshape.plan.gpu.mapping import launch
from egshape.plan.gpu.narrow import LARGEST
from egshape.plan.ir.launch import Wide
from egshape.plan.ir.loops import (
    Assign,
    Bounds,
    Buffer,
    Call,
    Choose,
    Const,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Var,
)
from egshape.plan.ir.loops import (
    Test as AllOf,
)
from egshape.plan.ir.walk import buffers, statements
from tests.cuda.emulate import chain, chosen, likely
from tests.cuda.threads import Machine, check_launch, contents

M, N, ROW, COLUMN = (symbol(name) for name in ("m", "n", "$i", "$j"))
BY_8 = (Bounds("n", 8, 0, None),)


def _sum(dtype: str, in_place: bool = False, bounds: Sequence[Bounds] = ()) -> Kernel:
    """Rows plus a row."""
    x, row = Buffer("x", dtype, M * N, "temp"), Buffer("row", dtype, N, "input")
    out = x if in_place else Buffer("out", dtype, M * N, "output")
    value = Call(dtype, "add", (Load(dtype, x, ROW * N + COLUMN), Load(dtype, row, COLUMN)))
    return Kernel(
        "sum", (Loop("$i", M, (Loop("$j", N, (Store(out, ROW * N + COLUMN, value),)),)),), (out,), bounds=tuple(bounds)
    )


def _softmax(dtype: str, bounds: Sequence[Bounds] = ()) -> Kernel:
    """x / sum(x) by rows, with the row held in a scratch."""
    x, out = Buffer("x", dtype, M * N, "input"), Buffer("out", dtype, M * N, "output")
    held = Buffer("held", dtype, N, "temp")
    total, item = Var(dtype, "total"), Var(dtype, "item")
    square = Call(dtype, "multiply", (Load(dtype, x, ROW * N + COLUMN), Load(dtype, x, ROW * N + COLUMN)))
    add: tuple[Stmt, ...] = (
        Let("item", square),
        Store(held, COLUMN, item),
        Assign("total", Call(dtype, "add", (total, item), fast=True)),
    )
    value = Call(dtype, "divide", (Load(dtype, held, COLUMN), total))
    body: tuple[Stmt, ...] = (
        Local("total", Const(dtype, 0.0)),
        Loop("$j", N, add),
        Loop("$j", N, (Store(out, ROW * N + COLUMN, value),)),
    )
    return Kernel("softmax", (Loop("$i", M, body),), (out,), (held,), bounds=tuple(bounds))


def _padded() -> Kernel:
    """A load that only some rounds make."""
    x, out = Buffer("x", "f32", M * N, "input"), Buffer("out", "f32", M * N, "output")
    value = Choose("f32", AllOf((COLUMN - 1,)), Load("f32", x, ROW * N + COLUMN), Const("f32", 0.0))
    return Kernel("pad", (Loop("$i", M, (Loop("$j", N, (Store(out, ROW * N + COLUMN, value),)),)),), (out,))


def _chain(dtype: str) -> Kernel:
    """One loop over all elements."""
    x, out = Buffer("x", dtype, M * N, "input"), Buffer("out", dtype, M * N, "output")
    value = Call(dtype, "add", (Load(dtype, x, COLUMN), Load(dtype, x, COLUMN)))
    return Kernel("chain", (Loop("$j", M * N, (Store(out, COLUMN, value),)),), (out,))


KERNELS = {
    "chain": _chain("f32"),
    "chain of bytes": _chain("ui8"),
    "f32": _sum("f32"),
    "f64": _sum("f64"),
    "bytes": _sum("i8"),
    "in place": _sum("f32", True),
    "padded": _padded(),
    "softmax": _softmax("f32"),
    "shown": _sum("f32", bounds=BY_8),
    "softmax shown": _softmax("f32", BY_8),
}
SIZES = [(3, 8), (1, 64), (0, 8), (5, 0), (3, 16), (2, 7), (1, 1)]


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_results(name: str) -> None:
    whole = KERNELS[name]
    for m, n in SIZES:
        env = {"m": m, "n": n}
        if n % 8 and "shown" in name:
            continue
        wanted = contents([*buffers(whole.body)], env)
        got = {buffer: array.copy() for buffer, array in wanted.items()}
        for each in launches(whole, likely, 16):
            found = chosen(each, env)
            for buffer in set(buffers(found.kernel.body)) - got.keys() - set(found.shared):
                got[buffer] = np.zeros(buffer.size.evaluate(env), numpy_dtype(buffer.dtype))
            check_launch(found, got, env)
        Machine(wanted).run(whole.body, env)
        (out,) = whole.outputs
        if is_float(out.dtype):
            np.testing.assert_allclose(got[out], wanted[out], rtol=1e-5, err_msg=f"{m} {n}")
        else:
            np.testing.assert_array_equal(got[out], wanted[out])


def _accesses(body: Sequence[Stmt]) -> int:
    return sum(isinstance(stmt, Wide) for stmt in statements(tuple(body)))


def test_a_fact_saves_the_second_version() -> None:
    shown, open_ = launch(_sum("f32", bounds=BY_8), likely), launch(_sum("f32"), likely)
    assert _accesses(shown.kernel.body) == _accesses(open_.kernel.body) == 3
    assert shown.otherwise is None and open_.otherwise is not None
    assert not _accesses(open_.otherwise.kernel.body)
    assert [str(dim) for dim in open_.fits] == ["-(n%4)"]


def test_one_loop_takes_any_size_at_once() -> None:
    found = launch(_chain("f32"), lambda dim: dim.evaluate(dict.fromkeys(dim.symbols(), 65)))
    assert _accesses(found.kernel.body) == 2 and found.otherwise is None and not found.fits


def test_odd_likely_sizes_take_elements_one_by_one() -> None:
    found = launch(_sum("f32"), lambda dim: dim.evaluate(dict.fromkeys(dim.symbols(), 65)))
    assert not _accesses(found.kernel.body) and found.otherwise is None


def test_a_load_that_a_condition_makes_stays_as_it_is() -> None:
    assert _accesses(launch(_padded(), likely).kernel.body) == 1


def test_the_text_of_a_wide_row() -> None:
    found, *others = chain(launches(_softmax("f32", BY_8), likely)[0])
    text = kernel(found, "k").source
    assert text.count("*(uint4*)") == 2 and "__align__(16) f32" in text, "x is read once, and what is held stays there"
    assert len(others) == 2, "for long rows, and for large indices"
    assert "i64" not in text.split("{", 1)[1], text


def test_ranges_save_the_test_for_32_bits() -> None:
    bounds = (Bounds("n", 8, 0, 4096), Bounds("m", 1, 0, 65536))
    (found,) = launches(_sum("f32", bounds=bounds), likely)
    assert found.narrow and not found.fits and found.otherwise is None
    (open_,) = launches(_sum("f32", bounds=BY_8), likely)
    assert open_.narrow and open_.otherwise is not None and not open_.otherwise.narrow
    large = {"m": 1 << 20, "n": 1 << 12}
    assert not chosen(open_, large).narrow and chosen(open_, {"m": 1 << 10, "n": 1 << 12}).narrow
    assert all(dim.evaluate({"m": 0, "n": 0}) <= LARGEST for dim in open_.fits)


def test_numbers_from_data_keep_64_bits() -> None:
    from egshape.plan.ir.loops import LetIndex

    at, out = Buffer("at", "i64", M, "input"), Buffer("out", "f32", const(8), "output")
    body: tuple[Stmt, ...] = (LetIndex("$g", Load("i64", at, ROW)), Store(out, symbol("$g"), Const("f32", 1.0)))
    (found,) = launches(Kernel("scatter", (Loop("$i", M, body),), (out,)), likely)
    assert not found.narrow
