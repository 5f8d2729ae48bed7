"""What a command on many models has done before, so that it does not do it again: beside its results, by the content
of all that they depend on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from egshape import __version__
from egshape.atomic import write_atomic
from egshape.commands.work import Done, Task
from egshape.errors import EgshapeError
from egshape.frontends.registry import of_form

FOLDER = ".egshape"
"""Inside the folder of results: a file for each, named by its key."""


def parts(model: Path, format: str | None) -> tuple[Path, ...]:
    """The files that a model is in, its own first. Raises EgshapeError for one that cannot be read."""
    try:
        return (model, *of_form(format or model.suffix.removeprefix(".")).beside(model))
    except KeyError:
        return (model,)


def key(task: Task) -> str:
    """What a task depends on, as a short text: the release, the command, its options, the content of the model and of
    files that options name. Raises EgshapeError for a model that cannot be read."""
    files = parts(Path(task.model), task.options.get("format"))
    options = {name: _told(value) for name, value in sorted(task.options.items()) if name not in task.outputs}
    told = [__version__, list(task.command), options, [_digest(file) for file in files]]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


def _told(value: Any) -> Any:
    """A value of an option as JSON, files by their content."""
    if isinstance(value, list | tuple):
        return [_told(each) for each in value]
    if isinstance(value, Path) and value.is_file():
        return _digest(value)
    return str(value)


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise EgshapeError(f"cannot be read: {error.strerror}", where=str(file), code="read") from error


def found(folder: Path, task: Task) -> Done | None:
    """How a task ended before, if what it wrote is still there as it was."""
    try:
        told = json.loads((folder / FOLDER / f"{key(task)}.json").read_text())
        if all(_digest(folder / name) == digest for name, digest in told["files"].items()):
            return Done(0, told["out"], told["err"], told["seconds"], stands=True)
    except (OSError, ValueError, KeyError, EgshapeError):
        pass
    return None


def keep(folder: Path, task: Task, done: Done) -> None:
    """Remember what a task did, if it was done well."""
    if done.code:
        return
    files = {os.path.relpath(path, folder): _digest(path) for path in _written(task)}
    told = {"model": task.model, "out": done.out, "err": done.err, "seconds": round(done.seconds, 3), "files": files}
    write_atomic(folder / FOLDER / f"{key(task)}.json", json.dumps(told) + "\n")


def _written(task: Task) -> Iterator[Path]:
    for option in task.outputs:
        path = Path(task.options[option])
        yield path
        yield from parts(path, None)[1:]
        if path.suffix == ".h":
            yield path.with_name(f"lib{path.stem}.so")
