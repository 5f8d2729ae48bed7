/* Times, events and red zones. */
#include "abi.h"
#include "harness.h"

int32_t egs_broken(const uint8_t *first, int64_t bytes);
int64_t egs_clock(void);
void egs_record(struct egs_profile *row, int64_t start, double bytes, double operations);
typedef int32_t record_event(void *event, void *stream);
int32_t egs_event(struct egs_log *log, int64_t which, record_event *record, void *stream);
void egs_event_end(struct egs_log *log, int64_t row, double bytes, double operations, record_event *record, void *stream);
void *egs_memory(int64_t bytes);

static void *last;
static int32_t record(void *event, void *stream) {
    CHECK(stream == &last);
    last = event;
    return 0;
}

int main(void) {
    for (int64_t bytes = 0; bytes < 70; bytes++) {
        uint8_t *zone = malloc((size_t)bytes + !bytes);
        memset(zone, EGS_REDZONE_PATTERN, (size_t)bytes);
        CHECK(!egs_broken(zone, bytes));
        for (int64_t k = 0; k < bytes; k++) {
            zone[k] ^= 1;
            CHECK(egs_broken(zone, bytes) == 1);
            zone[k] ^= 1;
        }
        free(zone);
    }
    struct egs_profile row = {0};
    egs_record(&row, egs_clock() - 1000, 8, 2);
    egs_record(&row, egs_clock(), 8, 2);
    CHECK(row.calls == 2 && row.nanoseconds >= 1000 && row.bytes == 16 && row.operations == 4);
    char marks[4];
    void *events[4] = {marks, marks + 1, marks + 2, marks + 3};
    struct egs_log_row rows[2];
    struct egs_log log = {.most = 2, .events = events, .rows = rows};
    for (int64_t k = 0; k < 4; k++) { /* the last two find no room */
        CHECK(egs_event(&log, 0, record, &last) == (k < 2));
        CHECK(last == events[k < 2 ? 2 * k : 3]);
        egs_event_end(&log, 10 + k, 1, 2, record, &last);
        CHECK(last == events[k < 2 ? 2 * k + 1 : 3] && log.count == (k < 2 ? k + 1 : 2));
    }
    CHECK(rows[1].row == 11 && rows[1].bytes == 1 && rows[1].operations == 2);
    for (int64_t bytes = 64; bytes < 16 << 20; bytes *= 3) {
        int64_t whole = (bytes + 63) / 64 * 64;
        char *found = egs_memory(whole);
        CHECK(found && (uintptr_t)found % EGS_ALIGN == 0);
        found[0] = found[whole - 1] = 1;
        free(found);
    }
    return 0;
}
