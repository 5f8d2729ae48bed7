/* Whether a red zone has been written to. */
#include "abi.h"

int32_t egs_broken(const uint8_t *first, int64_t bytes) {
    for (int64_t k = 0; k < bytes; k++) {
        if (first[k] != EGS_REDZONE_PATTERN) {
            return 1;
        }
    }
    return 0;
}
