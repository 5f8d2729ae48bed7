/* Products that a library of our own runs: what is made for a key is found again, failures are counted. */
#include "abi.h"
#include "harness.h"

int32_t egs_gemm(struct egs_products *state, const struct egs_product *wanted, void *stream);

static struct egs_product_row *rows;
static int made, ran, biases;
static int32_t answer, refused;
static const void *last_one, *last_nil, *last_more;

static int32_t make(struct egs_product_row *row, const struct egs_product *wanted, void *stream) {
    CHECK(row >= rows && row < rows + 4);
    CHECK(!memcmp(&row->key, &wanted->key, sizeof row->key) && stream == &biases);
    row->descriptor = row->key.extras < 0 ? NULL : row;
    made++;
    return EGS_DONE;
}
static int32_t set(void *descriptor, int32_t attribute, const void *value, size_t bytes) {
    CHECK(descriptor && attribute == EGS_BIAS_POINTER && bytes == 8 && *(void *const *)value);
    biases++;
    return refused;
}
static int32_t matmul(
    void *handle, void *descriptor, const void *one, void *right, void *right_layout, void *left, void *left_layout,
    const void *nil, void *more, void *more_layout, void *out, void *out_layout, const void *algorithm, void *workspace,
    size_t bytes, void *stream) {
    (void)right_layout, (void)left_layout, (void)more_layout, (void)out_layout, (void)algorithm, (void)out;
    CHECK(handle == &made && descriptor && workspace == &ran && bytes == 32 && stream == &biases);
    CHECK(left == (void *)16 && right == (void *)32);
    last_one = one, last_nil = nil, last_more = more;
    ran++;
    return answer;
}

int main(void) {
    rows = calloc(4, sizeof *rows);
    struct egs_products state = {
        .handle = &made, .matmul = matmul, .set = set, .make = make, .workspace = &ran, .workspace_bytes = 32, .mask = 3, .rows = rows};
    struct egs_product wanted = {.key = {.kind = 0, .count = 1, .m = 2, .n = 3, .k = 4}, .left = (void *)16, .right = (void *)32, .out = (void *)48};
    for (int k = 0; k < 3; k++) {
        CHECK(egs_gemm(&state, &wanted, &biases) == 0 && made == 1 && ran == k + 1);
        CHECK(*(const float *)last_one == 1 && *(const float *)last_nil == 0 && last_more == wanted.out);
    }
    wanted.residual = (void *)64;
    CHECK(egs_gemm(&state, &wanted, &biases) == 0 && last_nil == last_one && last_more == wanted.residual && made == 1);
    wanted.key.kind = EGS_KIND_F64, wanted.residual = NULL;
    CHECK(egs_gemm(&state, &wanted, &biases) == 0 && made == 2);
    CHECK(*(const double *)last_one == 1 && *(const double *)last_nil == 0);
    wanted.bias = (void *)80, refused = 15, ran = 0;
    CHECK(egs_gemm(&state, &wanted, &biases) == 15 && biases == 1 && !ran && state.failed == 1 && state.status == 15);
    refused = 0, answer = 7;
    CHECK(egs_gemm(&state, &wanted, &biases) == 7 && state.failed == 2 && state.status == 7);
    wanted.key.extras = -1; /* of which the library has none */
    CHECK(egs_gemm(&state, &wanted, &biases) == -1 && egs_gemm(&state, &wanted, &biases) == -1 && state.failed == 2);
    answer = 0, wanted.key.extras = 0, wanted.bias = NULL;
    for (int k = 0; k < 1000; k++) { /* more keys than rows */
        wanted.key.m = k;
        CHECK(egs_gemm(&state, &wanted, &biases) == 0);
    }
    free(rows);
    return 0;
}
