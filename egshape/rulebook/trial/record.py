"""A program in which rules say what they would do and do nothing: each union becomes a row of a table.

Both sides of a rule then stay apart in the e-graph and can be computed and compared, whatever other rules do; and a
rule that grows without end does not. Each rule of a user is a ruleset by itself there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from egshape.egraph.exchange import SHAPE_RULESETS
from egshape.egraph.program import SOURCES, Program, preludes, shipped, stamp, states
from egshape.ops import REGISTRY
from egshape.rulelang.loader import LoadedRules, Loader, find_rulesets, shipped_rulesets
from egshape.rulelang.piece import Piece
from egshape.rulelang.provenance import EquationLog, PlainRule
from egshape.rulelang.rulefile import RuleFile, Ruleset
from egshape.rulelang.schema import load_rules
from egshape.rulelang.sexpr import Atom, List, SExpr

UNITED = {"T": "would_equal", "Dim": "would_equal_size", "Shape": "would_equal_shape"}
DTYPE = "would_have_dtype"
TABLES = """
(relation would_equal (String T T))
(relation would_equal_size (String Dim Dim))
(relation would_equal_shape (String Shape Shape))
(relation would_have_dtype (String T String))
"""


def recording_program(extra: tuple[str, ...]) -> Program:
    """The shipped rulesets and ``extra`` ones; those over tensors record only. Raises EgshapeError for a wrong file."""
    found = tuple(item for each in extra for item in find_rulesets(each))
    return _program(found, REGISTRY.version, stamp(found))


@lru_cache(maxsize=1)
def _program(extra: tuple[str, ...], version: int, stamped: object) -> Program:
    loader = _Recorder(preludes())
    for name in SHAPE_RULESETS:
        loader.load(name, "")
    for name in (*(each for each in shipped() if each not in SHAPE_RULESETS), *extra):
        loader.load(name, "")
    loaded = loader.loaded()
    load = tuple(Piece(text, "<load rules>") for text in load_rules(REGISTRY))
    names = [name for name in loaded.names() if name not in SHAPE_RULESETS]
    obligations = tuple(name for name in names if any(states(rule) for rule in loaded.rules if rule.ruleset == name))
    tensors = tuple(name for name in names if name not in obligations and "prelude.tensor" in loaded.needed(name))

    def phases(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(each for name in names for each in ((name,) if _together(name) else loaded.phases(name)))

    return Program(
        (*loaded.pieces, *load),
        loaded,
        (SOURCES, *phases(tensors)),
        ("prelude.shape", *SHAPE_RULESETS),
        phases(obligations),
        frozenset(),
        False,
    )


def _together(ruleset: str) -> bool:
    """Whether the rules of a ruleset run together: those of a user run one by one, so that each can be tried alone."""
    return ruleset in shipped_rulesets()


class _Recorder(Loader):
    """Loads rules over tensors as recorders, others as they are."""

    def __init__(self, generated: Mapping[str, str]) -> None:
        super().__init__({name: text + TABLES for name, text in generated.items()}, provenance=True)

    def loaded(self) -> LoadedRules:
        self.split = True  # so that a ruleset can be asked for its rules
        return super().loaded()

    def _ruleset(self, found: RuleFile, header: Ruleset) -> None:
        self.split = not _together(header.name)
        super()._ruleset(found, header)

    def logged(self, plain: PlainRule) -> tuple[PlainRule, tuple[EquationLog, ...]]:
        if "prelude.tensor" not in self.done or plain.ruleset in SHAPE_RULESETS:
            return super().logged(plain)
        sorts = self.scheme.sorts_of_variables(plain.body)
        actions: list[SExpr] = []
        for action in plain.actions:
            actions += self._recorded(action, plain, sorts)
        return replace(plain, actions=tuple(actions)), ()

    def _recorded(self, action: SExpr, plain: PlainRule, sorts: dict[str, str]) -> list[SExpr]:
        if not isinstance(action, List) or action.head == "subsume":
            return []
        if action.head == "let":
            sorts[str(action.items[1])] = self.scheme.sort(action.items[2], sorts)
        elif action.head == "union":
            sort = self.scheme.sort(action.items[1], sorts) or self.scheme.sort(action.items[2], sorts)
            return [_row(UNITED[sort], plain, *action.items[1:])] if sort in UNITED else [action]
        elif action.head == "set" and isinstance(action.items[1], List):
            target = action.items[1]
            if target.head == "dtype_of":
                return [_row(DTYPE, plain, target.items[1], action.items[2])]
            if target.head == "fuel":
                return []
        return [action]


def _row(table: str, plain: PlainRule, *args: SExpr) -> List:
    at = plain.at
    return List((Atom(table, at), Atom(f'"{plain.name}"', at), *args), at)
