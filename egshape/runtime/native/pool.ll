; pool.c: f8992d19781bf17dfa8263766320fe2dbfa3df7d624e45c88fe0c4fdc8284ce9
; Written by `make native`.

%struct.anon = type { i64, [56 x i8] }
%struct.mask = type { [128 x i8] }

@egs_futex = external constant i64, align 8
@egs_looks = external constant i32, align 4

define hidden i64 @egs_threads(ptr noundef readonly %0) nounwind {
  %2 = icmp eq ptr %0, null
  br i1 %2, label %6, label %3

3:                                                ; preds = %1
  %4 = getelementptr inbounds i8, ptr %0, i64 288
  %5 = load i64, ptr %4, align 32
  br label %6

6:                                                ; preds = %1, %3
  %7 = phi i64 [ %5, %3 ], [ 1, %1 ]
  ret i64 %7
}

define hidden void @egs_session(ptr noundef %0, i32 noundef %1) nounwind {
  %3 = icmp eq ptr %0, null
  br i1 %3, label %7, label %4

4:                                                ; preds = %2
  %5 = getelementptr inbounds i8, ptr %0, i64 8
  %6 = atomicrmw add ptr %5, i32 %1 monotonic, align 8
  br label %7

7:                                                ; preds = %4, %2
  ret void
}

