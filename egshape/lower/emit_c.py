"""A program as a C header and a shared library that holds its weights, for C and C++."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egshape.atomic import write_atomic
from egshape.ir.types import NARROW
from egshape.lower.llvm import native
from egshape.runtime.abi.call import ALIGN, ERROR_WORDS, TYPES, WORDS
from egshape.runtime.abi.header import declared

_C_TYPES = {
    "i1": "uint8_t",
    "f32": "float",
    "f64": "double",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    **dict.fromkeys(NARROW, "uint8_t"),
    **{f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
    **{f"ui{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
}


def c_name(name: str) -> str:
    """A name as C has them."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII) or "model"
    return f"m_{name}" if name[0].isdigit() else name


def write(
    folder: str | Path,
    manifest: Mapping[str, Any],
    codes: Sequence[bytes],
    constants: Sequence[np.ndarray],
    machine: native.Machine,
    threads: int,
) -> list[Path]:
    """Write ``NAME.h`` and ``libNAME.so`` to a folder; their paths. Raises EgshapeError if they cannot be linked."""
    name = c_name(manifest["name"])
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch, "weights.bin")
        offsets = _pack(weights, constants)
        glue = native.object_code(_glue(name, offsets), machine)
        library = native.shared_library([*codes, native.library_object(machine), glue], _embedded(weights))
    paths = [Path(folder, f"{name}.h"), Path(folder, f"lib{name}.so")]
    write_atomic(paths[0], _header(name, manifest, threads))
    write_atomic(paths[1], library)
    return paths


def _pack(path: Path, constants: Sequence[np.ndarray]) -> list[int]:
    """Write all constants to one file, each aligned; where each begins."""
    offsets = []
    with path.open("wb") as file:
        for array in constants:
            file.write(bytes(-file.tell() % ALIGN))
            offsets.append(file.tell())
            if array.size:
                np.ascontiguousarray(array).tofile(file)
        file.write(bytes(ALIGN))
    return offsets


def _embedded(weights: Path) -> str:
    """Assembler text of a section that holds a file."""
    place = str(weights).replace("\\", "\\\\").replace('"', '\\"')
    return (
        f'.section .rodata.egs,"a"\n.balign {ALIGN}\n.hidden egs_weights\n.globl egs_weights\negs_weights:\n'
        f'.incbin "{place}"\n.section .note.GNU-stack,"",%progbits\n'
    )


def _glue(name: str, offsets: Sequence[int]) -> str:
    """The functions under the program's own name, and the table of its constants."""
    entries = ", ".join(f"ptr getelementptr (i8, ptr @egs_weights, i64 {offset})" for offset in offsets) or "ptr null"
    return f"""@egs_weights = external hidden global i8
@egs_constants = internal constant [{len(offsets) or 1} x ptr] [{entries}]
declare i32 @egshape_entry(ptr)
declare ptr @egshape_pool(i32)
declare void @free(ptr)
define i32 @{name}_run(ptr %call) {{
  %constants = getelementptr i64, ptr %call, i64 {WORDS.index("constants")}
  store ptr @egs_constants, ptr %constants
  %code = call i32 @egshape_entry(ptr %call)
  ret i32 %code
}}
define ptr @{name}_pool(i32 %threads) {{
  %pool = call ptr @egshape_pool(i32 %threads)
  ret ptr %pool
}}
define void @{name}_release(ptr %call) {{
  %arena = load ptr, ptr %call
  call void @free(ptr %arena)
  store ptr null, ptr %call
  %room = getelementptr i64, ptr %call, i64 {WORDS.index("room")}
  store i64 0, ptr %room
  ret void
}}
"""


