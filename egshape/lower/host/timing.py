"""Times of kernels, taken by the entry itself where the caller gives a table for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from egshape.dims import Dim
from egshape.lower.llvm.writer import Writer
from egshape.runtime.abi.call import PROFILE_WORDS


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
