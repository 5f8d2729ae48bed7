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
    others = sorted({place for place, check in enumerate(out) if _is_kept(check)} - set(candidates))
    _ask(out, candidates, _with(outside, [out[place] for place in others]) if candidates else outside)
    return out


def _ask(out: list[Check], places: Sequence[int], others: Context) -> None:
    """Mark those of the checks that are implied. ``others``: what holds without these.

    By halves: what a half is asked with is assumed once for all of it, not again for each check."""
    if len(places) > 1:
        half = len(places) // 2
        first, second = places[:half], places[half:]
        _ask(out, first, _with(others, [out[place] for place in second]))
        _ask(out, second, _with(others, [out[place] for place in first if _is_kept(out[place])]))
        return
    for place in places:
        relation = out[place].relation
        if relation is not None and others.decide(relation) == "proved":
            out[place] = replace(out[place], status="proved", why=(Step(IMPLIED, (), relation),))


def _with(context: Context, checks: Sequence[Check]) -> Context:
    """A context with what checks say."""
    out = context.copy()
    out.assume_all(
        [(each.relation, reason.Check(location=each.location)) for each in checks if each.relation is not None]
    )
    return out


def _is_kept(check: Check) -> bool:
    return check.status == "kept" and check.entry


def _is_ours(check: Check) -> bool:
    return check.op is None and check.index != GIVEN and _is_kept(check) and check.relation is not None
