/* Products through cuBLASLt: descriptors and algorithms are made once for a key, by what the state's `make` calls, and
   found again here. */
#include "abi.h"
#include "hash.h"
#include "libc.h"

/* Factors of the product and of the residual, of the type that is computed in. */
static const float ONE32 = 1, NIL32 = 0;
static const double ONE64 = 1, NIL64 = 0;

/* Run a product. -1: the library has no algorithm for it; another code but 0: it refused. */
int32_t egs_gemm(struct egs_products *state, const struct egs_product *wanted, void *stream) {
    const int64_t *key = (const int64_t *)&wanted->key;
    struct egs_product_row *row =
        state->rows + (hash_of(key, sizeof wanted->key / 8, 0) & (uint64_t)state->mask);
    if (memcmp(&row->key, key, sizeof row->key)) {
        row->key = wanted->key;
        if (state->make(row, wanted, stream) != EGS_DONE) { /* interrupted: what stands there is another product's */
            row->key.kind = -1;
            return -1;
        }
    }
    if (!row->descriptor) {
        return -1;
    }
    int32_t wide = wanted->key.kind == EGS_KIND_F64, code = 0;
    if (wanted->bias) {
        code = state->set(row->descriptor, EGS_BIAS_POINTER, &wanted->bias, sizeof wanted->bias);
    }
    const void *one = wide ? (const void *)&ONE64 : &ONE32, *nil = wide ? (const void *)&NIL64 : &NIL32;
    if (!code) { /* matrices of the library are column-major: left and right change places */
        code = state->matmul(
            state->handle, row->descriptor, one, wanted->right, row->right, wanted->left, row->left,
            wanted->residual ? one : nil, wanted->residual ? wanted->residual : wanted->out, row->out, wanted->out,
            row->out, row->algorithm, state->workspace, (size_t)state->workspace_bytes, stream);
    }
    if (code) {
        state->failed += 1;
        state->status = code;
    }
    return code;
}
