"""Products in tiles: thread after thread they give what the loops do, no two threads meet, and they compile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError
from egshape.lower.cuda.compiler import cubin, source
from egshape.lower.cuda.kernel import kernel
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.form.dots import converted
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.fused import fused
from egshape.plan.gpu.mapping import launch
from egshape.plan.gpu.narrow import narrowed
from egshape.plan.gpu.product import warps as warp_blocks
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Buffer, Call, Contract, Expr, Kernel, Let, Load, Loop, Stmt, Store, Var
from egshape.plan.ir.walk import buffers, expressions, statements
from tests.cuda.emulate import likely
from tests.cuda.test_mma import sass
from tests.cuda.text import Texts
from tests.cuda.threads import Machine, check_launch, contents

ROW, COLUMN, DEEP, B = (symbol(name) for name in ("$i", "$j", "$l", "$b"))
M, N, K, C = (symbol(name) for name in ("m", "n", "k", "b"))


def product(dtype: str = "f32", left: Sequence[Dim] = (K, const(1)), right: Sequence[Dim] = (N, const(1))) -> Kernel:
    """b times (m, k) by (k, n), with sides of these strides, doubled, with a vector and as many more added."""
    a, b = Buffer("a", dtype, C * M * K, "input"), Buffer("b", dtype, C * K * N, "input")
    vector, more = Buffer("vector", dtype, N, "input"), Buffer("more", dtype, C * M * N, "input")
    out = Buffer("out", dtype, C * M * N, "output")
    sum_of = "f32" if dtype in ("f16", "bf16") else dtype
    one = Load(dtype, a, B * M * K + ROW * left[0] + DEEP * left[1])
    two = Load(dtype, b, B * K * N + DEEP * right[0] + COLUMN * right[1])
    place = B * M * N + ROW * N + COLUMN
    value: Expr = Call(sum_of, "add", (Var(sum_of, "v"), Var(sum_of, "v")))
    for each in (Load(dtype, vector, COLUMN), Load(dtype, more, place)):
        value = Call(sum_of, "add", (value, converted(sum_of, each)))
    body: tuple[Stmt, ...] = (Store(out, place, converted(dtype, value)),)
    whole = Contract(sum_of, M, N, K, "$i", "$j", "$l", converted(sum_of, one), converted(sum_of, two), "v", body)
    return Kernel("product", (Loop("$b", C, (whole,)),), (out,), once=True)


CASES = [product(), product("i32"), product("f64", (const(1), M)), product("f32", (K, const(1)), (const(1), K))]
BY_WARPS = {
    "f16": product("f16"),
    "bf16 turned": product("bf16", (const(1), M), (const(1), K)),
    "f32": product(),
    "f32 turned": product("f32", (const(1), M), (const(1), K)),
}
TOLERANCE = {"f16": 2e-2, "bf16": 1e-1, "f32": 1e-4}


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


def at(guess: int) -> Likely:
    """Every symbol is likely so large."""
    return lambda dim: dim.evaluate(dict.fromkeys(dim.symbols(), guess))


def fitting(found: Launch | None, env: Mapping[str, int]) -> Iterator[Launch]:
    """The versions of a launch that may run at some sizes."""
    while found is not None:
        if all(dim.evaluate(env) >= 0 for dim in found.fits):
            yield found
        found = found.otherwise


@pytest.mark.long_but("f16-*", "f32-*")
@pytest.mark.parametrize(
    ("name", "guess", "sizes"),
    [
        ("f16", 64, (2, 3, 5, 4)),
        ("f16", 64, (1, 17, 8, 40)),
        ("f16", 64, (1, 2, 3, 0)),
        ("f16", 64, (1, 0, 3, 2)),
        ("bf16 turned", 64, (1, 8, 24, 16)),
        ("bf16 turned", 65, (1, 17, 9, 33)),
        ("f32", 65, (1, 17, 18, 17)),
        ("f32 turned", 64, (1, 4, 20, 20)),
    ],
)
def test_warps_give_what_loops_do(name: str, guess: int, sizes: tuple[int, ...]) -> None:
    whole = BY_WARPS[name]
    env = dict(zip("bmnk", sizes, strict=True))
    wanted = contents(buffers(whole.body), env)
    given = {buffer: array.copy() for buffer, array in wanted.items()}
    Machine(wanted).run(whole.body, env)
    for each in fitting(launch(whole, at(guess), 32), env):
        got = {buffer: array.copy() for buffer, array in given.items()}
        check_launch(each, got, env)
        _close(got, wanted, name)


@pytest.mark.long
@pytest.mark.parametrize("shape", [warp_blocks.Shape(1, 2, 2, 2), warp_blocks.Shape(2, 1, 1, 4)], ids=str)
def test_several_warps_do_not_meet(shape: warp_blocks.Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warp_blocks, "chosen", lambda *_: shape)
    for name, guess in (("f16", 64), ("f32 turned", 65)):
        env = {"b": 1, "m": 33, "n": 16, "k": 24}
        wanted = contents(buffers(BY_WARPS[name].body), env)
        got = {buffer: array.copy() for buffer, array in wanted.items()}
        wanted |= _by_numpy(BY_WARPS[name], wanted, env)
        check_launch(next(fitting(launch(BY_WARPS[name], at(guess), 64), env)), got, env)
        _close(got, wanted, name)


def _close(got: Mapping[Buffer, np.ndarray], wanted: Mapping[Buffer, np.ndarray], name: str) -> None:
    tolerance = TOLERANCE[name.split(maxsplit=1)[0]]
    for buffer, array in wanted.items():
        found = got[buffer].astype(np.float64)
        np.testing.assert_allclose(found, array.astype(np.float64), tolerance, tolerance, err_msg=name)


@pytest.mark.long_but("128x64", "64x16")
@pytest.mark.parametrize("shape", warp_blocks.SHAPES, ids=lambda shape: f"{shape.m}x{shape.n}")
def test_printed_text_of_each_shape(shape: warp_blocks.Shape, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warp_blocks, "chosen", lambda *_: shape)
    env = {"b": 1, "m": shape.m + 9, "n": shape.n + 8, "k": 72}
    found = [
        (name, next(fitting(narrowed(launch(BY_WARPS[name], at(guess))), env)))
        for name, guess in (("f16", 64), ("bf16 turned", 65), ("bf16 turned", 64), ("f32", 64))
    ]
    printed = [kernel(each, f"k{number}") for number, (_, each) in enumerate(found)]
    texts.compile(printed)
    for (name, each), text in zip(found, printed, strict=True):
        arrays = contents(buffers(BY_WARPS[name].body), env)
        wanted = _by_numpy(BY_WARPS[name], arrays, env)
        texts.run_launch(each, text, arrays, env, "random")
        _close({buffer: array for buffer, array in arrays.items() if buffer.name == "out"}, wanted, name)


def _by_numpy(whole: Kernel, arrays: Mapping[Buffer, np.ndarray], env: Mapping[str, int]) -> dict[Buffer, np.ndarray]:
    """What the kernel of ``product`` makes."""
    by_name = {buffer.name: array.astype(np.float64) for buffer, array in arrays.items()}
    b, m, n, k = (env[name] for name in "bmnk")
    contract = next(stmt for stmt in statements(whole.body) if isinstance(stmt, Contract))
    (one,), (two,) = (
        [load for load in expressions((Let("", side),)) if isinstance(load, Load)]
        for side in (contract.left, contract.right)
    )
    left, right = by_name["a"].reshape(b, m, k), by_name["b"].reshape(b, k, n)
    if coefficient(one.index, "$i") is const(1):
        left = by_name["a"].reshape(b, k, m).transpose(0, 2, 1)
    if coefficient(two.index, "$l") is const(1):
        right = by_name["b"].reshape(b, n, k).transpose(0, 2, 1)
    found = 2 * (left @ right) + by_name["vector"] + by_name["more"].reshape(b, m, n)
    return {whole.outputs[0]: found.reshape(-1)}


def test_the_shape_follows_likely_sizes() -> None:
    def found(count: int, m: int, n: int, threads: int = 256) -> tuple[int, int]:
        shape = warp_blocks.chosen(count, m, n, threads)
        return shape.m, shape.n

    assert found(1, 4096, 4096) == (128, 128)
    assert found(1, 1, 4096) == found(8, 16, 64) == (16, 64)
    assert found(1, 4096, 16) == (64, 16)
    assert found(1, 4096, 4096, threads=32) == (16, 16)
    large, small = (warp_blocks.chosen(count, 512, 512, 256) for count in (64, 1))
    assert large.m * large.n > small.m * small.n


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_large_products_in_machine_code(architecture: str, tmp_path: Path) -> None:
    """16-byte accesses, no register in memory, two blocks of a multiprocessor's 65,536 registers."""
    kinds = [product(dtype) for dtype in ("f16", "bf16", "f32")]
    found = [narrowed(launch(each, at(2048))) for each in kinds]
    assert all(each.threads == 256 and "128 by 128" in each.why for each in found)
    try:
        code = cubin(source([kernel(each, f"k{number}") for number, each in enumerate(found)]), architecture)
    except EgshapeError as error:
        if error.code != "dependency":
            raise
        pytest.skip(str(error))
    for number, text in enumerate(sass(code, tmp_path)):
        assert not re.search(r"\b(STL|LDL)\b", text)
        assert len(re.findall(r"LDG\.E\.128", text)) >= 8 and len(re.findall(r"STG\.E\.128", text)) >= 8
        assert len(re.findall("HMMA" if number < 2 else "FFMA", text)) >= 32
        assert number == 2 or max(map(int, re.findall(r"\bR(\d+)\b", text))) < 128


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_tiles_compile(architecture: str) -> None:
    found = enumerate((*CASES, *BY_WARPS.values()))
    text = source([kernel(fused(launch(each, likely)), f"k{number}") for number, each in found])
    try:
        assert cubin(text, architecture)[:4] == b"\x7fELF"
    except EgshapeError as error:
        if error.code != "dependency":
            raise
        pytest.skip(str(error))
