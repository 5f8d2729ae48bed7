; memory.c: 5156f9f94d1d2c479618c076c2c0157f1148fc672aa43b12e0fcf1465ee11a0a
; Written by `make native`.

define hidden ptr @egs_memory(i64 noundef %0) nounwind {
  %2 = icmp ult i64 %0, 4194304
  br i1 %2, label %3, label %5

3:                                                ; preds = %1
  %4 = tail call ptr @aligned_alloc(i64 noundef 64, i64 noundef %0) nounwind
  br label %12

5:                                                ; preds = %1
  %6 = add i64 %0, 2097151
  %7 = and i64 %6, -2097152
  %8 = tail call ptr @aligned_alloc(i64 noundef 2097152, i64 noundef %7) nounwind
  %9 = icmp eq ptr %8, null
  br i1 %9, label %12, label %10

10:                                               ; preds = %5
  %11 = tail call i32 @madvise(ptr noundef nonnull %8, i64 noundef %7, i32 noundef 14) nounwind
  br label %12

12:                                               ; preds = %5, %10, %3
  %13 = phi ptr [ %4, %3 ], [ %8, %10 ], [ null, %5 ]
  ret ptr %13
}

declare ptr @aligned_alloc(i64 noundef, i64 noundef)

declare i32 @madvise(ptr noundef, i64 noundef, i32 noundef)
