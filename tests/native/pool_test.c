/* Every index once, whatever the chunks, the threads and how many callers there are. argv: threads, callers. */
#include "harness.h"
#include "pool.h"

#include <pthread.h>

enum { MOST = 5000, ROUNDS = 40 };
static struct pool *pool;
static int64_t threads;

struct job {
    int32_t done[MOST];
    int64_t worker_bound;
};

static void mark(void *arguments, int64_t first, int64_t last, int64_t worker) {
    struct job *job = arguments;
    CHECK(worker >= 0 && worker < job->worker_bound);
    for (int64_t k = first; k < last; k++) {
        __atomic_fetch_add(&job->done[k], 1, __ATOMIC_RELAXED);
    }
}

static void *call(void *unused) {
    static const int64_t cases[][2] = {{0, 1}, {0, 7}, {1, 1}, {1, 9}, {2, 1}, {17, 4}, {MOST, 1}, {MOST, 256}, {MOST, MOST}};
    struct job *job = malloc(sizeof *job);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            *job = (struct job){.worker_bound = threads > 1 ? threads : 1};
            egs_session(pool, 1);
            egs_parallel(pool, mark, job, cases[k][0], cases[k][1]);
            egs_session(pool, -1);
            for (int64_t i = 0; i < MOST; i++) {
                CHECK(job->done[i] == (i < cases[k][0]));
            }
        }
    }
    free(job);
    return unused;
}

int main(int count, char **words) {
    CHECK(count == 3);
    threads = atoi(words[1]);
    int callers = atoi(words[2]);
    pool = egshape_pool((int32_t)threads);
    CHECK(threads < 1 ? !pool : 1);
    pthread_t each[16];
    for (int k = 0; k < callers; k++) {
        pthread_create(&each[k], NULL, call, NULL);
    }
    for (int k = 0; k < callers; k++) {
        pthread_join(each[k], NULL);
    }
    return 0;
}
