// A machine that runs printed CUDA C++ on this processor: blocks one after the other, the threads of a block as fibers
// that really wait for each other at barriers. See text.py.
//
// Faults (an access outside of a buffer or not aligned, a shift too far, an overflow, a barrier that some threads miss)
// stop the launch with a message.

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>

struct Dim3 { unsigned x, y, z; };
static Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace machine {

const unsigned WARP = 32, MOST_THREADS = 1024;
const size_t STACK = 512 << 10, PAGE = 4096;

enum State { READY, AT_BLOCK, AT_WARP, DONE };

struct Fiber {
  jmp_buf here;
  ucontext_t first;
  State state;
  bool made;
  unsigned mask;          // the lanes that it waits for
  int line;               // where it waits
  unsigned char slot[64];  // what other lanes read
};

struct Region { char *pages, *data; size_t length, bytes; bool read_only; int number; };

static Fiber fibers[MOST_THREADS];
static jmp_buf scheduler, launched;
static unsigned current;
static char *message;
static size_t room;
static char *stacks;
static Region regions[256];
static int region_count;
static const void *arguments;
static void (*body)(const void *);
static uint64_t seed;
static char *dynamic_shared;

[[noreturn]] static void fail(const char *what, const char *detail, int line) {
  snprintf(message, room, "line %d: thread %u of block %u: %s%s", line, current, blockIdx.x, what, detail);
  _longjmp(launched, 1);
}

static uint64_t random_number() {
  seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
  return seed * 0x2545F4914F6CDD1Dull;
}

// -- fibers ---------------------------------------------------------------------------------------------------------

static void fiber_main() {
  for (;;) {
    body(arguments);
    fibers[current].state = DONE;
    if (!_setjmp(fibers[current].here)) _longjmp(scheduler, 1);
  }
}

static void resume(unsigned thread) {
  Fiber &fiber = fibers[thread];
  current = thread;
  threadIdx.x = thread;
  if (_setjmp(scheduler)) return;
  if (fiber.made) _longjmp(fiber.here, 1);
  fiber.made = true;
  getcontext(&fiber.first);
  fiber.first.uc_stack.ss_sp = stacks + thread * STACK + PAGE;
  fiber.first.uc_stack.ss_size = STACK - PAGE;
  fiber.first.uc_link = nullptr;
  makecontext(&fiber.first, fiber_main, 0);
  setcontext(&fiber.first);
}

static void pause(State state, unsigned mask, int line) {
  Fiber &fiber = fibers[current];
  fiber.state = state; fiber.mask = mask; fiber.line = line;
  if (!_setjmp(fiber.here)) _longjmp(scheduler, 1);
}

static unsigned warp_threads(unsigned warp) {
  unsigned left = blockDim.x - warp * WARP;
  return left < WARP ? left : WARP;
}

static void wait_block(int line) { pause(AT_BLOCK, 0, line); }

static void wait_warp(unsigned mask, int line) {
  if (!(mask >> current % WARP & 1)) fail("waits for lanes of which it is none", "", line);
  pause(AT_WARP, mask, line);
}

// -- barriers -------------------------------------------------------------------------------------------------------

static bool release_warp(unsigned warp) {
  unsigned first = warp * WARP, count = warp_threads(warp);
  bool released = false;
  for (unsigned lane = 0; lane < count; ++lane) {
    Fiber &fiber = fibers[first + lane];
    if (fiber.state != AT_WARP) continue;
    bool all = true;
    for (unsigned other = 0; other < count; ++other) {
      Fiber &each = fibers[first + other];
      if (fiber.mask >> other & 1)
        all = all && each.state == AT_WARP && each.mask == fiber.mask && each.line == fiber.line;
    }
    if (!all) continue;
    unsigned mask = fiber.mask;
    for (unsigned other = 0; other < count; ++other) if (mask >> other & 1) fibers[first + other].state = READY;
    released = true;
  }
  return released;
}

static bool release_block() {
  for (unsigned k = 0; k < blockDim.x; ++k)
    if (fibers[k].state != AT_BLOCK || fibers[k].line != fibers[0].line) return false;
  for (unsigned k = 0; k < blockDim.x; ++k) fibers[k].state = READY;
  return true;
}

static void stuck() {
  char detail[160];
  for (unsigned k = 0; k < blockDim.x; ++k) {
    if (fibers[k].state == DONE) continue;
    for (unsigned other = 0; other < blockDim.x; ++other) {
      if (fibers[other].state == fibers[k].state && fibers[other].line == fibers[k].line) continue;
      if (fibers[k].state == AT_WARP && other / WARP != k / WARP) continue;
      current = k;
      snprintf(detail, sizeof detail, "; thread %u %s %d", other,
               fibers[other].state == DONE ? "has ended, not at" : "waits at line",
               fibers[other].state == DONE ? fibers[k].line : fibers[other].line);
      fail("divergent barrier", detail, fibers[k].line);
    }
  }
  fail("divergent barrier", "", fibers[0].line);
}

// Lets the lanes of a warp run to where they wait: all in order, or some in any order.
static void run_lanes(unsigned warp, int order) {
  unsigned count = warp_threads(warp), first = warp * WARP;
  unsigned part = order == 2 ? 1 + random_number() % count : count, start = order == 2 ? random_number() % count : 0;
  for (unsigned k = 0; k < count && part; ++k) {
    unsigned thread = first + (order == 1 ? count - 1 - k : (k + start) % count);
    if (fibers[thread].state == READY) { resume(thread); --part; }
  }
}

// The threads of a block from barrier to barrier: 0 forward, 1 backward, 2 random. In order, a warp goes on as far as it
// can before another one begins: whatever only waits for its own warp runs ahead of what others store.
static void run_block(int order) {
  unsigned count = blockDim.x, warps = (count + WARP - 1) / WARP;
  for (unsigned k = 0; k < count; ++k) fibers[k].state = READY;
  for (;;) {
    for (unsigned k = 0; k < warps; ++k) {
      unsigned warp = order == 1 ? warps - 1 - k : order == 2 ? random_number() % warps : k;
      do run_lanes(warp, order); while (release_warp(warp) && order != 2);
    }
    bool ready = false, done = true;
    for (unsigned k = 0; k < count; ++k) {
      ready = ready || fibers[k].state == READY;
      done = done && fibers[k].state == DONE;
    }
    if (done) return;
    if (!ready && !release_block()) stuck();
  }
}

// -- memory ---------------------------------------------------------------------------------------------------------

// A copy of a buffer with pages around it that cannot be touched: it ends (or begins) at one of them, up to 15 bytes
// that keep it aligned to 16 bytes, as a device's buffers are.
static char *guarded(const void *source, size_t bytes, bool read_only, int number, bool at_end) {
  size_t whole = (bytes + PAGE - 1) / PAGE * PAGE, length = whole + 2 * PAGE;
  char *pages = (char *)mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || region_count == 256) fail("has no memory for its buffers", "", 0);
  char *data = pages + PAGE + (at_end ? whole - (bytes + 15) / 16 * 16 : 0);
  if (whole) {
    mprotect(pages + PAGE, whole, PROT_READ | PROT_WRITE);
    memset(pages + PAGE, 0xFF, whole);
    if (source) memcpy(data, source, bytes);
    if (read_only) mprotect(pages + PAGE, whole, PROT_READ);
  }
  regions[region_count++] = {pages, data, length, bytes, read_only, number};
  return data;
}

