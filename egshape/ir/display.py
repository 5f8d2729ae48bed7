"""How notebooks and terminals show our objects, and what graphs can be asked. What does so lies above all that is
shown, so it is found by name when it is asked for: nothing below depends on it."""

from __future__ import annotations

import importlib
from functools import singledispatch
from typing import Any

_HOME = "egshape.notebook"
_TEXT = "egshape.show"
_COUNT = "egshape.measure"
_ANNOTATE = "egshape.annotate"


@singledispatch
def text(thing: object) -> str:
    """The text of a graph: ``ir/text.py``, which stands on it, says here how one is written."""
    raise TypeError(f"a {type(thing).__name__} has no text")


def html(thing: object) -> str:
    """HTML for a graph, a result, a proof or an explanation, as Jupyter shows it."""
    found: str = importlib.import_module(_HOME).html(thing)
    return found


def annotated(graph: object, value: str, type: str) -> Any:
    """A graph with what is said of a value of it."""
    return importlib.import_module(_ANNOTATE).annotate(graph, {value: type})


def counted(graph: object) -> str:
    """How large a graph is, in the terms of the model that it was read of."""
    found: str = importlib.import_module(_COUNT).counted(graph)
    return found


def verdict(answer: dict[str, object]) -> str:
    """The text of a proof or an explanation, from its JSON, as the command line prints it."""
    return "\n".join(importlib.import_module(_TEXT).verdict(answer))
