"""The graphs that a device captured, as native code finds them.

A key that is seen for the first time leaves its hash behind, and nothing else: sizes that never come again push no
graph out. The second time it gets the row that was used the longest ago, but not one that was used lately, else more
sizes in turn than there are rows would be captured at each call."""

from __future__ import annotations

from egshape.runtime.abi.device import GRAPH_HEAD, GRAPH_LIVE, GRAPH_ROW, GRAPH_SEEN

RELAXED = 2
"""The mode of a capture: calls of other threads are none of its business."""
_HASH_OF = """define internal i64 @egs_graph_hash(ptr %key, i64 %words) noinline {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i64 [ 1, %entry ], [ %mixed, %loop ]
  %wordat = getelementptr i64, ptr %key, i64 %k
  %word = load i64, ptr %wordat
  %both = xor i64 %sum, %word
  %many = mul i64 %both, -7046029254386353131
  %high = lshr i64 %many, 29
  %mixed = xor i64 %many, %high
  %next = add i64 %k, 1
  %again = icmp slt i64 %next, %words
  br i1 %again, label %loop, label %done
done:
  ret i64 %mixed
}
"""
_WAYS = 4
"""Places of a set of hashes that were seen; the lower bits of a hash tell its set."""
_WAYS_SEEN = "".join(
    f"""  %number{k} = add i64 %set, {k}
  %at{k} = getelementptr i64, ptr %seen, i64 %number{k}
  %last{k} = load i64, ptr %at{k}
  %is{k} = icmp eq i64 %last{k}, %hash
  %{"second" if k == _WAYS - 1 else f"any{k}"} = or i1 %is{k}, {f"%any{k - 1}" if k else "false"}
"""
    for k in range(_WAYS)
)
_ENTER = "".join(
    f"""  %moved{k} = select i1 %second, i64 %last{k}, i64 {f"%last{k - 1}" if k else "%hash"}
  store i64 %moved{k}, ptr %at{k}
"""
    for k in range(_WAYS)
)
"""What is new stands in front of the others of its set, the last of which goes."""
SEARCH = f"""declare i32 @memcmp(ptr, ptr, i64)
{_HASH_OF}define internal ptr @egs_graph_row(ptr %graphs, ptr %key, ptr %exec_free) noinline {{
entry:
  %count = load i64, ptr %graphs
  %clockat = getelementptr i64, ptr %graphs, i64 1
  %before = load i64, ptr %clockat
  %clock = add i64 %before, 1
  store i64 %clock, ptr %clockat
  %wordsat = getelementptr i64, ptr %graphs, i64 2
  %words = load i64, ptr %wordsat
  %bytes = mul i64 %words, 8
  %stride = add i64 %words, {len(GRAPH_ROW)}
  %rows = getelementptr i64, ptr %graphs, i64 {GRAPH_HEAD}
  %hash = call i64 @egs_graph_hash(ptr %key, i64 %words)
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %more ]
  %oldest = phi ptr [ %rows, %entry ], [ %older, %more ]
  %least = phi i64 [ {2**63 - 1}, %entry ], [ %lesser, %more ]
  %some = icmp slt i64 %k, %count
  br i1 %some, label %look, label %new
look:
  %at = mul i64 %k, %stride
  %row = getelementptr i64, ptr %rows, i64 %at
  %usedat = getelementptr i64, ptr %row, i64 {GRAPH_ROW.index("used")}
  %used = load i64, ptr %usedat
  %hashat = getelementptr i64, ptr %row, i64 {GRAPH_ROW.index("hash")}
  %known = load i64, ptr %hashat
  %alike = icmp eq i64 %known, %hash
  br i1 %alike, label %compare, label %more
compare:
  %held = getelementptr i64, ptr %row, i64 {len(GRAPH_ROW)}
  %differ = call i32 @memcmp(ptr %held, ptr %key, i64 %bytes)
  %same = icmp eq i32 %differ, 0
  br i1 %same, label %found, label %more
more:
  %earlier = icmp slt i64 %used, %least
  %lesser = select i1 %earlier, i64 %used, i64 %least
  %older = select i1 %earlier, ptr %row, ptr %oldest
  %next = add i64 %k, 1
  br label %loop
found:
  store i64 %clock, ptr %usedat
  ret ptr %row
new:
  %behind = mul i64 %count, %stride
  %seen = getelementptr i64, ptr %rows, i64 %behind
  %set = and i64 %hash, {GRAPH_SEEN - _WAYS}
{_WAYS_SEEN}{_ENTER}  %lately = sub i64 %clock, %least
  %patience = mul i64 %count, {GRAPH_LIVE}
  %rested = icmp sgt i64 %lately, %patience
  %unused = icmp eq i64 %least, 0
  %free = or i1 %unused, %rested
  %take = and i1 %second, %free
  br i1 %take, label %taken, label %none
none:
  ret ptr null
taken:
  %graph = load ptr, ptr %oldest
  %captured = icmp ne ptr %graph, null
  br i1 %captured, label %drop, label %keep
drop:
  %dropped = call i32 %exec_free(ptr %graph)
  br label %keep
keep:
  store ptr null, ptr %oldest
  %stampat = getelementptr i64, ptr %oldest, i64 {GRAPH_ROW.index("used")}
  store i64 %clock, ptr %stampat
  %newhashat = getelementptr i64, ptr %oldest, i64 {GRAPH_ROW.index("hash")}
  store i64 %hash, ptr %newhashat
  %place = getelementptr i64, ptr %oldest, i64 {len(GRAPH_ROW)}
  call void @llvm.memcpy.p0.p0.i64(ptr %place, ptr %key, i64 %bytes, i1 false)
  ret ptr %oldest
}}
"""
