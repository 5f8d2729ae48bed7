"""Sizes that a running program has seen, how often each, and what is expected from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from egshape.errors import InvalidInput
from egshape.facts import Facts

MOST_LIKELY = 8
"""Sizes of a symbol that become likely ones: those seen most often."""


class _Seen(BaseModel):
    """The JSON, version 1: how often each size of each symbol was seen."""

    model_config = ConfigDict(extra="forbid")

    version: int = 1
    sizes: dict[str, dict[NonNegativeInt, PositiveInt]] = {}


@dataclass(frozen=True)
class Observed:
    """``counts[symbol][size]``: how many calls had it."""

    counts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def facts(self) -> Facts:
        """The sizes seen most often as likely ones, the most frequent first. They prove nothing."""
        found = Facts()
        for name, sizes in self.counts.items():
            often = sorted(sizes, key=lambda size: (-sizes[size], size))[:MOST_LIKELY]
            found = found.with_symbol(name, likely=often)
        return found

    def to_json(self) -> str:
        """The JSON of version 1, which ``--likely-from`` reads."""
        return _Seen(sizes={name: dict(sizes) for name, sizes in self.counts.items()}).model_dump_json()

    @staticmethod
    def from_json(text: str | bytes) -> Observed:
        """From JSON. Raises InvalidInput with the field that is wrong."""
        try:
            seen = _Seen.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "sizes"
            raise InvalidInput(f"JSON of observed sizes: {first['msg']}", where=where) from None
        if seen.version != 1:
            raise InvalidInput(f"observed sizes of version {seen.version}", hint="this egshape reads version 1")
        return Observed(seen.sizes)
