"""A graph as the report draws it, as SVG: for where nothing else can lay a picture out.

Rows, places in them and the widths of texts come from the report's data; heights and colours are those of its page
(``assets/js/scene.js``, ``look.js``)."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from egshape.dims import Dim
from egshape.ir.graph import Graph
from egshape.sizes import shape_sources
from egshape.viz.dot import escaped
from egshape.viz.look import Sizes, clipped
from egshape.viz.report.boxes import boxes_of
from egshape.viz.report.data import SMALL, side
from egshape.viz.report.items import Items
from egshape.viz.report.tables import Tables

Json = Mapping[str, Any]

_GAP, _HEAD, _FOOT, _EDGE = 26.0, 24.0, 10.0, 12.0
"""Between rows; the name of a frame; below and beside what is in it."""
_LINE, _ROOM = 15.0, 14.0
_LETTERS = ((13, 8.2), (11, 6.4), (10.5, 6.4))
"""Fonts of a box's title, attribute and type, with the width of a letter."""
_HUES = {"contraction": (214, 70), "reduce": (276, 50), "unary": (160, 52), "binary": (188, 48), "ternary": (188, 48)}
_HUES |= {"movement": (228, 16), "indexing": (322, 45), "control": (40, 55), "host": (12, 55), "custom": (12, 55)}
_HUES |= {"creation": (54, 40), "input": (46, 80), "argument": (46, 45), "output": (120, 45), "end": (40, 25)}
_HUES |= {"check": (28, 90), "code": (220, 8)}
"""A hue of each sort of box, and how strong it is."""


def svg(graph: Graph, normal: Callable[[Dim], Dim] | None = None, shape_code: bool | None = None) -> str:
    """The graph as a file that a browser shows; the same for the same.

    ``normal`` gives equal sizes one form, and so one colour. ``shape_code``: whether boxes are drawn that only compute
    sizes; None: in a small graph."""
    boxes = boxes_of(graph)
    tables = Tables(Sizes(normal), shape_sources(graph.body))
    found = side(boxes, Items(boxes, tables, {}), tables)
    shown = len(boxes.every) <= SMALL if shape_code is None else shape_code
    view = found["views"]["all" if shown else "data"] if "data" in found["views"] else found["views"]["all"]
    return "\n".join(_Still(found["items"], view, tables).parts(graph.name)) + "\n"


def _colour(hue: float, strong: float, light: float) -> str:
    red, green, blue = colorsys.hls_to_rgb(hue / 360, light / 100, strong / 100)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


