"""``egs_pack_T``: a right operand copied to a pack of columns, whole squares of it through registers."""

from __future__ import annotations

from collections.abc import Iterator

from egshape.lower.llvm.elements import Element


def pack_text(t: Element) -> str:
    """Squares of lanes x lanes elements go through registers where columns lie in memory one after the other along l;
    else element by element, along j."""
    n, v = t.lanes, t.vector
    lines = [
        f"define hidden void @egs_pack_{t.dtype}(i64 %k, i64 %n, ptr noalias %s, i64 %sr, i64 %sc, "
        "ptr noalias %t, i64 %w) noinline nounwind {",
        f"""entry:
  %along = icmp eq i64 %sr, 1
  %kb = and i64 %k, -{n}
  %nb = and i64 %n, -{n}
  %kq = select i1 %along, i64 %kb, i64 0
  %nq = select i1 %along, i64 %nb, i64 0
  br label %jhead
jhead:
  %j = phi i64 [ 0, %entry ], [ %jn, %jnext ]
  %jin = icmp slt i64 %j, %nq
  br i1 %jin, label %lhead, label %rest
lhead:
  %l = phi i64 [ 0, %jhead ], [ %ln, %square ]
  %lin = icmp slt i64 %l, %kq
  br i1 %lin, label %square, label %jnext
square:""",
    ]
    for r in range(n):
        lines += [
            f"  %j{r} = add nsw i64 %j, {r}",
            f"  %so{r} = mul nsw i64 %j{r}, %sc",
            f"  %sp{r} = getelementptr {t.name}, ptr %s, i64 %so{r}",
            f"  %sq{r} = getelementptr {t.name}, ptr %sp{r}, i64 %l",
            f"  %x0_{r} = load {v}, ptr %sq{r}, align {t.size}",
        ]
    stages = n.bit_length() - 1
    for stage in range(stages):
        lines += _stage(t, stage)
    for r in range(n):
        lines += [
            f"  %l{r} = add nsw i64 %l, {r}",
            f"  %to{r} = mul nsw i64 %l{r}, %w",
            f"  %tp{r} = getelementptr {t.name}, ptr %t, i64 %to{r}",
            f"  %tq{r} = getelementptr {t.name}, ptr %tp{r}, i64 %j",
            f"  store {v} %x{stages}_{r}, ptr %tq{r}, align {t.size}",
        ]
    return "\n".join(
        [
            *lines,
            f"  %ln = add nuw nsw i64 %l, {n}",
            "  br label %lhead",
            "jnext:",
            f"  %jn = add nuw nsw i64 %j, {n}",
            "  br label %jhead",
            _pack_rest(t),
        ]
    )


def _stage(t: Element, stage: int) -> Iterator[str]:
    """Swap the off-diagonal halves of squares of 2^(stage+1) elements."""
    n, half = t.lanes, 1 << stage
    for r in range(n):
        if r & half:
            continue
        low = [c if not c & half else n + c - half for c in range(n)]
        high = [c + half if not c & half else n + c for c in range(n)]
        for target, order in ((r, low), (r + half, high)):
            picks = ", ".join(f"i32 {c}" for c in order)
            yield (
                f"  %x{stage + 1}_{target} = shufflevector {t.vector} %x{stage}_{r}, "
                f"{t.vector} %x{stage}_{r + half}, <{n} x i32> <{picks}>"
            )


def _pack_rest(t: Element) -> str:
    """Each row from the column (rows that squares covered: from nb, others: from 0) to w."""
    return f"""rest:
  br label %rhead
rhead:
  %r = phi i64 [ 0, %rest ], [ %rn, %rnext ]
  %rin = icmp slt i64 %r, %k
  br i1 %rin, label %row, label %done
row:
  %covered = icmp slt i64 %r, %kq
  %from = select i1 %covered, i64 %nq, i64 0
  %ro = mul nsw i64 %r, %sr
  %rp = getelementptr {t.name}, ptr %s, i64 %ro
  %wo = mul nsw i64 %r, %w
  %wp = getelementptr {t.name}, ptr %t, i64 %wo
  %unit = icmp eq i64 %sc, 1
  br i1 %unit, label %flat, label %chead
flat:
  %bytes = mul nsw i64 %n, {t.size}
  call void @llvm.memcpy.p0.p0.i64(ptr %wp, ptr %rp, i64 %bytes, i1 false)
  br label %zhead
chead:
  %c = phi i64 [ %from, %row ], [ %cn, %copy ]
  %cin = icmp slt i64 %c, %n
  br i1 %cin, label %copy, label %zhead
copy:
  %co = mul nsw i64 %c, %sc
  %cp = getelementptr {t.name}, ptr %rp, i64 %co
  %cv = load {t.name}, ptr %cp
  %cq = getelementptr {t.name}, ptr %wp, i64 %c
  store {t.name} %cv, ptr %cq
  %cn = add nuw nsw i64 %c, 1
  br label %chead
zhead:
  %z = phi i64 [ %n, %flat ], [ %n, %chead ], [ %zn, %zero ]
  %zin = icmp slt i64 %z, %w
  br i1 %zin, label %zero, label %rnext
zero:
  %zq = getelementptr {t.name}, ptr %wp, i64 %z
  store {t.name} 0.0, ptr %zq
  %zn = add nuw nsw i64 %z, 1
  br label %zhead
rnext:
  %rn = add nuw nsw i64 %r, 1
  br label %rhead
done:
  ret void
}}
"""
