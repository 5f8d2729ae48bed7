"""Names of files on the command line: an empty one would be the present folder to ``pathlib``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from egshape.errors import EgshapeError


def refuse_empty(app: typer.Typer, args: Sequence[str]) -> None:
    """Raises EgshapeError for an option of a command that takes a file and has an empty name behind it."""
    empty = [before for before, each in zip(("", *args), args, strict=False) if not each]
    empty += [each[:-1] for each in args if each.startswith("--") and each.endswith("=")]
    if not empty:
        return
    options = {name for command in _commands(app) for name in _file_options(command)}
    for name in empty:
        if name in options:
            raise EgshapeError("is an empty file name", where=name, hint="give the name of a file", code="usage")


def _commands(app: typer.Typer) -> Iterator[Callable[..., Any]]:
    yield from (each.callback for each in app.registered_commands if each.callback is not None)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from _commands(group.typer_instance)


def _file_options(command: Callable[..., Any]) -> Iterator[str]:
    """The options of a command that take a file."""
    for hint in get_type_hints(command, include_extras=True).values():
        if _of_path(hint):
            for info in getattr(hint, "__metadata__", ()):  # of an annotation the first name is the default
                yield from (each for each in (info.default, *(info.param_decls or ())) if isinstance(each, str))


def _of_path(hint: Any) -> bool:
    return hint is Path or any(map(_of_path, get_args(hint)))
