"""Tools for people who write rules: list, show, check, test, profile, trace, and the language that rules speak.

from egshape import rulebook
print(rulebook.check("my.egg").render())
for verdict in rulebook.test("my.egg"):
    print(verdict.rule, verdict.result, verdict.why)"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egshape.rulebook.listing import find_rule, list_rules, prelude, show_rule
    from egshape.rulebook.models import OpEntry, ProfileReport, RuleEntry, TestReport, TraceReport
    from egshape.rulebook.profiling import profile, trace
    from egshape.rulebook.trying import check, test

_MODULES = {
    "listing": ("find_rule", "list_rules", "prelude", "show_rule"),
    "models": ("OpEntry", "ProfileReport", "RuleEntry", "TestReport", "TraceReport"),
    "profiling": ("profile", "trace"),
    "trying": ("check", "test"),
}

__all__ = [
    "OpEntry",
    "ProfileReport",
    "RuleEntry",
    "TestReport",
    "TraceReport",
    "check",
    "find_rule",
    "list_rules",
    "prelude",
    "profile",
    "show_rule",
    "test",
    "trace",
]


def __getattr__(name: str) -> Any:
    """What optimizing needs of this package is imported without its tools, which optimize."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
