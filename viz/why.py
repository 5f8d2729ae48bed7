"""A chain of reasons as a picture: statements as boxes, rules on the arrows, from what is given to what follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from egshape.report import Explanation, ValueExplanation
from egshape.viz.dot import Edge, Html, Item, Node, Picture, escaped
from egshape.viz.look import PAPER, RESULT, clipped, small

if TYPE_CHECKING:
    from egshape.prove import Proof

_WIDE = 70
MOST = 40
"""Steps that are drawn; those after them are counted in a note."""
_Chain = Sequence[tuple[str, Sequence[str], str, str]]
"""Steps as (rule, premises, conclusion, location)."""


def picture(told: Explanation | ValueExplanation | Proof) -> Picture:
    """The picture of why sizes are equal, why a statement holds, or what became of a value.

    A statement that no step derives is given; the last one is what was asked. An answer other than "proved" shows
    what is missing, or the sizes that refute it."""
    if isinstance(told, ValueExplanation):
        chain = [(step.rule, step.from_, step.to, step.location) for step in told.why]
        title = f"{told.value} ({told.op}) is {told.status}"
        return _picture(title, chain, told.stands, "in the result: ", "LR")
    if isinstance(told, Explanation):
        chain = [(step.rule, step.from_, step.to, step.location) for step in told.why]
        asked = f"{told.a} == {told.b}" if told.b else told.a
        sizes = "".join(f"\n{name} is {size}" for name, size in told.sizes.items() if name != asked)
    else:
        chain = [(step.rule, tuple(step.from_), step.to, "") for step in told.why]
        asked, sizes = told.goal, ""
    end = None
    if told.counterexample:
        end = "false at " + ", ".join(f"{name} = {size}" for name, size in told.counterexample.items())
    elif told.missing:
        end = f"would follow from {told.missing}"
    elif told.clash:
        end = "these cannot all hold: " + "; ".join(told.clash)
    return _picture(f"{asked}: {told.status}{sizes}", chain, end, "")


def _picture(title: str, chain: _Chain, end: str | None, prefix: str, rankdir: str = "TB") -> Picture:
    if len(chain) > MOST:
        title += f"\nthe first {MOST} of {len(chain)} steps"
    attrs = {"label": title, "labelloc": "t", "ranksep": "0.45", "rankdir": rankdir}
    return Picture("why", tuple(_items(chain[:MOST], end, prefix)), attrs)


def _items(chain: _Chain, end: str | None, prefix: str) -> Iterator[Item]:
    derived = {to: f"s{place}" for place, (_, _, to, _) in enumerate(chain)}
    last = chain[-1][2] if chain else None
    given: dict[str, str] = {}
    for place, (rule, premises, to, location) in enumerate(chain):
        look = {"fillcolor": RESULT, "color": "#5c9a68", "penwidth": "2"} if to == last else {}
        if derived[to] == f"s{place}":
            yield Node(f"s{place}", {"label": clipped(to, _WIDE), **look})
        by = Html("<br/>".join([f"<i>{escaped(rule)}</i>", *([small(clipped(location, 50))] if location else [])]))
        node = f"r{place}"
        yield Node(node, {"shape": "plain", "style": "", "label": by})
        yield Edge(node, derived[to])
        for premise in dict.fromkeys(premises):
            source = derived.get(premise)
            if source is None or int(source[1:]) >= place:
                source = given.get(premise)
                if source is None:
                    source = given[premise] = f"g{len(given)}"
                    yield Node(source, {"label": clipped(premise, _WIDE), "fillcolor": PAPER, "color": "#c9a84a"})
            yield Edge(source, node, {"arrowhead": "none"})
    if end is not None:
        yield Node(
            "end",
            {
                "label": clipped(prefix + end, 2 * _WIDE),
                "fillcolor": RESULT if prefix else "#fdeccd",
                "color": "#5c9a68" if prefix else "#c98a2b",
            },
        )
        if last is not None:
            yield Edge(derived[last], "end", {"style": "dashed"})
