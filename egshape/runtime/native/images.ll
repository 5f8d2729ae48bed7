; images.c: 10201d18852124fb40d3116c733e3789c03c687d26a4bf3719c64f742e6f9919
; Written by `make native`.

%struct.egs_call = type { ptr, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr, ptr, i64, ptr }
%struct.job = type { ptr, ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64, i32 }
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
  br label %227

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
  br i1 %21, label %22, label %225

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
  br label %225

105:                                              ; preds = %49, %101
  %106 = add i64 %45, %47
  %107 = sdiv i64 %106, %47
  %108 = getelementptr inbounds i8, ptr %0, i64 72
  %109 = load ptr, ptr %108, align 8
  %110 = call i64 @egs_threads(ptr noundef %109) nounwind
  %111 = icmp sgt i64 %110, 1
  br i1 %111, label %112, label %122

112:                                              ; preds = %105
  %113 = getelementptr inbounds i8, ptr %0, i64 88
  %114 = load ptr, ptr %113, align 8
  %115 = icmp eq ptr %114, null
  br i1 %115, label %116, label %122

116:                                              ; preds = %112
  %117 = shl nsw i64 %107, 1
  %118 = icmp slt i64 %117, %110
  %119 = freeze i1 %118
  %120 = zext i1 %119 to i64
  %121 = select i1 %119, i64 1, i64 %110
  br label %122

122:                                              ; preds = %116, %112, %105
  %123 = phi i64 [ 0, %105 ], [ 1, %112 ], [ %120, %116 ]
  %124 = phi i64 [ %110, %105 ], [ 1, %112 ], [ %121, %116 ]
  %125 = call i64 @llvm.smin.i64(i64 %107, i64 %124)
  %126 = getelementptr inbounds i8, ptr %1, i64 32
  %127 = getelementptr inbounds i8, ptr %1, i64 16
  %128 = load i64, ptr %127, align 8
  %129 = load i64, ptr %50, align 8
  %130 = add nsw i64 %129, %128
  %131 = icmp sgt i64 %130, 0
  br i1 %131, label %132, label %140

132:                                              ; preds = %122, %132
  %133 = phi i64 [ %138, %132 ], [ 0, %122 ]
  %134 = phi i64 [ %137, %132 ], [ 0, %122 ]
  %135 = getelementptr inbounds %struct.egs_images_port, ptr %126, i64 %133
  %136 = load i64, ptr %135, align 8
  %137 = add nsw i64 %136, %134
  %138 = add nuw nsw i64 %133, 1
  %139 = icmp eq i64 %138, %130
  br i1 %139, label %140, label %132

140:                                              ; preds = %132, %122
  %141 = phi i64 [ 0, %122 ], [ %137, %132 ]
  %142 = add nsw i64 %141, %130
  %143 = shl nsw i64 %142, 3
  %144 = add nsw i64 %143, 183
  %145 = sdiv i64 %144, 64
  %146 = shl nsw i64 %145, 6
  store ptr %0, ptr %5, align 8
  %147 = getelementptr inbounds i8, ptr %5, i64 8
  store ptr %1, ptr %147, align 8
  %148 = getelementptr inbounds i8, ptr %5, i64 16
  store ptr %2, ptr %148, align 8
  %149 = getelementptr inbounds i8, ptr %5, i64 24
  %150 = mul nsw i64 %146, %125
  %151 = call ptr @egs_memory(i64 noundef %150) nounwind
  store ptr %151, ptr %149, align 8
  %152 = getelementptr inbounds i8, ptr %5, i64 32
  store i64 %146, ptr %152, align 8
  %153 = getelementptr inbounds i8, ptr %5, i64 40
  store i64 %47, ptr %153, align 8
  %154 = getelementptr inbounds i8, ptr %5, i64 48
  store i64 %10, ptr %154, align 8
  %155 = getelementptr inbounds i8, ptr %5, i64 56
  store i64 0, ptr %155, align 8
  %156 = getelementptr inbounds i8, ptr %5, i64 64
  store i64 %125, ptr %156, align 8
  %157 = getelementptr inbounds i8, ptr %5, i64 72
  store i64 %107, ptr %157, align 8
  %158 = getelementptr inbounds i8, ptr %5, i64 80
  %159 = load ptr, ptr %23, align 8
  %160 = load i64, ptr %159, align 8
  store i64 %160, ptr %158, align 8
  %161 = getelementptr inbounds i8, ptr %5, i64 88
  store i64 %123, ptr %161, align 8
  %162 = getelementptr inbounds i8, ptr %5, i64 96
  store i32 0, ptr %162, align 8
  %163 = icmp eq ptr %151, null
  br i1 %163, label %223, label %164

