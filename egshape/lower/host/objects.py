"""The entry that Python calls: what runtime/native/host_arrays.c, which reads its arrays, must know of a program."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.ir.types import itemsize
from egshape.plan.ir.program import Program


def python_entry(program: Program, late: Sequence[bool]) -> str:
    """``i32 egshape_python(ptr call, ptr inputs, ptr outputs, ptr layout)``, and the table of a program
    (runtime/abi/call.py, PROGRAM). late: outputs whose size is not known at the entry."""
    words = [len(program.inputs), len(program.outputs)]
    for port, given in zip((*program.inputs, *program.outputs), (*[False] * len(program.inputs), *late), strict=True):
        words += [len(port.shape), itemsize(port.buffer.dtype), int(not given)]
    table = ", ".join(f"i64 {word}" for word in words)
    return f"""@egs_program = internal constant [{len(words)} x i64] [{table}]
define i32 @egshape_python(ptr %call, ptr %inputs, ptr %outputs, ptr %layout) {{
  %code = tail call i32 @egs_python(ptr %call, ptr %inputs, ptr %outputs, ptr %layout, ptr @egs_program, \
ptr @egshape_entry)
  ret i32 %code
}}
"""
