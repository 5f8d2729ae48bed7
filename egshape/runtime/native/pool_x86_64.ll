; pool_x86_64.c: ae7c537197021802beb274320ea61cf43babdcacb23613838a24ec2524cff9c9
; Written by `make native`.

@egs_futex = hidden constant i64 202, align 8
@egs_looks = hidden constant i32 20000, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.x86.sse2.pause()
  ret void
}

declare void @llvm.x86.sse2.pause() nounwind
