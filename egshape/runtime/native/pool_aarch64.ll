; pool_aarch64.c: 40cd06cc428e4b9d2bece9b99a3464abde0898df3c8b6963ac89d20863f58fb1
; Written by `make native`.

@egs_futex = hidden constant i64 98, align 8
@egs_looks = hidden constant i32 4000, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.aarch64.hint(i32 1)
  ret void
}

declare void @llvm.aarch64.hint(i32) nounwind
