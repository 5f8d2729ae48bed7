"""What a model format gives: the protocol of a frontend, and how it is asked to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from egshape.ir.graph import Block, Graph


@dataclass(frozen=True, slots=True)
class Rank:
    """How many axes a tensor has of which the model does not say it."""

    axes: int


Forms = Mapping[str, int | str | Rank | None]
"""Of inputs of which the model leaves it open, by name: the length of a sequence; for an optional value ``"tensor"``, a
length, or None for one that is left out; the rank of a tensor."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How a model is written, where its format has a choice: ``opset``, whether weights go to a file beside it, and
    whether checks become ``"nodes"``, are listed in the ``"metadata"``, or are left out (``"none"``)."""

    opset: int | None = None
    external_data: bool | None = None
    checks: str = "nodes"


_WHOLE: ContextVar[bool] = ContextVar("whole", default=False)


@contextmanager
def kept_whole(whole: bool = True) -> Iterator[None]:
    """Programs of torch that are read meanwhile keep an op that is several of ours as one composite, so that it goes
    out as it came."""
    before = _WHOLE.set(whole)
    try:
        yield
    finally:
        _WHOLE.reset(before)


def keeps_whole() -> bool:
    """Whether that is so here."""
    return _WHOLE.get()


_SLACK = 4096
"""Bytes of constants that a model may gain: folded vectors of sizes."""


def swells(after: int, before: int) -> bool:
    """Whether constants of so many bytes are more than a few lists of sizes beyond what there was."""
    return after > before + max(_SLACK, before // 100)


@dataclass(frozen=True, slots=True)
class Cost:
    """How many statements or nodes a graph is written as, but for constants, what they are called, the bytes of its
    constants, and how many further nodes its checks are; None where they are told from other statements by nothing."""

    count: int
    unit: str
    bytes: int = 0
    checks: int | None = None

    def exceeds(self, other: Cost) -> bool:
        """Whether it is more than another: nodes first; bytes only beyond a few constants of sizes."""
        return self.count > other.count or swells(self.bytes, other.bytes)


@dataclass(frozen=True, slots=True)
class Parts:
    """How many parts of each kind the model had of which a block was made: a graph's ``own``, or its ``parts``."""

    body: Block
    kinds: Counter[str]


def as_read(graph: Graph) -> Counter[str] | None:
    """The parts of the model of a graph that is as it was read, as its file has them."""
    parts = graph.own if isinstance(graph.own, Parts) else getattr(graph.own, "parts", None)
    return parts.kinds if isinstance(parts, Parts) and parts.body is graph.body else None


class Frontend(Protocol):
    """A format of models. What needs the format's own library imports it when it is called, and raises
    MissingDependency where it is not installed."""

    @property
    def name(self) -> str:
        """What the metadata of its graphs call it (``metadata["format"]``)."""

    @property
    def forms(self) -> tuple[str, ...]:
        """The names of its forms, which are suffixes of files too."""

    @property
    def objects(self) -> str:
        """The model objects that it takes, for a person."""

    def recognises(self, model: object) -> bool:
        """Whether a model object is its own."""

    def begins(self, data: bytes) -> bool:
        """Whether bytes can only be a model of this format."""

    def read(self, source: Path | bytes, name: str, forms: Forms | None) -> Graph:
        """The graph of a model. Raises EgshapeError naming place, cause and way out."""

    def beside(self, path: Path) -> tuple[Path, ...]:
        """The other files that the model at a path is in. Raises EgshapeError for one that cannot be read."""

    def read_object(self, model: object, forms: Forms | None, names: Sequence[str] = ()) -> Graph:
        """The graph of a model object that it recognises; ``names``: of its inputs, where it does not say them. Raises
        as ``read``."""

    def save(self, graph: Graph, path: Path, form: str, how: Writing) -> tuple[str, ...]:
        """Write a graph, in full or not at all; what of it the file does not hold, as notes. Raises EgshapeError for
        a graph that the format cannot hold, and a file that cannot be written."""

    def in_part(self, graph: Graph, result: Graph) -> tuple[Graph, tuple[str, ...]] | None:
        """The model of a graph read once more, so that what of it a result makes larger can only stay as it came, and
        the places of that; None where there is no such way."""

    def kinds(self, model: Graph | Path | bytes) -> tuple[str, Counter[str]]:
        """What the parts of a model are called, and how many of each kind a model file has, or a graph as it would be
        written, checks included: as a viewer counts them. Raises EgshapeError where it cannot be read or written."""

    def titles(self, graph: Graph) -> Mapping[str, str]:
        """What the model calls what stands at a location (as text), where that is one part of it and several ops of
        ours, or one of another name; a graph that was not read of a model has none."""

    def nodes(self, graph: Graph) -> Mapping[str, str]:
        """What the parts of the model are called, as it was read or as it would be written, by the name of each value
        that one gives; none where parts are ops of ours. Raises EgshapeError where it cannot be written."""

    def cost(self, graph: Graph) -> Cost:
        """What a graph costs as a model of this format, constants not counted. Raises EgshapeError where it cannot hold
        it."""
