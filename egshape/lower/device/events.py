"""Times of kernels by events of the device, recorded where the caller gives a log for them; read after the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from egshape.dims import Dim
from egshape.lower.llvm.writer import Writer


@contextmanager
def timed(w: Writer, stream: Callable[[], str], row: int, bytes: Dim, operations: Dim) -> Iterator[None]:
    """A pair of events around what is written inside. ``stream``: reads the stream that they are recorded on."""
    with w.when("%profiling"):
        w.line(f"call i32 @egs_event(ptr %profile, i64 0, ptr %device_record, ptr {stream()})")
    yield
    with w.when("%profiling"):
        size, work = w.dim_float(bytes), w.dim_float(operations)
        w.line(
            f"call void @egs_event_end(ptr %profile, i64 {row}, double {size}, double {work}, ptr %device_record, "
            f"ptr {stream()})"
        )
