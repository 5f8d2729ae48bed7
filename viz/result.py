"""What pictures and reports show of a result: what became of each op, and which sizes are equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from egshape.ir.graph import Op
from egshape.report import CheckRow, Step, ValueExplanation
from egshape.viz.dot import Cluster, Edge, Item, Picture
from egshape.viz.graph import Drawing, Look, Status, legend
from egshape.viz.look import Sizes, clipped

if TYPE_CHECKING:
    from egshape.api import Result


@dataclass(frozen=True)
class Fate:
    """What became of an op of the original graph, the reasons, and the text of the op that stands for it."""

    status: Status
    why: tuple[Step, ...] = ()
    stands: str | None = None


def fates(result: Result) -> dict[Op, Fate]:
    """The fate of every op of the original graph that is not in the result as it was."""
    removed: dict[str, ValueExplanation] = {each.value.removeprefix("%"): each for each in result.explain_removed()}
    checks: dict[str, CheckRow] = {row.location: row for row in result.report.checks if row.status == "proved"}
    out: dict[Op, Fate] = {}
    for op in result.source.body.walk():
        if op.results and op.results[0].name in removed:
            told = removed[op.results[0].name]
            out[op] = Fate("rewritten" if told.status == "rewritten" else "gone", told.why, told.stands)
        elif op.name == "check" and not result.unchanged and str(op.location) in checks:
            out[op] = Fate("gone", checks[str(op.location)].why)
    return out


def statuses(result: Result) -> dict[Op, Status]:
    """The same, the status only."""
    return {op: fate.status for op, fate in fates(result).items()}


def before_and_after(result: Result, shape_code: bool | None = None) -> Picture:
    """Both graphs side by side in one picture, in one set of colours: ops of the original that are not in the result
    are struck out, and input axes that were found equal are linked."""
    sizes = Sizes(result.optimized.sizes.normal_form)
    before = Drawing(result.source, Look(shape_code, status=statuses(result), prefix="b_"), sizes)
    after = Drawing(result.graph, Look(shape_code, prefix="a_"), sizes)
    items: list[Item] = [
        Cluster(
            name,
            {
                "label": "\n".join([f"{name}: {total} {result.changes.unit}", *drawing.notes()]),
                "style": "rounded",
                "color": "#c5cbd3",
                "margin": "14",
            },
            tuple(drawing.items()),
        )
        for name, drawing, total in (
            ("before", before, result.changes.totals[0]),
            ("after", after, result.changes.totals[1]),
        )
    ]
    drawn = {node.id for node in Picture("", tuple(items)).nodes()}
    links = (edge for edge in equal_inputs(result, before, sizes) if {edge.tail, edge.head} <= drawn)
    items = [*legend(sizes), *items, *links]
    return Picture(result.source.name, tuple(items), {"label": result.source.name, "labelloc": "t"})


def equal_inputs(result: Result, drawing: Drawing, sizes: Sizes) -> Iterator[Edge]:
    """A dotted line between inputs for each two axes that were found equal though the model does not say so."""
    inputs = {value.name: value for value in result.source.inputs}
    for a, b, why in result.report.equalities:
        one, two = inputs[a.rpartition(".")[0]], inputs[b.rpartition(".")[0]]
        if one is two:
            continue
        axis = int(b.rpartition(".")[2])
        colour = sizes.colour(two.type.dims[axis])
        rule = why[0].rule if why else ""
        label = clipped(f"{a} = {b}" + (f" ({rule})" if rule else ""))
        yield Edge(
            drawing.ids[one],
            drawing.ids[two],
            {
                "style": "dotted",
                "penwidth": "1.6",
                "arrowhead": "none",
                "constraint": "false",
                "label": label,
                "color": colour,
                "fontcolor": colour,
            },
        )
