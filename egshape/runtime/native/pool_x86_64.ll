; pool_x86_64.c: 55cded89e3c203ed5fe18e8fb08447c9f5aad58001b4b8ff7f3d89f14923a666
; Written by `make native`.

@egs_futex = hidden constant i64 202, align 8
@egs_looks = hidden constant i32 20000, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.x86.sse2.pause()
  ret void
}

declare void @llvm.x86.sse2.pause() nounwind