def _header(name: str, manifest: Mapping[str, Any], threads: int) -> str:
    inputs, outputs = manifest["inputs"], manifest["outputs"]
    guard = f"EGSHAPE_{name.upper()}_H"
    fields = "\n".join(f"    {declared(TYPES.get(word, 'int64_t '), word)};" for word in WORDS)
    rows = [*_ports("input", inputs, "sizes"), *_ports("output", outputs, "shapes")]
    checks = ", ".join(_string(check["message"]) for check in manifest["checks"]) or '""'
    kinds = (
        ", ".join(
            _string("".join("f" if kind == "f64" else "i" for kind in check["args"])) for check in manifest["checks"]
        )
        or '""'
    )
    axes = [sum(len(port["shape"]) for port in ports) for ports in (inputs, outputs)]
    numbers = {
        "INPUTS": len(inputs),
        "OUTPUTS": len(outputs),
        "INPUT_AXES": axes[0],
        "OUTPUT_AXES": axes[1],
        "ERROR_WORDS": ERROR_WORDS,
        "THREADS": threads,
    }
    enum = ", ".join(f"{name.upper()}_{key} = {value}" for key, value in numbers.items())
    return _HEADER.format(
        name=name,
        guard=guard,
        fields=fields,
        ports="\n".join(f"   {row}" for row in rows),
        enum=enum,
        checks=checks,
        kinds=kinds,
        cpu=manifest["cpu"],
    )


def _ports(what: str, ports: Sequence[Mapping[str, Any]], table: str) -> list[str]:
    found, at = [], 0
    for k, port in enumerate(ports):
        shape = ", ".join(port["shape"])
        axes = f"{table}[{at}..{at + len(port['shape']) - 1}]" if port["shape"] else "no axes"
        found.append(f"{what}s[{k}]: {_C_TYPES[port['dtype']]} [{shape}], {axes}: {port['name']}".replace("*/", "* /"))
        at += len(port["shape"])
    return found


def _string(text: str) -> str:
    """A C string literal."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{escaped}"'


_HEADER = """/* {name}: a compiled tensor program, for the CPU {cpu} and its like.
{ports}

   Sizes of inputs are given in `sizes`, axis after axis; `shapes` receives those of the outputs. Arrays are row-major.
   outputs[k] may be memory of yours of rooms[k] bytes; where it is NULL or too small, the program allocates with
   malloc, and what it allocated is yours to free. A call structure is used by one thread at a time. */
#ifndef {guard}
#define {guard}

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {{
#endif

#ifndef EGSHAPE_CALL
#define EGSHAPE_CALL
typedef struct egshape_call {{
{fields}
}} egshape_call;
#endif

enum {{ {enum} }};

/* 0, or what {name}_explain puts into words. */
int32_t {name}_run(egshape_call *call);
/* Threads for `pool`, the caller counted; set `threads` to the same number. They sleep while nothing runs and live as
   long as the process, so make one pool. */
void *{name}_pool(int32_t threads);
/* Frees the memory that calls share. */
void {name}_release(egshape_call *call);

static inline void {name}_explain(const egshape_call *call, int32_t code, char *text, size_t size) {{
    static const char *const checks[] = {{ {checks} }};
    static const char *const kinds[] = {{ {kinds} }};
    static const char *const others[] = {{
        "", "", "an axis of an input has not the size that its type wants", "there is not enough memory",
        "a buffer would be larger than 2**46 bytes, or a size too large to compute with",
        "a size would be negative", "an output has another shape" }};
    const int64_t *words = call->error;
    if (code != 1) {{
        snprintf(text, size, "%s", code >= 0 && code < 7 ? others[code] : "the program failed");
        return;
    }}
    const char *message = checks[words[0]];
    size_t at = 0;
    while (*message && at + 1 < size) {{
        size_t number = (size_t)(message[0] == '{{' ? message[1] - '0' : 99);
        if (number < 10 && message[2] == '}}' && number < strlen(kinds[words[0]])) {{
            double value;
            memcpy(&value, &words[number + 1], sizeof value);
            int n = kinds[words[0]][number] == 'f' ? snprintf(text + at, size - at, "%g", value)
                  : snprintf(text + at, size - at, "%lld", (long long)words[number + 1]);
            at = at + (size_t)n < size ? at + (size_t)n : size - 1;
            message += 3;
        }} else {{
            text[at++] = *message++;
        }}
    }}
    text[at < size ? at : size - 1] = 0;
}}

#ifdef __cplusplus
}}
#endif
#endif
"""
