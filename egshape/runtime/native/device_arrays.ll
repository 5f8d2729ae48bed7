; device_arrays.c: 067e712190bc179a3b314c72a73669a389d0b422bb9a5546bd7cb76d57610b6a
; Written by `make native`.

%struct.run = type { ptr, ptr, ptr, ptr, ptr, i64, i64, %struct.streams }
%struct.streams = type { i64, i64, i64, [8 x i64] }
%struct.egs_port = type { ptr, i64, i64 }
%struct.egs_program_port = type { i64, i64, i64 }
%struct.egs_result = type { ptr, i64, [2 x %struct.egs_result_block] }
%struct.egs_result_block = type { ptr, ptr, i64 }
%struct.range = type { i64, i64 }
%struct.tensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }
%struct.egs_owner = type { ptr, ptr, ptr }

define hidden ptr @egs_device(ptr noundef %0, ptr noundef %1, ptr noundef %2, ptr noundef %3, i64 noundef %4, ptr noundef %5, ptr noundef readonly %6) nounwind {
  %8 = alloca ptr, align 8
  %9 = alloca ptr, align 8
  %10 = alloca %struct.run, align 8
  store ptr %0, ptr %10, align 8
  %11 = getelementptr inbounds i8, ptr %10, i64 8
  %12 = load i64, ptr %3, align 8
  %13 = getelementptr inbounds i8, ptr %1, i64 %12
  store ptr %13, ptr %11, align 8
  %14 = getelementptr inbounds i8, ptr %10, i64 16
  %15 = icmp eq ptr %2, null
  %16 = getelementptr inbounds i8, ptr %2, i64 %12
  %17 = select i1 %15, ptr null, ptr %16
  store ptr %17, ptr %14, align 8
  %18 = getelementptr inbounds i8, ptr %10, i64 24
  store ptr %3, ptr %18, align 8
  %19 = getelementptr inbounds i8, ptr %10, i64 32
  %20 = getelementptr inbounds i8, ptr %5, i64 16
  store ptr %20, ptr %19, align 8
  %21 = getelementptr inbounds i8, ptr %10, i64 40
  %22 = load i64, ptr %5, align 8
  store i64 %22, ptr %21, align 8
  %23 = getelementptr inbounds i8, ptr %10, i64 48
  %24 = getelementptr inbounds i8, ptr %5, i64 8
  %25 = load i64, ptr %24, align 8
  store i64 %25, ptr %23, align 8
  %26 = getelementptr inbounds i8, ptr %10, i64 56
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(88) %26, i8 0, i64 88, i1 false)
  %27 = trunc i64 %4 to i32
  %28 = and i32 %27, 2
  %29 = getelementptr inbounds i8, ptr %0, i64 16
  %30 = load ptr, ptr %29, align 8
  %31 = getelementptr inbounds i8, ptr %0, i64 112
  %32 = load ptr, ptr %31, align 8
  %33 = getelementptr inbounds i8, ptr %32, i64 192
  %34 = load ptr, ptr %33, align 8
  %35 = icmp sgt i64 %22, 0
  br i1 %35, label %36, label %68

36:                                               ; preds = %7
  %37 = getelementptr inbounds i8, ptr %0, i64 24
  %38 = load ptr, ptr %37, align 8
  br label %39

39:                                               ; preds = %54, %36
  %40 = phi i64 [ 0, %36 ], [ %63, %54 ]
  %41 = phi i32 [ %28, %36 ], [ %58, %54 ]
  %42 = phi ptr [ %38, %36 ], [ %62, %54 ]
  %43 = load ptr, ptr %18, align 8
  %44 = getelementptr inbounds i8, ptr %43, i64 256
  %45 = load ptr, ptr %44, align 8
  %46 = getelementptr inbounds %struct.egs_port, ptr %45, i64 %40
  %47 = load ptr, ptr %11, align 8
  %48 = getelementptr inbounds ptr, ptr %47, i64 %40
  %49 = load ptr, ptr %48, align 8
  %50 = getelementptr inbounds i64, ptr %30, i64 %40
  %51 = getelementptr inbounds i64, ptr %34, i64 %40
  %52 = call fastcc i32 @read_array(ptr noundef %43, ptr noundef %49, ptr noundef %46, ptr noundef %50, ptr noundef %42, ptr noundef %51, ptr noundef nonnull %26)
  %53 = icmp eq i32 %52, 0
  br i1 %53, label %74, label %54

54:                                               ; preds = %39
  %55 = load i64, ptr %51, align 8
  %56 = icmp eq i64 %55, 0
  %57 = zext i1 %56 to i32
  %58 = or i32 %41, %57
  %59 = load ptr, ptr %19, align 8
  %60 = getelementptr inbounds %struct.egs_program_port, ptr %59, i64 %40
  %61 = load i64, ptr %60, align 8
  %62 = getelementptr inbounds i64, ptr %42, i64 %61
  %63 = add nuw nsw i64 %40, 1
  %64 = load i64, ptr %21, align 8
  %65 = icmp slt i64 %63, %64
  br i1 %65, label %39, label %66

66:                                               ; preds = %54
  %67 = load ptr, ptr %10, align 8
  br label %68

68:                                               ; preds = %66, %7
  %69 = phi ptr [ %0, %7 ], [ %67, %66 ]
  %70 = phi ptr [ %20, %7 ], [ %59, %66 ]
  %71 = phi i64 [ %22, %7 ], [ %64, %66 ]
  %72 = phi i32 [ %28, %7 ], [ %58, %66 ]
  %73 = icmp eq i32 %72, 0
  br i1 %73, label %378, label %76

74:                                               ; preds = %39
  %75 = load ptr, ptr %10, align 8
  br label %378

76:                                               ; preds = %68
  %77 = getelementptr inbounds i8, ptr %69, i64 56
  %78 = load ptr, ptr %77, align 8
  %79 = getelementptr inbounds i8, ptr %69, i64 112
  %80 = load ptr, ptr %79, align 8
  %81 = getelementptr inbounds i8, ptr %80, i64 192
  %82 = load ptr, ptr %81, align 8
  %83 = getelementptr inbounds i64, ptr %82, i64 %71
  %84 = getelementptr inbounds i8, ptr %69, i64 104
  store i64 0, ptr %84, align 8
  %85 = load i64, ptr %23, align 8
  %86 = icmp sgt i64 %85, 0
  br i1 %86, label %87, label %179

87:                                               ; preds = %76
  %88 = getelementptr inbounds i8, ptr %69, i64 40
  %89 = getelementptr inbounds i8, ptr %69, i64 48
  br label %90

