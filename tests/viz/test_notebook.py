"""What Jupyter shows: HTML that is whole, names escaped, and no need of Graphviz."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import egshape
from egshape import notebook
from egshape.viz import dot
from tests.viz.models import HOSTILE, loop, renamed, ten

SHOWN = {
    "graph": lambda: ten().source,
    "regions": loop,
    "result": ten,
    "proof": lambda: egshape.prove("(a//2)*2 == a - a%2"),
    "refuted": lambda: egshape.prove("a == b"),
    "unknown": lambda: egshape.prove("a*b >= c"),
    "explanation": lambda: ten().explain("x.0", "y.0"),
    "value": lambda: ten().explain_value("%7"),
}


@pytest.mark.parametrize("with_dot", [True, False])
@pytest.mark.parametrize("name", SHOWN)
def test_shown(name: str, with_dot: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    thing = SHOWN[name]()  # type: ignore[no-untyped-call]
    if not with_dot:
        monkeypatch.setenv("PATH", str(tmp_path))
    text = thing._repr_html_()
    ET.fromstring(f"<div>{text.replace('&nbsp;', ' ').replace('xlink:', '')}</div>")
    if name in ("graph", "regions"):
        assert ("<svg" in text) == (with_dot and dot.has_dot())
    assert "<b>" in text


def test_names_are_escaped() -> None:
    text = notebook.html(renamed(ten().source, HOSTILE))
    assert "</script>" not in text
    assert "<b>&" not in text


def test_a_large_graph_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "LARGEST", 3)
    text = notebook.html(ten().source)
    assert "<svg" not in text and "<pre" in text


def test_another_thing_is_refused() -> None:
    with pytest.raises(TypeError, match="int"):
        notebook.html(3)
