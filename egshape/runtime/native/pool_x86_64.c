#include "pool.h"

const int64_t egs_futex = 202;
const int32_t egs_looks = 20000;

void egs_pause(void) { __builtin_ia32_pause(); }