164:                                              ; preds = %140
  %165 = call fastcc i64 @room_of(ptr noundef nonnull %5, i64 noundef 0)
  %166 = icmp eq i64 %123, 0
  br i1 %166, label %169, label %167

167:                                              ; preds = %164
  %168 = call fastcc i64 @room_of(ptr noundef nonnull %5, i64 noundef 1)
  br label %169

169:                                              ; preds = %167, %164
  %170 = phi i64 [ %168, %167 ], [ %165, %164 ]
  store i64 %170, ptr %155, align 8
  %171 = icmp slt i64 %165, 0
  %172 = icmp slt i64 %170, 0
  %173 = select i1 %171, i1 true, i1 %172
  br i1 %173, label %179, label %174

174:                                              ; preds = %169
  %175 = mul nsw i64 %107, %165
  %176 = sdiv i64 %160, 2
  %177 = add nsw i64 %176, %160
  %178 = icmp sgt i64 %175, %177
  br i1 %178, label %179, label %181

179:                                              ; preds = %174, %169
  %180 = call i32 %2(ptr noundef nonnull %0) nounwind
  br label %220

181:                                              ; preds = %174
  %182 = mul nsw i64 %125, %170
  %183 = getelementptr inbounds i8, ptr %0, i64 8
  %184 = load i64, ptr %183, align 8
  %185 = icmp slt i64 %184, %182
  br i1 %185, label %186, label %191

186:                                              ; preds = %181
  %187 = load ptr, ptr %0, align 8
  call void @free(ptr noundef %187) nounwind
  store i64 0, ptr %183, align 8
  %188 = call ptr @egs_memory(i64 noundef %182) nounwind
  store ptr %188, ptr %0, align 8
  %189 = icmp eq ptr %188, null
  %190 = select i1 %189, i64 0, i64 %182
  store i64 %190, ptr %183, align 8
  br i1 %189, label %220, label %191

191:                                              ; preds = %186, %181
  br i1 %166, label %214, label %192

192:                                              ; preds = %191
  %193 = icmp sgt i64 %107, 0
  br i1 %193, label %194, label %220

194:                                              ; preds = %192
  %195 = icmp sgt i64 %107, %124
  br label %199

196:                                              ; preds = %199
  %197 = add nuw nsw i64 %200, 1
  %198 = icmp eq i64 %197, %107
  br i1 %198, label %220, label %199

199:                                              ; preds = %194, %196
  %200 = phi i64 [ %197, %196 ], [ 0, %194 ]
  %201 = select i1 %195, i64 0, i64 %200
  %202 = mul nsw i64 %201, %146
  %203 = getelementptr inbounds i8, ptr %151, i64 %202
  %204 = mul nsw i64 %47, %200
  %205 = sub nsw i64 %10, %204
  %206 = call i64 @llvm.smin.i64(i64 %205, i64 %47)
  call fastcc void @narrow(ptr noundef nonnull %203, ptr noundef nonnull %5, i64 noundef %204, i64 noundef %206, i64 noundef %123)
  %207 = load ptr, ptr %0, align 8
  %208 = mul nuw nsw i64 %170, %201
  %209 = getelementptr inbounds i8, ptr %207, i64 %208
  store ptr %209, ptr %203, align 8
  %210 = getelementptr inbounds i8, ptr %203, i64 8
  store i64 %170, ptr %210, align 8
  %211 = call i32 %2(ptr noundef nonnull %203) nounwind
  %212 = icmp eq i32 %211, 0
  br i1 %212, label %196, label %213

