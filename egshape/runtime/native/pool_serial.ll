; pool_serial.c: eca1b106c67d962a9051e780c69711564febf25abb9a4c84660ce28ca3b4df3e
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
