; host_arrays.c: 2c69afaf21d10802bd09c1741e369d0eb839687b99a3487577c85f2492491ea9
; Written by `make native`.

%struct.egs_program_port = type { i64, i64, i64 }
%struct.tensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }

define hidden i32 @egs_python(ptr noundef %0, ptr noundef readonly %1, ptr noundef readonly %2, ptr noundef readonly %3, ptr noundef readonly %4, ptr noundef readonly %5) nounwind {
  %7 = getelementptr inbounds i8, ptr %4, i64 16
  %8 = getelementptr inbounds i8, ptr %3, i64 96
  %9 = load i64, ptr %4, align 8
  %10 = getelementptr inbounds i64, ptr %8, i64 %9
  %11 = load i64, ptr %3, align 8
  %12 = getelementptr inbounds i8, ptr %1, i64 %11
  %13 = getelementptr inbounds i8, ptr %0, i64 16
  %14 = load ptr, ptr %13, align 8
  %15 = icmp sgt i64 %9, 0
  br i1 %15, label %16, label %91

16:                                               ; preds = %6
  %17 = getelementptr inbounds i8, ptr %0, i64 24
  %18 = load ptr, ptr %17, align 8
  %19 = getelementptr inbounds i8, ptr %3, i64 8
  %20 = getelementptr inbounds i8, ptr %3, i64 16
  %21 = getelementptr inbounds i8, ptr %3, i64 48
  %22 = getelementptr inbounds i8, ptr %3, i64 32
  %23 = getelementptr inbounds i8, ptr %3, i64 56
  %24 = getelementptr inbounds i8, ptr %3, i64 40
  %25 = getelementptr inbounds i8, ptr %3, i64 24
  br label %26

26:                                               ; preds = %16, %81
  %27 = phi i64 [ 0, %16 ], [ %83, %81 ]
  %28 = phi ptr [ %18, %16 ], [ %82, %81 ]
  %29 = getelementptr inbounds %struct.egs_program_port, ptr %7, i64 %27
  %30 = load i64, ptr %29, align 8
  %31 = getelementptr inbounds ptr, ptr %12, i64 %27
  %32 = load ptr, ptr %31, align 8
  %33 = load i64, ptr %19, align 8
  %34 = getelementptr inbounds i8, ptr %32, i64 %33
  %35 = load ptr, ptr %34, align 8
  %36 = load ptr, ptr %20, align 8
  %37 = icmp eq ptr %35, %36
  %38 = getelementptr inbounds ptr, ptr %14, i64 %27
  br i1 %37, label %39, label %75

39:                                               ; preds = %26
  %40 = getelementptr inbounds i64, ptr %8, i64 %27
  %41 = load i64, ptr %40, align 8
  %42 = inttoptr i64 %41 to ptr
  %43 = load i64, ptr %21, align 8
  %44 = getelementptr inbounds i8, ptr %32, i64 %43
  %45 = load ptr, ptr %44, align 8
  %46 = icmp eq ptr %45, %42
  br i1 %46, label %47, label %86

47:                                               ; preds = %39
  %48 = load i64, ptr %22, align 8
  %49 = getelementptr inbounds i8, ptr %32, i64 %48
  %50 = load i32, ptr %49, align 4
  %51 = sext i32 %50 to i64
  %52 = icmp eq i64 %30, %51
  br i1 %52, label %53, label %86

53:                                               ; preds = %47
  %54 = load i64, ptr %23, align 8
  %55 = getelementptr inbounds i8, ptr %32, i64 %54
  %56 = load i32, ptr %55, align 4
  %57 = and i32 %56, 257
  %58 = icmp eq i32 %57, 257
  br i1 %58, label %59, label %86

59:                                               ; preds = %53
  %60 = load i64, ptr %24, align 8
  %61 = getelementptr inbounds i8, ptr %32, i64 %60
  %62 = load ptr, ptr %61, align 8
  %63 = icmp sgt i64 %30, 0
  br i1 %63, label %68, label %64

64:                                               ; preds = %68, %59
  %65 = load i64, ptr %25, align 8
  %66 = getelementptr inbounds i8, ptr %32, i64 %65
  %67 = load ptr, ptr %66, align 8
  store ptr %67, ptr %38, align 8
  br label %81

68:                                               ; preds = %59, %68
  %69 = phi i64 [ %73, %68 ], [ 0, %59 ]
  %70 = getelementptr inbounds i64, ptr %62, i64 %69
  %71 = load i64, ptr %70, align 8
  %72 = getelementptr inbounds i64, ptr %28, i64 %69
  store i64 %71, ptr %72, align 8
  %73 = add nuw nsw i64 %69, 1
  %74 = icmp eq i64 %73, %30
  br i1 %74, label %64, label %68

75:                                               ; preds = %26
  %76 = getelementptr inbounds i64, ptr %10, i64 %27
  %77 = load i64, ptr %76, align 8
  %78 = trunc i64 %77 to i32
  %79 = tail call fastcc i32 @read_tensor(ptr noundef nonnull %3, ptr noundef nonnull %32, i32 noundef %78, i64 noundef %30, ptr noundef %38, ptr noundef %28)
  %80 = icmp eq i32 %79, 0
  br i1 %80, label %86, label %81

81:                                               ; preds = %64, %75
  %82 = getelementptr inbounds i64, ptr %28, i64 %30
  %83 = add nuw nsw i64 %27, 1
  %84 = load i64, ptr %4, align 8
  %85 = icmp slt i64 %83, %84
  br i1 %85, label %26, label %89

86:                                               ; preds = %39, %47, %53, %75
  %87 = getelementptr inbounds i8, ptr %0, i64 64
  %88 = load ptr, ptr %87, align 8
  store i64 %27, ptr %88, align 8
  br label %123

89:                                               ; preds = %81
  %90 = load i64, ptr %3, align 8
  br label %91

91:                                               ; preds = %89, %6
  %92 = phi i64 [ %90, %89 ], [ %11, %6 ]
  %93 = getelementptr inbounds i8, ptr %2, i64 %92
  %94 = getelementptr inbounds i8, ptr %4, i64 8
  %95 = load i64, ptr %94, align 8
  %96 = icmp sgt i64 %95, 0
  br i1 %96, label %97, label %100

97:                                               ; preds = %91
  %98 = getelementptr inbounds i8, ptr %3, i64 24
  %99 = getelementptr inbounds i8, ptr %0, i64 40
  br label %102

100:                                              ; preds = %119, %91
  %101 = tail call i32 %5(ptr noundef %0) nounwind
  br label %123

102:                                              ; preds = %97, %119
  %103 = phi i64 [ %95, %97 ], [ %120, %119 ]
  %104 = phi i64 [ 0, %97 ], [ %121, %119 ]
  %105 = load i64, ptr %4, align 8
  %106 = getelementptr %struct.egs_program_port, ptr %7, i64 %105
  %107 = getelementptr %struct.egs_program_port, ptr %106, i64 %104, i32 2
  %108 = load i64, ptr %107, align 8
  %109 = icmp eq i64 %108, 0
  br i1 %109, label %119, label %110

110:                                              ; preds = %102
  %111 = getelementptr inbounds ptr, ptr %93, i64 %104
  %112 = load ptr, ptr %111, align 8
  %113 = load i64, ptr %98, align 8
  %114 = getelementptr inbounds i8, ptr %112, i64 %113
  %115 = load ptr, ptr %114, align 8
  %116 = load ptr, ptr %99, align 8
  %117 = getelementptr inbounds ptr, ptr %116, i64 %104
  store ptr %115, ptr %117, align 8
  %118 = load i64, ptr %94, align 8
  br label %119

119:                                              ; preds = %102, %110
  %120 = phi i64 [ %103, %102 ], [ %118, %110 ]
  %121 = add nuw nsw i64 %104, 1
  %122 = icmp slt i64 %121, %120
  br i1 %122, label %102, label %100

123:                                              ; preds = %86, %100
  %124 = phi i32 [ %101, %100 ], [ 7, %86 ]
  ret i32 %124
}

