"""The e-graph at one moment, as plain data."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

# Values read back: class ids, primitives, and tuples for the contents of a Vec.
Row = tuple[Any, ...]


class ENode(NamedTuple):
    """One e-node: the function and its arguments (class ids, primitives, tuples for Vec)."""

    function: str
    args: Row


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tables of an e-graph at one moment. Those that were not read then are read when they are first looked at, as
    long as the e-graph stands as it did.

    Class ids are small ints, unique over all sorts, and mean nothing beyond this snapshot. Rows hold the arguments and
    then, except for relations, the output; subsumed rows are left out. A Vec is a tuple of its elements."""

    tables: dict[str, Sequence[Row]]
    constructors: tuple[str, ...]
    more: Callable[[str], Sequence[Row]]
    """Reads another table. Raises InternalError once the e-graph has changed."""

    def table(self, name: str) -> Sequence[Row]:
        """The live rows of a function, constructor or relation."""
        rows = self.tables.get(name)
        if rows is None:
            rows = self.tables[name] = self.more(name)
        return rows

    def classes(self, names: Iterable[str] | None = None) -> dict[int, list[ENode]]:
        """E-nodes by class, of the given constructors (default: all of them)."""
        found: dict[int, list[ENode]] = {}
        with without_collecting():
            for name in self.constructors if names is None else names:
                for row in self.table(name):
                    found.setdefault(row[-1], []).append(ENode(name, row[:-1]))
        return found

    def mapping(self, name: str) -> dict[Any, Any]:
        """A function as a dict; the key is the argument itself where there is one, else a tuple."""
        rows = self.table(name)
        if rows and len(rows[0]) == 2:
            return dict(rows)
        return {row[:-1]: row[-1] for row in rows}


@contextmanager
def without_collecting() -> Iterator[None]:
    """A bulk conversion allocates many live containers; collecting garbage in the middle only costs time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
