; images.c: 0c2d89fd48de5ac6b2fcc2469c7cb410ccddc5992563301bbb7e0b4cf312eeeb
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
  br label %270

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
  br i1 %21, label %22, label %268

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
  br label %268

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
  %162 = getelementptr inbounds i8, ptr %5, i64 96
  store i32 0, ptr %162, align 8
  %163 = icmp eq ptr %151, null
  br i1 %163, label %266, label %164

164:                                              ; preds = %140
  store i64 0, ptr %161, align 8
  call fastcc void @narrow(ptr noundef nonnull %151, ptr noundef nonnull readonly %5, i64 noundef 0, i64 noundef %47)
  %165 = getelementptr inbounds i8, ptr %151, i64 104
  store i64 2, ptr %165, align 8
  %166 = call i32 %2(ptr noundef nonnull %151) nounwind
  %167 = icmp eq i32 %166, 15
  br i1 %167, label %168, label %172

168:                                              ; preds = %164
  %169 = getelementptr inbounds i8, ptr %151, i64 64
  %170 = load ptr, ptr %169, align 8
  %171 = load i64, ptr %170, align 8
  br label %172

172:                                              ; preds = %168, %164
  %173 = phi i64 [ %171, %168 ], [ -1, %164 ]
  %174 = add nsw i64 %107, -1
  %175 = mul nsw i64 %174, %47
  %176 = sub nsw i64 %10, %175
  call fastcc void @narrow(ptr noundef nonnull %151, ptr noundef nonnull readonly %5, i64 noundef 0, i64 noundef %176)
  store i64 2, ptr %165, align 8
  %177 = call i32 %2(ptr noundef nonnull %151) nounwind
  %178 = icmp eq i32 %177, 15
  br i1 %178, label %179, label %183

179:                                              ; preds = %172
  %180 = getelementptr inbounds i8, ptr %151, i64 64
  %181 = load ptr, ptr %180, align 8
  %182 = load i64, ptr %181, align 8
  br label %183

183:                                              ; preds = %179, %172
  %184 = phi i64 [ %182, %179 ], [ -1, %172 ]
  %185 = icmp slt i64 %173, 0
  %186 = icmp slt i64 %184, 0
  %187 = select i1 %185, i1 true, i1 %186
  %188 = call i64 @llvm.smax.i64(i64 %173, i64 %184)
  %189 = select i1 %187, i64 -1, i64 %188
  store i64 %189, ptr %155, align 8
  store i64 %123, ptr %161, align 8
  %190 = icmp sgt i64 %189, -1
  br i1 %190, label %191, label %221

191:                                              ; preds = %183
  %192 = mul nsw i64 %107, %189
  %193 = sdiv i64 %160, 2
  %194 = add nsw i64 %193, %160
  %195 = icmp sgt i64 %192, %194
  br i1 %195, label %221, label %196

196:                                              ; preds = %191
  %197 = icmp eq i64 %123, 0
  br i1 %197, label %223, label %198

198:                                              ; preds = %196
  call fastcc void @narrow(ptr noundef nonnull %151, ptr noundef nonnull readonly %5, i64 noundef 0, i64 noundef %47)
  store i64 2, ptr %165, align 8
  %199 = call i32 %2(ptr noundef nonnull %151) nounwind
  %200 = icmp eq i32 %199, 15
  br i1 %200, label %201, label %205

201:                                              ; preds = %198
  %202 = getelementptr inbounds i8, ptr %151, i64 64
  %203 = load ptr, ptr %202, align 8
  %204 = load i64, ptr %203, align 8
  br label %205

205:                                              ; preds = %201, %198
  %206 = phi i64 [ %204, %201 ], [ -1, %198 ]
  call fastcc void @narrow(ptr noundef nonnull %151, ptr noundef nonnull readonly %5, i64 noundef 0, i64 noundef %176)
  store i64 2, ptr %165, align 8
  %207 = call i32 %2(ptr noundef nonnull %151) nounwind
  %208 = icmp eq i32 %207, 15
  br i1 %208, label %209, label %213

