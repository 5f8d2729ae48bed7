; images.c: e9295d79de4e1627818ca0a585d6af506322258983ca67c22b21ca941e258b25
; Written by `make native`.

%struct.egs_call = type { ptr, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr, ptr, i64, ptr }
%struct.job = type { ptr, ptr, ptr, ptr, i64, i64, i64, i64, i64, i32 }
%struct.egs_images_port = type { i64, i64, i64 }

define hidden i32 @egs_images(ptr noundef %0, ptr noundef %1, ptr noundef %2) nounwind {
  %4 = alloca %struct.egs_call, align 8
  %5 = alloca %struct.job, align 8
  %6 = getelementptr inbounds i8, ptr %0, i64 24
  %7 = load ptr, ptr %6, align 8
  %8 = load i64, ptr %1, align 8
  %9 = getelementptr inbounds i64, ptr %7, i64 %8
  %10 = load i64, ptr %9, align 8
  %11 = icmp slt i64 %10, 2
  br i1 %11, label %12, label %14

12:                                               ; preds = %3
  %13 = tail call i32 %2(ptr noundef nonnull %0) nounwind
  br label %226

14:                                               ; preds = %3
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(120) %4, ptr noundef nonnull align 8 dereferenceable(120) %0, i64 120, i1 false)
  %15 = getelementptr inbounds i8, ptr %4, i64 104
  %16 = load i64, ptr %15, align 8
  %17 = or i64 %16, 2
  store i64 %17, ptr %15, align 8
  %18 = getelementptr inbounds i8, ptr %4, i64 72
  store ptr null, ptr %18, align 8
  %19 = getelementptr inbounds i8, ptr %4, i64 80
  store i64 1, ptr %19, align 8
  %20 = call i32 %2(ptr noundef nonnull %4) nounwind
  %21 = icmp eq i32 %20, 15
  br i1 %21, label %22, label %224

22:                                               ; preds = %14
  %23 = getelementptr inbounds i8, ptr %0, i64 64
  %24 = load ptr, ptr %23, align 8
  %25 = load i64, ptr %24, align 8
  %26 = sdiv i64 %25, %10
  %27 = icmp sgt i64 %26, 0
  br i1 %27, label %28, label %37

28:                                               ; preds = %22
  %29 = getelementptr inbounds i8, ptr %1, i64 8
  %30 = load i64, ptr %29, align 8
  %31 = icmp sgt i64 %30, 8388611
  %32 = lshr i64 %30, 2
  %33 = add nsw i64 %32, -1
  %34 = select i1 %31, i64 %33, i64 2097151
  %35 = add nsw i64 %34, %26
  %36 = udiv i64 %35, %26
  br label %37

37:                                               ; preds = %28, %22
  %38 = phi i64 [ %36, %28 ], [ %10, %22 ]
  br label %39

39:                                               ; preds = %39, %37
  %40 = phi i64 [ 1, %37 ], [ %41, %39 ]
  %41 = shl nsw i64 %40, 1
  %42 = mul nsw i64 %41, %38
  %43 = icmp sgt i64 %42, %10
  br i1 %43, label %44, label %39

44:                                               ; preds = %39
  %45 = add nsw i64 %10, -1
  %46 = add i64 %45, %40
  %47 = sdiv i64 %46, %40
  %48 = icmp slt i64 %47, %10
  br i1 %48, label %49, label %103

49:                                               ; preds = %44
  %50 = getelementptr inbounds i8, ptr %1, i64 24
  %51 = load i64, ptr %50, align 8
  %52 = icmp slt i64 %51, 1
  br i1 %52, label %105, label %53

53:                                               ; preds = %49
  %54 = getelementptr inbounds i8, ptr %0, i64 40
  %55 = load ptr, ptr %54, align 8
  %56 = load ptr, ptr %55, align 8
  %57 = icmp eq ptr %56, null
  br i1 %57, label %103, label %58

