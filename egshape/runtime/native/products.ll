; products.c: ccedc58a8a27803e4d801dbc8a72b2a2eba6152ccdccf8541f3d2b1f0ddcd090
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
  br i1 %23, label %28, label %24

24:                                               ; preds = %17
  tail call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(104) %21, ptr noundef nonnull align 8 dereferenceable(104) %1, i64 104, i1 false)
  %25 = getelementptr inbounds i8, ptr %0, i64 24
  %26 = load ptr, ptr %25, align 8
  %27 = tail call i32 %26(ptr noundef %21, ptr noundef nonnull %1, ptr noundef %2) nounwind
  br label %28

28:                                               ; preds = %24, %17
  %29 = getelementptr inbounds i8, ptr %21, i64 104
  %30 = load ptr, ptr %29, align 8
  %31 = icmp eq ptr %30, null
  br i1 %31, label %86, label %32

32:                                               ; preds = %28
  %33 = load i64, ptr %1, align 8
  %34 = icmp eq i64 %33, 1
  %35 = getelementptr inbounds i8, ptr %1, i64 128
  %36 = load ptr, ptr %35, align 8
  %37 = icmp eq ptr %36, null
  br i1 %37, label %38, label %40

38:                                               ; preds = %32
  %39 = select i1 %34, ptr @ONE64, ptr @ONE32
  br label %48

40:                                               ; preds = %32
  %41 = getelementptr inbounds i8, ptr %0, i64 16
  %42 = load ptr, ptr %41, align 8
  %43 = tail call i32 %42(ptr noundef nonnull %30, i32 noundef 8, ptr noundef nonnull %35, i64 noundef 8) nounwind
  %44 = icmp eq i32 %43, 0
  br i1 %44, label %45, label %79

45:                                               ; preds = %40
  %46 = select i1 %34, ptr @ONE64, ptr @ONE32
  %47 = load ptr, ptr %29, align 8
  br label %48

48:                                               ; preds = %45, %38
  %49 = phi ptr [ %30, %38 ], [ %47, %45 ]
  %50 = phi ptr [ %39, %38 ], [ %46, %45 ]
  %51 = select i1 %34, ptr @NIL64, ptr @NIL32
  %52 = getelementptr inbounds i8, ptr %0, i64 8
  %53 = load ptr, ptr %52, align 8
  %54 = load ptr, ptr %0, align 8
  %55 = getelementptr inbounds i8, ptr %1, i64 112
  %56 = load ptr, ptr %55, align 8
  %57 = getelementptr inbounds i8, ptr %21, i64 120
  %58 = load ptr, ptr %57, align 8
  %59 = getelementptr inbounds i8, ptr %1, i64 104
  %60 = load ptr, ptr %59, align 8
  %61 = getelementptr inbounds i8, ptr %21, i64 112
  %62 = load ptr, ptr %61, align 8
  %63 = getelementptr inbounds i8, ptr %1, i64 136
  %64 = load ptr, ptr %63, align 8
  %65 = icmp eq ptr %64, null
  %66 = select i1 %65, ptr %51, ptr %50
  %67 = getelementptr inbounds i8, ptr %1, i64 120
  %68 = load ptr, ptr %67, align 8
  %69 = select i1 %65, ptr %68, ptr %64
  %70 = getelementptr inbounds i8, ptr %21, i64 128
  %71 = load ptr, ptr %70, align 8
  %72 = getelementptr inbounds i8, ptr %21, i64 136
  %73 = getelementptr inbounds i8, ptr %0, i64 32
  %74 = load ptr, ptr %73, align 8
  %75 = getelementptr inbounds i8, ptr %0, i64 40
  %76 = load i64, ptr %75, align 8
  %77 = tail call i32 %53(ptr noundef %54, ptr noundef %49, ptr noundef nonnull %50, ptr noundef %56, ptr noundef %58, ptr noundef %60, ptr noundef %62, ptr noundef nonnull %66, ptr noundef %69, ptr noundef %71, ptr noundef %68, ptr noundef %71, ptr noundef nonnull %72, ptr noundef %74, i64 noundef %76, ptr noundef %2) nounwind
  %78 = icmp eq i32 %77, 0
  br i1 %78, label %86, label %79

79:                                               ; preds = %40, %48
  %80 = phi i32 [ %77, %48 ], [ %43, %40 ]
  %81 = getelementptr inbounds i8, ptr %0, i64 64
  %82 = load i64, ptr %81, align 8
  %83 = add nsw i64 %82, 1
  store i64 %83, ptr %81, align 8
  %84 = sext i32 %80 to i64
  %85 = getelementptr inbounds i8, ptr %0, i64 72
  store i64 %84, ptr %85, align 8
  br label %86

86:                                               ; preds = %48, %79, %28
  %87 = phi i32 [ -1, %28 ], [ %80, %79 ], [ 0, %48 ]
  ret i32 %87
}

declare i32 @memcmp(ptr noundef, ptr noundef, i64 noundef)

declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly, ptr noalias readonly, i64, i1 immarg) nounwind
