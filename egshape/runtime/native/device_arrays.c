/* The entry that Python calls with arrays of a device: reads the objects itself, and makes those of the results.

   `ins` and `outs` are tuples of arrays, the second NULL where the caller gives no arrays for results, else with None
   for those that are to be made. The result is a tuple of results, or a number: 0, all is done but the results are still
   to be made; OBJECT, an array must be read through Python (nothing was done); DEVICE_STREAM, the call belongs to
   another stream (error = [its handle]); else what the program reported.

   Other streams on which arrays were made are waited for before the program, and wait for it behind it, so that memory
   whose owner gives it back or writes to it is not in use any more. Called with Python's lock held, which the program
   itself does not hold. Memory of results that no array is on any more is used again: its block has no reference but
   that of the table `results`. */
#include "arrays.h"
#include "libc.h"

enum { MOST_STREAMS = 8, STAYS_ON_STREAM = 1, STAYS_ON_DEVICE = 2 };

/* The streams on which arrays were made; `foreign`: what an owner of foreign arrays works on, where one `named` it. */
struct streams {
    int64_t named, foreign, count, handles[MOST_STREAMS];
};

/* Remember a stream; whether there is room. */
static int32_t note(struct streams *streams, int64_t handle) {
    for (int64_t k = 0; k < streams->count; k++) {
        if (streams->handles[k] == handle) {
            return 1;
        }
    }
    if (streams->count == MOST_STREAMS) {
        return 0;
    }
    streams->handles[streams->count++] = handle;
    return 1;
}

/* An array of ours. */
static int32_t read_own(
    const struct egs_objects *api, void *object, const struct egs_port *port, int64_t *address, int64_t *sizes,
    struct streams *streams) {
    void *block = FIELD(void *, object, api->block), *shape = FIELD(void *, object, api->shape);
    if (FIELD(void *, object, api->dtype) != port->descr || FIELD(void *, block, api->driver) != api->this ||
        api->size(shape) != port->rank) {
        return 0;
    }
    void **axes = ITEMS(shape, &api->array);
    for (int64_t axis = 0; axis < port->rank; axis++) {
        sizes[axis] = api->number_of(axes[axis]);
    }
    *address = api->number_of(FIELD(void *, block, api->address));
    return note(streams, api->number_of(FIELD(void *, block, api->queue)));
}

/* The stream on which the owner of a foreign array works now. */
static int32_t note_foreign(const struct egs_objects *api, const struct egs_owner *owner, struct streams *streams) {
    int64_t handle = 0;
    if (owner->queue(EGS_CUDA, (int32_t)api->device, &handle)) {
        api->clear();
        return 0;
    }
    handle = handle == EGS_LEGACY ? 0 : handle;
    if (handle == EGS_PER_THREAD) {
        return 0;
    }
    if (!streams->named) {
        streams->named = 1;
        streams->foreign = handle;
    }
    return note(streams, handle);
}

/* An array of an owner that has exchange functions. One that is not aligned is left to Python: it is copied, and may be
   one whose elements are not what its memory says (the imaginary part of a conjugate of torch). */
static int32_t read_foreign(
    const struct egs_objects *api, void *object, const struct egs_port *port, int64_t *address, int64_t *sizes,
    int64_t *hosted, struct streams *streams) {
    const struct egs_owner *owner = api->types, *end = owner + api->count;
    while (owner != end && owner->type != FIELD(void *, object, api->array.type)) {
        owner++;
    }
    if (owner == end) {
        return 0;
    }
    struct tensor tensor;
    if (owner->read(object, &tensor)) {
        api->clear();
        return 0;
    }
    uintptr_t start = (uintptr_t)tensor.data + tensor.offset;
    if (tensor.rank != port->rank || tensor.kind != port->kind || start % EGS_ARRAY_ALIGN ||
        !lies_by_rows(&tensor, sizes)) {
        return 0;
    }
    *address = (int64_t)start;
    *hosted = tensor.device == EGS_CPU ? EGS_HOSTED : 0;
    return *hosted || (tensor.device == EGS_CUDA && tensor.number == api->device && note_foreign(api, owner, streams));
}

/* Where an array lies, its sizes, whether it is the host's; its stream is noted. 0 where that cannot be told here. */
static int32_t read_array(
    const struct egs_objects *api, void *object, const struct egs_port *port, int64_t *address, int64_t *sizes,
    int64_t *hosted, struct streams *streams) {
    void *type = FIELD(void *, object, api->array.type);
    if (type == api->array.array) {
        *hosted = EGS_HOSTED;
        return numpy_array(&api->array, object, port->descr, port->rank, (void **)address, sizes);
    }
    if (type == api->own) {
        *hosted = 0;
        return read_own(api, object, port, address, sizes, streams);
    }
    return read_foreign(api, object, port, address, sizes, hosted, streams);
}

