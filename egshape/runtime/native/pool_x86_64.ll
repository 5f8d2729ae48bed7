; pool_x86_64.c: 06836b334d8a46e1d5cb8ff04f79473e3afb5bb4fda9acfb90c96e60973a321d
; Written by `make native`.

@egs_futex = hidden constant i64 202, align 8
@egs_looks = hidden constant i32 20000, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.x86.sse2.pause()
  ret void
}

declare void @llvm.x86.sse2.pause() nounwind
