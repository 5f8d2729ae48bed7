"""Pages whose blocks are run: a fence with a title is a file, `console` holds commands and what they print, `python` is
run, and an `output` after it is what it prints; `...` stands for anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fence of the page."""

    line: int
    kind: str
    title: str
    text: str


def blocks(name: str) -> Iterator[Block]:
    """The fences of the page in order."""
    page = (DOCS / name).read_text(encoding="utf-8")
    for found in _FENCE.finditer(page):
        yield Block(page[: found.start()].count("\n") + 1, found[1], found[2] or "", found[3])


def same(shown: str, found: str) -> bool:
    """Whether output is as shown: words are compared, `...` stands for anything."""
    words = re.escape(" ".join(shown.split()))
    return re.fullmatch(re.sub(r"(\\ )?(\\\.){3}(\\ )?", ".*", words), " ".join(found.split())) is not None


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a `console` block, each with what it prints."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown
