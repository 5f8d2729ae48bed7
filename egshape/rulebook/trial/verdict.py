"""What trying a rule out gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

    def __str__(self) -> str:
        if not self.graphs:
            return "-"
        dtypes = " ".join(self.dtypes) if len(self.dtypes) <= _SHOWN_DTYPES else f"{len(self.dtypes)} dtypes"
        return f"{self.graphs}: ranks {' '.join(map(str, self.ranks))}, {dtypes}"


_SHOWN_DTYPES = 3


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
    def result(self) -> str:
        """One cell of the table."""
        if self.examples and self.outcome.status != "failed":
            return "failed"
        if self.outcome.status == "sampled":
            return f"sampled {self.outcome.points}"
        return self.outcome.status

    @property
    def why(self) -> str:
        """What is wrong, "" if nothing."""
        texts = [self.outcome.text] if self.outcome.status in ("failed", "unknown") else []
        return "\n".join([*texts, *self.examples])
