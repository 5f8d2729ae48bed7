/* Times of kernels by events of the device, which are read after the run. */
#include "abi.h"

typedef int32_t record_event(void *event, void *stream);

/* Record the first (0) or second (1) event of the pair that comes next; whether there is one. */
int32_t egs_event(struct egs_log *log, int64_t which, record_event *record, void *stream) {
    if (log->count >= log->most) {
        return 0;
    }
    record(log->events[2 * log->count + which], stream);
    return 1;
}

/* A kernel's work has been given to the stream: record the second event, and what the pair is about. */
void egs_event_end(
    struct egs_log *log, int64_t row, double bytes, double operations, record_event *record, void *stream) {
    if (egs_event(log, 1, record, stream)) {
        log->rows[log->count++] = (struct egs_log_row){row, bytes, operations};
    }
}
