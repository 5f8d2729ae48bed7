/* Memory of the C library. Large pieces ask for huge pages: images of some megabytes are read along many lines at once,
   and took a tenth longer by pages of 4 KB. */
#include "abi.h"
#include "libc.h"

enum { HUGE_PAGE = 2 << 20, ASK_FOR_HUGE_PAGES = 14 /* MADV_HUGEPAGE on Linux */ };

void *egs_memory(int64_t bytes) {
    if ((uint64_t)bytes < 2 * (uint64_t)HUGE_PAGE) {
        return aligned_alloc(EGS_ALIGN, (size_t)bytes);
    }
    size_t whole = ((size_t)bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *found = aligned_alloc(HUGE_PAGE, whole);
    if (found) {
        madvise(found, whole, ASK_FOR_HUGE_PAGES);
    }
    return found;
}