90:                                               ; preds = %169, %87
  %91 = phi i64 [ %85, %87 ], [ %170, %169 ]
  %92 = phi i64 [ %71, %87 ], [ %171, %169 ]
  %93 = phi ptr [ %70, %87 ], [ %172, %169 ]
  %94 = phi i64 [ 0, %87 ], [ %177, %169 ]
  %95 = phi ptr [ %78, %87 ], [ %176, %169 ]
  %96 = getelementptr inbounds i64, ptr %83, i64 %94
  store i64 0, ptr %96, align 8
  %97 = load ptr, ptr %79, align 8
  %98 = getelementptr inbounds i8, ptr %97, i64 232
  %99 = load ptr, ptr %98, align 8
  %100 = getelementptr inbounds %struct.egs_result, ptr %99, i64 %94
  %101 = load ptr, ptr %88, align 8
  %102 = getelementptr inbounds ptr, ptr %101, i64 %94
  %103 = load ptr, ptr %89, align 8
  %104 = getelementptr inbounds i64, ptr %103, i64 %94
  %105 = getelementptr inbounds i8, ptr %100, i64 8
  store i64 -1, ptr %105, align 8
  store ptr null, ptr %102, align 8
  store i64 0, ptr %104, align 8
  %106 = getelementptr inbounds i8, ptr %100, i64 16
  br label %107

107:                                              ; preds = %121, %90
  %108 = phi i1 [ true, %90 ], [ false, %121 ]
  %109 = phi i64 [ 0, %90 ], [ 1, %121 ]
  %110 = getelementptr inbounds [2 x %struct.egs_result_block], ptr %106, i64 0, i64 %109
  %111 = load ptr, ptr %110, align 8
  %112 = icmp eq ptr %111, null
  br i1 %112, label %121, label %113

113:                                              ; preds = %107
  %114 = load i32, ptr %111, align 4
  %115 = icmp eq i32 %114, 1
  br i1 %115, label %116, label %121

116:                                              ; preds = %113
  store i64 %109, ptr %105, align 8
  %117 = getelementptr inbounds i8, ptr %110, i64 8
  %118 = load ptr, ptr %117, align 8
  store ptr %118, ptr %102, align 8
  %119 = getelementptr inbounds i8, ptr %110, i64 16
  %120 = load i64, ptr %119, align 8
  store i64 %120, ptr %104, align 8
  br label %121

121:                                              ; preds = %116, %113, %107
  br i1 %108, label %107, label %122

122:                                              ; preds = %121
  %123 = load ptr, ptr %14, align 8
  %124 = icmp eq ptr %123, null
  br i1 %124, label %169, label %125

125:                                              ; preds = %122
  %126 = getelementptr inbounds ptr, ptr %123, i64 %94
  %127 = load ptr, ptr %126, align 8
  %128 = load ptr, ptr %18, align 8
  %129 = getelementptr inbounds i8, ptr %128, i64 120
  %130 = load ptr, ptr %129, align 8
  %131 = icmp eq ptr %127, %130
  %132 = icmp eq ptr %127, null
  %133 = or i1 %132, %131
  br i1 %133, label %169, label %134

134:                                              ; preds = %125
  %135 = add nsw i64 %92, %94
  %136 = getelementptr inbounds i8, ptr %128, i64 256
  %137 = load ptr, ptr %136, align 8
  %138 = getelementptr inbounds %struct.egs_port, ptr %137, i64 %135
  %139 = load ptr, ptr %88, align 8
  %140 = getelementptr inbounds ptr, ptr %139, i64 %94
  %141 = call fastcc i32 @read_array(ptr noundef nonnull %128, ptr noundef nonnull %127, ptr noundef %138, ptr noundef %140, ptr noundef %95, ptr noundef nonnull %96, ptr noundef nonnull %26)
  %142 = icmp eq i32 %141, 0
  br i1 %142, label %146, label %143

143:                                              ; preds = %134
  %144 = load i64, ptr %96, align 8
  %145 = icmp eq i64 %144, 0
  br i1 %145, label %148, label %146

146:                                              ; preds = %143, %134
  %147 = load ptr, ptr %10, align 8
  br label %378

148:                                              ; preds = %143
  %149 = load ptr, ptr %19, align 8
  %150 = getelementptr inbounds %struct.egs_program_port, ptr %149, i64 %135
  %151 = getelementptr inbounds i8, ptr %150, i64 8
  %152 = load i64, ptr %151, align 8
  %153 = load i64, ptr %150, align 8
  %154 = icmp sgt i64 %153, 0
  br i1 %154, label %155, label %163

155:                                              ; preds = %148, %155
  %156 = phi i64 [ %161, %155 ], [ 0, %148 ]
  %157 = phi i64 [ %160, %155 ], [ %152, %148 ]
  %158 = getelementptr inbounds i64, ptr %95, i64 %156
  %159 = load i64, ptr %158, align 8
  %160 = mul i64 %159, %157
  %161 = add nuw nsw i64 %156, 1
  %162 = icmp eq i64 %161, %153
  br i1 %162, label %163, label %155

163:                                              ; preds = %155, %148
  %164 = phi i64 [ %152, %148 ], [ %160, %155 ]
  %165 = load ptr, ptr %89, align 8
  %166 = getelementptr inbounds i64, ptr %165, i64 %94
  store i64 %164, ptr %166, align 8
  store i64 1, ptr %84, align 8
  %167 = load i64, ptr %21, align 8
  %168 = load i64, ptr %23, align 8
  br label %169

169:                                              ; preds = %163, %125, %122
  %170 = phi i64 [ %168, %163 ], [ %91, %125 ], [ %91, %122 ]
  %171 = phi i64 [ %167, %163 ], [ %92, %125 ], [ %92, %122 ]
  %172 = phi ptr [ %149, %163 ], [ %93, %125 ], [ %93, %122 ]
  %173 = getelementptr %struct.egs_program_port, ptr %172, i64 %171
  %174 = getelementptr %struct.egs_program_port, ptr %173, i64 %94
  %175 = load i64, ptr %174, align 8
  %176 = getelementptr inbounds i64, ptr %95, i64 %175
  %177 = add nuw nsw i64 %94, 1
  %178 = icmp slt i64 %177, %170
  br i1 %178, label %90, label %179

179:                                              ; preds = %169, %76
  %180 = phi ptr [ %70, %76 ], [ %172, %169 ]
  %181 = phi i64 [ %85, %76 ], [ %170, %169 ]
  %182 = phi i64 [ %71, %76 ], [ %171, %169 ]
  br i1 %15, label %188, label %183

183:                                              ; preds = %179
  %184 = call fastcc i32 @outputs_are_apart(ptr noundef nonnull %10)
  %185 = icmp eq i32 %184, 0
  br i1 %185, label %186, label %188

186:                                              ; preds = %183
  %187 = load ptr, ptr %10, align 8
  br label %378

188:                                              ; preds = %183, %179
  %189 = load i64, ptr %26, align 8
  %190 = icmp eq i64 %189, 0
  br i1 %190, label %195, label %191

191:                                              ; preds = %188
  %192 = getelementptr inbounds i8, ptr %10, i64 64
  %193 = load i64, ptr %192, align 8
  %194 = inttoptr i64 %193 to ptr
  br label %199

195:                                              ; preds = %188
  %196 = load ptr, ptr %18, align 8
  %197 = getelementptr inbounds i8, ptr %196, i64 232
  %198 = load ptr, ptr %197, align 8
  br label %199

