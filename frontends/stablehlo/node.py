"""Ops and blocks of a module as plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from egshape.frontends.stablehlo.attributes import TensorInfo
from egshape.ir.graph import Location


@dataclass(frozen=True, slots=True)
class Node:
    """One op. Values are numbers, unique in the module."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[TensorInfo, ...]
    attributes: Mapping[str, Any]
    regions: tuple[Body, ...]
    location: Location
    single: str = ""
    """The text of an op that is carried through as it came, as a module of its own (see ``single``)."""
    captured: tuple[int, ...] = ()
    """The values around that the regions of such an op read."""
    instead: Callable[[], Node] | None = None
    """Gives the op as it is carried through, where a type of it is one that our op may not be defined for."""
    names: tuple[str, ...] = ()
    """What the text calls the results, where these are words: numbers are the printer's, not the author's."""


@dataclass(frozen=True, slots=True)
class Body:
    """A block: its arguments, its ops without the terminator, and what the terminator returns."""

    args: tuple[int, ...]
    types: tuple[TensorInfo, ...]
    locations: tuple[Location, ...]
    nodes: tuple[Node, ...]
    results: tuple[int, ...]
