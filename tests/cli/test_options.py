"""Commands of one kind take the same options: of a MODEL those that say more of it, of all --json, -v and -q."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from egshape.cli import app

SAYING = {"--assume", "--annotate", "--annotate-file", "--ops", "--format"}


SERVE = {"lsp", "view", "rules playground"}
"""They answer an editor or a browser until they are ended."""
ANSWER = {"shapes", "facts", "advise", "versions", "buckets", "viz", "rules list", "rules show", "rules watch"} | {
    "rules profile", "rules trace", "rules prelude", "shapelib list"
}  # fmt: skip
"""What they print is all that they are for: -q would leave nothing."""
BRIEF = {"optimize", "compile"}
"""They print less than they know: -v says all. A command is among these, or says all already."""


def _walk(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Name and command of each."""
    for word, command in group.commands.items():
        whole = f"{name} {word}".strip()
        if hasattr(command, "commands"):
            yield from _walk(command, whole)
        else:
            yield whole, command


def _options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def _takes_model(command: Any) -> bool:
    return any(each.name in ("model", "models") and each.param_type_name == "argument" for each in command.params)


ALL = {name: _options(command) for name, command in _walk(typer.main.get_command(app))}
COMMANDS = {name: _options(command) for name, command in _walk(typer.main.get_command(app)) if _takes_model(command)}


def test_the_commands_with_a_model_are_found() -> None:
    assert {"optimize", "compile", "run", "versions", "buckets", "rules trace"} <= COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_all_that_is_said_of_a_model(command: str) -> None:
    assert SAYING - COMMANDS[command] == set()


def test_the_lists_name_commands() -> None:
    assert ALL.keys() >= SERVE | ANSWER | BRIEF


@pytest.mark.parametrize("command", sorted(ALL.keys() - SERVE))
def test_a_command_prints_json(command: str) -> None:
    assert "--json" in ALL[command]


@pytest.mark.parametrize("command", sorted(ALL.keys() - SERVE))
def test_a_command_that_acts_or_judges_can_be_quiet(command: str) -> None:
    """The exit code says how it ended, and notes what is wrong."""
    assert ({"--quiet", "-q"} <= ALL[command]) == (command not in ANSWER)


@pytest.mark.parametrize("command", sorted(ALL.keys() - SERVE))
def test_a_command_that_is_brief_can_say_all(command: str) -> None:
    assert ({"--verbose", "-v"} <= ALL[command]) == (command in BRIEF)
