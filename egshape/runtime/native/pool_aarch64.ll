; pool_aarch64.c: ce9fc02bb46af87b036bd2de850ce85e0ab14cd8e165743c430c89c4df5d8a1e
; Written by `make native`.

@egs_futex = hidden constant i64 98, align 8
@egs_looks = hidden constant i32 4000, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.aarch64.hint(i32 1)
  ret void
}

declare void @llvm.aarch64.hint(i32) nounwind
