"""The shape-constraint IR: what is known about sizes, apart from any graph, in text and in JSON."""

from egshape.facts.intervals import EVERYTHING, Interval, Ranges
from egshape.facts.relation import Likely, Relation, parse_facts, parse_relation
from egshape.facts.store import Facts, FactsModel, SymbolFacts, SymbolFactsModel

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
    "parse_facts",
    "parse_relation",
]
