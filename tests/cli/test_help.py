"""The help of every command: a short first line, plain text, no marks of another markup."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from egshape.cli import app, main

ROOT = typer.main.get_command(app)


def _all(group: Any, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [words]
    for name, command in getattr(group, "commands", {}).items():
        found += _all(command, (*words, name))
    return found


@pytest.mark.parametrize("words", _all(ROOT), ids=" ".join)
def test_help_is_plain(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert "``" not in text and "<bool>" not in text and "range>" not in text and "│" not in text
    listed = text.partition("Commands:")[2]
    assert "..." not in listed, "what a list shows of a command is its whole first sentence"
