"""Text of a program for the engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A few commands of the engine's language, and the place that an error in them is reported at."""

    text: str
    where: str = ""
