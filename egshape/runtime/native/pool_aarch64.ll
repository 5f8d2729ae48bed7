; pool_aarch64.c: c61a573aa5adfdc58a24577c5435037ad15909acd41e58a7977d9f20640606ec
; Written by `make native`.

@egs_futex = hidden constant i64 98, align 8
@egs_looks = hidden constant i32 4000, align 4

define hidden void @egs_pause() nounwind {
  tail call void @llvm.aarch64.hint(i32 1)
  ret void
}

declare void @llvm.aarch64.hint(i32) nounwind
