/* A pool of threads that sleep in a futex while there is nothing to do.

   Each thread takes the chunks of its own share first, which keeps rows in its cache from kernel to kernel, and then
   what is left of the others'. The caller waits only for workers that have taken part: one that the system has not
   woken yet finds the job closed, so busy cores cost nothing but their help. A pool that works for another thread
   already, or none, lets the caller do all of it. Workers look for the next job for a moment while a program runs
   (`sessions`), and sleep at once otherwise. A worker that finds itself on the caller's processor keeps off it from
   then on: the system tends to wake a thread where its waker runs, where the two would only take turns. */
#include "pool.h"

#include "libc.h"

#define LINE _Alignas(64)
enum {
    CLOSED = 1 << 30,
    WAIT = 128, /* FUTEX_WAIT_PRIVATE */
    WAKE = 129, /* FUTEX_WAKE_PRIVATE */
    STACK = 8 << 20,
    MASK = 128, /* bytes that hold a set of processors, a set of signals, attributes of a thread */
    DETACHED = 1,
    BLOCK = 0, /* SIG_BLOCK */
    SET = 2    /* SIG_SETMASK */
};

typedef struct {
    _Alignas(16) uint8_t bytes[MASK];
} mask;

struct pool {
    LINE int32_t lock;
    int32_t caller; /* the processor that the caller runs on */
    int32_t sessions, ids;
    LINE int32_t bell; /* rung for each job */
    int32_t sleepers;
    LINE int64_t count; /* chunks of the job */
    LINE int32_t state; /* workers inside of the job; CLOSED: no more may come in */
    LINE egs_task *task;
    void *arguments;
    int64_t total, chunk, threads;
    struct {
        LINE int64_t next; /* chunk of a worker's share */
    } shares[];
};

static void sleep_while(int32_t *word, int32_t value) {
    syscall(egs_futex, word, (int64_t)WAIT, (int64_t)value, NULL, NULL, (int64_t)0);
}

static void wake(int32_t *word, int32_t count) {
    syscall(egs_futex, word, (int64_t)WAKE, (int64_t)count, NULL, NULL, (int64_t)0);
}

/* The first chunk of a worker's share; the place behind the last one's. */
static int64_t bound(const struct pool *pool, int64_t worker) {
    return (int64_t)((uint64_t)worker * (uint64_t)pool->count / (uint64_t)pool->threads);
}

static void chunks(struct pool *pool, int64_t worker) {
    egs_task *task = pool->task;
    void *arguments = pool->arguments;
    int64_t total = pool->total, chunk = pool->chunk, threads = pool->threads;
    for (int64_t k = 0; k < threads; k++) {
        int64_t owner = worker + k < threads ? worker + k : worker + k - threads, stop = bound(pool, owner + 1);
        for (;;) {
            int64_t mine = __atomic_fetch_add(&pool->shares[owner].next, 1, __ATOMIC_RELAXED);
            if (mine >= stop) {
                break;
            }
            int64_t first = mine * chunk;
            task(arguments, first, chunk < total - first ? first + chunk : total, worker);
        }
    }
}

static void keep_off(int32_t processor, const mask *allowed) {
    if (processor < 0 || processor >= 8 * MASK) {
        return;
    }
    mask others = *allowed;
    others.bytes[processor / 8] &= (uint8_t)~(1u << processor % 8);
    sched_setaffinity(0, MASK, &others);
}

