"""The graphs that a device captured, as native code finds them."""

from __future__ import annotations

from egshape.runtime.abi.device import GRAPH_HEAD

RELAXED = 2
"""The mode of a capture: calls of other threads are none of its business."""
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