58:                                               ; preds = %53
  %59 = getelementptr inbounds i8, ptr %0, i64 48
  %60 = getelementptr inbounds i8, ptr %1, i64 32
  %61 = getelementptr inbounds i8, ptr %1, i64 16
  %62 = load i64, ptr %61, align 8
  %63 = getelementptr inbounds %struct.egs_images_port, ptr %60, i64 %62
  %64 = getelementptr inbounds i8, ptr %0, i64 56
  %65 = load ptr, ptr %64, align 8
  %66 = load ptr, ptr %59, align 8
  br label %73

67:                                               ; preds = %97
  %68 = getelementptr inbounds i8, ptr %74, i64 24
  %69 = getelementptr inbounds i64, ptr %75, i64 %83
  %70 = getelementptr inbounds ptr, ptr %55, i64 %98
  %71 = load ptr, ptr %70, align 8
  %72 = icmp eq ptr %71, null
  br i1 %72, label %101, label %73

73:                                               ; preds = %58, %67
  %74 = phi ptr [ %63, %58 ], [ %68, %67 ]
  %75 = phi ptr [ %65, %58 ], [ %69, %67 ]
  %76 = phi i64 [ 0, %58 ], [ %98, %67 ]
  %77 = phi i1 [ false, %58 ], [ %99, %67 ]
  %78 = getelementptr inbounds i64, ptr %66, i64 %76
  %79 = load i64, ptr %78, align 8
  %80 = load i64, ptr %75, align 8
  %81 = getelementptr inbounds i8, ptr %74, i64 8
  %82 = load i64, ptr %81, align 8
  %83 = load i64, ptr %74, align 8
  %84 = icmp sgt i64 %83, 1
  br i1 %84, label %85, label %93

85:                                               ; preds = %73, %85
  %86 = phi i64 [ %91, %85 ], [ 1, %73 ]
  %87 = phi i64 [ %90, %85 ], [ %82, %73 ]
  %88 = getelementptr inbounds i64, ptr %75, i64 %86
  %89 = load i64, ptr %88, align 8
  %90 = mul nsw i64 %89, %87
  %91 = add nuw nsw i64 %86, 1
  %92 = icmp eq i64 %91, %83
  br i1 %92, label %93, label %85

93:                                               ; preds = %85, %73
  %94 = phi i64 [ %82, %73 ], [ %90, %85 ]
  %95 = mul nsw i64 %94, %80
  %96 = icmp slt i64 %79, %95
  br i1 %96, label %101, label %97

97:                                               ; preds = %93
  %98 = add nuw nsw i64 %76, 1
  %99 = icmp sge i64 %98, %51
  %100 = icmp eq i64 %98, %51
  br i1 %100, label %101, label %67

101:                                              ; preds = %97, %93, %67
  %102 = phi i1 [ %99, %67 ], [ %77, %93 ], [ %99, %97 ]
  br i1 %102, label %105, label %103

103:                                              ; preds = %53, %101, %44
  %104 = call i32 %2(ptr noundef %0) nounwind
  br label %224

105:                                              ; preds = %49, %101
  %106 = add i64 %45, %47
  %107 = sdiv i64 %106, %47
  %108 = getelementptr inbounds i8, ptr %0, i64 72
  %109 = load ptr, ptr %108, align 8
  %110 = icmp eq ptr %109, null
  br i1 %110, label %125, label %111

111:                                              ; preds = %105
  %112 = getelementptr inbounds i8, ptr %0, i64 80
  %113 = load i64, ptr %112, align 8
  %114 = icmp sgt i64 %113, 1
  br i1 %114, label %115, label %125

115:                                              ; preds = %111
  %116 = getelementptr inbounds i8, ptr %0, i64 88
  %117 = load ptr, ptr %116, align 8
  %118 = icmp eq ptr %117, null
  br i1 %118, label %119, label %125

119:                                              ; preds = %115
  %120 = shl nsw i64 %107, 1
  %121 = icmp slt i64 %120, %113
  %122 = freeze i1 %121
  %123 = zext i1 %122 to i64
  %124 = select i1 %122, i64 1, i64 %113
  br label %125

