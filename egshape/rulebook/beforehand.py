"""Rules of a user, tried before they are used: which of them are left out, and why.

A verdict is kept on disk, under the text of the rule and of all that it needs."""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from egshape.dims.functions import SizeFunction
from egshape.egraph.engine import POOL
from egshape.egraph.process import Allowance
from egshape.egraph.program import Program, fills, program
from egshape.errors import EgshapeError
from egshape.limits import LimitReached, Limits
from egshape.lower.common.cache import cached
from egshape.ops import REGISTRY
from egshape.rulebook.trial.record import recording_program
from egshape.rulebook.trial.run import Quick, over_tensors, tried_alone
from egshape.rulelang.loader import Rule, shipped_rulesets
from egshape.rulelang.rulefile import Dropped
from egshape.rulelang.size_functions import size_functions as untried

SECONDS, SHARE, LEAST = 0.6, 0.25, 1.0
"""Time of the processor for the trial of one rule at most, time for all of them in that of an optimization, and the
seconds that each has, while there are any, to be tried on enough programs: one that is cut off costs an engine, too."""

FORMAT = "4"
_NO_TIME = "no time was left to try it"


class _CutShort(Exception):
    """A verdict that is not kept, since another run may find more; ``again``: with more time."""

    def __init__(self, why: str, again: bool = False) -> None:
        super().__init__(why)
        self.why, self.again = why, again


@contextmanager
def size_functions(
    rules: str | Path | Collection[str | Path], omit: Collection[str] = (), trust_rules: bool = False
) -> Iterator[dict[str, SizeFunction]]:
    """Texts that are read inside of the ``with`` may name the size functions that rulesets, given by path or name,
    declare or need. Gives them by name: each is a function of sizes, which may be used outside, too. omit: names of
    rules that do not count; nor do those, which a warning names, that are refuted when they are tried, or cannot be
    tried, unless trust_rules is given.

    Raises EgshapeError (code "rules") for a wrong file, and where two files mean two functions by one name.

    Examples:
        >>> import egshape
        >>> with egshape.size_functions("round_up.egg"):  # of examples/sizes
        ...     egshape.prove("round_up(n, 8) >= n").status
        'proved'
    """
    items = (rules,) if isinstance(rules, str | Path) else rules
    with tried(tuple(map(str, items)), trust_rules, omit=omit) as (functions, dropped):
        for each in dropped:
            warnings.warn(str(each), RuntimeWarning, stacklevel=3)
        yield functions


@contextmanager
def tried(
    rules: Sequence[str], trust_rules: bool, limits: Limits | None = None, omit: Collection[str] = ()
) -> Iterator[tuple[dict[str, SizeFunction], tuple[Dropped, ...]]]:
    """The size functions of rulesets, known to texts inside, without rules that are left out, and the latter."""
    why = {} if trust_rules or not rules else left_out(rules, limits or Limits())
    with untried(rules, frozenset((*omit, *why))) as functions:
        yield functions, tuple(Dropped(*each) for each in why.items())


def left_out(rules: Sequence[str], limits: Limits) -> dict[str, str]:
    """Why rules of a user are not used, by name: those that are refuted, and those that could not be tried.

    Raises EgshapeError for a wrong file or an unknown name."""
    with untried(rules):
        return _why_not(tuple(map(str, rules)), limits)


def _why_not(extra: tuple[str, ...], limits: Limits) -> dict[str, str]:
    """``left_out``, where texts may name size functions."""
    everything = program(extra)
    shipped = frozenset(shipped_rulesets())
    own = [each for each in everything.rules.rules if each.ruleset not in shipped and not fills(each)]
    if not own:
        return {}
    trials = _Trials(everything, own, extra, float("inf") if limits.seconds is None else SHARE * limits.seconds)
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

    def __init__(self, everything: Program, rules: Sequence[Rule], extra: tuple[str, ...], seconds: float) -> None:
        self.everything = everything
        self.rules = rules
        self.extra = extra
        self.seconds = seconds
        self.needs: dict[str, _Needs] = {}

    @cached_property
    def end(self) -> float:
        """When all must be over, as a `time.monotonic()` value. The program is loaded first, where that is needed."""
        if any(over_tensors(each, self.everything) for each in self.rules):
            until = time.monotonic() + self.seconds
            with suppress(LimitReached), POOL.lend(recording_program(self.extra).pieces, Allowance(until=until)):
                pass
        return time.monotonic() + self.seconds

    def why_not(self, rule: Rule, among: int) -> str:
        """Why a rule is not used, "" where it is; ``among`` so many rules the time that is left is shared.

        Raises _CutShort where another run may find another answer."""

        def make() -> bytes:
            left = self.end - time.monotonic()
            if left <= 0:
                raise _CutShort(_NO_TIME)
            now, fair = time.monotonic(), left / among
            quick = Quick(time.thread_time() + SECONDS, now + min(left, max(fair, LEAST)), now + fair)
            why, whole = _tried(rule, self.everything, self.extra, quick)
            if not whole:
                raise _CutShort(why)
            return json.dumps(why).encode()

        return str(json.loads(make() if _of_custom_ops(rule) else cached(self._key(rule), make)))

    def _key(self, rule: Rule) -> list[str]:
        """All that a verdict hangs on: the rule, with its examples, and what it needs; not the other rules of its
        file."""
        needs = self._needs(rule.ruleset)
        examples = [f"{each.before} => {each.after}" for each in (*rule.examples, *rule.counters)]
        return [needs.digest, rule.text, *examples, *needs.own[rule.where]]

    def _needs(self, ruleset: str) -> _Needs:
        """What the verdicts of a ruleset's rules have in common."""
        if ruleset not in self.needs:
            rules = [each for each in self.rules if each.ruleset == ruleset]
            over = over_tensors(rules[0], self.everything)
            self.needs[ruleset] = _needs(rules, recording_program(self.extra) if over else self.everything)
        return self.needs[ruleset]


@dataclass(frozen=True)
class _Needs:
    """A digest of what all rules of a ruleset need, and the pieces of each by its place."""

    digest: str
    own: Mapping[str, Sequence[str]]


def _needs(rules: Sequence[Rule], loaded: Program) -> _Needs:
    own: dict[str, list[str]] = {each.where: [] for each in rules}
    shared = [FORMAT, version("egshape"), version("egglog"), *_contracts()]
    shared += [str(each.tolerance) for each in loaded.rules.rulesets if each.name == rules[0].ruleset]
    shared += [repr((e.name, e.params, e.equal, e.formula, e.emitted, e.defined)) for e in loaded.rules.sizes]
    for piece in loaded.pieces:
        own.get(piece.where, shared).append(piece.text)
    return _Needs(hashlib.sha256(chr(0).join(shared).encode()).hexdigest(), own)


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
    return "", time.monotonic() < quick.fair


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
