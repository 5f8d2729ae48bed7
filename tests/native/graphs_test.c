/* The cache of graphs beside a plain list that does the same, over random keys; every table in memory of just its size. */
#include "abi.h"
#include "harness.h"

struct egs_graph_row *egs_graph_row(struct egs_graphs *graphs, const int64_t *key, int32_t (*exec_free)(void *));

enum { MOST_ROWS = 8, KEYS = 40, STEPS = 20000 };
static int64_t held[KEYS + 1]; /* how often the graph of a key is alive */

static int32_t dropped(void *graph) {
    int64_t key = (int64_t)(intptr_t)graph;
    CHECK(key > 0 && key <= KEYS && held[key] == 1);
    held[key] = 0;
    return 0;
}

static void run(int64_t rows, int64_t words) {
    size_t stride = sizeof(struct egs_graph_row) + 8 * (size_t)words;
    struct egs_graphs *graphs =
        calloc(1, sizeof *graphs + (size_t)rows * stride + 8 * (size_t)EGS_GRAPH_SEEN);
    int64_t *key = calloc((size_t)words + 1, 8), used[KEYS + 1] = {0}, alive = 0, clock = 0;
    int32_t seen[KEYS + 1] = {0};
    graphs->count = rows;
    graphs->words = words;
    memset(held, 0, sizeof held);
    for (int step = 0; step < STEPS; step++) {
        int64_t number = step % 97 < 60 ? 1 + rand() % (rows ? rows : 1) : 1 + rand() % KEYS;
        key[words - 1] = number;
        clock++;
        struct egs_graph_row *row = egs_graph_row(graphs, key, dropped);
        int64_t oldest = 0;
        for (int64_t k = 1; k <= KEYS; k++) {
            oldest = used[k] && (!oldest || used[k] < used[oldest]) ? k : oldest;
        }
        if (used[number]) {
            CHECK(row && row->graph == (void *)(intptr_t)number);
        } else if (!seen[number] || !rows || (alive == rows && clock - used[oldest] <= EGS_GRAPH_LIVE * rows)) {
            CHECK(!row);
        } else {
            CHECK(row && !row->graph && !memcmp(row + 1, key, 8 * (size_t)words));
            if (alive == rows) {
                CHECK(!held[oldest]);
                used[oldest] = 0;
            } else {
                alive++;
            }
            row->graph = (void *)(intptr_t)number;
            held[number] = 1;
        }
        used[number] = row ? clock : 0;
        seen[number] = 1; /* fewer keys than sets: none is forgotten, but for four of one set */
    }
    free(key);
    free(graphs);
}

int main(void) {
    for (int64_t rows = 0; rows <= MOST_ROWS; rows++) {
        run(rows, 1);
        run(rows, 9);
    }
    return 0;
}
