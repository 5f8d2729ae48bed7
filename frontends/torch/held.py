"""Tensors of a model that a graph takes as inputs, and that stay the model's where the graph becomes a module again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from egshape.frontends.frontend import Parts

NEW = ".new"
"""Behind the name of a buffer that the program changes: the output that holds its new value."""


@dataclass(frozen=True)
class Held:
    """Tensors that stay those of the model from which a graph came: buffers that it changes, and parameters that are
    to be trained, by the names of the inputs that they are; and how many calls the program had."""

    tensors: Mapping[str, Any]
    parts: Parts | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Held, ({}, self.parts)  # the tensors are the model's: a graph of another process takes them as inputs
