"""The tables of this folder as a C header, for the sources in ``egshape/runtime/native``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from egshape.runtime.abi import call, device, products

_READ = "int32_t (*{})(void *, void *)"
_NUMBERS = {
    "MEMORY": call.MEMORY,
    "OBJECT": call.OBJECT,
    "MEASURED": call.MEASURED,
    "MEASURE": call.MEASURE,
    "ERROR_WORDS": call.ERROR_WORDS,
    "DEVICE_STREAM": call.DEVICE_STREAM,
    "ALIGN": call.ALIGN,
    "ARRAY_ALIGN": call.ARRAY_ALIGN,
    "REDZONE_PATTERN": call.REDZONE_PATTERN,
    "DONE": call.DONE,
    "CPU": call.CPU,
    "CUDA": call.CUDA,
    "PLAIN": call.PLAIN,
    "LEGACY": call.LEGACY,
    "PER_THREAD": call.PER_THREAD,
    "HOSTED": device.HOSTED,
    "KEPT": device.KEPT,
    "GRAPH_SEEN": device.GRAPH_SEEN,
    "GRAPH_WAYS": device.GRAPH_WAYS,
    "GRAPH_LIVE": device.GRAPH_LIVE,
    "BIAS_POINTER": products.BIAS_POINTER,
    "KIND_F64": products.KINDS.index(("f64", "f64")),
}
_DOUBLES = {"bytes": "double ", "operations": "double "}


def declared(type: str, name: str) -> str:
    """A declarator. ``type``: what stands before the name, or a text with a place for it."""
    return type.format(name) if "{}" in type else type + name


def _struct(name: str, words: Sequence[str], types: Mapping[str, str], more: Sequence[str] = ()) -> str:
    """A structure of 64-bit words, and what is not one word behind them."""
    fields = [declared(types.get(word, "int64_t "), word) for word in words]
    lines = "".join(f"    {field};\n" for field in (*fields, *more))
    return f"struct egs_{name} {{\n{lines}}};\n"


def text() -> str:
    """The header."""
    fields = len(call.ARRAY_FIELDS)
    array = "struct egs_array_fields array"
    structs = [
        _struct("array_fields", call.ARRAY_FIELDS, {"array": "void *"}),
        _struct("reader", call.READER, {"type": "void *", "read": _READ}),
        _inside(
            "layout",
            array,
            call.LAYOUT[fields:],
            {
                "types": "const struct egs_reader *",
                "ensure": "int32_t (*{})(void)",
                "release": "void (*{})(int32_t)",
                "clear": "void (*{})(void)",
            },
        ),
        _struct("program", call.PROGRAM, {}),
        _struct("program_port", call.PROGRAM_PORT, {}),
        _struct("images", call.IMAGES, {}),
        _struct("images_port", call.IMAGES_PORT, {}),
        _struct("profile", call.PROFILE, _DOUBLES),
        _struct("result_block", device.RESULT_BLOCK, {"object": "void *", "address": "void *"}),
        _struct("result", device.RESULT, {"shape": "void *"}, ["struct egs_result_block blocks[EGS_KEPT]"]),
        _struct("device", device.WORDS, device.TYPES),
        _struct("call", call.WORDS, {**call.TYPES, "device": "struct egs_device *"}),
        _struct("graphs", device.GRAPHS, {}),
        _struct("graph_row", device.GRAPH_ROW, {"graph": "void *"}),
        _struct("log_row", device.LOG_ROW, _DOUBLES),
        _struct("log", device.LOG, {"events": "void **", "rows": "struct egs_log_row *"}),
        _struct(
            "owner",
            device.TYPE,
            {"type": "void *", "read": _READ, "queue": "int32_t (*{})(int32_t, int32_t, int64_t *)"},
        ),
        _struct("port", device.PORT, {"descr": "void *"}),
        _inside("objects", array, device.OBJECT_WORDS[fields:], device.OBJECT_TYPES),
        _struct("product_key", products.KEY, {}),
        _struct(
            "product_row",
            (),
            {},
            [
                "struct egs_product_key key",
                *(f"void *{name}" for name in products.MADE[:-1]),
                f"int64_t {products.MADE[-1]}[{products.ALGORITHM}]",
            ],
        ),
        _struct("product", (), {}, ["struct egs_product_key key", *(f"void *{name}" for name in products.POINTERS)]),
        _struct("products", products.STATE, products.TYPES),
    ]
    numbers = "".join(f"    EGS_{name} = {value},\n" for name, value in _NUMBERS.items())
    return f"""/* Written by `make native` from the tables in egshape/runtime/abi, which say what the words are. */
#ifndef EGS_ABI_H
#define EGS_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {{
{numbers}}};

{chr(10).join(structs)}
#endif
"""


def _inside(name: str, first: str, words: Sequence[str], types: Mapping[str, str]) -> str:
    """A structure that begins with another one."""
    lines = "".join(f"    {declared(types.get(word, 'int64_t '), word)};\n" for word in words)
    return f"struct egs_{name} {{\n    {first};\n{lines}}};\n"
