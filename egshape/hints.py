"""Ways out as commands: what is said can be pasted into a shell, and works before the package is in an index."""

from __future__ import annotations

import re
import shlex
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

_PLAIN = re.compile(r'([^`$"\\!]|!(?=[= ]))*')
"""What a shell leaves alone between double quotes, one that somebody types into too."""


def option(name: str, text: str) -> str:
    """An option with its text: ``--assume "n % 8 == 0"``."""
    return f'{name} "{text}"' if _PLAIN.fullmatch(text) else f"{name} {shlex.quote(text)}"


def install(extra: str, *more: str) -> str:
    """The command that brings what an extra names, and further packages. Where egshape is installed pip looks for the
    extra there, not in an index; a checkout that is only on the path is named by its folder."""
    return " ".join(["pip install", *map(shlex.quote, (f"{_source()}[{extra}]", *more))])


@cache
def _source() -> str:
    folder = Path(__file__).resolve().parents[1]
    try:
        distribution("egshape")
    except PackageNotFoundError:
        return str(folder) if (folder / "pyproject.toml").is_file() else "egshape"
    return "egshape"
