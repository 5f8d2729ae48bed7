/* Times of kernels on this processor. */
#include "abi.h"
#include "libc.h"

enum { MONOTONIC = 1 };

int64_t egs_clock(void) {
    int64_t time[2];
    clock_gettime(MONOTONIC, time);
    return time[0] * 1000000000 + time[1];
}

/* A kernel that began at `start` has run. */
void egs_record(struct egs_profile *row, int64_t start, double bytes, double operations) {
    row->nanoseconds += egs_clock() - start;
    row->calls += 1;
    row->bytes += bytes;
    row->operations += operations;
}
