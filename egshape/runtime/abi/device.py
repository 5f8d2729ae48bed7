"""A call of a program that drives a device: its table, and the one through which it reads objects itself."""

from __future__ import annotations

from egshape.runtime.abi.call import ARRAY_ALIGN, ARRAY_FIELDS

FUNCTIONS = {
    "push": "cuCtxPushCurrent_v2",
    "pop": "cuCtxPopCurrent_v2",
    "launch": "cuLaunchKernel",
    "allocate": "cuMemAllocFromPoolAsync",
    "free": "cuMemFreeAsync",
    "up": "cuMemcpyHtoDAsync_v2",
    "down": "cuMemcpyDtoHAsync_v2",
    "across": "cuMemcpyDtoDAsync_v2",
    "wait": "cuStreamSynchronize",
    "record": "cuEventRecord",
    "begin_capture": "cuStreamBeginCapture_v2",
    "end_capture": "cuStreamEndCapture",
    "instantiate": "cuGraphInstantiateWithFlags",
    "graph_launch": "cuGraphLaunch",
    "graph_free": "cuGraphDestroy",
    "exec_free": "cuGraphExecDestroy",
    "follow": "cuStreamWaitEvent",
    "fill": "cuMemsetD8Async",
    "capturing": "cuStreamIsCapturing",
}
"""Words that hold addresses of functions, and their names in the driver; each gives 0 or an error."""
WORDS = (
    *FUNCTIONS,
    "context",
    "stream",
    "pool",
    "functions",
    "constants",
    "hosted",
    "graphs",
    "capture",
    "gemm",
    "event",
    "results",
    "pinned",
    "ring",
    "attend",
)
"""64-bit words of the table. ``functions``: the kernels in the order of the
manifest's ``functions``; ``constants``: their addresses on the device; ``hosted``: for each input, then each output,
HOSTED, UNALIGNED or 0; ``graphs``: the graphs
that were captured, or null; ``capture``: the stream that they are captured on; ``gemm``: the state of
a library's products (abi/products.py), or null; ``event``: one without times; ``results``: memory of earlier results
(RESULT_WORDS); ``pinned``: memory of the host for copies without a wait; ``ring``: how much of its ring is in
use (lower/device/decide.py); ``attend``: int32 attend(words, stream), a library's attention (abi/attention.py) that
gives DONE if it ran, or null."""
HOSTED, UNALIGNED = 1, 2
"""What the table ``hosted`` says of an array that is not computed with where it lies: the caller's memory is the
host's, or an input on the device is not aligned."""
ALIGN = ARRAY_ALIGN
"""What kernels may rely on of the address of an array."""
TYPES = {
    "push": "int32_t (*{})(void *)",
    "pop": "int32_t (*{})(void **)",
    "record": "int32_t (*{})(void *, void *)",
    "follow": "int32_t (*{})(void *, void *, uint32_t)",
    "context": "void *",
    "stream": "void *",
    "event": "void *",
    "hosted": "int64_t *",
    "results": "struct egs_result *",
}
"""What those words are in C which C code reads."""
RELAXED = 2
"""The mode of a capture: calls of other threads are none of its business."""
GRAPHS = ("count", "clock", "words")
GRAPH_HEAD = len(GRAPHS)
"""Words before the rows of ``graphs``: how many there are, how often one was sought, the words of a key."""
GRAPH_ROW = ("graph", "used", "hash")
"""Words of a row before its key: the graph (0: the next call captures it), when it was used last (0: never)."""
GRAPH_SEEN = 4096
"""Words behind the rows, a power of two: hashes of keys that were seen."""
GRAPH_WAYS = 4
"""Places of a set of them; the lower bits of a hash tell its set."""
GRAPH_LIVE = 4
"""A graph gives way to another one once so many times the number of rows were sought without it."""
KEPT = 2
"""Blocks of memory of a result that are kept for later calls."""
RESULT, RESULT_BLOCK = ("shape", "chosen"), ("object", "address", "bytes")
RESULT_WORDS = len(RESULT) + len(RESULT_BLOCK) * KEPT
"""Words of a result in the table ``results``: its shape as a tuple, the number of the block that it lies in or -1, then
object, address and bytes of each block. Behind the last result: the sizes that the tuples hold."""
LOG, LOG_ROW = ("count", "most", "events", "rows"), ("row", "bytes", "operations")
"""The table of a profile: pairs of events that were recorded, pairs that there are, the events, and a row for each
pair: the kernel's number, bytes and operations (both double)."""
OBJECT_WORDS = (
    *ARRAY_FIELDS,
    "own",
    "block",
    "shape",
    "dtype",
    "address",
    "queue",
    "driver",
    "none",
    "number_of",
    "size",
    "clear",
    "save",
    "restore",
    "alloc",
    "hold",
    "drop",
    "tuple",
    "place",
    "number",
    "this",
    "device",
    "stream",
    "count",
    "types",
    "ports",
)
"""64-bit words of the table that says how objects are read and made. ``own``: the
type of our arrays; ``block`` to ``dtype``: where its fields lie; ``address`` to ``driver``: where those of a block lie;
``none``: None; ``number_of`` to ``number``: functions of Python; ``this``: the driver of the function, ``device`` its
number, ``stream`` the function's own stream; ``count`` ``types`` of TYPE words; ``ports``: PORT words for each input,
then each output."""
OBJECT_TYPES = {
    "own": "void *",
    "none": "void *",
    "number_of": "int64_t (*{})(void *)",
    "size": "int64_t (*{})(void *)",
    "clear": "void (*{})(void)",
    "save": "void *(*{})(void)",
    "restore": "void (*{})(void *)",
    "alloc": "void *(*{})(void *, int64_t)",
    "hold": "void (*{})(void *)",
    "drop": "void (*{})(void *)",
    "tuple": "void *(*{})(int64_t)",
    "place": "int32_t (*{})(void *, int64_t, void *)",
    "number": "void *(*{})(int64_t)",
    "this": "void *",
    "stream": "void *",
    "types": "const struct egs_owner *",
    "ports": "const struct egs_port *",
}
TYPE = ("type", "read", "queue")
"""A type, and its owner's functions dltensor_from_py_object_no_sync and current_work_stream (DLPack 1.3)."""
PORT = ("descr", "kind", "rank")
"""The element type as an object of numpy and as DLPack writes it (code, bits, lanes), the rank."""
