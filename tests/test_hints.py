"""Hints that are commands can be pasted into a shell."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import pytest

from egshape.hints import install, option

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("text", ["n % 8 == 0", "`p2o.dim`.0 == 4", 'a"b', "$HOME == 1", "it's !x", ""])
def test_a_shell_gives_back_the_text(text: str) -> None:
    assert shlex.split(option("--assume", text)) == ["--assume", text]


def test_what_is_plain_reads_well() -> None:
    for text in ("n % 8 == 0", "n != 1"):
        assert option("--assume", text) == f'--assume "{text}"'


def test_an_extra_is_one_word() -> None:
    name, verb, *words = shlex.split(install("torch", "expecttest"))
    assert (name, verb, words[-1]) == ("pip", "install", "expecttest")
    assert words[0].endswith("[torch]") and len(words) == 2
    source = words[0].removesuffix("[torch]")
    assert source == "egshape" or (Path(source) / "pyproject.toml").is_file()


def _hints() -> list[tuple[str, str]]:
    """The literal texts of every hint, with their places."""
    found = []
    for folder in ("egshape", "frontends", "viz"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.keyword) and node.arg == "hint":
                    texts = (each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant))
                    found += [(f"{path}:{node.value.lineno}", text) for text in texts if isinstance(text, str)]
    return found


def test_no_hint_has_backquotes() -> None:
    hints = _hints()
    assert len(hints) > 200
    assert [each for each in hints if "`" in each[1]] == []


def test_extras_are_named_in_one_place() -> None:
    """`pip install` with a name that no index has would be of no use: `install` knows what works."""
    wrong = [each for each in _hints() if "pip install" in each[1] and "egshape[" in each[1]]
    assert wrong == []