define internal fastcc i32 @read_tensor(ptr noundef readonly %0, ptr noundef %1, i32 noundef %2, i64 noundef %3, ptr noundef writeonly %4, ptr noundef writeonly %5) noinline nounwind {
  %7 = alloca %struct.tensor, align 8
  %8 = getelementptr inbounds i8, ptr %0, i64 64
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds i8, ptr %0, i64 8
  %11 = load i64, ptr %10, align 8
  %12 = getelementptr inbounds i8, ptr %1, i64 %11
  %13 = load ptr, ptr %12, align 8
  %14 = load ptr, ptr %9, align 8
  %15 = icmp eq ptr %14, %13
  br i1 %15, label %24, label %16

16:                                               ; preds = %6, %20
  %17 = phi ptr [ %22, %20 ], [ %14, %6 ]
  %18 = phi ptr [ %21, %20 ], [ %9, %6 ]
  %19 = icmp eq ptr %17, null
  br i1 %19, label %103, label %20

20:                                               ; preds = %16
  %21 = getelementptr inbounds i8, ptr %18, i64 16
  %22 = load ptr, ptr %21, align 8
  %23 = icmp eq ptr %22, %13
  br i1 %23, label %24, label %16

24:                                               ; preds = %20, %6
  %25 = phi ptr [ %9, %6 ], [ %21, %20 ]
  %26 = getelementptr inbounds i8, ptr %0, i64 72
  %27 = load ptr, ptr %26, align 8
  %28 = tail call i32 %27() nounwind
  %29 = getelementptr inbounds i8, ptr %25, i64 8
  %30 = load ptr, ptr %29, align 8
  %31 = call i32 %30(ptr noundef nonnull %1, ptr noundef nonnull %7) nounwind
  %32 = icmp eq i32 %31, 0
  br i1 %32, label %36, label %33

33:                                               ; preds = %24
  %34 = getelementptr inbounds i8, ptr %0, i64 88
  %35 = load ptr, ptr %34, align 8
  call void %35() nounwind
  br label %36

36:                                               ; preds = %33, %24
  %37 = getelementptr inbounds i8, ptr %0, i64 80
  %38 = load ptr, ptr %37, align 8
  call void %38(i32 noundef %28) nounwind
  %39 = getelementptr inbounds i8, ptr %7, i64 8
  %40 = load i32, ptr %39, align 8
  %41 = icmp eq i32 %40, 1
  %42 = select i1 %32, i1 %41, i1 false
  %43 = getelementptr inbounds i8, ptr %7, i64 16
  %44 = load i32, ptr %43, align 8
  %45 = sext i32 %44 to i64
  %46 = icmp eq i64 %45, %3
  %47 = select i1 %42, i1 %46, i1 false
  %48 = getelementptr inbounds i8, ptr %7, i64 20
  %49 = load i32, ptr %48, align 4
  %50 = icmp eq i32 %49, %2
  %51 = select i1 %47, i1 %50, i1 false
  br i1 %51, label %52, label %101

52:                                               ; preds = %36
  %53 = load ptr, ptr %7, align 8
  %54 = ptrtoint ptr %53 to i64
  %55 = getelementptr inbounds i8, ptr %7, i64 40
  %56 = load i64, ptr %55, align 8
  %57 = add i64 %56, %54
  %58 = icmp eq i64 %57, 0
  %59 = select i1 %58, i64 16, i64 %57
  %60 = inttoptr i64 %59 to ptr
  store ptr %60, ptr %4, align 8
  %61 = and i64 %57, 15
  %62 = icmp eq i64 %61, 0
  br i1 %62, label %63, label %101

63:                                               ; preds = %52
  %64 = icmp sgt i32 %44, 0
  br i1 %64, label %65, label %101

65:                                               ; preds = %63
  %66 = zext nneg i32 %44 to i64
  %67 = getelementptr inbounds i8, ptr %7, i64 24
  %68 = getelementptr inbounds i8, ptr %7, i64 32
  %69 = load ptr, ptr %67, align 8
  %70 = load ptr, ptr %68, align 8
  %71 = icmp eq ptr %70, null
  br label %77

72:                                               ; preds = %95
  %73 = icmp ne i32 %88, 0
  %74 = icmp eq i32 %98, 0
  %75 = select i1 %73, i1 true, i1 %74
  %76 = zext i1 %75 to i32
  br label %101

77:                                               ; preds = %95, %65
  %78 = phi i64 [ %66, %65 ], [ %82, %95 ]
  %79 = phi i64 [ 1, %65 ], [ %99, %95 ]
  %80 = phi i32 [ 0, %65 ], [ %88, %95 ]
  %81 = phi i32 [ 0, %65 ], [ %98, %95 ]
  %82 = add nsw i64 %78, -1
  %83 = getelementptr inbounds i64, ptr %69, i64 %82
  %84 = load i64, ptr %83, align 8
  %85 = getelementptr inbounds i64, ptr %5, i64 %82
  store i64 %84, ptr %85, align 8
  %86 = icmp eq i64 %84, 0
  %87 = zext i1 %86 to i32
  %88 = or i32 %80, %87
  %89 = icmp eq i64 %84, 1
  %90 = select i1 %89, i1 true, i1 %71
  br i1 %90, label %95, label %91

91:                                               ; preds = %77
  %92 = getelementptr inbounds i64, ptr %70, i64 %82
  %93 = load i64, ptr %92, align 8
  %94 = icmp ne i64 %93, %79
  br label %95

95:                                               ; preds = %77, %91
  %96 = phi i1 [ false, %77 ], [ %94, %91 ]
  %97 = zext i1 %96 to i32
  %98 = or i32 %81, %97
  %99 = mul i64 %84, %79
  %100 = icmp ugt i64 %78, 1
  br i1 %100, label %77, label %72

101:                                              ; preds = %72, %63, %52, %36
  %102 = phi i32 [ 0, %36 ], [ 0, %52 ], [ 1, %63 ], [ %76, %72 ]
  br label %103

103:                                              ; preds = %16, %101
  %104 = phi i32 [ %102, %101 ], [ 0, %16 ]
  ret i32 %104
}
