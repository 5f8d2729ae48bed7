"""Rules and size functions that were written in Python, by name."""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import sys
from collections.abc import Iterable
from pathlib import Path

from egshape.errors import EgshapeError
from egshape.rulelang.rulefile import RuleFile
from egshape.spelling import meant


class PythonRule(str):
    """What was written in Python: a rule, or a size function with its rules. It is its own name, ``module:function``,
    by which whatever takes rules finds it; ``text`` is the rule file that it was compiled to."""

    text: str
    file: RuleFile
    folder: Path
    __slots__ = ("file", "folder", "text")

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # another process finds it by its name


_DECLARED: dict[str, PythonRule] = {}
"""All that were declared, by name; one of a name that was there takes its place, as with ops."""


def declare(made: PythonRule) -> None:
    """Let it be found by its name."""
    _DECLARED[str(made)] = made


def is_python(item: str) -> bool:
    """Whether the name of a ruleset means rules written in Python: ``module:function``, or a file of them."""
    return item.endswith(".py") or (":" in item and not item.endswith(".egg"))


def declared(item: str) -> PythonRule:
    """The rule or size function of a name that ``find`` gave, or that another one needs. Raises EgshapeError (code
    "rules") for one that is no longer there."""
    if item not in _DECLARED:
        module, _, name = item.rpartition(":")
        raise EgshapeError(f"{module} declares no {name}", hint="declare again what needs it", code="rules")
    return _DECLARED[item]


def with_needed(items: Iterable[str]) -> list[PythonRule]:
    """Those of some names that were written in Python, and what they need that was."""
    found: dict[str, PythonRule] = {}
    waiting = [item for item in items if is_python(item)]
    while waiting:
        item = waiting.pop(0)
        if item not in found:
            found[item] = declared(item)
            header = found[item].file.header
            waiting += filter(is_python, header.needs if header else ())
    return list(found.values())


def find(item: str) -> list[str]:
    """The names of the rules that ``module:function``, ``file.py:function`` or ``file.py`` (all of its own) means.

    Raises EgshapeError (code "rules") for a module that cannot be imported, and a function that is no rule."""
    if item in _DECLARED:
        return [item]
    where, name = (item, "") if item.endswith(".py") else item.rsplit(":", 1)
    module = _loaded(Path(where)) if where.endswith(".py") else _imported(where)
    own = {each.rpartition(":")[2]: each for each in _DECLARED if each.startswith(f"{module}:")}
    if not name and own:
        return list(own.values())
    if name not in own:
        hint = meant(name, own, "a rule is a function with @egshape.rule(...); one of a size function is found with it")
        raise EgshapeError(f"there is no rule {name} in {where}".replace("  ", " "), hint=hint, code="rules")
    return [own[name]]


def _imported(module: str) -> str:
    """The module, imported; what stands in the present folder may be. Its name."""
    before = list(sys.path)
    sys.path.insert(0, "")
    try:
        importlib.import_module(module)
    except EgshapeError:
        raise
    except Exception as error:
        raise EgshapeError(
            f"{module} cannot be imported: {type(error).__name__}: {error}",
            hint="write module:function, file.py or file.py:function",
            code="rules",
        ) from error
    finally:
        sys.path[:] = before
    return module


def _loaded(path: Path) -> str:
    """A file of rules, run once; the name of its module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise EgshapeError("cannot be read: there is no such file", where=str(path), code="read")
    for name in [each for each in _DECLARED if each.startswith(f"{path.stem}:")]:
        del _DECLARED[name]  # of an earlier state of the file, or of another one of its name
    linecache.checkcache(str(path))
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except EgshapeError:
        raise
    except Exception as error:
        raise EgshapeError(f"does not run: {type(error).__name__}: {error}", where=str(path), code="rules") from error
    return path.stem
