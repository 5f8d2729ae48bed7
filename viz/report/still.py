"""A graph as the report draws it, as SVG: for where nothing else can lay a picture out.

Rows, places in them and the widths of texts come from the report's data, heights and colours are those of its page."""

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
from egshape.viz.report.theme import FONTS, GAPS, LIGHT, NARROW, OTHER, SHADES, SORTS, WIDE

Json = Mapping[str, Any]

_LETTERS = ((FONTS.title, WIDE), (FONTS.detail, NARROW), (FONTS.type, NARROW))
"""Fonts of a box's title, attribute and type, with the width of a letter."""
_QUIET, _ARROW = LIGHT["quiet"], LIGHT["arrow"]
SANS = "Helvetica,Arial,Liberation Sans,DejaVu Sans,Noto Sans,sans-serif"


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
        y: float = GAPS.head
        for row, height in enumerate(view["heights"]):
            y += GAPS.head * sum(first == row for _, first, _ in self.frames)
            self.top.append(y)
            y += height + GAPS.row + GAPS.foot * sum(last == row for _, _, last in self.frames)
        self.height = y

    def parts(self, title: str) -> Iterator[str]:
        """The file, line by line."""
        outlines = list(map(self._outline, range(len(self.frames))))
        left = min([0.0, *(x for x, *_ in outlines)]) - 20
        right = max([self.view["width"], len(title) * 8.2, *(x + w for x, _, w, _ in outlines)]) + 20
        size = f'width="{right - left:.0f}" height="{self.height:.0f}"'
        view = f'viewBox="{left:.0f} 0 {right - left:.0f} {self.height:.0f}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} font-family="{SANS}">'
        yield f'<rect x="{left:.0f}" {size} fill="{LIGHT["paper"]}"/>'
        yield f'<text y="16" font-size="{FONTS.title}">{escaped(title)}</text>'
        for (x, y, w, h), (label, *_) in zip(outlines, self.frames, strict=True):
            box = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"'
            look = f'fill="{LIGHT["soft"]}" fill-opacity=".6" stroke="{LIGHT["line"]}" stroke-dasharray="5 4"'
            yield f"<rect {box} {look}/>"
            place = f'x="{x + 7:.1f}" y="{y + 16:.1f}" font-size="{FONTS.frame}"'
            yield f'<text {place} fill="{_QUIET}">{escaped(label)}</text>'
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
        deep = GAPS.edge * (1 + any(first <= one and end <= last for _, one, end in later))
        x = min(box[1] - box[3] / 2 for box in inside) - deep
        y = self.top[first] - GAPS.head * (1 + sum(one == first for _, one, _ in later))
        end = self.top[last] + self.view["heights"][last] + GAPS.foot * (0.8 + sum(end == last for *_, end in later))
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
        line = f'<path d="{path}" fill="none" stroke="{_ARROW}"/>'
        return f'{line}<path d="M{x:.1f} {y:.1f}l-3.5 -7h7z" fill="{_ARROW}"/>'

    def _box(self, item: int, x: float, row: int, width: float, height: float) -> Iterator[str]:
        told, top = self.items[item], self.top[row] + (self.view["heights"][row] - height) / 2
        sort, shade = SORTS.get(told["type"], OTHER), SHADES["light"]
        fill = _colour(sort.hue, sort.strong * shade.fill_strong, shade.fill_light)
        look = f'fill="{fill}" stroke="{_colour(sort.hue, sort.strong * shade.edge_strong, shade.edge_light)}"'
        place = f'x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
        names = ", ".join(f"%{name}" for name, _ in told.get("gives", ()))
        tip = " ".join(filter(None, [told["title"], names, told.get("where", "")]))
        round = 5 if told["kind"] == "op" else height / 2
        yield f'<g><title>{escaped(tip)}</title><rect {place} rx="{round:g}" {look}/>'
        type = self._type(told["gives"][0][1]) if told.get("gives") and told["kind"] != "end" else []
        lines = [[(told["title"], LIGHT["ink"])], [(told.get("detail", ""), _QUIET)], type]
        y = top + (height - GAPS.line * sum(any(text for text, _ in line) for line in lines)) / 2 - 4
        for line, (font, letter) in zip(lines, _LETTERS, strict=True):
            whole = "".join(text for text, _ in line)
            fits = len(whole) * letter <= width - GAPS.room
            runs = line if fits else [(clipped(whole, int((width - GAPS.room) / letter)), _QUIET)]
            if whole:
                y += GAPS.line
                spans = "".join(f'<tspan fill="{colour}">{escaped(text)}</tspan>' for text, colour in runs)
                yield f'<text x="{x:.1f}" y="{y:.1f}" font-size="{font}" text-anchor="middle">{spans}</text>'
        yield "</g>"

    def _type(self, number: int) -> list[tuple[str, str]]:
        """A type in pieces, each with its colour."""
        dtype, sizes = self.tables.types[number]
        if sizes is None:
            return [(f"{dtype}[*]", _QUIET)]
        dims = [(str(self.tables.sizes[size][0]), str(self.tables.sizes[size][1])) for size in sizes]
        between = [piece for place, dim in enumerate(dims) for piece in ([(", ", _QUIET)] if place else []) + [dim]]
        return [(f"{dtype}[", _QUIET), *between, ("]", _QUIET)]