199:                                              ; preds = %195, %191
  %200 = phi ptr [ %194, %191 ], [ %198, %195 ]
  %201 = and i64 %4, 1
  %202 = icmp eq i64 %201, 0
  %203 = load ptr, ptr %10, align 8
  %204 = getelementptr inbounds i8, ptr %203, i64 112
  %205 = load ptr, ptr %204, align 8
  br i1 %202, label %206, label %212

206:                                              ; preds = %199
  %207 = getelementptr inbounds i8, ptr %205, i64 160
  %208 = load ptr, ptr %207, align 8
  %209 = icmp eq ptr %200, %208
  br i1 %209, label %212, label %210

210:                                              ; preds = %206
  %211 = ptrtoint ptr %200 to i64
  br label %378

212:                                              ; preds = %199, %206
  %213 = load ptr, ptr %18, align 8
  %214 = getelementptr inbounds i8, ptr %203, i64 112
  %215 = getelementptr inbounds i8, ptr %213, i64 232
  %216 = load ptr, ptr %215, align 8
  %217 = getelementptr inbounds i8, ptr %10, i64 72
  %218 = load i64, ptr %217, align 8
  %219 = icmp sgt i64 %218, 0
  br i1 %219, label %221, label %220

220:                                              ; preds = %212
  br label %269

221:                                              ; preds = %212
  %222 = getelementptr inbounds i8, ptr %205, i64 160
  %223 = getelementptr inbounds i8, ptr %10, i64 80
  %224 = getelementptr inbounds i8, ptr %205, i64 152
  %225 = getelementptr inbounds i8, ptr %205, i64 72
  %226 = getelementptr inbounds i8, ptr %205, i64 224
  %227 = getelementptr inbounds i8, ptr %205, i64 128
  br label %228

228:                                              ; preds = %255, %221
  %229 = phi i1 [ false, %255 ], [ true, %221 ]
  %230 = phi i64 [ %262, %255 ], [ 0, %221 ]
  %231 = load ptr, ptr %222, align 8
  %232 = icmp eq ptr %231, %216
  %233 = icmp eq ptr %231, null
  br label %235

234:                                              ; preds = %252
  br i1 %229, label %269, label %265

235:                                              ; preds = %252, %228
  %236 = phi i64 [ %253, %252 ], [ %230, %228 ]
  %237 = getelementptr inbounds [8 x i64], ptr %223, i64 0, i64 %236
  %238 = load i64, ptr %237, align 8
  %239 = inttoptr i64 %238 to ptr
  %240 = icmp eq ptr %231, %239
  %241 = icmp eq i64 %238, 0
  %242 = and i1 %232, %241
  %243 = or i1 %240, %242
  %244 = icmp eq ptr %216, %239
  %245 = and i1 %233, %244
  %246 = or i1 %243, %245
  br i1 %246, label %252, label %247

247:                                              ; preds = %235
  br i1 %229, label %248, label %255

248:                                              ; preds = %247
  %249 = load ptr, ptr %205, align 8
  %250 = load ptr, ptr %224, align 8
  %251 = tail call i32 %249(ptr noundef %250) nounwind
  br label %255

252:                                              ; preds = %235
  %253 = add nuw nsw i64 %236, 1
  %254 = icmp slt i64 %253, %218
  br i1 %254, label %235, label %234

255:                                              ; preds = %248, %247
  %256 = load ptr, ptr %225, align 8
  %257 = load ptr, ptr %226, align 8
  %258 = tail call i32 %256(ptr noundef %257, ptr noundef %239) nounwind
  %259 = load ptr, ptr %227, align 8
  %260 = load ptr, ptr %226, align 8
  %261 = tail call i32 %259(ptr noundef %231, ptr noundef %260, i32 noundef 0) nounwind
  %262 = add nuw nsw i64 %236, 1
  %263 = icmp slt i64 %262, %218
  br i1 %263, label %228, label %264

264:                                              ; preds = %255
  br label %265

265:                                              ; preds = %264, %234
  %266 = getelementptr inbounds i8, ptr %205, i64 8
  %267 = load ptr, ptr %266, align 8
  %268 = call i32 %267(ptr noundef nonnull %9) nounwind
  br label %269

269:                                              ; preds = %265, %234, %220
  %270 = getelementptr inbounds i8, ptr %213, i64 152
  %271 = load ptr, ptr %270, align 8
  %272 = call ptr %271() nounwind
  %273 = call i32 %6(ptr noundef %203) nounwind
  %274 = getelementptr inbounds i8, ptr %213, i64 160
  %275 = load ptr, ptr %274, align 8
  call void %275(ptr noundef %272) nounwind
  %276 = load ptr, ptr %214, align 8
  %277 = load ptr, ptr %215, align 8
  br i1 %219, label %279, label %278

278:                                              ; preds = %269
  br label %327

279:                                              ; preds = %269
  %280 = getelementptr inbounds i8, ptr %276, i64 160
  %281 = getelementptr inbounds i8, ptr %10, i64 80
  %282 = getelementptr inbounds i8, ptr %276, i64 152
  %283 = getelementptr inbounds i8, ptr %276, i64 72
  %284 = getelementptr inbounds i8, ptr %276, i64 224
  %285 = getelementptr inbounds i8, ptr %276, i64 128
  br label %286

286:                                              ; preds = %313, %279
  %287 = phi i1 [ false, %313 ], [ true, %279 ]
  %288 = phi i64 [ %320, %313 ], [ 0, %279 ]
  %289 = load ptr, ptr %280, align 8
  %290 = icmp eq ptr %289, %277
  %291 = icmp eq ptr %289, null
  br label %293

292:                                              ; preds = %310
  br i1 %287, label %327, label %323

293:                                              ; preds = %310, %286
  %294 = phi i64 [ %311, %310 ], [ %288, %286 ]
  %295 = getelementptr inbounds [8 x i64], ptr %281, i64 0, i64 %294
  %296 = load i64, ptr %295, align 8
  %297 = inttoptr i64 %296 to ptr
  %298 = icmp eq ptr %289, %297
  %299 = icmp eq i64 %296, 0
  %300 = and i1 %290, %299
  %301 = or i1 %298, %300
  %302 = icmp eq ptr %277, %297
  %303 = and i1 %291, %302
  %304 = or i1 %301, %303
  br i1 %304, label %310, label %305

305:                                              ; preds = %293
  br i1 %287, label %306, label %313

306:                                              ; preds = %305
  %307 = load ptr, ptr %276, align 8
  %308 = load ptr, ptr %282, align 8
  %309 = call i32 %307(ptr noundef %308) nounwind
  br label %313

310:                                              ; preds = %293
  %311 = add nuw nsw i64 %294, 1
  %312 = icmp slt i64 %311, %218
  br i1 %312, label %293, label %292

313:                                              ; preds = %306, %305
  %314 = load ptr, ptr %283, align 8
  %315 = load ptr, ptr %284, align 8
  %316 = call i32 %314(ptr noundef %315, ptr noundef %289) nounwind
  %317 = load ptr, ptr %285, align 8
  %318 = load ptr, ptr %284, align 8
  %319 = call i32 %317(ptr noundef %297, ptr noundef %318, i32 noundef 0) nounwind
  %320 = add nuw nsw i64 %294, 1
  %321 = icmp slt i64 %320, %218
  br i1 %321, label %286, label %322

