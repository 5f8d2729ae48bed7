"""The machine that runs printed text finds what it is there for: kernels with one fault each, and what they report."""

from __future__ import annotations

import numpy as np
import pytest

from egshape.dims import const
from egshape.lower.cuda.kernel import CudaKernel
from egshape.plan.ir.loops import Buffer
from tests.cuda.text import ORDERS, Given, TextFault, Texts, check_alignment, without_assembly

ROOM = 64
"""Elements of each buffer."""


def made(
    body: str,
    threads: int = ROOM,
    params: str = "const f32* __restrict__ b0, f32* __restrict__ b1",
    shared_bytes: int = 0,
) -> CudaKernel:
    """A kernel of two buffers."""
    source = f'extern "C" __global__ void __launch_bounds__({threads}) k({params}) {{\n{body}\n}}\n'
    buffers = tuple(Buffer(name, "f32", const(ROOM), "temp") for name in ("x", "y"))
    return CudaKernel("k", source, buffers, (), const(1), threads, shared_bytes)


def ran(texts: Texts, kernel: CudaKernel, order: str = "forward", blocks: int = 1, size: int = ROOM) -> np.ndarray:
    """What a kernel makes of 0, 1, 2, ..."""
    x, y = np.arange(ROOM, dtype=np.float32), np.full(ROOM, -1, np.float32)
    texts.run(kernel, [Given(each.ctypes.data, 4 * size) for each in (x, y)], blocks, order)
    return y


FAULTS = {
    "reads behind": ("b1[threadIdx.x] = b0[threadIdx.x + 4];", "touches b0 at byte 256 of its 256 bytes"),
    "reads before": ("const i64 t = threadIdx.x; b1[t] = b0[t - 4];", "touches b0 at byte -"),
    "writes behind": ("b1[threadIdx.x + 4] = 1.0f;", "touches b1 at byte 256"),
    "writes what is const": ("((f32*)b0)[0] = 1.0f;", "writes what is const, b0 at byte 0"),
    "not aligned": ("*(uint4*)&b1[4 * (threadIdx.x % 8) + 1] = *(const uint4*)&b0[0];", "not aligned"),
    "behind a shared array": ("__shared__ f32 s0[32]; s0[threadIdx.x] = 1.0f;", "an index outside of an array"),
    "behind registers": (
        "f32 s0[4]; for (int k = 0; k < 4 + (int)threadIdx.x; ++k) s0[k] = 1.0f; b1[0] = s0[3];",
        "an index outside of an array",
    ),
    "overflows": ("b1[threadIdx.x] = (f32)(2147483647 - 3 + (i32)threadIdx.x);", "a sum overflows"),
    "shifts too far": ("b1[threadIdx.x] = (f32)(1u << threadIdx.x);", "a shift by too much"),
    "divides by 0": ("b1[threadIdx.x] = (f32)(7 / (i32)threadIdx.x);", "a division by 0"),
    "assumes too much": ("__builtin_assume(threadIdx.x < 63);", "what is assumed does not hold"),
    "does not fit": ("b1[threadIdx.x] = (f32)(i32)(b0[threadIdx.x] * 1e10f);", "a float that does not fit"),
    "misses a barrier": ("if (threadIdx.x < 40) __syncthreads();", "divergent barrier; thread 40 has ended"),
    "two barriers": ("if (threadIdx.x < 32) __syncthreads(); else\n__syncthreads();", "divergent barrier"),
    "misses a warp": ("if (threadIdx.x % 32 < 20) __syncwarp();", "divergent barrier"),
    "lanes that are not there": ("b1[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1);", "of which it is none"),
    "a lane outside of the mask": (
        "if (threadIdx.x % 32 < 16) b1[0] = __shfl_xor_sync(0xffffu, 1.0f, 16);",
        "a lane that is not there",
    ),
    "a matrix line": (
        "__shared__ __align__(16) ui16 s0[1024]; ui32 r[4]; eg_ldmatrix(r, s0 + threadIdx.x % 32 * 9);",
        "not aligned to 16 bytes",
    ),
}


@pytest.fixture(scope="module")
def faults(texts: Texts) -> Texts:
    """All of them compiled at once."""
    texts.compile(made(body) for body, _ in FAULTS.values())
    return texts


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str, faults: Texts) -> None:
    """Buffers end at what cannot be touched in one order and begin there in another one; else all orders find it."""
    body, message = FAULTS[name]
    found = []
    for order in ORDERS:
        try:
            ran(faults, made(body), order)
        except TextFault as fault:
            found.append(str(fault))
            assert f"k, {order}: " in str(fault)
    assert any(message in each for each in found), found
    assert len(found) == len(ORDERS) or message.startswith(("touches", "writes"))