213:                                              ; preds = %199
  store atomic i32 %211, ptr %162 monotonic, align 8
  br label %220

214:                                              ; preds = %191
  %215 = load ptr, ptr %108, align 8
  call void @egs_session(ptr noundef %215, i32 noundef 1) nounwind
  %216 = load ptr, ptr %108, align 8
  call void @egs_parallel(ptr noundef %216, ptr noundef nonnull @run_parts, ptr noundef nonnull %5, i64 noundef %107, i64 noundef 1) nounwind
  %217 = load ptr, ptr %108, align 8
  call void @egs_session(ptr noundef %217, i32 noundef -1) nounwind
  %218 = load i32, ptr %162, align 8
  %219 = load ptr, ptr %149, align 8
  br label %220

220:                                              ; preds = %196, %192, %213, %214, %179, %186
  %221 = phi ptr [ %151, %179 ], [ %151, %186 ], [ %219, %214 ], [ %151, %213 ], [ %151, %192 ], [ %151, %196 ]
  %222 = phi i32 [ %180, %179 ], [ 3, %186 ], [ %218, %214 ], [ %211, %213 ], [ 0, %192 ], [ 0, %196 ]
  call void @free(ptr noundef %221) nounwind
  br label %223

223:                                              ; preds = %140, %220
  %224 = phi i32 [ %222, %220 ], [ 3, %140 ]
  br label %225

225:                                              ; preds = %103, %223, %14
  %226 = phi i32 [ %20, %14 ], [ %104, %103 ], [ %224, %223 ]
  br label %227

227:                                              ; preds = %225, %12
  %228 = phi i32 [ %13, %12 ], [ %226, %225 ]
  ret i32 %228
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly, ptr noalias readonly, i64, i1 immarg) nounwind

declare i64 @egs_threads(ptr noundef)

declare ptr @egs_memory(i64 noundef)

declare void @free(ptr noundef)

define internal fastcc i64 @room_of(ptr noundef readonly %0, i64 noundef %1) nounwind {
  %3 = getelementptr inbounds i8, ptr %0, i64 48
  %4 = load i64, ptr %3, align 8
  %5 = getelementptr inbounds i8, ptr %0, i64 72
  %6 = load i64, ptr %5, align 8
  %7 = add nsw i64 %6, -1
  %8 = getelementptr inbounds i8, ptr %0, i64 40
  %9 = load i64, ptr %8, align 8
  %10 = mul nsw i64 %7, %9
  %11 = sub nsw i64 %4, %10
  %12 = getelementptr inbounds i8, ptr %0, i64 24
  %13 = load ptr, ptr %12, align 8
  tail call fastcc void @narrow(ptr noundef %13, ptr noundef readonly %0, i64 noundef 0, i64 noundef %9, i64 noundef %1)
  %14 = getelementptr inbounds i8, ptr %13, i64 104
  store i64 2, ptr %14, align 8
  %15 = getelementptr inbounds i8, ptr %0, i64 16
  %16 = load ptr, ptr %15, align 8
  %17 = tail call i32 %16(ptr noundef %13) nounwind
  %18 = icmp eq i32 %17, 15
  br i1 %18, label %19, label %23

19:                                               ; preds = %2
  %20 = getelementptr inbounds i8, ptr %13, i64 64
  %21 = load ptr, ptr %20, align 8
  %22 = load i64, ptr %21, align 8
  br label %23

23:                                               ; preds = %2, %19
  %24 = phi i64 [ %22, %19 ], [ -1, %2 ]
  %25 = load i64, ptr %8, align 8
  %26 = icmp eq i64 %11, %25
  br i1 %26, label %37, label %27

27:                                               ; preds = %23
  %28 = load ptr, ptr %12, align 8
  tail call fastcc void @narrow(ptr noundef %28, ptr noundef nonnull readonly %0, i64 noundef 0, i64 noundef %11, i64 noundef %1)
  %29 = getelementptr inbounds i8, ptr %28, i64 104
  store i64 2, ptr %29, align 8
  %30 = load ptr, ptr %15, align 8
  %31 = tail call i32 %30(ptr noundef %28) nounwind
  %32 = icmp eq i32 %31, 15
  br i1 %32, label %33, label %37

33:                                               ; preds = %27
  %34 = getelementptr inbounds i8, ptr %28, i64 64
  %35 = load ptr, ptr %34, align 8
  %36 = load i64, ptr %35, align 8
  br label %37

37:                                               ; preds = %33, %27, %23
  %38 = phi i64 [ %24, %23 ], [ %36, %33 ], [ -1, %27 ]
  %39 = icmp slt i64 %24, 0
  %40 = icmp slt i64 %38, 0
  %41 = select i1 %39, i1 true, i1 %40
  %42 = tail call i64 @llvm.smax.i64(i64 %24, i64 %38)
  %43 = select i1 %41, i64 -1, i64 %42
  ret i64 %43
}