define hidden void @egs_parallel(ptr noundef %0, ptr noundef %1, ptr noundef %2, i64 noundef %3, i64 noundef %4) nounwind {
  %6 = icmp eq ptr %0, null
  br i1 %6, label %10, label %7

7:                                                ; preds = %5
  %8 = cmpxchg ptr %0, i32 0, i32 1 acquire monotonic, align 64
  %9 = extractvalue { i32, i1 } %8, 1
  br i1 %9, label %11, label %10

10:                                               ; preds = %7, %5
  tail call void %1(ptr noundef %2, i64 noundef 0, i64 noundef %3, i64 noundef 0) nounwind
  br label %109

11:                                               ; preds = %7
  %12 = getelementptr inbounds i8, ptr %0, i64 256
  store ptr %1, ptr %12, align 64
  %13 = getelementptr inbounds i8, ptr %0, i64 264
  store ptr %2, ptr %13, align 8
  %14 = getelementptr inbounds i8, ptr %0, i64 272
  store i64 %3, ptr %14, align 16
  %15 = getelementptr inbounds i8, ptr %0, i64 280
  store i64 %4, ptr %15, align 8
  %16 = sdiv i64 %3, %4
  %17 = srem i64 %3, %4
  %18 = icmp sgt i64 %17, 0
  %19 = zext i1 %18 to i64
  %20 = add nsw i64 %16, %19
  %21 = getelementptr inbounds i8, ptr %0, i64 128
  store i64 %20, ptr %21, align 64
  %22 = getelementptr inbounds i8, ptr %0, i64 4
  %23 = tail call i32 @sched_getcpu() nounwind
  store atomic i32 %23, ptr %22 monotonic, align 4
  %24 = getelementptr inbounds i8, ptr %0, i64 288
  %25 = load i64, ptr %24, align 32
  %26 = icmp sgt i64 %25, 0
  br i1 %26, label %27, label %30

27:                                               ; preds = %11
  %28 = getelementptr inbounds i8, ptr %0, i64 320
  %29 = load i64, ptr %21, align 64
  br label %42

30:                                               ; preds = %42, %11
  %31 = getelementptr inbounds i8, ptr %0, i64 192
  store atomic i32 0, ptr %31 release, align 64
  %32 = getelementptr inbounds i8, ptr %0, i64 64
  %33 = atomicrmw add ptr %32, i32 1 seq_cst, align 64
  %34 = getelementptr inbounds i8, ptr %0, i64 68
  %35 = load atomic i32, ptr %34 seq_cst, align 4
  %36 = load i64, ptr %21, align 64
  %37 = sext i32 %35 to i64
  %38 = icmp sgt i64 %36, %37
  %39 = add nsw i64 %36, -1
  %40 = select i1 %38, i64 %37, i64 %39
  %41 = icmp sgt i64 %40, 0
  br i1 %41, label %49, label %53

42:                                               ; preds = %42, %27
  %43 = phi i64 [ 0, %27 ], [ %47, %42 ]
  %44 = getelementptr inbounds [0 x %struct.anon], ptr %28, i64 0, i64 %43
  %45 = mul i64 %43, %29
  %46 = udiv i64 %45, %25
  store atomic i64 %46, ptr %44 monotonic, align 64
  %47 = add nuw nsw i64 %43, 1
  %48 = icmp eq i64 %47, %25
  br i1 %48, label %30, label %42

49:                                               ; preds = %30
  %50 = load i64, ptr @egs_futex, align 8
  %51 = and i64 %40, 4294967295
  %52 = tail call i64 (i64, ...) @syscall(i64 noundef %50, ptr noundef nonnull %32, i64 noundef 129, i64 noundef %51, ptr noundef null, ptr noundef null, i64 noundef 0) nounwind
  br label %53

53:                                               ; preds = %30, %49
  %54 = load ptr, ptr %12, align 64
  %55 = load ptr, ptr %13, align 8
  %56 = load i64, ptr %14, align 16
  %57 = load i64, ptr %15, align 8
  %58 = load i64, ptr %24, align 32
  %59 = icmp sgt i64 %58, 0
  br i1 %59, label %60, label %87

60:                                               ; preds = %53
  %61 = getelementptr inbounds i8, ptr %0, i64 320
  br label %62

62:                                               ; preds = %84, %60
  %63 = phi i64 [ 0, %60 ], [ %85, %84 ]
  %64 = icmp slt i64 %63, %58
  %65 = select i1 %64, i64 0, i64 %58
  %66 = sub nsw i64 %63, %65
  %67 = add nsw i64 %66, 1
  %68 = load i64, ptr %21, align 64
  %69 = mul i64 %67, %68
  %70 = load i64, ptr %24, align 32
  %71 = udiv i64 %69, %70
  %72 = getelementptr inbounds [0 x %struct.anon], ptr %61, i64 0, i64 %66
  %73 = atomicrmw add ptr %72, i64 1 monotonic, align 64
  %74 = icmp slt i64 %73, %71
  br i1 %74, label %75, label %84

75:                                               ; preds = %62, %75
  %76 = phi i64 [ %82, %75 ], [ %73, %62 ]
  %77 = mul nsw i64 %76, %57
  %78 = sub nsw i64 %56, %77
  %79 = icmp slt i64 %57, %78
  %80 = add nsw i64 %77, %57
  %81 = select i1 %79, i64 %80, i64 %56
  tail call void %54(ptr noundef %55, i64 noundef %77, i64 noundef %81, i64 noundef 0) nounwind
  %82 = atomicrmw add ptr %72, i64 1 monotonic, align 64
  %83 = icmp slt i64 %82, %71
  br i1 %83, label %75, label %84

84:                                               ; preds = %75, %62
  %85 = add nuw nsw i64 %63, 1
  %86 = icmp eq i64 %85, %58
  br i1 %86, label %87, label %62

87:                                               ; preds = %84, %53
  %88 = atomicrmw or ptr %31, i32 1073741824 acq_rel, align 64
  %89 = load atomic i32, ptr %31 acquire, align 64
  %90 = icmp eq i32 %89, 1073741824
  br i1 %90, label %108, label %91

91:                                               ; preds = %87
  %92 = load i32, ptr @egs_looks, align 4
  %93 = load i64, ptr @egs_futex, align 8
  %94 = add nsw i32 %92, -1
  br label %95

95:                                               ; preds = %103, %91
  %96 = phi i32 [ %89, %91 ], [ %106, %103 ]
  %97 = phi i32 [ 0, %91 ], [ %105, %103 ]
  %98 = icmp slt i32 %97, %92
  br i1 %98, label %99, label %100

99:                                               ; preds = %95
  tail call void @egs_pause() nounwind
  br label %103

100:                                              ; preds = %95
  %101 = sext i32 %96 to i64
  %102 = tail call i64 (i64, ...) @syscall(i64 noundef %93, ptr noundef nonnull %31, i64 noundef 128, i64 noundef %101, ptr noundef null, ptr noundef null, i64 noundef 0) nounwind
  br label %103

103:                                              ; preds = %100, %99
  %104 = phi i32 [ %94, %100 ], [ %97, %99 ]
  %105 = add nsw i32 %104, 1
  %106 = load atomic i32, ptr %31 acquire, align 64
  %107 = icmp eq i32 %106, 1073741824
  br i1 %107, label %108, label %95

108:                                              ; preds = %103, %87
  store atomic i32 0, ptr %0 release, align 64
  br label %109

109:                                              ; preds = %108, %10
  ret void
}

