/* Written by `make native` from the tables in egshape/runtime/abi, which say what the words are. */
#ifndef EGS_ABI_H
#define EGS_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    EGS_MEMORY = 3,
    EGS_OBJECT = 7,
    EGS_MEASURED = 15,
    EGS_MEASURE = 2,
    EGS_ERROR_WORDS = 24,
    EGS_DEVICE_STREAM = 14,
    EGS_ALIGN = 64,
    EGS_ARRAY_ALIGN = 16,
    EGS_REDZONE_PATTERN = 251,
    EGS_DONE = 1146048069,
    EGS_CPU = 1,
    EGS_CUDA = 2,
    EGS_PLAIN = 257,
    EGS_LEGACY = 1,
    EGS_PER_THREAD = 2,
    EGS_HOSTED = 1,
    EGS_KEPT = 2,
    EGS_GRAPH_SEEN = 4096,
    EGS_GRAPH_WAYS = 4,
    EGS_GRAPH_LIVE = 4,
    EGS_BIAS_POINTER = 8,
    EGS_KIND_F64 = 1,
};

struct egs_array_fields {
    int64_t items;
    int64_t type;
    void *array;
    int64_t data;
    int64_t rank;
    int64_t dims;
    int64_t descr;
    int64_t flags;
};

struct egs_reader {
    void *type;
    int32_t (*read)(void *, void *);
};

struct egs_layout {
    struct egs_array_fields array;
    const struct egs_reader *types;
    int32_t (*ensure)(void);
    void (*release)(int32_t);
    void (*clear)(void);
};

struct egs_program {
    int64_t inputs;
    int64_t outputs;
};

struct egs_program_port {
    int64_t rank;
    int64_t width;
    int64_t given;
};

struct egs_images {
    int64_t axis;
    int64_t constants;
    int64_t inputs;
    int64_t outputs;
};

struct egs_images_port {
    int64_t rank;
    int64_t width;
    int64_t cut;
};

struct egs_profile {
    int64_t calls;
    int64_t nanoseconds;
    double bytes;
    double operations;
};

struct egs_result_block {
    void *object;
    void *address;
    int64_t bytes;
};

struct egs_result {
    void *shape;
    int64_t chosen;
    struct egs_result_block blocks[EGS_KEPT];
};

struct egs_device {
    int32_t (*push)(void *);
    int32_t (*pop)(void **);
    int64_t launch;
    int64_t allocate;
    int64_t free;
    int64_t up;
    int64_t down;
    int64_t across;
    int64_t wait;
    int32_t (*record)(void *, void *);
    int64_t begin_capture;
    int64_t end_capture;
    int64_t instantiate;
    int64_t graph_launch;
    int64_t graph_free;
    int64_t exec_free;
    int32_t (*follow)(void *, void *, uint32_t);
    int64_t fill;
    int64_t capturing;
    void *context;
    void *stream;
    int64_t pool;
    int64_t functions;
    int64_t constants;
    int64_t *hosted;
    int64_t graphs;
    int64_t capture;
    int64_t gemm;
    void *event;
    struct egs_result *results;
    int64_t pinned;
    int64_t ring;
    int64_t attend;
};

struct egs_call {
    void *arena;
    int64_t room;
    const void *const *inputs;
    const int64_t *sizes;
    const void *const *constants;
    void **outputs;
    int64_t *rooms;
    int64_t *shapes;
    int64_t *error;
    void *pool;
    int64_t threads;
    void *profile;
    void *host;
    int64_t strict;
    struct egs_device *device;
};

struct egs_graphs {
    int64_t count;
    int64_t clock;
    int64_t words;
};

struct egs_graph_row {
    void *graph;
    int64_t used;
    int64_t hash;
};

struct egs_log_row {
    int64_t row;
    double bytes;
    double operations;
};

struct egs_log {
    int64_t count;
    int64_t most;
    void **events;
    struct egs_log_row *rows;
};

struct egs_owner {
    void *type;
    int32_t (*read)(void *, void *);
    int32_t (*queue)(int32_t, int32_t, int64_t *);
};

struct egs_port {
    void *descr;
    int64_t kind;
    int64_t rank;
};

struct egs_objects {
    struct egs_array_fields array;
    void *own;
    int64_t block;
    int64_t shape;
    int64_t dtype;
    int64_t address;
    int64_t queue;
    int64_t driver;
    void *none;
    int64_t (*number_of)(void *);
    int64_t (*size)(void *);
    void (*clear)(void);
    void *(*save)(void);
    void (*restore)(void *);
    void *(*alloc)(void *, int64_t);
    void (*hold)(void *);
    void (*drop)(void *);
    void *(*tuple)(int64_t);
    int32_t (*place)(void *, int64_t, void *);
    void *(*number)(int64_t);
    void *this;
    int64_t device;
    void *stream;
    int64_t count;
    const struct egs_owner *types;
    const struct egs_port *ports;
};

struct egs_product_key {
    int64_t kind;
    int64_t count;
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t left_pitch;
    int64_t left_step;
    int64_t left_turned;
    int64_t right_pitch;
    int64_t right_step;
    int64_t right_turned;
    int64_t extras;
    int64_t alignment;
};

struct egs_product_row {
    struct egs_product_key key;
    void *descriptor;
    void *left;
    void *right;
    void *out;
    int64_t algorithm[8];
};

struct egs_product {
    struct egs_product_key key;
    void *left;
    void *right;
    void *out;
    void *bias;
    void *residual;
};

struct egs_products {
    void *handle;
    int32_t (*matmul)(void *, void *, const void *, void *, void *, void *, void *, const void *, void *, void *, void *, void *, const void *, void *, size_t, void *);
    int32_t (*set)(void *, int32_t, const void *, size_t);
    int32_t (*make)(struct egs_product_row *, const struct egs_product *, void *);
    void *workspace;
    int64_t workspace_bytes;
    int64_t mask;
    struct egs_product_row *rows;
    int64_t failed;
    int64_t status;
};

#endif
