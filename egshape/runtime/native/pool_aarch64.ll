; pool_aarch64.c: 2ec48ff41fc788ec36efed458e88224634e731dc78d3d93ecafac2e31ba6f1c4
; Written by `make native`.

@egs_futex = hidden constant i64 98, align 8
@egs_looks = hidden constant i32 4000, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.aarch64.hint(i32 1)
  ret void
}

declare void @llvm.aarch64.hint(i32) nounwind