322:                                              ; preds = %313
  br label %323

323:                                              ; preds = %322, %292
  %324 = getelementptr inbounds i8, ptr %276, i64 8
  %325 = load ptr, ptr %324, align 8
  %326 = call i32 %325(ptr noundef nonnull %8) nounwind
  br label %327

327:                                              ; preds = %323, %292, %278
  %328 = icmp eq i32 %273, 0
  br i1 %328, label %329, label %384

329:                                              ; preds = %327
  %330 = load ptr, ptr %214, align 8
  %331 = getelementptr inbounds i8, ptr %330, i64 232
  %332 = load ptr, ptr %331, align 8
  %333 = icmp sgt i64 %181, 0
  br i1 %333, label %334, label %371

334:                                              ; preds = %329
  %335 = getelementptr %struct.egs_program_port, ptr %180, i64 %182
  %336 = load ptr, ptr %14, align 8
  %337 = icmp eq ptr %336, null
  %338 = getelementptr inbounds i8, ptr %203, i64 40
  %339 = getelementptr inbounds i8, ptr %213, i64 120
  br label %340

340:                                              ; preds = %366, %334
  %341 = phi i64 [ 0, %334 ], [ %367, %366 ]
  %342 = phi i64 [ 0, %334 ], [ %346, %366 ]
  %343 = getelementptr inbounds %struct.egs_result, ptr %332, i64 %341
  %344 = getelementptr %struct.egs_program_port, ptr %335, i64 %341
  %345 = load i64, ptr %344, align 8
  %346 = add nsw i64 %345, %342
  br i1 %337, label %354, label %347

347:                                              ; preds = %340
  %348 = getelementptr inbounds ptr, ptr %336, i64 %341
  %349 = load ptr, ptr %348, align 8
  %350 = load ptr, ptr %339, align 8
  %351 = icmp eq ptr %349, %350
  %352 = icmp eq ptr %349, null
  %353 = or i1 %352, %351
  br i1 %353, label %354, label %366

354:                                              ; preds = %347, %340
  %355 = getelementptr inbounds i8, ptr %343, i64 8
  %356 = load i64, ptr %355, align 8
  %357 = icmp slt i64 %356, 0
  br i1 %357, label %384, label %358

358:                                              ; preds = %354
  %359 = load ptr, ptr %338, align 8
  %360 = getelementptr inbounds ptr, ptr %359, i64 %341
  %361 = load ptr, ptr %360, align 8
  %362 = getelementptr inbounds i8, ptr %343, i64 16
  %363 = getelementptr inbounds [2 x %struct.egs_result_block], ptr %362, i64 0, i64 %356, i32 1
  %364 = load ptr, ptr %363, align 8
  %365 = icmp eq ptr %361, %364
  br i1 %365, label %366, label %384

366:                                              ; preds = %358, %347
  %367 = add nuw nsw i64 %341, 1
  %368 = icmp eq i64 %367, %181
  br i1 %368, label %369, label %340

369:                                              ; preds = %366
  %370 = shl nsw i64 %346, 3
  br label %371

371:                                              ; preds = %329, %369
  %372 = phi i64 [ 0, %329 ], [ %370, %369 ]
  %373 = getelementptr inbounds i8, ptr %203, i64 56
  %374 = load ptr, ptr %373, align 8
  %375 = getelementptr inbounds %struct.egs_result, ptr %332, i64 %181
  %376 = call i32 @memcmp(ptr noundef %374, ptr noundef %375, i64 noundef %372) nounwind
  %377 = icmp eq i32 %376, 0
  br i1 %377, label %390, label %384

378:                                              ; preds = %68, %74, %146, %210, %186
  %379 = phi ptr [ %187, %186 ], [ %203, %210 ], [ %147, %146 ], [ %69, %68 ], [ %75, %74 ]
  %380 = phi i64 [ %182, %186 ], [ %211, %210 ], [ %135, %146 ], [ %71, %68 ], [ %40, %74 ]
  %381 = phi i32 [ 7, %186 ], [ 14, %210 ], [ 7, %146 ], [ 7, %68 ], [ 7, %74 ]
  %382 = getelementptr inbounds i8, ptr %379, i64 64
  %383 = load ptr, ptr %382, align 8
  store i64 %380, ptr %383, align 8
  br label %384

384:                                              ; preds = %354, %358, %378, %371, %327
  %385 = phi i32 [ 0, %371 ], [ %273, %327 ], [ %381, %378 ], [ 0, %358 ], [ 0, %354 ]
  %386 = getelementptr inbounds i8, ptr %3, i64 208
  %387 = load ptr, ptr %386, align 8
  %388 = sext i32 %385 to i64
  %389 = call ptr %387(i64 noundef %388) nounwind
  br label %458

390:                                              ; preds = %371
  %391 = getelementptr inbounds i8, ptr %213, i64 192
  %392 = load ptr, ptr %391, align 8
  %393 = call ptr %392(i64 noundef %181) nounwind
  %394 = icmp eq ptr %393, null
  br i1 %394, label %458, label %395

395:                                              ; preds = %390
  %396 = getelementptr inbounds i8, ptr %213, i64 176
  %397 = getelementptr inbounds i8, ptr %213, i64 200
  br i1 %333, label %398, label %458

398:                                              ; preds = %395
  %399 = load ptr, ptr %14, align 8
  %400 = icmp eq ptr %399, null
  %401 = getelementptr inbounds i8, ptr %213, i64 120
  %402 = getelementptr inbounds i8, ptr %213, i64 168
  %403 = getelementptr inbounds i8, ptr %213, i64 64
  %404 = getelementptr inbounds i8, ptr %213, i64 256
  %405 = getelementptr inbounds i8, ptr %213, i64 72
  %406 = getelementptr inbounds i8, ptr %213, i64 80
  %407 = getelementptr inbounds i8, ptr %213, i64 88
  br label %408

408:                                              ; preds = %398, %449
  %409 = phi i64 [ 0, %398 ], [ %453, %449 ]
  br i1 %400, label %419, label %410

410:                                              ; preds = %408
  %411 = getelementptr inbounds ptr, ptr %399, i64 %409
  %412 = load ptr, ptr %411, align 8
  %413 = load ptr, ptr %401, align 8
  %414 = icmp eq ptr %412, %413
  %415 = icmp eq ptr %412, null
  %416 = or i1 %415, %414
  br i1 %416, label %419, label %417

417:                                              ; preds = %410
  %418 = load ptr, ptr %396, align 8
  call void %418(ptr noundef nonnull %412) nounwind
  br label %449

419:                                              ; preds = %410, %408
  %420 = load ptr, ptr %214, align 8
  %421 = getelementptr inbounds i8, ptr %420, i64 232
  %422 = load ptr, ptr %421, align 8
  %423 = load ptr, ptr %402, align 8
  %424 = load ptr, ptr %403, align 8
  %425 = call ptr %423(ptr noundef %424, i64 noundef 0) nounwind
  %426 = icmp eq ptr %425, null
  br i1 %426, label %455, label %427

