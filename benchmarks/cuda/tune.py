"""Makes a folder in which the constants that a planner for GPUs goes by have several values each, for
``python -m benchmarks.cuda FOLDER --only tune`` to time where a GPU is.

``python -m benchmarks.cuda.tune FOLDER [--only WORD]`` needs what ``benchmarks.cuda.cases`` needs. A value that changes
no kernel of a case makes no artifact. What is best is then written where the constant is defined."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.cuda.cases import CASES, Case, Variant, make


@dataclass(frozen=True)
class Knob:
    """A constant as ``module:NAME``, what a number is multiplied with (of a tuple, each part is tried alone), and cases
    in which it decides."""

    name: str
    cases: tuple[str, ...]
    factors: tuple[float, ...] = (0.5, 1, 2)
    switches: tuple[tuple[str, str], ...] = ()

    def values(self) -> dict[str, Any]:
        """What is tried, by how it is called; nothing where there is no such constant."""
        module, _, constant = self.name.partition(":")
        found = getattr(importlib.import_module(module), constant, None) if find_spec(module) else None
        if isinstance(found, tuple):
            return {f"{constant}={_short(each)}": (each,) for each in found}
        if not isinstance(found, int):
            return {}
        return {f"{constant}={value}": value for value in (round(found * factor) or 1 for factor in self.factors)}


def _short(value: object) -> str:
    """A part of a tuple as a word that may stand in a file's name."""
    return "x".join(re.findall(r"\d+", str(value)))


OWN, FUSED = (("EGSHAPE_CUDA_PRODUCTS", "own"),), (("EGSHAPE_CUDA_ATTENTION", "fused"),)
CHAINS, ROWS = ("chain f32", "chain f16"), ("softmax(x+b)", "layernorm+gelu", "layernorm+gelu bf16")
SUMS, ATTENTION = ("column sums", "full sum"), ("attention f16", "attention bf16 causal")
PLAN = "egshape.plan.gpu."
KNOBS = (
    Knob(f"{PLAN}elements:AHEAD", CHAINS, (0.5, 1, 2, 4)),
    Knob(f"{PLAN}elements:ROUNDS", CHAINS),
    Knob(f"{PLAN}rows.choice:EACH", ROWS),
    Knob(f"{PLAN}rows.choice:MOST", ROWS),
    Knob(f"{PLAN}rows.choice:AHEAD", ROWS),
    Knob(f"{PLAN}folds:BUSY", SUMS, (0.25, 0.5, 1, 2)),
    Knob(f"{PLAN}folds:BLOCKS", SUMS, (0.5, 1, 2, 4)),
    Knob(f"{PLAN}folds:CHUNK", SUMS, (0.25, 1, 4)),
    Knob(f"{PLAN}folds:PIECES", SUMS),
    Knob(f"{PLAN}folds:ROWS", ("column sums",)),
    Knob(f"{PLAN}columns:WIDTH", ("column sums",), (1, 2, 4)),
    Knob(f"{PLAN}turned:SIDE", ("transpose f32",), (1, 2)),
    Knob(f"{PLAN}turned:NARROW_SIDE", ("transpose f16",)),
    Knob(f"{PLAN}product.warps:SHAPES", ("encoder layer bf16",), switches=OWN),
    Knob(f"{PLAN}product.warps:DEEP_BYTES", ("encoder layer bf16",), switches=OWN),
    Knob(f"{PLAN}attention.tiles:WARPS", ATTENTION, (0.5, 1), FUSED),
    Knob(f"{PLAN}attention.tiles:KEYS", ATTENTION, switches=FUSED),
    Knob(f"{PLAN}attention.tiles:AHEAD", ATTENTION, (0.5, 1, 2), FUSED),
    Knob(f"{PLAN}attention.split:CHUNK", ("attention decode bf16",), (0.5, 1, 2, 4), FUSED),
)
POINTS = 2
"""Sizes of each case."""


def cases(knobs: Sequence[Knob] = KNOBS, among: Sequence[Case] = CASES) -> Iterator[Case]:
    """A case for each knob and case in which it decides, its variants the values."""
    named = {case.name: case for case in among}
    for knob in knobs:
        values = knob.values()
        for case in [named[name] for name in knob.cases if name in named and values]:
            facts = case.variants["facts"].facts if "facts" in case.variants else ()
            variants = {
                name: Variant(facts, dict(knob.switches), constants={knob.name: value})
                for name, value in values.items()
            }
            points = tuple(each for each in case.points if not facts or _even(each))[:POINTS]
            yield replace(
                case,
                name=f"{knob.name.removeprefix(PLAN)}: {case.name}",
                group="tune",
                variants=variants,
                small=(),
                points=points,
            )


def _even(sizes: dict[str, int]) -> bool:
    return all(size % 8 == 0 for size in sizes.values())


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="knobs and cases with this word in their names")
    chosen = parser.parse_args()
    for knob in KNOBS:
        if not knob.values():
            print(f"notice: there is no {knob.name}")
    made = [case for case in cases() if chosen.only in case.name]
    print(make(chosen.folder, made, note=partial(print, flush=True)))


if __name__ == "__main__":
    main()
