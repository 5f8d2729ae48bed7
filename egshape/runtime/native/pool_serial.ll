; pool_serial.c: 8e890ec7fdf0747ffb8304047cd91da009e74b9170f79771ebd5a1b55b21a1db
; Written by `make native`.

define noalias noundef ptr @egshape_pool(i32 noundef %0) nounwind {
  ret ptr null
}

define hidden void @egs_session(ptr noundef readnone %0, i32 noundef %1) nounwind {
  ret void
}

define hidden void @egs_parallel(ptr noundef readnone %0, ptr noundef readonly %1, ptr noundef %2, i64 noundef %3, i64 noundef %4) nounwind {
  tail call void %1(ptr noundef %2, i64 noundef 0, i64 noundef %3, i64 noundef 0) nounwind
  ret void
}
