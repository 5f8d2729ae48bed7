"""Every launch of the sample models at small sizes: no two threads meet, and the launch gives what the kernel does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.dims import const, symbol
from egshape.errors import UndefinedSize
from egshape.ir.types import is_float, numpy_dtype
from egshape.plan.analysis.inplace import in_place
from egshape.plan.analysis.work import operations
from egshape.plan.gpu.launching import launches
from egshape.plan.ir.launch import Ahead, Grid, Launch, Threads
from egshape.plan.ir.loops import Assign, Buffer, Call, Const, Kernel, Load, Local, Stmt, Store, Var
from egshape.plan.ir.program import Program
from egshape.plan.ir.walk import buffers, dims
from egshape.plan.targets import plan
from tests.cuda.emulate import chosen, kernels, likely
from tests.cuda.threads import Machine, Race, check_launch, contents

MOST = 8_000
"""Operations of a kernel that is run in Python."""


def _sizes(program: Program, name: str, folder: Path) -> Iterator[dict[str, int]]:
    cases = json.loads((folder / "index.json").read_text())[name]["cases"]
    with np.load(folder / f"{name}.npz") as stored:
        for number in range(len(cases)):
            shapes = [stored[f"case{number}_in{k}"].shape for k in range(len(program.inputs))]
            yield {
                size: (shapes[k][axis] - offset) // factor
                for size, (k, axis, factor, offset) in program.symbols.items()
            }


def _names(kernel: Kernel) -> set[str]:
    found = {name for dim in dims(kernel.body) for name in dim.symbols() if not name.startswith("$")}
    return found | {name for buffer in buffers(kernel.body) for name in buffer.size.symbols()}


def same(kernel: Kernel, sizes: Mapping[str, int], threads: int) -> None:
    found = [chosen(each, sizes) for each in launches(kernel, likely, threads)]
    touched = set(buffers(kernel.body))
    wanted = contents(sorted(touched, key=lambda each: each.name), sizes)
    got = {buffer: array.copy() for buffer, array in wanted.items()}
    Machine(wanted).run(kernel.body, sizes)
    for each in found:
        for buffer in set(buffers(each.kernel.body)) - got.keys() - set(each.shared):
            got[buffer] = np.zeros(buffer.size.evaluate(sizes), numpy_dtype(buffer.dtype))
        check_launch(each, got, sizes)
    for buffer in set(kernel.outputs) - set(kernel.private):
        one, two = got[buffer], wanted[buffer]
        if is_float(buffer.dtype):
            np.testing.assert_allclose(one.astype(float), two.astype(float), rtol=1e-3, atol=1e-3, err_msg=kernel.label)
        else:
            np.testing.assert_array_equal(one, two, err_msg=kernel.label)


@pytest.mark.long_but("mlp_concat_split")
def test_model(model_name: str, shared_models: Path) -> None:
    graph = egshape.optimize(egshape.load(shared_models / f"{model_name}.mlir"), validate=False, explain=False).graph
    program = in_place(plan(graph, target="cuda"))
    checked = 0
    for sizes in _sizes(program, model_name, shared_models):
        for kernel in kernels(program.steps):
            try:
                small = _names(kernel) <= sizes.keys() and operations(kernel.body).evaluate(sizes) <= MOST
            except (UndefinedSize, KeyError):
                small = False
            if small:
                same(kernel, sizes, 16)
                checked += 1
        if checked > 12:
            break
    assert checked


# -- the check itself -------------------------------------------------------------------------------------------------

N = 8
IN = Buffer("in", "f32", const(N), "input")
BOARD = Buffer("board", "f32", const(N), "temp")
OUT = Buffer("out", "f32", const(N), "output")
T, U = symbol("$t"), symbol("$u")


def _block(*body: Stmt) -> Launch:
    return Launch(Kernel("wrong", (Grid("$block", const(1), body),), (OUT,)), const(1), N, (BOARD,))


def _mirrored(wait: bool) -> Launch:
    fill = Threads("$t", const(N), (Store(BOARD, T, Const("f32", 1.0)),), wait=wait)
    return _block(fill, Threads("$u", const(N), (Store(OUT, U, Load("f32", BOARD, N - 1 - U)),)))


def test_a_missing_barrier_is_found() -> None:
    check_launch(_mirrored(True), contents((OUT,), {}), {})
    with pytest.raises(Race, match=r"writes board\[7\], which thread 0 .* reads"):
        check_launch(_mirrored(False), contents((OUT,), {}), {})


@pytest.mark.parametrize("landed", [True, False])
def test_a_copy_that_nobody_waits_for_is_found(landed: bool) -> None:
    lane = symbol("$lane")
    copy = Ahead("$lane", const(4), (Store(BOARD, T * 4 + lane, Load("f32", IN, T * 4 + lane)),))
    fill = Threads("$t", const(2), (copy,), landed=landed)
    look = Threads("$u", const(N), (Store(OUT, U, Load("f32", BOARD, N - 1 - U)),))
    arrays = contents((IN, OUT), {})
    if landed:
        check_launch(_block(fill, look), arrays, {})
        np.testing.assert_array_equal(arrays[OUT], arrays[IN][::-1])
    else:
        with pytest.raises(Race, match=r"board\[7\] is read while it is on its way"):
            check_launch(_block(fill, look), arrays, {})


def test_blocks_that_meet_are_found() -> None:
    add = Store(OUT, const(0), Call("f32", "add", (Load("f32", OUT, const(0)), Const("f32", 1.0))))
    body = Grid("$block", const(2), (Threads("$t", const(1), (add,)),))
    with pytest.raises(Race, match="of block 0 writes out"):
        check_launch(Launch(Kernel("wrong", (body,), (OUT,)), const(2), 1), contents((OUT,), {}), {})


def test_shared_memory_is_written_before_it_is_read() -> None:
    early = _block(Threads("$u", const(N), (Store(OUT, U, Load("f32", BOARD, U)),)))
    with pytest.raises(Race, match="read before it is written"):
        check_launch(early, contents((OUT,), {}), {})


def test_threads_change_locals_of_their_own_only() -> None:
    total = Local("v", Const("f32", 0.0))
    change = Threads("$t", const(N), (Assign("v", Load("f32", OUT, T)),))
    with pytest.raises(Race, match="each thread changes"):
        check_launch(
            _block(total, change, Threads("$u", const(1), (Store(OUT, U, Var("f32", "v")),))), contents((OUT,), {}), {}
        )


def test_elements_lie_inside() -> None:
    far = _block(Threads("$t", const(N), (Store(OUT, T + 1, Const("f32", 1.0)),)))
    with pytest.raises(Race, match="outside of its 8 elements"):
        check_launch(far, contents((OUT,), {}), {})