125:                                              ; preds = %119, %115, %105, %111
  %126 = phi i64 [ 0, %111 ], [ 0, %105 ], [ 1, %115 ], [ %123, %119 ]
  %127 = phi i64 [ 1, %111 ], [ 1, %105 ], [ 1, %115 ], [ %124, %119 ]
  %128 = getelementptr inbounds i8, ptr %1, i64 32
  %129 = getelementptr inbounds i8, ptr %1, i64 16
  %130 = load i64, ptr %129, align 8
  %131 = add nsw i64 %130, %51
  %132 = icmp sgt i64 %131, 0
  br i1 %132, label %133, label %141

133:                                              ; preds = %125, %133
  %134 = phi i64 [ %139, %133 ], [ 0, %125 ]
  %135 = phi i64 [ %138, %133 ], [ 0, %125 ]
  %136 = getelementptr inbounds %struct.egs_images_port, ptr %128, i64 %134
  %137 = load i64, ptr %136, align 8
  %138 = add nsw i64 %137, %135
  %139 = add nuw nsw i64 %134, 1
  %140 = icmp eq i64 %139, %131
  br i1 %140, label %141, label %133

141:                                              ; preds = %133, %125
  %142 = phi i64 [ 0, %125 ], [ %138, %133 ]
  %143 = add nsw i64 %142, %131
  %144 = shl nsw i64 %143, 3
  %145 = add nsw i64 %144, 183
  %146 = sdiv i64 %145, 64
  %147 = shl nsw i64 %146, 6
  store ptr %0, ptr %5, align 8
  %148 = getelementptr inbounds i8, ptr %5, i64 8
  store ptr %1, ptr %148, align 8
  %149 = getelementptr inbounds i8, ptr %5, i64 16
  store ptr %2, ptr %149, align 8
  %150 = getelementptr inbounds i8, ptr %5, i64 24
  %151 = mul nsw i64 %147, %127
  %152 = call ptr @egs_memory(i64 noundef %151) nounwind
  store ptr %152, ptr %150, align 8
  %153 = getelementptr inbounds i8, ptr %5, i64 32
  store i64 %147, ptr %153, align 8
  %154 = getelementptr inbounds i8, ptr %5, i64 40
  store i64 %47, ptr %154, align 8
  %155 = getelementptr inbounds i8, ptr %5, i64 48
  store i64 %10, ptr %155, align 8
  %156 = getelementptr inbounds i8, ptr %5, i64 56
  store i64 0, ptr %156, align 8
  %157 = getelementptr inbounds i8, ptr %5, i64 64
  store i64 %126, ptr %157, align 8
  %158 = getelementptr inbounds i8, ptr %5, i64 72
  store i32 0, ptr %158, align 8
  %159 = icmp eq ptr %152, null
  br i1 %159, label %222, label %160

160:                                              ; preds = %141
  call fastcc void @narrow(ptr noundef nonnull %152, ptr noundef nonnull readonly %5, i64 noundef 0, i64 noundef %47)
  %161 = getelementptr inbounds i8, ptr %152, i64 104
  store i64 2, ptr %161, align 8
  %162 = call i32 %2(ptr noundef nonnull %152) nounwind
  %163 = icmp eq i32 %162, 15
  br i1 %163, label %164, label %168

164:                                              ; preds = %160
  %165 = getelementptr inbounds i8, ptr %152, i64 64
  %166 = load ptr, ptr %165, align 8
  %167 = load i64, ptr %166, align 8
  br label %168

168:                                              ; preds = %164, %160
  %169 = phi i64 [ %167, %164 ], [ -1, %160 ]
  %170 = add nsw i64 %107, -1
  %171 = mul nsw i64 %47, %170
  %172 = sub nsw i64 %10, %171
  call fastcc void @narrow(ptr noundef nonnull %152, ptr noundef nonnull readonly %5, i64 noundef 0, i64 noundef %172)
  store i64 2, ptr %161, align 8
  %173 = call i32 %2(ptr noundef nonnull %152) nounwind
  %174 = icmp eq i32 %173, 15
  br i1 %174, label %175, label %182

