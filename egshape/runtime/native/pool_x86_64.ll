; pool_x86_64.c: 20af9b3f91102921add1b4d8f9bdde23588d9020b75b0ca989bf3cc42bbd7e1b
; Written by `make native`.

@egs_futex = hidden constant i64 202, align 8
@egs_looks = hidden constant i32 1500, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.x86.sse2.pause()
  ret void
}

declare void @llvm.x86.sse2.pause() nounwind