/* Take part in a job that is open. */
static void join(struct pool *pool, int64_t worker, const mask *allowed) {
    int32_t inside = __atomic_load_n(&pool->state, __ATOMIC_ACQUIRE);
    do {
        if (inside & CLOSED) {
            return;
        }
    } while (!__atomic_compare_exchange_n(
        &pool->state, &inside, inside + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    int32_t here = sched_getcpu();
    if (here == __atomic_load_n(&pool->caller, __ATOMIC_RELAXED)) {
        keep_off(here, allowed);
    }
    chunks(pool, worker);
    if (__atomic_fetch_sub(&pool->state, 1, __ATOMIC_ACQ_REL) == CLOSED + 1) {
        wake(&pool->state, 1);
    }
}

/* Look until the bell is rung, or until it is time to sleep; whether it was. */
static int32_t rung(struct pool *pool, int32_t heard) {
    for (int32_t k = 0; __atomic_load_n(&pool->bell, __ATOMIC_RELAXED) == heard; k++) {
        if (k >= egs_looks || !__atomic_load_n(&pool->sessions, __ATOMIC_RELAXED)) {
            return 0;
        }
        egs_pause();
    }
    return 1;
}

static void *work(void *argument) {
    struct pool *pool = argument;
    mask allowed = {{0}};
    sched_getaffinity(0, MASK, &allowed);
    int64_t worker = __atomic_add_fetch(&pool->ids, 1, __ATOMIC_RELAXED);
    for (;;) {
        int32_t heard = __atomic_load_n(&pool->bell, __ATOMIC_SEQ_CST);
        join(pool, worker, &allowed);
        if (!rung(pool, heard)) {
            __atomic_fetch_add(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
            sleep_while(&pool->bell, heard);
            __atomic_fetch_sub(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
        }
    }
    return NULL; /* never */
}

int64_t egs_threads(const struct pool *pool) { return pool ? pool->threads : 1; }

void egs_session(struct pool *pool, int32_t by) {
    if (pool) {
        __atomic_fetch_add(&pool->sessions, by, __ATOMIC_RELAXED);
    }
}

/* Open a job for the workers, and wake as many as can help. */
static void open_job(struct pool *pool, egs_task *task, void *arguments, int64_t total, int64_t chunk) {
    pool->task = task;
    pool->arguments = arguments;
    pool->total = total;
    pool->chunk = chunk;
    pool->count = total / chunk + (total % chunk > 0);
    __atomic_store_n(&pool->caller, sched_getcpu(), __ATOMIC_RELAXED);
    for (int64_t worker = 0; worker < pool->threads; worker++) {
        __atomic_store_n(&pool->shares[worker].next, bound(pool, worker), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&pool->state, 0, __ATOMIC_RELEASE);
    __atomic_fetch_add(&pool->bell, 1, __ATOMIC_SEQ_CST);
    int32_t sleepers = __atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST);
    int64_t useful = pool->count - 1 < sleepers ? pool->count - 1 : sleepers;
    if (useful > 0) {
        wake(&pool->bell, (int32_t)useful);
    }
}

/* Close the job, and wait for those inside. */
static void close_job(struct pool *pool) {
    __atomic_fetch_or(&pool->state, CLOSED, __ATOMIC_ACQ_REL);
    for (int32_t k = 0;; k++) {
        int32_t inside = __atomic_load_n(&pool->state, __ATOMIC_ACQUIRE);
        if (inside == CLOSED) {
            return;
        }
        if (k < egs_looks) {
            egs_pause();
        } else {
            sleep_while(&pool->state, inside);
            k = egs_looks - 1;
        }
    }
}

void egs_parallel(struct pool *pool, egs_task *task, void *arguments, int64_t total, int64_t chunk) {
    int32_t free = 0;
    if (!pool || !__atomic_compare_exchange_n(&pool->lock, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        task(arguments, 0, total, 0);
        return;
    }
    open_job(pool, task, arguments, total, chunk);
    chunks(pool, 0);
    close_job(pool);
    __atomic_store_n(&pool->lock, 0, __ATOMIC_RELEASE);
}

struct pool *egshape_pool(int32_t threads) {
    if (threads < 1) {
        return NULL;
    }
    size_t bytes = sizeof(struct pool) + (size_t)threads * sizeof(((struct pool *)0)->shares[0]);
    struct pool *pool = aligned_alloc(64, bytes);
    if (!pool) {
        return NULL;
    }
    memset(pool, 0, bytes);
    pool->threads = threads;
    pool->state = CLOSED;
    mask every, before, attributes;
    memset(&every, 0xff, sizeof every);
    pthread_sigmask(BLOCK, &every, &before); /* signals are the program's own threads' business */
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, DETACHED);
    for (int32_t k = 1; k < threads; k++) {
        int64_t thread;
        pthread_create(&thread, &attributes, work, pool);
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SET, &before, NULL);
    return pool;
}