class _Still:
    """A view with the heights of its rows."""

    def __init__(self, items: list[Json], view: Json, tables: Tables) -> None:
        self.items, self.view, self.tables = items, view, tables
        frames = [frame for frame in view["frames"] if any(frame[2] <= box[2] <= frame[3] for box in view["boxes"])]
        self.frames: list[tuple[str, int, int]] = [(label, first, last) for label, _, first, last, *_ in frames]
        self.top: list[float] = []
        y = _HEAD
        for row, height in enumerate(view["heights"]):
            y += _HEAD * sum(first == row for _, first, _ in self.frames)
            self.top.append(y)
            y += height + _GAP + _FOOT * sum(last == row for _, _, last in self.frames)
        self.height = y

    def parts(self, title: str) -> Iterator[str]:
        """The file, line by line."""
        outlines = list(map(self._outline, range(len(self.frames))))
        left = min([0.0, *(x for x, *_ in outlines)]) - 20
        right = max([self.view["width"], len(title) * 8.2, *(x + w for x, _, w, _ in outlines)]) + 20
        size = f'width="{right - left:.0f}" height="{self.height:.0f}"'
        view = f'viewBox="{left:.0f} 0 {right - left:.0f} {self.height:.0f}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} font-family="Helvetica,Arial,sans-serif">'
        yield f'<rect x="{left:.0f}" {size} fill="#fff"/><text y="16" font-size="13">{escaped(title)}</text>'
        for (x, y, w, h), (label, *_) in zip(outlines, self.frames, strict=True):
            box = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"'
            yield f'<rect {box} fill="#f4f6f9" fill-opacity=".6" stroke="#d5dae1" stroke-dasharray="5 4"/>'
            yield f'<text x="{x + 7:.1f}" y="{y + 16:.1f}" font-size="12" fill="#5f6b7a">{escaped(label)}</text>'
        for tail, head, *bends in self.view["arrows"]:
            if bends:
                yield self._arrow(self.view["boxes"][tail], self.view["boxes"][head], bends[0])
        for box in self.view["boxes"]:
            yield from self._box(*box)
        yield "</svg>"

    def _outline(self, number: int) -> tuple[float, float, float, float]:
        _, first, last = self.frames[number]
        inside = [box for box in self.view["boxes"] if first <= box[2] <= last]
        later = self.frames[number + 1 :]  # the frames in this one
        deep = _EDGE * (1 + any(first <= one and end <= last for _, one, end in later))
        x = min(box[1] - box[3] / 2 for box in inside) - deep
        y = self.top[first] - _HEAD * (1 + sum(one == first for _, one, _ in later))
        end = self.top[last] + self.view["heights"][last] + _FOOT * (0.8 + sum(end == last for *_, end in later))
        return x, y, max(box[1] + box[3] / 2 for box in inside) + deep - x, end - y

    def _arrow(self, tail: list[Any], head: list[Any], bends: list[float]) -> str:
        heights = self.view["heights"]
        x, y = tail[1], self.top[tail[2]] + (heights[tail[2]] + tail[4]) / 2
        path = f"M{x:.1f} {y:.1f}"
        places = [(over, self.top[row], heights[row]) for row, over in enumerate(bends, start=tail[2] + 1)]
        places.append((head[1], self.top[head[2]] + (heights[head[2]] - head[4]) / 2, 0.0))
        for over, below, tall in places:
            middle = (y + below) / 2
            path += f"C{x:.1f} {middle:.1f} {over:.1f} {middle:.1f} {over:.1f} {below:.1f}v{tall:.1f}"
            x, y = over, below + tall
        line = f'<path d="{path}" fill="none" stroke="#98a3b3"/>'
        return f'{line}<path d="M{x:.1f} {y:.1f}l-3.5 -7h7z" fill="#98a3b3"/>'

    def _box(self, item: int, x: float, row: int, width: float, height: float) -> Iterator[str]:
        told, top = self.items[item], self.top[row] + (self.view["heights"][row] - height) / 2
        hue, strong = _HUES.get(told["type"], (0, 0))
        look = f'fill="{_colour(hue, strong, 93)}" stroke="{_colour(hue, strong * 0.8, 46)}"'
        place = f'x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
        names = ", ".join(f"%{name}" for name, _ in told.get("gives", ()))
        tip = " ".join(filter(None, [told["title"], names, told.get("where", "")]))
        round = 5 if told["kind"] == "op" else height / 2
        yield f'<g><title>{escaped(tip)}</title><rect {place} rx="{round:g}" {look}/>'
        type = self._type(told["gives"][0][1]) if told.get("gives") and told["kind"] != "end" else []
        lines = [[(told["title"], "#1c2430")], [(told.get("detail", ""), "#5f6b7a")], type]
        y = top + (height - _LINE * sum(any(text for text, _ in line) for line in lines)) / 2 - 4
        for line, (font, letter) in zip(lines, _LETTERS, strict=True):
            whole = "".join(text for text, _ in line)
            fits = len(whole) * letter <= width - _ROOM
            runs = line if fits else [(clipped(whole, int((width - _ROOM) / letter)), "#5f6b7a")]
            if whole:
                y += _LINE
                spans = "".join(f'<tspan fill="{colour}">{escaped(text)}</tspan>' for text, colour in runs)
                yield f'<text x="{x:.1f}" y="{y:.1f}" font-size="{font}" text-anchor="middle">{spans}</text>'
        yield "</g>"

    def _type(self, number: int) -> list[tuple[str, str]]:
        """A type in pieces, each with its colour."""
        quiet = "#5f6b7a"
        dtype, sizes = self.tables.types[number]
        if sizes is None:
            return [(f"{dtype}[*]", quiet)]
        dims = [(str(self.tables.sizes[size][0]), str(self.tables.sizes[size][1])) for size in sizes]
        between = [piece for place, dim in enumerate(dims) for piece in ([(", ", quiet)] if place else []) + [dim]]
        return [(f"{dtype}[", quiet), *between, ("]", quiet)]
