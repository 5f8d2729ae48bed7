"""Device functions of products by warps: matrix instructions, and the tiles that are made of them.

The functions with assembly hold nothing else. Fragments are those of the PTX ISA: mma.m16n8k16 with floating
point types, ldmatrix.m8n8.x4."""

from __future__ import annotations

TENSOR = r"""
// -- matrix instructions: four 8x8 matrices of 16 bits, whose line l of matrix q lane 8 * q + l gives the address of --
EG void eg_ldmatrix(ui32* r, const ui16* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((ui32)__cvta_generic_to_shared(p)) : "memory");
}
EG void eg_ldmatrix_trans(ui32* r, const ui16* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((ui32)__cvta_generic_to_shared(p)) : "memory");
}
// 16 bytes on their way to shared memory, or 0 where they lie outside, until the thread waits for all of its own
EG void eg_ahead(void* to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
    :: "r"((ui32)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(inside ? 16 : 0) : "memory");
}
EG void eg_landed() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// d += a @ b, (16, 16) by (16, 8)
EG void eg_mma_f16(f32* d, const ui32* a, const ui32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
    "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
EG void eg_mma_bf16(f32* d, const ui32* a, const ui32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
    "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// two numbers rounded to 16 bits, the first one in the lower half
EG ui32 eg_pack_f16(f32 low, f32 high) {
  ui32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r;
}
EG ui32 eg_pack_bf16(f32 low, f32 high) {
  ui32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r;
}

// -- fragments: PITCH is from line to line, ALONG says that lines go along the depth ----------------------------------
template <int PITCH, bool ALONG> EG void eg_left(ui32* a, const ui16* p, int lane) {
  if (ALONG) eg_ldmatrix(a, p + (lane & 15) * PITCH + (lane >> 4) * 8);
  else eg_ldmatrix_trans(a, p + ((lane & 7) + (lane >> 4) * 8) * PITCH + (lane >> 3 & 1) * 8);
}
// two tiles side by side
template <int PITCH, bool ALONG> EG void eg_right(ui32* b, const ui16* p, int lane) {
  if (ALONG) eg_ldmatrix(b, p + ((lane & 7) + (lane >> 4) * 8) * PITCH + (lane >> 3 & 1) * 8);
  else eg_ldmatrix_trans(b, p + (lane & 15) * PITCH + (lane >> 4) * 8);
}
template <bool BF> EG void eg_mma(f32* d, const ui32* a, const ui32* b) {
  if (BF) eg_mma_bf16(d, a, b); else eg_mma_f16(d, a, b);
}
template <bool BF> EG ui32 eg_pack(f32 low, f32 high) { return BF ? eg_pack_bf16(low, high) : eg_pack_f16(low, high); }
template <bool BF, class W> EG W eg_packed(const f32* x) {
  union { W whole; ui32 words[sizeof(W) / 4]; } both;
  for (int k = 0; k < (int)sizeof(W) / 4; ++k) both.words[k] = eg_pack<BF>(x[2 * k], x[2 * k + 1]);
  return both.whole;
}

// -- sums += left @ right by all warps of a block; tile (i, j) of a warp's sums is sums[4 * (i * COLUMNS + j)] --------
template <bool BF, int ROWS, int COLUMNS, int PITCH, bool ALONG>
EG void eg_step(f32* sums, const ui32 (&a)[ROWS][4], const ui16* right, int lane) {
  #pragma unroll
  for (int j = 0; j < COLUMNS; j += 2) {
    ui32 b[4];
    eg_right<PITCH, ALONG>(b, right + j * 8 * (ALONG ? PITCH : 1), lane);
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      eg_mma<BF>(sums + 4 * (i * COLUMNS + j), a[i], b);
      eg_mma<BF>(sums + 4 * (i * COLUMNS + j + 1), a[i], b + 2);
    }
  }
}
template <bool BF, int ROWS, int COLUMNS, int ACROSS, int DEPTH, int LEFT, bool LEFT_ALONG, int RIGHT, bool RIGHT_ALONG>
EG void eg_product(f32* sums, const ui16* left, const ui16* right) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  left += warp / ACROSS * (16 * ROWS) * (LEFT_ALONG ? LEFT : 1);
  right += warp % ACROSS * (8 * COLUMNS) * (RIGHT_ALONG ? RIGHT : 1);
  #pragma unroll
  for (int k = 0; k < DEPTH; k += 16) {
    ui32 a[ROWS][4];
    #pragma unroll
    for (int i = 0; i < ROWS; ++i)
      eg_left<LEFT, LEFT_ALONG>(a[i], left + i * 16 * (LEFT_ALONG ? LEFT : 1) + k * (LEFT_ALONG ? 1 : LEFT), lane);
    eg_step<BF, ROWS, COLUMNS, RIGHT, RIGHT_ALONG>(sums, a, right + k * (RIGHT_ALONG ? 1 : RIGHT), lane);
  }
}
// the left side is what an earlier product left in registers: two of its tiles are one of 16 x 16
template <bool BF, int ROWS, int COLUMNS, int DEPTH, int ROW, int COLUMN, int RIGHT, bool RIGHT_ALONG>
EG void eg_product_held(f32* sums, const f32* left, const ui16* right) {
  const int lane = threadIdx.x & 31;
  #pragma unroll
  for (int k = 0; k < DEPTH; k += 16) {
    ui32 a[ROWS][4];
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        const f32* of = left + i * ROW + (k / 8 + q / 2) * COLUMN + q % 2 * 2;
        a[i][q] = eg_pack<BF>(of[0], of[1]);
      }
    }
    eg_step<BF, ROWS, COLUMNS, RIGHT, RIGHT_ALONG>(sums, a, right + k * (RIGHT_ALONG ? 1 : RIGHT), lane);
  }
}

// -- the same of f32: two rows and two columns of each tile are a thread's --------------------------------------------
// four steps of the depth of one line of a side
template <int PITCH, bool ALONG> EG void eg_four(f32* x, const f32* p) {
  if (ALONG) { const float4 v = *(const float4*)p; x[0] = v.x; x[1] = v.y; x[2] = v.z; x[3] = v.w; }
  else {
    #pragma unroll
    for (int k = 0; k < 4; ++k) x[k] = p[k * PITCH];
  }
}
template <int PITCH, bool ALONG> EG void eg_two(f32 (&b)[2][4], const f32* p) {
  if (ALONG) { eg_four<PITCH, true>(b[0], p); eg_four<PITCH, true>(b[1], p + PITCH); }
  else {
    #pragma unroll
    for (int k = 0; k < 4; ++k) { const float2 v = *(const float2*)(p + k * PITCH); b[0][k] = v.x; b[1][k] = v.y; }
  }
}
template <int ROWS, int COLUMNS, int PITCH, bool ALONG>
EG void eg_step_f32(f32* sums, const f32 (&a)[ROWS][2][4], const f32* right, int lane) {
  #pragma unroll
  for (int j = 0; j < COLUMNS; ++j) {
    f32 b[2][4];
    eg_two<PITCH, ALONG>(b, right + (j * 8 + (lane & 3) * 2) * (ALONG ? PITCH : 1));
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      #pragma unroll
      for (int k = 0; k < 4; ++k) {
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
          f32& sum = sums[4 * (i * COLUMNS + j) + r];
          sum = fma(a[i][r / 2][k], b[r % 2][k], sum);
        }
      }
    }
  }
}
template <int ROWS, int COLUMNS, int ACROSS, int DEPTH, int LEFT, bool LEFT_ALONG, int RIGHT, bool RIGHT_ALONG>
EG void eg_product_f32(f32* sums, const f32* left, const f32* right) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  left += (warp / ACROSS * (16 * ROWS) + (lane >> 2)) * (LEFT_ALONG ? LEFT : 1);
  right += warp % ACROSS * (8 * COLUMNS) * (RIGHT_ALONG ? RIGHT : 1);
  #pragma unroll 1
  for (int k = 0; k < DEPTH; k += 4) {
    f32 a[ROWS][2][4];
    #pragma unroll
    for (int i = 0; i < 2 * ROWS; ++i)
      eg_four<LEFT, LEFT_ALONG>(a[i / 2][i % 2], left + i * 8 * (LEFT_ALONG ? LEFT : 1) + k * (LEFT_ALONG ? 1 : LEFT));
    eg_step_f32<ROWS, COLUMNS, RIGHT, RIGHT_ALONG>(sums, a, right + k * (RIGHT_ALONG ? 1 : RIGHT), lane);
  }
}
template <int ROWS, int COLUMNS, int DEPTH, int ROW, int COLUMN, int RIGHT, bool RIGHT_ALONG>
EG void eg_product_held_f32(f32* sums, const f32* left, const f32* right) {
  const int lane = threadIdx.x & 31;
  #pragma unroll
  for (int k = 0; k < DEPTH; k += 4) {
    f32 a[ROWS][2][4];
    #pragma unroll
    for (int i = 0; i < 2 * ROWS; ++i) {
      const f32* of = left + i / 2 * ROW + k / 8 * COLUMN + i % 2 * 2;
      #pragma unroll
      for (int q = 0; q < 4; ++q)
        a[i / 2][i % 2][q] = __shfl_sync(0xffffffffu, of[q % 2], (lane & 28) + k % 8 / 2 + q / 2);
    }
    eg_step_f32<ROWS, COLUMNS, RIGHT, RIGHT_ALONG>(sums, a, right + k * (RIGHT_ALONG ? 1 : RIGHT), lane);
  }
}
"""
