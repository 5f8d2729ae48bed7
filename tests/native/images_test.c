/* Programs on images in parts: each image once, in its place, with memory enough; what goes wrong comes back.
   argv: threads. */
#include "abi.h"
#include "harness.h"
#include "pool.h"

enum { ROW = 5, OUT = 3, PER_IMAGE = 1 << 20 };
static int64_t fixed; /* bytes of an arena however many images there are */
typedef int32_t entry(struct egs_call *call);
int32_t egs_images(struct egs_call *call, const struct egs_images *program, entry *whole);

static const struct {
    struct egs_images head;
    struct egs_images_port ports[3];
} program = {{0, 0, 2, 1}, {{2, 4, 1}, {1, 8, 0}, {2, 4, 1}}};
static int64_t refused = -1, runs; /* the first image of a call that fails */
static struct pool *pool;

/* Output [n, OUT] of input [n, ROW] and of one number for all; its arena is written to in each page, from end to end. */
static int32_t whole(struct egs_call *call) {
    int64_t images = call->sizes[0], total = images * PER_IMAGE + fixed;
    int32_t same = call->shapes[0] == images && call->shapes[1] == OUT;
    CHECK(call->sizes[1] == ROW && call->sizes[2] == 1 && images > 0);
    call->shapes[0] = images;
    call->shapes[1] = OUT;
    if (call->strict & 1 && !same) {
        return 6;
    }
    if (call->strict & EGS_MEASURE) {
        call->error[0] = total;
        return EGS_MEASURED;
    }
    if (call->room < total) {
        free(call->arena);
        call->arena = aligned_alloc(64, (size_t)total);
        call->room = total;
    }
    for (int64_t at = 0; at < total; at += 4096) {
        ((char *)call->arena)[at] = ((char *)call->arena)[total - 1 - at] = (char)images;
    }
    const float *x = call->inputs[0];
    float *y = call->outputs[0];
    if ((int64_t)x[0] == refused) {
        call->error[0] = 77;
        return 1;
    }
    __atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
    for (int64_t k = 0; k < images; k++) {
        for (int64_t j = 0; j < OUT; j++) {
            y[k * OUT + j] += x[k * ROW] + (float)*(const int64_t *)call->inputs[1];
        }
    }
    return 0;
}

int main(int count, char **words) {
    CHECK(count == 2);
    int64_t threads = atoi(words[1]), add = 9, error[EGS_ERROR_WORDS], room = 1 << 30;
    pool = egshape_pool((int32_t)threads);
    for (int64_t images = 1; images < 40; images += images < 9 ? 1 : 5) {
        float *x = calloc((size_t)(images * ROW), sizeof *x), *y = calloc((size_t)(images * OUT), sizeof *y);
        for (int64_t k = 0; k < images; k++) {
            x[k * ROW] = (float)k;
        }
        const void *inputs[] = {x, &add};
        void *outputs[] = {y};
        int64_t sizes[] = {images, ROW, 1}, shapes[] = {images + 1, OUT};
        struct egs_call call = {.inputs = inputs, .sizes = sizes, .outputs = outputs, .rooms = &room, .shapes = shapes};
        call.error = error;
        call.pool = pool;
        call.threads = images % 3 ? threads : images % 2; /* a caller may say less, or nothing */
        call.strict = 1;
        runs = 0;
        CHECK(egs_images(&call, &program.head, whole) == 6 && !runs && shapes[0] == images);
        CHECK(egs_images(&call, &program.head, whole) == 0);
        CHECK(images < 4 ? runs == 1 : runs > 1);
        for (int64_t k = 0; k < images * OUT; k++) {
            CHECK(y[k] == (float)(k / OUT + add));
        }
        refused = 0;
        CHECK(egs_images(&call, &program.head, whole) == 1 && error[0] == 77);
        refused = -1;
        room = 0; /* no memory of the caller's: the program itself has to ask for it, for all */
        runs = 0;
        CHECK(egs_images(&call, &program.head, whole) == 0 && runs == 1);
        room = 1 << 30;
        fixed = 64 << 20; /* as much again for each part: all at once */
        runs = 0;
        CHECK(egs_images(&call, &program.head, whole) == 0 && runs == 1);
        fixed = 0;
        free(call.arena);
        free(x);
        free(y);
    }
    return 0;
}
