"""Red zones: for tests, bytes around every buffer of the arena that no kernel may touch.

In this mode every buffer has a place of its own, filled with a pattern together with what lies around it before the
program runs; after each kernel the zones of its buffers are compared. What reads outside of its buffers, or before it
writes, meets the pattern: a large negative number. A buffer whose size only data tells has its zone behind it. Inputs
and outputs have their zones in runtime/core/redzones.py."""

from __future__ import annotations

from egshape.lower.llvm.writer import Writer
from egshape.runtime.abi.call import REDZONE_BYTES, REDZONE_PATTERN

DECLARATIONS = """declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def fill(w: Writer, arena: str, total: str) -> None:
    """Write the pattern to all of the arena."""
    w.line(f"call void @llvm.memset.p0.i64(ptr {arena}, i8 {REDZONE_PATTERN - 256}, i64 {total}, i1 false)")


def fill_behind(w: Writer, start: str, exact: str, room: str) -> None:
    """Write the pattern behind a buffer that lies alone."""
    end = w.value(f"getelementptr i8, ptr {start}, i64 {exact}")
    fill(w, end, w.value(f"sub i64 {room}, {exact}"))


def broken(w: Writer, start: str, exact: str, room: str, before: bool) -> str:
    """An i1: something wrote to a zone of a buffer of ``exact`` bytes at ``start`` that has ``room`` bytes to the next
    one's zone. ``before``: it has a zone before it too."""
    if not before:
        return _behind(w, start, exact, room)
    zone = w.value(f"getelementptr i8, ptr {start}, i64 -{REDZONE_BYTES}")
    first = _touched(w, zone, str(REDZONE_BYTES))
    return w.value(f"or i1 {first}, {_behind(w, start, exact, room)}")


def _behind(w: Writer, start: str, exact: str, room: str) -> str:
    end = w.value(f"getelementptr i8, ptr {start}, i64 {exact}")
    rest = w.value(f"sub i64 {room}, {exact}")
    return _touched(w, end, rest)


def _touched(w: Writer, first: str, bytes: str) -> str:
    return w.value(f"icmp ne i32 {w.value(f'call i32 @egs_broken(ptr {first}, i64 {bytes})')}, 0")
