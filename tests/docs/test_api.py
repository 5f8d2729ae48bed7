"""The reference of the Python API: no public name is missing or undocumented, and its examples do what they show."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import egshape
from egshape.ops import REGISTRY
from tests.docs.test_site import reference

__all__ = ["reference"]

ROOT = Path(__file__).resolve().parents[2]
FILES = ("examples/sizes/round_up.egg", "examples/gallery/table_sum.egg")
"""Files that examples read by their names."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.FAIL_FAST
_IMPORTED = re.compile(r">>> import (\w+)")


def _documented(reference: ModuleType) -> Iterator[tuple[str, Any]]:
    """Every public name that is a class or a function, with methods, each once."""
    seen: set[int] = set()
    for module in reference.api.PUBLIC:
        for name, what in reference.api.public(module).items():
            if (inspect.isclass(what) or inspect.isfunction(what)) and id(what) not in seen:
                seen.add(id(what))
                yield f"{module}.{name}", what


def test_no_public_name_is_missing(reference: ModuleType) -> None:
    page = reference.api.api_page()
    for module in reference.api.PUBLIC:
        names = [name for name, what in reference.api.public(module).items() if not inspect.ismodule(what)]
        assert names, module
        for name in names:
            assert f"heading: {module}.{name}," in page or f"`{module}.{name}` is `" in page
    lazy = {*egshape.__all__, *egshape._HOME, *egshape._SUBMODULES}
    assert lazy == set(egshape.__all__) and lazy <= set(reference.api.public("egshape"))
    assert set(egshape._SUBMODULES) - {"frontends"} <= {name.partition(".")[2] for name in reference.api.PUBLIC}


def test_every_public_name_says_what_it_is(reference: ModuleType) -> None:
    silent = [name for name, what in _documented(reference) if not inspect.getdoc(what)]
    assert silent == []


def test_every_function_of_the_package_has_an_example(reference: ModuleType) -> None:
    """Those that most programs need."""
    shown = [
        each for each in reference.api.public("egshape").values() if inspect.isfunction(each) or inspect.isclass(each)
    ]
    assert [each.__name__ for each in shown if ">>>" not in (each.__doc__ or "")] == []


def _examples() -> list[Any]:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    finder = doctest.DocTestFinder(recurse=True, exclude_empty=True)
    found = []
    for name, what in _documented(module):
        own = inspect.getmodule(what)
        for each in finder.find(what, name, module=own, globs={}):
            if each.examples:
                slow = [pytest.mark.long] if each.name == "egshape.torch.compile" else []
                found.append(pytest.param(each, id=each.name, marks=slow))
    return found


@pytest.mark.parametrize("example", _examples())
def test_an_example(example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = example.docstring or ""
    for name in {*_IMPORTED.findall(text), *(["llvmlite"] if ".compile(" in text or "egshape.fn(" in text else [])}:
        pytest.importorskip(name, reason=f"the example needs {name}")
    for file in FILES:
        shutil.copy(ROOT / file, tmp_path)
    monkeypatch.chdir(tmp_path)
    known = {decl.name for decl in REGISTRY}
    said: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append)
    finally:
        for name in {decl.name for decl in REGISTRY} - known:
            REGISTRY.drop(name)
    assert result.attempted and not result.failed, "".join(said)


def test_an_example_that_is_wrong_fails() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(optionflags=FLAGS).run(wrong, out=lambda _: None).failed
