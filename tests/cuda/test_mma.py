"""Products of tiles by warps: thread after thread they give what numpy does, faults of who uses them are found, and
they become matrix instructions."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egshape.dims import Dim, const, floordiv, symbol
from egshape.errors import EgshapeError
from egshape.ir.types import numpy_dtype
from egshape.lower.cuda.compiler import cubin, source
from egshape.lower.cuda.kernel import kernel
from egshape.plan.gpu.product.mma import COLUMNS, ROWS, column_at, mma, padded, row_at
from egshape.plan.ir.launch import Grid, Launch, Mma, Threads
from egshape.plan.ir.loops import Buffer, Const, Kernel, Load, Loop, Matrix, Stmt, Store
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import buffers
from tests.cuda.text import Texts
from tests.cuda.threads import Race, check_launch

T, ROW, COLUMN, R = (symbol(f"$x{name}") for name in "tijr")
DTYPES = ("f16", "bf16", "f32")


def _registers(rows: int, columns: int, threads: int, name: str) -> Buffer:
    return Buffer(name, "f32", const(threads * rows * columns * 4), "temp")


def _each(rows: int, columns: int, threads: int, body: tuple[Stmt, ...]) -> Threads:
    """What each thread does with each of its registers."""
    for var, extent in (("$xr", 4), ("$xj", columns), ("$xi", rows)):
        body = (Loop(var, const(extent), body),)
    return Threads("$xt", const(threads), body)


def _at(rows: int, columns: int) -> Dim:
    return T * (rows * columns * 4) + (ROW * columns + COLUMN) * 4 + R


def _filled(side: Buffer, board: Buffer, lines: int, length: int, apart: int, threads: int) -> Threads:
    """A copy of lines into shared memory."""
    assert lines * length % threads == 0
    number = T + symbol("$xn") * threads
    line = floordiv(number, length)
    store = Store(board, line * apart + number - line * length, Load(side.dtype, side, number))
    return Threads("$xt", const(threads), (Loop("$xn", const(lines * length // threads), (store,)),))


def tiles(
    dtype: str,
    rows: int,
    columns: int,
    depth: int,
    across: int = 1,
    down: int = 1,
    turned: tuple[bool, bool] = (False, False),
    again: int = 0,
) -> Launch:
    """(m, depth) by (depth, n); ``turned``: which sides lie along their free axis. ``again``: the sums, as a left side,
    times the last ``again`` columns of what the right side holds, if not 0."""
    threads = across * down * 32
    m, n = down * rows * ROWS, across * columns * COLUMNS
    inputs, boards, sides = [], [], []
    for name, free, over in (("left", m, turned[0]), ("right", n, turned[1])):
        lines, length = (depth, free) if over else (free, depth)
        apart = padded(length, dtype)
        inputs.append(Buffer(name, dtype, const(lines * length), "input"))
        boards.append(Buffer(f"$tile.{name}", dtype, const(lines * apart), "temp"))
        sides.append((lines, length, apart))
    out = Buffer("out", "f32", const(m * (again or n)), "output")
    sums = _registers(rows, columns, threads, "$sums")
    steps = [const(apart) for _, _, apart in sides]
    left = Matrix(boards[0], const(0), *((const(1), steps[0]) if turned[0] else (steps[0], const(1))))
    right = Matrix(boards[1], const(0), *((steps[1], const(1)) if turned[1] else (const(1), steps[1])))
    clear = Store(sums, _at(rows, columns), Const("f32", 0.0))
    body: list[Stmt] = [_each(rows, columns, threads, (clear,))]
    body += [_filled(x, board, *side, threads) for x, board, side in zip(inputs, boards, sides, strict=True)]
    body.append(mma("$m", threads, dtype, sums, left, right, rows=rows, columns=columns, depth=depth, across=across))
    last, wide = sums, columns
    if again:
        last, wide = _registers(rows, again // 8, threads, "$out"), again // 8
        held = Matrix(sums, const(0), const(4 * columns), const(4))
        # what was the right side's first columns by depth is (deep, column) now
        board = Matrix(boards[1], const(0), steps[1], const(1))
        body.append(_each(rows, wide, threads, (Store(last, _at(rows, wide), Const("f32", 0.0)),)))
        body.append(mma("$m2", threads, dtype, last, held, board, rows=rows, columns=wide, depth=n, held=True))
    i, j = row_at(T, ROW, floordiv(R, 2), rows, across), column_at(T, COLUMN, R - floordiv(R, 2) * 2, wide, across)
    body.append(_each(rows, wide, threads, (Store(out, i * (again or n) + j, Load("f32", last, _at(rows, wide))),)))
    whole = Kernel("tiles", (Grid("$block", const(1), tuple(body)),), (out,))
    registers = (sums,) if last is sums else (sums, last)
    return Launch(whole, const(1), threads, (*boards, *registers), registers)


CASES = {
    f"{dtype}{'t' if one else 'n'}{'t' if two else 'n'}": tiles(dtype, 1, 2, 16, 2, 1, (one, two))
    for dtype in DTYPES
    for one in (False, True)
    for two in (False, True)
}
CASES |= {
    f"{dtype} of {rows} by {columns}": tiles(dtype, rows, columns, 32, across, down)
    for dtype in DTYPES
    for rows, columns, across, down in ((2, 4, 1, 2), (1, 4, 2, 2))
}
CASES |= {f"{dtype} held": tiles(dtype, 1, 4, 32, 1, 2, again=16) for dtype in DTYPES}


def _arrays(launch: Launch) -> dict[Buffer, np.ndarray]:
    """Random sides, and nothing in the result."""
    rng = np.random.default_rng(5)
    made = {}
    for buffer in (*_inputs(launch), *launch.kernel.outputs):
        count = buffer.size.const or 0
        values = rng.normal(size=count) if buffer.kind == "input" else np.full(count, np.nan)
        made[buffer] = values.astype(numpy_dtype(buffer.dtype))
    return made


def _inputs(launch: Launch) -> tuple[Buffer, ...]:
    return tuple(buffer for buffer in buffers(launch.kernel.body) if buffer.kind == "input")


def wanted(launch: Launch, arrays: dict[Buffer, np.ndarray]) -> np.ndarray:
    """The result by numpy."""
    first, *more = [stmt for stmt in launch.kernel.body[0].body if isinstance(stmt, Mma)]  # type: ignore[union-attr]
    one, two = (arrays[each].astype(np.float64) for each in _inputs(launch))
    deep = first.depth
    left = one.reshape(deep, -1).T if first.left.row.const == 1 else one.reshape(-1, deep)
    right = two.reshape(deep, -1) if first.right.column.const == 1 else two.reshape(-1, deep).T
    found = left @ right
    for second in more:
        rounded = found.astype(numpy_dtype(first.dtype)).astype(np.float64)
        found = rounded @ right.T[:, : second.columns * COLUMNS]
    return found


@pytest.mark.long_but("bf16 of 1 by 4")
@pytest.mark.parametrize("name", CASES)
def test_thread_after_thread(name: str) -> None:
    arrays = _arrays(CASES[name])
    check_launch(CASES[name], arrays, {})
    _close(name, arrays)


def _close(name: str, arrays: dict[Buffer, np.ndarray]) -> None:
    (out,) = CASES[name].kernel.outputs
    found = wanted(CASES[name], arrays)
    rounding = {"f16": 2e-2, "bf16": 2e-1, "f32": 1e-4}
    tolerance = rounding[name.removesuffix(" held")] if name.endswith("held") else 1e-5
    np.testing.assert_allclose(arrays[out].reshape(found.shape), found, tolerance, tolerance, err_msg=name)


def test_printed_text(texts: Texts) -> None:
    printed = {name: kernel(each, f"k{number}") for number, (name, each) in enumerate(CASES.items())}
    texts.compile(printed.values())
    for name, each in CASES.items():
        arrays = _arrays(each)
        texts.run_launch(each, printed[name], arrays, {}, "random")
        _close(name, arrays)


def _changed(launch: Launch, change: object) -> Launch:
    (grid,) = launch.kernel.body
    assert isinstance(grid, Grid) and callable(change)
    body = tuple(x for x in map(change, grid.body) if x is not None)
    return replace(launch, kernel=replace(launch.kernel, body=(replace(grid, body=body),)))


def test_shared_memory_that_others_still_write_is_found() -> None:
    found = _changed(CASES["f16nn"], lambda stmt: replace(stmt, wait=False) if isinstance(stmt, Threads) else stmt)
    with pytest.raises(Race, match="no barrier between"):
        check_launch(found, _arrays(found), {})


def test_registers_of_another_warp_are_found() -> None:
    found = CASES["f16 held"]
    moved = _changed(
        found, lambda stmt: replace(stmt, body=_other_warp(stmt)) if isinstance(stmt, Mma) and stmt.held else stmt
    )
    with pytest.raises(Race, match="of another warp"):
        check_launch(moved, _arrays(moved), {})


def _other_warp(stmt: Mma) -> tuple[Stmt, ...]:
    """What it means, with what the warp before holds."""

    class Elsewhere(Moved):
        def element(self, buffer: Buffer, index: Dim) -> tuple[Buffer, Dim]:
            count = (buffer.size.const or 0) // (stmt.extent.const or 1)
            return buffer, (index + 32 * count) % (64 * count) if buffer is stmt.left.buffer else index

    return Elsewhere({}).body(stmt.body)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_matrix_instructions(architecture: str, tmp_path: Path) -> None:
    text = source([kernel(each, f"k{number}") for number, each in enumerate(CASES.values())])
    try:
        code = cubin(text, architecture)
    except EgshapeError as error:
        if error.code != "dependency":
            raise
        pytest.skip(str(error))
    for name, found in zip(CASES, sass(code, tmp_path), strict=True):
        assert ("HMMA.16816.F32" in found) == (not name.startswith("f32")), name
        assert bool(re.search(r"LDSM\.16\.(M|MT)88", found)) == (not name.startswith("f32")), name
        assert "STL" not in found and "LDL" not in found, f"{name} keeps registers in memory"


def sass(code: bytes, folder: Path) -> list[str]:
    """The machine code of each kernel of a cubin, in their order."""
    tool = shutil.which("nvdisasm")
    if tool is None:
        pytest.skip("needs nvdisasm of the CUDA toolkit")
    file = folder / "kernels.cubin"
    file.write_bytes(code)
    text = subprocess.run([tool, str(file)], capture_output=True, text=True, check=True).stdout
    parts = re.split(r"\.section\s+\.text\.(\w+)", text)[1:]
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    return [found[name] for name in sorted(found, key=lambda name: int(name[1:]))]
