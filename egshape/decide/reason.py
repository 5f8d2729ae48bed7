"""Why something holds, as data: text is made of it where a person or a file sees it, and is never read back.

Every name that a reason has is one that `egshape rules show` shows: a rule's own, or one of `reasons/steps.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from egshape.dims import const
from egshape.facts import Relation

BACKWARD = "<="
"""How the engine's name of a rule ends that is read from right to left."""


@dataclass(frozen=True)
class Reason:
    """Why a statement holds. ``location``: where in the program that is said, "" for nowhere."""

    stated: ClassVar[bool] = True
    """Whether it needs no other statement to follow from."""
    location: str = field(default="", kw_only=True)

    @property
    def name(self) -> str:
        """The name that steps of a chain show."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Given(Reason):
    """A fact that came with the program or the question; ``assumed``: one of the user, which is checked at entry."""

    assumed: bool = False

    @property
    def name(self) -> str:
        return "assumed" if self.assumed else "fact"


@dataclass(frozen=True)
class Entry(Reason):
    """The size of an input's axis fits the 32 bits that hold it."""


@dataclass(frozen=True)
class Check(Reason):
    """A check that the program performs before."""


@dataclass(frozen=True)
class Branch(Reason):
    """The condition of the branch in which it is said; it holds nowhere else."""


@dataclass(frozen=True)
class Semantics(Reason):
    """What an op makes sure of, whatever its operands; ``elements``: what shape code computes."""

    op: str
    elements: bool = False

    @property
    def name(self) -> str:
        return "elements" if self.elements else "semantics"


@dataclass(frozen=True)
class Rule(Reason):
    """A rule, or a step of theory, by its name; ``backward``: read from right to left."""

    stated: ClassVar[bool] = False
    rule: str
    backward: bool = False

    @property
    def name(self) -> str:
        return self.rule

    @staticmethod
    def of(label: str) -> Rule:
        """The rule that the engine calls so."""
        return Rule(label.removesuffix(BACKWARD), label.endswith(BACKWARD))

    def __str__(self) -> str:
        return self.rule + BACKWARD * self.backward


@dataclass(frozen=True)
class Proved(Reason):
    """It was proved of what stood before it, in the last step by a rule."""

    stated: ClassVar[bool] = False
    by: Rule

    @property
    def name(self) -> str:
        return self.by.name


def matched(matches: Mapping[str, int], rule: str) -> int:
    """How often a rule matched, in both directions, by the engine's names."""
    return matches.get(rule, 0) + matches.get(rule + BACKWARD, 0)


Believed = tuple[Relation, Reason]
"""A statement with why it holds."""


class Step(NamedTuple):
    """One step of a proof: for a reason, from the statements `from_`, follows `to`."""

    reason: Reason
    from_: tuple[Relation, ...]
    to: Relation


TRUE = Relation("==", const(0), const(0), "true")
"""What a condition states that holds by its form."""

NORMAL_FORM = Rule("theory.normal-form")
INTERVAL = Rule("theory.interval")
LINEAR = Rule("theory.linear")
CONGRUENCE = Rule("theory.congruence")
MEANING = Rule("theory.meaning")
ENGINE = Rule("theory.engine")
RING = Rule("ring")
SAME = Rule("same expression")
IMPLIED = Rule("implied by the other checks")
FOLDED = Rule("constant folding")
BY_FORM = Rule("by form")
