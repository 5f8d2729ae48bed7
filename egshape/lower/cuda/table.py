"""The table through which a program drives a device: addresses of the driver's functions, and what it hands them."""

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
"""64-bit words of the table (runtime/cuda_call.py has the same). ``functions``: the kernels in the order of the
manifest's ``functions``; ``constants``: their addresses on the device; ``hosted``: for each input, then each output, 1
if the caller's memory is the host's, 2 for an input on the device that is not aligned, else 0; ``graphs``: the graphs
that were captured, or null; ``capture``: the stream that they are captured on; ``gemm``: the state of
a library's products (lower/cuda/gemm.py), or null; ``event``: one without times; ``results``: memory of earlier results
(lower/cuda/objects.py); ``pinned``: memory of the host for copies without a wait; ``ring``: how much of its ring is in
use (lower/cuda/decide.py)."""

RELAXED = 2
"""The mode of a capture: calls of other threads are none of its business."""
GRAPH_HEAD = 3
"""Words before the rows of ``graphs``: how many there are, which is replaced next, the words of a key. A row is the
graph (0: the key was seen once) and its key."""

GRAPH_ROW = f"""declare i32 @memcmp(ptr, ptr, i64)
define internal ptr @egs_graph_row(ptr %graphs, ptr %key, ptr %exec_free) noinline {{
entry:
  %count = load i64, ptr %graphs
  %wordsat = getelementptr i64, ptr %graphs, i64 2
  %words = load i64, ptr %wordsat
  %bytes = mul i64 %words, 8
  %stride = add i64 %words, 1
  %rows = getelementptr i64, ptr %graphs, i64 {GRAPH_HEAD}
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %more ]
  %some = icmp slt i64 %k, %count
  br i1 %some, label %look, label %new
look:
  %at = mul i64 %k, %stride
  %row = getelementptr i64, ptr %rows, i64 %at
  %held = getelementptr i64, ptr %row, i64 1
  %differ = call i32 @memcmp(ptr %held, ptr %key, i64 %bytes)
  %same = icmp eq i32 %differ, 0
  br i1 %same, label %found, label %more
more:
  %next = add i64 %k, 1
  br label %loop
found:
  ret ptr %row
new:
  %cursorat = getelementptr i64, ptr %graphs, i64 1
  %cursor = load i64, ptr %cursorat
  %after = add i64 %cursor, 1
  %wrapped = srem i64 %after, %count
  store i64 %wrapped, ptr %cursorat
  %oldat = mul i64 %cursor, %stride
  %old = getelementptr i64, ptr %rows, i64 %oldat
  %graph = load ptr, ptr %old
  %captured = icmp ne ptr %graph, null
  br i1 %captured, label %drop, label %keep
drop:
  %dropped = call i32 %exec_free(ptr %graph)
  br label %keep
keep:
  store ptr null, ptr %old
  %place = getelementptr i64, ptr %old, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %place, ptr %key, i64 %bytes, i1 false)
  ret ptr null
}}
"""
