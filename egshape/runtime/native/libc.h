/* The C library's functions that are called, declared by hand: a system's headers would write its own sizes and macros
   into the .ll files, which serve every little-endian 64-bit processor. */
#ifndef EGS_LIBC_H
#define EGS_LIBC_H

#include <stddef.h>
#include <stdint.h>

int memcmp(const void *one, const void *two, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);
void free(void *memory);
int madvise(void *first, size_t bytes, int advice);
int clock_gettime(int clock, int64_t *seconds_and_rest);
long syscall(long number, ...);
int pthread_create(void *thread, const void *attributes, void *(*run)(void *), void *argument);
int pthread_attr_init(void *attributes);
int pthread_attr_setstacksize(void *attributes, size_t bytes);
int pthread_attr_setdetachstate(void *attributes, int state);
int pthread_attr_destroy(void *attributes);
int pthread_sigmask(int how, const void *set, void *before);
int sched_getcpu(void);
int sched_getaffinity(int process, size_t bytes, void *mask);
int sched_setaffinity(int process, size_t bytes, const void *mask);

#endif
