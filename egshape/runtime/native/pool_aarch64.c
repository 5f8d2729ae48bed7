#include "pool.h"

const int64_t egs_futex = 98;
const int32_t egs_looks = 4000;

#ifdef __clang__
void egs_pause(void) { __builtin_arm_yield(); }
#else
void egs_pause(void) { __asm__ volatile("yield"); }
#endif
