"""The language server: the time to each answer, over a session of 30 edits of a shipped ruleset.

    python -m benchmarks.lsp [RULES]

A rule is typed at the end of the file in pieces, then words of others are broken and mended. After each edit a client
waits for what is wrong with the text, and asks what an editor asks, while the server checks the rest of a large one.
With a number, so many generated rules follow those of the file, and opening it is told apart."""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tools.lsp_client import Client, is_all
from benchmarks.tools.machine import measured_on
from egshape.show import table

FILE = Path(__file__).resolve().parents[1] / "rulesets" / "tensor" / "slice.egg"
MOST = 0.1
"""Seconds that an answer may take."""
RULE = """
; reverse(reverse(x, [0]), [0]) = x
; sound: it turns the first axis twice
(rewrite (reverse (reverse x (vec-of 0)) (vec-of 0)) x :when ((= s (ShapeOf x)))
  :ruleset tensor.slice :name "tensor.slice/typed-here")
;; example   reverse(reverse(x: [a], [0]), [0])  =>  x
;; counter   reverse(reverse(x: [a, b], [0]), [1])
"""
PIECES = 18
LARGE = """
; reverse(reverse(x, [{0}]), [{0}]) = x
; sound: it turns an axis twice
(rewrite (reverse (reverse x (vec-of {0})) (vec-of {0})) x :when ((= s (ShapeOf x)))
  :ruleset tensor.slice :name "tensor.slice/large-{0}")
;; example   reverse(reverse(x: [a], [0]), [0])  =>  x
;; counter   reverse(reverse(x: [a, b], [0]), [1])
"""


@dataclass(frozen=True)
class Edit:
    """A text in place of what stands between two places (line and column from 0)."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def edits(text: str) -> Iterator[Edit]:
    """30 edits of a text: it ends as it began, but for a rule."""
    line = text.count("\n")
    step = -(-len(RULE) // PIECES)
    place = (line, 0)
    for start in range(0, len(RULE), step):
        piece = RULE[start : start + step]
        yield Edit(place, place, piece)
        breaks = piece.count("\n")
        place = (place[0] + breaks, len(piece.rpartition("\n")[2]) + (0 if breaks else place[1]))
    for word, wrong in (("(slice", "(slcie"), ("(rewrite", "rewrite"), ("tensor.types", "tensor.typse"), ('"', "")) * 2:
        lines = text.split("\n")
        number = next(k for k, each in enumerate(lines) if word in each and (k > 6 or word == "tensor.types"))
        column = lines[number].index(word)
        yield Edit((number, column), (number, column + len(word)), wrong)
        yield Edit((number, column), (number, column + len(wrong)), word)


def session(client: Client, count: int = 30, more: int = 0) -> tuple[Mapping[str, Sequence[float]], list[list[str]]]:
    """The seconds of each answer, by what was asked, and the codes of what was wrong after each edit. ``more``: rules
    that are generated behind those of the file."""
    text = FILE.read_text(encoding="utf-8") + "".join(map(LARGE.format, range(more)))
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    began = time.perf_counter()
    uri = client.open(FILE, text)
    whole = {"textDocument": {"uri": uri}}
    outline = client.ask("textDocument/documentSymbol", whole)[1]
    found = client.diagnostics(uri, 1, part=True)
    opening = time.perf_counter() - began
    if not is_all(found):
        client.diagnostics(uri, 1)
    if more:
        seconds["documentSymbol, opening"].append(outline)
        seconds["diagnostics, opening"].append(opening)
        seconds["diagnostics, opening, all"].append(time.perf_counter() - began)
    codes = []
    for edit in list(edits(text))[:count]:
        began = time.perf_counter()
        version = client.edit(uri, edit.start, edit.end, edit.text)
        found = client.diagnostics(uri, version, part=True)
        seconds["diagnostics"].append(time.perf_counter() - began)
        for method in ("hover", "definition", "completion"):
            seconds[method].append(client.at(method, uri, edit.start)[1])
        seconds["documentSymbol"].append(client.ask("textDocument/documentSymbol", whole)[1])
        spaces = {"tabSize": 2, "insertSpaces": True}
        seconds["formatting"].append(client.ask("textDocument/formatting", {**whole, "options": spaces})[1])
        if not is_all(found):
            found = client.diagnostics(uri, version)
            seconds["diagnostics, all"].append(time.perf_counter() - began)
        codes.append([each["code"] for each in found])
    return seconds, codes


def main(argv: Sequence[str]) -> int:
    """Measure, and print the table; 1 where an answer took too long."""
    more = int(argv[0]) if argv else 0
    client = Client(["--no-tests"])
    seconds, _ = session(client, more=more)
    client.close()
    rows = [("answer", "how many", "median ms", "longest ms")]
    for kind, each in seconds.items():
        rows.append((kind, str(len(each)), f"{1e3 * statistics.median(each):.1f}", f"{1e3 * max(each):.1f}"))
    print(measured_on(["pygls"]))
    rest = f" and {more} more rules" if more else ""
    print(f"30 edits of {FILE.name}, {FILE.read_text().count(chr(10))} lines{rest}; diagnostics from the edit on\n")
    print(table(rows))
    return int(max(max(each) for kind, each in seconds.items() if "opening" not in kind and "all" not in kind) > MOST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
