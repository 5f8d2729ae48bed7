"""Graphviz's language: the parts of a picture, its text, and rendering by the ``dot`` program."""

from __future__ import annotations

import html
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from egshape.errors import EgshapeError, MissingDependency

RENDER_SECONDS = 60.0
"""How long ``dot`` may take for one picture."""

_DOT = "dot"
NO_DOT = (
    "install Graphviz (https://graphviz.org/download) so that its program dot is on the path, or write .dot; "
    ".html, the report of a model, needs no program, nor .svg of --stage input or output"
)


class Html(str):
    """A label in Graphviz's HTML-like markup; other texts are quoted."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A box: its id, unique in the picture, and Graphviz attributes."""

    id: str
    attrs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between two nodes by their ids."""

    tail: str
    head: str
    attrs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A frame around items."""

    id: str
    attrs: Mapping[str, str]
    items: tuple[Item, ...]


Item: TypeAlias = Node | Edge | Cluster


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole picture; the defaults of nodes and edges are the house style."""

    name: str
    items: tuple[Item, ...]
    attrs: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def lines(self) -> Iterator[str]:
        """The DOT text, line by line."""
        yield from self.head()
        for item in self.items:
            yield from _lines(item, "  ")
        yield "}"

    def head(self) -> Iterator[str]:
        """The lines before the items."""
        yield f"digraph {quoted(self.name)} {{"
        yield f"  graph [{attributes({**_GRAPH, **self.attrs})}];"
        yield f"  node [{attributes(_NODE)}];"
        yield f"  edge [{attributes(_EDGE)}];"

    def nodes(self) -> Iterator[Node]:
        """Every node, clusters looked into."""
        yield from (item for item in flat(self.items) if isinstance(item, Node))


_HELVETICA = 'fontname="Helvetica"'
_ALIKE = 'fontname="Helvetica,Arial,Liberation Sans,sans-serif"'
"""Fonts of the same widths, of which a machine has one as a rule: labels that are measured where a picture is laid out
then fit where it is shown. The WebAssembly build knows the widths of Helvetica by itself, and only by that name."""

# nslimit and mclimit bound the search for a layout: without them a graph of some hundred ops takes minutes.
_GRAPH = {
    "rankdir": "TB",
    "fontname": "Helvetica",
    "fontsize": "13",
    "nodesep": "0.22",
    "ranksep": "0.32",
    "nslimit": "3",
    "nslimit1": "3",
    "mclimit": "0.4",
    "bgcolor": "white",
}
_NODE = {
    "shape": "box",
    "style": "rounded,filled",
    "fillcolor": "#eaf2fb",
    "color": "#5b7fa6",
    "fontname": "Helvetica",
    "fontsize": "11",
    "margin": "0.09,0.05",
    "height": "0.2",
}
_EDGE = {"fontname": "Helvetica", "fontsize": "9", "arrowsize": "0.6", "color": "#5f6b7a"}


def flat(items: Iterable[Item]) -> Iterator[Item]:
    """The items and those inside of clusters."""
    for item in items:
        yield item
        if isinstance(item, Cluster):
            yield from flat(item.items)


def line(item: Node | Edge) -> str:
    """The DOT text of a node or an edge."""
    name = quoted(item.id) if isinstance(item, Node) else f"{quoted(item.tail)} -> {quoted(item.head)}"
    return f"{name} [{attributes(item.attrs)}];" if item.attrs else f"{name};"


def opening(cluster: Cluster) -> str:
    """The DOT text that opens a cluster; ``}`` closes it."""
    return f"subgraph {quoted('cluster_' + cluster.id)} {{ graph [{attributes(cluster.attrs)}];"


def _lines(item: Item, indent: str) -> Iterator[str]:
    if not isinstance(item, Cluster):
        yield indent + line(item)
        return
    yield indent + opening(item)
    for inner in item.items:
        yield from _lines(inner, indent + "  ")
    yield indent + "}"


def attributes(attrs: Mapping[str, str]) -> str:
    """``a=b, c="d"``: every value is quoted, or markup."""
    return ", ".join(
        f"{key}=<{value}>" if isinstance(value, Html) else f"{key}={quoted(value)}" for key, value in attrs.items()
    )


def quoted(text: str) -> str:
    """A text in double quotes; line breaks become centred lines."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{_printable(escaped)}"'


def escaped(text: str) -> str:
    """A text inside of markup. Brackets too: Graphviz 2.43 refuses markup in which one follows a tag."""
    return html.escape(_printable(text), quote=True).replace("[", "&#91;").replace("]", "&#93;")


def _printable(text: str) -> str:
    """Control characters, which neither DOT nor SVG can hold, as question marks."""
    return "".join(c if c >= " " or c in "\n\t" else "?" for c in text)


def has_dot() -> bool:
    """Whether pictures can be rendered here: Graphviz's program ``dot``."""
    return shutil.which(_DOT) is not None


def needs_dot(format: str) -> None:
    """Raises MissingDependency where a picture of a format cannot be rendered here: before work is done for it."""
    if not has_dot():
        raise MissingDependency(f"drawing .{format} needs Graphviz's program dot", hint=NO_DOT)


def render(dot: str, format: Literal["svg", "png"], seconds: float = RENDER_SECONDS) -> bytes:
    """The picture that Graphviz's ``dot`` makes of a DOT text.

    Raises MissingDependency where the program is missing, EgshapeError where it fails or takes
    longer than ``seconds``."""
    needs_dot(format)
    command = [_DOT, f"-T{format}", *(["-Gdpi=110"] if format == "png" else [])]
    try:
        text = dot.replace(_HELVETICA, _ALIKE).encode()
        done = subprocess.run(command, input=text, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise EgshapeError(
            f"dot did not lay the picture out in {seconds:.0f} s",
            code="render",
            hint="draw a part of it (--around V --hops N), or write .dot",
        ) from error
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise EgshapeError(
            f"dot failed: {said[-1] if said else f'exit code {done.returncode}'}",
            code="render",
            hint="write .dot to see what it was given",
        )
    return done.stdout
