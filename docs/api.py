"""Pages of the site about Python: every public name, and the gallery of examples. ``reference.py`` puts them there."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GALLERY = Path(__file__).resolve().parents[1] / "examples/gallery"

PUBLIC = {
    "egshape": "What most programs need. Each name is imported when it is first used.",
    "egshape.runtime": "Compiled programs, with numpy alone.",
    "egshape.torch": "Programs of PyTorch, exported or compiled so that every size stays open.",
    "egshape.cluster": "Many models over the workers of a Dask cluster.",
    "egshape.frontends.builder": "Networks from layers, with symbolic sizes.",
    "egshape.facts": "What is known of sizes.",
    "egshape.errors": "Everything that a user can cause is one of these.",
    "egshape.report": "What `optimize`, `explain` and the commands say, as data.",
    "egshape.versions": "Guards behind which a program is faster.",
    "egshape.buckets": "Sizes to pad to.",
    "egshape.observed": "Sizes that calls have had.",
    "egshape.rulebook": "Tools for people who write rules, which `egshape rules` prints.",
    "egshape.adapters.xla": "StableHLO through XLA, to compare with.",
}
"""The public modules. Public are the names of `__all__`, else the functions and classes that a module defines."""


def public(module: str) -> dict[str, Any]:
    """The public names of a module with what they are."""
    found: Any = (
        importlib.import_module(module) if module != "egshape.torch" else importlib.import_module("egshape").torch
    )
    own = (
        name
        for name, each in vars(found).items()
        if not name.startswith("_")
        and getattr(each, "__module__", "") == found.__name__
        and (inspect.isclass(each) or inspect.isfunction(each))
    )
    return {name: getattr(found, name) for name in sorted(getattr(found, "__all__", own))}


def api_page() -> str:
    """Every public name, by module: mkdocstrings fills it in."""
    lines = ["# Python", "", "Every public name. Examples run as they stand, and the tests run them.", ""]
    shown: dict[str, str] = {}
    for module, about in PUBLIC.items():
        lines += [f"## {module}", "", about, ""]
        for name, what in public(module).items():
            home = _home(module, name, what)
            if home in shown:
                lines += [f"`{module}.{name}` is `{shown[home]}`.", ""]
            elif not inspect.ismodule(what):  # which is a section of its own
                shown[home] = f"{module}.{name}"
                lines += [f"::: {home}", f"    options: {{heading: {module}.{name}, toc_label: {name}}}", ""]
    return "\n".join(lines)


def _home(module: str, name: str, what: Any) -> str:
    """Where something is defined: where its docstring is read."""
    home = getattr(what, "__module__", "")
    return f"{home}.{what.__name__}" if home.startswith("egshape.") else f"{module}.{name}"


# -- the gallery -------------------------------------------------------------------------------------------------------

ORDER = ("pinned_batch", "decode_step", "detector", "custom_op", "rule", "report", "artifact", "cluster")
_MORE = {"custom_op": ("table_sum.egg",), "rule": ("even.egg",), "artifact": ("artifact.cpp",)}
"""Files that an example reads, shown with it."""
_WORDS = {".egg": "lisp", ".cpp": "cpp"}


def gallery_page() -> str:
    """Every example of the gallery with what it prints."""
    lines = [
        "# Gallery",
        "",
        "Short programs, each in `examples/gallery/`. They run as they stand, in any folder, and the tests run them.",
        "",
    ]
    for name in ORDER:
        lines += _example(name)
    return "\n".join(lines)


def _example(name: str) -> Iterator[str]:
    text = (GALLERY / f"{name}.py").read_text(encoding="utf-8")
    told = ast.get_docstring(ast.parse(text)) or ""
    about, _, prints = told.partition("\n\nPrints:\n")
    title, _, rest = " ".join(about.split()).partition(": ")
    code = text.partition('"""\n')[2].partition('"""\n')[2].strip("\n") if text.startswith('"""') else text
    yield from (f"## {title}", "", f"{rest[:1].upper()}{rest[1:]}", "", f'```python title="{name}.py"', code, "```", "")
    for more in _MORE.get(name, ()):
        path = GALLERY / more
        yield from (f'```{_WORDS[path.suffix]} title="{more}"', path.read_text(encoding="utf-8").strip("\n"), "```", "")
    yield from ("It prints", "", "```text", inspect.cleandoc(prints), "```", "")
