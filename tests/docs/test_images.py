"""The pictures of the README: there, small, and of the numbers that the README has."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOWN = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())


@pytest.fixture(scope="module")
def images() -> ModuleType:
    spec = importlib.util.spec_from_file_location("images", ROOT / "docs/images.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_shows_what_is_made(images: ModuleType) -> None:
    assert sorted(SHOWN) == sorted(f"docs/images/{name}" for name in images.PICTURES)


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_stands_alone(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert len(text) < 100_000 and "href=" not in text and "<script" not in text


def test_bars_are_of_the_numbers_of_the_readme(images: ModuleType) -> None:
    assert (ROOT / "docs/images/statements.svg").read_text(encoding="utf-8") == images.statements(), (
        "run python docs/images.py"
    )


def test_the_graph_is_of_the_example() -> None:
    text = (ROOT / "docs/images/before-and-after.svg").read_text(encoding="utf-8")
    assert text.count("transpose") >= 2 and "before: 10 ops" in text and "after: 5 ops" in text


def test_bars_are_as_long_as_their_numbers(images: ModuleType) -> None:
    svg = ElementTree.fromstring(images.bars("t & u", [("a", 10.0), ("<b>", 5.0)]))
    first, second = [float(each.get("width", "")) for each in svg.iter() if each.tag.endswith("rect")][1:]
    assert first == pytest.approx(2 * second, abs=0.1)
