"""Rulesets that other packages ship, found by their entry points in the group ``egshape.rulesets``.

    [project.entry-points."egshape.rulesets"]
    acme = "acme.rules:FOLDER"          # a folder of .egg files, a list of such files, or a function that gives one

``acme/fuse.egg`` is the ruleset ``acme.fuse``, and ``acme`` all of them. Nothing is loaded unless it is asked for; a
package that declares custom ops does so in the module that the entry point names."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from egshape.errors import EgshapeError

GROUP = "egshape.rulesets"


def packages() -> tuple[EntryPoint, ...]:
    """The entry points, in the order of their names."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda point: point.name))


def find(name: str) -> dict[str, Path]:
    """The files of a ruleset or of a whole package, by ruleset name; empty if no package has that name.

    Raises EgshapeError where the package cannot be loaded or gives no files."""
    for point in packages():
        if name == point.name or name.startswith(point.name + "."):
            found = files_of(point)
            return {each: path for each, path in found.items() if name in (each, point.name)}
    return {}


def files_of(point: EntryPoint) -> dict[str, Path]:
    """The files of one entry point by ruleset name."""
    where = f"entry point {point.name} = {point.value}"
    try:
        given = point.load()
        given = given() if callable(given) else given
    except Exception as error:
        raise EgshapeError(
            f"the package of rules cannot be loaded: {type(error).__name__}: {error}",
            where=where,
            hint="mend or remove the package",
            code="rules",
        ) from error
    found: dict[str, Path] = {}
    for path in _paths(given):
        root = path if path.is_dir() else path.parent
        for file in sorted(path.rglob("*.egg")) if path.is_dir() else (path,):
            found[".".join([point.name, *file.relative_to(root).with_suffix("").parts])] = file
    if not found:
        raise EgshapeError(
            "the entry point gives no .egg files",
            where=where,
            code="rules",
            hint="let it name a folder, or a list of files",
        )
    return found


def _paths(given: Any) -> list[Path]:
    if isinstance(given, ModuleType):
        return [Path(folder) for folder in getattr(given, "__path__", ())]
    if isinstance(given, str | Path):
        return [Path(given)]
    if isinstance(given, Iterable):
        return [path for each in given for path in _paths(each)]
    return []
