// The words of CUDA C++ that printed kernels use, for text_machine.h: written from the CUDA programming guide and the
// PTX ISA, not from the printer.

#define __global__
#define __device__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(N) __attribute__((aligned(N)))
#define __restrict__

struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(8) float2 { float x, y; };
struct __align__(16) float4 { float x, y, z, w; };

// -- threads that meet ------------------------------------------------------------------------------------------------

#define __syncthreads() machine::wait_block(__LINE__)
#define EG_ALL 0xffffffffu
#define EG_SYNCWARP(MASK, ...) machine::wait_warp(MASK, __LINE__)
#define __syncwarp(...) EG_SYNCWARP(__VA_ARGS__ __VA_OPT__(,) EG_ALL)

namespace machine {

// What lanes of a mask give each other: each writes its own value, all meet, each reads what it wants, all meet again.
template <class T> static void give(unsigned mask, T value, int line) {
  static_assert(sizeof(T) <= sizeof fibers[0].slot, "a value of a lane");
  memcpy(fibers[current].slot, &value, sizeof value);
  wait_warp(mask, line);
}
template <class T> static T of_lane(unsigned mask, unsigned lane, int line) {
  unsigned thread = current / WARP * WARP + lane;
  if (lane >= WARP || !(mask >> lane & 1) || thread >= blockDim.x) fail("reads a lane that is not there", "", line);
  T value;
  memcpy(&value, fibers[thread].slot, sizeof value);
  return value;
}
static void taken(unsigned mask, int line) { wait_warp(mask, -line); }

// Lanes are exchanged within sections of `width`; what would lie outside of its section is a lane's own.
template <class T> static T shuffled(unsigned mask, T value, int lane, int width, int line) {
  give(mask, value, line);
  int own = current % WARP, first = own / width * width;
  T found = of_lane<T>(mask, lane < first || lane >= first + width ? own : lane, line);
  taken(mask, line);
  return found;
}
static int lane() { return current % WARP; }
static unsigned votes(unsigned mask, bool yes, int line) {
  give(mask, yes, line);
  unsigned found = 0;
  for (unsigned each = 0; each < warp_threads(current / WARP); ++each)
    if (mask >> each & 1) found |= (unsigned)of_lane<bool>(mask, each, line) << each;
  taken(mask, line);
  return found;
}

}  // namespace machine

template <class T> static T eg_xor(unsigned m, T v, int x, int w, int l) {
  return machine::shuffled(m, v, machine::lane() ^ x, w, l);
}
template <class T> static T eg_from(unsigned m, T v, int x, int w, int l) {
  return machine::shuffled(m, v, machine::lane() / w * w + (x & (w - 1)), w, l);
}
template <class T> static T eg_down(unsigned m, T v, int x, int w, int l) {
  return machine::shuffled(m, v, machine::lane() + x, w, l);
}
template <class T> static T eg_up(unsigned m, T v, int x, int w, int l) {
  return machine::shuffled(m, v, machine::lane() - x, w, l);
}
#define EG_SHUFFLE(HOW, M, V, X, W, ...) HOW(M, V, X, W, __LINE__)
#define __shfl_xor_sync(M, V, ...) EG_SHUFFLE(eg_xor, M, V, __VA_ARGS__, 32, 0)
#define __shfl_sync(M, V, ...) EG_SHUFFLE(eg_from, M, V, __VA_ARGS__, 32, 0)
#define __shfl_down_sync(M, V, ...) EG_SHUFFLE(eg_down, M, V, __VA_ARGS__, 32, 0)
#define __shfl_up_sync(M, V, ...) EG_SHUFFLE(eg_up, M, V, __VA_ARGS__, 32, 0)
#define __ballot_sync(M, P) machine::votes(M, (P) != 0, __LINE__)
#define __any_sync(M, P) (machine::votes(M, (P) != 0, __LINE__) != 0)

