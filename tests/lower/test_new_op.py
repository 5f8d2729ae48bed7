"""A new elementwise op is a row in the table of each target: one is added here, runs as native code and is printed."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the code is LLVM's (extra llvm)")

from egshape.dims import Dim, symbol
from egshape.errors import Unsupported
from egshape.lower.cuda import ops as cuda_ops
from egshape.lower.cuda.kernel import kernel as printed
from egshape.lower.host.program import ATTRIBUTES
from egshape.lower.llvm import native
from egshape.lower.llvm import ops as llvm_ops
from egshape.lower.llvm.kernel import function
from egshape.plan.cpu.program import ranged
from egshape.plan.gpu.launching import launches
from egshape.plan.ir.loops import Buffer, Call, Kernel, Load, Loop, Store

N, AT = symbol("n"), symbol("$i")


def _kernel(dtype: str) -> Kernel:
    """out[i] = halfway(x[i], y[i])"""
    x, y = (Buffer(name, dtype, N, "input") for name in "xy")
    out = Buffer("out", dtype, N, "output")
    value = Call(dtype, "halfway", (Load(dtype, x, AT), Load(dtype, y, AT)))
    return Kernel("halfway", (Loop("$i", N, (Store(out, AT, value),)),), (out,), once=True)


def _likely(size: Dim) -> float:
    return float(size.evaluate(dict.fromkeys(size.symbols(), 64)))


@pytest.fixture
def halfway(monkeypatch: pytest.MonkeyPatch) -> None:
    def floats(s: llvm_ops.Site) -> str:
        total = s.w.value(f"fadd {s.type} {s.args[0]}, {s.args[1]}")
        return s.w.value(f"fmul {s.type} {total}, 0.5")

    monkeypatch.setitem(llvm_ops.OPS, "halfway", llvm_ops.Row(floats))
    row = cuda_ops.Row(lambda s: f"(({s.args[0]} + {s.args[1]}) * {s.type}(0.5))")
    monkeypatch.setitem(cuda_ops.OPS, "halfway", row)


def _run(dtype: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The kernel as native code."""
    made = function(ranged(_kernel(dtype)))
    given = {"x": x, "y": y, "out": np.zeros_like(x)}
    units = "" if made.split is None else ", i64 0, i64 %n"
    head = ", ".join(f"ptr %{buffer.name}" for buffer in made.buffers)
    text = (
        f"define internal void @egs_k{made.text}"
        f"define void @run({head}, i64 %n) {{\n  call void @egs_k({head}, i64 %n{units})\n  ret void\n}}\n{ATTRIBUTES}"
    )
    machine = native.host_machine()
    entries, keep = native.load([native.object_code(native.whole(text, machine.features), machine)], ["run"], {})
    arguments = [ctypes.c_void_p(given[buffer.name].ctypes.data) for buffer in made.buffers]
    ctypes.CFUNCTYPE(None, *(ctypes.c_void_p for _ in arguments), ctypes.c_int64)(entries["run"])(
        *arguments, ctypes.c_int64(len(x))
    )
    del keep
    return given["out"]


@pytest.mark.usefixtures("halfway")
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 37])
def test_it_runs(kind: type[np.floating], size: int) -> None:
    rng = np.random.default_rng(size)
    x, y = (rng.integers(-8, 9, size).astype(kind) for _ in range(2))
    found = _run(f"f{8 * np.dtype(kind).itemsize}", x, y)
    np.testing.assert_array_equal(found, (x + y) / kind(2))


@pytest.mark.usefixtures("halfway")
def test_it_is_printed() -> None:
    for dtype, rounds in (("f32", False), ("f64", False), ("bf16", True)):
        (launch,) = launches(_kernel(dtype), _likely)
        source = printed(launch, "k").source
        assert f") * {'f64' if dtype == 'f64' else 'f32'}(0.5)" in source
        assert ("eg_round_bf16(" in source) == rounds


@pytest.mark.usefixtures("halfway")
def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(Unsupported, match="halfway of i32 is not compiled"):
        function(ranged(_kernel("i32")))
    (launch,) = launches(_kernel("i32"), _likely)
    with pytest.raises(Unsupported, match="halfway of i32 is not compiled for CUDA"):
        printed(launch, "k")


def test_what_has_no_row_is_refused() -> None:
    with pytest.raises(Unsupported, match="halfway of f32 is not compiled"):
        function(ranged(_kernel("f32")))


def test_both_tables_have_the_same_ops() -> None:
    assert llvm_ops.OPS.keys() == cuda_ops.OPS.keys()
