"""The known names that a misspelt one is like, for hints."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def nearest(name: str, names: Iterable[str]) -> str:
    """The known name that a misspelt one is most like, "" if none is."""
    known = {_plain(each): each for each in sorted(names, reverse=True)}
    found = get_close_matches(_plain(name), list(known), 1, 0.6)
    return known[found[0]] if found else ""


def near(name: str, names: Iterable[str], otherwise: int = 0) -> list[str]:
    """The three known names that a misspelt one is most like; if none is, the first ``otherwise`` of them."""
    known = list(names)
    return get_close_matches(name, known, 3, 0.5) or known[:otherwise]


def meant(name: str, names: Iterable[str], otherwise: str) -> str:
    """A hint that names the nearest known name, else another hint."""
    found = nearest(name, names)
    return f"did you mean {found}?" if found else otherwise
