; timing.c: 5f55455b8a93f86ed393c9e38f4dccc81ce355e21a08b9af30da6c2340b2e9f9
; Written by `make native`.

define hidden i64 @egs_clock() nounwind {
  %1 = alloca [2 x i64], align 16
  %2 = call i32 @clock_gettime(i32 noundef 1, ptr noundef nonnull %1) nounwind
  %3 = load i64, ptr %1, align 16
  %4 = mul nsw i64 %3, 1000000000
  %5 = getelementptr inbounds i8, ptr %1, i64 8
  %6 = load i64, ptr %5, align 8
  %7 = add nsw i64 %4, %6
  ret i64 %7
}

declare i32 @clock_gettime(i32 noundef, ptr noundef)

define hidden void @egs_record(ptr noundef %0, i64 noundef %1, double noundef %2, double noundef %3) nounwind {
  %5 = alloca [2 x i64], align 16
  %6 = call i32 @clock_gettime(i32 noundef 1, ptr noundef nonnull %5) nounwind
  %7 = load i64, ptr %5, align 16
  %8 = mul nsw i64 %7, 1000000000
  %9 = getelementptr inbounds i8, ptr %5, i64 8
  %10 = load i64, ptr %9, align 8
  %11 = getelementptr inbounds i8, ptr %0, i64 8
  %12 = load i64, ptr %11, align 8
  %13 = sub i64 %10, %1
  %14 = add i64 %13, %8
  %15 = add nsw i64 %14, %12
  store i64 %15, ptr %11, align 8
  %16 = load i64, ptr %0, align 8
  %17 = add nsw i64 %16, 1
  store i64 %17, ptr %0, align 8
  %18 = getelementptr inbounds i8, ptr %0, i64 16
  %19 = load double, ptr %18, align 8
  %20 = fadd double %19, %2
  store double %20, ptr %18, align 8
  %21 = getelementptr inbounds i8, ptr %0, i64 24
  %22 = load double, ptr %21, align 8
  %23 = fadd double %22, %3
  store double %23, ptr %21, align 8
  ret void
}