175:                                              ; preds = %168
  %176 = getelementptr inbounds i8, ptr %152, i64 64
  %177 = load ptr, ptr %176, align 8
  %178 = load i64, ptr %177, align 8
  %179 = icmp slt i64 %169, 0
  %180 = icmp slt i64 %178, 0
  %181 = select i1 %179, i1 true, i1 %180
  br i1 %181, label %182, label %184

182:                                              ; preds = %175, %168
  %183 = call i32 %2(ptr noundef %0) nounwind
  br label %219

184:                                              ; preds = %175
  %185 = call i64 @llvm.umax.i64(i64 %169, i64 %178)
  store i64 %185, ptr %156, align 8
  %186 = mul nsw i64 %185, %127
  %187 = getelementptr inbounds i8, ptr %0, i64 8
  %188 = load i64, ptr %187, align 8
  %189 = icmp slt i64 %188, %186
  br i1 %189, label %190, label %195

190:                                              ; preds = %184
  %191 = load ptr, ptr %0, align 8
  call void @free(ptr noundef %191) nounwind
  store i64 0, ptr %187, align 8
  %192 = call ptr @egs_memory(i64 noundef %186) nounwind
  store ptr %192, ptr %0, align 8
  %193 = icmp eq ptr %192, null
  %194 = select i1 %193, i64 0, i64 %186
  store i64 %194, ptr %187, align 8
  br i1 %193, label %219, label %195

195:                                              ; preds = %190, %184
  %196 = icmp eq i64 %126, 0
  br i1 %196, label %213, label %197

197:                                              ; preds = %195
  %198 = icmp sgt i64 %107, 0
  br i1 %198, label %199, label %219

199:                                              ; preds = %197
  %200 = getelementptr inbounds i8, ptr %152, i64 8
  br label %204

201:                                              ; preds = %204
  %202 = add nuw nsw i64 %205, 1
  %203 = icmp eq i64 %202, %107
  br i1 %203, label %219, label %204

204:                                              ; preds = %201, %199
  %205 = phi i64 [ 0, %199 ], [ %202, %201 ]
  %206 = mul nsw i64 %47, %205
  %207 = sub nsw i64 %10, %206
  %208 = call i64 @llvm.smin.i64(i64 %207, i64 %47)
  call fastcc void @narrow(ptr noundef nonnull %152, ptr noundef nonnull %5, i64 noundef %206, i64 noundef %208)
  %209 = load ptr, ptr %0, align 8
  store ptr %209, ptr %152, align 8
  store i64 %185, ptr %200, align 8
  %210 = call i32 %2(ptr noundef nonnull %152) nounwind
  %211 = icmp eq i32 %210, 0
  br i1 %211, label %201, label %212

212:                                              ; preds = %204
  store atomic i32 %210, ptr %158 monotonic, align 8
  br label %219

213:                                              ; preds = %195
  %214 = load ptr, ptr %108, align 8
  call void @egs_session(ptr noundef %214, i32 noundef 1) nounwind
  %215 = load ptr, ptr %108, align 8
  call void @egs_parallel(ptr noundef %215, ptr noundef nonnull @run_parts, ptr noundef nonnull %5, i64 noundef %107, i64 noundef 1) nounwind
  %216 = load ptr, ptr %108, align 8
  call void @egs_session(ptr noundef %216, i32 noundef -1) nounwind
  %217 = load i32, ptr %158, align 8
  %218 = load ptr, ptr %150, align 8
  br label %219

219:                                              ; preds = %201, %197, %212, %213, %182, %190
  %220 = phi ptr [ %152, %182 ], [ %152, %190 ], [ %218, %213 ], [ %152, %212 ], [ %152, %197 ], [ %152, %201 ]
  %221 = phi i32 [ %183, %182 ], [ 3, %190 ], [ %217, %213 ], [ %210, %212 ], [ 0, %197 ], [ 0, %201 ]
  call void @free(ptr noundef %220) nounwind
  br label %222