define internal void @run_parts(ptr noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) nounwind {
  %5 = icmp slt i64 %1, %2
  br i1 %5, label %6, label %47

6:                                                ; preds = %4
  %7 = getelementptr inbounds i8, ptr %0, i64 64
  %8 = getelementptr inbounds i8, ptr %0, i64 72
  %9 = getelementptr inbounds i8, ptr %0, i64 24
  %10 = getelementptr inbounds i8, ptr %0, i64 32
  %11 = getelementptr inbounds i8, ptr %0, i64 40
  %12 = getelementptr inbounds i8, ptr %0, i64 48
  %13 = getelementptr inbounds i8, ptr %0, i64 88
  %14 = getelementptr inbounds i8, ptr %0, i64 56
  %15 = getelementptr inbounds i8, ptr %0, i64 16
  br label %19

16:                                               ; preds = %19
  %17 = add i64 %20, 1
  %18 = icmp eq i64 %17, %2
  br i1 %18, label %47, label %19

19:                                               ; preds = %6, %16
  %20 = phi i64 [ %1, %6 ], [ %17, %16 ]
  %21 = load i64, ptr %7, align 8
  %22 = load i64, ptr %8, align 8
  %23 = icmp eq i64 %21, %22
  %24 = select i1 %23, i64 %20, i64 %3
  %25 = load ptr, ptr %9, align 8
  %26 = load i64, ptr %10, align 8
  %27 = mul nsw i64 %24, %26
  %28 = getelementptr inbounds i8, ptr %25, i64 %27
  %29 = load i64, ptr %11, align 8
  %30 = mul nsw i64 %29, %20
  %31 = load i64, ptr %12, align 8
  %32 = sub nsw i64 %31, %30
  %33 = tail call i64 @llvm.smin.i64(i64 %32, i64 %29)
  %34 = load i64, ptr %13, align 8
  tail call fastcc void @narrow(ptr noundef %28, ptr noundef %0, i64 noundef %30, i64 noundef %33, i64 noundef %34)
  %35 = load ptr, ptr %0, align 8
  %36 = load ptr, ptr %35, align 8
  %37 = load i64, ptr %14, align 8
  %38 = mul nsw i64 %37, %24
  %39 = getelementptr inbounds i8, ptr %36, i64 %38
  store ptr %39, ptr %28, align 8
  %40 = load i64, ptr %14, align 8
  %41 = getelementptr inbounds i8, ptr %28, i64 8
  store i64 %40, ptr %41, align 8
  %42 = load ptr, ptr %15, align 8
  %43 = tail call i32 %42(ptr noundef nonnull %28) nounwind
  %44 = icmp eq i32 %43, 0
  br i1 %44, label %16, label %45

45:                                               ; preds = %19
  %46 = getelementptr inbounds i8, ptr %0, i64 96
  store atomic i32 %43, ptr %46 monotonic, align 8
  br label %47

47:                                               ; preds = %16, %4, %45
  ret void
}

declare void @egs_session(ptr noundef, i32 noundef)

declare void @egs_parallel(ptr noundef, ptr noundef, ptr noundef, i64 noundef, i64 noundef)

