"""Names of files on the command line: an empty one would be the present folder to ``pathlib``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer
from typer.main import get_command

from egshape.commands.options import Verifier
from egshape.errors import EgshapeError

_OF_FILE = re.compile(r"MODEL|FILE|OUT|\.\w")
"""What help writes for an argument or option that takes the name of a file."""


_OPTIONAL = {"--verify": tuple(Verifier)}
"""Options whose value may be left out, and their values, the first of which stands for none."""


def with_values(args: Sequence[str]) -> list[str]:
    """The arguments, with the values of options that were left out."""
    out = []
    for each, following in zip(args, [*args[1:], ""], strict=True):
        left_out = each in _OPTIONAL and following not in _OPTIONAL[each]
        out.append(f"{each}={_OPTIONAL[each][0]}" if left_out else each)
    return out


def refuse_empty(app: typer.Typer, args: Sequence[str]) -> None:
    """Raises EgshapeError for an argument or option of a command that takes a file and is given an empty name."""
    if all(each and not each.endswith("=") for each in args):
        return
    command: Any = get_command(app)  # what typer makes of it has no public type
    rest = list(args)
    while command is not None:
        context = typer.Context(command, resilient_parsing=True)  # other mistakes are told when the command runs
        values, rest, _ = command.make_parser(context).parse_args(rest)
        for param in command.params:
            given = values.get(param.name)
            if takes_file(param) and "" in (given if isinstance(given, list | tuple) else [given]):
                raise EgshapeError("is an empty file name", where=_said(param, args), hint="give one", code="usage")
        if not rest or not hasattr(command, "resolve_command"):
            return
        _, command, rest = command.resolve_command(context, rest)


def takes_file(param: Any) -> bool:
    """Whether an argument or option of a command is the name of a file."""
    return _OF_FILE.search(param.metavar or "") is not None


def _said(param: Any, args: Sequence[str]) -> str:
    """What the user calls it: an option as written, an argument as help names it."""
    if param.param_type_name == "argument":
        return str(param.metavar).strip("[].")
    return next((str(each) for each in param.opts if each in args), str(param.opts[0]))