// What the compiler is told must hold.
#define __builtin_assume(HOLDS) ((HOLDS) ? (void)0 : machine::fail("what is assumed does not hold", "", __LINE__))

// -- numbers ----------------------------------------------------------------------------------------------------------

template <class B, class A> static B eg_same_bits(A a) {
  static_assert(sizeof(A) == sizeof(B), "bits of another type");
  B b;
  memcpy(&b, &a, sizeof b);
  return b;
}
static int __float_as_int(float x) { return eg_same_bits<int>(x); }
static unsigned __float_as_uint(float x) { return eg_same_bits<unsigned>(x); }
static float __int_as_float(int x) { return eg_same_bits<float>(x); }
static float __uint_as_float(unsigned x) { return eg_same_bits<float>(x); }
static long long __double_as_longlong(double x) { return eg_same_bits<long long>(x); }
static double __longlong_as_double(long long x) { return eg_same_bits<double>(x); }
static int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static int __ffs(int x) { return __builtin_ffs(x); }

// The inverse of erf: an estimate, then Newton's steps on erf or, near the ends, on erfc, which keeps its digits there.
static double erfinv(double y) {
  if (!(fabs(y) < 1)) return fabs(y) == 1 ? y * HUGE_VAL : NAN;
  if (y == 0) return y;
  double u = log1p(-y * y), v = 4.3307467508 + u / 2, x = copysign(sqrt(sqrt(v * v - u / 0.147) - v), y);
  for (int k = 0; k < 6; ++k) {
    double wrong = fabs(y) > 0.5 ? (y < 0 ? -1 : 1) * ((1 - fabs(y)) - erfc(fabs(x))) : erf(x) - y;
    x -= wrong * 0.88622692545275801 * exp(x * x);
  }
  return x;
}
static float erfinv(float y) { return (float)erfinv((double)y); }

// -- what the prelude writes in assembly ------------------------------------------------------------------------------

// cvt.f32.f16: exact; a NaN stays one.
static float eg_load_f16(unsigned short x) {
  unsigned exponent = x >> 10 & 31, fraction = x & 1023;
  float size = exponent == 31 ? (fraction ? NAN : HUGE_VALF) : ldexpf(exponent ? fraction + 1024 : fraction,
                                                                       exponent ? (int)exponent - 25 : -24);
  return copysignf(size, x >> 15 ? -1.0f : 1.0f);
}

// cvt.rn.f16.f32: to the nearest, ties to even; what is beyond the largest is infinite.
static unsigned short eg_store_f16(float x) {
  unsigned sign = __float_as_uint(x) >> 31 << 15;
  if (x != x) return 0x7fff;
  float size = fabsf(x);
  if (size >= 65520.0f) return sign | 0x7c00;
  int exponent;
  frexpf(size, &exponent);
  if (size < ldexpf(1, -14)) return sign | (unsigned short)nearbyintf(ldexpf(size, 24));
  float units = nearbyintf(ldexpf(size, 11 - exponent));  // 1024 .. 2048
  return sign + ((exponent + 14) << 10) + ((unsigned)units - 1024);
}

// add.rn.f16 and the like: f32 has more than twice the digits and two, so that rounding twice is rounding once.
static unsigned short eg_add_f16(unsigned short a, unsigned short b) {
  return eg_store_f16(eg_load_f16(a) + eg_load_f16(b));
}
static unsigned short eg_subtract_f16(unsigned short a, unsigned short b) {
  return eg_store_f16(eg_load_f16(a) - eg_load_f16(b));
}
static unsigned short eg_multiply_f16(unsigned short a, unsigned short b) {
  return eg_store_f16(eg_load_f16(a) * eg_load_f16(b));
}

// cvt.rn.bf16.f32: to the nearest, ties to even.
static unsigned short eg_store_bf16(float x) {
  if (x != x) return 0x7fff;
  unsigned bits = __float_as_uint(x), low = bits & 0xffff, high = bits >> 16;
  return high + (low > 0x8000 || (low == 0x8000 && high % 2));
}
static float eg_of_bf16(unsigned short x) { return __uint_as_float((unsigned)x << 16); }

