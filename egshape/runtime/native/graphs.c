/* The graphs that a device captured.

   A key that is seen for the first time leaves its hash behind, and nothing else: sizes that never come again push no
   graph out. The second time it gets the row that was used the longest ago, but not one that was used lately, else more
   sizes in turn than there are rows would be captured at each call. */
#include "abi.h"
#include "hash.h"
#include "libc.h"

/* Whether a hash was seen before; else it stands in front of the others of its set, the last of which goes. */
static int32_t seen_before(int64_t *seen, int64_t hash) {
    int64_t *set = seen + (hash & (EGS_GRAPH_SEEN - EGS_GRAPH_WAYS));
    for (int k = 0; k < EGS_GRAPH_WAYS; k++) {
        if (set[k] == hash) {
            return 1;
        }
    }
    for (int k = EGS_GRAPH_WAYS - 1; k > 0; k--) {
        set[k] = set[k - 1];
    }
    set[0] = hash;
    return 0;
}

/* The row of a key: its graph is launched, or captured into it. NULL: neither. */
struct egs_graph_row *egs_graph_row(struct egs_graphs *graphs, const int64_t *key, int32_t (*exec_free)(void *)) {
    int64_t clock = ++graphs->clock, bytes = 8 * graphs->words;
    int64_t stride = (int64_t)(sizeof(struct egs_graph_row) / 8) + graphs->words;
    int64_t *rows = (int64_t *)(graphs + 1), hash = (int64_t)hash_of(key, graphs->words, 1);
    hash = hash ? hash : 1; /* 0 is what a place holds that no hash has been put to */
    struct egs_graph_row *oldest = NULL;
    for (int64_t k = 0; k < graphs->count; k++) {
        struct egs_graph_row *row = (struct egs_graph_row *)(rows + k * stride);
        if (row->hash == hash && row->used && !memcmp(row + 1, key, (size_t)bytes)) {
            row->used = clock;
            return row;
        }
        if (!oldest || row->used < oldest->used) {
            oldest = row;
        }
    }
    int32_t again = seen_before(rows + graphs->count * stride, hash);
    if (!again || !oldest || (oldest->used && clock - oldest->used <= EGS_GRAPH_LIVE * graphs->count)) {
        return NULL;
    }
    if (oldest->graph) {
        exec_free(oldest->graph);
    }
    *oldest = (struct egs_graph_row){.used = clock, .hash = hash};
    memcpy(oldest + 1, key, (size_t)bytes);
    return oldest;
}
