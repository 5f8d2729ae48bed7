/* The thread pool, and what it asks of a processor. */
#ifndef EGS_POOL_H
#define EGS_POOL_H

#include <stdint.h>

#define EGS_EXPORT __attribute__((visibility("default")))

typedef void egs_task(void *arguments, int64_t first, int64_t last, int64_t worker);

struct pool;
/* A pool of `threads` threads, the caller's included; it is never freed, as its threads never end. NULL: no memory, or
   no pool on this system. */
EGS_EXPORT struct pool *egshape_pool(int32_t threads);
/* Its threads, the caller's included: tasks get a lower number of a worker than this. 1 for NULL. */
int64_t egs_threads(const struct pool *pool);
/* A program begins (1) or ends (-1): workers look for jobs while one runs. */
void egs_session(struct pool *pool, int32_t by);
/* Run a task over [0, total) in chunks. */
void egs_parallel(struct pool *pool, egs_task *task, void *arguments, int64_t total, int64_t chunk);

/* Of a processor (pool_x86_64.c and the like): the number of the system call futex, how often one looks before it
   sleeps, and what it does between two looks. */
extern const int64_t egs_futex;
extern const int32_t egs_looks;
void egs_pause(void);

#endif
