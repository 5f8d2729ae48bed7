; pool_x86_64.c: ca41d98df2abac694be0891d2a9f37ea18495187979e911ac5b535428e1c3168
; Written by `make native`.

@egs_futex = hidden constant i64 202, align 8
@egs_looks = hidden constant i32 1500, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.x86.sse2.pause()
  ret void
}

declare void @llvm.x86.sse2.pause() nounwind
