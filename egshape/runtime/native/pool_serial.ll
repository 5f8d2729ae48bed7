; pool_serial.c: 97fdcc6ddb1df9d57beac0e3914299a1f61de4d92d34e0ac0a31375a5ad769de
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