222:                                              ; preds = %141, %219
  %223 = phi i32 [ %221, %219 ], [ 3, %141 ]
  br label %224

224:                                              ; preds = %103, %222, %14
  %225 = phi i32 [ %20, %14 ], [ %104, %103 ], [ %223, %222 ]
  br label %226

226:                                              ; preds = %224, %12
  %227 = phi i32 [ %13, %12 ], [ %225, %224 ]
  ret i32 %227
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly, ptr noalias readonly, i64, i1 immarg) nounwind

declare ptr @egs_memory(i64 noundef)

declare void @free(ptr noundef)

define internal void @run_parts(ptr noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) nounwind {
  %5 = getelementptr inbounds i8, ptr %0, i64 24
  %6 = load ptr, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %0, i64 32
  %8 = load i64, ptr %7, align 8
  %9 = mul nsw i64 %8, %3
  %10 = getelementptr inbounds i8, ptr %6, i64 %9
  %11 = icmp slt i64 %1, %2
  br i1 %11, label %12, label %39

12:                                               ; preds = %4
  %13 = getelementptr inbounds i8, ptr %0, i64 40
  %14 = getelementptr inbounds i8, ptr %0, i64 48
  %15 = getelementptr inbounds i8, ptr %0, i64 56
  %16 = getelementptr inbounds i8, ptr %10, i64 8
  %17 = getelementptr inbounds i8, ptr %0, i64 16
  br label %21

18:                                               ; preds = %21
  %19 = add i64 %22, 1
  %20 = icmp eq i64 %19, %2
  br i1 %20, label %39, label %21

21:                                               ; preds = %12, %18
  %22 = phi i64 [ %1, %12 ], [ %19, %18 ]
  %23 = load i64, ptr %13, align 8
  %24 = mul nsw i64 %23, %22
  %25 = load i64, ptr %14, align 8
  %26 = sub nsw i64 %25, %24
  %27 = tail call i64 @llvm.smin.i64(i64 %26, i64 %23)
  tail call fastcc void @narrow(ptr noundef %10, ptr noundef nonnull %0, i64 noundef %24, i64 noundef %27)
  %28 = load ptr, ptr %0, align 8
  %29 = load ptr, ptr %28, align 8
  %30 = load i64, ptr %15, align 8
  %31 = mul nsw i64 %30, %3
  %32 = getelementptr inbounds i8, ptr %29, i64 %31
  store ptr %32, ptr %10, align 8
  %33 = load i64, ptr %15, align 8
  store i64 %33, ptr %16, align 8
  %34 = load ptr, ptr %17, align 8
  %35 = tail call i32 %34(ptr noundef nonnull %10) nounwind
  %36 = icmp eq i32 %35, 0
  br i1 %36, label %18, label %37

37:                                               ; preds = %21
  %38 = getelementptr inbounds i8, ptr %0, i64 72
  store atomic i32 %35, ptr %38 monotonic, align 8
  br label %39

39:                                               ; preds = %18, %4, %37
  ret void
}

declare void @egs_session(ptr noundef, i32 noundef)

declare void @egs_parallel(ptr noundef, ptr noundef, ptr noundef, i64 noundef, i64 noundef)

