; graphs.c: 3a30b9c9f7286e71fc6698d971360092f5ca53f67bc81222094bbc1378fc846c
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
  %26 = tail call i64 @llvm.umax.i64(i64 %25, i64 1)
  %27 = load i64, ptr %0, align 8
  %28 = icmp sgt i64 %27, 0
  br i1 %28, label %29, label %61

29:                                               ; preds = %24, %56
  %30 = phi ptr [ %57, %56 ], [ null, %24 ]
  %31 = phi i64 [ %58, %56 ], [ 0, %24 ]
  %32 = mul nsw i64 %31, %10
  %33 = getelementptr inbounds i64, ptr %11, i64 %32
  %34 = getelementptr inbounds i8, ptr %33, i64 16
  %35 = load i64, ptr %34, align 8
  %36 = icmp eq i64 %35, %26
  br i1 %36, label %37, label %45

37:                                               ; preds = %29
  %38 = getelementptr inbounds i8, ptr %33, i64 8
  %39 = load i64, ptr %38, align 8
  %40 = icmp eq i64 %39, 0
  br i1 %40, label %45, label %41

41:                                               ; preds = %37
  %42 = getelementptr inbounds i8, ptr %33, i64 24
  %43 = tail call i32 @memcmp(ptr noundef nonnull %42, ptr noundef %1, i64 noundef %9) nounwind
  %44 = icmp eq i32 %43, 0
  br i1 %44, label %54, label %45

45:                                               ; preds = %41, %37, %29
  %46 = icmp eq ptr %30, null
  br i1 %46, label %53, label %47

47:                                               ; preds = %45
  %48 = getelementptr inbounds i8, ptr %33, i64 8
  %49 = load i64, ptr %48, align 8
  %50 = getelementptr inbounds i8, ptr %30, i64 8
  %51 = load i64, ptr %50, align 8
  %52 = icmp slt i64 %49, %51
  br i1 %52, label %53, label %56

53:                                               ; preds = %47, %45
  br label %56

54:                                               ; preds = %41
  %55 = getelementptr inbounds i8, ptr %33, i64 8
  store i64 %6, ptr %55, align 8
  br label %103

56:                                               ; preds = %53, %47
  %57 = phi ptr [ %30, %47 ], [ %33, %53 ]
  %58 = add nuw nsw i64 %31, 1
  %59 = load i64, ptr %0, align 8
  %60 = icmp slt i64 %58, %59
  br i1 %60, label %29, label %61

61:                                               ; preds = %56, %24
  %62 = phi i64 [ %27, %24 ], [ %59, %56 ]
  %63 = phi ptr [ null, %24 ], [ %57, %56 ]
  %64 = mul nsw i64 %62, %10
  %65 = getelementptr inbounds i64, ptr %11, i64 %64
  %66 = and i64 %26, 4092
  %67 = getelementptr inbounds i64, ptr %65, i64 %66
  br label %71

68:                                               ; preds = %71
  %69 = add nuw nsw i64 %72, 1
  %70 = icmp eq i64 %69, 4
  br i1 %70, label %77, label %71

71:                                               ; preds = %68, %61
  %72 = phi i64 [ 0, %61 ], [ %69, %68 ]
  %73 = getelementptr inbounds i64, ptr %67, i64 %72
  %74 = load i64, ptr %73, align 8
  %75 = icmp eq i64 %74, %26
  br i1 %75, label %84, label %68

76:                                               ; preds = %77
  store i64 %26, ptr %67, align 8
  br label %103

77:                                               ; preds = %68, %77
  %78 = phi i64 [ %82, %77 ], [ 3, %68 ]
  %79 = getelementptr i64, ptr %67, i64 %78
  %80 = getelementptr i8, ptr %79, i64 -8
  %81 = load i64, ptr %80, align 8
  store i64 %81, ptr %79, align 8
  %82 = add nsw i64 %78, -1
  %83 = icmp ugt i64 %78, 1
  br i1 %83, label %77, label %76

84:                                               ; preds = %71
  %85 = icmp eq ptr %63, null
  br i1 %85, label %103, label %86

86:                                               ; preds = %84
  %87 = getelementptr inbounds i8, ptr %63, i64 8
  %88 = load i64, ptr %87, align 8
  %89 = icmp eq i64 %88, 0
  br i1 %89, label %94, label %90

90:                                               ; preds = %86
  %91 = sub nsw i64 %6, %88
  %92 = shl nsw i64 %62, 2
  %93 = icmp sgt i64 %91, %92
  br i1 %93, label %94, label %103

94:                                               ; preds = %90, %86
  %95 = load ptr, ptr %63, align 8
  %96 = icmp eq ptr %95, null
  br i1 %96, label %99, label %97

97:                                               ; preds = %94
  %98 = tail call i32 %2(ptr noundef nonnull %95) nounwind
  br label %99

99:                                               ; preds = %97, %94
  store ptr null, ptr %63, align 8
  store i64 %6, ptr %87, align 8
  %100 = getelementptr inbounds i8, ptr %63, i64 16
  store i64 %26, ptr %100, align 8
  %101 = getelementptr inbounds i8, ptr %63, i64 24
  %102 = tail call ptr @memcpy(ptr noundef nonnull %101, ptr noundef %1, i64 noundef %9) nounwind
  br label %103

103:                                              ; preds = %76, %54, %99, %90, %84
  %104 = phi ptr [ %63, %99 ], [ null, %90 ], [ null, %84 ], [ %33, %54 ], [ null, %76 ]
  ret ptr %104
}

declare i32 @memcmp(ptr noundef, ptr noundef, i64 noundef)

declare ptr @memcpy(ptr noundef, ptr noundef, i64 noundef)

declare i64 @llvm.umax.i64(i64, i64) nounwind
