"""Products through cuBLASLt: descriptors and algorithms are made once for a shape, and found again by native code
(runtime/native/products.c).

The table's word ``gemm`` is null where there is no library, else the address of STATE: what to call, and rows of what
was made, one for each hash of a shape. Only a shape that has no row calls back to what makes it. Where the library has
no algorithm, or a side is empty, the step's own kernel runs."""

from __future__ import annotations

from collections.abc import Callable

from egshape.dims import const
from egshape.ir.types import itemsize
from egshape.lower.device.calls import Calls
from egshape.plan.ir.program import Gemm, GemmOperand
from egshape.runtime.abi.products import BIAS, GELU, KEY, KINDS, POINTERS


def emit(device: Calls, step: Gemm, otherwise: Callable[[], None]) -> None:
    """Call the library, else do what ``otherwise`` writes."""
    w = device.w
    out = step.out
    bytes = step.count * (
        step.m * step.k * itemsize(step.left.buffer.dtype)
        + step.k * step.n * itemsize(step.right.buffer.dtype)
        + step.m * step.n * itemsize(out.dtype) * (1 if step.residual is None else 2)
    )
    state = w.value(f"load ptr, ptr {device.word('gemm')}")
    done = w.slot("i1")
    w.line(f"store i1 false, ptr {done}")
    usable = w.value(f"icmp ne ptr {state}, null")
    for size in (step.count, step.m, step.n, step.k):
        some = w.value(f"icmp sgt i64 {w.dim(size)}, 0")
        usable = w.value(f"and i1 {usable}, {some}")
    with (
        w.when(usable),
        device.named(
            f"gemm_{step.kernel.label}", step.kernel.where, bytes, const(2) * step.count * step.m * step.n * step.k
        ),
    ):
        addresses = [
            *(device.place(side.buffer, side.offset) for side in (step.left, step.right)),
            *("0" if each is None else device.place(each, const(0)) for each in (out, step.bias, step.residual)),
        ]
        alignment = "0"
        for number, address in enumerate(addresses):
            last = w.value(f"and i64 {address}, 255")
            alignment = w.value(f"or i64 {alignment}, {w.value(f'shl i64 {last}, {8 * number}')}")
        kind = KINDS.index((step.left.buffer.dtype, out.dtype))
        sizes = [w.dim(size) for size in (step.count, step.m, step.n, step.k)]
        extras = (BIAS if step.bias is not None else 0) + (GELU if step.gelu else 0)
        key = [str(kind), *sizes, *_words(device, step.left), *_words(device, step.right), str(extras), alignment]
        assert (len(key), len(addresses)) == (len(KEY), len(POINTERS))
        words = device.listed([*key, *addresses])
        code = w.value(f"call i32 @egs_gemm(ptr {state}, ptr {words}, ptr {device.stream()})")
        w.line(f"store i1 {w.value(f'icmp eq i32 {code}, 0')}, ptr {done}")
    ran = w.value(f"load i1, ptr {done}")
    with w.when(w.value(f"xor i1 {ran}, true")):
        otherwise()


def _words(device: Calls, side: GemmOperand) -> list[str]:
    w = device.w
    return [w.dim(side.pitch), w.dim(side.step), str(int(side.turned))]
