"""Every application of a rule over tensors, with what it matched and what it made, as text: what a program that keeps
applications (``tracing.py``) has in its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egshape.dims import Dim
from egshape.egraph.saturate import Saturated
from egshape.egraph.tracing import Application
from egshape.rulelang.provenance import NAME_STRIDE
from egshape.rulelang.schema import ELEMENTWISE
from egshape.rulelang.sexpr import Atom, SExpr


@dataclass(frozen=True, slots=True)
class Applied:
    """One application: of which rule, to which value ("" for a term that a rule made), with both sides as text."""

    rule: str
    value: str
    before: str
    after: str
    location: str
    place: int


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
        self.dims = saturated.describer.dims(saturated.snapshot)
        self.shapes = saturated.describer.shapes(saturated.snapshot, self.dims)

    def applied(self, application: Application, row: Sequence[Any]) -> Applied:
        values = {name: (sort, cell) for (name, sort), cell in zip(application.columns, row, strict=True)}
        node = int(values[application.root][1]) if application.root in values else -1
        known = self.encoding.op_of_node.get(node % NAME_STRIDE)
        value = self.name(node).removeprefix("%") if 0 <= node < NAME_STRIDE else ""
        show = _Shown(values, self).term
        return Applied(
            application.rule,
            value,
            show(application.before),
            show(application.after),
            str(known[1].location) if known is not None else "",
            node % NAME_STRIDE,
        )

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
