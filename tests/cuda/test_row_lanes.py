"""Rows, elements and columns on a grid: every version gives what the loops do, rows that fit are read once, and loads
are under way together."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egshape.dims import Dim, const, symbol
from egshape.ir.types import numpy_dtype
from egshape.lower.cuda.compiler import cubin, source
from egshape.lower.cuda.kernel import kernel
from egshape.plan.analysis.work import traffic
from egshape.plan.gpu.launching import launches
from egshape.plan.gpu.mapping import launch
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import (
    Assign,
    Bounds,
    Buffer,
    Call,
    Const,
    Index,
    Kernel,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Var,
)
from egshape.plan.ir.walk import buffers
from tests.cuda import threads as checker
from tests.cuda.emulate import chain
from tests.cuda.test_folds import fold
from tests.cuda.threads import Machine, check_launch, contents

M, N, ROW, COLUMN = (symbol(name) for name in ("m", "n", "$i", "$j"))


def softmax(dtype: str = "f32", bounds: tuple[Bounds, ...] = (), in_output: bool = True) -> Kernel:
    """exp(x - max) / sum by rows, with exp in the row of the result or in a scratch."""
    x, out = Buffer("x", dtype, M * N, "input"), Buffer("out", dtype, M * N, "output")
    scratch = Buffer("scratch", dtype, N, "temp")
    held = (out, ROW * N + COLUMN) if in_output else (scratch, COLUMN)
    item, (peak, total, value) = Load(dtype, x, ROW * N + COLUMN), (Var(dtype, name) for name in ("peak", "total", "e"))
    power = Call(dtype, "exponential", (Call(dtype, "subtract", (item, peak)),))
    body: tuple[Stmt, ...] = (
        Local("peak", Const(dtype, float("-inf"))),
        Loop("$j", N, (Assign("peak", Call(dtype, "maximum", (peak, item))),)),
        Local("total", Const(dtype, 0.0)),
        Loop(
            "$j",
            N,
            (Let("e", power), Store(*held, value), Assign("total", Call(dtype, "add", (total, value), fast=True))),
        ),
        Let("scale", Call(dtype, "divide", (Const(dtype, 1.0), total))),
        Loop(
            "$j", N, (Store(out, ROW * N + COLUMN, Call(dtype, "multiply", (Load(dtype, *held), Var(dtype, "scale")))),)
        ),
    )
    private = () if in_output else (scratch,)
    return Kernel("softmax", (Loop("$i", M, body),), (out, *private), private, bounds=bounds)


def norm() -> Kernel:
    """x - mean, with the mean stored too, and a row that is added."""
    x, row, out = (
        Buffer(name, "f32", size, kind)
        for name, size, kind in (("x", M * N, "input"), ("row", N, "input"), ("out", M * N, "output"))
    )
    means = Buffer("means", "f32", M, "output")
    total, mean = Var("f32", "total"), Var("f32", "mean")
    item = Load("f32", x, ROW * N + COLUMN)
    value = Call("f32", "add", (Call("f32", "subtract", (item, mean)), Load("f32", row, COLUMN)))
    body: tuple[Stmt, ...] = (
        Local("total", Const("f32", 0.0)),
        Loop("$j", N, (Assign("total", Call("f32", "add", (total, item), fast=True)),)),
        Let("mean", Call("f32", "divide", (total, Index("f32", N)))),
        Store(means, ROW, mean),
        Loop("$j", N, (Store(out, ROW * N + COLUMN, value),)),
    )
    return Kernel("norm", (Loop("$i", M, body),), (out, means))


def _guess(m: int, n: int) -> Callable[[Dim], float]:
    return lambda dim: float(dim.evaluate({"m": m, "n": n}))


def _arrays(whole: Kernel, env: Mapping[str, int]) -> tuple[dict[Buffer, np.ndarray], dict[Buffer, np.ndarray]]:
    wanted = contents(buffers(whole.body), env)
    given = {buffer: array.copy() for buffer, array in wanted.items()}
    Machine(wanted).run(whole.body, env)
    return wanted, given


def _same(whole: Kernel, each: Launch, env: Mapping[str, int]) -> None:
    wanted, got = _arrays(whole, env)
    for buffer in set(buffers(each.kernel.body)) - got.keys() - set(each.shared):
        got[buffer] = np.zeros(buffer.size.evaluate(env), numpy_dtype(buffer.dtype))
    check_launch(each, got, env)
    for out in set(whole.outputs) - set(whole.private):
        rough = 3e-2 if out.dtype == "f16" else 1e-3
        np.testing.assert_allclose(got[out].astype(float), wanted[out].astype(float), rtol=rough, atol=1e-5)


KERNELS = {
    "softmax": softmax(),
    "scratch": softmax(in_output=False),
    "f16": softmax("f16"),
    "norm": norm(),
    "shown": softmax(bounds=(Bounds("n", 4, 0, None),)),
    "short": softmax(bounds=(Bounds("n", 1, 0, 40),)),
}
SIZES = [(3, 8), (0, 4), (2, 0), (1, 1), (5, 7), (2, 40), (1, 300)]


@pytest.mark.long_but("guess0-*", "guess1-*")
@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("guess", [(64, 5), (1 << 20, 30), (4, 300), (1 << 20, 5000)])
def test_every_version_gives_what_the_loops_do(name: str, guess: tuple[int, int]) -> None:
    whole, checked = KERNELS[name], 0
    for most in (16, 64):
        for each in chain(launch(whole, _guess(*guess), most)):
            for env in (dict(zip("mn", sizes, strict=True)) for sizes in SIZES):
                fits = all(dim.evaluate(env) >= 0 for dim in each.fits)
                right = not whole.bounds or (env["n"] % 4 == 0 if name == "shown" else env["n"] <= 40)
                if fits and right and env["m"] * env["n"] <= 80:
                    _same(whole, each, env)
                    checked += 1
    assert checked


def test_ranges_save_the_version_for_long_rows() -> None:
    found = launch(KERNELS["short"], _guess(1 << 20, 30))
    assert not found.fits and found.otherwise is None and "stay in registers" in found.why


class _Counting(Machine):
    """Counts the accesses to each buffer."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.count: Counter[tuple[str, str]] = Counter()

    def load(self, memory: Any, index: int) -> Any:
        """An element."""
        self.count["read", memory.buffer.name] += 1
        return super().load(memory, index)

    def store(self, memory: Any, index: int, value: Any) -> None:
        """Write an element."""
        self.count["write", memory.buffer.name] += 1
        super().store(memory, index, value)