209:                                              ; preds = %205
  %210 = getelementptr inbounds i8, ptr %151, i64 64
  %211 = load ptr, ptr %210, align 8
  %212 = load i64, ptr %211, align 8
  br label %213

213:                                              ; preds = %209, %205
  %214 = phi i64 [ %212, %209 ], [ -1, %205 ]
  %215 = icmp slt i64 %206, 0
  %216 = icmp slt i64 %214, 0
  %217 = select i1 %215, i1 true, i1 %216
  %218 = call i64 @llvm.smax.i64(i64 %206, i64 %214)
  %219 = select i1 %217, i64 -1, i64 %218
  store i64 %219, ptr %155, align 8
  %220 = icmp slt i64 %219, 0
  br i1 %220, label %221, label %223

221:                                              ; preds = %213, %191, %183
  %222 = call i32 %2(ptr noundef nonnull %0) nounwind
  br label %263

223:                                              ; preds = %213, %196
  %224 = phi i64 [ %218, %213 ], [ %188, %196 ]
  %225 = mul nsw i64 %125, %224
  %226 = getelementptr inbounds i8, ptr %0, i64 8
  %227 = load i64, ptr %226, align 8
  %228 = icmp slt i64 %227, %225
  br i1 %228, label %229, label %234

229:                                              ; preds = %223
  %230 = load ptr, ptr %0, align 8
  call void @free(ptr noundef %230) nounwind
  store i64 0, ptr %226, align 8
  %231 = call ptr @egs_memory(i64 noundef %225) nounwind
  store ptr %231, ptr %0, align 8
  %232 = icmp eq ptr %231, null
  %233 = select i1 %232, i64 0, i64 %225
  store i64 %233, ptr %226, align 8
  br i1 %232, label %263, label %234

234:                                              ; preds = %229, %223
  br i1 %197, label %257, label %235

235:                                              ; preds = %234
  %236 = icmp sgt i64 %107, 0
  br i1 %236, label %237, label %263

237:                                              ; preds = %235
  %238 = icmp sgt i64 %107, %124
  br label %242

239:                                              ; preds = %242
  %240 = add nuw nsw i64 %243, 1
  %241 = icmp eq i64 %240, %107
  br i1 %241, label %263, label %242

242:                                              ; preds = %237, %239
  %243 = phi i64 [ %240, %239 ], [ 0, %237 ]
  %244 = select i1 %238, i64 0, i64 %243
  %245 = mul nsw i64 %244, %146
  %246 = getelementptr inbounds i8, ptr %151, i64 %245
  %247 = mul nsw i64 %47, %243
  %248 = sub nsw i64 %10, %247
  %249 = call i64 @llvm.smin.i64(i64 %248, i64 %47)
  call fastcc void @narrow(ptr noundef nonnull %246, ptr noundef nonnull %5, i64 noundef %247, i64 noundef %249)
  %250 = load ptr, ptr %0, align 8
  %251 = mul nuw nsw i64 %224, %244
  %252 = getelementptr inbounds i8, ptr %250, i64 %251
  store ptr %252, ptr %246, align 8
  %253 = getelementptr inbounds i8, ptr %246, i64 8
  store i64 %224, ptr %253, align 8
  %254 = call i32 %2(ptr noundef nonnull %246) nounwind
  %255 = icmp eq i32 %254, 0
  br i1 %255, label %239, label %256

256:                                              ; preds = %242
  store atomic i32 %254, ptr %162 monotonic, align 8
  br label %263

257:                                              ; preds = %234
  %258 = load ptr, ptr %108, align 8
  call void @egs_session(ptr noundef %258, i32 noundef 1) nounwind
  %259 = load ptr, ptr %108, align 8
  call void @egs_parallel(ptr noundef %259, ptr noundef nonnull @run_parts, ptr noundef nonnull %5, i64 noundef %107, i64 noundef 1) nounwind
  %260 = load ptr, ptr %108, align 8
  call void @egs_session(ptr noundef %260, i32 noundef -1) nounwind
  %261 = load i32, ptr %162, align 8
  %262 = load ptr, ptr %149, align 8
  br label %263

