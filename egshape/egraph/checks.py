"""Which kept checks are worth their ops: those that the others do not imply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.decide import reason
from egshape.decide.context import Context
from egshape.decide.reason import IMPLIED, Step
from egshape.egraph.obligations import Check

MAX_CANDIDATES = 48
"""More checks of our own than this are left as they are: each one asked about costs a context of its own."""

GIVEN = -1
"""The index of checks that state what the user assumed; they always stay."""


def without_implied(checks: Sequence[Check], outside: Context) -> list[Check]:
    """The checks, those of our own (not the model's) that the other kept ones imply marked as proved.

    ``outside`` is what holds without any of these checks. Each is asked about in turn and given up before the next,
    so no two can be proved from each other. Only checks on sizes known at entry count: they stand side by side."""
    out = list(checks)
    candidates = [place for place, check in enumerate(out) if _is_ours(check)]
    if len(candidates) > MAX_CANDIDATES:
        return out
    for place in candidates:
        relation = out[place].relation
        assert relation is not None
        context = outside.copy()
        others = [other for index, other in enumerate(out) if index != place and other.status == "kept" and other.entry]
        context.assume_all(
            [(each.relation, reason.Check(location=each.location)) for each in others if each.relation is not None]
        )
        if context.decide(relation) == "proved":
            why = (Step(IMPLIED, (), relation),)
            out[place] = replace(out[place], status="proved", why=why)
    return out


def _is_ours(check: Check) -> bool:
    return (
        check.op is None
        and check.index != GIVEN
        and check.status == "kept"
        and check.entry
        and check.relation is not None
    )