static void check_zones(const Region &region) {
  char detail[96];
  const unsigned char *first = (unsigned char *)region.pages + PAGE, *data = (unsigned char *)region.data;
  for (const unsigned char *at = first, *end = (unsigned char *)region.pages + region.length - PAGE; at < end; ++at) {
    if (*at == 0xFF || (at >= data && at < data + region.bytes)) continue;
    snprintf(detail, sizeof detail, "%ld of its %zu bytes", (long)(at - data), region.bytes);
    snprintf(message, room, "line 0: b%d is written at byte %s", region.number, detail);
    _longjmp(launched, 1);
  }
}

static void on_signal(int number, siginfo_t *info, void *) {
  char *address = (char *)info->si_addr, detail[160];
  for (int k = 0; number == SIGSEGV && k < region_count; ++k) {
    const Region &region = regions[k];
    if (address < region.pages || address >= region.pages + region.length) continue;
    bool inside = address >= region.data && address < region.data + region.bytes;
    char name[24] = "memory of the block";
    if (region.number >= 0) snprintf(name, sizeof name, "b%d", region.number);
    snprintf(detail, sizeof detail, "%s at byte %ld of its %zu bytes", name, (long)(address - region.data),
             region.bytes);
    fail(inside ? "writes what is const, " : "touches ", detail, 0);
  }
  snprintf(detail, sizeof detail, "signal %d at %p", number, (void *)address);
  fail(number == SIGSEGV && address >= stacks && address < stacks + MOST_THREADS * STACK ? "too deep a stack, " : "",
       detail, 0);
}

// -- launches -------------------------------------------------------------------------------------------------------

struct Kernel { void (*body)(const void *); char *shared, *shared_end; };

// A kernel called with its parameters where the driver would find them.
template <class F, F &f> struct Caller;
template <class... A, void (&f)(A...)> struct Caller<void(A...), f> {
  template <size_t... I> static void each(void *const *words, std::index_sequence<I...>) { f(*(A *)words[I]...); }
  static void call(const void *words) { each((void *const *)words, std::index_sequence_for<A...>()); }
};

