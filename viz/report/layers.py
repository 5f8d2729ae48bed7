"""Runs of boxes that fold: the layers that names in the model tell of, else parts between narrow places."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from egshape.viz.report.boxes import Box

LEAST = 4
"""A layer of fewer boxes is none."""
MOST = 60
"""A part between narrow places has at most so many boxes, and where the model has no layers, a graph of so many has no
parts."""
_SMALLEST_PART = 18
LARGE = 120
"""A layer of more boxes is told by the layers inside of it, where names tell of these."""

_NUMBERED = re.compile(r"\d+$")


def layers_of(
    boxes: Sequence[Box], reads: Callable[[Box], Sequence[Box]], hints: Callable[[Box], Sequence[str]]
) -> list[tuple[str, tuple[Box, ...]]]:
    """The boxes in runs, with the name of each; "" for a run that does not fold. ``reads``: the boxes that one reads;
    ``hints``: names that tell in which layer a box is, its own first."""
    named = [each for label, run in _named(boxes, hints, 0) for each in _inner(label, run, hints, 1)]
    if sum(1 for label, run in named if label) >= 2:
        return [each for label, run in named for each in ([(label, run)] if label else _parts(run, reads))]
    return _parts(boxes, reads)


def _inner(
    label: str, run: tuple[Box, ...], hints: Callable[[Box], Sequence[str]], depth: int
) -> list[tuple[str, tuple[Box, ...]]]:
    """A layer, or the layers inside of a large one."""
    inside = _named(run, hints, depth) if label and len(run) > LARGE else []
    if len({key for key, _ in inside}) < 2:
        return [(label, run)]
    return [each for key, part in inside for each in _inner(key or label, part, hints, depth + 1)]


def _named(
    boxes: Sequence[Box], hints: Callable[[Box], Sequence[str]], depth: int
) -> list[tuple[str, tuple[Box, ...]]]:
    """Runs of boxes with the name of one layer, so deep inside of others; what has no name belongs to what is before
    it."""
    keys: list[str] = []
    for box in boxes:
        found = next((key for hint in hints(box) if (key := layer(hint, depth))), "")
        keys.append(found or (keys[-1] if keys else ""))
    runs: list[tuple[str, list[Box]]] = []
    for key, box in zip(keys, boxes, strict=True):
        if runs and runs[-1][0] == key:
            runs[-1][1].append(box)
        else:
            runs.append((key, [box]))
    merged: list[tuple[str, list[Box]]] = []
    for key, run in runs:
        if merged and (merged[-1][0] == key or len(run) < LEAST):
            merged[-1][1].extend(run)
        else:
            merged.append((key if len(run) >= LEAST else "", run))
    return [(key, tuple(run)) for key, run in merged]


def layer(name: str, depth: int = 0) -> str:
    """The layer that a name tells of: ``encoder.layer.0`` of ``/encoder/layer.0/attention/MatMul``, or the one so deep
    inside of it: ``stages.2.29`` of ``/stages.2/stages.2.29/conv/Conv`` at depth 1; "" for none."""
    parts = [part for part in name.split("/") if part]
    own = [part for part, after in pairwise([*parts, ""]) if not after.startswith(f"{part}.")]
    words = [word for part in own for word in part.split(".") if word]
    numbered = [place for place, word in enumerate(words[:-1]) if place and _NUMBERED.search(word)]
    if depth < len(numbered):
        return ".".join(words[: numbered[depth] + 1])
    return words[0] if len(words) > 2 and not numbered and not depth else ""


def _parts(boxes: Sequence[Box], reads: Callable[[Box], Sequence[Box]]) -> list[tuple[str, tuple[Box, ...]]]:
    """Parts of a long run, cut where few values go from above to below."""
    if len(boxes) <= MOST:
        return [("", tuple(boxes))] if boxes else []
    crossing = _crossing(boxes, reads)
    cuts, start = [0], 0
    while len(boxes) - start > MOST:
        window = range(start + _SMALLEST_PART, min(start + MOST, len(boxes) - _SMALLEST_PART) + 1)
        middle = start + (_SMALLEST_PART + MOST) // 2
        start = min(window, key=lambda cut: (crossing[cut], abs(cut - middle)))
        cuts.append(start)
    cuts.append(len(boxes))
    runs = [tuple(boxes[one:two]) for one, two in pairwise(cuts)]
    return [(_summary(run), run) for run in runs]


def _crossing(boxes: Sequence[Box], reads: Callable[[Box], Sequence[Box]]) -> list[int]:
    """How many boxes before each cut are read behind it."""
    place = {box: k for k, box in enumerate(boxes)}
    last: dict[Box, int] = {}
    for k, box in enumerate(boxes):
        for other in reads(box):
            if other in place:
                last[other] = k
    change = [0] * (len(boxes) + 2)
    for box, end in last.items():
        change[place[box] + 1] += 1
        change[end + 1] -= 1
    out, live = [], 0
    for each in change:
        live += each
        out.append(live)
    return out


def _summary(run: Sequence[Box]) -> str:
    """What a part mostly is."""
    kinds = Counter(box.title for box in run if box.kind == "op")
    return ", ".join(f"{name} ×{many}" if many > 1 else name for name, many in kinds.most_common(3))
