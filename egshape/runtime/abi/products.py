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
MADE = ("descriptor", "left", "right", "out", "algorithm")
"""Words of a row behind its key: what was made, null if the library cannot; the algorithm takes 8 words."""
ROW = len(KEY) + len(MADE) - 1 + 8
PLACES = 5
"""Words behind the key of a call: the addresses of left, right, out, bias and residual, 0 for none."""
STATE = ("handle", "matmul", "set", "make", "workspace", "workspace_bytes", "mask", "rows", "failed", "status")
"""``make``: int make(row, words, stream), which fills in a row for the key that stands there, ``words`` being key and
places of the call; ``mask``: the number of rows, a power of
two, minus 1; ``failed``: how many products the library refused when they were called, ``status``: what it said last."""
BIAS_POINTER = 8
"""The library's attribute of a descriptor that holds where the bias lies."""
