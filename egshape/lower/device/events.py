"""Times of kernels by events of the device, recorded where the caller gives a log for them; read after the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from egshape.dims import Dim
from egshape.lower.llvm.writer import Writer

DECLARATIONS = """define internal i1 @egs_event(ptr %log, i64 %which, ptr %record, ptr %stream) noinline {
entry:
  %count = load i64, ptr %log
  %mostat = getelementptr i64, ptr %log, i64 1
  %most = load i64, ptr %mostat
  %room = icmp slt i64 %count, %most
  br i1 %room, label %mark, label %done
mark:
  %eventsat = getelementptr i64, ptr %log, i64 2
  %events = load ptr, ptr %eventsat
  %twice = mul i64 %count, 2
  %number = add i64 %twice, %which
  %at = getelementptr ptr, ptr %events, i64 %number
  %event = load ptr, ptr %at
  %code = call i32 %record(ptr %event, ptr %stream)
  br label %done
done:
  ret i1 %room
}
define internal void @egs_event_end(ptr %log, i64 %row, double %bytes, double %flops, ptr %record,
                                   ptr %stream) noinline {
entry:
  %room = call i1 @egs_event(ptr %log, i64 1, ptr %record, ptr %stream)
  br i1 %room, label %note, label %done
note:
  %count = load i64, ptr %log
  %rowsat = getelementptr i64, ptr %log, i64 3
  %rows = load ptr, ptr %rowsat
  %at = mul i64 %count, 3
  %place = getelementptr i64, ptr %rows, i64 %at
  store i64 %row, ptr %place
  %place1 = getelementptr i64, ptr %place, i64 1
  store double %bytes, ptr %place1
  %place2 = getelementptr i64, ptr %place, i64 2
  store double %flops, ptr %place2
  %more = add i64 %count, 1
  store i64 %more, ptr %log
  br label %done
done:
  ret void
}
"""
"""The log (runtime/cuda/profile.py): pairs of events that were recorded, pairs that there are, the table of events, the
table of rows: row, bytes and operations of each pair."""


@contextmanager
def timed(w: Writer, stream: Callable[[], str], row: int, bytes: Dim, operations: Dim) -> Iterator[None]:
    """A pair of events around what is written inside. ``stream``: reads the stream that they are recorded on."""
    with w.when("%profiling"):
        w.line(f"call i1 @egs_event(ptr %profile, i64 0, ptr %device_record, ptr {stream()})")
    yield
    with w.when("%profiling"):
        size, work = w.dim_float(bytes), w.dim_float(operations)
        w.line(
            f"call void @egs_event_end(ptr %profile, i64 {row}, double {size}, double {work}, ptr %device_record, "
            f"ptr {stream()})"
        )