427:                                              ; preds = %419
  %428 = getelementptr inbounds %struct.egs_result, ptr %422, i64 %409
  %429 = getelementptr inbounds i8, ptr %428, i64 16
  %430 = getelementptr inbounds i8, ptr %428, i64 8
  %431 = load i64, ptr %430, align 8
  %432 = getelementptr inbounds [2 x %struct.egs_result_block], ptr %429, i64 0, i64 %431
  %433 = load ptr, ptr %432, align 8
  %434 = load ptr, ptr %404, align 8
  %435 = getelementptr %struct.egs_port, ptr %434, i64 %182
  %436 = getelementptr %struct.egs_port, ptr %435, i64 %409
  %437 = load ptr, ptr %436, align 8
  %438 = load ptr, ptr %396, align 8
  call void %438(ptr noundef %433) nounwind
  %439 = load ptr, ptr %396, align 8
  %440 = load ptr, ptr %428, align 8
  call void %439(ptr noundef %440) nounwind
  %441 = load ptr, ptr %396, align 8
  call void %441(ptr noundef %437) nounwind
  %442 = load i64, ptr %405, align 8
  %443 = getelementptr inbounds i8, ptr %425, i64 %442
  store ptr %433, ptr %443, align 8
  %444 = load ptr, ptr %428, align 8
  %445 = load i64, ptr %406, align 8
  %446 = getelementptr inbounds i8, ptr %425, i64 %445
  store ptr %444, ptr %446, align 8
  %447 = load i64, ptr %407, align 8
  %448 = getelementptr inbounds i8, ptr %425, i64 %447
  store ptr %437, ptr %448, align 8
  br label %449

449:                                              ; preds = %427, %417
  %450 = phi ptr [ %412, %417 ], [ %425, %427 ]
  %451 = load ptr, ptr %397, align 8
  %452 = call i32 %451(ptr noundef nonnull %393, i64 noundef %409, ptr noundef nonnull %450) nounwind
  %453 = add nuw nsw i64 %409, 1
  %454 = icmp eq i64 %453, %181
  br i1 %454, label %458, label %408

455:                                              ; preds = %419
  %456 = getelementptr inbounds i8, ptr %213, i64 184
  %457 = load ptr, ptr %456, align 8
  call void %457(ptr noundef nonnull %393) nounwind
  br label %458

458:                                              ; preds = %449, %395, %455, %390, %384
  %459 = phi ptr [ %389, %384 ], [ null, %455 ], [ null, %390 ], [ %393, %395 ], [ %393, %449 ]
  ret ptr %459
}

declare void @llvm.memset.p0.i64(ptr writeonly, i8, i64, i1 immarg) nounwind

define internal fastcc i32 @outputs_are_apart(ptr noundef readonly %0) nounwind {
  %2 = getelementptr inbounds i8, ptr %0, i64 40
  %3 = load i64, ptr %2, align 8
  %4 = getelementptr inbounds i8, ptr %0, i64 48
  %5 = load i64, ptr %4, align 8
  %6 = add nsw i64 %5, %3
  %7 = load ptr, ptr %0, align 8
  %8 = add nsw i64 %6, 1
  %9 = alloca %struct.range, i64 %8, align 16
  %10 = icmp sgt i64 %3, 0
  br i1 %10, label %11, label %18

11:                                               ; preds = %1
  %12 = getelementptr inbounds i8, ptr %7, i64 24
  %13 = load ptr, ptr %12, align 8
  %14 = getelementptr inbounds i8, ptr %7, i64 16
  %15 = load ptr, ptr %14, align 8
  %16 = getelementptr inbounds i8, ptr %0, i64 32
  %17 = load ptr, ptr %16, align 8
  br label %29

18:                                               ; preds = %49, %1
  %19 = icmp sgt i64 %5, 0
  br i1 %19, label %20, label %85

20:                                               ; preds = %18
  %21 = getelementptr inbounds i8, ptr %0, i64 16
  %22 = load ptr, ptr %21, align 8
  %23 = icmp eq ptr %22, null
  %24 = getelementptr inbounds i8, ptr %0, i64 24
  %25 = getelementptr inbounds i8, ptr %7, i64 48
  %26 = getelementptr %struct.range, ptr %9, i64 %3
  %27 = getelementptr inbounds i8, ptr %7, i64 40
  %28 = load ptr, ptr %27, align 8
  br label %88

29:                                               ; preds = %11, %49
  %30 = phi ptr [ %13, %11 ], [ %53, %49 ]
  %31 = phi i64 [ 0, %11 ], [ %54, %49 ]
  %32 = getelementptr inbounds %struct.range, ptr %9, i64 %31
  %33 = getelementptr inbounds ptr, ptr %15, i64 %31
  %34 = load ptr, ptr %33, align 8
  %35 = ptrtoint ptr %34 to i64
  %36 = getelementptr inbounds %struct.egs_program_port, ptr %17, i64 %31
  %37 = getelementptr inbounds i8, ptr %36, i64 8
  %38 = load i64, ptr %37, align 8
  %39 = load i64, ptr %36, align 8
  %40 = icmp sgt i64 %39, 0
  br i1 %40, label %41, label %49

41:                                               ; preds = %29, %41
  %42 = phi i64 [ %47, %41 ], [ 0, %29 ]
  %43 = phi i64 [ %46, %41 ], [ %38, %29 ]
  %44 = getelementptr inbounds i64, ptr %30, i64 %42
  %45 = load i64, ptr %44, align 8
  %46 = mul i64 %45, %43
  %47 = add nuw nsw i64 %42, 1
  %48 = icmp eq i64 %47, %39
  br i1 %48, label %49, label %41

49:                                               ; preds = %41, %29
  %50 = phi i64 [ %38, %29 ], [ %46, %41 ]
  %51 = add i64 %50, %35
  store i64 %35, ptr %32, align 16
  %52 = getelementptr inbounds i8, ptr %32, i64 8
  store i64 %51, ptr %52, align 8
  %53 = getelementptr inbounds i64, ptr %30, i64 %39
  %54 = add nuw nsw i64 %31, 1
  %55 = icmp eq i64 %54, %3
  br i1 %55, label %18, label %29

56:                                               ; preds = %103
  br i1 %19, label %57, label %85

57:                                               ; preds = %56
  %58 = icmp sgt i64 %6, 0
  br label %59

59:                                               ; preds = %81, %57
  %60 = phi i1 [ false, %57 ], [ %83, %81 ]
  %61 = phi i64 [ %3, %57 ], [ %82, %81 ]
  br i1 %58, label %62, label %81

62:                                               ; preds = %59
  %63 = getelementptr inbounds %struct.range, ptr %9, i64 %61
  %64 = load i64, ptr %63, align 16
  %65 = getelementptr inbounds i8, ptr %63, i64 8
  %66 = load i64, ptr %65, align 8
  br label %70

67:                                               ; preds = %70
  %68 = add nuw nsw i64 %71, 1
  %69 = icmp eq i64 %68, %6
  br i1 %69, label %81, label %70

70:                                               ; preds = %67, %62
  %71 = phi i64 [ 0, %62 ], [ %68, %67 ]
  %72 = getelementptr inbounds %struct.range, ptr %9, i64 %71
  %73 = load i64, ptr %72, align 16
  %74 = tail call i64 @llvm.umax.i64(i64 %64, i64 %73)
  %75 = getelementptr inbounds i8, ptr %72, i64 8
  %76 = load i64, ptr %75, align 8
  %77 = tail call i64 @llvm.umin.i64(i64 %66, i64 %76)
  %78 = icmp ne i64 %71, %61
  %79 = icmp ult i64 %74, %77
  %80 = select i1 %78, i1 %79, i1 false
  br i1 %80, label %85, label %67

81:                                               ; preds = %67, %59
  %82 = add i64 %61, 1
  %83 = icmp sge i64 %82, %6
  %84 = icmp eq i64 %82, %6
  br i1 %84, label %85, label %59

85:                                               ; preds = %81, %70, %18, %56
  %86 = phi i1 [ true, %56 ], [ true, %18 ], [ %60, %70 ], [ %83, %81 ]
  %87 = zext i1 %86 to i32
  ret i32 %87

88:                                               ; preds = %20, %103
  %89 = phi i64 [ 0, %20 ], [ %111, %103 ]
  br i1 %23, label %103, label %90

90:                                               ; preds = %88
  %91 = getelementptr inbounds ptr, ptr %22, i64 %89
  %92 = load ptr, ptr %91, align 8
  %93 = load ptr, ptr %24, align 8
  %94 = getelementptr inbounds i8, ptr %93, i64 120
  %95 = load ptr, ptr %94, align 8
  %96 = icmp eq ptr %92, %95
  %97 = icmp eq ptr %92, null
  %98 = or i1 %97, %96
  br i1 %98, label %103, label %99

99:                                               ; preds = %90
  %100 = load ptr, ptr %25, align 8
  %101 = getelementptr inbounds i64, ptr %100, i64 %89
  %102 = load i64, ptr %101, align 8
  br label %103

103:                                              ; preds = %90, %88, %99
  %104 = phi i64 [ %102, %99 ], [ 0, %88 ], [ 0, %90 ]
  %105 = getelementptr %struct.range, ptr %26, i64 %89
  %106 = getelementptr inbounds ptr, ptr %28, i64 %89
  %107 = load ptr, ptr %106, align 8
  %108 = ptrtoint ptr %107 to i64
  %109 = add i64 %104, %108
  store i64 %108, ptr %105, align 16
  %110 = getelementptr inbounds i8, ptr %105, i64 8
  store i64 %109, ptr %110, align 8
  %111 = add nuw nsw i64 %89, 1
  %112 = icmp eq i64 %111, %5
  br i1 %112, label %56, label %88
}