define ptr @egshape_pool(i32 noundef %0) nounwind {
  %2 = alloca %struct.mask, align 16
  %3 = alloca %struct.mask, align 16
  %4 = alloca %struct.mask, align 16
  %5 = alloca i64, align 8
  %6 = icmp slt i32 %0, 1
  br i1 %6, label %31, label %7

7:                                                ; preds = %1
  %8 = zext nneg i32 %0 to i64
  %9 = shl nuw nsw i64 %8, 6
  %10 = add nuw nsw i64 %9, 320
  %11 = tail call ptr @aligned_alloc(i64 noundef 64, i64 noundef %10) nounwind
  %12 = icmp eq ptr %11, null
  br i1 %12, label %31, label %13

13:                                               ; preds = %7
  %14 = tail call ptr @memset(ptr noundef nonnull %11, i32 noundef 0, i64 noundef %10) nounwind
  %15 = getelementptr inbounds i8, ptr %11, i64 288
  store i64 %8, ptr %15, align 32
  %16 = getelementptr inbounds i8, ptr %11, i64 192
  store i32 1073741824, ptr %16, align 64
  %17 = call ptr @memset(ptr noundef nonnull %2, i32 noundef 255, i64 noundef 128) nounwind
  %18 = call i32 @pthread_sigmask(i32 noundef 0, ptr noundef nonnull %2, ptr noundef nonnull %3) nounwind
  %19 = call i32 @pthread_attr_init(ptr noundef nonnull %4) nounwind
  %20 = call i32 @pthread_attr_setstacksize(ptr noundef nonnull %4, i64 noundef 8388608) nounwind
  %21 = call i32 @pthread_attr_setdetachstate(ptr noundef nonnull %4, i32 noundef 1) nounwind
  %22 = icmp eq i32 %0, 1
  br i1 %22, label %23, label %26

23:                                               ; preds = %26, %13
  %24 = call i32 @pthread_attr_destroy(ptr noundef nonnull %4) nounwind
  %25 = call i32 @pthread_sigmask(i32 noundef 2, ptr noundef nonnull %3, ptr noundef null) nounwind
  br label %31

26:                                               ; preds = %13, %26
  %27 = phi i32 [ %29, %26 ], [ 1, %13 ]
  %28 = call i32 @pthread_create(ptr noundef nonnull %5, ptr noundef nonnull %4, ptr noundef nonnull @work, ptr noundef nonnull %11) nounwind
  %29 = add nuw nsw i32 %27, 1
  %30 = icmp eq i32 %29, %0
  br i1 %30, label %23, label %26

31:                                               ; preds = %23, %7, %1
  %32 = phi ptr [ null, %1 ], [ %11, %23 ], [ null, %7 ]
  ret ptr %32
}

declare ptr @aligned_alloc(i64 noundef, i64 noundef)

declare ptr @memset(ptr noundef, i32 noundef, i64 noundef)

declare i32 @pthread_sigmask(i32 noundef, ptr noundef, ptr noundef)

declare i32 @pthread_attr_init(ptr noundef)

declare i32 @pthread_attr_setstacksize(ptr noundef, i64 noundef)

declare i32 @pthread_attr_setdetachstate(ptr noundef, i32 noundef)

declare i32 @pthread_create(ptr noundef, ptr noundef, ptr noundef, ptr noundef)

