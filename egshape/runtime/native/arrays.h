/* How fields of array objects are read. */
#ifndef EGS_ARRAYS_H
#define EGS_ARRAYS_H

#include "abi.h"

/* An array as DLPack 1.3 gives it. */
struct tensor {
    char *data;
    int32_t device, number, rank;
    uint32_t kind; /* code, bits and lanes of an element */
    int64_t *shape, *strides;
    uint64_t offset;
};

#define FIELD(type, object, offset) (*(type *)((char *)(object) + (offset)))
/* The items of a tuple. */
#define ITEMS(tuple, layout) (&FIELD(void *, tuple, (layout)->items))

/* Copy the sizes of an array of numpy that is of this element type and rank, and lies row by row; its memory, else 0. */
static inline int32_t numpy_array(
    const struct egs_array_fields *fields, void *object, void *descr, int64_t rank, void **data, int64_t *sizes) {
    if (FIELD(void *, object, fields->descr) != descr || FIELD(int32_t, object, fields->rank) != rank ||
        (FIELD(int32_t, object, fields->flags) & EGS_PLAIN) != EGS_PLAIN) {
        return 0;
    }
    const int64_t *dims = FIELD(int64_t *, object, fields->dims);
    for (int64_t axis = 0; axis < rank; axis++) {
        sizes[axis] = dims[axis];
    }
    *data = FIELD(void *, object, fields->data);
    return 1;
}

/* Copy the sizes of a tensor; whether it lies row by row. */
static inline int32_t lies_by_rows(const struct tensor *tensor, int64_t *sizes) {
    uint64_t step = 1;
    int32_t odd = 0, empty = 0;
    for (int64_t axis = (int64_t)tensor->rank - 1; axis >= 0; axis--) {
        int64_t size = tensor->shape[axis];
        sizes[axis] = size;
        empty |= size == 0;
        odd |= size != 1 && tensor->strides && (uint64_t)tensor->strides[axis] != step;
        step *= (uint64_t)size;
    }
    return empty || !odd;
}

#endif