define internal fastcc void @narrow(ptr noundef %0, ptr noundef readonly %1, i64 noundef %2, i64 noundef %3) nounwind {
  %5 = load ptr, ptr %1, align 8
  %6 = getelementptr inbounds i8, ptr %1, i64 8
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %7, i64 32
  %9 = getelementptr inbounds i8, ptr %7, i64 16
  %10 = load i64, ptr %9, align 8
  %11 = getelementptr inbounds i8, ptr %7, i64 24
  %12 = load i64, ptr %11, align 8
  %13 = icmp sgt i64 %10, 0
  br i1 %13, label %14, label %22

14:                                               ; preds = %4, %14
  %15 = phi i64 [ %20, %14 ], [ 0, %4 ]
  %16 = phi i64 [ %19, %14 ], [ 0, %4 ]
  %17 = getelementptr inbounds %struct.egs_images_port, ptr %8, i64 %15
  %18 = load i64, ptr %17, align 8
  %19 = add nsw i64 %18, %16
  %20 = add nuw nsw i64 %15, 1
  %21 = icmp eq i64 %20, %10
  br i1 %21, label %22, label %14

22:                                               ; preds = %14, %4
  %23 = phi i64 [ 0, %4 ], [ %19, %14 ]
  %24 = getelementptr inbounds i8, ptr %0, i64 120
  %25 = getelementptr inbounds ptr, ptr %24, i64 %10
  %26 = getelementptr inbounds i64, ptr %25, i64 %12
  tail call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(120) %0, ptr noundef nonnull align 8 dereferenceable(120) %5, i64 120, i1 false)
  %27 = getelementptr inbounds i8, ptr %0, i64 16
  store ptr %24, ptr %27, align 8
  %28 = getelementptr inbounds i8, ptr %0, i64 40
  store ptr %25, ptr %28, align 8
  %29 = getelementptr inbounds i8, ptr %0, i64 24
  store ptr %26, ptr %29, align 8
  %30 = getelementptr inbounds i64, ptr %26, i64 %23
  %31 = getelementptr inbounds i8, ptr %0, i64 56
  store ptr %30, ptr %31, align 8
  %32 = getelementptr inbounds i8, ptr %0, i64 104
  store i64 0, ptr %32, align 8
  %33 = getelementptr inbounds i8, ptr %5, i64 24
  %34 = load ptr, ptr %33, align 8
  %35 = shl i64 %23, 3
  %36 = tail call ptr @memcpy(ptr noundef nonnull %26, ptr noundef %34, i64 noundef %35) nounwind
  br i1 %13, label %37, label %40

37:                                               ; preds = %22
  %38 = load ptr, ptr %33, align 8
  %39 = getelementptr inbounds i8, ptr %5, i64 16
  br label %47

40:                                               ; preds = %81, %22
  %41 = phi ptr [ %8, %22 ], [ %86, %81 ]
  %42 = icmp sgt i64 %12, 0
  br i1 %42, label %43, label %88

43:                                               ; preds = %40
  %44 = getelementptr inbounds i8, ptr %5, i64 56
  %45 = load ptr, ptr %44, align 8
  %46 = getelementptr inbounds i8, ptr %5, i64 40
  br label %92

47:                                               ; preds = %37, %81
  %48 = phi ptr [ %8, %37 ], [ %86, %81 ]
  %49 = phi i64 [ 0, %37 ], [ %85, %81 ]
  %50 = phi ptr [ %38, %37 ], [ %83, %81 ]
  %51 = phi ptr [ %26, %37 ], [ %84, %81 ]
  %52 = getelementptr inbounds i8, ptr %48, i64 16
  %53 = load i64, ptr %52, align 8
  %54 = icmp eq i64 %53, 0
  br i1 %54, label %71, label %55

55:                                               ; preds = %47
  %56 = getelementptr inbounds i8, ptr %48, i64 8
  %57 = load i64, ptr %56, align 8
  %58 = load i64, ptr %48, align 8
  %59 = icmp sgt i64 %58, 1
  br i1 %59, label %60, label %68

60:                                               ; preds = %55, %60
  %61 = phi i64 [ %66, %60 ], [ 1, %55 ]
  %62 = phi i64 [ %65, %60 ], [ %57, %55 ]
  %63 = getelementptr inbounds i64, ptr %50, i64 %61
  %64 = load i64, ptr %63, align 8
  %65 = mul nsw i64 %64, %62
  %66 = add nuw nsw i64 %61, 1
  %67 = icmp eq i64 %66, %58
  br i1 %67, label %68, label %60

