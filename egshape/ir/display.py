"""How notebooks and terminals show our objects. What draws lies above everything that is shown, so it is found by name
when it is asked for: nothing below depends on it."""

from __future__ import annotations

import importlib

_HOME = "egshape.notebook"
_TEXT = "egshape.show"


def html(thing: object) -> str:
    """HTML for a graph, a result, a proof or an explanation, as Jupyter shows it."""
    text: str = importlib.import_module(_HOME).html(thing)
    return text


def verdict(answer: dict[str, object]) -> str:
    """The text of a proof or an explanation, from its JSON, as the command line prints it."""
    return "\n".join(importlib.import_module(_TEXT).verdict(answer))