/* The call's stream waits for the others, or they wait for it. The default stream and the function's own wait for each
   other by themselves. */
static void follow(const struct egs_device *device, void *own, const struct streams *streams, int32_t after) {
    int32_t pushed = 0;
    for (int64_t k = 0; k < streams->count; k++) {
        void *mine = device->stream, *other = (void *)streams->handles[k];
        if (other == mine || (mine == own && !other) || (!mine && other == own)) {
            continue;
        }
        if (!pushed) {
            device->push(device->context);
            pushed = 1;
        }
        device->record(device->event, after ? mine : other);
        device->follow(after ? other : mine, device->event, 0);
    }
    void *dropped;
    if (pushed) {
        device->pop(&dropped);
    }
}

/* Memory of a result that no array is on any more, if there is some. */
static void pick(struct egs_result *result, void **output, int64_t *room) {
    result->chosen = -1;
    *output = NULL;
    *room = 0;
    for (int k = 0; k < EGS_KEPT; k++) {
        const struct egs_result_block *block = &result->blocks[k];
        if (block->object && FIELD(int32_t, block->object, 0) == 1) {
            result->chosen = k;
            *output = block->address;
            *room = block->bytes;
        }
    }
}

struct range {
    uint64_t low, high;
};

static struct range range_of(int64_t address, int64_t bytes) {
    return (struct range){(uint64_t)address, (uint64_t)address + (uint64_t)bytes};
}

/* Whether no result's memory meets another array's. */
static int32_t are_apart(const struct range *ranges, int64_t inputs, int64_t count) {
    for (int64_t k = inputs; k < count; k++) {
        for (int64_t j = 0; j < count; j++) {
            uint64_t low = ranges[k].low > ranges[j].low ? ranges[k].low : ranges[j].low;
            uint64_t high = ranges[k].high < ranges[j].high ? ranges[k].high : ranges[j].high;
            if (j != k && low < high) {
                return 0;
            }
        }
    }
    return 1;
}

static int64_t bytes_of(const struct egs_program_port *port, const int64_t *sizes) {
    uint64_t bytes = (uint64_t)port->width;
    for (int64_t axis = 0; axis < port->rank; axis++) {
        bytes *= (uint64_t)sizes[axis];
    }
    return (int64_t)bytes;
}

/* A call, while it is made ready. */
struct run {
    struct egs_call *call;
    void **ins, **outs;
    const struct egs_objects *api;
    const struct egs_program_port *ports;
    int64_t inputs, outputs;
    struct streams streams;
};

/* The caller's array for a result, or NULL. */
static void *given(const struct run *run, int64_t k) {
    return run->outs && run->outs[k] != run->api->none ? run->outs[k] : NULL;
}

static int32_t refuse(struct run *run, int64_t number) {
    run->call->error[0] = number;
    return EGS_OBJECT;
}

static int32_t read_inputs(struct run *run, int32_t stays) {
    int64_t *sizes = (int64_t *)run->call->sizes, *addresses = (int64_t *)run->call->inputs;
    int64_t *hosted = run->call->device->hosted;
    for (int64_t k = 0; k < run->inputs; k++) {
        const struct egs_port *port = &run->api->ports[k];
        if (!read_array(run->api, run->ins[k], port, &addresses[k], sizes, &hosted[k], &run->streams)) {
            return refuse(run, k);
        }
        stays |= !hosted[k];
        sizes += run->ports[k].rank;
    }
    return stays ? 0 : refuse(run, run->inputs);
}

/* Where results go: the caller's arrays, or memory that was used before. */
static int32_t find_memory(struct run *run) {
    struct egs_call *call = run->call;
    int64_t *shape = call->shapes, *hosted = call->device->hosted + run->inputs;
    call->strict = 0;
    for (int64_t k = 0; k < run->outputs; k++) {
        hosted[k] = 0;
        pick(&call->device->results[k], &call->outputs[k], &call->rooms[k]);
        if (given(run, k)) {
            int64_t number = run->inputs + k;
            if (!read_array(run->api, run->outs[k], &run->api->ports[number], (int64_t *)&call->outputs[k], shape,
                            &hosted[k], &run->streams) ||
                hosted[k]) {
                return refuse(run, number);
            }
            call->rooms[k] = bytes_of(&run->ports[number], shape);
            call->strict = 1;
        }
        shape += run->ports[run->inputs + k].rank;
    }
    return 0;
}

