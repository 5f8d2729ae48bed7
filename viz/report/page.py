"""The HTML file of a report: the page, its script, the data and the renderer, all inside."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egshape.errors import EgshapeError
from egshape.report import AdviceTable
from egshape.runtime.core.profile import Profile
from egshape.viz.dot import has_dot, render
from egshape.viz.report import renderer
from egshape.viz.report.data import Json, report_data

if TYPE_CHECKING:
    from egshape.api import Result

NO_LAYOUT = (
    f"The graphs cannot be laid out: {renderer.HINT}; or install Graphviz. Then write the report again. "
    "Search, details and tables work without."
)
ONLY_DRAWN = f"The report holds pictures drawn by dot, and cannot draw others: {renderer.HINT}"


def report(
    result: Result, advice: AdviceTable | None = None, profile: Profile | Iterable[Mapping[str, Any]] | None = None
) -> str:
    """One HTML page about a result, with all that it needs inside; it works offline.

    advice: what ``advise`` found, None if it was not asked. profile: a run-time profile of the compiled result, or
    rows that all have the same keys. The graphs are laid out by the page itself where the renderer was fetched, else
    here by ``dot``, else not at all, and the page says what to install."""
    if isinstance(profile, Profile):
        head, *rest = profile.rows()
        profile = [dict(zip(head, row, strict=True)) for row in rest]
    data = report_data(result, advice, profile)
    layout = renderer.source()
    if layout is None:
        data["svg"] = _drawn(data)
        data["no_layout"] = without_renderer()
    parts = {
        "TITLE": html.escape(f"{result.source.name}: egshape"),
        "STYLE": _asset("page.css"),
        "DATA": _in_script(json.dumps(data, ensure_ascii=False, separators=(",", ":"))),
        "RENDERER": layout or "",
        "SCRIPT": _asset("page.js"),
    }
    pieces = _asset("page.html").split("@")
    return "".join(parts.get(piece, piece) if k % 2 else piece for k, piece in enumerate(pieces))


def without_renderer() -> str:
    """What a report lacks where the renderer was not fetched, and the way out."""
    return ONLY_DRAWN if has_dot() else NO_LAYOUT


def _drawn(data: Json) -> Json | None:
    """The whole graphs as ``dot`` draws them; None where there is no ``dot``."""
    if not has_dot():
        return None
    out: Json = {}
    for side, views in data["graphs"].items():
        out[side] = {}
        for name, pieces in views.items():
            try:
                out[side][name] = render(dot_of(pieces), "svg").decode()
            except EgshapeError:  # too large for it: the page says so where the picture would be
                continue
    return out


def dot_of(pieces: Json) -> str:
    """The DOT text of a graph's pieces, as the page makes it too."""

    def body(items: list[Any]) -> Iterable[str]:
        for item in items:
            if isinstance(item, dict):
                yield from (item["open"], *body(item["body"]), "}")
            else:
                yield item[1]

    return "\n".join([pieces["head"], *body(pieces["body"]), *(edge[2] for edge in pieces["edges"]), "}"])


def _in_script(text: str) -> str:
    """JSON that cannot end the script element that holds it."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8").rstrip("\n")
