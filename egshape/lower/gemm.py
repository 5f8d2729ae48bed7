"""An own f32 matrix product for few rows, where packing the right side (what a BLAS does) costs more than it saves.

``egs_gemm(m, n, k, a, ar, ac, b, br, c, cr)``: a(i, l) at i*ar + l*ac, b(l, j) at l*br + j, c(i, j) at i*cr + j.
Blocks of 8, 4, 2, 1 rows by 48 columns are held in registers while l runs; the last columns go masked, 16 at a time."""

from __future__ import annotations

ROWS = (8, 4, 2, 1)
WIDTH = 16
MOST_ROWS = 32
"""From more rows on the vendor's packed product is faster (benchmarks/cpu.py, sequences of 16 to 128)."""
_VECTOR = f"<{WIDTH} x float>"
_MASK = f"<{WIDTH} x i1>"
_ARGS = "i64 %k, ptr %a, i64 %ar, i64 %ac, ptr %b, i64 %br, ptr %c, i64 %cr"

DECLARATIONS = f"""declare {_VECTOR} @llvm.fma.v{WIDTH}f32({_VECTOR}, {_VECTOR}, {_VECTOR})
declare {_VECTOR} @llvm.masked.load.v{WIDTH}f32.p0(ptr, i32, {_MASK}, {_VECTOR})
declare void @llvm.masked.store.v{WIDTH}f32.p0({_VECTOR}, ptr, i32, {_MASK})
"""


def _kernel(rows: int, vectors: int, masked: bool) -> str:
    """c = a b for a block of rows and vectors of columns."""
    name, mask = _name(rows, masked), f", {_MASK} %mask" if masked else ""
    cells = [(r, v) for r in range(rows) for v in range(vectors)]
    lines = [f"define internal void @{name}({_ARGS}{mask}) nounwind {{", "entry:",
             "  %some = icmp sgt i64 %k, 0", "  br i1 %some, label %loop, label %store", "loop:",
             "  %l = phi i64 [ 0, %entry ], [ %next, %loop ]"]
    for r, v in cells:
        lines.append(f"  %s{r}_{v} = phi {_VECTOR} [ zeroinitializer, %entry ], [ %f{r}_{v}, %loop ]")
    lines += ["  %brow = mul nsw i64 %l, %br", "  %acol = mul nsw i64 %l, %ac"]
    for v in range(vectors):
        lines += [f"  %bi{v} = add nsw i64 %brow, {WIDTH * v}",
                  f"  %bp{v} = getelementptr inbounds float, ptr %b, i64 %bi{v}",
                  f"  %bv{v} = {_load(f'%bp{v}', masked)}"]
    for r in range(rows):
        lines += [f"  %ao{r} = mul nsw i64 %ar, {r}", f"  %ai{r} = add nsw i64 %ao{r}, %acol",
                  f"  %ap{r} = getelementptr inbounds float, ptr %a, i64 %ai{r}", f"  %av{r} = load float, ptr %ap{r}",
                  f"  %ae{r} = insertelement {_VECTOR} poison, float %av{r}, i32 0",
                  f"  %as{r} = shufflevector {_VECTOR} %ae{r}, {_VECTOR} poison, <{WIDTH} x i32> zeroinitializer"]
    for r, v in cells:
        lines.append(f"  %f{r}_{v} = call {_VECTOR} @llvm.fma.v{WIDTH}f32({_VECTOR} %as{r}, {_VECTOR} %bv{v}, "
                     f"{_VECTOR} %s{r}_{v})")
    lines += ["  %next = add nuw nsw i64 %l, 1", "  %more = icmp slt i64 %next, %k",
              "  br i1 %more, label %loop, label %store", "store:"]
    for r, v in cells:
        lines.append(f"  %t{r}_{v} = phi {_VECTOR} [ zeroinitializer, %entry ], [ %f{r}_{v}, %loop ]")
    for r, v in cells:
        lines += [f"  %co{r}_{v} = mul nsw i64 %cr, {r}", f"  %ci{r}_{v} = add nsw i64 %co{r}_{v}, {WIDTH * v}",
                  f"  %cp{r}_{v} = getelementptr inbounds float, ptr %c, i64 %ci{r}_{v}",
                  f"  {_store(f'%t{r}_{v}', f'%cp{r}_{v}', masked)}"]
    return "\n".join([*lines, "  ret void", "}", ""])


def _name(rows: int, masked: bool) -> str:
    return f"egs_gemm_{rows}_{'tail' if masked else 'full'}"


