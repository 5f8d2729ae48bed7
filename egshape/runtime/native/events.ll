; events.c: a19e7ba05d33ca1bb343308459f1804bb1861185d685ab499732a56711ff3876
; Written by `make native`.

%struct.egs_log_row = type { i64, double, double }

define hidden i32 @egs_event(ptr noundef readonly %0, i64 noundef %1, ptr noundef readonly %2, ptr noundef %3) nounwind {
  %5 = load i64, ptr %0, align 8
  %6 = getelementptr inbounds i8, ptr %0, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = icmp slt i64 %5, %7
  br i1 %8, label %9, label %17

9:                                                ; preds = %4
  %10 = getelementptr inbounds i8, ptr %0, i64 16
  %11 = load ptr, ptr %10, align 8
  %12 = shl i64 %5, 4
  %13 = getelementptr i8, ptr %11, i64 %12
  %14 = getelementptr ptr, ptr %13, i64 %1
  %15 = load ptr, ptr %14, align 8
  %16 = tail call i32 %2(ptr noundef %15, ptr noundef %3) nounwind
  br label %17

17:                                               ; preds = %4, %9
  %18 = phi i32 [ 1, %9 ], [ 0, %4 ]
  ret i32 %18
}

define hidden void @egs_event_end(ptr noundef %0, i64 noundef %1, double noundef %2, double noundef %3, ptr noundef readonly %4, ptr noundef %5) nounwind {
  %7 = load i64, ptr %0, align 8
  %8 = getelementptr inbounds i8, ptr %0, i64 8
  %9 = load i64, ptr %8, align 8
  %10 = icmp slt i64 %7, %9
  br i1 %10, label %11, label %26

11:                                               ; preds = %6
  %12 = getelementptr inbounds i8, ptr %0, i64 16
  %13 = load ptr, ptr %12, align 8
  %14 = shl i64 %7, 4
  %15 = getelementptr i8, ptr %13, i64 %14
  %16 = getelementptr i8, ptr %15, i64 8
  %17 = load ptr, ptr %16, align 8
  %18 = tail call i32 %4(ptr noundef %17, ptr noundef %5) nounwind
  %19 = getelementptr inbounds i8, ptr %0, i64 24
  %20 = load ptr, ptr %19, align 8
  %21 = load i64, ptr %0, align 8
  %22 = add nsw i64 %21, 1
  store i64 %22, ptr %0, align 8
  %23 = getelementptr inbounds %struct.egs_log_row, ptr %20, i64 %21
  store i64 %1, ptr %23, align 8
  %24 = getelementptr inbounds i8, ptr %23, i64 8
  store double %2, ptr %24, align 8
  %25 = getelementptr inbounds i8, ptr %23, i64 16
  store double %3, ptr %25, align 8
  br label %26

26:                                               ; preds = %6, %11
  ret void
}
