"""The shape-constraint IR: what is known about sizes, apart from any graph, in text and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from egshape.facts.intervals import EVERYTHING, Interval, Ranges
from egshape.facts.relation import Likely, Relation, facts_given, parse_facts, parse_relation, several
from egshape.facts.store import Facts, SymbolFacts

if TYPE_CHECKING:
    from egshape.facts.model import FactsModel, SymbolFactsModel

__all__ = [
    "EVERYTHING",
    "Facts",
    "FactsModel",
    "Interval",
    "Likely",
    "Ranges",
    "Relation",
    "SymbolFacts",
    "SymbolFactsModel",
    "facts_given",
    "parse_facts",
    "parse_relation",
    "several",
]


def __getattr__(name: str) -> Any:
    """The models of the JSON are imported when they are first used: their library is slow to load."""
    if name in ("FactsModel", "SymbolFactsModel"):
        from egshape.facts import model

        return getattr(model, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
