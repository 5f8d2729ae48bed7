"""What a report shows, as plain data for its script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from egshape.egraph.program import preludes
from egshape.errors import EgshapeError
from egshape.ir.graph import Op
from egshape.measure import MOST_OPS
from egshape.ops import REGISTRY
from egshape.reasons.steps import ELEMENTS, KINDS, READER, SAME_TERM, UNREAD
from egshape.report import AdviceTable, Changes, Step, without_constants
from egshape.rulelang.loader import load_rulesets, shipped_rulesets
from egshape.sizes import shape_sources
from egshape.viz.look import Sizes, clipped
from egshape.viz.plan import kernel_of
from egshape.viz.report.arrange import Arranged
from egshape.viz.report.boxes import Box, Boxes, boxes_of
from egshape.viz.report.items import Items, detail
from egshape.viz.report.tables import Tables
from egshape.viz.report.theme import NARROW, WIDE
from egshape.viz.report.twins import Twins
from egshape.viz.result import Fate, fates

if TYPE_CHECKING:
    from egshape.api import Result

Json = dict[str, Any]

_PLAINLY = {
    READER: "no longer reads what is gone",
    UNREAD: "nothing needs it any more",
    ELEMENTS: "the sizes that it computes are known",
    SAME_TERM: "is the same as another op",
}
"""What steps state that are no rules, in short."""
_LONG = 400
SMALL = 60
"""A graph of at most this many boxes is shown with its shape code at first."""
_EDGE = 22.0
"""Width of both edges of a box, in pixels."""
_NARROWEST, _WIDEST = 64.0, 250.0
_LINE, _BORDER = 15.0, 12.0


def report_data(
    result: Result, advice: AdviceTable | None = None, profile: Iterable[Mapping[str, Any]] | None = None
) -> Json:
    """Everything that the page shows. ``profile``: rows of a run-time profile, all with the same keys."""
    sizes = Sizes(result.optimized.sizes.normal_form)
    told = fates(result)
    sources = {**shape_sources(result.graph.body), **shape_sources(result.source.body)}
    tables = Tables(sizes, sources)
    before = boxes_of(result.source)
    after = boxes_of(result.graph, like=before)
    items = {"before": Items(before, tables, told), "after": Items(after, tables, {})}
    twins = Twins(result, items["before"], items["after"])
    items["before"].became = twins.became
    sides = {"before": side(before, items["before"], tables), "after": side(after, items["after"], tables)}
    _mark_new(sides["after"]["items"], twins.rows, sides["before"]["items"])
    report, changes = result.report, result.changes
    small = sum(1 for _ in result.graph.body.walk()) <= MOST_OPS
    shown = {name for side in sides.values() for row in side["items"] if (name := row.get("op")) is not None}
    return {
        "model": report.model,
        "status": report.status,
        "notes": list(report.notes),
        "unit": changes.unit,
        "count": dict(zip(("before", "after"), changes.totals, strict=True)),
        "code": len(before.every) <= SMALL,
        "kinds": _kinds(changes),
        "sides": sides,
        "twins": twins.rows,
        "sizes": tables.sizes,
        "types": tables.types,
        "steps": tables.steps,
        "texts": tables.texts,
        "about": _about({step.rule for fate in told.values() for step in fate.why}),
        "docs": {name: doc for name in sorted(shown) if (doc := _doc(tables.texts[name]))},
        "legend": [
            [str(form), colour, [str(each) for each in sizes.written[form] if each is not form]]
            for form, colour in sizes.colours.items()
        ],
        "symbols": [each.model_dump(mode="json") for each in report.symbols],
        "assumed": list(result.facts.assumed),
        "equalities": [{"a": a, "b": b, "why": _steps(why)} for a, b, why in report.equalities],
        "checks": [
            {
                "text": row.text,
                "message": clipped(row.message, _LONG),
                "location": row.location,
                "status": row.status,
                "why": _steps(row.why),
            }
            for row in report.checks
        ],
        "advice": advice.model_dump(mode="json") if advice is not None else None,
        "rules": _rules(result, told),
        "growth": [
            [step.ruleset, step.before, step.nodes, step.rule, step.seconds] for step in result.optimized.outcome.steps
        ],
        "stages": [[stage.name, stage.seconds] for stage in report.stages],
        "profile": [dict(row) for row in profile] if profile is not None else None,
        "kernels": _kernels(result, items["after"], after) if small or profile is not None else {},
    }


def _doc(name: str) -> str:
    """What is said of an op; nothing of one that only stands for a program with a name of its own."""
    return REGISTRY[name].doc if name in REGISTRY and REGISTRY[name].traits.regions != "once" else ""


def _about(names: Collection[str]) -> dict[str, str]:
    """What rules and other reasons state, by name; nothing of a rule of a file that is not shipped."""
    if not names:
        return {}
    stated = {name: kind.about for name, kind in KINDS.items()} | _PLAINLY
    loaded = load_rulesets(shipped_rulesets(), provenance=False, preludes=preludes())
    stated |= {rule.name: rule.comment for rule in loaded.rules}
    return {name: stated[name] for name in sorted(names) if stated.get(name)}


def side(boxes: Boxes, items: Items, tables: Tables) -> Json:
    """A graph: what is told of its boxes and constants, and its views. The graph with all its boxes and, where that is
    less, without those that only compute sizes."""
    rows = items.rows()

    def size(box: Box) -> tuple[float, float]:
        return _size(box, rows[items.number[box]], tables)

    views = {"all": Arranged(boxes, lambda box: True, size).data(lambda box: items.number[box])}
    if any(box.code for box in boxes.every):
        views["data"] = Arranged(boxes, lambda box: not box.code, size).data(lambda box: items.number[box])
    return {"items": rows, "views": views}


def _size(box: Box, row: Json, tables: Tables) -> tuple[float, float]:
    """Width and height of a box: a title, an attribute, a type."""
    values = box.gives or box.reads[:1]
    type = tables.short(values[0].type) if values and box.kind != "end" else ""
    said = [(box.title, WIDE), (detail(box), NARROW), (type, NARROW)]
    lines = [(text, letter) for text, letter in said if text]
    width = max((len(text) * letter for text, letter in lines), default=0.0) + _EDGE
    return round(min(_WIDEST, max(_NARROWEST, width)), 1), _BORDER + _LINE * len(lines)


def _mark_new(rows: list[Json], twins: Mapping[int, int], before: list[Json]) -> None:
    """Boxes of the result that are not what stood in the original: changed, or new."""
    kept = {new: before[old].get("status", "") for old, new in twins.items() if before[old].get("status") != "gone"}
    for number, row in enumerate(rows):
        status = kept.get(number, "new") if row["kind"] == "op" else ""
        if status:
            row["status"] = status


def _kernels(result: Result, items: Items, boxes: Boxes) -> dict[str, list[int]]:
    """The boxes of each kernel of the compiled result by its name; none if the result cannot be compiled."""
    try:
        found = kernel_of(result.graph)
    except EgshapeError:
        return {}
    out: dict[str, dict[int, None]] = {}
    for op in result.graph.ops:
        if op in found and op in boxes.of:
            out.setdefault(found[op].name, {}).setdefault(items.number[boxes.of[op]])
    return {name: list(rows) for name, rows in out.items()}


def _kinds(changes: Changes) -> list[tuple[str, int, int]]:
    """The parts of the model by kind before and after, constants left out, those that changed most first."""
    old, new = without_constants(changes.before), without_constants(changes.after)
    rows = [(name, old.get(name, 0), new.get(name, 0)) for name in {**old, **new}]
    return sorted(rows, key=lambda row: (row[2] - row[1], -row[1], row[0]))


def _rules(result: Result, told: Mapping[Op, Fate]) -> list[Json]:
    """Each rule: how often it matched and how often it united two values, the seconds of the steps in which it matched
    most, and for how many removed ops it is a reason; those that removed most first."""
    reasons = Counter(rule for fate in told.values() for rule in {step.rule for step in fate.why})
    united = {row.rule: row for row in result.report.rewrites}
    matches = result.optimized.outcome.matches
    names = [*united, *(rule for rule, count in matches.items() if count and rule not in united)]
    rows = [
        {
            "rule": name,
            "matches": matches.get(name, 0),
            "count": united[name].count if name in united else 0,
            "seconds": united[name].seconds if name in united else 0.0,
            "removed": reasons[name],
        }
        for name in names
    ]
    return sorted(rows, key=lambda row: (-row["removed"], -row["count"], -row["matches"], row["rule"]))


def _steps(why: Iterable[Step]) -> list[Json]:
    return [{"rule": step.rule, "from": list(step.from_), "to": step.to, "location": step.location} for step in why]
