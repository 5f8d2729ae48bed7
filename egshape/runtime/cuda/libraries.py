"""Libraries of the toolkit, which wheels or the system put somewhere."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


def functions_of(names: Sequence[str], functions: Sequence[str]) -> Mapping[str, int] | None:
    """The addresses of a library's functions; None where it is not installed or lacks one. ``names``: those of its
    files, the newest first."""
    for place in (*_wheels(names), *names):
        try:
            library = ctypes.CDLL(str(place))
            return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in functions}
        except (OSError, AttributeError):
            continue
    return None


def _wheels(names: Sequence[str]) -> Iterator[Path]:
    """Where wheels of the toolkit put it, the newest first."""
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for name in names:
            yield from sorted(Path(folder).glob(f"*/lib/{name}"), reverse=True)
