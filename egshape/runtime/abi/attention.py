"""Attention of cuDNN: what native code says of a call."""

from __future__ import annotations

KINDS = ("f16", "bf16")
"""Dtypes; a call has their number."""
TENSORS = ("queries", "keys", "values", "out")
SIZES = ("batch", "heads", "groups", "rows", "columns", "depth", "width")
WORDS = (
    "kind",
    "causal",
    "scale",
    *SIZES,
    *(f"{tensor}_{word}" for tensor in TENSORS for word in ("place", "batch", "head", "row")),
)
"""Words of a call: the dtype; whether keys behind a row's own number count nothing; what scores are multiplied by (the
bits of a double); sizes; of each tensor its address, and how many elements its batches, heads and rows lie apart."""
