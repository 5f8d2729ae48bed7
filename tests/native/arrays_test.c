/* Arrays that are read, and those that are left to Python: wrong types, ranks, layouts, places; in memory of just their
   size, so that a read outside of it is found. */
#include "arrays.h"
#include "harness.h"

int32_t egs_python(
    struct egs_call *call, void *inputs, void *outputs, const struct egs_layout *layout,
    const struct egs_program *program, int32_t (*entry)(struct egs_call *));

/* Objects as an interpreter of our own lays them out. */
struct object {
    int64_t references;
    void *type, *data;
    int64_t *dims;
    void *descr;
    int32_t rank, flags;
};
struct tuple {
    int64_t references;
    void *type;
    void *items[2];
};
struct foreign {
    int64_t references;
    void *type;
    struct tensor tensor;
    int32_t fails;
};

static char array_type, foreign_type, other_type, floats, ints;
static int64_t sizes2[] = {3, 5}, empty2[] = {0, 5};
static _Alignas(64) char memory[4096];
static int locked, cleared, ran;

static int32_t ensure(void) { return ++locked; }
static void release(int32_t state) { CHECK(state == locked--); }
static void clear(void) { cleared++; }
static int32_t read(void *object, void *tensor) {
    struct foreign *item = object;
    CHECK(locked == 1);
    *(struct tensor *)tensor = item->tensor;
    return item->fails;
}
static int32_t entry(struct egs_call *call) {
    (void)call;
    ran++;
    return 42;
}

struct table {
    struct egs_layout layout;
    void *descr;
    int64_t kind;
};
struct program {
    struct egs_program head;
    struct egs_program_port ports[3];
};
enum { KIND = 2 | 32 << 8 | 1 << 16 };

static int64_t input, output[2], axes[2], error[EGS_ARRAY_ALIGN];

static int32_t call_with(void *item, void *first, void *second) {
    static struct egs_reader readers[] = {{&other_type, read}, {&foreign_type, read}, {0, 0}};
    struct table table = {
        .layout = {.array = {.items = offsetof(struct tuple, items),
                             .type = offsetof(struct object, type),
                             .array = &array_type,
                             .data = offsetof(struct object, data),
                             .rank = offsetof(struct object, rank),
                             .dims = offsetof(struct object, dims),
                             .descr = offsetof(struct object, descr),
                             .flags = offsetof(struct object, flags)},
                   .types = readers, .ensure = ensure, .release = release, .clear = clear},
        .descr = &floats,
        .kind = KIND};
    struct program program = {{1, 2}, {{2, 4, 0}, {2, 4, 1}, {1, 8, 0}}};
    struct tuple ins = {.items = {item}}, outs = {.items = {first, second}};
    struct egs_call call = {.inputs = (const void *const *)&input, .sizes = axes, .outputs = (void **)output, .error = error};
    input = axes[0] = axes[1] = output[0] = output[1] = error[0] = -1;
    ran = 0;
    return egs_python(&call, &ins, &outs, &table.layout, &program.head, entry);
}

static void numpy(void) {
    struct object good = {1, &array_type, memory, sizes2, &floats, 2, EGS_PLAIN | 0x400};
    struct object out = {1, &array_type, memory + 1024, sizes2, &floats, 2, EGS_PLAIN};
    CHECK(call_with(&good, &out, NULL) == 42 && ran == 1); /* the late output is not read */
    CHECK(input == (int64_t)memory && axes[0] == 3 && axes[1] == 5);
    CHECK(output[0] == (int64_t)(memory + 1024) && output[1] == -1);
    struct object read_only = good, empty = good, wrong[6] = {good, good, good, good, good, good};
    read_only.flags = EGS_PLAIN; /* no flag of writing: inputs are only read */
    empty.dims = empty2;
    CHECK(call_with(&read_only, &out, NULL) == 42);
    CHECK(call_with(&empty, &out, NULL) == 42 && axes[0] == 0);
    wrong[0].descr = &ints;
    wrong[1].rank = 1;
    wrong[2].rank = 3;
    wrong[3].flags = 0x100; /* not contiguous */
    wrong[4].flags = 0x001; /* not aligned */
    wrong[5].rank = -1;
    for (int k = 0; k < 6; k++) {
        CHECK(call_with(&wrong[k], &out, NULL) == EGS_OBJECT && error[0] == 0 && !ran && output[0] == -1);
    }
}

static int32_t foreign_gives(struct tensor tensor, int32_t fails) {
    struct object out = {1, &array_type, memory, sizes2, &floats, 2, EGS_PLAIN};
    struct foreign *item = malloc(sizeof *item);
    *item = (struct foreign){1, &foreign_type, tensor, fails};
    int32_t code = call_with(item, &out, NULL);
    free(item);
    CHECK(!locked && ran == (code == 42));
    return code;
}

static void tensors(void) {
    static int64_t rows[] = {5, 1}, columns[] = {1, 3}, one[] = {1, 5}, any[] = {77, 1}, huge[] = {INT64_MAX, INT64_MAX};
    struct tensor good = {memory, EGS_CPU, 0, 2, KIND, sizes2, rows, 64}, each;
    CHECK(foreign_gives(good, 0) == 42 && input == (int64_t)memory + 64 && axes[0] == 3 && axes[1] == 5);
    each = good, each.strides = NULL;
    CHECK(foreign_gives(each, 0) == 42);
    each = good, each.shape = one, each.strides = any; /* the step of an axis of one is no matter */
    CHECK(foreign_gives(each, 0) == 42);
    each = good, each.data = NULL, each.offset = 0, each.shape = empty2, each.strides = columns;
    CHECK(foreign_gives(each, 0) == 42 && input != 0);
    each = good, each.strides = columns;
    CHECK(foreign_gives(each, 0) == EGS_OBJECT);
    each = good, each.shape = huge; /* sizes whose product wraps */
    CHECK(foreign_gives(each, 0) == EGS_OBJECT);
    each = good, each.offset = 8;
    CHECK(foreign_gives(each, 0) == EGS_OBJECT);
    each = good, each.device = EGS_CUDA;
    CHECK(foreign_gives(each, 0) == EGS_OBJECT);
    each = good, each.rank = 1;
    CHECK(foreign_gives(each, 0) == EGS_OBJECT);
    each = good, each.kind = KIND + (1 << 16); /* two lanes */
    CHECK(foreign_gives(each, 0) == EGS_OBJECT);
    CHECK(!cleared && foreign_gives(good, -1) == EGS_OBJECT && cleared == 1);
    struct object stranger = {1, &ints, memory, sizes2, &floats, 2, EGS_PLAIN};
    CHECK(call_with(&stranger, NULL, NULL) == EGS_OBJECT);
}

int main(void) {
    numpy();
    tensors();
    return 0;
}
