"""What Jupyter shows of a graph, a result, a proof, an explanation: short text, with a picture where it can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice

from egshape.api import Result
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.measure import counted
from egshape.prove.proof import Proof
from egshape.report import Explanation, ValueExplanation
from egshape.viz import dot, graph, why
from egshape.viz.dot import Picture
from egshape.viz.result import before_and_after

LARGEST = 150
"""Graphs with more ops are shown as text: `egshape viz` draws them."""
_LINES = 40
_STYLE = "border-collapse:collapse;font-size:13px"
_CELL = "text-align:left;padding:2px 14px 2px 0"


def html(thing: object) -> str:
    """HTML for a graph, a result, a proof or an explanation. Raises TypeError for anything else."""
    if isinstance(thing, Graph):
        return "".join(_graph(thing))
    if isinstance(thing, Result):
        return "".join(_result(thing))
    if isinstance(thing, Proof | Explanation | ValueExplanation):
        return "".join(_reasons(thing))
    raise TypeError(f"a {type(thing).__name__} is not shown")


def _graph(shown: Graph) -> Iterator[str]:
    ops = sum(1 for _ in shown.body.walk())
    yield (
        f"<b>{escape(shown.name)}</b>: {counted(shown)}, {_count(len(shown.inputs), 'input')}, "
        f"{_count(len(shown.outputs), 'output')}"
    )
    yield _drawn(graph.picture(shown), ops) or _text(str(shown))


def _result(result: Result) -> Iterator[str]:
    report = result.report
    head, *rest = report.summary(changes=result.changes)
    yield f"<b>{escape(head)}</b>"
    rows = [[cell for cell in line.replace("->", " ").split() if cell] for line in rest if "->" in line]
    yield _table((result.changes.unit, "before", "after"), rows)
    yield from (f"<div>{escape(line)}</div>" for line in rest if "->" not in line)
    yield from (f"<div>note: {escape(note)}</div>" for note in report.notes)
    picture = _drawn(before_and_after(result), report.ops.before.total)
    yield f"<details><summary>before and after</summary>{picture or _text(str(result.graph))}</details>"


def _reasons(told: Proof | Explanation | ValueExplanation) -> Iterator[str]:
    if isinstance(told, ValueExplanation):
        yield f"<b>{escape(told.value)} ({escape(told.op)}) is {told.status}</b>"
    else:
        asked = told.goal if isinstance(told, Proof) else f"{told.a} == {told.b}" if told.b else told.a
        yield f"<b>{escape(asked)}: {told.status}</b>"
        if told.counterexample:
            sizes = ", ".join(f"{name} = {size}" for name, size in told.counterexample.items())
            yield f"<div>false at {escape(sizes)}</div>"
        if told.missing:
            yield f"<div>would follow from <code>{escape(told.missing)}</code></div>"
        if told.clash:
            yield f"<div>these cannot all hold: {escape('; '.join(told.clash))}</div>"
    if told.why:
        rows = [(step.to, step.rule, " and ".join(step.from_)) for step in told.why]
        yield _table(("follows", "by", "from"), rows)
        picture = _drawn(why.picture(told), len(told.why))
        yield f"<details><summary>picture</summary>{picture}</details>" if picture else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _drawn(picture: Picture, parts: int) -> str:
    """The picture as SVG; "" where it would be too large to read, or nothing here can lay it out."""
    if parts > LARGEST or not dot.has_dot():
        return ""
    try:
        text = dot.render(str(picture), "svg", seconds=10).decode()
    except EgshapeError:
        return ""
    return f'<div style="overflow:auto;max-height:700px">{text[text.index("<svg") :]}</div>'


def _text(text: str) -> str:
    lines = text.splitlines()
    more = f"\n... {len(lines) - _LINES} more lines" if len(lines) > _LINES else ""
    body = "\n".join(line if len(line) <= 160 else line[:159] + "…" for line in islice(lines, _LINES))
    return f'<pre style="font-size:12px">{escape(body + more)}</pre>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="{_CELL}">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"

    return f'<table style="{_STYLE}">{row(heads, "th")}{"".join(row(cells, "td") for cells in rows)}</table>'
