/* The entry that Python calls: reads array objects itself, so that a call costs no Python code per array.

   `inputs` and `outputs` are tuples of arrays. Arrays of types that have exchange functions of DLPack (torch's tensors)
   are read by these. Inputs that are no plain arrays of the right type, rank and layout give OBJECT (error = [input]),
   and the caller converts them. */
#include "arrays.h"
#include "libc.h"

/* Read an array by its type's exchange function; whether it lies row by row in the host's memory as is wanted. That of
   an empty one may begin nowhere. Tensors that are not aligned are left to Python: one may be no multiple of its
   element, or have elements that are not what its memory says (the imaginary part of a conjugate of torch). */
__attribute__((noinline)) static int32_t read_tensor(
    const struct egs_layout *layout, void *object, uint32_t kind, int64_t rank, void **data, int64_t *sizes) {
    const struct egs_reader *reader = layout->types;
    while (reader->type != FIELD(void *, object, layout->array.type)) {
        if (!reader->type) {
            return 0;
        }
        reader++;
    }
    struct tensor tensor;
    int32_t lock = layout->ensure(), code = reader->read(object, &tensor);
    if (code) {
        layout->clear();
    }
    layout->release(lock);
    if (code || tensor.device != EGS_CPU || tensor.rank != rank || tensor.kind != kind) {
        return 0;
    }
    uintptr_t start = (uintptr_t)tensor.data + tensor.offset;
    *data = (void *)(start ? start : EGS_ARRAY_ALIGN);
    return start % EGS_ARRAY_ALIGN == 0 && lies_by_rows(&tensor, sizes);
}

int32_t egs_python(
    struct egs_call *call, void *inputs, void *outputs, const struct egs_layout *layout,
    const struct egs_program *program, int32_t (*entry)(struct egs_call *)) {
    const struct egs_array_fields *fields = &layout->array;
    const struct egs_program_port *ports = (const void *)(program + 1);
    const int64_t *descrs = (const int64_t *)(layout + 1), *kinds = descrs + program->inputs;
    void **items = ITEMS(inputs, fields);
    void **places = (void **)call->inputs; /* const is what a caller in C sees */
    int64_t *sizes = (int64_t *)call->sizes;
    for (int64_t k = 0; k < program->inputs; k++) {
        int64_t rank = ports[k].rank;
        int32_t plain = FIELD(void *, items[k], fields->type) == fields->array
                            ? numpy_array(fields, items[k], (void *)descrs[k], rank, &places[k], sizes)
                            : read_tensor(layout, items[k], (uint32_t)kinds[k], rank, &places[k], sizes);
        if (!plain) {
            call->error[0] = k;
            return EGS_OBJECT;
        }
        sizes += rank;
    }
    items = ITEMS(outputs, fields);
    for (int64_t k = 0; k < program->outputs; k++) {
        if (ports[program->inputs + k].given) {
            call->outputs[k] = FIELD(void *, items[k], fields->data);
        }
    }
    return entry(call);
}
