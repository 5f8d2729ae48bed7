"""A call of a program that drives a device: its table, and the one through which it reads objects itself."""

from __future__ import annotations

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
)
"""64-bit words of the table. ``functions``: the kernels in the order of the
manifest's ``functions``; ``constants``: their addresses on the device; ``hosted``: for each input, then each output,
HOSTED, UNALIGNED or 0; ``graphs``: the graphs
that were captured, or null; ``capture``: the stream that they are captured on; ``gemm``: the state of
a library's products (abi/products.py), or null; ``event``: one without times; ``results``: memory of earlier results
(RESULT_WORDS); ``pinned``: memory of the host for copies without a wait; ``ring``: how much of its ring is in
use (lower/device/decide.py)."""
HOSTED, UNALIGNED = 1, 2
"""What the table ``hosted`` says of an array that is not computed with where it lies: the caller's memory is the
host's, or an input on the device is not aligned."""
ALIGN = 16
"""What kernels may rely on of the address of an array."""
GRAPH_HEAD = 3
"""Words before the rows of ``graphs``: how many there are, how often one was sought, the words of a key."""
GRAPH_ROW = ("graph", "used", "hash")
"""Words of a row before its key: the graph (0: the next call captures it), when it was used last (0: never)."""
GRAPH_SEEN = 4096
"""Words behind the rows, a power of two: hashes of keys that were seen."""
GRAPH_LIVE = 4
"""A graph gives way to another one once so many times the number of rows were sought without it."""
KEPT = 2
"""Blocks of memory of a result that are kept for later calls."""
RESULT_WORDS = 2 + 3 * KEPT
"""Words of a result in the table ``results``: its shape as a tuple, the number of the block that it lies in or -1, then
object, address and bytes of each block. Behind the last result: the sizes that the tuples hold."""
OBJECT_WORDS = (
    "items",
    "type",
    "array",
    "data",
    "rank",
    "dims",
    "descr",
    "flags",
    "own",
    "block",
    "shape",
    "dtype",
    "address",
    "queue",
    "driver",
    "none",
    "long",
    "size",
    "clear",
    "save",
    "restore",
    "alloc",
    "hold",
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
"""64-bit words of the table that says how objects are read and made. The first eight: abi/call.py, LAYOUT. ``own``: the
type of our arrays; ``block`` to ``dtype``: where its fields lie; ``address`` to ``driver``: where those of a block lie;
``none``: None; ``long`` to ``number``: functions of Python; ``this``: the driver of the function, ``device`` its
number, ``stream`` the function's own stream; ``count`` ``types`` of TYPE words; ``ports``: PORT words for each input,
then each output."""
TYPE = ("type", "read", "queue")
"""A type, and its owner's functions dltensor_from_py_object_no_sync and current_work_stream (DLPack 1.3)."""
PORT = ("descr", "kind", "rank")
"""The element type as an object of numpy and as DLPack writes it (code, bits, lanes), the rank."""