// max.NaN, min.NaN: NaN if one of both is, and -0 is less than +0.
static float eg_max_f32(float a, float b) {
  if (a != a || b != b) return __uint_as_float(0x7fffffff);
  return a == b ? (signbit(a) ? b : a) : a < b ? b : a;
}
static float eg_min_f32(float a, float b) {
  if (a != a || b != b) return __uint_as_float(0x7fffffff);
  return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static float eg_round_bf16(float x) { return eg_of_bf16(eg_store_bf16(x)); }

// What PTX leaves open: a result is so far from the exact one as the ISA allows, up or down as the bits of the operand
// have it, so that what holds here holds whatever a device does. 0, infinity and NaN are exact.
namespace approximate {
static bool up(float x) { return (__float_as_uint(x) * 2654435761u) >> 31; }
static float off(double exact, double relative, float by) {
  if (!(fabs(exact) > 0) || fabs(exact) > 3.4028234e38) return (float)exact;
  float near = (float)(exact * (up(by) ? 1 + relative : 1 - relative));
  return fabsf(near) > 3.4028234e38f ? (float)exact : near;
}
}
// tanh.approx.f32: 2^-11 of it; what is 1 stays at most 1.
static float eg_tanh_approx(float x) {
  float y = approximate::off(tanh((double)x), 0x1p-11, x);
  return y > 1 ? 1 : y < -1 ? -1 : y;
}
// ex2.approx.ftz: what is below the smallest normal number counts as 0, and so does such a result.
static float eg_exp2(float x) {
  float y = approximate::off(exp2((double)(x != x || fabsf(x) >= 1.17549435e-38f ? x : 0.0f)), 0x1p-22, x);
  return y < 1.17549435e-38f ? 0.0f : y;
}
static float eg_exp2_approx(float x) { return approximate::off(exp2((double)x), 0x1p-22, x); }
static float eg_rcp_approx(float x) { return approximate::off(1 / (double)x, 0x1p-23, x); }
// rcp.approx.ftz: the same of what is below the smallest normal number.
static float eg_rcp(float x) {
  float y = eg_rcp_approx(fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x);
  return fabsf(y) < 1.17549435e-38f ? copysignf(0.0f, y) : y;
}
// rsqrt.approx.f32: 2^-22.4.
static float eg_rsqrt_approx(float x) {
  return x == 0 ? copysignf(HUGE_VALF, x) : approximate::off(1 / sqrt((double)x), 0x1.84p-23, x);
}
// div.full.f32: 2 ulp.
static float eg_div_full(float a, float b) { return approximate::off((double)a / (double)b, 0x1p-22, a + b); }

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half.
static unsigned eg_pack_f16(float low, float high) { return (unsigned)eg_store_f16(high) << 16 | eg_store_f16(low); }
static unsigned eg_pack_bf16(float low, float high) { return (unsigned)eg_store_bf16(high) << 16 | eg_store_bf16(low); }

namespace machine {

// Where lanes meet that is no line of the text.
enum { LOAD = 1 << 24, LOAD_TURNED, PRODUCT_F16, PRODUCT_BF16 };

// All threads of a warp do it.
static void whole_warp(const char *what) {
  if (warp_threads(current / WARP) != WARP) fail(what, " in a warp that is not whole", 0);
}

// ldmatrix .m8n8.x4: lane 8q + l has the address of line l of matrix q, 8 elements of 16 bits aligned to 16 bytes. Each
// lane gets, of matrix q in register q, elements 2c and 2c + 1 of line r, where c is its number modulo 4 and r the
// quotient; with .trans, element r of lines 2c and 2c + 1.
static void load_matrices(unsigned *to, const unsigned short *line, bool turned) {
  whole_warp("ldmatrix");
  if ((uintptr_t)line % 16) fail("ldmatrix of a line that is not aligned to 16 bytes", "", 0);
  give(~0u, line, turned ? LOAD_TURNED : LOAD);
  unsigned r = lane() / 4, c = lane() % 4;
  for (unsigned q = 0; q < 4; ++q) {
    unsigned low, high;
    if (turned) {
      low = of_lane<const unsigned short *>(~0u, 8 * q + 2 * c, 0)[r];
      high = of_lane<const unsigned short *>(~0u, 8 * q + 2 * c + 1, 0)[r];
    } else {
      const unsigned short *of = of_lane<const unsigned short *>(~0u, 8 * q + r, 0);
      low = of[2 * c]; high = of[2 * c + 1];
    }
    to[q] = high << 16 | low;
  }
  taken(~0u, turned ? LOAD_TURNED : LOAD);
}

struct Sides { unsigned a[4], b[2]; };

static float half_of(unsigned pair, unsigned number, bool brain) {
  unsigned short bits = number ? pair >> 16 : pair & 0xffff;
  return brain ? eg_of_bf16(bits) : eg_load_f16(bits);
}

// mma.m16n8k16 with sums of f32. With g = lane / 4 and t = lane % 4: pair p of A holds row g + 8 (p % 2), columns
// 2t + 8 (p / 2) and the next; pair p of B rows 2t + 8p and the next of column g; element e of C row g + 8 (e / 2),
// column 2t + e % 2.
static void product(float *sums, const unsigned *a, const unsigned *b, bool brain) {
  whole_warp("mma");
  Sides own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  give(~0u, own, brain ? PRODUCT_BF16 : PRODUCT_F16);
  unsigned g = lane() / 4, t = lane() % 4;
  for (unsigned e = 0; e < 4; ++e) {
    double sum = sums[e];
    for (unsigned k = 0; k < 16; ++k) {
      unsigned by = k % 8 / 2, row = g + 8 * (e / 2), column = 2 * t + e % 2;
      Sides left = of_lane<Sides>(~0u, row % 8 * 4 + by, 0), right = of_lane<Sides>(~0u, column * 4 + by, 0);
      sum += (double)half_of(left.a[row / 8 + 2 * (k / 8)], k % 2, brain) * half_of(right.b[k / 8], k % 2, brain);
    }
    sums[e] = (float)sum;
  }
  taken(~0u, brain ? PRODUCT_BF16 : PRODUCT_F16);
}

// cp.async of 16 bytes: until the thread waits, what it copies to is no number
const unsigned MOST_COPIES = 64;
struct Copy { void *to; const void *from; };
static Copy copies[MOST_THREADS][MOST_COPIES];
static unsigned copying[MOST_THREADS];

static void ahead(void *to, const void *from, bool inside) {
  if ((uintptr_t)to % 16 || (inside && (uintptr_t)from % 16)) fail("cp.async of what is not aligned to 16 bytes", "", 0);
  if (copying[current] == MOST_COPIES) fail("more copies on their way than are waited for", "", 0);
  memset(to, 0xff, 16);
  copies[current][copying[current]++] = {to, inside ? from : nullptr};
}

static void landed() {
  for (unsigned k = 0; k < copying[current]; ++k) {
    const Copy &copy = copies[current][k];
    if (copy.from) memcpy(copy.to, copy.from, 16); else memset(copy.to, 0, 16);
  }
  copying[current] = 0;
}

}  // namespace machine

static void eg_ahead(void *to, const void *from, bool inside) { machine::ahead(to, from, inside); }
static void eg_landed() { machine::landed(); }
static void eg_ldmatrix(unsigned *to, const unsigned short *line) { machine::load_matrices(to, line, false); }
static void eg_ldmatrix_trans(unsigned *to, const unsigned short *line) { machine::load_matrices(to, line, true); }
static void eg_mma_f16(float *d, const unsigned *a, const unsigned *b) { machine::product(d, a, b, false); }
static void eg_mma_bf16(float *d, const unsigned *a, const unsigned *b) { machine::product(d, a, b, true); }
