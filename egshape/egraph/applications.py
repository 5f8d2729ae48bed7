"""Every application of a rule over tensors, with what it matched and what it made.

A rule is given one more action: a row with the values of all its variables, tensors by their names (`nm`), from which
both sides are written out as terms afterwards. Only programs for looking at rules do so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from egshape.dims import Dim
from egshape.ops import REGISTRY
from egshape.rulelang.loader import Loader
from egshape.rulelang.piece import Piece
from egshape.rulelang.provenance import NAME_STRIDE, EquationLog, PlainRule
from egshape.rulelang.schema import ELEMENTWISE
from egshape.rulelang.sexpr import Atom, List, SExpr
from egshape.rulelang.termination import spelled_sides
from egshape.rulelang.typecheck import variable_sorts

if TYPE_CHECKING:
    from egshape.egraph.saturate import Saturated

_COLUMNS = {
    "T": "i64", "Dim": "Dim", "i64": "i64", "String": "String", "Axes": "Axes", "Shape": "Shape", "Dims": "Dims",
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


@dataclass(frozen=True, slots=True)
class Applied:
    """One application: of which rule, to which value ("" for a term that a rule made), with both sides as text."""

    rule: str
    value: str
    before: str
    after: str
    location: str
    place: int


class Tracing(Loader):
    """A loader whose rules over tensors keep their applications."""

    def __init__(self, preludes: Mapping[str, str], provenance: bool, split: bool = False,
                 omit: frozenset[str] = frozenset()) -> None:
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


def read_applications(applications: Iterable[Application], saturated: Saturated) -> list[Applied]:
    """The applications in one e-graph, in program order, each once."""
    reading: _Reading | None = None
    found: dict[Applied, None] = {}
    for each in applications:
        rows = saturated.snapshot.table(each.table)
        if rows and reading is None:
            reading = _Reading(saturated)
        for row in rows if reading is not None else ():
            assert reading is not None
            found.setdefault(reading.applied(each, row))
    return sorted(found, key=lambda one: (one.place, one.rule, one.before, one.after))


class _Reading:
    """What names, sizes and shapes of one e-graph are called."""

    def __init__(self, saturated: Saturated) -> None:
        self.encoding = saturated.encoding
        self.dims = saturated.host.dims(saturated.snapshot)
        self.shapes = saturated.host.shapes(saturated.snapshot, self.dims)

    def applied(self, application: Application, row: Sequence[Any]) -> Applied:
        values = {name: (sort, cell) for (name, sort), cell in zip(application.columns, row, strict=True)}
        node = int(values[application.root][1]) if application.root in values else -1
        known = self.encoding.op_of_node.get(node % NAME_STRIDE)
        value = self.name(node).removeprefix("%") if 0 <= node < NAME_STRIDE else ""
        show = _Shown(values, self).term
        return Applied(application.rule, value, show(application.before), show(application.after),
                       str(known[1].location) if known is not None else "", node % NAME_STRIDE)

    def name(self, number: int) -> str:
        """What a tensor is called: its value, or the value after which a term that a rule made is named."""
        made, node = divmod(number, NAME_STRIDE)
        value = self.encoding.values[node] if 0 <= node < len(self.encoding.values) else None
        base = f"%{value.name}" if value is not None else f"%?{node}"
        return base if made == 0 else f"{base}'{made}"

    def dim(self, cls: Any) -> str:
        found: Dim | None = self.dims.get(cls)
        return "?" if found is None else str(found)

    def shape(self, cls: Any) -> str:
        return f"[{', '.join(map(str, self.shapes[cls]))}]" if cls in self.shapes else "[?]"


class _Shown:
    """A side of a rule with the values of its variables, in the grammar of examples."""

    def __init__(self, values: Mapping[str, tuple[str, Any]], reading: _Reading) -> None:
        self.values = values
        self.reading = reading

    def term(self, expr: SExpr) -> str:
        if isinstance(expr, Atom):
            return self.variable(expr) if expr.text in self.values else expr.value
        head, items = expr.head, expr.items[1:]
        if head.lower() in ELEMENTWISE and head[0].isupper():
            return f"{self.term(items[0])}({', '.join(map(self.term, items[1:]))})"
        special = _SPECIAL.get(head)
        if special is not None:
            return special(self, items)
        return f"{head}({', '.join(map(self.term, items))})"

    def variable(self, atom: Atom) -> str:
        sort, cell = self.values[atom.text]
        match sort:
            case "Dim":
                return self.reading.dim(cell)
            case "Shape":
                return self.reading.shape(cell)
            case "Dims":
                return f"[{', '.join(map(self.reading.dim, cell))}]"
            case "Axes":
                return f"[{', '.join(map(str, cell))}]"
            case "T":
                return self.reading.name(cell)
        return str(cell)


_SPECIAL: Mapping[str, Callable[[_Shown, Sequence[SExpr]], str]] = {
    "Sh": lambda show, items: show.term(items[0]),
    "Num": lambda show, items: show.term(items[0]),
    "vec-of": lambda show, items: f"[{', '.join(map(show.term, items))}]",
    "vec-empty": lambda show, items: "[]",
    "Nil": lambda show, items: "",
    "Cons": lambda show, items: ", ".join(text for text in map(show.term, items) if text),
    "ShapeOf": lambda show, items: f"shape({show.term(items[0])})",
    "Zeros": lambda show, items: "zeros",
    "Ones": lambda show, items: "ones",
}