68:                                               ; preds = %60, %55
  %69 = phi i64 [ %57, %55 ], [ %65, %60 ]
  %70 = mul nsw i64 %69, %2
  br label %71

71:                                               ; preds = %47, %68
  %72 = phi i64 [ %70, %68 ], [ 0, %47 ]
  %73 = load ptr, ptr %39, align 8
  %74 = getelementptr inbounds ptr, ptr %73, i64 %49
  %75 = load ptr, ptr %74, align 8
  %76 = getelementptr inbounds i8, ptr %75, i64 %72
  %77 = getelementptr inbounds ptr, ptr %24, i64 %49
  store ptr %76, ptr %77, align 8
  %78 = load i64, ptr %52, align 8
  %79 = icmp eq i64 %78, 0
  br i1 %79, label %81, label %80

80:                                               ; preds = %71
  store i64 %3, ptr %51, align 8
  br label %81

81:                                               ; preds = %80, %71
  %82 = load i64, ptr %48, align 8
  %83 = getelementptr inbounds i64, ptr %50, i64 %82
  %84 = getelementptr inbounds i64, ptr %51, i64 %82
  %85 = add nuw nsw i64 %49, 1
  %86 = getelementptr inbounds i8, ptr %48, i64 24
  %87 = icmp eq i64 %85, %10
  br i1 %87, label %40, label %47

88:                                               ; preds = %111, %40
  %89 = getelementptr inbounds i8, ptr %1, i64 64
  %90 = load i64, ptr %89, align 8
  %91 = icmp eq i64 %90, 0
  br i1 %91, label %121, label %124

92:                                               ; preds = %43, %111
  %93 = phi i64 [ 0, %43 ], [ %118, %111 ]
  %94 = phi ptr [ %41, %43 ], [ %119, %111 ]
  %95 = phi ptr [ %45, %43 ], [ %117, %111 ]
  %96 = load ptr, ptr %46, align 8
  %97 = getelementptr inbounds ptr, ptr %96, i64 %93
  %98 = load ptr, ptr %97, align 8
  %99 = getelementptr inbounds i8, ptr %94, i64 8
  %100 = load i64, ptr %99, align 8
  %101 = load i64, ptr %94, align 8
  %102 = icmp sgt i64 %101, 1
  br i1 %102, label %103, label %111

103:                                              ; preds = %92, %103
  %104 = phi i64 [ %109, %103 ], [ 1, %92 ]
  %105 = phi i64 [ %108, %103 ], [ %100, %92 ]
  %106 = getelementptr inbounds i64, ptr %95, i64 %104
  %107 = load i64, ptr %106, align 8
  %108 = mul nsw i64 %107, %105
  %109 = add nuw nsw i64 %104, 1
  %110 = icmp eq i64 %109, %101
  br i1 %110, label %111, label %103

111:                                              ; preds = %103, %92
  %112 = phi i64 [ %100, %92 ], [ %108, %103 ]
  %113 = mul nsw i64 %112, %2
  %114 = getelementptr inbounds i8, ptr %98, i64 %113
  %115 = getelementptr inbounds ptr, ptr %25, i64 %93
  store ptr %114, ptr %115, align 8
  %116 = load i64, ptr %94, align 8
  %117 = getelementptr inbounds i64, ptr %95, i64 %116
  %118 = add nuw nsw i64 %93, 1
  %119 = getelementptr inbounds i8, ptr %94, i64 24
  %120 = icmp eq i64 %118, %12
  br i1 %120, label %88, label %92

121:                                              ; preds = %88
  %122 = getelementptr inbounds i8, ptr %0, i64 72
  store ptr null, ptr %122, align 8
  %123 = getelementptr inbounds i8, ptr %0, i64 80
  store i64 1, ptr %123, align 8
  br label %124

124:                                              ; preds = %121, %88
  ret void
}

declare ptr @memcpy(ptr noundef, ptr noundef, i64 noundef)

declare i64 @llvm.smin.i64(i64, i64) nounwind

declare i64 @llvm.umax.i64(i64, i64) nounwind