@pytest.mark.parametrize("name", ["softmax", "scratch", "norm"])
@pytest.mark.parametrize("n", [7, 40])
def test_rows_that_fit_are_read_and_written_once(name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[_Counting] = []
    monkeypatch.setattr(checker, "Machine", lambda *given: made.append(_Counting(*given)) or made[-1])
    whole, env = KERNELS[name], {"m": 3, "n": n}
    found = launch(whole, _guess(1 << 20, n), 64)
    _, got = _arrays(whole, env)
    check_launch(found, got, env)
    count = made[-1].count
    assert count["read", "x"] == count["write", "out"] == 3 * n
    assert not count["read", "out"] and not count["write", "scratch"]
    if name == "norm":  # the bytes that profiles count are those that move, but that a row is read for each row
        bytes_ = 4 * sum(count[key, each] for key, each in count if each in ("x", "out", "means"))
        assert bytes_ == traffic(whole).evaluate(env) - 4 * n


# -- elements ---------------------------------------------------------------------------------------------------------


def _added(dtype: str = "f32") -> Kernel:
    """x + row + column."""
    x, row, column, out = (
        Buffer(name, dtype, size, kind)
        for name, size, kind in (
            ("x", M * N, "input"),
            ("row", N, "input"),
            ("column", M, "input"),
            ("out", M * N, "output"),
        )
    )
    inner = Call(dtype, "add", (Load(dtype, x, ROW * N + COLUMN), Load(dtype, row, COLUMN)))
    value = Call(dtype, "add", (inner, Load(dtype, column, ROW)))
    store = Store(out, ROW * N + COLUMN, value)
    return Kernel("add", (Loop("$i", M, (Loop("$j", N, (store,)),)),), (out,))


def _update() -> Kernel:
    """A row at a place that data says."""
    at, row, out = (
        Buffer(name, dtype, size, kind)
        for name, dtype, size, kind in (
            ("at", "i64", const(1), "input"),
            ("row", "f32", N * 8, "input"),
            ("out", "f32", 24 * N, "output"),
        )
    )
    store = Store(out, symbol("$g") * N * 8 + COLUMN, Load("f32", row, COLUMN))
    return Kernel("update", (Loop("$j", N * 8, (LetIndex("$g", Load("i64", at, const(0))), store)),), (out,), once=True)


ELEMENTS = {"added": _added(), "bytes": _added("i8"), "update": _update()}


@pytest.mark.parametrize("name", sorted(ELEMENTS))
@pytest.mark.parametrize("guess", [(64, 64), (1 << 16, 1 << 16), (1 << 16, 65535), (1 << 20, 33)])
def test_elements(name: str, guess: tuple[int, int]) -> None:
    for each in chain(launch(ELEMENTS[name], _guess(*guess), 16)):
        for sizes in SIZES:
            env = dict(zip("mn", sizes, strict=True))
            if all(dim.evaluate(env) >= 0 for dim in each.fits):
                _same(ELEMENTS[name], each, env)


def test_large_arrays_have_several_rounds_a_thread() -> None:
    assert "2 rounds of 4 elements a thread, a block within a line" in launch(_added(), _guess(1 << 14, 1 << 14)).why
    assert "8 rounds of 1 elements a thread, a block within a line" in launch(_added(), _guess(16383, 16383)).why
    assert launch(_added(), _guess(1 << 14, 1100)).why == "2 rounds of 4 elements a thread"
    assert launch(_added(), _guess(64, 64)).why == "1 rounds of 4 elements a thread"


def test_an_update_at_a_place_of_data_is_wide() -> None:
    found = launch(_update(), _guess(1, 1 << 20))
    assert "4 elements a thread" in found.why and kernel(found, "k").source.count("*(uint4*)") == 2


# -- what the compiler makes of it ------------------------------------------------------------------------------------


def _shape(image: bytes, folder: Path) -> dict[str, list[str]]:
    """The instructions of each kernel."""
    path = folder / "kernels.cubin"
    path.write_bytes(image)
    text = subprocess.run(["nvdisasm", "-c", path], capture_output=True, text=True, check=True).stdout
    parts = re.split(r"(?=\.section\s+\.text\.)", text)[1:]
    return {
        part.split(".text.")[1].split(",")[0].strip(): re.findall(
            r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z0-9_.]+)", part, re.MULTILINE
        )
        for part in parts
    }


