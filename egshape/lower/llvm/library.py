"""The functions in C that programs call (``egshape/runtime/native``), as LLVM IR that is checked in."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources

COMMON = ("host_arrays", "device_arrays", "graphs", "products", "memory", "redzones", "timing", "events", "images")
_POOLS = ("x86_64", "aarch64")
"""Kinds of processors whose threads the pool knows to put to sleep, under Linux."""
_DEFINED = re.compile(r"^define (?:hidden )?(?:noalias )?(?:noundef )?(\w+) @(egs\w+)\((.*?)\) ", re.MULTILINE)


def text(name: str) -> str:
    """The IR of a source."""
    return resources.files("egshape.runtime.native").joinpath(f"{name}.ll").read_text(encoding="utf-8")


def family(triple: str) -> str | None:
    """The processor family of a triple that has a pool; None for those without."""
    found = triple.split("-", maxsplit=1)[0]
    return found if found in _POOLS and "linux" in triple else None


def names(triple: str) -> tuple[str, ...]:
    """The sources that a machine's library is made of."""
    kind = family(triple)
    return (*COMMON, "pool", f"pool_{kind}") if kind is not None else (*COMMON, "pool_serial")


@functools.cache
def signatures() -> Mapping[str, str]:
    """Declarations of the functions that programs call."""
    found = {}
    for name in (*COMMON, "pool"):
        for result, function, arguments in _DEFINED.findall(text(name)):
            types = ", ".join(each.split()[0] for each in arguments.split(", ") if each)
            found[function] = f"declare {result} @{function}({types})\n"
    return found


def declarations(text: str) -> str:
    """Declarations of the functions that a module calls."""
    called = set(re.findall(r"@(egs\w+)", text))
    return "".join(line for name, line in signatures().items() if name in called)