define internal fastcc void @narrow(ptr noundef %0, ptr noundef readonly %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) nounwind {
  %6 = load ptr, ptr %1, align 8
  %7 = getelementptr inbounds i8, ptr %1, i64 8
  %8 = load ptr, ptr %7, align 8
  %9 = getelementptr inbounds i8, ptr %8, i64 32
  %10 = getelementptr inbounds i8, ptr %8, i64 16
  %11 = load i64, ptr %10, align 8
  %12 = getelementptr inbounds i8, ptr %8, i64 24
  %13 = load i64, ptr %12, align 8
  %14 = icmp sgt i64 %11, 0
  br i1 %14, label %15, label %23

15:                                               ; preds = %5, %15
  %16 = phi i64 [ %21, %15 ], [ 0, %5 ]
  %17 = phi i64 [ %20, %15 ], [ 0, %5 ]
  %18 = getelementptr inbounds %struct.egs_images_port, ptr %9, i64 %16
  %19 = load i64, ptr %18, align 8
  %20 = add nsw i64 %19, %17
  %21 = add nuw nsw i64 %16, 1
  %22 = icmp eq i64 %21, %11
  br i1 %22, label %23, label %15

23:                                               ; preds = %15, %5
  %24 = phi i64 [ 0, %5 ], [ %20, %15 ]
  %25 = getelementptr inbounds i8, ptr %0, i64 120
  %26 = getelementptr inbounds ptr, ptr %25, i64 %11
  %27 = getelementptr inbounds i64, ptr %26, i64 %13
  tail call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(120) %0, ptr noundef nonnull align 8 dereferenceable(120) %6, i64 120, i1 false)
  %28 = getelementptr inbounds i8, ptr %0, i64 16
  store ptr %25, ptr %28, align 8
  %29 = getelementptr inbounds i8, ptr %0, i64 40
  store ptr %26, ptr %29, align 8
  %30 = getelementptr inbounds i8, ptr %0, i64 24
  store ptr %27, ptr %30, align 8
  %31 = getelementptr inbounds i64, ptr %27, i64 %24
  %32 = getelementptr inbounds i8, ptr %0, i64 56
  store ptr %31, ptr %32, align 8
  %33 = getelementptr inbounds i8, ptr %0, i64 104
  store i64 0, ptr %33, align 8
  %34 = getelementptr inbounds i8, ptr %6, i64 24
  %35 = load ptr, ptr %34, align 8
  %36 = shl i64 %24, 3
  %37 = tail call ptr @memcpy(ptr noundef nonnull %27, ptr noundef %35, i64 noundef %36) nounwind
  br i1 %14, label %38, label %41

38:                                               ; preds = %23
  %39 = load ptr, ptr %34, align 8
  %40 = getelementptr inbounds i8, ptr %6, i64 16
  br label %48

41:                                               ; preds = %82, %23
  %42 = phi ptr [ %9, %23 ], [ %87, %82 ]
  %43 = icmp sgt i64 %13, 0
  br i1 %43, label %44, label %89

44:                                               ; preds = %41
  %45 = getelementptr inbounds i8, ptr %6, i64 56
  %46 = load ptr, ptr %45, align 8
  %47 = getelementptr inbounds i8, ptr %6, i64 40
  br label %91

48:                                               ; preds = %38, %82
  %49 = phi ptr [ %9, %38 ], [ %87, %82 ]
  %50 = phi i64 [ 0, %38 ], [ %86, %82 ]
  %51 = phi ptr [ %39, %38 ], [ %84, %82 ]
  %52 = phi ptr [ %27, %38 ], [ %85, %82 ]
  %53 = getelementptr inbounds i8, ptr %49, i64 16
  %54 = load i64, ptr %53, align 8
  %55 = icmp eq i64 %54, 0
  br i1 %55, label %72, label %56

56:                                               ; preds = %48
  %57 = getelementptr inbounds i8, ptr %49, i64 8
  %58 = load i64, ptr %57, align 8
  %59 = load i64, ptr %49, align 8
  %60 = icmp sgt i64 %59, 1
  br i1 %60, label %61, label %69

61:                                               ; preds = %56, %61
  %62 = phi i64 [ %67, %61 ], [ 1, %56 ]
  %63 = phi i64 [ %66, %61 ], [ %58, %56 ]
  %64 = getelementptr inbounds i64, ptr %51, i64 %62
  %65 = load i64, ptr %64, align 8
  %66 = mul nsw i64 %65, %63
  %67 = add nuw nsw i64 %62, 1
  %68 = icmp eq i64 %67, %59
  br i1 %68, label %69, label %61

