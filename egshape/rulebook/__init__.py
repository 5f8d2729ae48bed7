"""Tools for people who write rules: list, show, check, test, profile, trace, and the language that rules speak.

from egshape import rulebook
print(rulebook.check("my.egg").render())
for verdict in rulebook.test("my.egg"):
    print(verdict.rule, verdict.result, verdict.why)"""

from egshape.rulebook.listing import find_rule, list_rules, prelude, show_rule
from egshape.rulebook.models import OpEntry, ProfileReport, RuleEntry, TestReport, TraceReport
from egshape.rulebook.profile import profile, trace
from egshape.rulebook.trying import check, test

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
