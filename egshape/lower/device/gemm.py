"""Products through cuBLASLt: descriptors and algorithms are made once for a shape, and found again by native code.

The table's word ``gemm`` is null where there is no library, else the address of STATE: what to call, and rows of what
was made, one for each hash of a shape. Only a shape that has no row calls back to what makes it. Where the library has
no algorithm, or a side is empty, the step's own kernel runs."""

from __future__ import annotations

from collections.abc import Callable

from egshape.dims import const
from egshape.ir.types import itemsize
from egshape.lower.device.calls import Calls
from egshape.plan.ir.program import Gemm, Side
from egshape.runtime.abi.products import BIAS, BIAS_POINTER, GELU, KEY, KINDS, MADE, ROW, STATE

_POINTERS = ("left", "right", "out", "bias", "residual")


def _field(number: int, name: str, type: str = "ptr") -> str:
    return f"  %{name}at = getelementptr i64, ptr %state, i64 {number}\n  %{name} = load {type}, ptr %{name}at\n"


def _made(name: str) -> str:
    number = len(KEY) + MADE.index(name)
    return f"  %{name}made = getelementptr i64, ptr %row, i64 {number}\n  %{name}of = load ptr, ptr %{name}made\n"


def _pointer(name: str) -> str:
    number = len(KEY) + _POINTERS.index(name)
    return f"  %{name}word = getelementptr i64, ptr %words, i64 {number}\n  %{name} = load ptr, ptr %{name}word\n"


DECLARATIONS = f"""
@egs_gemm_one32 = internal constant float 1.0
@egs_gemm_nil32 = internal constant float 0.0
@egs_gemm_one64 = internal constant double 1.0
@egs_gemm_nil64 = internal constant double 0.0
define internal i32 @egs_gemm(ptr %state, ptr %words, ptr %stream) noinline {{
entry:
{_field(6, "mask", "i64")}{_field(7, "rows")}  br label %hash
hash:
  %k = phi i64 [ 0, %entry ], [ %next, %hash ]
  %sum = phi i64 [ 0, %entry ], [ %mixed, %hash ]
  %wordat = getelementptr i64, ptr %words, i64 %k
  %word = load i64, ptr %wordat
  %both = xor i64 %sum, %word
  %many = mul i64 %both, -7046029254386353131
  %high = lshr i64 %many, 29
  %mixed = xor i64 %many, %high
  %next = add i64 %k, 1
  %again = icmp slt i64 %next, {len(KEY)}
  br i1 %again, label %hash, label %find
find:
  %number = and i64 %mixed, %mask
  %place = mul i64 %number, {ROW}
  %row = getelementptr i64, ptr %rows, i64 %place
  %differ = call i32 @memcmp(ptr %row, ptr %words, i64 {8 * len(KEY)})
  %same = icmp eq i32 %differ, 0
  br i1 %same, label %found, label %new
new:
  call void @llvm.memcpy.p0.p0.i64(ptr %row, ptr %words, i64 {8 * len(KEY)}, i1 false)
{_field(3, "make")}  %ignored = call i32 %make(ptr %row, ptr %words, ptr %stream)
  br label %found
found:
{_made("descriptor")}  %none = icmp eq ptr %descriptorof, null
  br i1 %none, label %never, label %ready
never:
  ret i32 -1
ready:
{"".join(map(_pointer, _POINTERS))}{_field(0, "handle")}{_field(1, "matmul")}{_field(2, "set")}\
{_field(4, "workspace")}{_field(5, "workspace_bytes", "i64")}{_made("left")}{_made("right")}{_made("out")}\
  %algorithmof = getelementptr i64, ptr %row, i64 {len(KEY) + MADE.index("algorithm")}
  %bare = icmp eq ptr %bias, null
  br i1 %bare, label %run, label %biased
biased:
  %setcode = call i32 %set(ptr %descriptorof, i32 {BIAS_POINTER}, ptr %biasword, i64 8)
  br label %run
run:
  %kind = load i64, ptr %words
  %double = icmp eq i64 %kind, {KINDS.index(("f64", "f64"))}
  %alpha = select i1 %double, ptr @egs_gemm_one64, ptr @egs_gemm_one32
  %nil = select i1 %double, ptr @egs_gemm_nil64, ptr @egs_gemm_nil32
  %alone = icmp eq ptr %residual, null
  %beta = select i1 %alone, ptr %nil, ptr %alpha
  %more = select i1 %alone, ptr %out, ptr %residual
  %code = call i32 %matmul(ptr %handle, ptr %descriptorof, ptr %alpha, ptr %right, ptr %rightof, ptr %left, ptr %leftof,
    ptr %beta, ptr %more, ptr %outof, ptr %out, ptr %outof, ptr %algorithmof, ptr %workspace, i64 %workspace_bytes,
    ptr %stream)
  %fails = icmp ne i32 %code, 0
  br i1 %fails, label %failed, label %done
failed:
  %failedat = getelementptr i64, ptr %state, i64 {STATE.index("failed")}
  %before = load i64, ptr %failedat
  %after = add i64 %before, 1
  store i64 %after, ptr %failedat
  %statusat = getelementptr i64, ptr %state, i64 {STATE.index("status")}
  %status = sext i32 %code to i64
  store i64 %status, ptr %statusat
  br label %done
done:
  ret i32 %code
}}
"""


def emit(device: Calls, step: Gemm, otherwise: Callable[[], None]) -> None:
    """Call the library, else do what ``otherwise`` writes."""
    w, host = device.w, device.host
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
        pointers = [
            _address(device, step.left),
            _address(device, step.right),
            host.pointers[out],
            *("null" if each is None else host.pointers[each] for each in (step.bias, step.residual)),
        ]
        addresses = [w.value(f"ptrtoint ptr {pointer} to i64") for pointer in pointers]
        alignment = "0"
        for number, address in enumerate(addresses):
            last = w.value(f"and i64 {address}, 255")
            alignment = w.value(f"or i64 {alignment}, {w.value(f'shl i64 {last}, {8 * number}')}")
        kind = KINDS.index((step.left.buffer.dtype, out.dtype))
        sizes = [w.dim(size) for size in (step.count, step.m, step.n, step.k)]
        extras = (BIAS if step.bias is not None else 0) + (GELU if step.gelu else 0)
        key = [str(kind), *sizes, *_words(device, step.left), *_words(device, step.right), str(extras), alignment]
        words = w.slot(f"[{len(KEY) + len(_POINTERS)} x i64]")
        for number, word in enumerate((*key, *addresses)):
            w.line(f"store i64 {word}, ptr {w.value(f'getelementptr i64, ptr {words}, i64 {number}')}")
        code = w.value(f"call i32 @egs_gemm(ptr {state}, ptr {words}, ptr {device.stream()})")
        w.line(f"store i1 {w.value(f'icmp eq i32 {code}, 0')}, ptr {done}")
    ran = w.value(f"load i1, ptr {done}")
    with w.when(w.value(f"xor i1 {ran}, true")):
        otherwise()


def _address(device: Calls, side: Side) -> str:
    w = device.w
    offset = w.dim(side.offset * itemsize(side.buffer.dtype))
    return w.value(f"getelementptr i8, ptr {device.host.pointers[side.buffer]}, i64 {offset}")


def _words(device: Calls, side: Side) -> list[str]:
    w = device.w
    return [w.dim(side.pitch), w.dim(side.step), str(int(side.turned))]
