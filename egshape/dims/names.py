"""Names of symbols in text."""

from __future__ import annotations

import re

FUNCTIONS = ("bcast", "cdiv", "ceildiv", "floordiv", "max", "min", "mod")
RESERVED = frozenset((*FUNCTIONS, "float_of", "float_whole", "in", "or", "likely"))

_PLAIN = re.compile(r"(?:%?[A-Za-z_]\w*|%\d+)(?:\.\d+)?", re.ASCII)
_AXIS = re.compile(r"(.+)\.(\d+)", re.DOTALL)


def quote_name(name: str) -> str:
    """The name as it stands in text: backquoted where it is no identifier, its axis after the quotes."""
    if _PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    axis = _AXIS.fullmatch(name)
    if axis:
        return f"{_backquoted(axis[1])}.{axis[2]}"
    return _backquoted(name)


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
