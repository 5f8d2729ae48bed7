"""The entry that Python calls with arrays of a device (runtime/native/device_arrays.c)."""

from __future__ import annotations

ENTRY = """define ptr @egshape_device(ptr %call, ptr %ins, ptr %outs, ptr %api, i64 %fixed) {
  %found = tail call ptr @egs_device(ptr %call, ptr %ins, ptr %outs, ptr %api, i64 %fixed, ptr @egs_program, \
ptr @egshape_entry)
  ret ptr %found
}
"""
"""``api``: OBJECT_WORDS, which runtime/cuda/objects.py fills in; null ``outs``: no arrays for results are given.
``fixed``: 1, the call stays on the stream of its tables, else it belongs to the one on which the owner of a foreign
array works now; 2, results are the device's even where no input is, else such calls are left to Python."""
