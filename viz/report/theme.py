"""How a graph looks, in the page of a report and in a still: colours, gaps, fonts.

The page gets this as ``LOOK`` in its script, and the colours as variables of its style."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

LIGHT: Mapping[str, str] = {
    "paper": "#ffffff", "soft": "#f4f6f9", "line": "#d5dae1", "ink": "#1c2430", "quiet": "#5f6b7a", "link": "#0b57b0",
    "hover": "#e6eefb", "gone": "#c62f2f", "changed": "#c77700", "new": "#1d8a4a", "mark": "#1c64f2", "twin": "#8a4fd0",
    "hit": "#e0a800", "arrow": "#98a3b3", "bar": "#8db4e8", "shadow": "#0003",
}  # fmt: skip
DARK: Mapping[str, str] = {
    "paper": "#14181f", "soft": "#1d232d", "line": "#343d4b", "ink": "#e4e9f0", "quiet": "#97a3b4", "link": "#7db4ff",
    "hover": "#26344a", "gone": "#ff6b6b", "changed": "#ffb347", "new": "#4fd18b", "mark": "#6ea8ff", "twin": "#c29bff",
    "hit": "#ffd54a", "arrow": "#5c6778", "bar": "#3f6fae", "shadow": "#000a",
}  # fmt: skip


@dataclass(frozen=True)
class Sort:
    """A sort of box, by what boxes and families of ops are called: its hue in degrees, how strong it is in percent, its
    name in the legend."""

    key: str
    hue: int
    strong: int
    name: str


SORTS: Mapping[str, Sort] = {
    each.key: each
    for each in (
        Sort("contraction", 214, 70, "products and convolutions"),
        Sort("reduce", 276, 50, "reductions and windows"),
        Sort("unary", 160, 52, "functions of one number"),
        Sort("binary", 188, 48, "arithmetic"),
        Sort("ternary", 188, 48, "arithmetic"),
        Sort("movement", 228, 16, "moves"),
        Sort("indexing", 322, 45, "look-ups"),
        Sort("control", 40, 55, "control"),
        Sort("host", 12, 55, "other code"),
        Sort("custom", 12, 55, "other code"),
        Sort("creation", 54, 40, "constants"),
        Sort("input", 46, 80, "inputs"),
        Sort("argument", 46, 45, "arguments"),
        Sort("output", 120, 45, "outputs"),
        Sort("end", 40, 25, "results of regions"),
        Sort("check", 28, 90, "checks"),
        Sort("checks", 28, 90, "checks"),
        Sort("code", 220, 8, "shape code"),
    )
}
OTHER = Sort("", 0, 0, "")


@dataclass(frozen=True)
class Shade:
    """What becomes of a sort's colour in a theme: of how much of its strength, and how light in percent, a fill and an
    edge are."""

    fill_strong: float
    fill_light: int
    edge_strong: float
    edge_light: int


SHADES = {"light": Shade(1, 93, 0.8, 46), "dark": Shade(0.55, 22, 0.7, 58)}


@dataclass(frozen=True)
class Gaps:
    """Lengths in pixels: between rows; the name of a frame, below and beside what is in it; a folded frame; a line of
    text, what a box is wider than its texts."""

    row: int = 26
    head: int = 24
    foot: int = 10
    edge: int = 12
    folded: int = 40
    line: int = 15
    room: int = 14


GAPS = Gaps()


@dataclass(frozen=True)
class Fonts:
    """The sizes of a box's title, attribute and type, and of a frame's name."""

    title: float = 13
    detail: float = 11
    type: float = 10.5
    frame: float = 12


FONTS = Fonts()
WIDE, NARROW = 8.2, 6.4
"""Pixels that a letter of a title takes at most, and one of an attribute or type."""


def variables() -> str:
    """The colours of both themes for a style sheet."""
    themes = ((":root", "light", LIGHT), (":root[data-dark]", "dark", DARK))
    return "\n".join(
        f"{where} {{ color-scheme: {name}; {' '.join(f'--{key}: {colour};' for key, colour in colours.items())} }}"
        for where, name, colours in themes
    )


def script() -> str:
    """``LOOK`` for a script."""
    look = {
        "light": {**LIGHT, "shade": asdict(SHADES["light"])},
        "dark": {**DARK, "shade": asdict(SHADES["dark"])},
        "sorts": {name: asdict(sort) for name, sort in SORTS.items()},
        "gaps": asdict(GAPS),
        "fonts": asdict(FONTS),
    }
    return f"const LOOK = {json.dumps(look, separators=(',', ':'))};"
