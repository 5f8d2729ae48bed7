"""What the groups of ``benchmarks.cuda`` share: rows, what a group runs with, the variants of a case."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cuda.bench import Bench
from egshape.runtime.cuda.function import CudaFunction

Case = Mapping[str, Any]
Sizes = Mapping[str, int]
POISON = 0xFB
INDEX = "index.json"
"""The list of programs in an archive of them."""


@dataclass(frozen=True)
class Row:
    """What was found of a case at some sizes. ``status``: ok, WRONG, error, skipped; ``values``: microseconds,
    ratios and the like by name."""

    group: str
    case: str
    sizes: str = ""
    status: str = "ok"
    note: str = ""
    values: Mapping[str, float] = field(default_factory=dict)


class Broken(Exception):
    """An error that ends a process's use of the device."""


@dataclass(frozen=True)
class Context:
    """What a group runs with. ``keep`` takes profiles and other long texts, ``began`` the names of cases as they are
    begun; ``done``: cases that were begun before; ``until``: the time, by ``time.monotonic``, at which it should have
    ended; ``compiler``: options of torch.compile, None to leave it out."""

    bench: Bench
    keep: Callable[[str], None]
    began: Callable[[str], None] = lambda _: None
    done: frozenset[str] = frozenset()
    until: float = math.inf
    compiler: Mapping[str, Any] | None = field(default_factory=dict)

    def cases(self, group: str) -> Iterator[Case]:
        """The cases of a group that were not begun yet, while there is time."""
        for case in json.loads((self.bench.folder / "cases.json").read_text()):
            if case["group"] == group and self.begins(case["name"]):
                yield case

    def begins(self, name: str) -> bool:
        """Whether a case is to be run now: it was not yet, and there is time; notes that it is."""
        if name in self.done or not self.has_time():
            return False
        self.began(name)
        return True

    def points(self, case: Case) -> Iterator[Sizes]:
        """The sizes at which a case is timed, while there is time."""
        for sizes in case["points"]:
            if self.has_time():
                yield sizes

    def guarded(self, group: str, name: str, rows: Iterator[Row]) -> Iterator[Row]:
        """Rows of a case, the last of which says why there are no more if there is an error. Raises Broken where the
        device takes no more work after it."""
        try:
            yield from rows
        except Exception as error:
            lines = " ".join(str(error).split())
            yield Row(group, name, status="error", note=f"{type(error).__name__}: {lines[:300]}")
            if not self.bench.healthy():
                raise Broken(f"the device takes no more work after {name}") from error

    def has_time(self) -> bool:
        """Whether a group may begin something new."""
        return time.monotonic() < self.until


def functions(bench: Bench, case: Case, sizes: Sizes | None = None) -> dict[str, CudaFunction]:
    """The variants of a case by name, those whose facts hold at some sizes; the first is the plain one."""
    found = {}
    for kind, file in case["files"].items():
        if sizes is None or all(sizes[name] % divisor == 0 for name, divisor in case["needs"][kind]):
            os.environ.update(case["switches"][kind])
            try:
                found[kind] = bench.function(file)
                found[kind].load()
            finally:
                for name in case["switches"][kind]:
                    os.environ.pop(name, None)
    return found


def sizes_text(sizes: Sizes) -> str:
    """Sizes as a cell."""
    return " ".join(f"{name} {size}" for name, size in sizes.items())