263:                                              ; preds = %239, %235, %256, %257, %221, %229
  %264 = phi ptr [ %151, %221 ], [ %151, %229 ], [ %262, %257 ], [ %151, %256 ], [ %151, %235 ], [ %151, %239 ]
  %265 = phi i32 [ %222, %221 ], [ 3, %229 ], [ %261, %257 ], [ %254, %256 ], [ 0, %235 ], [ 0, %239 ]
  call void @free(ptr noundef %264) nounwind
  br label %266

266:                                              ; preds = %140, %263
  %267 = phi i32 [ %265, %263 ], [ 3, %140 ]
  br label %268

268:                                              ; preds = %103, %266, %14
  %269 = phi i32 [ %20, %14 ], [ %104, %103 ], [ %267, %266 ]
  br label %270

270:                                              ; preds = %268, %12
  %271 = phi i32 [ %13, %12 ], [ %269, %268 ]
  ret i32 %271
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly, ptr noalias readonly, i64, i1 immarg) nounwind

declare i64 @egs_threads(ptr noundef)

declare ptr @egs_memory(i64 noundef)

declare void @free(ptr noundef)

define internal void @run_parts(ptr noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) nounwind {
  %5 = icmp slt i64 %1, %2
  br i1 %5, label %6, label %45

6:                                                ; preds = %4
  %7 = getelementptr inbounds i8, ptr %0, i64 64
  %8 = getelementptr inbounds i8, ptr %0, i64 72
  %9 = getelementptr inbounds i8, ptr %0, i64 24
  %10 = getelementptr inbounds i8, ptr %0, i64 32
  %11 = getelementptr inbounds i8, ptr %0, i64 40
  %12 = getelementptr inbounds i8, ptr %0, i64 48
  %13 = getelementptr inbounds i8, ptr %0, i64 56
  %14 = getelementptr inbounds i8, ptr %0, i64 16
  br label %18

15:                                               ; preds = %18
  %16 = add i64 %19, 1
  %17 = icmp eq i64 %16, %2
  br i1 %17, label %45, label %18

18:                                               ; preds = %6, %15
  %19 = phi i64 [ %1, %6 ], [ %16, %15 ]
  %20 = load i64, ptr %7, align 8
  %21 = load i64, ptr %8, align 8
  %22 = icmp eq i64 %20, %21
  %23 = select i1 %22, i64 %19, i64 %3
  %24 = load ptr, ptr %9, align 8
  %25 = load i64, ptr %10, align 8
  %26 = mul nsw i64 %23, %25
  %27 = getelementptr inbounds i8, ptr %24, i64 %26
  %28 = load i64, ptr %11, align 8
  %29 = mul nsw i64 %28, %19
  %30 = load i64, ptr %12, align 8
  %31 = sub nsw i64 %30, %29
  %32 = tail call i64 @llvm.smin.i64(i64 %31, i64 %28)
  tail call fastcc void @narrow(ptr noundef %27, ptr noundef %0, i64 noundef %29, i64 noundef %32)
  %33 = load ptr, ptr %0, align 8
  %34 = load ptr, ptr %33, align 8
  %35 = load i64, ptr %13, align 8
  %36 = mul nsw i64 %35, %23
  %37 = getelementptr inbounds i8, ptr %34, i64 %36
  store ptr %37, ptr %27, align 8
  %38 = load i64, ptr %13, align 8
  %39 = getelementptr inbounds i8, ptr %27, i64 8
  store i64 %38, ptr %39, align 8
  %40 = load ptr, ptr %14, align 8
  %41 = tail call i32 %40(ptr noundef nonnull %27) nounwind
  %42 = icmp eq i32 %41, 0
  br i1 %42, label %15, label %43

43:                                               ; preds = %18
  %44 = getelementptr inbounds i8, ptr %0, i64 96
  store atomic i32 %41, ptr %44 monotonic, align 8
  br label %45

45:                                               ; preds = %15, %4, %43
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
  %89 = getelementptr inbounds i8, ptr %1, i64 88
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

declare i64 @llvm.smax.i64(i64, i64) nounwind

declare i64 @llvm.smin.i64(i64, i64) nounwind