69:                                               ; preds = %61, %56
  %70 = phi i64 [ %58, %56 ], [ %66, %61 ]
  %71 = mul nsw i64 %70, %2
  br label %72

72:                                               ; preds = %48, %69
  %73 = phi i64 [ %71, %69 ], [ 0, %48 ]
  %74 = load ptr, ptr %40, align 8
  %75 = getelementptr inbounds ptr, ptr %74, i64 %50
  %76 = load ptr, ptr %75, align 8
  %77 = getelementptr inbounds i8, ptr %76, i64 %73
  %78 = getelementptr inbounds ptr, ptr %25, i64 %50
  store ptr %77, ptr %78, align 8
  %79 = load i64, ptr %53, align 8
  %80 = icmp eq i64 %79, 0
  br i1 %80, label %82, label %81

81:                                               ; preds = %72
  store i64 %3, ptr %52, align 8
  br label %82

82:                                               ; preds = %81, %72
  %83 = load i64, ptr %49, align 8
  %84 = getelementptr inbounds i64, ptr %51, i64 %83
  %85 = getelementptr inbounds i64, ptr %52, i64 %83
  %86 = add nuw nsw i64 %50, 1
  %87 = getelementptr inbounds i8, ptr %49, i64 24
  %88 = icmp eq i64 %86, %11
  br i1 %88, label %41, label %48

89:                                               ; preds = %110, %41
  %90 = icmp eq i64 %4, 0
  br i1 %90, label %120, label %123

91:                                               ; preds = %44, %110
  %92 = phi i64 [ 0, %44 ], [ %117, %110 ]
  %93 = phi ptr [ %42, %44 ], [ %118, %110 ]
  %94 = phi ptr [ %46, %44 ], [ %116, %110 ]
  %95 = load ptr, ptr %47, align 8
  %96 = getelementptr inbounds ptr, ptr %95, i64 %92
  %97 = load ptr, ptr %96, align 8
  %98 = getelementptr inbounds i8, ptr %93, i64 8
  %99 = load i64, ptr %98, align 8
  %100 = load i64, ptr %93, align 8
  %101 = icmp sgt i64 %100, 1
  br i1 %101, label %102, label %110

102:                                              ; preds = %91, %102
  %103 = phi i64 [ %108, %102 ], [ 1, %91 ]
  %104 = phi i64 [ %107, %102 ], [ %99, %91 ]
  %105 = getelementptr inbounds i64, ptr %94, i64 %103
  %106 = load i64, ptr %105, align 8
  %107 = mul nsw i64 %106, %104
  %108 = add nuw nsw i64 %103, 1
  %109 = icmp eq i64 %108, %100
  br i1 %109, label %110, label %102

110:                                              ; preds = %102, %91
  %111 = phi i64 [ %99, %91 ], [ %107, %102 ]
  %112 = mul nsw i64 %111, %2
  %113 = getelementptr inbounds i8, ptr %97, i64 %112
  %114 = getelementptr inbounds ptr, ptr %26, i64 %92
  store ptr %113, ptr %114, align 8
  %115 = load i64, ptr %93, align 8
  %116 = getelementptr inbounds i64, ptr %94, i64 %115
  %117 = add nuw nsw i64 %92, 1
  %118 = getelementptr inbounds i8, ptr %93, i64 24
  %119 = icmp eq i64 %117, %13
  br i1 %119, label %89, label %91

120:                                              ; preds = %89
  %121 = getelementptr inbounds i8, ptr %0, i64 72
  store ptr null, ptr %121, align 8
  %122 = getelementptr inbounds i8, ptr %0, i64 80
  store i64 1, ptr %122, align 8
  br label %123

123:                                              ; preds = %120, %89
  ret void
}

declare ptr @memcpy(ptr noundef, ptr noundef, i64 noundef)

declare i64 @llvm.smax.i64(i64, i64) nounwind

declare i64 @llvm.smin.i64(i64, i64) nounwind
