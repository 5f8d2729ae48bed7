"""egshape: shape reasoning and rewriting for tensor programs with symbolic sizes.

The names below are the public ones. Each is imported when it is first used, so that ``egshape.runtime`` can
be used where only numpy is installed.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egshape import frontends, runtime, torch
    from egshape.adapters.annotated import fn
    from egshape.adapters.jax import jax_call
    from egshape.adapters.specialised import specialised
    from egshape.annotate import annotate
    from egshape.api import Limits, Result, compile, load, optimize, save
    from egshape.errors import EgshapeError
    from egshape.facts import Facts
    from egshape.ir.graph import Graph
    from egshape.ops.custom import custom_op
    from egshape.reasons.diff import diff
    from egshape.reasons.proving import prove
    from egshape.rulebook.beforehand import size_functions
    from egshape.rulelang.python_rules import rule
    from egshape.rulelang.python_sizes import size_function
    from egshape.rulelang.written import custom_ops

__version__ = "0.1.0"

__all__ = [
    "EgshapeError",
    "Facts",
    "Graph",
    "Limits",
    "Result",
    "__version__",
    "annotate",
    "compile",
    "custom_op",
    "custom_ops",
    "diff",
    "fn",
    "frontends",
    "jax_call",
    "load",
    "optimize",
    "prove",
    "rule",
    "runtime",
    "save",
    "size_function",
    "size_functions",
    "specialised",
    "torch",
]

_HOME = {
    "EgshapeError": "egshape.errors",
    "Facts": "egshape.facts",
    "Graph": "egshape.ir.graph",
    "Limits": "egshape.api",
    "Result": "egshape.api",
    "annotate": "egshape.annotate",
    "compile": "egshape.api",
    "custom_op": "egshape.ops.custom",
    "custom_ops": "egshape.rulelang.written",
    "diff": "egshape.reasons.diff",
    "fn": "egshape.adapters.annotated",
    "jax_call": "egshape.adapters.jax",
    "load": "egshape.api",
    "optimize": "egshape.api",
    "prove": "egshape.reasons.proving",
    "rule": "egshape.rulelang.python_rules",
    "save": "egshape.api",
    "size_function": "egshape.rulelang.python_sizes",
    "size_functions": "egshape.rulebook.beforehand",
    "specialised": "egshape.adapters.specialised",
}
_SUBMODULES = frozenset(("frontends", "runtime", "torch"))


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"egshape.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Importing the module ``egshape.prove`` binds its name here; the name belongs to the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
