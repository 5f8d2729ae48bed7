"""The HTML file of a report: the page, its style, its script and the data, all inside."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egshape.report import AdviceTable
from egshape.runtime.core.profile import Profile
from egshape.viz.report import theme
from egshape.viz.report.data import report_data

if TYPE_CHECKING:
    from egshape.api import Result

STYLES = ("base", "head", "panes", "details", "sheets", "phone")
SCRIPTS = ("dom", "model", "look", "history", "scene", "paint", "fingers", "map", "pane", "details", "search", "sheets")
"""In the order in which they are joined; ``main`` puts the page together."""


def report(
    result: Result,
    advice: AdviceTable | None = None,
    profile: Profile | Iterable[Mapping[str, Any]] | None = None,
    live: bool = False,
) -> str:
    """One HTML page about a result, with all that it needs inside; it works offline.

    advice: what ``advise`` found, None if it was not asked. profile: a run-time profile of the compiled result, or
    rows that all have the same keys. live: the page is served, and comes again where it is told so."""
    if isinstance(profile, Profile):
        head, *rest = profile.rows()
        profile = [dict(zip(head, row, strict=True)) for row in rest]
    data = report_data(result, advice, profile)
    scripts = [*SCRIPTS, "main", *(["live"] if live else [])]
    parts = {
        "TITLE": html.escape(f"{result.source.name}: egshape"),
        "CONNECT": "'self'" if live else "'none'",
        "STYLE": "\n".join([theme.variables(), *(_asset(f"css/{name}.css") for name in STYLES)]),
        "DATA": _in_script(json.dumps(data, ensure_ascii=False, separators=(",", ":"))),
        "SCRIPT": '"use strict";\n' + "\n\n".join([theme.script(), *(_asset(f"js/{name}.js") for name in scripts)]),
    }
    pieces = _asset("page.html").split("@")
    return "".join(parts.get(piece, piece) if k % 2 else piece for k, piece in enumerate(pieces))


def _in_script(text: str) -> str:
    """JSON that cannot end the script element that holds it."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8").rstrip("\n")
