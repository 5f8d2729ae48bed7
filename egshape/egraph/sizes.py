"""What is known of sizes in one block, for all who ask when its stages are through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egshape.decide.context import Answer, Assumption, Context
from egshape.decide.reason import Rule
from egshape.dims import Dim
from egshape.egraph.exchange import Equality, ExchangeState
from egshape.facts import Relation
from egshape.facts.intervals import Ranges


@dataclass(frozen=True)
class Sizes:
    """One face for what was decided in program order and what the rules over sizes found.

    ``exchange`` is None where no rules ran. Nothing is changed by asking."""

    context: Context
    exchange: ExchangeState | None = None

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was believed, with its reason, in order."""
        return self.context.assumptions

    @property
    def equalities(self) -> Sequence[Equality]:
        """The equations that the rules over sizes used, in the order found."""
        return self.exchange.equalities if self.exchange is not None else ()

    def normal_form(self, dim: Dim) -> Dim:
        """The simplest known size that is equal, the same for all sizes known to be equal by rules."""
        return dim if self.exchange is None else self.exchange.normal_form(dim)

    def equal(self, one: Dim, other: Dim) -> bool:
        """Whether two sizes are known to be equal."""
        return self.decide(Relation("==", one, other)) == "proved"

    def decide(self, relation: Relation) -> Answer:
        """Whether a relation is known to hold, or to fail, at all sizes."""
        if relation.kind == "==" and self.normal_form(relation.lhs) is self.normal_form(relation.rhs):
            return "proved"
        return self.context.decide(relation)

    def bounds(self, dim: Dim) -> tuple[int | None, int | None]:
        """(low, high), inclusive; None where no bound is known."""
        return self.context.bounds(dim)

    def ranges(self, dim: Dim) -> Ranges:
        """The sizes that a dim may be, as far as intervals tell."""
        return self.context.ranges(dim)

    def residue_class(self, dim: Dim) -> tuple[int, int]:
        """(divisor, remainder) of a size, as far as known; (0, value) of a number."""
        return self.context.residue_class(dim)

    def explain(self, one: Dim, other: Dim) -> Sequence[Equality] | None:
        """The equations that make two sizes equal for the rules, in order; None where they are not equal by rules."""
        return None if self.exchange is None else self.exchange.explain(one, other)

    def premises(self, relation: Relation) -> tuple[tuple[Assumption, ...], Rule] | None:
        """Assumptions that suffice for a relation, and the rule by which it follows; None where it is not proved so."""
        verdict = self.context.verdict(relation)
        if verdict.answer != "proved":
            return None
        return self.context.premises(relation) or (), verdict.rule