define internal noundef ptr @work(ptr noundef %0) nounwind {
  %2 = alloca %struct.mask, align 16
  %3 = alloca %struct.mask, align 16
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 16 dereferenceable(128) %3, i8 0, i64 128, i1 false)
  %4 = call i32 @sched_getaffinity(i32 noundef 0, i64 noundef 128, ptr noundef nonnull %3) nounwind
  %5 = getelementptr inbounds i8, ptr %0, i64 12
  %6 = atomicrmw add ptr %5, i32 1 monotonic, align 4
  %7 = add i32 %6, 1
  %8 = sext i32 %7 to i64
  %9 = getelementptr inbounds i8, ptr %0, i64 64
  %10 = getelementptr inbounds i8, ptr %0, i64 192
  %11 = getelementptr inbounds i8, ptr %0, i64 4
  %12 = getelementptr inbounds i8, ptr %0, i64 256
  %13 = getelementptr inbounds i8, ptr %0, i64 264
  %14 = getelementptr inbounds i8, ptr %0, i64 272
  %15 = getelementptr inbounds i8, ptr %0, i64 280
  %16 = getelementptr inbounds i8, ptr %0, i64 288
  %17 = getelementptr inbounds i8, ptr %0, i64 128
  %18 = getelementptr inbounds i8, ptr %0, i64 320
  %19 = load i64, ptr @egs_futex, align 8
  %20 = getelementptr inbounds i8, ptr %0, i64 8
  %21 = load i32, ptr @egs_looks, align 4
  %22 = icmp slt i32 %21, 1
  %23 = getelementptr inbounds i8, ptr %0, i64 68
  br label %24

24:                                               ; preds = %112, %1
  %25 = load atomic i32, ptr %9 seq_cst, align 64
  %26 = load atomic i32, ptr %10 acquire, align 64
  br label %27

27:                                               ; preds = %31, %24
  %28 = phi i32 [ %26, %24 ], [ %35, %31 ]
  %29 = and i32 %28, 1073741824
  %30 = icmp eq i32 %29, 0
  br i1 %30, label %31, label %91

31:                                               ; preds = %27
  %32 = add nuw nsw i32 %28, 1
  %33 = cmpxchg ptr %10, i32 %28, i32 %32 acq_rel acquire, align 64
  %34 = extractvalue { i32, i1 } %33, 1
  %35 = extractvalue { i32, i1 } %33, 0
  br i1 %34, label %36, label %27

36:                                               ; preds = %31
  %37 = call i32 @sched_getcpu() nounwind
  %38 = load atomic i32, ptr %11 monotonic, align 4
  %39 = icmp ne i32 %37, %38
  %40 = icmp ugt i32 %37, 1023
  %41 = or i1 %40, %39
  br i1 %41, label %53, label %42

42:                                               ; preds = %36
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 16 dereferenceable(128) %2, ptr noundef nonnull readonly align 16 dereferenceable(128) %3, i64 128, i1 false)
  %43 = and i32 %37, 7
  %44 = shl nuw nsw i32 1, %43
  %45 = lshr i32 %37, 3
  %46 = zext nneg i32 %45 to i64
  %47 = getelementptr inbounds [128 x i8], ptr %2, i64 0, i64 %46
  %48 = load i8, ptr %47, align 1
  %49 = trunc nuw i32 %44 to i8
  %50 = xor i8 %49, -1
  %51 = and i8 %48, %50
  store i8 %51, ptr %47, align 1
  %52 = call i32 @sched_setaffinity(i32 noundef 0, i64 noundef 128, ptr noundef nonnull %2) nounwind
  br label %53

53:                                               ; preds = %42, %36
  %54 = load ptr, ptr %12, align 64
  %55 = load ptr, ptr %13, align 8
  %56 = load i64, ptr %14, align 16
  %57 = load i64, ptr %15, align 8
  %58 = load i64, ptr %16, align 32
  %59 = icmp sgt i64 %58, 0
  br i1 %59, label %60, label %86

