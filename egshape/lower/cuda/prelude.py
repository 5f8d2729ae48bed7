"""Device functions that printed kernels call: one overload or template per op, with the meaning of the op's reference.

Written for NVRTC, which has the device math library but no headers."""

from __future__ import annotations

from egshape.lower.cuda.tensor_prelude import TENSOR

PRELUDE = (
    r"""
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char ui8; typedef unsigned short ui16; typedef unsigned int ui32; typedef unsigned long long ui64;
typedef float f32; typedef double f64;
#define EG __device__ __forceinline__

// -- memory: i1 is a byte, f16 and bf16 are 16 bits and computed in f32 ---------------------------------------------
EG f32 eg_load_f16(ui16 x) { f32 y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
EG ui16 eg_store_f16(f32 x) { ui16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
EG f32 eg_load_bf16(ui16 x) { return __uint_as_float((ui32)x << 16); }
// of registers that are filled by words: half of one
EG f32 eg_held_bf16(const ui16* x, ui32 k) {
  ui32 both = *(const ui32*)&x[k & ~1u];
  return __uint_as_float(k & 1 ? both & 0xffff0000u : both << 16);
}
EG ui16 eg_store_bf16(f32 x) {  // the form for two numbers, which takes no slot of the unit for special functions
  ui32 y; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(0.0f), "f"(x)); return (ui16)y;
}
EG f32 eg_round_f16(f32 x) { return eg_load_f16(eg_store_f16(x)); }
EG f32 eg_round_bf16(f32 x) {  // of two halves the upper one is a bf16 as f32
  ui32 y; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(x), "f"(0.0f)); return __uint_as_float(y);
}

// -- sizes: i64, division rounds down, a divisor of 0 stands for 1 in code that does not run ------------------------
EG i64 eg_floordiv(i64 a, i64 b) { b = b == 0 ? 1 : b; i64 q = a / b; return q - ((a % b != 0) && ((a ^ b) < 0)); }
template <class T> EG T eg_div(T a, T b) { return a / (b == 0 ? (T)1 : b); }
EG i64 eg_relu(i64 a) { return a > 0 ? a : 0; }
EG i32 eg_floordiv(i32 a, i32 b) { b = b == 0 ? 1 : b; i32 q = a / b; return q - ((a % b != 0) && ((a ^ b) < 0)); }
EG i32 eg_relu(i32 a) { return a > 0 ? a : 0; }
EG i64 eg_bound(i64 a, i64 top) { a = a < top ? a : top; return a > 0 ? a : 0; }
template <class T> EG i64 eg_index(T x) { return (i64)x; }
EG i64 eg_index(ui64 x) { return x > 0x7fffffffffffffffull ? 0x7fffffffffffffffll : (i64)x; }

// -- floats ---------------------------------------------------------------------------------------------------------
template <class T> EG T eg_maximum(T a, T b) { return a > b ? a : b; }
template <class T> EG T eg_minimum(T a, T b) { return a < b ? a : b; }
// NaN if one of both is; -0 is less than +0
EG f32 eg_max_f32(f32 a, f32 b) { f32 y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
EG f32 eg_min_f32(f32 a, f32 b) { f32 y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
EG f32 eg_maximum(f32 a, f32 b) { return eg_max_f32(a, b); }
EG f32 eg_minimum(f32 a, f32 b) { return eg_min_f32(a, b); }
EG f64 eg_maximum(f64 a, f64 b) {
  return a != a ? a : b != b ? b : a > b ? a : b > a ? b : __double_as_longlong(a) < 0 ? b : a;
}
EG f64 eg_minimum(f64 a, f64 b) {
  return a != a ? a : b != b ? b : a < b ? a : b < a ? b : __double_as_longlong(a) < 0 ? a : b;
}
// the next f16 or bf16 from x towards y: a step of its bits; from 0 the least number with the sign of y
#define EG_NEXT(LOAD, STORE, NAME)                                                                                     \
  EG f32 NAME(f32 x, f32 y) {                                                                                          \
    if (x != x || y != y) return x + y;                                                                                \
    if (x == y) return y;                                                                                              \
    if (x == 0.0f) return LOAD((ui16)((STORE(y) & 0x8000u) | 1u));                                                     \
    return LOAD((ui16)(STORE(x) + ((x < y) != (x < 0.0f) ? 1 : -1)));                                                  \
  }
EG_NEXT(eg_load_f16, eg_store_f16, eg_next_f16)
EG_NEXT(eg_load_bf16, eg_store_bf16, eg_next_bf16)
// about 2 ulp; a result below the smallest normal number is 0
EG f32 eg_exp2(f32 x) { f32 y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
template <class T> EG T eg_sign(T x) { return x > (T)0 ? (T)1 : x < (T)0 ? (T)-1 : x; }
template <class T> EG bool eg_is_finite(T x) { return x - x == (T)0; }
template <class T> EG bool eg_is_inf(T x) { return x == x && x - x != (T)0; }
template <class T> EG bool eg_is_pos_inf(T x) { return eg_is_inf(x) && x > (T)0; }
template <class T> EG bool eg_is_neg_inf(T x) { return eg_is_inf(x) && x < (T)0; }
EG f64 eg_logistic(f64 x) { return 1.0 / (1.0 + exp(-x)); }
EG f64 eg_rsqrt(f64 x) { return 1.0 / sqrt(x); }
EG f64 eg_tanh(f64 x) { return tanh(x); }
EG f64 eg_erfc(f64 x) { return erfc(x); }

// -- functions of f32 by the unit for special functions: no branch, and nothing that a rare argument calls --------
EG f32 eg_rsqrt_approx(f32 x) { f32 y; asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }  // 2^-22.4
EG f32 eg_rcp(f32 x) { f32 y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }  // 1 ulp; no denormals
EG f32 eg_rsqrt(f32 x) { return eg_rsqrt_approx(x); }
// e/(1 + e) or 1/(1 + e) with e = exp(-|x|); a step of Newton makes the inverse, which is 1/2 to 1, exact where it is 1
EG f32 eg_logistic(f32 x) {
  f32 e = exp(-fabs(x)), d = 1.0f + e, r = eg_rcp(d);
  return (x < 0.0f ? e : 1.0f) * fma(fma(-d, r, 1.0f), r, r);
}
// x + x^3 p(x^2) near 0, else 1 - 2/(exp(2x) + 1), which is 1 where the exponential is infinite
EG f32 eg_tanh(f32 x) {
  f32 a = fabs(x), u = x * x;
  f32 p = fma(fma(0.016435949131846428f, u, -0.052670981734991074f), u, 0.13320712745189667f);
  p = fma(p, u, -0.3333294689655304f);
  f32 near = fma(p * u, a, a), far = fma(-2.0f, eg_rcp(eg_exp2(a * 2.885390081777927f) + 1.0f), 1.0f);
  return copysign(a < 0.55f ? near : far, x);
}
// 2^(|x| p(|x|)), or 2 less that: for sums of 1, to 4e-7, and to 3e-8 where it is below 0.01
EG f32 eg_erfc(f32 x) {
  f32 a = fabs(x), p = fma(-4.535860352916643e-05f, a, 0.0004455077287275344f);
  p = fma(fma(fma(p, a, -0.0014894419582560658f), a, -0.0007746291230432689f), a, 0.02825368009507656f);
  p = fma(fma(fma(p, a, -0.1484816074371338f), a, -0.9184163808822632f), a, -1.6279085874557495f);
  f32 e = eg_exp2(p * a);
  return __float_as_int(x) < 0 ? 2.0f - e : e;
}

// -- arithmetic of f16: exact and rounded once, as f32 has it that is rounded to f16; never contracted ----------------
EG ui16 eg_add_f16(ui16 a, ui16 b) { ui16 y; asm("add.rn.f16 %0, %1, %2;" : "=h"(y) : "h"(a), "h"(b)); return y; }
EG ui16 eg_subtract_f16(ui16 a, ui16 b) { ui16 y; asm("sub.rn.f16 %0, %1, %2;" : "=h"(y) : "h"(a), "h"(b)); return y; }
EG ui16 eg_multiply_f16(ui16 a, ui16 b) { ui16 y; asm("mul.rn.f16 %0, %1, %2;" : "=h"(y) : "h"(a), "h"(b)); return y; }

// -- functions of f16 and bf16: results are rounded to 11 or 8 digits -----------------------------------------------
EG f32 eg_tanh_approx(f32 x) { f32 y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }  // 2^-11 of it
EG f32 eg_exp2_approx(f32 x) { f32 y; asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }  // 2 ulp
EG f32 eg_rcp_approx(f32 x) { f32 y; asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }  // 1 ulp
EG f32 eg_div_full(f32 a, f32 b) { f32 y; asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
// f16: one step of Newton makes the quotient of f32 that of IEEE but for ties of f32; its range is small, so nothing
// overflows that is no quotient with 0 or infinity, where the step is no number
EG f32 eg_divide_f16(f32 a, f32 b) {
  f32 r = eg_rcp_approx(b), q = a * r, x = fma(fma(-q, b, a), r, q);
  return x == x ? x : q;
}
// bf16: a quotient of two numbers of 8 digits is no nearer than 2^-17 to the middle of two of them
EG f32 eg_divide_bf16(f32 a, f32 b) { return eg_div_full(a, b); }
EG f32 eg_exp_f16(f32 x) { return eg_exp2(x * 1.44269504f); }
EG f32 eg_exp_bf16(f32 x) { return eg_exp2_approx(x * 1.44269504f); }
// erf is tanh of x p(x^2)
EG f32 eg_erf_f16(f32 x) {
  f32 u = x * x;
  u = u > 16.0f ? 16.0f : u;
  return eg_tanh_approx(x * fma(fma(-0.0016163085820153356f, u, 0.10364209860563278f), u, 1.1283137798309326f));
}
EG f32 eg_erf_bf16(f32 x) { return eg_tanh_approx(x * fma(x * x, 0.10068940371274948f, 1.1287809610366821f)); }
EG f32 eg_logistic_f16(f32 x) { return eg_div_full(1.0f, 1.0f + eg_exp_f16(-x)); }
EG f32 eg_logistic_bf16(f32 x) { return eg_div_full(1.0f, 1.0f + eg_exp_bf16(-x)); }

// -- lanes: the value of the thread so far away in the warp, of which the threads of the mask take part ---------------
EG f32 eg_lane(f32 x, i32 d, ui32 all) { return __shfl_xor_sync(all, x, d); }
EG f64 eg_lane(f64 x, i32 d, ui32 all) { return __shfl_xor_sync(all, x, d); }
EG i32 eg_lane(i32 x, i32 d, ui32 all) { return __shfl_xor_sync(all, x, d); }
EG i64 eg_lane(i64 x, i32 d, ui32 all) { return __shfl_xor_sync(all, x, d); }
EG ui64 eg_lane(ui64 x, i32 d, ui32 all) { return __shfl_xor_sync(all, x, d); }
template <class T> EG T eg_lane(T x, i32 d, ui32 all) { return (T)__shfl_xor_sync(all, (i32)x, d); }

// -- integers: they wrap; x / 0 = -1, x % 0 = x, the smallest / -1 is itself ------------------------------------------
template <class T> struct eg_unsigned { typedef T type; };
template <> struct eg_unsigned<i8> { typedef ui8 type; };
template <> struct eg_unsigned<i16> { typedef ui16 type; };
template <> struct eg_unsigned<i32> { typedef ui32 type; };
template <> struct eg_unsigned<i64> { typedef ui64 type; };
#define EG_U typename eg_unsigned<T>::type
template <class T> EG T eg_int_add(T a, T b) { return (T)((EG_U)a + (EG_U)b); }
template <class T> EG T eg_int_subtract(T a, T b) { return (T)((EG_U)a - (EG_U)b); }
template <class T> EG T eg_int_multiply(T a, T b) { return (T)((ui64)(EG_U)a * (ui64)(EG_U)b); }
template <class T> EG T eg_int_negate(T a) { return (T)((EG_U)0 - (EG_U)a); }
template <class T> EG T eg_int_abs(T a) { return a < (T)0 ? eg_int_negate(a) : a; }
template <class T> EG T eg_int_sign(T a) { return (T)((a > (T)0) - (a < (T)0)); }
template <class T> EG T eg_int_divide(T a, T b) {
  if (b == (T)0) return (T)-1;
  if ((T)-1 < (T)0 && b == (T)-1) return eg_int_negate(a);
  return (T)(a / b);
}
template <class T> EG T eg_int_remainder(T a, T b) {
  if (b == (T)0) return a;
  if ((T)-1 < (T)0 && b == (T)-1) return (T)0;
  return (T)(a % b);
}
template <class T> EG T eg_shift_left(T a, T b) {
  return (EG_U)b < 8 * sizeof(T) ? (T)((ui64)(EG_U)a << (EG_U)b) : (T)0;
}
template <class T> EG T eg_shift_right_logical(T a, T b) {
  return (EG_U)b < 8 * sizeof(T) ? (T)((EG_U)a >> (EG_U)b) : (T)0;
}
template <class T> EG T eg_shift_right_arithmetic(T a, T b) {
  EG_U n = (EG_U)b < 8 * sizeof(T) ? (EG_U)b : (EG_U)(8 * sizeof(T) - 1);
  return (EG_U)a >> (8 * sizeof(T) - 1) ? (T)~((EG_U)~(EG_U)a >> n) : (T)((EG_U)a >> n);
}
template <class T> EG T eg_popcnt(T a) { return (T)__popcll((ui64)(EG_U)a); }
template <class T> EG T eg_count_leading_zeros(T a) {
  return (T)(__clzll((i64)(ui64)(EG_U)a) - (64 - 8 * (int)sizeof(T)));
}
template <class T> EG T eg_int_power(T a, T b) {
  bool signed_ = (T)-1 < (T)0;
  if (signed_ && b < (T)0) return a == (T)1 ? (T)1 : a == (T)-1 ? ((b & (T)1) ? (T)-1 : (T)1) : (T)0;
  T r = (T)1; EG_U n = (EG_U)b;
  while (n) { if (n & 1) r = eg_int_multiply(r, a); a = eg_int_multiply(a, a); n >>= 1; }
  return r;
}

// -- order and conversion -------------------------------------------------------------------------------------------
EG i32 eg_total(f32 x) { i32 b = __float_as_int(x); return b ^ (i32)((ui32)(b >> 31) >> 1); }
EG i64 eg_total(f64 x) { i64 b = __double_as_longlong(x); return b ^ (i64)((ui64)(b >> 63) >> 1); }
template <class T> EG T eg_saturate(f64 x, f64 low, f64 high, T least, T most) {
  return x != x ? (T)0 : x <= low ? least : x >= high ? most : (T)x;
}
template <class A, class B> EG B eg_bits(A a) { union { A a; B b; } both; both.a = a; return both.b; }
"""
    + TENSOR
)
