; pool_serial.c: aaa721fdb861d47b2facc4594bc74ce989c2bdcc0752f741536384081f49cc13
; Written by `make native`.

define noalias noundef ptr @egshape_pool(i32 noundef %0) nounwind {
  ret ptr null
}

define hidden noundef i64 @egs_threads(ptr noundef readnone %0) nounwind {
  ret i64 1
}

define hidden void @egs_session(ptr noundef readnone %0, i32 noundef %1) nounwind {
  ret void
}

define hidden void @egs_parallel(ptr noundef readnone %0, ptr noundef readonly %1, ptr noundef %2, i64 noundef %3, i64 noundef %4) nounwind {
  tail call void %1(ptr noundef %2, i64 noundef 0, i64 noundef %3, i64 noundef 0) nounwind
  ret void
}