define internal fastcc i32 @read_array(ptr noundef readonly %0, ptr noundef %1, ptr noundef readonly %2, ptr noundef writeonly %3, ptr noundef writeonly %4, ptr noundef writeonly %5, ptr noundef %6) nounwind {
  %8 = alloca %struct.tensor, align 8
  %9 = getelementptr inbounds i8, ptr %0, i64 8
  %10 = load i64, ptr %9, align 8
  %11 = getelementptr inbounds i8, ptr %1, i64 %10
  %12 = load ptr, ptr %11, align 8
  %13 = getelementptr inbounds i8, ptr %0, i64 16
  %14 = load ptr, ptr %13, align 8
  %15 = icmp eq ptr %12, %14
  br i1 %15, label %16, label %57

16:                                               ; preds = %7
  store i64 1, ptr %5, align 8
  %17 = load ptr, ptr %2, align 8
  %18 = getelementptr inbounds i8, ptr %2, i64 16
  %19 = load i64, ptr %18, align 8
  %20 = getelementptr inbounds i8, ptr %0, i64 48
  %21 = load i64, ptr %20, align 8
  %22 = getelementptr inbounds i8, ptr %1, i64 %21
  %23 = load ptr, ptr %22, align 8
  %24 = icmp eq ptr %23, %17
  br i1 %24, label %25, label %239

25:                                               ; preds = %16
  %26 = getelementptr inbounds i8, ptr %0, i64 32
  %27 = load i64, ptr %26, align 8
  %28 = getelementptr inbounds i8, ptr %1, i64 %27
  %29 = load i32, ptr %28, align 4
  %30 = sext i32 %29 to i64
  %31 = icmp eq i64 %19, %30
  br i1 %31, label %32, label %239

32:                                               ; preds = %25
  %33 = getelementptr inbounds i8, ptr %0, i64 56
  %34 = load i64, ptr %33, align 8
  %35 = getelementptr inbounds i8, ptr %1, i64 %34
  %36 = load i32, ptr %35, align 4
  %37 = and i32 %36, 257
  %38 = icmp eq i32 %37, 257
  br i1 %38, label %39, label %239

39:                                               ; preds = %32
  %40 = getelementptr inbounds i8, ptr %0, i64 40
  %41 = load i64, ptr %40, align 8
  %42 = getelementptr inbounds i8, ptr %1, i64 %41
  %43 = load ptr, ptr %42, align 8
  %44 = icmp sgt i64 %19, 0
  br i1 %44, label %50, label %45

45:                                               ; preds = %50, %39
  %46 = getelementptr inbounds i8, ptr %0, i64 24
  %47 = load i64, ptr %46, align 8
  %48 = getelementptr inbounds i8, ptr %1, i64 %47
  %49 = load ptr, ptr %48, align 8
  store ptr %49, ptr %3, align 8
  br label %239

50:                                               ; preds = %39, %50
  %51 = phi i64 [ %55, %50 ], [ 0, %39 ]
  %52 = getelementptr inbounds i64, ptr %43, i64 %51
  %53 = load i64, ptr %52, align 8
  %54 = getelementptr inbounds i64, ptr %4, i64 %51
  store i64 %53, ptr %54, align 8
  %55 = add nuw nsw i64 %51, 1
  %56 = icmp eq i64 %55, %19
  br i1 %56, label %45, label %50

57:                                               ; preds = %7
  %58 = getelementptr inbounds i8, ptr %0, i64 64
  %59 = load ptr, ptr %58, align 8
  %60 = icmp eq ptr %12, %59
  br i1 %60, label %61, label %140

61:                                               ; preds = %57
  store i64 0, ptr %5, align 8
  %62 = getelementptr inbounds i8, ptr %0, i64 72
  %63 = load i64, ptr %62, align 8
  %64 = getelementptr inbounds i8, ptr %1, i64 %63
  %65 = load ptr, ptr %64, align 8
  %66 = getelementptr inbounds i8, ptr %0, i64 80
  %67 = load i64, ptr %66, align 8
  %68 = getelementptr inbounds i8, ptr %1, i64 %67
  %69 = load ptr, ptr %68, align 8
  %70 = getelementptr inbounds i8, ptr %0, i64 88
  %71 = load i64, ptr %70, align 8
  %72 = getelementptr inbounds i8, ptr %1, i64 %71
  %73 = load ptr, ptr %72, align 8
  %74 = load ptr, ptr %2, align 8
  %75 = icmp eq ptr %73, %74
  br i1 %75, label %76, label %239

76:                                               ; preds = %61
  %77 = getelementptr inbounds i8, ptr %0, i64 112
  %78 = load i64, ptr %77, align 8
  %79 = getelementptr inbounds i8, ptr %65, i64 %78
  %80 = load ptr, ptr %79, align 8
  %81 = getelementptr inbounds i8, ptr %0, i64 216
  %82 = load ptr, ptr %81, align 8
  %83 = icmp eq ptr %80, %82
  br i1 %83, label %84, label %239

84:                                               ; preds = %76
  %85 = getelementptr inbounds i8, ptr %0, i64 136
  %86 = load ptr, ptr %85, align 8
  %87 = tail call i64 %86(ptr noundef %69) nounwind
  %88 = getelementptr inbounds i8, ptr %2, i64 16
  %89 = load i64, ptr %88, align 8
  %90 = icmp eq i64 %87, %89
  br i1 %90, label %91, label %239

91:                                               ; preds = %84
  %92 = load i64, ptr %0, align 8
  %93 = getelementptr inbounds i8, ptr %69, i64 %92
  %94 = icmp sgt i64 %87, 0
  br i1 %94, label %95, label %97

95:                                               ; preds = %91
  %96 = getelementptr inbounds i8, ptr %0, i64 128
  br label %130

97:                                               ; preds = %130, %91
  %98 = getelementptr inbounds i8, ptr %0, i64 128
  %99 = load ptr, ptr %98, align 8
  %100 = getelementptr inbounds i8, ptr %0, i64 96
  %101 = load i64, ptr %100, align 8
  %102 = getelementptr inbounds i8, ptr %65, i64 %101
  %103 = load ptr, ptr %102, align 8
  %104 = tail call i64 %99(ptr noundef %103) nounwind
  store i64 %104, ptr %3, align 8
  %105 = load ptr, ptr %98, align 8
  %106 = getelementptr inbounds i8, ptr %0, i64 104
  %107 = load i64, ptr %106, align 8
  %108 = getelementptr inbounds i8, ptr %65, i64 %107
  %109 = load ptr, ptr %108, align 8
  %110 = tail call i64 %105(ptr noundef %109) nounwind
  %111 = getelementptr inbounds i8, ptr %6, i64 16
  %112 = load i64, ptr %111, align 8
  %113 = icmp sgt i64 %112, 0
  br i1 %113, label %114, label %126

114:                                              ; preds = %97
  %115 = getelementptr inbounds i8, ptr %6, i64 24
  br label %119

116:                                              ; preds = %119
  %117 = add nuw nsw i64 %120, 1
  %118 = icmp eq i64 %117, %112
  br i1 %118, label %124, label %119

119:                                              ; preds = %116, %114
  %120 = phi i64 [ 0, %114 ], [ %117, %116 ]
  %121 = getelementptr inbounds [8 x i64], ptr %115, i64 0, i64 %120
  %122 = load i64, ptr %121, align 8
  %123 = icmp eq i64 %122, %110
  br i1 %123, label %239, label %116

124:                                              ; preds = %116
  %125 = icmp eq i64 %112, 8
  br i1 %125, label %239, label %126

126:                                              ; preds = %124, %97
  %127 = getelementptr inbounds i8, ptr %6, i64 24
  %128 = add nsw i64 %112, 1
  store i64 %128, ptr %111, align 8
  %129 = getelementptr inbounds [8 x i64], ptr %127, i64 0, i64 %112
  store i64 %110, ptr %129, align 8
  br label %239

130:                                              ; preds = %130, %95
  %131 = phi i64 [ 0, %95 ], [ %137, %130 ]
  %132 = load ptr, ptr %96, align 8
  %133 = getelementptr inbounds ptr, ptr %93, i64 %131
  %134 = load ptr, ptr %133, align 8
  %135 = tail call i64 %132(ptr noundef %134) nounwind
  %136 = getelementptr inbounds i64, ptr %4, i64 %131
  store i64 %135, ptr %136, align 8
  %137 = add nuw nsw i64 %131, 1
  %138 = load i64, ptr %88, align 8
  %139 = icmp slt i64 %137, %138
  br i1 %139, label %130, label %97

140:                                              ; preds = %57
  %141 = getelementptr inbounds i8, ptr %0, i64 248
  %142 = load ptr, ptr %141, align 8
  %143 = getelementptr inbounds i8, ptr %0, i64 240
  %144 = load i64, ptr %143, align 8
  %145 = getelementptr inbounds %struct.egs_owner, ptr %142, i64 %144
  %146 = icmp eq i64 %144, 0
  br i1 %146, label %239, label %147

147:                                              ; preds = %140, %151
  %148 = phi ptr [ %152, %151 ], [ %142, %140 ]
  %149 = load ptr, ptr %148, align 8
  %150 = icmp eq ptr %149, %12
  br i1 %150, label %154, label %151

151:                                              ; preds = %147
  %152 = getelementptr inbounds i8, ptr %148, i64 24
  %153 = icmp eq ptr %152, %145
  br i1 %153, label %239, label %147

154:                                              ; preds = %147
  %155 = getelementptr inbounds i8, ptr %148, i64 8
  %156 = load ptr, ptr %155, align 8
  %157 = call i32 %156(ptr noundef nonnull %1, ptr noundef nonnull %8) nounwind
  %158 = icmp eq i32 %157, 0
  br i1 %158, label %162, label %159

159:                                              ; preds = %154
  %160 = getelementptr inbounds i8, ptr %0, i64 144
  %161 = load ptr, ptr %160, align 8
  call void %161() nounwind
  br label %237

162:                                              ; preds = %154
  %163 = load ptr, ptr %8, align 8
  %164 = ptrtoint ptr %163 to i64
  %165 = getelementptr inbounds i8, ptr %8, i64 40
  %166 = load i64, ptr %165, align 8
  %167 = add i64 %166, %164
  %168 = getelementptr inbounds i8, ptr %8, i64 16
  %169 = load i32, ptr %168, align 8
  %170 = sext i32 %169 to i64
  %171 = getelementptr inbounds i8, ptr %2, i64 16
  %172 = load i64, ptr %171, align 8
  %173 = icmp eq i64 %172, %170
  br i1 %173, label %174, label %237

174:                                              ; preds = %162
  %175 = getelementptr inbounds i8, ptr %8, i64 20
  %176 = load i32, ptr %175, align 4
  %177 = zext i32 %176 to i64
  %178 = getelementptr inbounds i8, ptr %2, i64 8
  %179 = load i64, ptr %178, align 8
  %180 = icmp eq i64 %179, %177
  %181 = and i64 %167, 15
  %182 = icmp eq i64 %181, 0
  %183 = select i1 %180, i1 %182, i1 false
  br i1 %183, label %184, label %237

184:                                              ; preds = %174
  %185 = icmp sgt i32 %169, 0
  br i1 %185, label %186, label %221

186:                                              ; preds = %184
  %187 = zext nneg i32 %169 to i64
  %188 = getelementptr inbounds i8, ptr %8, i64 24
  %189 = getelementptr inbounds i8, ptr %8, i64 32
  %190 = load ptr, ptr %188, align 8
  %191 = load ptr, ptr %189, align 8
  %192 = icmp eq ptr %191, null
  br label %193

193:                                              ; preds = %211, %186
  %194 = phi i64 [ %187, %186 ], [ %198, %211 ]
  %195 = phi i64 [ 1, %186 ], [ %215, %211 ]
  %196 = phi i32 [ 0, %186 ], [ %204, %211 ]
  %197 = phi i32 [ 0, %186 ], [ %214, %211 ]
  %198 = add nsw i64 %194, -1
  %199 = getelementptr inbounds i64, ptr %190, i64 %198
  %200 = load i64, ptr %199, align 8
  %201 = getelementptr inbounds i64, ptr %4, i64 %198
  store i64 %200, ptr %201, align 8
  %202 = icmp eq i64 %200, 0
  %203 = zext i1 %202 to i32
  %204 = or i32 %196, %203
  %205 = icmp eq i64 %200, 1
  %206 = select i1 %205, i1 true, i1 %192
  br i1 %206, label %211, label %207

207:                                              ; preds = %193
  %208 = getelementptr inbounds i64, ptr %191, i64 %198
  %209 = load i64, ptr %208, align 8
  %210 = icmp ne i64 %209, %195
  br label %211

211:                                              ; preds = %207, %193
  %212 = phi i1 [ false, %193 ], [ %210, %207 ]
  %213 = zext i1 %212 to i32
  %214 = or i32 %197, %213
  %215 = mul i64 %200, %195
  %216 = icmp ugt i64 %194, 1
  br i1 %216, label %193, label %217

217:                                              ; preds = %211
  %218 = icmp eq i32 %204, 0
  %219 = icmp ne i32 %214, 0
  %220 = select i1 %218, i1 %219, i1 false
  br i1 %220, label %237, label %221

221:                                              ; preds = %217, %184
  store i64 %167, ptr %3, align 8
  %222 = getelementptr inbounds i8, ptr %8, i64 8
  %223 = load i32, ptr %222, align 8
  %224 = icmp eq i32 %223, 1
  %225 = zext i1 %224 to i64
  store i64 %225, ptr %5, align 8
  br i1 %224, label %237, label %226

226:                                              ; preds = %221
  %227 = icmp eq i32 %223, 2
  br i1 %227, label %228, label %237

228:                                              ; preds = %226
  %229 = getelementptr inbounds i8, ptr %8, i64 12
  %230 = load i32, ptr %229, align 4
  %231 = sext i32 %230 to i64
  %232 = getelementptr inbounds i8, ptr %0, i64 224
  %233 = load i64, ptr %232, align 8
  %234 = icmp eq i64 %233, %231
  br i1 %234, label %235, label %237

235:                                              ; preds = %228
  %236 = call fastcc i32 @note_foreign(ptr noundef nonnull readonly %0, ptr noundef nonnull %148, ptr noundef %6)
  br label %237

237:                                              ; preds = %235, %228, %226, %221, %217, %174, %162, %159
  %238 = phi i32 [ 0, %159 ], [ 0, %217 ], [ 0, %174 ], [ 0, %162 ], [ 1, %221 ], [ 0, %228 ], [ 0, %226 ], [ %236, %235 ]
  br label %239

239:                                              ; preds = %151, %119, %237, %140, %126, %124, %84, %76, %61, %45, %32, %25, %16
  %240 = phi i32 [ 1, %45 ], [ 0, %32 ], [ 0, %25 ], [ 0, %16 ], [ 0, %84 ], [ 0, %76 ], [ 0, %61 ], [ 1, %126 ], [ 0, %124 ], [ %238, %237 ], [ 0, %140 ], [ 1, %119 ], [ 0, %151 ]
  ret i32 %240
}