def test_instructions(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings", reason="needs NVRTC (extra cuda)")
    if shutil.which("nvdisasm") is None:
        pytest.skip("needs nvdisasm of the CUDA toolkit")
    cases = {
        "held": launches(softmax(), _guess(8192, 1024))[0],
        "odd": launches(softmax(), _guess(8192, 1023))[0],
        "column": launches(fold("m", "add", "f32"), _guess(1 << 14, 1 << 14))[0],
        "add": launches(_added(), _guess(1 << 14, 1 << 14))[0],
    }
    found = _shape(cubin(source([kernel(each, name) for name, each in cases.items()]), "sm_90"), tmp_path)

    def count(name: str, start: str) -> int:
        return sum(each.startswith(start) for each in found[name])

    assert not any(count(name, spill) for name in cases for spill in ("STL", "LDL")), "nothing is spilled"
    assert count("held", "LDG.E.128") == 4 == count("held", "STG.E.128"), "a row is read and written once"
    assert count("odd", "LDG.E") == 16 and count("held", "BAR.SYNC") == 2 and count("held", "SHFL") == 12
    assert count("column", "LDG.E.128") == 8 and count("add", "LDG.E.128") == 4
    first = next(k for k, each in enumerate(found["held"]) if each.startswith("FMNMX"))
    assert sum(each.startswith("LDG") for each in found["held"][:first]) == 4, "all loads are under way before a use"