def test_after_a_fault_all_goes_on(faults: Texts) -> None:
    good = made("b1[threadIdx.x] = 2.0f * b0[threadIdx.x];")
    for name in ("misses a barrier", "reads behind"):
        with pytest.raises(TextFault):
            ran(faults, made(FAULTS[name][0]))
        np.testing.assert_array_equal(ran(faults, good), 2 * np.arange(ROOM))


def test_a_write_in_the_zone_of_a_buffer(texts: Texts) -> None:
    """The few bytes that keep a buffer aligned are looked at in the end."""
    with pytest.raises(TextFault, match="b1 is written at byte 248 of its 248 bytes"):
        ran(texts, made("b1[62] = 1.0f;"), size=62)


def test_shared_memory_and_locals_begin_with_a_pattern(texts: Texts) -> None:
    body = "__shared__ f32 s0[64]; f32 own[2]; b1[threadIdx.x] = threadIdx.x < 32 ? s0[threadIdx.x] : own[1];"
    for _ in range(2):
        found = ran(texts, made(body + " s0[threadIdx.x] = 1.0f;"), blocks=2)
        assert np.isnan(found[:32]).all() and (np.abs(found[32:]) > 1e30).all()


RACES = {
    "shared": "__shared__ f32 s0[64]; s0[threadIdx.x] = b0[threadIdx.x]; b1[threadIdx.x] = s0[63 - threadIdx.x];",
    "warps": "__shared__ f32 s0[64]; s0[threadIdx.x] = b0[threadIdx.x]; __syncwarp(); "
    "b1[threadIdx.x] = s0[63 - threadIdx.x];",
    "global": "b1[threadIdx.x / 2] = b0[threadIdx.x];",
}


@pytest.mark.parametrize("name", RACES)
def test_races_show_in_the_order(name: str, texts: Texts) -> None:
    found = {ran(texts, made(RACES[name]), order).tobytes() for order in ORDERS}
    assert len(found) > 1


def test_barriers_and_lanes(texts: Texts) -> None:
    """A turned copy through shared memory, and sums by exchanges: the same in every order."""
    body = """__shared__ f32 s0[64]; s0[threadIdx.x] = b0[threadIdx.x]; __syncthreads();
      f32 x = s0[63 - threadIdx.x];
      for (int d = 1; d < 32; d *= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
      __syncthreads(); s0[threadIdx.x] = x; __syncthreads();
      b1[threadIdx.x] = s0[threadIdx.x ^ 32];"""
    for order in ORDERS:
        found = ran(texts, made(body), order)
        np.testing.assert_array_equal(found, [sum(range(32))] * 32 + [sum(range(32, 64))] * 32)


def test_memory_that_is_asked_for(texts: Texts) -> None:
    body = """extern __shared__ __align__(16) ui8 eg_shared[]; f32* const s0 = (f32*)(eg_shared + 16);
      s0[threadIdx.x] = b0[threadIdx.x]; __syncthreads(); b1[threadIdx.x] = s0[63 - threadIdx.x];"""
    np.testing.assert_array_equal(ran(texts, made(body, shared_bytes=16 + 4 * ROOM)), np.arange(ROOM)[::-1])
    with pytest.raises(TextFault, match="touches memory of the block at byte"):
        ran(texts, made(body, shared_bytes=16 + 4 * ROOM - 16))


def test_more_shared_memory_than_there_is(texts: Texts) -> None:
    for kernel in (
        made("__shared__ f32 s0[12289]; s0[threadIdx.x] = 1.0f; b1[0] = s0[0];"),
        made("extern __shared__ __align__(16) ui8 eg_shared[]; b1[0] = eg_shared[0];", shared_bytes=170000),
    ):
        with pytest.raises(TextFault, match="more shared memory than there is"):
            ran(texts, kernel)


def test_parameters_that_share_memory(texts: Texts) -> None:
    x = np.zeros(ROOM, np.float32)
    kernel = made("b1[threadIdx.x] = b0[threadIdx.x];")
    with pytest.raises(TextFault, match="b1, which is written, lies in the memory of b0"):
        texts.run(kernel, [Given(x.ctypes.data, 4 * ROOM), Given(x.ctypes.data + 4 * ROOM - 4, 4)], 1)


def test_arrays_that_are_not_declared_aligned() -> None:
    check_alignment(made("__shared__ __align__(16) f32 s0[64]; *(uint4*)&s0[0] = *(const uint4*)&b0[0];"))
    with pytest.raises(TextFault, match="s0 is accessed by 16 bytes"):
        check_alignment(made("__shared__ f32 s0[64]; *(uint4*)&s0[0] = *(const uint4*)&b0[0];"))


def test_only_assembly_is_taken_out() -> None:
    text = (
        'EG int one() { return 1; }\nEG int two() {\n  asm("{}");\n}\n'
        "template <class T> EG T three(T x) { return x; }\n"
    )
    found = without_assembly(text)
    assert "one" in found and "three" in found and "two" not in found and found.count("\n") == text.count("\n")
