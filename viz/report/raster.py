"""A still as PNG, by resvg (the extra ``png``): it needs no program and no library of the system, only a font."""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec
from typing import Any

from egshape.errors import EgshapeError, MissingDependency
from egshape.hints import install
from egshape.viz.report.still import SANS

_PACKAGE = "resvg_py"
_ZOOM = 1.5
"""Pixels for one of a screen, as many as Graphviz's pictures have."""
MOST = 1 << 26
"""Pixels of a picture, 256 MB while it is drawn."""
_SIZE = re.compile(r'<svg[^>]* width="([0-9.]+)" height="([0-9.]+)"')
_LETTER = (
    f'<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" font-family="{SANS}"><text y="16">x</text></svg>'
)


def has_raster() -> bool:
    """Whether ``png`` can draw here."""
    return find_spec(_PACKAGE) is not None


def needs_raster() -> None:
    """Raises MissingDependency where nothing can draw a still as PNG: before work is done for it."""
    if not has_raster():
        raise MissingDependency(
            "drawing .png needs Graphviz's program dot, or resvg_py",
            hint=f"{install('png')}, or install Graphviz (https://graphviz.org/download) so that its program dot is on "
            "the path, or write .svg, which needs neither",
        )


def png(svg: str) -> bytes:
    """The picture of a still.

    Raises MissingDependency without resvg_py, EgshapeError (code "render") where the system has no font, without which
    boxes would be empty, and for a picture that is too large."""
    needs_raster()
    size = _SIZE.search(svg)
    if size is not None and _ZOOM**2 * float(size[1]) * float(size[2]) > MOST:
        raise EgshapeError(
            f"a picture of {size[1]} by {size[2]} is too large as .png",
            code="render",
            hint="write .svg, or the report, .html, in which layers fold",
        )
    if _drawn(_LETTER) == _drawn(_LETTER, skip_system_fonts=True):
        raise EgshapeError(
            f"there is no font to write names with: one of {SANS.rpartition(',')[0]}",
            code="render",
            hint="install one, or write .svg",
        )
    return _drawn(svg, zoom=_ZOOM)


def _drawn(svg: str, **options: Any) -> bytes:
    return bytes(importlib.import_module(_PACKAGE).svg_to_bytes(svg_string=svg, **options))
