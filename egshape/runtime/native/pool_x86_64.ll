; pool_x86_64.c: 95a4b48dad138d7b7c5a1c3d18e8a4fb03e8ddcf72d0620cb554083db53eff63
; Written by `make native`.

@egs_futex = hidden constant i64 202, align 8
@egs_looks = hidden constant i32 20000, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.x86.sse2.pause()
  ret void
}

declare void @llvm.x86.sse2.pause() nounwind
