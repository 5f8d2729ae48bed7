"""The entries around a program's own, and what the runtime must know of it for them: that Python calls, whose arrays
runtime/native/host_arrays.c reads, and that runs it on some images after the others (runtime/native/images.c)."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.ir.types import itemsize
from egshape.plan.ir.program import Program


def python_entry(program: Program, late: Sequence[bool]) -> str:
    """``i32 egshape_python(ptr call, ptr inputs, ptr outputs, ptr layout)``, and the table of a program
    (runtime/abi/call.py, PROGRAM). late: outputs whose size is not known at the entry."""
    given = [*[True] * len(program.inputs), *(not each for each in late)]
    return f"""{_table("egs_program", program, (), given)}
define i32 @egshape_python(ptr %call, ptr %inputs, ptr %outputs, ptr %layout) {{
  %code = tail call i32 @egs_python(ptr %call, ptr %inputs, ptr %outputs, ptr %layout, ptr @egs_program, \
ptr @egshape_entry)
  ret i32 %code
}}
"""


def entry_in_parts(program: Program) -> str:
    """``i32 egshape_entry(ptr call)`` of a program on images, around ``egs_whole``, and its table
    (runtime/abi/call.py, IMAGES)."""
    number, _, _, _ = program.symbols[program.images]
    axis = sum(len(port.shape) for port in program.inputs[:number])
    constants = sum(0 if buffer.data is None else buffer.data.nbytes for buffer in program.constants)
    ports = (*program.inputs, *program.outputs)
    cut = [bool(port.shape) and program.images in port.shape[0].symbols() for port in ports]
    return f"""{_table("egs_images_table", program, (axis, constants), cut)}
define i32 @egshape_entry(ptr %call) {{
  %code = tail call i32 @egs_images(ptr %call, ptr @egs_images_table, ptr @egs_whole)
  ret i32 %code
}}
"""


def _table(name: str, program: Program, first: Sequence[int], flags: Sequence[bool]) -> str:
    """A constant: some words, how many inputs and outputs there are, then rank, width and a flag of each."""
    words = [*first, len(program.inputs), len(program.outputs)]
    for port, flag in zip((*program.inputs, *program.outputs), flags, strict=True):
        words += [len(port.shape), itemsize(port.buffer.dtype), int(flag)]
    return f"@{name} = internal constant [{len(words)} x i64] [{', '.join(f'i64 {word}' for word in words)}]"
