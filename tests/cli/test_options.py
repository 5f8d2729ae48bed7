"""Every command that takes a MODEL takes the same options that say more of it."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from egshape.cli import app

SAYING = {"--assume", "--annotate", "--annotate-file", "--ops", "--format"}


def _commands(group: Any, name: str = "") -> list[tuple[str, set[str]]]:
    """Name and options of each command whose argument is a MODEL."""
    found = []
    for word, command in group.commands.items():
        whole = f"{name} {word}".strip()
        if hasattr(command, "commands"):
            found += _commands(command, whole)
        elif any(each.name in ("model", "models") and each.param_type_name == "argument" for each in command.params):
            found.append((whole, {option for parameter in command.params for option in parameter.opts}))
    return found


COMMANDS = dict(_commands(typer.main.get_command(app)))


def test_the_commands_with_a_model_are_found() -> None:
    assert {"optimize", "compile", "run", "versions", "buckets", "rules trace"} <= COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_all_that_is_said_of_a_model(command: str) -> None:
    assert SAYING - COMMANDS[command] == set()
