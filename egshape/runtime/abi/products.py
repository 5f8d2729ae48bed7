"""Products of cuBLASLt: what native code looks up, and what the runtime makes for it."""

from __future__ import annotations

KINDS = (("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("f16", "f32"), ("bf16", "bf16"), ("bf16", "f32"))
"""Dtypes of sides and result; a key has their number."""
KEY = (
    "kind",
    "count",
    "m",
    "n",
    "k",
    "left_pitch",
    "left_step",
    "left_turned",
    "right_pitch",
    "right_step",
    "right_turned",
    "extras",
    "alignment",
)
"""Words that say what is to be made; ``extras``: a sum of BIAS and GELU; ``alignment``: the last bytes of the addresses
of left, right, out, bias and residual."""
BIAS, GELU = 1, 2
POINTERS = ("left", "right", "out", "bias", "residual")
"""Words behind the key of a product that is to be run."""
MADE = ("descriptor", "left", "right", "out", "algorithm")
"""Words of a row behind its key: what was made, null if the library cannot; the algorithm takes ALGORITHM."""
ALGORITHM = 8
ROW = len(KEY) + len(MADE) - 1 + ALGORITHM
TYPES = {
    "handle": "void *",
    "matmul": "int32_t (*{})(void *, void *, const void *, void *, void *, void *, void *, const void *, void *,"
    " void *, void *, void *, const void *, void *, size_t, void *)",
    "set": "int32_t (*{})(void *, int32_t, const void *, size_t)",
    "make": "int32_t (*{})(struct egs_product_row *, const struct egs_product *, void *)",
    "workspace": "void *",
    "rows": "struct egs_product_row *",
}
"""What the words of STATE are in C."""
STATE = ("handle", "matmul", "set", "make", "workspace", "workspace_bytes", "mask", "rows", "failed", "status")
"""``make``: int make(row, words, stream), which fills in a row for the key that stands there, ``words`` being key and
places of the call; ``mask``: the number of rows, a power of
two, minus 1; ``failed``: how many products the library refused when they were called, ``status``: what it said last."""
BIAS_POINTER = 8
"""The library's attribute of a descriptor that holds where the bias lies."""
