"""The gallery: every example is short, runs in an empty folder, prints what it says, and is on the page."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import runpy
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.tools.pages import same
from egshape.ops import REGISTRY
from tests.docs.test_site import reference

__all__ = ["reference"]

GALLERY = Path(__file__).resolve().parents[2] / "examples/gallery"
NAMES = sorted(path.stem for path in GALLERY.glob("*.py"))
NEEDED = {"detector": ("onnx", "llvmlite"), "cluster": ("distributed",), "rule": (), "report": ()}
LONGEST = 40


def test_the_page_has_all_of_them(reference: ModuleType) -> None:
    page = reference.api.gallery_page()
    assert sorted(reference.api.ORDER) == NAMES and len(NAMES) == 8
    for path in GALLERY.iterdir():
        if path.is_file():
            assert f'title="{path.name}"' in page
    assert page.count("```python") == page.count("```text") == len(NAMES)
    assert "Prints:" not in page and "\n## \n" not in page


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_what_it_prints(name: str) -> None:
    text = (GALLERY / f"{name}.py").read_text()
    assert text.count("\n") <= LONGEST
    assert re.match(r'"""[A-Z][\w ,+]+: .+\n\nPrints:\n', text)


@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.long] * (each == "report")) for each in NAMES])
def test_an_example_prints_what_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in NEEDED.get(name, ("llvmlite",)):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"the example needs {needed}")
    if name == "artifact" and shutil.which("c++") is None:
        pytest.skip("the example needs a compiler of C++")
    monkeypatch.chdir(tmp_path)
    path = GALLERY / f"{name}.py"
    known = {decl.name for decl in REGISTRY}
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        for op in {decl.name for decl in REGISTRY} - known:
            REGISTRY.drop(op)
    prints = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("Prints:\n")[2]
    found, shown = said.getvalue().splitlines(), prints.splitlines()
    assert len(found) == len(shown), said.getvalue()
    for line, wanted in zip(found, shown, strict=True):
        assert same(wanted, line), f"{wanted!r} is said, {line!r} printed"
