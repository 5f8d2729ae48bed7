/* The hash of a key of 64-bit words. */
#ifndef EGS_HASH_H
#define EGS_HASH_H

#include <stdint.h>

static inline uint64_t hash_of(const int64_t *words, int64_t count, uint64_t seed) {
    for (int64_t k = 0; k < count; k++) {
        seed = (seed ^ (uint64_t)words[k]) * 0x9E3779B97F4A7C15u; /* 2**64 divided by the golden ratio */
        seed ^= seed >> 29;
    }
    return seed;
}

#endif
