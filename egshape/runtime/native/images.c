/* A program that does the same to each image of a batch, run on some images after the others: what lies between two
   layers stays in the cache, and threads that take images of their own never wait for each other.

   How many images a part has follows from the sizes alone, never from the threads: kernels are chosen by sizes, and the
   bits of a result must not hang on threads. A part is as large as the second cache, and its constants are read again
   for each part: they are not to be more than some times what lies between the layers. */
#include "abi.h"
#include "libc.h"
#include "pool.h"

enum { PART = 2 << 20 /* bytes of an arena that a cache holds */, CONSTANTS = 4 };

typedef int32_t egs_entry(struct egs_call *call);

void *egs_memory(int64_t bytes);

/* One thread's call, with tables of its own behind it. */
struct part {
    struct egs_call call;
    int64_t tables[];
};

struct job {
    const struct egs_call *call;
    const struct egs_images *program;
    egs_entry *whole;
    char *parts;
    int64_t bytes; /* of a part's call */
    int64_t images, batch; /* of a part, of all */
    int64_t room; /* of a part's arena */
    int64_t slots; /* calls and arenas: one for each thread, or for each part where there are fewer of these */
    int64_t count; /* of the parts */
    int64_t all; /* bytes of the arena of all images */
    int64_t pooled; /* whether a part's kernels use the pool */
    int32_t code;
};

static const struct egs_images_port *ports_of(const struct egs_images *program) {
    return (const void *)(program + 1);
}

static int64_t axes_of(const struct egs_images_port *ports, int64_t count) {
    int64_t axes = 0;
    for (int64_t k = 0; k < count; k++) {
        axes += ports[k].rank;
    }
    return axes;
}

/* Bytes of one entry of an array's first axis; of all of an array of rank 0. */
static int64_t stride_of(const struct egs_images_port *port, const int64_t *sizes) {
    int64_t bytes = port->width;
    for (int64_t axis = 1; axis < port->rank; axis++) {
        bytes *= sizes[axis];
    }
    return bytes;
}

/* A call on images [first, first + count), with the tables of a part. Its arena is not set. */
static void narrow(struct part *part, const struct job *job, int64_t first, int64_t count, int64_t pooled) {
    const struct egs_call *call = job->call;
    const struct egs_images_port *ports = ports_of(job->program);
    int64_t inputs = job->program->inputs, outputs = job->program->outputs, axes = axes_of(ports, inputs);
    const void **sources = (const void **)part->tables;
    void **targets = (void **)part->tables + inputs;
    int64_t *sizes = part->tables + inputs + outputs;
    part->call = *call;
    part->call.inputs = sources;
    part->call.outputs = targets;
    part->call.sizes = sizes;
    part->call.shapes = sizes + axes;
    part->call.strict = 0;
    memcpy(sizes, call->sizes, (size_t)axes * sizeof *sizes);
    const int64_t *shape = call->sizes;
    for (int64_t k = 0; k < inputs; k++, ports++) {
        int64_t skipped = ports->cut ? first * stride_of(ports, shape) : 0;
        sources[k] = (const char *)call->inputs[k] + skipped;
        if (ports->cut) {
            *sizes = count;
        }
        shape += ports->rank;
        sizes += ports->rank;
    }
    shape = call->shapes;
    for (int64_t k = 0; k < outputs; k++, ports++) {
        targets[k] = (char *)call->outputs[k] + first * stride_of(ports, shape);
        shape += ports->rank;
    }
    if (!pooled) {
        part->call.pool = NULL;
        part->call.threads = 1;
    }
}

static void run_parts(void *argument, int64_t first, int64_t last, int64_t worker) {
    struct job *job = argument;
    for (int64_t k = first; k < last; k++) {
        int64_t slot = job->slots == job->count ? k : worker;
        struct part *part = (void *)(job->parts + slot * job->bytes);
        int64_t from = k * job->images, left = job->batch - from;
        narrow(part, job, from, left < job->images ? left : job->images, job->pooled);
        part->call.arena = (char *)job->call->arena + slot * job->room;
        part->call.room = job->room;
        int32_t code = job->whole(&part->call);
        if (code) {
            __atomic_store_n(&job->code, code, __ATOMIC_RELAXED);
            return;
        }
    }
}