/* Whether the caller's arrays for results meet no other array of the call. */
static int32_t outputs_are_apart(const struct run *run) {
    int64_t count = run->inputs + run->outputs;
    const int64_t *sizes = run->call->sizes;
    struct range ranges[count + 1];
    for (int64_t k = 0; k < run->inputs; k++) {
        ranges[k] = range_of((int64_t)run->call->inputs[k], bytes_of(&run->ports[k], sizes));
        sizes += run->ports[k].rank;
    }
    for (int64_t k = 0; k < run->outputs; k++) {
        int64_t bytes = given(run, k) ? run->call->rooms[k] : 0;
        ranges[run->inputs + k] = range_of((int64_t)run->call->outputs[k], bytes);
    }
    return are_apart(ranges, run->inputs, count);
}

/* Whether the results lie in memory, and have the shapes, of an earlier call. */
static int32_t are_known(const struct run *run) {
    const struct egs_result *results = run->call->device->results;
    int64_t axes = 0;
    for (int64_t k = 0; k < run->outputs; k++) {
        const struct egs_result *result = &results[k];
        axes += run->ports[run->inputs + k].rank;
        if (!given(run, k) &&
            (result->chosen < 0 || run->call->outputs[k] != result->blocks[result->chosen].address)) {
            return 0;
        }
    }
    return !memcmp(run->call->shapes, results + run->outputs, (size_t)(8 * axes));
}

/* An array of ours on the memory of a result. */
static void *array_of(const struct run *run, int64_t k) {
    const struct egs_objects *api = run->api;
    const struct egs_result *result = &run->call->device->results[k];
    void *made = api->alloc(api->own, 0);
    if (made) {
        void *block = result->blocks[result->chosen].object, *dtype = api->ports[run->inputs + k].descr;
        api->hold(block);
        api->hold(result->shape);
        api->hold(dtype);
        FIELD(void *, made, api->block) = block;
        FIELD(void *, made, api->shape) = result->shape;
        FIELD(void *, made, api->dtype) = dtype;
    }
    return made;
}

static void *tuple_of_results(const struct run *run) {
    const struct egs_objects *api = run->api;
    void *found = api->tuple(run->outputs);
    for (int64_t k = 0; found && k < run->outputs; k++) {
        void *item = given(run, k);
        if (item) {
            api->hold(item);
        } else if (!(item = array_of(run, k))) {
            api->drop(found);
            return NULL;
        }
        api->place(found, k, item);
    }
    return found;
}

/* The program, with the streams of its arrays waited for before and behind it. */
static int32_t run_entry(struct run *run, int32_t (*entry)(struct egs_call *)) {
    const struct egs_objects *api = run->api;
    follow(run->call->device, api->stream, &run->streams, 0);
    void *thread = api->save();
    int32_t code = entry(run->call);
    api->restore(thread);
    follow(run->call->device, api->stream, &run->streams, 1);
    return code;
}

/* Whether a call goes to another stream than that of its tables: the one on which the owner of a foreign array works. */
static int32_t goes_elsewhere(struct run *run, int64_t fixed) {
    void *wanted = run->streams.named ? (void *)run->streams.foreign : run->api->stream;
    if (fixed & STAYS_ON_STREAM || wanted == run->call->device->stream) {
        return 0;
    }
    run->call->error[0] = (int64_t)wanted;
    return EGS_DEVICE_STREAM;
}

void *egs_device(
    struct egs_call *call, void *ins, void *outs, const struct egs_objects *api, int64_t fixed,
    const struct egs_program *program, int32_t (*entry)(struct egs_call *)) {
    struct run run = {.call = call,
                      .ins = ITEMS(ins, &api->array),
                      .outs = outs ? ITEMS(outs, &api->array) : NULL,
                      .api = api,
                      .ports = (const void *)(program + 1),
                      .inputs = program->inputs,
                      .outputs = program->outputs};
    int32_t code = read_inputs(&run, fixed & STAYS_ON_DEVICE);
    code = code ? code : find_memory(&run);
    code = code || !outs || outputs_are_apart(&run) ? code : refuse(&run, run.inputs);
    code = code ? code : goes_elsewhere(&run, fixed);
    code = code ? code : run_entry(&run, entry);
    if (code || !are_known(&run)) {
        return api->number(code);
    }
    return tuple_of_results(&run);
}
