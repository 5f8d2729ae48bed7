; graphs.c: 9ed10508e2a0fbbc9f4dee435f40974222307b05c4e516b1f28545f585d4d8c6
; Written by `make native`.

define hidden ptr @egs_graph_row(ptr noundef %0, ptr noundef %1, ptr noundef readonly %2) nounwind {
  %4 = getelementptr inbounds i8, ptr %0, i64 8
  %5 = load i64, ptr %4, align 8
  %6 = add nsw i64 %5, 1
  store i64 %6, ptr %4, align 8
  %7 = getelementptr inbounds i8, ptr %0, i64 16
  %8 = load i64, ptr %7, align 8
  %9 = shl nsw i64 %8, 3
  %10 = add nsw i64 %8, 3
  %11 = getelementptr inbounds i8, ptr %0, i64 24
  %12 = icmp sgt i64 %8, 0
  br i1 %12, label %13, label %24

13:                                               ; preds = %3, %13
  %14 = phi i64 [ %22, %13 ], [ 0, %3 ]
  %15 = phi i64 [ %21, %13 ], [ 1, %3 ]
  %16 = getelementptr inbounds i64, ptr %1, i64 %14
  %17 = load i64, ptr %16, align 8
  %18 = xor i64 %17, %15
  %19 = mul i64 %18, -7046029254386353131
  %20 = lshr i64 %19, 29
  %21 = xor i64 %20, %19
  %22 = add nuw nsw i64 %14, 1
  %23 = icmp eq i64 %22, %8
  br i1 %23, label %24, label %13

24:                                               ; preds = %13, %3
  %25 = phi i64 [ 1, %3 ], [ %21, %13 ]
  %26 = load i64, ptr %0, align 8
  %27 = icmp sgt i64 %26, 0
  br i1 %27, label %28, label %60

28:                                               ; preds = %24, %55
  %29 = phi ptr [ %56, %55 ], [ null, %24 ]
  %30 = phi i64 [ %57, %55 ], [ 0, %24 ]
  %31 = mul nsw i64 %30, %10
  %32 = getelementptr inbounds i64, ptr %11, i64 %31
  %33 = getelementptr inbounds i8, ptr %32, i64 16
  %34 = load i64, ptr %33, align 8
  %35 = icmp eq i64 %34, %25
  br i1 %35, label %36, label %44

36:                                               ; preds = %28
  %37 = getelementptr inbounds i8, ptr %32, i64 8
  %38 = load i64, ptr %37, align 8
  %39 = icmp eq i64 %38, 0
  br i1 %39, label %44, label %40

40:                                               ; preds = %36
  %41 = getelementptr inbounds i8, ptr %32, i64 24
  %42 = tail call i32 @memcmp(ptr noundef nonnull %41, ptr noundef %1, i64 noundef %9) nounwind
  %43 = icmp eq i32 %42, 0
  br i1 %43, label %53, label %44

44:                                               ; preds = %40, %36, %28
  %45 = icmp eq ptr %29, null
  br i1 %45, label %52, label %46

46:                                               ; preds = %44
  %47 = getelementptr inbounds i8, ptr %32, i64 8
  %48 = load i64, ptr %47, align 8
  %49 = getelementptr inbounds i8, ptr %29, i64 8
  %50 = load i64, ptr %49, align 8
  %51 = icmp slt i64 %48, %50
  br i1 %51, label %52, label %55

52:                                               ; preds = %46, %44
  br label %55

53:                                               ; preds = %40
  %54 = getelementptr inbounds i8, ptr %32, i64 8
  store i64 %6, ptr %54, align 8
  br label %102

55:                                               ; preds = %52, %46
  %56 = phi ptr [ %29, %46 ], [ %32, %52 ]
  %57 = add nuw nsw i64 %30, 1
  %58 = load i64, ptr %0, align 8
  %59 = icmp slt i64 %57, %58
  br i1 %59, label %28, label %60

60:                                               ; preds = %55, %24
  %61 = phi i64 [ %26, %24 ], [ %58, %55 ]
  %62 = phi ptr [ null, %24 ], [ %56, %55 ]
  %63 = mul nsw i64 %61, %10
  %64 = getelementptr inbounds i64, ptr %11, i64 %63
  %65 = and i64 %25, 4092
  %66 = getelementptr inbounds i64, ptr %64, i64 %65
  br label %70

67:                                               ; preds = %70
  %68 = add nuw nsw i64 %71, 1
  %69 = icmp eq i64 %68, 4
  br i1 %69, label %76, label %70

70:                                               ; preds = %67, %60
  %71 = phi i64 [ 0, %60 ], [ %68, %67 ]
  %72 = getelementptr inbounds i64, ptr %66, i64 %71
  %73 = load i64, ptr %72, align 8
  %74 = icmp eq i64 %73, %25
  br i1 %74, label %83, label %67

75:                                               ; preds = %76
  store i64 %25, ptr %66, align 8
  br label %102

76:                                               ; preds = %67, %76
  %77 = phi i64 [ %81, %76 ], [ 3, %67 ]
  %78 = getelementptr i64, ptr %66, i64 %77
  %79 = getelementptr i8, ptr %78, i64 -8
  %80 = load i64, ptr %79, align 8
  store i64 %80, ptr %78, align 8
  %81 = add nsw i64 %77, -1
  %82 = icmp ugt i64 %77, 1
  br i1 %82, label %76, label %75

83:                                               ; preds = %70
  %84 = icmp eq ptr %62, null
  br i1 %84, label %102, label %85

85:                                               ; preds = %83
  %86 = getelementptr inbounds i8, ptr %62, i64 8
  %87 = load i64, ptr %86, align 8
  %88 = icmp eq i64 %87, 0
  br i1 %88, label %93, label %89

89:                                               ; preds = %85
  %90 = sub nsw i64 %6, %87
  %91 = shl nsw i64 %61, 2
  %92 = icmp sgt i64 %90, %91
  br i1 %92, label %93, label %102

93:                                               ; preds = %89, %85
  %94 = load ptr, ptr %62, align 8
  %95 = icmp eq ptr %94, null
  br i1 %95, label %98, label %96

96:                                               ; preds = %93
  %97 = tail call i32 %2(ptr noundef nonnull %94) nounwind
  br label %98

98:                                               ; preds = %96, %93
  store ptr null, ptr %62, align 8
  store i64 %6, ptr %86, align 8
  %99 = getelementptr inbounds i8, ptr %62, i64 16
  store i64 %25, ptr %99, align 8
  %100 = getelementptr inbounds i8, ptr %62, i64 24
  %101 = tail call ptr @memcpy(ptr noundef nonnull %100, ptr noundef %1, i64 noundef %9) nounwind
  br label %102

102:                                              ; preds = %75, %53, %98, %89, %83
  %103 = phi ptr [ %62, %98 ], [ null, %89 ], [ null, %83 ], [ %32, %53 ], [ null, %75 ]
  ret ptr %103
}

declare i32 @memcmp(ptr noundef, ptr noundef, i64 noundef)

declare ptr @memcpy(ptr noundef, ptr noundef, i64 noundef)
