; products.c: 3f7f84e730bccbc549f059942bc22415bd0960407ce2a6dd09c048c469220b17
; Written by `make native`.

%struct.egs_product_row = type { %struct.egs_product_key, ptr, ptr, ptr, ptr, [8 x i64] }
%struct.egs_product_key = type { i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64 }

@ONE64 = internal constant double 1.000000e+00, align 8
@ONE32 = internal constant float 1.000000e+00, align 4
@NIL64 = internal constant double 0.000000e+00, align 8
@NIL32 = internal constant float 0.000000e+00, align 4

define hidden i32 @egs_gemm(ptr noundef %0, ptr noundef %1, ptr noundef %2) nounwind {
  %4 = getelementptr inbounds i8, ptr %0, i64 56
  %5 = load ptr, ptr %4, align 8
  br label %6

6:                                                ; preds = %6, %3
  %7 = phi i64 [ 0, %3 ], [ %15, %6 ]
  %8 = phi i64 [ 0, %3 ], [ %14, %6 ]
  %9 = getelementptr inbounds i64, ptr %1, i64 %7
  %10 = load i64, ptr %9, align 8
  %11 = xor i64 %10, %8
  %12 = mul i64 %11, -7046029254386353131
  %13 = lshr i64 %12, 29
  %14 = xor i64 %13, %12
  %15 = add nuw nsw i64 %7, 1
  %16 = icmp eq i64 %15, 13
  br i1 %16, label %17, label %6

17:                                               ; preds = %6
  %18 = getelementptr inbounds i8, ptr %0, i64 48
  %19 = load i64, ptr %18, align 8
  %20 = and i64 %19, %14
  %21 = getelementptr inbounds %struct.egs_product_row, ptr %5, i64 %20
  %22 = tail call i32 @memcmp(ptr noundef %21, ptr noundef nonnull %1, i64 noundef 104) nounwind
  %23 = icmp eq i32 %22, 0
  br i1 %23, label %30, label %24

24:                                               ; preds = %17
  tail call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(104) %21, ptr noundef nonnull align 8 dereferenceable(104) %1, i64 104, i1 false)
  %25 = getelementptr inbounds i8, ptr %0, i64 24
  %26 = load ptr, ptr %25, align 8
  %27 = tail call i32 %26(ptr noundef %21, ptr noundef nonnull %1, ptr noundef %2) nounwind
  %28 = icmp eq i32 %27, 1146048069
  br i1 %28, label %30, label %29

29:                                               ; preds = %24
  store i64 -1, ptr %21, align 8
  br label %88

30:                                               ; preds = %24, %17
  %31 = getelementptr inbounds i8, ptr %21, i64 104
  %32 = load ptr, ptr %31, align 8
  %33 = icmp eq ptr %32, null
  br i1 %33, label %88, label %34

34:                                               ; preds = %30
  %35 = load i64, ptr %1, align 8
  %36 = icmp eq i64 %35, 1
  %37 = getelementptr inbounds i8, ptr %1, i64 128
  %38 = load ptr, ptr %37, align 8
  %39 = icmp eq ptr %38, null
  br i1 %39, label %40, label %42

40:                                               ; preds = %34
  %41 = select i1 %36, ptr @ONE64, ptr @ONE32
  br label %50

42:                                               ; preds = %34
  %43 = getelementptr inbounds i8, ptr %0, i64 16
  %44 = load ptr, ptr %43, align 8
  %45 = tail call i32 %44(ptr noundef nonnull %32, i32 noundef 8, ptr noundef nonnull %37, i64 noundef 8) nounwind
  %46 = icmp eq i32 %45, 0
  br i1 %46, label %47, label %81

47:                                               ; preds = %42
  %48 = select i1 %36, ptr @ONE64, ptr @ONE32
  %49 = load ptr, ptr %31, align 8
  br label %50

50:                                               ; preds = %47, %40
  %51 = phi ptr [ %32, %40 ], [ %49, %47 ]
  %52 = phi ptr [ %41, %40 ], [ %48, %47 ]
  %53 = select i1 %36, ptr @NIL64, ptr @NIL32
  %54 = getelementptr inbounds i8, ptr %0, i64 8
  %55 = load ptr, ptr %54, align 8
  %56 = load ptr, ptr %0, align 8
  %57 = getelementptr inbounds i8, ptr %1, i64 112
  %58 = load ptr, ptr %57, align 8
  %59 = getelementptr inbounds i8, ptr %21, i64 120
  %60 = load ptr, ptr %59, align 8
  %61 = getelementptr inbounds i8, ptr %1, i64 104
  %62 = load ptr, ptr %61, align 8
  %63 = getelementptr inbounds i8, ptr %21, i64 112
  %64 = load ptr, ptr %63, align 8
  %65 = getelementptr inbounds i8, ptr %1, i64 136
  %66 = load ptr, ptr %65, align 8
  %67 = icmp eq ptr %66, null
  %68 = select i1 %67, ptr %53, ptr %52
  %69 = getelementptr inbounds i8, ptr %1, i64 120
  %70 = load ptr, ptr %69, align 8
  %71 = select i1 %67, ptr %70, ptr %66
  %72 = getelementptr inbounds i8, ptr %21, i64 128
  %73 = load ptr, ptr %72, align 8
  %74 = getelementptr inbounds i8, ptr %21, i64 136
  %75 = getelementptr inbounds i8, ptr %0, i64 32
  %76 = load ptr, ptr %75, align 8
  %77 = getelementptr inbounds i8, ptr %0, i64 40
  %78 = load i64, ptr %77, align 8
  %79 = tail call i32 %55(ptr noundef %56, ptr noundef %51, ptr noundef nonnull %52, ptr noundef %58, ptr noundef %60, ptr noundef %62, ptr noundef %64, ptr noundef nonnull %68, ptr noundef %71, ptr noundef %73, ptr noundef %70, ptr noundef %73, ptr noundef nonnull %74, ptr noundef %76, i64 noundef %78, ptr noundef %2) nounwind
  %80 = icmp eq i32 %79, 0
  br i1 %80, label %88, label %81

81:                                               ; preds = %42, %50
  %82 = phi i32 [ %79, %50 ], [ %45, %42 ]
  %83 = getelementptr inbounds i8, ptr %0, i64 64
  %84 = load i64, ptr %83, align 8
  %85 = add nsw i64 %84, 1
  store i64 %85, ptr %83, align 8
  %86 = sext i32 %82 to i64
  %87 = getelementptr inbounds i8, ptr %0, i64 72
  store i64 %86, ptr %87, align 8
  br label %88

88:                                               ; preds = %50, %81, %30, %29
  %89 = phi i32 [ -1, %29 ], [ -1, %30 ], [ %82, %81 ], [ 0, %50 ]
  ret i32 %89
}

declare i32 @memcmp(ptr noundef, ptr noundef, i64 noundef)

declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly, ptr noalias readonly, i64, i1 immarg) nounwind
