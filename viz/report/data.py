"""What a report shows, as plain data for its script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from egshape.errors import EgshapeError
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ops import REGISTRY
from egshape.report import AdviceTable, Step
from egshape.sizes import shape_sources
from egshape.viz.dot import Cluster, Edge, Item, Node, Picture, line, opening
from egshape.viz.graph import Drawing, Look
from egshape.viz.look import Sizes, attribute, clipped
from egshape.viz.plan import kernel_of
from egshape.viz.result import Fate, fates

if TYPE_CHECKING:
    from egshape.api import Result

Json = dict[str, Any]
_LONG = 400


def report_data(
    result: Result, advice: AdviceTable | None = None, profile: Iterable[Mapping[str, Any]] | None = None
) -> Json:
    """Everything that the page shows. ``profile``: rows of a run-time profile, all with the same keys."""
    sizes = Sizes(result.optimized.sizes.normal_form)
    told = fates(result)
    before = Drawing(result.source, Look(True, status={op: fate.status for op, fate in told.items()}), sizes)
    after = Drawing(result.graph, Look(True), sizes)
    report = result.report
    return {
        "model": report.model,
        "status": report.status,
        "notes": list(report.notes),
        "count": {"before": report.ops.before.total, "after": report.ops.after.total},
        "kinds": _kinds(result),
        "graphs": {"before": _views(before), "after": _views(after)},
        "info": {"before": _infos(result.source, before, told, after), "after": _infos(result.graph, after, {}, None)},
        "twins": _twins(result, before, after),
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
        "kernels": _kernels(result.graph, after),
    }


def _kernels(graph: Graph, drawing: Drawing) -> dict[str, list[str]]:
    """The nodes of each kernel of the compiled result by its name; none if the result cannot be compiled."""
    try:
        found = kernel_of(graph)
    except EgshapeError:
        return {}
    out: dict[str, list[str]] = {}
    for op in graph.ops:
        if op in found:
            out.setdefault(found[op].name, []).append(drawing.ids[op])
    return out


def _kinds(result: Result) -> list[tuple[str, int, int]]:
    """Ops by name before and after, those that changed most first."""
    before, after = result.report.ops.before.by_name, result.report.ops.after.by_name
    rows = [(name, before.get(name, 0), after.get(name, 0)) for name in {**before, **after}]
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
            "matches": matches[name],
            "count": united[name].count if name in united else 0,
            "seconds": united[name].seconds if name in united else 0.0,
            "removed": reasons[name],
        }
        for name in names
    ]
    return sorted(rows, key=lambda row: (-row["removed"], -row["count"], -row["matches"], row["rule"]))


def _steps(why: Iterable[Step]) -> list[Json]:
    return [{"rule": step.rule, "from": list(step.from_), "to": step.to, "location": step.location} for step in why]


# -- graphs in pieces --------------------------------------------------------------------------------------------------


def _views(drawing: Drawing) -> dict[str, Json]:
    """The graph with all its ops and, where that is less, without those that only compute sizes."""
    views = {"all": _pieces(drawing)}
    if drawing.code:
        data = Drawing(drawing.graph, Look(False, status=drawing.look.status), drawing.sizes)
        views["data"] = _pieces(data)
    return views


def _pieces(drawing: Drawing) -> Json:
    """A graph as DOT in pieces, from which the page makes the whole or the surroundings of a node."""
    items = tuple(drawing.items())
    edges: list[tuple[str, str, str]] = []
    body = _split(items, edges)
    return {
        "head": "\n".join(Picture(drawing.graph.name, ()).head()),
        "body": body,
        "edges": edges,
        "notes": drawing.notes(),
    }


def _split(items: Iterable[Item], edges: list[tuple[str, str, str]]) -> list[Any]:
    """Nodes as [id, DOT], clusters as {open, body}; edges go to a list of their own."""
    out: list[Any] = []
    for item in items:
        match item:
            case Node():
                out.append([item.id, line(item)])
            case Edge():
                edges.append((item.tail, item.head, line(item)))
            case Cluster():
                out.append({"open": opening(item), "body": _split(item.items, edges)})
    return out


# -- what is told of each node -----------------------------------------------------------------------------------------


def _infos(graph: Graph, drawing: Drawing, told: Mapping[Op, Fate], after: Drawing | None) -> dict[str, Json]:
    sources = shape_sources(graph.body)
    readers: dict[Value, list[str]] = {}
    for op in graph.body.walk():
        for value in dict.fromkeys(op.operands):
            readers.setdefault(value, []).append(drawing.ids[op])
    out: dict[str, Json] = {}
    for value in graph.inputs:
        out[drawing.ids[value]] = _value_info(value, "input", drawing, sources, readers)
    for op in graph.body.walk():
        fate = told.get(op, Fate("kept"))
        out[drawing.ids[op]] = {
            "kind": "op",
            "op": op.name,
            "doc": REGISTRY[op.name].doc,
            "location": str(op.location),
            "code": op in drawing.code,
            "attrs": _attrs(op),
            "values": [_value(value, drawing, sources) for value in op.results],
            "operands": [_operand(value, drawing) for value in op.operands],
            "readers": list(dict.fromkeys(each for value in op.results for each in readers.get(value, ()))),
            "status": fate.status if after is not None else "",
            "why": _steps(fate.why),
            "stands": fate.stands,
        }
        for region in op.regions:
            for value in region.args:
                out[drawing.ids[value]] = _value_info(value, f"argument of {op.name}", drawing, sources, readers)
    for place, (name, value) in enumerate(zip(graph.output_names, graph.outputs, strict=True)):
        out[f"{drawing.look.prefix}out{place}"] = {
            "kind": "output",
            "op": "output",
            "values": [{**_value(value, drawing, sources), "name": name}],
            "operands": [_operand(value, drawing)],
            "readers": [],
        }
    return out


def _value_info(
    value: Value, kind: str, drawing: Drawing, sources: Mapping[str, str], readers: Mapping[Value, list[str]]
) -> Json:
    return {
        "kind": "input" if kind == "input" else "argument",
        "op": kind,
        "values": [_value(value, drawing, sources)],
        "operands": [],
        "readers": readers.get(value, []),
    }


def _value(value: Value, drawing: Drawing, sources: Mapping[str, str]) -> Json:
    """A value: its type as pieces of text with their colours, and where each size comes from."""
    shape = value.type.shape
    dims = (
        []
        if shape is None
        else [
            {
                "size": str(dim),
                "colour": drawing.sizes.colour(dim),
                "symbols": sorted(dim.symbols()),
                "from": [sources.get(name, name) for name in sorted(dim.symbols())],
                "equal": _equal(str(dim), str(drawing.sizes.form(dim))),
            }
            for dim in shape
        ]
    )
    return {"name": value.name, "dtype": value.type.dtype, "ranked": shape is not None, "dims": dims}


def _equal(written: str, form: str) -> str:
    """The form by which an equal size is known, where it is another one."""
    return form if form != written else ""


def _operand(value: Value, drawing: Drawing) -> Json:
    op = drawing.made_by.get(value)
    node = drawing.ids[op] if op is not None else drawing.ids.get(value, "")
    shown = attribute(op.attrs["value"]) if op is not None and op.name == "constant" else ""
    return {"name": value.name, "type": str(value.type), "node": node, "constant": shown}


def _attrs(op: Op) -> list[tuple[str, str]]:
    return (
        [(key, clipped(attribute(value), _LONG)) for key, value in op.attrs.items() if value not in ((), None)]
        if op.name != "constant"
        else [("value", clipped(attribute(op.attrs["value"]), _LONG))]
    )


def _twins(result: Result, before: Drawing, after: Drawing) -> dict[str, str]:
    """The node of the result that computes what each node of the original computed."""
    standing = {} if result.unchanged else result.optimized.outcome.standing
    out: dict[str, str] = {}
    for value, node in _nodes(result.source.body, before):
        new = standing.get(value)
        found = _node_of(new, after) if new is not None else None
        if found is not None:
            out.setdefault(node, found)
    for one, two in zip(result.source.inputs, result.graph.inputs, strict=True):
        out[before.ids[one]] = after.ids[two]
    for place in range(len(result.source.outputs)):
        out[f"out{place}"] = f"out{place}"
    return out


def _nodes(block: Block, drawing: Drawing) -> Iterator[tuple[Value, str]]:
    for op in block.walk():
        for value in op.results:
            yield value, drawing.ids[op]


def _node_of(value: Value, drawing: Drawing) -> str | None:
    op = drawing.made_by.get(value)
    return drawing.ids[op] if op is not None else drawing.ids.get(value)
