"""How things look: one colour for equal sizes, types and values as markup."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from egshape.dims import Dim
from egshape.ir.types import TensorType
from egshape.viz.dot import Html, escaped

QUIET = "#6b7280"
"""Static sizes and second lines."""
PAPER = "#fff7e0"
"""Inputs."""
RESULT = "#e3f4e6"
"""Outputs."""
CHECK = "#ffe3bf"
SHAPE_CODE = "#f1f2f4"
GONE = "#f7f0f0"
GONE_LINE = "#c08a8a"

_PALETTE = (
    "#0b63b0",
    "#b0410b",
    "#18794e",
    "#9c1f7a",
    "#7a5c00",
    "#5b3fc4",
    "#00798c",
    "#a31621",
    "#4c6b00",
    "#8a4b2d",
)
_GOLDEN = 0.61803398875
_LONGEST = 44


class Sizes:
    """Colours by size: two sizes have one colour where their normal forms are one."""

    def __init__(self, normal: Callable[[Dim], Dim] | None = None) -> None:
        self._normal = normal or _same
        self._colours: dict[Dim, str] = {}
        self.written: dict[Dim, dict[Dim, None]] = {}
        """The forms in which each size is written in the model, by normal form, in order of appearance."""

    def colour(self, dim: Dim) -> str:
        """The colour of a size; numbers are grey."""
        form = self.form(dim)
        if form.const is not None:
            return QUIET
        self.written.setdefault(form, {}).setdefault(dim)
        return self._colours.setdefault(form, _nth(len(self._colours)))

    def form(self, dim: Dim) -> Dim:
        """The form in which a size is known, one for all that are equal."""
        return self._normal(dim)

    @property
    def colours(self) -> Mapping[Dim, str]:
        """The colours given so far, by normal form."""
        return self._colours

    def markup(self, type: TensorType) -> Html:
        """``f32[b, 16, s]``, each size in its colour."""
        if type.shape is None:
            return Html(escaped(str(type)))
        sizes = [coloured(clipped(str(dim)), self.colour(dim)) for dim in type.shape]
        return Html(coloured(f"{type.dtype}[", QUIET) + coloured(", ", QUIET).join(sizes) + coloured("]", QUIET))

    def edge_colour(self, type: TensorType) -> str:
        """The colour of an arrow: that of the first size that is no number."""
        for dim in type.shape or ():
            colour = self.colour(dim)
            if colour != QUIET:
                return colour
        return QUIET


def _same(dim: Dim) -> Dim:
    return dim


def _nth(number: int) -> str:
    """The palette first, then hues as far apart as can be."""
    if number < len(_PALETTE):
        return _PALETTE[number]
    red, green, blue = colorsys.hls_to_rgb(number * _GOLDEN % 1.0, 0.33, 0.75)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def coloured(text: str, colour: str) -> str:
    """Markup of a text in a colour."""
    return f'<font color="{colour}">{escaped(text)}</font>'


def small(text: str, colour: str = QUIET) -> str:
    """Markup of a text in small letters."""
    return f'<font point-size="9" color="{colour}">{escaped(text)}</font>'


def clipped(text: str, longest: int = _LONGEST) -> str:
    """A text cut to a readable length."""
    text = text.replace("\n", " ")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def attribute(value: object) -> str:
    """An attribute in short."""
    if isinstance(value, np.ndarray):
        return constant(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def constant(array: np.ndarray[Any, Any]) -> str:
    """A constant in short: its number, its few numbers, or its type."""
    if array.size == 1:
        return number(array.reshape(-1)[0])
    if 0 < array.size <= 6 and array.ndim <= 1:
        return f"[{', '.join(number(each) for each in array)}]"
    first = array.reshape(-1)[:1]
    splat = bool(array.size) and array.tobytes() == first.tobytes() * array.size
    return f"{f'{number(first[0])} in ' if splat else ''}{array.dtype}{list(array.shape)}"


def number(value: Any) -> str:
    """A number in at most six digits."""
    item = value.item() if hasattr(value, "item") else value
    return f"{item:.6g}" if isinstance(item, float) else str(item)
