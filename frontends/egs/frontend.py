"""egshape's own text as a format: all of a graph, to the bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from egshape.atomic import write_atomic
from egshape.errors import EgshapeError, InvalidInput
from egshape.facts import Relation
from egshape.frontends.frontend import Cost, Forms, Writing
from egshape.ir.graph import Block, Graph, Op
from egshape.ir.text import parse_graph, print_graph
from egshape.ir.verify import verify
from egshape.ops import REGISTRY


@dataclass(frozen=True)
class Egs:
    """``.egs``: the text of ``egshape/ir/text.py``, one op a line."""

    name: str = "egs"
    forms: tuple[str, ...] = ("egs",)
    objects: str = ""

    def recognises(self, model: object) -> bool:
        """No object is its own: a Graph is what it is."""
        return False

    def begins(self, data: bytes) -> bool:
        """The word that each graph begins with."""
        return data.lstrip().startswith(b"graph ")

    def read(self, source: Path | bytes, name: str, forms: Forms | None) -> Graph:
        """The graph as it was written, verified. Raises EgshapeError with line and column, or for types that are
        not what the ops give."""
        try:
            text = (source.read_bytes() if isinstance(source, Path) else source).decode()
        except OSError as error:
            raise InvalidInput(f"cannot be read: {error.strerror}", where=str(source)) from None
        except UnicodeDecodeError:
            raise InvalidInput("is not UTF-8 text", where=name) from None
        try:
            graph = parse_graph(text)
            graph = replace(graph, body=_stated(graph.body), metadata={"format": self.name, **graph.metadata})
            verify(graph)
        except EgshapeError as error:
            place = f"{name}:{error.where}" if error.where else name
            raise type(error)(error.message, where=place, hint=error.hint, code=error.code) from None
        return graph

    def beside(self, path: Path) -> tuple[Path, ...]:
        """One file holds all."""
        return ()

    def read_object(self, model: object, forms: Forms | None, names: Sequence[str] = ()) -> Graph:
        """Never asked: it recognises nothing."""
        raise InvalidInput(f"a {type(model).__name__} is no text of a graph")

    def save(self, graph: Graph, path: Path, form: str, how: Writing) -> tuple[str, ...]:
        """All of the graph, with locations; there is no choice in how."""
        write_atomic(path, print_graph(graph, locations=True))
        return ()

    def in_part(self, graph: Graph, result: Graph) -> tuple[Graph, tuple[str, ...]] | None:
        """A program is read in one way."""
        return None

    def kinds(self, model: Graph | Path | bytes) -> tuple[str, Counter[str]]:
        """Ops, those of regions too."""
        graph = model if isinstance(model, Graph) else self.read(model, "model", None)
        return "ops", Counter(op.name for op in graph.body.walk())

    def titles(self, graph: Graph) -> Mapping[str, str]:
        """None: its ops are ours."""
        return {}

    def nodes(self, graph: Graph) -> Mapping[str, str]:
        """Its parts are ops of ours."""
        return {}

    def cost(self, graph: Graph) -> Cost:
        """Ops, those of regions too."""
        return Cost(sum(op.name != "constant" for op in graph.body.walk()), "ops")


def _stated(block: Block) -> Block:
    """The block, each op of which requires that the sizes that are written are those that it gives."""
    return replace(block, ops=tuple(map(_requiring, block.ops)))


def _requiring(op: Op) -> Op:
    op = replace(op, regions=tuple(map(_stated, op.regions)))
    if op.name not in REGISTRY:
        return op  # the verifier says so
    required: dict[Relation, None] = dict.fromkeys(op.requires)
    try:
        given = REGISTRY[op.name].inferred(op)
    except (EgshapeError, KeyError, IndexError, TypeError):
        return op  # the verifier says what is wrong, and where
    for value, (_, shape) in zip(op.results, given, strict=False):
        for inferred, written in zip(shape or (), value.type.shape or (), strict=False):
            if inferred is not None and inferred is not written:
                required[Relation("==", inferred, written, f"the type of %{value.name} as written")] = None
    return op if len(required) == len(op.requires) else replace(op, requires=tuple(required))