/* Bytes of the arena of a part of so many images; -1: the program refuses them, which the caller shall hear of all. */
static int64_t arena_of(const struct job *job, int64_t images, int64_t pooled) {
    struct part *part = (void *)job->parts;
    narrow(part, job, 0, images, pooled);
    part->call.strict = EGS_MEASURE;
    return job->whole(&part->call) == EGS_MEASURED ? part->call.error[0] : -1;
}

/* Images of a part, all of them if parts are not worth it: a power of two of parts, so that threads get as many each. */
static int64_t images_of(int64_t batch, int64_t arena, int64_t constants) {
    int64_t least = constants / CONSTANTS > PART ? constants / CONSTANTS : PART, one = arena / batch;
    int64_t fill = one > 0 ? (least + one - 1) / one : batch, parts = 1;
    while (2 * parts * fill <= batch) {
        parts *= 2;
    }
    return (batch + parts - 1) / parts;
}

static int32_t has_room(struct egs_call *call, const struct egs_images *program) {
    const struct egs_images_port *port = ports_of(program) + program->inputs;
    const int64_t *shape = call->shapes;
    for (int64_t k = 0; k < program->outputs; k++, port++) {
        if (!call->outputs[k] || call->rooms[k] < shape[0] * stride_of(port, shape)) {
            return 0;
        }
        shape += port->rank;
    }
    return 1;
}

static int32_t grow(struct egs_call *call, int64_t bytes) {
    if (call->room >= bytes) {
        return 0;
    }
    free(call->arena);
    call->room = 0;
    call->arena = egs_memory(bytes);
    call->room = call->arena ? bytes : 0;
    return call->arena ? 0 : EGS_MEMORY;
}

/* The same of the largest part. */
static int64_t room_of(const struct job *job, int64_t pooled) {
    int64_t left = job->batch - (job->count - 1) * job->images, room = arena_of(job, job->images, pooled);
    int64_t last = left == job->images ? room : arena_of(job, left, pooled);
    return room < 0 || last < 0 ? -1 : room > last ? room : last;
}

/* The job, whose parts get the rooms that they need; 0, or a code to end with. Where much is the same for all images,
   which each part would do again, it is done for all at once: whatever the threads. */
static int32_t run(struct job *job, struct egs_call *call) {
    int64_t alone = room_of(job, 0);
    job->room = job->pooled ? room_of(job, 1) : alone;
    if (alone < 0 || job->room < 0 || job->count * alone > job->all + job->all / 2) {
        return job->whole(call);
    }
    int32_t code = grow(call, job->slots * job->room);
    if (code) {
        return code;
    }
    if (job->pooled) {
        run_parts(job, 0, job->count, 0);
    } else {
        egs_session(call->pool, 1);
        egs_parallel(call->pool, run_parts, job, job->count, 1);
        egs_session(call->pool, -1);
    }
    return job->code;
}

int32_t egs_images(struct egs_call *call, const struct egs_images *program, egs_entry *whole) {
    int64_t batch = call->sizes[program->axis];
    if (batch < 2) {
        return whole(call);
    }
    struct egs_call asked = *call;
    asked.strict |= EGS_MEASURE;
    asked.pool = NULL;
    asked.threads = 1;
    int32_t code = whole(&asked);
    if (code != EGS_MEASURED) {
        return code;
    }
    int64_t images = images_of(batch, call->error[0], program->constants);
    if (images >= batch || !has_room(call, program)) {
        return whole(call);
    }
    int64_t count = (batch + images - 1) / images, threads = egs_threads(call->pool);
    int64_t pooled = threads > 1 && (call->profile || 2 * count < threads), slots = pooled ? 1 : threads;
    if (count < slots) {
        slots = count;
    }
    const struct egs_images_port *ports = ports_of(program);
    int64_t words = program->inputs + program->outputs + axes_of(ports, program->inputs + program->outputs);
    int64_t bytes = ((int64_t)sizeof(struct part) + 8 * words + EGS_ALIGN - 1) / EGS_ALIGN * EGS_ALIGN;
    struct job job = {
        .call = call,
        .program = program,
        .whole = whole,
        .parts = egs_memory(slots * bytes),
        .bytes = bytes,
        .images = images,
        .batch = batch,
        .slots = slots,
        .count = count,
        .all = call->error[0],
        .pooled = pooled,
    };
    if (!job.parts) {
        return EGS_MEMORY;
    }
    code = run(&job, call);
    free(job.parts);
    return code;
}
