"""Times of kernels, taken by the entry itself where the caller gives a table for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from egshape.dims import Dim
from egshape.lower.llvm.writer import Writer
from egshape.runtime.abi.call import PROFILE_WORDS

FUNCTIONS = """declare i32 @clock_gettime(i32, ptr)
define internal i64 @egs_clock() noinline {
  %time = alloca [2 x i64]
  %r = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %restat = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %restat
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}
define internal void @egs_record(ptr %row, i64 %start, double %bytes, double %flops) noinline {
  %now = call i64 @egs_clock()
  %took = sub i64 %now, %start
  %calls = load i64, ptr %row
  %more = add i64 %calls, 1
  store i64 %more, ptr %row
  %timeat = getelementptr i64, ptr %row, i64 1
  %time = load i64, ptr %timeat
  %longer = add i64 %time, %took
  store i64 %longer, ptr %timeat
  %bytesat = getelementptr double, ptr %row, i64 2
  %oldbytes = load double, ptr %bytesat
  %newbytes = fadd double %oldbytes, %bytes
  store double %newbytes, ptr %bytesat
  %flopsat = getelementptr double, ptr %row, i64 3
  %oldflops = load double, ptr %flopsat
  %newflops = fadd double %oldflops, %flops
  store double %newflops, ptr %flopsat
  ret void
}
"""


@contextmanager
def timed(w: Writer, slot: str, row: int, traffic: Dim, flops: Dim) -> Iterator[None]:
    """Times what is written inside as a row of the table ``%profile``, if there is one (``%profiling``)."""
    with w.when("%profiling"):
        w.line(f"store i64 {w.value('call i64 @egs_clock()')}, ptr {slot}")
    yield
    with w.when("%profiling"):
        at = w.value(f"getelementptr i64, ptr %profile, i64 {row * PROFILE_WORDS}")
        start = w.value(f"load i64, ptr {slot}")
        w.line(
            f"call void @egs_record(ptr {at}, i64 {start}, double {w.dim_float(traffic)}, double {w.dim_float(flops)})"
        )
