"""Choices of the compiler that the environment makes otherwise, by words."""

from __future__ import annotations

import os
from collections.abc import Sequence

from egshape.errors import EgshapeError


def wished(name: str, words: Sequence[str]) -> str | None:
    """The word that the environment has for a choice; None where the planner chooses.

    Raises EgshapeError for another word."""
    found = os.environ.get(name, "")
    if found and found not in words:
        known = " nor ".join(map(repr, words))
        raise EgshapeError(
            f"{name}={found!r} is neither {known}", where=name, hint="unset it, and the compiler chooses"
        )
    return found or None
