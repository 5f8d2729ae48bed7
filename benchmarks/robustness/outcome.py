"""What becomes of a program, as one line of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

OUTCOMES = {
    "right": "the result agrees with the original at every size tried, and rejects what it rejects",
    "opaque": "right, with ops that are carried through and run elsewhere",
    "budget": "right, and a limit of time, nodes or memory ended the search",
    "rejected-clearly": "one EgshapeError",
    "no-oracle": "what it is compared with cannot run the original",
    "fallback": "a fault of egshape: the original given back, or an error that is no EgshapeError",
    "wrong": "the result differs, or rejects what the original accepts",
    "lost-check": "the result accepts what the original rejects",
    "hang": "not done within 1.2 times the limit plus 1 s",
    "killed": "the process ended, or grew beyond its memory",
}
"""Every outcome with its meaning, from good to bad."""

FAULTS = ("fallback", "wrong", "lost-check", "hang", "killed")
"""Outcomes that no program may have."""


@dataclass(frozen=True)
class Row:
    """One program. ``seconds``: of each stage. ``opaque``: ops that stay as they are. ``points``: sizes that both
    versions accept, ``rejected``: that both reject. ``ops``: before and after; (0, 0) if it was not loaded."""

    corpus: str
    program: str
    outcome: str
    detail: str = ""
    opaque: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    peak_mb: float = 0.0
    points: int = 0
    rejected: int = 0
    ops: tuple[int, int] = (0, 0)

    @property
    def fault(self) -> bool:
        """Whether it is a fault of egshape."""
        return self.outcome in FAULTS

    @property
    def ours(self) -> float:
        """Seconds in egshape: loading, optimizing, saving."""
        return sum(self.seconds.get(stage, 0.0) for stage in OURS)


OURS = ("load", "optimize", "save")
"""The stages that are egshape's own; the others belong to what it is compared with."""


def to_json(row: Row) -> str:
    """One line."""
    return json.dumps(asdict(row))


def from_json(line: str) -> Row:
    """The row of a line."""
    held = json.loads(line)
    return Row(**{**held, "opaque": tuple(held["opaque"]), "ops": tuple(held["ops"])})


def append(path: Path, row: Row) -> None:
    """Add a row to a file of JSON lines in one write, so that it is there in full or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, (to_json(row) + "\n").encode())
    finally:
        os.close(handle)


def read(path: Path) -> list[Row]:
    """The rows of a file, the last one of each program; none if there is no file. Raises ValueError for a line that is
    no row."""
    lines: Iterable[str] = path.read_text().splitlines() if path.is_file() else ()
    rows = {}
    for number, line in enumerate(lines, 1):
        try:
            row = from_json(line)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number} is no row ({error}): delete it, or the file") from None
        rows.pop(row.program, None)
        rows[row.program] = row
    return list(rows.values())