struct Argument { void *value; int64_t bytes; int32_t kind; };  // kind 0: a number, 1: a buffer, 2: one that is const

// Bytes of shared memory that a kernel may declare, and that a block may have on sm_80, the smallest that is compiled for.
const long MOST_DECLARED = 48 << 10, MOST_SHARED = 163 << 10;

static void run(const Kernel &kernel, const Argument *given, int count, unsigned blocks, unsigned threads,
                unsigned dynamic, int order) {
  long declared = kernel.shared_end - kernel.shared;
  if (declared > MOST_DECLARED || declared + dynamic > MOST_SHARED) fail("more shared memory than there is", "", 0);
  if (!threads || threads > MOST_THREADS || blocks > 0x7fffffffu) fail("more threads or blocks than there may be", "", 0);
  static void *words[256], *pointers[256];
  for (int k = 0; k < count; ++k) {
    pointers[k] = given[k].value;
    if (given[k].kind && given[k].bytes >= 0)
      pointers[k] = guarded(given[k].value, given[k].bytes, given[k].kind == 2, k, order != 1);
    words[k] = &pointers[k];
  }
  dynamic_shared = dynamic ? guarded(nullptr, dynamic, false, -1, true) : nullptr;
  arguments = words;
  body = kernel.body;
  gridDim = {blocks, 1, 1}; blockDim = {threads, 1, 1};
  threadIdx = {0, 0, 0};
  uint64_t start = order == 2 ? random_number() % blocks : 0;
  for (unsigned k = 0; k < blocks; ++k) {
    blockIdx = {order == 1 ? blocks - 1 - k : order == 2 ? (unsigned)((k + start) % blocks) : k, 0, 0};
    if (kernel.shared) memset(kernel.shared, 0xFF, kernel.shared_end - kernel.shared);
    if (dynamic) memset(dynamic_shared, 0xFF, dynamic);
    run_block(order);
  }
  for (int k = 0; k < region_count; ++k) {
    if (!regions[k].read_only && regions[k].number >= 0) {
      check_zones(regions[k]);
      memcpy(given[regions[k].number].value, regions[k].data, regions[k].bytes);
    }
  }
}

static int launch(const Kernel &kernel, const Argument *given, int count, unsigned blocks, unsigned threads,
                  unsigned dynamic, int order, uint64_t start, char *room_for_stacks, char *text, size_t text_room) {
  static char *signal_stack = new char[64 << 10];
  message = text; room = text_room; seed = start | 1;
  stacks = room_for_stacks;
  for (Fiber &each : fibers) each.made = false;  // what other units run lies on the same stacks
  const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  struct sigaction now = {}, before[4];
  now.sa_sigaction = on_signal;
  now.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  stack_t apart = {}, old = {};
  apart.ss_sp = signal_stack; apart.ss_size = 64 << 10;
  sigaltstack(&apart, &old);
  for (int k = 0; k < 4; ++k) sigaction(caught[k], &now, &before[k]);
  region_count = 0;
  int failed = _setjmp(launched);
  if (!failed) run(kernel, given, count, blocks, threads, dynamic, order);
  for (int k = 0; k < region_count; ++k) munmap(regions[k].pages, regions[k].length);
  for (int k = 0; k < 4; ++k) sigaction(caught[k], &before[k], nullptr);
  sigaltstack(&old, nullptr);
  return failed;
}

}  // namespace machine

// -- what the compiler calls where it finds undefined behaviour; each gets the place first ----------------------------

struct Place { const char *file; uint32_t line, column; };
#define EG_FOUND(NAME, WHAT)                                                                                          \
  extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_##NAME##_abort(Place *place) {                  \
    bool printed = !strstr(place->file, "text_");                                                                      \
    machine::fail(WHAT, printed ? "" : " in the machine's own code", printed ? place->line : 0);                       \
  }
EG_FOUND(type_mismatch_v1, "an access that is not aligned, null or outside of an array")
EG_FOUND(add_overflow, "a sum overflows")
EG_FOUND(sub_overflow, "a difference overflows")
EG_FOUND(mul_overflow, "a product overflows")
EG_FOUND(negate_overflow, "a negation overflows")
EG_FOUND(divrem_overflow, "a division by 0, or one that overflows")
EG_FOUND(shift_out_of_bounds, "a shift by too much or of a number below 0")
EG_FOUND(out_of_bounds, "an index outside of an array")
EG_FOUND(float_cast_overflow, "a float that does not fit the integer it becomes")
EG_FOUND(load_invalid_value, "a bool that is neither 0 nor 1")
EG_FOUND(pointer_overflow, "an address that wraps")
EG_FOUND(nonnull_arg, "a null argument")
EG_FOUND(invalid_builtin, "a count of zeros of 0")