define internal fastcc i32 @note_foreign(ptr noundef readonly %0, ptr noundef readonly %1, ptr noundef %2) nounwind {
  %4 = alloca i64, align 8
  store i64 0, ptr %4, align 8
  %5 = getelementptr inbounds i8, ptr %1, i64 16
  %6 = load ptr, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %0, i64 224
  %8 = load i64, ptr %7, align 8
  %9 = trunc i64 %8 to i32
  %10 = call i32 %6(i32 noundef 2, i32 noundef %9, ptr noundef nonnull %4) nounwind
  %11 = icmp eq i32 %10, 0
  br i1 %11, label %15, label %12

12:                                               ; preds = %3
  %13 = getelementptr inbounds i8, ptr %0, i64 144
  %14 = load ptr, ptr %13, align 8
  call void %14() nounwind
  br label %45

15:                                               ; preds = %3
  %16 = load i64, ptr %4, align 8
  %17 = icmp eq i64 %16, 1
  %18 = select i1 %17, i64 0, i64 %16
  %19 = icmp eq i64 %18, 2
  br i1 %19, label %45, label %20

20:                                               ; preds = %15
  %21 = load i64, ptr %2, align 8
  %22 = icmp eq i64 %21, 0
  br i1 %22, label %23, label %25

23:                                               ; preds = %20
  store i64 1, ptr %2, align 8
  %24 = getelementptr inbounds i8, ptr %2, i64 8
  store i64 %18, ptr %24, align 8
  br label %25

25:                                               ; preds = %23, %20
  %26 = getelementptr inbounds i8, ptr %2, i64 16
  %27 = load i64, ptr %26, align 8
  %28 = icmp sgt i64 %27, 0
  br i1 %28, label %29, label %41

29:                                               ; preds = %25
  %30 = getelementptr inbounds i8, ptr %2, i64 24
  br label %34

31:                                               ; preds = %34
  %32 = add nuw nsw i64 %35, 1
  %33 = icmp eq i64 %32, %27
  br i1 %33, label %39, label %34

34:                                               ; preds = %31, %29
  %35 = phi i64 [ 0, %29 ], [ %32, %31 ]
  %36 = getelementptr inbounds [8 x i64], ptr %30, i64 0, i64 %35
  %37 = load i64, ptr %36, align 8
  %38 = icmp eq i64 %37, %18
  br i1 %38, label %45, label %31

39:                                               ; preds = %31
  %40 = icmp eq i64 %27, 8
  br i1 %40, label %45, label %41

41:                                               ; preds = %39, %25
  %42 = getelementptr inbounds i8, ptr %2, i64 24
  %43 = add nsw i64 %27, 1
  store i64 %43, ptr %26, align 8
  %44 = getelementptr inbounds [8 x i64], ptr %42, i64 0, i64 %27
  store i64 %18, ptr %44, align 8
  br label %45

45:                                               ; preds = %34, %41, %39, %15, %12
  %46 = phi i32 [ 0, %12 ], [ 0, %15 ], [ 1, %41 ], [ 0, %39 ], [ 1, %34 ]
  ret i32 %46
}

declare i32 @memcmp(ptr noundef, ptr noundef, i64 noundef)

declare i64 @llvm.umax.i64(i64, i64) nounwind

declare i64 @llvm.umin.i64(i64, i64) nounwind
