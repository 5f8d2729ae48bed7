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
TYPES = {
    "inputs": "const void *const *",
    "sizes": "const int64_t *",
    "constants": "const void *const *",
    "outputs": "void **",
    "rooms": "int64_t *",
    "shapes": "int64_t *",
    "error": "int64_t *",
    "pool": "void *",
    "arena": "void *",
    "profile": "void *",
    "host": "void *",
}
"""What the words are in C, where they are no ``int64_t``."""
ERROR_WORDS = 24
PROFILE = ("calls", "nanoseconds", "bytes", "operations")
PROFILE_WORDS = len(PROFILE)
"""Words of a row of the table ``profile``, for each kernel; the last two are doubles."""
CHECK, AXIS, MEMORY, SIZE, NO_SIZE, SHAPES, OBJECT, HOST_SIZE, HOST, REDZONE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
"""What the entry gives where it does not give 0; lower/host/entry.py says what the words of the error hold then."""
DEVICE_CALL, DEVICE_MEMORY, DEVICE_CAPTURE, DEVICE_STREAM = 11, 12, 13, 14
"""The same of a device: a call of its driver, its memory, a graph that was captured, another stream."""
ARRAY_FIELDS = ("items", "type", "array", "data", "rank", "dims", "descr", "flags")
"""Words that say where the fields of array objects lie: byte offsets, but ``array``, the address of the array type."""
PLAIN = 0x0101
"""numpy's flags of an array that is contiguous and aligned."""
READER = ("type", "read")
"""A type and its owner's function dltensor_from_py_object_no_sync (DLPack 1.3)."""
LAYOUT = (*ARRAY_FIELDS, "types", "ensure", "release", "clear")
"""The words before the element types of inputs, first as objects of numpy and then as DLPack writes them (code, bits,
lanes): ``types``, the table of other types that are read, READER words each, which a 0 ends; functions of Python that
take and give back its lock, and forget an error."""
STRICT, MEASURE = 1, 2
"""Bits of ``strict``: the outputs must have the shapes that the table of shapes holds; nothing is run, the entry gives
MEASURED and the bytes of its arena as the word of the error."""
MEASURED = 15
IMAGES, IMAGES_PORT = ("axis", "constants", "inputs", "outputs"), ("rank", "width", "cut")
"""What runtime/native/images.c must know of a program that does the same to each image: the place of their number in
``sizes``, bytes of constants, how many inputs and outputs there are; then for each of these its rank, the bytes of an
element, and whether its first axis is that of the images."""
PROGRAM, PROGRAM_PORT = ("inputs", "outputs"), ("rank", "width", "given")
"""A constant of a program's code: how many inputs and outputs there are; then for each input and each output its rank,
the bytes of an element, and whether the caller gives memory for it (an output whose size is known at the entry)."""
ALIGN = 64
"""Bytes that memory which native code gets from the runtime, and weights, begin at a multiple of."""
ARRAY_ALIGN = 16
"""What code may rely on of the address of an array; others are copied."""
REDZONE_BYTES = 256
"""Red zones before and behind a buffer; behind, the rest to a multiple of 64 too."""
REDZONE_PATTERN = 0xFB
VERSION = 5
"""Of artifacts, their manifests, and the tables of calls."""
DONE = 0x444F4E45
"""What a function of Python that native code calls gives when it is done: one that an interrupt ends before it begins
gives anything."""
POOL_VERSION = 2
"""Of the layout of a thread pool: one that one library made serves all libraries of the same version."""
CPU, CUDA = 1, 2
"""Kinds of devices, as DLPack writes them."""
LEGACY, PER_THREAD = 1, 2
"""Handles of CUDA's default streams; the first one is 0 too."""