def _load(pointer: str, masked: bool) -> str:
    if masked:
        return (f"call {_VECTOR} @llvm.masked.load.v{WIDTH}f32.p0(ptr {pointer}, i32 4, {_MASK} %mask, "
                f"{_VECTOR} zeroinitializer)")
    return f"load {_VECTOR}, ptr {pointer}, align 4"


def _store(value: str, pointer: str, masked: bool) -> str:
    if masked:
        return f"call void @llvm.masked.store.v{WIDTH}f32.p0({_VECTOR} {value}, ptr {pointer}, i32 4, {_MASK} %mask)"
    return f"store {_VECTOR} {value}, ptr {pointer}, align 4"


def _rows(masked: bool) -> str:
    """All rows of a block of columns: as many as fit of each kernel, the largest first."""
    name, mask = f"egs_gemm_{'tail' if masked else 'full'}", f", {_MASK} %mask" if masked else ""
    lines = [f"define internal void @{name}(i64 %m, {_ARGS}{mask}) nounwind {{", "entry:", "  br label %head8"]
    before = "0"
    for k, rows in enumerate(ROWS):
        after = f"head{ROWS[k + 1]}" if k + 1 < len(ROWS) else "done"
        source = "entry" if k == 0 else f"head{ROWS[k - 1]}"
        lines += [f"head{rows}:", f"  %i{rows} = phi i64 [ {before}, %{source} ], [ %n{rows}, %body{rows} ]",
                  f"  %n{rows} = add nsw i64 %i{rows}, {rows}", f"  %fit{rows} = icmp sle i64 %n{rows}, %m",
                  f"  br i1 %fit{rows}, label %body{rows}, label %{after}", f"body{rows}:",
                  f"  %ao{rows} = mul nsw i64 %i{rows}, %ar", f"  %co{rows} = mul nsw i64 %i{rows}, %cr",
                  f"  %ap{rows} = getelementptr inbounds float, ptr %a, i64 %ao{rows}",
                  f"  %cp{rows} = getelementptr inbounds float, ptr %c, i64 %co{rows}",
                  f"  call void @{_name(rows, masked)}(i64 %k, ptr %ap{rows}, i64 %ar, i64 %ac, ptr %b, i64 %br, "
                  f"ptr %cp{rows}, i64 %cr{mask})", f"  br label %head{rows}"]
        before = f"%i{rows}"
    return "\n".join([*lines, "done:", "  ret void", "}", ""])


_OUTER = f"""define internal void @egs_gemm(i64 %m, i64 %n, {_ARGS}) nounwind {{
entry:
  br label %head
head:
  %j = phi i64 [ 0, %entry ], [ %jn, %body ]
  %jn = add nsw i64 %j, {3 * WIDTH}
  %fit = icmp sle i64 %jn, %n
  br i1 %fit, label %body, label %rest
body:
  %bp = getelementptr inbounds float, ptr %b, i64 %j
  %cp = getelementptr inbounds float, ptr %c, i64 %j
  call void @egs_gemm_full(i64 %m, i64 %k, ptr %a, i64 %ar, i64 %ac, ptr %bp, i64 %br, ptr %cp, i64 %cr)
  br label %head
rest:
  %t = phi i64 [ %j, %head ], [ %tn, %tail ]
  %left = sub nsw i64 %n, %t
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %tail, label %done
tail:
  %least = call i64 @llvm.smin.i64(i64 %left, i64 {WIDTH})
  %count = trunc i64 %least to i32
  %ce = insertelement <{WIDTH} x i32> poison, i32 %count, i32 0
  %cs = shufflevector <{WIDTH} x i32> %ce, <{WIDTH} x i32> poison, <{WIDTH} x i32> zeroinitializer
  %mask = icmp slt <{WIDTH} x i32> <{", ".join(f"i32 {k}" for k in range(WIDTH))}>, %cs
  %tb = getelementptr inbounds float, ptr %b, i64 %t
  %tc = getelementptr inbounds float, ptr %c, i64 %t
  call void @egs_gemm_tail(i64 %m, i64 %k, ptr %a, i64 %ar, i64 %ac, ptr %tb, i64 %br, ptr %tc, i64 %cr, {_MASK} %mask)
  %tn = add nsw i64 %t, {WIDTH}
  br label %rest
done:
  ret void
}}
"""


def text() -> str:
    """The product and its kernels, as LLVM IR."""
    kernels = [_kernel(rows, 1 if masked else 3, masked) for masked in (False, True) for rows in ROWS]
    return "".join([*kernels, _rows(False), _rows(True), _OUTER])
