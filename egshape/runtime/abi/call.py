"""A call of native code: the structure that it takes, and what it gives back (lower/host/entry.py)."""

from __future__ import annotations

WORDS = (
    "arena",
    "room",
    "inputs",
    "sizes",
    "constants",
    "outputs",
    "rooms",
    "shapes",
    "error",
    "pool",
    "threads",
    "profile",
    "host",
    "strict",
    "device",
)
"""64-bit words of the structure that the native entry takes."""
ERROR_WORDS = 24
PROFILE_WORDS = 4
"""Words of a row of the table ``profile``, for each kernel: calls, nanoseconds, bytes and operations (both double)."""
CHECK, AXIS, MEMORY, SIZE, NO_SIZE, SHAPES, OBJECT, HOST_SIZE, HOST, REDZONE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
"""What the entry gives where it does not give 0; lower/host/entry.py says what the words of the error hold then."""
DEVICE_CALL, DEVICE_MEMORY, DEVICE_CAPTURE, DEVICE_STREAM = 11, 12, 13, 14
"""The same of a device: a call of its driver, its memory, a graph that was captured, another stream."""
LAYOUT = ("items", "type", "array", "data", "rank", "dims", "descr", "flags", "types", "ensure", "release", "clear")
"""Words that say where the fields of array objects lie, before the element types: byte offsets, but ``array``, the
address of the array type; ``types``, the table of other types that are read, each with the address of its exchange
function, which a 0 ends; functions of Python that take and give back its lock, and forget an error."""
ALIGN = 64
"""Bytes that memory which native code gets from the runtime, and weights, begin at a multiple of."""
REDZONE_BYTES = 256
"""Red zones before and behind a buffer; behind, the rest to a multiple of 64 too."""
REDZONE_PATTERN = 0xFB