60:                                               ; preds = %53, %83
  %61 = phi i64 [ %84, %83 ], [ 0, %53 ]
  %62 = add nsw i64 %61, %8
  %63 = icmp slt i64 %62, %58
  %64 = select i1 %63, i64 0, i64 %58
  %65 = sub nsw i64 %62, %64
  %66 = add nsw i64 %65, 1
  %67 = load i64, ptr %17, align 64
  %68 = mul i64 %66, %67
  %69 = load i64, ptr %16, align 32
  %70 = udiv i64 %68, %69
  %71 = getelementptr inbounds [0 x %struct.anon], ptr %18, i64 0, i64 %65
  %72 = atomicrmw add ptr %71, i64 1 monotonic, align 64
  %73 = icmp slt i64 %72, %70
  br i1 %73, label %74, label %83

74:                                               ; preds = %60, %74
  %75 = phi i64 [ %81, %74 ], [ %72, %60 ]
  %76 = mul nsw i64 %75, %57
  %77 = sub nsw i64 %56, %76
  %78 = icmp slt i64 %57, %77
  %79 = add nsw i64 %76, %57
  %80 = select i1 %78, i64 %79, i64 %56
  call void %54(ptr noundef %55, i64 noundef %76, i64 noundef %80, i64 noundef %8) nounwind
  %81 = atomicrmw add ptr %71, i64 1 monotonic, align 64
  %82 = icmp slt i64 %81, %70
  br i1 %82, label %74, label %83

83:                                               ; preds = %74, %60
  %84 = add nuw nsw i64 %61, 1
  %85 = icmp eq i64 %84, %58
  br i1 %85, label %86, label %60

86:                                               ; preds = %83, %53
  %87 = atomicrmw sub ptr %10, i32 1 acq_rel, align 64
  %88 = icmp eq i32 %87, 1073741825
  br i1 %88, label %89, label %91

89:                                               ; preds = %86
  %90 = call i64 (i64, ...) @syscall(i64 noundef %19, ptr noundef nonnull %10, i64 noundef 129, i64 noundef 1, ptr noundef null, ptr noundef null, i64 noundef 0) nounwind
  br label %91

91:                                               ; preds = %27, %86, %89
  %92 = load atomic i32, ptr %9 monotonic, align 64
  %93 = icmp ne i32 %92, %25
  %94 = select i1 %93, i1 true, i1 %22
  br i1 %94, label %105, label %95

95:                                               ; preds = %91, %99
  %96 = phi i32 [ %100, %99 ], [ 0, %91 ]
  %97 = load atomic i32, ptr %20 monotonic, align 8
  %98 = icmp eq i32 %97, 0
  br i1 %98, label %107, label %99

99:                                               ; preds = %95
  call void @egs_pause() nounwind
  %100 = add nuw nsw i32 %96, 1
  %101 = load atomic i32, ptr %9 monotonic, align 64
  %102 = icmp ne i32 %101, %25
  %103 = icmp sge i32 %100, %21
  %104 = select i1 %102, i1 true, i1 %103
  br i1 %104, label %105, label %95

105:                                              ; preds = %99, %91
  %106 = phi i1 [ %93, %91 ], [ %102, %99 ]
  br i1 %106, label %112, label %107

107:                                              ; preds = %95, %105
  %108 = atomicrmw add ptr %23, i32 1 seq_cst, align 4
  %109 = sext i32 %25 to i64
  %110 = call i64 (i64, ...) @syscall(i64 noundef %19, ptr noundef nonnull %9, i64 noundef 128, i64 noundef %109, ptr noundef null, ptr noundef null, i64 noundef 0) nounwind
  %111 = atomicrmw sub ptr %23, i32 1 seq_cst, align 4
  br label %112

112:                                              ; preds = %107, %105
  br label %24
}

declare i32 @pthread_attr_destroy(ptr noundef)

declare i32 @sched_getcpu()

declare i64 @syscall(i64 noundef, ...)

declare void @egs_pause()

declare void @llvm.memset.p0.i64(ptr writeonly, i8, i64, i1 immarg) nounwind

declare i32 @sched_getaffinity(i32 noundef, i64 noundef, ptr noundef)

declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly, ptr noalias readonly, i64, i1 immarg) nounwind

declare i32 @sched_setaffinity(i32 noundef, i64 noundef, ptr noundef)
