; pool_aarch64.c: beac334ff909e717d1706f0b925407ff7c395f056b1988dcee4d15f12456e379
; Written by `make native`.

@egs_futex = hidden constant i64 98, align 8
@egs_looks = hidden constant i32 4000, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.aarch64.hint(i32 1)
  ret void
}

declare void @llvm.aarch64.hint(i32) nounwind
