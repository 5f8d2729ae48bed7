; redzones.c: 12e028e7e07f35329f9bc8346c799f9ad4d7d2ae38c2c8fcf0d2cfdbf3bfc2e3
; Written by `make native`.

define hidden i32 @egs_broken(ptr noundef readonly %0, i64 noundef %1) nounwind {
  %3 = icmp sgt i64 %1, 0
  br i1 %3, label %4, label %18

4:                                                ; preds = %2
  %5 = load i8, ptr %0, align 1
  %6 = icmp eq i8 %5, -5
  br i1 %6, label %7, label %18

7:                                                ; preds = %4, %11
  %8 = phi i64 [ %9, %11 ], [ 0, %4 ]
  %9 = add nuw nsw i64 %8, 1
  %10 = icmp eq i64 %9, %1
  br i1 %10, label %15, label %11

11:                                               ; preds = %7
  %12 = getelementptr inbounds i8, ptr %0, i64 %9
  %13 = load i8, ptr %12, align 1
  %14 = icmp eq i8 %13, -5
  br i1 %14, label %7, label %15

15:                                               ; preds = %11, %7
  %16 = icmp slt i64 %9, %1
  %17 = zext i1 %16 to i32
  br label %18

18:                                               ; preds = %4, %15, %2
  %19 = phi i32 [ 0, %2 ], [ 1, %4 ], [ %17, %15 ]
  ret i32 %19
}
