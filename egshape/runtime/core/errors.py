"""What a compiled graph says when it cannot run."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from egshape.runtime.abi.call import (
    AXIS,
    CHECK,
    ERROR_WORDS,
    HOST_SIZE,
    MEMORY,
    NO_SIZE,
    REDZONE,
)


class RunError(Exception):
    """A compiled graph cannot run on these inputs, or an artifact not here. code: input, check, memory, size,
    invalid-size, artifact. ``where`` names the op or the file."""

    def __init__(self, message: str, code: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message, self.code, self.where = message, code, where


def described(code: int, words: list[int], manifest: Mapping[str, Any]) -> tuple[str, str, str]:
    """Message, code and place of what the native entry reported."""
    if code == CHECK:
        check = manifest["checks"][words[0]]
        message = check["message"]
        for k, kind in enumerate(check["args"]):
            message = message.replace(f"{{{k}}}", _shown(words[k + 1] if k + 1 < ERROR_WORDS else 0, kind))
        return message, "check", check["where"]
    if code == AXIS:
        port, axis = manifest["inputs"][words[0]], words[1]
        wanted = port["shape"][axis]
        shown = wanted if wanted == str(words[2]) else f"{wanted} = {words[2]}"
        return f"axis {axis} of input {port['name']!r} has size {words[3]}, its type wants {shown}", "input", ""
    if code == NO_SIZE:
        size = manifest["sizes"][words[0]]
        return f"the size {size['name']} would be {words[1]}, which is no size", "invalid-size", size["where"]
    if code == HOST_SIZE:
        row = manifest["host_calls"][words[0]]
        which = f"axis {words[2]} of result {words[1]} of {row['target']}"
        return f"{which} has size {words[4]}, not {words[3]}", "host-call", row["where"]
    if code == REDZONE:
        kernel, buffer = manifest["kernels"][words[0]]["name"], manifest["zones"][words[1]]
        return f"the kernel {kernel} wrote outside of the buffer {buffer}", "red-zone", ""
    if code == MEMORY:
        return "there is not enough memory", "memory", ""
    return "a buffer would be larger than 2**46 bytes, or a size too large to compute with", "size", ""


def _shown(word: int, kind: str) -> str:
    if kind == "f64":
        return str(struct.unpack("d", struct.pack("q", word))[0])
    if kind == "i1":
        return str(bool(word))
    return str(word % 2**64 if kind == "ui64" else word)
