"""Rules over tensors that keep each of their applications, in programs for looking at rules.

A rule is given one more action: a row with the values of all its variables, tensors by their names (`nm`), from which
both sides are written out as terms afterwards (``applications.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.ops import REGISTRY
from egshape.rulelang.loader import Loader
from egshape.rulelang.piece import Piece
from egshape.rulelang.provenance import EquationLog, PlainRule
from egshape.rulelang.sexpr import Atom, List, SExpr
from egshape.rulelang.termination import spelled_sides
from egshape.rulelang.typecheck import variable_sorts

_COLUMNS = {
    "T": "i64",
    "Dim": "Dim",
    "i64": "i64",
    "String": "String",
    "Axes": "Axes",
    "Shape": "Shape",
    "Dims": "Dims",
}


@dataclass(frozen=True, slots=True)
class Application:
    """The table that keeps the applications of one union of a rule: variable and sort of its columns, and both sides
    as patterns."""

    table: str
    rule: str
    columns: tuple[tuple[str, str], ...]
    root: str
    before: SExpr
    after: SExpr


class Tracing(Loader):
    """A loader whose rules over tensors keep their applications."""

    def __init__(
        self, preludes: Mapping[str, str], provenance: bool, split: bool = False, omit: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(preludes, provenance, split, omit)
        self.applications: list[Application] = []

    def logged(self, plain: PlainRule) -> tuple[PlainRule, tuple[EquationLog, ...]]:
        if "prelude.tensor" not in self.done:
            return super().logged(plain)
        sorts = variable_sorts(plain, self.scheme, REGISTRY)
        sides = [pair for pair in spelled_sides(plain, self.scheme) if self.scheme.sort(pair.root, sorts) == "T"]
        for pair in sides[:1]:
            columns = tuple((name, sort) for name, sort in sorts.items() if sort in _COLUMNS)
            table = f"{plain.name}#applied"
            tensors = {name for name, sort in sorts.items() if sort == "T"}
            root = str(pair.root) if isinstance(pair.root, Atom) else ""
            self.applications.append(Application(table, plain.name, columns, root, pair.left, pair.right))
            self.pieces.append(Piece(f"(relation {table} ({' '.join(_COLUMNS[sort] for _, sort in columns)}))"))
            plain = _keeping(plain, table, columns, tensors)
        return super().logged(plain)


def _keeping(plain: PlainRule, table: str, columns: Sequence[tuple[str, str]], tensors: set[str]) -> PlainRule:
    at = plain.at

    def call(head: str, *args: SExpr) -> List:
        return List((Atom(head, at), *args), at)

    names = {name: Atom(f"applied__{name}", at) for name in tensors}
    body = [call("=", atom, call("nm", Atom(name, at))) for name, atom in names.items()]
    row = call(table, *(names.get(name, Atom(name, at)) for name, _ in columns))
    return replace(plain, body=(*plain.body, *body), actions=(*plain.actions, row))
