"""Rules of a user, tried before they are used: which of them are left out, and why.

A verdict is kept on disk, under the text of the rule and of all that it needs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from importlib.metadata import version
from importlib.resources import files

from egshape.egraph.engine import POOL
from egshape.egraph.process import Allowance
from egshape.egraph.program import Program, fills, program
from egshape.errors import EgshapeError
from egshape.limits import LimitReached, Limits
from egshape.lower.common.cache import cached
from egshape.ops import REGISTRY
from egshape.rulebook.trial.record import recording_program
from egshape.rulebook.trial.run import Quick, tried_alone
from egshape.rulelang.loader import Rule, shipped_rulesets

SECONDS, SHARE = 0.6, 0.25
"""Time of the processor for the trial of one rule at most, and time for all of them in that of an optimization."""

FORMAT = "3"
_NO_TIME = "no time was left to try it"


class _CutShort(Exception):
    """A verdict that is not kept, since another run may find more; ``again``: with more time."""

    def __init__(self, why: str, again: bool = False) -> None:
        super().__init__(why)
        self.why, self.again = why, again


def left_out(rules: Sequence[str], limits: Limits) -> dict[str, str]:
    """Why rules of a user are not used, by name: those that are refuted, and those that could not be tried.

    Raises EgshapeError for a wrong file or an unknown name."""
    extra = tuple(rules)
    everything = program(extra)
    own = [each for each in everything.rules.rules if each.ruleset not in shipped_rulesets() and not fills(each)]
    if not own:
        return {}
    trials = _Trials(everything, extra, float("inf") if limits.seconds is None else SHARE * limits.seconds)
    found: dict[str, str] = {}
    waiting = own
    for _ in range(2):  # one that is cut short is tried once more, in the time that the others did not need
        again = []
        for number, rule in enumerate(waiting):
            try:
                found[rule.name] = trials.why_not(rule, len(waiting) - number)
            except _CutShort as cut:
                found[rule.name] = cut.why
                again += [rule] if cut.again else []
        waiting = again
    return {name: why for name, why in found.items() if why}


class _Trials:
    """Trials of the rules of one program, in so many seconds once it is loaded."""

    def __init__(self, everything: Program, extra: tuple[str, ...], seconds: float) -> None:
        self.everything = everything
        self.extra = extra
        self.seconds = seconds

    @cached_property
    def end(self) -> float:
        """When all must be over, as a `time.monotonic()` value. The program is loaded first."""
        with (
            suppress(LimitReached),
            POOL.lend(recording_program(self.extra).pieces, Allowance(until=time.monotonic() + self.seconds)),
        ):
            pass
        return time.monotonic() + self.seconds

    def why_not(self, rule: Rule, among: int) -> str:
        """Why a rule is not used, "" where it is; ``among`` so many rules the time that is left is shared.

        Raises _CutShort where another run may find another answer."""

        def make() -> bytes:
            left = self.end - time.monotonic()
            if left <= 0:
                raise _CutShort(_NO_TIME)
            quick = Quick(time.thread_time() + SECONDS, time.monotonic() + left / among)
            why, whole = _tried(rule, self.everything, self.extra, quick)
            if not whole:
                raise _CutShort(why)
            return json.dumps(why).encode()

        return str(json.loads(make() if _of_custom_ops(rule) else cached(_key(rule, self.extra), make)))


def _tried(rule: Rule, everything: Program, extra: tuple[str, ...], quick: Quick) -> tuple[str, bool]:
    """Why a rule is not used, and whether it had all the time that a rule has."""
    try:
        _, outcome = tried_alone(rule, everything, extra, quick=quick)
    except EgshapeError:
        raise
    except Exception as fault:  # of ours: a rule that is wrong in a new way must not end the optimization
        raise _CutShort(f"it could not be tried, {type(fault).__name__}: {fault}") from fault
    if outcome.status == "failed":
        return f"it is wrong, {outcome.text}", True
    if outcome.status == "unknown":
        raise _CutShort(f"it could not be tried, {outcome.text}", quick.over())
    return "", time.monotonic() < quick.until


def _key(rule: Rule, extra: tuple[str, ...]) -> list[str]:
    """All that a verdict hangs on: the rule, with its examples, and what it needs; not the other rules of its file."""
    recording = recording_program(extra)
    beside = {
        each.where
        for each in recording.rules.rules
        if each.name != rule.name and each.ruleset == rule.ruleset and not fills(each)
    }
    header = next(each for each in recording.rules.rulesets if each.name == rule.ruleset)
    examples = [f"{each.before} => {each.after}" for each in (*rule.examples, *rule.counters)]
    sizes = [repr((e.name, e.params, e.equal, e.formula, e.emitted, e.defined)) for e in recording.rules.sizes]
    return [
        FORMAT,
        version("egshape"),
        version("egglog"),
        rule.text,
        *examples,
        str(header.tolerance),
        *sizes,
        *_contracts(),
        *(piece.text for piece in recording.pieces if piece.where not in beside),
    ]


@lru_cache(maxsize=1)
def _contracts() -> tuple[str, ...]:
    """The texts of what ops mean."""
    folder = files("egshape").joinpath("rulesets", "ops")
    return tuple(sorted(each.read_text(encoding="utf-8") for each in folder.iterdir() if each.name.endswith(".egg")))


def _of_custom_ops(rule: Rule) -> bool:
    """Whether a rule names ops whose meaning is code of the user: no text holds all that its verdict hangs on."""
    texts = " ".join([rule.text, *(each.before for each in (*rule.examples, *rule.counters))])
    words = set(re.findall(r"\w+", texts))
    return any(decl.custom and decl.name in words for decl in REGISTRY)
