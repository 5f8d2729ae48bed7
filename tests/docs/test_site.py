"""The site: generated pages leave nothing out, no page is lost, and MkDocs builds it without a warning."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from egshape.ops import REGISTRY
from egshape.rulelang.loader import shipped_rulesets

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """``docs/reference.py`` as a module."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_op_is_there(reference: ModuleType) -> None:
    page = reference.ops_page()
    missing = [decl.name for decl in REGISTRY if not decl.custom and f"### {decl.name}\n" not in page]
    assert missing == []


def test_an_op_says_what_it_refuses_and_gives(reference: ModuleType) -> None:
    page = reference.ops_page().partition("### slice\n")[2].partition("\n### ")[0]
    assert "axis {k}: the limit {(at limits k)} is more than the size {(size x k)}` (on sizes: slice limit)" in page
    assert "| moves | `True` |" in page
    assert "StableHLO spec: slice" in page and ":shape (for k (axes starts)" in page and "⇒ `f32[n - m, 3]`" in page


def test_every_rule_is_there(reference: ModuleType) -> None:
    page = reference.rules_page()
    names = [name for ruleset in shipped_rulesets() for name in re.findall(r':name "([^"]+)"', _text(ruleset))]
    assert len(names) > 100
    assert [name for name in names if f'"{name}"' not in page] == []
    assert [ruleset for ruleset in shipped_rulesets() if f"## {ruleset}\n" not in page] == []


def _text(ruleset: str) -> str:
    return (ROOT / "rulesets" / (ruleset.replace(".", "/") + ".egg")).read_text()


def test_every_command_and_option_is_there(reference: ModuleType) -> None:
    from egshape.cli import app

    page = reference.cli_page()
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert [name for name in names if f"## egshape {name}\n" not in page] == []
    for option in ("`-o OUT`, `--output OUT`", "`--assume FACT`", "`--seconds S`", "`--json`", "`[GOAL]`"):
        assert option in page, f"{option} is missing"
    for group in app.registered_groups:
        for command in group.typer_instance.registered_commands:
            assert f"{command.name or command.callback.__name__}\n" in page


def test_every_page_is_in_the_menu(reference: ModuleType) -> None:
    """Those that it does not name are added at its end."""
    menu = re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("nav:")[2])
    found = str(reference.on_config({"nav": list(menu)})["nav"])
    pages = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "README.md" and f"'{page}'" not in found] == []
    missing = [page for page in menu if not (ROOT / "docs" / page).is_file() and page not in reference.PAGES]
    assert missing == [], "the menu names pages that are not there"


def test_prose_is_shown_as_it_is(reference: ModuleType) -> None:
    assert reference._prose("c*k*m and `a*b` <x>") == r"c\*k\*m and `a*b` \<x\>"


@pytest.mark.long
def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="needs mkdocs-material (extra docs)")
    pytest.importorskip("mkdocstrings", reason="the reference of Python needs it (extra docs)")
    pytest.importorskip("jax", reason="the pictures are of a StableHLO program")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for page in ("index.html", "reference/ops/index.html", "tutorial/index.html", "example-report.html"):
        assert (tmp_path / "site" / page).is_file()
