"""What `prove` answers, and its JSON.  Plain data classes: they load in a tenth of the time of validated models."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from egshape.ir import display

Status = Literal["proved", "refuted", "unknown", "inconsistent"]


class _Dumped:
    """The two ways out that the other JSON objects of the package have too."""

    def model_dump(self, *, mode: str = "json", by_alias: bool = True) -> dict[str, Any]:
        """As in the JSON; without `by_alias`, "from" is "from_".  Both modes give plain JSON values."""
        del mode
        data: dict[str, Any] = _plain(self, by_alias)
        return data

    def model_dump_json(self) -> str:
        """The JSON text."""
        return json.dumps(self.model_dump(), ensure_ascii=False, separators=(",", ":"))


@dataclass
class StepModel(_Dumped):
    """One step of a proof: by `rule`, from the statements `from_` (JSON: `from`), follows `to`."""

    rule: str
    from_: list[str]
    to: str


@dataclass(kw_only=True)
class Proof(_Dumped):
    """The answer to one question.

    `why` explains proved and refuted-everywhere, `counterexample` are checked sizes that satisfy the
    givens and make the goal false, `missing` is a fact that would decide an unknown goal (None: none was found),
    `clash` are the givens that no sizes satisfy together, `seconds` is wall-clock time, `notes` name rules of a user
    that were left out.
    """

    version: int = 1
    goal: str
    given: list[str] = field(default_factory=list)
    status: Status
    why: list[StepModel] = field(default_factory=list)
    counterexample: dict[str, int] | None = None
    missing: str | None = None
    clash: list[str] | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return display.verdict(self.model_dump())

    def _repr_html_(self) -> str:
        return display.html(self)


@dataclass(kw_only=True)
class CaseModel(Proof):
    """A question of a file: with its id and the status it should have."""

    id: str
    want: str


@dataclass(kw_only=True)
class CasesModel(_Dumped):
    """The answers to a file of questions."""

    version: int = 1
    rows: list[CaseModel]
    right: int
    wrong: int


def _plain(value: Any, by_alias: bool) -> Any:
    if isinstance(value, _Dumped):
        return {
            k.rstrip("_") if by_alias else k: _plain(v, by_alias)
            for k, v in vars(value).items()
            if k != "notes" or v  # only where there are any
        }
    if isinstance(value, list):
        return [_plain(v, by_alias) for v in value]
    return dict(value) if isinstance(value, dict) else value
