"""Kernels as CUDA: golden text, and every kernel of the sample models compiled without a GPU (extra cuda)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import egshape
from egshape.dims import const, symbol
from egshape.errors import EgshapeError, Unsupported
from egshape.ir.builder import BlockBuilder
from egshape.lower.cuda.compiler import cubin, source
from egshape.lower.cuda.kernel import MOST_TOGETHER, kernel
from egshape.plan.gpu.launching import launches as grid_launches
from egshape.plan.gpu.mapping import launch
from egshape.plan.ir.launch import Grid, Launch, Threads
from egshape.plan.ir.loops import Buffer, Call, Kernel, Load, Loop, Store
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.cuda import test_blocks, test_wide
from tests.cuda.emulate import launches, likely
from tests.fuzz.differential import argument, graph_of

ARCHITECTURES = ("sm_80", "sm_90")


def _sum_of_rows() -> Kernel:
    b, s = symbol("b"), symbol("s")
    i, j = symbol("$i1"), symbol("$i2")
    one, two = (Buffer(name, "f32", b * s, "input") for name in ("x", "y"))
    out = Buffer("out", "f32", b * s, "output")
    value = Call("f32", "add", (Load("f32", one, i * s + j), Load("f32", two, j)))
    return Kernel("add", (Loop("$i1", b, (Loop("$i2", s, (Store(out, i * s + j, value),)),)),), (out,))


def test_an_elementwise_kernel_is_flat() -> None:
    found = launch(_sum_of_rows(), lambda dim: dim.evaluate(dict.fromkeys(dim.symbols(), 65)))
    (grid,) = found.kernel.body
    assert isinstance(grid, Grid) and isinstance(grid.body[0], Threads)
    text = kernel(found, "k").source
    assert "blockIdx.x" in text and "threadIdx.x" in text
    assert text.startswith('extern "C" __global__ void __launch_bounds__(256) k(')
    # the row and the column of a thread come from one division of its number, where it loads and where it computes
    assert text.count("eg_div") == 4 and len(set(re.findall(r"eg_div\(.*?, (\w+)\)", text))) == 1, text


def test_loops_that_meet_in_a_buffer_run_on_one_thread() -> None:
    n, i = symbol("n"), symbol("$i1")
    x, out = Buffer("x", "f32", n, "input"), Buffer("out", "f32", const(1), "output")
    kept = Kernel("last", (Loop("$i1", n, (Store(out, const(0), Load("f32", x, i)),)),), (out,))
    found = launch(kept, likely)
    assert found.threads == 1 and found.blocks is const(1)


def test_ops_without_cuda_code_are_refused() -> None:
    n, i = symbol("n"), symbol("$i1")
    x, out = (Buffer(name, "f32", n, kind) for name, kind in (("x", "input"), ("out", "output")))
    odd = Kernel("digamma", (Loop("$i1", n, (Store(out, i, Call("f32", "digamma", (Load("f32", x, i),))),)),), (out,))
    with pytest.raises(Unsupported, match="digamma"):
        kernel(launch(odd, likely), "k")


@pytest.mark.long_but("convnet", "nonzero_size", "mlp_concat_split")
def test_every_kernel_compiles(model_name: str, shared_models: Path) -> None:
    pytest.importorskip("llvmlite", reason="planning needs the extra llvm")
    graph = egshape.optimize(egshape.load(shared_models / f"{model_name}.mlir"), validate=False, explain=False).graph
    text = source([kernel(each, f"k{number}") for number, each in enumerate(launches(plan(graph, target="cuda")))])
    for architecture in ARCHITECTURES:
        try:
            found = cubin(text, architecture)
        except EgshapeError as error:
            if error.code == "dependency":
                pytest.skip(f"{error}")
            raise
        assert found[:4] == b"\x7fELF"


def launches_of(whole: Kernel) -> tuple[Launch, ...]:
    """The launches of a kernel at the likely sizes."""
    return grid_launches(whole, likely)


def _ptx(text: str) -> str:
    """What NVRTC makes before it allocates registers."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="needs NVRTC (extra cuda)")
    try:
        _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    except Exception as error:
        pytest.skip(f"needs NVRTC: {error}")
    nvrtc.nvrtcCompileProgram(program, 2, [b"--gpu-architecture=compute_90", b"--fmad=false"])
    _, size = nvrtc.nvrtcGetPTXSize(program)
    room = b" " * size
    nvrtc.nvrtcGetPTX(program, room)
    return room.decode()


def test_registers_stay_registers_and_accesses_are_wide() -> None:
    (flat,) = launches_of(test_wide.KERNELS["shown"])
    (row,) = launches_of(test_wide.KERNELS["softmax shown"])
    (tiles,) = launches_of(test_blocks.CASES[0])
    texts = [_ptx(source([kernel(each, "k")])) for each in (flat, row, tiles)]
    assert not any("__local_depot" in text for text in texts)
    for text in texts[:2]:
        assert re.search(r"ld\.global(\.nc)?\.v4", text) and "st.global.v4" in text
    assert "fma.rn.f32" in texts[2] and "fma.rn.f32" not in texts[0]


@pytest.mark.parametrize("depth", [128, 2048])
def test_a_loop_around_a_product_is_not_written_out(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 of the depth are a round: 32 instructions of tensor cores, however many rounds there are."""
    pytest.importorskip("llvmlite", reason="planning needs the extra llvm")
    monkeypatch.setenv("EGSHAPE_CUDA_PRODUCTS", "own")
    b = BlockBuilder()
    n = symbol("n")
    x, y = (argument(b, name, "bf16", shape) for name, shape in (("x", [n, const(depth)]), ("y", [const(depth), n])))
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "bf16"}
    graph = graph_of(b, b.one("dot_general", [x, y], attrs))
    (step,) = plan(graph, target="cuda").steps
    assert isinstance(step, Run)
    found = _ptx(source([kernel(grid_launches(step.kernel, lambda _: 4096.0)[0], "k")]))
    assert found.count("mma.sync") == (32 * MOST_TOGETHER if depth <= 32 * MOST_TOGETHER else 32)
    assert "__local_depot" not in found
