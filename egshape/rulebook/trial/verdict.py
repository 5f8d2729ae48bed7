"""What trying a rule out gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from egshape.rulebook.models import TestRow

Road = Literal["sizes", "tensors", "types", "obligations"]
Status = Literal["proved", "sampled", "failed", "unknown"]


@dataclass(frozen=True)
class Outcome:
    """Whether a rule's statement is true: proved; sampled, at so many points without a difference, with what kept it
    from more in ``text``; failed, with the smallest counterexample; or unknown, with the reason."""

    rule: str
    status: Status
    points: int = 0
    text: str = ""


@dataclass(frozen=True)
class Fired:
    """On how many programs a rule fired, and over which ranks and dtypes of arguments and results."""

    graphs: int = 0
    ranks: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """All that was tried on one rule. ``examples`` says what is wrong with its examples, () if nothing."""

    rule: str
    where: str
    road: Road
    outcome: Outcome
    fired: Fired
    examples: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether the rule stands: true as far as anybody looked, and its examples do what they say."""
        return self.outcome.status in ("proved", "sampled") and not self.examples

    @property
    def row(self) -> TestRow:
        """The same as JSON, and as cells of a table."""
        return TestRow(
            rule=self.rule,
            where=self.where,
            road=self.road,
            status=self.outcome.status,
            good=self.good,
            points=self.outcome.points,
            graphs=self.fired.graphs,
            ranks=self.fired.ranks,
            dtypes=self.fired.dtypes,
            counterexample=self.outcome.text,
            examples=self.examples,
        )

    @property
    def result(self) -> str:
        """One cell of the table."""
        return self.row.result

    @property
    def why(self) -> str:
        """What is wrong, "" if nothing."""
        return self.row.why
